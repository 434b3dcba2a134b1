// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a sandbox as the tree that they are, with undo and fork.
import { del, get, of, post } from "./api.js";
import { ask, button, bytes, confirm, empty, field, fill, h, plain, say, when } from "./dom.js";
import { diffLines } from "./files.js";

export async function checkpointsTab(place, box, signal, changed) {
	const base = of(box.id);
	const view = h("section", { class: "viewer", hidden: true, "aria-label": "Changes" });

	const make = () => {
		const name = h("input", { type: "text", maxlength: 64, autocomplete: "off" });
		return ask("New checkpoint", field("Name", name, "May be left empty."), "Make", async () => {
			await post(base + "/checkpoints", name.value ? { name: name.value } : {});
			say("The checkpoint was made");
			await draw();
		});
	};

	const undo = (one) => confirm("Put the files back?",
		"All files become as they were at " + label(one) + ". What runs is ended, and the sandbox starts again.", "Undo to here", async () => {
			const told = await post(base + "/undo", { to: one.id });
			say("The files are as they were at " + label(one) + (told.ended.length ? "; " + told.ended.length + " processes were ended" : ""));
			await changed();
			await draw();
		});

	const fork = (one) => {
		const name = h("input", { type: "text", maxlength: 64, autocomplete: "off" }), count = h("input", { type: "number", min: 1, max: 100, value: 1 });
		return ask("Fork from " + label(one), [field("Name", name, "Of one fork, or what the names of several begin with. May be left empty."), field("How many", count)], "Fork", async () => {
			const body = { checkpoint: one.id, count: Number(count.value) };
			if (name.value)
				body.name = name.value;
			const told = await post(base + "/fork", body);
			say("Made: " + told.forks.map((other) => other.name || other.id).join(", "));
			await changed();
		});
	};

	const changes = async (one) => {
		const told = await get(base + "/diff?patch=true&from=" + encodeURIComponent(one.id), { signal });
		view.hidden = false;
		fill(view, h("div", { class: "bar" }, h("h3", {}, "Changes since " + label(one)), h("span", { class: "grow" }), button("Close", () => {
			view.hidden = true;
		})), told.changes.length ? told.changes.slice(0, 500).map((change) => {
			const head = h("span", { class: "change" }, h("span", { class: "tag " + change.change[0].toUpperCase() }, change.change), h("code", {}, plain(change.path || change.path_hex)));
			return change.patch ? h("details", {}, h("summary", {}, head), diffLines(change.patch)) : h("p", { class: "change-line" }, head);
		}) : empty("Nothing changed since."));
		view.scrollIntoView({ block: "nearest" });
	};

	const label = (one) => plain(one.name || one.id);

	const node = (one, children, head) => h("li", {}, h("div", { class: "checkpoint" + (one.id === head ? " head" : "") },
		h("div", {}, h("strong", {}, label(one)), one.id === head && h("span", { class: "tag A" }, "the files come from here"),
			h("p", { class: "dim" }, when(one.created_ms) + " · " + bytes(one.bytes)),
			one.command && h("p", { class: "dim" }, (one.before_command ? "before: " : "after: "), h("code", {}, plain(one.command)))),
		h("div", { class: "row-actions" }, button("Undo to here", () => undo(one), { icon: "undo", label: "Undo to " + label(one), kind: "small" }),
			button("Fork", () => fork(one), { icon: "fork", label: "Fork from " + label(one), kind: "small" }),
			button("Changes", () => changes(one), { label: "Changes since " + label(one), kind: "small" }),
			button("", () => confirm("Remove " + label(one) + "?", "The files of the sandbox stay as they are.", "Remove", async () => {
				await del(base + "/checkpoints/" + encodeURIComponent(one.id));
				await draw();
			}), { icon: "trash", label: "Remove " + label(one), kind: "quiet" }))),
	(children.get(one.id) || []).length > 0 && h("ul", {}, children.get(one.id).map((child) => node(child, children, head))));

	// A line of checkpoints would be as deep as it is long: a child without brothers stays on its parent's level.
	const branch = (first, children, head) => {
		const items = [];
		let list = first;
		while (list.length === 1) {
			const one = list[0];
			items.push(node(one, new Map(), head));
			list = children.get(one.id) || [];
		}
		if (list.length > 1)
			items.push(h("li", { class: "branches" }, list.map((one) => h("ul", { class: "tree" }, branch([one], children, head)))));
		return items;
	};

	const tree = h("div", {});
	const draw = async () => {
		const told = await get(base + "/checkpoints", { signal });
		const known = new Set(told.checkpoints.map((one) => one.id)), children = new Map(), roots = [];
		for (const one of told.checkpoints)
			if (one.parent && known.has(one.parent))
				children.set(one.parent, [...(children.get(one.parent) || []), one]);
			else
				roots.push(one);
		fill(tree, h("div", { class: "bar" }, h("p", { class: "dim" }, told.checkpoints.length + (told.checkpoints.length === 1 ? " checkpoint" : " checkpoints") +
			(told.held_bytes !== undefined ? ", " + bytes(told.held_bytes) + " beyond the files of now" : "")), h("span", { class: "grow" }),
		button("New checkpoint", make, { icon: "camera", kind: "main" })),
		roots.length ? roots.map((root) => h("ul", { class: "tree" }, branch([root], children, told.head))) :
			empty("A checkpoint keeps the files as they are now, so that you can come back to them."));
	};
	fill(place, tree, view);
	await draw();
}
