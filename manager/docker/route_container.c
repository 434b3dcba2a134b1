/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that make containers, list them and look at one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/sizes.h"
#include "manager/engine/host.h"
#include "manager/engine/id.h"
#include "manager/engine/objects.h"
#include "manager/engine/volumes.h"
#include "manager/host/forget.h"
#include "manager/host/record.h"
#include "manager/service/dlog.h"

/* ---- create --------------------------------------------------------------------------- */

static void log_unknown(const struct engine_create *c)
{
	autofree char *text =
		json_array_size(c->unknown) ? json_dumps(c->unknown, JSON_COMPACT) : NULL;

	if (text)
		dlog_note(DLOG_INFO, "docker: a create had members that mean nothing here: %.400s",
			  text);
}

/* berth create with the words of the request: its id in b. */
static int spawn_create(struct http_request *rq, const struct engine_create *c, struct box *b,
			struct err *e)
{
	json_t *call = call_of("create", NULL);
	autojson json_t *made = NULL;
	const char *id;

	call_flag(call, "no-start");
	call_text(call, "pull", "never");
	call_text(call, "name", c->name[0] ? c->name : NULL);
	call_words(call, c->words);
	made = spawn_json(rq, call, 1, e);
	id = json_string_value(json_object_get(made, "id"));
	if (!id)
		return made ? err_set(e, ERR_INTERNAL, "berth create gave no id") : -1;
	snprintf(b->id, sizeof(b->id), "%s", id);
	http_audit(rq, "id", b->id);
	return 0;
}

/* On its other networks before its client knows its id; else nothing of it is left. */
static int join_networks(struct http_request *rq, struct box *b, const struct engine_create *c,
			 struct err *e)
{
	struct err ignored;
	json_t *join;
	size_t i;
	int r = 0;

	json_array_foreach (c->joins, i, join) {
		json_t *call = json_deep_copy(join);

		call_operand(call, b->id);
		r = spawn_berth(rq, call, 1, -1, NULL, e);
		if (r < 0)
			break;
	}
	if (r < 0)
		forget_alone(&b->registry, b->id, &ignored);
	return r;
}

/* The status 404 is an image's alone: docker's client pulls one then. */
static int not_made(struct http_request *rq, struct err *e)
{
	if (e->code == ERR_NOT_FOUND)
		http_error_status(rq, 400);
	engine_network_missing(e);
	return -1;
}

static int create(struct http_request *rq, struct box *b, struct engine_create *c, struct err *e)
{
	const struct engine_berth asker = docker_berth(rq, NULL);
	const char *name = http_query(rq, "name"), *image = "";
	autojson json_t *others = NULL;
	json_t *body = http_json(rq);
	struct engine_rules rules;

	if (engine_create_fold(body, e) < 0)
		return -1;
	engine_host_rules(&b->config, docker_of(rq)->allow, docker_of(rq)->binds, &rules);
	if (engine_create_init(c, &rules, e) < 0)
		return -1;
	others = engine_load_others(&b->registry, body, e);
	if (!others || engine_check_links(&b->registry, body, e) < 0)
		return -1;
	c->others = others;
	if (engine_create_name(c, name ? name : "", e) < 0 || engine_create_read(c, body, e) < 0 ||
	    engine_str(body, "Image", &image, e) < 0)
		return -1;
	log_unknown(c);
	if (engine_host_image(&b->config, image, e) < 0 ||
	    engine_host_platform(&b->config, image, http_query(rq, "platform"), e) < 0 ||
	    engine_host_directories(c->directories, e) < 0)
		return -1;
	if (engine_volumes_make(&asker, c->volumes, 0, e) < 0 ||
	    engine_volumes_make(&asker, c->anonymous, 1, e) < 0)
		return -1;
	if (spawn_create(rq, c, b, e) < 0)
		return c->called[0] && e->code == ERR_EXISTS
			       ? engine_host_name_taken(&b->registry, c->called, e)
			       : not_made(rq, e);
	if (engine_host_save(&b->registry, b->id, c, body, e) == 0 &&
	    join_networks(rq, b, c, e) == 0)
		return 0;
	/* a client that lists containers may have seen it, and removed it */
	return record_is_gone(&b->registry, b->id) && e->os_errno == ENOENT ?
		       docker_fail(rq, 404, e, "No such container: %s", b->id) :
		       not_made(rq, e);
}

static int post_create(struct http_request *rq, struct err *e)
{
	const struct engine_berth asker = docker_berth(rq, NULL);
	struct engine_create c = { 0 };
	char id[ENGINE_ID];
	struct box b;
	json_t *reply;
	int r = box_open(&b, rq, e);

	/* nothing is left of a container that could not be made */
	if (r == 0 && (r = create(rq, &b, &c, e)) < 0)
		engine_volumes_drop(&asker, c.anonymous);
	box_close(&b);
	engine_id(b.id, id);
	reply = r < 0 ? NULL : json_pack("{s:s,s:O}", "Id", id, "Warnings", c.warnings);
	engine_create_release(&c);
	return r < 0 ? -1 : http_reply_json(rq, 201, reply, e);
}

/* ---- look ------------------------------------------------------------------------------ */

static int get_one(struct http_request *rq, struct err *e)
{
	json_t *doc = NULL;
	struct engine_loaded d;
	struct box b;
	int r = docker_find(&b, rq, e);

	if (r == 0)
		r = docker_load(&d, &b, 1, e);
	if (r == 0) {
		doc = engine_inspect(&d.v);
		engine_loaded_release(&d);
	}
	if (r == 0 && docker_query_flag(rq, "size")) {
		autojson json_t *list = json_pack("[O]", doc);

		r = engine_sizes(&b.config, &b.registry, list, e);
		if (r < 0)
			json_decref(doc);
	}
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 200, doc, e);
}

static int get_list(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	json_t *out = NULL;
	struct box b;
	long limit;

	if (!filters || docker_query_int(rq, "limit", 0, &limit, e) < 0)
		return -1;
	if (box_open(&b, rq, e) == 0)
		out = engine_load_list(&b.registry, filters, docker_query_flag(rq, "all"), limit,
				       e);
	if (out && docker_query_flag(rq, "size") &&
	    engine_sizes(&b.config, &b.registry, out, e) < 0) {
		json_decref(out);
		out = NULL;
	}
	box_close(&b);
	return out ? http_reply_json(rq, 200, out, e) : -1;
}

/* Docker's hold memory and processes, by CRIU; berth's hold files. */
static int refuse_checkpoint(struct http_request *rq, struct err *e)
{
	(void)rq;
	return err_set(e, ERR_UNSUPPORTED,
		       "checkpoints of memory and processes are not supported; berth checkpoint "
		       "keeps the files of a container");
}

#define CHECKPOINTS "/containers/{id}/checkpoints"

const struct http_route docker_container_routes[] = {
	{ "GET", CHECKPOINTS, refuse_checkpoint, "refused", HTTP_NONE, HTTP_QUIET },
	{ "POST", CHECKPOINTS, refuse_checkpoint, "refused", HTTP_JSON, HTTP_OPTIONAL },
	{ "DELETE", CHECKPOINTS "/{checkpoint}", refuse_checkpoint, "refused" },
	{ "GET", "/containers/json", get_list, "list containers", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/containers/create", post_create, "make a container", HTTP_JSON },
	{ "GET", "/containers/{id}/json", get_one, "look at a container", HTTP_NONE, HTTP_QUIET },
	{ NULL },
};
