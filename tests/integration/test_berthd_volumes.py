# SPDX-License-Identifier: Apache-2.0
"""Volumes by berthd: an administrator's, and those of tenants, which have names of their own and a bound."""
import os

import berthtest as b
import daemon
from daemon import Daemon

CONFIG = "[tenant]\nvolumes = 2\n"


def as_tenant(token):
    return {"tcp": True, "token": token}


@b.deadline(90)
def test_volumes_are_made_listed_shown_and_removed():
    with Daemon() as d:
        r = d.post("/v1/volumes", {"name": "data", "size": "32m", "label": ["team=x"]})
        assert r.status == 201 and r.json == {"name": "data"}, r
        assert d.post("/v1/volumes", {"name": "data"}).status == 409
        assert d.post("/v1/volumes", {"name": "../x"}).status == 400
        assert d.post("/v1/volumes", {"name": "x", "size": "1"}).status == 400
        assert d.post("/v1/volumes", {"name": "x", "tenant": "alice"}).status == 400
        assert [v["name"] for v in d.good("GET", "/v1/volumes")["volumes"]] == ["data"]
        assert d.good("GET", "/v1/volumes/data")["labels"] == {"team": "x"}
        box = d.create("user", volume=["data:/x"])
        d.exec(box, "sh", "-c", "echo kept > /x/f")
        r = d.delete("/v1/volumes/data")
        assert r.status == 409 and "user" in r.json["error"]["message"], r
        assert d.good("GET", "/v1/volumes/data")["used_by"][0]["name"] == "user"
        assert d.delete("/v1/sandboxes/user?force=true").status == 200
        assert d.good("DELETE", "/v1/volumes/data") == {"removed": True}
        assert d.get("/v1/volumes/data").status == 404


@b.deadline(90)
def test_a_tenant_has_volumes_of_its_own():
    alice, bob = as_tenant(daemon.TENANT), as_tenant(daemon.OTHER)
    with Daemon(CONFIG, tcp=True) as d:
        assert d.post("/v1/volumes", {"name": "data", "size": "16m"}).status == 201
        a = d.create("a", volume="data:/x", **alice)
        d.exec(a, "sh", "-c", "ls -A /x; echo alices > /x/f", **alice)
        # the same name, another volume
        c = d.create("c", volume=["data:/x"], **bob)
        assert d.exec(c, "ls", "-A", "/x", **bob)["stdout"] == ""
        for who in (alice, bob):
            assert [v["name"] for v in d.good("GET", "/v1/volumes", **who)["volumes"]] == ["data"]
            users = d.good("GET", "/v1/volumes/data", **who)["used_by"]
            assert len(users) == 1, users
            # neither nobody's nor the other's can be named
            for name in ("data@alice", "data@bob"):
                for method in ("GET", "DELETE"):
                    r = d.request(method, f"/v1/volumes/{name}", **who)
                    assert r.status in (400, 404), r
        assert len(d.good("GET", "/v1/volumes")["volumes"]) == 3
        # the maximum holds for both ways to make one
        assert d.post("/v1/volumes", {"name": "two"}, **alice).status == 201
        r = d.post("/v1/volumes", {"name": "three"}, **alice)
        assert r.status == 429 and "may have 2" in r.json["error"]["message"], r
        r = d.post("/v1/sandboxes", {"image": "host", "options": {"volume": "three:/x"}}, **alice)
        assert r.status == 429, r
        # an option that names a directory of the host, or could, needs an admin token
        for value in ("/etc:/x", "./x:/x", ".:/x", "..:/x", "a/b:/x", ":/x", ["data:/x", "/etc:/y"], 5, True, {}, [5]):
            r = d.post("/v1/sandboxes", {"image": "host", "options": {"volume": value}}, **alice)
            assert r.status in (400, 403), (value, r)
        for option in ("mount", "tenant"):
            r = d.post("/v1/sandboxes", {"image": "host", "options": {option: "type=volume,src=data,dst=/x"}}, **alice)
            assert r.status == 403, r
        r = d.post("/v1/run", {"image": "host", "argv": ["cat", "/x/f"], "options": {"volume": "data:/x:ro"}}, **alice)
        assert r.json["stdout"] == "alices\n", r
        assert d.request("DELETE", "/v1/volumes/data", **alice).status == 409
        for box, who in ((a, alice), (c, bob)):
            assert d.request("DELETE", f"/v1/sandboxes/{box}?force=true", **who).status == 200
        for name, who in (("data", alice), ("two", alice), ("data", bob), ("data", {})):
            assert d.good("DELETE", f"/v1/volumes/{name}", **who) == {"removed": True}
        assert os.listdir(os.path.join(b.root(), "state/volumes")) == []
