// SPDX-License-Identifier: Apache-2.0
/*
 * A link to a `berth stdio` of its own: a child process, spoken to in lines of JSON.  What stdio has no operation for
 * is a command of berth, by stdio's operation "berth"; what goes on for ever (events, logs) is a process of its own.
 */
import { spawn } from "node:child_process";

import * as errors from "./errors.js";
import { given, interruptible, LineSplitter, Queue, takeBytes } from "./link.js";

const LINE_MAX = 16 << 20; // of berth-stdio(1)
const UNREAD_MAX = 64 << 20; // bytes of a command's output that nobody has taken yet
const WRITE_PIECE = 4 << 20; // of the data of a write, in one request
const SAID_MAX = 64 << 10;
const POOLS = "pools and claims are berthd's";
const HINT = 'reach berthd: new Berth({ host: "unix:///run/berth/berthd.sock" })';
const STORAGE = ["checkpoint-store", "stored-checkpoints", "stored-restore", "stored-rm"];
const CANNOT = new Set(["claim", "release", "pools", "heartbeat", "preview", ...STORAGE]);
const LIFE = new Set(["start", "stop", "restart", "kill"]);
// what ends by a request of its own; whatever else is answered soon, or its answer is dropped
const CANCELLED = new Set(["exec", "run", "write", "sh", "code", "copy", "create", "zygote-create", "ready", "berth", "diff", "checkpoint-export",
  "checkpoint-import", ...LIFE]);
// those of berth's commands that stdio has no operation for: what of a request is an argument, after the options
const COMMANDS = {
  "update": [["update"], ["sandbox"]], "rename": [["rename"], ["sandbox", "name"]], "top": [["top"], ["sandbox"]],
  "commit": [["commit", "--quiet"], ["sandbox", "image"]],
  "wait-stopped": [["wait"], ["sandbox"]],
  "network": [["network", "inspect"], ["sandbox"]], "volumes": [["volume", "ls"], []],
  "volume-create": [["volume", "create"], ["name"]], "volume-inspect": [["volume", "inspect"], ["name"]],
  "networks": [["network", "ls"], []], "network-create": [["network", "create"], ["name"]],
  "network-inspect": [["network", "inspect"], ["name"]], "network-rm": [["network", "rm"], ["name"]],
  "network-connect": [["network", "connect"], ["name", "sandbox"]],
  "network-disconnect": [["network", "disconnect"], ["name", "sandbox"]],
  "volume-rm": [["volume", "rm"], ["name"]], "images": [["image", "ls"], []], "pull": [["pull"], ["image"]],
  "network-log": [["network", "log"], ["sandbox"]], "events": [["events"], ["sandbox"]], "logs": [["logs"], ["sandbox"]],
};

/* The words of a command line for options by their long names. */
function optionWords(options) {
  const words = [];
  for (const [name, value] of Object.entries(options))
    for (const one of Array.isArray(value) ? value : [value])
      if (one === true)
        words.push(`--${name}`);
      else if (one !== undefined && one !== null && one !== false)
        words.push(`--${name}=${one}`);
  return words;
}

function commandWords(op, members) {
  const [words, names] = COMMANDS[op];
  const options = Object.fromEntries(Object.entries(members).filter(([name]) => !names.includes(name)));
  const args = names.map((name) => members[name]).filter((v) => v !== undefined && v !== null);
  return [...words, "--json", ...optionWords(options), "--", ...args];
}

/* The operation of stdio for one of ours. */
function translate(op, members) {
  if (op === "commit" && members.checkpoint)
    return translate(op, { sandbox: `${members.sandbox}@${members.checkpoint}`, image: members.image });
  if (op in COMMANDS)
    return ["berth", { args: commandWords(op, members) }];
  const { sandbox, ...rest } = given(members, () => ["", ""]);
  if (LIFE.has(op))
    return [op, { sandbox, options: given({ grace: rest.grace_ms === undefined ? undefined : `${rest.grace_ms}ms`, signal: rest.signal }) }];
  if (op === "ready")
    return [op, { sandbox, options: rest }];
  if (op === "checkpoint-rm")
    return [op, { sandbox, checkpoints: [rest.checkpoint] }];
  if (op === "copy-in" || op === "copy-out") {
    const local = rest.local.startsWith("/") ? rest.local : `./${rest.local}`;
    const remote = `${sandbox}:${rest.remote}`;
    const [from, to] = op === "copy-in" ? [local, remote] : [remote, local];
    return ["copy", { from, to, parents: rest.parents }];
  }
  return [op, members];
}

function cut(data) {
  const pieces = [];
  for (let at = 0; at < data.length; at += WRITE_PIECE)
    pieces.push(data.subarray(at, at + WRITE_PIECE));
  return pieces;
}

/* The answer, unless it is an error. */
function judge(op, answer) {
  const wrong = errors.ofAnswer(answer);
  if (wrong)
    throw wrong;
  if (op !== "berth")
    return answer;
  if (answer.exit_status) {
    const said = String(answer.stderr ?? "").trim();
    throw errors.make("internal", said.startsWith("berth: ") ? said.slice(7) : said);
  }
  const { sandbox, exit_status, ...rest } = answer;
  return rest;
}

/* What a process says on stderr, as much of it as an error is made of. */
function listen(child) {
  const said = [];
  let size = 0;
  child.stderr.on("data", (piece) => {
    if (size < SAID_MAX)
      said.push(piece);
    size += piece.length;
  });
  return () => Buffer.concat(said).toString().trim();
}

function start(program, words, env, stdin) {
  // in a session of its own: a Ctrl-C at the terminal is its caller's to handle
  return spawn(program, words, { stdio: [stdin, "pipe", "pipe"], env, detached: true });
}

function cannotStart(program, e) {
  return new errors.NotFound(`start ${program}: ${e.message}`, "install berth, or give program");
}

export class Stdio {
  #program;
  #env;
  #child = null;
  #waiting = new Map();
  #next = 1;
  #closed = false;

  constructor(program, env) {
    this.#program = program;
    this.#env = env;
  }

  #start() {
    if (this.#closed)
      throw new errors.Usage("the client is closed");
    if (this.#child)
      return this.#child;
    const child = start(this.#program, ["stdio"], this.#env, "pipe");
    const lines = new LineSplitter();
    const said = listen(child);
    let failed = null;
    this.#child = child;
    child.stdout.on("data", (piece) => {
      for (const line of lines.take(piece))
        this.#answered(JSON.parse(line));
    });
    child.stdin.on("error", () => {}); // the child has ended, which is told below
    child.on("error", (e) => { failed = cannotStart(this.#program, e); });
    child.on("close", (code) => {
      const left = [...this.#waiting.values()];
      this.#waiting.clear();
      this.#child = null;
      const error = failed ?? new errors.Internal(said() || `berth stdio ended with status ${code}`);
      for (const take of left)
        take({ error: { code: error.code, message: error.message } });
    });
    return child;
  }

  #answered({ id, ...answer }) {
    if (this.#waiting.get(id)?.(answer))
      this.#waiting.delete(id);
  }

  /* take gets each answer until it says that that was the last. */
  send(op, members, take) {
    const id = this.#next++;
    const encoded = given(members, (bytes) => ["_base64", bytes.toString("base64")]);
    const line = Buffer.from(JSON.stringify({ id, op, encoding: "base64", ...encoded }) + "\n");
    if (line.length > LINE_MAX)
      throw new errors.Limit(`a request of ${line.length} bytes; one has at most ${LINE_MAX}`, "files.copyIn takes files of any size");
    const child = this.#start();
    this.#waiting.set(id, take);
    child.stdin.write(line);
    return id;
  }

  cancel(id, op = "exec") {
    const take = this.#waiting.get(id);
    if (take && CANCELLED.has(op)) {
      this.send("cancel", { request: id }, () => true);
    } else if (take) {
      this.#waiting.delete(id);
      take({ error: { code: "timeout", message: "the call was cancelled" } });
    }
  }

  async call(op, members, signal) {
    if (CANNOT.has(op))
      throw new errors.Unsupported(`${op} over berth stdio: ${STORAGE.includes(op) ? "the storage is berthd's" : op === "preview" ? "previews are berthd's" : POOLS}`, HINT);
    [op, members] = translate(op, members);
    signal?.throwIfAborted();
    const pieces = op === "write" && members.data?.length > WRITE_PIECE ? cut(members.data) : [];
    if (pieces.length)
      members = { ...members, data: undefined, stdin_open: true };
    let id;
    const answered = new Promise((resolve) => {
      id = this.send(op, members, (answer) => {
        resolve(answer);
        return true;
      });
    });
    // what is said of a piece says no more than the answer to the write
    pieces.forEach((data, i) => this.send("send", { request: id, data, eof: i + 1 === pieces.length }, () => true));
    const answer = await interruptible(signal, () => this.cancel(id, op), answered);
    signal?.throwIfAborted();
    return judge(op, answer);
  }

  async stream(op, members, signal) {
    signal?.throwIfAborted();
    if (op in COMMANDS)
      return new Lines(this.#program, commandWords(op, members), this.#env, op === "events");
    if (op === "follow")
      return new Follow(this, members);
    return new Running(this, op, members);
  }

  async close() {
    this.#closed = true;
    const child = this.#child;
    if (!child)
      return;
    const ended = new Promise((resolve) => child.on("close", resolve));
    child.kill();
    child.stdin.end();
    await ended;
  }
}

const sizeOf = (answer) => (answer.data ?? answer.data_base64 ?? "").length;
const isLast = (answer) => "error" in answer || "verdict" in answer;

/* A command in the foreground. */
class Running {
  #link;
  #id;
  #answers = new Queue();
  #unread = 0;
  #tooMuch = false;
  #ended = false;

  constructor(link, op, members) {
    this.#link = link;
    this.#id = link.send(op, members, (answer) => this.#take(answer));
  }

  #take(answer) {
    const last = isLast(answer);
    this.#unread += sizeOf(answer);
    if (this.#unread > UNREAD_MAX && !this.#tooMuch) {
      this.#tooMuch = true;
      this.cancel();
    }
    if (last || !this.#tooMuch)
      this.#answers.put(answer);
    return last;
  }

  /* The next answer, or null at the end. */
  async next(signal) {
    if (this.#ended)
      return null;
    const answer = await interruptible(signal, () => this.cancel(), this.#answers.take());
    this.#unread -= sizeOf(answer);
    this.#ended = isLast(answer);
    signal?.throwIfAborted();
    if (this.#ended && this.#tooMuch)
      throw new errors.Limit(`a command wrote more than ${UNREAD_MAX} bytes that were not read, and was killed`);
    return judge("exec", answer);
  }

  async send(data, eof) {
    await this.#link.call("send", { request: this.#id, data, eof });
  }

  cancel() {
    this.#link.cancel(this.#id);
  }

  /* The command is killed and its end awaited: nothing of it runs after this. */
  async close() {
    if (!this.#ended)
      this.cancel();
    while (!this.#ended)
      this.#ended = isLast(await this.#answers.take());
  }
}

/* A detached command's output, by requests that wait for more of it; pieces as of one in the foreground. */
class Follow {
  #link;
  #members;
  #ready = [];
  #ended = false;

  constructor(link, members) {
    this.#link = link;
    this.#members = { ...members };
  }

  async next(signal) {
    while (!this.#ready.length) {
      if (this.#ended)
        return null;
      this.#more(await this.#link.call("follow", this.#members, signal));
    }
    return this.#ready.shift();
  }

  #more(answer) {
    const data = takeBytes(answer, "data");
    let at = 0;
    for (const [stream, member] of [["stdout", "from"], ["stderr", "stderr_from"]]) {
      const part = answer[stream];
      if (!part)
        continue;
      if (part.bytes)
        this.#ready.push({ stream, data: data.subarray(at, at + part.bytes), dropped: part.dropped ?? 0 });
      at += part.bytes;
      this.#members[member] = part.next;
    }
    if (answer.ended) {
      this.#ended = true;
      this.#ready.push({ verdict: answer.verdict });
    }
  }

  cancel() {}

  async close() {
    this.#ended = true;
  }
}

/* A command of berth that writes an object a line for as long as somebody reads. */
class Lines {
  #child;
  #queue = new Queue();
  #ended = false;

  constructor(program, words, env, events) {
    const child = this.#child = start(program, words, env, "ignore");
    const lines = new LineSplitter();
    const said = listen(child);
    child.stdout.on("data", (piece) => {
      for (const line of lines.take(piece))
        this.#queue.put(Lines.#shape(JSON.parse(line), events));
    });
    child.on("error", (e) => this.#queue.put({ wrong: cannotStart(program, e) }));
    child.on("close", (code) => this.#queue.put({ wrong: code > 0 ? Lines.#failed(said(), code) : null }));
  }

  static #shape(answer, events) {
    if (Object.keys(answer).every((k) => k === "error" || k === "exit_status"))
      return { wrong: errors.ofAnswer(answer) };
    if (!events)
      return { answer };
    const { id, ...rest } = answer;
    return { answer: { ...rest, sandbox: id } };
  }

  static #failed(said, code) {
    try {
      return errors.ofAnswer(JSON.parse(said));
    } catch {
      return said ? errors.make("internal", said.replace(/^berth: /, "")) : new errors.Internal(`berth ended with status ${code}`);
    }
  }

  async next(signal) {
    if (this.#ended)
      return null;
    const got = await interruptible(signal, () => this.cancel(), this.#queue.take());
    signal?.throwIfAborted();
    if ("answer" in got)
      return got.answer;
    this.#ended = true;
    this.cancel();
    if (got.wrong)
      throw got.wrong;
    return null;
  }

  cancel() {
    this.#child.kill();
  }

  async close() {
    this.#ended = true;
    const child = this.#child;
    if (child.exitCode === null && child.signalCode === null && child.pid !== undefined) {
      const ended = new Promise((resolve) => child.on("close", resolve));
      child.kill();
      await ended;
    }
  }
}
