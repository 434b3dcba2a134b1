# SPDX-License-Identifier: Apache-2.0
"""
Inspect's sandbox environment: import this module, and `Task(sandbox="berth")` or `Task(sandbox=("berth", "py"))`.

The configuration is the image's name.  Each sample has a sandbox of its own, which is removed with it; BERTH_MEMORY,
BERTH_NETWORK and the like are options for all of them, in the words of berth-create(1).
"""
from __future__ import annotations

import os
import shlex
from typing import Any, Dict, List, Optional, Union

from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxEnvironment, sandboxenv

from berth import AsyncBerth, AsyncSandbox, BerthError, errors

OUTPUT_MAX = 10 << 20       # of each stream, as Inspect's own environments have it
FILE_MAX = 100 << 20
LABEL = "inspect.task"
OPTIONS = ("memory", "cpus", "pids", "disk", "network")


def options_of(environ: Any) -> Dict[str, str]:
    return {name: environ[f"BERTH_{name.upper()}"] for name in OPTIONS if environ.get(f"BERTH_{name.upper()}")}


def raise_file_error(e: BerthError, path: str) -> None:
    """What Inspect promises its tools."""
    if "is a directory" in e.cause:
        raise IsADirectoryError(path) from e
    if isinstance(e, errors.NotFound):
        raise FileNotFoundError(path) from e
    if isinstance(e, errors.Denied):
        raise PermissionError(str(e)) from e
    raise e


@sandboxenv(name="berth")
class BerthSandboxEnvironment(SandboxEnvironment):
    _client: Optional[AsyncBerth] = None
    _users = 0

    def __init__(self, sandbox: AsyncSandbox) -> None:
        super().__init__()
        self._sandbox = sandbox

    # ---- its life

    @classmethod
    async def task_init(cls, task_name: str, config: Any) -> None:
        cls._users += 1

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: Dict[str, str]) -> Dict[str, SandboxEnvironment]:
        if BerthSandboxEnvironment._client is None:
            BerthSandboxEnvironment._client = AsyncBerth()
        sandbox = await BerthSandboxEnvironment._client.create(
            str(config) if config else None, label={LABEL: task_name.replace("\n", " ")[:200]}, **options_of(os.environ))
        return {"default": cls(sandbox)}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: Any, environments: Dict[str, SandboxEnvironment],
                             interrupted: bool) -> None:
        for environment in environments.values():
            if isinstance(environment, cls):
                try:
                    await environment._sandbox.remove()
                except errors.NotFound:
                    pass

    @classmethod
    async def task_cleanup(cls, task_name: str, config: Any, cleanup: bool) -> None:
        cls._users -= 1
        client = BerthSandboxEnvironment._client
        if client and cls._users <= 0:
            BerthSandboxEnvironment._client = None
            await client.close()

    @classmethod
    async def cli_cleanup(cls, id: Optional[str]) -> None:
        """`inspect sandbox cleanup berth [ID]`: the sandbox of that id, or all that tasks have left."""
        async with AsyncBerth() as client:
            left = [j["id"] for j in await client.list(all=True) if LABEL in (j.get("labels") or {})]
            for one in [id] if id else left:
                await client.remove(one)

    # ---- what tools do

    async def exec(self, cmd: List[str], input: Union[str, bytes, None] = None, cwd: Optional[str] = None,
                   env: Optional[Dict[str, str]] = None, user: Optional[str] = None, timeout: Optional[int] = None,
                   timeout_retry: bool = True, concurrency: bool = True) -> "ExecResult[str]":
        if cwd is not None and not cwd.startswith("/"):
            cwd = f"/workspace/{cwd}"
        try:
            r = await self._sandbox.run(list(cmd), stdin=input, workdir=cwd, env=env or None, user=user,
                                        timeout_ms=None if timeout is None else timeout * 1000, max_output_bytes=OUTPUT_MAX)
        except errors.NotExecutable as e:
            raise PermissionError(str(e)) from e
        except errors.CommandNotFound as e:
            return ExecResult(False, 127, "", e.cause)
        if r.cause == "timeout":
            raise TimeoutError(f"the command did not end within {timeout} s")
        if r.stdout_dropped or r.stderr_dropped:
            raise OutputLimitExceededError("10 MiB", r.out if r.stdout_dropped else r.err)
        return ExecResult(r.exit_status == 0, r.exit_status, r.stdout.decode(), r.stderr.decode())

    async def connection(self, *, user: Optional[str] = None) -> Any:
        """How a person looks into a sample's sandbox, which Inspect shows."""
        from inspect_ai.util import SandboxConnection
        as_user = f"--user {shlex.quote(user)} " if user else ""
        return SandboxConnection(type="berth", command=f"berth exec -it {as_user}{self._sandbox.id} /bin/sh", container=self._sandbox.id)

    async def write_file(self, file: str, contents: Union[str, bytes]) -> None:
        try:
            await self._sandbox.files.write(file, contents, parents=True)
        except BerthError as e:
            raise_file_error(e, file)

    async def read_file(self, file: str, text: bool = True) -> Union[str, bytes]:
        try:
            size = (await self._sandbox.files.stat(file, follow=True))["size"]
            if size > FILE_MAX:
                raise OutputLimitExceededError("100 MiB", None)
            data = await self._read(file, size)
        except BerthError as e:
            raise_file_error(e, file)
            raise
        return data.decode() if text else data

    async def _read(self, file: str, size: int) -> bytes:
        """A file larger than one answer comes by a command."""
        if size <= 16 << 20:
            return await self._sandbox.files.read(file)
        r = await self._sandbox.run(["cat", "--", file], max_output_bytes=FILE_MAX, check=True)
        return r.stdout
