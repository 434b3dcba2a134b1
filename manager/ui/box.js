// SPDX-License-Identifier: Apache-2.0
// One sandbox: how it is, and a tab for each thing that can be done in it.
import { call, del, get, lines, of, post } from "./api.js";
import { ask, button, bytes, confirm, empty, facts, field, fill, h, icon, plain, say, span, table, when } from "./dom.js";
import { badge, cpuShare, idleness, lifeButtons, meter, nameOf } from "./boxes.js";
import { checkpointsTab } from "./checkpoints.js";
import { filesTab } from "./files.js";
import { eventsTab, logsTab, networkTab } from "./network.js";
import { terminalTab } from "./terminal.js";

const tabs = [["overview", "Overview"], ["terminal", "Terminal"], ["files", "Files"], ["logs", "Logs"], ["network", "Network"], ["checkpoints", "Checkpoints"], ["events", "Events"]];

function gauge(label, value, part, all, detail) {
	return h("div", { class: "gauge" }, h("p", { class: "gauge-name" }, label), h("p", { class: "gauge-value" }, value), all !== null && meter(part, all, label), h("p", { class: "dim" }, detail || " "));
}

async function overviewTab(place, box, signal) {
	const gauges = h("div", { class: "gauges" }), processes = h("div", {}), commands = h("div", {});
	const command = h("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: "ls -l", "aria-label": "Command line" });
	const output = h("div", { "aria-live": "polite" });
	const run = h("form", { class: "inline" }, field("Run a command", command), button("Run", null, { submit: true, kind: "main" }));
	run.addEventListener("submit", async (event) => {
		event.preventDefault();
		fill(output, h("p", { class: "dim" }, "Running…"));
		try {
			const told = await post(of(box.id) + "/exec", { argv: ["/bin/sh", "-c", command.value], max_output_bytes: 262144 });
			fill(output, h("p", { class: told.exit_status ? "wrong" : "dim" }, "exit status " + told.exit_status + (told.verdict && told.verdict.cause !== "exit" ? ": " + told.verdict.cause : "")),
				(told.stdout || told.stderr) && h("pre", { class: "code", tabindex: "0" }, (told.stdout || "") + (told.stderr || "")));
			await look();
		} catch (error) {
			fill(output, h("p", { class: "wrong" }, error.message));
		}
	});
	const labels = Object.entries(box.labels || {});
	fill(place, box.status === "running" && [gauges, run, output, h("h3", {}, "Processes"), processes, h("h3", {}, "Commands"), commands],
		h("h3", {}, "About"), facts([
			["Id", h("code", {}, box.id)], ["Image", plain(box.image)], ["Created", when(Date.parse(box.created) || box.created)],
			["Command", box.command && h("code", {}, plain(box.command.join(" ")))], ["Restart", box.restart], ["Restarts", box.restarts], ["Health", box.health],
			["Stopped because", box.stop_reason && plain(box.stop_reason)], ["Owner", box.owner && plain(box.owner)],
			["Memory limit", box.memory_limit_bytes && bytes(box.memory_limit_bytes)], ["CPU limit", box.cpu_limit_milli && box.cpu_limit_milli / 1000],
			["Process limit", box.pids_limit], ["Session", box.manager && plain(box.manager.session_ctx_id || "")]]),
		labels.length > 0 && [h("h3", {}, "Labels"), facts(labels.map(([name, value]) => [plain(name), plain(value)]))]);
	if (box.status !== "running")
		return;
	const look = async () => {
		const [top, known] = await Promise.all([get(of(box.id) + "/top", { signal }), get(of(box.id) + "/commands", { signal })]);
		fill(processes, table("Processes", ["PID", "Of", "State", "Command"], top.processes.map((one) => [one.pid, plain(one.of), plain(one.state), h("code", {}, plain(one.command))]), "Nothing runs in it."));
		fill(commands, table("Commands", ["Command", "State", ["Age", "number"], ["Output", "number"]], known.commands.map((one) => [h("code", {}, plain(one.text)),
			one.state + (one.verdict ? ": " + (one.verdict.cause === "exit" ? one.verdict.exit_status : one.verdict.cause) : ""), span(one.age_ms), bytes(one.stdout_bytes + one.stderr_bytes)]), "None was run yet."));
	};
	await look();
	let n = 0;
	for await (const stats of lines(of(box.id) + "/stats/watch", signal)) {
		if (stats.error)
			break;
		const share = cpuShare({ ...stats, id: box.id }), net = stats.network;
		fill(gauges, gauge("CPU", share === null ? "–" : Math.round(share * 100) + " %", share || 0, (box.cpu_limit_milli || 1000) / 1000, span(stats.cpu_ms) + " in all"),
			gauge("Memory", bytes(stats.memory_bytes), stats.memory_bytes, box.memory_limit_bytes, "of " + bytes(box.memory_limit_bytes) + ", peak " + bytes(stats.peak_memory_bytes)),
			gauge("Processes", stats.pids, stats.pids, box.pids_limit, box.pids_limit ? "of " + box.pids_limit : ""),
			gauge("Network", net && net.denied !== undefined ? net.denied + " denied" : net && net.mode || "none", 0, null, net && net.bytes_in !== undefined ? bytes(net.bytes_in) + " in, " + bytes(net.bytes_out) + " out" : ""),
			gauge("State", stats.busy ? "busy" : "idle", 0, null, idleness({ ...stats, status: "running" })));
		if (++n % 5 === 0)
			await look();
	}
}

export async function boxView(place, id, tab, signal, go) {
	let box = await get(of(id), { signal });
	const head = h("div", {}), body = h("div", { class: "panel", role: "tabpanel", id: "panel", tabindex: "-1" });
	let inner = null;

	const refresh = async () => {
		const before = box.status;
		box = await get(of(id), { signal });
		drawHead();
		if (box.status !== before)
			drawBody();
	};

	const drawHead = () => fill(head, h("a", { href: "#/sandboxes", class: "back" }, icon("back"), "Sandboxes"),
		h("div", { class: "bar head" }, h("h1", {}, nameOf(box)), badge(box), h("span", { class: "dim" }, idleness(box)), h("span", { class: "grow" }),
			lifeButtons(box, refresh),
			button("Rename", () => {
				const name = h("input", { type: "text", maxlength: 64, required: true, value: box.name || "", autocomplete: "off" });
				return ask("Rename", field("Name", name), "Rename", async () => {
					await post(of(id) + "/rename", { name: name.value });
					await refresh();
				});
			}),
			button("Remove", async () => {
				const gone = await confirm("Remove " + nameOf(box) + "?", "Its processes are ended, and its files and checkpoints are removed.", "Remove", () => call("DELETE", of(id) + "?force=true"));
				if (gone) {
					say(nameOf(box) + " was removed");
					go("#/sandboxes");
				}
			}, { icon: "trash", kind: "danger" })),
		h("div", { class: "tabs", role: "tablist", "aria-label": "Of this sandbox" }, tabs.map(([name, label]) => h("a", {
			role: "tab", id: "tab-" + name, href: "#/sandboxes/" + encodeURIComponent(id) + "/" + name, "aria-selected": String(name === tab), "aria-controls": "panel",
			tabindex: name === tab ? "0" : "-1",
			onkeydown: (event) => {
				const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
				if (!step)
					return;
				const at = tabs.findIndex(([one]) => one === name), to = tabs[(at + step + tabs.length) % tabs.length][0];
				event.preventDefault();
				go("#/sandboxes/" + encodeURIComponent(id) + "/" + to);
				setTimeout(() => document.getElementById("tab-" + to)?.focus(), 0);
			},
		}, label))));

	const drawBody = () => {
		if (inner)
			inner.abort();
		inner = new AbortController();
		const one = inner.signal;
		body.setAttribute("aria-labelledby", "tab-" + tab);
		fill(body);
		const stopped = box.status !== "running" && ["network"].includes(tab);
		const shown = stopped ? Promise.resolve(fill(body, empty("The sandbox does not run."))) :
			tab === "terminal" ? terminalTab(body, box, one) : tab === "files" ? filesTab(body, box, one) : tab === "logs" ? logsTab(body, box, one) :
			tab === "network" ? networkTab(body, box, one) : tab === "checkpoints" ? checkpointsTab(body, box, one, refresh) :
			tab === "events" ? eventsTab(body, of(id) + "/events", one) : overviewTab(body, box, one);
		shown.catch((error) => {
			if (error.name !== "AbortError" && !one.aborted)
				body.append(empty(error.message));
		});
	};

	signal.addEventListener("abort", () => inner && inner.abort());
	if (!tabs.some(([name]) => name === tab))
		tab = "overview";
	fill(place, head, body);
	drawHead();
	document.getElementById("tab-" + tab).scrollIntoView({ block: "nearest", inline: "center" });
	drawBody();
	document.title = nameOf(box) + " – berth";
	for await (const event of lines(of(id) + "/events", signal)) {
		if (event.type === "rm") {
			go("#/sandboxes");
			return;
		}
		if (["start", "stop", "pause", "resume", "rename", "update", "health"].includes(event.type))
			await refresh().catch(() => {});
	}
}

export { del };
