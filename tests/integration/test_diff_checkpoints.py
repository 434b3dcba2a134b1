# SPDX-License-Identifier: Apache-2.0
"""berth diff --from and --to: what changed between two checkpoints, or since one; hostile files in them."""
import json
import os
import shutil
import subprocess

import berthtest as b
from box import Box
from test_checkpoint import folder, ids, needs_file, sh

FIRST = r"""mkdir -p /w/d/deep; seq 30 > /w/num; echo old > /w/gone; ln -s a /w/link; printf 'a\0b' > /w/bin; mkfifo /w/fifo
echo same > /w/same; echo was > /w/d/deep/f; printf 'no newline' > /w/nn; : > /w/empty; ln -s /etc/shadow /w/out; echo x > /w/kind"""
THEN = r"""sed -i 's/^15$/fifteen/; 3d' /w/num; rm /w/gone; ln -sfn b /w/link; printf 'a\0c' > /w/bin; chmod 700 /w/fifo
touch /w/same; echo is > /w/d/deep/f; printf 'no newline, again' > /w/nn; echo full > /w/empty; printf 'new\nfile\n' > /w/new
rm /w/kind; mkdir /w/kind; echo in > /w/kind/f; mv /w/d /w/moved"""
CHANGES = {"/w": "changed", "/w/num": "changed", "/w/gone": "deleted", "/w/link": "changed", "/w/bin": "changed", "/w/fifo": "changed",
           "/w/d": "deleted", "/w/d/deep": "deleted", "/w/d/deep/f": "deleted", "/w/moved": "added", "/w/moved/deep": "added",
           "/w/moved/deep/f": "added", "/w/nn": "changed", "/w/empty": "changed", "/w/new": "added", "/w/kind": "changed",
           "/w/kind/f": "added"}
del CHANGES["/w"]   # it is a directory of the layer in both
BACK = {"added": "deleted", "deleted": "added", "changed": "changed"}


def diff(x, *options):
    return {c["path"]: c for c in json.loads(b.berth("diff", "--json", *options, x.id, ok=True).out)["changes"]}


def kinds(found):
    return {path: c["change"] for path, c in found.items()}


def loops(x):
    """Loop devices that show a file of it, besides that of its layer."""
    out = subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout
    return [line for line in out.splitlines() if x.id in line and "writable.img" not in line]


def test_each_change_is_listed_both_ways_and_up_to_now():
    with Box() as x:
        needs_file(x)
        sh(x.id, FIRST, ok=True)
        b.berth("checkpoint", "--name", "first", x.id, ok=True)
        assert not diff(x, "--from", "first")
        sh(x.id, THEN, ok=True)
        assert kinds(diff(x, "--from", "first")) == CHANGES
        second = b.berth("checkpoint", x.id, ok=True).out.strip()
        sh(x.id, "rm -r /w", ok=True)
        assert kinds(diff(x, "--from", "first", "--to", second)) == CHANGES
        assert kinds(diff(x, "--from", second, "--to", "k1")) == {p: BACK[c] for p, c in CHANGES.items()}
        assert all(c == "deleted" for c in kinds(diff(x, "--from", second)).values())
        b.berth("stop", x.id, ok=True)
        assert kinds(diff(x, "--from", "first", "--to", second)) == CHANGES
        assert diff(x, "--from", second)["/w/new"]["change"] == "deleted"
        # the comparison with now leaves nothing
        assert ids(x.id) == ["k1", second] and not loops(x), loops(x)
        assert sorted(os.listdir(folder(x))) == sorted(["k1.img", f"{second}.img", "list.json"])


def test_files_of_the_image_are_compared_with_it():
    with Box() as x:
        needs_file(x)
        b.berth("checkpoint", x.id, ok=True)
        sh(x.id, "mkdir -p /etc/new; echo x >> /etc/profile; rm /etc/fstab; chmod 700 /etc/passwd", ok=True)
        found = diff(x, "--from", "k1", "--patch")
        assert {p: found[p]["change"] for p in ("/etc/profile", "/etc/passwd", "/etc/new")} == {
            "/etc/profile": "changed", "/etc/passwd": "changed", "/etc/new": "added"}, kinds(found)
        assert "\n+x\n" in found["/etc/profile"]["patch"] and found["/etc/profile"]["patch"].startswith("--- a/etc/profile\n")
        second = b.berth("checkpoint", x.id, ok=True).out.strip()
        b.berth("undo", "--to", "k1", x.id, ok=True)
        assert "\n-x\n" in diff(x, "--from", second, "--patch")["/etc/profile"]["patch"]


def test_a_patch_makes_the_second_state_of_the_first():
    if not shutil.which("patch"):
        raise b.skip("needs patch")
    with Box() as x:
        needs_file(x)
        sh(x.id, FIRST + "\nprintf 'one\\ntwo\\n' > /w/'a name'", ok=True)
        b.berth("checkpoint", x.id, ok=True)
        here = b.tmpdir("first")
        for name in ("num", "gone", "nn", "empty"):
            b.berth("cp", f"{x.id}:/w/{name}", f"{here}/{name}", ok=True)
        sh(x.id, "sed -i 's/^15$/fifteen/; 3d; 29,$d' /w/num; echo more >> /w/num; rm /w/gone; printf 'no newline, again' > /w/nn; "
                 "seq 2000 > /w/empty; printf 'x\\ny' > /w/new", ok=True)
        text = b.berth("diff", "--from", "k1", "--patch", x.id, ok=True).out
        p = subprocess.run(["patch", "-p2", "-d", here], input=text, capture_output=True, text=True)
        assert p.returncode == 0, p
        assert sorted(os.listdir(here)) == ["empty", "new", "nn", "num"], p
        for name in os.listdir(here):
            assert b.berth("file", "read", x.id, f"/w/{name}", ok=True).out == open(f"{here}/{name}").read(), name


@b.deadline(120)
def test_hostile_files_are_named_and_not_opened():
    with Box() as x:
        needs_file(x)
        sh(x.id, "mkdir /h; cd /h; mkfifo f; ln -s /proc/self/mem l; ln -s ../../../../etc/shadow up; truncate -s 50G sparse; "
                 "printf 'x\\033]0;owned\\007\\n' > text", ok=True)
        b.berth("checkpoint", x.id, ok=True)
        sh(x.id, "cd /h; rm f; mkfifo f2; ln -sfn /etc/hostname l; truncate -s 51G sparse; printf 'y\\033[31m\\n' > text; "
                 "printf . > \"$(printf 'e\\033[2Jvil\\nA fake')\"; head -c 3000000 /dev/zero | tr '\\0' x > big; "
                 "d=.; i=0; while [ $i -lt 60 ]; do d=$d/d; mkdir $d; i=$((i+1)); done; yes | head -n 500000 > lines; chmod 0 text", ok=True)
        out = b.berth("diff", "--from", "k1", "--patch", x.id, ok=True, timeout=60).out
        assert "\nA fake" not in out and "\033[2J" not in out and "A /h/e?[2Jvil?A fake\n" in out, out[:3000]
        assert "files a/h/sparse and b/h/sparse differ (too large to show)" in out and "-link to /proc/self/mem\n+link to /etc/hostname\n" in out
        assert "b/h/big differ (too large to show)" in out and "D /h/f\n" in out and "root:" not in out
        # to a terminal nothing of a file comes as it is
        told = subprocess.run(["script", "-qec", f"{b.BERTH} diff --from k1 --patch {x.id}", "/dev/null"], env=b.environment(None),
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=60 * b.SLOW).stdout
        assert b"text" in told and b"\033" not in told and b"\007" not in told, told[:3000]


def test_wrong_words_are_refused():
    with Box() as x:
        needs_file(x)
        b.berth("checkpoint", x.id, ok=True)
        for args, code, word in ((["--to", "k1"], 2, "--to and --patch"), (["--patch"], 2, "--to and --patch"),
                                 (["--from", "k9"], 125, "no checkpoint 'k9'"), (["--from", "../k1"], 125, "no checkpoint '../k1'"),
                                 (["--from", "k1", "--to", "list"], 125, "no checkpoint 'list'"), (["--from", ""], 2, "name of the checkpoint is empty")):
            b.one_line_error(b.berth("diff", *args, x.id), code, word, "hint:")
        assert ids(x.id) == ["k1"] and not loops(x)


def test_holes_of_terabytes_take_no_time():
    """A sandbox makes such files at no cost; who compares them would read zeros for hours."""
    with Box() as x:
        needs_file(x)
        sh(x.id, "for f in same other; do truncate -s 8T /$f; echo one | dd of=/$f bs=1 seek=6000000000000 conv=notrunc; done", ok=True)
        b.berth("checkpoint", x.id, ok=True)
        sh(x.id, "touch /same; chmod 600 /same && chmod 644 /same; echo two | dd of=/other bs=1 seek=6000000000000 conv=notrunc", ok=True)
        assert b.berth("diff", "--from", "k1", x.id, ok=True, timeout=60).out == "C /other\n"
