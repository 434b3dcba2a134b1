# SPDX-License-Identifier: Apache-2.0
"""MCP servers in a sandbox: what was acknowledged is there until the sandbox is released, whatever dies meanwhile."""
import contextlib
import json
import signal
import socket
import threading

import berthtest as b
import daemon
import netlab
from managed import BOX, FAST, Failed, Managed, listens, refused

COST = 19
MCP = r'''
import json, sys
for line in sys.stdin:
    q = json.loads(line)
    if q["method"] == "initialize":
        r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
    elif q["method"] == "tools/list":
        r = {"tools": [{"name": "add", "description": "adds", "inputSchema": {"type": "object"}}]}
    elif q["method"] == "tools/call":
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}), flush=True)
        a = q["params"]["arguments"]
        r = {"content": [{"type": "text", "text": str(a["x"] + a["y"])}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": q["id"], "result": r}), flush=True)
'''


def test_mcp_servers_in_the_sandbox():
    with Managed(BOX) as d:
        m = d.manager
        name = m.create()
        m.workspace("PUT", name, "file", params={"path": "server.py"}, data=MCP.encode())
        config = {"mcpServers": {"sums": {"command": "python3", "args": ["/workspace/server.py"]}}}
        assert m.add_mcp_servers(identity=name, server_configs=config) == ["sums"]
        tools = m.list_tools(identity=name)
        assert tools["sums"]["add"]["json_schema"]["function"]["description"] == "adds"
        result = m.call_tool(identity=name, tool_name="add", arguments={"x": 2, "y": 3})
        assert result["content"][0]["text"] == "5" and result["isError"] is False
        m.shell(name, "pkill -f server.py || kill $(grep -l server.py /proc/[0-9]*/cmdline | cut -d/ -f3) 2>/dev/null")
        try:
            m.call_tool(identity=name, tool_name="add", arguments={"x": 1, "y": 1})
        except Failed as e:
            assert e.status == 404, e
        assert m.call_tool(identity=name, tool_name="add", arguments={"x": 1, "y": 1})["content"][0]["text"] == "2"
        refused(404, m.add_mcp_servers, identity=name, server_configs={"mcpServers": {"x": {"command": "nosuch-program"}}})


def config(command="python3", **more):
    return {"mcpServers": {"sums": {"command": command, "args": ["/workspace/server.py"], **more}}}


def add(m, name, x, y):
    result = m.call_tool(identity=name, tool_name="add", arguments={"x": x, "y": y})
    assert result["isError"] is False, result
    return result["content"][0]["text"]


@b.deadline(120)
def test_a_server_that_was_acknowledged_outlives_stops_and_berthd():
    with Managed(BOX + FAST) as d:
        m = d.manager
        name = m.create(meta={"session_ctx_id": "s"})
        m.workspace("PUT", name, "file", params={"path": "server.py"}, data=MCP.encode())
        assert m.add_mcp_servers(identity=name, server_configs=config(env={"KEY": "very-secret"})) == ["sums"]
        assert add(m, name, 1, 2) == "3"
        assert m.stop(identity=name) is True and m.start(identity=name) is True
        assert add(m, name, 2, 2) == "4"
        assert m.stop(identity=name) is True and m.start(identity=name) is True
        assert set(m.list_tools(identity=name)) == {"generic", "sums"} and "add" in m.list_tools(identity=name)["sums"]
        d.stop(signal.SIGKILL)
        d.start()
        b.wait_for(lambda: listens(d.port), 20, "berthd on its port")
        assert "add" in m.list_tools(identity=name, tool_type="sums")["sums"]
        d.stop(signal.SIGKILL)
        d.start()
        b.wait_for(lambda: listens(d.port), 20, "berthd on its port")
        assert add(m, name, 2, 3) == "5"
        # it is there already, and stays
        assert m.add_mcp_servers(identity=name, server_configs=config("nosuch-program")) == [] and add(m, name, 3, 3) == "6"
        # one that does not start replaces nothing
        refused(404, m.add_mcp_servers, identity=name, server_configs=config("nosuch-program"), overwrite=True)
        assert add(m, name, 3, 4) == "7"
        # nor is its environment told
        records = m.http.get(m.base_url + "/v1/manager/sandboxes").text
        assert name in records and "very-secret" not in records and "very-secret" not in str(m.get_info(identity=name))
        # it comes along when the session is made anew
        assert m.native("sessions/s/reap").ok
        assert add(m, name, 4, 4) == "8"
        # one that cannot start any more says why, and hides no other tool
        m.shell(name, "rm server.py")
        assert m.stop(identity=name) is True
        assert m.list_tools(identity=name)["sums"] == {} and "run_shell_command" in m.list_tools(identity=name)["generic"]
        try:
            raise AssertionError(add(m, name, 1, 1))
        except Failed as e:
            assert "sums" in e.detail, e


def test_a_server_hides_no_built_in_tools_and_there_are_not_too_many():
    with Managed(BOX + FAST) as d:
        m = d.manager
        name = m.create()
        m.workspace("PUT", name, "file", params={"path": "server.py"}, data=MCP.encode())
        one = config()["mcpServers"]["sums"]
        for bad in ("generic", "python", "", "x" * 65):
            refused(400, m.add_mcp_servers, identity=name, server_configs={"mcpServers": {bad: one}})
        assert set(m.list_tools(identity=name)["generic"]) == {"run_ipython_cell", "run_shell_command"}
        assert len(m.add_mcp_servers(identity=name, server_configs={"mcpServers": {f"s{i}": one for i in range(16)}})) == 16
        refused(429, m.add_mcp_servers, identity=name, server_configs={"mcpServers": {"more": one}})
        assert "more" not in m.list_tools(identity=name)
        big = {**one, "env": {"BIG": "x" * 300000}}
        refused(429, m.add_mcp_servers, identity=name, server_configs={"mcpServers": {"s1": big}}, overwrite=True)
        assert "add" in m.list_tools(identity=name)["s1"] and m.get_status(identity=name) == "running"


# A server of MCP's streamable HTTP: /json answers in JSON, /sse in events; both keep to the rules of sessions and versions.
WEB = r'''
import http.server, json, sys
sessions, seen = set(), []
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *unused):
        pass
    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)
    def do_DELETE(self):
        sessions.discard(self.headers["Mcp-Session-Id"])
        self.answer(200)
    def do_POST(self):
        q = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        accept = self.headers["Accept"]
        if "application/json" not in accept or "text/event-stream" not in accept or self.headers["X-Key"] != "secret":
            return self.answer(406)
        if self.path == "/away":
            return self.answer(307, Location="http://127.0.0.1:%s/json" % sys.argv[1])
        more = {}
        if q["method"] == "initialize":
            more["Mcp_Session_Id"] = "s%d" % len(seen)
            seen.append(q)
            sessions.add(more["Mcp_Session_Id"])
            r = {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
        elif self.headers["Mcp-Session-Id"] not in sessions:
            return self.answer(404 if "Mcp-Session-Id" in self.headers else 400)
        elif self.headers["MCP-Protocol-Version"] != "2025-03-26":
            return self.answer(400)
        elif "id" not in q:
            return self.answer(202)
        elif q["method"] == "tools/list":
            r = {"tools": [{"name": n + self.path[1:], "inputSchema": {"type": "object"}} for n in ("add-", "forget-", "flood-")]}
        else:
            name, a = q["params"]["name"], q["params"]["arguments"]
            if name.startswith("forget"):
                sessions.clear()
                return self.answer(404)
            r = {"content": [{"type": "text", "text": "x" * (17 << 20) if name.startswith("flood") else str(a["x"] + a["y"])}]}
        body = json.dumps({"jsonrpc": "2.0", "id": q["id"], "result": r})
        if self.path == "/json":
            return self.answer(200, body.encode(), Content_Type="application/json", **more)
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
        half = body.index("result") - 1     # an event's data may be on several lines
        body = f": hello\r\n\r\nevent: message\r\ndata: {note}\r\n\r\nid: 1\ndata: {body[:half]}\ndata:{body[half:]}\n\n"
        self.answer(200, body.encode(), Content_Type="text/event-stream; charset=utf-8", **more)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''


def web(port, path, **more):
    return {"mcpServers": {path: {"url": f"http://127.0.0.1:{port}/{path}", "headers": {"X-Key": "secret"}, **more}}}


@b.deadline(120)
def test_a_server_with_a_url_is_spoken_to_over_http_from_within_the_sandbox():
    with Managed(BOX) as d:
        m = d.manager
        name = m.create()
        m.workspace("PUT", name, "file", params={"path": "web.py"}, data=WEB.encode())
        m.shell(name, "setsid python3 /workspace/web.py 8000 >/workspace/log 2>&1 & "
                      "for i in $(seq 200); do python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>/dev/null && break; done")
        for path in ("json", "sse"):
            assert m.add_mcp_servers(identity=name, server_configs=web(8000, path, type="streamable_http")) == [path]
            call = lambda tool, **a: m.call_tool(identity=name, tool_name=f"{tool}-{path}", arguments=a)
            assert call("add", x=2, y=3)["content"][0]["text"] == "5"
            for tool, words in (("flood", "more than"), ("forget", "404")):
                try:
                    raise AssertionError(call(tool))
                except Failed as e:
                    assert e.status in (400, 422) and words in e.detail, e
            # a session that the server has forgotten is begun anew, by the second call at the latest
            with contextlib.suppress(Failed):
                call("add", x=1, y=1)
            assert call("add", x=1, y=2)["content"][0]["text"] == "3"
        assert set(m.list_tools(identity=name)) >= {"json", "sse"}
        refused(400, m.add_mcp_servers, identity=name, server_configs=web(8000, "away"))
        for wrong in ({"url": "ftp://x/"}, {"url": "http://a b/"}, {"url": "http://u:p@x/"}, {"url": "http://x/", "command": "y"}, {},
                      {"url": "http://x/", "headers": {"A": "b\r\nC: d"}}, {"url": "http://x/", "headers": {"A:b": "c"}}, {"url": 1},
                      {"url": "http://x/", "headers": {"A": 1}}):
            refused(400, m.add_mcp_servers, identity=name, server_configs={"mcpServers": {"wrong": wrong}})
        refused(501, m.add_mcp_servers, identity=name, server_configs=web(8000, "json2", type="websocket"))
        # its headers are nobody else's to read
        assert "secret" not in str(m.get_info(identity=name))


# A server of the transport before streamable HTTP: a stream of events, whose first one is the address for messages.
EVENTS = r'''
import http.server, json, queue, sys, time
streams = {}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *unused):
        pass
    def end(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def do_GET(self):
        if self.headers["X-Key"] != "secret" or "text/event-stream" not in self.headers["Accept"]:
            return self.end(406)
        mine = str(len(streams))
        streams[mine] = queue.Queue()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        elsewhere = "http://127.0.0.2:%s" % sys.argv[1] if self.path == "/elsewhere" else ""
        self.wfile.write(b"event: endpoint\r\ndata: %s/messages?session=%s\r\n\r\n" % (elsewhere.encode(), mine.encode()))
        while True:
            m = streams[mine].get()
            if m is None:
                self.close_connection = True
                return
            self.wfile.write(b": still here\n\nevent: message\ndata: %s\n\n" % json.dumps(m).encode())
    def do_POST(self):
        q = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        mine = streams.get(self.path.partition("=")[2])
        if mine is None or self.headers["X-Key"] != "secret":
            return self.end(405)
        if "method" not in q:
            open("pong", "w").write(json.dumps(q))
        elif q["method"] == "initialize":
            mine.put({"jsonrpc": "2.0", "id": q["id"], "result": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "t", "version": "1"}}})
        elif q["method"] == "tools/list":
            mine.put({"jsonrpc": "2.0", "id": "p", "method": "ping"})
            mine.put({"jsonrpc": "2.0", "id": q["id"], "result": {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in ("plus", "end")]}})
        elif q["method"] == "tools/call":
            a = q["params"]["arguments"]
            mine.put({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
            mine.put({"jsonrpc": "2.0", "id": q["id"], "result": {"content": [{"type": "text", "text": str(a["x"] + a["y"])}]}} if q["params"]["name"] == "plus" else None)
        self.end(202)
http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
'''


@b.deadline(120)
def test_a_server_of_the_transport_of_events_is_spoken_to_with_and_without_its_type():
    with Managed(BOX) as d:
        m = d.manager
        name = m.create()
        m.workspace("PUT", name, "file", params={"path": "web.py"}, data=EVENTS.encode())
        m.shell(name, "cd /workspace; setsid python3 web.py 8000 >log 2>&1 & "
                      "for i in $(seq 200); do python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>/dev/null && break; done")
        for path, more in (("told", {"type": "sse"}), ("transport", {"transport": "sse"}), ("found", {})):
            assert m.add_mcp_servers(identity=name, server_configs=web(8000, path, **more)) == [path]
            call = lambda tool: m.call_tool(identity=name, tool_name=tool, arguments={"x": 2, "y": 3})
            assert "plus" in m.list_tools(identity=name)[path]
            assert call("plus")["content"][0]["text"] == "5"
            try:
                raise AssertionError(call("end"))
            except Failed as e:
                assert e.status in (400, 422) and "ended its stream" in e.detail, e
            # the next session begins with the second call at the latest
            with contextlib.suppress(Failed):
                call("plus")
            assert call("plus")["content"][0]["text"] == "5"
            assert json.loads(m.workspace("GET", name, "file", params={"path": "pong"}).content) == {"jsonrpc": "2.0", "id": "p", "result": {}}
        refused(400, m.add_mcp_servers, identity=name, server_configs=web(8000, "elsewhere", type="sse"))
        refused(400, m.add_mcp_servers, identity=name, server_configs=web(8000, "typed", type="http"))
        refused(400, m.add_mcp_servers, identity=name, server_configs=web(8001, "nobody", type="sse"))


@b.deadline(120)
def test_a_url_reaches_no_more_than_the_sandbox_does():
    with Managed(BOX) as d:
        seen = []
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=lambda: seen.append(listener.accept()), daemon=True)
        thread.start()
        m = d.client(daemon.TENANT)
        name = m.create()
        for port in (listener.getsockname()[1], d.port):
            refused(400, m.add_mcp_servers, identity=name, server_configs=web(port, "host"))
        assert not seen, "berthd, or the sandbox, reached the host's loopback"
        listener.close()
        assert m.release(identity=name) is True


@b.deadline(120)
def test_a_url_is_reached_through_the_proxy_of_the_sandbox_when_a_rule_allows_it():
    netlab.need_net()

    def answer(path, headers):
        said.append((path, headers.get("x-key")))
        result = {"protocolVersion": "2025-06-18"} if len(said) == 1 else {"tools": []}
        return 200, {"Content-Type": "application/json"}, json.dumps({"jsonrpc": "2.0", "id": (len(said) + 2) // 2, "result": result}).encode()

    said = []
    options = BOX.replace('"disk=16m"', f'"disk=16m", "network=egress", "dns={netlab.DNS}", "allow-host=outside.test:80"')
    with netlab.Lab(answer=answer) as lab, Managed(options) as d:
        m = d.client(daemon.TENANT)
        name = m.create()
        one = {"url": "http://outside.test/mcp", "headers": {"X-Key": "secret"}}
        assert m.add_mcp_servers(identity=name, server_configs={"mcpServers": {"far": one}}) == ["far"]
        assert said == [("/mcp", "secret")] * 3, "initialize, initialized, tools/list"
        for host in (netlab.HOST, netlab.METADATA, "both.test"):
            refused(400, m.add_mcp_servers, identity=name, server_configs={"mcpServers": {"near": {**one, "url": f"http://{host}/mcp"}}})
        assert len(said) == 3
        lab.untouched()
        assert m.release(identity=name) is True
