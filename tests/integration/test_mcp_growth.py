# SPDX-License-Identifier: Apache-2.0
"""Thousands of calls through one `berth mcp` leave it, its stdio, its keeper and the directories as they were."""
import collections
import json
import os
import subprocess

import berthtest as b

COST = 30
CALLS = int(os.environ.get("BERTH_MCP_CALLS", "2000"))     # 10,000 by hand
TOOLS = (("run_command", {"command": "echo hello"}), ("shell", {"command": "x=$((x + 1)); echo $x"}),
         ("write_file", {"path": "/tmp/f", "content": "text"}), ("read_file", {"path": "/tmp/f"}), ("list_directory", {"path": "/tmp"}),
         ("run_command", {"command": "exit 3"}), ("read_file", {"path": "/none"}), ("no_such_tool", {}))


def family(pid):
    """The process, and those below it and beside it: what has our run directory in its environment."""
    found = {}
    mark = b.root().encode()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as f:
                    ours = mark in f.read()
                with open(f"/proc/{name}/comm") as f:
                    comm = f.read().strip()
            except OSError:
                continue
            if ours and comm.startswith("berth"):
                found[int(name)] = comm
    assert pid in found, (pid, found)
    return found


def measure(pid):
    counts, rss = collections.Counter(), collections.Counter()
    for p, comm in family(pid).items():
        with open(f"/proc/{p}/status") as f:
            text = dict(line.split(":", 1) for line in f.read().splitlines())
        counts[comm + " processes"] += 1
        counts[comm + " threads"] += int(text["Threads"])
        counts[comm + " descriptors"] += len(os.listdir(f"/proc/{p}/fd"))
        rss[comm] += int(text["RssAnon"].split()[0])
    counts["files"] = sum(len(files) + len(dirs) for _, dirs, files in os.walk(b.root()))
    return counts, rss


@b.long_proof("calls tools 2,400 times")
def test_calls_grow_nothing():
    server = b.start("mcp", stdin=subprocess.PIPE)
    asked = 0

    def call(tool, arguments):
        nonlocal asked
        asked += 1
        message = {"jsonrpc": "2.0", "id": asked, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        server.stdin.write(json.dumps(message).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        assert answer["id"] == asked and ("result" in answer) == (tool != "no_such_tool"), answer
        return answer

    def calls(n):
        for i in range(n):
            call(*TOOLS[i % len(TOOLS)])

    first = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": first}).encode() + b"\n")
    server.stdin.flush()
    assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "berth"
    calls(400)      # what is kept of the last so many commands is there then
    before, rss_before = measure(server.pid)
    calls(CALLS)
    # what the last call left ends a moment later
    b.wait_for(lambda: measure(server.pid)[0] <= before, 20, lambda: f"{before} became {measure(server.pid)[0]}")
    after, rss_after = measure(server.pid)
    print({"calls": CALLS, "counts": dict(after), "rss_kib_before": dict(rss_before), "rss_kib_after": dict(rss_after)})
    for who in [] if b.SANITIZED else rss_after:     # ASan keeps what is freed for a while
        assert rss_after[who] <= rss_before[who] + 512, f"{who} grew from {rss_before[who]} to {rss_after[who]} KiB in {CALLS} calls"
    server.stdin.close()
    assert server.wait(60 * b.SLOW) == 0
