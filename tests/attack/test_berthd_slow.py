# SPDX-License-Identifier: Apache-2.0
"""Clients that send slowly, read nothing, close half of a connection or only hold it: they end, and stop nobody else (S42, S43 of SECURITY.md)."""
import contextlib
import json
import re
import socket
import struct
import threading
import time

import berthtest as b
import daemon
from daemon import OTHER, TENANT, TOKEN, Daemon
from e2bwire import Client
from test_berthd_crowd import connect, metric, status

COST = 45
J = "Content-Type: application/json\r\n"


def head(method, path, token, *fields, length=None, more=""):
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n" + "".join(f + "\r\n" for f in fields) + more +
            (f"Content-Length: {length}\r\n" if length is not None else "") + "\r\n").encode()


def status_field(d, key):
    with open(f"/proc/{d.p.pid}/status") as f:
        return int(re.search(rf"{key}:\s+(\d+)", f.read()).group(1))


def served(d, token, box):
    r = d.request("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["echo", "x"]}, token=token, tcp=True)
    assert r.status == 200 and r.json["stdout"] == "x\n", r


def ends(s, piece, seconds):
    """Sends piece again and again; whether the server has ended the connection in that time, with or without a reply."""
    until = time.monotonic() + seconds
    s.settimeout(0.3)
    while time.monotonic() < until:
        try:
            if piece:
                s.sendall(piece)
            if not s.recv(65536):
                return True
        except TimeoutError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            return True
    return False


@b.deadline(150)
def test_S43_heads_and_bodies_that_trickle_are_ended_whatever_they_are_for():
    """The time of a JSON body is that of the whole of it: a byte now and then does not begin it again."""
    with Daemon(tcp=True) as d:
        box = d.create()
        cases = {
            "head": (b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n", b"X: y\r\n"),
            "a head that stops": (head("POST", "/v1/sandboxes", TENANT, length=9)[:-2], b""),
            "JSON": (head("POST", "/v1/sandboxes", TENANT, length=1 << 20, more=J) + b'{"name": "', b"x"),
            "JSON that stops": (head("POST", "/v1/sandboxes", TENANT, length=100, more=J) + b'{"name": "', b""),
            "JSON in chunks": (head("POST", "/v1/sandboxes", TENANT, "Transfer-Encoding: chunked", more=J), b"1\r\n \r\n"),
            "MCP": (head("POST", "/mcp", TENANT, "Accept: application/json, text/event-stream", length=5000, more=J) + b"{", b" "),
            "E2B": (head("POST", "/v2/sandboxes", TENANT, length=5000, more=J) + b"{", b" "),
            "run_code": (head("POST", "/run_code", TENANT, length=5000, more=J) + b"{", b" "),
            "create": (head("POST", "/create", TENANT, length=5000, more=J) + b"{", b" "),
        }
        results = {}

        def attack(name, first, piece):
            with connect(d) as s:
                s.sendall(first)
                results[name] = ends(s, piece, 100)
        threads = [threading.Thread(target=attack, args=(name, *case)) for name, case in cases.items()]
        for t in threads:
            t.start()
        for _ in range(10):
            served(d, TOKEN, box)
        for t in threads:
            t.join()
        assert set(results) == set(cases) and all(results.values()), [name for name in cases if not results.get(name)]
        served(d, TOKEN, box)
        b.wait_for(lambda: metric(d, "http_connections") <= 3, 20, "the end of the connections")


def test_S43_json_that_stands_still_is_bounded_and_leaves_room_for_others():
    """60 bodies of 1 MiB without their last byte: what is held of them is bounded for all, and one tenant's share of that too."""
    config = "[daemon]\nmax_connections = 400\n[tenant]\nconnections = 150\nrequests = 150\n"
    body = b'{"argv": ["' + b"x" * (1 << 20)
    with Daemon(tcp=True, config=config) as d, contextlib.ExitStack() as held:
        box = d.request("POST", "/v1/sandboxes", {}, token=OTHER, tcp=True).json["id"]
        before = status_field(d, "VmRSS")
        stuck = []
        for _ in range(120):
            s = held.enter_context(connect(d))
            s.sendall(head("POST", "/v1/sandboxes", TENANT, length=1 << 20, more=J) + body[:(1 << 20) - 1])
            stuck.append(s)
        b.wait_for(lambda: metric(d, "http_connections") >= 100, 20, "the connections")
        # another one's large body fits beside them
        r = d.request("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["wc", "-c"], "stdin": "y" * 900000}, token=OTHER, tcp=True)
        assert r.status == 200 and r.json["stdout"] == "900000\n", r
        grown = status_field(d, "VmRSS") - before
        assert grown < 90 << 10, f"{grown} KiB for 120 bodies of one tenant"
        # the last byte: those that were held are read, and the others were refused
        answers = []
        for s in stuck:
            s.sendall(b"x")
            answers.append(status(s))
        assert set(answers) == {400, 429} and answers.count(429) > 50, answers
        held.close()
        b.wait_for(lambda: d.request("POST", "/v1/sandboxes", {"pull": "never", "image": "i" * 500, "options": {"env": ["A=" + "z" * 60000] * 9}},
                                     token=TENANT, tcp=True).status == 400, 20, "the room back")
        d.request("DELETE", f"/v1/sandboxes/{box}?force=true", token=OTHER, tcp=True)


def test_S43_streams_that_nobody_reads_keep_only_their_own():
    """Of MCP, E2B and events: what their clients do not read is not kept for them, and others go on."""
    with Daemon(tcp=True) as d, contextlib.ExitStack() as held:
        box = d.request("POST", "/v1/sandboxes", {}, token=OTHER, tcp=True).json["id"]
        e = Client(d).create()
        before, stuck = status_field(d, "VmRSS"), []
        for _ in range(6):
            message = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", "cat /dev/zero"]}}).encode()
            body = struct.pack(">BI", 0, len(message)) + message
            fields = [f"{k}: {v}" for k, v in e.headers.items()]
            call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "run_command", "arguments": {"command": "while :; do echo line; done", "timeout": 300},
                "_meta": {"progressToken": 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                          "io.modelcontextprotocol/clientCapabilities": {}}}}).encode()
            for first in (head("POST", "/process.Process/Start", TENANT, *fields, length=len(body), more="Content-Type: application/connect+json\r\n") + body,
                          head("POST", "/mcp", TENANT, "Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2026-07-28",
                               "Mcp-Method: tools/call", "Mcp-Name: run_command", length=len(call), more=J) + call,
                          head("GET", "/v1/events", TENANT)):
                s = held.enter_context(connect(d))
                s.sendall(first)
                stuck.append(s)
        assert status(stuck[0]) == 200
        for _ in range(15):
            served(d, OTHER, box)
        grown = status_field(d, "VmRSS") - before
        assert grown < 60 << 10, f"{grown} KiB for what nobody reads"
        held.close()
        b.wait_for(lambda: metric(d, "http_connections") <= 4, 30, "the end of the connections")
        for one in d.get("/v1/sandboxes").json["sandboxes"]:
            d.request("DELETE", f"/v1/sandboxes/{one['id']}?force=true", tcp=True, token=TOKEN)


def test_a_stream_of_connect_that_is_half_closed_has_no_client_and_ends():
    """Nobody can tell a client that closed its half from one that left: a command must not go on for the second."""
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        fields = [f"{k}: {v}" for k, v in e.headers.items()]

        def start(raw, length):
            with connect(d) as s:
                s.sendall(head("POST", "/process.Process/Start", TENANT, *fields, length=length, more="Content-Type: application/connect+json\r\n") + raw)
                s.shutdown(socket.SHUT_WR)
                assert ends(s, b"", 60), f"{len(raw)} of {length} bytes: it goes on"

        message = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", "sleep 1000"]}, "stdin": False}).encode()
        body = struct.pack(">BI", 0, len(message)) + message
        torn = struct.pack(">BI", 0, len(message) + 100) + message
        for cut in (0, 3, 5, 20, len(body) - 1, len(body)):
            start(body[:cut], len(body))
        start(torn, len(torn))
        b.wait_for(lambda: metric(d, "http_connections") <= 4, 40, "the end of the connections")
        assert e.run("echo x")[0] == b"x\n"
        Client(d).ask("DELETE", f"/sandboxes/{e.id}")


@b.deadline(120)
def test_S43_a_thousand_connections_that_say_nothing_keep_nobody_out():
    with Daemon(tcp=True) as d, contextlib.ExitStack() as held:
        box = d.request("POST", "/v1/sandboxes", {}, token=OTHER, tcp=True).json["id"]
        before = status_field(d, "VmRSS")
        for i in range(1000):
            s = socket.socket()
            s.settimeout(5)
            held.callback(s.close)
            try:
                s.connect(("127.0.0.1", d.port))
                if i % 4 == 1:        # known, and idle
                    s.sendall(head("GET", "/v1/version", TENANT))
                elif i % 4 == 2:      # in the middle of a head
                    s.sendall(b"GET / HTTP/1.1\r\nHost: loc")
            except OSError:
                pass
            if i % 100 == 99:
                served(d, OTHER, box)
                served(d, TOKEN, box)
        assert status_field(d, "Threads") < 330 and status_field(d, "VmRSS") - before < 80 << 10
        held.close()
        b.wait_for(lambda: metric(d, "http_connections") <= 4, 40, "the end of the connections")
        assert status_field(d, "Threads") < 40
        d.request("DELETE", f"/v1/sandboxes/{box}?force=true", token=OTHER, tcp=True)
