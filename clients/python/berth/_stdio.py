# SPDX-License-Identifier: Apache-2.0
"""
A link to a `berth stdio` of its own: a child process, spoken to in lines of JSON.

One thread reads the answers and hands each to whoever waits for it, so that several requests may be under way.  What
stdio has no operation for is a command of berth, by stdio's operation "berth"; what goes on for ever (events, logs)
is a process of its own.
"""
from __future__ import annotations

import binascii
import itertools
import json
import os
import threading

from . import errors
from ._child import Child
from ._link import Link, Stream, interruptible, is_text, take_bytes

TYPE_CHECKING = False       # of typing, which takes longer to import than a command to run
if TYPE_CHECKING:
    import subprocess
    from queue import SimpleQueue
    from typing import Callable, Dict, List, Optional, Tuple

    from ._link import Answer
else:
    from _queue import SimpleQueue

LINE_MAX = 16 << 20         # of berth-stdio(1)
UNREAD_MAX = 64 << 20       # bytes of a command's output that nobody has taken yet
WRITE_PIECE = 4 << 20       # of the data of a write, in one request
# those of berth's commands that stdio has no operation for: what of a request is an argument, after the options
COMMANDS: Dict[str, Tuple[List[str], Tuple[str, ...]]] = {
    "update": (["update"], ("sandbox",)), "rename": (["rename"], ("sandbox", "name")), "top": (["top"], ("sandbox",)),
    "commit": (["commit", "--quiet"], ("sandbox", "image")),
    "wait-stopped": (["wait"], ("sandbox",)),
    "network": (["network", "inspect"], ("sandbox",)), "volumes": (["volume", "ls"], ()),
    "volume-create": (["volume", "create"], ("name",)), "volume-inspect": (["volume", "inspect"], ("name",)),
    "networks": (["network", "ls"], ()), "network-create": (["network", "create"], ("name",)),
    "network-inspect": (["network", "inspect"], ("name",)), "network-rm": (["network", "rm"], ("name",)),
    "network-connect": (["network", "connect"], ("name", "sandbox")),
    "network-disconnect": (["network", "disconnect"], ("name", "sandbox")),
    "volume-rm": (["volume", "rm"], ("name",)), "images": (["image", "ls"], ()), "pull": (["pull"], ("image",)),
    "network-log": (["network", "log"], ("sandbox",)), "events": (["events"], ("sandbox",)), "logs": (["logs"], ("sandbox",)),
}
LIFE = ("start", "stop", "restart", "kill")
# what ends by a request of its own; whatever else is answered soon, or its answer is dropped
CANCELLED = ("exec", "run", "write", "sh", "code", "copy", "create", "zygote-create", "ready", "berth", "diff", "checkpoint-export",
             "checkpoint-import", *LIFE)
POOLS = "pools and claims are berthd's"
PREVIEWS = "previews are berthd's"
STORAGE = "the storage is berthd's"
HINT = "reach berthd: Berth(\"unix:///run/berth/berthd.sock\")"


def option_words(options: Answer) -> List[str]:
    """The words of a command line for options by their long names."""
    words = []
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            if one is True:
                words.append(f"--{name}")
            elif one is not None and one is not False:
                words.append(f"--{name}={one}")
    return words


def encode(members: Answer) -> Answer:
    """A request's members with bytes as JSON can have them."""
    out: Answer = {}
    for name, value in members.items():
        if isinstance(value, bytes):
            if is_text(value):
                out[name] = value.decode()
            else:
                out[f"{name}_base64"] = binascii.b2a_base64(value, newline=False).decode()
        elif value is not None:
            out[name] = value
    return out


class Stdio(Link):
    cannot = {**{op: POOLS for op in ("claim", "release", "pools", "heartbeat")}, "preview": PREVIEWS,
              **{op: STORAGE for op in ("checkpoint-store", "stored-checkpoints", "stored-restore", "stored-rm")}}

    def __init__(self, program: str = "berth", env: Optional[Dict[str, str]] = None) -> None:
        self._program, self._env = program, env
        self._child: Optional[Child] = None
        self._lock = threading.Lock()
        self._waiting: Dict[int, Callable[[Answer], bool]] = {}
        self._ids = itertools.count(1)
        self._said = -1
        self._closed = False

    # ---- the child

    def _start(self) -> None:
        """With the lock held.  In a session of its own: a Ctrl-C at the terminal is its caller's to handle."""
        if self._closed:
            raise errors.Usage("the client is closed")
        if self._child:
            return
        self._said = os.memfd_create("berth-stderr") if hasattr(os, "memfd_create") else os.open(os.devnull, os.O_RDWR)
        try:
            self._child = Child([self._program, "stdio"], self._said, self._env)
        except OSError as e:
            os.close(self._said)
            raise errors.NotFound(f"start {self._program}: {e.strerror}", "install berth, or give program=PATH") from None
        threading.Thread(target=self._read, args=(self._child,), name="berth-stdio", daemon=True).start()

    def _read(self, child: Child) -> None:
        for line in child.stdout:
            answer = json.loads(line)
            n = answer.pop("id", None)
            take = self._waiting.get(n)
            if take and take(answer):
                self._waiting.pop(n, None)
        child.stdout.close()
        code = child.wait()
        said = os.pread(self._said, 65536, 0).decode(errors="replace").strip()
        with self._lock:
            os.close(self._said)
            self._child = None
            left = list(self._waiting.values())
            self._waiting.clear()
        over = {"code": "internal", "message": said or f"berth stdio ended with status {code}"}
        for take in left:
            take({"error": over})

    def close(self) -> None:
        """Ends the child, and with it the commands that run in the foreground.  Sandboxes live on."""
        with self._lock:
            self._closed = True
            child = self._child
        if child:
            child.terminate()
            try:
                child.stdin.close()
            except OSError:
                pass
            child.wait()

    # ---- requests

    def _send(self, op: str, members: Answer, take: Callable[[Answer], bool]) -> int:
        """take gets each answer, in the reading thread, until it says that that was the last."""
        n = next(self._ids)
        line = json.dumps({"id": n, "op": op, "encoding": "base64", **encode(members)}).encode() + b"\n"
        if len(line) > LINE_MAX:
            raise errors.Limit(f"a request of {len(line)} bytes; one has at most {LINE_MAX}", "files.copy_in takes files of any size")
        with self._lock:
            self._start()
            assert self._child
            self._waiting[n] = take
            try:
                self._child.stdin.write(line)
                self._child.stdin.flush()
            except OSError:
                pass        # the child has ended: the reading thread tells why
        return n

    def _cancel(self, n: int, op: str = "exec") -> None:
        take = self._waiting.get(n)
        if take and op in CANCELLED:
            self._send("cancel", {"request": n}, lambda answer: True)
        elif take:
            self._waiting.pop(n, None)
            take({"error": {"code": "timeout", "message": "the call was cancelled"}})

    def call(self, op: str, members: Answer) -> Answer:
        if op in self.cannot:
            raise errors.Unsupported(f"{op} over berth stdio: {self.cannot[op]}", HINT)
        op, members = translate(op, members)
        answers: "SimpleQueue[Answer]" = SimpleQueue()

        def take(answer: Answer) -> bool:
            answers.put(answer)
            return True

        data = members.get("data")
        pieces = cut(data) if op == "write" and isinstance(data, bytes) else []
        if pieces:
            members = {**members, "data": None, "stdin_open": True}
        n = self._send(op, members, take)
        with interruptible(lambda: self._cancel(n, op)):
            for i, piece in enumerate(pieces):
                # its answer says no more than the write's own
                self._send("send", {"request": n, "data": piece, "eof": i + 1 == len(pieces)}, lambda answer: True)
            answer = answers.get()
        return judge(op, answer)

    def stream(self, op: str, members: Answer) -> Stream:
        if op in COMMANDS:
            return Lines([self._program, *command_words(op, members)], self._env, op == "events")
        if op == "follow":
            return Follow(self, members)
        return Running(self, op, members)


def cut(data: bytes) -> List[bytes]:
    """Pieces, where one request would be too long for all of it."""
    return [data[at:at + WRITE_PIECE] for at in range(0, len(data), WRITE_PIECE)] if len(data) > WRITE_PIECE else []


def command_words(op: str, members: Answer) -> List[str]:
    words, arguments = COMMANDS[op]
    options = {k: v for k, v in members.items() if k not in arguments}
    return [*words, "--json", *option_words(options), "--", *(members[a] for a in arguments if members.get(a) is not None)]


def translate(op: str, members: Answer) -> Tuple[str, Answer]:
    """The operation of stdio for one of ours."""
    if op == "commit" and members.get("checkpoint"):
        members = {"sandbox": f"{members['sandbox']}@{members['checkpoint']}", "image": members["image"]}
    if op in COMMANDS:
        return "berth", {"args": command_words(op, members)}
    rest = {k: v for k, v in members.items() if k != "sandbox" and v is not None}
    if op in LIFE:
        grace = rest.pop("grace_ms", None)
        return op, {"sandbox": members["sandbox"], "options": rest if grace is None else {**rest, "grace": f"{grace}ms"}}
    if op == "ready":
        return op, {"sandbox": members["sandbox"], "options": rest}
    if op == "checkpoint-rm":
        return op, {"sandbox": members["sandbox"], "checkpoints": [members["checkpoint"]]}
    if op in ("copy-in", "copy-out"):
        local, remote = members["local"], f"{members['sandbox']}:{members['remote']}"
        if not local.startswith("/"):
            local = "./" + local
        way = {"from": local, "to": remote} if op == "copy-in" else {"from": remote, "to": local}
        return "copy", {**way, "parents": members.get("parents")}
    return op, members


def judge(op: str, answer: Answer) -> Answer:
    """The answer, unless it is an error."""
    wrong = errors.of_answer(answer)
    if wrong:
        raise wrong
    if op == "berth":
        if answer.get("exit_status"):
            said = str(answer.get("stderr", "")).strip()
            raise errors.make("internal", said[7:] if said.startswith("berth: ") else said)
        answer = {k: v for k, v in answer.items() if k not in ("sandbox", "exit_status")}
    return answer


class Running(Stream):
    """A command in the foreground."""

    def __init__(self, link: Stdio, op: str, members: Answer) -> None:
        self._link, self._ended = link, False
        self._answers: "SimpleQueue[Answer]" = SimpleQueue()
        self._unread, self._lock = 0, threading.Lock()
        self._too_much = False
        self._id = link._send(op, members, self._take)

    def _take(self, answer: Answer) -> bool:
        """In the reading thread, which must not wait: other requests' answers come by it, too."""
        size = len(answer.get("data") or answer.get("data_base64") or "")
        last = "error" in answer or "verdict" in answer
        with self._lock:
            self._unread += size
            if self._unread > UNREAD_MAX and not self._too_much:
                self._too_much = True
                threading.Thread(target=self.cancel, daemon=True).start()
            keep = last or not self._too_much
        if keep:
            self._answers.put(answer)
        return last

    def __next__(self) -> Answer:
        if self._ended:
            raise StopIteration
        with interruptible(self.cancel):
            answer = self._answers.get()
        with self._lock:
            self._unread -= len(answer.get("data") or answer.get("data_base64") or "")
        if "error" in answer or "verdict" in answer:
            self._ended = True
            if self._too_much:
                raise errors.Limit(f"a command wrote more than {UNREAD_MAX} bytes that were not read, and was killed")
        judge("exec", answer)
        return answer

    def send(self, data: bytes, eof: bool) -> None:
        self._link.call("send", {"request": self._id, "data": data, "eof": eof})

    def cancel(self) -> None:
        self._link._cancel(self._id)

    def close(self) -> None:
        """The command is killed and its end awaited: nothing of it runs after this."""
        if self._ended:
            return
        self.cancel()
        while not self._ended:
            answer = self._answers.get()
            self._ended = "error" in answer or "verdict" in answer


class Follow(Stream):
    """A detached command's output by requests that wait for more of it; pieces as of the command in the foreground."""

    def __init__(self, link: Stdio, members: Answer) -> None:
        self._link, self._members = link, dict(members)
        self._ready: List[Answer] = []
        self._ended = False

    def __next__(self) -> Answer:
        while not self._ready:
            if self._ended:
                raise StopIteration
            self._more(self._link.call("follow", self._members))
        return self._ready.pop(0)

    def _more(self, answer: Answer) -> None:
        data, at = take_bytes(answer, "data"), 0
        for stream, member in (("stdout", "from"), ("stderr", "stderr_from")):
            part = answer.get(stream)
            if not part:
                continue
            n = int(part["bytes"])
            if n:
                self._ready.append({"stream": stream, "data": data[at:at + n], "dropped": part.get("dropped", 0)})
            at += n
            self._members[member] = part["next"]
        if answer.get("ended"):
            self._ended = True
            self._ready.append({"verdict": answer["verdict"]})

    def close(self) -> None:
        self._ended = True


class Lines(Stream):
    """A command of berth that writes an object a line for as long as somebody reads."""

    def __init__(self, words: List[str], env: Optional[Dict[str, str]], events: bool = False) -> None:
        import subprocess
        self._events = events
        self._child: "Optional[subprocess.Popen[bytes]]" = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True)

    def __next__(self) -> Answer:
        child = self._child
        if not child or not child.stdout:
            raise StopIteration
        with interruptible(child.terminate):
            line = child.stdout.readline()
        if line:
            answer: Answer = json.loads(line)
            if set(answer) <= {"error", "exit_status"}:
                self.close()
                return judge("berth", answer)
            if self._events:
                answer["sandbox"] = answer.pop("id", None)
            return answer
        said = child.stderr.read().decode(errors="replace").strip() if child.stderr else ""
        code = child.wait()
        self.close()
        if code > 0 and said:
            try:
                judge("berth", json.loads(said))
            except ValueError:
                judge("berth", {"exit_status": code, "stderr": said})
        raise StopIteration

    def close(self) -> None:
        child, self._child = self._child, None
        if child:
            child.terminate()
            child.wait()
            for f in (child.stdout, child.stderr):
                if f:
                    f.close()
