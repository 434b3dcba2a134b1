# SPDX-License-Identifier: Apache-2.0
"""Debian's headless chromium, driven by WebDriver over plain HTTP (www.w3.org/TR/webdriver2); no library."""
import base64
import http.client
import json
import os
import re
import shutil
import signal
import subprocess

import berthtest as b

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"enter": "\ue007", "tab": "\ue004", "escape": "\ue00c", "right": "\ue014", "left": "\ue012"}


class Browser:
    """with Browser() as w: w.open(url); w.click("#new")"""

    def __init__(self):
        self.home = b.tmpdir("browser")
        self.p = self.session = self.port = None

    def __enter__(self):
        driver = shutil.which("chromedriver")
        assert driver, "chromedriver is not there: apt-get install chromium chromium-driver"
        env = {"HOME": self.home, "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TMPDIR": self.home, "XDG_CONFIG_HOME": self.home, "XDG_CACHE_HOME": self.home}
        self.p = subprocess.Popen([driver, "--port=0"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  start_new_session=True)
        try:
            told = b.read_until(self.p.stdout, b"successfully on port", 60)
            while not (found := re.search(rb"successfully on port (\d+)\.", told)):
                told += b.read_until(self.p.stdout, b".", 10)
            self.port = int(found.group(1))
            options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                                "--disable-background-networking", "--disable-extensions", "--disable-sync", "--disable-default-apps", "--disable-component-update", "--lang=en-US", "--user-data-dir=" + os.path.join(self.home, "profile")],
                       "prefs": {"download.default_directory": self.home}}
            made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
            self.session = made["sessionId"]
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, value, trace):
        if kind and self.session:
            try:
                self.shot("failed")
                print(self.text("body")[:2000], self.log())
            except Exception:
                pass
        if self.session:
            try:
                self.call("DELETE", f"/session/{self.session}")
            except (OSError, AssertionError, http.client.HTTPException):
                pass
        if self.p:
            try:
                os.killpg(self.p.pid, signal.SIGTERM)
                self.p.wait(10)
                os.killpg(self.p.pid, signal.SIGKILL)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
            b.kill_tree(self.p.pid, including=True)
            self.p.wait()
            self.p.stdout.close()
        shutil.rmtree(os.path.join(self.home, "profile"), ignore_errors=True)

    # ---- the protocol

    def call(self, method, path, body=None, seconds=60):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds * b.SLOW)
        try:
            c.request(method, path, json.dumps(body if body is not None else {}) if method == "POST" else None, {"Content-Type": "application/json"})
            told = json.loads(c.getresponse().read())["value"]
        finally:
            c.close()
        assert not (isinstance(told, dict) and "error" in told and "stacktrace" in told), f"{method} {path}: {told['error']}: {told['message'][:300]}"
        return told

    def do(self, path, body=None, method="POST"):
        return self.call(method, f"/session/{self.session}/{path}", body)

    def devtools(self, command, **parameters):
        return self.do("goog/cdp/execute", {"cmd": command, "params": parameters})

    # ---- what a user does

    def open(self, url):
        self.do("url", {"url": url})

    def script(self, text, *args):
        return self.do("execute/sync", {"script": text, "args": list(args)})

    def find(self, selector, text=None, seconds=20):
        """The shown element, of this text or accessible name."""
        def look():
            return self.script("""
                for (const e of document.querySelectorAll(arguments[0])) {
                    const name = e.getAttribute("aria-label") || e.textContent;
                    if (e.getClientRects().length && (arguments[1] === null || name.trim() === arguments[1]))
                        return e;
                }
                return null;""", selector, text)
        return b.wait_for(look, seconds, f"{selector} {text or ''} in the page")

    def press(self, element):
        self.do(f"element/{element[ELEMENT]}/click", {})

    def click(self, selector, text=None, seconds=20):
        """Again when the page draws it anew meanwhile."""
        def once():
            try:
                self.press(self.find(selector, text, seconds))
                return True
            except AssertionError as e:
                if "stale" in str(e) or "intercepted" in str(e) or "not interactable" in str(e):
                    return False
                raise
        b.wait_for(once, seconds, f"a press of {selector} {text or ''}")

    def type(self, selector, text, clear=False):
        element = self.find(selector)
        if clear:
            self.do(f"element/{element[ELEMENT]}/clear", {})
        self.do(f"element/{element[ELEMENT]}/value", {"text": text})

    def give(self, name, path):
        """A file to the field of this id, which need not be shown."""
        field = self.script("return document.getElementById(arguments[0])", name)
        self.do(f"element/{field[ELEMENT]}/value", {"text": path})

    def keys(self, text):
        """To what has the focus."""
        self.do("actions", {"actions": [{"type": "key", "id": "keys", "actions": [
            {"type": kind, "value": c} for c in text for kind in ("keyDown", "keyUp")]}]})

    def labelled(self, label):
        """The selector of the field of this label."""
        found = b.wait_for(lambda: self.script("""
            for (const l of document.querySelectorAll("label"))
                if (l.textContent.trim() === arguments[0] && l.getClientRects().length)
                    return l.htmlFor;
            return null;""", label), 20, f"the field {label}")
        return "#" + found

    def find_input(self, name):
        """The selector of the field that has this accessible name."""
        return f'input[aria-label="{name}"]'

    def text(self, selector):
        return self.script("const e = document.querySelector(arguments[0]); return e ? e.innerText : null", selector)

    def sees(self, text, selector="body", seconds=20):
        b.wait_for(lambda: text in (self.text(selector) or ""), seconds, f"{text!r} in {selector}")

    # ---- how it looks

    def look_as(self, width, dark=False, height=900):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                                                              {"name": "prefers-reduced-motion", "value": "reduce"}])

    def shot(self, name):
        place = os.environ.get("BERTH_TEST_SCREENSHOTS")
        data = base64.b64decode(self.do("screenshot", None, "GET"))
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        if place:
            os.makedirs(place, exist_ok=True)
            with open(os.path.join(place, name + ".png"), "wb") as f:
                f.write(data)
        return data

    def log(self):
        """What the console has since the last look."""
        return [one for one in self.do("se/log", {"type": "browser"})]
