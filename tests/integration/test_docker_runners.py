# SPDX-License-Identifier: Apache-2.0
"""
The calls with which CI runners drive Docker, over berthd's socket: GitHub's runner, by docker's command line, word by word as
its ContainerOperationProvider and DockerCommandManager say them; act and Gitea's act_runner, by the Engine API.
"""
import io
import os
import tarfile

import berthtest as b
import netlab
from dockerdoor import door
from dockerlab import Cli, Engine, frames, read_all
from netlab import Lab, need_bridge

COST = 20


def job_directories():
    top = b.tmpdir("runner")
    for name in ("work/repo/repo", "externals", "work/_temp/_github_home", "work/_temp/_github_workflow", "work/_actions", "work/_tool"):
        os.makedirs(os.path.join(top, name))
    return top


class DoorB:
    """berth-docker as Cli has docker's client."""

    def __init__(self, engine):
        self.env = {"BERTH_CONFIG": engine.config_path}

    def run(self, *args, **kw):
        return door(*args, env=self.env, **kw)


def githubs_runner(docker, d, top):
    label, network = "c0ffee", "github_network_0123456789abcdef"
    try:
        docker.run("version", "--format", "{{.Server.APIVersion}}", ok=True)
        docker.run("version", "--format", "{{.Client.APIVersion}}", ok=True)
        # the runner looks for containers and networks that an earlier job left
        assert docker.run("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={label}", ok=True).stdout == ""
        docker.run("network", "prune", "--force", "--filter", f"label={label}", ok=True)
        docker.run("network", "create", "--label", label, network, ok=True)
        service = docker.run("create", "--name", "service_1", "--label", label, "--network", network, "--network-alias", "cache",
                             "-p", "6379", "-e", "GITHUB_ACTIONS=true", "-e", "CI=true", "host", "sleep", "1000", ok=True).stdout.strip()
        docker.run("start", service, ok=True)
        job = docker.run("create", "--name", "job_1", "--label", label, "--workdir", "/__w/repo/repo", "--network", network,
                         "-e", "HOME=/github/home", "-e", "GITHUB_ACTIONS=true", "-e", "CI=true", "-v", "/var/run/docker.sock:/var/run/docker.sock",
                         "-v", f"{top}/work:/__w", "-v", f"{top}/externals:/__e:ro", "-v", f"{top}/work/_temp:/__w/_temp",
                         "-v", f"{top}/work/_actions:/__w/_actions", "-v", f"{top}/work/_tool:/__t",
                         "-v", f"{top}/work/_temp/_github_home:/github/home", "-v", f"{top}/work/_temp/_github_workflow:/github/workflow",
                         "--entrypoint", "tail", "host", "-f", "/dev/null", ok=True).stdout.strip()
        assert docker.run("exec", job, "true").returncode != 0
        docker.run("start", job, ok=True)
        assert docker.run("exec", job, "test", "-e", "/var/run/docker.sock").returncode == 1, "the job has a socket of Docker's"
        up = docker.run("ps", "--all", "--filter", f"id={job}", "--filter", "status=running", "--no-trunc",
                        "--format", "{{.ID}} {{.Status}}", ok=True).stdout
        assert up.startswith(job + " Up"), up
        env = docker.run("inspect", "--format", "{{range .Config.Env}}{{println .}}{{end}}", job, ok=True).stdout
        assert "HOME=/github/home" in env.splitlines(), env
        health = docker.run("inspect", "--format={{if .Config.Healthcheck}}{{print .State.Health.Status}}{{end}}", service, ok=True)
        assert health.stdout.strip() == "", health
        assert docker.run("port", service, ok=True).stdout.startswith("6379/tcp -> "), "the service has no port"
        step = docker.run("exec", "-i", "--workdir", "/__w/repo/repo", "-e", "GITHUB_JOB=build", job, "sh", "-e", "/__w/_temp/step.sh",
                          input="through\n", ok=True)
        assert step.stdout.startswith("build in /__w/repo/repo\nthrough\n") and "cache" in step.stdout, step
        with open(os.path.join(top, "work/repo/repo/by-the-job")) as f:
            assert f.read() == "made\n"
        assert docker.run("exec", "-i", job, "sh", "-c", "echo x > /__e/x").returncode != 0, "a read-only volume was written"
        assert docker.run("exec", "-i", job, "sh", "-c", "exit 7").returncode == 7
        action = docker.run("run", "--name", "action_1", "--label", label, "--workdir", "/github/workspace", "--rm", "-e", "INPUT_WHO=you",
                            "-e", "GITHUB_ACTIONS=true", "--network", network, "-v", f"{top}/work/repo/repo:/github/workspace",
                            "--entrypoint", "sh", "host", "-c", "cat by-the-job; echo $INPUT_WHO", ok=True)
        assert action.stdout == "made\nyou\n", action
        docker.run("logs", "--details", service, ok=True)
        for one in (job, service):
            docker.run("rm", "--force", one, ok=True)
        docker.run("network", "rm", network, ok=True)
        assert docker.run("ps", "--all", "--quiet", ok=True).stdout == ""
    finally:
        for one in ("job_1", "service_1", "action_1"):
            d.api("DELETE", f"/containers/{one}?force=1")
        b.berth("network", "prune", timeout=30)
        b.wait_for(lambda: not netlab.ruleset(), 10, "the end of what the last member left")


def test_githubs_runner_makes_a_job_container_and_a_service_at_both_doors():
    need_bridge()
    top = job_directories()
    b.write(os.path.join(top, "work/_temp/step.sh"), 'echo "$GITHUB_JOB in $PWD"; cat; echo made > by-the-job; getent hosts cache\n')
    with Lab(forwarding=True), Engine('allow = ["drop-docker-socket"]') as d:
        for docker in (Cli(d), DoorB(d)):
            githubs_runner(docker, d, top)


def test_a_bind_of_dockers_socket_is_refused_or_left_out_by_the_operators_word():
    for allow, status in (("", 403), ("drop-docker-socket", 201), ("system-binds", 403)):
        with Engine(f'allow = ["{allow}"]' if allow else "") as d:
            for source in ("/var/run/docker.sock", "/run//docker.sock", "/var/run/../run/docker.sock", d.docker_socket):
                want = 403 if source == d.docker_socket else status
                if allow == "system-binds" and want == 403 and source != d.docker_socket and not os.path.exists(source):
                    continue    # it is no socket there, but what the operator lets be made
                got, said, _ = d.api("POST", "/containers/create", {"Image": "host", "Cmd": ["true"], "HostConfig": {
                    "NetworkMode": "none", "Binds": [f"{source}:/var/run/docker.sock"]}})
                assert got == (403 if want == 403 or source == "/var/run/../run/docker.sock" and got == 403 else want), (allow, source, got, said)
                assert got == 403 or "left out" in said["Warnings"][0], said
                if got == 403 and source in ("/var/run/docker.sock", "/run//docker.sock"):
                    assert 'allow = ["drop-docker-socket"]' in said["message"] and "binds =" not in said["message"], said


def test_act_copies_its_files_and_runs_its_steps():
    """pkg/container of act, which Gitea's runner carries, in the order of a job; but for its names, which have capital letters."""
    with Engine() as d:
        assert d.api("GET", "/_ping")[0] == 200 and d.good("GET", "/info")["OSType"] == "linux"
        assert d.good("GET", "/version")["ApiVersion"]
        assert d.good("GET", '/containers/json?all=1&filters={"name":{"gitea-actions-task-1":true}}') == []
        assert d.api("GET", "/images/nowhere/json")[0] == 404      # which it would pull
        d.good("POST", "/volumes/create", {"Name": "gitea-actions-task-1-env", "Driver": "local"})
        job = d.create(name="gitea-actions-task-1", Entrypoint=["/bin/sleep", "10800"], WorkingDir="/workspace/repo", Env=["RUNNER_TOOL_CACHE=/opt/hostedtoolcache"],
                       Tty=False, Labels={"runner": "gitea"}, HostConfig={"Privileged": False, "AutoRemove": True, "UsernsMode": "", "CapAdd": None, "CapDrop": None,
                                                     "Mounts": [{"Type": "volume", "Source": "gitea-actions-task-1-env", "Target": "/var/run/act"}]})
        d.good("POST", f"/containers/{job}/start")
        assert [c["Id"] for c in d.good("GET", "/containers/json")] == [job]
        tree = io.BytesIO()
        with tarfile.open(fileobj=tree, mode="w") as t:
            for name, text in (("workflow/event.json", b"{}"), ("workflow/0.sh", b"cat /var/run/act/workflow/event.json; pwd; echo to=$TO >> /var/run/act/workflow/envs.txt; exit 5")):
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(text), 0o755
                t.addfile(info, io.BytesIO(text))
        d.good("PUT", f"/containers/{job}/archive?path=/var/run/act&noOverwriteDirNonDir=false&copyUIDGID=false", tree.getvalue(),
               headers={"Content-Type": "application/x-tar"})
        step = d.good("POST", f"/containers/{job}/exec", {"Cmd": ["sh", "-e", "/var/run/act/workflow/0.sh"], "Env": ["TO=there"], "WorkingDir": "/workspace/repo",
                                                         "User": "", "Tty": False, "AttachStdout": True, "AttachStderr": True})["Id"]
        s, _ = d.hijack(f"/exec/{step}/start", {"Tty": False})
        with s:
            assert frames(read_all(s))[1] == b"{}/workspace/repo\n"
        looked = d.good("GET", f"/exec/{step}/json")
        assert (looked["ExitCode"], looked["Running"]) == (5, False), looked
        status, data, _ = d.api("GET", f"/containers/{job}/archive?path=/var/run/act/workflow/envs.txt")
        assert status == 200 and b"to=there" in tarfile.open(fileobj=io.BytesIO(data)).extractfile("envs.txt").read()
        d.good("DELETE", f"/containers/{job}?force=1&v=1")
        b.wait_for(lambda: d.good("GET", "/containers/json?all=1") == [], 20, "the job's removal")
        d.good("DELETE", "/volumes/gitea-actions-task-1-env?force=1")
        assert d.good("GET", '/volumes')["Volumes"] in ([], None)
