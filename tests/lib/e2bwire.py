# SPDX-License-Identifier: Apache-2.0
"""E2B's API as an SDK speaks it, for tests that look at the wire."""
import base64
import http.client
import json
import struct

from daemon import TENANT


class Client:
    def __init__(self, d, token=TENANT):
        self.d, self.key = d, {"X-API-Key": "e2b_" + token}

    def ask(self, method, path, body=None, headers=None, check=True):
        return self.d.request(method, path, body, headers={**self.key, **(headers or {})}, tcp=True, check=check)

    def create(self, **more):
        r = self.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 600, **more})
        assert r.status == 201 and r.json["sandboxID"] and r.json["envdVersion"], r
        return Envd(self.d, r.json)


class Envd:
    """What an SDK does with a sandbox: its id and its token in fields of their own."""

    def __init__(self, d, made):
        self.d, self.id = d, made["sandboxID"]
        self.headers = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983", "X-Access-Token": made["envdAccessToken"]}

    def ask(self, method, path, body=None, check=True, **headers):
        return self.d.request(method, path, body, headers={**self.headers, **headers}, tcp=True, check=check)

    def call(self, name, **body):
        return self.ask("POST", "/" + name, body)

    def open(self, name, raw=None, user=None, **body):
        """The connection and the reply of a stream that has begun."""
        text = json.dumps(body).encode()
        headers = {**self.headers, "Content-Type": "application/connect+json"}
        if user:
            headers["Authorization"] = "Basic " + base64.b64encode(user.encode() + b":").decode()
        c = http.client.HTTPConnection("127.0.0.1", self.d.port, timeout=150)
        c.request("POST", "/" + name, raw if raw is not None else struct.pack(">BI", 0, len(text)) + text, headers)
        r = c.getresponse()
        assert r.status == 200 and r.headers["Content-Type"] == "application/connect+json", (r.status, r.read())
        return c, r

    def stream(self, name, raw=None, user=None, **body):
        """All events, and the error of the last envelope or None."""
        c, r = self.open("process.Process/" + name, raw, user, **body)
        events = []
        while True:
            flags, message = envelope(r)
            if flags == 2:
                rest = r.read()
                c.close()
                assert not rest, rest
                return events, message.get("error")
            events.append(message["event"])

    def run(self, command, **more):
        events, error = self.stream("Start", process={"cmd": "/bin/sh", "args": ["-c", command], **more}, stdin=False)
        assert error is None, error
        out = b"".join(base64.b64decode(e["data"]["stdout"]) for e in events if "stdout" in e.get("data", {}))
        return out, events[-1]["end"]


def envelope(r):
    """The next of a stream: its flags and its message."""
    head = r.read(5)
    assert len(head) == 5, "the stream ended without its last envelope"
    flags, n = struct.unpack(">BI", head)
    return flags, json.loads(r.read(n))
