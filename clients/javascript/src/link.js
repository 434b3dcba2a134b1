// SPDX-License-Identifier: Apache-2.0
/*
 * What the ways to berth share.  A link takes requests in the words of berth-stdio(1): an operation and its members,
 * where bytes may be a Buffer.  call() is for an operation with one answer, stream() for one with several.
 */

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/* The text of bytes, or null when they are none that JSON can have. */
export function textOf(data) {
  if (data.includes(0))
    return null;
  try {
    return strict.decode(data);
  } catch {
    return null;
  }
}

/* The bytes of a member, which are text, hexadecimal or base64; nothing when it has none of them. */
export function takeBytes(answer, name) {
  const value = answer[name];
  if (value instanceof Uint8Array)
    return Buffer.from(value);
  if (value !== undefined && value !== null)
    return Buffer.from(String(value));
  if (answer[`${name}_hex`] !== undefined)
    return Buffer.from(answer[`${name}_hex`], "hex");
  if (answer[`${name}_base64`] !== undefined)
    return Buffer.from(answer[`${name}_base64`], "base64");
  return Buffer.alloc(0);
}

/* members without those that are not given; as(value) is what bytes become: a pair of a name's end and text. */
export function given(members, as) {
  const out = {};
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined || value === null)
      continue;
    if (value instanceof Uint8Array) {
      const text = textOf(value);
      const [end, encoded] = text === null ? as(Buffer.from(value.buffer, value.byteOffset, value.byteLength)) : ["", text];
      out[name + end] = encoded;
    } else {
      out[name] = value;
    }
  }
  return out;
}

/* Lines of what comes in pieces; a line may be long, so that its pieces are joined once. */
export class LineSplitter {
  #held = [];

  * take(piece) {
    let at = 0, end;
    while ((end = piece.indexOf(10, at)) >= 0) {
      this.#held.push(piece.subarray(at, end));
      at = end + 1;
      yield Buffer.concat(this.#held.splice(0)).toString();
    }
    if (at < piece.length)
      this.#held.push(Buffer.from(piece.subarray(at)));
  }
}

/* Values that one side puts and the other awaits, in order. */
export class Queue {
  #values = [];
  #waiting = [];

  put(value) {
    const next = this.#waiting.shift();
    if (next)
      next(value);
    else
      this.#values.push(value);
  }

  take() {
    if (this.#values.length)
      return Promise.resolve(this.#values.shift());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/*
 * Calls cancel() when the signal is aborted while the promise is under way, and waits for its end all the same.  What
 * fails then fails with the signal's reason; a value is the caller's to use, or to drop by signal.throwIfAborted().
 */
export async function interruptible(signal, cancel, promise) {
  if (!signal)
    return promise;
  if (signal.aborted)
    cancel();
  signal.addEventListener("abort", cancel, { once: true });
  try {
    return await promise;
  } catch (e) {
    signal.throwIfAborted();
    throw e;
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}
