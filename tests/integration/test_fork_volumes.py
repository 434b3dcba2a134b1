# SPDX-License-Identifier: Apache-2.0
"""berth fork --volume-copy: copies of named volumes, of one instant."""
import contextlib
import json
import os
import signal
import subprocess

import berthtest as b
from test_checkpoint import MIB, needs_file, sh, switches, xfs
from box import Box


@contextlib.contextmanager
def volume(name, size="64m", env=None):
    b.berth("volume", "create", "--size", size, "--label", "kind=data", name, ok=True, env=env)
    try:
        yield name
    finally:
        for one in volumes(env):
            if one.startswith(name):
                b.berth("volume", "rm", "--force", one, env=env)


def volumes(env=None):
    return b.berth("volume", "ls", "-q", ok=True, env=env).out.split()


def fork(*args, **kw):
    return json.loads(b.berth("fork", "--json", *args, ok=True, **kw).out)["forks"]


def top():
    return os.path.join(b.root(), "state", "volumes")


def test_a_fork_gets_a_volume_of_its_own():
    with volume("data") as v, Box("--volume", f"{v}:/v", "--mount", f"type=volume,src={v},dst=/w") as x:
        needs_file(x)
        sh(x.id, "echo one > /v/f; chown 5:6 /v/f; mkdir /v/d", ok=True)
        first, second = fork("--count", "2", "--volume-copy", x.id)
        try:
            copies = [f["volumes"][v] for f in (first, second)]
            assert len(set(copies)) == 2 and all(c.startswith("data-") for c in copies), copies
            assert sorted(volumes()) == sorted([v, *copies])
            sh(first["id"], "echo two > /v/f; touch /w/new", ok=True)
            assert sh(first["id"], "cat /w/f; ls /v", ok=True).out == "two\nd\nf\nnew\n"
            for other in (x.id, second["id"]):
                assert sh(other, "cat /v/f; stat -c '%u %g' /v/f; ls /w", ok=True).out == "one\n5 6\nd\nf\n"
            told = json.loads(b.berth("volume", "inspect", copies[0], ok=True).out)
            told = told[0] if isinstance(told, list) else told
            assert told["size_bytes"] == 64 * MIB and told["labels"] == {"kind": "data"}, told
            # the size of the first is that of the copy
            assert sh(first["id"], "head -c 80000000 /dev/zero > /v/big").code != 0
        finally:
            for f in (first, second):
                b.berth("rm", "-f", f["id"])
        shared, = fork(x.id)
        try:
            sh(shared["id"], "echo three > /v/f", ok=True)
            assert sh(x.id, "cat /v/f", ok=True).out == "three\n"
        finally:
            b.berth("rm", "-f", shared["id"])


def test_a_fork_that_cannot_be_made_leaves_no_volume():
    env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), "[volume]\nmax = 2\n")}
    with volume("data", env=env) as v, Box("--volume", f"{v}:/v", env=env) as x:
        needs_file(x)
        sh(x.id, "echo one > /v/f", ok=True, env=env)
        b.one_line_error(b.berth("fork", "--count", "2", "--volume-copy", x.id, env=env), 125, "the limit is 2", "hint:")
        assert volumes(env) == [v]
        assert len(b.berth("ps", "-aq", ok=True, env=env).out.split()) == 1
        with Box("--name", "taken", env=env):
            b.one_line_error(b.berth("fork", "--name", "taken", "--volume-copy", x.id, env=env), 125, "taken")
        assert volumes(env) == [v]


@b.deadline(120)
def test_the_copy_is_of_one_instant_while_it_is_written():
    """Two files that a writer changes together, and syncs, are the same in each copy; its file system is whole."""
    with xfs("600m") as (env, where), contextlib.ExitStack() as later:
        later.enter_context(volume("data", env=env))
        b.berth("create", "--name", "x", "--volume", "data:/v", "host", env=env, ok=True)
        b.berth("exec", "--detach", "x", "sh", "-c",
                "i=0; while :; do i=$((i+1)); echo $i > /v/a; sync /v/a; echo $i > /v/b; sync /v/b; done", env=env, ok=True)
        b.wait_for(lambda: sh("x", "test -e /v/b", env=env).code == 0, 30, "the writer")
        for _ in range(b.times(3, 30)):
            one, = fork("--volume-copy", "--no-start", "x", env=env)
            image = os.path.join(where, "state/volumes", one["volumes"]["data"], "image")
            if os.path.exists(image):
                p = subprocess.run(["e2fsck", "-fn", image], capture_output=True, text=True)
                assert p.returncode == 0, p
            b.berth("start", one["id"], env=env, ok=True)
            first, second = (int(n or 0) for n in sh(one["id"], "echo $(cat /v/a); echo $(cat /v/b)", env=env, ok=True).out.splitlines())
            # between the two writes, or while a file is empty
            assert first == second or first == second + 1 or 0 in (first, second), (first, second)
            b.berth("rm", "-f", one["id"], env=env, ok=True)
        b.berth("rm", "-f", "x", env=env, ok=True)


@b.deadline(180)
def test_whoever_is_killed_the_volume_goes_on():
    with volume("data", "128m") as v, Box("--volume", f"{v}:/v") as x:
        needs_file(x)
        sh(x.id, f"head -c {48 * MIB} /dev/urandom > /v/big; sync", ok=True)
        if not os.path.exists(os.path.join(top(), v, "image")):
            raise b.skip("volumes are under a project quota")
        reached = 0
        for n in range(b.times(6, 40)):
            p = b.start("fork", "--volume-copy", "--no-start", x.id)
            # early ones at any point, later ones while the volume stands still
            b.wait_for(lambda: p.poll() is not None or cloner(p.pid) or (n < 2 and switches(p.pid) >= 4 * n), 30, "a point")
            child = cloner(p.pid)
            reached += child > 0
            os.kill(p.pid, signal.SIGKILL) if p.poll() is None else None
            if child and n % 2:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            p.wait()
            b.wait_for(lambda: not child or ended(child), 60, "the end of the copy")
            b.berth("gc", ok=True)
            sh(x.id, f"echo {n} > /v/n; sync", ok=True, timeout=60)
            for box in b.berth("ps", "-aq", ok=True).out.split():
                if box != x.id:
                    b.berth("rm", "-f", box)
            for one in volumes():
                if one != v:
                    b.berth("volume", "rm", one)
            assert [e for e in os.listdir(top()) if e.startswith(".")] == [], os.listdir(top())
            assert not os.path.exists(os.path.join(top(), v, "cloning"))
        assert reached, "no clone was under way when it was killed"


def ended(pid):
    """Gone, or a zombie: its parent was killed, and the test does not wait for it."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    return True


def cloner(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as f:
        for child in f.read().split():
            with contextlib.suppress(OSError), open(f"/proc/{child}/comm") as c:
                if c.read() == "berth-clone\n":
                    return int(child)
    return 0
