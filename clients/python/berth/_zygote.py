# SPDX-License-Identifier: Apache-2.0
"""A zygote: an interpreter that has loaded what it needs, and waits to be forked."""
from __future__ import annotations

from . import errors
from ._parts import MAX_OUTPUT_BYTES, STDIN_AT_ONCE, Process, bytes_of, directory_of
from ._words import pairs_of

TYPE_CHECKING = False       # of typing, which takes longer to import than a command to run
if TYPE_CHECKING:
    from typing import Callable, Optional, Sequence

    from ._client import Berth
    from ._options import Pairs
    from ._parts import Bytes, Record
    from ._results import Output, Result


class Zygote:
    """An interpreter that waits.  Each code runs in a fork of it, in a sandbox of its own that ends with the code."""

    def __init__(self, client: Berth, id: str, name: str = "", owned: bool = False) -> None:
        self._client, self._link = client, client._link
        self.id, self.name = id, name
        self._owned = owned

    def __repr__(self) -> str:
        return f"<berth.Zygote {self.id}>"

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *unused: object) -> None:
        if self._owned:
            try:
                self.remove()
            except errors.NotFound:
                pass

    def popen(self, code: Bytes, *, args: Optional[Sequence[str]] = None, stdin: Optional[Bytes] = None,
              stdin_open: bool = False, env: Optional[Pairs] = None, workdir: Optional[str] = None, cwd: Optional[str] = None,
              timeout_ms: Optional[int] = None) -> "Process":
        """Starts code whose output comes as it is written.  args are sys.argv from its second word on."""
        return Process(self._link.stream("run", {
            "zygote": self.id, "code": bytes_of(code), "args": list(args) if args else None, "stdin": bytes_of(stdin),
            "stdin_open": stdin_open or None, "env": pairs_of(env), "workdir": directory_of(workdir, cwd), "timeout_ms": timeout_ms}))

    def run(self, code: Bytes, *, args: Optional[Sequence[str]] = None, stdin: Optional[Bytes] = None,
            env: Optional[Pairs] = None, workdir: Optional[str] = None, cwd: Optional[str] = None, timeout_ms: Optional[int] = None,
            max_output_bytes: int = MAX_OUTPUT_BYTES, on_output: Optional[Callable[[Output], object]] = None,
            check: bool = False) -> Result:
        """
        Runs code to its end, with what the preload made; see Sandbox.run() for max_output_bytes, on_output and check.
        An exception that leaves this call kills the fork.
        """
        data = bytes_of(stdin)
        late = data is not None and len(data) > STDIN_AT_ONCE
        with self.popen(code, args=args, stdin=None if late else data, stdin_open=late, env=env, workdir=workdir, cwd=cwd,
                        timeout_ms=timeout_ms) as process:
            if late and data is not None:
                process._feed(data)
            result = process.wait(max_output_bytes=max_output_bytes, on_output=on_output)
        return result.check() if check else result

    def inspect(self) -> Record:
        """Its preload, pool, number of forks, and the ids of those that live (alive)."""
        return dict(self._link.call("zygote-inspect", {"zygote": self.id})["record"])

    def remove(self) -> None:
        """Ends it and its forks."""
        self._client.remove_zygote(self.id)
