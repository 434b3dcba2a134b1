# SPDX-License-Identifier: Apache-2.0
"""State that another version of berth has written: a newer format is refused and left alone, the one of 0.1.0 is read."""
import json
import os
import re
import signal
import subprocess

import berthtest as b
from box import Box
from daemon import Daemon

NEWER = ("version 9", "reads up to 1")
NEWER_IMAGE = ("version 9", "reads up to 3")


def at(kind, *parts):
    return os.path.join(b.root(), kind, *parts)


def make_newer(path):
    with open(path) as f:
        text = f.read()
    assert '"version":1' in text, text
    b.write(path, text.replace('"version":1', '"version":9', 1), 0o600)


def run_hint(message):
    """Runs the command of a hint as its reader would."""
    command = re.search(r"(berth (?:rm|image rm) --force [^ ,;]+)", message)
    assert command, message
    return b.berth(*command.group(1).split()[1:], ok=True)


def test_a_lasting_sandbox_of_a_newer_format_is_refused_by_name_and_survives_gc():
    for file in ("record.json", "spec.json"):
        with Box("--name", "web") as x:
            x.exec("sh", "-c", "echo kept > /srv/note", ok=True)
            b.berth("stop", "web", ok=True)
            make_newer(at("state", "sandboxes", x.id, file))
            for args in (("start", "web"), ("exec", "--start", "web", "true"), ("update", "--memory", "64m", "web"),
                         ("diff", "web"), ("inspect", "web"), ("inspect", "--format", "{{.id}}", "web")):
                b.one_line_error(b.berth(*args), 125, file, x.id, *NEWER, f"berth rm --force {x.id}")
            r = b.berth("gc", ok=True)
            assert os.path.exists(at("state", "sandboxes", x.id, "spec.json"))
            if file == "record.json":
                for args in (("exec", "web", "true"), ("rename", "web", "other"), ("rm", "web")):
                    b.one_line_error(b.berth(*args), 125, file, x.id, *NEWER, f"berth rm --force {x.id}")
                b.expect("left alone" in r.err and x.id in r.err, r, "gc says what it leaves")
                row, = json.loads(b.berth("ps", "-a", "--json", ok=True).out)
                assert (row["id"], row["name"], row["status"]) == (x.id, "web", "newer"), row
                assert "newer" in b.berth("ps", "-a", ok=True).out
                b.one_line_error(b.berth("create", "--name", "web", "host"), 125, "taken")
            r = b.berth("start", "web")
            run_hint(r.err)
            assert not os.path.exists(at("state", "sandboxes", x.id)) and not os.listdir(at("state", "names"))


def test_gc_leaves_what_a_newer_berth_left_and_rm_force_clears_it():
    with Box("--name", "web") as x:
        record = os.path.join(x.dir, "record.json")
        make_newer(record)
        assert json.loads(b.berth("ps", "--json", ok=True).out)[0]["status"] == "newer"
        pids = x.record()["supervisor_pid"], x.record()["init_pid"]
        os.kill(pids[0], signal.SIGKILL)
        b.wait_for(lambda: not any(b.proc.alive(p) for p in pids), 10, "the death of the keeper")
        r = b.berth("gc", ok=True)
        b.expect("left alone" in r.err and os.path.exists(record), r, "gc does not touch it")
        assert not b.berth("gc", "--dry-run", ok=True).out
        b.one_line_error(b.berth("start", "web"), 125)
        b.one_line_error(b.berth("rm", "web"), 125, *NEWER)
        b.berth("create", "--name", "other", "host", ok=True)   # makes room by gc, too
        b.berth("rm", "--force", "other", ok=True)
        assert os.path.exists(record)
        b.berth("rm", "--force", "web", ok=True)
        assert not os.path.exists(x.dir) and not os.listdir(at("state", "sandboxes"))


def test_a_version_that_is_no_number_is_damage():
    with Box("--name", "web") as x:
        b.berth("stop", "web", ok=True)
        path = at("state", "sandboxes", x.id, "spec.json")
        with open(path) as f:
            good = f.read()
        for bad in ('"version":"1"', '"version":0', '"version":1.5', '"release":1'):
            b.write(path, good.replace('"version":1', bad), 0o600)
            b.one_line_error(b.berth("start", "web"), 125, "spec.json", "version")


def test_an_image_record_of_a_newer_format_is_refused_and_keeps_its_layers():
    top = b.busybox_rootfs("fs")
    b.berth("image", "import", top, "old:1", ok=True)
    b.berth("image", "import", top, "other:1", ok=True)
    with Box(image="old:1") as x:
        b.berth("stop", x.id, ok=True)
        name = next(n for n in os.listdir(at("state", "store", "images")) if n.startswith("old"))
        path = at("state", "store", "images", name)
        with open(path) as f:
            digest = json.load(f)["digest"]
        make_newer(path)
        for args in (("run", "old:1", "true"), ("create", "old:1"), ("image", "inspect", "old:1"), ("image", "rm", "old:1"),
                     ("image", "gc"), ("image", "export", "old:1", b.tmp("out")), ("image", "tag", "old:1", "new:1")):
            b.one_line_error(b.berth(*args), 125, name, *NEWER_IMAGE, "berth image rm --force old:1")
        r = b.berth("image", "ls", ok=True)
        b.expect("other:1" in r.out and name in r.err, r, "the other is listed")
        b.berth("start", x.id, ok=True)     # its own copy of the record is of a format that is read
        b.berth("stop", x.id, ok=True)
        make_newer(at("state", "sandboxes", x.id, "image.json"))
        b.one_line_error(b.berth("start", x.id), 125, x.id, "image.json", *NEWER_IMAGE)
        b.berth("image", "rm", "--force", "other:1")
        assert os.listdir(at("state", "store", "layers")), "the pin's layers stay"
        b.one_line_error(b.berth("image", "gc"), 125, "image.json" if not os.path.exists(path) else name)
        b.berth("rm", "--force", x.id, ok=True)
    b.one_line_error(b.berth("run", digest, "true"), 125, name, *NEWER_IMAGE)
    run_hint(b.berth("run", "old:1", "true").err)
    assert not os.path.exists(path)
    b.berth("image", "import", top, "old:1", ok=True)
    b.berth("run", "old:1", "true", ok=True)


def test_start_of_a_sandbox_whose_keeper_was_killed_starts_it():
    with Box("--name", "web") as x:
        pids = x.record()["supervisor_pid"], x.record()["init_pid"]
        os.kill(pids[0], signal.SIGKILL)
        b.wait_for(lambda: not any(b.proc.alive(p) for p in pids), 10, "the death of the keeper")
        b.berth("start", "web", ok=True)
        assert x.exec("echo", "lives", ok=True).out == "lives\n"


# state_dir as berth 0.1.0 left it: made with `image import` of a tree of a few files, `create --name old --disk 4m --env
# GREETING=hi --memory 64m --volume /bin/busybox:/bin/busybox fixture:1`, an exec, a sh and a stop
FIXTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "state-0.1.0.tar.xz")


def test_the_state_of_0_1_0_is_read():
    if not os.access(b.BUSYBOX, os.X_OK):
        raise b.skip("needs the package busybox-static")
    # not by Python's tarfile, which rounds times
    subprocess.run(["tar", "-C", b.root(), "--numeric-owner", "-xf", FIXTURE], check=True)
    row, = json.loads(b.berth("ps", "-a", "--json", ok=True).out)
    assert (row["id"], row["name"], row["status"], row["image"]) == (os.readlink(at("state", "names", "old")), "old", "stopped", "fixture:1"), row
    b.berth("gc", ok=True)
    assert b.berth("exec", "--start", "old", "sh", "-c", "cat /etc/fixture /srv/note; echo $GREETING", ok=True).out == \
        "from 0.1.0\nkept\nhi\n"
    assert "hi" in b.berth("logs", "old", ok=True).out
    assert json.loads(b.berth("inspect", "old", ok=True).out)["created"] == row["created"]
    b.berth("rm", "--force", "old", ok=True)
    assert b.berth("run", "--volume", "/bin/busybox:/bin/busybox", "fixture:1", "sh", "-c", "cat /etc/fixture", ok=True).out == "from 0.1.0\n"
    b.berth("image", "fsck", ok=True)
    b.berth("image", "rm", "fixture:1", ok=True)
    assert not os.listdir(at("state", "store", "layers"))


def test_berthd_refuses_and_leaves_what_a_newer_berth_wrote():
    with Daemon() as d:
        box = d.create("web")
        d.good("POST", f"/v1/sandboxes/{box}/stop")
        make_newer(at("state", "sandboxes", box, "record.json"))
        for method, path in (("GET", ""), ("POST", "/start"), ("DELETE", "")):
            r = d.request(method, f"/v1/sandboxes/{box}{path}")
            assert r.status == 501 and all(word in r.json["error"]["message"] for word in NEWER), r
        listed, = d.good("GET", "/v1/sandboxes")["sandboxes"]
        assert (listed["id"], listed["name"], listed["status"]) == (box, "web", "newer"), listed
        assert d.good("POST", "/v1/system/gc")["cleared"] == 0 and os.path.exists(at("state", "sandboxes", box))
        d.good("DELETE", f"/v1/sandboxes/{box}?force=true")
        assert not os.path.exists(at("state", "sandboxes", box))
