# SPDX-License-Identifier: Apache-2.0
"""
Attacks S48 of SECURITY.md where an interpreter is not forked: the code of one sandbox that reaches another one of its
zygote or a supervisor, and a preload that misuses the socket on which the code comes.
"""
import json

import berthtest as b
from zygotebox import NODE, NodeZygote, needs_node

COST = 15

RIGHTS = """
const fs = require("fs");
const status = fs.readFileSync("/proc/self/status", "utf8");
const tried = { rights: status.split("\\n").filter((l) => /^(Cap|NoNewPrivs|Seccomp|Groups|Uid)/.test(l)) };
for (const [name, args] of Object.entries({ mount: ["mount", "-t", "tmpfs", "x", "/mnt"], unshare: ["unshare", "-U", "true"],
    nsenter: ["nsenter", "-t", "1", "-m", "true"], mknod: ["mknod", "/tmp/sda", "b", "8", "0"], chroot: ["chroot", "/", "true"] }))
  tried[name] = require("child_process").spawnSync(args[0], args.slice(1)).status;
"""


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def test_S48_a_preload_and_code_are_refused_what_a_sandbox_is_refused():
    needs_node()
    r = b.berth("run", "host", NODE, "-e", RIGHTS + "console.log(JSON.stringify(tried))", ok=True)
    sandbox = json.loads(r.out)
    b.expect(all(sandbox[k] for k in ("mount", "unshare", "nsenter", "mknod")), r, "of a sandbox")
    with NodeZygote(RIGHTS + "const ofPreload = tried;") as z:
        r = z.run("{" + RIGHTS + "console.log(JSON.stringify([ofPreload, tried])) }", ok=True)
        preload, code = json.loads(r.out)
        b.expect(preload == sandbox, r, f"the preload may more than {sandbox}")
        b.expect(code == sandbox, r, f"the code may more than {sandbox}")


def test_S48_code_sees_and_signals_no_process_but_its_own():
    with NodeZygote("const fs = require('fs')", "--pool", "3") as z:
        b.wait_for(lambda: len(z.alive()) == 3, 20, "the pool")
        r = z.run("const pids = fs.readdirSync('/proc').filter((n) => /^\\d+$/.test(n)), hit = [];\n"
                  "for (let p = 2; p < 40000; p++) if (p !== process.pid)\n"
                  "  try { process.kill(p, 0); hit.push(p) } catch (e) { if (e.code !== 'ESRCH') hit.push(p) }\n"
                  "const own = fs.readdirSync('/proc/self/task').map(Number);\n"
                  "console.log(pids.length, hit.filter((p) => !own.includes(p)).length, process.ppid);\n"
                  "for (const s of [9, 15, 11]) try { process.kill(1, s) } catch {}\n"
                  "for (const f of ['mem', 'environ', 'maps', 'auxv'])\n"
                  "  try { if (fs.readFileSync('/proc/1/' + f).length) console.log('read', f) } catch {}\n"
                  "console.log(fs.existsSync('/proc/1/fd/0'), 'lives')", ok=True)
        b.expect(r.out == "2 0 1\nfalse lives\n", r, "processes, and what of init is open to it")


def test_S48_code_has_no_descriptor_memory_file_or_id_of_another():
    show = ("const fs = require('fs'), seen = {};\n"
            "for (const fd of fs.readdirSync('/proc/self/fd')) try {\n"
            "  const to = fs.readlinkSync('/proc/self/fd/' + fd); if (fd > 2) seen[fd] = to } catch {}\n"
            "console.log(JSON.stringify({ seen, ids: fs.readFileSync('/proc/self/uid_map', 'utf8').split(/\\s+/).slice(1, 4),\n"
            "  maps: fs.readFileSync('/proc/self/maps', 'utf8').split('\\n').filter((l) => l.includes('memfd')).map((l) => l.split(/\\s+/)),\n"
            "  spaces: ['user','mnt','pid','net','ipc','uts','cgroup'].map((n) => fs.readlinkSync('/proc/self/ns/' + n)) }));\n")
    with NodeZygote("const kept = require('net').createServer().listen('\\0zygote').unref();"
                    "const secret = require('fs').openSync('/root/secret', 'w+')", "--pool", "2") as z:
        held = [b.start("run", "--zygote", z.name, show + "process.stdin.resume()", stdin=-1, stdout=-1) for _ in range(2)]
        one, two = (json.loads(p.stdout.readline()) for p in held)
        for p in held:
            p.communicate(b"")
        for x in (one, two):
            check(not [to for to in x["seen"].values() if "memfd" in to or "berth" in to], x)
            check(x["maps"] and all(m[1].endswith("p") for m in x["maps"]), f"shared memory: {x}")
            check(len([to for to in x["seen"].values() if to.startswith("socket:")]) <= 1, f"its own server alone: {x}")
        check(one["ids"] != two["ids"] and not set(one["spaces"]) & set(two["spaces"]), (one, two))
        check(not {m[4] for m in one["maps"]} & {m[4] for m in two["maps"]}, "one library for both: %s %s" % (one, two))
        r = z.run("require('net').connect('\\0zygote').on('connect', () => { console.log('own'); process.exit() }).on('error', (e) => console.log(e.code))")
        b.expect(r.out == "own\n", r, "its own listener, of its own preload")


def test_S48_a_preload_that_misuses_the_socket_harms_its_own_sandbox_alone():
    needs_node()
    r = b.berth("zygote", "create", "--forks", "1", "host", NODE, "-e", "require('fs').closeSync(9)")
    b.expect(r.code == 2 and "exit status 125" in r.err, r, "it is closed")
    r = b.berth("zygote", "create", "--forks", "1", "--preload-timeout", "5s", "host", NODE, "-e",
                "require('fs').closeSync(9); for (;;);", timeout=60)
    b.expect_code(r, 124)
    for name, text in (("says that it is ready, and is not", "require('fs').writeSync(9, 'x'); for (;;);"),
                       ("floods", "const fs = require('fs'); for (;;) fs.writeSync(9, Buffer.alloc(4096))"),
                       ("sends what it is not asked for", "require('fs').writeSync(9, Buffer.alloc(65536, 255)); require('fs').closeSync(9); for (;;);")):
        with NodeZygote(text, "--pool", "1", "--forks", "2", timeout=60) as z:
            r = z.run("console.log('ran')", options=["--timeout", "500ms", "--json"], timeout=60)
            b.expect(r.code != 0 and "ran" not in r.out, r, name)
            check(z.inspect()["mode"] == "ahead", "the zygote lives")
    with NodeZygote("require('child_process').spawn('sleep', ['600'], { stdio: ['ignore', 'ignore', 'ignore'] }).unref()") as z:
        r = z.run("console.log('ran')", options=["--json"], ok=True)
        verdict = json.loads(r.out.splitlines()[1])
        b.expect(r.out.startswith("ran\n") and verdict["cause"] == "exit" and verdict["left_behind"] == 1, r, "a process of the preload ends with it")
