// SPDX-License-Identifier: Apache-2.0
/*
 * berth: commands in hardened sandboxes.
 *
 *   const client = new Berth();
 *   const sandbox = await client.create("py");
 *   console.log((await sandbox.run(["python3", "-c", "print(6 * 7)"])).out);
 *
 * Errors are BerthError and its classes in errors, one for each code.
 */
export { Berth, Sandbox } from "./client.js";
export { Zygote } from "./zygote.js";
export { CodeResult, Command, Files, Output, Process, Records, Result, Shell, ShellResult } from "./parts.js";
export * as errors from "./errors.js";
export { BerthError, CommandFailed } from "./errors.js";
