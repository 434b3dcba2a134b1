// SPDX-License-Identifier: Apache-2.0
// What there is besides sandboxes: images, volumes, networks, pools and sessions, the host.
import { call, get, post, query } from "./api.js";
import { ask, button, bytes, confirm, empty, facts, field, fill, h, plain, say, table, when } from "./dom.js";
import { meter } from "./boxes.js";

const text = (more) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...more });

function head(title, ...more) {
	return h("div", { class: "bar head" }, h("h1", {}, title), h("span", { class: "grow" }), ...more);
}

const size = (one) => one.size_bytes ?? one.bytes ?? one.size;
const created = (one) => one.created ? when(Date.parse(one.created) || Number(one.created)) : one.created_ms ? when(one.created_ms) : "";

export async function imagesView(place, signal) {
	const list = h("div", {});
	const draw = async () => {
		const { images } = await get("/v1/images", { signal });
		fill(list, table("Images", ["Image", ["Digest", "wide"], ["Size", "number"], ["Made", "wide"], ["", "end"]], images.map((one) => {
			const name = one.name || (one.names || [])[0] || one.ref || one.digest;
			return [h("code", {}, plain(name)), h("code", {}, plain(String(one.digest || one.id || "").slice(0, 19))), bytes(size(one)), created(one),
				name && name !== "host" ? button("", () => confirm("Remove " + plain(name) + "?", "What only it needs is removed with it.", "Remove", async () => {
					await call("DELETE", "/v1/images" + query({ ref: name }));
					await draw();
				}), { icon: "trash", label: "Remove " + plain(name), kind: "quiet" }) : ""];
		}), "There is no image yet. Sandboxes can run on the host's own files, with the image “host”."));
	};
	fill(place, head("Images", button("Pull", () => {
		const ref = text({ placeholder: "docker.io/library/alpine", required: true });
		return ask("Pull an image", field("Image", ref, "It may take minutes."), "Pull", async () => {
			await post("/v1/images/pull", { ref: ref.value.trim() });
			say("The image is here");
			await draw();
		});
	}, { icon: "down", kind: "main" })), list);
	await draw();
}

export async function volumesView(place, signal) {
	const list = h("div", {});
	const draw = async () => {
		const { volumes } = await get("/v1/volumes", { signal });
		fill(list, table("Volumes", ["Volume", ["Size", "number"], ["Made", "wide"], ["", "end"]], volumes.map((one) => [h("code", {}, plain(one.name)), bytes(size(one)), created(one),
			button("", () => confirm("Remove " + plain(one.name) + "?", "Its files are removed for good.", "Remove", async () => {
				await call("DELETE", "/v1/volumes/" + encodeURIComponent(one.name));
				await draw();
			}), { icon: "trash", label: "Remove " + plain(one.name), kind: "quiet" })]), "There is no volume yet."));
	};
	fill(place, head("Volumes", button("New volume", () => {
		const name = text({ required: true, maxlength: 64 }), room = text({ placeholder: "1g" });
		return ask("New volume", [field("Name", name), field("Size", room)], "Make", async () => {
			const body = { name: name.value.trim() };
			if (room.value.trim())
				body.size = room.value.trim();
			await post("/v1/volumes", body);
			await draw();
		});
	}, { icon: "plus", kind: "main" })), list);
	await draw();
}

export async function networksView(place, signal) {
	const list = h("div", {});
	const draw = async () => {
		const { networks } = await get("/v1/networks?named=true", { signal });
		fill(list, table("Networks", ["Network", "Subnet", ["Members", "number"], ["", "end"]], networks.map((one) => [h("code", {}, plain(one.name)), plain(one.subnet || (one.internal ? "internal" : "")),
			Array.isArray(one.members) ? one.members.length : one.members ?? "", button("", () => confirm("Remove " + plain(one.name) + "?", "It must have no member.", "Remove", async () => {
				await call("DELETE", "/v1/networks/" + encodeURIComponent(one.name));
				await draw();
			}), { icon: "trash", label: "Remove " + plain(one.name), kind: "quiet" })]), "There is no network with a name yet."));
	};
	fill(place, head("Networks", button("New network", () => {
		const name = text({ required: true, maxlength: 64 }), internal = h("input", { type: "checkbox" });
		return ask("New network", [field("Name", name), h("label", { class: "check" }, internal, " Its members see each other and nothing else")], "Make", async () => {
			await post("/v1/networks", internal.checked ? { name: name.value.trim(), internal: true } : { name: name.value.trim() });
			await draw();
		});
	}, { icon: "plus", kind: "main" })), list);
	await draw();
}

const numbers = (map) => facts(Object.entries(map || {}).map(([name, value]) => [name.replaceAll("_", " "), typeof value === "object" ? JSON.stringify(value) : String(value)]));

export async function poolsView(place, signal, admin) {
	const sessions = await get("/v1/manager/sessions", { signal }), records = await get("/v1/manager/sandboxes", { signal });
	const stats = admin ? await get("/v1/manager/stats", { signal }) : null;
	fill(place, head("Pools and sessions"),
		stats && [stats.pool_error && h("p", { class: "wrong" }, plain(stats.pool_error)),
			h("h3", {}, "Pools"), table("Pools", ["Pool", "Image", ["Warm", "number"]], Object.entries(stats.pools).map(([name, one]) => [plain(name), h("code", {}, plain(one.image)),
				h("span", {}, one.warm + " of " + one.size, " ", meter(one.warm, one.size, "Warm"))]), "No pool is configured."),
			h("h3", {}, "Manager"), facts([["Host", plain(stats.host)], ["Store", plain(stats.store)], ["Storage", plain(stats.storage)], ["Sessions", stats.sessions]]),
			Object.keys(stats.states).length > 0 && [h("h3", {}, "States"), numbers(stats.states)], h("h3", {}, "Admission"), numbers(stats.admission)],
		h("h3", {}, "Sandboxes of the manager"), table("Sandboxes of the manager", ["Sandbox", "Session", "State"], records.sandboxes.map((one) => [
			h("code", {}, plain(one.container_name)), plain(one.session_id), plain(one.state)]), "The manager keeps none."),
		h("h3", {}, "Sessions"), sessions.sessions.length ? h("ul", { class: "chips" }, sessions.sessions.map((one) => h("li", { class: "chip" }, plain(one)))) : empty("There is no session."));
}

export async function hostView(place, signal) {
	const [version, disk, config, boxes] = await Promise.all([get("/v1/version", { signal }), get("/v1/system/df", { signal }), get("/v1/system/config", { signal }), get("/v1/sandboxes", { signal })]);
	const rooms = [["State", disk.state_dir], ["Run", disk.run_dir]].filter(([, one]) => one);
	const tenants = new Map();
	for (const box of boxes.sandboxes) {
		const owner = box.owner || (box.labels || {})["berth.owner"] || (box.labels || {})["berth.tenant"] || "";
		const one = tenants.get(owner) || { all: 0, running: 0, memory: 0 };
		one.all++;
		one.running += box.status === "running";
		one.memory += box.memory_bytes || 0;
		tenants.set(owner, one);
	}
	const doctor = h("div", {});
	fill(place, head("Host"), facts([["berthd", version.version], ["Up since", when(Date.now() - version.uptime_ms)], ["Running", disk.sandboxes.running + " of " + disk.max_sandboxes],
		["Stopped", disk.sandboxes.stopped], ["Written by sandboxes", bytes(disk.sandboxes.writable_bytes)]]),
	h("h3", {}, "Disk"), table("Disk", ["What", "Path", ["Free", "number"]], rooms.map(([name, one]) => [name, h("code", {}, plain(one.path)), h("span", {}, bytes(one.free_bytes) + " of " + bytes(one.total_bytes), " ", meter(one.total_bytes - one.free_bytes, one.total_bytes, "Used"))])),
	h("h3", {}, "Tenants"), table("Tenants", ["Tenant", ["Running", "number"], ["All", "number"], ["Memory", "number"]], [...tenants].map(([name, one]) => [name ? plain(name) : "administrators", one.running, one.all, bytes(one.memory)]), "Nobody has a sandbox."),
	h("div", { class: "bar" }, h("h3", {}, "What this host can enforce"), h("span", { class: "grow" }), button("Look", async () => {
		const told = await get("/v1/system/doctor", { signal });
		const checks = told.checks || Object.entries(told).map(([name, value]) => ({ name, detail: typeof value === "object" ? JSON.stringify(value) : String(value) }));
		fill(doctor, table("Checks", ["Check", "Result", "What it means"], checks.map((one) => [plain(one.name || one.check || ""), plain(one.status || one.result || (one.ok === undefined ? "" : one.ok ? "ok" : "missing")), plain(one.detail || one.text || one.message || "")])));
	})), doctor,
	h("h3", {}, "Configuration"), h("details", {}, h("summary", {}, "In force"), h("pre", { class: "code", tabindex: "0" }, JSON.stringify(config, null, 2))));
}
