# SPDX-License-Identifier: Apache-2.0
"""
Zygotes by berth stdio, by berthd, by the clients and by berth --host.

Attacks S19 and S41 of SECURITY.md: a tenant of berthd has only its own zygotes, and no more than it may have.
"""
import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import berthtest as b
import daemon
from daemon import Daemon
from test_remote import far
from test_stdio import Stdio
from zygotebox import NODE, PYTHON, needs_node, needs_zygotes

sys.path.insert(0, os.path.join(b.TOP, "clients/python"))
sys.dont_write_bytecode = True
import berth  # noqa: E402

COST = 40
PRELOAD = [PYTHON, "-c", "import json, sys, os, time\nmade = 6"]
FEW = {"memory": "48m", "forks": 2}


def as_tenant(token):
    return {"tcp": True, "token": token}


ALICE, BOB = as_tenant(daemon.TENANT), as_tenant(daemon.OTHER)


@contextlib.contextmanager
def zygote(d, name=None, options=None, who=None, command=None):
    """One of berthd's, which is removed at the end."""
    needs_zygotes()
    body = {"image": "host", "command": command or PRELOAD, "options": {**FEW, **(options or {})}}
    if name:
        body["name"] = name
    made = d.good("POST", "/v1/zygotes", body, **(who or {}))["id"]
    try:
        yield made
    finally:
        b.berth("zygote", "rm", made)


def run(d, zygote, code, who=None, **more):
    return d.post(f"/v1/zygotes/{zygote}/run", {"code": code, **more}, **(who or {}))


def alive():
    return [f for z in json.loads(b.berth("zygote", "ls", "--json", ok=True).out) for f in z["alive"]]


def stream(d, zygote, token=None, **body):
    """A run whose reply has begun: its socket and its lines."""
    s = socket.create_connection(("127.0.0.1", d.port), 30 * b.SLOW) if token else d.raw_socket()
    data = json.dumps({"stream": True, **body}).encode()
    auth = f"Authorization: Bearer {token}\r\n" if token else ""
    s.sendall(f"POST /v1/zygotes/{zygote}/run HTTP/1.1\r\nHost: 127.0.0.1\r\n{auth}Content-Type: application/json\r\n"
              f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
    lines = s.makefile("rb")
    while lines.readline() != b"\r\n":
        pass
    return s, lines


def hang_up(s, lines):
    lines.close()
    s.close()


def text_until(lines, end):
    """What comes of output until it ends like that."""
    text = ""
    while not text.endswith(end):
        text += next_event(lines)["data"]
    return text


def next_event(lines):
    while True:
        line = lines.readline()
        assert line, "the reply has ended"
        if line.startswith(b"{"):
            return json.loads(line)


@b.deadline(120)
def test_stdio_makes_lists_and_removes_zygotes():
    needs_zygotes()
    s = Stdio()
    made = s.call(op="zygote-create", image="host", args=PRELOAD, options={"name": "zs", "env": ["A=1"], **FEW})
    assert made["name"] == "zs" and made["exit_status"] == 0, made
    z = made["zygote"]
    assert [j["id"] for j in s.call(op="zygotes")["result"]] == [z]
    seen = s.call(op="zygote-inspect", zygote="zs")
    assert seen["zygote"] == z and seen["record"]["id"] == z and seen["record"]["preload"] == PRELOAD, seen
    assert s.call(op="zygote-rm", zygote="zs")["removed"] is True
    assert s.call(op="zygotes")["result"] == []
    for request, code, word in ((dict(op="zygote-rm", zygote="zs"), "not-found", "zs"), (dict(op="zygote-inspect"), "invalid", "zygote"),
                                (dict(op="zygote-create", args=PRELOAD), "invalid", "image"),
                                (dict(op="zygote-create", image="host", args=["perl"]), "unsupported", "Python and node"),
                                (dict(op="zygote-create", image="host", args=PRELOAD, options={"forks": 0}), "invalid", "forks"),
                                (dict(op="zygotes", zygote="x"), "invalid", "zygote")):
        a = s.call(**request)
        assert a["error"]["code"] == code and word in a["error"]["message"], (request, a)
    a = s.call(op="zygote-create", image="host", args=[PYTHON, "-c", "print('words'); print('more', end=''); 1/0"], options=FEW)
    assert a["error"]["code"] == "invalid" and "ZeroDivisionError" in a["error"]["message"] and "words" in a["stderr"], a
    # a cancelled create also ends the preload
    n = s.send(op="zygote-create", image="host", args=[PYTHON, "-c", "import time; time.sleep(900)"], options=FEW)
    b.wait_for(lambda: b.berth("ps", "-q", ok=True).out.split() or os.listdir(os.path.join(b.root(), "run", "sandboxes")), 20, "the preload")
    s.call(op="cancel", request=n)
    b.wait_for(lambda: not os.listdir(os.path.join(b.root(), "run", "sandboxes")), 30, "the preload's end")
    s.close()


@b.long_proof("waits until the wait for a fork is over")
@b.deadline(120)
def test_stdio_waits_for_a_free_fork():
    needs_zygotes()
    s = Stdio()
    z = s.call(op="zygote-create", image="host", args=PRELOAD, options={"pool": 0, "memory": "48m", "forks": 1})["zygote"]
    held = s.send(op="run", zygote=z, code="print('up', flush=True); time.sleep(900)")
    while "stream" not in s.take(held):
        pass
    a = s.call(op="run", zygote=z, code="print('late')")
    assert a["error"]["code"] == "busy" and z in a["error"]["message"], a
    s.call(op="cancel", request=held)
    assert s.call(op="zygote-rm", zygote=z)["removed"] is True
    s.close()


@b.deadline(120)
def test_berthd_makes_zygotes_and_runs_code_in_forks():
    with Daemon() as d, zygote(d, "zd", {"env": ["A=1"], "pool": 1}) as z:
        assert [j["id"] for j in d.good("GET", "/v1/zygotes")["zygotes"]] == [z]
        seen = d.good("GET", "/v1/zygotes/zd")
        assert (seen["id"], seen["name"], seen["preload"], seen["forks"]) == (z, "zd", PRELOAD, 2) and "pid" not in seen, seen
        r = run(d, "zd", "print(made * 7, sys.argv[1:], os.environ['A'], os.environ['B'], os.getcwd(), sys.stdin.read()); sys.exit(3)",
                args=["x", "-y"], env=["B=b=c"], workdir="/tmp", stdin="in").json
        assert r["stdout"] == "42 ['x', '-y'] 1 b=c /tmp in\n" and (r["exit_status"], r["verdict"]["cause"]) == (3, "exit"), r
        r = run(d, z, "made += 1; sys.stdout.buffer.write(bytes([255, made])); sys.stderr.write('e')", max_output_bytes=8).json
        assert (r["stdout_hex"], r["stderr"], r["stdout_bytes"]) == ("ff07", "e", 2), r
        r = run(d, z, "print(made, 'x' * 100)", max_output_bytes=10).json
        assert r["stdout"].startswith("6 xxx") and r["stdout_dropped"] > 0, r
        r = run(d, z, "time.sleep(900)", timeout_ms=200).json
        assert (r["exit_status"], r["verdict"]["cause"]) == (124, "timeout"), r
        r = run(d, z, None, code_hex=b"print('hex')".hex())
        assert r.status == 400, "code twice"
        r = d.post(f"/v1/zygotes/{z}/run", {"code_hex": b"print('hex')".hex()})
        assert r.json["stdout"] == "hex\n", r
        for body, status, word in (({}, 400, "code"), ({"code": "1", "env": ["x"]}, 400, "NAME=VALUE"), ({"code": "1", "workdir": "x"}, 400, "absolute"),
                                   ({"code": "1", "nope": 1}, 400, "nope"), ({"code": "1", "stdin_open": True}, 400, "stream"),
                                   ({"code": "1", "stream": True, "stdin_open": True, "stdin": "x"}, 400, "stdin"),
                                   ({"code": "1", "timeout_ms": 0}, 400, "timeout_ms")):
            r = d.post(f"/v1/zygotes/{z}/run", body)
            assert r.status == status and word in r.json["error"]["message"], (body, r)
        box = d.create("box", memory="48m")
        for method, path in (("GET", f"/v1/zygotes/{box}"), ("DELETE", "/v1/zygotes/box"), ("GET", "/v1/zygotes/none"), ("GET", "/v1/zygotes/..%2f"),
                             ("POST", f"/v1/zygotes/{z}/runs/r0/stdin")):
            r = d.request(method, path, b"" if method == "POST" else None)
            assert r.status == 404, r
        assert d.post("/v1/zygotes/box/run", {"code": "1"}).status == 404
        for body, status, word in (({"image": "host", "command": ["perl"]}, 501, "Python and node"), ({"image": "host", "command": []}, 400, "interpreter"),
                                   ({"image": "host", "command": PRELOAD, "name": "zd"}, 409, "zd"), ({"image": "host"}, 400, "command"),
                                   ({"image": "host", "command": PRELOAD, "options": {"forks": 129}}, 400, "129"),
                                   ({"image": "host", "command": PRELOAD, "options": {"json": True}}, 400, "not an option"),
                                   ({"image": "nosuch", "command": PRELOAD}, 404, "nosuch"),
                                   ({"image": "host", "command": [PYTHON, "-c", "import sys; print('bye', end=''); sys.exit(9)"], "options": FEW}, 400, "bye")):
            r = d.post("/v1/zygotes", body)
            assert r.status == status and word in r.json["error"]["message"], (body, r)
        assert d.good("DELETE", f"/v1/zygotes/{z}") == {"id": z, "removed": True}
        assert d.get(f"/v1/zygotes/{z}").status == 404 and d.good("GET", "/v1/zygotes")["zygotes"] == []


@b.deadline(120)
def test_the_daemon_runs_code_in_what_node_started_ahead():
    needs_node()
    command = [NODE, "-e", "const made = 6"]
    with Daemon(tcp=True) as d, zygote(d, "zn", {"env": ["A=1"], "memory": "96m"}, command=command) as z:
        seen = d.good("GET", "/v1/zygotes/zn")
        assert (seen["mode"], seen["interpreter"], seen["preload"]) == ("ahead", NODE, command), seen
        r = run(d, "zn", "console.log(made * 7, process.argv[1], process.env.A, process.env.B); process.exitCode = 3", args=["x"], env=["B=b=c"]).json
        assert r["stdout"] == "42 x 1 b=c\n" and (r["exit_status"], r["verdict"]["cause"]) == (3, "exit"), r
        s, lines = stream(d, z, code="console.log('up'); process.stdin.on('data', () => {})", stdin_open=True)
        next_event(lines)
        assert next_event(lines)["data"] == "up\n"
        hang_up(s, lines)


@b.deadline(120)
def test_a_run_streams_takes_input_and_ends_with_its_client():
    with Daemon(tcp=True) as d, zygote(d, "zd") as z:
        s, lines = stream(d, z, code="print('up', flush=True)\nfor l in sys.stdin: print(made, l, end='', flush=True)", stdin_open=True)
        first = next_event(lines)
        assert first["started"] is True and first["zygote"] == z, first
        assert text_until(lines, "up\n") == "up\n"
        path = f"/v1/zygotes/zd/runs/{first['run']}/stdin"
        assert d.post(path, b"one\n").json == {"sent": 4}
        assert text_until(lines, "\n") == "6 one\n"
        # neither another tenant nor another zygote's name leads to its input
        assert d.post(path, b"bad\n", **BOB).status == 404
        assert d.post(path, b"two\n").json == {"sent": 4} and text_until(lines, "\n") == "6 two\n"
        assert d.post(path + "?eof=true", b"").status == 200
        assert next_event(lines)["verdict"]["exit_status"] == 0
        hang_up(s, lines)
        assert d.post(path, b"late").status == 404
        # the client's end is the fork's
        s, lines = stream(d, z, code="print('up', flush=True); time.sleep(900)")
        assert next_event(lines)["started"] and text_until(lines, "up\n")
        before = set(alive())
        hang_up(s, lines)
        b.wait_for(lambda: not before <= set(alive()), 20, "the end of the fork whose client went")
        # a fork that writes and is not read is slowed down, and holds nobody up
        s, lines = stream(d, z, code="while True: sys.stdout.write('y' * 65536)")
        assert next_event(lines)["started"]
        assert run(d, z, "print('other')").json["stdout"] == "other\n"
        hang_up(s, lines)


@b.long_proof("waits until the wait for a fork is over")
@b.deadline(120)
def test_busy_forks_are_waited_for_and_removal_ends_those_that_run():
    with Daemon() as d, zygote(d, "zd", {"forks": 2, "pool": 0}) as z:
        held = [stream(d, z, code="print('up', flush=True); time.sleep(900)") for _ in range(2)]
        for _, lines in held:
            assert next_event(lines)["started"] and text_until(lines, "up\n")
        r = run(d, z, "print('late')")
        assert r.status == 409 and "in use" in r.json["error"]["message"], r
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            late = pool.submit(lambda: subprocess.run(["curl", "-sS", "--unix-socket", d.socket, "-H", "Content-Type: application/json", "-d",
                                                       '{"code":"print(7)"}', f"http://x/v1/zygotes/{z}/run"], capture_output=True, timeout=60 * b.SLOW).stdout) \
                if shutil.which("curl") else None
            hang_up(*held[0])
            if late:
                assert json.loads(late.result())["stdout"] == "7\n"
        assert d.good("DELETE", f"/v1/zygotes/{z}")["removed"] is True
        last = {}
        while "verdict" not in last and "error" not in last:
            last = next_event(held[1][1])
        assert last.get("verdict", {"cause": "killed-by"})["cause"] != "exit", last
        hang_up(*held[1])
        b.wait_for(lambda: not os.listdir(os.path.join(b.root(), "run", "sandboxes")), 30, "the end of all forks")


TENANTS = "[tenant]\nsandboxes = 6\nmemory_total = \"400m\"\nmemory_limit = \"64m\"\nzygotes = 2\nzygote_forks = 4\n"


@b.deadline(180)
def test_tenants_have_only_their_own_zygotes():
    with Daemon(TENANTS, tcp=True) as d, zygote(d, "za", who=ALICE) as z, zygote(d, "zroot") as other:
        fork = b.wait_for(lambda: d.good("GET", f"/v1/zygotes/{z}", **ALICE)["alive"], 20, "the pool")[0]
        assert [j["name"] for j in d.good("GET", "/v1/zygotes", **ALICE)["zygotes"]] == ["za"]
        assert d.good("GET", "/v1/zygotes", **BOB)["zygotes"] == []
        assert {j["name"] for j in d.good("GET", "/v1/zygotes")["zygotes"]} == {"za", "zroot"}
        assert run(d, "za", "print(made)", ALICE).json["stdout"] == "6\n" and run(d, z, "print(made)").json["stdout"] == "6\n"
        # by name, by id, by the start of the id, by a fork's id: none is there, in the same words
        for who, names in ((BOB, ("za", z, z[:8], fork)), (ALICE, ("zroot", other, fork))):
            for name in names:
                for method, rest, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/run", {"code": "print(1)"}), ("POST", "/runs/r1/stdin", b"x")):
                    r = d.request(method, f"/v1/zygotes/{name}{rest}", body, **who)
                    assert r.status == 404 and r.json["error"]["message"] == f"no zygote '{name}'", (rest, r)
        # nor are a zygote and its forks sandboxes of a tenant's, not even their owner's
        for who in (ALICE, BOB):
            for one in ("za", z, fork):
                for method, rest, body in (("GET", "", None), ("DELETE", "?force=true", None), ("POST", "/exec", {"argv": ["id"]}), ("POST", "/kill", None)):
                    assert d.request(method, f"/v1/sandboxes/{one}{rest}", body, **who).status == 404, (one, rest)
            assert d.good("GET", "/v1/sandboxes", **who)["sandboxes"] == []
        # a name that is taken tells nothing of whose it is
        r = d.post("/v1/zygotes", {"image": "host", "command": PRELOAD, "name": "za", "options": {"memory": "48m", "forks": 1}}, **BOB)
        assert r.status == 409 and z not in json.dumps(r.json) and "alice" not in json.dumps(r.json), r
        # an option that a tenant may not give for a sandbox is refused for a zygote, too
        for options, status, word in (({"network": "egress"}, 403, "admin"), ({"volume": "/etc:/x"}, 403, "admin"), ({"mount": "x"}, 403, "admin"),
                                      ({"tenant": "bob"}, 403, "admin"), ({"seccomp": "dev"}, 403, "admin"), ({"cap-add": "SYS_ADMIN"}, 403, "admin"),
                                      ({"device": "/dev/kvm"}, 403, "admin"), ({"env-file": "/etc/passwd"}, 403, "admin"),
                                      ({"memory": "65m"}, 429, "memory_limit"), ({"env": ["HOME"]}, 400, "NAME=VALUE")):
            r = d.post("/v1/zygotes", {"image": "host", "command": PRELOAD, "options": {**FEW, **options}}, **BOB)
            assert r.status == status and word in json.dumps(r.json), (options, r)
        assert d.post("/v1/zygotes", {"image": "/", "command": PRELOAD}, **BOB).status == 403
        assert d.post("/v1/zygotes", {"image": "none", "command": PRELOAD}, **BOB).status == 404


@b.deadline(120)
def test_a_tenant_takes_no_name_of_an_operators_zygote():
    """One that has ended is not replaced by a tenant's of its name: code and sandboxes that are meant for it stay away."""
    with Daemon(TENANTS, tcp=True) as d, zygote(d, "zp", who=ALICE) as z:
        assert run(d, "zp", "print(made)", ALICE).json["stdout"] == "6\n" and run(d, z, "print(made)").json["stdout"] == "6\n"
        r = run(d, "zp", "print('secret')")
        assert r.status == 404 and r.json["error"]["message"] == "no zygote 'zp'", r
        assert d.get("/v1/zygotes/zp").status == 404 and d.delete("/v1/zygotes/zp").status == 404
        for words in (["run", "--zygote", "zp", "print('secret')"], ["create", "--zygote", "zp"], ["zygote", "rm", "zp"], ["zygote", "inspect", "zp"]):
            b.one_line_error(b.berth(*words), 125, "zygote 'zp' not found")
        assert b.berth("run", "--zygote", z[:8], "print(made)", ok=True).out == "6\n"


def code_in(d, box, code, who=None):
    return d.good("POST", f"/v1/sandboxes/{box}/code", {"code": code}, **(who or {}))["stdout"]


@b.deadline(120)
def test_sandboxes_that_live_are_made_of_a_zygote_by_its_owner():
    with Daemon(TENANTS, tcp=True) as d:
        needs_zygotes()
        with zygote(d, "za", who=ALICE) as z:
            made = d.good("POST", "/v1/sandboxes", {"zygote": "za", "name": "box", "options": {"label": ["a=b"]}}, **ALICE)["id"]
            assert code_in(d, made, "made += 1; print(made)", ALICE) == "7\n" and code_in(d, made, "print(made)", ALICE) == "7\n"
            assert d.good("GET", "/v1/sandboxes/box", **ALICE)["memory_limit_bytes"] == 48 << 20
            for body, who, status, word in (({"zygote": "za"}, BOB, 404, "no zygote"), ({"zygote": z}, BOB, 404, "no zygote"), ({"zygote": "za"}, None, 404, "no zygote"),
                                            ({"zygote": "za", "image": "host"}, ALICE, 400, "image"), ({"zygote": "za", "session": "s"}, ALICE, 400, "session"),
                                            ({"zygote": "za", "options": {"memory": "1g"}}, ALICE, 400, "memory"),
                                            ({"options": {"zygote": "za"}}, ALICE, 403, "admin"), ({"zygote": "box"}, ALICE, 404, "no zygote")):
                r = d.post("/v1/sandboxes", body, **(who or {}))
                assert r.status == status and word in json.dumps(r.json), (body, r)
            assert d.get("/v1/sandboxes/box", **BOB).status == 404
            d.good("POST", "/v1/sandboxes/box/stop?grace_ms=0", **ALICE)
        # the zygote has ended: neither another tenant's nor the operator's of its name takes its place
        for who in (BOB, None):
            with zygote(d, "za", who=who):
                r = d.post("/v1/sandboxes/box/start", **ALICE)
                assert r.status == 404 and "has ended" in r.json["error"]["message"], r
        with zygote(d, "za", who=ALICE):
            d.good("POST", "/v1/sandboxes/box/start", **ALICE)
            assert code_in(d, "box", "print(made)", ALICE) == "6\n"
            d.good("DELETE", "/v1/sandboxes/box?force=true", **ALICE)
        with zygote(d, "zo") as z:
            box = far(d, "create", "--zygote", "zo", "--name", "far", ok=True).out.strip()
            assert code_in(d, box, "print(made)") == "6\n"
            d.good("DELETE", "/v1/sandboxes/far?force=true")
            b.one_line_error(far(d, "create"), 2, "no image given")
            b.one_line_error(far(d, "create", "--zygote", "zo", "true"), 2, "zygote")
            with berth.Berth("unix://" + d.socket) as client, client.create(zygote="zo") as sandbox:
                assert sandbox.code("print(made)").out == "6\n"
            with berth.Berth(program=b.BERTH, env=b.environment()) as client, client.create(zygote="zo") as sandbox:
                assert sandbox.code("print(made)").out == "6\n"


@b.deadline(180)
def test_zygotes_and_forks_count_in_a_tenants_quotas_from_the_start():
    def make(forks, memory="48m", who=ALICE, **options):
        return d.post("/v1/zygotes", {"image": "host", "command": PRELOAD, "options": {"memory": memory, "forks": forks, **options}}, **who)

    with Daemon(TENANTS, tcp=True) as d:
        needs_zygotes()
        r = make(5)
        assert r.status == 429 and "zygote_forks" in json.dumps(r.json), r
        r = make(4, "64m", pool=2)
        assert r.status == 201, r
        big = r.json["id"]
        r = make(1)
        assert r.status == 429 and "zygote_forks" in json.dumps(r.json), r
        # each of them, waiting or not yet made, is a sandbox with its memory
        r = d.post("/v1/sandboxes", {"image": "host", "options": {"memory": "64m"}}, **ALICE)
        assert r.status == 201, r
        r = d.post("/v1/sandboxes", {"image": "host", "options": {"memory": "48m"}}, **ALICE)
        assert r.status == 429, r
        assert make(2, who=BOB).status == 201, "what another has takes nothing away"
        d.good("DELETE", f"/v1/zygotes/{big}", **ALICE)
        one, two = make(1), make(1)
        assert (one.status, two.status) == (201, 201), (one, two)
        r = make(1)
        assert r.status == 429 and "zygotes" in json.dumps(r.json), r
        d.good("DELETE", f"/v1/zygotes/{one.json['id']}", **ALICE)
        # several at once are counted one after the other
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            def raw(_):
                c = subprocess.run([sys.executable, "-c", "import http.client, sys\nc = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=90)\n"
                                    "c.request('POST', '/v1/zygotes', sys.argv[3], {'Authorization': 'Bearer ' + sys.argv[2], 'Content-Type': 'application/json'})\n"
                                    "print(c.getresponse().status)", str(d.port), daemon.TENANT,
                                    json.dumps({"image": "host", "command": PRELOAD, "options": {"memory": "32m", "forks": 1, "pool": 0}})],
                                   capture_output=True, text=True, timeout=100 * b.SLOW)
                return c.stdout.strip() or c.stderr
            got = sorted(pool.map(raw, range(4)))
        assert got == ["201", "429", "429", "429"], got
        # without a number of forks it has what there is
        for j in d.good("GET", "/v1/zygotes", **ALICE)["zygotes"]:
            d.good("DELETE", f"/v1/zygotes/{j['id']}", **ALICE)
        r = d.post("/v1/zygotes", {"image": "host", "command": PRELOAD, "options": {"memory": "32m"}}, **ALICE)
        assert r.status == 201 and d.good("GET", f"/v1/zygotes/{r.json['id']}", **ALICE)["forks"] == 4, r
        for j in d.good("GET", "/v1/zygotes")["zygotes"]:
            d.good("DELETE", f"/v1/zygotes/{j['id']}")


@b.deadline(120)
def test_zygotes_outlive_berthd_and_are_found_again():
    with Daemon(TENANTS, tcp=True) as d, zygote(d, "za", who=ALICE) as z:
        s, lines = stream(d, z, token=daemon.TENANT, code="print('up', flush=True); time.sleep(900)")
        assert next_event(lines)["started"] and text_until(lines, "up\n")
        before = set(alive())
        d.stop(signal.SIGKILL)
        hang_up(s, lines)
        b.wait_for(lambda: not before <= set(alive()), 20, "the end of a fork whose berthd was killed")
        d.start()
        assert [j["id"] for j in d.good("GET", "/v1/zygotes", **ALICE)["zygotes"]] == [z]
        assert d.get(f"/v1/zygotes/{z}", **BOB).status == 404
        assert run(d, "za", "print(made)", ALICE).json["stdout"] == "6\n"
        # its place is still taken
        r = d.post("/v1/zygotes", {"image": "host", "command": PRELOAD, "options": {"memory": "32m", "forks": 3}}, **ALICE)
        assert r.status == 429, r
        # a zygote that died gives it back
        os.kill(json.loads(b.berth("inspect", z, ok=True).out)["supervisor_pid"], signal.SIGKILL)
        b.wait_for(lambda: d.get(f"/v1/zygotes/{z}", **ALICE).status == 404 or run(d, z, "1", ALICE).status == 404, 20, "its end")
        r = d.post("/v1/zygotes", {"image": "host", "command": PRELOAD, "options": {"memory": "32m", "forks": 3}}, **ALICE)
        assert r.status == 201, r
        d.good("DELETE", f"/v1/zygotes/{r.json['id']}", **ALICE)


@b.deadline(120)
def test_a_client_that_goes_takes_its_preload_with_it():
    with Daemon() as d:
        needs_zygotes()
        body = json.dumps({"image": "host", "command": [PYTHON, "-c", "import time; time.sleep(900)"], "options": FEW}).encode()
        with d.raw_socket() as s:
            s.sendall(b"POST /v1/zygotes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            b.wait_for(lambda: os.listdir(os.path.join(b.root(), "run", "sandboxes")), 20, "the preload")
        b.wait_for(lambda: not os.listdir(os.path.join(b.root(), "run", "sandboxes")), 30, "the preload's end")


@b.deadline(120)
def test_events_of_zygotes_reach_their_owner_alone():
    needs_zygotes()
    with Daemon(TENANTS, tcp=True) as d:
        heard = {}
        for name, token in (("alice", daemon.TENANT), ("bob", daemon.OTHER), ("root", daemon.TOKEN)):
            s = socket.create_connection(("127.0.0.1", d.port), 60 * b.SLOW)
            s.sendall(f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            heard[name] = s, s.makefile("rb")
            while heard[name][1].readline() != b"\r\n":
                pass
        with zygote(d, "za", who=ALICE) as z:
            d.good("DELETE", f"/v1/zygotes/{z}", **ALICE)
        box = d.create("mine", memory="32m", **BOB)
        for name in ("alice", "root"):
            seen = {}
            while not {"zygote-create", "zygote-end"} <= set(seen):
                event = next_event(heard[name][1])
                seen[event["type"]] = event
            assert seen["zygote-create"]["sandbox"] == z and seen["zygote-create"]["image"] == "host", seen
            assert seen["zygote-create"]["name"] == "za" and "tenant" not in seen["zygote-create"], seen
        event = {}
        while event.get("sandbox") != box:      # after it all that was published before has come
            event = next_event(heard["bob"][1])
            assert event.get("sandbox") in (box, None) and "zygote" not in str(event), event
        for s, lines in heard.values():
            hang_up(s, lines)
        d.good("DELETE", f"/v1/sandboxes/{box}?force=true")


@b.deadline(120)
def test_berth_of_another_host_makes_zygotes_and_runs_code_in_them():
    needs_zygotes()
    with Daemon(TENANTS, tcp=True) as d:
        for who in ({}, {"token": daemon.TENANT, "tcp": True}):
            z = far(d, "zygote", "create", "--name", "zf", "--memory", "48m", "--forks", "2", "-e", "A=1", "host", *PRELOAD, ok=True, **who).out.strip()
            listed = json.loads(far(d, "zygote", "ls", "--json", ok=True, **who).out)
            assert [(j["id"], j["name"], j["forks"]) for j in listed] == [(z, "zf", 2)], listed
            assert "zf" in far(d, "zygote", "ls", ok=True, **who).out
            assert far(d, "zygote", "ls", ok=True, **who).out.split()[:7] == b.berth("zygote", "ls", ok=True).out.split()[:7]
            assert json.loads(far(d, "zygote", "inspect", "zf", ok=True, **who).out)["preload"] == PRELOAD
            r = far(d, "run", "--zygote", "zf", "-e", "B=b=c", "-w", "/tmp", "print(made * 7, sys.argv[1:], os.environ['A'], os.environ['B'], os.getcwd(),"
                    " sys.stdin.read()); sys.stderr.write('e'); sys.exit(3)", "-x", input="in", **who)
            b.expect(r.code == 3 and r.out == "42 ['-x'] 1 b=c /tmp in\n" and r.err == "e", r, "code, arguments, input, both outputs, status")
            path = b.write(b.tmp("code.py"), "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 1000)\n")
            with open(b.tmp("out"), "wb") as out:
                far(d, "run", "--zygote", z, "--file", path, "--json", stdout=out, ok=True, **who)
            with open(b.tmp("out"), "rb") as out:
                data = out.read()
            assert data.startswith(bytes(range(256)) * 1000) and json.loads(data[256000:])["exit_code"] == 0, data[-300:]
            assert far(d, "run", "--zygote", z, "--file", "-", input="print(made)", ok=True, **who).out == "6\n"
            r = far(d, "run", "--zygote", z, "--timeout", "200ms", "time.sleep(900)", **who)
            assert r.code == 124, r
            b.one_line_error(far(d, "run", "--zygote", z, **who), 2, "no code given")
            b.one_line_error(far(d, "run", "--zygote", z, "--memory", "1g", "1", **who), 2, "those of the zygote")
            b.one_line_error(far(d, "run", "--zygote", "none", "1", **who), 125, "no zygote 'none'")
            b.one_line_error(far(d, "run", **who), 2, "image")
            b.one_line_error(far(d, "zygote", "create", "host", "perl", **who), 125, "Python")
            assert far(d, "zygote", "inspect", "zf", token=daemon.OTHER, tcp=True).code == 125
            assert json.loads(far(d, "zygote", "ls", "--json", ok=True, token=daemon.OTHER, tcp=True).out) == []
            assert json.loads(far(d, "zygote", "rm", "--json", "zf", ok=True, **who).out) == {"removed": True}
            b.one_line_error(far(d, "zygote", "rm", "zf", **who), 125, "no zygote 'zf'")
