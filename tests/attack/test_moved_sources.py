# SPDX-License-Identifier: Apache-2.0
"""
S51.  A sandbox that may write to a host directory puts links in the place of other sources of mounts between two starts, and no
start, of whatever face, mounts what they lead to.
"""
import json
import os
import shutil
import socket
import subprocess
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


def theirs(path, text=None, owner=1000, mode=0o755):
    """A directory, or a file with this text."""
    if text is None:
        os.mkdir(path)
    else:
        b.write(path, text, mode)
    os.chmod(path, mode)
    os.chown(path, owner, owner)


def trapped(d, top, source, script, **more):
    """A container of Docker's door that has top and source, and runs script at each start."""
    status, made, _ = d.api("POST", "/containers/create", {"Image": "host", "Cmd": ["sh", "-c", script], "HostConfig": {
        "NetworkMode": "none", "Binds": [f"{top}:/data", f"{source}:/it"], **more}})
    assert status == 201, made
    return made["Id"]


def run_to_the_end(d, box):
    d.api("POST", f"/containers/{box}/start")
    b.wait_for(lambda: not d.api("GET", f"/containers/{box}/json")[1]["State"]["Running"], 60, "the end of its restarts")
    return d.api("GET", f"/containers/{box}/logs?stdout=1")[1]


def another_boot(box):
    """What was noted of its sources was noted before the last boot."""
    path = b.root() + f"/state/sandboxes/{box}/spec.json"
    with open(path, encoding="utf-8") as f:
        spec = json.load(f)
    spec["sources"] = {k: "00000000" + v[v.index(" "):] for k, v in spec["sources"].items()}
    b.write(path, json.dumps(spec))


@b.deadline(180)
def test_a_source_of_another_owner_gives_nobody_that_owners_rights():
    """A directory of a user holds what root keeps for itself, and with owner=auto a sandbox has the rights of the owner of a source."""
    for path in (b.root(), b.tmp("")):
        os.chmod(path, 0o755)
    swap = "cat /it /it/mine; mv /data/a /data/x && mv /data/z /data/a && mv /data/x /data/z; exit 1"
    with Engine() as d:
        for name in ("file", "dir"):
            top = b.tmp(name)
            theirs(top)
            for place in ("a", "z"):
                theirs(f"{top}/{place}")
            theirs(top + "/a/file", "mine")
            theirs(top + "/a/dir")
            theirs(top + "/a/dir/mine", "mine")
            theirs(top + "/z/file", SECRET, 0, 0o600)
            theirs(top + "/z/dir", owner=0, mode=0o700)
            theirs(top + "/z/dir/mine", SECRET, 0, 0o600)
            box = trapped(d, top, f"{top}/a/{name}", swap, RestartPolicy={"Name": "on-failure", "MaximumRetryCount": 1})
            said = run_to_the_end(d, box)
            assert b"mine" in said and SECRET.encode() not in said and os.stat(f"{top}/a/{name}").st_uid == 0, said
            another_boot(b.berth("ps", "-aq", ok=True).out.split()[0])
            said = run_to_the_end(d, box)
            assert SECRET.encode() not in said, said
            for path in ("/it", "/data/a"):
                status, told, _ = d.api("GET", f"/containers/{box}/archive?path={path}")
                assert status == 403 and "belongs to 0:0" in told["message"], (status, told)
            # the same thing, which its owner gave away, and another one of the owner that was noted
            os.rename(top + "/a", top + "/x")
            os.rename(top + "/z", top + "/a")
            os.chown(f"{top}/a/{name}", 1001, 1001)
            assert d.api("POST", f"/containers/{box}/start")[0] == 204
            d.api("DELETE", f"/containers/{box}?force=1")


@b.deadline(120)
def test_a_file_system_that_is_mounted_anew_keeps_its_sources():
    """With another number of its device, as loop devices and btrfs get them; another file system of the same form is another one."""
    top, images = b.tmpdir("mnt"), [b.tmp("one.img"), b.tmp("other.img")]
    for image in images:
        with open(image, "wb") as f:
            f.truncate(32 << 20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)

    def mount(image):
        subprocess.run(["mount", "-o", "loop", image, top], check=True)
        os.makedirs(top + "/dir", exist_ok=True)
        b.write(top + "/dir/mine", image)
        return os.stat(top + "/dir").st_dev

    was = mount(images[0])
    box = create("-v", f"{top}/dir:/it", "-v", f"{top}:/top")
    b.berth("stop", box, ok=True)
    subprocess.run(["umount", top], check=True)
    aside = b.tmpdir("aside")
    subprocess.run(["mount", "-o", "loop", images[1], aside], check=True)   # takes the number
    assert mount(images[0]) != was
    b.berth("start", box, ok=True)
    assert seen(box, "/it/mine") == images[0]
    b.berth("stop", box, ok=True)
    subprocess.run(["umount", top, aside], check=True)
    mount(images[1])
    b.one_line_error(b.berth("start", box), 125, "is not what was there", "--accept-sources")
    subprocess.run(["umount", top], check=True)
    mount(images[0])
    b.berth("start", box, ok=True)
    b.berth("rm", "--force", box, ok=True)
    subprocess.run(["umount", top], check=True)


@b.deadline(120)
def test_a_directory_that_got_the_number_of_one_that_was_removed_is_another_one():
    top, box = b.tmpdir("bound"), None
    for tries in range(200):
        os.mkdir(top + "/sub")
        number = os.stat(top + "/sub").st_ino
        box = box or create("-v", f"{top}/sub:/sub")
        b.berth("stop", box)
        os.rmdir(top + "/sub")
        os.mkdir(top + "/sub")
        if os.stat(top + "/sub").st_ino == number:
            break
        b.berth("rm", "--force", box, ok=True)
        box = None
        os.rmdir(top + "/sub")
    else:
        raise b.skip("this file system gives no number again")
    b.one_line_error(b.berth("start", box), 125, "is not what was there")
    b.berth("rm", "--force", box, ok=True)


@b.deadline(120)
def test_files_are_copied_out_of_the_source_that_was_noted_and_of_no_other():
    top, _ = places()
    box = create("-v", f"{top}/sub:/sub:rw")
    b.berth("stop", box, ok=True)
    os.rename(top + "/sub", top + "/old")
    os.mkdir(top + "/sub")
    b.write(top + "/sub/mine", SECRET)
    b.one_line_error(b.berth("cp", box + ":/sub/mine", b.tmp("out")), 125, "is not what was there")
    assert not os.path.exists(b.tmp("out"))
    os.rename(top + "/sub", top + "/new")
    os.rename(top + "/old", top + "/sub")
    b.berth("cp", box + ":/sub/mine", b.tmp("out"), ok=True)
    b.berth("rm", "--force", box, ok=True)


@b.deadline(60)
def test_a_file_that_became_the_socket_of_a_service_is_refused():
    top, _ = places()
    box = create("-v", f"{top}/file:/file")
    b.berth("stop", box, ok=True)
    os.unlink(top + "/file")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(top + "/file")
    for _ in range(2):
        b.one_line_error(b.berth("start", box), 125, "is not what was there")
        another_boot(box)
    b.berth("rm", "--force", box, ok=True)


@b.deadline(120)
def test_forks_of_a_zygote_mount_what_it_was_made_with():
    top, secret = places()
    z = b.berth("zygote", "create", "--pool", "0", "-v", f"{top}:/data:rw", "-v", f"{top}/sub:/sub", "host", "python3", ok=True).out.strip()

    def fork():
        return b.berth("run", "--zygote", z, "print(open('/sub/mine').read())")

    assert fork().out == "mine\n"
    box = b.berth("create", "--zygote", z, ok=True).out.strip()
    assert seen(box, "/sub/mine") == "mine"
    os.rename(top + "/sub", top + "/x")
    os.symlink(secret, top + "/sub")
    b.one_line_error(fork(), 125, "symbolic link")
    b.one_line_error(b.berth("create", "--zygote", z), 125, "symbolic link")
    os.unlink(top + "/sub")
    shutil.copytree(secret, top + "/sub")
    b.one_line_error(fork(), 125, "is not what was there")
    b.one_line_error(b.berth("create", "--zygote", z), 125, "is not what was there")
    shutil.rmtree(top + "/sub")
    os.rename(top + "/x", top + "/sub")
    assert fork().out == "mine\n"
    b.berth("rm", "--force", box, ok=True)
    b.berth("zygote", "rm", z, ok=True)
