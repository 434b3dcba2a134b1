# SPDX-License-Identifier: Apache-2.0
"""
berthd for tests: started with a configuration of the test's own, spoken to over its unix
socket or TCP.  Every reply is held against the OpenAPI document that it serves.
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.parse

import berthtest as b

BERTHD = os.path.join(b.BUILD, "berthd")
TOKEN = "0123456789abcdef0123456789abcdef"      # admin
TENANT = "fedcba9876543210fedcba9876543210"     # of tenant "alice"
OTHER = "00112233445566778899aabbccddeeff"      # of tenant "bob"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout * b.SLOW)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Reply:
    def __init__(self, response, method, path):
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.body = response.read()
        self.request = f"{method} {path}"
        self.json = None
        if self.headers.get("content-type") == "application/json" and method != "HEAD":
            self.json = json.loads(self.body)

    def __repr__(self):
        return f"{self.request}: {self.status} {self.body[:600]!r}"


class Wrong(AssertionError):
    """A reply is not what the document says."""


def fits(schema, value, schemas, where="body"):
    """Checks replies, as schema.c checks requests."""
    if "$ref" in schema:
        return fits(schemas[schema["$ref"].rsplit("/", 1)[1]], value, schemas, where)
    if "anyOf" in schema:
        wrong = []
        for one in schema["anyOf"]:
            try:
                return fits(one, value, schemas, where)
            except Wrong as e:
                wrong.append(str(e))
        raise Wrong(" and ".join(wrong))
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
             "null": type(None)}
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(isinstance(value, kinds[t]) and not (t in ("integer", "number") and isinstance(value, bool))
                         for t in types):
        raise Wrong(f"{where} is {value!r}, not {types}")
    if "enum" in schema and value not in schema["enum"]:
        raise Wrong(f"{where} is {value!r}, none of {schema['enum']}")
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                raise Wrong(f"{where} lacks {name}: {value!r}")
        for name, v in value.items():
            sub = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            if sub is False:
                raise Wrong(f"{where} has an undocumented {name}")
            if isinstance(sub, dict):
                fits(sub, v, schemas, f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, v in enumerate(value):
            fits(schema["items"], v, schemas, f"{where}[{i}]")


class Daemon:
    """with Daemon() as d: d.get("/healthz")"""

    def __init__(self, config="", tcp=False, env=None, tokens=True, wait=True):
        self.config, self.env, self.document, self.connections = config, env or {}, None, {}
        self.socket = os.path.join(b.root(), "run", "berthd.sock")
        self.port = None
        os.makedirs(b.tmp(""), exist_ok=True)
        if tcp:
            probe = socket.socket()
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
            probe.close()
            self.config = f'[daemon]\nlisten = "127.0.0.1:{self.port}"\n' + self.config.replace("[daemon]\n", "")
        elif "[daemon]" not in self.config:
            self.config = "[daemon]\n" + self.config
        self.tokens_path = b.tmp("tokens")
        if tokens:
            b.write(self.tokens_path, f"# who may\nroot {TOKEN} admin\nalice {TENANT}\nbob {OTHER}\n", 0o600)
            self.config = self.config.replace("[daemon]\n", f'[daemon]\ntoken_file = "{self.tokens_path}"\n', 1)
        self.config_path = b.write(b.tmp("berth.toml"), self.config, 0o600)
        self.log_path = b.tmp("berthd.log")
        self.p = None
        if wait:
            self.start()

    def environment(self):
        return b.environment({"BERTH_CONFIG": self.config_path, **self.env})

    def start(self):
        if not os.access(BERTHD, os.X_OK):
            raise AssertionError(f"{BERTHD} is not there: apt-get install libmicrohttpd-dev, then make")
        with open(self.log_path, "ab") as log:
            self.p = subprocess.Popen([BERTHD], env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        b.wait_for(self.ready, 20, "berthd")

    def ready(self):
        if self.p.poll() is not None:
            raise AssertionError("berthd ended: " + self.log())
        try:
            if self.port:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
            with UnixProbe(self.socket) as ok:
                return ok
        except OSError:
            return False

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def lines(self):
        """What it logged, as objects."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    def stop(self, sig=signal.SIGTERM):
        for c in self.connections.values():
            c.close()
        self.connections.clear()
        if self.p and self.p.poll() is None:
            self.p.send_signal(sig)
            self.p.wait(30 * b.SLOW)
        return self.p.returncode if self.p else None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        code = self.stop()
        listed = b.berth("ps", "-a", "-q").out.split()
        if listed:
            b.berth("rm", "--force", *listed, ok=True)
        if kind:
            print(self.log()[-4000:])
        elif code not in (0, -signal.SIGKILL):
            raise AssertionError(f"berthd ended with {code}: {self.log()[-2000:]}")

    # ---- requests

    def connection(self, tcp=False, timeout=60, key=None):
        key = (tcp, timeout, key)
        if key not in self.connections:
            self.connections[key] = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * b.SLOW) if tcp else \
                UnixConnection(self.socket, timeout)
        return self.connections[key]

    def request(self, method, path, body=None, headers=None, tcp=False, token=None, timeout=60, check=True):
        headers = dict(headers or {})
        if isinstance(body, dict):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if token:
            headers["Authorization"] = "Bearer " + token
        c = self.connection(tcp, timeout)
        try:
            c.request(method, path, body, headers)
            reply = Reply(c.getresponse(), method, path)
        except (http.client.HTTPException, OSError):
            c.close()
            raise
        if check:
            self.hold(method, path, reply)
        return reply

    def hold(self, method, path, reply):
        """The reply against the document."""
        if self.document is None and path != "/openapi.json":
            c = UnixConnection(self.socket, 30)
            c.request("GET", "/openapi.json")
            self.document = json.loads(c.getresponse().read())
            c.close()
        if self.document is None:
            return
        operation = self.operation(method, path)
        if operation is None:
            assert reply.status in (400, 401, 403, 404, 405), f"an undocumented route answers: {reply}"
            return
        if reply.status < 400 and str(reply.status) not in operation["responses"]:
            raise Wrong(f"undocumented status: {reply}")
        expected = operation["responses"].get(str(reply.status), operation["responses"]["default"])
        content = expected.get("content", {})
        kind = reply.headers.get("content-type")
        if kind not in content and kind and kind.startswith("multipart/"):     # its boundary is each reply's own
            kind = kind.partition(";")[0]
        if kind not in content and (content or reply.body):
            raise Wrong(f"undocumented type {kind}: {reply}")
        if kind == "application/json":
            fits(content[kind]["schema"], reply.json, self.document["components"]["schemas"], reply.request)

    def operation(self, method, path):
        path = urllib.parse.urlsplit(path).path
        for pattern, item in self.document["paths"].items():
            if method.lower() in item and re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", pattern), path):
                return item[method.lower()]
        return None

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.request("POST", path, body, **kw)

    def put(self, path, body=None, **kw):
        return self.request("PUT", path, body, **kw)

    def delete(self, path, **kw):
        return self.request("DELETE", path, **kw)

    def good(self, method, path, body=None, **kw):
        reply = self.request(method, path, body, **kw)
        assert 200 <= reply.status < 300, repr(reply)
        return reply.json

    def create(self, name=None, token=None, tcp=False, **options):
        body = {"image": "host", "options": options}
        if name:
            body["name"] = name
        return self.good("POST", "/v1/sandboxes", body, token=token, tcp=tcp)["id"]

    def exec(self, box, *argv, token=None, tcp=False, **more):
        return self.good("POST", f"/v1/sandboxes/{box}/exec", {"argv": list(argv), **more}, token=token, tcp=tcp)

    # ---- raw

    def raw_socket(self, tcp=False):
        s = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX)
        s.settimeout(30 * b.SLOW)
        s.connect(("127.0.0.1", self.port) if tcp else self.socket)
        return s

    def raw(self, data, tcp=False, shut=True):
        """Sends bytes, returns (status, everything that came); status None: the connection was closed without a word."""
        with self.raw_socket(tcp) as s:
            got = b""
            try:
                s.sendall(data)
                if shut:
                    s.shutdown(socket.SHUT_WR)
                while True:
                    piece = s.recv(65536)
                    if not piece:
                        break
                    got += piece
            except (ConnectionResetError, BrokenPipeError):
                pass
        m = re.match(rb"HTTP/1\.[01] (\d{3})", got)
        return (int(m.group(1)) if m else None), got


class UnixProbe:
    """Whether berthd answers: a child of a killed berthd may hold the socket for a moment, and connections to it succeed."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        s = socket.socket(socket.AF_UNIX)
        try:
            s.settimeout(2)
            s.connect(self.path)
            s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            return s.recv(12)[8:] == b" 200"
        finally:
            s.close()

    def __exit__(self, *unused):
        return False


def events(reply_body):
    """Lines of application/x-ndjson as objects."""
    return [json.loads(line) for line in reply_body.decode().splitlines() if line.strip()]


# ---- metrics

def metrics(d):
    """{series with its labels: value}; each metric has its HELP and TYPE before its series."""
    text, found, known = d.get("/metrics").body.decode(), {}, []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            known = [line.split()[2]]
        elif line.startswith("# TYPE "):
            assert line.split()[2] == known[0], line
            known = {"histogram": [known[0] + end for end in ("_bucket", "_sum", "_count")]}.get(line.split()[3], known)
        else:
            series, value = line.rsplit(" ", 1)
            assert series.split("{")[0] in known, line
            assert series not in found, line
            found[series] = float(value)
    return found


def need_promtool():
    if not shutil.which("promtool"):
        raise b.skip("needs promtool, of Debian's package prometheus")


def promtool_is_content(d):
    r = subprocess.run(["promtool", "check", "metrics"], input=d.get("/metrics").body, capture_output=True, timeout=60 * b.SLOW)
    assert r.returncode == 0 and not r.stdout and not r.stderr, r
