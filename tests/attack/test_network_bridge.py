# SPDX-License-Identifier: Apache-2.0
"""
What a sandbox with --network bridge must not reach, and in whose name it must not speak (K20, S20, S21), and what it must
not use up (S29).
"""
import contextlib
import itertools
import json
import socket
import struct
import subprocess
import threading
import time

import berthtest as b
import netlab
from box import Box
from netlab import BRIDGE, DNS, HOST, HOST6, INSIDE, INSIDE6, METADATA, OUTSIDE, OUTSIDE6, Lab, need_bridge, tries

COST = 20
GATEWAY, GATEWAY6 = "10.203.0.1", "fd62:6572:7468::1"


def test_K20_by_address_name_and_redirect():
    need_bridge()

    def away(path, headers):
        return (302, {"Location": f"http://{METADATA}/"}, b"") if path == "/meta" else (200, {}, b"end")

    turn = itertools.count()
    names = {f"n{i}.test": [a] for i, a in enumerate(INSIDE + INSIDE6 + (HOST, HOST6, GATEWAY, GATEWAY6))}
    names["flip.test"] = lambda kind: [OUTSIDE] if next(turn) % 2 == 0 else [METADATA]
    with Lab(names=names, answer=away, forwarding=True) as lab:
        b.run(*BRIDGE, "--allow-net", "10.0.0.0/8", "--allow-net", "10.9.9.0/24", "--allow-net", "10.0.0.0/8", "--dns", DNS, "host", "true", ok=True)
        lab.forbidden += [lab.add(None, lab.host, a, 80) for a in (GATEWAY, GATEWAY6)]
        addresses = list(INSIDE + INSIDE6) + [HOST, HOST6, GATEWAY, GATEWAY6, "127.0.0.1", "::1", "::ffff:" + METADATA, "::ffff:" + HOST,
                                              "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"]
        got = tries((), [("direct", a, 80) for a in addresses + list(names)] + [("direct", h, 80) for h in ("outside.test", OUTSIDE6)],
                    base=BRIDGE, timeout=120)
        for (how, host, port), (status, text) in got.items():
            assert status == 200 if host in ("outside.test", OUTSIDE6) else status == 0 or host == "flip.test", (host, status, text)
        r = b.run(*BRIDGE, "host", "curl", "-sL", "-m", "3", "http://outside.test/meta")
        assert r.code in (7, 28), b.describe(r)
        # what is not TCP: pings, and every other port of the host
        r = b.run(*BRIDGE, "host", "python3", "-c", UDP, HOST, GATEWAY, METADATA, ok=True)
        assert r.out == "silent\n" * 3, b.describe(r)
        lab.untouched()


UDP = """
import socket, sys
for host in sys.argv[1:]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(0.5)
    s.connect((host, 53))
    try:
        s.send(b"x")
        s.recv(10)
        print("answered")
    except OSError:
        print("silent")
"""

# Raw frames from eth0, in a name given: an ARP reply that claims an address, then a UDP packet to the outside.
SPOOF = """
import socket, struct, sys
src_mac, src_ip, gw_mac, dst_ip = bytes.fromhex(sys.argv[1]), socket.inet_aton(sys.argv[2]), bytes.fromhex(sys.argv[3]), socket.inet_aton(sys.argv[4])
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
arp = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + src_mac + src_ip + gw_mac + socket.inet_aton("10.203.0.1")
for dst in (gw_mac, b"\\xff" * 6):
    s.send(dst + src_mac + b"\\x08\\x06" + arp)
def ip(payload):
    head = bytearray(struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, 17, 0) + src_ip + dst_ip)
    total = sum(struct.unpack("!10H", head))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    head[10:12] = struct.pack("!H", ~total & 0xffff)
    return bytes(head) + payload
udp = struct.pack("!HHHH", 999, 9999, 8 + len(sys.argv[5]), 0) + sys.argv[5].encode()
for _ in range(3):
    s.send(gw_mac + src_mac + b"\\x08\\x00" + ip(udp))
"""


def mac_of(address):
    return "0262" + "".join(f"{int(x):02x}" for x in address.split("."))


def test_S20_no_spoofed_source():
    """With the capabilities for it, a sandbox sends in another's name: by address, by hardware address, by both."""
    need_bridge()
    raw = ("--cap-add", "NET_RAW", "--cap-add", "NET_ADMIN", "--seccomp", "unconfined")
    with Lab(forwarding=True) as lab, Box("--name", "victim", *BRIDGE) as victim, Box("--name", "liar", *BRIDGE, *raw) as liar:
        own, other = (json.loads(b.berth("network", "inspect", n, ok=True).out)["address"] for n in ("liar", "victim"))
        with netlab.within(lab.outside):
            sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sink.bind((OUTSIDE, 9999))
        sink.settimeout(5)

        def send(mac, address, text):
            liar.exec("python3", "-c", SPOOF, mac, address, mac_of(GATEWAY), OUTSIDE, text, ok=True)

        send(mac_of(own), other, "ip..")
        send(mac_of(other), other, "both")
        send(mac_of(other), own, "mac.")
        send("020000000001", own, "made")
        send(mac_of(own), "8.8.8.8", "out.")
        send(mac_of(GATEWAY), GATEWAY, "gate")
        send(mac_of(own), own, "true!")  # arrives, and so shows that the others were sent
        data, peer = sink.recvfrom(100)
        assert data == b"true!", f"a packet in another's name got out: {data}"
        assert victim.exec("curl", "-s", "-m", "20", "http://outside.test/", ok=True).out, "and the victim's traffic goes on"
        neighbours = subprocess.run(["ip", "neigh", "show", "dev", "berth0"], stdout=subprocess.PIPE, text=True).stdout
        for line in neighbours.splitlines():
            assert "PERMANENT" in line, f"learned from a sandbox: {line}"
            if ":" not in line.split()[0]:
                assert mac_of(line.split()[0]) in line.replace(":", ""), line
        # its own interface is its own to change; that leads nowhere
        liar.exec("sh", "-c", f"ip addr add {other}/32 dev eth0; ip link set eth0 address 02:62:{':'.join(f'{int(x):02x}' for x in other.split('.'))}; "
                  "ip neigh flush all; ip route add default dev eth0 metric 1", ok=None)
        r = liar.exec("curl", "-s", "-m", "2", "--interface", other, f"http://{OUTSIDE}/")
        assert r.code != 0, b.describe(r)
        sink.close()
        assert set(lab.web.peers) == {HOST}
        lab.untouched()


def test_S20_sandboxes_do_not_reach_each_other():
    need_bridge()
    with Lab(forwarding=True) as lab, Box("--name", "a", *BRIDGE) as x, Box("--name", "b", *BRIDGE, "--allow-net", "10.0.0.0/8",
                                                                           "--allow-net", "fd00::/8") as y:
        x.main.detach("python3", "-c", "import http.server, socket\nclass S(http.server.ThreadingHTTPServer):\n address_family = socket.AF_INET6\n"
                      "S(('::', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()")
        b.wait_for(lambda: x.exec("curl", "-s", "-o", "/dev/null", "http://127.0.0.1:8000/").code == 0, 10, "the server")
        net = json.loads(b.berth("network", "inspect", "a", ok=True).out)
        for host in (net["address"], f"[{net['address6']}]"):
            r = y.exec("curl", "-s", "-m", "2", f"http://{host}:8000/")
            assert r.code in (7, 28), "even with the range allowed: " + b.describe(r)
            # the host itself may
            assert subprocess.run(["curl", "-s", "-m", "20", "-o", "/dev/null", f"http://{host}:8000/"]).returncode == 0, host
        lab.untouched()


RAW = ("--cap-add", "NET_RAW", "--cap-add", "NET_ADMIN", "--seccomp", "unconfined")

# Frames as they are given, in hex, from eth0.
FRAMES = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
for line in sys.stdin:
    for _ in range(2):
        s.send(bytes.fromhex(line))
"""


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)


def ipv4(src, dst, proto, payload):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, proto, 0) + socket.inet_aton(src) + socket.inet_aton(dst)
    return head[:10] + checksum(head) + head[12:] + payload


def udp(port, payload):
    return struct.pack("!HHHH", 999, port, 8 + len(payload), 0) + payload


def frame(dst_mac, src_mac, packet, vlan=None, kind=0x0800):
    tag = b"" if vlan is None else struct.pack("!HH", 0x8100, vlan)
    return bytes.fromhex(dst_mac) + bytes.fromhex(src_mac) + tag + struct.pack("!H", kind) + packet


ECHO = struct.pack("!BBHHH", 8, 0, 0xf7fd, 1, 1)  # a ping


def addresses(*names):
    return [json.loads(b.berth("network", "inspect", n, ok=True).out)["address"] for n in names]


def test_S20_by_raw_frames():
    """To a neighbour, to the host, to everybody: by hardware address, broadcast, multicast, with VLAN tags, without a connection."""
    need_bridge()
    with Lab(forwarding=True) as lab, Box("--name", "victim", *BRIDGE) as victim, Box("--name", "liar", *BRIDGE, *RAW) as liar:
        own, other = addresses("liar", "victim")
        mine, theirs, gate = mac_of(own), mac_of(other), mac_of(GATEWAY)
        victim.main.detach("python3", "-c", "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 9999))\n"
                           "open('/tmp/ready', 'w').close()\nwhile True: open('/tmp/got', 'ab').write(s.recv(100) + b'\\n')")
        b.wait_for(lambda: victim.exec("test", "-e", "/tmp/ready").code == 0, 10, "the neighbour's ear")
        with netlab.within(lab.outside):
            sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            tap.bind(("out-p", 0))
        host = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        host.bind(("", 9999))
        sink.bind((OUTSIDE, 9999))
        sink.settimeout(20 * b.SLOW)
        frames = []
        for dst in (theirs, "ffffffffffff", "01005e000001", "333300000001", gate):
            for vlan in (None, 0, 5):
                for ip in (other, "255.255.255.255", "224.0.0.1", "10.203.255.255", GATEWAY, HOST, "127.0.0.1", "0.0.0.0"):
                    frames.append(frame(dst, mine, ipv4(own, ip, 17, udp(9999, b"no")), vlan))
                frames.append(frame(dst, mine, ipv4(other, OUTSIDE, 17, udp(9999, b"spoofed")), vlan))
        frames += [frame(gate, mine, ipv4(own, ip, 1, ECHO)) for ip in (GATEWAY, HOST, METADATA, other)]
        # to the outside, of no connection that anybody knows: NAT would leave the address as it is
        rst = struct.pack("!HHIIBBHHH", 999, 80, 7, 7, 0x50, 0x14, 100, 0, 0)
        pseudo = socket.inet_aton(own) + socket.inet_aton(OUTSIDE) + struct.pack("!BBH", 0, 6, len(rst))
        frames.append(frame(gate, mine, ipv4(own, OUTSIDE, 6, rst[:16] + checksum(pseudo + rst) + rst[18:])))
        frames.append(frame(gate, mine, ipv4(own, OUTSIDE, 17, udp(9999, b"true!"))))
        liar.exec("python3", "-c", FRAMES, input="\n".join(f.hex() for f in frames), ok=True)
        assert sink.recv(100) == b"true!", "what is its own arrives, and nothing before it"
        host.setblocking(False)
        try:
            raise AssertionError(f"the host heard {host.recv(100)}")
        except BlockingIOError:
            pass
        assert victim.exec("test", "-s", "/tmp/got").code != 0, "the neighbour heard: " + victim.exec("cat", "/tmp/got").out
        tap.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while data := tap.recv(2000):
                inner = data[26:30] if data[12:14] == b"\x08\x00" else b""
                assert not inner.startswith(bytes([10, 203])), f"left with an address of the bridge: {data.hex()}"
        for s in (sink, tap, host):
            s.close()
        lab.untouched()


@b.long_proof("waits for connections that must time out")
def test_K20_bridge_dns_and_the_rest_of_the_host():
    """Its DNS server it reaches, on that port; no port of the host, by TCP or UDP; no address that is everybody's."""
    need_bridge()
    with Lab(forwarding=True) as lab:
        b.run(*BRIDGE, "host", "true", ok=True)
        lab.forbidden += [lab.add(None, lab.host, a, p) for a in (GATEWAY, GATEWAY6, HOST, HOST6) for p in (53, 443, 8080)]
        ears = []
        for family, a in ((socket.AF_INET, GATEWAY), (socket.AF_INET6, GATEWAY6), (socket.AF_INET, HOST), (socket.AF_INET6, HOST6)):
            s = socket.socket(family, socket.SOCK_DGRAM)
            s.bind((a, 53))
            ears.append(s)
        wanted = [("direct", a, p) for a in (GATEWAY, GATEWAY6, HOST, HOST6) for p in (53, 443, 8080)]
        wanted += [("direct", a, 80) for a in ("0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "10.203.255.255", "ff02::1", "fe80::1",
                                               "fec0::1", "fc00::1", "100::1", "2001::1", "2001:db8::1", "64:ff9b:1::1", "5f00::1", "::7f00:1")]
        got = tries((), wanted, base=BRIDGE, timeout=200)
        assert all(status == 0 for status, _ in got.values()), got
        b.run(*BRIDGE, "host", "python3", "-c", UDP6, GATEWAY, GATEWAY6, HOST, HOST6, "255.255.255.255", "ff02::1%eth0", ok=True)
        # a server of DNS on the host itself: that port of that address and no other
        b.run("--network", "bridge", "--dns", f"{HOST}:5353", "host", "python3", "-c", UDP6, HOST, ok=True)
        for s in ears:
            s.setblocking(False)
            try:
                raise AssertionError(f"the host heard {s.recv(100)}")
            except BlockingIOError:
                s.close()
        r = b.run("--network", "bridge", "--dns", HOST, "host", "python3", "-c", "import socket\nfor p in (53, 443):\n"
                  f"    s = socket.socket(); s.settimeout(20)\n    print(s.connect_ex(('{HOST}', p)))", ok=True)
        assert r.out.split() == ["0", "111"], b.describe(r)
        seen = [s for s in lab.forbidden if s.seen]
        assert [s.sock.getsockname()[:2] for s in seen] == [(HOST, 53)], "the one allowed"


UDP6 = """
import socket, sys
for host in sys.argv[1:]:
    for family, kind, proto, _, address in socket.getaddrinfo(host, 53, type=socket.SOCK_DGRAM):
        s = socket.socket(family, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        try:
            s.sendto(b"x", address)
        except OSError:
            pass
"""


# Flows of UDP, each of which the kernel tracks: from one port to many; then lookups, each from a port of its own.
FLOWS = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(20000):
    try:
        s.sendto(b"x", (sys.argv[1], 1 + i % 65535))
    except OSError:
        pass
"""
QUESTIONS = """
import socket, sys
for i in range(20000):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", 20000 + i))
    try:
        s.sendto(b"x", (sys.argv[1], 53))
    except OSError:
        pass
    s.close()
"""
# Connections that are over at once: how many came about.
ENDED = """
import socket, struct, sys
n = 0
for i in range(7000):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    n += s.connect_ex((sys.argv[1], 81)) == 0
    s.close()
print(n)
"""


def take_all(listener):
    with contextlib.suppress(OSError):
        while True:
            listener.accept()[0].close()


def tracked():
    """How many flows the kernel tracks for the host (this test's network namespace)."""
    with open("/proc/self/net/stat/nf_conntrack") as f:
        return int(f.read().splitlines()[1].split()[0], 16)


@b.deadline(180)
def test_D12_one_sandbox_takes_a_bounded_share_of_the_hosts_connection_table():
    need_bridge()
    with open("/proc/sys/net/netfilter/nf_conntrack_max") as f:
        share = min(4096, int(f.read()) // 16)
    plan = json.loads(b.berth("run", "--dry-run", "--json", *BRIDGE, "host", "true", ok=True).out)
    assert plan["network_policy"]["max_connections"] == share, plan["network_policy"]
    with Lab(forwarding=True) as lab, Box("--name", "flood", *BRIDGE) as x, Box("--name", "second", *BRIDGE) as y:
        net = json.loads(b.berth("network", "inspect", "--json", "flood", ok=True).out)
        assert net["policy"]["max_connections"] == share and net["budget"]["connections"] == share, net
        x.exec("python3", "-c", FLOWS, OUTSIDE, ok=True)
        assert share * 0.9 < tracked() < share * 1.1, "UDP to anywhere"
        x.exec("python3", "-c", QUESTIONS, DNS, ok=True)
        assert tracked() < share * 2.2, "questions to its DNS server"
        # another has a share of its own, and ends connections faster than the kernel forgets them
        with netlab.within(lab.outside):
            closer = socket.socket()
        closer.bind((OUTSIDE, 81))
        closer.listen(4096)
        taker = threading.Thread(target=take_all, args=(closer,))
        taker.start()
        before, began = tracked(), time.monotonic()
        ended = int(y.exec("python3", "-c", ENDED, OUTSIDE, ok=True).out)
        most = share + 2 * share * (time.monotonic() - began) / 60
        assert share * 0.9 < ended < most * 1.1 + 50 and tracked() - before < most * 1.1 + 50, (ended, most, tracked(), before)
        closer.shutdown(socket.SHUT_RDWR)
        taker.join(20 * b.SLOW)
        closer.close()
        for name in ("flood", "second"):
            b.berth("stop", name, ok=True)
