# SPDX-License-Identifier: Apache-2.0
"""What is in a sandbox, for the client whose calls wait: commands, shells, files."""
from __future__ import annotations

import threading

from . import errors
from ._link import take_bytes
from ._results import Output, Result, ShellResult

TYPE_CHECKING = False       # of typing, which takes longer to import than a command to run
if TYPE_CHECKING:
    import socket
    from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

    from ._link import Link, Stream

    Bytes = Union[str, bytes]
    Argv = Union[str, Sequence[str]]
    Record = Dict[str, Any]

MAX_OUTPUT_BYTES = 64 << 20     # of each stream in a Result
STDIN_PIECE = 1 << 20
STDIN_AT_ONCE = 256 << 10


def argv_of(argv: Argv) -> List[str]:
    """A string is a command line for the sandbox's shell."""
    return ["/bin/sh", "-c", argv] if isinstance(argv, str) else list(argv)


def directory_of(workdir: Optional[str], cwd: Optional[str]) -> Optional[str]:
    """cwd is another name of workdir."""
    if workdir is not None and cwd is not None and workdir != cwd:
        raise errors.Usage(f"workdir is '{workdir}' and cwd is '{cwd}', which is another name of it", "one of them")
    return cwd if workdir is None else workdir


def bytes_of(data: Optional[Bytes]) -> Optional[bytes]:
    return data.encode() if isinstance(data, str) else data


def listed(value: Any) -> Optional[List[str]]:
    """One, several or none as a list of text."""
    if value is None:
        return None
    return [str(one) for one in (value if isinstance(value, (list, tuple)) else [value])]


class Records:
    """Objects as they come, until it is closed."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        return next(self._stream)

    def __enter__(self) -> "Records":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()


class Process:
    """A command in the foreground: an iterator of Output.  Closing it, or the end of a `with`, kills what still runs."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.verdict: Optional[Record] = None
        first = next(stream)
        self.command = str(first.get("command", ""))
        self._feeder: Optional[threading.Thread] = None

    def __iter__(self) -> "Process":
        return self

    def __next__(self) -> Output:
        if self.verdict is None:
            for answer in self._stream:
                if "verdict" in answer:
                    self.verdict = dict(answer["verdict"])
                elif "stream" in answer:
                    return Output(str(answer["stream"]), take_bytes(answer, "data"), int(answer.get("dropped", 0)))
        raise StopIteration

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def _feed(self, data: bytes) -> None:
        """All of data, from a thread: the command may have to be read before it reads."""
        def feed() -> None:
            try:
                for at in range(0, len(data), STDIN_PIECE):
                    self.send(data[at:at + STDIN_PIECE], eof=at + STDIN_PIECE >= len(data))
            except errors.BerthError:
                pass
        self._feeder = threading.Thread(target=feed, daemon=True)
        self._feeder.start()

    def send(self, data: Bytes = b"", *, eof: bool = False) -> None:
        """Writes to its input, which must be open; eof closes it."""
        self._stream.send(bytes_of(data) or b"", eof)

    def kill(self) -> None:
        """Kills the command with its process tree."""
        self._stream.cancel()

    def wait(self, *, max_output_bytes: int = MAX_OUTPUT_BYTES, on_output: Optional[Callable[[Output], object]] = None) -> Result:
        """Reads what is left of its output, to its end."""
        kept: Dict[str, List[bytes]] = {"stdout": [], "stderr": []}
        size, dropped = {"stdout": 0, "stderr": 0}, {"stdout": 0, "stderr": 0}
        for piece in self:
            if on_output:
                on_output(piece)
            room = max(0, max_output_bytes - size[piece.stream])
            kept[piece.stream].append(piece.data[:room])
            size[piece.stream] += min(room, len(piece.data))
            dropped[piece.stream] += max(0, len(piece.data) - room)
        return Result(b"".join(kept["stdout"]), b"".join(kept["stderr"]), self.verdict or {"cause": "killed-by", "exit_status": 137},
                      dropped["stdout"], dropped["stderr"])

    def close(self) -> None:
        """Kills the command if it still runs."""
        self._stream.close()
        if self._feeder:
            self._feeder.join()


class Port(dict):       # of Record
    """A port of a sandbox: what berthd tells of its address."""

    def __init__(self, link: Link, sandbox: str, told: Record) -> None:
        super().__init__(told)
        self._link, self._sandbox = link, sandbox

    @property
    def url(self) -> str:
        """For who has no token: as public as the port is."""
        return str(self["url"])

    def connect(self) -> "socket.socket":
        """A connection to the server, whatever the network of the sandbox: bytes both ways."""
        from ._http import Http, path_of, BOX
        if not isinstance(self._link, Http):
            raise errors.Unsupported("a port is reached over berthd", "Berth(\"unix:///run/berth/berthd.sock\")")
        return self._link.dial(path_of(BOX + "/ports/{port}", {"sandbox": self._sandbox, "port": self["port"]}))


class Command:
    """A detached command: it goes on without its client."""

    def __init__(self, link: Link, sandbox: str, command: str) -> None:
        self._link, self._sandbox, self.id = link, sandbox, command

    def _call(self, op: str, **members: Any) -> Record:
        return self._link.call(op, {"sandbox": self._sandbox, "command": self.id, **members})

    def follow(self) -> Iterator[Output]:
        """What it wrote, and what it writes, to its end."""
        stream = self._link.stream("follow", {"sandbox": self._sandbox, "command": self.id, "from": 0, "stderr_from": 0})
        try:
            for answer in stream:
                if "stream" in answer:
                    yield Output(str(answer["stream"]), take_bytes(answer, "data"), int(answer.get("dropped", 0)))
        finally:
            stream.close()

    def output(self, *, stream: str = "stdout", offset: int = 0, max: Optional[int] = None) -> Record:
        """What is kept of a stream from an offset on: data, and next, which is the offset to go on with."""
        got = self._call("output", stream=stream, max=max, **{"from": offset})
        return {**{k: v for k, v in got.items() if not k.startswith("data")}, "data": take_bytes(got, "data")}

    def send(self, data: Bytes = b"", *, eof: bool = False) -> None:
        """Writes to its input; eof closes it."""
        self._call("send", data=bytes_of(data), eof=eof)

    def signal(self, signal: Union[str, int] = "TERM", *, all: bool = False) -> None:
        """Sends a signal to it, with all to its whole process tree."""
        self._call("signal", signal=signal, all=all)

    def wait(self) -> Record:
        """Waits for its end; its verdict."""
        return dict(self._call("wait")["verdict"])

    def forget(self) -> None:
        """Drops an ended command and its output."""
        self._call("forget")


class Shell:
    """A shell session of a sandbox.  It is made by its first command line."""

    def __init__(self, link: Link, sandbox: str, session: str) -> None:
        self._link, self._sandbox, self.session = link, sandbox, session

    def _call(self, op: str, **members: Any) -> Record:
        return self._link.call(op, {"sandbox": self._sandbox, "session": self.session, **members})

    def run(self, text: Bytes, *, timeout_ms: Optional[int] = None, on_timeout: Optional[str] = None,
            split: Optional[bool] = None, queue_ms: Optional[int] = None, no_wait: Optional[bool] = None,
            max_silent_ms: Optional[int] = None, checkpoint: Optional[bool] = None) -> ShellResult:
        """
        Runs a command line and waits for its end.  on_timeout: kill, interrupt, freeze or detach.  Another that runs
        in the session is waited for, at most queue_ms, or not at all with no_wait.  With checkpoint the files are kept
        first as they are, for Sandbox.undo().
        """
        return shell_result(self._call("sh", text=bytes_of(text), timeout_ms=timeout_ms, on_timeout=on_timeout, split=split,
                                       queue_ms=queue_ms, no_wait=no_wait, max_silent_ms=max_silent_ms,
                                       checkpoint=checkpoint))

    def wait(self, *, timeout_ms: Optional[int] = None, on_timeout: Optional[str] = None) -> ShellResult:
        """Waits for the command line that runs, after a timeout that detached it."""
        return shell_result(self._call("sh-wait", timeout_ms=timeout_ms, on_timeout=on_timeout))

    def cancel(self) -> None:
        """Ends the command line that runs, with its process tree; the session goes on."""
        self._call("sh-cancel")

    def send(self, data: Bytes) -> None:
        """Types into its terminal."""
        self._call("send", data=bytes_of(data))

    def signal(self, signal: Union[str, int] = "INT") -> None:
        """Sends a signal to what runs in front."""
        self._call("signal", signal=signal)

    def close(self) -> None:
        """Ends the session with all it runs."""
        self._call("session-close")


def shell_result(got: Record) -> ShellResult:
    return ShellResult(take_bytes(got, "output"), take_bytes(got, "stderr"), dict(got.get("verdict") or {}),
                       str(got.get("status", "done")), bool(got.get("session_ended")), bool(got.get("fresh_shell")),
                       int(got.get("output_dropped", 0)))


class Files:
    """The files of a sandbox.  Relative paths start at its working directory."""

    def __init__(self, link: Link, sandbox: str) -> None:
        self._link, self._sandbox = link, sandbox

    def _call(self, op: str, **members: Any) -> Record:
        return self._link.call(op, {"sandbox": self._sandbox, **members})

    def read(self, path: str, *, max: Optional[int] = None, user: Optional[str] = None) -> bytes:
        """The bytes of a file; an error with the code limit when there are more than max."""
        return take_bytes(self._call("read", path=path, max=max, user=user), "data")

    def read_text(self, path: str, *, max: Optional[int] = None, user: Optional[str] = None) -> str:
        return self.read(path, max=max, user=user).decode()

    def write(self, path: str, data: Bytes, *, append: Optional[bool] = None, parents: Optional[bool] = None,
              mode: Optional[str] = None, user: Optional[str] = None) -> int:
        """Replaces a file at once, or adds to it; returns the bytes written.  mode is octal text: "644"."""
        return int(self._call("write", path=path, data=bytes_of(data), append=append, parents=parents, mode=mode, user=user)["bytes"])

    def list(self, path: Optional[str] = None, *, user: Optional[str] = None) -> List[Record]:
        """The entries of a directory, sorted by name."""
        return list(self._call("ls", path=path, user=user)["entries"])

    def stat(self, path: str, *, follow: Optional[bool] = None, user: Optional[str] = None) -> Record:
        return self._call("stat", path=path, follow=follow, user=user)

    def mkdir(self, *paths: str, parents: Optional[bool] = None, mode: Optional[str] = None, user: Optional[str] = None) -> None:
        self._call("mkdir", paths=list(paths), parents=parents, mode=mode, user=user)

    def remove(self, *paths: str, recursive: Optional[bool] = None, force: Optional[bool] = None,
               user: Optional[str] = None) -> None:
        self._call("rm", paths=list(paths), recursive=recursive, force=force, user=user)

    def move(self, source: str, target: str, *, user: Optional[str] = None) -> None:
        self._call("mv", **{"from": source}, to=target, user=user)

    def copy_in(self, local: str, remote: str, *, parents: Optional[bool] = None) -> None:
        """Copies a file or tree of this host, as berth-cp(1) does."""
        self._link.call("copy-in", {"sandbox": self._sandbox, "local": local, "remote": remote, "parents": parents})

    def copy_out(self, remote: str, local: str, *, parents: Optional[bool] = None) -> None:
        """Copies a file or tree of the sandbox to this host, as berth-cp(1) does."""
        self._link.call("copy-out", {"sandbox": self._sandbox, "local": local, "remote": remote, "parents": parents})
