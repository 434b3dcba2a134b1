// SPDX-License-Identifier: Apache-2.0
// All sandboxes, live, and the making of one.
import { get, lines, of, post } from "./api.js";
import { ask, button, busy, bytes, empty, field, fill, h, icon, plain, say, span, tell } from "./dom.js";

export const nameOf = (box) => plain(box.name || box.id.slice(0, 12));

// Why it is, or is not, idle.
export function idleness(box) {
	if (box.status !== "running")
		return box.stop_reason ? "stopped: " + plain(box.stop_reason) : "";
	if (box.busy)
		return "busy: " + plain(box.busy);
	if (box.idle_ms === undefined)
		return "";
	return box.idle_ms < 1000 ? "just used" : "idle for " + span(box.idle_ms);
}

export function badge(box) {
	const kind = box.status === "running" ? "good" : box.status === "paused" ? "warn" : "dim";
	return h("span", { class: "status " + kind }, box.status);
}

export function meter(part, all, label) {
	const share = all ? Math.min(1, part / all) : 0;
	return h("span", { class: "meter", role: "img", "aria-label": label },
		h("span", { class: "fill w" + Math.round(share * 20) + (share > 0.95 ? " bad" : share > 0.8 ? " warn" : "") }));
}

export async function act(box, verb) {
	await post(of(box.id) + "/" + verb);
}

export function lifeButtons(box, changed, small) {
	const kind = small ? "quiet" : "";
	const one = (verb, picture, label) => button(small ? "" : label, async () => {
		await act(box, verb);
		await changed();
	}, { icon: picture, label: label + " " + nameOf(box), kind, title: label });
	return box.status === "running" ? [one("pause", "pause", "Pause"), one("stop", "stop", "Stop")] :
		box.status === "paused" ? [one("resume", "play", "Resume"), one("stop", "stop", "Stop")] : [one("start", "play", "Start")];
}

// cpu of the last seconds, from two answers
const before = new Map();

export function cpuShare(box) {
	const now = performance.now(), last = before.get(box.id);
	if (box.cpu_ms === undefined)
		return null;
	if (!last || now - last.at > 500)
		before.set(box.id, { at: now, cpu: box.cpu_ms, share: last ? Math.max(0, (box.cpu_ms - last.cpu) / (now - last.at)) : null });
	return before.get(box.id).share;
}

export async function makeBox(open) {
	let images = [];
	try {
		images = (await get("/v1/images")).images.flatMap((one) => one.names || (one.name ? [one.name] : one.ref ? [one.ref] : []));
	} catch {
		// the list is only an offer
	}
	const list = h("datalist", { id: "images" }, ["host", ...new Set(images)].map((name) => h("option", { value: name })));
	const text = (more) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...more });
	const name = text({ maxlength: 64 }), image = text({ list: "images", placeholder: "host" }), command = text({ placeholder: "none: it waits for commands" });
	const memory = text({ placeholder: "512m" }), cpus = h("input", { type: "number", min: 0.01, step: "any", placeholder: "1" });
	const network = h("select", {}, [["", "No network"], ["egress", "Only allowed hosts"], ["bridge", "Bridge"]].map(([value, label]) => h("option", { value }, label)));
	const hosts = text({ placeholder: "pypi.org, *.github.com:443" });
	const hostsField = h("div", { hidden: true }, field("Allowed hosts", hosts, "Separated by commas. Others are denied, and can be allowed later."));
	network.addEventListener("change", () => {
		hostsField.hidden = network.value !== "egress";
	});
	return ask("New sandbox", [
		list, field("Name", name, "May be left empty."), field("Image", image), field("Command", command, "A service's main command, for /bin/sh -c."),
		h("div", { class: "two" }, field("Memory", memory), field("CPUs", cpus)), field("Network", network), hostsField,
	], "Create", async () => {
		const body = { options: {} };
		if (name.value.trim())
			body.name = name.value.trim();
		if (image.value.trim())
			body.image = image.value.trim();
		if (command.value.trim())
			body.command = ["/bin/sh", "-c", command.value];
		if (memory.value.trim())
			body.options.memory = memory.value.trim();
		if (cpus.value)
			body.options.cpus = cpus.value;
		if (network.value)
			body.options.network = network.value;
		const rules = hosts.value.split(/[\s,]+/).filter(Boolean);
		if (network.value === "egress" && rules.length)
			body.options["allow-host"] = rules;
		const made = await post("/v1/sandboxes", body);
		say((made.name || made.id) + " was created");
		open(made.id);
		return made;
	});
}

function card(box, changed) {
	const share = cpuShare(box), memory = box.memory_bytes;
	return h("li", { class: "card " + box.status, "data-id": box.id },
		h("div", { class: "card-head" }, h("a", { href: "#/sandboxes/" + encodeURIComponent(box.id), class: "card-name" }, nameOf(box)), badge(box)),
		h("p", { class: "dim clip" }, plain(box.image), box.labels && box.labels["berth.tenant"] ? " · " + plain(box.labels["berth.tenant"]) : ""),
		h("p", { class: "why" }, idleness(box) || " "),
		h("dl", { class: "mini" },
			h("div", {}, h("dt", {}, "CPU"), h("dd", {}, share === null ? "–" : Math.round(share * 100) + " %"), meter(share || 0, (box.cpu_limit_milli || 1000) / 1000, "CPU")),
			h("div", {}, h("dt", {}, "Memory"), h("dd", {}, memory === undefined ? "–" : bytes(memory)), meter(memory || 0, box.memory_limit_bytes, "Memory")),
			h("div", {}, h("dt", {}, "Processes"), h("dd", {}, box.pids === undefined ? "–" : box.pids), meter(box.pids || 0, box.pids_limit, "Processes"))),
		h("div", { class: "card-foot" }, h("span", { class: "dim" }, box.uptime_ms !== undefined ? "up " + span(box.uptime_ms) : "", box.health ? " · " + plain(box.health) : ""),
			h("span", { class: "row-actions" }, box.status === "running" && h("a", { class: "button quiet", href: "#/sandboxes/" + encodeURIComponent(box.id) + "/terminal", "aria-label": "Terminal of " + nameOf(box), title: "Terminal" }, icon("term")),
				lifeButtons(box, changed, true))));
}

export async function boxesView(place, signal, open) {
	const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search sandboxes" });
	const kind = h("select", { "aria-label": "Which sandboxes" }, [["", "All"], ["running", "Running"], ["paused", "Paused"], ["stopped", "Stopped"]].map(([value, label]) => h("option", { value }, label)));
	const list = h("ul", { class: "cards" }), count = h("span", { class: "dim", role: "status" }), none = h("div", {});
	let boxes = [], timer = null, loading = false, again = false;

	const draw = () => {
		const word = search.value.toLowerCase();
		const shown = boxes.filter((box) => (!kind.value || (kind.value === "stopped" ? !["running", "paused"].includes(box.status) : box.status === kind.value)) &&
			(!word || [box.name, box.id, box.image].some((text) => (text || "").toLowerCase().includes(word))));
		const focused = document.activeElement && list.contains(document.activeElement) ?
			[document.activeElement.closest(".card").dataset.id, document.activeElement.getAttribute("aria-label") || document.activeElement.textContent] : null;
		fill(list, shown.map((box) => card(box, load)));
		if (focused)
			for (const one of list.querySelectorAll("a, button"))
				if (one.closest(".card").dataset.id === focused[0] && (one.getAttribute("aria-label") || one.textContent) === focused[1])
					one.focus({ preventScroll: true });
		fill(count, boxes.filter((box) => box.status === "running").length + " running of " + boxes.length);
		fill(none, !boxes.length ? empty("There is no sandbox yet.", button("Create the first one", () => makeBox(open), { icon: "plus", kind: "main" })) :
			!shown.length ? empty("No sandbox fits.") : null);
	};

	const load = async () => {
		if (loading) {
			again = true;
			return;
		}
		loading = true;
		try {
			boxes = (await get("/v1/sandboxes", { signal })).sandboxes;
			boxes.sort((a, b) => (b.status === "running") - (a.status === "running") || String(b.created).localeCompare(String(a.created)));
			// a pressed button is not taken away
			if (!list.querySelector("[aria-busy]"))
				draw();
		} finally {
			loading = false;
		}
		if (again) {
			again = false;
			await load();
		}
	};

	search.addEventListener("input", draw);
	kind.addEventListener("change", draw);
	fill(place, h("div", { class: "bar head" }, h("h1", {}, "Sandboxes"), count, h("span", { class: "grow" }), search, kind,
		button("New sandbox", () => makeBox(open), { icon: "plus", kind: "main", id: "new" })), list, none);
	await load();
	const tick = () => {
		if (!document.hidden)
			load().catch(() => {});
	};
	timer = setInterval(tick, 3000);
	signal.addEventListener("abort", () => clearInterval(timer));
	let soon = null;
	for await (const event of lines("/v1/events", signal))
		if (event && !soon)
			soon = setTimeout(() => {
				soon = null;
				if (!signal.aborted)
					load().catch(() => {});
			}, 150);
}

export { busy, tell };
