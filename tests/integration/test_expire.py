# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that end by themselves: --idle-timeout, --ttl, --auto-remove and [manager] idle_action; the keeper sees to it, no daemon."""
import json
import os
import subprocess
import time

import berthtest as b
import daemon
from daemon import Daemon
from managed import BOX, Managed, refused


def create(*options, **kw):
    return b.berth("create", *options, "--disk", "16m", "--disk-inodes", "1024", "host", ok=True, **kw).out.strip()


def listed():
    return {x["id"]: x for x in json.loads(b.berth("ps", "-a", "--json", ok=True).out)}


def inspect(box):
    return json.loads(b.berth("inspect", box, ok=True).out)


def gone(*boxes):
    return not set(boxes) & set(listed())


def event_of(box, event="rm"):
    lines = [json.loads(line) for line in b.berth("events", "--json", ok=True).out.splitlines()]
    return [e for e in lines if e["id"] == box and e["event"] == event]


def configured(text):
    return {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), text)}


def test_an_idle_sandbox_is_stopped_after_its_own_timeout():
    env = configured('[manager]\nidle_timeout = "1s"\n')
    soon, never = create("--idle-timeout", "300ms"), create("--idle-timeout", "0", env=env)
    assert inspect(soon)["idle_timeout_ms"] == 300 and inspect(never)["idle_timeout_ms"] == 0
    b.wait_for(lambda: listed()[soon]["status"] == "stopped", 20, "the end of the idle one")
    assert inspect(soon)["stop_reason"] == "idle timeout"
    # a start reads it again; a change holds at once and over a restart
    b.berth("start", soon, ok=True)
    b.wait_for(lambda: listed()[soon]["status"] == "stopped", 20, "the end of the idle one again")
    b.berth("update", "--idle-timeout", "0", soon, ok=True)
    b.berth("start", soon, ok=True)
    assert inspect(soon)["idle_timeout_ms"] == 0
    b.berth("update", "--idle-timeout", "250ms", never, ok=True)
    b.wait_for(lambda: listed()[never]["status"] == "stopped", 20, "the end of the one that was told to")
    assert listed()[soon]["status"] == "running"
    for box in (soon, never):
        b.berth("rm", "-f", box, ok=True)


def test_an_update_that_meets_a_start_is_not_lost():
    for _ in range(6):
        box = create("--ttl", "1h")
        b.berth("stop", box, ok=True)
        start = subprocess.Popen([b.BERTH, "start", box], env=b.environment(), stdout=subprocess.DEVNULL)
        update = b.berth("update", "--ttl", "0", "--memory", "77m", box)
        assert start.wait(30 * b.SLOW) == 0
        told = inspect(box)
        b.berth("rm", "-f", box, ok=True)
        # it holds, or it was refused as its keeper did not listen yet
        assert told["expires_ms"] is None if update.code == 0 else "at this moment" in update.err, (update, told)


def test_idle_action_remove_takes_the_files_too():
    env = configured('[manager]\nidle_timeout = "300ms"\nidle_action = "remove"\n')
    # these are not idle before they have something to do
    busy, asked = create("--idle-timeout", "0", env=env), create("--idle-timeout", "0", env=env)
    for box in (busy, asked):
        b.berth("exec", "-d", box, "sleep", "1000", ok=True)
        b.berth("update", "--idle-timeout", "300ms", box, ok=True)
    idle = create(env=env)
    b.wait_for(lambda: gone(idle), 20, "the end of the idle one")
    assert not os.path.exists(f"{b.root()}/state/sandboxes/{idle}") and event_of(idle)[0]["reason"] == "idle timeout"
    # one that is asked to stop was not idle
    b.berth("stop", asked, ok=True)
    assert listed()[asked]["status"] == "stopped" and listed()[busy]["status"] == "running"
    for box in (busy, asked):
        b.berth("rm", "-f", box, ok=True)
    p = b.berth("config", "check", env=configured('[manager]\nidle_action = "sleep"\n'))
    assert p.code == 125 and "idle_action" in p.err and "hint:" in p.err, p


def test_a_time_to_live_ends_what_works_too():
    before = time.time() * 1000
    box = create("--ttl", "1h", "--name", "brief")
    assert before - 1 <= inspect(box)["expires_ms"] - 3600000 <= time.time() * 1000 + 1
    p = b.start("exec", box, "sh", "-c", "echo up; sleep 1000")
    b.read_until(p.stdout, b"up\n")
    b.berth("update", "--ttl", "1s", box, ok=True)
    assert p.wait(60 * b.SLOW) != 0
    b.stop(p)
    b.wait_for(lambda: gone(box), 20, "the end of its time")
    # its files go first
    b.wait_for(lambda: event_of(box), 20, "the event of its end")
    assert event_of(box)[0]["reason"] == "ttl"
    assert b.berth("inspect", "brief").code == 125
    other = create("--ttl", "3s", "--name", "brief")
    b.wait_for(lambda: gone(other), 20, "the end of what was made with that time")


def test_a_time_to_live_holds_over_a_restart_and_can_be_changed():
    box = create("--ttl", "1h")
    first = inspect(box)["expires_ms"]
    b.berth("restart", box, ok=True)
    assert inspect(box)["expires_ms"] == first
    b.berth("update", "--ttl", "2h", box, ok=True)
    later = inspect(box)["expires_ms"]
    assert 3500000 < later - first < 3700000 + 600000
    b.berth("restart", box, ok=True)
    assert inspect(box)["expires_ms"] == later
    b.berth("update", "--ttl", "0", box, ok=True)
    b.berth("restart", box, ok=True)
    assert inspect(box)["expires_ms"] is None
    # of one that is stopped: nobody may start it, and gc takes it
    b.berth("stop", box, ok=True)
    b.berth("update", "--ttl", "1ms", box, ok=True)
    b.wait_for(lambda: inspect(box)["expires_ms"] < time.time() * 1000, 10, "its end")
    other = create("--ttl", "1h")
    b.berth("stop", other, ok=True)
    b.berth("update", "--ttl", "1ms", other, ok=True)
    b.wait_for(lambda: inspect(other)["expires_ms"] < time.time() * 1000, 10, "the end of the other")
    p = b.berth("start", box)
    assert p.code == 125 and "time of sandbox" in p.err and gone(box), p
    assert b.berth("gc", "--dry-run", ok=True).out.split() == [other] and not gone(other)
    assert "cleared 1" in b.berth("gc", ok=True).out and gone(other)


def test_one_that_was_not_started_yet_is_not_over():
    box = b.berth("create", "--no-start", "--auto-remove", "--disk", "16m", "host", ok=True).out.strip()
    b.berth("gc", ok=True)
    assert listed()[box]["status"] == "created"
    b.berth("start", box, ok=True)
    b.berth("stop", box, ok=True)
    b.wait_for(lambda: gone(box), 20, "its removal")


def test_auto_remove_takes_it_away_however_it_stops():
    stopped, idle, killed, restarted = (create("--auto-remove", *more) for more in ((), ("--idle-timeout", "300ms"), (), ()))
    assert inspect(stopped)["auto_remove"] is True
    b.berth("restart", restarted, ok=True)
    assert listed()[restarted]["status"] == "running"
    b.berth("stop", stopped, ok=True)
    assert gone(stopped), "gone when stop comes back"
    b.wait_for(lambda: gone(idle), 20, "the end of the idle one")
    os.kill(inspect(killed)["supervisor_pid"], 9)
    b.wait_for(lambda: b.berth("gc").code == 0 and gone(killed), 20, "the one whose keeper was killed")
    b.berth("rm", "-f", restarted, ok=True)
    assert gone(restarted)


def test_wrong_times_are_refused():
    for option in ("--idle-timeout", "--ttl"):
        for value in ("soon", "-1", "", "400d", "1x"):
            p = b.berth("create", option, value, "host")
            assert p.code == 2 and option[2:] in p.err, (option, value, p)
    box = create()
    for option in ("--idle-timeout", "--ttl"):
        assert b.berth("update", option, "soon", box).code == 2
    b.berth("rm", "-f", box, ok=True)
    assert not listed()


def test_over_http_with_what_a_tenant_may_ask_for():
    with Daemon("", tcp=True) as d:
        made = d.good("POST", "/v1/sandboxes", {"image": "host", "options": {"ttl": "1h", "auto-remove": True, "idle-timeout": "30m",
                                                                            "disk": "16m", "disk-inodes": 1024}})
        told = d.get(f"/v1/sandboxes/{made['id']}").json
        assert told["auto_remove"] is True and told["idle_timeout_ms"] == 1800000 and told["expires_ms"] > time.time() * 1000
        assert d.request("PATCH", f"/v1/sandboxes/{made['id']}", {"ttl": "0", "idle-timeout": 60}).status == 200
        told = d.get(f"/v1/sandboxes/{made['id']}").json
        assert told["expires_ms"] is None and told["idle_timeout_ms"] == 60000
        ask = lambda **options: d.request("POST", "/v1/sandboxes", {"image": "host", "options": options}, token=daemon.TENANT)
        r = ask(ttl="1h", **{"auto-remove": True, "disk": "16m", "disk-inodes": 1024})
        assert r.status == 201, r
        patch = lambda **what: d.request("PATCH", f"/v1/sandboxes/{r.json['id']}", what, token=daemon.TENANT).status
        assert patch(ttl="2h") == 200 and patch(**{"idle-timeout": 0}) == 403
        assert ask(**{"idle-timeout": "0"}).status == 403
        d.request("POST", f"/v1/sandboxes/{r.json['id']}/stop", token=daemon.TENANT)
        d.request("POST", f"/v1/sandboxes/{made['id']}/stop")
        b.wait_for(lambda: not d.get("/v1/sandboxes").json["sandboxes"], 20, "the end of both")


def test_what_is_stopped_takes_no_place_but_one_of_its_own():
    env = configured("[manager]\nmax_sandboxes = 2\nmax_stopped = 3\n")
    make = lambda: b.berth("create", "--disk", "16m", "--disk-inodes", "1024", "host", env=env)
    first, second = make().out.strip(), make().out.strip()
    p = make()
    assert p.code == 125 and "2 sandboxes run, the limit is 2" in p.err and "hint: stop or remove some" in p.err, p
    b.berth("stop", first, second, ok=True)
    third, fourth = make(), make()
    assert third.code == fourth.code == 0, (third, fourth)
    # a start needs a place, and the hint makes one
    p = b.berth("start", first, env=env)
    assert p.code == 125 and "2 sandboxes run" in p.err and listed()[first]["status"] == "stopped", p
    b.berth("stop", third.out.strip(), ok=True)
    b.berth("start", first, env=env, ok=True)
    # a run, which leaves nothing, takes no place of the stopped
    b.berth("stop", first, ok=True)
    b.berth("run", "host", "true", env=env, ok=True)
    p = make()
    assert p.code == 125 and "3 stopped sandboxes exist, the limit is 3" in p.err and "max_stopped" in p.err, p
    b.berth("rm", second, third.out.strip(), ok=True)
    fifth = make()
    assert fifth.code == 0, fifth
    b.berth("rm", "-f", first, fourth.out.strip(), fifth.out.strip(), ok=True)


def test_the_manager_counts_those_that_run():
    with Managed(BOX + "[manager]\nmax_sandboxes = 2\n") as d:
        m = d.manager
        count = lambda: m.stats()["admission"]["sandboxes"]
        first, second = m.create(), m.create()
        refused(429, m.create)
        assert m.stop(identity=first) is True and count() == 1
        third = m.create()
        assert count() == 2
        refused(429, m.start, identity=first)
        assert m.get_status(identity=first) == "exited" and count() == 2
        assert m.release(identity=third) is True
        assert m.shell(first, "echo again")[0]["stdout"] == "again\n" and count() == 2
        # over a restart of berthd, too
        assert m.stop(identity=second) is True and d.stop() == 0
        d.start()
        b.wait_for(lambda: d.get("/readyz").status == 200, 20, "berthd again")
        assert count() == 1, m.stats()["admission"]
        assert m.release(identity=second) is True and count() == 1, m.stats()["admission"]
        assert m.release(identity=first) is True and count() == 0
