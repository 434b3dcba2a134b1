# SPDX-License-Identifier: Apache-2.0
"""
The writable layer of a lasting sandbox by project quota, where the file system of the state
directory enforces them: an ext4 of our own on a loop device.
"""
import contextlib
import ctypes
import errno
import json
import os
import subprocess

import berthtest as b

MIB = 1 << 20


@contextlib.contextmanager
def state_on(options, mount_options):
    """An ext4 as the state directory; yields the environment for berth and its path."""
    image, where = b.tmp("fs.img"), b.tmpdir("mnt")
    with open(image, "wb") as f:
        f.truncate(512 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", *options, image], check=True)
    p = subprocess.run(["mount", "-o", ",".join(["loop", *mount_options]), image, where], capture_output=True, text=True)
    if p.returncode:
        raise b.skip("this kernel has no quotas on ext4 (make check-vm boots one that has)")
    state = where + "/state"
    os.mkdir(state, 0o700)
    env = {"BERTH_STATE_DIR": state}
    try:
        yield env, state
    finally:
        for name in b.berth("ps", "-aq", env=env).out.split():
            b.berth("rm", "-f", name, env=env)
        left = os.listdir(state + "/sandboxes") if os.path.isdir(state + "/sandboxes") else []
        subprocess.run(["umount", where], check=True)
        assert not left, left


def can_mount_quotas():
    try:
        with state_on(["-O", "project,quota"], ["prjquota"]):
            pass
    except b.skip:
        return False
    finally:
        subprocess.run(["rm", "-rf", b.tmp("fs.img"), b.tmp("mnt")], check=True)
    return True


@b.deadline(60)
def test_project_quota_bounds_bytes_and_inodes():
    b.busybox_rootfs("img")
    with state_on(["-O", "project,quota"], ["prjquota"]) as (env, state):
        b.berth("image", "import", b.tmp("img"), "img", env=env, ok=True)
        for name, disk, inodes in (("one", "32m", "200"), ("two", "64m", "300")):
            b.berth("create", "--name", name, "--disk", disk, "--disk-inodes", inodes, "img", env=env, ok=True)
        one = os.path.join(state, "sandboxes", json.loads(b.berth("inspect", "one", env=env, ok=True).out)["id"])
        assert os.path.isdir(one + "/writable") and not os.path.exists(one + "/writable.img")
        # df inside is the quota, not the file system
        df = b.berth("exec", "one", "df", "-k", "/", env=env, ok=True).out.splitlines()[-1].split()
        assert int(df[1]) == 32 * 1024, df
        r = b.berth("exec", "--json", "one", "sh", "-c", "head -c 67108864 /dev/zero > /big || exit 7", env=env)
        assert json.loads(r.out)["cause"] == "disk" and r.code == 7, b.describe(r)
        used = os.stat(one + "/writable/upper/big").st_blocks * 512
        assert 28 * MIB <= used <= 32 * MIB, used
        # the other is not touched by it
        b.berth("exec", "two", "sh", "-c", "head -c 41943040 /dev/zero > /big", env=env, ok=True)
        b.berth("exec", "one", "rm", "/big", env=env, ok=True)
        r = b.berth("exec", "one", "sh", "-c", "i=0; while [ $i -lt 400 ]; do touch /f$i || exit 8; i=$((i+1)); done", env=env)
        assert r.code == 8, b.describe(r)
        made = len([n for n in os.listdir(one + "/writable/upper") if n.startswith("f")])
        assert 100 <= made <= 200, made
        # it outlives a stop, and so does its limit
        b.berth("exec", "two", "sh", "-c", "echo kept > /x", env=env, ok=True)
        b.berth("stop", "two", env=env, ok=True)
        b.berth("start", "two", env=env, ok=True)
        assert b.berth("exec", "two", "cat", "/x", env=env, ok=True).out == "kept\n"
        assert b.berth("exec", "two", "sh", "-c", "head -c 41943040 /dev/zero > /more", env=env).code != 0
        b.berth("commit", "two", "new", env=env, ok=True)
        assert b.run("new", "cat", "/x", env=env, ok=True).out == "kept\n"


@b.deadline(60)
def test_the_cause_is_disk():
    b.busybox_rootfs("img")
    with state_on(["-O", "project,quota"], ["prjquota"]) as (env, state):
        b.berth("image", "import", b.tmp("img"), "img", env=env, ok=True)
        r = b.run("--keep", "--name", "k", "--disk", "16m", "img", "sh", "-c", "head -c 40000000 /dev/zero > /big || exit 7",
                  env=env, verdict=True)
        assert r.verdict["cause"] == "disk" and r.verdict["exit_code"] == 7, b.describe(r)
        r = b.run("--keep", "--name", "i", "--disk", "16m", "--disk-inodes", "64", "img", "sh", "-c",
                  "i=0; while [ $i -lt 400 ]; do touch /f$i || exit 8; i=$((i+1)); done", env=env, verdict=True)
        assert r.verdict["cause"] == "disk" and r.verdict["exit_code"] == 8, b.describe(r)


@b.deadline(60)
def test_the_project_cannot_be_left():
    """From inside nobody leaves the project: not by ioctl, not by a rename, not by a link."""
    python = b"import fcntl,os,struct,sys\nfd=os.open('/d',0)\nx=bytearray(fcntl.ioctl(fd,0x801c581f,bytes(28)))\nx[12:16]=struct.pack('I',0)\ntry:\n fcntl.ioctl(fd,0x401c5820,bytes(x))\n print('left')\nexcept OSError as e:\n print('refused',e.errno)\n"
    with state_on(["-O", "project,quota"], ["prjquota"]) as (env, state):
        b.berth("create", "--name", "h", "--disk", "16m", "host", env=env, ok=True)
        r = b.berth("exec", "h", "sh", "-c", "mkdir /d; exec python3 -", input=python, env=env)
        if r.code == 127:
            raise b.skip("the host has no python3 in /usr/bin")
        assert r.out.startswith("refused"), b.describe(r)


@b.deadline(60)
def test_without_enforcement_a_file_bounds_it():
    b.busybox_rootfs("img")
    # counted but not enforced: as good as none; the second is what most machines have
    quotas = can_mount_quotas()
    for options, mounted in ([(["-O", "project,quota"], [])] if quotas else []) + [([], [])]:
        with state_on(options, mounted) as (env, state):
            if "prjquota" in subprocess.run(["grep", b.tmp("mnt"), "/proc/self/mounts"], capture_output=True, text=True).stdout:
                continue    # a kernel that enforces without being asked
            b.berth("image", "import", b.tmp("img"), "img", env=env, ok=True)
            b.berth("create", "--name", "one", "--disk", "16m", "img", env=env, ok=True)
            one = os.path.join(state, "sandboxes", json.loads(b.berth("inspect", "one", env=env, ok=True).out)["id"])
            assert os.path.exists(one + "/writable.img") and not os.path.exists(one + "/writable")
            assert b.berth("exec", "one", "sh", "-c", "head -c 41943040 /dev/zero > /big", env=env).code != 0
        subprocess.run(["rm", "-rf", b.tmp("fs.img"), b.tmp("mnt")], check=True)


def quotactl_is_there():
    """quotactl_fd(2) with an invalid descriptor: the call itself answers EBADF."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(443, -1, 0x5808 << 8 | 2, 0, None)
    return ctypes.get_errno() != errno.ENOSYS


def test_doctor_tells_a_file_system_without_quotas_from_a_kernel_without_the_call():
    if not quotactl_is_there():
        raise b.skip("this kernel has no quotactl_fd(2)")
    where = b.tmpdir("tmpfs")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", where], check=True)
    try:
        for env in ({}, {"BERTH_STATE_DIR": where}):
            found = json.loads(b.berth("doctor", "--json", env=env).out)["findings"]
            quota, = (f for f in found if f["what"] == "project quota")
            assert "quotactl_fd(2) is not there" not in quota["detail"], quota
        assert "the file system keeps no project quotas; hint: " in quota["detail"], quota
    finally:
        subprocess.run(["umount", where], check=True)


def test_a_full_disk_is_the_reason_why_a_working_directory_cannot_be_made():
    box = b.berth("create", "--disk", "16m", "host", ok=True).out.strip()
    b.berth("exec", "--workdir", "/", box, "sh", "-c", "head -c 30000000 /dev/zero > /root/f; while echo x > /root/g$((i=i+1)); do :; done; exit 0", ok=True)
    b.one_line_error(b.berth("exec", box, "true"), 125, "make working directory '/workspace'", "No space left on device", "--workdir /")
    b.berth("exec", "--workdir", "/", box, "sh", "-c", "rm /root/*", ok=True)
    b.berth("exec", box, "true", ok=True)
    b.berth("rm", "-f", box, ok=True)
