# SPDX-License-Identifier: Apache-2.0
"""
Zygotes of node, whose process cannot be forked: each sandbox of theirs starts its interpreter before a client comes.

Attacks S48 of SECURITY.md.
"""
import concurrent.futures
import json
import os
import signal

import berthtest as b
import proc
from test_stdio import Stdio
from zygotebox import NODE, NodeZygote, needs_node

COST = 40


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def create(*words, **kw):
    needs_node()
    return b.berth("zygote", "create", *words, **kw)


def test_code_has_what_the_preload_made_and_no_code_changes_it_for_another():
    with NodeZygote("const a = 40; let n = 1; var v = 2; class C { f() { return a + v } }; globalThis.g = new Map();"
                    "import('node:os').then((os) => { globalThis.eol = os.EOL })", "--pool", "2") as z:
        check(z.out("console.log(a + v, new C().f(), eol === '\\n')") == "42 42 true\n", "names of the preload")
        for _ in range(3):
            check(z.out("console.log(++n, g.size); g.set(1, 1); v = 9; require('fs').writeFileSync('/tmp/mine', '')") == "2 0\n",
                  "what an earlier code did")
            check(z.out("console.log(require('fs').readdirSync('/tmp').length)") == "0\n", "files of an earlier code")
        r = z.run("console.log(process.argv.slice(1), process.execArgv)", "-x", "b c", ok=True)
        b.expect(r.out == "[ '-x', 'b c' ] []\n", r, "arguments of the code")


def test_code_comes_as_a_word_a_file_or_stdin():
    path = b.write(b.tmp("code.js"), "#!/usr/bin/env node\nconsole.log('file', process.argv.slice(1), __filename)\n")
    with NodeZygote() as z:
        r = b.berth("run", "--zygote", z.name, "--file", path, "one", ok=True)
        b.expect(r.out == f"file [ '{path}', 'one' ] code.js\n", r, "code of a file")
        r = b.berth("run", "--zygote", z.name, "--file", "-", input="console.log('stdin')", ok=True)
        b.expect(r.out == "stdin\n", r, "code of stdin")
        r = z.run("let all = ''; process.stdin.on('data', (d) => all += d).on('end', () => console.log(all + all))", input="ab", ok=True)
        b.expect(r.out == "abab\n", r, "stdin for the code")
        r = z.run("process.stdout.write('x'.repeat(1 << 22))", ok=True)
        b.expect(len(r.out) == 1 << 22, r, "much output")
        out = b.tmp("out")
        with open(out, "w") as f:
            p = b.start("run", "--zygote", z.name, "console.log(process.stdout.isTTY); console.error('err'); console.log(2)",
                        stdout=f, stderr=f)
            check(p.wait(30 * b.SLOW) == 0, p.returncode)
        check(open(out).read() == "undefined\nerr\n2\n", "a file as stdout, in order")


def test_a_script_of_the_sandbox_is_a_preload():
    where = b.tmpdir("mod", 0o755)
    b.write(os.path.join(where, "answer.js"), "exports.n = 42\n")
    b.write(os.path.join(where, "main.js"), "globalThis.n = require('./answer').n; globalThis.args = process.argv.slice(2);"
            "globalThis.main = require.main === module\n")
    b.write(os.path.join(where, "main.mjs"), "import a from './answer.js'; await 1; globalThis.n = a.n + 1\n")
    for words, text in (([NODE, "/m/main.js", "x"], "42 x true\n"), (["node", "--no-warnings", "--", "/m/main.mjs"], "43\n")):
        r = create("--name", "nodescript", "-v", f"{where}:/m:ro", "host", *words)
        b.expect_code(r, 0)
        r = b.berth("run", "--zygote", "nodescript", "console.log(n, ...[globalThis.args ?? [], globalThis.main ?? []].flat())")
        b.berth("zygote", "rm", "nodescript", ok=True)
        b.expect(r.out == text, r, "what the script made")


def test_code_ends_as_node_does():
    with NodeZygote("const a = 1", "--pool", "3") as z:
        for code, status in (("process.exit(3)", 3), ("", 0), ("throw new Error('x')", 1), ("process.exitCode = 7", 7),
                             ("process.kill(process.pid, 9)", 137), ("Promise.reject(new Error('r'))", 1), ("1 +", 1),
                             ("await 1; throw new Error('late')", 1), ("await new Promise(() => {})", 13),
                             ("setTimeout(() => process.exit(4), 20)", 4), ("process.abort()", 134), ("throw 1", 1),
                             ("process.on('uncaughtException', () => process.exit(6)); throw 1", 6)):
            r = z.run(code)
            b.expect(r.code == status, r, code)
        r = z.run("function f() { null.x }\nf()")
        b.expect(r.err.startswith("[eval]:1\nfunction f() { null.x }\n") and "TypeError: " in r.err and "at f ([eval]:1:21)\n" in r.err
                 and "berth" not in r.err and "node:vm" not in r.err and "Node.js v" in r.err, r, "node's words, of the code alone")
        r = z.run("process.on('exit', (c) => console.log('bye', c)); setImmediate(() => console.log('hi'))", ok=True)
        b.expect(r.out == "hi\nbye 0\n", r, "its event loop is empty before its end")
        v = json.loads(z.run("console.log('x'); process.exit(4)", options=["--json"]).out.splitlines()[-1])
        check(v["cause"] == "exit" and v["exit_code"] == 4, v)


def test_what_node_has_threads_for_works():
    """What a fork of node would not have: V8's and libuv's threads."""
    code = """
const { promises: fs } = require("fs"), cp = require("child_process"), { Worker } = require("worker_threads"), crypto = require("crypto");
const dns = require("dns").promises, zlib = require("zlib"), { promisify } = require("util");
await fs.writeFile("/tmp/x", "text"); const text = await fs.readFile("/tmp/x", "utf8");
const random = await promisify(crypto.randomBytes)(8), key = await promisify(crypto.scrypt)("a", "b", 8);
const wasm = await WebAssembly.instantiate(new Uint8Array([0,97,115,109,1,0,0,0,1,5,1,96,0,1,127,3,2,1,0,7,5,1,1,102,0,0,10,6,1,4,0,65,42,11]));
const worker = await new Promise((done) => new Worker("require('worker_threads').parentPort.postMessage(7)", { eval: true }).on("message", done));
const child = await promisify(cp.exec)("echo child"); const zip = (await promisify(zlib.gzip)("z")).length;
await fs.writeFile("/tmp/k.js", "process.send(process.execArgv.length)");
const forked = await new Promise((done) => cp.fork("/tmp/k.js").on("message", done));
let kept = []; for (let i = 0; i < 2e6; i++) { kept.push({ i, s: String(i) }); if (i % 1e5 === 0) kept = []; }
await new Promise((done) => setTimeout(done, 5));
console.log(text, random.length, key.length, wasm.instance.exports.f(), worker, child.stdout.trim(), zip > 0, forked, kept.length > 0,
            (await import("node:os")).EOL === "\\n");
"""
    with NodeZygote("const crypto0 = require('crypto'); crypto0.randomBytes(8); require('fs').promises.readFile('/etc/hostname').catch(() => 0)",
                    "--memory", "512m") as z:
        check(z.out(code.replace("\\\\", "\\")) == "text 8 8 42 7 child true 0 true true\n", "threads of node")


def test_variables_directory_and_timeout_are_its_own():
    with NodeZygote("", "-e", "A=1") as z:
        r = z.run("console.log(process.env.A, process.env.B, process.cwd(), process.env.OMP_NUM_THREADS)",
                  options=["-e", "B=2=3", "-w", "/tmp/x/y"], ok=True)
        b.expect(r.out == "1 2=3 /tmp/x/y undefined\n", r, "variables and directory")
        r = z.run("setTimeout(() => {}, 6e5)", options=["--timeout", "200ms", "--json"], timeout=30)
        b.expect(r.code == 124 and json.loads(r.out)["cause"] == "timeout", r, "its own timeout")
        r = z.run("1", options=["-w", "/proc/x"])
        b.expect(r.code == 125 and "cannot enter /proc/x" in r.err, r, "a directory that cannot be")


def test_a_limit_of_silence_is_enforced():
    with NodeZygote("", "--max-silent-time", "6s") as z:
        r = z.run("console.log(1); setTimeout(() => {}, 6e5)", options=["--json"], timeout=60)
        b.expect(r.code == 124 and r.out.startswith("1\n") and json.loads(r.out.splitlines()[1])["cause"] == "silent", r,
                 "it was silent for too long")
        check(z.out("console.log(1)") == "1\n", "code that is not silent")


def test_limits_are_its_own():
    with NodeZygote("", "--memory", "128m", "--pids", "60", "--disk", "8m") as z:
        r = z.run("const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1))", options=["--json"], timeout=60)
        b.expect(json.loads(r.out.splitlines()[-1])["cause"] == "oom", r, "the memory limit")
        r = z.run("let n = 0; const next = () => { require('child_process').spawn('sleep', ['600']).on('error', (e) => {"
                  " console.log(n, e.code); process.exit() }).on('spawn', () => { n++; next() }) }; next()", timeout=60)
        n, code = r.out.split()
        b.expect(0 < int(n) < 60 and code == "EAGAIN", r, "the pids limit")
        r = z.run("try { require('fs').writeFileSync('/root/x', Buffer.alloc(64 << 20)) } catch (e) { console.log(e.code) }", ok=True)
        b.expect(r.out == "ENOSPC\n", r, "the disk limit")


DRAW = """
const crypto = require("crypto"), fs = require("fs"), os = require("os"), path = require("path"), tls = require("tls"), net = require("net");
const hello = () => new Promise((done) => {
  const seen = new (require("stream").Duplex)({ read() {}, write(data, e, next) { done(data.subarray(11, 43).toString("hex")); next() } });
  tls.connect({ socket: seen, servername: "a.example" }).on("error", () => {});
});
const rows = [];
for (let i = 0; i < 4; i++)
  rows.push([Math.random(), crypto.randomUUID(), crypto.randomBytes(8).toString("hex"), crypto.randomInt(2 ** 47), crypto.webcrypto.getRandomValues(new BigUint64Array(1))[0].toString(),
             fs.mkdtempSync(path.join(os.tmpdir(), "x-")), await hello(), again(), crypto.generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" }).x,
             require("v8").getHeapStatistics && crypto.createHash("sha1").update(crypto.randomFillSync(Buffer.alloc(20))).digest("hex")]);
console.log(JSON.stringify(rows));
"""


@b.deadline(240)
def test_no_two_starts_draw_the_same():
    """1,000 draws: of Math.random, crypto, web crypto, names for temporary files, TLS hellos and keys."""
    preload = "const made = require('crypto'); made.randomUUID(); Math.random(); require('tls'); const again = () => made.randomUUID()"
    with NodeZygote(preload, "--pool", "4") as z:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            rows = [row for out in pool.map(lambda _: z.out(DRAW, timeout=60), range(25)) for row in json.loads(out)]
        values = [str(v) for row in rows for v in row]
        check(len(values) >= 1000, f"{len(values)} draws")
        check(len(set(values)) == len(values), [v for v in values if values.count(v) > 1][:4])


def test_a_preload_that_fails_hangs_or_is_killed_is_told():
    base = ("--forks", "1", "host", NODE)
    r = create(*base, "-e", "console.log('words'); null.x")
    b.expect(r.code == 2 and "TypeError" in r.err and "words" in r.err and "exit status 1" in r.err, r, "it throws")
    r = create(*base, "-e", "setTimeout(() => { Promise.reject(new Error('late')) }, 5)")
    b.expect(r.code == 2 and "late" in r.err and "exit status 1" in r.err, r, "it fails later")
    r = create(*base, "-e", "process.exit(0)")
    b.expect(r.code == 2 and "exit status 0" in r.err, r, "it ends node")
    r = create("--preload-timeout", "1s", *base, "-e", "setInterval(() => {}, 1000)")
    b.expect(r.code == 124 and "--preload-timeout" in r.err, r, "it never ends")
    r = create("--preload-timeout", "1s", *base, "-e", "for (;;);")
    b.expect(r.code == 124, r, "it is busy")
    r = create("--memory", "96m", *base, "-e", "const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1))")
    b.expect(r.code == 2 and "killed" in r.err, r, "its memory limit")
    r = create(*base, "/nowhere.js")
    b.expect(r.code == 2 and "/nowhere.js" in r.err, r, "no such script")
    r = create(*base, "-e", "require('net').connect(80, '10.0.0.1').on('error', (e) => { throw e })")
    b.expect(r.code == 2 and "ENETUNREACH" in r.err, r, "it has no network")
    b.one_line_error(create("host", "/nowhere/node", "-e", ""), 127, "not found")
    for words, word in ((["-p", "1"], "-p"), (["--check", "x"], "--check"), (["-e"], "without code")):
        b.one_line_error(create("host", NODE, *words), 125 if word[0] == "-" else 2, word)
    b.one_line_error(create("--network", "bridge", "host", NODE), 125, "no network")
    check(json.loads(b.berth("zygote", "ls", "--json", ok=True).out) == [], "nothing is left")


def test_a_preload_that_fails_in_a_later_start_is_tried_more_and_more_seldom():
    where = b.tmpdir("count", 0o777)
    with NodeZygote("if (require('fs').readdirSync('/rw').includes('stop')) throw new Error('stopped');"
                    "require('fs').appendFileSync('/rw/starts', 'x')", "-v", f"{where}:/rw:rw") as z:
        check(z.out("console.log(1)") == "1\n", "the first")
        b.write(os.path.join(where, "stop"), "")
        r = z.run("1")
        while r.code == 0:  # those that were started before
            r = z.run("1")
        b.expect("exit status 1" in r.err or "in use" in r.err, r, "the client hears why")
        os.unlink(os.path.join(where, "stop"))
        check(z.out("console.log(2)", timeout=60) == "2\n", "it serves again")


def test_ls_and_inspect_say_how_the_interpreter_is_had():
    with NodeZygote("let x = 1", "--pool", "2", "--forks", "3") as z:
        one = [j for j in json.loads(b.berth("zygote", "ls", "--json", ok=True).out) if j["id"] == z.id][0]
        check(one["mode"] == "ahead" and one["interpreter"] == NODE and one["pool"] == 2 and "pid" not in one, one)
        row = [line for line in b.berth("zygote", "ls", ok=True).out.splitlines() if z.name in line][0]
        check("ahead" in row.split(), row)
        b.wait_for(lambda: len(z.alive()) == 2, 20, "the pool")
        check(set(z.alive()) <= set(b.berth("ps", "-q", ok=True).out.split()), "they are sandboxes")
        b.one_line_error(b.berth("create", "--zygote", z.name), 125, "cannot live in zygote", "cannot be forked")
        held = [b.start("run", "--zygote", z.name, "console.log('up'); process.stdin.resume()", stdin=-1, stdout=-1) for _ in range(3)]
        for p in held:
            b.read_until(p.stdout, b"up")
        late = b.start("run", "--zygote", z.name, "console.log('late')", stdout=-1)
        held[0].communicate(b"")
        out, _ = late.communicate(timeout=30 * b.SLOW)
        check(out == b"late\n" and late.returncode == 0, "the fourth runs when the first has ended")
        for p in held[1:]:
            p.communicate(b"")


def test_a_signal_and_the_end_of_the_client_reach_it():
    with NodeZygote() as z:
        code = "process.on('SIGTERM', () => { console.log('term'); process.exit(5) }); console.log('up'); setInterval(() => {}, 1e6)"
        p = b.start("run", "--zygote", z.name, code, stdout=-1)
        b.read_until(p.stdout, b"up")
        p.send_signal(signal.SIGTERM)
        out, _ = p.communicate(timeout=20 * b.SLOW)
        check(b"term" in out and p.returncode == 5, (out, p.returncode))
        p = b.start("run", "--zygote", z.name, "console.log('up'); for (;;);", stdout=-1)
        b.read_until(p.stdout, b"up")
        before = set(z.alive())
        p.kill()
        p.communicate()
        b.wait_for(lambda: not before & set(z.alive()) or len(z.alive()) == 1, 20, "the code of a client that died")


def test_one_at_a_time_is_enough():
    with NodeZygote("", "--forks", "1") as z:
        for _ in range(3):
            check(z.out("console.log(1)") == "1\n", "one after another")


@b.deadline(120)
def test_kill_9_of_any_supervisor_leaves_nothing():
    with NodeZygote("", "--pool", "2") as z:
        b.wait_for(lambda: len(z.alive()) == 2, 20, "the pool")
        top, members = z.supervisors()
        os.kill(members[0], signal.SIGKILL)
        b.gc()
        check(z.out("console.log(1)") == "1\n", "another serves")
        p = b.start("run", "--zygote", z.name, "console.log('up'); setInterval(() => {}, 1e6)", stdout=-1)
        b.read_until(p.stdout, b"up")
        _, members = z.supervisors()
        os.kill(top, signal.SIGKILL)
        p.communicate(timeout=30 * b.SLOW)
        check(p.returncode != 0, "it ends with its zygote")
        b.wait_for(lambda: not any(proc.alive(pid) for pid in members), 20, "their supervisors end")
        b.gc()


def test_users_and_read_only_roots_are_those_of_a_sandbox():
    with NodeZygote("", "--user", "nobody", "--read-only") as z:
        r = z.run("try { require('fs').writeFileSync('/root/x', '') } catch (e) { console.log(e.code) }\n"
                  "try { process.setuid(0) } catch (e) { console.log(e.code) }; console.log(process.getuid() !== 0)", ok=True)
        check(r.out == "EACCES\nEPERM\ntrue\n", r.out)


def test_stdio_runs_code():
    with NodeZygote("const made = 6", "--pool", "2") as z:
        s = Stdio()
        n = s.send(op="run", zygote=z.name, code="console.log(made * 7, process.argv[1], process.env.A, process.cwd(), "
                   "require('fs').readFileSync(0, 'utf8'))", args=["x"], env=["A=b=c"], workdir="/tmp", stdin="in")
        check(s.take(n)["started"] is True, "the first answer")
        out, _, verdict = s.end_of(n)
        check(out == b"42 x b=c /tmp in\n" and verdict["exit_code"] == 0, (out, verdict))
        n = s.send(op="run", zygote=z.name, code="console.log('up'); setInterval(() => {}, 1e6)")
        while "up" not in s.take(n).get("data", ""):
            pass
        check(s.call(op="cancel", request=n)["cancelled"], "it is ended")
        check(s.end_of(n)[2]["cause"] == "signal", "its verdict")
        s.close()
