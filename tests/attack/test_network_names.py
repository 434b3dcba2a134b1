# SPDX-License-Identifier: Apache-2.0
"""A member of a network that is hostile to its resolver, and by it to others.  Attacks S45 of SECURITY.md."""
import json
import os
import socket

import berthtest as b
from box import Box
from netlab import DNS, OUTSIDE, Lab, need_bridge

COST = 30

HEAD = r"""
import random, socket, struct, sys, time
def wire(name):
    return b"".join(bytes([len(x)]) + x.encode() for x in name.split(".") if x) + b"\0"
def query(name, kind=1, n=1, flags=0x100):
    return struct.pack("!HHHHHH", random.randrange(65536), flags, n, 0, 0, 0) + wire(name) + struct.pack("!HH", kind, 1)
def ask(q, seconds=10):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(seconds)
    s.sendto(q, ("127.0.0.11", 53))
    return s.recv(65535)[3] & 15
"""

# Datagrams as fast as they go, for so many seconds.
FLOOD = HEAD + r"""
q, end = query(sys.argv[2]), time.monotonic() + float(sys.argv[1])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setblocking(False)
sent = 0
while time.monotonic() < end:
    try:
        sent += s.sendto(q, ("127.0.0.11", 53)) > 0
    except OSError:
        pass
print(sent)
"""

# What is no query, over UDP and TCP, then one that is.
MALFORMED = HEAD + r"""
whole = query("web")
bad = [b"", b"\0", whole[:11], whole[:12], whole[:-1], whole + b"x", query("web", n=0), query("web", n=9), query("web", flags=0x8180), query("web", flags=0x2900),
       whole[:12] + b"\xc0\x0c\0\1\0\1", whole[:12] + b"\xff" * 400, whole[:12] + b"\1a" * 200, whole[:11] + b"\1" + whole[12:], random.randbytes(500), random.randbytes(9000)]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(20):
    for p in bad:
        try:
            s.sendto(p, ("127.0.0.11", 53))
        except OSError:
            pass
held = []
for p in bad + [b"\xff\xff", b"\0\0", b"\0"] * 20:
    try:
        t = socket.create_connection(("127.0.0.11", 53), 10)
        t.setblocking(False)
        t.send(struct.pack("!H", len(p)) + p)
        held.append(t)
    except OSError:
        pass
for _ in range(100):
    try:
        print(ask(query("web"), 1))
        break
    except OSError:
        pass
t = socket.create_connection(("127.0.0.11", 53), 10)
t.sendall(struct.pack("!H", len(whole)) + whole)
print(t.makefile("rb").read(6)[5] & 15)
"""

ASK = HEAD + r"""
for name in sys.argv[1:]:
    print(ask(query(name)))
"""


def resolver_of(name):
    """The berth-net that stays for the sandbox."""
    keeper = json.loads(b.berth("inspect", name, ok=True).out)["supervisor_pid"]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                words = f.read().rsplit(")", 1)
            if int(words[1].split()[1]) == keeper and words[0].endswith("(berth-net"):
                return int(pid)
        except OSError:
            pass
    raise AssertionError("no resolver")


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


def test_S45_a_flood_costs_the_host_little_and_the_others_nothing():
    need_bridge()
    with Lab(forwarding=True) as lab:
        b.berth("network", "create", "app", ok=True)
        with Box("--name", "web", "--network", "app") as web, Box("--name", "liar", "--network", "app", "--dns", DNS) as liar:
            pid = resolver_of("liar")
            before = cpu_ticks(pid)
            sent = int(liar.exec("python3", "-c", FLOOD, "3", "web", ok=True).out)
            # 5,000 a second and 1,000 at once, of which each may take 0.1 ms even under a sanitizer
            assert sent > 1000 and cpu_ticks(pid) - before < 200, (sent, cpu_ticks(pid) - before)
            assert web.exec("python3", "-c", ASK, "liar", ok=True).out == "0\n", "another's resolver answers meanwhile"
            b.wait_for(lambda: liar.exec("python3", "-c", ASK, "web").code == 0, 10, "its own, once the flood is over")
            # names that go on to a server: no more than the rate, however many are asked for
            lab.dns.asked.clear()
            liar.exec("python3", "-c", FLOOD, "3", "many.outside.test", ok=True)
            assert len(lab.dns.asked) <= 400 + 200 * 20, len(lab.dns.asked)
            b.wait_for(lambda: liar.exec("python3", "-c", ASK, "outside.test").out == "0\n", 20, "a name of the outside again")
        b.berth("network", "prune", ok=True)


def test_S45_what_is_no_query_harms_nobody():
    need_bridge()
    with Lab(forwarding=True) as lab:
        b.berth("network", "create", "app", ok=True)
        with Box("--name", "web", "--network", "app"), Box("--name", "liar", "--network", "app", "--dns", DNS) as liar:
            assert liar.exec("python3", "-c", MALFORMED, ok=True, timeout=60).out == "0\n0\n"
            assert all(name in ("", "web") for name, _ in lab.dns.asked), lab.dns.asked
        b.berth("network", "prune", ok=True)


def test_S45_no_names_of_another_network_and_nobody_else_asks():
    need_bridge()
    with Lab(forwarding=True) as lab:
        for words in (("app",), ("other",), ("--internal", "inner")):
            b.berth("network", "create", *words, ok=True)
        with Box("--name", "secret", "--network", "other", "--alias", "db"), Box("--name", "liar", "--network", "app", "--dns", DNS) as liar, \
                Box("--name", "shut", "--network", "inner") as shut:
            address = json.loads(b.berth("network", "inspect", "secret", ok=True).out)["address"]
            reverse = ".".join(reversed(address.split("."))) + ".in-addr.arpa"
            ids = json.loads(b.berth("inspect", "secret", ok=True).out)["id"]
            r = liar.exec("python3", "-c", ASK, "secret", "db", ids[:12], ids, "SECRET", ok=True)
            assert r.out == "3\n" * 5, r.out
            assert not lab.dns.asked, "and nobody outside hears of them"
            assert liar.exec("python3", "-c", ASK, "outside.test", reverse, "secret.other", ok=True).out == "0\n3\n3\n", "these its servers answer"
            lab.dns.asked.clear()
            assert shut.exec("python3", "-c", ASK, "outside.test", "secret", "liar", ok=True).out == "5\n3\n3\n"
            assert not lab.dns.asked, lab.dns.asked
            # from another namespace, nobody asks it: not the host, not a member
            for at in ("127.0.0.11", address):
                with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
                    s.settimeout(1)
                    assert s.connect_ex((at, 53)), at
        b.berth("network", "prune", ok=True)


def test_S45_the_resolver_counts_as_its_member():
    need_bridge()
    with Lab(forwarding=True, names={"big.test": [OUTSIDE] * 20}) as lab:
        b.berth("network", "create", "app", ok=True)
        with Box("--name", "liar", "--network", "app", "--dns", DNS, "--network-bytes", "20k") as liar:
            for _ in range(200):
                liar.exec("python3", "-c", ASK, *["big.test"] * 4)
                if json.loads(b.berth("network", "inspect", "liar", ok=True).out)["budget_exhausted"]:
                    break
            else:
                raise AssertionError("questions take nothing from the budget")
            asked = len(lab.dns.asked)
            liar.exec("python3", "-c", ASK, "outside.test")
            assert len(lab.dns.asked) == asked, "nothing passes any more"
        b.berth("network", "prune", ok=True)
