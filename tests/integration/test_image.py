# SPDX-License-Identifier: Apache-2.0
"""berth image: import from every kind of source, compare with umoci, lie to it, kill it.

Attacks S10 of SECURITY.md.
"""
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import berthtest as b
import ocilayout as oci
import proc
from treefacts import same, tree

COST = 140
CACHE = "/var/tmp/berth-test-cache"
MIRROR = "http://deb.debian.org/debian"


def need(*programs):
    for p in programs:
        if not shutil.which(p):
            raise unittest.SkipTest(f"{p} is not installed")


def debian_tar():
    """A Debian root file system, made once; without what is only more of the same."""
    path = os.path.join(CACHE, "minbase.tar")
    if os.path.exists(path):
        return path
    need("mmdebstrap")
    os.makedirs(CACHE, exist_ok=True)
    mine = f"{path}.{os.getpid()}.tar"
    less = [f"--dpkgopt=path-exclude=/usr/share/{x}/*" for x in ("doc", "locale", "man")]
    p = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", *less, "bookworm", mine, MIRROR], capture_output=True,
                       text=True, preexec_fn=proc.in_machine_network)
    if p.returncode:
        if os.path.exists(mine):
            os.unlink(mine)
        raise AssertionError("mmdebstrap: " + p.stderr[-1500:])
    os.rename(mine, path)
    return path


def skip_devices(t):
    """umoci makes the device nodes of the archive, we leave them out."""
    bad = {k for k, v in t.items() if stat.S_IFMT(int(v[0], 8)) in (stat.S_IFCHR, stat.S_IFBLK)}
    return {k: v for k, v in t.items() if k not in bad}


@b.long_proof("makes an image of Debian packages")
def test_real_debian_image_equals_what_umoci_unpacks():
    need("umoci", "skopeo")
    src = debian_tar()
    with oci.Place() as p:
        layout = p / "oci"
        with open(src, "rb") as f:
            oci.Layout(layout).image([f.read()], ref="base")
        # raw: without the bundle's list of what it has just written
        subprocess.run(["umoci", "raw", "unpack", "--image", layout + ":base", p / "theirs"], check=True, capture_output=True)
        theirs = skip_devices(tree(p / "theirs", dir_times=True))
        p.ok("import", layout, "deb:oci")
        subprocess.run(["skopeo", "copy", "-q", f"oci:{layout}:base", f"docker-archive:{p / 'docker.tar'}:deb:docker"],
                       check=True)
        subprocess.run(["tar", "-C", layout, "-cf", p / "oci.tar", "."], check=True)
        p.ok("import", p / "docker.tar")
        p.ok("import", p / "oci.tar", "deb:tar")
        same(tree(p.tree("deb:oci"), dir_times=True), theirs, "import")
        # however it came, one chain id is one layer
        assert len(p.layers()) == 1 and p.tree("deb:oci") == p.tree("deb:docker") == p.tree("deb:tar")
        # the tree itself, packed again, is the same once more
        p.ok("import", p.tree("deb:oci"), "deb:dir")
        same(tree(p.tree("deb:dir"), dir_times=True), theirs, "directory")
        assert " 0 problems" in p.ok("fsck")


test_real_debian_image_equals_what_umoci_unpacks.deadline = 240


def test_layers_with_whiteouts_under_overlayfs_equal_umoci():
    need("umoci", "zstd")
    d, f = {"type": tarfile.DIRTYPE, "mode": 0o755}, {}
    sticky = {"type": tarfile.DIRTYPE, "mode": 0o1777, "uid": 7, "gid": 8}
    one = oci.tar_bytes([("./", d, None), ("etc", d, None), ("etc/a", f, b"a"), ("etc/b", f, b"b"),
                         ("dir", d, None), ("dir/x", f, b"x"), ("dir/y", f, b"y"), ("tmp", sticky, None),
                         ("gone", d, None), ("gone/deep", d, None), ("gone/deep/z", f, b"z"),
                         ("link", {"type": tarfile.SYMTYPE, "linkname": "etc"}, None), ("re", d, None),
                         ("re/old", f, b"old"), ("f2d", f, b"file"), ("d2f", d, None), ("d2f/q", f, b"q")])
    two = oci.tar_bytes([("./", d, None), ("etc/.wh.a", f, b""), ("dir", d, None), ("dir/.wh..wh..opq", f, b""),
                         ("dir/new", f, b"new"), (".wh.gone", f, b""), ("tmp/only", f, b"t"),
                         (".wh.re", f, b""), ("re", d, None), ("re/fresh", f, b"fresh"),
                         ("f2d", d, None), ("f2d/in", f, b"in"), ("d2f", f, b"now a file")])
    three = oci.tar_bytes([("./", d, None), ("gone", d, None), ("gone/back", f, b"back"), ("etc/c", f, b"c"),
                           ("hard", f, b"hard"), ("hard2", {"type": tarfile.LNKTYPE, "linkname": "hard"}, None)])
    with oci.Place() as p:
        oci.Layout(p / "oci").image([one, two, three], compress="zstd")
        gz = oci.Layout(p / "gz")
        gz.image([one, two, three])
        p.ok("import", p / "oci", "white")
        subprocess.run(["umoci", "unpack", "--image", p / "gz" + ":t", p / "bundle"], check=True,
                       capture_output=True)
        os.mkdir(p / "mnt")
        lower = ":".join(p.tree("white", i) for i in (2, 1, 0))
        subprocess.run(["mount", "-t", "overlay", "-o", "ro,lowerdir=" + lower, "none", p / "mnt"], check=True)
        try:
            same(tree(p / "mnt", times=False, root=True), tree(p / "bundle/rootfs", times=False, root=True), "overlay")
            st = os.stat(p / "mnt/tmp")
            assert (oct(st.st_mode), st.st_uid, st.st_gid) == (oct(0o41777), 7, 8), "an unlisted parent keeps its mode"
        finally:
            subprocess.run(["umount", p / "mnt"], check=True)
        assert os.getxattr(p.tree("white", 1) + "/dir", "trusted.overlay.opaque") == b"y"
        # the second import finds everything there
        before = os.stat(p.tree("white", 1)).st_ino
        p.ok("import", p / "oci", "again")
        assert os.stat(p.tree("again", 1)).st_ino == before


def simple(path, ref="t", **config):
    layout = oci.Layout(path)
    d = layout.image([oci.tar_bytes([("hello", {}, b"hello\n")])], ref=ref, **config)
    return layout, d


def bad_documents(p):
    """(name, layout that must be refused): I25-I29."""
    base = oci.tar_bytes([("hello", {}, b"hello\n")])
    count = 0

    def make():
        nonlocal count
        count += 1
        layout = oci.Layout(p / f"bad{count}")
        desc, diff = layout.layer(base)
        return layout, desc, diff

    def whole(layout, manifest, **more):
        text = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
        layout.index(layout.desc(text, more.pop("type", oci.T_MANIFEST), **more))
        return layout.path

    for name, change in (
            ("both layers and manifests", {"manifests": []}),
            ("layers that are no list", {"layers": {}}), ("no layers", {"layers": []}), ("no config", {"config": None}),
            ("schema version 1", {"schemaVersion": 1}), ("schema version missing", {"schemaVersion": None}),
            ("media type of an index", {"mediaType": oci.T_INDEX}),
            ("media type of Docker's", {"mediaType": "application/vnd.docker.distribution.manifest.v2+json"}),
            ("media type unknown", {"mediaType": "text/html"}), ("fsLayers", {"fsLayers": [], "manifests": []})):
        layout, desc, diff = make()
        m = layout.manifest(layout.config([diff]), [desc])
        m.update(change)
        yield name, whole(layout, m)
    for name, change in (
            ("digest traversal", {"digest": "sha256:../../../../etc/passwd"}), ("digest upper case", {"digest": None}),
            ("digest short", {"digest": "sha256:ab"}), ("digest long", {"digest": "sha256:" + "a" * 129}),
            ("digest algorithm", {"digest": "md5:" + "a" * 32}), ("digest sha512", {"digest": "sha512:" + "a" * 128}),
            ("digest with slash", {"digest": "sha256:" + "a" * 62 + "/x"}), ("digest number", {"digest": 7}),
            ("size too small", {"size": 10}), ("size too large", {"size": 1 << 40}), ("size negative", {"size": -1}),
            ("size float", {"size": 1.5}), ("size missing", {"size": None}), ("size string", {"size": "10"}),
            ("layer of unknown type", {"mediaType": "application/vnd.example.squashfs"}),
            ("foreign layer", {"mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
                               "urls": ["http://127.0.0.1:9/x"]}),
            ("layer type of plain tar", {"mediaType": oci.T_LAYER}), ("layer type zstd", {"mediaType": oci.T_LAYER + "+zstd"})):
        layout, desc, diff = make()
        if name == "digest upper case":
            change = {"digest": desc["digest"][:7] + desc["digest"][7:].upper()}
        desc.update(change)
        yield name, whole(layout, layout.manifest(layout.config([diff]), [desc]))
    for name, config in (
            ("diff id wrong", lambda l, d: l.config(["sha256:" + "0" * 64])), ("diff ids too many", lambda l, d: l.config([d, d])),
            ("diff ids none", lambda l, d: l.config([])), ("rootfs missing", lambda l, d: dict(l.config([d]), rootfs=None)),
            ("rootfs type", lambda l, d: dict(l.config([d]), rootfs={"type": "x", "diff_ids": [d]})),
            ("user with newline", lambda l, d: l.config([d], User="root\n")),
            ("user with three parts", lambda l, d: l.config([d], User="a:b:c")),
            ("user empty group", lambda l, d: l.config([d], User="a:")),
            ("entrypoint string", lambda l, d: l.config([d], Entrypoint="/bin/sh")),
            ("cmd of numbers", lambda l, d: l.config([d], Cmd=[1])),
            ("env object", lambda l, d: l.config([d], Env={"A": "B"})),
            ("env with NUL", lambda l, d: l.config([d], Env=["A=\0B"])),
            ("workdir with control", lambda l, d: l.config([d], WorkingDir="/a\x1b")),
            ("config deep", lambda l, d: json.dumps(l.config([d])).encode()[:-1] + b',"x":' + b"[" * 100000 + b"]" * 100000 + b"}"),
            ("config duplicate keys", lambda l, d: json.dumps(l.config([d])).encode()[:-1] + b',"os":"linux"}'),
            ("config bad UTF-8", lambda l, d: json.dumps(l.config([d])).encode()[:-1] + b',"x":"\xff"}'),
            ("config 1e400", lambda l, d: json.dumps(l.config([d])).encode()[:-1] + b',"x":1e400}'),
            ("config NaN", lambda l, d: json.dumps(l.config([d])).encode()[:-1] + b',"x":NaN}'),
            ("config too large", lambda l, d: json.dumps(l.config([d], Labels={"a": "x" * (9 << 20)})).encode()),
            ("config list", lambda l, d: b"[]"), ("other platform", lambda l, d: dict(l.config([d]), os="windows"))):
        layout, desc, diff = make()
        yield name, whole(layout, layout.manifest(config(layout, diff), [desc]))
    for name, text in (
            ("manifest trailing text", lambda m: m + b"{}"), ("manifest duplicate keys", lambda m: m[:-1] + b',"layers":[]}'),
            ("manifest NUL", lambda m: m + b"\0"), ("manifest empty", lambda m: b""), ("manifest list", lambda m: b"[]"),
            ("manifest 5 MiB", lambda m: m[:-1] + b',"x":"' + b"x" * (5 << 20) + b'"}')):
        layout, desc, diff = make()
        yield name, whole(layout, text(json.dumps(layout.manifest(layout.config([diff]), [desc])).encode()))
    for name, more in (("manifest size", {"size": 3}), ("manifest digest", {"digest": "sha256:" + "1" * 64}),
                       ("descriptor type Docker's", {"type": "application/vnd.docker.distribution.manifest.v2+json"}),
                       ("descriptor type index", {"type": oci.T_INDEX})):
        layout, desc, diff = make()
        yield name, whole(layout, layout.manifest(layout.config([diff]), [desc]), **more)
    for name, change in (("config is a FIFO", os.mkfifo), ("config is a link out", lambda x: os.symlink("/etc/passwd", x)),
                         ("config is missing", lambda x: None), ("config is a directory", os.mkdir)):
        layout, desc, diff = make()
        m = layout.manifest(layout.config([diff]), [desc])
        path = os.path.join(layout.path, "blobs/sha256", m["config"]["digest"][7:])
        os.unlink(path)
        change(path)
        yield name, whole(layout, m)
    for name, index in (("index empty", b""), ("index without manifests", b'{"schemaVersion":2}'),
                        ("index with layers", b'{"schemaVersion":2,"manifests":[],"layers":[]}'),
                        ("index of no image", b'{"schemaVersion":2,"manifests":[]}')):
        layout, desc, diff = make()
        layout.write("index.json", index)
        yield name, layout.path
    layout, desc, diff = make()
    loop = json.dumps({"schemaVersion": 2, "mediaType": oci.T_INDEX, "manifests": []}).encode()
    for _ in range(6):
        loop = json.dumps({"schemaVersion": 2, "manifests": [layout.desc(loop, oci.T_INDEX)]}).encode()
    layout.write("index.json", loop)
    yield "indexes nested six deep", layout.path
    layout, desc, diff = make()
    whole(layout, layout.manifest(layout.config([diff]), [desc]))
    layout.write("oci-layout", b'{"imageLayoutVersion":"2.0.0"}')
    yield "layout version", layout.path


def test_I26_I27_I28_documents_that_lie_are_refused():
    with oci.Place() as p:
        wrong, count = [], 0
        for name, path in bad_documents(p):
            count += 1
            r = p.run("import", "--json", path, f"bad:{count}", timeout=20)
            try:
                code = json.loads(r.stderr.splitlines()[-1])["error"]["code"]
            except (IndexError, ValueError, KeyError):
                code = "?"
            fine = r.returncode in (2, 125) and code in ("corrupt", "invalid", "limit", "not-found", "unsupported") and not p.layers()
            if not fine:
                wrong.append(f"{name}: {r.returncode} {code} {r.stderr.strip()} {r.stdout.strip()}")
        assert not wrong, "\n".join(wrong)
        assert count >= 60, count
        assert p.ok("ls", "-q") == ""


test_I26_I27_I28_documents_that_lie_are_refused.deadline = 120


def test_I25_one_flipped_bit_in_any_blob_is_refused():
    rng = random.Random(1)
    with oci.Place() as p:
        layout, _ = simple(p / "oci")
        blobs = os.path.join(layout.path, "blobs/sha256")
        for name in sorted(os.listdir(blobs)):
            path = os.path.join(blobs, name)
            good = open(path, "rb").read()
            for at in [0, len(good) - 1] + [rng.randrange(len(good)) for _ in range(8)]:
                bad = bytearray(good)
                bad[at] ^= 1 << rng.randrange(8)
                for data in (bytes(bad), good + b"\0", good[:-1]):
                    with open(path, "wb") as f:
                        f.write(data)
                    r = p.run("import", layout.path, "flip")
                    assert r.returncode == 125, f"{name} byte {at}: {r.returncode} {r.stderr}"
            with open(path, "wb") as f:
                f.write(good)
        assert not p.layers()
        p.ok("import", layout.path, "flip")


def test_I29_urls_of_layers_are_never_followed():
    with oci.Place() as p, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        for media in (oci.T_LAYER + "+gzip", "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
                      "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"):
            layout = oci.Layout(p / ("l" + str(len(media))))
            desc, diff = layout.layer(oci.tar_bytes([("hello", {}, b"hello\n")]))
            desc.update(mediaType=media, urls=[url])
            os.unlink(os.path.join(layout.path, "blobs/sha256", desc["digest"][7:]))
            m = layout.manifest(layout.config([diff]), [desc])
            layout.index(layout.desc(json.dumps(m).encode(), oci.T_MANIFEST))
            q = p.run("import", layout.path, "x")
            assert q.returncode == 125, q.stderr
        try:
            listener.accept()
            raise AssertionError("the url was fetched")
        except BlockingIOError:
            pass


def test_I32_file_system_images_are_refused_by_type():
    with oci.Place() as p:
        for media in ("application/vnd.example.squashfs", "application/vnd.erofs.layer.v1", oci.T_LAYER + "+erofs",
                      "application/vnd.oci.image.layer.v1.ext4"):
            layout = oci.Layout(p / "l")
            desc, diff = layout.layer(b"hsqs" + bytes(8192), compress="none")
            m = layout.manifest(layout.config([diff]), [dict(desc, mediaType=media)])
            layout.index(layout.desc(json.dumps(m).encode(), oci.T_MANIFEST))
            q = p.run("import", layout.path, "x")
            assert q.returncode == 125 and "cannot be unpacked" in q.stderr, q.stderr
            shutil.rmtree(p / "l")
        # and one that calls itself a tar is none
        layout = oci.Layout(p / "l")
        desc, diff = layout.layer(b"hsqs" + bytes(8192), compress="none")
        m = layout.manifest(layout.config([diff]), [desc])
        layout.index(layout.desc(json.dumps(m).encode(), oci.T_MANIFEST))
        assert p.run("import", layout.path, "x").returncode == 125
        assert not p.layers()


def test_config_is_kept_and_cleaned():
    with oci.Place() as p:
        simple(p / "oci", Env=["A=1", "HOST_SECRET", "*", "HOST*=x", "=x", "LD_PRELOAD=x", "EMPTY="], User="1000:1000",
               WorkingDir="srv/app", Entrypoint=["/e", "-x"], Cmd=["c"], Labels={"k": "v"},
               Volumes={"": {}, "/../../": {}}, StopSignal="SIGQUIT")
        os.environ["HOST_SECRET"] = "canary"
        p.ok("import", p / "oci", "conf")
        r = json.loads(p.ok("inspect", "conf"))
        assert r["env"] == ["A=1", "LD_PRELOAD=x", "EMPTY="], r["env"]
        assert (r["user"], r["workdir"], r["entrypoint"], r["cmd"]) == ("1000:1000", "/srv/app", ["/e", "-x"], ["c"])
        assert (r["labels"], r["stop_signal"]) == ({"k": "v"}, "SIGQUIT")
        assert "canary" not in json.dumps(r)


def test_the_healthcheck_of_an_image_is_in_its_record_with_times_in_ms():
    good = (({"Test": ["CMD", "/check", "-v"], "Interval": 1500000000, "Timeout": 1, "Retries": 0},
             {"argv": ["/check", "-v"], "interval_ms": 1500, "timeout_ms": 1}),
            ({"Test": ["CMD-SHELL", "check || exit 1"], "StartPeriod": 2 * 10**9, "StartInterval": 3 * 10**9, "Retries": 7},
             {"argv": ["/bin/sh", "-c", "check || exit 1"], "start_period_ms": 2000, "start_interval_ms": 3000, "retries": 7}),
            ({"Test": ["NONE"], "Interval": 5}, None), ({"Test": []}, None), ({"Interval": 5}, None))
    bad = ([], {"Test": "true"}, {"Test": ["CMD"]}, {"Test": ["CMD", ""]}, {"Test": ["NONE", "x"]}, {"Test": ["CMD-SHELL", "a", "b"]},
           {"Test": ["ELSE", "x"]}, {"Test": [1]}, {"Test": ["CMD", "x"], "Interval": -1},
           {"Test": ["CMD", "x"], "Retries": "3"}, {"Test": ["CMD", "x"], "Timeout": 1.5})
    with oci.Place() as p:
        for i, (check, kept) in enumerate(good):
            simple(p / f"good{i}", Healthcheck=check)
            p.ok("import", p / f"good{i}", f"good{i}")
            assert json.loads(p.ok("inspect", f"good{i}")).get("healthcheck") == kept, check
        simple(p / "shell", Healthcheck=good[1][0], Shell=["/bin/ash", "-ec"])
        p.ok("import", p / "shell", "shell")
        assert json.loads(p.ok("inspect", "shell"))["healthcheck"]["argv"] == ["/bin/ash", "-ec", "check || exit 1"]
        for i, check in enumerate(bad):
            simple(p / f"bad{i}", Healthcheck=check)
            q = p.run("import", p / f"bad{i}", "bad")
            assert q.returncode == 125 and ("Healthcheck" in q.stderr or "Test" in q.stderr), (check, q.stderr)


def test_names_platforms_and_misuse():
    with oci.Place() as p:
        layout = oci.Layout(p / "oci")
        t = oci.tar_bytes([("f", {}, b"f")])
        ours = layout.image([t], ref="1.0")
        other = dict(layout.config([layout.layer(t)[1]]), architecture="s390x")
        m = layout.manifest(other, [layout.layer(t)[0]])
        theirs = layout.desc(json.dumps(m).encode(), oci.T_MANIFEST)
        index = {"schemaVersion": 2, "mediaType": oci.T_INDEX, "manifests": [
            dict(theirs, platform={"os": "linux", "architecture": "s390x"}),
            dict(ours, annotations=None, platform={"os": "linux", "architecture": oci.ARCH})]}
        layout.index(layout.desc(json.dumps(index).encode(), oci.T_INDEX,
                                 annotations={"org.opencontainers.image.ref.name": "example.org/team/app:1.0"}))
        assert p.ok("import", layout.path).startswith("example.org/team/app:1.0 ")
        r = json.loads(p.ok("inspect", "example.org/team/app:1.0"))
        assert r["digest"] == ours["digest"] and r["platform"] == "linux/" + oci.ARCH
        p.ok("import", layout.path, "z", "--platform", "linux/s390x")
        assert json.loads(p.ok("inspect", "z"))["platform"] == "linux/s390x"
        p.ok("import", layout.path + ":example.org/team/app:1.0", "docker.io/library/short")
        assert json.loads(p.ok("inspect", "short"))["name"] == "short:latest"
        assert json.loads(p.ok("inspect", r["digest"]))["name"]
        assert json.loads(p.ok("inspect", r["digest"][7:19]))["name"]
        for words, status, text in (
                (["import", layout.path, "z", "--platform", "linux/riscv64"], 125, "linux/s390x"),
                (["import", layout.path, "z", "--platform", "linux"], 2, "malformed"),
                (["import", layout.path, "host"], 2, "host"), (["import", layout.path, "host:1"], 2, "host"),
                (["import", layout.path, "UPPER"], 2, "malformed"), (["import", layout.path, "../x"], 2, "malformed"),
                (["import", layout.path, "a@" + r["digest"]], 2, "digest"), (["import", p / "nothing"], 125, "hint"),
                (["import", layout.path + ":nosuch", "n"], 125, "nosuch"), (["import"], 2, "hint"),
                (["import", "a", "b", "c"], 2, "too many"), (["frob"], 2, "hint"), ([], 2, "hint"),
                (["import", "--platfrom", "x"], 2, "--platform"), (["import", "--plat", "x", "y"], 2, "unknown option"),
                (["ls", "--force"], 2, "unknown option"), (["import", "--platform"], 2, "needs a value"),
                (["inspect", "nosuch"], 125, "berth image import"), (["rm", "nosuch"], 125, "nosuch"),
                (["import", "/dev/null", "x"], 2, "neither"), (["import", "/etc/hostname", "x"], 125, "")):
            q = p.run(*words)
            assert q.returncode == status and text in q.stderr, f"{words}: {q.returncode} {q.stderr}"
            assert q.stderr.count("\n") == 1 and q.stderr.startswith("berth image"), f"{words}: {q.stderr}"
        assert p.ok("rm", "-f", "nosuch") == ""
        for words in ([], ["import"], ["ls"], ["rm"], ["gc"], ["fsck"], ["inspect"]):
            assert p.ok(*words, "--help").startswith("Usage: berth image"), words


def test_directory_with_hostile_content():
    with oci.Place() as p:
        src = p / "src"
        for d in ("etc", "dev", "tmp"):
            os.makedirs(os.path.join(src, d))
        os.mkfifo(src + "/etc/passwd")
        os.mknod(src + "/dev/mem", 0o666 | stat.S_IFCHR, os.makedev(1, 1))
        with open(src + "/etc/group", "wb") as f:
            f.truncate(8 << 30)
        with open(src + "/etc/mixed", "wb") as f:
            f.truncate(3 << 20)
            f.seek(1 << 20)
            f.write(b"in the middle")
        s = socket.socket(socket.AF_UNIX)
        s.bind(src + "/tmp/s")
        open(src + "/.wh.etc", "w").close()
        os.symlink("/etc/shadow", src + "/etc/shadow")
        os.symlink("../../../../..", src + "/up")
        open(src + "/etc/far", "w").close()
        os.chown(src + "/etc/far", 3000000000, 70000)
        os.setxattr(src + "/etc/far", "user.a", b"\0\xff")
        os.setxattr(src + "/etc", "trusted.overlay.opaque", b"y")
        r = json.loads(p.ok("import", "--json", src, "dir"))["images"][0]
        assert r["skipped"]["specials"] == 4 and r["skipped"]["ids_clamped"] == 2, r
        t = p.tree("dir")
        got = sorted(os.listdir(t + "/etc"))
        assert got == ["far", "group", "mixed", "shadow"], got
        st = os.stat(t + "/etc/group")
        assert st.st_size == 8 << 30 and st.st_blocks < 100, "a sparse file stays sparse"
        with open(t + "/etc/mixed", "rb") as f:
            data = f.read()
        assert len(data) == 3 << 20 and data[1 << 20:][:13] == b"in the middle" and data.count(0) == len(data) - 13
        assert os.readlink(t + "/up") == "../../../../.."
        assert os.getxattr(t + "/etc/far", "user.a") == b"\0\xff"
        assert os.stat(t + "/etc/far").st_uid == 65534
        assert "trusted.overlay.opaque" not in os.listxattr(t + "/etc")
        assert os.listdir(t + "/dev") == []
        # the same directory is the same image
        digest = r["digest"]
        assert json.loads(p.ok("import", "--json", src, "dir2"))["images"][0]["digest"] == digest


def test_archives_from_stdin_and_in_all_compressions():
    need("gzip", "zstd", "xz")
    names = ["plain", "a" * 120, "d/" * 60 + "deep", "ümlaut", "nfd-u\u0308"]
    t = oci.tar_bytes([("./", {"type": tarfile.DIRTYPE, "mode": 0o700}, None)] + [(n, {"mtime": 1.5}, n.encode()) for n in names])
    with oci.Place() as p:
        with open(p / "r.tar", "wb") as f:
            f.write(t)
        subprocess.run(["gzip", "-k", p / "r.tar"], check=True)
        subprocess.run(["zstd", "-q", "-k", p / "r.tar"], check=True)
        for src in ("r.tar", "r.tar.gz", "r.tar.zst"):
            p.ok("import", p / src)
            with open(p / src, "rb") as f:
                p.ok("import", "-", "stdin:" + src, stdin=f)
            mine = p.tree("stdin:" + src)
            for n in names:
                with open(os.path.join(mine, n), "rb") as f:
                    assert f.read() == n.encode()
            assert os.stat(mine).st_mode & 0o7777 == 0o755
        assert p.ok("ls", "-q").split()[0] == "r:latest"
        assert len(p.layers()) == 1
        q = p.run("import", "-", input=t)
        assert q.returncode == 2 and "hint" in q.stderr, q.stderr
        subprocess.run(["xz", "-k", p / "r.tar"], check=True)
        q = p.run("import", p / "r.tar.xz")
        assert q.returncode == 125 and "xz -dc" in q.stderr, q.stderr


def big_layout(path, layers=3, files=400):
    return oci.Layout(path).image([oci.tar_bytes(
        [(f"l{l}/f{i}", {}, os.urandom(3000)) for i in range(files)]) for l in range(layers)])


def test_two_imports_of_one_image_at_once():
    with oci.Place() as p:
        big_layout(p / "oci")
        for turn in range(4):
            runs = [subprocess.Popen([oci.BERTH_IMAGE, "--store", p.store, "import", p / "oci", f"two:{i}"],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for i in range(4)]
            for r in runs:
                err = r.communicate()[1]
                assert r.returncode == 0, err
            assert " 0 problems" in p.ok("fsck") and len(p.layers()) == 3
            p.ok("rm", "two:0", "two:1", "two:2", "two:3")
            assert not p.layers(), "nothing needs them any more"


def test_I30_a_killed_import_leaves_only_whole_layers():
    with oci.Place() as p:
        big_layout(p / "oci")
        start = time.monotonic()
        p.ok("import", p / "oci", "k:0")
        whole = time.monotonic() - start
        p.ok("rm", "k:0")
        killed = 0
        points = b.times(12, 24)
        for i in range(points):
            start = time.monotonic()
            r = subprocess.Popen([oci.BERTH_IMAGE, "--store", p.store, "import", p / "oci", "k:1"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                r.wait(whole * 1.2 * i / points)    # the point to hit
                whole = time.monotonic() - start    # the one before was slower
            except subprocess.TimeoutExpired:
                r.send_signal(signal.SIGKILL)
                killed += r.wait() == -signal.SIGKILL
            # the children of a killed one end a moment later, and hold its directory until then
            b.wait_for(lambda: (p.ok("fsck"), os.listdir(p.store + "/tmp"))[1] == [], 30, f"kill {i}: an empty tmp")
            out = p.ok("fsck")
            assert " 0 problems" in out, f"kill {i}: {out}"
            p.ok("gc")
            if not p.ok("ls", "-q"):
                assert not p.layers(), f"kill {i}"
            p.run("rm", "-f", "k:1")
        assert killed >= points // 4, f"only {killed} were killed in time"
        p.ok("import", p / "oci", "k:2")
        assert len(p.layers()) == 3


test_I30_a_killed_import_leaves_only_whole_layers.deadline = 120


def test_gc_keeps_what_a_sandbox_holds():
    with oci.Place() as p:
        simple(p / "oci")
        p.ok("import", p / "oci", "held")
        p.ok("import", p / "oci", "name2")
        digest = json.loads(p.ok("inspect", "held"))["digest"]
        with open(p.store + "/holds/" + digest[7:]) as hold:
            fcntl.flock(hold, fcntl.LOCK_SH)
            p.ok("rm", "name2")
            q = p.run("rm", "held")
            assert q.returncode == 125 and "in use" in q.stderr, q.stderr
            p.ok("rm", "-f", "held")
            assert p.ok("ls", "-q") == "" and len(p.layers()) == 1
            p.ok("gc")
            assert len(p.layers()) == 1, "held"
        assert "removed 1 layer and " in p.ok("gc")
        assert not p.layers() and not os.listdir(p.store + "/holds")
        assert not os.listdir(p.store + "/blobs/sha256")


def test_gc_removes_the_record_that_a_killed_writer_began():
    with oci.Place() as p:
        simple(p / "oci")
        p.ok("import", p / "oci", "kept")
        record = os.listdir(p.store + "/images")
        with open(p.store + "/images/.%s.123.new" % record[0], "w") as part:
            part.write('{"name":')
        assert p.ok("ls", "-q").split() == ["kept:latest"], "a part is not an image"
        p.ok("gc")
        assert os.listdir(p.store + "/images") == record
        p.ok("inspect", "kept")


def test_a_layout_without_its_index_is_no_root_file_system():
    with oci.Place() as p:
        for spoil in (os.unlink, lambda x: (os.unlink(x), os.mkfifo(x)), lambda x: (os.unlink(x), os.symlink("/dev/zero", x))):
            layout, _ = simple(p / "oci")
            spoil(layout.path + "/index.json")
            q = p.run("import", layout.path, "x")
            assert q.returncode == 125 and "index.json" in q.stderr, q.stderr
            shutil.rmtree(layout.path)
        assert not p.layers()


def test_fsck_finds_damage_and_import_repairs_it():
    with oci.Place() as p:
        layout, _ = simple(p / "oci")
        p.ok("import", layout.path, "x")
        blobs = p.store + "/blobs/sha256/"
        victim = json.loads(p.ok("inspect", "x"))["layers"][0]["digest"][7:]
        with open(blobs + victim, "r+b") as f:
            f.write(b"X")
        q = p.run("fsck")
        assert q.returncode == 125 and victim in q.stdout, q.stdout
        p.run("fsck", "--repair")
        assert victim not in os.listdir(blobs)
        p.ok("import", layout.path, "x")
        assert " 0 problems" in p.ok("fsck")
        shutil.rmtree(p.tree("x"))
        assert p.run("fsck").returncode == 125
        p.ok("import", layout.path, "x")
        assert " 0 problems" in p.ok("fsck")
        # a layer is made again from its blob
        before = tree(p.tree("x"))
        shutil.rmtree(p.tree("x"))
        os.unlink(p.store + "/holds/" + json.loads(p.ok("inspect", "x"))["digest"][7:])
        assert "unpacked again" in p.ok("fsck", "--repair")
        assert " 0 problems" in p.ok("fsck")
        same(tree(p.tree("x")), before, "repaired")
        os.mknod(p.tree("x") + "/mem", 0o600 | stat.S_IFCHR, os.makedev(1, 1))
        assert p.run("fsck").returncode == 125
        assert " 0 problems" in p.ok("fsck", "--repair")
        same(tree(p.tree("x")), before, "repaired")


def damages(root):
    """What fsck must say, and what is done to a tree for that."""
    passwd, link = root + "/etc/passwd", root + "/link"
    was, link_was = os.stat(passwd), os.lstat(link)

    def edit():
        with open(passwd, "r+b") as f:
            f.write(b"R")
        os.utime(passwd, ns=(0, was.st_mtime_ns))

    def replace():
        os.unlink(passwd)
        os.mkdir(passwd)

    def point_elsewhere():
        os.unlink(link)
        os.symlink("/elsewher", link)
        os.utime(link, ns=(0, link_was.st_mtime_ns), follow_symlinks=False)

    return {
        "other bytes in '/etc/passwd'": edit,
        "another size or other links of '/etc/passwd'": lambda: os.truncate(passwd, 1),
        "another mode on '/etc/passwd'": lambda: os.chmod(passwd, 0o4755),
        "another owner of '/etc/passwd'": lambda: os.chown(passwd, 7, 7),
        "another time on '/etc/passwd'": lambda: os.utime(passwd, (1, 1)),
        "other attributes on '/etc/passwd'": lambda: os.setxattr(passwd, "user.x", b"y"),
        "another kind of file at '/etc/passwd'": replace,
        "no more '/etc/passwd'": lambda: os.unlink(passwd),
        "does not have '/etc/more'": lambda: os.symlink("passwd", root + "/etc/more"),
        "another target in '/link'": point_elsewhere,
    }


def test_fsck_compares_each_tree_with_its_blob():
    with oci.Place() as p:
        layout, d = oci.Layout(p / "oci"), {"type": tarfile.DIRTYPE, "mode": 0o755}
        below = oci.tar_bytes([("etc", d, None), ("etc/passwd", {}, b"root:x:0:0::/root:/bin/sh\n"), ("etc/gone", {}, b""),
                               ("link", {"type": tarfile.SYMTYPE, "linkname": "/etc/pass"}, None)])
        above = oci.tar_bytes([("etc/.wh.gone", {}, b""), ("implied/over", {}, b"more")])
        layout.image([below, above], ref="x")
        p.ok("import", layout.path, "x")
        assert " 0 problems" in p.ok("fsck")
        root, top = p.tree("x", 0), p.tree("x", 1)
        before = tree(root)
        for what in damages(root):
            damages(root)[what]()
            q = p.run("fsck")
            assert q.returncode == 125 and "1 problem" in q.stdout and what in q.stdout, (what, q.stdout)
            assert what in p.ok("fsck", "--repair")
            same(tree(root), before, what)
        # both at once, and one that a sandbox runs on stays
        with open(p.store + "/holds/" + json.loads(p.ok("inspect", "x"))["digest"][7:]) as hold:
            fcntl.flock(hold, fcntl.LOCK_SH)
            os.chmod(root + "/etc/passwd", 0)
            os.chmod(top + "/implied/over", 0)
            q = p.run("fsck", "--repair")
            assert q.returncode == 125 and q.stdout.count("sandboxes use it") >= 2, q.stdout
            assert stat.S_IMODE(os.stat(root + "/etc/passwd").st_mode) == 0
        assert p.ok("fsck", "--repair").count("was removed") == 2
        same(tree(root), before, "after use")
        assert " 0 problems" in p.ok("fsck")


def status_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def alive(pid):
    """Not a zombie that some slow pid 1 has not reaped yet."""
    try:
        return status_of(pid)["State"][0] not in "ZX"
    except OSError:
        return False


def test_unpacking_processes_are_confined():
    """An import that waits for the rest of its archive, looked at from outside."""
    with oci.Place() as p:
        r = subprocess.Popen([oci.BERTH_IMAGE, "--store", p.store, "import", "-", "slow"], stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            data = oci.tar_bytes([("a", {}, b"x" * 5000)])
            r.stdin.write(data[:2048])
            r.stdin.flush()

            def confined():
                with open(f"/proc/{r.pid}/task/{r.pid}/children") as f:
                    kids = f.read().split()
                return len(kids) == 2 and all(status_of(k)["Seccomp"] == "2" for k in kids) and kids
            kids = b.wait_for(confined, what="two confined processes")
            caps = []
            for k in kids:
                st = status_of(k)
                assert st["Seccomp"] == "2" and st["NoNewPrivs"] == "1", st
                assert st["CapInh"] == st["CapAmb"] == "0" * 16 and st["CapBnd"] == st["CapPrm"] == st["CapEff"], st
                caps.append(int(st["CapEff"], 16))
                fds = os.listdir(f"/proc/{k}/fd")
                assert len(fds) <= 8, fds  # null three times, in, report, tree, notes, the file at hand
                # I01-I20: in a user namespace of its own, with ids that are nobody's on the host
                assert st["Uid"].split() == st["Gid"].split() == [str(0x7ffd0000)] * 4, st["Uid"]
                assert st["Groups"].strip() == "", st["Groups"]
                with open(f"/proc/{k}/uid_map") as f:
                    assert f.read().split() == ["0", str(0x7ffd0000), "65536"]
                if caps[-1]:
                    b.wait_for(lambda: os.listdir(f"/proc/{k}/root") == ["a"], what="the layer as its root")
                    for ns in ("net", "mnt", "ipc"):
                        assert os.readlink(f"/proc/{k}/ns/{ns}") != os.readlink(f"/proc/self/ns/{ns}"), ns
            # CHOWN, DAC_OVERRIDE, FOWNER, FSETID; the other process has none
            assert sorted(caps) == [0, 0b11011], caps
            r.kill()
            r.wait()
            deadline = time.monotonic() + 2 * b.SLOW
            while any(alive(k) for k in kids) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert not any(alive(k) for k in kids), "they die with their parent"
        finally:
            r.kill()
            r.stdin.close()
            r.wait()
        assert " 0 problems" in p.ok("fsck") and not os.listdir(p.store + "/tmp")


def test_store_that_others_could_use_is_refused():
    with oci.Place() as p:
        os.mkdir(p.store, 0o755)
        q = p.run("ls")
        assert q.returncode == 125 and "0700" in q.stderr, q.stderr
        os.rmdir(p.store)
        os.symlink("/tmp", p.store)
        assert p.run("ls").returncode == 125


def du(path):
    return int(subprocess.run(["du", "-s", "--block-size=1", path], capture_output=True, check=True).stdout.split()[0])


def test_export_save_and_load_keep_every_digest():
    need("umoci", "skopeo")
    with oci.Place() as p:
        big_layout(p / "oci")
        p.ok("import", p / "oci", "a/b:1")
        simple(p / "other")
        p.ok("import", p / "other", "second:1")
        digest = json.loads(p.ok("inspect", "a/b:1"))["digest"]
        # a directory, added to; the second has the tag of the first
        p.ok("export", "a/b:1", p / "out")
        raw = subprocess.run(["skopeo", "inspect", "--raw", f"oci:{p / 'out'}:1"], capture_output=True, check=True).stdout
        assert oci.digest(raw) == digest
        assert os.stat(p / "out/index.json").st_mode & 0o777 == 0o644
        p.ok("tag", "second:1", "second:two")
        p.ok("export", "second:two", p / "out")
        with open(p / "out/index.json") as f:
            assert len(json.load(f)["manifests"]) == 2
        p.ok("export", "a/b:1", "second:1", p / "both")
        subprocess.run(["umoci", "unpack", "--image", p / "out" + ":1", p / "bundle"], check=True, capture_output=True)
        theirs = tree(p / "bundle/rootfs", times=False)
        # everything back into another store, from each form
        back = p.path + "/store2"
        for words in (["save", "-q", "a/b:1", "second:1"], ["export", "a/b:1", "second:1", "-"]):
            archive = subprocess.run([oci.BERTH_IMAGE, "--store", p.store, *words], capture_output=True, check=True).stdout
            r = subprocess.run([oci.BERTH_IMAGE, "--store", back, "load", "--json"], input=archive, capture_output=True, check=True)
            assert [i["digest"] for i in json.loads(r.stdout)["images"]][0] == digest
        for source in ("out:a/b:1", "both:a/b:1"):
            r = subprocess.run([oci.BERTH_IMAGE, "--store", back, "import", "--json", p / source], capture_output=True, check=True)
            assert json.loads(r.stdout)["images"][0]["digest"] == digest, source
        p.ok("save", "-o", p / "saved.tar", "a/b:1")
        for kind, made in (("docker-archive", "a"), ("oci-archive", "b")):
            name = p / "saved.tar" + (":a/b:1" if kind == "docker-archive" else ":1")
            subprocess.run(["skopeo", "copy", "-q", f"{kind}:{name}", f"oci:{p / made}:t"], check=True)
            subprocess.run(["umoci", "unpack", "--image", p / made + ":t", p / made + ".bundle"], check=True, capture_output=True)
            same(tree(p / made + ".bundle/rootfs", times=False), theirs, kind)
        for name in ("plain.tar", "plain.tar.gz", "plain.tar.zst"):
            p.ok("export", "--format", "rootfs", "a/b:1", p / name)
            p.ok("import", p / name, "again")
            same(tree(p.tree("again"), times=False), theirs, name)
        for words, code, text in ((["export", "nosuch", p / "x"], 125, "nosuch"), (["export", "a/b:1", p / "x.gz"], 2, "--format"),
                                  (["export", "a/b:1", p.store], 125, "neither"), (["save"], 2, "hint"),
                                  (["export", "--format", "zip", "a/b:1", p / "x"], 2, "layout"),
                                  (["export", "--format", "rootfs", "a/b:1", "second:1", "-"], 2, "one image")):
            q = p.run(*words)
            assert q.returncode == code and text in q.stderr, f"{words}: {q.returncode} {q.stderr}"
        # a flipped bit does not leave unseen, and no half archive stays
        blob = p.store + "/blobs/sha256/" + json.loads(p.ok("inspect", "a/b:1"))["layers"][1]["digest"][7:]
        with open(blob, "r+b") as f:
            f.seek(1000)
            was = f.read(1)
            f.seek(1000)
            f.write(bytes([was[0] ^ 4]))
        for dest in ("bad.tar", "bad"):
            q = p.run("export", "a/b:1", p / dest)
            assert q.returncode == 125 and "fsck" in q.stderr, q.stderr
        assert not [n for n in os.listdir(p.path) if n.startswith("bad.tar")]
        assert not os.path.exists(p / "bad/index.json")


test_export_save_and_load_keep_every_digest.deadline = 120


def test_a_save_that_is_killed_leaves_nothing():
    need("strace")
    with oci.Place() as p:
        simple(p / "oci")
        p.ok("import", p / "oci", "a:1")
        os.mkdir(p / "out")
        # all of it is written, and the last that is missing is the file's place
        q = subprocess.run(["strace", "-f", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:signal=SIGKILL", oci.BERTH_IMAGE, "--store",
                            p.store, "save", "-o", p / "out/saved.tar", "a:1"], capture_output=True)
        assert q.returncode == -signal.SIGKILL, q
        assert os.listdir(p / "out") == []
        # and one that ends well replaces what was there
        for _ in range(2):
            p.ok("save", "-o", p / "out/saved.tar", "a:1")
            assert os.listdir(p / "out") == ["saved.tar"] and os.stat(p / "out/saved.tar").st_mode & 0o777 == 0o600


def test_disk_use_is_what_du_says():
    with oci.Place() as p:
        p.store = p.path + "/state/store"
        os.mkdir(p.path + "/state", 0o700)
        big_layout(p / "oci")
        p.ok("import", p / "oci", "a:1")
        p.ok("tag", "a:1", "a:2")
        simple(p / "other")
        p.ok("import", p / "other", "b")
        d = json.loads(p.ok("df", "--json"))
        parts = ("blobs", "layers", "sandboxes", "volumes", "host", "other")
        assert d["total_bytes"] == sum(d[k]["bytes"] for k in parts)
        assert abs(d["total_bytes"] - du(p.store)) <= 4096, (d, du(p.store))
        assert abs(d["layers"]["bytes"] - du(p.store + "/layers")) <= 4096
        assert abs(d["blobs"]["bytes"] - du(p.store + "/blobs/sha256")) <= 4096
        assert not any(d[k]["reclaimable_bytes"] for k in parts), d
        assert d["images"]["count"] == 3 and d["layers"]["count"] == 4
        sizes = {i["name"]: i for i in json.loads(p.ok("ls", "--size", "--json"))}
        assert sizes["a:1"]["disk_bytes"] + sizes["b:latest"]["disk_bytes"] <= d["layers"]["bytes"]
        assert sizes["a:1"]["disk_bytes"] > 3 * 400 * 3000
        # without its names it can be reclaimed, and that is what gc then frees
        for f in ("a:1", "a:2"):
            os.unlink(p.store + f"/images/{f}.json")
        back = json.loads(p.ok("df", "--json"))
        want = sum(back[k]["reclaimable_bytes"] for k in parts)
        before = du(p.store)
        freed = json.loads(p.ok("gc", "--json"))["bytes"]
        assert freed > 3 * 400 * 3000 and abs(want - freed) <= 65536, (want, freed)
        assert abs(before - du(p.store) - freed) <= 65536, (before, du(p.store), freed)


def test_prune_tags_and_pins():
    with oci.Place() as p:
        simple(p / "oci")
        simple(p / "two", Env=["A=1"])
        p.ok("import", p / "oci", "a:1")
        p.ok("tag", "a:1", "x.example/a:2")
        assert p.ok("ls", "-q").split() == ["a:1", "x.example/a:2"]
        p.ok("import", p / "two", "b")
        p.ok("pin", "pool:python", "b")
        p.ok("prune")
        assert len(p.ok("ls", "-q").split()) == 3, "only what no name needs"
        assert p.ok("prune", "--all", "--older-than", "1h", "-q") == ""
        assert p.ok("prune", "--all", "--dry-run").split() == ["a:1", "x.example/a:2"]
        p.ok("prune", "-a")
        assert p.ok("ls", "-q").split() == ["b:latest"], "pinned"
        q = p.run("rm", "b")
        assert q.returncode == 125 and "pin pool:python" in q.stderr, q.stderr
        p.ok("rm", "-f", "b")
        p.ok("gc")
        assert len(p.layers()) == 1, "its files stay"
        p.ok("unpin", "pool:python")
        p.ok("gc")
        assert not p.layers() and not os.listdir(p.store + "/blobs/sha256")
        for words in (["pin", "../x", "b"], ["pin", "-x", "b"], ["unpin", "a/b"], ["tag", "nosuch", "c"], ["unpin", "nosuch"],
                      ["prune", "--older-than", "1h"]):
            assert p.run(*words).returncode in (2, 125), words


if __name__ == "__main__":
    for key, value in list(globals().items()):
        if key.startswith("test_") and (len(sys.argv) < 2 or sys.argv[1] in key):
            begun = time.monotonic()
            value()
            print(f"ok {key} {time.monotonic() - begun:.1f} s", flush=True)
