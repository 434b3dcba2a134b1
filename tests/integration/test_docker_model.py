# SPDX-License-Identifier: Apache-2.0
"""
Random verbs by docker's own command line and berth-docker in turn, on networks that running containers join, volumes
without a name and filters, beside kills of berthd: each answer is what a model of a few lines says.
BERTH_MODEL_SECONDS runs it for longer, BERTH_MODEL_SEED repeats a run.
"""
import json
import os
import random
import signal
import time

import berthtest as b
from dockerdoor import door
from dockerlab import Cli, Engine
from netlab import Lab, need_bridge
from test_networks import bridges

COST = 90
SECONDS = float(os.environ.get("BERTH_MODEL_SECONDS", "0"))
SEED = int(os.environ.get("BERTH_MODEL_SEED", "0")) or random.randrange(1, 10 ** 9)
STEPS = 60
NETWORKS = ("red", "blue")
MOST = 4


class Model:
    def __init__(self, engine):
        self.engine, self.chance = engine, random.Random(SEED)
        self.cli, self.count, self.log = Cli(engine), 0, []
        self.boxes = {}     # name: {"on": networks, "volumes": {target: volume}, "runs", "rm"}, oldest first
        self.left = set()   # volumes without a name whose container is gone

    def ask(self, *words, ok=True):
        """By one door or the other; the socket is gone while berthd is, so its client waits for it."""
        by = self.chance.choice((self.cli.run, door))
        self.log.append((by is door, words))
        return by(*words, ok=ok)

    def some(self, **wanted):
        names = [n for n, x in self.boxes.items() if all(x[k] == v for k, v in wanted.items())]
        return self.chance.choice(names) if names else None

    def do_run(self):
        if len(self.boxes) >= MOST:
            return
        self.count += 1
        name, targets = f"b{self.count}", self.chance.sample(("/a", "/b", "/c"), self.chance.randint(0, 2))
        rm = self.chance.random() < 0.3
        self.ask("run", "-d", "--name", name, *(["--rm"] if rm else []), *[x for t in targets for x in ("-v", t)], "host", "sleep", "1000")
        mounts = {m["Destination"]: m["Name"] for m in json.loads(self.ask("inspect", name).stdout)[0]["Mounts"]}
        assert set(mounts) == set(targets), (mounts, targets)
        self.boxes[name] = {"on": {"bridge"}, "volumes": mounts, "runs": True, "rm": rm}
        for t in targets:
            self.ask("exec", name, "sh", "-c", f"echo {name}{t} > {t}/f")

    def do_connect(self):
        name, net = self.some(), self.chance.choice(NETWORKS)
        if name:
            refused = net in self.boxes[name]["on"] and self.boxes[name]["runs"]
            r = self.ask("network", "connect", net, name, ok=1 if refused else True)
            assert not refused or "already exists in network " + net in r.stderr, r
            self.boxes[name]["on"].add(net)

    def do_disconnect(self):
        name, net = self.some(), self.chance.choice(NETWORKS)
        if name:
            known = net in self.boxes[name]["on"]
            r = self.ask("network", "disconnect", net, name, ok=True if known else 1)
            assert known or "is not connected to network " + net in r.stderr, r
            self.boxes[name]["on"].discard(net)

    def do_stop(self):
        name = self.some(runs=True)
        if name:
            self.ask("stop", "-t", "0", name)
            if self.boxes[name]["rm"]:
                self.gone(name, True)
            else:
                self.boxes[name]["runs"] = False

    def do_start(self):
        name = self.some(runs=False)
        if name:
            self.ask("start", name)
            self.boxes[name]["runs"] = True

    def do_rm(self):
        name, volumes = self.some(rm=False), self.chance.random() < 0.5
        if name:
            self.ask("rm", "-f", *(["-v"] if volumes else []), name)
            self.gone(name, volumes)

    def do_prune(self):
        self.ask("volume", "prune", "-f")
        self.left.clear()

    def do_kill(self):
        self.engine.stop(signal.SIGKILL)
        self.engine.start()

    def gone(self, name, volumes):
        mine = set(self.boxes.pop(name)["volumes"].values())
        self.left |= set() if volumes else mine
        b.wait_for(lambda: not volumes or not mine & self.listed("volume", "ls", "-q"), 30, f"the end of the volumes of {name}")

    def listed(self, *words):
        return set(self.ask(*words).stdout.split())

    def names(self, *filters):
        return self.listed("ps", "-a", "--format", "{{.Names}}", *[x for f in filters for x in ("--filter", f)])

    def check(self):
        assert self.names() == set(self.boxes)
        assert self.listed("volume", "ls", "-q") == self.left | {v for x in self.boxes.values() for v in x["volumes"].values()}
        assert self.listed("volume", "ls", "-q", "--filter", "dangling=true") == self.left
        for net in (*NETWORKS, "bridge"):
            assert self.names("network=" + net) == {n for n, x in self.boxes.items() if net in x["on"]}, net
        order = list(self.boxes)
        if order:
            at = self.chance.randrange(len(order))
            assert self.names("before=" + order[at]) == set(order[:at]) and self.names("since=" + order[at]) == set(order[at + 1:])
        name = self.some(runs=True)
        if name:
            x = self.boxes[name]
            for t, v in x["volumes"].items():
                assert self.ask("exec", name, "cat", t + "/f").stdout == f"{name}{t}\n" and self.names("volume=" + v) == {name}
            peers = {n for n, y in self.boxes.items() if y["runs"] and (y["on"] & x["on"]) - {"bridge"}}
            # without a named network there is no resolver here, and a query would wait for one
            for other in order if x["on"] - {"bridge"} else ():
                found = self.ask("exec", name, "getent", "hosts", other, ok=None).returncode == 0
                assert found == (other in peers), (name, other, found, peers)


@b.deadline(300 + SECONDS * 2)
def test_random_verbs_by_both_doors_do_what_a_model_says():
    need_bridge()
    with Lab(forwarding=True), Engine() as d:
        m, begun, steps = Model(d), time.monotonic(), 0
        verbs = [(m.do_run, 6), (m.do_connect, 6), (m.do_disconnect, 4), (m.do_stop, 3), (m.do_start, 3), (m.do_rm, 2), (m.do_prune, 1), (m.do_kill, 2)]
        try:
            for n in NETWORKS:
                m.ask("network", "create", n)
            while time.monotonic() - begun < SECONDS if SECONDS else steps < STEPS:
                m.chance.choices([v for v, _ in verbs], [w for _, w in verbs])[0]()
                if m.chance.random() < 0.3:
                    m.check()
                steps += 1
            m.check()
            for name in list(m.boxes):
                m.ask("rm", "-f", "-v", name)
                m.gone(name, True)
            m.do_prune()
            assert m.listed("volume", "ls", "-q") == set() and m.listed("ps", "-a", "-q") == set()
            for n in NETWORKS:
                m.ask("network", "rm", n)
        except BaseException:
            print(f"seed {SEED}, step {steps}:", *m.log[-12:], sep="\n")
            raise
        finally:
            b.berth("rm", "--force", *b.berth("ps", "-a", "-q").out.split())
            b.berth("network", "prune", timeout=30)
            b.berth("volume", "prune", "--force", timeout=30)
            b.wait_for(lambda: not bridges(), 10, "the end of what the last member left")
