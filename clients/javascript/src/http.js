// SPDX-License-Identifier: Apache-2.0
/*
 * A link to berthd: over its unix socket, or a URL with a bearer token.  A request in the words of berth-stdio(1)
 * becomes one of berthd's HTTP interface: a row of ROUTES, or a function for what is not that simple.  A command ends
 * with its connection, which is how it is cancelled.
 */
import { once } from "node:events";

import * as errors from "./errors.js";
import { given, interruptible, LineSplitter, Queue } from "./link.js";

const ERROR_MAX = 1 << 20;
const AGAIN_MS = [200, 500, 1000, 2000, 4000]; // pauses before what makes a sandbox is asked for again
const UNREAD_LINES = 1000; // of a stream, before berthd is let wait
const BOX = "/v1/sandboxes/{sandbox}";
const COMMAND = `${BOX}/commands/{command}`;
const NETWORK = "/v1/networks/{name}";
const SESSION = `${BOX}/sessions/{session}`;
const ZYGOTE = "/v1/zygotes/{zygote}";
// operation: method, path, where the members go that are not in the path
const ROUTES = {
  "sh": ["POST", `${SESSION}/run`, "json"], "sh-wait": ["POST", `${SESSION}/wait`, "json"],
  "sh-cancel": ["POST", `${SESSION}/cancel`, "query"], "sessions": ["GET", `${BOX}/sessions`, "query"],
  "session-close": ["DELETE", SESSION, "query"],
  "exec": ["POST", `${BOX}/exec`, "json"], "commands": ["GET", `${BOX}/commands`, "query"],
  "output": ["GET", `${COMMAND}/output`, "query"], "follow": ["GET", `${COMMAND}/follow`, "query"],
  "wait": ["GET", `${COMMAND}/wait`, "query"], "forget": ["DELETE", COMMAND, "query"],
  "stats": ["GET", `${BOX}/stats`, "query"], "top": ["GET", `${BOX}/top`, "query"],
  "pause": ["POST", `${BOX}/pause`, "query"], "resume": ["POST", `${BOX}/resume`, "query"],
  "start": ["POST", `${BOX}/start`, "query"], "stop": ["POST", `${BOX}/stop`, "query"],
  "restart": ["POST", `${BOX}/restart`, "query"], "kill": ["POST", `${BOX}/kill`, "query"],
  "rename": ["POST", `${BOX}/rename`, "json"], "update": ["PATCH", BOX, "json"],
  "wait-stopped": ["GET", `${BOX}/wait`, "query"], "ready": ["GET", `${BOX}/ready`, "query"],
  "ls": ["GET", `${BOX}/files/list`, "query"], "stat": ["GET", `${BOX}/files/stat`, "query"],
  "mkdir": ["POST", `${BOX}/files/mkdir`, "json"], "mv": ["POST", `${BOX}/files/mv`, "json"],
  "diff": ["GET", `${BOX}/diff`, "query"], "commit": ["POST", `${BOX}/commit`, "json"],
  "network": ["GET", `${BOX}/network`, "query"], "network-log": ["GET", `${BOX}/network/log`, "query"],
  "logs": ["GET", `${BOX}/logs`, "query"], "ping": ["GET", "/v1/version", "query"],
  "volumes": ["GET", "/v1/volumes", "query"], "volume-create": ["POST", "/v1/volumes", "json"],
  "volume-inspect": ["GET", "/v1/volumes/{name}", "query"], "volume-rm": ["DELETE", "/v1/volumes/{name}", "query"],
  "networks": ["GET", "/v1/networks", "query"], "network-create": ["POST", "/v1/networks", "json"],
  "network-inspect": ["GET", NETWORK, "query"], "network-rm": ["DELETE", NETWORK, "query"],
  "network-connect": ["POST", `${NETWORK}/connect`, "json"], "network-disconnect": ["POST", `${NETWORK}/disconnect`, "json"],
  "images": ["GET", "/v1/images", "query"], "pools": ["GET", "/v1/manager/stats", "query"],
  "checkpoint": ["POST", `${BOX}/checkpoints`, "json"], "checkpoints": ["GET", `${BOX}/checkpoints`, "query"],
  "checkpoint-store": ["POST", `${BOX}/checkpoints/{checkpoint}/store`, "json"], "stored-checkpoints": ["GET", "/v1/checkpoints", "query"],
  "stored-rm": ["DELETE", "/v1/checkpoints/{stored}", "query"],
  "checkpoint-rm": ["DELETE", `${BOX}/checkpoints/{checkpoint}`, "query"],
  "undo": ["POST", `${BOX}/undo`, "json"], "fork": ["POST", `${BOX}/fork`, "json"],
  "zygotes": ["GET", "/v1/zygotes", "query"], "zygote-rm": ["DELETE", ZYGOTE, "query"], "run": ["POST", `${ZYGOTE}/run`, "json"],
  "preview": ["POST", `${BOX}/ports/{port}/preview`, "json"],
  "heartbeat": ["POST", "/v1/manager/sessions/{session}/heartbeat", "json"],
};
// the member of the answer that is the list that the program prints
const LISTS = { "volumes": "volumes", "networks": "networks", "images": "images", "zygotes": "zygotes" };

/* The path and the members that it does not name. */
function pathOf(template, members) {
  const rest = { ...members };
  const path = template.replace(/\{(\w+)\}/g, (_, name) => {
    const value = String(rest[name]);
    delete rest[name];
    if (["", ".", ".."].includes(value))
      throw new errors.Invalid(`'${value}' is no ${name}`);
    return encodeURIComponent(value);
  });
  return [path, rest];
}

function queryOf(members) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(members))
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== undefined && one !== null)
        words.append(name, String(one));
  const text = words.toString();
  return text ? `?${text}` : "";
}

const bodyOf = (members) => given(members, (bytes) => ["_hex", bytes.toString("hex")]);

export class Http {
  #url;
  #way;
  #options;
  #kind;
  #headers;
  #closed = false;

  constructor(url, token) {
    const unix = /^unix:\/\/(\/.+)$/.exec(url);
    let parts = null;
    try {
      parts = unix ? null : new URL(url);
    } catch {
      // refused below
    }
    if (!unix && !(parts && ["http:", "https:"].includes(parts.protocol) && parts.hostname && parts.pathname === "/" && !/[@?#]/.test(url)))
      throw new errors.Invalid(`'${url}' is not an address of berthd`, "unix:///run/berth/berthd.sock, http://127.0.0.1:7423 or https://HOST");
    if (parts?.protocol === "http:" && !/^(localhost|\[::1\]|127(\.\d+){3})$/.test(parts.hostname))
      throw new errors.Invalid(`'${url}': plain http, with its token, leads to loopback only`, "https://, or ssh -L 7423:127.0.0.1:7423 HOST");
    this.#url = url;
    this.#kind = parts?.protocol === "https:" ? "node:https" : "node:http";
    this.#options = unix ? { socketPath: unix[1], host: "localhost" } : { host: parts.hostname.replace(/^\[|\]$/g, ""), port: parts.port || undefined };
    this.#headers = token ? { authorization: `Bearer ${token}` } : {};
  }

  /* Loaded by the first request: these modules take longer to load than a command to run. */
  async #load() {
    const { default: kind } = await import(this.#kind);
    return { request: kind.request, agent: new kind.Agent({ keepAlive: true }) };
  }

  async close() {
    this.#closed = true;
    (await this.#way)?.agent.destroy();
  }

  /* The reply, when it is a good one; body: an object, bytes, or pieces of an iterable. */
  async open(method, path, body, signal, more) {
    if (this.#closed)
      throw new errors.Usage("the client is closed");
    signal?.throwIfAborted();
    const headers = { ...this.#headers, ...more };
    let data = body;
    if (body !== undefined && !(body instanceof Uint8Array) && !body[Symbol.asyncIterator]) {
      data = Buffer.from(JSON.stringify(body));
      headers["content-type"] = "application/json";
    } else if (body !== undefined) {
      headers["content-type"] = "application/octet-stream";
    }
    if (data instanceof Uint8Array || data === undefined)
      headers["content-length"] = data ? data.length : 0;
    this.#way ??= this.#load();
    const { request, agent } = await this.#way;
    if (this.#closed)
      throw new errors.Usage("the client is closed");
    const rq = request({ ...this.#options, method, path, headers, agent });
    rq.on("error", () => {}); // told to whoever waits for the reply, or for more of it
    const hangUp = () => rq.destroy(new Error("cancelled"));
    try {
      const [reply] = await interruptible(signal, hangUp, this.#exchange(rq, data));
      signal?.throwIfAborted();
      if (reply.statusCode >= 400)
        throw errorOf(reply.statusCode, await collect(reply, ERROR_MAX));
      return { reply, hangUp };
    } catch (e) {
      if (e instanceof errors.BerthError || signal?.aborted || body?.[Symbol.asyncIterator] && e.code === undefined)
        throw e;
      const wrong = new errors.Network(`${method} ${this.#url}${path.split("?")[0]}: ${e.message}`, rq.reusedSocket ? "" : "is berthd running there?");
      throw Object.assign(wrong, { refused: e.syscall === "connect" });
    }
  }

  async #exchange(rq, data) {
    const replied = once(rq, "response");
    replied.catch(() => {});
    if (data?.[Symbol.asyncIterator] && !(data instanceof Uint8Array)) {
      for await (const piece of data)
        if (!rq.write(piece))
          await Promise.race([once(rq, "drain"), replied]);
      rq.end();
    } else {
      rq.end(data);
    }
    return replied;
  }

  async raw(method, path, body, signal, more) {
    const { reply, hangUp } = await this.open(method, path, body, signal, more);
    try {
      const whole = await interruptible(signal, hangUp, collect(reply));
      signal?.throwIfAborted();
      return whole;
    } catch (e) {
      if (signal?.aborted)
        throw e;
      throw new errors.Network(`${method} ${this.#url}${path.split("?")[0]}: the reply was cut short: ${e.message}`);
    }
  }

  async json(method, path, body, signal, more) {
    const data = await this.raw(method, path, body, signal, more);
    return data.length ? JSON.parse(data.toString()) : {};
  }

  /* POST what makes a sandbox, which is made once: when the connection ends without a reply it is asked for again with the same key. */
  async once(path, body, signal) {
    const { randomBytes } = await import("node:crypto");
    const key = { "idempotency-key": randomBytes(16).toString("hex") };
    for (const pause of AGAIN_MS) {
      try {
        return await this.json("POST", path, body, signal, key);
      } catch (e) {
        // without a berthd there is nothing to wait for
        if (!(e instanceof errors.Network) || e.refused && pause === AGAIN_MS[0])
          throw e;
        const { setTimeout: sleep } = await import("node:timers/promises");
        await sleep(pause, undefined, { signal });
      }
    }
    return this.json("POST", path, body, signal, key);
  }

  route(op, members) {
    if (!(op in ROUTES))
      throw new errors.Unsupported(`${op} over berthd`);
    const [method, template, where] = ROUTES[op];
    const [path, rest] = pathOf(template, members);
    return where === "query" ? [method, path + queryOf(rest), undefined] : [method, path, bodyOf(rest)];
  }

  async call(op, members, signal) {
    if (SPECIAL[op])
      return SPECIAL[op](this, members, signal);
    const answer = await this.json(...this.route(op, members), signal);
    return op in LISTS ? { result: answer[LISTS[op]] } : answer;
  }

  async stream(op, members, signal) {
    if (op === "events") {
      const { sandbox, from: since } = members;
      const [path] = sandbox ? pathOf(`${BOX}/events`, { sandbox }) : ["/v1/events"];
      return new Events(this, await this.open("GET", path + queryOf({ since }), undefined, signal), undefined, eventOf);
    }
    const all = op === "exec" || op === "run" ? { ...members, stream: true } : members;
    return new Events(this, await this.open(...this.route(op, all), signal), members);
  }
}

async function collect(reply, max = Infinity) {
  const pieces = [];
  let size = 0;
  for await (const piece of reply) {
    pieces.push(piece);
    size += piece.length;
    if (size > max)
      break;
  }
  return Buffer.concat(pieces);
}

function errorOf(status, body) {
  try {
    const answer = JSON.parse(body.toString());
    if (answer.detail !== undefined)
      return errors.make(answer.code ?? "internal", String(answer.detail));
    return errors.ofAnswer(answer) ?? new errors.Internal(`status ${status}`);
  } catch {
    return new errors.Network(`status ${status}, not of berthd: ${body.subarray(0, 200)}`);
  }
}

/* An event as the program has it: its number is the cursor. */
function eventOf({ event: cursor, type: event, ...rest }) {
  return { event, ...rest, cursor };
}

/* Lines of JSON as they come, of a reply that has begun. */
class Events {
  #link;
  #reply;
  #hangUp;
  #about;
  #shape;
  #queue = new Queue();
  #queued = 0;
  #ended = false;

  constructor(link, { reply, hangUp }, { sandbox, zygote } = {}, shape = (answer) => answer) {
    const lines = new LineSplitter();
    this.#link = link;
    this.#reply = reply;
    this.#hangUp = hangUp;
    this.#about = { sandbox, zygote };
    this.#shape = shape;
    reply.on("data", (piece) => {
      for (const line of lines.take(piece))
        if (line) { // an empty one says that berthd is still there
          this.#queue.put({ line });
          this.#queued++;
        }
      if (this.#queued > UNREAD_LINES)
        reply.pause();
    });
    reply.on("end", () => this.#queue.put({ wrong: null }));
    reply.on("error", (e) => this.#queue.put({ wrong: new errors.Network(`the reply was cut short: ${e.message}`) }));
    reply.on("close", () => this.#queue.put({ wrong: new errors.Network("the reply was cut short") }));
  }

  async next(signal) {
    if (this.#ended)
      return null;
    const { line, wrong } = await interruptible(signal, this.#hangUp, this.#queue.take());
    signal?.throwIfAborted();
    if (line === undefined) {
      this.#ended = true;
      if (wrong)
        throw wrong;
      return null;
    }
    if (--this.#queued <= UNREAD_LINES / 2)
      this.#reply.resume();
    const answer = JSON.parse(line);
    const error = Object.keys(answer).every((k) => k === "error" || k === "exit_status") ? errors.ofAnswer(answer) : null;
    if (error) {
      await this.close();
      throw error;
    }
    if (answer.started)
      Object.assign(this.#about, { command: String(answer.command ?? ""), run: answer.run });
    return this.#shape(answer);
  }

  async send(data, eof) {
    const template = this.#about.zygote ? `${ZYGOTE}/runs/{run}` : COMMAND;
    const [path] = pathOf(`${template}/stdin`, this.#about);
    await this.#link.json("POST", path + queryOf({ eof }), data);
  }

  cancel() {
    this.#ended = true;
    this.#hangUp();
    this.#queue.put({ wrong: null });
  }

  /* berthd sees the end of the connection, and kills the command. */
  async close() {
    if (!this.#ended)
      this.cancel();
  }
}

// ---- operations that are more than a row

/* A call of the manager; what it could not do it tells beside a value of null or false. */
async function manager(link, called, args, signal) {
  const answer = await (called === "create_from_pool" ? link.once(`/${called}`, bodyOf(args), signal) : link.json("POST", `/${called}`, bodyOf(args), signal));
  if ("detail" in answer)
    throw errors.make(answer.code ?? "internal", answer.detail);
  return answer.data;
}

async function create(link, path, { image, options, args }, signal) {
  const { name, pull, zygote, ...rest } = options ?? {};
  const command = args?.length ? args : undefined;
  const body = bodyOf({ image, name, pull, zygote, command, options: rest });
  const made = await (path === "/v1/sandboxes" ? link.once(path, body, signal) : link.json("POST", path, body, signal));
  return { ...made, sandbox: made.id };
}

const SPECIAL = {
  create: (link, members, signal) => create(link, "/v1/sandboxes", members, signal),

  async "zygote-create"(link, members, signal) {
    const made = await create(link, "/v1/zygotes", members, signal);
    return { ...made, zygote: made.id };
  },

  async "zygote-inspect"(link, members, signal) {
    return { record: await link.json("GET", pathOf(ZYGOTE, members)[0], undefined, signal) };
  },

  async inspect(link, members, signal) {
    const record = await link.json("GET", pathOf(BOX, members)[0], undefined, signal);
    return { record, sandbox: record.id };
  },

  async ps(link, { options }, signal) {
    const query = { filter: options?.filter, running: options?.all ? undefined : true };
    return { result: (await link.json("GET", `/v1/sandboxes${queryOf(query)}`, undefined, signal)).sandboxes };
  },

  async rm(link, members, signal) {
    if (members.paths) {
      const [path, rest] = pathOf(`${BOX}/files/rm`, members);
      return link.json("POST", path, bodyOf(rest), signal);
    }
    const [path] = pathOf(BOX, members);
    return link.json("DELETE", path + queryOf({ force: Boolean(members.options?.force) }), undefined, signal);
  },

  async read(link, members, signal) {
    const [url, { path, user, max: limit }] = pathOf(`${BOX}/files`, members);
    return { data: await link.raw("GET", url + queryOf({ path, user, limit }), undefined, signal) };
  },

  async write(link, { data, ...members }, signal) {
    const [path, rest] = pathOf(`${BOX}/files`, members);
    return { bytes: (await link.json("PUT", path + queryOf(rest), data, signal)).written };
  },

  async send(link, { data, eof, ...members }, signal) {
    const [path] = pathOf(members.command ? `${COMMAND}/stdin` : `${SESSION}/input`, members);
    return link.json("POST", path + queryOf({ eof }), data, signal);
  },

  async signal(link, members, signal) {
    const [path, rest] = pathOf(members.command ? `${COMMAND}/signal` : `${SESSION}/signal`, members);
    return link.json("POST", path, bodyOf(rest), signal);
  },

  async code(link, { timeout_ms: ms, ...members }, signal) {
    const [path, rest] = pathOf(`${BOX}/code`, members);
    return link.json("POST", path, bodyOf({ ...rest, timeout: ms === undefined ? undefined : `${ms}ms` }), signal);
  },

  async pull(link, { image: ref }, signal) {
    return link.json("POST", "/v1/images/pull", { ref }, signal);
  },

  async claim(link, members, signal) {
    const identity = await manager(link, "create_from_pool", members, signal);
    const record = await manager(link, "get_info", { identity }, signal);
    return { identity, sandbox: record.container_id, record };
  },

  async release(link, members, signal) {
    return { released: Boolean(await manager(link, "release", members, signal)) };
  },

  async "copy-in"(link, { local, remote, parents, ...members }, signal) {
    const [path] = pathOf(`${BOX}/files/archive`, members);
    const tar = await import("./tar.js");
    await tar.mustExist(local);
    const query = { path: remote, parents, as: tar.isContents(local) ? "contents" : "copy" };
    return link.json("PUT", path + queryOf(query), tar.pack(local), signal);
  },

  async "checkpoint-export"(link, { file, ...members }, signal) {
    const [path] = pathOf(`${BOX}/checkpoints/{checkpoint}/export`, members);
    const { newFile } = await import("./tar.js");
    await newFile(file, async (into) => {
      const { reply, hangUp } = await link.open("GET", path, undefined, signal);
      await interruptible(signal, hangUp, into(reply)).catch((e) => {
        throw signal?.aborted ? e : new errors.Network(`GET ${path}: the reply was cut short: ${e.message}`);
      });
    });
    return {};
  },

  async "checkpoint-import"(link, { file, ...query }, signal) {
    const { mustExist, pieces } = await import("./tar.js");
    await mustExist(file);
    const made = await link.json("POST", `/v1/checkpoints/import${queryOf(query)}`, pieces(file), signal);
    return { ...made, sandbox: made.id };
  },

  async "stored-restore"(link, members, signal) {
    const [path, rest] = pathOf("/v1/checkpoints/{stored}/restore", members);
    const made = await link.json("POST", path, bodyOf(rest), signal);
    return { ...made, sandbox: made.id };
  },

  async "copy-out"(link, { local, remote, parents, ...members }, signal) {
    const tar = await import("./tar.js");
    const [path] = pathOf(`${BOX}/files/archive`, members);
    const { reply, hangUp } = await link.open("GET", path + queryOf({ path: remote, checked: true }), undefined, signal);
    return interruptible(signal, hangUp, tar.unpack(reply, remote, local, Boolean(parents)));
  },
};
