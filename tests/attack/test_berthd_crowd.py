# SPDX-License-Identifier: Apache-2.0
"""One tenant cannot keep others, or root, from berthd (S43 of SECURITY.md): connections, requests and streams of each are bounded."""
import contextlib
import http.client
import socket

import berthtest as b
import daemon
from daemon import Daemon

SPARE = 32      # http_state.h


def connect(d):
    s = socket.create_connection(("127.0.0.1", d.port), 20 * b.SLOW)
    s.settimeout(20 * b.SLOW)
    return s


def ask(s, path, token, close=False):
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{'Connection: close' if close else 'X-A: b'}\r\n\r\n"
              .encode())
    return status(s)


def status(s):
    """Of the reply that begins, or 0 when the connection was ended without one."""
    got = b""
    try:
        while b"\r\n" not in got:
            piece = s.recv(1)
            if not piece:
                return 0
            got += piece
    except (ConnectionResetError, BrokenPipeError):
        return 0
    return int(got.split()[1])


def rest(s):
    """What is left of a reply that ends its connection."""
    got = b""
    while True:
        piece = s.recv(65536)
        if not piece:
            return got
        got += piece


def alive(d):
    """Another tenant and root, over TCP and over the unix socket."""
    for token in (daemon.OTHER, daemon.TOKEN):
        with connect(d) as s:
            assert ask(s, "/v1/sandboxes", token, close=True) == 200
            rest(s)
    c = daemon.UnixConnection(d.socket, 20)
    c.request("GET", "/v1/sandboxes")
    assert c.getresponse().status == 200
    c.close()


def test_S43_event_streams_of_one_tenant_leave_the_port_to_others():
    with Daemon(tcp=True) as d, contextlib.ExitStack() as held:
        got = []
        for _ in range(300):
            s = held.enter_context(connect(d))
            got.append(ask(s, "/v1/events", daemon.TENANT))
        assert got.count(200) == 32 and set(got) == {200, 429}, got       # a quarter of 256, and half of that
        with connect(d) as s:
            assert ask(s, "/v1/events", daemon.TENANT, close=True) == 429
            assert b"[tenant] " in rest(s)
        alive(d)
        with connect(d) as s:
            assert ask(s, "/v1/events", daemon.OTHER) == 200
        with connect(d) as s:
            assert ask(s, "/v1/events", daemon.TOKEN) == 200
    # what ended makes room
    with Daemon(tcp=True, config="[tenant]\nstreams = 1\n") as d:
        with connect(d) as s, connect(d) as t:
            assert (ask(s, "/v1/events", daemon.TENANT), ask(t, "/v1/events", daemon.TENANT, close=True)) == (200, 429)
        def again():
            with connect(d) as s:
                return ask(s, "/v1/events", daemon.TENANT) == 200
        b.wait_for(again, 20, "the place of the stream that ended")


def test_S43_a_network_log_that_is_followed_is_a_stream():
    with Daemon(tcp=True, config="[tenant]\nstreams = 1\n") as d:
        log = f"/v1/sandboxes/{d.create(token=daemon.TENANT)}/network/log?follow=true"
        alone = d.get(log, token=daemon.TENANT).status      # "host" has no such log: it is asked for, and refused
        assert alone >= 400 and alone != 429, alone
        with connect(d) as s:
            assert ask(s, "/v1/events", daemon.TENANT) == 200
            r = d.get(log, token=daemon.TENANT)
            assert r.status == 429 and "[tenant] streams" in r.body.decode(), r
            # what ends by itself is none
            assert d.get(log.partition("?")[0], token=daemon.TENANT).status == alone


def test_S43_idle_connections_and_requests_of_one_tenant_are_bounded():
    config = "[daemon]\nmax_connections = 40\n[tenant.alice]\nconnections = 6\nrequests = 3\n"
    with Daemon(tcp=True, config=config) as d, contextlib.ExitStack() as held:
        box = d.create(token=daemon.TENANT)
        idle = [held.enter_context(connect(d)) for _ in range(10)]
        got = [ask(s, "/healthz", daemon.TENANT) for s in idle]
        # the connection of d.create() is alice's, but was of the unix socket
        assert got.count(200) == 5 and got[:5] == [200] * 5 and set(got[5:]) == {429}, got
        assert all(b"connections at once" in rest(s) for s in idle[5:])
        alive(d)
        for s in idle:
            s.close()
        b.wait_for(lambda: metric(d, "http_connections") <= 2, 20, "the end of the connections")
        # requests under way: three wait for what does not happen
        waiting = []

        def wait():
            s = held.enter_context(connect(d))
            s.sendall(f"GET /v1/sandboxes/{box}/wait HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.TENANT}\r\n\r\n".encode())
            waiting.append(s)
        for _ in range(3):
            wait()
        b.wait_for(lambda: metric(d, "http_requests_active") >= 4, 20, "the three requests")
        def refused():
            with connect(d) as s:
                return ask(s, "/v1/sandboxes", daemon.TENANT, close=True) == 429
        b.wait_for(refused, 20, "a request too many")
        alive(d)
        d.good("POST", f"/v1/sandboxes/{box}/kill")
        assert [status(s) for s in waiting] == [200] * 3
        d.good("GET", "/v1/sandboxes", token=daemon.TENANT)


def metric(d, name):
    text = d.get("/metrics", check=False).body.decode()
    return next(int(float(line.split()[1])) for line in text.splitlines() if line.split()[0] == "berth_" + name)


def test_S43_who_says_nothing_gives_way_to_who_does():
    config = "[daemon]\nmax_connections = 16\n"
    with Daemon(tcp=True, config=config) as d, contextlib.ExitStack() as held:
        silent = [held.enter_context(connect(d)) for _ in range(16 + SPARE)]
        for _ in range(3):
            alive(d)
        for _ in range(16):
            ask(held.enter_context(connect(d)), "/v1/events", daemon.TENANT)
        alive(d)
        assert silent


def test_S43_tenants_together_leave_some_to_root():
    config = "[daemon]\nmax_connections = 16\n[tenant]\nconnections = 100\nstreams = 100\nrequests = 100\n"
    with Daemon(tcp=True, config=config) as d, contextlib.ExitStack() as held:
        with contextlib.ExitStack() as crowd:
            got = [ask(crowd.enter_context(connect(d)), "/v1/events", token) for _ in range(20) for token in (daemon.TENANT, daemon.OTHER)]
            assert got.count(200) == 16 and set(got) == {200, 429}, got
            for _ in range(3):
                with connect(d) as s:
                    assert ask(s, "/v1/sandboxes", daemon.TOKEN, close=True) == 200
        # other limits hold from a reload on
        b.write(d.config_path, d.config.replace("streams = 100", "streams = 1"), 0o600)
        d.p.send_signal(daemon.signal.SIGHUP)
        b.wait_for(lambda: any("read again" in str(line) for line in d.lines()), 20, "the reload")
        b.wait_for(lambda: metric(d, "http_connections") <= 2, 20, "the end of the connections")
        assert ask(held.enter_context(connect(d)), "/v1/events", daemon.TENANT) == 200
        assert ask(held.enter_context(connect(d)), "/v1/events", daemon.TENANT, close=True) == 429


def batch(size, name=b"f"):
    return b"--x\r\nContent-Disposition: form-data; name=\"files\"; filename=\"%s\"\r\n\r\n" % name + b"y" * size + b"\r\n--x--\r\n"


def batch_head(proxy, token, length):
    return (f"POST {proxy}/files:batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {length}\r\n\r\n").encode()


def stall(d, proxy, token, size):
    """An upload that stops before its last byte: the connection, open, or None when it was refused."""
    s = connect(d)
    try:
        s.sendall(batch_head(proxy, token, size) + batch(size)[:size - 1])
    except (ConnectionResetError, BrokenPipeError):
        s.close()
        return None
    return s


def put_batch(d, proxy, token, size):
    """The status, and the reply; 0: refused while it was sent, and the connection ended."""
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=30 * b.SLOW)
    with contextlib.closing(c):
        try:
            c.request("POST", f"{proxy}/files:batch", batch(size),
                      {"Authorization": "Bearer " + token, "Content-Type": "multipart/form-data; boundary=x"})
            r = c.getresponse()
        except (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected):
            return 0, b""
        return r.status, r.read()


def test_S43_uploads_of_one_tenant_that_stand_still_keep_no_other_out():
    """Bodies that are held whole have one bound together, which two such uploads used up for 30 s."""
    with Daemon(tcp=True, config='[session]\non_shutdown = "clean"\n') as d:
        proxies = {}
        for token in (daemon.TENANT, daemon.OTHER):
            name = d.good("POST", "/create", {}, token=token)["data"]
            proxies[token] = f"/proxy/{name}/workspace"
        with contextlib.ExitStack() as held:
            for size in (31 << 20, 8 << 20):
                s = stall(d, proxies[daemon.TENANT], daemon.TENANT, size)
                if s:
                    held.enter_context(s)
            b.wait_for(lambda: put_batch(d, proxies[daemon.TENANT], daemon.TENANT, 6 << 20)[0] in (0, 429), 20)
            status, text = put_batch(d, proxies[daemon.OTHER], daemon.OTHER, 4 << 20)
            assert status == 200, (status, text)
        b.wait_for(lambda: put_batch(d, proxies[daemon.TENANT], daemon.TENANT, 6 << 20)[0] == 200, 20)
