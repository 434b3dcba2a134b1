# SPDX-License-Identifier: Apache-2.0
"""--budget cpu=TIME: a sandbox stands still when it has used its CPU time, and goes on when berth grant gives more."""
import json

import berthtest as b
from box import Box

SPIN = "i=0; while :; do i=$((i+1)); done"


def inspect(x):
    return json.loads(b.berth("inspect", x.id, ok=True).out)


def budget(x):
    return json.loads(b.berth("stats", "--no-stream", "--json", x.id, ok=True).out)["budget"]


def stands_still(x):
    b.wait_for(lambda: inspect(x)["status"] == "paused", 60, "the freeze")


def grant(x, text, *options, **kw):
    return b.berth("grant", *options, x.id, text, **kw)


@b.deadline(120)
def test_it_stands_still_when_its_budget_is_used_up_and_goes_on_with_more():
    with Box("--budget", "cpu=300ms", "--cpus", "1") as x:
        assert inspect(x)["status"] == "running" and budget(x)["cpu_ms"] == 300
        x.exec("true", ok=True)
        c = b.berth("exec", "--detach", x.id, "sh", "-c", "echo began > /tmp/it; " + SPIN, ok=True).out.strip()
        stands_still(x)
        used = budget(x)["cpu_used_ms"]
        assert used >= 300, used
        # nobody but a grant lets it go on
        b.one_line_error(b.berth("resume", x.id), 125, "used up", f"berth grant {x.id}")
        assert "paused" in x.exec("true").err
        told = [json.loads(line) for line in b.berth("events", "--json", x.id, ok=True).out.splitlines()]
        assert [e["cpu_ms"] for e in told if e["event"] == "budget"] == [300], told
        # too little leaves it as it is
        more = budget(x)["cpu_used_ms"] + 1000
        if used > 301:
            grant(x, "cpu=1ms", ok=True)
            assert inspect(x)["status"] == "paused"
        assert json.loads(grant(x, f"cpu=+{more}ms", "--json", ok=True).out)["cpu_ms"] == budget(x)["cpu_ms"] > used + 1000
        # the same processes go on, with the files they had
        b.wait_for(lambda: budget(x)["cpu_used_ms"] > used, 60, "more use")
        stands_still(x)
        assert budget(x)["cpu_used_ms"] >= budget(x)["cpu_ms"]
        grant(x, "cpu=+1h", ok=True)
        assert x.exec("cat", "/tmp/it", ok=True).out == "began\n"
        b.berth("signal", x.id, c, "KILL", ok=True)


@b.deadline(120)
def test_a_budget_holds_over_stops_and_may_be_given_more_meanwhile():
    with Box("--budget", "cpu=400ms", "--cpus", "1") as x:
        b.berth("exec", "--detach", x.id, "sh", "-c", SPIN, ok=True)
        stands_still(x)
        used = budget(x)["cpu_used_ms"]
        b.berth("stop", "--grace", "0", x.id, ok=True)
        assert inspect(x)["budget_used_ms"] >= used
        b.berth("start", x.id, ok=True)
        stands_still(x)
        b.berth("stop", "--grace", "0", x.id, ok=True)
        grant(x, "cpu=+1h", ok=True)
        b.berth("start", x.id, ok=True)
        x.exec("true", ok=True)
        assert budget(x)["cpu_ms"] == 3600400 and budget(x)["cpu_used_ms"] >= used


def test_what_makes_no_sense_is_refused():
    for text in ("60s", "cpu=", "cpu=0", "cpu=-1", "wall=1h", "cpu=400d", "cpu=++1s"):
        assert b.berth("create", "--budget", text, "host").code == 2, text
    with Box() as x:
        b.one_line_error(grant(x, "cpu=+60s"), 2, "no budget", "--budget cpu=60s")
        b.one_line_error(grant(x, "60s"), 2, "not a budget")
    b.one_line_error(b.berth("grant", "nobody", "cpu=+60s"), 125, "nobody")
    b.one_line_error(b.berth("grant"), 2, "berth grant ID")
