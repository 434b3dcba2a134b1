# SPDX-License-Identifier: Apache-2.0
"""Whose /workspace is, and that it stays so through an archive and a return from the storage."""
import os
import shutil

import berthtest as b
from managed import FAST, Managed

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
    """A command that makes directories in each other, however long their path gets, and works in the last."""
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
