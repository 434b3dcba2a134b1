# SPDX-License-Identifier: Apache-2.0
"""The JavaScript client over all its ways to berth: a child, berthd's unix socket, a URL with a token."""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

import berthtest as b
import daemon
from zygotebox import needs_zygotes

COST = 30
SOURCE = os.path.join(b.TOP, "clients/javascript")
HEAD = """
import assert from "node:assert/strict";
import fs from "node:fs";
import { Berth, BerthError, CommandFailed, Output, errors } from %s;
const client = new Berth(JSON.parse(process.env.HOW));
const until = async (event) => {
  for (let i = 0; i < 4000; i++) {
    const found = await event();
    if (found)
      return found;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error("it did not come");
};
const fails = async (Kind, promise, ...words) => {
  const e = await promise.then((got) => assert.fail(`no error but ${got}`), (e) => e);
  assert.equal(e.constructor, Kind, e);
  assert.equal(e.code, Kind.code);
  for (const word of words)
    assert.ok(e.message.includes(word), e.message);
  return e;
};
const TMP = process.env.PLACE;
""" % json.dumps(SOURCE + "/src/index.js")


def node():
    found = shutil.which("node")
    if not found:
        raise b.skip("needs node (Debian: nodejs)")
    return found


def javascript(text, how, timeout=60, cwd=None):
    env = b.environment({"HOW": json.dumps(how), "PLACE": b.tmp(""), "PATH": f"{b.BUILD}:{os.environ['PATH']}"})
    p = subprocess.run([node(), "--input-type=module", "-e", text], env=env, cwd=cwd, capture_output=True, text=True, timeout=b.SLOW * timeout)
    assert p.returncode == 0, p.stdout[-2000:] + p.stderr[-4000:]
    return p.stdout


def over_all(text):
    text = HEAD + text + "\nassert.deepEqual(await client.list({ all: true }), []);\nawait client.close();\n"
    node()
    javascript(text, {"program": b.BERTH})
    with daemon.Daemon(tcp=True) as d:
        javascript(text, {"host": "unix://" + d.socket})
        javascript(text, {"host": f"http://127.0.0.1:{d.port}", "token": daemon.TOKEN})


FIRST = """
const { Berth } = await import(process.argv[1]);
const client = new Berth({ program: process.argv[2] });
const box = await client.create("host");
if ((await box.run("echo x")).out !== "x\\n") process.exit(1);
console.log(process.moduleLoadList.map((one) => one.split(" ").pop()).join(" "));
await box.remove();
await client.close();
"""


def test_the_first_command_loads_no_more_than_it_needs():
    """node:http and node:https take as long to load as a command to run; those who reach berthd load them."""
    p = subprocess.run([node(), "--input-type=module", "-e", FIRST, os.path.join(b.TOP, "clients/javascript/src/index.js"), b.BERTH], capture_output=True,
                       text=True, env=b.environment(), timeout=60 * b.SLOW)
    assert p.returncode == 0, p.stderr
    loaded = set(p.stdout.split())
    assert "child_process" in loaded and not loaded & {"http", "https", "tls", "_http_client", "zlib", "crypto"}, sorted(loaded)


@b.deadline(120)
def test_a_command_has_output_status_and_cause():
    over_all(r"""
const box = await client.create("host", { memory: "100m", env: { A: "b" }, label: { of: "test" }, allowHost: undefined });
let r = await box.run(["sh", "-c", "echo out $A; echo err >&2; exit 3"]);
assert.deepEqual([r.out, r.err, r.exitStatus, r.cause, r.ok], ["out b\n", "err\n", 3, "exit", false]);
assert.equal((await box.run("echo $((6 * 7)) $B; pwd", { env: { B: "x y" }, workdir: "/tmp" })).out, "42 x y\n/tmp\n");
assert.deepEqual((await box.run(["cat"], { stdin: "é\0" })).stdout, Buffer.from("é\0"));
const big = Buffer.alloc(3 << 20, "\xff\x00\x81", "latin1");
assert.ok((await box.run("cat", { stdin: big })).stdout.equals(big));
r = await box.run("head -c 100000 /dev/zero; echo kept >&2", { maxOutputBytes: 1000 });
assert.deepEqual([r.stdout.length, r.stdoutDropped, r.err], [1000, 99000, "kept\n"]);
r = await box.run("sleep 1000", { timeoutMs: 100 });
assert.deepEqual([r.cause, r.exitStatus], ["timeout", 124]);
const e = await fails(CommandFailed, box.run("echo why >&2; false", { check: true }), "status 1", "why");
assert.equal(e.result.exitStatus, 1);
await fails(errors.CommandNotFound, box.run(["nosuch"]), "nosuch");
await fails(errors.Usage, box.run("true", { timeout: 1 }), "timeout");
assert.deepEqual((await client.list({ filter: ["label=of=test"] })).map((j) => j.id), [box.id]);
assert.deepEqual(await client.list({ filter: ["label=of=other"] }), []);
assert.deepEqual((await Promise.all([..."abcdefghijklmnopqrst"].map((x) => box.run(["echo", x])))).map((r) => r.out.trim()).join(""),
  "abcdefghijklmnopqrst");
await box.dispose();
await fails(errors.NotFound, client.attach(box.id));
assert.equal((await client.run("host", ["echo", "alone"], { memory: "64m" })).out, "alone\n");
""")


@b.deadline(120)
def test_output_comes_as_it_is_written_and_an_abort_kills_the_tree():
    over_all(r"""
const box = await client.create("host");
const sleeps = async () => (await box.top()).filter((p) => p.command.startsWith("sleep 100"));
let p = await box.popen("echo ready; read line; echo got $line; cat", { stdinOpen: true });
let { value } = await p.next();
assert.ok(value instanceof Output);
assert.deepEqual([value.stream, value.text], ["stdout", "ready\n"]);
await p.send("one\n");
assert.equal((await p.next()).value.text, "got one\n");
await p.send(Buffer.from("two\n"), { eof: true });
const r = await p.wait();
assert.deepEqual([r.out, r.exitStatus], ["two\n", 0]);
p = await box.popen("sleep 1001 & sleep 1002 & echo up; wait");
assert.equal((await p.next()).value.text, "up\n");
await until(async () => (await sleeps()).length === 2);
await p.close();
await until(async () => (await sleeps()).length === 0);
for (const start of [(signal) => box.run("sleep 1001 & sleep 1002", { signal }), (signal) => box.shell("c").run("sleep 1003", { signal }),
  (signal) => box.code("sleep 1004", { lang: "sh", signal })]) {
  const abort = new AbortController();
  const ended = start(abort.signal).then(() => "ended", (e) => e.name);
  await until(async () => (await sleeps()).length > 0);
  abort.abort();
  assert.equal(await ended, "AbortError");
  await until(async () => (await sleeps()).length === 0);
}
await assert.rejects(box.run("true", { signal: AbortSignal.abort() }), { name: "AbortError" });
const seen = [];
await box.run("echo a; echo b >&2", { onOutput: (piece) => seen.push(piece.stream + piece.text) });
assert.deepEqual(seen.sort(), ["stderrb\n", "stdouta\n"]);
await assert.rejects(box.run("echo up; sleep 1005", { onOutput: () => { throw new TypeError("mine"); } }), { name: "TypeError" });
await until(async () => (await sleeps()).length === 0);
await box.remove();
""")


@b.deadline(120)
def test_shells_code_detached_commands_and_files():
    over_all(r"""
const box = await client.create("host", { name: "work" });
const sh = box.shell();
assert.equal((await sh.run("cd /tmp; x=5; echo hi")).out, "hi\n");
let r = await sh.run("pwd; echo $x; false");
assert.deepEqual([r.out, r.exitStatus, r.status, r.freshShell], ["/tmp\n5\n", 1, "done", false]);
assert.equal((await box.shell("split").run("echo warn >&2; echo fine", { split: true })).out, "fine\n");
assert.deepEqual((await box.shells()).map((s) => s.session).sort(), ["main", "split"]);
await sh.close();
r = await box.code("open('made', 'w').write('1'); print('hi')");
assert.deepEqual([r.out, r.language, r.files.map((f) => [f.path, f.change])], ["hi\n", "python", [["made", "added"]]]);
let c = await box.spawn("echo one; cat; echo two >&2", { name: "job" });
await c.send("in\n", { eof: true });
let out = "";
for await (const piece of c.follow())
  out += piece.stream === "stdout" ? piece.text : "";
assert.equal(out, "one\nin\n");
assert.equal((await c.wait()).exit_status, 0);
assert.equal((await box.command(c.id).output({ offset: 4 })).data.toString(), "in\n");
await c.forget();
c = await box.spawn(["sleep", "1000"]);
await c.signal("KILL");
assert.equal((await c.wait()).signal, 9);

const f = box.files, data = Buffer.from(Array.from({ length: 1280000 }, (_, i) => i % 256));
assert.equal(await f.write("a/b", "text ü\n", { parents: true, mode: "600" }), 8);
await f.write("a/b", "more", { append: true });
assert.equal(await f.readText("a/b"), "text ü\nmore");
await f.write("bin", data);
assert.ok((await f.read("bin")).equals(data));
await f.write("empty", "");
assert.equal((await f.read("empty")).length, 0);
await fails(errors.Limit, f.read("bin", { max: 100 }));
await fails(errors.NotFound, f.read("none"));
await f.mkdir("d/e", { parents: true });
await f.move("a/b", "d/moved");
assert.deepEqual((await f.list("d")).map((e) => [e.name, e.type]), [["e", "directory"], ["moved", "file"]]);
await f.remove(["d", "a"], { recursive: true });
const here = fs.mkdtempSync(`${TMP}/js-`), long = "n".repeat(120);
fs.mkdirSync(`${here}/src/sub/${long}`, { recursive: true });
fs.writeFileSync(`${here}/src/sub/${long}/x`, data, { mode: 0o640 });
fs.symlinkSync(`sub/${long}/x`, `${here}/src/link`);
await f.copyIn(`${here}/src`, "tree");
await box.run("cd tree; ln sub/*/x hard; truncate -s 1G sparse; printf end >> sparse", { check: true });
assert.ok((await f.read("tree/link")).equals(data));
await f.copyOut("tree", `${here}/back`);
await f.copyOut(`tree/sub/${long}/x`, `${here}/one`);
await f.copyOut("tree/.", `${here}/into`);
for (const name of ["back/hard", "one", `into/sub/${long}/x`, "back/link"])
  assert.ok(fs.readFileSync(`${here}/${name}`).equals(data), name);
assert.equal(fs.readlinkSync(`${here}/back/link`), `sub/${long}/x`);
assert.equal(fs.statSync(`${here}/one`).mode & 0o777, 0o640);
const sparse = fs.statSync(`${here}/back/sparse`);
assert.ok(sparse.size >= 1 << 30 && sparse.blocks * 512 < 1 << 24, `${sparse.size} ${sparse.blocks}`);
await fails(errors.NotFound, f.copyIn("/nosuch", "x"));
await fails(errors.NotFound, f.copyOut("nosuch", `${here}/x`));
await box.remove();
""")


@b.deadline(120)
def test_a_sandbox_lives_and_tells():
    over_all(r"""
const box = await client.create("host", { name: "work" });
assert.equal((await client.attach("work")).id, box.id);
await fails(errors.Exists, client.create("host", { name: "work" }), "work");
await box.files.write("kept", "x");
await box.stop({ graceMs: 0 });
assert.equal((await box.inspect()).status, "stopped");
await box.start();
assert.equal(await box.files.readText("kept"), "x");
await box.update({ memory: "64m", pids: 50 });
assert.equal((await box.stats()).memory_limit_bytes, 64 << 20);
await box.rename("other");
assert.equal((await box.network()).mode, "none");
assert.ok((await box.diff()).some((c) => c.path === "/workspace/kept"));
await (await box.spawn("echo logged")).wait();
const logged = [];
for await (const entry of await box.logs())
  logged.push(entry.data);
assert.ok(logged.includes("logged\n"), logged);
const told = [];
for await (const event of await box.events({ since: 0 }))
  if (told.push(event) === 4)
    break;
assert.ok(told.every((e) => e.event && e.time && e.sandbox === box.id && e.cursor), told);
const server = await box.spawn("echo it is up; exec python3 -m http.server 8001");
assert.ok(await box.waitReady({ port: [8001], log: "is up$", timeoutMs: 30000 }) < 30000);
await fails(errors.Timeout, box.waitReady({ port: 8002, timeoutMs: 50 }), "8002");
await server.signal("KILL");
await client.createVolume("v", { size: "16m", label: { a: "b" } });
assert.deepEqual((await client.volumes()).map((v) => v.name), ["v"]);
await client.removeVolume("v");
const version = await client.version();
assert.match(version, /^\d+\.\d+/);
await box.remove();
await fails(errors.NotFound, box.inspect());
""")


@b.deadline(120)
def test_code_runs_in_forks_of_a_warm_interpreter():
    needs_zygotes()
    over_all(r"""
const zygote = await client.createZygote("host", ["/usr/bin/python3", "-c", "import sys, time, os\nmade = 6"],
  { name: "zc", memory: "48m", forks: 2, env: { A: "1" } });
assert.deepEqual((await client.zygotes()).map((z) => z.id), [zygote.id]);
assert.equal((await client.zygote("zc")).id, zygote.id);
const got = await zygote.run("print(made * 7, sys.argv[1:], os.environ['A'], os.environ['B'], os.getcwd(), sys.stdin.read())\nsys.exit(3)",
  { args: ["x"], env: { B: "2" }, workdir: "/tmp", stdin: "in" });
assert.deepEqual([got.out, got.exitStatus, got.cause], ["42 ['x'] 1 2 /tmp in\n", 3, "exit"]);
await fails(errors.CommandFailed, zygote.run("1/0", { check: true }), "ZeroDivisionError");
assert.equal((await zygote.run("time.sleep(900)", { timeoutMs: 200 })).cause, "timeout");
assert.equal((await zygote.run("print(len(sys.stdin.buffer.read()))", { stdin: Buffer.alloc(1 << 20, "x") })).out, `${1 << 20}\n`);
const fed = await zygote.popen("for line in sys.stdin: print('got', line, end='', flush=True)", { stdinOpen: true });
await fed.send("one\n", { eof: true });
assert.equal((await fed.wait()).out, "got one\n");
const killed = await zygote.popen("print('up', flush=True); time.sleep(900)");
assert.match((await killed.next()).value.text, /^up/);
await killed.close();
assert.equal((await zygote.run("print(1)")).out, "1\n");
assert.equal((await zygote.inspect()).forks, 2);
await zygote.remove();
await fails(errors.NotFound, zygote.inspect(), "zygote");
await fails(errors.Invalid, client.createZygote("host", ["/usr/bin/python3", "-c", "1/0"], { forks: 1 }), "ZeroDivisionError");
""")


@b.deadline(120)
def test_files_go_back_to_a_checkpoint_and_forks_begin_with_one():
    over_all(r"""
const box = await client.create("host");
await box.files.write("f", "one");
assert.equal(await box.checkpoint({ name: "clean" }), "k1");
await box.run("echo -n two > f", { checkpoint: true });
await box.shell().run("echo -n three > f", { checkpoint: true });
const made = await box.checkpoints();
assert.deepEqual(made.map((c) => [c.id, c.head]), [["k1", false], ["k2", false], ["k3", true]]);
assert.equal((await box.undo()).checkpoint, "k3");
assert.equal(await box.files.readText("f"), "two");
const file = TMP + "/client.tar";
await box.exportCheckpoint("k3", file);
const there = await client.importCheckpoint(file, { name: "imported", noStart: false });
assert.equal(there.name, "imported");
assert.equal(await there.files.readText("f"), "two");
await there.remove();
await fails(errors.Exists, box.exportCheckpoint("k3", file), "exists");
await fails(errors.NotFound, box.exportCheckpoint("k99", file + ".none"), "k99");
await fails(errors.Corrupt, client.importCheckpoint("/etc/passwd"), "no file of berth");
fs.unlinkSync(file);
const twins = await box.fork({ checkpoint: "clean", count: 2, name: "twin" });
for (const twin of twins) {
  assert.equal(await twin.files.readText("f"), "one");
  await twin.remove();
}
assert.deepEqual(twins.map((t) => t.name), ["twin-1", "twin-2"]);
await box.shell().run("cd /; kept=yes");
await box.checkpoint({ name: "shell" });
await box.shell().run("cd /tmp; kept=no");
assert.deepEqual((await box.undo()).sessions, [{ session: "main", restored: true }]);
assert.equal((await box.shell().run("echo $kept in $PWD")).out, "yes in /\n");
assert.equal((await box.undo({ to: "clean" })).checkpoint, "k1");
await box.removeCheckpoint("clean");
await fails(errors.NotFound, box.undo({ to: "clean" }), "clean");
await fails(errors.NotFound, box.fork({ checkpoint: "none" }), "none");
await box.remove();
""")


def test_output_that_nobody_reads_is_bounded():
    javascript(HEAD + r"""
const box = await client.create("host");
const p = await box.popen("head -c 80000000 /dev/zero; sleep 1001");
// another call goes on meanwhile; the command is killed once too much waits.  Its words are not looked at:
// a command that has started is a copy of init until its execve
await until(async () => (await box.top()).every((x) => x.pid === 1));
await fails(errors.Limit, p.wait(), "not read");
assert.equal((await box.run(["echo", "on"])).out, "on\n");
await box.remove();
await client.close();
""", {"program": b.BERTH})


def test_errors_have_a_class_for_each_code_and_ways_that_are_none_are_refused():
    node()
    with open(os.path.join(b.TOP, "base/err.h")) as f:
        codes = set(re.findall(r'X\(ERR_\w+, "([a-z-]+)"', f.read())) - {"ok"} | {"command-failed"}
    with daemon.Daemon(tcp=True) as d:
        javascript(HEAD + f"const codes = {json.dumps(sorted(codes))};" + r"""
assert.deepEqual(Object.values(errors).filter((k) => k.prototype instanceof BerthError).map((k) => k.code).sort(), codes);
const e = await fails(errors.NotFound, client.attach("nosuch"), "hint: ");
assert.deepEqual([e.cause, e.remedy, e.name], ["no sandbox 'nosuch'", "berth ps -a lists them", "NotFound"]);
await fails(errors.Unsupported, client.pools());
const box = await client.create("host");
const p = await box.popen("echo up; sleep 1000");
assert.equal((await p.next()).value.text, "up\n");
const [stdio] = fs.readdirSync("/proc").filter((d) => /^\d+$/.test(d) && fs.existsSync(`/proc/${d}/stat`) &&
  fs.readFileSync(`/proc/${d}/stat`, "latin1").split(") ")[1].split(" ")[1] === String(process.pid));
process.kill(Number(stdio), "SIGKILL");
await fails(errors.Internal, p.next(), "berth stdio ended");
assert.equal((await box.run(["echo", "again"])).out, "again\n");
await box.remove();
await client.close();
await fails(errors.Usage, client.version(), "closed");
await fails(errors.NotFound, new Berth({ program: "/nosuch/berth" }).version(), "/nosuch/berth");
await fails(errors.Network, new Berth({ host: "unix:///nosuch/berthd.sock" }).version(), "/nosuch/berthd.sock");
for (const host of ["ftp://x", "http://", "unix://host/path", "http://h/path", "localhost", "http://127.0.0.1:99999", "http://example.org", "http://127.evil.org",
  "http://1.2.3.4:80", "http://u:p@127.0.0.1", "https://h?x"])
  assert.throws(() => new Berth({ host }), errors.Invalid);
assert.throws(() => new Berth({ hots: "x" }), errors.Usage);
""", {"program": b.BERTH})
        for token in (None, "0" * 32):
            javascript(HEAD + 'await fails(errors.Denied, client.list());\nawait client.close();\n',
                       {"host": f"http://127.0.0.1:{d.port}", **({"token": token} if token else {})})


# ---- what is installed, and what its manual says ----------------------------------------------------


def package(where):
    made = subprocess.run([sys.executable, "clients/tarball.py", where], cwd=b.TOP, capture_output=True, text=True, check=True)
    return made.stdout.strip()


def test_the_tarball_is_the_same_bytes_each_time_and_has_no_dependency():
    one, two = package(b.tmp("one")), package(b.tmp("two"))
    with open(one, "rb") as f, open(two, "rb") as g:
        assert f.read() == g.read()
    with tarfile.open(one) as tar:
        names = tar.getnames()
        described = json.load(tar.extractfile("package/package.json"))
    assert described["version"] == b.berth("--version", ok=True).out.split()[-1].strip()
    assert not any("ependencies" in key for key in described) and described["types"].removeprefix(".") in [n.removeprefix("package") for n in names]
    assert {f"package/src/{n}" for n in os.listdir(SOURCE + "/src")} <= set(names)


def test_each_code_block_of_the_readme_runs():
    node()
    place = b.tmpdir("project")
    with tarfile.open(package(b.tmp("pack"))) as tar:
        tar.extractall(place + "/node_modules")
    os.rename(place + "/node_modules/package", place + "/node_modules/berth")
    with open(SOURCE + "/README.md") as f:
        blocks = re.findall(r"```js\n(.*?)```", f.read(), re.S)
    assert len(blocks) >= 4
    said = "".join(javascript(block, {}, cwd=place) for block in blocks)
    for line in ("hello\n", "1\n2\n3\n", "42 in /tmp\n", "got one\n", "stdout got two\n", "TimeoutError killed\n", "true\n", "berth ps -a lists them\n"):
        assert line in said, (line, said)
