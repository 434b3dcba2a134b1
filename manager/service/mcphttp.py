# SPDX-License-Identifier: Apache-2.0
# MCP's streamable HTTP, and the transport of events before it ("sse"), for a client that speaks lines: each line of
# stdin is POSTed, and what comes back is printed, a message a line.  It runs in the sandbox, so that the sandbox's
# network decides whom it reaches.
import json, os, sys, threading, urllib.error, urllib.parse, urllib.request

config = json.loads(os.environ.pop("BERTH_MCP"))
BYTES, SECONDS = 16 << 20, 300
session = version = None
lock, pending = threading.Lock(), set()     # of stdout; the ids that a stream of events has not answered


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *unused):
        return None     # what is sent, keys among it, was meant for this server


opener = urllib.request.build_opener(Stay)


def say(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def fail(request, why):
    say({"jsonrpc": "2.0", "id": request, "error": {"code": -32000, "message": config["url"][:200] + ": " + why}})


def ask(method, body, seconds, url=config["url"], accept="application/json, text/event-stream"):
    headers = {**config.get("headers", {}), "Accept": accept, "Content-Type": "application/json"}
    if session:
        headers["Mcp-Session-Id"] = session
    if version:
        headers["MCP-Protocol-Version"] = version
    return opener.open(urllib.request.Request(url, body, headers, method=method), timeout=seconds)


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
    """(kind, data) of each event."""
    kind, data = "message", []
    for line in lines(response):
        if line.startswith("event:"):
            kind = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line:
            if data:
                yield kind, "\n".join(data)
            kind, data = "message", []
    if data:
        yield kind, "\n".join(data)


def answers(response):
    if response.headers.get_content_type() == "text/event-stream":
        for _, text in events(response):
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


def reason(e):
    if isinstance(e, urllib.error.HTTPError):
        return "HTTP status %d" % e.code
    return str(e.reason) if isinstance(e, urllib.error.URLError) else str(e) or type(e).__name__


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
    except Exception as e:
        return reason(e)


def origin(url):
    u = urllib.parse.urlsplit(url)
    return u.scheme, u.hostname, u.port or {"http": 80, "https": 443}.get(u.scheme)


class Stream:
    """The transport of events: one stream brings all messages, and its first event says where lines are POSTed."""

    def __init__(self):
        self.response = ask("GET", None, SECONDS, accept="text/event-stream")
        kind, where = next(events(self.response), (None, ""))
        if kind != "endpoint":
            raise ValueError("the stream of events does not begin with an endpoint")
        self.where = urllib.parse.urljoin(config["url"], where)
        if origin(self.where) != origin(config["url"]):
            raise ValueError("the endpoint is on another server")     # the keys were meant for this one
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        why = "the server ended its stream of events"
        try:
            # a generator for each event, so that each has the room of an answer
            while event := next(events(self.response), None):
                message = json.loads(event[1]) if event[0] == "message" else None
                if isinstance(message, dict) and message.get("method") == "ping" and "id" in message:
                    ask("POST", json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode(), SECONDS, self.where).close()
                elif message is not None:
                    if isinstance(message, dict) and "method" not in message:
                        pending.discard(message.get("id"))
                    take(message, None)
        except Exception as e:
            why = reason(e)
        for request in list(pending):
            fail(request, why)
        os._exit(0)     # the next call begins another session

    def forward(self, line, request):
        if "method" in request and "id" in request:
            pending.add(request["id"])
        try:
            ask("POST", line.encode(), SECONDS, self.where).close()
            return None
        except Exception as e:
            pending.discard(request.get("id"))
            return reason(e)


def begin(line, request):
    """The stream of events, if the server wants one, and why the first request failed, or None."""
    if config.get("type") != "sse":
        why = forward(line, request)
        if config.get("type") or why not in ("HTTP status 400", "HTTP status 404", "HTTP status 405"):
            return None, why
    try:
        s = Stream()
    except Exception as e:
        return None, reason(e) if config.get("type") else why
    return s, s.forward(line, request)


stream = None
first = True
for line in sys.stdin:
    request = json.loads(line)
    if first:
        stream, why = begin(line, request)
        first = False
    else:
        why = (stream.forward if stream else forward)(line, request)
    if why and "id" in request:
        fail(request["id"], why)
    if why == "HTTP status 404" and session:
        break   # the server has forgotten the session: the next call begins another
if session:
    try:
        ask("DELETE", None, 2).close()
    except Exception:
        pass
