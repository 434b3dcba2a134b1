#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench-image: importing an image beside umoci, skopeo with umoci, podman and tar, whichever are installed.

One image of 100 MiB in 10,000 files, once in five layers and once in one.  Every round runs every contender once, each into
a fresh directory.  Two places: on memory, which shows the work alone, and on disk with `sync -f` at the end of every
contender's run (berth does that itself), which shows what a user waits for.  Ratios are of the medians, to berth.
Then: what a second sandbox of the image costs, and the peak memory at 100 MiB and at 1 GiB.  Writes BUILD/bench-image.json.
"""
import argparse
import io
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'lib'))
import ocilayout as oci  # noqa: E402


def make_layer(rng, words, name, files, total, level=6):
    """A tar of so many files and bytes, text-like: it compresses to about two thirds."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=tarfile.PAX_FORMAT) as t:
        sizes = [rng.lognormvariate(0, 1.3) for _ in range(files)]
        scale = total / sum(sizes)
        pool = b''.join(rng.choice(words) for _ in range(600000))
        for i, s in enumerate(sizes):
            d = f'usr/lib/{name}/d{i // 40}'
            if i % 40 == 0:
                info = tarfile.TarInfo(d)
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                t.addfile(info)
            info = tarfile.TarInfo(f'{d}/file{i}.py')
            info.size, info.mode, info.mtime = int(s * scale) + 1, 0o644, 1700000000 + i
            at = rng.randrange(len(pool))
            data = (pool[at:] + pool * (info.size // len(pool) + 1))[:info.size]
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def apart(work):
    """Runs work in a child: what it needs of memory must not be counted as that of what we start later (wait4(2))."""
    pid = os.fork()
    if not pid:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(pid, 0)[1]:
        sys.exit('bench: the input could not be made')


def write_layout(path, layers, rng=None, words=None, more=()):
    """layers: (name, files, bytes) each; more: tars that come first."""
    apart(lambda: oci.Layout(path).image([*more, *(make_layer(rng, words, *x) for x in layers)]))
    return path


class Bench:
    def __init__(self, build, rounds):
        self.berth = os.path.join(build, 'berth')
        self.image = os.path.join(build, 'berth-image')
        self.rounds = rounds
        self.top = tempfile.mkdtemp(prefix='bi.', dir='/var/tmp')
        self.memory = tempfile.mkdtemp(prefix='bi.', dir='/dev/shm')
        os.chmod(self.top, 0o700)
        rng = random.Random(5)
        words = [bytes(rng.randrange(256) for _ in range(rng.randrange(3, 12))) for _ in range(4000)]
        self.five = write_layout(self.top + '/five', [(f'p{k}', 2000, 20 << 20) for k in range(5)], rng, words)
        self.one = write_layout(self.top + '/one', [('one', 10000, 100 << 20)], rng, words)
        blobs = self.one + '/blobs/sha256'
        shutil.copy(max((os.path.join(blobs, n) for n in os.listdir(blobs)), key=os.path.getsize), self.top + '/one.tar.gz')
        self.rng, self.words = rng, words

    def close(self):
        shutil.rmtree(self.top, ignore_errors=True)
        shutil.rmtree(self.memory, ignore_errors=True)

    def contenders(self, layout, single):
        """name -> commands to run one after the other, for an output directory D; missing programs are left out."""
        out = {'berth': [[self.image, '--store', 'D/store', 'import', '-q', layout, 'x:t']]}
        if shutil.which('umoci'):
            out['umoci unpack'] = [['umoci', 'unpack', '--image', layout + ':t', 'D/umoci']]
            if shutil.which('skopeo'):
                out['skopeo copy, umoci unpack'] = [['skopeo', 'copy', '-q', f'oci:{layout}:t', 'oci:D/copy:t'],
                                                    ['umoci', 'unpack', '--image', 'D/copy:t', 'D/umoci']]
        if shutil.which('podman'):
            # it leaves a mount behind: in a mount namespace that goes with it
            out['podman pull'] = [['unshare', '-m', 'podman', '--root', 'D/podman', '--runroot', 'D/run', '--storage-driver', 'overlay',
                                   'pull', '-q', f'oci:{layout}:t']]
        if single:
            out['tar -xz'] = [['tar', '-C', 'D', '-xzf', self.top + '/one.tar.gz']]
        return out

    def once(self, name, commands, where, sync):
        """(wall seconds, CPU seconds, peak KiB) or None."""
        d = tempfile.mkdtemp(dir=where)
        wall, cpu, peak = 0.0, 0.0, 0
        try:
            steps = [[w.replace('D/', d + '/') if w != 'D' else d for w in c] for c in commands]
            if sync and name != 'berth':
                steps.append(['sync', '-f', d])
            for argv in steps:
                start = time.monotonic()
                p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                err = p.stderr.read()
                _, status, usage = os.wait4(p.pid, 0)
                p.returncode = os.waitstatus_to_exitcode(status)
                wall += time.monotonic() - start
                cpu += usage.ru_utime + usage.ru_stime
                peak = max(peak, usage.ru_maxrss)
                if p.returncode:
                    print(f'  {name}: {err.decode(errors="replace").strip()[-200:]}', file=sys.stderr)
                    return None
        finally:
            shutil.rmtree(d, ignore_errors=True)
        return wall, cpu, peak

    def compare(self, title, layout, single, where, sync):
        rows = {name: [] for name in self.contenders(layout, single)}
        for _ in range(self.rounds):
            for name, commands in self.contenders(layout, single).items():
                r = self.once(name, commands, where, sync)
                if r and rows[name] is not None:
                    rows[name].append(r)
                else:
                    rows[name] = None
        print(f'\n{title}\n  {"":28}{"wall":>9}{"ratio":>8}{"CPU":>9}{"ratio":>8}{"peak":>11}')
        base, out = None, {}
        for name, got in rows.items():
            if not got:
                print(f'  {name:28}   failed, not counted')
                continue
            wall, cpu = (statistics.median(r[i] for r in got) for i in (0, 1))
            peak = max(r[2] for r in got)
            base = base or (wall, cpu)
            out[name] = {'wall_s': wall, 'cpu_s': cpu, 'peak_kib': peak, 'wall_ratio': wall / base[0], 'cpu_ratio': cpu / base[1]}
            print(f'  {name:28}{wall:8.2f}s{wall / base[0]:7.2f}x{cpu:8.2f}s{cpu / base[1]:7.2f}x{peak / 1024:8.1f} MiB')
        return out

    def second_sandbox(self):
        """Bytes and time of the second and third sandbox of an image."""
        state = self.top + '/state'
        os.mkdir(state, 0o700)
        env = dict(os.environ, BERTH_STATE_DIR=state, BERTH_RUN_DIR=self.top + '/run', BERTH_CGROUP_PARENT='berth-bench-image')
        busybox = shutil.which('busybox')
        base = io.BytesIO()
        with tarfile.open(fileobj=base, mode='w') as t:
            t.add(busybox, 'bin/busybox')
            for applet in ('sh', 'true'):
                info = tarfile.TarInfo('bin/' + applet)
                info.type, info.linkname = tarfile.SYMTYPE, 'busybox'
                t.addfile(info)
        layout = write_layout(self.top + '/run-it', [('big', 10000, 100 << 20)], self.rng, self.words, [base.getvalue()])

        def say(*words):
            p = subprocess.run([self.berth, *words], env=env, capture_output=True, text=True)
            if p.returncode:
                sys.exit(f'bench: berth {" ".join(words)}: {p.stderr}')
            return p.stdout

        def du(path):
            return int(subprocess.run(['du', '-s', '-B1', path], capture_output=True, text=True, check=True).stdout.split()[0])

        say('image', 'import', layout, 'x:t')
        say('create', '--name', 'first', 'x:t')
        costs = []
        try:
            for name in ('second', 'third'):
                layers, before = du(state + '/store'), du(state + '/sandboxes')
                start = time.monotonic()
                say('create', '--name', name, 'x:t')
                took = time.monotonic() - start
                costs.append({'store_bytes': du(state + '/store') - layers, 'sandbox_bytes': du(state + '/sandboxes') - before,
                              'seconds': took})
        finally:
            for name in ('first', 'second', 'third'):
                subprocess.run([self.berth, 'rm', '-f', name], env=env, capture_output=True)
            subprocess.run([self.berth, 'gc'], env=env, capture_output=True)
        print('\na further sandbox of a 100 MiB image')
        for c in costs:
            print(f'  {c["seconds"] * 1000:.0f} ms, {c["store_bytes"]} bytes in the store, '
                  f'{c["sandbox_bytes"] / 1024:.0f} KiB for its own writable layer')
        return costs

    def peak_memory(self, gib):
        """Peak memory of the import, all its processes, at two sizes."""
        sizes = {}
        for label, files, total in (('100 MiB', 10000, 100 << 20), ('1 GiB', 20000, 1 << 30))[:2 if gib else 1]:
            layout = write_layout(self.top + '/peak', [(f'm{k}', files // 8, total // 8) for k in range(8)], self.rng, self.words)
            r = self.once('berth', [[self.image, '--store', 'D/store', 'import', '-q', layout, 'x:t']], self.top, True)
            sizes[label] = r[2] if r else None
            shutil.rmtree(layout)
        print('\npeak memory of an import (the largest of its processes)')
        for label, kib in sizes.items():
            print(f'  {label:8} {kib / 1024:6.1f} MiB')
        return sizes


def verdict(results):
    """The targets, as met or missed."""
    lines = []
    for place in ('memory', 'disk'):
        five = results[f'five, {place}']
        peers = {k: v['wall_ratio'] for k, v in five.items() if k != 'berth'}
        if peers:
            name = min(peers, key=peers.get)
            lines.append((peers[name] >= 2, f'{place}: the fastest of the others ({name}) takes {peers[name]:.2f} times as long; wanted 2'))
        one = results[f'one, {place}']
        if 'tar -xz' in one:
            r = 1 / one['tar -xz']['wall_ratio']
            lines.append((r <= 1.5, f'{place}: one layer takes {r:.2f} times what tar -xz takes; wanted 1.5 at most'))
    print()
    for ok, text in lines:
        print(('met     ' if ok else 'MISSED  ') + text)
    return [{'met': ok, 'text': text} for ok, text in lines]


def main():
    sys.stdout.reconfigure(line_buffering=True)
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--build', default='build')
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--no-gib', action='store_true', help='leave out the import of 1 GiB')
    a = p.parse_args()
    if os.geteuid():
        sys.exit('bench: needs root')
    b = Bench(os.path.abspath(a.build), a.rounds)
    try:
        results = {}
        for place, where, sync in (('memory', b.memory, False), ('disk', b.top, True)):
            note = 'on memory' if place == 'memory' else 'on disk, written out'
            results[f'five, {place}'] = b.compare(f'100 MiB, 10,000 files, five layers; {note}', b.five, False, where, sync)
            results[f'one, {place}'] = b.compare(f'the same in one layer; {note}', b.one, True, where, sync)
        results['second sandbox'] = b.second_sandbox()
        results['peak KiB'] = b.peak_memory(not a.no_gib)
        results['targets'] = verdict(results)
        with open(os.path.join(a.build, 'bench-image.json'), 'w') as f:
            json.dump(results, f, indent=1)
    finally:
        b.close()


if __name__ == '__main__':
    main()
