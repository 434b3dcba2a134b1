# SPDX-License-Identifier: Apache-2.0
"""
OpenManus's DockerSandbox, without Docker: in app/sandbox/core/manager.py and client.py,

    from berth.adapters.openmanus import BerthSandbox as DockerSandbox

It has the same calls and takes the same SandboxSettings; its commands share one shell, as those of OpenManus's
terminal do.
"""
from __future__ import annotations

import os
import posixpath
from typing import Any, Dict, Optional

from berth import AsyncBerth, AsyncSandbox, BerthError, errors

try:
    from app.sandbox.core.exceptions import SandboxTimeoutError
except ImportError:
    class SandboxTimeoutError(Exception):  # type: ignore[no-redef]
        """A command ran out of time."""


class Settings:
    """OpenManus's defaults, for those who give no settings."""

    image = "python:3.12-slim"
    work_dir = "/workspace"
    memory_limit = "512m"
    cpu_limit = 1.0
    timeout = 300
    network_enabled = False


class BerthSandbox:
    def __init__(self, config: Any = None, volume_bindings: Optional[Dict[str, str]] = None, *, client: Optional[AsyncBerth] = None,
                 **options: Any) -> None:
        self.config = config or Settings()
        self.volume_bindings = volume_bindings or {}
        self._own = client is None
        self._client, self._options = client, options
        self._sandbox: Optional[AsyncSandbox] = None

    async def create(self) -> "BerthSandbox":
        c = self.config
        network = {"network": "bridge"} if c.network_enabled else {}
        mounts = [f"{os.path.abspath(host)}:{inside}:rw" for host, inside in self.volume_bindings.items()]
        try:
            if self._client is None:
                self._client = AsyncBerth()
            self._sandbox = await self._client.create(
                c.image, memory=c.memory_limit, cpus=c.cpu_limit, workdir=c.work_dir, env={"PYTHONUNBUFFERED": "1"},
                volume=mounts or None, **{**network, **self._options})
        except BerthError as e:
            await self.cleanup()
            raise RuntimeError(f"Failed to create sandbox: {e}") from e
        return self

    def _there(self) -> AsyncSandbox:
        if self._sandbox is None:
            raise RuntimeError("Sandbox not initialized")
        return self._sandbox

    async def run_command(self, cmd: str, timeout: Optional[int] = None) -> str:
        """What the command line wrote.  One that runs out of time is killed with its tree; the shell goes on."""
        seconds = timeout or self.config.timeout
        r = await self._there().shell("openmanus").run(cmd, timeout_ms=seconds * 1000)
        if r.cause == "timeout":
            raise SandboxTimeoutError(f"Command execution timed out after {seconds} seconds")
        return r.out.replace("\r\n", "\n").strip()

    def _resolve(self, path: str) -> str:
        if ".." in path.split("/"):
            raise ValueError("Path contains potentially unsafe patterns")
        return path if path.startswith("/") else posixpath.join(self.config.work_dir, path)

    async def read_file(self, path: str) -> str:
        try:
            return await self._there().files.read_text(self._resolve(path))
        except errors.NotFound:
            raise FileNotFoundError(f"File not found: {path}") from None
        except (BerthError, ValueError) as e:
            raise RuntimeError(f"Failed to read file: {e}") from e

    async def write_file(self, path: str, content: str) -> None:
        try:
            await self._there().files.write(self._resolve(path), content, parents=True)
        except (BerthError, ValueError) as e:
            raise RuntimeError(f"Failed to write file: {e}") from e

    async def copy_from(self, src_path: str, dst_path: str) -> None:
        try:
            await self._there().files.copy_out(self._resolve(src_path), dst_path, parents=True)
        except errors.NotFound:
            raise FileNotFoundError(f"Source file not found: {src_path}") from None
        except (BerthError, ValueError) as e:
            raise RuntimeError(f"Failed to copy file: {e}") from e

    async def copy_to(self, src_path: str, dst_path: str) -> None:
        if not os.path.exists(src_path):
            raise FileNotFoundError(f"Source file not found: {src_path}")
        try:
            await self._there().files.copy_in(src_path, self._resolve(dst_path), parents=True)
        except (BerthError, ValueError) as e:
            raise RuntimeError(f"Failed to copy file: {e}") from e

    async def cleanup(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        try:
            if sandbox:
                await sandbox.remove()
        except errors.NotFound:
            pass
        finally:
            if self._own and self._client:
                client, self._client = self._client, None
                await client.close()

    async def __aenter__(self) -> "BerthSandbox":
        return await self.create()

    async def __aexit__(self, *unused: object) -> None:
        await self.cleanup()
