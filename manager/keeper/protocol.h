/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol - the operations of a keeper: one table for the keeper and its clients.
 *
 * A request is one packet (wire.h): {"v":N,"op":NAME} and the members of that operation, which
 * defines its answers. The keeper refuses an operation, a member or a type that is not in the
 * table, here and nowhere else, so its handlers read members of the right type. A null counts as
 * absent.
 *
 * A keeper runs as long as its sandbox. So berth may be upgraded meanwhile, and an older berthd may
 * ask a newer keeper. "v" is the oldest version of the protocol that knows the operation and every
 * member of the request (protocol_needs()). An older keeper refuses such a request as a whole, and
 * serves all others. Answers stay version 1, and a client ignores the members of an answer that it
 * does not know.
 *
 * To add an operation, write a row here and keeper_op_NAME() in the keeper. To add a member to an
 * existing operation, write SINCE(). A row or a member is never removed: older clients send it.
 */
#ifndef BERTH_MANAGER_KEEPER_PROTOCOL_H
#define BERTH_MANAGER_KEEPER_PROTOCOL_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

#define PROTOCOL_VERSION 3

/*
 * Every member of a request: its name, which is its key, and its type.  Only a health check merges;
 * "unruled" comes through the door of another system, which has no [policy].
 */
#define PROTOCOL_MEMBERS(X) \
	X(addresses, STRINGS) X(aliases, STRINGS) X(all, FLAG) X(allow_host, STRINGS) X(allow_net, STRINGS) \
	X(argv, STRINGS) \
	X(checkpoint, FLAG) \
	X(cols, NUMBER) X(command, STRING) X(cpu_milli, LIMIT) X(cpu_ms, NUMBER) X(data, FLAG) \
	X(deny_host, STRINGS) X(deny_net, STRINGS) X(detach, FLAG) X(drain_ms, NUMBER) \
	X(env, STRINGS) X(eof, FLAG) X(from, NUMBER) X(grace_ms, NUMBER) X(guard, FLAG) \
	X(guardian_pid, NUMBER) X(health, OBJECT) X(hold, FLAG) \
	X(idle_timeout_ms, NUMBER) X(index, NUMBER) X(inline, FLAG) X(io_bytes, NUMBER) \
	X(io_rates, STRINGS) X(io_weight, NUMBER) X(ipv6, FLAG) X(is_text, FLAG) X(keep, NUMBER) \
	X(max, NUMBER) X(max_bytes, NUMBER) X(max_connections, NUMBER) \
	X(max_rate, NUMBER) \
	X(max_silent_ms, NUMBER) X(memory_bytes, LIMIT) \
	X(merge, FLAG) X(mount, OBJECT) X(name, STRING) X(net_bytes, NUMBER) \
	X(no_wait, FLAG) X(on_timeout, STRING) X(op, STRING) \
	X(own, FLAG) X(owner, STRING) X(owner_grace_ms, NUMBER) \
	X(pause_at_end, FLAG) \
	X(pids, LIMIT) X(port, NUMBER) X(queue_ms, NUMBER) X(reset_rules, FLAG) X(restart, STRING) \
	X(resume_ttl_ms, NUMBER) X(rows, NUMBER) X(session, STRING) \
	X(signal, NUMBER) X(silent, FLAG) X(split, FLAG) X(stays, FLAG) X(stderr_from, NUMBER) \
	X(stdin_open, FLAG) X(stop_at_end, FLAG) X(stream, STRING) X(streams, STRINGS) \
	X(text, STRING) \
	X(time_ms, NUMBER) X(timeout_ms, NUMBER) \
	X(token, STRING) X(ttl_ms, NUMBER) X(tty, FLAG) X(ulimits, STRINGS) \
	X(unruled, FLAG) \
	X(user, STRING) X(v, NUMBER) X(wait, FLAG) X(wait_children, FLAG) X(workdir, STRING)

enum protocol_type {
	PROTOCOL_STRING,
	PROTOCOL_STRINGS,
	PROTOCOL_NUMBER,	/* a whole number from 0 */
	PROTOCOL_LIMIT,		/* a whole number from 0 or "unlimited" */
	PROTOCOL_FLAG,
	PROTOCOL_OBJECT,
};

enum protocol_flags {
	PROTOCOL_RUNNING = 1,	/* processes of the sandbox serve it: refused while paused or stopping */
	PROTOCOL_WORK = 2,	/* a stop with a drain waits until it ends */
	PROTOCOL_COMMAND = 4,	/* "command" names the command */
	PROTOCOL_EITHER = 8,	/* it is about "command" if given, else about "session" */
	PROTOCOL_WAKES = 16,	/* as PROTOCOL_RUNNING, and it resumes a sandbox with resume_ttl_ms */
	PROTOCOL_LAST = 32,	/* served in the places that are kept for the sandbox's end */
};

/* A member that exists since version 1, or since a later one. */
#define HAS(name) { MEMBER_##name, 1 },
#define SINCE(version, name) { MEMBER_##name, version },

/* Members that any request may have. An older berth stdio sends "inline" with every operation. */
#define PROTOCOL_COMMON HAS(v) HAS(op) HAS(data) HAS(guard) HAS(inline)

/*
 * Every operation: its name in C, which is that of its handler; its name in a request; the version
 * that introduced it; how many descriptors may be sent with it; its flags; its members.
 */
#define PROTOCOL_OPERATIONS(X) \
	X(adopt, "adopt", 1, 0, 0, HAS(token) HAS(env) HAS(mount)) \
	X(attest, "attest", 1, 0, PROTOCOL_RUNNING, ) \
	X(checkpoint, "checkpoint", 2, 0, PROTOCOL_WORK, SINCE(2, name) SINCE(2, keep) \
	  SINCE(2, owner)) \
	X(code, "code", 2, 4, PROTOCOL_RUNNING | PROTOCOL_WORK, SINCE(2, timeout_ms)) \
	X(commands, "commands", 1, 0, 0, ) \
	X(exec, "exec", 1, 3, PROTOCOL_RUNNING | PROTOCOL_WORK, HAS(argv) HAS(env) HAS(user) \
	  HAS(workdir) HAS(ulimits) HAS(tty) HAS(rows) HAS(cols) HAS(detach) HAS(silent) \
	  HAS(is_text) HAS(stdin_open) HAS(wait_children) HAS(name) HAS(timeout_ms) HAS(grace_ms) \
	  HAS(memory_bytes) HAS(cpu_milli) HAS(pids) SINCE(2, checkpoint) \
	  SINCE(2, max_silent_ms) SINCE(2, hold) SINCE(3, unruled)) \
	X(file, "file", 1, 3, PROTOCOL_RUNNING | PROTOCOL_WORK, HAS(argv) HAS(user) \
	  HAS(timeout_ms)) \
	X(follow, "follow", 1, 0, PROTOCOL_COMMAND | PROTOCOL_WAKES, HAS(command) HAS(stream) \
	  HAS(from) HAS(stderr_from) SINCE(2, hold)) \
	X(forget, "forget", 1, 0, PROTOCOL_COMMAND, HAS(command)) \
	X(forward, "forward", 1, 0, 0, HAS(signal)) \
	X(grant, "grant", 2, 0, 0, SINCE(2, cpu_ms) SINCE(2, time_ms) SINCE(2, io_bytes) \
	  SINCE(2, net_bytes)) \
	X(guard, "guard", 1, 0, 0, ) \
	X(health, "health", 2, 0, 0, SINCE(2, wait)) \
	X(hold, "hold", 1, 0, 0, ) \
	X(layers, "layers", 1, 0, 0, HAS(index)) \
	X(leave, "leave", 1, 2, PROTOCOL_COMMAND, HAS(command) HAS(streams)) \
	X(listen, "listen", 3, 0, PROTOCOL_RUNNING, SINCE(3, port)) \
	X(network, "network", 1, 0, 0, ) \
	X(network_join, "network-join", 2, 0, PROTOCOL_RUNNING, SINCE(2, name) SINCE(2, aliases) SINCE(3, addresses)) \
	X(network_leave, "network-leave", 2, 0, PROTOCOL_RUNNING, SINCE(2, name)) \
	X(network_rules, "network-rules", 2, 0, 0, ) \
	X(network_share, "network-share", 2, 0, 0, ) \
	X(output, "output", 1, 0, PROTOCOL_COMMAND, HAS(command) HAS(stream) HAS(from) HAS(max)) \
	X(pause, "pause", 1, 0, 0, ) \
	X(ping, "ping", 1, 0, PROTOCOL_LAST, ) \
	X(port, "port", 3, 0, PROTOCOL_RUNNING, SINCE(3, port) SINCE(3, ipv6)) \
	X(resize, "resize", 1, 0, PROTOCOL_COMMAND | PROTOCOL_WAKES, HAS(command) HAS(rows) \
	  HAS(cols)) \
	X(resume, "resume", 1, 0, 0, ) \
	X(send, "send", 1, 1, PROTOCOL_EITHER | PROTOCOL_WAKES, HAS(command) HAS(session) \
	  HAS(text) HAS(eof)) \
	X(session_close, "session-close", 1, 0, 0, HAS(session)) \
	X(sessions, "sessions", 1, 0, 0, ) \
	X(sh, "sh", 1, 1, PROTOCOL_RUNNING | PROTOCOL_WORK, HAS(session) HAS(text) HAS(split) \
	  HAS(timeout_ms) HAS(on_timeout) HAS(queue_ms) HAS(no_wait) SINCE(2, checkpoint) \
	  SINCE(2, max_silent_ms)) \
	X(sh_cancel, "sh-cancel", 1, 0, 0, HAS(session) HAS(own)) \
	X(sh_wait, "sh-wait", 1, 0, 0, HAS(session) HAS(timeout_ms) HAS(on_timeout)) \
	X(signal, "signal", 1, 0, PROTOCOL_EITHER | PROTOCOL_WAKES, HAS(command) HAS(session) \
	  HAS(signal) HAS(all)) \
	X(silent, "silent", 2, 0, 0, ) \
	X(stats, "stats", 1, 0, 0, ) \
	X(stop, "stop", 1, 0, PROTOCOL_LAST, HAS(grace_ms) HAS(drain_ms) HAS(stays) SINCE(2, signal)) \
	X(update, "update", 1, 0, 0, HAS(memory_bytes) HAS(cpu_milli) HAS(pids) HAS(ttl_ms) \
	  HAS(idle_timeout_ms) HAS(allow_host) HAS(deny_host) HAS(allow_net) HAS(deny_net) \
	  HAS(max_bytes) HAS(max_connections) SINCE(2, max_rate) \
	  SINCE(2, restart) SINCE(2, guardian_pid) \
	  SINCE(2, owner) SINCE(2, owner_grace_ms) SINCE(2, pause_at_end) \
	  SINCE(2, stop_at_end) SINCE(2, resume_ttl_ms) \
	  SINCE(2, health) SINCE(2, io_rates) \
	  SINCE(2, io_weight) SINCE(2, reset_rules)) \
	X(wait, "wait", 1, 0, PROTOCOL_COMMAND, HAS(command))

enum protocol_member {
#define X(name, type) MEMBER_##name,
	PROTOCOL_MEMBERS(X)
#undef X
	MEMBER_COUNT,
};

enum protocol_op {
#define X(name, ...) OP_##name,
	PROTOCOL_OPERATIONS(X)
#undef X
	OP_COUNT,
};

struct protocol_operation {
	const char *name;
	unsigned since, fds, flags;
	const struct protocol_has {
		uint8_t member, since;	/* 0, 0: the end */
	} *members;
};

extern const struct protocol_operation protocol_operations[OP_COUNT];

/* Returns the operation with that name, or OP_COUNT. */
enum protocol_op protocol_find(const char *name);
/* Checks a request that came with count descriptors: returns its operation, or OP_COUNT with e. */
enum protocol_op protocol_check(const json_t *rq, size_t count, struct err *e);
/* Returns the oldest version that knows everything in the request. */
unsigned protocol_needs(const json_t *rq);

/*
 * The members of a request that protocol_check() has passed. request_NAME(rq, otherwise) returns
 * the member, or otherwise if it is absent; request_NAME(rq) of a flag is 1 or 0, and of an array
 * or object is borrowed, or NULL. request_has_NAME(rq) tells whether the member is present.
 */
#define PROTOCOL_UNLIMITED UINT64_MAX

static inline const char *protocol_string(const json_t *rq, const char *key, const char *otherwise)
{
	const char *s = json_string_value(json_object_get(rq, key));

	return s ? s : otherwise;
}

static inline uint64_t protocol_number(const json_t *rq, const char *key, uint64_t otherwise)
{
	const json_t *v = json_object_get(rq, key);

	if (json_is_string(v))
		return PROTOCOL_UNLIMITED;
	return json_is_integer(v) ? (uint64_t)json_integer_value(v) : otherwise;
}

static inline int protocol_flag(const json_t *rq, const char *key)
{
	return json_is_true(json_object_get(rq, key));
}

static inline json_t *protocol_value(const json_t *rq, const char *key)
{
	json_t *v = json_object_get(rq, key);

	return json_is_null(v) ? NULL : v;
}

#define PROTOCOL_GET_STRING(name) \
	static inline const char *request_##name(const json_t *rq, const char *otherwise) \
	{ \
		return protocol_string(rq, #name, otherwise); \
	}
#define PROTOCOL_GET_NUMBER(name) \
	static inline uint64_t request_##name(const json_t *rq, uint64_t otherwise) \
	{ \
		return protocol_number(rq, #name, otherwise); \
	}
#define PROTOCOL_GET_LIMIT(name) PROTOCOL_GET_NUMBER(name)
#define PROTOCOL_GET_FLAG(name) \
	static inline int request_##name(const json_t *rq) \
	{ \
		return protocol_flag(rq, #name); \
	}
#define PROTOCOL_GET_STRINGS(name) \
	static inline json_t *request_##name(const json_t *rq) \
	{ \
		return protocol_value(rq, #name); \
	}
#define PROTOCOL_GET_OBJECT(name) PROTOCOL_GET_STRINGS(name)

#define PROTOCOL_HAS(name) \
	static inline int request_has_##name(const json_t *rq) \
	{ \
		return protocol_value(rq, #name) != NULL; \
	}

#define X(name, type) PROTOCOL_HAS(name) PROTOCOL_GET_##type(name)
PROTOCOL_MEMBERS(X)
#undef X

/* ---- a request, member by member ---- */

/*
 * A request to a keeper, made member by member with the types of protocol.h.
 *
 *	autojson json_t *rq = protocol_request(OP_follow);
 *	request_set_command(rq, "c3");
 *	request_set_from(rq, 0);
 *
 * request_set_NAME() takes a string that is not NULL, a number, a flag, or a reference to an array
 * or object, which it consumes.  A value that cannot be set (text that is not UTF-8, no memory)
 * spoils the request: it has no operation any more, and wire_request() refuses it.
 */

static inline json_t *protocol_request(enum protocol_op op)
{
	return json_pack("{s:s}", "op", protocol_operations[op].name);
}

static inline void request_put(json_t *rq, const char *key, json_t *v)
{
	const int spoiled = !json_object_get(rq, "op");

	if (json_object_set_new(rq, key, v) < 0 || spoiled)
		json_object_clear(rq);
}

static inline json_t *request_integer(uint64_t v)
{
	return v == PROTOCOL_UNLIMITED ? json_string("unlimited") : json_integer((json_int_t)v);
}

#define REQUEST_SET(name, type, make) \
	static inline void request_set_##name(json_t *rq, type v) \
	{ \
		request_put(rq, #name, make(v)); \
	}
#define REQUEST_SET_STRING(name) REQUEST_SET(name, const char *, json_string)
#define REQUEST_SET_NUMBER(name) REQUEST_SET(name, uint64_t, json_integer)
#define REQUEST_SET_LIMIT(name) REQUEST_SET(name, uint64_t, request_integer)
#define REQUEST_SET_FLAG(name) REQUEST_SET(name, int, json_boolean)
#define REQUEST_SET_STRINGS(name) REQUEST_SET(name, json_t *, )
#define REQUEST_SET_OBJECT(name) REQUEST_SET(name, json_t *, )

#define X(name, type) REQUEST_SET_##type(name)
PROTOCOL_MEMBERS(X)
#undef X

#endif
