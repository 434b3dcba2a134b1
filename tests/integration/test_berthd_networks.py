# SPDX-License-Identifier: Apache-2.0
"""Networks by berthd: the administrator's, and those that each tenant has of its own.  Attacks S19 of SECURITY.md."""
import json

import berthtest as b
import daemon
from daemon import Daemon
from netlab import OUTSIDE, Lab, need_bridge


@b.deadline(90)
def test_networks_are_made_joined_shown_and_removed():
    need_bridge()
    with Lab(forwarding=True), Daemon() as d:
        r = d.post("/v1/networks", {"name": "app", "label": ["team=x"], "subnet": ["10.77.0.0/24"]})
        assert r.status == 201 and (r.json["name"], r.json["subnet"]) == ("app", "10.77.0.0/24"), r
        assert d.post("/v1/networks", {"name": "back", "internal": True}).json["internal"] is True
        assert d.post("/v1/networks", {"name": "app"}).status == 409
        for wrong in ({"name": "../x"}, {"name": "--help"}, {"name": "x", "subnet": ["8.8.8.0/24"]}, {"name": "host"}, {"name": "x", "internal": 1}, {}):
            assert d.post("/v1/networks", wrong).status == 400, wrong
        listed = d.good("GET", "/v1/networks?named=true")["networks"]
        assert [n["name"] for n in listed] == ["app", "back"] or [n["name"] for n in listed] == ["back", "app"], listed
        d.create("web", network="app", publish=["8000"])
        d.create("db", network="back")
        assert d.good("GET", "/v1/networks/app")["members"][0]["name"] == "web"
        assert d.good("GET", "/v1/networks")["networks"][0]["network"]["mode"] == "bridge"
        assert d.good("GET", "/v1/sandboxes/web/network")["ports"][0]["port"] == 8000
        assert d.good("POST", "/v1/networks/back/connect", {"sandbox": "web", "alias": ["www"]})["network"] == "back"
        assert d.exec("db", "getent", "hosts", "www")["verdict"]["exit_code"] == 0
        assert d.post("/v1/networks/back/connect", {"sandbox": "web"}).status == 409
        assert d.post("/v1/networks/none-such/connect", {"sandbox": "web"}).status == 404
        assert d.post("/v1/networks/back/connect", {"sandbox": "nobody"}).status == 404
        assert d.delete("/v1/networks/back").status == 409
        assert d.good("POST", "/v1/networks/back/disconnect", {"sandbox": "web"})["network"] == "back"
        assert d.post("/v1/networks/back/disconnect", {"sandbox": "web"}).status == 404
        assert d.exec("db", "getent", "hosts", "www")["verdict"]["exit_code"] != 0
        # a sandbox is not a network
        assert d.get("/v1/networks/web").status == 404 and d.delete("/v1/networks/web").status == 404
        for box in ("web", "db"):
            assert d.delete(f"/v1/sandboxes/{box}?force=true").status == 200
        for name in ("app", "back"):
            assert d.good("DELETE", f"/v1/networks/{name}") == {"removed": True}
        assert d.good("GET", "/v1/networks?named=true")["networks"] == []


@b.deadline(120)
def test_a_tenant_has_networks_of_its_own_and_no_others():
    need_bridge()
    alice, bob = {"tcp": True, "token": daemon.TENANT}, {"tcp": True, "token": daemon.OTHER}

    def make(who, name, **options):
        return d.post("/v1/sandboxes", {"image": "host", "name": name, "options": options}, **who)

    def asks(who, box, name):
        r = d.post(f"/v1/sandboxes/{box}/exec", {"argv": ["getent", "ahostsv4", name]}, **who)
        return r.json["stdout"].split()[0] if r.json["exit_status"] == 0 else None
    with Lab(forwarding=True) as lab, Daemon(tcp=True, config="[tenant]\nnetworks = 2\n") as d:
        assert d.post("/v1/networks", {"name": "app"}).status == 201
        make({}, "root-web", network="app")
        # the same name for each
        for who in (alice, bob):
            r = d.post("/v1/networks", {"name": "app", "label": ["a=b"]}, **who)
            assert r.status == 201 and r.json["name"] == "app" and r.json["internal"] is True, r
            assert [n["name"] for n in d.get("/v1/networks", **who).json["networks"]] == ["app"]
        assert make(alice, "web", network="app", alias=["www"]).status == 201
        assert make(alice, "client", network="app").status == 201
        assert make(bob, "spy", network="app").status == 201
        for name in ("web", "www", "web.app", "www.app"):
            assert asks(alice, "client", name) is not None and asks(bob, "spy", name) is None, name
        assert asks(alice, "client", "root-web") is None and asks(alice, "client", "spy") is None
        at = asks(alice, "client", "web")
        serve = {"argv": ["python3", "-m", "http.server", "8000"], "detach": True}
        assert d.post("/v1/sandboxes/web/exec", serve, **alice).status == 201

        def reaches(who, box):
            r = d.post(f"/v1/sandboxes/{box}/exec", {"argv": ["curl", "-s", "-m", "8", "-o", "/dev/null", f"http://{at}:8000/"]}, **who)
            return r.json["exit_status"] == 0
        b.wait_for(lambda: reaches(alice, "client"), 20, "the server")
        assert not reaches(bob, "spy"), "another tenant's network is reached"
        seen = d.get("/v1/networks/app", **alice).json
        assert sorted(m["name"] for m in seen["members"]) == ["client", "web"], seen
        # neither by name nor by key, nor as the operator's
        for name in ("app@bob", "app@", "@bob", "app%40bob", "../app"):
            assert d.request("GET", f"/v1/networks/{name}", **alice).status in (400, 404), name
            assert d.request("DELETE", f"/v1/networks/{name}", **alice).status in (400, 404), name
            assert make(alice, "no", network=name).status in (400, 403), name
        assert make(alice, "no", network="nowhere").status == 404
        for options in ({"network": "bridge"}, {"network": "egress"}, {"network": "host"}, {"network": "container:spy"}, {"network": ["app"]},
                        {"network": "app", "add-host": ["x:1.2.3.4"]}, {"network": "app", "publish": ["80"]},
                        {"network": "app", "allow-net": ["0.0.0.0/0"]}, {"network": "app", "dns": ["1.1.1.1"]}):
            assert make(alice, "no", **options).status == 403, options
        for body in ({"name": "x", "subnet": ["10.77.0.0/24"]}, {"name": "x", "allow-host": ["*"]}, {"name": "x", "dns": ["1.1.1.1"]}):
            assert d.post("/v1/networks", body, **alice).status == 403, body
        assert d.request("PATCH", "/v1/networks/app", {"allow-host": ["*"]}, **alice).status == 403
        # its own sandboxes, on its own networks
        r = d.post("/v1/networks", {"name": "back", "internal": False}, **alice)
        assert r.status == 201 and r.json["internal"] is True, r
        assert d.post("/v1/networks", {"name": "third"}, **alice).status == 429, "no more than two"
        assert d.post("/v1/networks/back/connect", {"sandbox": "web", "alias": ["db"]}, **alice).status == 200
        for path, box in (("back", "spy"), ("back", "root-web"), ("app@bob", "web"), ("nowhere", "web")):
            r = d.post(f"/v1/networks/{path}/connect", {"sandbox": box}, **alice)
            assert r.status in (400, 404), (path, box, r)
        assert d.post("/v1/networks/back/connect", {"sandbox": "spy"}, **bob).status == 404, "which is alice's"
        assert d.delete("/v1/networks/back", **alice).status == 409
        # it is the same network after a start
        d.post("/v1/sandboxes/web/restart", {}, **alice)
        assert asks(alice, "client", "web") is not None and asks(bob, "spy", "web") is None
        assert d.post("/v1/networks/back/disconnect", {"sandbox": "web"}, **alice).status == 200
        assert {n["name"] for n in d.get("/v1/networks?named=true").json["networks"]} == {"app", "back"}
        listed = b.berth("network", "ls", "--named", ok=True).out
        assert "app@alice" in listed and "app@bob" in listed and "back@alice" in listed, listed
        for who, boxes, names in ((alice, ("web", "client"), ("app", "back")), (bob, ("spy",), ("app",)), ({}, ("root-web",), ("app",))):
            for box in boxes:
                assert d.delete(f"/v1/sandboxes/{box}?force=true", **who).status == 200, box
            for name in names:
                assert d.delete(f"/v1/networks/{name}", **who).status == 200, name
        assert d.get("/v1/networks?named=true").json["networks"] == []
        lab.untouched()


@b.deadline(120)
def test_members_of_a_tenants_network_go_out_as_the_operator_says():
    need_bridge()
    alice, bob = {"tcp": True, "token": daemon.TENANT}, {"tcp": True, "token": daemon.OTHER}
    config = f'[tenant]\nnetwork_hosts = ["{OUTSIDE}:80"]\n[tenant.bob]\nnetwork_hosts = []\n'
    with Lab() as lab, Daemon(tcp=True, config=config) as d:
        def make(who, name, network):
            return d.post("/v1/sandboxes", {"image": "host", "name": name, "options": {"network": network}}, **who).status

        def reaches(who, box, url, *curl):
            argv = ["curl", "-s", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", *curl, url]
            return d.post(f"/v1/sandboxes/{box}/exec", {"argv": argv}, **who).json["stdout"]
        for who, body in ((alice, {"name": "open"}), (alice, {"name": "closed", "internal": True}), (bob, {"name": "open"})):
            assert d.post("/v1/networks", body, **who).status == 201, body
        assert d.get("/v1/networks/open", **alice).json["egress"]["allow_host"] == [f"{OUTSIDE}:80"]
        assert "egress" not in d.get("/v1/networks/closed", **alice).json and "egress" not in d.get("/v1/networks/open", **bob).json
        for who, name, network in ((alice, "one", "open"), (alice, "two", "closed"), (bob, "three", "open")):
            assert make(who, name, network) == 201
        proxy = ("-x", "http://127.0.0.1:3128")
        assert reaches(alice, "one", f"http://{OUTSIDE}/", *proxy) == "200"
        # by the proxy alone, and nowhere else
        assert reaches(alice, "one", f"http://{OUTSIDE}/") == "000"
        assert reaches(alice, "one", f"http://{OUTSIDE}:81/", *proxy) == "403"
        for who, box in ((alice, "two"), (bob, "three")):
            assert reaches(who, box, f"http://{OUTSIDE}/") == "000" == reaches(who, box, f"http://{OUTSIDE}/", *proxy), box
        # no tenant opens more
        assert d.request("PATCH", "/v1/networks/open", {"allow-host": ["*"]}, **alice).status == 403
        assert d.post("/v1/networks", {"name": "x", "allow-host": ["*"]}, **alice).status == 403
        assert d.post("/v1/networks", {"name": "x", "network-rate": "1m"}, **alice).status == 403
        for who, box in ((alice, "one"), (alice, "two"), (bob, "three")):
            assert d.delete(f"/v1/sandboxes/{box}?force=true", **who).status == 200, box
        for who, name in ((alice, "open"), (alice, "closed"), (bob, "open")):
            assert d.delete(f"/v1/networks/{name}", **who).status == 200, name
        lab.untouched()
    wrong = b.write(b.tmp("wrong.toml"), '[tenant]\nnetwork_hosts = ["a b"]\n')
    b.one_line_error(b.berth("network", "create", "--tenant", "ann", "x", env={"BERTH_CONFIG": wrong}), 125, "network_hosts", "a b")


def test_the_command_line_has_the_networks_of_a_tenant():
    need_bridge()
    made = json.loads(b.berth("network", "create", "--tenant", "ann", "--json", "app", ok=True).out)
    assert (made["name"], made["tenant"], made["internal"]) == ("app", "ann", True), made
    b.one_line_error(b.berth("network", "create", "--tenant", "ann", "app"), 125, "there is a network named app")
    for args in (("--subnet", "10.9.0.0/24"), ("--allow-host", "x.test")):
        b.one_line_error(b.berth("network", "create", "--tenant", "ann", *args, "x"), 2, "the operator chooses", "hint")
    for name in ("app@bob", "a" * 62):
        b.one_line_error(b.berth("network", "create", "--tenant", "ann", name), 2, "not a name")
    b.one_line_error(b.berth("network", "inspect", "--tenant", "bob", "app"), 125, "no network named app")
    b.one_line_error(b.berth("network", "inspect", "app"), 125)
    b.one_line_error(b.berth("create", "--tenant", "bob", "--network", "app", "host"), 125, "no network named app")
    b.one_line_error(b.berth("create", "--tenant", "bob", "--network", "app@ann", "host"), 2, "not a name")
    b.berth("create", "--tenant", "ann", "--network", "app", "--name", "one", "host", ok=True)
    assert json.loads(b.berth("network", "inspect", "--tenant", "ann", "app", ok=True).out)["members"][0]["name"] == "one"
    # which is the same after a start
    b.berth("stop", "one", ok=True)
    b.berth("start", "one", ok=True)
    assert json.loads(b.berth("network", "inspect", "one", ok=True).out)["network"] == "app@ann"
    assert b.berth("network", "prune", ok=True).out == ""
    b.berth("rm", "-f", "one", ok=True)
    assert b.berth("network", "prune", ok=True).out == "", "a tenant's network stays"
    b.berth("network", "rm", "--tenant", "ann", "app", ok=True)


def far(d, *words, ok=True):
    return b.berth(*words, ok=ok, env={"BERTH_HOST": f"unix://{d.socket}"})


@b.deadline(90)
def test_networks_volumes_and_ports_from_afar():
    need_bridge()
    with Lab(forwarding=True), Daemon() as d:
        assert far(d, "network", "create", "--label", "team=x", "--subnet", "10.77.0.0/24", "app").out == "app\n"
        far(d, "network", "create", "--internal", "back")
        far(d, "network", "create", "spare")
        box = far(d, "create", "--name", "web", "--network", "app", "--publish", "8000", "--publish", "53/udp", "host").out.strip()
        shown = json.loads(far(d, "network", "inspect", "app").out)
        assert shown["subnet"] == "10.77.0.0/24" and shown["labels"]["team"] == "x" and shown["members"][0]["id"] == box, shown
        assert json.loads(far(d, "network", "inspect", "web").out)["network"] == "app", "a sandbox's own, as at home"
        assert {n["name"] for n in json.loads(far(d, "network", "ls", "--named", "--json").out)} == {"app", "back", "spare"}
        for words in (("port", "web"), ("port", "web", "8000"), ("port", "web", "53/udp"), ("port", "--json", "web")):
            assert far(d, *words).out == b.berth(*words, ok=True).out != "", words
        b.one_line_error(far(d, "port", "web", "80", ok=None), 125, "publishes no port 80", "hint: berth port web")
        far(d, "network", "connect", "--alias", "www", "back", "web")
        assert [m["name"] for m in json.loads(far(d, "network", "inspect", "back").out)["members"]] == ["web"]
        b.one_line_error(far(d, "network", "rm", "back", ok=None), 125, "1 member", "hint")
        assert far(d, "network", "prune", "--dry-run").out == "spare\n" and far(d, "network", "prune", "--force").out == "spare\n"
        far(d, "network", "disconnect", "back", "web")
        far(d, "rm", "--force", "web")
        assert json.loads(far(d, "network", "rm", "--json", "app", "back").out) == {"removed": ["app", "back"]}
        b.one_line_error(far(d, "network", "inspect", "no/such", ok=None), 125, "no/such")
        far(d, "volume", "create", "--size", "16m", "--label", "a=b", "data")
        far(d, "volume", "create", "spare")
        far(d, "create", "--name", "web", "--volume", "data:/data", "host")
        assert json.loads(far(d, "volume", "inspect", "data").out)["size_bytes"] == 16 << 20
        assert sorted(far(d, "volume", "ls", "-q").out.split()) == ["data", "spare"]
        b.one_line_error(far(d, "volume", "rm", "data", ok=None), 125, "data")
        assert far(d, "volume", "prune", "--force").out == "spare\n"
        far(d, "volume", "rm", "--force", "spare")
        far(d, "rm", "--force", "web")
        assert far(d, "volume", "rm", "data").out == "data\n"


def test_the_prunes_agree_on_their_options():
    b.berth("network", "create", "spare", ok=True)
    b.berth("volume", "create", "--size", "16m", "spare", ok=True)
    for what in ("network", "volume"):
        assert json.loads(b.berth(what, "prune", "--dry-run", "--force", "--json", ok=True).out) == {"would_remove": ["spare"]}
        assert b.berth(what, "prune", "-f", ok=True).out == "spare\n"
    b.berth("prune", "--force", ok=True)
