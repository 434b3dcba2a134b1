# SPDX-License-Identifier: Apache-2.0
"""
The same surface for asyncio.

Each call is that of the client that waits, in a thread of a pool.  A task that is cancelled cancels what its call
runs, process tree included, and goes on with CancelledError when that has ended.
"""
from __future__ import annotations

import asyncio
import collections.abc
import concurrent.futures
import functools
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Generic, List, Mapping, Optional, TypeVar

from ._client import Berth, Sandbox
from ._link import Call
from ._parts import Command, Files, Process, Shell
from ._results import Output
from ._zygote import Zygote

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec, Unpack

    from ._options import ForkOptions
    from ._parts import Record
    P = ParamSpec("P")

CALLS_MAX = 256             # under way at once, as berth-stdio(1) has it
R = TypeVar("R")
T = TypeVar("T")
Pool = concurrent.futures.ThreadPoolExecutor


async def in_thread(pool: Pool, work: Callable[[], R]) -> R:
    call = Call()

    def called() -> R:
        with call:
            return work()

    future = asyncio.get_running_loop().run_in_executor(pool, called)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if future.cancelled():
            raise
        call.cancel()
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError:
                pass
        future.cancelled() or future.exception()
        raise


class Pending(Coroutine[Any, Any, T]):
    """A coroutine whose result may be had by `async with` without an `await`."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._result: Any = None

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, *how: Any) -> Any:
        return self._coroutine.throw(*how)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Any:
        return self._coroutine.__await__()

    async def __aenter__(self) -> T:
        self._result = await self._coroutine
        return await self._result.__aenter__()  # type: ignore[attr-defined, no-any-return]

    async def __aexit__(self, *how: Any) -> None:
        await self._result.__aexit__(*how)


class Async(Generic[T]):
    """An object of the client that waits, and the pool in whose threads it does."""

    def __init__(self, pool: Pool, inner: T) -> None:
        self._pool, self._inner = pool, inner

    def __repr__(self) -> str:
        return repr(self._inner).replace("berth.", "berth.Async", 1)

    async def _close(self, end: Callable[[], object]) -> None:
        await in_thread(self._pool, end)


def later(method: "Callable[Concatenate[Any, P], R]") -> "Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]":
    """The method, in a thread."""
    @functools.wraps(method)
    async def call(self: Any, /, *args: Any, **options: Any) -> Any:
        return await in_thread(self._pool, lambda: method(self._inner, *args, **options))
    return call


def making(method: "Callable[Concatenate[Any, P], R]", kind: Callable[[Pool, R], T],
           ) -> "Callable[Concatenate[Any, P], Pending[T]]":
    """The method, whose result is one of these classes."""
    @functools.wraps(method)
    def call(self: Any, /, *args: Any, **options: Any) -> Any:
        async def make() -> Any:
            return kind(self._pool, await in_thread(self._pool, lambda: method(self._inner, *args, **options)))
        return Pending(make())
    return call


class AsyncIterator(Async[Any], collections.abc.AsyncIterator):  # type: ignore[type-arg]
    async def __anext__(self) -> Any:
        done = object()
        got = await in_thread(self._pool, lambda: next(self._inner, done))
        if got is done:
            raise StopAsyncIteration
        return got

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._close(self._inner.close)


class AsyncRecords(AsyncIterator):
    """Objects as they come, until it is closed."""


class AsyncOutputs(AsyncIterator):
    """Pieces of output as they come."""


class AsyncProcess(AsyncIterator):
    """A command in the foreground, as Process."""

    send = later(Process.send)
    kill = later(Process.kill)
    wait = later(Process.wait)

    @property
    def command(self) -> str:
        return str(self._inner.command)

    @property
    def verdict(self) -> Optional[Record]:
        return self._inner.verdict  # type: ignore[no-any-return]


class AsyncCommand(Async[Command]):
    """A detached command, as Command."""

    output = later(Command.output)
    send = later(Command.send)
    signal = later(Command.signal)
    wait = later(Command.wait)
    forget = later(Command.forget)

    @property
    def id(self) -> str:
        return self._inner.id

    def follow(self) -> "collections.abc.AsyncIterator[Output]":
        return AsyncOutputs(self._pool, self._inner.follow())


class AsyncShell(Async[Shell]):
    """A shell session, as Shell."""

    run = later(Shell.run)
    wait = later(Shell.wait)
    cancel = later(Shell.cancel)
    send = later(Shell.send)
    signal = later(Shell.signal)
    close = later(Shell.close)


class AsyncFiles(Async[Files]):
    """The files of a sandbox, as Files."""

    read = later(Files.read)
    read_text = later(Files.read_text)
    write = later(Files.write)
    list = later(Files.list)
    stat = later(Files.stat)
    mkdir = later(Files.mkdir)
    remove = later(Files.remove)
    move = later(Files.move)
    copy_in = later(Files.copy_in)
    copy_out = later(Files.copy_out)


class AsyncSandbox(Async[Sandbox]):
    """A sandbox, as Sandbox."""

    def __init__(self, pool: Pool, inner: Sandbox) -> None:
        super().__init__(pool, inner)
        self.files = AsyncFiles(pool, inner.files)

    async def __aenter__(self) -> "AsyncSandbox":
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self._close(self._inner.__exit__)

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def name(self) -> str:
        return self._inner.name

    popen = making(Sandbox.popen, AsyncProcess)
    run = later(Sandbox.run)
    spawn = making(Sandbox.spawn, AsyncCommand)
    commands = later(Sandbox.commands)
    shells = later(Sandbox.shells)
    code = later(Sandbox.code)
    checkpoint = later(Sandbox.checkpoint)
    checkpoints = later(Sandbox.checkpoints)
    remove_checkpoint = later(Sandbox.remove_checkpoint)
    store_checkpoint = later(Sandbox.store_checkpoint)
    export_checkpoint = later(Sandbox.export_checkpoint)
    undo = later(Sandbox.undo)
    start = later(Sandbox.start)
    stop = later(Sandbox.stop)
    restart = later(Sandbox.restart)
    kill = later(Sandbox.kill)
    pause = later(Sandbox.pause)
    resume = later(Sandbox.resume)
    remove = later(Sandbox.remove)
    rename = later(Sandbox.rename)
    wait_ready = later(Sandbox.wait_ready)
    wait_stopped = later(Sandbox.wait_stopped)
    inspect = later(Sandbox.inspect)
    stats = later(Sandbox.stats)
    top = later(Sandbox.top)
    events = making(Sandbox.events, AsyncRecords)
    logs = making(Sandbox.logs, AsyncRecords)
    diff = later(Sandbox.diff)
    commit = later(Sandbox.commit)
    update = later(Sandbox.update)
    network = later(Sandbox.network)
    connect = later(Sandbox.connect)
    disconnect = later(Sandbox.disconnect)
    network_log = making(Sandbox.network_log, AsyncRecords)
    port = later(Sandbox.port)

    async def fork(self, *, checkpoint: Optional[str] = None, count: Optional[int] = None, name: Optional[str] = None,
                   **options: "Unpack[ForkOptions]") -> "List[AsyncSandbox]":
        """As Sandbox.fork()."""
        made = await in_thread(self._pool, lambda: self._inner.fork(checkpoint=checkpoint, count=count, name=name, **options))
        return [AsyncSandbox(self._pool, one) for one in made]

    def command(self, command: str) -> AsyncCommand:
        return AsyncCommand(self._pool, self._inner.command(command))

    def shell(self, session: str = "main") -> AsyncShell:
        return AsyncShell(self._pool, self._inner.shell(session))


class AsyncZygote(Async[Zygote]):
    """An interpreter that waits, as Zygote."""

    async def __aenter__(self) -> "AsyncZygote":
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self._close(self._inner.__exit__)

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def name(self) -> str:
        return self._inner.name

    popen = making(Zygote.popen, AsyncProcess)
    run = later(Zygote.run)
    inspect = later(Zygote.inspect)
    remove = later(Zygote.remove)


class AsyncBerth(Async[Berth]):
    """A way to berth for asyncio, as Berth."""

    def __init__(self, host: Optional[str] = None, *, token: Optional[str] = None, program: str = "berth",
                 env: Optional[Mapping[str, str]] = None) -> None:
        super().__init__(Pool(CALLS_MAX, thread_name_prefix="berth"), Berth(host, token=token, program=program, env=env))

    async def __aenter__(self) -> "AsyncBerth":
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._close(self._inner.close)
        self._pool.shutdown(wait=False)

    version = later(Berth.version)
    create = making(Berth.create, AsyncSandbox)
    attach = making(Berth.attach, AsyncSandbox)
    stored_checkpoints = later(Berth.stored_checkpoints)
    restore_checkpoint = making(Berth.restore_checkpoint, AsyncSandbox)
    remove_stored_checkpoint = later(Berth.remove_stored_checkpoint)
    import_checkpoint = making(Berth.import_checkpoint, AsyncSandbox)
    list = later(Berth.list)
    remove = later(Berth.remove)
    run = later(Berth.run)
    events = making(Berth.events, AsyncRecords)
    images = later(Berth.images)
    pull = later(Berth.pull)
    volumes = later(Berth.volumes)
    create_volume = later(Berth.create_volume)
    volume = later(Berth.volume)
    remove_volume = later(Berth.remove_volume)
    networks = later(Berth.networks)
    create_network = later(Berth.create_network)
    network = later(Berth.network)
    remove_network = later(Berth.remove_network)
    zygotes = later(Berth.zygotes)
    create_zygote = making(Berth.create_zygote, AsyncZygote)
    zygote = making(Berth.zygote, AsyncZygote)
    remove_zygote = later(Berth.remove_zygote)
    pools = later(Berth.pools)
    claim = making(Berth.claim, AsyncSandbox)
    release = later(Berth.release)
    heartbeat = later(Berth.heartbeat)
