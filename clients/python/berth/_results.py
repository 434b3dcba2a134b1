# SPDX-License-Identifier: Apache-2.0
"""What calls return."""
from __future__ import annotations

import collections

from . import errors

TYPE_CHECKING = False       # of typing, which takes longer to import than a command to run
if TYPE_CHECKING:
    from typing import Any, Dict, List, NamedTuple, Optional

    class _Piece(NamedTuple):
        stream: str
        data: bytes
        dropped: int = 0
else:
    _Piece = collections.namedtuple("_Piece", ("stream", "data", "dropped"), defaults=(0,))


class _Ended:
    """What has a verdict.  No dataclass: that module takes longer to import than a command to run."""

    verdict: Dict[str, Any]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return id(self)

    @property
    def exit_status(self) -> int:
        """As a shell has it: the exit code, 128 and the signal's number, 124 for a timeout."""
        return int(self.verdict.get("exit_status", 255))

    @property
    def cause(self) -> str:
        """exit, signal, timeout, silent, cpu-timeout, oom, pids, disk, network, seccomp, killed-by or lost."""
        return str(self.verdict.get("cause", "lost"))

    @property
    def ok(self) -> bool:
        return self.exit_status == 0 and self.cause == "exit"


class Result(_Ended):
    """What a command wrote, and how it ended."""

    def __init__(self, stdout: bytes, stderr: bytes, verdict: Dict[str, Any],
                 stdout_dropped: int = 0, stderr_dropped: int = 0) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.verdict = verdict
        self.stdout_dropped = stdout_dropped
        self.stderr_dropped = stderr_dropped

    @property
    def out(self) -> str:
        """stdout as text."""
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        """stderr as text."""
        return self.stderr.decode(errors="replace")

    def check(self) -> "Result":
        """Itself; raises CommandFailed unless the command succeeded."""
        if not self.ok:
            last = self.err.strip().splitlines()[-1:] or [""]
            cause = f"the command ended with status {self.exit_status} ({self.cause})"
            raise errors.CommandFailed(f"{cause}: {last[0]}" if last[0] else cause, result=self)
        return self


class ShellResult(_Ended):
    """
    What a command line wrote to its session's terminal (with split: its stdout), and how it ended.  status is done,
    or running when the command goes on after its time was over.
    """

    def __init__(self, output: bytes, stderr: bytes, verdict: Dict[str, Any], status: str = "done",
                 session_ended: bool = False, fresh_shell: bool = False, output_dropped: int = 0) -> None:
        self.output = output
        self.stderr = stderr
        self.verdict = verdict
        self.status = status
        self.session_ended = session_ended
        self.fresh_shell = fresh_shell
        self.output_dropped = output_dropped

    @property
    def out(self) -> str:
        """output as text."""
        return self.output.decode(errors="replace")


class CodeResult(_Ended):
    """What a snippet wrote, how it ended, and which files it added, changed or deleted."""

    def __init__(self, stdout: bytes, stderr: bytes, verdict: Dict[str, Any],
                 language: str = "", files: Optional[List[Dict[str, Any]]] = None) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.verdict = verdict
        self.language = language
        self.files: List[Dict[str, Any]] = files or []

    @property
    def out(self) -> str:
        """stdout as text."""
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        """stderr as text."""
        return self.stderr.decode(errors="replace")


class Output(_Piece):
    """A piece of what a command wrote: stream is stdout or stderr."""

    __slots__ = ()

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")
