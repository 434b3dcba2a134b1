# SPDX-License-Identifier: Apache-2.0
"""
Networks that are joined and left while others act: who lies on an interface that came later, who takes a name that
another has, who is removed or killed while it joins.  Attacks S20 and S45 of SECURITY.md.
"""
import concurrent.futures
import contextlib
import json

import berthtest as b
import netlab
import proc
from box import Box
from netlab import Lab, need_bridge
from test_networks import FRAMES, LISTEN, RAW, SNIFF, arp_frame, mac_of, udp_frame

COST = 30

# How often NAME is answered with each set of addresses, until /tmp/end is there.
ASK = """
import os, socket, sys
seen = {}
while not os.path.exists("/tmp/end"):
    try:
        got = ",".join(sorted({a[4][0] for a in socket.getaddrinfo(sys.argv[1], None, socket.AF_INET)}))
    except socket.gaierror as e:
        got = "none" if e.errno in (socket.EAI_NONAME, -5) else f"error {e.errno}"
    seen[got] = seen.get(got, 0) + 1
for k, v in seen.items():
    print(k, v)
"""


def inspect(name):
    return json.loads(b.berth("network", "inspect", "--json", name, ok=True).out)


def connect(*args, **kw):
    return b.berth("network", "connect", *args, **kw)


def disconnect(*args, **kw):
    return b.berth("network", "disconnect", *args, **kw)


@contextlib.contextmanager
def networks(*names):
    try:
        for n in names:
            b.berth("network", "create", "--internal", n, ok=True)
        yield
    finally:
        b.berth("network", "prune", timeout=30)


@b.deadline(120)
def test_S20_a_member_cannot_lie_on_a_network_that_it_joined_later():
    need_bridge()
    with Lab(forwarding=True), networks("app", "back"), Box("--name", "victim", "--network", "app", *RAW) as victim, \
            Box("--name", "friend", "--network", "app"), Box("--name", "liar", "--network", "back", *RAW) as liar:
        connect("app", "liar", ok=True)
        to, honest, first = (inspect(n)["address"] for n in ("victim", "friend", "liar"))
        own = inspect("liar")["networks"][0]["address"]
        gateway = to.rsplit(".", 1)[0] + ".1"
        for program, out in ((LISTEN, "heard"), (SNIFF, "seen")):
            victim.main.detach("sh", "-c", f'exec python3 -c "$0" >/tmp/{out}', program)
            b.wait_for(lambda out=out: "up" in victim.exec("cat", "/tmp/" + out).out, 10, out)
        frames = []
        for mac in (mac_of(gateway), mac_of(to), "ffffffffffff"):
            for src_mac in (mac_of(own), mac_of(first), mac_of(honest), mac_of(gateway)):
                for src in (honest, gateway, first, "8.8.8.8", to, own):
                    if (src_mac, src) != (mac_of(own), own):
                        frames.append(udp_frame(mac, src_mac, src, to, b"lie!"))
                for operation in (1, 2):
                    frames += [arp_frame(mac, src_mac, claim, to, operation) for claim in (honest, gateway, own)]
        frames.append(udp_frame(mac_of(to), mac_of(own), own, to, b"side"))
        frames.append(udp_frame(mac_of(gateway), mac_of(own), own, to, b"end"))
        lines = "\n".join(f.hex() for f in frames)
        # the same by the first interface reaches nobody, true or not
        liar.exec("python3", "-c", FRAMES, input=lines, ok=True)
        liar.exec("python3", "-c", FRAMES.replace("eth0", "eth1"), input=lines, ok=True)
        heard = b.wait_for(lambda: (lambda t: t if "end" in t else None)(victim.exec("cat", "/tmp/heard").out), 10, "the true datagram")
        assert set(heard.split("\n")[1:-1]) == {f"{own} end"}, heard
        seen = [line.split() for line in victim.exec("cat", "/tmp/seen").out.split("\n")[1:] if line]
        assert not [kind for kind, _ in seen if kind == "0806"] and {mac for _, mac in seen} <= {mac_of(gateway)}, seen
        # once it has left, its interface is gone, and what it sends in its former name by the other one goes nowhere
        disconnect("app", "liar", ok=True)
        victim.exec("sh", "-c", "true", ok=True)
        liar.exec("python3", "-c", FRAMES, input=lines, ok=True)
        assert liar.exec("python3", "-c", FRAMES.replace("eth0", "eth1"), input=lines).code != 0


@b.deadline(120)
def test_S45_a_name_that_several_take_and_leave_at_once_is_only_ever_theirs():
    need_bridge()
    with Lab(forwarding=True), networks("app", "back"), contextlib.ExitStack() as stack:
        boxes = [stack.enter_context(Box("--name", f"m{i}", "--network", "back")) for i in range(3)]
        client = stack.enter_context(Box("--name", "client", "--network", "app"))
        asked = client.main.detach("python3", "-c", ASK, "db")
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(3))
        joined = set()

        def turn(i):
            for _ in range(4):
                connect("--alias", "db", "app", f"m{i}", ok=True)
                joined.add(inspect(f"m{i}")["networks"][0]["address"])
                disconnect("app", f"m{i}", ok=True)
        list(pool.map(turn, range(3)))
        client.exec("touch", "/tmp/end", ok=True)
        assert client.main.wait(asked)["exit_status"] == 0
        got = {line.split()[0]: int(line.split()[1]) for line in client.main.output(asked)[0].decode().splitlines()}
        assert got and set(got) - {"none"} <= {",".join(sorted(c)) for c in subsets(joined)}, (got, joined)
        assert client.exec("getent", "hosts", "db").code != 0, "nobody has the name any more"
        # a taker of a member's own name does not hide that member
        connect("--alias", "client", "app", "m0", ok=True)
        both = client.exec("getent", "ahostsv4", "client", ok=True).out
        assert inspect("client")["address"] in both, both
        assert {m["name"] for m in inspect("app")["members"]} == {"client", "m0"}, inspect("app")
        del boxes


def subsets(of):
    found = [[]]
    for one in of:
        found += [f + [one] for f in found]
    return found[1:]


@b.deadline(180)
def test_L08_one_that_is_removed_stopped_or_killed_while_it_joins_leaves_nothing():
    need_bridge()
    with Lab(forwarding=True), networks("app", "back"), concurrent.futures.ThreadPoolExecutor(4) as pool:
        for i, how in enumerate(("rm", "stop", "kill", "disconnect") * b.times(2, 6)):
            name = f"x{i}"
            b.berth("create", "--name", name, "--network", "back", "host", ok=True)
            keeper = json.loads(b.berth("inspect", name, ok=True).out)["supervisor_pid"]
            joins = [pool.submit(connect, "--alias", "db", "app", name) for _ in range(2)]
            ends = {"rm": lambda: b.berth("rm", "-f", name), "stop": lambda: b.berth("stop", "--grace", "0", name),
                    "kill": lambda: proc.kill(keeper), "disconnect": lambda: disconnect("app", name)}
            pool.submit(ends[how]).result()
            for j in joins:
                assert j.result().code in (0, 125), j.result()
            # what a killed keeper left may just be cleared by another berth: it says to try again
            b.wait_for(lambda name=name: b.berth("rm", "-f", name).code == 0, 20, "its removal")
            b.berth("gc", timeout=60, ok=True)
            assert inspect("app")["members"] == [] and inspect("back")["members"] == [], (how, inspect("app"))
            b.wait_for(lambda: not netlab.ports(), 10, lambda: f"after {how} the end of {netlab.ports()}")
        b.berth("network", "rm", "app", "back", ok=True)
