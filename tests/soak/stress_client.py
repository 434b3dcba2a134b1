# SPDX-License-Identifier: Apache-2.0
"""
One client of stress.py: random verbs over berthd's unix socket, native ones and those of the
manager, and what berthd has acknowledged to it.

An answer is required to each call; a lost connection is excused only when berthd was killed
between the connect and the loss.  What was acknowledged is written down, and what anybody is
about to end is struck off before the request is sent: all others must be there at any time.
"""
import collections
import http.client
import json
import random
import socket
import threading
import time

MEMORY_MB = 32


class Life:
    """Whether berthd lives: even while it does, odd from before its kill until it is back."""

    def __init__(self):
        self.age = 0


class Thing:
    """A sandbox that was acknowledged, and the files in it that were."""

    def __init__(self, name, session=None):
        self.name, self.session, self.files, self.id = name, session, {}, None
        self.doomed = False     # somebody has asked for its end


class World:
    """What all clients know; every member is used with the lock held."""

    def __init__(self, path, life, limits):
        self.path, self.life, self.limits = path, life, limits
        self.lock = threading.Lock()
        self.seen, self.verbs, self.wrong = collections.Counter(), collections.Counter(), []
        self.things, self.gone = {}, {}
        self.asked = 0
        self.doubtful = {}      # whose making or removal was not answered: to be removed once more
        self.unanswered = set() # the names of those whose making was not

    def say(self, text):
        with self.lock:
            self.wrong.append(text)

    def doom(self, thing):
        with self.lock:
            thing.doomed = True
            self.things.pop(thing.name, None)

    def doubt(self, thing):
        with self.lock:
            self.doubtful[thing.name] = thing

    def doubted(self):
        with self.lock:
            return self.doubtful.popitem()[1] if self.doubtful else None

    def bury(self, thing):
        with self.lock:
            self.gone[thing.name] = thing

    def reserve(self):
        """Whether one more may be asked for: what is held has a bound, however fast the clients are."""
        with self.lock:
            if len(self.things) + len(self.doubtful) + self.asked >= self.limits["hold"]:
                return False
            self.asked += 1
            return True

    def settle(self, thing, status, good):
        """The answer to what was reserved: it is there, or may be there, or is not."""
        with self.lock:
            self.asked -= 1
            if status == good:
                self.things[thing.name] = thing
            elif status is None:
                self.doubtful[thing.name] = thing
                self.unanswered.add(thing.name)

    def pick(self, r, managed=None):
        with self.lock:
            names = sorted(n for n, t in self.things.items() if managed is None or bool(t.session) == managed)
            return self.things[r.choice(names)] if names else None


class Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client(threading.Thread):
    IDLE = 2    # seconds after which a kept connection may have been closed

    def __init__(self, world, n, seed, end, answer_seconds):
        super().__init__(daemon=True)
        self.w, self.n, self.end, self.answer_seconds = world, n, end, answer_seconds
        self.r = random.Random(seed * 1000 + n)
        self.c, self.used, self.born = Connection(world.path, answer_seconds), 0, 0
        self.doing, self.count = "", 0

    # ---- asking

    def excused(self, born):
        """For a loss: was berthd killed since, or not there at the connect?"""
        return born % 2 == 1 or self.w.life.age != born

    def lost(self, what, e, born):
        if not self.excused(born):
            self.w.say(f"{what}: {e!r}")
        elif self.w.life.age % 2:
            time.sleep(0.02)    # it is being started again

    def connection(self):
        if self.c.sock and (time.monotonic() - self.used > self.IDLE or self.born != self.w.life.age):
            self.c.close()
        if not self.c.sock:
            self.born = self.w.life.age
        return self.c

    def call(self, method, path, body=None):
        """(status, JSON or bytes), or (None, None) when the answer was lost with berthd."""
        headers = {}
        if isinstance(body, dict):
            body, headers = json.dumps(body), {"Content-Type": "application/json"}
        self.doing = f"{method} {path}"
        try:
            c = self.connection()
            c.request(method, path, body, headers)
            reply = c.getresponse()
            data = reply.read()
        except http.client.IncompleteRead:
            self.c.close()      # the sandbox went in the middle of its file: cut is the right answer
            return None, None
        except (OSError, http.client.HTTPException) as e:
            self.c.close()
            self.lost(self.doing, e, self.born)
            return None, None
        self.used = time.monotonic()
        with self.w.lock:
            self.w.seen[reply.status] += 1
            if reply.status >= 500 and reply.status not in (503, 504):
                self.w.wrong.append(f"{self.doing}: {reply.status} {data[:300]!r}")
        try:
            return reply.status, json.loads(data)
        except ValueError:
            return reply.status, data

    def on(self, thing, method, path, body=None):
        """A call about something acknowledged: it is there, unless somebody ends it."""
        status, got = self.call(method, path, body)
        if status == 404 and not thing.doomed:
            self.w.say(f"{self.doing}: acknowledged, and {status} {got!r}")
        return status, got

    def box(self):
        thing = self.w.pick(self.r, managed=False)
        return thing or Thing("none")

    def native(self, thing, method, rest="", body=None):
        if thing.name == "none":
            return self.call(method, "/v1/sandboxes/none" + rest, body)
        status, got = self.call(method, f"/v1/sandboxes/{thing.name}{rest}", body)
        if status == 404 and not thing.doomed and isinstance(got, dict) and got.get("error", {}).get("code") == "not-found" \
                and "sandbox" in got["error"].get("message", "") and "session" not in rest and "/files" not in rest:
            self.w.say(f"{self.doing}: acknowledged, and {status} {got!r}")
        return status, got

    # ---- sandboxes of its own making

    def create(self):
        if not self.w.reserve():
            return self.remove()
        self.count += 1
        thing = Thing(f"n{self.n}-{self.count}")
        status, made = self.call("POST", "/v1/sandboxes", {"name": thing.name, "options": {"memory": f"{MEMORY_MB}m", "disk": "16m"}})
        if status == 201:
            thing.id = made["id"]
        self.w.settle(thing, status, 201)

    def remove(self):
        thing = self.w.doubted() or self.box()
        if thing.session:
            return self.release(thing)
        if thing.name == "none":
            return
        self.w.doom(thing)
        status, _ = self.native(thing, "DELETE", "?force=true")
        if status == 200:
            self.w.bury(thing)
        elif status != 404:
            self.w.doubt(thing)

    def exec(self):
        word = str(self.r.random())
        status, a = self.native(self.box(), "POST", "/exec", {"argv": ["echo", word]})
        if status == 200 and a["verdict"]["cause"] == "exit" and a["exit_status"] == 0 and a["stdout"] != word + "\n":
            self.w.say(f"exec gave {a}")

    def stream(self):
        self.native(self.box(), "POST", "/exec", {"argv": ["seq", "1000"], "stream": True})

    def detach(self):
        box = self.box()
        status, a = self.native(box, "POST", "/exec", {"argv": ["cat"], "detach": True})
        if status == 201:
            url = f"/v1/sandboxes/{box.name}/commands/{a['command']}"
            self.call("POST", url + "/stdin?eof=true", b"data")
            self.call("GET", url + "/wait?timeout_ms=20000")
            self.call("GET", url + "/output")
            self.call("DELETE", url)

    def files(self):
        """A file of this client's own, which must be there as it was acknowledged, also at the end."""
        box = self.box()
        data = self.r.randbytes(self.r.choice((0, 10, 100000)))
        path = f"/root/f{self.n}"
        box.files.pop(path, None)
        status, _ = self.native(box, "PUT", f"/files?path={path}", data)
        if status == 200:
            box.files[path] = data
            status, got = self.call("GET", f"/v1/sandboxes/{box.name}/files?path={path}")
            if status == 200 and isinstance(got, bytes) and got != data:
                self.w.say(f"file of {len(data)} came back with {len(got)}")

    def session(self):
        self.native(self.box(), "POST", f"/sessions/s{self.r.randrange(3)}/run", {"text": "echo $PWD", "timeout_ms": 5000})

    def look(self):
        box = self.box().name
        status, got = self.call("GET", self.r.choice((
            "/v1/sandboxes", "/healthz", "/metrics", "/readyz", "/openapi.json", f"/v1/sandboxes/{box}", f"/v1/sandboxes/{box}/stats",
            f"/v1/sandboxes/{box}/commands", f"/v1/sandboxes/{box}/sessions", "/v1/manager/sessions", "/v1/manager/stats")))
        if status == 200 and isinstance(got, dict) and "admission" in got:
            for name, most in (("sandboxes", self.w.limits["sandboxes"]), ("memory_bytes", self.w.limits["memory"])):
                if got["admission"][name] > most:
                    self.w.say(f"a limit was exceeded: {got['admission']}")

    def change(self):
        box = self.box()
        verb = self.r.choice(("pause", "stop", "start"))
        self.native(box, "POST", "/" + verb)
        until = time.monotonic() + self.answer_seconds
        # lost, or too much to do: a sandbox that stays paused keeps who reads from it waiting, and rightly
        while verb == "pause" and self.native(box, "POST", "/resume")[0] in (None, 429, 503, 504) and time.monotonic() < until:
            pass

    # ---- connections that are not kept

    def raw(self, text, body=b""):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(self.answer_seconds)
        s.connect(self.w.path)
        s.sendall(text.encode() + body)
        return s

    def post(self, url, body):
        return f"POST {url} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"

    def listen(self):
        """Events for a moment."""
        born = self.w.life.age
        try:
            with self.raw("GET /v1/events?since=0 HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n") as s:
                self.doing = "GET /v1/events"
                if not s.recv(65536).startswith(b"HTTP/1.1 200") and not self.excused(born):
                    self.w.say("events without a 200")
        except OSError as e:
            self.lost("GET /v1/events", e, born)

    def both_ways(self):
        """A streamed command whose stdin is another request's."""
        box, born = self.box(), self.w.life.age
        body = json.dumps({"argv": ["cat"], "stream": True, "stdin_open": True}).encode()
        try:
            with self.raw(self.post(f"/v1/sandboxes/{box.name}/exec", body), body) as s, s.makefile("rb") as f:
                self.doing = "POST exec with stdin_open"
                if b" 200 " not in f.readline():
                    return
                for line in f:
                    if line.startswith(b'{"command"') and b"started" in line:
                        url = f"/v1/sandboxes/{box.name}/commands/{json.loads(line)['command']}/stdin"
                        self.call("POST", url, b"x" * 100000)
                        if self.r.random() >= 0.8 or self.call("POST", url + "?eof=true", b"")[0] != 200:
                            return
                    if b'"verdict"' in line or b'"error"' in line:
                        return
        except OSError as e:
            self.lost("a streamed command", e, born)

    def leave(self):
        """A client that goes in the middle of its request."""
        body = json.dumps({"argv": ["sleep", "5"]}).encode()
        born = self.w.life.age
        try:
            with self.raw(self.post(f"/v1/sandboxes/{self.box().name}/exec", body), body[:self.r.randrange(len(body) + 1)]):
                time.sleep(self.r.random() / 20)
        except OSError as e:
            self.lost("a connect", e, born)

    # ---- the manager

    def data(self, function, **arguments):
        status, got = self.call("POST", "/" + function, arguments)
        return status, got.get("data") if status == 200 else got

    def claim(self):
        if not self.w.reserve():
            return self.release()
        self.count += 1
        session = f"c{self.n}-{self.count}"
        status, name = self.data(self.r.choice(("create_from_pool", "create_from_pool", "create")), sandbox_type="base",
                                 meta={"session_ctx_id": session})
        if status == 200 and name is None:  # refused, as agentscope's own manager tells it
            status = 429
        thing = Thing(name if status == 200 else session, session)
        self.w.settle(thing, status, 200)
        if status == 200:
            self.keep(thing)

    def keep(self, thing):
        """A file in its workspace."""
        path, data = f"f{self.n}", self.r.randbytes(100)
        thing.files.pop(path, None)
        if self.on(thing, "PUT", f"/proxy/{thing.name}/workspace/file?path={path}", data)[0] == 200:
            thing.files[path] = data

    def release(self, thing=None):
        thing = thing or self.w.doubted() or self.w.pick(self.r, managed=True)
        if not thing:
            return
        self.w.doom(thing)
        if not thing.session:
            status, _ = self.native(thing, "DELETE", "?force=true")
            return self.w.doubt(thing) if status not in (200, 404) else None
        status, names = 200, [thing.name]
        if thing.name == thing.session:     # the answer that had its name was lost
            status, names = self.data("get_session_mapping", session_ctx_id=thing.session)
        for name in names if status == 200 else []:
            status, done = self.data("release", identity=name)
            if status == 200 and done is True and name == thing.name:
                self.w.bury(thing)
        if status not in (200, 404):
            self.w.doubt(thing)

    def manage(self):
        thing = self.w.pick(self.r, managed=True)
        if not thing:
            return self.claim()
        word = str(self.r.random())
        verb = self.r.choice(("tool", "tool", "tool", "keep", "mapping", "status", "heartbeat", "archive", "upload"))
        if verb == "keep":
            self.keep(thing)
        elif verb == "tool":
            status, got = self.data("call_tool", identity=thing.name, tool_name="run_shell_command", arguments={"command": "echo " + word})
            if status == 200 and not got["isError"] and word not in str(got["content"]):
                self.w.say(f"call_tool gave {got}")
        elif verb == "mapping":
            status, got = self.data("get_session_mapping", session_ctx_id=thing.session)
            if status == 200 and got != [thing.name] and not thing.doomed:
                self.w.say(f"session {thing.session} is {got}, not {thing.name}")
        elif verb == "status":
            self.on(thing, "POST", "/get_status", {"identity": thing.name})
        elif verb == "heartbeat":
            self.call("POST", f"/v1/manager/sessions/{thing.session}/heartbeat", {})
        else:
            self.on(thing, "POST", f"/v1/manager/sandboxes/{thing.name}/{verb}", {})

    # ---- all of it

    def run(self):
        verbs = [self.exec] * 6 + [self.look] * 6 + [self.manage] * 4 + [self.files] * 2 + \
            [self.claim, self.release, self.create, self.remove, self.stream, self.listen, self.both_ways, self.detach, self.session,
             self.change, self.leave]
        while time.monotonic() < self.end:
            verb = self.r.choice(verbs)
            try:
                verb()
            except Exception as e:  # a fault of ours, or an answer of an unknown form
                self.w.say(f"{verb.__name__}, {self.doing}: {type(e).__name__}: {e}")
            with self.w.lock:
                self.w.verbs[verb.__name__] += 1
        self.doing = ""
        self.c.close()
