// SPDX-License-Identifier: Apache-2.0
// The files of a sandbox: directories, texts, up, down, and what changed.
import { get, of, post, put, query, raw } from "./api.js";
import { ask, button, bytes, confirm, empty, field, fill, h, icon, plain, say, table, tell, when } from "./dom.js";

const SHOWN = 512 * 1024;

const join = (directory, name) => (directory === "/" ? "" : directory) + "/" + name;
const parent = (path) => path.slice(0, path.lastIndexOf("/")) || "/";

export function download(blob, name) {
	const url = URL.createObjectURL(blob), link = h("a", { href: url, download: name });
	document.body.append(link);
	link.click();
	link.remove();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
}

function crumbs(path, go) {
	const parts = path.split("/").filter(Boolean);
	return h("nav", { class: "crumbs", "aria-label": "Path" }, h("ol", {},
		h("li", {}, h("button", { type: "button", onclick: () => go("/"), "aria-label": "Root directory" }, "/")),
		parts.map((part, i) => h("li", {}, h("button", {
			type: "button", "aria-current": i === parts.length - 1 ? "location" : null, onclick: () => go("/" + parts.slice(0, i + 1).join("/")),
		}, plain(part))))));
}

export function diffLines(text) {
	return h("pre", { class: "code diff", tabindex: "0" }, text.split("\n").map((line) => h("span", {
		class: /^(\+\+\+|---)/.test(line) ? "head" : line[0] === "+" ? "more" : line[0] === "-" ? "less" : line[0] === "@" ? "at" : "",
	}, line + "\n")));
}

export async function filesTab(place, box, signal, start) {
	const base = of(box.id) + "/files";
	const where = h("div", { class: "where" }), list = h("div", {}), view = h("section", { class: "viewer", "aria-label": "File", hidden: true });
	const upload = h("input", { type: "file", multiple: true, class: "hidden", id: "upload", "aria-label": "Files to upload" });
	let here = start || "/workspace";

	const into = async (files) => {
		let n = 0;
		for (const file of files) {
			await put(base + query({ path: join(here, file.name), parents: "true" }), file);
			n++;
		}
		if (n)
			say(n === 1 ? plain(files[0].name) + " was uploaded" : n + " files were uploaded");
		await show(here);
	};
	upload.addEventListener("change", () => into([...upload.files]).catch(tell).finally(() => {
		upload.value = "";
	}));

	const close = () => {
		view.hidden = true;
		fill(view);
	};

	const fetchFile = async (path) => {
		const reply = await raw(base + query({ path }));
		download(await reply.blob(), path.slice(path.lastIndexOf("/") + 1));
	};

	const edit = (path, text) => {
		const area = h("textarea", { class: "code", rows: 16, spellcheck: "false", value: text });
		return ask("Edit " + plain(path), field("Content", area), "Save", async () => {
			await put(base + query({ path }), new Blob([area.value]));
			say("Saved");
			await open(path);
		});
	};

	const open = async (path, entry) => {
		const reply = await raw(base + query({ path, limit: SHOWN }), { signal });
		const data = new Uint8Array(await reply.arrayBuffer());
		let text = null;
		try {
			text = new TextDecoder("utf-8", { fatal: true }).decode(data);
		} catch {
			// bytes
		}
		const cut = entry && entry.size > data.length;
		if (text !== null && text.includes("\0"))
			text = null;
		view.hidden = false;
		fill(view, h("div", { class: "bar" }, h("h3", {}, plain(path)), h("span", { class: "grow" }),
			text !== null && !cut && button("Edit", () => edit(path, text), {}),
			button("Download", () => fetchFile(path), { icon: "down" }), button("Close", close, {})),
		text === null ? empty("This is not text (" + bytes(entry ? entry.size : data.length) + ").") :
			h("pre", { class: "code", tabindex: "0" }, text || "(empty)"),
		cut && h("p", { class: "hint" }, "The first " + bytes(data.length) + " of " + bytes(entry.size) + " are shown."));
		view.scrollIntoView({ block: "nearest" });
	};

	const row = (entry) => {
		const path = join(here, entry.name || "");
		const name = entry.name === undefined ? "(bytes) " + entry.name_hex : plain(entry.name);
		const known = entry.name !== undefined, directory = entry.type === "directory";
		const label = h("button", {
			type: "button", class: "entry", disabled: !known || !(directory || entry.type === "file"),
			onclick: () => (directory ? show(path) : open(path, entry)).catch(tell),
		}, icon(directory ? "folder" : "file"), h("span", {}, name, entry.target !== undefined && " → " + plain(entry.target)));
		return [label, directory ? "" : bytes(entry.size), h("code", {}, entry.mode), entry.mtime_sec ? when(entry.mtime_sec * 1000) : plain(entry.mtime),
			known && h("span", { class: "row-actions" },
				entry.type === "file" && button("", () => fetchFile(path), { icon: "down", label: "Download " + name, kind: "quiet" }),
				button("", () => confirm("Remove " + name + "?", "It cannot be brought back without a checkpoint.", "Remove", async () => {
					await post(base + "/rm", { paths: [path], recursive: true });
					close();
					await show(here);
				}), { icon: "trash", label: "Remove " + name, kind: "quiet" }))];
	};

	const show = async (path) => {
		const entries = [];
		let after;
		do {
			const part = await get(base + "/list" + query({ path, after, limit: 1000 }), { signal });
			entries.push(...part.entries);
			after = part.next;
		} while (after && entries.length < 5000);
		here = path;
		entries.sort((a, b) => (b.type === "directory") - (a.type === "directory") || (a.name || "").localeCompare(b.name || ""));
		fill(where, crumbs(here, (to) => {
			close();
			show(to).catch(tell);
		}));
		fill(list, table("Files in " + plain(here), ["Name", ["Size", "number"], ["Mode", "wide"], ["Changed", "wide"], ["", "end"]], entries.map(row), "This directory is empty."),
			after && h("p", { class: "hint" }, "The first 5,000 entries are shown."));
	};

	const changes = async () => {
		const told = await get(of(box.id) + "/diff?patch=true", { signal });
		view.hidden = false;
		fill(view, h("div", { class: "bar" }, h("h3", {}, "Changes against the image"), h("span", { class: "grow" }), button("Close", close, {})),
			told.changes.length ? told.changes.slice(0, 500).map((one) => {
				const head = h("span", { class: "change" }, h("span", { class: "tag " + one.change[0].toUpperCase() }, one.change), h("code", {}, plain(one.path || one.path_hex)));
				return one.patch ? h("details", {}, h("summary", {}, head), diffLines(one.patch)) : h("p", { class: "change-line" }, head);
			}) : empty("Nothing differs from the image."),
			told.changes.length > 500 && h("p", { class: "hint" }, "The first 500 of " + told.changes.length + " changes are shown."));
	};

	const drop = h("div", { class: "drop" }, list);
	drop.addEventListener("dragover", (event) => event.preventDefault());
	drop.addEventListener("drop", (event) => {
		event.preventDefault();
		into([...event.dataTransfer.files]).catch(tell);
	});
	fill(place, h("div", { class: "bar" }, where, h("span", { class: "grow" }),
		button("Changes", changes, {}),
		button("New folder", async () => {
			const name = h("input", { type: "text", required: true, autocomplete: "off" });
			await ask("New folder", field("Name", name), "Make", async () => {
				await post(base + "/mkdir", { paths: [join(here, name.value)] });
				await show(here);
			});
		}, { icon: "folder" }),
		button("Download all", async () => {
			const reply = await raw(base + "/archive" + query({ path: here }));
			download(await reply.blob(), (here.slice(1).replaceAll("/", "-") || "root") + ".tar");
		}, { icon: "down", title: "This directory as a tar archive" }),
		button("Upload", () => upload.click(), { icon: "up", kind: "main" }), upload), drop, view);
	try {
		await show(here);
	} catch (error) {
		if (error.name === "AbortError")
			return;
		if (here !== "/")
			await show("/").catch((other) => fill(list, empty(other.message)));
		else
			fill(list, empty(error.message));
	}
}
