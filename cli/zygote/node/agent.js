(() => {
	// The interpreter that waits.  Arguments: "script" or "text", the preload, its arguments.  8 is
	// addon.c, 9 the socket on which the code comes, once the preload's event loop is empty.
	"use strict";
	const fs = require("fs"), path = require("path"), vm = require("vm");
	const Module = require("module"), net = require("net"), stream = require("stream");
	const library = { exports: {} };
	process.dlopen(library, "/proc/self/fd/8");
	const take = library.exports;
	const [kind, preload] = process.argv.splice(1, 2);

	// as if node had been called without the agent
	process.execArgv.splice(process.execArgv.lastIndexOf("-e") - 1); // and the option for import()

	// ---- streams ------------------------------------------------------------------------------
	// node looks once at what its descriptors are, and the code's are others than the preload's:
	// the preload has stand-ins.

	const nap = new Int32Array(new SharedArrayBuffer(4));

	function writeAll(fd, data) {
		while (data.length) {
			try {
				data = data.subarray(fs.writeSync(fd, data));
			} catch (error) {
				if (error.code !== "EAGAIN") throw error;
				Atomics.wait(nap, 0, 0, 1);
			}
		}
	}

	function output(fd) {
		const s = new stream.Writable({
			write(data, encoding, done) {
				try {
					writeAll(fd, data);
					done();
				} catch (error) {
					done(error);
				}
			},
		});
		s.fd = fd;
		return s;
	}

	const real = {};
	for (const [name, make] of Object.entries({
		stdin: () => stream.Readable.from([]),
		stdout: () => output(1),
		stderr: () => output(2),
	})) {
		let made;
		const get = () => (made ||= make());
		real[name] = [Object.getOwnPropertyDescriptor(process, name), get];
		Object.defineProperty(process, name, { configurable: true, enumerable: true, get });
	}

	function restoreStreams() {
		for (const [name, [property, get]] of Object.entries(real))
			if (Object.getOwnPropertyDescriptor(process, name).get === get)
				Object.defineProperty(process, name, property);
		console._stdout = console._stderr = undefined; // they take process's again
	}

	// ---- running ------------------------------------------------------------------------------

	// An error that ends node is shown without the agent's calls.
	process.on("uncaughtExceptionMonitor", (error) => {
		try {
			const below = /(?:\n    at Script\.runInThisContext [^\n]*)?\n    at [^\n]*berth:zygote:/;
			const at = error.stack.search(below);
			if (at >= 0) error.stack = error.stack.slice(0, at);
		} catch {} // it is no Error, or one that cannot be changed
	});

	const importing = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER ?? ((name) => import(name));
	const head = "(async () => {";

	function compile(text, filename, waits) {
		return new vm.Script(waits ? `${head}${text}\n})()` : text, {
			filename,
			columnOffset: waits ? -head.length : 0,
			importModuleDynamically: importing,
		});
	}

	// With await at its top level it is the body of a function.
	function compileEither(text, filename) {
		if (!/\bawait\b/.test(text)) return [compile(text, filename, false), false];
		let inFunction;
		try {
			return [compile(text, filename, true), true];
		} catch (error) {
			inFunction = error;
		}
		try {
			return [compile(text, filename, false), false];
		} catch (error) {
			throw /await is only valid/.test(error.message) ? inFunction : error;
		}
	}

	// An error is not caught: node does with it what it always does.
	function run(text, filename) {
		const [script, waits] = compileEither(text, filename);
		const result = script.runInThisContext();
		if (!waits) return;
		const unsettled = () => {
			if (process.exitCode !== undefined) return;
			process.exitCode = 13; // node's own, of a module
			writeAll(2, Buffer.from(`Warning: Detected unsettled top-level await in ${filename}\n`));
		};
		process.on("exit", unsettled);
		result.finally(() => process.off("exit", unsettled));
	}

	// What costs milliseconds the first time: node compiles its own functions when they are called.
	function warm() {
		const warn = process.emitWarning;
		process.emitWarning = () => {}; // of how the import() of a script is made possible
		compile("import('node:fs')", "[eval]", false).runInThisContext();
		process.emitWarning = warn;
		require("tty");
		const pipe = new net.Socket({ fd: 1, readable: false, writable: true });
		pipe.write("");
		pipe.destroy(); // a descriptor of stdio stays open
		const nowhere = new stream.Writable({ write: (data, encoding, done) => done() });
		const all = new console.Console({ stdout: nowhere, stderr: nowhere });
		all.log("%s %d", "x", 1, { a: [1, "x", null] }, new Map([[1, 2]]), 1.5);
		all.error(new Error("x"));
	}

	// What `node -e` gives its code.
	function scope(filename) {
		const module = new Module(filename);
		module.filename = path.join(process.cwd(), filename);
		module.paths = Module._nodeModulePaths(process.cwd());
		Object.assign(globalThis, {
			__filename: filename,
			__dirname: ".",
			module,
			exports: module.exports,
			require: Module.createRequire(module.filename),
		});
	}

	// ---- the request --------------------------------------------------------------------------

	function fail(words) {
		writeAll(2, Buffer.from(words + "\n"));
		process.reallyExit(125);
	}

	// directory, name of the code, number of variables, them, number of arguments, them, the code
	function read(fd) {
		const data = Buffer.alloc(fs.fstatSync(fd).size);
		let got = 0, at = 0;
		while (got < data.length) {
			const n = fs.readSync(fd, data, got, data.length - got, got);
			if (!n) fail("the code is cut off");
			got += n;
		}
		fs.closeSync(fd);
		const word = () => {
			const end = data.indexOf(0, at);
			const text = data.toString("utf8", at, end);
			at = end + 1;
			return text;
		};
		const words = () => Array.from({ length: Number(word()) }, word);
		return { where: word(), name: word(), env: words(), args: words(), code: data.toString("utf8", at) };
	}

	// (mkdirSync()'s own "recursive" never ends below /proc.)
	function makeDirectory(where) {
		if (fs.existsSync(where)) return;
		makeDirectory(path.dirname(where));
		fs.mkdirSync(where);
	}

	function serve() {
		const { where, name, env, args, code } = read(take());
		restoreStreams();
		for (const variable of env) {
			const at = variable.indexOf("=");
			process.env[variable.slice(0, at)] = variable.slice(at + 1);
		}
		try {
			if (where) makeDirectory(where);
			if (where) process.chdir(where);
		} catch (error) {
			fail(`cannot enter ${where}: ${error.message}`);
		}
		const standard = { "<string>": "[eval]", "<stdin>": "[stdin]" }[name];
		process.argv = [process.argv[0], ...(standard ? [] : [name]), ...args];
		scope(standard ?? path.basename(name));
		run(code, standard ?? name);
	}

	warm();
	process.once("beforeExit", () => setImmediate(serve));
	if (kind === "script") {
		process.argv.splice(1, 0, path.resolve(preload));
		Module.runMain(process.argv[1]);
	} else {
		run(preload, "[eval]");
	}
})();
//# sourceURL=berth:zygote
