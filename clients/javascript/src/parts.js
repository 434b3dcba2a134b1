// SPDX-License-Identifier: Apache-2.0
/* What is in a sandbox: commands, shells, files; and what calls return. */
import * as errors from "./errors.js";
import { takeBytes } from "./link.js";

const MAX_OUTPUT_BYTES = 64 << 20; // of each stream in a Result
const STDIN_PIECE = 1 << 20;
const STDIN_AT_ONCE = 256 << 10;

/* The options, of which the names are known; signal, an AbortSignal, always is. */
export function options(given, ...names) {
  for (const name of Object.keys(given))
    if (name !== "signal" && !names.includes(name))
      throw new errors.Usage(`there is no option ${name}`, names.length ? `one of ${names.join(", ")}` : "");
  return given;
}

/* A string is a command line for the sandbox's shell. */
export const argvOf = (argv) => typeof argv === "string" ? ["/bin/sh", "-c", argv] : [...argv];

/* cwd is another name of workdir. */
export function directoryOf({ workdir, cwd }) {
  if (workdir !== undefined && cwd !== undefined && workdir !== cwd)
    throw new errors.Usage(`workdir is '${workdir}' and cwd is '${cwd}', which is another name of it`, "one of them");
  return workdir ?? cwd;
}

export const bytesOf = (data) => typeof data === "string" ? Buffer.from(data) : data ?? undefined;

/* ["NAME=VALUE", ...] of an object, a list or nothing. */
export function pairsOf(pairs) {
  if (pairs === undefined || pairs === null)
    return undefined;
  return Array.isArray(pairs) ? pairs : Object.entries(pairs).map(([name, value]) => `${name}=${value}`);
}

/* Options as berth has them: hyphens, pairs as NAME=VALUE, numbers as text. */
export function wordsOf(given) {
  const out = {};
  for (let [name, value] of Object.entries(given)) {
    if (Array.isArray(value))
      value = value.map(String);
    else if (value !== null && typeof value === "object")
      value = pairsOf(value);
    else if (typeof value !== "boolean" && value !== undefined && value !== null)
      value = String(value);
    if (value !== undefined && value !== null && value !== false)
      out[name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)] = value;
  }
  return out;
}

/* One, several or none as a list of text. */
export const listed = (value) => value === undefined || value === null ? undefined : [value].flat().map(String);

// ---- results

class Ended {
  constructor(verdict) {
    this.verdict = verdict;
  }

  /* As a shell has it: the exit code, 128 and the signal's number, 124 for a timeout. */
  get exitStatus() {
    return this.verdict.exit_status ?? 255;
  }

  get cause() {
    return this.verdict.cause ?? "lost";
  }

  get ok() {
    return this.exitStatus === 0 && this.cause === "exit";
  }
}

export class Result extends Ended {
  constructor(stdout, stderr, verdict, stdoutDropped = 0, stderrDropped = 0) {
    super(verdict);
    Object.assign(this, { stdout, stderr, stdoutDropped, stderrDropped });
  }

  get out() {
    return this.stdout.toString();
  }

  get err() {
    return this.stderr.toString();
  }

  /* Itself; throws CommandFailed unless the command succeeded. */
  check() {
    if (this.ok)
      return this;
    const last = this.err.trim().split("\n").at(-1);
    const cause = `the command ended with status ${this.exitStatus} (${this.cause})`;
    throw new errors.CommandFailed(last ? `${cause}: ${last}` : cause, "", undefined, this);
  }
}

export class ShellResult extends Ended {
  constructor(got) {
    super(got.verdict ?? {});
    this.output = takeBytes(got, "output");
    this.stderr = takeBytes(got, "stderr");
    this.status = got.status ?? "done";
    this.sessionEnded = Boolean(got.session_ended);
    this.freshShell = Boolean(got.fresh_shell);
    this.outputDropped = got.output_dropped ?? 0;
  }

  get out() {
    return this.output.toString();
  }
}

export class CodeResult extends Ended {
  constructor(stdout, stderr, verdict, language, files) {
    super(verdict);
    Object.assign(this, { stdout, stderr, language, files });
  }

  get out() {
    return this.stdout.toString();
  }

  get err() {
    return this.stderr.toString();
  }
}

/* A piece of what a command wrote. */
export class Output {
  constructor(answer) {
    this.stream = answer.stream;
    this.data = takeBytes(answer, "data");
    this.dropped = answer.dropped ?? 0;
  }

  get text() {
    return this.data.toString();
  }
}

// ---- what goes on

/* Objects as they come, until it is closed. */
export class Records {
  #stream;
  #signal;

  constructor(stream, signal) {
    this.#stream = stream;
    this.#signal = signal;
  }

  async next() {
    const value = await this.#stream.next(this.#signal);
    return { value: value ?? undefined, done: value === null };
  }

  async return() {
    await this.close();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  async close() {
    await this.#stream.close();
  }
}

/* A command in the foreground: an iterable of Output.  Closing it kills what still runs. */
export class Process {
  #stream;
  #signal;

  static async start(stream, signal) {
    const process = new Process();
    process.#stream = stream;
    process.#signal = signal;
    process.verdict = null;
    try {
      process.command = String((await stream.next(signal))?.command ?? "");
    } catch (e) {
      await stream.close();
      throw e;
    }
    return process;
  }

  async next() {
    while (this.verdict === null) {
      const answer = await this.#stream.next(this.#signal);
      if (answer === null)
        break;
      if (answer.verdict)
        this.verdict = answer.verdict;
      else if (answer.stream)
        return { value: new Output(answer), done: false };
    }
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /* All of data, while somebody else reads the output: the command may have to be read before it reads. */
  async feed(data) {
    try {
      for (let at = 0; at < data.length; at += STDIN_PIECE)
        await this.send(data.subarray(at, at + STDIN_PIECE), { eof: at + STDIN_PIECE >= data.length });
    } catch (e) {
      if (!(e instanceof errors.BerthError))
        throw e;
    }
  }

  async send(data = "", given = {}) {
    const { eof = false } = options(given, "eof");
    await this.#stream.send(bytesOf(data), eof);
  }

  async kill() {
    this.#stream.cancel();
  }

  async wait(given = {}) {
    const { maxOutputBytes = MAX_OUTPUT_BYTES, onOutput } = options(given, "maxOutputBytes", "onOutput");
    const kept = { stdout: [], stderr: [] }, size = { stdout: 0, stderr: 0 }, dropped = { stdout: 0, stderr: 0 };
    for await (const piece of this) {
      await onOutput?.(piece);
      const room = Math.max(0, maxOutputBytes - size[piece.stream]);
      const part = piece.data.subarray(0, room);
      kept[piece.stream].push(part);
      size[piece.stream] += part.length;
      dropped[piece.stream] += piece.data.length - part.length;
    }
    return new Result(Buffer.concat(kept.stdout), Buffer.concat(kept.stderr), this.verdict ?? { cause: "killed-by", exit_status: 137 },
      dropped.stdout, dropped.stderr);
  }

  async close() {
    await this.#stream.close();
  }
}

/* What popen(options) starts, fed with stdin and read to its end. */
export async function runToEnd(popen, { maxOutputBytes, onOutput, check, stdin, ...o }) {
  const data = bytesOf(stdin);
  const late = data !== undefined && data.length > STDIN_AT_ONCE;
  const process = await popen({ ...o, stdin: late ? undefined : data, stdinOpen: late });
  try {
    const fed = late ? process.feed(data) : undefined;
    const result = await process.wait({ maxOutputBytes, onOutput, signal: o.signal });
    await fed;
    return check ? result.check() : result;
  } finally {
    await process.close();
  }
}

if (Symbol.asyncDispose) {
  Records.prototype[Symbol.asyncDispose] = Records.prototype.close;
  Process.prototype[Symbol.asyncDispose] = Process.prototype.close;
}

/* A detached command: it goes on without its client. */
export class Command {
  constructor(link, sandbox, command) {
    this.link = link;
    this.sandbox = sandbox;
    this.id = command;
  }

  #call(op, members, signal) {
    return this.link.call(op, { sandbox: this.sandbox, command: this.id, ...members }, signal);
  }

  async* follow({ signal } = {}) {
    const stream = await this.link.stream("follow", { sandbox: this.sandbox, command: this.id, from: 0, stderr_from: 0 }, signal);
    try {
      for (let answer; (answer = await stream.next(signal)) !== null;)
        if (answer.stream)
          yield new Output(answer);
    } finally {
      await stream.close();
    }
  }

  async output(given = {}) {
    const { stream = "stdout", offset = 0, max, signal } = options(given, "stream", "offset", "max");
    const got = await this.#call("output", { stream, max, from: offset }, signal);
    const { data, data_hex: hex, data_base64: base64, ...rest } = got;
    return { ...rest, data: takeBytes(got, "data") };
  }

  async send(data = "", given = {}) {
    const { eof = false, signal } = options(given, "eof");
    await this.#call("send", { data: bytesOf(data), eof }, signal);
  }

  async signal(name = "TERM", given = {}) {
    const { all = false, signal } = options(given, "all");
    await this.#call("signal", { signal: name, all }, signal);
  }

  async wait({ signal } = {}) {
    return (await this.#call("wait", {}, signal)).verdict;
  }

  async forget({ signal } = {}) {
    await this.#call("forget", {}, signal);
  }
}

/* A shell session of a sandbox.  It is made by its first command line. */
export class Shell {
  constructor(link, sandbox, session) {
    this.link = link;
    this.sandbox = sandbox;
    this.session = session;
  }

  #call(op, members, signal) {
    return this.link.call(op, { sandbox: this.sandbox, session: this.session, ...members }, signal);
  }

  async run(text, given = {}) {
    const { timeoutMs, onTimeout, split, queueMs, noWait, maxSilentMs, checkpoint, signal } =
      options(given, "timeoutMs", "onTimeout", "split", "queueMs", "noWait", "maxSilentMs", "checkpoint");
    return new ShellResult(await this.#call("sh", {
      text: bytesOf(text), timeout_ms: timeoutMs, on_timeout: onTimeout, split, queue_ms: queueMs, no_wait: noWait,
      max_silent_ms: maxSilentMs, checkpoint,
    }, signal));
  }

  async wait(given = {}) {
    const { timeoutMs, onTimeout, signal } = options(given, "timeoutMs", "onTimeout");
    return new ShellResult(await this.#call("sh-wait", { timeout_ms: timeoutMs, on_timeout: onTimeout }, signal));
  }

  async cancel({ signal } = {}) {
    await this.#call("sh-cancel", {}, signal);
  }

  async send(data, { signal } = {}) {
    await this.#call("send", { data: bytesOf(data) }, signal);
  }

  async signal(name = "INT", { signal } = {}) {
    await this.#call("signal", { signal: name }, signal);
  }

  async close({ signal } = {}) {
    await this.#call("session-close", {}, signal);
  }
}

/* The files of a sandbox.  Relative paths start at its working directory. */
export class Files {
  constructor(link, sandbox) {
    this.link = link;
    this.sandbox = sandbox;
  }

  #call(op, members, signal) {
    return this.link.call(op, { sandbox: this.sandbox, ...members }, signal);
  }

  async read(path, given = {}) {
    const { max, user, signal } = options(given, "max", "user");
    return takeBytes(await this.#call("read", { path, max, user }, signal), "data");
  }

  async readText(path, given = {}) {
    return (await this.read(path, given)).toString();
  }

  async write(path, data, given = {}) {
    const { append, parents, mode, user, signal } = options(given, "append", "parents", "mode", "user");
    return (await this.#call("write", { path, data: bytesOf(data), append, parents, mode, user }, signal)).bytes;
  }

  async list(path, given = {}) {
    const { user, signal } = options(given, "user");
    return (await this.#call("ls", { path, user }, signal)).entries;
  }

  async stat(path, given = {}) {
    const { follow, user, signal } = options(given, "follow", "user");
    return this.#call("stat", { path, follow, user }, signal);
  }

  async mkdir(paths, given = {}) {
    const { parents, mode, user, signal } = options(given, "parents", "mode", "user");
    await this.#call("mkdir", { paths: [paths].flat(), parents, mode, user }, signal);
  }

  async remove(paths, given = {}) {
    const { recursive, force, user, signal } = options(given, "recursive", "force", "user");
    await this.#call("rm", { paths: [paths].flat(), recursive, force, user }, signal);
  }

  async move(source, target, given = {}) {
    const { user, signal } = options(given, "user");
    await this.#call("mv", { from: source, to: target, user }, signal);
  }

  async copyIn(local, remote, given = {}) {
    const { parents, signal } = options(given, "parents");
    await this.#call("copy-in", { local, remote, parents }, signal);
  }

  async copyOut(remote, local, given = {}) {
    const { parents, signal } = options(given, "parents");
    await this.#call("copy-out", { local, remote, parents }, signal);
  }
}
