# SPDX-License-Identifier: Apache-2.0
"""Measures of sandboxes that live, for bench.py: exec, shell commands, create, copies, memory, kill, growth.

Each `sample` takes the place and the options and returns the rows; peers are measured in turn with berth.
Values are in the measure's unit: ms rows are given in us, KiB and MiB/s as they are.
"""
import collections
import json
import os
import random
import re
import shutil
import subprocess
import time

Result = collections.namedtuple('Result', 'key n median p10 p99 cpu note')


def percentile(ordered, p):
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


def row(key, values, note=''):
    if not values:
        return Result(key, 0, None, None, None, None, note)
    v = sorted(values)
    return Result(key, len(v), percentile(v, 50), percentile(v, 10), percentile(v, 99), None, note)


def in_turn(work, rounds):
    """Calls each of {key: function} once a round, in an order shuffled anew; {key: [us]}.  A function returns nothing or what it measured."""
    took = collections.defaultdict(list)
    keys = list(work)
    for n in range(rounds + 2):
        random.shuffle(keys)
        for k in keys:
            began = time.perf_counter_ns()
            told = work[k]()
            us = (time.perf_counter_ns() - began) / 1e3
            if n >= 2:
                took[k].append(us if told is None else told)
    return took


class Berth:
    """berth with a state of its own in the place."""

    def __init__(self, place):
        self.program = os.path.join(place.build, 'berth')
        top = os.path.join(place.top, 'berth')
        self.parent = f'berth-bench{os.getpid()}'
        self.env = dict(os.environ, BERTH_STATE_DIR=top + '/state', BERTH_RUN_DIR=top + '/run', BERTH_CGROUP_PARENT=self.parent)
        os.makedirs(top, exist_ok=True)
        with open(top + '/berth.toml', 'w') as f:
            f.write('[manager]\nmax_sandboxes = 2000\n')
        self.env['BERTH_CONFIG'] = top + '/berth.toml'
        self.top = top

    def call(self, *args, **kw):
        kw.setdefault('stdin', subprocess.DEVNULL)
        done = subprocess.run([self.program, *args], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
        if done.returncode:
            raise RuntimeError(f'berth {args}: status {done.returncode}: {done.stderr[-300:]!r}')
        return done.stdout.decode(errors='replace').strip()

    def start(self, *args, **kw):
        return subprocess.Popen([self.program, *args], env=self.env, **kw)

    def record(self, box):
        with open(f'{self.top}/run/sandboxes/{box}/record.json') as f:
            return json.load(f)

    def clear(self):
        ids = self.call('ps', '-a', '-q').split()
        for n in range(0, len(ids), 50):
            self.call('rm', '-f', *ids[n:n + 50])
        self.call('gc')


class Stdio:
    def __init__(self, berth):
        self.p = berth.start('stdio', stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.n = 0

    def call(self, until=None, **request):
        self.n += 1
        self.p.stdin.write(json.dumps(dict(request, id=self.n)).encode() + b'\n')
        self.p.stdin.flush()
        while True:
            answer = json.loads(self.p.stdout.readline())
            if 'error' in answer:
                raise RuntimeError(f'berth stdio: {answer}')
            if answer.get('id') == self.n and (until is None or until in answer):
                return answer

    def close(self):
        self.p.stdin.close()
        self.p.wait()


# ---- the measures ---------------------------------------------------------------------

def running(place, tool):
    """A container of the peer that sleeps: (its exec, what ends it), or None."""
    program = shutil.which(tool)
    if not program:
        return None
    name = f'bench-{tool}-{os.getpid()}'
    bundle = place.bundle(f'living-{tool}', program,
                          lambda c: (c['linux'].pop('resources', None), c['process'].update(args=['/bin/sleep', '100000'])))
    enter = []
    if tool == 'crun' and not os.path.exists('/sys/fs/cgroup/cgroup.controllers'):
        ns = place.cgroup2_mntns()
        enter = ['nsenter', '--mount=' + ns]
    made = subprocess.run([*enter, program, 'run', '-d', '-b', bundle, name], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
    if made.returncode:
        return None
    return ([*enter, program, 'exec', name, '/bin/true'],
            lambda: subprocess.run([*enter, program, 'delete', '-f', name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def quiet(argv, env=None):
    def call():
        subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return call


class ExecFloor:
    """The bare server that exec_floor.c tells of, in a cgroup of its own."""

    def __init__(self, place):
        self.program = os.path.join(place.build, 'bench/exec_floor')
        self.socket = os.path.join(place.top, 'floor')
        self.server = subprocess.Popen([self.program, 'serve', self.socket, f'berth-bench-floor{os.getpid()}', place.rootfs],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.server.stdout.readline() != b'ready\n':
            raise RuntimeError('exec_floor does not start')

    def end(self):
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()


def exec_true(place, options):
    berth = Berth(place)
    box = berth.call('create', place.rootfs)
    floor = ExecFloor(place)
    work = {'berth': quiet([berth.program, 'exec', box, '/bin/true'], berth.env),
            'exec floor': quiet([floor.program, floor.socket, '/bin/true']),
            'the command alone': quiet([os.path.join(place.rootfs, 'bin/busybox'), 'true']),
            'berth --version': quiet([berth.program, '--version'], berth.env)}
    ends = [floor.end]
    try:
        for tool in ('runc', 'crun'):
            peer = running(place, tool)
            if peer:
                work[tool] = quiet(peer[0])
                ends.append(peer[1])
        took = in_turn(work, options.rounds)
    finally:
        for end in ends:
            end()
        berth.clear()
    notes = {'berth': 'exec ID true', 'exec floor': 'a waiting process clones into a fresh cgroup and executes, no more',
             'the command alone': 'no sandbox', 'berth --version': 'fork, exec and exit of the same program'}
    return [row(k, took[k], notes.get(k, 'exec of true, spawned by the same caller')) for k in work]


def shell(place, options):
    berth = Berth(place)
    box = berth.call('create', 'host')
    talk = Stdio(berth)
    pipe = subprocess.Popen(['bash', '--noprofile', '--norc'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def bare():
        pipe.stdin.write(b'true; echo $?\n')
        pipe.stdin.flush()
        pipe.stdout.readline()

    work = {'berth': lambda: void(talk.call(until='verdict', op='sh', sandbox=box, text='true')),
            'exec over stdio': lambda: void(talk.call(until='verdict', op='exec', sandbox=box, argv=['/usr/bin/true'])),
            'berth sh': quiet([berth.program, 'sh', box, '--', 'true'], berth.env),
            'bash on a pipe': bare}
    try:
        took = in_turn(work, 5 * options.rounds)
    finally:
        talk.close()
        pipe.stdin.close()
        pipe.wait()
        berth.clear()
    notes = {'berth': '`true` typed into a session, over berth stdio, with its verdict', 'exec over stdio': 'a process of its own',
             'berth sh': 'a CLI process each', 'bash on a pipe': 'no sandbox, no terminal, no verdict'}
    return [row(k, took[k], notes[k]) for k in work]


def void(_):
    return None


def create(place, options):
    berth = Berth(place)
    berth.call('run', 'host', 'true')
    rows = []
    try:
        for hands in (1, 10, 100):
            took, all_of = [], []
            for _ in range(max(2, min(10, options.rounds // 20))):
                began = time.perf_counter_ns()
                waiting = {}
                for _ in range(hands):
                    p = berth.start('create', 'host', stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                    waiting[p.pid] = (p, time.perf_counter_ns())
                while waiting:
                    pid, status = os.wait()
                    p, since = waiting.pop(pid, (None, 0))
                    if p is None:
                        continue
                    p.returncode = os.waitstatus_to_exitcode(status)
                    if p.returncode:
                        raise RuntimeError('berth create failed')
                    took.append((time.perf_counter_ns() - since) / 1e3)
                all_of.append((time.perf_counter_ns() - began) / 1e3 / hands)
                berth.clear()
            rows.append(row('berth' if hands == 1 else f'{hands} at once', took,
                            f'each; {sorted(all_of)[len(all_of) // 2] / 1e3:.2f} ms of the machine a sandbox'))
    finally:
        berth.clear()
    return rows


def copies(place, options):
    """MiB/s of one large file, each way, beside cp on the same file system."""
    berth = Berth(place)
    size = options.copy_mib
    box = berth.call('create', '--disk', f'{size * 3}m', '--memory', f'{size * 2 + 256}m', 'host')
    source, out = os.path.join(place.top, 'large'), os.path.join(place.top, 'large.out')
    block = random.randbytes(1 << 20)
    with open(source, 'wb') as f:
        for n in range(size):
            f.write(n.to_bytes(8, 'little') + block[8:])

    def rate(argv, env=None, before=lambda: None):
        def call():
            before()
            began = time.perf_counter()
            subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
            return size / (time.perf_counter() - began)
        return call

    def gone():
        if os.path.exists(out):
            os.unlink(out)

    inside = '/workspace/large'
    work = {'berth cp, in': rate([berth.program, 'cp', '-q', source, f'{box}:{inside}'], berth.env,
                                 lambda: berth.call('exec', box, 'rm', '-f', inside)),
            'berth cp, out': rate([berth.program, 'cp', '-q', f'{box}:{inside}', out], berth.env, gone),
            'cp': rate(['cp', '--reflink=never', source, out], before=gone)}
    try:
        berth.call('cp', '-q', source, f'{box}:{inside}')
        took = collections.defaultdict(list)
        for n in range(max(3, options.rounds // 40)):
            for k in work:
                value = work[k]()
                if n:
                    took[k].append(value)
    finally:
        berth.clear()
        gone()
        os.unlink(source)
    return [row(k, took[k], f'{size} MiB') for k in work]


def private_kib(pid):
    with open(f'/proc/{pid}/smaps_rollup') as f:
        text = f.read()
    return {key: sum(int(n) for n in re.findall(rf'^{key}:\s+(\d+) kB', text, re.M))
            for key in ('Private_Dirty', 'Private_Clean', 'Pss')}


def density(place, options):
    """KiB of an idle sandbox: keeper and init, when 1, 100 and more live at once."""
    berth = Berth(place)
    rows, alive = [], []
    try:
        for wanted in options.density:
            while len(alive) < wanted:
                alive.append(berth.call('create', 'host'))
            private, pss, kernel = [], [], []
            for box in alive:
                record = berth.record(box)
                both = [private_kib(record[k]) for k in ('supervisor_pid', 'init_pid')]
                private.append(sum(p['Private_Dirty'] + p['Private_Clean'] for p in both))
                pss.append(sum(p['Pss'] for p in both))
            rows.append(row(f'{wanted} alive', private, f'private memory of keeper and init; proportional share {sorted(pss)[len(pss) // 2]} KiB'))
            answers = []
            for box in alive[:: max(1, len(alive) // 50)]:
                began = time.perf_counter_ns()
                berth.call('exec', box, 'true')
                answers.append((time.perf_counter_ns() - began) / 1e3)
            rows[-1] = rows[-1]._replace(note=rows[-1].note + f'; exec answers in {sorted(answers)[len(answers) // 2] / 1e3:.2f} ms')
    finally:
        berth.clear()
    return rows


def kill_tree(place, options):
    """From the timeout of a command with a thousand processes to its answer; to the end of them all."""
    berth = Berth(place)
    took, tree = [], 'i=0; while [ $i -lt 1000 ]; do sleep 1000 & i=$((i+1)); done; echo up; wait'
    try:
        box = berth.call('create', '--pids', '2000', '--memory', '2g', place.rootfs)
        for _ in range(max(3, options.rounds // 40)):
            p = berth.start('exec', box, '/bin/sh', '-c', tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            p.stdout.readline()
            began = time.perf_counter_ns()
            berth.call('signal', '--all', box, json.loads(berth.call('commands', '--json', box))[-1]['command'], 'KILL')
            p.wait()
            took.append((time.perf_counter_ns() - began) / 1e3)
            p.stdout.close()
    finally:
        berth.clear()
    return [row('berth', took, 'berth signal --all KILL to the answer of the exec')]


def growth(place, options):
    """Cold run and create, while others live."""
    berth = Berth(place)
    rows, alive = [], 0
    try:
        for others in options.growth:
            while alive < others:
                berth.call('create', 'host')
                alive += 1
            took = in_turn({'run': quiet([berth.program, 'run', 'host', 'true'], berth.env)}, max(20, options.rounds // 4))
            rows.append(row('berth' if others == 0 else f'{others} others', took['run'], 'cold run of true'))
    finally:
        berth.clear()
    return rows


MEASURES = (
    ('exec', 'exec of busybox `true` in a sandbox that lives', 'ms', exec_true),
    ('shell', 'a shell command', 'ms', shell),
    ('create', 'create of a sandbox that lives, several at once', 'ms', create),
    ('copy', 'copy of a large file', 'MiB/s', copies),
    ('density', 'memory of an idle sandbox', 'KiB', density),
    ('kill', 'end of a command with a thousand processes', 'ms', kill_tree),
    ('growth', 'cold run while other sandboxes live', 'ms', growth),
)
