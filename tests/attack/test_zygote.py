# SPDX-License-Identifier: Apache-2.0
"""
Attacks S48 of SECURITY.md: a fork that reaches its zygote or another fork, and a preload that wants more than a
sandbox has.
"""
import ctypes
import json
import os
import subprocess

import berthtest as b
from zygotebox import PYTHON, Zygote, needs_zygotes

COST = 30

LIBC = """
import ctypes, errno, os, sys, json
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    ctypes.set_errno(0)
    r = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    return 0 if r >= 0 else ctypes.get_errno()
"""

# What a preload, and its forks, try; system call numbers of x86_64
TRIES = """
tried = {
  "setns": call(308, os.open("/proc/self/ns/mnt", 0), 0),
  "unshare user": call(272, 0x10000000),
  "unshare net": call(272, 0x40000000),
  "mount": call(165, b"none", b"/mnt", b"tmpfs", 0, 0),
  "clone newuser": call(56, 0x10000011, 0, 0, 0, 0),
  "clone3": call(435, 0, 0),
  "keyctl": call(250, 0, -3, 1),
  "add_key": call(248, b"user", b"x", b"y", 1, -3),
  "bpf": call(321, 0, 0, 0),
  "userfaultfd": call(323, 0),
  "io_uring": call(425, 1, 0),
  "perf": call(298, 0, 0, -1, -1, 0),
  "pidfd_getfd": call(438, 0, 0, 0),
  "open_by_handle": call(304, -1, 0, 0),
  "caps": [l.split()[1] for l in open("/proc/self/status") if l.startswith(("CapBnd", "CapPrm", "CapEff", "CapInh", "CapAmb"))],
  "privs": [l.split()[1] for l in open("/proc/self/status") if l.startswith(("NoNewPrivs", "Seccomp:"))],
}
"""


def test_S48_a_preload_and_a_fork_are_refused_what_a_sandbox_is_refused():
    r = b.berth("run", "host", PYTHON, "-c", LIBC + TRIES + "print(json.dumps(tried))", ok=True)
    sandbox = json.loads(r.out)
    b.expect(all(sandbox[k] for k in ("setns", "unshare user", "mount", "clone newuser", "keyctl")), r, "of a sandbox")
    with Zygote(LIBC + TRIES + "of_preload = tried") as z:
        r = z.run(TRIES + "print(json.dumps([of_preload, tried]))", ok=True)
        preload, fork = json.loads(r.out)
        b.expect(preload == sandbox, r, f"the preload may more than {sandbox}")
        b.expect(fork == sandbox, r, f"the fork may more than {sandbox}")


def test_S48_a_fork_sees_no_process_but_its_own():
    with Zygote(LIBC, "--pool", "3") as z:
        b.wait_for(lambda: len(z.alive()) == 3, 20, "the pool")
        r = z.run("print([p for p in os.listdir('/proc') if p.isdigit()], os.getppid())\n"
                  "hit = []\n"
                  "for p in range(2, 40000):\n"
                  "    if p != os.getpid():\n"
                  "        try: os.kill(p, 0); hit.append(p)\n"
                  "        except ProcessLookupError: pass\n"
                  "        except PermissionError: hit.append(p)\n"
                  "print(hit, call(101, 16, 1, 0, 0), [os.path.exists(f'/proc/1/{x}/0') for x in ('fd',)])\n"
                  "for s in (9, 15, 11):\n"
                  "    try: os.kill(1, s)\n"
                  "    except PermissionError: pass\n"
                  "print('lives')", ok=True)
        pids, rest, lives = r.out.splitlines()
        b.expect(pids == f"['1', '{json.loads(z.out('print(os.getpid())'))}'] 1", r, "the processes that it sees")
        hit, trace, fds = rest.rsplit(" ", 2)
        b.expect(hit == "[]" and trace != "0" and fds == "[False]" and lives == "lives", r, "signals, ptrace and descriptors")


def test_S48_a_fork_has_no_descriptor_or_file_of_the_zygote():
    preload = LIBC + """
import socket, mmap, fcntl
kept = [open("/root/secret", "w+"), socket.socketpair(), os.pipe(), os.memfd_create("x"), os.open("/", os.O_RDONLY)]
kept[0].write("secret"); kept[0].flush()
private = mmap.mmap(kept[0].fileno(), 6, mmap.MAP_PRIVATE)
os.unlink("/root/secret")
watch = libc.inotify_init1(0)
fcntl.flock(kept[0], fcntl.LOCK_EX)
"""
    with Zygote(preload) as z:
        r = z.run("""
found = []
for fd in range(3, 1024):
    try: os.fstat(fd); found.append(fd)
    except OSError: pass
print(found)
for name in os.listdir("/proc/self/map_files") if os.path.exists("/proc/self/map_files") else []:
    try: os.open("/proc/self/map_files/" + name, os.O_RDONLY); print("opened", name); break
    except OSError: pass
for link in ("root", "cwd"): print(os.readlink("/proc/self/" + link))
print(os.path.exists("/root/secret"), os.listdir("/dev/shm"), os.listdir("/dev/mqueue"))
""", ok=True)
        b.expect(r.out.splitlines() == ["[]", "/", "/workspace", "False [] []"], r, "what is left of the zygote's files")


def test_S48_two_forks_share_no_lock_and_see_no_access_by_the_program_file():
    """/proc/self/exe leads to the zygote's program, in a mount of the zygote."""
    if not os.path.exists("/sys/kernel/security") or b.berth("run", "--attest", "host", "true").err.count("landlock") == 0:
        raise b.skip("needs Landlock")
    with Zygote(LIBC + "import fcntl, time, select", "--pool", "2") as z:
        r = z.run("""
out = []
for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_TRUNC):
    for path in ("/proc/self/exe", "/proc/1/exe", "/proc/thread-self/exe"):
        try: fcntl.flock(os.open(path, flags), fcntl.LOCK_EX); out.append(path)
        except OSError: pass
fd = os.open("/proc/self/exe", os.O_PATH)
for how in (lambda: fcntl.flock(fd, fcntl.LOCK_EX), lambda: os.open(f"/proc/self/fd/{fd}", os.O_RDONLY),
            lambda: os.execv("/proc/self/exe", ["python3", "-c", "print('executed')"])):
    try: how(); out.append("by O_PATH")
    except OSError: pass
print(out)
""", ok=True)
        b.expect(r.out == "[]\n", r, "it opened the zygote's program file")
        hear = b.start("run", "--zygote", z.name, "i = libc.inotify_init1(0)\n"
                       "print(libc.inotify_add_watch(i, b'/proc/self/exe', 0xfff) >= 0, flush=True)\n"
                       "sys.stdin.readline()\nprint(select.select([i], [], [], 0)[0] == [])", stdin=-1, stdout=-1)
        b.read_until(hear.stdout, b"\n")
        z.run("os.stat('/proc/self/exe')\ntry: open('/proc/self/exe')\nexcept OSError: pass\n"
              "try: os.execv('/proc/self/exe', ['x'])\nexcept OSError: pass", ok=True)
        out, _ = hear.communicate(b"\n", timeout=20 * b.SLOW)
        b.expect(out == b"True\n", r, f"a fork sees what another does: {out}")


def test_S48_abstract_sockets_shared_memory_and_queues_are_the_forks_own():
    with Zygote(LIBC + "import socket, time\ns = socket.socket(socket.AF_UNIX); s.bind('\\0zygote'); s.listen()\n"
                "libc.shmget(7, 4096, 0o1666)\n", "--pool", "2") as z:
        hold = b.start("run", "--zygote", z.name, "t = socket.socket(socket.AF_UNIX); t.bind('\\0fork'); t.listen()\n"
                       "print(libc.shmget(8, 4096, 0o1666) >= 0, flush=True); sys.stdin.read()", stdin=-1, stdout=-1)
        b.read_until(hold.stdout, b"True")
        r = z.run("for name in ('\\0zygote', '\\0fork'):\n"
                  "    try: socket.socket(socket.AF_UNIX).connect(name); print('reached')\n"
                  "    except OSError as e: print(e.errno)\n"
                  "print([libc.shmget(k, 4096, 0) for k in (7, 8)], os.listdir('/sys/class/net') if os.path.exists('/sys/class/net') else [])",
                  ok=True)
        b.expect(r.out.startswith("111\n111\n[-1, -1]"), r, "it reaches the zygote or another fork")
        hold.communicate(b"")


def test_S48_flags_that_a_preload_smuggles_into_its_fork_have_no_effect():
    """CLONE_UNTRACED, CLONE_VM, CLONE_NEWUSER, CLONE_PARENT and others, in place of fork(2)."""
    preload = LIBC + """
def fork():
    return libc.syscall(56, 0x00800000 | 0x100 | 0x10000000 | 0x8000 | 0x400 | 17, 0, 0, 0, 0)
os.fork = fork
"""
    with Zygote(preload) as z:
        r = z.run(TRIES + "print(json.dumps(tried)); print(os.getppid())", ok=True)
        plain = json.loads(b.berth("run", "host", PYTHON, "-c", LIBC + TRIES + "print(json.dumps(tried))", ok=True).out)
        b.expect(json.loads(r.out.splitlines()[0]) == plain and r.out.splitlines()[1] == "1", r, "the fork is another one")
        check_alone(z)


# A restartable sequence that spans nearly all memory, and so berth's page too: the kernel would jump from there to ABORT,
# which makes two calls that the filters refuse and goes back.  The fork is asked for by `fork`.
SEQUENCE = LIBC + """
import struct
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
BASE = 0x20000000
assert libc.mmap(BASE, 0x4000, 7, 0x32, -1, 0) == BASE
def put(at, data): ctypes.memmove(BASE + at, data, len(data))
def calls(i, nr, a, b, c):
    return (b"\\x48\\xc7\\xc0" + struct.pack("<i", nr) + b"\\x48\\xc7\\xc7" + struct.pack("<i", a) + b"\\x48\\xc7\\xc6"
            + struct.pack("<i", b) + b"\\x48\\xc7\\xc2" + struct.pack("<i", c) + b"\\x0f\\x05\\x48\\x89\\x04\\x25"
            + struct.pack("<i", BASE + 0x3000 + 8 * i))
put(0, struct.pack("<I", 0x53053053) + calls(0, 250, 0, -3, 1) + calls(1, 323, 1, 0, 0) + b"\\x48\\x8d\\x43\\xc0\\xff\\xe0")
fork = (b"\\x64\\x48\\x8b\\x04\\x25\\0\\0\\0\\0\\x48\\x05" + struct.pack("<i", ctypes.c_long.in_dll(libc, "__rseq_offset").value)
        + b"\\x48\\xc7\\xc1" + struct.pack("<i", BASE + 0x2000) + b"\\x48\\x89\\x48\\x08")
put(0x2000, struct.pack("<IIQQQ", 0, 0, BASE + 0x1000, 0x7fffffffe000 - BASE - 0x1000, BASE + 4))
put(0x3000, struct.pack("<qq", -1, -1))
os.fork = ctypes.CFUNCTYPE(ctypes.c_int)(BASE + 0x1000)
"""


def test_S48_a_restartable_sequence_of_the_preload_runs_nothing_without_filters():
    if not hasattr(ctypes.CDLL(None), "__rseq_offset"):
        raise b.skip("needs a C library that registers restartable sequences")
    with Zygote(SEQUENCE + 'put(0x1000, fork + b"\\xb8\\x39\\0\\0\\0\\x0f\\x05\\xc3")') as z:
        for _ in range(2):
            r = z.run("print(struct.unpack('<qq', ctypes.string_at(BASE + 0x3000, 16)), os.path.exists('/proc/self/fd/4'))", ok=True)
            b.expect(r.out == "(-1, -1) False\n", r, "code of the preload called keyctl(2) or userfaultfd(2)")


def test_S48_memory_that_forks_would_allocate_and_leave_behind_is_refused():
    """Reading a hole of a memory file allocates a page: on the fork's account, for as long as the zygote lives."""
    needs_zygotes()
    fill = "import mmap, os\nf = os.memfd_create('x'); os.ftruncate(f, 1 << 36)\n"
    for label, code in {
        "a private mapping": fill + "m = mmap.mmap(f, 1 << 36, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)",
        "a shared one to read": fill + "m = mmap.mmap(os.open(f'/proc/self/fd/{f}', os.O_RDONLY), 1 << 36, prot=mmap.PROT_READ)",
        "a segment to read": LIBC + "libc.shmat(libc.shmget(0, 1 << 30, 0o1666), None, 0o10000)",
    }.items():
        r = b.berth("zygote", "create", "--name", f"zm{os.getpid()}", "host", PYTHON, "-c", code, timeout=60)
        if r.code == 0:
            b.berth("zygote", "rm", f"zm{os.getpid()}")
        b.expect(r.code == 2 and "shared memory" in r.err, r, f"{label} is refused")


def test_S48_a_fork_that_is_called_as_i386_does_loses_its_zygote():
    with Zygote(SEQUENCE + 'put(0x1000, fork + b"\\xb8\\x39\\0\\0\\0\\xcd\\x80\\xc3")', "--pool", "0") as z:
        r = z.run("print('made')", timeout=60)
        b.expect(r.code == 125 and "made" not in r.out and "zygote" in r.err, r, "no fork, and a reason")
        b.wait_for(lambda: z.id not in b.berth("ps", "-q", ok=True).out, 20, "its end")


# As the zygote's root with all capabilities, on a kernel without Landlock
OWNER = """
import ctypes, os, sys
if ctypes.CDLL(None).setns(os.open(f"/proc/{sys.argv[1]}/ns/user", 0), 0x10000000): sys.exit("setns")
os.setgroups([]); os.setresgid(0, 0, 0); os.setresuid(0, 0, 0)
for file in ("mem", "root", "fd/0"):
    try: os.open(f"/proc/{sys.argv[2]}/{file}", os.O_RDONLY); print(file)
    except OSError: pass
"""


def test_S48_the_owner_of_a_forks_user_namespace_cannot_trace_its_init():
    with Zygote("x = 1") as z:
        b.wait_for(lambda: len(z.alive()) == 1, 20, "the pool")
        hold = b.start("run", "--zygote", z.name, "print(1, flush=True); import sys; sys.stdin.read()", stdin=-1, stdout=-1)
        b.read_until(hold.stdout, b"1")
        top = os.path.join(b.root(), "run", "sandboxes")
        inits = [json.load(open(f"{top}/{i}/record.json"))["init_pid"] for i in z.alive()]
        r = [subprocess.run(["/usr/bin/python3", "-c", OWNER, str(z.pid()), str(i)], capture_output=True, text=True, timeout=20 * b.SLOW)
             for i in inits]
        hold.communicate(b"")
        if not r or any(x.stdout or x.returncode for x in r):
            raise AssertionError(f"inits {inits}: {r}")


def check_alone(z):
    """Nothing runs in the zygote's sandbox but its process and init."""
    procs = []
    for top in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        for path, _, files in os.walk(top):
            if path.endswith("/" + z.id) and "cgroup.procs" in files:
                procs = open(path + "/cgroup.procs").read().split()
        if procs:
            break
    if len(set(procs)) != 2:
        raise AssertionError(f"processes of the zygote: {procs}")


@b.deadline(120)
def test_S48_a_preload_that_starts_something_later_loses_its_zygote():
    later = {
        "shared memory": "import mmap, signal\n"
                         "signal.signal(signal.SIGALRM, lambda *a: globals().update(m=mmap.mmap(-1, 1 << 30)))\n",
        "a memory file": "import mmap, os, signal\n"
                         "def late(*a):\n"
                         "    global m\n"
                         "    f = os.memfd_create('x'); os.ftruncate(f, 1 << 36)\n"
                         "    m = mmap.mmap(f, 1 << 36, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)\n"
                         "signal.signal(signal.SIGALRM, late)\n",
        "a vfork(2) that lasts": LIBC + "import signal, time\n"
                                 "def stick(*a):\n"
                                 "    if libc.syscall(56, 0x4000 | 17, 0, 0, 0, 0) == 0: time.sleep(600)\n"
                                 "signal.signal(signal.SIGALRM, stick)\n",
        "a thread": "import signal, threading, time\n"
                    "signal.signal(signal.SIGALRM, lambda *a: threading.Thread(target=time.sleep, args=(600,), daemon=True).start())\n",
        "a process": "import signal, subprocess\n"
                     "signal.signal(signal.SIGALRM, lambda *a: globals().update(p=subprocess.Popen(['sleep', '600'])))\n",
        "no fork": "import os\nos.fork = lambda: (_ for _ in ()).throw(OSError())\n",
        "another program": "import os\nread = os.read\nos.read = lambda *a: os.execv('/bin/sleep', ['sleep', '600'])\n",
        "its end": "import os\nos.fork = lambda: os._exit(0)\n",
    }
    for label, code in later.items():
        with Zygote(code, "--pool", "0", timeout=60) as z:
            if "SIGALRM" in code:
                os.kill(z.pid(), 14)
            r = z.run("print('made')", timeout=60)
            b.expect(r.code == 125 and "made" not in r.out and ("zygote" in r.err), r, f"{label}: no fork, and a reason")
            b.expect(len(r.err.splitlines()) == 1, r, f"{label}: one line")
            b.wait_for(lambda: z.id not in b.berth("ps", "-q", ok=True).out, 20, f"{label}: its end")
