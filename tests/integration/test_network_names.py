# SPDX-License-Identifier: Apache-2.0
"""The resolver of a network that has a name, at 127.0.0.11 in each member.  Attacks S45 of SECURITY.md."""
import contextlib
import json
import socket

import berthtest as b
from box import Box
from netlab import DNS, OUTSIDE, Lab, need_bridge

COST = 30

RESOLVER = "127.0.0.11"

# Each line of stdin is [name, type]: prints [code, [answers], ms] for each, asked over UDP or TCP.
ASK = r"""
import json, random, socket, struct, sys, time
how = sys.argv[1]
def wire(name):
    return b"".join(bytes([len(x)]) + x.encode("latin-1") for x in name.split(".") if x) + b"\0"
def name_at(p, at):
    labels = []
    while p[at]:
        if p[at] >= 0xc0:
            at = (p[at] & 0x3f) << 8 | p[at + 1]
            continue
        labels.append(p[at + 1:at + 1 + p[at]].decode("latin-1"))
        at += 1 + p[at]
    return ".".join(labels)
def ask(query):
    if how == "tcp":
        s = socket.create_connection(("127.0.0.11", 53), 10)
        s.sendall(struct.pack("!H", len(query)) + query)
        f = s.makefile("rb")
        return f.read(struct.unpack("!H", f.read(2))[0])
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.sendto(query, ("127.0.0.11", 53))
    return s.recv(65535)
for line in sys.stdin:
    name, kind = json.loads(line)
    query = struct.pack("!HHHHHH", random.randrange(65536), 0x100, 1, 0, 0, 0) + wire(name) + struct.pack("!HH", kind, 1)
    began = time.perf_counter()
    p = ask(query)
    ms = (time.perf_counter() - began) * 1000
    assert p[:2] == query[:2] and p[12:len(query)] == query[12:], (query, p)
    found, at = [], len(query)
    for _ in range(struct.unpack("!H", p[6:8])[0]):
        assert p[at] >= 0xc0, p
        n = struct.unpack("!H", p[at + 10:at + 12])[0]
        data = p[at + 12:at + 12 + n]
        found.append(name_at(p, at + 12) if kind == 12 else socket.inet_ntop(socket.AF_INET if n == 4 else socket.AF_INET6, data))
        at += 12 + n
    print(json.dumps([p[3] & 15, sorted(found), ms, bool(p[2] & 2)]), flush=True)
"""
A, PTR, TXT, AAAA = 1, 12, 16, 28
OK, NXDOMAIN, REFUSED, SERVFAIL = 0, 3, 5, 2


def ask(x, *questions, how="udp"):
    """[(code, answers)] of the resolver in x."""
    r = x.exec("python3", "-c", ASK, how, input="\n".join(json.dumps(q) for q in questions), ok=True)
    return [tuple(json.loads(line)[:2]) for line in r.out.splitlines()]


def inspect(name):
    return json.loads(b.berth("network", "inspect", "--json", name, ok=True).out)


@contextlib.contextmanager
def networks(*specs):
    try:
        for s in specs:
            b.berth("network", "create", *s, ok=True)
        yield
    finally:
        b.berth("network", "prune", timeout=30)


def reverse(address):
    if ":" in address:
        return ".".join(reversed(socket.inet_pton(socket.AF_INET6, address).hex())) + ".ip6.arpa"
    return ".".join(reversed(address.split("."))) + ".in-addr.arpa"


def test_members_are_found_by_name_alias_and_short_id():
    need_bridge()
    with Lab(forwarding=True), networks(["app"], ["other"]), Box("--name", "stranger", "--network", "other"), \
            Box("--name", "web", "--network", "app", "--alias", "api", "--alias", "backend", "--dns", DNS), \
            Box("--name", "client", "--network", "app", "--dns", DNS) as client:
        at, mine = inspect("web"), inspect("client")
        assert at["resolver"] == "running", at
        short = json.loads(b.berth("inspect", "web", ok=True).out)["id"][:12]
        for how in ("udp", "tcp"):
            for name in ("web", "WeB", "api", "backend", short, "web.app", "api.app"):
                assert ask(client, (name, A), (name, AAAA), (name, TXT), how=how) == [(OK, [at["address"]]), (OK, [at["address6"]]), (OK, [])], name
            assert ask(client, ("client", A), ("stranger", A), ("stranger.app", A), ("nobody", AAAA), how=how) == \
                [(OK, [mine["address"]])] + 3 * [(NXDOMAIN, [])]
            for address in (at["address"], at["address6"]):
                assert ask(client, (reverse(address), PTR), how=how) == [(OK, ["web.app"])]
            assert ask(client, (reverse(inspect("stranger")["address"]), PTR), how=how) == [(NXDOMAIN, [])]
            assert ask(client, (reverse(at["address"].rsplit(".", 1)[0] + ".99"), PTR), how=how) == [(NXDOMAIN, [])]
        resolv = client.exec("cat", "/etc/resolv.conf", ok=True).out
        assert [w for w in resolv.splitlines() if w.startswith("nameserver")] == ["nameserver " + RESOLVER], resolv
        for name in ("web", "api.app"):
            assert client.exec("getent", "ahostsv4", name, ok=True).out.split()[0] == at["address"], name
        assert client.exec("getent", "hosts", "stranger").code


def test_members_that_come_and_go_are_seen_at_once():
    need_bridge()
    with Lab(forwarding=True), networks(["app"]), Box("--name", "client", "--network", "app") as client:
        assert ask(client, ("web", A)) == [(NXDOMAIN, [])]
        with Box("--name", "web", "--network", "app", "--alias", "all"), Box("--name", "web2", "--network", "app", "--alias", "all"):
            one, two = inspect("web")["address"], inspect("web2")["address"]
            assert ask(client, ("web", A), ("all", A)) == [(OK, [one]), (OK, sorted([one, two]))]
            b.berth("stop", "web", ok=True)
            assert ask(client, ("web", A), ("all", A)) == [(NXDOMAIN, []), (OK, [two])]
            b.berth("start", "web", ok=True)
            assert ask(client, ("web", A), ("all", A)) == [(OK, [inspect("web")["address"]]), (OK, sorted([inspect("web")["address"], two]))]
        assert ask(client, ("web", A), ("web2", A), ("all", A)) == 3 * [(NXDOMAIN, [])]


def test_other_names_go_to_the_servers_of_the_policy():
    need_bridge()
    with Lab(forwarding=True) as lab, networks(["app"], ["--internal", "inner"]), \
            Box("--name", "client", "--network", "app", "--dns", "1.2.3.77:5353", "--dns", DNS) as client, \
            Box("--name", "shut", "--network", "inner") as shut:
        # the first server is not there: the second is asked
        assert ask(client, ("outside.test", A), ("none.test", A)) == [(OK, [OUTSIDE]), (NXDOMAIN, [])]
        assert {"outside.test", "none.test"} == {name for name, _ in lab.dns.asked}, lab.dns.asked
        lab.dns.asked.clear()
        assert client.exec("curl", "-s", "-m", "20", "-o", "/dev/null", "http://outside.test/").code == 0
        assert len(set(lab.dns.peers)) == len(lab.dns.peers), "each question has a port of its own"
        assert ask(client, ("client", A), ("nobody", A), (reverse(inspect("client")["address"]), PTR))
        assert {"outside.test"} == {name for name, _ in lab.dns.asked}, "what is asked of us stays here"
        lab.dns.asked.clear()
        assert ask(shut, ("outside.test", A), ("shut", A)) == [(REFUSED, []), (OK, [inspect("shut")["address"]])]
        assert not lab.dns.asked


def test_an_answer_too_long_for_a_datagram_comes_over_tcp():
    need_bridge()
    many = sorted(f"1.2.4.{i}" for i in range(1, 200))
    with Lab(forwarding=True, names={"many.test": many}), networks(["app"]), Box("--name", "client", "--network", "app", "--dns", DNS) as client:
        r = client.exec("python3", "-c", ASK, "udp", input=json.dumps(["many.test", A]), ok=True)
        assert json.loads(r.out)[3], "the answer says that it is cut"
        for _ in range(3):  # a connection's socket is taken again
            assert ask(client, *[("many.test", A)] * 3, how="tcp") == 3 * [(OK, many)]

