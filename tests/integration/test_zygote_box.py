# SPDX-License-Identifier: Apache-2.0
"""
berth create --zygote, and berth code in such a sandbox: one that lives, in which a fork of a zygote waits for code.

Attacks S48 of SECURITY.md.
"""
import concurrent.futures
import json
import os
import signal

import berthtest as b
from test_mcp import Server
from zygotebox import Zygote, box, check

COST = 40


def code(name, text, *options, **kw):
    return b.berth("code", name, *options, input=text, **kw)


def out(name, text, *options):
    return code(name, text, "--quiet", *options, ok=True).out


def verdict(name, text, *options, **kw):
    return json.loads(code(name, text, "--json", *options, **kw).out)


def test_the_interpreter_keeps_its_state_from_request_to_request():
    with Zygote("import os, sys\nx = 40") as z, box(z) as n:
        check(out(n, "x += 1; print(x, os.getcwd(), os.getpid())").split()[:2] == ["41", "/workspace"], "the preload's names")
        pid = out(n, "print(os.getpid())")
        r = verdict(n, "x += 1\nprint(x); sys.stderr.write('e'); open('made', 'w').write('12')\nsys.exit(3)")
        check(r["stdout"] == "42\n" and r["stderr"] == "e" and r["exit_status"] == 3 and r["fresh"] is False, r)
        check(r["files"] == [{"change": "added", "size": 2, "path": "made"}] and r["verdict"]["cause"] == "exit", r)
        check(out(n, "print(os.getpid(), x)") == pid.strip() + " 42\n", "one interpreter")
        out(n, "os.chdir('/tmp'); import json; def_ = json.dumps")
        check(out(n, "print(os.getcwd(), def_(1), os.environ.get('A'))", "-e", "A=b") == "/tmp 1 b\n", "its directory and variables")
        r = code(n, "1/0")
        b.expect(r.code == 1 and "ZeroDivisionError" in r.err and "_berth" not in r.err and "in run" not in r.err, r, "a traceback")
        check(out(n, "import sys; print(repr(sys.stdin.read()))") == "''\n", "no stdin")
        check(out(n, "print('x' * (1 << 20))") == "x" * (1 << 20) + "\n", "much output")
        check(out(n, "print(x)") == "42\n" and out(n, "import os; print(os.getpid() != %s)" % pid, "--new") == "True\n", "--new")
        b.expect_code(code(n, "echo hi", "--lang", "sh"), 0)
        with Zygote("x = 1") as other, box(other) as m:
            check(out(m, "print(x, 'made' in __import__('os').listdir())") == "1 False\n", "another's state")


def test_the_sandbox_is_one_like_any_other():
    with Zygote("import os, time", "--memory", "96m", "--pids", "50", "-e", "GIVEN=1") as z:
        with box(z, "--label", "a=b", "--idle-timeout", "900s") as n:
            i = json.loads(b.berth("inspect", n, ok=True).out)
            check(i["labels"] == {"a": "b", "berth.zygote": z.id} and i["limits"]["memory_bytes"] == 96 << 20, i)
            check(i["idle_timeout_ms"] == 900000 and i["status"] == "running", i)
            check(z.alive().count(i["id"]) == 1, "the zygote tells of it")
            check(n in b.berth("ps", "--filter", "label=a=b", ok=True).out, "ps")
            check(b.berth("exec", n, "sh", "-c", "echo $GIVEN; id -u; cat /proc/sys/kernel/hostname", ok=True).out == "1\n0\nsandbox\n", "exec")
            b.berth("sh", n, "cd /tmp; export Y=2", ok=True)
            check(b.berth("sh", n, "echo $PWD $Y", ok=True).out == "/tmp 2\n", "a shell")
            b.berth("cp", b.write(b.tmp("in"), "copied"), f"{n}:/workspace/in", ok=True)
            check(out(n, "print(open('in').read())") == "copied\n", "cp")
            events = b.berth("events", "--json", ok=True).out
            mine = [json.loads(e) for e in events.splitlines() if i["id"] in e]
            kinds = [e["event"] for e in mine]
            check(kinds[:2] == ["create", "start"] and "code" in kinds and "code-exit" in kinds, kinds)
            check(mine[0]["zygote"] == z.id and mine[0]["labels"] == {"a": "b"}, mine[0])
            r = verdict(n, "x = bytearray(200 << 20)", timeout=60)
            check(r["verdict"]["cause"] == "oom" and r["exit_status"] == 137, r)
            r = verdict(n, "print(1)")
            check(r["fresh"] and r["stdout"] == "1\n", r)
            r = code(n, "os._exit(7)")
            b.expect_code(r, 7)
            r = code(n, "print(2)", ok=True)
            b.expect("this one is new" in r.err and r.out == "2\n", r, "it is told that the state is gone")
        check(n not in b.berth("ps", "-a", ok=True).out and z.alive() == [i for i in z.alive() if i != n], "removed")
        check(["rm" in e for e in b.berth("events", ok=True).out.splitlines()], "the event of its end")


def test_a_stop_a_start_a_checkpoint_and_a_fork_begin_a_new_interpreter():
    with Zygote("x = 1") as z, box(z) as n:
        out(n, "x = 2; open('a', 'w').write('a')")
        b.berth("checkpoint", n, ok=True)
        out(n, "x = 3; open('b', 'w').write('b')")
        b.berth("undo", n, ok=True)
        check(out(n, "import os; print(x, os.listdir())") == "1 ['a']\n", "undo")
        out(n, "x = 4")
        b.berth("stop", n, ok=True, timeout=30)
        b.one_line_error(code(n, "1"), 125, "is not running")
        check(b.berth("cp", f"{n}:/workspace/a", b.tmp("a"), ok=True).code == 0, "the files of a stopped one")
        check(open(b.tmp("a")).read() == "a", "its owner's file")
        check(code(n, "import os; print(x, os.stat('a').st_uid, open('a').read())", "--start", "--quiet", ok=True).out == "1 0 a\n",
              "a start, in another place of the zygote")
        b.berth("fork", "--name", f"{n}-2", n, ok=True)
        try:
            check(out(f"{n}-2", "import os; print(x, os.stat('a').st_uid, open('a').read())") == "1 0 a\n", "a fork")
        finally:
            b.berth("rm", "-f", f"{n}-2")
        b.berth("pause", n, ok=True)
        b.one_line_error(code(n, "1"), 125, "paused")
        b.berth("resume", n, ok=True)
        check(out(n, "print(x)") == "1\n", "after the pause")


def test_time_and_interrupts_end_the_code_and_not_the_state():
    with Zygote("import time, signal", "--grace", "6s") as z, box(z) as n:
        out(n, "x = 5")
        r = verdict(n, "time.sleep(600)", "--timeout", "6s", timeout=30)
        check(r["verdict"]["cause"] == "timeout" and r["exit_status"] == 124 and "KeyboardInterrupt" in r["stderr"], r)
        check(out(n, "print(x)") == "5\n", "the state is kept")
        p = b.start("code", n, stdin=-1, stdout=-1)
        p.stdin.write(b"print('up', flush=True); time.sleep(600)")
        p.stdin.close()
        b.read_until(p.stdout, b"up")
        p.send_signal(signal.SIGINT)
        p.wait(30 * b.SLOW)
        check(out(n, "print(x)") == "5\n", "the state is kept when a client leaves")
        r = verdict(n, "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)", "--timeout", "6s", timeout=30)
        check(r["verdict"]["cause"] == "timeout", r)
        r = verdict(n, "print('x' in globals())")
        check(r["fresh"] and r["stdout"] == "False\n", r)


def test_requests_of_several_clients_take_turns():
    with Zygote("n = 0\nimport time") as z, box(z) as name:
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            got = list(pool.map(lambda _: out(name, "m = n; time.sleep(0.02); n = m + 1; print(n)"), range(12)))
        check(sorted(int(g) for g in got) == list(range(1, 13)), got)


def test_the_end_of_the_zygote_ends_it_and_a_new_one_of_its_name_starts_it_again():
    with Zygote("x = 1") as z, box(z) as n:
        out(n, "open('a', 'w').write('a')")
        b.berth("zygote", "rm", z.name, ok=True, timeout=60)
        b.wait_for(lambda: "stopped" in b.berth("ps", "-a", "--filter", f"name={n}", ok=True).out, 20, "its end")
        b.one_line_error(b.berth("start", n), 125, "the zygote of the sandbox has ended")
        b.berth("cp", f"{n}:/workspace/a", b.tmp("b"), ok=True)
        b.berth("zygote", "create", "--name", z.name, "host", "/usr/bin/python3", "-c", "x = 7", ok=True, timeout=60)
        b.berth("start", n, ok=True)
        check(out(n, "print(x, open('a').read())") == "7 a\n", "a new zygote, the old files")


@b.deadline(120)
def test_kill_9_of_the_keeper_or_the_zygote_leaves_nothing_and_frees_the_place():
    with Zygote("import time", "--forks", "2", "--pool", "0") as z:
        for _ in range(3):
            with box(z) as n:
                os.kill(json.loads(b.berth("inspect", n, ok=True).out)["supervisor_pid"], signal.SIGKILL)
                b.wait_for(lambda: "running" not in b.berth("ps", "-a", "--filter", f"name={n}", ok=True).out, 20, "its end")
        with box(z) as n:
            os.kill(json.loads(b.berth("inspect", z.name, ok=True).out)["supervisor_pid"], signal.SIGKILL)
            b.wait_for(lambda: "stopped" in b.berth("ps", "-a", "--filter", f"name={n}", ok=True).out, 20, "its end")
        b.gc()


def test_places_are_bounded_and_refusals_help():
    with Zygote("x = 1", "--forks", "1", "--pool", "0") as z, box(z) as n:
        b.one_line_error(b.berth("create", "--zygote", z.name), 125, "all 1 places")
        b.one_line_error(b.berth("create", "--zygote", "none"), 125, "'none' not found")
        b.one_line_error(b.berth("create", "--zygote", n), 2, "is not a zygote")
        b.one_line_error(b.berth("create", "--zygote", z.name, "host"), 2, "one word too many")
        for option in (("--memory", "64m"), ("-e", "A=b"), ("--network", "bridge"), ("--service",), ("--user", "1")):
            b.one_line_error(b.berth("create", "--zygote", z.name, *option), 2, "cannot be given with --zygote")
        b.one_line_error(code(n, "1", "--user", "1"), 2, "--new")
        b.one_line_error(code(n, "1", "--keep"), 2, "--new")
        r = json.loads(b.berth("create", "--zygote", z.name, "--json").err)
        check("places" in r["error"]["message"], r)


def test_users_and_volumes_are_those_of_the_zygote():
    where = b.tmpdir("rw", 0o777)
    with Zygote("import os", "--user", "nobody", "-v", f"{where}:/rw:rw") as z, box(z) as n:
        check(out(n, "open('/rw/a', 'w').close(); open('mine', 'w').close(); print(os.getuid() != 0)") == "True\n", "its user")
        check(b.berth("exec", n, "ls", "/rw", "mine", ok=True).out == "mine\n\n/rw:\na\n", "its volume")


def test_code_of_a_zygote_has_a_sandbox_of_its_own_that_goes():
    with Zygote("import os, time\nx = 1") as z:
        r = b.berth("code", "--zygote", z.name, "-e", "A=b", input="x += 1; print(x, os.environ['A'], os.getcwd()); open('f', 'w').write('abc')", ok=True)
        b.expect(r.out == "2 b /workspace\n" and "added f (3 bytes)" in r.err, r, "its output and its files")
        read, write = os.pipe()
        r = b.berth("code", "--zygote", z.name, "--json", "--status-fd", str(write), input="print(x, os.listdir()); os._exit(6)", pass_fds=(write,))
        os.close(write)
        told = json.loads(os.read(read, 65536))
        os.close(read)
        j = json.loads(r.out)
        check(j["stdout"] == "1 []\n" and j["exit_status"] == 6 and j["files"] == [] and r.code == 6, j)
        check(told == j["verdict"] and told["cause"] == "exit", told)
        r = b.berth("code", "--zygote", z.name, "--timeout", "200ms", "--json", input="time.sleep(600)", timeout=30)
        check(json.loads(r.out)["verdict"]["cause"] == "timeout" and r.code == 124, r.out)
        for options in (("--lang", "sh"), ("--user", "1"), ("--keep",), ("--start",), ("--new",), ("some",)):
            b.one_line_error(b.berth("code", "--zygote", z.name, *options, input="1"), 2, "--zygote")
        b.one_line_error(b.berth("code", "--zygote", "none", input="1"), 125, "'none' not found")
        p = b.start("code", "--zygote", z.name, stdin=-1, stdout=-1)
        p.stdin.write(b"print('up', flush=True); time.sleep(600)")
        p.stdin.close()
        b.read_until(p.stdout, b"up")
        b.wait_for(lambda: len(z.alive()) == 2, 20, "it and a fork that waits")
        p.send_signal(signal.SIGKILL)
        p.wait(30 * b.SLOW)
        b.wait_for(lambda: len(z.alive()) == 1 and z.name not in z.alive(), 20, "its end with its client")
        left = [line for line in b.berth("ps", "-aq", ok=True).out.split() if line != z.id and line not in z.alive()]
        check(not left, left)


def test_mcp_runs_code_in_the_interpreter_of_a_zygote():
    with Zygote("import json\nx = 40") as z:
        s = Server("--zygote", z.name, "--idle-timeout", "600s")
        try:
            for want in ("41\n", "42\n"):
                check(s.call("run_code", code="x += 1; print(x)")["structuredContent"]["stdout"] == want, want)
            check(s.call("run_command", command="echo hi")["structuredContent"]["stdout"] == "hi\n", "a command")
            box = [i for i in z.alive() if i in b.berth("ps", "-q", "--filter", f"label=berth.zygote={z.id}", ok=True).out]
            check(box, "its sandbox")
            made = s.call("sandbox_create", name="more")["structuredContent"]
            check(s.call("run_code", code="print(x)", sandbox="more")["structuredContent"]["stdout"] == "40\n", made)
        finally:
            s.close()
        b.wait_for(lambda: len(z.alive()) <= 1, 20, "its sandboxes go with the client")
        for options, words in ((("--image", "host"), "--image"), (("--memory", "64m"), "--memory cannot be given")):
            b.one_line_error(b.berth("mcp", "--zygote", z.name, *options, input=""), 2, words)
        b.one_line_error(b.berth("mcp", "--zygote", "none", input=""), 125, "not found")


def test_a_fork_of_a_sandbox_may_not_take_more_than_its_zygote_promised_uncounted():
    config = b.write(b.tmp("berth.toml"), "[admission]\nmemory = \"700m\"\n")
    env = {"BERTH_CONFIG": config}
    with Zygote("x = 1", "--memory", "128m", "--forks", "3", "--pool", "0") as z, box(z) as n:
        b.berth("fork", "--name", n + "-same", n, ok=True, env=env)
        b.berth("rm", "-f", n + "-same", ok=True)
        b.one_line_error(b.berth("fork", "--name", n + "-more", "--memory", "512m", n, env=env), 125, "memory")
        b.one_line_error(b.berth("fork", "--name", n + "-net", "--network", "bridge", n), 125, "no network yet")
