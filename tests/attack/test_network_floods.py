# SPDX-License-Identifier: Apache-2.0
"""
Floods of UDP: to the host's own ports, from a default sandbox, by both families; through a published port, from either side.

Attacks S20 and S29 of SECURITY.md.
"""
import contextlib
import socket

import berthtest as b
from box import Box
from netlab import BRIDGE, HOST, HOST6, OUTSIDE, OUTSIDE6, Lab, need_bridge

COST = 15
GATEWAY, GATEWAY6 = "10.203.0.1", "fd62:6572:7468::1"

# One socket, many ports: what gets through is a flow each.
FLOOD = """
import socket, sys
for host in sys.argv[2:]:
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    for i in range(int(sys.argv[1])):
        try:
            s.sendto(b"x" * 64, (host, 1 + i % 65535))
        except OSError:
            pass
"""


def tracked():
    with open("/proc/sys/net/netfilter/nf_conntrack_count") as f:
        return int(f.read())


def share():
    with open("/proc/sys/net/netfilter/nf_conntrack_max") as f:
        return min(4096, int(f.read()) // 16)


@b.deadline(120)
def test_D12_a_flood_to_the_hosts_own_ports_is_heard_by_none_and_takes_no_room():
    need_bridge()
    with Lab(forwarding=True) as lab, Box("--name", "flood", *BRIDGE) as x:
        ears = []
        for family, host in ((socket.AF_INET, HOST), (socket.AF_INET, GATEWAY), (socket.AF_INET6, HOST6), (socket.AF_INET6, GATEWAY6)):
            for port in (53, 123, 5353, 11211):
                s = socket.socket(family, socket.SOCK_DGRAM)
                s.bind((host, port))
                s.setblocking(False)
                ears.append(s)
        before = tracked()
        x.exec("python3", "-c", FLOOD, "15000", HOST, GATEWAY, HOST6, GATEWAY6, ok=True, timeout=60)
        assert tracked() - before < 100, tracked() - before
        for s in ears:
            with contextlib.suppress(BlockingIOError):
                raise AssertionError(f"{s.getsockname()} heard {s.recv(100)}")
            s.close()
        # its own way out is as before
        assert x.exec("curl", "-s", "-m", "20", f"http://{OUTSIDE}/", ok=True).out
        lab.untouched()


@b.deadline(120)
def test_D12_flows_of_both_families_have_one_share():
    need_bridge()
    with Lab(forwarding=True), Box("--name", "flood", *BRIDGE) as x:
        before = tracked()
        x.exec("python3", "-c", FLOOD, "12000", OUTSIDE, OUTSIDE6, OUTSIDE, OUTSIDE6, ok=True, timeout=60)
        assert tracked() - before <= share() * 1.1, (tracked() - before, share())


ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 7000))
open("/tmp/ready", "w").close()
while True:
    data, peer = s.recvfrom(2000)
    if data == b"flood":
        for _ in range(20000):
            try:
                s.sendto(b"y" * 1000, peer)
            except OSError:
                pass
    s.sendto(data, peer)
"""


@b.deadline(120)
def test_D12_a_published_port_survives_a_flood_from_either_side():
    """Many senders at once on the host, then the sandbox answers one of them 20,000 times."""
    need_bridge()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Lab(forwarding=True), Box("--name", "served", *BRIDGE, "--publish", f"127.0.0.1:{port}:7000/udp") as x:
        x.main.detach("python3", "-c", ECHO)
        b.wait_for(lambda: x.exec("test", "-e", "/tmp/ready").code == 0, 20, "the server")

        def answers(data):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.settimeout(0.5)
                s.connect(("127.0.0.1", port))
                for _ in range(60):     # datagrams may be lost
                    s.send(data)
                    with contextlib.suppress(TimeoutError, ConnectionRefusedError):
                        if s.recv(2000) == data:
                            return True
            return False
        assert answers(b"first")
        before, socks = tracked(), []
        for i in range(300):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.connect(("127.0.0.1", port))
            for _ in range(20):
                s.send(b"x" * 500)
            socks.append(s)
        assert answers(b"second"), "nobody is served after many"
        for s in socks:
            s.close()
        # each of its 64 places is a flow of the host's to the sandbox; what made room goes on being tracked for a while
        assert tracked() - before < 1000, tracked() - before
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(("127.0.0.1", port))
            s.send(b"flood")
            assert answers(b"third"), "nobody is served after a flood of answers"
