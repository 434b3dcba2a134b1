# SPDX-License-Identifier: Apache-2.0
# MCP's streamable HTTP for a client that speaks lines: each line of stdin is POSTed, and what comes back is
# printed, a message a line.  It runs in the sandbox, so that the sandbox's network decides whom it reaches.
import json, os, sys, urllib.error, urllib.request

config = json.loads(os.environ.pop("BERTH_MCP"))
BYTES, SECONDS = 16 << 20, 300
session = version = None


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *unused):
        return None     # what is sent, keys among it, was meant for this server


opener = urllib.request.build_opener(Stay)


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def ask(method, body, seconds):
    headers = {**config.get("headers", {}), "Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if session:
        headers["Mcp-Session-Id"] = session
    if version:
        headers["MCP-Protocol-Version"] = version
    return opener.open(urllib.request.Request(config["url"], body, headers, method=method), timeout=seconds)


def lines(response):
    room = BYTES
    while True:
        line = response.readline(room + 1)
        room -= len(line)
        if room < 0:
            raise ValueError("the answer has more than %d bytes" % BYTES)
        if not line:
            return
        yield line.decode().rstrip("\r\n")


def events(response):
    data = []
    for line in lines(response):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []
    if data:
        yield "\n".join(data)


def answers(response):
    if response.headers.get_content_type() == "text/event-stream":
        for text in events(response):
            yield json.loads(text)
        return
    text = "\n".join(lines(response))
    if text:
        yield json.loads(text)


def take(message, wanted):
    """Prints a message of the server; true when it answers wanted."""
    global version
    for m in message if isinstance(message, list) else [message]:
        if not isinstance(m, dict):
            raise ValueError("a message is not an object")
        result = m.get("result")
        if isinstance(result, dict) and isinstance(result.get("protocolVersion"), str):
            version = result["protocolVersion"]
        say(m)
        if wanted is not None and m.get("id") == wanted and "method" not in m:
            return True
    return False


def forward(line, request):
    """Why it failed, or None."""
    global session
    wanted = request.get("id") if "method" in request else None
    try:
        with ask("POST", line.encode(), SECONDS) as response:
            session = response.headers.get("Mcp-Session-Id") or session
            if response.status == 202 or wanted is None:
                return None
            for message in answers(response):
                if take(message, wanted):
                    return None
        return "the server ended its answer without one"
    except urllib.error.HTTPError as e:
        return "HTTP status %d" % e.code
    except urllib.error.URLError as e:
        return str(e.reason)
    except Exception as e:
        return str(e) or type(e).__name__


for line in sys.stdin:
    request = json.loads(line)
    why = forward(line, request)
    if why and "id" in request:
        say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": config["url"][:200] + ": " + why}})
    if why == "HTTP status 404" and session:
        break   # the server has forgotten the session: the next call begins another
if session:
    try:
        ask("DELETE", None, 2).close()
    except Exception:
        pass
