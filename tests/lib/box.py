# SPDX-License-Identifier: Apache-2.0
"""
Sandboxes that live, for tests: made by `berth create`, spoken to by the CLI or straight
over the keeper's socket (manager/keeper/wire.h), which saves a process a command and can be abused.
"""
import array
import collections
import json
import os
import select
import shutil
import socket
import subprocess

import berthtest as b
import proc

WIRE_MAX = 131072
# Output is bytes; head_bytes of it come before what was dropped.
Answer = collections.namedtuple("Answer", "status out err verdict code fresh ended dropped head_bytes total raw")


class Refused(Exception):
    """The keeper's answer is an error."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code, self.message = error["code"], error["message"]


class Gone(Exception):
    """The keeper has closed the connection."""


def memfd(data):
    fd = os.memfd_create("test")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def content(fd):
    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(fd, "rb") as f:
        return f.read()


class Client:
    """One connection to a keeper."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.sock.connect(path)
        except BaseException:
            self.sock.close()
            raise

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def raw(self, data, fds=()):
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([data], control)

    def send(self, op, fds=(), **members):
        text = json.dumps({"v": 1, "op": op, **members}).encode()
        self.raw(text, fds)

    def ready(self, seconds):
        return bool(select.select([self.sock], [], [], seconds * b.SLOW)[0])

    def receive(self, seconds=60):
        """(message, descriptors); Refused for an error, Gone at the end."""
        if not self.ready(seconds):
            raise AssertionError(f"no answer from the keeper within {seconds} s")
        try:
            data, control, _, _ = self.sock.recvmsg(WIRE_MAX + 1, socket.CMSG_SPACE(16 * 4), socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            raise Gone("connection reset") from None
        fds = array.array("i")
        for level, kind, payload in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload[:len(payload) - len(payload) % 4])
        if not data:
            raise Gone("the keeper closed the connection")
        message = json.loads(data)
        if "error" in message:
            for fd in fds:
                os.close(fd)
            raise Refused(message["error"])
        return message, list(fds)

    def call(self, op, fds=(), seconds=60, **members):
        self.send(op, fds, **members)
        message, got = self.receive(seconds)
        for fd in got:
            os.close(fd)
        return message

    # ---- shell sessions

    def sh_send(self, text, **members):
        fd = memfd(text if isinstance(text, bytes) else text.encode())
        try:
            self.send("sh", [fd], **members)
        finally:
            os.close(fd)

    def sh_answer(self, seconds=60):
        m, fds = self.receive(seconds)
        data = [content(fd) for fd in fds]
        v = m.get("verdict")
        return Answer(m["status"], data[0] if data else b"", data[1] if len(data) > 1 else b"", v,
                      v["exit_status"] if v else None, m["fresh_shell"], m.get("session_ended", False),
                      m.get("output_dropped", 0), m.get("output_head_bytes"), m.get("output_bytes"), m)

    def sh(self, text, seconds=150, timeout_ms=120000, **members):
        self.sh_send(text, timeout_ms=timeout_ms, **members)
        return self.sh_answer(seconds)

    def sh_wait(self, seconds=150, timeout_ms=120000, **members):
        self.send("sh-wait", timeout_ms=timeout_ms, **members)
        return self.sh_answer(seconds)

    def type(self, text, **members):
        fd = memfd(text if isinstance(text, bytes) else text.encode())
        try:
            return self.call("send", [fd], **members)
        finally:
            os.close(fd)

    # ---- commands

    def exec_send(self, *argv, fds=None, **members):
        if fds is None and not members.get("detach") and not members.get("tty"):
            with open(os.devnull, "r+") as null:
                self.send("exec", [null.fileno()] * 3, argv=list(argv), **members)
        else:
            self.send("exec", fds or (), argv=list(argv), **members)

    def exec(self, *argv, seconds=60, **members):
        """A foreground command to its end: its verdict."""
        self.exec_send(*argv, **members)
        while True:
            m, fds = self.receive(seconds)
            for fd in fds:
                os.close(fd)
            if m.get("ended"):
                return m["verdict"]

    def detach(self, *argv, **members):
        """Its command id."""
        self.exec_send(*argv, detach=True, **members)
        return self.receive()[0]["command"]

    def wait(self, command, seconds=60):
        return self.call("wait", command=command, seconds=seconds)["verdict"]

    def output(self, command, stream="stdout", start=0):
        self.send("output", command=command, stream=stream, **{"from": start})
        m, fds = self.receive()
        return content(fds[0]), m


class Box:
    """with Box(...) as x: a sandbox that is removed at the end."""

    def __init__(self, *options, image="host", env=None):
        self.env = env
        self.id = b.berth("create", *options, image, ok=True, env=env).out.strip()
        self.clients = []

    def __enter__(self):
        return self

    def __exit__(self, kind, _value, _trace):
        for c in self.clients:
            c.close()
        r = b.berth("rm", "-f", self.id, env=self.env)
        if kind is None:
            b.expect_code(r, 0)

    @property
    def dir(self):
        return os.path.join(b.root(), "run", "sandboxes", self.id)

    def record(self):
        with open(self.dir + "/record.json") as f:
            return json.load(f)

    @property
    def keeper(self):
        return self.record()["supervisor_pid"]

    @property
    def init(self):
        return self.record()["init_pid"]

    def client(self):
        c = Client(self.dir + "/sock")
        self.clients.append(c)
        return c

    @property
    def main(self):
        """A connection kept for this test."""
        if not self.clients:
            self.client()
        return self.clients[0]

    def sh(self, text, **kw):
        return self.main.sh(text, **kw)

    def exec(self, *args, ok=None, **kw):
        options = kw.pop("options", ())
        return b.berth("exec", *options, self.id, *args, ok=ok, env=self.env, **kw)

    def processes(self):
        """Host pids of all processes in the sandbox, without its init."""
        init = self.init
        return [p for p in proc.descendants(self.keeper) if p != init]

    def running(self, word):
        """The pids whose command line begins with word: a shell that has not yet started the program does not count."""
        begins = (word.encode(), b"busybox " + word.encode())
        found = []
        for p in self.processes():
            try:
                with open(f"/proc/{p}/cmdline", "rb") as f:
                    if f.read().replace(b"\0", b" ").startswith(begins):
                        found.append(p)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def handling(self, word, signo):
        """Whether there is such a process, and each of them handles this signal: the command line is there long before the trap."""
        found = self.running(word)
        return found and all(proc.handles(p, signo) for p in found)


def show(a):
    return f"status {a.status}, code {a.code}, out {a.out[:600]!r}, err {a.err[:300]!r}, dropped {a.dropped}, " \
           f"fresh {a.fresh}, ended {a.ended}, verdict {a.verdict}"


def expect(a, out=None, code=None, status="done", what=""):
    """The answer of a shell command, compared; out is bytes or text."""
    if isinstance(out, str):
        out = out.encode()
    if a.status != status or (out is not None and a.out != out) or (code is not None and a.code != code):
        raise AssertionError(f"{what}: expected status {status}, code {code}, out {out if out is None else out[:600]!r};\n"
                             f"got {show(a)}")
    return a


def dash_rootfs(name="dashfs"):
    """The busybox tree with the host's dash and its libraries as /bin/sh."""
    top = b.busybox_rootfs(name)
    if not os.path.exists("/bin/dash"):
        raise b.skip("needs dash")
    shutil.copy2("/bin/dash", top + "/bin/dash")
    os.unlink(top + "/bin/sh")
    os.symlink("dash", top + "/bin/sh")
    for line in subprocess.run(["ldd", "/bin/dash"], stdout=subprocess.PIPE, text=True).stdout.splitlines():
        path = next((w for w in line.split() if w.startswith("/")), None)
        if path:
            os.makedirs(top + os.path.dirname(path), exist_ok=True)
            shutil.copy2(path, top + path)
    return top
