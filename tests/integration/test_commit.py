# SPDX-License-Identifier: Apache-2.0
"""
berth commit, diff, image export: the layer made of a sandbox's changes, unpacked by umoci,
is the tree that the sandbox saw.
"""
import functools
import hashlib
import json
import os
import shutil
import socket
import stat
import subprocess
import tarfile
import time

import berthtest as b
import ocilayout as oci
import proc

COST = 46
CHANGES = """
echo new > /root/new
ln /root/new /root/hard
ln -s /nowhere /root/dangling
mkfifo /root/fifo
chown 33:44 /root/hard
chmod 4755 /root/new
rm -r /data/gone
rm /data/file
rm -r /data/again; mkdir /data/again; echo fresh > /data/again/fresh
mv /data/renamed /data/moved
echo more > /data/moved/more
rm /data/moved/sub/two
mv /data/moved/sub /data/moved/sub2
rm /data/tofile/x; rmdir /data/tofile; echo file > /data/tofile
rm /data/todir; mkdir -p /data/todir/in
chmod 700 /data/mode
mkdir -p '/data/deep/er/a b/ü'
echo x > '/data/deep/er/a b/ü/.hidden'
truncate -s 10M /data/sparse; echo end >> /data/sparse
touch -d '2001-02-03 04:05:06' /data/old
echo appended >> /data/linked1
echo 10.0.0.1 other >> /etc/hosts
echo conf > /etc/mine
echo t > /run/not-part
"""


def two_layers(path):
    """A busybox image of two layers; the second changes the first."""
    d = {"type": tarfile.DIRTYPE, "mode": 0o755}
    with open(b.BUSYBOX, "rb") as f:
        busybox = f.read()
    applets = "sh ls cat echo rm rmdir mkdir mkfifo mv ln chmod chown touch truncate stat sleep true find tar id env seq".split()
    one = [("./", d, None), ("bin", d, None), ("bin/busybox", {"mode": 0o755}, busybox)]
    one += [(f"bin/{a}", {"type": tarfile.SYMTYPE, "linkname": "busybox"}, None) for a in applets]
    one += [("root", dict(d, mode=0o700), None), ("etc", dict(d, mode=0o711, mtime=77), None), ("etc/passwd", {}, b"root:x:0:0::/root:/bin/sh\n"),
            ("tmp", dict(d, mode=0o1777), None), ("data", d, None), ("data/gone", d, None), ("data/gone/a", {}, b"a"),
            ("data/file", {}, b"f"), ("data/again", d, None), ("data/again/old", {}, b"old"),
            ("data/renamed", dict(d, uid=5, gid=6), None), ("data/renamed/one", {"uid": 7}, b"1"),
            ("data/renamed/sub", d, None), ("data/renamed/sub/two", {}, b"2"), ("data/renamed/sub/three", {"mode": 0o640}, b"3"),
            ("data/tofile", d, None), ("data/tofile/x", {}, b"x"), ("data/todir", {}, b"t"), ("data/mode", d, None),
            ("data/linked1", {}, b"linked\n"), ("data/linked2", {"type": tarfile.LNKTYPE, "linkname": "data/linked1"}, None)]
    two = [("data/renamed/four", {}, b"4"), ("data/renamed/.wh.one", {}, b""), ("data/second", {}, b"second")]
    layout = oci.Layout(path)
    layout.image([oci.tar_bytes(one), oci.tar_bytes(two)], Env=["PATH=/bin", "KEEP=1", "OLD=x"], Cmd=["/bin/sh"], Labels={"a": "1"})
    return path


def facts(path, skip=(), base=0):
    """name -> what is there, owners less base."""
    out, links = {}, {}
    for where, dirs, files in os.walk(path):
        rel_dir = os.path.relpath(where, path)
        dirs[:] = [n for n in dirs if os.path.normpath(os.path.join(rel_dir, n)) not in skip]
        for name in dirs + files:
            rel = os.path.normpath(os.path.join(rel_dir, name))
            if rel in skip:
                continue
            p = os.path.join(where, name)
            st = os.lstat(p)
            own = [x - base if base and x >= base else x for x in (st.st_uid, st.st_gid)]
            one = [oct(st.st_mode), *own]
            if not stat.S_ISDIR(st.st_mode):
                one.append(st.st_mtime_ns // 1000)
            if stat.S_ISREG(st.st_mode):
                with open(p, "rb") as f:
                    one += [st.st_size, hashlib.sha256(f.read()).hexdigest()]
                if st.st_nlink > 1:
                    links.setdefault((st.st_dev, st.st_ino), []).append(rel)
            elif stat.S_ISLNK(st.st_mode):
                one.append(os.readlink(p))
            out[rel] = one
    for group in links.values():
        if len(group) > 1:
            for rel in group:
                out[rel].append("linked with " + ",".join(sorted(group)))
    return out


OURS = ("proc", "sys", "dev", "tmp", "run", "workspace", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc")


def same(a, c, what):
    bad = [f"{k}: {a.get(k)} / {c.get(k)}" for k in sorted(set(a) | set(c)) if a.get(k) != c.get(k)]
    assert not bad, f"{what}: {len(bad)} differ\n" + "\n".join(bad[:20])


def cleaned(test):
    """Removes the test's sandboxes at its end."""
    @functools.wraps(test)
    def inner():
        try:
            test()
        finally:
            for name in b.berth("ps", "-aq").out.split():
                b.berth("rm", "-f", name)
    return inner


def setup():
    b.berth("image", "import", two_layers(b.tmp("oci")), "base:1", ok=True)


def sandbox_dir(name):
    return os.path.join(b.root(), "state/sandboxes", json.loads(b.berth("inspect", name, ok=True).out)["id"])


def store_tree(image):
    """The directories of the image's layers, top first."""
    r = json.loads(b.berth("image", "inspect", image, ok=True).out)
    return [os.path.join(b.root(), "state/store/layers", x["chain_id"][7:]) for x in reversed(r["layers"])]


def mount(*words):
    subprocess.run(["mount", *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def seen_by(name, layers):
    """What the stopped sandbox would see: its writable layer over its image, by the kernel."""
    with open(sandbox_dir(name) + "/range") as f:
        base = int(f.read())
    w, m = b.tmpdir("w-" + name), b.tmpdir("m-" + name)
    if os.path.exists(sandbox_dir(name) + "/writable.img"):
        mount("-o", "loop,ro,noload", sandbox_dir(name) + "/writable.img", w)
        upper = w + "/upper"
    else:
        upper = sandbox_dir(name) + "/writable/upper"
    try:
        mount("-t", "overlay", "-o", f"ro,redirect_dir=follow,lowerdir={upper}:" + ":".join(layers), "none", m)
        try:
            return facts(m, OURS, base)
        finally:
            subprocess.run(["umount", m], check=True)
    finally:
        subprocess.run(["umount", w], stderr=subprocess.DEVNULL)


def umoci_unpack(image):
    """The image as others see it: exported, unpacked by umoci."""
    layout = b.tmp("out-" + image.replace(":", "-"))
    b.berth("image", "export", image, layout, ok=True)
    bundle = b.tmp("bundle-" + image.replace(":", "-"))
    tag = image.split(":")[1]
    p = subprocess.run(["umoci", "unpack", "--image", f"{layout}:{tag}", bundle], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    return bundle + "/rootfs", layout


def layer_names(layout, digest):
    with open(f"{layout}/blobs/sha256/{digest[7:]}", "rb") as f:
        manifest = json.load(f)
    with tarfile.open(f"{layout}/blobs/sha256/{manifest['layers'][-1]['digest'][7:]}") as t:
        return t.getmembers()


@b.deadline(90)
@cleaned
def test_a_committed_sandbox_is_what_umoci_unpacks():
    setup()
    b.berth("create", "--name", "c", "base:1", ok=True)
    b.berth("exec", "c", "sh", "-ec", CHANGES, ok=True)
    done = json.loads(b.berth("commit", "--json", "c", "new:1", ok=True).out)
    assert done["name"] == "new:1" and done["layers"] == 3, done
    assert b.berth("exec", "c", "cat", "/root/new", ok=True).out == "new\n", "it goes on"
    rootfs, layout = umoci_unpack("new:1")
    theirs = facts(rootfs, OURS)
    b.berth("stop", "c", ok=True)
    same(seen_by("c", store_tree("base:1")), theirs, "sandbox / umoci")
    assert theirs["data/moved/sub2/three"][0] == oct(0o100640) and "data/renamed" not in theirs
    assert theirs["data/moved"][1:3] == [5, 6], "the image's owners"
    # /etc is berth's in the sandbox; in the image it is the base's
    st = os.stat(rootfs + "/etc")
    assert st.st_mode & 0o7777 == 0o711, oct(st.st_mode)
    assert sorted(os.listdir(rootfs + "/etc")) == ["mine", "passwd"]
    assert not os.path.exists(rootfs + "/run/not-part") and not os.path.exists(rootfs + "/workspace")
    names = layer_names(layout, done["digest"])
    assert not [m.name for m in names if m.isdev() and not m.isfifo()], "no devices"
    assert not [m.name for m in names if m.uid > 65535 or m.gid > 65535], "the image's ids"
    assert "data/again/.wh..wh..opq" in [m.name for m in names]
    # stopped: the same layer, bit for bit
    again = json.loads(b.berth("commit", "--json", "c", "new:2", ok=True).out)
    mine, other = (json.loads(b.berth("image", "inspect", x, ok=True).out)["layers"][-1] for x in ("new:1", "new:2"))
    assert mine["diff_id"] == other["diff_id"], (done, again)
    # skopeo sees the same digest, and our own tree of it is umoci's
    if shutil.which("skopeo"):
        raw = subprocess.run(["skopeo", "inspect", "--raw", f"oci:{layout}:1"], capture_output=True, check=True).stdout
        assert oci.digest(raw) == done["digest"]
    b.berth("image", "export", "--format", "rootfs", "new:1", b.tmp("plain.tar"), ok=True)
    os.mkdir(b.tmp("plain"))
    subprocess.run(["tar", "-C", b.tmp("plain"), "--xattrs", "-xpf", b.tmp("plain.tar")], check=True)
    same(facts(b.tmp("plain"), OURS), theirs, "export rootfs / umoci")
    assert " 0 problems" in b.berth("image", "fsck", ok=True).out


@b.deadline(60)
@cleaned
def test_diff_lists_what_commit_packs():
    setup()
    b.berth("create", "--name", "c", "base:1", ok=True)
    b.berth("exec", "c", "sh", "-ec", CHANGES, ok=True)
    done = json.loads(b.berth("commit", "--json", "c", "new:1", ok=True).out)
    layout = b.tmp("out")
    b.berth("image", "export", "new:1", layout, ok=True)
    packed, opaque = set(), set()
    for m in layer_names(layout, done["digest"]):
        head, tail = os.path.split(m.name.rstrip("/"))
        if tail == ".wh..wh..opq":
            opaque.add("/" + head)
        else:
            packed.add(os.path.join("/", head, tail.removeprefix(".wh.")))
    changes = json.loads(b.berth("diff", "--json", "c", ok=True).out)["changes"]
    # one mark in the layer for all that is gone from a directory
    listed = {c["path"] for c in changes if c["change"] != "deleted" or os.path.dirname(c["path"]) not in opaque}
    packed.add("/etc")  # a directory that only has children changed keeps the image's entry
    assert packed == listed, (sorted(packed - listed), sorted(listed - packed))


@b.deadline(60)
@cleaned
def test_diff_tells_renamed_and_replaced_directories_entry_by_entry():
    """As comparing the two trees says: what is new, what is gone (not what is below it), what is another."""
    setup()
    b.berth("create", "--name", "c", "base:1", ok=True)
    b.berth("exec", "c", "sh", "-ec", CHANGES + """
mkdir -p /data/nest/in; mv /data/moved /data/nest/in/far; mv /data/nest /data/nest2
mv /data/mode /data/gone2; mv /data/again /data/mode
mkdir /data/renamed; echo other > /data/renamed/four
mkdir /data/x; mv /data/x /data/gone; echo y > /data/gone/a
""", ok=True)
    old = facts(b.berth("image", "export", "--format", "rootfs", "base:1", b.tmp("old.tar"), ok=True) and unpacked("old"), OURS)
    for running in (True, False):
        if not running:
            b.berth("stop", "c", ok=True)
        listed = {c["path"][1:]: c["change"] for c in json.loads(b.berth("diff", "--json", "c", ok=True).out)["changes"]}
        b.berth("commit", "c", f"new:{int(running)}", ok=True)
        new = facts(umoci_unpack(f"new:{int(running)}")[0], OURS)
        here = {k: v for k, v in listed.items() if k not in OURS and not k.startswith("etc/")}
        same({k: "added" for k in new.keys() - old.keys()}, {k: v for k, v in here.items() if v == "added"}, "tree / diff")
        gone = {k: "deleted" for k in old.keys() - new.keys()
                if new.get(os.path.dirname(k), [""])[0][:3] in ("", "0o4") and os.path.dirname(k) not in old.keys() - new.keys()}
        same(gone, {k: v for k, v in here.items() if v == "deleted"}, "tree / diff")
        # a copy of one of two links leaves the other as it was
        lone = {k: [x for x in v if not str(x).startswith("linked")] for t in (old, new) for k, v in t.items()}
        changed = {k for k in old.keys() & new.keys() if lone[k] != [x for x in old[k] if not str(x).startswith("linked")]}
        told = {k for k, v in here.items() if v == "changed"}
        assert changed <= told and told <= old.keys() & new.keys(), (changed - told, told - new.keys())


def unpacked(name):
    os.mkdir(b.tmp(name))
    subprocess.run(["tar", "-C", b.tmp(name), "--xattrs", "-xpf", b.tmp(name + ".tar")], check=True)
    return b.tmp(name)


@b.deadline(60)
@cleaned
def test_commit_changes_the_config():
    setup()
    b.berth("create", "--name", "c", "base:1", ok=True)
    b.berth("exec", "c", "sh", "-c", "echo 1 > /x", ok=True)
    b.berth("commit", "c", "new", "-e", "OLD=y", "--env", "MORE=z=1", "--cmd", '["/bin/cat","/x"]', "-w", "/data", "-u", "3:4",
            "-l", "b=2", "--author", "me", "-m", "why", ok=True, env={"SOURCE_DATE_EPOCH": "86400"})
    r = json.loads(b.berth("image", "inspect", "new", ok=True).out)
    assert r["env"] == ["PATH=/bin", "KEEP=1", "OLD=y", "MORE=z=1"], r["env"]
    assert (r["cmd"], r["workdir"], r["user"], r["labels"]) == (["/bin/cat", "/x"], "/data", "3:4", {"a": "1", "b": "2"}), r
    config = r["image_config"]
    assert config["created"] == "1970-01-02T00:00:00Z" and config["author"] == "me", config
    assert len(config["history"]) == 3 and config["history"][-1]["comment"] == "why", config["history"]
    assert b.run("new", ok=True).out == "1\n"
    assert b.run("new", "id", "-u", ok=True).out == "3\n"
    # only the config: no layer more
    b.berth("create", "--name", "d", "new", ok=True)
    done = json.loads(b.berth("commit", "--json", "d", "newer", "--entrypoint", "echo hi", ok=True).out)
    assert done["layers"] == 3, done
    assert b.run("newer", ok=True).out == "hi\n"
    history = b.berth("image", "history", "newer", ok=True).out
    assert history.count("berth commit") == 2, history


@cleaned
def test_commit_says_what_it_cannot_do():
    setup()
    b.berth("create", "--name", "h", "host", ok=True)
    r = b.berth("commit", "h", "x")
    assert r.code == 2 and "wrote no files" in r.err, r
    for words, code in ((["nosuch", "x"], 125), (["h"], 2), (["h", "UPPER"], 2), (["h", "x", "--env", "novalue"], 2),
                        (["h", "x", "--cmd", "[1]"], 2), (["h", "x", "--compression", "xz"], 2), (["h", "x", "-w", "rel"], 2)):
        r = b.berth("commit", *words)
        assert r.code == code and "hint" in r.err or code == 2, b.describe(r)
    b.berth("create", "--name", "c", "base:1", ok=True)
    assert b.berth("commit", "c", "UPPER").code == 2
    assert b.berth("commit", "c", "host").code == 2
    assert b.berth("image", "ls", "-q", ok=True).out.split() == ["base:1"]


@b.deadline(60)
@cleaned
def test_the_sandbox_stands_still_and_goes_on_whatever_happens():
    setup()
    b.berth("create", "--name", "c", "base:1", ok=True)
    b.berth("exec", "-d", "c", "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > /t; mv /t /a; echo $i > /t; mv /t /b; done", ok=True)
    b.wait_for(lambda: not b.berth("exec", "c", "cat", "/b").code, what="the loop")
    for turn in range(3):
        b.berth("commit", "-q", "c", f"t:{turn}", ok=True)
        got = b.run(f"t:{turn}", "sh", "-c", "cat /a /b", ok=True).out.split()
        assert len(got) == 2 and 0 <= int(got[0]) - int(got[1]) <= 1, got
    # killed in the middle: the sandbox is not left frozen
    for at in (0.0, 0.02, 0.05):
        p = b.start("commit", "c", "killed")
        time.sleep(at)
        b.kill_tree(p.pid, including=True)
        b.stop(p)
        before = b.berth("exec", "c", "cat", "/a", ok=True, timeout=10).out
        b.wait_for(lambda: b.berth("exec", "c", "cat", "/a", ok=True, timeout=10).out != before, what="the loop going on")
    b.berth("pause", "c", ok=True)
    b.berth("commit", "c", "paused", ok=True)
    stats = json.loads(b.berth("inspect", "c", ok=True).out)
    b.berth("resume", "c", ok=True)
    assert stats
    assert " 0 problems" in b.berth("image", "fsck", ok=True).out


@b.deadline(90)
@cleaned
def test_a_killed_commit_leaves_only_whole_layers():
    """kill -9 at 10 points (20 in make check-all)."""
    setup()
    b.berth("create", "--name", "c", "base:1", ok=True)
    b.berth("exec", "c", "sh", "-ec", "mkdir /many; for i in $(seq 300); do echo $i > /many/$i; done", ok=True)
    began = time.monotonic()
    b.berth("commit", "c", "whole", ok=True)
    whole = time.monotonic() - began
    b.berth("image", "rm", "whole", ok=True)
    killed = 0
    points = b.times(10, 20)
    for i in range(points):
        began = time.monotonic()
        p = b.start("commit", "c", "k")
        try:
            p.wait(whole * 1.1 * i / points)    # the point to hit
            whole = time.monotonic() - began    # the one before was slower
        except subprocess.TimeoutExpired:
            killed += 1
        victims = proc.descendants(p.pid)
        for pid in victims:
            proc.kill(pid)
        b.kill_tree(p.pid, including=True)
        b.stop(p)
        out = b.berth("image", "fsck")
        assert " 0 problems" in out.out, f"kill {i}: {b.describe(out)}"
        if not b.berth("image", "inspect", "k").code:
            b.berth("image", "rm", "k", ok=True)
        b.berth("image", "gc", ok=True)
        store = os.path.join(b.root(), "state/store")
        assert len(os.listdir(store + "/layers")) == 2 and not os.listdir(store + "/tmp"), f"kill {i}"
    assert killed >= points // 4, killed
    b.berth("commit", "c", "k", ok=True)
    assert b.run("k", "cat", "/many/300", ok=True).out == "300\n"


@b.deadline(60)
@cleaned
def test_commits_at_once():
    setup()
    for n in "ab":
        b.berth("create", "--name", n, "base:1", ok=True)
        b.berth("exec", n, "sh", "-c", "echo same > /x; touch -d '2001-01-01 00:00:00' /x", ok=True)
    runs = [b.start("commit", n, f"{n}:1", "--label", "k=v", env={"SOURCE_DATE_EPOCH": "0"}) for n in "ab"]
    runs.append(b.start("image", "import", b.tmp("oci"), "third"))
    for p in runs:
        out, err = p.communicate(timeout=30 * b.SLOW)
        assert p.returncode == 0, err
    a, c = (json.loads(b.berth("image", "inspect", n + ":1", ok=True).out) for n in "ab")
    assert a["layers"] == c["layers"] and a["digest"] == c["digest"], (a, c)
    # one sandbox, two commits: the second says so, or comes after
    runs = [b.start("commit", "a", f"twice:{i}") for i in range(2)]
    codes = []
    for p in runs:
        out, err = p.communicate(timeout=30 * b.SLOW)
        codes.append(p.returncode)
        assert p.returncode == 0 or b"another commit" in err, err
    assert 0 in codes
    assert " 0 problems" in b.berth("image", "fsck", ok=True).out


@cleaned
def test_hostile_writable_layer():
    """I22, I23: what a sandbox can leave in its files, and what a layer may not hold."""
    setup()
    b.berth("create", "--name", "c", "base:1", ok=True)
    b.berth("exec", "c", "sh", "-c", "mkdir /h; echo x > /h/.wh.second; echo y > /data/.wh..wh..opq; mkdir /h/.wh.dir; echo z > /h/.wh.dir/z; "
            "echo ok > /h/ok; ln -s ../../../../../../../../../etc/passwd /h/link", ok=True)
    b.berth("stop", "c", ok=True)
    w = b.tmpdir("w")
    img = sandbox_dir("c") + "/writable.img"
    if os.path.exists(img):
        mount("-o", "loop", img, w)
        h = w + "/upper/h"
    else:
        h = sandbox_dir("c") + "/writable/upper/h"
    try:
        os.mknod(h + "/mem", 0o666 | stat.S_IFCHR, os.makedev(1, 1))
        os.mknod(h + "/sda", 0o666 | stat.S_IFBLK, os.makedev(8, 0))
        s = socket.socket(socket.AF_UNIX)
        s.bind(h + "/sock")
        s.close()
        os.setxattr(h + "/ok", "user.kept", b"1")
        os.setxattr(h + "/ok", "user.overlay.x", b"1")
        os.setxattr(h + "/ok", "security.capability", bytes.fromhex("0100000200000080000000000000000000000000"))
    finally:
        subprocess.run(["umount", w], stderr=subprocess.DEVNULL)
    done = json.loads(b.berth("commit", "--json", "c", "new", ok=True).out)
    assert done["skipped"]["specials"] >= 6, done
    tree = store_tree("new")[0]
    assert sorted(os.listdir(tree + "/h")) == ["link", "ok"], os.listdir(tree + "/h")
    assert os.listxattr(tree + "/h/ok") == ["user.kept"]
    assert os.readlink(tree + "/h/link").endswith("etc/passwd")
    assert b.run("new", "cat", "/data/second", ok=True).out == "second"


def with_network(*args, **kw):
    """With the network of whoever started the tests, which tests do not have."""
    pid, mine = os.getpid(), os.readlink("/proc/self/ns/net")
    while pid > 1 and os.readlink(f"/proc/{pid}/ns/net") == mine:
        pid = proc.stat(pid)[1]
    return b.berth(*args, prefix=("nsenter", f"--net=/proc/{pid}/ns/net"), timeout=280, **kw)


@b.deadline(300)
@cleaned
def test_bootstrap_makes_an_image_of_packages():
    if not shutil.which("mmdebstrap"):
        raise b.skip("needs mmdebstrap")
    r = with_network("image", "bootstrap", "py", "--variant", "essential", "--packages", "python3-minimal", "--json",
               env={"SOURCE_DATE_EPOCH": "1750000000"})
    if r.code and "can it be reached" in r.err:
        raise b.skip("no mirror: " + r.err[:200])
    b.expect_code(r, 0)
    image = json.loads(b.berth("image", "inspect", "py", ok=True).out)
    assert image["digest"] == json.loads(r.out)["digest"] and image["created"] == "2025-06-15T15:06:40Z", image["created"]
    assert image["cmd"] == ["/bin/bash"] and "LANG=C.UTF-8" in image["env"], image
    assert image["labels"]["berth.bootstrap.packages"] == "python3-minimal"
    assert b.run("py", "python3", "-c", "import sys; print(sys.version_info[0])", ok=True).out == "3\n"
    assert b.run("py", input="echo $0 $LANG\n", ok=True).out == "/bin/bash C.UTF-8\n"
    tree = store_tree("py")[0]
    assert not os.path.exists(tree + "/etc/hostname"), "nothing of this host"
    assert not [n for n in os.listdir(tree + "/var/lib/apt/lists") if "Packages" in n]
    newest = max(os.lstat(os.path.join(d, f)).st_mtime for d, _, files in os.walk(tree + "/etc") for f in files)
    assert newest <= 1750000000, newest


def test_a_bootstrap_that_is_killed_names_the_package():
    if not os.path.exists("/usr/bin/mmdebstrap"):
        raise b.skip("needs a file in whose place the program is put")
    def bootstrap(*lines, options=()):
        fake = b.write(b.tmp("mmdebstrap"), "#!/bin/sh\nexec >&2\n" + "\n".join(lines) + "\n", 0o755)
        proc.bind(fake, "/usr/bin/mmdebstrap")
        try:
            return b.berth("image", "bootstrap", *options, "x")
        finally:
            subprocess.run(["umount", "/usr/bin/mmdebstrap"], check=True)
    before = ("echo 'I: installing essential packages...'", "echo 'Setting up base-files (12.4) ...'",
              "echo 'I: installing remaining packages inside the chroot...'")
    for options in ((), ("--json",)):
        r = bootstrap(*before, "echo 'Unpacking libpython3-stdlib:amd64 (3.11) ...'", "echo 'Setting up python3-minimal (3.11.2-1+b1) ...'",
                      "kill -9 $$", options=options)
        b.expect(r.code == 125 and "killed by signal 9 while it installed package python3-minimal; hint:" in r.err or
                 "killed by signal 9 while it installed package python3-minimal\"" in r.err, r, "the package is not named")
        # its workers were killed, and it ends by itself
        r = bootstrap(*before, "echo 'Selecting previously unselected package git.'", "echo 'E: setup failed: E: progress parsing failed'", "exit 1",
                      options=options)
        b.expect(r.code == 125 and "mmdebstrap failed while it installed package git: setup failed" in r.err, r, "the package is not named")
        r = bootstrap(*before, "echo 'dpkg: error processing package man-db (--configure):'",
                      "echo ' installed man-db package post-installation script subprocess was killed by signal (Killed)'",
                      "echo 'Setting up less (1) ...'", "echo 'E: Sub-process dpkg returned an error code (1)'", "exit 1", options=options)
        b.expect(r.code == 125 and "mmdebstrap failed at package man-db: Sub-process dpkg" in r.err, r, "the package is not named")
        # before any: none is named
        r = bootstrap(*before, "kill -9 $$", options=options)
        b.expect(r.code == 125 and "killed by signal 9 before it installed a package" in r.err, r, "a package is named")
        r = bootstrap(*before, "echo 'E: Unable to locate package nosuch'", "exit 1", options=options)
        b.expect(r.code == 125 and "mmdebstrap failed: Unable to locate package nosuch" in r.err, r, "what is wrong is not told")
    assert b.berth("image", "ls", "-q", ok=True).out == ""


def test_bootstrap_says_what_is_wrong():
    for words, code, text in ((["x", "--variant", "foo"], 2, "minbase"), (["x", "--packages", "-o,foo"], 2, "python3,git"),
                              (["x", "--packages", "a b"], 2, "malformed"), (["x", "--suite", "../x"], 2, "bookworm"),
                              (["x", "--mirror", "nowhere"], 2, "http"), (["UPPER"], 2, "malformed"), ([], 2, "hint")):
        r = b.berth("image", "bootstrap", *words)
        assert r.code == code and text in r.err, b.describe(r)
    # without the program: a mount namespace in which it is not there
    b.write(b.tmp("none"), "", 0o644)
    there = os.path.exists("/usr/bin/mmdebstrap")
    if there:
        proc.bind(b.tmp("none"), "/usr/bin/mmdebstrap")
    try:
        r = b.berth("image", "bootstrap", "x")
    finally:
        if there:
            subprocess.run(["umount", "/usr/bin/mmdebstrap"], check=True)
    b.one_line_error(r, 125, "mmdebstrap", "apt-get install mmdebstrap")
    assert b.berth("image", "ls", "-q", ok=True).out == ""


@b.deadline(60)
@cleaned
def test_a_stopped_sandbox_keeps_its_image():
    setup()
    b.berth("create", "--name", "c", "base:1", ok=True)
    b.berth("exec", "c", "sh", "-c", "echo 1 > /x", ok=True)
    b.berth("stop", "c", ok=True)
    assert b.berth("image", "rm", "base:1").code == 125, "in use"
    b.berth("image", "rm", "-f", "base:1", ok=True)
    b.berth("image", "gc", ok=True)
    assert b.berth("image", "inspect", "base:1").code == 125
    # another image under the same name is not the sandbox's
    other = oci.Layout(b.tmp("other"))
    other.image([oci.tar_bytes([("nothing", {}, b"")])])
    b.berth("image", "import", b.tmp("other"), "base:1", ok=True)
    b.berth("start", "c", ok=True)
    assert b.berth("exec", "c", "cat", "/x", "/data/second", ok=True).out == "1\nsecond"
    b.berth("commit", "c", "rescued", ok=True)
    b.berth("rm", "-f", "c", ok=True)
    b.berth("image", "rm", "rescued", "base:1", ok=True)
    b.berth("image", "gc", ok=True)
    assert not os.listdir(os.path.join(b.root(), "state/store/layers"))
