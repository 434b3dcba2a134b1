# SPDX-License-Identifier: Apache-2.0
"""berth mcp and berthd's /mcp under the clients of npm that agents are built with, unmodified."""
import json
import os
import subprocess

import berthtest as b
import npmkit
from bearer import Bearer
from daemon import TENANT, Daemon

COST = 120
SDK = "@modelcontextprotocol/sdk@1.32.2"
CLIENT = "@modelcontextprotocol/client@2.4.0"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"

TALK = """
const seen = []
async function talk(client, options) {
  const tools = (await client.listTools()).tools.map(t => t.name)
  const call = (name, args, opts) => options.old ? client.callTool({name, arguments: args}, undefined, opts)
                                                 : client.callTool({name, arguments: args}, opts)
  const ran = await call('run_command', {command: 'echo out; echo err >&2; exit 3'})
  await call('write_file', {path: '/root/f', content: 'hello'})
  const read = await call('read_file', {path: '/root/f'})
  const one = await call('shell', {command: 'cd /tmp; X=1'})
  const two = await call('shell', {command: 'pwd; echo $X'})
  const progress = []
  await call('run_command', {command: 'for i in 1 2 3; do echo line $i; sleep 0.4; done'}, {onprogress: p => progress.push(p)})
  let cancelled = 'no'
  const stop = new AbortController()
  const long = call('run_command', {command: 'echo begun > /tmp/begun; sleep 7777'}, {signal: stop.signal})
  while (!(await call('run_command', {command: 'cat /tmp/begun 2>/dev/null; true'})).content[0].text.includes('begun')) ;
  stop.abort()
  try { await long } catch (e) { cancelled = 'yes' }
  let left
  const until = Date.now() + 20000
  do left = (await call('run_command', {command: "cat /proc/[0-9]*/comm | grep -c '^sleep$'; true"})).content[0].text
  while (!left.startsWith('0') && Date.now() < until)
  const many = await Promise.all([...Array(20).keys()].map(i => call('run_command', {command: `echo n${i}`})))
  let unknown
  try { unknown = await call('no_such_tool', {}) } catch (e) { unknown = {code: e.code} }
  console.log(JSON.stringify({tools, ran, read, one, two, progress: progress.length, cancelled, left,
    many: many.map(m => m.content[0].text).filter((t, i) => t.includes(`n${i}`)).length, unknown}))
  await client.close()
}
"""
OLD = TALK + """
import {Client} from '@modelcontextprotocol/sdk/client/index.js'
import {StdioClientTransport} from '@modelcontextprotocol/sdk/client/stdio.js'
import {StreamableHTTPClientTransport} from '@modelcontextprotocol/sdk/client/streamableHttp.js'
"""
NEW = TALK + """
import {Client, StreamableHTTPClientTransport} from '@modelcontextprotocol/client'
import {StdioClientTransport} from '@modelcontextprotocol/client/stdio'
"""
STDIO = """
await client.connect(new StdioClientTransport({command: process.argv[2], args: ['mcp'], env: process.env}))
"""
HTTP = """
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2]),
  {requestInit: {headers: {Authorization: 'Bearer ' + process.argv[3]}}}))
"""


def check(said):
    j = json.loads(said)
    assert {"run_command", "run_code", "shell", "read_file", "write_file", "list_directory"} <= set(j["tools"]), j["tools"]
    text = j["ran"]["content"][0]["text"]
    assert "out" in text and "err" in text and j["ran"]["structuredContent"]["verdict"]["exit_status"] == 3, j["ran"]
    assert "hello" in json.dumps(j["read"]), j["read"]
    assert "/tmp\n1" in j["two"]["content"][0]["text"], j["two"]
    assert j["progress"] >= 1 and j["cancelled"] == "yes" and j["many"] == 20, j
    assert j["left"][0] == "0", j["left"]
    assert j["unknown"].get("code") == -32602 or j["unknown"].get("isError"), j["unknown"]


def stdio(package, text):
    place = npmkit.packages(package)
    check(npmkit.script(place, text, b.BERTH))
    assert b.berth("ps", "-aq", ok=True).out == "", "a sandbox is left"


def http(package, text):
    place = npmkit.packages(package)
    with Daemon(tcp=True) as d:
        check(npmkit.script(place, text, f"http://127.0.0.1:{d.port}/mcp", TENANT))


def test_sdk_1_over_stdio():
    stdio(SDK, OLD + "const client = new Client({name: 't', version: '1'})" + STDIO + "await talk(client, {old: true})")


def test_sdk_1_over_http():
    http(SDK, OLD + "const client = new Client({name: 't', version: '1'})" + HTTP + "await talk(client, {old: true})")


def test_client_2_over_stdio():
    stdio(CLIENT, NEW + "const client = new Client({name: 't', version: '1'})" + STDIO + "await talk(client, {})")


def test_client_2_without_sessions_over_stdio():
    stdio(CLIENT, NEW + "const client = new Client({name: 't', version: '1'}, {versionNegotiation: {mode: 'auto'}})" + STDIO +
          "await talk(client, {})")


def test_client_2_without_sessions_over_http():
    http(CLIENT, NEW + "const client = new Client({name: 't', version: '1'}, {versionNegotiation: {mode: 'auto'}})" + HTTP +
         "await talk(client, {})")


def test_inspector_calls_a_tool():
    place = npmkit.packages(INSPECTOR)
    for args, word in ((("--method", "tools/list"), "run_command"),
                       (("--method", "tools/call", "--tool-name", "run_command", "--tool-arg", "command=echo $((6*7))"), "42")):
        done = subprocess.run([*npmkit.program(place, "mcp-inspector"), "--cli", b.BERTH, "mcp", *args], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60 * b.SLOW, text=True,
                              env=b.environment({"PATH": os.path.dirname(npmkit.node()) + ":" + b.environment()["PATH"]}))
        assert done.returncode == 0 and word in done.stdout, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])


def test_ten_thousand_calls_grow_nothing():
    """Of the server: memory, files, threads; of the sandbox: processes."""
    text = OLD + "const client = new Client({name: 't', version: '1'}); " + STDIO.replace(
        "await client.connect(new", "const transport = new").replace("}))", "})\nawait client.connect(transport)") + """
    import {readFileSync, readdirSync} from 'node:fs'
    const call = (name, args) => client.callTool({name, arguments: args})
    const many = async n => { for (let i = 0; i < n; i += 20) await Promise.all([...Array(20).keys()].map(
      k => k % 4 ? call('read_file', {path: '/etc/hostname'}) : call('run_command', {command: 'echo ' + 'x'.repeat(2000)}))) }
    const size = () => ({kb: Number(/VmRSS:\\s+(\\d+)/.exec(readFileSync(`/proc/${transport.pid}/status`, 'utf8'))[1]),
      fds: readdirSync(`/proc/${transport.pid}/fd`).length, tasks: readdirSync(`/proc/${transport.pid}/task`).length})
    await many(1000)
    const before = size(), began = Date.now()
    await many(9000)
    const took = (Date.now() - began) / 9000
    console.log(JSON.stringify({before, after: size(), took}))
    await client.close()
    """
    j = json.loads(npmkit.script(npmkit.packages(SDK), text, b.BERTH, seconds=280))
    print(j)
    before, after = j["before"], j["after"]
    assert after["fds"] <= before["fds"] + 2 and after["tasks"] <= before["tasks"], j
    assert after["kb"] <= before["kb"] + 2048, j


test_ten_thousand_calls_grow_nothing.deadline = 300


def conformance(package, expected, *options):
    """Exit status 0: each scenario that fails is in the file, and each in the file fails."""
    place = npmkit.packages(package)
    with Daemon(tcp=True) as d, Bearer(d.port, TENANT) as relay:
        done = subprocess.run([*npmkit.program(place, "conformance"), "server", "--url", f"http://localhost:{relay.port}/mcp",
                               "--expected-failures", os.path.join(b.TOP, "tests", "real", expected), *options,
                               "-o", b.tmp("conformance")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=240 * b.SLOW, text=True, env=b.environment())
    assert done.returncode == 0, done.stdout[-6000:]


def test_conformance_of_2025_11_25():
    conformance("@modelcontextprotocol/conformance@0.1.16", "mcp-2025-11-25.yml")


def test_conformance_of_2026_07_28():
    conformance("@modelcontextprotocol/conformance@0.2.0-alpha.12", "mcp-2026-07-28.yml", "--requirements", "2026-07-28")
