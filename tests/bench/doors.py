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
    wanted = max(options.density)
    with sandboxes(place) as berth, daemon(place, berth) as p:
        before, slab = available_kib(), slab_kib()
        alive = 0
        while alive < wanted and clock.left() > clock.seconds / 3 and available_kib() > before // 4:
            berth.call('create', place.rootfs)
            alive += 1
        each = f'{(before - available_kib()) / alive:.0f} KiB of memory less for each, {(slab_kib() - slab) / alive:.0f} of slab'
        c, lean = Client(berth.top + '/run/berthd.sock'), rss_kib(p.pid)
        work = {'berth': lambda: len(c.call('GET', '/v1/sandboxes')['sandboxes']) - alive and None,
                'berth, 100 of them': lambda: c.call('GET', '/v1/sandboxes?limit=100') and None,
                'berth ps': lambda: berth.call('ps', '-q') and None,
                'floor: GET /healthz': lambda: c.call('GET', '/healthz') and None}
        took = in_turn(work, options.rounds // 4, clock)
        grown = f'berthd has {rss_kib(p.pid) - lean} KiB more than before'
    return [row(k, took[k], {'berth': f'{alive} alive; {each}; {grown}'}.get(k, '')) for k in work]


def docker_life(path, rounds, body):
    """Seconds for each round of create, start, wait and remove by one client."""
    c = Client(path)
    for _ in range(rounds):
        box = c.call('POST', '/v1.43/containers/create', body)['Id']
        c.call('POST', f'/v1.43/containers/{box}/start')
        c.call('POST', f'/v1.43/containers/{box}/wait')
        c.call('DELETE', f'/v1.43/containers/{box}')


def docker_api(place, options, clock):
    """create, start, wait and rm over the docker API by CLIENTS clients: us of each."""
    with sandboxes(place) as berth, daemon(place, berth, f'[docker]\nsocket = "{berth.top}/run/docker.sock"\n'):
        where = {'berth': (berth.top + '/run/docker.sock', {'Image': 'host', 'Cmd': ['/bin/true'], 'HostConfig': {'NetworkMode': 'none'}}),
                 'dockerd': ('/run/docker.sock', None)}
        path, body = where['berth']
        wait_until(lambda: os.path.exists(path), 30, 'the docker socket')

        def at_once():
            began, each = time.perf_counter_ns(), 4
            threads = [threading.Thread(target=docker_life, args=(path, each, body)) for _ in range(CLIENTS)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            return (time.perf_counter_ns() - began) / 1e3 / (CLIENTS * each)

        one = lambda: docker_life(path, 1, body)
        run = [berth.program, 'run', place.rootfs, '/bin/true']
        bare = lambda: subprocess.run(run, env=berth.env, check=True, stdout=subprocess.DEVNULL) and None
        took = in_turn({'berth': at_once, 'berth, one client': one, 'floor: berth run': bare}, options.rounds // 10, clock)
    rows = [row(k, took[k], {'berth': f'{CLIENTS} clients; {1e6 / sorted(took[k])[len(took[k]) // 2]:.0f} a second'}.get(k, '')) for k in took]
    return rows + [absent('dockerd', 'make check-real compares with one where it may run')]


MEASURES = (
    Measure('output', 'output of a command to a pipe', 40, output),
    Measure('list', 'a list of many sandboxes', 90, many),
    Measure('docker-api', 'create, start, wait and rm of a container over the docker API', 30, docker_api),
)
