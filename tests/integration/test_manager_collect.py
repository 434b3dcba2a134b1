# SPDX-License-Identifier: Apache-2.0
"""What was reaped can be restored until its time is over, and goes then with all that is of it."""
import contextlib
import os
import sqlite3

import berthtest as b
from managed import BOX, FAST, Failed, Managed, age, refused


def reaped(m, ctx):
    name = m.create(meta={"session_ctx_id": ctx})
    m.shell(name, "echo kept > file")
    assert m.native(f"sessions/{ctx}/reap").ok and m.get_status(identity=name) == "recycled"
    return name, m.get_info(identity=name)["mount_dir"]


def is_unknown(m, name):
    try:
        return m.get_info(identity=name) and False
    except Failed as e:
        assert e.status == 404, e
        return True


def test_what_was_reaped_goes_when_its_time_is_over():
    with Managed(BOX + FAST + 'released_ttl = "1h"\nauto_delete = "1h"\n') as d:
        m = d.manager
        name, where = reaped(m, "one")
        assert m.native("sessions/one/restore").ok and m.shell(name, "cat file")[0]["stdout"] == "kept\n"
        assert m.native("sessions/one/reap").ok
        assert m.list_session_keys() == ["one"] and os.path.exists(where + "/file")
        again = m.get_info(identity=name)["container_name"]
        d.reconfigure_text("released_ttl", '"100ms"')
        d.reconfigure_text("auto_delete", '"1ms"')
        b.wait_for(lambda: is_unknown(m, again), 20, "the end of its record")
        assert not os.path.exists(where) and m.list_session_keys() == []
        assert m.native("sessions/one/restore", ok=False).status_code == 404


def test_a_cleanup_takes_what_was_reaped():
    with Managed(BOX + FAST) as d:
        m = d.manager
        name, where = reaped(m, "one")
        m.cleanup()
        assert m.get_status(identity=name) == "released" and not os.path.exists(where) and m.list_session_keys() == []
        refused(404, m.call_tool, identity=name, tool_name="run_shell_command", arguments={"command": "true"})
        # and a release of a name that was restored meanwhile is of what it is now
        name, where = reaped(m, "two")
        m.shell(name, "true")
        assert m.release(identity=name) is True and m.get_status(identity=name) == "released" and not os.path.exists(where)


def keys(name):
    with contextlib.closing(sqlite3.connect(f"file:{b.root()}/state/manager/records.db?mode=ro", uri=True)) as db:
        return [key for (key,) in db.execute("SELECT key FROM kv WHERE key LIKE ?", ("%/" + name,))]


def test_what_is_released_is_found_and_not_in_the_way():
    """It moves out of what is looked over each second, and is known by its name, by its container_id and in lists, once."""
    with Managed(BOX + FAST + 'released_ttl = "1h"\n') as d:
        m = d.manager
        name = m.create()
        container = m.get_info(identity=name)["container_id"]
        assert keys(name) == ["sandbox/" + name]
        m.release(identity=name)
        assert keys(name) == ["over/" + name]
        for identity in (name, container):
            assert m.get_info(identity=identity)["state"] == "released"
        assert [r["state"] for r in m.http.get(f"{m.base_url}/v1/manager/sandboxes", timeout=60 * b.SLOW).json()["sandboxes"] if r["container_name"] == name] == ["released"]
        assert m.stats()["states"]["released"] == 1
        assert m.release(identity=name) is True     # as before: it is gone, which was wanted
        # one of an older berthd lies where the living are, and goes all the same
        with contextlib.closing(sqlite3.connect(f"{b.root()}/state/manager/records.db")) as db, db:
            db.execute("UPDATE kv SET key = ? WHERE key = ?", ("sandbox/" + name, "over/" + name))
        assert m.get_info(identity=name)["state"] == "released"
        d.reconfigure_text("released_ttl", '"1ms"')
        b.wait_for(lambda: is_unknown(m, name), 20, "the end of its record")
        assert keys(name) == []


def test_a_release_that_failed_is_tried_again():
    where = b.tmpdir("storage", 0o700)
    with Managed(BOX + f'[storage]\nurl = "file:{where}"\n' + FAST) as d:
        m = d.manager
        name = m.create(storage_path="c/x")
        m.shell(name, "echo kept > file")
        b.write(where + "/c", "in the way")
        refused(500, m.release, identity=name)
        assert m.get_status(identity=name) == "error"
        os.unlink(where + "/c")
        age(name, "$.updated_at", by=31)
        b.wait_for(lambda: m.get_status(identity=name) == "released", 20, "the release that failed")
        assert m.shell(m.create(storage_path="c/x"), "cat file")[0]["stdout"] == "kept\n"


def test_a_sandbox_whose_removal_was_cut_short_can_be_released():
    with Managed(BOX + FAST) as d:
        m = d.manager
        name = m.create()
        assert m.stop(identity=name) is True
        kept = f"{b.root()}/state/sandboxes/{m.get_info(identity=name)['container_id']}"
        os.unlink(kept + "/spec.json")      # as kill -9 of berthd leaves it in the middle of that
        assert m.get_status(identity=name) == "exited"
        assert m.release(identity=name) is True and not os.path.exists(kept)
