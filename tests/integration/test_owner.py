# SPDX-License-Identifier: Apache-2.0
"""--owner-pid: a sandbox ends with the process that it is for."""
import json
import os
import signal
import subprocess

import berthtest as b
from box import Box

COST = 10


def owner():
    return subprocess.Popen(["sleep", "1000"])


def end(p):
    p.kill()
    p.wait()


def record(x):
    r = b.berth("inspect", "--json", x.id)
    return json.loads(r.out) if r.code == 0 else None


def events(x):
    return [json.loads(line) for line in b.berth("events", "--json", x.id, ok=True).out.splitlines()]


def test_it_stands_still_at_the_end_of_its_owner_and_goes_after_the_grace():
    p = owner()
    x, still = Box("--owner-pid", str(p.pid), "--owner-grace", "1s"), Box("--owner-pid", str(p.pid), "--owner-grace", "1h")
    x.exec("true", ok=True)
    assert record(x)["owner_pid"] == p.pid and record(x)["owner_grace_ms"] == 1000
    end(p)
    b.wait_for(lambda: record(still)["status"] == "paused", what="the freeze")
    assert "paused" in still.exec("true").err
    b.berth("rm", "-f", still.id, ok=True)
    b.wait_for(lambda: record(x) is None, 10, "the removal")
    told = events(x)
    assert [e["event"] for e in told[-3:]] == ["owner-ended", "stop", "rm"] and told[-1]["reason"] == "owner ended", told
    assert told[-3]["pid"] == p.pid
    assert not os.path.exists(os.path.join(b.root(), "state", "sandboxes", x.id))


def test_without_a_grace_it_goes_at_once():
    p = owner()
    x = Box("--owner-pid", str(p.pid), "--owner-grace", "0", "--name", "mine")
    b.berth("exec", "--detach", x.id, "sleep", "1000", ok=True)
    end(p)
    b.wait_for(lambda: record(x) is None, 10, "the removal")
    Box("--name", "mine").__exit__(None, None, None)


def test_an_owner_that_has_ended_makes_no_sandbox():
    p = owner()
    end(p)
    for pid in str(p.pid), "0", "x", "-5":
        r = b.berth("create", f"--owner-pid={pid}", "host")
        b.expect(r.code != 0 and len(r.err.splitlines()) == 1, r, "made for nobody")
    assert b.berth("ps", "-aq", ok=True).out == ""


def test_a_stopped_one_goes_when_somebody_looks():
    p = owner()
    with Box("--owner-pid", str(p.pid)) as one, Box("--owner-pid", str(p.pid)) as two, Box("--owner-pid", str(os.getpid())) as mine:
        b.berth("stop", one.id, two.id, mine.id, ok=True)
        b.berth("start", mine.id, ok=True)
        b.berth("stop", mine.id, ok=True)
        end(p)
        b.expect_code(b.berth("start", one.id), 125)
        assert record(one) is None
        b.berth("gc", ok=True)
        assert record(two) is None and record(mine)["status"] == "stopped"


def test_one_whose_keeper_was_killed_goes_too():
    p = owner()
    x = Box("--owner-pid", str(p.pid))
    os.kill(x.keeper, signal.SIGKILL)
    end(p)
    b.wait_for(lambda: b.berth("gc").code == 0 and record(x) is None, 10, "the removal")
