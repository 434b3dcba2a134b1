# SPDX-License-Identifier: Apache-2.0
"""berth forward: ports of this host that lead to ports of a sandbox, whatever its network.  S57."""
import json
import os
import signal
import socket
import threading

import berthtest as b
from box import Box
from daemon import OTHER, TOKEN, Daemon
from netlab import Lab, need_bridge
from servers import COUNTS, DEAF, ECHOES, FLOODS, SIX, Forward, all_of, ask, serve

COST = 20
NOTHING = 9999


def forward(ref, *words, **kw):
    return b.berth("forward", ref, *map(str, words), **kw)


def reaches(x):
    serve(x)
    with Forward(x.id, f"0:{COUNTS}", f"0:{ECHOES}", f"[::1]:0:{SIX}") as f:
        assert [(p["address"], p["port"], p["protocol"]) for p in f.ports] == [
            ("127.0.0.1", COUNTS, "tcp"), ("127.0.0.1", ECHOES, "tcp"), ("::1", SIX, "tcp")], f.ports
        # the end of one direction is passed on, and the other goes on
        assert ask(f.connect(COUNTS), b"x" * 5_000_000) == b"5000000"
        assert ask(f.connect(ECHOES), b"hello") == b"hello"
        assert ask(f.connect(SIX), b"abc") == b"3", "a server that listens on ::1 only"


def test_a_sandbox_without_a_network_is_reached_and_gets_no_way_out():
    with Box() as x:
        reaches(x)
        routes = x.exec("cat", "/proc/net/route", ok=True).out.splitlines()
        assert len(routes) <= 1, routes


def test_a_sandbox_behind_the_proxy_is_reached():
    with Box("--network", "egress", "--allow-host", "example.com") as x:
        reaches(x)


def test_a_sandbox_on_a_bridge_is_reached_without_a_published_port():
    need_bridge()
    with Lab(forwarding=True), Box("--network", "bridge") as x:
        reaches(x)


def test_a_member_of_an_internal_network_is_reached():
    need_bridge()
    with Lab():
        b.berth("network", "create", "--internal", "inside", ok=True)
        try:
            with Box("--network", "inside") as x:
                reaches(x)
        finally:
            b.berth("network", "rm", "inside", ok=True)


def test_a_sandbox_with_the_hosts_network_is_refused_with_words():
    with Box("--network", "host") as x:
        b.one_line_error(forward(x.id, "0:80"), 2, "host's network", "127.0.0.1 itself")
        b.one_line_error(b.berth("forward", "--stdio", x.id, "80"), 2, "host's network")


def test_a_stopped_sandbox_and_one_of_berth_run_are_refused_with_a_remedy():
    with Box("--name", "web") as x:
        b.berth("stop", "web", ok=True)
        b.one_line_error(forward("web", "0:80"), 125, "not running", "berth start")
        b.one_line_error(b.berth("forward", "--stdio", "web", "80"), 125, "berth start")
        b.berth("start", x.id, ok=True)
        b.berth("pause", "web", ok=True)
        b.one_line_error(forward("web", "0:80"), 125, "paused", "berth resume")
    p = b.start("run", "--name", "once", "host", "sh", "-c", "echo up; sleep 1000")
    try:
        b.read_until(p.stdout, b"up\n")
        b.one_line_error(forward("once", "0:80"), 125, "berth run", "one command only")
    finally:
        b.stop(p, signal.SIGTERM)
    b.one_line_error(forward("nobody", "0:80"), 125, "nobody")


def test_words_that_are_no_ports_are_refused():
    with Box() as x:
        for word in ("", ":", "80:", ":80", "0", "65536", "80:0", "65536:80", "8x:80", "1:2:3", "x:1:80", "::1:8080:80", "[::1:80:80",
                     "[1.2.3.4]:80:80", "[::1]:80", "127.0.0.1:80", "1.2.3:80:80", "80:80:80:80", "-1:80", "80/udp"):
            b.one_line_error(forward(x.id, "--", word) if word.startswith("-") else forward(x.id, word), 2, "port")
        b.one_line_error(b.berth("forward", x.id), 2, "a sandbox and a port")
        b.one_line_error(b.berth("forward", "--stdio", x.id, "80", "81"), 2, "one port")
        b.one_line_error(b.berth("forward", "--stdio", "-v", x.id, "80"), 2, "--verbose")
        b.one_line_error(forward(x.id, *[f"0:{n}" for n in range(1, 66)]), 2, "at most 64")
        with socket.create_server(("127.0.0.1", 0)) as s:
            taken = s.getsockname()[1]
            b.one_line_error(forward(x.id, f"{taken}:8000"), 125, "in use", "0:8000")
        r = b.berth("forward", "--json", x.id, "y")
        assert r.code == 2 and json.loads(r.err)["error"]["code"], r


def test_it_prints_its_ports_and_ends_well_by_a_signal():
    with Box() as x:
        for signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # what the caller of the tests ignores (nohup: SIGHUP) stays ignored
            p = b.start("forward", x.id, "0:8000", "127.0.0.2:0:8001", preexec_fn=lambda signo=signo: signal.signal(signo, signal.SIG_DFL))
            lines = b""
            while lines.count(b"\n") < 2:
                lines += b.read_until(p.stdout, b"\n")
            first, second = lines.decode().splitlines()
            assert first.startswith("127.0.0.1:") and first.endswith(" -> 8000"), first
            assert second.startswith("127.0.0.2:") and second.endswith(" -> 8001"), second
            p.send_signal(signo)
            assert p.wait(20 * b.SLOW) == 0 and p.stderr.read() == b""


def test_it_ends_with_the_sandbox_and_says_so():
    with Box("--name", "web") as x:
        serve(x)
        with Forward("web", f"0:{ECHOES}", options=["-v"]) as f:
            with f.connect(ECHOES) as s:
                s.sendall(b"hi")
                assert s.recv(9) == b"hi"
                b.berth("stop", "--grace", "0", "web", ok=True)
                assert f.p.wait(30 * b.SLOW) == 125
                assert "has stopped" in json.loads(f.p.stderr.read())["error"]["message"]
                try:
                    assert s.recv(9) == b""
                except ConnectionResetError:
                    pass


def is_told(f, port=NOTHING):
    """Its connection ends, maybe before connect() has returned."""
    try:
        with f.connect(port) as s:
            assert s.recv(9) == b""
    except ConnectionResetError:
        pass


def test_where_nothing_listens_the_client_is_told_at_once():
    with Box() as x:
        with Forward(x.id, f"0:{NOTHING}", options=["--verbose"]) as f:
            for _ in range(3):
                is_told(f)
                line = b.read_until(f.p.stderr, b"\n").decode()
                assert f"-> {NOTHING}: nothing listens on that port" in line, line
            serve(x)
        with Forward(x.id, f"0:{ECHOES}", f"0:{NOTHING}") as f:
            is_told(f)
            assert ask(f.connect(ECHOES), b"later") == b"later", "others go on"
            f.p.send_signal(signal.SIGTERM)
            assert f.p.wait(20 * b.SLOW) == 0 and f.p.stderr.read() == b"", "silent without --verbose"


def test_a_reset_is_passed_on_and_not_taken_for_an_end():
    with Box() as x:
        serve(x)
        with Forward(x.id, f"0:{DEAF}") as f:
            idle = f.sockets()
            s = f.connect(DEAF)
            b.wait_for(lambda: f.sockets() == idle + 2, 20, "the connection")
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.close()
            b.wait_for(lambda: f.sockets() == idle, 20, "the end of the connection on both sides")


def test_what_is_behind_a_paused_sandbox_waits_and_goes_on():
    with Box() as x:
        serve(x)
        with Forward(x.id, f"0:{ECHOES}", options=["-v"]) as f, f.connect(ECHOES) as s:
            s.sendall(b"1")
            assert s.recv(9) == b"1"
            b.berth("pause", x.id, ok=True)
            s.sendall(b"2")
            is_told(f, ECHOES)
            assert b"paused" in b.read_until(f.p.stderr, b"\n")
            b.berth("resume", x.id, ok=True)
            assert s.recv(9) == b"2"


def test_standard_input_and_output_are_joined_to_a_port():
    with Box() as x:
        serve(x)
        r = b.berth("forward", "--stdio", x.id, COUNTS, input=b"x" * 3_000_000, ok=True)
        assert (r.out, r.err) == ("3000000", ""), r
        assert b.berth("forward", "--stdio", x.id, SIX, input="four", ok=True).out == "4"
        text = "line\n" * 100_000
        assert b.berth("forward", "--stdio", x.id, ECHOES, input=text, ok=True).out == text
        b.one_line_error(b.berth("forward", "--stdio", x.id, NOTHING), 125, f"nothing listens on port {NOTHING}", f"berth wait --port {NOTHING}")


def test_a_service_is_reached_too():
    served = "import http.server; http.server.test(http.server.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')"
    b.berth("run", "--detach", "--name", "site", "host", "python3", "-c", served, ok=True)
    try:
        b.berth("wait", "--port", "8000", "site", ok=True)
        with Forward("site", f"0:{COUNTS}") as f, f.connect(COUNTS) as s:
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert all_of(s).startswith(b"HTTP/1.0 200 OK")
    finally:
        b.berth("rm", "-f", "site", ok=True)


def test_bytes_come_through_whole_in_both_directions_at_once():
    def both(f, data, got):
        with f.connect(ECHOES) as s:
            t = threading.Thread(target=lambda: got.append(all_of(s)))
            t.start()
            for at, n in ((0, 1), (1, 70_000), (70_001, 900_000), (970_001, len(data))):
                s.sendall(data[at:at + n])
            s.shutdown(socket.SHUT_WR)
            t.join()

    with Box() as x:
        serve(x)
        with Forward(x.id, f"0:{ECHOES}") as f:
            sent, got = [os.urandom(3_000_000 + i) for i in range(6)], [[] for _ in range(6)]
            threads = [threading.Thread(target=both, args=(f, d, g)) for d, g in zip(sent, got)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert [g[0] for g in got] == sent


# ---- in the background

def listed(*words):
    return json.loads(b.berth("forward", "ls", "--json", *words, ok=True).out)


def address(one):
    return one["ports"][0]["address"], one["ports"][0]["host_port"]


def has_ended(pid):
    """A process that nobody has waited for yet has ended too."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_forward_in_the_background_is_listed_and_ended():
    with Box("--name", "web") as x, Box() as other:
        serve(x)
        first = json.loads(b.berth("forward", "-d", "--json", "web", f"0:{ECHOES}", ok=True).out)
        out = b.berth("forward", "--detach", "web", f"0:{COUNTS}", f"[::1]:0:{SIX}", ok=True).out.splitlines()
        assert len(out) == 2 and out[1].startswith("[::1]:"), out
        b.berth("forward", "-d", other.id, "0:1", ok=True)
        with socket.create_connection(("127.0.0.1", first["host_port"]), 30 * b.SLOW) as s:
            assert ask(s, b"hello") == b"hello"
        mine = listed("web")
        assert len(listed()) == 3 and len(mine) == 2 and {one["sandbox"] for one in mine} == {x.id}, listed()
        text = b.berth("forward", "ls", ok=True).out
        assert f"127.0.0.1:{first['host_port']} -> {ECHOES}" in text and f"-> {SIX}" in text and "web" in text, text
        b.one_line_error(b.berth("forward", "rm", "web", "1"), 125, "no such forward", "berth forward ls")
        b.one_line_error(b.berth("forward", "rm"), 2, "a sandbox is wanted")
        b.one_line_error(b.berth("forward", "rm", "web", "x"), 2, "port")
        assert str(first["host_port"]) in b.berth("forward", "rm", "web", first["host_port"], ok=True).out
        try:
            socket.create_connection(("127.0.0.1", first["host_port"]), 5).close()
            raise AssertionError("it still listens")
        except ConnectionRefusedError:
            pass
        assert len(listed("web")) == 1
        b.berth("forward", "rm", x.id, ok=True)
        assert listed("web") == [] and len(listed()) == 1
        b.one_line_error(b.berth("forward", "rm", "web"), 125, "no such forward")


def test_a_forward_in_the_background_holds_nothing_of_its_caller_and_ends_with_its_sandbox():
    with Box() as x:
        serve(x)
        # run to the end of its output, which a process with the descriptors would hold up
        r, w = os.pipe()
        os.set_inheritable(w, True)
        p = b.start("forward", "-d", "--json", x.id, f"0:{ECHOES}", pass_fds=(w,))
        os.close(w)
        out, err = p.communicate(timeout=30 * b.SLOW)
        assert p.returncode == 0 and not err, err
        with os.fdopen(r, "rb") as f:
            assert f.read() == b""
        one, = listed()
        assert os.readlink(f"/proc/{one['pid']}/cwd") == "/" and os.getsid(one["pid"]) == one["pid"]
        b.berth("stop", "--grace", "0", x.id, ok=True)
        b.wait_for(lambda: has_ended(one["pid"]), 20, "the end of the forward")
        assert listed() == []


def test_a_forward_in_the_background_that_cannot_begin_says_why():
    with Box() as x:
        with socket.create_server(("127.0.0.1", 0)) as s:
            b.one_line_error(b.berth("forward", "-d", x.id, f"{s.getsockname()[1]}:80"), 125, "in use")
        b.one_line_error(b.berth("forward", "-d", "nobody", "80"), 125, "nobody")
        b.one_line_error(b.berth("forward", "-d", "-v", x.id, "0:80"), 2, "--verbose")
        b.one_line_error(b.berth("forward", "-d", "--stdio", x.id, "80"), 2, "--detach")
        assert listed() == []


def test_a_record_of_a_dead_forward_is_not_listed_nor_another_process_ended():
    with Box() as x:
        b.berth("forward", "-d", x.id, "0:80", ok=True)
        one, = listed()
        os.kill(one["pid"], signal.SIGKILL)
        b.wait_for(lambda: has_ended(one["pid"]), 20, "its end")
        left = os.path.join(b.root(), "run", "forwards", str(one["pid"]))
        assert os.path.exists(left)
        # the number is another process's by now
        mine = os.path.join(b.root(), "run", "forwards", str(os.getpid()))
        os.link(left, mine)
        assert listed() == [] and not os.path.exists(left) and not os.path.exists(mine)
        b.one_line_error(b.berth("forward", "rm", x.id), 125, "no such forward")


# ---- over HTTP

def upgrade(d, x, port, tcp=False, token=None):
    """The socket after the head, and the head."""
    s = d.raw_socket(tcp)
    s.sendall(f"GET /v1/sandboxes/{x}/ports/{port} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
              f"{f'Authorization: Bearer {token}' + chr(13) + chr(10) if token else ''}\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = s.recv(1)
        if not piece:
            break
        head += piece
    return s, head.decode()


def test_a_port_of_a_sandbox_is_reached_over_http():
    with Box("--name", "web") as x, Daemon(tcp=True) as d:
        serve(x)
        data = os.urandom(2_000_000)
        for tcp in (False, True):
            s, head = upgrade(d, "web", COUNTS, tcp, TOKEN)
            assert head.startswith("HTTP/1.1 101 "), head
            assert ask(s, data) == b"2000000", "the end of one direction is passed on"
            s, head = upgrade(d, x.id, SIX, tcp, TOKEN)
            assert head.startswith("HTTP/1.1 101 ") and ask(s, b"abc") == b"3", head
            s, head = upgrade(d, x.id, ECHOES, tcp, TOKEN)
            for n in range(20):
                s.sendall(b"%02d" % n)
                assert s.recv(2) == b"%02d" % n
            assert ask(s, b"end") == b"end"
            s, head = upgrade(d, x.id, NOTHING, tcp, TOKEN)
            s.close()
            assert head.startswith("HTTP/1.1 404 "), head
        r = d.get(f"/v1/sandboxes/{x.id}/ports/{ECHOES}")
        assert r.status == 400 and "Upgrade: tcp" in json.dumps(r.json), r
        assert d.get(f"/v1/sandboxes/{x.id}/ports/0").status == 400
        s, head = upgrade(d, x.id, ECHOES, True)
        s.close()
        assert head.startswith("HTTP/1.1 401 "), head
        s, head = upgrade(d, x.id, ECHOES, True, OTHER)
        s.close()
        assert head.startswith("HTTP/1.1 404 "), "another client's sandbox"
        # one that stops ends its connections
        s, head = upgrade(d, x.id, ECHOES)
        b.berth("stop", "--grace", "0", x.id, ok=True)
        try:
            assert s.recv(9) == b""
        except ConnectionResetError:
            pass
        s.close()
        s, head = upgrade(d, x.id, ECHOES)
        s.close()
        assert head.startswith("HTTP/1.1 409 "), head


def test_a_berthd_that_stops_and_a_token_that_goes_end_their_connections():
    with Box() as x:
        serve(x)
        with Daemon(tcp=True) as d:
            first, head = upgrade(d, x.id, ECHOES, True, TOKEN)
            second, also = upgrade(d, x.id, FLOODS)
            assert head.startswith("HTTP/1.1 101 ") and also.startswith("HTTP/1.1 101 "), (head, also)
            first.sendall(b"a")
            assert first.recv(9) == b"a" and second.recv(9)
            b.write(d.tokens_path, "", 0o600)
            d.p.send_signal(signal.SIGHUP)
            try:
                assert first.recv(9) == b"", "its token is gone"
            except ConnectionResetError:
                pass
            assert second.recv(9), "root goes on"
            first.close()
        with second:
            try:
                all_of(second)
            except ConnectionResetError:
                pass
