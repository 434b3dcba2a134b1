# SPDX-License-Identifier: Apache-2.0
"""
T5, L07, L08: kill -9 of the CLI at any point.

After each kill no process of the sandbox is alive within 1 s, and after one `berth gc` (or
a later `berth run`, when few others are there) nothing is left: the leak check, done here after every single kill.
The points: each n-th system call of the CLI, by strace, and delays from its start.

Attacks S7, S11 of SECURITY.md.
"""
import collections
import os
import re
import signal
import subprocess
import threading
import time

import berthtest as b
import leak
import proc

COST = 25
DEADLINE = 150
ENDS = ["host", "sh", "-c", "setsid sleep 1000 & exit 3"]
STAYS = ["host", "sh", "-c", "trap '' TERM HUP INT; setsid sleep 1000 & echo up; while :; do sleep 0.1; done"]


def points(*args, code=3):
    """[(system call, n-th of it)] of the CLI itself, in order."""
    b.run("host", "true", ok=True)  # what only the first run makes is made
    log = b.tmp("trace")
    r = b.berth(*args, prefix=["strace", "-qq", "-o", log], timeout=60)
    if "PTRACE" in r.err or not os.path.exists(log):
        raise b.skip(f"strace does not run here: {r.err.strip()}")
    b.expect_code(r, code)
    seen, found = collections.Counter(), []
    for line in open(log, errors="replace"):
        m = re.match(r"(\w+)\(", line)
        if m:
            seen[m.group(1)] += 1
            # strace's own: the execve that starts berth cannot be killed usefully
            if m.group(1) not in ("exit_group",) and not (m.group(1) == "execve" and seen["execve"] == 1):
                found.append((m.group(1), seen[m.group(1)]))
    return found


def spread(found, count):
    if len(found) <= count:
        return found
    return [found[i * len(found) // count] for i in range(count)]


class Killer:
    def __init__(self):
        self.check = leak.Check()
        self.check.__enter__()
        self.bad = []
        self.killed = 0

    def after(self, label, clear=("gc",), also=None):
        me = os.getpid()
        try:
            b.wait_for(lambda: not living(me), 6)
        except AssertionError:
            self.bad.append(f"{label}: alive after 30 s: {[proc.cmdline(p) for p in living(me)]}")
            b.kill_tree(me)
        r = b.berth(*clear, timeout=30)
        if r.code:
            self.bad.append(f"{label}: berth {clear[0]} says {r.code}: {r.err.strip()}")
        if also:
            also()
        left = self.check.now(1)
        if left:
            self.bad.append(f"{label}: left after {clear[0]}: {left[:6]}")
            # do not blame the next point for this one
            leak.remove_cgroups(me)
            self.check.before = leak.snapshot(me)

    def at(self, call, nth, *args, clear=("gc",), also=None):
        p = subprocess.Popen(["strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                              "-e", f"inject={call}:signal=SIGKILL:when={nth}", b.BERTH, *args],
                             env=b.environment(b.under_strace()), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            p.wait(20 * b.SLOW)
        except subprocess.TimeoutExpired:
            self.bad.append(f"{call} {nth}: not done after 20 s")
            b.kill_tree(p.pid, including=True)
            p.wait()
        p.stdout.close()
        p.stderr.close()
        # strace dies of what its child died of
        self.killed += p.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
        self.after(f"{call} {nth}", clear, also)

    def done(self, at_least):
        assert not self.bad, f"{len(self.bad)} of {self.killed} kills:\n" + "\n".join(self.bad[:30])
        assert self.killed >= at_least, f"only {self.killed} kills took place"


def living(root):
    # what waits to be collected is dead; the test itself collects the orphans
    proc.reap_orphans(root)
    return proc.descendants(root)


def test_T5_at_60_system_calls_of_run():
    k = Killer()
    for call, nth in spread(points("run", *ENDS), b.times(30, 60)):
        k.at(call, nth, "run", *ENDS)
    k.done(b.times(20, 45))


def test_T5_with_a_file_for_the_disk_a_name_and_a_volume():
    k = Killer()
    source = b.tmpdir("source")
    args = ["run", "--name", "again", "--disk", "1g", "-v", f"{source}:/v:rw", *ENDS]
    for call, nth in spread(points(*args), b.times(20, 40)):
        k.at(call, nth, *args)
    k.done(b.times(10, 30))


def test_T5_with_keep():
    k = Killer()
    args = ["run", "--keep", "--name", "kept", *ENDS]
    found = points(*args)
    b.berth("rm", "kept", ok=True)
    for call, nth in spread(found, b.times(12, 25)):
        k.at(call, nth, *args, also=remove_kept)
    k.done(b.times(6, 15))


def remove_kept():
    """When it came as far as being kept, and is known as such, that is no residue."""
    if "kept" in b.berth("ps", "-a").out:
        b.berth("rm", "kept", ok=True)


def test_L08_the_next_run_clears_too():
    k = Killer()
    for call, nth in spread(points("run", *ENDS), 20):
        k.at(call, nth, "run", *ENDS, clear=("run", "host", "true"))
    k.done(12)


def test_L08_a_run_that_has_ended_before_it_looks_clears_too():
    """Its command is done before the CLI comes to the leftovers: strace holds the CLI back there."""
    k = Killer()
    for _ in range(3):
        p = b.start("run", *STAYS)
        b.read_until(p.stdout, b"up\n")
        p.kill()
        k.killed += 1
        b.stop(p)
        b.wait_for(lambda: not living(os.getpid()), 5)
        r = b.berth("run", "host", "true", timeout=30, env=b.under_strace(),
                    prefix=["strace", "-qq", "-o", "/dev/null", "-e", "trace=poll", "-e", "inject=poll:delay_enter=500000"])
        b.expect_code(r, 0)
        left = k.check.now(1)
        assert not left, left
    k.done(3)


def test_T5_at_delays_from_the_start():
    k = Killer()
    for i in range(0, 45, b.times(2, 1)):
        p = b.start("run", *STAYS)
        time.sleep(0.0005 * i)  # the point to hit: 0 to 22 ms after the start
        p.kill()
        k.killed += 1
        b.stop(p)
        k.after(f"after {0.5 * i} ms")
    k.done(b.times(22, 45))


def test_T5_create_that_is_killed_before_it_can_tell_leaves_nothing():
    """
    Also not a sandbox that runs and that nobody knows of.  Of each call the last two before it waits for the keeper are left
    out: there may be one more or one less of them another time, and after the answer it may stay.
    """
    k = Killer()
    args = ["create", "--name", "again", "--disk", "16m", "-v", f"{b.tmpdir('source')}:/v", "host"]
    found = [point for point in points(*args, code=0) if point[0] != "execve"]
    b.berth("rm", "-f", "again", ok=True)
    waits = max(i for i, (call, _) in enumerate(found) if call == "wait4")
    before = found[:waits]
    before = [(call, nth) for i, (call, nth) in enumerate(before) if sum(c == call for c, _ in before[i + 1:]) >= 2]
    k.check.before = leak.snapshot(os.getpid())
    for call, nth in spread(before, 40) + [found[waits]] * 5:
        k.at(call, nth, *args)
    k.done(30)


def test_L07_a_running_sandbox_dies_with_its_cli():
    k = Killer()
    for options in ([], ["--timeout", "100s"], ["--memory", "64m"], ["-u", "1000"], ["--seccomp", "unconfined"], ["--network", "host"]):
        p = b.start("run", *options, *STAYS)
        b.read_until(p.stdout, b"up\n")
        assert len(proc.descendants(p.pid)) >= 3
        p.kill()
        k.killed += 1
        b.stop(p)
        k.after(f"running with {options}")
    k.done(6)


def test_L07_ten_at_once():
    k = Killer()
    ps = [b.start("run", "--name", f"n{i}", *STAYS) for i in range(10)]
    for p in ps:
        b.read_until(p.stdout, b"up\n")
    for p in ps:
        p.kill()
    for p in ps:
        b.stop(p)
    k.killed = 10
    k.after("ten at once")
    # their names and id ranges are free again
    for i in range(10):
        b.run("--name", f"n{i}", "host", "true", ok=True)
    k.done(10)


def test_a_rename_that_is_killed_leaves_no_name_behind():
    def box():
        """A stopped sandbox: no process of it is alive."""
        i = b.berth("create", "--name", "first", "host", ok=True).out.strip()
        b.berth("stop", i, ok=True)
        return i

    i = box()
    found = points("rename", i, "second", code=0)
    b.berth("rm", i, ok=True)
    k = Killer()
    for call, nth in spread(found, 12):
        i = box()
        # one name or two, which go with the sandbox
        k.at(call, nth, "rename", i, "second", clear=("rm", i))
    k.done(10)


def test_gc_leaves_the_living_alone():
    p = b.start("run", "--name", "alive", "host", "sh", "-c", "echo up; read x; echo $x")
    b.stop(p)
    p = b.start("run", "--name", "alive", "host", "sh", "-c", "echo up; read x; echo $x", stdin=subprocess.PIPE)
    b.read_until(p.stdout, b"up\n")
    for _ in range(5):
        b.gc()
        b.run("host", "true", ok=True)
    assert "alive" in b.berth("ps", ok=True).out
    out, _ = p.communicate(b"still\n", timeout=20 * b.SLOW)
    assert (p.returncode, out) == (0, b"still\n"), (p.returncode, out)


def test_gc_in_a_loop_stops_no_start():
    """A sandbox that starts joins a cgroup that is empty until then, which gc took for a leftover."""
    over = threading.Event()

    def loop():
        while not over.is_set():
            b.berth("gc", ok=True)

    loops = [threading.Thread(target=loop) for _ in range(2)]
    for t in loops:
        t.start()
    try:
        for _ in range(40):
            b.run("host", "true", ok=True)
    finally:
        over.set()
        for t in loops:
            t.join()


def test_gc_itself_can_be_killed():
    k = Killer()

    def remains():
        p = b.start("run", *STAYS)
        b.read_until(p.stdout, b"up\n")
        b.stop(p)
    remains()
    found = points("gc", code=0)
    for call, nth in spread(found, 20):
        remains()
        k.at(call, nth, "gc")
    k.done(8)


def test_killing_the_sandboxs_init_is_told():
    """From the host: the CLI ends at once with a verdict that is no success, and nothing is left."""
    for options in ([], ["--timeout", "100s"]):
        p = b.start("run", "--json", *options, *STAYS)
        b.read_until(p.stdout, b"up\n")
        inside = b.wait_for(lambda: [d for d in proc.descendants(p.pid) if re.search(r"^NSpid:\t.*\t1$", open(f"/proc/{d}/status").read(), re.M)],
                            what="pid 1 of a sandbox")
        proc.kill(inside[0])
        out, err = p.communicate(timeout=10 * b.SLOW)
        assert p.returncode in (125, 137), (p.returncode, out, err)
        assert b"lost" in out + err or b"killed" in out + err, (out, err)


def test_L06_a_forged_record_kills_nobody():
    """A state directory that names a process of the host: gc must not touch it."""
    p = b.start("run", *STAYS)
    b.read_until(p.stdout, b"up\n")
    boxes = os.path.join(b.root(), "run", "sandboxes")
    record = os.path.join(boxes, os.listdir(boxes)[0], "record.json")
    b.wait_for(lambda: os.path.exists(record), 10, "the record")
    bystander = subprocess.Popen(["sleep", "1000"])
    text = open(record).read()
    pids = set(re.findall(r'"(?:init|supervisor)_pid":\s*(\d+)', text))
    assert pids, text
    for pid in pids:
        text = text.replace(pid, str(bystander.pid))
    b.stop(p)
    with open(record, "w") as f:
        f.write(text)
    b.gc()
    assert bystander.poll() is None, "gc killed a process of the host"
    bystander.kill()
    bystander.wait()
