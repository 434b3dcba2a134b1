# SPDX-License-Identifier: Apache-2.0
"""berth --host: the command line as a client of berthd, over its socket and over TCP with a token."""
import fcntl
import io
import json
import os
import re
import signal
import struct
import subprocess
import tarfile
import termios

import berthtest as b
import daemon
import registry as reg
from test_commands import Terminal
from daemon import Daemon

COST = 12


def far(d, *args, ok=None, token=None, tcp=False, **kw):
    host = f"http://127.0.0.1:{d.port}" if tcp else f"unix://{d.socket}"
    return b.berth(*args, ok=ok, env={"BERTH_HOST": host, "BERTH_TOKEN": token}, **kw)


def test_life_from_afar():
    with Daemon() as d:
        box = far(d, "create", "--name", "far", "--memory", "64m", "--env", "A=1", "host", ok=True).out.strip()
        assert b.berth("ps", "-q", ok=True).out.split() == [box]
        assert json.loads(far(d, "ps", "--json", ok=True).out)[0]["id"] == box
        assert "far" in far(d, "ps", ok=True).out and far(d, "ps", "-q", ok=True).out.strip() == box
        assert json.loads(far(d, "inspect", "far", ok=True).out)["memory_limit_bytes"] == 64 << 20
        far(d, "update", "--memory", "70m", "far", ok=True)
        far(d, "rename", "far", "away", ok=True)
        for verb in ("pause", "resume", "stop", "start", "restart", "kill", "start"):
            assert json.loads(far(d, verb, "--json", "away", ok=True).out)["done"] == verb
        assert json.loads(far(d, "stats", "--json", "--no-stream", "away", ok=True).out)["state"] == "running"
        assert len(far(d, "stats", "--no-stream", "away", "away", ok=True).out.splitlines()) == 3
        b.one_line_error(far(d, "stats", "away", "away"), 125, "--no-stream")
        assert "berth-init" in far(d, "top", "away", ok=True).out
        assert "berth run works here" in far(d, "doctor").out
        b.one_line_error(far(d, "rm", "away"), 125, "running")
        far(d, "rm", "--force", "away", ok=True)
        far(d, "rm", "--force", "away", ok=True)
        b.one_line_error(far(d, "inspect", "away"), 125, "no sandbox", "hint: berth ps -a")


def test_a_service_from_afar():
    with Daemon() as d:
        for verb in (["create"], ["run", "-d"]):
            box = far(d, *verb, "--name", "svc", "--restart", "on-failure", "host", "sh", "-c", "echo $0 here; exit 0", "x", ok=True).out.strip()
            b.berth("wait", box, ok=0)
            assert far(d, "logs", "svc", ok=True).out == "x here\n", far(d, "logs", "svc")
            seen = json.loads(far(d, "inspect", "svc", ok=True).out)
            assert seen["service"] is True and seen["restart"] == "on-failure", seen
            far(d, "rm", "--force", "svc", ok=True)
        b.one_line_error(far(d, "create", "host", "/nosuch"), 127, "nosuch")
        assert d.post("/v1/sandboxes", {"image": "host", "command": ["a", 3]}).status == 400
        assert b.berth("ps", "-aq", ok=True).out == ""


def test_work_from_afar():
    with Daemon() as d:
        d.create("far")
        r = far(d, "code", "--lang", "sh", "far", input="echo out; echo err >&2; echo made > made.txt; printf 'a\\377\\000b'; exit 5")
        assert r.code == 5 and "added made.txt (5 bytes)" in r.err and "err\n" in r.err, r.err
        raw = subprocess.run([b.BERTH, "code", "--quiet", "--lang", "sh", "far"], input=b"printf 'a\\377\\000b'", capture_output=True,
                             env=b.environment({"BERTH_HOST": "unix://" + d.socket}), timeout=60 * b.SLOW)
        assert (raw.returncode, raw.stdout, raw.stderr) == (0, b"a\xff\0b", b""), raw
        j = json.loads(far(d, "code", "--json", "--keep", "far", input="print(6 * 7)", ok=True).out)
        assert j["stdout"] == "42\n" and j["language"] == "python" and j["script"].startswith(".berth/")
        assert far(d, "code", "--timeout", "0.3", "--lang", "sh", "far", input="sleep 60").code == 124
        b.one_line_error(far(d, "code", "--lang", "cobol", "far", input=""), 2, "cobol")

        c = far(d, "exec", "--detach", "far", "sh", "-c", "echo one; echo two >&2", ok=True).out.strip()
        far(d, "wait", "far", c, ok=True)
        b.wait_for(lambda: "two" in far(d, "logs", "far", ok=True).out, 10, "the log")
        assert sorted(far(d, "logs", "far", ok=True).out.split()) == ["one", "two"]
        assert len(far(d, "logs", "--tail", "1", "far", ok=True).out.split()) == 1
        entries = [json.loads(line) for line in far(d, "logs", "--json", "--source", c, "far", ok=True).out.splitlines()]
        assert {e["source"] for e in entries} == {c} and all("cursor" in e for e in entries)
        assert far(d, "logs", "--from", str(max(e["cursor"] for e in entries)), "far", ok=True).out == ""
        assert c in far(d, "logs", "--timestamps", "far", ok=True).out
        b.one_line_error(far(d, "logs", "--since", "never", "far"), 2, "never")
        b.one_line_error(far(d, "logs", "--tail", "-1", "far"), 2, "tail")
        b.one_line_error(far(d, "logs", "nosuch"), 125, "no sandbox")
        follow = subprocess.Popen([b.BERTH, "logs", "--follow", "far"], stdout=subprocess.PIPE, env=b.environment({"BERTH_HOST": "unix://" + d.socket}))
        b.read_until(follow.stdout, b"two\n")
        far(d, "exec", "--detach", "far", "echo", "three", ok=True)
        b.read_until(follow.stdout, b"three\n")
        far(d, "stop", "far", ok=True)
        assert follow.wait(20 * b.SLOW) == 0
        b.stop(follow)


def test_an_image_of_a_sandbox_from_afar():
    with Daemon() as d:
        tree = b.busybox_rootfs()
        b.berth("image", "import", tree, "tiny", ok=True)
        box = far(d, "create", "tiny", ok=True).out.strip()
        far(d, "exec", box, "sh", "-c", "echo kept > /kept", ok=True)
        digest = far(d, "commit", "--message", "by hand", "--env", "A=b", "--label", "x=y", box, "tiny:new", ok=True).out.strip()
        assert digest.startswith("sha256:")
        assert far(d, "run", "tiny:new", "sh", "-c", "cat /kept; echo $A", ok=True).out == "kept\nb\n"
        assert json.loads(far(d, "commit", "--json", box, "tiny:again", ok=True).out)["digest"].startswith("sha256:")
        b.one_line_error(far(d, "commit", "--compression", "rar", box, "x"), 2, "rar")
        far(d, "rm", "-f", box, ok=True)


def test_commands_from_afar():
    with Daemon() as d:
        d.create("far")
        data = os.urandom(5 << 20)
        r = subprocess.run([b.BERTH, "--host", "unix://" + d.socket, "exec", "far", "sh", "-c", "cat; echo err >&2; exit 7"], input=data,
                           capture_output=True, env=b.environment(), timeout=60 * b.SLOW)
        assert (r.returncode, r.stdout, r.stderr) == (7, data, b"err\n"), (r.returncode, len(r.stdout), r.stderr)
        path = b.write(b.tmp("vars"), "X=file\nY=file\n")
        for words in (["exec", "far", "sh", "-c"], ["code", "--lang", "sh", "far"]):
            text = "echo $X $Y $FROM_HERE"
            r = b.berth(words[0], "--env", "Y=loses", "--env-file", path, "-e", "X=option", "-e", "FROM_HERE", *words[1:],
                        *([text] if words[0] == "exec" else []), ok=True, **({} if words[0] == "exec" else {"input": text}),
                        env={"BERTH_HOST": "unix://" + d.socket, "FROM_HERE": "the caller"})
            assert r.out == "option file the caller\n", r
        b.one_line_error(far(d, "exec", "-e", "NOWHERE", "far", "true"), 2, "the caller has no variable NOWHERE")
        far(d, "cp", "--parents", path, "far:way/to/vars", ok=True)
        far(d, "cp", "--parents", "far:way/to/vars", b.tmp("back/to/vars"), ok=True)
        assert open(b.tmp("back/to/vars")).read() == "X=file\nY=file\n"
        r = far(d, "exec", "--json", "--env", "X=y", "--workdir", "/tmp", "far", "sh", "-c", "echo $X $PWD", ok=True)
        assert r.out.splitlines()[0] == "y /tmp" and json.loads(r.out.splitlines()[1])["cause"] == "exit"
        assert far(d, "exec", "--timeout", "0.2", "--grace", "0", "far", "sleep", "60").code == 124
        assert far(d, "exec", "far", "/nosuch").code == 127
        r = far(d, "exec", "far", "sh", "-c", "kill -9 $$")
        assert r.code == 137
        c = far(d, "exec", "--detach", "far", "cat", ok=True).out.strip()
        far(d, "send", "far", c, "one", ok=True)
        far(d, "send", "--eof", "far", c, ok=True)
        assert far(d, "wait", "far", c, ok=True).code == 0
        assert far(d, "output", "far", c, ok=True).out == "one\n"
        assert far(d, "output", "--follow", "--from", "2", "far", c, ok=True).out == "e\n"
        assert json.loads(far(d, "commands", "--json", "far", ok=True).out)[0]["command"] == c
        c = far(d, "exec", "--detach", "far", "sleep", "100", ok=True).out.strip()
        far(d, "signal", "far", c, "KILL", ok=True)
        assert far(d, "wait", "far", c).code == 137
        assert far(d, "sh", "far", "cd /tmp; A=5", ok=True).out == ""
        assert far(d, "sh", "far", "echo $A $PWD", ok=True).out == "5 /tmp\n"
        assert far(d, "sh", "far", input="exit 3").code == 3
        assert json.loads(far(d, "sh", "--list", "far", ok=True).out)


def test_a_terminal_from_afar():
    with Daemon() as d:
        d.create("far")
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 11, 22, 0, 0))
        before = termios.tcgetattr(theirs)
        env = b.environment({"BERTH_HOST": "unix://" + d.socket})
        p = subprocess.Popen([b.BERTH, "exec", "-t", "far", "sh", "-c", "stty size; read x; echo got $x; stty size; exit 6"], stdin=theirs,
                             stdout=theirs, stderr=theirs, env=env, start_new_session=True)
        out = io.FileIO(ours, "r+b", closefd=False)
        b.read_until(out, b"11 22")
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 44, 0, 0))
        p.send_signal(signal.SIGWINCH)
        b.wait_for(lambda: "POST /v1/sandboxes/{id}/commands/{command}/resize" in d.log() and d.log().count("/resize") >= 2, 10, "the size")
        os.write(ours, b"typed\r")
        got = b.read_until(out, b"33 44")
        assert b"got typed" in got, got
        assert p.wait(20 * b.SLOW) == 6
        assert termios.tcgetattr(theirs) == before
        assert d.good("GET", "/v1/sandboxes/far/commands") == {"commands": []}
        # it ends with us, though it is detached there
        for i in range(20):
            p = subprocess.Popen([b.BERTH, "exec", "-t", "far", "sleep", f"10{i}"], stdin=theirs, stdout=theirs, stderr=theirs, env=env,
                                 start_new_session=True)
            b.wait_for(lambda: f"sleep 10{i}" in b.berth("top", "far").out, 10, "the command")
            p.terminate()
            assert p.wait(20 * b.SLOW) == 128 + 15, p.returncode
            assert d.good("GET", "/v1/sandboxes/far/commands") == {"commands": []}
            assert "sleep" not in b.berth("top", "far").out and termios.tcgetattr(theirs) == before
        p = subprocess.Popen([b.BERTH, "shell", "--env", "PS1=here> ", "--shell", "sh", "far"], stdin=theirs, stdout=theirs, stderr=theirs,
                             env=env, start_new_session=True)
        b.read_until(out, b"here> ")
        os.write(ours, b"echo a$((40+2))b; cd /tmp\r")
        b.read_until(out, b"a42b")
        os.write(ours, b"pwd; exit 9\r")
        b.read_until(out, b"\n/tmp")
        assert p.wait(20 * b.SLOW) == 9 and termios.tcgetattr(theirs) == before
        os.close(ours)
        os.close(theirs)
        c = d.good("POST", "/v1/sandboxes/far/exec", {"argv": ["sh", "-c", "echo one; read x; echo $x; exit 4"], "detach": True})["command"]
        r = far(d, "attach", "--from", "1", "far", c, input="two\n")
        assert (r.code, r.out) == (4, "ne\ntwo\n"), r
        # what no terminal sends is data, the bytes of the keys too
        c = d.good("POST", "/v1/sandboxes/far/exec", {"argv": ["cat"], "detach": True})["command"]
        r = far(d, "attach", "far", c, input="a\x10\x11b\n")
        assert (r.code, r.out) == (0, "a\x10\x11b\n"), r


def test_files_from_afar():
    with Daemon() as d:
        d.create("far")
        far(d, "file", "write", "--parents", "far", "/tmp/d/f", input="content", ok=True)
        assert far(d, "file", "read", "far", "/tmp/d/f", ok=True).out == "content"
        assert far(d, "file", "ls", "far", "/tmp/d", ok=True).out == "f\n"
        assert json.loads(far(d, "file", "stat", "far", "/tmp/d/f", ok=True).out)["size"] == 7
        far(d, "file", "mkdir", "-p", "far", "/tmp/x/y", ok=True)
        far(d, "file", "mv", "far", "/tmp/d/f", "/tmp/x/y/z", ok=True)
        far(d, "file", "rm", "-r", "far", "/tmp/d", ok=True)
        assert far(d, "file", "read", "far", "/tmp/d/f").code == 125
        top = b.tmpdir("tree")
        b.write(top + "/a", b"1" * 300000)
        b.write(top + "/sub/b", "2")
        os.symlink("a", top + "/link")
        far(d, "cp", top, "far:/tmp/new", ok=True)
        assert d.exec("far", "sh", "-c", "cd /tmp/new; find . | sort | tr '\n' ' '")["stdout"] == ". ./a ./link ./sub ./sub/b "
        back = b.tmp("back")
        far(d, "cp", "far:/tmp/new", back, ok=True)
        assert open(back + "/a").read() == "1" * 300000 and os.readlink(back + "/link") == "a"
        into = b.tmpdir("into")
        far(d, "cp", "far:/tmp/new/.", into, ok=True)
        assert sorted(os.listdir(into)) == ["a", "link", "sub"]
        r = far(d, "cp", "far:/tmp/none", b.tmp("none"))
        assert r.code == 125 and not os.path.exists(b.tmp("none")), r
        assert far(d, "cp", b.tmp("nosuch"), "far:/tmp").code == 125
        # what a hostile sandbox sends does not leave the directory
        victim = b.victim()
        d.exec("far", "sh", "-c", f"mkdir -p /tmp/evil; ln -s {victim} /tmp/evil/l; echo x > /tmp/evil/f")
        far(d, "cp", "far:/tmp/evil", b.tmp("evil"))
        assert sorted(os.listdir(victim)) == ["link", "open", "secret", "sub"]


def test_a_token_over_tcp_and_what_is_refused():
    with Daemon(tcp=True) as d:
        box = far(d, "create", "host", tcp=True, token=daemon.TENANT, ok=True).out.strip()
        assert far(d, "ps", "-q", tcp=True, token=daemon.OTHER, ok=True).out == ""
        assert far(d, "ps", "-q", tcp=True, token=daemon.TENANT, ok=True).out.strip() == box
        b.one_line_error(far(d, "ps", tcp=True), 125, "BERTH_TOKEN")
        b.one_line_error(far(d, "ps", tcp=True, token="x" * 32), 125, "does not know the token in BERTH_TOKEN")
        b.one_line_error(far(d, "create", "--volume", "/etc:/x", "host", tcp=True, token=daemon.TENANT), 125, "admin")
        for args, words in ((("stdio",), "own host"), (("run", "--dry-run", "host", "true"), "own host"), (("gc", "--dry-run"), "own host")):
            r = far(d, *args, tcp=True, token=daemon.TOKEN)
            assert r.code == 125 and words in r.err, r
        for host in ("http://192.0.2.1", "ftp://x", "unix://relative", "http://localhost.evil", "http://127.evil.example", "http://127.0.0.1@evil", "x"):
            r = b.berth("--host", host, "ps")
            assert r.code == 2 and r.err.startswith("berth"), r
        assert b.berth("--host", "unix:///nosuch/sock", "ps").code == 125
        assert daemon.TENANT not in d.log()
        # a proxy of the environment is not told anything
        r = b.berth("ps", env={"BERTH_HOST": f"http://127.0.0.1:{d.port}", "BERTH_TOKEN": daemon.TOKEN, "http_proxy": "http://127.0.0.1:1",
                               "ALL_PROXY": "http://127.0.0.1:1"})
        assert r.code == 0, r


def test_a_berthd_that_is_not_there_is_told_with_a_remedy():
    import socket
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(b.tmp("silent.sock"))
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    for host, words in ((f"unix://{b.tmp('none.sock')}", "No such file or directory"), (f"unix://{b.tmp('silent.sock')}", "Connection refused"),
                        (f"http://127.0.0.1:{port}", "Connection refused")):
        b.one_line_error(b.berth("--host", host, "ps"), 125, "connect to berthd at", host.replace("unix://", ""), words,
                         "hint: systemctl start berthd")
    silent.close()


def test_run_from_afar():
    with Daemon(tcp=True) as d:
        data = os.urandom(1 << 20)
        r = subprocess.run([b.BERTH, "--host", "unix://" + d.socket, "run", "--memory", "64m", "--env", "A=1", "host", "sh", "-c",
                            "cat; echo $A >&2; exit 7"], input=data, capture_output=True, env=b.environment(), timeout=60 * b.SLOW)
        assert (r.returncode, r.stdout, r.stderr) == (7, data, b"1\n"), (r.returncode, len(r.stdout), r.stderr)
        r = far(d, "run", "--json", "host", "true", ok=True)
        assert json.loads(r.out)["cause"] == "exit"
        b.one_line_error(far(d, "run", "nosuch:image", "true"), 125, "nosuch")
        assert far(d, "run", "host", "/nosuch").code == 127
        assert b.berth("ps", "-aq", ok=True).out == ""
        whole = d.good("POST", "/v1/run", {"image": "host", "argv": ["cat"], "stdin": "in", "options": {"disk": "16m"}}, token=daemon.TENANT, tcp=True)
        assert whole["stdout"] == "in" and whole["verdict"]["exit_status"] == 0
        assert d.post("/v1/run", {"argv": []}).status == 400 and d.post("/v1/run", {"image": "host", "argv": ["true"], "tty": True}).status == 400
        for wrong in ({"attest": True}, {"rows": 3}, {"tty": True, "stream": True, "stdin": "x"}, {"detach": True}, {"tty": 1}):
            assert d.post("/v1/run", {"image": "host", "argv": ["true"], **wrong}).status == 400, wrong
        assert d.post("/v1/run", {"image": "host", "argv": ["true"], "options": {"volume": "/etc:/x"}}, token=daemon.TENANT, tcp=True).status == 403
        # it ends with its client
        p = subprocess.Popen([b.BERTH, "--host", "unix://" + d.socket, "run", "host", "sh", "-c", "echo on; sleep 1000"], stdout=subprocess.PIPE,
                             stdin=subprocess.PIPE, env=b.environment())
        assert p.stdout.readline() == b"on\n"
        p.kill()
        p.communicate()
        b.wait_for(lambda: b.berth("ps", "-aq", ok=True).out == "", 30, "the end of the sandbox")


def test_images_and_registries_from_afar():
    b.busybox_rootfs("img")
    b.berth("image", "import", b.tmp("img"), "img:1", ok=True)
    with Daemon() as d:
        assert "img" in far(d, "image", "inspect", "img:1", ok=True).out
        far(d, "image", "pin", "keep", "img:1", ok=True)
        b.one_line_error(far(d, "image", "pin", "../keep", "img:1"), 2, "keep")
        far(d, "image", "tag", "img:1", "img:2", ok=True)
        far(d, "image", "rm", "img:2", ok=True)
        far(d, "image", "unpin", "keep", ok=True)
        b.one_line_error(far(d, "image", "unpin", "keep"), 125, "keep")
        assert json.loads(far(d, "image", "fsck", ok=True).out) is not None
        for words, member in ((("image", "export", "--format", "rootfs", "img:1", "-"), "bin/busybox"),
                              (("image", "export", "img:1", "-"), "index.json"), (("save", "img:1"), "index.json")):
            r = subprocess.run([b.BERTH, "--host", "unix://" + d.socket, *words], capture_output=True, env=b.environment(), timeout=60 * b.SLOW)
            with tarfile.open(fileobj=io.BytesIO(r.stdout)) as t:
                assert any(n.lstrip("./") == member for n in t.getnames()), (words, t.getnames())
        # a file of ours, in the ways the help tells; whole or not at all
        at = b.tmp("saved.tar")
        for words in (("save", "-o", at, "img:1"), ("save", f"--output={at}", "img:1"), ("image", "save", "img:1", "--output", at)):
            assert far(d, *words, ok=True).out == ""
            with tarfile.open(at) as t:
                assert "index.json" in t.getnames(), words
            for load in (("load", "-i", at), ("load", f"-i{at}"), ("image", "load", "--input", at)):
                far(d, "image", "rm", "img:1", ok=True)
                assert "img" in far(d, *load, ok=True).out, load
            os.remove(at)
        b.one_line_error(far(d, "save", "-o", at, "nosuch:1"), 125, "nosuch")
        assert not os.path.exists(at) and not [x for x in os.listdir(os.path.dirname(at)) if x.startswith("saved")]
        b.one_line_error(far(d, "save", "-o"), 2, "FILE")
        b.one_line_error(far(d, "load", "-i", "/nosuch.tar"), 125, "No such file")
        for words in (("pull", "--help"), ("save", "-h"), ("image", "pull", "--help"), ("load", "--help"), ("push", "--help")):
            assert far(d, *words, ok=True).out == b.berth(*words, ok=True).out != "", words
        b.one_line_error(far(d, "pull", "--quiet"), 125, "--quiet")
        b.one_line_error(far(d, "image", "export", "nosuch:1", "-"), 125, "nosuch")
        b.one_line_error(far(d, "image", "export", "img:1", "/tmp/x.tar"), 125, "from afar")
        assert d.get("/v1/images/export?ref=img:1&format=--help").status in (400, 422)
        for verb in (("system", "df"), ("config", "show"), ("network", "ls")):
            json.loads(far(d, *verb, "--json", ok=True).out)
        box = d.create("far")
        far(d, "exec", "far", "touch", "/srv/new", ok=True)
        assert "/srv/new" in far(d, "diff", "far", ok=True).out
        b.one_line_error(far(d, "network", "log", box), 125, "network")


def test_a_password_is_told_to_nobody():
    secret = "canary-" + os.urandom(8).hex()
    with reg.Mock(basic="user:" + secret) as r, Daemon(f'[registry]\ninsecure = ["{r.host}"]\n', tcp=True) as d:
        answers = [far(d, "login", "--username", "user", "--password-stdin", r.host, input=secret + "\n", ok=True)]
        wrong = d.post("/v1/registries/login", {"registry": r.host, "username": "user", "password": "wrong" + secret})
        assert wrong.status >= 400, wrong
        assert d.post("/v1/registries/login", {"registry": r.host, "username": "user", "password": secret}, token=daemon.TENANT, tcp=True).status == 403
        assert any(secret in __import__("base64").b64decode(x.authorization.split()[1]).decode() for x in r.seen if x.authorization)
        assert secret not in "".join(a.out + a.err for a in answers) + d.log() + wrong.body.decode()
        assert [x for x in d.lines() if "registries/login" in x.get("op", "")][0]["registry"] == r.host
        far(d, "logout", r.host, ok=True)
    os.remove(os.path.join(b.root(), "state/auth.json"))


def test_a_terminal_of_a_run_from_afar():
    with Daemon() as d:
        env = {"BERTH_HOST": "unix://" + d.socket}
        t = Terminal("run", "-t", "--hostname", "far", "host", "sh", "-c", "stty size; read x; echo $(hostname) got $x; exit 6", env=env)
        t.until(b"\n")
        t.type(b"typed\n")
        t.until(b"far got typed")
        assert t.end() == 6
        b.wait_for(lambda: b.berth("ps", "-aq", ok=True).out == "", 30, "the end of the sandbox")
        # its size is ours, also when that changes
        t = Terminal("run", "-t", "host", "sh", "-c", "read x; stty size; sleep 1000", env=env)
        b.wait_for(lambda: "/stdin" in d.log() or b.berth("ps", "-q").out, 20, "the sandbox")
        fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 44, 0, 0))
        b.wait_for(lambda: "/resize" in d.log(), 20, "the size")
        t.type(b"\n")
        t.until(b"33 44")
        # and with us goes the sandbox
        os.kill(t.pid, signal.SIGKILL)
        assert t.end() == -signal.SIGKILL
        b.wait_for(lambda: b.berth("ps", "-aq", ok=True).out == "", 30, "the end of the sandbox")
        t = Terminal("run", "-t", "host", "/nosuch", env=env)
        t.until(b"nosuch")
        assert t.end() == 127
        b.wait_for(lambda: b.berth("ps", "-aq", ok=True).out == "", 30, "the end of the sandbox")


def test_a_run_from_afar_is_kept_and_attested():
    with Daemon() as d:
        r = far(d, "run", "--attest", "--keep", "--name", "kept", "host", "sh", "-c", "echo out; echo here > /root/note", ok=True)
        assert r.out == "out\n" and json.loads(r.err)["namespaces"] and "mounts" in json.loads(r.err)
        listed = lambda: [(j["name"], j["status"]) for j in json.loads(b.berth("ps", "-a", "--json", ok=True).out)]
        b.wait_for(lambda: listed() == [("kept", "stopped")], 20, "its stop")
        assert b.berth("exec", "--start", "kept", "cat", "/root/note", ok=True).out == "here\n"
        far(d, "rm", "-f", "kept", ok=True)


def test_a_shell_is_left_and_found_again_from_afar():
    with Daemon() as d:
        d.create("far")
        env = {"BERTH_HOST": "unix://" + d.socket}
        t = Terminal("shell", "--session", "work", "far", env=env)
        t.type(b"x=4''1; echo mark$((x+1))\n")
        t.until(b"mark42")
        t.type(b"\x10\x11")
        t.until(b"berth shell --session work far comes back")
        assert t.end() == 0
        # a terminal that goes away leaves it too
        t = Terminal("shell", "--session", "work", "far", env=env)
        t.until(b"mark42")
        os.kill(t.pid, signal.SIGHUP)
        assert t.end() == 128 + signal.SIGHUP
        t = Terminal("shell", "--session", "work", "--detach-keys", "ctrl-a,d", "far", env=env)
        t.until(b"mark42")
        t.type(b"echo a\x10\x11gain$x\x01d")  # other keys than those are the shell's, up to the ones
        t.until(b"comes back")
        assert t.end() == 0
        t = Terminal("shell", "far", env=env)
        t.type(b"y=5; echo $((y+1))6\n")
        t.until(b"66")
        t.type(b"\x10\x11")
        command = t.until(b"comes back").split(b"attach ")[1].split()[1].decode()
        assert t.end() == 0
        t = Terminal("attach", "far", command, env=env)
        t.type(b"echo y=$y.; exit 5\n")
        t.until(b"y=5.")
        assert t.end() == 5
        t = Terminal("shell", "--session", "work", "far", env=env)
        t.until(b"mark42")
        t.type(b"\x15exit 3\n")
        assert t.end() == 3
        assert [c["command"] for c in d.good("GET", "/v1/sandboxes/far/commands")["commands"]] == [command]
        b.one_line_error(far(d, "shell", "--session", "../x", "far"), 2, "malformed")
        b.one_line_error(far(d, "shell", "--detach-keys", "ctrl-", "far"), 2, "not a key")
        assert d.post("/v1/sandboxes/far/exec", {"argv": ["true"], "name": "x"}).status == 400


def long_options(command):
    return set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", b.berth(*command.split(), "--help", ok=True).out, re.M)) - {"help", "json"}


def test_every_option_of_update_and_fork_goes_afar():
    """One table says which there are: help, the document of the HTTP API, and --host tell the same."""
    with Daemon() as d:
        schemas = d.get("/openapi.json").json["components"]["schemas"]
        here = {"no-healthcheck"}   # another spelling
        assert set(schemas["Update"]["properties"]) == long_options("update") - here - {"tenant"}
        assert set(schemas["Fork"]["properties"]["options"]["properties"]) == long_options("fork") - {"count", "name"}
        assert set(schemas["Create"]["properties"]["options"]["properties"]) >= {"memory", "env", "ttl", "read-only", "health-cmd"}
        assert schemas["Update"]["properties"]["ttl"]["type"] == ["string", "number"], schemas["Update"]["properties"]["ttl"]
        box = far(d, "create", "host", "sleep", "1000", ok=True).out.strip()
        far(d, "update", "--ttl", "1h", "--idle-timeout", "2h", "--health-cmd", "true", "--health-interval", "45s", "--restart", "always", box, ok=True)
        with open(os.path.join(b.root(), "state", "sandboxes", box, "spec.json")) as f:
            kept = dict(json.load(f)["options"])
        assert kept == {**kept, "ttl": "1h", "idle-timeout": "2h", "health-interval": "45s", "restart": "always"}, kept
        b.one_line_error(far(d, "update", "--owner-pid", "1", box), 125, "own host only")
        b.one_line_error(far(d, "update", "--ttl", "soon", box), 2, "ttl")
        far(d, "rm", "-f", box, ok=True)


def test_what_people_see_is_the_same_from_afar():
    with Daemon() as d:
        b.berth("create", "--name", "box", "--label", "a=b", "host", "sleep", "1000", ok=True)
        b.berth("network", "create", "--internal", "n1", ok=True)
        b.berth("volume", "create", "v1", ok=True)
        b.berth("exec", "box", "touch", "/f", ok=True)
        b.berth("checkpoint", "box", ok=True)
        for words in ("ps", "ps -a", "ps -q", "top box", "top --json box", "image ls", "image ls --json", "network ls", "network ls --json",
                      "network ls --named", "network inspect n1", "volume ls", "volume ls --json", "volume ls --quiet", "volume inspect v1", "checkpoints box",
                      "zygote ls", "diff box", "diff --json box", "port box", "commands box", "stats --no-stream box", "pause box", "resume --json box"):
            shown = [(r.code, r.out) for r in (b.berth(*words.split()), far(d, *words.split()))]
            if words.split()[0] in ("commands", "stats"):     # ages and times differ
                shown = [(code, re.sub(r" *[0-9.]+[KMG]?", "N", out)) for code, out in shown]
            assert shown[0] == shown[1], (words, *shown)
        b.berth("kill", "box")
        assert b.berth("wait", "box").code == far(d, "wait", "box").code != 0
        for words in ("rm -f box", "network rm n1", "volume rm v1"):
            b.berth(*words.split(), ok=True)


def test_variables_may_be_an_object_in_json():
    with Daemon() as d:
        r = d.post("/v1/sandboxes", {"image": "host", "options": {"env": {"A": "b=c", "N": 3}, "label": {"k": "v"}}})
        assert r.status == 201, r
        box = r.json["id"]
        assert b.berth("exec", box, "sh", "-c", "echo $A $N", ok=True).out == "b=c 3\n"
        assert json.loads(b.berth("inspect", box, ok=True).out)["labels"] == {"k": "v"}
        for options in ({"env": {"A=B": "c"}}, {"env": {"A": ["b"]}}, {"volume": {"/a": "/b"}}, {"env": {"A": "b\0c"}}):
            assert d.post("/v1/sandboxes", {"image": "host", "options": options}).status == 400, options
        b.berth("rm", "-f", box, ok=True)
