# SPDX-License-Identifier: Apache-2.0
"""Through the doors, for bench.py: output of a command, a list of many sandboxes, the life of a container over the docker API."""
import contextlib
import os
import re
import subprocess
import threading
import time

import peers
from berthd_bench import Client
from figures import LEAST_ROUNDS, Measure, absent, in_turn, row
from holding import available_kib
from living import sandboxes, wait_until

OUTPUT_MIB = 64
CLIENTS = 8


@contextlib.contextmanager
def daemon(place, berth, more=''):
    """A berthd of this place: its process and its sockets' directory."""
    berth.configure('[daemon]\n' + more)
    with open(os.path.join(place.top, 'berthd.log'), 'wb') as log:
        p = subprocess.Popen([os.path.join(place.build, 'berthd')], env=berth.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until(lambda: os.path.exists(berth.top + '/run/berthd.sock'), 30, 'berthd')
            yield p
        finally:
            p.terminate()
            p.wait()


def drain(argv, env=None):
    """us that this command's output of OUTPUT_MIB took to a pipe; fewer bytes are an error."""
    began = time.perf_counter_ns()
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
        got = 0
        while True:
            piece = os.read(p.stdout.fileno(), 1 << 20)
            if not piece:
                break
            got += len(piece)
    if got != OUTPUT_MIB << 20:
        raise RuntimeError(f'{argv[:3]}: {got} bytes of {OUTPUT_MIB << 20}')
    return (time.perf_counter_ns() - began) / 1e3


def output(place, options, clock):
    """What a command writes, through each door, beside the pipe alone."""
    writes = ['/bin/busybox', 'head', '-c', str(OUTPUT_MIB << 20), '/dev/zero']
    with sandboxes(place) as berth:
        docker = [os.path.join(place.build, 'berth-docker'), 'run', '--rm', '--network', 'none', 'host']
        box = berth.call('create', place.rootfs)
        work = {'berth': lambda: drain([*docker, *writes], berth.env),
                'berth run': lambda: drain([berth.program, 'run', place.rootfs, *writes], berth.env),
                'floor: no sandbox': lambda: drain([place.rootfs + writes[0], *writes[1:]]),
                'berth exec': lambda: drain([berth.program, 'exec', box, *writes], berth.env)}
        podman = peers.engine(place, 'podman')
        if podman.sleeper():
            work['podman'] = lambda: drain(podman.argv(*podman.run_words(), podman.image, *writes))
        took = in_turn(work, max(LEAST_ROUNDS, options.rounds // 20), clock, warmup=1)
    return [row(k, v, f'{"docker run; " * (k == "berth")}{OUTPUT_MIB} MiB; {OUTPUT_MIB / sorted(v)[len(v) // 2] * 1e6:.0f} MiB/s')
            for k, v in ((k, took[k]) for k in work)]


def slab_kib():
    with open('/proc/meminfo') as f:
        return int(re.search(r'^Slab:\s+(\d+)', f.read(), re.M).group(1))


def rss_kib(pid):
    with open(f'/proc/{pid}/status') as f:
        return int(re.search(r'^VmRSS:\s+(\d+)', f.read(), re.M).group(1))


def many(place, options, clock):
    """GET /v1/sandboxes, whole and in pieces, beside `berth ps` and an empty answer; and what each sandbox takes of the host."""
    wanted = max(options.growth)
    with sandboxes(place) as berth, daemon(place, berth) as p:
        before, slab = available_kib(), slab_kib()
        alive = 0
        while alive < wanted and clock.left() > clock.seconds / 3 and available_kib() > before // 4:
            berth.call('create', place.rootfs)
            alive += 1
        each = f'{(before - available_kib()) / alive:.0f} KiB of memory less for each, {(slab_kib() - slab) / alive:.0f} of slab'
        c, lean = Client(berth.top + '/run/berthd.sock'), rss_kib(p.pid)

        def whole():
            got = len(c.call('GET', '/v1/sandboxes')['sandboxes'])
            if got != alive:
                raise RuntimeError(f'GET /v1/sandboxes has {got} of {alive}')

        work = {'berth': whole,
                'berth, 100 of them': lambda: c.call('GET', '/v1/sandboxes?limit=100') and None,
                'berth ps': lambda: berth.call('ps', '-q') and None,
                'floor: GET /healthz': lambda: c.call('GET', '/healthz') and None}
        took = in_turn(work, options.rounds // 4, clock)
        grown = f'berthd has {rss_kib(p.pid) - lean} KiB more than before'
    return [row(k, took[k], {'berth': f'{alive} alive; {each}; {grown}'}.get(k, '')) for k in work]


DOCKER = '/v1.40'     # that podman 4 has it, too


def docker_life(path, rounds, body):
    """create, start, wait and remove by one client, so often."""
    c = Client(path)
    for _ in range(rounds):
        box = c.call('POST', DOCKER + '/containers/create', body)['Id']
        c.call('POST', f'{DOCKER}/containers/{box}/start')
        c.call('POST', f'{DOCKER}/containers/{box}/wait')
        c.call('DELETE', f'{DOCKER}/containers/{box}')


def docker_lives(path, body, each=4):
    """us of each of the lives that CLIENTS clients give at once."""
    failed = []

    def one():
        try:
            docker_life(path, each, body)
        except (OSError, SystemExit) as e:
            failed.append(str(e))

    began = time.perf_counter_ns()
    threads = [threading.Thread(target=one) for _ in range(CLIENTS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise RuntimeError(failed[0])
    return (time.perf_counter_ns() - began) / 1e3 / (CLIENTS * each)


@contextlib.contextmanager
def others_api(place, tool):
    """The docker API of another engine: (its socket, None), or (None, why not)."""
    there, service = peers.engine(place, tool), None
    path = os.path.join(place.top, 'podman.sock') if tool == 'podman' else os.environ.get('DOCKER_HOST', 'unix:///run/docker.sock').removeprefix('unix://')
    if there.why:
        yield None, there.why
        return
    if tool == 'podman':
        service = subprocess.Popen(there.argv('system', 'service', '--time', '0', 'unix://' + path), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if service:
            wait_until(lambda: os.path.exists(path), 30, "podman's socket")
        yield (path, None) if os.path.exists(path) else (None, f'{path} is not there')
    finally:
        if service:
            service.terminate()
            service.wait()


def docker_api(place, options, clock):
    """create, start, wait and rm over the docker API by CLIENTS clients: us of each."""
    missing, work = [], {}
    body = {'Image': 'host', 'Cmd': ['/bin/true'], 'HostConfig': {'NetworkMode': 'none'}}
    with sandboxes(place) as berth, contextlib.ExitStack() as ends:
        path = berth.top + '/run/docker.sock'
        ends.enter_context(daemon(place, berth, f'[docker]\nsocket = "{path}"\n'))
        wait_until(lambda: os.path.exists(path), 30, 'the docker socket')
        run = [berth.program, 'run', place.rootfs, '/bin/true']
        work['berth'] = lambda: docker_lives(path, body)
        work['berth, one client'] = lambda: docker_life(path, 1, body)
        work['floor: berth run'] = lambda: subprocess.run(run, env=berth.env, check=True, stdout=subprocess.DEVNULL) and None
        for key, tool in (('dockerd', 'docker'), ('podman', 'podman')):
            theirs, why = ends.enter_context(others_api(place, tool))
            if why:
                missing.append(absent(key, why))
                continue
            limits = [{'Name': 'nofile', 'Soft': 1024, 'Hard': 1024}, {'Name': 'nproc', 'Soft': 1000, 'Hard': 1000}]
            asked = {**body, 'Image': peers.engine(place, tool).image, 'HostConfig': {'NetworkMode': 'none', 'Ulimits': limits}}
            try:
                docker_life(theirs, 1, asked)
            except (OSError, SystemExit) as e:
                missing.append(absent(key, str(e)[:100]))
                continue
            work[key] = lambda path=theirs, asked=asked: docker_lives(path, asked, each=1)
        took = in_turn(work, options.rounds // 10, clock)
    at_once = {key: f'{CLIENTS} clients; {1e6 / sorted(took[key])[len(took[key]) // 2]:.0f} a second' for key in took
               if key in ('berth', 'dockerd', 'podman')}
    return [row(k, took[k], at_once.get(k, '')) for k in took] + missing


MEASURES = (
    Measure('output', 'output of a command to a pipe', 40, output),
    Measure('list', 'a list of many sandboxes', 90, many),
    Measure('docker-api', 'create, start, wait and rm of a container over the docker API', 30, docker_api),
)
