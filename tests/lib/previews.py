# SPDX-License-Identifier: Apache-2.0
"""A berthd with previews, servers in its sandboxes, and raw requests to them by their Host field."""
import json
import os
import re
import socket
import ssl
import subprocess

import berthtest as b
from daemon import Daemon

DOMAIN = "preview.test"
WEB, RAW, NOTHING = 8000, 8001, 9999

# answers with what it was sent, as JSON; /stream streams, /ws echoes bytes after 101, /cookies sets some, /big, /slow, /raw/X sends X
PROGRAM = r"""
import hashlib, base64, json, socket, sys, threading, time, urllib.parse
def head_of(c):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = c.recv(65536)
        if not piece: return None, b""
        data += piece
    head, rest = data.split(b"\r\n\r\n", 1)
    return head.decode("latin1").split("\r\n"), rest
def serve(c):
    try: one(c)
    except OSError: pass
    finally: c.close()
def one(c):
    lines, rest = head_of(c)
    if lines is None: return
    method, target, version = lines[0].split(" ")
    fields = [line.split(": ", 1) for line in lines[1:]]
    get = {k.lower(): v for k, v in fields}
    if target.startswith("/ws"):
        accept = base64.b64encode(hashlib.sha1((get["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        c.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        if rest: c.sendall(rest)
        while True:
            data = c.recv(65536)
            if not data: return
            c.sendall(data)
    body = rest
    if "content-length" in get:
        while len(body) < int(get["content-length"]):
            piece = c.recv(65536)
            if not piece: return
            body += piece
    elif get.get("transfer-encoding") == "chunked":
        while not body.endswith(b"0\r\n\r\n"):
            piece = c.recv(65536)
            if not piece: return
            body += piece
    if target.startswith("/raw/"):
        c.sendall(urllib.parse.unquote_to_bytes(target[5:])); return
    if target == "/stream":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for n in range(3):
            c.sendall(b"7\r\ndata %d\n\r\n" % n)
        c.sendall(b"0\r\n\r\n"); return
    if target == "/flood":
        c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True: c.sendall(b"x" * 65536)
    if target == "/hold":
        held.append(c); threading.Event().wait()
    if target == "/big":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n" + b"y" * 5000000); return
    seen = json.dumps({"method": method, "target": target, "fields": fields, "body": body.decode("latin1"), "length": len(body)}).encode()
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(seen) + (b"" if method == "HEAD" else seen))
held = []
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8000)); s.listen(2048)
print("up", flush=True)
while True:
    c = s.accept()[0]
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"""


def web(box):
    """Starts the server in a sandbox."""
    c = b.berth("exec", "--detach", box, "python3", "-c", PROGRAM, ok=True).out.strip()
    b.wait_for(lambda: b.berth("output", box, c).out.startswith("up"), 30, "the server")


class Previews(Daemon):
    """with Previews() as d: d.ask("8000-ID", "/")"""

    def __init__(self, preview="", config="", tls=False, **kw):
        self.pem = None
        text = f'[preview]\nlisten = "127.0.0.1:0"\ndomain = "{DOMAIN}"\n'
        if tls:
            self.pem = b.tmp("cert.pem"), b.tmp("key.pem")
            self.certify("first")
            text += f'certificate = "{self.pem[0]}"\nkey = "{self.pem[1]}"\n'
        super().__init__("[daemon]\n" + config + text + preview, **kw)

    def certify(self, name):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-keyout",
                        self.pem[1], "-out", self.pem[0], "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:*.{DOMAIN}"],
                       check=True, capture_output=True)

    @property
    def preview_port(self):
        return int(re.search(r"previews at .* port (\d+)", self.log())[1])

    def web_server(self):
        """The process of berth-preview."""
        for task in os.listdir(f"/proc/{self.p.pid}/task"):
            with open(f"/proc/{self.p.pid}/task/{task}/children") as f:
                for pid in f.read().split():
                    with open(f"/proc/{pid}/comm") as name:
                        if name.read() == "berth-preview\n":
                            return int(pid)
        raise AssertionError("there is no berth-preview")

    def preview(self, box, port=WEB, token=None, tcp=False, **more):
        return self.good("POST", f"/v1/sandboxes/{box}/ports/{port}/preview", more, token=token, tcp=tcp)

    def dial(self, tls=False, host=None):
        s = socket.create_connection(("127.0.0.1", self.preview_port), timeout=60 * b.SLOW)
        if tls:
            c = ssl.create_default_context(cafile=self.pem[0])
            s = c.wrap_socket(s, server_hostname=host)
        return s

    def send(self, data, tls=False, host=None):
        """Bytes; what comes until the connection ends."""
        with self.dial(tls, host) as s:
            got = b""
            try:
                s.sendall(data)
                while True:
                    piece = s.recv(65536)
                    if not piece:
                        break
                    got += piece
            except ConnectionResetError:
                pass
        return got

    def ask(self, label, target="/", method="GET", fields=(), body=b"", tls=False, port=None):
        """One request: Answer."""
        host = f"{label}.{DOMAIN}" if "." not in label else label
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}:{port or self.preview_port}", "Connection: close", *fields]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return Answer(self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body, tls, host))


class Answer:
    def __init__(self, raw):
        self.raw = raw
        head, _, self.body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin1").split("\r\n")
        self.status = int(lines[0].split(" ")[1]) if lines[0] else None
        self.fields = [tuple(line.split(": ", 1)) for line in lines[1:]]
        self.headers = {k.lower(): v for k, v in self.fields}

    @property
    def seen(self):
        """What the server in the sandbox was sent."""
        return json.loads(self.body)

    @property
    def sent_fields(self):
        return {k.lower(): v for k, v in self.seen["fields"]}

    def __repr__(self):
        return f"{self.status}: {self.raw[:1500]!r}"
