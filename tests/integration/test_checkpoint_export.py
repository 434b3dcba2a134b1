# SPDX-License-Identifier: Apache-2.0
"""berth checkpoint export and import: one file, and hostile ones (S49)."""
import difflib
import hashlib
import io
import json
import os
import subprocess
import tarfile

import berthtest as b
from box import Box
from portable import entry, made, packed
from test_checkpoint import needs_file, sh, xfs
from test_commit import CHANGES, cleaned, setup

# links of a directory are overlayfs's to count
LOOK = ("cd / && find d hard s data root -xdev 2>/dev/null | sort | while read -r f; do stat -c '%n %f %u %g' \"$f\"; "
        "test -f \"$f\" && stat -c %h \"$f\" && cksum < \"$f\"; done; true")


def export(ref, **kw):
    file = b.tmp("checkpoint.tar")
    told = json.loads(b.berth("checkpoint", "export", "--json", "-o", file, ref, ok=True, **kw).out)
    return file, told


def load(file, *options, **kw):
    return b.berth("checkpoint", "import", *options, file, ok=True, **kw).out.strip()


def same(a, z):
    assert a == z, "\n".join(difflib.unified_diff(z.splitlines(), a.splitlines(), "there", "here", lineterm=""))


def boxes():
    return sorted(os.listdir(os.path.join(b.root(), "state", "sandboxes")))


def test_a_file_becomes_a_sandbox_with_the_files_and_the_options():
    with Box("--memory", "64m", "--pids", "33", "--env", "WHO=first") as x:
        needs_file(x)
        sh(x.id, "mkdir -m 750 /d; echo one > /d/f; chown 5:6 /d /d/f; ln /d/f /hard; ln -s d/f /s; truncate -s 40m /d/sparse; "
                 "mkfifo /d/fifo; touch /d/suid; chmod 4755 /d/suid; rm /etc/hostname", ok=True)
        b.berth("checkpoint", "--name", "good", x.id, ok=True)
        seen = sh(x.id, LOOK, ok=True).out
        sh(x.id, "rm -rf /d /hard", ok=True)
        file, told = export(f"{x.id}@good")
        assert told["checkpoint"] == "k1" and told["bytes"] < 100_000 and told["digest"].startswith("sha256:"), told
        with tarfile.open(file) as t:
            assert t.getnames() == ["checkpoint.json", "layer.tar.zst"]
            layer = t.extractfile("layer.tar.zst").read()
        assert "sha256:" + hashlib.sha256(layer).hexdigest() == told["digest"]
        # the same checkpoint gives the same layer; a file that is there is not written over
        assert export_again(x.id) == layer
        b.one_line_error(b.berth("checkpoint", "export", "-o", file, f"{x.id}@good"), 125, "exists", "hint:")
        one = load(file, "--name", f"{x.id[:8]}-far")
        try:
            assert sh(one, LOOK, ok=True).out == seen
            assert sh(one, "echo $WHO; du -k /d/sparse | cut -f1", ok=True).out in ("first\n0\n", "first\n4\n")
            limits = [json.loads(b.berth("inspect", i, ok=True).out)["limits"] for i in (x.id, one)]
            assert limits[0] == limits[1], limits
            # it is a sandbox as any: written to, stopped, started, with checkpoints of its own
            sh(one, "echo more >> /d/f; chown 7:8 /d/f", ok=True)
            b.berth("checkpoint", one, ok=True)
            b.berth("restart", one, ok=True)
            assert sh(one, "cat /d/f; stat -c '%u %g' /d/f /hard", ok=True).out == "one\nmore\n7 8\n7 8\n"
        finally:
            b.berth("rm", "-f", one)


def export_again(box):
    out = subprocess.run([b.BERTH, "checkpoint", "export", f"{box}@k1"], capture_output=True, check=True,
                         env=b.environment()).stdout
    with tarfile.open(fileobj=io.BytesIO(out)) as t:
        return t.extractfile("layer.tar.zst").read()


@cleaned
def test_deletions_and_renames_of_an_image_go_with_the_file():
    setup()
    b.berth("create", "--name", "c", "base:1", ok=True)
    if os.path.isdir(os.path.join(b.root(), "state/sandboxes", boxes()[0], "writable")):
        raise b.skip("the state directory has project quotas")
    sh("c", CHANGES, ok=True)
    b.berth("checkpoint", "c", ok=True)
    seen = sh("c", LOOK, ok=True).out
    file, _ = export("c@k1")
    load(file, "--name", "d")
    same(sh("d", LOOK, ok=True).out, seen)
    b.berth("rm", "-f", "c", "d", ok=True)
    # the image under another name, then none
    b.berth("image", "tag", "base:1", "other:2", ok=True)
    b.berth("image", "rm", "base:1", ok=True)
    load(file, "--name", "e")
    assert sh("e", LOOK, ok=True).out == seen
    b.berth("rm", "-f", "e", ok=True)
    b.berth("image", "rm", "other:2", ok=True)
    b.one_line_error(b.berth("checkpoint", "import", file), 125, "does not have", "hint:")
    assert boxes() == []


@b.deadline(120)
def test_a_file_goes_from_one_file_system_to_another():
    with Box() as x, xfs() as (env, _):
        needs_file(x)
        sh(x.id, "head -c 3000000 /dev/urandom > /big; cksum < /big > /sum", ok=True)
        b.berth("checkpoint", x.id, ok=True)
        p = subprocess.Popen([b.BERTH, "checkpoint", "export", f"{x.id}@k1"], stdout=subprocess.PIPE, env=b.environment())
        r = subprocess.run([b.BERTH, "checkpoint", "import", "--name", "far", "-"], stdin=p.stdout, capture_output=True,
                           text=True, env=b.environment(env))
        p.stdout.close()
        assert p.wait(60 * b.SLOW) == 0 and r.returncode == 0, r
        assert sh("far", "cksum < /big | cmp - /sum && echo same", env=env, ok=True).out == "same\n"


# ---- hostile files -------------------------------------------------------------------

def test_files_that_are_not_what_they_say_are_refused_and_leave_nothing():
    good = packed([entry("d", tarfile.DIRTYPE, mode=0o755), entry("d/f", data=b"one")])
    before, spec = boxes() if os.path.isdir(os.path.join(b.root(), "state", "sandboxes")) else [], {"version": 1, "image": "host"}
    cases = [
        (made(good, layer={"digest": "sha256:" + "0" * 64, "size": len(good)}), "digest"),
        (made(good, layer={"digest": "sha256:" + hashlib.sha256(good).hexdigest(), "size": len(good) + 1}), "not of the size"),
        (made(good, layer={"digest": "md5:1", "size": len(good)}), "damaged"),
        (made(good, manifest=b"{"), "checkpoint.json"),
        (made(good, manifest=b" " * (1 << 20) + b" {}"), "more than"),
        (made(good, names=("other.json", "layer.tar.zst")), "no file of berth checkpoint export"),
        (made(good, names=("checkpoint.json", "layer")), "no file of berth checkpoint export"),
        (made(good, after=["third"]), "more in it"),
        (made(b"not zstd at all"), ""),
        (made(good, **{"berth-checkpoint": 2}), "newer berth"),
        (made(good, spec={**spec, "options": [["memory", "-1"]]}), "memory"),
        (made(good, spec={**spec, "options": [["no-such", "1"]]}), "no-such"),
        (made(good, spec={**spec, "options": [["volume", "/:/host"]]}), "--volume"),
        (made(good, spec={**spec, "options": [["network", "host"]]}), "--network"),
        (made(good, spec={**spec, "options": [["seccomp", "unconfined"]]}), "--seccomp"),
        (made(good, spec={**spec, "options": [["cap-add", "SYS_ADMIN"]]}), "--cap-add"),
        (made(good, spec={**spec, "options": [], "seccomp": "{}"}), "--seccomp"),
        (made(good, image="/"), "directory of a host"),
        (made(packed([entry("../../escape", data=b"x")])), ""),
        (made(packed([entry("/etc/../../escape", data=b"x")])), ""),
        (made(packed([entry("l", tarfile.SYMTYPE, "/var/tmp"), entry("l/escape", data=b"x")])), ""),
        (made(packed([entry("h", tarfile.LNKTYPE, "../../../../etc/passwd")])), ""),
    ]
    whole = made(good)
    with open(whole, "rb") as f:
        data = f.read()
    for n in (100, 600, 1600, 2500):
        if n < len(data):
            cut = b.tmp(f"cut-{n}.tar")
            with open(cut, "wb") as f:
                f.write(data[:n])
            cases.append((cut, "ends early"))
    for file, word in cases:
        r = b.berth("checkpoint", "import", file)
        assert r.code != 0 and word in r.err and r.out == "", (word, r)
        assert boxes() == before, (word, r)
    assert not os.path.exists("/var/tmp/escape") and not os.path.exists(os.path.join(b.root(), "state", "escape"))


def test_options_that_reach_the_host_are_taken_or_left_out_when_that_is_said():
    good = packed([entry("d", tarfile.DIRTYPE, mode=0o755), entry("d/f", data=b"one", uid=5, gid=6),
                   entry("d/dev", tarfile.CHRTYPE, devmajor=1, devminor=3)])
    share = b.tmpdir("share")
    b.write(share + "/x", "of the host")
    file = made(good, spec={"version": 1, "image": "host",
                            "options": [["volume", f"{share}:/share"], ["memory", "64m"]]})
    b.one_line_error(b.berth("checkpoint", "import", file), 125, "--volume", "hint:")
    b.one_line_error(b.berth("checkpoint", "import", "--trust", "--drop", file), 2, "exclude")
    for option, sees in (("--trust", 0), ("--drop", 1)):
        one = load(file, option)
        try:
            assert sh(one, "test -e /share/x").code == sees
            # a device is never made
            assert sh(one, "cat /d/f; stat -c '%u %g' /d/f; test ! -e /d/dev", ok=True).out == "one5 6\n"
        finally:
            b.berth("rm", "-f", one, ok=True)


def test_a_variable_of_the_caller_is_not_taken_into_a_strangers_sandbox():
    good = packed([entry("d", tarfile.DIRTYPE, mode=0o755)])
    file = made(good, spec={"version": 1, "image": "host", "options": [["env", "OF_CALLER"], ["env", "OWN=1"]]})
    env = {"OF_CALLER": "secret"}
    b.one_line_error(b.berth("checkpoint", "import", file, env=env), 125, "--env", "hint:")
    one = load(file, "--drop", env=env)
    try:
        assert sh(one, "echo $OWN ${OF_CALLER-none}", ok=True).out == "1 none\n"
    finally:
        b.berth("rm", "-f", one, ok=True)


def test_wrong_words_about_a_file_are_refused():
    with Box() as x:
        needs_file(x)
        b.one_line_error(b.berth("checkpoint", "export", x.id), 2, "which checkpoint", "hint:")
        b.one_line_error(b.berth("checkpoint", "export", f"{x.id}@k9"), 125, "no checkpoint 'k9'", "hint:")
        b.one_line_error(b.berth("checkpoint", "export", "-o", "/nowhere/file", f"{x.id}@k9"), 125)
        b.one_line_error(b.berth("checkpoint", "import", b.tmp("missing")), 125, "missing")
        b.one_line_error(b.berth("checkpoint", "import"), 2, "one file", "hint:")


def test_what_export_writes_import_takes_and_what_it_could_not_take_is_refused_by_both():
    with Box("--disk", "1g") as x:
        needs_file(x)
        # all zeros, and written: no bomb, as the disk holds it
        sh(x.id, "head -c 300000000 /dev/zero > /zeros", ok=True)
        b.berth("checkpoint", x.id, ok=True)
        file, _ = export(f"{x.id}@k1")
        one = load(file)
        try:
            assert sh(one, "stat -c %s /zeros", ok=True).out == "300000000\n"
        finally:
            b.berth("rm", "-f", one)
        # and the same bound for an image
        b.berth("commit", f"{x.id}@k1", "zeros:1", ok=True)
        assert b.berth("run", "zeros:1", "/bin/true").code == 0
        b.berth("image", "rm", "zeros:1", ok=True)
        # what a disk of 1 GiB cannot hold, and the import would not take
        for n, size in ((2, 1 << 40), (3, 3 << 30)):
            sh(x.id, f"rm -f /zeros; truncate -s {size} /holes", ok=True)
            b.berth("checkpoint", x.id, ok=True)
            for p in (b.berth("checkpoint", "export", "-o", b.tmp("holes.tar"), f"{x.id}@k{n}"), b.berth("commit", f"{x.id}@k{n}", "holes:1")):
                assert p.code and f"'holes' is {size} bytes long" in p.err and "its disk and 1 GiB" in p.err and "hint:" in p.err, p
            assert not os.path.exists(b.tmp("holes.tar"))


def test_a_layer_that_no_sandbox_could_start_with_is_refused_at_once():
    before = boxes() if os.path.isdir(os.path.join(b.root(), "state", "sandboxes")) else []
    for name, kind in (("dev", tarfile.SYMTYPE), ("proc", tarfile.REGTYPE), ("sys", tarfile.SYMTYPE)):
        for option in ((), ("--no-start",)):
            p = b.berth("checkpoint", "import", *option, made(packed([entry(name, kind, "/var/tmp")])))
            b.one_line_error(p, 125, f"/{name} of the checkpoint is not a directory")
            assert boxes() == before, p
