# SPDX-License-Identifier: Apache-2.0
"""Networks by berthd: the administrator's; a tenant neither sees nor joins one."""
import json

import berthtest as b
import daemon
from daemon import Daemon
from netlab import Lab, need_bridge


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


@b.deadline(60)
def test_a_tenant_neither_sees_nor_joins_networks():
    alice = {"tcp": True, "token": daemon.TENANT}
    with Daemon(tcp=True) as d:
        assert d.post("/v1/networks", {"name": "app"}).status == 201
        for method, path, body in (("GET", "/v1/networks", None), ("GET", "/v1/networks?named=true", None), ("GET", "/v1/networks/app", None),
                                   ("DELETE", "/v1/networks/app", None), ("POST", "/v1/networks", {"name": "mine"}),
                                   ("POST", "/v1/networks/app/connect", {"sandbox": "x"}), ("POST", "/v1/networks/app/disconnect", {"sandbox": "x"})):
            r = d.request(method, path, body, **alice)
            assert r.status == 403, (method, path, r)
        for options in ({"network": "app"}, {"alias": ["x"]}, {"add-host": ["x:1.2.3.4"]}, {"publish": ["80"]}):
            assert d.post("/v1/sandboxes", {"image": "host", "options": options}, **alice).status == 403, options
        assert d.good("DELETE", "/v1/networks/app") == {"removed": True}


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
        assert {n["name"] for n in json.loads(far(d, "network", "ls", "--named").out)} == {"app", "back", "spare"}
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
