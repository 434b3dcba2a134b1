# SPDX-License-Identifier: Apache-2.0
"""Networks that have a name: members see each other and nobody else; real traffic between namespaces (netlab.py).

Attacks S20 of SECURITY.md.
"""
import contextlib
import json
import os
import signal
import socket
import subprocess

import berthtest as b
import netlab
from box import Box
from netlab import DNS, OUTSIDE, OUTSIDE6, Lab, need_bridge

COST = 40

SERVER = ("import http.server, socket\nclass S(http.server.ThreadingHTTPServer):\n address_family = socket.AF_INET6\n"
          "S(('::', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()")


def network(*args, **kw):
    return b.berth("network", *args, **kw)


def inspect(name):
    return json.loads(network("inspect", "--json", name, ok=True).out)


@contextlib.contextmanager
def networks(*specs):
    """Each of specs is the words after `network create`."""
    try:
        for s in specs:
            network("create", *s, ok=True)
        yield
    finally:
        network("prune", timeout=30)


def serve(x):
    x.main.detach("python3", "-c", SERVER)
    b.wait_for(lambda: x.exec("curl", "-s", "-o", "/dev/null", "http://127.0.0.1:8000/").code == 0, 10, "the server")


def reaches(x, host, port=8000):
    host = f"[{host}]" if ":" in host else host
    return x.exec("curl", "-s", "-m", "8", "-o", "/dev/null", f"http://{host}:{port}/").code == 0


def bridges():
    return [n for _, n in socket.if_nameindex() if n.startswith("bn")]


def gone():
    """The helper tells its sandbox before it takes down the interfaces."""
    b.wait_for(lambda: not bridges() and not netlab.ruleset(), 10, "the end of what the last member left")


def test_members_see_each_other_and_nobody_else():
    need_bridge()
    with Lab(forwarding=True) as lab, networks(["app"], ["other"]), contextlib.ExitStack() as stack:
        web, client, stranger, plain = (stack.enter_context(Box("--name", n, "--network", net, "--dns", DNS)) for n, net in (
            ("web", "app"), ("client", "app"), ("stranger", "other"), ("plain", "bridge")))
        serve(web)
        at = inspect("web")
        assert at["network"] == "app" and at["mode"] == "bridge", at
        for address in (at["address"], at["address6"]):
            assert reaches(client, address), f"a member: {address}"
            assert not reaches(stranger, address), f"a member of another network: {address}"
            assert not reaches(plain, address), f"one on the bridge without a name: {address}"
        assert reaches(client, OUTSIDE, 80) and reaches(client, OUTSIDE6, 80), "the way out"
        found = inspect("app")
        assert sorted(m["name"] for m in found["members"]) == ["client", "web"], found
        assert at["address"] in [m["address"] for m in found["members"]], found
        listed = {n["name"]: n for n in json.loads(network("ls", "--named", "--json", ok=True).out)}
        assert len(listed["app"]["members"]) == 2 and len(listed["other"]["members"]) == 1, listed
        lab.untouched()
        tracked = subprocess.run(["cat", "/proc/net/nf_conntrack"], stdout=subprocess.PIPE, text=True).stdout
        assert f"dst={at['address']}" not in tracked, "what members say to each other takes no room in the host's table"


def test_an_internal_network_has_no_way_out():
    need_bridge()
    # the host forwards nothing, and need not
    with Lab() as lab, networks(["--internal", "inner"]), Box("--name", "web", "--network", "inner") as web, \
            Box("--name", "client", "--network", "inner") as client:
        serve(web)
        at = inspect("web")
        assert reaches(client, at["address"])
        for address in (OUTSIDE, OUTSIDE6, netlab.HOST, inspect("inner")["subnet"].split("/")[0][:-1] + "1"):
            assert not reaches(client, address, 80), address
        assert not lab.web.seen and not lab.web6.seen
        lab.untouched()
        for option in (("--publish", "0.0.0.0:8080:80"), ("--publish", "53/udp"), ("--allow-net", "10.0.0.0/8"), ("--dns", DNS)):
            b.one_line_error(b.run("--network", "inner", *option, "host", "true"), 2, "internal", "hint")
        b.berth("rm", "--force", "web", "client", ok=True)
        gone()


def test_a_network_with_members_stays():
    need_bridge()
    with Lab(forwarding=True), networks(["app"]):
        with Box("--name", "one", "--network", "app") as x:
            b.one_line_error(network("rm", "app"), 125, "1 member", "hint")
            assert network("prune", ok=True).out == ""
            b.berth("stop", "one", ok=True)
            b.one_line_error(network("rm", "app"), 125, "1 member", "stopped")
            gone()
            b.berth("start", "one", ok=True)
            assert x.exec("curl", "-s", "-m", "9", "-o", "/dev/null", f"http://{OUTSIDE}/").code == 0
        r = b.run("--network", "app", "host", "cat", "/etc/hosts", ok=True)
        assert inspect("app")["subnet"].rsplit(".", 1)[0] in r.out, b.describe(r)
        assert network("rm", "app", ok=True).out == "app\n"
        b.one_line_error(b.run("--network", "app", "host", "true"), 125, "no network named app", "network create")
        b.one_line_error(network("rm", "app"), 125, "no network named app")


def test_what_a_killed_keeper_leaves_is_cleared():
    need_bridge()
    with Lab(forwarding=True), networks(["app"]):
        b.berth("create", "--name", "one", "--network", "app", "host", ok=True)
        pid = json.loads(b.berth("inspect", "one", ok=True).out)["supervisor_pid"]
        os.kill(pid, signal.SIGKILL)
        b.wait_for(lambda: not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z",
                   10, "the keeper's end")
        b.berth("gc", ok=True)
        assert not bridges() and not netlab.ruleset()
        b.berth("rm", "--force", "one", ok=True)


def test_subnets_are_chosen_apart_and_those_asked_for_are_checked():
    with networks(["one"], ["two"]):
        subnets = {inspect(n)[k] for n in ("one", "two") for k in ("subnet", "subnet6")}
        assert len(subnets) == 4 and "10.204.0.0/24" in subnets, subnets
        network("create", "--subnet", "172.30.5.0/28", "--subnet", "fd01:2::/80", "three", ok=True)
        assert (inspect("three")["subnet"], inspect("three")["subnet6"]) == ("172.30.5.0/28", "fd01:2::/80")
        for subnet, code, words in (("172.30.0.0/16", 125, "overlaps"), ("10.204.1.0/25", 125, "overlaps"), ("10.203.7.0/24", 125, "overlaps"),
                                    ("127.0.0.0/24", 125, "overlaps"), ("10.9.0.0/30", 2, "room"), ("8.8.8.0/24", 2, "public"),
                                    ("10.9.0.1/24", 2, "10.9.0.1/24"), ("ten", 2, "ten")):
            b.one_line_error(network("create", "--subnet", subnet, "four"), code, words)
        b.one_line_error(network("create", "--subnet", "10.9.0.0/24", "--subnet", "10.8.0.0/24", "four"), 2, "two subnets")
        b.one_line_error(network("create", "one"), 125, "there is a network named one")
        for name in ("host", "bridge", "default", "../x", "A", ""):
            b.one_line_error(network("create", name), 2, "hint")
        network("create", "--label", "team=a", "--label", "x=", "kept", ok=True)
        assert inspect("kept")["labels"] == {"team": "a", "x": ""}
        assert sorted(json.loads(network("prune", "--filter", "label!=team", "--json", ok=True).out)["removed"]) == ["one", "three", "two"]
        assert network("prune", "--filter", "label=team=b", ok=True).out == ""
        assert network("prune", "--filter", "label=team=a", ok=True).out == "kept\n"


def test_networks_and_members_are_bounded():
    need_bridge()
    env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), '[network]\nmax_networks = 1\nmax_members = 1\n', 0o600)}
    with Lab(forwarding=True), networks(["app"]):
        b.one_line_error(network("create", "more", env=env), 125, "1 network", "hint")
        with Box("--name", "one", "--network", "app", env=env):
            b.one_line_error(b.run("--network", "app", "host", "true", env=env), 125, "1 member", "max_members")


def test_a_removal_that_was_cut_short_is_finished_by_gc():
    with networks(["app"], ["half"]):
        dirs = os.path.join(b.root(), "state", "networks")
        os.mkdir(os.path.join(dirs, "app", "members"), 0o700)
        with open(os.path.join(dirs, "app", "members", "closed"), "w"):
            pass
        os.rename(os.path.join(dirs, "half"), os.path.join(dirs, ".half"))
        b.berth("gc", ok=True)
        assert os.listdir(dirs) == []
