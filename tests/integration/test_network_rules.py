# SPDX-License-Identifier: Apache-2.0
"""Networks with rules: the members share a policy, a log and a budget.  Attacks S13 of SECURITY.md."""
import json
import os
import signal

import berthtest as b
import proc
from box import Box
from daemon import Daemon
from netlab import DNS, OUTSIDE, Lab, need_bridge
from test_network_names import A, OK, ask, inspect, networks
from test_networks import gone, reaches, serve

COST = 40

NAMES = {n: [OUTSIDE] for n in ("good.test", "also.test", "bad.test", "late.test")}
RULES = ("--dns", DNS, "--allow-host", "good.test", "--allow-host", "also.test")


PROXY = ("-x", "http://127.0.0.1:3128")


def get(x, name, path="/"):
    """The status of the answer; the proxy's own is 403, 000 is none."""
    return x.exec("curl", *PROXY, "-s", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", f"http://{name}{path}").out


def update(*args, **kw):
    return b.berth("network", "update", *args, **kw)


def log(*args):
    return [json.loads(line) for line in b.berth("network", "log", "--json", *args, ok=True).out.splitlines()]


@b.deadline(120)
def test_members_see_each_other_and_go_out_by_the_rules_of_the_network():
    need_bridge()
    with Lab(names=NAMES) as lab, networks([*RULES, "app"]), \
            Box("--name", "one", "--network", "app") as one, Box("--name", "two", "--network", "app", "--alias", "db") as two, \
            Box("--name", "narrow", "--network", "app", "--allow-host", "good.test", "--allow-host", "bad.test", "--deny-host", "also.test") as narrow:
        serve(two)
        assert inspect("app")["internal"] is True and inspect("app")["egress"]["allow_host"] == ["good.test", "also.test"]
        assert reaches(one, inspect("two")["address"]) and ask(one, ("db", A)) == [(OK, [inspect("two")["address"]])]
        assert reaches(one, "db") and one.exec("curl", "-s", "--noproxy", "*", "-m", "2", f"http://{OUTSIDE}/").code != 0
        assert one.exec("sh", "-c", "echo $https_proxy $http_proxy", ok=True).out == "http://127.0.0.1:3128\n"
        assert [get(one, n) for n in ("good.test", "also.test", "bad.test")] == ["200", "200", "403"]
        # narrower, never wider
        assert [get(narrow, n) for n in ("good.test", "also.test", "bad.test")] == ["200", "403", "403"]
        assert lab.web.seen == 3
        lines = log("app")
        assert {(e["sandbox"], e["host"], e["verdict"]) for e in lines} == {
            (one.id, "good.test", "allow"), (one.id, "also.test", "allow"), (one.id, "bad.test", "deny"),
            (narrow.id, "good.test", "allow"), (narrow.id, "also.test", "deny"), (narrow.id, "bad.test", "deny")}, lines
        assert all(e["verdict"] == "deny" for e in log("--denied", "app")) and log("--denied", "app")
        shown = inspect("one")["egress"]
        assert shown["mode"] == "egress" and shown["proxy"] == "running" and shown["allowed"] == 2 and shown["denied"] == 1, shown
        used = inspect("app")["used"]
        assert used["connections"] == 3 and used["bytes"] > 300, used
        assert "network update --allow-host bad.test:80 app" in one.exec("curl", *PROXY, "-s", "http://bad.test/").out
        assert f"berth update --allow-host also.test {narrow.id}" in narrow.exec("curl", *PROXY, "-s", "http://also.test/").out
        r = b.run("--network", "app", "host", "curl", *PROXY, "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://good.test/", ok=True)
        assert r.out == "200"
        lab.untouched()
    gone()


@b.deadline(120)
def test_rules_change_at_once_for_every_member_and_cut_what_no_longer_complies():
    need_bridge()
    with Lab(names=NAMES) as lab, networks([*RULES, "app"]), Box("--name", "one", "--network", "app") as one, \
            Box("--name", "two", "--network", "app") as two, Box("--name", "bare") as bare:
        hold = ("import socket\ns = socket.create_connection(('127.0.0.1', 3128))\ns.sendall(b'CONNECT good.test:80 HTTP/1.1\\r\\n\\r\\n')\n"
                "assert b' 200 ' in s.recv(4096)\nprint('open', flush=True)\ntry:\n    print('end', s.recv(1) == b'', flush=True)\n"
                "except ConnectionResetError:\n    print('end reset', flush=True)\n")
        commands = [(x, x.main.detach("python3", "-u", "-c", hold)) for x in (one, two)]
        for x, c in commands:
            b.wait_for(lambda x=x, c=c: b"open" in x.main.output(c)[0], 20, "the tunnel")
        done = json.loads(update("--deny-host", "good.test", "--allow-host", "late.test", "--json", "app", ok=True).out)
        assert done == {"name": "app", "members": 2, "cut": 2}, done
        for x, c in commands:
            b.wait_for(lambda x=x, c=c: b"end" in x.main.output(c)[0], 20, "the cut")
        for x in (one, two):
            assert [get(x, n) for n in ("good.test", "also.test", "late.test")] == ["403", "200", "200"]
        assert {e["sandbox"] for e in log("app") if e["verdict"] == "cut"} == {one.id, two.id}
        # a member's own rules: away only
        b.berth("update", "--deny-host", "also.test", "two", ok=True)
        assert get(two, "also.test") == "403" and get(one, "also.test") == "200"
        b.berth("update", "--allow-host", "bad.test", "two", ok=True)
        assert get(two, "bad.test") == "403"
        b.one_line_error(b.berth("update", "--allow-net", "10.0.0.0/8", "two"), 2, "berth network update --allow-net")
        # a stopped one starts with what holds then
        b.berth("stop", "one", ok=True)
        update("--deny-host", "late.test", "app", ok=True)
        b.berth("start", "one", ok=True)
        assert get(one, "late.test") == "403" and get(one, "also.test") == "200"
        b.one_line_error(update("--allow-host", "x y", "app"), 2, "hint")
        b.one_line_error(update("app"), 2, "hint")
        b.one_line_error(update("--allow-host", "x.test", "none-such"), 125, "none-such")
        assert bare.exec("true").code == 0
        lab.untouched()
    with networks(["plain"]):
        b.one_line_error(update("--allow-host", "x.test", "plain"), 2, "without rules", "hint")
    gone()


@b.deadline(120)
def test_all_members_together_have_one_budget():
    need_bridge()
    body = b"x" * 300000
    with Lab(names=NAMES, answer=lambda path, headers: (200, {}, body)) as lab, networks([*RULES, "--network-bytes", "1m", "app"]), \
            Box("--name", "one", "--network", "app") as one, Box("--name", "two", "--network", "app", "--network-bytes", "10m") as two:
        def size(x):
            return int(x.exec("curl", *PROXY, "-s", "-m", "20", "-o", "/dev/null", "-w", "%{size_download}", "http://good.test/").out or 0)
        got = [size(one), size(two), size(one), size(two)]
        assert got[:3] == [300000] * 3 and 0 < got[3] < 300000, got
        used = inspect("app")["used"]["bytes"]
        assert used <= 1 << 20 and sum(got) <= 1 << 20, (used, got)
        assert get(one, "good.test") == "403" and get(two, "good.test") == "403"
        # it lasts, also beyond the members' lives
        b.berth("restart", "one", ok=True)
        assert get(one, "good.test") == "403"
        update("--network-bytes", "2m", "app", ok=True)
        assert size(one) == 300000 and size(two) == 300000
        update("--network-bytes", "unlimited", "--network-connections", str(inspect("app")["used"]["connections"] + 1), "app", ok=True)
        assert get(two, "good.test") == "200" and get(one, "good.test") == "403"
        assert "of the network" in one.exec("curl", *PROXY, "-s", "http://good.test/").out
        lab.untouched()
    gone()


@b.deadline(90)
def test_options_that_open_another_way_are_refused():
    need_bridge()
    with Lab(names=NAMES), networks([*RULES, "app"]):
        for option in (("--publish", "80/udp"), ("--dns", DNS), ("--allow-net", "10.0.0.0/8")):
            b.one_line_error(b.berth("create", "--network", "app", *option, "host"), 2, option[0], "hint")
        for wrong in (("--allow-host", "a b"), ("--network-bytes", "much"), ("--deny-net", "x")):
            b.one_line_error(b.berth("network", "create", *wrong, "bad"), 2, wrong[0].lstrip("-") if wrong[0] == "--network-bytes" else "hint")
    assert json.loads(b.berth("network", "ls", "--named", "--json", ok=True).out) == []


@b.deadline(120)
def test_a_keeper_that_is_killed_takes_only_its_own_way_out():
    need_bridge()
    with Lab(names=NAMES), networks([*RULES, "app"]), Box("--name", "one", "--network", "app") as one, Box("--name", "two", "--network", "app") as two:
        assert get(one, "good.test") == "200"
        os.kill(one.keeper, signal.SIGKILL)
        assert get(two, "good.test") == "200"
        b.berth("start", "one", ok=True)
        for c in one.clients:
            c.close()
        one.clients.clear()
        assert get(one, "good.test") == "200" and inspect("app")["used"]["connections"] == 3
        update("--deny-host", "good.test", "app", ok=True)
        assert get(one, "good.test") == "403" and get(two, "good.test") == "403"
    gone()


@b.deadline(90)
def test_one_that_joins_a_member_has_its_way_out_and_no_other():
    need_bridge()
    with Lab(names=NAMES), networks([*RULES, "app"]), Box("--name", "web", "--network", "app", "--deny-host", "also.test"), \
            Box("--name", "side", "--network", "container:web") as side:
        assert [get(side, n) for n in ("good.test", "also.test", "bad.test")] == ["200", "403", "403"]
    gone()


@b.deadline(90)
def test_rules_by_berthd_and_from_afar():
    need_bridge()
    with Lab(names=NAMES), Daemon() as d:
        def far(*words):
            return b.berth(*words, ok=True, env={"BERTH_HOST": f"unix://{d.socket}"}).out
        far("network", "create", "--allow-host", "good.test", "--dns", DNS, "--network-bytes", "5m", "app")
        d.create("one", network="app")
        assert d.exec("one", "curl", *PROXY, "-sf", "-o", "/dev/null", "http://also.test/")["verdict"]["exit_code"] != 0
        assert json.loads(far("network", "update", "--allow-host", "also.test", "--json", "app"))["members"] == 1
        assert d.exec("one", "curl", *PROXY, "-sf", "-o", "/dev/null", "http://also.test/")["verdict"]["exit_code"] == 0
        r = d.request("PATCH", "/v1/networks/app", {"deny-host": ["also.test"], "network-bytes": "6m"})
        assert r.status == 200 and r.json["members"] == 1, r
        assert d.exec("one", "curl", *PROXY, "-sf", "-o", "/dev/null", "http://also.test/")["verdict"]["exit_code"] != 0
        assert d.good("GET", "/v1/networks/app")["egress"]["max_bytes"] == 6 << 20
        assert d.request("PATCH", "/v1/networks/app", {"allow-host": ["a b"]}).status == 400
        assert d.delete("/v1/sandboxes/one?force=true").status == 200
        far("network", "rm", "app")
    gone()


@b.deadline(90)
def test_files_of_a_stopped_member_need_no_proxy():
    need_bridge()
    with Lab(names=NAMES), networks([*RULES, "app"]), Box("--name", "one", "--network", "app"):
        b.berth("stop", "one", ok=True)
        path = b.write(b.tmp("note"), "kept\n")
        b.berth("cp", path, "one:/srv/note", ok=True)
        assert b.berth("file", "read", "one", "/srv/note", ok=True).out == "kept\n"
        assert json.loads(update("--deny-host", "good.test", "--json", "app", ok=True).out)["cut"] == 0
    gone()


@b.deadline(120)
def test_S13_a_member_that_starts_during_a_change_has_the_new_rules():
    need_bridge()
    with Lab(names=NAMES) as lab, networks([*RULES, "app"]), Box("--name", "one", "--network", "app") as one:
        for i in range(8):
            denies = i % 2 == 0
            p = b.start("restart", "one")
            try:
                for _ in range(3):
                    update("--deny-host" if denies else "--allow-host", "good.test", "app", ok=True)
            finally:
                assert p.wait(60 * b.SLOW) == 0
            assert get(one, "good.test") == ("403" if denies else "200"), i
        lab.untouched()
    gone()


@b.deadline(120)
def test_S13_a_keeper_killed_during_a_change_is_no_hindrance():
    need_bridge()
    with Lab(names=NAMES), networks([*RULES, "app"]), Box("--name", "one", "--network", "app") as one, Box("--name", "two", "--network", "app") as two:
        for i in range(4):
            pid = one.keeper
            p = b.start("network", "update", "--deny-host" if i % 2 == 0 else "--allow-host", "good.test", "app")
            os.kill(pid, signal.SIGKILL)
            _, err = p.communicate(timeout=60 * b.SLOW)
            b.wait_for(lambda: not proc.alive(pid), what="the end of the keeper")
            b.berth("start", "one", ok=True)
            got = get(two, "good.test"), get(one, "good.test")
            assert got == ("403",) * 2 if i % 2 == 0 else got == ("200",) * 2, (i, got, p.returncode, err)
    gone()
