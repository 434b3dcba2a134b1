# SPDX-License-Identifier: Apache-2.0
"""
The way to berth, whatever it is.

A link takes requests in the words of berth-stdio(1): an operation and its members, where bytes may be Python's.
call() is for an operation with one answer, stream() for one with several.  A link may be used by many threads.
"""
from __future__ import annotations

import binascii
import threading

from . import errors

TYPE_CHECKING = False       # of typing, which takes longer to import than a command to run
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, Optional

    Answer = Dict[str, Any]


def is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def take_bytes(answer: Answer, name: str) -> bytes:
    """The bytes of a member, which are text, hexadecimal or base64; nothing when it has none of them."""
    value = answer.get(name)
    if isinstance(value, bytes):
        return value
    if value is not None:
        return str(value).encode("utf-8", "surrogatepass")
    if f"{name}_hex" in answer:
        return bytes.fromhex(answer[f"{name}_hex"])
    if f"{name}_base64" in answer:
        return binascii.a2b_base64(answer[f"{name}_base64"])
    return b""


class Stream:
    """The answers of one request as they come.  A request that is closed before its end is cancelled."""

    def __iter__(self) -> Iterator[Answer]:
        return self

    def __next__(self) -> Answer:
        raise NotImplementedError

    def send(self, data: bytes, eof: bool) -> None:
        raise NotImplementedError

    def cancel(self) -> None:
        """Ends what the request runs, with its process tree; its answers go on to the verdict where it has one."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Link:
    # what this way cannot do: operation to reason
    cannot: Dict[str, str] = {}

    def call(self, op: str, members: Answer) -> Answer:
        """One request, one answer; raises BerthError."""
        raise NotImplementedError

    def stream(self, op: str, members: Answer) -> Stream:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


# ---- cancellation ---------------------------------------------------------------------------------

_here = threading.local()


class Call:
    """What a thread does for another that may cancel it: an asyncio task, whose calls run in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancel: Optional[Callable[[], None]] = None
        self.cancelled = False

    def __enter__(self) -> "Call":
        _here.call = self
        return self

    def __exit__(self, *unused: object) -> None:
        _here.call = None

    def arm(self, cancel: Optional[Callable[[], None]]) -> bool:
        """From now on cancel ends what the thread waits for; False when it is too late, as cancel() came before."""
        with self._lock:
            self._cancel = cancel
            return not self.cancelled

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
            cancel = self._cancel
        if cancel:
            cancel()


class interruptible:
    """
    While the body waits, cancel() ends what it waits for: from the thread that cancels this one's call, or here when
    an exception, such as KeyboardInterrupt, leaves the body.
    """

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._call: Optional[Call] = getattr(_here, "call", None)

    def __enter__(self) -> None:
        if self._call and not self._call.arm(self._cancel):
            self._cancel()
            self._call.arm(None)
            raise errors.Timeout("the call was cancelled")

    def __exit__(self, kind: Optional[type], *unused: object) -> None:
        try:
            if kind:
                self._cancel()
        finally:
            if self._call:
                self._call.arm(None)
