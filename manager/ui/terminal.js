// SPDX-License-Identifier: Apache-2.0
// A shell in a sandbox: a command with a terminal, whose output is followed and whose input is sent; xterm.js draws it.
import { call, lines, of, post, send } from "./api.js";
import { button, fill, h, plain, say, tell } from "./dom.js";

const encoder = new TextEncoder();

// xterm.js makes <style> elements and style attributes, which the page's policy forbids: they become style sheets that a
// script made, and properties, which it does not.
class Sheet extends HTMLElement {
	set textContent(text) {
		if (!this.sheet) {
			this.sheet = new CSSStyleSheet();
			document.adoptedStyleSheets.push(this.sheet);
		}
		this.sheet.replaceSync(text);
	}

	disconnectedCallback() {
		document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== this.sheet);
		this.sheet = null;
	}
}

customElements.define("berth-sheet", Sheet);

// the colours of a span: rows are made with the document itself, and copied
HTMLSpanElement.prototype.setAttribute = function (key, value) {
	if (key === "style")
		this.style.cssText = value;
	else
		Element.prototype.setAttribute.call(this, key, value);
};

const create = (name) => document.createElement(name === "style" ? "berth-sheet" : name);

const careful = new Proxy(document, {
	get(target, key) {
		if (key === "createElement")
			return create;
		const value = target[key];
		return typeof value === "function" ? value.bind(target) : value;
	},
});

function colors() {
	const style = getComputedStyle(document.documentElement);
	const color = (name) => style.getPropertyValue(name).trim();
	return { background: color("--term"), foreground: color("--term-text"), cursor: color("--term-cursor"), selectionBackground: color("--term-select") };
}

function bytesOf(part) {
	if (part.data !== undefined)
		return part.data;
	const hex = part.data_hex || "", out = new Uint8Array(hex.length / 2);
	for (let i = 0; i < out.length; i++)
		out[i] = parseInt(hex.substr(2 * i, 2), 16);
	return out;
}

// How many rows and columns of cells the box has room for.
function size(terminal, box) {
	const screen = box.querySelector(".xterm-screen");
	if (!screen || !box.clientWidth || !screen.clientWidth)
		return null;
	const width = screen.clientWidth / terminal.cols, height = screen.clientHeight / terminal.rows;
	return { cols: Math.max(20, Math.floor((box.clientWidth - 26) / width)), rows: Math.max(6, Math.floor((box.clientHeight - 18) / height)) };
}

export async function terminalTab(place, box, signal) {
	if (box.status !== "running") {
		fill(place, h("div", { class: "empty" }, h("p", {}, "The sandbox does not run. Start it to open a terminal.")));
		return;
	}
	const state = h("span", { class: "dim", role: "status" }, "Opening…"), title = h("span", { class: "term-title" });
	const screen = h("div", { class: "term", "aria-label": "Terminal of " + plain(box.name || box.id), role: "group" });
	const again = button("New shell", () => terminalTab(place, box, signal), { icon: "term" });
	fill(place, h("div", { class: "bar" }, state, title, h("span", { class: "grow" }), again), screen,
		h("p", { class: "hint" }, "Keys go to the shell. Press Ctrl+Shift+Escape to leave the terminal with the keyboard."));
	await import("./xterm.js");
	await document.fonts.ready;
	if (signal.aborted)
		return;
	const terminal = new globalThis.Terminal({
		documentOverride: careful, fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace", fontSize: 14,
		theme: colors(), cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches, scrollback: 5000, screenReaderMode: true,
		// a title and a link are what the sandbox says: text, and no place to go
		linkHandler: { activate() {} }, allowProposedApi: false,
	});
	terminal.open(screen);
	const fits = size(terminal, screen);
	if (fits)
		terminal.resize(fits.cols, fits.rows);
	terminal.onTitleChange((text) => fill(title, plain(text).slice(0, 80)));
	terminal.attachCustomKeyEventHandler((event) => {
		if (event.key === "Escape" && event.ctrlKey && event.shiftKey) {
			again.focus();
			return false;
		}
		return true;
	});
	const scheme = matchMedia("(prefers-color-scheme: dark)");
	const recolor = () => {
		terminal.options.theme = colors();
	};
	scheme.addEventListener("change", recolor);
	const base = of(box.id);
	let command = null, open = true, watcher = null;
	const stop = new AbortController();
	const end = () => {
		if (!open)
			return;
		open = false;
		stop.abort();
		scheme.removeEventListener("change", recolor);
		if (watcher)
			watcher.disconnect();
		if (command)
			call("POST", base + "/commands/" + command + "/signal", { signal: "HUP" }).catch(() => {});
	};
	signal.addEventListener("abort", () => {
		end();
		terminal.dispose();
	});
	try {
		command = (await post(base + "/exec", {
			argv: ["/bin/sh", "-c", "[ -x /bin/bash ] && exec /bin/bash -i; exec /bin/sh -i"], env: ["TERM=xterm-256color"], detach: true, tty: true,
			rows: terminal.rows, cols: terminal.cols, timeout_ms: 0,
		})).command;
	} catch (error) {
		fill(state, "No shell: " + error.message);
		return;
	}
	if (signal.aborted) {
		open = true;
		end();
		return;
	}
	fill(state, "Connected");
	// one request at a time, so that keys stay in their order; what is typed meanwhile goes with the next
	let waiting = "", sending = false;
	const type = async (text) => {
		waiting += text;
		if (sending)
			return;
		sending = true;
		while (waiting && open) {
			const part = waiting;
			waiting = "";
			try {
				await send(base + "/commands/" + command + "/stdin", encoder.encode(part));
			} catch (error) {
				if (open)
					tell(error);
				waiting = "";
			}
		}
		sending = false;
	};
	terminal.onData(type);
	let told = "";
	const fit = () => {
		const to = size(terminal, screen);
		if (!to || !open || told === to.rows + "x" + to.cols)
			return;
		told = to.rows + "x" + to.cols;
		terminal.resize(to.cols, to.rows);
		post(base + "/commands/" + command + "/resize", to).catch(() => {});
	};
	watcher = new ResizeObserver(() => requestAnimationFrame(fit));
	watcher.observe(screen);
	terminal.focus();
	try {
		for await (const part of lines(base + "/commands/" + command + "/follow", stop.signal)) {
			if (part.stream)
				await new Promise((done) => terminal.write(bytesOf(part), done));
			if (part.verdict)
				fill(state, "The shell ended with status " + part.exit_status);
			if (part.error)
				say(part.error.message, "bad");
		}
	} catch (error) {
		if (open && error.name !== "AbortError")
			fill(state, "Disconnected: " + error.message);
	}
	command = null;
	end();
}
