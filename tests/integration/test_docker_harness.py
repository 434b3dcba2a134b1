# SPDX-License-Identifier: Apache-2.0
"""
The calls of more systems that run untrusted code in Docker, as their sources make them: OpenHands and verifiers by the command
line, at both doors; OpenHands' app server and SWE-bench by python3-docker; GitLab's docker executor by the Engine API; what
Inspect and Harbor ask of docker beside compose.
"""
import gc
import io
import json
import os
import socket
import subprocess
import tarfile
import urllib.request

import berthtest as b
from dockerdoor import Doors, door, start
from dockerlab import Cli, Engine, frames, python_docker, read_all
from netlab import Lab, need_bridge

COST = 60

# in place of the agent server: a web server that takes --host and --port as the real one does
SERVER = """#!/bin/sh
echo "serving on $2 port $4"
mkdir -p /srv/www; echo well > /srv/www/alive
exec httpd -f -p "$2:$4" -h /srv/www
"""


def image(name):
    """With the programs that these systems count on."""
    top = b.busybox_rootfs(name.partition(":")[0])
    for applet in ("tail", "tee", "timeout", "httpd", "wget"):
        os.symlink("busybox", f"{top}/bin/{applet}")
    b.berth("image", "import", top, name, ok=True)


def free_ports(n):
    """The first of n ports that follow each other."""
    for first in range(20000 + os.getpid() % 20000, 60000, n):
        taken = []
        try:
            for port in range(first, first + n):
                s = socket.socket()
                taken.append(s)
                s.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for s in taken:
                s.close()
    raise AssertionError("no ports")


class AtDoorA:
    def __init__(self, engine):
        self.cli = Cli(engine)

    def __call__(self, *args, ok=0, **kw):
        return self.cli.run(*args, ok=ok, **kw)

    def start(self, *args, **kw):
        return self.cli.start(*args, **kw)


class AtDoorB:
    def __call__(self, *args, ok=0, **kw):
        return door(*args, ok=ok, **kw)

    def start(self, *args, **kw):
        return start(*args, **kw)


def openhands_sdk(docker, server):
    """DockerWorkspace of openhands-sdk: it starts the agent server, watches its log, and speaks HTTP with it."""
    port, name, mine = free_ports(3), "agent-server-0123abcd", b.tmpdir(f"openhands-{type(docker).__name__}")
    os.chmod(mine, 0o777)
    docker("version")
    cid = docker("run", "-d", "--platform", "linux/amd64", "--rm", "--ulimit", "nofile=65536:65536", "--name", name, "-e", "DEBUG=true", "-v",
                 f"{mine}:/workspace/mine:rw", "-p", f"{port}:8000", "-p", f"{port + 1}:8001", "-p", f"{port + 2}:8002", server, "--host", "0.0.0.0",
                 "--port", "8000").stdout.strip()
    logs = docker.start("logs", "-f", cid, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert logs.stdout.readline() == "serving on 0.0.0.0 port 8000\n"

        def alive():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/alive", timeout=20) as r:
                    return r.read() == b"well\n"
            except OSError:
                return False
        b.wait_for(alive, 60, "the agent server")
        assert docker("inspect", "-f", "{{.State.Running}}", cid).stdout == "true\n"
        docker("pause", name)
        assert docker("inspect", "-f", "{{.State.Status}}", cid).stdout == "paused\n"
        docker("unpause", name)
        assert alive()
        docker("stop", "-t", "1", name)
        assert logs.wait(60 * b.SLOW) == 0
        b.wait_for(lambda: docker("ps", "-aq", "--filter", f"name={name}").stdout == "", 60, "its removal")
    finally:
        logs.kill()
        logs.communicate()


def verifiers(docker):
    """prime-rl's sandboxes: a container that sleeps, commands in it, signals by a file with a process id."""
    assert docker("version", "--format", "{{.Server.Version}}").stdout.strip()
    docker("run", "--detach", "--network", "bridge", "--cap-drop", "NET_ADMIN", "--cap-drop", "NET_RAW", "--security-opt", "no-new-privileges",
           "--sysctl", "net.ipv6.conf.all.disable_ipv6=1", "--cpus", "1", "--memory", "1g", "--env", "A=b", "--workdir", "/workspace", "--entrypoint",
           "sleep", "--name", "vf-1", "box:1", "infinity")
    docker("exec", "vf-1", "sh", "-c", "setsid sh -c 'echo $$ > /tmp/pid; exec sleep 1000' > /dev/null 2>&1 &")
    b.wait_for(lambda: docker("exec", "vf-1", "sh", "-c", "test -s /tmp/pid && echo yes || true").stdout == "yes\n", 30, "the command's id")
    docker("exec", "vf-1", "sh", "-c", "kill -TERM -$(cat /tmp/pid)")
    b.wait_for(lambda: docker("exec", "vf-1", "sh", "-c", "kill -0 $(cat /tmp/pid) 2> /dev/null || echo dead").stdout == "dead\n", 30, "its end")
    # the helper in its network: what listens there is reached, and it has no file of it
    docker("exec", "-d", "vf-1", "sh", "-c", "echo well > /workspace/alive; exec httpd -f -p 127.0.0.1:8765 -h /workspace")
    there = b.tmpdir(f"vf-{type(docker).__name__}")
    b.write(there + "/x.sh", "wget -q -O - http://127.0.0.1:8765/alive; ls /workspace\n")
    b.wait_for(lambda: docker("run", "--rm", "--network", "container:vf-1", "--cap-drop", "ALL", "--cap-add", "DAC_OVERRIDE", "--mount",
                              f"type=bind,source={there},target=/run/vf", "box:1", "sh", "/run/vf/x.sh", ok=None).stdout == "well\n", 60, "the answer")
    docker("rm", "-f", "vf-1")


def inspect_and_harbor(docker):
    """Beside compose: what images there are, how a container ended, files of one by tar."""
    assert json.loads(docker("version", "--format", "json").stdout)["Server"]["ApiVersion"]
    assert docker("info").stdout
    docker("image", "inspect", "box:1")
    ids = docker("images", "-q").stdout.split()
    assert ids and len(ids) == len(set(ids))
    listed = [json.loads(line) for line in docker("images", "--filter", "reference=box:1", "--format", "json").stdout.splitlines()]
    assert [(i["Repository"], i["Tag"]) for i in listed] == [("box", "1")], listed
    name = docker("run", "-d", "--network", "none", "box:1", "sh", "-c", "exit 3").stdout.strip()
    assert docker("wait", name).stdout == "3\n"
    state = json.loads(docker("inspect", "--format", "{{json .State}}", name).stdout)
    assert (state["ExitCode"], state["Running"], state["OOMKilled"]) == (3, False, False), state
    docker("rm", "-f", name)
    # files are written by tee, and read by cp
    docker("run", "-d", "--init", "--network", "none", "--name", "sandbox", "box:1", "tail", "-f", "/dev/null")
    docker("exec", "-i", "--workdir", "/tmp", "sandbox", "sh", "-e", "-c", 'tee -- "$1" > /dev/null', "tee-script", "made.txt", input="some text\n")
    got = b.tmp(f"got-{type(docker).__name__}")
    docker("cp", "-L", "sandbox:/tmp/made.txt", got)
    with open(got) as f:
        assert f.read() == "some text\n"
    r = docker("exec", "sandbox", "timeout", "1s", "sleep", "1000", ok=None)
    assert r.returncode in (124, 143), r
    docker("stop", "-t", "1", "sandbox")
    docker("rm", "sandbox")


@b.deadline(300)
def test_command_lines_of_openhands_verifiers_inspect_and_harbor_at_both_doors():
    need_bridge()
    with Lab(forwarding=True), Doors(), Engine() as d:
        image("box:1")
        doors = (AtDoorA(d), AtDoorB())
        for docker in doors:
            inspect_and_harbor(docker)
            verifiers(docker)
        # an image with an entry point of its own
        box = d.create("true", name="made", image="box:1")
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as t:
            info = tarfile.TarInfo("serve")
            info.size, info.mode = len(SERVER), 0o755
            t.addfile(info, io.BytesIO(SERVER.encode()))
        d.good("PUT", f"/containers/{box}/archive?path=/root", out.getvalue(), headers={"Content-Type": "application/x-tar"})
        d.good("POST", f"/commit?container={box}&repo=agent-server&tag=1", {"Entrypoint": ["/root/serve"]})
        for docker in doors:
            openhands_sdk(docker, "agent-server:1")
        assert doors[0]("rmi", "-f", "agent-server:1").stdout


@b.deadline(180)
def test_swe_bench_and_openhands_app_server_by_python3_docker():
    docker = python_docker()
    with Engine() as d:
        image("sweb.eval.x86_64.astropy:latest")
        c = docker.DockerClient(base_url=d.url, timeout=100)
        try:
            # swebench.harness.docker_utils: the container of one instance
            c.images.get("sweb.eval.x86_64.astropy:latest")
            x = c.containers.create(image="sweb.eval.x86_64.astropy:latest", name="sweb.eval.astropy__astropy-1.run", user="root", detach=True,
                                    command="tail -f /dev/null", platform="linux/x86_64", network_mode="none")
            x.start()
            assert x.exec_run("mkdir -p /testbed", workdir="/").exit_code == 0
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w") as t:
                info = tarfile.TarInfo("eval.sh")
                info.size = 34
                t.addfile(info, io.BytesIO(b"echo begun; sleep 1000; echo never"))
            assert x.put_archive("/testbed", out.getvalue())
            # exec_run_with_timeout: the output comes as it is made; the Pid that it kills inside is Docker's of the host, here 0, and kills nothing of it
            ex = c.api.exec_create(x.id, "sh /testbed/eval.sh")["Id"]
            stream = c.api.exec_start(ex, stream=True)
            output = iter(stream)
            assert next(output) == b"begun\n"
            assert c.api.exec_inspect(ex)["Running"]
            x.exec_run(f"kill -TERM {c.api.exec_inspect(ex)['Pid']}", detach=True)
            assert x.exec_run(["sh", "-c", "kill -TERM $(ps | grep '[s]leep 1000' | head -n 1 | grep -o '[0-9]*' | head -n 1)"]).exit_code == 0
            rest = b"".join(output)
            assert b"never\n" in rest, (rest, c.api.exec_inspect(ex), x.exec_run("ps").output)
            r = x.exec_run("cat /testbed/eval.sh")
            assert (r.exit_code, r.output[:10]) == (0, b"echo begun"), r
            x.stop(timeout=1)
            x.remove(force=True)
            # OpenHands' app server: what there is, by its image's first tag
            x = c.containers.run("sweb.eval.x86_64.astropy:latest", command=["sleep", "1000"], detach=True, name="oh-agent-server-1", environment={"A": "b"},
                                 volumes={"oh-data": {"bind": "/data", "mode": "rw"}}, labels={"k": "v"}, working_dir="/workspace", network_mode="none")
            found = c.containers.list(all=True)
            assert [(f.name, f.status, f.image.tags[0]) for f in found] == [("oh-agent-server-1", "running", "sweb.eval.x86_64.astropy:latest")], found
            x = c.containers.get("oh-agent-server-1")
            assert x.attrs["Config"]["Env"].count("A=b") == 1 and x.labels["k"] == "v"
            x.pause()
            x.reload()
            assert x.status == "paused"
            x.unpause()
            x.stop(timeout=1)
            x.start()
            assert b"begun" not in b"".join(x.logs(stream=True, follow=False))
            x.remove(force=True)
            c.volumes.get("oh-data").remove()
        finally:
            stream = output = None
            gc.collect()
            c.close()


class Gitlab:
    """gitlab-runner's docker executor: a helper and a build container, which are started again for each stage of the job."""

    def __init__(self, d):
        self.d = d

    def make(self, name, command, binds, **more):
        body = {"Image": "box:1", "Cmd": command, "AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "OpenStdin": True, "StdinOnce": True,
                "Tty": False, "Env": ["CI=true", "CI_PROJECT_DIR=/builds/group/project"], "Labels": {"com.gitlab.gitlab-runner.job.id": "1"},
                "HostConfig": {"Binds": binds, "NetworkMode": "none", "RestartPolicy": {"Name": "no"}, "LogConfig": {"Type": "json-file"},
                               "Privileged": False, "ShmSize": 0, "OomKillDisable": None}, **more}
        return self.d.good("POST", f"/containers/create?name={name}", body)["Id"]

    def stage(self, id, script):
        """Attached, then started, then told what to do: (exit code, output)."""
        s, head = self.d.hijack(f"/containers/{id}/attach?stderr=1&stdin=1&stdout=1&stream=1")
        assert head.startswith("HTTP/1.1 101 "), head
        with s:
            self.d.good("POST", f"/containers/{id}/start")
            s.sendall(script.encode())
            s.shutdown(socket.SHUT_WR)
            out = frames(read_all(s))
        return self.d.good("POST", f"/containers/{id}/wait?condition=not-running")["StatusCode"], out


@b.deadline(180)
def test_gitlabs_docker_executor_runs_the_stages_of_a_job():
    with Doors(), Engine() as d:
        image("box:1")
        g, cache = Gitlab(d), "runner-abc-project-1-concurrent-0-cache-3c3f060a0374fc8bc39395164f415a70"
        assert d.good("GET", "/info")["OSType"] == "linux" and d.good("GET", "/images/box:1/json")["Id"]
        assert d.good("POST", "/volumes/create", {"Name": cache, "Labels": {"com.gitlab.gitlab-runner.managed": "true"}})["Name"] == cache
        # the volume's permissions
        one = g.make("runner-abc-set-permission-1", ["sh", "-c", "chmod 777 /builds"], [f"{cache}:/builds"])
        d.good("POST", f"/containers/{one}/start")
        assert d.good("POST", f"/containers/{one}/wait?condition=not-running")["StatusCode"] == 0
        d.good("DELETE", f"/containers/{one}?force=1&v=1")
        helper = g.make("runner-abc-predefined", ["sh"], [f"{cache}:/builds"])
        build = g.make("runner-abc-build", ["sh", "-c", "if [ -x /bin/bash ]; then exec /bin/bash; else exec /bin/sh; fi"], [f"{cache}:/builds"],
                       Hostname="runner-abc-project-1-concurrent-0")
        status, out = g.stage(helper, "mkdir -p $CI_PROJECT_DIR; echo source > $CI_PROJECT_DIR/file; echo fetched\n")
        assert (status, out) == (0, {1: b"fetched\n", 2: b""}), (status, out)
        status, out = g.stage(build, "cd $CI_PROJECT_DIR; cat file; hostname; echo problem >&2; echo made > artifact; exit 7\n")
        assert (status, out) == (7, {1: b"source\nrunner-abc-project-1-concurrent-0\n", 2: b"problem\n"}), (status, out)
        # after_script in the same container, and the artifacts by the helper
        assert g.stage(build, "cat $CI_PROJECT_DIR/artifact\n") == (0, {1: b"made\n", 2: b""})
        assert g.stage(helper, "ls $CI_PROJECT_DIR\n") == (0, {1: b"artifact\nfile\n", 2: b""})
        # a job that is cancelled: its processes are killed, and the container is taken away
        s, _ = d.hijack(f"/containers/{build}/attach?stderr=1&stdin=1&stdout=1&stream=1")
        with s:
            d.good("POST", f"/containers/{build}/start")
            s.sendall(b"echo long; sleep 1000\n")
            assert b"long" in s.recv(1000)
            ex = d.good("POST", f"/containers/{build}/exec", {"Cmd": ["sh", "-c", "kill -9 -1"], "AttachStdout": True})["Id"]
            assert d.api("POST", f"/exec/{ex}/start", {"Detach": False})[0] in (200, 101)
            d.good("POST", f"/containers/{build}/stop?t=0")
        for id in (helper, build):
            d.good("DELETE", f"/containers/{id}?force=1&v=1")
        d.good("DELETE", f"/volumes/{cache}?force=1")
        assert d.good("GET", "/containers/json?all=1") == [] and d.good("GET", "/volumes")["Volumes"] in ([], None)
