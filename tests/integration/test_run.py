# SPDX-License-Identifier: Apache-2.0
"""berth run, as a user meets it: exit status, verdict, descriptors, environment, user, mounts, limits' options.

Attacks S9, S12 of SECURITY.md.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import berthtest as b

COST = 17


def sh(script, *options, **kw):
    return b.run(*options, "host", "sh", "-c", script, **kw)


def out(script, *options, **kw):
    return sh(script, *options, ok=True, **kw).out


# ---- how it ends ----------------------------------------------------------

def test_the_exit_status_is_the_commands():
    for code in (0, 1, 7, 125, 126, 127, 255):
        r = sh(f"exit {code}", verdict=True, ok=code)
        b.expect((r.verdict["cause"], r.verdict["exit_code"]) == ("exit", code), r, "the verdict differs")
        b.expect(r.out == "" and r.err == "", r, "something was printed")


def test_a_signal_is_128_and_its_number():
    for name in ("TERM", "KILL", "SEGV", "HUP", "USR1", "ABRT"):
        number = getattr(signal, "SIG" + name).value
        r = sh(f"kill -{name} $$; sleep 5", verdict=True, ok=128 + number)
        b.expect((r.verdict["cause"], r.verdict.get("signal")) == ("signal", number), r, "the verdict differs")


def test_a_forbidden_call_that_kills_is_seccomp():
    program = b.write(b.tmp("x32.c"), '#include <unistd.h>\n#include <sys/syscall.h>\n'
                      'int main(void) { return (int)syscall(0x40000000L | 39); }\n')
    subprocess.run(["gcc", "-static", "-o", b.tmpdir("bin") + "/x32", program], check=True)
    r = b.run("-v", b.tmp("bin") + ":/t", "host", "/t/x32", verdict=True, ok=128 + signal.SIGSYS)
    b.expect(r.verdict["cause"] == "seccomp", r, "not seccomp")


def test_a_command_that_is_not_there_is_127():
    for command in ("nosuchcommand", "/usr/bin/nosuchcommand", "./nothere"):
        b.one_line_error(b.run("host", command), 127, os.path.basename(command))


def test_a_command_that_cannot_be_executed_is_126():
    b.write(b.tmp("v/data"), "no program\n", 0o644)
    b.write(b.tmp("v/empty"), "", 0o755)
    b.write(b.tmp("v/badinterp"), "#!/nonexistent/interpreter\n", 0o755)
    b.one_line_error(b.run("-v", b.tmp("v") + ":/v", "host", "/v/data"), 126, "/v/data")
    b.one_line_error(b.run("host", "/usr"), 126, "/usr")
    r = b.run("-v", b.tmp("v") + ":/v", "host", "/v/badinterp")
    b.expect(r.code in (126, 127), r, "expected 126 or 127")


def test_failures_give_no_verdict_of_success():
    for args in (["host", "nosuchcommand"], ["nosuchimage", "true"], ["--memory", "abc", "host", "true"]):
        r = b.run(*args, verdict=True)
        b.expect(r.code != 0 and (r.verdict is None or r.verdict.get("cause") != "exit"), r, "a verdict of a run")


def test_the_verdict_counts():
    r = sh("head -c 50000000 /dev/zero | sha256sum >/dev/null; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done;"
           "exit 3", verdict=True, ok=3)
    v = r.verdict
    b.expect(v["cpu_ms"] >= 10, r, "no cpu time")
    b.expect(10 <= v["wall_ms"] <= r.seconds * 1000 + 5, r, "wall time")
    b.expect(v["cpu_ms"] <= v["wall_ms"] * 2 + 50, r, "cpu time beyond two cores")
    b.expect(100_000 < v["peak_memory_bytes"] < 512 << 20, r, "peak memory")
    b.expect(v["timed_out"] is False and v["left_behind"] == 0, r, "timed_out, left_behind")


def test_json_is_the_last_line_of_stdout():
    r = sh("echo to-stdout; echo to-stderr >&2; exit 4", "--json", ok=4)
    b.expect(r.err == "to-stderr\n", r, "stderr is the command's alone")
    lines = r.out.splitlines()
    b.expect(len(lines) == 2 and lines[0] == "to-stdout", r, "stdout: the command's line, then the verdict")
    b.expect(json.loads(lines[1])["exit_code"] == 4, r, "the verdict")


def test_json_errors_are_json():
    r = b.run("--json", "--memory", "abc", "host", "true", ok=2)
    told = [l for l in (r.out + r.err).splitlines() if l.startswith("{")]
    b.expect(len(told) == 1 and "memory" in json.dumps(json.loads(told[0])), r, "no JSON error")


def test_the_program_is_looked_for_along_path():
    """Missing directories, files in their place and files that cannot be executed are passed over, as in a shell."""
    place = b.tmpdir("path")
    for d, mode in (("none", 0o644), ("good", 0o755), ("better", 0o755)):
        os.mkdir(f"{place}/{d}")
        b.write(f"{place}/{d}/tool", f"#!/bin/sh\necho {d}\n")
        os.chmod(f"{place}/{d}/tool", mode)
    b.write(f"{place}/file", "")

    def run(path):
        return b.berth("run", "-v", f"{place}:/p", "-e", f"PATH={path}", "host", "tool")
    for path, says in (("/nowhere:/p/file:/p/none:/p/good:/p/better", "good\n"), ("/p/better:/p/good", "better\n"), (":/p/good", "good\n"),
                       ("/" + "x" * 5000 + ":/p/good", "good\n")):
        b.expect(run(path).out == says, run(path), f"PATH={path[:80]}")
    assert run("/nowhere:/p/none").code == 126 and run("/nowhere:/p/file").code == 127


def test_processes_left_behind_are_counted_and_gone():
    r = sh("sleep 300 & sleep 301 & setsid sleep 302 & echo hi", verdict=True, ok=0, timeout=20)
    b.expect(r.out == "hi\n", r, "output")
    b.expect(r.verdict["left_behind"] == 3, r, "left_behind")


# ---- descriptors ----------------------------------------------------------

def test_ten_mebibytes_of_any_bytes_go_through_cat():
    data = os.urandom(10 << 20)
    with open(b.tmp("in"), "wb") as f:
        f.write(data)
    with open(b.tmp("in"), "rb") as i, open(b.tmp("out"), "wb") as o:
        b.run("host", "cat", stdin=i, stdout=o, ok=True)
    assert open(b.tmp("out"), "rb").read() == data
    # and through pipes
    p = b.start("run", "host", "cat", stdin=subprocess.PIPE)
    got, err = p.communicate(data, timeout=60 * b.SLOW)
    assert p.returncode == 0 and got == data, (p.returncode, len(got), err)


def test_the_descriptors_are_the_callers_own():
    r, w = os.pipe()
    inode = os.fstat(w).st_ino
    p = b.start("run", "host", "python3", "-c", "import os, sys; sys.stderr.write(os.readlink('/proc/self/fd/1'))", stdout=w)
    os.close(w)
    _, err = p.communicate(timeout=30 * b.SLOW)
    os.close(r)
    assert err.decode().strip() == f"pipe:[{inode}]", err
    with open(b.tmp("file"), "wb") as f:
        b.run("host", "stat", "-L", "-c", "%i", "/proc/self/fd/1", stdout=f, ok=True)
    assert open(b.tmp("file")).read().strip() == str(os.stat(b.tmp("file")).st_ino)


def test_the_file_offset_is_shared():
    with open(b.tmp("log"), "wb") as f:
        f.write(b"before\n")
        f.flush()
        b.run("host", "echo", "inside", stdout=f, ok=True)
        f.seek(0, os.SEEK_CUR)
        os.write(f.fileno(), b"after\n")
    assert open(b.tmp("log")).read() == "before\ninside\nafter\n"


def test_stdout_and_stderr_are_apart():
    r = sh("echo o; echo e >&2", ok=True)
    b.expect((r.out, r.err) == ("o\n", "e\n"), r, "mixed")


def test_a_closed_reader_ends_the_writer():
    p = b.start("run", "host", "yes")
    b.read_until(p.stdout, b"y\n")
    p.stdout.close()
    code = p.wait(20 * b.SLOW)
    p.stderr.close()
    assert code == 128 + signal.SIGPIPE, code


def test_without_a_command_the_host_image_has_a_shell():
    r = b.run("host", input="echo $((6 * 7)); exit 5\n", ok=5)
    b.expect(r.out == "42\n", r, "output")


def test_arguments_are_passed_as_they_are():
    odd = ["-c", "--memory", "", " ", "a b", "$(id)", "*", "\x7f\x01", "ü", "--", "x" * 100_000]
    r = b.run("host", "python3", "-c", "import sys; print(ascii(sys.argv[1:]))", *odd, ok=True)
    b.expect(r.out.strip() == ascii(odd), r, "arguments changed")
    b.expect(b.run("--", "host", "echo", "-n", "--x", ok=True).out == "--x", r, "-- before the image")


def test_E15_a_command_that_looks_like_an_option_is_a_command():
    for command in ("--bind", "-v", "--cap-add=ALL"):
        b.one_line_error(b.run("host", command, "/", "/host"), 127)


# ---- signals --------------------------------------------------------------

def test_signals_are_forwarded():
    for name in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2"):
        p = b.start("run", "host", "sh", "-c", f"trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.01; done")
        b.read_until(p.stdout, b"ready\n")
        p.send_signal(getattr(signal, "SIG" + name))
        got, _ = p.communicate(timeout=20 * b.SLOW)
        assert (got, p.returncode) == (b"got\n", 9), (name, got, p.returncode)


def test_a_signal_with_its_default_action_ends_the_command():
    for name in ("TERM", "INT", "HUP"):
        p = b.start("run", "host", "sh", "-c", "echo ready; exec sleep 100")
        b.read_until(p.stdout, b"ready\n")
        p.send_signal(getattr(signal, "SIG" + name))
        p.communicate(timeout=20 * b.SLOW)
        assert p.returncode == 128 + getattr(signal, "SIG" + name), (name, p.returncode)


def test_ignored_and_blocked_signals_are_not_inherited():
    def ignore():
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(s, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM])
    r = b.run("host", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status", preexec_fn=ignore, ok=True, timeout=20)
    values = dict(line.split() for line in r.out.replace(":", "").splitlines())
    b.expect(int(values["SigBlk"], 16) == 0 and int(values["SigIgn"], 16) == 0, r, "inherited")


# ---- environment ----------------------------------------------------------

def test_the_callers_environment_stays_outside():
    r = out("env", env={"HOST_SECRET_CANARY": "leak", "LD_PRELOAD": "/nonexistent.so", "BASH_ENV": "/x", "IFS": "x"})
    names = {line.split("=", 1)[0] for line in r.splitlines()}
    assert not names & {"HOST_SECRET_CANARY", "LD_PRELOAD", "BASH_ENV", "BERTH_STATE_DIR", "BERTH_RUN_DIR", "BERTH_IDS_DIR",
                        "BERTH_CGROUP_PARENT"}, names
    assert names <= {"PATH", "HOME", "HOSTNAME", "PWD", "TERM", "LANG", "USER", "SHELL", "SHLVL", "_", "PYTHONUNBUFFERED",
                     "LOGNAME", "OLDPWD"}, names
    assert {"PATH", "HOME"} <= names, names


def test_variables_that_are_given_arrive():
    b.write(b.tmp("env"), "# a comment\n\nFILE=from file\nA=file loses\nQUOTED=\"as it is\"\nEQ=a=b\n")
    r = out('printf "%s|" "$A" "$B" "$FILE" "$FROM" "$QUOTED" "$EQ" "$EMPTY" "${EMPTY-unset}"',
            "--env-file", b.tmp("env"), "--env", "A=1", "-e", "B=two words", "-e", "FROM", "-e", "EMPTY=",
            env={"FROM": "the caller"})
    assert r == '1|two words|from file|the caller|"as it is"|a=b|||', repr(r)


def test_the_home_follows_the_user():
    assert out("echo $HOME") == "/root\n"
    assert out("echo $HOME", "-u", "sandbox") == "/home/sandbox\n"
    assert out("echo $HOME", "-u", "sandbox", "-e", "HOME=/elsewhere") == "/elsewhere\n"


# ---- user, directory, name ------------------------------------------------

def test_users():
    for user, want in (("0", "0:0"), ("root", "0:0"), ("1000", "1000:1000"), ("1000:50", "1000:50"),
                       ("sandbox", "1000:1000"), ("sandbox:staff", "1000:50"), ("nobody", "65534:65534"),
                       ("1234:4321", "1234:4321"), ("65535:65535", "65535:65535")):
        r = b.run("-u", user, "host", "sh", "-c", "echo $(id -u):$(id -g)", ok=True)
        b.expect(r.out.strip() == want, r, f"user {user} should be {want}")


def test_no_groups_of_the_caller_are_kept():
    r = b.run("host", "sh", "-c", "grep Groups /proc/self/status; id -G", ok=True,
              prefix=["setpriv", "--groups=7777,7778"])
    groups = set(re.findall(r"\d+", r.out))
    b.expect(groups <= {"0"}, r, "groups of the caller (E17)")


def test_the_working_directory():
    assert out("pwd; touch x && echo writable") == "/workspace\nwritable\n"
    assert out("pwd; touch x && echo writable", "-w", "/a/new/dir") == "/a/new/dir\nwritable\n"
    assert out("pwd; touch x && echo writable", "-w", "/a/new/dir", "-u", "1000") == "/a/new/dir\nwritable\n"
    assert out("pwd", "--workdir", "/usr") == "/usr\n"
    assert out("pwd; touch x && echo writable", "-u", "1000") == "/workspace\nwritable\n"


def test_the_hostname():
    assert out("hostname; cat /etc/hostname; cat /proc/sys/kernel/hostname", "--hostname", "box-1.x") == "box-1.x\n" * 3
    mine = out("hostname").strip()
    assert mine and mine != socket.gethostname(), mine
    assert out("hostname -i >/dev/null 2>&1; grep -c box1 /etc/hosts", "--hostname", "box1").strip() != "0"


def test_a_name_is_taken_while_the_sandbox_lives():
    p = b.start("run", "--name", "one", "host", "sh", "-c", "echo up; exec sleep 100")
    b.read_until(p.stdout, b"up\n")
    b.one_line_error(b.run("--name", "one", "host", "true"), 125, "one")
    b.run("--name", "two", "host", "true", ok=True)
    p.terminate()
    p.communicate(timeout=20 * b.SLOW)
    b.run("--name", "one", "host", "true", ok=True)


# ---- mounts ---------------------------------------------------------------

def test_a_volume_is_read_only_by_default():
    d = b.victim()
    before = b.seal(d)
    r = sh("cat /v/sub/file; touch /v/new; echo x >/v/open; rm /v/link; chmod 777 /v/sub/file; mkdir /v/sub/d; true",
           "-v", d + ":/v", ok=True)
    b.expect(r.out == "below\n", r, "not readable")
    b.expect(b.seal(d) == before, r, "the volume changed")
    b.expect(r.err.count("Read-only file system") >= 4, r, "other errors than EROFS")


def test_a_writable_volume_keeps_the_uids():
    d = b.tmpdir("rw", 0o777)
    b.run("-v", d + ":/v:rw", "-u", "1000:1000", "host", "sh", "-c", "echo hi >/v/a; mkdir /v/d", ok=True)
    b.run("-v", d + ":/v:rw", "-u", "0", "host", "sh", "-c", "echo hi >/v/root; chown 33:50 /v/root", ok=True)
    st = os.stat(d + "/a")
    assert (st.st_uid, st.st_gid) == (1000, 1000), st
    assert os.stat(d + "/d").st_uid == 1000
    st = os.stat(d + "/root")
    assert (st.st_uid, st.st_gid) == (33, 50), st
    # and a file of host uid 1000 is 1000's inside
    assert b.run("-v", d + ":/v", "host", "stat", "-c", "%u", "/v/a", ok=True).out == "1000\n"


def test_a_setuid_file_or_a_device_in_a_volume_is_dead():
    d = b.tmpdir("suid", 0o777)
    subprocess.run(["cp", "/usr/bin/id", d + "/id"], check=True)
    os.chmod(d + "/id", 0o4755)
    os.mknod(d + "/zero", 0o666 | 0o020000, os.makedev(1, 5))
    r = b.run("-v", d + ":/v:rw", "-u", "1000", "host", "sh", "-c",
              "/v/id -u; head -c1 /v/zero >/dev/null && echo device opened; true", ok=True)
    b.expect(r.out == "1000\n", r, "setuid or device works")


def test_a_setuid_file_made_in_a_writable_volume_is_no_gift_to_the_host():
    """The sandbox's root makes files of host uid 0: with a setuid bit they would serve a user of the host."""
    d = b.tmpdir("gift", 0o777)
    b.run("-v", d + ":/v:rw", "host", "sh", "-c", "cp /usr/bin/id /v/id && chmod 4755 /v/id; true", ok=True)
    if os.path.exists(d + "/id"):
        st = os.stat(d + "/id")
        # recorded, not forbidden: the operator shared the directory; but it must be nosuid inside
        assert st.st_uid in (0, 100000) or st.st_uid > 65535, st


def test_volumes_of_one_file_and_relative_sources():
    b.write(b.tmp("one"), "content\n")
    assert b.run("-v", b.tmp("one") + ":/etc/one", "host", "cat", "/etc/one", ok=True).out == "content\n"
    r = b.run("-v", "./one:/deep/er/one", "-v", ".//one:/o", "host", "cat", "/deep/er/one", "/o", ok=True,
              cwd=os.path.dirname(b.tmp("one")))
    b.expect(r.out == "content\n" * 2, r, "output")


def test_the_mount_option():
    d = b.tmpdir("src", 0o777)
    r = b.run("--mount", f"type=bind,src={d},dst=/m", "--mount", "type=tmpfs,dst=/t,size=1m", "host", "sh", "-c",
              "touch /m/x 2>/dev/null || echo ro; touch /t/x && echo rw; df -k /t | tail -1 | awk '{print $2}'", ok=True)
    b.expect(r.out == "ro\nrw\n1024\n", r, "output")
    b.run("--mount", f"type=bind,source={d},target=/m,rw", "host", "touch", "/m/y", ok=True)
    assert os.listdir(d) == ["y"]


def test_later_mounts_of_a_target_win_and_parents_come_first():
    for name in ("outer", "inner"):
        b.write(b.tmp(name) + "/f", name)
    os.mkdir(b.tmp("outer") + "/in")
    r = b.run("-v", b.tmp("inner") + ":/v/in", "-v", b.tmp("outer") + ":/v", "host", "cat", "/v/f", "/v/in/f", ok=True)
    b.expect(r.out == "outerinner", r, "output")


def test_a_tmpfs_has_its_size():
    r = sh("df -k /t | tail -1 | awk '{print $2}'; head -c 3000000 /dev/zero >/t/x; stat -c %s /t/x",
           "--tmpfs", "/t:size=2m", ok=True)
    b.expect(r.out == "2048\n2097152\n", r, "size")
    b.expect("No space left" in r.err, r, "no ENOSPC")
    assert out("touch /t/x && stat -f -c %T /t", "--tmpfs", "/t") == "tmpfs\n"


def test_read_only():
    r = sh("for d in / /etc /usr /root /workspace /home /var; do touch $d/x 2>/dev/null && echo $d; done;"
           "touch /tmp/x && echo tmp", "--read-only", ok=True)
    b.expect(r.out == "tmp\n", r, "written to")


def test_the_root_is_writable_and_forgotten():
    assert out("echo x >/root/x && echo y >/etc/y && rm /etc/passwd && mkdir /new && echo done") == "done\n"
    assert out("ls -d /root/x /etc/y /new 2>/dev/null; ls /etc/passwd; true") == "/etc/passwd\n"


def test_nothing_private_of_the_host_is_in_the_host_image():
    r = sh("ls -A /home /root /opt /srv /mnt /media 2>/dev/null; cat /etc/shadow; ls /var/lib/dpkg /var/run/*.sock; find / -xdev"
           " -type s; true")
    b.expect("shadow" in r.err and ".ssh" not in r.out and ".bashrc" not in r.out, r, "private files")
    canary = "berth-canary-%d" % os.getpid()
    places = [f"/tmp/{canary}", f"/var/tmp/{canary}", f"/root/{canary}", f"/home/{canary}", f"/run/{canary}"]
    try:
        for p in places:
            b.write(p, "canary")
        r = sh(f"find / -name '{canary}' 2>/dev/null; true", ok=True)
        b.expect(r.out == "", r, "files of the host are visible")
    finally:
        for p in places:
            if os.path.exists(p):
                os.unlink(p)


# ---- network --------------------------------------------------------------

def test_no_network_by_default_and_the_hosts_on_request():
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    threading.Thread(target=lambda: serve(listener), daemon=True).start()
    connect = f"import socket; s = socket.create_connection(('127.0.0.1', {port}), 5); print(s.recv(9))"
    r = b.run("host", "python3", "-c", connect)
    b.expect(r.code == 1 and "refused" in r.err, r, "reached the host's port")
    r = b.run("--network", "none", "host", "python3", "-c", connect)
    b.expect(r.code == 1, r, "reached the host's port")
    r = b.run("--network", "host", "host", "python3", "-c", connect, ok=True)
    b.expect(r.out == "b'hello'\n", r, "did not reach the host's port")
    listener.close()


def serve(listener):
    try:
        while True:
            c, _ = listener.accept()
            c.sendall(b"hello")
            c.close()
    except OSError:
        pass


def test_loopback_is_up():
    r = b.run("host", "python3", "-c", "import socket; a = socket.create_server(('127.0.0.1', 0));"
              "socket.create_connection(a.getsockname(), 5); a = socket.create_server(('::1', 0), family=socket.AF_INET6);"
              "socket.create_connection(a.getsockname()[:2], 5); print([n for _, n in socket.if_nameindex()])", ok=True)
    b.expect(r.out == "['lo']\n", r, "interfaces")


# ---- confinement options --------------------------------------------------

def test_capabilities():
    def caps(*options):
        return int(out("grep CapBnd /proc/self/status", *options).split()[1], 16)
    eight = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 10
    assert caps() == eight, hex(caps())
    assert caps("--cap-drop", "ALL") == 0
    assert caps("--cap-drop", "all", "--cap-add", "CAP_KILL") == 1 << 5
    assert caps("--cap-add", "sys_nice", "--cap-drop", "CHOWN") == (eight | 1 << 23) & ~1
    assert caps("-u", "1000") == eight
    r = out("grep -E 'Cap(Eff|Prm|Inh|Amb)' /proc/self/status", "-u", "1000")
    assert all(int(line.split()[1], 16) == 0 for line in r.splitlines()), r
    r = out("grep -E 'Cap(Inh|Amb)' /proc/self/status")
    assert all(int(line.split()[1], 16) == 0 for line in r.splitlines()), r


def test_a_seccomp_file():
    seccomp_file("p.json", "symlink", "symlinkat")
    r = sh("ln -s a /tmp/x; true", "--seccomp", b.tmp("p.json"), ok=True)
    b.expect("not supported" in r.err, r, "the profile was not applied")
    b.write(b.tmp("bad.json"), "{")
    r = b.run("--seccomp", b.tmp("bad.json"), "host", "true")
    b.expect(r.code in (2, 125), r, "accepted")
    b.one_line_error(r, r.code, "bad.json")


def test_a_seccomp_file_binds_the_command_and_not_the_set_up():
    seccomp_file("p.json", "mkdir", "mkdirat", "chdir", "fchdir", "chown", "fchown", "fchownat", "setresuid", "openat2")
    r = sh("mkdir /tmp/x; pwd", "--seccomp", b.tmp("p.json"), ok=True)
    b.expect("not supported" in r.err and r.out == "/workspace\n", r, "the profile was not applied")


def seccomp_file(name, *denied):
    b.write(b.tmp(name), json.dumps({
        "defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [{"names": list(denied), "action": "SCMP_ACT_ERRNO", "errnoRet": 95}]}))


def test_rlimits():
    assert out("ulimit -n; ulimit -Hn; ulimit -c; ulimit -Hc") == "1024\n4096\n1\n1\n" or \
        re.fullmatch(r"1024\n4096\n\d\n\d\n", out("ulimit -n; ulimit -Hn; ulimit -c; ulimit -Hc"))
    assert "1 " in out("grep 'core file' /proc/self/limits")
    assert out("ulimit -n; ulimit -Hn", "--ulimit", "nofile=64:128") == "64\n128\n"
    assert out("ulimit -n; ulimit -Hn", "--ulimit", "nofile=99") == "99\n99\n"


def test_the_dry_run_prints_the_plan_and_does_nothing():
    r = b.run("--dry-run", "--memory", "77m", "-v", "/usr/share:/shared-thing", "host", "touch", "/workspace/x", ok=True)
    for word in ("/shared-thing", "/proc", "/dev", str(77 << 20), "CHOWN", "seccomp"):
        b.expect(word.lower() in r.out.lower(), r, f"the plan does not speak of {word}")
    b.expect(not os.path.isdir(b.root() + "/run/sandboxes") or not os.listdir(b.root() + "/run/sandboxes"), r, "a sandbox")


def test_attest_reports_what_the_kernel_says():
    r = b.run("--attest", "--memory", "100m", "--pids", "77", "host", "grep", "-E", "CapBnd|Seccomp:|NoNewPrivs",
              "/proc/self/status", ok=True)
    b.expect("{" in r.err, r, "no attestation")
    told = json.loads(r.err[r.err.index("{"):])
    text = json.dumps(told).lower()
    for word in ("seccomp", "no_new_privs", "cap", "uid_map", str(100 << 20), "77", "pid", "mounts"):
        b.expect(word in text, r, f"the attestation does not speak of {word}")
    seen = dict(line.split(":\t") for line in r.out.splitlines())
    b.expect((seen["Seccomp"], seen["NoNewPrivs"]) == ("2", "1"), r, "the command's own status")


def test_a_run_is_ended_from_outside():
    for verb, options in (("kill", ()), ("rm", ("-f",)), ("rm", ("-f", "keep")), ("stop", ("--grace", "0"))):
        keep = ("--keep",) if "keep" in options else ()
        status = b.tmp("status")
        with open(status, "wb") as f:
            p = b.start("run", "--name", "fore", *keep, "--status-fd", str(f.fileno()), "host", "sh", "-c",
                        "trap '' TERM; setsid sleep 1000 & echo ready; wait; wait", pass_fds=(f.fileno(),))
        assert p.stdout.readline() == b"ready\n"
        for refused in (("exec", "fore", "true"), ("sh", "fore", "--", "true"), ("stop", "fore"), ("pause", "fore"), ("stats", "fore"),
                        ("top", "fore"), ("cp", "fore:/etc/hostname", b.tmp("x")), ("wait", "fore"), ("exec", "--start", "fore", "true")):
            b.one_line_error(b.berth(*refused), 125, "berth run", "berth kill")
        b.one_line_error(b.berth("rm", "fore"), 125, "running")
        b.berth(verb, *options[:1], *(options[1:] if verb == "stop" else ()), "fore", ok=True)
        assert p.wait(20 * b.SLOW) == 137, p.stderr.read()
        with open(status) as f:
            verdict = json.load(f)
        assert verdict["cause"] == "killed-by" and verdict["exit_status"] == 137, verdict
        ids = json.loads(b.berth("ps", "-a", "--json", ok=True).out)
        assert [s["status"] for s in ids] == [], ids


def test_proc_net_belongs_to_root_of_the_sandbox():
    """The kernel looks for its owner when the namespace is made: the ids must be mapped by then."""
    for network in ("none",) * 10 + ("egress",) * 3:
        r = b.run("--network", network, "host", "stat", "-L", "-c", "%u %g", "/proc/self/net", "/proc/self/net/dev", ok=True)
        b.expect(r.out == "0 0\n0 0\n", r, "the owner")


def test_keep_and_rm():
    r = b.run("--keep", "--name", "kept", "host", "sh", "-c", "echo x >/root/x; exit 3", ok=3)
    ps = b.berth("ps", "-a", ok=True)
    b.expect("kept" in ps.out, ps, "ps -a does not list it")
    b.expect("kept" not in b.berth("ps", ok=True).out, ps, "ps lists what does not run")
    b.berth("rm", "kept", ok=True)
    b.expect("kept" not in b.berth("ps", "-a", ok=True).out, r, "still there after rm")


# ---- limits by option: the effects are in attack/test_limits.py -----------

def test_sizes_and_numbers_in_every_form():
    for options in (["--memory", "64m"], ["--memory", "64M"], ["--memory", "67108864"], ["--memory", "0.25g"],
                    ["--memory", "64MiB"], ["--memory", "64m", "--swap", "0"], ["--cpus", "0.5"], ["--cpus", "2"],
                    ["--cpus", "1.25"], ["--pids", "32"], ["--timeout", "5m"], ["--timeout", "300"],
                    ["--timeout", "1h30m"], ["--grace", "1s"], ["--cpu-time", "10s"], ["--disk", "64m"],
                    ["--ulimit", "nofile=100", "--ulimit", "nproc=50:60"], ["--cap-add", "KILL"], ["--rm"], ["-i"],
                    ["--seccomp", "strict"], ["--seccomp", "standard"], ["--seccomp", "dev"],
                    ["--seccomp", "unconfined"], ["--network", "none"], ["--tmpfs", "/x"], ["--memory=64m"]):
        b.run(*options, "host", "true", ok=True)


GARBAGE = {
    "--memory": ["abc", "", "-1", "64mm", "64x", "1e3m", "0", "4k", " 64m", "64 m", "0x100000", "18446744073709551616",
                 "99999999999g", "64m\n", "nan", "inf", "1,5g", "+5m", "--pids"],
    "--swap": ["abc", "-1", "64q", "18446744073709551616"],
    "--cpus": ["-1", "abc", "", "0", "0.0001", "1.5.5", "1e2", "inf", "nan", "1,5", "999999999999", " 1", "0x2"],
    "--cpu-time": ["abc", "-1", "", "5q", "m5"],
    "--pids": ["abc", "-1", "", "0", "1.5", "99999999999999999999", "32k", " 5"],
    "--disk": ["abc", "-1", "", "12", "1z"],
    "--timeout": ["abc", "-1", "", "5q", "30m1h", "1..5s", "99999999999999999999", "5 m", "s"],
    "--grace": ["abc", "-1", "", "2w"],
    "--ulimit": ["nofile", "nofile=abc", "nofile=", "nofile=5:1", "nosuch=5", "=5", "nofile=-5", "", "nofile=1:2:3"],
    "--env": ["", "=x", "A B=c", "1A=x", "A\nB=c", "NOT_SET_ANYWHERE_X", "Ä=1"],
    "--env-file": ["/nonexistent/file", "/"],
    "--workdir": ["", "relative", "./x"],
    "--user": ["", "nosuchuser", "-1", "65536", "4294967296", "0x0", "1000:nosuchgroup", "1:2:3", "root ", " 0", "+0", "0:",
               ":0", "root\n", "1000:65536", "1000:-1"],
    "--hostname": ["", "-\n", "a b", "x" * 64, "a/b", "ü", "a\nb"],
    "--volume": ["", "x", ":", "/nonexistent/source:/x", "/usr:relative", "/usr:", ":/x", "/usr:/x:bad", "/usr:/x:rw,bad=1",
                 "/usr:/x:ro:rw:y", "/usr:/..", "/usr:/", "/usr:/proc"],
    "--mount": ["", "type=bind", "type=nfs,src=/usr,dst=/x", "src=/usr,dst=/x", "type=bind,src=/usr", "type=tmpfs",
                "type=bind,src=/nonexistent,dst=/x", "type=tmpfs,dst=/x,size=abc", "type=bind,src=/usr,dst=/x,oops",
                "type=tmpfs,src=/usr,dst=/x"],
    "--tmpfs": ["", "relative", "/x:size=abc", "/x:size=-1", "/x:oops", "/x:mode=9", "/x:size=0"],
    "--network": ["", "bridge2", "NONE", "hosts", "none "],
    "--cap-add": ["", "NOSUCH", "CAP_", "64", "CAP_SYS_ADMIN,", "sys admin"],
    "--cap-drop": ["", "NOSUCH", "CAP_"],
    "--seccomp": ["", "nosuch", "/nonexistent.json", "/", "/dev/null", "init"],
    "--name": ["", "-x", "a/b", "..", ".", "A", "x" * 65, "a b", "ü", "a\nb"],
    "--status-fd": ["", "abc", "-1", "999", "1x"],
}


def garbage_of(options):
    bad = []
    for option in options:
        for value in GARBAGE[option]:
            r = b.run(f"{option}={value}" if value.startswith("--") else option,
                      *([] if value.startswith("--") else [value]), "host", "true")
            try:
                b.expect(r.code in (2, 125), r, "expected exit status 2 or 125")
                b.one_line_error(r, r.code)
            except AssertionError as e:
                bad.append(f"{option} {value!r}: {str(e).splitlines()[0]}: exit {r.code}, stderr {r.err!r}")
    assert not bad, "\n".join(bad)


def test_garbage_in_limits_is_refused():
    garbage_of(["--memory", "--swap", "--cpus", "--cpu-time", "--pids", "--disk", "--timeout", "--grace", "--ulimit"])


def test_garbage_in_env_user_and_names_is_refused():
    garbage_of(["--env", "--env-file", "--workdir", "--user", "--hostname", "--name"])


def test_garbage_in_mounts_is_refused():
    garbage_of(["--volume", "--mount", "--tmpfs"])


def test_garbage_in_confinement_is_refused():
    garbage_of(["--network", "--cap-add", "--cap-drop", "--seccomp", "--status-fd"])


def test_values_out_of_grammar_are_misuse():
    for option, value in (("--memory", "abc"), ("--cpus", "-1"), ("--timeout", "5q"), ("--pids", "x"), ("--network", "no name"),
                          ("--cap-add", "NOSUCH"), ("--ulimit", "nofile=abc"), ("--workdir", "rel")):
        b.one_line_error(b.run(option, value, "host", "true"), 2, option.lstrip("-"))


def test_misuse_is_two():
    for args in ([], ["--nosuchoption", "host"], ["--memory"], ["-Z", "host"], ["--memoryx", "5", "host"], ["--rm=yes", "host"]):
        b.one_line_error(b.run(*args), 2)
    b.one_line_error(b.berth("nosuchcommand"), 2, "nosuchcommand")


def test_unknown_images_are_refused():
    for image in ("nosuchimage", "nosuch/image:tag", "/nonexistent/rootfs", "./nonexistent", "Host", "a@sha256:xyz",
                  "", "host:latest", "-", "x" * 5000, "a\nb", "\x1b[31mred"):
        r = b.run(image, "true")
        b.expect(r.code in (2, 125), r, "expected 2 or 125")
        b.one_line_error(r, r.code)
    b.write(b.tmp("file"), "not a directory")
    b.one_line_error(b.run(b.tmp("file"), "true"), 125, "file")


def test_unreadable_sources_are_refused():
    b.one_line_error(b.run("-v", b.tmp("missing") + ":/x", "host", "true"), 125, "missing")
    os.symlink("loop", b.tmp("loop"))
    b.one_line_error(b.run("-v", b.tmp("loop") + ":/x", "host", "true"), 125, "loop")


def test_a_failed_set_up_always_says_why():
    """The sandbox's first process reports and is gone at once: the report must not be lost with it."""
    source = b.tmpdir("source")
    for _ in range(100):
        r = b.run("-v", source + ":/etc/passwd/x", "host", "true")
        b.expect(r.code in (2, 125), r, "exit status")
        b.one_line_error(r, r.code, "/etc/passwd")


def test_run_by_another_user_is_one_clear_line():
    b.needs_the_program_itself()
    r = b.run("host", "true", prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], cwd="/")
    if "Permission denied" in r.err and "setpriv" in r.err:
        raise b.skip("the build directory is not readable by others")
    b.one_line_error(r, 125)


def test_help_is_printed_on_stdout():
    r = b.run("--help", ok=True)
    for option in list(GARBAGE) + ["--dry-run", "--attest", "--json", "--tty", "--keep", "--rm", "--read-only"]:
        b.expect(option in r.out, r, f"the help does not name {option}")
    b.expect(r.err == "", r, "on stderr")


# ---- real programs --------------------------------------------------------

def test_python_works():
    r = b.run("host", "python3", "-c",
              "import threading, multiprocessing, sqlite3, subprocess, socket, tempfile, asyncio, ssl, json\n"
              "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
              "with multiprocessing.Pool(2) as p: print(p.map(abs, [-1, -2]))\n"
              "print(sqlite3.connect(tempfile.mktemp()).execute('select 1+1').fetchone())\n"
              "print(subprocess.run(['echo', 'sub'], capture_output=True).stdout)\n"
              "a, c = socket.socketpair(); a.send(b'x'); print(c.recv(1))\n"
              "print(asyncio.run(asyncio.sleep(0, 'async')))\n", ok=True)
    b.expect(r.out == "thread\n[1, 2]\n(2,)\nb'sub\\n'\nb'x'\nasync\n", r, "output")


def test_the_compiler_works():
    r = sh("printf '#include <stdio.h>\\nint main(void) { puts(\"compiled\"); }\\n' >a.c && gcc -O2 -o a a.c && ./a", ok=True)
    b.expect(r.out == "compiled\n", r, "output")


def test_git_works():
    r = sh("git init -q r && cd r && git config user.email a@b && git config user.name n && echo x >f && git add f &&"
           "git commit -qm first && git clone -q . ../c && git -C ../c log --format=%s", ok=True)
    b.expect(r.out == "first\n", r, "output")


def test_make_tar_and_perl_work():
    r = sh("printf 'all:\\n\\t@echo made\\n' >Makefile && make -s && tar cf t.tar Makefile && mkdir x && tar xf t.tar -C x &&"
           "ls x && gzip t.tar && perl -e 'print 6*7, \"\\n\"' && ps -e | wc -l", ok=True)
    b.expect(r.out.startswith("made\nMakefile\n42\n"), r, "output")


def test_many_at_once():
    ps = [b.start("run", "host", "sh", "-c", f"echo {i}") for i in range(12)]
    for i, p in enumerate(ps):
        got, err = p.communicate(timeout=60 * b.SLOW)
        assert (p.returncode, got, err) == (0, f"{i}\n".encode(), b""), (i, p.returncode, got, err)


if __name__ == "__main__":
    sys.exit("run by tests/run.py")


def test_a_cpuset_binds():
    r = sh("grep Cpus_allowed_list /proc/self/status", "--cpuset", "0", ok=True)
    b.expect(r.out.split() == ["Cpus_allowed_list:", "0"], r, "not bound to CPU 0")
    r = b.run("--cpuset", "4000", "host", "true")
    b.one_line_error(r, 2, "4000", "of 0-")
    # a kernel that takes a list with some CPUs that are not there binds to fewer than were asked for
    r = b.run("--cpuset", "0,4000", "host", "true")
    b.one_line_error(r, 2, "0,4000")


def test_dropping_every_capability_still_runs():
    r = sh("grep CapBnd /proc/self/status; id -u", "--cap-drop", "ALL", "--user", "1000", ok=True)
    b.expect(r.out.split() == ["CapBnd:", "0" * 16, "1000"], r, "capabilities are left")


def test_block_io_is_counted_however_it_ends():
    """Direct writes to the host's disk: a command that ended, one killed for time, and one that was left behind."""
    place = b.tmpdir("io")
    write = "dd if=/dev/zero of=/io/x bs=1M count=3 oflag=direct 2>/dev/null"
    if subprocess.run(["dd", "if=/dev/zero", f"of={place}/try", "bs=1M", "count=1", "oflag=direct"], stderr=subprocess.DEVNULL).returncode:
        raise b.skip("no direct I/O in " + place)
    for options, script in ((), f"{write}"), (("--timeout", "8", "--grace", "0"), f"{write}; sleep 60"), ((), f"({write}; touch /io/done; sleep 60) & until [ -e /io/done ]; do sleep 0.1; done"):
        r = b.run(*options, "-v", f"{place}:/io:rw", "host", "sh", "-c", script, verdict=True)
        b.expect(3 << 20 <= r.verdict["write_bytes"] < 4 << 20, r, "3 MiB were written")


LOOSE = (("network-host", "--network", "host"), ("cap-add", "--cap-add", "ALL"), ("seccomp-unconfined", "--seccomp", "unconfined"),
         ("seccomp-profile", "--seccomp", "dev"), ("memory-unlimited", "--memory", "unlimited"), ("swap-unlimited", "--swap", "unlimited"),
         ("cpus-unlimited", "--cpus", "unlimited"), ("pids-unlimited", "--pids", "unlimited"), ("device", "--device", "/dev/null:/dev/also"))


def test_what_loosens_the_sandbox_is_said_once_on_stderr_and_in_the_verdict():
    for name, option, value in LOOSE:
        r = b.run(option, value, "host", "true", verdict=True, ok=True)
        assert r.verdict["loosened"] == [name] and len(r.err.splitlines()) == 1, b.describe(r)
        assert r.err.startswith("berth run: ") and option in r.err, r.err
    r = b.run("--network", "host", "--cap-add", "NET_ADMIN", "--pids", "unlimited", "host", "true", verdict=True, ok=True)
    assert r.verdict["loosened"] == ["network-host", "cap-add", "pids-unlimited"] and len(r.err.splitlines()) == 1, b.describe(r)


def test_what_does_not_loosen_it_is_not_said():
    for options in ((), ("--seccomp", "strict"), ("--cap-drop", "ALL", "--cap-add", "CHOWN"), ("--memory", "1g", "--pids", "2000"),
                    ("--cap-add", "CHOWN")):
        r = b.run(*options, "host", "true", verdict=True, ok=True)
        assert "loosened" not in r.verdict and r.err == "", b.describe(r)
    # what the host's configuration says was said once for all
    conf = b.write(b.tmp("berth.toml"), '[sandbox]\nseccomp = "dev"\n', 0o600)
    r = b.run("host", "true", verdict=True, ok=True, env={"BERTH_CONFIG": conf})
    assert "loosened" not in r.verdict and r.err == "", b.describe(r)


def test_a_sandbox_that_lives_says_it_when_it_is_made_and_in_each_verdict():
    r = b.berth("create", "--name", "loose", "--seccomp", "unconfined", "host", ok=True)
    assert r.err.startswith("berth create: ") and len(r.err.splitlines()) == 1, b.describe(r)
    r = b.berth("exec", "loose", "true", verdict=True, ok=True)
    assert r.verdict["loosened"] == ["seccomp-unconfined"] and r.err == "", b.describe(r)
    r = b.berth("sh", "--json", "loose", "true", ok=True)
    assert '"loosened":["seccomp-unconfined"]' in r.out.replace(" ", "") and r.err == "", b.describe(r)
    r = b.berth("restart", "loose", ok=True)
    assert "confined" not in r.err, r.err
    b.berth("rm", "--force", "loose", ok=True)


def test_all_that_only_berth_writes_is_one_file_system():
    """Each file system costs each memory cgroup of the host; Linux before 6.15 copies no part of a detached mount."""
    box = b.berth("create", "host", ok=True).out.strip()
    said = b.berth("exec", box, "stat", "-c", "%d %a %u", "/dev", "/sys", "/run/.berth", ok=True).out.splitlines()
    devices = [line.split()[0] for line in said]
    assert [line.split(None, 1)[1] for line in said] == ["755 0", "555 0", "755 65534"], said
    version = tuple(int(n) for n in os.uname().release.split("-")[0].split(".")[:2])
    assert len(set(devices)) == (1 if version >= (6, 15) else 3), (said, version)
    mounts = b.berth("exec", box, "cat", "/proc/self/mountinfo", ok=True).out.splitlines()
    own = {m.split()[2] for m in mounts}
    assert len(own) <= (10 if version >= (6, 15) else 12), "\n".join(mounts)
    b.berth("rm", "-f", box, ok=True)
