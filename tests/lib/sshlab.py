# SPDX-License-Identifier: Apache-2.0
"""A sandbox as SSH clients reach it: OpenSSH's programs with the Host block of berth ssh-config."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import berthtest as b
import proc
from box import Box


class SshBox(Box):
    """with SshBox() as x: x.ssh("echo hi"); x.program("sftp", ...) runs another client with the same configuration."""

    def __enter__(self):
        super().__enter__()
        self.config = b.write(b.tmp(f"ssh-{self.id}"), b.berth("ssh-config", self.id, ok=True).out)
        return self

    def program(self, *words, input=None, timeout=60, env=None, ok=None):
        words = [words[0], "-F", self.config, *words[1:]]
        p = subprocess.run(words, input=input if input is None or isinstance(input, bytes) else input.encode(),
                           stdin=subprocess.DEVNULL if input is None else None, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=b.environment(env), timeout=timeout * b.SLOW, check=False)
        r = b.Result(p.returncode, p.stdout.decode(errors="surrogateescape"), p.stderr.decode(errors="surrogateescape"), None, words, 0)
        if ok is not None:
            b.expect_code(r, 0 if ok is True else ok)
        return r

    def ssh(self, *words, options=(), **kw):
        return self.program("ssh", *options, self.id, *words, **kw)

    def start(self, *words, options=(), **popen):
        popen.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(["ssh", "-F", self.config, *options, self.id, *words], env=b.environment(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **popen)


def servers():
    """The pids of berth-ssh that this test has started."""
    return [p for p in proc.descendants(os.getpid()) if proc.alive(p) and comm(p) == "berth-ssh"]


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


class Terminal:
    """A client on a terminal: type() and read_until()."""

    def __init__(self, argv, rows=24, cols=80):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            self.fd = 0
            self.resize(rows, cols)
            os.execvpe(argv[0], argv, b.environment({"TERM": "vt220"}))
        self.text = b""

    def resize(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, data):
        os.write(self.fd, data)

    def until(self, word, seconds=20):
        end = time.monotonic() + seconds * b.SLOW
        while word not in self.text:
            ready = select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]
            assert ready, f"{word} did not come: {self.text}"
            try:
                piece = os.read(self.fd, 65536)
            except OSError:
                piece = b""
            assert piece, f"{word} did not come before the end: {self.text}"
            self.text += piece
        at = self.text.index(word) + len(word)
        got, self.text = self.text[:at], self.text[at:]
        return got

    def end(self):
        """The exit status, once it has ended by itself."""
        while True:
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.end()
