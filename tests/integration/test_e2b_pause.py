# SPDX-License-Identifier: Apache-2.0
"""Pauses of E2B: what a request wakes, and what keeps its files alone."""
import base64
import json
import time

import berthtest as b
from daemon import OTHER, Daemon
from e2bwire import Client, envelope

COST = 15
BOOT = "/proc/sys/kernel/random/boot_id"


def told(e):
    return json.loads(b.berth("inspect", e.id, ok=True).out)


def state(c, e):
    r = c.ask("GET", f"/sandboxes/{e.id}")
    assert r.status == 200, r
    return r.json["state"]


def wait_for_pause(c, e):
    b.wait_for(lambda: state(c, e) == "paused", 60, "the pause at the end of its time")


def seconds_left(e):
    return told(e)["expires_ms"] / 1000 - time.time()


@b.deadline(120)
def test_any_request_to_a_paused_sandbox_with_auto_resume_lets_it_go_on():
    with Daemon(tcp=True) as d:
        c = Client(d)
        e = c.create(timeout=1, autoPause=True, autoResume={"enabled": True})
        assert c.ask("GET", f"/sandboxes/{e.id}").json["lifecycle"] == {"onTimeout": "pause", "autoResume": True}
        wait_for_pause(c, e)
        # to look at it is no use of it
        assert [s["sandboxID"] for s in c.ask("GET", "/v2/sandboxes?state=paused").json] == [e.id]
        b.berth("ps", ok=True)
        b.berth("stats", "--no-stream", e.id, ok=True)
        assert state(c, e) == "paused"
        # a command; then it has the five minutes that E2B gives at least
        assert e.run("echo on > /tmp/f; cat /tmp/f")[0] == b"on\n"
        assert state(c, e) == "running" and 200 < seconds_left(e) <= 300, told(e)
        # after a pause by hand: a file, a shell of berth's own
        for use in (lambda: e.ask("GET", "/files?path=/tmp/f").body == b"on\n", lambda: b.berth("exec", e.id, "cat", "/tmp/f", ok=True).out == "on\n",
                    lambda: e.call("filesystem.Filesystem/Stat", path="/tmp/f").json["entry"]["size"] == "3"):
            assert c.ask("POST", f"/sandboxes/{e.id}/pause", {}).status == 204
            assert told(e)["expires_ms"] is None and state(c, e) == "paused"
            assert use()
            assert state(c, e) == "running" and 200 < seconds_left(e) <= 300, told(e)
        # what ran in it goes on; its input is a use, too
        connection, reply = e.open("process.Process/Start", process={"cmd": "/bin/cat"}, stdin=True)
        pid = envelope(reply)[1]["event"]["start"]["pid"]
        assert c.ask("POST", f"/sandboxes/{e.id}/pause", {}).status == 204
        r = e.call("process.Process/SendInput", process={"pid": pid}, input={"stdin": base64.b64encode(b"more\n").decode()})
        assert r.status == 200, r
        assert base64.b64decode(envelope(reply)[1]["event"]["data"]["stdout"]) == b"more\n"
        assert e.call("process.Process/SendSignal", process={"pid": pid}, signal="SIGNAL_SIGKILL").status == 200
        connection.close()
        # the timeout that somebody sets counts, and at its end it pauses again
        assert c.ask("POST", f"/sandboxes/{e.id}/timeout", {"timeout": 1}).status == 204
        wait_for_pause(c, e)
        d.stop()
        d.start()
        assert e.run("cat /tmp/f")[0] == b"on\n"


def test_a_longer_timeout_carries_over_and_forks_wake_too():
    with Daemon(tcp=True) as d:
        c = Client(d)
        e = c.create(timeout=1200, autoPause=True, autoResume={"enabled": True})
        r = c.ask("POST", f"/sandboxes/{e.id}/fork", {"timeout": 60})
        fork = r.json[0]["sandbox"]["sandboxID"]
        assert c.ask("GET", f"/sandboxes/{fork}").json["lifecycle"] == {"onTimeout": "pause", "autoResume": True}
        assert c.ask("POST", f"/sandboxes/{e.id}/pause", {}).status == 204
        assert e.run("echo on")[0] == b"on\n"
        assert 1000 < seconds_left(e) <= 1200, told(e)
        # another tenant's request wakes nothing
        assert c.ask("POST", f"/sandboxes/{e.id}/pause", {}).status == 204
        e.headers["X-Access-Token"] = "e2b_" + OTHER
        assert e.ask("GET", "/files?path=/tmp/f").status == 502
        assert state(c, e) == "paused"


def test_a_request_wakes_no_sandbox_that_was_not_made_so():
    with Daemon(tcp=True) as d:
        c = Client(d)
        e = c.create(timeout=60, autoPause=True, autoResume={"enabled": True})
        plain = c.create(timeout=60, autoPause=True)
        assert c.ask("POST", f"/sandboxes/{plain.id}/pause", {}).status == 204
        r = plain.ask("GET", "/files?path=/etc/passwd")
        assert r.status == 409 and "paused" in r.json["message"], r
        assert state(c, plain) == "paused"
        # one that was stopped with its files is not woken by a request, as E2B has it
        assert c.ask("POST", f"/sandboxes/{e.id}/pause", {"memory": False}).status == 204
        assert e.ask("GET", "/health").status == 502 and state(c, e) == "paused"
        assert c.ask("POST", f"/v2/sandboxes/{e.id}/connect", {"timeout": 60}).status == 200
        assert e.run("echo on")[0] == b"on\n"


@b.deadline(120)
def test_a_pause_without_memory_keeps_the_files_and_connect_starts_it():
    with Daemon("[tenant]\nsandboxes = 2\n", tcp=True) as d:
        c = Client(d)
        e = c.create(metadata={"a": "1"}, envVars={"FOO": "bar"})
        running = c.ask("GET", f"/sandboxes/{e.id}").json
        boots = [e.run(f"cat {BOOT}")[0]]
        e.run("echo kept > /root/f; nohup sleep 1000 >/dev/null 2>&1 &")
        assert c.ask("POST", f"/sandboxes/{e.id}/pause", {"memory": False}).status == 204
        one = c.ask("GET", f"/sandboxes/{e.id}").json
        assert one["state"] == "paused" and one["metadata"] == {"a": "1"}, one
        assert [one[k] for k in ("cpuCount", "memoryMB")] == [running[k] for k in ("cpuCount", "memoryMB")], one
        assert told(e)["status"] == "stopped" and told(e)["expires_ms"] is None
        assert [s["sandboxID"] for s in c.ask("GET", "/v2/sandboxes?state=paused").json] == [e.id]
        assert c.ask("GET", "/v2/sandboxes?state=running").json == []
        assert Client(d, OTHER).ask("GET", "/v2/sandboxes").json == []
        assert Client(d, OTHER).ask("POST", f"/v2/sandboxes/{e.id}/connect", {"timeout": 60}).status == 404
        # what needs one that runs says so
        for path, body, status in (("pause", {}, 409), ("pause", {"memory": False}, 409), ("timeout", {"timeout": 60}, 404), ("pause", {"memory": 1}, 400)):
            assert c.ask("POST", f"/sandboxes/{e.id}/{path}", body).status == status, (path, body)
        assert e.ask("GET", "/files?path=/root/f").status == 502
        b.berth("gc", ok=True)
        assert c.ask("POST", f"/v2/sandboxes/{e.id}/connect", {"timeout": 60}).status == 200
        assert e.run("cat /root/f; echo $FOO; ps ax | grep -c '[s]leep 1000' || true")[0] == b"kept\nbar\n0\n"
        assert 0 < seconds_left(e) <= 60
        boots.append(e.run(f"cat {BOOT}")[0])
        with open(BOOT, "rb") as host:
            boots.append(host.read())
        assert len(set(boots)) == 3 and {len(x) for x in boots} == {37} and e.run(f"cat {BOOT}")[0] == boots[1], boots
        # a reboot of one that is frozen; connect() ends nothing of one that runs
        e.run("nohup sleep 1000 >/dev/null 2>&1 &")
        assert c.ask("POST", f"/v2/sandboxes/{e.id}/connect", {"timeout": 60, "memory": False}).status == 200
        assert e.run("ps ax | grep -c '[s]leep 1000'")[0] == b"1\n"
        assert c.ask("POST", f"/sandboxes/{e.id}/pause", {}).status == 204
        assert c.ask("POST", f"/sandboxes/{e.id}/resume", {"timeout": 60, "memory": False}).status == 201
        assert e.run("cat /root/f; ps ax | grep -c '[s]leep 1000' || true")[0] == b"kept\n0\n"
        assert c.ask("POST", f"/sandboxes/{e.id}/pause", {"memory": False}).status == 204
        assert c.ask("DELETE", f"/sandboxes/{e.id}").status == 204
        assert json.loads(b.berth("ps", "-a", "--json", ok=True).out) == []


@b.deadline(120)
def test_a_sandbox_with_auto_pause_memory_false_is_stopped_at_its_timeout_again_and_again():
    with Daemon(tcp=True) as d:
        c = Client(d)
        e = c.create(timeout=1, autoPause=True, autoPauseMemory=False)
        wait_for_pause(c, e)
        b.wait_for(lambda: told(e)["status"] == "stopped", 60, "the end of its processes")
        assert told(e)["stop_reason"] == "stop-at-end" and told(e)["expires_ms"] is None
        b.berth("gc", ok=True)
        for i in range(2):
            assert c.ask("POST", f"/v2/sandboxes/{e.id}/connect", {"timeout": 60}).status == 200
            assert e.run("echo x >> /root/f; wc -l < /root/f")[0] == b"%d\n" % (i + 1)
            assert c.ask("GET", f"/sandboxes/{e.id}").json["lifecycle"] == {"onTimeout": "pause", "autoResume": False}
            assert c.ask("POST", f"/sandboxes/{e.id}/timeout", {"timeout": 1}).status == 204
            b.wait_for(lambda: told(e)["status"] == "stopped", 60, "the end of its processes")


def test_a_lifecycle_that_e2b_refuses_is_refused_and_makes_nothing():
    with Daemon(tcp=True) as d:
        c = Client(d)
        for more in ({"autoPause": "yes"}, {"autoPause": True, "autoPauseMemory": 1}, {"autoResume": {"enabled": True}},
                     {"autoPause": True, "autoPauseMemory": False, "autoResume": {"enabled": True}}, {"autoPause": True, "autoResume": True},
                     {"autoPause": True, "autoResume": {}}, {"autoPause": True, "autoResume": {"enabled": 1}},
                     {"autoPause": True, "autoResume": {"enabled": True, "policy": "any"}}):
            r = c.ask("POST", "/v2/sandboxes", {"templateID": "base", **more})
            assert r.status == 400 and r.json["message"], (more, r)
        assert json.loads(b.berth("ps", "-a", "--json", ok=True).out) == []


@b.deadline(120)
def test_a_stopped_sandbox_counts_among_its_tenants_and_starts_within_them():
    with Daemon("[tenant]\nsandboxes = 1\n", tcp=True) as d:
        c = Client(d)
        e = c.create()
        assert c.ask("POST", f"/sandboxes/{e.id}/pause", {"memory": False}).status == 204
        r = c.ask("POST", "/v2/sandboxes", {"templateID": "base"})
        assert r.status == 429 and "sandboxes" in r.json["message"], r
        assert c.ask("POST", f"/v2/sandboxes/{e.id}/connect", {"timeout": 60}).status == 200
        assert e.run("echo on")[0] == b"on\n"
        assert c.ask("POST", "/v2/sandboxes", {"templateID": "base"}).status == 429


@b.deadline(180)
def test_connect_waits_for_a_stop_that_is_under_way_and_starts_it_again():
    with Daemon(tcp=True) as d:
        c = Client(d)
        e = c.create(timeout=60, autoPause=True, autoPauseMemory=False)
        # it takes its time to stop
        e.run("echo kept > /root/f; (trap '' TERM; while :; do sleep 1; done) >/dev/null 2>&1 &")
        assert c.ask("POST", f"/sandboxes/{e.id}/timeout", {"timeout": 1}).status == 204
        b.wait_for(lambda: told(e)["expires_ms"] is None, 60, "the begin of the stop")
        r = c.ask("POST", f"/v2/sandboxes/{e.id}/connect", {"timeout": 60})
        assert r.status == 200, r
        assert e.run("cat /root/f; ps ax | grep -c '[s]leep 1' || true")[0] == b"kept\n0\n"
        assert state(c, e) == "running" and 0 < seconds_left(e) <= 60
