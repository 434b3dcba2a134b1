# SPDX-License-Identifier: Apache-2.0
"""
runtime.md, "State" and "Lifecycle": what is said of a container while it is being made, and what becomes of one whose
hooks fail.
"""
import json
import os
import subprocess

import berthtest as b
from test_oci import OCI, SLEEP, Bundle


def hook(command):
    return [{"path": "/bin/sh", "args": ["sh", "-c", command]}]


class Making:
    """`create` of a bundle, in the background, that waits in its first hook until it is let go on."""

    def __init__(self, c):
        self.c, self.go = c, b.tmp("go")
        os.mkfifo(self.go)
        c.config["hooks"] = {"createRuntime": hook(f"cat {self.go} > /dev/null")}
        c.save()

    def __enter__(self):
        with open(b.tmp("container.out"), "ab") as out:
            self.p = subprocess.Popen([OCI, "--root", self.c.root, "create", "-b", self.c.dir, self.c.id], env=b.environment(),
                                      stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.fd = os.open(self.go, os.O_WRONLY)     # once the hook has it open
        return self

    def let_go(self):
        os.close(self.fd)
        self.fd = -1
        assert self.p.wait(30 * b.SLOW) == 0, self.c.output()

    def __exit__(self, *exc):
        if self.fd >= 0:
            os.close(self.fd)
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()


def test_a_container_in_the_making_is_creating_and_nothing_else_may_be_done_to_it():
    with Bundle(*SLEEP) as c, Making(c) as making:
        s = c.state()
        assert s["status"] == "creating" and s["bundle"] == c.dir, s
        assert json.loads(c.call("list", "-f", "json").out)[0]["status"] == "creating"
        r = c.call("delete", c.id, ok=None)
        b.expect(r.code == 1 and "not stopped: creating" in r.err, r, "deleted while it is made")
        r = c.exec(c.id, "true", ok=None)
        b.expect(r.code == 255 and "being created" in r.err, r, "entered while it is made")
        for verb in ("pause", "update"):
            r = c.call(verb, c.id, ok=None)
            b.expect(r.code == 1, r, f"{verb} while it is made")
        making.let_go()
        assert c.status() == "created"
        c.call("start", c.id)
        assert c.status() == "running"


def test_state_never_says_stopped_while_create_is_under_way():
    """Held for 0.3 s at each step, from the directory to the last word to the container."""
    for call, when in (("mkdirat", 1), ("flock", 2), ("openat", 12), ("renameat", 1), ("renameat", 2), ("clone3", 1), ("sendmsg", 1),
                       ("recvmsg", 1)):
        with Bundle(*SLEEP) as c:
            c.save()
            os.makedirs(c.root, exist_ok=True)
            seen = set()
            with open(b.tmp("container.out"), "ab") as out:
                p = subprocess.Popen(["strace", "-qq", "-o", "/dev/null", "-e", f"inject={call}:delay_exit=300000:when={when}", OCI,
                                      "--root", c.root, "create", "-b", c.dir, c.id], env=b.under_strace(),
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            while p.poll() is None:
                r = c.call("state", c.id, ok=None)
                if r.code == 0:
                    s = json.loads(r.out)
                    seen.add(s["status"])
                    assert s["bundle"] == c.dir, s
                else:
                    assert "does not exist" in r.err, r
                for one in json.loads(c.call("list", "-f", "json").out):
                    seen.add(one["status"])
            assert p.returncode == 0, c.output()
            assert seen and seen <= {"creating", "created"}, (call, when, seen)
            assert c.status() == "created"


def test_what_a_killed_create_left_is_stopped_and_can_be_deleted():
    for call, when in (("flock", 2), ("renameat", 1), ("renameat", 2), ("clone3", 1), ("sendmsg", 1)):
        with Bundle(*SLEEP) as c:
            c.save()
            subprocess.run(["strace", "-qq", "-o", "/dev/null", "-e", f"inject={call}:signal=SIGKILL:when={when}", OCI, "--root", c.root,
                            "create", "-b", c.dir, c.id], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=30 * b.SLOW)
            assert os.listdir(c.root) == [c.id], call
            b.wait_for(lambda: c.status() == "stopped", what="the end of a container whose create was killed")
            c.call("delete", c.id)
            assert not os.listdir(c.root)


def test_the_program_is_not_running_before_it_is_executed():
    """`start` waits in a hook of the container: created still, as the specification defines it."""
    with Bundle(*SLEEP) as c:
        os.mkfifo(c.rootfs + "/go")
        c.config["hooks"] = {"startContainer": [{"path": "/bin/cat", "args": ["cat", "/go"]}]}
        c.create()
        p = subprocess.Popen([OCI, "--root", c.root, "start", c.id], env=b.environment(), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        fd = os.open(c.rootfs + "/go", os.O_WRONLY)
        assert c.status() == "created"
        os.close(fd)
        assert p.wait(30 * b.SLOW) == 0, p.stderr.read()
        assert c.status() == "running"
        p.stdout.close()
        p.stderr.close()


def seen_by_hooks():
    with open(b.tmp("seen")) as f:
        return [json.loads(line) for line in f if line.strip()]


def test_hooks_that_fail_stop_and_destroy_the_container_and_run_poststop():
    """"Lifecycle", 3 to 5, 7 and 9: the runtime generates an error, stops the container and goes on at 12."""
    for name in ("prestart", "createRuntime", "createContainer", "startContainer", "poststart"):
        with Bundle(*SLEEP) as c:
            open(b.tmp("seen"), "w").close()
            failing = "/bin/false" if name == "startContainer" else "/usr/bin/false"
            c.config["hooks"] = {name: [{"path": failing}], "poststop": hook(f"cat >> {b.tmp('seen')}; echo >> {b.tmp('seen')}")}
            made = name in ("startContainer", "poststart")
            r = c.create(ok=True if made else 1)
            if made:
                pid = c.state()["pid"]
                r = c.call("start", c.id, ok=1)
                b.expect(f"error running {name} hook #0" in r.err, r, "the hook's failure is not told")
                b.expect(not os.path.exists(f"/proc/{pid}/root/"), r, "the process lives on")
            else:
                assert f"error running {name} hook #0" in c.output()
            assert [s["status"] for s in seen_by_hooks()] == ["stopped"], (name, seen_by_hooks())
            assert c.call("state", c.id, ok=1) and not os.listdir(c.root), name
            # once destroyed, its id is free again
            c.config["hooks"] = {}
            c.detached()


def test_a_program_that_cannot_be_executed_leaves_a_stopped_container():
    """What fails at the start and is no hook is for `delete`, as with runc: the engine asks for its state first."""
    with Bundle(*SLEEP) as c:
        c.create()
        os.unlink(c.rootfs + "/bin/sh")
        c.call("start", c.id, ok=1)
        b.wait_for(lambda: c.status() == "stopped")
        c.call("delete", c.id)


def test_hooks_before_the_start_are_told_that_it_is_created():
    with Bundle("true") as c:
        names = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")
        c.config["hooks"] = {n: hook(f"cat >> {b.tmp('seen')}; echo >> {b.tmp('seen')}") for n in names}
        c.run()
        assert [s["status"] for s in seen_by_hooks()] == ["created", "created", "created", "running", "stopped"]
        assert all(s["pid"] > 0 for s in seen_by_hooks()[:4])


def test_a_forced_delete_waits_for_the_create_that_is_under_way():
    with Bundle(*SLEEP) as c, Making(c) as making:
        p = subprocess.Popen([OCI, "--root", c.root, "delete", "--force", c.id], env=b.environment(), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        making.let_go()
        assert p.wait(30 * b.SLOW) == 0, p.stderr.read()
        p.stdout.close()
        p.stderr.close()
        assert not os.listdir(c.root)
