# SPDX-License-Identifier: Apache-2.0
"""Execs of the Engine API: streams and their ends, terminals, exit codes, by python3-docker and docker's command line."""
import gc
import signal
import socket
import threading

import berthtest as b
from dockerlab import Cli, Engine, frames, python_docker, read_all

COST = 15


class Box:
    """A container that sleeps, and execs in it."""

    def __init__(self, d, name="box", **more):
        self.d, self.name = d, name
        self.id = d.create("sleep", "1000", name=name, **{"Env": ["BASE=1"], **more})
        assert d.api("POST", f"/containers/{name}/start")[0] == 204

    def make(self, *argv, **more):
        body = {"Cmd": list(argv), "AttachStdout": True, "AttachStderr": True, **more}
        return self.d.good("POST", f"/containers/{self.name}/exec", body)["Id"]

    def look(self, eid):
        return self.d.good("GET", f"/exec/{eid}/json")

    def run(self, *argv, upgrade=True, **more):
        eid = self.make(*argv, **more)
        s, head = self.d.hijack(f"/exec/{eid}/start", {"Detach": False, "Tty": more.get("Tty", False)}, upgrade)
        assert head.startswith("HTTP/1.1 101 " if upgrade else "HTTP/1.1 200 "), head
        with s:
            return read_all(s), self.look(eid)["ExitCode"]


@b.deadline(90)
def test_an_exec_has_its_streams_apart_and_its_exit_code_at_their_end():
    with Engine() as d:
        x = Box(d)
        for upgrade in (True, False):
            out, code = x.run("sh", "-c", "echo $BASE $A; echo err >&2; exit 7", Env=["A=b"], upgrade=upgrade)
            assert (frames(out), code) == ({1: b"1 b\n", 2: b"err\n"}, 7), (out, code)
        out, code = x.run("sh", "-c", "pwd; id -u", WorkingDir="/tmp", User="1000:1000")
        assert (frames(out)[1], code) == (b"/tmp\n1000\n", 0), out
        # nobody attached to stdin: it has ended
        assert x.run("cat") == (b"", 0)
        out, code = x.run("nosuchprogram")
        assert code == 126 and b"executable file not found" in frames(out)[1], (out, code)
        # [policy] is berth's own, for its own commands
        out, code = x.run("sh", "-c", "chown -R 0:0 /etc; dd if=/dev/zero of=/dev/null count=1 2>/dev/null; mkfs; echo on")
        assert code == 0 and frames(out)[1] == b"on\n", (out, code)
        out, code = x.run("sh", "-c", "head -c 3000000 /dev/zero; head -c 1000000 /dev/zero >&2", Privileged=True)
        assert {k: len(v) for k, v in frames(out).items()} == {1: 3000000, 2: 1000000} and code == 0, (code, {k: (len(v), v[-200:]) for k, v in frames(out).items()})
        eid = x.make("true")
        assert x.look(eid)["ExitCode"] is None and not x.look(eid)["Running"]


@b.deadline(90)
def test_the_end_of_input_is_not_the_end_of_output():
    with Engine() as d:
        x = Box(d)
        eid = x.make("sh", "-c", "cat; echo last", AttachStdin=True)
        s, _ = d.hijack(f"/exec/{eid}/start", {})
        with s:
            s.sendall(b"y" * 200000)
            s.shutdown(socket.SHUT_WR)
            assert frames(read_all(s))[1] == b"y" * 200000 + b"last\n"
        assert x.look(eid)["ExitCode"] == 0


@b.deadline(90)
def test_a_command_has_one_TERM_and_it_is_the_one_asked_for():
    with Engine() as d:
        for name, more, of_box in (("plain", {}, None), ("terminal", {"Tty": True}, None),
                                   ("own", {"Env": ["TERM=vt100"]}, "vt100"), ("both", {"Tty": True, "Env": ["TERM=vt100"]}, "vt100")):
            x = Box(d, name, **more)
            for tty in (False, True):
                for asked in (None, "dumb"):
                    out, code = x.run("cat", "/proc/self/environ", Tty=tty, Env=[f"TERM={asked}"] if asked else [])
                    had = [v.decode() for v in (out if tty else frames(out)[1]).split(b"\0") if v.startswith(b"TERM=")]
                    want = asked or of_box or (tty and "xterm-256color")
                    assert (had, code) == ([f"TERM={want}"] if want else [], 0), (name, tty, asked, had)


@b.deadline(90)
def test_a_terminal_has_a_size_that_changes():
    with Engine() as d:
        x = Box(d)
        eid = x.make("sh", AttachStdin=True, Tty=True, ConsoleSize=[31, 97])
        s, _ = d.hijack(f"/exec/{eid}/start", {"Tty": True})
        with s:
            s.sendall(b"stty size\n")
            got = b""
            while b"31 97" not in got:
                got += s.recv(4096)
            assert d.api("POST", f"/exec/{eid}/resize?h=40&w=50")[0] == 200
            s.sendall(b"stty size; exit 3\n")
            got = read_all(s)
            assert b"40 50" in got, got
        assert x.look(eid)["ExitCode"] == 3
        # the main command's, before its first instruction
        cid = d.create("sh", "-c", "stty size", name="sized", Tty=True, HostConfig={"ConsoleSize": [57, 123]})
        d.good("POST", f"/containers/{cid}/start")
        d.good("POST", f"/containers/{cid}/wait")
        with d.stream(f"/containers/{cid}/logs?stdout=1") as r:
            assert r.read().split() == [b"57", b"123"]
        assert d.good("GET", f"/containers/{cid}/json")["HostConfig"]["ConsoleSize"] == [57, 123]


@b.deadline(90)
def test_an_exec_lives_on_without_its_client_and_without_berthd():
    with Engine() as d:
        x = Box(d)
        eid = x.make("sh", "-c", "echo begun; while [ ! -e /tmp/go ]; do sleep 0.02; done; touch /tmp/done; exit 4")
        s, _ = d.hijack(f"/exec/{eid}/start", {})
        with s:
            assert s.recv(100).endswith(b"begun\n")
        j = x.look(eid)
        assert j["Running"] and j["ExitCode"] is None and j["ContainerID"] == x.id, j
        assert d.good("GET", "/containers/box/json")["ExecIDs"] == [eid]
        x.run("touch", "/tmp/go")
        b.wait_for(lambda: not x.look(eid)["Running"], 30, "the end of the exec")
        assert x.look(eid)["ExitCode"] == 4 and d.good("GET", "/containers/box/json")["ExecIDs"] is None
        eid = x.make("sleep", "1000")
        assert d.api("POST", f"/exec/{eid}/start", {"Detach": True})[0] == 200
        assert x.look(eid)["Running"]
        d.stop(signal.SIGKILL)
        d.start()
        assert d.api("GET", f"/exec/{eid}/json")[0] == 404
        assert b"sleep 1000" in frames(x.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")[0])[1]


@b.deadline(90)
def test_a_program_that_cannot_be_executed_is_reported_before_the_stream():
    with Engine() as d:
        x = Box(d)
        for body, word in (({"Cmd": []}, "No exec command"), ({}, "No exec command"), ({"Cmd": "x"}, "Cmd is not an array"),
                           ({"Cmd": ["x"], "Tty": 1}, "Tty is not a boolean"), ({"Cmd": [1]}, "strings")):
            status, said, _ = d.api("POST", "/containers/box/exec", body)
            assert status == 400 and word in said["message"], (body, said)
        assert d.api("POST", "/containers/nosuch/exec", {"Cmd": ["x"]})[1] == {"message": "No such container: nosuch"}
        for method, path in (("POST", "start"), ("POST", "resize"), ("GET", "json")):
            status, said, _ = d.api(method, "/exec/" + "0" * 64 + "/" + path, {} if method == "POST" else None)
            assert status == 404 and "No such exec instance" in said["message"], said
        eid, late = x.make("true"), x.make("true")
        d.hijack(f"/exec/{eid}/start", {})[0].close()
        assert d.api("POST", f"/exec/{eid}/start", {})[0] == 409
        assert d.api("POST", "/containers/box/pause")[0] == 204
        status, said, _ = d.api("POST", "/containers/box/exec", {"Cmd": ["true"]})
        assert status == 409 and "is paused" in said["message"], said
        assert d.api("POST", "/containers/box/unpause")[0] == 204
        assert d.api("POST", "/containers/box/stop?t=0")[0] == 204
        for path, body in ((f"/exec/{late}/start", {}), ("/containers/box/exec", {"Cmd": ["true"]})):
            status, said, _ = d.api("POST", path, body)
            assert status == 409 and "is not running" in said["message"], (path, said)


@b.deadline(120)
def test_python3_docker_executes():
    python_docker()
    with Engine() as d:
        Box(d)
        c = d.client()
        try:
            y = c.containers.get("box")
            assert y.exec_run(["sh", "-c", "echo a; exit 3"]) == (3, b"a\n")
            assert y.exec_run("sh -c 'echo a; echo b >&2'", demux=True).output == (b"a\n", b"b\n")
            assert y.exec_run(["nosuchprogram"]).exit_code == 126
            stream = y.exec_run(["sh", "-c", "echo 1; echo 2"], stream=True).output
            assert b"".join(stream) == b"1\n2\n"
            # a socket of docker-py's goes with the last of its streams
            stream.close()
        finally:
            c.close()
            del stream, y
            gc.collect()


@b.deadline(120)
def test_dockers_command_line_executes():
    with Engine() as d:
        Box(d)
        docker = Cli(d)
        r = docker.run("exec", "-e", "A=b", "-w", "/tmp", "box", "sh", "-c", "echo $A; pwd; echo err >&2; exit 9", ok=9)
        assert (r.stdout, r.stderr) == ("b\n/tmp\n", "err\n"), r
        assert docker.run("exec", "-i", "box", "cat", input="through\n", ok=True).stdout == "through\n"
        assert docker.run("exec", "box", "nosuchprogram").returncode == 126
        assert docker.run("exec", "-d", "box", "sleep", "1000", ok=True).stdout == ""
        assert "No such container: nosuch" in docker.run("exec", "nosuch", "true", ok=1).stderr


@b.deadline(120)
def test_many_execs_at_once_lose_nothing():
    # docker-py reads the head of a reply through a buffer, the stream behind it without: what comes at once with the head is lost to it
    python_docker()
    with Engine() as d:
        Box(d)
        c = d.client()
        wrong = []

        def one(y, i):
            got = y.exec_run(["sh", "-c", f"echo {i}"])
            if got != (0, f"{i}\n".encode()):
                wrong.append((i, got))

        try:
            y = c.containers.get("box")
            threads = [threading.Thread(target=one, args=(y, i)) for i in range(24)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert not wrong, wrong
        finally:
            c.close()
            del y
            gc.collect()


@b.deadline(60)
def test_the_start_of_an_exec_says_whether_its_stream_has_frames():
    with Engine() as d:
        cid = d.create("sleep", "1000", name="box")
        d.good("POST", "/containers/box/start")
        for tty, start, want in ((True, False, {1: b"out\r\nerr\r\n", 2: b""}), (True, True, b"out\r\nerr\r\n"), (False, True, None)):
            eid = d.good("POST", f"/containers/{cid}/exec", {"AttachStdout": True, "AttachStderr": True, "Tty": tty, "Cmd": ["sh", "-c", "echo out; echo err >&2"]})["Id"]
            s, head = d.hijack(f"/exec/{eid}/start", {"Tty": start})
            data = read_all(s)
            s.close()
            assert ("raw-stream" in head) == start, head
            assert (data if start else frames(data)) == want or (want is None and sorted(data.split()) == [b"err", b"out"]), (tty, start, data)


@b.deadline(90)
def test_detach_keys_end_a_stream_of_a_terminal_and_not_its_command():
    with Engine() as d:
        cid = d.create("cat", name="box", Tty=True, OpenStdin=True)
        d.good("POST", "/containers/box/start")

        def typed(path, body, *pieces):
            s, head = d.hijack(path, body)
            assert head.startswith("HTTP/1.1 101 "), head
            seen = b""
            for piece in pieces:
                s.sendall(piece)
                if piece.isalpha():  # its echo: the next keys come in a packet of their own
                    while piece not in seen:
                        seen += s.recv(1000)
            seen += read_all(s)
            s.close()
            return seen

        where = "/containers/box/attach?stdin=1&stdout=1&stream=1"
        assert b"read escape" not in typed(where, {}, b"abc", b"\x10", b"\x11")
        assert b"\x01" not in typed(where + "&detachKeys=ctrl-a,x", {}, b"def", b"\x01x")
        assert d.good("GET", "/containers/box/json")["State"]["Running"]
        for keys, press in ((None, b"\x10\x11"), ("ctrl-p", b"\x10")):
            more = {"DetachKeys": keys} if keys else {}
            eid = d.good("POST", f"/containers/{cid}/exec", {"AttachStdin": True, "AttachStdout": True, "Tty": True, "Cmd": ["cat"], **more})["Id"]
            seen = typed(f"/exec/{eid}/start", {"Tty": True}, b"ghi", press)
            assert seen.endswith(b"exec attach failed: error on attach stdin: read escape sequence\r\n"), seen
            assert d.good("GET", f"/exec/{eid}/json")["Running"], seen
        for path, body in ((where + "&detachKeys=ctrl-A,a", None), (f"/containers/{cid}/exec", {"Cmd": ["true"], "Tty": True, "DetachKeys": "ctrl-A,a"})):
            status, said, _ = d.api("POST", path, body)
            # dockerd has taken the connection over at an attach, and answers in plain text
            text = said if "attach" in path else said["message"].encode()
            assert status == 400 and b"(ctrl-A,a) provided" in text, (path, said)


@b.deadline(60)
def test_an_attach_without_a_stream_ends_with_the_log_and_each_line_is_a_piece():
    with Engine() as d:
        d.create("sh", "-c", "printf 'one\\ntwo\\n'; echo bad >&2", name="box")
        d.good("POST", "/containers/box/start")
        d.good("POST", "/containers/box/wait")
        s, _ = d.hijack("/containers/box/attach?stdout=1&stderr=1&logs=1&stream=0")
        data = read_all(s)
        s.close()
        assert frames(data) == {1: b"one\ntwo\n", 2: b"bad\n"}, data
        assert data.count(b"\x00\x00\x00\x04") == 3, data
        s, _ = d.hijack("/containers/box/attach?stdout=1&stderr=1&stream=0")
        assert read_all(s) == b""
        s.close()
        assert d.good("GET", "/containers/box/logs?stdout=1").count(b"\x00\x00\x00\x04") == 2


@b.deadline(60)
def test_members_are_known_whatever_the_case_of_their_letters():
    with Engine() as d:
        cid = d.good("POST", "/containers/create", {"image": "host", "cmd": ["sleep", "1000"], "hostConfig": {"networkmode": "none", "CPURealtimePeriod": 1000}, "env": ["A=b"]})["Id"]
        d.good("POST", f"/containers/{cid}/start")
        shown = d.good("GET", f"/containers/{cid}/json")
        assert shown["HostConfig"]["CpuRealtimePeriod"] == 1000 and "CPURealtimePeriod" not in shown["HostConfig"], shown["HostConfig"]
        assert "A=b" in shown["Config"]["Env"] and shown["HostConfig"]["NetworkMode"] == "none", shown
        eid = d.good("POST", f"/containers/{cid}/exec", {"attachStdin": True, "attachstdout": True, "tty": True, "cmd": ["cat"], "detachKeys": "ctrl-p"})["Id"]
        s, _ = d.hijack(f"/exec/{eid}/start", {"Tty": True})
        s.sendall(b"\x10")
        assert b"read escape sequence" in read_all(s)
        s.close()
