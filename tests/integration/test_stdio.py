# SPDX-License-Identifier: Apache-2.0
"""berth stdio: JSON lines, several requests at once, streams, cancel."""
import base64
import json
import os
import subprocess

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
        assert self.p.wait(20 * b.SLOW) == 0
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


@stdio()
def test_started_comes_before_any_output_and_the_verdict_after_it(s, box):
    for _ in range(100):
        ns = [s.send(op="exec", sandbox=box, argv=["sh", "-c", "echo out; echo err >&2"]) for _ in range(3)]
        for n in ns:
            answers = [s.take(n)]
            while "verdict" not in answers[-1]:
                answers.append(s.take(n))
            kinds = ["started" if "started" in a else a.get("stream", "verdict") for a in answers]
            assert kinds[0] == "started" and sorted(kinds[1:-1]) == ["stderr", "stdout"], kinds


@stdio()
def test_directories_are_listed_made_moved_and_removed(s, box):
    assert s.call(op="mkdir", sandbox=box, paths=["d", "x/y"], parents=True, mode="700") == {"id": s.n, "done": True}
    s.call(op="write", sandbox=box, path="d/f", data="12345")
    s.exec(box, "sh", "-c", "ln -s f d/l; mkfifo d/p")
    assert [(e["name"], e["type"]) for e in s.call(op="ls", sandbox=box, path="d")["entries"]] == [("f", "file"), ("l", "symlink"), ("p", "fifo")]
    assert [e["name"] for e in s.call(op="ls", sandbox=box)["entries"]] == ["d", "x"]
    assert s.call(op="ls", sandbox=box, path="x/y")["entries"] == []
    a = s.call(op="stat", sandbox=box, path="d/l")
    assert (a["type"], a["target"]) == ("symlink", "f"), a
    a = s.call(op="stat", sandbox=box, path="d/l", follow=True)
    assert (a["type"], a["size"], a["mode"], a["id"]) == ("file", 5, "0644", s.n), a
    assert s.call(op="mv", sandbox=box, **{"from": "d/f"}, to="x/g")["done"] is True
    assert s.call(op="rm", sandbox=box, paths=["x"])["error"]["code"] == "invalid"
    assert s.call(op="rm", sandbox=box, paths=["x", "d"], recursive=True)["done"] is True
    assert s.call(op="rm", sandbox=box, paths=["x"])["error"]["code"] == "not-found"
    assert s.call(op="rm", sandbox=box, paths=["x"], force=True)["done"] is True
    for request, word in ((dict(op="rm", paths=[]), '"paths"'), (dict(op="rm", paths=None), '"paths"'), (dict(op="mkdir"), '"paths"'),
                          (dict(op="stat"), '"path"'), (dict(op="mv", to="x"), '"from"'), (dict(op="rm", paths=["f"], options={}), '"options"')):
        a = s.call(sandbox=box, **request)
        assert a["error"]["code"] == "invalid" and word in a["error"]["message"], (request, a)
    many = [f"many/{i:05d}" + "n" * 50 for i in range(3000)]    # longer than a packet to the keeper
    assert s.call(op="mkdir", sandbox=box, paths=many, parents=True)["done"] is True
    assert len(s.call(op="ls", sandbox=box, path="many")["entries"]) == 3000


@stdio()
def test_code_runs_and_lists_what_it_made(s, box):
    a = s.call(op="code", sandbox=box, code="open('made', 'w').write('12')\nprint('hi')\nraise SystemExit(3)")
    assert (a["stdout"], a["exit_status"], a["language"], a["verdict"]["cause"]) == ("hi\n", 3, "python", "exit"), a
    assert [(f["path"], f["change"]) for f in a["files"]] == [("made", "added")], a
    assert s.call(op="code", sandbox=box, code="echo $((6 * 7)) $A", lang="sh", env=["A=b"])["stdout"] == "42 b\n"
    a = s.call(op="code", sandbox=box, code="while :; do :; done", lang="sh", timeout_ms=200)
    assert a["verdict"]["cause"] == "timeout" and a["exit_status"] == 124, a
    for request in (dict(), dict(code="1", lang="cobol"), dict(code=7), dict(code="1", timeout_ms="5s")):
        assert s.call(op="code", sandbox=box, **request)["error"]["code"] == "invalid", request


@stdio()
def test_bytes_go_both_ways_in_base64(s, box):
    data = bytes(range(256)) * 20 + b"x"
    text = base64.b64encode(data).decode()
    assert s.call(op="write", sandbox=box, path="bin", data_base64=text)["bytes"] == len(data)
    assert s.call(op="read", sandbox=box, path="bin", encoding="base64")["data_base64"] == text
    assert s.call(op="read", sandbox=box, path="bin", encoding="hex")["data_hex"] == data.hex()
    n = s.send(op="exec", sandbox=box, argv=["cat"], stdin_base64=text, encoding="base64")
    got = b""
    while "verdict" not in (a := s.take(n)):
        got += base64.b64decode(a["data_base64"]) if "data_base64" in a else a.get("data", "").encode()
    assert got == data
    n = s.send(op="exec", sandbox=box, argv=["cat"], stdin_open=True)
    assert s.take(n)["started"]
    s.call(op="send", request=n, data_base64="aGk=", eof=True)
    assert s.end_of(n)[0] == b"hi"
    a = s.call(op="sh", sandbox=box, text_base64=base64.b64encode(b"printf '\xff\xfe'").decode(), encoding="base64")
    assert base64.b64decode(a["output_base64"]) == b"\xff\xfe" and "output_hex" not in a, a
    assert s.call(op="sh", sandbox=box, text="echo text", encoding="base64")["output"] == "text\n"
    s.exec(box, "sh", "-c", "mkdir odd; touch odd/$(printf '\\377')")
    a = s.call(op="ls", sandbox=box, path="odd", encoding="base64")
    assert [e["name_base64"] for e in a["entries"]] == ["/w=="], a
    a = s.call(op="code", sandbox=box, lang="sh", code_base64=base64.b64encode(b"printf '\\377'").decode(), encoding="base64")
    assert a["stdout_base64"] == "/w==", a
    for bad in ("aGk", "aGk==", "a Gk", "aGl=", "aGk=\n", "====", "aG-_"):
        a = s.call(op="write", sandbox=box, path="x", data_base64=bad)
        assert a["error"]["code"] == "invalid" and '"data_base64"' in a["error"]["message"], (bad, a)
    for bad in ("utf-8", 7, ["hex"]):
        assert s.call(op="read", sandbox=box, path="bin", encoding=bad)["error"]["code"] == "invalid"


@stdio()
def test_members_of_a_wrong_type_are_invalid(s, box):
    wrong = {"sandbox": 7, "argv": "true", "env": ["A=1", 2], "user": 0, "workdir": ["/"], "timeout_ms": "5s", "memory_bytes": -1, "pids": 1.5,
             "ulimits": {}, "stdin": 7, "stdin_open": 1, "detach": "yes", "name": False, "tty": "no", "rows": "2"}
    for name, value in wrong.items():
        request = {"op": "exec", "sandbox": box, "argv": ["true"], name: value}
        a = s.call(**request)
        assert a["error"]["code"] == "invalid" and f'"{name}"' in a["error"]["message"], (name, a)
    for request in (dict(op="sh", text=7), dict(op="sh", text="a", session={}), dict(op="signal", signal=[]), dict(op="output", command=1),
                    dict(op="output", command="c1", **{"from": "0"}), dict(op="read", path={}), dict(op="mkdir", paths="x"), dict(op="mkdir", paths=[1]),
                    dict(op="write", path="x", data="x", append=0), dict(op="ps", options=[]), dict(op="stop", args="x"), dict(op="stop", args=[1]),
                    dict(op="exec", argv=["true"], tty=True), dict(op=7), dict(op=None), dict(op="mv", **{"from": 1}, to="x")):
        a = s.call(**{"sandbox": box, **request})
        assert a["error"]["code"] == "invalid", (request, a)
    a = s.call(op="create", image=7)
    assert a["error"]["code"] == "invalid" and '"image"' in a["error"]["message"], a
    for line in (b'{"op":"ps",', b'{"op":"read","path":"a\\u0000b"}'):
        s.p.stdin.write(line + b"\n")
        s.p.stdin.flush()
        assert s.line()["error"]["code"] == "invalid"
    assert s.exec(box, "true", user=None, env=None)[2]["exit_code"] == 0      # null is as if it were not there


@stdio()
def test_inspect_keeps_the_id_of_the_record(s, box):
    a = s.call(op="inspect", sandbox=box)
    assert a["id"] == s.n and a["sandbox"] == box and a["record"]["id"] == box and a["exit_status"] == 0, a
    assert a["record"] == json.loads(b.berth("inspect", "--json", box, ok=True).out)
    a = s.call(op="inspect", sandbox="none")
    assert a["error"]["code"] == "not-found" and "record" not in a, a


def test_many_sandboxes_at_once():
    s = Stdio()
    made = [s.send(op="create", image="host") for _ in range(4)]
    boxes = [s.take(n)["sandbox"] for n in made]
    waits = "echo >>/tmp/here; until [ -e /tmp/go ]; do sleep 0.05; done; echo {}"
    slow = [s.send(op="exec", sandbox=x, argv=["sh", "-c", waits.format(i)]) for i, x in enumerate(boxes * 5)]
    # no request waits for others: all five of a sandbox run at once, and who tells them to go on is heard
    for x in boxes:
        assert s.call(op="sh", sandbox=x, text="until [ $(wc -l </tmp/here) = 5 ]; do sleep 0.05; done; >/tmp/go; echo quick")["output"] == "quick\n"
    for i, n in enumerate(slow):
        assert s.end_of(n)[0] == f"{i}\n".encode()
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
def test_a_thousand_commands_are_exact(s, box):
    """(How fast they are, make bench says.)"""
    s.call(op="sh", sandbox=box, text=":")
    for i in range(1000):
        a = s.call(op="sh", sandbox=box, text=f"echo {i}" if i % 2 else ":")
        assert a["output"] == (f"{i}\n" if i % 2 else "") and a["verdict"]["exit_status"] == 0, a
