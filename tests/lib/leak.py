# SPDX-License-Identifier: Apache-2.0
"""
The leak check around every test: what the machine holds afterwards must be what it held before.

Looked at: mounts, cgroups below this test's parent and the processes in them, processes that
descend from the test (it is their subreaper, so a daemon that was let go is found too; while
none is left, no namespace is held but by a mount, which is found as such), network interfaces
and named network namespaces, loop devices, SysV IPC, open fds of the test, and what stands in
the test's state root.  The kernel tears some of it down asynchronously: it has 2 s (on an idle machine).
"""
import errno
import os
import re
import shutil
import socket
import time

import berthtest
import proc

GRACE = 2.0
CGROUPS = "/sys/fs/cgroup"


def lines(path):
    try:
        with open(path) as f:
            return f.read().splitlines()
    except FileNotFoundError:
        return []
    except OSError as e:
        if e.errno == errno.ENODEV:  # the cgroup was removed while we read it
            return []
        raise


def names(path):
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def cgroup_dirs(parent):
    """Every cgroup of this test, in every hierarchy, children first."""
    tops = [CGROUPS] + [os.path.join(CGROUPS, n) for n in names(CGROUPS)]
    # the parent stands below the caller's own cgroup in some hierarchies
    tops += [os.path.join(CGROUPS, c, rel.lstrip("/")) for c in names(CGROUPS)
             for rel in set(proc.cgroups("self")) if rel != "/"]
    found = []
    for top in dict.fromkeys(tops):
        for n in names(top):
            if n == parent or n.startswith(parent + "-") or n.startswith(parent + "."):
                for where, _, _ in os.walk(os.path.join(top, n), topdown=False):
                    found.append(where)
    return list(dict.fromkeys(found))


def loops(root):
    found = []
    for dev in names("/sys/block"):
        if dev.startswith("loop"):
            for backing in lines(f"/sys/block/{dev}/loop/backing_file"):
                if backing.startswith(root + "/"):
                    found.append(f"{dev} {backing}")
    return found


# What may stand in an idle state root: empty directories, lock files (never unlinked), models of blank file systems, what berthd accepted, the secret of E2B's keys, the host key of SSH, the image store
# and the skeleton of the host image.  A range of ids is free when the sandbox in its note is gone.  The spare directory
# has a record, of spaces alone; run/swept says how far commands have looked for leftovers.
KEPT_DIRS = ("store", "host", "ids", "manager", "ssh")


def says_nothing(path):
    return path.endswith("/run/spare/record.json") and not "".join(lines(path)).strip()


def range_notes(path):
    """The ids in the notes of ranges (manager/host/ranges.h): 72 bytes for each, the id first."""
    try:
        with open(path, "rb") as f:
            data = f.read()
    except FileNotFoundError:
        return set()
    return {data[at:at + 24].split(b"\0")[0].decode(errors="replace") for at in range(0, len(data), 72)}


def state_residue(root):
    found = []
    for part in ("run", "state"):
        top = os.path.join(root, part)
        for where, dirs, files in os.walk(top):
            if where == top:
                dirs[:] = [d for d in dirs if d not in KEPT_DIRS]
            # the steps of builds stay for the next build
            dirs[:] = [d for d in dirs if not (d.startswith("build-cache-") and os.path.basename(where) == "volumes")]
            inner = where != top
            found += [os.path.join(where, d) for d in dirs if inner]
            found += [os.path.join(where, f) for f in files
                      if (inner or not (f.endswith("lock") or f.startswith(("events", "blank-")) or f in ("berthd.toml", "swept", "e2b.key"))) and (os.path.basename(where), f) != ("network", "lock")]
    # berthd's records may stay, but not the sandboxes that they describe
    for part in ("workspaces", "archived"):
        found += [os.path.join(root, "state/manager", part, n) for n in names(f"{root}/state/manager/{part}")]
    found = [f for f in found if not says_nothing(f)]
    held = range_notes(f"{root}/state/ids/slots")
    found += [f"a range of ids held by {id}" for id in names(f"{root}/run/sandboxes") if id in held]
    return found


def snapshot(test_pid):
    parent, root = berthtest.cgroup_parent_of(test_pid), berthtest.root_of(test_pid)
    dirs = cgroup_dirs(parent)
    inside = []
    for d in dirs:
        inside += [f"{d}: {proc.cmdline(int(p))}" for p in lines(d + "/cgroup.procs")
                   if p.isdigit() and proc.alive(int(p))]
    proc.reap()
    return {
        "mount": lines("/proc/self/mountinfo"),
        # the parent itself and that of its keepers may stay; they hold nothing
        "cgroup": [d for d in dirs if os.path.basename(d) not in (parent, "keepers")],
        "process in a cgroup": inside,
        "process": [proc.cmdline(p) for p in proc.descendants(test_pid)],
        "network interface": [n for _, n in socket.if_nameindex()],
        "network namespace": names("/run/netns"),
        "loop device": loops(root),
        "SysV object": [l for kind in ("shm", "sem", "msg") for l in lines(f"/proc/sysvipc/{kind}")[1:]],
        "open fd": fds(),
        "state": state_residue(root),
    }


def fds():
    found = []
    for fd in names("/proc/self/fd"):
        try:
            found.append(f"{fd} -> {os.readlink('/proc/self/fd/' + fd)}")
        except FileNotFoundError:
            pass  # the one that lists
    return [f for f in found if "/proc/" not in f]


def of_others(sign, kind, thing):
    """Whether this mount is gone because another process removed its mount point, which takes it from every namespace."""
    place = re.sub(r"\\(\d{3})", lambda m: chr(int(m.group(1), 8)), thing.split()[4]) if kind == "mount" else ""
    return kind == "mount" and sign == "-" and not os.path.lexists(place)


def difference(before, after, kinds=None):
    return [f"{kind} {'left' if sign == '+' else 'gone'}: {thing}"
            for kind in before if kinds is None or kind in kinds
            for sign, a, b in (("+", before, after), ("-", after, before))
            for thing in b[kind] if thing not in a[kind] and not of_others(sign, kind, thing)]


class Check:
    """with Check() as check: test(); check.finish()"""

    def __init__(self):
        self.pid = os.getpid()

    def __enter__(self):
        self.before = snapshot(self.pid)
        return self

    def now(self, wait=GRACE, but=lambda thing: False):
        """The differences from the start that are still there after some time, without those that are allowed."""
        end = time.monotonic() + wait * berthtest.SLOW
        while True:
            found = [f for f in difference(self.before, snapshot(self.pid)) if not but(f)]
            if not found or time.monotonic() > end:
                return found
            time.sleep(0.01)

    def finish(self, failing=False):
        found = self.now(0 if failing else GRACE)
        berthtest.kill_tree(self.pid)
        remove_cgroups(self.pid)
        if found and failing:
            print("left at the failure:\n  " + "\n  ".join(found[:20]), flush=True)
        elif found:
            raise AssertionError("the test leaves something behind:\n  " + "\n  ".join(found))

    def __exit__(self, *_):
        return False


def remove_cgroups(test_pid):
    """Removes the cgroups of a test, and ends what may still run in them."""
    for d in cgroup_dirs(berthtest.cgroup_parent_of(test_pid)):
        for p in lines(d + "/cgroup.procs"):
            proc.kill(int(p))
    end = time.monotonic() + 5
    while True:
        left = []
        for d in cgroup_dirs(berthtest.cgroup_parent_of(test_pid)):
            try:
                os.rmdir(d)
            except OSError:
                left.append(d)
        if not left or time.monotonic() > end:
            break
        time.sleep(0.01)


def sweep(test_pid):
    """In the runner, after the test's process has ended: ends everything that the test left running."""
    for pid in proc.descendants(os.getpid()):
        proc.kill(pid)
    remove_cgroups(test_pid)
    # in the runner's namespace, which does not have the test's mounts
    shutil.rmtree(berthtest.root_of(test_pid), ignore_errors=True)
    proc.reap()
