# SPDX-License-Identifier: Apache-2.0
"""
mini-swe-agent's environment: `environment_class: berth.adapters.mini_swe_agent.BerthEnvironment` in its configuration.

One sandbox for the task; each step is a command of its own in it, as the agent wants.  Version 1 gives execute() the
command, version 2 an action that holds it; the reply is for both.
"""
from __future__ import annotations

import dataclasses
import os
import platform
from typing import Any, Dict, List, Optional, Union

from berth import Berth, Sandbox

try:
    from minisweagent.exceptions import Submitted
except ImportError:     # of version 1, which looks for the mark itself
    Submitted = None
MARK = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@dataclasses.dataclass
class BerthEnvironmentConfig:
    image: str = "host"
    cwd: str = "/workspace"
    env: Dict[str, str] = dataclasses.field(default_factory=dict)
    forward_env: List[str] = dataclasses.field(default_factory=list)
    timeout: int = 30
    interpreter: List[str] = dataclasses.field(default_factory=lambda: ["bash", "-lc"])
    container_timeout: str = "2h"
    """The sandbox is removed after so long, even if the agent's program was killed."""
    options: Dict[str, Any] = dataclasses.field(default_factory=dict)
    """Of create(): {"memory": "2g", "network": "egress", "allow_host": ["pypi.org"]}."""

    def model_dump(self, **unused: Any) -> Dict[str, Any]:
        return dataclasses.asdict(self)


class BerthEnvironment:
    def __init__(self, *, config_class: Any = BerthEnvironmentConfig, client: Optional[Berth] = None, logger: Any = None,
                 **config: Any) -> None:
        self.config = config_class(**config)
        self._own = client is None
        self._client = client or Berth()
        try:
            self._sandbox: Optional[Sandbox] = self._client.create(self.config.image, **{"ttl": self.config.container_timeout,
                                                                                          **self.config.options})
        except BaseException:
            if self._own:
                self._client.close()
            raise

    def execute(self, action: Union[str, Dict[str, Any]], cwd: str = "", *, timeout: Optional[int] = None) -> Dict[str, Any]:
        """Both streams in the order in which they were written; a command that runs out of time ends with its tree."""
        assert self._sandbox, "the environment was cleaned up"
        command = action if isinstance(action, str) else str(action.get("command", ""))
        env = {name: os.environ[name] for name in self.config.forward_env if name in os.environ}
        env.update({name: os.path.expandvars(value) for name, value in self.config.env.items()})
        seconds = timeout or self.config.timeout
        # the shell joins the streams, since two pipes have no order
        r = self._sandbox.run(["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *self.config.interpreter, command],
                              workdir=cwd or self.config.cwd, env=env, timeout_ms=seconds * 1000)
        reply: Dict[str, Any] = {"output": r.out, "returncode": r.exit_status, "exception_info": ""}
        if r.cause != "exit":
            why = f"the command did not end within {seconds} s" if r.cause == "timeout" else f"the command was ended: {r.cause}"
            reply.update(returncode=-1, exception_info=f"An error occurred while executing the command: {why}",
                         extra={"exception_type": "TimeoutExpired" if r.cause == "timeout" else "CommandEnded", "exception": why})
        self._check_finished(reply)
        return reply

    @staticmethod
    def _check_finished(reply: Dict[str, Any]) -> None:
        lines = reply["output"].lstrip().splitlines(keepends=True)
        if Submitted is not None and lines and lines[0].strip() == MARK and reply["returncode"] == 0:
            submission = "".join(lines[1:])
            raise Submitted({"role": "exit", "content": submission,
                             "extra": {"exit_status": "Submitted", "submission": submission}})

    def get_template_vars(self, **more: Any) -> Dict[str, Any]:
        return {**self.config.model_dump(), **platform.uname()._asdict(), **more}

    def serialize(self) -> Dict[str, Any]:
        name = f"{type(self).__module__}.{type(self).__name__}"
        return {"info": {"config": {"environment": self.config.model_dump(), "environment_type": name}}}

    def cleanup(self) -> None:
        sandbox, self._sandbox = getattr(self, "_sandbox", None), None
        if sandbox:
            sandbox.remove()
            if self._own:
                self._client.close()

    def __del__(self) -> None:
        """The agent never calls cleanup(): it lets go of its environment."""
        try:
            self.cleanup()
        except Exception:
            pass

    def __enter__(self) -> "BerthEnvironment":
        return self

    def __exit__(self, *unused: object) -> None:
        self.cleanup()
