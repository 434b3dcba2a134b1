/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /mcp: the Model Context Protocol over HTTP ("Streamable HTTP", revisions 2025-03-26 to
 * 2025-11-25 with sessions, 2026-07-28 without).
 *
 * What is HTTP's of the protocol is here: sessions, header fields that repeat the body, statuses.
 * The messages themselves go to a `berth mcp` and come from it (mcphub.h).
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mcprev.h"
#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/estream.h"
#include "manager/api/http.h"
#include "manager/api/mcphub.h"

#define RPC_INVALID_PARAMS (-32602)
#define RPC_HEADER_MISMATCH (-32020)
#define RPC_UNSUPPORTED_VERSION (-32022)

static const char *const legacy[] = { MCPREV_LEGACY };

/* ---- answers ---- */

static json_t *mcp_route_error(const json_t *id, int code, const char *message, json_t *data)
{
	return json_pack("{s:s,s:O?,s:{s:i,s:s,s:o*}}", "jsonrpc", "2.0", "id", id, "error", "code",
			 code, "message", message, "data", data);
}

/* An error of ours, from a refused token to a session that cannot be made. */
static json_t *shape_error(const struct err *e)
{
	int code = e->code == ERR_CORRUPT   ? -32700 :
		   e->code == ERR_INVALID   ? -32600 :
		   e->code == ERR_NOT_FOUND ? -32001 :
					      -32603;

	return mcp_route_error(NULL, code, e->msg, json_pack("{s:s}", "code", err_name(e->code)));
}

/* A client of the revision without sessions finds the kind of an error in the status, too. */
static int status_of(const json_t *answer)
{
	const json_t *error = json_object_get(answer, "error");

	if (!error)
		return 200;
	return json_integer_value(json_object_get(error, "code")) == -32601 ? 404 :
	       json_integer_value(json_object_get(error, "code")) == -32603 ? 500 :
									      400;
}

/* ---- what the header says ---- */

static const char *posted_mcp_version(const json_t *message)
{
	return json_string_value(json_object_get(
		json_object_get(json_object_get(message, "params"), "_meta"), MCPREV_META_VERSION));
}

static int is_modern_post(struct http_request *rq, const json_t *message)
{
	const char *header = http_header(rq, "MCP-Protocol-Version");
	size_t i;

	if (posted_mcp_version(message))
		return 1;
	for (i = 0; header && i < ARRAY_LEN(legacy); i++)
		if (!strcmp(header, legacy[i]))
			return 0;
	return !!header;
}

/* The name that Mcp-Name repeats; NULL: this method has none. */
static const char *mcp_header_name(const char *method, const json_t *params)
{
	return json_string_value(json_object_get(params, !strcmp(method, "tools/call") ? "name" :
							 !strcmp(method, "resources/read") ? "uri" :
											     ""));
}

/* Blanks around a field's value do not belong to it (RFC 9110 5.5). */
static int mcp_header_differs(const char *header, const char *body)
{
	size_t n;

	if (!header)
		return 1;
	header += strspn(header, " \t");
	n = strlen(header);
	while (n && (header[n - 1] == ' ' || header[n - 1] == '\t'))
		n--;
	return strlen(body) != n || memcmp(header, body, n) != 0;
}

/*
 * NULL, or the answer to a message whose header and body disagree, or whose _meta lacks a
 * member.
 */
static json_t *check_modern_post(struct http_request *rq, const json_t *message, const char *method)
{
	const json_t *id = json_object_get(message, "id"),
		     *params = json_object_get(message, "params");
	const json_t *meta = json_object_get(params, "_meta");
	const char *version = posted_mcp_version(message), *name = mcp_header_name(method, params);
	const char *header = http_header(rq, "MCP-Protocol-Version");

	if (!version)
		return mcp_route_error(id, RPC_INVALID_PARAMS, "params._meta lacks "
				  MCPREV_META_VERSION, NULL);
	if (mcp_header_differs(header, version))
		return mcp_route_error(id, RPC_HEADER_MISMATCH,
				 "MCP-Protocol-Version is not the version of params._meta", NULL);
	if (strcmp(version, MCPREV_MODERN))
		return mcp_route_error(
			id, RPC_UNSUPPORTED_VERSION, "Unsupported protocol version",
			json_pack("{s:[s],s:s}", "supported", MCPREV_MODERN, "requested", version));
	if (!json_is_object(json_object_get(meta, MCPREV_META_CAPABILITIES)))
		return mcp_route_error(id, RPC_INVALID_PARAMS, "params._meta lacks "
				  MCPREV_META_CAPABILITIES,
				 NULL);
	if (mcp_header_differs(http_header(rq, "Mcp-Method"), method))
		return mcp_route_error(id, RPC_HEADER_MISMATCH, "Mcp-Method is not the method", NULL);
	if (name && mcp_header_differs(http_header(rq, "Mcp-Name"), name))
		return mcp_route_error(id, RPC_HEADER_MISMATCH, "Mcp-Name is not the name in params",
				 NULL);
	return NULL;
}

/* ---- a request on its way ---- */

struct exchange {
	struct mcphub_call call;
	struct http_hold hold;	/* what its messages take, and what is written of them */
	int asked, modern, answered;
};

static void exchange_free(void *ctx)
{
	struct exchange *x = ctx;

	/* without sessions, the end of the connection is how a client cancels */
	if (x->asked) {
		struct mcphub_session *s = x->call.session;

		mcphub_end_call(&x->call, x->modern && !x->answered);
		mcphub_put(s);
	}
	http_hold_end(&x->hold);
	free(x);
}

/* A message that was read, and its text. */
#define HELD(bytes) (2 * (bytes))
#define FREE_BYTES (256u << 10)

/* Upholds S42 of SECURITY.md: what a sandbox contains counts as what a client sends does. */
static int count_message(struct exchange *x, struct http_request *rq, struct err *e)
{
	const size_t want = x->call.bytes > FREE_BYTES ? HELD(x->call.bytes) : 0;
	struct err why;

	if (want <= x->hold.bytes || http_hold_take(rq, &x->hold, want - x->hold.bytes, &why) == 0)
		return 0;
	return err_set(e, why.code, "the answer has %zu bytes, and what is under way for this client may take no more now; hint: ask "
		       "for less, or again later", x->call.bytes);
}

/* The next message of the call, a new reference, or NULL with e. */
static json_t *next_message(struct exchange *x, struct http_request *rq, struct err *e)
{
	json_t *message = NULL;
	int r;

	while ((r = mcphub_next(&x->call, &message, e)) == 0)
		if (http_wait(rq, x->call.fd, POLLIN, -1, e) < 0)
			return NULL;
	if (r > 0 && json_object_get(message, "id"))
		x->answered = 1;
	if (r > 0 && count_message(x, rq, e) < 0) {
		json_decref(message);
		return NULL;
	}
	return r > 0 ? message : NULL;
}

static int next_mcp_event(struct estream *s, struct http_request *rq, struct err *e)
{
	struct exchange *x = s->ctx;
	json_t *message = next_message(x, rq, e);

	if (!message || estream_add(s, "message", 0, message, e) < 0)
		return -1;
	return !x->answered;
}

/* Progress goes before the answer, so it takes a stream; all else is one JSON object. */
static int reply_mcp_exchange(struct http_request *rq, struct exchange *x, struct err *e)
{
	const char *accept = http_header(rq, "Accept");
	json_t *message;
	int r;

	if (x->call.token && accept && strcasestr(accept, "text/event-stream"))
		return estream_reply(rq, 200, next_mcp_event, exchange_free, x, e);
	do {
		message = next_message(x, rq, e);
		if (message && !x->answered)
			json_decref(message);
	} while (message && !x->answered);
	r = message ? http_reply_json(rq, x->modern ? status_of(message) : 200, message, e) : -1;
	/* what it holds is held until all is sent */
	http_set_data(rq, x, exchange_free);
	return r;
}

static int ask_mcp_session(struct http_request *rq, struct mcphub_session *s, json_t *message, int modern,
	       struct err *e)
{
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x) {
		mcphub_put(s);
		return err_nomem(e);
	}
	x->modern = modern;
	if (mcphub_ask(s, message, &x->call, e) < 0) {
		mcphub_put(s);
		free(x);
		return -1;
	}
	x->asked = 1;
	return reply_mcp_exchange(rq, x, e);
}

/* ---- the routes ---- */

/* The session that the header names: the caller's own, else as if there were none. */
static struct mcphub_session *mcp_session_of_request(struct http_request *rq, struct err *e)
{
	const char *id = http_header(rq, "Mcp-Session-Id");
	struct mcphub_session *s = id ? mcphub_find(api_of(rq)->mcp, rq, id) : NULL;

	if (!id) {
		http_error_status(rq, 400);
		err_set(e, ERR_INVALID, "Mcp-Session-Id is missing; hint: initialize gives one");
	} else if (!s) {
		err_set(e, ERR_NOT_FOUND, "no such session; hint: initialize again");
	}
	return s;
}

static int post_mcp_initialize(struct http_request *rq, json_t *message, struct err *e)
{
	struct mcphub_session *s = mcphub_open(api_of(rq)->mcp, rq, e);
	char id[65];

	if (!s)
		return -1;
	memcpy(id, mcphub_id(s), strlen(mcphub_id(s)) + 1);
	if (ask_mcp_session(rq, s, message, 0, e) < 0) {
		/* nobody was told its id */
		s = mcphub_find(api_of(rq)->mcp, rq, id);
		if (s) {
			mcphub_end(s);
			mcphub_put(s);
		}
		return -1;
	}
	return http_reply_header(rq, "Mcp-Session-Id", id, e);
}

static int post_request(struct http_request *rq, json_t *message, const char *method, struct err *e)
{
	int modern = is_modern_post(rq, message);
	json_t *refused = modern ? check_modern_post(rq, message, method) : NULL;
	struct mcphub_session *s;

	if (refused)
		return http_reply_json(rq, 400, refused, e);
	if (!modern && !strcmp(method, "initialize"))
		return post_mcp_initialize(rq, message, e);
	s = modern ? mcphub_shared(api_of(rq)->mcp, rq, e) : mcp_session_of_request(rq, e);
	return s ? ask_mcp_session(rq, s, message, modern, e) : -1;
}

static int post_notification(struct http_request *rq, json_t *message, struct err *e)
{
	struct mcphub_session *s;
	int r = 0;

	/* without sessions, nothing shows to which request it belongs */
	if (!is_modern_post(rq, message)) {
		s = mcp_session_of_request(rq, e);
		if (!s)
			return -1;
		r = mcphub_tell(s, message, e);
		mcphub_put(s);
	}
	return r < 0 ? -1 : http_reply_empty(rq, 202, e);
}

static int post_mcp(struct http_request *rq, struct err *e)
{
	autojson json_t *message = json_deep_copy(http_json(rq));
	const char *method = json_string_value(json_object_get(message, "method"));
	const json_t *id = json_object_get(message, "id");

	if (!message)
		return err_nomem(e);
	if (method)
		http_audit(rq, "method", method);
	if (method && !id)
		return post_notification(rq, message, e);
	/* an answer to a request of ours, but we never send any */
	if (!method && (json_object_get(message, "result") || json_object_get(message, "error")))
		return http_reply_empty(rq, 202, e);
	if (!method || (!json_is_string(id) && !json_is_number(id))) {
		http_error_status(rq, 400);
		return err_set(e, ERR_INVALID, "not a message of JSON-RPC 2.0");
	}
	return post_request(rq, message, method, e);
}

/* We never send a message without a request. */
static int get_mcp(struct http_request *rq, struct err *e)
{
	http_error_status(rq, 405);
	return err_set(e, ERR_UNSUPPORTED, "this server sends nothing unasked; hint: POST");
}

static int delete_mcp(struct http_request *rq, struct err *e)
{
	struct mcphub_session *s = mcp_session_of_request(rq, e);

	if (!s)
		return -1;
	mcphub_end(s);
	mcphub_put(s);
	return http_reply_empty(rq, 204, e);
}

const struct http_route mcp_routes[] = {
	{ "POST", "/mcp", post_mcp, "a message of the Model Context Protocol", HTTP_JSON,
	  .response = "McpMessage", .type = "text/event-stream", .or_status = 202,
	  .shape_error = shape_error, .error_schema = "McpMessage" },
	{ "GET", "/mcp", get_mcp, "405: this server sends nothing unasked", .flags = HTTP_QUIET,
	  .shape_error = shape_error, .error_schema = "McpMessage" },
	{ "DELETE", "/mcp", delete_mcp, "end a session of the Model Context Protocol", .status = 204,
	  .shape_error = shape_error, .error_schema = "McpMessage" },
	{ NULL },
};
