# SPDX-License-Identifier: Apache-2.0
"""berth commit of a checkpoint, and of sandboxes that no image is below."""
import json
import os
import shutil

import berthtest as b
from test_checkpoint import checkpoint, needs_file, sh
from test_commit import CHANGES, cleaned, setup
from box import Box


def files_of(image):
    """The names in the image's top layer."""
    r = json.loads(b.berth("image", "inspect", image, ok=True).out)
    top = os.path.join(b.root(), "state/store/layers", r["layers"][-1]["chain_id"][7:])
    return {os.path.relpath(os.path.join(at, n), top) for at, dirs, names in os.walk(top) for n in dirs + names}


@cleaned
def test_an_image_has_the_files_of_the_checkpoint_while_the_sandbox_runs_on():
    setup()
    b.berth("create", "--name", "c", "base:1", ok=True)
    if os.path.isdir(os.path.join(b.root(), "state/sandboxes", json.loads(b.berth("inspect", "c", ok=True).out)["id"], "writable")):
        raise b.skip("the state directory has project quotas")
    sh("c", CHANGES, ok=True)
    b.berth("commit", "c", "whole:1", "-q", ok=True)
    b.berth("checkpoint", "--name", "clean", "c", ok=True)
    sh("c", "rm -rf /root/new /root/hard /data/moved; echo later > /root/later", ok=True)
    # the same layer, though the sandbox is another now and is not frozen for it
    b.berth("pause", "c", ok=True)
    for at in ("k1", "clean"):
        b.berth("commit", f"c@{at}", f"then-{at}", "-q", ok=True)
    b.berth("resume", "c", ok=True)
    ours = {n: json.loads(b.berth("image", "inspect", n, ok=True).out)["layers"][-1]["diff_id"]
            for n in ("whole:1", "then-k1", "then-clean")}
    assert len(set(ours.values())) == 1, ours
    assert b.run("then-k1", "cat", "/root/new", ok=True).out == "new\n"
    b.one_line_error(b.berth("commit", "c@k9", "x"), 125, "no checkpoint 'k9'", "hint:")
    # of a fork, whose files have other owners on disk, and of a stopped one
    b.berth("fork", "--name", "f", "c@k1", ok=True)
    b.berth("checkpoint", "f", ok=True)
    b.berth("stop", "f", ok=True)
    b.berth("commit", "f@k1", "forked", "-q", ok=True)
    assert json.loads(b.berth("image", "inspect", "forked", ok=True).out)["layers"][-1]["diff_id"] == ours["whole:1"]


@cleaned
def test_an_image_of_a_sandbox_of_the_host_runs_above_the_hosts_programs():
    with Box() as x:
        sh(x.id, "echo one > /srv/f; echo '#!/bin/sh' > /start; echo 'cat /srv/f' >> /start; chmod 755 /start; "
                 "mkdir -p /etc/profile.d; echo mine > /etc/profile.d/x; echo '# mine' > /etc/services", ok=True)
        r = b.berth("commit", "--cmd", '["/start"]', x.id, "made:1", ok=True)
        assert "stands on the programs of this host" in r.err, r
    assert b.berth("run", "made:1", ok=True).out == "one\n"
    assert b.run("made:1", "sh", "-c", "cat /srv/f /etc/profile.d/x /etc/services; touch /usr/x 2>/dev/null || echo ro",
                 ok=True).out == "one\nmine\n# mine\nro\n"
    assert json.loads(b.berth("image", "inspect", "made:1", ok=True).out)["base"] == "host"
    # its name, its sandboxes, their restarts, forks and images stand there, too
    b.berth("image", "tag", "made:1", "again:1", ok=True)
    assert b.berth("run", "again:1", ok=True).out == "one\n"
    with Box(image="again:1") as y:
        b.berth("image", "rm", "again:1", ok=True)
        sh(y.id, "echo two >> /srv/f; rm /etc/profile.d/x", ok=True)
        b.berth("stop", y.id, ok=True)
        b.berth("start", y.id, ok=True)
        assert sh(y.id, "cat /srv/f", ok=True).out == "one\ntwo\n"
        assert "/srv/f" in b.berth("diff", y.id, ok=True).out
        fork = b.berth("fork", y.id, ok=True).out.strip()
        assert sh(fork, "cat /srv/f", ok=True).out == "one\ntwo\n"
        b.berth("rm", "-f", fork, ok=True)
        b.berth("commit", "-q", y.id, "made:2", ok=True)
    assert b.run("made:2", "sh", "-c", "cat /srv/f /etc/services; test -e /etc/profile.d/x || echo gone; /start",
                 ok=True).out == "one\ntwo\n# mine\ngone\none\ntwo\n"
    b.berth("image", "fsck", ok=True)
    # no document claims it: what is exported and comes back has only its own files
    b.berth("image", "export", "made:1", b.tmp("oci"), ok=True)
    b.berth("image", "import", b.tmp("oci"), "back:1", ok=True)
    assert "base" not in json.loads(b.berth("image", "inspect", "back:1", ok=True).out)
    assert b.run("back:1").code in (126, 127)
    b.berth("image", "rm", "made:1", "made:2", "back:1", ok=True)


@cleaned
def test_a_sandbox_of_the_host_becomes_an_image_of_what_it_wrote():
    with Box() as x:
        needs_file(x)
        busybox = shutil.which("busybox") or "/bin/busybox"
        b.berth("cp", busybox, f"{x.id}:/busybox", ok=True)
        sh(x.id, "mkdir /d; echo one > /d/f; chown 5:6 /d/f; chmod 640 /d/f; rm -f /etc/hostname", ok=True)
        checkpoint(x.id)
        sh(x.id, "echo two > /d/f", ok=True)
        r = b.berth("commit", f"{x.id}@k1", "made", ok=True)
        assert "programs of this host" in r.err, r
        assert {"busybox", "d", "d/f"} == files_of("made"), files_of("made")
        # the layer holds programs of this machine, and the image must say so
        told = json.loads(b.berth("image", "inspect", "made", ok=True).out)
        assert told["platform"].startswith("linux/"), told
        assert told["image_config"]["os"] == "linux" and told["image_config"]["architecture"], told
        assert b.run("made", "/busybox", "stat", "-c", "%a %u %g", "/d/f", ok=True).out == "640 5 6\n"
        assert b.run("made", "/busybox", "cat", "/d/f", ok=True).out == "one\n"
        b.berth("commit", x.id, "now", ok=True)
        assert b.run("now", "/busybox", "cat", "/d/f", ok=True).out == "two\n"
        # a directory of the host's under another name has files that are not ours to give
        if sh(x.id, "mv /usr/share/doc /usr/share/renamed").code == 0:
            r = b.berth("commit", x.id, "moved")
            if r.code:
                b.one_line_error(r, 125, "came from the host", "hint:")
            else:
                assert "usr/share/renamed" in files_of("moved")
