# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that live, for bench.py: exec, shell commands, create, claims from a pool, the end of a large tree, growth."""
import contextlib
import json
import os
import subprocess
import time

import peers
from berthd_bench import Client
from figures import Measure, absent, in_turn, row
from peers import Berth


def quiet(argv, env=None):
    def call():
        subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return call


def quiet_in(mntns, argv):
    """The same in another mount namespace: going there is not timed."""
    def call():
        with peers.inside(mntns):
            began = time.perf_counter_ns()
            quiet(argv)()
            return (time.perf_counter_ns() - began) / 1e3
    return call


@contextlib.contextmanager
def sandboxes(place):
    berth = Berth(place)
    try:
        yield berth
    finally:
        berth.clear()


class Stdio:
    def __init__(self, berth):
        self.p = berth.start('stdio', stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.n = 0

    def call(self, **request):
        """A request and its verdict."""
        self.n += 1
        self.p.stdin.write(json.dumps(dict(request, id=self.n)).encode() + b'\n')
        self.p.stdin.flush()
        while True:
            answer = json.loads(self.p.stdout.readline())
            if 'error' in answer:
                raise RuntimeError(f'berth stdio: {answer}')
            if answer.get('id') == self.n and 'verdict' in answer:
                return

    def close(self):
        self.p.stdin.close()
        self.p.wait()
        self.p.stdout.close()


@contextlib.contextmanager
def peers_alive(place):
    """{key: (argv before the command, mount namespace)} of a container of each peer that sleeps."""
    with contextlib.ExitStack() as stack:
        out = {}
        for tool in ('crun', 'runc'):
            runtime = peers.Runtime(place, tool)
            if runtime.sleeper('exec'):
                stack.callback(runtime.delete, 'exec')
                out[tool] = ([runtime.program, 'exec', runtime.name('exec')], runtime.mntns)
        for tool in ('podman', 'docker'):
            e = peers.engine(place, tool)
            box = e.sleeper()
            if box:
                stack.callback(e.call, 'rm', '-f', '-t', '0', box)
                out[tool] = (e.argv('exec', box), '-')
        yield out


@contextlib.contextmanager
def exec_floor(place):
    """The bare server that exec_floor.c tells of, in a cgroup of its own: the argv that asks it."""
    program, socket = os.path.join(place.build, 'bench/exec_floor'), os.path.join(place.top, 'floor')
    server = subprocess.Popen([program, 'serve', socket, f'berth-bench-floor{os.getpid()}', place.rootfs], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if server.stdout.readline() != b'ready\n':
            raise RuntimeError('exec_floor does not start')
        yield [program, socket]
    finally:
        server.stdin.close()
        server.wait()
        server.stdout.close()


def exec_true(place, options, clock):
    with sandboxes(place) as berth, peers_alive(place) as others, exec_floor(place) as floor:
        box = berth.call('create', place.rootfs)
        work = {'berth': quiet([berth.program, 'exec', box, '/bin/true'], berth.env),
                'floor': quiet([*floor, '/bin/true']),
                'floor: berth --version': quiet([berth.program, '--version'], berth.env),
                'no sandbox': quiet([place.rootfs + '/bin/busybox', 'true']),
                **{k: quiet_in(ns, [*argv, '/bin/true']) for k, (argv, ns) in others.items()}}
        took = in_turn(work, options.rounds, clock, every=dict.fromkeys(('podman', 'docker'), peers.SLOW))
    notes = {'berth': 'exec ID true', 'floor': 'a waiting process clones into a fresh cgroup and executes, no more', 'floor: berth --version': 'fork, exec and exit of the same program', 'no sandbox': 'fork, exec and exit of the command'}
    return [row(k, took[k], notes.get(k, 'exec of true, spawned by the same caller')) for k in work]


def shell(place, options, clock):
    with sandboxes(place) as berth, peers_alive(place) as others:
        box = berth.call('create', 'host')
        talk = Stdio(berth)
        pipe = subprocess.Popen(['bash', '--noprofile', '--norc'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def bare():
            pipe.stdin.write(b'true; echo $?\n')
            pipe.stdin.flush()
            pipe.stdout.readline()

        def ten():
            for _ in range(10):
                talk.call(op='sh', sandbox=box, text='true')

        work = {'berth': lambda: talk.call(op='sh', sandbox=box, text='true'), 'berth, one of ten in a row': ten,
                'berth, exec over stdio': lambda: talk.call(op='exec', sandbox=box, argv=['/usr/bin/true']),
                'berth sh': quiet([berth.program, 'sh', box, '--', 'true'], berth.env),
                'floor: bash on a pipe': bare,
                **{k: quiet_in(ns, [*argv, '/bin/sh', '-c', 'true']) for k, (argv, ns) in others.items()}}
        try:
            took = in_turn(work, 5 * options.rounds, clock, every={**dict.fromkeys(('crun', 'runc'), 5), **dict.fromkeys(('podman', 'docker'), 25)})
        finally:
            talk.close()
            pipe.stdin.close()
            pipe.wait()
            pipe.stdout.close()
        took['berth, one of ten in a row'] = [t / 10 for t in took['berth, one of ten in a row']]
    notes = {'berth': '`true` typed into a session, over berth stdio, with its verdict, after something else ran',
             'berth, one of ten in a row': 'the same without a pause, as an agent that works in a session', 'berth, exec over stdio': 'a process of its own',
             'berth sh': 'a CLI process each', 'floor: bash on a pipe': 'no sandbox, no terminal, no verdict'}
    return [row(k, took[k], notes.get(k, 'exec sh -c true: no session, no verdict')) for k in work]


# ---- create ------------------------------------------------------------------------------

def at_once(argvs, env=None, mntns='-'):
    """Starts all, waits for all: ([us of each], us of the whole)."""
    took, waiting = [], {}
    with peers.inside(mntns):
        began = time.perf_counter_ns()
        for argv in argvs:
            since = time.perf_counter_ns()
            p = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            waiting[p.pid] = (p, since)
        while waiting:
            pid, status = os.wait()
            p, since = waiting.pop(pid, (None, 0))
            if p is None:
                continue
            p.returncode = os.waitstatus_to_exitcode(status)
            if p.returncode:
                raise RuntimeError(f'{p.args}: status {p.returncode}')
            took.append((time.perf_counter_ns() - began if len(argvs) == 1 else time.perf_counter_ns() - since) / 1e3)
        return took, (time.perf_counter_ns() - began) / 1e3


def create_with(hands):
    def take(place, options, clock):
        with sandboxes(place) as berth:
            # one stays: what the first of a host makes for all is not what a further one costs
            anchor = berth.call('create', place.rootfs)
            work = {'berth': created(berth, anchor, hands, place.rootfs)}
            for tool in ('crun', 'runc'):
                runtime = peers.Runtime(place, tool)
                if runtime.program:
                    work[tool] = containers(runtime, hands)
            podman = peers.engine(place, 'podman')
            if not podman.why and hands <= 10:
                words = [w for w in podman.run_words() if w != '--rm']
                work['podman'] = lambda: (at_once([podman.argv(*words, '-d', podman.image, '/bin/sleep', '100000')] * hands),
                                          podman.call('rm', '-fa', '-t', '0'))[0]
            each, whole = {k: [] for k in work}, {k: [] for k in work}
            for n in clock.rounds(max(3, options.rounds // (4 * hands))):
                for k in work:
                    took, all_of_it = work[k]()
                    if n or hands > 10:      # the first is for warming up
                        each[k] += took
                        whole[k].append(all_of_it / hands / 1e3)
        return [row(k, each[k], f'{sorted(whole[k])[len(whole[k]) // 2]:.2f} ms of the machine a sandbox') for k in work]
    return take


def created(berth, anchor, hands, rootfs):
    def call():
        took = at_once([[berth.program, 'create', rootfs]] * hands, berth.env)
        berth.call('rm', '-f', *(i for i in berth.call('ps', '-a', '-q').split() if i != anchor))
        return took
    return call


def containers(runtime, hands):
    """`run -d` of so many containers that sleep, each from start to return; they are removed outside of it."""
    bundle = runtime.bundle('sleep', '/bin/sleep', '100000')

    def call():
        names = [f'create-{n}' for n in range(hands)]
        try:
            return at_once([runtime.argv_start(bundle, n) for n in names], mntns=runtime.mntns)
        finally:
            for n in names:
                runtime.delete(n)
    return call


# ---- a claim from a warm pool ----------------------------------------------------------------

def wait_until(what, seconds, why):
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            raise RuntimeError(f'waited {seconds} s for {why}')
        time.sleep(0.02)


def claim(place, options, clock):
    daemon = os.path.join(place.build, 'berthd')
    if not os.access(daemon, os.X_OK):
        return [absent('berth', 'berthd was not built; hint: apt-get install libmicrohttpd-dev libsqlite3-dev libhiredis-dev libcurl4-openssl-dev')]
    size, kept = 20, []
    with sandboxes(place) as berth, open(os.path.join(place.top, 'berthd.log'), 'wb') as log:
        berth.configure(f'[daemon]\n[pool.base]\nimage = "{place.rootfs}"\nsize = {size}\n')
        p = subprocess.Popen([daemon], env=berth.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            path = berth.top + '/run/berthd.sock'
            wait_until(lambda: os.path.exists(path), 30, 'berthd')
            c = Client(path)
            warm = lambda: c.call('GET', '/v1/manager/stats')['pools']['base']['warm']
            work = {'berth': lambda: kept.append(c.call('POST', '/create_from_pool', {'sandbox_type': 'base'})['data']),
                    'floor: GET /healthz': lambda: c.call('GET', '/healthz') and None,
                    'berth, no pool': lambda: kept.append(c.call('POST', '/create', {'sandbox_type': 'base'})['data'])}
            took = {k: [] for k in work}
            for _ in clock.rounds(max(3, options.rounds // (size // 2))):
                wait_until(lambda: warm() >= size, 60, 'a full pool')
                for k, us in in_turn(work, size // 2, clock, warmup=0).items():
                    took[k] += us
                for name in kept:
                    c.call('POST', '/release', {'identity': name})
                kept.clear()
            at_daemon = c.call('GET', '/v1/manager/stats')['claim_median_us']
        finally:
            p.terminate()
            p.wait()
    notes = {'berth': f'a warm sandbox of a pool of {size}, over one connection; {at_daemon} us of it in berthd, median', 'floor: GET /healthz': 'an answer without work',
             'berth, no pool': 'the same, made for it'}
    return [row(k, took[k], notes[k]) for k in work]


# ---- the end of a large tree --------------------------------------------------------------------

TREE = 'i=0; while [ $i -lt 1000 ]; do sleep 1000 & i=$((i+1)); done; echo up; wait'


def end_of(p, kill):
    """From `kill` to the death of all that hold the pipe which `p` writes to."""
    if p.stdout.readline() != b'up\n':
        raise RuntimeError(f'{p.args}: the tree did not come up')
    began = time.perf_counter_ns()
    kill()
    p.stdout.read()
    took = (time.perf_counter_ns() - began) / 1e3
    p.wait()
    p.stdout.close()
    return took


def kill_tree(place, options, clock):
    with sandboxes(place) as berth:
        box = berth.call('create', '--pids', '2000', '--memory', '2g', place.rootfs)
        pipes = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.DEVNULL}

        def ours():
            p = berth.start('exec', box, '/bin/sh', '-c', TREE, **pipes)
            return end_of(p, lambda: berth.call('signal', '--all', box, json.loads(berth.call('commands', '--json', box))[-1]['command'], 'KILL'))

        def bare():
            p = subprocess.Popen([place.rootfs + '/bin/busybox', 'sh', '-c', TREE], start_new_session=True, **pipes)
            return end_of(p, lambda: os.killpg(p.pid, 9))

        def theirs(runtime, bundle):
            def call():
                with peers.inside(runtime.mntns):
                    p = subprocess.Popen([runtime.program, 'run', '-b', bundle, runtime.name('tree')], **pipes)
                return end_of(p, lambda: runtime.delete('tree'))
            return call

        work = {'berth': ours, 'floor: killpg': bare}
        for tool in ('crun', 'runc'):
            runtime = peers.Runtime(place, tool)
            if runtime.program:
                work[tool] = theirs(runtime, runtime.bundle('tree', '/bin/sh', '-c', TREE))
        took = in_turn(work, max(5, options.rounds // 10), clock, warmup=1)
    notes = {'berth': 'berth commands and berth signal --all KILL, until all 1,000 are dead', 'floor: killpg': 'one system call, no sandbox'}
    return [row(k, took[k], notes.get(k, 'delete -f of the container')) for k in work]


# ---- growth ------------------------------------------------------------------------------------

def growth(place, options, clock):
    """Each command beside more and more idle sandboxes; the floor shows what of it is the kernel's."""
    rows, alone = [], {}
    with sandboxes(place) as berth:
        box = berth.call('create', place.rootfs)
        alive = 1
        for others in sorted(options.growth):
            while alive <= others:
                berth.call('create', place.rootfs)
                alive += 1
            step = type(clock)(clock.seconds / len(options.growth) / 3)
            took = in_turn(beside(place, berth, box), max(20, options.rounds // 2), step)
            for k, us in took.items():
                r = row(f'{k}, {others} others', us)
                alone.setdefault(k, r.median)
                rows.append(r._replace(note=f'{r.median / alone[k]:.2f} of that beside {min(options.growth)}'))
    return sorted(rows, key=lambda r: list(alone).index(r.key.partition(',')[0]))


def beside(place, berth, box):
    """{command: its time}; what create makes rm removes."""
    made = []

    def timed(*argv):
        us, out = time_of([berth.program, *argv], berth.env)
        if argv[0] == 'create':
            made.append(out)
        return us

    def rm():
        if not made:
            timed('create', place.rootfs)
        return timed('rm', '-f', made.pop())

    def create():
        us = timed('create', place.rootfs)
        if len(made) > 1:
            berth.call('rm', '-f', made.pop())
        return us

    return {'run': lambda: timed('run', place.rootfs, '/bin/true'), 'create': create, 'exec': lambda: timed('exec', box, '/bin/true'), 'rm': rm,
            'ps': lambda: timed('ps'), 'floor': quiet([place.build + '/bench/floor', '-m', 'one', place.rootfs, '/bin/true'])}


def time_of(argv, env):
    began = time.perf_counter_ns()
    out = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout
    return (time.perf_counter_ns() - began) / 1e3, out.decode().strip()


MEASURES = (
    Measure('exec', 'exec of busybox `true` in a sandbox that lives', 50, exec_true),
    Measure('shell', 'a shell command', 40, shell),
    *(Measure(f'create-{n}', f'create of a sandbox that lives, {n} at once' if n > 1 else 'create of a sandbox that lives', 40, create_with(n))
      for n in (1, 10, 100)),
    Measure('claim', 'a sandbox over HTTP: claimed from a warm pool, or made', 30, claim),
    Measure('kill', 'end of a command with 1,000 processes', 30, kill_tree),
    Measure('growth-others', 'commands while others live', 150, growth, curve=True),
)
