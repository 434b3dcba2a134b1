# SPDX-License-Identifier: Apache-2.0
"""--network container:NAME: a sandbox in the network namespace of another.  Attacks S20 of SECURITY.md."""
import json
import os
import signal

import berthtest as b
import netlab
from box import Box
from netlab import DNS, OUTSIDE, Lab, need_bridge, need_net
from test_network_names import A, NXDOMAIN, OK, ask, inspect, networks
from test_networks import gone, reaches, serve

COST = 40

JOIN = ("--network", "container:web")


def text(x, *argv):
    return x.exec(*argv, ok=True).out


def again(x):
    """Its keeper is another now."""
    while x.clients:
        x.clients.pop().close()
    return x


def state(name):
    return inspect(name)["state"]


def events(name, kind):
    r = b.berth("events", "--json", "--since", "10m", ok=True)
    return [e for e in map(json.loads, r.out.splitlines()) if e["event"] == kind and e["id"].startswith(name)]


def test_a_sandbox_that_joins_has_addresses_names_and_files_of_the_other():
    need_bridge()
    with Lab(forwarding=True) as lab, networks(["front"]), Box("--name", "db", "--network", "front") as db, \
            Box("--name", "web", "--network", "front", "--dns", DNS, "--hostname", "shop", "--add-host", "old:10.1.2.3") as web, \
            Box("--name", "side", *JOIN) as side:
        serve(web)
        serve(db)
        assert text(side, "ip", "-o", "addr") == text(web, "ip", "-o", "addr")
        for path in ("/etc/resolv.conf", "/etc/hosts"):
            assert text(side, "cat", path) == text(web, "cat", path), path
        assert ["10.1.2.3", "old"] in [line.split() for line in text(side, "cat", "/etc/hosts").splitlines()], text(side, "cat", "/etc/hosts")
        assert text(side, "hostname") == "shop\n"
        assert reaches(side, "127.0.0.1") and reaches(side, "old", 8000) is False and reaches(side, "db") and reaches(side, OUTSIDE, 80)
        assert ask(side, ("db", A), ("web", A), ("side", A)) == [(OK, [inspect("db")["address"]]), (OK, [inspect("web")["address"]]), (NXDOMAIN, [])]
        shown = inspect("side")
        assert shown["mode"] == "container" and shown["container"] == web.id and shown["state"] == "joined" and shown["inside"] == "bridge", shown
        record = json.loads(b.berth("inspect", "side", ok=True).out)
        assert record["network"]["mode"] == "container" and record["network"]["container"] == web.id, record["network"]
        assert [m["name"] for m in inspect("front")["members"] if m["name"] == "side"] == [], "it has no address of its own"
        row = next(r for r in json.loads(b.berth("network", "ls", "--json", ok=True).out) if r["name"] == "side")
        assert row["network"]["container"] == web.id
        # a rule of the other's is one of both, and changes where it is the other's
        b.berth("update", "--deny-net", OUTSIDE + "/32", "web", ok=True)
        assert not reaches(side, OUTSIDE, 80)
        b.one_line_error(b.berth("update", "--deny-net", OUTSIDE + "/32", "side"), 2, "berth update " + web.id)
        b.one_line_error(b.berth("network", "connect", "front", "side"), 2, "hint")
        lab.untouched()
    gone()


def test_it_is_joined_by_its_id_at_each_start_and_told_of_the_end():
    need_bridge()
    with Lab(forwarding=True), networks(["front"]), Box("--name", "web", "--network", "front") as web, Box("--name", "side", *JOIN) as side:
        b.berth("rename", "web", "shop", ok=True)
        b.berth("stop", "shop", ok=True)
        b.wait_for(lambda: state("side") == "lost", 20, "the word of the other's end")
        assert events(side.id, "network-lost")[0]["container"] == web.id
        assert "eth0" not in text(side, "ip", "-o", "link"), "what was the other's is gone"
        # a third cannot join a network that ended, and a stopped sandbox has none
        b.one_line_error(b.berth("create", "--network", "container:side", "host"), 2, web.id, "hint: berth restart")
        b.one_line_error(b.berth("create", "--network", "container:shop", "host"), 125, web.id, "hint: berth start")
        b.one_line_error(b.berth("restart", "side"), 125, web.id, "hint: berth start")
        b.berth("start", "shop", ok=True)
        b.berth("start", "side", ok=True)
        assert state("side") == "joined" and text(side, "ip", "-o", "addr") == text(web, "ip", "-o", "addr")
        b.berth("rm", "--force", "shop", ok=True)
        b.wait_for(lambda: state("side") == "lost", 20, "the word of the other's end")
        # another of the same name is not the one that was joined
        with Box("--name", "web", "--network", "front"):
            b.one_line_error(b.berth("restart", "side"), 125, web.id)
    gone()


def test_a_keeper_that_was_killed_leaves_nothing_though_another_is_in_its_network():
    need_bridge()
    with Lab(forwarding=True), networks(["front"]), Box("--name", "db", "--network", "front") as db, \
            Box("--name", "web", "--network", "front") as web, Box("--name", "side", *JOIN) as side:
        serve(db)
        serve(web)
        old = inspect("web")["address"]
        os.kill(web.keeper, signal.SIGKILL)
        b.wait_for(lambda: state("side") == "lost", 20, "the word of the other's end")
        b.berth("start", "web", ok=True)
        assert not reaches(side, "db") and "eth0" not in text(side, "ip", "-o", "link")
        serve(again(web))
        assert reaches(db, inspect("web")["address"]) and reaches(web, "db"), old
        b.berth("restart", "side", ok=True)
        assert reaches(side, "db") and reaches(side, "127.0.0.1")
    gone()


def test_options_of_a_network_are_refused_where_it_is_joined():
    need_net()
    with Box("--name", "web") as web:
        for option in (("--publish", "80"), ("--alias", "x"), ("--dns", "1.1.1.1"), ("--allow-host", "a.test"), ("--deny-net", "10.0.0.0/8"),
                       ("--network-bytes", "1m"), ("--network-connections", "9"), ("--add-host", "a:10.1.1.1"), ("--hostname", "x")):
            for verb in (("run",), ("create",)):
                words = (*verb, *JOIN, *option, "host") + (("true",) if verb == ("run",) else ())
                b.one_line_error(b.berth(*words), 2, option[0] + " has no meaning with --network container:", "hint")
        for wrong in ("container:", "container:../x", "container:A b", "container"):
            b.one_line_error(b.berth("create", "--network", wrong, "host"), 2, "hint")
        b.one_line_error(b.berth("create", "--network", "container:nobody", "host"), 125, "no sandbox 'nobody'", "hint")
        b.one_line_error(b.berth("network", "create", "container"), 2, "mode")
        b.one_line_error(b.berth("network", "connect", "x", "web"), 125)
        assert json.loads(b.berth("ps", "-a", "--json", ok=True).out)[0]["id"] == web.id
    with Box("--name", "web", "--network", "host"):
        b.one_line_error(b.berth("create", *JOIN, "host"), 2, "hint: --network host")


def test_run_joins_and_a_loopback_can_be_shared():
    need_net()
    with Box("--name", "web", "--add-host", "db:127.0.0.1") as web:
        serve(web)
        r = b.run(*JOIN, "host", "sh", "-c", "curl -s -o /dev/null http://db:8000/ && hostname && readlink /proc/self/ns/net", ok=True)
        assert r.out == text(web, "sh", "-c", "hostname; readlink /proc/self/ns/net"), r.out
        detached = b.berth("run", "-d", *JOIN, "host", "sh", "-c", "curl -s http://db:8000/ >/dev/null && echo yes", ok=True).out.strip()
        b.berth("wait", detached, ok=True)
        assert "yes" in b.berth("logs", detached, ok=True).out
        b.berth("rm", detached, ok=True)
        plan = json.loads(b.run(*JOIN, "--dry-run", "--json", "host", "true", ok=True).out)
        assert plan["network"] == "container", plan
        p = b.start("run", "--name", "one", "host", "sleep", "60")
        try:
            b.wait_for(lambda: any("one" in line.split()[:2] for line in b.berth("ps", ok=True).out.splitlines()), 20, "the run")
            b.one_line_error(b.run("--network", "container:one", "host", "true"), 2, "berth run", "hint: berth create")
        finally:
            b.stop(p)
    b.berth("gc", ok=True)


def test_the_proxy_of_the_other_is_that_of_both():
    need_net()
    with Lab(names={"good.test": [OUTSIDE], "bad.test": [OUTSIDE]}) as lab, \
            Box("--name", "web", *netlab.BASE, "--allow-host", "good.test:80", "--network-connections", "3") as web, Box("--name", "side", *JOIN) as side:
        def get(x, name):
            return x.exec("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://{name}/").out
        assert get(side, "good.test") == "200" and get(side, "bad.test") == "403" and lab.web.seen == 1
        assert inspect("web")["allowed"] == 1 and inspect("web")["denied"] == 1, "it counts as the other's"
        assert get(web, "good.test") == "200" and get(side, "good.test") == "200" and get(side, "good.test") != "200", "one budget"
        lab.untouched()


def test_stdio_makes_one_that_joins():
    need_net()
    with Box("--name", "web") as web:
        rq = json.dumps({"id": 1, "op": "create", "image": "host", "options": {"name": "side", "network": "container:web"}})
        answer = json.loads(b.berth("stdio", input=rq + "\n", ok=True).out.splitlines()[-1])
        assert "error" not in answer, answer
        try:
            assert inspect("side")["container"] == web.id
        finally:
            b.berth("rm", "--force", "side", ok=True)


def test_files_of_a_stopped_one_need_no_network():
    need_net()
    with Box("--name", "web"), Box("--name", "side", *JOIN) as side:
        b.berth("stop", "side", "web", ok=True)
        path = b.write(b.tmp("note"), "kept\n")
        b.berth("cp", path, "side:/srv/note", ok=True)
        assert b.berth("file", "read", "side", "/srv/note", ok=True).out == "kept\n"
        b.berth("start", "web", ok=True)
        b.berth("start", "side", ok=True)
        assert text(again(side), "cat", "/srv/note") == "kept\n"
