# SPDX-License-Identifier: Apache-2.0
"""berth run -t through a real pseudo-terminal: raw mode, resize, restored on every exit.  Attacks S12 of SECURITY.md."""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import berthtest as b
import proc

COST = 10


class Terminal:
    """A pty whose slave is the controlling terminal of a berth."""

    def __init__(self, *args, rows=24, cols=80):
        self.master, self.slave = pty.openpty()
        self.size(rows, cols)
        self.before = termios.tcgetattr(self.slave)

        def own():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.p = subprocess.Popen([b.BERTH, "run", *args], env=b.environment(), stdin=self.slave, stdout=self.slave,
                                  stderr=self.slave, start_new_session=True, preexec_fn=own)
        os.set_blocking(self.master, False)
        self.seen = b""

    def size(self, rows, cols):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self):
        while True:
            try:
                piece = os.read(self.master, 65536)
            except OSError:  # nothing there now, or the other end is closed
                return
            self.seen += piece
            if not piece:
                return

    def wait_for(self, pattern, seconds=20):
        end = time.monotonic() + seconds
        while True:
            over = self.p.poll() is not None
            self.read()
            m = re.search(pattern.encode(), self.seen)
            if m:
                self.seen = self.seen[m.end():]
                return m
            if time.monotonic() > end:
                raise AssertionError(f"no {pattern!r} within {seconds} s; saw {self.seen[-2000:]!r}")
            if over:
                raise AssertionError(f"berth ended with {self.p.returncode} before {pattern!r}; saw {self.seen[-2000:]!r}")
            time.sleep(0.005)

    def end(self, code=None, seconds=20):
        def over():
            self.read()  # so that the writer never waits for us
            return self.p.poll() is not None
        try:
            b.wait_for(over, seconds, "the end of berth")
            self.read()
            now = termios.tcgetattr(self.slave)
            assert now == self.before, f"the terminal was not restored: {self.before} {now}; saw {self.seen[-2000:]!r}"
            if code is not None:
                assert self.p.returncode == code, (self.p.returncode, self.seen[-2000:])
        finally:
            if self.p.poll() is None:
                b.kill_tree(self.p.pid, including=True)
                self.p.wait()
            os.close(self.master)
            os.close(self.slave)
        return self.seen.decode(errors="replace")


def test_the_command_has_a_terminal_of_its_own():
    t = Terminal("-t", "host", "sh", "-c", "tty; test -t 0 && test -t 1 && test -t 2 && echo all; stat -L -c %t:%T /proc/self/fd/0")
    t.wait_for(r"/dev/pts/0\r\nall\r\n88:0\r\n")
    t.end(0)


def test_the_exit_status_and_the_terminal_come_back():
    for script, code in (("exit 7", 7), ("kill -9 $$", 137), ("stty raw -echo; exit 3", 3)):
        Terminal("-t", "host", "sh", "-c", script).end(code)
    Terminal("-t", "host", "nosuchcommand").end(127)
    Terminal("-t", "--memory", "abc", "host", "true").end(2)
    Terminal("-t", "nosuchimage", "true").end(125)
    Terminal("-t", "--timeout", "200ms", "--grace", "100ms", "host", "sleep", "100").end(124)


def test_a_shell_can_be_used():
    t = Terminal("-t", "-i", "host", "sh")
    t.wait_for(r"[#$] ")
    t.type("echo $((6 * 7))\n")
    t.wait_for(r"\n42\r\n")
    t.type("exit 9\n")
    t.end(9)


def test_control_characters_go_to_the_command():
    t = Terminal("-t", "host", "sh", "-c", "trap 'echo INTERRUPTED' INT; echo ready; while :; do sleep 0.01; done")
    t.wait_for("ready")
    t.type("\x03")
    t.wait_for("INTERRUPTED")
    t.type("\x1c")  # ^\ ends it
    t.end(128 + signal.SIGQUIT)
    t = Terminal("-t", "host", "cat")
    t.type("line\n")
    t.wait_for(r"line\r\nline\r\n")
    t.type("\x04")
    t.end(0)


def test_the_size_is_there_and_follows():
    t = Terminal("-t", "host", "sh", "-c", "trap 'echo now $(stty size)' WINCH; echo first $(stty size); while :; do sleep 0.01; done",
                 rows=33, cols=111)
    t.wait_for("first 33 111")
    t.size(44, 99)
    t.p.send_signal(signal.SIGWINCH)  # the kernel sends it to the foreground group; to be sure
    t.wait_for("now 44 99")
    t.type("\x03")
    t.end(130)


def test_many_resizes_are_survived():
    t = Terminal("-t", "host", "sh", "-c", "echo ready; read x; stty size")
    t.wait_for("ready")
    for i in range(2000):
        t.size(10 + i % 50, 20 + i % 70)
    t.size(25, 85)
    t.type("\n")
    t.wait_for("25 85")
    t.end(0)


def test_bytes_are_not_changed_in_raw_mode():
    t = Terminal("-t", "host", "sh", "-c", "stty raw -echo; echo ready; head -c 255 | od -An -v -tu1; stty sane")
    t.wait_for("ready")
    os.write(t.master, bytes(range(1, 256)))
    t.wait_for(r"\n? +1 +2 +3 +4 ")
    b.wait_for(lambda: (t.read(), b" 255" in t.seen)[1], 10, "the last byte")
    numbers = [int(n) for n in re.findall(rb"\d+", t.seen)]
    assert numbers[:251] == list(range(5, 256)), numbers
    t.end(0)


def test_a_flood_ends_with_the_command():
    t = Terminal("-t", "host", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo END")
    t.wait_for(r"END\r\n", 40)
    t.end(0)


def test_a_flood_arrives_whole():
    t = Terminal("-t", "host", "sh", "-c", "echo go; head -c 300000 /dev/zero | tr '\\0' x")
    t.wait_for("go")
    assert t.end(0).count("x") == 300000


def test_killed_berth_leaves_no_command():
    """SIGKILL cannot restore the terminal, but the sandbox must be gone."""
    t = Terminal("-t", "host", "sh", "-c", "echo ready; exec sleep 1000")
    t.wait_for("ready")
    below = proc.descendants(t.p.pid)
    assert below, "no process of the sandbox"
    t.p.kill()
    b.wait_for(lambda: not any(proc.alive(p) for p in below), 20, "the end of the sandbox")
    t.p.wait()
    os.close(t.master)
    os.close(t.slave)
    b.gc()


def test_terminated_berth_restores_the_terminal():
    for name in ("TERM", "HUP", "INT"):
        t = Terminal("-t", "host", "sh", "-c", "echo ready; exec sleep 1000")
        t.wait_for("ready")
        t.p.send_signal(getattr(signal, "SIG" + name))
        t.end(128 + getattr(signal, "SIG" + name))


def test_a_terminal_that_goes_away_ends_it():
    t = Terminal("-t", "host", "sh", "-c", "echo ready; exec sleep 1000")
    t.wait_for("ready")
    os.close(t.slave)
    os.close(t.master)
    b.wait_for(lambda: t.p.poll() is not None, 10, "the end of berth")


def test_the_callers_terminal_cannot_be_typed_into():
    """K11: TIOCSTI and its look-alikes fail, and the host's queue stays empty."""
    code = ("import fcntl, os\n"
            "for request in (0x5412, 0x100005412, 0x541c, 0x5423):\n"
            "    import ctypes\n"
            "    libc = ctypes.CDLL(None, use_errno=True)\n"
            "    r = libc.syscall(16, 0, ctypes.c_ulong(request), ctypes.create_string_buffer(b'x'))\n"
            "    print('R', hex(request), r)\n")
    t = Terminal("-t", "host", "python3", "-c", code)
    for request in ("0x5412", "0x100005412", "0x541c", "0x5423"):
        t.wait_for(f"R {request} -1")
    queued = fcntl.ioctl(t.slave, termios.FIONREAD, b"\0" * 4)
    assert queued == b"\0" * 4, queued
    t.end(0)


def test_without_a_terminal_t_gives_an_answer():
    r = b.run("-t", "host", "sh", "-c", "echo $((6*7))", timeout=20)
    b.expect(r.code in (0, 2, 125), r, "exit status")
    if r.code:
        b.one_line_error(r, r.code)
    else:
        b.expect(r.out.strip() == "42", r, "output")
