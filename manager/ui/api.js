// SPDX-License-Identifier: Apache-2.0
// Requests of /v1.  The session is in this tab alone (sessionStorage is the origin's, its port included), and goes as a field.

const KEY = "berth.session";
let session = sessionStorage.getItem(KEY);
let ended = () => {};

export function onEnd(action) {
	ended = action;
}

export function hasSession() {
	return Boolean(session);
}

function forget() {
	session = null;
	sessionStorage.removeItem(KEY);
}

export class Wrong extends Error {
	constructor(status, error) {
		super(error && error.message || (status ? "berthd answered " + status : "berthd does not answer"));
		this.status = status;
		this.code = error && error.code;
		this.remedy = error && error.remedy;
	}
}

async function request(method, path, options = {}) {
	const headers = {};
	if (options.token || session)
		headers.Authorization = "Bearer " + (options.token || session);
	if (options.json !== undefined)
		headers["Content-Type"] = "application/json";
	let reply;
	try {
		reply = await fetch(path, {
			method, headers, signal: options.signal, credentials: "omit", cache: "no-store", redirect: "error",
			body: options.json !== undefined ? JSON.stringify(options.json) : options.body,
		});
	} catch (error) {
		if (error.name === "AbortError")
			throw error;
		throw new Wrong(0, null);
	}
	if (reply.ok)
		return reply;
	let error = null;
	try {
		const told = await reply.json();
		error = told.error || { message: told.detail || told.message };
	} catch {
		// not JSON: the status says it
	}
	if (reply.status === 401 && !options.token && session) {
		forget();
		ended();
	}
	throw new Wrong(reply.status, error);
}

export async function call(method, path, json, options = {}) {
	const reply = await request(method, path, { ...options, json });
	return reply.status === 204 ? null : reply.json();
}

export const get = (path, options) => call("GET", path, undefined, options);
export const post = (path, json, options) => call("POST", path, json, options);
export const patch = (path, json) => call("PATCH", path, json);
export const del = (path) => call("DELETE", path);

export async function put(path, body) {
	return (await request("PUT", path, { body })).json();
}

export async function send(path, body) {
	return (await request("POST", path, { body })).json();
}

export function raw(path, options) {
	return request("GET", path, options);
}

// The objects of a stream, as they come.
export async function* lines(path, signal) {
	const reply = await request("GET", path, { signal });
	const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	for (;;) {
		const { value, done } = await reader.read();
		if (done)
			return;
		const parts = (rest + value).split("\n");
		rest = parts.pop();
		for (const part of parts)
			if (part.trim())
				yield JSON.parse(part);
	}
}

export async function signIn(token) {
	const made = await call("POST", "/ui/session", undefined, { token });
	session = made.session;
	sessionStorage.setItem(KEY, session);
	return made;
}

export async function signOut() {
	try {
		await del("/ui/session");
	} finally {
		forget();
	}
}

export const of = (id) => "/v1/sandboxes/" + encodeURIComponent(id);

export function query(values) {
	const text = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "")
		.map(([name, value]) => encodeURIComponent(name) + "=" + encodeURIComponent(value)).join("&");
	return text ? "?" + text : "";
}
