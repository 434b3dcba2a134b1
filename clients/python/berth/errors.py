# SPDX-License-Identifier: Apache-2.0
"""
What can go wrong, one class for each error code of berth.

Each error has the code, the cause and the remedy apart; str() is all of them.  `except errors.NotFound` and
`except BerthError as e: if e.code == "not-found"` catch the same.
"""
from __future__ import annotations

TYPE_CHECKING = False       # of typing, which takes longer to import than a command to run
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Type


class BerthError(Exception):
    """An error of berth: code is stable, cause says what failed and why, remedy what to do about it, or is empty."""

    code = "internal"

    def __init__(self, cause: str, remedy: str = "", code: Optional[str] = None) -> None:
        super().__init__(f"{cause}; hint: {remedy}" if remedy else cause)
        self.cause = cause
        self.remedy = remedy
        if code:
            self.code = code

    def __reduce__(self) -> Any:
        return type(self), (self.cause, self.remedy, self.code)


class Usage(BerthError):
    """The request is malformed."""
    code = "usage"


class Invalid(BerthError):
    """A value is out of its grammar or range."""
    code = "invalid"


class Config(BerthError):
    """The configuration of berth is wrong."""
    code = "config"


class NotFound(BerthError):
    """There is no such image, sandbox, command or file."""
    code = "not-found"


class Exists(BerthError):
    """The name is taken."""
    code = "exists"


class Busy(BerthError):
    """Another operation holds it."""
    code = "busy"


class Limit(BerthError):
    """A configured ceiling was reached."""
    code = "limit"


class Denied(BerthError):
    """The caller may not do it."""
    code = "denied"


class Policy(BerthError):
    """A rule of the configuration's [policy] refuses the command."""
    code = "policy"


class Unsupported(BerthError):
    """This host, or this way to reach berth, cannot do what was asked."""
    code = "unsupported"


class Corrupt(BerthError):
    """Hostile or damaged input: a digest, an archive, a record."""
    code = "corrupt"


class System(BerthError):
    """A system call failed."""
    code = "system"


class NoMemory(BerthError):
    """There is not enough memory."""
    code = "no-memory"


class Network(BerthError):
    """berthd, a registry or another host could not be reached."""
    code = "network"


class Timeout(BerthError):
    """The operation did not end in time.  (A command that ran out of time is a result, with the cause timeout.)"""
    code = "timeout"


class NotExecutable(BerthError):
    """The command was found but cannot be executed."""
    code = "not-executable"


class CommandNotFound(BerthError):
    """There is no such command in the sandbox."""
    code = "command-not-found"


class OtherHost(BerthError):
    """The sandbox is on another host, which has to be asked."""
    code = "other-host"


class DiskFull(BerthError):
    """The sandbox's own file system is full."""
    code = "disk-full"


class Unhealthy(BerthError):
    """The sandbox's health check says so."""
    code = "unhealthy"


class Internal(BerthError):
    """A fault of berth."""
    code = "internal"


class CommandFailed(BerthError):
    """A command that ran with check=True did not succeed.  result is what it wrote, with the verdict."""
    code = "command-failed"

    def __init__(self, cause: str, remedy: str = "", code: Optional[str] = None, result: Any = None) -> None:
        super().__init__(cause, remedy, code)
        self.result = result

    def __reduce__(self) -> Any:
        return type(self), (self.cause, self.remedy, self.code, self.result)


BY_CODE: Dict[str, Type[BerthError]] = {c.code: c for c in BerthError.__subclasses__()}


def make(code: str, message: str, remedy: str = "") -> BerthError:
    """The exception for an error of berth.  In a message of the program the remedy stands after "hint:"."""
    if not remedy and "; hint: " in message:
        message, remedy = message.split("; hint: ", 1)
    kind = BY_CODE.get(code)
    return kind(message, remedy) if kind else BerthError(message, remedy, code)


def of_answer(answer: Dict[str, Any]) -> Optional[BerthError]:
    """The exception for an answer that has an error, or None."""
    error = answer.get("error")
    if error is None:
        return None
    if not isinstance(error, dict):
        return Internal(f"an error without a code: {error!r}")
    return make(str(error.get("code", "internal")), str(error.get("message", "")), str(error.get("remedy", "")))
