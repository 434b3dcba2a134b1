# SPDX-License-Identifier: Apache-2.0
"""One model: the manager's create takes what POST /v1/sandboxes does, that route what the manager does, and each sees the other's."""
import json

import berthtest as b
import daemon
from managed import BOX, FAST, POOL, Managed, refused

COST = 12


def record_of(name):
    return json.loads(b.berth("inspect", name, ok=True).out)


def test_the_managers_create_takes_the_options_of_the_routes():
    with Managed(POOL.replace("size = 2", "size = 1") + FAST) as d:
        m = d.manager
        d.warm(1)
        name = m.create_from_pool(options={"network": "none", "label": ["a=b", "c"], "env": ["A=1"], "disk": "24m", "memory": "48m", "user": "1000",
                                           "volume": ["data:/data"]}, environment={"B": "2"})
        assert m.stats()["counts"]["claimed"] == 0, "a warm sandbox cannot have an image and options of its own"
        record = record_of(name)
        assert record["labels"]["a"] == "b" and record["labels"]["c"] == "" and record["labels"]["berth.managed-by"] == "berthd", record
        out = m.shell(name, "echo $A $B; id -u; touch made; stat -c %u made .; df -BM --output=size / | tail -1; "
                            "grep -c ' /data ' /proc/self/mounts")[0]["stdout"].split()
        assert out[:5] == ["1", "2", "1000", "1000", "1000"] and int(out[5].strip("M")) <= 24 and out[6:] == ["1"], out
        info = m.get_info(identity=name)
        assert info["berth"]["memory_bytes"] == 48 << 20 == d.good("GET", "/v1/sandboxes/" + info["container_id"])["memory_limit_bytes"]
        for bad in ({"options": {"nosuch": 1}}, {"options": {"name": "x"}}, {"options": {"memory": "64m"}, "memory": "32m"}, {"options": {"cpus": "many"}},
                    {"options": {"no-start": True}}, {"options": {"auto-remove": True}}, {"options": []}, {"command": [1]}, {"image": ""},
                    {"pull": "perhaps"}):
            refused(400, m.create, **bad)
        refused(404, m.create, image="nosuch", pull="never")
        assert m.get_info(identity=m.create(image="host", command=["sleep", "1000"], pull=None, options=None))["berth"]["chosen"]["command"]
        m.cleanup()
        b.berth("volume", "rm", "data", ok=True)


def test_what_was_chosen_comes_back_with_the_session():
    with Managed(BOX + FAST) as d:
        m = d.manager
        name = m.create(meta={"session_ctx_id": "s"}, options={"env": ["A=1"], "label": ["k=v"], "memory": "40m", "cpus": "0.5"})
        m.shell(name, "echo kept > note")
        m.native("sessions/s/reap")
        m.native("sessions/s/restore")
        (again,) = m.get_session_mapping(session_ctx_id="s")
        assert again != name and m.shell(again, "echo $A; cat note")[0]["stdout"].split() == ["1", "kept"]
        assert record_of(again)["labels"]["k"] == "v"
        own = m.get_info(identity=again)["berth"]
        assert (own["memory_bytes"], own["cpu_milli"]) == (40 << 20, 500)


def test_the_route_takes_sessions_intervals_and_types():
    with Managed(BOX + FAST + 'auto_stop = "1h"\n') as d:
        m = d.manager
        made = d.good("POST", "/v1/sandboxes", {"name": "chat", "session": "s", "auto_stop": "2h", "options": {"label": ["a=b"]}})
        assert made["name"] == "chat" and made["session"] == "s" and m.list_session_keys() == ["s"]
        seen = d.good("GET", "/v1/sandboxes/chat")
        assert seen["id"] == made["id"] and seen["labels"]["a"] == "b"
        assert seen["manager"]["session_ctx_id"] == "s" and seen["manager"]["auto_stop_ms"] == 7200000 and seen["manager"]["state"] == "running"
        assert m.shell("chat", "pwd")[0]["stdout"] == "/workspace\n"
        d.good("POST", "/v1/manager/sessions/s/heartbeat", {})
        other = d.good("POST", "/v1/sandboxes", {"sandbox_type": "base", "auto_delete": "1h"})
        assert other["session"] is None
        assert d.good("POST", "/v1/sandboxes", {}).get("session", 0) == 0, "a sandbox of its own has become the manager's"
        for bad, status in (({"session": ""}, 400), ({"session": "a\nb"}, 400), ({"sandbox_type": "nosuch"}, 400), ({"auto_stop": "soon"}, 400),
                            ({"session": 1}, 400), ({"storage_path": "x"}, 400), ({"session": "s", "options": {"no-start": True}}, 400)):
            assert d.post("/v1/sandboxes", bad).status == status, bad
        name = m.get_info(identity="chat")["container_name"]
        for one in d.good("GET", "/v1/sandboxes")["sandboxes"]:
            d.good("DELETE", f"/v1/sandboxes/{one['id']}?force=true")
        b.wait_for(lambda: m.get_status(identity=name) == "released", 20, "the record of what was removed by hand")


def test_a_tenants_sandboxes_are_seen_by_every_route_and_by_no_other_tenant():
    with Managed(POOL.replace("size = 2", "size = 1") + FAST) as d:
        d.warm(1)
        alice, bob = d.client(daemon.TENANT), d.client(daemon.OTHER)

        def listed(token):
            return {x["id"] for x in d.request("GET", "/v1/sandboxes", token=token, tcp=True).json["sandboxes"]}

        claimed, made = alice.create_from_pool(), alice.create(options={"memory": "32m"})
        ids = {alice.get_info(identity=x)["container_id"] for x in (claimed, made)}
        by_route = d.post("/v1/sandboxes", {"session": "mine", "options": {"volume": ["data:/data"]}}, token=daemon.TENANT, tcp=True).json
        assert listed(daemon.TENANT) == ids | {by_route["id"]} and listed(daemon.OTHER) == set()
        for one in ids | {by_route["id"]}:
            for verb, path, body in (("GET", "", None), ("POST", "/exec", {"argv": ["true"]}), ("DELETE", "?force=true", None)):
                assert d.request(verb, f"/v1/sandboxes/{one}{path}", body, token=daemon.OTHER, tcp=True).status == 404
            assert d.post(f"/v1/sandboxes/{one}/exec", {"argv": ["true"]}, token=daemon.TENANT, tcp=True).json["exit_status"] == 0
        assert by_route["session"] == "mine" and alice.list_session_keys() == ["mine"] and bob.list_session_keys() == []
        refused(404, bob.get_info, identity=by_route["id"])
        # a tenant's word is worth as much here as there: what needs an administrator needs one by each face
        for bad in ({"options": {"network": "bridge"}}, {"options": {"volume": ["/etc:/e"]}}, {"options": {"cap-add": ["SYS_ADMIN"]}}, {"image": "/"},
                    {"image": "host", "pull": "always"}, {"options": {"tenant": "bob"}}, {"options": {"device": ["/dev/null"]}}):
            refused(403, alice.create, **bad)
            assert d.post("/v1/sandboxes", dict(bad, session="x"), token=daemon.TENANT, tcp=True).status == 403, bad
            assert d.post("/v1/sandboxes", bad, token=daemon.TENANT, tcp=True).status == 403, bad
        assert alice.list_session_keys() == ["mine"]
        alice.cleanup()
        b.berth("volume", "rm", "data@alice", ok=True)


def test_the_limits_of_tenant_bind_what_it_chooses():
    limits = '[tenant]\nmemory_limit = "64m"\ndisk_limit = "32m"\nsandboxes = 2\n'
    with Managed(BOX + limits + FAST) as d:
        alice = d.client(daemon.TENANT)
        refused(429, alice.create, options={"memory": "128m"})
        refused(429, alice.create, options={"disk": "64m"})
        assert d.post("/v1/sandboxes", {"session": "s", "options": {"disk": "64m"}}, token=daemon.TENANT, tcp=True).status == 429
        assert d.get("/v1/sandboxes").json["sandboxes"] == [], "something was left of what was refused"
        alice.create(options={"memory": "64m"})
        assert d.post("/v1/sandboxes", {"session": "s", "options": {"memory": "64m"}}, token=daemon.TENANT, tcp=True).status == 201
        refused(429, alice.create, options={"memory": "16m"})
        assert d.post("/v1/sandboxes", {"options": {"memory": "16m"}}, token=daemon.TENANT, tcp=True).status == 429
