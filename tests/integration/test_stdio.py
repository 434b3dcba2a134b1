# SPDX-License-Identifier: Apache-2.0
"""berth stdio: JSON lines, several requests at once, streams, cancel, and how fast it is."""
import json
import os
import subprocess
import time

import berthtest as b

COST = 15


class Stdio:
    def __init__(self):
        self.p = b.start("stdio", stdin=subprocess.PIPE)
        self.n = 0
        self.waiting = []

    def send(self, **request):
        self.n += 1
        request["id"] = self.n
        self.p.stdin.write(json.dumps(request).encode() + b"\n")
        self.p.stdin.flush()
        return self.n

    def line(self):
        got = self.p.stdout.readline()
        assert got, "berth stdio ended: " + self.p.stderr.read().decode()
        return json.loads(got)

    def take(self, n):
        """The next answer of request n; the others' wait."""
        for i, a in enumerate(self.waiting):
            if a["id"] == n:
                return self.waiting.pop(i)
        while True:
            a = self.line()
            if a["id"] == n:
                return a
            self.waiting.append(a)

    def call(self, **request):
        return self.take(self.send(**request))

    def end_of(self, n):
        """What exec n streams, until its verdict."""
        out = {"stdout": b"", "stderr": b""}
        while True:
            a = self.take(n)
            assert "error" not in a, a
            if "stream" in a:
                out[a["stream"]] += bytes.fromhex(a["data_hex"]) if "data_hex" in a else a["data"].encode()
            if "verdict" in a:
                return out["stdout"], out["stderr"], a["verdict"]

    def exec(self, box, *argv, **more):
        return self.end_of(self.send(op="exec", sandbox=box, argv=list(argv), **more))

    def create(self, **options):
        a = self.call(op="create", image="host", options=options)
        assert a["exit_status"] == 0, a
        return a["sandbox"]

    def remove(self, box):
        a = self.call(op="rm", sandbox=box, options={"force": True})
        assert a["exit_status"] == 0, a

    def close(self):
        self.p.stdin.close()
        assert self.p.wait(20) == 0
        self.p.stdout.close()
        self.p.stderr.close()


def stdio():
    def wrap(test):
        def run():
            s = Stdio()
            box = s.create()
            test(s, box)
            s.remove(box)
            s.close()
        run.__name__ = test.__name__
        return run
    return wrap


@stdio()
def test_a_session_keeps_its_state(s, box):
    a = s.call(op="sh", sandbox=box, text="cd /tmp; x=5; echo hi")
    assert (a["output"], a["status"], a["verdict"]["exit_status"]) == ("hi\n", "done", 0), a
    assert s.call(op="sh", sandbox=box, text="pwd; echo $x")["output"] == "/tmp\n5\n"
    assert s.call(op="sh", sandbox=box, text="exit 3")["session_ended"] is True
    big = "x" * 3000000
    assert s.call(op="sh", sandbox=box, text=f"v={big}; echo ${{#v}}")["output"] == "3000000\n"
    a = s.call(op="sh", sandbox=box, text="printf '\\377\\000'")
    assert a["output_hex"] == "ff00", a
    a = s.call(op="sh", sandbox=box, text="head -c 300000 /dev/zero | tr '\\0' y")
    assert a["output"] == "y" * 300000


@stdio()
def test_exec_streams_both_and_keeps_every_byte(s, box):
    out, err, v = s.exec(box, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (out, err, v["exit_code"]) == (b"out\n", b"err\n", 3)
    out, err, v = s.exec(box, "sh", "-c", "seq 1 500000")
    assert out == "".join(f"{i}\n" for i in range(1, 500001)).encode()
    text = "é€😀" * 30000
    assert s.exec(box, "cat", stdin=text)[0].decode() == text
    data = os.urandom(200000)
    assert s.exec(box, "cat", stdin_hex=data.hex())[0] == data
    a = s.call(op="exec", sandbox=box, argv=["nosuchcommand"])
    assert a["error"]["code"] == "command-not-found", a


@stdio()
def test_input_later_and_cancel(s, box):
    n = s.send(op="exec", sandbox=box, argv=["cat"], stdin_open=True)
    assert s.take(n)["started"] is True
    assert s.call(op="send", request=n, data="one\n")["sent"] == 4
    assert s.take(n)["data"] == "one\n"
    s.call(op="send", request=n, eof=True)
    assert s.end_of(n)[2]["exit_code"] == 0
    n = s.send(op="exec", sandbox=box, argv=["sh", "-c", "sleep 1000 & sleep 1000"])
    s.call(op="cancel", request=n)
    assert s.end_of(n)[2]["cause"] == "killed-by"
    for _ in range(5):
        # both at once: the cancel finds it not started yet
        n = s.send(op="exec", sandbox=box, argv=["sleep", "1000"])
        s.send(op="cancel", request=n)
        assert s.end_of(n)[2]["cause"] == "killed-by"
    s.call(op="sh", sandbox=box, text="kept=yes")
    n = s.send(op="sh", sandbox=box, text="sleep 1000")
    s.call(op="cancel", request=n)
    assert s.take(n)["verdict"]["cause"] == "killed-by"
    assert s.call(op="sh", sandbox=box, text="echo $kept")["output"] == "yes\n"
    assert s.call(op="cancel", request=n)["error"]["code"] == "not-found"


@stdio()
def test_shell_commands_of_one_session_take_turns(s, box):
    held = s.send(op="sh", sandbox=box, text="until [ -e /tmp/go ]; do sleep 0.01; done; echo first")
    next_one = s.send(op="sh", sandbox=box, text="echo second")
    never = s.send(op="sh", sandbox=box, text="touch /tmp/ran")
    assert s.call(op="sh", sandbox=box, text="echo now", no_wait=True)["error"]["code"] == "busy"
    assert s.call(op="sh", sandbox=box, text="echo soon", queue_ms=50)["error"]["code"] == "busy"
    assert s.call(op="cancel", request=never)["cancelled"] is True
    assert s.take(never)["error"]["code"] == "busy"
    s.exec(box, "touch", "/tmp/go")
    assert s.take(held)["output"] == "first\n"
    a = s.take(next_one)
    assert a["output"] == "second\n" and a["queued_ms"] > 0, a
    assert s.call(op="sh", sandbox=box, text="ls /tmp/ran 2>/dev/null; echo $?")["output"] == "2\n"


@stdio()
def test_files_go_in_and_out(s, box):
    data = bytes(range(256)) * 5000
    assert s.call(op="write", sandbox=box, path="a/b", data="text ü\n", parents=True, mode="600") == {"id": s.n, "bytes": 8}
    assert s.call(op="write", sandbox=box, path="a/b", data="more", append=True)["bytes"] == 4
    a = s.call(op="read", sandbox=box, path="a/b")
    assert (a["data"], a["bytes"]) == ("text ü\nmore", 12), a
    assert s.exec(box, "stat", "-c", "%a", "a/b")[0] == b"600\n"
    assert s.call(op="write", sandbox=box, path="bin", data_hex=data.hex())["bytes"] == len(data)
    assert bytes.fromhex(s.call(op="read", sandbox=box, path="bin")["data_hex"]) == data
    assert s.call(op="read", sandbox=box, path="bin", max=100)["error"]["code"] == "limit"
    assert s.call(op="read", sandbox=box, path="none")["error"]["code"] == "not-found"
    assert s.call(op="read", sandbox=box, path="/root/../proc/1/mem")["error"]
    assert s.call(op="write", sandbox=box, path="x", data="x", mode="rwx")["error"]["code"] == "invalid"
    assert s.call(op="write", sandbox=box, path="/usr/x", data="x", user="1000")["error"]["code"] == "denied"
    src = b.write(b.tmp("src"), data)
    a = s.call(op="copy", **{"from": src}, to=f"{box}:copied")
    assert a["bytes"] == len(data) and a["exit_status"] == 0, a
    assert s.call(op="copy", **{"from": f"{box}:copied"}, to=b.tmp("back"))["exit_status"] == 0
    assert open(b.tmp("back"), "rb").read() == data
    # many at once, and the session beside them
    ns = [s.send(op="write", sandbox=box, path=f"f{i}", data=str(i) * 1000) for i in range(20)]
    assert s.call(op="sh", sandbox=box, text="echo hi")["output"] == "hi\n"
    assert all(s.take(n)["bytes"] for n in ns)
    assert s.call(op="read", sandbox=box, path="f7")["data"] == "7" * 1000


def test_many_sandboxes_at_once():
    s = Stdio()
    made = [s.send(op="create", image="host") for _ in range(4)]
    boxes = [s.take(n)["sandbox"] for n in made]
    slow = [s.send(op="exec", sandbox=x, argv=["sh", "-c", f"sleep 1; echo {i}"]) for i, x in enumerate(boxes * 5)]
    began = time.monotonic()
    assert s.call(op="sh", sandbox=boxes[0], text="echo quick")["output"] == "quick\n"
    assert time.monotonic() - began < 1, "a request waits for others"
    for i, n in enumerate(slow):
        assert s.end_of(n)[0] == f"{i}\n".encode()
    assert time.monotonic() - began < 10
    for x in boxes:
        s.remove(x)
    assert s.call(op="exec", sandbox=boxes[0], argv=["true"])["error"]["code"] == "not-found"
    s.close()


def test_what_is_wrong_is_said_and_the_rest_goes_on():
    s = Stdio()
    for line, word in ((b"nonsense", "request"), (b"[1]", "object"), (b'{"op":"nope"}', "unknown"), (b'{}', "op"),
                       (b'{"op":"exec","argv":["x"]}', "sandbox"), (b'{"op":"sh","sandbox":7}', "sandbox")):
        s.p.stdin.write(line + b"\n")
        s.p.stdin.flush()
        a = s.line()
        assert a["id"] is None and word in a["error"]["message"], a
    a = s.call(op="create", image="nosuchimage")
    assert a["exit_status"] == 125 and a["error"], a
    a = s.call(op="create", image="nosuchimage", options={"pull": "never"})
    assert a["error"]["code"] == "not-found" and "berth pull nosuchimage" in a["error"]["message"], a
    a = s.call(op="create", image="host", options={"memory": "nonsense"})
    assert a["error"]["code"] == "invalid", a
    assert s.call(op="ping")["protocol"] == 1
    s.close()


@stdio()
def test_what_has_no_effect_is_refused_and_named(s, box):
    for request, word in ((dict(op="sh", sandbox=box, text="true", timeout=5), '"timeout"'), (dict(op="ps", nope=1), '"nope"'),
                          (dict(op="read", sandbox=box, path="/x", data="x"), '"data"'), (dict(op="wait", sandbox=box), '"command"'),
                          (dict(op="output", sandbox=box), '"command"'), (dict(op="exec", sandbox=box, argv=["true"], silent=True), '"silent"'),
                          (dict(op="sh", sandbox=box, text_hex="6x"), '"text_hex"'), (dict(op="sh", sandbox=box, text_hex=7), '"text_hex"'),
                          (dict(op="sh", sandbox=box, text_hex=None), '"text_hex"'), (dict(op="write", sandbox=box, path="x", data=None), '"data"'),
                          (dict(op="sh", sandbox=box, text="a", text_hex="61"), '"text_hex"'),
                          (dict(op="signal", sandbox=box, signal="NOPE"), "NOPE")):
        a = s.call(**request)
        assert a["error"]["code"] == "invalid" and word in a["error"]["message"], (request, a)
    assert s.call(op="sh", sandbox=box, text_hex=b"printf '\xff\xfe'".hex())["output_hex"] == "fffe"
    assert s.call(op="sh", sandbox=box, text_hex=(b"# " + b"x" * 200000 + b"\necho long").hex())["output"] == "long\n"


@stdio()
def test_signals_by_name_and_the_requests_of_one_sandbox(s, box):
    c = s.call(op="exec", sandbox=box, argv=["sleep", "1000"], detach=True)["command"]
    follows = [s.send(op="follow", sandbox=box, command=c) for _ in range(60)]
    a = s.call(op="stats", sandbox=box)
    assert a["error"]["code"] == "limit" and "60" in a["error"]["message"], a
    assert s.call(op="ping")["protocol"] == 1
    r = b.berth("signal", box, c, "TERM", ok=True)
    for n in follows:
        assert "error" not in s.take(n), r
    for name in ("SIGTERM", "kill", 2):
        c = s.call(op="exec", sandbox=box, argv=["sleep", "1000"], detach=True)["command"]
        assert s.call(op="signal", sandbox=box, command=c, signal=name)["signalled"] is True
        assert s.call(op="wait", sandbox=box, command=c)["verdict"]["exit_status"] == {"SIGTERM": 143, "kill": 137, 2: 130}[name]


def test_the_end_of_input_finishes_what_is_under_way():
    box = b.berth("create", "host", ok=True).out.strip()
    r = b.berth("stdio", input=json.dumps({"id": "a", "op": "exec", "sandbox": box, "argv": ["sh", "-c", "sleep 0.3; echo x"]}),
                ok=True)
    lines = [json.loads(x) for x in r.out.splitlines()]
    b.expect([x["id"] for x in lines] == ["a"] * 3 and lines[-1]["verdict"]["exit_code"] == 0, r, "not finished")
    b.berth("rm", "-f", box, ok=True)


def test_commands_end_with_the_client():
    s = Stdio()
    box = s.create()
    n = s.send(op="exec", sandbox=box, argv=["sleep", "1000"])
    assert s.take(n)["started"]
    b.stop(s.p)
    b.wait_for(lambda: "sleep" not in b.berth("top", box, ok=True).out, 10, "the end of the command")
    b.berth("rm", "-f", box, ok=True)


@stdio()
def test_a_thousand_commands_are_fast(s, box):
    """0.16 ms on an idle machine; this machine may be busy, so only a gross loss fails."""
    s.call(op="sh", sandbox=box, text=":")
    took = []
    for i in range(1000):
        began = time.perf_counter()
        a = s.call(op="sh", sandbox=box, text=f"echo {i}" if i % 2 else ":")
        took.append(time.perf_counter() - began)
        assert a["output"] == (f"{i}\n" if i % 2 else "") and a["verdict"]["exit_status"] == 0, a
    took.sort()
    assert took[500] < 0.005, f"median {took[500] * 1000:.3f} ms"
