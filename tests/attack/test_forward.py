# SPDX-License-Identifier: Apache-2.0
"""
Attacks S57 of SECURITY.md: what a sandbox gets from berth forward, and what its servers can do to it and to others.  D13.
"""
import json
import os
import resource
import socket

import berthtest as b
import box
import proc
from box import Box
from servers import COUNTS, DEAF, ECHOES, FLOODS, Forward, ask, serve

COST = 30
MOST = 1024


def closed(connect):
    """The other side ends the connection, cleanly or by a reset, which may come as early as connect(2) ends, and sends nothing."""
    try:
        with connect() as s:
            return s.recv(9) == b""
    except ConnectionResetError:
        return True


def descriptors(pids):
    found = {}
    for pid in pids:
        for n in os.listdir(f"/proc/{pid}/fd"):
            try:
                found[pid, n] = os.readlink(f"/proc/{pid}/fd/{n}")
            except FileNotFoundError:
                pass
    return found


def test_a_forward_reaches_neither_the_hosts_loopback_nor_another_sandbox():
    with Box() as one, Box() as other, socket.create_server(("127.0.0.1", 0)) as host, socket.create_server(
            ("::1", 0), family=socket.AF_INET6) as host6:
        serve(other)
        ports = [host.getsockname()[1], host6.getsockname()[1], ECHOES]
        with Forward(one.id, *[f"0:{p}" for p in ports]) as f:
            for p in ports:
                assert closed(lambda: f.connect(p)), p
            for s in (host, host6):
                s.settimeout(0)
                try:
                    s.accept()
                    raise AssertionError("the host's server has a connection")
                except BlockingIOError:
                    pass
        # the namespaces are as before, and the keeper is in the host's own
        own = os.readlink("/proc/self/ns/net")
        assert os.readlink(f"/proc/{one.keeper}/ns/net") == own != os.readlink(f"/proc/{one.init}/ns/net")
        # what is inside can make no use of it: 127.0.0.1 is its own, and nothing listens there for berth
        assert one.exec("cat", "/proc/net/tcp", ok=True).out.count(" 0A ") == 0


def test_a_published_port_reaches_neither_the_hosts_loopback_nor_another_sandbox():
    with socket.create_server(("127.0.0.1", 0)) as host, Box() as other:
        serve(other)
        inside = [host.getsockname()[1], ECHOES]
        with Box(*[w for p in inside for w in ("-p", f"127.0.0.1::{p}")]) as one:
            for p in json.loads(b.berth("port", "--json", one.id, ok=True).out):
                assert closed(lambda: socket.create_connection(("127.0.0.1", p["host_port"]), 30 * b.SLOW)), p
            host.settimeout(0)
            try:
                host.accept()
                raise AssertionError("the host's server has a connection")
            except BlockingIOError:
                pass
            assert one.exec("cat", "/proc/net/tcp", ok=True).out.count(" 0A ") == 0, "no listener of berth's inside"


def test_a_keeper_makes_no_socket_in_the_hosts_network():
    with Box("--network", "host") as x, x.client() as c:
        for members in ({}, {"port": 80}, {"port": 80, "ipv6": True}):
            try:
                c.call("port", **members)
                raise AssertionError("a socket of the host's network was handed out")
            except box.Refused as e:
                assert "host's network" in e.message, e.message
    with Box() as x, x.client() as c:
        for port in (65536, 1 << 40):
            try:
                c.call("port", port=port)
                raise AssertionError(port)
            except box.Refused as e:
                assert "65535" in e.message, e.message


def test_no_descriptor_and_no_process_of_a_forward_comes_into_the_sandbox():
    with Box() as x:
        serve(x)
        init, keeper = x.init, x.keeper
        before, children = descriptors([init]), set(proc.descendants(keeper))
        held = descriptors([keeper])
        with Forward(x.id, f"0:{DEAF}", f"0:{ECHOES}") as f:
            conns = [f.connect(DEAF) for _ in range(20)] + [f.connect(ECHOES)]
            conns[-1].sendall(b"x")
            assert conns[-1].recv(1) == b"x"
            assert descriptors([init]) == before
            assert set(proc.descendants(keeper)) == children
            # a command that begins meanwhile has its three
            assert x.exec("sh", "-c", "ls /proc/self/fd", ok=True).out.split() == ["0", "1", "2", "3"]
            # and the keeper keeps none of the sockets that it handed over
            b.wait_for(lambda: len(descriptors([keeper])) <= len(held) + 1, 20, "the keeper's descriptors")
            for c in conns:
                c.close()


def fill(s):
    """Sends until nothing is taken any more."""
    s.setblocking(False)
    n, piece = 0, b"x" * (1 << 20)
    while True:
        try:
            n += s.send(piece)
        except BlockingIOError:
            return n


def test_D13_servers_that_flood_or_read_nothing_hold_up_nobody_and_cost_no_memory():
    with Box() as x:
        serve(x)
        with Forward(x.id, f"0:{FLOODS}", f"0:{DEAF}", f"0:{ECHOES}", f"0:{COUNTS}") as f, f.connect(ECHOES) as good:
            good.sendall(b"a")
            assert good.recv(1) == b"a"
            before = f.rss()
            # nobody reads what these send, and these read nothing of what is sent
            floods, deaf = [f.connect(FLOODS) for _ in range(50)], [f.connect(DEAF) for _ in range(50)]
            for s in deaf:
                fill(s)
            # a reader that does read, of a server that sends for ever
            with f.connect(FLOODS) as fast:
                got = 0
                while got < 50_000_000:
                    got += len(fast.recv(1 << 20))
                for _ in range(20):
                    good.sendall(b"b")
                    assert good.recv(1) == b"b"
                assert ask(f.connect(COUNTS), b"c" * 1_000_000) == b"1000000"
                with x.client() as c:
                    assert c.call("ping")["state"] == "running"
            assert f.rss() - before < 2048, (before, f.rss())
            for s in floods + deaf:
                s.close()


@b.deadline(120)
def test_D13_connections_are_bounded_and_the_next_one_waits():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with Box() as x:
        serve(x)
        with Forward(x.id, f"0:{ECHOES}") as f:
            conns = []
            before = f.rss()
            for i in range(MOST):
                s = f.connect(ECHOES)
                s.sendall(b"%04d" % i)
                conns.append(s)
            for i, s in enumerate(conns):
                assert s.recv(4) == b"%04d" % i
            assert f.rss() - before < 2048, (before, f.rss())
            late = f.connect(ECHOES)
            late.sendall(b"late")
            late.setblocking(False)
            for i, s in enumerate(conns[:100]):
                s.sendall(b"%04d" % i)
                assert s.recv(4) == b"%04d" % i
            try:
                raise AssertionError(late.recv(4))
            except BlockingIOError:
                pass
            late.setblocking(True)
            conns.pop().close()
            assert late.recv(4) == b"late"
            late.close()
            for s in conns:
                s.close()
            b.wait_for(lambda: f.sockets() < 10, 30, "the end of the connections")
            assert ask(f.connect(ECHOES), b"again") == b"again"


def test_a_server_that_takes_no_connection_does_not_hold_up_the_keeper():
    """Its queue is full, so connect(2) would wait: the keeper does not, and others are served."""
    listen = ("import socket, time\ns = socket.socket(); s.bind(('127.0.0.1', 9000)); s.listen(0)\nprint('up', flush=True)\n"
              "time.sleep(1000)")
    with Box() as x:
        serve(x)
        c = x.main.detach("python3", "-c", listen)
        b.wait_for(lambda: x.main.output(c)[0] == b"up\n", 20, "the server")
        with Forward(x.id, "0:9000", f"0:{ECHOES}") as f:
            stuck = [f.connect(9000) for _ in range(40)]
            assert ask(f.connect(ECHOES), b"me") == b"me"
            assert x.main.call("ping")["state"] == "running"
            for s in stuck:
                s.close()
