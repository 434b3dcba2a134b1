# SPDX-License-Identifier: Apache-2.0
"""A sandbox on several networks: berth network connect and disconnect.  Attacks S20 of SECURITY.md."""
import contextlib
import json
import os
import signal
import subprocess

import berthtest as b
import netlab
from box import Box
from netlab import DNS, OUTSIDE, Lab, need_bridge
from test_network_names import A, NXDOMAIN, OK, ask, inspect, networks
from test_networks import bridges, gone, reaches, serve

COST = 30


def connect(*args, **kw):
    return b.berth("network", "connect", *args, **kw)


def disconnect(*args, **kw):
    return b.berth("network", "disconnect", *args, **kw)


def shut(x, address, port=8000):
    """What goes nowhere may be dropped without a word."""
    return x.exec("curl", "-s", "-m", "2", "-o", "/dev/null", f"http://[{address}]:{port}/" if ":" in address else f"http://{address}:{port}/").code != 0


@b.deadline(120)
def test_a_running_sandbox_joins_and_leaves_networks():
    need_bridge()
    with Lab(forwarding=True) as lab, networks(["front"], ["back"], ["--internal", "deep"]), contextlib.ExitStack() as stack:
        web, db, vault = (stack.enter_context(Box("--name", n, "--network", net, "--dns", DNS)) if net != "deep" else
                          stack.enter_context(Box("--name", n, "--network", net)) for n, net in (("web", "front"), ("db", "back"), ("vault", "deep")))
        for x in (web, db, vault):
            serve(x)
        at = {n: inspect(n)["address"] for n in ("web", "db", "vault")}
        assert shut(web, at["db"]) and ask(web, ("db", A)) == [(NXDOMAIN, [])]
        connect("--alias", "www", "back", "web", ok=True)
        connect("deep", "web", ok=True)
        joined = {n["network"]: n for n in inspect("web")["networks"]}
        assert joined["back"]["interface"] == 1 and joined["deep"]["interface"] == 2, joined
        assert reaches(web, at["db"]) and reaches(web, at["vault"]) and reaches(db, joined["back"]["address"]) and reaches(vault, joined["deep"]["address"])
        assert ask(web, ("db", A), ("vault", A), ("web", A)) == [(OK, [at["db"]]), (OK, [at["vault"]]), (OK, [at["web"]])]
        assert ask(db, ("web", A), ("www", A), ("vault", A)) == [(OK, [joined["back"]["address"]])] * 2 + [(NXDOMAIN, [])]
        assert shut(db, at["web"]) and shut(db, at["vault"]) and shut(vault, at["db"]), "it is no way from one to another"
        assert reaches(web, OUTSIDE, 80) and shut(vault, OUTSIDE, 80)
        assert sorted(m["name"] for m in inspect("back")["members"]) == ["db", "web"]
        b.one_line_error(connect("back", "web"), 125, "already")
        b.one_line_error(connect("front", "web"), 125, "already")
        b.one_line_error(connect("nowhere", "web"), 125, "no network named nowhere", "hint")
        b.one_line_error(disconnect("front", "web"), 125, "was made on network front", "hint")
        b.one_line_error(b.berth("network", "rm", "deep"), 125, "members")
        disconnect("back", "web", ok=True)
        assert ask(web, ("db", A)) == [(NXDOMAIN, [])] and shut(web, at["db"]) and ask(db, ("web", A)) == [(NXDOMAIN, [])]
        assert [n["network"] for n in inspect("web")["networks"]] == ["deep"]
        connect("back", "web", ok=True)
        assert reaches(web, at["db"]) and reaches(web, at["vault"])
        lab.untouched()


def test_what_a_sandbox_joined_it_joins_at_each_start():
    need_bridge()
    with Lab(forwarding=True), networks(["front"], ["back"]), Box("--name", "db", "--network", "back") as db:
        b.berth("create", "--name", "web", "--network", "front", "host", ok=True)
        connect("--alias", "www", "back", "web", ok=True)
        b.berth("stop", "web", ok=True)
        assert ask(db, ("www", A)) == [(NXDOMAIN, [])]
        assert {m["name"]: m["status"] for m in inspect("back")["members"]} == {"db": "running", "web": "stopped"}
        b.berth("start", "web", ok=True)
        address = inspect("web")["networks"][0]["address"]
        assert ask(db, ("www", A), ("web", A)) == [(OK, [address])] * 2
        # its keeper's death leaves nothing on either network
        pid = json.loads(b.berth("inspect", "web", ok=True).out)["supervisor_pid"]
        os.kill(pid, signal.SIGKILL)
        b.wait_for(lambda: not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z",
                   10, "the keeper's end")
        b.berth("gc", ok=True)
        assert len(bridges()) == 1 and ask(db, ("web", A)) == [(NXDOMAIN, [])]
        # stopped, it leaves, and joins again by its record
        disconnect("back", "web", ok=True)
        b.one_line_error(disconnect("back", "web"), 125, "did not join")
        assert [m["name"] for m in inspect("back")["members"]] == ["db"]
        connect("back", "web", ok=True)
        b.berth("start", "web", ok=True)
        assert len(ask(db, ("web", A))[0][1]) == 1
        b.berth("rm", "--force", "web", ok=True)
        assert ask(db, ("web", A)) == [(NXDOMAIN, [])]
    gone()


def test_a_sandbox_that_is_renamed_is_found_by_its_new_name():
    need_bridge()
    with Lab(forwarding=True), networks(["front"], ["back"]), Box("--name", "db", "--network", "back") as db, \
            Box("--name", "web", "--network", "front", "--alias", "site") as web:
        connect("--alias", "www", "back", "web", ok=True)
        b.berth("rename", "web", "shop", ok=True)
        mine = inspect("shop")
        address = mine["networks"][0]["address"]
        assert ask(db, ("web", A), ("shop", A), ("www", A), ("site", A)) == [(NXDOMAIN, []), (OK, [address]), (OK, [address]), (NXDOMAIN, [])]
        assert ask(web, ("web", A), ("shop", A), ("site", A), ("www", A)) == [(NXDOMAIN, [])] + [(OK, [mine["address"]])] * 2 + [(OK, [address])]
        disconnect("back", "shop", ok=True)
        connect("back", "shop", ok=True)
        assert ask(db, ("web", A))[0][0] == NXDOMAIN and ask(db, ("shop", A))[0][0] == OK, "it joins by the name that it has now"
        b.berth("stop", "shop", ok=True)
        b.berth("rename", "shop", "web", ok=True)
        b.berth("start", "web", ok=True)
        assert ask(db, ("shop", A))[0][0] == NXDOMAIN and ask(db, ("web", A))[0][0] == OK


@b.deadline(120)
def test_a_running_sandbox_on_the_nameless_bridge_joins_networks():
    need_bridge()
    with Lab(forwarding=True) as lab, networks(["front"], ["--internal", "deep"]), \
            Box("--name", "web", "--network", "bridge", "--dns", DNS, "--publish", "127.0.0.1:18080:8000", "--add-host", "fixed:192.0.2.7") as web, \
            Box("--name", "db", "--network", "front", "--dns", DNS) as db, Box("--name", "vault", "--network", "deep") as vault:
        for x in (web, db, vault):
            serve(x)
        before = web.exec("cat", "/etc/resolv.conf").out
        assert "127.0.0.11" not in before and shut(web, inspect("db")["address"])
        address = inspect("web")["address"]
        connect("--alias", "www", "front", "web", ok=True)
        connect("deep", "web", ok=True)
        mine = inspect("web")
        joined = {n["network"]: n["address"] for n in mine["networks"]}
        assert "network" not in mine and mine["address"] == address and mine["resolver"] == "running", mine
        assert reaches(web, inspect("db")["address"]) and reaches(web, inspect("vault")["address"])
        assert ask(web, ("db", A), ("vault", A), ("web", A)) == [(OK, [inspect("db")["address"]]), (OK, [inspect("vault")["address"]]), (OK, [joined["front"]])]
        assert ask(db, ("web", A), ("www", A), ("vault", A)) == [(OK, [joined["front"]])] * 2 + [(NXDOMAIN, [])]
        assert reaches(db, joined["front"]) and shut(db, address) and shut(db, joined["deep"]) and shut(vault, address)
        assert web.exec("cat", "/etc/resolv.conf").out.split()[-4:-2] == ["nameserver", "127.0.0.11"]
        assert "fixed" in web.exec("cat", "/etc/hosts").out
        # its way out, its published port and the names of the world are as before
        assert reaches(web, OUTSIDE, 80) and subprocess.run(["curl", "-s", "-m", "5", "http://127.0.0.1:18080/"], capture_output=True).returncode == 0
        assert ask(web, ("nowhere", A)) == [(NXDOMAIN, [])]
        disconnect("front", "web", ok=True)
        assert ask(web, ("db", A)) == [(NXDOMAIN, [])] and shut(web, inspect("db")["address"])
        assert reaches(web, inspect("vault")["address"]) and reaches(web, OUTSIDE, 80)
        connect("front", "web", ok=True)
        b.one_line_error(disconnect("bridge", "web"), 2, "runs", "hint: berth stop")
        b.berth("stop", "web", ok=True)
        b.berth("start", "web", ok=True)
        again = {n["network"]: n["address"] for n in inspect("web")["networks"]}
        assert set(again) == {"front", "deep"} and ask(db, ("web", A)) == [(OK, [again["front"]])]
        assert ask(web, ("vault", A)) == [(OK, [inspect("vault")["address"]])] and reaches(web, OUTSIDE, 80)
        lab.untouched()
    gone()


@b.deadline(90)
def test_who_has_port_53_of_a_sandbox_keeps_it_and_nothing_is_left():
    need_bridge()
    taken = "import socket,time; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('0.0.0.0',53)); print('bound',flush=True); time.sleep(1000)"
    with Lab(forwarding=True), networks(["front"]), Box("--name", "web", "--network", "bridge") as web, \
            Box("--name", "db", "--network", "front") as db:
        held = b.berth("exec", "--detach", "web", "python3", "-c", taken, ok=True)
        command = held.out.strip()
        b.wait_for(lambda: "bound" in b.berth("output", "web", command).out, 20, "the port")
        before = web.exec("cat", "/etc/resolv.conf").out
        b.one_line_error(connect("front", "web"), 125, "127.0.0.11", "hint: end the program in the sandbox")
        assert web.exec("cat", "/etc/resolv.conf").out == before and ask(db, ("web", A)) == [(NXDOMAIN, [])]
        assert not inspect("web").get("networks") and "resolver" not in inspect("web")
        b.berth("kill", "--command", command, "web")
        b.berth("stop", "web", ok=True)
        b.berth("start", "web", ok=True)
        connect("front", "web", ok=True)
        assert ask(db, ("web", A))[0][0] == OK
    gone()


@b.deadline(120)
def test_a_stopped_sandbox_on_the_nameless_bridge_joins_and_leaves_the_bridge():
    need_bridge()
    with Lab(forwarding=True), networks(["front"], ["--internal", "deep"], ["other"]), \
            Box("--name", "web", "--network", "bridge", "--publish", "127.0.0.1:18080:8000") as web, \
            Box("--name", "db", "--network", "front", "--dns", DNS) as db, Box("--name", "none") as none:
        b.berth("stop", "web", "none", ok=True)
        b.one_line_error(connect("front", "none"), 2, "without a bridge", "hint")
        b.one_line_error(disconnect("bridge", "none"), 2, "no network besides", "hint")
        b.one_line_error(disconnect("bridge", "web"), 2, "no network besides", "hint")
        connect("deep", "web", ok=True)
        b.one_line_error(disconnect("bridge", "web"), 2, "internal", "hint")
        disconnect("deep", "web", ok=True)
        connect("--alias", "www", "front", "web", ok=True)
        connect("other", "web", ok=True)
        b.berth("start", "web", ok=True)
        assert len(inspect("web")["networks"]) == 2 and "network" not in inspect("web")
        b.berth("stop", "web", ok=True)
        disconnect("bridge", "web", ok=True)
        assert inspect("web")["network"] == "front", inspect("web")
        b.berth("start", "web", ok=True)
        serve(web)
        assert ask(db, ("web", A), ("www", A)) == [(OK, [inspect("web")["address"]])] * 2
        assert reaches(db, inspect("web")["address"]) and [n["network"] for n in inspect("web")["networks"]] == ["other"]
        b.berth("stop", "web", ok=True)
        b.one_line_error(disconnect("bridge", "web"), 2, "not on the bridge", "hint")
        assert b.berth("exec", "db", "true").code == 0 and none.id


@b.deadline(90)
def test_only_a_member_of_a_network_joins_another():
    need_bridge()
    with Lab(forwarding=True), networks(["front"], *[[f"n{i}"] for i in range(8)]):
        for mode in ("none", "host", "egress"):
            with Box("--name", "one", "--network", mode):
                b.one_line_error(connect("front", "one"), 2, "network", "hint: berth create --network NAME")
        with Box("--name", "one", "--network", "front"):
            b.one_line_error(connect("--alias", "A", "n0", "one"), 2, "A", "hint")
            for i in range(7):
                connect(f"n{i}", "one", ok=True)
            b.one_line_error(connect("n7", "one"), 125, "8 networks", "hint")
            assert len(inspect("one")["networks"]) == 7
        b.one_line_error(connect("front"), 2, "hint")


@b.deadline(90)
def test_S20_no_way_out_by_a_network_that_was_joined():
    need_bridge()
    with Lab(forwarding=True) as lab, networks(["--internal", "shut"], ["open"]):
        rights = ("--cap-add", "NET_ADMIN", "--cap-add", "NET_RAW", "--seccomp", "unconfined")
        with Box("--name", "liar", "--network", "shut", *rights) as liar, Box("--name", "far", "--network", "open") as far:
            connect("open", "liar", ok=True)
            serve(far)
            assert reaches(liar, inspect("far")["address"])
            mine = inspect("liar")["networks"][0]
            gateway = mine["address"].rsplit(".", 1)[0] + ".1"
            liar.exec("ip", "route", "add", "default", "via", gateway, "dev", "eth1", "src", mine["address"])
            liar.exec("ip", "-6", "route", "add", "default", "dev", "eth1")
            for address in (OUTSIDE, netlab.OUTSIDE6, netlab.HOST, gateway, DNS):
                assert shut(liar, address, 80), address
            # nor by the address of the other interface
            assert liar.exec("curl", "-s", "-m", "2", "--interface", "eth0", f"http://{inspect('far')['address']}:8000/").code
            assert not lab.web.seen and not lab.web6.seen
            lab.untouched()


def make(*args, ok=None):
    return b.berth("network", "create", *args, ok=ok)


def test_addresses_that_no_member_could_have_are_refused_when_they_are_asked_for():
    """A range of broadcasts gave the broadcast's address, two ranges one outside of one, and IPv6 was dropped beside --no-ipv6."""
    two = ("--subnet", "10.80.0.0/24", "--subnet", "fd80::/64")
    for args, word in ((("--subnet", "10.80.0.0/24", "--ip-range", "10.80.0.255/32"), "range"),
                       (("--subnet", "10.80.0.0/24", "--ip-range", "10.80.0.0/32"), "range"),
                       ((*two, "--ip-range", "fd80::1000/116"), "same number"),
                       ((*two, "--ip-range", "10.80.0.128/25", "--ip-range", "fd80::/121"), "same number"),
                       ((*two, "--no-ipv6"), "--no-ipv6"),
                       (("--subnet", "10.80.0.0/24", "--no-ipv6", "--aux-address", "a=fd80::9"), "--no-ipv6"),
                       (("--subnet", "10.80.0.0/24", "--gateway", "::ffff:10.80.0.9"), "no matching subnet"),
                       (("--subnet", "10.80.0.0/24", "--aux-address", "a=10.80.0.8", "--aux-address", "a=10.80.0.9"), "twice")):
        b.one_line_error(make(*args, "bad"), 2, word)
    with networks([*two, "two"], ["--subnet", "10.81.0.0/24", "--no-ipv6", "four"]):
        for network, address in (("two", "10.80.0.0"), ("two", "10.80.0.255"), ("two", "fd80::1:0"), ("two", "fd80::ff"), ("two", "::ffff:10.80.0.9"),
                                 ("two", "9.9.9.9"), ("four", "fd80::9")):
            b.one_line_error(b.berth("create", "--network", network, "--ip", address, "host"), 2, address)
        b.one_line_error(b.berth("create", "--network", "two", "--ip", "10.80.0.9", "--ip", "fd80::8", "host"), 125, "different numbers", "hint")


def test_an_address_of_a_network_that_is_joined_is_checked_though_the_sandbox_is_stopped():
    """It was recorded, and the sandbox could not start any more."""
    need_bridge()
    with Lab(forwarding=True), networks(["front"], ["--subnet", "10.81.0.0/24", "--no-ipv6", "back"]), Box("--name", "web", "--network", "front"):
        for state in ("running", "stopped"):
            for address in ("9.9.9.9", "10.81.0.0", "10.81.0.255", "fd81::9"):
                b.one_line_error(connect("--ip", address, "back", "web"), 2, address)
            b.berth("stop", "web", ok=True)
        connect("--ip", "10.81.0.9", "back", "web", ok=True)
        b.berth("start", "web", ok=True)
        assert [n["address"] for n in inspect("web")["networks"]] == ["10.81.0.9"], inspect("web")
        b.berth("restart", "web", ok=True)
        assert [n["address"] for n in inspect("web")["networks"]] == ["10.81.0.9"], inspect("web")


def test_a_fork_of_a_sandbox_with_a_chosen_address_has_another():
    """It could not be made, and fork takes no --ip."""
    need_bridge()
    with Lab(forwarding=True), networks(["--subnet", "10.80.0.0/24", "front"]), Box("--name", "web", "--network", "front", "--ip", "10.80.0.9"):
        b.berth("fork", "--name", "copy", "web", ok=True)
        try:
            assert inspect("web")["address"] == "10.80.0.9" and inspect("copy")["address"].startswith("10.80.0."), inspect("copy")
            assert inspect("copy")["address"] != "10.80.0.9"
        finally:
            b.berth("rm", "-f", "copy", ok=True)
