# SPDX-License-Identifier: Apache-2.0
"""berthd: every route end to end, its document, wrong requests, its death and return."""
import io
import json
import os
import re
import signal
import socket
import subprocess
import tarfile
import threading

import berthtest as b
import daemon
import proc
from daemon import Daemon
from daytonawire import DAYTONA

COST = 23


def box_url(box, rest=""):
    return f"/v1/sandboxes/{box}{rest}"


# ---- berthd itself

def test_health_version_metrics_and_readiness():
    with Daemon() as d:
        assert d.good("GET", "/healthz")["status"] == "ok"
        assert d.good("GET", "/readyz") == {"status": "ready"}
        assert d.good("GET", "/v1/version")["version"] == b.berth("version", ok=True).out.split()[1]
        box = d.create("metered")
        d.exec(box, "true")
        text = d.get("/metrics").body.decode()
        for name, value in (("sandboxes_running", 1), ("creates_total", 1), ("execs_total", 1), ("sandboxes_stopped", 0)):
            assert re.search(rf"^berth_{name} {value}$", text, re.M), text
        for line in text.splitlines():
            assert re.fullmatch(r'# (HELP|TYPE) berth_\w+ .+|berth_\w+(\{\w+="[\w.+]+"\})? \d+(\.\d+)?', line), line
        df = d.good("GET", "/v1/system/df")
        assert df["sandboxes"]["running"] == 1 and df["state_dir"]["total_bytes"] > 0
        assert "findings" in d.good("GET", "/v1/system/doctor")
        assert d.good("POST", "/v1/system/gc")["cleared"] == 0


def buckets(found, name):
    return [v for k, v in found.items() if k.startswith(f"berth_{name}_seconds_bucket{{")]


def test_latencies_are_histograms_with_a_bounded_number_of_series():
    with Daemon() as d:
        first = daemon.metrics(d)
        box = d.create("timed")
        for _ in range(3):
            d.exec(box, "true")
        d.exec(box, "sleep", "0.06")
        d.good("POST", "/v1/run", {"image": "host", "argv": ["true"]})
        assert d.post("/v1/run", {"image": "nosuch", "argv": ["true"], "pull": "never"}).status >= 400
        b.wait_for(lambda: daemon.metrics(d)["berth_run_seconds_count"] == 1, 20, "the end of the run's request")
        found = daemon.metrics(d)
        for name, count in (("create", 1), ("exec", 4), ("run", 1)):
            assert first[f"berth_{name}_seconds_count"] == 0 and found[f"berth_{name}_seconds_count"] == count, (name, found)
        for name in ("create", "exec", "run", "http_request"):
            counts = buckets(found, name)
            assert counts == sorted(counts) and counts[-1] == found[f"berth_{name}_seconds_count"] and len(counts) == 17, (name, counts)
            assert found[f"berth_{name}_seconds_sum"] > 0, name
        assert found["berth_http_request_seconds_count"] >= 7
        # what took 60 ms is in no bucket below 50 ms
        assert found['berth_exec_seconds_bucket{le="0.05"}'] <= 3, found
        assert found["berth_exec_seconds_sum"] >= 0.06, found
        assert set(found) == set(first), "series that use makes"


def test_promtool_has_nothing_to_say_about_the_metrics():
    daemon.need_promtool()
    with Daemon() as d:
        box = d.create("checked")
        d.exec(box, "true")
        daemon.promtool_is_content(d)


def test_the_document_has_every_route_and_only_known_words():
    """Routes are read from the tables' source: one that the document lacks is an error."""
    with Daemon() as d:
        doc = d.get("/openapi.json").json
    assert doc["openapi"].startswith("3.0")
    source = ""
    folder = os.path.join(b.TOP, "manager", "api")
    for name in sorted(os.listdir(folder)):
        if name.startswith("route_"):
            text = open(os.path.join(folder, name)).read()
            for word, value in re.findall(r'#define (\w+) ("/[^"]*")', text):
                text = re.sub(rf'\b{word}\b(?!\s+"/v1)', value, text)
            source += re.sub(r'"\s+"', "", text)
    routes = re.findall(r'\{\s*"(GET|POST|PUT|PATCH|DELETE)",\s*"(/[^"]+)"', source)
    assert len(routes) > 45, routes
    documented = {(m.upper(), p) for p, item in doc["paths"].items() for m in item}
    for method, pattern in routes:
        assert (method, pattern.replace("...}", "}")) in documented, (method, pattern)
    names = doc["components"]["schemas"]
    for path, item in doc["paths"].items():
        for method, op in item.items():
            assert op["summary"] and "default" in op["responses"], path
            in_path = [p["name"] for p in op["parameters"] if p["in"] == "path"]
            assert in_path == re.findall(r"\{(\w+)\}", path), path
            for ref in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(op)):
                assert ref in names, (path, ref)


def test_check_config_and_wrong_configurations():
    d = Daemon(wait=False)

    def check(config, tokens=None, mode=0o600):
        b.write(d.config_path, config, 0o600)
        if tokens is not None:
            b.write(d.tokens_path, tokens, mode)
        r = subprocess.run([daemon.BERTHD, "--check-config"], env=d.environment(), capture_output=True, text=True)
        return r.returncode, r.stdout + r.stderr

    with_tokens = f'[daemon]\ntoken_file = "{d.tokens_path}"\n'
    assert check("[daemon]\n")[0] == 0
    code, text = check(with_tokens, f"a {daemon.TOKEN} admin\nb {daemon.OTHER}\n")
    assert code == 0 and "2 tokens" in text, text
    for config, tokens, mode, words in (
            ("[daemon]\nnosuch = 1\n", None, 0, "unknown key"),
            ('[daemon]\nlisten = "0.0.0.0:80"\n', None, 0, "loopback"),
            ('[daemon]\nlisten = "127.0.0.1"\n', None, 0, "ADDRESS:PORT"),
            ('[daemon]\nlisten = "127.0.0.1:99999"\n', None, 0, "port"),
            ('[daemon]\nlisten = "127.0.0.1:7423"\n', None, 0, "token"),
            ('[daemon]\nlisten = "[::]:7423"\n', None, 0, "loopback"),
            (with_tokens, f"a {daemon.TOKEN}\n", 0o644, "read by others"),
            (with_tokens, "a short\n", 0o600, "22"),
            (with_tokens, f"a {daemon.TOKEN} boss\n", 0o600, "NAME TOKEN [admin]"),
            (with_tokens, f"A/b {daemon.TOKEN}\n", 0o600, "malformed"),
            (with_tokens, f"a {daemon.TOKEN}\nb {daemon.OTHER}\nc {daemon.TOKEN} admin\n", 0o600, "line 3 has the token of 'a'"),
            (with_tokens, "a sha256:12\n", 0o600, "64 hexadecimal")):
        code, text = check(config, tokens, mode)
        assert code != 0 and words in text and daemon.TOKEN not in text, (config, text)
    os.unlink(d.tokens_path)
    code, text = check(with_tokens)
    assert code != 0 and "No such file" in text
    r = subprocess.run([daemon.BERTHD, "--nosuch"], capture_output=True, text=True)
    assert r.returncode == 2 and "usage" in r.stderr


# ---- sandboxes

def test_the_life_of_a_sandbox():
    with Daemon() as d:
        box = d.create("first", memory="128m", env=["A=1", "B=2"])
        seen = d.good("GET", box_url("first"))
        assert seen["id"] == box and seen["status"] == "running" and seen["memory_limit_bytes"] == 128 << 20, seen
        assert [s["id"] for s in d.good("GET", "/v1/sandboxes")["sandboxes"]] == [box]
        assert d.exec(box, "sh", "-c", "echo $A$B")["stdout"] == "12\n"
        assert d.good("GET", box_url(box, "?attest=true"))["attest"]["capabilities"]
        assert d.good("GET", box_url(box, "/stats"))["memory_bytes"] > 0
        assert any("init" in p["command"] for p in d.good("GET", box_url(box, "/top"))["processes"])
        assert d.good("POST", box_url(box, "/pause")) == {"id": box, "paused": True}
        for rest, body in (("/exec", {"argv": ["true"]}), ("/sessions/s/run", {"text": "true"}), ("/files/rm", {"paths": ["/x"]})):
            r = d.post(box_url(box, rest), body)
            assert r.status == 409 and "paused" in r.json["error"]["message"], r
        assert d.good("POST", box_url(box, "/resume")) == {"id": box, "paused": False}
        assert d.good("POST", box_url(box, "/rename"), {"name": "second"})["name"] == "second"
        assert d.request("PATCH", box_url("second"), {"memory": "64m", "pids": 50}).status == 200
        assert d.good("GET", box_url("second"))["memory_limit_bytes"] == 64 << 20
        d.good("PUT", box_url(box, "/files?path=/root/kept"), b"kept")
        assert d.delete(box_url(box)).status == 409
        assert d.good("POST", box_url(box, "/stop"))["status"] == "stopped"
        assert d.good("POST", box_url(box, "/stop"))["status"] == "stopped"
        assert d.post(box_url(box, "/exec"), {"argv": ["true"]}).status == 409
        assert d.good("GET", "/v1/sandboxes?running=true") == {"sandboxes": []}
        assert d.good("GET", box_url(box))["status"] == "stopped"
        assert d.good("POST", box_url(box, "/start"))["status"] == "running"
        assert d.get(box_url(box, "/files?path=/root/kept")).body == b"kept"
        assert d.good("POST", box_url(box, "/restart"))["status"] == "running"
        assert d.good("POST", box_url(box, "/kill"))["status"] == "stopped"
        assert d.good("DELETE", box_url(box)) == {"id": box, "removed": True}
        assert d.get(box_url(box)).status == 404
        assert d.good("GET", "/v1/sandboxes") == {"sandboxes": []}


def test_wait_ends_when_the_sandbox_does():
    with Daemon() as d:
        box = d.create()
        got = []
        t = threading.Thread(target=lambda: got.append(Daemon.request(d, "GET", box_url(box, "/wait"), timeout=50, check=False)))
        assert d.get(box_url(box, "/wait?timeout_ms=50")).status == 504
        t.start()
        b.berth("stop", box, ok=True)
        t.join(20 * b.SLOW)
        assert got and got[0].status == 200, got


def test_berthd_and_the_command_line_see_each_others_sandboxes():
    with Daemon() as d:
        by_cli = b.berth("create", "--name", "cli", "host", ok=True).out.strip()
        by_http = d.create("http")
        assert {s["id"] for s in d.good("GET", "/v1/sandboxes")["sandboxes"]} == {by_cli, by_http}
        assert b.berth("exec", "http", "echo", "x", ok=True).out == "x\n"
        assert d.exec("cli", "echo", "y")["stdout"] == "y\n"


# ---- commands

def test_one_whose_keeper_was_killed_is_stopped_to_the_first_who_asks():
    with Daemon() as d:
        for path in ("/v1/sandboxes", "/v1/sandboxes/box"):
            d.create("box")
            pid = json.loads(b.berth("inspect", "box", ok=True).out)["supervisor_pid"]
            os.kill(pid, signal.SIGKILL)
            b.wait_for(lambda: (proc.stat(pid) or "Z")[0] == "Z", what="the keeper to end")
            a = d.good("GET", path)
            found = a["sandboxes"] if path == "/v1/sandboxes" else [a]
            assert [s["status"] for s in found] == ["stopped"], a
            b.berth("rm", "box", ok=True)


def test_exec_in_one_reply():
    with Daemon() as d:
        box = d.create()
        r = d.exec(box, "sh", "-c", "cat; echo e >&2; exit 3", stdin="in\n")
        assert (r["stdout"], r["stderr"], r["exit_status"], r["verdict"]["cause"]) == ("in\n", "e\n", 3, "exit"), r
        assert d.exec(box, "printf", r"\377\000")["stdout_hex"] == "ff00"
        assert d.exec(box, "cat", stdin_hex="00ff")["stdout_hex"] == "00ff"
        r = d.exec(box, "sh", "-c", "head -c 100000 /dev/zero | tr '\\0' a; echo end", max_output_bytes=100)
        assert r["stdout"].endswith("end\n") and r["stdout_dropped"] == 100004 - 100 and r["stdout_head_bytes"] == 50, r
        r = d.exec(box, "sleep", "60", timeout_ms=50, grace_ms=0)
        assert r["exit_status"] == 124 and r["verdict"]["timed_out"], r
        assert d.exec(box, "sh", "-c", "id -u; pwd; echo $X", user="1", workdir="/tmp", env=["X=y"])["stdout"] == "1\n/tmp\ny\n"
        reply = d.post(box_url(box, "/exec"), {"argv": ["/nosuch"]})
        assert reply.status == 404 and reply.json["error"]["code"] == "command-not-found", reply
        assert d.post(box_url(box, "/exec"), {"argv": ["/etc"]}).status == 422
        # a background process that keeps the pipe does not keep the reply
        assert d.exec(box, "sh", "-c", "sleep 1000 & echo done")["stdout"] == "done\n"
        big = d.exec(box, "cat", stdin="x" * 900000)
        assert big["stdout"] == "x" * 900000
        assert d.exec(box, "echo", *["y" * 100000] * 3)["stdout_bytes"] == 300003


def test_exec_as_it_comes():
    with Daemon() as d:
        box = d.create()
        r = d.post(box_url(box, "/exec"), {"argv": ["sh", "-c", "echo a; echo b >&2; printf '\\303'; sleep 0.05; printf '\\244'"],
                                           "stream": True})
        lines = daemon.events(r.body)
        assert r.headers["content-type"] == "application/x-ndjson"
        assert lines[0]["started"] and lines[-1]["exit_status"] == 0, lines
        assert "".join(x.get("data", "") for x in lines if x.get("stream") == "stdout") == "a\nä"
        assert "".join(x.get("data", "") for x in lines if x.get("stream") == "stderr") == "b\n"
        r = d.post(box_url(box, "/exec"), {"argv": ["echo", "hi"], "stream": True}, headers={"Accept": "text/event-stream"})
        assert r.headers["content-type"] == "text/event-stream"
        assert b'event: stdout\ndata: {"stream":"stdout","data":"hi\\n"}\n\n' in r.body, r
        # stdin by a second request, both ways at once
        body = json.dumps({"argv": ["cat"], "stream": True, "stdin_open": True}).encode()
        with d.raw_socket() as s:
            s.sendall(b"POST " + box_url(box, "/exec").encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body) + body)
            f = s.makefile("rb")
            while not (line := f.readline()).startswith(b'{"command"'):
                pass
            url = box_url(box, "/commands/" + json.loads(line)["command"] + "/stdin")
            for word in (b"one\n", b"two\n"):
                assert d.good("POST", url, word) == {"sent": 4}
                while word[:3] not in f.readline():
                    pass
            d.good("POST", url + "?eof=true", b"")
            while b'"verdict"' not in f.readline():
                pass
        assert d.post(box_url(box, "/exec"), {"argv": ["cat"], "stdin_open": True}).status == 400
        # an error has a status of its own, though events were asked for
        assert d.post(box_url(box, "/exec"), {"argv": ["/nosuch"], "stream": True}).status == 404


def test_a_command_ends_with_its_client():
    with Daemon() as d:
        box = d.create()
        body = json.dumps({"argv": ["sleep", "1000"]}).encode()
        with d.raw_socket() as s:
            s.sendall(b"POST " + box_url(box, "/exec").encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body) + body)
            b.wait_for(lambda: "sleep 1000" in json.dumps(d.good("GET", box_url(box, "/top"))), 10, "the command")
        b.wait_for(lambda: "sleep 1000" not in json.dumps(d.good("GET", box_url(box, "/top"))), 10, "its end")


def test_detached_commands():
    with Daemon() as d:
        box = d.create()
        c = d.good("POST", box_url(box, "/exec"), {"argv": ["sh", "-c", "cat; exit 5"], "detach": True})["command"]
        url = box_url(box, "/commands/" + c)
        assert d.good("GET", url)["state"] == "running"
        assert [x["command"] for x in d.good("GET", box_url(box, "/commands"))["commands"]] == [c]
        assert d.get(url + "/wait?timeout_ms=30").status == 504
        assert d.good("POST", url + "/stdin", b"one\n") == {"sent": 4}
        b.wait_for(lambda: d.good("GET", url + "/output")["data"] == "one\n", 10, "the output")
        assert d.good("POST", url + "/stdin?eof=true", iter([b"two", b"\n"])) == {"sent": 4}     # chunked
        assert d.good("GET", url + "/wait")["verdict"]["exit_code"] == 5
        assert d.get(url + "/output?raw=true&from=2").body == b"e\ntwo\n"
        out = d.good("GET", url + "/output?from=4&max=2")
        assert (out["data"], out["next"], out["ended"]) == ("tw", 6, True), out
        lines = daemon.events(d.get(url + "/follow?from=4").body)
        assert lines[0]["data"] == "two\n" and lines[-1]["exit_status"] == 5
        assert d.good("DELETE", url) == {"forgotten": True}
        assert d.get(url).status == 404 and d.get(url + "/follow").status == 404
        c = d.good("POST", box_url(box, "/exec"), {"argv": ["sleep", "100"], "detach": True})["command"]
        url = box_url(box, "/commands/" + c)
        assert d.delete(url).status == 409
        assert d.good("POST", url + "/signal", {"signal": "SIGKILL", "all": True}) == {"signalled": True}
        assert d.good("GET", url + "/wait")["verdict"]["cause"] in ("killed-by", "signal")
        c = d.good("POST", box_url(box, "/exec"), {"argv": ["sh", "-c", "stty size; read x; stty size"], "detach": True, "tty": True,
                                                   "rows": 10, "cols": 20})["command"]
        url = box_url(box, "/commands/" + c)
        b.wait_for(lambda: "10 20" in d.good("GET", url + "/output")["data"], 10, "the first size")
        assert d.good("POST", url + "/resize", {"rows": 30, "cols": 40}) == {"resized": True}
        d.good("POST", url + "/stdin", b"\n")
        b.wait_for(lambda: "30 40" in d.good("GET", url + "/output")["data"], 10, "the second size")
        # what it was sent may have ended it before the end of stdin comes: no error; data that nobody reads is one
        c = d.good("POST", box_url(box, "/exec"), {"argv": ["true"], "detach": True})["command"]
        url = box_url(box, "/commands/" + c)
        assert d.good("GET", url + "/wait")["verdict"]["exit_code"] == 0
        assert d.good("POST", url + "/stdin?eof=true", b"") == {"sent": 0}
        assert d.post(url + "/stdin?eof=true", b"x").status == 400


def test_following_a_command_that_runs():
    with Daemon() as d:
        box = d.create()
        c = d.good("POST", box_url(box, "/exec"), {"argv": ["sh", "-c", "while read x; do echo got $x; done"], "detach": True})["command"]
        url = box_url(box, "/commands/" + c)
        with d.raw_socket() as s:
            s.sendall(f"GET {url}/follow HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n".encode())
            f = s.makefile("rb")
            for word in ("a", "b"):
                d.good("POST", url + "/stdin", word.encode() + b"\n")
                while b"got " + word.encode() not in f.readline():
                    pass
            d.good("POST", url + "/stdin?eof=true", b"")
            while b"event: verdict" not in f.readline():
                pass


def test_sessions():
    with Daemon() as d:
        box = d.create()
        main = box_url(box, "/sessions/main")
        r = d.good("POST", main + "/run", {"text": "cd /tmp; A=7; echo out"})
        assert (r["output"], r["exit_status"], r["fresh_shell"]) == ("out\n", 0, True), r
        r = d.good("POST", main + "/run", {"text": "echo $A $PWD; false"})
        assert (r["output"], r["exit_status"], r["fresh_shell"]) == ("7 /tmp\n", 1, False), r
        r = d.good("POST", main + "/run", {"text": "head -c 20000 /dev/zero | tr '\\0' z"})
        assert r["output"] == "z" * 20000
        r = d.good("POST", box_url(box, "/sessions/apart/run"), {"text": "echo o; echo e >&2", "split": True})
        assert (r["output"], r["stderr"]) == ("o\n", "e\n"), r
        r = d.good("POST", main + "/run", {"text": "read x; echo got $x", "timeout_ms": 20000})
        assert r["status"] == "awaiting-input" and r["exit_status"] == 123, r
        assert d.post(main + "/run", {"text": "true"}).status == 409
        assert d.good("POST", main + "/input", b"hello\n") == {"sent": 6}
        assert d.good("POST", main + "/wait")["output"] == "got hello\n"
        r = d.good("POST", main + "/run", {"text": "sleep 60", "timeout_ms": 50, "on_timeout": "detach"})
        assert r["status"] == "detached" or r["exit_status"] == 123, r
        assert d.good("POST", main + "/signal", {"signal": 2}) == {"signalled": True}
        assert d.good("POST", main + "/wait")["verdict"]
        d.good("POST", main + "/run", {"text": "sleep 60", "timeout_ms": 50, "on_timeout": "detach"})
        assert d.good("POST", main + "/cancel") == {"cancelled": True}
        names = {s["session"] for s in d.good("GET", box_url(box, "/sessions"))["sessions"]}
        assert names == {"main", "apart"}
        assert d.good("DELETE", main) == {"closed": True}
        assert d.delete(main).status == 404
        assert d.post(box_url(box, "/sessions/No%20Name/run"), {"text": "true"}).status == 400


def test_commands_of_one_session_take_turns():
    with Daemon() as d:
        box = d.create()
        url = box_url(box, "/sessions/main/run")
        got = {}

        def post(name, text, **more):
            # a timeout of its own: a connection of its own
            timeout = 100 + len(threads) + len(waiting)
            t = threading.Thread(target=lambda: got.update({name: d.post(url, {"text": text, **more}, timeout=timeout)}))
            t.start()
            return t

        def queued():
            return [(s["busy"], s["queued"]) for s in d.good("GET", box_url(box, "/sessions"))["sessions"]]

        threads, waiting = [], []
        threads.append(post("first", "until [ -e /tmp/go ]; do sleep 0.01; done; echo first"))
        b.wait_for(lambda: queued() == [(True, 0)], 20, "the command that runs")
        threads.append(post("second", "echo second"))
        b.wait_for(lambda: queued() == [(True, 1)], 20, "the one that waits")
        left = d.connection(timeout=99)
        left.request("POST", url, json.dumps({"text": "touch /tmp/ran"}),
                     {"Content-Type": "application/json", "Authorization": "Bearer " + daemon.TOKEN})
        b.wait_for(lambda: queued() == [(True, 2)], 20, "the one that will leave")
        left.close()
        b.wait_for(lambda: queued() == [(True, 1)], 20, "the queue without the client that left")
        for more in ({"no_wait": True}, {"queue_ms": 50}):
            r = d.post(url, {"text": "true", **more})
            assert r.status == 409 and r.json["error"]["code"] == "busy", r
        for i in range(15):
            waiting.append(post(i, "true"))
        b.wait_for(lambda: queued() == [(True, 16)], 20, "the full queue")
        r = d.post(url, {"text": "true"})
        assert r.status == 429 and r.json["error"]["code"] == "limit", r
        d.exec(box, "touch", "/tmp/go")
        for t in threads + waiting:
            t.join(30 * b.SLOW)
        assert got["first"].json["output"] == "first\n" and "queued_ms" not in got["first"].json, got["first"]
        assert got["second"].json["output"] == "second\n" and got["second"].json["queued_ms"] > 0, got["second"]
        assert all(got[i].status == 200 for i in range(15)), got
        assert d.good("POST", url, {"text": "ls /tmp/ran 2>/dev/null; echo $?"})["output"] == "2\n"


# ---- files

def test_files():
    with Daemon() as d:
        box = d.create()
        files = box_url(box, "/files")
        data = os.urandom(3 << 20)
        assert d.good("PUT", files + "?path=/tmp/d/big&parents=true&mode=600", data) == {"written": len(data), "size": len(data)}
        assert d.get(files + "?path=/tmp/d/big").body == data
        assert d.get(files + "?path=/tmp/d/big&limit=1000").status == 429
        assert d.good("PUT", files + "?path=/tmp/d/big&append=true", iter([b"x", b"y"]))["size"] == len(data) + 2
        st = d.good("GET", files + "/stat?path=/tmp/d/big")
        assert (st["mode"], st["size"], st["type"]) == ("0600", len(data) + 2, "file"), st
        d.good("PUT", files + "?path=/tmp/d/empty", b"")
        assert d.get(files + "?path=/tmp/d/empty").body == b""
        assert d.good("POST", files + "/mkdir", {"paths": ["/tmp/d/x/y"], "parents": True, "mode": "700"}) == {"done": True}
        assert [x["name"] for x in d.good("GET", files + "/list?path=/tmp/d")["entries"]] == ["big", "empty", "x"]
        assert d.good("POST", files + "/mv", {"from": "/tmp/d/x", "to": "/tmp/d/z"}) == {"done": True}
        assert d.get(files + "/stat?path=/tmp/d/x").status == 404
        assert d.good("POST", files + "/rm", {"paths": ["/tmp/d/z"], "recursive": True}) == {"done": True}
        assert d.post(files + "/rm", {"paths": ["/tmp/d/z"]}).status == 404
        assert d.good("POST", files + "/rm", {"paths": ["/tmp/d/z"], "force": True}) == {"done": True}
        assert d.get(files + "?path=/tmp/d/none").status == 404
        assert d.get(files + "?path=/tmp/d").status in (400, 409, 422)
        assert d.put(files + "?path=/proc/version", b"x").status >= 400
        # names with what must be escaped
        name = "/tmp/d/ä b&c%"
        from urllib.parse import quote
        d.good("PUT", files + "?path=" + quote(name), b"odd")
        assert d.get(files + "?path=" + quote(name)).body == b"odd"


def test_archives():
    with Daemon() as d:
        box = d.create()
        files = box_url(box, "/files")
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as t:
            for name, content in (("tree/a", b"1" * 100000), ("tree/sub/b", b"2")):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                t.addfile(info, io.BytesIO(content))
        d.good("POST", files + "/mkdir", {"paths": ["/tmp/in"]})
        assert d.good("PUT", files + "/archive?path=/tmp/in", made.getvalue())["bytes"] == 100001
        reply = d.get(files + "/archive?path=/tmp/in/tree")
        assert reply.headers["content-type"] == "application/x-tar"
        with tarfile.open(fileobj=io.BytesIO(reply.body)) as t:
            found = {m.name: t.extractfile(m).read() for m in t if m.isfile()}
        assert found == {"tree/a": b"1" * 100000, "tree/sub/b": b"2"}
        assert d.get(files + "/archive?path=/tmp/none").status == 404
        assert d.put(files + "/archive?path=/tmp/in", b"this is not a tar" * 100).status >= 400
        # an entry that would land outside is refused in the sandbox
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as t:
            info = tarfile.TarInfo("../../../etc/planted")
            t.addfile(info, io.BytesIO(b""))
        d.put(files + "/archive?path=/tmp/in", made.getvalue())
        assert d.get(files + "/stat?path=/etc/planted").status == 404
        assert not os.path.exists("/etc/planted")


def test_images():
    with Daemon() as d:
        assert d.good("GET", "/v1/images") == {"images": []}
        rootfs = b.busybox_rootfs()
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as t:
            t.add(rootfs, ".")
        d.good("POST", "/v1/images/import?name=tiny", made.getvalue())
        assert [i["name"] for i in d.good("GET", "/v1/images")["images"]] == ["tiny:latest"]
        assert d.good("GET", "/v1/images/inspect?ref=tiny")["name"] == "tiny:latest"
        box = d.good("POST", "/v1/sandboxes", {"image": "tiny"})["id"]
        assert d.exec(box, "/bin/echo", "hi")["stdout"] == "hi\n"
        d.good("DELETE", box_url(box, "?force=true"))
        assert d.good("DELETE", "/v1/images?ref=tiny") == {"removed": True}
        assert d.delete("/v1/images?ref=tiny").status == 404
        assert d.get("/v1/images/inspect?ref=--help").status in (400, 404)
        assert d.post("/v1/sandboxes", {"image": "nosuch", "options": {"pull": "never"}}).status == 404
        assert d.post("/v1/sandboxes", {"image": "localhost:1/nosuch"}, token=daemon.TENANT).status == 404     # no tenant makes us fetch
        assert d.post("/v1/images/import?name=bad", b"no archive").status >= 400
        d.good("POST", "/v1/images/gc")


def test_faults_of_the_caller_are_not_500():
    def archive(*members):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as t:
            for name, data in members:
                one = tarfile.TarInfo(name)
                one.size = len(data)
                t.addfile(one, io.BytesIO(data))
        return out.getvalue()

    with Daemon() as d:
        box = d.create(disk="8m")
        files = box_url(box, "/files")
        d.exec(box, "sh", "-c", "mkdir /root/d && ln -s /tmp /root/d/link && echo > /root/file && ln -s loop /root/loop && "
                                 "cp /bin/sleep /root/program")
        d.post(box_url(box, "/exec"), {"argv": ["/root/program", "1000"], "detach": True})
        big = b"x" * (12 << 20)
        for status, code, path, body in (
                (507, "disk-full", "?path=/root/big", big), (507, "disk-full", "/archive?path=/root/d", archive(("big", big))),
                (400, "invalid", "?path=/root/" + "n" * 300, b"x"), (404, "not-found", "?path=/root/file/below", b"x"),
                (400, "invalid", "/archive?path=/root/file", archive(("x", b"x"))),
                (400, "invalid", "/archive?path=/root/loop", archive(("x", b"x"))),
                (403, "denied", "/archive?path=/root/d", archive(("link/x", b"x"))),
                (409, "busy", "?path=/root/program&append=true", b"x")):    # it runs
            r = d.put(files + path, body)
            assert r.status == status and r.json["error"]["code"] == code, (path, r)
        r = d.post(files + "/mv", {"from": "/root/d", "to": "/root/d/below"})
        assert r.status == 400 and r.json["error"]["code"] == "invalid", r
        # larger than a program can be given, and larger than a file can be
        for path, request in (("/v1/sandboxes", {"image": "host", "options": {"env": ["A=" + "x" * 200_000]}}),
                              ("/v1/sandboxes", {"image": "host", "options": {"disk": "100t"}}),
                              ("/create", {"environment": {"A": "x" * 200_000}})):
            r = d.post(path, request)
            assert r.status == 400 and b.TOP.encode() not in r.body, r


def test_an_upload_that_races_is_never_answered_500():
    racers = ("c.syscall(316, -100, b'd', -100, b'l', 2)", "shutil.rmtree('d/sub', 1); os.makedirs('d/sub/deep')",
              "os.unlink('d/x'); os.mkfifo('d/x'); os.unlink('d/x')", "[open('d/' + n, 'w').close() for n in os.listdir('d') if n[0] == '.']")
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as t:
        for name, kind, data, link in (("sub/deep/f", tarfile.REGTYPE, b"1" * 3000, ""), ("x", tarfile.REGTYPE, b"22", ""),
                                       ("sub/l", tarfile.SYMTYPE, b"", "deep"), ("sub/l/g", tarfile.REGTYPE, b"1", "")):
            one = tarfile.TarInfo(name)
            one.type, one.size, one.linkname = kind, len(data), link
            t.addfile(one, io.BytesIO(data))
    with Daemon() as d:
        for racer in racers:
            box = d.create()
            files = box_url(box, "/files")
            d.exec(box, "sh", "-c", "mkdir -p d o/deep; ln -s o l; echo 1 > d/x; echo 1 > o/x")
            again = "\n  ".join(["try:", *("  " + step.strip() for step in racer.split(";")), "except OSError: pass"])
            d.post(box_url(box, "/exec"), {"argv": ["python3", "-c", "import ctypes, os, shutil\nc = ctypes.CDLL(None)\nwhile 1:\n  " + again],
                                           "detach": True})
            for _ in range(25):
                for r in (d.put(files + "?path=d/x", b"z" * 70_000), d.put(files + "?path=d/x&append=true", b"z" * 70_000),
                          d.put(files + "?path=d/sub/deep/f&parents=true", b"z"), d.put(files + "/archive?path=d", made.getvalue())):
                    assert r.status in (200, 400, 403, 404, 409), (racer, r)
            d.delete(box_url(box) + "?force=true")


def test_code_diff_commit_and_archives_of_images():
    with Daemon() as d:
        rootfs = b.busybox_rootfs()
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as t:
            t.add(rootfs, ".")
        d.good("POST", "/v1/images/import?name=tiny", made.getvalue())
        box = d.good("POST", "/v1/sandboxes", {"image": "tiny"})["id"]
        r = d.good("POST", box_url(box, "/code"), {"code": "echo out; echo made > file.txt; exit 3", "lang": "sh"})
        assert (r["stdout"], r["exit_status"]) == ("out\n", 3) and "file.txt" in json.dumps(r["files"]), r
        assert d.post(box_url(box, "/code"), {"code": "x", "lang": "cobol"}).status == 400
        assert d.post(box_url(box, "/code"), {"code": "true", "lang": "sh", "timeout": "soon"}).status == 400
        c = d.good("POST", box_url(box, "/exec"), {"argv": ["/bin/echo", "logged"], "detach": True})["command"]
        b.wait_for(lambda: b"logged" in d.get(box_url(box, "/logs?text=true")).body, 10, "the log")
        entry = json.loads(d.get(box_url(box, f"/logs?source={c}&tail=1")).body)
        assert entry["source"] == c and entry["data"] == "logged\n" and d.get(box_url(box, f"/logs?from={entry['cursor']}")).body == b""
        assert d.get(box_url(box, "/logs?since=never")).status == 400 and d.get(box_url(box, "/logs?tail=x")).status == 400
        assert d.get(box_url(box, "/logs"), token=daemon.OTHER).status == 404 and d.get(box_url("nosuch", "/logs")).status == 404
        d.good("PUT", box_url(box, "/files?path=/etc/new"), b"new")
        assert any("/etc/new" in json.dumps(c) for c in d.good("GET", box_url(box, "/diff"))["changes"])
        assert d.good("POST", box_url(box, "/commit"), {"image": "tiny:new", "options": {"message": "m"}})
        assert d.post(box_url(box, "/commit"), {"image": "tiny:new", "options": {"nosuch": 1}}).status == 400
        d.good("POST", "/v1/images/tag", {"image": "tiny:new", "name": "other:1"})
        assert "other:1" in json.dumps(d.good("GET", "/v1/images"))
        assert d.good("GET", "/v1/images/history?ref=other:1")
        saved = d.get("/v1/images/save?ref=tiny:new")
        assert saved.status == 200 and tarfile.open(fileobj=io.BytesIO(saved.body)).getnames()
        assert d.get("/v1/images/save?ref=nosuch").status == 404
        d.good("DELETE", box_url(box, "?force=true"))
        for ref in ("tiny:new", "other:1"):
            d.good("DELETE", f"/v1/images?ref={ref}")
        d.good("POST", "/v1/images/load", saved.body)
        box = d.good("POST", "/v1/sandboxes", {"image": "tiny:new"})["id"]
        assert d.exec(box, "/bin/cat", "/etc/new")["stdout"] == "new"
        assert d.good("POST", "/v1/images/prune", {"dry-run": True})
        assert d.post("/v1/images/pull", {"ref": "localhost:1/none"}).status >= 400
        assert d.post("/v1/images/pull", {"ref": "--help"}).status >= 400
        assert d.good("GET", box_url(box, "/network"))["mode"] == "none"
        assert d.get(box_url(box, "/network/log")).status in (200, 400, 404, 409)
        assert d.good("GET", "/v1/networks")["networks"][0]["id"] == box
        assert d.good("GET", "/v1/system/config")["sandbox"]["image"]["value"] == "host"


# ---- events

def read_events(f, want):
    """Objects from a stream of lines, until want(list) is true."""
    got = []
    while not want(got):
        line = f.readline()
        assert line, got
        if line.startswith(b"{"):
            got.append(json.loads(line))
    return got


def test_events_of_everybody():
    with Daemon() as d, d.raw_socket() as s:
        s.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        f = s.makefile("rb")
        assert b" 200 " in f.readline()
        while f.readline() != b"\r\n":
            pass
        f.readline()
        assert f.readline() == b"\n"
        box = b.berth("create", "--name", "seen", "host", ok=True).out.strip()
        def types(l):
            return [x["type"] for x in l if x.get("sandbox") == box]
        got = read_events(f, lambda l: "started" in types(l))
        assert types(got)[0] == "created"
        d.exec(box, "true")
        got = read_events(f, lambda l: "request" in types(l))
        assert got[-1]["op"] == "POST /v1/sandboxes/{id}/exec" and got[-1]["command"] == "c1", got
        b.berth("stop", box, ok=True)
        read_events(f, lambda l: "stopped" in types(l))
        b.berth("rm", box, ok=True)
        got = read_events(f, lambda l: "removed" in types(l))
        # a client that comes back with the number of its last event misses none
        with d.raw_socket() as again:
            again.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 0\r\n\r\n")
            replay = read_events(again.makefile("rb"), lambda l: "removed" in types(l))
        assert types(replay) == ["created", "started", "request", "stopped", "removed"], replay


def test_events_of_the_time_when_nobody_listened():
    """A watcher goes, sandboxes come and go, a watcher comes: all of it, in order, with the times of the journal."""
    def watch(d, until, since=None):
        with d.raw_socket() as s:
            s.sendall(b"GET /v1/events%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"" if since is None else b"?since=%d" % since))
            return read_events(s.makefile("rb"), until)

    with Daemon() as d:
        stays = d.create("stays")
        last = watch(d, lambda l: [x for x in l if x["type"] == "started"])[-1]["event"]
        passes = d.create("passes")
        b.berth("stop", "passes", ok=True)
        b.berth("rename", "passes", "passed", ok=True)
        b.berth("rm", "passed", ok=True)
        b.berth("stop", "stays", ok=True)
        got = watch(d, lambda l: ("stopped", stays) in [(x["type"], x["sandbox"]) for x in l], last)
        def of(box):
            return [x["type"] for x in got if x["sandbox"] == box and x["type"] != "request"]
        # a keeper writes after its client has the answer: only the ends of the row are certain
        assert of(stays) == ["stopped"] and of(passes)[0] == "created" and of(passes)[-1] == "removed", got
        assert sorted(of(passes)) == ["created", "removed", "renamed", "started", "stopped"], got
        told = {(x["id"], x["event"]): x["time"] for x in map(json.loads, b.berth("events", "--json", ok=True).out.splitlines())}
        for x in got:
            name = {"created": "create", "started": "start", "renamed": "rename", "removed": "rm"}.get(x["type"])
            assert not name or x["time"] == told[x["sandbox"], name], (x, told)
        # and again, from the number on, with nothing told twice
        b.berth("start", "stays", ok=True)
        more = watch(d, lambda l: ("started", stays) in [(x["type"], x["sandbox"]) for x in l], got[-1]["event"])
        assert [x["type"] for x in more] == ["started"], more
        assert watch(d, lambda l: len(l) == len(got), last) == got
        # watched, a stop and a start that follow each other are both told, and once
        with d.raw_socket() as s:
            s.sendall(b"GET /v1/events?since=%d HTTP/1.1\r\nHost: x\r\n\r\n" % more[-1]["event"])
            f = s.makefile("rb")
            assert b" 200 " in f.readline()
            b.berth("restart", "stays", ok=True)
            b.berth("stop", "stays", ok=True)
            b.berth("rm", "stays", ok=True)
            told = [x["type"] for x in read_events(f, lambda l: "removed" in [x["type"] for x in l])]
        assert told == ["stopped", "started", "stopped", "removed"], (told, b.berth("events", "--json").out.splitlines()[-12:])


def test_events_of_what_a_network_refused():
    with Daemon() as d, d.raw_socket() as s:
        s.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
        f = s.makefile("rb")
        assert b" 200 " in f.readline()
        while f.readline() != b"\r\n":
            pass
        box = d.create(network="egress", **{"allow-host": ["ok.test"]})
        d.exec(box, "curl", "-s", "http://no.test:81/")
        got = {}
        while got.get("type") != "network-denied":
            line = f.readline()
            assert line
            if line.startswith(b"data: {"):
                got = json.loads(line[6:])
        assert got["sandbox"] == box and got["host"] == "no.test" and got["port"] == 81 and "no rule" in got["reason"], got
        assert "cursor" not in got and isinstance(got["event"], int), got
        d.exec(box, "curl", "-s", "http://again.test/")
        while b"again.test" not in f.readline():
            pass


def test_stats_every_second_until_it_stops():
    with Daemon() as d:
        box = d.create()
        with d.raw_socket() as s:
            s.sendall(f"GET {box_url(box, '/stats/watch')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            f = s.makefile("rb")
            rows = 0
            while rows < 2:
                rows += f.readline().startswith(b'{"state":"running"')
            d.good("POST", box_url(box, "/stop"))
            while f.readline() not in (b"0\r\n", b""):
                pass


# ---- wrong requests

def test_unknown_ids_and_names_are_404_everywhere():
    with Daemon() as d:
        box = d.create()
        doc = d.get("/openapi.json").json
        d.document = doc
        tried = 0
        for path, item in doc["paths"].items():
            for method, op in item.items():
                if "{id}" not in path:
                    continue
                body = None
                if "requestBody" in op:
                    body = {"argv": ["true"], "text": "true", "name": "n", "paths": ["/x"], "from": "/x", "to": "/y", "rows": 1, "cols": 1,
                            "memory": "64m", "code": "x", "image": "x", **DAYTONA}
                    schema = op["requestBody"]["content"].get("application/json", {}).get("schema", {})
                    known = doc["components"]["schemas"].get(schema.get("$ref", "").rsplit("/", 1)[-1], {}).get("properties", {})
                    if op["summary"].startswith("Daytona:"):
                        del body["memory"]      # a number of GiB there
                    body = {k: v for k, v in body.items() if k in known} if "application/json" in op["requestBody"]["content"] else b"data"
                query = "&".join(f"{p['name']}=1" for p in op["parameters"] if p["in"] == "query" and p["required"])
                for bad in ("nosuch", "000000000000", "..", "%2e%2e", "a%2fb", "-x", "A", "x" * 100):
                    url = path.replace("{id}", bad).replace("{command}", "c1").replace("{session}", "main")
                    r = d.request(method.upper(), url + ("?" + query if query else ""), body, check=False)
                    # E2B's and Daytona's routes tell an error in their words
                    code = r.json["code"] == 404 if op["summary"].startswith("E2B:") else r.json["statusCode"] == 404 \
                        if op["summary"].startswith("Daytona:") else r.json["error"]["code"]
                    assert r.status == 404 and code, (method, url, r)
                    tried += 1
        assert tried > 250, tried
        for rest in ("/commands/c99", "/commands/x/output", "/commands/c1/wait", "/commands/%20/follow"):
            assert d.get(box_url(box, rest)).status == 404, rest
        assert d.delete(box_url(box, "/sessions/none")).status == 404


def test_wrong_types_methods_and_members():
    with Daemon() as d:
        box = d.create()
        run = box_url(box, "/exec")
        for body in ({}, {"argv": "true"}, {"argv": []}, {"argv": [1]}, {"argv": ["true"], "nosuch": 1}, {"argv": ["true"], "timeout_ms": "5"},
                     {"argv": ["true"], "timeout_ms": -1}, {"argv": ["true"], "timeout_ms": 1.5}, {"argv": ["true"], "env": ["novalue"]},
                     {"argv": ["true"], "workdir": "relative"}, {"argv": ["true"], "stdin_hex": "zz"}, {"argv": ["true"], "tty": True},
                     {"argv": ["true"], "memory_bytes": 1}, {"argv": ["true"], "stream": "yes"}, {"argv": ["true"], "ulimits": ["x"]},
                     {"argv": ["true"], "user": None}, {"argv": None}, {"argv": {"0": "true"}}):
            r = d.post(run, body)
            assert r.status == 400 and r.json["error"]["message"], (body, r)
        for raw in (b"", b"null", b"[]", b"5", b'"x"', b"{", b'{"argv":["true"]} x', b'{"argv":["true"],"argv":["false"]}',
                    b'{"argv":["a\\u0000b"]}', b'{"argv":["\xff"]}', b"[" * 5000):
            r = d.post(run, raw, headers={"Content-Type": "application/json"})
            assert r.status == 400, (raw[:40], r)
        for kind in (None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "multipart/form-data"):
            r = d.post(run, b'{"argv":["true"]}', headers={"Content-Type": kind} if kind else {})
            assert r.status == 415, (kind, r)
        assert d.post(run, b" " * (4 << 20) + b"{}", headers={"Content-Type": "application/json"}).status == 413
        assert d.post(run, iter([b" " * 65536] * 65), headers={"Content-Type": "application/json"}).status == 413
        for method, path, status in (("GET", run, 405), ("PUT", "/healthz", 405), ("HEAD", "/healthz", 405), ("BREW", "/healthz", 405),
                                     ("GET", "/", 404), ("GET", "/v1", 404), ("GET", "/v1/sandboxes/", 404), ("GET", "//healthz", 404),
                                     ("GET", "/v1/sandboxes?nosuch=1", 400), ("GET", "/v1/sandboxes?running=maybe", 400),
                                     ("GET", "/v1/sandboxes?running=true&running=true", 400), ("GET", "/healthz?x", 400),
                                     ("GET", box_url(box, "/files"), 400), ("GET", box_url(box, "/files?path=%00"), 400),
                                     ("GET", box_url(box, "/files?path=%zz"), 400), ("GET", box_url(box, "/commands/c1/output?from=-1"), 400),
                                     ("GET", "/healthz/../v1/version", 404), ("GET", "/v1/%73andboxes", 404),
                                     ("DELETE", box_url(box, "?force=1"), 400)):
            r = d.request(method, path, check=False)
            assert r.status == status, (method, path, r)
        for options in ({"nosuch": 1}, {"memory": "lots"}, {"json": True}, {"help": True}, {"-x": 1}, {"memory=1 ": 1}, {"env": {"A": [1]}},
                        {"memory": None}, {"": 1}):
            r = d.post("/v1/sandboxes", {"options": options})
            assert r.status == 400, (options, r)
        assert d.post("/v1/sandboxes", {"name": "../x"}).status == 400
        assert d.post("/v1/sandboxes", {"image": "--help"}).status in (400, 404)
        assert d.get("/healthz", headers={"X": "y" * 20000}, check=False).status == 431
        # nothing of the request comes back in an error
        canary = "canary7391"
        for path in (f"/{canary}", f"/v1/sandboxes?{canary}=1", box_url(box, f"/{canary}")):
            assert canary.encode() not in d.get(path).body, path
        assert len(d.good("GET", "/v1/sandboxes")["sandboxes"]) == 1


# ---- its end and return

def test_kill_and_return():
    """What was acknowledged lives on without berthd, and the next one finds it."""
    with Daemon() as d:
        box = d.create("survivor")
        c = d.good("POST", box_url(box, "/exec"), {"argv": ["sh", "-c", "echo before; read x; echo after"], "detach": True})["command"]
        d.stop(signal.SIGKILL)
        assert os.path.exists(d.socket)
        assert b.berth("exec", box, "echo", "alive", ok=True).out == "alive\n"
        d.start()
        assert d.good("GET", box_url("survivor"))["status"] == "running"
        url = box_url(box, "/commands/" + c)
        d.good("POST", url + "/stdin?eof=true", b"\n")
        assert d.good("GET", url + "/wait")["verdict"]["exit_code"] == 0
        assert d.get(url + "/output?raw=true").body == b"before\nafter\n"


def test_graceful_end():
    with Daemon() as d:
        box = d.create()
        got = []
        t = threading.Thread(target=lambda: got.append(d.exec(box, "sh", "-c", "sleep 0.5; echo whole")))
        t.start()
        b.wait_for(lambda: "sleep" in b.berth("top", box).out, 10, "the command")
        with d.raw_socket() as idle:
            # one that berthd has taken: what waits to be is reset
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: berth\r\n\r\n")
            assert idle.recv(4096).startswith(b"HTTP/1.1 200")
            d.p.send_signal(signal.SIGTERM)
            t.join(20 * b.SLOW)
            assert got and got[0]["stdout"] == "whole\n", got
            assert d.p.wait(20 * b.SLOW) == 0
            assert idle.recv(10) == b""
        assert not os.path.exists(d.socket)
        assert b.berth("exec", box, "true", ok=True)
        assert "sandboxes live on" in d.log()


def test_the_end_waits_for_a_command_but_not_for_a_stream_of_events():
    with Daemon() as d:
        box = d.create()
        d.exec(box, "mkfifo", "/root/go")
        got = []
        with d.raw_socket() as s:
            s.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in s.recv(4096)
            t = threading.Thread(target=lambda: got.append(d.exec(box, "sh", "-c", "cat /root/go; echo whole")))
            t.start()
            b.wait_for(lambda: "/root/go" in b.berth("top", box).out, 10, "the command")
            d.p.send_signal(signal.SIGTERM)
            f = s.makefile("rb")
            while f.readline() != b"0\r\n":  # the last chunk
                pass
            assert not got and d.p.poll() is None
            b.berth("exec", box, "sh", "-c", "echo now > /root/go", ok=True)
            t.join(20 * b.SLOW)
            assert got and got[0]["stdout"] == "now\nwhole\n", got
            assert d.p.wait(20 * b.SLOW) == 0


def test_a_long_request_does_not_keep_it():
    with Daemon() as d:
        box = d.create()
        with d.raw_socket() as s:
            s.sendall(f"GET {box_url(box, '/wait')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            b.wait_for(lambda: "berth_http_requests_active 2" in d.get("/metrics").body.decode(), 10, "the request")
            d.p.send_signal(signal.SIGTERM)
            assert b" 503 " in s.recv(4096)
            assert d.p.wait(30 * b.SLOW) == 0


def test_one_berthd_a_run_directory():
    with Daemon() as d:
        r = subprocess.run([daemon.BERTHD], env=d.environment(), capture_output=True, text=True, timeout=20 * b.SLOW)
        assert r.returncode != 0 and "another berthd" in r.stderr, r


def test_reload():
    with Daemon(tcp=True) as d:
        new = "ffffffffffffffffffffffffffffffff"
        assert d.get("/healthz", tcp=True, token=new, check=False).status == 401
        b.write(d.tokens_path, f"root {new} admin\n", 0o600)
        d.p.send_signal(signal.SIGHUP)
        b.wait_for(lambda: d.get("/healthz", tcp=True, token=new, check=False).status == 200, 10, "the new token")
        assert d.get("/healthz", tcp=True, token=daemon.TOKEN, check=False).status == 401
        # a broken file changes nothing
        b.write(d.tokens_path, "broken\n", 0o600)
        d.p.send_signal(signal.SIGHUP)
        b.wait_for(lambda: '"what":"reload"' in d.log(), 10, "the complaint")
        assert d.get("/healthz", tcp=True, token=new, check=False).status == 200


def test_an_edit_changes_nothing_before_it_is_accepted():
    """Nor for what berthd starts: berth create and the like read what berthd has accepted."""
    with Daemon(config="[sandbox]\nmemory_limit = \"100m\"\n") as d:
        def limit():
            box = d.create()
            made = d.good("GET", box_url(box))["memory_limit_bytes"] >> 20
            assert d.delete(box_url(box, "?force=true")).status == 200
            return made

        def complaints():
            return d.log().count('"what":"reload"')
        with open(d.config_path) as f:
            good = f.read()
        assert limit() == 100
        elsewhere = b.tmp("elsewhere")
        for edit in ("no TOML at all", "", good.replace("100m", "150m"), good + f'[paths]\nstate_dir = "{elsewhere}"\n', None):
            if edit is None:
                os.unlink(d.config_path)
            else:
                b.write(d.config_path, edit)
            assert limit() == 100, edit
        for edit in ("no TOML at all", good.replace("100m", "1"), good + f'[store]\nurl = "sqlite://{elsewhere}"\n'):
            b.write(d.config_path, edit)
            said = complaints()
            d.p.send_signal(signal.SIGHUP)
            b.wait_for(lambda: complaints() > said, 10, "the complaint")
            assert limit() == 100, edit
        assert d.config_path in d.log() and "berthd.toml.new" not in d.log()
        b.write(d.config_path, good.replace("100m", "150m"))
        d.p.send_signal(signal.SIGHUP)
        b.wait_for(lambda: limit() == 150, 10, "the new limit")
        assert not os.path.exists(elsewhere) and not os.path.exists(os.path.join(b.root(), "run/berthd.toml.new"))


def test_socket_activation():
    d = Daemon(wait=False)
    path = b.tmp("activated.sock")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(8)
    pid_script = 'exec env LISTEN_PID=$$ LISTEN_FDS=1 "$0"'
    with open(d.log_path, "ab") as log:
        d.p = subprocess.Popen(["sh", "-c", "exec 3<&%d; %s" % (listening.fileno(), pid_script), daemon.BERTHD],
                               env=d.environment(), pass_fds=[listening.fileno()], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    d.socket = path
    with d:
        assert d.good("GET", "/healthz")["status"] == "ok"
        assert not os.path.exists(os.path.join(b.root(), "run", "berthd.sock"))
    assert os.path.exists(path)     # systemd's, not ours to remove


def test_an_audit_line_for_every_change_and_none_for_secrets():
    with Daemon(tcp=True) as d:
        box = d.create("audited", env=["SECRET=canary-of-env"])
        d.exec(box, "echo", "canary-of-argv", env=["X=canary-of-exec"], tcp=True, token=daemon.TOKEN)
        d.get(box_url(box))
        def audited():
            return [x for x in d.lines() if x["event"] == "audit"]
        refused = d.get("/v1/sandboxes/canary-of-none/files?path=/canary-of-path", tcp=True, token="wrong" * 8, check=False)
        assert "does not know this token" in refused.json["error"]["message"], refused
        # a line is written when its request is over, which another connection does not wait for
        b.wait_for(lambda: len(audited()) == 3, 10, "the third line")
        d.delete(box_url("nosuch"))
        b.wait_for(lambda: len(audited()) == 4, 10, "the fourth line")
        lines = audited()
        assert [(x["who"], x["op"], x["status"]) for x in lines] == [
            ("uid:0", "POST /v1/sandboxes", 201), ("root", "POST /v1/sandboxes/{id}/exec", 200), ("tcp", "GET -", 401),
            ("uid:0", "DELETE /v1/sandboxes/{id}", 404)], lines
        assert lines[0]["id"] == lines[1]["id"] == box and lines[1]["command"] == "c1"
        # a refused request names its path, without the query, and the peer
        assert lines[2]["path"] == "/v1/sandboxes/canary-of-none/files" and re.fullmatch(r"127\.0\.0\.1:[1-9]\d*", lines[2]["peer"]), lines[2]
        assert not [x for x in lines if x["status"] != 401 and ("path" in x or "peer" in x)], lines
        assert d.get("/metrics", token=daemon.TENANT).status == 403
        b.wait_for(lambda: len(audited()) == 5, 10, "the fifth line")
        assert (audited()[4]["path"], audited()[4]["op"]) == ("/metrics", "GET /metrics") and re.fullmatch(
            r"uid:0 pid:[1-9]\d*", audited()[4]["peer"]), audited()[4]
        text = d.log().replace("canary-of-none", "")
        assert "canary" not in text and daemon.TOKEN not in text and "wrongwrong" not in text


def test_a_working_directory_is_absolute_or_in_the_home_of_the_command():
    with Daemon() as d:
        box = d.create("host")
        for workdir, status, place in (("~", 200, "/root\n"), ("/tmp", 200, "/tmp\n"), ("~bob", 400, None), ("~bob/x", 400, None), ("tmp", 400, None)):
            r = d.post(box_url(box, "/exec"), {"argv": ["pwd"], "workdir": workdir})
            assert r.status == status and (not place or r.json["stdout"] == place), (workdir, r)
        b.berth("rm", "-f", box, ok=True)
