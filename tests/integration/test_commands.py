# SPDX-License-Identifier: Apache-2.0
"""Detached commands: output by byte offsets, attach, send, signal, wait; shell, stats, top, rename, update, idle."""
import hashlib
import json
import os
import pty
import re
import select
import signal
import time

import berthtest as b
import box

COST = 28


def create(*options, **kw):
    return b.berth("create", *options, "host", ok=True, **kw).out.strip()


def detach(box, *command, options=()):
    return b.berth("exec", "-d", *options, box, *command, ok=True).out.strip()


def remove(box):
    b.berth("rm", "-f", box, ok=True)


# ---- environment ------------------------------------------------------------

def test_variables_of_exec_and_code_are_given_as_to_run():
    path = b.write(b.tmp("vars"), "# a comment\n\nFILE=from file\nA=file loses\nLATE=option loses\nQUOTED=\"as it is\"\nEQ=a=b\n")
    given = ("-e", "LATE=1", "--env-file", path, "--env", "A=1", "-e", "B=two words", "-e", "FROM", "-e", "EMPTY=", "-e", "OWN=exec")
    text = 'printf "%s|" "$A" "$B" "$FILE" "$FROM" "$LATE" "$QUOTED" "$EQ" "${EMPTY-unset}" "$OWN" "$KEPT" "${NOT-unset}"'
    want = '1|two words|from file|the caller|option loses|"as it is"|a=b||exec|sandbox|unset|'
    env = {"FROM": "the caller", "NOT": "named by nobody"}
    x = create("-e", "OWN=sandbox", "-e", "KEPT=sandbox")
    r = b.berth("exec", *given, x, "sh", "-c", text, env=env, ok=True)
    b.expect(r.out == want, r, "exec has other variables")
    r = b.berth("code", "--lang", "sh", *given, x, input=text, env=env, ok=True)
    b.expect(r.out == want, r, "code has other variables")
    b.expect(b.berth("exec", x, "sh", "-c", "echo $OWN", ok=True).out == "sandbox\n", r, "it outlived its command")
    for command, rest in (("exec", [x, "true"]), ("code", [x]), ("shell", [x])):
        for bad, code, words in ((["-e", "NOWHERE"], 2, ("the caller has no variable NOWHERE", "hint: NOWHERE=VALUE")), (["-e", "=x"], 2, ("NAME=VALUE",)),
                                 (["-e", "9A=x"], 2, ("NAME=VALUE",)), (["-e", ""], 2, ("NAME=VALUE",)), (["--env-file", b.tmp("none")], 125, ("none",)),
                                 (["--env-file", b.write(b.tmp("bad"), "A=1\nB\n")], 2, ("bad:2", "NAME=VALUE")),
                                 (["--env-file", b.write(b.tmp("nul"), b"A=1\0\n")], 2, ("NUL",)), (["--env-file", "/dev/zero"], 2, ("neither",))):
            b.one_line_error(b.berth(command, *bad, *rest, input="true"), code, *words)
    remove(x)


# ---- output -----------------------------------------------------------------

def test_both_streams_and_the_status_come_back():
    box = create()
    c = detach(box, "sh", "-c", "echo out; echo err >&2; exit 7")
    r = b.berth("attach", box, c, ok=7)
    b.expect((r.out, r.err) == ("out\n", "err\n"), r, "the streams differ")
    b.expect(b.berth("wait", box, c, ok=7).out == "", r, "wait printed something")
    v = json.loads(b.berth("wait", "--json", box, c, ok=7).out)
    b.expect(v["cause"] == "exit" and v["exit_code"] == 7, r, "the verdict differs")
    b.expect(b.berth("output", "--from", "2", box, c, ok=True).out == "t\n", r, "--from")
    b.expect(b.berth("output", "--stderr", box, c, ok=True).out == "err\n", r, "--stderr")
    j = json.loads(b.berth("output", "--json", box, c, ok=True).out)
    b.expect((j["from"], j["next"], j["data"], j["ended"]) == (0, 4, "out\n", True), r, "--json")
    b.one_line_error(b.berth("output", "--from", "5", box, c), 2, "beyond")
    b.one_line_error(b.berth("output", box, "c99"), 125, "no command")
    remove(box)


def test_a_client_that_dies_comes_back_with_its_offset():
    """Killed again and again while following; the pieces are exactly the output."""
    box = create()
    c = detach(box, "sh", "-c", "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); sleep 0.005; done")
    want = "".join(f"line {i}\n" for i in range(300)).encode()
    got = b""
    while len(got) < len(want) // 2:
        p = b.start("output", "--follow", "--from", str(len(got)), box, c)
        piece = b.read_until(p.stdout, b"\n")
        b.stop(p)
        got += piece
    r = b.berth("output", "--follow", "--from", str(len(got)), box, c, ok=True)
    got += r.out.encode()
    b.expect(got == want, r, f"{len(got)} bytes, not {len(want)}, or others")
    remove(box)


def test_the_dropped_middle_is_counted():
    box = create()
    c = detach(box, "sh", "-c", "head -c 5000000 /dev/zero")
    b.berth("wait", box, c, ok=True)
    for verb in ("output", "attach"):
        r = b.berth(verb, box, c, ok=True)
        kept = len(r.out)
        b.expect(f"{5000000 - kept} bytes" in r.err and kept >= 1 << 20, r, "kept and dropped do not add up")
    remove(box)


def test_options_may_follow_the_ids():
    box = create()
    c = detach(box, "sh", "-c", "echo out; exit 4")
    b.expect_code(b.berth("wait", box, c, "--json"), 4)
    r = b.berth("output", box, c, "--json", ok=True)
    b.expect("data" in r.out or "output" in r.out, r, "no JSON")
    b.one_line_error(b.berth("send", box, "--session", "main", "x"), 2, "options before")
    remove(box)


# ---- input ------------------------------------------------------------------

def test_stdin_takes_any_bytes_and_its_end():
    box = create()
    data = os.urandom(700000)
    c = detach(box, "sha256sum")
    b.berth("send", "--eof", box, c, "-", input=data, ok=True)
    b.berth("wait", box, c, ok=True)
    r = b.berth("output", box, c, ok=True)
    b.expect(r.out.split()[0] == hashlib.sha256(data).hexdigest(), r, "not the bytes that were sent")
    b.one_line_error(b.berth("send", box, c, "more"), 2, "stdin")
    c = detach(box, "head", "-1")
    b.berth("send", box, c, "a line", ok=True)
    b.expect(b.berth("attach", box, c, ok=True).out == "a line\n", r, "the text differs")
    remove(box)


def test_send_answers_a_question_of_a_session():
    box = create()
    p = b.start("sh", box, "--", "read x; echo got $x")
    b.expect(p.wait(20 * b.SLOW) == 123, b.berth("ps"), "the command does not await input")
    b.stop(p)
    b.berth("send", "--session", "main", box, "an answer", ok=True)
    r = b.berth("sh", "--wait", box, ok=True)
    b.expect("got an answer" in r.out, r, "it was not read")
    # without a session's name: the usual one
    b.expect(b.berth("sh", box, "--", "read x; echo got $x").code == 123, r, "awaiting input")
    b.berth("send", box, "plain", ok=True)
    r = b.berth("sh", "--wait", box, ok=True)
    b.expect("got plain" in r.out, r, "it was not read")
    b.one_line_error(b.berth("send", box, "c1"), 2, "nothing to send")
    # and the end of its input
    b.expect(b.berth("sh", box, "--", "cat; echo end").code == 123, r, "awaiting input")
    b.berth("send", "--eof", box, "last", ok=True)
    r = b.berth("sh", "--wait", box, ok=True)
    b.expect("last\nend\n" in r.out, r, "no end of file")
    remove(box)


def test_signals():
    box = create()
    c = detach(box, "sleep", "1000")
    b.berth("signal", box, c, "SIGTERM", ok=True)
    b.berth("wait", box, c, ok=128 + signal.SIGTERM)
    c = detach(box, "sh", "-c", "sleep 1000 & sleep 1000")
    b.berth("signal", "--all", box, c, "9", ok=True)
    v = json.loads(b.berth("wait", "--json", box, c, ok=137).out)
    assert v["cause"] == "killed-by", v
    b.wait_for(lambda: "sleep" not in b.berth("top", box, ok=True).out, 10, "the end of every process")
    b.one_line_error(b.berth("signal", box, c, "TERM"), 125, "ended")
    b.one_line_error(b.berth("signal", box, c, "NOPE"), 2, "NOPE")
    listed = {x["command"]: x for x in json.loads(b.berth("commands", "--json", box, ok=True).out)}
    assert listed[c]["state"] == "ended" and "verdict" in listed[c], listed
    remove(box)


# ---- a terminal to leave and come back to -------------------------------------

class Terminal:
    def __init__(self, *args, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(b.BERTH, [b.BERTH, *args], b.environment(env))

    def type(self, text):
        os.write(self.fd, text)

    def until(self, word, seconds=20):
        got, end = b"", time.monotonic() + seconds
        while word not in got:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"no {word!r}; got {got[-1000:]!r}")
            try:
                piece = os.read(self.fd, 65536)
            except OSError:
                piece = b""
            if not piece:
                raise AssertionError(f"the end before {word!r}; got {got[-1000:]!r}")
            got += piece
        return got

    def end(self):
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_a_shell_is_left_and_found_again():
    box = create()
    t = Terminal("shell", box)
    t.type(b"x=4''1; echo mark$((x+1))\n")
    t.until(b"mark42")
    t.type(b"\x10\x11")
    command = t.until(b"comes back").split(b"attach ")[1].split()[1].decode()
    assert t.end() == 0
    t = Terminal("attach", box, command)
    t.type(b"echo again$x; exit 5\n")
    t.until(b"again41")
    assert t.end() == 5
    remove(box)


def test_a_shell_is_found_again_by_its_name():
    box = create()
    t = Terminal("shell", "--session", "work", box)
    t.type(b"x=4''1; echo mark$((x+1))\n")
    t.until(b"mark42")
    t.type(b"\x10\x11")
    t.until(b"shell --session work")
    assert t.end() == 0
    assert [c["name"] for c in json.loads(b.berth("commands", "--json", box, ok=True).out)] == ["work"]
    other = Terminal("shell", "--session", "other", box)
    other.type(b"echo x=$x.\n")
    other.until(b"x=.")
    t = Terminal("shell", "--session", "work", box)
    t.until(b"mark42")  # what it showed last
    t.type(b"echo again$x; exit 5\n")
    t.until(b"again41")
    assert t.end() == 5
    other.type(b"exit\n")
    assert other.end() == 0
    t = Terminal("shell", "--session", "work", box)  # the name is free: a new one
    t.type(b"echo x=$x.; exit\n")
    t.until(b"x=.")
    assert t.end() == 0
    b.one_line_error(b.berth("shell", "--session", "../x", box), 2, "malformed")
    remove(box)


def test_a_shell_whose_input_has_ended_ends_however_slow_it_is_to_read():
    x = create()
    # ^D before bash sets its own mode of the terminal would be a NUL to it
    slow = "sleep 0.3; exec bash --norc"
    c = detach(x, "sh", "-c", f"printf '#!/bin/sh\\n{slow}\\n' >/tmp/slow; chmod +x /tmp/slow")
    b.berth("wait", x, c, ok=True)
    b.expect_code(b.berth("shell", "--shell", "/tmp/slow", x, timeout=20), 0)
    # each reader gets the end of it, and the line before that is whole
    r = b.berth("shell", x, input="sleep 0.2; cat; echo do''ne; exit 3\n", ok=3, timeout=20)
    b.expect("done" in r.out, r, "cat did not end")
    r = b.berth("shell", x, input="sleep 0.2; cat; cat; echo do''ne; (exit 4)\n", ok=4, timeout=20)
    b.expect("done" in r.out and "\4" not in r.out, r, "the end of input was data")
    remove(x)


def test_a_slow_terminal_loses_nothing():
    box = create()
    t = Terminal("shell", "--shell", "sh", box)
    t.type(b"stty -opost; echo; seq 1 400000; echo do''ne\n")
    got = t.until(b"done", 60)
    numbers = [int(x) for x in got.split(b"\n") if x.strip().isdigit()]
    missing = sorted(set(range(1, 400001)) - set(numbers))
    assert numbers[-400000:] == list(range(1, 400001)), (missing[:9], got[:200])
    t.type(b"exit\n")
    assert t.end() == 0
    assert json.loads(b.berth("commands", "--json", box, ok=True).out) == []
    remove(box)


# ---- the others ------------------------------------------------------------------

def test_stats_and_top():
    box = create("--memory", "100m")
    c = detach(box, "sleep", "1000")
    j = json.loads(b.berth("stats", "--no-stream", "--json", box, ok=True).out)
    assert j["memory_limit_bytes"] == 100 << 20 and j["pids"] >= 2 and j["busy"] == f"command {c} runs", j
    listed = json.loads(b.berth("top", "--json", box, ok=True).out)
    assert [p["of"] for p in listed if p["command"] == "sleep 1000"] == [c], listed
    assert "sleep 1000" in b.berth("top", box, ok=True).out
    remove(box)


def test_stats_show_several_and_without_names_those_that_run():
    one, two, rests = create("--name", "first"), create("--name", "second"), create("--name", "resting")
    b.berth("stop", rests, ok=True)
    def rows(*names):
        lines = b.berth("stats", "--no-stream", *names, ok=True).out.splitlines()
        assert lines[0].split()[:2] == ["SANDBOX", "CPU%"], lines
        return [line.split()[0] for line in lines[1:]]
    assert rows("second", "first") == ["second", "first"]
    b.one_line_error(b.berth("stats", "--no-stream", "first", "resting"), 125, rests, "berth start")
    b.one_line_error(b.berth("stats", "--no-stream", "first", "nosuch"), 125, "nosuch")
    # that of a run has no keeper to ask, and is left out
    run = b.start("run", "host", "sleep", "100")
    b.wait_for(lambda: len(b.berth("ps", "-q", ok=True).out.split()) == 3, what="the run")
    assert sorted(rows()) == ["first", "second"]
    told = [json.loads(line) for line in b.berth("stats", "--no-stream", "--json", "second", "first", ok=True).out.splitlines()]
    assert [t["id"] for t in told] == [two, one], told
    # one that ends is left out from then on, and the last one ends it all
    p = b.start("stats", "--json", "first", "second")
    seen = [json.loads(p.stdout.readline())["id"] for _ in range(4)]
    assert seen == [one, two] * 2, seen
    b.berth("rm", "-f", "second", ok=True)
    while (line := p.stdout.readline()) and json.loads(line)["id"] != one:
        pass
    assert [json.loads(p.stdout.readline())["id"] for _ in range(2)] == [one, one]
    b.berth("rm", "-f", "first", ok=True)
    assert p.wait(timeout=20 * b.SLOW) == 0
    b.stop(run)
    assert rows() == []
    remove(rests)


def test_stats_tell_of_pressure_where_the_kernel_does():
    box = create("--cpus", "0.1")
    told = json.loads(b.berth("stats", "--no-stream", "--json", box, ok=True).out).get("pressure")
    if told is None:
        remove(box)
        raise b.skip("this kernel has no pressure of cgroups")
    line = {"avg10", "avg60", "avg300", "total_us"}
    assert set(told) == {"cpu", "memory", "io"} and all(set(told[k]) == {"some", "full"} for k in told), told
    assert all(set(told[k][w]) == line for k in told for w in told[k]), told
    detach(box, "sh", "-c", "while :; do :; done & while :; do :; done")

    def waited():
        return json.loads(b.berth("stats", "--no-stream", "--json", box, ok=True).out)["pressure"]["cpu"]["some"]["total_us"]
    # two that want a CPU and have a tenth of one
    b.wait_for(lambda: waited() > told["cpu"]["some"]["total_us"] + 100000, 20, "pressure on the CPU")
    remove(box)


def processes(box):
    return [p["command"] for p in json.loads(b.berth("top", "--json", box, ok=True).out) if "sleep 7" in p["command"]]


def gone(box, what):
    b.wait_for(lambda: not processes(box), 20, "the end of everything: " + what)


def test_a_timeout_ends_the_whole_tree():
    box = create("--grace", "60s")      # only the end of the first process is quick
    limit = ("--timeout", "300ms")
    for script in ("sleep 71; :", "setsid sleep 72; :", "setsid sleep 73 & (trap '' TERM; sleep 74) & wait"):
        b.berth("exec", *limit, box, "sh", "-c", script, ok=124)
        gone(box, script)
        c = detach(box, "sh", "-c", script, options=limit)
        b.berth("wait", box, c, ok=124)
        gone(box, "detached: " + script)
    b.berth("code", "--lang", "sh", *limit, box, input="setsid sleep 75 & sleep 76; :", ok=124)
    gone(box, "code")
    # a first process that does not go takes the grace
    b.berth("exec", *limit, "--grace", "200ms", box, "sh", "-c", "trap '' TERM; setsid sleep 77 & while :; do sleep 78; done", ok=124)
    gone(box, "the end of the grace")
    # an end of its own accord takes nobody along
    b.berth("exec", "--timeout", "60s", box, "sh", "-c", "setsid sleep 79 >/dev/null 2>&1 & :", ok=True)
    b.wait_for(lambda: processes(box) == ["sleep 79"], 20, "what is left running")
    remove(box)


def stdio(box, *requests, env=None):
    text = "".join(json.dumps(dict(r, id=i, sandbox=box)) + "\n" for i, r in enumerate(requests))
    return [json.loads(line) for line in b.berth("stdio", input=text, ok=True, env=env).out.splitlines()]


def limited(box, env=None, options=()):
    """The causes of endless commands of every kind."""
    endless = ("sh", "-c", "sleep 1000; :")
    yield b.berth("exec", "--json", *options, box, *endless, env=env, ok=124).out
    c = b.berth("exec", "-d", *options, box, *endless, env=env, ok=True).out.strip()
    yield b.berth("wait", "--json", box, c, env=env, ok=124).out
    yield b.berth("sh", *options, box, "--json", "--", "sleep 1000", env=env, ok=124).out
    yield b.berth("code", "--json", "--lang", "sh", *options, box, input="sleep 1000", env=env, ok=124).out
    if not options:
        for answer in stdio(box, {"op": "exec", "argv": endless}, {"op": "sh", "text": "sleep 1000", "session": "other"}, env=env):
            yield json.dumps(answer) if "verdict" in answer else '"cause":"timeout"'


@b.long_proof("waits for each of many time limits")
def test_the_time_limit_of_a_sandbox_is_one_of_its_commands():
    def all_end(box, **kw):
        for told in limited(box, **kw):
            assert '"cause":"timeout"' in told.replace('": "', '":"'), told

    box = create("--timeout", "300ms", "--grace", "0")
    all_end(box)
    b.berth("restart", box, ok=True)
    b.berth("exec", box, "sleep", "1000", ok=124)
    # the command's own word counts more, and 0 means none
    began = time.monotonic()
    for limit in ("0", "60s"):
        b.berth("exec", "--timeout", limit, box, "sleep", "0.5", ok=True)
        b.berth("sh", "--timeout", limit, box, "--", "sleep 0.5", ok=True)
        b.berth("code", "--lang", "sh", "--timeout", limit, box, input="sleep 0.5", ok=True)
    assert time.monotonic() - began > 3
    remove(box)

    env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), '[sandbox]\ntimeout = "300ms"\ngrace = "0"\n')}
    box = create(env=env)
    all_end(box, env=env)
    remove(box)
    box = create("--timeout", "0", env=env)     # the sandbox's word counts more than the file's
    b.berth("exec", box, "sleep", "0.5", env=env, ok=True)
    b.berth("sh", box, "--", "sleep 0.5", env=env, ok=True)
    b.berth("code", "--lang", "sh", box, input="sleep 0.5", env=env, ok=True)
    all_end(box, env=env, options=("--timeout", "200ms"))
    remove(box)


def test_a_limit_that_does_not_hold_is_refused():
    b.one_line_error(b.berth("create", "--cpu-time", "1s", "host"), 2, "--cpu-time", "berth run", "--ulimit cpu")
    assert json.loads(b.berth("ps", "-a", "--json", ok=True).out) == []
    box = create("--ulimit", "cpu=1")       # what the message tells
    b.expect(b.berth("exec", box, "sh", "-c", "while :; do :; done").code > 128, b.berth("ps"), "the hint does not hold")
    remove(box)


def test_rename():
    box = create("--name", "first")
    other = create("--name", "other")
    b.berth("rename", "first", "second", ok=True)
    b.one_line_error(b.berth("exec", "first", "true"), 125, "first")
    b.expect(b.berth("exec", "second", "echo", "hi", ok=True).out == "hi\n", b.berth("ps"), "the new name")
    b.one_line_error(b.berth("rename", "second", "other"), 125, "taken")
    b.one_line_error(b.berth("rename", "second", "../x"), 2, "malformed")
    b.berth("stop", "second", ok=True)
    b.berth("rename", "second", "third", ok=True)
    b.berth("start", "third", ok=True)
    assert create("--name", "first")
    for name in ("first", "third", other):
        remove(name)
    assert box


def test_limits_change_at_once_and_for_good():
    box = create("--pids", "100", "--memory", "200m")
    b.berth("update", "--pids", "20", "--memory", "120m", "--cpus", "0.5", box, ok=True)
    for _ in range(2):
        j = json.loads(b.berth("stats", "--no-stream", "--json", box, ok=True).out)
        assert (j["pids_limit"], j["memory_limit_bytes"], j["cpu_limit_milli"]) == (20, 120 << 20, 500), j
        r = b.berth("exec", box, "sh", "-c", "for i in $(seq 40); do sleep 5 & done; wait", timeout=30)
        b.expect(r.code != 0, r, "40 processes in 20")
        b.berth("restart", box, ok=True)
    # back to none, at once and after a restart
    b.berth("update", "--pids", "unlimited", "--memory", "unlimited", "--cpus", "unlimited", box, ok=True)
    for _ in range(2):
        j = json.loads(b.berth("stats", "--no-stream", "--json", box, ok=True).out)
        assert not {"pids_limit", "memory_limit_bytes", "cpu_limit_milli"} & set(j), j
        b.berth("exec", box, "sh", "-c", "for i in $(seq 150); do sleep 0.2 & done; wait", ok=True)
        b.berth("exec", box, "python3", "-c", "bytearray(220 << 20)", ok=True)
        b.berth("restart", box, ok=True)
    b.berth("update", "--memory", "150m", box, ok=True)
    r = b.berth("exec", box, "python3", "-c", "bytearray(220 << 20)")
    b.expect(r.code != 0, r, "the limit is there again")
    b.one_line_error(b.berth("update", box), 2, "nothing to change")
    b.one_line_error(b.berth("update", "--memory", "lots", box), 2, "memory")
    # a command's share is one of the sandbox's, which may change
    b.berth("update", "--cpus", "0.5", box, ok=True)
    b.one_line_error(b.berth("exec", "--cpus", "0.6", box, "true"), 2, "0.5", "berth update")
    b.berth("exec", "--cpus", "0.5", box, "true", ok=True)
    b.berth("update", "--cpus", "unlimited", box, ok=True)
    b.berth("exec", "--cpus", "9", box, "true", ok=True)
    b.one_line_error(b.berth("exec", "-d", "--status-fd", "2", box, "true"), 2, "--status-fd", "berth wait")
    remove(box)


def test_memory_in_use_is_not_taken_away():
    """v1 refuses it and says why; v2 frees what it can, and ends what holds the rest."""
    box = create("--memory", "200m")
    b.berth("exec", box, "sh", "-c", "head -c 60m /dev/zero > /dev/shm/full", ok=True)
    r = b.berth("update", "--memory", "20m", box)
    if r.code:
        b.one_line_error(r, r.code, "uses more memory", "berth stats")
        assert json.loads(b.berth("stats", "--no-stream", "--json", box, ok=True).out)["memory_limit_bytes"] == 200 << 20
        b.berth("exec", box, "test", "-s", "/dev/shm/full", ok=True)
    remove(box)


def test_an_idle_sandbox_stops_and_a_busy_one_does_not():
    env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), '[manager]\nidle_timeout = "1s"\n')}
    idle = create(env=env)
    # these are not idle before they have something to do
    busy, cpu = create("--idle-timeout", "0", env=env), create("--idle-timeout", "0", env=env)
    detach(busy, "sleep", "1000")
    b.berth("sh", cpu, "--", "while :; do :; done & echo", ok=True)
    for box in (busy, cpu):
        b.berth("update", "--idle-timeout", "1s", box, ok=True)
    began = time.monotonic()

    def state():
        # a question is not work: it must not keep anything alive
        return {x["id"]: x for x in json.loads(b.berth("ps", "-a", "--json", ok=True).out)}

    b.wait_for(lambda: state()[idle]["status"] == "stopped", 10, "the end of the idle one")
    b.wait_for(lambda: time.monotonic() - began > 2.5, 10, "some time")
    now = state()
    assert now[idle]["stop_reason"] == "idle timeout", now
    assert now[busy]["busy"] == "command c1 runs" and now[cpu]["busy"] == "cpu", now
    for box in (idle, busy, cpu):
        remove(box)


def test_ended_commands_hold_no_descriptors_and_no_cgroups():
    with box.Box() as x:
        def held():
            # but for one that is opened once, when the keeper first looks at the ranges of ids
            return sum(not target(n).endswith("/state/ids/slots") for n in os.listdir(f"/proc/{x.keeper}/fd"))

        def target(n):
            try:
                return os.readlink(f"/proc/{x.keeper}/fd/{n}")
            except FileNotFoundError:   # closed just now
                return ""

        def leaves():
            top = f"/sys/fs/cgroup/unified/{b.cgroup_parent_of(b.TEST_PID)}/{x.id}"
            top = top if os.path.isdir(top) else f"/sys/fs/cgroup/{b.cgroup_parent_of(b.TEST_PID)}/{x.id}"
            return len([n for n in os.listdir(top) if re.match(r"c\d+$", n)])
        x.main.wait(x.main.detach("echo"))  # the keeper's log and events are open
        # that of the next command is made ahead
        b.wait_for(lambda: leaves() == 1, what="the next command's cgroup alone")
        x.main.call("ping")     # which it answers when all of that is made
        before, had = held(), leaves()
        ids = [x.main.detach("sh", "-c", f"echo {n}") for n in range(30)]
        for n, c in enumerate(ids):
            x.main.wait(c)
            assert x.main.output(c)[0] == b"%d\n" % n
        b.wait_for(lambda: held() <= before, what="the descriptors of ended commands")
        b.wait_for(lambda: leaves() == had, what="the next command's cgroup alone")
        # one that leaves a process behind keeps its cgroup until that has gone too
        c = x.main.detach("sh", "-c", "sleep 1 & echo left")
        assert x.main.wait(c)["left_behind"] == 1
        b.wait_for(lambda: leaves() == had + 1, what="its cgroup and the next one's")
        b.wait_for(lambda: leaves() == had and held() <= before, what="the cgroup of what was left behind")
        assert x.main.output(c)[0] == b"left\n"
