/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes on zygotes: make, list, look at, remove, run code in a fork.
 *
 * The program makes and removes them: their supervisors are its processes, and outlive berthd.
 * A run asks the zygote's socket itself.  The fork ends with the request.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/estream.h"
#include "manager/api/execution.h"
#include "manager/ops/params.h"
#include "manager/service/createargs.h"
#include "manager/zygote/list.h"

/* ---- one that the caller may see -------------------------------------------------------- */

/* NULL: an administrator sees all. */
static const char *tenant_of_zygotes(const struct http_request *rq)
{
	return http_who(rq)->admin ? NULL : http_who(rq)->name;
}

/* Upholds S19 of SECURITY.md.  A key of one sandbox is for no zygote. */
static int is_zygote_seen(void *ctx, const char *id)
{
	struct box *b = ctx;

	return !http_who(b->rq)->only[0] && zygote_is_of(&b->registry, id, tenant_of_zygotes(b->rq));
}

int api_find_zygote(struct box *b, struct http_request *rq, const char *ref, struct err *e)
{
	if (box_open(b, rq, e) < 0)
		return -1;
	if (registry_find_seen(&b->registry, ref, is_zygote_seen, b, b->id, &b->kept, e) < 0) {
		if (e->code != ERR_NOT_FOUND)
			return -1;
		b->id[0] = '\0';
	}
	if (!b->id[0] || (!tenant_of_zygotes(rq) && !zygote_is_meant(&b->registry, ref, b->id)))
		return err_set(e, ERR_NOT_FOUND,
			       "no zygote '%.80s'; hint: GET /v1/zygotes lists them", ref);
	return 0;
}

/* The zygote that {zygote} names. */
static int find_zygote_of_request(struct box *b, struct http_request *rq, struct err *e)
{
	if (api_find_zygote(b, rq, http_param(rq, "zygote"), e) < 0)
		return -1;
	http_audit(rq, "id", b->id);
	return 0;
}

/* Without its pid, which is one of the host's. */
static json_t *show_zygote(json_t *zygote)
{
	json_object_del(zygote, "pid");
	return zygote;
}

struct listing {
	struct box box;
	json_t *list;
};

static int add_listed_zygote(void *ctx, const char *id)
{
	struct listing *l = ctx;
	struct err ignored;
	json_t *one = is_zygote_seen(&l->box, id) ? zygote_describe(&l->box.registry, id, &ignored) : NULL;

	if (one) /* else it is none of the caller's, or just ends */
		json_array_append_new(l->list, show_zygote(one));
	return 0;
}

static int get_zygotes(struct http_request *rq, struct err *e)
{
	struct listing l = {.list = json_array()};
	int r = box_open(&l.box, rq, e);

	if (r == 0)
		r = registry_each(l.box.registry.sandboxes_fd, add_listed_zygote, &l, e);
	box_close(&l.box);
	if (r < 0) {
		json_decref(l.list);
		return -1;
	}
	return http_reply_json(rq, 0, json_pack("{s:o}", "zygotes", l.list), e);
}

static int get_zygote(struct http_request *rq, struct err *e)
{
	json_t *one = NULL;
	struct box b;

	if (find_zygote_of_request(&b, rq, e) == 0)
		one = zygote_describe(&b.registry, b.id, e);
	box_close(&b);
	return one ? http_reply_json(rq, 0, show_zygote(one), e) : -1;
}

/* ---- make, remove ------------------------------------------------------------------------ */

static json_t *zygote_create_call(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	struct createargs what = {.tenant = tenant_of_zygotes(rq)};
	autojson json_t *checked = json_array();
	struct config c;
	json_t *call;

	api_config(api_of(rq), &c);
	what.image = c.image;
	if (createargs_read(&what, body, e) < 0 ||
	    params_from_json(what.options, PARAM_OF_ZYGOTE | PARAM_FROM_AFAR, checked, e) < 0)
		return NULL;
	call = call_of("zygote create", what.image, NULL);
	call_options(call, what.options);
	call_text(call, "name", json_string_value(json_object_get(body, "name")));
	call_text(call, "tenant", what.tenant);
	call_operands(call, what.command);
	return call;
}

static int remove_zygote_by_id(struct http_request *rq, const char *id, struct err *e)
{
	return spawn_berth(rq, call_of("zygote rm", id, NULL), 1, -1, NULL, e);
}

static int post_zygote(struct http_request *rq, struct err *e)
{
	const char *name = json_string_value(json_object_get(http_json(rq), "name")), *id;
	json_t *call = zygote_create_call(rq, e);
	json_t *made = call ? spawn_json(rq, call, 0, e) : NULL;	/* a client that goes takes the preload with it */
	struct err ignored;

	if (!made)
		return name ? box_name_taken(rq, name, e) : -1;
	id = json_string_value(json_object_get(made, "id"));
	http_audit(rq, "id", id ? id : "");
	/* no client would ever learn its id */
	if (!id || http_wait(rq, -1, 0, 0, e) < 0) {
		if (id)
			remove_zygote_by_id(rq, id, &ignored);
		else
			err_set(e, ERR_INTERNAL, "berth zygote create gave no id");
		json_decref(made);
		return -1;
	}
	return http_reply_json(rq, 0, made, e);
}

static int delete_zygote(struct http_request *rq, struct err *e)
{
	struct box b;
	int r = find_zygote_of_request(&b, rq, e);

	if (r == 0)
		r = remove_zygote_by_id(rq, b.id, e);
	box_close(&b);
	return r < 0 ? -1 :
		       http_reply_json(rq, 0, json_pack("{s:s,s:b}", "id", b.id, "removed", 1), e);
}

/* ---- run --------------------------------------------------------------------------------- */

static int begin_zygote_run(struct execution *x, struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	const int stream = json_is_true(json_object_get(body, "stream"));

	x->stays_open = json_is_true(json_object_get(body, "stdin_open"));
	if (x->stays_open && (!stream || json_object_get(body, "stdin") ||
			      json_object_get(body, "stdin_hex")))
		return err_set(e, ERR_INVALID,
			       "\"stdin_open\" goes with \"stream\", and without \"stdin\"");
	if (find_zygote_of_request(&x->box, rq, e) < 0 || json_get_bytes(body, "stdin", &x->input, "request", e) < 0)
		return -1;
	return execution_launch_code(x, e);
}

static int post_zygote_run(struct http_request *rq, struct err *e)
{
	struct execution *x = execution_new(rq, e);
	int r;

	if (!x)
		return -1;
	r = begin_zygote_run(x, rq, e);
	if (r == 0 && json_is_true(json_object_get(http_json(rq), "stream")))
		return execution_stream(x, e);
	if (r == 0)
		r = execution_reply(x, e);
	execution_free(x);
	return r;
}

/* ---- stdin of a run ------------------------------------------------------------------------ */

struct sending {
	char zygote[65];
	int fd;
	uint64_t sent;
};

static void zygote_stdin_free(void *data)
{
	struct sending *s = data;

	fd_close(&s->fd);
	free(s);
}

static int begin_zygote_stdin(struct http_request *rq, struct err *e)
{
	struct sending *s = calloc(1, sizeof(*s));
	struct box b;
	int r;

	if (!s)
		return err_nomem(e);
	s->fd = -1;
	http_set_data(rq, s, zygote_stdin_free);
	r = find_zygote_of_request(&b, rq, e);
	box_close(&b);
	if (r < 0)
		return -1;
	memcpy(s->zygote, b.id, sizeof(s->zygote));
	s->fd = livein_open(api_of(rq), b.id, http_param(rq, "run"));
	return s->fd < 0 ? err_set(e, ERR_NOT_FOUND, "no such run takes input") : 0;
}

static int feed_zygote_stdin(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct sending *s = http_data(rq);

	return livein_write(rq, s->fd, data, n, &s->sent, e);
}

static int post_zygote_stdin(struct http_request *rq, struct err *e)
{
	struct sending *s = http_data(rq);

	if (http_query_bool(rq, "eof"))
		livein_close_input(api_of(rq), s->zygote, http_param(rq, "run"));
	return http_reply_json(rq, 0, json_pack("{s:I}", "sent", (json_int_t)s->sent), e);
}

#define ZYGOTE "/v1/zygotes/{zygote}"

const struct http_route zygote_routes[] = {
	{"GET", "/v1/zygotes", get_zygotes, "list zygotes", .response = "ZygoteList"},
	{"POST", "/v1/zygotes", post_zygote,
	 "have an interpreter load what it needs, and wait to be forked", HTTP_JSON,
	 .request = "ZygoteCreate", .response = "Created", .status = 201},
	{"GET", ZYGOTE, get_zygote, "a zygote and its living forks", .response = "Zygote"},
	{"DELETE", ZYGOTE, delete_zygote, "end it and its forks", .response = "Removed"},
	{"POST", ZYGOTE "/run", post_zygote_run,
	 "run code in a fork of it: a whole reply, or with \"stream\" events as they come",
	 HTTP_JSON, .request = "ZygoteRun", .response = "ZygoteRan", .type = ESTREAM_TYPES},
	{"POST", ZYGOTE "/runs/{run}/stdin", post_zygote_stdin,
	 "send the body to the stdin of a run with \"stdin_open\"; eof closes it", HTTP_RAW,
	 .query = "eof:boolean", .response = "Sent", .begin = begin_zygote_stdin, .feed = feed_zygote_stdin},
	{NULL},
};
