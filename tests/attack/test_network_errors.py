# SPDX-License-Identifier: Apache-2.0
"""
ICMP errors that a sandbox with --network bridge makes up.  The kernel calls each related to the connection of the packet
quoted in it; a sandbox may tell of its own connections only (S20, S21).
"""
import contextlib
import errno
import socket
import struct

import berthtest as b
import netlab
from box import Box
from netlab import BRIDGE, HOST, HOST6, OUTSIDE, OUTSIDE6, Lab, need_bridge
from test_network_bridge import FRAMES, GATEWAY, RAW, addresses, checksum, frame, ipv4, mac_of

INSIDE, INSIDE_GATE = "192.168.200.2", "192.168.200.1"  # of the lab: a client that no sandbox may reach


def unreachable(src, dst, inner):
    """From src to dst: the port that the packet inner went to is not open."""
    body = struct.pack("!BBHI", 3, 3, 0, 0) + inner
    return ipv4(src, dst, 1, body[:2] + checksum(body) + body[4:])


def datagram(src, sport, dst, dport):
    return ipv4(src, dst, 17, struct.pack("!HHHH", sport, dport, 8, 0))


def ipv6(src, dst, proto, payload):
    return struct.pack("!IHBB", 6 << 28, len(payload), proto, 64) + socket.inet_pton(socket.AF_INET6, src) + \
        socket.inet_pton(socket.AF_INET6, dst) + payload


def unreachable6(src, dst, inner):
    body = struct.pack("!BBHI", 1, 4, 0, 0) + inner
    pseudo = ipv6(src, dst, 58, body)[8:40] + struct.pack("!II", len(body), 58) + body
    return ipv6(src, dst, 58, body[:2] + checksum(pseudo) + body[4:])


def datagram6(src, sport, dst, dport):
    return ipv6(src, dst, 17, struct.pack("!HHHH", sport, dport, 8, 0))


def udp_socket(ns, own, peer=None):
    with netlab.within(ns):
        s = socket.socket(socket.AF_INET6 if ":" in own[0] else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(20 * b.SLOW)
    s.bind(own)
    if peer:
        s.connect(peer)
        s.send(b"x")
    return s


ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 80))
s.sendto(b"x", (sys.argv[1], 7778))
while True: s.sendto(*s.recvfrom(100))
"""


def test_S20_icmp_errors_of_the_connections_of_others():
    need_bridge()
    with Lab(forwarding=True) as lab, Box("--name", "victim", "--publish", "0.0.0.0:8080:80/udp", *BRIDGE) as victim, \
            Box("--name", "liar", "--publish", "0.0.0.0:8081:81/udp", *BRIDGE, *RAW) as liar, contextlib.ExitStack() as ends:
        own, other = addresses("liar", "victim")
        own6 = "fd62:6572:7468::" + own.rsplit(".", 1)[1]

        def end(*args):
            return ends.enter_context(udp_socket(*args))

        # what the victim and the host have open, as seen from the other end, which must hear nothing of the liar
        server = end(lab.outside, (OUTSIDE, 7778))
        victim.main.detach("python3", "-c", ECHO, OUTSIDE)
        _, peer = server.recvfrom(10)
        server.connect(peer)
        client = end(lab.inside, (INSIDE, 40001), (INSIDE_GATE, 8080))
        assert client.recv(10) == b"x", "the victim answers"
        ears = [end(lab.outside, (OUTSIDE, 7777)), end(lab.outside, (OUTSIDE6, 7777))]
        others = {"the server that the victim asked": server, "the victim's client": client,
                  "the host": end(lab.host, (HOST, 40000), (OUTSIDE, 7777)),
                  "the host by IPv6": end(lab.host, (HOST6, 40000), (OUTSIDE6, 7777))}
        for ear in ears:
            ear.recv(10)
        gate, mine = mac_of(GATEWAY), mac_of(own)
        packets = [unreachable(own, HOST, datagram(HOST, 40000, OUTSIDE, 7777)),
                   unreachable(own, INSIDE, datagram(INSIDE, 40001, other, 80)),
                   unreachable(own, OUTSIDE, datagram(OUTSIDE, 7778, other, 80))]
        frames = [frame(gate, mine, p) for p in packets]
        frames.append(frame(gate, mine, unreachable6(own6, HOST6, datagram6(HOST6, 40000, OUTSIDE6, 7777)), kind=0x86dd))
        liar.exec("python3", "-c", FRAMES, input="\n".join(f.hex() for f in frames), ok=True)
        # of its own it may tell: nobody listens on its port.  This came last, so what else came is here.
        told = end(lab.inside, (INSIDE, 40002), (INSIDE_GATE, 8081))
        try:
            told.recv(10)
        except ConnectionRefusedError:
            pass
        else:
            raise AssertionError("the error of a connection of its own did not arrive")
        heard = [who for who, s in others.items() if s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED]
        assert not heard, f"believed the liar: {heard}"
        client.send(b"again")
        assert client.recv(10) == b"again", "and the victim's client goes on"
