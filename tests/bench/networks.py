#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The figures of issue 20: networks.py [ROUNDS].  Bytes a second between two members of a network beside two network
namespaces with a veth pair each and a bridge; how long a name takes to be answered; what a service costs more to create
than a bare sandbox.  The rounds of what is compared take turns, so a busy machine touches both.  JSON on stdout.
"""
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import berthtest as b  # noqa: E402
import netlab  # noqa: E402

SECONDS = 1
SEND = f"""
import socket, sys, time
s = socket.create_connection((sys.argv[1], 9000))
data, end = bytes(1 << 17), time.monotonic() + {SECONDS}
while time.monotonic() < end:
    s.sendall(data)
s.shutdown(socket.SHUT_WR)
s.recv(1)
"""
RECEIVE = """
import socket, time
l = socket.create_server(("0.0.0.0", 9000))
print("up", flush=True)
s, _ = l.accept()
buf, n, began = bytearray(1 << 18), 0, time.monotonic()
while True:
    got = s.recv_into(buf)
    if not got:
        break
    n += got
print(n / (time.monotonic() - began), flush=True)
s.send(b"x")
"""
ASK = """
import random, socket, statistics, struct, time
wire = b"".join(bytes([len(x)]) + x.encode() for x in ("m0",)) + b"\\0"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("127.0.0.11", 53))
took = []
for _ in range(2000):
    query = struct.pack("!HHHHHH", random.randrange(65536), 0x100, 1, 0, 0, 0) + wire + struct.pack("!HH", 1, 1)
    began = time.perf_counter()
    s.send(query)
    answer = s.recv(512)
    took.append((time.perf_counter() - began) * 1000)
    assert answer[:2] == query[:2] and answer[3] & 15 == 0 and answer[7] == 1, answer
print(statistics.median(took))
"""


def transfer(receiver, sender, address):
    """Bytes a second of one transfer; both are command lines to put before python3."""
    with subprocess.Popen([*receiver, "python3", "-c", RECEIVE], stdout=subprocess.PIPE, text=True, env=b.environment()) as r:
        assert r.stdout.readline() == "up\n"
        subprocess.run([*sender, "python3", "-c", SEND, address], check=True, env=b.environment())
        return float(r.stdout.readline())


def plain():
    """Two namespaces on a bridge: their command lines and the address of the first."""
    pids = []
    netlab.ip("link", "add", "plain0", "type", "bridge")
    netlab.ip("link", "set", "plain0", "up")
    for i in range(2):
        p = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        pids.append(p)
        b.wait_for(lambda p=p: os.readlink(f"/proc/{p.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        netlab.ip("link", "add", f"p{i}-h", "type", "veth", "peer", "name", "eth0", "netns", str(p.pid))
        netlab.ip("link", "set", f"p{i}-h", "master", "plain0", "up")
        within = ["nsenter", "-t", str(p.pid), "-n"]
        for line in ("link set lo up", f"addr add 10.77.0.{i + 1}/24 dev eth0", "link set eth0 up"):
            subprocess.run([*within, "ip", *line.split()], check=True)
    return pids, [["nsenter", "-t", str(p.pid), "-n"] for p in pids], "10.77.0.1"


def quartile(values):
    """The first: with other work on the machine, what is slower is that."""
    return statistics.quantiles(values, n=4)[0]


def create_ms(*command):
    began = time.monotonic()
    box = b.berth("create", "host", *command, ok=True).out.strip()
    took = (time.monotonic() - began) * 1000
    b.berth("rm", "-f", box, ok=True)
    return took


def main(rounds):
    netlab.check(netlab.libc.unshare(netlab.CLONE_NEWNET), "unshare")
    netlab.ip("link", "set", "lo", "up")
    b.begin()
    holders = []
    try:
        b.berth("network", "create", "--internal", "app", ok=True)
        boxes = [b.berth("create", "--name", f"m{i}", "--network", "app", "--cpus", "unlimited", "host", ok=True).out.strip() for i in range(2)]
        members = [[b.BERTH, "exec", x] for x in boxes]
        to = json.loads(b.berth("network", "inspect", "--json", "m0", ok=True).out)["address"]
        holders, spaces, there = plain()
        speeds = [(transfer(*members, to), transfer(*spaces, there)) for _ in range(rounds)]
        names = [float(b.berth("exec", boxes[1], "python3", "-c", ASK, ok=True).out) for _ in range(3)]
        creates = [(create_ms("sleep", "1000"), create_ms()) for _ in range(6 * rounds)]
        ours, theirs = (statistics.median(s) for s in zip(*speeds))
        service, bare = (statistics.median(c) for c in zip(*creates))
        print(json.dumps({"members_bytes_s": round(ours), "veth_bridge_bytes_s": round(theirs), "ratio": round(ours / theirs, 3),
                          "ratio_at_best": round(max(s for s, _ in speeds) / max(s for _, s in speeds), 3),
                          "name_ms": round(statistics.median(names), 4), "create_service_ms": round(service, 2),
                          "create_bare_ms": round(bare, 2), "service_more_ms": round(statistics.median(s - x for s, x in creates), 2),
                          "service_more_first_quartile_ms": round(quartile(s for s, _ in creates) - quartile(x for _, x in creates), 2),
                          "rounds": rounds, "load": os.getloadavg()[0], "host": socket.gethostname()}, indent=1))
        b.berth("rm", "-f", *boxes, ok=True)
        b.berth("network", "rm", "app", ok=True)
    finally:
        for p in holders:
            p.kill()
            p.wait()
        b.berth("rm", "-f", "m0", "m1")
        b.berth("gc")
        shutil.rmtree(b.root(), ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
