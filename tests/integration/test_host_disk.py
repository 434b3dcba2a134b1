# SPDX-License-Identifier: Apache-2.0
"""The file system of the state directory is full, or promised: a file system of the test's own.  Attacks S8 of SECURITY.md."""
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
        os.rmdir(where)


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


def room(where):
    fs = os.statvfs(where)
    return fs.f_bavail * fs.f_frsize


WRITER = """
import hashlib, os, sys
# files of 1 MiB: a line for each that the file system has acknowledged, with what it must hold
for i in range(int(sys.argv[1])):
    data = os.urandom(1 << 20)
    fd = os.open(f"/w{sys.argv[2]}.{i}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        done = 0
        while done < len(data):
            done += os.write(fd, data[done:])
        if sys.argv[3] == "fsync":
            os.fsync(fd)
        os.close(fd)
    except OSError as e:
        print("stopped", e.errno, flush=True)
        break
    print(f"/w{sys.argv[2]}.{i}", hashlib.sha256(data).hexdigest(), flush=True)
os.sync()
print("synced", flush=True)
"""


def writer(env, box, count, name, how):
    return subprocess.Popen([os.path.join(b.BUILD, "berth"), "exec", box, "python3", "-c", WRITER, str(count), name, how],
                            stdout=subprocess.PIPE, text=True, env=b.environment(env))


def acknowledged(p):
    lines = p.communicate(timeout=120 * b.SLOW)[0].splitlines()
    assert lines[-1] == "synced", lines[-5:]
    return dict(line.split() for line in lines if line.startswith("/")), [line for line in lines if line.startswith("stopped")]


def check_all_there(env, box, files):
    """After a stop and a start: what is read comes from the disk."""
    b.berth("stop", box, env=env, ok=True)
    b.berth("start", box, env=env, ok=True)
    there = b.berth("exec", box, "sh", "-c", "cd /; sha256sum /w*.*; true", env=env, ok=True).out
    there = {name: digest for digest, name in (line.split() for line in there.splitlines())}
    lost = [name for name, digest in files.items() if there.get(name) != digest]
    assert not lost, (box, len(files), lost)
    assert json.loads(b.berth("inspect", box, env=env, ok=True).out)["disk_errors"] == 0


FREE = "[admission]\ndisk_overcommit = 0\n"


@b.deadline(240)
def test_what_is_written_is_there_when_sandboxes_fill_the_disk():
    for how in ("sync", "fsync"):
        with small_disk(FREE) as (env, state):
            boxes = ("one", "two", "three")
            for name in boxes:
                create(env, name, "250m")
            # one after the other, then all at once
            first = acknowledged(writer(env, "one", 200, "a", how))
            assert first[0], first
            running = [writer(env, name, 200, "b", how) for name in boxes]
            second = [acknowledged(p) for p in running]
            assert all(stopped == ["stopped 28"] for _, stopped in second), second
            assert room(os.path.dirname(state)) >= 4 * MIB
            # what is left is said inside, and removing a file makes room for another
            for name, (files, _) in zip(boxes, second):
                check_all_there(env, name, {**files, **(first[0] if name == "one" else {})})


@b.deadline(240)
def test_what_is_written_is_there_when_the_host_fills_the_disk():
    with small_disk(FREE) as (env, state):
        create(env, "one", "250m")
        before, _ = acknowledged(writer(env, "one", 20, "a", "sync"))
        assert len(before) == 20, (len(before), _)
        fill(os.path.dirname(state) + "/fill")
        after, stopped = acknowledged(writer(env, "one", 20, "b", "sync"))
        assert after == {} and stopped == ["stopped 28"], (after, stopped)
        full = json.loads(b.berth("exec", "--json", "one", "sh", "-c", "echo x > /x", env=env).out)
        assert full["disk_full"] is True and full["cause"] == "disk", full
        os.unlink(os.path.dirname(state) + "/fill")
        b.wait_for(lambda: room(state) > 200 * MIB, 30, "the room of the file")
        again, _ = acknowledged(writer(env, "one", 20, "c", "sync"))
        assert len(again) == 20, again
        check_all_there(env, "one", {**before, **again})


@b.deadline(120)
def test_the_reserve_is_the_operators():
    for reserve, free in (("0", 0), ("8m", 8 * MIB)):
        with small_disk(FREE + f'disk_reserve = "{reserve}"\n') as (env, state):
            create(env, "one", "290m")

            def full():
                """A writer that is faster than the reserve is counted gets its ENOSPC early, and may go on later."""
                b.berth("exec", "one", "sh", "-c", "head -c 400000000 /dev/zero >> /f; sync", env=env)
                return room(os.path.dirname(state)) <= free + 8 * MIB
            b.wait_for(full, 20, "a disk that is full to its reserve")
            left = room(os.path.dirname(state))
            assert left >= free // 4, (reserve, left)


@b.deadline(180)
def test_a_full_host_disk_is_told_and_what_fills_it_can_go():
    # without a reserve: the writes succeed, and are lost
    with small_disk(FREE + "disk_reserve = 0\n") as (env, state):
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
