# SPDX-License-Identifier: Apache-2.0
"""
A small S3: GET, PUT, HEAD, DELETE of objects and ListObjectsV2, in memory; the bucket is in the path or in the Host.  Every
request's Signature Version 4 is computed anew from what came over the wire and compared;
it can fail and wait on purpose.
"""
import hashlib
import hmac
import http.server
import threading
import urllib.parse

import berthtest as b

ACCESS, SECRET, REGION = "AKIDTESTTEST", "test/secret+key", "eu-test-1"


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *unused):
        pass

    def answer(self, status, body=b"", length=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def is_signed(self, body):
        parts = dict(p.split("=", 1) for p in self.headers["Authorization"].split(" ", 1)[1].split(","))
        access, day, region, service, last = parts["Credential"].split("/")
        names = parts["SignedHeaders"].split(";")
        path, _, query = self.path.partition("?")
        if self.headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
            return False
        pairs = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
        canonical = "\n".join([
            self.command, urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~"),
            "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in pairs),
            *[f"{n}:{' '.join(self.headers[n].split())}" for n in names], "", ";".join(names),
            self.headers["x-amz-content-sha256"]])
        scope = "/".join([day, region, service, last])
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = sign(sign(sign(sign(("AWS4" + SECRET).encode(), day), REGION), "s3"), "aws4_request")
        return (access == ACCESS and region == REGION and "host" in names and "x-amz-date" in names and
                hmac.compare_digest(hmac.new(key, text.encode(), hashlib.sha256).hexdigest(), parts["Signature"]))

    def serve(self):
        s = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        probe = "/berth-probe/" in self.path    # berthd asks whether the store is good: of no test's requests
        if s.hold and not probe:
            s.hold(self.command, self.path)
        with s.lock:
            (s.probes if probe else s.requests).append((self.command, self.path))
            if not self.is_signed(body):
                s.unsigned += 1
                return self.answer(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
            if s.fail and s.fail(self.command, self.path):
                return self.answer(503, b"<Error><Code>SlowDown</Code></Error>")
            path, _, query = self.path.partition("?")
            name = urllib.parse.unquote(path).lstrip("/")
            own = self.headers["Host"].partition(":")[0].removesuffix("localhost").rstrip(".")
            s.hosts.add(self.headers["Host"])
            if own and not own[0].isdigit():
                name = f"{own}/{name}"
            bucket, _, key = name.partition("/")
            if bucket != "bucket":
                return self.answer(404)
            if not key:
                return self.list(dict(urllib.parse.parse_qsl(query)))
            if self.command == "PUT":
                s.objects[key] = body
                return self.answer(200)
            if self.command == "DELETE":
                s.objects.pop(key, None)
                return self.answer(204)
            if key not in s.objects:
                return self.answer(404)
            return self.answer(200, s.objects[key], len(s.objects[key]))

    def list(self, query):
        after = query.get("continuation-token", "")
        keys = sorted(k for k in self.server.objects if k.startswith(query["prefix"]) and k > after)
        page, more = keys[:3], len(keys) > 3
        body = "".join(f"<Contents><Key>{k}</Key></Contents>" for k in page)
        if more:
            body += f"<NextContinuationToken>{page[-1]}</NextContinuationToken>"
        self.answer(200, f"<?xml version='1.0'?><ListBucketResult>{body}</ListBucketResult>".encode())

    do_GET = do_PUT = do_HEAD = do_DELETE = serve


class S3(http.server.ThreadingHTTPServer):
    """with S3() as s3: s3.url, s3.objects"""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.objects, self.requests, self.probes, self.unsigned, self.fail = threading.Lock(), {}, [], [], 0, None
        self.hosts = set()
        self.hold = None        # called with method and path before a request is answered; others go on meanwhile
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *unused):
        self.shutdown()
        self.server_close()


class Held:
    """with Held(s3, lambda method, path: ...) as held: the first request that matches waits until held.go is set."""

    def __init__(self, s3, matches):
        self.s3, self.matches = s3, matches
        self.taken, self.came, self.go = threading.Lock(), threading.Event(), threading.Event()

    def __call__(self, method, path):
        if self.matches(method, path) and self.taken.acquire(blocking=False):
            self.came.set()
            assert self.go.wait(60 * b.SLOW)

    def __enter__(self):
        self.s3.hold = self
        return self

    def __exit__(self, *unused):
        self.go.set()
        self.s3.hold = None
