// SPDX-License-Identifier: Apache-2.0
/*
 * Copies of files and trees to and from berthd, which takes and gives tar archives (POSIX pax; GNU sparse files 1.0).
 *
 * What comes out of a sandbox is hostile: names stay below the destination, links are made last, so that nothing is
 * written through one, and neither devices nor owners, set-id bits and absolute names are taken over.
 */
import { constants, promises as fs } from "node:fs";
import path from "node:path";

import * as errors from "./errors.js";

const BLOCK = 512;
const PIECE = 1 << 18;
const PAX_MAX = 1 << 20;
const ENTRIES_MAX = 1000000;

export const isContents = (name) => name === "." || name.endsWith("/.");

export async function mustExist(local) {
  try {
    await fs.lstat(local);
  } catch {
    throw new errors.NotFound(`${local}: no such file or directory`);
  }
}

/* Gives write a function that puts the pieces of a reply into a file that is not there yet, and is not after an error. */
export async function newFile(name, write) {
  const device = await fs.stat(name).then((st) => !st.isFile(), () => false);
  let file;
  try {
    file = await fs.open(name, device ? "w" : "wx");
  } catch (e) {
    if (e.code === "EEXIST")
      throw new errors.Exists(`${name} exists`, "another file, or remove it");
    throw new errors.System(`make ${name}: ${e.code}`);
  }
  try {
    await write(async (reply) => {
      for await (const piece of reply)
        await file.writeFile(piece);
    });
  } catch (e) {
    if (!device)
      await fs.unlink(name);
    throw e;
  } finally {
    await file.close();
  }
}

/* The bytes of a file. */
export async function* pieces(name) {
  const file = await fs.open(name);
  try {
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(PIECE), 0, PIECE);
      if (!bytesRead)
        return;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}

// ---- to an archive

const octal = (value, width) => value.toString(8).padStart(width - 1, "0") + "\0";

function header(name, type, size, mode, mtime, link = "") {
  const block = Buffer.alloc(BLOCK);
  block.write(name, 0, 100);
  block.write(octal(mode & 0o7777, 8), 100);
  block.write(octal(0, 8), 108);
  block.write(octal(0, 8), 116);
  block.write(octal(Math.min(size, 0o77777777777), 12), 124);
  block.write(octal(Math.max(0, Math.floor(mtime)), 12), 136);
  block.write("        " + type, 148);
  block.write(link, 157, 100);
  block.write("ustar\u000000", 257, "latin1");
  block.write(octal(block.reduce((sum, byte) => sum + byte, 0), 7) + " ", 148);
  return block;
}

const padding = (size) => Buffer.alloc((BLOCK - size % BLOCK) % BLOCK);

function record(key, value) {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let size = rest + 1;
  while (size !== rest + String(size).length)
    size = rest + String(size).length;
  return `${size} ${key}=${value}\n`;
}

function* entry(name, type, stat, size, link) {
  const pax = [];
  if (Buffer.byteLength(name) > 100)
    pax.push(record("path", name));
  if (Buffer.byteLength(link) > 100)
    pax.push(record("linkpath", link));
  if (size > 0o77777777777)
    pax.push(record("size", size));
  pax.push(record("mtime", (stat.mtimeMs / 1000).toFixed(3)));
  const text = Buffer.from(pax.join(""));
  yield header("pax", "x", text.length, 0o600, 0);
  yield text;
  yield padding(text.length);
  yield header(name, type, size, stat.mode, stat.mtimeMs / 1000, link);
}

async function* packed(file, name) {
  const stat = await fs.lstat(file);
  if (stat.isDirectory()) {
    yield* entry(`${name}/`, "5", stat, 0, "");
    for (const one of (await fs.readdir(file)).sort())
      yield* packed(path.join(file, one), `${name}/${one}`);
  } else if (stat.isSymbolicLink()) {
    yield* entry(name, "2", stat, 0, await fs.readlink(file));
  } else if (stat.isFile()) {
    yield* entry(name, "0", stat, stat.size, "");
    yield* content(file, stat.size);
    yield padding(stat.size);
  }
}

async function* content(file, size) {
  const handle = await fs.open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    for (let left = size; left;) {
      const buffer = Buffer.alloc(Math.min(left, PIECE));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
      // a file that has shrunk: what its header promised is made up with zeros
      const piece = bytesRead ? buffer.subarray(0, bytesRead) : buffer;
      yield piece;
      left -= piece.length;
    }
  } finally {
    await handle.close();
  }
}

/* The file or tree as an archive below its own name, or below "." when local ends with /. . */
export async function* pack(local) {
  try {
    yield* packed(local, isContents(local) ? "." : path.basename(path.resolve(local)));
  } catch (e) {
    throw new errors.System(`read ${e.path ?? local}: ${e.message}`);
  }
  yield Buffer.alloc(2 * BLOCK);
}

// ---- from an archive

/* Takes exactly as many bytes as are asked for. */
class Reader {
  #from;
  #held = Buffer.alloc(0);

  constructor(pieces) {
    this.#from = pieces[Symbol.asyncIterator]();
  }

  /* At most n bytes, at least one. */
  async some(n) {
    while (!this.#held.length) {
      const { value, done } = await this.#from.next();
      if (done)
        throw new errors.Corrupt("the archive is cut short");
      this.#held = value;
    }
    const piece = this.#held.subarray(0, n);
    this.#held = this.#held.subarray(piece.length);
    return piece;
  }

  async exactly(n) {
    const pieces = [];
    for (let left = n; left;) {
      const piece = await this.some(left);
      pieces.push(piece);
      left -= piece.length;
    }
    return Buffer.concat(pieces);
  }

  async skip(n) {
    for (let left = n; left;)
      left -= (await this.some(left)).length;
  }

  async drain() {
    while (!(await this.#from.next()).done);
  }
}

function number(block, at, width) {
  const text = block.toString("latin1", at, at + width).replace(/[\0 ]+$/, "").trim();
  if (!/^[0-7]*$/.test(text))
    throw new errors.Corrupt(`the archive has the number ${JSON.stringify(text)}`);
  return text ? parseInt(text, 8) : 0;
}

function string(block, at, width) {
  const end = block.indexOf(0, at);
  return block.toString("utf8", at, end < 0 || end > at + width ? at + width : end);
}

function paxOf(text) {
  const values = {};
  for (let at = 0; at < text.length;) {
    const space = text.indexOf(32, at);
    const size = Number(text.toString("latin1", at, space));
    const eq = text.indexOf(61, space);
    if (space < 0 || !Number.isInteger(size) || size < 5 || at + size > text.length || eq < 0 || eq >= at + size)
      throw new errors.Corrupt("the archive has a malformed record");
    values[text.toString("utf8", space + 1, eq)] = text.toString("utf8", eq + 1, at + size - 1);
    at += size;
  }
  return values;
}

/* The next member, or null at the end. */
async function next(reader) {
  for (let pax = {};;) {
    const block = await reader.exactly(BLOCK);
    if (block.every((byte) => byte === 0))
      return null;
    const sum = block.reduce((all, byte, i) => all + (i >= 148 && i < 156 ? 32 : byte), 0);
    if (sum !== number(block, 148, 8))
      throw new errors.Corrupt("the archive has a header with a wrong sum");
    const size = Number(pax.size ?? number(block, 124, 12));
    const type = String.fromCharCode(block[156] || 48);
    if (type === "x" || type === "g") {
      if (size > PAX_MAX)
        throw new errors.Corrupt("the archive has a record that is too large");
      const values = paxOf(await reader.exactly(size));
      await reader.skip((BLOCK - size % BLOCK) % BLOCK);
      pax = type === "x" ? values : pax;
      continue;
    }
    const prefix = string(block, 345, 155);
    return {
      type, size, mode: number(block, 100, 8),
      name: pax["GNU.sparse.name"] ?? pax.path ?? (prefix ? `${prefix}/` : "") + string(block, 0, 100),
      link: pax.linkpath ?? string(block, 157, 100),
      realSize: pax["GNU.sparse.realsize"] === undefined ? null : Number(pax["GNU.sparse.realsize"]),
    };
  }
}

const partsOf = (name) => name.split("/").filter((part) => part !== "" && part !== ".");

/* Where a member comes to be: below into, or into itself in place of the archive's first name. */
function place(name, top, into, contents) {
  const parts = partsOf(name);
  if (parts.includes("..") || name.includes("\0") || (!contents && parts[0] !== top))
    throw new errors.Corrupt(`the archive has the name ${JSON.stringify(name)}`);
  return path.join(into, ...(contents ? parts : parts.slice(1)));
}

async function* lines(reader, count) {
  let size = 0;
  for (const wanted = { n: count(0) }, seen = { n: 0 }; seen.n < wanted.n; seen.n++) {
    let text = "";
    for (let byte; (byte = (await reader.exactly(1))[0]) !== 10; text += String.fromCharCode(byte))
      if (byte < 48 || byte > 57 || text.length > 18)
        throw new errors.Corrupt("the archive has a malformed map of a sparse file");
    size += text.length + 1;
    wanted.n = count(seen.n, Number(text)) ?? wanted.n;
    yield { value: Number(text), size };
  }
}

/* The pieces of a sparse file: [start, size], and the bytes that their list took. */
async function sparseMap(reader) {
  const numbers = [];
  let used = 0;
  for await (const { value, size } of lines(reader, (i, value) => value === undefined ? 1 : i === 0 ? 1 + 2 * value : undefined)) {
    if (numbers.push(value) > 200000)
      throw new errors.Corrupt("the archive has a sparse file of too many pieces");
    used = size;
  }
  await reader.skip((BLOCK - used % BLOCK) % BLOCK);
  const pieces = [];
  for (let i = 1; i < numbers.length; i += 2)
    pieces.push([numbers[i], numbers[i + 1]]);
  return { pieces, used: used + (BLOCK - used % BLOCK) % BLOCK };
}

/* A hole stays one: what a sandbox calls a large file takes no room here. */
async function writeFile(reader, member, file) {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW } = constants;
  const handle = await fs.open(file, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, member.mode & 0o777);
  try {
    const sparse = member.realSize === null ? null : await sparseMap(reader);
    let left = member.size - (sparse?.used ?? 0);
    for (const [start, size] of sparse?.pieces ?? [[0, member.size]]) {
      if (size > left)
        throw new errors.Corrupt("the archive has a sparse file whose sizes do not fit");
      for (let at = start; at < start + size;) {
        const piece = await reader.some(start + size - at);
        await handle.write(piece, 0, piece.length, at);
        at += piece.length;
        left -= piece.length;
      }
    }
    await reader.skip(left);
    await handle.truncate(member.realSize ?? member.size);
  } finally {
    await handle.close();
  }
}

const isLink = async (file) => Boolean((await fs.lstat(file).catch(() => null))?.isSymbolicLink());

/* What lies between into and file is not a link, which an entry before this one may have made. */
async function onlyDirectories(into, file) {
  let parent = into;
  const parts = path.relative(into, file).split("/").slice(0, -1);
  for (let i = 0; file !== into && i <= parts.length; parent = path.join(parent, parts[i++] ?? ""))
    if (await isLink(parent))
      throw new errors.Corrupt(`the archive has a name below the symbolic link ${parent}`);
}

async function makeLink({ member, target }, files, where) {
  if (member.type === "2") {
    if (await isLink(target))
      await fs.unlink(target);
    await fs.symlink(member.link, target);
    return;
  }
  const source = where(member.link);
  if (!files.has(source))
    throw new errors.Corrupt(`the archive has a hard link to ${JSON.stringify(member.link)}`);
  if (source !== target) {
    await fs.rm(target, { force: true });
    await fs.link(source, target);
  }
}

/* As `berth cp` does: into local where it is a directory, else local is the new name. */
export async function unpack(pieces, remote, local, parents) {
  const reader = new Reader(pieces);
  const contents = isContents(remote);
  const links = [];
  const files = new Set(); // that hard links may be to
  try {
    if (parents)
      await fs.mkdir(path.dirname(local), { recursive: true });
    let member = await next(reader);
    const top = member && partsOf(member.name)[0];
    if (!member || (!contents && !top))
      throw new errors.Corrupt("the archive is empty");
    const isDirectory = (await fs.stat(local).catch(() => null))?.isDirectory();
    // where the caller's own links lead is the caller's wish
    const into = !isDirectory ? local : contents ? await fs.realpath(local) : path.join(local, top);
    const where = (name) => place(name, top, into, contents);
    let bytes = 0;
    for (let entries = 1; member; member = await next(reader), entries++) {
      const target = where(member.name);
      if (entries > ENTRIES_MAX)
        throw new errors.Limit(`more than ${ENTRIES_MAX} entries in one copy`);
      await onlyDirectories(into, target);
      const size = member.size;
      if (member.type === "5") {
        if (await isLink(target))
          throw new errors.Corrupt(`the archive has a directory where ${target} is a symbolic link`);
        await fs.mkdir(target, { recursive: true });
        await reader.skip(size);
      } else if (member.type === "0") {
        await writeFile(reader, member, target);
        files.add(target);
        bytes += member.realSize ?? size;
      } else {
        if (member.type === "1" || member.type === "2")
          links.push({ member, target });
        await reader.skip(size);
      }
      await reader.skip((BLOCK - size % BLOCK) % BLOCK);
    }
    for (const link of links) {
      await onlyDirectories(into, link.target);
      await makeLink(link, files, where);
    }
    await reader.drain();
    return { bytes };
  } catch (e) {
    if (e instanceof errors.BerthError || e.name === "AbortError")
      throw e;
    throw new errors.System(`write ${e.path ?? local}: ${e.message}`);
  }
}
