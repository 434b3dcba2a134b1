# SPDX-License-Identifier: Apache-2.0
"""
One tenant against another's over every face of berthd: E2B's ids, keys, signed addresses, watchers, processes and contexts,
MCP's sessions and sandboxes, run_code (S19).
"""
import base64
import glob
import hashlib
import json
import urllib.parse

import berthtest as b
from daemon import OTHER, TENANT, Daemon
from e2bwire import Client

COST = 10
FS = "/filesystem.Filesystem/"
UNARY = [("POST", FS + "Stat", {"path": "/srv/secret"}), ("POST", FS + "ListDir", {"path": "/srv"}),
         ("POST", FS + "MakeDir", {"path": "/srv/by-bob"}), ("POST", FS + "Remove", {"path": "/srv/secret"}),
         ("POST", FS + "Move", {"source": "/srv/secret", "destination": "/srv/moved"}), ("POST", FS + "CreateWatcher", {"path": "/srv"}),
         ("POST", "/process.Process/List", {}), ("GET", "/files?path=/srv/secret", None), ("POST", "/files?path=/srv/secret", b"of bob"),
         ("POST", "/execute", {"code": "1"}), ("GET", "/contexts", None), ("POST", "/contexts", {"language": "python"}), ("GET", "/health", None)]
STREAMS = [("process.Process/Start", {"process": {"cmd": "cat", "args": ["/srv/secret"]}}), ("filesystem.Filesystem/WatchDir", {"path": "/srv"})]


def signed(key, path, operation="read"):
    digest = base64.b64encode(hashlib.sha256(f"{path}:{operation}::{key}".encode()).digest()).decode().rstrip("=")
    return "/files?" + urllib.parse.urlencode({"path": path, "signature": "v1_" + digest})


def test_S19_a_key_of_a_sandbox_whose_owner_cannot_be_read_is_nobodys():
    with Daemon(tcp=True) as d:
        alice = Client(d).create()
        alice.run("echo of alice > /srv/secret")
        (owner,) = glob.glob(f"{b.root()}/*/sandboxes/{alice.id}/owner.json")
        with open(owner, "r+", encoding="ascii") as f:
            text = f.read()
            assert json.loads(text)["name"], text
            for damaged in ("{}", "[", '{"name": 1}'):
                f.seek(0)
                f.truncate()
                f.write(damaged)
                f.flush()
                r = alice.ask("GET", "/files?path=/srv/secret", check=False)
                assert r.status == 401, (damaged, r)
            f.seek(0)
            f.truncate()
            f.write(text)
            f.flush()
        assert alice.ask("GET", "/files?path=/srv/secret").body == b"of alice\n"


def test_S19_a_tenants_e2b_is_closed_to_another():
    with Daemon(tcp=True) as d:
        alice, bob = Client(d).create(), Client(d, OTHER).create()
        alice.run("echo of alice > /srv/secret")
        bob.run("echo of bob > /srv/secret")
        alice.open("process.Process/Start", process={"cmd": "sleep", "args": ["1000"]})
        process = alice.call("process.Process/List").json["processes"][0]["pid"]
        watcher = alice.call(FS[1:] + "CreateWatcher", path="/srv").json["watcherId"]
        context = alice.ask("POST", "/contexts", {"language": "python"}).json["id"]
        code = bob.headers["X-Access-Token"][len(bob.id):]
        about = UNARY + [("POST", FS + "GetWatcherEvents", {"watcherId": watcher}), ("POST", FS + "RemoveWatcher", {"watcherId": watcher}),
                         ("POST", "/process.Process/SendSignal", {"process": {"pid": process}, "signal": "SIGNAL_SIGKILL"}),
                         ("POST", "/execute", {"code": "1", "context_id": context}), ("DELETE", f"/contexts/{context}", None)]
        for who, key, refused in (("his key", bob.headers["X-Access-Token"], 502), ("his token", "e2b_" + OTHER, 502),
                                  ("her id before his token", alice.id + ".e2b_" + OTHER, 502), ("her id before his code", alice.id + code, 401)):
            bob.headers.update({"X-Access-Token": key, "E2b-Sandbox-Id": alice.id})
            for method, path, body in about:
                headers = {"Content-Type": "application/octet-stream"} if isinstance(body, bytes) else {}
                r = bob.ask(method, path, body, check=False, **headers)
                assert r.status == refused, (who, r)
            for name, body in STREAMS:
                if refused == 502:
                    r = bob.open(name, **body)[1].read()
                    assert b"not_found" in r and b"of alice" not in r, (who, r)
        # his own sandbox has none of her numbers
        bob.headers.update({"X-Access-Token": bob.id + code, "E2b-Sandbox-Id": bob.id})
        for method, path, body in about[len(UNARY):]:
            assert bob.ask(method, path, body, check=False).status == 404, path
        # what his key signs is his file; what her id with his code signs is nobody's
        assert d.request("GET", signed(bob.id + code, "/srv/secret"), tcp=True).body == b"of bob\n"
        assert d.request("GET", signed(alice.id + code, "/srv/secret"), tcp=True).status == 401
        assert d.request("GET", signed("e2b_" + OTHER, "/srv/secret"), tcp=True).status == 401
        for method, path, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/pause", {}), ("POST", "/timeout", {"timeout": 1}),
                                   ("POST", "/connect", {"timeout": 60}), ("GET", "/metrics", None)):
            assert Client(d, OTHER).ask(method, f"/sandboxes/{alice.id}{path}", body).status == 404, path
        assert alice.run("cat /srv/secret; ls /srv")[0] == b"of alice\nsecret\n"
        assert process in [p["pid"] for p in alice.call("process.Process/List").json["processes"]]


def rpc(d, token, method, params, session=None):
    headers = {"Mcp-Session-Id": session} if session else {}
    return d.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers=headers, token=token, tcp=True)


def tool(d, token, session, name, **arguments):
    return rpc(d, token, "tools/call", {"name": name, "arguments": arguments}, session)


def test_S19_a_tenants_mcp_and_programs_are_closed_to_another():
    first = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    with Daemon(tcp=True) as d:
        hers, his = (rpc(d, token, "initialize", first).headers["mcp-session-id"] for token in (TENANT, OTHER))
        assert tool(d, TENANT, hers, "run_command", command="echo of alice > /srv/secret").status == 200
        box = d.good("GET", "/v1/sandboxes", token=TENANT)["sandboxes"][0]
        shown = [line.split()[-1] for line in b.berth("ps", ok=True).out.splitlines()]
        assert shown == ["COMMAND", "mcp"], shown
        assert tool(d, OTHER, hers, "run_command", command="cat /srv/secret").status == 404
        assert d.request("DELETE", "/mcp", headers={"Mcp-Session-Id": hers}, token=OTHER, tcp=True).status == 404
        for name in (box["id"], box.get("name") or box["id"], "../" + box["id"]):
            for one, arguments in (("run_command", {"command": "cat /srv/secret"}), ("read_file", {"path": "/srv/secret"}),
                                   ("write_file", {"path": "/srv/secret", "content": "x"}), ("list_directory", {"path": "/srv"}),
                                   ("run_code", {"code": "print(1)", "language": "python"}), ("sandbox_remove", {})):
                r = tool(d, OTHER, his, one, sandbox=name, **arguments)
                assert "error" in r.json or r.json["result"].get("isError"), (one, name, r)
                assert b"of alice" not in r.body, r
        r = rpc(d, OTHER, "resources/read", {"uri": f"sandbox://{box['id']}/srv/secret"}, his)
        assert "error" in r.json, r
        # a program of run_code is in a sandbox of its own: whatever its files are named, they are there
        code = "import os; print(os.path.exists('/srv/secret'), os.listdir('.'))"
        for files in ({"../../srv/secret": ""}, {"/etc/passwd": "eA=="}, {"a/../../x": "eA=="}):
            r = d.post("/run_code", {"code": code, "language": "python", "files": files, "fetch_files": ["/srv/secret", "../secret"]}, token=OTHER, tcp=True)
            assert b"of alice" not in r.body, r
        assert b"of alice" in tool(d, TENANT, hers, "run_command", command="cat /srv/secret").body
        for session, token in ((hers, TENANT), (his, OTHER)):
            assert d.request("DELETE", "/mcp", headers={"Mcp-Session-Id": session}, token=token, tcp=True).status == 204
        b.wait_for(lambda: not d.good("GET", "/v1/sandboxes")["sandboxes"], 30, "the end of the sessions' sandboxes")
