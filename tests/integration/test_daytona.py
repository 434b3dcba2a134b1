# SPDX-License-Identifier: Apache-2.0
"""Daytona's API in berthd, on the wire (S63 of SECURITY.md): recorded requests, errors, generations of SDKs, WebSockets.  Its SDKs: tests/real."""
import json
import os
import signal
import threading
import urllib.request

import berthtest as b
import daytonawire
from daemon import TENANT, TOKEN, Daemon
from daytonawire import SESSION, Client, Refused
from netlab import need_net
from previews import Previews

COST = 20


def test_recorded_requests_of_a_session():
    with Daemon("[daemon]\n" + SESSION, tcp=True) as d:
        c = Client(d)
        box = c.create(buildInfo={"dockerfileContent": "FROM host\n"}, labels={"code-toolbox-language": "python"}, autoStopInterval=5)
        assert box.made["toolboxProxyUrl"] == f"http://127.0.0.1:{d.port}/api/toolbox", box.made
        assert (box.made["autoStopInterval"], box.made["autoArchiveInterval"], box.made["autoDeleteInterval"]) == (5, 7 * 1440, -1)
        named = c.create(name="given")
        assert named.state() == "started" and c.ask("GET", "/sandbox/given").json["id"] == named.id
        assert c.ask("POST", "/sandbox", {"name": "given"}).status == 409
        assert c.ask("POST", "/sandbox/given/stop").json["state"] == "stopped" and c.ask("POST", "/sandbox/given/start").json["state"] == "started"
        c.ask("DELETE", "/sandbox/given")
        assert box.run("echo out; echo err >&2; exit 3") == (3, "out\nerr\n")
        assert box.run("pwd; echo $A", cwd="/tmp", envs={"A": "b"}) == (0, "/tmp\nb\n")
        assert box.run("cat") == (0, ""), "a command without input waits"
        assert box.run("printf 'a\\377b'") == (0, "a\ufffdb")
        assert box.run("bash -c 'kill -9 $$'")[0] == 137
        status, out = box.run("head -c 9000000 /dev/zero | tr '\\0' x")
        assert status == 0 and len(out) < 9000000 and "bytes of output are left out here" in out and out.startswith("xxx"), len(out)
        # Python's SDK sends all paths, then all files
        r = box.upload(("files[0].path", None, b"/tmp/a"), ("files[1].path", None, b"b"), ("files[0].file", "x", b"A"), ("files[1].file", "y", b"B"))
        assert r.json == {"uploaded": 2} and (box.get("/tmp/a").body, box.get("/workspace/b").body) == (b"A", b"B"), r
        r = box.ask("POST", "/process/execute", {"command": "sleep 100", "timeout": 1})
        assert r.status == 408 and r.json["statusCode"] == 408 and "timeout" in r.json["message"], r
        # the paths of the SDKs of 2025
        r = c.ask("POST", f"/toolbox/{box.id}/toolbox/process/execute", {"command": "echo old", "timeout": 10})
        assert r.json["result"] == "old\n" and r.json["code"] == 0, r
        assert c.ask("GET", f"/toolbox/{box.id}/toolbox/project-dir").json == {"dir": "/workspace"}
        assert b.berth("ps", ok=True).out.count("daytona") == 1
        assert c.ask("GET", f"/sandbox/{box.id}/toolbox-proxy-url").json["url"] == box.made["toolboxProxyUrl"]
        assert c.ask("GET", "/config").json["maxAutoArchiveInterval"] == 43200
        assert c.ask("DELETE", "/sandbox/" + box.id).json["state"] == "destroyed"
        assert c.ask("GET", "/sandbox/" + box.id).status == 404


def test_what_is_not_served_is_refused_in_daytonas_form():
    with Daemon("[daemon]\n" + SESSION, tcp=True) as d:
        c = Client(d)
        for body, status, word in (({"gpu": 1}, 501, "gpu"), ({"secrets": [{"A": "b"}]}, 501, "secrets"), ({"spot": True}, 501, "spot"),
                                   ({"autoPauseInterval": 3}, 501, "autoPauseInterval"), ({"linkedSandbox": "x"}, 501, "linkedSandbox"),
                                   ({"unknownMember": 1}, 400, "unknownMember"), ({"cpu": "1"}, 400, "cpu"), ({"autoStopInterval": -1}, 400, "autoStopInterval"),
                                   ({"labels": {"a": 1}}, 400, "a"), ({"volumes": [{"volumeId": "../x", "mountPath": "/d"}]}, 400, "volumeId"),
                                   ({"volumes": [{"volumeId": "v", "mountPath": "/d", "subpath": "s"}]}, 501, "subpath"),
                                   ({"buildInfo": {"dockerfileContent": "RUN true\n"}}, 400, "FROM"),
                                   ({"buildInfo": {"dockerfileContent": "FROM host\nRUN true\n"}}, 403, "admin"),
                                   ({"buildInfo": {"dockerfileContent": "FROM host\n", "contextHashes": ["h"]}}, 501, "contextHashes"),
                                   ({"snapshot": "/etc"}, 403, "directory"), ({"snapshot": "none-such"}, 404, "none-such"),
                                   ({"snapshot": "a", "image": "b"}, 400, "more than one"),
                                   ({"networkBlockAll": True, "domainAllowList": "a.test"}, 400, "networkBlockAll")):
            r = c.ask("POST", "/sandbox", body)
            assert (r.status, r.json["statusCode"]) == (status, status) and word in r.json["message"], (body, r)
            assert set(r.json) >= {"statusCode", "message", "error", "code", "timestamp"}, r
        assert b.berth("ps", "-aq", ok=True).out == ""
        box = c.create()
        s = f"/sandbox/{box.id}"
        for method, path, *body in (("POST", s + "/fork"), ("POST", s + "/snapshot"), ("POST", s + "/backup"), ("POST", s + "/autopause/3"), ("PUT", s + "/secrets", {"secrets": []}), ("GET", s + "/signing-key"),
                             ("POST", s + "/ssh-access"), ("POST", s + "/ports/80/signed-preview-url/t/expire"),
                             ("POST", box.toolbox + "/lsp/start"), ("GET", box.toolbox + "/lsp/document-symbols"), ("POST", box.toolbox + "/computeruse/start"),
                             ("GET", box.toolbox + "/computeruse/screenshot"), ("GET", box.toolbox + "/process/interpreter/context"),
                             ("POST", box.toolbox + "/env"), ("GET", box.toolbox + "/port")):
            r = c.ask(method, path, *body)
            assert r.status == 501 and r.json["code"] == "NOT_IMPLEMENTED" and len(r.json["message"]) > 20, (path, r)
        for method, path, body in (("POST", "/process/execute", {"command": "true", "shell": "sh"}), ("POST", "/process/code-run", {"code": "1", "x": 1}),
                                   ("POST", "/process/session", {"sessionId": "a", "x": 1}), ("POST", "/process/pty", {"id": "a", "x": 1}),
                                   ("POST", "/git/clone", {"url": "u", "path": "p", "x": 1})):
            r = box.ask(method, path, body)
            assert r.status == 400 and list(body)[-1] in r.json["message"], (path, r)
        assert box.ask("GET", "/files", path="/", recursive="yes").status == 400
        assert c.ask("GET", "/sandbox", sort="name").status == 400
        r = box.ask("POST", "/process/code-run", {"code": "1", "language": "typescript"})
        assert r.status == 501 and "typescript" in r.json["message"], r
        c.ask("DELETE", s)


def test_each_generation_of_sdks_reads_its_own_lists_and_logs():
    with Daemon("[daemon]\n" + SESSION, tcp=True) as d:
        box = Client(d).create(labels={"k": "v"})
        others = [Client(d, headers=h) for h in (daytonawire.NEW, daytonawire.MARKED, daytonawire.OLD)]
        assert [x["id"] for x in others[0].ask("GET", "/sandbox").json["items"]] == [box.id]
        assert others[1].ask("GET", "/sandbox/paginated", page=1, limit=10, labels='{"k":"v"}').json["total"] == 1
        assert others[1].ask("GET", "/sandbox/paginated", labels='{"k":"w"}').json["items"] == []
        assert [x["id"] for x in others[2].ask("GET", "/sandbox", labels='{"k": "v"}').json] == [box.id]
        assert others[2].ask("GET", "/sandbox", labels="[").status == 400
        box.ask("POST", "/process/session", {"sessionId": "s"})
        run = box.ask("POST", "/process/session/s/exec", {"command": "echo out; echo err >&2"})
        assert run.json["output"] == "out\nerr\n", run
        path = f"{box.toolbox}/process/session/s/command/{run.json['cmdId']}/logs"
        new, marked, old = (o.ask("GET", path) for o in others)
        assert new.json == {"output": "out\nerr\n", "stdout": "out\n", "stderr": "err\n"}, new
        assert marked.body == b"\1\1\1out\n\2\2\2err\n" and old.body == b"out\nerr\n", (marked, old)
        assert others[2].ask("GET", path, follow="true").body == b"out\nerr\n"


def test_a_websocket_of_a_terminal_frame_by_frame():
    with Daemon("[daemon]\n" + SESSION, tcp=True) as d:
        box = Client(d).create()
        w = box.socket("/process/pty/create-connect", id="p", cols=70, rows=20, protocol="X-Daytona-Pty-Envs~eyJBIjoiYiJ9, X-Daytona-Pty-Exit-Control")
        assert "Sec-WebSocket-Protocol: X-Daytona-Pty-Exit-Control\r\n" in w.head, w.head
        assert w.receive() == (1, b'{"type":"control","status":"connected"}')
        w.frame(2, b"stty si", final=False)     # a message in parts, and a ping between them
        w.frame(9, b"ping")
        w.frame(0, b"ze; echo $A; exit 3\n")
        got, op, data = b"", 0, b""
        while op != 10:
            op, data = w.receive()
            got += data if op == 2 else b""
        assert data == b"ping"
        got += w.until(b'"exited"')
        assert b"20 70\r\nb\r\n" in got and b'"exitCode":3' in got, got
        assert w.closes() == (1000, '{"exitCode":3}')
        for wrong, code in ((lambda w: w.frame(2, b"x", mask=False), 1002), (lambda w: w.frame(3, b"x"), 1002), (lambda w: w.frame(0, b"x"), 1002),
                            (lambda w: w.frame(9, b"x" * 126), 1002), (lambda w: w.frame(2, b"", length=(1 << 20) + 1), 1009)):
            w = box.socket("/process/pty/create-connect", id="q")
            wrong(w)
            assert w.closes()[0] == code
            w.close()
            assert box.ask("DELETE", "/process/pty/q").status == 200
        for path, query, status in (("/process/pty/none/connect", {}, 404), ("/process/pty/create-connect", {"id": "a/b"}, 400),
                                    ("/process/pty/create-connect", {}, 400), ("/process/session/none/command/c/logs", {"follow": "true"}, 404)):
            try:
                box.socket(path, **query)
                raise AssertionError(path)
            except Refused as e:
                assert e.args[0] == status, (path, e)
        assert box.ask("GET", "/process/pty").json == {"sessions": []}


def test_intervals_are_kept_by_the_managers_scan():
    """Minutes are made seconds by the manager's own route: whose intervals they are."""
    with Daemon("[daemon]\n" + SESSION, tcp=True) as d:
        c = Client(d)
        box = c.create(autoStopInterval=1, autoDeleteInterval=1)
        intervals = f"/v1/manager/sandboxes/{box.id}/intervals"
        assert d.good("GET", intervals, token=TOKEN) == {"auto_stop_ms": 60000, "auto_archive_ms": 7 * 86400000, "auto_delete_ms": 60000}
        d.good("PATCH", intervals, {"auto_stop": 1, "auto_archive": 1, "auto_delete": 0}, token=TOKEN)
        b.wait_for(lambda: box.state() == "archived", 30, "the idle sandbox to stop, and to count as archived")
        assert c.ask("POST", f"/sandbox/{box.id}/start").json["state"] == "started"
        assert box.run("echo on") == (0, "on\n")
        d.good("PATCH", intervals, {"auto_delete": 1}, token=TOKEN)
        c.ask("POST", f"/sandbox/{box.id}/stop")
        b.wait_for(lambda: box.state() == 404, 30, "the stopped sandbox to be removed")
        brief = c.create(autoDeleteInterval=0)
        assert c.ask("POST", f"/sandbox/{brief.id}/stop").json["state"] == "destroyed" and brief.state() == 404


def test_an_archive_in_the_storage_comes_back_with_what_only_daytona_knows():
    with Previews(config=SESSION + f'[storage]\nurl = "file:{b.tmp("stored")}"\n', tcp=True) as d:
        c = Client(d)
        box = c.create(labels={"a": "b"}, public=True, env={"E": "f"})
        box.put("/root/f", b"kept")
        s = f"/sandbox/{box.id}"
        assert c.ask("POST", s + "/archive").status == 400
        c.ask("POST", s + "/stop")
        assert c.ask("POST", s + "/archive").json["state"] == "archived"
        assert os.listdir(b.tmp("stored")) and box.id not in b.berth("ps", "-aq", ok=True).out
        told = c.ask("GET", s).json
        assert (told["labels"], told["state"], told["public"]) == ({"a": "b"}, "archived", True), told
        assert c.ask("PUT", s + "/labels", {"labels": {"x": "y"}}).json["labels"] == {"x": "y"}
        told = c.ask("POST", s + "/start").json
        assert (told["labels"], told["state"], told["env"]) == ({"x": "y"}, "started", {"E": "f"}), told
        assert box.get("/root/f").body == b"kept"
        rules = os.path.join(b.root(), "state", "sandboxes", box.id, "preview.json")
        assert json.load(open(rules))["all_public"] is True
        assert c.ask("POST", s + "/public/false").json["public"] is False
        assert json.load(open(rules))["all_public"] is False
        c.ask("DELETE", s)


def test_a_link_of_a_port_opens_with_its_token_and_a_public_one_without():
    with Previews(config=SESSION, tcp=True) as d:
        c = Client(d)
        private, public = c.create(), c.create(public=True)
        for box in (private, public):
            box.ask("POST", "/process/session", {"sessionId": "s"})
            box.put("/workspace/index.html", b"hello of " + box.id.encode())
            box.ask("POST", "/process/session/s/exec", {"command": "exec python3 -m http.server 8000", "runAsync": True})
        link = c.ask("GET", f"/sandbox/{private.id}/ports/8000/preview-url").json
        assert link["url"].startswith(f"http://8000-{private.id}.preview.test:"), link
        label = f"8000-{private.id}"
        b.wait_for(lambda: d.ask(label, "/", fields=["X-Daytona-Preview-Token: " + link["token"]]).status == 200, 30, "the server")
        assert d.ask(label, "/").status != 200 and d.ask(label, "/", fields=["X-Daytona-Preview-Token: x" + link["token"]]).status != 200
        b.wait_for(lambda: d.ask(f"8000-{public.id}", "/").status == 200, 30, "the public server")
        assert d.ask(f"8000-{public.id}", "/").body == b"hello of " + public.id.encode()
        # what takes one port back says that all are public still
        for method in ("GET", "DELETE"):
            assert d.good(method, f"/v1/sandboxes/{public.id}/ports/8000/preview", token=TOKEN)["public"] is True
        c.ask("POST", f"/sandbox/{public.id}/public/false")
        assert d.good("GET", f"/v1/sandboxes/{public.id}/ports/8000/preview", token=TOKEN)["public"] is False
        assert d.ask(f"8000-{public.id}", "/").status != 200
        signed = c.ask("GET", f"/sandbox/{private.id}/ports/8000/signed-preview-url", expiresInSeconds=60).json
        assert signed["token"] in signed["url"] and signed["port"] == 8000, signed
        assert c.ask("GET", f"/sandbox/{private.id}/ports/8000/signed-preview-url", expiresInSeconds=0).status == 400
        assert c.ask("GET", f"/sandbox/{private.id}/ports/99999/preview-url").status == 400
    with Daemon("[daemon]\n" + SESSION, tcp=True) as d:
        c = Client(d)
        box = c.create()
        r = c.ask("GET", f"/sandbox/{box.id}/ports/80/preview-url")
        assert r.status == 501 and "[preview]" in r.json["message"], r


def test_code_runs_with_its_arguments_and_a_session_reads_input():
    with Daemon("[daemon]\n" + SESSION, tcp=True) as d:
        box = Client(d).create()
        r = box.ask("POST", "/process/code-run", {"code": "import sys, os\nprint(sys.argv[1:], os.environ['A'])\nsys.exit(4)", "language": "python",
                                                  "argv": ["x y", "$z"], "envs": {"A": "b"}})
        assert r.status == 200 and r.json["exitCode"] == 4 and r.json["result"] == "['x y', '$z'] b\n", r
        box.ask("POST", "/process/session", {"sessionId": "in"})
        run = box.ask("POST", "/process/session/in/exec", {"command": "read a; echo got $a", "runAsync": True})
        assert run.status == 202, run
        assert box.ask("POST", f"/process/session/in/command/{run.json['cmdId']}/input", {"data": "it\n"}).status == 204
        w = box.socket(f"/process/session/in/command/{run.json['cmdId']}/logs", follow="true")
        assert w.until(b"got it\n").startswith(b"\1\1\1") and w.closes()[0] == 1000
        # a session is in the sandbox: it outlives berthd
        box.ask("POST", "/process/session/in/exec", {"command": "cd /tmp; A=1"})
        d.stop(signal.SIGKILL)
        d.start()
        assert box.ask("POST", "/process/session/in/exec", {"command": "pwd; echo $A"}).json["stdout"] == "/tmp\n1\n"


def test_changes_at_once_lose_none_of_each_other():
    with Daemon("[daemon]\n" + SESSION, tcp=True) as d:
        c = Client(d)
        box = c.create()

        def change(method, path, body):
            rq = urllib.request.Request(f"http://127.0.0.1:{d.port}/api/sandbox/{box.id}/{path}", json.dumps(body).encode(), method=method,
                                        headers={"Authorization": "Bearer " + TENANT, "Content-Type": "application/json"})
            with urllib.request.urlopen(rq, timeout=30 * b.SLOW) as r:
                assert r.status == 200
        for i in range(30):
            both = [threading.Thread(target=change, args=a) for a in (("PUT", "labels", {"labels": {"n": str(i)}}),
                                                                    ("POST", "public/" + ("true", "false")[i % 2], {}))]
            for t in both:
                t.start()
            for t in both:
                t.join()
            told = c.ask("GET", "/sandbox/" + box.id).json
            assert (told["labels"], told["public"]) == ({"n": str(i)}, i % 2 == 0), (i, told)


def test_sessions_whose_names_look_alike_share_nothing():
    with Daemon("[daemon]\n" + SESSION, tcp=True) as d:
        box, long = Client(d).create(), "l" * 39
        for name in ("a", "a.b", long):
            assert box.ask("POST", "/process/session", {"sessionId": name}).status == 201
        assert box.ask("POST", "/process/session", {"sessionId": long + "l"}).status == 400
        run = box.ask("POST", "/process/session/a.b/exec", {"command": "sleep 1000", "runAsync": True}).json["cmdId"]
        assert box.ask("POST", "/process/session/a/exec", {"command": "echo free", "runAsync": True}).status == 202
        assert [c["command"] for c in box.ask("GET", "/process/session/a").json["commands"]] == ["echo free"]
        assert box.ask("DELETE", "/process/session/a").status == 204
        assert "exitCode" not in box.ask("GET", f"/process/session/a.b/command/{run}").json
        run = box.ask("POST", f"/process/session/{long}/exec", {"command": "echo long"}).json["cmdId"]
        assert box.ask("GET", f"/process/session/{long}").json["commands"] == [{"id": run, "command": "echo long", "exitCode": 0}]


def test_the_command_policy_sees_what_a_client_types():
    with Daemon('[daemon]\n[policy]\ndeny = ["rm -rf /"]\n' + SESSION, tcp=True) as d:
        box = Client(d).create()
        box.ask("POST", "/process/session", {"sessionId": "s"})
        for path, body in (("/process/execute", {"command": "echo a; rm -rf /"}), ("/process/session/s/exec", {"command": "true && rm -fr /"})):
            r = box.ask("POST", path, body)
            assert r.status == 403 and "rm -rf /" in r.json["message"], (path, r)


def allowed(box):
    told = json.loads(b.berth("network", "inspect", "--json", box.id, ok=True).out)
    return {"mode": told["mode"], **told["policy"]}


def test_limits_and_the_network_change_while_it_runs():
    need_net()
    with Daemon("[daemon]\n[sandbox]\nnetwork_enabled = true\n" + SESSION, tcp=True) as d:
        c = Client(d)
        box = c.create(cpu=0.5, memory=0.25, domainAllowList="a.test, *.b.test")
        rules = allowed(box)
        assert rules["mode"] == "egress" and {"a.test", "*.b.test"} <= set(rules["allow_host"]), rules
        told = c.ask("POST", f"/sandbox/{box.id}/resize", {"cpu": 1, "memory": 0.5})
        assert (told.json["cpu"], told.json["memory"]) == (1, 0.5), told
        stats = c.d.good("GET", f"/v1/sandboxes/{box.id}/stats", token=TOKEN)
        assert 536870912 in stats.values(), stats
        r = c.ask("POST", f"/sandbox/{box.id}/resize", {"disk": 2})
        assert r.status == 501 and "disk" in r.json["message"], r
        assert c.ask("POST", f"/sandbox/{box.id}/resize", {}).status == 400
        r = c.ask("POST", f"/sandbox/{box.id}/network-settings", {"domainAllowList": "c.test"})
        assert r.status == 200 and r.json["domainAllowList"] == "c.test" and "networkAllowList" not in r.json, r
        assert "c.test" in allowed(box)["allow_host"] and "a.test" not in allowed(box)["allow_host"]
        r = c.ask("POST", f"/sandbox/{box.id}/network-settings", {"networkBlockAll": True})
        assert r.status == 200 and r.json["networkBlockAll"] is True and "c.test" not in allowed(box).get("allow_host", []), r
        assert c.ask("POST", f"/sandbox/{box.id}/network-settings", {"domainAllowList": "not a name"}).status == 400
        r = c.ask("POST", "/sandbox", {"domainAllowList": "a.test", "networkAllowList": "192.0.2.0/24"})
        assert r.status == 501 and "192.0.2.0/24" in r.json["message"], r
        closed = c.create(networkBlockAll=True)
        assert allowed(closed)["mode"] in ("none", "egress") and not allowed(closed).get("allow_host"), allowed(closed)
