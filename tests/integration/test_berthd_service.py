# SPDX-License-Identifier: Apache-2.0
"""Services by berthd: main command, restart policy and health check, of a tenant too, and what of them can change."""
import berthtest as b
import daemon
from daemon import Daemon


@b.deadline(90)
def test_a_tenants_service_has_its_policy_and_its_check():
    alice = {"tcp": True, "token": daemon.TENANT}
    with Daemon(tcp=True) as d:
        r = d.post("/v1/sandboxes", {"name": "web", "image": "host", "command": ["sh", "-c", "echo up; exec sleep 1000"], "options": {
            "restart": "on-failure:3", "stop-signal": "KILL", "init-command": "true", "health-cmd": "true", "health-interval": "100ms"}}, **alice)
        assert r.status == 201, r
        box = r.json["id"]

        def shown():
            return d.good("GET", f"/v1/sandboxes/{box}", **alice)
        b.wait_for(lambda: shown().get("health") == "healthy", 20, lambda: f"its health: {shown()}")
        assert (shown()["restart"], shown()["restarts"], shown()["service"]) == ("on-failure:3", 0, True), shown()
        change = {"restart": "no", "health-cmd": "exit 1", "health-retries": 1}
        assert d.request("PATCH", f"/v1/sandboxes/{box}", change, **alice).status == 200
        b.wait_for(lambda: shown().get("health") == "unhealthy", 20, lambda: f"its health: {shown()}")
        assert shown()["restart"] == "no", shown()
        assert d.request("PATCH", f"/v1/sandboxes/{box}", {"no-health": True}, **alice).status == 200
        assert "health" not in shown(), shown()
        # processes of the host are not for tenants to name
        for body in ({"owner-pid": 1}, {"owner-grace": "1s"}, {"idle-timeout": "1s"}):
            r = d.request("PATCH", f"/v1/sandboxes/{box}", body, **alice)
            assert r.status == 403 and next(iter(body)) in r.json["error"]["message"], r
        assert d.request("DELETE", f"/v1/sandboxes/{box}?force=true", **alice).status == 200
