# SPDX-License-Identifier: Apache-2.0
"""
A link to berthd: over its unix socket, or a URL with a bearer token.

A request in the words of berth-stdio(1) becomes one of berthd's HTTP interface: a row of ROUTES, or a function for
what is not that simple.  Connections are kept for the next request.  A command ends with its connection, which is how
it is cancelled.
"""
from __future__ import annotations

import http.client
import json
import select
import secrets
import shutil
import socket
import threading
import time
import urllib.parse
from typing import IO, TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple, Union

from . import errors
from ._link import Link, Stream, interruptible, is_text

if TYPE_CHECKING:
    from ._link import Answer

CONNECT_SECONDS = 10
KEPT = 16                   # idle connections
ERROR_MAX = 1 << 20
AGAIN_SECONDS = (0.2, 0.5, 1, 2, 4)      # pauses before what makes a sandbox is asked for again
Reply = Tuple[http.client.HTTPConnection, http.client.HTTPResponse, socket.socket]
Body = Union[None, bytes, Dict[str, Any], IO[bytes]]

BOX = "/v1/sandboxes/{sandbox}"
COMMAND = BOX + "/commands/{command}"
NETWORK = "/v1/networks/{name}"
SESSION = BOX + "/sessions/{session}"
ZYGOTE = "/v1/zygotes/{zygote}"
# operation: method, path, where the members go that are not in the path
ROUTES: Dict[str, Tuple[str, str, str]] = {
    "sh": ("POST", SESSION + "/run", "json"), "sh-wait": ("POST", SESSION + "/wait", "json"),
    "sh-cancel": ("POST", SESSION + "/cancel", "query"), "sessions": ("GET", BOX + "/sessions", "query"),
    "session-close": ("DELETE", SESSION, "query"),
    "exec": ("POST", BOX + "/exec", "json"), "commands": ("GET", BOX + "/commands", "query"),
    "output": ("GET", COMMAND + "/output", "query"), "follow": ("GET", COMMAND + "/follow", "query"),
    "wait": ("GET", COMMAND + "/wait", "query"), "forget": ("DELETE", COMMAND, "query"),
    "resize": ("POST", COMMAND + "/resize", "json"),
    "stats": ("GET", BOX + "/stats", "query"), "top": ("GET", BOX + "/top", "query"),
    "pause": ("POST", BOX + "/pause", "query"), "resume": ("POST", BOX + "/resume", "query"),
    "start": ("POST", BOX + "/start", "query"), "stop": ("POST", BOX + "/stop", "query"),
    "restart": ("POST", BOX + "/restart", "query"), "kill": ("POST", BOX + "/kill", "query"),
    "rename": ("POST", BOX + "/rename", "json"), "update": ("PATCH", BOX, "json"),
    "wait-stopped": ("GET", BOX + "/wait", "query"), "ready": ("GET", BOX + "/ready", "query"),
    "ls": ("GET", BOX + "/files/list", "query"), "stat": ("GET", BOX + "/files/stat", "query"),
    "mkdir": ("POST", BOX + "/files/mkdir", "json"), "mv": ("POST", BOX + "/files/mv", "json"),
    "diff": ("GET", BOX + "/diff", "query"), "commit": ("POST", BOX + "/commit", "json"),
    "network": ("GET", BOX + "/network", "query"), "network-log": ("GET", BOX + "/network/log", "query"),
    "logs": ("GET", BOX + "/logs", "query"), "ping": ("GET", "/v1/version", "query"),
    "volumes": ("GET", "/v1/volumes", "query"), "volume-create": ("POST", "/v1/volumes", "json"),
    "volume-inspect": ("GET", "/v1/volumes/{name}", "query"), "volume-rm": ("DELETE", "/v1/volumes/{name}", "query"),
    "networks": ("GET", "/v1/networks", "query"), "network-create": ("POST", "/v1/networks", "json"),
    "network-inspect": ("GET", NETWORK, "query"), "network-rm": ("DELETE", NETWORK, "query"),
    "network-connect": ("POST", NETWORK + "/connect", "json"), "network-disconnect": ("POST", NETWORK + "/disconnect", "json"),
    "images": ("GET", "/v1/images", "query"), "pools": ("GET", "/v1/manager/stats", "query"),
    "checkpoint": ("POST", BOX + "/checkpoints", "json"), "checkpoints": ("GET", BOX + "/checkpoints", "query"),
    "checkpoint-rm": ("DELETE", BOX + "/checkpoints/{checkpoint}", "query"),
    "undo": ("POST", BOX + "/undo", "json"), "fork": ("POST", BOX + "/fork", "json"),
    "zygotes": ("GET", "/v1/zygotes", "query"), "zygote-rm": ("DELETE", ZYGOTE, "query"), "run": ("POST", ZYGOTE + "/run", "json"),
    "checkpoint-store": ("POST", BOX + "/checkpoints/{checkpoint}/store", "json"),
    "stored-checkpoints": ("GET", "/v1/checkpoints", "query"),
    "stored-rm": ("DELETE", "/v1/checkpoints/{stored}", "query"),
    "preview": ("POST", BOX + "/ports/{port}/preview", "json"),
    "heartbeat": ("POST", "/v1/manager/sessions/{session}/heartbeat", "json"),
}
# the member of the answer that is the list that the program prints
LISTS = {"volumes": "volumes", "networks": "networks", "images": "images", "ps": "sandboxes", "zygotes": "zygotes"}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(CONNECT_SECONDS)
        self.sock.connect(self._path)


def path_of(template: str, members: Answer) -> str:
    """The path, with those of the members that it names, which are taken out of them."""
    for name in ("sandbox", "command", "session", "name", "checkpoint", "stored", "zygote", "run", "port"):
        if "{" + name + "}" in template:
            value = str(members.pop(name))
            if value in ("", ".", ".."):
                raise errors.Invalid(f"'{value}' is no {name}")
            template = template.replace("{" + name + "}", urllib.parse.quote(value, safe=""))
    return template


def query_of(members: Answer) -> str:
    words = []
    for name, value in members.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                words.append((name, ("true" if one else "false") if isinstance(one, bool) else str(one)))
    return "?" + urllib.parse.urlencode(words) if words else ""


def body_of(members: Answer) -> Answer:
    out: Answer = {}
    for name, value in members.items():
        if isinstance(value, bytes):
            text = is_text(value)
            out[name if text else name + "_hex"] = value.decode() if text else value.hex()
        elif value is not None:
            out[name] = value
    return out


def is_loopback(host: str) -> bool:
    numbers = host.split(".")
    return host in ("localhost", "::1") or (len(numbers) == 4 and numbers[0] == "127" and all(n.isdigit() for n in numbers))


def maker(url: str) -> Callable[[], http.client.HTTPConnection]:
    """What makes connections to an address."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urllib.parse.urlsplit("")
    if "@" in parts.netloc or parts.query or parts.fragment:
        host = None
    if parts.scheme == "unix" and not parts.netloc and parts.path:
        return lambda: UnixConnection(parts.path)
    if parts.scheme == "https" and host and parts.path in ("", "/"):
        return lambda: http.client.HTTPSConnection(str(host), port, timeout=CONNECT_SECONDS)
    if parts.scheme == "http" and host and not is_loopback(host):
        raise errors.Invalid(f"'{url}': plain http, with its token, leads to loopback only", "https://, or ssh -L 7423:127.0.0.1:7423 HOST")
    if parts.scheme == "http" and host and parts.path in ("", "/"):
        return lambda: http.client.HTTPConnection(str(host), port, timeout=CONNECT_SECONDS)
    raise errors.Invalid(f"'{url}' is not an address of berthd", "unix:///run/berth/berthd.sock, http://127.0.0.1:7423 or https://HOST")


class Http(Link):
    def __init__(self, url: str, token: Optional[str] = None) -> None:
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._idle: List[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = False
        self._url = url
        self._make = maker(url)

    # ---- connections

    def take(self) -> http.client.HTTPConnection:
        """A connection that berthd has not closed."""
        with self._lock:
            if self._closed:
                raise errors.Usage("the client is closed")
            while self._idle:
                c = self._idle.pop()
                if c.sock and not select.select([c.sock], [], [], 0)[0]:
                    return c
                c.close()
        c = self._make()
        try:
            c.connect()
            c.sock.settimeout(None)
        except OSError as e:
            raise errors.Network(f"connect to {self._url}: {e.strerror or e}", "is berthd running there?") from None
        return c

    def give_back(self, c: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed and c.sock and len(self._idle) < KEPT:
                self._idle.append(c)
                return
        c.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for c in idle:
            c.close()

    # ---- requests

    def open(self, method: str, path: str, body: Body = None, kind: str = "application/octet-stream",
             more: Optional[Dict[str, str]] = None) -> "Reply":
        """The head of a good reply; what is not good is raised."""
        headers = {**self._headers, **(more or {})}
        if isinstance(body, dict):
            body, kind = json.dumps(body).encode(), "application/json"
        if body is not None:
            headers["Content-Type"] = kind
        c = self.take()
        sock = c.sock       # the connection forgets it when the reply is its last
        try:
            with interruptible(lambda: hang_up(sock)):
                c.request(method, path, body, headers)
                reply = c.getresponse()
                wrong = reply.read(ERROR_MAX) if reply.status >= 400 else b""
        except (OSError, http.client.HTTPException) as e:
            c.close()
            raise errors.Network(f"{method} {self._url}{path.split('?')[0]}: {e}") from None
        except BaseException:
            c.close()
            raise
        if reply.status < 400:
            return c, reply, sock
        c.close()
        raise error_of(reply.status, wrong)

    def dial(self, path: str) -> socket.socket:
        """A connection of its own that berthd joins to a port of a sandbox."""
        c = self._make()
        try:
            c.connect()
            c.sock.settimeout(None)
            with interruptible(lambda: hang_up(c.sock)):
                c.putrequest("GET", path)
                for name, value in {**self._headers, "Connection": "Upgrade", "Upgrade": "tcp"}.items():
                    c.putheader(name, value)
                c.endheaders()
                head = b""
                while not head.endswith(b"\r\n\r\n"):       # not a byte more: what follows is the server's
                    piece = c.sock.recv(1)
                    if not piece or len(head) > 65536:
                        raise http.client.BadStatusLine(head.decode("latin1"))
                    head += piece
                status = int(head.split(None, 2)[1])
                if status == 101:
                    sock, c.sock = c.sock, None
                    return sock
                rest = b""
                while len(rest) < ERROR_MAX and (piece := c.sock.recv(65536)):
                    rest += piece
                    if rest.endswith(b"\n"):
                        break
        except (OSError, http.client.HTTPException, ValueError, IndexError) as e:
            c.close()
            raise errors.Network(f"GET {self._url}{path}: {e}") from None
        except BaseException:
            c.close()
            raise
        c.close()
        raise error_of(status, rest)

    def raw(self, method: str, path: str, body: Body = None, more: Optional[Dict[str, str]] = None) -> bytes:
        c, reply, sock = self.open(method, path, body, more=more)
        try:
            with interruptible(lambda: hang_up(sock)):
                data = reply.read()
        except (OSError, http.client.HTTPException) as e:
            c.close()
            raise errors.Network(f"{method} {self._url}{path.split('?')[0]}: the reply was cut short: {e}") from None
        except BaseException:
            c.close()
            raise
        self.give_back(c)
        return data

    def download(self, path: str, into: IO[bytes]) -> None:
        c, reply, sock = self.open("GET", path)
        try:
            with interruptible(lambda: hang_up(sock)):
                shutil.copyfileobj(reply, into)
        except (OSError, http.client.HTTPException) as e:
            raise errors.Network(f"GET {self._url}{path.split('?')[0]}: the reply was cut short: {e}") from None
        finally:
            c.close()

    def json(self, method: str, path: str, body: Body = None, more: Optional[Dict[str, str]] = None) -> Any:
        data = self.raw(method, path, body, more)
        return json.loads(data) if data else {}

    def once(self, path: str, body: Body) -> Any:
        """POST what makes a sandbox, which is made once: when the connection ends without a reply it is asked for again with the same key."""
        key = {"Idempotency-Key": secrets.token_hex(16)}
        self.give_back(self.take())     # without a berthd there is nothing to wait for
        for pause in AGAIN_SECONDS:
            try:
                return self.json("POST", path, body, key)
            except errors.Network:
                time.sleep(pause)
        return self.json("POST", path, body, key)

    def route(self, op: str, members: Answer) -> Tuple[str, str, Body]:
        if op not in ROUTES:
            raise errors.Unsupported(f"{op} over berthd")
        method, template, where = ROUTES[op]
        rest = {k: v for k, v in members.items() if v is not None}
        path = path_of(template, rest)
        if where == "query":
            return method, path + query_of(rest), None
        return method, path, body_of(rest)

    def call(self, op: str, members: Answer) -> Answer:
        special = SPECIAL.get(op)
        if special:
            return special(self, dict(members))
        answer = self.json(*self.route(op, members))
        if op in LISTS:
            return {"result": answer[LISTS[op]]}
        return answer if isinstance(answer, dict) else {"result": answer}

    def stream(self, op: str, members: Answer) -> Stream:
        members = dict(members)
        if op in ("exec", "run"):
            members["stream"] = True
        if op == "events":
            path = path_of(BOX + "/events", members) if members.get("sandbox") else "/v1/events"
            members.pop("sandbox", None)
            members.pop("follow", None)
            return Events(self, self.open("GET", path + query_of({"since": members.get("from")})), shape=event_of)
        return Events(self, self.open(*self.route(op, members)), about=members)


def hang_up(sock: socket.socket) -> None:
    """From any thread: what waits for the connection sees its end."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def error_of(status: int, body: bytes) -> errors.BerthError:
    try:
        answer = json.loads(body)
        if "detail" in answer:
            return errors.make(answer.get("code", "internal"), str(answer["detail"]))
        return errors.of_answer(answer) or errors.Internal(f"status {status}")
    except (ValueError, TypeError, AttributeError):
        return errors.Network(f"status {status}, not of berthd: {body[:200]!r}")


def event_of(told: Answer) -> Answer:
    """An event as the program has it: its number is the cursor."""
    rest = {k: v for k, v in told.items() if k not in ("event", "type")}
    return {"event": told.get("type"), **rest, "cursor": told.get("event")}


class Events(Stream):
    """Lines of JSON as they come, of a reply that has begun."""

    def __init__(self, link: Http, reply: Reply, about: Optional[Answer] = None,
                 shape: Callable[[Answer], Answer] = lambda answer: answer) -> None:
        self._link, self._shape = link, shape
        self._connection, self._reply, self._socket = reply
        self._about = {k: v for k, v in (about or {}).items() if k in ("sandbox", "zygote")}
        self._ended = False

    def __next__(self) -> Answer:
        if self._ended:
            raise StopIteration
        line = b"\n"        # what says that berthd is still there
        try:
            while line == b"\n":
                with interruptible(self.cancel):
                    line = self._reply.readline()
        except (OSError, http.client.HTTPException, ValueError) as e:
            self.close()
            raise errors.Network(f"the reply was cut short: {e}") from None
        if not line:
            self._ended = True
            self._link.give_back(self._connection)
            raise StopIteration
        answer: Answer = json.loads(line)
        wrong = errors.of_answer(answer) if set(answer) <= {"error", "exit_status"} else None
        if wrong:
            self.close()
            raise wrong
        if answer.get("started"):
            self._about.update({k: str(answer[k]) for k in ("command", "run") if k in answer})
        return self._shape(answer)

    def send(self, data: bytes, eof: bool) -> None:
        template = ZYGOTE + "/runs/{run}" if "zygote" in self._about else COMMAND
        path = path_of(template + "/stdin", dict(self._about))
        self._link.json("POST", path + query_of({"eof": eof}), data)

    def cancel(self) -> None:
        self._ended = True
        hang_up(self._socket)

    def close(self) -> None:
        """berthd sees the end of the connection, and kills the command."""
        if not self._ended:
            self.cancel()
        self._reply.close()
        self._connection.close()


# ---- operations that are more than a row ------------------------------------------------------------


def op_create(link: Http, m: Answer, path: str = "/v1/sandboxes") -> Answer:
    options = dict(m.get("options") or {})
    body: Answer = {"image": m.get("image"), "name": options.pop("name", None), "pull": options.pop("pull", None),
                    "zygote": options.pop("zygote", None), "command": m.get("args") or None, "options": options}
    body = {k: v for k, v in body.items() if v is not None}
    made = link.once(path, body) if path == "/v1/sandboxes" else link.json("POST", path, body)
    return {**made, "sandbox": made["id"]}


def op_zygote_create(link: Http, m: Answer) -> Answer:
    made = op_create(link, m, "/v1/zygotes")
    return {**made, "zygote": made["id"]}


def op_zygote_inspect(link: Http, m: Answer) -> Answer:
    return {"record": link.json("GET", path_of(ZYGOTE, m))}


def op_inspect(link: Http, m: Answer) -> Answer:
    record = link.json("GET", path_of(BOX, m))
    return {"record": record, "sandbox": record["id"]}


def op_ps(link: Http, m: Answer) -> Answer:
    options = m.get("options") or {}
    query = {"filter": options.get("filter"), "running": None if options.get("all") else True}
    return {"result": link.json("GET", "/v1/sandboxes" + query_of(query))["sandboxes"]}


def op_rm(link: Http, m: Answer) -> Answer:
    if "paths" in m:
        path = path_of(BOX + "/files/rm", m)
        return dict(link.json("POST", path, body_of(m)))
    path = path_of(BOX, m)
    return dict(link.json("DELETE", path + query_of({"force": bool((m.get("options") or {}).get("force"))})))


def op_read(link: Http, m: Answer) -> Answer:
    path = path_of(BOX + "/files", m)
    return {"data": link.raw("GET", path + query_of({"path": m["path"], "user": m.get("user"), "limit": m.get("max")}))}


def op_write(link: Http, m: Answer) -> Answer:
    data = m.pop("data")
    path = path_of(BOX + "/files", m)
    written = link.json("PUT", path + query_of(m), data.encode() if isinstance(data, str) else data)
    return {"bytes": written["written"]}


def op_send(link: Http, m: Answer) -> Answer:
    data, eof = m.pop("data", b""), m.pop("eof", None)
    path = path_of(COMMAND + "/stdin" if m.get("command") else SESSION + "/input", m)
    return dict(link.json("POST", path + query_of({"eof": eof}), data))


def op_signal(link: Http, m: Answer) -> Answer:
    path = path_of(COMMAND + "/signal" if m.get("command") else SESSION + "/signal", m)
    return dict(link.json("POST", path, body_of(m)))


def op_code(link: Http, m: Answer) -> Answer:
    path = path_of(BOX + "/code", m)
    timeout = m.pop("timeout_ms", None)
    return dict(link.json("POST", path, body_of({**m, "timeout": None if timeout is None else f"{timeout}ms"})))


def op_pull(link: Http, m: Answer) -> Answer:
    return dict(link.json("POST", "/v1/images/pull", {"ref": m["image"]}))


def manager(link: Http, function: str, arguments: Answer) -> Any:
    """A call of the manager; what it could not do it tells beside a value of null or false."""
    body = {k: v for k, v in arguments.items() if v is not None}
    answer = link.once("/" + function, body) if function == "create_from_pool" else link.json("POST", "/" + function, body)
    if "detail" in answer:
        raise errors.make(answer.get("code", "internal"), answer["detail"])
    return answer.get("data")


def op_claim(link: Http, m: Answer) -> Answer:
    identity = manager(link, "create_from_pool", m)
    record = manager(link, "get_info", {"identity": identity})
    return {"identity": identity, "sandbox": record["container_id"], "record": record}


def op_release(link: Http, m: Answer) -> Answer:
    return {"released": bool(manager(link, "release", m))}


def op_copy_in(link: Http, m: Answer) -> Answer:
    from . import _tar
    path = path_of(BOX + "/files/archive", m)
    query = {"path": m["remote"], "parents": m.get("parents"), "as": "contents" if _tar.is_contents(m["local"]) else "copy"}
    with _tar.pack(m["local"]) as archive:
        return dict(link.json("PUT", path + query_of(query), archive))


def op_copy_out(link: Http, m: Answer) -> Answer:
    from . import _tar
    path = path_of(BOX + "/files/archive", m)
    with _tar.spool() as archive:
        link.download(path + query_of({"path": m["remote"], "checked": True}), archive)
        archive.seek(0)
        return {"bytes": _tar.unpack(archive, m["remote"], m["local"], bool(m.get("parents")))}


def op_checkpoint_export(link: Http, m: Answer) -> Answer:
    from . import _tar
    path = path_of(BOX + "/checkpoints/{checkpoint}/export", m)
    with _tar.new_file(m["file"]) as into:
        link.download(path, into)
    return {}


def op_checkpoint_import(link: Http, m: Answer) -> Answer:
    query = {name: m.get(name) for name in ("name", "trust", "drop", "no_start")}
    try:
        file = open(m["file"], "rb")
    except OSError as e:
        raise errors.NotFound(f"open {m['file']}: {e.strerror}") from None
    with file:
        made = link.json("POST", "/v1/checkpoints/import" + query_of(query), file)
    return {**made, "sandbox": made["id"]}


def op_stored_restore(link: Http, m: Answer) -> Answer:
    path = path_of("/v1/checkpoints/{stored}/restore", m)
    made = link.json("POST", path, body_of(m))
    return {**made, "sandbox": made["id"]}


SPECIAL: Dict[str, Callable[[Http, Answer], Answer]] = {
    "create": op_create, "inspect": op_inspect, "ps": op_ps, "rm": op_rm, "read": op_read, "write": op_write, "send": op_send,
    "signal": op_signal, "code": op_code, "pull": op_pull, "claim": op_claim, "release": op_release,
    "copy-in": op_copy_in, "copy-out": op_copy_out, "zygote-create": op_zygote_create, "zygote-inspect": op_zygote_inspect,
    "checkpoint-export": op_checkpoint_export, "checkpoint-import": op_checkpoint_import,
    "stored-restore": op_stored_restore,
}
