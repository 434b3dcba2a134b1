/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pauses of E2B's sandboxes.  A pause that keeps the memory freezes the sandbox; one that does not
 * stops it, and its files stay.  So what is stopped is paused to E2B's SDKs, and connect() starts
 * it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/api/e2b.h"
#include "manager/host/record.h"
#include "manager/keeper/protocol.h"

#define RESUMED_S_MIN 300 /* E2B gives at least this to one that a request resumes */

/* ---- what create says -------------------------------------------------------------------- */

static int is_boolean_or_absent(const json_t *v)
{
	return !v || json_is_null(v) || json_is_boolean(v);
}

static int resumes(const json_t *body, int *ret, struct err *e)
{
	const json_t *v = json_object_get(body, "autoResume"), *one;
	const char *name;

	*ret = 0;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_object(v) || !json_is_boolean(json_object_get(v, "enabled")))
		return err_set(e, ERR_INVALID, "autoResume is not {\"enabled\": BOOLEAN}");
	json_object_foreach ((json_t *)(size_t)v, name, one)
		if (strcmp(name, "enabled"))
			return err_set(e, ERR_INVALID, "autoResume has an unknown member '%.64s'",
				       name);
	*ret = json_is_true(json_object_get(v, "enabled"));
	return 0;
}

int e2b_lifecycle_of(const json_t *body, json_int_t timeout, struct e2b_lifecycle *ret,
		     struct err *e)
{
	const json_t *memory = json_object_get(body, "autoPauseMemory");
	struct e2b_lifecycle l = { .pauses = json_is_true(json_object_get(body, "autoPause")) };
	int resumed;

	if (!is_boolean_or_absent(json_object_get(body, "autoPause")) ||
	    !is_boolean_or_absent(memory))
		return err_set(e, ERR_INVALID, "autoPause or autoPauseMemory is not a boolean");
	if (resumes(body, &resumed, e) < 0)
		return -1;
	l.drops_memory = l.pauses && json_is_false(memory);
	if (resumed && (!l.pauses || l.drops_memory))
		return err_set(e, ERR_INVALID,
			       "autoResume needs autoPause: true, and a pause that keeps the "
			       "memory");
	if (resumed)
		l.resume_s = timeout < RESUMED_S_MIN ? RESUMED_S_MIN : timeout;
	*ret = l;
	return 0;
}

struct e2b_lifecycle e2b_lifecycle_in(const json_t *record)
{
	return (struct e2b_lifecycle){
		.pauses = record_pause_at_end(record) || record_stop_at_end(record),
		.drops_memory = record_stop_at_end(record),
		.resume_s = record_resume_ttl_ms(record) / 1000,
	};
}

/* ---- a sandbox that runs ------------------------------------------------------------------- */

int e2b_pause_at_end(struct http_request *rq, const char *id, json_int_t timeout,
		     const struct e2b_lifecycle *l, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_update), *answer = NULL;
	struct box b;

	request_set_ttl_ms(ask, (uint64_t)(timeout ? timeout : 1) * 1000);
	if (l->drops_memory)
		request_set_stop_at_end(ask, 1);
	else
		request_set_pause_at_end(ask, 1);
	request_set_resume_ttl_ms(ask, (uint64_t)l->resume_s * 1000);
	if (box_connect_ref(&b, rq, id, e) == 0)
		answer = box_call(&b, ask, NULL, 0, NULL, e);
	box_close(&b);
	if (answer)
		return 0;
	api_forget(rq, id);
	return -1;
}

int e2b_is_paused(const json_t *live)
{
	const char *status = json_string_value(json_object_get(live, "state"));

	return !live || (status && !strcmp(status, "paused"));
}

/* A limit that cannot be read, or is none, is not told. */
json_t *e2b_when_stopped(struct box *b, const char *id)
{
	struct err ignored;
	autojson json_t *spec = registry_load(&b->registry, id, "spec.json", &ignored);
	uint64_t memory = b->registry.config->memory_bytes, milli = b->registry.config->cpu_milli;
	const json_t *pair;
	size_t i;

	json_array_foreach (json_object_get(spec, "options"), i, pair) {
		const char *option = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (!option || !value)
			continue;
		if (!strcmp(option, "memory") &&
		    num_size(value, option, 0, INT64_MAX, &memory, &ignored) < 0)
			memory = 0;
		if (!strcmp(option, "cpus") &&
		    num_milli(value, option, 0, INT32_MAX, &milli, &ignored) < 0)
			milli = 0;
	}
	return json_pack("{s:s,s:I,s:I}", "state", "paused", "memory_limit_bytes",
			 (json_int_t)memory, "cpu_limit_milli", (json_int_t)milli);
}

static int call(struct box *b, json_t *request, struct err *e)
{
	autojson json_t *ask = request, *answer = box_call(b, ask, NULL, 0, NULL, e);

	return answer ? 0 : -1;
}

/* From now on; 0 means never. */
static int set_ttl(struct box *b, json_int_t seconds, struct err *e)
{
	json_t *ask = protocol_request(OP_update);

	request_set_ttl_ms(ask, (uint64_t)seconds * 1000);
	return call(b, ask, e);
}

static int post_timeout(struct http_request *rq, struct err *e)
{
	autojson json_t *record = NULL, *live = NULL;
	json_int_t timeout;
	struct box b = { .sock = -1, .lock_fd = -1 };
	int r = e2b_timeout(http_json(rq), &timeout, e);

	if (r < 0)
		return -1;
	r = e2b_look(&b, rq, &record, &live, e);
	if (r == 0)
		r = set_ttl(&b, timeout ? timeout : 1, e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

/* ---- stop and start ------------------------------------------------------------------------ */

/* Whether the body says "memory": false. */
static int without_memory(struct http_request *rq, int *ret, struct err *e)
{
	const json_t *v = json_object_get(http_json(rq), "memory");

	*ret = json_is_false(v);
	return is_boolean_or_absent(v) ? 0 : err_set(e, ERR_INVALID, "memory is not a boolean");
}

/* berth stop or start, when no other request does so and it is needed. */
static int turn(struct http_request *rq, struct box *b, const char *verb, int when_stopped,
		struct err *e)
{
	int r;

	fd_close(&b->sock);
	fd_close(&b->lock_fd);
	r = box_lock(b, e);
	if (r == 0 && b->kept == when_stopped)
		r = spawn_berth(rq, call_of(verb, b->id, NULL), 1, -1, NULL, e);
	fd_close(&b->lock_fd);
	if (r == 0)
		b->kept = !when_stopped;
	return r;
}

static int stop(struct http_request *rq, struct box *b, struct err *e)
{
	return turn(rq, b, "stop", 0, e);
}

/* It is connected afterwards. */
static int start(struct http_request *rq, struct box *b, struct err *e)
{
	char id[65];

	memcpy(id, b->id, sizeof(id));
	if (turn(rq, b, "start", 1, e) < 0)
		return -1;
	box_close(b);
	return box_connect_ref(b, rq, id, e);
}

/* ---- pause --------------------------------------------------------------------------------- */

/* The end that it had, which a pause that failed has taken away. */
static void give_back_end(struct box *b, struct http_request *rq, const json_t *record)
{
	const json_int_t left = record_expires_ms(record) - (json_int_t)clock_wall_ms();
	struct err ignored;

	if (!record_expires_ms(record))
		return;
	box_close(b);
	if (box_connect(b, rq, &ignored) == 0)
		set_ttl(b, left > 1000 ? left / 1000 : 1, &ignored);
}

/* While it is paused no time runs out. */
static int post_pause(struct http_request *rq, struct err *e)
{
	autojson json_t *record = NULL, *live = NULL;
	struct box b = { .sock = -1, .lock_fd = -1 };
	int drops, r;

	if (without_memory(rq, &drops, e) < 0)
		return -1;
	r = e2b_look_at_any(&b, rq, &record, &live, e);
	if (r == 0 && e2b_is_paused(live))
		r = err_set(e, ERR_EXISTS, "sandbox %s is paused already", b.id);
	if (r == 0)
		r = set_ttl(&b, 0, e);
	if (r == 0) {
		r = drops ? stop(rq, &b, e) : call(&b, protocol_request(OP_pause), e);
		if (r < 0)
			give_back_end(&b, rq, record);
	}
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

/* ---- resume -------------------------------------------------------------------------------- */

/*
 * A sandbox that has just started has no end yet: without one it does not stay.  Its files must: so
 * it is not removed.
 */
static int begin_again(struct http_request *rq, struct box *b, json_int_t timeout, struct err *e)
{
	struct err ignored;

	if (start(rq, b, e) < 0)
		return -1;
	if (set_ttl(b, timeout, e) == 0)
		return 0;
	stop(rq, b, &ignored);
	return -1;
}

/* *ret_ends: it is being stopped at the end of its time, and cannot go on. */
static int go_on(struct box *b, const json_t *record, const json_t *live, json_int_t timeout,
		 int *ret_ends, struct err *e)
{
	const json_int_t ends = record_expires_ms(record);
	const struct e2b_lifecycle l = e2b_lifecycle_in(record);

	/* its time may end at this moment: it has more before it goes on */
	if (!l.pauses && e2b_is_paused(live) && call(b, protocol_request(OP_resume), e) < 0)
		return -1;
	if ((!ends || ends < (json_int_t)clock_wall_ms() + timeout * 1000) &&
	    set_ttl(b, timeout, e) < 0) {
		*ret_ends = l.drops_memory && (e->code == ERR_BUSY || b->ended);
		return -1;
	}
	return l.pauses ? call(b, protocol_request(OP_resume), e) : 0;
}

/* Resumes it where it is paused, and gives it at least so much time. */
static int resume(struct http_request *rq, int status, struct err *e)
{
	autojson json_t *record = NULL, *live = NULL;
	json_int_t timeout;
	struct box b = { .sock = -1, .lock_fd = -1 };
	int drops, ends = 0, r = e2b_timeout(http_json(rq), &timeout, e);

	if (r < 0 || without_memory(rq, &drops, e) < 0)
		return -1;
	timeout += !timeout;
	r = e2b_look_at_any(&b, rq, &record, &live, e);
	/* a pause that another request asked for comes first */
	if (r == 0)
		r = box_lock(&b, e);
	if (r == 0 && live && !b.kept) {
		ends = drops && e2b_is_paused(live); /* of one that runs, connect() ends nothing */
		r = ends ? 0 : go_on(&b, record, live, timeout, &ends, e);
		if (ends)
			r = stop(rq, &b, e);
	}
	if (r == 0 && (b.kept || ends))
		r = begin_again(rq, &b, timeout, e);
	box_close(&b);
	return r < 0 ? -1 : e2b_reply_new(rq, status, b.id, e2b_label(record, E2B_TEMPLATE), e);
}

static int post_connect(struct http_request *rq, struct err *e)
{
	return resume(rq, 200, e);
}

static int post_resume(struct http_request *rq, struct err *e)
{
	return resume(rq, 201, e);
}

#define ERRORS .shape_error = e2b_error, .error_schema = "Document"

const struct http_route e2b_pause_routes[] = {
	{ "POST", "/sandboxes/{id}/timeout", post_timeout, "E2B: let it live so long from now on",
	  HTTP_JSON, .status = 204, ERRORS },
	{ "POST", "/sandboxes/{id}/refreshes", post_timeout, "E2B: let it live so long from now on",
	  HTTP_JSON, HTTP_OPTIONAL, .status = 204, ERRORS },
	{ "POST", "/sandboxes/{id}/pause", post_pause, "E2B: freeze it, or stop it", HTTP_JSON,
	  HTTP_OPTIONAL, .status = 204, ERRORS },
	{ "POST", "/sandboxes/{id}/resume", post_resume, "E2B: let it go on", HTTP_JSON,
	  HTTP_OPTIONAL, .response = "Document", .status = 201, ERRORS },
	{ "POST", "/sandboxes/{id}/connect", post_connect, "E2B: let it go on", HTTP_JSON,
	  HTTP_OPTIONAL, .response = "Document", ERRORS },
	{ "POST", "/v2/sandboxes/{id}/connect", post_connect, "E2B: let it go on", HTTP_JSON,
	  HTTP_OPTIONAL, .response = "Document", ERRORS },
	{ NULL },
};
