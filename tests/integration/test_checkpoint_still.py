# SPDX-License-Identifier: Apache-2.0
"""A layer without a journal is cloned while nobody is at work in it: each checkpoint is a whole file system."""
import contextlib
import json
import os
import subprocess

import berthtest as b
from proc import children
from test_checkpoint import checkpoint, xfs


CHURN = """
import os, sys
top, i = "/p" + sys.argv[1], 0
os.mkdir(top)
while True:
    i += 1
    d, f = f"{top}/{i % 50}", f"f{i % 7}"
    os.makedirs(d, exist_ok=True)
    with open(f"{d}/{f}", "w") as out:
        out.write("x" * (i * 977 % 90000))
    if i % 3 == 0:
        os.rename(f"{d}/{f}", f"{top}/g{i % 11}")
    elif i % 5 == 0:
        os.truncate(f"{d}/{f}", 5000)
    if i % 10 == 0:
        for name in os.listdir(d):
            os.unlink(f"{d}/{name}")
"""


def states(pid):
    """Of all processes below it: the letters of proc(5)."""
    found = []
    for child in children(pid):
        with contextlib.suppress(OSError), open(f"/proc/{child}/stat") as f:
            found.append(f.read().rsplit(")", 1)[1].split()[0])
        found += states(child)
    return found


@b.deadline(240)
def test_a_checkpoint_under_a_writer_that_syncs_is_a_whole_file_system():
    with xfs() as (env, where):
        b.berth("create", "--name", "x", "host", env=env, ok=True)
        b.berth("exec", "--detach", "x", "sh", "-c", "i=0; while :; do i=$((i+1)); "
                "head -c $((4000+i%40*4096)) /dev/zero > /w$((i%9)); sync /w$((i%9)); "
                "mkdir -p /d$((i%5))/$i; done", env=env, ok=True)
        box = json.loads(b.berth("inspect", "x", env=env, ok=True).out)["id"]
        for _ in range(b.times(12, 100)):
            made = checkpoint("x", "--keep", "2", env=env)
            file = f"{where}/state/sandboxes/{box}/checkpoints/{made['checkpoint']}.img"
            # the image as it is: it has no journal that a mount could replay
            p = subprocess.run(["e2fsck", "-fn", file], capture_output=True, text=True)
            assert p.returncode == 0 and made["shared"], (made, p)


@contextlib.contextmanager
def frozen_disk():
    """A file system of the host, at a path, on which a writer sleeps in the kernel."""
    image, where = b.tmp("disk.img"), b.tmpdir("disk")
    subprocess.run(["truncate", "-s", "16m", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, where], check=True)
    try:
        os.chmod(where, 0o777)
        subprocess.run(["fsfreeze", "-f", where], check=True)
        yield where
    finally:
        subprocess.run(["fsfreeze", "-u", where], check=True)
        b.wait_for(lambda: subprocess.run(["umount", where], capture_output=True).returncode == 0, 30, "the unmount")


@b.deadline(240)
def test_a_checkpoint_under_writers_that_never_sync_is_a_whole_file_system():
    """On a machine of which others took most, 2 of 25 clones were none while only the sandbox's own cgroup was asked."""
    if subprocess.run(["sh", "-c", "command -v python3"], stdout=subprocess.DEVNULL).returncode:
        raise b.skip("needs python3")
    with xfs() as (env, where):
        b.berth("create", "--name", "x", "host", env=env, ok=True)
        for n in range(3):
            b.berth("exec", "--detach", "x", "python3", "-c", CHURN, str(n), env=env, ok=True)
        box = json.loads(b.berth("inspect", "x", env=env, ok=True).out)["id"]
        for _ in range(b.times(12, 100)):
            made = checkpoint("x", "--keep", "2", env=env)
            file = f"{where}/state/sandboxes/{box}/checkpoints/{made['checkpoint']}.img"
            p = subprocess.run(["e2fsck", "-fn", file], capture_output=True, text=True)
            assert p.returncode == 0 and made["shared"], (made, p)
        # they have written until now
        told = json.loads(b.berth("ps", "--json", env=env, ok=True).out)
        assert told[0]["commands"] == 3, told
        b.berth("rm", "-f", "x", env=env, ok=True)


@b.deadline(120)
def test_a_process_in_the_kernel_is_waited_for_before_the_layer_is_cloned():
    """Without a journal only a file system at which nobody is at work is whole; a process that stays there has an end."""
    with xfs() as (env, where), contextlib.ExitStack() as last:
        disk = last.enter_context(frozen_disk())
        b.berth("create", "--name", "x", "--volume", f"{disk}:/disk:rw", "host", env=env, ok=True)
        box = json.loads(b.berth("inspect", "x", env=env, ok=True).out)
        assert checkpoint("x", env=env)["shared"]
        b.berth("exec", "--detach", "x", "sh", "-c", "echo > /disk/f", env=env, ok=True)
        b.wait_for(lambda: "D" in states(box["init_pid"]), 30, "the writer")
        b.berth("exec", "--detach", "x", "sh", "-c", "while :; do i=$((i+1)); echo $i > /d$((i%99)); rm /d$((i*7%99)); done", env=env, ok=True)
        made = checkpoint("x", env=env)
        assert made["shared"] and made["frozen_us"] >= 900_000, made
        file = f"{where}/state/sandboxes/{box['id']}/checkpoints/{made['checkpoint']}.img"
        p = subprocess.run(["e2fsck", "-fn", file], capture_output=True, text=True)
        assert p.returncode == 0, p
        # nothing stands still any more
        b.berth("exec", "x", "touch", "/after", env=env, ok=True, timeout=60)
        last.close()
        b.berth("rm", "-f", "x", env=env, ok=True)
