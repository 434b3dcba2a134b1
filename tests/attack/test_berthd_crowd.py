# SPDX-License-Identifier: Apache-2.0
"""One tenant cannot keep others, or root, from berthd (S43 of SECURITY.md): connections, requests and streams of each are bounded."""
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading

import berthtest as b
import daemon
from daemon import Daemon
from dockerlab import Engine

SPARE = 32      # http_state.h
ROOT = 16
PLACES = 4 * 4  # of Docker's socket, with max_connections = 4


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
    def answered(token):
        """A full socket says 503 and when to ask again: who was just let in has a second for a request."""
        with connect(d) as s:
            status = ask(s, "/v1/sandboxes", token, close=True)
            assert status in (200, 503), status
            rest(s)
            return status == 200
    for token in (daemon.OTHER, daemon.TOKEN):
        b.wait_for(lambda: answered(token), 5, "an answer beside the others")
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


def over_unix(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20 * b.SLOW)
    s.connect(path)
    return s


def get(s, path):
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return status(s)


def hold(held, path, stream):
    """A connection with an endless reply; one that has just ended may have its place for a moment."""
    def one():
        s = over_unix(path)
        if get(s, stream) == 200:
            return held.enter_context(s)
        return s.close()
    return b.wait_for(one, 20, "a place")


@b.deadline(90)
def test_S43_idle_connections_of_the_unix_socket_give_way():
    """Before, 300 kept root out until they timed out after 75 s."""
    with Daemon(config="[daemon]\nmax_connections = 16\n") as d, contextlib.ExitStack() as held:
        def one_more():
            s = held.enter_context(over_unix(d.socket))
            return get(s, "/healthz")
        # one that berthd does not know to be idle yet is refused, and asks again
        for _ in range(60):
            b.wait_for(lambda: one_more() == 200, 20, "a place of an idle connection")
        assert d.get("/v1/sandboxes").status == 200


@b.deadline(90)
def test_S43_a_full_unix_socket_answers_503_and_when_to_ask_again():
    with Daemon(config="[daemon]\nmax_connections = 8\n") as d, contextlib.ExitStack() as held:
        taken = [hold(held, d.socket, "/v1/events") for _ in range(8 + ROOT)]
        for body in ("", "x" * 300000):
            with over_unix(d.socket) as s:
                with contextlib.suppress(BrokenPipeError):      # it need not read the body
                    s.sendall(f"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                              f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
                head, _, said = rest(s).decode().partition("\r\n\r\n")
            assert head.startswith("HTTP/1.1 503 ") and "\r\nRetry-After: 1\r\n" in head, head
            said = json.loads(said)["error"]
            assert said["code"] == "limit" and "daemon.max_connections" in said["remedy"], said
        taken.pop().close()

        def served():
            with over_unix(d.socket) as s:
                return get(s, "/healthz") == 200
        b.wait_for(served, 20, "the place that was given back")


@b.deadline(120)
def test_S43_a_crowd_at_the_unix_socket_is_answered_to_the_last_one():
    clients, turns, seen, lock = 64, 20, {}, threading.Lock()

    def ask_often(d):
        for _ in range(turns):
            with over_unix(d.socket) as s:
                try:
                    code = get(s, "/healthz")
                except OSError as e:
                    code = type(e).__name__
            with lock:
                seen[code] = seen.get(code, 0) + 1

    with Daemon(config="[daemon]\nmax_connections = 4\n") as d, contextlib.ExitStack() as held:
        # all but two of the places are taken for good
        for _ in range(4 + ROOT - 2):
            hold(held, d.socket, "/v1/events")
        threads = [threading.Thread(target=ask_often, args=(d,)) for _ in range(clients)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert set(seen) == {200, 503} and sum(seen.values()) == clients * turns, seen


NOBODY = """
import contextlib, socket, sys
with contextlib.ExitStack() as held:
    for _ in range(int(sys.argv[2])):
        s = held.enter_context(socket.socket(socket.AF_UNIX))
        s.connect(sys.argv[1])
        s.sendall(b"GET /events HTTP/1.1\\r\\nHost: docker\\r\\n\\r\\n")
        print(s.recv(4096).split()[1].decode(), flush=True)
    print("end", flush=True)
    sys.stdin.read()
"""


@b.deadline(90)
def test_S43_nobody_but_root_gets_the_last_places_of_dockers_socket():
    engine = Engine(wait=False)
    b.write(engine.config_path, engine.config.replace("[daemon]\n", "[daemon]\nmax_connections = 4\n"), 0o600)
    engine.start()
    with engine as d, contextlib.ExitStack() as held:
        os.chmod(d.docker_socket, 0o666)
        # as another user, whom the folders of the test do not stop
        p = held.enter_context(subprocess.Popen(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_override,+dac_read_search",
             "--ambient-caps=+dac_override,+dac_read_search", sys.executable, "-c", NOBODY, d.docker_socket, str(PLACES + 5)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        held.callback(p.stdin.close)
        got = list(iter(lambda: p.stdout.readline().strip(), "end"))
        assert got == ["200"] * PLACES + ["503"] * 5, got
        for _ in range(ROOT):
            hold(held, d.docker_socket, "/events")
        status_, said, headers = d.api("GET", "/_ping")
        assert status_ == 503 and "connections" in said["message"] and headers["Retry-After"] == "1", (status_, said)
