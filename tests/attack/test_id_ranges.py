# SPDX-License-Identifier: Apache-2.0
"""
No two sandboxes of a host have the same ids, and no other program of the host has those of a sandbox (S3 of SECURITY.md):
not with two state directories, not after a crash, not with the ids of systemd, useradd or an older berth.
"""
import concurrent.futures
import contextlib
import json
import os
import shutil
import stat
import struct
import subprocess

import berthtest as b
import proc

IDS = 65536
OLD_BASE = 1342177280


class Place:
    """A state directory of its own; all of them share the ids of the host."""

    def __init__(self, name, config=""):
        self.top = b.tmpdir(name, 0o700)
        self.state = self.top + "/state"
        self.env = {"BERTH_STATE_DIR": self.state, "BERTH_RUN_DIR": self.top + "/run",
                    "BERTH_CONFIG": b.write(self.top + "/berth.toml", config, 0o600)}

    def berth(self, *args, **kw):
        return b.berth(*args, env=self.env, **kw)

    def create(self, **kw):
        return self.berth("create", "host", ok=True, **kw).out.strip()

    def base(self, box):
        with open(f"{self.state}/sandboxes/{box}/range") as f:
            return int(f.read())

    def start(self, *args):
        """A `berth run` that lives: the Popen, when its command runs."""
        p = b.start("run", "host", "sh", "-c", "echo here; exec sleep 600", env=self.env)
        b.read_until(p.stdout, b"here\n")
        return p

    def end(self):
        for box in self.berth("ps", "-a", "-q", ok=True).out.split():
            self.berth("rm", "--force", box, ok=True)


@contextlib.contextmanager
def places(*configs):
    made = [Place(f"place{i}", c) for i, c in enumerate(configs)]
    try:
        yield made
    finally:
        for p in made:
            p.end()


@contextlib.contextmanager
def instead_of(path, text):
    """The file of the host has this text, in the mount namespace of the test."""
    made = not os.path.exists(path)
    if made:
        b.write(path)
    proc.bind(b.write(b.tmp(os.path.basename(path)), text), path)
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)
        if made:
            os.unlink(path)


ONE = "[ids]\ncount = 1\n"


def test_S3_two_state_directories_have_no_ids_in_common():
    with places(ONE, ONE) as (one, two):
        box = one.create()
        b.one_line_error(two.berth("create", "host"), 125, "all 1 id ranges", "1 of them by other state directories", one.state, "hint:")
        b.one_line_error(two.berth("run", "host", "true"), 125, "all 1 id ranges")
        # a sandbox that does not run has its files, and their ids
        one.berth("stop", box, ok=True)
        b.one_line_error(two.berth("create", "host"), 125, "all 1 id ranges", one.state)
        one.berth("start", box, ok=True)
        one.berth("rm", "--force", box, ok=True)
        assert two.create()
        b.one_line_error(one.berth("create", "host"), 125, "all 1 id ranges", two.state)


def test_S3_state_directories_need_no_setting_to_know_of_each_other():
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/var/lib"], check=True)
    try:
        with places(ONE, ONE) as (one, two):
            one.env["BERTH_IDS_DIR"] = two.env["BERTH_IDS_DIR"] = None
            one.create()
            b.one_line_error(two.berth("create", "host"), 125, "all 1 id ranges", one.state)
            assert stat.S_IMODE(os.stat("/var/lib/berth-ids").st_mode) == 0o700
    finally:
        subprocess.run(["umount", "/var/lib"], check=True)


def test_S3_a_crash_gives_no_ids_to_another_state_directory():
    with places(ONE, ONE) as (one, two):
        p = one.start()
        b.one_line_error(two.berth("run", "host", "true"), 125, "all 1 id ranges")
        b.stop(p)  # SIGKILL
        b.one_line_error(two.berth("run", "host", "true"), 125, "all 1 id ranges", one.state)
        one.berth("gc", ok=True)
        two.berth("run", "host", "true", ok=True)
        # a keeper
        box = one.create()
        with open(f"{one.top}/run/sandboxes/{box}/record.json") as f:
            keeper = json.load(f)["supervisor_pid"]
        proc.kill(keeper)
        b.wait_for(lambda: not proc.alive(keeper), what="the end of the keeper")
        b.one_line_error(two.berth("create", "host"), 125, "all 1 id ranges", one.state)
        one.berth("gc", ok=True)
        b.one_line_error(two.berth("create", "host"), 125, "all 1 id ranges", one.state)
        one.berth("rm", "--force", box, ok=True)
        two.berth("rm", "--force", two.create(), ok=True)


def test_S3_state_directories_that_create_at_once_share_no_ids():
    config = "[ids]\ncount = 24\n"
    with places(config, config, config) as made:
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            boxes = list(pool.map(lambda p: (p, p.create(timeout=180)), made * 8))
        bases = [p.base(box) for p, box in boxes]
        assert sorted(bases) == [2000224256 + i * IDS for i in range(24)], bases
        b.one_line_error(made[0].berth("create", "host"), 125, "all 24 id ranges", "16 of them by other state directories")


def test_S3_the_same_state_directory_by_another_path_is_no_other():
    with places(ONE) as (one,):
        box = one.create()
        one.berth("stop", box, ok=True)
        os.symlink(one.top, b.tmp("alias"))
        again = dict(one.env, BERTH_STATE_DIR=b.tmp("alias") + "/state")
        b.berth("start", box, env=again, ok=True)
        b.berth("rm", "--force", box, env=again, ok=True)


def test_S3_a_state_directory_that_is_gone_holds_no_ids():
    with places(ONE, ONE) as (one, two):
        one.berth("stop", one.create(), ok=True)
        b.one_line_error(two.berth("create", "host"), 125, "all 1 id ranges")
        shutil.rmtree(one.top)
        os.mkdir(one.top, 0o700)
        b.write(one.top + "/berth.toml", ONE, 0o600)
        assert two.create()
        assert len(os.listdir(os.path.join(b.root(), "hostids/places"))) == 2


def as_an_older_berth_left_it(place, base):
    """The notes of the ranges, as berth wrote them before ids/slots: the same notes, counted from base."""
    with open(place.state + "/ids/slots", "rb") as f:
        f.seek(base // IDS * 72)
        b.write(place.state + "/ids/ranges", f.read(), 0o600)
    os.unlink(place.state + "/ids/slots")
    b.write(place.top + "/berth.toml", "", 0o600)


def test_S3_a_sandbox_of_an_older_berth_keeps_its_ids():
    with places(f"[ids]\nbase = {OLD_BASE}\ncount = 4096\n") as (one,):
        stopped, running = one.create(), one.create()
        old = {x: one.base(x) for x in (stopped, running)}
        one.berth("exec", stopped, "sh", "-c", "echo mine > /root/f && chown 1000:1001 /root/f", ok=True)
        one.berth("stop", stopped, ok=True)
        as_an_older_berth_left_it(one, OLD_BASE)
        new = one.create()
        assert one.base(new) >= 2000224256
        assert {r["id"]: r["status"] for r in json.loads(one.berth("ps", "-a", "--json", ok=True).out)} == {
            stopped: "stopped", running: "running", new: "running"}
        assert one.berth("exec", running, "id", "-u", ok=True).out == "0\n"
        one.berth("start", stopped, ok=True)
        seen = one.berth("exec", stopped, "sh", "-c", "cat /root/f; stat -c %u:%g /root/f", ok=True).out
        assert seen == "mine\n1000:1001\n", seen
        one.berth("update", "--memory", "300m", running, ok=True)
        one.berth("stop", running, ok=True)
        one.berth("start", running, ok=True)
        assert {x: one.base(x) for x in old} == old


def test_S3_an_older_berths_own_base_is_kept_too():
    base = OLD_BASE + 16 * IDS
    config = f"[ids]\nbase = {base}\ncount = 2\n"
    with places(config) as (one,):
        box = one.create()
        old = one.base(box)
        one.berth("stop", box, ok=True)
        as_an_older_berth_left_it(one, base)
        b.write(one.top + "/berth.toml", config, 0o600)
        other = one.create()
        assert {old, one.base(other)} == {base, base + IDS}
        b.one_line_error(one.berth("create", "host"), 125, "all 2 id ranges")
        one.berth("start", box, ok=True)
        assert one.base(box) == old


def test_S3_an_overlap_is_told_with_a_remedy():
    nspawn = "overlaps the ids that systemd-nspawn gives to containers, 524288 to 1879048191"
    remedy = "set [ids] base = 2000224256 and count to at most 2245, or leave both out"
    with places(f"[ids]\nbase = {OLD_BASE}\n") as (one,):
        def found():
            findings = json.loads(one.berth("doctor", "--json", timeout=120).out)["findings"]
            return next(f for f in findings if f["what"] == "id ranges")
        said = found()
        assert said["state"] == "limited" and nspawn in said["detail"] and remedy in said["effect"], said
        r = one.berth("config", "check", ok=True)
        assert "warning: " in r.err and nspawn in r.err and remedy in r.err, r
        d = subprocess.run([os.path.join(b.BUILD, "berthd"), "--check-config"], env=b.environment(one.env), capture_output=True, text=True)
        assert d.returncode == 0 and nspawn in d.stderr and remedy in d.stderr, d
        # the remedy is one
        b.write(one.top + "/berth.toml", "[ids]\nbase = 2000224256\ncount = 2245\n", 0o600)
        said = found()
        assert said["state"] == "ok" and said["effect"] == "", said
        assert one.berth("config", "check", ok=True).err == ""
        with instead_of("/etc/subgid", "carol:2100000000:65536\n"):
            said = found()
            assert said["state"] == "limited" and "2100000000 to 2100065535 of 'carol' in /etc/subgid" in said["detail"], said
        # the sandbox that doctor runs has a state directory of its own: nothing of it stays
        assert not os.path.exists(b.root() + "/hostids")
        one.create()
        found()
        assert len(os.listdir(b.root() + "/hostids/places")) == 2


def test_S3_only_one_of_two_sandboxes_with_the_same_ids_runs():
    """As two state directories of an older berth could have them."""
    with places("", "") as (one, two):
        a, c = one.create(), two.create()
        one.berth("stop", a, ok=True)
        two.berth("stop", c, ok=True)
        # the notes of an older berth are read again, and say the same of both
        for p, box in ((one, a), (two, c)):
            os.unlink(p.state + "/ids/slots")
            b.write(p.state + "/ids/ranges", box.encode().ljust(24, b"\0") + struct.pack("<QQQQIIII", 0, 0, 0, 0, 0, 0, 0, 0), 0o600)
            b.write(f"{p.state}/sandboxes/{box}/range", str(OLD_BASE), 0o600)
        one.berth("start", a)
        b.one_line_error(two.berth("start", c), 125, "runs with the same ids", one.state, "hint:")
        one.berth("stop", a, ok=True)
        two.berth("start", c)
        b.one_line_error(one.berth("start", a), 125, "runs with the same ids", two.state, "hint:")


def test_S3_without_the_place_that_all_share_nothing_runs():
    with places(ONE) as (one,):
        b.write(b.tmp("file"))
        for where, why in ((b.tmpdir("wide"), "mode 0755"), (b.tmp("file"), "Not a directory"), ("/proc/none", "No such file")):
            r = b.berth("run", "host", "true", env=dict(one.env, BERTH_IDS_DIR=where))
            b.one_line_error(r, 125, "[paths] ids_dir", where, why)


def test_S3_the_default_ids_are_nobody_elses():
    said = json.loads(b.berth("config", "show", "--json", ok=True).out)["ids"]
    first = said["base"]["value"]
    last = first + said["count"]["value"] * IDS - 1
    taken = [(0, 65535), (60001, 60513), (61184, 65519), (524288, 1879048191), (2147352576, 2147418111), (2 ** 31, 2 ** 32 - 1),
             # useradd's default for /etc/subuid; SSSD and FreeIPA; OpenShift
             (100000, 600100000), (200000, 2000200000), (1000000000, 1999999999)]
    assert not [t for t in taken if t[0] <= last and first <= t[1]], (first, last)
    p = b.start("run", "host", "sh", "-c", "echo here; exec sleep 600")
    b.read_until(p.stdout, b"here\n")
    try:
        sleeper, = [q for q in proc.descendants(p.pid) if proc.cmdline(q).endswith(" sleep 600")]
        inside, outside, count = map(int, open(f"/proc/{sleeper}/uid_map").read().split())
        assert (inside, count) == (0, IDS) and first <= outside <= last
    finally:
        b.stop(p)
        b.gc()


def test_S3_subordinate_ids_of_users_are_never_a_sandboxs():
    base = 2000224256
    with places("[ids]\ncount = 3\n") as (one,):
        with instead_of("/etc/subuid", f"# a comment\nalice:{base}:65536\nberth:{base}:196608\n"), \
                instead_of("/etc/subgid", f"bob:{base + 2 * IDS + 65535}:1\n"):
            box = one.create()
            assert one.base(box) == base + IDS
            b.one_line_error(one.berth("create", "host"), 125, "all 3 id ranges", "2 of them by /etc/sub", "hint:")
            one.berth("rm", "--force", box, ok=True)
        with instead_of("/etc/subuid", f"alice:100000:{2 ** 31}\n"):
            b.one_line_error(one.berth("create", "host"), 125, "/etc/subuid", "'alice'", "hint: set another [ids] base")
