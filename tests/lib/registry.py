# SPDX-License-Identifier: Apache-2.0
"""
Registries for tests: Debian's docker-registry on loopback, a proxy that breaks
connections, and a registry of our own that can be as evil as a test wants.
"""
import base64
import contextlib
import crypt
import gzip
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import unittest
import urllib.parse
import warnings

import berthtest as b
import ocilayout as oci

warnings.simplefilter("ignore", DeprecationWarning)

T_V2S2 = "application/vnd.docker.distribution.manifest.v2+json"
T_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"


def need(*programs):
    for p in programs:
        if not shutil.which(p):
            raise unittest.SkipTest(f"{p} is not installed")


def config(name="berth.toml", **keys):
    """A configuration file with [registry] keys; returns the environment that uses it."""
    def toml(v):
        return json.dumps(v)
    lines = ["[registry]"] + [f"{k} = {toml(v)}" for k, v in keys.items()]
    return {"BERTH_CONFIG": b.write(b.tmp(name), "\n".join(lines) + "\n", 0o600)}


# ---- docker-registry -------------------------------------------------------------------

class Registry:
    """docker-registry with a directory of its own; use as a context."""

    def __init__(self, user=None, password=None, port=0):
        need("docker-registry", "skopeo")
        self.user, self.password, self.port = user, password, port

    def __enter__(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", self.port))
            self.port = s.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.dir = b.tmpdir(f"registry-{self.port}")
        conf = {"version": 0.1, "log": {"level": "info"},
                "storage": {"filesystem": {"rootdirectory": self.dir + "/data"}, "delete": {"enabled": True}},
                "http": {"addr": self.host, "secret": "s"}}
        if self.user:
            hashed = crypt.crypt(self.password, "$2y$04$abcdefghijklmnopqrstuu")
            conf["auth"] = {"htpasswd": {"realm": "test", "path": b.write(self.dir + "/htpasswd", f"{self.user}:{hashed}\n")}}
        path = b.write(self.dir + "/config.yml", json.dumps(conf))
        self.log = self.dir + "/log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", path], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        b.wait_for(self.answers, 20, "docker-registry")
        return self

    def answers(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def name(self, ref):
        return f"{self.host}/{ref}"

    def skopeo(self, *words):
        login = [f"--{d}creds={self.user}:{self.password}" for d in ("",)] if self.user else []
        p = subprocess.run(["skopeo", words[0], "--tls-verify=false" if words[0] != "copy" else "--dest-tls-verify=false",
                            *login, *words[1:]], capture_output=True, text=True, timeout=60 * b.SLOW,
                           env=dict(os.environ, HOME=b.tmp("home")))
        assert p.returncode == 0, p
        return p.stdout

    def push(self, layout, ref, *options):
        """Copies an OCI layout (path:ref) here by skopeo; returns the digest skopeo sees."""
        words = ["skopeo", "copy", "-q", "--dest-tls-verify=false", *options, "oci:" + layout, "docker://" + self.name(ref)]
        if self.user:
            words[2:2] = [f"--dest-creds={self.user}:{self.password}"]
        p = subprocess.run(words, capture_output=True, text=True, timeout=60 * b.SLOW)
        assert p.returncode == 0, p
        return self.digest(ref)

    def digest(self, ref):
        raw = self.skopeo("inspect", "--raw", "docker://" + self.name(ref)).encode()
        return oci.digest(raw)

    def requests(self, word):
        """Lines of the log with word in them."""
        with open(self.log, errors="replace") as f:
            return [line for line in f if word in line]

    def blob_files(self):
        """digest -> file of each blob."""
        top = self.dir + "/data/docker/registry/v2/blobs/sha256"
        return {"sha256:" + d: f"{top}/{p}/{d}/data" for p in os.listdir(top) for d in os.listdir(f"{top}/{p}")}


# ---- a proxy that breaks ------------------------------------------------------------------

class Server:
    """A listener on loopback with a thread for each connection; both end with the context."""

    def open(self, address="127.0.0.1", port=0):
        self.listener = socket.create_server((address, port), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.open_sockets, self.threads, self.lock = [], [], threading.Lock()
        self.begin(self.accept)

    def begin(self, f, *args):
        t = threading.Thread(target=f, args=args, daemon=True)
        self.threads.append(t)
        t.start()

    def keep(self, s):
        with self.lock:
            self.open_sockets.append(s)
        return s

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.begin(self.serve, self.keep(client))

    def __exit__(self, *_):
        self.closed = True
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.threads[0].join(5 * b.SLOW)
        with self.lock:
            left = list(self.open_sockets)
        for s in left:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        for t in self.threads:
            t.join(5 * b.SLOW)
        for s in left:
            s.close()


class Cutter(Server):
    """Forwards to port; hangs up on the client after each cut_bytes of an answer, cuts times in all."""

    def __init__(self, port, cut_bytes=1 << 60, cuts=0):
        self.upstream, self.cut_bytes, self.cuts = port, cut_bytes, cuts
        self.requests = []
        self.passed = 0

    def __enter__(self):
        self.open()
        return self

    def serve(self, client):
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self.upstream)) as server:
            self.keep(server)
            self.begin(self.up, client, server)
            done = 0
            while True:
                data = server.recv(65536)
                if not data:
                    client.shutdown(socket.SHUT_WR)
                    return
                done += len(data)
                with self.lock:
                    self.passed += len(data)
                    cut = done >= self.cut_bytes and self.cuts > 0
                    self.cuts -= cut
                client.sendall(data)
                if cut:
                    client.shutdown(socket.SHUT_RDWR)
                    server.shutdown(socket.SHUT_RDWR)
                    return

    def up(self, client, server):
        with contextlib.suppress(OSError):
            while True:
                data = client.recv(65536)
                if not data:
                    break
                for head in data.split(b"\r\n\r\n"):
                    if head[:4] in (b"GET ", b"HEAD", b"POST", b"PUT "):
                        with self.lock:
                            self.requests.append(head.decode(errors="replace"))
                server.sendall(data)


# ---- a registry of our own ------------------------------------------------------------------

class Image:
    """Documents and blobs of one image."""

    def __init__(self, tars=None, config=None, algorithm="sha256"):
        def digest(data):
            return oci.digest(data, algorithm)

        self.digest = digest
        tars = tars or [oci.tar_bytes([("hello", {}, random.Random(7).randbytes(100000))])]
        self.layers = [gzip.compress(t, 1, mtime=0) for t in tars]
        c = {"os": "linux", "architecture": oci.ARCH, "config": config or {"Cmd": ["/bin/sh"]},
             "rootfs": {"type": "layers", "diff_ids": [digest(t) for t in tars]}}
        self.config = json.dumps(c).encode()
        self.document = {"schemaVersion": 2, "mediaType": oci.T_MANIFEST,
                         "config": {"mediaType": oci.T_CONFIG, "digest": digest(self.config), "size": len(self.config)},
                         "layers": [{"mediaType": oci.T_LAYER + "+gzip", "digest": digest(x), "size": len(x)}
                                    for x in self.layers]}
        self.manifest = json.dumps(self.document).encode()

    def blobs(self):
        return {self.digest(x): x for x in [self.config, *self.layers]}


class Request:
    def __init__(self, method, path, headers, sock, port):
        self.method, self.headers, self.sock, self.port = method, headers, sock, port
        self.path, _, self.query = path.partition("?")
        self.target = path

    @property
    def authorization(self):
        return self.headers.get("authorization")

    def reply(self, status, body=b"", length=None, **headers):
        """One answer; header names with _ for -.  length None: the body's."""
        lines = [f"HTTP/1.1 {status} X"]
        if length is None:
            length = len(body)
        if length is not False and status != 204:
            lines.append(f"Content-Length: {length}")
        lines += [f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if self.method == "HEAD" else body))

    def raw(self, data):
        self.sock.sendall(data)

    def hang_up(self):
        raise ConnectionAbortedError


class Mock(Server):
    """
    Serves an image, rightly; evil(request) is asked first and returns True when it
    has answered.  Every request is remembered in seen.
    """

    def __init__(self, image=None, evil=None, address="127.0.0.1", port=0, tls=None, basic=None, token=None):
        self.image, self.evil, self.tls = image or Image(), evil, tls
        self.address, self.port = address, port
        self.basic = basic          # the "user:password" that the registry wants
        self.token = token          # realm URL: the registry wants "tok"
        self.seen = []
        self.closed = False

    def __enter__(self):
        self.open(self.address, self.port)
        self.host = f"{self.address}:{self.port}"
        return self

    def serve(self, client):
        with contextlib.suppress(OSError, ssl.SSLError, ValueError):
            client.settimeout(30 * b.SLOW)
            if not self.tls and client.recv(1, socket.MSG_PEEK) == b"\x16":     # a TLS hello
                client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                return
            if self.tls:
                client = self.keep(self.tls.wrap_socket(client, server_side=True))
            with client, client.makefile("rb") as f:
                while self.one(client, f):
                    pass

    def one(self, client, f):
        line = f.readline(65536).decode("latin-1").split()
        if len(line) != 3:
            return False
        headers = {}
        while True:
            h = f.readline(65536).decode("latin-1").rstrip("\r\n")
            if not h:
                break
            k, _, v = h.partition(":")
            headers[k.lower()] = v.strip()
        r = Request(line[0], line[1], headers, client, self.port)
        self.body(r, f)
        self.seen.append(r)
        if self.evil and self.evil(r):
            return True
        self.answer(r)
        return True

    def body(self, r, f):
        r.body = f.read(int(r.headers.get("content-length", "0") or 0))

    def wants_login(self, r):
        if self.basic and r.authorization != "Basic " + base64.b64encode(self.basic.encode()).decode():
            r.reply(401, WWW_Authenticate='Basic realm="mock"')
            return True
        if self.token and r.authorization != "Bearer tok":
            r.reply(401, WWW_Authenticate=f'Bearer realm="{self.token}",service="mock",scope="evil:scope:all"')
            return True
        return False

    def answer(self, r):
        if r.path == "/token":
            r.reply(200, b'{"token":"tok","expires_in":300}', Content_Type="application/json")
        elif self.wants_login(r):
            pass
        elif r.path == "/v2/":
            r.reply(200, b"{}")
        elif "/manifests/" in r.path:
            r.reply(200, self.image.manifest, Content_Type=oci.T_MANIFEST, Docker_Content_Digest=oci.digest(self.image.manifest))
        elif "/blobs/" in r.path:
            self.blob(r)
        else:
            r.reply(404, b'{"errors":[{"code":"NOT_FOUND","message":"no such thing"}]}')

    def blob(self, r):
        data = self.image.blobs().get(r.path.rsplit("/", 1)[1])
        if data is None:
            r.reply(404)
        elif "range" in r.headers:
            at = int(r.headers["range"].split("=")[1].rstrip("-"))
            r.reply(206, data[at:], Content_Range=f"bytes {at}-{len(data) - 1}/{len(data)}")
        else:
            r.reply(200, data, Content_Type="application/octet-stream")

    def credentials_seen(self):
        return [f"{r.method} {r.target}: {r.authorization}" for r in self.seen if r.authorization]


class Keeper(Mock):
    """
    Takes uploads too, in parts, as the distribution specification says; cut(request)
    may name how many bytes of a body arrive before it hangs up.
    """

    def __init__(self, cut=None, resumes=True, **mock):
        super().__init__(**mock)
        self.cut, self.resumes = cut, resumes
        self.kept, self.sessions, self.manifests = {}, {}, {}
        self.opened = 0
        self.most = self.now = 0        # uploads at once

    def body(self, r, f):
        n = int(r.headers.get("content-length", "0") or 0)
        cut = self.cut(r) if self.cut and n else None
        sending = r.method in ("PATCH", "PUT") and "/uploads/" in r.path
        with self.lock:
            self.now += sending
            self.most = max(self.most, self.now)
        try:
            r.body = f.read(n if cut is None else min(cut, n))
        finally:
            with self.lock:
                self.now -= sending
        if cut is not None:
            self.seen.append(r)
            if self.resumes and r.path in self.sessions:
                self.sessions[r.path] += r.body
            r.hang_up()

    def answer(self, r):
        if self.wants_login(r):
            pass
        elif r.method == "HEAD" and "/blobs/" in r.path:
            r.reply(200 if r.path.rsplit("/", 1)[1] in self.kept else 404)
        elif r.method == "POST" and r.path.endswith("/uploads/"):
            with self.lock:
                self.opened += 1
                where = f"{r.path}{self.opened}"
                self.sessions[where] = b""
            r.reply(202, Location=where + "?state=0", Range="0-0")
        elif r.path in self.sessions:
            self.upload(r)
        elif r.method == "PUT" and "/manifests/" in r.path:
            self.manifests[r.path] = r.body
            r.reply(201, Docker_Content_Digest=oci.digest(r.body))
        else:
            r.reply(404)

    def upload(self, r):
        have = self.sessions[r.path]
        if r.method == "GET" and not self.resumes:
            del self.sessions[r.path]
            r.reply(404)
        elif r.method == "GET":
            r.reply(204, Location=r.path, Range=f"0-{max(0, len(have) - 1)}")
        elif r.method == "PATCH" and r.headers.get("content-range") != f"{len(have)}-{len(have) + len(r.body) - 1}":
            r.reply(416, Range=f"0-{max(0, len(have) - 1)}")
        elif r.method == "PATCH":
            self.sessions[r.path] = have = have + r.body
            r.reply(202, Location=f"{r.path}?state={len(have)}", Range=f"0-{len(have) - 1}")
        else:
            data, digest = have + r.body, urllib.parse.unquote(r.query.split("digest=")[1])
            if oci.digest(data, digest[:6]) != digest:
                r.reply(400, b'{"errors":[{"code":"DIGEST_INVALID"}]}')
                return
            self.kept[digest] = data
            del self.sessions[r.path]
            r.reply(201, Location="/x", Docker_Content_Digest=digest)


def log_in(host, user="canary", password="canary-secret", state=None):
    """As berth login leaves it."""
    state = state or os.path.join(b.root(), "state")
    path = os.path.join(state, "auth.json")
    auths = {}
    if os.path.exists(path):
        with open(path) as f:
            auths = json.load(f)["auths"]
    auths[host] = {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}
    b.write(path, json.dumps({"auths": auths}), 0o600)


# ---- TLS --------------------------------------------------------------------------------------

def openssl(*words):
    p = subprocess.run(["openssl", *words], capture_output=True, text=True)
    assert p.returncode == 0, p


def make_ca():
    """(CA file, function from host names to a server's SSL context)."""
    need("openssl")
    d = b.tmpdir("ca")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
            "/CN=test CA", "-keyout", d + "/ca.key", "-out", d + "/ca.pem")

    def server(*names, days="2", version=None):
        stem = f"{d}/{names[0].replace(':', '_')}"
        san = ",".join(("IP:" if n[0].isdigit() else "DNS:") + n for n in names)
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=" + names[0],
                "-keyout", stem + ".key", "-out", stem + ".csr")
        b.write(stem + ".ext", f"subjectAltName={san}\n")
        openssl("x509", "-req", "-in", stem + ".csr", "-CA", d + "/ca.pem", "-CAkey", d + "/ca.key", "-CAcreateserial",
                "-days", days, "-extfile", stem + ".ext", "-out", stem + ".pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if version:
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = version
        context.load_cert_chain(stem + ".pem", stem + ".key")
        return context
    return d + "/ca.pem", server


@contextlib.contextmanager
def hosts(**names):
    """Names for addresses, in this test's mount namespace; _ in a name stands for a dot."""
    import proc
    lines = "".join(f"{v} {k.replace('__', '-').replace('_', '.')}\n" for k, v in names.items())
    proc.bind(b.write(b.tmp("hosts"), "127.0.0.1 localhost\n" + lines), "/etc/hosts")
    try:
        yield
    finally:
        subprocess.run(["umount", "/etc/hosts"], check=True)
