#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The figures of issue 23 for checkpoints, undo and fork: timeline.py [--rounds 30] [--json FILE] [--against BUILD]
[--dir DIR] [WHERE-SIZE...], where WHERE is pool or none, and SIZE is small or large (10,000 files and 200 MB).

Each round writes a little in a shell, makes a checkpoint, runs one command that spoils some files, undoes it, and forks.
The rounds of what is compared take turns, so a busy machine touches all.  Of each figure: median and the 90th percentile.
"""
import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import berthtest as b  # noqa: E402

FILL = {
    "small": "mkdir /tree; for i in 0 1 2 3 4 5 6 7 8 9; do mkdir /tree/$i; echo $i > /tree/$i/f; done; sync",
    "large": "mkdir /tree; for i in $(seq 0 99); do mkdir /tree/$i; head -c 2048000 /dev/urandom | split -a 2 -b 20480 - /tree/$i/f; done; sync",
}
WRITE = "v=$((v + 1)); echo $v > /n; head -c 262144 /dev/urandom > /tree/0/new; cd /tree"
SPOIL = "rm -rf /tree/1 /tree/2; echo spoiled > /n; cd /; v=spoiled"
# key, what it is, the bound of the issue in ms for large trees in the pool
FIGURES = (("flush", "checkpoint: written out before the freeze", None), ("frozen", "checkpoint: stands still", 10),
           ("rest", "checkpoint: all but the flush and the freeze", 20), ("undo", "undo of one command", 60),
           ("shell", "undo until the shell has answered", 60), ("fork", "fork", None), ("first", "fork to the end of its first command", 25))


class Place:
    """A sandbox of one build, in one state directory."""

    def __init__(self, build, where, size, o):
        self.berth = os.path.join(build, "berth")
        self.key = f"{where}-{size}"
        self.took = {key: [] for key, _, _ in FIGURES}
        self.state = os.path.join(o.dir or b.root(), f"state-{abs(hash(build)) % 1000}-{self.key}")
        os.mkdir(self.state, 0o700)
        self.env = b.environment({"BERTH_STATE_DIR": self.state})
        if where == "pool":
            self.run("system", "pool", "create", "--size", o.pool_size)
        self.box = self.run("create", "--disk", "1g", "host").strip()
        self.run("sh", self.box, input="v=0; " + FILL[size])

    def run(self, *args, input=None):
        r = subprocess.run([self.berth, *args], env=self.env, input=input, stdout=subprocess.PIPE, check=True, text=True)
        return r.stdout

    def timed(self, *args, input=None):
        began = time.monotonic()
        out = self.run(*args, input=input)
        return out, (time.monotonic() - began) * 1000

    def checkpoint(self):
        self.run("sh", self.box, input=WRITE)
        out, took = self.timed("checkpoint", "--json", self.box)
        told = json.loads(out)
        self.took["flush"].append(told["flush_us"] / 1000)
        self.took["frozen"].append(told["frozen_us"] / 1000)
        self.took["rest"].append(took - (told["flush_us"] + told["frozen_us"]) / 1000)

    def undo(self):
        want = self.run("sh", self.box, input="echo $v")
        self.run("sh", self.box, input=SPOIL)
        _, took = self.timed("undo", self.box)
        got, more = self.timed("sh", self.box, input="echo $v; ls /tree/2 | grep -q f && pwd")
        assert got == want + "/tree\n", (got, want)
        self.took["undo"].append(took)
        self.took["shell"].append(took + more)

    def fork(self):
        out, took = self.timed("fork", self.box)
        fork = out.strip()
        n, more = self.timed("exec", fork, "cat", "/n")
        assert n.strip().isdigit(), n
        self.took["fork"].append(took)
        self.took["first"].append(took + more)
        self.run("rm", "-f", fork)

    def round(self):
        self.checkpoint()
        self.undo()
        self.fork()

    def end(self):
        names = self.run("ps", "-aq").split()
        if names:
            self.run("rm", "-f", *names)
        self.run("gc")
        shutil.rmtree(self.state, ignore_errors=True)


def spread(values):
    v = sorted(values)
    return {"median": round(statistics.median(v), 2), "p90": round(v[min(len(v) - 1, len(v) * 9 // 10)], 2), "best": round(v[0], 2)}


def show(places, builds):
    for key, what, bound in FIGURES:
        print(f"\n{what}, ms" + (f" (wanted of pool-large: {bound})" if bound else ""))
        for p in places:
            s = spread(p.took[key])
            name = p.key if len(builds) == 1 else f"{p.key} of {os.path.relpath(os.path.dirname(p.berth))}"
            print(f"  {name:40} median {s['median']:8.2f}   p90 {s['p90']:8.2f}   best {s['best']:8.2f}")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--rounds", type=int, default=30)
    a.add_argument("--json", help="the figures, in this file too")
    a.add_argument("--dir", help="where the layers are, such as a tmpfs: what the figures are without a disk")
    a.add_argument("--pool-size", default="3g")
    a.add_argument("--against", action="append", default=[], help="another build's directory, in turn with this one")
    a.add_argument("what", nargs="*")
    o = a.parse_args()
    b.begin()
    builds, places = [b.BUILD, *o.against], []
    try:
        for what in o.what or ["pool-small", "pool-large", "none-small", "none-large"]:
            where, size = what.split("-")
            places += [Place(build, where, size, o) for build in builds]
        for _ in range(o.rounds):
            for p in places:
                p.round()
        show(places, builds)
        if o.json:
            with open(o.json, "w") as f:
                json.dump([{"what": p.key, "build": os.path.dirname(p.berth), "figures": {k: spread(v) for k, v in p.took.items()},
                            "rounds": o.rounds, "load": os.getloadavg()[0]} for p in places], f, indent=1)
    finally:
        for p in places:
            with contextlib.suppress(subprocess.CalledProcessError):
                p.end()
        shutil.rmtree(b.root(), ignore_errors=True)


if __name__ == "__main__":
    main()
