# SPDX-License-Identifier: Apache-2.0
"""
Many clients at both doors of Docker, with random verbs, while berthd is killed again and again.  A client knows what was
acknowledged to it: its containers live on, and nothing of it is lost.

BERTH_LOAD_MINUTES=10 runs it for so long (make load); BERTH_LOAD_SEED repeats a run's choices; BERTH_LOAD_REPORT names a file
for the counts and times.
"""
import collections
import contextlib
import http.client
import io
import json
import os
import random
import signal
import statistics
import tarfile
import threading
import time

import berthtest as b
from daemon import UnixConnection
from dockerdoor import Doors, door
from dockerlab import Engine, frames
from traced import Traced

COST = 60
CLIENTS = 32
MINUTES = float(os.environ.get("BERTH_LOAD_MINUTES", "0"))
SEED = int(os.environ.get("BERTH_LOAD_SEED", "0")) or random.randrange(1, 10 ** 9)
OPERATIONS = 480        # of all clients together, where no time is given
KILL_AFTER = (30, 90)   # operations from one death of berthd to the next
MOST = 3                # containers of a client


class Lost(Exception):
    """berthd died while it worked: what was asked for may have happened or not, now or later."""


class Pace:
    """When to go on, and when berthd dies: by the number of operations, and not by the clock."""

    def __init__(self):
        self.lock, self.done, self.failed = threading.Condition(), 0, None
        self.until = time.monotonic() + MINUTES * 60
        self.times = collections.defaultdict(list)

    def goes_on(self):
        return not self.failed and (time.monotonic() < self.until if MINUTES else self.done < OPERATIONS)

    def count(self, verb, seconds):
        with self.lock:
            self.done += 1
            self.times[verb].append(seconds)
            self.lock.notify_all()

    def fail(self, why):
        with self.lock:
            self.failed = self.failed or why
            self.lock.notify_all()

    def wait_for(self, done):
        with self.lock:
            self.lock.wait_for(lambda: self.done >= done or not self.goes_on(), timeout=60 * b.SLOW)


class Http:
    """One request a connection at the socket; Lost when its reply does not come."""

    def __init__(self, engine):
        self.path = engine.docker_socket

    def ask(self, method, path, body=None, kind="application/json"):
        c = UnixConnection(self.path, 120)
        try:
            c.connect()
        except OSError:         # it is not there at this moment: nothing was asked
            c.close()
            return None
        try:
            c.request(method, path, json.dumps(body) if isinstance(body, (dict, list)) else body,
                      {"Content-Type": kind} if body is not None else {})
            r = c.getresponse()
            data = r.read()
        except (http.client.HTTPException, ConnectionError) as e:
            raise Lost(f"{method} {path}: {e!r}") from None
        finally:
            c.close()
        assert r.status < 500, (method, path, r.status, data)
        return r.status, json.loads(data) if data and r.headers.get("Content-Type") == "application/json" else data


class Container:
    def __init__(self, name):
        self.name, self.running, self.paused, self.started, self.files = name, False, False, None, {}


class Client:
    """A client that shares nothing but the host with the others, so that it knows what there must be."""

    def __init__(self, number, engine, pace):
        self.random = random.Random(f"{SEED} {number}")
        self.number, self.http, self.pace = number, Http(engine), pace
        self.boxes, self.unsure, self.made, self.kept = [], [], 0, None
        self.volume = f"v{number}"

    # ---- one verb at either door ----

    def through_a(self):
        return self.random.random() < 0.5

    def a(self, method, path, body=None, good=(200, 201, 204), kind="application/json"):
        """What it says; asked again where berthd was not there to ask."""
        answer = self.http.ask(method, path, body, kind)
        while answer is None:
            # the one that kills it starts it again at once
            b.wait_for(lambda: os.path.exists(self.http.path), 60, "berthd")
            answer = self.http.ask(method, path, body, kind)
        assert answer[0] in good, (method, path, answer)
        return answer[1]

    def b(self, *args, ok=0, **kw):
        return door(*args, ok=ok, timeout=120, **kw).stdout

    def verb(self, name, verb, query="", flags=()):
        if self.through_a():
            self.a("POST", f"/containers/{name}/{verb}{query}", good=(204,))
        else:
            self.b(verb, *flags, name)

    def execute(self, name, text):
        """Its output; what fails at its exit code is a failure here."""
        if not self.through_a():
            return self.b("exec", name, "sh", "-c", text)
        made = self.a("POST", f"/containers/{name}/exec", {"Cmd": ["sh", "-c", text], "AttachStdout": True, "AttachStderr": True})
        out = self.a("POST", f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False}, good=(200, 404))
        if isinstance(out, dict):       # execs that have not begun are berthd's own, and go with it
            raise Lost("the exec was made by a berthd that died")
        told = self.a("GET", f"/exec/{made['Id']}/json", good=(200, 404))
        got = frames(out)
        if told.get("ExitCode") != 0:
            raise Lost(f"no exit code: {told} {got}") if "message" in told else AssertionError((told, got))
        return got[1].decode()

    def inspect(self, name):
        if self.through_a():
            return self.a("GET", f"/containers/{name}/json")
        return json.loads(self.b("inspect", name))[0]

    # ---- what it does ----

    def do_create(self):
        if len(self.boxes) >= MOST:
            return self.do_remove()
        self.made += 1
        c = Container(f"c{self.number}-{self.made}")
        self.unsure.append(c.name)
        if self.through_a():
            body = {"Image": "host", "Cmd": ["sleep", "1000000"], "Labels": {"client": str(self.number)},
                    "HostConfig": {"NetworkMode": "none", "Binds": [f"{self.volume}:/data"], "StorageOpt": {"size": "16m"}}}
            self.a("POST", f"/containers/create?name={c.name}", body)
        else:
            self.b("create", "--network", "none", "--label", f"client={self.number}", "--storage-opt", "size=16m", "-v",
                   f"{self.volume}:/data", "--name", c.name, "host", "sleep", "1000000")
        self.unsure.remove(c.name)
        self.boxes.append(c)

    def box(self, **wanted):
        fit = [c for c in self.boxes if all(getattr(c, k) == v for k, v in wanted.items())]
        return self.random.choice(fit) if fit else None

    @contextlib.contextmanager
    def touched(self, c):
        """While this goes on nobody knows; if the reply is lost, it is removed."""
        try:
            yield
        except Lost:
            self.boxes.remove(c)
            self.unsure.append(c.name)
            raise

    def note_start(self, c):
        state = self.inspect(c.name)["State"]
        assert state["Running"], (c.name, state)
        c.running, c.started = True, state["StartedAt"]

    def do_start(self):
        c = self.box(running=False)
        if not c:
            return self.do_create()
        with self.touched(c):
            self.verb(c.name, "start")
            self.note_start(c)

    def do_stop(self):
        c = self.box(running=True, paused=False)
        if not c:
            return self.do_start()
        with self.touched(c):
            how = self.random.choice(("stop", "kill", "restart"))
            if how == "kill":
                self.verb(c.name, "kill", "?signal=KILL", ("-s", "KILL"))
            else:
                self.verb(c.name, how, "?t=0", ("-t", "0"))
            c.running, c.started = False, None
            if how == "restart":
                self.note_start(c)
            else:
                b.wait_for(lambda: not self.inspect(c.name)["State"]["Running"], 60, "its end")

    def do_pause(self):
        c = self.box(running=True)
        if not c:
            return self.do_start()
        with self.touched(c):
            self.verb(c.name, "unpause" if c.paused else "pause")
            c.paused = not c.paused

    def do_write(self):
        c = self.box(running=True, paused=False)
        if not c:
            return self.do_start()
        path, token = f"/srv/{self.random.randrange(4)}", f"{self.random.random()}"
        with self.touched(c):
            assert self.execute(c.name, f"echo {token} > {path}; cat {path}") == token + "\n"
            c.files[path] = token

    def do_keep(self):
        """Data in a volume outlive every container."""
        c = self.box(running=True, paused=False)
        if not c:
            return self.do_start()
        token, self.kept = f"{self.random.random()}", None
        with self.touched(c):
            self.execute(c.name, f"echo {token} > /data/new; sync /data/new; mv /data/new /data/kept")
            self.kept = token

    def do_copy(self):
        c = self.box(paused=False)
        if not c:
            return self.do_create()
        token = f"{self.random.random()}".encode()
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as t:
            info = tarfile.TarInfo("copied")
            info.size = len(token)
            t.addfile(info, io.BytesIO(token))
        with self.touched(c):
            self.a("PUT", f"/containers/{c.name}/archive?path=/srv", out.getvalue(), kind="application/x-tar")
            got = b.tmp(f"copied-{self.number}")
            self.b("cp", f"{c.name}:/srv/copied", got)
            with open(got, "rb") as f:
                assert f.read() == token

    def do_run(self):
        token = f"{self.random.random()}"
        assert self.b("run", "--rm", "--network", "none", "-v", f"{self.volume}:/data", "host", "echo", token) == token + "\n"

    def do_rename(self):
        c = self.box()
        if not c:
            return self.do_create()
        self.made += 1
        old, new = c.name, f"c{self.number}-{self.made}"
        self.unsure.append(new)
        with self.touched(c):
            if self.through_a():
                self.a("POST", f"/containers/{old}/rename?name={new}")
            else:
                self.b("rename", old, new)
            c.name = new
        self.unsure.remove(new)

    def do_remove(self):
        c = self.box()
        if not c:
            return self.do_create()
        with self.touched(c):
            if self.through_a():
                self.a("DELETE", f"/containers/{c.name}?force=1")
            else:
                self.b("rm", "-f", c.name)
            self.boxes.remove(c)
            self.check_gone(c.name)

    # ---- what must hold ----

    def check_gone(self, name):
        assert door("inspect", name).returncode == 1, f"{name} was removed, and is there"

    def do_check(self):
        listed = json.loads("[" + ",".join(self.b("ps", "-a", "--filter", f"label=client={self.number}", "--format", "json").split("\n"))
                            .rstrip(",") + "]")
        there = {x["Names"] for x in listed}
        mine = {c.name for c in self.boxes}
        assert mine <= there and not there - mine - set(self.unsure), (mine, there, self.unsure)
        for c in self.boxes:
            state = self.inspect(c.name)["State"]
            assert (state["Running"], state["Paused"]) == (c.running, c.paused), (c.name, vars(c), state)
            assert not c.running or state["StartedAt"] == c.started, (c.name, vars(c), state)
            if c.running and not c.paused:
                for path, token in c.files.items():
                    assert self.execute(c.name, f"cat {path}") == token + "\n", (c.name, path)
        # a lost reply: whatever became of it, it can be removed
        for name in there & set(self.unsure):
            door("rm", "-f", name, timeout=120)
            self.check_gone(name)

    def check_volume(self):
        if self.kept:
            got = self.b("run", "--rm", "--network", "none", "-v", f"{self.volume}:/data", "host", "cat", "/data/kept")
            assert got == self.kept + "\n", (self.volume, got, self.kept)

    def live(self):
        verbs = [v for v in dir(self) if v.startswith("do_")]
        try:
            self.b("volume", "create", self.volume)
            while self.pace.goes_on():
                verb, begun = self.random.choice(verbs), time.monotonic()
                with contextlib.suppress(Lost):
                    getattr(self, verb)()
                self.pace.count(verb[3:], time.monotonic() - begun)
        except Exception as e:
            self.pace.fail(f"client {self.number}, seed {SEED}: {type(e).__name__} {e}"[:4000])

    def leave(self):
        self.do_check()
        self.check_volume()
        for c in self.boxes:
            self.b("rm", "-f", c.name)
        for name in self.unsure:
            door("rm", "-f", name, timeout=120)
        self.b("volume", "rm", self.volume)


def report(pace, kills):
    said = {v: {"count": len(t), "median_ms": round(statistics.median(t) * 1000, 1), "most_ms": round(max(t) * 1000, 1)}
            for v, t in sorted(pace.times.items())}
    if os.environ.get("BERTH_LOAD_REPORT"):
        with open(os.environ["BERTH_LOAD_REPORT"], "w") as f:
            json.dump({"seed": SEED, "operations": pace.done, "kills": kills, "verbs": said}, f, indent=1)


@b.long_proof("hundreds of verbs by 32 clients")
@b.deadline(300 + MINUTES * 60 / b.SLOW)
def test_what_was_acknowledged_survives_kills_of_berthd():
    with Doors(), Engine() as d:
        pace, kills = Pace(), 0
        clients = [Client(i, d, pace) for i in range(CLIENTS)]
        threads = [threading.Thread(target=c.live) for c in clients]
        for t in threads:
            t.start()
        chance = random.Random(SEED)
        while pace.goes_on():
            pace.wait_for(pace.done + chance.randint(*KILL_AFTER))
            d.stop(signal.SIGKILL)
            d.start()
            kills += 1
        for t in threads:
            t.join()
        report(pace, kills)
        assert not pace.failed, pace.failed
        assert kills >= 3 and pace.done >= OPERATIONS / 2, (kills, pace.done)
        for c in clients:
            c.leave()
        assert door("ps", "-a", "-q", ok=True).stdout == "" and door("volume", "ls", "-q", ok=True).stdout == ""


class Racer:
    """Several of them want other things of the same two names."""

    VERBS = ("create", "create", "create", "start", "start", "start", "stop", "kill", "restart", "pause", "unpause", "rm", "rename", "exec", "copy", "update", "join")
    # what docker's own door says where another was faster
    FASTER = ("No such container", "is not running", "already in use", "not paused", "already paused", "is paused", "no sandbox", "is gone",
              "was started meanwhile", "is restarting", "try again", "cannot join", "join the network of", "was stopped before its main",
              "was stopped or removed meanwhile", "same name as its current name",
              "cannot start a paused container")

    def __init__(self, number, engine, said):
        self.random, self.engine, self.said, self.number = random.Random(f"{SEED} racer {number}"), engine, said, number

    def ask(self, verb, name, other):
        limits = {"NetworkMode": "none", "StorageOpt": {"size": "16m"}, "AutoRemove": self.random.random() < 0.3}
        return {
            "create": ("POST", f"/containers/create?name={name}", {"Image": "host", "Cmd": ["sleep", "1000"], "HostConfig": limits}),
            "join": ("POST", "/containers/create", {"Image": "host", "Cmd": ["true"], "HostConfig": {"NetworkMode": "container:" + name}}),
            "rm": ("DELETE", f"/containers/{name}?force=1", None), "rename": ("POST", f"/containers/{name}/rename?name={other}", None),
            "stop": ("POST", f"/containers/{name}/stop?t=0", None), "restart": ("POST", f"/containers/{name}/restart?t=0", None),
            "copy": ("GET", f"/containers/{name}/archive?path=/etc/hosts", None), "update": ("POST", f"/containers/{name}/update", {"Memory": 1 << 27}),
            "exec": ("POST", f"/containers/{name}/exec", {"Cmd": ["true"]}),
        }.get(verb, ("POST", f"/containers/{name}/{verb}", None))

    def words(self, verb, name, other):
        return {
            "create": ("create", "--name", name, "--network", "none", "--storage-opt", "size=16m", "host", "sleep", "1000"),
            "join": ("run", "--rm", "--network", "container:" + name, "host", "true"), "rm": ("rm", "-f", name), "rename": ("rename", name, other),
            "stop": ("stop", "-t", "0", name), "restart": ("restart", "-t", "0", name), "exec": ("exec", name, "true"),
            "copy": ("cp", f"{name}:/etc/hosts", "-"), "update": ("update", "--memory", "128m", name),
        }.get(verb, (verb, name))

    def race(self, rounds):
        for _ in range(rounds):
            verb, names = self.random.choice(self.VERBS), self.random.sample(("one", "other"), 2)
            if self.random.random() < 0.5:
                try:
                    status, said, _ = self.engine.api(*self.ask(verb, *names), timeout=120 * b.SLOW)
                except (http.client.HTTPException, ValueError):
                    # the rest of an archive cannot come when its container goes
                    assert verb == "copy", verb
                    continue
                # to join what is gone, or to have a name already, is a bad request of dockerd's too
                faster = status == 400 and any(text in said["message"] for text in self.FASTER)
                if status not in (200, 201, 204, 304, 404, 409) and not faster:
                    self.said.append((verb, status, said))
            else:
                r = door(*self.words(verb, *names), timeout=120)
                # the command of an exec is killed with its container
                if r.returncode and (verb, r.returncode) != ("exec", 137) and not any(text in r.stderr for text in self.FASTER):
                    self.said.append((verb, r.returncode, r.stderr))


@b.long_proof("hundreds of verbs by 8 clients on two names")
@b.deadline(300)
def test_clients_that_race_for_two_names_get_an_answer_each_and_leave_nothing():
    with Doors(), Engine() as d:
        said, threads = [], []
        for i in range(8):
            threads.append(threading.Thread(target=Racer(i, d, said).race, args=(b.times(100, 300),)))
            threads[-1].start()
        for t in threads:
            t.join()
        assert not said, (SEED, said[:5])
        left = door("ps", "-a", "-q", ok=True).stdout.split()
        assert not left or door("rm", "-f", *left, ok=True)
        assert door("ps", "-a", "-q", ok=True).stdout == ""


class Both:
    """Several of them want other things of the same three names, at /v1 and at Docker's socket."""

    NAMES = ("one", "other", "third")
    COMMON = ("create",) * 3 + ("start",) * 3 + ("stop", "kill", "restart", "pause", "rm", "rename", "update", "look", "top", "stats", "exec")
    ODD = ('by container \\"\\"', "remedy: POST /v1", "does not last", "record.json", "spec.json", "No such file")

    def __init__(self, number, engine, said):
        self.random, self.engine, self.said, self.docker = random.Random(f"{SEED} both {number}"), engine, said, number % 2

    def of_docker(self, verb, name, other):
        at = f"/containers/{name}"
        return {
            "create": ("POST", f"/containers/create?name={name}", {"Image": "host", "Cmd": ["sleep", "1000"], "HostConfig": {"NetworkMode": "none"}}),
            "rm": ("DELETE", at + "?force=1"), "rename": ("POST", f"{at}/rename?name={other}"), "update": ("POST", at + "/update", {"Memory": 128 << 20}),
            "look": ("GET", at + "/json"), "stop": ("POST", at + "/stop?t=0"), "restart": ("POST", at + "/restart?t=0"), "top": ("GET", at + "/top"),
            "stats": ("GET", at + "/stats?stream=0&one-shot=1"), "exec": ("POST", at + "/exec", {"Cmd": ["true"]}),
        }.get(verb, ("POST", f"{at}/{verb}"))

    def of_v1(self, verb, name, other):
        at = f"/v1/sandboxes/{name}"
        return {
            "create": ("POST", "/v1/sandboxes", {"image": "host", "name": name}), "rm": ("DELETE", at + "?force=true"),
            "rename": ("POST", at + "/rename", {"name": other}), "update": ("PATCH", at, {"memory": "128m"}), "look": ("GET", at),
            "stop": ("POST", at + "/stop?grace_ms=0"), "restart": ("POST", at + "/restart?grace_ms=0"), "top": ("GET", at + "/top"),
            "stats": ("GET", at + "/stats"), "exec": ("POST", at + "/exec", {"argv": ["true"]}), "unpause": ("POST", at + "/resume"), "list": ("GET", "/v1/sandboxes"),
        }.get(verb, ("POST", f"{at}/{verb}"))

    def is_odd(self, verb, status, said):
        if verb == "look" and status == 409 or verb == "rm" and status == 409:
            return True
        same = verb == "rename" and status == 400 and "same name as its current name" in said
        return not same and (status not in (200, 201, 204, 304, 404, 409) or status >= 400 and any(odd in said for odd in self.ODD))

    def race(self, rounds):
        until = time.monotonic() + MINUTES * 60
        while time.monotonic() < until if MINUTES else rounds > 0:
            rounds -= 1
            verb, names = self.random.choice(self.COMMON + ("unpause", "list")), self.random.sample(self.NAMES, 2)
            ask = (self.of_docker if self.docker and verb != "list" else self.of_v1)(verb, *names)
            c = UnixConnection(self.engine.docker_socket if self.docker and verb != "list" else self.engine.socket, 120)
            with contextlib.closing(c):
                c.request(ask[0], ask[1], *((json.dumps(ask[2]), {"Content-Type": "application/json"}) if len(ask) > 2 else ()))
                r = c.getresponse()
                said = r.read().decode(errors="replace")
            if self.is_odd(verb, r.status, said):
                self.said.append(("docker" if self.docker else "v1", verb, r.status, said))


@b.long_proof("hundreds of verbs by 16 clients on three names")
@b.deadline(300 + MINUTES * 60 / b.SLOW)
def test_each_state_has_one_answer_at_v1_and_at_dockers_socket():
    with Engine() as d:
        said, threads = [], []
        for i in range(16):
            threads.append(threading.Thread(target=Both(i, d, said).race, args=(b.times(60, 300),)))
            threads[-1].start()
        for t in threads:
            t.join()
        assert not said, (SEED, len(said), said[:5])


# ---- what it costs ---------------------------------------------------------------------


def test_a_create_waits_for_four_syncs_and_a_removal_starts_no_process():
    """The client's document becomes durable with the record, and needs no sync of the directory of its own."""
    b.needs_the_lean_program()
    with Engine() as d:
        d.good("DELETE", "/containers/" + d.create("true"))     # the first makes directories
        with Traced(d) as made:
            box = d.create("true")
        assert made.calls.count("fsync") == 4, made.calls       # the options, the document, the record, their directory
        assert made.calls.count("execve") == 1, made.calls
        assert d.good("GET", f"/containers/{box}/json")["Config"]["Cmd"] == ["true"]
        with Traced(d) as removed:
            d.good("DELETE", f"/containers/{box}")
        assert "execve" not in removed.calls, removed.calls
        assert d.api("GET", f"/containers/{box}/json")[0] == 404
