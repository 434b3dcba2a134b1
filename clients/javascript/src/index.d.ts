// SPDX-License-Identifier: Apache-2.0
/// <reference types="node" />

export type Bytes = string | Uint8Array;
/** A string is a command line for the sandbox's /bin/sh; a list is a program and its arguments. */
export type Argv = string | readonly string[];
export type Pairs = Readonly<Record<string, string>> | readonly string[];
/** An object of berth, such as a record or a file's description. */
export type Entry = Record<string, any>;

/** What every call takes: its abort cancels the call, and kills what that runs with its process tree. */
export interface Abortable {
  signal?: AbortSignal;
}

export interface Verdict {
  cause: "exit" | "signal" | "timeout" | "silent" | "cpu-timeout" | "oom" | "pids" | "disk" | "network" | "seccomp" | "killed-by" | "lost";
  exit_status: number;
  exit_code?: number;
  signal?: number;
  signal_name?: string;
  timed_out: boolean;
  wall_ms: number;
  cpu_ms: number;
  peak_memory_bytes: number;
  [member: string]: any;
}

// Written by make options.
// <options>
/** The options of berth-create(1): the hyphens of their names are capitals here. */
export interface CreateOptions extends Abortable {
  memory?: number | string;
  swap?: number | string;
  cpus?: number | string;
  cpuTime?: number | string;
  cpuWeight?: number;
  cpuset?: string;
  ioWeight?: number;
  ioRate?: string | readonly string[];
  pids?: number | string;
  disk?: number | string;
  diskInodes?: number;
  tmpSize?: number | string;
  shmSize?: number | string;
  timeout?: number | string;
  grace?: number | string;
  maxSilentTime?: number | string;
  ulimit?: string | readonly string[];
  env?: Pairs;
  workdir?: string;
  user?: string;
  hostname?: string;
  domainname?: string;
  mount?: string | readonly string[];
  volume?: string | readonly string[];
  tmpfs?: string | readonly string[];
  noTmpfs?: boolean;
  cgroupFiles?: boolean;
  device?: string | readonly string[];
  gpus?: number | string;
  readOnly?: boolean;
  network?: string;
  addHost?: string | readonly string[];
  alias?: string | readonly string[];
  link?: string | readonly string[];
  ip?: string | readonly string[];
  allowHost?: string | readonly string[];
  denyHost?: string | readonly string[];
  allowNet?: string | readonly string[];
  denyNet?: string | readonly string[];
  dns?: string | readonly string[];
  dnsSearch?: string | readonly string[];
  dnsOption?: string | readonly string[];
  publish?: string | readonly string[];
  networkBytes?: number | string;
  networkConnections?: number | string;
  networkRate?: number | string;
  capAdd?: string | readonly string[];
  capDrop?: string | readonly string[];
  seccomp?: string;
  name?: string;
  tty?: boolean;
  entrypoint?: string;
  label?: Pairs;
  idleTimeout?: number | string;
  ttl?: number | string;
  autoRemove?: boolean;
  ownerPid?: number;
  ownerGrace?: number | string;
  budget?: string;
  healthCmd?: string;
  healthExec?: string;
  healthInterval?: number | string;
  healthTimeout?: number | string;
  healthRetries?: number;
  healthStartPeriod?: number | string;
  healthStartInterval?: number | string;
  noHealth?: boolean;
  service?: boolean;
  initCommand?: string;
  terminalSize?: string;
  stopSignal?: string;
  stopTimeout?: number | string;
  restart?: string;
  pull?: string;
  createTimeout?: number | string;
  noStart?: boolean;
  zygote?: string;
}

/** Those of berth-update(1). */
export interface UpdateOptions extends Abortable {
  memory?: number | string;
  cpus?: number | string;
  ioWeight?: number;
  ioRate?: string | readonly string[];
  pids?: number | string;
  allowHost?: string | readonly string[];
  denyHost?: string | readonly string[];
  allowNet?: string | readonly string[];
  denyNet?: string | readonly string[];
  resetRules?: boolean;
  networkBytes?: number | string;
  networkConnections?: number | string;
  networkRate?: number | string;
  idleTimeout?: number | string;
  ttl?: number | string;
  ownerPid?: number;
  ownerGrace?: number | string;
  healthCmd?: string;
  healthExec?: string;
  healthInterval?: number | string;
  healthTimeout?: number | string;
  healthRetries?: number;
  healthStartPeriod?: number | string;
  healthStartInterval?: number | string;
  noHealth?: boolean;
  restart?: string;
}

/** Those of berth-zygote(1), for the zygote and for each fork. */
export interface ZygoteOptions extends Abortable {
  memory?: number | string;
  swap?: number | string;
  cpus?: number | string;
  cpuTime?: number | string;
  cpuWeight?: number;
  cpuset?: string;
  ioWeight?: number;
  ioRate?: string | readonly string[];
  pids?: number | string;
  disk?: number | string;
  diskInodes?: number;
  tmpSize?: number | string;
  shmSize?: number | string;
  timeout?: number | string;
  grace?: number | string;
  maxSilentTime?: number | string;
  ulimit?: string | readonly string[];
  env?: Pairs;
  workdir?: string;
  user?: string;
  hostname?: string;
  domainname?: string;
  mount?: string | readonly string[];
  volume?: string | readonly string[];
  tmpfs?: string | readonly string[];
  noTmpfs?: boolean;
  device?: string | readonly string[];
  gpus?: number | string;
  readOnly?: boolean;
  capAdd?: string | readonly string[];
  capDrop?: string | readonly string[];
  seccomp?: string;
  name?: string;
  label?: Pairs;
  pool?: number;
  forks?: number;
  preloadTimeout?: number | string;
}

/** Those of berth-fork(1). */
export interface ForkOptions extends Abortable {
  memory?: number | string;
  cpus?: number | string;
  pids?: number | string;
  env?: Pairs;
  volume?: string | readonly string[];
  network?: string;
  allowHost?: string | readonly string[];
  denyHost?: string | readonly string[];
  allowNet?: string | readonly string[];
  denyNet?: string | readonly string[];
  label?: Pairs;
  ttl?: number | string;
  noStart?: boolean;
  volumeCopy?: boolean;
}
// </options>

interface Ended {
  readonly verdict: Verdict;
  /** As a shell has it: the exit code, 128 and the signal's number, 124 for a timeout. */
  readonly exitStatus: number;
  readonly cause: Verdict["cause"];
  readonly ok: boolean;
}

export class Result implements Ended {
  readonly verdict: Verdict;
  readonly exitStatus: number;
  readonly cause: Verdict["cause"];
  readonly ok: boolean;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  /** stdout as text. */
  readonly out: string;
  /** stderr as text. */
  readonly err: string;
  readonly stdoutDropped: number;
  readonly stderrDropped: number;
  /** Itself; throws CommandFailed unless the command succeeded. */
  check(): Result;
}

export class ShellResult implements Ended {
  readonly verdict: Verdict;
  readonly exitStatus: number;
  readonly cause: Verdict["cause"];
  readonly ok: boolean;
  readonly output: Buffer;
  readonly stderr: Buffer;
  readonly out: string;
  readonly status: string;
  readonly sessionEnded: boolean;
  readonly freshShell: boolean;
  readonly outputDropped: number;
}

export class CodeResult implements Ended {
  readonly verdict: Verdict;
  readonly exitStatus: number;
  readonly cause: Verdict["cause"];
  readonly ok: boolean;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly out: string;
  readonly err: string;
  readonly language: string;
  readonly files: Entry[];
}

/** A piece of what a command wrote. */
export class Output {
  readonly stream: "stdout" | "stderr";
  readonly data: Buffer;
  readonly dropped: number;
  readonly text: string;
}

/**
 * A way to berth.  Without a host it is a `berth stdio` of its own, else berthd's: unix:///run/berth/berthd.sock, or
 * http://127.0.0.1:7423 or https://HOST with a token.  BERTH_HOST and BERTH_TOKEN are the defaults of both.
 */
export class Berth {
  constructor(how?: { host?: string; token?: string; program?: string; env?: Record<string, string | undefined> });
  close(): Promise<void>;
  version(options?: Abortable): Promise<string>;
  create(image?: string, options?: CreateOptions & { command?: readonly string[] }): Promise<Sandbox>;
  attach(sandbox: string, options?: Abortable): Promise<Sandbox>;
  /** The checkpoints in berthd's storage. */
  storedCheckpoints(options?: Abortable): Promise<Entry[]>;
  /** A sandbox of a checkpoint in berthd's storage, as importCheckpoint() makes one of a file. */
  restoreCheckpoint(stored: string, options?: Abortable & { name?: string; trust?: boolean; drop?: boolean; noStart?: boolean }): Promise<Sandbox>;
  removeStoredCheckpoint(stored: string, options?: Abortable): Promise<void>;
  /** A sandbox of a file of exportCheckpoint(). Options of the file that reach the host are refused, taken or left out. */
  importCheckpoint(file: string, options?: Abortable & { name?: string; trust?: boolean; drop?: boolean; noStart?: boolean }): Promise<Sandbox>;
  list(options?: Abortable & { all?: boolean; filter?: readonly string[] }): Promise<Entry[]>;
  remove(sandbox: string, options?: Abortable & { force?: boolean }): Promise<void>;
  run(
    image: string | undefined,
    argv: Argv,
    options?: CreateOptions & {
      stdin?: Bytes;
      timeoutMs?: number;
      maxOutputBytes?: number;
      check?: boolean;
    }
  ): Promise<Result>;
  events(options?: Abortable & { since?: number }): Promise<Records>;
  images(options?: Abortable): Promise<Entry[]>;
  pull(image: string, options?: Abortable): Promise<Entry>;
  volumes(options?: Abortable): Promise<Entry[]>;
  createVolume(name: string, options?: Abortable & { size?: string; label?: Pairs }): Promise<Entry>;
  volume(name: string, options?: Abortable): Promise<Entry>;
  removeVolume(name: string, options?: Abortable): Promise<void>;
  networks(options?: Abortable): Promise<Entry[]>;
  createNetwork(
    name: string,
    options?: Abortable & { internal?: boolean; subnet?: readonly string[]; label?: Pairs; networkRate?: string }
  ): Promise<Entry>;
  network(name: string, options?: Abortable): Promise<Entry>;
  removeNetwork(name: string, options?: Abortable): Promise<void>;
  zygotes(options?: Abortable): Promise<Entry[]>;
  /** Has an interpreter load what it needs; it waits until it is removed. */
  createZygote(image: string, command: readonly string[], options?: ZygoteOptions): Promise<Zygote>;
  zygote(zygote: string, options?: Abortable): Promise<Zygote>;
  removeZygote(zygote: string, options?: Abortable): Promise<void>;
  pools(options?: Abortable): Promise<Entry>;
  claim(
    pool?: string,
    options?: CreateOptions & {
      session?: string;
      image?: string;
      command?: readonly string[];
      storagePath?: string;
      autoStop?: string;
      autoArchive?: string;
      autoDelete?: string;
    },
  ): Promise<Sandbox>;
  release(sandbox: string, options?: Abortable & { discard?: boolean }): Promise<void>;
  heartbeat(session: string, options?: Abortable): Promise<void>;
}

/** A sandbox: a machine of its own that commands run in. */
export class Sandbox {
  private constructor();
  readonly id: string;
  readonly name: string;
  readonly files: Files;
  /** At the end of an `await using`: one that this client made is removed. */
  dispose(): Promise<void>;
  popen(
    argv: Argv,
    options?: Abortable & {
      stdin?: Bytes;
      stdinOpen?: boolean;
      env?: Pairs;
      user?: string;
      workdir?: string;
      cwd?: string;
      timeoutMs?: number;
      graceMs?: number;
      memoryBytes?: number;
      cpuMilli?: number;
      pids?: number;
      ulimits?: readonly string[];
      maxSilentMs?: number;
      checkpoint?: boolean;
    }
  ): Promise<Process>;
  run(
    argv: Argv,
    options?: Abortable & {
      stdin?: Bytes;
      env?: Pairs;
      user?: string;
      workdir?: string;
      cwd?: string;
      timeoutMs?: number;
      graceMs?: number;
      memoryBytes?: number;
      cpuMilli?: number;
      pids?: number;
      ulimits?: readonly string[];
      maxSilentMs?: number;
      checkpoint?: boolean;
      maxOutputBytes?: number;
      onOutput?: (piece: Output) => unknown;
      check?: boolean;
    }
  ): Promise<Result>;
  spawn(
    argv: Argv,
    options?: Abortable & {
      name?: string;
      env?: Pairs;
      user?: string;
      workdir?: string;
      cwd?: string;
      timeoutMs?: number;
      graceMs?: number;
      memoryBytes?: number;
      cpuMilli?: number;
      pids?: number;
      ulimits?: readonly string[];
      maxSilentMs?: number;
      checkpoint?: boolean;
      tty?: boolean;
      rows?: number;
      cols?: number;
    }
  ): Promise<Command>;
  commands(options?: Abortable): Promise<Entry[]>;
  command(command: string): Command;
  shell(session?: string): Shell;
  shells(options?: Abortable): Promise<Entry[]>;
  code(
    code: Bytes,
    options?: Abortable & {
      lang?: string;
      env?: Pairs;
      user?: string;
      timeoutMs?: number;
      maxSilentMs?: number;
      keep?: boolean;
    }
  ): Promise<CodeResult>;
  /** Keeps its files as they are now, while commands run; the id of that, for undo() and fork(). */
  checkpoint(options?: Abortable & { name?: string; keep?: number }): Promise<string>;
  /** Oldest first; head marks the one that its files came from. */
  checkpoints(options?: Abortable): Promise<Entry[]>;
  removeCheckpoint(checkpoint: string, options?: Abortable): Promise<void>;
  /** Puts a checkpoint into berthd's storage, for restoreCheckpoint() on any host that shares it. */
  storeCheckpoint(checkpoint: string, options?: Abortable & { name?: string }): Promise<Entry>;
  /** Writes a checkpoint, with the sandbox's options, to a new file, for importCheckpoint() here or on another host. */
  exportCheckpoint(checkpoint: string, file: string, options?: Abortable): Promise<void>;
  /** Puts its files back as they were at a checkpoint, the last one unless said otherwise, and starts it again. */
  undo(options?: Abortable & { steps?: number; to?: string }): Promise<{ checkpoint: string; ended: Entry[]; ended_more: number; sessions: Entry[] }>;
  /** Sandboxes that begin with its files, as they are now or were at a checkpoint: all of them, or an error. */
  fork(options?: ForkOptions & { checkpoint?: string; count?: number; name?: string }): Promise<Sandbox[]>;
  start(options?: Abortable): Promise<void>;
  stop(options?: Abortable & { graceMs?: number; stopSignal?: string }): Promise<void>;
  restart(options?: Abortable & { graceMs?: number; stopSignal?: string }): Promise<void>;
  kill(options?: Abortable): Promise<void>;
  pause(options?: Abortable): Promise<void>;
  resume(options?: Abortable): Promise<void>;
  remove(options?: Abortable & { force?: boolean }): Promise<void>;
  rename(name: string, options?: Abortable): Promise<void>;
  waitReady(
    options?: Abortable & { healthy?: boolean; port?: number | readonly number[]; log?: string | readonly string[]; timeoutMs?: number }
  ): Promise<number>;
  waitStopped(options?: Abortable): Promise<void>;
  inspect(options?: Abortable): Promise<Entry>;
  stats(options?: Abortable): Promise<Entry>;
  top(options?: Abortable): Promise<Entry[]>;
  events(options?: Abortable & { since?: number }): Promise<Records>;
  logs(options?: Abortable & { follow?: boolean; since?: string; source?: string; tail?: number }): Promise<Records>;
  diff(options?: Abortable & { fromCheckpoint?: string; toCheckpoint?: string; patch?: boolean }): Promise<Entry[]>;
  commit(image: string, options?: Abortable & { checkpoint?: string }): Promise<Entry>;
  update(options?: UpdateOptions): Promise<void>;
  network(options?: Abortable): Promise<Entry>;
  connect(network: string, options?: Abortable & { alias?: readonly string[] }): Promise<void>;
  disconnect(network: string, options?: Abortable): Promise<void>;
  /** The address of a server's port in the web: url, and signed_url with a token that holds for ttl. */
  port(port: number, options?: Abortable & { ttl?: string; public?: boolean; name?: string }): Promise<Entry>;
  networkLog(options?: Abortable & { denied?: boolean; follow?: boolean }): Promise<Records>;
}

/** An interpreter that waits.  Each code runs in a fork of it, in a sandbox of its own that ends with the code. */
export class Zygote {
  private constructor();
  readonly id: string;
  readonly name: string;
  /** At the end of an `await using`: one that this client made is removed. */
  dispose(): Promise<void>;
  popen(
    code: Bytes,
    options?: Abortable & {
      args?: readonly string[];
      stdin?: Bytes;
      stdinOpen?: boolean;
      env?: Pairs;
      workdir?: string;
      cwd?: string;
      timeoutMs?: number;
    }
  ): Promise<Process>;
  run(
    code: Bytes,
    options?: Abortable & {
      args?: readonly string[];
      stdin?: Bytes;
      env?: Pairs;
      workdir?: string;
      cwd?: string;
      timeoutMs?: number;
      maxOutputBytes?: number;
      onOutput?: (piece: Output) => unknown;
      check?: boolean;
    }
  ): Promise<Result>;
  /** Its preload, pool, number of forks, and the ids of those that live (alive). */
  inspect(options?: Abortable): Promise<Entry>;
  remove(options?: Abortable): Promise<void>;
}

/** The files of a sandbox.  Relative paths start at its working directory. */
export class Files {
  private constructor();
  read(path: string, options?: Abortable & { max?: number; user?: string }): Promise<Buffer>;
  readText(path: string, options?: Abortable & { max?: number; user?: string }): Promise<string>;
  write(
    path: string,
    data: Bytes,
    options?: Abortable & { append?: boolean; parents?: boolean; mode?: string; user?: string }
  ): Promise<number>;
  list(path?: string, options?: Abortable & { user?: string }): Promise<Entry[]>;
  stat(path: string, options?: Abortable & { follow?: boolean; user?: string }): Promise<Entry>;
  mkdir(
    paths: string | readonly string[],
    options?: Abortable & { parents?: boolean; mode?: string; user?: string }
  ): Promise<void>;
  remove(
    paths: string | readonly string[],
    options?: Abortable & { recursive?: boolean; force?: boolean; user?: string }
  ): Promise<void>;
  move(source: string, target: string, options?: Abortable & { user?: string }): Promise<void>;
  copyIn(local: string, remote: string, options?: Abortable & { parents?: boolean }): Promise<void>;
  copyOut(remote: string, local: string, options?: Abortable & { parents?: boolean }): Promise<void>;
}

/** A shell that keeps its directory and variables from one command line to the next. */
export class Shell {
  private constructor();
  readonly session: string;
  run(
    text: Bytes,
    options?: Abortable & {
      timeoutMs?: number;
      onTimeout?: "kill" | "interrupt" | "freeze" | "detach";
      split?: boolean;
      queueMs?: number;
      noWait?: boolean;
      maxSilentMs?: number;
      checkpoint?: boolean;
    }
  ): Promise<ShellResult>;
  wait(
    options?: Abortable & { timeoutMs?: number; onTimeout?: "kill" | "interrupt" | "freeze" | "detach" }
  ): Promise<ShellResult>;
  cancel(options?: Abortable): Promise<void>;
  send(data: Bytes, options?: Abortable): Promise<void>;
  signal(name?: string | number, options?: Abortable): Promise<void>;
  close(options?: Abortable): Promise<void>;
}

/** A detached command: it goes on without its client. */
export class Command {
  private constructor();
  readonly id: string;
  follow(options?: Abortable): AsyncGenerator<Output, void>;
  output(
    options?: Abortable & { stream?: "stdout" | "stderr"; offset?: number; max?: number }
  ): Promise<Entry & { data: Buffer }>;
  send(data?: Bytes, options?: Abortable & { eof?: boolean }): Promise<void>;
  signal(name?: string | number, options?: Abortable & { all?: boolean }): Promise<void>;
  wait(options?: Abortable): Promise<Verdict>;
  forget(options?: Abortable): Promise<void>;
}

/** A command in the foreground.  Closing it kills what still runs. */
export class Process {
  private constructor();
  readonly command: string;
  readonly verdict: Verdict | null;
  next(): Promise<IteratorResult<Output, undefined>>;
  [Symbol.asyncIterator](): this;
  send(data?: Bytes, options?: { eof?: boolean }): Promise<void>;
  kill(): Promise<void>;
  wait(options?: { maxOutputBytes?: number; onOutput?: (piece: Output) => unknown }): Promise<Result>;
  close(): Promise<void>;
}

/** Objects as they come, until it is closed. */
export class Records {
  private constructor();
  next(): Promise<IteratorResult<Entry, undefined>>;
  return(): Promise<IteratorResult<Entry, undefined>>;
  [Symbol.asyncIterator](): this;
  close(): Promise<void>;
}

/** An error of berth: code is stable, cause says what failed and why, remedy what to do about it, or is empty. */
export class BerthError extends Error {
  constructor(cause: string, remedy?: string, code?: string);
  readonly code: string;
  readonly cause: string;
  readonly remedy: string;
}

/** A command that ran with check did not succeed. */
export class CommandFailed extends BerthError {
  readonly result: Result;
}

declare namespace kinds {
  class Usage extends BerthError {}
  class Invalid extends BerthError {}
  class Config extends BerthError {}
  class NotFound extends BerthError {}
  class Exists extends BerthError {}
  class Busy extends BerthError {}
  class Limit extends BerthError {}
  class Denied extends BerthError {}
  class Policy extends BerthError {}
  class Unsupported extends BerthError {}
  class Corrupt extends BerthError {}
  class System extends BerthError {}
  class NoMemory extends BerthError {}
  class Network extends BerthError {}
  class Timeout extends BerthError {}
  class NotExecutable extends BerthError {}
  class CommandNotFound extends BerthError {}
  class OtherHost extends BerthError {}
  class DiskFull extends BerthError {}
  class Unhealthy extends BerthError {}
  class Internal extends BerthError {}
}

/** One class for each error code: errors.NotFound has the code "not-found". */
export const errors: typeof kinds & { BerthError: typeof BerthError; CommandFailed: typeof CommandFailed };
