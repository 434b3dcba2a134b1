# SPDX-License-Identifier: Apache-2.0
"""Traces and audit lines of berthd at a collector that takes OTLP/HTTP."""
import http.server
import json
import os
import re
import socket
import subprocess
import threading
import time

import berthtest as b
import daemon
from daemon import Daemon

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Keeps what is posted to it; answers with .status."""

    def __init__(self, port=0):
        self.posts, self.status, self.lock = [], 200, threading.Lock()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with collector.lock:
                    status = collector.status
                    collector.posts.append((status, self.path, dict(self.headers), json.loads(body)))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_port

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def records(self, resources, scopes, records):
        with self.lock:
            return [r for status, _, _, body in self.posts if status == 200 and resources in body
                    for x in body[resources] for s in x[scopes] for r in s[records]]

    def spans(self, name=None):
        return [s for s in self.records("resourceSpans", "scopeSpans", "spans") if name in (None, s["name"])]

    def logs(self):
        return self.records("resourceLogs", "scopeLogs", "logRecords")


def config(port, more=""):
    return f'[otlp]\nendpoint = "http://127.0.0.1:{port}/"\n{more}'


def attributes(record):
    return {a["key"]: next(iter(a["value"].values())) for a in record["attributes"]}


def test_a_request_is_a_span_in_the_trace_of_its_client():
    headers = b.write(b.tmp("headers"), "# of the collector\nAuthorization: Bearer secret\n\n", 0o600)
    with Collector() as c, Daemon(config(c.port, f'headers_file = "{headers}"\nservice_name = "shop"\n')) as d:
        box = d.create("traced")
        r = d.post(f"/v1/sandboxes/{box}/exec", {"argv": ["sh", "-c", "echo $TRACEPARENT"], "env": ["A=1"]},
                   headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
        passed = r.json["stdout"].strip()
        d.get("/healthz")
        assert d.get("/v1/sandboxes/nosuch").status == 404
        name = "POST /v1/sandboxes/{id}/exec"
        b.wait_for(lambda: c.spans(name) and c.spans("GET /v1/sandboxes/{id}") and c.logs(), 30, "the spans")
        (span,) = c.spans(name)
        assert (span["traceId"], span["parentSpanId"], span["kind"]) == (TRACE, PARENT, 2), span
        # what runs in the sandbox goes on with it
        assert passed == f"00-{TRACE}-{span['spanId']}-01" and re.fullmatch("[0-9a-f]{16}", span["spanId"]), (passed, span)
        known = attributes(span)
        assert known["http.response.status_code"] == "200" and known["http.route"] == "/v1/sandboxes/{id}/exec" and known["berth.id"] == box, known
        assert 0 < int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) < 60_000_000_000, span
        (missed,) = c.spans("GET /v1/sandboxes/{id}")
        assert attributes(missed)["http.response.status_code"] == "404" and "status" not in missed and "nosuch" in attributes(missed)["error.message"], missed
        assert not re.match("0+$", missed["traceId"]) and "parentSpanId" not in missed, missed
        assert not c.spans("GET /healthz"), "a probe is no span"
        (log,) = [x for x in c.logs() if x["body"]["stringValue"] == name]
        assert (log["traceId"], log["spanId"], log["severityText"]) == (TRACE, span["spanId"], "INFO"), log
        _, path, sent, body = next(p for p in c.posts if "resourceSpans" in p[3])
        assert path == "/v1/traces" and sent["Authorization"] == "Bearer secret" and sent["Content-Type"] == "application/json", sent
        resource = attributes(body["resourceSpans"][0]["resource"])
        assert resource["service.name"] == "shop" and resource["host.name"], resource
        found = daemon.metrics(d)
        assert found["berth_otlp_spans_sent_total"] >= 3 and found["berth_otlp_spans_dropped_total"] == 0, found


def test_a_trace_that_is_not_sampled_is_passed_on_and_only_audited():
    with Collector() as c, Daemon(config(c.port)) as d:
        box = d.create("quiet")
        argv = {"argv": ["sh", "-c", "echo $TRACEPARENT"]}
        out = d.post(f"/v1/sandboxes/{box}/exec", argv, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"}).json["stdout"]
        assert out.startswith(f"00-{TRACE}-") and out.strip().endswith("-00"), out
        for bad in ("", "00-" + "0" * 32 + f"-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE.upper()}-{PARENT}-01",
                    f"00-{TRACE}-{PARENT}-01-more", f"00-{TRACE}-{PARENT}", "x" * 300, f"00-{TRACE}-{'0' * 16}-01"):
            out = d.post(f"/v1/sandboxes/{box}/exec", argv, headers={"traceparent": bad}).json["stdout"]
            assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01\n", out) and TRACE not in out, (bad, out)
        own = d.post(f"/v1/sandboxes/{box}/exec", dict(argv, env=["TRACEPARENT=mine"])).json["stdout"]
        assert own == "mine\n", own
        b.wait_for(lambda: len(c.spans("POST /v1/sandboxes/{id}/exec")) == 9, 30, "the spans of the others")
        assert all(s["traceId"] != TRACE for s in c.spans())
        # a client does not choose whether it is audited
        b.wait_for(lambda: any(x["traceId"] == TRACE for x in c.logs()), 30, "the audit line of the one that is not sampled")


def test_a_collector_that_is_away_costs_requests_nothing_and_gets_all_later():
    with Collector() as c, Daemon(config(c.port)) as d:
        c.status = 503
        box = d.create("waiting")
        b.wait_for(lambda: c.posts, 30, "the first try")
        b.wait_for(lambda: "traces are not sent" in d.log(), 10, "the word of it")
        c.status = 200
        b.wait_for(lambda: c.spans("POST /v1/sandboxes"), 30, "the second try")
        assert len(c.spans("POST /v1/sandboxes")) == 1 and "traces are sent again" in d.log()
        # what it never takes is not sent again
        c.status = 400
        d.exec(box, "true")
        b.wait_for(lambda: daemon.metrics(d)["berth_otlp_spans_dropped_total"] >= 1, 30, "the count of it")
        c.status = 200
        d.get(f"/v1/sandboxes/{box}")
        b.wait_for(lambda: c.spans("GET /v1/sandboxes/{id}"), 30, "the next")
        assert not c.spans("POST /v1/sandboxes/{id}/exec")


def test_what_waits_is_bounded_and_sent_at_the_end():
    with Collector() as c:
        d = Daemon(config(c.port))
        d.create("last")
        with d:
            pass
        assert c.spans("POST /v1/sandboxes"), "the end sends what waits"
        c.posts.clear()
        c.status = 503
        with Daemon(config(c.port)) as d:
            for _ in range(4200):
                d.request("GET", "/v1/version", check=False)
            found = daemon.metrics(d)
            assert found["berth_otlp_spans_dropped_total"] >= 4200 - 4096, found
            c.status = 200
            b.wait_for(lambda: len(c.spans("GET /v1/version")) == 4096, 60, "all that were kept")


@b.deadline(60)
def test_a_collector_that_never_answers_does_not_hold_the_end_up():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(1)
        d = Daemon(config(s.getsockname()[1]))
        d.create("held")
        before = time.monotonic()
        with d:
            pass
        assert time.monotonic() - before < 20 * b.SLOW


def berthd(d, *words):
    return subprocess.run([daemon.BERTHD, *words], env=d.environment(), capture_output=True, text=True, timeout=30 * b.SLOW)


def test_a_wrong_configuration_is_refused():
    path = b.tmp("headers")
    for text, mode, *words in (("no header\n", 0o600, "Name: value"), ("A: b\n", 0o644, "chmod 600")):
        b.write(path, text, mode)
        os.chmod(path, mode)
        d = Daemon(config(1, f'headers_file = "{path}"\n'), wait=False)
        for words_of in (["--check-config"], []):
            r = berthd(d, *words_of)
            assert r.returncode == 125 and all(w in r.stderr for w in words), r
    d = Daemon('[otlp]\nendpoint = "collector:4318"\n', wait=False)
    r = berthd(d, "--check-config")
    assert r.returncode == 125 and "otlp.endpoint" in r.stderr and "http://" in r.stderr, r
