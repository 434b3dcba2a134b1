# SPDX-License-Identifier: Apache-2.0
"""
S51.  A sandbox that may write to a host directory puts links in the place of other sources of mounts between two starts, and no
start, of whatever face, mounts what they lead to.
"""
import json
import os
import shutil
import threading

import berthtest as b
from dockerlab import Engine

SECRET = "the host's own"


def places():
    """A directory that a sandbox may write to, with a source below it, and one of the host's that nobody named."""
    top, secret = b.tmpdir("bound"), b.tmpdir("secret")
    os.makedirs(top + "/sub/deep")
    b.write(top + "/sub/mine", "mine")
    b.write(top + "/file", "file")
    b.write(secret + "/mine", SECRET)
    return top, secret


def create(*options):
    return b.berth("create", *options, "host", ok=True).out.strip()


def seen(box, path):
    return b.berth("exec", box, "cat", path).out


@b.deadline(120)
def test_a_link_in_the_place_of_a_source_is_not_followed():
    top, secret = places()
    for source, moved in ((top + "/sub", top + "/sub"), (top + "/sub/deep", top + "/sub"), (top + "/file", top + "/file")):
        target = "/sub" if source != top + "/file" else "/file"
        box = create("-v", f"{top}:/data:rw", "-v", f"{source}:{target}:rw")
        b.berth("stop", box, ok=True)
        os.rename(moved, moved + ".x")
        os.symlink(secret if moved != top + "/file" else secret + "/mine", moved)
        for verb in ("start", "restart"):
            b.one_line_error(b.berth(verb, box), 125, "symbolic link", source)
        # what is told of it, and a fork, open nothing either
        assert SECRET not in b.berth("inspect", box, ok=True).out
        assert b.berth("fork", box).code != 0
        os.unlink(moved)
        os.rename(moved + ".x", moved)
        b.berth("start", box, ok=True)
        b.berth("rm", "--force", box, ok=True)
    shutil.rmtree(top)


@b.deadline(120)
def test_another_directory_in_the_place_of_a_source_takes_the_operators_word():
    top, _ = places()
    box = create("--mount", f"type=bind,src={top}/sub,dst=/sub", "-v", f"{top}/file:/file")
    b.berth("stop", box, ok=True)
    os.rename(top + "/sub", top + "/old")
    os.mkdir(top + "/sub")
    b.write(top + "/sub/mine", "other")
    # an editor replaces a file, and that is no news
    b.write(top + "/new", "edited")
    os.rename(top + "/new", top + "/file")
    r = b.berth("start", box)
    b.one_line_error(r, 125, "is not what was there", "--accept-sources")
    b.berth("start", "--accept-sources", box, ok=True)
    assert (seen(box, "/sub/mine"), seen(box, "/file")) == ("other", "edited")
    b.berth("restart", box, ok=True)
    b.berth("rm", "--force", box, ok=True)


@b.deadline(120)
def test_a_source_that_was_a_link_when_it_was_named_stays_where_it_led():
    top, secret = places()
    os.symlink(top + "/sub", top + "/link")
    boxes = [create("-v", f"{top}/link:/sub"), create("--mount", f"type=bind,src={top}/link,dst=/sub")]
    for box in boxes:
        b.berth("stop", box, ok=True)
    os.unlink(top + "/link")
    os.symlink(secret, top + "/link")
    for box in boxes:
        b.berth("start", box, ok=True)
        assert seen(box, "/sub/mine") == "mine"
    b.berth("rm", "--force", *boxes, ok=True)


@b.deadline(300)
def test_the_restart_of_a_container_that_moved_its_own_source():
    top, secret = places()
    trap = f"cat /sub/mine; mv /data/sub /data/x; ln -s {secret} /data/sub; exit 1"
    with Engine() as d:
        status, made, _ = d.api("POST", "/containers/create", {"Image": "host", "Cmd": ["sh", "-c", trap], "HostConfig": {
            "NetworkMode": "none", "Binds": [f"{top}:/data", f"{top}/sub:/sub"],
            "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3}}})
        assert status == 201, made
        d.api("POST", f"/containers/{made['Id']}/start")
        b.wait_for(lambda: not d.api("GET", f"/containers/{made['Id']}/json")[1]["State"]["Running"], 60, "the end of its restarts")
        logs = d.api("GET", f"/containers/{made['Id']}/logs?stdout=1")[1]
        assert SECRET.encode() not in logs and b"mine" in logs, logs
        status, said, _ = d.api("POST", f"/containers/{made['Id']}/start")
        assert status >= 400 and "symbolic link" in said["message"], (status, said)


def flip(top, secret, done):
    """Puts a link in the place of the source and takes it back, as fast as it can."""
    while not done.is_set():
        os.rename(top + "/sub", top + "/sub.x")
        os.symlink(secret, top + "/sub")
        os.unlink(top + "/sub")
        os.rename(top + "/sub.x", top + "/sub")


def race(times):
    top, secret = places()
    done = threading.Event()
    box = create("-v", f"{top}/sub:/sub")
    thread = threading.Thread(target=flip, args=(top, secret, done))
    thread.start()
    started = 0
    try:
        for _ in range(times):
            b.berth("stop", box)
            if b.berth("start", box).code == 0:
                started += 1
                assert seen(box, "/sub/mine") == "mine"
    finally:
        done.set()
        thread.join()
    assert b.berth("restart", box, ok=True) and seen(box, "/sub/mine") == "mine"
    b.berth("rm", "--force", box, ok=True)
    return started


@b.deadline(300)
def test_starts_beside_a_link_that_comes_and_goes_mount_the_source_or_nothing():
    race(40)


@b.long_proof("1,000 restarts beside somebody who moves the source")
@b.deadline(900)
def test_a_thousand_starts_beside_a_link_that_comes_and_goes():
    race(1000)


@b.deadline(120)
def test_missing_sources_are_made_below_what_was_judged():
    top, secret = places()
    with Engine() as d:
        os.symlink(secret, top + "/to")
        status, made, _ = d.api("POST", "/containers/create", {"Image": "host", "Cmd": ["true"], "HostConfig": {
            "NetworkMode": "none", "Binds": [f"{top}/new/deep:/n"]}})
        assert status == 201 and os.path.isdir(top + "/new/deep"), made
        for place in ("/root", "/var/lib/berth-made", "/var/spool/cron", "/home", "/srv", "/opt", "/root/.ssh"):
            status, said, _ = d.api("POST", "/containers/create", {"Image": "host", "Cmd": ["true"], "HostConfig": {
                "NetworkMode": "none", "Binds": [f"{place}:/n"]}})
            assert status == 403 and "binds" in said["message"], (place, status, said)
        assert not os.path.exists("/var/lib/berth-made")
    with Engine('binds = ["/var/log"]') as d:
        assert d.api("POST", "/containers/create", {"Image": "host", "Cmd": ["true"], "HostConfig": {
            "NetworkMode": "none", "Binds": ["/var/log:/n:ro"]}})[0] == 201


@b.deadline(60)
def test_a_sandbox_of_an_older_berth_has_its_sources_noted_at_its_next_start():
    top, secret = places()
    box = create("-v", f"{top}/sub:/sub")
    b.berth("stop", box, ok=True)
    path = os.path.join(os.path.dirname(b.tmp("").rstrip("/")), f"state/sandboxes/{box}/spec.json")
    spec = json.load(open(path))
    os.symlink(top + "/sub", top + "/old")
    spec["options"] = [["volume", f"{top}/old:/sub"]]
    del spec["sources"]
    b.write(path, json.dumps(spec))
    b.berth("start", box, ok=True)
    assert seen(box, "/sub/mine") == "mine"
    b.berth("stop", box, ok=True)
    os.unlink(top + "/old")
    os.symlink(secret, top + "/old")
    b.berth("start", box, ok=True)
    assert seen(box, "/sub/mine") == "mine"
    b.berth("rm", "--force", box, ok=True)
