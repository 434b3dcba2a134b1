#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""berthd_bench.py SOCKET: how fast berthd answers, over one unix socket connection with keep-alive.

Prints a line of JSON: medians and 99th percentiles in ms, calls per second, and creates by 1 and
by 100 clients at once (BENCH_CREATES changes that).
"""
import json
import os
import socket
import sys
import threading
import time

CREATES = int(os.environ.get("BENCH_CREATES", "100"))


class Client:
    def __init__(self, path=None):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.connect(path or sys.argv[1])

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else b""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        self.s.sendall(head.encode() + b"\r\n" + data)
        got = b""
        while b"\r\n\r\n" not in got:
            piece = self.s.recv(65536)
            if not piece:
                raise OSError("closed")
            got += piece
        head, _, rest = got.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        status = int(head.split()[1])
        if fields.get(b"transfer-encoding") == b"chunked":
            while not rest.endswith(b"0\r\n\r\n"):
                rest += self.s.recv(65536)
            rest = b"".join(rest.split(b"\r\n")[1::2])
        while len(rest) < int(fields.get(b"content-length", 0)):
            rest += self.s.recv(65536)
        if status >= 300:
            raise SystemExit(f"{method} {path}: {status} {rest[:300]!r}")
        return json.loads(rest) if rest else None


def figures(times):
    times.sort()
    n = len(times)
    return {"median_ms": round(times[n // 2] * 1e3, 3), "p99_ms": round(times[int(n * 0.99)] * 1e3, 3), "per_s": round(n / sum(times))}


def repeat(n, *call):
    c, times = Client(), []
    for _ in range(n):
        began = time.perf_counter()
        c.call(*call)
        times.append(time.perf_counter() - began)
    return figures(times)


def create_at_once(n):
    times, boxes, go = [], [], threading.Barrier(n)

    def one():
        c = Client()
        go.wait()
        began = time.perf_counter()
        boxes.append(c.call("POST", "/v1/sandboxes", {"options": {"memory": "32m"}})["id"])
        times.append(time.perf_counter() - began)

    threads = [threading.Thread(target=one) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    c = Client()
    for box in boxes:
        c.call("DELETE", f"/v1/sandboxes/{box}?force=true")
    assert len(times) == n, f"{n - len(times)} of {n} creates failed"
    return figures(times)


def main():
    c = Client()
    box = c.call("POST", "/v1/sandboxes", {"options": {}})["id"]
    out = {"exec_true": repeat(500, "POST", f"/v1/sandboxes/{box}/exec", {"argv": ["true"]}),
           "session_true": repeat(500, "POST", f"/v1/sandboxes/{box}/sessions/s/run", {"text": "true"}),
           "status": repeat(3000, "GET", f"/v1/sandboxes/{box}"), "healthz": repeat(3000, "GET", "/healthz")}
    c.call("DELETE", f"/v1/sandboxes/{box}?force=true")
    out["create_1"] = create_at_once(1)
    if CREATES > 1:
        out[f"create_{CREATES}_at_once"] = create_at_once(CREATES)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
