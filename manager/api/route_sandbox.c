/* SPDX-License-Identifier: Apache-2.0 */
/* Routes on sandboxes as a whole: make, list, look at, start, stop, freeze, rename, limit, remove. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/api/api.h"
#include "manager/api/box.h"
#include "manager/api/route_manager.h"
#include "manager/host/forget.h"
#include "manager/host/labels.h"
#include "manager/host/names.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/pings.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/ops/optvalues.h"
#include "manager/ops/params.h"
#include "manager/service/service.h"


/* ---- looking ---------------------------------------------------------------------- */

static int describe_found_sandbox(struct box *b, int attest, json_t **ret, struct err *e);

/* It stopped before its keeper answered: the record says so by now. */
static int describe_when_stopped(struct box *b, int attest, json_t **ret, struct err *e)
{
	b->kept = 1;
	fd_close(&b->sock);
	json_decref(*ret);
	*ret = NULL;
	return describe_found_sandbox(b, attest, ret, e);
}

static int describe_found_sandbox(struct box *b, int attest, json_t **ret, struct err *e)
{
	autojson json_t *ping = protocol_request(OP_ping), *ask = protocol_request(OP_attest), *live = NULL,
		 *report = NULL;
	struct err ignored;
	json_t *record;

	if (!b->kept && registry_clear_dead(&b->registry, b->id, PINGS_MS, 0, &ignored) == 1)
		b->kept = 1;
	record = boxlist_load(b, e);
	if (!record)
		return -1;
	*ret = record;
	b->sock = b->kept ? -1 : keeper_connect(&b->registry, b->id, &ignored);
	if (b->sock >= 0) {
		record_set_status(record, RECORD_RUNNING);
		live = box_call(b, ping, NULL, 0, NULL, e);
		if (!live)
			return b->ended && e->code == ERR_BUSY && !b->kept ? describe_when_stopped(b, attest, ret, e) : -1;
		boxlist_add_live(record, live);
	}
	if (!attest)
		return 0;
	if (b->sock < 0)
		return err_set(e, ERR_BUSY, "sandbox %s is not running", b->id);
	report = box_call(b, ask, NULL, 0, NULL, e);
	return report ? json_object_set(record, "attest", json_object_get(report, "attest")) : -1;
}

/* Adds the manager's entry for a sandbox that it keeps; other sandboxes have their record alone. */
static void add_managers(struct http_request *rq, json_t *record)
{
	static const char *const members[] = { "session_ctx_id", "sandbox_type", "storage_path", "state" };
	const char *name = json_string_value(json_object_get(record, "name"));
	struct service_who who = manager_who(rq);
	autojson json_t *info = NULL;
	struct err ignored;
	json_t *told;
	size_t i;

	if (!manager_of(rq) || !name || !json_object_get(json_object_get(record, "labels"), LABEL_MANAGED))
		return;
	info = service_info(manager_of(rq), &who, name, &ignored);
	told = info ? service_intervals(manager_of(rq), &who, name, NULL, &ignored) : NULL;
	for (i = 0; told && i < ARRAY_LEN(members); i++)
		json_object_set(told, members[i], json_object_get(info, members[i]));
	if (told)
		json_object_set_new(record, "manager", told);
}

static int get_sandbox_route(struct http_request *rq, struct err *e)
{
	json_t *record = NULL;
	struct box b;
	int r = box_find(&b, rq, e);

	if (r == 0)
		r = describe_found_sandbox(&b, http_query_bool(rq, "attest"), &record, e);
	box_close(&b);
	if (r < 0) {
		json_decref(record);
		return -1;
	}
	add_managers(rq, record);
	return http_reply_json(rq, 0, record, e);
}

/* One request to the keeper, whose answer is the reply. */
static int ask_sandbox_keeper(struct http_request *rq, enum protocol_op op, struct err *e)
{
	autojson json_t *question = protocol_request(op);
	json_t *answer = NULL;
	struct box b;

	if (box_connect(&b, rq, e) == 0)
		answer = box_call(&b, question, NULL, 0, NULL, e);
	if (answer && op != OP_stats)
		json_object_set_new(answer, "id", json_string(b.id));
	box_close(&b);
	return answer ? http_reply_json(rq, 0, answer, e) : -1;
}

static int get_sandbox_stats(struct http_request *rq, struct err *e)
{
	return ask_sandbox_keeper(rq, OP_stats, e);
}

static int post_sandbox_pause(struct http_request *rq, struct err *e)
{
	return ask_sandbox_keeper(rq, OP_pause, e);
}

static int post_sandbox_resume(struct http_request *rq, struct err *e)
{
	return ask_sandbox_keeper(rq, OP_resume, e);
}

/* ---- changing ------------------------------------------------------------------------ */

/*
 * Waits until the keeper has closed the connection, which it does when nothing of the sandbox is
 * left.
 */
static int wait_for_sandbox_end(struct box *b, int wait_ms, struct err *e)
{
	for (;;) {
		size_t n = 0;
		int fds[WIRE_FDS_MAX];
		autojson json_t *answer = box_receive(b, wait_ms, fds, WIRE_FDS_MAX, &n, e);

		while (n)
			fd_close(&fds[--n]);
		if (!answer)
			return b->ended ? 0 : -1;
	}
}

#define GONE_MS 1000
#define GONE_LOOK_MS 10

static int is_sandbox_gone(struct box *b)
{
	return !record_is_there(b->registry.kept_fd, b->id) && !keeper_is_run(&b->registry, b->id);
}

/*
 * If another client removed the sandbox meanwhile, the answer says that, and not which of its files is missing.
 * A process that stops it may write its record once more before the rest goes, so a missing file is looked into.
 */
static int removed_meanwhile(struct box *b, int r, struct err *e)
{
	const uint64_t until = clock_ms() + (r < 0 && (e->code == ERR_SYS || e->code == ERR_NOT_FOUND) ? GONE_MS : 0);
	struct err why;
	int gone;

	if (r == 0)
		return 0;
	while (!(gone = is_sandbox_gone(b)) && clock_ms() < until && http_wait(b->rq, -1, 0, GONE_LOOK_MS, &why) == 0)
		;
	/* one of its own files was missing, whatever is written there again */
	gone |= e->code == ERR_NOT_FOUND && e->os_errno == ENOENT;
	return gone ? err_set(e, ERR_NOT_FOUND, "sandbox %s was removed meanwhile", b->id) : r;
}

static int spawn_on(struct http_request *rq, json_t *call, struct err *e)
{
	json_t *j = spawn_json(rq, call, 1, e);

	json_decref(j);
	return j ? 0 : -1;
}

/* The stop signal, then after the grace the end by force. */
static int stop_found_sandbox(struct box *b, const struct stop_request *how, struct err *e)
{
	const int at_once = !how->own_grace && !how->grace_ms;
	autojson json_t *rq = keeper_stop_request(how);
	int r;

	b->sock = keeper_connect(&b->registry, b->id, e);
	if (b->sock < 0)
		return -1;
	r = wire_request(b->sock, rq, NULL, 0, e);
	if (r == 0)
		r = wait_for_sandbox_end(b, keeper_stop_wait_ms(how), e);
	/* a keeper that does not answer is ended by the program */
	if (r < 0 && e->code == ERR_TIMEOUT && at_once)
		r = spawn_on(b->rq, call_of("kill", b->id, NULL), e);
	return r;
}

/* The sandbox stays, and its record says that it does not run. */
static int stop_noted(struct box *b, const struct stop_request *how, struct err *e)
{
	autojson json_t *record = NULL;
	struct err ignored;

	if (stop_found_sandbox(b, how, e) < 0)
		return removed_meanwhile(b, -1, e);
	record = record_load_kept(&b->registry, b->id, &ignored);
	if (!record)
		return 0;
	record_set_status(record, RECORD_STOPPED);
	return removed_meanwhile(b, record_save_kept(&b->registry, b->id, record, e), e);
}

static int reply_id(struct http_request *rq, const struct box *b, const char *key, const char *value, struct err *e)
{
	return http_reply_json(rq, 0, json_pack("{s:s,s:s}", "id", b->id, key, value), e);
}

static int ending_of(const struct http_request *rq, struct stop_request *ret, struct err *e)
{
	const char *word = http_query(rq, "signal");

	*ret = (struct stop_request){ .own_grace = !http_query(rq, "grace_ms"), .grace_ms = http_query_u64(rq, "grace_ms", 0) };
	return word ? signal_number(word, &ret->signo, e) : 0;
}

static int end_sandbox_of_request(struct http_request *rq, const struct stop_request *how, struct err *e)
{
	struct box b;
	int r = box_find(&b, rq, e);

	if (r == 0)
		r = box_lock(&b, e);
	if (r == 0 && !b.kept)
		r = stop_noted(&b, how, e);
	box_close(&b);
	return r < 0 ? -1 : reply_id(rq, &b, "status", "stopped", e);
}

static int post_sandbox_stop(struct http_request *rq, struct err *e)
{
	struct stop_request how;

	return ending_of(rq, &how, e) < 0 ? -1 : end_sandbox_of_request(rq, &how, e);
}

static int post_sandbox_kill(struct http_request *rq, struct err *e)
{
	static const struct stop_request at_once;

	return end_sandbox_of_request(rq, &at_once, e);
}

static int start_sandbox_of_request(struct http_request *rq, int stop_first, struct err *e)
{
	enum keeper_doing doing = KEEPER_ENDS;
	struct box b;
	int r = box_find(&b, rq, e);

	if (r == 0)
		r = box_lock(&b, e);
	if (r == 0 && stop_first && !b.kept) {
		struct stop_request how;

		r = ending_of(rq, &how, e) < 0 ? -1 : stop_noted(&b, &how, e);
		b.kept = 1;
	}
	if (r == 0 && !b.kept && (doing = keeper_ask_doing(&b.registry, b.id, NULL, e)) == KEEPER_FAILS)
		r = -1;
	if (r == 0 && doing == KEEPER_ENDS)
		r = removed_meanwhile(&b, spawn_on(rq, call_of("start", b.id, NULL), e), e);
	box_close(&b);
	return r < 0 ? -1 : reply_id(rq, &b, "status", "running", e);
}

static int post_sandbox_start(struct http_request *rq, struct err *e)
{
	return start_sandbox_of_request(rq, 0, e);
}

static int post_sandbox_restart(struct http_request *rq, struct err *e)
{
	return start_sandbox_of_request(rq, 1, e);
}

/* A delete waits for operations under way, then forces. */
static uint64_t drain_of(struct http_request *rq)
{
	struct service *s = api_of(rq)->manager;

	return s ? service_drain_ms(s) : 0;
}

#define DELETE_MS 10000
#define DELETE_LOOK_MS 10

/* Docker's clients do not wait for box_lock(): they may have started it again meanwhile, or start it now. */
static int end_and_forget(struct box *b, const struct stop_request *how, int force, struct err *e)
{
	const uint64_t until = clock_ms() + DELETE_MS;
	struct err why;

	for (;; b->kept = 0) {
		fd_close(&b->sock);
		if (!b->kept && stop_found_sandbox(b, how, e) < 0 && e->code != ERR_NOT_FOUND)
			return -1;
		if (forget_alone(&b->registry, b->id, e) == 0)
			return 0;
		if (!force || e->code != ERR_BUSY || clock_ms() >= until || http_wait(b->rq, -1, 0, DELETE_LOOK_MS, &why) < 0)
			return -1;
	}
}

static int delete_sandbox_route(struct http_request *rq, struct err *e)
{
	const struct stop_request how = { .drain_ms = drain_of(rq) };
	struct box b;
	int r = box_find(&b, rq, e);

	if (r == 0)
		r = box_lock(&b, e);
	if (r == 0 && !b.kept && !http_query_bool(rq, "force"))
		r = err_set(e, ERR_BUSY, "sandbox %s is running; hint: stop it first, or ?force=true", b.id);
	if (r == 0 && !http_query_bool(rq, "force"))
		r = record_check_format(&b.registry, b.id, e);
	if (r == 0)
		r = end_and_forget(&b, &how, http_query_bool(rq, "force"), e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_pack("{s:s,s:b}", "id", b.id, "removed", 1), e);
}

static int post_sandbox_rename(struct http_request *rq, struct err *e)
{
	const char *name = json_string_value(json_object_get(http_json(rq), "name"));
	struct box b;
	int r = box_find(&b, rq, e);

	if (r == 0)
		r = box_lock(&b, e);
	if (r == 0)
		r = registry_check_given(name, e);
	if (r == 0)
		r = registry_rename(&b.registry, b.id, name, e) < 0 ? removed_meanwhile(&b, box_name_taken(rq, name, e), e) : 0;
	box_close(&b);
	return r < 0 ? -1 : reply_id(rq, &b, "name", name, e);
}

/* A sandbox of the manager's has a share of [admission], which grows first. */
static int update_found_sandbox(struct http_request *rq, struct box *b, const json_t *options, struct err *e)
{
	struct service *s = api_of(rq)->manager;
	json_t *call = call_of("update", b->id, NULL);
	struct service_limits l = { .name = "" };
	struct err ignored;
	int r;

	call_options(call, options);
	spawn_tenant(rq, call);
	if (s && service_limits_begin(s, b->id, json_object_get(options, "memory"), json_object_get(options, "cpus"), &l, e) < 0) {
		json_decref(call);
		return -1;
	}
	r = removed_meanwhile(b, spawn_on(rq, call, e), e);
	return s && service_limits_end(s, &l, r == 0, r < 0 ? &ignored : e) < 0 ? -1 : r;
}

/* Options of the wrong kind are refused before anything begins. */
static int check_update(struct http_request *rq, const json_t *options, struct err *e)
{
	autojson json_t *list = json_array();
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(size_t)options, name, v)
		if (!http_who(rq)->admin && tenantopts_check_change(name, e) < 0)
			return -1;
	if (params_from_json(options, PARAM_OF_UPDATE, list, e) < 0)
		return -1;
	return json_array_size(list) ? 0 :
	       err_set(e, ERR_INVALID, "nothing to change; hint: memory, cpus, pids, allow-host, ...");
}

int api_update(struct http_request *rq, struct box *b, const json_t *options, struct err *e)
{
	return box_lock(b, e) < 0 || check_update(rq, options, e) < 0 ? -1 : update_found_sandbox(rq, b, options, e);
}

static int patch_sandbox(struct http_request *rq, struct err *e)
{
	struct box b;
	int r = box_find(&b, rq, e);

	if (r == 0)
		r = api_update(rq, &b, http_json(rq), e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_pack("{s:s,s:b}", "id", b.id, "updated", 1), e);
}

static int get_sandbox_top(struct http_request *rq, struct err *e)
{
	json_t *list = NULL;
	struct box b;

	if (box_connect(&b, rq, e) == 0)
		list = spawn_json(rq, call_of("top", b.id, NULL), 0, e);
	box_close(&b);
	return list ? http_reply_json(rq, 0, json_pack("{s:o}", "processes", list), e) : -1;
}

/* How its main command ended: a new reference, or NULL. */
static json_t *end_of_service(struct box *b)
{
	struct err ignored;
	autojson json_t *record = record_load_kept(&b->registry, b->id, &ignored);

	return record && record_service(record) ? json_incref(record_verdict(record)) : NULL;
}

/* Answers once it does not run any more. */
static int get_sandbox_wait(struct http_request *rq, struct err *e)
{
	json_t *verdict = NULL;
	uint64_t ms = http_query_u64(rq, "timeout_ms", 0);
	struct box b;
	int r = box_find(&b, rq, e);

	if (r == 0 && !b.kept) {
		b.sock = keeper_connect(&b.registry, b.id, e);
		r = b.sock < 0 ? e->code == ERR_NOT_FOUND ? 0 : -1 : wait_for_sandbox_end(&b, ms ? (int)(ms > 86400000 ? 86400000 : ms) : -1, e);
	}
	if (r == 0)
		verdict = end_of_service(&b);
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_pack("{s:s,s:s,s:o*}", "id", b.id, "status", "stopped", "verdict", verdict), e);
}

const struct http_route sandbox_routes[] = {
	{ "GET", "/v1/sandboxes", boxlist_get, "list sandboxes",
	  .query = "running:boolean label:strings filter:strings limit:integer after:string", .response = "SandboxList" },
	{ "POST", "/v1/sandboxes", boxcreate_post, "make a sandbox", HTTP_JSON, HTTP_ONCE | HTTP_TIMED_CREATE, .request = "Create", .response = "Created",
	  .status = 201 },
	{ "GET", "/v1/sandboxes/{id}", get_sandbox_route, "a sandbox's record and state", .query = "attest:boolean", .response = "Sandbox" },
	{ "PATCH", "/v1/sandboxes/{id}", patch_sandbox, "change its limits, at once and for good", HTTP_JSON, .request = "Update",
	  .response = "Updated" },
	{ "DELETE", "/v1/sandboxes/{id}", delete_sandbox_route, "remove it and its files", .query = "force:boolean", .response = "Removed" },
	{ "POST", "/v1/sandboxes/{id}/start", post_sandbox_start, "start it, with the files it had", .response = "State" },
	{ "POST", "/v1/sandboxes/{id}/stop", post_sandbox_stop, "end every process, with TERM first; the files stay",
	  .query = "grace_ms:integer signal:string", .response = "State" },
	{ "POST", "/v1/sandboxes/{id}/kill", post_sandbox_kill, "end every process at once; the files stay", .response = "State" },
	{ "POST", "/v1/sandboxes/{id}/restart", post_sandbox_restart, "stop and start it", .query = "grace_ms:integer signal:string", .response = "State" },
	{ "POST", "/v1/sandboxes/{id}/pause", post_sandbox_pause, "freeze every process", .response = "Paused" },
	{ "POST", "/v1/sandboxes/{id}/resume", post_sandbox_resume, "let it go on", .response = "Paused" },
	{ "POST", "/v1/sandboxes/{id}/rename", post_sandbox_rename, "give it another name", HTTP_JSON, .request = "Rename",
	  .response = "Renamed" },
	{ "GET", "/v1/sandboxes/{id}/stats", get_sandbox_stats, "what it uses", .response = "Stats" },
	{ "GET", "/v1/sandboxes/{id}/top", get_sandbox_top, "its processes", .response = "Processes" },
	{ "GET", "/v1/sandboxes/{id}/wait", get_sandbox_wait, "wait until it does not run", .query = "timeout_ms:integer",
	  .response = "State" },
	{ NULL },
};
