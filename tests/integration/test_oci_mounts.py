# SPDX-License-Identifier: Apache-2.0
"""
Mounts of a container, where other runtimes' suites (crun's, runc's, runtime-tools') found more to try than
config.md says: without a mount namespace, below an earlier mount, with options in every form.
"""
import os
import shutil
import subprocess

import berthtest as b
from test_oci import HYBRID, SLEEP, Bundle, has, with_userns

CAT = ("cat", "/proc/self/mounts")


def without_mount_namespace(c):
    c.linux["namespaces"] = [n for n in c.linux["namespaces"] if n["type"] != "mount"]


class Apart:
    """A mount namespace for the runtime to be started in, so that the machine's own has no mount of a test's."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "cat"], stdin=subprocess.PIPE)
        b.wait_for(lambda: os.readlink(self.path("ns/mnt")) != os.readlink("/proc/self/ns/mnt"))
        b.wait_for(lambda: os.path.basename(os.readlink(self.path("exe"))) == os.path.basename(os.path.realpath("/bin/cat")))

    def path(self, name):
        return f"/proc/{self.holder.pid}/{name}"

    def enter(self, c):
        c.prefix = ("nsenter", "--mount=" + self.path("ns/mnt"))
        without_mount_namespace(c)

    def call(self, *args):
        subprocess.run(["nsenter", "--mount=" + self.path("ns/mnt"), *args], check=True)

    def mounts(self, directory):
        with open(self.path("mountinfo")) as f:
            return [line for line in f if directory in line.split()[4]]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.holder.stdin.close()
        self.holder.wait()


# ---- without a mount namespace: config-linux.md, "Namespaces": an unlisted one MUST be inherited ------------

def test_an_unlisted_mount_namespace_is_inherited_with_all_mounts():
    script = "readlink /proc/self/ns/mnt; cat /proc/self/mounts; cat /proc/kcore; echo x > /dev/null; touch /new && echo written"
    with Apart() as apart, Bundle("sh", "-c", script) as c:
        apart.enter(c)
        c.config["root"]["readonly"] = True
        r = c.run(ok=None)
        assert r.out.splitlines()[0] == os.readlink(apart.path("ns/mnt")), r
        assert " /proc proc " in r.out and " /dev tmpfs " in r.out and "Read-only file system" in r.err, r
        assert "written" not in r.out and not os.path.exists(c.rootfs + "/new"), r
        assert not apart.mounts(c.rootfs), "mounts are left"


def test_mounts_in_an_inherited_namespace_go_with_the_container():
    with Apart() as apart, Bundle(*SLEEP) as c:
        apart.enter(c)
        c.detached()
        assert len(apart.mounts(c.rootfs)) > 5, apart.mounts(c.rootfs)
        assert "sh" in c.exec(c.id, "ls", "/bin").out.split()
        c.call("delete", "--force", c.id)
        assert not apart.mounts(c.rootfs), "mounts are left"


def test_a_mount_of_the_callers_on_the_root_stays_when_the_container_goes():
    with Apart() as apart, Bundle(*SLEEP) as c:
        apart.enter(c)
        apart.call("mount", "--bind", c.rootfs, c.rootfs)
        before = apart.mounts(c.rootfs)
        assert len(before) == 1, before
        c.detached()
        c.call("delete", "--force", c.id)
        assert apart.mounts(c.rootfs) == before, apart.mounts(c.rootfs)


def test_mounts_on_a_shared_mount_are_seen_by_no_peer_when_the_container_is_gone():
    with Apart() as apart, Bundle(*SLEEP) as c:
        apart.enter(c)
        apart.call("mount", "--bind", c.dir, c.dir)
        apart.call("mount", "--make-shared", c.dir)
        peer = subprocess.Popen([*c.prefix, "unshare", "--mount", "--propagation", "unchanged", "cat"], stdin=subprocess.PIPE)
        try:
            b.wait_for(lambda: os.readlink(f"/proc/{peer.pid}/ns/mnt") not in
                       (os.readlink("/proc/self/ns/mnt"), os.readlink(apart.path("ns/mnt"))))
            c.detached()
            with open(f"/proc/{peer.pid}/mountinfo") as f:
                seen = [line.split()[4] for line in f if c.rootfs in line.split()[4]]
            assert seen == [c.rootfs], seen
            c.call("delete", "--force", c.id)
            with open(f"/proc/{peer.pid}/mountinfo") as f:
                assert c.rootfs not in [line.split()[4] for line in f]
            assert not apart.mounts(c.rootfs)
        finally:
            peer.stdin.close()
            peer.wait()


def test_a_create_that_was_killed_leaves_no_mount_after_delete():
    with Apart() as apart, Bundle(*SLEEP) as c:
        apart.enter(c)
        c.config["hooks"] = {"createRuntime": [{"path": "/bin/sh", "args": ["sh", "-c", "kill -9 $PPID"]}]}
        c.create(ok=None)
        assert apart.mounts(c.rootfs), "the maker died too early for this test"
        c.call("delete", "--force", c.id)
        assert not apart.mounts(c.rootfs), "mounts are left"


def test_mounts_beside_a_user_namespace_alone_are_refused():
    with Bundle(*CAT) as c:
        without_mount_namespace(c)
        with_userns(c)
        c.refused("mount namespace", "hint:")


# ---- sources --------------------------------------------------------------------------------------------------

def test_a_source_below_an_earlier_mount_with_a_user_namespace():
    with Bundle("sh", "-c", "cat /mnt/second/file; stat -c %u /mnt/second/file; touch /mnt/second/own && ls /mnt/first/inner") as c:
        os.makedirs(c.rootfs + "/mnt/first")
        os.makedirs(c.rootfs + "/mnt/second")
        private = b.tmpdir("private", 0o700)
        shutil.move(c.rootfs, private + "/rootfs")
        c.config["root"]["path"] = c.rootfs = private + "/rootfs"
        source = b.tmpdir("source")
        b.write(source + "/inner/file", "seen\n")
        os.chmod(source + "/inner", 0o777)
        c.config["mounts"] += [{"destination": "/mnt/first", "type": "bind", "source": source, "options": ["bind"]},
                               {"destination": "/mnt/second", "type": "bind", "source": c.rootfs + "/mnt/first/inner", "options": ["bind"]}]
        with_userns(c)
        assert c.out().split() == ["seen", "65534", "file", "own"]
        os.unlink(source + "/inner/own")
        # only the runtime may map the ids of what the process opens
        c.config["mounts"][-1]["options"] = ["bind", "idmap"]
        assert c.out().split() == ["seen", "0", "file", "own"]


def test_a_source_below_an_earlier_mount_is_looked_up_in_the_root():
    """A link of the image's leads to a file of the image's, and not of the host's."""
    with Bundle("cat", "/mnt/file") as c:
        b.write(c.rootfs + "/etc/secret", "image\n")
        b.write(c.rootfs + "/mnt/file")
        os.makedirs(c.rootfs + "/mnt/t")
        tmpfs = {"destination": "/mnt/t", "type": "bind", "source": b.tmpdir("source"), "options": ["bind"]}
        os.symlink("/etc/secret", tmpfs["source"] + "/link")
        c.config["mounts"] += [tmpfs, {"destination": "/mnt/file", "type": "bind", "source": c.rootfs + "/mnt/t/link", "options": ["bind"]}]
        with_userns(c)
        assert c.out() == "image\n"


# ---- options --------------------------------------------------------------------------------------------------

def test_options_that_one_string_joins_are_each_one():
    with Bundle(*CAT) as c:
        c.config["mounts"].append({"destination": "/mnt", "type": "tmpfs", "source": "t", "options": ["noexec,size=64k,mode=711"]})
        options, kind = has(c.out(), "/mnt")
        assert kind == "tmpfs" and {"noexec", "size=64k", "mode=711"} <= set(options), options


def layers(count):
    top = b.tmpdir("layers")
    for n in range(count):
        b.write(f"{top}/{'long-' * 12}{n}/file{n}", str(n))
    os.makedirs(top + "/upper")
    os.makedirs(top + "/work")
    return top, ":".join(f"{top}/{'long-' * 12}{n}" for n in range(count))


def test_an_overlays_options_are_taken_in_one_string():
    with Bundle("sh", "-c", "cat /mnt/file0 && touch /mnt/new") as c:
        top, lower = layers(1)
        c.config["mounts"].append({"destination": "/mnt", "type": "overlay", "source": "overlay",
                                   "options": [f"lowerdir={lower},upperdir={top}/upper,workdir={top}/work"]})
        assert c.out() == "0" and os.path.exists(top + "/upper/new")


def test_an_overlay_has_more_layers_than_one_option_takes():
    with Bundle("sh", "-c", "cat /mnt/file0 /mnt/file7") as c:
        _, lower = layers(8)
        assert len(lower) > 255
        c.config["mounts"].append({"destination": "/mnt", "type": "overlay", "source": "overlay", "options": [f"lowerdir={lower}"]})
        r = c.run(ok=None)
        if "lowerdir" in r.err and tuple(map(int, os.uname().release.split(".")[:2])) < (6, 8):
            raise b.skip("this kernel takes layers in one string alone")
        b.expect(r.out == "07", r, "not all layers")


def test_without_relatime_is_the_kernels_default():
    with Bundle(*CAT) as c:
        source = b.tmpdir("source")
        for word in ("norelatime", "rnorelatime"):
            c.config["mounts"].append({"destination": "/mnt/" + word, "type": "bind", "source": source, "options": ["rbind", word]})
        out = c.out()
        for word in ("norelatime", "rnorelatime"):
            assert "relatime" in has(out, "/mnt/" + word)[0], out


def test_an_unknown_option_of_a_cgroup_mount_is_refused():
    with Bundle(*CAT) as c:
        place = next(m for m in c.config["mounts"] if m["type"] == "cgroup")
        place["options"].append("invalid_cgroup_option")
        c.refused("invalid_cgroup_option", "Invalid argument")
        if HYBRID:
            place["type"] = "cgroup2"
        if not any(n["type"] == "cgroup" for n in c.linux["namespaces"]):
            c.linux["namespaces"].append({"type": "cgroup"})
        c.refused("invalid_cgroup_option", "Invalid argument")
        c.linux["namespaces"] = [n for n in c.linux["namespaces"] if n["type"] != "cgroup"]
        c.refused("invalid_cgroup_option", "Invalid argument")
        place["options"].pop()
        assert has(c.out(), place["destination"])[1] in ("cgroup2", "tmpfs")


def test_a_device_of_a_user_namespace_is_no_program():
    with Bundle(*CAT) as c:
        c.linux["devices"] = [{"path": "/dev/own", "type": "c", "major": 1, "minor": 5}]
        with_userns(c)
        out = c.out()
        for name in ("null", "zero", "full", "random", "urandom", "tty", "own"):
            assert {"nosuid", "noexec"} <= set(has(out, "/dev/" + name)[0]), (name, out)
