# SPDX-License-Identifier: Apache-2.0
"""
--max-silent-time: a command that writes nothing for so long is ended, wherever its output goes; one that writes now
and then lives on, however long it takes, and so does one whose reader is slow.
"""
import concurrent.futures
import json
import os
import subprocess

import berthtest as b
import daemon
import proc
from box import Box
from daemon import Daemon
from test_commands import Terminal
from test_stdio import Stdio

COST = 50
LIMIT = int(6 * min(2, b.EMULATED))      # seconds; a sixth of it passes between two lines, and all of them take longer
TALKS = f"for i in 1 2 3 4 5 6 7; do echo line $i; sleep {LIMIT / 6}; done; exit 3"
SAYS_ONE = "echo word; sleep 1000"
# it may be over before the command's first word
SHORT = ("--max-silent-time", "200ms", "--grace", "0")
# long enough for the first word wherever; such commands run side by side
ENOUGH = f"{LIMIT}s"
LATER = ("--max-silent-time", ENOUGH, "--grace", "0")


def side_by_side(*calls):
    """What each of them returns."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return [done.result() for done in [pool.submit(call) for call in calls]]


def relays():
    """The processes below this test that move output on."""
    return [p for p in proc.descendants(b.TEST_PID) if os.path.exists(f"/proc/{p}/comm")
            and open(f"/proc/{p}/comm").read().strip() == "berth-silence"]


def is_silent(verdict, grace=False):
    assert (verdict["cause"], verdict["exit_status"], verdict["timed_out"]) == ("silent", 124, True), verdict
    assert grace or verdict.get("signal_name", "SIGKILL") == "SIGKILL", verdict


def test_a_run_that_is_silent_is_ended():
    def says_one(text=SAYS_ONE, **kw):
        return b.run(*LATER, "host", "sh", "-c", text, ok=124, **kw)

    # to a file that is appended to, to nowhere, and to stderr
    with open(b.tmp("out"), "ab") as f:
        f.write(b"before\n")
        f.flush()
        r, handled, _, _, err = side_by_side(
            lambda: says_one(verdict=True),
            lambda: b.run("--max-silent-time", ENOUGH, "--grace", "1h", "host", "sh", "-c",
                          "trap 'echo told; exit 9' TERM; while :; do sleep 0.01; done", verdict=True, ok=124),
            lambda: says_one(stdout=f), lambda: says_one(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
            lambda: says_one("exec >&2; " + SAYS_ONE))
    assert r.out == "word\n", r
    is_silent(r.verdict)
    assert handled.out == "told\n" and handled.verdict["exit_code"] == 9, handled
    is_silent(handled.verdict, grace=True)
    assert open(b.tmp("out")).read() == "before\nword\n"
    assert err.out == "" and "word" in err.err, err


def test_what_it_leaves_running_ends_too():
    r = b.run(*SHORT, "host", "sh", "-c", "setsid sh -c 'while :; do sleep 0.01; done' & echo word; wait", verdict=True, ok=124)
    is_silent(r.verdict)


def test_a_command_that_talks_lives():
    limit = f"{LIMIT}s"
    with Box() as box, Daemon() as d:
        with b.start("run", "--max-silent-time", limit, "host", "sh", "-c", TALKS) as run, \
             b.start("exec", "--max-silent-time", limit, box.id, "sh", "-c", TALKS) as there, \
             b.start("sh", "--max-silent-time", limit, box.id, TALKS.replace("exit", "(exit") + ")") as shell, \
             b.start("exec", "--max-silent-time", limit, box.id, "sh", "-c", TALKS, env={"BERTH_HOST": f"unix://{d.socket}"}) as far:
            t = Terminal("run", "-t", "--max-silent-time", limit, "host", "sh", "-c", TALKS)
            u = Terminal("exec", "-t", "--max-silent-time", limit, box.id, "sh", "-c", TALKS)
            t.until(b"line 7")
            u.until(b"line 7")
            assert t.end() == 3 and u.end() == 3
            for p in (run, there, shell, far):
                out = p.communicate(timeout=60 * b.SLOW)[0].decode()
                assert p.returncode == 3 and out.splitlines() == [f"line {i}" for i in range(1, 8)], (p.args, out)


def test_a_terminal_that_is_silent_is_ended():
    with Box() as box:
        both = [Terminal(*args, "sh", "-c", SAYS_ONE) for args in (("run", "-t", *LATER, "host"), ("exec", "-t", *LATER, box.id))]
        for t in both:
            t.until(b"word")
            assert t.end() == 124


def test_a_command_of_a_sandbox_that_lives():
    with Box() as box:
        with open(b.tmp("out"), "wb") as f:
            r, _ = side_by_side(lambda: b.berth("exec", *LATER, box.id, "sh", "-c", SAYS_ONE, verdict=True, ok=124),
                                lambda: b.berth("exec", *LATER, box.id, "sh", "-c", SAYS_ONE, stdout=f, ok=124))
        assert r.out == "word\n", r
        is_silent(r.verdict)
        assert open(b.tmp("out")).read() == "word\n"
        command = b.berth("exec", "-d", *SHORT, box.id, "sh", "-c", SAYS_ONE, ok=True).out.strip()
        is_silent(box.client().wait(command))
        r = b.berth("sh", "--json", "--max-silent-time", "200ms", box.id, SAYS_ONE, ok=124)
        assert json.loads(r.out)["status"] == "timeout" and json.loads(r.out)["verdict"]["cause"] == "silent", r
        assert b.berth("sh", "--max-silent-time", ENOUGH, box.id, "echo still here", ok=True).out == "still here\n"
        r = b.berth("sh", "--json", "--max-silent-time", "200ms", "--on-timeout", "detach", box.id, "echo word; sleep 5; echo end", ok=123)
        assert json.loads(r.out)["status"] == "running", r
        events = b.berth("events", "--json", "--since", "1h", box.id, ok=True).out.splitlines()
        assert [json.loads(e)["cause"] for e in events if json.loads(e)["event"] == "timeout"] == ["silent"] * 4, events


def test_code_and_run_over_http_have_a_limit_of_their_own():
    limit = {"max_silent_ms": 200}
    snippet = "import sys, time; print('word'); sys.stdout.flush(); time.sleep(1000)"
    with Box("--grace", "0") as box, Daemon() as d:
        far = {"BERTH_HOST": f"unix://{d.socket}"}
        for env in ({}, far):
            r, plain = side_by_side(*[lambda how=how: b.berth("code", "--max-silent-time", ENOUGH, how, box.id, input=snippet, ok=124, env=env)
                                      for how in ("--json", "-q")])
            is_silent(json.loads(r.out)["verdict"])
            assert json.loads(r.out)["stdout"] == plain.out == "word\n", (r, plain)
            b.one_line_error(b.berth("code", "--max-silent-time", "soon", box.id, input="1", env=env), 2, "max-silent-time")
        # longer than the sandbox's own
        b.berth("code", "--max-silent-time", "1h", "--timeout", "1h", "-q", box.id, input="pass", ok=True)
        s = Stdio()
        is_silent(s.call(op="code", sandbox=box.id, code=snippet, **limit)["verdict"])
        s.p.stdin.close()
        assert s.p.wait(60 * b.SLOW) == 0
        s.p.stdout.close()
        s.p.stderr.close()
        is_silent(d.post(f"/v1/sandboxes/{box.id}/code", {"code": snippet, **limit}).json["verdict"])
        assert d.post(f"/v1/sandboxes/{box.id}/code", {"code": "1", "max_silent_ms": -1}).status == 400
        run = {"image": "host", "argv": ["sh", "-c", SAYS_ONE], "options": {"grace": "0", "max-silent-time": "1h"}, **limit}
        for more in ({}, {"stream": True}):
            r = d.post("/v1/run", {**run, **more})
            is_silent(daemon.events(r.body)[-1]["verdict"] if more else r.json["verdict"])


def test_a_sandbox_has_a_limit_for_its_commands():
    with Box("--max-silent-time", "200ms", "--grace", "0") as box:
        seen = json.loads(b.berth("inspect", box.id, ok=True).out)
        assert seen["timeouts"]["max_silent_ms"] == 200, seen
        is_silent(b.berth("exec", box.id, "sleep", "1000", verdict=True, ok=124).verdict)
        is_silent(json.loads(b.berth("sh", "--json", box.id, "sleep 1000", ok=124).out)["verdict"])
        # one's own instead: while another's passes
        with b.start("exec", "--max-silent-time", "0", box.id, "cat", stdin=subprocess.PIPE) as p:
            b.berth("exec", box.id, "sleep", "1000", ok=124)
            assert p.communicate(b"typed", timeout=60 * b.SLOW)[0] == b"typed" and p.returncode == 0
        b.berth("stop", box.id, ok=True)
        b.berth("start", box.id, ok=True)
        is_silent(b.berth("exec", box.id, "sleep", "1000", verdict=True, ok=124).verdict)
    config = b.write(b.tmp("silent.toml"), "[sandbox]\nmax_silent_time = \"200ms\"\ngrace = \"0\"\n")
    with Box(env={"BERTH_CONFIG": config}) as box:
        is_silent(b.berth("exec", box.id, "sleep", "1000", verdict=True, ok=124).verdict)


def test_a_service_that_is_silent_starts_again():
    b.berth("create", "--name", "svc", *LATER, "--restart", "on-failure:1", "host", "sh", "-c", SAYS_ONE, ok=True)
    b.wait_for(lambda: b.berth("logs", "svc", ok=True).out == "word\nword\n", 60, "its second start")
    b.wait_for(lambda: json.loads(b.berth("inspect", "svc", ok=True).out)["status"] == "exited", 60, "its second end")
    seen = json.loads(b.berth("inspect", "svc", ok=True).out)
    assert seen["restarts"] == 1, seen
    is_silent(seen["verdict"])
    b.berth("rm", "svc", ok=True)


def test_stdio_and_http_have_it():
    with Box() as box, Daemon() as d:
        s = Stdio()
        out, _, verdict = s.exec(box.id, "sh", "-c", SAYS_ONE, max_silent_ms=LIMIT * 1000, grace_ms=0)
        assert out == b"word\n"
        is_silent(verdict)
        assert s.call(op="sh", sandbox=box.id, text=SAYS_ONE, max_silent_ms=200)["verdict"]["cause"] == "silent"
        s.p.stdin.close()
        assert s.p.wait(60 * b.SLOW) == 0
        s.p.stdout.close()
        s.p.stderr.close()
        for more in ({}, {"stream": True}):
            r = d.post(f"/v1/sandboxes/{box.id}/exec", {"argv": ["sh", "-c", SAYS_ONE], "max_silent_ms": 200, "grace_ms": 0, **more})
            verdict = daemon.events(r.body)[-1]["verdict"] if more else r.json["verdict"]
            is_silent(verdict)
        r = b.berth("exec", *LATER, box.id, "sh", "-c", SAYS_ONE, env={"BERTH_HOST": f"unix://{d.socket}"}, ok=124)
        assert r.out == "word\n", r


def test_a_slow_reader_is_no_silence():
    text = "x" * 1000 + "\n"
    script = f"i=0; while [ $i -lt 400 ]; do printf %s '{text}'; i=$((i+1)); done"
    with Box() as box:
        with b.start("run", *LATER, "host", "sh", "-c", script) as run, b.start("exec", *LATER, box.id, "sh", "-c", script) as there:
            # twice as long as they may be silent
            for _ in range(2):
                b.run(*LATER, "host", "sleep", "1000", ok=124)
            for p in (run, there):
                assert p.poll() is None, "it was ended"
                assert p.communicate(timeout=60 * b.SLOW)[0].decode() == text * 400 and p.returncode == 0


def test_output_has_its_order_and_its_end():
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done"
    want = "".join(f"out {i}\nerr {i}\n" for i in range(1, 10))
    with Box() as box:
        for verb in (["run", "--max-silent-time", "1h", "host"], ["exec", "--max-silent-time", "1h", box.id]):
            with open(b.tmp("both"), "wb") as f:
                b.berth(*verb, "sh", "-c", script, stdout=f, stderr=f, ok=True)
            assert open(b.tmp("both")).read() == want, verb
            # a reader that leaves ends the writer
            with b.start(*verb, "sh", "-c", "while echo y; do :; done") as p:
                assert p.stdout.read(2) == b"y\n"
                p.stdout.close()
                assert p.wait(60 * b.SLOW) != 0
        # what it leaves behind writes on, to nobody
        r = b.berth("exec", "--max-silent-time", "1h", box.id, "sh", "-c",
                    "(while ! test -e /tmp/go; do sleep 0.01; done; echo late && echo late && touch /tmp/written) & echo now", ok=True)
        assert r.out == "now\n", r
        b.berth("exec", box.id, "touch", "/tmp/go", ok=True)
        b.wait_for(lambda: box.exec("test", "-e", "/tmp/written").code == 0, 20, "a late writer lived")
    assert not relays(), relays()


def test_without_the_limit_nothing_is_between():
    def output(*options):
        r, w = os.pipe()
        try:
            ours = f"pipe:[{os.stat(w).st_ino}]\n"
            b.run(*options, "host", "readlink", "/proc/self/fd/1", stdout=w, ok=True)
            return os.read(r, 100).decode() == ours
        finally:
            os.close(r)
            os.close(w)
    assert output() and not output("--max-silent-time", "1h")


def test_a_killed_supervisor_leaves_no_process():
    with b.start("run", "--max-silent-time", "1h", "host", "sh", "-c", "echo up; sleep 1000") as p:
        assert p.stdout.readline() == b"up\n" and relays()
        p.kill()
        p.wait()
        b.wait_for(lambda: not relays(), 20, "the end of what moved its output")
    b.gc()


def test_a_time_that_is_none_is_refused():
    for value in ("", "soon", "-1s", "400d", "1x"):
        b.one_line_error(b.run("--max-silent-time", value, "host", "true"), 2, "max-silent-time")
    with Box() as box:
        b.one_line_error(b.berth("exec", "--max-silent-time", "soon", box.id, "true"), 2, "max-silent-time")
