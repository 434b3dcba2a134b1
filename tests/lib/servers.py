# SPDX-License-Identifier: Apache-2.0
"""Servers in a sandbox, and berth forward to them."""
import json
import os
import socket

import berthtest as b

COUNTS, FLOODS, DEAF, ECHOES, SIX = 8000, 8001, 8002, 8003, 8004
NOTHING_LISTENS = 9999
PROGRAM = """
import resource, selectors, socket, threading
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def counts(c):
    n = 0
    while True:
        piece = c.recv(1 << 20)
        if not piece: break
        n += len(piece)
    c.sendall(b"%d" % n)
    c.close()
def floods(c):
    try:
        while True: c.sendall(b"x" * 65536)
    except OSError: pass
kept = []
def listen(port, take, host="127.0.0.1"):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((host, port)); s.listen(1024)
    def accept():
        while True: take(s.accept()[0])
    threading.Thread(target=accept, daemon=True).start()
def thread(f): return lambda c: threading.Thread(target=f, args=(c,), daemon=True).start()
listen(8000, thread(counts)); listen(8001, thread(floods)); listen(8002, kept.append); listen(8004, thread(counts), "::1")
# one thread for any number of echoes
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8003)); s.listen(1024)
sel = selectors.DefaultSelector(); sel.register(s, selectors.EVENT_READ)
print("up", flush=True)
while True:
    for key, _ in sel.select():
        if key.fileobj is s:
            c = s.accept()[0]; sel.register(c, selectors.EVENT_READ); continue
        try: data = key.fileobj.recv(65536)
        except OSError: data = b""
        if data: key.fileobj.sendall(data)
        else: sel.unregister(key.fileobj); key.fileobj.close()
"""


def serve(x):
    """x: a Box.  Returns when all of them listen."""
    c = x.main.detach("python3", "-c", PROGRAM)
    b.wait_for(lambda: x.main.output(c)[0] == b"up\n", 20, "the servers")


class Forward:
    """with Forward("ID", 8000, ...) as f: f.connect(8000); f.ports is what it printed as JSON."""

    def __init__(self, ref, *words, options=()):
        self.p = b.start("forward", "--json", *options, ref, *map(str, words))
        try:
            text = b""
            while text.count(b"\n") < len(words):
                text += b.read_until(self.p.stdout, b"\n")
            self.ports = [json.loads(line) for line in text.splitlines()]
        except BaseException:
            self.p.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        b.stop(self.p)

    def connect(self, inside, seconds=30):
        one = next(p for p in self.ports if p["port"] == inside)
        return socket.create_connection((one["address"], one["host_port"]), timeout=seconds * b.SLOW)

    def rss(self):
        with open(f"/proc/{self.p.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    def sockets(self):
        return sum(os.readlink(f"/proc/{self.p.pid}/fd/{n}").startswith("socket:") for n in os.listdir(f"/proc/{self.p.pid}/fd"))


def all_of(s):
    """What comes until the end."""
    got = b""
    while True:
        piece = s.recv(1 << 20)
        if not piece:
            return got
        got += piece


def ask(s, data):
    """Sends data, ends its own direction, reads the answer."""
    with s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        return all_of(s)
