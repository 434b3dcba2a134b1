# SPDX-License-Identifier: Apache-2.0
"""
Two berthds that share a store and disagree: on whose a directory is, on what a pool is made of, on who releases a sandbox;
one of them is killed in between, or is older.

Attacks S46 of SECURITY.md.
"""
import contextlib
import gc
import json
import os
import sqlite3
import subprocess
import threading
import time

import berthtest as b
import daemon
from managed import BOX, FAST, POOL, Failed, Managed, listens, two_berthds

COST = 40


def start_beside(d, **env):
    """Another berthd with the configuration of d, at other places: how it ended, and its log."""
    log = b.tmp("beside.log")
    config = b.write(b.tmp("beside.toml"), d.config.replace(f":{d.port}\"", ":0\""), 0o600)
    with open(log, "wb") as f:
        p = subprocess.Popen([daemon.BERTHD], env={**d.environment(), "BERTH_CONFIG": config, **env}, stdin=subprocess.DEVNULL, stdout=f, stderr=f)
    return p, log


def shared(*configs):
    """Two berthds with homes of their own on this machine and one SQLite store."""
    store = f'[store]\nurl = "sqlite:{b.tmpdir("store", 0o700)}/records.db"\n'
    return two_berthds(*[c + store + FAST for c in configs])


def sql(text, *values):
    with contextlib.closing(sqlite3.connect(f"{b.root()}/tmp/store/records.db", timeout=20 * b.SLOW, isolation_level=None)) as db:
        return db.execute(text, values).fetchall()


def end(daemons):
    """What is left goes, and each berthd has nothing then."""
    for d in daemons:
        d.reconfigure("size = 0")
    for d in daemons:
        b.wait_for(lambda: not d.manager.stats()["states"].get("warm"), 30, "empty pools")
        d.manager.cleanup()
    for d in daemons:
        d.manager.http.close()
        assert d.stop() == 0
        assert b.berth("ps", "-a", "-q", env=d.env).out == ""
    gc.collect()


@b.deadline(90)
def test_a_state_directory_has_one_berthd():
    """With another run directory it would take the other's sandboxes for dead: its own run directory knows none of them."""
    with Managed(BOX + FAST) as d:
        name = d.manager.create(meta={"session_ctx_id": "s"})
        config = b.write(b.tmp("beside.toml"), d.config.replace(f':{d.port}"', ':0"'), 0o600)
        log = b.tmp("beside.log")
        with open(log, "wb") as f:
            p = subprocess.Popen([daemon.BERTHD], stdin=subprocess.DEVNULL, stdout=f, stderr=f,
                                 env={**d.environment(), "BERTH_CONFIG": config, "BERTH_RUN_DIR": b.tmpdir("run2", 0o700)})
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                p.wait(20 * b.SLOW)
        finally:
            p.kill()
            p.wait()
        with open(log) as f:
            said = f.read()
        info = d.manager.get_info(identity=name)
        assert info["state"] == "running" and info["berth"]["status"] == "running", info
        assert p.returncode == 125 and "another berthd has the state directory" in said and "hint: " in said, (p.returncode, said)
        assert d.manager.shell(name, "echo here")[0]["stdout"] == "here\n"


def at_once(*calls):
    """Each of calls in a thread of its own: what each gave, or raised."""
    got, ready = [None] * len(calls), threading.Barrier(len(calls))

    def work(i):
        ready.wait(20 * b.SLOW)
        try:
            got[i] = calls[i]()
        except Failed as e:
            got[i] = e
    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(100 * b.SLOW)
    return got


@b.deadline(150)
def test_two_that_release_and_claim_at_once_agree_in_the_end():
    """Each sandbox is claimed once and goes once, whoever is asked; what the other has released nobody gets, or brings back."""
    pool = POOL.replace("size = 2", "size = 4")
    daemons = shared(pool, pool)
    for d in daemons:
        d.warm(4)
    clients = [d.client(daemon.TOKEN) for d in daemons for _ in range(4)]
    names = at_once(*[lambda m=m: m.create_from_pool(sandbox_type="base", meta={}) for m in clients])
    assert all(isinstance(n, str) for n in names) and len(set(names)) == 8, names
    # both release all of them, at once and in either order
    calls = [lambda m=m, n=n: m.release(identity=n) for n in names for m in (clients[0], clients[5])]
    got = [g for i in range(0, len(calls), 4) for g in at_once(*calls[i:i + 4])]
    assert all(g is True or isinstance(g, Failed) and g.status == 409 for g in got), got
    for n in names:
        assert any(g is True for g in got[2 * names.index(n):2 * names.index(n) + 2]), got
        for d in daemons:
            assert d.manager.get_status(identity=n) in ("released", None, "not_found"), d.manager.get_status(identity=n)
    kept = "".join(b.berth("ps", "-a", "--json", env=d.env, ok=True).out for d in daemons)
    assert not any(n in kept for n in names), kept
    end(daemons)


@b.deadline(150)
def test_one_that_is_killed_while_both_release_leaves_nothing():
    daemons = shared(BOX, BOX)
    one, two = (d.manager for d in daemons)
    for nth in range(3):
        names = [one.create(meta={}) for _ in range(3)]
        at_once(*[lambda n=n: two.release(identity=n) for n in names], lambda: daemons[0].p.kill())
        daemons[0].p.wait()
        daemons[0].start()
        b.wait_for(lambda: listens(daemons[0].port), 20, "the one that was killed")
        for n in names:
            assert one.release(identity=n) is True and two.release(identity=n) is True
        assert b.berth("ps", "-a", "-q", env=daemons[0].env).out == "", nth
    end(daemons)


@b.deadline(150)
def test_a_pool_of_the_same_name_with_another_configuration_is_another_pool():
    """A claim gets what the berthd that was asked has in its configuration, and never the other's."""
    mine = POOL.replace('options = ["', 'options = ["env=WHO=mine", "').replace("size = 2", "size = 3")
    theirs = POOL.replace('options = ["', 'options = ["env=WHO=theirs", "').replace("64m", "96m").replace("size = 2", "size = 3")
    daemons = shared(mine, theirs)
    for d in daemons:
        b.wait_for(lambda: d.manager.stats()["counts"]["created"] >= 3, 30, "a full pool")
    clients = [d.client(daemon.TOKEN) for d in daemons for _ in range(3)]
    names = at_once(*[lambda m=m: m.create_from_pool(sandbox_type="base", meta={}) for m in clients])
    assert all(isinstance(n, str) for n in names) and len(set(names)) == 6, names
    for i, n in enumerate(names):
        who = "mine" if i < 3 else "theirs"
        assert clients[i].shell(n, "echo $WHO")[0]["stdout"] == who + "\n", (i, n)
        assert clients[i].get_info(identity=n)["berth"]["memory_bytes"] == (64 if i < 3 else 96) << 20
    end(daemons)


@b.deadline(120)
def test_a_restore_that_waits_keeps_what_it_restores():
    """For longer than the lock of the session lasts: then the other berthd would release the workspace under it."""
    config = BOX + '[manager]\nmax_sandboxes = 1\n[admission]\nqueue = 4\nqueue_timeout = "90s"\n'
    daemons = shared(config, BOX)
    one, two = (d.manager for d in daemons)
    name = one.create(meta={"session_ctx_id": "s"})
    one.shell(name, "echo kept > /workspace/file")
    workspace = one.get_info(identity=name)["mount_dir"]
    one.native("sessions/s/reap")
    other = one.create(meta={})
    waiting = threading.Thread(target=daemons[0].client(daemon.TOKEN).native, args=("sessions/s/restore", False))
    waiting.start()
    b.wait_for(lambda: one.stats()["admission"]["waiting"] == 1, 20, "the restore in the queue")
    # as if two minutes had passed but for a moment
    now = int(time.time() * 1000)
    assert sql("SELECT count(*) FROM kv WHERE key = 'lock/reap/root/s'") == [(1,)]
    sql("UPDATE kv SET expires = ? WHERE key = 'lock/reap/root/s'", now + 1500)
    b.wait_for(lambda: int(time.time() * 1000) > now + 1600, 20, "the end of that lock")
    releasing = threading.Thread(target=lambda: at_once(lambda: daemons[1].client(daemon.TOKEN).release(identity=name)))
    releasing.start()
    b.wait_for(lambda: sql("SELECT count(*) FROM kv WHERE key = 'lock/reap/root/s' AND expires > ?", now + 60000) == [(1,)], 20,
               "a lock that is renewed")
    assert os.path.exists(workspace + "/file"), "the workspace is gone, and a restore waits for room"
    one.release(identity=other)
    waiting.join(60 * b.SLOW)
    releasing.join(60 * b.SLOW)
    end(daemons)


@b.deadline(120)
def test_what_a_newer_berthd_writes_into_a_record_an_older_one_keeps():
    daemons = shared(BOX, BOX)
    one, two = (d.manager for d in daemons)
    name = one.create(meta={"session_ctx_id": "s"})
    key = "sandbox/" + name
    sql("UPDATE kv SET value = json_set(value, '$.future', json('{\"a\":[1,2]}'), '$.berth.future', 'kept') WHERE key = ?", key)
    for m in (two, one):
        m.shell(name, "echo here")
        m.stop(identity=name)
        m.shell(name, "echo here")
    value = json.loads(sql("SELECT value FROM kv WHERE key = ?", key)[0][0])
    assert value["future"] == {"a": [1, 2]} and value["berth"]["future"] == "kept", value
    # a state that only the newer one knows is not touched, neither by requests nor by the scans
    sql("UPDATE kv SET value = json_set(value, '$.state', 'hibernating') WHERE key = ?", key)
    before = sql("SELECT value FROM kv WHERE key = ?", key)
    for d in daemons:
        d.stop()
        d.start()
        b.wait_for(lambda: listens(d.port), 20, "berthd again")
    assert sql("SELECT value FROM kv WHERE key = ?", key)[0][0].count("hibernating") == 1, before
    assert b.berth("ps", "-a", "-q", env=daemons[0].env).out.strip(), "it is there"
    sql("UPDATE kv SET value = json_set(value, '$.state', 'running') WHERE key = ?", key)
    assert one.release(identity=name) is True
    end(daemons)


@b.deadline(60)
def test_a_store_of_a_newer_berthd_is_left_alone_by_an_older_one():
    with Managed(BOX + FAST) as d:
        name = d.manager.create(meta={})
        d.stop()
        path = f"{b.root()}/state/manager/records.db"
        with contextlib.closing(sqlite3.connect(path, timeout=20 * b.SLOW, isolation_level=None)) as db:
            db.execute("PRAGMA user_version=99")
        r = subprocess.run([daemon.BERTHD], env=d.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30 * b.SLOW)
        assert r.returncode == 125 and "newer berth" in r.stderr, r
        assert len(b.berth("ps", "-q", ok=True).out.split()) == 1, "its sandbox runs"
        with contextlib.closing(sqlite3.connect(path, timeout=20 * b.SLOW, isolation_level=None)) as db:
            assert db.execute("PRAGMA user_version").fetchall() == [(99,)]
            db.execute("PRAGMA user_version=2")
        d.start()
        assert d.manager.shell(name, "echo here")[0]["stdout"] == "here\n"


# A process of a sandbox that says of itself what berthd looks for in /proc after a crash: the program that makes a sandbox.
LIAR = """
import ctypes, signal, sys
ctypes.CDLL(None).prctl(15, b"berth", 0, 0, 0)
open("/tmp/ready", "w").close()
signal.pause()
"""


@b.deadline(60)
def test_a_sandbox_does_not_hold_up_the_start_of_berthd():
    """Each record of a creation that was cut short waited 20 s for a process that names it, whosesoever that was."""
    with Managed(BOX + FAST) as d:
        cut = [d.manager.create(meta={}) for _ in range(5)]
        liar = d.manager.create(meta={})
        id = d.manager.get_info(identity=liar)["container_id"]
        b.berth("exec", "-d", id, "python3", "-c", LIAR, *cut, ok=True)
        b.wait_for(lambda: b.berth("exec", id, "test", "-e", "/tmp/ready").code == 0, 20, "the liar")
        d.stop()
        with contextlib.closing(sqlite3.connect(f"{b.root()}/state/manager/records.db", timeout=20 * b.SLOW, isolation_level=None)) as db:
            for name in cut:
                db.execute("UPDATE kv SET value = json_set(value, '$.state', 'creating') WHERE key = ?", ("sandbox/" + name,))
        d.start()       # which waits 20 s for it
        left = b.berth("ps", "-a", "-q", ok=True).out.split()
        assert left == [id], left
        assert d.manager.shell(liar, "echo here")[0]["stdout"] == "here\n"
