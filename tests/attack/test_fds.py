# SPDX-License-Identifier: Apache-2.0
"""T9, E04: what the caller had open, closed, ignored or set does not reach the command, nor stop berth.

Attacks S5 of SECURITY.md.
"""
import itertools
import os
import resource
import signal
import subprocess

import berthtest as b
import proc

COST = 15
LIST_FDS = "import os; print(sorted(os.listdir('/proc/self/fd'), key=int))"


def leak_fds(count=0, *paths):
    """Inheritable descriptors of things that no sandbox may have."""
    fds = [os.open(p, os.O_RDONLY) for p in paths]
    for n in fds[:1] * count:
        fds.append(os.dup(n))
    for n in fds:
        os.set_inheritable(n, True)
    return fds


def test_E04_the_command_has_three_descriptors():
    fds = leak_fds(40, "/etc", "/", b.root(), "/etc/shadow", "/proc/self/ns/mnt", "/sys/fs/cgroup")
    for options in ([], ["--seccomp", "unconfined"], ["-u", "1000"], ["--read-only"], ["--network", "host"], ["--attest"]):
        r = b.run(*options, "host", "sh", "-c", "ls /proc/self/fd", pass_fds=fds, ok=True)
        # the fourth is the directory that ls reads
        b.expect(r.out.split() == ["0", "1", "2", "3"], r, "descriptors leaked")
    for n in fds:
        os.close(n)


def test_E04_with_the_status_fd_too():
    r = b.run("host", "sh", "-c", "ls /proc/self/fd", verdict=True, ok=True)
    b.expect(r.out.split() == ["0", "1", "2", "3"], r, "the status fd leaked")


def test_E04_high_descriptors():
    n = os.open("/etc", os.O_RDONLY)
    high = []
    for target in (9, 63, 255, 1000, 4000):
        os.dup2(n, target, inheritable=True)
        high.append(target)
    r = b.run("host", "sh", "-c", "ls /proc/self/fd; cat /proc/self/fd/9/hostname /dev/fd/4000/shadow", pass_fds=high)
    b.expect(r.out.split() == ["0", "1", "2", "3"], r, "descriptors leaked")
    for target in high + [n]:
        os.close(target)


def test_T9_every_process_of_the_sandbox_has_only_its_own():
    """As seen from the host: init has an allow-list, the command 0, 1, 2; none points to the host's files."""
    fds = leak_fds(10, "/etc", "/etc/passwd")
    p = b.start("run", "host", "sh", "-c", "echo ready; sleep 100; :", pass_fds=fds)
    b.read_until(p.stdout, b"ready\n")

    def init_sh_and_sleep():
        inside = [d for d in proc.descendants(p.pid) if os.stat(f"/proc/{d}/ns/pid").st_ino != os.stat("/proc/self/ns/pid").st_ino]
        names = [open(f"/proc/{d}/comm").read().strip() for d in inside]
        return "sleep" in names and len(inside) == 3 and inside
    inside = b.wait_for(init_sh_and_sleep, what=lambda: [proc.cmdline(d) for d in proc.descendants(p.pid)])
    for pid in inside:
        name = open(f"/proc/{pid}/comm").read().strip()
        links = {int(n): os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}
        if name in ("sh", "sleep"):
            assert set(links) == {0, 1, 2}, (name, links)
        for n, to in links.items():
            allowed = to.startswith(("socket:", "anon_inode:", "/dev/null", "/memfd:", "pipe:"))
            assert allowed, f"{name} ({pid}) has {n} -> {to}"
        assert len(links) <= 12, (name, links)
        cwd, exe = os.readlink(f"/proc/{pid}/cwd"), os.readlink(f"/proc/{pid}/exe")
        assert not cwd.startswith("/work/main") and b.BERTH not in exe, (cwd, exe)
    b.stop(p, signal.SIGTERM)
    for n in fds:
        os.close(n)


def closed(which):
    def close():
        for n in which:
            os.close(n)
    return close


def test_E04_no_directory_of_the_host_as_stdin_stdout_or_stderr():
    """By /proc/self/fd/0/.. it would be the whole tree of the host's files, for whoever may write /var/tmp, say."""
    box = b.berth("create", "host", ok=True).out.strip()
    try:
        for flags in (os.O_RDONLY | os.O_DIRECTORY, os.O_PATH | os.O_DIRECTORY):
            fd = os.open(b.root(), flags)
            for name in ("stdin", "stdout", "stderr"):
                for args in (("run", "host"), ("exec", box)):
                    popen = {n: subprocess.PIPE for n in ("stdin", "stdout", "stderr")}
                    popen[name] = fd
                    p = subprocess.Popen([b.BERTH, *args, "ls", "/proc/self/fd/0/../../.."], env=b.environment(), **popen)
                    out, err = p.communicate(timeout=30 * b.SLOW)
                    assert p.returncode in (2, 125) and not out, (name, args, p.returncode, out, err)
                    if not flags & os.O_PATH and name != "stderr":
                        assert f"the command's {name} is a directory".encode() in err, err
            os.close(fd)
        with open(os.path.join(b.root(), "tmp"), "rb", opener=lambda path, _: os.open("/etc/hostname", os.O_PATH)) as f:
            r = subprocess.run([b.BERTH, "run", "host", "cat"], stdin=f, env=b.environment(), capture_output=True, timeout=30 * b.SLOW)
            assert r.returncode in (2, 125) and not r.stdout, r
    finally:
        b.berth("rm", "-f", box, ok=True)


def test_closed_standard_descriptors():
    """In all 8 combinations: a clean error or success, and no file of berth's is taken for 0, 1 or 2."""
    for which in itertools.chain.from_iterable(itertools.combinations((0, 1, 2), n) for n in range(4)):
        r = b.run("host", "sh", "-c", "ls -l /proc/self/fd >/tmp/l 2>&1; cat /tmp/l; true", preexec_fn=closed(which), timeout=20)
        b.expect(r.code in (0, 125), r, f"with {which} closed")
        if r.code == 0 and 1 not in which:
            for line in r.out.splitlines():
                b.expect("->" not in line or any(w in line for w in ("pipe:", "/dev/null", "/tmp/l", "/proc/")), r, f"with {which} closed")
        if r.code == 125 and 2 not in which:
            b.one_line_error(r, 125)


def test_closed_standard_descriptors_with_files_of_the_state():
    for which in ((0,), (0, 1), (0, 1, 2)):
        fds = leak_fds(3, "/etc/passwd")
        r = b.run("host", "sh", "-c", "cat; echo x >&1; exit 0", preexec_fn=closed(which), pass_fds=fds, timeout=20)
        b.expect(r.code in (0, 1, 125), r, f"with {which} closed")
        b.expect("root:" not in r.out, r, "read a leaked file as its stdin")
        for n in fds:
            os.close(n)


def test_a_hostile_environment_changes_nothing():
    marker = b.tmp("marker")
    evil = b.write(b.tmp("evil.sh"), f"touch {marker}\n", 0o755)
    env = {
        "LD_PRELOAD": "/nonexistent.so", "LD_LIBRARY_PATH": b.tmp("lib"), "LD_AUDIT": "/x.so", "BASH_ENV": evil, "ENV": evil,
        "PATH": b.tmp("bin"), "IFS": "/", "TMPDIR": "/nonexistent", "HOME": "/nonexistent", "LANG": "../../x", "LC_ALL": "C\n",
        "TERM": "\x1b[31m", "GCONV_PATH": b.tmp("lib"), "MALLOC_CHECK_": "3", "GLIBC_TUNABLES": "glibc.malloc.check=3", "COLUMNS": "-1",
        "XDG_RUNTIME_DIR": "/etc", "PYTHONPATH": "/x", "TZ": ":/etc/shadow", "RESOLV_HOST_CONF": "/etc/shadow", "NLSPATH": "/x",
    }
    for program in ("mount", "sh", "berth-image", "ip", "newuidmap"):
        b.write(b.tmp("bin/" + program), f"#!/bin/sh\ntouch {marker}\n", 0o755)
    r = b.run("host", "/usr/bin/env", env=env)
    b.expect(r.code == 0, r, "exit status")
    b.expect(not os.path.exists(marker), r, "something of the caller's PATH or shell files was executed")
    for name in env:
        if name not in ("PATH", "HOME", "TERM", "LANG"):
            b.expect(f"{name}=" not in r.out, r, f"{name} is inside")
    b.expect(b.tmp("bin") not in r.out and "\x1b" not in r.out and "/nonexistent" not in r.out, r, "a value is inside")


def test_an_empty_and_a_huge_environment():
    keep = {k: v for k, v in b.environment().items() if k.startswith("BERTH_")}
    for env in (keep, dict(keep, **{f"V{i}": "x" * 100_000 for i in range(18)})):
        p = subprocess.run([b.BERTH, "run", "host", "echo", "ok"], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=20 * b.SLOW)
        assert (p.returncode, p.stdout) == (0, b"ok\n"), p


def test_relative_and_hostile_state_directories():
    os.symlink(b.victim(), b.tmp("link"))
    before = b.seal(b.tmp("victim"))
    for value in ("relative/dir", "/proc/self", "/dev/null", "../x", "x" * 5000, b.tmp("link")):
        r = b.run("host", "true", env={"BERTH_RUN_DIR": value}, timeout=20, cwd=b.root())
        b.expect(r.code in (2, 125), r, f"BERTH_RUN_DIR={value!r:.60}")
        b.one_line_error(r, r.code)
    assert b.seal(b.tmp("victim")) == before
    for value in ("", "x/../../y", "notberth", "/berth", "berth/x", "berth\n", "berth" + "x" * 300, "../berth"):
        r = b.run("host", "true", env={"BERTH_CGROUP_PARENT": value or "-"}, timeout=20)
        b.expect(r.code in (2, 125), r, f"BERTH_CGROUP_PARENT={value!r:.60}")
        b.one_line_error(r, r.code)


def test_E21_a_state_directory_others_can_write_is_refused():
    for mode, owner in ((0o777, 0), (0o700, 1000), (0o770, 0)):
        d = b.tmpdir(f"run-{mode:o}-{owner}", mode)
        os.chown(d, owner, owner)
        r = b.run("host", "true", env={"BERTH_RUN_DIR": d})
        b.one_line_error(r, 125)
        assert os.listdir(d) == [], "something was made in it"


def test_state_directories_are_private():
    b.run("host", "true", ok=True)
    for d in ("state", "run"):
        for where, _, _ in os.walk(os.path.join(b.root(), d)):
            st = os.lstat(where)
            if "/host/" in where + "/" and where != os.path.join(b.root(), d, "host"):
                continue  # below a private directory; read through an idmapped mount
            assert st.st_mode & 0o077 == 0 and st.st_uid == 0, (where, oct(st.st_mode))


def test_odd_limits_of_the_caller():
    def limit(what, soft, hard=None):
        def apply():
            resource.setrlimit(what, (soft, soft if hard is None else hard))
        return apply
    odd = {
        "8 descriptors": limit(resource.RLIMIT_NOFILE, 8), "no file size": limit(resource.RLIMIT_FSIZE, 0),
        "64 MiB of address space": limit(resource.RLIMIT_AS, 64 << 20), "one process": limit(resource.RLIMIT_NPROC, 1),
        "one second of cpu": limit(resource.RLIMIT_CPU, 1),
        "no core": limit(resource.RLIMIT_CORE, 0), "no locked memory": limit(resource.RLIMIT_MEMLOCK, 0),
    }
    if b.SANITIZED:     # AddressSanitizer wants terabytes of address space
        del odd["64 MiB of address space"]
    for label, apply in odd.items():
        r = b.run("host", "echo", "ok", preexec_fn=apply, timeout=20)
        b.expect(r.code in (0, 125, 2) or (label == "no file size" and r.code > 128), r, label)
        if r.code == 0:
            b.expect(r.out == "ok\n", r, label)
        elif r.code == 125:
            b.one_line_error(r, 125)
    b.gc()


def test_a_deleted_working_directory_and_an_odd_umask():
    gone = b.tmpdir("gone")
    r = b.run("host", "echo", "ok", cwd=gone, preexec_fn=lambda: os.rmdir(gone), ok=True)
    for mask in (0, 0o777):
        r = b.run("host", "sh", "-c", "umask; touch /tmp/x && cat /etc/passwd >/dev/null && echo ok", preexec_fn=lambda m=mask: os.umask(m),
                  env={"BERTH_STATE_DIR": b.tmpdir(f"state-{mask}", 0o700)}, ok=True)
        b.expect(r.out.endswith("0022\nok\n"), r, f"umask {mask:o}")


def test_all_signals_ignored():
    def ignore():
        for n in range(1, 65):
            try:
                signal.signal(n, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    r = b.run("--timeout", "300ms", "--grace", "100ms", "host", "sleep", "100", preexec_fn=ignore, timeout=10, verdict=True)
    b.expect(r.code == 124, r, "the timeout does not work with all signals ignored")
    r = b.run("host", "sh", "-c", "(exit 3); echo $?; kill -TERM $$; echo alive", preexec_fn=ignore, timeout=10)
    b.expect((r.code, r.out) == (143, "3\n"), r, "the command inherits ignored signals")


def test_argv0_does_not_matter():
    for name in ("", "-", "/proc/self/exe", "berth-init", "x" * 10000, "../../berth"):
        p = subprocess.run([name, "run", "host", "echo", "ok"], executable=b.BERTH, env=b.environment(), stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=20 * b.SLOW)
        assert (p.returncode, p.stdout) == (0, b"ok\n"), (name[:40], p)
    empty = subprocess.run(["python3", "-c", "import ctypes, sys; ctypes.CDLL(None).execv(sys.argv[1].encode(), (ctypes.c_char_p * 1)(None))",
                            b.BERTH], env=b.environment(), capture_output=True, timeout=20 * b.SLOW)
    assert empty.returncode in (0, 2, 125), empty


def test_E22_a_setuid_copy_refuses():
    copy = b.tmp("berth-suid")
    subprocess.run(["cp", b.BERTH, copy], check=True)
    os.chmod(copy, 0o4755)
    os.chmod(b.root(), 0o711)
    os.chmod(os.path.join(b.root(), "tmp"), 0o711)
    p = subprocess.run([copy, "run", "host", "id", "-u"], env=b.environment(), capture_output=True, timeout=20 * b.SLOW, cwd="/",
                       user=65534, group=65534, extra_groups=[])
    assert p.returncode not in (0,) and p.stdout == b"", p
    assert len(p.stderr.splitlines()) == 1, p
