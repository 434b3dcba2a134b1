# SPDX-License-Identifier: Apache-2.0
"""berth-docker, the real program: door("run", "--rm", "host", "true")."""
import os
import subprocess

import berthtest as b

PROGRAM = os.path.join(b.BUILD, "berth-docker")


def environment(extra=None):
    b.need_berth()
    if not os.path.exists(PROGRAM):
        raise b.skip("needs berth-docker")
    env = b.environment(extra)
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        env.pop(name, None)
    env.update(extra or {})
    return env


def start(*args, env=None, **popen):
    return subprocess.Popen([PROGRAM, *map(str, args)], env=environment(env), **popen)


def door(*args, input=None, ok=None, env=None, timeout=60, **popen):
    """ok: None takes any exit status, True wants 0, a number wants that."""
    given = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
    r = subprocess.run([PROGRAM, *map(str, args)], env=environment(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, timeout=timeout * b.SLOW, **given, **popen)
    if ok is not None:
        assert r.returncode == (0 if ok is True else ok), (args, r)
    return r


class Doors:
    """Removes every container at the end."""

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        listed = b.berth("ps", "-a", "-q").out.split()
        if listed:
            b.berth("rm", "--force", *listed, ok=True)


def run(*args, **kw):
    """docker run --network none ..."""
    return door("run", "--network", "none", *args, **kw)


def box(name, *command):
    """A container that runs, by name: its id."""
    return run("-d", "--name", name, "host", *(command or ("sleep", "1000")), ok=True).stdout.strip()


__all__ = ["Doors", "PROGRAM", "box", "door", "environment", "run", "start"]
