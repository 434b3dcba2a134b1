# SPDX-License-Identifier: Apache-2.0
"""D and L rows: memory, cpu, processes, disk, time; and that the end is the end.

Attacks S7, S8 of SECURITY.md.
"""
import os
import re
import signal

import berthtest as b
import proc

COST = 20
SETSID = "setsid sh -c 'sleep 1000 & sleep 1001 & wait' &"


def sh(script, *options, **kw):
    return b.run(*options, "host", "sh", "-c", script, **kw)


def py(script, *options, **kw):
    return b.run(*options, "host", "python3", "-c", script, **kw)


def is_cause(r, cause, code):
    b.expect_code(r, code)
    b.expect(r.verdict and r.verdict["cause"] == cause, r, f"expected cause {cause}")


def mine():
    """Living processes in this test's cgroups, wherever they went."""
    parent = b.cgroup_parent_of(b.TEST_PID)
    return [p for p in proc.pids() if proc.alive(p) and any(parent in c for c in proc.cgroups(p))]


# ---- what it sees of its limits ----

def test_D01_the_files_of_its_cgroups_are_its_own_and_to_be_read_only():
    """S8: --cgroup-files shows limits and changes none, for root and for others."""
    script = """
for d in /sys/fs/cgroup /sys/fs/cgroup/*; do mkdir $d/x 2>/dev/null && echo made $d/x; done
for f in $(find /sys/fs/cgroup -type f); do { true > $f; } 2>/dev/null && echo wrote $f; done
mount -o remount,rw,bind /sys/fs/cgroup 2>/dev/null && echo remounted
find /sys/fs/cgroup -name release_agent
grep -o ' /[^ ]* /sys/fs/cgroup[^ ]* ro[^ ]*' /proc/self/mountinfo
"""
    for who in ("0:0", "1000:1000"):
        r = sh(script, "--cgroup-files", "--memory", "64m", "--cpus", "0.5", "--pids", "60", "--user", who, ok=True)
        assert all(line.startswith(" / /sys/fs/cgroup") and "nosuid,nodev,noexec" in line for line in r.out.splitlines() if line), r
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        said = sh("cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/pids.max", "--cgroup-files", "--memory", "64m", "--pids", "60", ok=True).out
        assert said.split() == [str(64 << 20), "60"], said
        return
    said = sh("cd /sys/fs/cgroup; ls; cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us pids/pids.max",
              "--cgroup-files", "--memory", "64m", "--cpus", "0.5", "--pids", "60", ok=True).out.split()
    assert said == ["cpu", "memory", "pids", "unified", str(64 << 20), "50000", "60"], said
    assert "memory" not in sh("ls /sys/fs/cgroup", ok=True).out.split()
    assert sh("cat /sys/fs/cgroup/cpuset/cpuset.cpus", "--cgroup-files", "--cpuset", "0", ok=True).out == "0\n"


# ---- D02: memory ----------------------------------------------------------

TOUCH = "x = bytearray(200 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('touched')"


def test_D02_beyond_its_memory_it_dies_of_oom():
    r = py(TOUCH, "--memory", "64m", verdict=True, timeout=30)
    is_cause(r, "oom", 137)
    b.expect("touched" not in r.out, r, "it touched all")
    b.expect((32 << 20) <= r.verdict["peak_memory_bytes"] <= (64 << 20) + (4 << 20), r, "peak memory")
    py(TOUCH, "--memory", "400m", ok=True, timeout=30)


def test_D02_the_whole_sandbox_dies_with_it():
    # of cgroup v1 the kernel kills one process and we the rest, some ms later: the shell may get a word in, and no more
    word = "echo survived" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "sleep 1; echo survived"
    r = sh("sleep 1000 & setsid sleep 1000 & python3 -c '" + TOUCH.replace("'", '"') + f"'; {word}; sleep 20", "--memory", "64m",
           verdict=True, timeout=15)
    is_cause(r, "oom", 137)
    b.expect("survived" not in r.out, r, "the shell survived")


def test_D02_other_ways_to_memory_count_too():
    for label, script in {
        "tmp": "f = open('/tmp/x', 'wb')\nfor _ in range(200): f.write(bytes(1 << 20))",
        "shm": "f = open('/dev/shm/x', 'wb')\nfor _ in range(60): f.write(bytes(1 << 20))",
        "memfd": "import os\nfd = os.memfd_create('x')\nfor _ in range(200): os.write(fd, bytes(1 << 20))",
        "shared": "import mmap\nm = mmap.mmap(-1, 200 << 20)\nfor i in range(0, 200 << 20, 4096): m[i] = 1",
        "SysV": "import ctypes\nc = ctypes.CDLL(None, use_errno=True); c.shmat.restype = ctypes.c_void_p\n"
                "a = c.shmat(c.shmget(0, 200 << 20, 0o1600), None, 0)\nctypes.memset(a, 1, 200 << 20)",
    }.items():
        r = py(script + "\nprint('all of it')", "--memory", "32m", "--tmp-size", "64m", verdict=True, timeout=30)
        b.expect(r.code != 0 and "all of it" not in r.out, r, f"{label}: no limit")
        b.expect(r.verdict["peak_memory_bytes"] <= (32 << 20) + (4 << 20), r, f"{label}: peak memory")


SOCKETS = r"""
import socket
keep, queued = [], 0
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(200)
for i in range(60):
    a = socket.socket()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    a.connect(s.getsockname())
    a.setblocking(False)
    keep += [a, s.accept()[0]]
    n = 0
    try:
        while n < 8 << 20:
            n += a.send(b"x" * 65536)
    except BlockingIOError:
        pass
    queued += n
print(queued >> 20, flush=True)
"""


def test_D02_what_waits_in_sockets_is_bounded():
    """Of the host's memory, too; on cgroup v1 it is counted apart, up to the same limit."""
    box = b.berth("create", "--memory", "64m", "host", ok=True).out.strip()
    for args in (("run", "--memory", "64m", "host"), ("exec", box)):
        r = b.berth(*args, "python3", "-c", SOCKETS, timeout=60)
        b.expect(r.code == 137 or (r.code == 0 and 0 < int(r.out) <= 80), r, "more than the limit waits in sockets")
    b.berth("rm", "-f", box, ok=True)


def test_D02_page_tables_and_pipes_are_charged():
    r = py("import mmap\nkeep = []\nfor i in range(40000):\n    m = mmap.mmap(-1, 4 << 20); m[0] = 1; m[2 << 20] = 1; keep.append(m)\nprint('all')",
           "--memory", "32m", verdict=True, timeout=40)
    b.expect(r.code != 0 and "all" not in r.out, r, "page tables are not charged")


def test_no_swap_by_default():
    p = b.start("run", "host", "sh", "-c", "echo ready; exec sleep 100")
    b.read_until(p.stdout, b"ready\n")
    found = limits("memory.memsw.limit_in_bytes") or limits("memory.swap.max")
    b.stop(p, signal.SIGTERM)
    if not found:
        raise b.skip("no swap accounting in this kernel")
    assert set(found) <= {0, 512 << 20}, found


def limits(name):
    import leak
    return [int(l) for d in leak.cgroup_dirs(b.cgroup_parent_of(b.TEST_PID)) if os.path.basename(d) != b.cgroup_parent_of(b.TEST_PID)
            for l in leak.lines(f"{d}/{name}")[:1] if l.isdigit()]


# ---- D09: cpu -------------------------------------------------------------

SPIN = "import time, os\nt = time.monotonic()\nwhile time.monotonic() - t < {}: pass\nprint(sum(os.times()[:2]))"


@b.needs_speed("the emulated cores are one thread each, and slower than their clock")
def test_half_a_core_is_half_a_core():
    r = py(SPIN.format(1.5), "--cpus", "0.5", verdict=True, ok=True, timeout=30)
    # what the kernel grants in each tenth of a second, the first and the last of which may be begun
    # (others on the machine can make it less)
    b.expect(0 < r.verdict["cpu_ms"] <= 0.5 * (r.verdict["wall_ms"] + 200), r, "cpu time")
    b.expect(float(r.out) * 1000 <= 0.5 * (r.verdict["wall_ms"] + 200), r, "as the command saw it")


def test_D09_one_core_by_default_whatever_it_starts():
    r = sh("for i in 1 2 3 4; do timeout 1.5 sh -c 'while :; do :; done' & done; wait", verdict=True, ok=True, timeout=30)
    b.expect(r.verdict["cpu_ms"] <= r.verdict["wall_ms"] + 200, r, "cpu time")


def test_the_cpu_time_is_bounded():
    r = sh("while :; do :; done", "--cpu-time", "300ms", verdict=True, timeout=20)
    is_cause(r, "cpu-timeout", 124)
    b.expect(300 <= r.verdict["cpu_ms"], r, "cpu time")
    r = sh("sleep 1; exit 4", "--cpu-time", "500ms", verdict=True, ok=4)
    b.expect(r.verdict["cause"] == "exit", r, "sleeping costs no cpu time")
    # spread over children that are short
    r = sh("while :; do sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done'; done", "--cpu-time", "300ms", verdict=True, timeout=20)
    is_cause(r, "cpu-timeout", 124)


def test_D09_no_priority_over_others():
    r = py("import os\nfor f in (lambda: os.nice(-5), lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))):\n"
           "    try: f(); print('got it')\n    except OSError: pass", ok=True)
    b.expect(r.out == "", r, "priority was raised")


# ---- D01: processes -------------------------------------------------------

BOMB = "import os, time\nwhile True:\n    try:\n        if os.fork() == 0: time.sleep(1000)\n    except OSError: break\nprint('full'); raise SystemExit(1)"


def test_D01_a_fork_bomb_ends_as_pids():
    r = py(BOMB, "--pids", "50", verdict=True, timeout=30)
    is_cause(r, "pids", 1)
    b.expect("full" in r.out and 40 <= r.verdict["left_behind"] <= 50, r, "left_behind")


@b.needs_speed("a bomb takes long to reach its limit")
def test_D01_the_classic_one():
    for limit in ("2s", "30s"):     # time enough to reach the limit
        r = b.run("--timeout", limit, "--grace", "0s", "host", "bash", "-c", "f() { f | f & }; f; sleep 1000", verdict=True, timeout=60)
        if r.verdict["cause"] == "pids":
            break
    b.expect(r.verdict["cause"] == "pids", r, "cause")
    assert not mine(), [proc.cmdline(p) for p in mine()]


def test_D01_the_bomb_is_in_one_sandbox_only():
    p = b.start("run", "--timeout", "60s", "host", "bash", "-c", "echo go; f() { f | f & }; f; sleep 1000")
    b.read_until(p.stdout, b"go\n")
    b.run("host", "true", ok=True, timeout=10)
    b.stop(p)
    b.gc()


# ---- D04: disk ------------------------------------------------------------

FILL = """
import os, sys
for d in sys.argv[1:]:
    wrote = 0
    path = d + '/fill'
    try:
        f = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    except OSError as e:
        print(d, 'no', e.errno)
        continue
    block = bytes(1 << 20)
    try:
        while wrote < 600:
            wrote += os.write(f, block) / (1 << 20)
    except OSError as e:
        print(d, int(wrote), e.errno)
    else:
        print(d, int(wrote), 'UNBOUNDED')
    os.close(f)
    os.unlink(path)
"""

INODES = """
import os, sys
for d in sys.argv[1:]:
    try:
        os.mkdir(d + '/many')
    except OSError as e:
        print(d, 'no', e.errno)
        continue
    made = 0
    try:
        while made < 60000:
            os.close(os.open(f'{d}/many/{made}', os.O_CREAT | os.O_WRONLY, 0o600))
            made += 1
    except OSError as e:
        print(d, made, e.errno)
    else:
        print(d, made, 'UNBOUNDED')
    for i in range(made):
        os.unlink(f'{d}/many/{i}')
"""


def writable_mounts(*options):
    """Every mount that takes a file, found from inside."""
    r = py("for line in open('/proc/self/mountinfo'):\n    d = line.split()[4]\n    try: open(d + '/.w', 'w').close(); print(d)\n    except OSError: pass",
           *options, ok=True)
    found = r.out.split()
    assert {"/", "/tmp", "/dev/shm", "/run"} <= set(found), found
    return [d for d in found if d != "/dev/mqueue"]


@b.deadline(120)
def test_D04_every_writable_mount_is_bounded_in_bytes():
    mounts = writable_mounts("--tmp-size", "64m")
    before = os.statvfs(b.root())
    r = b.run("--disk", "100m", "--tmp-size", "64m", "--memory", "1g", "host", "python3", "-c", FILL, *mounts, timeout=100, verdict=True)
    b.expect(r.code == 0 and "UNBOUNDED" not in r.out, r, "a mount without a limit")
    b.expect(len(re.findall(r"^/\S* \d+ (28|122)$", r.out, re.M)) == len(mounts), r, "expected ENOSPC or EDQUOT on each")
    for line in r.out.splitlines():
        b.expect(int(line.split()[1]) <= 110, r, f"more than was granted: {line}")
    after = os.statvfs(b.root())
    lost = (before.f_bfree - after.f_bfree) * before.f_frsize
    assert lost < 300 << 20, f"{lost >> 20} MiB of the host's disk are gone"


@b.deadline(120)
def test_D04_every_writable_mount_is_bounded_in_inodes():
    mounts = writable_mounts("--tmp-size", "64m")
    r = b.run("--disk", "64m", "--tmp-size", "64m", "--memory", "1g", "host", "python3", "-c", INODES.replace("60000", "70000"), *mounts, timeout=100)
    b.expect(r.code == 0 and "UNBOUNDED" not in r.out, r, "a mount without a limit on inodes")
    b.expect(len(re.findall(r"^/\S* \d+ (28|122)$", r.out, re.M)) == len(mounts), r, "expected ENOSPC or EDQUOT on each")
    r = b.run("--disk", "1g", "--disk-inodes", "2000", "host", "python3", "-c", INODES, "/", timeout=100, ok=True)
    # rounded up to what mkfs makes of it
    b.expect(1500 <= int(r.out.split()[1]) <= 2500, r, "--disk-inodes")


def test_D04_a_full_disk_is_the_cause():
    r = sh("head -c 200000000 /dev/zero >/root/x", "--disk", "32m", verdict=True, timeout=30)
    b.expect(r.verdict["cause"] == "disk" and r.code == 1, r, "expected cause disk")
    r = sh("head -c 20000000 /dev/zero >/root/x && stat -c %s /root/x", "--disk", "32m", verdict=True, ok=True, timeout=30)
    b.expect(r.out == "20000000\n", r, "less than was granted")


def test_D04_a_full_disk_is_the_cause_however_large_the_writes():
    """ext4 refuses a write that is larger than what is left, and leaves that unused."""
    for size in ("16m", "64m"):
        b.berth("create", "--name", "d" + size, "--disk", size, "host", ok=True)
        for block in ("4k", "128k", "1M", "16M"):
            r = b.berth("exec", "d" + size, "sh", "-c", f"dd bs={block} of=/srv/x </dev/zero", verdict=True)
            b.expect("No space" in r.err and r.verdict["cause"] == "disk", r, f"{size} in writes of {block}")
            r = b.berth("exec", "d" + size, "sh", "-c", "rm /srv/x; exit 3", verdict=True)
            b.expect(r.verdict["cause"] == "exit", r, "the disk is not full any more")
        b.berth("rm", "-f", "d" + size, ok=True)


def test_D04_a_large_disk_does_not_eat_the_memory():
    r = sh("head -c 300000000 /dev/zero >/root/x && stat -c %s /root/x", "--disk", "1g", "--memory", "64m", verdict=True, ok=True, timeout=60)
    b.expect(r.out == "300000000\n", r, "could not write what was granted")


# ---- L: time and the end --------------------------------------------------

def test_L01_a_timeout_ends_what_ignores_term():
    for script in ("trap '' TERM HUP INT; while :; do :; done", "trap '' TERM; " + SETSID + " wait", "while :; do :; done"):
        r = sh(script, "--timeout", "300ms", "--grace", "300ms", verdict=True, timeout=10)
        is_cause(r, "timeout", 124)
        b.expect(r.verdict["timed_out"] is True, r, "timed_out")
        b.expect(300 <= r.verdict["wall_ms"], r, "wall time")


def test_L01_the_grace_lets_it_end_well():
    r = sh("trap 'echo cleaned up; exit 0' TERM; echo on; while :; do sleep 0.01; done", "--timeout", "6s", "--grace", "1h",
           verdict=True, timeout=20)
    is_cause(r, "timeout", 124)
    b.expect(r.out == "on\ncleaned up\n", r, "the handler did not run")


def test_L02_a_timeout_ends_daemons():
    for daemon in (SETSID, "(setsid sleep 999 &)", "nohup sleep 999 >/dev/null 2>&1 &",
                   "python3 -c 'import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(1000)'"):
        r = sh(daemon + "\nwhile :; do sleep 0.01; done", "--timeout", "400ms", "--grace", "0s", verdict=True, timeout=10)
        is_cause(r, "timeout", 124)
        assert not mine(), [proc.cmdline(p) for p in mine()]


def test_L03_a_background_child_does_not_delay_the_answer():
    for script in ("sleep 1000 & echo hi", "setsid sleep 1000 & echo hi", "(sleep 1000; echo late) & echo hi", "exec 3>&1; sleep 1000 >&3 & echo hi"):
        r = sh(script, verdict=True, ok=0, timeout=10)
        b.expect(r.out == "hi\n" and r.verdict["left_behind"] >= 1, r, "not counted")
        assert not mine()


def test_L04_stopping_everything_inside_stops_nothing_of_ours():
    r = sh("kill -STOP -1; sleep 0.2; kill -STOP $$; echo not reached", "--timeout", "700ms", "--grace", "200ms", verdict=True, timeout=10)
    is_cause(r, "timeout", 124)
    r = sh("kill -STOP 1; kill -KILL 1; kill -SEGV 1; kill -TERM 1; kill -9 -1; echo alive", timeout=10)
    b.expect(r.code in (0, 137), r, "pid 1 was hurt")
    r = sh("kill -9 1; kill -STOP 1; kill -INT 1; echo still here", ok=True, timeout=10)
    b.expect(r.out == "still here\n", r, "pid 1 was hurt")


def test_L04_pid_1_cannot_be_traced_or_read():
    r = sh("cat /proc/1/environ /proc/1/maps; ls -l /proc/1/fd /proc/1/cwd /proc/1/exe; ls /proc/1/root/; head -c 1 /proc/1/mem; exit 0",
           "--seccomp", "dev", timeout=10)
    b.expect(r.out.strip() == "" or "->" not in r.out, r, "pid 1 is open to the payload")


def test_L05_orphans_are_reaped():
    script = ("import os, time\n"
              f"for i in range({b.times(3000, 10000)}):\n"
              "    pid = os.fork()\n"
              "    if pid == 0:\n"
              "        if os.fork() == 0: os._exit(0)\n"
              "        os._exit(0)\n"
              "    os.waitpid(pid, 0)\n"
              "end = time.monotonic() + 25\n"
              "def zombies():\n"
              "    n = 0\n"
              "    for p in os.listdir('/proc'):\n"
              "        if p.isdigit():\n"
              "            try: n += open(f'/proc/{p}/stat').read().rsplit(')', 1)[1].split()[0] == 'Z'\n"
              "            except OSError: pass\n"
              "    return n\n"
              "while zombies() and time.monotonic() < end: time.sleep(0.01)\n"
              "print(zombies())")
    r = py(script, "--pids", "64", ok=True, timeout=55)
    b.expect(r.out == "0\n", r, "zombies stay")


def test_L05_an_orphan_in_mid_life_goes_on():
    r = sh("(sleep 0.3; echo later >/tmp/x) & sleep 0.05; exec sh -c 'while [ ! -e /tmp/x ]; do sleep 0.01; done; cat /tmp/x'", ok=True, timeout=10)
    b.expect(r.out == "later\n", r, "output")


def test_D10_the_cgroup_cannot_be_left():
    r = sh("cat /proc/self/cgroup; mkdir /sys/fs/cgroup/x /sys/fs/cgroup/*/x; echo $$ >/sys/fs/cgroup/cgroup.procs;"
           "echo max >/sys/fs/cgroup/pids.max; echo 1 >/sys/fs/cgroup/cgroup.kill; exit 0", ok=True)
    for line in r.out.splitlines():
        b.expect(line.endswith(":/") or ":/../" in line, r, "the path of the cgroup shows")
    b.expect(r.err.count("Read-only") + r.err.count("denied") + r.err.count("nonexistent") + r.err.count("No such") >= 3, r, "errors expected")


def test_D03_descriptors_are_bounded():
    r = py("import os\nn = 0\ntry:\n    while n < 100000: os.open('/dev/null', 0); n += 1\nexcept OSError as e: print(n, e.errno)", ok=True)
    b.expect(r.out.split()[1] == "24" and int(r.out.split()[0]) <= 1024, r, "no EMFILE")


def test_D05_a_flood_of_output_without_a_reader_can_be_timed_out():
    p = b.start("run", "--timeout", "500ms", "--grace", "0s", "host", "yes")
    code = p.wait(10 * b.SLOW)  # nobody reads
    b.stop(p)
    assert code == 124, code


def test_the_exit_status_survives_a_limit_that_was_only_touched():
    """A fork that failed and was handled is no cause when the command succeeds."""
    r = sh("for i in 1 2 3 4 5 6 7 8; do sleep 0.2 & done 2>/dev/null; wait; exit 0", "--pids", "5", verdict=True, timeout=20)
    b.expect(r.verdict["cause"] in ("exit", "pids"), r, "cause")


