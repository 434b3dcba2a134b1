# SPDX-License-Identifier: Apache-2.0
"""Whose /workspace is, and that it stays so through an archive and a return from the storage."""
import os
import shutil

import berthtest as b
from managed import FAST, Failed, Managed, refused

COST = 33
OPTIONS = '"disk=16m", "disk-inodes=1024"'
LOOK = "id -u; stat -c '%a %u %g' /workspace; pwd"


def config(where):
    pools = "".join(f'[pool.{name}]\nimage = "host"\noptions = [{OPTIONS}{", " if more else ""}{more}]\n'
                    for name, more in (("base", ""), ("u", '"user=1000"'), ("ug", '"user=1000:1001"'), ("named", '"user=daemon"')))
    return pools + f'[storage]\nurl = "file:{where}"\n' + FAST


def said(m, name, command):
    out, failed = m.shell(name, command)
    assert not failed and out["returncode"] == "0", out
    return out["stdout"].splitlines()


@b.deadline(120)
def test_a_workspace_is_the_users_and_an_archive_changes_nothing():
    with Managed(config(b.tmpdir("storage", 0o700))) as d:
        m = d.manager
        for pool, uid, owner in (("base", "0", "755 0 0"), ("u", "1000", "755 1000 0"), ("ug", "1000", "755 1000 1001"), ("named", "1", "755 0 0")):
            name = m.create(sandbox_type=pool)
            assert said(m, name, LOOK) == [uid, owner, "/workspace"], pool
            if pool != "named":
                said(m, name, "echo kept > /workspace/file")
            assert m.native(f"sandboxes/{name}/archive").ok
            assert said(m, name, LOOK) == [uid, owner, "/workspace"], pool
            if pool != "named":
                # and what it was changed to
                assert said(m, name, "cat file; chmod 1770 /workspace") == ["kept"]
                assert m.native(f"sandboxes/{name}/archive").ok
                assert said(m, name, LOOK)[1] == "1770" + owner[3:], pool


def test_a_stored_workspace_comes_back_to_its_user():
    with Managed(config(b.tmpdir("storage", 0o700))) as d:
        m = d.manager
        name = m.create(sandbox_type="u", storage_path="c/x", meta={"session_ctx_id": "s"})
        said(m, name, "echo one > file")
        assert m.release(identity=name) is True
        name = m.create(sandbox_type="u", storage_path="c/x", meta={"session_ctx_id": "s"})
        assert said(m, name, "cat file; echo two > file") == ["one"]
        # reaped, and the host lost what was on it: from the storage
        where = m.get_info(identity=name)["mount_dir"]
        assert m.native("sessions/s/reap").ok
        shutil.rmtree(where)
        assert said(m, name, "cat file; touch more; stat -c '%a %u' .") == ["two", "755 1000"]
        assert os.path.exists(where + "/more")


def nest(names, then="echo bottom > f"):
    """A command that makes directories in each other and works in the last."""
    return f"cd /workspace; for d in {names}; do mkdir $d && cd $d || exit 1; done; {then}"


def storing():
    """A berthd whose workspaces are stored."""
    return Managed(f'[pool.base]\nimage = "host"\noptions = [{OPTIONS}]\n[storage]\nurl = "file:{b.tmpdir("storage", 0o700)}"\n' + FAST)


@b.deadline(120)
def test_a_deep_workspace_is_archived_and_stored_and_berthd_lives():
    with storing() as d:
        m = d.manager
        name = m.create(storage_path="c/x")
        said(m, name, nest("$(seq 190)"))
        assert m.native(f"sandboxes/{name}/archive").ok
        assert said(m, name, "cd " + "/".join(map(str, range(1, 191))) + "; cat f") == ["bottom"]
        assert m.release(identity=name) is True
        assert said(m, m.create(storage_path="c/x"), "cd " + "/".join(map(str, range(1, 191))) + "; cat f") == ["bottom"]


LONG = "n" * 248


@b.deadline(120)
def test_what_could_not_come_back_is_refused_and_the_sandbox_goes_on():
    with storing() as d:
        m, where = d.manager, b.tmp("storage")
        name, other = m.create(storage_path="c/x"), m.create()
        for n in (name, other):
            said(m, n, "echo small > /workspace/small; " + nest(f"$(seq -f {LONG}%02.0f 16)"))
            response = m.native(f"sandboxes/{n}/archive", ok=False)
            assert response.status_code == 429 and "longer than 4000 bytes" in response.text, response.text
            assert m.get_info(identity=n)["state"] == "running"
            assert said(m, n, "cat /workspace/small") == ["small"]
            assert not os.path.exists(f"{where}/archives/{n}"), "what was sent before it was refused"
        refused(429, m.release, identity=name)
        assert m.get_info(identity=name)["state"] == "running" and said(m, name, "cat /workspace/small") == ["small"]
        # it is put in order
        for n in (name, other):
            said(m, n, f"rm -r /workspace/{LONG}01")
        assert m.native(f"sandboxes/{other}/archive").ok and said(m, other, "cat /workspace/small") == ["small"]
        assert m.release(identity=name) is True
        assert said(m, m.create(storage_path="c/x"), "ls; cat small") == ["small", "small"]


@b.deadline(120)
def test_names_of_any_bytes_are_archived_and_stored():
    with storing() as d:
        m = d.manager
        name = m.create(storage_path="c/x")
        said(m, name, r"cd /workspace; f=$(printf 'a\377b'); mkdir $f; echo one > $f/$f; ln -s $f link")
        assert m.native(f"sandboxes/{name}/archive").ok
        assert said(m, name, "cat */* link/*; ls | od -c | head -1 | grep -c 377") == ["one", "one", "one", "1"]
        assert m.release(identity=name) is True
        assert said(m, m.create(storage_path="c/x"), "cat */* link/*") == ["one", "one", "one"]


@b.deadline(120)
def test_a_sandbox_that_cannot_be_stored_can_be_discarded():
    with storing() as d:
        m, where = d.manager, b.tmp("storage")
        name, second, third = m.create(storage_path="c/x"), m.create(storage_path="c/y"), m.create(storage_path="c/z")
        for n in (name, second):
            said(m, n, nest(f"$(seq -f {LONG}%02.0f 16)"))
        work = m.get_info(identity=name)["mount_dir"]
        try:
            m.release(identity=name)
            raise AssertionError("not refused")
        except Failed as e:
            assert '"discard": true releases it without' in e.detail, e.detail
        assert m.release(identity=name, discard=True) is True
        assert m.get_status(identity=name) == "released" and not os.path.exists(work) and not os.path.exists(where + "/c/x/manifest.json")
        # one whose workspace somebody removed, and all that are left
        shutil.rmtree(m.get_info(identity=third)["mount_dir"])
        refused(404, m.release, identity=third)
        try:
            m.cleanup()
            raise AssertionError("not refused")
        except Failed as e:
            assert e.detail.startswith("2 of 2 sandboxes could not be released"), e.detail
        m.cleanup(discard=True)
        assert {m.get_status(identity=n) for n in (second, third)} == {"released"}


@b.deadline(120)
def test_what_is_deeper_than_any_path_goes_with_its_sandbox():
    with Managed(config(b.tmpdir("storage", 0o700))) as d:
        m = d.manager
        name = m.create()
        said(m, name, "perl -e 'chdir \"/workspace\"; for (1..5000) { mkdir \"d\" and chdir \"d\" or die }'")
        work = m.get_info(identity=name)["mount_dir"]
        assert m.release(identity=name) is True and not os.path.exists(work)
