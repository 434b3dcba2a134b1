# SPDX-License-Identifier: Apache-2.0
"""
A create of a service is killed at its system calls in turn.  Then there is either nothing of the sandbox, or all:
its main command runs, its guardian waits, and it comes back when its keeper is killed.
"""
import json
import os
import signal
import time

import berthtest as b
import leak
import proc
import test_faults as one
import test_faults_living as living

COST = 60
DEADLINE = 200
BUDGET = one.ASKED or 22
ENOUGH = 60
ARGS = ["create", "--name", "svc", "--restart", "always", "--disk", "16m", "host", "sleep", "1000"]


def guardians():
    return [p for p in proc.descendants(os.getpid()) if proc.cmdline(p).find("berth guard") >= 0]


def all_or_nothing():
    """The sandbox, {} when there is none, None while it is neither."""
    b.gc()
    ids = b.berth("ps", "-a", "-q", ok=True).out.split()
    if not ids:
        return None if proc.descendants(os.getpid()) else {}
    j = json.loads(b.berth("inspect", ids[0]).out or "{}")
    runs = j.get("status") == "running" and len(ids) == 1 and len(guardians()) == 1
    return j if runs and b.berth("exec", "svc", "true").code == 0 else None


def test_a_create_of_a_service_that_is_killed_leaves_nothing_or_all():
    b.berth(*ARGS, ok=True)
    b.berth("rm", "-f", "svc", ok=True)
    most = living.calls_of(ARGS, follow=False)
    b.berth("rm", "-f", "svc", ok=True)
    todo = sorted((k, call) for call, n in most.items() for k in range(1, n + 1))
    end, done, ended = time.monotonic() + BUDGET, 0, {"nothing": 0, "all": 0}
    # from both sides, as the last ones are those after which it runs
    order = [x for pair in zip(todo, reversed(todo)) for x in pair][:len(todo)]
    with leak.Check():
        for k, call in order:
            if done >= ENOUGH and time.monotonic() > end:
                break
            living.told(ARGS, living.strace("-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={k}"))
            living.traceless()
            j = b.wait_for(lambda: [x for x in (all_or_nothing(),) if x is not None], seconds=10,
                           what=lambda: f"after the kill at {call} {k}: nothing or all of it: "
                                        f"{b.berth('ps', '-a').out} {[proc.cmdline(p) for p in proc.descendants(os.getpid())]}")[0]
            ended["all" if j else "nothing"] += 1
            done += 1
            if j and ended["all"] == 1:
                os.kill(j["supervisor_pid"], signal.SIGKILL)
                b.wait_for(lambda: json.loads(b.berth("inspect", "svc", ok=True).out).get("restarts") == 1, what="its restart")
            b.berth("rm", "-f", "svc", ok=True)
    print(f"{done} kills of {len(todo)}: {ended}")
    assert ended["nothing"] and ended["all"], ended
