#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench: berth beside the floor and beside each peer that is installed.

Runs are interleaved (drive.c): every round runs every contender once, so noise falls on all alike.  Ratios are of the
medians, to the `berth` row of the same group.  A contender that fails is reported and not counted.
Writes BUILD/bench.json and BUILD/bench.svg.
"""
import argparse
import collections
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape

import living

HERE = os.path.dirname(os.path.realpath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
GAP_US = 3000       # spun between two runs, so that the kernel's deferred clean-up of one is not charged to the next
LIMIT_S = 30

# A measure is a list of contenders over the same work, for drive.c, or a function that measures by itself (living.py).
Measure = collections.namedtuple('Measure', 'key title contenders unit sample', defaults=('ms', None))
# `argv` None: not run, for the reason in `note`.  `mntns`: a /proc/PID/ns/mnt to run in.
Contender = collections.namedtuple('Contender', 'key argv note mntns', defaults=('', '-'))
Result = living.Result
percentile = living.percentile


def missing(key):
    return Contender(key, None, 'not installed')


# ---- what the peers need ---------------------------------------------------------

class Place:
    """A scratch directory with one busybox root filesystem for all, and what else the peers ask for."""

    def __init__(self, build):
        self.build = build
        self.top = tempfile.mkdtemp(prefix='berth-bench.', dir='/var/tmp')
        os.chmod(self.top, 0o755)
        self.rootfs = os.path.join(self.top, 'rootfs')
        self.holder = self.net = None
        busybox = shutil.which('busybox')
        if not busybox or 'statically' not in self.say('file', '-L', busybox):
            sys.exit('bench: needs a static busybox; hint: apt-get install busybox-static file')
        for d in ('bin', 'proc', 'sys', 'dev', 'tmp', 'etc', 'run', 'usr', 'workspace'):
            os.makedirs(os.path.join(self.rootfs, d))
        shutil.copy(busybox, os.path.join(self.rootfs, 'bin/busybox'))
        for name in ('true', 'sh', 'cat', 'sleep', 'rm'):
            os.symlink('busybox', os.path.join(self.rootfs, 'bin', name))

    @staticmethod
    def say(*argv):
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout

    def bundle(self, name, tool, change):
        """An OCI bundle with the tool's own default configuration, but for what must differ."""
        d = os.path.join(self.top, name)
        os.mkdir(d)
        subprocess.run([tool, 'spec'], cwd=d, check=True)
        path = os.path.join(d, 'config.json')
        with open(path) as f:
            config = json.load(f)
        config['process'].update(terminal=False, args=['/bin/true'])
        config['root']['path'] = self.rootfs
        change(config)
        with open(path, 'w') as f:
            json.dump(config, f)
        return d

    def cgroup2_mntns(self):
        """A mount namespace whose /sys/fs/cgroup is cgroup v2 alone, held by a process that ends with us."""
        script = 'mount -t cgroup2 cgroup2 /sys/fs/cgroup && echo ready && exec sleep infinity'
        self.holder = subprocess.Popen(['unshare', '-m', '--propagation', 'private', 'setpriv', '--pdeathsig', 'KILL',
                                        'sh', '-c', script], stdout=subprocess.PIPE)
        if self.holder.stdout.readline() != b'ready\n':
            return '-'
        return f'/proc/{self.holder.pid}/ns/mnt'

    def network(self):
        """--net=... of a namespace that forwards, held by a process that ends with us."""
        script = 'ip link set lo up && echo 1 >/proc/sys/net/ipv4/ip_forward && echo ready && exec sleep infinity'
        self.net = subprocess.Popen(['unshare', '-n', 'setpriv', '--pdeathsig', 'KILL', 'sh', '-c', script], stdout=subprocess.PIPE)
        return f'--net=/proc/{self.net.pid}/ns/net' if self.net.stdout.readline() == b'ready\n' else None

    def close(self):
        for holder in (self.holder, self.net):
            if holder:
                holder.kill()
                holder.wait()
        shutil.rmtree(self.top, ignore_errors=True)


def drop_resources(config):
    config['linux'].pop('resources', None)


def runc(place):
    tool = shutil.which('runc')
    if not tool:
        return missing('runc')
    return Contender('runc', [tool, 'run', '-b', place.bundle('runc', tool, lambda c: None), '%n'])


def crun(place):
    """On a hybrid host crun wants a pure v2 tree, and without the right to raise RLIMIT_MEMLOCK no device rules."""
    tool = shutil.which('crun')
    if not tool:
        return missing('crun')
    hybrid = not os.path.exists('/sys/fs/cgroup/cgroup.controllers')
    argv = [tool, 'run', '-b', place.bundle('crun', tool, drop_resources), '%n']
    note = 'no limits or device rules' + (', in a mount namespace with cgroup v2' if hybrid else '')
    return Contender('crun', argv, note, place.cgroup2_mntns() if hybrid else '-')


def bwrap(place):
    tool = shutil.which('bwrap')
    if not tool:
        return missing('bwrap')
    return Contender('bwrap', [tool, '--unshare-all', '--bind', place.rootfs, '/', '--proc', '/proc', '--dev', '/dev',
                               '/bin/true'], '--unshare-all, no limits')


def nsjail(place):
    tool = shutil.which('nsjail')
    if not tool:
        return missing('nsjail')
    return Contender('nsjail', [tool, '-Mo', '--really_quiet', '--chroot', place.rootfs, '--', '/bin/true'])


def unshare(place):
    tool = shutil.which('unshare')
    if not tool:
        return missing('unshare')
    return Contender('unshare', [tool, '--user', '--map-root-user', '--pid', '--fork', '--mount', '--net', '--ipc', '--uts',
                                 '--cgroup', '--root=' + place.rootfs, '--mount-proc=/proc', '/bin/true'],
                     'no overlay, no limits')


def engine(tool, place):
    """podman and docker: only where they work, and with the image already there."""
    path = shutil.which(tool)
    if not path:
        return missing(tool)
    if subprocess.run([path, 'info'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT_S).returncode:
        return Contender(tool, None, 'installed, but `%s info` fails' % tool)
    image = 'berth-bench:latest'
    tar = subprocess.Popen(['tar', '-C', place.rootfs, '-cf', '-', '.'], stdout=subprocess.PIPE)
    done = subprocess.run([path, 'import', '-', image], stdin=tar.stdout, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True)
    if tar.wait() or done.returncode:
        return Contender(tool, None, 'import failed: ' + done.stderr.strip()[-100:])
    return Contender(tool, [path, 'run', '--rm', '--network', 'none', image, '/bin/true'])


def berth(place, key, *image_and_command):
    return Contender(key, [os.path.join(place.build, 'berth'), 'run', *image_and_command])


def floor(place, key, mode, *rootfs_and_command):
    return Contender(key, [os.path.join(place.build, 'bench/floor'), '-m', mode, *rootfs_and_command])


def run_host(place):
    true = shutil.which('true')
    return Measure('run-host', 'cold run of `true` on the image `host`', [
        berth(place, 'berth', 'host', 'true'),
        floor(place, 'floor', 'one', 'host', 'true'),
        floor(place, 'floor, overlapped', 'split', 'host', 'true'),
        Contender('no sandbox', [true], 'spawn, exec and exit of the same program'),
    ])


def run_rootfs(place):
    return Measure('run-rootfs', 'cold run of busybox `true` on a root filesystem', [
        berth(place, 'berth', place.rootfs, '/bin/true'),
        floor(place, 'floor', 'one', place.rootfs, '/bin/true'),
        floor(place, 'floor, overlapped', 'split', place.rootfs, '/bin/true'),
        unshare(place), bwrap(place), nsjail(place), crun(place), runc(place), engine('podman', place),
        engine('docker', place),
        Contender('no sandbox', [os.path.join(place.rootfs, 'bin/busybox'), 'true'], 'spawn, exec and exit of the same program'),
    ])


def networked(place):
    """
    With a network, in a namespace of the bench's own where forwarding is on: nsenter leads each of them there.  podman
    gets limits it may set here, and runc, as its crun refuses hybrid cgroups.
    """
    inside = place.network()
    if not inside:
        return Measure('run-network', 'cold run of `true` with a network', [Contender('berth', None, 'no network namespace')])

    def there(c):
        return c._replace(argv=[shutil.which('nsenter'), inside, *c.argv]) if c.argv else c

    def with_mode(key, mode):
        return there(berth(place, key, '--network', mode, place.rootfs, '/bin/true'))

    def peer(tool, *options):
        c = engine(tool, place)
        if not c.argv:
            return c
        argv = [a for a in c.argv[1:] if a not in ('--network', 'none')]
        return there(c._replace(argv=[c.argv[0], *options, argv[0], '--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1000:1000', *argv[1:]]))

    return Measure('run-network', 'cold run of busybox `true` with a bridge and NAT', [
        with_mode('berth', 'bridge'), with_mode('berth, egress', 'egress'), with_mode('berth, none', 'none'),
        peer('podman', *(['--runtime', 'runc'] if shutil.which('runc') else [])), peer('docker')])


def lives(key, title, unit, sample):
    return lambda _: Measure(key, title, [], unit, sample)


MEASURES = {'run-host': run_host, 'run-rootfs': run_rootfs, 'run-network': networked, **{m[0]: lives(*m) for m in living.MEASURES}}


# ---- running and counting ------------------------------------------------------------

def drive(place, measure, options):
    argv = [os.path.join(place.build, 'bench/drive'), str(options.rounds), str(options.warmup), str(options.gap_us),
            str(LIMIT_S)]
    err = {}
    for i, c in enumerate(measure.contenders):
        if c.argv:
            err[str(i)] = os.path.join(place.top, f'stderr.{measure.key}.{i}')
            argv += [':', str(i), c.mntns, err[str(i)], *c.argv]
    samples, failed = collections.defaultdict(list), {}
    lines = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    for line in lines:
        who, _, wall_ns, status, cpu_us = line.split()
        if status == '0':
            samples[who].append((int(wall_ns) / 1e3, int(cpu_us)))
        else:
            with open(err[who], errors='replace') as f:
                said = f.read().strip().splitlines()
            failed[who] = 'FAILED: ' + (f'no answer in {LIMIT_S} s' if status == '-1' else f'status {status}')
            failed[who] += ': ' + said[-1][:160] if said else ''
    return [result(c, samples[str(i)], failed.get(str(i))) for i, c in enumerate(measure.contenders)]


def result(contender, samples, failed):
    if failed or not samples:
        return Result(contender.key, 0, None, None, None, None, failed or contender.note)
    wall = sorted(s[0] for s in samples)
    cpu = sorted(s[1] for s in samples)
    return Result(contender.key, len(wall), percentile(wall, 50), percentile(wall, 10), percentile(wall, 99),
                  percentile(cpu, 50), contender.note)


def base_of(results):
    return next((r.median for r in results if r.key == 'berth' and r.median), None)


# ---- showing ---------------------------------------------------------------------------

def shown(measure, value):
    return f'{value / 1e3:.2f} ms' if measure.unit == 'ms' else f'{value:.0f} {measure.unit}'


def table(measure, results):
    base = base_of(results)
    lines = ['', measure.title, f'  {"":20} {"median":>11} {"p10":>11} {"p99":>11} {"cpu":>11} {"x berth":>8}']
    for r in results:
        if r.median is None:
            lines.append(f'  {r.key:20} {"-":>11} {"":11} {"":11} {"":11} {"":8}  {r.note}')
            continue
        ratio = f'{r.median / base:8.2f}' if base else ' ' * 8
        cpu = f'{r.cpu / 1e3:8.2f} ms' if r.cpu is not None else ' ' * 11
        lines.append(f'  {r.key:20} {shown(measure, r.median):>11} {shown(measure, r.p10):>11} {shown(measure, r.p99):>11} '
                     f'{cpu} {ratio}  {r.note}'.rstrip())
    return '\n'.join(lines)


def svg(groups):
    """Bars of the medians with a whisker to the 99th percentile; one block a measure, each with a scale of its own."""
    left, width, bar, gap = 170, 520, 18, 8
    out, y = [], 34
    for measure, results in groups:
        rows = [r for r in results if r.median is not None]
        if not rows:
            continue
        base, top = base_of(results), max(r.p99 for r in rows)
        out.append(f'<text class="t" x="10" y="{y}">{escape(measure.title.replace("`", ""))}</text>')
        y += 14
        for r in rows:
            w, p99, mid = width * r.median / top, left + width * r.p99 / top, y + bar / 2
            ratio = f' · {r.median / base:.2f}×' if base else ''
            kind = 'b' if r.key == 'berth' else 'f' if r.key.startswith('floor') or r.key == 'no sandbox' else 'p'
            out.append(f'<text x="{left - 8}" y="{mid + 4:.1f}" text-anchor="end">{escape(r.key)}</text>'
                       f'<rect class="{kind}" x="{left}" y="{y}" width="{w:.1f}" height="{bar}"/>'
                       f'<path class="w" d="M{left + w:.1f} {mid}H{p99:.1f}M{p99:.1f} {mid - 4}v8"/>'
                       f'<text x="{p99 + 6:.1f}" y="{mid + 4:.1f}">{shown(measure, r.median)}{ratio}</text>')
            y += bar + gap
        y += 26
    style = ('text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.b{fill:#1b6ca8}.f{fill:#9aa5ad}.p{fill:#d98e04}'
             '.w{stroke:#555;fill:none}')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 130}" height="{y}">'
            f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>'
            f'<text x="10" y="14">median; the line reaches to the 99th percentile; × is the ratio to berth</text>'
            f'{"".join(out)}</svg>\n')


def versions():
    tools = {}
    for tool in ('bwrap', 'crun', 'runc', 'nsjail', 'podman', 'docker', 'unshare'):
        if shutil.which(tool):
            said = Place.say(tool, '--version').splitlines()
            tools[tool] = said[0] if said else ''
    return tools


def report(groups, options):
    return {
        'machine': {'kernel': platform.release(), 'cpus': os.cpu_count(), 'arch': platform.machine()},
        'versions': versions(),
        'rounds': options.rounds, 'gap_us': options.gap_us,
        'measures': {m.key: {'title': m.title, 'unit': 'us' if m.unit == 'ms' else m.unit, 'results': [
            dict(r._asdict(), ratio=r.median / base_of(rs) if r.median and base_of(rs) else None) for r in rs]}
            for m, rs in groups},
    }


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', default=os.path.join(TREE, 'build'))
    p.add_argument('--rounds', type=int, default=200)
    p.add_argument('--warmup', type=int, default=5)
    p.add_argument('--gap-us', type=int, default=GAP_US, help='spun between two runs (%(default)s)')
    p.add_argument('--copy-mib', type=int, default=1024, help='size of the file that is copied (%(default)s)')
    p.add_argument('--density', type=int, nargs='+', default=[1, 100], help='how many idle sandboxes (%(default)s)')
    p.add_argument('--growth', type=int, nargs='+', default=[0, 10, 100], help='how many others while `run` is timed (%(default)s)')
    p.add_argument('--gate', metavar='WHO=RATIO', action='append', default=[],
                   help='exit 1 unless the median of berth is at most RATIO times that of WHO; may be repeated')
    p.add_argument('measure', nargs='*', choices=[[], *MEASURES], help=' '.join(MEASURES))
    options = p.parse_args()
    options.build = os.path.realpath(options.build)
    options.measure = options.measure or list(MEASURES)
    return options


def gates(groups, wanted):
    """Prints each gate and returns whether all hold; a gate that could not be measured does not hold."""
    good = True
    for gate in wanted:
        who, _, limit = gate.rpartition('=')
        for measure, results in groups:
            peer = next((r for r in results if r.key == who), None)
            if peer is None:
                continue
            base = base_of(results)
            holds = bool(base and peer.median and base / peer.median <= float(limit))
            got = f'{base / peer.median:.2f}' if base and peer.median else 'not measured'
            print(f'{"ok  " if holds else "FAIL"} {measure.key}: berth / {who} = {got}, at most {limit}')
            good = good and holds
    return good


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    place = Place(options.build)
    groups = []
    try:
        print(f'{options.rounds} interleaved rounds, Linux {platform.release()}, {os.cpu_count()} CPUs', flush=True)
        for key in options.measure:
            measure = MEASURES[key](place)
            rows = measure.sample(place, options) if measure.sample else drive(place, measure, options)
            groups.append((measure, rows))
            print(table(*groups[-1]), flush=True)
    finally:
        place.close()
    for name, text in (('bench.json', json.dumps(report(groups, options), indent=1) + '\n'), ('bench.svg', svg(groups))):
        with open(os.path.join(options.build, name), 'w') as f:
            f.write(text)
    print(f'\n{options.build}/bench.json  {options.build}/bench.svg')
    return 0 if gates(groups, options.gate) else 1


sys.exit(main())
