# SPDX-License-Identifier: Apache-2.0
"""
E05 S2.  A volume full of links, FIFOs and devices, and an image that has them where a volume is seeded: nothing is followed, opened
or waited for, on the host or in another sandbox.
"""
import json
import os
import stat
import subprocess

import berthtest as b

TRAP = """
cd /v
ln -s /etc etc; ln -s /proc/self/fd fds; ln -s / root; ln -s ../../../../../../etc/shadow up; ln -s loop loop
ln -s %s/victim/secret named
mkfifo fifo; mknod null c 1 3 2>/dev/null; mkdir -p dir/sub; ln -s ../.. dir/sub/out; mkfifo dir/fifo
i=0; d=dir; while [ $i -lt 200 ]; do d=$d/d; mkdir $d; i=$((i+1)); done
chmod 0 dir/fifo; touch -- -rf '*'
"""


def trap():
    victim = b.victim()
    b.busybox_rootfs("trapfs")
    b.run("-v", "trap:/v", b.tmp("trapfs"), "sh", "-c", TRAP % b.tmp(""), ok=True)
    return victim


@b.deadline(60)
def test_a_volume_of_links_and_fifos_is_shown_used_and_removed():
    victim = trap()
    before = b.seal(victim)
    assert b.berth("volume", "ls", "-q", ok=True).out == "trap\n"
    assert json.loads(b.berth("volume", "inspect", "--json", "trap", ok=True).out)["used_by"] == []
    r = b.run("-v", "trap:/v", b.tmp("trapfs"), "sh", "-c", "readlink /v/named; cat /v/etc/hostname; ls /v/root; test -p /v/fifo",
              ok=True)
    assert "victim/secret" in r.out and "trapfs" not in r.out.split(), b.describe(r)
    # a second time: it is not empty, and what is in it is not looked at
    b.run("-v", "trap:/v", "-v", "trap:/w:ro", b.tmp("trapfs"), "true", ok=True)
    b.berth("gc", ok=True)
    b.berth("volume", "rm", "trap", ok=True)
    assert b.seal(victim) == before, "the host's files changed"


@b.deadline(60)
def test_seeding_from_a_hostile_image_follows_and_opens_nothing():
    victim = b.victim()
    top = b.busybox_rootfs("hostile")
    data = top + "/data"
    os.makedirs(data + "/dir")
    os.symlink(victim, data + "/victim")
    os.symlink("/proc/self/fd", data + "/fds")
    os.symlink("/etc/shadow", data + "/dir/shadow")
    os.mkfifo(data + "/fifo")
    os.mknod(data + "/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(data + "/whiteout", stat.S_IFCHR, os.makedev(0, 0))
    os.mknod(data + "/block", stat.S_IFBLK | 0o666, os.makedev(7, 0))
    b.write(data + "/file", "x")
    os.setxattr(data + "/file", "user.mine", b"kept")
    before = b.seal(victim)
    r = b.run("-v", "v:/data", top, "sh", "-c", "ls -A /data | tr '\\n' ' '; readlink /data/victim; readlink /data/dir/shadow; [ -p /data/fifo ]",
              ok=True)
    assert r.out.startswith("dir fds fifo file victim ") and r.out.endswith("/victim\n/etc/shadow\n"), b.describe(r)
    assert b.seal(victim) == before, "the host's files changed"
    b.berth("volume", "rm", "v", ok=True)


@b.deadline(60)
def test_the_place_in_the_image_is_resolved_in_the_image():
    victim = b.victim()
    top = b.busybox_rootfs("links")
    os.symlink(victim, top + "/direct")
    os.symlink("../../../../../../../../../.." + victim, top + "/up")
    os.symlink("/proc/self/root" + victim, top + "/magic")
    os.symlink("loop", top + "/loop")
    os.mkfifo(top + "/fifo")
    b.write(top + "/file", "x")
    for place in ("direct", "up", "magic", "loop", "fifo", "file"):
        # the volume may be refused there, but never shows what the host has
        r = b.run("-v", f"v:/{place}", top, "sh", "-c", f"ls -A /{place}", timeout=20)
        b.expect(r.out == "", r, f"/{place} shows something")
        volume = os.path.join(b.root(), "state/volumes/v")
        assert not os.path.exists(volume + "/seeding")
        b.run("-v", "v:/look", top, "sh", "-c", "[ -z \"$(ls -A /look)\" ]", ok=True)
    b.berth("volume", "rm", "v", ok=True)


@b.deadline(60)
def test_devices_and_set_id_programs_in_a_volume_are_dead():
    volume = os.path.join(b.root(), "state/volumes/v")
    b.berth("volume", "create", "--size", "16m", "v", ok=True)
    mnt = b.tmpdir("mnt")
    # by the host's root, as the worst that could be in one
    p = subprocess.run(["mount", "-o", "loop", volume + "/image", mnt], capture_output=True, text=True, check=False)
    if p.returncode:
        raise b.skip("no loop device can be mounted here")
    try:
        os.mknod(mnt + "/zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        subprocess.run(["cp", "/bin/busybox", mnt + "/busybox"], check=True)
        os.chmod(mnt + "/busybox", 0o4755)
    finally:
        subprocess.run(["umount", mnt], check=True)
    r = b.run("-v", "v:/v", "--user", "1000", b.busybox_rootfs("bb"), "sh", "-c", "head -c 1 /v/zero; /v/busybox id -u")
    assert r.out == "1000\n" and "Permission denied" in r.err, b.describe(r)
    b.berth("volume", "rm", "v", ok=True)


@b.deadline(60)
def test_a_member_cannot_take_the_mount_away_from_others():
    """It removes, renames and covers what it can; the other sees the same volume, and the host's directory is whole."""
    top = b.busybox_rootfs("members")
    for name in ("bad", "good"):
        b.berth("create", "--name", name, "-v", "v:/v", top, ok=True)
    b.berth("exec", "good", "sh", "-c", "echo mine > /v/mine", ok=True)
    r = b.berth("exec", "bad", "sh", "-c", "umount /v; umount -l /v; rmdir /v; mv /v /w; mount -t tmpfs none /v; chmod 0 /v; ls /v")
    assert "mine" in r.out, b.describe(r)
    assert b.berth("exec", "good", "cat", "/v/mine", ok=True).out == "mine\n"
    # replaced by a link while it is stopped: the next start does not follow it to the host
    b.berth("stop", "bad", ok=True)
    b.berth("start", "bad", ok=True)
    assert b.berth("exec", "bad", "cat", "/v/mine", ok=True).out == "mine\n"
    b.berth("rm", "-f", "bad", "good", ok=True)
    b.berth("volume", "rm", "v", ok=True)


@b.deadline(60)
def test_sub_follows_no_link_and_opens_no_fifo():
    trap()
    for sub in ("etc", "fds", "root", "root/etc", "named", "up", "loop", "fifo", "dir/fifo", "dir/sub/out", "etc/ssl"):
        r = b.run("-v", f"trap:/v:sub={sub}", b.tmp("trapfs"), "ls", "-A", "/v", timeout=20)
        b.expect(r.code != 0 and r.out == "", r, sub)
    b.run("-v", "trap:/v:sub=dir/sub", b.tmp("trapfs"), "readlink", "/v/out", ok=True)
    b.berth("volume", "rm", "trap", ok=True)


@b.deadline(60)
def test_a_member_that_exchanges_the_directory_of_sub_gets_nothing_of_the_host():
    top = b.busybox_rootfs("swapfs")
    b.berth("create", "--name", "bad", "-v", "v:/v", top, ok=True)
    b.berth("exec", "bad", "sh", "-c", "mkdir -p /v/d/e /v/away; echo mine > /v/d/e/mine", ok=True)
    b.berth("exec", "-d", "bad", "sh", "-c",
            "cd /v; while :; do mv d x; ln -s / d; rm d; mv x d; mv d/e away/e; mv away/e d/e; done", ok=True)
    for _ in range(25):
        r = b.run("-v", "v:/y:sub=d/e", top, "ls", "-A", "/y")
        b.expect(r.out in ("", "mine\n"), r, "something else is shown")
    b.berth("rm", "-f", "bad", ok=True)
    b.berth("volume", "rm", "v", ok=True)
