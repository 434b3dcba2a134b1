# SPDX-License-Identifier: Apache-2.0
"""Cold runs, for bench.py: a sandbox made, `true` run in it, and all of it gone; interleaved by drive.c."""
import collections
import os
import shutil
import subprocess

import peers
from figures import LEAST_ROUNDS, Measure, absent, row
from peers import Contender


def drive(place, key, contenders, options, clock):
    argv = [os.path.join(place.build, 'bench/drive'), str(options.rounds), str(options.warmup), str(options.gap_us),
            str(peers.LIMIT_S), str(max(1, int(clock.left()))), str(LEAST_ROUNDS)]
    err = {}
    for i, c in enumerate(contenders):
        if c.argv:
            err[str(i)] = os.path.join(place.top, f'stderr.{key}.{i}')
            argv += [':', str(i), c.mntns, err[str(i)], str(c.every), *c.argv]
    samples, failed = collections.defaultdict(list), {}
    # a state of its own: the figures are of a host with nothing else on record
    env = dict(peers.Berth(place).env)
    for line in subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout.splitlines():
        who, _, wall_ns, status, cpu_us, _ = line.split()
        if status == '0':
            samples[who].append((int(wall_ns) / 1e3, int(cpu_us)))
        else:
            with open(err[who], errors='replace') as f:
                said = f.read().strip().splitlines()
            failed[who] = 'FAILED: ' + (f'no answer in {peers.LIMIT_S} s' if status == '-1' else f'status {status}')
            failed[who] += ': ' + said[-1][:160] if said else ''
    rows = []
    for i, c in enumerate(contenders):
        got = samples[str(i)]
        if str(i) in failed or not got:
            rows.append(absent(c.key, failed.get(str(i)) or c.note))
        else:
            rows.append(row(c.key, [s[0] for s in got], c.note, [s[1] for s in got]))
    return rows


def cold(key, title, share, contenders):
    return Measure(key, title, share, lambda place, options, clock: drive(place, key, contenders(place), options, clock))


def berth(place, key, *image_and_command):
    return Contender(key, [os.path.join(place.build, 'berth'), 'run', *image_and_command])


def floor(place, key, mode, *rootfs_and_command, program='floor'):
    return Contender(key, [os.path.join(place.build, 'bench', program), '-m', mode, *rootfs_and_command])


def host(place):
    return [berth(place, 'berth', 'host', 'true'),
            floor(place, 'floor', 'one', 'host', 'true'),
            floor(place, 'floor, overlapped', 'split', 'host', 'true'),
            floor(place, 'floor, plain C', 'one', 'host', 'true', program='floor-plain'),
            Contender('no sandbox', [shutil.which('true')], 'spawn, exec and exit of the same program')]


def rootfs(place):
    return [berth(place, 'berth', place.rootfs, '/bin/true'),
            floor(place, 'floor', 'one', place.rootfs, '/bin/true'),
            floor(place, 'floor, overlapped', 'split', place.rootfs, '/bin/true'),
            floor(place, 'floor, plain C', 'one', place.rootfs, '/bin/true', program='floor-plain'),
            peers.unshare(place), peers.bwrap(place), peers.nsjail(place), peers.isolate(place),
            peers.Runtime(place, 'crun').cold(), peers.Runtime(place, 'runc').cold(),
            peers.engine(place, 'podman').cold(), peers.engine(place, 'docker').cold(),
            Contender('no sandbox', [os.path.join(place.rootfs, 'bin/busybox'), 'true'], 'spawn, exec and exit of the same program')]


def network(place):
    """With a network, in a namespace of the bench's own where forwarding is on: nsenter leads each of them there."""
    net = place.network()
    if not net:
        return [Contender('berth', None, 'no network namespace')]

    def there(c):
        return c._replace(argv=[shutil.which('nsenter'), net, *c.argv]) if c.argv else c

    def with_mode(key, mode):
        return there(berth(place, key, '--network', mode, place.rootfs, '/bin/true'))

    return [with_mode('berth', 'bridge'), with_mode('berth, egress', 'egress'), with_mode('berth, none', 'none'),
            there(peers.engine(place, 'podman').cold('--network', 'bridge')), there(peers.engine(place, 'docker').cold('--network', 'bridge'))]


def oci(place):
    """One bundle without device rules for all three (see peers.Runtime), where crun works: cgroup v2 at /sys/fs/cgroup."""
    runtime = peers.Runtime(place, 'crun')
    maker = runtime if runtime.program else peers.Runtime(place, 'runc')
    if not maker.program:
        return [Contender('berth', None, 'needs crun or runc for the bundle; hint: apt-get install crun runc')]

    def change(config):
        config['linux'].pop('resources', None)
        config['ociVersion'] = '1.0.2'

    bundle = place.bundle('oci', maker.program, change)
    mntns = place.cgroup2_mntns() if maker.hybrid else '-'
    programs = {'berth': os.path.join(place.build, 'berth-oci'), 'crun': shutil.which('crun'), 'runc': shutil.which('runc')}
    return [Contender(k, [p, '--root', f'{place.top}/oci-{k}', 'run', '-b', bundle, '%n'], 'berth-oci' if k == 'berth' else '', mntns)
            if p else peers.missing(k) for k, p in programs.items()]


MEASURES = (
    cold('run-host', 'cold run of `true` on the image `host`', 30, host),
    cold('run-rootfs', 'cold run of busybox `true` on a root filesystem', 70, rootfs),
    cold('run-oci', 'cold run of busybox `true` on an OCI bundle, cgroup v2', 40, oci),
    cold('run-network', 'cold run of busybox `true` with a bridge and NAT', 60, network),
)
