# SPDX-License-Identifier: Apache-2.0
"""The file system of the state directory is full, or promised: a file system of the test's own."""
import contextlib
import json
import os
import subprocess

import berthtest as b

MIB = 1 << 20


@contextlib.contextmanager
def small_disk(config=""):
    """A state directory on an ext4 of 300 MiB without quotas: the environment for berth, and its path."""
    image, where = b.tmp("disk.img"), b.tmpdir("disk")
    with open(image, "wb") as f:
        f.truncate(300 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^quota,^project", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, where], check=True)
    state = where + "/state"
    os.mkdir(state, 0o700)
    env = {"BERTH_STATE_DIR": state}
    if config:
        env["BERTH_CONFIG"] = b.write(b.tmp("berth.toml"), config)
    try:
        yield env, state
    finally:
        for name in b.berth("ps", "-aq", env=env).out.split():
            b.berth("rm", "-f", name, env=env)
        b.wait_for(lambda: subprocess.run(["umount", where], capture_output=True).returncode == 0, 30, "the unmount")


def create(env, name, disk, *options, ok=True):
    return b.berth("create", "--name", name, "--disk", disk, *options, "host", env=env, **({"ok": True} if ok else {}))


@b.deadline(120)
def test_no_more_disk_is_promised_than_the_operator_wants():
    with small_disk("[admission]\ndisk_overcommit = 1\n") as (env, state):
        create(env, "one", "100m")
        create(env, "two", "100m")
        why = ("bytes free", "104857600 more do not fit 1 times", "[admission] disk_overcommit", "hint:")
        b.one_line_error(create(env, "three", "100m", ok=False), 125, *why)
        # what one has written is neither free nor promised any more
        b.berth("exec", "one", "sh", "-c", "head -c 60000000 /dev/urandom > /f; sync", env=env, ok=True)
        b.one_line_error(create(env, "three", "100m", ok=False), 125, *why)
        create(env, "small", "16m")
        # a stopped sandbox keeps its promise, and one in memory needs none
        b.berth("stop", "two", env=env, ok=True)
        b.one_line_error(create(env, "three", "100m", ok=False), 125, *why)
        b.one_line_error(b.run("--memory", "64m", "--disk", "100m", "host", "true", env=env), 125, *why)
        b.run("--memory", "64m", "--disk", "16m", "host", "true", env=env, ok=True)
        b.berth("rm", "two", env=env, ok=True)
        create(env, "three", "100m")
        # a change of memory keeps it; so does the next start
        b.berth("update", "--memory", "128m", "three", env=env, ok=True)
        b.berth("restart", "three", env=env, ok=True)
        b.one_line_error(create(env, "four", "100m", ok=False), 125, *why)
        # the factor is the operator's, and 0 is none
        for factor in ("2.5", "0"):
            b.write(b.tmp("berth.toml"), f"[admission]\ndisk_overcommit = {factor}\n")
            create(env, "x" + factor[0], "100m")
        create(env, "y", "100g")


@b.deadline(60)
def test_by_default_sparse_layers_may_be_larger_than_the_disk():
    with small_disk() as (env, state):
        create(env, "a", "8g")
        create(env, "b", "8g")
        b.one_line_error(create(env, "c", "1t", ok=False), 2, "do not fit 100 times")


def fill(where):
    """Takes what the file system still gives to anybody."""
    with open(where, "wb", buffering=0) as f:
        for size in (MIB, 4096):
            with contextlib.suppress(OSError):
                while f.write(bytes(size)) == size:
                    pass


@b.deadline(180)
def test_a_full_host_disk_is_told_and_what_fills_it_can_go():
    with small_disk("[admission]\ndisk_overcommit = 0\n") as (env, state):
        for name in ("one", "two", "three"):
            create(env, name, "200m")
        errors = lambda x: json.loads(b.berth("inspect", x, env=env, ok=True).out)["disk_errors"]
        r = b.run("--memory", "16m", "--disk", "32m", "host", "true", env=env, verdict=True)
        assert r.verdict["disk_errors"] == 0 and r.verdict["disk_full"] is False, r
        assert "disk_errors" not in json.loads(b.berth("exec", "--json", "one", "true", env=env, ok=True).out)
        assert errors("one") == 0
        fill(os.path.dirname(state) + "/fill")
        # the writes succeed, and are lost: the layer is a sparse file, far below its own limit
        r = b.berth("exec", "--json", "one", "sh", "-c", "head -c 50000000 /dev/urandom > /f; sync; exit 3", env=env)
        said = json.loads(r.out)
        assert r.code == 3 and said["disk_full"] is True and said["cause"] == "disk" and "disk_errors" in said, r
        b.wait_for(lambda: errors("one"), 30, "errors of the layer")
        why = ("No space left on device", "is full", "hint: berth prune or berth rm makes room")
        b.one_line_error(b.run("--memory", "16m", "--disk", "32m", "host", "true", env=env), 125, *why)
        b.one_line_error(create(env, "four", "16m", ok=False), 125, *why)
        r = b.berth("stop", "two", env=env, ok=True)
        assert "has stopped, but" in r.err and "hint:" in r.err, r
        assert "two" not in b.berth("ps", "--format", "{{.name}}", env=env, ok=True).out
        assert b.berth("ps", "-aq", env=env, ok=True).out.count("\n") == 3
        # no write is needed to remove what runs
        b.berth("rm", "-f", "three", env=env, ok=True)
        assert b.berth("ps", "-aq", env=env, ok=True).out.count("\n") == 2
        os.unlink(os.path.dirname(state) + "/fill")
        create(env, "four", "16m")
        # the event waits for room on the disk
        b.berth("exec", "one", "true", env=env, ok=True)
        b.wait_for(lambda: "disk-errors" in b.berth("events", env=env, ok=True).out, 30, "the event")
