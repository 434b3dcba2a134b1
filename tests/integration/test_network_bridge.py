# SPDX-License-Identifier: Apache-2.0
"""--network bridge: an address, a way out, published ports, budgets and live rules; real traffic between namespaces (netlab.py).

Attacks S21 of SECURITY.md.
"""
import contextlib
import json
import os
import socket
import subprocess
import threading

import berthtest as b
import netlab
from box import Box
from netlab import BRIDGE, DNS, HOST, HOST6, OUTSIDE, OUTSIDE6, Lab, need_bridge, tries, within

COST = 17


def described(name):
    return json.loads(b.berth("network", "inspect", "--json", name, ok=True).out)


def fetch(x, url, *options):
    return x.exec("curl", "-s", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", *options, url).out


def get(ns, address, port, timeout=3):
    """What a client in namespace ns reads there over HTTP; None when it cannot connect."""
    with within(ns):
        s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    with contextlib.closing(s):
        s.settimeout(timeout * b.SLOW)
        try:
            s.connect((address, port))
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return s.recv(65536)
        except OSError:
            return None


def test_out_by_name_and_address():
    need_bridge()
    with Lab(forwarding=True) as lab:
        wanted = [("direct", h, 80) for h in ("outside.test", OUTSIDE, OUTSIDE6, "outside6.test", "both.test")]
        got = tries((), wanted, base=BRIDGE)
        assert all(status == 200 for status, _ in got.values()), got
        assert set(lab.web.peers) == {HOST} and set(lab.web6.peers) == {HOST6}, "masqueraded"
        r = b.run(*BRIDGE, "--hostname", "boxy.example.test", "host", "sh", "-c",
                  "cat /etc/resolv.conf /etc/hosts; getent hosts boxy; cat /proc/sys/net/ipv6/conf/eth0/accept_ra; ls /sys/class/net; "
                  "echo x >/etc/hosts; touch /etc/other && echo writable", ok=True)
        assert f"nameserver {DNS}\n" in r.out and "10.203.0." in r.out and "\tboxy.example.test boxy\n" in r.out and r.out.endswith("writable\n"), b.describe(r)
        assert "Read-only" in r.err or "read-only" in r.err, b.describe(r)
        with Box("--name", "one", *BRIDGE) as x:
            assert fetch(x, "http://outside.test/") == "200"
            net = described("one")
            assert net["mode"] == "bridge" and net["address"].startswith("10.203.0.") and net["address6"].startswith("fd62:"), net
            assert net["bytes_in"] > 100 and net["bytes_out"] > 100, net
            assert net["port"] in netlab.ports()
            stats = json.loads(b.berth("stats", "--no-stream", "--json", "one", ok=True).out)
            assert stats["network"]["bytes_in"] >= net["bytes_in"]
            row = [r for r in json.loads(b.berth("network", "ls", "--json", ok=True).out) if r["id"] == x.id][0]
            assert row["network"]["address"] == net["address"]
            b.berth("restart", "one", ok=True)
            assert described("one")["address"] != net["address"], "addresses go round"
            assert fetch(x, "http://outside.test/") == "200"
            b.berth("stop", "one", ok=True)
            assert netlab.elements() == 0
            b.wait_for(lambda: not netlab.ports(), 5, "the interface's end, with the namespace")
        lab.untouched()


def test_network_enabled_means_a_bridge():
    need_bridge()
    conf = b.write(b.tmp("berth.toml"), '[sandbox]\nnetwork_enabled = true\n[network]\nbridge = "berthx"\npool = "10.77.0.0/24"\n', 0o600)
    with Lab(forwarding=True):
        r = b.run("host", "sh", "-c", "grep nameserver /etc/resolv.conf; cat /proc/net/fib_trie", env={"BERTH_CONFIG": conf}, ok=True)
        assert "10.77.0.2" in r.out, b.describe(r)
        assert "berthx" in [n for _, n in socket.if_nameindex()]
        b.berth("gc", env={"BERTH_CONFIG": conf}, ok=True)
        assert "berthx" not in [n for _, n in socket.if_nameindex()] and not netlab.ruleset()


def test_forwarding_is_not_switched_on_unasked():
    need_bridge()
    with Lab():
        b.one_line_error(b.run("--network", "bridge", "host", "true"), 125, "ip_forward", "hint", "egress")
        assert not netlab.ports() and not netlab.ruleset(), "refused before anything was made"
        b.one_line_error(b.run("--network", "bridge", "-p", "127.0.0.1::80", "-p", "0.0.0.0:8080:80", "host", "true"), 125, "ip_forward")
        conf = b.write(b.tmp("berth.toml"), "[network]\nforwarding = true\n", 0o600)
        b.run("--network", "bridge", "host", "true", env={"BERTH_CONFIG": conf}, ok=True)
        with open("/proc/sys/net/ipv4/ip_forward") as f:
            assert f.read() == "1\n"
        b.berth("gc", env={"BERTH_CONFIG": conf}, ok=True)


SWITCHES = ("ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv6/conf/all/accept_ra", "ipv6/conf/default/accept_ra")


def switches():
    return [open("/proc/sys/net/" + s).read().strip() for s in SWITCHES]


def test_forwarding_that_berth_switched_on_goes_off_with_the_last_bridge():
    need_bridge()
    with Lab():
        env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), "[network]\nforwarding = true\n", 0o600)}
        for s in SWITCHES[2:]:
            netlab.sysctl(s, "1")
        before, on = switches(), ["1", "1", "2", "2"]
        assert before == ["0", "0", "1", "1"]
        with Box("--name", "one", *BRIDGE, env=env):
            b.run("--network", "bridge", "host", "true", env=env, ok=True)
            b.berth("gc", env=env, ok=True)
            assert switches() == on, "a sandbox is there"
            b.berth("stop", "one", env=env, ok=True)
        b.berth("gc", env=env, ok=True)
        assert switches() == before
        # another bridge relies on what it found, whosever it is
        b.run("--network", "bridge", "host", "true", env=env, ok=True)
        netlab.ip("link", "add", "other0", "type", "bridge")
        b.berth("gc", env=env, ok=True)
        assert switches() == on and not netlab.ruleset()
        netlab.ip("link", "del", "other0")
        b.berth("gc", env=env, ok=True)
        assert switches() == before, "the next gc sees that it is gone"
        # so may whatever came since: a VPN finds forwarding on, and does not write it again
        b.run("--network", "bridge", "host", "true", env=env, ok=True)
        netlab.ip("link", "add", "vpn0", "type", "veth", "peer", "name", "vpn1")
        b.berth("gc", env=env, ok=True)
        assert switches() == on and not netlab.ruleset()
        netlab.ip("link", "del", "vpn0")
        b.berth("gc", env=env, ok=True)
        assert switches() == before
        # a gc that was killed between the bridge and the switches
        b.run("--network", "bridge", "host", "true", env=env, ok=True)
        record = os.path.join(b.root(), "state/network/forwarding")
        with open(record) as f:
            kept = f.read()
        netlab.ip("link", "del", "berth0")
        b.berth("gc", env=env, ok=True)
        assert switches() == before and not os.path.exists(record)
        # of another boot, and so of switches that the kernel has forgotten: those that are on now are somebody else's
        b.write(record, json.dumps({**json.loads(kept), "place": "0-0-0 1"}), 0o600)
        for s in SWITCHES[:2]:
            netlab.sysctl(s, "1")
        b.run("--network", "bridge", "host", "true", env=env, ok=True)
        b.berth("gc", env=env, ok=True)
        assert switches()[:2] == ["1", "1"], "what berth found on"
        assert not os.path.exists(record)


SERVER = """
import http.server, socket, threading
class S(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
u.bind(("::", 5353))
def echo():
    while True:
        data, peer = u.recvfrom(2000)
        u.sendto(b"echo " + data, peer)
threading.Thread(target=echo, daemon=True).start()
S(("::", 8000), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def test_published_ports():
    need_bridge()
    with Lab(forwarding=True) as lab:
        options = ("-p", "0.0.0.0:8080:8000", "-p", "[::]:8080:8000", "-p", f"{HOST}:8081:8000", "-p", "0.0.0.0:5300:5353/udp",
                   "-p", "[::]:5300:5353/udp", "-p", f"[{HOST6}]:8082:8000", "-p", "0.0.0.0:8083:8000", "-p", "[::]:8084:8000",
                   "-p", "8085:8000")
        with Box("--name", "server", *BRIDGE, *options) as x, Box("--name", "neighbour", *BRIDGE) as other:
            x.main.detach("python3", "-c", SERVER)
            b.wait_for(lambda: get(lab.outside, HOST, 8080, 0.5), 10, "the published port")
            for ns, address, port in ((lab.outside, HOST, 8080), (lab.outside, HOST6, 8080), (lab.outside, HOST, 8081),
                                      (lab.outside, HOST6, 8082), (lab.host, HOST, 8080), (lab.host, HOST6, 8080)):
                assert (get(ns, address, port) or b"").startswith(b"HTTP/1.0 200"), (address, port)
            assert get(lab.outside, HOST6, 8081, 0.5) is None and get(lab.outside, HOST, 8082, 0.5) is None, "of one address only"
            assert get(lab.outside, HOST, 8083) and get(lab.outside, HOST6, 8083, 0.5) is None, "of IPv4 only"
            assert get(lab.outside, HOST6, 8084) and get(lab.outside, HOST, 8084, 0.5) is None, "of IPv6 only"
            for address in (HOST, HOST6):
                assert get(lab.outside, address, 8085, 0.5) is None, "nobody said that the world may"
                assert get(lab.host, address, 8085) is None, "of the loopback only"
            assert get(lab.host, "127.0.0.1", 8085) and get(lab.host, "::1", 8085)
            # the loopback has tests of its own (test_network_limits.py); a port of one address is not there
            assert get(lab.host, "127.0.0.1", 8081) is None, "what is sent to 127.0.0.1 stays there"
            for address in (HOST, HOST6):
                with within(lab.outside):
                    u = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
                with contextlib.closing(u):
                    u.settimeout(10 * b.SLOW)
                    u.sendto(b"x", (address, 5300))
                    assert u.recv(100) == b"echo x"
            # the world may, the neighbour may not
            for url in (f"http://{HOST}:8080/", f"http://{described('server')['address']}:8000/", f"http://[{HOST6}]:8080/"):
                assert fetch(other, url) == "000", url
            r = b.run(*BRIDGE, "-p", "0.0.0.0:8080:1", "host", "true")
            b.one_line_error(r, 125, "publish", "another sandbox")
            b.one_line_error(b.run(*BRIDGE, "-p", "8085:1", "host", "true"), 125, "publish", "another sandbox")
            policy = described("server")["policy"]
            assert policy["publish"][0] == "0.0.0.0:8080:8000"
        assert get(lab.outside, HOST, 8080, 0.5) is None


def test_rules_change_at_once_and_cut_what_is_open():
    need_bridge()
    go = threading.Event()

    def slow(path, headers):
        if path == "/slow":
            go.wait(20 * b.SLOW)
        return 200, {}, b"x" * 100

    with Lab(forwarding=True, answer=slow) as lab, Box("--name", "live", *BRIDGE) as x:
        assert fetch(x, "http://10.9.9.9/") == "000"
        b.berth("update", "--allow-net", "10.0.0.0/8", "live", ok=True)
        assert fetch(x, "http://10.9.9.9/") == "200" and fetch(x, "http://192.168.9.9/") == "000"
        b.berth("update", "--deny-net", "10.9.0.0/16", "live", ok=True)
        assert fetch(x, "http://10.9.9.9/") == "000"
        n = x.main.detach("curl", "-sS", "-m", "4", "http://outside.test/slow")
        b.wait_for(lambda: any(r[1] == "/slow" for r in lab.web.requests), 5, "the slow request")
        b.berth("update", "--deny-net", f"{OUTSIDE}/32", "live", ok=True)
        go.set()
        r = b.berth("wait", "live", f"c{n}" if isinstance(n, int) else n)
        assert r.code != 0, b.describe(r)
        assert fetch(x, "http://outside.test/") == "000"
        b.berth("restart", "live", ok=True)
        assert fetch(x, "http://outside.test/") == "000", "and it lasts"
        b.berth("update", "--allow-net", f"{OUTSIDE}/32", "live", ok=True)
        assert fetch(x, "http://outside.test/") == "200"
        b.one_line_error(b.berth("update", "--allow-host", "x.test", "live"), 2, "egress")
        assert {s.sock.getsockname()[0] for s in lab.forbidden if s.seen} == {"10.9.9.9"}


ASK_MUCH = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.5)
got = 0
for _ in range(100):
    s.sendto(b"q" * 1000, (sys.argv[1], 53))
    try:
        got += len(s.recv(2000))
    except TimeoutError:
        break
print(got)
"""


def test_a_byte_budget_counts_what_is_asked_of_a_resolver_on_the_host():
    need_bridge()
    with Lab(forwarding=True), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((HOST, 53))
        server.settimeout(20 * b.SLOW)
        heard = []

        def answer():
            while True:
                data, peer = server.recvfrom(2000)
                if data == b"end":
                    return
                heard.append(len(data))
                server.sendto(data, peer)

        t = threading.Thread(target=answer, daemon=True)
        t.start()
        with Box("--name", "asker", "--network", "bridge", "--dns", HOST, "--network-bytes", "40k") as x:
            r = x.exec("python3", "-c", ASK_MUCH, HOST, ok=True)
            net = described("asker")
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"end", (HOST, 53))
        t.join(10 * b.SLOW)
        assert 15000 < int(r.out) <= sum(heard) <= 21000, (r.out, sum(heard))
        assert net["budget_exhausted"] and net["bytes_out"] > 15000 and net["bytes_in"] > 15000, net


def test_a_byte_budget_stops():
    need_bridge()
    big = b"y" * 3_000_000
    with Lab(forwarding=True, answer=lambda path, headers: (200, {}, big)), \
            Box("--name", "few", *BRIDGE, "--network-bytes", "1m") as x:
        r = x.exec("curl", "-s", "-m", "10", "-o", "/tmp/f", "http://outside.test/")
        assert r.code == 28, b.describe(r)
        net = described("few")
        assert net["budget_exhausted"] and net["bytes_in"] > 900_000, net
        b.berth("update", "--network-bytes", "unlimited", "few", ok=True)
        assert fetch(x, "http://outside.test/") == "200"
        assert not described("few")["budget_exhausted"]


@b.deadline(180)
def test_100_at_once_each_with_an_address_leave_nothing():
    need_bridge()
    env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), "[manager]\nmax_sandboxes = 300\n", 0o600)}
    quick = ("--network", "bridge", "--memory", "32m", "--disk", "8m", "--disk-inodes", "512", "--tmp-size", "64k")

    def one_run():
        b.run(*quick, "host", "true", ok=True, env=env)

    with Lab(forwarding=True):
        one_run()  # the bridge and the rules
        ids, failed = [], []
        lock = threading.Lock()

        def create(count):
            for _ in range(count):
                r = b.berth("create", *quick, "host", env=env, timeout=120)
                with lock:
                    (ids if r.code == 0 else failed).append(r.out.strip() if r.code == 0 else r.err)

        workers = [threading.Thread(target=create, args=(10,)) for _ in range(10)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        assert not failed and len(set(ids)) == 100, failed[:3]
        assert len(netlab.ports()) == 100
        addresses = {row["network"]["address"] for row in json.loads(b.berth("network", "ls", "--json", env=env, ok=True, timeout=120).out)}
        assert len(addresses) == 100, "each has its own"
        one_run()
        chunks = [threading.Thread(target=lambda part: b.berth("rm", "--force", *part, env=env, ok=True, timeout=120), args=(ids[i::10],))
                  for i in range(10)]
        for w in chunks:
            w.start()
        for w in chunks:
            w.join()
        b.wait_for(lambda: not netlab.ports(), 10, "the last interface's end")
        assert netlab.elements() == 0
        neighbours = subprocess.run(["ip", "neigh", "show", "nud", "permanent"], stdout=subprocess.PIPE).stdout
        assert b"10.203." not in neighbours, neighbours
        b.wait_for(lambda: os.listdir(os.path.join(b.root(), "state", "network")) == ["lock"], 5, "the last record's end")
