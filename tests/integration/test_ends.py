# SPDX-License-Identifier: Apache-2.0
"""
Commands that are ended from outside: with the sandbox, or by their time while it is paused.

Each has a verdict that says so: who retries what "was not found" would run it twice.
"""
import json
import os
import signal
import subprocess
import threading

import berthtest as b
from daemon import Daemon


def begin(*args):
    return subprocess.Popen([b.BERTH, *args], env=b.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def verdict_of(p):
    out, err = p.communicate(timeout=20)
    assert not err, err
    answer = json.loads(out)
    return p.returncode, answer.get("verdict", answer)


def both_end(name, how):
    """A command and a session's text are there; how(name) ends them; what they say."""
    b.berth("create", "--name", name, "host", ok=True)
    command, text = begin("exec", "--json", name, "sleep", "100"), begin("sh", "--json", name, "sleep 101")
    b.wait_for(lambda: "sleep 101" in b.berth("top", name, ok=True).out and "sleep 100" in b.berth("top", name, ok=True).out, what="both to run")
    how(name)
    return verdict_of(command), verdict_of(text)


def test_who_waits_for_a_command_hears_that_its_sandbox_was_ended():
    for n, verb in enumerate((["kill"], ["rm", "-f"], ["stop", "--grace", "0"])):
        for code, verdict in both_end(f"box{n}", lambda name: b.berth(*verb, name, ok=True)):
            assert code == 137 and verdict["cause"] == "killed-by", (verb, code, verdict)
        b.berth("rm", "-f", f"box{n}")


def test_a_sandbox_whose_init_died_has_lost_its_commands():
    def kill_init(name):
        os.kill(json.loads(b.berth("inspect", name, ok=True).out)["init_pid"], signal.SIGKILL)
    for code, verdict in both_end("box", kill_init):
        assert code == 125 and verdict["cause"] == "lost", (code, verdict)
    b.berth("rm", "-f", "box", ok=True)


def test_without_json_a_lost_command_is_told_in_one_line():
    for verb in (["exec", "box", "sleep", "100"], ["sh", "box", "sleep 100"]):
        b.berth("create", "--name", "box", "host", ok=True)
        p = begin(*verb)
        b.wait_for(lambda: "sleep 100" in b.berth("top", "box", ok=True).out, what="the command to run")
        os.kill(json.loads(b.berth("inspect", "box", ok=True).out)["init_pid"], signal.SIGKILL)
        out, err = p.communicate(timeout=20)
        assert p.returncode == 125 and not out and err.startswith("berth") and err.count("\n") == 1, (verb, p.returncode, out, err)
        b.berth("rm", "-f", "box", ok=True)


def test_a_detached_commands_end_is_among_the_events():
    b.berth("create", "--name", "box", "host", ok=True)
    b.berth("exec", "-d", "box", "sleep", "100", ok=True)
    b.berth("kill", "box", ok=True)
    ends = [json.loads(line) for line in b.berth("events", "--json", "box", ok=True).out.splitlines()]
    assert any(e.get("cause", e.get("verdict", {}).get("cause")) == "killed-by" for e in ends), ends
    b.berth("rm", "-f", "box", ok=True)


def test_a_timeout_ends_what_is_paused():
    """The process is killed in time, and init, which stands still, cannot say so."""
    b.berth("create", "--name", "box", "host", ok=True)
    b.berth("sh", "box", "cd /tmp", ok=True)
    for grace in ("0", "200ms"):
        command = begin("exec", "--json", "--timeout", "1s", "--grace", grace, "box", "sleep", "100")
        text = begin("sh", "--json", "--timeout", "1s", "box", "sleep 101")
        b.wait_for(lambda: "sleep 101" in b.berth("top", "box", ok=True).out and "sleep 100" in b.berth("top", "box", ok=True).out, what="both to run")
        b.berth("pause", "box", ok=True)
        for code, verdict in (verdict_of(command), verdict_of(text)):
            assert code == 124 and verdict["cause"] == "timeout", (code, verdict)
        b.berth("resume", "box", ok=True)
        assert b.berth("exec", "box", "echo", "on", ok=True).out == "on\n"
        assert b.berth("sh", "box", "echo again", ok=True).out == "again\n"
    b.berth("rm", "-f", "box", ok=True)


def test_berthd_tells_a_verdict_and_not_that_it_may_be_started():
    """"Not running, start it" would have a client run the command once more."""
    with Daemon() as d:
        d.create("box")
        answers = []
        client = threading.Thread(target=lambda: answers.append(d.exec("box", "sleep", "100")))
        client.start()
        b.wait_for(lambda: "sleep 100" in b.berth("top", "box", ok=True).out, what="the command to run")
        b.berth("kill", "box", ok=True)
        client.join(20)
        assert answers and answers[0]["verdict"]["cause"] == "killed-by", answers
        b.berth("rm", "-f", "box", ok=True)
