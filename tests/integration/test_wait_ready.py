# SPDX-License-Identifier: Apache-2.0
"""berth wait --healthy, --port, --log: until a sandbox is ready, with a deadline."""
import json

import berthtest as b
import daemon
import proc
from box import Box

LISTEN = """
import socket, sys, time
s = socket.socket(socket.AF_INET6 if len(sys.argv) > 2 else socket.AF_INET)
s.bind(("::1" if len(sys.argv) > 2 else "127.0.0.1", int(sys.argv[1])))
s.listen()
time.sleep(1000)
"""


def wait(box, *options, **kw):
    return b.berth("wait", *options, box.id, env=box.env, **kw)


def waiting(box, *options):
    return b.start("wait", *options, box.id, env=box.env)


def still_waits(p):
    """It has begun to wait: it has polled once, and goes on."""
    b.wait_for(lambda: p.poll() is not None or "poll" in open(f"/proc/{p.pid}/wchan").read(), 20, "the wait")
    return p.poll() is None


def test_it_waits_for_health():
    with Box("--health-cmd", "test -e /tmp/well", "--health-interval", "100ms", "--health-retries", "1000") as box:
        p = waiting(box, "--healthy")
        assert still_waits(p)
        box.exec("touch", "/tmp/well", ok=True)
        assert p.wait(20 * b.SLOW) == 0
        r = json.loads(wait(box, "--healthy", "--json", ok=True).out)
        assert r["id"] == box.id and r["ready"] is True and r["waited_ms"] < 20000
    with Box("--health-cmd", "echo no luck; exit 3", "--health-interval", "100ms", "--health-retries", "1") as box:
        b.one_line_error(wait(box, "--healthy"), 125, "unhealthy", "status 3", "no luck", f"berth inspect {box.id}")
    with Box() as box:
        b.one_line_error(wait(box, "--healthy"), 2, "no health check", "--health-cmd")


def test_it_waits_for_a_port_and_connects_to_nothing():
    with Box() as box:
        box.exec("sh", "-c", f"cat > /tmp/listen.py <<'E'{LISTEN}E\n", ok=True)
        p = waiting(box, "--port", "8000", "--port", "8001")
        assert still_waits(p)
        box.exec("python3", "/tmp/listen.py", "8000", options=["--detach"], ok=True)
        wait(box, "--port", "8000", ok=True)
        assert p.poll() is None
        box.exec("python3", "/tmp/listen.py", "8001", "six", options=["--detach"], ok=True)
        assert p.wait(20 * b.SLOW) == 0
        r = wait(box, "--port", "8000", "--port", "8002", "--timeout", "300ms")
        b.one_line_error(r, 124, "not ready in time", "nothing listens on port 8002")
        assert "8000" not in r.err


def test_it_waits_for_a_line_of_the_log():
    with Box() as box:
        p = waiting(box, "--log", "^server is (up|ready)[.]$")
        assert still_waits(p)
        box.exec("sh", "-c", "echo the server is ready; printf 'server is '; echo not; sleep 0.1; printf 'server is '; sleep 0.1;"
                 "echo ready. >&2; echo ready.", options=["--detach"], ok=True)
        b.wait_for(lambda: "is not" in b.berth("logs", box.id, env=box.env).out, 20, "the log")
        box.exec("sh", "-c", "printf 'server is '; sleep 0.2; echo up.; sleep 1000", options=["--detach"], ok=True)
        assert p.wait(20 * b.SLOW) == 0
        # what is there already, a prompt without a newline, bytes that are not text
        wait(box, "--log", "server is up", ok=True)
        box.exec("sh", "-c", r"printf '\377\000 a>b> '; sleep 1000", options=["--detach"], ok=True)
        wait(box, "--log", "a>b> ", ok=True)
        r = wait(box, "--log", "no such line", "--log", "server", "--timeout", "6s")
        b.one_line_error(r, 124, "no line of its log matches 'no such line'")
        assert "'server'" not in r.err
        b.berth("restart", box.id, env=box.env, ok=True)
        b.one_line_error(wait(box, "--log", "server is up", "--timeout", "300ms"), 124)


def test_a_sandbox_that_stops_is_not_ready_but_its_last_words_count():
    with Box() as box:
        ready, never = waiting(box, "--log", "last words", "--timeout", "0"), waiting(box, "--port", "1", "--timeout", "0")
        assert still_waits(ready) and still_waits(never)
        box.exec("sh", "-c", "trap 'echo last words; exit' TERM; echo set; while :; do sleep 0.1; done", options=["--detach"], ok=True)
        wait(box, "--log", "set", ok=True)
        b.berth("stop", box.id, env=box.env, ok=True)
        assert ready.wait(20 * b.SLOW) == 0
        out, err = never.communicate(timeout=20 * b.SLOW)
        assert never.returncode == 125 and b"stopped before it was ready: nothing listens on port 1" in err, err
        b.one_line_error(wait(box, "--port", "1"), 125, "not running", "berth start")


def test_misuse_is_refused():
    with Box() as box:
        for options, code, word in ((("--port", "0"), 2, "port"), (("--port", "65536"), 2, "port"), (("--log", ""), 2, "empty"),
                                    (("--log", "x" * 1025), 2, "1024"), (("--log", "(a"), 2, "regular expression"),
                                    (("--timeout", "1s"), 2, "--timeout")):
            b.one_line_error(wait(box, *options), code, word)
        b.one_line_error(b.berth("wait", "--healthy", box.id, "c1", env=box.env), 2, "of a sandbox")


def test_stdio_waits_too():
    with Box("--health-cmd", "true", "--health-interval", "100ms") as box:
        p = b.start("stdio", env=box.env, stdin=b.subprocess.PIPE)
        asked = ({"id": 1, "op": "ready", "sandbox": box.id, "options": {"healthy": True, "timeout": "20s"}},
                 {"id": 2, "op": "ready", "sandbox": box.id, "options": {"port": [1, 2], "timeout": "200ms"}})
        out, _ = p.communicate("".join(json.dumps(x) + "\n" for x in asked).encode(), timeout=40 * b.SLOW)
        answers = {x["id"]: x for x in map(json.loads, out.splitlines())}
        assert answers[1]["ready"] is True and answers[1]["exit_status"] == 0, answers
        assert answers[2]["error"]["code"] == "timeout" and answers[2]["exit_status"] == 124, answers


def test_berthd_waits_for_its_clients_and_stops_when_they_go():
    with daemon.Daemon(tcp=True) as d:
        box = d.create("waited", token=daemon.TENANT, tcp=True)
        url = f"/v1/sandboxes/{box}/ready"
        d.good("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["python3", "-c", LISTEN, "8001"], "detach": True})
        ready = d.good("GET", url + "?port=8001&timeout=30s", token=daemon.TENANT, tcp=True)
        assert ready["id"] == box and ready["ready"] is True and ready["waited_ms"] < 30000, ready
        late = d.get(url + "?port=8001&port=8002&timeout=100ms")
        assert late.status == 504 and late.json["error"]["code"] == "timeout" and "8002" in late.json["error"]["message"], late
        for query, status, code in (("", 400, "invalid"), ("?healthy=false", 400, "invalid"), ("?port=0", 400, "invalid"),
                                    ("?port=1&timeout=soon", 400, "invalid"), ("?log=(a", 400, "invalid")):
            reply = d.get(url + query)
            assert (reply.status, reply.json["error"]["code"]) == (status, code), (query, reply)
        # whose expression it is that costs memory and time outside of a sandbox
        denied = d.get(url + "?log=x", token=daemon.TENANT, tcp=True)
        assert denied.status == 403 and "logs?follow" in denied.json["error"]["remedy"], denied
        assert d.get(url + "?port=1", token=daemon.OTHER, tcp=True).status == 404

        def waits():
            return [p for p in proc.descendants(d.p.pid) if proc.alive(p)]
        with d.raw_socket() as s:
            s.sendall(f"GET {url}?port=1&timeout=0 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            b.wait_for(waits, 20, "the wait")
        b.wait_for(lambda: not waits(), 20, "its end")
