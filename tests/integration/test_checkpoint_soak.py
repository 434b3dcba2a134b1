# SPDX-License-Identifier: Apache-2.0
"""
Checkpoints, forks and undos of random sandboxes with kill -9 of everything in between: after each kill a sandbox has the
files of before or after, and at the end nothing is left and the disk is as empty as before.  BERTH_SOAK_CHECKPOINTS is
the number of steps, BERTH_SOAK_SEED where they begin.
"""
import contextlib
import json
import os
import random
import signal
import subprocess
import time

import berthtest as b
from test_checkpoint import sh, xfs

STEPS = int(os.environ.get("BERTH_SOAK_CHECKPOINTS", b.times(120, 1000)))
BOXES = 6


class Model:
    """What each sandbox may have: its value, and those of its checkpoints, as sets of what is possible."""

    def __init__(self, env, rng):
        self.env, self.rng, self.n = env, rng, 0
        self.boxes = {}     # id: set of values
        self.saved = {}     # id: {checkpoint: set of values}
        self.shells = {}    # id: {checkpoint: what its shell had}
        self.kills = 0
        self.done = {}

    def call(self, *args, **kw):
        return b.berth(*args, env=self.env, **kw)

    def killed(self, *args):
        """Runs it and kills it, or a process that it needs, at some moment: True if it ended by itself, well."""
        p = b.start(*args, env=self.env)
        victim = self.rng.choice(["it", "keeper", "snapshot", "none", "none"])
        delay = self.rng.random() ** 2 * 0.06
        end = time.monotonic() + delay
        while p.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        if victim == "it" and p.poll() is None:
            p.kill()
            self.kills += 1
        if victim in ("keeper", "snapshot"):
            self.kill_of(self.rng.choice(list(self.boxes)), victim)
        out = p.communicate(timeout=60 * b.SLOW)[0]
        return (p.returncode == 0 and victim != "it", out.decode() if isinstance(out, bytes) else out or "")

    def kill_of(self, box, what):
        with contextlib.suppress(OSError, KeyError, ValueError, IndexError):
            pid = json.loads(self.call("inspect", box).out)["supervisor_pid"]
            if what == "snapshot":
                with open(f"/proc/{pid}/task/{pid}/children") as f:
                    names = {int(c): open(f"/proc/{c}/comm").read() for c in f.read().split()}
                pid = [c for c, name in names.items() if name == "berth-snapshot\n"][0]
            os.kill(pid, signal.SIGKILL)
            self.kills += 1
        return True

    def runs(self, box):
        """Started, whatever happened: what a kill left may still be about to end."""
        def one():
            self.call("start", box)
            return self.call("exec", box, "true").code == 0
        b.wait_for(one, 60, f"{box} to run")

    def look(self, box):
        self.runs(box)
        told = sh(box, "cat /n; wc -c < /big", env=self.env, ok=True).out.split()
        assert int(told[0]) in self.boxes[box] and told[1] == "2000000", (box, told, self.boxes[box])
        self.boxes[box] = {int(told[0])}
        for c in json.loads(self.call("checkpoints", "--json", box, ok=True).out)["checkpoints"]:
            if "owner" not in c:
                self.saved[box].setdefault(c["id"], set(self.possible[box]))
        return int(told[0])

    # ---- steps

    possible = {}

    def new(self):
        box = self.call("create", "--disk", "64m", "host", ok=True).out.strip()
        sh(box, "head -c 2000000 /dev/urandom > /big; echo 0 > /n; sync", env=self.env, ok=True)
        self.boxes[box], self.saved[box], self.shells[box] = {0}, {}, {}

    def write(self, box):
        self.n += 1
        ok, _ = self.killed("exec", box, "sh", "-c", f"echo {self.n} > /n.new; sync /n.new; mv /n.new /n; sync")
        self.boxes[box] = {self.n} if ok else self.boxes[box] | {self.n}

    def checkpoint(self, box):
        ok, out = self.killed("checkpoint", box)
        if ok:
            self.saved[box][out.strip()] = set(self.boxes[box])

    def session(self, box):
        """A checkpoint and an undo that nobody kills: the shell comes back with its directory and variables."""
        self.n += 1
        assert self.call("sh", box, input=f"kept={self.n}; f() {{ echo $kept; }}").code == 0
        at = self.call("checkpoint", box, ok=True).out.strip()
        self.saved[box][at], self.shells[box][at] = set(self.boxes[box]), self.n
        self.call("sh", box, input="kept=; unset -f f", ok=True)
        to = self.rng.choice(list(self.shells[box]))
        p = self.call("undo", "--to", to, box)
        if p.code == 0:     # an old one may have gone
            self.boxes[box] = set(self.saved[box][to])
            got = self.call("sh", box, input="f", ok=True).out.strip()
            assert got == str(self.shells[box][to]), (box, to, got)

    def undo(self, box):
        if not self.saved[box]:
            return
        to = self.rng.choice(list(self.saved[box]))
        ok, _ = self.killed("undo", "--to", to, box)
        known = self.saved[box][to]
        self.boxes[box] = set(known) if ok else self.boxes[box] | known

    def fork(self, box):
        at = self.rng.choice(["", *("@" + k for k in self.saved[box])])
        if len(self.boxes) < BOXES:
            ok, out = self.killed("fork", box + at)
            for one in out.split() if ok else []:
                self.boxes[one] = set(self.saved[box][at[1:]] if at else self.boxes[box])
                self.saved[one], self.shells[one] = {}, {}

    def remove(self, box):
        if len(self.boxes) > 2:
            self.killed("rm", "-f", box)
            b.wait_for(lambda: self.call("rm", "-f", box).code == 0 or box not in self.call("ps", "-aq").out, 60, "rm")
            del self.boxes[box], self.saved[box], self.shells[box]

    def step(self):
        box = self.rng.choice(list(self.boxes))
        act = self.rng.choice([self.write, self.write, self.checkpoint, self.checkpoint, self.undo, self.undo, self.fork, self.remove,
                               self.session])
        self.possible = {x: set(v) for x, v in self.boxes.items()}
        act(box)
        self.done[act.__name__] = self.done.get(act.__name__, 0) + 1
        if act == self.write or act == self.undo:
            self.possible = {x: self.possible.get(x, set()) | v for x, v in self.boxes.items()}
        for x in list(self.boxes):
            self.look(x)
        # forks whose command was killed are nobody's
        for x in set(self.call("ps", "-aq", ok=True).out.split()) - set(self.boxes):
            self.call("rm", "-f", x)
        if len(self.boxes) < 3:
            self.new()


def used(where):
    subprocess.run(["sync", "-f", where], check=True)
    st = os.statvfs(where)
    return (st.f_blocks - st.f_bfree) * st.f_frsize


@b.long_proof("it repeats")
@b.deadline(3000)
def test_nothing_is_lost_or_left_by_kills_in_between():
    seed = int(os.environ.get("BERTH_SOAK_SEED", "7"))
    with xfs("2g") as (env, where):
        m = Model(env, random.Random(seed))
        m.new()
        m.call("rm", "-f", *m.boxes, ok=True)
        m.boxes, m.saved = {}, {}
        before = used(where)
        for _ in range(3):
            m.new()
        began = time.monotonic()
        for step in range(STEPS):
            try:
                m.step()
            except AssertionError as e:
                raise AssertionError(f"seed {seed}, step {step}: {e}") from e
        print(f"{STEPS} steps, {m.kills} kills, {m.done}, {time.monotonic() - began:.0f} s")
        for x in m.boxes:
            m.call("rm", "-f", x, ok=True)
        m.call("gc", ok=True)
        assert os.listdir(where + "/state/sandboxes") == []
        b.wait_for(lambda: used(where) <= before + (4 << 20), 30, lambda: f"disk use back at {before}, not {used(where)}")
