# SPDX-License-Identifier: Apache-2.0
"""Health checks of lasting sandboxes: berth create --health-cmd, the statuses, what ps, inspect and events say of them."""
import json
import subprocess

import berthtest as b
import box as boxes
import ocilayout

FAST = ("--health-interval", "100ms")


def create(*options, ok=True):
    return b.berth("create", *options, "--disk", "16m", "--disk-inodes", "1024", "host", ok=ok).out.strip()


def inspect(box):
    return json.loads(b.berth("inspect", box, ok=True).out)


def health(box):
    return inspect(box)["health"]


def listed(box):
    return next(x for x in json.loads(b.berth("ps", "-a", "--json", ok=True).out) if x["id"] == box)


def events(box, event):
    lines = [json.loads(line) for line in b.berth("events", "--json", box, ok=True).out.splitlines()]
    return [e for e in lines if e["event"] == event]


def wait_status(box, status):
    b.wait_for(lambda: health(box)["status"] == status, 20, f"the health status {status}")


def test_the_status_follows_the_check():
    box = create("--health-cmd", "echo looked; echo aside >&2; test -e /tmp/well", "--health-retries", "2", *FAST)
    assert listed(box)["health"] in ("starting", "unhealthy")
    wait_status(box, "unhealthy")
    told = health(box)
    assert told["failing_streak"] >= 2 and 2 <= len(told["log"]) <= 5
    last = told["log"][-1]
    assert last["exit_code"] == 1 and last["output"] == "looked\naside\n" and last["start"] <= last["end"]
    b.berth("exec", box, "touch", "/tmp/well", ok=True)
    wait_status(box, "healthy")
    b.wait_for(lambda: [r["exit_code"] for r in health(box)["log"]] == [0] * 5, 20, "five results that are well")
    assert health(box)["failing_streak"] == 0
    assert listed(box)["health"] == "healthy" and "running (healthy)" in b.berth("ps", ok=True).out
    assert b.berth("ps", "-q", "--filter", "health=healthy", ok=True).out.strip() == box
    assert b.berth("ps", "-q", "--filter", "health=un*", ok=True).out == ""
    assert [e["status"] for e in events(box, "health")] == ["unhealthy", "healthy"]
    b.berth("rm", "-f", box, ok=True)


def test_a_check_is_no_command_of_the_users():
    box = create("--health-cmd", "echo of-the-check", *FAST)
    wait_status(box, "healthy")
    assert json.loads(b.berth("commands", "--json", box, ok=True).out) == []
    assert listed(box)["commands"] == 0 and not events(box, "exec") and not events(box, "exit")
    assert b.berth("logs", box, ok=True).out == ""
    # and takes no number from those
    assert b.berth("exec", "--detach", box, "true", ok=True).out.strip() == "c1"
    b.berth("rm", "-f", box, ok=True)


def test_a_check_without_a_shell_and_one_that_cannot_be_executed():
    box = create("--health-exec", '["/bin/echo", "a  b", "$HOME"]', *FAST)
    wait_status(box, "healthy")
    assert health(box)["log"][-1]["output"] == "a  b $HOME\n"
    assert inspect(box)["healthcheck"] == {"argv": ["/bin/echo", "a  b", "$HOME"], "interval_ms": 100, "timeout_ms": 30000,
                                           "start_period_ms": 0, "start_interval_ms": 5000, "retries": 3}
    b.berth("rm", "-f", box, ok=True)
    box = create("--health-exec", '["/no/such"]', "--health-retries", "1", *FAST)
    wait_status(box, "unhealthy")
    assert health(box)["log"][-1]["exit_code"] == 127 and "/no/such" in health(box)["log"][-1]["output"]
    b.berth("rm", "-f", box, ok=True)


def test_failures_in_the_start_period_do_not_count():
    box = create("--health-cmd", "test -e /tmp/well", "--health-retries", "1", "--health-start-period", "60s",
                 "--health-start-interval", "100ms")
    b.wait_for(lambda: len(health(box)["log"]) == 5, 20, "five checks")
    assert health(box)["status"] == "starting" and health(box)["failing_streak"] == 0
    b.berth("exec", box, "touch", "/tmp/well", ok=True)
    wait_status(box, "healthy")
    b.berth("rm", "-f", box, ok=True)


def test_a_paused_sandbox_is_not_checked_and_a_check_loses_no_time_by_a_pause():
    """The check writes, then waits for a file; while it waits it stands still for longer than its timeout."""
    text = "echo began >> /tmp/log; until test -e /tmp/well; do sleep 0.05; done"
    box = create("--health-cmd", text, "--health-timeout", "8s", "--health-retries", "1", *FAST)
    b.wait_for(lambda: "began" in b.berth("exec", box, "cat", "/tmp/log").out, 20, "the check")
    b.berth("pause", box, ok=True)
    assert listed(box)["status"] == "paused"
    other = create("--health-cmd", "true", "--health-interval", "8500ms")
    wait_status(other, "healthy")	# a clock of 8.5 s
    assert health(box)["status"] == "starting" and not health(box)["log"]
    b.berth("resume", box, ok=True)
    b.berth("exec", box, "touch", "/tmp/well", ok=True)
    wait_status(box, "healthy")
    for x in (box, other):
        b.berth("rm", "-f", x, ok=True)


def test_checks_are_no_use_of_the_sandbox():
    box = create("--idle-timeout", "7s", "--health-cmd", "i=0; while test $i -lt 20000; do i=$((i+1)); done", *FAST)
    wait_status(box, "healthy")
    b.wait_for(lambda: listed(box)["status"] == "stopped", 30, "the end of the idle sandbox")
    assert inspect(box)["stop_reason"] == "idle timeout"
    assert "health" not in listed(box) and inspect(box)["healthcheck"]["interval_ms"] == 100
    # a start checks it anew
    b.berth("start", box, ok=True)
    wait_status(box, "healthy")
    b.berth("rm", "-f", box, ok=True)


def test_options_that_make_no_sense_are_refused():
    for options, word in ((("--health-interval", "1s"), "--health-cmd"), (("--health-cmd", "true", "--no-health"), "contradicts"),
                          (("--health-cmd", "true", "--health-exec", '["true"]'), "contradicts"),
                          (("--health-cmd", ""), "--no-health"), (("--health-exec", "true"), "array"),
                          (("--health-exec", "[]"), "array"), (("--health-exec", '[1]'), "array"),
                          (("--health-cmd", "true", "--health-interval", "99ms"), "100ms"),
                          (("--health-cmd", "true", "--health-interval", "25h"), "interval"),
                          (("--health-cmd", "true", "--health-timeout", "0"), "10ms"),
                          (("--health-cmd", "true", "--health-retries", "0"), "retries")):
        b.one_line_error(b.berth("create", *options, "host"), 2, word)
    box = create("--no-health")
    assert "health" not in listed(box) and "healthcheck" not in inspect(box)
    b.berth("rm", "-f", box, ok=True)


def import_checked(name, **check):
    tar = subprocess.run(["tar", "-C", boxes.dash_rootfs(), "-c", "."], stdout=subprocess.PIPE, check=True).stdout
    ocilayout.Layout(b.tmp(name)).image([tar], Entrypoint=["/bin/sh", "-c"], Cmd=["while :; do sleep 0.1; done"], Healthcheck=check)
    b.berth("image", "import", b.tmp(name), f"{name}:1", ok=True)


def test_a_service_is_checked_as_its_image_says_unless_its_options_say_otherwise():
    import_checked("checked", Test=["CMD-SHELL", "echo of the image"], Interval=1, Retries=2)
    small = ("--disk", "16m", "--disk-inodes", "1024")

    def made(*options):
        return b.berth("create", *small, *options, "checked:1", ok=True).out.strip()

    service = made("--service")
    # an interval below what berth allows is brought up to that
    assert inspect(service)["healthcheck"] == {"argv": ["/bin/sh", "-c", "echo of the image"], "interval_ms": 100, "timeout_ms": 30000,
                                               "start_period_ms": 0, "start_interval_ms": 5000, "retries": 2}
    wait_status(service, "healthy")
    assert health(service)["log"][-1]["output"] == "of the image\n"
    b.berth("stop", service, ok=True)
    b.berth("start", service, ok=True)
    wait_status(service, "healthy")
    other = made("--service", "--health-retries", "9", "--health-interval", "7s")
    assert (inspect(other)["healthcheck"]["retries"], inspect(other)["healthcheck"]["interval_ms"]) == (9, 7000)
    replaced = made("--service", "--health-cmd", "true")
    assert inspect(replaced)["healthcheck"]["argv"][2] == "true" and inspect(replaced)["healthcheck"]["retries"] == 3
    for options in ((), ("--service", "--no-health"), ("--service", "--no-healthcheck")):
        none = made(*options)
        assert "healthcheck" not in inspect(none) and "health" not in listed(none), options
        b.berth("rm", "-f", none, ok=True)
    # the committed image keeps the check
    b.berth("commit", service, "committed:1", ok=True)
    again = b.berth("create", *small, "--service", "committed:1", ok=True).out.strip()
    assert inspect(again)["healthcheck"] == inspect(service)["healthcheck"]
    for x in (service, other, replaced, again):
        b.berth("rm", "-f", x, ok=True)
    b.one_line_error(b.berth("create", "--service", "--health-interval", "1s", "--entrypoint", "/bin/true", "host"), 2, "--health-cmd")
    b.berth("image", "rm", "checked:1", "committed:1", ok=True)
