# SPDX-License-Identifier: Apache-2.0
"""
--io-weight and --io-rate: on a disk of the test's own, a loop device, by what the cgroup counts of it.

Attacks S8 of SECURITY.md.
"""
import contextlib
import json
import os
import re
import struct
import subprocess
import time

import berthtest as b
from box import Box
from dockerdoor import Doors, door

COST = 15

V2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
# what may pass in the slice of time in which a throttle begins, on top of the rate
BURST = 512 << 10
RATE = 256 << 10
FILE = 64 << 20


class Disk:
    """An ext4 file system of its own, mounted at self.top; self.number is "7:0", self.device its node."""

    def __enter__(self):
        image = b.tmp("disk.img")
        with open(image, "wb") as f:
            f.truncate(FILE * 2)
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
        self.top = b.tmpdir("disk")
        self.device = subprocess.run(["losetup", "--find", "--show", "--direct-io=off", image], check=True, stdout=subprocess.PIPE,
                                     text=True).stdout.strip()
        subprocess.run(["mount", self.device, self.top], check=True)
        st = os.stat(self.device)
        self.number = f"{os.major(st.st_rdev)}:{os.minor(st.st_rdev)}"
        self.scheduler = f"/sys/dev/block/{self.number}/queue/scheduler"
        return self

    def __exit__(self, *_):
        # a loop device keeps its scheduler, and BFQ makes its next user wait for 8 ms at a time
        with open(self.scheduler, "w") as f:
            f.write("none")
        subprocess.run(["umount", self.top], check=True)
        subprocess.run(["losetup", "--detach", self.device], check=True)

    def fill(self):
        with open(self.top + "/big", "wb") as f:
            f.write(b"x" * FILE)
            os.fsync(f.fileno())
        return self

    def weighs(self):
        """Gives the disk a scheduler that knows weights."""
        for path, text in ((self.scheduler, "bfq"), ("/sys/fs/cgroup/io.cost.qos", f"{self.number} enable=1")):
            with contextlib.suppress(OSError):
                with open(path, "w") as f:
                    f.write(text)
                return
        raise b.skip("this kernel has neither BFQ nor a cost model")


def cgroup(id):
    return f"/sys/fs/cgroup/{'' if V2 else 'blkio/'}{b.cgroup_parent_of(b.TEST_PID)}/{id}"


def said(id, file):
    with open(f"{cgroup(id)}/{file}") as f:
        return f.read()


def counted(id, disk, what):
    """Bytes that its cgroup was served of that disk: "read" or "write"."""
    if V2:
        found = re.search(rf"^{disk.number} .*{what[0]}bytes=(\d+)", said(id, "io.stat"), re.M)
    else:
        found = re.search(rf"^{disk.number} {what.title()} (\d+)", said(id, "blkio.throttle.io_service_bytes_recursive"), re.M)
    return int(found.group(1)) if found else 0


def need_v2():
    if not V2:
        raise b.skip("needs cgroup v2 alone (make check-vm)")


READ = "while dd if=/disk/big of=/dev/null bs=64k iflag=direct 2>/dev/null; do :; done"


def test_a_rate_of_reading_holds_and_changes_while_it_runs():
    with Disk() as disk, Box("--volume", f"{disk.fill().top}:/disk", "--io-rate", f"{disk.top}:read=256k,read-iops=5000") as x:
        began = time.monotonic()
        x.main.detach("sh", "-c", READ)
        b.wait_for(lambda: counted(x.id, disk, "read") > 2 * BURST, 30, "the first bytes")
        read, took = counted(x.id, disk, "read"), time.monotonic() - began
        assert read <= RATE * took + BURST, (read, took)
        stats = json.loads(b.berth("stats", "--json", "--no-stream", x.id, ok=True).out)
        assert stats["io_rates"] == [f"{disk.number} rbps={RATE} wbps=max riops=5000 wiops=max"], stats
        # at the old rate this would take 2 hours
        b.berth("update", "--io-rate", f"{disk.device}:unlimited", x.id, ok=True)
        b.wait_for(lambda: counted(x.id, disk, "read") - read > 32 << 20, 30, "bytes without a rate")
        b.berth("update", "--io-rate", f"{disk.top}:read-iops=4", x.id, ok=True)

        def eight_operations_are_slow():
            before, began = counted(x.id, disk, "read"), time.monotonic()
            b.wait_for(lambda: counted(x.id, disk, "read") - before >= 8 * 64 << 10, 60, "eight operations")
            return (counted(x.id, disk, "read") - before) >> 16 <= 4 * (time.monotonic() - began) + 4
        # Linux 6.1 carries over what the old rate would have allowed (blk-throttle.c, tg_update_carryover())
        b.wait_for(eight_operations_are_slow, 60, "eight operations at the new rate")


def test_a_rate_holds_for_run_and_for_the_next_start():
    with Disk() as disk:
        disk.fill()
        began = time.monotonic()
        r = b.run("--volume", f"{disk.top}:/disk", "--io-rate", f"{disk.device}:read=256k", "--timeout", "3", "--grace", "0",
                  "host", "sh", "-c", READ, verdict=True, ok=124)
        took = time.monotonic() - began
        b.expect(0 < r.verdict["read_bytes"] <= RATE * took + BURST, r, f"read more than the rate allows in {took} s")
        with Box("--io-rate", f"{disk.device}:read=1m", "--name", "x") as x:
            b.berth("update", "--io-rate", f"{disk.device}:read=2m", "x", ok=True)
            assert json.loads(b.berth("inspect", "x", ok=True).out)["limits"]["io_rates"] == [f"{disk.device}:read=2m"]
            b.berth("restart", "x", ok=True)
            held = said(x.id, "io.max") if V2 else said(x.id, "blkio.throttle.read_bps_device")
            assert f"{disk.number} " in held and str(2 << 20) in held, held


def test_a_rate_of_writing_holds_also_for_what_the_page_cache_takes():
    need_v2()
    with Disk() as disk, Box("--volume", f"{disk.top}:/disk:rw", "--io-rate", f"{disk.top}:write=256k") as x:
        os.chmod(disk.top, 0o777)
        began = time.monotonic()
        x.main.detach("sh", "-c", "head -c 16777216 /dev/zero | dd of=/disk/new bs=64k conv=fsync")
        b.wait_for(lambda: counted(x.id, disk, "write") > 2 * BURST, 60, "the first bytes")
        written, took = counted(x.id, disk, "write"), time.monotonic() - began
        assert written <= RATE * took + BURST, (written, took)
        b.berth("update", "--io-rate", f"{disk.top}:unlimited", x.id, ok=True)
        b.wait_for(lambda: counted(x.id, disk, "write") >= 16 << 20, 60, "the rest")


def test_a_weight_is_set_where_the_disk_has_a_scheduler_for_it():
    with Disk() as disk:
        for part in ("state", "run"):
            os.mkdir(f"{disk.top}/{part}", 0o700)
        env = {"BERTH_STATE_DIR": disk.top + "/state"}
        with open(disk.scheduler, "w") as f:
            f.write("none")
        b.one_line_error(b.run("--io-weight", "300", "host", "true", env=env), 125, "no weight", "bfq")
        disk.weighs()
        with Box("--io-weight", "300", "--name", "x", env=env) as x:
            wanted = ({"io.weight": "default 300", "io.bfq.weight": "default 118"} if V2 else {"blkio.bfq.weight": "118"})
            there = {k: v for k, v in wanted.items() if os.path.exists(f"{cgroup(x.id)}/{k}")}
            assert there and all(said(x.id, k).splitlines()[0] == v for k, v in there.items()), there
            b.berth("update", "--io-weight", "50", "x", ok=True, env=env)
            assert all(said(x.id, k).split()[-1] == "50" for k in there), there
            assert json.loads(b.berth("inspect", "x", ok=True, env=env).out)["limits"]["io_weight"] == 50
            assert json.loads(b.berth("stats", "--json", "--no-stream", "x", ok=True, env=env).out)["io_weight"] == 50


def test_dockers_flags_are_the_same_limits():
    with Disk() as disk:
        os.mkdir(f"{disk.top}/state", 0o700)
        env = {"BERTH_STATE_DIR": disk.top + "/state"}
        disk.weighs()
        with Doors():
            door("run", "-d", "--name", "slow", "--network", "none", "--device-read-bps", f"{disk.device}:1mb", "--device-read-iops",
                 f"{disk.device}:500", "host", "sleep", "1000", ok=True)
            id = json.loads(b.berth("inspect", "slow", ok=True).out)["id"]
            if V2:
                assert f"{disk.number} rbps=1048576 wbps=max riops=500 wiops=max" in said(id, "io.max"), said(id, "io.max")
            else:
                assert f"{disk.number} 1048576" in said(id, "blkio.throttle.read_bps_device")
                assert f"{disk.number} 500" in said(id, "blkio.throttle.read_iops_device")
            told = json.loads(door("inspect", "slow", ok=True).stdout)[0]["HostConfig"]
            assert told["BlkioDeviceReadBps"] == [{"Path": disk.device, "Rate": 1048576}], told
            for bad in ("sda:1mb", "/dev/sda", "/dev/sda:fast", "/dev/sda:0"):
                assert "rate" in door("run", "--device-read-bps", bad, "host", "true", ok=125).stderr
            assert "10 to 1000" in door("run", "--blkio-weight", "5", "host", "true", ok=125).stderr
        try:
            door("run", "-d", "--name", "light", "--network", "none", "--blkio-weight", "300", "host", "sleep", "1000", ok=True, env=env)
            id = json.loads(b.berth("inspect", "light", ok=True, env=env).out)["id"]
            wanted = {"io.weight": "default 2930", "io.bfq.weight": "default 357"} if V2 else {"blkio.bfq.weight": "357"}
            there = {k: v for k, v in wanted.items() if os.path.exists(f"{cgroup(id)}/{k}")}
            assert there and all(said(id, k).splitlines()[0] == v for k, v in there.items()), there
            door("update", "--blkio-weight", "10", "light", ok=True, env=env)
            assert all(said(id, k).split()[-1] == "1" for k in there), there
        finally:
            door("rm", "-f", "light", env=env)


def test_what_cannot_be_enforced_is_refused():
    with Disk() as disk:
        for rate, code, words in ((f"{disk.top}", 2, ["rate"]), (f"{disk.top}:read=1", 2, ["1024"]), (f"{disk.top}:speed=1m", 2, ["speed"]),
                                  (f"{disk.top}:read=1m,read=2m", 2, ["read=2m"]), (f"{disk.top}:", 2, ["rate"]), ("disk:read=1m", 2, ["disk"]),
                                  (f"{disk.top}:read-iops=0", 2, ["0"]), ("/dev/null:read=1m", 2, ["block device"]),
                                  ("/dev/shm:read=1m", 125, ["no disk", "hint"]), ("/nowhere:read=1m", 125, ["/nowhere"])):
            b.one_line_error(b.run("--io-rate", rate, "host", "true"), code, *words)
        with Box("--name", "x"):
            b.one_line_error(b.berth("update", "--io-rate", "/dev/shm:read=1m", "x"), 125, "no disk")
            assert json.loads(b.berth("inspect", "x", ok=True).out)["limits"]["io_rates"] == []
        if not V2:
            b.one_line_error(b.run("--io-rate", f"{disk.top}:write=1m", "host", "true"), 125, "v1", "hint")
            with Box("--name", "x", "--io-rate", f"{disk.top}:read=1m") as x:
                b.one_line_error(b.berth("update", "--io-rate", f"{disk.device}:read=2m,write=1m", "x"), 125, "v1")
                assert said(x.id, "blkio.throttle.read_bps_device").split() == [disk.number, str(1 << 20)], "not taken back"


def test_a_partition_stands_for_its_disk():
    """The kernel bounds whole disks alone."""
    image = b.tmp("parts.img")
    with open(image, "wb") as f:
        # one partition of Linux in a table of DOS
        f.write(bytes(446) + struct.pack("<B3xB3xII", 0, 0x83, 2048, 16384) + bytes(48) + b"\x55\xaa")
        f.truncate(16 << 20)
    device = subprocess.run(["losetup", "--find", "--show", "--partscan", image], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    try:
        name = os.path.basename(device)
        part = f"/sys/block/{name}/{name}p1/dev"
        if not os.path.exists(part):
            raise b.skip("no partitions of loop devices here")
        with open(part) as f:
            major, minor = map(int, f.read().split(":"))
        node = b.tmp("part")
        os.mknod(node, 0o600 | 0o060000, os.makedev(major, minor))
        r = b.run("--io-rate", f"{node}:read=1m", "--dry-run", "--json", "host", "true", ok=True)
        with open(f"/sys/block/{name}/dev") as f:
            assert json.loads(r.out)["io_rates"][0].startswith(f.read().strip() + " "), r.out
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
