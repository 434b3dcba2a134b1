# SPDX-License-Identifier: Apache-2.0
"""A berthd with its manager, and a client that sends what agentscope's SandboxManager sends in remote mode."""
import contextlib
import gc
import os
import signal
import socket
import sqlite3
import subprocess
import types
import weakref

import berthtest as b
import daemon
import requests
import s3server
from daemon import Daemon

FAST = '[session]\nscan_interval = "50ms"\n'
POOL = '[pool.base]\nimage = "host"\nsize = 2\nmemory_limit = "64m"\noptions = ["disk=16m", "disk-inodes=1024"]\n'
BOX = '[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n'


def s3_config(s3):
    b.write(b.tmp("credentials"), f"{s3server.ACCESS}\n{s3server.SECRET}\n", 0o600)
    return (BOX + f'[storage]\nurl = "s3://bucket/p"\nendpoint = "{s3.url}"\nregion = "{s3server.REGION}"\n'
            f'credentials_file = "{b.tmp("credentials")}"\nretry = "5s"\n' + FAST)


# agentscope's client must see these as null or false; elsewhere the same error has this status
STATUS = {"not-found": 404, "exists": 409, "busy": 409, "limit": 429, "denied": 403, "unsupported": 501, "corrupt": 422, "system": 500,
          "no-memory": 500, "network": 502, "timeout": 504, "other-host": 421, "disk-full": 507, "unhealthy": 503, "internal": 500, "config": 500}


class Failed(Exception):
    def __init__(self, response):
        super().__init__(f"{response.request.method} {response.request.path_url}: {response.status_code} {response.text[:500]}")
        self.status, self.detail = response.status_code, response.json().get("detail")
        if response.ok:
            self.status = STATUS[response.json()["code"]]
            assert response.json()["data"] in (None, False), self


class Manager:
    """What the remote SandboxManager does: POST {base_url}/{function} with the named arguments, {"data": ...} back."""

    def __init__(self, base_url, token=daemon.TOKEN, hold=None):
        self.base_url, self.http = base_url, requests.Session()
        self.http.headers["Authorization"] = f"Bearer {token}"
        if hold:
            held = weakref.WeakMethod(hold)     # no circle of references: the connections end with their last user
            self.http.hooks["response"].append(lambda response, **more: held()(response))
        self.http.trust_env = False

    def __getattr__(self, function):
        def call(*unnamed, **arguments):
            assert not unnamed
            response = self.http.request("POST", f"{self.base_url}/{function}", json=arguments, timeout=120 * b.SLOW)
            if not response.ok or "detail" in response.json():
                raise Failed(response)
            return response.json()["data"]
        return call

    def shell(self, identity, command):
        result = self.call_tool(identity=identity, tool_name="run_shell_command", arguments={"command": command})
        return {c["description"]: c["text"] for c in result["content"]}, result["isError"]

    def cell(self, identity, code):
        result = self.call_tool(identity=identity, tool_name="run_ipython_cell", arguments={"code": code})
        return {c["description"]: c["text"] for c in result["content"]}, result["isError"]

    def workspace(self, method, identity, what, ok=True, **kw):
        response = self.http.request(method, f"{self.base_url}/proxy/{identity}/workspace/{what}", timeout=60 * b.SLOW, **kw)
        if ok and not response.ok:
            raise Failed(response)
        return response

    def native(self, path, ok=True):
        response = self.http.post(f"{self.base_url}/v1/manager/{path}", json={}, timeout=120 * b.SLOW)
        if ok and not response.ok:
            raise Failed(response)
        return response

    def stats(self):
        return self.http.get(f"{self.base_url}/v1/manager/stats", timeout=60 * b.SLOW).json()


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


class Managed(Daemon):
    """A berthd whose sandboxes are released before it ends."""

    def __init__(self, config, **kw):
        super().__init__(config, tcp=True, **kw)
        b.wait_for(lambda: listens(self.port), 20, "berthd on its port")
        self.manager = Manager(f"http://127.0.0.1:{self.port}", hold=self.held)

    def held(self, response, **unused):
        """Compares what agentscope's client got with the document."""
        said = response.request
        super().hold(said.method, said.path_url, types.SimpleNamespace(
            status=response.status_code, headers={k.lower(): v for k, v in response.headers.items()}, body=response.content,
            request=f"{said.method} {said.path_url}",
            json=response.json() if response.headers.get("Content-Type") == "application/json" else None))

    def client(self, token):
        self.clients = getattr(self, "clients", [])
        self.clients.append(Manager(self.manager.base_url, token, self.held))
        return self.clients[-1]

    def idle(self):
        """All pools are empty, and none makes a sandbox."""
        stats = self.manager.stats()
        return not any(stats["states"].get(state) for state in ("warm", "creating")) and not any(p["size"] for p in stats["pools"].values())

    def __exit__(self, kind, value, trace):
        self.reconfigure("size = 0")
        if kind is None:
            b.wait_for(self.idle, 20, "empty pools")
            self.manager.cleanup()
        for m in [self.manager, *getattr(self, "clients", [])]:
            m.http.close()
        gc.collect()        # connections that the server has closed
        super().__exit__(kind, value, trace)

    def reconfigure(self, size):
        self.reconfigure_text("size", size.partition("= ")[2])

    def reconfigure_text(self, key, value):
        with open(self.config_path) as f:
            lines = [f"{key} = {value}" if line.startswith(key) else line.rstrip() for line in f]
        # at once: berthd may be reading it for the change before this one
        os.replace(b.write(self.config_path + ".new", "\n".join(lines) + "\n", 0o600), self.config_path)
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGHUP)

    def warm(self, n=2, pool="base"):
        b.wait_for(lambda: self.manager.stats()["pools"][pool]["warm"] == n, 30, f"{n} warm sandboxes")


def refused(status, call, *a, **kw):
    try:
        got = call(*a, **kw)
    except Failed as e:
        assert e.status == status, e
        assert e.detail, e
        return
    raise AssertionError(f"not refused, but {got!r}")


def age(name, *stamps, by):
    """Moves the times at stamps (JSON paths) of its record into the past, so that a test does not wait for a deadline of berthd."""
    change = "value"
    for stamp in stamps:
        change = f"json_set({change}, '{stamp}', json_extract(value, '{stamp}') - {by})"
    with contextlib.closing(sqlite3.connect(f"{b.root()}/state/manager/records.db", timeout=20 * b.SLOW, isolation_level=None)) as db:
        assert db.execute(f"UPDATE kv SET value = {change} WHERE key = ?", ("sandbox/" + name,)).rowcount == 1


def two_berthds(*configs):
    """On state directories and ranges of ids of their own; a configuration for each, which ends in the section [session]."""
    daemons = []
    for i, config in enumerate(configs):
        base = b.root() if i == 0 else b.tmpdir("second", 0o700)
        if i:
            for part in ("state", "run"):
                os.mkdir(os.path.join(base, part), 0o700)
        d = Managed.__new__(Managed)
        Daemon.__init__(d, config + f'host = "host{i}"\n[ids]\nbase = {2000224256 + i * 65536 * 1024}\ncount = 1024\n',
                        tcp=True, env={"BERTH_STATE_DIR": base + "/state", "BERTH_RUN_DIR": base + "/run"}, wait=False)
        # each has files of its own
        d.config_path = b.write(b.tmp(f"berth{i}.toml"), d.config, 0o600)
        d.log_path, d.socket = b.tmp(f"berthd{i}.log"), base + "/run/berthd.sock"
        d.start()
        b.wait_for(lambda: listens(d.port), 20, "berthd on its port")
        d.manager = Manager(f"http://127.0.0.1:{d.port}")
        daemons.append(d)
    return daemons


class Redis:
    def __init__(self):
        self.dir = b.tmpdir("redis", 0o700)
        self.path = os.path.join(self.dir, "sock")
        self.start()

    def start(self):
        self.p = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", self.dir, "--appendonly", "yes",
                                   "--appendfsync", "always", "--save", "", "--logfile", self.dir + "/log"])
        def there():
            with socket.socket(socket.AF_UNIX) as s:
                try:
                    s.connect(self.path)
                    s.sendall(b"PING\r\n")        # while it loads it listens, and refuses
                    return s.recv(100).startswith(b"+PONG")
                except OSError:
                    return False
        b.wait_for(there, 20, "redis-server")

    def stop(self, sig=signal.SIGTERM):
        self.p.send_signal(sig)
        self.p.wait(20 * b.SLOW)

    def ask(self, *command):
        return subprocess.run(["redis-cli", "-e", "-s", self.path, *command], check=True, capture_output=True, text=True, timeout=20 * b.SLOW).stdout

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stop(signal.SIGKILL)
