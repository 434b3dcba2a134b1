# SPDX-License-Identifier: Apache-2.0
"""berth system pool: an XFS of our own for layers, on a host whose state directory has no reflinks."""
import contextlib
import json
import os
import shutil
import signal
import subprocess

import berthtest as b
from test_checkpoint import MIB, checkpoint, ids, sh, switches


@contextlib.contextmanager
def pool(size="640m", config=None):
    """A state directory with a pool: the environment for berth, and its path."""
    if not shutil.which("mkfs.xfs"):
        raise b.skip("needs mkfs.xfs (xfsprogs)")
    state = b.tmpdir("pooled")
    os.chmod(state, 0o700)
    env = {"BERTH_STATE_DIR": state}
    if config:
        env["BERTH_CONFIG"] = b.write(b.tmp("berth.toml"), config)
    r = b.berth("system", "pool", "create", "--size", size, env=env)
    if r.code and "this kernel" in r.err or "No such device" in r.err:
        raise b.skip("this kernel has no XFS with reflinks")
    assert r.code == 0, r
    try:
        yield env, state
    finally:
        for name in b.berth("ps", "-aq", env=env).out.split():
            b.berth("rm", "-f", name, env=env)
        b.berth("gc", env=env)
        r = b.berth("system", "pool", "rm", env=env)
        assert r.code == 0 or "no pool" in r.err, r
        left = b.wait_for(lambda: state not in subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout, 30,
                          "the loop devices")
        assert left


def told(env):
    return json.loads(b.berth("system", "pool", "--json", ok=True, env=env).out)


def box_of(x, env, state):
    return os.path.join(state, "sandboxes", json.loads(b.berth("inspect", x, ok=True, env=env).out)["id"])


def create(env, *options):
    return b.berth("create", *options, "host", env=env, ok=True).out.strip()


def device_of(state):
    """The loop device of the pool, and the number that the kernel gives to each use of one."""
    with open(os.path.join(state, "pool", "loop")) as f:
        number = f.read()
    with open(f"/sys/block/loop{number}/diskseq") as f:
        return number, f.read()


@b.deadline(180)
def test_the_pool_stays_mounted_while_its_only_sandbox_is_stopped_and_started():
    with pool() as (env, state):
        create(env, "--name", "x")
        sh("x", "echo one > /f", ok=True, env=env)
        checkpoint("x", env=env)
        before = device_of(state)
        sh("x", "echo two > /f", ok=True, env=env)
        b.berth("undo", "x", ok=True, env=env)
        assert device_of(state) == before
        assert sh("x", "cat /f", ok=True, env=env).out == "one\n"
        b.berth("restart", "x", ok=True, env=env)
        assert device_of(state) == before
        # of one that is stopped, too, and nobody keeps it longer than that
        checkpoint("x", env=env)
        b.berth("stop", "x", ok=True, env=env)
        b.wait_for(lambda: state not in subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout, 30,
                   "the end of the last mount")
        b.berth("undo", "x", ok=True, env=env)
        b.wait_for(lambda: state not in subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout, 30,
                   "the end of the last mount")
        b.berth("fork", "--no-start", "--name", "y", "x", ok=True, env=env)
        b.berth("start", "x", ok=True, env=env)
        # the copy that was made for it is its layer
        trace = b.tmp("trace")
        b.berth("fork", "--no-start", "--name", "z", "x", ok=True, env=env, prefix=("strace", "-e", "trace=renameat", "-o", trace))
        with open(trace) as f:
            text = f.read()
        assert '"writable.img") = 0' in text, text
        b.berth("start", "z", ok=True, env=env)
        assert sh("z", "cat /f", ok=True, env=env).out == "one\n"


@b.deadline(180)
def test_new_layers_are_in_the_pool_and_share_their_blocks():
    with pool() as (env, state):
        # nothing is mounted where anybody sees it
        with open("/proc/self/mountinfo") as f:
            assert state not in f.read()
        create(env, "--name", "x")
        assert sorted(os.listdir(box_of("x", env, state))).count("writable.img") == 0
        sh("x", f"head -c {40 * MIB} /dev/urandom > /big; echo one > /f; sync", ok=True, env=env)
        used = told(env)["used_bytes"]
        for _ in range(4):
            assert checkpoint("x", env=env)["shared"] is True
        assert told(env)["used_bytes"] - used < 16 * MIB, told(env)
        sh("x", "rm /big; echo two > /f", ok=True, env=env)
        b.berth("undo", "x", ok=True, env=env)
        assert sh("x", "wc -c < /big; cat /f", ok=True, env=env).out == f"{40 * MIB}\none\n"
        b.berth("fork", "--name", "y", "x", ok=True, env=env)
        assert sh("y", "wc -c < /big; cat /f", ok=True, env=env).out == f"{40 * MIB}\none\n"
        assert told(env)["sandboxes"] == 2 and told(env)["used_bytes"] - used < 24 * MIB, told(env)
        # stopped, so that nobody has the pool: a checkpoint, an undo and a start all the same
        b.berth("stop", "x", "y", ok=True, env=env)
        b.wait_for(lambda: state not in subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout, 30,
                   "the end of the last mount")
        checkpoint("x", env=env)
        b.berth("undo", "x", ok=True, env=env)
        b.berth("start", "x", ok=True, env=env)
        assert sh("x", "cat /f", ok=True, env=env).out == "one\n"
        df = json.loads(b.berth("system", "df", "--json", ok=True, env=env).out)
        assert df["pool"]["sandboxes"] == 2 and df["checkpoints"]["count"] == len(ids("x", env=env)), df
        assert "pool of " in b.berth("system", "df", ok=True, env=env).out
        found, = (f for f in json.loads(b.berth("doctor", "--json", env=env, timeout=120).out)["findings"]
                  if f["what"] == "checkpoints")
        assert found["state"] == "ok" and "in the pool" in found["detail"], found
        r = b.one_line_error(b.berth("system", "pool", "rm", env=env), 125, "2 sandboxes have their layers in the pool", "hint:")
        assert sh("x", "echo on", ok=True, env=env).out == "on\n", r
        b.berth("rm", "-f", "x", "y", ok=True, env=env)
        assert told(env)["sandboxes"] == 0


def test_a_sandbox_of_before_stays_where_it_is():
    if not shutil.which("mkfs.xfs"):
        raise b.skip("needs mkfs.xfs (xfsprogs)")
    state = b.tmpdir("before")
    os.chmod(state, 0o700)
    env = {"BERTH_STATE_DIR": state}
    create(env, "--name", "x")
    sh("x", "echo one > /f", ok=True, env=env)
    b.berth("system", "pool", "create", "--size", "512m", env=env, ok=True)
    try:
        b.one_line_error(b.berth("system", "pool", "create", "--size", "512m", env=env), 125, "has a pool", "hint:")
        b.berth("restart", "x", env=env, ok=True)
        assert not os.path.exists(box_of("x", env, state) + "/in-pool")
        assert sh("x", "cat /f", ok=True, env=env).out == "one\n"
        # its fork is a new one: in the pool, unless the state directory has reflinks
        b.berth("fork", "--name", "y", "x", ok=True, env=env)
        assert sh("y", "cat /f", ok=True, env=env).out == "one\n"
        b.berth("rm", "-f", "x", "y", ok=True, env=env)
    finally:
        b.berth("system", "pool", "rm", env=env, ok=True)
    b.one_line_error(b.berth("system", "pool", env=env), 125, "no pool", "hint:")


@b.deadline(180)
def test_a_full_pool_refuses_before_anything_stands_still():
    with pool("512m", "[admission]\ndisk_reserve = 0\n") as (env, state):  # what the reserve would keep free
        create(env, "--name", "x", "--disk", "1g")
        sh("x", "echo one > /f", ok=True, env=env)
        left = told(env)["free_bytes"]
        sh("x", f"head -c {left - 24 * MIB} /dev/zero | tr '\\0' x > /ballast; sync", ok=True, env=env, timeout=120)
        assert told(env)["free_bytes"] < 32 * MIB, told(env)
        b.one_line_error(b.berth("create", "--name", "z", "host", env=env), 125, "pool of writable layers is full", "hint:")
        assert [n for n in os.listdir(state + "/sandboxes")] == [os.path.basename(box_of("x", env, state))]
        sh("x", f"head -c {12 * MIB} /dev/zero | tr '\\0' x > /more; sync", ok=True, env=env)
        b.one_line_error(b.berth("checkpoint", "x", env=env), 125, "a checkpoint takes", "hint:")
        assert ids("x", env=env) == [] and sh("x", "cat /f", ok=True, env=env).out == "one\n"


@b.deadline(180)
def test_what_crashes_left_in_the_pool_is_collected():
    with pool() as (env, state):
        create(env, "--name", "x")
        sh("x", "echo one > /f; sync", ok=True, env=env)
        before = checkpoint("x", env=env)["checkpoint"]
        keeper = json.loads(b.berth("inspect", "x", ok=True, env=env).out)["supervisor_pid"]
        os.kill(keeper, signal.SIGKILL)
        b.wait_for(lambda: b.berth("start", "x", env=env).code == 0 and sh("x", "true", env=env).code == 0, 60,
                   "the next start")
        assert sh("x", "cat /f", ok=True, env=env).out == "one\n" and ids("x", env=env) == [before]
        # a removal that was cut short: the record is gone, the layer is not
        b.berth("stop", "x", ok=True, env=env)
        shutil.rmtree(box_of("x", env, state))
        assert told(env)["sandboxes"] == 1
        assert json.loads(b.berth("gc", "--json", ok=True, env=env).out)["layers"] == 1
        assert told(env)["sandboxes"] == 0
        # so is a pool that was not finished
        os.mkdir(state + "/pool.new", 0o700)
        b.write(state + "/pool.new/image", "half")
        b.berth("gc", ok=True, env=env)
        assert not os.path.exists(state + "/pool.new")


@b.deadline(120)
def test_a_killed_creation_of_a_pool_leaves_none_or_a_whole_one():
    if not shutil.which("mkfs.xfs"):
        raise b.skip("needs mkfs.xfs (xfsprogs)")
    state = b.tmpdir("killed")
    os.chmod(state, 0o700)
    env = {"BERTH_STATE_DIR": state}
    for n in range(b.times(6, 40)):
        p = b.start("system", "pool", "create", "--size", "512m", env=env)
        b.wait_for(lambda: p.poll() is not None or switches(p.pid) >= n, 30, "a point")
        p.kill()
        p.wait()
        r = b.berth("system", "pool", "create", "--size", "512m", env=env)
        # mkfs.xfs may go on for a moment
        if r.code and "being made" in r.err:
            b.wait_for(lambda: b.berth("system", "pool", "create", "--size", "512m", env=env).code == 0, 30, "the lock")
        else:
            assert r.code == 0 or "has a pool" in r.err, r
        assert told(env)["size_bytes"] > 300 * MIB
        b.berth("system", "pool", "rm", env=env, ok=True)
        assert not [x for x in os.listdir(state) if x.startswith("pool")], os.listdir(state)


def test_wrong_words_about_a_pool_are_refused():
    env = {"BERTH_STATE_DIR": b.tmpdir("none")}
    os.chmod(env["BERTH_STATE_DIR"], 0o700)
    for args, code, word in ((["create"], 2, "needs a size"), (["create", "--size", "1m"], 2, "size"), (["grow"], 2, "not known"),
                             (["rm", "--size", "1g"], 2, "--size is for"), (["rm"], 125, "no pool"), (["rm", "now"], 2, "now"),
                             (["create", "--size", "1000t"], 125, "leaves less than")):
        if word == "leaves less than" and not shutil.which("mkfs.xfs"):
            continue
        b.one_line_error(b.berth("system", "pool", *args, env=env), code, word)
    assert not [x for x in os.listdir(env["BERTH_STATE_DIR"]) if x.startswith("pool")]


@b.deadline(180)
def test_a_layer_in_a_pool_that_is_gone_is_said_and_can_be_removed():
    with pool() as (env, state):
        create(env, "--name", "x")
        b.berth("stop", "x", ok=True, env=env)
        os.unlink(state + "/pool/image")
        b.one_line_error(b.berth("start", "x", env=env), 125, "the pool")
        b.berth("rm", "x", ok=True, env=env)


@b.deadline(180)
def test_a_layer_that_is_a_directory_is_refused_with_a_remedy_and_a_pool_makes_files():
    image, where = b.tmp("quota.img"), b.tmpdir("quota")
    if not shutil.which("mkfs.xfs"):
        raise b.skip("needs mkfs.xfs (xfsprogs)")
    subprocess.run(["truncate", "-s", "1500m", image], check=True)
    subprocess.run(["mkfs.xfs", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop,prjquota", image, where], capture_output=True).returncode:
        raise b.skip("this kernel has no XFS with quotas")
    env = {"BERTH_STATE_DIR": where + "/state"}
    os.mkdir(where + "/state", 0o700)
    try:
        create(env, "--name", "x")
        if not os.path.isdir(box_of("x", env, where + "/state") + "/writable"):
            raise b.skip("this kernel has no XFS with quotas")
        sh("x", "echo one > /f", ok=True, env=env)
        found, = (f for f in json.loads(b.berth("doctor", "--json", env=env, timeout=120).out)["findings"]
                  if f["what"] == "checkpoints")
        assert found["state"] == "limited" and "directories" in found["detail"], found
        for verb in (["checkpoint", "x"], ["fork", "x"]):
            b.one_line_error(b.berth(*verb, env=env), 125, "is a directory", "hint:", "berth stop")
        assert sh("x", "cat /f", ok=True, env=env).out == "one\n"
        # the remedy, as the hint has it
        b.berth("stop", "x", ok=True, env=env)
        b.berth("checkpoint", "x", ok=True, env=env)
        b.berth("start", "x", ok=True, env=env)
        sh("x", "echo two > /f", ok=True, env=env)
        b.berth("undo", "x", ok=True, env=env)
        assert sh("x", "cat /f", ok=True, env=env).out == "one\n"
        assert checkpoint("x", env=env)["shared"] is True
        # with a pool new layers are files
        b.berth("system", "pool", "create", "--size", "512m", ok=True, env=env)
        create(env, "--name", "y")
        sh("y", "echo one > /f", ok=True, env=env)
        assert checkpoint("y", env=env)["shared"] is True
    finally:
        for name in b.berth("ps", "-aq", env=env).out.split():
            b.berth("rm", "-f", name, env=env)
        b.berth("system", "pool", "rm", env=env)
        b.wait_for(lambda: subprocess.run(["umount", where], capture_output=True).returncode == 0, 30, "the unmount")
