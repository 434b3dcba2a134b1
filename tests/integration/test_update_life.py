# SPDX-License-Identifier: Apache-2.0
"""berth update of a sandbox's life: its restart policy, its owner, its health check."""
import json
import os
import signal
import subprocess

import berthtest as b
import proc

COST = 15
NAME = "svc"


def create(*options, command=("sleep", "1000")):
    return b.berth("create", "--name", NAME, *options, "host", *command, ok=True).out.strip()


def update(*options):
    return b.berth("update", *options, NAME, ok=True)


def inspect():
    return json.loads(b.berth("inspect", NAME, ok=True).out)


def health():
    return inspect().get("health", {})


def guardians(id):
    return [p for p in proc.descendants(os.getpid()) if proc.cmdline(p).find(f"berth guard {id}") >= 0]


def remove():
    b.berth("rm", "-f", NAME, ok=True)


def kill_keeper():
    os.kill(inspect()["supervisor_pid"], signal.SIGKILL)


def test_a_policy_that_comes_later_is_kept_by_a_guardian_that_comes_then():
    id = create()
    assert not guardians(id)
    update("--restart", "always")
    update("--restart", "unless-stopped")
    b.wait_for(lambda: len(guardians(id)) == 1, what=lambda: f"one guardian: {guardians(id)}")
    guardian = guardians(id)[0]
    assert (inspect()["restart"], inspect()["guardian_pid"]) == ("unless-stopped", guardian), inspect()
    kill_keeper()
    b.wait_for(lambda: (inspect()["status"], inspect()["restarts"]) == ("running", 1), 30, "the next run")
    b.wait_for(lambda: not proc.alive(guardian) and len(guardians(id)) == 1, what="the next guardian in place of the first")
    # and away again: the guardian learns it at the end
    update("--restart", "no")
    kill_keeper()
    b.wait_for(lambda: not guardians(id), 30, "the end of the guardian")
    b.berth("wait", NAME, timeout=30)
    assert inspect()["status"] == "stopped", inspect()
    # of one that does not run
    update("--restart", "on-failure:2")
    assert inspect()["restart"] == "on-failure:2", inspect()
    b.berth("start", NAME, ok=True)
    kill_keeper()
    b.wait_for(lambda: (inspect()["status"], inspect()["restarts"]) == ("running", 1), 30, "the next run")
    remove()
    b.wait_for(lambda: not guardians(id), 30, "the end of the guardian")


def test_an_owner_may_come_later_change_and_go():
    create()
    first, second = (subprocess.Popen(["sleep", "1000"]) for _ in range(2))
    update("--owner-pid", str(first.pid), "--owner-grace", "0")
    assert (inspect()["owner_pid"], inspect()["owner_grace_ms"]) == (first.pid, 0), inspect()
    update("--owner-pid", str(second.pid))
    first.kill()
    first.wait()
    b.berth("exec", NAME, "true", ok=True)
    update("--owner-pid", "0")
    assert "owner_pid" not in inspect(), inspect()
    b.berth("restart", "--grace", "0", NAME, ok=True)
    assert "owner_pid" not in inspect(), inspect()
    b.berth("stop", NAME, ok=True)
    update("--owner-pid", str(second.pid))
    assert inspect()["owner_pid"] == second.pid, inspect()
    b.berth("start", NAME, ok=True)
    b.one_line_error(b.berth("update", "--owner-pid", str(first.pid), NAME), 2, "not a living process")
    second.kill()
    second.wait()
    b.wait_for(lambda: b.berth("inspect", NAME).code != 0, 20, "the removal")


def test_a_health_check_may_come_later_change_and_go():
    create()
    assert "health" not in inspect()
    update("--health-cmd", "echo one; exit 1", "--health-interval", "100ms", "--health-retries", "1")
    b.wait_for(lambda: health().get("status") == "unhealthy", 20, "a failure")
    # the other numbers stay, and a check that hangs gives way to the new one
    update("--health-cmd", "echo two; sleep 1000")
    assert inspect()["healthcheck"]["interval_ms"] == 100 and health()["status"] == "starting", inspect()
    b.wait_for(lambda: len(proc.descendants(inspect()["init_pid"])) > 1, 20, "a check that runs")
    update("--health-exec", '["/bin/echo", "three"]')
    b.berth("wait", "--healthy", NAME, ok=True)
    assert {r["output"] for r in health()["log"]} == {"three\n"}, health()
    b.berth("restart", "--grace", "0", NAME, ok=True)
    b.berth("wait", "--healthy", NAME, ok=True)
    update("--no-health")
    assert "health" not in inspect() and "healthcheck" not in inspect(), inspect()
    b.one_line_error(b.berth("wait", "--healthy", NAME), 2, "no health check")
    b.one_line_error(b.berth("update", "--health-interval", "1s", NAME), 2, "--health-cmd")
    remove()


def test_what_does_not_fit_together_changes_nothing():
    create("--auto-remove")
    before = inspect()
    b.one_line_error(b.berth("update", "--restart", "always", NAME), 2, "--auto-remove")
    b.one_line_error(b.berth("update", "--restart", "sometimes", NAME), 2, "restart policy")
    b.one_line_error(b.berth("update", "--health-cmd", "true", "--no-health", NAME), 2, "contradicts")
    b.one_line_error(b.berth("update", "--memory", "100m", "--health-cmd", "true", "--health-interval", "1ms", NAME), 2, "100ms")
    assert inspect() == before, inspect()
    remove()
    create(command=())
    b.one_line_error(b.berth("update", "--restart", "always", NAME), 2, "main command")
    remove()
