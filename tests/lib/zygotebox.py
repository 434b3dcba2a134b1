# SPDX-License-Identifier: Apache-2.0
"""A zygote for a test: made, named, and removed at its end."""
import contextlib
import json
import os
import platform

import berthtest as b

PYTHON = "/usr/bin/python3"
NODE = "/usr/bin/node"
COUNT = 0


def needs_zygotes():
    if platform.machine() != "x86_64":
        raise b.skip("zygotes exist on x86_64 alone")
    if not os.path.exists(PYTHON):
        raise b.skip("needs /usr/bin/python3")


def needs_node():
    if not os.path.exists(NODE):
        raise b.skip("needs /usr/bin/node (package nodejs)")


class Zygote:
    COMMAND = [PYTHON, "-c"]
    needs = staticmethod(needs_zygotes)

    def __init__(self, preload="import random", *options, timeout=60):
        global COUNT
        self.needs()
        COUNT += 1
        self.name = f"zy{os.getpid()}-{COUNT}"
        self.id = b.berth("zygote", "create", "--name", self.name, *options, "host", *self.COMMAND, preload,
                          ok=True, timeout=timeout).out.strip()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        b.berth("zygote", "rm", self.name, timeout=60)

    def run(self, code, *rest, options=(), **kw):
        return b.berth("run", "--zygote", self.name, *options, code, *rest, **kw)

    def out(self, code, *rest, **kw):
        return self.run(code, *rest, ok=True, **kw).out

    def inspect(self):
        return json.loads(b.berth("zygote", "inspect", "--json", self.name, ok=True).out)

    def alive(self):
        return self.inspect()["alive"]

    def supervisors(self):
        """The supervisor of the zygote, and those of its sandboxes."""
        def of(x):
            return json.load(open(os.path.join(b.root(), "run", "sandboxes", x, "record.json")))["supervisor_pid"]
        return of(self.id), [of(x) for x in self.alive()]

    def pid(self):
        return self.inspect()["pid"]


class NodeZygote(Zygote):
    """Its sandboxes start their interpreter themselves (cli/zygote/interpreter.c)."""
    COMMAND = [NODE, "-e"]
    needs = staticmethod(needs_node)

    def __init__(self, preload="", *options, **kw):
        super().__init__(preload, *options, **kw)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


@contextlib.contextmanager
def box(z, *options):
    """A sandbox of z that lives; its name."""
    name = f"{z.name}-box"
    b.berth("create", "--zygote", z.name, "--name", name, *options, ok=True)
    try:
        yield name
    finally:
        b.berth("rm", "-f", name)
