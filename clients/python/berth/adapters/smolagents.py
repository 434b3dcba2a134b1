# SPDX-License-Identifier: Apache-2.0
"""
smolagents' executor: `CodeAgent(tools, model, executor=BerthExecutor([], logger, image="py"))`.

The agent's code runs in a resident Python of a sandbox.  A final answer comes as JSON; a pickle is only read with
allow_pickle=True, which smolagents itself warns of.
"""
from __future__ import annotations

from typing import Any, List, Optional

from smolagents.local_python_executor import CodeOutput
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.utils import AgentError

from berth import Berth, Sandbox

from ._kernel import Kernel


class BerthExecutor(RemotePythonExecutor):
    def __init__(self, additional_imports: List[str], logger: Any, allow_pickle: bool = False, *, image: Optional[str] = None,
                 client: Optional[Berth] = None, python: str = "python3", **options: Any) -> None:
        super().__init__(additional_imports, logger, allow_pickle)
        self._own = client is None
        self._client = client or Berth()
        self._kernel: Optional[Kernel] = None
        self._sandbox: Optional[Sandbox] = None
        try:
            self._sandbox = self._client.create(image, **options)
            self._kernel = Kernel(self._sandbox, python)
            self.installed_packages = self.install_packages(additional_imports)
        except BaseException:
            self.cleanup()
            raise

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        assert self._kernel, "the executor was cleaned up"
        cell = self._kernel.run(code)
        logs = cell.stdout + cell.stderr
        if cell.error_name == self.FINAL_ANSWER_EXCEPTION:
            answer = self._deserialize_final_answer(cell.error_value, self.allow_pickle)
            return CodeOutput(output=answer, logs=logs, is_final_answer=True)
        if cell.error_name:
            raise AgentError(f"{logs}\nExecuting code yielded an error:\n{cell.error_name}\n{cell.error_value}\n{cell.traceback}",
                             self.logger)
        return CodeOutput(output=cell.result, logs=logs, is_final_answer=False)

    def cleanup(self) -> None:
        kernel, self._kernel = self._kernel, None
        sandbox, self._sandbox = self._sandbox, None
        if kernel:
            kernel.close()
        if sandbox:
            sandbox.remove()
        if self._own:
            self._client.close()

    def delete(self) -> None:
        self.cleanup()
