/* SPDX-License-Identifier: Apache-2.0 */
/* Views of running containers (stats, top, changes), and changes to them (limits, prune). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/accept.h"
#include "manager/engine/host.h"
#include "manager/engine/id.h"
#include "manager/engine/stats.h"
#include "manager/host/layerpool.h"
#include "manager/host/list.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/request.h"

#define EVERY_MS 1000
#define LINE_BYTES 65536

/* ---- stats ---------------------------------------------------------------------------------- */

struct stats {
	struct box box;
	char name[80];
	int once, alone; /* one document; without the one before it */
	int done;
	json_t *before;
	struct engine_sample last;
	struct buf out;
	size_t sent;
};

static void stats_free(void *ctx)
{
	struct stats *s = ctx;

	box_close(&s->box);
	json_decref(s->before);
	buf_release(&s->out);
	free(s);
}

/* *ret_said: a new reference, or NULL when it does not run. */
static int sample(struct stats *s, struct engine_sample *ret, json_t **ret_said, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_stats);

	*ret_said = NULL;
	if (!s->box.kept && s->box.sock < 0)
		s->box.sock = keeper_connect(&s->box.registry, s->box.id, e);
	if (s->box.sock >= 0)
		*ret_said = box_call(&s->box, ask, NULL, 0, NULL, e);
	if (s->box.sock >= 0 && !*ret_said && e->code == ERR_NET)
		return -1;
	ret->said = *ret_said;
	ret->host_cpu_ns = engine_host_cpu();
	ret->cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	clock_gettime(CLOCK_REALTIME, &ret->at);
	return 0;
}

static int add_line(struct buf *out, json_t *j, struct err *e)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	return text ? buf_addf(out, e, "%s\n", text) : err_nomem(e);
}

static int next_sample(struct stats *s, struct http_request *rq, struct err *e)
{
	struct engine_sample now = { 0 };
	json_t *said = NULL;
	int r;

	/* the first sample has no predecessor: a single request waits for a second one */
	if (s->last.cpus && http_wait(rq, -1, 0, EVERY_MS, e) < 0)
		return -1;
	if (sample(s, &now, &said, e) < 0)
		return -1;
	r = 0;
	if (!s->once || s->alone || s->last.cpus || !said)
		r = add_line(&s->out,
			     engine_stats(s->box.id, s->name, s->last.cpus ? &s->last : NULL, &now),
			     e);
	s->done = (s->once && s->out.len) || (!said && s->last.cpus);
	json_decref(s->before);
	s->before = said;
	s->last = now;
	return r;
}

static ssize_t stats_read(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct stats *s = ctx;
	struct err e;
	size_t n;

	while (s->sent == s->out.len) {
		s->sent = s->out.len = 0;
		if (s->done)
			return 0;
		if (next_sample(s, rq, &e) < 0)
			return -1;
	}
	n = s->out.len - s->sent < max ? s->out.len - s->sent : max;
	memcpy(buf, s->out.data + s->sent, n);
	s->sent += n;
	return (ssize_t)n;
}

static int stats_begin(struct stats *s, struct http_request *rq, struct err *e)
{
	const char *stream = http_query(rq, "stream");
	struct engine_loaded d;

	if (docker_find(&s->box, rq, e) < 0 || docker_load(&d, &s->box, 0, e) < 0)
		return -1;
	snprintf(s->name, sizeof(s->name), "%s", engine_name(&d.v));
	engine_loaded_release(&d);
	s->once = stream && !docker_query_flag(rq, "stream");
	s->alone = docker_query_flag(rq, "one-shot");
	return http_endless(rq, e);
}

static int get_stats(struct http_request *rq, struct err *e)
{
	struct stats *s = calloc(1, sizeof(*s));
	struct http_stream st = { stats_read, stats_free, s };

	if (!s)
		return err_nomem(e);
	box_clear(&s->box);
	s->out = BUF_INIT(LINE_BYTES);
	if (stats_begin(s, rq, e) < 0) {
		stats_free(s);
		return -1;
	}
	return http_reply_stream(rq, 200, "application/json", &st, e);
}

/* ---- one program, one answer
 * --------------------------------------------------------------------- */

static int ask_program(struct http_request *rq, const char *verb, int must_run,
		       json_t *(*translate)(struct http_request *, const json_t *, struct err *), struct err *e)
{
	autojson json_t *said = NULL;
	json_t *answer;
	struct box b;
	int r = must_run ? docker_find_running(&b, rq, e) : docker_find(&b, rq, e);

	if (r == 0)
		said = spawn_json(rq, call_of(verb, b.id, NULL), 0, e);
	box_close(&b);
	answer = said ? translate(rq, said, e) : NULL;
	return answer ? http_reply_json(rq, 200, answer, e) : -1;
}

static json_t *top_of(struct http_request *rq, const json_t *said, struct err *e)
{
	return engine_top(said, http_query(rq, "ps_args"), e);
}

static int get_top(struct http_request *rq, struct err *e)
{
	return ask_program(rq, "top", 1, top_of, e);
}

static json_t *changes_of(struct http_request *rq, const json_t *said, struct err *e)
{
	json_t *changes = engine_changes(said);

	(void)rq;
	if (!changes)
		err_nomem(e);
	return changes;
}

static int get_changes(struct http_request *rq, struct err *e)
{
	return ask_program(rq, "diff", 0, changes_of, e);
}

/* ---- limits
 * --------------------------------------------------------------------------------------- */

static int update(struct http_request *rq, struct engine_create *c, const char *id, struct err *e)
{
	autojson json_t *live = json_array();
	json_t *call;
	json_t *word;
	size_t i;

	json_array_foreach(c->words, i, word) {
		const char *text = json_string_value(word);

		if (engine_is_live(text))
			json_array_append(live, word);
		else if (engine_warn(c, e, "%.60s cannot be changed any more and was ignored",
				     text) < 0)
			return -1;
	}
	if (!json_array_size(live))
		return 0;
	call = call_of("update", id, NULL);
	call_words(call, live);
	return spawn_berth(rq, call, 1, -1, NULL, e);
}

static int post_update(struct http_request *rq, struct err *e)
{
	struct engine_create c = { 0 };
	struct engine_rules rules;
	json_t *reply = NULL;
	struct box b;
	int r = docker_find(&b, rq, e);

	if (r == 0) {
		engine_host_rules(&b.config, docker_of(rq)->allow, docker_of(rq)->binds, &rules);
		r = engine_create_init(&c, &rules, e);
	}
	if (r == 0)
		r = engine_create_limits(&c, http_json(rq), e);
	if (r == 0)
		r = engine_create_restart(&c, http_json(rq), e);
	if (r == 0)
		r = update(rq, &c, b.id, e);
	if (r == 0)
		r = engine_host_save_update(&b.registry, b.id, http_json(rq), e);
	if (r == 0)
		reply = json_pack("{s:O}", "Warnings", c.warnings);
	else
		docker_explain(&b, rq, e);
	engine_create_release(&c);
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 200, reply, e);
}

/* ---- prune
 * ------------------------------------------------------------------------------------------ */

struct pruning {
	const json_t *filters;
	json_t *ids;
};

static int add_stopped(void *ctx, const char *id, int kept, json_t *record)
{
	struct pruning *p = ctx;

	if (kept && engine_filters_prune(p->filters, json_object_get(record, "labels"),
					 json_string_value(json_object_get(record, "created"))))
		return json_array_append_new(p->ids, json_string(id));
	return 0;
}

/* Containers that cannot be removed stay: they run again, or another process works on them. */
static json_t *remove_all(struct http_request *rq, struct box *b, const json_t *ids,
			  json_int_t *freed)
{
	json_t *gone = json_array();
	char whole[ENGINE_ID];
	struct err ignored;
	const json_t *id;
	size_t i;

	json_array_foreach((json_t *)(size_t)ids, i, id) {
		const json_int_t bytes = (json_int_t)layerpool_layer_bytes(b->registry.kept_fd,
									   json_string_value(id));

		if (docker_verb(rq, "rm", NULL, NULL, json_string_value(id), &ignored) < 0)
			continue;
		*freed += bytes;
		engine_id(json_string_value(id), whole);
		json_array_append_new(gone, json_string(whole));
	}
	return gone;
}

static int post_prune(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e),
			*ids = json_array();
	struct pruning p = { filters, ids };
	json_t *gone = NULL;
	json_int_t freed = 0;
	struct box b;

	if (!filters || engine_accept(ENGINE_PRUNE_CONTAINERS, filters, e) < 0)
		return -1;
	if (box_open(&b, rq, e) == 0 && registry_list(&b.registry, 1, add_stopped, &p, e) == 0)
		gone = remove_all(rq, &b, ids, &freed);
	box_close(&b);
	if (!gone)
		return -1;
	return http_reply_json(
		rq, 200, json_pack("{s:o,s:I}", "ContainersDeleted", gone, "SpaceReclaimed", freed),
		e);
}

const struct http_route docker_look_routes[] = {
	{ "GET", "/containers/{id}/stats", get_stats, "what a container uses", HTTP_NONE,
	  HTTP_QUIET },
	{ "GET", "/containers/{id}/top", get_top, "the processes of a container", HTTP_NONE,
	  HTTP_QUIET },
	{ "GET", "/containers/{id}/changes", get_changes,
	  "what a container changed in its image's files", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/containers/{id}/update", post_update, "change a container's limits",
	  HTTP_JSON },
	{ "POST", "/containers/prune", post_prune, "remove containers that do not run", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ NULL },
};
