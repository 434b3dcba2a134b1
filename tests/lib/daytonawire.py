# SPDX-License-Identifier: Apache-2.0
"""Daytona's API as an SDK speaks it, for tests that look at the wire."""
import base64
import hashlib
import json
import os
import socket
import struct
import urllib.parse

import berthtest as b
from daemon import TENANT

NEW = {"X-Daytona-SDK-Version": "0.216.0"}
MARKED = {"X-Daytona-SDK-Version": "0.115.2"}
OLD = {"X-Daytona-SDK-Version": "0.25.6"}


# a member of each kind that bodies of the door want
DAYTONA = {"command": "true", "sessionId": "n", "data": "x", "labels": {}, "files": ["/x"], "pattern": "x", "newValue": "y", "path": "/x", "url": "u",
           "message": "m", "author": "a", "email": "e", "branch": "b", "key": "k", "value": "v"}

# the manager looks often, and at its end removes what is left
SESSION = '[session]\nscan_interval = "50ms"\non_shutdown = "clean"\n'


class Client:
    def __init__(self, d, token=TENANT, headers=None):
        self.d, self.token, self.headers = d, token, headers or NEW

    def ask(self, method, path, body=None, headers=None, /, **query):
        path = "/api" + path + ("?" + urllib.parse.urlencode(query) if query else "")
        return self.d.request(method, path, body, headers={**self.headers, **(headers or {})}, tcp=True, token=self.token)

    def create(self, **more):
        r = self.ask("POST", "/sandbox", {"env": {}, "labels": {}, "target": "us", **more})
        assert r.status == 200 and r.json["state"] == "started", r
        return Box(self, r.json)


class Box:
    """What an SDK does with a sandbox, at its toolboxProxyUrl."""

    def __init__(self, client, made):
        self.client, self.id, self.made = client, made["id"], made
        self.toolbox = "/toolbox/" + self.id

    def ask(self, method, path, body=None, headers=None, /, **query):
        return self.client.ask(method, self.toolbox + path, body, headers, **query)

    def run(self, command, **more):
        r = self.ask("POST", "/process/execute", {"command": command, **more})
        assert r.status == 200, r
        return r.json["exitCode"], r.json["result"]

    def upload(self, *parts, boundary="x1"):
        """Parts of a form: (name, file name or None, bytes)."""
        body = b""
        for name, filename, data in parts:
            file = f'; filename="{filename}"' if filename else ""
            body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + data + b"\r\n"
        return self.ask("POST", "/files/bulk-upload", body + f"--{boundary}--\r\n".encode(),
                        {"Content-Type": f"multipart/form-data; boundary={boundary}"})

    def put(self, path, data):
        r = self.upload(("files[0].path", None, path.encode()), ("files[0].file", "f", data))
        assert r.status == 200, r

    def get(self, path):
        return self.ask("GET", "/files/download", path=path)

    def state(self):
        r = self.client.ask("GET", "/sandbox/" + self.id)
        return r.json["state"] if r.status == 200 else r.status

    def socket(self, path, token=None, protocol=None, **query):
        return Socket(self.client.d, "/api" + self.toolbox + path + "?" + urllib.parse.urlencode(query), token or self.client.token, protocol)


class Refused(Exception):
    pass


class Socket:
    """A WebSocket of a client; frames as tests want them."""

    def __init__(self, d, path, token, protocol=None, key=None, connection="Upgrade"):
        self.s = socket.create_connection(("127.0.0.1", d.port), 30 * b.SLOW)
        key = key or base64.b64encode(os.urandom(16)).decode()
        more = f"Sec-WebSocket-Protocol: {protocol}\r\n" if protocol else ""
        self.s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{d.port}\r\nAuthorization: Bearer {token}\r\nConnection: {connection}\r\n"
                       f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{more}\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self.s.recv(1)
            if not piece:
                break
            head += piece
        self.status = int(head.split(b" ")[1])
        if self.status != 101:
            self.s.settimeout(2)
            try:
                head += self.s.recv(65536)
            except OSError:
                pass
            self.s.close()
            raise Refused(self.status, head)
        self.head = head.decode()
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        assert f"Sec-WebSocket-Accept: {accept}\r\n" in self.head and "Upgrade: websocket\r\n" in self.head, self.head

    def frame(self, op, data=b"", final=True, mask=True, length=None):
        n = len(data) if length is None else length
        head = bytes([(0x80 if final else 0) | op])
        bit = 0x80 if mask else 0
        head += bytes([bit | n]) if n < 126 else bytes([bit | 126]) + struct.pack(">H", n) if n < 65536 else bytes([bit | 127]) + struct.pack(">Q", n)
        if mask:
            key = os.urandom(4)
            data = bytes(c ^ key[i % 4] for i, c in enumerate(data))
            head += key
        self.s.sendall(head + data)

    def exact(self, n):
        got = b""
        while len(got) < n:
            piece = self.s.recv(n - len(got))
            if not piece:
                raise EOFError(got)
            got += piece
        return got

    def receive(self):
        """(op, data) of the next frame."""
        first, n = self.exact(2)
        assert first & 0x80 and not n & 0x80, (first, n)
        if n >= 126:
            n = struct.unpack(">H" if n == 126 else ">Q", self.exact(2 if n == 126 else 8))[0]
        return first & 15, self.exact(n)

    def until(self, text):
        """Bytes of messages until these came."""
        got = b""
        while text not in got:
            op, data = self.receive()
            assert op in (1, 2, 9), (op, data, got[-300:])
            got += data if op != 9 else b""
        return got

    def closes(self):
        """The code and the reason with which the server closes."""
        while True:
            op, data = self.receive()
            if op == 8:
                return struct.unpack(">H", data[:2])[0], data[2:].decode()

    def close(self):
        self.s.close()
