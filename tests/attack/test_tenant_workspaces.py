# SPDX-License-Identifier: Apache-2.0
"""The workspaces of a tenant have a maximum together, whichever way their bytes come (S41 of SECURITY.md)."""
import os
import subprocess
import sys

import berthtest as b
import daemon
from daemon import Daemon

sys.path.insert(0, os.path.join(b.TOP, "tests/integration"))
import test_quota  # noqa: E402

MIB = 1 << 20
TYPE = '[pool.base]\nimage = "host"\nmemory_limit = "64m"\noptions = ["disk=16m", "disk-inodes=1024"]\n'


def make(d, token=daemon.TENANT, path="/create", **args):
    r = d.post(path, args, token=token)
    assert r.json["data"], r
    return r.json["data"]


def works(d, box, command, token=daemon.TENANT):
    """Whether the command ends well in the manager's sandbox."""
    args = {"identity": box, "tool_name": "run_shell_command", "arguments": {"command": command}}
    return not d.good("POST", "/call_tool", args, token=token)["data"]["isError"]


def fill(d, box, mib, token=daemon.TENANT, name="big"):
    """Whether so many MiB, none of which can become a hole, fit into its workspace."""
    return works(d, box, f"head -c {mib * MIB} /dev/urandom > /workspace/{name}", token)


def taken(where):
    return sum(os.stat(os.path.join(top, f)).st_blocks * 512 for top, _, files in os.walk(where) for f in files)


@b.deadline(240)
def test_S41_the_workspaces_of_a_tenant_are_bounded_together():
    with test_quota.state_on(["-O", "project,quota"], ["prjquota"]) as (env, state):
        work = os.path.dirname(state) + "/work"
        config = (f'[session]\non_shutdown = "clean"\ndefault_mount_dir = "{work}"\n[storage]\nurl = "file:{b.tmp("objects")}"\n'
                  '[tenant]\nworkspace_bytes = "24m"\n[tenant.bob]\nworkspace_bytes = "40m"\n' + TYPE.replace("image", "size = 1\nimage", 1))
        with Daemon(tcp=True, config=config, env=env) as d:
            one, two = make(d, storage_path="kept"), make(d)
            assert fill(d, one, 16) and not fill(d, two, 16), "two workspaces had 32 MiB"
            assert taken(work) <= 24 * MIB, taken(work)
            assert works(d, two, "rm /workspace/big")
            # files are counted too
            assert not works(d, two, "i=0; while [ $i -lt 2000 ]; do : > /workspace/f$i || exit 8; i=$((i+1)); done")
            assert works(d, two, "rm -f /workspace/f*")
            # one that was made ahead counts from its claim on
            b.wait_for(lambda: d.good("GET", "/v1/manager/stats")["pools"]["base"]["warm"] == 1, 120, "the pool")
            three = make(d, path="/create_from_pool", sandbox_type="base")
            assert not fill(d, three, 16)
            # what comes back from the storage is root's writing, and counts all the same
            d.good("POST", "/release", {"identity": one}, token=daemon.TENANT)
            assert works(d, three, "rm -f /workspace/big")
            first = make(d, storage_path="kept")
            refused = d.post("/create", {"storage_path": "kept"}, token=daemon.TENANT)
            assert refused.json["data"] is None and taken(work) <= 24 * MIB, (refused, taken(work))
            # another tenant has a maximum of its own, and who is not a tenant has none
            other, root = make(d, token=daemon.OTHER), make(d, token=daemon.TOKEN)
            assert fill(d, other, 32, token=daemon.OTHER) and not fill(d, other, 16, token=daemon.OTHER, name="more")
            assert fill(d, root, 48, token=daemon.TOKEN)
            for box, token in ((two, daemon.TENANT), (three, daemon.TENANT), (first, daemon.TENANT), (other, daemon.OTHER)):
                d.good("POST", "/release", {"identity": box}, token=token)
            # what is released is free again
            assert fill(d, make(d), 16)


@b.deadline(60)
def test_S41_a_maximum_that_nothing_enforces_is_refused_at_the_start():
    def run_check(path):
        p = subprocess.run([daemon.BERTHD, "--check-config"], env=b.environment({"BERTH_CONFIG": path}), capture_output=True, text=True,
                           timeout=60 * b.SLOW)
        return p.returncode, p.stdout, p.stderr

    for section in ("tenant", "tenant.alice"):
        code, _, err = run_check(b.write(b.tmp("checked.toml"), f'[{section}]\nworkspace_bytes = "24m"\n', 0o600))
        if code == 0:
            raise b.skip("the file system of the state directory enforces project quotas")
        assert "[tenant] workspace_bytes cannot be enforced" in err and "hint: mount its file system with prjquota" in err, err
    code, _, err = run_check(b.write(b.tmp("checked.toml"), '[tenant]\nworkspace_bytes = "4k"\n', 0o600))
    assert code and "too small" in err, err
    d = Daemon(config='[tenant]\nworkspace_bytes = "24m"\n', wait=False)
    with open(d.log_path, "wb") as log:
        assert subprocess.run([daemon.BERTHD], env=d.environment(), stdout=log, stderr=log, timeout=60 * b.SLOW).returncode
    assert "cannot be enforced" in d.log(), d.log()
    # without one berthd says that nothing but the file system bounds them
    with Daemon(tcp=True, config='[session]\non_shutdown = "clean"\n' + TYPE) as d:
        make(d)
        make(d)
        assert d.log().count("bounds the workspaces of tenants") == 1, d.log()
