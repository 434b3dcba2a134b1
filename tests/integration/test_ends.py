# SPDX-License-Identifier: Apache-2.0
"""
Commands that are ended from outside: with the sandbox, or by their time while it is paused.

Each has a verdict that says so: who retries what "was not found" would run it twice.
"""
import json
import os
import re
import signal
import subprocess
import threading

import berthtest as b
from daemon import Daemon


COST = 14


def begin(*args):
    return subprocess.Popen([b.BERTH, *args], env=b.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def verdict_of(p):
    out, err = p.communicate(timeout=20 * b.SLOW)
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


def test_a_client_that_waits_for_a_command_hears_that_its_sandbox_ended():
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
        out, err = p.communicate(timeout=20 * b.SLOW)
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
    begun = [begin("exec", "--json", "--timeout", "8s", "--grace", grace, "box", "sleep", n) for grace, n in (("0", "100"), ("200ms", "102"))]
    begun.append(begin("sh", "--json", "--timeout", "8s", "box", "sleep 101"))
    b.wait_for(lambda: {"sleep 100", "sleep 101", "sleep 102"} <= set(re.findall(r"sleep 10\d", b.berth("top", "box", ok=True).out)), what="all to run")
    b.berth("pause", "box", ok=True)
    for code, verdict in map(verdict_of, begun):
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
        client.join(20 * b.SLOW)
        assert answers and answers[0]["verdict"]["cause"] == "killed-by", answers
        b.berth("rm", "-f", "box", ok=True)


def test_a_command_that_is_killed_before_it_has_started_has_a_verdict_too():
    """Init stands still: the keeper has asked it for the command, and has no answer when the kill comes."""
    with Daemon() as d:
        for asks in (lambda: d.exec("box", "sleep", "100")["verdict"]["cause"],
                     lambda: verdict_of(begin("exec", "--json", "box", "sleep", "100"))[1]["cause"],
                     lambda: json.loads(b.berth("stdio", input='{"id": 1, "op": "exec", "sandbox": "box", "argv": ["sleep", "100"]}\n', ok=True)
                                        .out.splitlines()[-1])["verdict"]["cause"]):
            d.create("box")
            answers = []
            os.kill(json.loads(b.berth("inspect", "box", ok=True).out)["init_pid"], signal.SIGSTOP)
            client = threading.Thread(target=lambda: answers.append(asks()))
            client.start()
            b.wait_for(lambda: json.loads(b.berth("ps", "--json", ok=True).out)[0]["commands"] == 1, what="the command to be asked for")
            b.berth("kill", "box", ok=True)
            client.join(20 * b.SLOW)
            assert answers == ["killed-by"], answers
            b.berth("rm", "-f", "box", ok=True)


def keeper_of(name):
    return json.loads(b.berth("inspect", name, ok=True).out)["supervisor_pid"]


def end_keeper(name, signo=signal.SIGKILL):
    pid = keeper_of(name)
    os.kill(pid, signo)
    b.wait_for(lambda: not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z",
               what="the keeper to end")


def test_a_sandbox_whose_keeper_was_killed_is_a_stopped_one_to_every_verb():
    """Nobody has told of it, nor cleared up: the first who asks does."""
    for verb in (["exec", "box", "true"], ["sh", "box", "true"], ["pause"], ["stats"], ["top"], ["update", "--memory", "64m"]):
        b.berth("create", "--name", "box", "host", ok=True)
        end_keeper("box")
        r = b.berth(*verb, *([] if "box" in verb else ["box"]))
        b.one_line_error(r, 125, "is not running", "berth start")
        assert json.loads(b.berth("ps", "-a", "--json", ok=True).out)[0]["status"] == "stopped"
        b.berth("rm", "box", ok=True)
    b.berth("create", "--name", "box", "host", ok=True)
    end_keeper("box")
    b.berth("stop", "box", ok=True)     # as of any that is stopped
    assert json.loads(b.berth("ps", "-a", "--json", ok=True).out)[0]["status"] == "stopped"
    b.berth("rm", "box", ok=True)


def test_one_whose_keeper_was_killed_is_removed_without_force():
    b.berth("create", "--name", "box", "host", ok=True)
    end_keeper("box")
    b.berth("rm", "box", ok=True)
    assert json.loads(b.berth("ps", "-a", "--json", ok=True).out) == []
    p = begin("run", "--name", "short", "host", "sleep", "1000")
    b.wait_for(lambda: b.berth("inspect", "short").code == 0, what="the run")
    p.kill()
    p.communicate()
    b.berth("rm", "short", ok=True)
    assert b.berth("inspect", "short").code == 125


def test_inspect_and_ps_say_the_same():
    def status():
        listed = json.loads(b.berth("ps", "-a", "--json", ok=True).out)[0]["status"]
        return json.loads(b.berth("inspect", "box", ok=True).out)["status"], listed
    b.berth("create", "--name", "box", "host", ok=True)
    assert status() == ("running", "running")
    b.berth("pause", "box", ok=True)
    assert status() == ("paused", "paused")
    b.berth("resume", "box", ok=True)
    end_keeper("box")
    assert json.loads(b.berth("inspect", "box", ok=True).out)["status"] == "stopped"
    assert status() == ("stopped", "stopped")
    b.berth("start", "box", ok=True)
    b.berth("stop", "--grace", "0", "box", ok=True)
    assert status() == ("stopped", "stopped")
    b.berth("rm", "box", ok=True)


def test_signals_that_say_nothing_do_not_end_a_keeper():
    b.berth("create", "--name", "box", "host", ok=True)
    for signo in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGHUP, signal.SIGPIPE):
        os.kill(keeper_of("box"), signo)
        r = b.berth("exec", "box", "sh", "-c", "grep Sig /proc/self/status", ok=True)
        assert "SigBlk:\t0000000000000000" in r.out and "SigIgn:\t0000000000000000" in r.out, (signo, r)
    end_keeper("box", signal.SIGQUIT)
    b.wait_for(lambda: json.loads(b.berth("ps", "-a", "--json", ok=True).out)[0]["status"] == "stopped", what="a clean stop")
    b.berth("rm", "box", ok=True)


HOLDS = r"""
import os, resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
kept = []
for i in range(600):
    fd = os.open('/proc/pressure/cpu', os.O_RDWR)
    os.write(fd, b'some 1 2000000\n')
    kept.append(fd)
print('held', flush=True)
time.sleep(1000)
"""


def test_processes_that_end_slowly_are_waited_for_once():
    """Each of its triggers takes the kernel some ms; a process of ours in the sandbox's cgroup, as a payload can make none."""
    if not os.path.exists("/proc/pressure/cpu"):
        return
    b.berth("create", "--name", "box", "host", ok=True)
    with open(f"/proc/{json.loads(b.berth('inspect', 'box', ok=True).out)['init_pid']}/cgroup") as f:
        path = next(line for line in f if line.startswith("0::"))[3:].strip()
    holder = subprocess.Popen(["python3", "-c", HOLDS], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    mount = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
    with open(mount + path + "/cgroup.procs", "w") as f:
        f.write(str(holder.pid))
    end_keeper("box")
    r = b.berth("gc")
    if r.code:    # a machine that ends them within a second has nothing to say
        b.one_line_error(r, 124, "killed", "berth gc later")
        again = b.berth("ps", "-a", "--json", ok=True)    # says nothing of it, and waits no more
        assert json.loads(again.out)[0]["name"] == "box", again
        assert not b.run("host", "true").code
    holder.wait()
    holder.stdout.close()
    b.wait_for(lambda: b.berth("gc").code == 0, what="gc to clear it")
    b.berth("rm", "box", ok=True)
