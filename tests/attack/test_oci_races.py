# SPDX-License-Identifier: Apache-2.0
"""
S25: berth-oci sets a container up in a tree that another changes meanwhile: two containers with one root, or with one
volume, and a hostile one among them (CVE-2025-31133, CVE-2025-52565, CVE-2025-52881 and their kin).

Some of these tests change the tree at one exact moment, from a hook; the others as fast as they can.
"""
import ctypes
import json
import os
import subprocess
import sys
import threading

import berthtest as b

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from test_oci import SLEEP, Bundle      # noqa: E402

ROUNDS = 25
libc = ctypes.CDLL(None, use_errno=True)


def exchange(one, other):
    """renameat2(2), RENAME_EXCHANGE: each name has what the other had, at once."""
    if libc.renameat2(-100, one.encode(), -100, other.encode(), 2) < 0:
        raise OSError(ctypes.get_errno(), "renameat2")


class Swapping(threading.Thread):
    """Exchanges pairs of names until it is left."""

    def __init__(self, *pairs):
        super().__init__(daemon=True)
        self.pairs, self.over, self.count = pairs, False, 0

    def run(self):
        while not self.over:
            for one, other in self.pairs:
                exchange(one, other)
                self.count += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.over = True
        self.join()
        assert self.count > 0


def before_the_root_is_entered(c, command):
    c.config["hooks"] = {"createRuntime": [{"path": "/bin/sh", "args": ["sh", "-ec", command]}]}


def test_masks_follow_the_procfs_that_another_has_renamed():
    """The place of /proc gets another name between the mount and the masks: what is masked is that procfs all the same."""
    ask = "stat -c %t:%T /moved/keys; stat -f -c %T /moved/acpi; echo changed > /moved/sys/kernel/domainname; cat /moved/sys/kernel/domainname"
    for top in ("/proc", "//proc", "/./proc", "/proc/."):
        with Bundle("sh", "-c", ask) as c:
            for m in c.config["mounts"]:
                m["destination"] = top if m["destination"] == "/proc" else m["destination"]
            c.config["domainname"] = "before"
            c.linux["maskedPaths"] = [p.replace("/proc", top, 1) for p in [*c.linux["maskedPaths"], "/proc/keys"]]
            c.linux["readonlyPaths"] = [p.replace("/proc", top, 1) for p in c.linux["readonlyPaths"]]
            before_the_root_is_entered(c, f"mv {c.rootfs}/proc {c.rootfs}/moved; mkdir -p {c.rootfs}/proc")
            r = c.run()
            said = r.out.split()
            assert said[0] == "1:3" and said[-1] == "before" and "changed" not in said, (top, r)


def test_what_is_written_to_proc_never_goes_to_another_tree():
    """CVE-2025-52881: sysctls are the kernel's, not those of a file that lies where /proc was."""
    victim = b.write(b.tmp("victim"), "mine\n")
    with Bundle("cat", "/moved/sys/net/ipv4/ip_forward", "/moved/sys/kernel/domainname") as c:
        c.linux["sysctl"] = {"net.ipv4.ip_forward": "1", "kernel.domainname": "here"}
        fake = c.rootfs + "/proc"
        before_the_root_is_entered(c, f"mv {fake} {c.rootfs}/moved; mkdir -p {fake}/sys/net/ipv4 {fake}/sys/kernel {fake}/self/attr; "
                                      f"ln -s {victim} {fake}/sys/net/ipv4/ip_forward; ln -s {victim} {fake}/sys/kernel/domainname; "
                                      f"ln -s {victim} {fake}/self/attr/exec; ln -s {victim} {fake}/self/oom_score_adj")
        assert c.out() == "1\nhere\n"
    with open(victim) as f:
        assert f.read() == "mine\n"


def test_a_mask_does_not_give_the_hosts_null_device_away():
    """The container's root is the host's here: by a masked file it must not change what all processes of the host write to."""
    null = b.tmp("null")
    os.mknod(null, 0o666 | 0o020000, os.makedev(1, 3))
    os.chmod(null, 0o666)
    subprocess.run(["mount", "--bind", null, "/dev/null"], check=True)      # of this test's own mount namespace
    try:
        before = os.stat(null)
        with Bundle("sh", "-c", "chmod 0 /proc/keys; chown 7:7 /proc/keys; touch -d 1990-01-01 /proc/keys; echo x > /proc/keys && cat /proc/keys; "
                                "stat -c %t:%T /proc/keys") as c:
            os.symlink("busybox", c.rootfs + "/bin/chown")
            c.linux["maskedPaths"].append("/proc/keys")
            for which in ("bounding", "permitted", "effective"):
                c.process["capabilities"][which] += ["CAP_FOWNER", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID"]
            r = c.run()
            assert r.out == "1:3\n", r
        after = os.stat(null)
        assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid), oct(after.st_mode)
        assert int(after.st_mtime) >= int(before.st_mtime)
    finally:
        subprocess.run(["umount", "/dev/null"], check=True)


def test_a_file_of_the_image_is_no_null_device():
    """CVE-2025-31133: /dev/null of the root is a link, or a file; what masks is the null device."""
    victim = b.write(b.tmp("victim"), "mine\n")
    for make in (lambda path: os.symlink(victim, path), lambda path: b.write(path, "of the image\n"),
                 lambda path: os.symlink("/proc/sys/kernel/core_pattern", path)):
        with Bundle("sh", "-c", "stat -c %t:%T /proc/keys; cat /proc/keys; echo x > /proc/keys") as c:
            c.config["mounts"] = [m for m in c.config["mounts"] if not m["destination"].startswith("/dev")]
            c.linux["maskedPaths"].append("/proc/keys")
            make(c.rootfs + "/dev/null")
            assert c.out() == "1:3\n"
    with open(victim) as f:
        assert f.read() == "mine\n"


# whatever is a procfs here, and wherever: its mask, and whether it can be written to
LOOK = ("for d in /proc /decoy /dev /other; do [ -e $d/uptime ] && [ -e $d/keys ] && stat -c %t:%T $d/keys; "
        "[ -e $d/uptime ] && echo x > $d/sys/kernel/domainname; done 2> /dev/null; echo end")


def test_no_exchange_of_directories_while_it_is_made_opens_a_masked_file():
    victim = b.tmpdir("victim")
    b.write(victim + "/file", "mine")
    before, ran = b.seal(victim), 0
    with Bundle("sh", "-c", LOOK) as c:
        c.linux["maskedPaths"].append("/proc/keys")
        os.symlink(victim, c.rootfs + "/decoy")
        os.symlink("/proc", c.rootfs + "/other")
        with Swapping((c.rootfs + "/proc", c.rootfs + "/decoy"), (c.rootfs + "/dev", c.rootfs + "/other")):
            for _ in range(ROUNDS):
                r = c.run(ok=None)
                ran += r.code == 0
                for line in r.out.splitlines():
                    assert line in ("1:3", "end"), r
                c.call("delete", "--force", c.id)
        assert b.seal(victim) == before
        assert not os.path.exists(c.rootfs + "/file")
    print(f"{ran} of {ROUNDS} ran")


def test_the_terminal_is_mounted_on_no_other_file():
    """CVE-2025-52565: /dev/console is exchanged with links to the host's and to the kernel's files."""
    victim = b.write(b.tmp("victim"), "mine\n")
    with Bundle("cat", "/proc/self/mountinfo") as c:
        c.config["mounts"] = [m for m in c.config["mounts"] if m["destination"] not in ("/dev", "/dev/mqueue", "/dev/shm")]
        c.process["terminal"] = True
        console = c.rootfs + "/dev/console"
        b.write(console)
        os.symlink("/proc/sys/kernel/core_pattern", c.rootfs + "/dev/a")
        os.symlink(victim, c.rootfs + "/dev/b")
        os.makedirs(c.rootfs + "/dev/pts")
        with Swapping((console, c.rootfs + "/dev/a"), (console, c.rootfs + "/dev/b")):
            for _ in range(ROUNDS):
                r = c.run(ok=None)
                points = [line.split()[4] for line in r.out.splitlines() if " devpts " in line]
                # on the name, or on what that name was a moment later: within /dev, on nothing that a link leads to
                assert all(p.startswith("/dev/") for p in points), r
                c.call("delete", "--force", c.id)
    with open(victim) as f:
        assert f.read() == "mine\n"


def test_two_containers_that_share_a_volume_cannot_move_each_others_mounts_out():
    """One exchanges directories of the volume with links while the other is made with mounts in it."""
    volume, victim = b.tmpdir("volume"), b.tmpdir("victim")
    os.makedirs(volume + "/deep/x")
    b.write(volume + "/deep/file")
    before = b.seal(victim)
    with open("/proc/self/mountinfo") as f:
        mounts = f.read()
    share = {"destination": "/data", "type": "bind", "source": volume, "options": ["rbind", "rw"]}
    swap = ("sh", "-c", "cd /data; n=0; while :; do for to in ../../../proc/sys /proc/self ../../../../.." + victim + "; do "
            "mv deep kept && ln -s $to deep; rm deep; mv kept deep; n=$((n + 1)); done; echo $n > count; done")
    with Bundle(*swap) as one, Bundle("cat", "/proc/self/mountinfo") as other:
        for c in (one, other):
            c.config["mounts"].append(dict(share))
            for name in ("mv", "ln"):
                os.symlink("busybox", f"{c.rootfs}/bin/{name}")
        other.id += "b"
        other.config["mounts"] += [
            {"destination": "/data/deep/x", "type": "tmpfs", "source": "swapped", "options": ["size=4k"]},
            {"destination": "/data/deep/new/er", "type": "tmpfs", "source": "swapped", "options": ["size=4k"]},
            {"destination": "/data/deep/file", "type": "bind", "source": b.write(b.tmp("bound")), "options": ["bind"]}]
        one.detached()
        b.wait_for(lambda: os.path.exists(volume + "/count"), what="the other container")
        for _ in range(ROUNDS):
            r = other.run(ok=None)
            for line in r.out.splitlines():
                if " swapped " in line:
                    assert not line.split()[4].startswith(("/proc", "/sys")), r
            other.call("delete", "--force", other.id)
        assert json.loads(one.call("state", one.id).out)["status"] == "running"
    with open("/proc/self/mountinfo") as f:
        assert f.read() == mounts
    assert b.seal(victim) == before


def test_the_root_of_a_running_container_may_be_another_ones_too():
    """One root, two containers: the first exchanges /proc of it while the second is made."""
    with Bundle(*SLEEP) as one:
        one.detached()
        with Bundle("sh", "-c", LOOK) as two:
            two.id += "b"
            two.config["root"]["path"] = one.rootfs
            two.linux["maskedPaths"].append("/proc/keys")
            os.makedirs(one.rootfs + "/decoy")
            with Swapping((one.rootfs + "/proc", one.rootfs + "/decoy")):
                for _ in range(ROUNDS):
                    r = two.run(ok=None)
                    assert set(r.out.split()) <= {"1:3", "end"}, r
                    two.call("delete", "--force", two.id)
        # the first one's own /proc went where its place went, with its masks
        assert one.call("exec", one.id, "sh", "-c", LOOK, ok=None).out.split()[-1:] == ["end"]
