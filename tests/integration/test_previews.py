# SPDX-License-Identifier: Apache-2.0
"""Previews of berthd: addresses in the web for servers in sandboxes.  S61."""
import base64
import json
import os
import signal
import socket
import subprocess
import sys

import berthtest as b
from daemon import BERTHD, OTHER, TENANT, TOKEN
from previews import DOMAIN, NOTHING, WEB, Previews, web

sys.path.insert(0, os.path.join(b.TOP, "clients/python"))
sys.dont_write_bytecode = True
import berth  # noqa: E402

COST = 30


def key(token):
    return [f"X-Berth-Token: {token}"]


def test_a_port_of_a_sandbox_has_an_address_for_who_has_a_token():
    with Previews() as d:
        x = d.create()
        web(x)
        made = d.preview(x)
        label = f"{WEB}-{x}"
        assert made["url"] == f"http://{label}.{DOMAIN}:{d.preview_port}" and made["public"] is False, made
        assert made["signed_url"] == f"{made['url']}/?berth_token={made['token']}", made
        for fields in ((), key("1.2"), key(made["token"][:-1] + "x"), key("9" + made["token"])):
            r = d.ask(label, fields=fields)
            assert r.status == 401 and b"token" in r.body, r
        r = d.ask(label, "/a%20b?x=1&y=%26", fields=key(made["token"]))
        assert r.status == 200 and r.seen["target"] == "/a%20b?x=1&y=%26" and r.seen["method"] == "GET", r
        sent = r.sent_fields
        assert sent["host"] == f"{label}.{DOMAIN}:{d.preview_port}" and sent["x-forwarded-host"] == sent["host"], sent
        assert (sent["x-forwarded-for"], sent["x-forwarded-proto"], sent["connection"]) == ("127.0.0.1", "http", "close"), sent
        assert "x-berth-token" not in sent, sent
        # a token is of one port of one sandbox
        assert d.ask(f"8001-{x}", fields=key(made["token"])).status == 401
        other = d.create()
        assert d.ask(f"{WEB}-{other}", fields=key(made["token"])).status == 401
        assert d.ask(label, "/", "HEAD", key(made["token"])).body == b""
        r = d.ask(label, "/", "POST", key(made["token"]), b"x" * 300_000)
        assert r.status == 200 and r.seen["length"] == 300_000, r
        assert len(d.ask(label, "/big", fields=key(made["token"])).body) == 5_000_000
        assert d.ask("nobody", fields=key(made["token"])).status == 401 and d.ask("x.example.com").status == 421
        # taken back
        d.good("DELETE", f"/v1/sandboxes/{x}/ports/{WEB}/preview")
        assert d.ask(label, fields=key(made["token"])).status == 401
        assert d.ask(label, fields=key(d.preview(x)["token"])).status == 200


def test_a_token_of_the_query_becomes_a_cookie_which_the_sandbox_never_sees():
    with Previews() as d:
        x = d.create()
        web(x)
        token, label = d.preview(x)["token"], f"{WEB}-{x}"
        page = ["Accept: text/html,*/*"]
        r = d.ask(label, f"/p?a=1&berth_token={token}&b=2", fields=page)
        assert r.status == 302 and r.headers["location"] == f"http://{label}.{DOMAIN}:{d.preview_port}/p?a=1&b=2", r
        cookie = r.headers["set-cookie"]
        assert cookie.startswith(f"berth-preview={token};") and "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Domain" not in cookie, cookie
        r = d.ask(label, "/p", fields=[*page, f"Cookie: a=1; berth-preview={token}; b=2"])
        assert r.status == 200 and r.sent_fields["cookie"] == "a=1; b=2", r
        r = d.ask(label, "/p", fields=[f"Cookie: berth-preview={token}"])
        assert r.status == 200 and "cookie" not in r.sent_fields, r
        assert d.ask(label, "/p", fields=[f"Cookie: berth-preview=1.{'0' * 64}; berth-preview={token}"]).status == 200, "one from elsewhere is no harm"
        # a client that is no browser is not sent elsewhere
        r = d.ask(label, f"/p?berth_token={token}")
        assert r.status == 200 and r.seen["target"] == "/p", r
        r = d.ask(label, f"/p?x&berth_token={token}", "POST", body=b"1")
        assert r.status == 200 and r.seen["target"] == "/p?x", r
        r = d.ask(label, "//evil.example/?berth_token=" + token, fields=page)
        assert r.headers["location"].startswith(f"http://{label}.{DOMAIN}"), r


def test_a_port_is_public_and_has_a_name_as_its_owner_says():
    with Previews(tcp=True) as d:
        x = d.create("web", token=TENANT, tcp=True)
        web(x)
        assert d.ask(f"{WEB}-{x}").status == 401
        made = d.preview(x, token=TENANT, tcp=True, public=True, name="my-app")
        assert made["name"] == "my-app" and made["url"] == f"http://my-app.{DOMAIN}:{d.preview_port}", made
        assert d.ask(f"{WEB}-{x}").status == 200 and d.ask("my-app").status == 200 and d.ask("MY-App").status == 200
        assert d.ask(f"8001-{x}").status == 401, "another port"
        y = d.create(token=OTHER, tcp=True)
        taken = d.post(f"/v1/sandboxes/{y}/ports/80/preview", {"name": "my-app"}, token=OTHER, tcp=True)
        assert taken.status == 409 and "taken" in json.dumps(taken.json) and x not in json.dumps(taken.json), taken
        assert d.post(f"/v1/sandboxes/{x}/ports/80/preview", {"name": "other"}, token=OTHER, tcp=True).status == 404, "another's sandbox"
        for wrong in ("8000-x", "-a", "a-", "A", "a.b", "a_b", "x" * 41, "1a"):
            assert d.post(f"/v1/sandboxes/{x}/ports/80/preview", {"name": wrong}).status == 400, wrong
        for n in range(15):
            d.preview(x, name=f"n{n}")
        assert d.post(f"/v1/sandboxes/{x}/ports/80/preview", {"name": "more"}).status == 429
        d.good("DELETE", f"/v1/sandboxes/{x}/ports/{WEB}/preview")
        assert d.ask(f"{WEB}-{x}").status == 401 and d.ask("my-app").status == 401
        d.preview(y, 80, name="my-app")
        d.good("DELETE", f"/v1/sandboxes/{y}?force=true", timeout=120)
        assert d.preview(x, name="my-app")["name"] == "my-app", "that of one which is gone is free"
        # without its token the owner has no rights, and nobody has any from it
        d.preview(x, public=True)
        assert d.ask(f"{WEB}-{x}").status == 200
        b.write(d.tokens_path, f"root {'0' * 32} admin\n", 0o600)
        d.p.send_signal(signal.SIGHUP)
        b.wait_for(lambda: d.ask(f"{WEB}-{x}").status == 401, 20, "the end of its rights")


def test_one_connection_carries_requests_one_after_the_other():
    with Previews() as d:
        x, y = d.create(), d.create()
        web(x)
        d.preview(x, public=True)
        one = f"GET /%d HTTP/1.1\r\nHost: {WEB}-{x}.{DOMAIN}\r\n\r\n"
        with d.dial() as s:
            f = s.makefile("rb")

            def answer():
                status = int(f.readline().split()[1])
                fields = {}
                while (line := f.readline().strip()):
                    name, _, value = line.decode().partition(": ")
                    fields[name.lower()] = value
                return status, fields, f.read(int(fields["content-length"]))
            for n in range(3):
                s.sendall((one % n).encode())
                status, fields, body = answer()
                assert status == 200 and json.loads(body)["target"] == f"/{n}" and fields["connection"] == "keep-alive", fields
            # together, and one with a body
            s.sendall((one % 7).encode() + f"POST /8 HTTP/1.1\r\nHost: {WEB}-{x}.{DOMAIN}\r\nContent-Length: 3\r\n\r\nabc".encode() + (one % 9).encode())
            assert [json.loads(answer()[2])["target"] for _ in range(3)] == ["/7", "/8", "/9"]
            # each is judged for itself
            s.sendall((one % 1).replace(x, y).encode())
            assert answer()[0] == 401


def test_streams_and_websockets_go_through():
    with Previews() as d:
        x = d.create()
        web(x)
        d.preview(x, public=True)
        r = d.ask(f"{WEB}-{x}", "/stream")
        assert r.headers["transfer-encoding"] == "chunked" and r.body.count(b"data ") == 3 and r.body.endswith(b"0\r\n\r\n"), r
        with d.dial() as s:
            host = f"{WEB}-{x}.{DOMAIN}"
            s.sendall(f"GET /ws HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nOrigin: http://{host}\r\n"
                      f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode() + b"early")
            got = b""
            while not got.endswith(b"early"):
                got += s.recv(65536)
            assert got.startswith(b"HTTP/1.1 101 ") and b"Upgrade: websocket" in got, got
            for n in (1, 100, 70_000):
                data = os.urandom(n)
                s.sendall(data)
                back = b""
                while len(back) < n:
                    back += s.recv(65536)
                assert back == data
            s.shutdown(socket.SHUT_WR)
            assert s.recv(9) == b""


def test_a_page_says_that_nothing_listens_or_why_the_sandbox_does_not_answer():
    with Previews() as d:
        x = d.create()
        d.preview(x, NOTHING, public=True)
        r = d.ask(f"{NOTHING}-{x}", fields=["Accept: text/html"])
        assert r.status == 502 and b"<h1>Nothing listens" in r.body and b"port 9999" in r.body and r.headers["content-type"].startswith("text/html"), r
        r = d.ask(f"{NOTHING}-{x}")
        assert r.status == 502 and "port 9999" in json.loads(r.body)["error"]["remedy"], r
        b.berth("pause", x, ok=True)
        r = d.ask(f"{NOTHING}-{x}")
        assert r.status == 503 and b"paused" in r.body, r
        b.berth("resume", x, ok=True)
        b.berth("stop", "--grace", "0", x, ok=True)
        r = d.ask(f"{NOTHING}-{x}")
        assert r.status == 503 and b"stopped" in r.body, r
        assert b.berth("ps", "-q").out == "", "one that a user has stopped stays so"
        y = b.berth("create", "--network", "host", "host", ok=True).out.strip()
        d.preview(y, NOTHING, public=True)
        r = d.ask(f"{NOTHING}-{y}")
        assert r.status == 409 and b"network of its host" in r.body, r


def test_one_that_its_idle_timeout_stopped_starts_and_the_request_waits_for_its_server():
    with Previews() as d:
        x = d.create(**{"idle-timeout": "1s"})
        d.preview(x, public=True)
        b.wait_for(lambda: b.berth("ps", "-q").out == "", 60, "the idle timeout")
        # nothing of it starts a server: the request waits as long as it may, and starts it
        with d.dial() as s:
            s.sendall(f"GET / HTTP/1.1\r\nHost: {WEB}-{x}.{DOMAIN}\r\n\r\n".encode())
            b.wait_for(lambda: b.berth("ps", "-q").out != "", 60, "the start")
            b.berth("update", "--idle-timeout", "0", x, ok=True)
            web(x)
            assert s.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_paused_sandbox_that_requests_resume_goes_on():
    with Previews() as d:
        # of E2B's: its ports are public
        x = d.good("POST", "/sandboxes", {"templateID": "base", "timeout": 3600, "autoPause": True, "autoResume": {"enabled": True}},
                   headers={"X-API-Key": f"e2b_{TOKEN}"})["sandboxID"]
        web(x)
        b.berth("pause", x, ok=True)
        r = d.ask(f"{WEB}-{x}")
        assert r.status == 200, r
        assert json.loads(b.berth("inspect", x, ok=True).out)["status"] == "running"


def test_e2b_ports_stay_private_after_other_rules_and_get_the_host_that_was_asked_for():
    with Previews() as d:
        ask = lambda method, path, body=None, **kw: d.request(method, path, body, headers={"X-API-Key": f"e2b_{TOKEN}"}, **kw)
        asked = {"allowPublicTraffic": False, "maskRequestHost": "custom.example.com:${PORT}"}
        made = ask("POST", "/sandboxes", {"templateID": "base", "timeout": 3600, "network": asked}).json
        x, field = made["sandboxID"], [f"E2B-Traffic-Access-Token: {made['trafficAccessToken']}"]
        web(x)
        assert d.ask(f"{WEB}-{x}").status == 401
        sent = d.ask(f"{WEB}-{x}", fields=field).sent_fields
        assert sent["host"] == f"custom.example.com:{WEB}" and sent["x-forwarded-host"] == f"{WEB}-{x}.{DOMAIN}:{d.preview_port}", sent
        # the rules of what leaves it say nothing of what comes
        assert ask("PUT", f"/sandboxes/{x}/network", {"allow_internet_access": False}).status == 204
        fork = ask("POST", f"/sandboxes/{x}/fork", {"timeout": 3600}).json[0]["sandbox"]["sandboxID"]
        for box in (x, fork):
            assert ask("GET", f"/sandboxes/{box}").json["network"] == asked
            assert d.ask(f"{WEB}-{box}").status == 401
        assert d.ask(f"{WEB}-{x}", fields=field).sent_fields["host"] == f"custom.example.com:{WEB}"
        for bad in (7, "", "a b", "x:y", "a:1:2", "a\r\nB: c", "${PORT", ":80", "h" * 300):
            r = ask("POST", "/sandboxes", {"templateID": "base", "network": {"maskRequestHost": bad}})
            assert r.status == 400 and "maskRequestHost" in r.json["message"], (bad, r)


def test_a_request_counts_as_use():
    with Previews() as d:
        x = d.create(**{"idle-timeout": "1h"})
        d.preview(x, public=True)
        idle = lambda: json.loads(b.berth("stats", "--no-stream", "--json", x, ok=True).out.splitlines()[0])["idle_ms"]
        b.wait_for(lambda: idle() > 2000, 30, "an idle sandbox")
        before = idle()
        assert d.ask(f"{WEB}-{x}").status == 502
        assert idle() < before


def test_tls_ends_at_berthd_and_a_reload_takes_another_certificate():
    with Previews(tls=True) as d:
        x = d.create()
        web(x)
        made, label = d.preview(x), f"{WEB}-{x}"
        assert made["url"].startswith("https://"), made
        r = d.ask(label, fields=key(made["token"]), tls=True)
        assert r.status == 200 and r.sent_fields["x-forwarded-proto"] == "https", r
        assert len(d.ask(label, "/big", fields=key(made["token"]), tls=True).body) == 5_000_000
        r = d.ask(label, "/", "POST", key(made["token"]), b"z" * 200_000, tls=True)
        assert r.seen["length"] == 200_000
        cookie = d.ask(label, f"/?berth_token={made['token']}", fields=["Accept: text/html"], tls=True).headers["set-cookie"]
        assert cookie.startswith("__Host-berth-preview=") and "Secure" in cookie and "Path=/" in cookie, cookie
        d.certify("second")
        d.p.send_signal(signal.SIGHUP)

        def second():
            try:
                with d.dial(True, f"{label}.{DOMAIN}") as s:
                    return dict(part[0] for part in s.getpeercert()["subject"])["commonName"] == "second"
            except OSError:
                return False
        b.wait_for(second, 20, "the second certificate")
        b.write(d.pem[0], "nonsense", 0o600)
        d.p.send_signal(signal.SIGHUP)
        b.wait_for(lambda: "not a pair" in d.log(), 20, "an error that says so")


def test_nobody_is_let_in_without_the_certificate():
    with Previews(tls=True) as d:
        x = d.create()
        label = f"{WEB}-{x}"
        web(x)
        token = d.preview(x)["token"]
        whole = open(d.config_path, encoding="utf-8").read()
        b.write(d.config_path, "\n".join(line for line in whole.splitlines() if not line.startswith(("certificate", "key"))) + "\n", 0o600)
        d.p.send_signal(signal.SIGHUP)
        b.wait_for(lambda: "stay behind TLS" in d.log(), 20, "an error that says so")
        assert d.ask(label, fields=key(token), tls=True).status == 200
        b.write(d.config_path, whole, 0o600)
        b.write(d.pem[0], "nonsense", 0o600)
        os.kill(d.web_server(), signal.SIGKILL)
        b.wait_for(lambda: "not a pair" in d.log(), 30, "one that has no certificate")
        with d.dial() as s:
            s.settimeout(1)
            s.sendall(f"GET / HTTP/1.1\r\nHost: {label}.{DOMAIN}\r\nX-Berth-Token: {token}\r\n\r\n".encode())
            try:
                raise AssertionError(s.recv(99))
            except TimeoutError:
                pass
        d.certify("second")
        d.p.send_signal(signal.SIGHUP)
        assert d.ask(label, fields=key(token), tls=True).status == 200


def test_a_section_that_is_wrong_is_refused():
    def refused(text):
        d = Previews(wait=False)
        b.write(d.config_path, "[preview]\n" + text, 0o600)
        r = subprocess.run([BERTHD, "--check-config"], env=d.environment(), capture_output=True, text=True)
        assert r.returncode == 125, r
        return r.stderr
    assert "preview.domain" in refused('listen = "127.0.0.1:0"\n')
    assert "certificate" in refused('listen = "0.0.0.0:0"\ndomain = "p.test"\n')
    assert "go together" in refused('listen = "127.0.0.1:0"\ndomain = "p.test"\nkey = "/k"\n')
    assert "lower case" in refused('listen = "127.0.0.1:0"\ndomain = "P.test"\n')
    assert "preview.url" in refused('listen = "127.0.0.1:0"\ndomain = "p.test"\nurl = "https://x"\n')


def test_berth_preview_that_falls_is_started_again():
    with Previews() as d:
        x = d.create()
        web(x)
        d.preview(x, public=True)
        assert d.ask(f"{WEB}-{x}").status == 200
        os.kill(d.web_server(), signal.SIGKILL)

        def answers():
            try:
                return d.ask(f"{WEB}-{x}").status == 200
            except (OSError, IndexError, ValueError):
                return False
        b.wait_for(answers, 30, "another one")


def test_the_python_client_has_the_address_and_a_socket():
    with Previews() as d:
        x = d.create()
        web(x)
        with berth.Berth("unix://" + d.socket) as client:
            port = client.attach(x).port(WEB, ttl="1h")
            assert port.url == f"http://{WEB}-{x}.{DOMAIN}:{d.preview_port}" and port["signed_url"].startswith(port.url), port
            assert d.ask(f"{WEB}-{x}", fields=key(port["token"])).status == 200
            with port.connect() as s:
                s.sendall(b"GET /direct HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b"/direct" in s.recv(65536)
            try:
                client.attach(x).port(NOTHING).connect()
                raise AssertionError("nothing listens there")
            except berth.errors.NotFound:
                pass
