# SPDX-License-Identifier: Apache-2.0
"""berthd's /mcp: sessions, the revision without them, tenants, streams, limits and the end."""
import http.client
import json
import signal
import socket

import berthtest as b
from daemon import OTHER, TENANT, TOKEN, Daemon

COST = 15
VERSION = "io.modelcontextprotocol/protocolVersion"
META = {VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def message(method, params=None, id=1):
    m = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        m["id"] = id
    if params is not None:
        m["params"] = params
    return m


def call(tool, id=1, meta=None, **arguments):
    params = {"name": tool, "arguments": arguments}
    if meta:
        params["_meta"] = meta
    return message("tools/call", params, id)


class Client:
    """A client with a session."""

    def __init__(self, d, token=TENANT):
        self.d, self.token = d, token
        r = self.post(message("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}))
        assert r.status == 200 and r.json["result"]["serverInfo"]["name"] == "berth", r
        self.session = r.headers["mcp-session-id"]
        assert self.post(message("notifications/initialized", id=None)).status == 202

    session = None

    def post(self, body, **headers):
        if self.session:
            headers.setdefault("Mcp-Session-Id", self.session)
        return self.d.post("/mcp", body, headers=headers, token=self.token, tcp=True)

    def call(self, tool, **arguments):
        r = self.post(call(tool, **arguments))
        assert r.status == 200 and "result" in r.json, r
        return r.json["result"]


def modern(d, body, token=TENANT, **headers):
    given = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": body["method"]}
    params = body.get("params", {})
    name = params.get("name", params.get("uri"))
    if name:
        given["Mcp-Name"] = name
    for key, value in headers.items():
        given.pop(key.replace("_", "-"), None)
        if value is not None:
            given[key.replace("_", "-")] = value
    return d.post("/mcp", body, headers=given, token=token, tcp=True)


def sandboxes():
    return json.loads(b.berth("ps", "-a", "--json", ok=True).out)


def test_a_session_has_sandboxes_of_its_own_until_it_is_deleted():
    with Daemon(tcp=True) as d:
        one, two = Client(d), Client(d)
        one.call("write_file", path="/tmp/x", content="1")
        assert one.call("read_file", path="/tmp/x")["content"][0]["text"] == "1"
        assert two.call("read_file", path="/tmp/x")["isError"], "two sessions share a sandbox"
        assert len(sandboxes()) == 2
        seen = d.good("GET", "/v1/sandboxes", token=TENANT, tcp=True)
        assert len(seen["sandboxes"]) == 2, seen
        assert d.good("GET", "/v1/sandboxes", token=OTHER, tcp=True)["sandboxes"] == []
        assert d.request("DELETE", "/mcp", headers={"Mcp-Session-Id": one.session}, token=TENANT, tcp=True).status == 204
        b.wait_for(lambda: len(sandboxes()) == 1)
        assert one.post(message("tools/list")).status == 404
        assert two.post(message("tools/list")).status == 200


def test_a_session_is_nobody_elses():
    with Daemon(tcp=True) as d:
        mine = Client(d)
        mine.call("run_command", command="true")
        for token in (OTHER, TOKEN):
            r = d.post("/mcp", call("run_command", command="id"), headers={"Mcp-Session-Id": mine.session}, token=token, tcp=True)
            assert r.status == 404, r
            r = d.request("DELETE", "/mcp", headers={"Mcp-Session-Id": mine.session}, token=token, tcp=True)
            assert r.status == 404, r
        assert d.post("/mcp", message("ping"), tcp=True).status == 401
        for bad in ("", "x", "0" * 32, mine.session + "0"):
            assert mine.post(message("ping"), **{"Mcp-Session-Id": bad}).status in (400, 404), bad
        box = sandboxes()[0]["id"]
        other = Client(d, OTHER)
        assert other.call("run_command", command="id", sandbox=box)["isError"], "another tenant's sandbox was used"


def test_requests_without_a_session_share_one_sandbox_of_their_tenant():
    with Daemon(tcp=True) as d:
        assert modern(d, message("server/discover", {"_meta": META})).json["result"]["supportedVersions"] == ["2026-07-28"]
        modern(d, call("write_file", meta=META, path="/tmp/x", content="1"))
        r = modern(d, call("read_file", meta=META, id="other", path="/tmp/x"))
        assert r.json["id"] == "other" and r.json["result"]["content"][0]["text"] == "1", r
        assert "error" not in r.json and modern(d, call("read_file", meta=META, path="/tmp/x"), token=OTHER).json["result"]["isError"]
        assert len(sandboxes()) == 2
        m = message("tools/list", {"_meta": META})
        for headers, code in (({"MCP_Protocol_Version": None}, -32020), ({"MCP_Protocol_Version": "2025-11-25"}, -32020),
                              ({"Mcp_Method": "tools/call"}, -32020), ({"Mcp_Method": None}, -32020)):
            r = modern(d, m, **headers)
            assert r.status == 400 and r.json["error"]["code"] == code, (headers, r)
        assert modern(d, call("read_file", meta=META, path="/x"), Mcp_Name="other").json["error"]["code"] == -32020
        r = modern(d, message("tools/list", {"_meta": dict(META, **{VERSION: "v9"})}), MCP_Protocol_Version="v9")
        assert r.status == 400 and r.json["error"]["code"] == -32022, r
        assert modern(d, message("tools/list", {"_meta": {}})).json["error"]["code"] == -32602
        for method in ("initialize", "ping", "nope"):
            r = modern(d, message(method, {"_meta": META}))
            assert r.status == 404 and r.json["error"]["code"] == -32601, r


def test_malformed_requests_are_refused():
    with Daemon(tcp=True) as d:
        c = Client(d)
        for body in ("{", "[]", "1"):
            r = d.post("/mcp", body, headers={"Content-Type": "application/json", "Mcp-Session-Id": c.session}, token=TENANT, tcp=True)
            assert r.status == 400 and r.json["error"]["code"] in (-32700, -32600), r
        for body in ({}, {"jsonrpc": "2.0", "id": {}, "method": "ping"}, {"jsonrpc": "2.0", "id": 1}):
            assert c.post(body).status == 400, body
        assert d.get("/mcp", token=TENANT, tcp=True).status == 405
        assert d.request("DELETE", "/mcp", token=TENANT, tcp=True).status == 400
        assert d.post("/mcp", message("tools/list"), token=TENANT, tcp=True).status == 400
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            assert c.post(message("ping"), **headers).status == 403, headers
        assert c.post(message("ping")).json["result"] == {}


def test_progress_comes_as_a_stream_before_the_answer():
    with Daemon(tcp=True) as d:
        c = Client(d)
        m = call("run_command", id=7, meta={"progressToken": "p"}, command="for i in 1 2 3; do echo line $i; sleep 0.4; done")
        r = c.post(m, Accept="application/json, text/event-stream")
        assert r.headers["content-type"] == "text/event-stream", r
        events = [json.loads(line[6:]) for line in r.body.decode().splitlines() if line.startswith("data: ")]
        assert [e["params"]["progressToken"] for e in events[:-1]] == ["p"] * (len(events) - 1) and len(events) > 1, events
        assert events[-1]["id"] == 7 and events[-1]["result"]["structuredContent"]["exit_status"] == 0, events


def processes(c):
    return c.call("run_command", command="cat /proc/[0-9]*/comm")["content"][0]["text"]


def test_a_notification_cancels_and_so_does_the_end_of_a_connection_without_session():
    with Daemon(tcp=True) as d:
        c = Client(d)
        c.call("run_command", command="true")
        raw = http.client.HTTPConnection("127.0.0.1", d.port, timeout=30 * b.SLOW)
        headers = {"Content-Type": "application/json", "Authorization": "Bearer " + TENANT, "Mcp-Session-Id": c.session}
        raw.request("POST", "/mcp", json.dumps(call("run_command", id=5, command="sleep 1000")), headers)
        b.wait_for(lambda: "sleep" in processes(c))
        assert c.post(message("notifications/cancelled", {"requestId": 5}, id=None)).status == 202
        b.wait_for(lambda: "sleep" not in processes(c))
        raw.close()

        def there():
            return modern(d, call("run_command", meta=META, command="cat /proc/[0-9]*/comm")).json["result"]["content"][0]["text"]
        raw = http.client.HTTPConnection("127.0.0.1", d.port, timeout=30 * b.SLOW)
        body = call("run_command", meta=META, command="sleep 1000")
        raw.request("POST", "/mcp", json.dumps(body), {"Content-Type": "application/json", "Authorization": "Bearer " + TENANT,
                    "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "run_command"})
        b.wait_for(lambda: "sleep" in there())
        raw.sock.shutdown(socket.SHUT_RDWR)
        raw.close()
        b.wait_for(lambda: "sleep" not in there())


def test_sessions_of_a_tenant_are_bounded():
    with Daemon(tcp=True) as d:
        clients = [Client(d) for _ in range(8)]
        for c in clients:
            c.call("sandbox_list")
        r = d.post("/mcp", message("initialize", {"protocolVersion": "2025-11-25"}), token=TENANT, tcp=True)
        assert r.status == 429 and "8 sessions of MCP" in r.json["error"]["message"], r
        Client(d, OTHER)
        d.request("DELETE", "/mcp", headers={"Mcp-Session-Id": clients[0].session}, token=TENANT, tcp=True)

        def again():
            return d.post("/mcp", message("initialize", {"protocolVersion": "2025-11-25"}), token=TENANT, tcp=True).status == 200
        b.wait_for(again)


def test_a_tenants_limits_hold():
    with Daemon('[tenant]\nsandboxes = 1\n', tcp=True) as d:
        one, two = Client(d), Client(d)
        assert not one.call("run_command", command="true")["isError"]
        assert two.call("run_command", command="true")["isError"], "a second sandbox was made"


def test_clients_that_leave_without_a_word_keep_nobody_out():
    with Daemon(tcp=True) as d:
        works = Client(d)
        assert not works.call("run_command", command="echo 1 > /root/f")["isError"]
        left = [Client(d) for _ in range(20)]
        assert works.call("read_file", path="/root/f")["content"][0]["text"].strip() == "1", "a session with a sandbox was ended"
        assert left[0].post(message("tools/list")).status == 404, "the oldest session is still there"
        assert left[-1].post(message("tools/list")).status == 200, "the newest session is not there"


def test_blanks_around_a_field_are_none_of_it_and_own_pages_are_no_foreigners():
    with Daemon(tcp=True) as d:
        assert modern(d, message("tools/list", {"_meta": META}), **{"Mcp-Method": " tools/list \t"}).status == 200
        for origin, status in ((f"http://127.0.0.1:{d.port}", 200), (f"http://127.0.0.1:{d.port + 1}", 403), ("http://evil.test", 403),
                               ("null", 403)):
            assert modern(d, message("tools/list", {"_meta": META}), Origin=origin).status == status, origin


def test_what_sessions_made_goes_with_berthd_however_it_ends():
    for how in (signal.SIGTERM, signal.SIGKILL):
        with Daemon(tcp=True) as d:
            Client(d).call("run_command", command="true")
            modern(d, call("run_command", meta=META, command="true"))
            assert len(sandboxes()) == 2
            d.stop(how)
            b.wait_for(lambda: sandboxes() == [], 30, f"the end of what sessions made after {how}")
            d.start()   # a berthd that was killed leaves its socket to the next one
