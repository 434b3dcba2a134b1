# SPDX-License-Identifier: Apache-2.0
"""berthd with its Engine API, and the clients of Docker that are here: python3-docker and docker's own command line."""
import contextlib
import http.client
import io
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import urllib.parse

import berthtest as b
from daemon import Daemon, UnixConnection

FOREIGN_PATH = "/usr/lib/python3/dist-packages"     # Debian's modules, where another python runs the tests


def python_docker():
    """The module of python3-docker."""
    try:
        import docker
    except ImportError:
        sys.path.append(FOREIGN_PATH)
        try:
            import docker
        except ImportError as e:
            raise b.skip(f"needs the package python3-docker ({e})")
        finally:
            sys.path.remove(FOREIGN_PATH)
    return docker


class Engine(Daemon):
    """with Engine() as d: d.api("GET", "/version")"""

    def __init__(self, docker="", config="", **kw):
        os.makedirs(b.tmp(""), exist_ok=True)
        self.docker_socket = b.tmp("docker.sock")
        super().__init__(f'[daemon]\n[docker]\nsocket = "{self.docker_socket}"\n{docker}\n{config}', tokens=False, **kw)

    def __exit__(self, kind, value, trace):
        listed = b.berth("ps", "-a", "-q").out.split()
        if listed:
            b.berth("rm", "--force", *listed, ok=True)
        return super().__exit__(kind, value, trace)

    @property
    def url(self):
        return "unix://" + self.docker_socket

    def client(self, **kw):
        return python_docker().DockerClient(base_url=self.url, timeout=300, **kw)

    def api(self, method, path, body=None, headers=None, timeout=60):
        """(status, what came as JSON or bytes, headers) of one request."""
        c = UnixConnection(self.docker_socket, timeout)
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        try:
            c.request(method, path, body, headers)
            r = c.getresponse()
            data = r.read()
            # progress comes as several objects, a line each, under the same type
            one = r.headers.get("Content-Type", "").startswith("application/json") and data and b"\r\n" not in data
            return r.status, json.loads(data) if one else data, dict(r.headers)
        finally:
            c.close()

    @contextlib.contextmanager
    def stream(self, path):
        """The lines of a reply that goes on."""
        c = UnixConnection(self.docker_socket, 60)
        try:
            c.request("GET", path)
            r = c.getresponse()
            assert r.status == 200, r.read()
            yield r
        finally:
            c.close()

    def good(self, method, path, body=None, **kw):
        status, said, _ = self.api(method, path, body, **kw)
        assert 200 <= status < 400, (method, path, status, said)
        return said

    def create(self, *command, name=None, image="host", **more):
        host = {"NetworkMode": "none", **more.pop("HostConfig", {})}
        body = {"Image": image, "Cmd": list(command), "HostConfig": host, **more}
        return self.good("POST", "/containers/create" + (f"?name={name}" if name else ""), body)["Id"]

    def reap(self, label):
        """The calls of ryuk: all that has the label is removed, in its order."""
        where = "filters=" + urllib.parse.quote(json.dumps({"label": {label: True}}))
        for c in self.good("GET", "/containers/json?all=1&" + where):
            assert self.api("DELETE", f"/containers/{c['Id']}?force=1&v=1")[0] == 204
        for n in self.good("GET", "/networks?" + where):
            assert self.api("DELETE", "/networks/" + n["Id"])[0] == 204
        for v in self.good("GET", "/volumes?" + where)["Volumes"]:
            assert self.api("DELETE", f"/volumes/{v['Name']}?force=1")[0] == 204
        for i in self.good("GET", "/images/json?" + where):
            assert self.api("DELETE", f"/images/{i['Id']}?force=1")[0] == 200

    def hijack(self, path, body=None, upgrade=True):
        """A connection that became a stream: (socket, what the head said)."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(60 * b.SLOW)
        s.connect(self.docker_socket)
        data = json.dumps(body).encode() if body is not None else b""
        ask = "Connection: Upgrade\r\nUpgrade: tcp\r\n" if upgrade else ""
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\n{ask}Content-Type: application/json\r\n"
                  f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        head = b""
        while b"\r\n\r\n" not in head:
            piece = s.recv(1)
            if not piece:
                break
            head += piece
        return s, head.decode()


def tar_of(name, data):
    """An archive of one file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def read_all(s):
    got = b""
    while True:
        piece = s.recv(65536)
        if not piece:
            return got
        got += piece


def frames(data):
    """{1: stdout, 2: stderr} of a stream of frames."""
    out = {1: b"", 2: b""}
    while data:
        kind, n = struct.unpack(">BxxxL", data[:8])
        assert len(data) >= 8 + n, (len(data), n)
        out[kind] += data[8:8 + n]
        data = data[8 + n:]
    return out


class Cli:
    """docker's own client against the engine: run("ps", "-a")."""

    def __init__(self, engine):
        self.program = os.environ.get("BERTH_TEST_DOCKER") or shutil.which("docker")
        if not self.program:
            raise b.skip("needs docker's command line (of docker.io or docker-cli)")
        self.home = b.tmpdir("docker-home")
        self.env = {"PATH": os.environ["PATH"], "HOME": self.home, "DOCKER_HOST": engine.url, "DOCKER_CLI_HINTS": "false"}

    def start(self, *args, **kw):
        return subprocess.Popen([self.program, *args], env=self.env, **kw)

    def run(self, *args, input=None, ok=None, timeout=60):
        given = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        r = subprocess.run([self.program, *args], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           timeout=timeout * b.SLOW, **given)
        if ok is not None:
            assert r.returncode == (0 if ok is True else ok), (args, r)
        return r


__all__ = ["Cli", "Engine", "frames", "http", "python_docker", "read_all"]
