# SPDX-License-Identifier: Apache-2.0
"""
berth: commands in hardened sandboxes.

    with Berth() as client, client.create("py") as sandbox:
        print(sandbox.run(["python3", "-c", "print(6 * 7)"]).out)

AsyncBerth is the same for asyncio.  Errors are BerthError and its classes in berth.errors, one for each code.
"""
from __future__ import annotations

from . import errors
from ._client import Berth, Sandbox
from ._parts import Command, Files, Port, Process, Records, Shell
from ._results import CodeResult, Output, Result, ShellResult
from ._zygote import Zygote
from .errors import BerthError, CommandFailed

TYPE_CHECKING = False       # of typing, which takes longer to import than a command to run
if TYPE_CHECKING:
    from typing import Any

    from ._aio import AsyncBerth, AsyncCommand, AsyncFiles, AsyncProcess, AsyncRecords, AsyncSandbox, AsyncShell, AsyncZygote
    from ._options import CreateOptions, ForkOptions, UpdateOptions, ZygoteOptions

__version__ = "0.1.0"
__all__ = [
    "AsyncBerth", "AsyncCommand", "AsyncFiles", "AsyncProcess", "AsyncRecords", "AsyncSandbox", "AsyncShell", "AsyncZygote",
    "Berth", "BerthError",
    "CodeResult", "Command", "CommandFailed", "CreateOptions", "Files", "ForkOptions", "Output", "Port", "Process", "Records", "Result", "Sandbox", "Shell",
    "ShellResult", "UpdateOptions", "Zygote", "ZygoteOptions", "errors",
]


def __getattr__(name: str) -> Any:
    """asyncio and typing, which take longer to import than a command to run, are imported by those who use them."""
    if name.startswith("Async") and name in __all__:
        from . import _aio
        return getattr(_aio, name)
    if name.endswith("Options") and name in __all__:
        from . import _options
        return getattr(_options, name)
    raise AttributeError(f"module 'berth' has no attribute '{name}'")
