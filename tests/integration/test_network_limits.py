# SPDX-License-Identifier: Apache-2.0
"""Budgets, limits of connections, verdicts and events of --network bridge and egress (netlab.py)."""
import contextlib
import json
import os
import signal
import socket

import berthtest as b
import netlab
import proc
from box import Box
from netlab import BASE, BRIDGE, HOST, METADATA, OUTSIDE, Lab, need_bridge, need_net, within

COST = 28

# Opens connections to ADDRESS:80 one after the other and keeps them: what each came to.
OPEN = """
import socket, sys
kept = []
for i in range(int(sys.argv[2])):
    s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
    s.settimeout(20)
    try:
        s.connect((sys.argv[1], 80))
        s.sendall(b"GET /%d HTTP/1.1\\r\\n\\r\\n" % i)
        s.recv(10)
        print("open")
    except OSError as e:
        print(e.strerror)
    kept.append(s)
"""


def described(name):
    return json.loads(b.berth("network", "inspect", "--json", name, ok=True).out)


def events(*of, sandbox=None):
    lines = b.berth("events", "--json", *([sandbox] if sandbox else []), ok=True).out.splitlines()
    return [e for e in map(json.loads, lines) if not of or e["event"] in of]


def opened(x, address, count):
    return x.exec("python3", "-c", OPEN, address, str(count), ok=True).out.splitlines()


def test_bridge_no_more_connections_than_allowed_at_once():
    need_bridge()
    with Lab(forwarding=True) as lab, Box("--name", "few", *BRIDGE, "--network-connections", "3") as x, \
            Box("--name", "other", *BRIDGE, "--network-connections", "2") as y:
        assert described("few")["policy"]["max_connections"] == 3
        refused = "Connection refused"
        assert opened(x, OUTSIDE, 5) == ["open"] * 3 + [refused] * 2
        assert opened(y, OUTSIDE, 3) == ["open"] * 2 + [refused], "each sandbox has its own"
        net = described("few")
        assert net["over_limit"] >= 2 and net["budget"]["connections"] == 3, net
        # closed ones do not count: as often as one likes, one after the other
        for _ in range(6):
            b.wait_for(lambda: x.exec("curl", "-s", "-m", "20", "-o", "/dev/null", f"http://{OUTSIDE}/").code == 0, 10, "a free connection")
        # IPv4 and IPv6 together
        mixed = x.exec("python3", "-c", OPEN.replace("print(", "print(sys.argv[1], ").replace("for i in range(int(sys.argv[2])):",
                       "for i in range(6):\n    sys.argv[1] = sys.argv[2] if i % 2 else sys.argv[3]"), "", OUTSIDE, netlab.OUTSIDE6, ok=True).out
        assert mixed.count("open") == 3, mixed
        # at once, for those that begin from then on
        b.berth("update", "--network-connections", "4", "few", ok=True)
        b.wait_for(lambda: opened(x, OUTSIDE, 6) == ["open"] * 4 + [refused] * 2, 10, "the new limit")
        b.berth("update", "--network-connections", "unlimited", "few", ok=True)
        assert opened(x, OUTSIDE, 20) == ["open"] * 20
        b.berth("update", "--network-connections", "1", "few", ok=True)
        b.wait_for(lambda: opened(x, OUTSIDE, 2) == ["open", refused], 10, "a limit again")
        b.berth("restart", "few", ok=True)
        assert opened(x, OUTSIDE, 2) == ["open", refused], "and it lasts"
        assert events("network-limit", sandbox="few"), "the event of it"
        r = x.exec("python3", "-c", OPEN + "sys.exit(4)", OUTSIDE, "3", verdict=True)
        assert r.code == 4 and r.verdict["cause"] == "network", r.verdict
        r = x.exec("sh", "-c", "exit 4", verdict=True)
        assert r.verdict["cause"] == "exit", "a command that met no limit"
        for n in ("few", "other"):
            b.berth("stop", n, ok=True)
        assert netlab.elements() == 0 and not [c for c in netlab.ruleset() if "limit-" in c.get("chain", {}).get("name", "")]
        lab.untouched()


def test_bridge_verdict_of_run():
    need_bridge()
    big = b"y" * 3_000_000
    with Lab(forwarding=True, answer=lambda path, headers: (200, {}, big)):
        r = b.run(*BRIDGE, "host", "sh", "-c", f"curl -s -o /dev/null http://{OUTSIDE}/; curl -s -m 5 http://{METADATA}/; exit 0", verdict=True)
        net = r.verdict["network"]
        assert r.verdict["cause"] == "exit" and net["bytes_in"] > 3_000_000 and net["bytes_out"] > 100, r.verdict
        assert net["denied"] >= 1 and net["over_limit"] == 0 and not net["budget_exhausted"], net
        r = b.run("--json", *BRIDGE, "--network-bytes", "1m", "host", "curl", "-s", "-m", "10", "-o", "/dev/null", f"http://{OUTSIDE}/")
        v = json.loads(r.out.splitlines()[-1])
        assert r.code == 28 and v["cause"] == "network" and v["network"]["budget_exhausted"], v
        r = b.run(*BRIDGE, "--network-connections", "1", "host", "python3", "-c", OPEN + "sys.exit(5)", OUTSIDE, "2", verdict=True)
        assert r.code == 5 and r.verdict["cause"] == "network" and r.verdict["network"]["over_limit"] >= 1, r.verdict
        assert {"network-denied", "network-budget", "network-limit"} <= {e["event"] for e in events()}


def test_bridge_denials_are_events():
    need_bridge()
    with Lab(forwarding=True) as lab, Box("--name", "curious", *BRIDGE) as x:
        assert x.exec("curl", "-s", "-m", "20", f"http://{METADATA}/").code == 7
        b.wait_for(lambda: events("network-denied", sandbox="curious"), 5, "the event")
        # however much is refused, a few events
        x.exec("python3", "-c", f"import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nfor i in range(2000):\n"
               f"    try: s.sendto(b'x', ('{METADATA}', 9))\n    except OSError: pass", ok=True)
        b.wait_for(lambda: sum(e["packets"] for e in events("network-denied", sandbox="curious")) >= 2001, 15, "all of them counted")
        assert len(events("network-denied", sandbox="curious")) < 40
        # what is refused on the way to the host counts too
        before = described("curious")["denied"]
        assert x.exec("curl", "-s", "-m", "20", f"http://{HOST}/").code == 7
        assert described("curious")["denied"] > before
        assert "network-denied" in b.berth("events", "curious", ok=True).out
        lab.untouched()


def test_egress_denials_are_events():
    need_net()
    with Lab() as lab, Box("--name", "asker", *BASE, "--allow-host", "outside.test") as x:
        x.exec("curl", "-s", "http://no.test:8080/", ok=True)
        b.wait_for(lambda: events("network-denied", sandbox="asker"), 5, "the event")
        e = events("network-denied", sandbox="asker")[0]
        assert e["host"] == "no.test" and e["port"] == 8080 and "no rule" in e["reason"] and e["protocol"] == "http", e
        assert x.exec("curl", "-s", "http://outside.test/", ok=True).out
        x.exec("sh", "-c", "for i in $(seq 300); do echo url=http://n$i.test/; done | curl -s -o /dev/null -K -", ok=True)
        told = events("network-denied", sandbox="asker")
        assert 2 <= len(told) < 300, len(told)
        x.exec("python3", "-c", OPEN_PROXY, ok=True)
        b.wait_for(lambda: [e for e in events("network-denied", sandbox="asker") if e.get("left_out")], 10, "what was left out")
        assert "outside.test" not in {e["host"] for e in events("network-denied")}, "what is allowed is none"
        # a run's are kept as well, when its log has gone
        r = b.run(*BASE, "host", "curl", "-s", "http://run.test/", ok=True)
        assert "allowed by no rule" in r.out
        assert [e for e in events("network-denied") if e["host"] == "run.test"]
        lab.untouched()


# Refusals over more than a second: the ones that were too many are told with a later one.
OPEN_PROXY = """
import socket, time
end = time.monotonic() + 1.5
while time.monotonic() < end:
    s = socket.create_connection(("127.0.0.1", 3128), 10)
    s.sendall(b"CONNECT m.test:80 HTTP/1.1\\r\\n\\r\\n")
    s.recv(100)
    s.close()
"""


def budget_over_restarts(options, url):
    """Three answers of 3 MB fit in a budget of 10 MiB, and no fourth."""
    def fetch(x):
        # quiet for some seconds: on a bridge nothing tells the client that its packets are dropped
        return b.berth("exec", "thrifty", "curl", "-sf", "--connect-timeout", "10", "-y", "5", "-m", "60", "-o", "/tmp/f", url).code == 0

    with Box("--name", "thrifty", *options, "--network-bytes", "10m") as x:
        assert fetch(x)
        used = described("thrifty")["budget"]["bytes_used"]
        assert used > 3_000_000, used
        b.berth("stop", "thrifty", ok=True)
        stopped = described("thrifty")["budget"]["bytes_used"]
        assert stopped >= used, (stopped, used)
        b.berth("start", "thrifty", ok=True)
        net = described("thrifty")
        assert net["budget"]["bytes"] == 10 << 20 and net["budget"]["bytes_used"] >= stopped and net["bytes_in"] < 1_000_000, net
        assert fetch(x) and fetch(x)
        # the keeper is killed: what was used is not forgotten
        used = described("thrifty")["budget"]["bytes_used"]
        b.wait_for(lambda: saved(x) >= used - 100_000 or options is BRIDGE, 10, "the record")
        proc.kill(x.keeper)
        b.wait_for(lambda: not proc.alive(x.keeper), 5, "the keeper's end")
        proc.reap_orphans(os.getpid())
        b.berth("gc", ok=True)
        b.berth("start", "thrifty", ok=True)
        assert described("thrifty")["budget"]["bytes_used"] >= used - 100_000, used
        assert not fetch(x), "the fourth is over the budget"
        assert described("thrifty")["budget_exhausted"]
        assert events("network-budget", sandbox="thrifty") or b.wait_for(lambda: events("network-budget", sandbox="thrifty"), 5)
        b.berth("update", "--network-bytes", "20m", "thrifty", ok=True)
        net = described("thrifty")
        assert not net["budget_exhausted"] and net["budget"]["bytes"] == 20 << 20, net
        assert fetch(x)
        b.berth("stop", "thrifty", ok=True)
        b.berth("update", "--network-bytes", "1m", "thrifty", ok=True)
        b.berth("start", "thrifty", ok=True)
        assert not fetch(x), "less than was used already"
        b.berth("rm", "--force", "thrifty", ok=True)
        b.berth("create", "--name", "thrifty", *options, "--network-bytes", "10m", "host", ok=True)
        assert described("thrifty")["budget"]["bytes_used"] < 1000, "another of that name begins anew"
        b.berth("rm", "--force", "thrifty", ok=True)


def saved(x):
    try:
        with open(os.path.join(b.root(), "state", "sandboxes", x.id, "network-used.json")) as f:
            return json.load(f)["bytes"]
    except FileNotFoundError:
        return 0


BIG = b"y" * 3_000_000


@b.deadline(180)
@b.long_proof("starts a sandbox many times")
def test_bridge_budgets_outlive_a_start():
    need_bridge()
    with Lab(forwarding=True, answer=lambda path, headers: (200, {}, BIG)):
        budget_over_restarts(BRIDGE, f"http://{OUTSIDE}/")


@b.deadline(180)
def test_egress_budgets_outlive_a_start():
    need_net()
    with Lab(answer=lambda path, headers: (200, {}, BIG)):
        budget_over_restarts((*BASE, "--allow-host", "outside.test"), "http://outside.test/")
        with Box("--name", "two", *BASE, "--allow-host", "outside.test", "--network-connections", "2") as x:
            def fetch():
                return x.exec("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://outside.test/").out

            assert fetch() == "200"
            b.berth("restart", "two", ok=True)
            assert fetch() == "200" and fetch() == "403", "connections too"
            assert described("two")["budget"]["connections_used"] == 2


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


def http(address, port, ns=None, timeout=20):
    with within(ns) if ns is not None else contextlib.nullcontext():
        s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    with contextlib.closing(s):
        s.settimeout(timeout * b.SLOW)
        try:
            s.connect((address, port))
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            data = b""
            while piece := s.recv(65536):
                data += piece
            return data[:12]
        except OSError:
            return None


def echo(address, port, text):
    with contextlib.closing(socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)) as u:
        u.settimeout(20 * b.SLOW)
        u.sendto(text, (address, port))
        return u.recv(3000)


def test_published_ports_answer_on_the_loopback():
    need_bridge()
    options = ("-p", "0.0.0.0:8080:8000", "-p", "[::]:8080:8000", "-p", "127.0.0.1:8081:8000", "-p", f"{HOST}:8082:8000", "-p", "5300:5353/udp",
               "-p", "8089:9", "-p", "8090:8000")
    with Lab(forwarding=True) as lab:
        with Box("--name", "server", *BRIDGE, *options) as x, Box("--name", "neighbour", *BRIDGE) as other:
            x.main.detach("python3", "-c", SERVER)
            b.wait_for(lambda: http("127.0.0.1", 8080), 20, "the published port")
            assert described("server")["loopback"] == "running"
            for address, port in (("127.0.0.1", 8080), ("::1", 8080), ("127.0.0.1", 8081), (HOST, 8080), (HOST, 8082),
                                  ("127.0.0.1", 8090), ("::1", 8090)):
                assert http(address, port) == b"HTTP/1.0 200", (address, port)
            assert http("::1", 8081) is None and http("127.0.0.1", 8082) is None, "of one address only"
            assert http(HOST, 8081, lab.outside, 1) is None, "127.0.0.1 is not for the world"
            assert http(HOST, 8090, lab.outside, 1) is None and http(HOST, 8090) is None, "nor is a port without an address"
            assert http("127.0.0.1", 8089) is None, "nobody listens in there"
            for address in ("127.0.0.1", "::1"):
                assert echo(address, 5300, b"x") == b"echo x" and echo(address, 5300, b"y" * 1200) == b"echo " + b"y" * 1200
            with open("/proc/sys/net/ipv4/conf/berth0/route_localnet") as f:
                assert f.read() == "0\n", "the bridge cannot be used to reach 127.0.0.1"
            assert other.exec("curl", "-s", "-m", "5", "http://127.0.0.1:8080/").code == 7, "each has a loopback of its own"
            # what a program of the host holds is not taken from it
            with contextlib.closing(socket.socket()) as s:
                s.bind(("127.0.0.1", 8123))
                s.listen()
                b.one_line_error(b.run(*BRIDGE, "-p", "8123:80", "host", "true"), 125, "8123", "a program of this host", "hint")
                b.run(*BRIDGE, "-p", f"{HOST}:8123:80", "host", "true", ok=True)
            helpers = [p for p in proc.descendants(x.keeper) if "berth-net" in proc.cmdline(p)]
            assert len(helpers) == 1
            status = open(f"/proc/{helpers[0]}/status").read()
            assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status, status
            assert not [p for p in proc.descendants(other.keeper) if "berth-net" in proc.cmdline(p)], "none without a port"
            os.kill(helpers[0], signal.SIGKILL)
            b.wait_for(lambda: described("server")["loopback"] == "gone", 5)
            assert http("127.0.0.1", 8080) is None and http(HOST, 8080) == b"HTTP/1.0 200"
            b.berth("restart", "server", ok=True)
            b.berth("exec", "--detach", "server", "python3", "-c", SERVER, ok=True)
            b.wait_for(lambda: http("::1", 8080), 20, "the published port again")
        assert http("127.0.0.1", 8080) is None
