// SPDX-License-Identifier: Apache-2.0
// The page: who is signed in, and which view the address asks for.
import { get, hasSession, onEnd, signIn, signOut } from "./api.js";
import { button, empty, field, fill, h, icon, plain, say, tell } from "./dom.js";
import { boxesView } from "./boxes.js";
import { boxView } from "./box.js";
import { hostView, imagesView, networksView, poolsView, volumesView } from "./host.js";
import { eventsTab } from "./network.js";

const top = document.getElementById("top"), main = document.getElementById("main");
const links = [["sandboxes", "Sandboxes", "boxes"], ["images", "Images", "image"], ["volumes", "Volumes", "disk"], ["networks", "Networks", "net"], ["pools", "Pools", "bolt"], ["events", "Events", "pulse"], ["host", "Host", "host"]];
let who = null, running = null;

const go = (hash) => {
	location.hash = hash;
};

function logo() {
	return h("a", { href: "#/sandboxes", class: "logo", "aria-label": "berth: all sandboxes" }, h("img", { src: "icon.svg", alt: "", width: 26, height: 26 }), h("span", {}, "berth"));
}

function signInView(note) {
	top.hidden = true;
	document.title = "Sign in – berth";
	const token = h("input", { type: "password", autocomplete: "off", required: true, id: "token", spellcheck: "false" });
	const wrong = h("p", { class: "wrong", role: "alert" }, note || "");
	const form = h("form", { class: "sign-in" }, h("img", { src: "icon.svg", alt: "", width: 48, height: 48 }), h("h1", {}, "berth"), h("p", { class: "dim" }, "Sign in to this host’s sandboxes."),
		field("Token", token, "One of the file of tokens of berthd."), wrong, button("Sign in", null, { submit: true, kind: "main wide" }),
		h("p", { class: "dim or" }, "On the host itself, ", h("code", {}, "berth ui"), " prints a link that signs you in."));
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		try {
			await signIn(token.value.trim());
			token.value = "";
			await start();
		} catch (error) {
			wrong.textContent = error.status === 401 ? "berthd does not know this token." : error.message;
			token.focus();
		}
	});
	fill(main, form);
	token.focus();
}

function drawTop() {
	const at = location.hash.split("/")[1] || "sandboxes";
	const shown = links.filter(([name]) => who.admin || name !== "host");
	top.hidden = false;
	fill(top, logo(), h("nav", { "aria-label": "Main" }, shown.map(([name, label, picture]) => h("a", { href: "#/" + name, "aria-current": name === at ? "page" : null, title: label }, icon(picture), h("span", {}, label)))),
		h("span", { class: "grow" }), h("span", { class: "who", title: who.admin ? "administrator" : "tenant" }, plain(who.name), h("span", { class: "role" }, who.admin ? "admin" : "tenant")),
		button("Sign out", async () => {
			if (running)
				running.abort();
			await signOut().catch(() => {});
			who = null;
			signInView("");
			say("You are signed out");
		}, { icon: "out", label: "Sign out", kind: "quiet", id: "sign-out" }));
}

async function show() {
	if (!who)
		return;
	const [, part = "sandboxes", one, tab] = location.hash.split("/").map(decodeURIComponent);
	if (running)
		running.abort();
	running = new AbortController();
	const signal = running.signal, place = h("div", { class: "view" });
	drawTop();
	document.title = "berth";
	fill(main, place);
	try {
		if (part === "sandboxes" && one)
			await boxView(place, one, tab || "overview", signal, go);
		else if (part === "images")
			await imagesView(place, signal);
		else if (part === "volumes")
			await volumesView(place, signal);
		else if (part === "networks")
			await networksView(place, signal);
		else if (part === "pools")
			await poolsView(place, signal, who.admin);
		else if (part === "host" && who.admin)
			await hostView(place, signal);
		else if (part === "events") {
			const body = h("div", {}), boxes = new Map((await get("/v1/sandboxes", { signal })).sandboxes.map((box) => [box.id, box.name]));
			fill(place, h("div", { class: "bar head" }, h("h1", {}, "Events")), body);
			await eventsTab(body, "/v1/events", signal, (id) => boxes.get(id) || id.slice(0, 12));
		} else
			await boxesView(place, signal, (id) => go("#/sandboxes/" + encodeURIComponent(id)));
	} catch (error) {
		if (error.name === "AbortError" || signal.aborted || !who)
			return;
		if (place.children.length)
			tell(error);
		else
			fill(place, empty(error.message, error.status === 404 && part === "sandboxes" && h("a", { href: "#/sandboxes", class: "button" }, "All sandboxes")));
	}
}

async function start() {
	who = await get("/ui/session");
	await show();
}

onEnd(() => {
	if (running)
		running.abort();
	who = null;
	signInView("Your session is over. Sign in again.");
});
window.addEventListener("hashchange", () => {
	if (!takeLink())
		show();
});
document.getElementById("skip").addEventListener("click", () => main.focus());

// A link is behind the #, which no server sees; it goes from the address before it is used.
function takeLink() {
	const found = /^#link=([a-z0-9_]+)$/.exec(location.hash);
	if (!found)
		return false;
	history.replaceState(null, "", location.pathname + "#/sandboxes");
	(async () => {
		if (who)
			await signOut().catch(() => {});
		who = null;
		try {
			await signIn(found[1]);
			await start();
		} catch (error) {
			signInView(error.status === 401 || error.status === 403 ? "This link was used, or is too old. berth ui prints another." : error.message);
		}
	})();
	return true;
}

if (!takeLink()) {
	if (hasSession())
		start().catch((error) => signInView(error.status === 401 ? "" : error.message));
	else
		signInView("");
}
