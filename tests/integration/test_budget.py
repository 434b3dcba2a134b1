# SPDX-License-Identifier: Apache-2.0
"""--budget: a sandbox stands still when it has used up what it may, and goes on when berth grant gives more.

Attacks S8 of SECURITY.md.
"""
import json
import os

import berthtest as b
import proc
from box import Box
from netlab import BASE, DNS, OUTSIDE, Lab, need_bridge, need_net

V2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")

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
    few = int(300 * b.EMULATED)
    with Box("--budget", f"cpu={few}ms", "--cpus", "1") as x:
        assert inspect(x)["status"] == "running" and budget(x)["cpu_ms"] == few
        x.exec("true", ok=True)
        c = b.berth("exec", "--detach", x.id, "sh", "-c", "echo began > /tmp/it; " + SPIN, ok=True).out.strip()
        stands_still(x)
        used = budget(x)["cpu_used_ms"]
        assert used >= few, used
        # nobody but a grant lets it go on
        b.one_line_error(b.berth("resume", x.id), 125, "used up", f"berth grant {x.id}")
        assert "paused" in x.exec("true").err
        told = [json.loads(line) for line in b.berth("events", "--json", x.id, ok=True).out.splitlines()]
        assert [e["cpu_ms"] for e in told if e["event"] == "budget"] == [few], told
        # too little leaves it as it is
        more = budget(x)["cpu_used_ms"] + 1000
        if used > few + 1:
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


def events(x, name):
    return [e for e in map(json.loads, b.berth("events", "--json", x.id, ok=True).out.splitlines()) if e["event"] == name]


def test_a_budget_of_time_does_not_count_how_long_it_stood_still_for_want_of_it():
    with Box("--budget", "time=300ms,cpu=1h") as x:
        stands_still(x)
        assert events(x, "budget")[0]["budget"] == "time" and budget(x)["time_used_ms"] >= 300, budget(x)
        b.one_line_error(b.berth("resume", x.id), 125, "used up", f"berth grant {x.id} time=+1h")
        used = budget(x)["time_used_ms"]
        # it stands still while these are asked for, and for as long again
        b.berth("stats", "--no-stream", x.id, ok=True)
        assert budget(x)["time_used_ms"] == used
        # a grant of the other kind does not help
        grant(x, "cpu=+1h", ok=True)
        assert inspect(x)["status"] == "paused"
        assert json.loads(grant(x, "time=+1h,cpu=1s", "--json", ok=True).out) == {"id": x.id, "cpu_ms": 7201000, "time_ms": 3600300}
        x.exec("true", ok=True)
        b.berth("stop", x.id, ok=True)
        kept = inspect(x)
        assert kept["budget_time_ms"] == 3600300 and used <= kept["budget_time_used_ms"] < 3600000, kept
        b.berth("start", x.id, ok=True)
        assert budget(x)["time_used_ms"] >= kept["budget_time_used_ms"], (budget(x), kept)


@b.deadline(120)
def test_a_budget_of_traffic_freezes_whom_no_byte_more_is_let_through():
    need_net()
    body = b"x" * 100000
    with Lab(answer=lambda path, headers: (200, {}, body)), \
            Box(*BASE, "--allow-net", OUTSIDE + "/32", "--allow-host", OUTSIDE, "--budget", "net=1m") as x:
        fetch = f"while curl -s -o /dev/null -m 20 http://{OUTSIDE}/; do :; done"
        b.berth("exec", "--detach", x.id, "sh", "-c", fetch, ok=True)
        stands_still(x)
        had = budget(x)
        assert had["net_used_bytes"] >= 1 << 20 == had["net_bytes"], had
        b.one_line_error(b.berth("resume", x.id), 125, f"berth grant {x.id} net=+1g")
        grant(x, f"net={had['net_used_bytes'] + (1 << 20)}", ok=True)
        stands_still(x)
        assert budget(x)["net_used_bytes"] >= budget(x)["net_bytes"] > had["net_bytes"], budget(x)
        # over a stop, which the proxy's counters do not outlive
        used = budget(x)["net_used_bytes"]
        b.berth("stop", "--grace", "0", x.id, ok=True)
        b.berth("start", x.id, ok=True)
        stands_still(x)
        assert budget(x)["net_used_bytes"] >= used


@b.deadline(120)
def test_a_budget_of_io_counts_what_disks_read_and_write():
    if not V2:
        b.one_line_error(b.berth("create", "--budget", "io=1g", "host"), 125, "v1", "hint")
        raise b.skip("the rest needs cgroup v2 alone (make check-vm)")
    with Box("--budget", "io=4m") as x:
        b.berth("exec", "--detach", x.id, "sh", "-c", "while head -c 1048576 /dev/zero | dd of=/srv/f bs=64k conv=fsync; do :; done", ok=True)
        stands_still(x)
        had = budget(x)
        assert had["io_used_bytes"] >= 4 << 20, had
        grant(x, f"io=+{had['io_used_bytes'] + (4 << 20)}", ok=True)
        stands_still(x)
        assert budget(x)["io_used_bytes"] >= had["io_used_bytes"] + (4 << 20)


def test_a_sandbox_whose_traffic_is_budgeted_joins_no_network_that_is_not_counted():
    need_bridge()
    for name in ("one", "two"):
        b.berth("network", "create", "--internal", name, ok=True)
    with Box("--name", "x", "--network", "one", "--budget", "net=1g") as x:
        b.one_line_error(b.berth("network", "connect", "two", "x"), 2, "budget of net", "hint")
        b.one_line_error(b.berth("create", "--network", "container:x", "host"), 2, "budget", "--network-bytes")
        b.berth("stop", "x", ok=True)
        b.one_line_error(b.berth("network", "connect", "two", "x"), 2, "budget of net", "hint")
    b.berth("network", "prune", ok=True)


def test_what_makes_no_sense_is_refused():
    for network in ("none", "host"):
        b.one_line_error(b.berth("create", "--budget", "net=1g", "--network", network, "host"), 2, "not counted", "hint")
    for text in ("60s", "cpu=", "cpu=0", "cpu=-1", "wall=1h", "cpu=400d", "cpu=++1s", "cpu=1s,", "cpu=1s,cpu=2s", ",cpu=1s", "net=1s", "io=0"):
        assert b.berth("create", "--budget", text, "host").code == 2, text
    with Box() as x:
        b.one_line_error(grant(x, "cpu=+60s"), 2, "no budget", "--budget cpu=60s")
        b.one_line_error(grant(x, "60s"), 2, "not a budget")
    with Box("--budget", "cpu=1h") as x:
        b.one_line_error(grant(x, "time=+1h"), 2, "no budget of time", "--budget time=1h")
        assert inspect(x)["budget_cpu_ms"] == 3600000 and "budget_time_ms" not in inspect(x)
    b.one_line_error(b.berth("grant", "nobody", "cpu=+60s"), 125, "nobody")
    b.one_line_error(b.berth("grant"), 2, "berth grant ID")


def test_traffic_that_is_counted_no_more_ends_a_sandbox_with_a_budget_of_it():
    need_net()
    with Lab(), Box(*BASE, "--allow-host", OUTSIDE, "--budget", "net=1g") as x, Box(*BASE, "--allow-host", OUTSIDE) as y:
        for box in (x, y):
            proxies = [p for p in proc.descendants(box.keeper) if "egress" in proc.cmdline(p)]
            assert len(proxies) == 1, proxies
            proc.kill(proxies[0])
        b.wait_for(lambda: inspect(x)["status"] == "stopped", 20, lambda: f"its end: {inspect(x)}")
        assert [e["reason"] for e in events(x, "stop")] == ["budget"], events(x, "stop")
        # without a budget nothing passes, and the rest goes on
        assert y.exec("curl", "-s", "-m", "5", f"http://{OUTSIDE}/").code != 0
        assert inspect(y)["status"] == "running"


def test_a_budget_of_traffic_counts_what_passes_by_the_rules_of_a_network():
    need_bridge()
    with Lab(answer=lambda path, headers: (200, {}, b"x" * (600 << 10)), forwarding=True):
        b.berth("network", "create", "--dns", DNS, "--allow-host", "outside.test", "app", ok=True)
        with Box("--network", "app", "--budget", "net=1m") as x:
            fetch = ("curl", "-x", "http://127.0.0.1:3128", "-s", "-m", "20", "-o", "/dev/null", "http://outside.test/")
            x.exec(*fetch, ok=True)
            used = budget(x)["net_used_bytes"]
            assert used >= 600 << 10, used
            b.berth("restart", x.id, ok=True)
            assert budget(x)["net_used_bytes"] >= used, budget(x)
            b.berth("exec", "--detach", x.id, "sh", "-c", "while " + " ".join(fetch) + "; do :; done", ok=True)
            stands_still(x)
            assert budget(x)["net_used_bytes"] >= 1 << 20, budget(x)
        b.berth("network", "rm", "app", ok=True)
