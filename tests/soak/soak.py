#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: soak.py [--build DIR] [--minutes N] [--hands N] [--seed N] [--json FILE]

Mixed load by random verbs on many sandboxes, with crashes: keepers, inits and clients are killed
with -9 at any moment.  Every half minute the hands rest, all sandboxes but one are removed, `berth gc`
runs, and what is left is looked at: mounts, cgroups, processes, descriptors, interfaces, loop devices, state.
One sandbox lives through it all; its keeper's memory and descriptors must not grow.  Each call must answer
within its deadline, with a status that it may have.

Prints one line a rest; exit status 0 when nothing leaked, grew, hung or answered wrongly.
"""
import argparse
import collections
import json
import os
import random
import re
import subprocess
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))

REST_SECONDS = 30
ANSWER = 60
MAX_BOXES = 12
JOURNAL_KIB = 2500      # two files of 1 MiB and what else is small
# exit statuses a call may have while others kill, stop and remove what it works on
MAY_FAIL = {0, 1, 2, 3, 124, 125, 126, 127, 129, 130, 137, 143}


def options():
    ap = argparse.ArgumentParser(usage=__doc__.split("\n\n", maxsplit=1)[0])
    ap.add_argument("--build", default=os.path.join(TOP, "build"))
    ap.add_argument("--minutes", type=float, default=30)
    ap.add_argument("--hands", type=int, default=4)
    ap.add_argument("--seed", type=int, default=int(time.time()))
    ap.add_argument("--json")
    return ap.parse_args()


class Soak:
    def __init__(self, args, b, proc):
        self.args, self.b, self.proc = args, b, proc
        self.lock = threading.Lock()
        self.boxes = set()
        self.counts, self.bad = collections.Counter(), []
        self.rows = []

    # ---- what a hand does

    def call(self, verb, *words, stdin=None, kill_after=None, fine=MAY_FAIL):
        p = subprocess.Popen([self.b.BERTH, verb, *words], env=self.b.environment(), stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = p.communicate(stdin, timeout=kill_after or ANSWER)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            if not kill_after:
                self.wrong(f"{verb} {words}: no answer within {ANSWER} s")
            self.counts["client killed"] += 1
            return None, b"", b""
        self.counts[verb] += 1
        if p.returncode not in fine:
            self.wrong(f"{verb} {words}: exit status {p.returncode}: {err[-300:]!r}")
        if p.returncode == 125 and (not err.startswith(b"berth") or err.count(b"\n") != 1):
            self.wrong(f"{verb} {words}: not one clear line: {err!r}")
        return p.returncode, out, err

    def wrong(self, text):
        with self.lock:
            self.bad.append(text)
        print("WRONG " + text, flush=True)

    def some_box(self, r):
        with self.lock:
            return r.choice(sorted(self.boxes)) if self.boxes else None

    def record(self, box, key):
        try:
            with open(os.path.join(self.b.root(), "run", "sandboxes", box, "record.json")) as f:
                return json.load(f).get(key)
        except (OSError, ValueError):
            return None

    def step(self, r):
        verb = r.choice(("create", "create", "exec", "exec", "exec", "sh", "sh", "file", "cp", "stop", "start", "restart", "pause", "rm", "kill9",
                         "run", "detach", "ps", "stats", "update", "client", "gc", "timeout", "diff", "oom"))
        box = self.some_box(r)
        kill_after = r.uniform(0.001, 0.05) if r.random() < 0.05 else None
        if verb == "run":
            self.call("run", "--memory", "64m", "host", "sh", "-c", "echo x >/tmp/f; (sleep 5 &) ; exit 3", kill_after=kill_after)
            return
        if verb == "create" or not box:
            if len(self.boxes) < MAX_BOXES:
                code, out, _ = self.call("create", "--memory", "96m", "--pids", "64", *(["--disk", "8m"] if r.random() < 0.3 else []), "host")
                if code == 0:
                    with self.lock:
                        self.boxes.add(out.decode().strip())
            return
        if verb == "exec":
            self.call("exec", box, "sh", "-c", r.choice(("true", "exit 3", "head -c 100000 /dev/zero", "for i in 1 2 3; do sleep 0.01; done")),
                      kill_after=kill_after)
        elif verb == "sh":
            self.call("sh", "--session", r.choice("abc"), "--timeout", "5", box, "--",
                      r.choice(("cd /tmp; x=$((x+1)); echo $x", "sleep 0.05 & echo hi", "exit 3", "seq 2000", "cat /nowhere", "'")), kill_after=kill_after)
        elif verb == "timeout":
            self.call("exec", "--timeout", "0.1", "--grace", "0.05", box, "sh", "-c", "trap '' TERM; setsid sleep 99 & sleep 99")
        elif verb == "oom":
            self.call("exec", "--memory", "16m", box, "sh", "-c", "exec tail /dev/zero")
        elif verb == "file":
            self.call("file", "write", box, f"f{r.randrange(5)}", stdin=b"x" * r.randrange(1, 200000), kill_after=kill_after)
            self.call("file", r.choice(("ls", "stat")), box, ".")
        elif verb == "cp":
            target = self.b.tmp(f"cp-{threading.get_ident()}-{r.randrange(3)}")
            self.call("cp", os.path.join(TOP, "runtime", "init"), f"{box}:/tmp/init{r.randrange(3)}", kill_after=kill_after)
            self.call("cp", f"{box}:/etc", target, kill_after=kill_after)
            subprocess.run(["rm", "-rf", target], check=True)
        elif verb == "pause":
            self.call("pause", box)
            self.call("resume", box)
        elif verb == "detach":
            code, out, _ = self.call("exec", "-d", box, "sh", "-c", "echo a; sleep 0.05; echo b")
            if code == 0:
                command = out.decode().strip()
                self.call("wait", box, command, kill_after=kill_after)
                self.call("output", box, command)
        elif verb == "kill9":
            pid = self.record(box, r.choice(("supervisor_pid", "init_pid")))
            if pid and self.proc.cmdline(pid):
                self.proc.kill(pid)
                self.counts["killed -9"] += 1
        elif verb == "client":
            self.call("exec", box, "sleep", "5", kill_after=r.uniform(0.0, 0.1))
        elif verb == "update":
            self.call("update", "--memory", r.choice(("64m", "128m")), box)
        elif verb in ("ps", "gc"):
            self.call(verb, *(["-a"] if verb == "ps" else []), fine={0})
        elif verb == "stats":
            self.call("stats", "--no-stream", box)
        elif verb == "rm":
            self.call("rm", "-f", box)
            with self.lock:
                self.boxes.discard(box)
        else:
            self.call(verb, box)

    def hand(self, seed, until):
        r = random.Random(seed)
        while time.monotonic() < until and len(self.bad) < 20:
            try:
                self.step(r)
            except Exception as e:  # a fault of the soak's own is a failure too
                self.wrong(f"{type(e).__name__}: {e}")
                return

    # ---- what is looked at

    def survivor(self, box):
        keeper = self.record(box, "supervisor_pid")
        with open(f"/proc/{keeper}/smaps_rollup") as f:
            private = sum(int(n) for n in re.findall(r"^Private_\w+:\s+(\d+) kB", f.read(), re.M))
        return {"keeper_pid": keeper, "keeper_private_kib": private, "keeper_fds": len(os.listdir(f"/proc/{keeper}/fd"))}

    def rest(self, check, box, number):
        for other in self.b.berth("ps", "-a", "-q", ok=True).out.split():
            if other != box:
                self.call("rm", "-f", other, fine={0})
        with self.lock:
            self.boxes.clear()
        self.call("gc", fine={0})
        # the survivor and what belongs to it is no leak
        row = self.survivor(box)
        family = {str(p) for p in (row["keeper_pid"], *self.proc.descendants(row["keeper_pid"]))}

        def is_survivors(thing):
            who = re.match(r"process (?:in a cgroup )?left: (?:/\S+: )?(\d+) \(", thing)
            return box in thing or bool(who) and who.group(1) in family
        found = check.now(wait=10, but=is_survivors)
        row["processes"] = len(self.proc.descendants(os.getpid()))
        # the journal of events grows to its bound and is turned over there; the image `host` follows the /etc of the host
        kib, journal = (int(subprocess.run(["du", "-sk", *words], stdout=subprocess.PIPE, text=True).stdout.split()[0]) for words in (
            ("--exclude=events*", "--exclude=host", self.b.root()), ("--exclude=sandboxes", "--exclude=host", os.path.join(self.b.root(), "state"))))
        if journal > JOURNAL_KIB:
            self.wrong(f"the journal has {journal} KiB")
        row.update(rest=number, leaks=found, disk_kib=kib, journal_kib=journal, own_fds=len(os.listdir("/proc/self/fd")), calls=sum(self.counts.values()))
        for f in found:
            self.wrong("left: " + f)
        self.rows.append(row)
        print(f"rest {number}: {row['calls']} calls, {self.counts['killed -9']} killed, keeper {row['keeper_private_kib']} KiB "
              f"{row['keeper_fds']} fds, disk {row['disk_kib']} KiB, {row['processes']} processes, {len(found)} left", flush=True)

    def work_on_survivor(self, box):
        """The same work before each rest, so that the rests can be compared."""
        for n in range(20):
            self.call("exec", box, "true", fine={0})
            self.call("sh", "--session", "s", box, "--", "echo x", fine={0})
            self.call("exec", "--timeout", "0.01", box, "sleep", "9", fine={124})
            code, out, _ = self.call("exec", "-d", box, "echo", str(n), fine={0})
            if code == 0:
                self.call("wait", box, out.decode().strip(), fine={0})

    def grew(self):
        """Compares the last rests with the early ones (the first is for warming up)."""
        rows = self.rows[1:]
        if len(rows) < 4:
            return
        early, late = rows[:max(1, len(rows) // 4)], rows[-max(1, len(rows) // 4):]
        for key, slack in (("keeper_private_kib", 128), ("keeper_fds", 2), ("disk_kib", 512), ("own_fds", 2), ("processes", 1)):
            a, z = (sum(r[key] for r in part) / len(part) for part in (early, late))
            if z > a + slack:
                self.wrong(f"{key} grew from {a:.0f} to {z:.0f}")

    def run(self):
        import leak
        check = leak.Check()
        check.__enter__()
        box = self.b.berth("create", "host", ok=True).out.strip()
        end = time.monotonic() + 60 * self.args.minutes
        seeds = random.Random(self.args.seed)
        number = 0
        while time.monotonic() < end and len(self.bad) < 20:
            until = min(end, time.monotonic() + REST_SECONDS)
            hands = [threading.Thread(target=self.hand, args=(seeds.random(), until)) for _ in range(self.args.hands)]
            for h in hands:
                h.start()
            for h in hands:
                h.join()
            self.work_on_survivor(box)
            number += 1
            self.rest(check, box, number)
        if self.survivor(box)["keeper_pid"] != self.rows[0]["keeper_pid"]:
            self.wrong("the keeper of the survivor is another")
        self.call("rm", "-f", box, fine={0})
        for f in check.now(wait=10):
            self.wrong("left at the end: " + f)
        self.grew()


def main():
    args = options()
    os.environ["BERTH_TEST_BUILD"] = os.path.abspath(args.build)
    import berthtest
    import leak
    import proc
    proc.own_namespaces()
    proc.subreaper()
    berthtest.begin(own_host_image=True)
    soak = Soak(args, berthtest, proc)
    print(f"soak: seed {args.seed}, {args.minutes:g} minutes, {args.hands} hands", flush=True)
    try:
        soak.run()
    finally:
        leak.sweep(os.getpid())
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"seed": args.seed, "counts": soak.counts, "rests": soak.rows, "bad": soak.bad}, f, indent=1)
    print(", ".join(f"{n} {k}" for k, n in sorted(soak.counts.items())))
    print(f"soak: {len(soak.bad)} wrong" if soak.bad else "soak: nothing left, nothing grew")
    sys.exit(1 if soak.bad else 0)


if __name__ == "__main__":
    main()
