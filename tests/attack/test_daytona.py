# SPDX-License-Identifier: Apache-2.0
"""
Daytona's door against tenants and sandboxes (S63 of SECURITY.md): another tenant's sandbox, paths of forms, bodies over the
bounds, floods of sessions, terminals and WebSockets, and a sandbox that lies about its files.
"""
import json
import os

import berthtest as b
from daemon import OTHER, TENANT, TOKEN, Daemon
from daytonawire import SESSION, Client, Refused, Socket
from managed import Manager
from netlab import need_net

CONFIG = "[daemon]\n" + SESSION


def read_memory(d):
    with open(f"/proc/{d.p.pid}/status") as f:
        return int([line for line in f if line.startswith("VmRSS")][0].split()[1])


@b.deadline(180)
def test_S63_another_tenants_sandbox_is_not_there():
    with Daemon(CONFIG, tcp=True) as d:
        alice, bob = Client(d), Client(d, OTHER)
        box = alice.create(name="mine", labels={"a": "b"})
        box.ask("POST", "/process/session", {"sessionId": "s"})
        run = box.ask("POST", "/process/session/s/exec", {"command": "sleep 1000", "runAsync": True}).json["cmdId"]
        box.ask("POST", "/process/pty", {"id": "p"})
        assert bob.ask("GET", "/sandbox").json["items"] == [] and bob.ask("GET", "/sandbox/paginated").json["total"] == 0
        of = f"/sandbox/{box.id}"
        asked = [("GET", of), ("DELETE", of), ("POST", of + "/start"), ("POST", of + "/stop"), ("POST", of + "/pause"), ("POST", of + "/archive"),
                 ("POST", of + "/autostop/1"), ("POST", of + "/ttl/1"), ("POST", of + "/last-activity"), ("PUT", of + "/labels", {"labels": {}}),
                 ("POST", of + "/public/true"), ("GET", of + "/toolbox-proxy-url"), ("GET", of + "/ports/80/preview-url"),
                 ("GET", of + "/ports/80/signed-preview-url"), ("GET", "/sandbox/mine"), ("DELETE", "/sandbox/mine")]
        for under in (box.toolbox, box.toolbox + "/toolbox"):
            asked += [(method, under + path, *body) for method, path, *body in (
                ("POST", "/process/execute", {"command": "id"}), ("POST", "/process/code-run", {"code": "1"}), ("GET", "/process/session"),
                ("POST", "/process/session", {"sessionId": "t"}), ("GET", "/process/session/s"), ("DELETE", "/process/session/s"),
                ("POST", "/process/session/s/exec", {"command": "id"}), ("GET", f"/process/session/s/command/{run}/logs"),
                ("POST", f"/process/session/s/command/{run}/input", {"data": "x"}), ("GET", "/process/pty"), ("DELETE", "/process/pty/p"),
                ("POST", "/process/pty", {"id": "q"}), ("POST", "/process/pty/p/resize", {"cols": 1, "rows": 1}), ("GET", "/files?path=/"),
                ("GET", "/files/download?path=/etc/passwd"), ("DELETE", "/files?path=/etc"), ("POST", "/files/bulk-download", {"paths": ["/etc/passwd"]}),
                ("GET", "/files/find?path=/&pattern=a"), ("POST", "/files/replace", {"files": ["/a"], "pattern": "a", "newValue": "b"}), ("GET", "/work-dir"),
                ("GET", "/user-home-dir"), ("POST", "/git/clone", {"url": "u", "path": "p"}), ("GET", "/git/status?path=/"))]
        words = set()
        for method, path, *body in asked:
            r = bob.ask(method, path, *body)
            assert r.status == 404, (method, path, r)
            words.add(r.json["message"].replace(box.id, "ID").replace("mine", "ID").split(";")[0])
            none = bob.ask(method, path.replace(box.id, "0123456789ab").replace("mine", "0123456789ab"), *body)
            assert (none.status, none.json["message"].replace("0123456789ab", "ID")) == (404, r.json["message"].replace(box.id, "ID").replace("mine", "ID"))
        assert len(words) == 2, words
        for path in (f"/process/session/s/command/{run}/logs", "/process/pty/p/connect", "/process/pty/create-connect"):
            try:
                box.socket(path, OTHER, **({"follow": "true"} if "logs" in path else {"id": "z"} if "create" in path else {}))
                raise AssertionError(path)
            except Refused as e:
                assert e.args[0] == 404, (path, e)
        assert box.state() == "started" and alice.ask("GET", of).json["labels"] == {"a": "b"}
        assert [s["id"] for s in box.ask("GET", "/process/pty").json["sessions"]] == ["p"]


@b.deadline(120)
def test_S63_a_note_of_the_clients_own_makes_no_sandbox_daytonas():
    need_net()
    # rules of the operator's type, which PATCH of /v1 does not change for a tenant
    strict = '[pool.strict]\nimage = "host"\noptions = ["network=egress", "allow-host=a.test", "disk=16m", "disk-inodes=1024"]\n'
    with Daemon(CONFIG + strict, tcp=True) as d:
        m, c = Manager(f"http://127.0.0.1:{d.port}", TENANT), Client(d)
        name = m.create(sandbox_type="strict", meta={"daytona": {"labels": {}, "disk": 1}})
        box = m.get_info(identity=name)["container_id"]
        assert d.request("PATCH", f"/v1/sandboxes/{box}", {"allow-host": ["*:*"]}, tcp=True, token=TENANT).status == 403
        for path, *body in (("network-settings", {}), ("public/true",), ("resize", {"cpu": 1}), ("autostop/1",)):
            r = c.ask("POST", f"/sandbox/{box}/{path}", *body)
            assert r.status == 404, (path, r)
        assert c.ask("GET", f"/sandbox/{box}").status == 404
        told = json.loads(b.berth("network", "inspect", "--json", box, ok=True).out)
        assert told["policy"]["allow_host"] == ["a.test"], told
        m.http.close()


@b.deadline(120)
def test_S63_paths_of_a_form_end_in_the_sandbox():
    with Daemon(CONFIG, tcp=True) as d:
        box = Client(d).create()
        secret, target = b.write(b.tmp("secret"), "of the host"), b.tmp("written")
        box.run(f"mkdir -p {os.path.dirname(secret)}; ln -s / /tmp/root; ln -s {secret} /tmp/link; ln -s /proc/1/root /tmp/one; mkfifo /tmp/fifo")
        for path in ("../../../../../../" + target, "/tmp/root" + target, "/tmp/one" + target, target, "/tmp/root/../.." + target):
            box.upload(("files[0].path", None, path.encode()), ("files[0].file", "f", b"x"))
            assert not os.path.exists(target), path
        r = box.ask("POST", "/files/bulk-download", {"paths": ["/tmp/link", "/tmp/one" + secret, "../../" + secret, "/proc/1/environ", "/tmp/fifo", "/tmp"]})
        assert r.status == 200 and b"of the host" not in r.body and b"BERTH_" not in r.body, r
        for path in ("/tmp/link", "../.." + secret, "/tmp/one" + secret):
            assert b"of the host" not in box.get(path).body
        file = ("files[0].file", "f", b"x")
        for parts, word in (([file], "without its path"), ([("files[0].path", None, b"a"), ("files[1].file", "f", b"x")], "without its path"),
                            ([("files[0].path", None, b""), file], "path"), ([("files[0].path", None, b"a\0b"), file], "malformed"),
                            ([("files[0].path", None, b"/" + b"a" * 5000), file], "too long"), ([("other", None, b"a")], "unknown part"),
                            ([("files[0].path", None, b"a"), ("files[0].path", None, b"/tmp/" + b"b" * 300), file], "")):
            r = box.upload(*parts)
            assert r.status >= 400 and word in r.json["message"], (parts, r)
        for body, kind in ((b"--x1\r\n\r\nno name\r\n--x1--\r\n", "multipart/form-data; boundary=x1"), (b"", "multipart/form-data; boundary=x1"),
                           (b"--x1\r\nContent-Disposition: form-data; name=\"files[0].path\"\r\n\r\na", "multipart/form-data; boundary=x1"),
                           (b"x", "text/plain"), (b"--x1\r\n" + b"H: " + b"h" * 40000, "multipart/form-data; boundary=x1"),
                           (b"garbage" * 9000, "multipart/form-data; boundary=" + "b" * 200)):
            r = box.ask("POST", "/files/bulk-upload", body, {"Content-Type": kind})
            assert r.status == 400 and "statusCode" in r.json, (body[:40], r)
        assert box.ask("POST", "/files/bulk-download", {"paths": ["/tmp/a\r\nX: y"]}).status == 400
        # a message that is cut within a character is one still
        r = box.ask("POST", "/process/session", {"sessionId": "x" * 59 + "\u00e9"})
        assert r.status == 400 and r.json["message"].startswith("sessionId 'xxx") and "\ufffd" in r.json["message"], r
        # names of the sandbox's are hostile: they stay text
        box.run("mkdir /tmp/d; touch '/tmp/d/a\"\n\\b'; printf x > '/tmp/d/\1'")
        r = box.ask("GET", "/files", **{"path": "/tmp/d"})
        assert r.status == 200 and len(r.json) == 2, r
        assert box.ask("GET", "/files/search", **{"path": "/tmp/d", "pattern": "*"}).status == 200
        assert box.ask("GET", "/files/find", **{"path": "/tmp/d", "pattern": "-exec"}).json == []
        assert box.ask("POST", "/files/permissions", **{"path": "/tmp/d", "mode": "--reference=/etc"}).status >= 400
        assert box.ask("POST", "/git/checkout", {"path": "/tmp", "branch": "--help"}).status == 400


@b.deadline(240)
def test_S63_what_a_tenant_can_make_grow_has_a_bound():
    with Daemon(CONFIG + "[tenant]\nstreams = 3\n", tcp=True) as d:
        box = Client(d).create(disk=0.05)
        before = read_memory(d)
        for interval in (0, 61):    # [manager] idle_timeout is an hour, which no tenant changes
            assert Client(d).ask("POST", "/sandbox", {"autoStopInterval": interval}).status == 403
            assert Client(d).ask("POST", f"/sandbox/{box.id}/autostop/{interval}").status == 403
        assert Client(d, TOKEN).create(autoStopInterval=0).made["autoStopInterval"] == 0
        assert box.ask("POST", "/process/execute", {"command": "x" * 130001}).status == 400
        assert box.ask("POST", "/process/execute", {"command": "true", "envs": {"A": "x" * (5 << 20)}}).status == 413
        r = box.upload(("files[0].path", None, b"/root/big"), ("files[0].file", "f", b"z" * (100 << 20)))
        assert r.status in (400, 413, 507) or r.status >= 500, r
        assert box.get("/root/big").status == 404, "half a file is there"
        made = [box.ask("POST", "/process/session", {"sessionId": f"s{i}"}).status for i in range(70)]
        assert made == [201] * 64 + [429] * 6, made
        ptys = [box.ask("POST", "/process/pty", {"id": f"p{i}"}).status for i in range(36)]
        assert ptys == [201] * 32 + [429] * 4, ptys
        # a flood of commands ends at the keeper's own bound, and ended ones give their places back
        runs = [box.ask("POST", f"/process/session/s{i}/exec", {"command": "sleep 1000", "runAsync": True}).status for i in range(64)]
        assert set(runs) <= {202, 429} and 202 in runs, runs
        sockets = []
        for i in range(3):
            sockets.append(box.socket(f"/process/pty/p{i}/connect"))
        try:
            box.socket("/process/pty/p4/connect")
            raise AssertionError("a fourth endless reply")
        except Refused as e:
            assert e.args[0] == 429, e
        # one that prints for a client that does not read: the command waits, and nothing grows here
        sockets[0].frame(2, b"exec yes\n")
        sockets[1].frame(2, b"echo re''ady\n")
        sockets[1].until(b"ready")
        assert read_memory(d) - before < 100 << 10, (before, read_memory(d))
        for s in sockets:
            s.close()
        status, out = box.run("yes | head -c 50000000")
        assert status == 0 and len(out) < 5 << 20
        assert box.ask("DELETE", "/process/session/s0").status == 204


@b.deadline(60)
def test_S63_half_a_handshake_is_refused():
    with Daemon(CONFIG, tcp=True) as d:
        box = Client(d).create()
        path = "/api" + box.toolbox + "/process/pty/create-connect?id=p"
        for connection, key in (("keep-alive", None), ("close", None), ("Upgrade", "short"), ("Upgrade", "!" * 24)):
            try:
                Socket(d, path, TENANT, connection=connection, key=key)
                raise AssertionError((connection, key))
            except Refused as e:
                assert e.args[0] == 400, (connection, key, e)
        # nor is a terminal left of one that was refused
        assert box.ask("GET", "/process/pty").json["sessions"] == [] and d.p.poll() is None


@b.deadline(60)
def test_S63_a_sandbox_of_another_door_is_not_daytonas():
    with Daemon(CONFIG, tcp=True) as d:
        c = Client(d)
        for body in ({}, {"name": "plain"}):
            made = d.request("POST", "/v1/sandboxes", body, tcp=True, token=TENANT).json
            for ref in {made["id"], body.get("name", made["id"])}:
                for method, path, *more in (("GET", ""), ("POST", "/stop"), ("POST", "/network-settings", {}), ("POST", "/resize", {"cpu": 1}), ("DELETE", "")):
                    r = c.ask(method, f"/sandbox/{ref}{path}", *more)
                    assert r.status == 404, (method, path, r)
            assert d.request("GET", "/v1/sandboxes/" + made["id"], tcp=True, token=TENANT).json["status"] == "running"
