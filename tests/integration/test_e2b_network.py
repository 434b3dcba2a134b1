# SPDX-License-Identifier: Apache-2.0
"""E2B's rules of the network (allowInternetAccess, network.allowOut and denyOut, updateNetwork) as rules of berth's.  Attacks S19 of SECURITY.md."""
import ipaddress
import json

import berthtest as b
from daemon import OTHER, Daemon
from e2bwire import Client
from netlab import OUTSIDE, Lab, need_bridge, need_net

COST = 12
ALL = "0.0.0.0/0"
OPEN = "[sandbox]\nnetwork_enabled = true\n"


def rules_of(box):
    told = json.loads(b.berth("network", "inspect", "--json", box, ok=True).out)
    return {"mode": told["mode"], **told["policy"]}


def fetch(e, url, *options):
    out, _ = e.run("curl -s -m 10 -o /dev/null -w '%{http_code}' " + " ".join(options) + " " + url)
    return out.decode()


def holds(ranges, address):
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(r) for r in ranges)


@b.deadline(120)
def test_names_are_allowed_by_the_proxy_and_change_while_it_runs():
    need_net()
    with Lab() as lab, Daemon(OPEN, tcp=True) as d:
        c = Client(d)
        e = c.create(network={"allowOut": ["*.example.org", "pypi.org", OUTSIDE], "denyOut": [ALL]})
        told = rules_of(e.id)
        assert told["mode"] == "egress" and told["allow_host"] == ["*.example.org", "pypi.org", OUTSIDE + ":*"], told
        assert fetch(e, f"http://{OUTSIDE}/") == "200" and fetch(e, "http://other.test/") == "403"
        info = c.ask("GET", f"/sandboxes/{e.id}").json
        assert info["network"] == {"allowOut": ["*.example.org", "pypi.org", OUTSIDE], "denyOut": [ALL]}, info

        def update(status=204, **body):
            r = c.ask("PUT", f"/sandboxes/{e.id}/network", body)
            assert r.status == status and (status == 204 or (r.json["code"] == status and r.json["message"])), r

        update(allowOut=["example.net"], denyOut=[ALL])
        assert rules_of(e.id)["allow_host"] == ["example.net"] and fetch(e, f"http://{OUTSIDE}/") == "403"
        update(allow_internet_access=False)
        assert fetch(e, f"http://{OUTSIDE}/") == "403" and c.ask("GET", f"/sandboxes/{e.id}").json["allowInternetAccess"] is False
        update()
        assert fetch(e, f"http://{OUTSIDE}/") == "200" and not rules_of(e.id).get("deny_net")
        update(denyOut=[OUTSIDE])
        assert fetch(e, f"http://{OUTSIDE}/") == "403"
        update(denyOut=[OUTSIDE + "/8"], allowOut=[OUTSIDE])
        assert fetch(e, f"http://{OUTSIDE}/") == "200"
        # a refused request changes nothing, and another tenant may not change it
        for bad in ({"allowOut": ["x.test"]}, {"denyOut": ["x.test"]}, {"allowOut": [1]}, {"denyOut": ALL}, {"allow_internet_access": 1}):
            update(400, **bad)
        update(501, egressProxy={"address": "p:1"})
        assert Client(d, OTHER).ask("PUT", f"/sandboxes/{e.id}/network", {}).status == 404
        assert fetch(e, f"http://{OUTSIDE}/") == "200"
        # the lists stand in its files, too
        b.berth("restart", e.id, ok=True)
        assert fetch(e, f"http://{OUTSIDE}/") == "200"
        # a fork has the rules, and tells of them
        fork = c.ask("POST", f"/sandboxes/{e.id}/fork", {"timeout": 600}).json[0]["sandbox"]["sandboxID"]
        assert rules_of(fork)["deny_net"] == rules_of(e.id)["deny_net"] and len(rules_of(fork)["deny_net"]) > 5
        assert c.ask("GET", f"/sandboxes/{fork}").json["network"] == c.ask("GET", f"/sandboxes/{e.id}").json["network"]
        c.ask("DELETE", f"/sandboxes/{fork}")
        # the proxy opens nothing that is not public
        assert fetch(e, "http://127.0.0.1:1/", "--noproxy ''", "-x http://127.0.0.1:3128") == "403"
        c.ask("DELETE", f"/sandboxes/{e.id}")
        lab.untouched()


@b.deadline(120)
def test_ranges_hold_on_the_bridge_and_what_is_allowed_goes_first():
    need_bridge()
    with Lab(forwarding=True), Daemon(OPEN, tcp=True) as d:
        c = Client(d)
        e = c.create()
        assert rules_of(e.id)["mode"] == "bridge" and fetch(e, f"http://{OUTSIDE}/") == "200"

        def update(status=204, **body):
            r = c.ask("PUT", f"/sandboxes/{e.id}/network", body)
            assert r.status == status, r
            return rules_of(e.id).get("deny_net") or []

        assert update(denyOut=[ALL]) == [ALL, "::/0"] and fetch(e, f"http://{OUTSIDE}/") == "000"
        denied = update(denyOut=[ALL], allowOut=[OUTSIDE, "8.8.8.0/24", "2001:4860:4860::8888"])
        assert fetch(e, f"http://{OUTSIDE}/") == "200"
        for address, wanted in ((OUTSIDE, False), ("8.8.8.0", False), ("8.8.8.255", False), ("8.8.9.0", True), ("8.8.7.255", True), ("0.0.0.0", True),
                                ("255.255.255.255", True), ("2001:4860:4860::8888", False), ("2001:4860:4860::8889", True), ("::", True)):
            assert holds(denied, address) == wanted, (address, denied)
        assert update(denyOut=["192.0.2.77/24"]) == ["192.0.2.0/24"] and fetch(e, f"http://{OUTSIDE}/") == "200"
        assert update(400, denyOut=["10.0.0.0/8"], allowOut=["a.test"]) == ["192.0.2.0/24"]
        assert update(501, denyOut=[ALL], allowOut=["a.test"]) == ["192.0.2.0/24"]
        assert update(429, denyOut=[ALL], allowOut=[f"{n}.{n}.{n}.{n}" for n in range(1, 60)]) == ["192.0.2.0/24"]
        assert update() == []
        c.ask("DELETE", f"/sandboxes/{e.id}")


def test_without_a_network_rules_close_and_never_open():
    with Daemon(tcp=True) as d:
        c = Client(d)
        for asked in ({}, {"allow_internet_access": False}, {"network": {"denyOut": ["10.0.0.0/8"]}}, {"network": {"denyOut": [ALL]}}):
            e = c.create(**asked)
            assert json.loads(b.berth("inspect", e.id, ok=True).out)["network"]["mode"] == "none", asked
            assert c.ask("PUT", f"/sandboxes/{e.id}/network", {"allow_internet_access": False}).status == 204
            for opening in ({}, {"allowOut": ["8.8.8.8"]}, {"allowOut": ["a.test"], "denyOut": [ALL]}, {"allow_internet_access": True}):
                r = c.ask("PUT", f"/sandboxes/{e.id}/network", opening)
                assert r.status == 501 and "network_enabled" in r.json["message"], (opening, r)
            c.ask("DELETE", f"/sandboxes/{e.id}")
        r = c.ask("POST", "/v2/sandboxes", {"templateID": "base", "network": {"allowOut": ["a.test"], "denyOut": [ALL]}})
        assert r.status == 501, r
        assert json.loads(b.berth("ps", "-a", "--json", ok=True).out) == []


def test_other_rules_for_the_way_out_leave_a_port_of_e2b_private():
    need_net()
    with Daemon(OPEN, tcp=True) as d:
        c = Client(d)
        rules = {"allowOut": ["example.net"], "denyOut": [ALL]}
        e = c.create(network={**rules, "allowPublicTraffic": False})

        def is_public():
            return c.ask("GET", f"/sandboxes/{e.id}").json["network"]["allowPublicTraffic"]
        assert is_public() is False
        c.ask("PUT", f"/sandboxes/{e.id}/network", {**rules, "allowOut": ["example.org"]})
        assert is_public() is False
        c.ask("PUT", f"/sandboxes/{e.id}/network", {**rules, "allowPublicTraffic": True})
        assert is_public() is True
        for wrong in ("false", 0):
            r = c.ask("PUT", f"/sandboxes/{e.id}/network", {**rules, "allowPublicTraffic": wrong}, check=False)
            assert r.status == 400 and "allowPublicTraffic" in r.json["message"], r
