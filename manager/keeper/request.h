/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request - a request to a keeper, made member by member with the types of protocol.h.
 *
 *	autojson json_t *rq = protocol_request(OP_follow);
 *	request_set_command(rq, "c3");
 *	request_set_from(rq, 0);
 *
 * request_set_NAME() takes a string that is not NULL, a number, a flag, or a reference to an array
 * or object, which it consumes.  A value that cannot be set (text that is not UTF-8, no memory)
 * spoils the request: it has no operation any more, and wire_request() refuses it.
 */
#ifndef BERTH_MANAGER_KEEPER_REQUEST_H
#define BERTH_MANAGER_KEEPER_REQUEST_H

#include "manager/keeper/protocol.h"

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
