# SPDX-License-Identifier: Apache-2.0
"""
IPv6 on a bridge, by frames that a sandbox makes itself (it has NET_RAW and NET_ADMIN here, more than any default): in the
name of others, by neighbour discovery and router advertisements, around the rules by extension headers, fragments and
tunnels, and in a sandbox that was given no IPv6 at all.

Attacks S20, S21 and S29 of SECURITY.md.
"""
import contextlib
import json
import socket
import struct
import subprocess

import berthtest as b
import netlab
from box import Box
from netlab import BRIDGE, HOST, HOST6, INSIDE6, OUTSIDE, OUTSIDE6, Lab, need_bridge

COST = 20
GATEWAY, GATEWAY6 = "10.203.0.1", "fd62:6572:7468::1"
RAW = ("--cap-add", "NET_RAW", "--cap-add", "NET_ADMIN", "--seccomp", "unconfined")
ALL_NODES, ALL_ROUTERS = "ff02::1", "ff02::2"
ICMP6, UDP, HOP, ROUTING, FRAGMENT, OPTIONS, IN4, IN6 = 58, 17, 0, 43, 44, 60, 4, 41

# Frames as they are given, in hex, from eth0.
FRAMES = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
for line in sys.stdin:
    s.send(bytes.fromhex(line))
"""


def raw(address):
    return socket.inet_pton(socket.AF_INET6, address)


def mac_of(address4):
    return bytes.fromhex("0262") + socket.inet_aton(address4)


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)


def pseudo(src, dst, proto, payload):
    return raw(src) + raw(dst) + struct.pack("!II", len(payload), proto) + payload


def udp(src, dst, port, payload):
    head = struct.pack("!HHHH", 999, port, 8 + len(payload), 0)
    return head[:6] + checksum(pseudo(src, dst, UDP, head + payload)) + payload


def icmp6(src, dst, kind, body):
    head = struct.pack("!BBH", kind, 0, 0)
    return head[:2] + checksum(pseudo(src, dst, ICMP6, head + body)) + body


def ipv6(src, dst, proto, payload, hops=255):
    return struct.pack("!IHBB", 6 << 28, len(payload), proto, hops) + raw(src) + raw(dst) + payload


def pad(next_header, options=b""):
    """A header of options: hop-by-hop or destination."""
    options += b"\1\4\0\0\0\0" if not options else b""
    return struct.pack("!BB", next_header, (len(options) + 2) // 8 - 1) + options


def route_header(next_header, kind, left, *hops):
    return struct.pack("!BBBBI", next_header, 2 * len(hops), kind, left, 0) + b"".join(raw(h) for h in hops)


def segment_header(next_header, *hops):
    return (struct.pack("!BBBBBBH", next_header, 2 * len(hops), 4, len(hops) - 1, len(hops) - 1, 0, 0)
            + b"".join(raw(h) for h in hops))


def fragment(next_header, offset, more, payload, number=7):
    return struct.pack("!BBHI", next_header, 0, offset | more, number) + payload


def frame(dst_mac, src_mac, packet, kind=0x86dd, vlan=None):
    tag = b"" if vlan is None else struct.pack("!HH", 0x8100, vlan)
    return dst_mac + src_mac + tag + struct.pack("!H", kind) + packet


def multicast_mac(address):
    return b"\x33\x33" + raw(address)[12:]


class Ears:
    """What the host hears by UDP over IPv6, on any of its addresses and in the groups of everybody."""

    def __init__(self, *ports):
        self.socks = []
        for port in ports:
            s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.bind(("::", port))
            for group in (ALL_NODES, "ff02::fb"):
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, raw(group) + struct.pack("@I", socket.if_nametoindex("berth0")))
            s.setblocking(False)
            self.socks.append(s)

    def heard(self):
        got = []
        for s in self.socks:
            with contextlib.suppress(BlockingIOError):
                while True:
                    got.append(s.recvfrom(2000))
            s.close()
        return got


def at(name):
    net = json.loads(b.berth("network", "inspect", name, ok=True).out)
    return net["address"], net.get("address6")


def facts():
    """What a sandbox could make the host believe: neighbours, routes and addresses of the bridge, and of what leads out."""
    def of(*args):
        return subprocess.run(["ip", "-6", *args], stdout=subprocess.PIPE, text=True, check=True).stdout
    # an address of the lab's own has its route when no other host has answered for it
    b.wait_for(lambda: "tentative" not in of("addr", "show"), 20, "the end of the detection of duplicate addresses")
    return {"routes": of("route", "show", "table", "all"), "addresses": of("addr", "show", "scope", "global"),
            "neighbours": of("neigh", "show", "dev", "berth0")}


def listen_in(victim):
    victim.main.detach("python3", "-c", "import socket\ns = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\ns.bind(('::', 9999))\n"
                       "open('/tmp/ready', 'w').close()\nwhile True: open('/tmp/got', 'ab').write(s.recv(100) + b'\\n')")
    b.wait_for(lambda: victim.exec("test", "-e", "/tmp/ready").code == 0, 10, "the neighbour's ear")


def send(box, frames):
    box.exec("python3", "-c", FRAMES, input="\n".join(f.hex() for f in frames), ok=True)


def sink_at(lab, port=9999):
    with netlab.within(lab.outside):
        sink = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sink.bind((OUTSIDE6, port))
    sink.settimeout(20 * b.SLOW)
    return sink


@b.deadline(90)
def test_S20_no_spoofed_source_of_ipv6():
    """Others' addresses, made-up ones, none, link-local ones, in plain and behind extension headers and fragments."""
    need_bridge()
    with Lab(forwarding=True) as lab, Box("--name", "victim", *BRIDGE) as victim, Box("--name", "liar", *BRIDGE, *RAW) as liar:
        (own4, own), (other4, other) = at("liar"), at("victim")
        mine, gate, theirs = mac_of(own4), mac_of(GATEWAY), mac_of(other4)
        sink, frames, packets = sink_at(lab), [], []
        for src in (other, GATEWAY6, HOST6, OUTSIDE6, "2606:4700::99", "fe80::62", "fe80::1", "::", "::1", "::ffff:1.2.3.4", "ff02::1",
                    "fd62:6572:7468::ffff"):
            u = udp(src, OUTSIDE6, 9999, b"spoofed")
            packets += [ipv6(src, OUTSIDE6, UDP, u), ipv6(src, OUTSIDE6, HOP, pad(UDP) + u), ipv6(src, OUTSIDE6, OPTIONS, pad(UDP) + u),
                        ipv6(src, OUTSIDE6, FRAGMENT, fragment(UDP, 0, 0, u)),
                        # a first part in its own name, of which the second is another's
                        ipv6(own, OUTSIDE6, FRAGMENT, fragment(UDP, 0, 1, u[:8], 9)), ipv6(src, OUTSIDE6, FRAGMENT, fragment(UDP, 8, 0, u[8:], 9)),
                        # home address: what the packet says that its source is
                        ipv6(own, OUTSIDE6, OPTIONS, pad(UDP, b"\1\2\0\0" + b"\xc9\x10" + raw(src)) + u)]
        for dst_mac in (gate, theirs, multicast_mac(ALL_NODES)):
            for vlan in (None, 0, 5):
                frames += [frame(dst_mac, mine, p, vlan=vlan) for p in packets]
        frames += [frame(gate, theirs, ipv6(other, OUTSIDE6, UDP, udp(other, OUTSIDE6, 9999, b"both"))),
                   frame(gate, gate, ipv6(GATEWAY6, OUTSIDE6, UDP, udp(GATEWAY6, OUTSIDE6, 9999, b"gate"))),
                   frame(gate, mine, ipv6(own, OUTSIDE6, UDP, udp(own, OUTSIDE6, 9999, b"true!")))]
        send(liar, frames)
        data, peer = sink.recvfrom(100)
        sink.close()
        assert data == b"true!" and peer[0] == HOST6, f"a packet in another's name got out: {data} of {peer}"
        assert victim.exec("curl", "-s", "-m", "20", f"http://[{OUTSIDE6}]/", ok=True).out
        lab.untouched()


@b.deadline(90)
def test_S20_neighbour_discovery_and_routers_are_not_believed():
    """Advertisements of routers, prefixes, DNS servers and of others' addresses; solicitations, redirects; to the host and to a neighbour."""
    need_bridge()
    with Lab(forwarding=True) as lab, Box("--name", "victim", *BRIDGE) as victim, Box("--name", "liar", *BRIDGE, *RAW) as liar:
        (own4, own), (other4, other) = at("liar"), at("victim")
        mine, gate, theirs = mac_of(own4), mac_of(GATEWAY), mac_of(other4)
        before, inside = facts(), victim.exec("sh", "-c", "ip -6 route; ip -6 neigh; ip -6 addr", ok=True).out
        source, target = b"\1\1" + mine, b"\2\1" + mine
        prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xe0, 9999, 9999, 0) + raw("2606:4700:bad::")
        advert = struct.pack("!BBHII", 64, 0x40, 9999, 0, 0) + source + prefix + struct.pack("!BBHI", 25, 3, 0, 9999) + raw(own)
        frames = []
        for src in (own, "fe80::62", "fe80::1", GATEWAY6, other, "::"):
            for dst, mac in ((ALL_NODES, multicast_mac(ALL_NODES)), (ALL_ROUTERS, multicast_mac(ALL_ROUTERS)), (GATEWAY6, gate), (HOST6, gate),
                             (other, theirs), (other, gate)):
                bodies = [(134, advert), (133, struct.pack("!I", 0) + source)]
                for a in (other, GATEWAY6, OUTSIDE6, HOST6, own, "fd62:6572:7468::77"):
                    bodies += [(136, struct.pack("!I", 0xe0000000) + raw(a) + target), (135, struct.pack("!I", 0) + raw(a) + source),
                               (137, struct.pack("!I", 0) + raw(own) + raw(a) + target)]
                # and many sources, for room in the host's table of neighbours
                frames += [frame(mac, mine, ipv6(src, dst, ICMP6, icmp6(src, dst, kind, body))) for kind, body in bodies]
        for i in range(300):
            src = f"fd62:6572:7468::{i + 0x100:x}"
            frames.append(frame(gate, mine, ipv6(src, GATEWAY6, ICMP6, icmp6(src, GATEWAY6, 135, struct.pack("!I", 0) + raw(GATEWAY6) + source))))
            arp = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mine + socket.inet_aton(f"10.203.9.{i % 250 + 2}") + b"\0" * 6
            frames.append(frame(b"\xff" * 6, mine, arp + socket.inet_aton(GATEWAY), kind=0x0806))
        sink = sink_at(lab)
        frames.append(frame(gate, mine, ipv6(own, OUTSIDE6, UDP, udp(own, OUTSIDE6, 9999, b"end"))))
        send(liar, frames)
        assert sink.recv(100) == b"end"
        sink.close()
        after = facts()
        for what in before:
            assert after[what] == before[what], f"{what} of the host:\n{before[what]}\nare now:\n{after[what]}"
        arp = subprocess.run(["ip", "-4", "neigh", "show", "dev", "berth0"], stdout=subprocess.PIPE, text=True, check=True).stdout
        assert all("PERMANENT" in line for line in arp.splitlines()), arp
        now = victim.exec("sh", "-c", "ip -6 route; ip -6 neigh; ip -6 addr", ok=True).out
        assert now == inside, f"a neighbour's:\n{inside}\nare now:\n{now}"
        assert victim.exec("curl", "-s", "-m", "20", f"http://[{OUTSIDE6}]/", ok=True).out
        lab.untouched()


@b.deadline(90)
def test_S20_extension_headers_fragments_and_tunnels_lead_nowhere_else():
    """To the host's ports, its groups, a neighbour and private addresses; by way of an address that is allowed."""
    need_bridge()
    with Lab(forwarding=True) as lab, Box("--name", "victim", *BRIDGE) as victim, Box("--name", "liar", *BRIDGE, *RAW) as liar:
        (own4, own), (other4, other) = at("liar"), at("victim")
        mine, gate, theirs = mac_of(own4), mac_of(GATEWAY), mac_of(other4)
        listen_in(victim)
        ears, sink, frames = Ears(9999, 53, 5353, 546, 500), sink_at(lab), []
        places = [(GATEWAY6, gate), (HOST6, gate), (ALL_NODES, multicast_mac(ALL_NODES)), ("ff02::fb", multicast_mac("ff02::fb")),
                  (other, theirs), (other, gate), ("fe80::1", gate), ("::1", gate), (INSIDE6[0], gate), ("ff05::2", gate), ("ff0e::1", gate)]
        for dst, mac in places:
            for port in (9999, 53, 5353, 546, 500):
                u = udp(own, dst, port, b"no")
                frames += [frame(mac, mine, p) for p in (
                    ipv6(own, dst, UDP, u), ipv6(own, dst, HOP, pad(UDP) + u), ipv6(own, dst, OPTIONS, pad(UDP) + u),
                    ipv6(own, dst, HOP, pad(OPTIONS) + pad(OPTIONS) + pad(UDP) + u),
                    ipv6(own, dst, FRAGMENT, fragment(UDP, 0, 0, u)),
                    ipv6(own, dst, FRAGMENT, fragment(UDP, 0, 1, u[:8], port)), ipv6(own, dst, FRAGMENT, fragment(UDP, 8, 0, u[8:], port)),
                    # the header of UDP in the second part
                    ipv6(own, dst, FRAGMENT, fragment(OPTIONS, 0, 1, pad(UDP), port + 1)),
                    ipv6(own, dst, FRAGMENT, fragment(OPTIONS, 8, 0, u, port + 1)))]
                if dst.startswith("ff"):
                    continue
                # an address that is allowed comes first, and what is not stands in a header of routes
                u = udp(own, dst, port, b"no")
                frames += [frame(gate, mine, ipv6(own, OUTSIDE6, ROUTING, route_header(UDP, 0, 1, dst) + u)),
                           frame(gate, mine, ipv6(own, GATEWAY6, ROUTING, route_header(UDP, 0, 1, dst) + u)),
                           frame(gate, mine, ipv6(own, HOST6, ROUTING, route_header(UDP, 2, 1, dst) + u)),
                           frame(gate, mine, ipv6(own, HOST6, ROUTING, segment_header(UDP, dst, HOST6) + u)),
                           frame(gate, mine, ipv6(own, GATEWAY6, ROUTING, segment_header(UDP, dst, GATEWAY6) + u))]
                # within another packet
                inner = ipv6(own, dst, UDP, u)
                frames += [frame(gate, mine, ipv6(own, d, IN6, inner)) for d in (GATEWAY6, HOST6)]
        sink.settimeout(20 * b.SLOW)
        frames.append(frame(gate, mine, ipv6(own, OUTSIDE6, UDP, udp(own, OUTSIDE6, 9999, b"true!"))))
        send(liar, frames)
        assert sink.recv(100) == b"true!"
        sink.close()
        heard = ears.heard()
        assert not heard, f"the host heard {heard}"
        assert victim.exec("test", "-s", "/tmp/got").code != 0, "the neighbour heard: " + victim.exec("cat", "/tmp/got").out
        lab.untouched()


@b.deadline(60)
def test_S21_fragments_do_not_change_the_port_of_a_question():
    """A DNS server of the host's: what overlaps the header that was judged is thrown away, not put over it."""
    need_bridge()
    server = f"{HOST}:5353"
    with Lab(forwarding=True) as lab, Box("--name", "liar", "--network", "bridge", "--dns", server, *RAW) as liar:
        own4, own = at("liar")
        mine, gate = mac_of(own4), mac_of(GATEWAY)
        ears = []
        for port in (5353, 9999):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.bind((HOST, port))
            s.settimeout(20 * b.SLOW)
            ears.append(s)

        def ipv4(proto, payload, number, offset=0, more=0):
            head = (struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), number, more << 13 | offset // 8, 64, proto, 0)
                    + socket.inet_aton(own4) + socket.inet_aton(HOST))
            return head[:10] + checksum(head) + head[12:] + payload
        frames = []
        for number, (good, bad) in enumerate(((5353, 9999), (9999, 5353)), 1):
            one, two = (struct.pack("!HHHH", 999, p, 24, 0) for p in (good, bad))
            frames += [ipv4(UDP, one + b"x" * 8, number * 10, 0, 1), ipv4(UDP, two, number * 10, 0, 1), ipv4(UDP, b"y" * 8, number * 10, 16, 0)]
            frames += [ipv4(UDP, b"y" * 8, number * 10 + 1, 16, 0), ipv4(UDP, two, number * 10 + 1, 0, 1), ipv4(UDP, one + b"x" * 8, number * 10 + 1, 0, 1)]
        # other protocols, tunnels among them, whose first bytes look like that port
        others = []
        for proto in (4, 33, 41, 47, 50, 132, 136, 254):
            frames.append(ipv4(proto, struct.pack("!HH", 999, 5353) + b"z" * 40, 100 + proto))
            others.append(socket.socket(socket.AF_INET, socket.SOCK_RAW, proto))
            others[-1].bind((HOST, 0))
            others[-1].setblocking(False)
        frames.append(ipv4(UDP, struct.pack("!HHHH", 999, 5353, 12, 0) + b"true", 99))
        send(liar, [frame(gate, mine, f, kind=0x0800) for f in frames])
        data = b""
        while data != b"true":
            data = ears[0].recv(100)
        ears[1].setblocking(False)
        with contextlib.suppress(BlockingIOError):
            raise AssertionError(f"the host heard {ears[1].recv(100)} on another port")
        for s in others:
            with contextlib.suppress(BlockingIOError):
                raise AssertionError(f"protocol {s.proto} reached the host: {s.recv(100)}")
        for s in ears + others:
            s.close()
        lab.untouched()


# As its root: addresses, routes and neighbours of its own making, then frames from stdin; each line is a way that led out.
SELF_MADE = """
import socket, subprocess, sys
own, mac, places = sys.argv[1], sys.argv[2], sys.argv[3:]
def sh(line):
    subprocess.run(line, shell=True, stderr=subprocess.DEVNULL)
sh("echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/eth0/accept_ra")
for address in ("fe80::5", "2606:4700::55", "fd62:6572:7468::55", own):
    sh(f"ip -6 addr add {address}/64 dev eth0 nodad; ip -6 neigh replace fe80::1 lladdr {mac} dev eth0; "
       "ip -6 route replace default via fe80::1 dev eth0")
    for place in places:
        s = socket.socket(socket.AF_INET6)
        s.settimeout(1)
        try:
            s.bind((address, 0))
            s.connect((place, 80))
            print(address, place)
        except OSError:
            pass
""" + FRAMES.replace("import socket, sys", "")


@b.deadline(90)
def test_S20_a_sandbox_that_was_given_no_ipv6_has_none():
    """It gives itself an address, a route and neighbours, of the bridge's prefix or another, and sends by them."""
    need_bridge()
    with Lab(forwarding=True) as lab:
        sink = sink_at(lab)
        gate, mine, own = mac_of(GATEWAY), mac_of("10.203.0.2"), "fd62:6572:7468::2"
        sources = ("2606:4700::55", "fe80::5", own, HOST6, "::")
        frames = [frame(gate, mine, ipv6(s, OUTSIDE6, UDP, udp(s, OUTSIDE6, 9999, b"no"))) for s in sources]
        # as on a kernel that was booted with ipv6.disable=1, where berth gives no address
        hide = ["strace", "-f", "-qq", "-o", b.tmp("trace"), "-P", "/proc/sys/net/ipv6", "-e", "trace=access,faccessat,faccessat2",
                "-e", "inject=access,faccessat,faccessat2:error=ENOENT"]
        r = b.run(*BRIDGE, *RAW, "host", "python3", "-c", SELF_MADE, own, ":".join(f"{x:02x}" for x in gate), OUTSIDE6, HOST6, GATEWAY6,
                  input="\n".join(f.hex() for f in frames), prefix=hide, ok=True, timeout=60)
        with open(b.tmp("trace")) as f:
            assert "INJECTED" in f.read()
        b.expect(r.out == "", r, "a connection by IPv6")
        # what berth gave to IPv4 is there
        b.run(*BRIDGE, "host", "curl", "-s", "-m", "20", f"http://{OUTSIDE}/", ok=True, prefix=hide)
        sink.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            raise AssertionError(f"got out: {sink.recv(100)}")
        sink.close()
        assert not lab.web6.seen
        lab.untouched()


@b.deadline(90)
def test_D12_fragments_do_not_use_up_the_hosts_room_to_put_packets_together():
    """First parts of packets of which the rest never comes; the kernel has 4 MiB for them in each family, and keeps them for 30 s or 60."""
    need_bridge()
    with Lab(forwarding=True) as lab, Box("--name", "liar", *BRIDGE, *RAW) as liar:
        own4, own = at("liar")
        mine, gate = mac_of(own4), mac_of(GATEWAY)
        frames, part = [], struct.pack("!HHHH", 999, 9999, 4000, 0) + b"x" * 1400
        for i in range(4000):
            head = (struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(part), i, 1 << 13, 64, UDP, 0)
                    + socket.inet_aton(own4) + socket.inet_aton(OUTSIDE))
            frames.append(frame(gate, mine, head[:10] + checksum(head) + head[12:] + part, kind=0x0800))
            body = fragment(UDP, 0, 1, part, i)
            # also behind another header
            frames.append(frame(gate, mine, ipv6(own, OUTSIDE6, OPTIONS, pad(FRAGMENT) + body) if i % 2 else
                                ipv6(own, OUTSIDE6, FRAGMENT, body)))
        send(liar, frames)
        for family, host, peer in ((socket.AF_INET, HOST, OUTSIDE), (socket.AF_INET6, HOST6, OUTSIDE6)):
            with netlab.within(lab.outside):
                source = socket.socket(family, socket.SOCK_DGRAM)
            ear = socket.socket(family, socket.SOCK_DGRAM)
            ear.bind((host, 7777))
            ear.settimeout(5)
            source.bind((peer, 0))
            source.sendto(b"y" * 4000, (host, 7777))
            try:
                assert ear.recv(5000) == b"y" * 4000
            except TimeoutError:
                raise AssertionError(f"the host puts no packet of others together: {host}") from None
            finally:
                source.close()
                ear.close()
        # a large datagram of a sandbox gets through all the same
        sink = sink_at(lab)
        liar.main.detach("python3", "-c", "import socket, time\ns = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
                         f"while True: s.sendto(b'z' * 4000, ('{OUTSIDE6}', 9999)); time.sleep(2)")
        assert sink.recv(5000) == b"z" * 4000
        sink.close()
        lab.untouched()
