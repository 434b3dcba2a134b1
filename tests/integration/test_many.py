# SPDX-License-Identifier: Apache-2.0
"""
Many sandboxes at once, each answering: 100 here; with
BERTH_TEST_SANDBOXES=500 as many as this project promises for a small machine.
"""
import json
import os
import re
import signal
import time

import berthtest as b
from others import Others

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


FEW, OTHERS = 20, 700


def system_calls(*args):
    """How many calls this berth command makes itself, without the processes it starts."""
    log = b.tmp("strace")
    limits = f"[manager]\nmax_sandboxes = {2 * OTHERS}\nmax_stopped = {2 * OTHERS}\n"
    env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), limits)}
    r = b.berth(*args, prefix=("strace", "-o", log), env=env, ok=True)
    with open(log) as f:
        return sum(not re.match(r"\+\+\+|---", line) for line in f), r.out.strip()


def test_no_command_costs_more_system_calls_among_many_sandboxes():
    """The others are directories with a lock that this test holds, as a living supervisor does."""
    b.needs_the_lean_program()
    box = b.berth("create", "host", ok=True).out.strip()

    def cost_once():
        n, made = system_calls("create", "--name", "made", "host")
        return {"create": n, "exec": system_calls("exec", box, "true")[0], "run": system_calls("run", "host", "true")[0],
                "stop": system_calls("stop", made)[0], "start": system_calls("start", made)[0],
                "kill": system_calls("kill", made)[0], "rm": system_calls("rm", made)[0]}

    def costs():
        # whoever waits, or asks again, makes more: the least of three
        each = [cost_once() for _ in range(3)]
        return {k: min(c[k] for c in each) for k in each[0]}

    def cost_of_ps():
        return min(system_calls("ps", "-q")[0] for _ in range(3))

    others = Others(OTHERS)
    try:
        others.grow_to(FEW)
        few, ps = costs(), cost_of_ps()
        others.grow_to(OTHERS)
        many, ps = costs(), (cost_of_ps() - ps) / (OTHERS - FEW)
    finally:
        others.remove()
        b.berth("rm", "-f", box, ok=True)
    print(f"system calls beside {FEW} and beside {OTHERS} sandboxes: {few} {many}")
    assert all(many[k] <= 1.1 * few[k] for k in few), (few, many)
    # its directory and its record are opened, the lock tried and the record read; memory and names come in pieces
    assert ps < 7, f"ps makes {ps:.1f} system calls for each sandbox"


def test_ps_asks_no_keeper_of_a_sandbox_that_stands_still():
    b.needs_the_lean_program()
    idle = [b.berth("create", "host", ok=True).out.strip() for _ in range(8)]
    other = {k: b.berth("create", "host", ok=True).out.strip() for k in ("command", "left", "paused", "session", "killed")}
    main = b.berth("create", "host", "sleep", "1000", ok=True).out.strip()
    b.berth("exec", "-d", other["command"], "sleep", "1000", ok=True)
    b.berth("exec", other["left"], "sh", "-c", "(while :; do :; done) >/dev/null 2>&1 &", ok=True)
    b.berth("pause", other["paused"], ok=True)
    b.berth("sh", other["session"], "--", "true", ok=True)
    log = b.tmp("strace")

    def asked():
        """How many keepers ps asks, and what it says."""
        r = b.berth("ps", "--json", prefix=("strace", "-f", "-o", log, "-e", "trace=connect"), ok=True)
        with open(log) as f:
            return sum("connect(" in line for line in f), {x["id"]: x for x in json.loads(r.out)}

    try:
        # a keeper notes it once it has had nothing to do for a moment
        n, said = b.wait_for(lambda: (lambda a: a[0] == 3 and a)(asked()), 20)
        for i in idle:
            assert said[i]["status"] == "running" and said[i]["commands"] == said[i]["sessions"] == 0, said[i]
            assert said[i]["idle_ms"] >= 0 and "busy" not in said[i], said[i]
        assert said[main]["busy"] == "main command runs" and said[main]["commands"] == 1 and not said[main]["idle_ms"], said[main]
        assert said[other["session"]]["sessions"] == 1 and "busy" not in said[other["session"]], said[other["session"]]
        assert said[other["command"]]["busy"] == "command c1 runs", said[other["command"]]
        assert said[other["paused"]]["status"] == "paused", said[other["paused"]]
        b.wait_for(lambda: asked()[1][other["left"]].get("busy") == "cpu", 20)
        # what begins is told at once
        b.berth("exec", "-d", idle[0], "sleep", "1000", ok=True)
        assert asked()[1][idle[0]]["busy"] == "command c1 runs"
        os.kill(said[other["killed"]]["supervisor_pid"], signal.SIGKILL)
        b.wait_for(lambda: other["killed"] not in asked()[1], 20)
        # its note does not outlive it: the next keeper has not looked yet
        b.berth("start", other["killed"], ok=True)
        b.berth("exec", "-d", other["killed"], "sleep", "1000", ok=True)
        assert asked()[1][other["killed"]]["busy"] == "command c1 runs"
    finally:
        b.berth("rm", "-f", *idle, *other.values(), main, timeout=120)
