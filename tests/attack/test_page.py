# SPDX-License-Identifier: Apache-2.0
"""
S60: the page of berthd gives nobody a right.  Strangers without a sign-in, links twice, late and elsewhere, other sites and
other ports, frames, texts that are markup, a tenant, sessions after their end.
"""
import http.server
import json
import threading
import time

import berthtest as b
from browser import Browser
from daemon import OTHER, TENANT, TOKEN, Daemon, UnixConnection

COST = 30
PAGE = "[ui]\nenabled = true\n"
MARKUP = "<img src=x onerror=alert(1)><script>window.pwned=1</script>"


def link(d, **kw):
    told = d.post("/ui/links", **kw)
    assert told.status == 200, told
    return told.json["url"].split("#link=")[1]


def session(d, token):
    told = d.post("/ui/session", token=token, tcp=True)
    assert told.status == 200, told
    return told.json["session"]


def status(d, token, path="/v1/sandboxes", method="GET"):
    return d.request(method, path, token=token, tcp=True).status


def test_S60_nothing_of_the_page_is_there_until_it_is_switched_on():
    with Daemon("", tcp=True) as d:
        for path in ("/", "/ui", "/ui/", "/ui/index.html", "/ui/session", "/ui/app.js"):
            assert d.get(path, tcp=True).status == 401, path
            assert d.get(path, tcp=True, token=TOKEN).status == 404, path
        assert d.post("/ui/links").status == 404 and d.post("/ui/session", token=TOKEN, tcp=True).status == 404


def test_S60_without_a_sign_in_there_are_files_and_nothing_else():
    with Daemon(PAGE, tcp=True) as d:
        for path in ("/ui/session", "/v1/sandboxes", "/openapi.json", "/metrics", "/ui/../v1/sandboxes", "/ui/%2e%2e/v1/sandboxes", "/ui/session?x=1", "/ui/session?", "/ui/app.js?"):
            assert d.get(path, tcp=True).status == 401, path
        for path in ("/ui/nothing.js", "/ui/ORIGIN", "/ui/files.def", "/ui/%2e%2e", "/ui/..", "/ui/%2fetc%2fpasswd"):
            assert d.get(path, tcp=True).status in (400, 401, 404), path
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert d.request(method, "/ui/index.html", tcp=True).status == 401, method
        assert d.post("/ui/links", tcp=True).status == 401 and d.post("/ui/session", tcp=True).status == 401
        assert d.post("/ui/links", tcp=True, token=TOKEN).status == 403, "a link is for the unix socket"


def test_S60_every_file_has_the_policy_and_no_reply_a_cookie():
    with Daemon(PAGE, tcp=True) as d:
        for path in ("/", "/ui", "/ui/", "/ui/app.js", "/ui/xterm.js", "/ui/style.css", "/ui/icon.svg"):
            told = d.get(path, tcp=True)
            rules = dict(one.strip().split(" ", 1) for one in told.headers["content-security-policy"].split(";"))
            assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'", rules
            assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == rules["img-src"] == "'self'", rules
            assert rules["require-trusted-types-for"] == "'script'" and rules["trusted-types"] == "'none'", rules
            for name, value in (("x-content-type-options", "nosniff"), ("x-frame-options", "DENY"), ("referrer-policy", "no-referrer"),
                                ("cross-origin-opener-policy", "same-origin"), ("cross-origin-resource-policy", "same-origin"), ("cache-control", "no-store")):
                assert told.headers[name] == value, (path, name)
        for told in (d.get("/ui/", tcp=True), d.post("/ui/session", token=TOKEN, tcp=True), d.post("/ui/links"), d.get("/v1/sandboxes", token=TOKEN, tcp=True)):
            assert "set-cookie" not in told.headers and not [name for name in told.headers if name.startswith("access-control")], told.headers


def test_S60_another_host_name_and_another_origin_are_refused():
    with Daemon(PAGE, tcp=True) as d:
        token = session(d, TOKEN)
        for path in ("/", "/ui/", "/ui/app.js", "/ui/session", "/v1/sandboxes"):
            told = d.get(path, tcp=True, token=token, headers={"Host": "evil.example:%d" % d.port})
            assert told.status == 403 and "allowed_hosts" in told.json["error"]["remedy"], told
            for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"http://127.0.0.1:{d.port}.evil.example", f"http://localhost:{d.port}"):
                assert d.get(path, tcp=True, token=token, headers={"Origin": origin}).status == 403, (path, origin)
        mine = {"Origin": f"http://127.0.0.1:{d.port}"}
        assert d.post("/ui/session", tcp=True, token=TOKEN, headers=mine).status == 200
        assert d.post("/ui/session", tcp=True, token=TOKEN, headers={"Origin": "http://evil.example"}).status == 403
        # what a browser sends by itself is no right
        for name, value in (("Cookie", f"berth_ui={token}; session={token}"), ("Authorization", "Basic " + token), ("X-Berth-Session", token)):
            assert d.get("/v1/sandboxes", tcp=True, headers={name: value}).status == 401, name


def test_S60_a_link_signs_in_once_soon_and_does_nothing_else():
    with Daemon(PAGE + 'link_time = "1s"\n', tcp=True) as d:
        one = link(d)
        assert status(d, session(d, one)) == 200
        assert d.post("/ui/session", token=one, tcp=True).status == 401, "it was used"
        # elsewhere it is refused, and used up
        two = link(d)
        assert status(d, two) == 403 and d.post("/ui/session", token=two, tcp=True).status == 401
        three = link(d)
        end = time.monotonic() + 1.2
        b.wait_for(lambda: time.monotonic() > end, 5, "the end of its time")
        assert d.post("/ui/session", token=three, tcp=True).status == 401, "it is too old"
        for wrong in ("berth_link_", "berth_ui_", "berth_link_" + "0" * 64, one[:-1], one + "0"):
            assert d.post("/ui/session", token=wrong, tcp=True).status == 401, wrong
    with Daemon(PAGE, tcp=True) as d:
        links = [link(d) for _ in range(16)]
        full = d.post("/ui/links")
        assert full.status == 429 and full.json["error"]["code"] == "limit", full
        # of two who race for it, one wins
        won = []
        threads = [threading.Thread(target=lambda: won.append(race(d, links[0]))) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(won) == [200] + 5 * [401], won


def race(d, token):
    import http.client
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=30 * b.SLOW)
    c.request("POST", "/ui/session", headers={"Authorization": "Bearer " + token})
    got = c.getresponse().status
    c.close()
    return got


def test_S60_a_session_is_one_of_many_makes_no_other_and_is_not_chosen_by_its_client():
    with Daemon(PAGE, tcp=True) as d:
        first = session(d, TOKEN)
        assert d.post("/ui/session", token=first, tcp=True).status == 403
        assert d.post("/ui/links", token=first).status == 403, "nor a link, over the unix socket"
        others = [session(d, TOKEN) for _ in range(8)]
        assert len(set(others)) == 8 and first not in others
        assert status(d, first) == 401 and all(status(d, one) == 200 for one in others), "the oldest made room"
        # those of one name take no place of another's
        alice = session(d, TENANT)
        for _ in range(9):
            session(d, TOKEN)
        assert status(d, alice) == 200
        # in the log there is neither
        text = d.log()
        assert alice not in text and others[7] not in text and "berth_ui_" not in text and "berth_link_" not in text


def test_S60_a_tenants_session_has_a_tenants_rights():
    with Daemon(PAGE, tcp=True) as d:
        root = d.create("roots")
        own = d.create("alices", token=TENANT, tcp=True)
        alice, bob = session(d, TENANT), session(d, OTHER)
        assert [x["id"] for x in d.get("/v1/sandboxes", token=alice, tcp=True).json["sandboxes"]] == [own]
        assert d.get("/v1/sandboxes", token=bob, tcp=True).json["sandboxes"] == []
        for path in (f"/v1/sandboxes/{root}", f"/v1/sandboxes/{root}/files?path=/etc/passwd", f"/v1/sandboxes/{root}/events", f"/v1/sandboxes/{own}x"):
            assert status(d, alice, path) == 404, path
        assert status(d, bob, f"/v1/sandboxes/{own}") == 404
        for path in ("/v1/system/df", "/v1/system/config", "/metrics", "/v1/manager/stats"):
            assert status(d, alice, path) == 403, path
        told = d.get("/ui/session", token=alice, tcp=True).json
        assert told["name"] == "alice" and told["admin"] is False and 0 < told["expires_ms"] <= 8 * 3600 * 1000, told
        # a link that a tenant asks for is the tenant's
        via = session(d, link(d, token=TENANT))
        assert d.get("/ui/session", token=via, tcp=True).json["name"] == "alice" and status(d, via, f"/v1/sandboxes/{root}") == 404


class Stream:
    """Events, followed with a session, until they end."""

    def __init__(self, d, token):
        self.c = UnixConnection(d.socket, 60)
        self.c.request("GET", "/v1/events", headers={"Authorization": "Bearer " + token})
        self.reply = self.c.getresponse()
        assert self.reply.status == 200
        self.ended = None
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        began = time.monotonic()
        try:
            while self.reply.read1(65536):
                pass
        except Exception:
            pass
        self.ended = time.monotonic() - began

    def ends(self, seconds, what):
        b.wait_for(lambda: self.ended is not None, seconds, what)
        self.thread.join()
        self.c.close()


def test_S60_a_session_ends_with_sign_out_its_time_its_token_and_the_page_and_so_do_its_streams():
    with Daemon(PAGE + 'session_time = "3s"\n', tcp=True) as d:
        token = session(d, TOKEN)
        stream = Stream(d, token)
        stream.ends(8, "the stream of a session whose time is over")
        assert status(d, token) == 401
    with Daemon(PAGE, tcp=True) as d:
        token, other = session(d, TOKEN), session(d, TOKEN)
        stream = Stream(d, token)
        assert status(d, token, "/ui/session", "DELETE") == 200
        stream.ends(5, "the stream of a session that was signed out")
        assert status(d, token) == 401 and status(d, other) == 200
        # its token is taken away
        alice, waiting = session(d, TENANT), link(d, token=TENANT)
        stream = Stream(d, alice)
        b.write(d.tokens_path, f"root {TOKEN} admin\nbob {OTHER}\n", 0o600)
        d.p.send_signal(1)
        stream.ends(8, "the stream of a session whose token is gone")
        assert status(d, alice) == 401 and d.post("/ui/session", token=waiting, tcp=True).status == 401 and status(d, other) == 200
        # the page is switched off
        stream = Stream(d, other)
        b.write(d.config_path, d.config.replace("enabled = true", "enabled = false"), 0o600)
        d.p.send_signal(1)
        stream.ends(8, "the stream of a session of a page that is off")
        assert status(d, other) == 401 and d.get("/ui/", tcp=True).status == 401


def text_page(d, body):
    class Page(http.server.BaseHTTPRequestHandler):
        seen = []

        def do_GET(self):
            Page.seen.append((self.path, dict(self.headers)))
            data = body.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *unused):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, Page.seen


@b.deadline(120)
def test_S60_in_a_browser_markup_is_text_and_other_pages_get_nothing():
    with Daemon(PAGE, tcp=True) as d, Browser() as w:
        box = d.create("web", label=["note=" + MARKUP])
        for path, text in (("/workspace/" + MARKUP.replace("/", "%2F"), MARKUP), ("/workspace/page.html", MARKUP)):
            d.exec(box, "sh", "-c", 'printf %s "$2" > "$1"', "x", path, text)
        d.exec(box, "sh", "-c", f"printf '%s\\n\\033]0;{MARKUP}\\007' \"$1\"", "x", MARKUP, detach=True)
        d.good("POST", f"/v1/sandboxes/{box}/checkpoints", {"name": "one"})
        w.look_as(1280)
        w.open(f"http://127.0.0.1:{d.port}/ui/")
        w.type("#token", TOKEN)
        w.click("button", "Sign in")
        w.find(".card-name", "web")
        for tab, selector, text in (("overview", ".facts", MARKUP), ("files", ".entry", None), ("logs", ".log", MARKUP), ("events", ".events", None), ("checkpoints", ".tree", None)):
            w.script("location.hash = arguments[0]", f"#/sandboxes/{box}/{tab}")
            w.find(selector)
            if text:
                w.sees(text, "main")
        w.script("location.hash = arguments[0]", f"#/sandboxes/{box}/files")
        w.click(".entry", "page.html")
        w.sees(MARKUP, ".viewer")
        w.script("location.hash = arguments[0]", f"#/sandboxes/{box}/terminal")
        w.sees("Connected")
        w.keys(f"printf '\\033]0;%s\\007\\033]8;;javascript:window.pwned=1\\007link\\033]8;;\\007' '{MARKUP}'\n")
        w.sees("onerror", ".term-title")
        assert w.script("return window.pwned === undefined && !document.querySelector('main img[src=x], main script')")
        # even a script of ours could not: the policy takes markup made of text, inline code and requests elsewhere for errors
        for wrong in ("document.body.innerHTML = '<b>x</b>'", "document.write('<b>x</b>')"):
            assert w.script(f"try {{ {wrong}; return 'done' }} catch (e) {{ return e.name }}") in ("TypeError", "EvalError"), wrong
        assert w.do("execute/async", {"script": "const end = arguments[0]; fetch('http://127.0.0.1:1/').then(() => end('sent'), (e) => end(e.name))", "args": []}) == "TypeError"
        assert any("Content Security Policy" in one["message"] for one in w.log())
        token = w.script("return sessionStorage.getItem('berth.session')")
        assert token.startswith("berth_ui_") and w.script("return document.cookie") == ""

        # a page of another port of this host, such as one that a sandbox serves
        there = f"http://127.0.0.1:{d.port}"
        server, seen = text_page(d, f"<iframe id=f src='{there}/ui/'></iframe><form id=p method=post action='{there}/ui/session'></form>")
        try:
            w.open(f"http://127.0.0.1:{server.server_port}/")
            assert w.script("return sessionStorage.length + localStorage.length + document.cookie.length") == 0
            assert not [one for _, fields in seen for one in fields.values() if token in one], "nothing of the session comes along"
            ask = """const end = arguments[arguments.length - 1];
                fetch(arguments[0], {method: arguments[1], credentials: 'include', mode: arguments[2],
                      headers: arguments[3] ? {Authorization: 'Bearer ' + arguments[3]} : {}}).then((r) => end(r.type + r.status), (e) => end(e.name))"""
            for method, mode, with_token in (("GET", "cors", None), ("POST", "cors", None), ("DELETE", "cors", None), ("GET", "cors", TOKEN)):
                assert w.do("execute/async", {"script": ask, "args": [there + "/v1/sandboxes", method, mode, with_token]}) == "TypeError", method
            framed = w.script("try { return document.getElementById('f').contentDocument !== null } catch (e) { return false }")
            assert not framed
            w.script("const f = document.getElementById('f'); f.src = f.src")
            b.wait_for(lambda: any("frame-ancestors" in one["message"] or "X-Frame-Options" in one["message"] or "refused" in one["message"].lower()
                                   for one in w.log()), 20, "the refusal of the frame")
            w.script("document.getElementById('p').submit()")
            b.wait_for(lambda: "/ui/session" in w.script("return location.href"), 20, "the form's answer")
            assert "session" not in json.loads(w.text("body")), "a form signs nobody in"
        finally:
            server.shutdown()
            server.server_close()
        assert len(d.get("/v1/sandboxes").json["sandboxes"]) == 1
