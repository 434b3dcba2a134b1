# SPDX-License-Identifier: Apache-2.0
"""
A member of a network with a name that lies about its addresses, to the other members and beyond.  Attacks S20 of SECURITY.md.
"""
import json
import socket
import struct
import subprocess

import berthtest as b
import netlab
from box import Box
from netlab import Lab, need_bridge

COST = 30

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

# Every datagram to a port, the one that ends it last.
LISTEN = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 9999))
print("up", flush=True)
data = b""
while data != b"end":
    data, peer = s.recvfrom(100)
    print(peer[0], data.decode(), flush=True)
"""

# What comes to eth0 of kinds other than IP: nothing does.
SNIFF = """
import select, socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(("eth0", 0))
print("up", flush=True)
while True:
    frame, info = s.recvfrom(2000)
    if info[2] != 4:
        print(frame[12:14].hex(), frame[6:12].hex(), flush=True)
        if b"end" in frame[-4:]:
            break
"""


def address(name):
    return json.loads(b.berth("network", "inspect", name, ok=True).out)["address"]


def mac_of(a):
    return "0262" + "".join(f"{int(x):02x}" for x in a.split("."))


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)


def udp_frame(dst_mac, src_mac, src, dst, text):
    payload = struct.pack("!HHHH", 999, 9999, 8 + len(text), 0) + text
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, 17, 0) + socket.inet_aton(src) + socket.inet_aton(dst)
    head = head[:10] + checksum(head) + head[12:]
    return bytes.fromhex(dst_mac) + bytes.fromhex(src_mac) + b"\x08\x00" + head + payload


def arp_frame(dst_mac, src_mac, claims, to, operation):
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation) + bytes.fromhex(src_mac) + socket.inet_aton(claims)
    return bytes.fromhex(dst_mac) + bytes.fromhex(src_mac) + b"\x08\x06" + body + bytes.fromhex(dst_mac) + socket.inet_aton(to)


def test_S20_a_member_cannot_speak_in_the_name_of_another():
    need_bridge()
    with Lab(forwarding=True):
        for name in ("app", "other"):
            b.berth("network", "create", name, ok=True)
        with Box("--name", "victim", "--network", "app", *RAW) as victim, Box("--name", "friend", "--network", "app") as friend, \
                Box("--name", "liar", "--network", "app", *RAW) as liar, Box("--name", "far", "--network", "other"):
            to, honest, own, foreign = (address(n) for n in ("victim", "friend", "liar", "far"))
            gateway = to.rsplit(".", 1)[0] + ".1"
            for program, out in ((LISTEN, "heard"), (SNIFF, "seen")):
                victim.main.detach("sh", "-c", f'exec python3 -c "$0" >/tmp/{out}', program)
                b.wait_for(lambda out=out: "up" in victim.exec("cat", "/tmp/" + out).out, 10, out)
            frames = []
            for mac in (mac_of(gateway), mac_of(to), "ffffffffffff", mac_of(honest)):
                for src_mac in (mac_of(own), mac_of(honest), mac_of(gateway), "020000000001"):
                    for src in (honest, gateway, foreign, "8.8.8.8", to, own):
                        # the true one goes by the gateway, in its own name
                        if (src_mac, src) != (mac_of(own), own):
                            frames.append(udp_frame(mac, src_mac, src, to, b"lie!"))
                    for operation in (1, 2):
                        frames += [arp_frame(mac, src_mac, honest, to, operation), arp_frame(mac, src_mac, gateway, to, operation)]
            # past the host, straight to the other's port
            frames.append(udp_frame(mac_of(to), mac_of(own), own, to, b"side"))
            frames.append(udp_frame(mac_of(gateway), mac_of(own), own, to, b"true"))
            frames.append(udp_frame(mac_of(gateway), mac_of(own), own, foreign, b"far!"))
            frames.append(udp_frame(mac_of(gateway), mac_of(own), own, to, b"end"))
            liar.exec("python3", "-c", FRAMES, input="\n".join(f.hex() for f in frames), ok=True)
            heard = b.wait_for(lambda: (lambda t: t if "end" in t else None)(victim.exec("cat", "/tmp/heard").out), 10, "the last datagram")
            assert set(heard.split("\n")[1:-1]) == {f"{own} true", f"{own} end"}, heard
            seen = victim.exec("cat", "/tmp/seen").out.split("\n")[1:]
            assert not [line for line in seen if line.startswith("0806")], f"an ARP of a member arrived: {seen}"
            assert {line.split()[1] for line in seen if line} <= {mac_of(gateway)}, f"a frame of another than the gateway: {seen}"
            neighbours = victim.exec("ip", "neigh", ok=True).out
            assert neighbours and all("PERMANENT" in line for line in neighbours.splitlines() if "eth0" in line), neighbours
            assert mac_of(gateway) in neighbours.replace(":", ""), neighbours
            assert friend.exec("ping", "-c", "1", "-W", "5", to).code in (0, 126, 127), "and the others still talk"
        b.berth("network", "prune", ok=True)


def test_S20_a_member_reaches_no_other_network_whatever_it_routes():
    need_bridge()
    with Lab(forwarding=True) as lab:
        for name in ("app", "other"):
            b.berth("network", "create", name, ok=True)
        with Box("--name", "liar", "--network", "app", *RAW, "--allow-net", "10.0.0.0/8") as liar, Box("--name", "far", "--network", "other") as far, \
                Box("--name", "plain", "--network", "bridge") as plain:
            for x in (far, plain):
                x.main.detach("python3", "-m", "http.server", "8000")
                b.wait_for(lambda x=x: x.exec("curl", "-s", "-o", "/dev/null", "http://127.0.0.1:8000/").code == 0, 10, "the server")
            for name in ("far", "plain"):
                to = address(name)
                liar.exec("sh", "-c", f"ip route add {to}/32 dev eth0; ip neigh replace {to} lladdr 02:62:{':'.join(f'{int(x):02x}' for x in to.split('.'))} dev eth0")
                assert liar.exec("curl", "-s", "-m", "1", f"http://{to}:8000/").code != 0, name
                liar.exec("sh", "-c", f"ip route del {to}/32 dev eth0")
                assert liar.exec("curl", "-s", "-m", "1", f"http://{to}:8000/").code != 0, f"{name}, even with the range allowed"
                assert subprocess.run(["curl", "-s", "-m", "5", "-o", "/dev/null", f"http://{to}:8000/"]).returncode == 0, "the host may"
        b.berth("network", "prune", ok=True)
        lab.untouched()
        assert not netlab.ports()
