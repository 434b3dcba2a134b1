// SPDX-License-Identifier: Apache-2.0
// Elements and texts.  A text is always a text node: nothing here, or elsewhere in the page, makes markup of a string.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes, ...children) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes || {})) {
		if (value === undefined || value === null || value === false)
			continue;
		if (name.startsWith("on"))
			element.addEventListener(name.slice(2), value);
		else if (name === "value" || name === "checked" || name === "disabled" || name === "selected")
			element[name] = value;
		else
			element.setAttribute(name, value === true ? "" : String(value));
	}
	add(element, children);
	return element;
}

function add(element, children) {
	for (const child of children.flat(9))
		if (child !== undefined && child !== null && child !== false)
			element.append(child instanceof Node ? child : document.createTextNode(String(child)));
}

export function fill(element, ...children) {
	element.replaceChildren();
	add(element, children);
	return element;
}

const shapes = {
	boxes: "M3 7l9-4 9 4v10l-9 4-9-4zM3 7l9 4 9-4M12 11v10",
	image: "M4 4h16v16H4zM4 15l5-5 4 4 3-3 4 4",
	disk: "M4 6c0-2 16-2 16 0v12c0 2-16 2-16 0zM4 6c0 2 16 2 16 0M4 12c0 2 16 2 16 0",
	net: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12h18M12 3c5 5 5 13 0 18M12 3c-5 5-5 13 0 18",
	bolt: "M13 3L5 14h6l-1 7 9-12h-6z",
	host: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
	pulse: "M3 12h4l3-8 4 16 3-8h4",
	out: "M14 4h5v16h-5M4 12h11M11 8l4 4-4 4",
	plus: "M12 5v14M5 12h14",
	play: "M7 4l13 8-13 8z",
	stop: "M6 6h12v12H6z",
	pause: "M8 5v14M16 5v14",
	trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13",
	term: "M4 6l6 6-6 6M12 18h8",
	file: "M6 3h8l4 4v14H6zM14 3v4h4",
	folder: "M3 6h6l2 3h10v10H3z",
	down: "M12 4v12M7 11l5 5 5-5M5 20h14",
	up: "M12 16V4M7 9l5-5 5 5M5 20h14",
	back: "M15 5l-7 7 7 7",
	check: "M5 12l5 5 9-10",
	warn: "M12 3l10 18H2zM12 10v5M12 18h.01",
	undo: "M9 7H15a5 5 0 0 1 0 10H7M9 7l-4 0M5 7l4-4M5 7l4 4",
	fork: "M7 4v16M7 12c6 0 10-2 10-8M14 7l3-3 3 3",
	camera: "M4 8h4l2-3h4l2 3h4v11H4zM12 10a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
	link: "M7 12a4 4 0 0 1 4-4h2M17 12a4 4 0 0 1-4 4h-2M9 12h6",
};

export function icon(name) {
	const svg = document.createElementNS(SVG, "svg"), path = document.createElementNS(SVG, "path");
	svg.setAttribute("viewBox", "0 0 24 24");
	svg.setAttribute("class", "icon");
	svg.setAttribute("aria-hidden", "true");
	path.setAttribute("d", shapes[name] || "");
	svg.append(path);
	return svg;
}

// A button that tells its error, and cannot be pressed twice.
export function button(label, action, options = {}) {
	const element = h("button", {
		type: options.submit ? "submit" : "button", class: "button " + (options.kind || ""), title: options.title, id: options.id,
		"aria-label": options.label,
	}, options.icon && icon(options.icon), label && h("span", {}, label));
	if (action)
		element.addEventListener("click", () => busy(element, action));
	return element;
}

export async function busy(element, action) {
	if (element.disabled)
		return;
	const had = document.activeElement === element;
	element.disabled = true;
	element.setAttribute("aria-busy", "true");
	try {
		await action();
	} catch (error) {
		tell(error);
	} finally {
		element.disabled = false;
		element.removeAttribute("aria-busy");
		// what is disabled loses the focus
		if (had && element.isConnected && document.activeElement === document.body)
			element.focus();
	}
}

export function say(text, kind = "good") {
	const place = document.getElementById("say");
	const note = h("div", { class: "note " + kind }, h("span", {}, text),
		h("button", { type: "button", "aria-label": "Dismiss", onclick: () => note.remove() }, "×"));
	place.append(note);
	while (place.children.length > 4)
		place.firstChild.remove();
	if (kind === "good")
		setTimeout(() => note.remove(), 6000);
}

export function tell(error) {
	if (error && error.name === "AbortError")
		return;
	say(error.message + (error.remedy ? ". " + error.remedy : ""), "bad");
}

// A dialog with a form; resolves to what take() returns once that succeeded, or to undefined.
export function ask(title, body, yes, take, options = {}) {
	return new Promise((resolve) => {
		const wrong = h("p", { class: "wrong", role: "alert" });
		const ok = button(yes, null, { submit: true, kind: options.kind || "main" });
		const form = h("form", { class: "dialog-form" }, h("h2", { id: "dialog-title" }, title), body, wrong,
			h("div", { class: "actions" }, button("Cancel", () => dialog.close(), { kind: "" }), ok));
		const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
		let result;
		form.addEventListener("submit", async (event) => {
			event.preventDefault();
			wrong.textContent = "";
			ok.disabled = true;
			try {
				result = await take();
				dialog.close();
			} catch (error) {
				wrong.textContent = error.message + (error.remedy ? ". " + error.remedy : "");
			}
			ok.disabled = false;
		});
		dialog.addEventListener("close", () => {
			dialog.remove();
			resolve(result);
		});
		document.body.append(dialog);
		dialog.showModal();
	});
}

export function confirm(title, text, yes, take, kind = "danger") {
	return ask(title, h("p", {}, text), yes, async () => {
		await take();
		return true;
	}, { kind });
}

let fields = 0;

export function field(label, input, hint) {
	input.id = input.id || "field-" + ++fields;
	if (hint)
		input.setAttribute("aria-describedby", input.id + "-hint");
	return h("div", { class: "field" }, h("label", { for: input.id }, label), input,
		hint && h("p", { class: "hint", id: input.id + "-hint" }, hint));
}

export function empty(text, ...more) {
	return h("div", { class: "empty" }, h("p", {}, text), ...more);
}

// Rows of cells; head is [label, class] or a label.
export function table(caption, head, rows, none) {
	if (!rows.length)
		return empty(none || "Nothing here yet.");
	const names = head.map((one) => Array.isArray(one) ? one : [one, ""]);
	return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, h("table", {},
		h("caption", { class: "hidden" }, caption),
		h("thead", {}, h("tr", {}, names.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)))),
		h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, i) => h("td", { class: names[i][1], "data-name": names[i][0] }, cell)))))));
}

export function facts(list) {
	return h("dl", { class: "facts" }, list.filter(([, value]) => value !== undefined && value !== null && value !== "")
		.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function bytes(n) {
	if (n === undefined || n === null)
		return "–";
	let unit = 0;
	for (n = Number(n); n >= 1024 && unit < 5; unit++)
		n /= 1024;
	return (unit && n < 10 ? n.toFixed(1) : Math.round(n)) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
}

export function span(ms) {
	const s = Math.round(ms / 1000);
	if (s < 60)
		return s + " s";
	if (s < 3600)
		return Math.floor(s / 60) + " min";
	if (s < 172800)
		return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
	return Math.floor(s / 86400) + " days";
}

export function when(ms) {
	return new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function clock(ms) {
	return new Date(ms).toLocaleTimeString(undefined, { hour12: false });
}

// The name that a user may see: what would turn the direction of text or hide in it is shown as a code.
export function plain(text) {
	return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
		(c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}
