/* SPDX-License-Identifier: Apache-2.0 */
/* Routes on checkpoints beyond their host: a file that a client carries, and the storage of the manager. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/api/box.h"
#include "manager/api/route_manager.h"
#include "manager/host/tenant.h"
#include "manager/service/stored.h"

/* ---- from one host to another ---- */

/*
 * Routes that move a checkpoint from one host to another: its file (cli/image/portable.h) as the
 * reply, and a sandbox of the body.  Upholds S49 of SECURITY.md.
 *
 * The programs do the work.  berthd passes bytes on and keeps none: a body that ends early is the
 * end of the program's input, which then removes what it had made.
 */

static int get_checkpoint_export(struct http_request *rq, struct err *e)
{
	json_t *call;
	struct box b;
	int r = box_find(&b, rq, e);

	box_close(&b);
	if (r < 0)
		return -1;
	call = call_of("checkpoint export", NULL);
	call_sandbox(call, b.id, http_param(rq, "checkpoint"));
	spawn_tenant(rq, call);
	return spawn_reply(rq, call, "application/x-tar", e);
}

/* As for archives that become images: processes of the host read it, on no sandbox's account. */
static int check_may_import(struct http_request *rq, struct err *e)
{
	struct config c;
	struct tenant t;

	if (http_who(rq)->admin)
		return 0;
	api_config(api_of(rq), &c);
	if (tenant_load(&t, &c, http_who(rq)->name, e) < 0)
		return -1;
	if (t.may_import)
		return 0;
	err_set(e, ERR_DENIED, "tenant %s may not import checkpoints", t.name);
	return err_hint(e, "[tenant] import in berth.toml");
}

static int begin_checkpoint_import(struct http_request *rq, struct err *e)
{
	const struct arrival_options o = { http_query(rq, "name"), http_query_bool(rq, "trust"),
					   http_query_bool(rq, "drop"),
					   http_query_bool(rq, "no_start") };

	return check_may_import(rq, e) < 0 ? -1 : arrival_begin(rq, &o, e);
}

const struct http_route portable_routes[] = {
	{ "GET", "/v1/sandboxes/{id}/checkpoints/{checkpoint}/export", get_checkpoint_export,
	  "a checkpoint as one file, with the sandbox's options", .type = "application/x-tar" },
	{ "POST", "/v1/checkpoints/import", arrival_end,
	  "make a sandbox of the body, a checkpoint's file", HTTP_RAW,
	  .query = "name:string trust:boolean drop:boolean no_start:boolean",
	  .response = "CheckpointImported", .status = 201, .begin = begin_checkpoint_import,
	  .feed = arrival_feed },
	{ NULL },
};

/* ---- to the storage of the manager, and from it ---- */

/*
 * Routes on checkpoints in the storage of the manager (manager/service/stored.h): berth checkpoint
 * export is read piece by piece, and its import is fed so.
 */

#define BLOCK 512u

static struct service *service_of(struct http_request *rq, struct err *e)
{
	if (!manager_of(rq))
		err_set(e, ERR_UNSUPPORTED, "this berthd serves without its manager");
	return manager_of(rq);
}

/* Whose checkpoints are meant: the client's; "" is the operator. */
static const char *whose(struct http_request *rq, struct err *e)
{
	const char *tenant = http_query(rq, "tenant");

	if (http_who(rq)->admin)
		return tenant ? tenant : "";
	if (!tenant || !strcmp(tenant, http_who(rq)->name))
		return http_who(rq)->name;
	err_set(e, ERR_DENIED, "the checkpoints of another tenant need an admin token");
	return NULL;
}

/* The description of one checkpoint for a client. */
static json_t *show_stored_record(const json_t *record)
{
	static const char *const members[] = { "name",	 "tenant", "state",	"bytes",
					       "digest", "image",  "created_ms" };
	json_t *ret = json_object();
	size_t i;

	for (i = 0; i < ARRAY_LEN(members); i++)
		if (json_object_get(record, members[i]))
			json_object_set(ret, members[i], json_object_get(record, members[i]));
	return ret;
}

/* ---- to the storage ---------------------------------------------------------------------- */

/* Up to a whole piece, or the end of the program's output: how many bytes, or -1. */
static ssize_t read_piece(struct http_request *rq, int fd, char *piece, struct err *e)
{
	size_t n = 0;

	while (n < STORED_PIECE) {
		const ssize_t got = read(fd, piece + n, STORED_PIECE - n);

		if (got > 0)
			n += (size_t)got;
		else if (got == 0)
			break;
		else if (errno != EAGAIN && errno != EINTR)
			return err_sys(e, "read from berth");
		else if (http_wait(rq, fd, POLLIN, -1, e) < 0)
			return -1;
	}
	return (ssize_t)n;
}

/* The content of its first file, checkpoint.json: a new object. */
static json_t *look_into(const char *piece, size_t n)
{
	struct err ignored;
	const size_t size = n > BLOCK ? strtoul(piece + 124, NULL, 8) : 0;
	const int fits = size && size < n - BLOCK;
	autojson json_t *m =
		fits ? json_parse(piece + BLOCK, size, size, "a checkpoint", &ignored) : NULL;

	return json_pack("{s:O*,s:O*}", "digest",
			 json_object_get(json_object_get(m, "layer"), "digest"), "image",
			 json_object_get(m, "image"));
}

static int send_exported_pieces(struct http_request *rq, struct called *p, struct stored *u, json_t **ret,
		    struct err *e)
{
	autofree char *piece = malloc(STORED_PIECE);
	ssize_t n;

	if (!piece)
		return err_nomem(e);
	while ((n = read_piece(rq, p->out, piece, e)) > 0) {
		if (!*ret)
			*ret = look_into(piece, (size_t)n);
		if (stored_add(u, piece, (size_t)n, e) < 0)
			return -1;
		if (n < (ssize_t)STORED_PIECE)
			break;
	}
	return n < 0 ? -1 : 0;
}

static json_t *store_checkpoint(struct http_request *rq, const char *from, struct stored *u, struct err *e)
{
	json_t *call = call_of("checkpoint export", from, NULL), *members = NULL;
	struct called p;

	spawn_tenant(rq, call);
	if (spawn_start(rq, call, -1, &p, e) < 0) {
		stored_abort(u);
		return NULL;
	}
	if (send_exported_pieces(rq, &p, u, &members, e) < 0)
		call_abort(&p);
	else if (spawn_finish(rq, &p, 0, NULL, e) == 0)
		return stored_end(u, members, e);
	json_decref(members);
	stored_abort(u);
	return NULL;
}

static int post_store(struct http_request *rq, struct err *e)
{
	const char *name = json_string_value(json_object_get(http_json(rq), "name")), *owner;
	const char *checkpoint = http_param(rq, "checkpoint");
	struct service *s = service_of(rq, e);
	autojson json_t *record = NULL;
	char from[sizeof(((struct box *)0)->id) + 80], preset[sizeof(from)];
	struct stored *u;
	struct box b;
	int r = s && (owner = whose(rq, e)) ? box_find(&b, rq, e) : -1;

	if (r < 0)
		return -1;
	if ((size_t)snprintf(from, sizeof(from), "%s@%s", b.id, checkpoint) >= sizeof(from))
		r = err_set(e, ERR_NOT_FOUND, "no checkpoint has a name that long");
	snprintf(preset, sizeof(preset), "%s-%s", b.id, strchr(from, '@') + 1);
	box_close(&b);
	if (r < 0 || stored_begin(s, owner, name ? name : preset, &u, e) < 0)
		return -1;
	record = store_checkpoint(rq, from, u, e);
	return record ? http_reply_json(rq, 0, show_stored_record(record), e) : -1;
}

/* ---- those that are there ----------------------------------------------------------------- */

static int get_stored(struct http_request *rq, struct err *e)
{
	struct service *s = service_of(rq, e);
	const char *owner = s ? whose(rq, e) : NULL;
	autojson json_t *all = NULL, *list = json_array();
	const json_t *one;
	size_t i;

	if (!owner)
		return -1;
	/* an administrator who names nobody sees all */
	all = stored_list(s, http_who(rq)->admin && !http_query(rq, "tenant") ? NULL : owner, e);
	if (!all)
		return -1;
	json_array_foreach (all, i, one)
		json_array_append_new(list, show_stored_record(one));
	return http_reply_json(rq, 0, json_pack("{s:O}", "checkpoints", list), e);
}

static int delete_stored(struct http_request *rq, struct err *e)
{
	struct service *s = service_of(rq, e);
	const char *owner = s ? whose(rq, e) : NULL;

	if (!owner || stored_remove(s, owner, http_param(rq, "stored"), e) < 0)
		return -1;
	return http_reply_json(rq, 0, json_pack("{s:s}", "removed", http_param(rq, "stored")), e);
}

static int feed_stored_pieces(struct http_request *rq, struct service *s, const json_t *record,
		    struct err *e)
{
	uint64_t i;
	int got;

	for (i = 0;; i++) {
		autobuf struct buf piece = BUF_INIT(STORED_OBJECT);

		if (http_wait(rq, -1, 0, 0, e) < 0)
			return -1;
		got = stored_piece(s, record, i, &piece, e);
		if (got <= 0)
			return got;
		if (arrival_feed(rq, piece.data ? piece.data : "", piece.len, e) < 0)
			return -1;
	}
}

static int post_stored_restore(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	const struct arrival_options o = { json_string_value(json_object_get(body, "name")),
					   json_is_true(json_object_get(body, "trust")),
					   json_is_true(json_object_get(body, "drop")),
					   json_is_true(json_object_get(body, "no_start")) };
	struct service *s = service_of(rq, e);
	const char *owner = s ? whose(rq, e) : NULL;
	autojson json_t *record = owner ? stored_find(s, owner, http_param(rq, "stored"), e) : NULL;

	if (!record || arrival_begin(rq, &o, e) < 0 || feed_stored_pieces(rq, s, record, e) < 0)
		return -1;
	return arrival_end(rq, e);
}

const struct http_route stored_routes[] = {
	{ "POST", "/v1/sandboxes/{id}/checkpoints/{checkpoint}/store", post_store,
	  "put a checkpoint into the storage of the manager", HTTP_JSON, HTTP_OPTIONAL,
	  .query = "tenant:string", .request = "CheckpointStore", .response = "CheckpointStored",
	  .status = 201 },
	{ "GET", "/v1/checkpoints", get_stored, "the checkpoints in the storage",
	  .query = "tenant:string", .response = "CheckpointsStored" },
	{ "DELETE", "/v1/checkpoints/{stored}", delete_stored,
	  "remove a checkpoint from the storage", .query = "tenant:string",
	  .response = "StoredRemoved" },
	{ "POST", "/v1/checkpoints/{stored}/restore", post_stored_restore,
	  "make a sandbox of a checkpoint in the storage", HTTP_JSON, HTTP_OPTIONAL,
	  .query = "tenant:string", .request = "CheckpointRestore",
	  .response = "CheckpointImported", .status = 201 },
	{ NULL },
};
