# SPDX-License-Identifier: Apache-2.0
"""MCP servers in a sandbox: what was acknowledged is there until the sandbox is released, whatever dies meanwhile."""
import signal

import berthtest as b
from managed import BOX, FAST, Failed, Managed, listens, refused

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
