# SPDX-License-Identifier: Apache-2.0
"""
Volumes: made, listed, shared by sandboxes, seeded from an image, bounded, and removed when nobody uses them.
"""
import json
import os
import signal
import stat
import subprocess

import berthtest as b
import test_quota

COST = 14
VOLUMES = "state/volumes"


def volume(*args, **kw):
    return b.berth("volume", *args, **kw)


def names(**kw):
    return volume("ls", "-q", ok=True, **kw).out.split()


def record(name, **kw):
    return json.loads(volume("inspect", "--json", name, ok=True, **kw).out)


def drop(*volumes):
    volume("rm", *volumes, ok=True)


def needs_mounts_of_detached_mounts():
    if tuple(int(n) for n in os.uname().release.split("-")[0].split(".")[:2]) < (6, 15):
        raise b.skip("sub= of a volume that is a file system of its own takes Linux 6.15")


def test_a_volume_outlives_its_sandboxes():
    assert volume("create", "--size", "32m", "data", ok=True).out == "data\n"
    r = record("data")
    assert r["size_bytes"] == 32 << 20 and r["used_by"] == [] and r["name"] == "data", r
    b.run("-v", "data:/x", "host", "sh", "-c", "echo kept > /x/f", ok=True)
    assert b.run("-v", "data:/y:ro", "host", "cat", "/y/f", ok=True).out == "kept\n"
    assert record("data")["disk_bytes"] > 0
    df = json.loads(b.berth("system", "df", "--json", ok=True).out)["volumes"]
    assert df["count"] == 1 and df["bytes"] >= record("data")["disk_bytes"], df
    drop("data")
    assert names() == [] and os.listdir(os.path.join(b.root(), VOLUMES)) == []


def test_a_volume_is_made_on_first_use_and_new_ones_are_empty():
    r = b.run("-v", "fresh:/x", "host", "sh", "-c", "ls -A /x; stat -c '%u:%g %a' /x", ok=True)
    assert r.out == "0:0 755\n", b.describe(r)
    assert names() == ["fresh"] and record("fresh")["size_bytes"] == 1 << 30
    r = b.berth("run", "--dry-run", "-v", "other:/x", "host", "true", ok=True)
    assert " from other (idmapped)" in r.out, r.out
    assert names() == ["fresh"], "a dry run made a volume"
    drop("fresh")


def test_ro_and_noexec_hold_and_nosuid_and_nodev_always():
    b.run("-v", "v:/x", "host", "sh", "-c", "cp /bin/true /x/true; /x/true", ok=True)
    r = b.run("-v", "v:/x:ro", "host", "sh", "-c", "/x/true && ! touch /x/new", ok=True)
    r = b.run("-v", "v:/x:noexec", "host", "sh", "-c", "touch /x/new && ! /x/true", ok=True)
    r = b.run("-v", "v:/x", "host", "sh", "-c", "grep ' /x ' /proc/self/mountinfo", ok=True)
    assert "nosuid" in r.out and "nodev" in r.out, r.out
    b.run("--mount", "type=volume,src=v,dst=/x,ro", "host", "sh", "-c", "/x/true && ! touch /x/new", ok=True)
    drop("v")


@b.deadline(60)
def test_two_sandboxes_with_other_ids_see_the_same_owners():
    for name in ("one", "two"):
        b.berth("create", "--name", name, "-v", "shared:/x", "host", ok=True)
    b.berth("exec", "--user", "0", "one", "sh", "-c", "chmod 1777 /x", ok=True)
    b.berth("exec", "--user", "1000:1000", "one", "sh", "-c", "echo from-one > /x/f", ok=True)
    # the very same file system at the same time, not a copy
    r = b.berth("exec", "two", "sh", "-c", "stat -c '%u:%g' /x/f; cat /x/f", ok=True)
    assert r.out == "1000:1000\nfrom-one\n", b.describe(r)
    b.berth("exec", "--user", "1000:1000", "two", "sh", "-c", "echo more >> /x/f", ok=True)
    assert b.berth("exec", "one", "cat", "/x/f", ok=True).out == "from-one\nmore\n"
    users = record("shared")["used_by"]
    assert sorted((u["name"], u["status"]) for u in users) == [("one", "running"), ("two", "running")], users
    b.berth("stop", "one", "two", ok=True)
    b.berth("start", "two", ok=True)
    assert b.berth("exec", "two", "cat", "/x/f", ok=True).out == "from-one\nmore\n"
    b.berth("rm", "-f", "one", "two", ok=True)
    drop("shared")


@b.deadline(60)
def test_a_volume_in_use_is_not_removed():
    b.berth("create", "--name", "user", "-v", "used:/x", "host", ok=True)
    b.one_line_error(volume("rm", "used"), 125, "used by sandbox user", "running", "berth rm --force user")
    b.berth("stop", "user", ok=True)
    b.one_line_error(volume("rm", "-f", "used"), 125, "used by sandbox user", "stopped")
    assert volume("prune", ok=True).out == ""
    spec = os.path.join(b.root(), "state", "sandboxes", json.loads(b.berth("inspect", "user", ok=True).out)["id"], "spec.json")
    kept = open(spec).read()
    b.write(spec, "{")
    b.one_line_error(volume("rm", "used"), 125, "may be used by sandbox", "spec.json", "berth rm --force")
    b.write(spec, kept)
    p = b.start("run", "--name", "runner", "-v", "other:/y", "host", "sh", "-c", "echo up; sleep 60",
                stdout=subprocess.PIPE)
    b.read_until(p.stdout, b"up")
    b.wait_for(lambda: [u["name"] for u in record("other")["used_by"]] == ["runner"], what="the record of the run")
    b.one_line_error(volume("rm", "other"), 125, "used by sandbox runner")
    b.stop(p, signal.SIGTERM)
    assert volume("prune", ok=True).out == "other\n"
    b.berth("rm", "user", ok=True)
    drop("used")


def test_labels_and_filters_choose_volumes():
    for name, label in (("a", "team=x"), ("b", "team=y"), ("c", "tmp")):
        volume("create", "--size", "16m", "--label", label, name, ok=True)
    assert sorted(names()) == ["a", "b", "c"]
    assert volume("ls", "-q", "--filter", "label=team=y", ok=True).out == "b\n"
    assert sorted(volume("ls", "-q", "--filter", "label=team", ok=True).out.split()) == ["a", "b"]
    listed = json.loads(volume("ls", "--json", "--filter", "name=c", ok=True).out)
    assert [(v["name"], v["labels"]) for v in listed] == [("c", {"tmp": ""})], listed
    assert volume("prune", "--dry-run", "--filter", "label=tmp", ok=True).out == "c\n"
    assert json.loads(volume("prune", "--json", "--filter", "label=tmp", ok=True).out) == {"removed": ["c"]}
    assert sorted(volume("prune", ok=True).out.split()) == ["a", "b"]
    b.one_line_error(volume("rm", "a"), 125, "no volume a")
    volume("rm", "-f", "a", ok=True)
    b.one_line_error(volume("inspect", "a"), 125, "no volume a")


def test_the_size_of_a_volume_is_its_bound():
    volume("create", "--size", "16m", "small", ok=True)
    r = b.run("-v", "small:/x", "host", "sh", "-c", "head -c 33554432 /dev/zero > /x/big || exit 7")
    assert r.code == 7, b.describe(r)
    assert os.stat(os.path.join(b.root(), VOLUMES, "small/image")).st_blocks * 512 <= 16 << 20
    r = b.run("-v", "small:/x", "host", "sh", "-c",
              "rm /x/big; i=0; while [ $i -lt 4000 ]; do : > /x/f$i || exit 8; i=$((i+1)); done")
    assert r.code != 0, "there is no end of files"
    drop("small")
    for size in ("1m", "lots", "0", "2000t"):
        b.one_line_error(volume("create", "--size", size, "x"), 2, "size")


def test_no_more_volumes_than_the_configuration_says():
    conf = b.write(b.tmp("berth.toml"), '[volume]\nmax = 2\nsize = "24m"\n', 0o600)
    env = {"BERTH_CONFIG": conf}
    b.run("-v", "one:/x", "host", "true", env=env, ok=True)
    volume("create", "two", env=env, ok=True)
    assert record("one")["size_bytes"] == 24 << 20
    b.one_line_error(volume("create", "three", env=env), 125, "2 volumes exist, the limit is 2", "[volume] max")
    b.one_line_error(b.run("-v", "three:/x", "host", "true", env=env), 125, "the limit is 2")
    b.one_line_error(volume("create", "two"), 125, "exists")
    drop("one", "two")


def test_an_empty_name_is_a_usage_error():
    for verb in ("rm", "inspect"):
        b.one_line_error(b.berth("volume", verb, ""), 2, "the name of the volume is empty", "hint: berth volume ls")


def test_what_is_no_name_of_a_volume():
    for name in ("A", "../x", ".x", "a/b", "", "x" * 65, "a@b", "-x"):
        r = volume("create", "--", name)
        b.expect(r.code == 2, r, name)
        r = volume("rm", "--", name)
        b.expect(r.code == (125 if name else 2), r, name)
    b.one_line_error(b.run("-v", "Data:/x", "host", "true"), 2, "'Data' is not the name of a volume", "./Data")
    b.one_line_error(b.run("-v", "data:/x:foo", "host", "true"), 2, "not a mount option")
    b.one_line_error(b.run("-v", "data:/proc", "host", "true"), 2, "would cover")
    assert names() == [], "a refused run left a volume"


def seeded_image(name="seed"):
    """An image with all kinds at /data, and a file in a second layer."""
    top = b.busybox_rootfs(name)
    os.makedirs(top + "/data/dir/deep")
    b.write(top + "/data/file", "content", 0o640)
    os.chown(top + "/data/file", 1000, 1001)
    b.write(top + "/data/dir/set", "x", 0o4755)
    os.chmod(top + "/data/dir", 0o2775)
    os.link(top + "/data/file", top + "/data/dir/same")
    os.symlink("/etc/passwd", top + "/data/link")
    os.mkfifo(top + "/data/fifo", 0o600)
    os.utime(top + "/data/file", (1000000000, 1000000000))
    os.chown(top + "/data", 70, 71)
    os.chmod(top + "/data", 0o700)
    b.berth("image", "import", top, "seed:1", ok=True)
    # and a layer above, as most images have several
    b.berth("create", "--name", "layer", "seed:1", ok=True)
    b.berth("exec", "layer", "sh", "-c", "echo second > /data/above; rm /data/dir/set", ok=True)
    b.berth("stop", "layer", ok=True)
    b.berth("commit", "layer", "seed:2", ok=True)
    b.berth("rm", "-f", "layer", ok=True)


@b.deadline(60)
def test_an_empty_volume_gets_what_the_image_has_there():
    seeded_image()
    look = ("cd /data; stat -c '%n %u:%g %a %h' . file dir; readlink link; cat file above; ls -A dir;"
            " [ file -ef dir/same ] && echo same; stat -c %Y file")
    want = [". 70:71 700 ", "file 1000:1001 640 2", "dir 0:0 2775", "/etc/passwd", "contentsecond", "deep", "same", "same",
            "1000000000"]
    r = b.run("-v", "got:/data", "seed:2", "sh", "-c", look, ok=True)
    for line, begin in zip(r.out.splitlines(), want):
        b.expect(line.startswith(begin), r, begin)
    # what is there stays: it is seeded once
    b.run("-v", "got:/data", "seed:2", "sh", "-c", "rm /data/above; echo mine > /data/file", ok=True)
    r = b.run("-v", "got:/data", "seed:2", "sh", "-c", "cat /data/file; ls -A /data", ok=True)
    assert r.out.startswith("mine\n") and "above" not in r.out, b.describe(r)
    # a directory as the image: with all that a tar would leave out
    r = b.run("-v", "plain:/data", b.tmp("seed"), "sh", "-c", "[ -p /data/fifo ] && stat -c '%a' /data/fifo /data/dir/set",
              ok=True)
    assert r.out == "600\n4755\n", b.describe(r)
    # one layer, a link to the place, and a place that the image does not have
    r = b.run("-v", "single:/data/dir", "seed:1", "ls", "-A", "/data/dir", ok=True)
    assert r.out.split() == ["deep", "same", "set"], b.describe(r)
    assert b.run("-v", "none:/nowhere/at/all", "seed:2", "ls", "-A", "/nowhere/at/all", ok=True).out == ""
    drop("got", "plain", "single", "none")


@b.deadline(60)
def test_an_image_with_more_than_the_volume_holds_is_an_error():
    top = b.busybox_rootfs("big")
    b.write(top + "/data/file", b"x" * (24 << 20))
    b.berth("image", "import", top, "big:1", ok=True)
    volume("create", "--size", "16m", "small", ok=True)
    r = b.run("-v", "small:/data", "big:1", "true")
    b.one_line_error(r, 125, "the image has more at /data than the volume can hold", "--size")
    # nothing of it is left, so the next image fills it whole
    assert b.run("-v", "small:/other", "host", "ls", "-A", "/other", ok=True).out == ""
    drop("small")


@b.deadline(60)
def test_volumes_under_project_quota():
    with test_quota.state_on(["-O", "project,quota"], ["prjquota"]) as (env, state):
        for name, size in (("one", "16m"), ("two", "32m")):
            volume("create", "--size", size, name, env=env, ok=True)
        one, two = (json.loads(volume("inspect", name, env=env, ok=True).out) for name in ("one", "two"))
        assert one["bounded_by"] == "project-quota" and one["project"] != two["project"], (one, two)
        r = b.run("-v", "one:/x", "-v", "two:/y", "host", "sh", "-c",
                  "df -k /x | tail -1; head -c 25000000 /dev/zero > /y/big && head -c 25000000 /dev/zero > /x/big || exit 7", env=env)
        assert r.code == 7 and int(r.out.split()[1]) == 16 * 1024, b.describe(r)
        assert 12 << 20 < os.stat(state + "/volumes/one/data/big").st_blocks * 512 <= 16 << 20
        b.run("-v", "one:/x", "--user", "1000", "host", "sh", "-c", "rm -f /x/big; ls /x", env=env)
        volume("rm", "one", "two", env=env, ok=True)
        assert os.listdir(state + "/volumes") == []


@b.deadline(120)
def test_a_crash_while_one_is_made_leaves_nothing_or_all():
    """kill -9 at every tenth of what create takes."""
    for step in range(1, 13):
        p = b.start("volume", "create", "--size", "64m", "half", stdout=subprocess.DEVNULL)
        try:
            p.wait(timeout=step * 0.004)
        except subprocess.TimeoutExpired:
            b.stop(p)
        b.wait_for(lambda: not b.berth("gc").code, what="gc")
        left = os.listdir(os.path.join(b.root(), VOLUMES)) if os.path.isdir(os.path.join(b.root(), VOLUMES)) else []
        assert left in ([], ["half"]), left
        b.run("-v", "half:/x", "host", "sh", "-c", "echo whole > /x/f; cat /x/f", ok=True)
        drop("half")


@b.deadline(60)
def test_what_a_cut_off_seeding_left_is_begun_anew():
    seeded_image()
    b.run("-v", "got:/data", "host", "sh", "-c", "echo half > /data/half", ok=True)
    # as it is left when the process is killed in between
    b.write(os.path.join(b.root(), VOLUMES, "got/seeding"))
    r = b.run("-v", "got:/data", "seed:2", "sh", "-c", "ls -A /data | tr '\\n' ' '", ok=True)
    assert r.out == "above dir file link ", b.describe(r)
    assert not os.path.exists(os.path.join(b.root(), VOLUMES, "got/seeding"))
    drop("got")


@b.deadline(60)
def test_gc_completes_a_removal_that_was_cut_off():
    volume("create", "--size", "16m", "gone", ok=True)
    top = os.path.join(b.root(), VOLUMES)
    os.rename(top + "/gone", top + "/.rm-0123456789abcdef")
    os.mkdir(top + "/.new")
    assert json.loads(b.berth("gc", "--json", ok=True).out)["volumes"] == 2
    assert os.listdir(top) == []


@b.deadline(60)
def test_many_at_once_make_and_use_one_volume():
    runs = [b.start("run", "-v", "crowd:/x", "host", "sh", "-c", f"echo {i} > /x/{i}", stderr=subprocess.PIPE) for i in range(8)]
    assert [p.wait() for p in runs] == [0] * 8, [p.stderr.read() for p in runs]
    for p in runs:
        p.stderr.close()
    r = b.run("-v", "crowd:/x", "host", "sh", "-c", "cat /x/*", ok=True)
    assert sorted(r.out.split()) == [str(i) for i in range(8)], r.out
    assert stat.S_ISREG(os.stat(os.path.join(b.root(), VOLUMES, "crowd/image")).st_mode)
    drop("crowd")


@b.deadline(60)
def test_a_directory_of_a_volume_by_sub():
    needs_mounts_of_detached_mounts()
    b.run("-v", "v:/x", "host", "sh", "-c", "mkdir -p /x/a/b; echo deep > /x/a/b/f; chown 1000:1000 /x/a/b", ok=True)
    for option in ("v:/y:sub=a/b", "v:/y:ro,sub=a/b"):
        r = b.run("-v", option, "host", "sh", "-c", "cat /y/f; stat -c %u /y; ls -A /y/..", ok=True)
        assert r.out.startswith("deep\n1000\n") and "\na\n" not in r.out, b.describe(r)
    b.run("--mount", "type=volume,src=v,dst=/y,sub=a", "host", "sh", "-c", "echo more > /y/b/g", ok=True)
    b.berth("create", "--name", "box", "-v", "v:/y:sub=a/b", "host", ok=True)
    assert json.loads(b.berth("inspect", "box", ok=True).out)["mounts"][0]["sub"] == "a/b"
    b.one_line_error(volume("rm", "v"), 125, "used by sandbox box")
    b.berth("rm", "-f", "box", ok=True)
    b.one_line_error(b.run("-v", "v:/y:sub=none/x", "host", "true"), 125, "no directory none/x", "mkdir -p /v/none/x")
    b.one_line_error(b.run("-v", "v:/y:sub=a/b/f", "host", "true"), 2, "a/b/f")
    for sub in ("/a", "..", "a/../..", ""):
        b.one_line_error(b.run("-v", f"v:/y:sub={sub}", "host", "true"), 2, "sub=")
    b.one_line_error(b.run("-v", "/usr:/y:sub=bin", "host", "true"), 2, "not a mount option")
    drop("v")


@b.deadline(60)
def test_owner_auto_gives_files_to_the_owner_of_the_directory():
    d = b.tmpdir("theirs")
    os.chown(d, 4321, 4322)
    b.run("-v", f"{d}:/x:rw,owner=auto", "host", "sh", "-c", "echo a > /x/f; mkdir /x/d; stat -c %u:%g /x/f", ok=True)
    assert [(os.stat(f"{d}/{n}").st_uid, os.stat(f"{d}/{n}").st_gid) for n in ("f", "d")] == [(4321, 4322)] * 2
    b.run("-v", f"{d}:/x:rw,owner=auto", "--user", "1000:1001", "host", "sh", "-c",
          "echo b > /x/g && echo more >> /x/f && [ $(stat -c %u:%g /x/f) = 1000:1001 ]", ok=True)
    assert (os.stat(d + "/g").st_uid, os.stat(d + "/g").st_gid) == (4321, 4322)
    # others' files are nobody's in there, and cannot be made
    b.write(d + "/roots", "x", 0o600)
    r = b.run("-v", f"{d}:/x:rw,owner=auto", "host", "sh", "-c", "stat -c %u /x/roots; cat /x/roots; chown 5 /x/f")
    assert r.out == "65534\n" and r.code != 0, b.describe(r)
    assert os.stat(d + "/f").st_uid == 4321
    b.one_line_error(b.run("-v", f"{d}:/x:rw,owner=auto", "--user", "daemon", "host", "true"), 2, "--user UID:GID")
    b.one_line_error(b.run("-v", f"{d}:/x:rw,owner=me", "host", "true"), 2, "not a mount option")
    b.one_line_error(b.run("-v", "v:/x:owner=auto", "host", "true"), 2, "not a mount option")


def test_a_quota_that_nothing_enforces_is_refused():
    d = b.tmpdir("plain")
    r = b.run("-v", f"{d}:/x:rw,quota=32m", "host", "true")
    if r.code == 0:
        raise b.skip("the file system of /var/tmp enforces project quotas")
    b.one_line_error(r, 125, f"quota of {d}")
    for size in ("0", "lots", ""):
        b.one_line_error(b.run("-v", f"{d}:/x:rw,quota={size}", "host", "true"), 2, "quota")


@b.deadline(60)
def test_a_crash_while_a_volume_is_filled_leaves_it_to_the_next():
    """kill -9 at several moments of the copy, of the process that copies for berth too."""
    top = b.busybox_rootfs("many")
    for i in range(400):
        b.write(f"{top}/data/{i % 20}/{i}", "x" * 5000)
    for step in range(1, 9):
        p = b.start("run", "-v", "v:/data", top, "true", stderr=subprocess.DEVNULL)
        try:
            p.wait(timeout=step * 0.006)
        except subprocess.TimeoutExpired:
            b.stop(p)
        r = b.run("-v", "v:/data", top, "sh", "-c", "find /data -type f | wc -l; cat /data/*/* | wc -c; ls -A /data | wc -l", ok=True)
        assert r.out.split() == ["400", "2000000", "20"], b.describe(r)
        b.berth("gc", ok=True)
        drop("v")


@b.deadline(60)
def test_a_quota_of_a_directory_is_enforced():
    with test_quota.state_on(["-O", "project,quota"], ["prjquota"]) as (env, state):
        where = os.path.dirname(state) + "/bounded"
        os.mkdir(where)
        os.chown(where, 1000, 1000)
        option = f"{where}:/x:rw,owner=auto,quota=16m"
        r = b.run("-v", option, "host", "sh", "-c", "head -c 33554432 /dev/zero > /x/big || exit 7", env=env)
        assert r.code == 7 and os.stat(where + "/big").st_blocks * 512 <= 16 << 20, b.describe(r)
        b.run("-v", option.replace("16m", "64m"), "host", "sh", "-c", "head -c 33554432 /dev/zero > /x/big", env=env, ok=True)
        full = os.path.dirname(state) + "/full"
        b.write(full + "/f")
        b.one_line_error(b.run("-v", f"{full}:/x:rw,quota=16m", "host", "true", env=env), 2, "no project counts")


@b.deadline(60)
def test_a_file_system_of_the_host_can_be_unmounted_while_a_sandbox_has_it():
    """The supervisor keeps no descriptor of what it mounted."""
    where, image = b.tmpdir("fs"), b.tmp("fs.img")
    # tmpfs has idmapped mounts since Linux 6.3 only
    subprocess.run(["mkfs.ext4", "-q", "-F", image, "16m"], check=True)
    for words in (("run",), ("create",)):
        subprocess.run(["mount", "-o", "loop", image, where], check=True)
        p = b.start(*words, "--volume", f"{where}:/fs:rw", "host", *(("sh", "-c", "touch /fs/there && sleep 60") if words[0] == "run" else ()))
        try:
            if words[0] == "run":
                b.wait_for(lambda: os.path.exists(f"{where}/there") or p.poll() is not None, what="the command")
                assert p.poll() is None, p.communicate()
            else:
                box = p.communicate()[0].decode().strip()
            subprocess.run(["umount", where], check=True)
            if words[0] == "create":
                b.berth("exec", box, "touch", "/fs/there", ok=True)
                b.berth("rm", "--force", box, ok=True)
        finally:
            b.stop(p, signal.SIGTERM)
