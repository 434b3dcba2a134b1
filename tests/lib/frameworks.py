# SPDX-License-Identifier: Apache-2.0
"""
Doubles of the agent frameworks that berth.adapters is for, which neither Debian nor npm has.

Each has the names, signatures and order of calls that its framework had in its public repository in November 2026 and
that an adapter meets: what is abstract there is abstract here, and what it would call is called by the tests.
"""
import abc
import asyncio
import dataclasses
import io
import json
import pathlib
import shlex
import sys
import types
import typing


def module(name, **names):
    """A module of that name, and the packages that it is in."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        path = ".".join(parts[:i])
        if path not in sys.modules:
            sys.modules[path] = types.ModuleType(path)
            if i > 1:
                setattr(sys.modules[".".join(parts[:i - 1])], parts[i - 1], sys.modules[path])
    vars(sys.modules[name]).update(names)
    return sys.modules[name]


# ---- mini-swe-agent 2


class Submitted(Exception):
    pass


def mini_swe_agent():
    module("minisweagent.exceptions", Submitted=Submitted)


# ---- deepagents


@dataclasses.dataclass
class ExecuteResponse:
    output: str
    exit_code: typing.Optional[int] = None
    truncated: bool = False


@dataclasses.dataclass
class FileDownloadResponse:
    path: str
    content: typing.Optional[bytes] = None
    error: typing.Optional[str] = None


@dataclasses.dataclass
class FileUploadResponse:
    path: str
    error: typing.Optional[str] = None


class BaseSandbox(abc.ABC):
    """Its file tools are command lines for execute(): what they lean on is a shell, python3 and both streams in one."""

    @abc.abstractmethod
    def execute(self, command, *, timeout=None):
        ...

    @property
    @abc.abstractmethod
    def id(self):
        ...

    @abc.abstractmethod
    def upload_files(self, files):
        ...

    @abc.abstractmethod
    def download_files(self, paths):
        ...

    def write(self, path, content):
        body = json.dumps({"path": path, "content": content})
        r = self.execute("python3 -c \"\nimport json, sys\nd = json.loads(sys.stdin.read())\nopen(d['path'], 'x').write(d['content'])\n\" "
                         f"<<'__EOF__'\n{body}\n__EOF__")
        return None if r.exit_code == 0 else r.output

    def grep(self, pattern, path):
        return self.execute(f"grep -rHnF -e {shlex.quote(pattern)} {shlex.quote(path)} 2>/dev/null || true").output.splitlines()

    async def aexecute(self, command, *, timeout=None):
        return await asyncio.to_thread(self.execute, command, timeout=timeout)


def deepagents():
    module("deepagents.backends.protocol", ExecuteResponse=ExecuteResponse, FileDownloadResponse=FileDownloadResponse,
           FileUploadResponse=FileUploadResponse)
    module("deepagents.backends.sandbox", BaseSandbox=BaseSandbox)


# ---- smolagents


@dataclasses.dataclass
class CodeOutput:
    output: typing.Any
    logs: str
    is_final_answer: bool


class AgentError(Exception):
    def __init__(self, message, logger):
        super().__init__(message)
        self.message = message


class RemotePythonExecutor:
    FINAL_ANSWER_EXCEPTION = "FinalAnswerException"

    def __init__(self, additional_imports, logger, allow_pickle=False):
        self.additional_imports, self.logger, self.allow_pickle = additional_imports, logger, allow_pickle
        self.installed_packages = []

    def run_code_raise_errors(self, code):
        raise NotImplementedError

    def send_variables(self, variables):
        self.run_code_raise_errors(f"import json\nlocals().update(json.loads({json.dumps(json.dumps(variables))}))")

    def __call__(self, code_action):
        return self.run_code_raise_errors(code_action)

    def install_packages(self, additional_imports):
        if additional_imports:
            self.logger.log(self.run_code_raise_errors(f"!echo would install {' '.join(additional_imports)}").logs)
        return additional_imports

    @staticmethod
    def _deserialize_final_answer(encoded_value, allow_pickle=False):
        if not encoded_value.startswith("safe:"):
            raise ValueError("Pickle data rejected")
        return json.loads(encoded_value[5:])


def smolagents():
    module("smolagents.local_python_executor", CodeOutput=CodeOutput)
    module("smolagents.remote_executors", RemotePythonExecutor=RemotePythonExecutor)
    module("smolagents.utils", AgentError=AgentError)


# ---- Inspect


@dataclasses.dataclass
class InspectResult:
    success: bool
    returncode: int
    stdout: str
    stderr: str


class OutputLimitExceededError(Exception):
    def __init__(self, limit_str, truncated_output):
        super().__init__(limit_str)


class SandboxEnvironment(abc.ABC):
    @classmethod
    async def task_init(cls, task_name, config):
        pass

    @classmethod
    async def sample_init(cls, task_name, config, metadata):
        return {}

    @classmethod
    @abc.abstractmethod
    async def sample_cleanup(cls, task_name, config, environments, interrupted):
        ...

    @classmethod
    async def task_cleanup(cls, task_name, config, cleanup):
        pass

    @classmethod
    async def cli_cleanup(cls, id):
        pass

    @abc.abstractmethod
    async def exec(self, cmd, input=None, cwd=None, env=None, user=None, timeout=None, timeout_retry=True, concurrency=True):
        ...

    @abc.abstractmethod
    async def write_file(self, file, contents):
        ...

    @abc.abstractmethod
    async def read_file(self, file, text=True):
        ...


registered = {}


def sandboxenv(name):
    def register(cls):
        registered[name] = cls
        return cls
    return register


def inspect_ai():
    module("inspect_ai.util", SandboxConnection=types.SimpleNamespace, ExecResult=InspectResult, OutputLimitExceededError=OutputLimitExceededError,
           SandboxEnvironment=SandboxEnvironment, sandboxenv=sandboxenv)
    # a dataclass that is ExecResult[str] in annotations only
    return registered


# ---- OpenAI Agents


class SandboxError(Exception):
    def __init__(self, **context):
        super().__init__(str(context))
        self.context = context


class ExecTimeoutError(SandboxError):
    pass


class ExecTransportError(SandboxError):
    pass


class WorkspaceArchiveReadError(SandboxError):
    pass


class WorkspaceArchiveWriteError(SandboxError):
    pass


class WorkspaceReadNotFoundError(SandboxError):
    pass


class Model:
    """What the adapter asks of pydantic: fields with defaults by class attributes, keyword arguments, a dump."""

    def __init__(self, **fields):
        names = [n for c in type(self).__mro__ for n in vars(c).get("__annotations__", {}) if n[0] != "_"]
        for name in names:
            if name not in fields and not hasattr(type(self), name):
                raise ValueError(f"{name} is missing")
        if set(fields) - set(names):
            raise ValueError(f"unknown {set(fields) - set(names)}")
        for name in names:
            setattr(self, name, fields.get(name, getattr(type(self), name, None)))

    def model_dump(self):
        return dict(vars(self))

    @classmethod
    def model_validate(cls, payload):
        return cls(**payload)


class Environment:
    def __init__(self, values=None):
        self.values = values or {}

    async def resolve(self):
        return dict(self.values)


class Manifest:
    def __init__(self, root="/workspace", environment=None):
        self.root, self.environment = root, Environment(environment)


class AgentsResult:
    def __init__(self, *, stdout, stderr, exit_code):
        self.stdout, self.stderr, self.exit_code = stdout, stderr, exit_code

    def ok(self):
        return self.exit_code == 0


class SandboxSessionState(Model):
    type: str
    session_id: typing.Any
    snapshot: typing.Any
    manifest: typing.Any
    exposed_ports: tuple = ()
    workspace_root_ready: bool = False


class BaseSandboxSession(abc.ABC):
    _preserved = False

    def _set_start_state_preserved(self, workspace, *, system=None):
        self._preserved = workspace

    async def start(self):
        await self._ensure_backend_started()
        await self._prepare_backend_workspace()
        if self.state.snapshot is not None and not self._preserved:
            await self.hydrate_workspace(io.BytesIO(self.state.snapshot["data"]))
        self.state.workspace_root_ready = True

    async def stop(self):
        self.state.snapshot = {"data": (await self.persist_workspace()).read()}

    async def aclose(self):
        await self.stop()
        await self._shutdown_backend()

    def _prepare_exec_command(self, *command, shell, user):
        words = [str(c) for c in command]
        assert user is None, "the adapter sets the user itself"
        return ["sh", "-lc", words[0] if len(words) == 1 else shlex.join(words)] if shell else words

    async def exec(self, *command, timeout=None, shell=True, user=None):
        return await self._exec_internal(*self._prepare_exec_command(*command, shell=shell, user=user), timeout=timeout)

    async def _validate_remote_path_access(self, path, *, for_write=False):
        """The framework asks a helper in the sandbox; here only where the path leads."""
        there = pathlib.Path(self.state.manifest.root) / path
        r = await self.exec("realpath", "-m", "--", str(there), shell=False)
        if not r.stdout.decode().startswith(self.state.manifest.root):
            raise ValueError(f"{path} leads out of the workspace")
        return there

    def _persist_workspace_skip_relpaths(self):
        return {pathlib.Path("skipped")}

    @abc.abstractmethod
    async def _exec_internal(self, *command, timeout=None):
        ...

    @abc.abstractmethod
    async def read(self, path, *, user=None):
        ...

    @abc.abstractmethod
    async def write(self, path, data, *, user=None):
        ...

    @abc.abstractmethod
    async def running(self):
        ...

    @abc.abstractmethod
    async def persist_workspace(self):
        ...

    @abc.abstractmethod
    async def hydrate_workspace(self, data):
        ...


class SandboxSession:
    """The framework's wrapper of a session: it hands on what it is asked."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


class BaseSandboxClientOptions(Model):
    type: str


Options = typing.TypeVar("Options")


class BaseSandboxClient(abc.ABC, typing.Generic[Options]):
    def _validate_manifest_for_create(self, manifest):
        return manifest

    def _wrap_session(self, inner, *, instrumentation=None):
        return SandboxSession(inner)

    def serialize_session_state(self, state):
        return state.model_dump()

    @abc.abstractmethod
    async def create(self, *, snapshot=None, manifest=None, options):
        ...

    @abc.abstractmethod
    async def delete(self, session):
        ...

    @abc.abstractmethod
    async def resume(self, state):
        ...

    @abc.abstractmethod
    def deserialize_session_state(self, payload):
        ...


def openai_agents():
    module("agents.sandbox.errors", **{c.__name__: c for c in (ExecTimeoutError, ExecTransportError, WorkspaceArchiveReadError,
                                                              WorkspaceArchiveWriteError, WorkspaceReadNotFoundError)})
    module("agents.sandbox.manifest", Manifest=Manifest)
    module("agents.sandbox.session", SandboxSession=SandboxSession, SandboxSessionState=SandboxSessionState)
    module("agents.sandbox.session.base_sandbox_session", BaseSandboxSession=BaseSandboxSession)
    module("agents.sandbox.session.runtime_helpers", RESOLVE_WORKSPACE_PATH_HELPER=object())
    module("agents.sandbox.session.sandbox_client", BaseSandboxClient=BaseSandboxClient, BaseSandboxClientOptions=BaseSandboxClientOptions)
    module("agents.sandbox.snapshot", resolve_snapshot=lambda spec, session: spec)
    module("agents.sandbox.types", ExecResult=AgentsResult)
