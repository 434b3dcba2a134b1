// SPDX-License-Identifier: Apache-2.0
// What a sandbox may reach, what it asked for, and each denial with a button that allows it; its log; its events.
import { get, lines, of, patch, query } from "./api.js";
import { button, bytes, clock, empty, facts, field, fill, h, icon, plain, say, table, tell } from "./dom.js";

const KEPT = 500;

const portOf = (one) => one.port && one.port !== 80 && one.port !== 443 ? ":" + one.port : "";
const refused = (one) => one.verdict !== "allow" && one.verdict !== "policy";
const words = { allow: "allowed", deny: "denied", cut: "cut", fail: "failed" };

export async function networkTab(place, box, signal) {
	const top = h("div", {}), rules = h("div", {}), log = h("div", {});
	const only = h("input", { type: "checkbox", id: "only-denied" });
	const seen = [], allowed = new Set();
	let mode = "none", dirty = false, counts = null;

	const allow = async (rule) => {
		await patch(of(box.id), { "allow-host": [rule] });
		say(rule + " is allowed from now on");
		allowed.add(rule);
		await state();
		draw();
	};

	const state = async () => {
		const told = await get(of(box.id) + "/network", { signal });
		const net = told.network || told;
		const before = JSON.stringify([net.mode, net.policy]);
		mode = net.mode || "none";
		fill(top, facts([["Network", mode], ["Address", net.address], ["Requests", net.requests], ["Allowed", net.allowed], ["Denied", net.denied],
			["Received", net.bytes_in === undefined ? null : bytes(net.bytes_in)], ["Sent", net.bytes_out === undefined ? null : bytes(net.bytes_out)]]));
		// what is being typed stays
		if (before === counts)
			return;
		counts = before;
		const listed = ["allow_host", "deny_host", "allow_net", "deny_net"].flatMap((name) =>
			((net.policy || {})[name] || []).map((rule) => [name.startsWith("deny") ? "deny " : "allow ", rule]));
		const host = h("input", { type: "text", placeholder: "pypi.org or *.github.com:443", autocomplete: "off", spellcheck: "false", required: true });
		const form = h("form", { class: "inline" }, field("Allow a host", host), button("Allow", null, { submit: true, kind: "main" }));
		form.addEventListener("submit", (event) => {
			event.preventDefault();
			allow(host.value.trim()).catch(tell);
		});
		fill(rules, mode === "none" ? empty("This sandbox has a loopback interface and no other network.") : [
			h("h3", {}, "Rules"),
			listed.length ? h("ul", { class: "chips" }, listed.map(([word, rule]) => h("li", { class: word === "deny " ? "chip bad" : "chip good" }, word, plain(rule)))) :
				h("p", { class: "dim" }, mode === "egress" ? "No rule: it reaches nothing." : "No rule."),
			form]);
	};

	const draw = () => {
		dirty = false;
		if (mode === "none") {
			fill(log);
			return;
		}
		const shown = seen.filter((one) => !only.checked || refused(one)).slice(-KEPT).reverse();
		fill(log, table("Requests of this sandbox", ["", "Time", "Host", ["Rule or reason", "wide"], ["", "end"]], shown.map((one) => {
			const host = one.host || one.address || "", rule = host + portOf(one), bad = refused(one);
			return [h("span", { class: "tag " + (bad ? "D" : one.verdict === "allow" ? "A" : "") }, words[one.verdict] || one.verdict), clock(Date.parse(one.time)),
				h("code", {}, plain(host) + (one.port ? ":" + one.port : "")), plain([one.rule, one.reason].filter(Boolean).join(" · ")),
				one.verdict === "deny" && one.host ? allowed.has(rule) ? h("span", { class: "dim" }, "allowed since") : button("Allow", () => allow(rule), { label: "Allow " + plain(rule), kind: "main small", icon: "check" }) : ""];
		}), "It asked for nothing yet."));
	};

	only.addEventListener("change", draw);
	fill(place, top, rules, h("div", { class: "bar" }, h("h3", {}, "Requests"), h("span", { class: "grow" }),
		h("label", { class: "check", for: "only-denied" }, only, " Denied only")), log);
	await state();
	draw();
	if (mode !== "egress")
		return;
	try {
		for await (const one of lines(of(box.id) + "/network/log?follow=true", signal)) {
			seen.push(one);
			if (seen.length > 2 * KEPT)
				seen.splice(0, KEPT);
			if (!dirty) {
				dirty = true;
				setTimeout(() => {
					if (signal.aborted)
						return;
					draw();
					state().catch(() => {});
				}, 100);
			}
		}
	} catch (error) {
		if (error.name !== "AbortError")
			throw error;
	}
}

export async function logsTab(place, box, signal) {
	const out = h("pre", { class: "code log", tabindex: "0", role: "log", "aria-label": "Log" });
	const search = h("input", { type: "search", placeholder: "Filter lines", "aria-label": "Filter lines" });
	const stay = h("input", { type: "checkbox", id: "follow-log", checked: true });
	let n = 0;
	search.addEventListener("input", () => {
		for (const line of out.children)
			line.hidden = !line.textContent.toLowerCase().includes(search.value.toLowerCase());
	});
	fill(place, h("div", { class: "bar" }, search, h("span", { class: "grow" }), h("label", { class: "check", for: "follow-log" }, stay, " Follow")), out);
	const none = empty("Nothing was written yet. Output of commands and sessions appears here.");
	out.after(none);
	for await (const one of lines(of(box.id) + "/logs" + query({ follow: "true", tail: 1000 }), signal)) {
		none.remove();
		const text = (one.data !== undefined ? one.data : one.dropped ? "… " + one.dropped + " bytes were dropped" : "")
			// the colours of a terminal are of no use here
			.replace(/\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007]*(\u0007|\u001b\\)/g, "").replace(/\r(?=\n)/g, "");
		const line = h("span", { class: "line " + (one.stream === "stderr" ? "err" : "") },
			h("span", { class: "from" }, (one.time ? clock(Number.isFinite(one.time) ? one.time : Date.parse(one.time)) : "") + " " + plain(one.source || "") + " "), text.endsWith("\n") ? text : text + "\n");
		line.hidden = Boolean(search.value) && !line.textContent.toLowerCase().includes(search.value.toLowerCase());
		out.append(line);
		if (++n > 5000)
			out.firstChild.remove();
		if (stay.checked)
			out.scrollTop = out.scrollHeight;
	}
}

const quiet = new Set(["type", "sandbox", "time", "time_ms", "name", "id", "who", "op", "event"]);

function detail(event) {
	return Object.entries(event).filter(([name]) => !quiet.has(name)).map(([name, value]) =>
		name.replaceAll("_", " ") + " " + plain(typeof value === "object" ? JSON.stringify(value) : value)).join(" · ");
}

export async function eventsTab(place, path, signal, names) {
	const list = h("ol", { class: "events", role: "log", "aria-label": "Events" }), none = empty("Waiting for something to happen…");
	fill(place, none, list);
	for await (const event of lines(path + "?since=0", signal)) {
		none.remove();
		const at = event.time_ms || event.time;
		list.prepend(h("li", {}, h("span", { class: "dim" }, at ? clock(Number.isFinite(at) ? at : Date.parse(at)) : ""), h("strong", {}, plain(event.op || event.type)),
			names && event.sandbox && h("a", { href: "#/sandboxes/" + encodeURIComponent(event.sandbox) }, plain(names(event.sandbox))),
			event.who && h("span", { class: "dim" }, "by " + plain(event.who)), h("span", { class: "what" }, detail(event))));
		if (list.children.length > 500)
			list.lastChild.remove();
	}
}

export { icon };
