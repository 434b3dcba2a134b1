// SPDX-License-Identifier: Apache-2.0
/*
 * What can go wrong, one class for each error code of berth: errors.NotFound has the code "not-found".
 * Each error has the code, the cause and the remedy apart; message is all of them.
 */

export class BerthError extends Error {
  constructor(cause, remedy = "", code = undefined) {
    super(remedy ? `${cause}; hint: ${remedy}` : cause);
    this.name = new.target.name;
    this.cause = cause;
    this.remedy = remedy;
    this.code = code ?? new.target.code;
  }

  static code = "internal";
}

export class Usage extends BerthError { static code = "usage"; }
export class Invalid extends BerthError { static code = "invalid"; }
export class Config extends BerthError { static code = "config"; }
export class NotFound extends BerthError { static code = "not-found"; }
export class Exists extends BerthError { static code = "exists"; }
export class Busy extends BerthError { static code = "busy"; }
export class Limit extends BerthError { static code = "limit"; }
export class Denied extends BerthError { static code = "denied"; }
export class Policy extends BerthError { static code = "policy"; }
export class Unsupported extends BerthError { static code = "unsupported"; }
export class Corrupt extends BerthError { static code = "corrupt"; }
export class System extends BerthError { static code = "system"; }
export class NoMemory extends BerthError { static code = "no-memory"; }
export class Network extends BerthError { static code = "network"; }
export class Timeout extends BerthError { static code = "timeout"; }
export class NotExecutable extends BerthError { static code = "not-executable"; }
export class CommandNotFound extends BerthError { static code = "command-not-found"; }
export class OtherHost extends BerthError { static code = "other-host"; }
export class DiskFull extends BerthError { static code = "disk-full"; }
export class Unhealthy extends BerthError { static code = "unhealthy"; }
export class Internal extends BerthError { static code = "internal"; }

/* A command that ran with check did not succeed.  result is what it wrote, with the verdict. */
export class CommandFailed extends BerthError {
  static code = "command-failed";

  constructor(cause, remedy, code, result) {
    super(cause, remedy, code);
    this.result = result;
  }
}

const byCode = new Map([
  Usage, Invalid, Config, NotFound, Exists, Busy, Limit, Denied, Policy, Unsupported, Corrupt, System, NoMemory, Network,
  Timeout, NotExecutable, CommandNotFound, OtherHost, DiskFull, Unhealthy, Internal, CommandFailed,
].map((kind) => [kind.code, kind]));

/* The error of a code.  In a message of the program the remedy stands after "hint:". */
export function make(code, message, remedy = "") {
  const at = message.indexOf("; hint: ");
  if (!remedy && at >= 0)
    [message, remedy] = [message.slice(0, at), message.slice(at + 8)];
  const Kind = byCode.get(code) ?? BerthError;
  return new Kind(message, remedy, code);
}

/* The error of an answer that has one, or null. */
export function ofAnswer(answer) {
  const error = answer?.error;
  if (error === undefined || error === null)
    return null;
  if (typeof error !== "object")
    return new Internal(`an error without a code: ${JSON.stringify(error)}`);
  return make(String(error.code ?? "internal"), String(error.message ?? ""), String(error.remedy ?? ""));
}
