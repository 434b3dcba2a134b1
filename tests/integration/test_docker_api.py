# SPDX-License-Identifier: Apache-2.0
"""The Engine API of berthd: containers by python3-docker, by docker's own command line, and by hand."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import threading

import berthtest as b
from daemon import UnixConnection
from dockerlab import Cli, Engine, frames, python_docker, read_all

COST = 25
NEVER = "0001-01-01T00:00:00Z"


def logged(d, name, word):
    b.wait_for(lambda: word in d.good("GET", f"/containers/{name}/logs?stdout=1&stderr=1"), 30, f"{word} in the log")


# ---- the door -----------------------------------------------------------------------


@b.deadline(60)
def test_a_client_learns_the_version_whatever_it_asks_with():
    with Engine() as d:
        assert os.stat(d.docker_socket).st_mode & 0o7777 == 0o660
        for method in ("GET", "HEAD"):
            status, said, headers = d.api(method, "/_ping")
            assert (status, headers["Api-Version"], headers["Ostype"]) == (200, "1.44", "linux"), headers
        assert said == b"" and d.api("GET", "/_ping")[1] == b"OK"
        for prefix in ("", "/v1.24", "/v1.44"):
            j = d.good("GET", prefix + "/version")
            assert (j["ApiVersion"], j["MinAPIVersion"], j["Os"]) == ("1.44", "1.24", "linux"), j
        for version, word in (("1.45", "too new"), ("1.23", "too old"), ("1.0", "too old")):
            status, said, _ = d.api("GET", f"/v{version}/version")
            assert status == 400 and word in said["message"], said
        for path in ("/nosuch", "/v1.44/containers/x/nosuch", "/v1.x/version", "/v1.44"):
            status, said, _ = d.api("GET", path)
            assert status == 404 and said == {"message": "page not found"}, (path, said)
        info = d.good("GET", "/info")
        assert (info["OSType"], info["Containers"], info["Swarm"]) == ("linux", 0, {"LocalNodeState": "inactive"}), info
        # our own routes are not here, and Docker's are not there
        assert d.api("GET", "/v1/sandboxes")[0] == 404
        assert d.get("/_ping", check=False).status == 404


@b.deadline(60)
def test_bodies_that_are_no_create_are_refused_and_leave_nothing():
    bad = [({}, "config cannot be empty"), ({"Image": 1}, "Image is not a string"), ({"Image": "host", "Cmd": {}}, "Cmd is not an array"),
           ({"Image": "host", "Env": [1]}, "Env"), ({"Image": "host", "Env": ["=x"]}, "environment"),
           ({"Image": "host", "Cmd": ["a\0b"]}, "body: line 1"), ({"Image": "/etc"}, "invalid reference"),
           ({"Image": "host", "HostConfig": []}, "HostConfig is not an object"),
           ({"Image": "host", "HostConfig": {"Memory": -1}}, "bytes"),
           ({"Image": "host", "HostConfig": {"CpusetMems": "0-1,,"}}, "Invalid value 0-1,, for cpuset mems"),
           ({"Image": "host", "HostConfig": {"OomScoreAdj": 1001}}, "range for oom score adj is [-1000, 1000]"),
           ({"Image": "host", "HostConfig": {"PortBindings": {"19039;1230": [{}]}}}, "invalid port specification"),
           ({"Image": "host", "HostConfig": {"Memory": 1}}, "memory"),
           ({"Image": "host", "HostConfig": {"NetworkMode": "none", "CapAdd": ["NONSENSE"]}}, "capability"),
           ({"Image": "host", "Healthcheck": {"Test": ["CMD", "x"], "Interval": 5}}, "1ms")]
    with Engine() as d:
        for body, word in bad:
            status, said, _ = d.api("POST", "/containers/create", body)
            assert status == 400 and word in said["message"], (body, status, said)
        for text in (b"{", b"[]", b"7", b"x" * (2 << 20)):
            status, said, _ = d.api("POST", "/containers/create", text, {"Content-Type": "application/json"})
            assert status in (400, 413) and said["message"], (text[:9], said)
        assert d.api("POST", "/containers/create", b"{}", {"Content-Type": ""})[1] == {"message": "malformed Content-Type header (): mime: no media type"}
        made = d.good("POST", "/containers/create", {"Image": "host", "Entrypoint": "echo", "Cmd": "a b", "HostConfig": {"NetworkMode": "none"}})["Id"]
        assert [d.good("GET", f"/containers/{made}/json")["Config"][k] for k in ("Entrypoint", "Cmd")] == [["echo"], ["a b"]]
        assert "non-empty request body" in d.api("POST", f"/containers/{made}/start", {"Binds": []})[1]["message"]
        assert d.api("OPTIONS", "/any/path")[0] == 200 and d.api("POST", "/exec/none/resize?h=x&w=1")[0] == 400
        d.good("DELETE", f"/containers/{made}")
        for name in ("x", "a/b", "-a", "a%20b", "x" * 256):
            assert d.api("POST", f"/containers/create?name={name}", {"Image": "host"})[0] == 400, name
        assert d.api("POST", "/containers/create", {"Image": "nosuch:1"})[1] == {"message": "No such image: nosuch:1"}
        assert b.berth("ps", "-a", "-q", ok=True).out == ""


@b.deadline(60)
def test_what_docker_grants_and_berth_does_not_needs_the_operators_word():
    path = b.tmp("listening")
    link = b.tmp("link")
    os.symlink("/etc", link)
    with Engine() as d, socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        cases = [{"Privileged": True}, {"NetworkMode": "host"}, {"PidMode": "host"}, {"IpcMode": "host"}, {"UsernsMode": "host"},
                 {"SecurityOpt": ["seccomp=unconfined"]}, {"Binds": ["/:/host"]}, {"Binds": ["/proc:/x"]}, {"Binds": ["//etc/../etc:/x"]},
                 {"Binds": [f"{path}:/x"]}, {"Binds": [f"{link}:/x"]}, {"Binds": [f"{link}/not-there:/x"]},
                 {"Binds": [f"{link}/no/way/../there:/x"]}, {"Binds": [f"{b.root()}/state:/x"]},
                 {"Binds": [f"{os.path.dirname(b.root())}:/x:ro"]},
                 {"Mounts": [{"Type": "bind", "Source": "/sys", "Target": "/x"}]}]
        for host in cases:
            body = {"Image": "host", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none", **host}}
            status, said, _ = d.api("POST", "/containers/create", body)
            assert status == 403 and "refused" in said["message"], (host, status, said)
        for host in ({"Devices": [{"PathOnHost": "/dev/fuse"}]}, {"DeviceRequests": [{"Count": -1}]}):
            status, said, _ = d.api("POST", "/containers/create", {"Image": "host", "HostConfig": {"NetworkMode": "none", **host}})
            assert status == 403 and "devices" in said["message"], (host, said)
        assert b.berth("ps", "-a", "-q", ok=True).out == ""
    with Engine('allow = ["privileged", "system-binds", "unconfined"]') as d:
        for host in ({"Privileged": True}, {"SecurityOpt": ["seccomp=unconfined"]}, {"Binds": ["/etc:/x:ro"]}):
            d.create("true", HostConfig=host)


def test_three_connections_for_each_of_a_hundred_commands_are_taken():
    """docker-py holds so many."""
    with Engine() as d, contextlib.ExitStack() as held:
        for _ in range(300):
            s = held.enter_context(socket.socket(socket.AF_UNIX))
            s.connect(d.docker_socket)
            s.sendall(b"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n")
            s.settimeout(60 * b.SLOW)
            assert s.recv(4096).startswith(b"HTTP/1.1 200 "), _


# ---- the life of a container -----------------------------------------------------------


@b.deadline(90)
def test_a_container_is_a_sandbox_from_its_create_to_its_removal():
    with Engine() as d:
        cid = d.create("sh", "-c", "echo $A; pwd; echo err >&2; exit 3", name="first", Env=["A=one two"], WorkingDir="/tmp",
                       Labels={"k": "v"})
        assert len(cid) == 64 and not cid.strip("0123456789abcdef"), cid
        j = d.good("GET", f"/containers/{cid}/json")
        assert (j["Id"], j["Name"], j["Path"], j["State"]["Status"]) == (cid, "/first", "sh", "created"), j
        assert (j["State"]["StartedAt"], j["State"]["FinishedAt"], j["State"]["Pid"]) == (NEVER, NEVER, 0), j["State"]
        assert j["Config"]["Env"][0] == "A=one two" and j["Config"]["Labels"] == {"k": "v"}, j["Config"]
        assert j["HostConfig"]["LogConfig"]["Type"] == "json-file" and j["HostConfig"]["NetworkMode"] == "none"
        listed = b.berth("ps", "-a", ok=True).out
        assert cid[:12] in listed and "first" in listed and "created" in listed, listed
        # whatever it is called by
        for ref in (cid, cid[:12], cid[:20], "first", "%2Ffirst"):
            assert d.good("GET", f"/containers/{ref}/json")["Id"] == cid, ref
        for ref in (cid[:20] + "0" * 44, "nosuch"):
            assert d.api("GET", f"/containers/{ref}/json")[1] == {"message": f"No such container: {ref}"}, ref
        assert d.good("POST", f"/containers/{cid}/wait") == {"StatusCode": 0}
        assert d.api("POST", f"/containers/{cid}/start")[0] == 204
        assert d.good("POST", f"/containers/{cid}/wait") == {"StatusCode": 3}
        out = frames(d.good("GET", f"/containers/first/logs?stdout=1&stderr=1"))
        assert out == {1: b"one two\n/tmp\n", 2: b"err\n"}, out
        j = d.good("GET", f"/containers/{cid}/json")["State"]
        assert (j["Status"], j["ExitCode"], j["Running"]) == ("exited", 3, False) and j["FinishedAt"] > j["StartedAt"] > NEVER, j
        assert d.api("POST", "/containers/create?name=first", {"Image": "host"})[0] == 409
        assert d.api("DELETE", f"/containers/{cid}")[0] == 204
        assert d.api("DELETE", f"/containers/{cid}")[0] == 404
        assert b.berth("ps", "-a", "-q", ok=True).out == ""


@b.deadline(90)
def test_stop_kill_pause_rename_and_remove_answer_as_docker_does():
    def code(method, path):
        return d.api(method, path)[0]

    with Engine() as d:
        cid = d.create("sh", "-c", "trap 'echo got; exit 5' USR1; echo set; while :; do sleep 0.05; done", name="box1", StopSignal="USR1")
        assert code("POST", "/containers/box1/kill") == 409 and code("POST", "/containers/box1/stop") == 304
        assert d.api("POST", "/containers/box1/pause")[1] == {"message": f"Container {cid} is not running"}
        assert code("POST", "/containers/box1/start") == 204 and code("POST", "/containers/box1/start") == 304
        j = d.good("GET", "/containers/box1/json")["State"]
        assert j["Running"] and os.path.isdir(f"/proc/{j['Pid']}"), j
        assert code("DELETE", "/containers/box1") == 409
        assert code("POST", "/containers/box1/pause") == 204 and code("POST", "/containers/box1/pause") == 409
        assert d.good("GET", "/containers/box1/json")["State"]["Status"] == "paused"
        assert "(Paused)" in d.good("GET", "/containers/json")[0]["Status"]
        assert code("POST", "/containers/box1/unpause") == 204 and code("POST", "/containers/box1/unpause") == 409
        assert code("POST", "/containers/box1/rename?name=box2") == 204 and code("GET", "/containers/box1/json") == 404
        assert code("POST", "/containers/box2/kill?signal=NONSENSE") == 400
        for method, rest in (("GET", ""), ("POST", ""), ("DELETE", "/x")):
            status, said = d.api(method, f"/containers/box2/checkpoints{rest}")[:2]
            assert status == 501 and "berth checkpoint keeps the files" in said["message"], (method, status, said)
        b.wait_for(lambda: b"set" in d.api("GET", f"/containers/{cid}/logs?stdout=1")[1], 30, "the trap")
        assert code("POST", "/containers/box2/stop?t=30") == 204
        j = d.good("GET", f"/containers/{cid}/json")["State"]
        assert j["ExitCode"] == 5, (j, b.berth("inspect", "box2").out, b.berth("logs", "box2").out)
        assert code("POST", "/containers/box2/restart?t=1") == 204 and code("POST", "/containers/box2/kill?signal=9") == 204
        assert d.good("POST", "/containers/box2/wait") == {"StatusCode": 137}
        assert code("POST", "/containers/box2/start") == 204 and code("DELETE", "/containers/box2?force=true") == 204
        assert code("GET", f"/containers/{cid}/json") == 404


@b.deadline(90)
def test_lists_are_filtered():
    def names(query):
        return sorted(c["Names"][0][1:] for c in d.good("GET", "/containers/json?" + query))

    def where(**filters):
        return "all=1&filters=" + json.dumps(filters).replace(" ", "").replace('"', "%22")

    with Engine() as d:
        for name, app in (("web-1", "web"), ("web-2", "web"), ("db-1", "db")):
            d.create("sleep", "1000", name=name, Labels={"app": app, name: ""})
        b.berth("create", "--name", "bare", "host", ok=True)
        d.api("POST", "/containers/web-1/start")
        assert names("") == ["bare", "web-1"] and names("all=true") == ["bare", "db-1", "web-1", "web-2"]
        assert names(where(label=["app=web"])) == names(where(label={"app=web": True})) == ["web-1", "web-2"]
        assert names(where(label=["app=web", "web-2"])) == ["web-2"] and names(where(name=["web"])) == ["web-1", "web-2"]
        assert names(where(name=["^/?db-1$"])) == ["db-1"] and names(where(status=["created"])) == ["db-1", "web-2"]
        assert names(where(status=["running"], name=["web"])) == ["web-1"] and names(where(ancestor=["nosuch"])) == []
        assert names("limit=2&all=0") != [] and len(names("limit=2")) == 2
        nid = d.good("GET", "/networks/none")["Id"]
        assert names(where(network=[nid[:5]])) == names(where(network=["none"])) != []
        cid = d.good("GET", "/containers/db-1/json")["Id"]
        assert names(where(id=[cid[:6]])) == names(where(id=[cid])) == ["db-1"]
        for bad in ("%7B", "[]", "%7B%22label%22:1%7D", "%7B%22nosuch%22:[%22x%22]%7D", "%7B%22name%22:[1]%7D"):
            assert d.api("GET", f"/containers/json?all=1&filters={bad}")[0] == 400, bad


# ---- streams ---------------------------------------------------------------------------


@b.deadline(90)
def test_attach_before_start_misses_nothing_and_removal_is_waited_for():
    # as docker run --rm does it: attach, wait, then start; the command ends at once
    with Engine() as d:
        for turn in range(10):
            cid = d.create("sh", "-c", "echo out; echo err >&2; exit 4", HostConfig={"AutoRemove": True})
            s, head = d.hijack(f"/v1.44/containers/{cid}/attach?stream=1&stdout=1&stderr=1", upgrade=turn % 2 == 0)
            assert head.startswith("HTTP/1.1 101 " if turn % 2 == 0 else "HTTP/1.1 200 "), head
            w = UnixConnection(d.docker_socket, 60)
            w.request("POST", f"/containers/{cid}/wait?condition=removed")
            reply = w.getresponse()     # the head comes while the container does not run yet
            assert d.api("POST", f"/containers/{cid}/start")[0] == 204
            assert frames(read_all(s)) == {1: b"out\n", 2: b"err\n"}
            assert json.loads(reply.read()) == {"StatusCode": 4}
            assert d.api("GET", f"/containers/{cid}/json")[0] == 404
            s.close()
            w.close()
        # a container that has ended: what is told at its removal is how
        cid = d.create("sh", "-c", "exit 3", HostConfig={})
        d.good("POST", f"/containers/{cid}/start")
        assert d.good("POST", f"/containers/{cid}/wait") == {"StatusCode": 3}
        w = UnixConnection(d.docker_socket, 60)
        w.request("POST", f"/containers/{cid}/wait?condition=removed")
        reply = w.getresponse()
        d.good("DELETE", f"/containers/{cid}")
        assert json.loads(reply.read()) == {"StatusCode": 3}
        w.close()
        assert b.berth("ps", "-a", "-q", ok=True).out == ""


@b.deadline(90)
def test_stdin_is_half_closed_and_large_output_is_whole():
    size = 3 << 20
    with Engine() as d:
        cid = d.create("sh", "-c", f"cat; head -c {size} /dev/zero", OpenStdin=True, StdinOnce=True, AttachStdin=True)
        s, _ = d.hijack(f"/containers/{cid}/attach?stream=1&stdin=1&stdout=1&stderr=1")
        assert d.api("POST", f"/containers/{cid}/start")[0] == 204
        s.sendall(b"x" * 300000)
        s.shutdown(socket.SHUT_WR)
        out = frames(read_all(s))
        assert len(out[1]) == 300000 + size and out[1].count(b"x") == 300000 and not out[2], len(out[1])
        assert d.good("POST", f"/containers/{cid}/wait") == {"StatusCode": 0}
        s.close()


@b.deadline(90)
def test_a_waiter_that_goes_does_not_hold_the_end():
    # as docker run -d does it: wait, start, and away; the keeper gives announced clients ten seconds to come
    with Engine() as d:
        for turn in range(8):
            cid = d.create("true", name=f"short{turn}")
            w = UnixConnection(d.docker_socket, 60)
            w.request("POST", f"/containers/{cid}/wait?condition=next-exit")
            w.getresponse()
            assert d.api("POST", f"/containers/{cid}/start")[0] == 204
            w.sock.close()
            w.close()
            b.wait_for(lambda cid=cid: d.good("GET", f"/containers/{cid}/json")["State"]["Status"] == "exited", 4, "its end")


@b.deadline(90)
def test_input_is_whole_when_its_client_goes_at_once():
    # as docker run -i -a stdin does it
    with Engine() as d:
        for size in (8, 100000):
            for sent_before in (True, False):
                cid = d.create("cat", OpenStdin=True, StdinOnce=True, AttachStdin=True)
                s, _ = d.hijack(f"/containers/{cid}/attach?stream=1&stdin=1")
                if sent_before:
                    s.sendall(b"x" * size)
                assert d.api("POST", f"/containers/{cid}/start")[0] == 204
                if not sent_before:
                    s.sendall(b"x" * size)
                s.close()
                assert d.good("POST", f"/containers/{cid}/wait") == {"StatusCode": 0}
                assert frames(d.good("GET", f"/containers/{cid}/logs?stdout=1"))[1] == b"x" * size


@b.deadline(90)
def test_input_that_nobody_reads_is_given_up_with_its_client():
    with Engine() as d:
        cid = d.create("sleep", "1000", OpenStdin=True)
        assert d.api("POST", f"/containers/{cid}/start")[0] == 204

        def threads():
            return len(os.listdir(f"/proc/{d.p.pid}/task"))
        attached = [d.hijack(f"/containers/{cid}/attach?stream=1&stdin=1")[0] for _ in range(8)]
        for s in attached:
            s.setblocking(False)
            try:
                while s.send(b"x" * 65536):
                    pass
            except BlockingIOError:
                pass
        held = threads()
        for s in attached:
            s.close()
        b.wait_for(lambda: threads() <= held - 8, 60, "the end of the threads of clients that have gone")
        assert d.api("DELETE", f"/containers/{cid}?force=1")[0] == 204


@b.deadline(90)
def test_logs_follow_to_the_end_and_show_the_last_lines():
    with Engine() as d:
        cid = d.create("sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done; printf part; sleep 1000", name="talker")
        assert d.api("POST", f"/containers/{cid}/start")[0] == 204
        logged(d, "talker", b"part")
        assert frames(d.good("GET", "/containers/talker/logs?stdout=1&tail=2"))[1] == b"line 5\npart"
        assert frames(d.good("GET", "/containers/talker/logs?stdout=1&tail=0"))[1] == b""
        assert frames(d.good("GET", "/containers/talker/logs?stdout=1&tail=all"))[1].count(b"\n") == 5
        assert frames(d.good("GET", "/containers/talker/logs?stderr=1"))[1] == b""
        assert frames(d.good("GET", "/containers/talker/logs?stdout=1&since=32503680000"))[1] == b""
        line = frames(d.good("GET", "/containers/talker/logs?stdout=1&timestamps=1&tail=1"))[1]
        assert line.endswith(b"Z part") and len(line.split(b" ")[0]) == 30, line
        assert d.api("GET", "/containers/talker/logs")[0] == 400
        got = []
        follower = threading.Thread(target=lambda: got.append(d.good("GET", "/containers/talker/logs?stdout=1&follow=1")))
        follower.start()
        assert d.api("POST", "/containers/talker/stop?t=0")[0] == 204
        follower.join(30 * b.SLOW)
        assert got and frames(got[0])[1].endswith(b"line 5\npart"), got


@b.deadline(90)
def test_containers_live_on_when_berthd_is_killed():
    with Engine() as d:
        cid = d.create("sleep", "1000", name="stays", Labels={"k": "v"}, HostConfig={"RestartPolicy": {"Name": "always"}})
        d.api("POST", f"/containers/{cid}/start")
        before = d.good("GET", "/containers/stays/json")
        d.stop(signal.SIGKILL)
        d.start()
        after = d.good("GET", "/containers/stays/json")
        assert after["State"]["Running"] and after["State"]["Pid"] == before["State"]["Pid"], after["State"]
        for part in ("Id", "Name", "Config", "HostConfig", "Created"):
            assert before[part] == after[part], part


# ---- clients ----------------------------------------------------------------------------


@b.deadline(120)
def test_python3_docker_runs_lists_and_removes():
    docker = python_docker()
    with Engine() as d:
        c = d.client()
        try:
            assert c.ping() and c.version()["ApiVersion"] == "1.44"
            out = c.containers.run("host", ["sh", "-c", "echo x; echo y >&2"], network_mode="none", remove=True)
            assert out == b"x\n", out
            x = c.containers.run("host", "sleep 1000", detach=True, network_mode="none", name="py1", labels={"k": "v"},
                                 environment={"A": "b"}, mem_limit="64m", nano_cpus=500000000, tmpfs={"/t": "size=1m"})
            x.reload()
            assert (x.status, x.name, x.labels) == ("running", "py1", {"k": "v"}), x.attrs
            assert [y.id for y in c.containers.list(filters={"label": "k=v"})] == [x.id]
            assert json.loads(b.berth("inspect", "py1", ok=True).out)["limits"]["memory_bytes"] == 64 << 20
            for call, error, word in ((lambda: c.containers.get("nosuch"), docker.errors.NotFound, "No such container: nosuch"),
                                      (lambda: c.containers.create("nosuch:1"), docker.errors.ImageNotFound, "No such image: nosuch:1"),
                                      (lambda: c.containers.create("host", name="py1"), docker.errors.APIError, "already in use")):
                try:
                    call()
                    raise AssertionError(f"no {error}")
                except error as e:
                    assert word in e.explanation, e.explanation
            x.stop(timeout=0)
            assert x.wait()["StatusCode"] == 137
            x.start()
            x.kill()
            x.remove()
            try:
                c.containers.run("host", ["sh", "-c", "echo bad >&2; exit 6"], network_mode="none", remove=True)
                raise AssertionError("no error")
            except docker.errors.ContainerError as e:
                assert (e.exit_status, e.stderr) == (6, b"bad\n"), e
            assert c.containers.list(all=True) == []
        finally:
            c.close()


@b.deadline(120)
def test_dockers_command_line_runs_containers():
    with Engine() as d:
        docker = Cli(d)
        run = ("run", "--network", "none")
        r = docker.run(*run, "--rm", "host", "sh", "-c", "echo out; echo err >&2; exit 9", ok=9)
        assert (r.stdout, r.stderr) == ("out\n", "err\n"), r
        assert docker.run(*run, "--rm", "-i", "host", "cat", input="through\n", ok=True).stdout == "through\n"
        r = docker.run(*run, "--rm", "host", "nosuchprogram", ok=127)
        assert "executable file not found" in r.stderr, r
        cid = docker.run(*run, "-d", "--name", "cli1", "--label", "a=b", "host", "sh", "-c", "echo begun; sleep 1000", ok=True).stdout.strip()
        assert cid[:12] == docker.run("ps", "-q", "--filter", "label=a=b", ok=True).stdout.strip()
        table = docker.run("ps", ok=True).stdout
        assert "cli1" in table and "Up " in table, table
        logged(d, "cli1", b"begun")
        follower = docker.start("logs", "-f", "cli1", stdout=subprocess.PIPE, text=True)
        assert follower.stdout.readline() == "begun\n"
        assert docker.run("inspect", "-f", "{{.State.Running}} {{ index .Config.Labels \"a\" }}", "cli1", ok=True).stdout == "true b\n"
        assert "is already in use" in docker.run(*run, "--name", "cli1", "host", "true", ok=125).stderr
        assert docker.run("stop", "-t", "0", "cli1", ok=True).stdout == "cli1\n"
        assert follower.wait(30 * b.SLOW) == 0
        follower.stdout.close()
        assert docker.run("wait", "cli1", ok=True).stdout == "137\n"
        docker.run("start", "cli1", ok=True)
        docker.run("rm", "-f", "cli1", ok=True)
        assert "No such container: cli1" in docker.run("stop", "cli1", ok=1).stderr
        assert docker.run("ps", "-a", "-q", ok=True).stdout == ""
