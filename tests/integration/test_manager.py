# SPDX-License-Identifier: Apache-2.0
"""
The manager end to end: a client that sends what agentscope's SandboxManager sends in remote
mode (python3-requests, over TCP with a bearer token), pools, sessions, storage, two berthds
that share one Redis, and berthd killed again and again.
"""
import contextlib
import gc
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import threading
import time

import berthtest as b
import daemon
import ocilayout as oci
import registry as reg
import requests
import s3server
from managed import FAST, POOL, Failed, Managed, Redis, listens, refused, two_berthds


COST = 70


@contextlib.contextmanager
def busybox_registry():
    """A registry that has one image, which runs; any other name is 404."""
    def only(r):
        if "/box/" not in r.path and r.path != "/v2/":
            r.reply(404, b'{"errors":[{"code":"NAME_UNKNOWN","message":"no such image"}]}')
            return True
        return False

    with open(b.BUSYBOX, "rb") as f:
        tar = oci.tar_bytes([("bin", {"type": tarfile.DIRTYPE, "mode": 0o755}, None), ("bin/busybox", {"mode": 0o755}, f.read()),
                             ("bin/sh", {"type": tarfile.SYMTYPE, "linkname": "busybox"}, None)])
    with reg.Mock(reg.Image([tar]), evil=only) as r:
        yield r, f"{r.host}/box:1"


def test_every_key_of_the_manager_is_in_the_manual():
    keys = []
    for name in ("conf.c", "tenant.c"):
        with open(os.path.join(b.TOP, "manager/host", name)) as f:
            keys += re.findall(r'\{ "(store|storage|session|pool|tenant)", "(\w+)", CONFIG_\w+, "([^"]*)"', f.read())
    with open(os.path.join(b.TOP, "man/berth.toml.5")) as f:
        text = f.read()
    assert len(keys) > 30
    for section, key, preset in keys:
        part = text.split(f".Ss \\&[{'pool.NAME' if section == 'pool' else section}]\\&\n")[1].split(".Ss ")[0].split(".Sh ")[0]
        told = part.split(f".It Li {key} ")[1].split(".It ")[0].split("Default:")[1]
        assert preset in told and (preset or "empty" in told or "[]" in told), (section, key, preset, told)


def test_a_wrong_configuration_is_named():
    for text, words in (("[storage]\nurl = \"ftp:x\"", "storage.url"), ("[session]\nhartbeat = 1", "hartbeat"),
                        ("[pool.x]\nsize = \"many\"", "pool.x.size"), ("[pool.\"../x\"]\n", "pool"),
                        ("[store]\nurl = \"redis://u:p@h/0\"", "password"), ("[store]\nsync = \"maybe\"", "sync"),
                        ("[pool.x]\nreadonly_mounts = [\"relative:/x\"]", "readonly_mounts"), ("[admission]\nmemory = -1", "memory")):
        path = b.write(b.tmp("berth.toml"), text + "\n", 0o600)
        p = subprocess.run([daemon.BERTHD] + (["--check-config"] if "url" not in text else []), env=b.environment({"BERTH_CONFIG": path}),
                           capture_output=True, text=True, timeout=20 * b.SLOW)
        assert p.returncode not in (0, -9) and words in p.stderr, (text, p)


NONSENSE = (
    ('[store]\nurl = "mysql://x"', "store.url"), ('[store]\nurl = "redis://:99999/0"', "store.url"),
    ('[store]\nurl = "redis://:6379/0"', "store.url"), ('[store]\nurl = "redis://h/x"', "store.url"),
    ('[store]\nurl = "sqlite:relative"', "store.url"), ('[store]\npassword_file = "/nosuch"', "/nosuch"),
    ('[storage]\nurl = "http://x"', "storage.url"), ('[storage]\nurl = "file:relative"', "storage.url"),
    ('[storage]\naddressing = "host"', "storage.addressing"),
    ('[storage]\nurl = "s3://bucket/p"\nendpoint = "https://192.0.2.1"\naddressing = "virtual"', "storage.addressing is virtual"),
    ('[storage]\nurl = "s3://my.bucket/p"\nendpoint = "https://s3.example"\naddressing = "virtual"', "storage.addressing is virtual"),
    ('[storage]\nurl = "s3://bucket/p"\nendpoint = "http://localhost.example"', "not on loopback"),
    ('[storage]\nurl = "s3://"', "storage.url"), ('[storage]\nurl = "s3://bucket"', "storage.credentials_file"),
    ('[pool.x]\noptions = ["nosuch=1"]', "pool.x.options: 'nosuch'"), ('[pool.x]\noptions = ["memory=abc"]', "pool.x.options: option memory"),
    ('[pool.x]\noptions = ["name=me"]', "pool.x.options: 'name'"), ('[pool.x]\noptions = ["read-only=yes"]', "pool.x.options: option read-only"),
    ('[sandbox]\nseccomp = "foo"', "sandbox.seccomp"), ('[sandbox]\nseccomp = "nosetid"', "sandbox.seccomp"),
    ('[sandbox]\nseccomp = "/nosuch.json"', "/nosuch.json"),
    ('[pool.x]\nmemory_limit = "1k"', "pool.x.memory_limit"), ('[pool.x]\ncpu_limit = 0.001', "pool.x.cpu_limit"),
    ('[pool.x]\nzygote = "a/b"', "pool.x.zygote"), ('[pool.x]\nzygote = "py"\nmemory_limit = "64m"', "memory_limit beside zygote"),
    ('[pool.x]\nzygote = "py"\nimage = "host"', "image beside zygote"),
    ('[pool.x]\nenv = ["A B=c"]', "pool.x.env"), ('[pool.x]\nenv = ["1=c"]', "pool.x.env"))


def test_nonsense_is_refused_by_the_check_the_start_and_a_reload_alike():
    with Managed("") as d:
        with open(d.config_path) as f:
            good = f.read()
        for text, words in NONSENSE:
            path = b.write(b.tmp("wrong.toml"), text + "\n", 0o600)
            for arguments in (["--check-config"], []):
                env = b.environment({"BERTH_CONFIG": path, "BERTH_RUN_DIR": b.tmp("run"), "BERTH_STATE_DIR": b.tmp("state")})
                p = subprocess.run([daemon.BERTHD, *arguments], env=env, capture_output=True, text=True, timeout=60 * b.SLOW)
                assert p.returncode == 125 and words in p.stderr and path in p.stderr and ".new" not in p.stderr, (text, arguments, p)
            told = d.log().count('"what":"reload"')
            b.write(d.config_path, good + text + "\n", 0o600)
            d.p.send_signal(signal.SIGHUP)
            b.wait_for(lambda n=told: d.log().count('"what":"reload"') > n, 20, "the complaint about " + text)
            complaint = [line for line in d.log().splitlines() if '"what":"reload"' in line][-1]
            assert words in complaint, (text, complaint)
            assert d.get("/readyz").status == 200
        b.write(d.config_path, good, 0o600)


def test_what_a_reload_cannot_change_is_refused_by_it():
    """Nothing is half in force: berthd goes on with all that it had."""
    with Managed(POOL.replace("size = 2", "size = 1") + '[storage]\nurl = "file:' + b.tmpdir("store", 0o700) + '"\n' + FAST) as d:
        d.warm(1)
        with open(d.config_path) as f:
            good = f.read()
        for key, value in (("url", f'"file:{b.tmpdir("other", 0o700)}"'), ("retry", '"7s"')):
            before = d.log().count('"what":"reload"')
            lines = [line for line in good.splitlines() if not line.startswith(key)]
            lines.insert(lines.index("[storage]") + 1, f"{key} = {value}")
            b.write(d.config_path, "\n".join(lines).replace("size = 1", "size = 2") + "\n", 0o600)
            d.p.send_signal(signal.SIGHUP)
            b.wait_for(lambda n=before: d.log().count('"what":"reload"') > n, 20, "the complaint about " + key)
            assert "while berthd runs" in [line for line in d.log().splitlines() if '"what":"reload"' in line][-1]
            assert d.manager.stats()["pools"]["base"]["size"] == 1, d.manager.stats()["pools"]
        b.write(d.config_path, good, 0o600)


# ---- the contract ------------------------------------------------------------------------


@b.deadline(120)
def test_the_remote_manager_from_create_to_release():
    with Managed(POOL + FAST) as d:
        m = d.manager
        d.warm()
        assert m.http.get(m.base_url + "/health").json()["status"] == "healthy"
        name = m.create_from_pool(sandbox_type="base", meta={"session_ctx_id": "chat/1 ü"})
        info = m.get_info(identity=name)
        assert info["state"] == "running" and info["container_name"] == name and info["session_ctx_id"] == "chat/1 ü"
        assert info["meta"]["session_ctx_id"] == "chat/1 ü" and info["version"] == "base" and info["image"] == "host" and info["sandbox_type"] == "base"
        assert m.get_info(identity=info["session_id"])["container_name"] == name
        assert d.manager.stats()["counts"]["claimed"] == 1
        assert m.get_status(identity=name) == "running" and m.check_health(identity=name) is True
        assert m.list_session_keys() == ["chat/1 ü"] and m.get_session_mapping(session_ctx_id="chat/1 ü") == [name]
        assert m.get_session_mapping(session_ctx_id="another") == []

        out, is_error = m.shell(name, "echo out; pwd; exit 3")
        assert out == {"stdout": "out\n/workspace\n", "returncode": "3"} and not is_error
        out, is_error = m.shell(name, "echo wrong >&2")
        assert out["stderr"] == "wrong\n" and is_error
        out, _ = m.shell(name, "head -c 3000000 /dev/zero | tr '\\0' x; printf '\\377'")
        assert len(out["stdout"]) == 3000001
        assert m.cell(name, "import os\nx = 20\nprint('first')") == ({"stdout": "first\n"}, False)
        assert m.cell(name, "x + 22") == ({"stdout": "Out[2]: 42\n"}, False)
        out, is_error = m.cell(name, "os.write(1, b'raw'); 1 / 0")
        assert out["stdout"] == "raw" and "ZeroDivisionError" in out["stderr"] and is_error
        assert m.cell(name, "!echo from a shell")[0]["stdout"] == "from a shell\n"
        tools = m.list_tools(identity=name)
        assert set(tools["generic"]) == {"run_ipython_cell", "run_shell_command"}
        assert m.list_tools(identity=name, tool_type="browser") == {"browser": {}}

        assert m.stop(identity=name) is True and m.get_status(identity=name) == "exited"
        assert m.start(identity=name) is True and m.get_status(identity=name) == "running"
        assert m.stop(identity=name) is True
        assert m.shell(name, "echo started by use")[0]["stdout"] == "started by use\n"

        # the _async twins are the same
        other = m.create_from_pool_async(sandbox_type="base", meta={"session_ctx_id": "chat/1 ü"})
        assert sorted(m.get_session_mapping_async(session_ctx_id="chat/1 ü")) == sorted([name, other])
        assert m.release_async(identity=other) is True
        # agentscope's own asynchronous client tells positional arguments by the names of its wrapper's parameters
        def told(function, **body):
            return d.good("POST", "/" + function, body)["data"]
        other = told("create_from_pool_async", args="base", kwargs={"session_ctx_id": "s2"})
        assert told("get_session_mapping_async", args="s2") == [other] and told("get_info_async", args=other)["container_name"] == other
        assert not told("call_tool_async", args=other, tool_name="run_shell_command", arguments={"command": "true"})["isError"]
        assert d.post("/release", {"args": other}).status == 400 and d.post("/release_async", {"args": 5}).status == 400
        assert told("release_async", args=other) is True
        # what nobody knows is an error that names it, also where nothing is asked for
        for path, known in (("/cleanup", {}), ("/list_session_keys", {}), ("/release", {"identity": name}),
                            ("/get_session_mapping", {"session_ctx_id": "x"}), ("/call_tool", {"identity": name, "tool_name": "x"}),
                            ("/v1/manager/sessions/x/heartbeat", {}), ("/v1/manager/sessions/x/reap", {}),
                            (f"/v1/manager/sandboxes/{name}/archive", {}), (f"/proxy/{name}/workspace/mkdir", {"path": "x"})):
            for member, shown in (("no.such-member", True), ("no\u001bsuch", False), ("n" * 65, False)):
                r = d.post(path, {**known, member: 1})
                text = r.json.get("detail") or r.json["error"]["message"]
                assert r.status == 400 and "unknown" in text and (f"'{member}'" in text) == shown and "\u001b" not in text, r
        assert m.get_status(identity=name) == "running"
        assert m.get_session_mapping(session_ctx_id="chat/1 ü") == [name]
        d.warm()

        workspace = info["mount_dir"]
        assert os.path.isdir(workspace)
        assert m.release(identity=name) is True and m.release(identity=name) is True
        assert m.get_info(identity=name)["state"] == "released" and m.get_status(identity=name) == "released"
        assert m.list_session_keys() == [] and not os.path.exists(workspace)
        refused(404, m.call_tool, identity=name, tool_name="run_shell_command", arguments={"command": "true"})
        left = b.berth("ps", "-a")
        b.expect(left.out.count("sandbox-") == 2, left, "the pool alone is left")


def test_the_workspace_through_the_proxy():
    with Managed('[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n') as d:
        m = d.manager
        name = m.create(sandbox_type="base")
        put = m.workspace("PUT", name, "file", params={"path": "dir/a.txt"}, data="grüße".encode()).json()
        assert (put["path"], put["name"], put["type"], put["size"]) == ("/workspace/dir/a.txt", "a.txt", "file", 7)
        got = m.workspace("GET", name, "file", params={"path": "/workspace/dir/a.txt", "format": "text"})
        assert got.text == "grüße" and got.headers["Content-Type"].startswith("text/plain")
        big = os.urandom(5_000_000)
        m.workspace("PUT", name, "file", params={"path": "big"}, data=(big[i:i + 65536] for i in range(0, len(big), 65536)))
        assert m.workspace("GET", name, "file", params={"path": "big", "format": "bytes"}).content == big
        files = [("files", ("batch/one", b"1", "text/plain")), ("files", ("batch/two", b"\r\n--2\0", "x/y"))]
        assert [f["path"] for f in m.workspace("POST", name, "files:batch", files=files).json()] == \
            ["/workspace/batch/one", "/workspace/batch/two"]
        assert m.workspace("GET", name, "file", params={"path": "batch/two", "format": "bytes"}).content == b"\r\n--2\0"
        named = m.workspace("POST", name, "files:batch", data=[("paths", "batch/sub/three")],
                            files=[("files", ("three", b"3", "x/y"))]).json()
        assert named[0]["path"] == "/workspace/batch/sub/three"
        listed = m.workspace("GET", name, "list", params={"path": "/workspace"}).json()
        assert sorted(x["name"] for x in listed) == ["batch", "big", "dir"]
        deep = m.workspace("GET", name, "list", params={"path": "/workspace", "depth": 3}).json()
        assert "/workspace/batch/sub/three" in [x["path"] for x in deep]
        assert m.workspace("GET", name, "exists", params={"path": "big"}).json() == {"exists": True}
        moved = m.workspace("POST", name, "move", json={"source": "big", "destination": "new/place"}).json()
        assert moved["path"] == "/workspace/new/place" and moved["size"] == len(big)
        assert m.workspace("GET", name, "exists", params={"path": "big"}).json() == {"exists": False}
        assert m.workspace("POST", name, "mkdir", json={"path": "made"}).json() == {"created": True}
        assert m.workspace("POST", name, "mkdir", json={"path": "made"}).json() == {"created": False}
        assert m.workspace("DELETE", name, "entry", params={"path": "batch"}).status_code == 204
        assert m.workspace("DELETE", name, "entry", params={"path": "batch"}).status_code == 204

        for path in ("/workspace-evil/x", "../etc/passwd", "/etc/passwd", "a/../../etc"):
            for method, what in (("GET", "file"), ("PUT", "file"), ("DELETE", "entry"), ("GET", "exists")):
                assert m.workspace(method, name, what, ok=False, params={"path": path}).status_code == 403, (method, path)
        for status, method, what, kw in (
                (404, "GET", "file", {"params": {"path": "nosuch"}}), (404, "GET", "file", {"params": {"path": "made"}}),
                (409, "PUT", "file", {"params": {"path": "made"}, "data": b"x"}), (404, "GET", "list", {"params": {"path": "no"}}),
                (400, "GET", "file", {}), (400, "GET", "list", {"params": {"path": "x", "depth": 0}}),
                (400, "POST", "move", {"json": {"source": "x"}}), (404, "POST", "move", {"json": {"source": "x", "destination": "y"}}),
                (400, "POST", "files:batch", {"data": b"no form"}), (409, "POST", "mkdir", {"json": {"path": "dir/a.txt"}})):
            got = m.workspace(method, name, what, ok=False, **kw)
            assert got.status_code == status and "detail" in got.json(), (what, kw, got.status_code, got.text)
        assert m.workspace("GET", "nosuch", "exists", ok=False, params={"path": "x"}).status_code == 404
        # what is not a file, or leads to none, is an error before a byte is sent, and exists only if os.path.exists() says so
        m.shell(name, "cd /workspace; mkfifo fifo; ln -s nowhere dangling; ln -s loop loop; ln -s dir todir")
        for path, status, there in (("fifo", 400, True), ("dangling", 404, False), ("loop", 404, False), ("todir", 404, True),
                                    ("x" * 300, 404, False)):
            got = m.workspace("GET", name, "file", ok=False, params={"path": path})
            assert got.status_code == status and "detail" in got.json(), (path, got.status_code, got.text)
            assert m.workspace("GET", name, "exists", params={"path": path}).json() == {"exists": there}, path
            native = d.get(f"/v1/sandboxes/{name}/files?path=/workspace/{path}")
            assert native.status in (400, 404), native
        m.workspace("PUT", name, "file", params={"path": "empty"}, data=b"")
        assert m.workspace("GET", name, "file", params={"path": "empty"}).content == b""
        # it is the directory of the host, and what a hostile link says is said in the sandbox
        m.shell(name, "ln -s /etc/passwd link")
        host = os.path.join(m.get_info(identity=name)["mount_dir"], "link")
        assert os.readlink(host) == "/etc/passwd"
        with open("/etc/passwd") as f:
            assert m.workspace("GET", name, "file", params={"path": "link"}).text != f.read() or b.berth(
                "run", "host", "cat", "/etc/passwd").out == open("/etc/passwd").read()


def test_bad_tokens_wrong_types_and_unknown_ids_are_never_200():
    with Managed('[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n') as d:
        m, alice, bob = d.manager, d.client(daemon.TENANT), d.client(daemon.OTHER)
        for bad in (d.client("wrong" * 8), d.client("")):
            response = bad.http.post(m.base_url + "/list_session_keys", json={})
            assert response.status_code == 401, response
        bare = requests.post(m.base_url + "/create", json={})
        assert bare.status_code == 401
        name = alice.create_from_pool(meta={"session_ctx_id": "hers"})
        for function in ("get_info", "get_status", "start", "stop", "check_health", "list_tools"):
            refused(404, getattr(m, function), identity="nosuch")
            refused(404, getattr(bob, function), identity=name)
            for wrong in (7, None, ["x"], {}, ""):
                refused(404 if wrong == "" else 400, getattr(m, function), identity=wrong)
        refused(404, bob.call_tool, identity=name, tool_name="run_shell_command", arguments={"command": "true"})
        assert bob.workspace("GET", name, "exists", ok=False, params={"path": "x"}).status_code == 404
        assert bob.release(identity=name) is True and alice.get_status(identity=name) == "running", "another's is unknown"
        assert bob.list_session_keys() == [] and bob.get_session_mapping(session_ctx_id="hers") == []
        assert bob.native("sessions/hers/reap", ok=False).status_code == 404
        # an id is its owner's own (tests/attack/test_session_ids.py)
        assert bob.release(identity=bob.create(meta={"session_ctx_id": "hers"})) is True
        assert alice.list_session_keys() == ["hers"] == m.list_session_keys()
        bob.cleanup()
        assert alice.get_status(identity=name) == "running"
        for arguments in ({"sandbox_type": "nosuch"}, {"sandbox_type": 1}, {"meta": 3}, {"meta": {"session_ctx_id": 4}},
                          {"environment": {"A": None}}, {"environment": {"A": 1}}, {"environment": {"A=B": "x"}}, {"memory": "lots"},
                          {"cpus": -1}, {"unknown": 1}, {"storage_path": "x"}, {"meta": {"session_ctx_id": "a\nb"}}, {"name": "../x"}):
            refused(400, m.create, **arguments)
        refused(404, m.call_tool, identity=name, tool_name="nosuch", arguments={})
        refused(400, m.call_tool, identity=name, tool_name="run_shell_command", arguments={"command": 1})
        refused(400, m.call_tool, identity=name, tool_name="run_shell_command", arguments={})
        refused(400, m.add_mcp_servers, identity=name, server_configs={})
        assert m.http.get(m.base_url + "/create").status_code == 405
        assert alice.http.get(m.base_url + "/v1/manager/stats").status_code == 403
        assert m.stats()["states"] == {"running": 1, "released": 1}, "nothing refused has left anything"


FUNCTIONS = {
    "cleanup": {"discard": bool}, "list_session_keys": {}, "create": {"sandbox_type": str, "mount_dir": str, "storage_path": str, "environment": dict,
                                                       "meta": dict, "memory": "size", "cpus": float, "name": str, "owner_pid": int},
    **{f: {"identity": str} for f in ("start", "stop", "get_status", "get_info", "check_health")},
    "release": {"identity": str, "discard": bool}, "list_tools": {"identity": str, "tool_type": str}, "call_tool": {"identity": str, "tool_name": str, "arguments": dict},
    "add_mcp_servers": {"identity": str, "server_configs": dict, "overwrite": bool}, "get_session_mapping": {"session_ctx_id": str},
}
FUNCTIONS["create_from_pool"] = FUNCTIONS["create"]
GOOD = {str: "x", dict: {}, float: 1.0, int: 1, bool: True, "size": "64m"}
WRONG = {str: (True, 7, 1.5, [], ["x"], {}), dict: (True, 7, "x", []), float: (True, "1", [], {}, -1, 0, 1e9),
         int: (True, "1", 1.5, [], {}, -1, 0, 10**30), bool: (1, 0, "true", [], {}), "size": (True, 1.5, [], {}, "", "-1", "1e9", "12 m")}


@b.deadline(120)
def test_each_function_of_the_contract_withstands_a_hostile_client():
    with Managed('[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n') as d:
        alice, bob = d.client(daemon.TENANT), d.client(daemon.OTHER)
        assert len(FUNCTIONS) == 14
        hers = alice.create(meta={"session_ctx_id": "hers"})

        def send(function, body, **headers):
            return bob.http.post(f"{bob.base_url}/{function}", data=body if isinstance(body, (bytes, str)) else json.dumps(body),
                                 headers={"Content-Type": "application/json", **headers}, timeout=60 * b.SLOW)

        def bad(response, *allowed):
            assert response.status_code in (allowed or (400,)) and isinstance(response.json()["detail"], str), \
                (response.request.path_url, response.request.body[:200], response.status_code, response.text[:300])

        for function, fields in FUNCTIONS.items():
            for name in (function, function + "_async"):
                good = {k: GOOD[t] for k, t in fields.items()} if "create" not in name else {}
                if "server_configs" in good:
                    good["server_configs"] = {"mcpServers": {"x": {"command": "true"}}}
                for key, kind in fields.items():
                    for wrong in WRONG[kind]:
                        bad(send(name, {**good, key: wrong}))
                    # what is a string has no NUL in it, nor half a character
                    if kind is str and name != "cleanup":
                        bad(send(name, json.dumps({**good, key: "a\0b"})), 400, 404)
                        bad(send(name, json.dumps({**good, key: "@"}).encode().replace(b"@", b"\xff\xfe")))
                        bad(send(name, json.dumps({**good, key: "@"}).replace("@", "\\ud800")))
                        bad(send(name, {**good, key: "x" * 5000}))
                for key in fields:
                    if key == "identity" or key == "session_ctx_id" or (function, key) in (("call_tool", "tool_name"), ("add_mcp_servers", "server_configs")):
                        bad(send(name, {k: v for k, v in good.items() if k != key}))
                        bad(send(name, {**good, key: None}))
                bad(send(name, '{"identity": "x", "identity": "y"}'))
                for body in ("[]", "null", "7", '"x"', "{", "{}{}", "{'a': 1}", '{"a": NaN}', "[" * 5000, '{"a":' * 5000):
                    bad(send(name, body))
                bad(send(name, '{"identity": "' + "x" * (5 << 20) + '"}'), 413)
                assert send(name, {}, **{"Content-Type": "text/plain"}).status_code in (400, 415)
                assert requests.post(f"{bob.base_url}/{name}", json=good, headers={"Authorization": "Bearer " + daemon.OTHER[:-1] + "0"}).status_code == 401
                assert requests.post(f"{bob.base_url}/{name}", json=good, headers={"Authorization": "Basic " + daemon.OTHER}).status_code == 401
                # another's is told from one that does not exist by nothing
                if "identity" in fields and function != "release":
                    answers = [send(name, {**good, "identity": i}) for i in (hers, "sandbox-" + "0" * 25)]
                    texts = [a.text.replace(hers, "*").replace("sandbox-" + "0" * 25, "*") for a in answers]
                    told = 200 if function in ("start", "stop", "get_status") else 404
                    assert answers[0].status_code == answers[1].status_code == told and texts[0] == texts[1], texts
                    assert told == 404 or not answers[0].json()["data"], texts
        for path in ("../../etc/passwd", "/workspace/../../x", "/workspace-evil", "//etc/passwd", "/workspace/./../root", "a/../../b", "..", "/",
                     "/proc/self/root", "x\0y", "a" * 5000):
            for method, what in (("GET", "file"), ("PUT", "file"), ("DELETE", "entry"), ("GET", "exists"), ("GET", "list")):
                got = alice.workspace(method, hers, what, ok=False, params={"path": path}, **({"data": b"x"} if method == "PUT" else {}))
                assert got.status_code in (400, 403) and "detail" in got.json(), (method, what, path, got.status_code, got.text)
            for body in ({"source": path, "destination": "x"}, {"source": "x", "destination": path}):
                assert alice.workspace("POST", hers, "move", ok=False, json=body).status_code in (400, 403, 404), body
            assert alice.workspace("POST", hers, "mkdir", ok=False, json={"path": path}).status_code in (400, 403), path
        for identity in ("..", "%2e%2e", "%2e%2e%2f%2e%2e", "a%00b", hers + "%2f..", hers + "%0a"):
            with requests.Session() as raw:
                request = requests.Request("GET", bob.base_url, headers={"Authorization": "Bearer " + daemon.TENANT}).prepare()
                request.url = f"{bob.base_url}/proxy/{identity}/workspace/exists?path=x"
                assert raw.send(request, timeout=60).status_code in (400, 404), identity
        assert alice.get_status(identity=hers) == "running" and d.manager.stats()["states"] == {"running": 1}


def test_a_tenant_reaches_its_own_storage_only():
    where = b.tmpdir("store", 0o700)
    with Managed(f'[pool.base]\nimage = "host"\noptions = ["disk=16m"]\n[storage]\nurl = "file:{where}"\n' + FAST) as d:
        alice, bob = d.client(daemon.TENANT), d.client(daemon.OTHER)
        first = alice.create(storage_path="team/project")
        alice.shell(first, "echo secret > file")
        assert alice.release(identity=first) is True
        for path in ("team/project", "tenants/alice/team/project"):
            other = bob.create(storage_path=path)
            assert bob.shell(other, "ls -A; echo bob > file")[0]["stdout"] == ""
            assert bob.release(identity=other) is True
        again = alice.create(storage_path="team/project")
        assert alice.shell(again, "cat file")[0]["stdout"] == "secret\n"
        assert alice.get_info(identity=again)["storage_path"] == "tenants/alice/team/project"
        # archives are berthd's own
        refused(400, d.manager.create, storage_path="archives/" + again)
        # and who may do everything names the whole path
        admin = d.manager.create(storage_path="tenants/bob/team/project")
        assert d.manager.shell(admin, "cat file")[0]["stdout"] == "bob\n"


# ---- limits, pools, sessions --------------------------------------------------------------


def test_limits_hold_and_a_queue_waits():
    config = ('[pool.base]\nimage = "host"\nmemory_limit = "64m"\noptions = ["disk=16m", "disk-inodes=1024"]\n[admission]\nmemory = "200m"\nqueue = 2\n'
              'queue_timeout = "20s"\n[manager]\nmax_sandboxes = 5\n')
    with Managed(config) as d:
        m = d.manager
        names = [m.create() for _ in range(3)]
        refused(429, m.create, memory="300m")
        got = []
        waiter = threading.Thread(target=lambda: got.append(d.client(daemon.TOKEN).create()))
        waiter.start()
        b.wait_for(lambda: m.stats()["admission"]["waiting"] == 1, 10, "one waits")
        m.release(identity=names[0])
        waiter.join(20 * b.SLOW)
        assert len(got) == 1 and m.stats()["admission"]["sandboxes"] == 3
        # many at once: never more than fit
        results, lock = [], threading.Lock()

        def one():
            try:
                r = d.client(daemon.TOKEN).create(memory="1m", cpus=0.01)
            except Failed as e:
                r = e.status
            with lock:
                results.append(r)
        threads = [threading.Thread(target=one) for _ in range(8)]
        for t in threads:
            t.start()
        b.wait_for(lambda: m.stats()["admission"]["sandboxes"] == 5, 10, "full")
        b.wait_for(lambda: len(results) >= 6, 10, "those who found no room")
        m.cleanup()
        for t in threads:
            t.join(30 * b.SLOW)
        assert results.count(429) >= 4 and len([r for r in results if isinstance(r, str)]) + results.count(429) == 8, results


@b.deadline(120)
def test_a_pool_is_kept_filled_checked_and_never_shared():
    """L10: nothing of one lease is seen by the next."""
    with Managed(POOL + FAST) as d:
        m = d.manager
        d.warm()
        first = m.create_from_pool(sandbox_type="base", environment={"LATE": "yes"}, memory="32m", meta={"session_ctx_id": "a"})
        out, _ = m.shell(first, "echo $LATE; touch /root/secret /workspace/secret")
        assert out["stdout"] == "yes\n"
        assert "yes" in m.cell(first, "__import__('os').environ['LATE']")[0]["stdout"]
        record = m.get_info(identity=first)
        stats = b.berth("stats", "--no-stream", "--json", record["container_id"]).out
        assert str(32 << 20) in stats, stats
        m.release(identity=first)
        d.warm()
        for i in range(4):
            again = m.create_from_pool(sandbox_type="base", meta={"session_ctx_id": f"b{i}"})
            assert again != first and m.shell(again, "ls /root /workspace; echo $LATE")[0]["stdout"].split() == ["/root:", "/workspace:"]
            m.release(identity=again)
            d.warm()
        assert m.stats()["states"]["warm"] == 2, "never overfilled"
        # one that died in the pool is not handed out
        warm = [j for j in m.http.get(m.base_url + "/v1/manager/sandboxes").json()["sandboxes"] if j["state"] == "warm"]
        for j in warm:
            pid = json.loads(b.berth("inspect", j["container_id"]).out)["supervisor_pid"]
            os.kill(pid, signal.SIGKILL)
        alive = m.create_from_pool(sandbox_type="base")
        assert alive not in [j["container_name"] for j in warm] and m.shell(alive, "echo ok")[0]["stdout"] == "ok\n"
        # a type that changed is made anew
        d.warm()
        old = {j["container_name"] for j in m.http.get(m.base_url + "/v1/manager/sandboxes").json()["sandboxes"] if j["state"] == "warm"}
        with open(d.config_path) as f:
            text = f.read()
        b.write(d.config_path, text.replace('"64m"', '"48m"'), 0o600)
        d.p.send_signal(signal.SIGHUP)
        fresh = lambda: {j["container_name"] for j in m.http.get(m.base_url + "/v1/manager/sandboxes").json()["sandboxes"]
                         if j["state"] == "warm"}
        b.wait_for(lambda: len(fresh()) == 2 and not fresh() & old, 30, "a pool of the new kind")


@b.deadline(120)
def test_claims_from_a_pool_are_fast():
    with Managed(POOL.replace("size = 2", "size = 12") + FAST) as d:
        m = d.manager
        d.warm(12)
        for i in range(11):
            m.create_from_pool(sandbox_type="base", meta={"session_ctx_id": f"s{i}"})
        median = m.stats()["claim_median_us"]
        assert median > 0


@b.deadline(120)
def test_a_session_is_reaped_and_restored_on_its_workspace():
    with Managed(POOL + FAST + 'heartbeat_timeout = "1h"\nreleased_ttl = "1h"\ndrain_timeout = "200ms"\n') as d:
        m = d.manager
        d.warm()
        lazy = m.create_from_pool(sandbox_type="base", meta={"session_ctx_id": "lazy"})
        busy = m.create_from_pool(sandbox_type="base", meta={"session_ctx_id": "busy"})
        beating = m.create(meta={"session_ctx_id": "beating"})
        m.workspace("PUT", lazy, "file", params={"path": "kept"}, data=b"work")
        m.workspace("PUT", beating, "file", params={"path": "x"}, data=b"")
        # a long call is a sign of life for as long as it takes; heartbeats are, too
        done = []
        call = threading.Thread(target=lambda: done.append(d.client(daemon.TOKEN).shell(busy, "sleep 11; echo through")))
        call.start()
        b.wait_for(lambda: m.stats()["operations"] == 1, 20, "the call")
        m.native("sessions/beating/heartbeat")
        d.reconfigure_text("heartbeat_timeout", '"8s"')
        b.wait_for(lambda: m.native("sessions/beating/heartbeat").ok and m.get_info(identity=lazy)["state"] == "recycled", 30, "reaping")
        assert m.get_status(identity=lazy) == "recycled" and m.get_info(identity=lazy)["recycle_reason"] == "heartbeat_timeout"
        assert m.get_status(identity=beating) == "running"
        call.join(20 * b.SLOW)
        assert done and done[0][0]["stdout"] == "through\n"
        assert m.list_session_keys() and m.get_session_mapping(session_ctx_id="lazy") == [lazy]
        ids = b.berth("ps", "-a", "-q").out
        assert m.get_info(identity=lazy)["container_id"] not in ids
        # the old name goes on working, on the same files
        assert m.shell(lazy, "cat kept")[0]["stdout"] == "work"
        new = m.get_info(identity=lazy)["container_name"]
        assert new != lazy and m.get_session_mapping(session_ctx_id="lazy") == [new]
        assert m.shell(new, "cat kept")[0]["stdout"] == "work"
        m.release(identity=new)
        d.reconfigure_text("released_ttl", '"1ms"')
        b.wait_for(lambda: "released" not in m.stats()["states"] and "replaced" not in m.stats()["states"], 20, "collected records")
        refused(404, m.get_info, identity=new)


def test_a_missing_image_is_fetched_by_the_policy_or_told():
    with busybox_registry() as (r, ref), \
            Managed(f'[registry]\ninsecure = ["{r.host}"]\npull = "never"\n[pool.base]\nimage = "{ref}"\npull = "missing"\nsize = 1\n'
                    f'options = ["disk=16m"]\n[pool.never]\nimage = "{r.host}/other:1"\n[pool.away]\nimage = "{r.host}/away:1"\npull = "missing"\n'
                    + FAST) as d:
        m = d.manager
        d.warm(1)       # by the pool itself
        asked = len(r.seen)
        assert m.shell(m.create_from_pool(), "busybox echo there")[0]["stdout"] == "there\n" and d.manager.stats()["counts"]["claimed"] == 1
        d.warm(1)
        assert len(r.seen) == asked
        # gone from the store in between: who asks makes it come back
        b.berth("image", "rm", "--force", ref, env=d.environment(), ok=True)
        assert m.get_status(identity=m.create_from_pool()) == "running"
        assert len(r.seen) > asked
        for pool, words in (("never", "not in the store"), ("away", "away:1")):
            try:
                m.create(sandbox_type=pool)
                raise AssertionError("made from nothing")
            except Failed as e:
                assert e.status == 404 and words in e.detail, e
        # and the native route, whose policy is the request's
        d.reconfigure("size = 0")       # the pool would fetch it again
        b.wait_for(lambda: m.stats()["pools"]["base"]["size"] == 0 and not {"warm", "creating"} & set(m.stats()["states"]), 20, "no pool")
        body = {"image": ref, "options": {"disk": "16m"}}
        b.berth("rm", "--force", *b.berth("ps", "-aq", env=d.environment()).out.split(), env=d.environment(), ok=True)
        b.berth("image", "rm", "--force", ref, env=d.environment(), ok=True)
        refused_here = d.post("/v1/sandboxes", body)
        assert refused_here.status == 404 and "berth pull" in refused_here.json["error"]["remedy"], refused_here
        assert d.post("/v1/sandboxes", {**body, "pull": "sometimes"}).status == 400
        assert d.post("/v1/sandboxes", {**body, "pull": "missing"}, tcp=True, token=daemon.TENANT).status == 403
        assert d.post("/v1/sandboxes", {**body, "pull": "never"}, tcp=True, token=daemon.TENANT).status == 404
        assert d.post("/v1/sandboxes", {**body, "pull": "missing"}).status == 201


def test_a_session_ends_with_the_process_that_owns_it():
    """Heard by a pidfd: the scan, once an hour, would come too late."""
    with Managed('[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n[session]\nscan_interval = "1h"\n') as d:
        m = d.manager

        def reaped(name):
            b.wait_for(lambda: m.get_info(identity=name)["state"] == "recycled", 15, "reaping")
            assert m.get_info(identity=name)["recycle_reason"] == "owner_died"

        owners = [subprocess.Popen(["sleep", "1000"]) for _ in range(3)]
        names = [m.create(meta={"session_ctx_id": f"owned{i}"}, owner_pid=p.pid) for i, p in enumerate(owners)]
        for name in names:
            assert m.get_status(identity=name) == "running"
        owners[0].kill()        # and nobody waits for it: a zombie has ended
        reaped(names[0])
        # one that ends while nobody watches, and one that ends later
        d.stop(signal.SIGKILL)
        owners[1].kill()
        owners[1].wait()
        d.start()
        b.wait_for(lambda: listens(d.port), 20, "berthd on its port")
        reaped(names[1])
        assert m.get_status(identity=names[2]) == "running"
        owners[2].kill()
        owners[2].wait()
        reaped(names[2])
        owners[0].wait()
        refused(400, m.create, meta={"session_ctx_id": "late"}, owner_pid=owners[2].pid)
        assert m.list_session_keys() == ["owned0", "owned1", "owned2"]


def test_the_command_line_beside_berthd_waits_for_its_operations():
    with Managed(POOL.replace("size = 2", "size = 1") + FAST + 'drain_timeout = "60s"\n') as d:
        m = d.manager
        name, native = m.create(), d.create("native", disk="16m")
        started = os.path.join(m.get_info(identity=name)["mount_dir"], "started")
        results = {}

        def work():
            results["tool"] = m.shell(name, "touch started; while [ ! -e go ]; do sleep 0.05; done; echo done")

        def remove(which):
            results["rm " + which] = b.berth("rm", "--force", which, env=d.environment())

        def fill(path):
            with open(path, "w"):
                pass

        def native_exec():
            c = daemon.UnixConnection(d.socket, 60)
            c.request("POST", f"/v1/sandboxes/{native}/exec", json.dumps({"argv": ["sh", "-c", "touch /tmp/on; while [ ! -e /tmp/go ]; "
                      "do sleep 0.05; done; echo done"]}), {"Content-Type": "application/json"})
            results["exec"] = json.loads(c.getresponse().read())
            c.close()

        threads = [threading.Thread(target=work), threading.Thread(target=native_exec)]
        for t in threads:
            t.start()
        b.wait_for(lambda: os.path.exists(started), 20, "the tool's command")
        b.wait_for(lambda: not b.berth("exec", "native", "test", "-e", "/tmp/on", env=d.environment()).code, 20, "the native command")
        removers = [threading.Thread(target=remove, args=(w,)) for w in (name, "native")]
        for t in removers:
            t.start()
        # it waits for both, and nothing new begins: who comes is told so
        for which in (name, "native"):
            b.wait_for(lambda which=which: "is stopping" in b.berth("exec", which, "true", env=d.environment()).err, 20, "the stop that waits")
        assert not results, results
        fill(os.path.join(os.path.dirname(started), "go"))
        threads[0].join(30 * b.SLOW)
        removers[0].join(30 * b.SLOW)
        assert results["tool"][0]["stdout"] == "done\n" and results["rm " + name].code == 0, results
        # the ledger knows of it
        b.wait_for(lambda: m.get_info(identity=name)["state"] == "released", 20, "the record")
        refused(404, m.call_tool, identity=name, tool_name="run_shell_command", arguments={"command": "true"})
        # what does not end is ended: another that asks without patience
        d.reconfigure_text("drain_timeout", '"0s"')
        b.berth("rm", "--force", "native", env=d.environment(), ok=True)
        threads[1].join(30 * b.SLOW)
        removers[1].join(30 * b.SLOW)
        assert results["exec"]["exit_status"] == 137, results
        # a warm one that goes is made anew, and nobody gets the dead one
        d.warm(1)
        warm = [j["container_name"] for j in m.http.get(m.base_url + "/v1/manager/sandboxes").json()["sandboxes"] if j["state"] == "warm"]
        b.berth("rm", "--force", *warm, env=d.environment(), ok=True)
        b.wait_for(lambda: [j for j in m.http.get(m.base_url + "/v1/manager/sandboxes").json()["sandboxes"]
                            if j["state"] == "warm" and j["container_name"] not in warm], 20, "another warm one")
        assert m.get_status(identity=m.create_from_pool()) == "running"
        # one that is stopped by hand starts again at its next use, one that is removed while stopped is over
        two = [m.create() for _ in range(2)]
        b.berth("stop", *two, env=d.environment(), ok=True)
        assert m.shell(two[0], "echo again")[0]["stdout"] == "again\n"
        b.berth("rm", two[1], env=d.environment(), ok=True)
        b.wait_for(lambda: m.get_info(identity=two[1])["state"] == "released", 20, "the record")


def test_what_a_claim_asked_for_holds_after_a_restart():
    with Managed(POOL + FAST) as d:
        m = d.manager
        d.warm()
        name = m.create_from_pool(environment={"GIVEN": "a b=c", "PATH": "/usr/bin:/bin:/mine"}, memory="96m", cpus=0.5)
        assert d.manager.stats()["counts"]["claimed"] == 1

        def holds():
            out = m.shell(name, 'echo "$GIVEN $PATH"')[0]["stdout"]
            live = d.get(f"/v1/sandboxes/{m.get_info(identity=name)['container_id']}").json
            return out, live["memory_limit_bytes"], live["cpu_limit_milli"]

        expected = ("a b=c /usr/bin:/bin:/mine\n", 96 << 20, 500)
        assert holds() == expected, holds()
        assert m.stop(identity=name) is True and m.start(identity=name) is True
        assert holds() == expected, holds()


def test_a_claim_gets_what_is_stored():
    where = b.tmpdir("store", 0o700)
    with Managed(POOL + f'[storage]\nurl = "file:{where}"\n' + FAST) as d:
        m = d.manager
        d.warm()
        first = m.create_from_pool(storage_path="users/one")
        m.shell(first, "echo kept > file")
        assert m.release(identity=first) is True
        d.warm()
        second = m.create_from_pool(storage_path="users/one")
        assert m.shell(second, "cat file; echo more >> file")[0]["stdout"] == "kept\n"
        assert d.manager.stats()["counts"]["claimed"] == 2
        assert m.release(identity=second) is True
        # half of it is not stored over what is there
        chunks = os.path.join(where, "users/one/chunks")
        for name in os.listdir(chunks):
            os.rename(os.path.join(chunks, name), os.path.join(where, name))
        d.warm()
        refused(422, m.create_from_pool, storage_path="users/one")
        for name in os.listdir(where):
            if len(name) == 97:
                os.rename(os.path.join(where, name), os.path.join(chunks, name))
        d.warm()
        assert m.shell(m.create_from_pool(storage_path="users/one"), "cat file")[0]["stdout"] == "kept\nmore\n"


def test_a_release_waits_for_the_operation_and_then_forces():
    # L11: a delete while a command runs
    with Managed('[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n' + FAST + 'drain_timeout = "1h"\n') as d:
        m = d.manager
        for command, ends_itself in (("sleep 6; echo done", True), ("sleep 1000", False)):
            if not ends_itself:
                d.reconfigure_text("drain_timeout", '"1s"')
            name = m.create()
            result = []

            def call():
                try:
                    result.append(d.client(daemon.TOKEN).shell(name, command)[0]["stdout"])
                except Failed as e:
                    result.append(e.status)
            t = threading.Thread(target=call)
            t.start()
            b.wait_for(lambda: m.stats()["operations"] == 1, 10, "the operation")
            began = time.monotonic()
            assert m.release(identity=name) is True
            assert ends_itself or time.monotonic() - began >= 0.9
            t.join(20 * b.SLOW)
            assert result == ["done\n"] if ends_itself else result[0] in (404, 409, 502), result
            assert m.get_status(identity=name) == "released"


# ---- storage --------------------------------------------------------------------------------


def storage_life(d, keys):
    m = d.manager
    name = m.create(storage_path="team/project", meta={"session_ctx_id": "s"})
    m.shell(name, "mkdir -p a/b && echo text > a/b/f && ln -s b/f a/l && chmod 750 a && head -c 20000000 /dev/urandom > big && sha256sum big > sum")
    assert m.native(f"sandboxes/{name}/upload").ok
    assert "team/project/manifest.json" in keys()
    chunks = {k for k in keys() if k.startswith("team/project/chunks/")}
    m.shell(name, "echo more > new")
    assert m.release(identity=name) is True
    assert chunks < set(keys()), "what was stored is not stored again"
    name = m.create(storage_path="team/project")
    out, _ = m.shell(name, "sha256sum -c sum; cat a/l new; stat -c %a a; rm big sum a/l")
    assert out["stdout"] == "big: OK\ntext\nmore\n750\n", out
    # an archive: nothing of it on the host but its range of ids
    m.shell(name, "echo state > /root/state")
    record = m.get_info(identity=name)
    assert m.native(f"sandboxes/{name}/archive").ok
    assert m.get_status(identity=name) == "archived" and not os.path.exists(record["mount_dir"])
    assert record["container_id"] not in b.berth("ps", "-a", "-q").out
    assert m.stats()["admission"]["sandboxes"] == 0
    assert m.shell(name, "cat /root/state; ls /workspace")[0]["stdout"].split() == ["state", "a", "new"]
    assert m.native(f"sandboxes/{name}/archive").ok and m.start(identity=name) is True
    assert m.native(f"sandboxes/{name}/archive").ok
    assert m.release(identity=name) is True
    assert not [k for k in keys() if k.startswith("archives/")], keys()
    assert not os.listdir(os.path.join(b.root(), "state/manager/archived"))
    return m


@b.deadline(120)
def test_workspaces_and_archives_in_a_folder():
    where = b.tmpdir("storage", 0o700)
    keys = lambda: [os.path.relpath(os.path.join(t, f), where) for t, _, fs in os.walk(where) for f in fs]
    with Managed(f'[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n[storage]\nurl = "file:{where}"\n' + FAST) as d:
        m = storage_life(d, keys)
        for bad in ("../x", "/x", "a//b", "a/./b", "a/", "a b", "a/.berth-part-1"):
            refused(400, m.create, storage_path=bad)
        # what is damaged is not used
        chunk = [k for k in keys() if "/chunks/" in k][0]
        with open(os.path.join(where, chunk), "r+b") as f:
            f.write(b"XXXX")
        refused(422, m.create, storage_path="team/project")
        # nor is a manifest that leads out of the workspace
        for path in ("../out", "/etc/out", "a/../../out"):
            evil = {"version": 1, "entries": [{"path": path, "type": "symlink", "target": "/", "mode": 511, "uid": 0, "gid": 0,
                                               "mtime": 0, "mtime_ns": 0}]}
            b.write(os.path.join(where, "evil/manifest.json"), json.dumps(evil), 0o600)
            refused(422, m.create, storage_path="evil")
        evil = {"version": 1, "entries": [
            {"path": "l", "type": "symlink", "target": b.tmp("outside"), "mode": 511, "uid": 0, "gid": 0, "mtime": 0, "mtime_ns": 0},
            {"path": "l/x", "type": "dir", "mode": 511, "uid": 0, "gid": 0, "mtime": 0, "mtime_ns": 0}]}
        os.mkdir(b.tmp("outside"))
        b.write(os.path.join(where, "evil/manifest.json"), json.dumps(evil), 0o600)
        try:
            m.create(storage_path="evil")
            raise AssertionError("a path through a link was followed")
        except Failed as e:
            assert e.status >= 400 and not os.listdir(b.tmp("outside"))


@b.deadline(120)
def test_a_return_from_the_storage_needs_room_and_a_crash_in_it_leaves_nothing():
    where = b.tmpdir("storage", 0o700)
    config = ('[manager]\nmax_sandboxes = 2\n[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n'
              f'[storage]\nurl = "file:{where}"\n')
    with Managed(config) as d:
        m = d.manager
        name = m.create()
        m.shell(name, "echo kept > f")
        assert m.native(f"sandboxes/{name}/archive").ok
        others = [d.create(), d.create()]
        refused(429, m.shell, name, "cat f")
        assert len(b.berth("ps", "-a", "-q").out.split()) == 2
        d.good("DELETE", f"/v1/sandboxes/{others[0]}?force=true")
        assert m.shell(name, "cat f")[0]["stdout"] == "kept\n"
        # berthd was killed while it fetched the files, and the sandbox is released before they are asked for again
        assert m.native(f"sandboxes/{name}/archive").ok
        part = os.path.join(b.root(), "state/manager/archived", m.get_info(identity=name)["container_id"] + ".part")
        b.write(part + "/half", "half a file")
        assert m.release(identity=name) is True
        assert not os.path.exists(part)


@b.deadline(120)
def test_workspaces_and_archives_in_an_s3_store_that_verifies_signatures():
    with s3server.S3() as s3:
        b.write(b.tmp("credentials"), f"{s3server.ACCESS}\n{s3server.SECRET}\n", 0o600)
        # every third request fails once: it is sent again
        count = iter(range(1 << 30))
        s3.fail = lambda method, path: next(count) % 3 == 1
        config = (f'[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n[storage]\nurl = "s3://bucket/some/prefix"\nendpoint = "{s3.url}"\n'
                  f'region = "{s3server.REGION}"\ncredentials_file = "{b.tmp("credentials")}"\nretry = "5s"\n' + FAST)
        with Managed(config) as d:
            keys = lambda: [k.removeprefix("some/prefix/") for k in list(s3.objects)]
            m = storage_life(d, keys)
            assert s3.unsigned == 0 and all(k.startswith("some/prefix/") for k in s3.objects)
            s3.fail = lambda method, path: method == "PUT"
            name = m.create(storage_path="fails")
            refused(502, m.release, identity=name)
            assert m.get_info(identity=name)["state"] == "error", "a release that failed does not report success"
            s3.fail = None
            assert m.release(identity=name) is True and "fails/manifest.json" in keys()
        b.write(b.tmp("credentials"), f"{s3server.ACCESS}\nwrong\n", 0o600)
        with Managed(config) as d:
            refused(403, d.manager.create, storage_path="team/project")
        assert s3.unsigned > 0


@b.deadline(180)
def test_workspaces_in_s3rver_from_npm():
    # make check installs it, where npm is
    program = os.path.join(b.BUILD, "npm-s3rver/node_modules/.bin/s3rver")
    if not os.path.exists(program):
        raise b.skip(f"no {program}")
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
    probe.close()
    os.makedirs(b.tmp("s3rver"))
    server = subprocess.Popen([program, "-d", b.tmp("s3rver"), "-a", "127.0.0.1", "-p", str(port), "--configure-bucket", "bucket"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        b.wait_for(lambda: listens(port), 30, "s3rver")
        b.write(b.tmp("credentials"), "S3RVER\nS3RVER\n", 0o600)
        with Managed(f'[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n[storage]\nurl = "s3://bucket/p"\nendpoint = "http://127.0.0.1:{port}"\n'
                     f'credentials_file = "{b.tmp("credentials")}"\nretry = "5s"\n' + FAST) as d:
            m = d.manager
            name = m.create(storage_path="a/b")
            m.shell(name, "echo kept > f")
            assert m.release(identity=name) is True
            name = m.create(storage_path="a/b")
            assert m.shell(name, "cat f")[0]["stdout"] == "kept\n"
            assert m.native(f"sandboxes/{name}/archive").ok
            assert m.shell(name, "cat f")[0]["stdout"] == "kept\n"
    finally:
        server.kill()
        server.wait()


@b.deadline(120)
def test_intervals_stop_archive_and_delete():
    where = b.tmpdir("storage", 0o700)
    config = (f'[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n[storage]\nurl = "file:{where}"\n' + FAST +
              'auto_stop = "1s"\nauto_archive = "1h"\nauto_delete = "1h"\n')
    with Managed(config) as d:
        m = d.manager
        name = m.create()
        m.shell(name, "echo x > f")
        b.wait_for(lambda: m.get_status(identity=name) == "exited", 20, "auto-stop")
        d.reconfigure_text("auto_archive", '"1s"')
        b.wait_for(lambda: m.get_status(identity=name) == "archived", 20, "auto-archive")
        assert m.shell(name, "cat f")[0]["stdout"] == "x\n", "get or start"
        d.reconfigure_text("auto_delete", '"2s"')
        b.wait_for(lambda: m.get_status(identity=name) == "released", 30, "auto-delete")


# ---- death ------------------------------------------------------------------------------------


@b.deadline(150)
def test_kill_9_in_a_loop_loses_nothing_that_was_acknowledged():
    # L12: the daemon dies under load, again and again
    with Managed(POOL + FAST) as d:
        acknowledged, gone, stop, lock = {}, set(), threading.Event(), threading.Lock()

        def client(k):
            i = 0
            held = []       # released when there are many, so that a fast machine's clients don't fill the daemon
            while not stop.is_set():
                i += 1
                ctx = f"c{k}-{i}"
                try:
                    m = d.client(daemon.TOKEN)
                    name = m.create_from_pool(sandbox_type="base", meta={"session_ctx_id": ctx})
                    m.workspace("PUT", name, "file", params={"path": "mine"}, data=ctx.encode())
                    with lock:
                        acknowledged[name] = ctx
                    held.append(name)
                    if i % 2 or len(held) > 8:
                        name = held.pop(-1 if i % 2 else 0)
                        m.release(identity=name)
                        with lock:
                            acknowledged.pop(name, None)
                            gone.add(name)
                except (requests.RequestException, Failed):
                    with lock:      # the fate of what was asked last is not known
                        acknowledged.pop(locals().get("name"), None)
                    stop.wait(0.05)
        threads = [threading.Thread(target=client, args=(k,)) for k in range(3)]
        for t in threads:
            t.start()
        for pause in (1.5, 0.7, 1.1, 0.4, 2.0):
            time.sleep(pause)       # the moment of death, at random for what goes on
            d.stop(signal.SIGKILL)
            d.start()
        b.wait_for(lambda: len(acknowledged) + len(gone) >= 5, 20, "some that are acknowledged")
        stop.set()
        for t in threads:
            t.join(60 * b.SLOW)
        m = d.manager
        for name, ctx in acknowledged.items():
            assert m.get_session_mapping(session_ctx_id=ctx) == [name]
            assert m.workspace("GET", name, "file", params={"path": "mine"}).text == ctx
        for name in gone:
            try:
                assert m.get_status(identity=name) == "released", name
            except Failed as e:
                assert e.status == 404
        d.warm()
        # every sandbox on the host has its record
        known = {j["container_id"] for j in m.http.get(m.base_url + "/v1/manager/sandboxes").json()["sandboxes"] if j["state"] != "released"}
        assert set(b.berth("ps", "-a", "-q").out.split()) <= known


def test_a_clean_end_takes_everything_along():
    d = Managed(POOL + FAST + 'on_shutdown = "clean"\n')
    d.warm()
    d.manager.create_from_pool(sandbox_type="base", meta={"session_ctx_id": "x"})
    d.manager.http.close()
    assert d.stop() == 0
    assert b.berth("ps", "-a", "-q").out == ""


# ---- two of them ------------------------------------------------------------------------------


FILL = """
import os, struct
os.makedirs("/srv/d", exist_ok=True)
open("/srv/d/kept", "w").write("work")
os.chown("/srv/d/kept", 1000, 1001)
os.link("/srv/d/kept", "/srv/second")
os.symlink("d/kept", "/srv/link")
os.lchown("/srv/link", 7, 8)
acl = struct.pack("<IHHIHHIHHIHHIHHI", 2, 1, 6, 0xffffffff, 2, 6, 1000, 4, 4, 0xffffffff, 16, 6, 0xffffffff, 32, 4, 0xffffffff)
os.setxattr("/srv/second", "system.posix_acl_access", acl)
open("/workspace/note", "w").write("of the workspace")
os.chown("/workspace/note", 33, 33)
"""
LOOK = """
import os, struct
for p in ("/srv/d/kept", "/srv/second", "/srv/link", "/srv/d", "/workspace/note", "/etc/hosts", "/"):
    s = os.lstat(p)
    print(p, s.st_uid, s.st_gid, oct(s.st_mode), s.st_nlink if "srv/" in p else "")
a = os.getxattr("/srv/d/kept", "system.posix_acl_access")
print([struct.unpack_from("<HHI", a, i) for i in range(4, len(a), 8)])
print(open("/srv/link").read(), open("/workspace/note").read())
"""


@b.deadline(120)
def test_an_archive_comes_back_on_another_host():
    if not shutil.which("redis-server"):
        raise b.skip("no redis-server")
    with Redis() as redis, busybox_registry() as (r, ref):
        config = (f'[store]\nurl = "redis+unix:{redis.path}"\n[storage]\nurl = "file:{b.tmpdir("store", 0o700)}"\n'
                  f'[registry]\ninsecure = ["{r.host}"]\n[pool.host]\nimage = "host"\noptions = ["disk=16m"]\n'
                  f'[pool.box]\nimage = "{ref}"\noptions = ["disk=16m"]\npull = "PULL"\n' + FAST)
        daemons = two_berthds(config.replace("PULL", "missing"), config.replace("PULL", "never"))
        one, two = (d.manager for d in daemons)
        roots = [d.env["BERTH_STATE_DIR"] for d in daemons]

        def archived(i):
            where = roots[i] + "/manager/archived"
            return [x for x in os.listdir(where)] if os.path.isdir(where) else []

        def kept(i):
            return b.berth("ps", "-aq", env=daemons[i].env).out.split()

        name = one.create(sandbox_type="host", meta={"session_ctx_id": "moves"})
        assert one.cell(name, FILL) == ({}, False) or not one.cell(name, "1")[1]
        seen = one.cell(name, LOOK)[0]["stdout"]
        assert "/srv/d/kept 1000 1001" in seen and "work of the workspace" in seen, seen
        first = one.get_info(identity=name)
        assert one.native(f"sandboxes/{name}/archive").ok and two.get_status(identity=name) == "archived"
        assert archived(0) == [first["container_id"]] and not kept(0)
        # by the other, which asks for it
        assert two.cell(name, LOOK) == ({"stdout": seen}, False)
        moved = two.get_info(identity=name)
        assert moved["container_id"] == first["container_id"] and moved["mount_dir"].startswith(roots[1])
        assert moved["berth"]["host"] == "host1" and kept(1) == [first["container_id"]] and not kept(0)
        with open(f"{roots[1]}/sandboxes/{moved['container_id']}/range") as f:
            base = int(f.read())
        assert base >= 2000224256 + 65536 * 1024 and not archived(1)
        b.wait_for(lambda: not archived(0), 20, "the range of ids given back")
        assert not os.path.exists(first["mount_dir"])
        # a stop and a start later it is the same, and back again it has what was done there
        assert two.stop(identity=name) is True and two.cell(name, LOOK + "\nn = open('/srv/more', 'w').write('b')") == ({"stdout": seen}, False)
        assert two.native(f"sandboxes/{name}/archive").ok
        assert one.cell(name, LOOK + "\nprint(open('/srv/more').read())") == ({"stdout": seen + "b\n"}, False)
        b.wait_for(lambda: not archived(1) and not kept(1), 20, "nothing of it there")
        assert one.release(identity=name) is True

        # an image that is not there is told, with the remedy; then it is there
        name = one.create(sandbox_type="box")
        assert one.shell(name, "rm /bin/busybox.gone 2>/dev/null; echo mine > /root-file; busybox ls /")[1] is False
        assert one.native(f"sandboxes/{name}/archive").ok
        refused(404, two.start, identity=name)
        told = two.http.post(two.base_url + "/start", json={"identity": name}).json()
        detail = told["detail"]
        assert told["data"] is False, told
        assert ref in detail and "missing on this host" in detail and "berth pull" in detail, detail
        assert two.get_status(identity=name) == "archived"
        b.wait_for(lambda: not archived(1), 20, "nothing left of the try")
        b.berth("pull", ref, env=daemons[1].environment(), ok=True)
        assert two.shell(name, "busybox cat /root-file")[0]["stdout"] == "mine\n"
        assert two.native(f"sandboxes/{name}/archive").ok
        # a release by the one that never had it
        assert one.release(identity=name) is True
        b.wait_for(lambda: not archived(0) and not archived(1), 20, "all ranges of ids given back")
        for d in daemons:
            d.manager.cleanup()
            d.manager.http.close()
            assert d.stop() == 0
            assert b.berth("ps", "-aq", env=d.env).out == ""
        gc.collect()


def test_readiness_is_that_of_the_store():
    if not shutil.which("redis-server"):
        raise b.skip("no redis-server")
    with Redis() as redis, Managed(f'[store]\nurl = "redis+unix:{redis.path}"\nretry = "500ms"\n') as d:
        probes = ("/readyz", "/health", "/healthz")
        # (a busy machine's redis-server may take longer than that for one answer)
        b.wait_for(lambda: [d.get(p).status for p in probes] == [200, 200, 200], what="readiness")
        redis.stop()
        replies = [d.get(p) for p in probes]
        assert [r.status for r in replies] == [503, 503, 200], replies
        assert replies[0].json["error"]["code"] == "network" and "store" in replies[0].json["error"]["message"], replies
        assert "store" in replies[1].json["detail"], replies
        refused(502, d.manager.list_session_keys)
        redis.start()
        b.wait_for(lambda: [d.get(p).status for p in probes] == [200, 200, 200], 20, "the store, which loads what it had")


# make claims: as many as the issue wants, which take minutes
CLAIMS = int(os.environ.get("BERTH_CLAIMS", "0"))


@b.deadline(150 + CLAIMS // 10)
def test_two_berthds_share_one_redis_and_no_sandbox_is_claimed_twice():
    if not shutil.which("redis-server"):
        raise b.skip("no redis-server")
    with Redis() as redis:
        daemons = two_berthds(*[POOL.replace("size = 2", "size = 6") + f'[store]\nurl = "redis+unix:{redis.path}"\n' + FAST] * 2)
        roots = [d.env for d in daemons]
        for d in daemons:
            d.warm(6)
        # both claim from one pool of twelve, and Redis goes away in between
        claimed, lock = [], threading.Lock()

        def warm_claims():
            return sum(d.manager.stats()["counts"]["claimed"] for d in daemons)

        def claim(d, n):
            m = d.client(daemon.TOKEN)
            for _ in range(n):
                name = m.create_from_pool(sandbox_type="base", meta={"session_ctx_id": f"{d.port}-{time.monotonic_ns()}"})
                with lock:
                    claimed.append((d, name))

        def claim_many(d):
            m = d.client(daemon.TOKEN)
            while warm_claims() < CLAIMS:       # which reads every record there is, so not at each claim
                for _ in range(20):
                    name = m.create_from_pool(sandbox_type="base", meta={"session_ctx_id": "many"})
                    with lock:
                        many.append(name)
                    assert m.release(identity=name) is True

        many = []
        threads = [threading.Thread(target=claim_many, args=(d,)) for d in daemons for _ in range(2)]
        for t in threads if CLAIMS else ():
            t.start()
        while CLAIMS and any(t.is_alive() for t in threads):
            # thrice on the way it goes and comes back, and no call fails for that
            for part in range(1, 4):
                b.wait_for(lambda: warm_claims() >= part * CLAIMS // 4 or not any(t.is_alive() for t in threads), CLAIMS / 10 + 60, "claims")
                redis.stop()
                redis.start()
            for t in threads:
                t.join()
        if CLAIMS:
            print(f"{warm_claims()} claims, {len(many)} sandboxes")
            assert len(many) == len(set(many)) and warm_claims() >= CLAIMS, "a double claim"
            for d in daemons:
                d.warm(6)
        already = warm_claims() + sum(d.manager.stats()["counts"]["claim_missed"] for d in daemons)
        threads = [threading.Thread(target=claim, args=(d, 5)) for d in daemons for _ in range(2)]
        for t in threads:
            t.start()
        b.wait_for(lambda: len(claimed) >= 4, 30, "some claims")
        redis.stop()
        redis.start()
        for t in threads:
            t.join(60 * b.SLOW)
        names = [name for _, name in claimed]
        assert len(names) == 20 == len(set(names)), "a double claim"
        counts = [d.manager.stats()["counts"] for d in daemons]
        assert sum(c["claimed"] for c in counts) + sum(c["claim_missed"] for c in counts) == already + 20
        # each drives what either has made, and both see all sessions
        for d, name in claimed[:4]:
            for any_of_them in daemons:
                assert any_of_them.manager.shell(name, "echo here")[0]["stdout"] == "here\n"
        # also when it is stopped: with the ids and the paths of whose it is
        for i, (d, name) in enumerate(claimed[:4]):
            assert d.manager.stop(identity=name) is True
            for any_of_them in daemons[::-1] if i % 2 else daemons:
                assert any_of_them.manager.shell(name, "id -u; cat /workspace/kept; echo kept > /workspace/kept")[0]["stdout"].startswith("0\n")
            assert d.manager.shell(name, "cat /workspace/kept")[0]["stdout"] == "kept\n"
        assert len(daemons[0].manager.list_session_keys()) == 20 == len(daemons[1].manager.list_session_keys())
        for i, (d, name) in enumerate(claimed):
            assert daemons[i % 2].manager.release(identity=name) is True
        for d in daemons:
            d.reconfigure("size = 0")
        for d in daemons:
            b.wait_for(lambda: not d.manager.stats()["states"].get("warm"), 30, "empty pools")
            assert d.manager.stats()["admission"]["sandboxes"] == 0 or b.wait_for(
                lambda: d.manager.stats()["admission"]["sandboxes"] == 0, 10, "places given back by the other")
        for d, env in zip(daemons, roots):
            d.manager.http.close()
            assert d.stop() == 0
            assert b.berth("ps", "-a", "-q", env=env).out == ""
