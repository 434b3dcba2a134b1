# SPDX-License-Identifier: Apache-2.0
"""
Many sandboxes at once, each answering: 100 here; with
BERTH_TEST_SANDBOXES=500 as many as this project promises for a small machine.
"""
import fcntl
import os
import re
import time

import berthtest as b

COUNT = int(os.environ.get("BERTH_TEST_SANDBOXES", "100"))
COST = 25


def how_it_is(box):
    """For the report: what it shows of its files without a program of its own, and whether it is so for good."""
    said = [b.berth("exec", box, "echo", "again")]
    said += [b.berth("file", *words) for words in (("ls", box, "/"), ("ls", box, "/usr"), ("stat", box, "/usr/bin/echo"),
                                                  ("read", box, "/proc/self/mountinfo"))]
    return "\n".join(f"{' '.join(r.args)}: {r.code} {r.out[:3000]} {r.err}" for r in said)


@b.deadline(60 + COUNT)
def test_many_sandboxes_each_answering():
    env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), f"[manager]\nmax_sandboxes = {COUNT}\n")}
    ids, took = [], []
    try:
        for _ in range(COUNT):
            began = time.monotonic()
            ids.append(b.berth("create", "--memory", "32m", "host", env=env, ok=True, timeout=30).out.strip())
            took.append(time.monotonic() - began)
        b.one_line_error(b.berth("create", "host", env=env), 125, "limit")
        assert sorted(b.berth("ps", "-q", ok=True).out.split()) == sorted(ids)
        for n, i in enumerate(ids):
            r = b.berth("exec", i, "echo", i, timeout=20)
            b.expect(r.code == 0 and r.out == i + "\n", r, f"the {n}th of {len(ids)} does not answer; {how_it_is(i)}")
        tenth = max(COUNT // 10, 1)
        first, last = sorted(took[:tenth])[tenth // 2], sorted(took[-tenth:])[tenth // 2]
        print(f"{COUNT} sandboxes: create {first * 1000:.0f} ms at first, {last * 1000:.0f} ms at last")
    finally:
        for i in range(0, len(ids), 50):
            b.berth("rm", "-f", *ids[i:i + 50], env=env, timeout=120)


OTHERS = 180


def system_calls(*args):
    """How many calls this berth command makes itself, without the processes it starts."""
    log = b.tmp("strace")
    env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), f"[manager]\nmax_sandboxes = {2 * OTHERS}\n")}
    r = b.berth(*args, prefix=("strace", "-o", log), env=env, ok=True)
    with open(log) as f:
        # a directory is read in pieces, and a piece holds some sixty names
        return sum(not re.match(r"getdents64|\+\+\+|---", line) for line in f), r.out.strip()


def test_no_command_costs_more_system_calls_among_many_sandboxes():
    """The others are directories with a lock that this test holds, as a living supervisor does."""
    b.needs_the_lean_program()
    box = b.berth("create", "host", ok=True).out.strip()

    def costs():
        n, made = system_calls("create", "host")
        found = {"create": n, "exec": system_calls("exec", box, "true")[0], "run": system_calls("run", "host", "true")[0],
                 "stop": system_calls("stop", made)[0], "start": system_calls("start", made)[0],
                 "rm": system_calls("rm", "-f", made)[0]}
        return found

    sandboxes, held = b.root() + "/run/sandboxes", []
    try:
        for n in range(20):
            held.append(hold(sandboxes, n))
        few = costs()
        for n in range(20, OTHERS):
            held.append(hold(sandboxes, n))
        many = costs()
    finally:
        for fd in held:
            os.close(fd)
        for n in range(len(held)):
            os.rmdir(f"{sandboxes}/{n:012x}")
        b.berth("rm", "-f", box, ok=True)
    print(f"system calls beside 20 and beside {OTHERS} sandboxes: {few} {many}")
    # who waits, or asks again, may do so once more or less
    assert all(many[k] <= few[k] + 25 for k in few), (few, many)


def hold(sandboxes, n):
    path = f"{sandboxes}/{n:012x}"
    os.mkdir(path, 0o700)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd
