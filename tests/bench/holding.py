# SPDX-License-Identifier: Apache-2.0
"""What sandboxes take, for bench.py: copies of a large file, memory of the idle."""
import os
import random
import re
import time

import peers
from figures import LEAST_ROUNDS, Measure, absent, in_turn, row
from living import quiet, sandboxes


def copy(way):
    """One large file `in` or `out`, beside cp on the same file system and the engine's own copying."""
    def take(place, options, clock):
        size = options.copy_mib
        source, out = os.path.join(place.top, 'large'), os.path.join(place.top, 'large.out')
        block = random.randbytes(1 << 20)
        with open(source, 'wb') as f:
            for n in range(size):
                f.write(n.to_bytes(8, 'little') + block[8:])

        def timed(argv, env=None, before=lambda: None):
            def call():
                before()
                began = time.perf_counter_ns()
                quiet(argv, env)()
                return (time.perf_counter_ns() - began) / 1e3
            return call

        def gone():
            if os.path.exists(out):
                os.unlink(out)

        with sandboxes(place) as berth:
            box = berth.call('create', '--disk', f'{size * 3}m', '--memory', f'{size * 2 + 256}m', 'host')
            theirs = f'{box}:/workspace/large'
            berth.call('cp', '-q', source, theirs)
            work = {'berth': timed([berth.program, 'cp', '-q', source, theirs], berth.env, lambda: berth.call('exec', box, 'rm', '-f', '/workspace/large'))
                    if way == 'in' else timed([berth.program, 'cp', '-q', theirs, out], berth.env, gone),
                    'floor: cp': timed(['cp', '--reflink=never', source, out], before=gone)}
            podman = peers.engine(place, 'podman')
            other = podman.sleeper()
            if other:
                inside = f'{other}:/workspace/large'
                if way == 'out':
                    podman.call('cp', source, inside)
                work['podman'] = timed(podman.argv('cp', source, inside), before=lambda: podman.call('exec', other, 'rm', '-f', '/workspace/large')) \
                    if way == 'in' else timed(podman.argv('cp', inside, out), before=gone)
            took = in_turn(work, max(LEAST_ROUNDS, options.rounds // 20), clock, warmup=1)
            if other:
                podman.call('rm', '-f', '-t', '0', other)
        gone()
        os.unlink(source)
        return [row(k, v, f'{size} MiB; {size / sorted(v)[len(v) // 2] * 1e6:.0f} MiB/s') for k, v in ((k, took[k]) for k in work)]
    return take


# ---- memory ----------------------------------------------------------------------------

def rollup(pid):
    with open(f'/proc/{pid}/smaps_rollup') as f:
        text = f.read()
    return {key: sum(int(n) for n in re.findall(rf'^{key}:\s+(\d+) kB', text, re.M))
            for key in ('Private_Dirty', 'Private_Clean', 'Pss')}


def private_kib(*pids):
    got = [rollup(p) for p in pids]
    return sum(g['Private_Dirty'] + g['Private_Clean'] for g in got), sum(g['Pss'] for g in got)


def available_kib():
    with open('/proc/meminfo') as f:
        return int(re.search(r'MemAvailable:\s+(\d+)', f.read()).group(1))


def middle(values):
    return sorted(values)[len(values) // 2]


def density(place, options, clock):
    """KiB of an idle sandbox, keeper and init, when 1, 100 and more live at once; one more engine's container beside the first."""
    rows, alive = [], []
    spare = available_kib() // 4        # of the host's memory, which stays free
    with sandboxes(place) as berth:
        at_first = available_kib()
        for wanted in options.density:
            short = ''
            while len(alive) < wanted:
                if available_kib() < spare or (clock.left() < 0 and len(alive) >= options.density[0]):
                    short = f'{wanted} did not fit into {"the time" if available_kib() >= spare else "memory"}; '
                    break
                alive.append(berth.call('create', place.rootfs))
            records = [berth.record(box) for box in alive]
            both = [private_kib(r['supervisor_pid'], r['init_pid']) for r in records]
            answers = []
            for box in alive[:: max(1, len(alive) // 50)]:
                began = time.perf_counter_ns()
                berth.call('exec', box, '/bin/true')
                answers.append((time.perf_counter_ns() - began) / 1e6)
            whole = f'; the host has {(at_first - available_kib()) / len(alive):.0f} KiB less for each' if len(alive) >= 50 else ''
            rows.append(row('berth' if not rows else f'berth, {len(alive)} alive', [p for p, _ in both],
                            f'{short}private memory of keeper and init; proportional share {middle([s for _, s in both])} KiB; '
                            f'exec answers in {middle(answers):.2f} ms{whole}'))
            if short:
                break
    podman = peers.engine(place, 'podman')
    box = podman.sleeper()
    if box:
        said = podman.call('inspect', '-f', '{{.State.ConmonPid}} {{.State.Pid}}', box).stdout.split()
        rows.append(row('podman', [private_kib(*map(int, said))[0]], 'private memory of conmon and sleep, one alive'))
        podman.call('rm', '-f', '-t', '0', box)
    else:
        rows.append(absent('podman', podman.why or 'no container could be made'))
    return rows


MEASURES = (
    Measure('copy-in', 'copy of a large file into a sandbox', 40, copy('in')),
    Measure('copy-out', 'copy of a large file out of a sandbox', 40, copy('out')),
    Measure('density', 'private memory of an idle sandbox', 90, density, 'KiB'),
)
