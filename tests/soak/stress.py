#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: stress.py [--build DIR] [--berthd FILE] [--seconds N] [--clients N] [--kill-every N] [--seed N] [--json FILE]

berthd under clients of random verbs (stress_client.py), killed with -9 every few seconds and started again.
Every call is answered, or its connection was lost by a kill; the limits on sandboxes and memory hold at any
time; what was acknowledged is there at the end, files and sessions too, and what was removed is not; at
the end nothing is left: mounts, cgroups, processes, descriptors, interfaces, loop devices, state.

`make tsan-berthd` and `make asan-berthd` run it for a minute on a berthd with the sanitizer; what that has to
say is a failure.  Prints a line of JSON; exit status 0 when nothing was wrong.
"""
import argparse
import json
import os
import random
import re
import signal
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))
sys.path.insert(0, os.path.join(TOP, "tests", "soak"))

SANITIZER = re.compile(r"WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer|runtime error:")
MAX_SANDBOXES = 30
POOL = 3
# with the pool's that is more than fit, without them all archived ones can come back at the end
HOLD = MAX_SANDBOXES - 1
MEMORY = MAX_SANDBOXES * 64 << 20
CONFIG = f"""[manager]
max_sandboxes = {MAX_SANDBOXES}
[admission]
memory = "{MEMORY >> 20}m"
queue = 4
queue_timeout = "2s"
[session]
scan_interval = "100ms"
auto_stop = "2s"
[storage]
url = "file:STORAGE"
[pool.base]
image = "host"
memory_limit = "64m"
options = ["disk=16m", "disk-inodes=1024"]
size = {POOL}
"""


def options():
    ap = argparse.ArgumentParser(usage=__doc__.split("\n\n", maxsplit=1)[0])
    ap.add_argument("--build", default=os.path.join(TOP, "build"))
    ap.add_argument("--berthd", help="another berthd than that of the build; berth must be beside it")
    ap.add_argument("--seconds", type=float, default=60)
    ap.add_argument("--clients", type=int, default=64)
    ap.add_argument("--kill-every", type=float, default=3, help="seconds, on average; 0 is never")
    ap.add_argument("--seed", type=int, default=int(time.time()))
    ap.add_argument("--json")
    return ap.parse_args()


class Killer(threading.Thread):
    """Kills berthd at random moments and starts it again; also looks at how many sandboxes there are."""

    def __init__(self, stress, every, end, seed):
        super().__init__(daemon=True)
        self.s, self.every, self.end, self.r, self.kills, self.most = stress, every, end, random.Random(seed), 0, 0

    def running(self):
        # those that run: the limit is theirs, and the stopped ones have another
        return set(self.s.b.berth("ps", "-q", ok=True).out.split())

    def count(self):
        seen = self.running()
        self.most = max(self.most, len(seen))
        # ps looks at one after the other, and while it does some go and others come: those that it saw each time
        for _ in range(3):
            if len(seen) > MAX_SANDBOXES:
                seen &= self.running()
        if len(seen) > MAX_SANDBOXES:
            self.s.world.say(f"{len(seen)} sandboxes, the limit is {MAX_SANDBOXES}")

    def run(self):
        try:
            while time.monotonic() < self.end:
                until = min(self.end, time.monotonic() + (self.every or 1) * self.r.uniform(0.5, 1.5))
                while time.monotonic() < until:
                    self.count()
                    time.sleep(0.1)
                # at least once, however long it took to look
                if self.every and (time.monotonic() < self.end or not self.kills):
                    self.kill()
        except Exception as e:
            self.s.world.say(f"the killer: {type(e).__name__}: {e}")

    def kill(self):
        life, d = self.s.world.life, self.s.daemon
        life.age += 1
        self.s.look_alive()
        d.stop(signal.SIGKILL)
        self.count()
        d.start()
        life.age += 1
        self.kills += 1


class Stress:
    def __init__(self, args, b, daemon_module, client_module):
        self.args, self.b, self.m = args, b, client_module
        if args.berthd:
            daemon_module.BERTHD = os.path.abspath(args.berthd)
        storage = b.tmpdir("storage", 0o700)
        self.daemon = daemon_module.Daemon(CONFIG.replace("STORAGE", storage), wait=False, env=self.sanitizers())
        self.world = client_module.World(self.daemon.socket, client_module.Life(),
                                         {"sandboxes": MAX_SANDBOXES, "memory": MEMORY, "hold": HOLD})
        self.killer = None

    def sanitizers(self):
        env = {name: os.environ[name] for name in ("TSAN_OPTIONS",) if name in os.environ}
        env.setdefault("TSAN_OPTIONS", "exitcode=66")
        return env

    def look_alive(self):
        d = self.daemon
        if d.p.poll() is not None:
            self.world.wrong.insert(0, f"berthd has ended by itself with {d.p.returncode}: {d.log()[-3000:]}")

    def clients_run(self):
        a, w = self.args, self.world
        end = time.monotonic() + a.seconds
        answer = 120 * self.b.SLOW
        clients = [self.m.Client(w, n, a.seed, end, answer) for n in range(a.clients)]
        for c in clients[:4]:
            c.create()
        self.killer = Killer(self, a.kill_every, end, a.seed)
        for t in (*clients, self.killer):
            t.start()
        for t in (*clients, self.killer):
            t.join(max(1, end + answer + 30 - time.monotonic()))
        for t in (*clients, self.killer):
            if t.is_alive():
                w.say(f"no answer: {getattr(t, 'doing', 'the killer')}")

    # ---- afterwards

    def good(self, method, path, body=None):
        r = self.daemon.request(method, path, body, check=False, timeout=120)
        if r.status >= 300:
            self.world.say(f"at the end: {r}")
        return r

    def check_native(self, thing):
        url = f"/v1/sandboxes/{thing.name}"
        r = self.good("GET", url)
        if r.status == 200 and r.json["status"] not in ("running",):
            self.good("POST", url + ("/resume" if r.json["status"] == "paused" else "/start"))
        for path, data in thing.files.items():
            if self.good("GET", f"{url}/files?path={path}").body != data:
                self.world.say(f"lost: {path} in {thing.name}")

    def check_managed(self, thing):
        got = self.good("POST", "/get_session_mapping", {"session_ctx_id": thing.session})
        if got.status == 200 and got.json["data"] != [thing.name]:
            self.world.say(f"lost: session {thing.session} is {got.json}, not {thing.name}")
        for path, data in thing.files.items():
            if self.good("GET", f"/proxy/{thing.name}/workspace/file?path={path}").body != data:
                self.world.say(f"lost: {path} in the workspace of {thing.name}")

    def check_gone(self, thing):
        if thing.session:
            r = self.daemon.post("/get_status", {"identity": thing.name}, check=False)
            there = r.status != 404 and not (r.status == 200 and r.json["data"] == "released")
        else:
            r = self.daemon.get(f"/v1/sandboxes/{thing.name}", check=False)
            there = r.status != 404
        if there:
            self.world.say(f"removed, and there: {r}")

    def check(self):
        w = self.world
        for thing in list(w.things.values()):
            (self.check_managed if thing.session else self.check_native)(thing)
        for thing in w.gone.values():
            self.check_gone(thing)
        managed = {j.get("container_id") for j in self.good("GET", "/v1/manager/sandboxes").json["sandboxes"] if j["state"] != "released"}
        there = {j["id"]: j.get("name") for j in json.loads(self.b.berth("ps", "-a", "--json", ok=True).out)}
        # one whose making was not answered may have come after it was looked for in vain
        unknown = {i for i in set(there) - managed - {t.id for t in w.things.values()} if there[i] not in w.unanswered}
        if unknown or w.doubtful:
            w.say(f"sandboxes that nobody asked for: {unknown} {list(w.doubtful)}")

    def pools_are_empty(self):
        """And make nothing, which the list of the manager's sandboxes would not name yet."""
        stats = self.good("GET", "/v1/manager/stats").json
        return not any(stats["states"].get(state) for state in ("warm", "creating")) and not any(p["size"] for p in stats["pools"].values())

    def drain(self):
        """The pool, and what nobody knows whether it is there."""
        d, w = self.daemon, self.world
        os.replace(self.b.write(d.config_path + ".new", d.config.replace(f"size = {POOL}", "size = 0"), 0o600), d.config_path)
        d.p.send_signal(signal.SIGHUP)
        self.b.wait_for(self.pools_are_empty, 60, "empty pools")
        client = self.m.Client(w, self.args.clients, self.args.seed, 0, 120 * self.b.SLOW)
        for _ in range(1000):
            if not w.doubtful:
                break
            client.remove()

    def clear(self):
        """Everything is released."""
        self.good("POST", "/cleanup", {})
        for j in self.good("GET", "/v1/manager/sandboxes").json["sandboxes"]:
            if j["state"] != "released":
                self.good("POST", "/release", {"identity": j["container_name"]})
        for box in self.b.berth("ps", "-a", "-q", ok=True).out.split():
            self.good("DELETE", f"/v1/sandboxes/{box}?force=true")
        left = self.good("GET", "/v1/manager/stats").json["admission"]
        if left["sandboxes"] or left["memory_bytes"]:
            self.world.say(f"places that were not given back: {left}")

    def end(self):
        self.look_alive()
        code = self.daemon.stop()
        if code != 0:
            self.world.say(f"berthd ended with {code}")
        self.b.gc()
        text = self.daemon.log()
        about = set(re.findall(r"sandbox-\w{20,}", " ".join(self.world.wrong)))
        print("\n".join(line for line in text.splitlines() if any(name in line for name in about))[-10000:], file=sys.stderr)
        if SANITIZER.search(text):
            self.world.say("a sanitizer speaks")
            print("\n".join(line for line in text.splitlines() if not line.startswith("{"))[:20000], file=sys.stderr)

    def run(self):
        import leak
        check = leak.Check()
        check.__enter__()
        try:
            self.daemon.start()
            self.clients_run()
            self.drain()
            self.check()
            self.clear()
        except Exception as e:
            self.world.say(f"{type(e).__name__}: {e}")
        self.end()
        for f in check.now(wait=10):
            self.world.say("left: " + f)

    def result(self):
        w = self.world
        return {"seconds": self.args.seconds, "clients": self.args.clients, "seed": self.args.seed, "kills": self.killer.kills if self.killer else 0,
                "calls": sum(w.seen.values()), "by_status": {str(k): n for k, n in sorted(w.seen.items())}, "verbs": dict(w.verbs),
                "alive": len(w.things), "removed": len(w.gone), "most_sandboxes": self.killer.most if self.killer else 0,
                "wrong": w.wrong[:20]}


def main():
    args = options()
    os.environ["BERTH_TEST_BUILD"] = os.path.abspath(args.build)
    import berthtest
    import daemon
    import leak
    import proc
    import stress_client
    proc.own_namespaces()
    proc.subreaper()
    # not the one that tests share: what is swept at the end is swept from here, where it would be mounted
    berthtest.begin(own_host_image=True)
    stress = Stress(args, berthtest, daemon, stress_client)
    try:
        stress.run()
    finally:
        leak.sweep(os.getpid())
    text = json.dumps(stress.result())
    print(text)
    if args.json:
        with open(args.json, "w") as f:
            f.write(text + "\n")
    sys.exit(1 if stress.world.wrong else 0)


if __name__ == "__main__":
    main()
