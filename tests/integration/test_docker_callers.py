# SPDX-License-Identifier: Apache-2.0
"""The calls of systems that run untrusted code in Docker, as their sources make them; and many of them at once."""
import concurrent.futures
import io
import tarfile

import berthtest as b
from dockerlab import Cli, Engine, python_docker, tar_of

COST = 60


def read_until(sock, mark):
    """OpenManus reads until its prompt comes; an end before it would make it spin for ever."""
    got = b""
    while mark not in got:
        piece = sock.recv(4096)
        assert piece, got
        got += piece
    return got


@b.deadline(120)
def test_openmanus_sandbox_and_terminal():
    docker = python_docker()
    with Engine() as d:
        host_dir = b.tmpdir("workspace")
        api = docker.APIClient(base_url=d.url, timeout=60)
        try:
            config = api.create_host_config(mem_limit="512m", cpu_period=100000, cpu_quota=100000, network_mode="none",
                                            binds={host_dir: {"bind": "/workspace", "mode": "rw"}})
            made = api.create_container(image="host", command="tail -f /dev/null", hostname="sandbox", working_dir="/workspace",
                                        host_config=config, name="sandbox_1", tty=True, detach=True)
            api.start(made["Id"])
            # DockerSession.create
            ex = api.exec_create(made["Id"], ["bash", "-c", "cd /workspace && PROMPT_COMMAND='' PS1='$ ' exec bash --norc --noprofile"],
                                 stdin=True, tty=True, stdout=True, stderr=True, privileged=True, user="root",
                                 environment={"TERM": "dumb", "PS1": "$ ", "PROMPT_COMMAND": ""})
            sock = api.exec_start(ex["Id"], socket=True, tty=True, stream=True, demux=True)
            raw = getattr(sock, "_sock", sock)
            raw.settimeout(30 * b.SLOW)
            read_until(raw, b"$ ")
            for command, wanted in (("echo 'Hello'", b"Hello"), ("pwd", b"/workspace"), ("export A=1; cd /tmp; echo $A", b"1"), ("pwd", b"/tmp"),
                                    ("nosuchcommand", b"not found")):
                raw.sendall(command.encode() + b"\necho $?\n")
                got = read_until(raw, b"$ ")
                while wanted not in got:
                    got += read_until(raw, b"$ ")
            raw.sendall(b"exit\n")
            while raw.recv(4096):
                pass
            raw.close()
            sock.close()
            assert api.exec_inspect(ex["Id"])["Running"] is False
            # DockerSandbox.write_file, read_file
            assert api.put_archive(made["Id"], "/workspace", tar_of("f.txt", b"content"))
            with open(host_dir + "/f.txt") as f:
                assert f.read() == "content"
            stream, _ = api.get_archive(made["Id"], "/workspace/f.txt")
            with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as t:
                assert t.extractfile("f.txt").read() == b"content"
            api.stop(made["Id"], timeout=5)
            api.remove_container(made["Id"], force=True)
        finally:
            api.close()


@b.deadline(120)
def test_autogen_and_openai_agents_and_rllm_by_python3_docker():
    docker = python_docker()
    with Engine() as d:
        b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
        c = docker.DockerClient(base_url=d.url, timeout=60)
        try:
            # AutoGen: a shell that stays, stopped and removed by itself
            work = b.tmpdir("autogen")
            x = c.containers.create("box:1", name="autogen", entrypoint="/bin/sh", tty=True, detach=True, auto_remove=True, network_mode="none",
                                    volumes={work: {"bind": "/workspace", "mode": "rw"}}, working_dir="/workspace", extra_hosts={"a": "127.0.0.1"})
            x.start()
            x.reload()
            assert x.status == "running"
            b.write(work + "/t.sh", "echo ran; exit 3\n")
            r = x.exec_run(["sh", "t.sh"])
            assert (r.exit_code, r.output) == (3, b"ran\n")
            x.restart(timeout=1)
            assert x.exec_run("true").exit_code == 0
            x.stop(timeout=0)
            b.wait_for(lambda: not c.containers.list(all=True, filters={"name": "autogen"}), 30, "its removal")
            # rLLM: run, exec with both streams, files before it, kill
            x = c.containers.run("box:1", "sleep 1000000", detach=True, network_mode="none")
            assert x.exec_run(["sh", "-c", "echo o; echo e >&2"], demux=True).output == (b"o\n", b"e\n")
            assert x.put_archive("/tmp", tar_of("f", b"x"))
            x.kill()
            x.remove(force=True)
            # OpenAI Agents: entrypoint tail, a socket with stdin, only get_archive
            x = c.containers.create("box:1", entrypoint=["sleep"], command=["1000000"], network_mode="none", labels={"k": "v"},
                                    environment={"A": "b"}, detach=True)
            x.start()
            ex = c.api.exec_create(x.id, ["cat"], stdin=True)
            sock = c.api.exec_start(ex["Id"], socket=True)
            raw = getattr(sock, "_sock", sock)
            raw.sendall(b"through\n")
            raw.shutdown(1)
            got = b""
            while True:
                piece = raw.recv(4096)
                if not piece:
                    break
                got += piece
            assert got.endswith(b"through\n"), got
            raw.close()
            sock.close()
            assert c.api.exec_inspect(ex["Id"])["ExitCode"] == 0
            x.remove(force=True)
        finally:
            c.close()


@b.deadline(180)
def test_openclaw_hermes_and_mini_swe_agent_by_the_command_line():
    with Engine() as d:
        b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
        cli = Cli(d)
        # OpenClaw
        assert "No such image" in cli.run("image", "inspect", "nosuch").stderr
        cli.run("create", "--name", "claw", "--label", "k=v", "--read-only", "--tmpfs", "/tmp", "--network", "none", "--env", "A=b",
                "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "100", "--memory", "256m", "--memory-swap", "256m",
                "--cpus", "0.5", "--ulimit", "nofile=1024:2048", "--workdir", "/workspace", "box:1", "sleep", "1000000", ok=True)
        cli.run("start", "claw", ok=True)
        assert cli.run("inspect", "-f", "{{.State.Running}}", "claw", ok=True).stdout == "true\n"
        assert cli.run("inspect", "-f", '{{ index .Config.Labels "k" }}', "claw", ok=True).stdout == "v\n"
        assert "A=b\n" in cli.run("inspect", "-f", "{{range .Config.Env}}{{println .}}{{end}}", "claw", ok=True).stdout
        r = cli.run("exec", "-i", "-w", "/tmp", "-e", "C=d", "claw", "/bin/sh", "-lc", "cat; echo $C; pwd", input="in\n", ok=True)
        assert r.stdout == "in\nd\n/tmp\n", r
        cli.run("rm", "-f", "claw", ok=True)
        # Hermes
        cli.run("version", ok=True)
        assert cli.run("image", "inspect", "box:1", "--format", "{{json .Config.Entrypoint}}", ok=True).stdout.strip() in ("null", "[]")
        cli.run("run", "--rm", "--network", "none", "--cpus", "0.5", "--memory", "64m", "--pids-limit", "32", "box:1", "sleep", "0", ok=True)
        hid = cli.run("run", "-d", "--init", "--name", "hermes-1", "--label", "hermes-agent=1", "-w", "/root", "--cap-drop", "ALL", "--cap-add",
                      "DAC_OVERRIDE", "--cap-add", "CHOWN", "--cap-add", "FOWNER", "--tmpfs", "/tmp:rw,nosuid,size=64m", "--security-opt",
                      "no-new-privileges", "--cpus", "1", "--memory", "256m", "--pids-limit", "256", "--shm-size", "64m", "--storage-opt",
                      "size=64m", "--network=none", "box:1", "sleep", "1000000", ok=True).stdout.strip()
        assert cli.run("exec", hid, "sh", "-c", "echo one; exit 5", ok=5).stdout == "one\n"
        cli.run("stop", "-t", "0", hid, ok=True)
        assert cli.run("exec", hid, "true").returncode != 0 and "is not running" in cli.run("exec", hid, "true").stderr
        listed = cli.run("ps", "-a", "--filter", "label=hermes-agent=1", "--filter", "status=exited", "--format", "{{.ID}}", ok=True).stdout.strip()
        assert hid.startswith(listed) and listed, (hid, listed)
        assert not cli.run("inspect", "--format", "{{.State.FinishedAt}}", hid, ok=True).stdout.startswith("0001")
        cli.run("start", hid, ok=True)
        cli.run("rm", "-f", hid, ok=True)
        assert "No such container" in cli.run("exec", hid, "true").stderr
        # mini-swe-agent
        cid = cli.run("run", "-d", "--network", "none", "--name", "mini", "-w", "/tmp", "--rm", "box:1", "sleep", "1000000", ok=True).stdout.strip()
        assert cli.run("exec", "-w", "/tmp", "-e", "K=V", cid, "sh", "-lc", "echo $K; pwd", ok=True).stdout == "V\n/tmp\n"
        cli.run("stop", "-t", "0", cid, ok=True)
        b.wait_for(lambda: "mini" not in cli.run("ps", "-a", "--format", "{{.Names}}", ok=True).stdout, 30, "its removal")


@b.deadline(300)
def test_many_at_once_without_one_failure():
    docker = python_docker()
    with Engine() as d:
        b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
        d.create("sleep", "1000000", name="box", image="box:1")
        assert d.api("POST", "/containers/box/start")[0] == 204

        def execute(i):
            c = docker.DockerClient(base_url=d.url, timeout=200)
            try:
                return c.containers.get("box").exec_run(["sh", "-c", f"echo {i}"])
            finally:
                c.close()

        def run(i):
            c = docker.DockerClient(base_url=d.url, timeout=250)
            try:
                return c.containers.run("box:1", ["echo", str(i)], network_mode="none", remove=True)
            finally:
                c.close()

        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            for i, r in enumerate(pool.map(execute, range(100))):
                assert (r.exit_code, r.output) == (0, f"{i}\n".encode()), (i, r)
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            for i, out in enumerate(pool.map(run, range(50))):
                assert out == f"{i}\n".encode(), (i, out)
        assert len(d.good("GET", "/containers/json?all=1")) == 1


@b.deadline(60)
def test_what_ryuk_removes_is_all_that_has_the_label():
    with Engine() as d:
        b.berth("image", "import", b.busybox_rootfs(), "web:1", ok=True)
        marks = {"org.testcontainers": "true", "org.testcontainers.session-id": "s1"}
        for labels, name in ((marks, "Mine"), ({}, "kept")):
            d.good("POST", "/containers/" + d.create("sleep", "1000", name=name, image="web:1", Labels=labels) + "/start")
            d.good("POST", "/volumes/create", {"Name": name + "-data", "Labels": labels})
            d.good("POST", "/networks/create", {"Name": name + "-net", "Labels": labels, "CheckDuplicate": True, "Internal": True})
        d.good("POST", "/commit?container=Mine&repo=mine&tag=1")
        d.reap("org.testcontainers.session-id=s1")
        assert [c["Names"] for c in d.good("GET", "/containers/json?all=1")] == [["/kept"]]
        assert [v["Name"] for v in d.good("GET", "/volumes")["Volumes"]] == ["kept-data"]
        assert {n["Name"] for n in d.good("GET", "/networks")} == {"bridge", "host", "none", "kept-net"}
        assert [i["RepoTags"] for i in d.good("GET", "/images/json")] == [["web:1"]]
        b.berth("network", "rm", "kept-net", ok=True)
        b.berth("volume", "rm", "kept-data", ok=True)
