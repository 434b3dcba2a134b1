# SPDX-License-Identifier: Apache-2.0
"""
S53.  A token that was removed, or that has another role, takes its rights along: sessions of MCP, streams and waits that began
before have no more than a new request has.
"""
import http.client
import os
import signal
import sys
import threading

import berthtest as b
from daemon import OTHER, TENANT, TOKEN, Daemon

ADMIN = "aaaabbbbccccddddeeeeffff00001111"
sys.path.insert(0, os.path.join(b.TOP, "tests", "integration"))
from test_mcp_http import Client      # noqa: E402


def tokens(d, *lines):
    b.write(d.tokens_path, f"root {TOKEN} admin\n" + "".join(line + "\n" for line in lines), 0o600)


def reload(d):
    d.p.send_signal(signal.SIGHUP)


@b.deadline(120)
def test_a_session_of_mcp_ends_when_its_client_is_no_administrator_any_more():
    with Daemon(tcp=True) as d:
        tokens(d, f"carol {ADMIN} admin")
        reload(d)
        b.wait_for(lambda: d.get("/v1/sandboxes", token=ADMIN, tcp=True).status == 200, 20, "the new tokens")
        c = Client(d, ADMIN)
        assert c.call("sandbox_create", image="host")
        tokens(d, f"carol {ADMIN}")
        reload(d)
        b.wait_for(lambda: d.get("/v1/system/df", token=ADMIN, tcp=True).status == 403, 20, "the end of a role")
        assert c.post({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}).status == 404
        b.wait_for(lambda: not b.berth("ps", "-q", ok=True).out.split(), 20, "the end of its sandboxes")


@b.deadline(120)
def test_a_stream_ends_when_its_token_is_removed():
    with Daemon(tcp=True) as d:
        box = d.create(token=TENANT)
        ended = threading.Event()

        def follow():
            c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
            c.request("GET", f"/v1/sandboxes/{box}/logs?follow=true", headers={"Authorization": "Bearer " + TENANT})
            try:
                c.getresponse().read()
            except (http.client.HTTPException, OSError):
                pass
            ended.set()

        thread = threading.Thread(target=follow)
        thread.start()
        tokens(d, f"bob {OTHER}")
        reload(d)
        b.wait_for(ended.is_set, 30, "the end of the stream")
        thread.join()
        b.berth("rm", "--force", box, ok=True)


@b.deadline(120)
def test_a_stream_ends_when_its_token_is_exchanged_for_another_of_its_name():
    with Daemon(tcp=True) as d:
        box = d.good("POST", "/v1/sandboxes", {"image": "host", "command": ["sh", "-c", "echo begun; sleep 1000"]},
                     token=TENANT, tcp=True)["id"]
        streams = []
        for path in (f"/v1/sandboxes/{box}/logs?follow=true", f"/v1/sandboxes/{box}/stats/watch"):
            c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
            c.request("GET", path, headers={"Authorization": "Bearer " + TENANT})
            streams.append((c, c.getresponse()))
            assert streams[-1][1].status == 200 and streams[-1][1].read(1)
        tokens(d, f"alice {OTHER}")
        reload(d)
        for c, r in streams:
            try:
                r.read()
            except http.client.HTTPException:
                pass
            r.close()
            c.close()
        b.berth("rm", "--force", box, ok=True)


@b.deadline(120)
def test_an_upload_ends_when_its_token_is_removed():
    with Daemon(tcp=True) as d:
        box = d.create(token=TENANT)
        for path in (f"/v1/sandboxes/{box}/files?path=/tmp/f", f"/v1/sandboxes/{box}/exec"):
            tokens(d, f"alice {TENANT}")
            reload(d)
            b.wait_for(lambda: d.get("/v1/sandboxes", token=TENANT, tcp=True).status == 200, 20, "the token")
            with d.raw_socket(tcp=True) as s:
                body = b'{"argv": ["touch", "/tmp/done"]}'.ljust(100)
                verb = "PUT" if "files" in path else "POST"
                s.sendall(f"{verb} {path} HTTP/1.1\r\nHost: 127.0.0.1:{d.port}\r\nAuthorization: Bearer {TENANT}\r\n"
                          f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body[:50])
                tokens(d, f"bob {OTHER}")
                reload(d)
                b.wait_for(lambda: d.get("/v1/sandboxes", token=TENANT, tcp=True).status == 401, 20, "the end of the token")
                s.sendall(body[50:])
                said = s.recv(1000)
                assert b" 401 " in said.split(b"\r\n")[0], said
        assert b.berth("exec", box, "ls", "/tmp", ok=True).out.strip() == ""
        b.berth("rm", "--force", box, ok=True)


@b.deadline(60)
def test_one_name_has_one_role():
    with Daemon(tcp=True) as d:
        tokens(d, f"carol {ADMIN}", f"carol {OTHER} admin")
        reload(d)
        b.wait_for(lambda: "another role" in d.log(), 20, "the refusal")
        # what held before holds
        assert d.get("/v1/sandboxes", token=TENANT, tcp=True).status == 200
