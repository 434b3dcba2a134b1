/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The remote contract of agentscope-runtime's SandboxManager: POST /FUNCTION with the
 * call's named arguments, answered {"data": ...}; each also as FUNCTION_async.
 *
 * Its client takes any status but 200 for a result: a string, which is true, and with which it goes on as if that
 * were the name of a sandbox.  So where the original tells a failure as null or false, it is told so here, with why in
 * "detail" beside it.  Other errors are {"detail": ...} with their status.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/e2b.h"
#include "manager/api/route_manager.h"

json_t *manager_detail(const struct err *e)
{
	json_t *text = json_string(e->msg);

	return json_pack("{s:o,s:s}", "detail", text ? text : json_string("failed"), "code", err_name(e->code));
}

static int is_agentscope_client_gone(void *ctx)
{
	struct err ignored;

	return http_wait(ctx, -1, 0, 0, &ignored) < 0;
}

struct service_who manager_who(struct http_request *rq)
{
	const struct http_who *who = http_who(rq);

	return (struct service_who){ .name = who->name, .admin = who->admin, .gone = is_agentscope_client_gone, .gone_ctx = rq };
}

struct service_who manager_who_once(struct http_request *rq, const struct once *o)
{
	struct service_who who = manager_who(rq);

	if (o->word[0]) {
		who.request = o->word;
		who.gone = NULL;
	}
	return who;
}

static void release_unsent(struct http_request *rq, const char *name)
{
	struct service_who who = manager_who(rq);
	struct err ignored;

	service_release(manager_of(rq), &who, name, 0, &ignored);
}

void manager_undo_unsent(struct http_request *rq, const struct once *o, const char *name)
{
	if (!o->word[0])
		http_undo_unsent(rq, release_unsent, name);
}

struct service *manager_of(struct http_request *rq)
{
	return api_of(rq)->manager;
}

/* Consumes data, which NULL means that e is set. */
static int answer_agentscope(struct http_request *rq, json_t *data, struct err *e)
{
	return data ? http_reply_json(rq, 0, json_pack("{s:o}", "data", data), e) : -1;
}

/*
 * A failure in the original's form: data, with the reason. -1 for a malformed request, which the
 * original does not accept either.
 */
static int agentscope_failed(struct http_request *rq, json_t *data, struct err *e)
{
	autojson json_t *j = manager_detail(e);

	if (e->code == ERR_INVALID || e->code == ERR_USAGE || !j) {
		json_decref(data);
		return -1;
	}
	http_audit(rq, "failed", e->msg);
	json_object_set_new(j, "data", data);
	return http_reply_json(rq, 0, json_incref(j), e);
}

/* A required string of the body. */
static const char *need(struct http_request *rq, const char *key, struct err *e)
{
	const char *v = NULL;
	int r = json_get_str(http_json(rq), key, &v, "body", e);

	if (r == 0)
		err_set(e, ERR_INVALID, "\"%s\" is required", key);
	if (r > 0)
		http_audit(rq, key, v);
	return r > 0 ? v : NULL;
}

static int agentscope_cleanup(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);
	int discard = 0;

	if (json_get_bool(http_json(rq), "discard", &discard, "body", e) < 0)
		return -1;
	return service_cleanup(manager_of(rq), &who, discard, e) < 0 ? -1 : answer_agentscope(rq, json_null(), e);
}

static int make_agentscope_sandbox(struct http_request *rq, int from_pool, struct err *e)
{
	struct once_made made = { .id = "" };
	struct service_who who;
	struct once o;
	int r = once_begin(&o, rq, &made, e), again = r > 0;

	if (r < 0)
		return -1;
	if (!again) {
		who = manager_who_once(rq, &o);
		r = service_create(manager_of(rq), &who, http_json(rq), from_pool, made.name, e);
		once_end(&o, r == 0 ? &made : NULL);
		if (r < 0)
			return agentscope_failed(rq, json_null(), e);
		manager_undo_unsent(rq, &o, made.name);
	}
	http_audit(rq, "sandbox", made.name);
	r = answer_agentscope(rq, json_string(made.name), e);
	return r == 0 && again ? once_replayed(rq, e) : r;
}

static int agentscope_create(struct http_request *rq, struct err *e)
{
	return make_agentscope_sandbox(rq, 0, e);
}

static int agentscope_create_from_pool(struct http_request *rq, struct err *e)
{
	return make_agentscope_sandbox(rq, 1, e);
}

typedef int act(struct service *s, const struct service_who *who, const char *identity, struct err *e);

/* True, or false when it could not be done. */
static int with_agentscope_identity(struct http_request *rq, act *f, struct err *e)
{
	const char *identity = need(rq, "identity", e);
	struct service_who who = manager_who(rq);

	if (!identity)
		return -1;
	return f(manager_of(rq), &who, identity, e) < 0 ? agentscope_failed(rq, json_false(), e) : answer_agentscope(rq, json_true(), e);
}

static int agentscope_release(struct http_request *rq, struct err *e)
{
	const char *identity = need(rq, "identity", e);
	struct service_who who = manager_who(rq);
	int discard = 0;

	if (!identity || json_get_bool(http_json(rq), "discard", &discard, "body", e) < 0)
		return -1;
	return service_release(manager_of(rq), &who, identity, discard, e) < 0 ? agentscope_failed(rq, json_false(), e) : answer_agentscope(rq, json_true(), e);
}

static int agentscope_start(struct http_request *rq, struct err *e)
{
	return with_agentscope_identity(rq, service_start, e);
}

static int agentscope_stop(struct http_request *rq, struct err *e)
{
	return with_agentscope_identity(rq, service_stop, e);
}

static int agentscope_check_health(struct http_request *rq, struct err *e)
{
	const char *identity = need(rq, "identity", e);
	struct service_who who = manager_who(rq);

	return !identity || service_health(manager_of(rq), &who, identity, e) < 0 ? -1 : answer_agentscope(rq, json_true(), e);
}

static int agentscope_get_status(struct http_request *rq, struct err *e)
{
	const char *identity = need(rq, "identity", e);
	struct service_who who = manager_who(rq);
	char status[16];

	if (!identity)
		return -1;
	if (service_status(manager_of(rq), &who, identity, status, e) < 0)
		return e->code == ERR_NOT_FOUND ? agentscope_failed(rq, json_null(), e) : -1;
	return answer_agentscope(rq, json_string(status), e);
}

static int agentscope_get_info(struct http_request *rq, struct err *e)
{
	const char *identity = need(rq, "identity", e);
	struct service_who who = manager_who(rq);
	json_t *info = identity ? service_info(manager_of(rq), &who, identity, e) : NULL;

	if (info)
		manager_tell_url(rq, info);
	return answer_agentscope(rq, info, e);
}

static int agentscope_list_tools(struct http_request *rq, struct err *e)
{
	const char *identity = need(rq, "identity", e), *type = NULL;
	struct service_who who = manager_who(rq);

	if (!identity || json_get_str(http_json(rq), "tool_type", &type, "body", e) < 0)
		return -1;
	return answer_agentscope(rq, service_list_tools(manager_of(rq), &who, identity, type, e), e);
}

static int agentscope_call_tool(struct http_request *rq, struct err *e)
{
	const char *identity = need(rq, "identity", e), *tool = identity ? need(rq, "tool_name", e) : NULL;
	struct service_who who = manager_who(rq);
	json_t *arguments = NULL;

	if (!tool || json_get_obj(http_json(rq), "arguments", &arguments, "body", e) < 0)
		return -1;
	return answer_agentscope(rq, service_call_tool(manager_of(rq), &who, identity, tool, arguments, e), e);
}

static int agentscope_add_mcp_servers(struct http_request *rq, struct err *e)
{
	const char *identity = need(rq, "identity", e);
	struct service_who who = manager_who(rq);
	json_t *configs = NULL;
	int overwrite = 0;

	if (!identity || json_get_obj(http_json(rq), "server_configs", &configs, "body", e) < 0 ||
	    json_get_bool(http_json(rq), "overwrite", &overwrite, "body", e) < 0)
		return -1;
	return answer_agentscope(rq, service_add_mcp(manager_of(rq), &who, identity, configs, overwrite, e), e);
}

static int agentscope_get_session_mapping(struct http_request *rq, struct err *e)
{
	const char *ctx = need(rq, "session_ctx_id", e);
	struct service_who who = manager_who(rq);

	return ctx ? answer_agentscope(rq, service_session_mapping(manager_of(rq), &who, ctx, e), e) : -1;
}

static int agentscope_list_session_keys(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return answer_agentscope(rq, service_session_keys(manager_of(rq), &who, e), e);
}

static int get_health(struct http_request *rq, struct err *e)
{
	if (e2b_is_health(rq))
		return e2b_health(rq, e);
	if (service_ready(manager_of(rq), e) < 0) {
		http_error_status(rq, 503);
		return -1;
	}
	return http_reply_json(rq, 0, json_pack("{s:s,s:s}", "status", "healthy", "version", BERTH_VERSION), e);
}

/* first: the names of its first arguments, which the asynchronous client does not tell */
#define BOTH(name, schema, first, text, more) \
	{ "POST", "/" #name, agentscope_##name, text, HTTP_JSON, .flags = HTTP_OPTIONAL | (more), .request = schema, .response = "Data", \
	  .shape_error = manager_detail }, \
	{ "POST", "/" #name "_async", agentscope_##name, text, HTTP_JSON, .flags = HTTP_OPTIONAL | (more), .request = schema, \
	  .positional = first, .response = "Data", .shape_error = manager_detail }

const struct http_route agentscope_routes[] = {
	{ "GET", "/health", get_health, "agentscope: whether the manager serves",
	  .response = "Health", .flags = HTTP_QUIET | HTTP_ONE,
	  .shape_error = manager_detail },
	BOTH(cleanup, "Cleanup", NULL, "agentscope: release all of the caller's sandboxes", 0),
	BOTH(create_from_pool, "ManagerCreate", "sandbox_type meta", "agentscope: a warm sandbox, or a new one", HTTP_ONCE | HTTP_TIMED_CREATE),
	BOTH(create, "ManagerCreate", "sandbox_type mount_dir", "agentscope: a new sandbox", HTTP_ONCE | HTTP_TIMED_CREATE),
	BOTH(release, "Release", "identity", "agentscope: remove a sandbox", 0),
	BOTH(start, "Identity", "identity", "agentscope: start a stopped sandbox", 0),
	BOTH(stop, "Identity", "identity", "agentscope: stop a sandbox, keeping its files", 0),
	BOTH(get_status, "Identity", "identity", "agentscope: running, exited, ...", HTTP_QUIET),
	BOTH(get_info, "Identity", "identity", "agentscope: the record of a sandbox", HTTP_QUIET),
	BOTH(check_health, "Identity", "identity", "agentscope: whether a sandbox serves", HTTP_QUIET),
	BOTH(list_tools, "ListTools", "identity tool_type", "agentscope: tools of a sandbox", HTTP_QUIET),
	BOTH(call_tool, "CallTool", "identity tool_name", "agentscope: call a tool in a sandbox", 0),
	BOTH(add_mcp_servers, "AddMcp", "identity server_configs", "agentscope: start MCP servers in a sandbox", 0),
	BOTH(get_session_mapping, "SessionId", "session_ctx_id", "agentscope: the sandboxes of a session", HTTP_QUIET),
	BOTH(list_session_keys, "Nothing", NULL, "agentscope: the sessions", HTTP_QUIET),
	{ NULL },
};
