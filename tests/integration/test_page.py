# SPDX-License-Identifier: Apache-2.0
"""
The page of berthd in Debian's headless chromium: signed in by token and by link, a sandbox is made, typed into, given a
file, brought back, denied a host and allowed it, and signed out.  BERTH_TEST_SCREENSHOTS=DIR keeps what it looked like.
"""
import contextlib
import gzip
import hashlib
import json
import os
import re
import subprocess

import berthtest as b
import proc
from browser import KEYS, Browser
from daemon import TENANT, TOKEN, Daemon
from netlab import DNS, OUTSIDE, Lab

COST = 45
PAGE = "[ui]\nenabled = true\n"
UI = os.path.join(b.TOP, "manager/ui")
LIMIT = 300 << 10


def sign_in(w, d, token=TOKEN):
    w.open(f"http://127.0.0.1:{d.port}/")
    w.type("#token", token)
    w.click("button", "Sign in")
    w.find("h1", "Sandboxes")


def clean(w):
    """Nothing that the page's own policy forbade, and no other error."""
    wrong = [one for one in w.log() if one["level"] == "SEVERE"]
    assert not wrong, wrong


def fresh(d):
    """Connections that a busy machine let rest for too long are closed by then."""
    for one in d.connections.values():
        one.close()
    return d


def overflows(w):
    return w.script("return document.documentElement.scrollWidth > document.documentElement.clientWidth + 1")


def shots(w, name, widths=(320, 768, 1280)):
    kept = "BERTH_TEST_SCREENSHOTS" in os.environ
    for width in widths if kept else (320,):
        for dark in (False, True) if kept else (False,):
            w.look_as(width, dark)
            if kept:
                w.shot(f"{name}-{width}-{'dark' if dark else 'light'}")
            assert not overflows(w), f"{name} is wider than {width} px"
    w.look_as(1280)


def test_the_page_is_small_whole_and_what_its_origin_says():
    with open(os.path.join(UI, "files.def")) as f:
        names = re.findall(r'^UI_FILE\(\w+, "([^"]+)"', f.read(), re.M)
    with Daemon(PAGE, tcp=True) as d:
        sent = whole = 0
        for name in names:
            at = os.path.join(UI, name)
            with open(at if os.path.exists(at) else os.path.join(UI, "vendor", name), "rb") as f:
                text = f.read()
            packed = d.get(f"/ui/{name}", tcp=True, headers={"Accept-Encoding": "gzip"})
            assert packed.headers["content-encoding"] == "gzip" and gzip.decompress(packed.body) == text, name
            plain = d.get(f"/ui/{name}", tcp=True)
            assert plain.body == text and "content-encoding" not in plain.headers, name
            sent += len(packed.body)
            whole += len(text) if name not in ("xterm.js", "xterm.css") else 0
        assert sent < LIMIT and whole < LIMIT, f"{sent} bytes are sent, {whole} are the page's own text"
        assert d.get("/ui/", tcp=True, headers={"Accept-Encoding": "gzip"}).headers["content-type"].startswith("text/html")
        first = d.get("/", tcp=True)
        assert first.status == 302 and first.headers["location"] == "/ui/", first
    with open(os.path.join(UI, "vendor/ORIGIN")) as f:
        sums = dict(re.findall(r"sha256 of (\S+)\s+([0-9a-f]{64})", f.read()))
    assert set(sums) == {"xterm.js", "xterm.css"}
    for name, wanted in sums.items():
        with open(os.path.join(UI, "vendor", name), "rb") as f:
            assert hashlib.sha256(f.read()).hexdigest() == wanted, name


def test_berth_ui_prints_a_link_or_says_what_is_missing():
    b.one_line_error(b.berth("ui"), 125, "berthd", "hint: systemctl start berthd")
    with Daemon("") as d:
        b.one_line_error(b.berth("ui", env=d.environment()), 125)
    with Daemon(PAGE) as d:
        b.one_line_error(b.berth("ui", env=d.environment()), 125, "listen")
    # without any token: the links of root are enough
    with Daemon(PAGE, tcp=True, tokens=False) as d:
        told = b.berth("ui", env=d.environment(), ok=True)
        assert re.fullmatch(rf"http://127\.0\.0\.1:{d.port}/ui/#link=berth_link_[0-9a-f]{{64}}\n", told.out), told
        assert "once" in told.err, told
        told = json.loads(b.berth("ui", "--json", env=d.environment(), ok=True).out)
        assert told["url"].startswith("http://127.0.0.1:") and told["expires_ms"] == 120000, told
        with Browser() as w:
            w.open(told["url"])
            w.find("h1", "Sandboxes")
            assert "link" not in w.script("return location.href") and w.text(".role") == "admin"
            w.sees("There is no sandbox yet")
            w.click("#sign-out")
            w.open(told["url"])
            w.sees("This link was used")
            clean_but_for(w, 401)


@contextlib.contextmanager
def resolver():
    """The host asks the lab's server for names."""
    proc.bind(b.write(b.tmp("resolv.conf"), f"nameserver {DNS}\n"), "/etc/resolv.conf")
    try:
        yield
    finally:
        subprocess.run(["umount", "/etc/resolv.conf"], check=True)


def clean_but_for(w, status):
    wrong = [one for one in w.log() if one["level"] == "SEVERE" and str(status) not in one["message"]]
    assert not wrong, wrong


@b.deadline(150)
def test_a_sandbox_is_made_typed_into_filled_undone_denied_allowed_and_removed():
    with Lab() as lab, resolver(), Daemon(PAGE, tcp=True) as d, Browser() as w:
        w.look_as(1280)
        w.open(f"http://127.0.0.1:{d.port}/")
        w.find("#token")
        shots(w, "sign-in")
        w.type("#token", "0" * 32)
        w.click("button", "Sign in")
        w.sees("does not know this token")
        clean_but_for(w, 401)
        sign_in(w, d)

        # create, by keyboard alone once the dialog is open
        w.click("#new")
        w.find("dialog h2", "New sandbox")
        assert w.script("return document.activeElement.closest('dialog') !== null"), "the dialog has the focus"
        w.type(w.labelled("Name"), "web")
        w.script("const s = document.querySelector(arguments[0]); s.value = 'egress'; s.dispatchEvent(new Event('change'))", w.labelled("Network"))
        w.type(w.labelled("Allowed hosts"), "other.test")
        shots(w, "create")
        w.type(w.labelled("Name"), KEYS["enter"])
        w.find("h1", "web")
        box = fresh(d).get("/v1/sandboxes").json["sandboxes"][0]["id"]
        w.sees("KiB", ".gauges")
        w.type(w.find_input("Command line"), "echo $((6 * 7)); ls -d /workspace" + KEYS["enter"])
        w.sees("42\n/workspace")
        shots(w, "overview")

        # the terminal: what is typed runs, and its title is text
        w.click(".tabs a", "Terminal")
        w.sees("Connected")
        w.keys("stty size; printf '\\033]0;<b>title</b>\\007'; echo typed$((40 + 2)) > /workspace/made; cat /workspace/made\n")
        w.sees("typed42", ".xterm")
        w.sees("<b>title</b>", ".term-title")
        assert fresh(d).get(f"/v1/sandboxes/{box}/files?path=/workspace/made").body == b"typed42\n"
        rows, cols = map(int, w.script("return /(\\d+) (\\d+)\\s*\\n/.exec(document.querySelector('.xterm').innerText).slice(1, 3)"))
        assert rows > 10 and cols > 100, (rows, cols)
        w.keys("printf '\\033[38;2;250;120;20mcolour\\033[0m \\033[1;32mgreen\\033[0m\\n'\n")
        w.sees("colour", ".xterm")
        shots(w, "terminal")

        # files: up, seen, edited
        with open(b.tmp("up.txt"), "w") as f:
            f.write("one <script>\ntwo\n")
        w.click(".tabs a", "Files")
        w.find(".entry", "made")
        w.give("upload", b.tmp("up.txt"))
        w.click(".entry", "up.txt")
        w.sees("one <script>", ".viewer pre")
        assert fresh(d).get(f"/v1/sandboxes/{box}/files?path=/workspace/up.txt").body == b"one <script>\ntwo\n"
        shots(w, "files")

        # a checkpoint, a change, undo
        w.click(".tabs a", "Checkpoints")
        w.click("button", "New checkpoint")
        w.type(w.labelled("Name"), "before" + KEYS["enter"])
        w.find("strong", "before")
        fresh(d).exec(box, "sh", "-c", "rm /workspace/up.txt; echo more > /workspace/more")
        w.click("button", "Changes since before")
        w.sees("/workspace/more", ".viewer")
        w.click("button", "Fork from before")
        w.type(w.labelled("Name"), "twin" + KEYS["enter"])
        w.sees("Made: twin", "#say")
        shots(w, "checkpoints")
        w.click("button", "Undo to before")
        w.click("dialog button", "Undo to here")
        w.sees("The files are as they were", "#say")
        assert fresh(d).get(f"/v1/sandboxes/{box}/files?path=/workspace/up.txt").status == 200
        assert d.get(f"/v1/sandboxes/{box}/files?path=/workspace/more").status == 404
        assert d.get("/v1/sandboxes/twin").json["status"] == "running"

        # a host is denied, seen, allowed, reached
        curl = ["curl", "-s", "http://outside.test/"]
        w.click(".tabs a", "Network")
        w.sees("other.test", ".chips")
        assert "allowed by no rule" in fresh(d).exec(box, *curl)["stdout"]
        w.click("button", "Allow outside.test")
        w.sees("outside.test", ".chips")
        assert d.exec(box, *curl)["stdout"] == f"hello from {OUTSIDE}\n"
        w.sees("allowed", ".scroll")
        shots(w, "network")

        # the log, and what happened
        fresh(d).exec(box, "sh", "-c", "echo from the log; echo wrong >&2", detach=True)
        w.click(".tabs a", "Logs")
        w.sees("from the log", ".log")
        shots(w, "logs")
        w.click(".tabs a", "Events")
        w.find(".events li")
        shots(w, "events")

        # the others
        for place, title in (("images", "Images"), ("volumes", "Volumes"), ("networks", "Networks"), ("pools", "Pools and sessions"), ("host", "Host")):
            w.click(f'#top a[href="#/{place}"]')
            w.find("h1", title)
            shots(w, place, (320, 1280))
        w.click(".logo")
        w.find(".card-name", "twin")
        w.sees("KiB", ".cards")
        shots(w, "sandboxes")
        w.click("button", "Stop twin")
        b.wait_for(lambda: fresh(d).get("/v1/sandboxes/twin").json["status"] == "stopped", 20, "the stop")
        w.click(".card-name", "web")
        w.click("button", "Remove")
        w.click("dialog button", "Remove")
        w.find("h1", "Sandboxes")
        assert fresh(d).get(f"/v1/sandboxes/{box}").status == 404
        clean(w)

        # sign out: the session is no token any more
        session = w.script("return sessionStorage.getItem('berth.session')")
        assert fresh(d).get("/v1/sandboxes", token=session, tcp=True).status == 200
        w.click("#sign-out")
        w.find("#token")
        assert w.script("return sessionStorage.length") == 0
        fresh(d)
        assert d.get("/v1/sandboxes", token=session, tcp=True).status == 401
        lab.untouched()


def test_a_tenant_sees_what_is_its_own_and_no_host_page():
    with Daemon(PAGE, tcp=True) as d, Browser() as w:
        d.create("roots")
        d.create("alices", token=TENANT, tcp=True)
        w.look_as(1280)
        sign_in(w, d, TENANT)
        w.find(".card-name", "alices")
        assert "roots" not in w.text("main") and w.text(".role") == "tenant"
        assert w.script("return document.querySelector('#top a[href=\"#/host\"]')") is None
        clean(w)


def test_the_page_is_used_by_keyboard_and_named_for_a_screen_reader():
    with Daemon(PAGE, tcp=True) as d, Browser() as w:
        d.create("web")
        w.look_as(1280)
        sign_in(w, d)
        w.find(".card-name", "web")
        reached = set()
        w.script("document.body.focus()")
        for _ in range(30):
            w.keys(KEYS["tab"])
            reached.add(w.script("const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.textContent.trim()"))
        assert {"skip", "new", "web", "sign-out", "Stop web", "Pause web"} <= reached, reached
        w.open(f"http://127.0.0.1:{d.port}/ui/#/sandboxes/{d.get('/v1/sandboxes').json['sandboxes'][0]['id']}")
        w.find('.tabs [aria-selected="true"]', "Overview")
        w.script("document.getElementById('tab-overview').focus()")
        w.keys(KEYS["left"])
        w.find('.tabs [aria-selected="true"]', "Events")
        nameless = w.script("""
            return [...document.querySelectorAll("button, a, input, select, textarea")].filter((e) => e.getClientRects().length &&
                !(e.getAttribute("aria-label") || e.textContent.trim() || (e.labels && e.labels.length))).map((e) => e.outerHTML)""")
        assert not nameless, nameless
        clean(w)
