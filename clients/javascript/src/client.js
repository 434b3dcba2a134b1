// SPDX-License-Identifier: Apache-2.0
/* Berth and its sandboxes. */
import * as errors from "./errors.js";
import { Http } from "./http.js";
import { takeBytes } from "./link.js";
import { argvOf, bytesOf, Command, directoryOf, Files, listed, options, pairsOf, Process, Records, CodeResult, runToEnd, Shell, wordsOf } from "./parts.js";
import { Stdio } from "./stdio.js";
import { Zygote } from "./zygote.js";

const EXEC = ["stdin", "stdinOpen", "env", "user", "workdir", "cwd", "timeoutMs", "graceMs", "memoryBytes", "cpuMilli", "pids",
  "ulimits", "maxSilentMs", "checkpoint"];

function linkTo({ host = process.env.BERTH_HOST, token = process.env.BERTH_TOKEN, program = "berth", env }) {
  return host ? new Http(host, token) : new Stdio(program, env);
}

/*
 * A way to berth.  Without a host it is a `berth stdio` of its own, else berthd's: unix:///run/berth/berthd.sock, or
 * http://127.0.0.1:7423 or https://HOST with a token.  BERTH_HOST and BERTH_TOKEN are the defaults of both.
 */
export class Berth {
  constructor(how = {}) {
    this.link = linkTo(options(how, "host", "token", "program", "env"));
  }

  async close() {
    await this.link.close();
  }

  async version({ signal } = {}) {
    return String((await this.link.call("ping", {}, signal)).version);
  }

  // ---- sandboxes

  async create(image, { command, signal, ...more } = {}) {
    const args = command?.length ? [...command] : undefined;
    const made = await this.link.call("create", { image, options: wordsOf(more), args }, signal);
    return new Sandbox(this, String(made.sandbox), String(made.name ?? ""), true);
  }

  async attach(sandbox, { signal } = {}) {
    const { record } = await this.link.call("inspect", { sandbox }, signal);
    return new Sandbox(this, String(record.id), String(record.name ?? ""), false);
  }

  async storedCheckpoints({ signal } = {}) {
    return (await this.link.call("stored-checkpoints", {}, signal)).checkpoints;
  }

  async restoreCheckpoint(stored, given = {}) {
    const { name, trust, drop, noStart, signal } = options(given, "name", "trust", "drop", "noStart");
    const made = await this.link.call("stored-restore", {
      stored, name, trust: trust || undefined, drop: drop || undefined, no_start: noStart || undefined,
    }, signal);
    return new Sandbox(this, String(made.sandbox), String(made.name ?? ""), true);
  }

  async removeStoredCheckpoint(stored, { signal } = {}) {
    await this.link.call("stored-rm", { stored }, signal);
  }

  async importCheckpoint(file, given = {}) {
    const { name, trust, drop, noStart, signal } = options(given, "name", "trust", "drop", "noStart");
    const made = await this.link.call("checkpoint-import", {
      file, name, trust: trust || undefined, drop: drop || undefined, no_start: noStart || undefined,
    }, signal);
    return new Sandbox(this, String(made.sandbox), String(made.name ?? ""), true);
  }

  async list(given = {}) {
    const { all, filter, signal } = options(given, "all", "filter");
    const chosen = { ...(all ? { all: true } : {}), ...(filter?.length ? { filter: [...filter] } : {}) };
    return (await this.link.call("ps", { options: chosen }, signal)).result;
  }

  async remove(sandbox, given = {}) {
    const { force = true, signal } = options(given, "force");
    await this.link.call("rm", { sandbox, options: force ? { force: true } : {} }, signal);
  }

  async run(image, argv, { stdin, timeoutMs, maxOutputBytes, check, signal, ...more } = {}) {
    const sandbox = await this.create(image, { ...more, signal });
    try {
      return await sandbox.run(argv, { stdin, timeoutMs, maxOutputBytes, check, signal });
    } finally {
      await sandbox.remove();
    }
  }

  async events(given = {}) {
    const { since, signal } = options(given, "since");
    return new Records(await this.link.stream("events", { follow: true, from: since }, signal), signal);
  }

  // ---- images and volumes

  async images({ signal } = {}) {
    return (await this.link.call("images", {}, signal)).result;
  }

  async pull(image, { signal } = {}) {
    return this.link.call("pull", { image }, signal);
  }

  async volumes({ signal } = {}) {
    return (await this.link.call("volumes", {}, signal)).result;
  }

  async createVolume(name, given = {}) {
    const { size, label, signal } = options(given, "size", "label");
    return this.link.call("volume-create", { name, size, label: pairsOf(label) }, signal);
  }

  async volume(name, { signal } = {}) {
    return this.link.call("volume-inspect", { name }, signal);
  }

  async removeVolume(name, { signal } = {}) {
    await this.link.call("volume-rm", { name }, signal);
  }

  async networks({ signal } = {}) {
    return (await this.link.call("networks", { named: true }, signal)).result;
  }

  async createNetwork(name, given = {}) {
    const { internal, subnet, label, networkRate, signal } = options(given, "internal", "subnet", "label", "networkRate");
    return this.link.call("network-create", {
      name, internal: internal || undefined, subnet: subnet?.length ? [...subnet] : undefined, label: pairsOf(label),
      "network-rate": networkRate,
    }, signal);
  }

  async network(name, { signal } = {}) {
    return this.link.call("network-inspect", { name }, signal);
  }

  async removeNetwork(name, { signal } = {}) {
    await this.link.call("network-rm", { name }, signal);
  }

  // ---- zygotes

  async zygotes({ signal } = {}) {
    return (await this.link.call("zygotes", {}, signal)).result;
  }

  async createZygote(image, command, { signal, ...more } = {}) {
    const made = await this.link.call("zygote-create", { image, options: wordsOf(more), args: [...command] }, signal);
    return new Zygote(this, String(made.zygote), String(made.name ?? ""), true);
  }

  async zygote(zygote, { signal } = {}) {
    const { record } = await this.link.call("zygote-inspect", { zygote }, signal);
    return new Zygote(this, String(record.id), String(record.name ?? ""), false);
  }

  async removeZygote(zygote, { signal } = {}) {
    await this.link.call("zygote-rm", { zygote }, signal);
  }

  // ---- pools

  async pools({ signal } = {}) {
    return this.link.call("pools", {}, signal);
  }

  async claim(pool, given = {}) {
    const { session, image, command, storagePath, autoStop, autoArchive, autoDelete, env, cpus, signal, ...more } = given;
    const pairs = Array.isArray(env) ? undefined : env;
    const { memory, name, pull, ...words } = wordsOf(pairs ? more : { ...more, env });
    const got = await this.link.call("claim", {
      sandbox_type: pool, environment: pairs && Object.keys(pairs).length ? pairs : undefined, memory,
      cpus: cpus === undefined || cpus === null ? undefined : Number(cpus), name, pull,
      meta: session ? { session_ctx_id: session } : undefined, image, command: command?.length ? [...command] : undefined,
      storage_path: storagePath, auto_stop: autoStop, auto_archive: autoArchive, auto_delete: autoDelete,
      options: Object.keys(words).length ? words : undefined,
    }, signal);
    return new Sandbox(this, String(got.sandbox), String(got.identity), true, String(got.identity));
  }

  async release(sandbox, given = {}) {
    const { discard = false, signal } = options(given, "discard");
    if (!(await this.link.call("release", { identity: sandbox, discard }, signal)).released)
      throw new errors.NotFound(`no claimed sandbox '${sandbox}'`);
  }

  async heartbeat(session, { signal } = {}) {
    await this.link.call("heartbeat", { session }, signal);
  }
}

/* A sandbox: a machine of its own that commands run in.  files are its files. */
export class Sandbox {
  #client;
  #owned;
  #identity;

  constructor(client, id, name, owned, identity = "") {
    this.#client = client;
    this.link = client.link;
    this.id = id;
    this.name = name;
    this.#owned = owned;
    this.#identity = identity;
    this.files = new Files(this.link, id);
  }

  #call(op, members, signal) {
    return this.link.call(op, { sandbox: this.id, ...members }, signal);
  }

  /* At the end of an `await using`: one that this client made is removed. */
  async dispose() {
    if (this.#owned)
      await this.remove().catch((e) => {
        if (!(e instanceof errors.NotFound))
          throw e;
      });
  }

  // ---- commands

  #exec(argv, o) {
    return {
      argv: argvOf(argv), env: pairsOf(o.env), user: o.user, workdir: directoryOf(o), timeout_ms: o.timeoutMs, grace_ms: o.graceMs,
      memory_bytes: o.memoryBytes, cpu_milli: o.cpuMilli, pids: o.pids, ulimits: o.ulimits?.length ? [...o.ulimits] : undefined,
      max_silent_ms: o.maxSilentMs, checkpoint: o.checkpoint,
    };
  }

  async popen(argv, given = {}) {
    const o = options(given, ...EXEC);
    const members = { sandbox: this.id, ...this.#exec(argv, o), stdin: bytesOf(o.stdin), stdin_open: o.stdinOpen || undefined };
    return Process.start(await this.link.stream("exec", members, o.signal), o.signal);
  }

  async run(argv, given = {}) {
    const names = EXEC.filter((name) => name !== "stdinOpen");
    return runToEnd((o) => this.popen(argv, o), options(given, ...names, "maxOutputBytes", "onOutput", "check"));
  }

  async spawn(argv, given = {}) {
    const o = options(given, "name", ...EXEC.filter((name) => !name.startsWith("stdin")), "tty", "rows", "cols");
    const got = await this.#call("exec", {
      ...this.#exec(argv, o), detach: true, name: o.name, tty: o.tty || undefined, rows: o.rows, cols: o.cols,
    }, o.signal);
    return new Command(this.link, this.id, String(got.command));
  }

  async commands({ signal } = {}) {
    return (await this.#call("commands", {}, signal)).commands;
  }

  command(command) {
    return new Command(this.link, this.id, command);
  }

  shell(session = "main") {
    return new Shell(this.link, this.id, session);
  }

  async shells({ signal } = {}) {
    return (await this.#call("sessions", {}, signal)).sessions;
  }

  async code(code, given = {}) {
    const { lang, env, user, timeoutMs, maxSilentMs, keep, signal } = options(given, "lang", "env", "user", "timeoutMs", "maxSilentMs", "keep");
    const asked = { code: bytesOf(code), lang, env: pairsOf(env), user, timeout_ms: timeoutMs, max_silent_ms: maxSilentMs, keep };
    const got = await this.#call("code", asked, signal);
    return new CodeResult(takeBytes(got, "stdout"), takeBytes(got, "stderr"), got.verdict, String(got.language ?? ""), got.files ?? []);
  }

  // ---- time

  async checkpoint(given = {}) {
    const { name, keep, signal } = options(given, "name", "keep");
    return String((await this.#call("checkpoint", { name, keep }, signal)).checkpoint);
  }

  async checkpoints({ signal } = {}) {
    const { head, checkpoints } = await this.#call("checkpoints", {}, signal);
    return checkpoints.map((one) => ({ ...one, head: one.id === head }));
  }

  async removeCheckpoint(checkpoint, { signal } = {}) {
    await this.#call("checkpoint-rm", { checkpoint }, signal);
  }

  async storeCheckpoint(checkpoint, given = {}) {
    const { name, signal } = options(given, "name");
    return this.#call("checkpoint-store", { checkpoint, name }, signal);
  }

  async exportCheckpoint(checkpoint, file, { signal } = {}) {
    await this.#call("checkpoint-export", { checkpoint, file }, signal);
  }

  async undo(given = {}) {
    const { steps, to, signal } = options(given, "steps", "to");
    const { checkpoint, ended, ended_more, sessions } = await this.#call("undo", { steps, to }, signal);
    return { checkpoint, ended, ended_more, sessions };
  }

  async fork({ checkpoint, count, name, signal, ...more } = {}) {
    const options = Object.keys(more).length ? wordsOf(more) : undefined;
    const { forks } = await this.#call("fork", { checkpoint, count, name, options }, signal);
    return forks.map((one) => new Sandbox(this.#client, String(one.id), String(one.name ?? ""), true));
  }

  // ---- its life

  async start({ signal } = {}) {
    await this.#call("start", {}, signal);
  }

  async stop(given = {}) {
    const { graceMs, stopSignal, signal } = options(given, "graceMs", "stopSignal");
    await this.#call("stop", { grace_ms: graceMs, signal: stopSignal }, signal);
  }

  async restart(given = {}) {
    const { graceMs, stopSignal, signal } = options(given, "graceMs", "stopSignal");
    await this.#call("restart", { grace_ms: graceMs, signal: stopSignal }, signal);
  }

  async kill({ signal } = {}) {
    await this.#call("kill", {}, signal);
  }

  async pause({ signal } = {}) {
    await this.#call("pause", {}, signal);
  }

  async resume({ signal } = {}) {
    await this.#call("resume", {}, signal);
  }

  async remove(given = {}) {
    const { force, signal } = options(given, "force");
    if (this.#identity)
      await this.#client.release(this.#identity, { signal });
    else
      await this.#client.remove(this.id, { force, signal });
  }

  async rename(name, { signal } = {}) {
    await this.#call("rename", { name }, signal);
    this.name = name;
  }

  async waitReady(given = {}) {
    const { healthy, port, log, timeoutMs, signal } = options(given, "healthy", "port", "log", "timeoutMs");
    const timeout = timeoutMs === undefined ? undefined : `${timeoutMs}ms`;
    return (await this.#call("ready", { healthy: healthy || undefined, port: listed(port), log: listed(log), timeout }, signal)).waited_ms ?? 0;
  }

  async waitStopped({ signal } = {}) {
    await this.#call("wait-stopped", {}, signal);
  }

  // ---- what it is, what it did

  async inspect({ signal } = {}) {
    return (await this.#call("inspect", {}, signal)).record;
  }

  async stats({ signal } = {}) {
    return this.#call("stats", {}, signal);
  }

  async top({ signal } = {}) {
    const got = await this.#call("top", {}, signal);
    return got.processes ?? got.result ?? [];
  }

  async #records(op, members, signal) {
    return new Records(await this.link.stream(op, { sandbox: this.id, ...members }, signal), signal);
  }

  async events(given = {}) {
    const { since, signal } = options(given, "since");
    return this.#records("events", { follow: true, from: since }, signal);
  }

  async logs(given = {}) {
    const { follow, since, source, tail, signal } = options(given, "follow", "since", "source", "tail");
    return this.#records("logs", { follow: follow || undefined, since, source, tail }, signal);
  }

  async diff(given = {}) {
    const { fromCheckpoint: from, toCheckpoint: to, patch, signal } = options(given, "fromCheckpoint", "toCheckpoint", "patch");
    return (await this.#call("diff", { from, to, patch: patch || undefined }, signal)).changes;
  }

  async commit(image, given = {}) {
    const { checkpoint, signal } = options(given, "checkpoint");
    return this.#call("commit", { image, checkpoint }, signal);
  }

  // ---- limits and network

  async update({ signal, ...more } = {}) {
    await this.#call("update", wordsOf(more), signal);
  }

  async network({ signal } = {}) {
    return this.#call("network", {}, signal);
  }

  async connect(network, given = {}) {
    const { alias, signal } = options(given, "alias");
    await this.#call("network-connect", { name: network, alias: alias?.length ? [...alias] : undefined }, signal);
  }

  async disconnect(network, { signal } = {}) {
    await this.#call("network-disconnect", { name: network }, signal);
  }

  async port(port, given = {}) {
    const { ttl, public: open, name, signal } = options(given, "ttl", "public", "name");
    return this.#call("preview", { port, ttl, public: open, name }, signal);
  }

  async networkLog(given = {}) {
    const { denied, follow, signal } = options(given, "denied", "follow");
    return this.#records("network-log", { denied: denied || undefined, follow: follow || undefined }, signal);
  }
}

if (Symbol.asyncDispose) {
  Berth.prototype[Symbol.asyncDispose] = Berth.prototype.close;
  Sandbox.prototype[Symbol.asyncDispose] = Sandbox.prototype.dispose;
}
