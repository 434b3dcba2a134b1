# SPDX-License-Identifier: Apache-2.0
"""
berth checkpoint and undo: the files of a sandbox at one instant, and back to it; on the state directory as it is, and
on an XFS with reflinks of our own.
"""
import contextlib
import fcntl
import json
import os
import signal
import subprocess

import berthtest as b
from box import Box

MIB = 1 << 20


def sh(x, text, **kw):
    return b.berth("exec", x, "sh", "-c", text, **kw)


def checkpoint(x, *options, **kw):
    return json.loads(b.berth("checkpoint", "--json", *options, x, ok=True, **kw).out)


def listed(x, **kw):
    return json.loads(b.berth("checkpoints", "--json", x, ok=True, **kw).out)


def ids(x, **kw):
    return [c["id"] for c in listed(x, **kw)["checkpoints"]]


def folder(x):
    return os.path.join(b.root(), "state", "sandboxes", x.id, "checkpoints")


def needs_file(x):
    """Where the layer is a directory under a quota it has no checkpoints while it runs."""
    if os.path.isdir(os.path.join(b.root(), "state", "sandboxes", x.id, "writable")):
        raise b.skip("the state directory has project quotas")


@contextlib.contextmanager
def xfs(size="400m"):
    """An XFS with reflinks as the state directory: the environment for berth, and its path."""
    image, where = b.tmp("xfs.img"), b.tmpdir("xfs")
    if subprocess.run(["sh", "-c", "command -v mkfs.xfs"], stdout=subprocess.DEVNULL).returncode:
        raise b.skip("needs mkfs.xfs (xfsprogs)")
    subprocess.run(["truncate", "-s", size, image], check=True)
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, where], capture_output=True).returncode:
        raise b.skip("this kernel has no XFS")
    os.mkdir(where + "/state", 0o700)
    env = {"BERTH_STATE_DIR": where + "/state"}
    try:
        yield env, where
    finally:
        for name in b.berth("ps", "-aq", env=env).out.split():
            b.berth("rm", "-f", name, env=env)
        # the kernel lets go of a layer's loop device a moment after its last mount
        b.wait_for(lambda: subprocess.run(["umount", where], capture_output=True).returncode == 0, 30, "the unmount")


def test_an_undo_brings_files_back_and_each_further_one_goes_a_step_back():
    with Box() as x:
        needs_file(x)
        sh(x.id, "echo one > /f; ln /f /g; ln -s f /s", ok=True)
        first = checkpoint(x.id, "--name", "clean")
        assert first["checkpoint"] == "k1" and first["name"] == "clean" and first["frozen_us"] > 0, first
        sh(x.id, "echo two > /f; rm /s; mkdir /d", ok=True)
        assert b.berth("checkpoint", x.id, ok=True).out == "k2\n"
        sh(x.id, "echo three > /f; rm -rf /d /usr/local/none", ok=True)
        assert b.berth("undo", x.id, ok=True).out == "k2\n"
        assert sh(x.id, "cat /f; ls -d /d; test ! -e /s", ok=True).out == "two\n/d\n"
        # a command has changed a file: the last one again, then the one before it
        sh(x.id, "echo four > /f", ok=True)
        assert b.berth("undo", x.id, ok=True).out == "k2\n"
        assert b.berth("undo", x.id, ok=True).out == "k1\n"
        assert sh(x.id, "cat /f /g; readlink /s; test ! -e /d", ok=True).out == "one\none\nf\n"
        assert b.berth("undo", "--to", "k2", x.id, ok=True).out == "k2\n"
        assert sh(x.id, "cat /f", ok=True).out == "two\n"
        # the next checkpoint has k2 as its parent; steps lead along parents
        last = checkpoint(x.id)
        assert last["parent"] == "k2"
        assert b.berth("undo", "--steps", "3", x.id, ok=True).out == "k1\n"
        assert [(c["id"], c["parent"]) for c in listed(x.id)["checkpoints"]] == [("k1", None), ("k2", "k1"), (last["checkpoint"], "k2")]
        assert listed(x.id)["head"] == "k1"
        events = [json.loads(line) for line in b.berth("events", "--json", x.id, ok=True).out.splitlines()]
        lasting = [e["event"] for e in events if not e.get("temporary")]
        assert lasting.count("checkpoint") == 3 and lasting.count("undo") == 5, events


CHANGES = ("echo x >> /s/f", "chmod 600 /s/f", "chown 5 /s/f", "touch -d 2001-01-01 /s/f", "mv /s/f /s/g", "ln /s/f /s/g", "rm /s/f", "mkdir /s/e",
           "rmdir /s/d", "chmod 700 /s/d", "ln -sfn y /s/l", "cp -p /s/f /s/h && mv /s/h /s/f", "rm -r /etc/profile.d",
           "setfattr -n user.a -v b /s/f", "echo 1 > /etc/motd", "chmod 600 /etc")


def test_an_undo_after_a_look_goes_a_step_further_and_after_a_change_it_does_not():
    with Box() as x:
        needs_file(x)
        for i in range(1, 4):
            sh(x.id, f"mkdir -p /s/d; echo {i} > /s/f; ln -sfn x /s/l", ok=True)
            checkpoint(x.id)
        def undo(*options):
            return b.berth("undo", *options, x.id, ok=True).out.strip()
        assert undo() == "k3"
        assert sh(x.id, "cat /s/f; ls -lR /s /etc; find / -xdev > /dev/null; grep -r x /s").out.startswith("3\n")
        b.berth("sh", x.id, "cat /s/f; cd /s", ok=True)
        b.berth("file", "read", x.id, "/s/f", ok=True)
        assert undo() == "k2" and sh(x.id, "cat /s/f", ok=True).out == "2\n"
        # what is not in the layer is no change of it
        sh(x.id, "echo x > /dev/shm/x; echo y > /run/y", ok=True)
        assert undo() == "k1" and sh(x.id, "cat /s/f", ok=True).out == "1\n"
        # there is none before: it is the same again, as it always was
        assert undo() == "k1"
        for change in CHANGES:
            assert undo("--to", "k3") == "k3"
            r = sh(x.id, change)
            if r.code == 127 or "not found" in r.err:
                continue
            b.expect(r.code == 0, r, f"{change!r} does not work")
            assert undo() == "k3", change
        # of a stopped one too
        sh(x.id, "cat /s/f", ok=True)
        b.berth("stop", x.id, ok=True)
        assert undo() == "k2"
        # a checkpoint of the user's own begins anew
        b.berth("start", x.id, ok=True)
        assert undo("--to", "k3") == "k3"
        sh(x.id, "cat /s/f", ok=True)
        own = checkpoint(x.id)
        assert undo() == own["checkpoint"] and own["parent"] == "k3"
        assert ids(x.id) == ["k1", "k2", "k3", own["checkpoint"]], ids(x.id)


@b.deadline(120)
def test_tmp_is_on_the_layer_and_what_is_in_memory_is_named():
    with Box() as x:
        sh(x.id, "echo 1 > /tmp/f", ok=True)
        r = b.berth("checkpoint", x.id, ok=True)
        assert "memory" not in r.err, r
        sh(x.id, "echo 2 > /tmp/f; echo 2 > /dev/shm/f", ok=True)
        r = b.berth("checkpoint", x.id, ok=True)
        assert r.err == "berth checkpoint: what is in memory is not in it: /dev/shm\n", r
        sh(x.id, "echo 3 > /tmp/f; echo 3 > /run/f", ok=True)
        r = b.berth("fork", x.id, ok=True)
        assert r.err == "berth fork: what is in memory is not copied: /run, /dev/shm\n", r
        assert sh(r.out.strip(), "cat /tmp/f; ls /run/f /dev/shm/f").out == "3\n"
        b.berth("rm", "-f", r.out.strip(), ok=True)
        b.berth("stop", x.id, ok=True)
        b.berth("start", x.id, ok=True)
        assert sh(x.id, "cat /tmp/f; stat -c %a /tmp", ok=True).out == "3\n1777\n"
        sh(x.id, "echo 4 > /run/f", ok=True)
        r = b.berth("undo", x.id, ok=True)
        assert r.err.splitlines()[-1] == "berth undo: what is in memory is gone: /run", r
        assert sh(x.id, "cat /tmp/f", ok=True).out == "2\n"
        assert b.berth("undo", x.id, ok=True).out == "k1\n" and sh(x.id, "cat /tmp/f", ok=True).out == "1\n"
    # a size is one of memory, and a root that cannot be written has it there
    for options in (("--tmp-size", "1m"), ("--tmpfs", "/tmp:size=1m"), ("--read-only", "--tmp-size", "1m")):
        with Box(*options) as x:
            assert sh(x.id, "df -k /tmp | tail -1; echo 1 > /tmp/f", ok=True).out.split()[1] == "1024"
            assert "is not in it: /tmp" in b.berth("checkpoint", x.id, ok=True).err
    assert b.run("--read-only", "host", "sh", "-c", "echo 1 > /tmp/f", ok=True).code == 0


def test_checkpoint_undo_and_fork_say_what_they_leave_out():
    for verb, words in (("checkpoint", ("/dev/shm", "/run", "volumes", "processes")), ("undo", ("/dev/shm", "/run", "Volumes")),
                        ("fork", ("/dev/shm", "/run", "Volumes", "processes", "shell sessions"))):
        text = " ".join(b.berth(verb, "--help", ok=True).out.split())
        assert all(w in text for w in words), (verb, text)
    with Box() as plain, Box("--volume", b.tmpdir("data") + ":/data:rw") as x:
        needs_file(x)
        # where there is something, it is said again
        for box, said in ((plain, False), (x, True)):
            for verb, words in (("checkpoint", "are not in it"), ("undo", "stay as they are"), ("fork", "are shared with")):
                p = b.berth(verb, box.id, ok=True)
                assert (f"volumes and mounts of the host {words}" in p.err) == said and "\n" not in p.out.strip(), p
                if verb == "fork":
                    b.berth("rm", "-f", p.out.strip(), ok=True)
        assert not b.berth("checkpoint", "--json", x.id, ok=True).err


def test_a_checkpoint_tells_the_command_before_it_and_an_undo_those_it_ends():
    with Box() as x:
        needs_file(x)
        sh(x.id, "echo 'ü' > /f", ok=True)
        checkpoint(x.id)
        assert listed(x.id)["checkpoints"][0]["command"] == "sh -c echo 'ü' > /f"
        b.berth("exec", "--detach", x.id, "sleep", "1000", ok=True)
        p = b.berth("undo", "--json", x.id, ok=True)
        assert [e["text"] for e in json.loads(p.out)["ended"]] == ["sleep 1000"], p
        assert sh(x.id, "cat /f", ok=True).out == "ü\n"


def test_a_stopped_sandbox_has_checkpoints_too_and_an_undo_leaves_it_stopped():
    with Box() as x:
        needs_file(x)
        sh(x.id, "echo one > /f", ok=True)
        b.berth("stop", x.id, ok=True)
        checkpoint(x.id)
        sh_of = lambda: b.berth("start", x.id, ok=True) and sh(x.id, "cat /f", ok=True).out
        b.berth("start", x.id, ok=True)
        sh(x.id, "echo two > /f", ok=True)
        b.berth("stop", x.id, ok=True)
        b.berth("undo", x.id, ok=True)
        assert json.loads(b.berth("inspect", x.id, ok=True).out)["status"] == "stopped"
        assert sh_of() == "one\n"


def test_the_oldest_go_and_what_was_removed_leaves_no_file():
    with Box() as x:
        needs_file(x)
        for _ in range(3):
            checkpoint(x.id, "--keep", "2")
        assert ids(x.id) == ["k2", "k3"]
        assert listed(x.id)["checkpoints"][0]["parent"] is None
        b.berth("checkpoint", x.id, ok=True)    # the number was said for good
        assert ids(x.id) == ["k3", "k4"]
        assert b.berth("checkpoint", "rm", x.id, "k3", ok=True).out == "k3\n"
        assert sorted(os.listdir(folder(x))) == ["k4.img", "list.json"]
        b.one_line_error(b.berth("checkpoint", "rm", x.id, "k3"), 125, "no checkpoint 'k3'", "hint:")
        b.berth("checkpoint", "rm", x.id, "k4", ok=True)
        b.one_line_error(b.berth("undo", x.id), 125, "no checkpoint is 1 step back", "hint:")
        # ids are not given twice
        assert checkpoint(x.id)["checkpoint"] == "k5"


def test_wrong_words_are_refused_and_change_nothing():
    with Box() as x:
        needs_file(x)
        checkpoint(x.id, "--name", "clean")
        for args, code, word in ((["checkpoint", "--name", "clean", x.id], 125, "already"),
                                 (["checkpoint", "--name", "k7", x.id], 2, "cannot be the name of a checkpoint"),
                                 (["checkpoint", "--keep", "0", x.id], 2, "keep"),
                                 (["checkpoint", "--keep", "257", x.id], 2, "keep"),
                                 (["undo", "--to", "k9", x.id], 125, "no checkpoint 'k9'"),
                                 (["undo", "--to", "k1", "--steps", "1", x.id], 2, "--to and --steps"),
                                 (["undo", "--steps", "2", x.id], 125, "2 steps back")):
            b.one_line_error(b.berth(*args), code, word)
        assert ids(x.id) == ["k1"] and sorted(os.listdir(folder(x))) == ["k1.img", "list.json"]
        assert sh(x.id, "echo still there", ok=True).out == "still there\n"


def snapshot_of(keeper):
    """The process that copies for a keeper, once it is there."""
    def found():
        with open(f"/proc/{keeper}/task/{keeper}/children") as f:
            for pid in f.read().split():
                with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as c:
                    if c.read() == "berth-snapshot\n":
                        return int(pid)
        return 0
    return b.wait_for(found, 30, "the process that copies")


def runs_again(x):
    """Started, after a kill: what it left may still be about to end."""
    b.wait_for(lambda: b.berth("start", x.id).code == 0 and sh(x.id, "true").code == 0, 60, "the next start")


def filled(x, mib=48):
    """Data that a copy takes a while for."""
    sh(x.id, f"head -c {mib * MIB} /dev/urandom > /big; echo before > /f", ok=True)


@b.deadline(180)
def test_a_killed_checkpoint_leaves_the_sandbox_as_it_was():
    with Box("--disk", "128m") as x:
        needs_file(x)
        filled(x)
        keeper = json.loads(b.berth("inspect", x.id, ok=True).out)["supervisor_pid"]
        for n in range(b.times(6, 40)):
            p = b.start("checkpoint", x.id)
            pid = snapshot_of(keeper)
            # at another point each time: after so many of its own context switches
            b.wait_for(lambda: not os.path.exists(f"/proc/{pid}/comm") or switches(pid) >= n, 20, "a point")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            p.wait(30 * b.SLOW)
            # it writes, so nothing is frozen
            sh(x.id, f"echo {n} > /n; sync", ok=True, timeout=60)
        kept = ids(x.id)
        after = checkpoint(x.id)["checkpoint"]
        assert sorted(os.listdir(folder(x))) == sorted([f"{k}.img" for k in ids(x.id)] + ["list.json"]), kept
        b.berth("undo", "--to", after, x.id, ok=True)
        assert sh(x.id, "cat /f", ok=True).out == "before\n"


def switches(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as f:
        return sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
    return 1 << 30


@b.deadline(240)
def test_whoever_is_killed_the_layer_goes_on():
    """The keeper, then the process that copies beside it: what the sandbox had is there at the next start."""
    for both in (False, True):
        with Box("--disk", "128m") as x:
            needs_file(x)
            filled(x)
            keeper = json.loads(b.berth("inspect", x.id, ok=True).out)["supervisor_pid"]
            p = b.start("checkpoint", x.id)
            pid = snapshot_of(keeper)
            frozen = os.path.join(folder(x), "frozen")
            b.wait_for(lambda: os.path.exists(frozen) or not os.path.exists(f"/proc/{pid}"), 30, "the freeze")
            os.kill(keeper, signal.SIGKILL)
            if both:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            p.wait(30 * b.SLOW)
            runs_again(x)
            assert sh(x.id, "echo after >> /f; cat /f; wc -c < /big", ok=True).out == f"before\nafter\n{48 * MIB}\n"
            assert not os.path.exists(frozen)


@b.deadline(120)
def test_a_killed_undo_leaves_the_files_of_before_or_of_the_checkpoint():
    with Box("--disk", "128m") as x:
        needs_file(x)
        filled(x, 24)
        checkpoint(x.id)
        for n in range(b.times(8, 40)):
            sh(x.id, "echo after > /f; sync", ok=True)
            p = b.start("undo", x.id)
            b.wait_for(lambda: p.poll() is not None or switches(p.pid) >= 3 * n, 30, "a point")
            p.kill()
            p.wait()
            runs_again(x)
            assert sh(x.id, "cat /f; wc -c < /big", ok=True).out in (f"before\n{24 * MIB}\n", f"after\n{24 * MIB}\n"), n
        b.berth("undo", x.id, ok=True)
        assert sh(x.id, "cat /f", ok=True).out == "before\n"


@contextlib.contextmanager
def halted_undo(x, *options):
    """An undo that stands still when it has copied the layer, and holds no lock."""
    for _ in range(200):
        p = b.start("undo", *options, x.id)
        b.wait_for(lambda: p.poll() is not None or [f for f in os.listdir(folder(x)) if f.startswith("undo")], 30, "the copy")
        p.send_signal(signal.SIGSTOP)
        fd = os.open(folder(x), os.O_RDONLY | os.O_DIRECTORY)
        try:
            while p.poll() is None and not os.path.exists(folder(x) + "/pending"):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    fcntl.flock(fd, fcntl.LOCK_UN)
                    # its copy is there: it has not done all of its work already
                    if b.berth("exec", x.id, "true").code == 0 and [f for f in os.listdir(folder(x)) if f.startswith("undo")]:
                        yield p
                        return
                    break
                went = switches(p.pid)
                p.send_signal(signal.SIGCONT)
                b.wait_for(lambda: p.poll() is not None or switches(p.pid) > went, 30, "a step of the undo")
                p.send_signal(signal.SIGSTOP)
        finally:
            os.close(fd)
            with contextlib.suppress(ProcessLookupError):
                p.send_signal(signal.SIGCONT)
            p.communicate(timeout=60 * b.SLOW)
        runs_again(x)
        b.berth("checkpoint", x.id, ok=True)
    raise AssertionError("the undo was never caught")


@b.deadline(180)
def test_commands_of_others_during_an_undo_do_not_change_its_target():
    with Box("--disk", "128m") as x:
        needs_file(x)
        filled(x, 8)
        for text in ("one", "two"):
            sh(x.id, f"echo {text} > /f", ok=True)
            checkpoint(x.id, "--keep", "200", "--name", text)
        other = {"a checkpoint": ("checkpoint", x.id), "another undo": ("undo", "--to", "two", x.id)}
        for what, words in other.items():
            sh(x.id, "echo three > /f", ok=True)
            with halted_undo(x, "--to", "one"):
                b.berth(*words, ok=True)
            runs_again(x)
            assert sh(x.id, "cat /f", ok=True).out == "one\n", what
            assert not [f for f in os.listdir(folder(x)) if f.startswith(("undo", "pending"))], what


def test_a_pause_outlives_a_checkpoint():
    with Box() as x:
        needs_file(x)
        b.berth("pause", x.id, ok=True)
        checkpoint(x.id)
        assert json.loads(b.berth("inspect", x.id, ok=True).out)["status"] == "paused"
        b.berth("resume", x.id, ok=True)
        sh(x.id, "true", ok=True)


def test_a_config_makes_a_checkpoint_before_each_command():
    env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), '[sandbox]\ncheckpoint = "command"\ncheckpoint_keep = 3\n')}
    with Box(env=env) as x:
        needs_file(x)
        for n in range(5):
            sh(x.id, f"echo {n} > /f", ok=True, env=env)
        assert ids(x.id) == ["k3", "k4", "k5"]
        for n in (3, 2, 1):
            b.berth("undo", x.id, ok=True, env=env)
            # a look after an undo makes none
            assert sh(x.id, "cat /f", ok=True, env=env).out == f"{n}\n"
    wide = {"BERTH_CONFIG": b.write(b.tmp("wide.toml"), '[sandbox]\ncheckpoint = "command"\n')}
    with Box(env=wide) as x:
        for n in range(5):
            sh(x.id, f"echo {n} > /f", ok=True, env=wide)
        for n in (3, 2, 1, 0):
            b.berth("undo", x.id, ok=True, env=wide)
            # further looks make some, which the next undo passes over
            for _ in range(3):
                assert sh(x.id, "cat /f", ok=True, env=wide).out == f"{n}\n"
        assert len(ids(x.id)) == 5 + 4 * 2, ids(x.id)
        sh(x.id, "echo other > /f", ok=True, env=wide)
        b.berth("undo", x.id, ok=True, env=wide)
        assert sh(x.id, "cat /f", ok=True, env=wide).out == "0\n"
    env["BERTH_CONFIG"] = b.write(b.tmp("wrong.toml"), '[sandbox]\ncheckpoint = "always"\n')
    b.one_line_error(b.berth("ps", env=env), 125, "checkpoint", "hint:")


def test_exec_and_sh_make_a_checkpoint_first_when_they_are_told_to():
    with Box() as x:
        needs_file(x)
        b.berth("exec", "--checkpoint", x.id, "sh", "-c", "echo one > /f", ok=True)
        assert b.berth("sh", "--checkpoint", x.id, "echo two > /f; echo said", ok=True).out == "said\n"
        b.berth("sh", x.id, "echo three > /f", ok=True)
        told = listed(x.id)["checkpoints"]
        assert [(c["id"], c["before_command"], c.get("command")) for c in told] == [
            ("k1", True, None), ("k2", True, "sh -c echo one > /f")], told
        b.berth("undo", x.id, ok=True)
        # nothing has run since: it is the head already
        assert b.berth("exec", "--checkpoint", x.id, "cat", "/f", ok=True).out == "one\n"
        assert ids(x.id) == ["k1", "k2"]
        # looks since the undo change nothing: one step leads to the checkpoint before
        b.berth("undo", "--steps", "1", x.id, ok=True)
        assert sh(x.id, "test -e /f").code == 1
        # a command whose checkpoint cannot be made is not run
        os.chmod(folder(x), 0o700)
        with open(os.path.join(folder(x), "list.json"), "w") as f:
            f.write("{}")
        b.one_line_error(b.berth("exec", "--checkpoint", x.id, "touch", "/ran"), 125, "was not run")
        assert sh(x.id, "test -e /ran").code == 1


@b.deadline(120)
def test_on_a_file_system_with_reflinks_blocks_are_shared_and_a_full_one_refuses():
    with xfs() as (env, where):
        b.berth("create", "--name", "x", "--disk", "200m", "host", env=env, ok=True)
        sh("x", f"head -c {64 * MIB} /dev/urandom > /big; sync", ok=True, env=env)
        free = os.statvfs(where).f_bavail
        for _ in range(3):
            assert checkpoint("x", env=env)["shared"] is True
        st = os.statvfs(where)
        assert (free - st.f_bavail) * st.f_frsize < 32 * MIB, (free, st)
        sh("x", "rm /big; echo new > /f", ok=True, env=env)
        b.berth("undo", "x", env=env, ok=True)
        assert sh("x", "wc -c < /big; test ! -e /f", ok=True, env=env).out == f"{64 * MIB}\n"
        # full: refused before anything stands still, and nothing is left of it
        st = os.statvfs(where)
        with open(where + "/ballast", "wb") as f:
            os.posix_fallocate(f.fileno(), 0, (st.f_bavail * st.f_frsize) - 8 * MIB)
        b.one_line_error(b.berth("checkpoint", "x", env=env), 125, "a checkpoint takes", "hint:")
        assert ids("x", env=env) == ["k1", "k2", "k3"]
        os.unlink(where + "/ballast")


def test_forks_begin_with_the_files_and_go_their_own_ways():
    with Box("--memory", "64m", "--env", "WHO=first") as x:
        needs_file(x)
        sh(x.id, "mkdir -m 750 /d; echo one > /d/f; chown 5:6 /d /d/f; ln /d/f /hard; touch /suid; chmod 4711 /suid", ok=True)
        name = x.id[:8]
        told = json.loads(b.berth("fork", "--json", "--count", "2", "--name", name, x.id, ok=True).out)
        first, second = (f["id"] for f in told["forks"])
        try:
            assert told["checkpoint"] == "k1" and [f["name"] for f in told["forks"]] == [f"{name}-1", f"{name}-2"]
            look = "stat -c '%a %u %g %h %n' /d /d/f /hard /suid; cat /d/f; echo $WHO; id -u"
            want = "750 5 6 2 /d\n644 5 6 2 /d/f\n644 5 6 2 /hard\n4711 0 0 1 /suid\none\nfirst\n0\n"
            assert sh(first, look, ok=True).out == want == sh(second, look, ok=True).out
            assert json.loads(b.berth("inspect", first, ok=True).out)["limits"] == \
                json.loads(b.berth("inspect", x.id, ok=True).out)["limits"]
            sh(first, "echo more >> /d/f; touch /mine; chown 7:8 /mine; rm /hard; mkdir /new; mv /d /moved", ok=True)
            # the others see nothing of it, and it is there after a stop
            assert sh(second, look, ok=True).out == want == sh(x.id, look, ok=True).out
            b.berth("restart", first, ok=True)
            assert sh(first, "cat /moved/f; stat -c '%u %g' /mine /moved", ok=True).out == "one\nmore\n7 8\n5 6\n"
            # ids of their own: no process of one may be one of the other
            maps = {open(f"/proc/{json.loads(b.berth('inspect', i, ok=True).out)['init_pid']}/uid_map").read().split()[1]
                    for i in (x.id, first, second)}
            assert len(maps) == 3, maps
            # a fork of a fork, of a checkpoint, and undone
            assert b.berth("checkpoint", first, ok=True).out == "k1\n"
            third = b.berth("fork", f"{first}@k1", ok=True).out.strip()
            try:
                assert sh(third, "cat /moved/f; stat -c '%u %g' /mine", ok=True).out == "one\nmore\n7 8\n"
                sh(first, "rm -r /moved /mine", ok=True)
                b.berth("undo", first, ok=True)
                assert sh(first, "cat /moved/f; stat -c '%u %g' /mine", ok=True).out == "one\nmore\n7 8\n"
            finally:
                b.berth("rm", "-f", third, ok=True)
            # the first may go
            b.berth("rm", "-f", first, ok=True)
            assert sh(second, look, ok=True).out == want
        finally:
            b.berth("rm", "-f", first)
            b.berth("rm", "-f", second)


@b.deadline(120)
def test_a_fork_leaves_no_checkpoint_and_takes_the_place_of_none():
    with Box("--disk", "128m") as x:
        needs_file(x)
        filled(x, 24)
        checkpoint(x.id, "--keep", "2")
        checkpoint(x.id, "--name", "last")
        b.berth("undo", x.id, ok=True)
        before = listed(x.id)
        for state in ("runs", "restored", "stopped"):
            if state == "stopped":
                b.berth("stop", x.id, ok=True)
            b.berth("rm", "-f", b.berth("fork", x.id, ok=True).out.strip(), ok=True)
            assert listed(x.id) == before, state
            said = [json.loads(line) for line in b.berth("events", "--json", "--filter", "event=checkpoint", ok=True).out.splitlines()]
            assert not any("owner" in one for one in said) and (state == "stopped" or said[-1].get("temporary") or state == "restored"), said
            assert os.path.exists(folder(x) + "/restored"), state
        b.berth("start", x.id, ok=True)
        # one that is killed leaves it to the next checkpoint
        for n in range(b.times(6, 30)):
            p = b.start("fork", x.id)
            b.wait_for(lambda: p.poll() is not None or switches(p.pid) >= 3 * n, 30, "a point")
            p.kill()
            p.wait()
        assert sorted(os.listdir(folder(x)))
        b.wait_for(lambda: b.berth("checkpoint", "--name", "next", x.id).code == 0, 60, "the next checkpoint")
        told = listed(x.id)
        assert [c.get("name") for c in told["checkpoints"]] == ["last", "next"] and told["checkpoints"][1]["parent"] == "k2", told
        assert sorted(f for f in os.listdir(folder(x)) if f.endswith(".img")) == sorted(f"{k}.img" for k in ids(x.id))
        for name in b.berth("ps", "-aq", ok=True).out.split():
            if name != x.id:
                b.berth("rm", "-f", name, ok=True)


def test_a_fork_that_cannot_be_made_leaves_nothing():
    with Box() as x:
        needs_file(x)
        before = os.listdir(os.path.join(b.root(), "state", "sandboxes"))
        b.one_line_error(b.berth("fork", f"{x.id}@k9"), 125, "no checkpoint 'k9'")
        b.one_line_error(b.berth("fork", f"{x.id}@"), 2, "is empty", "hint:")
        b.one_line_error(b.berth("fork", "--count", "0", x.id), 2, "count")
        checkpoint(x.id)
        os.truncate(os.path.join(folder(x), "k1.img"), 4096)
        p = b.berth("fork", f"{x.id}@k1")
        assert p.code == 125, p
        assert os.listdir(os.path.join(b.root(), "state", "sandboxes")) == before
        sh(x.id, "true", ok=True)


@b.deadline(240)
def test_sqlite_in_wal_under_load_is_whole_in_each_fork():
    """The database of a writer that does not stop, as each checkpoint has it."""
    if subprocess.run(["sh", "-c", "command -v python3"], stdout=subprocess.DEVNULL).returncode:
        raise b.skip("needs python3")
    write = ("import sqlite3\nd = sqlite3.connect('/db', isolation_level=None)\nd.execute('pragma journal_mode=wal')\n"
             "d.execute('create table t(a, b)')\nopen('/ready', 'w').close()\nn = 0\n"
             "while True:\n    n += 1\n    d.execute('begin')\n    d.execute('insert into t values(?, ?)', (n, 'x' * (n % 3000)))\n"
             "    d.execute('insert into t values(?, ?)', (-n, ''))\n    d.execute('delete from t where abs(a) < ?', (n - 500,))\n"
             "    d.execute('commit')\n")
    read = ("import sqlite3\nd = sqlite3.connect('/db')\nprint(d.execute('pragma integrity_check').fetchone()[0], "
            "d.execute('select sum(a) from t').fetchone()[0])")
    with xfs() as (env, _):
        b.berth("create", "--name", "x", "host", env=env, ok=True)
        b.berth("exec", "--detach", "x", "python3", "-c", write, env=env, ok=True)
        b.wait_for(lambda: sh("x", "test -e /ready", env=env).code == 0, 60, "the table")
        for _ in range(b.times(8, 100)):
            one = b.berth("fork", "x", env=env, ok=True).out.strip()
            assert b.berth("exec", one, "python3", "-c", read, env=env, ok=True).out == "ok 0\n"
            b.berth("rm", "-f", one, env=env, ok=True)


def test_the_sandbox_of_a_run_has_no_checkpoints_and_keeps_nothing_of_the_request():
    for more in ([], ["--keep"]):
        with b.start("run", *more, "--name", "brief", "host", "sh", "-c", "echo up; read x", stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE) as p:
            b.read_until(p.stdout, b"up")
            x = json.loads(b.berth("inspect", "brief", ok=True).out)["id"]
            for args in (["checkpoint", x], ["checkpoints", x], ["checkpoint", "rm", x, "k1"], ["undo", x], ["fork", x]):
                b.one_line_error(b.berth(*args), 125, "does not last", "hint: berth create")
            if not more:
                for args, words in ((["commit", x, "im"], "ends with its command"), (["checkpoint", "export", f"{x}@k1"], "does not last")):
                    b.one_line_error(b.berth(*args), 125, words, "hint: berth create")
                assert not os.path.exists(os.path.join(b.root(), "state", "sandboxes", x))
            p.stdin.close()
            p.wait()
        b.berth("rm", "-f", x)
