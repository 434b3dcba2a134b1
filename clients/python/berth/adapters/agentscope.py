# SPDX-License-Identifier: Apache-2.0
"""
agentscope-runtime's base sandbox without a server: `with BerthBaseSandbox(image="py") as box: box.run_ipython_cell(...)`.

Where berthd runs, agentscope's own client needs nothing of this: BaseSandbox(base_url="http://127.0.0.1:7423",
bearer_token=TOKEN) speaks with it.  MCP servers, sessions and stored workspaces are there only.
"""
from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, Optional

from berth import Berth, Sandbox, errors

from ._kernel import Kernel

TOOLS = {
    "run_ipython_cell": {"name": "run_ipython_cell", "json_schema": {"type": "function", "function": {
        "name": "run_ipython_cell", "description": "Run a Python cell; what it defines is there for the next one.",
        "parameters": {"type": "object", "required": ["code"], "properties": {"code": {"type": "string"}}}}}},
    "run_shell_command": {"name": "run_shell_command", "json_schema": {"type": "function", "function": {
        "name": "run_shell_command", "description": "Run a shell command.",
        "parameters": {"type": "object", "required": ["command"], "properties": {"command": {"type": "string"}}}}}},
}


def content(is_error: bool, **texts: str) -> Dict[str, Any]:
    """A CallToolResult, as agentscope's tools answer."""
    return {"meta": None, "isError": is_error,
            "content": [{"type": "text", "text": text, "annotations": None, "description": name} for name, text in texts.items()]}


class BerthBaseSandbox:
    def __init__(self, sandbox_id: Optional[str] = None, timeout: int = 3000, *, image: Optional[str] = None,
                 client: Optional[Berth] = None, **options: Any) -> None:
        self.sandbox_id, self.timeout = sandbox_id, timeout
        self._image, self._options = image, options
        self._own = client is None
        self._client = client
        self._sandbox: Optional[Sandbox] = None
        self._kernel: Optional[Kernel] = None

    def __enter__(self) -> "BerthBaseSandbox":
        if self._client is None:
            self._client = Berth()
        try:
            self._sandbox = self._client.attach(self.sandbox_id) if self.sandbox_id else \
                self._client.create(self._image, **self._options)
        except BaseException:
            self._close()
            raise
        self.sandbox_id = self._sandbox.id
        return self

    def __exit__(self, *unused: object) -> None:
        """As agentscope's: whoever made it or not, the sandbox is released."""
        try:
            if self._kernel:
                self._kernel.close()
            if self._sandbox:
                self._sandbox.remove()
        except errors.NotFound:
            pass
        finally:
            self._kernel = self._sandbox = None
            self._close()

    def _close(self) -> None:
        if self._own and self._client:
            self._client.close()
            self._client = None

    def _there(self) -> Sandbox:
        if self._sandbox is None:
            raise RuntimeError("the sandbox is used outside of its `with`")
        return self._sandbox

    def get_info(self) -> Dict[str, Any]:
        record = self._there().inspect()
        return {"container_id": record["id"], "container_name": record.get("name", ""), "session_id": record["id"],
                "state": record["status"], "sandbox_type": "base", "version": record["image"], "timeout": self.timeout}

    def list_tools(self, tool_type: Optional[str] = None) -> Dict[str, Any]:
        return {} if tool_type not in (None, "generic") else {"generic": dict(TOOLS)}

    def call_tool(self, name: str, arguments: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        arguments = arguments or {}
        if name == "run_shell_command":
            return self._shell(str(arguments["command"]))
        if name == "run_ipython_cell":
            return self._cell(str(arguments["code"]))
        return content(True, stderr=f"there is no tool {name}")

    def _shell(self, command: str) -> Dict[str, Any]:
        r = self._there().run(command, timeout_ms=self.timeout * 1000)
        err = r.err if r.cause in ("exit", "signal") else f"{r.err}\nthe command was ended: {r.cause}"
        return content(bool(err), stdout=r.out, stderr=err, returncode=str(r.exit_status))

    def _cell(self, code: str) -> Dict[str, Any]:
        if self._kernel is None:
            self._kernel = Kernel(self._there())
        cell = self._kernel.run(code)
        out = cell.stdout + (f"Out[]: {cell.result}\n" if cell.result is not None else "")
        err = cell.stderr + cell.traceback
        return content(bool(err), stdout=out, stderr=err)

    def run_ipython_cell(self, code: str) -> Dict[str, Any]:
        return self.call_tool("run_ipython_cell", {"code": code})

    def run_shell_command(self, command: str) -> Dict[str, Any]:
        return self.call_tool("run_shell_command", {"command": command})

    def add_mcp_servers(self, server_configs: Dict[str, Any], overwrite: bool = False) -> bool:
        raise errors.Unsupported("MCP servers are started by berthd", "BaseSandbox(base_url=...) of agentscope at berthd")


class BerthBaseSandboxAsync:
    """The same for asyncio: `async with BerthBaseSandboxAsync(image="py") as box: await box.run_ipython_cell(...)`."""

    def __init__(self, sandbox_id: Optional[str] = None, timeout: int = 3000, *, image: Optional[str] = None,
                 client: Optional[Berth] = None, **options: Any) -> None:
        self._box = BerthBaseSandbox(sandbox_id, timeout, image=image, client=client, **options)
        self._turn: Optional[asyncio.Lock] = None      # of the loop that enters it

    @property
    def sandbox_id(self) -> Optional[str]:
        return self._box.sandbox_id

    async def _call(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """In a thread, one after the other, as a kernel takes cells."""
        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            return await asyncio.get_running_loop().run_in_executor(None, work, *arguments)

    async def __aenter__(self) -> "BerthBaseSandboxAsync":
        await self._call(self._box.__enter__)
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self._call(self._box.__exit__)

    async def get_info_async(self) -> Dict[str, Any]:
        return dict(await self._call(self._box.get_info))

    async def list_tools_async(self, tool_type: Optional[str] = None) -> Dict[str, Any]:
        return self._box.list_tools(tool_type)

    async def call_tool_async(self, name: str, arguments: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        return dict(await self._call(self._box.call_tool, name, arguments))

    async def run_ipython_cell(self, code: str) -> Dict[str, Any]:
        return await self.call_tool_async("run_ipython_cell", {"code": code})

    async def run_shell_command(self, command: str) -> Dict[str, Any]:
        return await self.call_tool_async("run_shell_command", {"command": command})

    async def add_mcp_servers_async(self, server_configs: Dict[str, Any], overwrite: bool = False) -> bool:
        return self._box.add_mcp_servers(server_configs, overwrite)
