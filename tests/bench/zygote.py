#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
make bench-zygote: the first output of a warm interpreter, and what a hundred of them at once cost.

One table: a fork of a zygote asked for over `berth stdio` and by `berth run --zygote`, the same code by `berth run` and by crun,
and a fork server without isolation, which is the floor of an interpreter; `floor` is that of the kernel: namespaces, an overlay
and a pivot around `true`, without limits.  Rounds take turns, so ratios hold on a busy machine.  CPU is user and system time of
all processes of the contender, from the requests until it rests again: its forks are removed and its pool is full.
"""
import argparse
import array
import collections
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

from figures import LEAST_ROUNDS, Measure, absent, in_turn, percentile, row
from living import sandboxes
from peers import Place, Runtime, inside, own_mounts

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PYTHON, CPUACCT = '/usr/bin/python3', '/sys/fs/cgroup/cpuacct'
CODE = 'print(numpy.__name__)'
ONE_THREAD = {f'{k}_NUM_THREADS': '1' for k in ('OPENBLAS', 'OMP', 'MKL')}

# one connection a request: three descriptors and the code; its end is the fork's
SERVER = '''
import array, gc, os, signal, socket, sys
exec(sys.argv[2])
gc.collect(); gc.freeze()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1]); s.listen(128)
print('up', flush=True)
while True:
    c, _ = s.accept()
    if os.fork() == 0:
        code, parts, _, _ = c.recvmsg(65536, socket.CMSG_SPACE(12))
        for i, fd in enumerate(array.array('i', parts[0][2])):
            os.dup2(fd, i)
        exec(compile(code, '<string>', 'exec'), {**globals()})
        sys.stdout.flush()
        os._exit(0)
    c.close()
'''


class Account:
    """The CPU time of processes that enter it and of their children; berth moves none of them to another cpuacct cgroup."""

    def __init__(self):
        self.dir = f'{CPUACCT}/berth-bench-{os.getpid()}-{random.randrange(1 << 32):x}' if os.path.isdir(CPUACCT) else None
        if self.dir:
            os.mkdir(self.dir)
            self.tasks = os.open(self.dir + '/tasks', os.O_WRONLY)      # crun's mount namespace has no such path

    def enter(self):
        if self.dir:
            os.write(self.tasks, b'0')

    def ms(self):
        with open(self.dir + '/cpuacct.usage') as f:
            return int(f.read()) / 1e6

    def rest(self):
        """What it used in all, when it uses nothing more."""
        if not self.dir:
            return None
        before, until = self.ms(), time.monotonic() + 30
        while time.monotonic() < until:
            time.sleep(0.3)
            now = self.ms()
            if now - before < 0.5:
                return now
            before = now
        raise RuntimeError('a contender does not come to rest')

    def close(self):
        until = time.monotonic() + 20
        if self.dir:
            os.close(self.tasks)
        while self.dir:
            try:
                os.rmdir(self.dir)
                return
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)


def commands(argv, env, account, mntns='-', name=None):
    """A process each: `go(n)` starts n at once and returns when all have ended: [ms to the first byte of each]."""
    count = [0]

    def go(n):
        started = []
        for _ in range(n):
            count[0] += 1
            words = argv + [f'{name}-{count[0]}'] if name else argv
            began = time.perf_counter()
            with inside(mntns):
                p = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=account.enter)
            started.append((p, began))
        took = [0.0] * n

        def wait(i):
            p, began = started[i]
            if p.stdout.read(1):
                took[i] = (time.perf_counter() - began) * 1e3
            _, why = p.communicate()
            if p.returncode or not took[i]:
                took[i] = RuntimeError(f'{p.args[:4]}: status {p.returncode}: {why[-200:]!r}')
        threads = [threading.Thread(target=wait, args=(i,)) for i in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for t in took:
            if isinstance(t, Exception):
                raise t
        return took
    return go


@contextlib.contextmanager
def by_stdio(berth, account):
    p = subprocess.Popen([berth.program, 'stdio'], env=berth.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=account.enter)

    def go(n):
        first, left, began = {}, n, time.perf_counter()
        lines = [json.dumps({'id': i, 'op': 'run', 'zygote': 'py', 'code': CODE}) for i in range(n)]
        p.stdin.write(('\n'.join(lines) + '\n').encode())
        p.stdin.flush()
        while left:
            answer = json.loads(p.stdout.readline())
            if 'error' in answer:
                raise RuntimeError(f'berth stdio: {answer}')
            if 'data' in answer:
                first.setdefault(answer['id'], (time.perf_counter() - began) * 1e3)
            left -= 'verdict' in answer
        return list(first.values())
    try:
        yield go
    finally:
        p.stdin.close()
        p.wait()
        p.stdout.close()


@contextlib.contextmanager
def by_server(place, preload, account):
    path = place.top + '/server'
    p = subprocess.Popen([PYTHON, '-c', SERVER, path, preload], env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, preexec_fn=account.enter)

    def ask(null):
        r, w = os.pipe()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as c:
            began = time.perf_counter()
            c.connect(path)
            c.sendmsg([CODE.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [null, w, 2]))])
            os.close(w)
            return r, began

    def go(n):
        null = os.open('/dev/null', os.O_RDONLY)
        took = []
        try:
            for r, began in [ask(null) for _ in range(n)]:
                if not os.read(r, 1):
                    raise RuntimeError('the fork server gives no answer')
                took.append((time.perf_counter() - began) * 1e3)
                while os.read(r, 4096):
                    pass
                os.close(r)
        finally:
            os.close(null)
        return took
    try:
        if p.stdout.readline() != b'up\n':
            raise RuntimeError('the fork server does not start')
        yield go
    finally:
        p.kill()
        p.wait()
        p.stdout.close()


def crun(place, preload, account):
    """A bundle with this machine's /usr, as the image `host` is."""
    tool = Runtime(place, 'crun')
    if not tool.program:
        return None, 'not installed'
    bundle = tool.bundle('python', PYTHON, '-c', preload + '\n' + CODE)
    root = os.path.join(bundle, 'root')
    for d in ('usr', 'proc', 'dev', 'sys', 'tmp', 'etc/alternatives'):
        os.makedirs(os.path.join(root, d), exist_ok=True)
    open(os.path.join(root, 'etc/ld.so.cache'), 'a').close()
    for d in ('bin', 'lib', 'lib64'):
        if not os.path.islink(os.path.join(root, d)):
            os.symlink('usr/' + d, os.path.join(root, d))
    with open(bundle + '/config.json') as f:
        config = json.load(f)
    config['root']['path'] = root
    config['process']['env'] += [f'{k}={v}' for k, v in ONE_THREAD.items()]
    for path in ('/usr', '/etc/alternatives', '/etc/ld.so.cache'):
        config['mounts'].append({'destination': path, 'type': 'bind', 'source': path, 'options': ['rbind', 'ro']})
    with open(bundle + '/config.json', 'w') as f:
        json.dump(config, f)
    return commands([tool.program, 'run', '-b', bundle], None, account, tool.mntns, tool.name('zygote')), tool.note


def contenders(place, berth, preload, stack):
    """(key, go, account, note) of each; `go` None: it takes no part, for the reason in the note."""
    def account():
        a = Account()
        stack.callback(a.close)
        return a

    one = account()     # the zygote belongs to both ways of asking it
    made = subprocess.run([berth.program, 'zygote', 'create', '--name', 'py', '--forks', '110', 'host', PYTHON, '-c', preload],
                          env=berth.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=one.enter)
    if made.returncode:
        raise SystemExit('bench-zygote: ' + made.stderr.decode())
    stack.callback(lambda: berth.call('zygote', 'rm', 'py'))
    yield 'berth stdio, a zygote', stack.enter_context(by_stdio(berth, one)), one, 'one fork waits'
    yield 'berth run --zygote', commands([berth.program, 'run', '--zygote', 'py', CODE], berth.env, one), one, 'a process each'
    cold = [w for k, v in ONE_THREAD.items() for w in ('-e', f'{k}={v}')]
    run, floor, server, oci = (account() for _ in range(4))
    yield ('berth run', commands([berth.program, 'run', *cold, 'host', PYTHON, '-c', preload + '\n' + CODE], berth.env, run), run,
           'the preload in each')
    go, note = crun(place, preload, oci)
    yield 'crun', go, oci, note
    yield 'fork server', stack.enter_context(by_server(place, preload, server)), server, 'no isolation: the floor of the interpreter'
    said = [os.path.join(place.build, 'bench/floor'), '-m', 'split', place.rootfs, '/bin/busybox', 'echo', 'up']
    yield 'floor', commands(said, None, floor), floor, "no interpreter, cgroup or limit: the kernel's floor"


def measure(all_of_them, options):
    """{key: ([ms to the first output], [ms of the machine each], [ms of CPU each])}"""
    took = {key: ([], [], []) for key, go, _, _ in all_of_them if go}
    turn = [c for c in all_of_them if c[1]]
    for _, go, account, _ in turn:
        go(1)
        account.rest()
    for _ in range(options.rounds):
        for key, go, _, _ in random.sample(turn, len(turn)):
            time.sleep(0.05)    # the pool fills again, and namespaces are taken apart
            took[key][0].extend(go(1))
    for _ in range(options.bursts):
        for key, go, account, _ in random.sample(turn, len(turn)):
            before, began = account.rest(), time.perf_counter()
            go(options.at_once)
            took[key][1].append((time.perf_counter() - began) * 1e3 / options.at_once)
            after = account.rest()
            if before is not None:
                took[key][2].append((after - before) / options.at_once)
    return took


def table(all_of_them, took, options):
    def cell(values, p):
        return f'{percentile(sorted(values), p):10.2f}' if values else f'{"-":>10}'

    yield f'{"":24}{"first output, ms":>20}{f"{options.at_once} at once, ms each":>24}'
    yield f'{"":24}{"median":>10}{"p90":>10}{"CPU":>12}{"wall":>12}'
    for key, go, _, note in all_of_them:
        if not go:
            yield f'{key:24}{"-":>10}  {note}'
            continue
        first, wall, cpu = took[key]
        yield f'{key:24}{cell(first, 50)}{cell(first, 90)}  {cell(cpu, 50)}  {cell(wall, 50)}  {note}'
    if not os.path.isdir(CPUACCT):
        yield f'CPU: not told, as {CPUACCT} is not there'


# ---- of `make bench` ---------------------------------------------------------------------------

AT_ONCE = 100
ROWS = {'berth stdio, a zygote': 'berth', 'fork server': 'floor: fork server', 'floor': 'floor'}


def preload_of():
    """What the zygote loads: numpy, or a stand-in of that name."""
    has_numpy = not subprocess.run([PYTHON, '-c', 'import numpy'], stderr=subprocess.DEVNULL).returncode
    return 'import numpy' if has_numpy else 'import json as numpy'


def bursts(place, options, clock):
    """us of the machine, and of its processors, that each of AT_ONCE requests at once takes; berth run and crun load numpy in each."""
    if not os.path.exists(PYTHON):
        return [absent('berth', f'there is no {PYTHON}')]
    with sandboxes(place) as berth, contextlib.ExitStack() as stack:
        try:
            turn = {ROWS[key]: (go, account, note) for key, go, account, note in contenders(place, berth, preload_of(), stack) if key in ROWS}
        except SystemExit as e:
            return [absent('berth', str(e)[-100:])]
        cpu = collections.defaultdict(list)

        def burst(key):
            go, account, _ = turn[key]
            before, began = account.rest(), time.perf_counter_ns()
            go(AT_ONCE)
            us = (time.perf_counter_ns() - began) / 1e3 / AT_ONCE
            after = account.rest()
            if before is not None:
                cpu[key].append((after - before) * 1e3 / AT_ONCE)
            return us
        took = in_turn({key: lambda key=key: burst(key) for key in turn}, max(LEAST_ROUNDS, options.rounds // 40), clock, warmup=1)
    return [row(key, took[key], f'{AT_ONCE} requests; {note}', cpu[key]) for key, (_, _, note) in turn.items()]


MEASURES = (
    Measure('zygote', f'a fork of a zygote, {AT_ONCE} at once', 60, bursts),
)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', default=os.path.join(TREE, 'build'))
    p.add_argument('--rounds', type=int, default=50, help='first outputs of each (%(default)s)')
    p.add_argument('--bursts', type=int, default=3, help='of requests at once (%(default)s)')
    p.add_argument('--at-once', type=int, default=100, help='in a burst, 100 at most (%(default)s)')
    options = p.parse_args()
    if os.geteuid() or not os.path.exists(PYTHON):
        p.error(f'needs root and {PYTHON}')
    options.build = os.path.realpath(options.build)
    preload = preload_of()
    own_mounts()
    place = Place(options.build)
    try:
        with sandboxes(place) as berth, contextlib.ExitStack() as stack:
            all_of_them = list(contenders(place, berth, preload, stack))
            took = measure(all_of_them, options)
        print(f'{"numpy" if preload == "import numpy" else "json, as there is no numpy,"} loaded; {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}')
        print('\n'.join(table(all_of_them, took, options)))
    finally:
        place.close()


if __name__ == '__main__':
    sys.exit(main())
