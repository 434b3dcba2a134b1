#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""berthd_stress.py SOCKET SECONDS CLIENTS [SEED]: random verbs over the unix socket, every one answered.

Every client has its own sandboxes and also meddles with those of others.  Prints a line of
JSON: calls, by status; exit status 1 when a call got no answer, an answer of no known status
(5xx but 503 and 504), or when a limit was exceeded.  With BERTHD_PID and KILL_EVERY=seconds in the
environment the caller kills berthd meanwhile, and lost connections are tried again.
"""
import collections
import http.client
import json
import os
import random
import socket
import sys
import threading
import time

PATH, SECONDS, CLIENTS = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
RETRY = "KILL_EVERY" in os.environ
END = time.monotonic() + SECONDS


class Connection(http.client.HTTPConnection):
    def __init__(self):
        super().__init__("localhost", timeout=120)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(PATH)


class Client(threading.Thread):
    seen = collections.Counter()
    wrong = []
    boxes = []
    lock = threading.Lock()

    def __init__(self, n):
        super().__init__(daemon=True)
        self.r = random.Random(SEED * 1000 + n)
        self.c = Connection()
        self.n = n

    def call(self, method, path, body=None):
        headers = {}
        if isinstance(body, dict):
            body, headers = json.dumps(body), {"Content-Type": "application/json"}
        try:
            self.c.request(method, path, body, headers)
            r = self.c.getresponse()
            data = r.read()
        except http.client.IncompleteRead:
            self.c.close()      # the sandbox went in the middle of its file: cut is the right answer
            return None, None
        except (OSError, http.client.HTTPException) as e:
            self.c.close()
            if not RETRY:
                self.wrong.append(f"{method} {path}: {e!r}")
            else:
                time.sleep(0.05)
            return None, None
        with self.lock:
            self.seen[r.status] += 1
            if r.status >= 500 and r.status not in (503, 504):
                self.wrong.append(f"{method} {path}: {r.status} {data[:300]!r}")
        try:
            return r.status, json.loads(data)
        except ValueError:
            return r.status, data

    def box(self):
        with self.lock:
            return self.r.choice(self.boxes) if self.boxes else "none"

    def create(self):
        status, made = self.call("POST", "/v1/sandboxes", {"options": {"memory": "32m", "disk": "64m"}})
        if status == 201:
            with self.lock:
                self.boxes.append(made["id"])

    def remove(self):
        box = self.box()
        status, _ = self.call("DELETE", f"/v1/sandboxes/{box}?force=true")
        if status == 200:
            with self.lock:
                if box in self.boxes:
                    self.boxes.remove(box)

    def exec(self):
        word = str(self.r.random())
        status, a = self.call("POST", f"/v1/sandboxes/{self.box()}/exec", {"argv": ["echo", word]})
        if status == 200 and a["verdict"]["cause"] == "exit" and a["exit_status"] == 0 and a["stdout"] != word + "\n":
            self.wrong.append(f"exec gave {a}")

    def stream(self):
        self.call("POST", f"/v1/sandboxes/{self.box()}/exec", {"argv": ["seq", "1000"], "stream": True})

    def detach(self):
        box = self.box()
        status, a = self.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["cat"], "detach": True})
        if status == 201:
            url = f"/v1/sandboxes/{box}/commands/{a['command']}"
            self.call("POST", url + "/stdin?eof=true", b"data")
            self.call("GET", url + "/wait?timeout_ms=20000")
            self.call("GET", url + "/output")
            self.call("DELETE", url)

    def files(self):
        url = f"/v1/sandboxes/{self.box()}/files"
        data = os.urandom(self.r.choice((0, 10, 100000)))
        name = f"/tmp/f{self.n}"
        status, _ = self.call("PUT", f"{url}?path={name}", data)
        if status == 200:
            status, got = self.call("GET", f"{url}?path={name}")
            if status == 200 and isinstance(got, bytes) and got != data:
                self.wrong.append(f"file of {len(data)} came back with {len(got)}")

    def session(self):
        self.call("POST", f"/v1/sandboxes/{self.box()}/sessions/s{self.r.randrange(3)}/run", {"text": "echo $PWD", "timeout_ms": 5000})

    def look(self):
        self.call("GET", self.r.choice(("/v1/sandboxes", "/healthz", "/metrics", "/readyz", "/openapi.json",
                                        f"/v1/sandboxes/{self.box()}", f"/v1/sandboxes/{self.box()}/stats",
                                        f"/v1/sandboxes/{self.box()}/commands", f"/v1/sandboxes/{self.box()}/sessions")))

    def change(self):
        box = self.box()
        verb = self.r.choice(("pause", "stop", "start"))
        self.call("POST", f"/v1/sandboxes/{box}/{verb}")
        while verb == "pause" and self.call("POST", f"/v1/sandboxes/{box}/resume")[0] is None and time.monotonic() < END + 60:
            pass        # a sandbox that stays paused keeps who reads from it waiting, and rightly

    def listen(self):
        """Events for a moment, on a connection of its own."""
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(PATH)
                s.settimeout(1)
                s.sendall(b"GET /v1/events?since=0 HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
                for _ in range(5):
                    s.recv(65536)
        except OSError:
            pass

    def both_ways(self):
        """A streamed command whose stdin is another request's."""
        box = self.box()
        body = json.dumps({"argv": ["cat"], "stream": True, "stdin_open": True}).encode()
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(PATH)
                s.settimeout(20)
                s.sendall(f"POST /v1/sandboxes/{box}/exec HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
                f = s.makefile("rb")
                if b" 200 " not in f.readline():
                    return
                for line in f:
                    if line.startswith(b'{"command"') and b"started" in line:
                        url = f"/v1/sandboxes/{box}/commands/{json.loads(line)['command']}/stdin"
                        self.call("POST", url, b"x" * 100000)
                        if self.r.random() < 0.8:
                            self.call("POST", url + "?eof=true", b"")
                        else:
                            return
                    if b'"verdict"' in line or b'"error"' in line:
                        return
        except OSError:
            pass

    def leave(self):
        """A client that goes in the middle of its request."""
        body = json.dumps({"argv": ["sleep", "5"]}).encode()
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(PATH)
                s.sendall(f"POST /v1/sandboxes/{self.box()}/exec HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:self.r.randrange(len(body) + 1)])
                time.sleep(self.r.random() / 20)
        except OSError:
            pass

    def run(self):
        verbs = [self.exec] * 6 + [self.look] * 6 + [self.files] * 2 + [self.stream, self.listen, self.both_ways, self.detach, self.session, self.change, self.leave,
                                                                     self.create, self.remove]
        while time.monotonic() < END:
            self.r.choice(verbs)()


def main():
    clients = [Client(n) for n in range(CLIENTS)]
    for c in clients[:4]:
        c.create()
    for c in clients:
        c.start()
    for c in clients:
        c.join(SECONDS + 130)
    hung = sum(c.is_alive() for c in clients)
    print(json.dumps({"calls": sum(Client.seen.values()), "by_status": dict(Client.seen), "hung": hung, "wrong": Client.wrong[:20]}))
    sys.exit(1 if hung or Client.wrong else 0)


main()
