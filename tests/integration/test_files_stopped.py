# SPDX-License-Identifier: Apache-2.0
"""Files of a sandbox that does not run: berth cp and berth file work on them, and it stays stopped for everybody."""
import json
import os
import subprocess
import tarfile
import io

import berthtest as b

COST = 10


def state(sb):
    return next(s for s in json.loads(b.berth("ps", "-a", "--json", ok=True).out) if s["id"] == sb)["status"]


def places(sb=""):
    return os.path.join(b.root(), "run", "sandboxes", sb)


def tar_bytes(result):
    return result.out.encode(errors="surrogateescape")


def tar(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


@b.deadline(60)
def test_files_go_into_one_that_was_never_started():
    sb = b.berth("create", "--no-start", "host", "sleep", "1000", ok=True).out.strip()
    b.berth("cp", "-", sb + ":/srv", input=tar(("a/f", b"data")), ok=True)
    b.berth("file", "write", sb, "/etc/made", input="text", ok=True)
    assert state(sb) == "created"
    assert b.berth("file", "read", sb, "/srv/a/f", ok=True).out == "data"
    b.one_line_error(b.berth("file", "read", sb, "/nosuch"), 125, "/nosuch")
    b.one_line_error(b.berth("exec", sb, "true"), 125, "is not running")
    b.berth("start", sb, ok=True)
    assert b.berth("exec", sb, "cat", "/srv/a/f", "/etc/made", ok=True).out == "datatext"
    b.berth("rm", "-f", sb, ok=True)


@b.deadline(60)
def test_the_reason_of_its_stop_stays_in_its_record():
    sb = b.berth("create", "host", "sh", "-c", "echo left > /srv/left; exit 7", ok=True).out.strip()
    b.berth("wait", sb)
    before = json.loads(b.berth("inspect", sb, ok=True).out)
    with tarfile.open(fileobj=io.BytesIO(tar_bytes(b.berth("cp", sb + ":/srv/left", "-", ok=True)))) as t:
        assert t.extractfile("left").read() == b"left\n"
    b.berth("file", "write", sb, "/new", input="x", ok=True)
    after = json.loads(b.berth("inspect", sb, ok=True).out)
    assert before == after, (before, after)
    assert "A /new" in b.berth("diff", sb, ok=True).out
    b.berth("rm", sb, ok=True)


@b.deadline(60)
def test_its_volumes_are_there_and_its_network_is_not():
    sb = b.berth("create", "--no-start", "--volume", "kept:/data", "--network", "host", "host", "true", ok=True).out.strip()
    b.berth("file", "write", sb, "/data/f", input="in the volume", ok=True)
    b.berth("rm", sb, ok=True)
    assert b.berth("run", "--volume", "kept:/data", "host", "cat", "/data/f", ok=True).out == "in the volume"
    b.berth("volume", "rm", "kept", ok=True)


@b.deadline(120)
def test_a_start_and_a_removal_wait_for_those_who_copy():
    sb = b.berth("create", "--no-start", "host", "sleep", "1000", ok=True).out.strip()
    with b.start("cp", "-", sb + ":/srv", stdin=subprocess.PIPE) as copy:
        copy.stdin.write(tar(("f", b"x" * 100000))[:70000])
        copy.stdin.flush()
        b.wait_for(lambda: os.path.exists(places(sb) + "/sock"), 30, "its keeper")
        with b.start("start", sb) as start:
            copy.stdin.write(tar(("f", b"x" * 100000))[70000:])
            copy.stdin.close()
            assert copy.wait() == 0 and start.wait() == 0
    assert b.berth("exec", sb, "wc", "-c", "/srv/f", ok=True).out.split()[0] == "100000"
    b.berth("rm", "-f", sb, ok=True)


@b.deadline(120)
def test_the_killed_leave_nothing():
    sb = b.berth("create", "--no-start", "host", "true", ok=True).out.strip()
    with b.start("cp", "-", sb + ":/srv", stdin=subprocess.PIPE) as copy:
        b.wait_for(lambda: os.path.exists(places(sb) + "/sock"), 30, "its keeper")
        copy.kill()
    b.wait_for(lambda: not os.path.exists(places(sb)), 30, "the end of its keeper")
    assert state(sb) == "created"
    b.berth("rm", sb, ok=True)


@b.deadline(60)
def test_one_file_system_leaves_out_what_is_mounted():
    b.berth("image", "import", b.busybox_rootfs(dirs=("dev", "proc", "sys", "srv", "opt", "etc")), "box:1", ok=True)
    sb = b.berth("create", "--no-start", "--volume", "kept:/opt", "box:1", "true", ok=True).out.strip()
    b.berth("file", "write", sb, "/opt/f", input="in the volume", ok=True)
    b.berth("file", "write", sb, "/srv/f", input="in the layer", ok=True)
    names = {}
    for options in ([], ["-x"]):
        data = tar_bytes(b.berth("cp", *options, sb + ":/.", "-", ok=True))
        with tarfile.open(fileobj=io.BytesIO(data)) as t:
            names[len(options)] = set(t.getnames())
    assert {"./opt", "./opt/f", "./srv/f", "./bin/busybox"} <= names[0]
    assert {"./opt", "./srv/f", "./proc", "./dev", "./sys"} <= names[1] and not {"./opt/f", "./dev/shm"} & names[1]
    assert not any(n.startswith(("./proc/", "./sys/", "./dev/")) for n in names[1])
    b.berth("rm", sb, ok=True)
    b.berth("volume", "rm", "kept", ok=True)
