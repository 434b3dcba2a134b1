# SPDX-License-Identifier: Apache-2.0
"""
E10, E11, E15-E18, E20, E22, E23, I33, D06, D07, L09, L13: what comes from inside a sandbox or
from a careless caller is data.  It chooses no program, no host path, no host setting.  Attacks S12 of SECURITY.md (D07).
"""
import fcntl
import json
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import termios
import threading

import berthtest as b
import box
import proc

COST = 40


# ---- E10, E11, I33: the file verbs --------------------------------------------------

def test_E10_a_link_swapped_under_a_copy_leads_nowhere():
    """Both ways, 60 copies while a payload swaps a directory and a link to the victim's path."""
    victim = b.victim()
    sealed = b.seal(victim)
    with box.Box() as x:
        swap = (f"mkdir -p /tmp/a /tmp/real && echo plain >/tmp/real/secret && ln -sfn {victim} /tmp/link && echo ready && "
                "while :; do rm -rf /tmp/a; ln -sfn /proc/1/root/../.. /tmp/a; rm -f /tmp/a; ln -sfn " + victim +
                " /tmp/a; rm -f /tmp/a; cp -r /tmp/real /tmp/a; done")
        p = b.start("exec", x.id, "sh", "-c", swap)
        b.read_until(p.stdout, b"ready\n")
        try:
            for n in range(30):
                into = b.tmp(f"got{n}")
                b.berth("cp", f"{x.id}:/tmp/a/secret", into)
                if os.path.exists(into):
                    assert b"canary" not in open(into, "rb").read(), "the victim's secret came out"
                source = b.tmp("source")
                b.write(source, "pwn\n")
                b.berth("cp", source, f"{x.id}:/tmp/a/secret")
                b.berth("file", "write", x.id, "/tmp/a/pwn", input="pwn")
                b.berth("file", "rm", x.id, "/tmp/a/secret")
                assert b.seal(victim) == sealed, "the victim changed"
        finally:
            b.stop(p)
    assert b.seal(victim) == sealed


def test_E11_the_file_verbs_run_nothing_of_the_image():
    """Libraries and programs that such helpers have loaded elsewhere leave a mark when they are used."""
    with box.Box() as x:
        plant = r"""
mkdir -p /usr/local/x /tmp/marks && cd /tmp
printf '#!/bin/sh\ntouch /tmp/marks/$(basename $0)\nexit 0\n' >mark && chmod 755 mark
for n in gzip xz unpigz zstd tar nsenter cat cp mv rm ls stat mkdir sh bash python3 id env mount; do
    mkdir -p /workspace/bin && cp mark /workspace/bin/$n
done
for n in libnss_files.so.2 libnss_evil.so.2 libc.so.6; do cp mark /workspace/$n; done
echo /workspace/libc.so.6 >/etc/ld.so.preload
printf 'passwd: evil files\ngroup: evil files\n' >/etc/nsswitch.conf
"""
        r = x.exec("sh", "-c", plant)
        b.expect_code(r, 0)
        here = b.tmpdir("here")
        b.write(here + "/f", "content\n")
        b.berth("cp", here, f"{x.id}:/workspace/in", ok=True)
        b.berth("cp", f"{x.id}:/workspace/in", here + "/out", ok=True)
        b.berth("cp", "-", f"{x.id}:/workspace", ok=True, input=subprocess.run(["tar", "-C", here, "-c", "f"], stdout=subprocess.PIPE).stdout)
        b.berth("cp", f"{x.id}:/workspace/in", "-", ok=True, stdout=subprocess.DEVNULL)
        b.berth("file", "write", x.id, "w", input="x", ok=True)
        for words in (["read", x.id, "w"], ["ls", x.id, "."], ["stat", x.id, "w"], ["mkdir", x.id, "d"], ["mv", x.id, "w", "d/w"],
                      ["rm", x.id, "d/w"]):
            b.berth("file", *words, ok=True)
        b.berth("diff", x.id, ok=True)
        marks = b.berth("file", "ls", x.id, "/tmp/marks", ok=True).out
        assert marks.strip() == "", f"ran: {marks}"


def test_E11_no_helper_of_the_file_verbs_executes_another_program():
    with box.Box() as x:
        log = b.tmp("trace")
        keeper = x.keeper
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-e", "trace=execve,execveat", "-o", log, "-p", str(keeper), "-p", str(x.init)],
                                  stderr=subprocess.DEVNULL)
        try:
            for pid in (keeper, x.init):
                b.wait_for(lambda: any(re.match(r"TracerPid:\t[1-9]", line) for line in open(f"/proc/{pid}/status")), what="strace")
            b.berth("file", "write", x.id, "w", input="x", ok=True)
            b.berth("file", "read", x.id, "w", ok=True)
            b.berth("file", "ls", x.id, ".", ok=True)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(10 * b.SLOW)
        ran = [line for line in open(log, errors="replace") if "exec" in line]
        # berth's own helper, from its sealed memory, and nothing else
        assert ran and all("execveat" in line for line in ran), ran


def test_I33_what_a_copy_brings_out_is_cleaned():
    victim = b.victim()
    sealed = b.seal(victim)
    with box.Box() as x:
        x.exec("sh", "-c", f"mkdir -p t/sub && cd t && mkfifo fifo && ln -s {victim} link && ln -s /etc/shadow shadow && echo x >file && "
                           "ln file hard && ln -s ../../../../../../.. up && chmod 6755 file && printf x >'new\nline' && "
                           "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"", ok=True)
        out = b.tmp("out")
        r = b.berth("cp", f"{x.id}:t", out)
        assert r.code == 0 or "skipped" in r.err or "not copied" in r.err, r
        for where, dirs, files in os.walk(out):
            for n in dirs + files:
                st = os.lstat(os.path.join(where, n))
                kind = st.st_mode & 0o170000
                assert kind in (0o100000, 0o040000, 0o120000), (n, oct(st.st_mode))
                assert kind == 0o120000 or not st.st_mode & 0o6000, (n, oct(st.st_mode))
        for special in ("/proc/kcore", "/dev/zero", "/proc/1/environ"):
            r = b.berth("cp", "--timeout", "10", f"{x.id}:{special}", b.tmp("special"), timeout=20)
            # where kcore exists an empty file is over it
            assert r.code != 0 or (special == "/proc/kcore" and os.path.getsize(b.tmp("special")) == 0), (special, r)
    assert b.seal(victim) == sealed


# ---- E15-E23: values ----------------------------------------------------------------

def test_E15_the_commands_words_are_not_ours():
    for words in (["--help"], ["--", "--memory", "1"], ["-v", "/etc:/etc"], ["--bind", "/", "/host", "sh"]):
        r = b.run("--", "host", "printf", "%s\n", *words)
        b.expect(r.out.split("\n")[:-1] == words, r, "the words were changed")
        r = b.run("host", "printf", "%s\n", *words)
        b.expect(r.out.split("\n")[:-1] == words, r, "the words were taken for berth's")
    r = b.run("host", "--bind", "/", "/host", "sh")
    b.expect(r.code == 127, r, "an option was taken as a program")
    big = "x" * 131000
    r = b.run("host", "sh", "-c", 'echo ${#1}', "sh", big)
    b.expect(r.out == "131000\n", r, "a long word")


def test_E16_no_setting_of_the_host_can_be_named():
    """There is no way to set a sysctl from outside, and none from inside but the sandbox's own."""
    before = {k: open(k).read() for k in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/panic")}
    for text in ("kernel.core_pattern=|/bin/x", "kernel.shm_rmid_forced=1+kernel.core_pattern=x", "net.x=1\nkernel.panic=1"):
        b.expect_code(b.run("--sysctl", text, "host", "true"), 2)
    b.run("host", "sh", "-c", "for f in kernel/core_pattern vm/overcommit_memory kernel/panic; do echo 1 >/proc/sys/$f; done; true")
    assert before == {k: open(k).read() for k in before}


def test_E17_no_groups_of_the_caller():
    r = b.run("host", "id", "-G", prefix=["setpriv", "--groups=7777,4242"], ok=True)
    b.expect(r.out.split() == ["0"], r, "groups came along")
    with box.Box() as x:
        r = b.berth("exec", x.id, "id", "-G", prefix=["setpriv", "--groups=7777,4242"], ok=True)
        b.expect(r.out.split() == ["0"], r, "groups came along into exec")
        # a file that its group may not read is not read by a member who would be "others"
        r = b.berth("exec", x.id, "sh", "-c", "echo x >/tmp/f; chgrp 5 /tmp/f; chmod 0604 /tmp/f; setpriv --reuid 9 --regid 5 --clear-groups cat /tmp/f")
        assert r.code != 0 and "x\n" not in r.out, r


def test_E18_no_inheritable_and_no_ambient_capability():
    def caps(text):
        return dict(re.findall(r"^(Cap\w+):\s+([0-9a-f]+)$", text, re.M))
    prefix = ["setpriv", "--inh-caps=+chown,+net_raw", "--ambient-caps=+chown"]
    for args in (["run", "host"], ["run", "-u", "1000", "host"], ["run", "--cap-add", "NET_RAW", "host"]):
        c = caps(b.berth(*args, "cat", "/proc/self/status", prefix=prefix, ok=True).out)
        assert int(c["CapInh"], 16) == 0 and int(c["CapAmb"], 16) == 0, (args, c)
    with box.Box() as x:
        c = caps(b.berth("exec", x.id, "cat", "/proc/self/status", prefix=prefix, ok=True).out)
        assert int(c["CapInh"], 16) == 0 and int(c["CapAmb"], 16) == 0, c
        c = caps(x.sh("cat /proc/self/status").out.decode())
        assert int(c["CapInh"], 16) == 0 and int(c["CapAmb"], 16) == 0, c


def test_E20_long_values_are_refused_or_kept_whole():
    for n in (64, 255, 256, 4096, 65535, 65536, 130000):
        text = "a" * n
        for args in (["--hostname", text], ["--name", text], ["--workdir", "/" + text], ["--user", text], ["--network", text],
                     ["--tmpfs", "/" + text], ["--env", f"A={text}"], ["-v", f"/etc:/{text}"], ["--entrypoint", "/" + text]):
            r = b.run(*args, "host", "sh", "-c", "echo $A", timeout=20)
            if r.code == 0:
                b.expect(args[0] == "--env" and r.out == text + "\n" or n <= 255 and args[0] != "--env", r, f"{args[0]} of {n} bytes was cut")
            else:
                b.expect(r.code in (2, 125, 126, 127) and len(r.err.splitlines()) == 1, r, f"{args[0]} of {n} bytes: not one clear line")


def test_E22_nothing_installed_has_privileges_of_its_own():
    place = b.tmpdir("install")
    subprocess.run(["make", "-s", "-C", b.TOP, "install", f"BUILD={os.path.relpath(b.BUILD, b.TOP)}", f"DESTDIR={place}",
                    *(["SAN=1"] if b.SANITIZED else [])], check=True,
                   stdout=subprocess.DEVNULL)
    found = subprocess.run(["find", place, "-perm", "/6000"], stdout=subprocess.PIPE, text=True).stdout
    assert found == "", found
    programs = subprocess.run(["find", place, "-type", "f", "-perm", "/111"], stdout=subprocess.PIPE, text=True).stdout.split()
    assert len(programs) >= 2, programs
    for p in programs:
        assert "security.capability" not in os.listxattr(p), p


LIMITS = {
    "--memory": ("-1", "0", "18446744073709551616", "99999999999999999999999", "1e9", "0x100", " 5m", "5m ", "5mm", "nan", "inf", "", "+5m", "1.5.5m", "5ｍ"),
    "--swap": ("-1", "99999999999999999999", "x"),
    "--cpus": ("-1", "0", "nan", "inf", "1e400", "", "0,5", "0x1", "99999999"),
    "--pids": ("-1", "0", "4294967296", "99999999999999999999", "1.5", "", "x"),
    "--cpuset": ("0-99999999", "-1", "1-0", "0-", ",", "0,,1", "a", "4294967296", ""),
    "--disk": ("-1", "0", "18446744073709551616", "x", ""),
    "--disk-inodes": ("-1", "0", "18446744073709551616", "x"),
    "--tmp-size": ("-1", "18446744073709551616", "x"),
    "--timeout": ("-1", "x", "1e400", "5mm", "", "99999999999999999999"),
    "--cpu-time": ("-1", "x", ""),
    "--ulimit": ("nofile", "nofile=", "nofile=-2", "nofile=5:4", "nofile=99999999999999999999", "bogus=1", "=1"),
    "--cpu-weight": ("0", "10001", "-1", "x"),
    "--user": ("4294967296", "-1", "+0", "0x0", " 0", "0:", ":0", "root\n", "99999999999999999999", "2147483648", "65536"),
}


def test_E23_numbers_out_of_range_are_refused():
    for option, values in LIMITS.items():
        for value in values:
            r = b.run(f"{option}={value}", "host", "true")
            b.expect(r.code in (2, 125), r, f"{option}={value!r} was taken")
            b.expect(len(r.err.splitlines()) == 1, r, f"{option}={value!r}: not one clear line")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    b.run("--memory", "9" * 100000, "host", "true")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, 20 * 1024)


# ---- D06, D07: terminals ------------------------------------------------------------

def test_D06_a_storm_of_resizes_and_attaches_costs_nothing():
    with box.Box() as x:
        keeper = x.keeper

        def cost():
            rss = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{keeper}/status").read()).group(1))
            return len(os.listdir(f"/proc/{keeper}/fd")), rss

        x.exec("true", ok=True)
        master, slave = pty.openpty()
        p = b.start("exec", "-t", x.id, "sh", "-c", "echo ready; read x; stty size", stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        seen = b""
        while b"ready" not in seen:
            seen += os.read(master, 4096)
        for n in range(20000):
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 10 + n % 90, 20 + n % 100, 0, 0))
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        # one unterminated line beyond what a line discipline holds
        os.set_blocking(master, False)
        try:
            for _ in range(64):
                os.write(master, b"z" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(master, True)
        threading.Thread(target=drain, args=(master,), daemon=True).start()
        b.stop(p)
        os.close(master)
        command = b.berth("exec", "-d", x.id, "sh", "-c", "cat", ok=True).out.strip()
        first = None
        for n in range(300):
            c = x.client()
            c.close()
            x.clients.remove(c)
            a = b.start("attach", x.id, command) if n % 30 == 0 else None
            if a:
                b.stop(a)
            if n == 30:
                first = cost()
        # the next command's cgroup may have been made between the two looks: some descriptors, not one for each client
        b.wait_for(lambda: cost()[0] <= first[0] + 8, what="descriptors given back")
        assert cost()[1] <= first[1] + 1024, (first, cost())
        assert x.exec("echo", "alive", ok=True).out == "alive\n"


def drain(fd):
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass


SEQUENCES = [b"\x1b]52;c;cHdu\x07", b"\x1b[21t", b"\x1bP$qm\x1b\\", b"\x1b_G\x1b\\", b"\x1b]0;title\x07", b"\x9b5n", b"\x1b[6n", b"\x1b[?1049h", b"\x1bc",
             b"\x07", b"\x08\x08", b"\x0e", b"\x7f", b"\xc2\x9b31m", b"\xff\xfe", b"\r", b"\x1b[2J", b"\xe2\x80\xae"]
PLAIN = re.compile(rb"[\x20-\x7e\n\t]*\Z")


def on_a_terminal(*args):
    """What berth writes to a terminal."""
    master, slave = pty.openpty()
    attr = termios.tcgetattr(slave)
    attr[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, attr)
    p = b.start(*args, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    out = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        out += data
    p.wait(20 * b.SLOW)
    os.close(master)
    return out


def test_D07_names_and_errors_cannot_speak_to_the_terminal():
    with box.Box() as x:
        for n, s in enumerate(SEQUENCES):
            name = b"n%d" % n + s.replace(b"/", b"") + b"end"
            x.exec("touch", "--", name, ok=True)
        bad = []
        for args in (["file", "ls", x.id, "."], ["diff", x.id]):
            out = on_a_terminal(*args)
            if not PLAIN.match(out.replace(b"\r\n", b"\n")) and not clean(out):
                bad.append((args[0:2], out))
        for s in SEQUENCES:
            if b"\0" in s:
                continue
            for args in (["file", "stat", x.id, b"missing" + s], ["exec", x.id, b"missing" + s], ["inspect", b"none" + s], ["run", b"none" + s],
                         ["rm", b"none" + s]):
                out = on_a_terminal(*args)
                if not clean(out):
                    bad.append((args[0], out))
        assert not bad, bad


def clean(out):
    """Printable text, perhaps UTF-8, with no control byte but newline, return and tab, and no direction mark."""
    try:
        text = out.decode()
    except UnicodeDecodeError:
        return False
    return all(ch.isprintable() or ch in "\n\r\t" for ch in text) and "\u202e" not in text


def test_D07_json_holds_no_control_byte():
    with box.Box() as x:
        for n, s in enumerate(SEQUENCES):
            x.exec("touch", "--", b"n%d" % n + s.replace(b"/", b""), ok=True)
        r = b.berth("file", "ls", "--json", x.id, ".", ok=True)
        assert all(ch.isprintable() or ch == "\n" or ord(ch) > 127 for ch in r.out), r.out
        assert len(json.loads(r.out)["entries"] if isinstance(json.loads(r.out), dict) else json.loads(r.out)) == len(SEQUENCES), r.out


# ---- L09, L13: many hands, hands that let go ----------------------------------------

def test_L09_many_hands_on_one_sandbox():
    """create, rename, stop, start, exec and rm of one name at once: each call ends, and nothing is half done."""
    for _ in range(3):
        running = [b.start("create", "--name", "contended", "host") for _ in range(6)]
        codes = [p.wait(30 * b.SLOW) for p in running]
        for p in running:
            p.stdout.close()
            p.stderr.close()
        assert codes.count(0) == 1 and set(codes) == {0, 125}, codes
        running = [b.start(*words) for words in (["stop", "contended"], ["start", "contended"], ["exec", "contended", "true"], ["restart", "contended"],
                                                 ["pause", "contended"], ["resume", "contended"], ["kill", "contended"], ["ps", "-a"])]
        running += [b.start("rm", "-f", "contended") for _ in range(3)]
        for p in running:
            said = p.communicate(timeout=60 * b.SLOW)
            assert p.returncode in (0, 1, 125, 137, 143), (p.args, p.returncode, said)
        b.berth("rm", "-f", "contended", ok=True)
        left = b.berth("ps", "-a", "-q", ok=True).out
        assert left == "", left


def test_L13_clients_that_vanish_leave_nothing():
    with box.Box() as x:
        x.exec("true", ok=True)
        keeper = x.keeper
        fds = len(os.listdir(f"/proc/{keeper}/fd"))
        for n in range(60):
            c = x.client()
            if n % 3 == 0:
                c.sh_send("sleep 100", timeout_ms=60000, session=f"s{n % 5}")
            elif n % 3 == 1:
                c.exec_send("sleep", "100")
            else:
                c.raw(b'{"v":1,"op":"exec","argv":["slee')
            c.close()
            x.clients.remove(c)
        for _ in range(6):
            p = b.start("exec", x.id, "sleep", "100")
            b.wait_for(lambda: x.running("sleep 100"), what="the command")
            b.stop(p)
        b.wait_for(lambda: not x.running("sleep 100"), what="the end of what nobody waits for")
        # five sessions stay, each with a terminal, two pipes, the file of its text, five directories of its cgroup and six files there
        b.wait_for(lambda: len(os.listdir(f"/proc/{keeper}/fd")) <= fds + 5 * 15,
                   what=lambda: f"the end of descriptors, {fds} before and now {proc.descriptors(keeper)},")
        assert x.exec("echo", "alive", ok=True).out == "alive\n"
        assert proc.cmdline(keeper)
