# SPDX-License-Identifier: Apache-2.0
"""
Attacks S48 of SECURITY.md: hostile code in the interpreter of a sandbox that lives, before later requests come.
"""
import json
import os

import berthtest as b
from zygotebox import Zygote, box, check

COST = 30


def verdict(name, text, *options):
    return json.loads(b.berth("code", name, "--json", *options, input=text, timeout=60).out)


def keeper(name):
    return json.loads(b.berth("inspect", name, ok=True).out)["supervisor_pid"]


# its descriptors besides 0 to 2, by what they are
FDS = """
import os, stat, socket
def fds(kind):
    found = []
    for fd in map(int, os.listdir('/proc/self/fd')):
        try:
            if fd > 2 and kind(os.fstat(fd).st_mode): found.append(fd)
        except OSError: pass
    return found
"""


def test_S48_a_forged_answer_ends_only_the_request_that_it_forges():
    with Zygote("import time, threading") as z, box(z) as n:
        r = verdict(n, FDS + "os.write(fds(stat.S_ISFIFO)[-1], bytes([77]) * 4096)\nprint('early', flush=True)\ntime.sleep(0.2)\nx = 1")
        check(r["exit_status"] == 77 and r["verdict"]["cause"] == "exit", ("it says what it likes of itself", r))
        r = verdict(n, "print('second', x)\nimport sys; sys.exit(5)")
        check(r["stdout"].endswith("second 1\n") and r["exit_status"] == 5, ("the next request has a pipe of its own", r))
        # a pipe that was kept
        r = verdict(n, FDS + "kept = os.dup(fds(stat.S_ISFIFO)[-1])")
        check(r["exit_status"] == 0, ("the pipe is kept", r))
        r = verdict(n, "try: os.write(kept, bytes([66]))\nexcept OSError as e: print(e.errno)\nimport sys; sys.exit(6)")
        check(r["exit_status"] == 6, ("an old pipe says nothing of a new request", r))


def test_S48_an_answer_that_never_comes_or_closes_ends_the_interpreter():
    with Zygote("import time") as z, box(z) as n:
        r = verdict(n, FDS + "for fd in fds(stat.S_ISFIFO): os.close(fd)\ntime.sleep(600)")
        check(r["exit_status"] == 137, ("without a pipe it is killed", r))
        r = verdict(n, "import os\nos.fork() and os._exit(3)\ntime.sleep(600)")
        check(r["exit_status"] == 3 and r["fresh"], ("the leader's end, though a child has the pipe", r))
        r = verdict(n, "print(1)")
        check(r["fresh"] and r["stdout"] == "1\n", ("a new one serves", r))


def test_S48_what_is_sent_to_the_keeper_is_not_read():
    flood = FDS + """
import array
s = socket.socket(fileno=3)
s.setblocking(False)
sent = 0
try:
    while True:
        s.sendmsg([b'L' * 1000], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))]); sent += 1
except OSError as e: print(e.errno in (11, 109), 20 < sent < 2000)
"""
    with Zygote("import time") as z, box(z) as n:
        for _ in range(2):
            verdict(n, "1")
        before = len(os.listdir(f"/proc/{keeper(n)}/fd"))
        r = verdict(n, flood)
        check(r["stdout"] == "True True\n", ("bounded by its own socket", r))
        r = verdict(n, "print(2)")
        check(r["stdout"] == "2\n", ("it serves on", r))
        left = len(os.listdir(f"/proc/{keeper(n)}/fd"))
        check(left < before + 8, (f"the keeper had {before} descriptors and has {left}", r))


def test_S48_code_that_takes_the_next_request_gets_what_its_sandbox_gets():
    thief = """
import socket, threading, os
control = socket.socket(fileno=os.dup(3))
def steal():
    while True:
        data, parts, flags, peer = control.recvmsg(1, socket.CMSG_SPACE(20))
        fds = memoryview(parts[0][2]).cast('i').tolist()
        os.write(fds[1], b'stolen'); os.write(fds[4], bytes([9]))
        for fd in fds: os.close(fd)
for _ in range(8): threading.Thread(target=steal, daemon=True).start()
"""
    with Zygote("import time") as z, box(z) as n, Zygote("x = 1") as other, box(other) as m:
        verdict(n, thief)
        for _ in range(6):
            r = verdict(n, "print('run')", "--timeout", "5s")
            check((r["stdout"], r["exit_status"]) in (("stolen", 9), ("run\n", 0)), ("one answer or the other, and each ends", r))
        r = verdict(m, "print(x)")
        check(r["stdout"] == "1\n", ("another sandbox's requests are its own", r))
        r = json.loads(b.berth("code", n, "--new", "--json", input="print(1)", ok=True).out)
        check(r["stdout"] == "1\n", ("a new interpreter is nobody's but the request's", r))


def test_S48_the_files_of_requests_that_code_keeps_hold_no_memory():
    keep = ("import os\nread, kept = os.pread, []\n"
            "def pread(fd, *rest):\n    kept.append(os.dup(fd)); return read(fd, *rest)\nos.pread = pread")
    with Zygote("import os", "--memory", "64m") as z, box(z) as n:
        verdict(n, keep)
        for _ in range(3):
            r = verdict(n, "#" + "x" * (4 << 20) + "\nprint(os.fstat(kept[-1]).st_size > 4 << 20)")
            check(r["stdout"] == "True\n", ("a request has its file", r))
        r = verdict(n, "print(len(kept), [(os.fstat(f).st_size, os.fstat(f).st_blocks) for f in kept[:-1]])")
        check(r["stdout"] == f"4 {[(0, 0)] * 3}\n", ("what earlier requests left is empty", r))


FILL = """
for i in 1 2 3 4 5 6 7 8; do
    sh -c "while :; do cat /dev/zero >> /dev/shm/$i; cat /dev/zero >> /tmp/$i; done" > /dev/null 2>&1 &
done
"""


@b.deadline(240)
def test_S48_a_sandbox_that_is_out_of_memory_costs_the_zygote_nothing():
    with Zygote("big = bytearray(b'x') * (48 << 20)", "--memory", "96m", "--tmp-size", "90m", "--shm-size", "90m", "--pool", "0") as z:
        pid = z.pid()
        with box(z) as n:
            for _ in range(b.times(30, 200)):
                r = b.berth("code", "--quiet", n, input="print(1)", timeout=60)
                if r.code == 0 or "stopped" in r.err or "is not running" in r.err:
                    b.berth("start", n)     # if the kernel chose its init
                    b.berth("exec", n, "sh", "-c", FILL)
                check(os.path.exists(f"/proc/{pid}"), ("the zygote lives", r))
        with box(z) as n:
            check(verdict(n, "print(len(big))")["stdout"] == f"{48 << 20}\n", "and serves")


def test_S48_an_interpreter_reaches_no_other_place_of_its_zygote():
    look = ("import os, socket\n"
            "print(sorted(p for p in os.listdir('/proc') if p.isdigit()), os.getpid(), os.readlink('/proc/self/fd/3'))\n"
            "print([os.readlink(f'/proc/self/ns/{n}') for n in ('user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup')])\n"
            "print(open('/proc/self/status').read())")
    with Zygote("import time", "--pool", "2") as z, box(z) as n:
        r = verdict(n, look)
        lines = r["stdout"].splitlines()
        shell = b.berth("exec", n, "sh", "-c", "for n in user mnt pid net ipc uts cgroup; do readlink /proc/self/ns/$n; done; cat /proc/self/status",
                        ok=True).out
        check(all(f"'{ns}'" in lines[1] for ns in shell.split("\n")[:7]), ("the namespaces of its sandbox's commands", r))
        for key in ("CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp:"):
            of = [[ln.split()[1] for ln in text.splitlines() if ln.startswith(key)] for text in (r["stdout"], shell)]
            check(of[0] == of[1] and of[0], (f"{key}: {of}", r))
        zygote = os.readlink(f"/proc/{z.pid()}/ns/user")
        check(zygote not in lines[1], ("not the zygote's", r))
        check(len(lines[0].split("]")[0].split(",")) == 2, ("it sees init and itself", r))
