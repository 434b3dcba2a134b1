# SPDX-License-Identifier: Apache-2.0
"""
What tests of the berth program share: run it with a state root of the test's own,
wait for events, hash a directory that must not change, make small root filesystems.
"""
import collections
import functools
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
import unittest

import proc

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BERTH_TEST_BUILD", os.path.join(TOP, "build"))
# make OLDKERNEL=1 puts a wrapper here
BERTH = os.environ.get("BERTH_TEST_BERTH", os.path.join(BUILD, "berth"))
SANITIZED = "-san" in os.path.basename(BUILD.rstrip("/"))
ROOTS = "/var/tmp"

CAUSES = ("exit", "signal", "timeout", "silent", "cpu-timeout", "oom", "pids", "disk", "network", "output",
          "seccomp", "killed-by", "lost")
VERDICT_KEYS = ("cause", "wall_ms", "cpu_ms", "peak_memory_bytes", "read_bytes", "write_bytes",
                "left_behind", "timed_out")

Result = collections.namedtuple("Result", "code out err verdict args seconds")
skip = unittest.SkipTest
# An emulated machine sets this to how many times slower it is.
EMULATED = float(os.environ.get("BERTH_TEST_SLOW", "1"))
# How many times longer than on an idle machine each wait may take.  A deadline of a test only ends one that hangs: a
# machine that is slow, or has other work, fails no test by that alone.
SLOW = max(5.0, EMULATED)


# make check-all sets it: each proof by repetition is then repeated as often as more runs could find more
WHOLE = os.environ.get("BERTH_TEST_WHOLE") == "1"


def times(few, all_of_them):
    """How often to repeat a proof: few times in make check, all times in make check-all."""
    return all_of_them if WHOLE else few


def long_proof(why):
    """For a test of over some seconds whose length is its proof: it repeats, or it waits for a deadline of berth's to
    pass.  `make check` leaves it to `make check-long`, which CI and make check-all run."""
    def mark(test):
        test.long_proof = why
        return test
    return mark


def needs_speed(why):
    """Skips a test that measures time: on an emulated machine its result means nothing."""
    def mark(test):
        @functools.wraps(test)
        def skipped(*args, **kw):
            raise skip(f"emulated: {why}")
        return test if EMULATED == 1 else skipped
    return mark


def needs_the_program_itself():
    """Skips a test that would look at the wrapper of OLDKERNEL=1 instead of berth."""
    if BERTH != os.path.join(BUILD, "berth"):
        raise skip("berth is in a wrapper")



def needs_the_lean_program():
    """Skips a test of berth's own costs in a build with sanitizers, which cost more."""
    needs_the_program_itself()
    if SANITIZED or "LLVM_PROFILE_FILE" in os.environ:
        raise skip("built for other checks")


def needs_no_sanitizer(why):
    if SANITIZED:
        raise skip(f"under a sanitizer: {why}")


def deadline(seconds):
    """Marks a test that may take longer than a minute (on an idle machine)."""
    def mark(test):
        test.deadline = seconds
        return test
    return mark


# ---- this test's own place ------------------------------------------------

def root_of(pid):
    return os.path.join(ROOTS, f"berth-t{pid}")


# A test run in a pid namespace of its own would take the names of another's: tests/chroot/run sets it.
CGROUPS = os.environ.get("BERTH_TEST_CGROUPS", "berth-t")


def cgroup_parent_of(pid):
    return f"{CGROUPS}{pid}"


def root():
    return root_of(TEST_PID)


TEST_PID = os.getpid()


def begin(own_host_image=False):
    """
    Called by the runner in the test's process and namespaces, before the test.  What berth
    makes of the host's /etc for the image `host` takes it 0.2 s: the tests of one run of
    run.py share that directory, unless own_host_image.
    """
    global TEST_PID
    TEST_PID = os.getpid()
    # left by a test that had this pid and was killed with its runner
    shutil.rmtree(root(), ignore_errors=True)
    for d in ("", "state", "run", "tmp"):
        os.mkdir(os.path.join(root(), d), 0o700)
    shared = os.environ.get("BERTH_TEST_HOST_IMAGE")
    if shared and not own_host_image:
        host = os.path.join(root(), "state", "host")
        os.mkdir(host, 0o700)
        proc.bind(shared, host)


def tmp(name):
    """A path in this test's scratch directory, which the runner removes."""
    return os.path.join(root(), "tmp", name)


def tmpdir(name, mode=0o755):
    os.makedirs(tmp(name))
    os.chmod(tmp(name), mode)
    return tmp(name)


def write(path, data="", mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    os.chmod(path, mode)
    return path


def under_strace():
    """More environment for a program that runs under strace: LeakSanitizer traces too, and there can be one tracer only."""
    return {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"} if SANITIZED else {}


def may_die_before_main(call):
    """Whether the injected failure of this system call can hit another program than berth: AddressSanitizer's start, or the wrapper of OLDKERNEL=1."""
    return (SANITIZED or BERTH != os.path.join(BUILD, "berth")) and call in ("mmap", "munmap", "mprotect", "brk")


def is_the_sanitizers(err):
    """Whether it was the sanitizer's own start or end that the failing call hit: no report of berth's memory."""
    return SANITIZED and any(said in err for said in (
        "CHECK failed: sanitizer_", "LeakSanitizer does not work under ptrace", "Sanitizer getrlimit() failed",
        "Sanitizer setrlimit() failed"))


def environment(extra=None):
    env = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root", "TERM": "dumb", "LANG": "C.UTF-8",
        "BERTH_STATE_DIR": os.path.join(root(), "state"),
        "BERTH_RUN_DIR": os.path.join(root(), "run"),
        "BERTH_IDS_DIR": os.path.join(root(), "hostids"),
        "BERTH_CGROUP_PARENT": cgroup_parent_of(TEST_PID),
    }
    # reports of a sanitizer build must reach the test, and the counts of make cover their file
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "LLVM_PROFILE_FILE"):
        if name in os.environ:
            env[name] = os.environ[name]
    for name, value in (extra or {}).items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


# ---- running it -----------------------------------------------------------

def need_berth():
    if not os.access(BERTH, os.X_OK):
        raise AssertionError(f"{BERTH} is not there: `make` builds it")


def start(*args, env=None, **popen):
    """berth as a Popen, for tests that act while it runs; stop() ends it."""
    need_berth()
    popen.setdefault("stdin", subprocess.DEVNULL)
    popen.setdefault("stdout", subprocess.PIPE)
    popen.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([BERTH, *args], env=environment(env), **popen)


def berth(*args, input=None, timeout=60, env=None, ok=None, verdict=False, prefix=(), **popen):
    """
    Runs berth to its end.  ok: None takes any exit status, True wants 0, a number wants that.
    verdict: asks for the JSON of --status-fd and checks its shape.  prefix: a command line to
    put before berth's (strace ...).
    """
    need_berth()
    args = [str(a) for a in args]
    pass_fds = list(popen.pop("pass_fds", ()))
    reader = None
    if verdict:
        status_read, status_write = os.pipe()
        pass_fds.append(status_write)
        args[1:1] = ["--status-fd", str(status_write)]
        reader = Drain(status_read)
    if input is None:
        popen.setdefault("stdin", subprocess.DEVNULL)
    else:
        popen["stdin"] = subprocess.PIPE
    popen.setdefault("stdout", subprocess.PIPE)
    popen.setdefault("stderr", subprocess.PIPE)
    line = [*prefix, BERTH, *args]
    if prefix and prefix[0] == "strace":
        env = dict(under_strace(), **(env or {}))
    began = time.monotonic()
    p = subprocess.Popen(line, env=environment(env), pass_fds=pass_fds, **popen)
    if verdict:
        os.close(status_write)
    try:
        out, err = p.communicate(input.encode() if isinstance(input, str) else input, timeout * SLOW)
    except subprocess.TimeoutExpired as late:
        kill_tree(p.pid, including=True)
        p.wait()
        raise AssertionError(f"{show(args)}: not done after {timeout * SLOW:.0f} s\n"
                             f"stdout: {late.stdout!r}\nstderr: {late.stderr!r}") from None
    seconds = time.monotonic() - began
    told = None
    if verdict:
        text = reader.end()
        if text.strip():
            told = json.loads(text)
    result = Result(p.returncode, (out or b"").decode(errors="surrogateescape"),
                    (err or b"").decode(errors="surrogateescape"), told, args, seconds)
    if ok is not None:
        expect_code(result, 0 if ok is True else ok)
    # a failure of berth itself has no verdict: misuse, no sandbox, no command to run
    if told is not None or (verdict and result.code not in (2, 125, 126, 127)):
        check_verdict(result)
    return result


def run(*args, **kw):
    """berth run ..."""
    return berth("run", *args, **kw)


class Drain(threading.Thread):
    """Reads a pipe to its end, so that no writer waits for us."""

    def __init__(self, fd):
        super().__init__(daemon=True)
        self.fd, self.data = fd, b""
        self.start()

    def run(self):
        with os.fdopen(self.fd, "rb") as f:
            self.data = f.read()

    def end(self, timeout=5):
        self.join(timeout * SLOW)
        if self.is_alive():
            raise AssertionError("the status fd is still held open after berth has ended")
        return self.data.decode()


def show(args):
    return "berth " + " ".join(str(a) if len(str(a)) < 200 else str(a)[:200] + "..." for a in args)


def describe(result):
    return (f"{show(result.args)}\nexit status {result.code}\nstdout: {result.out[:2000]!r}\n"
            f"stderr: {result.err[:2000]!r}\nverdict: {result.verdict}")


def expect(condition, result, what):
    if not condition:
        raise AssertionError(f"{what}\n{describe(result)}")


def expect_code(result, code):
    expect(result.code == code, result, f"expected exit status {code}, got {result.code}")


def check_verdict(result):
    v = result.verdict
    expect(isinstance(v, dict), result, "no verdict on the status fd")
    for key in VERDICT_KEYS:
        expect(key in v, result, f"the verdict has no {key}")
    expect(v["cause"] in CAUSES, result, f"cause {v['cause']} is not one of {CAUSES}")
    if v["cause"] in ("exit", "signal", "seccomp"):
        expect("exit_code" in v or "signal" in v, result, "neither exit_code nor signal")
    for key in ("wall_ms", "cpu_ms", "peak_memory_bytes", "read_bytes", "write_bytes", "left_behind"):
        if v[key] is not None:
            expect(isinstance(v[key], (int, float)) and v[key] >= 0, result, f"{key} is {v[key]!r}")
    if v["cause"] == "exit" and v.get("exit_code") is not None:
        expect(v["exit_code"] == result.code, result, "exit_code is not the exit status")


def one_line_error(result, code, *words):
    """One clear line on stderr that starts with "berth: ", has the words, and the exit status."""
    expect_code(result, code)
    lines = result.err.splitlines()
    expect(len(lines) == 1, result, f"expected one line on stderr, got {len(lines)}")
    expect(lines[0].startswith("berth"), result, "the line does not start with berth")
    expect(lines[0].replace("\t", " ").isprintable(), result, "the line has control characters")
    for word in words:
        expect(word.lower() in lines[0].lower(), result, f"the line does not say {word!r}")
    expect(result.out == "", result, "something on stdout")


# ---- waiting, killing -----------------------------------------------------

def wait_for(event, seconds=10, what="the event"):
    """
    Calls event() until it is true and returns that; looks every 5 ms.  A file that it does not find is not there yet, or
    is that of a process which has ended meanwhile.  what may be a function that tells.
    """
    end = time.monotonic() + seconds * SLOW
    while True:
        missing = None
        try:
            found = event()
        except (FileNotFoundError, ProcessLookupError) as e:
            found, missing = None, e
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{what() if callable(what) else what} did not come within {seconds * SLOW:.0f} s") from missing
        time.sleep(0.005)


def read_until(f, word, seconds=20):
    """Reads the pipe f (binary, of a Popen) until word has come; returns what was read."""
    got = b""
    os.set_blocking(f.fileno(), False)
    end = time.monotonic() + seconds * SLOW
    while word not in got:
        piece = None
        try:
            piece = os.read(f.fileno(), 65536)
        except BlockingIOError:
            pass
        if piece == b"":
            raise AssertionError(f"end of output before {word!r}; got {got[-2000:]!r}")
        got += piece or b""
        if piece is None:
            if time.monotonic() > end:
                raise AssertionError(f"no {word!r} within {seconds * SLOW:.0f} s; got {got[-2000:]!r}")
            time.sleep(0.005)
    os.set_blocking(f.fileno(), True)
    return got


def kill_tree(pid, including=False):
    """Sends SIGKILL to all descendants of pid (and to pid too) until none is alive."""
    for _ in range(200):
        victims = proc.descendants(pid)
        if including and proc.alive(pid):
            victims.append(pid)
        if not victims:
            return
        for victim in victims:
            proc.kill(victim)
        time.sleep(0.005)


def stop(p, sig=signal.SIGKILL):
    """Ends a Popen of start() and closes its pipes; returns its exit status."""
    if p.poll() is None:
        p.send_signal(sig)
    code = p.wait(30 * SLOW)
    for f in (p.stdin, p.stdout, p.stderr):
        if f:
            f.close()
    return code


def gc():
    return berth("gc", ok=True, timeout=30)


# ---- trees ----------------------------------------------------------------

def seal(top):
    """SEAL of the security notes: one hash of a tree's names, kinds, modes, owners and bytes."""
    h = hashlib.sha256()
    for line in sealed(top):
        h.update(line.encode(errors="surrogateescape") + b"\n")
    return h.hexdigest()


def sealed(top):
    lines = []

    def add(path, name):
        st = os.lstat(path)
        kind = stat.S_IFMT(st.st_mode)
        extra = ""
        if stat.S_ISLNK(st.st_mode):
            extra = os.readlink(path)
        elif stat.S_ISREG(st.st_mode):
            with open(path, "rb") as f:
                extra = hashlib.file_digest(f, "sha256").hexdigest()
        elif stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode):
            extra = str(st.st_rdev)
        size = st.st_size if not stat.S_ISDIR(st.st_mode) else 0
        xattrs = sorted(os.listxattr(path, follow_symlinks=False))
        lines.append(f"{name}|{kind:o}|{stat.S_IMODE(st.st_mode):o}|{st.st_uid}:{st.st_gid}|"
                     f"{st.st_nlink}|{size}|{xattrs}|{extra}")

    add(top, "")
    for where, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(where, name)
            add(path, os.path.relpath(path, top))
    return sorted(lines)


def victim(name="victim"):
    """A host directory outside every rootfs that no sandbox may change."""
    v = tmpdir(name)
    write(v + "/secret", "host-secret-canary\n", 0o600)
    write(v + "/open", "world writable\n", 0o666)
    write(v + "/sub/file", "below\n")
    os.chmod(v + "/sub", 0o777)
    os.symlink("secret", v + "/link")
    os.chmod(v, 0o777)
    return v


BUSYBOX = "/bin/busybox"


def busybox_rootfs(name="rootfs", dirs=("dev", "proc", "sys", "tmp", "run", "etc", "root", "workspace")):
    """A root filesystem of one static busybox, writable at will by the test."""
    if not os.access(BUSYBOX, os.X_OK) or b"statically" not in subprocess.run(
            ["file", "-L", BUSYBOX], stdout=subprocess.PIPE).stdout:
        raise skip("needs the package busybox-static (and file)")
    top = tmpdir(name)
    os.mkdir(top + "/bin")
    shutil.copy2(BUSYBOX, top + "/bin/busybox")
    for applet in ("sh", "ls", "cat", "echo", "id", "true", "false", "sleep", "mkdir", "touch", "ln", "rm",
                   "mv", "pwd", "readlink", "env", "stat", "head", "dd", "test", "grep", "chmod", "df",
                   "setsid", "mount", "hostname", "find", "wc", "kill", "ps", "cp", "rmdir", "seq"):
        os.symlink("busybox", f"{top}/bin/{applet}")
    for d in dirs:
        os.mkdir(f"{top}/{d}")
    if "etc" in dirs:
        write(top + "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n"
                                   "daemon:x:1:1:daemon:/usr/sbin:/bin/sh\n")
        write(top + "/etc/group", "root:x:0:\nuser:x:1000:\ndaemon:x:1:\nstaff:x:50:user\n")
    return top
