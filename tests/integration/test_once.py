# SPDX-License-Identifier: Apache-2.0
"""A request that makes a sandbox leaves one of it: whatever its client repeats, and none that no client knows of."""
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

import berthtest as b
import daemon
from daemon import Daemon

sys.path.insert(0, os.path.join(b.TOP, "clients/python"))
sys.dont_write_bytecode = True
import berth  # noqa: E402

MANAGER = '[session]\non_shutdown = "clean"\n[pool.base]\nimage = "host"\nsize = 1\n'


def ids():
    return sorted(b.berth("ps", "-a", "-q", ok=True).out.split())


def create(d, key, body=None, path="/v1/sandboxes", token=None):
    headers = {"Idempotency-Key": key}
    r = d.request("POST", path, body if body is not None else {"image": "host"}, headers, token=token)
    return r, r.headers.get("idempotency-replayed")


@b.deadline(120)
def test_a_create_that_is_repeated_with_its_key_makes_one_sandbox():
    with Daemon(tcp=True) as d:
        first, replayed = create(d, "k-1")
        assert first.status == 201 and not replayed, first
        again, replayed = create(d, "k-1")
        assert (again.status, again.json["id"], again.json["name"]) == (201, first.json["id"], first.json["name"]) and replayed == "true", again
        # members in another order are the same body
        one = create(d, "k-2", {"image": "host", "name": "two"})[0]
        assert create(d, "k-2", {"name": "two", "image": "host"})[0].json["id"] == one.json["id"]
        r, _ = create(d, "k-1", {"image": "host", "name": "other"})
        assert r.status == 422 and "another body" in r.json["error"]["message"] and "new key" in r.json["error"]["remedy"], r
        for bad in ("", "x" * 256, "a b"):
            r, _ = create(d, bad)
            assert r.status == 400 and "Idempotency-Key" in r.json["error"]["message"], (bad, r)
        assert ids() == sorted([first.json["id"], one.json["id"]])
        # a key that failed is free: the name is given away, then not
        assert create(d, "k-3", {"image": "host", "name": "two"})[0].status == 409
        d.good("DELETE", "/v1/sandboxes/two?force=true")
        assert create(d, "k-3", {"image": "host", "name": "two"})[0].status == 201
        # a key is its client's
        box = create(d, "k-1", token=daemon.OTHER)[0]
        assert box.status == 201 and box.json["id"] not in (first.json["id"], one.json["id"]), box
        # what is forked from it has another key, or none
        fork = d.good("POST", f"/v1/sandboxes/{first.json['id']}/fork", {})["forks"][0]["id"]
        label = d.good("GET", f"/v1/sandboxes/{first.json['id']}")["labels"]
        assert list(label) == ["berth.request"] and not d.good("GET", f"/v1/sandboxes/{fork}").get("labels"), label
        assert d.request("POST", "/v1/sandboxes", {"image": "host", "options": {"label": ["berth.request=x"]}}).status == 403


@b.deadline(120)
def test_creates_at_once_with_one_key_make_one_sandbox():
    with Daemon() as d:
        got = []

        def ask():
            c = daemon.UnixConnection(d.socket, 60)
            c.request("POST", "/v1/sandboxes", json.dumps({"image": "host"}), {"Content-Type": "application/json", "Idempotency-Key": "same"})
            r = c.getresponse()
            got.append((r.status, json.loads(r.read())["id"]))
            c.close()
        threads = [threading.Thread(target=ask) for _ in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(set(got)) == 1 and len(got) == 12 and got[0][0] == 201 and ids() == [got[0][1]], got


@b.deadline(120)
def test_keys_outlive_a_kill_of_berthd_with_what_was_made():
    with Daemon(config=MANAGER) as d:
        faces = [("/v1/sandboxes", {"image": "host"}, "id"), ("/v1/sandboxes", {"session": "s1"}, "id"), ("/create", {}, "data"),
                 ("/create_from_pool", {}, "data"), ("/sandboxes", {"templateID": "host", "timeout": 600}, "sandboxID")]
        made = []
        b.wait_for(lambda: d.good("GET", "/v1/manager/stats")["pools"]["base"]["warm"], 30, "a warm sandbox")
        for i, (path, body, member) in enumerate(faces):
            r, _ = create(d, f"key-{i}", body, path)
            assert r.status in (200, 201) and r.json[member], r
            made.append(r.json[member])
        assert d.stop(signal.SIGKILL) == -signal.SIGKILL
        d.start()
        for i, (path, body, member) in enumerate(faces):
            r, replayed = create(d, f"key-{i}", body, path)
            assert r.json[member] == made[i] and replayed == "true", (path, made[i], r)
            r, _ = create(d, f"key-{i}", dict(body, sandbox_type="default") if "image" not in body else {"image": "host", "name": "x"}, path)
            assert r.status in (400, 422), r


@b.deadline(120)
def test_a_client_that_left_finds_its_sandbox_by_the_key_and_leaves_none_without():
    with Daemon() as d:
        def leave(key):
            body = json.dumps({"image": "host"})
            with d.raw_socket() as s:
                s.sendall((f"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{key}"
                           f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
                b.wait_for(lambda: "berth_http_requests_active 2" in d.get("/metrics").body.decode(), 20, "the request")
        # nothing is made while a rename, say, has this lock
        held = os.open(os.path.join(os.path.dirname(d.socket), "sandboxes"), os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        leave("")
        os.close(held)
        b.wait_for(lambda: "berth_http_requests_active 1" in d.get("/metrics").body.decode(), 20, "its end")
        assert ids() == []
        leave("Idempotency-Key: gone\r\n")
        r, replayed = create(d, "gone")
        assert r.status == 201 and ids() == [r.json["id"]], r


@b.deadline(120)
def test_a_create_whose_reader_is_gone_leaves_no_sandbox():
    """So does berth create of a berthd that was killed meanwhile."""
    for keyed in (0, 1):
        call = {"command": "create", "options": {"json": True, **({"mark": [f"berth.request={'a' * 32}.{'b' * 32}"]} if keyed else {})},
                "operands": ["host"]}
        document = os.memfd_create("call")
        os.write(document, json.dumps(call).encode())
        os.lseek(document, 0, os.SEEK_SET)
        read, write = os.pipe()
        os.close(read)
        p = subprocess.run(["sh", "-c", f'exec "$0" op 3<&{document}', os.path.join(b.BUILD, "berth")], stdout=write, stderr=subprocess.PIPE,
                           env=b.environment({}), pass_fds=[document], timeout=60 * b.SLOW)
        os.close(write)
        os.close(document)
        assert p.returncode != 0 and len(ids()) == keyed, (p, ids())
    b.berth("rm", "--force", *ids(), ok=True)


class Forgetful:
    """A way to berthd on which the reply to the first request is lost."""

    def __init__(self, d):
        self.path, self.to, self.lost = b.tmp("forgetful.sock"), d.socket, []
        self.s = socket.socket(socket.AF_UNIX)
        self.s.bind(self.path)
        self.s.listen(64)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                c = self.s.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.join, args=(c,), daemon=True).start()

    def join(self, c):
        with c, socket.socket(socket.AF_UNIX) as to:
            to.connect(self.to)
            while asked := c.recv(65536):
                to.sendall(asked)
                told = to.recv(65536)
                if not self.lost and told.startswith(b"HTTP/1.1 201"):
                    self.lost.append(told)
                    return
                c.sendall(told)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()


def test_a_client_whose_reply_was_lost_asks_again_and_has_one_sandbox():
    with Daemon() as d:
        with Forgetful(d) as way, berth.Berth("unix://" + way.path) as client:
            box = client.create("host")
            assert way.lost and ids() == [box.id], (way.lost, ids())
            box.remove()
        d.stop()
        try:
            berth.Berth("unix://" + d.socket).create("host")
            raise AssertionError("there is no berthd")
        except berth.errors.Network as e:
            assert "is berthd running" in str(e), e


def test_so_does_that_of_javascript():
    node = shutil.which("node")
    if not node:
        raise b.skip("needs node (Debian: nodejs)")
    with Daemon() as d, Forgetful(d) as way:
        script = f"import {{ Berth }} from '{b.TOP}/clients/javascript/src/index.js'; const c = new Berth({{ host: 'unix://{way.path}' }}); " \
                 "console.log((await c.create('host')).id); await c.close();"
        r = subprocess.run([node, "--input-type=module", "-e", script], capture_output=True, text=True)
        assert r.returncode == 0 and way.lost and ids() == [r.stdout.strip()], (r, way.lost, ids())
