/* SPDX-License-Identifier: Apache-2.0 */
/* Containers: how a request finds its own, and the routes that make, list and remove them and change their life. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/host.h"
#include "manager/engine/links.h"
#include "manager/engine/name.h"
#include "manager/engine/objects.h"
#include "manager/engine/system.h"
#include "manager/host/forget.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/service/dlog.h"

/* ---- the container of a request ---- */

/* The container of a request: how it is found, and its facts. */

#define FILES_WAIT_MS 10000 /* for others that use, start or stop the container */
#define FILES_LOOK_MS 20
#define NAME_TRIES 100 /* for a name whose container has gone each time */

const char *docker_called(const struct http_request *rq)
{
	const char *ref = http_param(rq, "id");

	return ref + (*ref == '/');
}

void box_clear(struct box *b)
{
	memset(b, 0, sizeof(*b));
	b->sock = b->lock_fd = -1;
	b->registry = (struct registry)REGISTRY_INIT;
}

int docker_find_named(struct box *b, struct http_request *rq, const char *name, struct err *e)
{

	if (box_open(b, rq, e) < 0)
		return -1;
	if (!name || !name[0])
		return docker_fail(rq, 400, e, "no container is named");
	if (engine_container_find(&b->registry, name, b->id, &b->kept, e) < 0)
		return -1;
	http_audit(rq, "id", b->id);
	return 0;
}

int docker_explain(struct box *b, struct http_request *rq, struct err *e)
{
	return engine_container_explain(&b->registry, b->id, docker_called(rq), e);
}

int docker_find(struct box *b, struct http_request *rq, struct err *e)
{
	const char *alias = http_param(rq, "alias");
	char id[65];

	if (docker_find_named(b, rq, http_param(rq, "id"), e) < 0)
		return -1;
	if (!alias[0])
		return 0;
	/* "NAME/ALIAS" is the target of a link */
	if (engine_links_find(&b->registry, b->id, alias, id, &b->kept, e) < 0)
		return -1;
	memcpy(b->id, id, sizeof(id));
	http_audit(rq, "id", b->id);
	return 0;
}

int docker_find_running(struct box *b, struct http_request *rq, struct err *e)
{
	if (docker_find(b, rq, e) < 0)
		return -1;
	return b->kept ? engine_not_running(b->id, e) : 0;
}

int docker_connect(struct box *b, struct err *e)
{
	b->sock = keeper_connect(&b->registry, b->id, e);
	if (b->sock < 0 && e->code == ERR_NOT_FOUND)
		return engine_not_running(b->id, e);
	return b->sock < 0 ? -1 : 0;
}

json_t *docker_call(struct box *b, json_t *request, struct err *e)
{
	json_t *answer = box_call(b, request, NULL, 0, NULL, e);

	if (!answer && b->ended && e->code == ERR_BUSY)
		engine_not_running(b->id, e);
	return answer;
}

/* 1: its keeper for files exists; 0: it was started meanwhile, so look again. */
static int make_files_keeper(struct box *b, struct err *e)
{
	if (spawn_berth(b->rq, call_of("open-files", b->id, NULL), 1, -1, NULL, e) == 0)
		return 1;
	return e->code == ERR_EXISTS ? 0 : -1;
}

int docker_open_files(struct box *b, struct http_request *rq, struct err *e)
{
	const uint64_t until = clock_ms() + FILES_WAIT_MS;
	int r;

	box_clear(b);
	do {
		box_close(b);
		if (docker_find(b, rq, e) < 0)
			return -1;
		r = b->kept ? make_files_keeper(b, e) : 1;
		if (r < 0)
			return -1;
		if (r > 0)
			b->sock = keeper_connect(&b->registry, b->id, e);
		if (b->sock >= 0)
			return 0;
		if (http_wait(rq, -1, 0, FILES_LOOK_MS, e) < 0)
			return -1;
	} while (clock_ms() < until);
	return docker_fail(rq, 409, e, "the files of container %.200s are in use; try again",
			   docker_called(rq));
}

static json_t *ask_box_keeper(void *ctx, json_t *rq, struct err *e)
{
	struct box *b = ctx;

	if (b->sock < 0 && docker_connect(b, e) < 0)
		return NULL;
	return docker_call(b, rq, e);
}

int docker_container(struct engine_container *ret, struct box *b, struct http_request *rq, struct err *e)
{
	if (docker_find(b, rq, e) < 0)
		return -1;
	*ret = (struct engine_container){ .berth = docker_berth(rq, NULL),
					  .keeper = { ask_box_keeper, b },
					  .registry = &b->registry,
					  .id = b->id,
					  .kept = b->kept,
					  .called = docker_called(rq) };
	return 0;
}

int docker_load(struct engine_loaded *l, struct box *b, int live, struct err *e)
{
	const struct engine_asker asker = { ask_box_keeper, b };

	if (engine_load(l, &b->registry, b->id, b->kept, live ? &asker : NULL, e) == 0)
		return 0;
	return docker_fail(b->rq, 404, e, "No such container: %.200s", docker_called(b->rq));
}

/* ---- create, list, inspect ---- */

/* Routes that make containers, list them and look at one. */

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
static int spawn_create(struct http_request *rq, const struct engine_create *c, const char *asked,
			struct box *b, struct err *e)
{
	json_t *call = call_of("create", NULL);
	autojson json_t *made = NULL;
	const char *id;

	call_flag(call, "no-start");
	call_text(call, "pull", "never");
	call_text(call, "name", c->name[0] ? c->name : NULL);
	call_text(call, "asked", asked);
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
static int join_box_networks(struct http_request *rq, struct box *b, const struct engine_create *c,
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

/* Else nothing of it is left. */
static int tell_links(struct box *b, const struct engine_create *c, struct err *e)
{
	struct err ignored;

	if (engine_links_tell(&b->registry, b->id, c->linked, e) == 0)
		return 0;
	forget_alone(&b->registry, b->id, &ignored);
	return -1;
}

/* The status 404 is an image's alone: docker's client pulls one then. */
static int not_made(struct http_request *rq, struct err *e)
{
	if (e->code == ERR_NOT_FOUND)
		http_error_status(rq, 400);
	engine_network_missing(e);
	return -1;
}

static int create_box(struct http_request *rq, struct box *b, struct engine_create *c, struct err *e)
{
	const struct engine_berth asker = docker_berth(rq, NULL);
	const char *name = http_query(rq, "name"), *image = "";
	autojson json_t *others = NULL, *links = NULL, *asked = NULL;
	autofree char *asked_text = NULL;
	json_t *body = http_json(rq);
	struct engine_rules rules;
	int tries = 0;

	if (engine_create_fold(body, e) < 0)
		return -1;
	engine_host_rules(&b->config, docker_of(rq)->allow, docker_of(rq)->binds, &rules);
	if (engine_create_init(c, &rules, e) < 0)
		return -1;
	others = engine_load_others(&b->registry, body, e);
	links = others ? engine_links_read(&b->registry, body, e) : NULL;
	if (!links || engine_check_modes(&b->registry, body, e) < 0)
		return -1;
	c->others = others;
	c->links = links;
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
	asked = engine_host_asked(c, body, e);
	if (!asked)
		return -1;
	asked_text = json_dumps(asked, JSON_COMPACT);
	if (!asked_text)
		return err_nomem(e);
	while (spawn_create(rq, c, asked_text, b, e) < 0) {
		if (!c->called[0] || e->code != ERR_EXISTS)
			return not_made(rq, e);
		/* what had the name may have gone since */
		if (engine_host_name_taken(&b->registry, c->called, e) < 0 || ++tries == NAME_TRIES ||
		    http_wait(rq, -1, 0, FILES_LOOK_MS, e) < 0)
			return -1;
	}
	if (engine_host_own(&b->registry, b->id, c, body, e) == 0 && tell_links(b, c, e) == 0 &&
	    join_box_networks(rq, b, c, e) == 0)
		return 0;
	/* a client that lists containers may have seen it, and removed it */
	return record_is_gone(&b->registry, b->id) && e->os_errno == ENOENT ?
		       docker_fail(rq, 404, e, "No such container: %s", b->id) :
		       not_made(rq, e);
}

static int post_box_create(struct http_request *rq, struct err *e)
{
	const struct engine_berth asker = docker_berth(rq, NULL);
	struct engine_create c = { 0 };
	char id[ENGINE_ID];
	struct box b;
	json_t *reply;
	int r = box_open(&b, rq, e);

	/* nothing is left of a container that could not be made */
	if (r == 0 && (r = create_box(rq, &b, &c, e)) < 0)
		engine_volumes_drop(&asker, c.anonymous);
	box_close(&b);
	engine_id(b.id, id);
	reply = r < 0 ? NULL : json_pack("{s:s,s:O}", "Id", id, "Warnings", c.warnings);
	engine_create_release(&c);
	if (r == 0)
		http_undo_unsent(rq, api_forget, b.id);
	return r < 0 ? -1 : http_reply_json(rq, 201, reply, e);
}

/* ---- look ------------------------------------------------------------------------------ */

static int get_box(struct http_request *rq, struct err *e)
{
	json_t *doc = NULL;
	struct engine_loaded d;
	struct box b;
	int r = docker_find(&b, rq, e);

	if (r == 0)
		r = docker_load(&d, &b, 1, e);
	if (r == 0) {
		doc = engine_inspect(&d.v);
		if (d.v.runs)
			json_object_set_new(doc, "ExecIDs", execs_running(docker_of(rq)->execs, b.id));
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

static int get_box_list(struct http_request *rq, struct err *e)
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
	{ "GET", "/containers/json", get_box_list, "list containers", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/containers/create", post_box_create, "make a container", HTTP_JSON },
	{ "GET", "/containers/{id}/json", get_box, "look at a container", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/containers/{id}/{alias}/json", get_box, "look at a container by a link", HTTP_NONE, HTTP_QUIET },
	{ NULL },
};

/* ---- start, stop, kill, restart, pause, rename, remove ---- */

/* Routes that change the life of a container: start, stop, kill, restart, pause, rename, remove. */

/* 204 without a body, or 304 when there was nothing to do (r 1). */
static int reply_change(struct http_request *rq, struct box *b, int r, struct err *e)
{
	box_close(b);
	return r < 0 ? -1 : http_reply_empty(rq, r ? 304 : 204, e);
}

/* ---- start, stop, restart, kill ---------------------------------------------------------- */

/* Clients that wait for the start are told how it went; Docker's status for a command that cannot be executed is 400. */
static int tell_start(struct http_request *rq, struct box *b, int r, const struct err *e)
{
	if (r < 0 && (e->code == ERR_EXEC || e->code == ERR_EXEC_NOT_FOUND))
		http_error_status(rq, 400);
	if (r != 1)
		arrivals_tell(docker_of(rq)->arrivals, b->id, r < 0 ? ARRIVAL_FAILED : ARRIVAL_STARTED);
	return r;
}

static int post_box_start(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	struct box b;
	int r;

	if (json_object_size(http_json(rq)))
		return docker_fail(rq, 400, e, "starting container with non-empty request body was deprecated since API v1.22 and removed in v1.24");
	r = docker_container(&c, &b, rq, e);
	if (r == 0)
		r = box_lock(&b, e);
	c.kept = b.kept;
	if (r == 0)
		r = tell_start(rq, &b, engine_container_start(&c, arrivals_count(docker_of(rq)->arrivals, b.id), e), e);
	return reply_change(rq, &b, r, e);
}

/* "signal" and "t", which is in seconds. */
static int read_box_ending(struct http_request *rq, struct engine_ending *ret, struct err *e)
{
	const char *t = http_query(rq, "t");

	*ret = (struct engine_ending){ .signal = http_query(rq, "signal"), .has_grace = t && t[0] };
	return engine_check_signal(ret->signal, e) < 0 ? -1 : docker_query_int(rq, "t", 0, &ret->grace_s, e);
}

static int post_box_stop(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	struct engine_ending how;
	struct box b;
	int r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = read_box_ending(rq, &how, e);
	if (r == 0)
		r = engine_container_stop(&c, &how, e);
	return reply_change(rq, &b, r, e);
}

static int post_box_restart(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	struct engine_ending how;
	struct box b;
	int r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = read_box_ending(rq, &how, e);
	if (r == 0)
		r = tell_start(rq, &b, engine_container_restart(&c, &how, e), e);
	return reply_change(rq, &b, r, e);
}

static int post_box_kill(struct http_request *rq, struct err *e)
{
	const char *signal = http_query(rq, "signal");
	struct engine_container c;
	struct box b;
	int r = engine_check_signal(signal, e);

	box_clear(&b);
	if (r == 0)
		r = docker_container(&c, &b, rq, e);
	if (r == 0)
		r = engine_container_kill(&c, signal, e);
	return reply_change(rq, &b, r, e);
}

/* ---- the rest ---------------------------------------------------------------------------- */

static int reply_pause(struct http_request *rq, int on, struct err *e)
{
	struct engine_container c;
	struct box b;
	int r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = engine_container_pause(&c, on, e);
	return reply_change(rq, &b, r, e);
}

static int post_box_pause(struct http_request *rq, struct err *e)
{
	return reply_pause(rq, 1, e);
}

static int post_unpause(struct http_request *rq, struct err *e)
{
	return reply_pause(rq, 0, e);
}

static int post_box_rename(struct http_request *rq, struct err *e)
{
	const char *name = http_query(rq, "name");
	struct engine_container c;
	struct box b;
	int r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = box_lock(&b, e);
	if (r == 0)
		r = engine_container_rename(&c, name ? name : "", e);
	return reply_change(rq, &b, r, e);
}

static int post_box_resize(struct http_request *rq, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_resize), *answer = NULL;
	long rows = 0, cols = 0;
	struct box b;
	int r = docker_find_running(&b, rq, e);

	if (r == 0)
		r = docker_query_int(rq, "h", 24, &rows, e);
	if (r == 0)
		r = docker_query_int(rq, "w", 80, &cols, e);
	if (r == 0)
		r = docker_connect(&b, e);
	if (r == 0 && rows > 0 && cols > 0) {
		request_set_command(ask, KEEPER_MAIN);
		request_set_rows(ask, (uint64_t)rows);
		request_set_cols(ask, (uint64_t)cols);
		answer = docker_call(&b, ask, e);
		r = answer ? 0 : -1;
	}
	if (answer)
		events_add(&b.registry, "resize", b.id, NULL);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 200, e);
}

/* Of a link, nothing but the name goes; the name of a container is no link. */
static int delete_link(struct http_request *rq, struct err *e)
{
	const char *alias = http_param(rq, "alias");
	struct box b;
	int r = docker_find_named(&b, rq, http_param(rq, "id"), e);

	if (r == 0)
		r = box_lock(&b, e);
	if (r == 0)
		r = alias[0] ? engine_links_remove(&b.registry, b.id, alias, e) :
			    docker_fail(rq, 409, e, "Conflict, cannot remove the default link name of the container");
	return reply_change(rq, &b, r, e);
}

static int delete_box(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	struct box b;
	int r;

	if (docker_query_flag(rq, "link"))
		return delete_link(rq, e);
	r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = engine_container_remove(&c, docker_query_flag(rq, "force"), docker_query_flag(rq, "v"), e);
	return reply_change(rq, &b, r, e);
}

#define CHANGES(verb, run, text)                                                                   \
	{                                                                                          \
		"POST", "/containers/{id}/" verb, run, text, HTTP_JSON, HTTP_OPTIONAL              \
	}

const struct http_route docker_life_routes[] = {
	CHANGES("start", post_box_start, "start a container"),
	CHANGES("stop", post_box_stop, "stop a container"),
	CHANGES("restart", post_box_restart, "stop and start a container"),
	CHANGES("kill", post_box_kill, "send a signal to a container's main command"),
	CHANGES("pause", post_box_pause, "freeze a container"),
	CHANGES("unpause", post_unpause, "let a frozen container go on"),
	CHANGES("rename", post_box_rename, "give a container another name"),
	CHANGES("resize", post_box_resize, "set the size of a container's terminal"),
	{ "DELETE", "/containers/{id}", delete_box, "remove a container", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ "DELETE", "/containers/{id}/{alias}", delete_box, "remove a link, or the container that it names", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ NULL },
};
