/* SPDX-License-Identifier: Apache-2.0 */
/* Views of running containers (stats, top, changes), and changes to them (limits, prune). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/filters.h"
#include "manager/engine/host.h"

#define EVERY_MS 1000
#define LINE_BYTES 65536

/* ---- stats ---------------------------------------------------------------------------------- */

struct stats {
	struct box box;
	struct engine_container container;
	struct engine_watch watch;
	int once, alone; /* one document; without the one before it */
	int done;
	struct buf out;
	size_t sent;
};

static void stats_free(void *ctx)
{
	struct stats *s = ctx;

	box_close(&s->box);
	engine_watch_release(&s->watch);
	buf_release(&s->out);
	free(s);
}

static int next_sample(struct stats *s, struct http_request *rq, struct err *e)
{
	const int first = !s->watch.last.cpus;
	autojson json_t *doc = NULL;
	autofree char *text = NULL;
	int runs;

	/* the first sample has no predecessor: a single request waits for a second one */
	if (!first && http_wait(rq, -1, 0, EVERY_MS, e) < 0)
		return -1;
	runs = engine_watch_look(&s->watch, &s->container, &doc, e);
	if (runs < 0)
		return -1;
	if (s->once && !s->alone && first && runs)
		return 0;
	s->done = s->once || (!runs && !first);
	text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
	return text ? buf_addf(&s->out, e, "%s\n", text) : err_nomem(e);
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

	if (docker_container(&s->container, &s->box, rq, e) < 0 || docker_load(&d, &s->box, 0, e) < 0)
		return -1;
	snprintf(s->watch.name, sizeof(s->watch.name), "%s", engine_name(&d.v));
	engine_loaded_release(&d);
	s->once = stream && !docker_query_flag(rq, "stream");
	s->alone = docker_query_flag(rq, "one-shot");
	return http_endless(rq, e);
}

static int get_box_stats(struct http_request *rq, struct err *e)
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

/* ---- top, changes, update, prune -------------------------------------------------------------- */

static int get_box_top(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	json_t *top = NULL;
	struct box b;

	if (docker_container(&c, &b, rq, e) == 0)
		top = engine_container_top(&c, http_query(rq, "ps_args"), e);
	if (!top)
		docker_explain(&b, rq, e);
	box_close(&b);
	return top ? http_reply_json(rq, 200, top, e) : -1;
}

static int get_changes(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	json_t *changes = NULL;
	struct box b;

	if (docker_container(&c, &b, rq, e) == 0)
		changes = engine_container_changes(&c, e);
	if (!changes && !b.kept)
		docker_explain(&b, rq, e);
	box_close(&b);
	return changes ? http_reply_json(rq, 200, changes, e) : -1;
}

static int post_box_update(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	struct engine_rules rules;
	json_t *warnings = NULL;
	struct box b;

	if (docker_container(&c, &b, rq, e) == 0) {
		/* older clients send a member that they do not know */
		if (docker_api_minor(rq) < 40)
			json_object_del(http_json(rq), "PidsLimit");
		engine_host_rules(&b.config, docker_of(rq)->allow, docker_of(rq)->binds, &rules);
		warnings = engine_container_update(&c, &rules, http_json(rq), e);
	}
	box_close(&b);
	return warnings ? http_reply_json(rq, 200, json_pack("{s:o}", "Warnings", warnings), e) : -1;
}

static int post_box_prune(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	const struct engine_berth asker = docker_berth(rq, NULL);
	json_t *reply = NULL;
	struct box b;

	if (!filters || engine_accept(ENGINE_PRUNE_CONTAINERS, filters, e) < 0)
		return -1;
	if (box_open(&b, rq, e) == 0)
		reply = engine_container_prune(&asker, &b.registry, filters, e);
	box_close(&b);
	return reply ? http_reply_json(rq, 200, reply, e) : -1;
}

const struct http_route docker_look_routes[] = {
	{ "GET", "/containers/{id}/stats", get_box_stats, "what a container uses", HTTP_NONE,
	  HTTP_QUIET },
	{ "GET", "/containers/{id}/top", get_box_top, "the processes of a container", HTTP_NONE,
	  HTTP_QUIET },
	{ "GET", "/containers/{id}/changes", get_changes,
	  "what a container changed in its image's files", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/containers/{id}/update", post_box_update, "change a container's limits",
	  HTTP_JSON },
	{ "POST", "/containers/prune", post_box_prune, "remove containers that do not run", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ NULL },
};
