# SPDX-License-Identifier: Apache-2.0
"""
Checkpoints, undo, fork and diff against the owner of a sandbox, and against commands that meet: what a sandbox does to its
disk, its processes and its names holds nobody up for good, and no two commands leave a state between.
"""
import json
import os
import re
import subprocess
import threading

import berthtest as b
from box import Box


def sh(x, text, **kw):
    return b.berth("exec", x, "sh", "-c", text, **kw)


def needs_file(x):
    if os.path.isdir(os.path.join(b.root(), "state", "sandboxes", x.id, "writable")):
        raise b.skip("the state directory has project quotas")


def checkpoint(x, **kw):
    return json.loads(b.berth("checkpoint", "--json", x.id, ok=True, **kw).out)


def listed(x):
    return json.loads(b.berth("checkpoints", "--json", x.id, ok=True).out)


def is_frozen(x):
    """Does its file system stand still?  A write says so by not ending."""
    return sh(x.id, "echo x > /.still && sync /.still && rm /.still", timeout=30).code != 0


@b.deadline(180)
def test_a_disk_that_is_full_has_checkpoints_and_comes_back():
    with Box("--disk", "48m") as x:
        needs_file(x)
        sh(x.id, "echo kept > /f", ok=True)
        checkpoint(x)
        sh(x.id, "cat /dev/zero > /fill; i=0; while echo > /$i 2>/dev/null && [ $i -lt 300 ]; do i=$((i+1)); done")
        checkpoint(x)
        assert "No space" in sh(x.id, "head -c 100000 /dev/zero > /more").err
        b.berth("undo", x.id, ok=True)
        b.berth("undo", x.id, ok=True)
        assert sh(x.id, "cat /f; head -c 10000000 /dev/zero > /more && echo room", ok=True).out == "kept\nroom\n"


@b.deadline(240)
def test_storms_of_writes_forks_and_stopped_processes_do_not_hold_it_up():
    storms = {
        "fsync": "while :; do for i in 1 2 3 4; do dd if=/f.big of=/s$i bs=64k count=20 conv=fsync 2>/dev/null & done; wait; done",
        "direct": "while :; do dd if=/f.big of=/d bs=1M count=20 oflag=direct 2>/dev/null; done",
        "dirty": "while :; do head -c 30000000 /dev/zero > /x; done",
        "names": "i=0; while :; do mkdir -p /n/$i; mv /n/$i /n/m$i; ln -s m$i /n/l$i; rm -rf /n/m$i /n/l$i; i=$(((i+1)%50)); done",
        "forks": "f() { f & f & }; while :; do (f) 2>/dev/null; sleep 0.2; done",
        "stopped": "for i in 1 2 3 4 5; do sh -c 'kill -STOP $$' & done; sleep 1000",
    }
    for name, text in storms.items():
        with Box("--disk", "200m", "--pids", "100") as x:
            needs_file(x)
            sh(x.id, "echo kept > /f; head -c 20000000 /dev/zero > /f.big; sync", ok=True)
            b.berth("exec", "--detach", x.id, "sh", "-c", text, ok=True)
            for _ in range(b.times(3, 20)):
                assert checkpoint(x, timeout=30)["checkpoint"], name
            if name != "forks":     # which may leave no room for another process
                assert not is_frozen(x), name
            b.berth("undo", x.id, ok=True, timeout=30)
            assert sh(x.id, "cat /f", ok=True).out == "kept\n", name


@b.deadline(120)
def test_a_process_that_sleeps_in_the_kernel_holds_no_checkpoint_up():
    """Its parent waits for a vfork child without end, which no freezer of a process can take."""
    if subprocess.run(["sh", "-c", "command -v python3"], stdout=subprocess.DEVNULL).returncode:
        raise b.skip("needs python3")
    with Box() as x:
        needs_file(x)
        code = ("import ctypes, os, time\nos.close(0)\nl = ctypes.CDLL(None)\nl.vfork.restype = ctypes.c_int\n"
                "open('/began', 'w').close()\np = l.vfork()\nl.pause()\n")
        b.berth("exec", "--detach", x.id, "python3", "-c", code, ok=True)
        b.wait_for(lambda: sh(x.id, "test -e /began").code == 0, 30, "the process")
        assert checkpoint(x)["frozen_us"] < 5000000
        assert not is_frozen(x)


def test_names_of_files_are_no_names_of_checkpoints():
    with Box() as x:
        needs_file(x)
        checkpoint(x)
        words = ("../k1", "k1.img", "list.json", "/etc/passwd", "..", ".", "k1/", "a/b", "", "k1\n", "-", "\u00e9", "k" * 300)
        for word in words:
            for args in (["undo", f"--to={word}", x.id], ["fork", f"{x.id}@{word}"], ["checkpoint", "rm", x.id, "--", word],
                         ["diff", f"--from={word}", x.id],
                         ["checkpoint", f"--name={word}", x.id]):
                p = b.berth(*args)
                # an empty name is none, and one may look like a file of ours, as none is a path
                if args[:1] != ["checkpoint"] or args[1] == "rm" or word not in ("", "k1.img", "list.json"):
                    assert p.code in (2, 125) and not p.out, p
        assert [c["id"] for c in listed(x)["checkpoints"]][:1] == ["k1"] and sh(x.id, "true").code == 0
        for session in ("../k1", "a/b", "+main", "", ".hidden", "k1.main.sh/x"):
            assert b.berth("sh", f"--session={session}", x.id, "--", "true").code in (2, 125), session


def test_links_in_the_layer_lead_undo_fork_and_diff_nowhere():
    """What the host opens of a layer is followed nowhere: not where its own files are, nor above."""
    secret = b.write(b.tmp("secret"), "host secret\n")
    with Box() as x:
        needs_file(x)
        sh(x.id, f"mkdir /a; echo x > /a/f; ln -s {secret} /link; ln -s / /root-link; ln -s ../../../.. /up", ok=True)
        checkpoint(x)
        sh(x.id, f"rm -rf /a /etc/hosts /etc/hostname; ln -s {os.path.dirname(secret)} /a; ln -s {secret} /etc/hosts; "
                 f"ln -s {secret} /etc/hostname; rm /link; ln -s {os.path.dirname(secret)} /link", ok=True)
        out = b.berth("diff", "--from", "k1", "--patch", x.id, ok=True).out
        assert "host secret" not in out and "C /a\n" in out, out
        one = b.berth("fork", x.id, ok=True).out.strip()
        assert sh(one, "cat /etc/hosts /link/secret /a/secret").code == 1
        b.berth("rm", "-f", one, ok=True)
        b.berth("undo", x.id, ok=True)
        assert sh(x.id, "cat /a/f", ok=True).out == "x\n" and open(secret).read() == "host secret\n"


def test_a_chain_that_loses_its_middle_still_leads_back():
    with Box() as x:
        needs_file(x)
        for n in range(5):
            sh(x.id, f"echo {n} > /f", ok=True)
            checkpoint(x)
        b.berth("checkpoint", "rm", x.id, "k2", "k4", ok=True)
        assert [(c["id"], c["parent"]) for c in listed(x)["checkpoints"]] == [("k1", None), ("k3", "k1"), ("k5", "k3")]
        one = b.berth("fork", f"{x.id}@k3", ok=True).out.strip()
        two = b.berth("fork", one, ok=True).out.strip()
        three = b.berth("fork", two, ok=True).out.strip()
        b.berth("rm", "-f", one, two, ok=True)
        assert sh(three, "cat /f", ok=True).out == "2\n"
        b.berth("rm", "-f", three, ok=True)
        sh(x.id, "echo 9 > /f", ok=True)
        assert b.berth("undo", "--steps", "2", x.id, ok=True).out == "k3\n"
        b.berth("checkpoint", "rm", x.id, "k5", "k3", ok=True)
        assert b.berth("undo", x.id, ok=True).out == "k1\n" and sh(x.id, "cat /f", ok=True).out == "0\n"


# What a command may say that meets another one: words with a reason, and no other status.
MAY = re.compile(r"berth [a-z ]+: .*")


@b.long_proof("it repeats")
@b.deadline(600)
def test_commands_that_meet_each_other_leave_one_state():
    """Undos, checkpoints, forks, starts, stops and commands at once: each is done or refused with words."""
    calls = (["undo"], ["undo"], ["checkpoint"], ["checkpoint"], ["fork"], ["stop"], ["restart"], ["start"], ["update", "--pids", "90"],
             ["exec-f"], ["sh-f"], ["diff", "--from", "k1"])
    with Box("--pids", "80") as x:
        needs_file(x)
        sh(x.id, "echo same > /f; sync", ok=True)
        b.berth("sh", x.id, input="kept=1", ok=True)
        checkpoint(x)
        bad, forks = [], []

        def hand(call, n):
            for _ in range(n):
                if call[0] in ("exec-f", "sh-f"):
                    p = b.berth(call[0][:-2], x.id, *(["--"] if call[0] == "sh-f" else []), "cat", "/f", timeout=60)
                    if p.code == 0 and p.out.strip() != "same":
                        bad.append(p)
                    continue
                p = b.berth(*call, x.id, timeout=60)
                if p.code not in (0, 125) or (p.code and not MAY.match(p.err)) or "internal" in p.err:
                    bad.append(p)
                if call[0] == "fork" and p.code == 0:
                    forks.append(p.out.strip())

        hands = [threading.Thread(target=hand, args=(c, b.times(4, 20))) for c in calls]
        for t in hands:
            t.start()
        for t in hands:
            t.join()
        assert not bad, bad[:5]
        for one in forks:
            assert sh(one, "cat /f").out == "same\n", one
            b.berth("rm", "-f", one, ok=True)
        b.berth("start", x.id)
        assert sh(x.id, "cat /f", ok=True).out == "same\n"
        b.berth("undo", "--to", "k1", x.id, ok=True)
        assert b.berth("sh", x.id, input="echo $kept", ok=True).out.strip() == "1"
        checkpoint(x)
        left = [f for f in os.listdir(os.path.join(b.root(), "state", "sandboxes", x.id, "checkpoints"))
                if f.endswith(".img") and f[:-4] not in [c["id"] for c in listed(x)["checkpoints"]]]
        assert not left, left


@b.deadline(120)
def test_a_removal_during_a_checkpoint_or_an_undo_leaves_nothing():
    for n in range(b.times(6, 30)):
        x = Box("--disk", "64m")
        needs_file(x)
        sh(x.id, "head -c 8000000 /dev/urandom > /big", ok=True)
        checkpoint(x)
        p = b.start(*(["undo", x.id] if n % 2 else ["checkpoint", x.id]))
        r = b.berth("rm", "-f", x.id, timeout=60)
        p.wait(60 * b.SLOW)
        assert p.returncode in (0, 125), p
        b.wait_for(lambda: b.berth("rm", "-f", x.id).code == 0 or x.id not in b.berth("ps", "-aq").out, 60, f"rm after {r}")
        assert not os.path.exists(os.path.join(b.root(), "state", "sandboxes", x.id)), (n, r)
