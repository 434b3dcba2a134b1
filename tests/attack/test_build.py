# SPDX-License-Identifier: Apache-2.0
"""A build is a sandbox: what a RUN may do, and what buildah may do when a Dockerfile has taken it over.

Attacks S50 of SECURITY.md.
"""
import glob
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile

import berthtest as b
import proc
from registry import need
from test_probe import host_namespaces, opened, parse, PROBE

COST = 40
# What may stand open in a RUN, and why (SECURITY.md, S50).
KNOWN_OPEN = {
    "C12": "CAP_DAC_OVERRIDE is one of the eight, over the build's own ids",
    "F26": "buildah mounts the root by paths, those of the room of the build: the host has none of them",
}


def base():
    need("buildah")
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)


def context(text, name="context"):
    top = b.tmpdir(name)
    b.write(top + "/Dockerfile", text)
    return top


def probe_in_run(*ids):
    top = context("FROM box:1\nCOPY probe /probe\n"
                  f"RUN /probe {' '.join([*host_namespaces(), *ids])} || echo the probe ends with $?\n", "probe-context")
    shutil.copy(PROBE, top + "/probe")
    os.chmod(top + "/probe", 0o755)
    r = b.berth("build", "-t", "probed:1", top, timeout=120)
    shutil.rmtree(top)
    return r


@b.deadline(240)
def test_a_RUN_is_confined_as_a_payload():
    base()
    r = probe_in_run()
    rows, blocked, applicable = parse(r.err)
    left = opened(rows)
    b.expect(applicable >= 145, r, f"{applicable} of the probe's rows apply")
    for row in left:
        b.expect(row[:3] in KNOWN_OPEN, r, f"not known to be open: {row}\n  " + "\n  ".join(left))
    b.expect(blocked >= applicable - len(KNOWN_OPEN), r, f"{blocked} of {applicable}")


@b.deadline(240)
def test_D02_a_RUN_has_no_more_memory_than_its_build():
    base()
    top = context("FROM box:1\nCOPY probe /probe\nRUN /probe R01; echo R01 ends with $?\n")
    shutil.copy(PROBE, top + "/probe")
    os.chmod(top + "/probe", 0o755)
    r = b.berth("build", "--memory", "300m", "-t", "probed:1", top, timeout=120)
    b.expect("R01 memory is bounded blocked killed by KILL" in r.err or "R01 ends with 137" in r.err, r, "a RUN takes what memory it likes")


@b.deadline(180)
def test_D11_a_RUN_loads_no_filter_that_nobody_counts():
    base()
    top = context("FROM box:1\nCOPY load /load\nRUN /load\n")
    b.write(top + "/load.c", r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
	struct sock_filter f = { 6, 0, 0, SECCOMP_RET_ALLOW };
	struct sock_fprog p = { 1, &f };
	long a = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p);
	int first = errno;
	long c = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
	printf("loads %ld %d, %ld %d\n", a, first, c, errno);
	return 0;
}
""")
    subprocess.run(["cc", "-static", "-o", top + "/load", top + "/load.c"], check=True)
    r = b.berth("build", "-t", "loaded:1", top, ok=True, timeout=120)
    assert "loads -1 12, -1 12" in r.err, r


@b.deadline(180)
def test_a_cache_mount_leads_to_nothing_of_the_room():
    """buildah 1.28 takes dots in the id of a cache (CVE-2024-9675): the procfs of the room has no masks."""
    base()
    for place in ("proc", "proc/sys", "etc", "run/build", "run/build/storage", "run/build/storage/overlay", "run/build/storage/overlay-images", "dev", ".", "var/tmp"):
        r = b.berth("build", context(f"FROM box:1\nRUN --mount=type=cache,target=/p,id=../../../../../{place} echo REACHED\n",
                                     "room-" + place.replace("/", "-")), timeout=120)
        b.expect(r.code and "which no RUN mounts" in r.err and "\nREACHED" not in r.err, r, f"a RUN has /{place} of the room")
    top = context("FROM box:1\nVOLUME /vol\nRUN --mount=type=cache,target=/p --mount=type=bind,target=/c --mount=type=bind,from=box:1,"
                  "source=/bin,target=/b --mount=type=tmpfs,target=/t ls /c /b && touch /p/x /t/x && ls -d /vol\n"
                  "RUN --mount=type=cache,target=/p ls /p/x\n", "usual")
    b.berth("build", top, ok=True, timeout=120)


def room_processes():
    """{pid: status} of the processes that run buildah or are its pid 1, by the words of the host's /proc."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                words = f.read().split(b"\0")
            if words[0] == b"buildah" or b"bud" in words:
                with open(os.path.dirname(path) + "/status", encoding="ascii") as f:
                    found[int(path.split("/")[2])] = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


@b.deadline(180)
def test_buildah_is_nobody_on_the_host():
    base()
    before = set(room_processes())
    top = context("FROM box:1\nRUN echo the step is there; sleep 1000\n")
    with b.start("build", top) as p:
        b.read_until(p.stderr, b"\nthe step is there", 60)
        seen = {pid: s for pid, s in room_processes().items() if pid not in before and len(s["NSpid"].split()) > 1}
        assert seen, "buildah is not to be seen"
        for pid, s in seen.items():
            assert all(int(i) >= 65536 for i in s["Uid"].split() + s["Gid"].split()), s
            assert s["NoNewPrivs"] == "1" and s["Seccomp"] == "2" and int(s["Seccomp_filters"]) >= 2, s
            assert os.stat(f"/proc/{pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino
            bounding = int(s["CapBnd"], 16)
            for number in (1 << 12 | 1 << 13, 1 << 16 | 1 << 17, 1 << 19, 1 << 22 | 1 << 25, 1 << 39 | 1 << 38):
                assert not bounding & number, s     # NET_*, modules and I/O, ptrace, boot and time, bpf and perf
            root = f"/proc/{pid}/root"
            assert not os.path.exists(root + b.root()) or not os.listdir(root + b.root() + "/state"), "the state directory is there"
            assert not os.path.exists(root + "/etc/shadow") and not os.listdir(root + "/root")
            assert os.listdir(root + "/sys/fs/cgroup") == [], "a cgroup tree of the host is there"
            with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
                assert "/build" in f.read(), "it is in no cgroup of the build"
        p.terminate()
        p.wait()
    b.wait_for(lambda: not b.berth("ps", "-aq").out, 60, "the end of its sandbox")


@b.deadline(180)
def test_owners_are_as_written_and_layers_equal():
    base()
    top = context("FROM scratch\nCOPY a /a\nCOPY --chown=5:6 a /b\n")
    b.write(top + "/a", "x\n")
    os.chmod(top + "/a", 0o600)
    layers, digests = [], []
    for name, how in (("first:1", ()), ("second:1", ("--no-cache",)), ("third:1", ())):
        digests.append(b.berth("build", "-q", *how, "-t", name, top, ok=True, timeout=120).out)
        layers.append([one["diff_id"] for one in json.loads(b.berth("image", "inspect", name, ok=True).out)["layers"]])
    assert len(layers[0]) == 2 and layers[0] == layers[1] == layers[2] and digests[2] in digests[:2], (layers, digests)
    b.write(top + "/Dockerfile", "FROM box:1\nCOPY a /a\nCOPY --chown=5:6 a /b\nRUN touch /c; busybox chown 7:8 /c\n"
                                 "RUN ls -ln / | grep -E ' [abc]$'\n")
    b.berth("build", "-q", "-t", "owned:1", top, ok=True, timeout=120)
    said = b.berth("run", "owned:1", "stat", "-c", "%n %u:%g", "/a", "/b", "/c", ok=True).out
    assert said == "/a 0:0\n/b 5:6\n/c 7:8\n", said


@b.deadline(180)
def test_a_hostile_archive_is_unpacked_in_the_build():
    """Links and names that lead out of the context, in every compression."""
    base()
    need("bzip2", "xz", "zstd")
    v = b.victim()
    before = b.seal(v)
    top = context("FROM box:1\nCOPY f /f\n")
    b.write(top + "/f", "from the archive\n")
    for way, option in (("plain", "--no-auto-compress"), ("gzip", "--gzip"), ("bzip2", "--bzip2"), ("xz", "--xz"), ("zstd", "--zstd")):
        tar = subprocess.run(["tar", "-c", option, "-C", top, "."], stdout=subprocess.PIPE, check=True).stdout
        b.berth("build", "-q", "-t", way + ":1", "-", input=tar, ok=True, timeout=120)
        assert b.berth("run", way + ":1", "cat", "/f", ok=True).out == "from the archive\n"
    plain = subprocess.run(["tar", "-c", "-C", top, "Dockerfile", "f"], stdout=subprocess.PIPE, check=True).stdout
    b.berth("build", "-q", "-t", "cut:1", "-", input=plain.rstrip(b"\0") + b"\0" * (-len(plain.rstrip(b"\0")) % 512), ok=True, timeout=120)
    os.symlink(v, top + "/out")
    link = subprocess.run(["tar", "-c", "-P", "-C", top, "Dockerfile", "f", "out", "--transform", "s,^f$,out/new,"],
                          stdout=subprocess.PIPE, check=True).stdout
    b.berth("build", "-q", "-", input=link, timeout=120)
    assert b.seal(v) == before


def take_over(top, script):
    """buildah is what an attacker makes of it: this script, in the mount namespace of the test."""
    b.write(top + "/buildah", "#!/bin/sh\n" + script, 0o755)
    os.chmod(top + "/buildah", 0o755)
    proc.bind(top + "/buildah", "/usr/bin/buildah")


def give_back():
    subprocess.run(["umount", "/usr/bin/buildah"], check=True)


def put_evil_image(top, tags):
    """An image of one file as buildah would leave it, with lists that give it these names."""
    def put(name, data):
        b.write(top + "/" + name, "")
        with open(top + "/" + name, "wb") as f:
            f.write(data)
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as t:
        i = tarfile.TarInfo("evil")
        i.size = 4
        t.addfile(i, io.BytesIO(b"evil"))
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]}}).encode()
    put("layer", layer.getvalue())
    put("config", config)
    put("list", json.dumps({"layers": [{"digest": "sha256:" + digest}]}).encode())
    put("manifest.json", json.dumps([{"Config": "config.json", "RepoTags": tags, "Layers": ["blobs/" + digest]}]).encode())
    return hashlib.sha256(config).hexdigest(), digest


@b.deadline(120)
def test_a_builder_that_was_taken_over_names_one_image_as_the_caller_said():
    """It writes an archive with the names of other images, which a later run would take."""
    base()
    b.berth("image", "import", b.busybox_rootfs("debian"), "debian:12", ok=True)
    before = b.berth("image", "inspect", "debian:12", ok=True).out
    top = context("FROM box:1\n")
    config, layer = put_evil_image(top, ["debian:12", "python:3", "localhost/x:1"])
    take_over(top, f"""c=/run/build/context
case "$*" in
*" inspect "*) mkdir -p storage/overlay-images/{config}; cp $c/config storage/overlay-images/{config}/=x; echo {config};;
*" push "*) cp $c/layer out/blobs/sha256/{layer}; cp $c/list out/blobs/sha256/list; echo sha256:list > digest; cp $c/manifest.json image; ln -s /etc image/index.json;;
esac
""")
    r = b.berth("build", "-t", "mine:1", top)
    give_back()
    names = sorted(one["name"] for one in json.loads(b.berth("image", "ls", "--json", ok=True).out))
    assert r.code == 0 and names == ["box:1", "debian:12", "mine:1"], (r, names)
    assert b.berth("image", "inspect", "debian:12", ok=True).out == before


@b.deadline(120)
def test_a_builder_that_was_taken_over_mounts_no_cgroups():
    """Of cgroup v1 the trees that no sandbox is in would show the names of all cgroups of the host."""
    need("buildah")
    top = context("FROM scratch\n")
    kinds = {line.split()[0] for line in open("/proc/cgroups", encoding="ascii") if not line.startswith("#")}
    tries = "\n".join(f"mount -t cgroup -o {kind} none m && echo MOUNTED {kind}" for kind in sorted(kinds))
    take_over(top, f'case "$*" in *" bud "*) cd /run/build/tmp; mkdir m; mount -t tmpfs none m && echo it can mount\n'
                   f"{tries}\nmount -t cgroup2 none m && echo MOUNTED 2;; esac\nexit 1\n")
    r = b.berth("build", top)
    give_back()
    b.expect("it can mount" in r.err and "MOUNTED" not in r.err, r, "it mounts a tree of cgroups")


@b.deadline(120)
def test_a_build_that_was_killed_leaves_nothing_behind():
    base()
    top = context("FROM box:1\nRUN echo the step is there; sleep 1000\n")
    with b.start("build", top) as p:
        b.read_until(p.stderr, b"\nthe step is there", 60)
        p.kill()
    b.wait_for(lambda: not b.berth("ps", "-aq").out, 60, "the end of its sandbox")
    b.berth("gc", ok=True)
    assert not b.berth("volume", "ls", "-q", ok=True).out
    # what stays is its owner's steps, which the next build takes up
    assert os.listdir(b.root() + "/state/volumes") == ["build-cache-0"]
    listing = subprocess.run(["debugfs", "-R", "ls -p /", b.root() + "/state/volumes/build-cache-0/image"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True, timeout=30).stdout
    names = {line.split("/")[5] for line in listing.splitlines() if line.startswith("/")}
    assert "storage" in names and names <= {".", "..", "lost+found", "storage"}, f"the killed build left {names}"
    b.write(top + "/Dockerfile", "FROM box:1\nRUN true\n")
    b.berth("build", "-q", "-t", "next:1", top, ok=True)


@b.deadline(120)
def test_the_time_of_a_build_bounds_what_unpacks_its_context():
    """A small archive of 400 GiB of zeros, and one that never comes to its end."""
    base()
    need("zstd")
    conf, piece, archive = b.tmp("berth.toml"), b.tmp("piece.zst"), b.tmp("bomb.tar.zst")
    b.write(conf, '[build]\ntime_limit = "2s"\n')
    member = tarfile.TarInfo("f")
    member.size = 1 << 30
    with open(piece, "wb") as f:
        p = subprocess.Popen(["zstd", "-q", "-1"], stdin=subprocess.PIPE, stdout=f)
        p.stdin.write(member.tobuf())
        for _ in range(1024):
            p.stdin.write(bytes(1 << 20))
        p.communicate()
    with open(piece, "rb") as f:
        one = f.read()
    b.write(archive, "")
    with open(archive, "wb") as f:
        f.write(one * 400)
    with open(archive, "rb") as f:
        r = b.berth("build", "--disk", "3g", "-", stdin=f, env={"BERTH_CONFIG": conf})
    b.one_line_error(r, 124, "time_limit")
    end, silent = os.pipe()
    os.write(silent, one[:1000])
    r = b.berth("build", "-", stdin=end, env={"BERTH_CONFIG": conf})
    os.close(silent)
    os.close(end)
    b.one_line_error(r, 124, "time_limit")
    assert not b.berth("volume", "ls", "-q", ok=True).out


def kept_bytes():
    return os.stat(glob.glob(b.root() + "/state/volumes/build-cache-0/image")[0]).st_blocks * 512


@b.deadline(120)
def test_what_builds_leave_never_takes_the_next_ones_room():
    base()
    env = {"BERTH_CONFIG": b.write(b.tmp("small.toml"), '[build]\ndisk = "64m"\ncache = "16m"\n', 0o600)}
    top = context("FROM box:1\nRUN true\n")
    b.berth("build", "-q", top, env=env, ok=True)
    used = kept_bytes()
    b.write(top + "/Dockerfile", "FROM box:1\nRUN head -c 9000000 /dev/urandom > /big; false\n")
    b.one_line_error(b.berth("build", "-q", top, env=env), 2, "the build failed")
    assert kept_bytes() < used + (6 << 20), f"of a build that failed {kept_bytes() - used} bytes stay"
    # of the volume's 10,240 files each step takes a third, and as many again while it is made
    for n in range(2):
        b.write(top + "/Dockerfile", f"FROM box:1\nRUN mkdir /f{n} && cd /f{n} && seq 3500 | busybox xargs touch\n")
        b.berth("build", "-q", top, env=env, ok=True)
