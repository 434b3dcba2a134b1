# SPDX-License-Identifier: Apache-2.0
"""
Attacks S62 of SECURITY.md: what a client of SSH gets besides its sandbox, and what it can do to berth-ssh and to others.  E10, D13.
"""
import os
import select
import signal
import socket
import struct
import subprocess

import berthtest as b
import proc
from box import Box
from sshlab import SshBox, servers
from test_rights import check

COST = 30


def raw(x):
    """The connection of ssh-proxy, without a client."""
    mine, its = socket.socketpair()
    with its:
        p = b.start("ssh-proxy", x.id, stdin=its, stdout=its)
    mine.settimeout(30 * b.SLOW)
    return mine, p


def ends(mine, p):
    """The server ends by itself, whatever the client does."""
    with mine:
        try:
            while mine.recv(65536):
                pass
        except ConnectionResetError:
            pass
        err = p.stderr.read()
        p.stdout and p.stdout.close()
        p.stderr.close()
        p.wait(30 * b.SLOW)
        b.wait_for(lambda: not servers(), 20, "the end of berth-ssh")
        return err


def test_what_is_no_ssh_ends_its_own_connection():
    with SshBox() as x:
        for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100000, b"SSH-1.5-x\r\n", b"SSH-2.0-x\r\n" + b"\xff" * 70000, b"x" * 1_000_000,
                     b"SSH-2.0-x\r\n" + struct.pack(">IB", 12, 10) + b"\x14" + b"\0" * 10 + b"\xff" * 100,
                     b"SSH-2.0-x\r\n" + struct.pack(">IB", 0xfffffff0, 4), b"SSH-2.0-x\r\n" + struct.pack(">IBB", 12, 4, 80) + b"\0" * 300):
            mine, p = raw(x)
            try:
                mine.sendall(sent)
                mine.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass
            ends(mine, p)
        assert x.ssh("echo fine", ok=True).out == "fine\n"


def test_berth_ssh_has_no_right_no_file_and_no_socket_to_make():
    with SshBox() as x:
        p = x.start("echo up; cat", stdin=subprocess.PIPE)
        b.read_until(p.stdout, b"up\n")
        pid, = servers()
        check("berth-ssh", pid)
        # the directory of a process that has ended
        assert not any(os.access(f"/proc/{pid}/root/{name}", os.F_OK) for name in ("etc", "proc", "1"))
        kinds = sorted(os.readlink(f"/proc/{pid}/fd/{n}").split(":")[0] for n in os.listdir(f"/proc/{pid}/fd"))
        assert set(kinds) <= {"/dev/null", "socket", "pipe"}, kinds
        with open(f"/proc/{pid}/limits") as f:
            assert any(line.startswith("Max address space") and "134217728" in line for line in f)
        p.communicate(b"")


def packet(kind, body, number=1):
    data = struct.pack(">BI", kind, number) + body
    return struct.pack(">I", len(data)) + data


def text(s):
    s = s.encode() if isinstance(s, str) else s
    return struct.pack(">I", len(s)) + s


# what it kept of each was without a bound
TWO_TERMINALS = r"""
import asyncio, asyncssh, sys
from asyncssh.packet import String, UInt32
class Channel(asyncssh.channel.SSHClientChannel):
    async def create(self, *_, **__):
        await self._open(b"session")
        size = (UInt32(80), UInt32(24), UInt32(0), UInt32(0), String(""))
        print(*[bool(await self._make_request(b"pty-req", String("vt220"), *size)) for n in range(2)])
        sys.exit()
asyncssh.connection.SSHClientChannel = Channel
async def main():
    async with asyncssh.connect("sandbox", config=None, username="berth", known_hosts=None, client_keys=None, agent_path=None,
                                proxy_command=[sys.argv[1], "ssh-proxy", sys.argv[2]]) as c:
        await c.create_process("true")
asyncio.run(main())
"""


class Sftp:
    """The protocol by hand, over ssh -s."""

    def __init__(self, x):
        self.p = x.start("sftp", options=("-s",), stdin=subprocess.PIPE)
        self.send(struct.pack(">IBI", 5, 1, 3))
        assert self.answer()[0] == 2

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.communicate(timeout=30 * b.SLOW)

    def send(self, data):
        self.p.stdin.write(data)
        self.p.stdin.flush()

    def answer(self):
        n, = struct.unpack(">I", self.exactly(4))
        data = self.exactly(n)
        return data[0], data[5:]

    def exactly(self, n):
        data = self.p.stdout.read(n)
        assert len(data) == n, (data, self.p.stderr.read() if len(data) < n else "")
        return data

    def ask(self, kind, body):
        self.send(packet(kind, body))
        return self.answer()

    def status(self, kind, body):
        kind, data = self.ask(kind, body)
        assert kind == 101, (kind, data)
        return struct.unpack(">I", data[:4])[0]


OPEN, CLOSE, READ, WRITE, OPENDIR, READDIR, REALPATH, STAT, READLINK, SYMLINK, EXTENDED = 3, 4, 5, 6, 11, 12, 16, 17, 19, 20, 200


def test_sftp_resolves_every_path_in_the_sandbox():
    """A link that leads to a file of the host finds the sandbox's, and no path leaves its root."""
    secret = b.victim()
    with SshBox() as x, Sftp(x) as f:
        x.ssh(f"ln -s {secret} /tmp/link; ln -s / /tmp/root; ln -s ../../../../../../../.. /tmp/up", ok=True)
        for path in (secret, "/tmp/link", "/tmp/root" + secret, "/tmp/up" + secret, "../" * 30 + secret, "/proc/1/root" + secret,
                     "/proc/self/cwd/" + "../" * 20 + secret):
            assert f.status(OPEN, text(path) + struct.pack(">II", 1, 0)) in (2, 3), path
            assert f.status(STAT, text(path)) in (2, 3), path
        # the directory of the host's files is not there, and the sandbox's own is its root
        kind, data = f.ask(REALPATH, text("/tmp/up/../.."))
        assert kind == 104 and data[4:9] == text("/"), data
        # its process has the sandbox's ids and no more rights than a command
        pid, = [p for p in x.processes() if "sftp" in proc.cmdline(p)]
        with open(f"/proc/{pid}/status") as s:
            assert "Uid:\t0\t" not in s.read()


def test_malformed_sftp_is_answered_or_ends_and_waits_for_nothing():
    with SshBox() as x:
        x.ssh("mkfifo /tmp/fifo; mkdir /tmp/d; echo hi > /tmp/f", ok=True)
        with Sftp(x) as f:
            for path in ("/tmp/fifo", "/dev/zero", "/dev/tty", "/tmp/d"):
                assert f.status(OPEN, text(path) + struct.pack(">II", 1, 0)) in (2, 3, 4), path
            for kind in range(3, 256):
                if kind not in (101, 102, 103, 104, 105):
                    got, _ = f.ask(kind, b"")
                    assert got in (101, 104, 105, 201), (kind, got)
            for kind, body in ((OPEN, struct.pack(">I", 0xffffffff) + b"x"), (OPEN, text("a\0b") + struct.pack(">II", 1, 0)),
                               (OPEN, text("x" * 5000) + struct.pack(">II", 1, 0)), (WRITE, text("\0\0\0\0") + struct.pack(">QI", 0, 99)),
                               (READ, text("\0\0\0\x09") + struct.pack(">QI", 0, 99)), (CLOSE, text("handle")), (READDIR, text("\xff" * 4)),
                               (STAT, text("")[:3]), (EXTENDED, text("nobody@example.com")),
                               (EXTENDED, text("statvfs@openssh.com")), (OPEN, text("/tmp/f") + struct.pack(">III", 1, 1 << 31, 0xffffffff))):
                assert f.status(kind, body) in (2, 4, 5, 8), (kind, body)
            # handles are bounded, and what is open stays readable
            handles = []
            while True:
                kind, data = f.ask(OPEN, text("/tmp/f") + struct.pack(">II", 1, 0))
                if kind == 101:
                    break
                handles.append(data)
            assert len(handles) == 256
            assert f.ask(READ, handles[-1] + struct.pack(">QI", 0, 0xffffffff))[1] == text("hi\n")
            assert f.status(READ, handles[-1] + struct.pack(">QI", 1 << 63, 9)) in (2, 4)
        for sent in (struct.pack(">I", 0), struct.pack(">IB", 0xffffffff, 3), struct.pack(">IBI", 5, 3, 1), b"x" * 10000):
            p = x.start("sftp", options=("-s",), stdin=subprocess.PIPE)
            try:
                p.communicate(sent, timeout=30 * b.SLOW)
            except BrokenPipeError:
                pass
            p.wait(30 * b.SLOW)


def test_slow_readers_and_floods_cost_their_own_connection_bounded_memory():
    """A command that prints for ever to a client that reads nothing, and input for a command that reads nothing."""
    with SshBox() as x:
        p = x.start("echo up; exec cat /dev/zero")
        b.read_until(p.stdout, b"up\n")
        os.kill(p.pid, signal.SIGSTOP)
        q = x.start("echo up; exec sleep 1000", stdin=subprocess.PIPE)
        b.read_until(q.stdout, b"up\n")
        os.set_blocking(q.stdin.fileno(), False)
        stuck, sent = 0, 0
        while stuck < 20:
            n = q.stdin.raw.write(b"x" * 65536)
            sent += n or 0
            stuck = 0 if n else stuck + 1
            if not n:
                select.select([], [q.stdin], [], 0.1)
        assert sent < 16 << 20, sent
        for pid in servers():
            with open(f"/proc/{pid}/status") as f:
                rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
            assert rss < 40 << 10, rss
        # others are served
        assert x.ssh("echo fine", ok=True).out == "fine\n"
        os.kill(p.pid, signal.SIGCONT)
        for r in (p, q):
            b.stop(r, signal.SIGKILL)
            r.stdin and r.stdin.close()
        b.wait_for(lambda: not servers() and not x.running("sleep"), 20, "the end")


def wchan(pid):
    with open(f"/proc/{pid}/wchan") as f:
        return f.read()


def test_what_a_client_began_ends_with_its_connection_though_it_reads_nothing():
    with SshBox() as x:
        p = x.start("echo up; trap '' PIPE; cat /dev/zero; sleep 1000")
        b.read_until(p.stdout, b"up\n")
        # it has bytes on their way, which nobody reads
        os.kill(p.pid, signal.SIGSTOP)
        try:
            pid, = servers()
            b.wait_for(lambda: any("pipe" in wchan(one) for one in x.running("cat")), 20, "a full pipe")
            os.kill(pid, signal.SIGKILL)
            b.wait_for(lambda: not x.running("sleep") and not x.running("cat"), 20, "the end of its command")
        finally:
            b.stop(p, signal.SIGKILL)


def test_a_terminal_is_asked_for_once():
    with SshBox() as x:
        p = subprocess.run(["/usr/bin/python3", "-W", "ignore", "-c", TWO_TERMINALS, b.BERTH, x.id], env=b.environment(),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60 * b.SLOW, text=True, check=False)
        assert p.stdout == "True False\n", p


def test_no_client_reaches_another_sandbox():
    with SshBox() as x, Box("--name", "other") as other:
        other.exec("sh", "-c", "echo secret > /tmp/secret", ok=True)
        for name in (other.id, "other", "../" + other.id, x.id + "/../" + other.id):
            r = x.ssh("cat /tmp/secret; hostname", options=("-l", name))
            assert "secret\n" not in r.out, r
        r = x.ssh("ls /proc/*/root/tmp/secret 2>/dev/null; id -u", ok=True)
        assert r.out == "0\n", r


def test_sessions_and_channels_are_bounded():
    with SshBox() as x:
        path = b.tmp("m")
        master = x.start(options=("-N", "-M", "-S", path))
        try:
            b.wait_for(lambda: os.path.exists(path), 20, "the master")
            many = [x.start("echo up; cat", options=("-S", path), stdin=subprocess.PIPE) for n in range(20)]
            assert [p.stdout.readline() for p in many] == [b"up\n"] * 20
            # those that the connection refused have made one of their own
            assert len(servers()) == 1 + 4
            for p in many:
                p.communicate(b"", timeout=30 * b.SLOW)
            # the places are free again
            assert x.ssh("echo again", options=("-S", path), ok=True).out == "again\n"
        finally:
            b.stop(master)


MANY = "import socket, time; held = [socket.create_connection(('127.0.0.1', 9000)) for n in range(64)]; time.sleep(1000)"


def test_a_sandbox_that_connects_to_its_client_for_ever_leaves_the_sessions_their_places():
    with SshBox() as x, socket.create_server(("127.0.0.1", 0), backlog=100) as host:
        path = b.tmp("m")
        port = host.getsockname()[1]
        master = x.start("echo up; exec sleep 1000", options=("-M", "-S", path, "-o", "ExitOnForwardFailure=yes", "-R", f"9000:127.0.0.1:{port}"))
        b.read_until(master.stdout, b"up\n")
        flood = b.start("exec", x.id, "python3", "-c", MANY)
        held = []
        try:
            host.settimeout(20 * b.SLOW)
            while len(held) < 48:
                held.append(host.accept()[0])
            p = x.start("echo up; cat", options=("-S", path), stdin=subprocess.PIPE)
            b.read_until(p.stdout, b"up\n")
            # OpenSSH's client makes a connection of its own when a session is refused
            assert len(servers()) == 1
            p.communicate(b"", timeout=30 * b.SLOW)
        finally:
            for s in held:
                s.close()
            b.stop(flood, signal.SIGKILL)
            b.stop(master)
