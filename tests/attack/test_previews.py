# SPDX-License-Identifier: Apache-2.0
"""
Attacks S61 of SECURITY.md: what a client, a page in another sandbox and a server in a sandbox can do by previews.  D13.
"""
import socket
import urllib.parse

import berthtest as b
from daemon import OTHER, TENANT
from previews import DOMAIN, WEB, Answer, Previews, web

COST = 30


def start(d, **more):
    x = d.create()
    web(x)
    made = d.preview(x, **more)
    return x, f"{WEB}-{x}", f"{WEB}-{x}.{DOMAIN}", made["token"]


def test_a_head_that_two_parsers_read_in_two_ways_is_refused_and_nothing_of_it_reaches_the_sandbox():
    with Previews() as d:
        x, _, host, _ = start(d, public=True)
        good = f"GET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n"
        line, h = "POST / HTTP/1.1\r\n", f"Host: {host}\r\n"
        heads = [
            line + h + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            line + h + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
            line + h + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
            line + h + "Content-Length: 5, 5\r\n\r\n", line + h + "Content-Length: +5\r\n\r\n", line + h + "Content-Length: 0x5\r\n\r\n",
            line + h + "Content-Length : 5\r\n\r\n", line + h + "Transfer-Encoding : chunked\r\n\r\n",
            line + h + "Transfer-Encoding: xchunked\r\n\r\n", line + h + "Transfer-Encoding: chunked, identity\r\n\r\n",
            line + h + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", line + h + "Transfer-Encoding: gzip, chunked\r\n\r\n",
            line + h + "X: a\r\n folded\r\n\r\n", line + " X: a\r\n" + h + "\r\n", line + h + "X: a\n\r\n", line + h + "X: a\rY: b\r\n\r\n",
            line + h.replace("\r\n", "\n") + "\r\n\r\n", line + h + "X: a\0b\r\n\r\n", line + h + "X\r\n\r\n", line + h + ": x\r\n\r\n", line + h + "a b: x\r\n\r\n",
            line + h + h + "\r\n", line + "\r\n", line + h + f"host: {host}\r\n\r\n", line + f"Host: {host}:80:80\r\n\r\n", line + f"Host: {host}:\r\n\r\n",
            line + f"Host: {host}/\r\n\r\n", line + f"Host: a@{host}\r\n\r\n", line + f"Host: {host} x\r\n\r\n", line + "Host: \r\n\r\n", line + f"Host: {host}:123456\r\n\r\n",
            f"GET http://{host}/ HTTP/1.1\r\n{h}\r\n", f"GET http://127.0.0.1/ HTTP/1.1\r\n{h}\r\n", f"CONNECT {host}:80 HTTP/1.1\r\n{h}\r\n", f"GET {host} HTTP/1.1\r\n{h}\r\n",
            f"GET  / HTTP/1.1\r\n{h}\r\n", f"GET / HTTP/1.1 \r\n{h}\r\n", f"GET / x HTTP/1.1\r\n{h}\r\n", f"GET / HTTP/2.0\r\n{h}\r\n", f"GET /\r\n{h}\r\n", f"GET /\t HTTP/1.1\r\n{h}\r\n",
            f"G(ET / HTTP/1.1\r\n{h}\r\n", f"GET /# HTTP/1.1\r\n{h}\r\n", f"GET /\x80 HTTP/1.1\r\n{h}\r\n", f"\r\nGET / HTTP/1.1\r\n{h}\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            f"POST / HTTP/1.0\r\n{h}Transfer-Encoding: chunked\r\n\r\n", "GET / HTTP/1.1\r\n" + h + "A: " + "x" * 20_000 + "\r\n\r\n",
            "GET / HTTP/1.1\r\n" + h + "A: b\r\n" * 150 + "\r\n",
        ]
        for head in heads:
            got = d.send((head + good).encode("latin1"))
            assert got.count(b"HTTP/1.1 ") == 1 and Answer(got).status in (400, 431), (head, got)
        # a body that is malformed ends the connection, and what follows it is no request
        for body in ("5\r\nabcdeX\r\n0\r\n\r\n", "-1\r\n\r\n", "0x5\r\nabcde\r\n0\r\n\r\n", "fffffffffffffffff\r\n", "5\nabcde\n0\n\n", "\r\n0\r\n\r\n"):
            got = d.send((line + h + "Transfer-Encoding: chunked\r\n\r\n" + body + good).encode())
            assert b"smuggled" not in got, (body, got)
        assert d.ask(f"{WEB}-{x}").status == 200


def test_a_body_is_exactly_as_long_as_it_says():
    with Previews() as d:
        _, label, host, _ = start(d, public=True)
        inner = f"GET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n"
        got = d.send(f"POST /outer HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {len(inner)}\r\n\r\n{inner}{inner}".encode())
        r = Answer(got)
        assert got.count(b"HTTP/1.1 ") == 1 + r.seen["body"].count("HTTP/1.1 ") and r.seen["body"] == inner, r
        # an upgrade to what is no WebSocket is left out, and the bytes behind it are a request of their own
        got = d.send(f"GET /a HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n"
                     f"GET /b HTTP/1.1\r\nHost: 8001-{label[5:]}.{DOMAIN}\r\nConnection: close\r\n\r\n".encode())
        assert b'"target": "/a"' in got and b'["Upgrade"' not in got and b"HTTP/1.1 401 " in got, got
        # a server that claims 101 without being asked
        answer = urllib.parse.quote("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
        assert d.ask(label, "/raw/" + answer).status == 502


def test_no_field_of_the_clients_is_taken_for_ours():
    with Previews() as d:
        _, label, host, token = start(d)
        forged = ["X-Forwarded-For: 6.6.6.6", "x-forwarded-host: evil", "X-Forwarded-Proto: https", "X_Forwarded_For: 6.6.6.6", "Forwarded: for=6.6.6.6",
                  "X-Real-IP: 6.6.6.6", "X-Forwarded-Prefix: /x", "Content_Length: 9", "X-Berth-Other: 1",
                  "Connection: X-Forwarded-For, Host, X-Keep", "X-Keep: 1", "Proxy-Authorization: secret", "E2B-Traffic-Access-Token: " + token,
                  "X-Daytona-Preview-Token: 1", f"X-Berth-Token: {token}"]
        r = d.ask(label, fields=forged)
        assert r.status == 200 and b"6.6.6.6" not in r.body and b"evil" not in r.body and token.encode() not in r.body and b"secret" not in r.body, r
        sent = r.sent_fields
        assert sent["x-forwarded-for"] == "127.0.0.1" and sent["x-forwarded-proto"] == "http" and sent["x-keep"] == "1", sent
        assert not {"content_length", "x-berth-other", "x-forwarded-prefix", "forwarded"} & set(sent), sent
        names = [name.lower() for name, _ in r.seen["fields"]]
        assert len(set(names)) == len(names), names


def test_an_answer_reaches_no_other_origin():
    with Previews() as d:
        _, label, host, _ = start(d, public=True)

        def answer(*fields, body=""):
            text = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *fields]) + "\r\n\r\n" + body
            return d.ask(label, "/raw/" + urllib.parse.quote(text))
        r = answer(f"Set-Cookie: a=1; Domain={DOMAIN}; Path=/; HttpOnly", f"set-cookie: b=2;domain = .{DOMAIN} ;Secure", "Set-Cookie: c=3", "Set-Cookie: berth-preview=x; Path=/",
                   "Set-Cookie:  __Host-berth-preview = x", "Set-Cookie: Domain=4; Path=/d", "Clear-Site-Data: \"*\"", "Alt-Svc: h3=\":443\"", "Keep-Alive: timeout=1")
        cookies = [v for k, v in r.fields if k.lower() == "set-cookie"]
        assert cookies == ["a=1; Path=/; HttpOnly", "b=2; Secure", "c=3", "Domain=4; Path=/d"], r
        assert not {"clear-site-data", "alt-svc", "keep-alive"} & set(r.headers), r
        # what is no answer is not passed on
        for raw in ("nonsense\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "HTTP/2 200\r\n\r\n",
                    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 999 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
                    "HTTP/1.1 200 OK\r\nA: " + "x" * 20_000 + "\r\n\r\n"):
            if len(raw) < 9000:
                r = d.ask(label, "/raw/" + urllib.parse.quote(raw))
                assert r.status == 502, (raw, r)
        # one that is cut is not taken for a whole one: the connection is reset or shorter than it said
        r = d.ask(label, "/raw/" + urllib.parse.quote("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"))
        assert len(r.body) < 10
        # and two answers are one
        r = d.ask(label, "/raw/" + urllib.parse.quote("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n\r\n"))
        assert r.body == b"a", r


def test_a_page_of_another_origin_uses_no_cookie():
    with Previews() as d:
        _, label, host, token = start(d)
        at = f"{host}:{d.preview_port}"
        cookie, other = f"Cookie: berth-preview={token}", f"http://8000-other.{DOMAIN}:{d.preview_port}"

        def status(*fields, method="GET", target="/"):
            return d.ask(label, target, method, [cookie, *fields]).status
        assert status() == 200 and status(f"Origin: http://{at}", method="POST") == 200
        assert status("Sec-Fetch-Site: same-origin", method="POST") == 200 and status("Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate") == 200
        assert status("Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document") == 200, "a link"
        for fields in ((f"Origin: {other}",), ("Origin: null",), ("Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"),
                       ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors"), ("Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"),
                       ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: frame"), (f"Origin: http://{at}", f"Origin: {other}"),
                       (f"Origin: http://{at}.evil",), (f"Origin: http://x{at}",)):
            assert status(*fields) == 401, fields
        assert status(method="POST") == 401, "a form of a browser that says nothing"
        assert status("Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", method="POST") == 401, "a form"
        upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13")
        for origin in ((), (f"Origin: {other}",), ("Origin: null",)):
            lines = "\r\n".join([f"GET /ws HTTP/1.1", f"Host: {at}", cookie, *origin, *upgrade])
            assert b"HTTP/1.1 401 " in d.send((lines + "\r\n\r\n").encode()), origin
        # the page of ours frames nothing and is framed by nobody else
        r = d.ask(label, fields=["Accept: text/html"])
        assert "frame-ancestors 'self'" in r.headers["content-security-policy"] and "default-src 'none'" in r.headers["content-security-policy"], r


def test_no_name_leads_to_the_host_or_to_another_sandbox():
    with Previews() as d, socket.create_server(("127.0.0.1", 0)) as mine:
        x, label, host, token = start(d)
        port = mine.getsockname()[1]
        d.preview(x, port, public=True)
        assert d.ask(f"{port}-{x}").status == 502, "the host's loopback has that port, the sandbox's has not"
        for name in (f"08000-{x}", f"+8000-{x}", f"8000-{x[:8]}", f"8000-{x}-", f"80000-{x}", f"0-{x}", f"8000--{x}", f"8000-{x}.x", "8000-..", "8000-", "-", "8000-web",
                     f"x.8000-{x}"):
            r = d.ask(f"{name}.{DOMAIN}", fields=[f"X-Berth-Token: {token}"])
            assert r.status in (400, 401, 421), (name, r)
        for h in (f"{label}.{DOMAIN}.evil", f"{label}.evil", "127.0.0.1", "localhost", DOMAIN, f"{label}{DOMAIN}"):
            assert d.ask(h, fields=[f"X-Berth-Token: {token}"]).status in (400, 401, 421), h
        mine.settimeout(0.2)
        try:
            mine.accept()
            raise AssertionError("a preview came to the host's loopback")
        except TimeoutError:
            pass


def test_to_a_client_a_foreign_sandbox_and_none_are_the_same():
    with Previews(tcp=True) as d:
        x = d.create(token=TENANT, tcp=True)
        there, none = d.ask(f"8000-{x}"), d.ask(f"8000-{'0' * len(x)}")
        assert there.status == 401 and there.body == none.body and there.fields == none.fields
        for method in ("get", "delete", "post"):
            r = getattr(d, method)(f"/v1/sandboxes/{x}/ports/8000/preview", token=OTHER, tcp=True)
            assert r.status == 404, r


def test_clients_that_read_or_send_nothing_keep_nobody_out():
    with Previews("max_connections = 64\n") as d:
        x, label, host, _ = start(d, public=True)
        open_ones = []
        try:
            for n in range(100):        # no head, half a head
                s = d.dial()
                s.sendall(b"GET / HT" if n % 2 else b"")
                open_ones.append(s)
            assert d.ask(label).status == 200
            for _ in range(60):         # of one port: half of the places
                s = d.dial()
                s.sendall(f"GET /hold HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                open_ones.append(s)
            y, other, _, _ = start(d, public=True)
            b.wait_for(lambda: d.ask(label).status == 503, 30, "the bound of one port")
            assert d.ask(other).status == 200, "another sandbox is served"
            flood = d.dial()
            flood.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            flood.sendall(f"GET /flood HTTP/1.1\r\nHost: {WEB}-{y}.{DOMAIN}\r\n\r\n".encode())
            open_ones.append(flood)
            assert flood.recv(100).startswith(b"HTTP/1.1 200")
            before = rss(d.web_server())
            for _ in range(20):
                assert d.ask(other).status == 200
            assert rss(d.web_server()) - before < 1000, "what nobody reads stays in the sandbox"
        finally:
            for s in open_ones:
                s.close()
        b.wait_for(lambda: d.ask(label).status == 200, 30, "places that are free again")


def rss(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def test_berth_preview_has_no_rights():
    with Previews() as d:
        with open(f"/proc/{d.web_server()}/status") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        assert status["Uid"].split() == ["65534"] * 4 and status["Gid"].split() == ["65534"] * 4 and status["Groups"].strip() == "", status
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0, status
