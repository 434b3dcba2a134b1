# SPDX-License-Identifier: Apache-2.0
"""The key of one sandbox that E2B's clients get, and the addresses of files that it signs (S18)."""
import base64
import hashlib
import os
import signal
import time
import urllib.parse

import berthtest as b
from daemon import OTHER, TENANT, TOKEN, Daemon
from e2bwire import Client

COST = 10


def sign(key, path, operation, user="", expires=None):
    """As the SDKs do it."""
    text = f"{path}:{operation}:{user}:{key}" + (f":{expires}" if expires is not None else "")
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def address(key, signed, operation, user="", expires=None, **changed):
    query = {"path": signed, "username": user, "signature": sign(key, signed, operation, user, expires), "signature_expiration": expires}
    query.update(changed)
    return "/files?" + urllib.parse.urlencode({k: v for k, v in query.items() if v not in ("", None)})


def key_of(e):
    return e.headers["X-Access-Token"]


def test_a_key_is_good_for_its_sandbox_and_for_nothing_else():
    with Daemon(tcp=True) as d:
        c = Client(d)
        one, two = c.create(), c.create()
        assert TENANT not in key_of(one) and key_of(one) != key_of(two), key_of(one)
        assert one.run("echo mine")[0] == b"mine\n"
        only = {"X-Access-Token": key_of(one)}
        assert d.request("GET", "/files?path=/etc/hostname", headers=only, tcp=True).status == 200   # the key says which
        for headers in ({**only, "E2b-Sandbox-Id": two.id}, {**only, "E2b-Sandbox-Id": "nope"}):
            assert d.request("GET", "/files?path=/etc/hostname", headers=headers, tcp=True).status == 502, headers
        for method, path in (("GET", "/v2/sandboxes"), ("DELETE", f"/sandboxes/{one.id}"), ("GET", f"/v1/sandboxes/{one.id}"),
                             ("GET", "/v1/sandboxes"), ("GET", "/v1/system"), ("POST", "/v1/sandboxes"), ("POST", "/mcp"),
                             ("POST", "/run_code"), ("GET", "/metrics")):
            r = d.request(method, path, {} if method == "POST" else None, headers=only, tcp=True)
            assert r.status == 403 or r.status == 404 and path == "/v1/system", r
        for key in (key_of(one)[:-1] + ("0" if key_of(one)[-1] != "0" else "1"), two.id + key_of(one)[len(one.id):], one.id + ".", one.id,
                    "." + key_of(one), key_of(one) + "0", key_of(one).upper(), one.id + "." + "0" * 64):
            assert d.request("GET", "/files?path=/etc/hostname", headers={"X-Access-Token": key}, tcp=True).status == 401, key
        assert d.request("GET", "/v2/sandboxes", headers={"X-API-Key": key_of(one)}, tcp=True).status == 401
        # it outlives berthd, but not its sandbox, and not the token of whose it is
        d.stop()
        d.start()
        assert one.run("echo again")[0] == b"again\n"
        c.ask("DELETE", f"/sandboxes/{two.id}")
        assert two.ask("GET", "/health").status == 502
        b.write(d.tokens_path, f"root {TOKEN} admin\nbob {OTHER}\n", 0o600)
        d.p.send_signal(signal.SIGHUP)
        b.wait_for(lambda: one.ask("GET", "/health", check=False).status == 401, 20, "the new tokens")


def test_a_signed_address_reads_or_writes_one_file():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        key, now = key_of(e), int(time.time())

        def ask(method, target, body=None):
            return d.request(method, target, body, headers={"Content-Type": "application/octet-stream"} if body else {}, tcp=True)

        assert ask("POST", address(key, "/tmp/a b&c+%/ä", "write"), b"text").status == 200
        assert ask("GET", address(key, "/tmp/a b&c+%/ä", "read")).body == b"text"
        assert ask("GET", address(key, "/tmp/a b&c+%/ä", "read", "root", now + 60)).body == b"text"
        e.run("echo secret > /tmp/x; echo of-link > /tmp/y; ln -s y /tmp/l")
        assert ask("GET", address(key, "/tmp/l", "read")).body == b"of-link\n"
        good = address(key, "/tmp/x", "read", expires=now + 60)
        assert ask("GET", good).body == b"secret\n"
        for method, target in (
                ("POST", good), ("GET", address(key, "/tmp/x", "write")), ("GET", address(key, "/tmp/x", "read", expires=now - 2)),
                ("GET", address(key, "/tmp/x", "read", expires=now - 2, signature_expiration=now + 60)),
                ("GET", address(key, "/tmp/x", "read", expires=now + 60, signature_expiration="")),
                ("GET", address(key, "/tmp/y", "read", path="/tmp/x")), ("GET", address(key, "/tmp/x", "read", username="root")),
                ("GET", address("wrong", "/tmp/x", "read")), ("GET", address(key, "/tmp/x", "read", signature="v1_" + "A" * 43)),
                ("GET", good.replace("/files", "/v1/sandboxes")), ("GET", "/files?path=/tmp/x")):
            r = ask(method, target, b"x" if method == "POST" else None)
            assert r.status == 401, (method, target, r)
        for target in (good + "&path=/tmp/y", good + "&signature_expiration=1", address(key, "/tmp/x", "read", signature="v1_short"),
                       address(key, "/tmp/x", "read", expires="soon"), address(key, "/tmp/x", "read", expires="-1"),
                       address(key, "/tmp/x", "read", "a:b"), good + "%zz=1"):
            assert ask("GET", target).status == 400, target
        # the text that is signed must not be readable as another file, operation or user
        tricky = sign(key, "/tmp/x:write:u", "read", "v")
        r = ask("POST", "/files?" + urllib.parse.urlencode({"path": "/tmp/x", "username": "u:read:v", "signature": tricky}), b"changed")
        assert r.status == 400 and ask("GET", good).body == b"secret\n", r
        Client(d).ask("DELETE", f"/sandboxes/{e.id}")
        assert ask("GET", good).status == 401


def test_an_administrators_sandbox_has_a_key_too():
    with Daemon(tcp=True) as d:
        made = d.request("POST", "/v2/sandboxes", {"templateID": "base"}).json     # over the unix socket, without a token
        headers = {"X-Access-Token": made["envdAccessToken"]}
        assert d.request("GET", "/health", headers=headers, tcp=True, check=False).status == 204
        assert d.request("GET", "/v1/sandboxes", headers=headers, tcp=True).status == 403
        secret = os.path.join(b.root(), "state", "e2b.key")
        assert os.stat(secret).st_mode & 0o777 == 0o600, "the secret of keys may be read by others"
        other = Client(d).create()
        # the key of an administrator's sandbox reaches no other sandbox either
        assert d.request("GET", "/health", headers={**headers, "E2b-Sandbox-Id": other.id}, tcp=True).status == 502
        d.stop()
        b.write(secret, "not a secret\n", 0o600)
        d.start()
        r = Client(d).ask("POST", "/v2/sandboxes", {"templateID": "base"})
        assert r.status >= 500 and "e2b.key" in r.json["message"], r
        assert d.request("GET", "/health", headers=headers, tcp=True).status >= 400
