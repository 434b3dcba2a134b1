# SPDX-License-Identifier: Apache-2.0
"""
K01-K22: what of the kernel a payload in a default sandbox can reach, one test a row.  Attacks S23 (K18) and S12 (K11) of SECURITY.md.

Each row names the checks of probe.c that stand for it and asks for what else the row says.
"""
import os
import re
import socket
import subprocess

import berthtest as b
import box
from test_probe import in_sandbox, opened, parse

COST = 30


def blocked(ids, *options):
    """Every one of the checks is applicable or n/a, and none is open."""
    r = in_sandbox(*options, ids=ids.split(), ok=None)
    rows, _, _ = parse(r.out)
    missing = [i for i in ids.split() if i not in rows]
    b.expect(not missing and not opened(rows), r, f"{missing} did not run, {opened(rows)} are open")
    b.expect(any(row[1] == "blocked" for row in rows.values()), r, "nothing was tried")
    return rows


def inside(script, *options, ok=True):
    return b.run(*options, "host", "sh", "-c", script, ok=ok)


def python(code, *options, ok=True):
    return b.run(*options, "host", "/usr/bin/python3", "-c", code, ok=ok)


def status_of(field, *options):
    return inside(f"grep '^{field}:' /proc/self/status", *options).out.split()[1:]


def test_K01_no_nested_namespaces():
    blocked("S01 S02 S03 S04 S05 X04 X05 X06 X28")
    # the second layer is there without the first
    blocked("S01 S02 S03 X04 X05 X06", "--seccomp", "unconfined")
    names = "user mnt pid net ipc uts cgroup time"
    out = inside(f"for n in {names}; do cat /proc/sys/user/max_${{n}}_namespaces; done").out.split()
    assert out == ["0"] * 8, out


def test_K02_io_uring_is_unknown():
    blocked("S21 X20")
    # ENOSYS, so that libraries fall back
    r = python("import ctypes, os; libc = ctypes.CDLL(None, use_errno=True);"
               "libc.syscall(425, 1, None); print(ctypes.get_errno())")
    assert r.out == "38\n", r


def test_K03_no_kernel_crypto_and_no_32_bit_calls():
    blocked("K01 A01 A02")


def test_K04_only_the_families_that_are_needed():
    blocked(" ".join(f"K{n:02}" for n in range(2, 25)) + " X27")
    r = python("""
import socket, errno
for family, kind, proto in ((1, 1, 0), (1, 2, 0), (1, 5, 0), (2, 1, 0), (2, 1, 6), (2, 2, 17), (10, 1, 0), (10, 2, 0), (16, 3, 0)):
    socket.socket(family, kind, proto).close()
bad = []
for family in range(0, 64):
    if family in (1, 2, 10, 16):
        continue
    try:
        socket.socket(family, 1, 0).close()
        bad.append(family)
    except OSError as e:
        if e.errno not in (errno.EAFNOSUPPORT, errno.EPERM):
            bad.append((family, e.errno))
for proto in range(1, 32):
    try:
        socket.socket(16, 3, proto).close()
        bad.append(("netlink", proto))
    except OSError:
        pass
print(bad)""")
    assert r.out == "[]\n", r


def test_K05_no_kernel_tls_nor_xtables_nor_socket_filters():
    blocked("K25 K26 K27 X26 X42 X43")


def test_K06_no_priority_inheriting_requeue():
    blocked("S50 S51")


def test_K07_no_way_into_the_page_cache_of_others():
    blocked("S44")
    # what of the host can be seen is mounted read-only, and nothing is a plain file of the host's root
    r = inside("grep -E ' (/usr|/etc[^ ]*|/bin|/lib[^ ]*) ' /proc/self/mountinfo")
    for line in r.out.splitlines():
        assert re.search(r"\bro\b", line.split()[5]), line
    strict = python("import os; r, w = os.pipe()\ntry:\n os.splice(0, w, 1)\nexcept OSError as e: print(e.errno)", "--seccomp", "strict")
    assert strict.out.strip() in ("1", "38"), strict


def test_K08_no_keyrings():
    blocked("S15 S16 S17 F12")


def test_K09_no_rarely_used_code():
    blocked(" ".join(f"S{n:02}" for n in range(18, 48)) + " X07 X08 X09 X10 X11 X12 X14 X15 X16 X17 X18 X19 X21 X22 X23 X24 X25")


def test_K10_one_table_of_system_calls():
    blocked("A01 A02")
    # the 32-bit table ends the caller, and the verdict says by what
    r = in_sandbox(ids=["A01"], ok=None)
    assert "blocked" in r.out, r


def test_K11_the_terminal_cannot_be_typed_into():
    blocked("S49 X01 X02 X03")
    with box.Box() as x:
        master, slave = os.openpty()
        try:
            code = ("import fcntl, errno\nfor n in (0x5412, 0x100005412, 0x541C, 0x5423):\n"
                    " try:\n  fcntl.ioctl(0, n & 0xffffffff if n < 1 << 32 else n - (1 << 32), b'x'); print('open')\n"
                    " except OSError as e: print(e.errno)")
            p = b.start("exec", "-t", x.id, "/usr/bin/python3", "-c", code, stdin=slave, stdout=slave, stderr=slave)
            os.close(slave)
            out = b""
            while out.count(b"\n") < 4:
                out += os.read(master, 4096)
            assert p.wait(20 * b.SLOW) == 0, out
            # nothing was typed into the terminal of the caller: its queue is empty
            os.set_blocking(master, False)
            rest = b""
            try:
                rest = os.read(master, 4096)
            except (BlockingIOError, OSError):
                pass
        finally:
            os.close(master)
        assert b"open" not in out and b"x" not in rest, (out, rest)


def test_K12_no_device_nodes():
    blocked("F23 F24 F25 X32")
    r = inside("mknod /tmp/d b 254 0; mknod /tmp/c c 1 1; mknod /dev/d c 1 1; ls /tmp /dev/d", ok=None)
    assert r.code != 0 and "Operation not permitted" in r.err and "c\n" not in r.out, r


def test_K12_a_rename_leaves_no_device_node():
    """renameat2(RENAME_WHITEOUT) needs no capability since Linux 5.8, and puts a 0:0 device in the old name's place."""
    code = ("import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nos.chdir('WHERE')\n"
            "def rename(flags, old=b'a', new=b'b'):\n"
            "  return 'done' if libc.syscall(316, -100, old, -100, new, flags) == 0 else os.strerror(ctypes.get_errno())\n"
            "for f in 'ab':\n  open(f, 'w').close()\n"
            "print(rename(4), rename(5, new=b'c'), rename(6), rename(1 << 32 | 4), sorted(os.listdir()), sep='; ')\n"
            "print(rename(2), rename(1, new=b'c'), rename(0, old=b'c'), os.listdir(), sep='; ')\n")
    shared = b.tmpdir("shared", 0o777)
    for where, options in (("/workspace", ()), ("/tmp/d", ()), ("/tmp/d", ("--seccomp", "strict")), ("/tmp/d", ("--seccomp", "dev")),
                           ("/workspace", ("--volume", shared + ":/workspace:rw"))):
        r = python(code.replace("os.chdir", "os.path.isdir('/tmp/d') or os.mkdir('/tmp/d')\nos.chdir").replace("WHERE", where), *options)
        no = "Operation not permitted"
        assert r.out == f"{no}; {no}; {no}; {no}; ['a', 'b']\ndone; done; done; ['b']\n", (where, options, r)
    assert os.listdir(shared) == ["b"] and os.path.isfile(shared + "/b")


def test_K13_no_cgroup_files():
    blocked("S06 S07 S08 S09 S10 S11 S12 S13 F20 F21")


def test_K14_no_knobs_of_the_host():
    blocked("F01 F02 F03 F04 F05 F06 F07 F08 X37 X38 X39 X40 X41")
    # every file of /proc/sys and its like: open for writing fails
    r = python(r"""
import os
open_for_writing = []
for top in ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/sys"):
    for where, dirs, files in os.walk(top):
        for f in files:
            try:
                os.close(os.open(os.path.join(where, f), os.O_WRONLY | os.O_NONBLOCK))
                open_for_writing.append(os.path.join(where, f))
            except OSError:
                pass
for f in ("/proc/sysrq-trigger", "/proc/kcore", "/proc/timer_list", "/proc/mtrr", "/proc/scsi/scsi"):
    try:
        os.close(os.open(f, os.O_WRONLY))
        open_for_writing.append(f)
    except OSError:
        pass
print(open_for_writing)""")
    assert r.out == "[]\n", r


def test_K15_little_is_told_of_the_host():
    blocked("F09 F10 F11 F13 F14 F15 F16 F17 F18 F19 F22 F26 X29 X30 X31 X33 X34 X35 X36")
    # the writable layer's paths are those of a mount that is nowhere attached
    r = inside("cat /proc/self/mountinfo")
    for told in re.findall(r"(?:lowerdir\+?|upperdir|workdir)=([^, \n]*)", r.out):
        # (6.1 is given paths below directories of no other name than these)
        assert told in ("/", "/upper", "/work") or re.fullmatch(r"[0-9:w]+(/upper|/work)?", told), told
    assert b.root() not in r.out, r
    # nor is a trigger to be made, of which each costs the host's kernel 5 ms when it ends, SIGKILL or not
    r = inside("ls -A /proc/pressure; echo 'some 1 2000000' >/proc/pressure/cpu", ok=None)
    assert r.code and not r.out, r
    # its clock since boot is not the host's, which may have booted a minute ago: the virtual machine has
    mine = float(open("/proc/uptime").read().split()[0])
    told = float(inside("cat /proc/uptime").out.split()[0])
    if os.path.exists("/proc/self/timens_offsets"):
        assert told < mine - 5, (mine, told)


WATCH = r"""
import os, sys
def snapshot():
    seen = {}
    for top in ("/proc", "/sys"):
        for where, dirs, files in os.walk(top):
            if where == "/proc":
                dirs[:] = [d for d in dirs if not d.isdigit() and d not in ("self", "thread-self", "net", "sysvipc")]
            dirs[:] = [d for d in dirs if os.path.join(where, d) != "/sys/fs/cgroup"]
            for name in files:
                try:
                    fd = os.open(os.path.join(where, name), os.O_RDONLY | os.O_NONBLOCK)
                except OSError:
                    continue
                try:
                    seen[os.path.join(where, name)] = os.read(fd, 1 << 20)
                except OSError:
                    pass
                os.close(fd)
    return seen
before = snapshot()
print(len(before), flush=True)
sys.stdin.readline()
after = snapshot()
print(*sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p)))
"""
ACT = r"""
import fcntl, os, pty, sys
keep = [open("/root/x%d" % n, "w") for n in range(300)]
for f in keep[:40]:
    fcntl.lockf(f, fcntl.LOCK_EX)
keep[0].write("x" * (8 << 20)); keep[0].flush(); os.fsync(keep[0].fileno())
keep.append(pty.openpty())
print("done", flush=True)
sys.stdin.readline()
"""
# what free(1), top(1) and uptime(1) read, and what says nothing of anybody
TOLD = {"/proc/stat", "/proc/meminfo", "/proc/loadavg", "/proc/uptime", "/proc/cpuinfo", "/proc/cgroups", "/proc/swaps",
        "/proc/sys/kernel/random/uuid", "/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/random/entropy_avail",
        "/proc/driver/rtc"}  # a clock


def test_K23_no_file_tells_what_another_sandbox_writes_locks_or_opens():
    # the first sandbox with a disk loads modules, which /proc/devices and /proc/misc list from then on
    b.berth("run", "--disk", "400m", "host", "python3", "-c", ACT, input="\n", ok=True)
    watcher = b.start("run", "host", "python3", "-c", WATCH, stdin=subprocess.PIPE)
    actor = None
    try:
        assert int(b.read_until(watcher.stdout, b"\n")) > 200
        actor = b.start("run", "--disk", "400m", "host", "python3", "-c", ACT, stdin=subprocess.PIPE)
        b.read_until(actor.stdout, b"done\n")
        told = set(watcher.communicate(b"\n", timeout=30 * b.SLOW)[0].decode().split())
        actor.communicate(b"\n", timeout=30 * b.SLOW)
    finally:
        b.stop(watcher)
        if actor:
            b.stop(actor)
        b.gc()
    assert told <= TOLD, sorted(told - TOLD)


def test_K23_what_tells_of_all_sandboxes_is_empty():
    """The whole list, where a quiet moment would hide a counter."""
    r = inside("cd /proc; cat cmdline diskstats locks partitions vmstat sys/fs/file-nr sys/fs/inode-nr sys/fs/inode-state "
               "sys/fs/dentry-state sys/kernel/pty/nr; ls -A fs irq bus")
    assert r.out.split() == ["bus:", "fs:", "irq:"], r


def test_K16_setuid_gains_nothing():
    blocked("B01 B04 B05")
    r = inside("cp /usr/bin/id /tmp/id && chmod 4755 /tmp/id && setpriv --reuid 1000 --regid 1000 --clear-groups /tmp/id -u", ok=None)
    b.expect(r.out.strip() == "1000", r, "set-id changed the user")


def test_K16_no_file_capabilities_in_a_host_directory():
    volume = b.tmpdir("volume")
    for caps in (["SETFCAP"], ["ALL"]):
        for command, words in (("run", ["true"]), ("create", [])):
            r = b.berth(command, *[f"--cap-add={c}" for c in caps], "-v", f"{volume}:/v:rw", "host", *words)
            b.one_line_error(r, 2, "SETFCAP", "hint")
    # read-only, or without that one, it is as ever
    b.run("--cap-add", "ALL", "-v", f"{volume}:/v", "host", "true", ok=True)
    r = b.run("--cap-add", "ALL", "--cap-drop", "SETFCAP", "-v", f"{volume}:/v:rw", "host", "python3", "-c",
              "import os, shutil; shutil.copy('/usr/bin/true', '/v/x'); os.setxattr('/v/x', 'security.capability', bytes([1, 0, 0, 2, 0x86] + [0] * 15))")
    b.expect(r.code == 1 and "not permitted" in r.err and not os.listxattr(volume + "/x"), r, "a file with capabilities on the host")


def test_K17_no_core_goes_to_the_host():
    blocked("R04")
    r = inside("ulimit -Hc; ulimit -Sc; grep 'Max core' /proc/self/limits")
    # exactly one byte: a piped core is then given up by the kernel
    assert re.search(r"Max core file size +1 +1 ", r.out), r


def test_K18_two_tenants_share_nothing():
    """What one leaves, the other does not see: twelve channels."""
    talker = r"""
import os, socket, ctypes, fcntl, sys
libc = ctypes.CDLL(None, use_errno=True)
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM); s.bind(b"\0berth-channel"); s.listen(1)
u = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); u.bind("/tmp/channel.sock")
t = socket.socket(); t.bind(("127.0.0.1", 4444)); t.listen(1)
libc.shmget(0x1234, 4096, 0o1666); libc.msgget(0x1234, 0o1666); libc.semget(0x1234, 1, 0o1666)
open("/dev/shm/channel", "w").write("x"); open("/tmp/channel", "w").write("x"); open("/workspace/channel", "w").write("x")
try:
    f = open("/usr/bin/env"); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    pass
sys.stdout.write("ready\n"); sys.stdout.flush()
os.environ.get("x"); sys.stdin.read()
"""
    listener = r"""
import os, socket, ctypes, fcntl, signal
libc = ctypes.CDLL(None, use_errno=True)
heard = []
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
for name, sock, address in (("abstract", s, b"\0berth-channel"), ("path", socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), "/tmp/channel.sock"),
                            ("tcp", socket.socket(), ("127.0.0.1", 4444))):
    try:
        sock.connect(address); heard.append(name)
    except OSError:
        pass
for name, got in (("shm", libc.shmget(0x1234, 4096, 0o666)), ("msg", libc.msgget(0x1234, 0o666)), ("sem", libc.semget(0x1234, 1, 0o666))):
    if got >= 0:
        heard.append(name)
heard += [p for p in ("/dev/shm/channel", "/tmp/channel", "/workspace/channel") if os.path.exists(p)]
try:
    f = open("/usr/bin/env"); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError as e:
    heard.append("flock %s" % e)
pids = [p for p in os.listdir("/proc") if p.isdigit()]
if len(pids) > 3:
    heard.append("processes %s" % pids)
for p in range(2, 400):
    if p == os.getpid():
        continue
    try:
        os.kill(p, 0); heard.append("signal to %d" % p)
    except OSError:
        pass
print(heard)
"""
    with box.Box() as one, box.Box() as two:
        p = b.start("exec", "-i", one.id, "/usr/bin/python3", "-c", talker, stdin=subprocess.PIPE)
        b.read_until(p.stdout, b"ready\n")
        # the channels do work: the same listener in the talker's own sandbox hears
        near = one.exec("/usr/bin/python3", "-c", listener, ok=True)
        far = two.exec("/usr/bin/python3", "-c", listener, ok=True)
        p.stdin.close()
        p.wait(20 * b.SLOW)
        for word in ("abstract", "path", "tcp", "shm", "msg", "sem", "/dev/shm/channel", "/tmp/channel", "/workspace/channel", "signal"):
            assert word in near.out, (word, near.out)
        assert far.out == "[]\n", far.out


PER_USER = r"""
import ctypes, os, sys
L = ctypes.CDLL(None, use_errno=True)
class Attr(ctypes.Structure):
    _fields_ = [(n, ctypes.c_long) for n in ("flags", "maxmsg", "msgsize", "curmsgs", "a", "b", "c", "d")]
def queue(i):
    return L.mq_open(b"/berth%d" % i, os.O_RDWR | os.O_CREAT, 0o600, None)
def all_there_is(make):
    n = 0
    while n < 100000 and make(n) >= 0:
        n += 1
    return n
"""


def test_K18_what_the_kernel_counts_per_user_is_each_sandboxes_own():
    """One that takes all inotify instances and message queues of its user takes none of another's, nor of the host's root."""
    hungry = PER_USER + "print(all_there_is(lambda i: L.inotify_init1(0)), all_there_is(queue), flush=True); sys.stdin.readline()"
    modest = PER_USER + "print(min(L.inotify_init1(0), 0), min(queue(0), 0))"
    p = b.start("run", "--ulimit", "nofile=4096", "host", "python3", "-c", hungry, stdin=subprocess.PIPE)
    try:
        line = p.stdout.readline().split()
        assert all(0 < int(n) < 100000 for n in line), line
        assert b.run("host", "python3", "-c", modest, ok=True).out == "0 0\n"
        here = subprocess.run(["python3", "-c", PER_USER + "print(min(L.inotify_init1(0), 0))"], capture_output=True, text=True, timeout=30 * b.SLOW)
        assert here.stdout == "0\n", here
    finally:
        p.communicate(b"end\n", timeout=30 * b.SLOW)


def test_K18_what_the_host_has_once_for_all_is_not_taken():
    """Contexts of asynchronous I/O (fs.aio-max-nr) and huge pages, which no memory limit counts."""
    script = PER_USER + r"""
import errno, mmap
def tried(name, r):
    print(name, r if r >= 0 else errno.errorcode[ctypes.get_errno()])
c = ctypes.c_ulong(0)
NR = {"x86_64": (206, 319), "aarch64": (0, 279)}[os.uname().machine]
tried("io_setup", L.syscall(NR[0], 128, ctypes.byref(c)))
tried("memfd", L.syscall(NR[1], b"x", 4))
tried("shm", L.shmget(1, 2 << 20, 0o5600))
try:
    mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)
    print("mmap 0")
except OSError as e:
    print("mmap", errno.errorcode[e.errno])
"""
    for profile, first in (("strict", "ENOSYS"), ("standard", "ENOSYS"), ("dev", "0")):
        r = b.run("--seccomp", profile, "host", "python3", "-c", script, ok=True)
        assert r.out == f"io_setup {first}\nmemfd ENOMEM\nshm ENOMEM\nmmap ENOMEM\n", (profile, r.out)


def test_K19_descriptors_sent_to_the_host_are_not_taken():
    """A payload has no socket of ours; init's is out of its reach."""
    r = python(r"""
import os, socket, array
got = []
for n in range(64):
    try:
        os.close(os.open("/proc/1/fd/%d" % n, os.O_RDWR | os.O_NONBLOCK)); got.append(n)
    except OSError:
        pass
    try:
        got.append(os.readlink("/proc/1/fd/%d" % n))
    except OSError:
        pass
for path in ("/run/berth", "/run/berth/sock", "/var/run/docker.sock"):
    if os.path.exists(path):
        got.append(path)
kinds = [os.readlink("/proc/self/fd/%d" % n) for n in range(3)]
print(got, [k for k in kinds if k.startswith("socket")])""")
    assert r.out == "[] []\n", r


def test_K20_no_network_but_its_own_lo():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(1)
        port = s.getsockname()[1]
        r = python(f"""
import socket
reached = []
for address in ("127.0.0.1", "169.254.169.254", "10.0.0.1", "172.17.0.1", "192.168.0.1", "1.1.1.1"):
    for port in (22, 80, 443, 2375, {port}):
        t = socket.socket(); t.settimeout(0.3)
        try:
            t.connect((address, port)); reached.append((address, port))
        except OSError:
            pass
for address in ("::1", "fe80::1", "fd00:ec2::254"):
    t = socket.socket(socket.AF_INET6); t.settimeout(0.3)
    try:
        t.connect((address, {port})); reached.append(address)
    except OSError:
        pass
print(reached)""")
    assert r.out == "[]\n", r
    blocked("N11")


def test_K21_mounts_stay_inside():
    blocked("N12")
    before = open("/proc/self/mountinfo").read()
    out = inside("grep -c shared: /proc/self/mountinfo; grep -c master: /proc/self/mountinfo", ok=None).out
    assert out.split() == ["0", "0"], out
    assert open("/proc/self/mountinfo").read() == before


def test_K22_speculation_is_left_as_the_kernel_has_it():
    host = dict(line.split(":", 1) for line in open("/proc/self/status") if line.startswith("Specul"))
    got = dict(line.split(":", 1) for line in inside("grep ^Specul /proc/self/status", ok=None).out.splitlines())
    for name, value in got.items():
        # a filter may harden, and never soften
        assert value.strip() == host[name].strip() or "vulnerable" not in value, (name, value, host[name])
