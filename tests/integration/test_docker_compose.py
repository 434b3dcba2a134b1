# SPDX-License-Identifier: Apache-2.0
"""docker-compose of Debian 12, unmodified: services that wait for each other, a build, volumes, networks, scale, logs, down."""
import json
import os
import subprocess

import berthtest as b
import netlab
from dockerdoor import door
from dockerlab import Engine
from netlab import Lab, need_bridge
from registry import need

COST = 60

FILE = """
version: "3.9"
services:
  db:
    image: box:1
    command: sh -c 'echo stored > /data/f; touch /data/ready; echo db is up; sleep 1000'
    volumes: ["data:/data"]
    networks: [back]
    healthcheck:
      test: ["CMD", "test", "-e", "/data/ready"]
      interval: 200ms
      timeout: 5s
      retries: 50
  app:
    build:
      context: .
      network: none
    image: app:1
    depends_on: {db: {condition: service_healthy}}
    networks: [back, front]
    volumes: ["data:/data:ro"]
    environment: {GREETING: hello}
    command: sh -c 'echo $$GREETING from app; cat /data/f /made; sleep 1000'
  worker:
    image: box:1
    depends_on: [app]
    networks: [front]
    command: sh -c 'echo worker; sleep 1000'
volumes: {data: {}}
networks: {back: {internal: true}, front: {}}
"""


class Compose:
    def __init__(self, engine, top):
        need("docker-compose")
        self.top = top
        self.env = {"PATH": os.environ["PATH"], "HOME": top, "DOCKER_HOST": engine.url, "COMPOSE_PROJECT_NAME": "tried",
                    "COMPOSE_DOCKER_CLI_BUILD": "0", "COMPOSE_HTTP_TIMEOUT": "100", "LANG": "C.UTF-8"}

    def run(self, *args, ok=0, timeout=100):
        r = subprocess.run(["/usr/bin/docker-compose", "--no-ansi", *args], cwd=self.top, env=self.env, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, timeout=timeout * b.SLOW, check=False)
        assert ok is None or r.returncode == ok, (args, r.stdout[-3000:], r.stderr[-3000:])
        return r


@b.deadline(300)
def test_a_project_of_three_services():
    need("buildah")
    need_bridge()
    top = b.tmpdir("project")
    b.write(top + "/docker-compose.yml", FILE)
    b.write(top + "/Dockerfile", "FROM box:1\nRUN echo built > /made\n")
    with Lab(forwarding=True), Engine() as d:
        b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
        compose = Compose(d, top)
        try:
            compose.run("up", "-d")
            rows = d.good("GET", "/containers/json")
            assert {r["Labels"]["com.docker.compose.service"] for r in rows} == {"db", "app", "worker"}, rows
            assert "Up (healthy)" in compose.run("ps").stdout
            b.wait_for(lambda: "hello from app" in compose.run("logs", "app").stdout, 30, "the log of app")
            said = compose.run("logs", "app").stdout
            assert "stored" in said and "built" in said, said
            assert compose.run("exec", "-T", "app", "cat", "/made").stdout == "built\n"
            assert compose.run("exec", "-T", "app", "sh", "-c", "exit 7", ok=None).returncode == 7
            for name in ("db", "worker"):
                compose.run("exec", "-T", "app", "/bin/busybox", "nslookup", name)
            assert compose.run("exec", "-T", "worker", "/bin/busybox", "nslookup", "db", ok=None).returncode != 0     # not on its network
            compose.run("up", "-d", "--scale", "worker=3", "--no-recreate")
            rows = d.good("GET", "/containers/json")
            assert sum(r["Labels"]["com.docker.compose.service"] == "worker" for r in rows) == 3, rows
            assert len(compose.run("ps", "-q").stdout.split()) == 5
            assert compose.run("run", "--rm", "-T", "--no-deps", "worker", "echo", "one-off").stdout == "one-off\n"
            compose.run("stop", "-t", "1", "worker")
            compose.run("start", "worker")
            compose.run("restart", "-t", "1", "db")
            assert "com.docker.compose.project" in json.dumps(d.good("GET", "/volumes"))
            compose.run("down", "-v", "--remove-orphans", "-t", "1")
            assert d.good("GET", "/containers/json?all=1") == [] and d.good("GET", "/volumes")["Volumes"] in ([], None)
            assert {n["Name"] for n in d.good("GET", "/networks")} == {"bridge", "host", "none"}
        finally:
            compose.run("down", "-v", "-t", "0", ok=None)
            b.berth("network", "prune", timeout=30)
            b.wait_for(lambda: not netlab.ruleset(), 10, "the end of what the last member left")


@b.deadline(60)
def test_the_drop_in_starts_the_plug_in_as_docker_does():
    """A plug-in of version 2 takes "compose" for a word of its user unless the variable is there; berthd has no BuildKit."""
    top = b.tmpdir("plugins")
    os.mkdir(top + "/cli-plugins")
    plugin = top + "/cli-plugins/docker-compose"
    b.write(plugin, '#!/bin/sh\necho "$DOCKER_CLI_PLUGIN_ORIGINAL_CLI_COMMAND|$DOCKER_HOST|$DOCKER_BUILDKIT|$*"\n')
    os.chmod(plugin, 0o755)
    with Engine() as d:
        env = {"DOCKER_CONFIG": top, "DOCKER_BUILDKIT": "1", "BERTH_CONFIG": d.config_path}
        linked = b.tmp("linked.sock")
        os.symlink(d.docker_socket, linked)
        for host in (f"unix://{d.docker_socket}", f"unix://{linked}"):
            r = door("compose", "up", "-d", env={**env, "DOCKER_HOST": host}, ok=True)
            assert r.stdout == f"docker|{host}|0|compose up -d\n", r
        r = door("compose", "up", env=env, ok=True)
        assert r.stdout == f"docker|unix://{d.docker_socket}|0|compose up\n", r
        assert "means another engine" in door("compose", "up", env={**env, "DOCKER_HOST": "tcp://192.0.2.1:2375"}, ok=1).stderr
