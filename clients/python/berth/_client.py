# SPDX-License-Identifier: Apache-2.0
"""The client whose calls wait: Berth and its sandboxes."""
from __future__ import annotations

import os
from collections.abc import Mapping

from . import errors
from ._link import take_bytes
from ._parts import MAX_OUTPUT_BYTES, STDIN_AT_ONCE, Command, Files, Port, Process, Records, Shell, argv_of, bytes_of, directory_of, listed
from ._results import CodeResult, Output, Result
from ._words import pairs_of, words_of
from ._zygote import Zygote

TYPE_CHECKING = False       # of typing, which takes longer to import than a command to run
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Sequence, Union

    from typing_extensions import Unpack

    from ._link import Link
    from ._options import CreateOptions, ForkOptions, Pairs, UpdateOptions, ZygoteOptions
    from ._parts import Argv, Bytes, Record


def link_to(host: Optional[str], token: Optional[str], program: str, env: Optional[Mapping[str, str]]) -> Link:
    if host is None:
        host = os.environ.get("BERTH_HOST")
    if not host:
        from ._stdio import Stdio
        return Stdio(program, dict(env) if env is not None else None)
    from ._http import Http
    return Http(host, token if token is not None else os.environ.get("BERTH_TOKEN"))


class Berth:
    """
    A way to berth.  Without a host it is a `berth stdio` of its own, else berthd's: unix:///run/berth/berthd.sock, or
    http://127.0.0.1:7423 or https://HOST with a token.  BERTH_HOST and BERTH_TOKEN are the defaults of both.
    """

    def __init__(self, host: Optional[str] = None, *, token: Optional[str] = None, program: str = "berth",
                 env: Optional[Mapping[str, str]] = None) -> None:
        self._link = link_to(host, token, program, env)

    def __enter__(self) -> "Berth":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what runs in the foreground by this client.  Sandboxes live on."""
        self._link.close()

    def version(self) -> str:
        return str(self._link.call("ping", {})["version"])

    # ---- sandboxes

    def create(self, /, image: Optional[str] = None, *, command: Optional[Sequence[str]] = None,
               **options: "Unpack[CreateOptions]") -> "Sandbox":
        """
        A new sandbox.  It lives until it is removed, which it is at the end of a `with`.  With a command, or with
        service=True, it is a service.  options are those of berth-create(1).
        """
        made = self._link.call("create", {"image": image, "options": words_of(options), "args": list(command) if command else None})
        return Sandbox(self, str(made["sandbox"]), str(made.get("name", "")), owned=True)

    def attach(self, sandbox: str) -> "Sandbox":
        """The sandbox of that id or name.  It is not removed at the end of a `with`."""
        record = self._link.call("inspect", {"sandbox": sandbox})["record"]
        return Sandbox(self, str(record["id"]), str(record.get("name", "")))

    def stored_checkpoints(self) -> List[Record]:
        """The checkpoints in berthd's storage."""
        return list(self._link.call("stored-checkpoints", {})["checkpoints"])

    def restore_checkpoint(self, stored: str, *, name: Optional[str] = None, trust: bool = False, drop: bool = False,
                           no_start: bool = False) -> "Sandbox":
        """A sandbox of a checkpoint in berthd's storage, as import_checkpoint() makes one of a file."""
        made = self._link.call("stored-restore", {"stored": stored, "name": name, "trust": trust or None, "drop": drop or None,
                                                  "no_start": no_start or None})
        return Sandbox(self, str(made["sandbox"]), str(made.get("name", "")), owned=True)

    def remove_stored_checkpoint(self, stored: str) -> None:
        self._link.call("stored-rm", {"stored": stored})

    def import_checkpoint(self, file: str, *, name: Optional[str] = None, trust: bool = False, drop: bool = False,
                          no_start: bool = False) -> "Sandbox":
        """
        A sandbox of a file of export_checkpoint().  Options of the file that reach the host are refused, unless trust
        takes them or drop leaves them out.  It is removed at the end of a `with`.
        """
        made = self._link.call("checkpoint-import", {"file": file, "name": name, "trust": trust or None, "drop": drop or None,
                                                     "no_start": no_start or None})
        return Sandbox(self, str(made["sandbox"]), str(made.get("name", "")), owned=True)

    def list(self, *, all: bool = False, filter: Optional[Sequence[str]] = None) -> List[Record]:
        """The sandboxes that run, with all also the others.  filter: ["label=app=web", "name=x", "status=..."]."""
        options = {"all": all or None, "filter": list(filter) if filter else None}
        return list(self._link.call("ps", {"options": {k: v for k, v in options.items() if v is not None}})["result"])

    def remove(self, sandbox: str, *, force: bool = True) -> None:
        """Removes a sandbox and its files; with force one that runs, too."""
        self._link.call("rm", {"sandbox": sandbox, "options": {"force": True} if force else {}})

    def run(self, /, image: Optional[str], argv: Argv, *, stdin: Optional[Bytes] = None, timeout_ms: Optional[int] = None,
            max_output_bytes: int = MAX_OUTPUT_BYTES, check: bool = False, **options: "Unpack[CreateOptions]") -> Result:
        """A command in a sandbox of its own, which is removed after it."""
        with self.create(image, **options) as sandbox:
            return sandbox.run(argv, stdin=stdin, timeout_ms=timeout_ms, max_output_bytes=max_output_bytes, check=check)

    def events(self, *, since: Optional[int] = None) -> "Records":
        """What happens to sandboxes, as it happens; after the event with the cursor `since`, which may be in the past."""
        return Records(self._link.stream("events", {"follow": True, "from": since}))

    # ---- images and volumes

    def images(self) -> List[Record]:
        return list(self._link.call("images", {})["result"])

    def pull(self, image: str) -> Record:
        """Fetches an image from its registry."""
        return self._link.call("pull", {"image": image})

    def volumes(self) -> List[Record]:
        return list(self._link.call("volumes", {})["result"])

    def create_volume(self, name: str, *, size: Optional[str] = None, label: Optional[Pairs] = None) -> Record:
        """A directory of bounded size that outlives sandboxes: create(volume=["NAME:/data:rw"])."""
        return self._link.call("volume-create", {"name": name, "size": size, "label": pairs_of(label)})

    def volume(self, name: str) -> Record:
        """The volume's record and the sandboxes that use it."""
        return self._link.call("volume-inspect", {"name": name})

    def remove_volume(self, name: str) -> None:
        self._link.call("volume-rm", {"name": name})

    def networks(self) -> List[Record]:
        """The networks that have a name."""
        return list(self._link.call("networks", {"named": True})["result"])

    def create_network(self, name: str, *, internal: Optional[bool] = None, subnet: Optional[Sequence[str]] = None,
                       label: Optional[Pairs] = None, network_rate: Optional[str] = None) -> Record:
        """
        A network, whose members see each other: create(network=NAME).  With internal they see nobody else.  network_rate,
        such as "10mbit", bounds what all of them send to others, and what they receive.
        """
        return self._link.call("network-create", {"name": name, "internal": internal or None,
                                                  "subnet": list(subnet) if subnet else None, "label": pairs_of(label),
                                                  "network-rate": network_rate})

    def network(self, name: str) -> Record:
        """The network and its members."""
        return self._link.call("network-inspect", {"name": name})

    def remove_network(self, name: str) -> None:
        self._link.call("network-rm", {"name": name})

    # ---- zygotes

    def zygotes(self) -> List[Record]:
        """The interpreters that wait to be forked."""
        return list(self._link.call("zygotes", {})["result"])

    def create_zygote(self, image: str, command: Sequence[str], **options: "Unpack[ZygoteOptions]") -> Zygote:
        """
        Has an interpreter load what it needs: create_zygote("host", ["python3", "-c", "import json"]).  It waits until it
        is removed, which it is at the end of a `with`.  options are those of berth-zygote(1), for it and for each fork.
        """
        made = self._link.call("zygote-create", {"image": image, "options": words_of(options), "args": list(command)})
        return Zygote(self, str(made["zygote"]), str(made.get("name", "")), owned=True)

    def zygote(self, zygote: str) -> Zygote:
        """The zygote of that id or name.  It is not removed at the end of a `with`."""
        record = self._link.call("zygote-inspect", {"zygote": zygote})["record"]
        return Zygote(self, str(record["id"]), str(record.get("name", "")))

    def remove_zygote(self, zygote: str) -> None:
        """Ends a zygote and its forks."""
        self._link.call("zygote-rm", {"zygote": zygote})

    # ---- pools

    def pools(self) -> Record:
        """What the manager has: its pools, states, sessions."""
        return self._link.call("pools", {})

    def claim(self, pool: Optional[str] = None, *, session: Optional[str] = None, image: Optional[str] = None,
              command: Optional[Sequence[str]] = None, storage_path: Optional[str] = None, auto_stop: Optional[str] = None,
              auto_archive: Optional[str] = None, auto_delete: Optional[str] = None,
              **options: "Unpack[CreateOptions]") -> "Sandbox":
        """
        A warm sandbox of [pool.NAME], or a new one of that kind.  It is released at the end of a `with`.  One of a
        session ends with the session's lease, unless heartbeat() renews it.  With an image, a command, or options of
        create() other than env, memory, cpus and name it is a new one.  storage_path is where its workspace is stored
        and comes from; auto_* are times without use, such as "15m".
        """
        cpus = options.pop("cpus", None)
        given = options.get("env")
        env = dict(given) if isinstance(given, Mapping) else None
        if env is not None:
            del options["env"]
        words = words_of(options)
        got = self._link.call("claim", {
            "sandbox_type": pool, "environment": env or None, "memory": words.pop("memory", None),
            "cpus": None if cpus is None else float(cpus), "name": words.pop("name", None), "pull": words.pop("pull", None),
            "meta": {"session_ctx_id": session} if session else None, "image": image, "command": list(command) if command else None,
            "storage_path": storage_path, "auto_stop": auto_stop, "auto_archive": auto_archive, "auto_delete": auto_delete,
            "options": words or None})
        return Sandbox(self, str(got["sandbox"]), str(got["identity"]), owned=True, identity=str(got["identity"]))

    def release(self, sandbox: str, *, discard: bool = False) -> None:
        """Gives a claimed sandbox back: it is removed, and with discard its workspace without being stored."""
        if not self._link.call("release", {"identity": sandbox, "discard": discard})["released"]:
            raise errors.NotFound(f"no claimed sandbox '{sandbox}'")

    def heartbeat(self, session: str) -> None:
        """Renews the lease of a session."""
        self._link.call("heartbeat", {"session": session})


class Sandbox:
    """A sandbox: a machine of its own that commands run in.  files are its files."""

    def __init__(self, client: Berth, id: str, name: str = "", owned: bool = False, identity: str = "") -> None:
        self._client, self._link = client, client._link
        self.id, self.name = id, name
        self._owned, self._identity = owned, identity
        self.files = Files(self._link, id)

    def __repr__(self) -> str:
        return f"<berth.Sandbox {self.id}>"

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *unused: object) -> None:
        if self._owned:
            try:
                self.remove()
            except errors.NotFound:
                pass

    def _call(self, op: str, **members: Any) -> Record:
        return self._link.call(op, {"sandbox": self.id, **members})

    # ---- commands

    def popen(self, argv: Argv, *, stdin: Optional[Bytes] = None, stdin_open: bool = False,
              env: Optional[Pairs] = None, user: Optional[str] = None, workdir: Optional[str] = None, cwd: Optional[str] = None,
              timeout_ms: Optional[int] = None, grace_ms: Optional[int] = None, memory_bytes: Optional[int] = None,
              cpu_milli: Optional[int] = None, pids: Optional[int] = None, ulimits: Optional[Sequence[str]] = None,
              max_silent_ms: Optional[int] = None, checkpoint: Optional[bool] = None) -> "Process":
        """
        Starts a command whose output comes as it is written.  A string is a command line for /bin/sh, a list a
        program and its arguments.  With stdin_open its input stays open for Process.send().  With checkpoint the files
        are kept first as they are, for undo().
        """
        return Process(self._link.stream("exec", {
            "sandbox": self.id, "argv": argv_of(argv), "stdin": bytes_of(stdin), "stdin_open": stdin_open or None,
            "env": pairs_of(env), "user": user, "workdir": directory_of(workdir, cwd), "timeout_ms": timeout_ms, "grace_ms": grace_ms,
            "memory_bytes": memory_bytes, "cpu_milli": cpu_milli, "pids": pids,
            "ulimits": list(ulimits) if ulimits else None, "max_silent_ms": max_silent_ms,
            "checkpoint": checkpoint}))

    def run(self, argv: Argv, *, stdin: Optional[Bytes] = None, env: Optional[Pairs] = None,
            user: Optional[str] = None, workdir: Optional[str] = None, cwd: Optional[str] = None, timeout_ms: Optional[int] = None,
            grace_ms: Optional[int] = None, memory_bytes: Optional[int] = None, cpu_milli: Optional[int] = None,
            pids: Optional[int] = None, ulimits: Optional[Sequence[str]] = None, max_silent_ms: Optional[int] = None,
            checkpoint: Optional[bool] = None, max_output_bytes: int = MAX_OUTPUT_BYTES, on_output: Optional[Callable[[Output], object]] = None,
            check: bool = False) -> Result:
        """
        Runs a command to its end.  A command that fails is a Result, unless check is given.  on_output gets each piece
        of output as it comes.  Of each stream the first max_output_bytes are kept.  An exception that leaves this
        call, such as KeyboardInterrupt, kills the command with its process tree.
        """
        data = bytes_of(stdin)
        late = data is not None and len(data) > STDIN_AT_ONCE
        with self.popen(argv, stdin=None if late else data, stdin_open=late, env=env, user=user, workdir=workdir, cwd=cwd,
                        timeout_ms=timeout_ms, grace_ms=grace_ms, memory_bytes=memory_bytes, cpu_milli=cpu_milli,
                        pids=pids, ulimits=ulimits, max_silent_ms=max_silent_ms, checkpoint=checkpoint) as process:
            if late and data is not None:
                process._feed(data)
            result = process.wait(max_output_bytes=max_output_bytes, on_output=on_output)
        return result.check() if check else result

    def spawn(self, argv: Argv, *, name: Optional[str] = None, env: Optional[Pairs] = None,
              user: Optional[str] = None, workdir: Optional[str] = None, cwd: Optional[str] = None, timeout_ms: Optional[int] = None,
              grace_ms: Optional[int] = None, memory_bytes: Optional[int] = None, cpu_milli: Optional[int] = None,
              pids: Optional[int] = None, ulimits: Optional[Sequence[str]] = None,
              max_silent_ms: Optional[int] = None, checkpoint: Optional[bool] = None, tty: bool = False,
              rows: Optional[int] = None, cols: Optional[int] = None) -> "Command":
        """Starts a detached command, which goes on without this client; others find it by commands()."""
        got = self._call("exec", argv=argv_of(argv), detach=True, name=name, env=pairs_of(env), user=user, workdir=directory_of(workdir, cwd),
                         timeout_ms=timeout_ms, grace_ms=grace_ms, memory_bytes=memory_bytes, cpu_milli=cpu_milli, pids=pids,
                         ulimits=list(ulimits) if ulimits else None, max_silent_ms=max_silent_ms, checkpoint=checkpoint,
                         tty=tty or None, rows=rows, cols=cols)
        return Command(self._link, self.id, str(got["command"]))

    def commands(self) -> List[Record]:
        """The commands of the sandbox: those that run, and the detached ones that ended."""
        return list(self._call("commands")["commands"])

    def command(self, command: str) -> "Command":
        """A detached command by its id or name; "main" is a service's."""
        return Command(self._link, self.id, command)

    def shell(self, session: str = "main") -> "Shell":
        """A shell that keeps its directory and variables from one command line to the next."""
        return Shell(self._link, self.id, session)

    def shells(self) -> List[Record]:
        """The sandbox's shell sessions."""
        return list(self._call("sessions")["sessions"])

    def code(self, code: Bytes, *, lang: Optional[str] = None, env: Optional[Pairs] = None, user: Optional[str] = None,
             timeout_ms: Optional[int] = None, max_silent_ms: Optional[int] = None, keep: Optional[bool] = None) -> CodeResult:
        """
        Runs a snippet (Python unless lang says other) and lists the files that it made.  In a sandbox of create(zygote=...)
        the interpreter stays, with what earlier code made.  keep leaves the file that the snippet is run from.
        """
        got = self._call("code", code=bytes_of(code), lang=lang, env=pairs_of(env), user=user, timeout_ms=timeout_ms,
                         max_silent_ms=max_silent_ms, keep=keep)
        return CodeResult(take_bytes(got, "stdout"), take_bytes(got, "stderr"), got["verdict"], str(got.get("language", "")),
                          list(got.get("files", [])))

    # ---- time

    def checkpoint(self, *, name: Optional[str] = None, keep: Optional[int] = None) -> str:
        """
        Keeps its files as they are now, while commands run; the id of that, for undo() and fork().  keep is how many the
        sandbox keeps from now on.
        """
        return str(self._call("checkpoint", name=name, keep=keep)["checkpoint"])

    def checkpoints(self) -> List[Record]:
        """Its checkpoints, oldest first; head marks the one that its files came from."""
        got = self._call("checkpoints")
        return [{**one, "head": one["id"] == got["head"]} for one in got["checkpoints"]]

    def remove_checkpoint(self, checkpoint: str) -> None:
        self._call("checkpoint-rm", checkpoint=checkpoint)

    def store_checkpoint(self, checkpoint: str, *, name: Optional[str] = None) -> Record:
        """Puts a checkpoint into berthd's storage, for restore_checkpoint() on any host that shares it."""
        return self._call("checkpoint-store", checkpoint=checkpoint, name=name)

    def export_checkpoint(self, checkpoint: str, file: str) -> None:
        """Writes a checkpoint, with the sandbox's options, to a new file, for import_checkpoint() here or on another host."""
        self._call("checkpoint-export", checkpoint=checkpoint, file=file)

    def undo(self, *, steps: Optional[int] = None, to: Optional[str] = None) -> Record:
        """
        Puts its files back as they were at the last checkpoint, at one so many steps before, or at that of an id or name,
        and starts it again.  The answer has the checkpoint, the processes that it ended (ended, ended_more), and the
        shell sessions, each with restored: whether it is as it was.
        """
        got = self._call("undo", steps=steps, to=to)
        return {k: got.get(k) for k in ("checkpoint", "ended", "ended_more", "sessions")}

    def fork(self, *, checkpoint: Optional[str] = None, count: Optional[int] = None, name: Optional[str] = None,
             **options: "Unpack[ForkOptions]") -> List["Sandbox"]:
        """
        Sandboxes that begin with its files, as they are now or were at a checkpoint: all of them, or an exception.  They
        have its options but for those given here, which are those of berth-fork(1).  Each is removed at the end of a
        `with` of its own.
        """
        got = self._call("fork", checkpoint=checkpoint, count=count, name=name, options=words_of(options) or None)
        return [Sandbox(self._client, str(one["id"]), str(one["name"]), owned=True) for one in got["forks"]]

    # ---- its life

    def start(self) -> None:
        """Starts it after a stop, with the files it had."""
        self._call("start")

    def stop(self, *, grace_ms: Optional[int] = None, stop_signal: Optional[str] = None) -> None:
        """Ends every process, with stop_signal (else the sandbox's stop signal) first; the files stay."""
        self._call("stop", grace_ms=grace_ms, signal=stop_signal)

    def restart(self, *, grace_ms: Optional[int] = None, stop_signal: Optional[str] = None) -> None:
        self._call("restart", grace_ms=grace_ms, signal=stop_signal)

    def kill(self) -> None:
        """Ends every process at once; the files stay."""
        self._call("kill")

    def pause(self) -> None:
        self._call("pause")

    def resume(self) -> None:
        self._call("resume")

    def remove(self, *, force: bool = True) -> None:
        """Removes it with its files, and gives it back if it was claimed."""
        if self._identity:
            self._client.release(self._identity)
        else:
            self._client.remove(self.id, force=force)

    def rename(self, name: str) -> None:
        self._call("rename", name=name)
        self.name = name

    def wait_ready(self, *, healthy: bool = False, port: Union[None, int, Sequence[int]] = None,
                   log: Union[None, str, Sequence[str]] = None, timeout_ms: Optional[int] = None) -> int:
        """
        Waits until its health check has succeeded, something listens on each TCP port, and a line of its log matches
        each expression; returns for how long, in milliseconds.
        """
        got = self._call("ready", healthy=healthy or None, port=listed(port), log=listed(log),
                         timeout=None if timeout_ms is None else f"{timeout_ms}ms")
        return int(got.get("waited_ms", 0))

    def wait_stopped(self) -> None:
        """Waits until it does not run."""
        self._call("wait-stopped")

    # ---- what it is, what it did

    def inspect(self) -> Record:
        return dict(self._call("inspect")["record"])

    def stats(self) -> Record:
        """What it uses: memory, processor time, processes, bytes."""
        return self._call("stats")

    def top(self) -> List[Record]:
        """Its processes."""
        got = self._call("top")
        return list(got.get("processes", got.get("result", [])))

    def events(self, *, since: Optional[int] = None) -> Records:
        """What happens to it, as of Berth.events()."""
        return Records(self._link.stream("events", {"sandbox": self.id, "follow": True, "from": since}))

    def logs(self, *, follow: bool = False, since: Optional[str] = None, source: Optional[str] = None,
             tail: Optional[int] = None) -> Records:
        """What its main command, its detached commands and its sessions wrote."""
        return Records(self._link.stream("logs", {"sandbox": self.id, "follow": follow or None, "since": since, "source": source,
                                                  "tail": tail}))

    def diff(self, *, from_checkpoint: Optional[str] = None, to_checkpoint: Optional[str] = None,
             patch: bool = False) -> List[Record]:
        """What it changed against its image; or since a checkpoint, or between two; with patch the changed lines, too."""
        members = {"from": from_checkpoint, "to": to_checkpoint, "patch": patch or None}
        return list(self._call("diff", **members)["changes"])

    def commit(self, image: str, *, checkpoint: Optional[str] = None) -> Record:
        """Makes an image of what it changed, now or up to a checkpoint."""
        return self._call("commit", image=image, checkpoint=checkpoint)

    # ---- limits and network

    def update(self, /, **options: "Unpack[UpdateOptions]") -> None:
        """Changes limits and network rules, at once and for good: update(memory="1g", allow_host=["pypi.org"])."""
        self._call("update", **words_of(options))

    def network(self) -> Record:
        """Its network: rules, counters, budgets."""
        return self._call("network")

    def connect(self, network: str, *, alias: Optional[Sequence[str]] = None) -> None:
        """Puts it on one more network, where other names may be its own."""
        self._call("network-connect", name=network, alias=list(alias) if alias else None)

    def disconnect(self, network: str) -> None:
        self._call("network-disconnect", name=network)

    def port(self, port: int, *, ttl: Optional[str] = None, public: Optional[bool] = None, name: Optional[str] = None) -> Port:
        """
        The address of a server's port in the web: ["url"], and ["signed_url"] with a token that holds for ttl (24h).
        With public everybody reaches it; a name stands in the address in place of PORT-ID.  connect() gives a socket.
        """
        return Port(self._link, self.id, self._call("preview", port=port, ttl=ttl, public=public, name=name))

    def network_log(self, *, denied: bool = False, follow: bool = False) -> Records:
        """The requests that it made through its proxy, and how each was answered."""
        return Records(self._link.stream("network-log", {"sandbox": self.id, "denied": denied or None, "follow": follow or None}))
