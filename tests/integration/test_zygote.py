# SPDX-License-Identifier: Apache-2.0
"""
berth zygote, and berth run --zygote: forks of an interpreter that waits.

Attacks S48 of SECURITY.md.
"""
import concurrent.futures
import json
import os
import signal
import socket
import subprocess

import berthtest as b
import proc
from zygotebox import PYTHON, Zygote, needs_zygotes

COST = 40


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def create(*words, **kw):
    needs_zygotes()
    return b.berth("zygote", "create", *words, **kw)


def test_a_fork_has_what_the_preload_made():
    with Zygote("import random, json\nanswer = 40") as z:
        check("42\n" == z.out("print(answer + 2)"), "the preload's variable")
        r = z.run("answer += 1; print(answer)", ok=True)
        b.expect(r.out == "41\n", r, "no earlier fork changed it")
        r = z.run("import sys; print(sys.argv[1:])", "-x", "b c", ok=True)
        b.expect(r.out == "['-x', 'b c']\n", r, "arguments of the code, of which one looks like an option")


def test_code_comes_as_a_word_a_file_or_stdin():
    path = b.write(b.tmp("code.py"), "import sys\nprint('file', sys.argv)\n")
    with Zygote() as z:
        r = b.berth("run", "--zygote", z.name, "--file", path, "one", ok=True)
        b.expect(r.out == f"file ['{path}', 'one']\n", r, "code of a file")
        r = b.berth("run", "--zygote", z.name, "--file", "-", input="print('stdin')", ok=True)
        b.expect(r.out == "stdin\n", r, "code of stdin")
        r = z.run("import sys; print(sys.stdin.read() * 2)", input="ab", ok=True)
        b.expect(r.out == "abab\n", r, "stdin for the code")
        r = z.run("print('x' * (1 << 20))", ok=True)
        b.expect(len(r.out) == (1 << 20) + 1, r, "much output")
        b.one_line_error(b.berth("run", "--zygote", z.name), 2, "no code given")
        b.one_line_error(b.berth("run", "--zygote", z.name, "--file", "/nowhere"), 125, "/nowhere")


def test_the_fork_ends_as_a_command_does():
    with Zygote("import sys, os, atexit") as z:
        for code, status in (("sys.exit(3)", 3), ("sys.exit()", 0), ("1/0", 1), ("os._exit(7)", 7),
                             ("os.kill(os.getpid(), 9)", 137), ("sys.exit('why')", 1)):
            b.expect_code(z.run(code), status)
        r = z.run("def f():\n  1/0\nf()")
        b.expect("ZeroDivisionError" in r.err and "<string>" in r.err and "_berth" not in r.err and "in run" not in r.err,
                 r, "a traceback of the code alone")
        r = z.run("atexit.register(print, 'bye'); print('hi')", ok=True)
        b.expect(r.out == "hi\nbye\n", r, "what atexit has is called")
        v = json.loads(z.run("print('x'); sys.exit(4)", options=["--json"]).out.splitlines()[-1])
        check(v["cause"] == "exit" and v["exit_code"] == 4, v)


def test_variables_directory_and_timeout_are_the_forks():
    with Zygote("import os, time", "-e", "A=1") as z:
        r = z.run("print(os.environ['A'], os.environ['B'], os.getcwd())", options=["-e", "B=2=3", "-w", "/tmp/x/y"], ok=True)
        b.expect(r.out == "1 2=3 /tmp/x/y\n", r, "variables and directory")
        r = z.run("time.sleep(600)", options=["--timeout", "200ms", "--json"], timeout=30)
        b.expect(r.code == 124 and json.loads(r.out)["cause"] == "timeout", r, "its own timeout")
        b.expect_code(z.run("print(1)"), 0)


def test_limits_are_the_forks_own():
    with Zygote("import os", "--memory", "64m", "--pids", "20", "--disk", "8m") as z:
        r = z.run("x = bytearray(200 << 20)\nprint('all')", options=["--json"], timeout=60)
        b.expect(json.loads(r.out.splitlines()[-1])["cause"] == "oom", r, "the memory limit")
        r = z.run("n = 0\ntry:\n  while True:\n    if os.fork() == 0: os.read(0, 1); os._exit(0)\n    n += 1\n"
                  "except BlockingIOError: print(n)", timeout=60)
        b.expect(0 < int(r.out) < 20, r, "the pids limit")
        r = z.run("try:\n  open('/root/x', 'wb').write(bytes(64 << 20))\nexcept OSError as e: print(e.errno)", ok=True)
        b.expect(r.out == "28\n", r, "the disk limit")
        b.expect_code(z.run("print(1)"), 0)


def test_a_fork_has_its_own_ids_clock_host_and_files():
    code = ("import os, socket, time\n"
            "print([os.stat('/proc/self/ns/' + n).st_ino for n in ('user','mnt','pid','net','ipc','uts','cgroup','time')])\n"
            "print(open('/proc/self/uid_map').read().split()[2], os.getuid(), os.listdir('/proc/self/fd') != [], time.monotonic())\n"
            "print(sorted(os.listdir('/root')), sorted(os.listdir('/tmp')))\n"
            "open('/root/mine', 'w').close(); open('/tmp/mine', 'w').close()")
    with Zygote("open('/root/preload', 'w').close(); open('/tmp/preload', 'w').close()", "--pool", "2") as z:
        here = {os.stat("/proc/self/ns/" + n).st_ino for n in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")}
        zygote = {os.stat(f"/proc/{z.pid()}/ns/" + n).st_ino for n in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")}
        for _ in range(4):
            r = z.run(code, ok=True)
            spaces, ids, files = r.out.splitlines()
            spaces = json.loads(spaces)
            b.expect(len(set(spaces)) == 8 and not set(spaces) & (here | zygote), r, "eight namespaces of its own")
            count, uid, _, clock = ids.split()
            b.expect(count == "65536" and uid == "0" and float(clock) < 60, r, "ids and clock")
            b.expect(files == "[] []", r, "files of the zygote or of an earlier fork")


DRAW = """
import ssl
def hello():
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    s = ssl.create_default_context().wrap_bio(i, o, server_hostname="a.example")
    try: s.do_handshake()
    except ssl.SSLWantReadError: pass
    return o.read()[11:43].hex()
import json
print(json.dumps([[random.random(), made.gauss(0, 1), str(uuid.uuid1()), str(uuid.uuid4()), secrets.token_hex(8),
                   tempfile.mktemp(), hello(), random.getrandbits(64), ssl.RAND_bytes(8).hex(),
                   NUMPY] for _ in range(4)]))
"""


@b.deadline(240)
def test_no_two_forks_draw_the_same():
    """1,000 draws: of Python's random, generators that the preload made, uuid, secrets, tempfile, ssl and numpy."""
    preload = ("import random, uuid, tempfile, ssl, secrets, json\n"
               "made = random.Random(7); random.seed(1); tempfile.mktemp(); uuid.uuid1(); ssl.RAND_bytes(8); uuid.getnode()\n"
               "try:\n  import numpy; numpy.random.seed(2); rng = numpy.random.default_rng(3)\n"
               # of a pair of normal numbers the second is kept for the next call
               "  old = numpy.random.RandomState(4); other = numpy.random.RandomState(numpy.random.PCG64(5))\n"
               "  old.normal(); other.normal(); numpy.random.normal(); made.gauss(0, 1)\n"
               "except ImportError: numpy = None")
    with Zygote(preload, "--pool", "4") as z:
        numpy = z.out("print(numpy is not None)") == "True\n"
        code = DRAW.replace("NUMPY", "old.normal(), other.normal(), numpy.random.normal(), numpy.random.random(), rng.random()" if numpy else "secrets.token_hex(8)")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            rows = [row for out in pool.map(lambda _: z.out(code), range(25)) for row in json.loads(out)]
        values = [str(v) for row in rows for v in row]
        check(len(values) >= 1000, f"{len(values)} draws")
        check(len(set(values)) == len(values), [v for v in values if values.count(v) > 1][:4])


def test_what_the_preload_froze_or_seeds_from_is_drawn_anew():
    preload = ("import gc, random\nmade = random.Random(1)\ntry:\n  import numpy\n"
               "  rng = numpy.random.default_rng(2); seeds = numpy.random.SeedSequence(3)\nexcept ImportError: numpy = None\n"
               "if numpy: child = seeds.spawn(1)[0]\ngc.collect(); gc.freeze()")
    code = ("print(made.random())\nif numpy:\n"
            "  print(rng.normal())\n"
            "  for s in rng.bit_generator._seed_seq.spawn(2) + seeds.spawn(2) + [child]: print(numpy.random.default_rng(s).random())")
    with Zygote(preload, "--memory", "256m") as z:
        drawn = [line for _ in range(6) for line in z.out(code).splitlines()]
    check(len(drawn) in (6, 42) and len(set(drawn)) == len(drawn), drawn)


def test_a_preload_that_fails_hangs_or_cannot_be_forked_is_told():
    base = ("--forks", "1", "host", PYTHON, "-c")
    r = create(*base, "print('words'); 1/0")
    b.expect(r.code == 2 and "ZeroDivisionError" in r.err and "words" in r.err and "exit status 1" in r.err, r, "it fails")
    r = create("--preload-timeout", "300ms", *base, "import time; time.sleep(600)")
    b.expect(r.code == 124 and "--preload-timeout" in r.err, r, "it hangs")
    r = create(*base, "import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True).start()")
    b.one_line_error(r, 2, "2 threads")
    r = create(*base, "import mmap; m = mmap.mmap(-1, 4096)")
    b.one_line_error(r, 2, "shares memory")
    r = create(*base, "import subprocess; p = subprocess.Popen(['sleep', '600'])")
    b.one_line_error(r, 2, "started a process")
    r = create("--memory", "32m", *base, "x = bytearray(200 << 20)")
    b.expect(r.code == 2 and "killed" in r.err, r, "its memory limit")
    b.one_line_error(create("host", "/nowhere/python3", "-c", ""), 127, "not found")
    b.one_line_error(create("host", "perl", "-e", ""), 125, "zygotes are of Python and node")
    b.one_line_error(create("--network", "bridge", "host", PYTHON), 125, "no network")
    b.one_line_error(create("--seccomp", "unconfined", "host", PYTHON), 125, "filters")
    b.one_line_error(create("--pool", "3", "--forks", "2", "host", PYTHON), 2, "--pool 3 is more")
    b.one_line_error(create("--forks", "129", "host", PYTHON), 2, "129")
    check(json.loads(b.berth("zygote", "ls", "--json", ok=True).out) == [], "nothing is left")


def test_ls_inspect_rm_and_refusals():
    with Zygote("x = 1", "--pool", "2", "--forks", "3") as z:
        one = [j for j in json.loads(b.berth("zygote", "ls", "--json", ok=True).out) if j["id"] == z.id]
        check(one and one[0]["name"] == z.name and one[0]["pool"] == 2 and one[0]["forks"] == 3, one)
        check(z.name in b.berth("zygote", "ls", ok=True).out, "the table")
        b.wait_for(lambda: len(z.alive()) == 2, 20, "the pool")
        check(set(z.alive()) <= set(b.berth("ps", "-q", ok=True).out.split()), "forks are sandboxes")
        b.one_line_error(b.berth("run", "--zygote", "no-such", "1"), 125, "no-such", "not found")
        r = b.berth("run", "--zygote", z.name, "--memory", "1g", "print(1)")
        b.expect(r.code == 2 and "those of the zygote" in r.err, r, "limits are the zygote's")
        b.one_line_error(b.berth("run", "--file", "x", "host", "true"), 2, "--zygote")
        for words in (["exec", z.name, "true"], ["sh", z.name, "true"], ["stop", z.name], ["top", z.name]):
            b.one_line_error(b.berth(*words), 125, "is a zygote", f"hint: berth run --zygote {z.id} CODE")
        b.one_line_error(b.berth("checkpoint", z.name), 125, "does not last, and has no checkpoints")
        other = b.berth("create", "host", ok=True).out.strip()
        b.one_line_error(b.berth("run", "--zygote", other, "1"), 2, "not a zygote")
        b.one_line_error(b.berth("zygote", "rm", other), 2, "not a zygote")
        b.berth("rm", "-f", other, ok=True)
        b.expect_code(b.berth("zygote", "rm", z.name), 0)
        b.one_line_error(b.berth("run", "--zygote", z.name, "1"), 125, "not found")


def test_forks_are_bounded_and_a_free_one_is_waited_for():
    with Zygote("import time, sys", "--pool", "0", "--forks", "2") as z:
        held = [b.start("run", "--zygote", z.name, "print('up', flush=True); sys.stdin.read()", stdin=-1, stdout=-1) for _ in range(2)]
        for p in held:
            b.read_until(p.stdout, b"up")
        late = b.start("run", "--zygote", z.name, "print('late')", stdout=-1)
        b.wait_for(lambda: len(z.alive()) == 2, 10, "two forks")
        held[0].communicate(b"")
        out, _ = late.communicate(timeout=30 * b.SLOW)
        check(out == b"late\n" and late.returncode == 0, "the third runs when the first has ended")
        held[1].communicate(b"")


@b.deadline(120)
def test_clients_at_once_all_get_a_fork_of_a_small_zygote():
    """Two forks that are made at a time take more of the zygote's namespaces than two that live."""
    with Zygote("import sys", "--pool", "0", "--forks", "2") as z:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda n: z.run(f"print({n})"), range(40)))
    for n, r in enumerate(results):
        b.expect(r.code == 0 and r.out == f"{n}\n", r, "a fork for each")


def queued(*words):
    """A run that waits for a fork: it has asked, and polls."""
    p = b.start("run", "--zygote", *words, stdout=-1, stderr=-1)

    def polls():
        with open(f"/proc/{p.pid}/syscall") as f:
            return f.read().startswith("7 ")
    b.wait_for(polls, 20, "a run that waits")
    return p


@b.deadline(120)
def test_runs_that_wait_get_their_forks_in_order():
    with Zygote("import sys, time", "--pool", "0", "--forks", "1") as z:
        first = b.start("run", "--zygote", z.name, "print('on', flush=True); sys.stdin.read()", stdin=-1, stdout=-1)
        b.read_until(first.stdout, b"on")
        # more than a queue of 128 holds, and all of them give up
        path = os.path.join(b.root(), "run", "sandboxes", z.id, "zygote.sock")
        gone = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(150)]
        for s in gone:
            s.setblocking(False)
            s.connect(path)
        for s in gone:
            s.close()
        # its descriptors stay in the queue until its turn has come
        with open(b.tmp("late"), "w") as f:
            late = b.start("run", "--zygote", z.name, "--queue-timeout", "200ms", "print(1)", stdout=f, stderr=f)
            late.wait(timeout=60)
        with open(b.tmp("late")) as f:
            said = f.read()
        check(late.returncode == 125 and "was free within 0.2 s" in said and "--queue-timeout" in said and "--forks" in said, said)
        b.one_line_error(z.run("1", options=("--queue-timeout", "0")), 2, "queue-timeout 0 is too short")
        b.one_line_error(b.berth("run", "--queue-timeout", "1s", "host", "true"), 2, "--queue-timeout goes with --zygote")
        ps = [queued(z.name, "--queue-timeout", "100s", "print(time.time_ns())") for _ in range(20)]
        ps[7].kill()
        first.communicate(b"")
        got = []
        for p in ps:
            out, err = p.communicate(timeout=100)
            check(p is ps[7] or p.returncode == 0, err)
            got += [int(out)] if p is not ps[7] else []
        check(len(got) == 19 and got == sorted(got), got)


@b.deadline(120)
def test_runs_wait_for_room_on_the_host_beside_other_forks():
    os.environ["BERTH_CONFIG"] = b.write(b.tmp("berth.toml"), "[manager]\nmax_sandboxes = 3\n")
    with Zygote("import sys", "--pool", "0", "--forks", "8") as z:
        ps = [b.start("run", "--zygote", z.name, "--queue-timeout", "100s", "print('done')", stdout=-1, stderr=-1) for _ in range(20)]
        got = [p.communicate(timeout=100) for p in ps]
        check(all(out == b"done\n" for out, _ in got), got)


def test_a_client_hears_why_no_fork_can_be_made():
    where = b.tmpdir("gone")
    with Zygote("import sys", "--pool", "0", "--forks", "1", "-v", f"{where}:/gone") as z:
        os.rmdir(where)
        r = z.run("print(1)", timeout=60)
        b.expect(r.code == 125 and where in r.err and "has ended" not in r.err, r, "the reason")


def test_one_fork_at_a_time_is_enough():
    with Zygote("", "--forks", "1") as z:
        for _ in range(3):
            check(z.out("print(1)") == "1\n", "one after another")


def test_a_limit_of_silence_is_enforced():
    with Zygote("import time", "--max-silent-time", "6s") as z:
        r = z.run("print(1, flush=True); time.sleep(600)", options=["--json"], timeout=60)
        b.expect(r.code == 124 and r.out.startswith("1\n") and json.loads(r.out.splitlines()[1])["cause"] == "silent", r,
                 "it was silent for too long")
        check(z.out("print(1)") == "1\n", "code that is not silent")


def test_a_signal_and_the_end_of_the_client_reach_the_fork():
    with Zygote("import signal, time, sys") as z:
        code = ("signal.signal(signal.SIGTERM, lambda *a: (print('term', flush=True), sys.exit(5)))\n"
                "print('up', flush=True); time.sleep(600)")
        p = b.start("run", "--zygote", z.name, code, stdout=-1)
        b.read_until(p.stdout, b"up")
        p.send_signal(signal.SIGTERM)
        out, _ = p.communicate(timeout=20 * b.SLOW)
        check(b"term" in out and p.returncode == 5, (out, p.returncode))
        p = b.start("run", "--zygote", z.name, "print('up', flush=True); time.sleep(600)", stdout=-1)
        b.read_until(p.stdout, b"up")
        before = set(z.alive())
        p.kill()
        p.communicate()
        b.wait_for(lambda: not before & set(z.alive()) or len(z.alive()) == 1, 20, "the fork of a client that died")


@b.deadline(120)
def test_kill_9_of_any_supervisor_leaves_nothing():
    with Zygote("import time", "--pool", "2") as z:
        b.wait_for(lambda: len(z.alive()) == 2, 20, "the pool")
        _, forks = z.supervisors()
        os.kill(forks[0], signal.SIGKILL)
        b.gc()
        check(z.out("print(1)") == "1\n", "another fork serves")
        os.kill(z.pid(), signal.SIGKILL)
        b.wait_for(lambda: z.id not in b.berth("ps", "-q", ok=True).out, 20, "the zygote's end")
        b.one_line_error(z.run("1"), 125, "not found")
    with Zygote("import time", "--pool", "2") as z:
        b.wait_for(lambda: len(z.alive()) == 2, 20, "the pool")
        p = b.start("run", "--zygote", z.name, "print('up', flush=True); time.sleep(600)", stdout=-1)
        b.read_until(p.stdout, b"up")
        top, forks = z.supervisors()
        os.kill(top, signal.SIGKILL)
        p.communicate(timeout=30 * b.SLOW)
        check(p.returncode != 0, "the fork ends with its zygote")
        b.wait_for(lambda: not any(proc.alive(pid) for pid in forks), 20, "the forks' supervisors end")
        b.gc()


def test_users_volumes_and_read_only_roots_are_those_of_a_sandbox():
    where = b.tmpdir("rw", 0o777)
    b.berth("volume", "create", "zv", ok=True)
    try:
        with Zygote("import os", "--user", "nobody", "-v", f"{where}:/rw:rw", "-v", "zv:/data:rw") as z:
            for n in (1, 2):
                r = z.run(f"open('/rw/{n}', 'w').close(); open('mine', 'w').close(); os.mkdir('/tmp/x')\n"
                          "print(os.getuid() != 0, os.getcwd(), sorted(os.listdir('/rw')))\n"
                          "try: os.setuid(0)\nexcept PermissionError: print('not root')", ok=True)
                check(r.out == f"True /workspace {[str(i) for i in range(1, n + 1)]}\nnot root\n", r.out)
        with Zygote("import os", "-v", "zv:/data:rw", "--read-only") as z:
            z.run("open('/data/x', 'w').write('kept')", ok=True)
            check(z.out("print(open('/data/x').read())") == "kept\n", "the volume is shared")
            b.expect_code(z.run("open('/root/x', 'w')"), 1)
    finally:
        b.berth("volume", "rm", "zv")


def test_stdio_runs_code_in_a_fork():
    with Zygote("import sys, os, time\nmade = 6", "--pool", "2") as z:
        p = b.start("stdio", stdin=-1, stdout=-1)

        def send(**rq):
            p.stdin.write(json.dumps(rq).encode() + b"\n")
            p.stdin.flush()

        def answers(n):
            got = [json.loads(p.stdout.readline())]
            while "verdict" not in got[-1] and "error" not in got[-1]:
                got.append(json.loads(p.stdout.readline()))
            check(all(a["id"] == n for a in got), got)
            return got

        send(id=1, op="run", zygote=z.name, code="print(made * 7, sys.argv[1:], os.environ['A'], os.getcwd(), sys.stdin.read())",
             args=["x"], env=["A=b=c"], workdir="/tmp", stdin="in")
        got = answers(1)
        check(got[0]["started"] is True, got)
        check("".join(a["data"] for a in got if "data" in a) == "42 ['x'] b=c /tmp in\n", got)
        check(got[-1]["verdict"]["exit_code"] == 0, got)
        send(id=2, op="run", zygote=z.name, code="print('up', flush=True); time.sleep(600)")
        while b"up" not in p.stdout.readline():
            pass
        send(id=3, op="cancel", request=2)
        ended = {}
        while set(ended) != {2, 3}:  # the rest of the output may come between
            got = json.loads(p.stdout.readline())
            ended.update({got["id"]: got} if "stream" not in got else {})
        check(ended[2]["verdict"]["cause"] == "signal" and ended[3]["cancelled"], ended)
        for rq, word in (({"zygote": "none", "code": "1"}, "not found"), ({"zygote": z.name}, "no \"code\""),
                         ({"zygote": z.name, "code": "1", "env": ["x"]}, "NAME=VALUE"), ({"code": "1"}, "zygote"),
                         ({"zygote": z.name, "code": "1", "workdir": "x"}, "absolute")):
            send(id=4, op="run", **rq)
            got = answers(4)
            check(word in got[-1]["error"]["message"], got)
        send(id=5, op="run", zygote=z.name, code="sys.exit(3)", timeout_ms=60000)
        check(answers(5)[-1]["verdict"]["exit_code"] == 3, "its exit status")
        p.stdin.close()
        p.wait(20 * b.SLOW)


def test_a_limit_that_forbids_the_rehearsal_forbids_no_fork():
    """berth has the interpreter do once what each fork does, by a file in memory."""
    with Zygote("import os\nos.mkdir('here'); os.chdir('here')", "--ulimit", "fsize=0") as z:
        check(z.out("print(os.getcwd())") == "/workspace\n", "the fork runs")


# An interpreter that forks itself, and a fork that waits, as the agent's do.
PLAIN = """
import gc, os
up, wait = os.pipe(), os.pipe()
gc.collect(); gc.freeze()
pid = os.fork()
if pid == 0:
    os.close(wait[1]); os.write(up[1], b"x"); os.read(wait[0], 1); os._exit(0)
os.read(up[0], 1)
print(sum(int(l.split()[1]) for l in open(f"/proc/{pid}/smaps_rollup") if l.startswith("Private_Dirty")))
"""
RECVMSG = "47"
ROOM_KIB = 1024


def dirty_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_Dirty"))


def waiting(init):
    """The child of init that waits for its code."""
    for pid in open(f"/proc/{init}/task/{init}/children").read().split():
        if open(f"/proc/{pid}/syscall").read().split()[0] == RECVMSG:
            return pid
    return None


def test_an_idle_fork_has_little_memory_of_its_own():
    """Of its process, its init and its supervisor, beyond what a plain fork of the same interpreter writes to."""
    preload = "try: import numpy\nexcept ImportError: import json\n"
    env = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    needs_zygotes()
    plain = int(subprocess.run([PYTHON, "-c", preload + PLAIN], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout)
    with Zygote(preload) as z:
        b.wait_for(z.alive, 20, "the pool")
        with open(os.path.join(b.root(), "run", "sandboxes", z.alive()[0], "record.json")) as f:
            record = json.load(f)
        init, top = record["init_pid"], record["supervisor_pid"]
        b.wait_for(lambda: waiting(init), 20, "a fork that waits for its code")
        has = {who: dirty_kib(pid) for who, pid in (("the fork", waiting(init)), ("init", init), ("its supervisor", top))}
        check(sum(has.values()) - plain <= ROOM_KIB, f"KiB that only these have: {has}; a plain fork has {plain}")
