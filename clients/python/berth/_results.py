# SPDX-License-Identifier: Apache-2.0
"""What calls return."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List

from . import errors


class _Ended:
    """What has a verdict."""

    verdict: Dict[str, Any]

    @property
    def exit_status(self) -> int:
        """As a shell has it: the exit code, 128 and the signal's number, 124 for a timeout."""
        return int(self.verdict.get("exit_status", 255))

    @property
    def cause(self) -> str:
        """exit, signal, timeout, cpu-timeout, oom, pids, disk, network, output, seccomp, killed-by or lost."""
        return str(self.verdict.get("cause", "lost"))

    @property
    def ok(self) -> bool:
        return self.exit_status == 0 and self.cause == "exit"


@dataclass(frozen=True)
class Result(_Ended):
    """What a command wrote, and how it ended."""

    stdout: bytes
    stderr: bytes
    verdict: Dict[str, Any]
    stdout_dropped: int = 0
    stderr_dropped: int = 0

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


@dataclass(frozen=True)
class ShellResult(_Ended):
    """
    What a command line wrote to its session's terminal (with split: its stdout), and how it ended.  status is done,
    or running when the command goes on after its time was over.
    """

    output: bytes
    stderr: bytes
    verdict: Dict[str, Any]
    status: str = "done"
    session_ended: bool = False
    fresh_shell: bool = False
    output_dropped: int = 0

    @property
    def out(self) -> str:
        """output as text."""
        return self.output.decode(errors="replace")


@dataclass(frozen=True)
class CodeResult(_Ended):
    """What a snippet wrote, how it ended, and which files it added, changed or deleted."""

    stdout: bytes
    stderr: bytes
    verdict: Dict[str, Any]
    language: str = ""
    files: List[Dict[str, Any]] = field(default_factory=list)

    @property
    def out(self) -> str:
        """stdout as text."""
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        """stderr as text."""
        return self.stderr.decode(errors="replace")


@dataclass(frozen=True)
class Output:
    """A piece of what a command wrote: stream is stdout or stderr."""

    stream: str
    data: bytes
    dropped: int = 0

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")
