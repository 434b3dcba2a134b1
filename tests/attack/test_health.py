# SPDX-License-Identifier: Apache-2.0
"""Health checks that attack the sandbox, the keeper or the host (D02, D03, D13): without end, forking, writing for ever."""
import json
import os

import berthtest as b
import proc
from box import Box


COST = 12


def health(box):
    return json.loads(b.berth("inspect", box.id, ok=True).out)["health"]


def log_of(box, count):
    b.wait_for(lambda: len(health(box)["log"]) >= count, 30, f"{count} results")
    return health(box)["log"]


def resident(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def checked(text, *more):
    return Box("--health-cmd", text, "--health-interval", "100ms", "--health-timeout", "300ms", "--health-retries", "2", *more)


def test_a_check_without_end_is_killed_with_its_tree_and_never_runs_twice():
    """Each check writes its begin, and starts sleepers that ignore what can be ignored."""
    text = "echo $$ >> /workspace/began; trap '' TERM INT HUP; (setsid sleep 1000 &) ; sleep 1000 & sleep 1000"
    with checked(text) as box:
        results = log_of(box, 4)
        assert all(r["cause"] == "timeout" and r["exit_code"] == 124 for r in results), results
        assert health(box)["status"] == "unhealthy"
        for before, after in zip(results, results[1:]):
            assert before["end"] <= after["start"], results
        # of the check that runs now at most
        assert len(box.running("sleep")) <= 3, box.running("sleep")


def test_what_a_check_leaves_behind_ends_with_it():
    with checked("sleep 1000 & sleep 1000 & exit 0", "--health-interval", "1s", "--health-timeout", "60s") as box:
        assert log_of(box, 1)[0]["exit_code"] == 0
        b.wait_for(lambda: not box.running("sleep"), 10, "the end of what the check left behind")
        assert health(box)["status"] == "healthy"


def test_a_check_that_forks_for_ever_leaves_room_for_commands():
    bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
    with Box("--health-exec", json.dumps(["/usr/bin/python3", "-c", bomb]), "--health-interval", "100ms", "--health-timeout",
             "2s", "--pids", "48") as box:
        told = []
        while len(told) < 2 or "pids" not in [r["cause"] for r in told]:
            box.exec("sh", "-c", "for i in 1 2 3 4; do /bin/true & done; wait", ok=0)
            assert len(box.processes()) <= 24 + 6
            told = health(box)["log"]


def test_a_check_that_writes_for_ever_costs_the_keeper_no_memory():
    with checked("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done") as box:
        # (a slow machine ends one before its first word)
        b.wait_for(lambda: any(r["output"] for r in health(box)["log"]), 30, "a check that has written")
        before = resident(box.keeper)
        results = log_of(box, 5)
        assert all(len(r["output"]) <= 4096 for r in results), [len(r["output"]) for r in results]
        assert resident(box.keeper) < before + 2048, (before, resident(box.keeper))
    with checked(r"printf '\377\000\001%5000s' x; exit 1", "--health-timeout", "60s") as box:
        r = log_of(box, 1)[0]
        assert r["output_hex"].startswith("ff0001") and len(r["output_hex"]) == 8192


def test_a_keeper_that_is_killed_while_it_checks_leaves_no_check():
    with checked("sleep 1000", "--health-timeout", "60s") as box:
        b.wait_for(lambda: box.running("sleep"), 20, "the check")
        pids = box.running("sleep")
        os.kill(box.keeper, 9)
        b.wait_for(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), 20, "the end of the check")
        proc.reap_orphans(os.getpid())


def wait(box, *options):
    return b.berth("wait", *options, box.id, env=box.env)


def test_a_regular_expression_that_takes_for_ever_ends_at_the_deadline():
    """Nested repeats: exponential for a matcher that goes back, and of great size for one that does not."""
    with Box() as box:
        box.exec("sh", "-c", "head -c 60000 /dev/zero | tr '\\0' a; echo b; sleep 1000", options=["--detach"], ok=True)
        for regex in ("(a*)*c", "((a{1,200}){1,200}){1,200}c", "(((a|aa)+)+)+c", "(a?){255}(a{255}){255}c"):
            r = wait(box, "--log", regex, "--timeout", "1s")
            assert r.code in (2, 124, 125), r


def test_a_line_without_end_is_searched_and_costs_no_memory():
    with Box() as box:
        box.exec("sh", "-c", "yes | tr -d '\\n' | head -c 200000; printf needle; yes | tr -d '\\n' | head -c 20000; sleep 1000",
                 options=["--detach"], ok=True)
        assert wait(box, "--log", "needle", "--timeout", "30s").code == 0
        assert wait(box, "--log", "^needle", "--timeout", "300ms").code == 124
        p = b.start("wait", "--log", "not there", "--timeout", "30s", box.id, env=box.env)
        box.exec("sh", "-c", "while :; do echo -n yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done", options=["--detach"], ok=True)
        b.wait_for(lambda: proc.descendants(p.pid), 20, "the reader")
        reader = proc.descendants(p.pid)[0]
        b.wait_for(lambda: b.berth("logs", box.id, env=box.env).out.count("yyyyyyyyyy") > 3000, 20, "much of the log")
        assert resident(reader) < 40 << 10, resident(reader)
        b.stop(p)
        b.wait_for(lambda: proc.reap_orphans(os.getpid()) or not os.path.exists(f"/proc/{reader}"), 20, "the end of the reader")
