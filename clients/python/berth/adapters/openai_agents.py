# SPDX-License-Identifier: Apache-2.0
"""
A sandbox client for the OpenAI Agents SDK:

    client = BerthSandboxClient()
    session = await client.create(options=BerthSandboxClientOptions(image="py"))

Commands and files are berth's own; a session's workspace is kept and brought back as a tar of its root.
"""
from __future__ import annotations

import io
import tempfile
import uuid
from pathlib import Path
from typing import Any, Dict, List, Literal, Optional, Tuple, Union, cast

from agents.sandbox.errors import (
    ExecTimeoutError, ExecTransportError, WorkspaceArchiveReadError, WorkspaceArchiveWriteError, WorkspaceReadNotFoundError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.session import SandboxSession, SandboxSessionState
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.runtime_helpers import RESOLVE_WORKSPACE_PATH_HELPER
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.snapshot import resolve_snapshot
from agents.sandbox.types import ExecResult

from berth import AsyncBerth, AsyncSandbox, BerthError, Output, errors

OUTPUT_MAX = 16 << 20
ARCHIVE_MAX = 4 << 30
MEMORY_MAX = 16 << 20       # of an archive; a larger one is in a temporary file
PIECE = 1 << 20


class BerthSandboxClientOptions(BaseSandboxClientOptions):
    type: Literal["berth"] = "berth"
    image: Optional[str] = None
    options: Dict[str, Any] = {}
    exposed_ports: Tuple[int, ...] = ()

    def __init__(self, image: Optional[str] = None, options: Optional[Dict[str, Any]] = None, exposed_ports: Tuple[int, ...] = (),
                 *, type: Literal["berth"] = "berth") -> None:
        super().__init__(type=type, image=image, options=options or {}, exposed_ports=exposed_ports)


class BerthSandboxSessionState(SandboxSessionState):
    type: Literal["berth"] = "berth"
    sandbox: str
    image: Optional[str] = None
    options: Dict[str, Any] = {}


class BerthSandboxSession(BaseSandboxSession):
    state: BerthSandboxSessionState

    def __init__(self, *, state: BerthSandboxSessionState, sandbox: AsyncSandbox) -> None:
        self.state = state
        self.sandbox = sandbox

    # ---- its life

    async def running(self) -> bool:
        try:
            return bool((await self.sandbox.inspect())["status"] == "running")
        except BerthError:
            return False

    async def _ensure_backend_started(self) -> None:
        if not await self.running():
            await self.sandbox.start()

    async def _prepare_backend_workspace(self) -> None:
        await self.sandbox.files.mkdir(str(self.state.manifest.root), parents=True)

    async def _shutdown_backend(self) -> None:
        try:
            await self.sandbox.stop(grace_ms=0)
        except errors.BerthError:
            pass

    # ---- commands

    def _runtime_helpers(self) -> Any:
        return (RESOLVE_WORKSPACE_PATH_HELPER,)

    async def _validate_path_access(self, path: Any, *, for_write: bool = False) -> Path:
        return cast(Path, await self._validate_remote_path_access(path, for_write=for_write))

    async def exec(self, *command: Any, timeout: Optional[float] = None, shell: Union[bool, List[str]] = True,
                   user: Any = None) -> ExecResult:
        """The user is berth's to set: nothing in the sandbox has to be able to."""
        words = self._prepare_exec_command(*command, shell=shell, user=None)
        return await self._run(words, timeout, getattr(user, "name", user))

    async def _exec_internal(self, *command: Any, timeout: Optional[float] = None) -> ExecResult:
        return await self._run([str(word) for word in command], timeout, None)

    async def _run(self, words: List[str], timeout: Optional[float], user: Optional[str]) -> ExecResult:
        try:
            r = await self.sandbox.run(
                words, user=user, env=await self.state.manifest.environment.resolve() or None, workdir=str(self.state.manifest.root),
                timeout_ms=None if timeout is None else max(1, int(timeout * 1000)), max_output_bytes=OUTPUT_MAX)
        except (errors.CommandNotFound, errors.NotExecutable) as e:
            return ExecResult(stdout=b"", stderr=e.cause.encode(), exit_code=127 if isinstance(e, errors.CommandNotFound) else 126)
        except BerthError as e:
            raise ExecTransportError(command=tuple(words), context={"code": e.code, "remedy": e.remedy}, cause=e) from e
        if r.cause == "timeout":
            raise ExecTimeoutError(command=tuple(words), timeout_s=timeout, cause=None)
        return ExecResult(stdout=r.stdout, stderr=r.stderr, exit_code=r.exit_status)

    # ---- files

    async def read(self, path: Any, *, user: Any = None) -> io.IOBase:
        there = await self._validate_path_access(path)
        try:
            return io.BytesIO(await self.sandbox.files.read(str(there), user=getattr(user, "name", user)))
        except errors.NotFound as e:
            raise WorkspaceReadNotFoundError(path=Path(path), cause=e) from e
        except BerthError as e:
            raise WorkspaceArchiveReadError(path=Path(path), cause=e) from e

    async def write(self, path: Any, data: io.IOBase, *, user: Any = None) -> None:
        there = await self._validate_path_access(path, for_write=True)
        try:
            await self.sandbox.files.write(str(there), data.read(), parents=True, user=getattr(user, "name", user))
        except BerthError as e:
            raise WorkspaceArchiveWriteError(path=Path(path), cause=e) from e

    async def persist_workspace(self) -> io.IOBase:
        root = str(self.state.manifest.root)
        words = ["tar", "-C", root, *(f"--exclude=./{p}" for p in sorted(map(str, self._persist_workspace_skip_relpaths()))), "-cf", "-", "."]
        out = tempfile.SpooledTemporaryFile(MEMORY_MAX)

        def take(piece: Output) -> None:
            if piece.stream == "stdout":
                out.write(piece.data)
            if out.tell() > ARCHIVE_MAX:
                raise errors.Limit(f"the workspace has more than {ARCHIVE_MAX} bytes")

        try:
            await self.sandbox.run(words, on_output=take, max_output_bytes=64 << 10, check=True)
        except BerthError as e:
            out.close()
            raise WorkspaceArchiveReadError(path=Path(root), cause=e) from e
        out.seek(0)
        return cast(io.IOBase, out)

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """tar runs in the sandbox: what the archive holds reaches nothing outside of it."""
        root = str(self.state.manifest.root)
        try:
            await self.sandbox.files.mkdir(root, parents=True)
            async with self.sandbox.popen(["tar", "-C", root, "-xf", "-"], stdin_open=True) as process:
                try:
                    while piece := data.read(PIECE):
                        await process.send(piece)
                    await process.send(b"", eof=True)
                except errors.NotFound:
                    pass        # it ends at the archive's last block, or has failed, which its status tells
                (await process.wait()).check()
        except BerthError as e:
            raise WorkspaceArchiveWriteError(path=Path(root), cause=e) from e


class BerthSandboxClient(BaseSandboxClient[BerthSandboxClientOptions]):
    backend_id = "berth"
    supports_default_options = True

    def __init__(self, client: Optional[AsyncBerth] = None, *, instrumentation: Any = None, dependencies: Any = None) -> None:
        self._client = client or AsyncBerth()
        self._own = client is None
        self._instrumentation, self._dependencies = instrumentation, dependencies

    async def create(self, *, snapshot: Any = None, manifest: Optional[Manifest] = None,
                     options: Optional[BerthSandboxClientOptions] = None) -> SandboxSession:
        options = options or BerthSandboxClientOptions()
        manifest = self._validate_manifest_for_create(manifest or Manifest())
        session_id = uuid.uuid4()
        sandbox = await self._client.create(options.image, **options.options)
        try:
            state = BerthSandboxSessionState(
                session_id=session_id, manifest=manifest, snapshot=resolve_snapshot(snapshot, str(session_id)), sandbox=sandbox.id,
                image=options.image, options=options.options, exposed_ports=options.exposed_ports)
            return self._wrap_session(BerthSandboxSession(state=state, sandbox=sandbox), instrumentation=self._instrumentation)
        except BaseException:
            await sandbox.remove()
            raise

    async def delete(self, session: SandboxSession) -> SandboxSession:
        inner = session._inner
        if not isinstance(inner, BerthSandboxSession):
            raise TypeError("BerthSandboxClient.delete expects a session of BerthSandboxClient")
        try:
            await inner.sandbox.remove()
        except errors.NotFound:
            pass
        return session

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """The sandbox of that state, or a new one that its snapshot fills."""
        if not isinstance(state, BerthSandboxSessionState):
            raise TypeError("BerthSandboxClient.resume expects a BerthSandboxSessionState")
        try:
            sandbox, preserved = await self._client.attach(state.sandbox), True
        except errors.NotFound:
            sandbox, preserved = await self._client.create(state.image, **state.options), False
            state.sandbox, state.workspace_root_ready = sandbox.id, False
        inner = BerthSandboxSession(state=state, sandbox=sandbox)
        inner._set_start_state_preserved(preserved)
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    def deserialize_session_state(self, payload: Dict[str, object]) -> SandboxSessionState:
        checked = getattr(self, "_deserialize_session_state_payload", None)
        if checked:
            return cast(SandboxSessionState, checked(payload, BerthSandboxSessionState))
        return BerthSandboxSessionState.model_validate(payload)

    async def close(self) -> None:
        if self._own:
            await self._client.close()
