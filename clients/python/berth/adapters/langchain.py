# SPDX-License-Identifier: Apache-2.0
"""
LangChain's sandbox back end (deepagents): `create_deep_agent(backend=BerthSandbox.create("py"))`.

deepagents makes its file tools of execute(); what it uploads and downloads goes by berth's own file operations.
"""
from __future__ import annotations

import posixpath
from typing import Any, List, Optional, Tuple

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from berth import Berth, BerthError, Sandbox, errors

OUTPUT_MAX = 1 << 20
SECONDS = 30 * 60


def file_error(e: BerthError) -> str:
    """Of the words that an agent knows, or what berth said."""
    if "is a directory" in e.cause:
        return "is_directory"
    return {"not-found": "file_not_found", "denied": "permission_denied", "invalid": "invalid_path"}.get(e.code, str(e))


class BerthSandbox(BaseSandbox):
    """A sandbox as a back end.  The one who made it removes it; with `create`, that is remove() or a `with`."""

    def __init__(self, sandbox: Sandbox, *, timeout: int = SECONDS, client: Optional[Berth] = None) -> None:
        self._sandbox, self._timeout, self._client = sandbox, timeout, client

    @classmethod
    def create(cls, image: Optional[str] = None, *, client: Optional[Berth] = None, timeout: int = SECONDS,
               **options: Any) -> "BerthSandbox":
        own = None if client else Berth()
        try:
            return cls((client or own).create(image, **options), timeout=timeout, client=own)  # type: ignore[union-attr]
        except BaseException:
            if own:
                own.close()
            raise

    @property
    def id(self) -> str:
        return self._sandbox.id

    def execute(self, command: str, *, timeout: Optional[int] = None) -> ExecuteResponse:
        """Both streams in the order in which they were written.  timeout in seconds; 0 means none."""
        seconds = self._timeout if timeout is None else timeout
        r = self._sandbox.run(["/bin/sh", "-c", 'exec 2>&1; eval "$1"', "sh", command], timeout_ms=seconds * 1000 or None,
                              max_output_bytes=OUTPUT_MAX)
        output = r.out
        if r.cause == "timeout":
            output += f"\nError: the command did not end within {seconds} seconds and was killed"
        elif r.cause not in ("exit", "signal"):
            output += f"\nError: the command was ended: {r.cause}"
        return ExecuteResponse(output=output, exit_code=r.exit_status, truncated=r.stdout_dropped > 0)

    def upload_files(self, files: List[Tuple[str, bytes]]) -> List[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._upload(path, content)) for path, content in files]

    def _upload(self, path: str, content: bytes) -> Optional[str]:
        if not posixpath.isabs(path):
            return "invalid_path"
        try:
            self._sandbox.files.write(path, content, parents=True)
        except BerthError as e:
            return file_error(e)
        return None

    def download_files(self, paths: List[str]) -> List[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        if not posixpath.isabs(path):
            return FileDownloadResponse(path=path, content=None, error="invalid_path")
        try:
            return FileDownloadResponse(path=path, content=self._sandbox.files.read(path), error=None)
        except BerthError as e:
            return FileDownloadResponse(path=path, content=None, error=file_error(e))

    def remove(self) -> None:
        try:
            self._sandbox.remove()
        except errors.NotFound:
            pass
        if self._client:
            self._client.close()

    def __enter__(self) -> "BerthSandbox":
        return self

    def __exit__(self, *unused: object) -> None:
        self.remove()
