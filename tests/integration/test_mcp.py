# SPDX-License-Identifier: Apache-2.0
"""berth mcp: the Model Context Protocol on stdin and stdout, in its two eras; test_mcp_clients.py has others' clients."""
import base64
import json
import os
import select
import signal
import subprocess

import berthtest as b
from daemon import fits

COST = 15
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


class Server:
    """A client that reads the answers as they come and hands each out by its id."""

    def __init__(self, *options, **kw):
        self.p = b.start("mcp", *options, stdin=subprocess.PIPE, **kw)
        self.n = 0
        self.unread = b""
        self.answers, self.notifications = {}, []

    def line(self, text):
        self.p.stdin.write(text if isinstance(text, bytes) else text.encode() + b"\n")
        self.p.stdin.flush()

    def send(self, method, params=None, **more):
        self.n += 1
        message = {"jsonrpc": "2.0", "id": self.n, "method": method, **more}
        if params is not None:
            message["params"] = params
        self.line(json.dumps(message))
        return self.n

    def notify(self, method, params):
        self.line(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    def read(self, seconds=30):
        while b"\n" not in self.unread:
            assert select.select([self.p.stdout], [], [], seconds * b.SLOW)[0], "no answer in time"
            got = os.read(self.p.stdout.fileno(), 1 << 20)
            assert got, "berth mcp ended: " + self.p.stderr.read().decode()
            self.unread += got
        line, self.unread = self.unread.split(b"\n", 1)
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0", message
        if "id" in message:
            self.answers[message["id"]] = message
        else:
            self.notifications.append(message)
        return message

    def take(self, n):
        while n not in self.answers:
            self.read()
        return self.answers.pop(n)

    def ask(self, method, params=None, **more):
        return self.take(self.send(method, params, **more))

    def call(self, tool, meta=None, **arguments):
        params = {"name": tool, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        answer = self.ask("tools/call", params)
        assert "result" in answer, answer
        return answer["result"]

    def text(self, tool, **arguments):
        return self.call(tool, **arguments)["content"][0]["text"]

    def close(self, want=0):
        self.p.stdin.close()
        got = self.p.wait(timeout=40 * b.SLOW)
        said = self.p.stderr.read().decode()
        assert got == want, f"exit status {got}: {said}"
        return said


def sandboxes():
    return json.loads(b.berth("ps", "-a", "--json", ok=True).out)


def server(*options):
    """A test with a server that is closed behind it, and has left no sandbox then."""
    def wrap(test):
        def run():
            s = Server(*options)
            test(s)
            s.close()
            assert sandboxes() == [], "sandboxes outlived their client"
        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run
    return wrap


# ---- the protocol -----------------------------------------------------------

@server()
def test_a_legacy_client_is_greeted_and_gets_the_tools(s):
    r = s.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})["result"]
    assert r["protocolVersion"] == "2025-06-18" and r["serverInfo"]["name"] == "berth" and "tools" in r["capabilities"], r
    s.notify("notifications/initialized", {})
    assert s.ask("initialize", {"protocolVersion": "1999-01-01", "capabilities": {}})["result"]["protocolVersion"] == "2025-11-25"
    assert s.ask("ping")["result"] == {}
    tools = s.ask("tools/list")["result"]["tools"]
    names = [t["name"] for t in tools]
    assert names[:3] == ["run_command", "run_code", "shell"] and "network_change" not in names, names
    for t in tools:
        assert t["inputSchema"]["type"] == "object" and t["annotations"]["title"] == t["title"] and len(t["description"]) > 20, t
    assert sandboxes() == [], "a sandbox was made before any call"


@server()
def test_a_modern_client_needs_no_handshake(s):
    r = s.ask("server/discover", {"_meta": META})["result"]
    assert r["supportedVersions"] == ["2026-07-28"] and r["resultType"] == "complete" and r["ttlMs"] > 0, r
    assert r["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "berth", r
    assert s.ask("tools/list", {"_meta": META})["result"]["cacheScope"] == "private"
    assert s.call("run_command", meta=META, command="echo hi")["resultType"] == "complete"
    for method in ("initialize", "ping", "logging/setLevel", "nope"):
        assert s.ask(method, {"_meta": META})["error"]["code"] == -32601, method
    assert s.ask("server/discover", {})["error"]["code"] == -32602
    bad = dict(META, **{"io.modelcontextprotocol/protocolVersion": "v9"})
    error = s.ask("tools/list", {"_meta": bad})["error"]
    assert error["code"] == -32022 and error["data"] == {"supported": ["2026-07-28"], "requested": "v9"}, error
    only = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    assert s.ask("tools/list", {"_meta": only})["error"]["code"] == -32602


@server()
def test_malformed_messages_are_answered_and_nothing_breaks(s):
    s.n = 100
    for text, code in (("{", -32700), ("[]", -32600), ("1", -32700), ('{"jsonrpc":"2.0","id":1}', -32600), ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
                       ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600), ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
                       ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600), ('{"jsonrpc":"2.0","id":1,"method":"ping","id":2}', -32602),
                       ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}}', -32602),
                       ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"a\\u0000b"}}}', -32602),
                       ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"network_change","arguments":{}}}', -32602),
                       ('{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}', -32602),
                       ("\xff\xfe", -32700), ("[" * 100000, -32700)):
        s.line(text.encode("latin1") + b"\n")
        got = s.read()
        assert got["error"]["code"] == code, (text[:80], got)
    s.line('{"jsonrpc":"2.0","id":9,"result":{}}')    # an answer nobody asked for
    s.line("")
    s.line(b"x" * (17 << 20) + b"\n")
    assert s.read()["error"]["code"] == -32700
    assert s.ask("ping")["result"] == {}
    assert sandboxes() == []


@server()
def test_wrong_arguments_are_a_result_that_a_model_can_mend(s):
    for arguments, word in (({}, 'lacks "command"'), ({"command": "x", "timeout": 1}, "'timeout' that is unknown"), ({"command": ["ls"]}, "wrong type"),
                            ({"command": "x", "y" * 3000: 1}, "unknown"), ({"command": "x", "é" * 300: 1}, "unknown")):
        r = s.call("run_command", **arguments)
        text = r["content"][0]["text"]
        assert r["isError"] and word in text and "timeout_ms" in text and "structuredContent" not in r, r
    for tool, arguments, words in (("run_code", {"code": "x", "language": "cobol"}, "language: 'cobol' is not one of python"),
                                   ("write_file", {"path": "/usr/x", "content": "x"}, "/usr/x: create x: Read-only file system"),
                                   ("read_file", {"path": "/nosuch"}, "open /nosuch: No such file")):
        r = s.call(tool, **arguments)
        assert r["isError"] and r["content"][0]["text"].startswith(words), r
    assert s.call("sandbox_list", x=1)["content"][0]["text"].endswith("sandbox_list takes no arguments")


@server()
def test_a_command_that_waits_for_input_gets_it_or_is_interrupted(s):
    schema = next(t for t in s.ask("tools/list")["result"]["tools"] if t["name"] == "shell")["outputSchema"]

    def shell(**arguments):
        r = s.call("shell", **arguments)
        fits(schema, r["structuredContent"], {}) if not r["isError"] else None
        return r

    r = shell(command="read name; echo hello $name; read again; echo $again")
    assert not r["isError"] and r["structuredContent"]["status"] == "awaiting-input" and '"input"' in r["content"][0]["text"], r
    assert "exit_status" not in r["structuredContent"], r
    r = shell(input="you\n")
    assert r["structuredContent"]["stdout"] == "hello you\n" and r["structuredContent"]["status"] == "awaiting-input", r
    r = shell(interrupt=True)
    assert r["structuredContent"]["exit_status"] == 130 and r["structuredContent"]["status"] == "done", r
    assert shell(command="echo on")["structuredContent"]["stdout"] == "on\n"
    for bad in ({}, {"command": "x", "input": "y"}, {"input": "x", "close": True}):
        assert "give one of" in s.call("shell", **bad)["content"][0]["text"]
    assert "runs no command" in s.call("shell", interrupt=True)["content"][0]["text"]
    assert s.call("shell", close=True)["structuredContent"] == {"closed": True}


# ---- tools ------------------------------------------------------------------

@server()
def test_commands_code_and_shells_tell_output_and_status(s):
    r = s.call("run_command", command="echo out; echo err >&2; exit 3")
    assert r["structuredContent"]["exit_status"] == 3 and r["structuredContent"]["stdout"] == "out\n", r
    assert r["structuredContent"]["stderr"] == "err\n" and not r["isError"], r
    assert r["content"][0]["text"] == "out\n[stderr]\nerr\n[exit status 3]", r
    r = s.call("run_command", command="cat; echo $A $(pwd)", env={"A": "b c"}, stdin="in|", workdir="/tmp")
    assert r["content"][0]["text"] == "in|b c /tmp\n", r
    assert s.call("run_code", code="print(6 * 7)")["structuredContent"]["stdout"] == "42\n"
    assert s.call("run_code", code="echo $((6 * 7))", language="sh")["structuredContent"]["language"] == "sh"
    s.call("shell", command="cd /tmp; X=5")
    r = s.call("shell", command="pwd; echo $X")
    assert r["structuredContent"]["stdout"] == "/tmp\n5\n" and r["structuredContent"]["fresh_shell"] is False, r
    assert s.text("shell", command="echo $X.", session="other") == ".\n"
    s.call("shell", close=True)
    assert s.text("shell", command="echo $X.") == ".\n"


@server()
def test_a_timeout_ends_what_the_command_started(s):
    r = s.call("run_command", command="sleep 1000 & echo started; sleep 1000", timeout_ms=300)
    assert r["isError"] and r["structuredContent"]["cause"] == "timeout" and "timed out" in r["content"][0]["text"], r
    # (what was killed may still be dying)
    b.wait_for(lambda: "sleep" not in s.text("run_command", command="cat /proc/[0-9]*/comm"), what="the end of what it started")


@server("--max-timeout", "2s", "--timeout", "300ms")
def test_the_command_line_sets_the_timeouts(s):
    limited = [t["inputSchema"]["properties"]["timeout_ms"] for t in s.ask("tools/list")["result"]["tools"] if "timeout_ms" in t["inputSchema"]["properties"]]
    assert len(limited) == 3 and all(t["maximum"] == 2000 and "(default: 300)" in t["description"] for t in limited), limited
    assert s.call("run_command", command="sleep 1000")["structuredContent"]["cause"] == "timeout"
    r = s.call("run_command", command="true", timeout_ms=2001)
    assert r["isError"] and "at most 2000" in r["content"][0]["text"], r


def test_a_command_without_a_time_limit_has_that_of_the_configuration():
    b.write(b.tmp("berth.toml"), '[sandbox]\ntimeout = "400ms"\n', 0o600)
    s = Server(env={"BERTH_CONFIG": b.tmp("berth.toml")})
    for tool, code in (("run_command", {"command": "sleep 1000"}), ("shell", {"command": "sleep 1000"}),
                       ("run_code", {"code": "import time; time.sleep(1000)"})):
        told = s.call(tool, **code)
        assert told["structuredContent"]["cause"] == "timeout", (tool, told)
    tools = {t["name"]: t for t in s.ask("tools/list")["result"]["tools"]}
    for name in ("run_command", "run_code", "shell"):
        limit = tools[name]["inputSchema"]["properties"]["timeout_ms"]
        assert "cancelled" in tools[name]["description"] and "(default: 400)" in limit["description"] and limit["maximum"] == 3600000, tools[name]
    s.close()


@server()
def test_the_text_of_a_command_may_be_called_text(s):
    assert s.text("run_command", text="echo a") == "a\n" and s.text("shell", text="X=b; echo $X") == "b\n"
    for tool in ("run_command", "shell"):
        r = s.call(tool, text="echo a", command="echo b")
        assert r["isError"] and "text" in r["content"][0]["text"], r


@server()
def test_endless_output_is_bounded_and_bytes_become_text(s):
    r = s.call("run_command", command="echo start; head -c 20000000 /dev/zero | tr '\\0' x; echo end", max_output_bytes=1000)
    out = r["structuredContent"]["stdout"]
    assert len(out) < 1100 and out.startswith("start\n") and out.endswith("end\n") and "left out" in out, out[:100]
    assert r["structuredContent"]["stdout_dropped"] == 20000010 - 1000, r
    assert s.text("run_command", command="printf 'a\\377\\000b'") == "a\ufffd\ufffdb"


@server()
def test_files_are_text_or_resources(s):
    s.call("write_file", path="/tmp/d/a.txt", content="h\u00e9llo\n")
    s.call("write_file", path="/tmp/d/a.txt", content="more", append=True)
    r = s.call("read_file", path="/tmp/d/a.txt")
    assert r["content"][0]["text"] == "h\u00e9llo\nmore" and r["structuredContent"]["bytes"] == 11, r
    raw = bytes(range(256))
    s.call("write_file", path="/tmp/d/b", content_base64=base64.b64encode(raw).decode(), mode="755")
    r = s.call("read_file", path="/tmp/d/b")["content"][0]
    assert r["type"] == "resource" and base64.b64decode(r["resource"]["blob"]) == raw, r
    r = s.ask("resources/read", {"uri": r["resource"]["uri"]})["result"]["contents"][0]
    assert base64.b64decode(r["blob"]) == raw, r
    entries = s.call("list_directory", path="/tmp/d")["structuredContent"]["entries"]
    assert [(x["name"], x["size"]) for x in entries] == [("a.txt", 11), ("b", 256)], entries
    assert s.ask("resources/read", {"uri": "berth://default/tmp/none"})["error"]["code"] == -32002
    assert s.call("read_file", path="/tmp/none")["isError"]
    assert s.call("write_file", path="/tmp/x")["isError"] and s.call("write_file", path="/tmp/x", content="", content_base64="")["isError"]
    assert s.ask("resources/templates/list")["result"]["resourceTemplates"][0]["uriTemplate"].startswith("berth://")


@server("--max-sandboxes", "2")
def test_further_sandboxes_are_apart_and_bounded(s):
    assert s.call("sandbox_create", name="second")["structuredContent"]["sandbox"] == "second"
    s.call("write_file", path="/tmp/here", content="1", sandbox="second")
    assert s.call("read_file", path="/tmp/here")["isError"], "the sandboxes share files"
    for bad in ({"name": "second"}, {}, {"name": "../x"}):
        assert s.call("sandbox_create", **bad)["isError"], bad
    assert s.call("sandbox_create", name="other", image="not-offered")["isError"]
    assert [x["sandbox"] for x in s.call("sandbox_list")["structuredContent"]["sandboxes"]] == ["second", "default"]
    s.call("sandbox_remove", sandbox="second")
    assert s.call("run_command", command="true", sandbox="second")["isError"]
    mine = s.call("sandbox_list")["structuredContent"]["sandboxes"]
    assert [x["id"] for x in mine] == [x["id"] for x in sandboxes()]


@server("--max-sandboxes", "3")
def test_a_model_takes_its_last_command_back_and_forks(s):
    assert "no checkpoint" in s.call("undo")["content"][0]["text"]
    s.call("write_file", path="/root/work/notes", content="a day's work")
    if os.path.isdir(os.path.join(b.root(), "state", "sandboxes", sandboxes()[0]["id"], "writable")):
        raise b.skip("the state directory has project quotas")
    r = s.call("run_command", command="rm -rf /root/work; echo done", checkpoint=True)
    assert r["structuredContent"]["stdout"] == "done\n", r
    assert s.call("read_file", path="/root/work/notes")["isError"]
    r = s.call("undo")["structuredContent"]
    assert r["checkpoint"] == "k1", r
    assert s.call("read_file", path="/root/work/notes")["content"][0]["text"] == "a day's work"
    r = s.call("checkpoint", name="clean")["structuredContent"]
    assert (r["checkpoint"], r["name"]) == ("k2", "clean"), r
    s.call("shell", command="rm -r /root/work; cd /", checkpoint=True)
    made = s.call("checkpoint_list")["structuredContent"]
    assert made["checkpoints"][-1]["before_command"] is True and made["head"] == made["checkpoints"][-1]["id"], made
    # a fork of an earlier state, beside the first
    r = s.call("sandbox_fork", checkpoint="clean", name="twin")["structuredContent"]
    assert r["sandbox"] == "twin" and r["ready"], r
    assert s.call("read_file", path="/root/work/notes", sandbox="twin")["content"][0]["text"] == "a day's work"
    assert s.call("read_file", path="/root/work/notes")["isError"]
    assert s.call("undo", to="clean")["structuredContent"]["checkpoint"] == "k2"
    assert not s.call("read_file", path="/root/work/notes")["isError"]
    assert s.call("sandbox_fork")["structuredContent"]["sandbox"] == "sandbox2"
    for bad in ({}, {"sandbox": "none"}, {"name": "twin"}, {"name": "../x"}):
        assert s.call("sandbox_fork", **bad)["isError"], bad
    for tool, bad in (("undo", {"to": "none"}), ("undo", {"to": "k1", "steps": 1}), ("checkpoint", {"name": "k9"})):
        assert s.call(tool, **bad)["isError"], bad
    s.call("sandbox_remove", sandbox="twin")
    assert "none" in s.call("sandbox_fork", checkpoint="none")["content"][0]["text"]
    assert len(sandboxes()) == 2


def test_a_sandbox_that_is_there_is_used_and_kept():
    box = b.berth("create", "host", ok=True).out.strip()
    s = Server("--sandbox", box)
    s.call("write_file", path="/tmp/mine", content="1")
    assert s.call("sandbox_remove", sandbox="default")["isError"]
    other = b.berth("create", "host", ok=True).out.strip()
    assert s.call("run_command", command="true", sandbox=other)["isError"], "another's sandbox was used"
    s.close()
    assert b.berth("exec", box, "cat", "/tmp/mine", ok=True).out == "1"
    b.berth("rm", "-f", box, other, ok=True)


def test_a_given_sandbox_stays_the_default_beside_others():
    box = b.berth("create", "host", ok=True).out.strip()
    s = Server("--sandbox", box, "--allow-image", "host")
    assert s.call("sandbox_create", name="default", image="host")["isError"], "the given sandbox was replaced"
    made = s.call("sandbox_create", image="host")["structuredContent"]["id"]
    s.call("write_file", path="/tmp/mine", content="1")
    assert b.berth("exec", box, "cat", "/tmp/mine", ok=True).out == "1"
    s.close()
    assert [x["id"] for x in sandboxes()] == [box], f"{made} was left, or the given sandbox removed"
    b.berth("rm", "-f", box, ok=True)


@server("--disk", "64m")
def test_a_sandbox_that_stopped_is_started_again_with_its_files(s):
    s.call("write_file", path="/workspace/kept", content="yes")
    box = sandboxes()[0]["id"]
    b.berth("stop", box, ok=True)
    assert s.text("read_file", path="/workspace/kept") == "yes"
    b.berth("rm", "-f", box, ok=True)
    r = s.call("run_command", command="true")
    assert r["isError"] and "has been removed" in r["content"][0]["text"], r
    assert s.text("run_command", command="echo new") == "new\n"


@server("--network", "egress", "--allow-host", "a.example", "--allow-network-changes")
def test_network_rules_change_only_where_the_operator_said_so(s):
    assert s.call("network_rules")["structuredContent"]["policy"]["allow_host"] == ["a.example"]
    assert not s.call("network_change", allow_hosts=["b.example"])["isError"]
    assert s.call("network_rules")["structuredContent"]["policy"]["allow_host"] == ["a.example", "b.example"]
    assert s.call("network_change", allow_hosts=["no host name!"])["isError"] and s.call("network_change")["isError"]


# ---- many, progress, cancel, the end ------------------------------------------

@server()
def test_calls_run_at_the_same_time_and_the_first_makes_one_sandbox(s):
    # each waits for all the others
    command = "mkdir -p /tmp/all; >/tmp/all/{0}; until [ $(ls /tmp/all | wc -l) = 20 ]; do sleep 0.05; done; echo {0}"
    asked = [s.send("tools/call", {"name": "run_command", "arguments": {"command": command.format(i)}}) for i in range(20)]
    got = [s.take(n)["result"]["content"][0]["text"] for n in asked]
    assert got == [f"{i}\n" for i in range(20)], got
    assert len(sandboxes()) == 1
    asked = [s.send("tools/call", {"name": "run_command", "arguments": {"command": "until [ -e /tmp/go ]; do sleep 0.1; done"}}) for i in range(70)]
    refused = [n for n in asked[64:] if "error" in s.take(n)]
    b.berth("exec", sandboxes()[0]["id"], "touch", "/tmp/go", ok=True)
    refused += [n for n in asked[:64] if "error" in s.take(n)]
    assert len(refused) == 6, f"{len(refused)} of 70 calls were refused"


@server()
def test_progress_is_told_to_a_call_that_asks(s):
    n = s.send("tools/call", {"name": "run_command", "arguments": {"command": "for i in 1 2 3; do echo line $i; sleep 0.4; done"},
                              "_meta": {"progressToken": "t1"}})
    s.take(n)
    told = [x["params"] for x in s.notifications if x["method"] == "notifications/progress"]
    assert told and all(x["progressToken"] == "t1" for x in told), s.notifications
    assert [x["progress"] for x in told] == sorted({x["progress"] for x in told}) and told[0]["message"] == "line 1", told
    s.notifications.clear()
    s.call("run_command", command="echo x; sleep 0.5")
    assert not s.notifications, s.notifications


@server()
def test_a_cancelled_call_ends_its_processes_and_gets_no_answer(s):
    s.call("run_command", command="true")
    n = s.send("tools/call", {"name": "run_command", "arguments": {"command": "sleep 1000 & sleep 1000"}})
    b.wait_for(lambda: s.text("run_command", command="cat /proc/[0-9]*/comm").count("sleep") == 2)
    s.notify("notifications/cancelled", {"requestId": n})
    b.wait_for(lambda: "sleep" not in s.text("run_command", command="cat /proc/[0-9]*/comm"))
    for session in ("a", "b"):
        n2 = s.send("tools/call", {"name": "shell", "arguments": {"command": "sleep 1000", "session": session}})
        b.wait_for(lambda: "sleep" in s.text("run_command", command="cat /proc/[0-9]*/comm"))
        s.notify("notifications/cancelled", {"requestId": n2})
        b.wait_for(lambda: "sleep" not in s.text("run_command", command="cat /proc/[0-9]*/comm"))
    assert n not in s.answers and n2 not in s.answers
    s.notify("notifications/cancelled", {"requestId": 12345})
    assert s.ask("ping")["result"] == {}


def test_the_end_of_input_and_signals_end_all():
    for how in ("eof", "term", "gone"):
        s = Server()
        s.call("run_command", command="true")
        s.send("tools/call", {"name": "run_command", "arguments": {"command": "sleep 1000"}})
        if how == "term":
            s.p.send_signal(signal.SIGTERM)
        elif how == "gone":
            s.p.stdout.close()
            s.send("ping")
        else:
            s.p.stdin.close()
        assert s.p.wait(timeout=40 * b.SLOW) == 0, how
        assert sandboxes() == [], how


def test_a_sandbox_that_is_being_made_at_the_end_is_removed():
    s = Server()
    s.send("tools/call", {"name": "run_command", "arguments": {"command": "sleep 1000"}})
    s.close()
    assert sandboxes() == []


def test_a_server_that_is_killed_leaves_no_sandbox():
    s = Server("--owner-grace", "100ms")
    s.call("run_command", command="true")
    if os.path.isfile(os.path.join(b.root(), "state", "sandboxes", sandboxes()[0]["id"], "writable.img")):
        assert not s.call("sandbox_fork")["isError"]
    s.p.kill()
    s.p.wait()
    b.wait_for(lambda: sandboxes() == [], 20, "the removal of the sandbox")


def test_a_wrong_command_line_is_refused_at_once():
    for args, words in ((("host",), ("--image host",)), (("--memory", "lots"), ("memory",)), (("--name", "x"), ("--sandbox",)),
                        (("--max-sandboxes", "0"), ("--max-sandboxes",)), (("--max-sandboxes", "33"), ("--max-sandboxes",)),
                        (("--sandbox", "none"), ("none",)), (("--max-timeout", "x"), ("--max-timeout",))):
        r = b.berth("mcp", *args, input="")
        b.expect(r.code in (2, 125) and all(w in r.err for w in words), r, f"{args} was taken")


@server()
def test_many_calls_grow_nothing(s):
    def rss():
        total = 0
        for pid in [s.p.pid] + [int(x) for x in open(f"/proc/{s.p.pid}/task/{s.p.pid}/children").read().split()]:
            total += int(open(f"/proc/{pid}/statm").read().split()[1]) * 4096
        return total, len(os.listdir(f"/proc/{s.p.pid}/fd"))

    def burst(n):
        asked = [s.send("tools/call", {"name": "run_command", "arguments": {"command": "echo x"}}) for _ in range(n)]
        for one in asked:
            assert s.take(one)["result"]["structuredContent"]["stdout"] == "x\n"
    burst(50)
    before = rss()
    for _ in range(10):
        burst(50)
    after = rss()
    # ASan keeps what is freed for a while
    assert (after[0] - before[0] < 1 << 20 or b.SANITIZED) and after[1] == before[1], (before, after)
