# SPDX-License-Identifier: Apache-2.0
"""berth ssh, ssh-config, ssh-proxy: OpenSSH's unmodified clients on a sandbox that has no SSH server.  S62."""
import os
import signal
import socket
import subprocess

import berthtest as b
import proc
from servers import COUNTS, NOTHING_LISTENS, SIX, all_of, ask, serve
from sshlab import SshBox, Terminal, servers

COST = 40


# what OpenSSH's client does not send or tell, by Debian's python3-asyncssh
OTHER_CLIENT = r"""
import asyncio, asyncssh, sys
async def main():
    async with asyncssh.connect("sandbox", config=None, username="berth", known_hosts=None, client_keys=None, agent_path=None,
                                proxy_command=[sys.argv[1], "ssh-proxy", sys.argv[2]]) as c:
        p = await c.create_process("trap 'echo got usr1; exit 5' USR1; echo up; while :; do sleep 0.05; done")
        assert await p.stdout.readline() == "up\n"
        p.send_signal("USR1")
        assert await p.stdout.readline() == "got usr1\n"
        await p.wait()
        assert p.exit_status == 5, p.exit_status
        p = await c.create_process("echo up; exec sleep 1000")
        assert await p.stdout.readline() == "up\n"
        p.send_signal("TERM")
        await p.wait()
        assert p.exit_signal[0] == "TERM", p.exit_signal
        assert (await c.run("echo $X", env={"X": "y"})).stdout == "y\n"
        async with c.start_sftp_client() as f:
            await f.mkdir("/tmp/d")
            assert "d" in await f.listdir("/tmp")
asyncio.run(main())
"""


def test_another_client_sends_signals_and_sees_how_a_command_ended():
    with SshBox() as x:
        p = subprocess.run(["/usr/bin/python3", "-W", "ignore", "-c", OTHER_CLIENT, b.BERTH, x.id], env=b.environment(),
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60 * b.SLOW, text=True, check=False)
        assert p.returncode == 0, p.stdout


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def test_a_command_has_its_streams_its_status_and_its_signal():
    with SshBox() as x:
        r = x.ssh("echo out; echo err >&2; exit 7")
        assert (r.code, r.out, r.err) == (7, "out\n", "err\n"), r
        data = os.urandom(3_000_000)
        with open(b.write(b.tmp("sent"), data), "rb") as f, open(b.tmp("got"), "wb") as to:
            subprocess.run(["ssh", "-F", x.config, x.id, "cat"], stdin=f, stdout=to, env=b.environment(), check=True)
        with open(b.tmp("got"), "rb") as f:
            assert f.read() == data
        # the end of standard input is passed on, and the answer still comes
        assert x.ssh("wc -c", input=data, ok=True).out.strip() == "3000000"
        # 255 is OpenSSH's for a signal
        b.expect_code(x.ssh("kill -TERM $$"), 255)
        r = x.ssh("/no/such")
        assert r.code == 127 and "no/such" in r.err, r
        # a command that nobody reads ends by SIGPIPE, not never
        p = x.start("yes; echo ended >&2")
        b.read_until(p.stdout, b"y\n")
        p.stdout.close()
        p.wait(30 * b.SLOW)
        p.stderr.close()


def test_a_shell_without_a_terminal_reads_its_commands():
    with SshBox() as x:
        r = x.ssh(input="echo one; cd /tmp; pwd; exit 4")
        assert (r.code, r.out) == (4, "one\n/tmp\n"), r


def test_a_process_that_a_command_leaves_behind_holds_nobody_up():
    with SshBox() as x:
        r = x.ssh("sleep 1000 & echo done", ok=True)
        assert r.out == "done\n", r


def test_the_environment_comes_within_its_bounds():
    with SshBox() as x:
        r = x.ssh("echo $A_1:$B", options=("-o", "SetEnv=A_1=hello B=x"), ok=True)
        assert r.out == "hello:\n" or r.out == "hello:x\n", r
        many = " ".join(f"V{n}=1" for n in range(100))
        r = x.ssh("env | grep -c ^V", options=("-o", "SetEnv=" + many), ok=True)
        assert r.out == "64\n", r
        r = x.ssh("echo ${#LARGE}", options=("-o", "SetEnv=LARGE=" + "x" * 40000), ok=True)
        assert r.out == "0\n", r


def test_the_name_of_the_user_is_who_runs_the_command():
    with SshBox("--user", "65534") as x:
        assert x.ssh("id -u", ok=True).out == "65534\n"
        assert x.ssh("id -u", options=("-l", "root"), ok=True).out == "0\n"
        assert b.berth("ssh", "--user", "root", x.id, "id", "-u", ok=True).out == "0\n"
        assert "User 0:0" in b.berth("ssh-config", "-u", "0:0", x.id, ok=True).out
        r = x.ssh("id -u", options=("-l", b"\xff"))
        assert r.code == 255 and r.out == "", r
        r = x.ssh("id -u", options=("-l", "nosuchuser"))
        assert r.code in (125, 126, 127) and "nosuchuser" in r.err, r
        b.one_line_error(b.berth("ssh-config", "-u", "a b", x.id), 2, "not a user")


def test_a_terminal_has_its_size_its_keys_and_its_name():
    with SshBox() as x:
        t = Terminal(["ssh", "-F", x.config, x.id], 30, 100)
        t.until(b"# ")
        t.type(b"stty size; echo $TERM\n")
        t.until(b"30 100\r\nvt220")
        t.resize(40, 132)
        os.kill(t.pid, signal.SIGWINCH)
        t.type(b"trap 'echo size=$(stty size)' USR1; until [ \"$(stty size)\" = '40 132' ]; do sleep 0.01; done; echo re''sized\n")
        t.until(b"resized")
        t.type(b"sleep 1000; echo sta''tus=$?\n")
        b.wait_for(lambda: x.running("sleep 1000"), 20, "sleep")
        t.type(b"\x03")
        t.type(b"echo sta''tus=$?\n")
        t.until(b"status=130")
        t.type(b"exit 9\n")
        assert t.end() == 9


def test_sftp_reads_writes_and_lists():
    with SshBox() as x:
        data = os.urandom(2_000_000)
        b.write(b.tmp("one"), data)
        batch = f"""pwd
put {b.tmp("one")} /tmp/one
mkdir /tmp/d
cd /tmp/d
put {b.tmp("one")} two
chmod 600 two
ln -s two link
ls -la
rename two three
-rename -l /tmp/one three
get three {b.tmp("back")}
df
rm link
rm three
cd ..
rmdir d
ls -l /proc/1/root
"""
        r = x.program("sftp", "-b", "-", x.id, input=batch)
        with open(b.tmp("back"), "rb") as f:
            assert f.read() == data, r
        assert "/workspace" in r.out and "-rw-------" in r.out and "lrwxrwxrwx" in r.out, r
        assert x.ssh("ls /tmp", ok=True).out == "one\n"
        assert x.ssh("cmp /tmp/one -", input=data).code == 0


def test_a_large_directory_is_listed_whole():
    with SshBox() as x:
        x.ssh("mkdir /tmp/many; cd /tmp/many; seq 1000 | xargs touch", ok=True)
        r = x.program("sftp", "-b", "-", x.id, input="ls -1 /tmp/many\n", ok=True)
        assert sum(line.startswith("/tmp/many/") for line in r.out.splitlines()) == 1000, r.out[:1000]


def test_scp_copies_trees_and_the_old_protocol_needs_scp_inside():
    with SshBox() as x:
        for n in range(20):
            b.write(b.tmp(f"tree/d{n % 3}/f{n}"), b"%d" % n, 0o640)
        x.program("scp", "-rp", b.tmp("tree"), f"{x.id}:/tmp/tree", ok=True)
        x.program("scp", "-rp", f"{x.id}:/tmp/tree", b.tmp("back"), ok=True)
        assert subprocess.run(["diff", "-r", b.tmp("tree"), b.tmp("back")], check=False).returncode == 0
        assert x.ssh("stat -c %a /tmp/tree/d0/f0", ok=True).out == "640\n"
        # the image host has scp
        x.program("scp", "-O", b.tmp("tree/d0/f0"), f"{x.id}:/tmp/old", ok=True)
        assert x.ssh("cat /tmp/old", ok=True).out == "0"
        r = x.program("scp", b.tmp("tree/d0/f0"), f"{x.id}:/proc/none")
        assert r.code and "/proc/none" in r.err, r


def test_rsync_and_git_run_over_it():
    with SshBox() as x:
        for n in range(20):
            b.write(b.tmp(f"tree/f{n}"), b"%d" % n)
        subprocess.run(["rsync", "-a", "-e", f"ssh -F {x.config}", b.tmp("tree") + "/", f"{x.id}:/tmp/tree/"], env=b.environment(), check=True)
        assert x.ssh("ls /tmp/tree | wc -l", ok=True).out == "20\n"
        x.ssh("git init -q --bare /tmp/r.git", ok=True)
        env = b.environment({"GIT_SSH_COMMAND": f"ssh -F {x.config}", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
                             "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"})
        git = lambda *words: subprocess.run(["git", "-C", b.tmp("tree"), *words], env=env, check=True, stdout=subprocess.PIPE).stdout
        git("init", "-q")
        git("add", ".")
        git("commit", "-q", "-m", "x")
        git("push", "-q", f"{x.id}:/tmp/r.git", "HEAD:refs/heads/main")
        assert git("rev-parse", "HEAD") in git("ls-remote", f"{x.id}:/tmp/r.git") or \
            git("rev-parse", "HEAD").strip() in git("ls-remote", f"{x.id}:/tmp/r.git")
        subprocess.run(["git", "clone", "-q", "-b", "main", f"{x.id}:/tmp/r.git", b.tmp("clone")], env=env, check=True)
        assert len(os.listdir(b.tmp("clone"))) == 21


def socks(port, host, inside):
    s = socket.create_connection(("127.0.0.1", port), timeout=20 * b.SLOW)
    s.sendall(b"\x05\x01\x00")
    assert s.recv(2) == b"\x05\x00"
    s.sendall(b"\x05\x01\x00\x03" + bytes([len(host)]) + host.encode() + inside.to_bytes(2, "big"))
    return s, s.recv(10)[1:2]


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_ports_lead_into_the_sandbox_and_no_further():
    with SshBox() as x, socket.create_server(("127.0.0.1", 0)) as host:
        serve(x)
        local, six, dynamic = free_port(), free_port(), free_port()
        p = x.start(options=("-N", "-L", f"{local}:localhost:{COUNTS}", "-L", f"{six}:[::1]:{SIX}", "-D", str(dynamic)))
        try:
            b.wait_for(lambda: listens(local), 20, "ssh to listen")
            # half-closed, the other direction goes on
            assert ask(socket.create_connection(("127.0.0.1", local)), b"x" * 5_000_000) == b"5000000"
            assert ask(socket.create_connection(("127.0.0.1", six)), b"abc") == b"3"
            s, status = socks(dynamic, "localhost", COUNTS)
            assert status == b"\x00" and ask(s, b"1234") == b"4"
            for host_name, port in (("localhost", NOTHING_LISTENS), ("localhost", host.getsockname()[1]), ("10.1.2.3", 80), ("example.com", 80)):
                s, _ = socks(dynamic, host_name, port)
                with s:
                    assert all_of(s) == b"", (host_name, port)
        finally:
            b.stop(p)


def test_a_port_of_the_sandbox_leads_to_the_client():
    with SshBox() as x, socket.create_server(("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]
        p = x.start("exec python3 -c 'import socket; s = socket.create_connection((\"127.0.0.1\", 9000)); s.sendall(b\"hello\"); "
                    "s.shutdown(1); print(s.recv(99))'", options=("-o", "ExitOnForwardFailure=yes", "-R", f"9000:127.0.0.1:{port}"))
        host.settimeout(30 * b.SLOW)
        with host.accept()[0] as c:
            assert all_of(c) == b"hello"
            c.sendall(b"answer")
        out, err = p.communicate(timeout=30 * b.SLOW)
        assert out == b"b'answer'\n", (out, err)
        # on its loopback only
        for where in ("0.0.0.0:9000", "*:9000"):
            r = x.ssh("true", options=("-o", "ExitOnForwardFailure=yes", "-R", f"{where}:127.0.0.1:{port}"))
            assert r.code == 255 and "forwarding failed" in r.err, r
        # and gone with the connection
        assert x.ssh("! timeout 5 bash -c '</dev/tcp/127.0.0.1/9000' 2>/dev/null", ok=True)


def test_a_port_that_leads_to_the_client_ends_with_the_run_of_the_sandbox():
    with SshBox() as x:
        p = x.start(options=("-N", "-o", "ExitOnForwardFailure=yes", "-R", "9000:127.0.0.1:9", "-R", "9001:127.0.0.1:9"))
        b.wait_for(lambda: x.ssh("bash -c '</dev/tcp/127.0.0.1/9001'").code == 0, 20, "the ports")
        b.berth("stop", x.id, ok=True)
        p.communicate(timeout=30 * b.SLOW)
        assert p.returncode == 255
        b.wait_for(lambda: not servers(), 20, "the end of berth-ssh")


def test_agents_x11_and_sockets_by_path_are_refused():
    with SshBox() as x:
        local = free_port()
        sock = b.tmp("agent")
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            b.wait_for(lambda: os.path.exists(sock), 20, "the agent")
            r = x.ssh("echo $SSH_AUTH_SOCK:$DISPLAY", options=("-A", "-X"), env={"SSH_AUTH_SOCK": sock, "DISPLAY": ":9"}, ok=True)
            assert r.out == ":\n", r
        finally:
            b.stop(agent)
        p = x.start(options=("-N", "-L", f"{local}:/run/x.sock"))
        try:
            b.wait_for(lambda: listens(local), 20, "ssh to listen")
            with socket.create_connection(("127.0.0.1", local), timeout=20 * b.SLOW) as s:
                assert all_of(s) == b""
        finally:
            b.stop(p)
        r = x.ssh("true", options=("-s",))
        assert r.code == 255 and "subsystem request failed" in r.err, r


def test_one_connection_carries_several_sessions():
    with SshBox() as x:
        path = b.tmp("m")
        master = x.start(options=("-N", "-M", "-S", path))
        try:
            b.wait_for(lambda: os.path.exists(path), 20, "the master")
            many = [x.start(f"echo {n}; cat", options=("-S", path), stdin=subprocess.PIPE) for n in range(9)]
            for n, p in enumerate(many):
                assert b.read_until(p.stdout, b"\n") == b"%d\n" % n
            assert len(servers()) == 1
            for p in many:
                assert p.communicate(b"end", timeout=30 * b.SLOW)[0] == b"end"
                assert p.returncode == 0
        finally:
            b.stop(master)


def test_new_keys_in_the_middle_change_nothing():
    with SshBox() as x:
        data = os.urandom(5_000_000)
        assert x.ssh("cksum", options=("-o", "RekeyLimit=256K"), input=data, ok=True).out == \
            subprocess.run(["cksum"], input=data, stdout=subprocess.PIPE, check=True).stdout.decode()
        r = x.ssh("head -c 5000000 /dev/zero | tr '\\0' x", options=("-o", "RekeyLimit=256K"), ok=True)
        assert r.out == "x" * 5_000_000


def test_a_dead_client_leaves_nothing():
    with SshBox() as x:
        p = x.start("sleep 1001 & sleep 1002")
        runs = lambda: x.running("sleep")
        b.wait_for(lambda: len(runs()) == 2, 20, "the command")
        b.stop(p, signal.SIGKILL)
        b.wait_for(lambda: not runs() and not servers(), 20, "the end of the command")
        # neither does a broken connection: the proxy is killed
        p = x.start("sleep 1003")
        b.wait_for(lambda: len(runs()) == 1, 20, "the command")
        for q in proc.descendants(p.pid):
            if "ssh-proxy " in proc.cmdline(q):
                os.kill(q, signal.SIGKILL)
        assert p.wait(30 * b.SLOW) == 255
        p.communicate()
        b.wait_for(lambda: not runs() and not servers(), 20, "the end of the command")


def test_the_sandbox_stops_under_a_session():
    with SshBox() as x:
        p = x.start("echo up; sleep 1000")
        b.read_until(p.stdout, b"up\n")
        b.berth("stop", "--grace", "0", x.id, ok=True)
        out, err = p.communicate(timeout=30 * b.SLOW)
        assert p.returncode not in (0, None), (out, err)
        r = x.ssh("true")
        assert r.code == 255 and "berth start" in r.err, r
        assert b.berth("ssh", "--start", x.id, "echo", "again", ok=True).out == "again\n"
        b.berth("pause", x.id, ok=True)
        r = x.ssh("true")
        assert r.code == 125 and "paused" in r.err, r
        b.berth("resume", x.id, ok=True)


def test_berth_ssh_is_openssh_with_the_right_words():
    with SshBox() as x:
        assert b.berth("ssh", x.id, "echo", "'a  b'", ok=True).out == "a  b\n"
        b.expect_code(b.berth("ssh", x.id, "exit 3"), 3)
        assert "pts" in b.berth("ssh", "-t", "-t", x.id, "tty", ok=True).out
        b.one_line_error(b.berth("ssh"), 2, "a sandbox is wanted")
        b.one_line_error(b.berth("ssh", "nobody"), 125, "nobody")
        b.one_line_error(b.berth("ssh-config", "nobody"), 125, "nobody")
        b.one_line_error(b.berth("ssh-proxy", "nobody"), 125, "nobody")
        b.one_line_error(b.berth("ssh", x.id, env={"PATH": "/nonexistent"}), 125, "openssh-client")


def test_the_host_key_is_made_once_and_known():
    with SshBox() as x:
        known = os.path.join(b.root(), "state", "ssh", "known_hosts")
        with open(known) as f:
            first = f.read()
        assert first.startswith("berth ssh-ed25519 ") and oct(os.stat(os.path.join(os.path.dirname(known), "host_key")).st_mode)[-3:] == "600"
        x.ssh("true", ok=True)
        with open(known) as f:
            assert f.read() == first
        # another key is refused by the client
        b.write(known, "berth ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJh9aVEV8p4hQ8bJ4LTlJmyYJh0g3w2bqJ1yVJXo5y5p\n")
        r = x.ssh("true")
        assert r.code == 255 and "HOST IDENTIFICATION HAS CHANGED" in r.err, r
        b.write(known, first)
