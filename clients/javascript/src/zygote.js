// SPDX-License-Identifier: Apache-2.0
/* A zygote: an interpreter that has loaded what it needs, and waits to be forked. */
import * as errors from "./errors.js";
import { bytesOf, directoryOf, options, pairsOf, Process, runToEnd } from "./parts.js";

const RUN = ["args", "stdin", "env", "workdir", "cwd", "timeoutMs"];

/* Each code runs in a fork of it, in a sandbox of its own that ends with the code. */
export class Zygote {
  #client;
  #owned;

  constructor(client, id, name, owned) {
    this.#client = client;
    this.id = id;
    this.name = name;
    this.#owned = owned;
  }

  /* At the end of an `await using`: one that this client made is removed. */
  async dispose() {
    if (this.#owned)
      await this.remove().catch((e) => {
        if (!(e instanceof errors.NotFound))
          throw e;
      });
  }

  async popen(code, given = {}) {
    const o = options(given, ...RUN, "stdinOpen");
    const members = {
      zygote: this.id, code: bytesOf(code), args: o.args?.length ? [...o.args] : undefined, stdin: bytesOf(o.stdin),
      stdin_open: o.stdinOpen || undefined, env: pairsOf(o.env), workdir: directoryOf(o), timeout_ms: o.timeoutMs,
    };
    return Process.start(await this.#client.link.stream("run", members, o.signal), o.signal);
  }

  async run(code, given = {}) {
    return runToEnd((o) => this.popen(code, o), options(given, ...RUN, "maxOutputBytes", "onOutput", "check"));
  }

  async inspect({ signal } = {}) {
    return (await this.#client.link.call("zygote-inspect", { zygote: this.id }, signal)).record;
  }

  async remove({ signal } = {}) {
    await this.#client.removeZygote(this.id, { signal });
  }
}

if (Symbol.asyncDispose)
  Zygote.prototype[Symbol.asyncDispose] = Zygote.prototype.dispose;
