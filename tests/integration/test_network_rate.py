# SPDX-License-Identifier: Apache-2.0
"""
--network-rate: what passes takes the time that its rate says, in each direction, by the kernel's token buckets on a
bridge and by the proxy's of an egress sandbox.  Attacks S20 of SECURITY.md.  The times are lower bounds: the bytes
beyond one burst, divided by the rate.
"""
import json
import os
import subprocess
import time

import berthtest as b
from box import Box
from netlab import BASE, BRIDGE, OUTSIDE, Lab, need_bridge, need_net, ports, within

COST = 25
RATE, SIZE = 256 << 10, 256 << 10
BURST = 16 << 10
LEAST = (SIZE - BURST) / RATE
URL = "http://outside.test/"
EGRESS = (*BASE, "--allow-host", "outside.test")

# Asks the kernel to remove the qdisc of eth0, as root of the sandbox (RTM_DELQDISC).
REMOVE = """
import socket, struct
body = struct.pack("BxxxiIII", 0, socket.if_nametoindex("eth0"), 0, 0xffffffff, 0)
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.send(struct.pack("IHHII", 16 + len(body), 37, 5, 1, 0) + body)
print(struct.unpack("i", s.recv(4096)[16:20])[0])
"""


def lab(**kw):
    return Lab(answer=lambda path, headers: (200, {}, b"x" * (SIZE if path == "/big" else 2)), **kw)


def seconds(x, *curl):
    """What curl says it took, the connection and the answer included."""
    r = x.exec("curl", "-sS", "--max-time", str(60 * b.SLOW), "-o", "/dev/null", "-w", "%{time_total} %{size_download} %{size_upload}",
               *curl, ok=True)
    took, down, up = r.out.split()
    assert SIZE in (int(down), int(up)), r
    return float(took)


def both_ways(x):
    x.exec("sh", "-c", f"head -c {SIZE} /dev/zero > /tmp/big", ok=True)
    return seconds(x, URL + "big"), seconds(x, "--data-binary", "@/tmp/big", URL)


def qdiscs(x):
    """The one of our end of the pair, and that of the sandbox's."""
    def of(name):
        words = subprocess.run(["ip", "-o", "link", "show", name], check=True, capture_output=True, text=True).stdout.split()
        return words[words.index("qdisc") + 1]
    ns = os.open(f"/proc/{x.init}/ns/net", os.O_RDONLY)
    try:
        with within(ns):
            inside = of("eth0")
        return of(ports()[0]), inside
    finally:
        os.close(ns)


def described(x):
    return json.loads(b.berth("network", "inspect", "--json", x.id, ok=True).out)


def test_bridge_both_directions_take_their_time():
    need_bridge()
    with lab(forwarding=True), Box(*BRIDGE, "--network-rate", "256k", "--add-host", f"outside.test:{OUTSIDE}") as x:
        assert qdiscs(x) == ("tbf", "tbf")
        assert described(x)["rate"] == {"bytes_per_second": RATE, "burst_bytes": BURST}, described(x)
        # the kernel counts the packets' heads, too
        assert min(both_ways(x)) >= LEAST, both_ways(x)
        r = x.exec("python3", "-c", REMOVE)
        assert r.code != 0 or int(r.out) < 0, r
        assert qdiscs(x) == ("tbf", "tbf")


def test_egress_both_directions_take_their_time():
    need_net()
    with lab(), Box(*EGRESS, "--network-rate", "256k") as x:
        assert described(x)["rate"]["bytes_per_second"] == RATE
        down, up = both_ways(x)
        assert down >= LEAST and up >= LEAST, (down, up)


def test_egress_connections_share_one_rate():
    need_net()
    with lab(), Box(*EGRESS, "--network-rate", "512k") as x:
        script = f"curl -sS -o /dev/null {URL}big & curl -sS -o /dev/null {URL}big & curl -sS -o /dev/null {URL}big & wait"
        r = x.exec("sh", "-c", script, options=("--json",), ok=True)
        assert json.loads(r.out.splitlines()[-1])["wall_ms"] >= 1000 * (3 * SIZE - (512 << 10) // 20) / (512 << 10), r


def test_egress_many_small_requests_are_no_way_around_it():
    """What comes with the head of a request is on its way before the rate is asked."""
    need_net()
    with lab(), Box(*EGRESS, "--network-rate", "256k") as x:
        x.exec("sh", "-c", "head -c 16000 /dev/zero > /tmp/part", ok=True)
        script = f"for i in $(seq 25); do curl -sS -o /dev/null --data-binary @/tmp/part {URL} || exit 1; done"
        r = x.exec("sh", "-c", script, options=("--json",), ok=True)
        # the last one's body, and a burst
        assert json.loads(r.out.splitlines()[-1])["wall_ms"] >= 1000 * (24 * 16000 - BURST) / RATE, r


def test_it_changes_live():
    need_bridge()
    with lab(forwarding=True):
        for options in ((*BRIDGE, "--add-host", f"outside.test:{OUTSIDE}"), EGRESS):
            with Box(*options) as x:
                bridge = options[1] == "bridge"
                assert "rate" not in described(x) and (not bridge or qdiscs(x)[0] != "tbf")
                b.berth("update", "--network-rate", "256k", x.id, ok=True)
                assert described(x)["rate"]["bytes_per_second"] == RATE and (not bridge or qdiscs(x) == ("tbf", "tbf"))
                assert min(both_ways(x)) >= LEAST
                # a connection that it holds back goes on at the new rate
                b.berth("update", "--network-rate", "8192bit", x.id, ok=True)
                with b.start("exec", x.id, "curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}", URL + "big") as p:
                    b.wait_for(lambda: x.exec("true").code == 0 and described(x)["bytes_in"] > 0, 20, "the first bytes")
                    b.berth("update", "--network-rate", "unlimited", x.id, ok=True)
                    assert p.communicate(timeout=60 * b.SLOW)[0].decode() == str(SIZE)
                assert "rate" not in described(x) and (not bridge or qdiscs(x)[0] != "tbf")
                # what was changed holds after the next start
                b.berth("update", "--network-rate", "10mbit", x.id, ok=True)
                b.berth("restart", x.id, ok=True)
                assert described(x)["rate"]["bytes_per_second"] == 1250000, described(x)


def test_a_run_has_it_and_leaves_nothing():
    need_bridge()
    with lab(forwarding=True):
        for options in ((*BRIDGE, "--add-host", f"outside.test:{OUTSIDE}"), EGRESS):
            r = b.run(*options, "--network-rate", "256k", "host", "curl", "-sS", "-o", "/dev/null", URL + "big", verdict=True, ok=True)
            assert r.verdict["wall_ms"] >= 1000 * LEAST, r.verdict


def test_what_cannot_be_bounded_is_refused():
    for mode in ("none", "host"):
        b.one_line_error(b.run("--network", mode, "--network-rate", "1m", "host", "true"), 2, "network-rate")
    b.one_line_error(b.run("--network", "bridge", "--cap-add", "NET_ADMIN", "--network-rate", "1m", "host", "true"), 2, "NET_ADMIN")
    for value in ("0", "fast", "1", "-1", "10mbits", "bit", "kbit", "8191bit", "1mbit1", "99999999999gbit"):
        b.one_line_error(b.run("--network", "egress", "--network-rate", value, "host", "true"), 2, "network-rate")
    for value, rate in (("10mbit", 1250000), ("8192bit", 1024), ("1g", 1 << 30), ("16kbit", 2000)):
        plan = json.loads(b.run("--network", "egress", "--network-rate", value, "--dry-run", "--json", "host", "true", ok=True).out)
        assert str(rate) in json.dumps(plan), (value, plan)
    need_bridge()
    with lab(forwarding=True):
        for name in ("one", "two"):
            b.berth("network", "create", "--internal", name, ok=True)
        with Box("--network", "one", "--network-rate", "1m") as x, Box("--network", "one") as y:
            b.one_line_error(b.berth("network", "connect", "two", x.id), 125, "--network-rate")
            b.berth("network", "connect", "two", y.id, ok=True)
            b.one_line_error(b.berth("update", "--network-rate", "1m", y.id), 125, "several networks")
        b.berth("network", "rm", "one", "two", ok=True)


# ---- the rate of a network ---------------------------------------------------------------------

def network(name, rate, *options, **kw):
    return b.berth("network", "create", "--network-rate", rate, *options, name, **kw)


def together(boxes, *curl):
    """Milliseconds until all of the sandboxes have moved SIZE twice."""
    began = time.monotonic()
    running = [b.start("exec", "--json", x.id, "sh", "-c", "for i in 1 2; do curl -sS -o /dev/null " + " ".join(curl) + " || exit 1; done")
               for x in boxes]
    for p in running:
        _, err = p.communicate(timeout=60 * b.SLOW)
        assert p.returncode == 0, err
        p.stdout.close()
        p.stderr.close()
    return (time.monotonic() - began) * 1000


@b.deadline(180)
def test_members_of_a_network_share_its_rate_in_each_direction():
    need_bridge()
    with lab(forwarding=True):
        made = json.loads(network("slow", "256k", "--json", ok=True).out)
        assert made["max_rate"] == RATE, made
        assert json.loads(b.berth("network", "inspect", "--json", "slow", ok=True).out)["max_rate"] == RATE
        options = ("--network", "slow", *BRIDGE[2:], "--add-host", f"outside.test:{OUTSIDE}")
        with Box(*options) as x, Box(*options) as y:
            # a second's worth and 128 KiB at once, and the rest by the rate
            least = 1000 * (4 * SIZE - RATE - (128 << 10)) / RATE
            assert together((x, y), URL + "big") >= least
            for box in (x, y):
                box.exec("sh", "-c", f"head -c {SIZE} /dev/zero > /tmp/big", ok=True)
            assert together((x, y), "--data-binary", "@/tmp/big", URL) >= least
        b.berth("network", "rm", "slow", ok=True)


SERVE = """
import socket
s = socket.create_server(("", 9000))
c, _ = s.accept()
n = 0
while data := c.recv(65536):
    n += len(data)
print(n)
"""
SEND = """
import socket, sys, time
for i in range(1000):
    try:
        c = socket.create_connection((sys.argv[1], 9000))
        break
    except OSError:
        time.sleep(0.01)
c.sendall(bytes(4 << 20))
"""


@b.deadline(120)
def test_what_members_send_each_other_is_not_counted():
    need_bridge()
    with lab(forwarding=True):
        network("slow", "8192bit", ok=True)
        with Box("--network", "slow", "--name", "server") as x, Box("--network", "slow") as y:
            with b.start("exec", x.id, "python3", "-c", SERVE) as p:
                # by its rate this would take an hour
                y.exec("python3", "-c", SEND, "server", ok=True)
                assert int(p.communicate(timeout=60 * b.SLOW)[0]) == 4 << 20
        b.berth("network", "rm", "slow", ok=True)


def test_a_rate_that_nothing_enforces_is_refused():
    for options in (["--internal"], ["--allow-host", "outside.test"], ["--network-bytes", "1g"], ["--tenant", "t"]):
        b.one_line_error(network("n", "1m", *options), 2, "--network-rate bounds what passes the bridge", "hint:")
    b.one_line_error(network("n", "1"), 2, "out of range")
    b.one_line_error(network("n", "fast"), 2, "network-rate")
    assert json.loads(b.berth("network", "ls", "--named", "--json", ok=True).out) == []
    made = json.loads(network("n", "unlimited", "--json", ok=True).out)
    assert "max_rate" not in made, made
    b.berth("network", "rm", "n", ok=True)
