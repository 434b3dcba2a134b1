# SPDX-License-Identifier: Apache-2.0
"""
Session ids are each owner's own (S19 of SECURITY.md): two tenants use the same id, and neither sees, blocks, renews, reaps or
learns of the other's session.  A store in which an older berth had one namespace for all is read.
"""
import contextlib
import json
import shutil
import signal
import sqlite3
import subprocess

import berthtest as b
from daemon import OTHER, TENANT
from managed import BOX, FAST, Managed, Redis, listens, refused

TIGHT = BOX + '[session]\nscan_interval = "1h"\nheartbeat_timeout = "1h"\n'


def manager_get(m, path):
    r = m.http.get(f"{m.base_url}/v1/manager/{path}", timeout=60 * b.SLOW)
    assert r.ok, r.text
    return r.json()


def test_S19_two_tenants_have_the_same_session_id():
    with Managed(TIGHT) as d:
        admin, alice, bob = d.manager, d.client(TENANT), d.client(OTHER)
        hers = alice.create(meta={"session_ctx_id": "shared"})
        his = bob.create_from_pool(meta={"session_ctx_id": "shared"})
        his_v1 = d.good("POST", "/v1/sandboxes", {"sandbox_type": "base", "session": "shared"}, token=OTHER)
        assert his_v1["session"] == "shared"
        his_v1 = next(x["container_name"] for x in manager_get(bob, "sandboxes")["sandboxes"] if x["container_id"] == his_v1["id"])
        assert alice.get_session_mapping(session_ctx_id="shared") == [hers]
        assert sorted(bob.get_session_mapping(session_ctx_id="shared")) == sorted([his, his_v1])
        assert alice.list_session_keys() == ["shared"] == bob.list_session_keys()
        assert manager_get(alice, "sessions")["sessions"] == ["shared"]
        # an administrator sees the id once, and all that have it
        assert admin.list_session_keys() == ["shared"]
        assert sorted(admin.get_session_mapping(session_ctx_id="shared")) == sorted([hers, his, his_v1])
        for verb in ("heartbeat", "reap", "restore"):
            r = admin.native(f"sessions/shared/{verb}", ok=False)
            assert r.status_code == 400 and "2 owners have a session" in r.text, r.text
        # until it has a session of its own: no tenant's sandbox gets into that
        mine = admin.create(meta={"session_ctx_id": "shared"})
        assert admin.get_session_mapping(session_ctx_id="shared") == [mine]
        # what one does with the id is done to its own session
        before = alice.get_info(identity=hers)["last_active_at"]
        assert bob.native("sessions/shared/heartbeat").ok and admin.native("sessions/shared/heartbeat").ok
        assert alice.get_info(identity=hers)["last_active_at"] == before
        assert bob.native("sessions/shared/reap").ok
        assert [m.get_status(identity=x) for m, x in ((bob, his), (bob, his_v1), (alice, hers), (admin, mine))] == [
            "recycled", "recycled", "running", "running"]
        assert bob.native("sessions/shared/restore").ok
        new = bob.get_session_mapping(session_ctx_id="shared")
        assert len(new) == 2 and not {his, his_v1, hers, mine} & set(new), new
        assert bob.shell(his, "echo here")[0]["stdout"] == "here\n"     # it leads to the new one
        for name in new:
            assert bob.release(identity=name) is True
        assert bob.list_session_keys() == [] and alice.get_session_mapping(session_ctx_id="shared") == [hers]
        assert alice.release(identity=hers) is True
        assert alice.list_session_keys() == [] and admin.get_session_mapping(session_ctx_id="shared") == [mine]


def test_S19_an_id_that_another_tenant_has_is_like_one_that_nobody_has():
    with Managed(TIGHT) as d:
        alice, bob = d.client(TENANT), d.client(OTHER)
        alice.create(meta={"session_ctx_id": "taken"})

        def said(ctx):
            answers = [bob.native(f"sessions/{ctx}/{verb}", ok=False) for verb in ("heartbeat", "reap", "restore")]
            answers.append(bob.http.post(f"{bob.base_url}/get_session_mapping", json={"session_ctx_id": ctx}))
            return [(r.status_code, r.text.replace(ctx, "ID")) for r in answers]
        assert said("taken") == said("nobod") and [s for s, _ in said("taken")] == [404, 404, 404, 200]
        # not by another spelling of a name in the store
        for ctx in ("alice/taken", "../alice/taken", "/alice/taken", "alice%2Ftaken", "taken ", "%"):
            assert bob.get_session_mapping(session_ctx_id=ctx) == [], ctx
            assert bob.native(f"sessions/{ctx.replace('%', '%25').replace('/', '%2F')}/reap", ok=False).status_code == 404, ctx
        assert bob.list_session_keys() == []
        for ctx in ("alice/taken", "/", "//taken"):
            name = bob.create(meta={"session_ctx_id": ctx})
            assert bob.list_session_keys() == [ctx] and bob.get_session_mapping(session_ctx_id=ctx) == [name]
            assert bob.release(identity=name) is True
        assert alice.list_session_keys() == ["taken"]
        # an administrator means the only one that there is
        assert d.manager.native("sessions/taken/heartbeat").ok


def test_S19_a_session_id_is_refused_before_it_would_be_cut():
    with Managed(TIGHT) as d:
        alice = d.client(TENANT)
        longest = "é" * 120 + "x" * 15
        assert len(longest.encode()) == 255
        one, two = (alice.create(meta={"session_ctx_id": longest + end}) for end in "ab")
        assert alice.get_session_mapping(session_ctx_id=longest + "a") == [one]
        assert alice.get_session_mapping(session_ctx_id=longest + "b") == [two]
        assert alice.native(f"sessions/{longest}a/reap").ok
        assert alice.get_status(identity=one) == "recycled" and alice.get_status(identity=two) == "running"
        assert alice.shell(one, "echo here")[0]["stdout"] == "here\n"
        too_long = longest + "ab"
        refused(400, alice.create, meta={"session_ctx_id": too_long})
        refused(400, alice.create_from_pool, meta={"session_ctx_id": too_long})
        refused(400, alice.get_session_mapping, session_ctx_id=too_long)
        assert d.post("/v1/sandboxes", {"session": too_long}, token=TENANT).status == 400
        for verb in ("heartbeat", "reap", "restore"):
            assert alice.native(f"sessions/{too_long}/{verb}", ok=False).status_code == 400, verb
        assert sorted(alice.list_session_keys()) == sorted([longest + "a", longest + "b"])


def test_S19_no_session_of_one_tenant_waits_for_anothers():
    """The lock of a session in the store is its own, too."""
    with Managed(TIGHT) as d:
        alice, bob = d.client(TENANT), d.client(OTHER)
        alice.create(meta={"session_ctx_id": "s"})
        his = bob.create(meta={"session_ctx_id": "s"})
        with sqlite() as db:     # as if a berthd reaped hers, for hours
            db.execute("INSERT INTO kv(key, value, version, expires) VALUES('lock/reap/alice/s', 'x', 1, ?)", (1 << 62,))
        assert alice.native("sessions/s/reap", ok=False).status_code == 409
        assert bob.native("sessions/s/reap").ok and bob.get_status(identity=his) == "recycled"
        assert bob.native("sessions/s/restore").ok
        with sqlite() as db:
            db.execute("DELETE FROM kv WHERE key = 'lock/reap/alice/s'")


# ---- the store of an older berth ----------------------------------------------------------

def sqlite():
    return contextlib.closing(sqlite3.connect(f"{b.root()}/state/manager/records.db", timeout=20 * b.SLOW, isolation_level=None))


OLD = {"sessions": "session", "beats": "beat", "owners": "owner"}


def older_key(key):
    """As the key was before it had the owner: session/ID, beat/ID, owner/MACHINE/ID."""
    kind, rest = key.split("/", 1)
    machine = ""
    if kind == "owners":
        machine, rest = rest.split("/", 1)
        machine += "/"
    return f"{OLD[kind]}/{machine}{rest.split('/', 1)[1]}"


def make_older_sqlite(redis):
    with sqlite() as db:
        for key, in db.execute("SELECT key FROM kv").fetchall():
            if key.split("/")[0] in OLD:
                db.execute("UPDATE kv SET key = ? WHERE key = ?", (older_key(key), key))
        db.execute("PRAGMA user_version=1")


def make_older_redis(redis):
    def cli(*words):
        return subprocess.run(["redis-cli", "-s", redis.path, *words], check=True, capture_output=True, text=True).stdout.split()
    (index,) = [k for k in cli("KEYS", "*") if k.endswith(":index")]
    for key in cli("ZRANGE", index, "0", "-1"):
        if key.split("/")[0] in OLD:
            k = index.replace(":index", ":k:")
            cli("RENAME", k + key, k + older_key(key))
            cli("ZREM", index, key)
            cli("ZADD", index, "0", older_key(key))


def an_older_store_is_read(config, make_older, redis=None):
    with Managed(config) as d:
        admin, alice, bob = d.manager, d.client(TENANT), d.client(OTHER)
        hers = [alice.create(meta={"session_ctx_id": ctx}) for ctx in ("chat/1 ü", "chat/1 ü", "gone")]
        his = bob.create(meta={"session_ctx_id": "his"})
        owner = subprocess.Popen(["sleep", "1000"])
        owned = admin.create(meta={"session_ctx_id": "owned"}, owner_pid=owner.pid)
        assert alice.native("sessions/gone/reap").ok
        d.stop(signal.SIGKILL)
        make_older(redis)
        owner.kill()
        owner.wait()
        d.start()
        b.wait_for(lambda: listens(d.port), 20, "berthd on its port")
        assert sorted(alice.list_session_keys()) == ["chat/1 ü", "gone"] and bob.list_session_keys() == ["his"]
        assert sorted(alice.get_session_mapping(session_ctx_id="chat/1 ü")) == sorted(hers[:2])
        assert alice.get_status(identity=hers[0]) == "running" and alice.native("sessions/chat%2F1 ü/heartbeat").ok
        assert alice.shell(hers[2], "echo back")[0]["stdout"] == "back\n"      # restored
        # the owner that has died meanwhile
        b.wait_for(lambda: admin.get_info(identity=owned)["state"] == "recycled", 15, "reaping")
        # and the ids are free for others
        assert bob.create(meta={"session_ctx_id": "gone"}) and bob.get_session_mapping(session_ctx_id="his") == [his]
        assert alice.native("sessions/chat%2F1 ü/reap").ok and alice.get_status(identity=hers[1]) == "recycled"
        # a second start finds nothing more to move
        d.stop()
        d.start()
        b.wait_for(lambda: listens(d.port), 20, "berthd on its port")
        assert sorted(admin.list_session_keys()) == ["chat/1 ü", "gone", "his", "owned"]


@b.deadline(120)
def test_S19_sessions_of_an_older_berth_are_read_from_sqlite():
    an_older_store_is_read(TIGHT, make_older_sqlite)


@b.deadline(120)
def test_S19_sessions_of_an_older_berth_are_read_from_redis():
    if not shutil.which("redis-server"):
        raise b.skip("no redis-server")
    with Redis() as redis:
        an_older_store_is_read(TIGHT.replace("[session]", f'[store]\nurl = "redis+unix:{redis.path}"\n[session]'), make_older_redis, redis)
        redis.stop()


def test_S19_an_older_session_joins_the_one_that_its_owner_has_by_now():
    """As when an older berthd shares the store and makes sessions while this one runs."""
    with Managed(BOX + FAST) as d:
        alice, bob = d.client(TENANT), d.client(OTHER)
        one, two = alice.create(meta={"session_ctx_id": "s"}), alice.create(meta={"session_ctx_id": "t"})
        his = bob.create(meta={"session_ctx_id": "s"})
        with sqlite() as db:
            (text,), = db.execute("SELECT value FROM kv WHERE key = 'sessions/alice/t'").fetchall()
            assert json.loads(text)["containers"] == [two]
            db.execute("UPDATE kv SET key = 'session/s' WHERE key = 'sessions/alice/t'")
        b.wait_for(lambda: sorted(alice.get_session_mapping(session_ctx_id="s")) == sorted([one, two]), 15, "the scan")
        assert alice.list_session_keys() == ["s"]
        assert bob.get_session_mapping(session_ctx_id="s") == [his]
        with sqlite() as db:
            assert not db.execute("SELECT key FROM kv WHERE key LIKE 'session/%'").fetchall()
