/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /build: berth build with the context of the body, and its progress in Docker's words.
 * BuildKit is route_buildkit.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/build.h"
#include "manager/engine/objects.h"

#define OUT_MAX (1u << 20)
#define BEAT_MS 5000

struct building {
	struct called program;
	int in; /* our end of its stdin */
	int quiet;
	struct buf raw, out; /* what it wrote, up to a whole line; what is to be sent */
	size_t sent;
	int ended;
	char step[1024]; /* the last that began */
};

static void building_free(void *ctx)
{
	struct building *b = ctx;

	fd_close(&b->in);
	call_abort(&b->program);
	buf_release(&b->raw);
	buf_release(&b->out);
	free(b);
}

/* ---- the request ---------------------------------------------------------------------------- */

/* What berth calls the network, which the client may know by its id. */
static int name_build_network(struct http_request *rq, const char *said, char ret[ENGINE_NAME], struct err *e)
{
	static const char *const modes[] = {"", "default", "bridge", "none", "host"};
	struct config c;
	const struct engine_berth berth = docker_berth(rq, &c);
	size_t i;

	for (i = 0; i < ARRAY_LEN(modes); i++)
		if (!strcmp(said ? said : "", modes[i]))
			return snprintf(ret, ENGINE_NAME, "%s", modes[i]), 0;
	return engine_network_find(&berth, said, ret, e) < 0 ? -1 : 0;
}

static int add_query(struct http_request *rq, struct engine_build *b, struct err *e)
{
	static const char *const keys[] = {"dockerfile",  "target",    "platform",
					   "buildargs", "labels",
					   "memory",      "remote",    "version",
					   "cpuquota",    "cpushares", "cpusetcpus",
					   "cpusetmems",  "memswap",   "shmsize",
					   "ulimits",     "squash",
					   "cpuperiod",   "cgroupparent", "securityopt"};
	const char *tag, *host;
	char network[ENGINE_NAME];
	size_t i;

	if (name_build_network(rq, http_query(rq, "networkmode"), network, e) < 0 ||
	    engine_build_set(b, "networkmode", network, e) < 0)
		return -1;
	for (i = 0; (host = http_query_each(rq, "extrahosts", i)); i++)
		if (engine_build_set(b, "extrahosts", host, e) < 0)
			return -1;

	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (engine_build_set(b, keys[i], http_query(rq, keys[i]), e) < 0)
			return -1;
	for (i = 0; (tag = http_query_each(rq, "t", i)); i++)
		if (engine_build_set(b, "t", tag, e) < 0)
			return -1;
	if (engine_build_end(b, e) < 0)
		return -1;
	if (docker_query_flag(rq, "nocache") && engine_build_set(b, "nocache", "1", e) < 0)
		return -1;
	if (docker_query_flag(rq, "pull") && engine_build_set(b, "pull", "1", e) < 0)
		return -1;
	return 0;
}

static int start_build(struct http_request *rq, struct building *b, struct err *e)
{
	struct engine_build asked = {0};
	int p[2] = {-1, -1}, r;
	json_t *call;

	r = engine_build_init(&asked, e);
	if (r == 0 && (r = add_query(rq, &asked, e)) < 0)
		http_error_status(rq, 400);
	if (r == 0 && pipe2(p, O_CLOEXEC) < 0)
		r = err_sys(e, "make a pipe");
	if (r == 0) {
		call = call_of("build", NULL);
		call_words(call, asked.words);
		call_operand(call, "-");
		b->in = p[1];
		r = spawn_start(rq, call, p[0], &b->program, e);
		fd_close(&p[0]);
	}
	engine_build_release(&asked);
	if (r == 0 && fcntl(b->in, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up a pipe");
	return r;
}

static int begin_build(struct http_request *rq, struct err *e)
{
	struct building *b = calloc(1, sizeof(*b));

	if (!b)
		return err_nomem(e);
	b->in = -1;
	b->program = (struct called)CALLED_NONE;
	b->raw = b->out = BUF_INIT(OUT_MAX);
	b->quiet = docker_query_flag(rq, "q");
	http_set_data(rq, b, building_free);
	if (!b->quiet && engine_build_wants_cache(http_query(rq, "cachefrom")) &&
	    imageflow_line(&b->out,
			   json_pack("{s:s}", "stream", ENGINE_BUILD_CACHE_FROM "\n"), e) < 0)
		return -1;
	return start_build(rq, b, e);
}

static int feed_build(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct building *b = http_data(rq);

	/* a program that has ended early says why at the end */
	return box_upload(rq, &b->in, data, n, e);
}

/* ---- the reply --------------------------------------------------------------------------------
 */

/* Each whole line that it has written. */
static int take_build_lines(struct building *b, struct err *e)
{
	size_t used = 0;
	char *nl;

	while (b->raw.len > used && (nl = memchr(b->raw.data + used, '\n', b->raw.len - used))) {
		struct err ignored;
		autojson json_t *j =
			json_parse(b->raw.data + used, (size_t)(nl - b->raw.data) - used, OUT_MAX,
				   "berth's answer", &ignored);
		autojson json_t *list = engine_build_lines(j, b->quiet);
		json_t *one;
		size_t i;

		json_array_foreach (list, i, one)
			if (imageflow_line(&b->out, json_incref(one), e) < 0)
				return -1;
		engine_build_note_step(j, b->step, sizeof(b->step));
		used = (size_t)(nl - b->raw.data) + 1;
	}
	if (used)
		memmove(b->raw.data, b->raw.data + used, b->raw.len - used);
	b->raw.len -= used;
	return 0;
}

static int conclude_build(struct building *b, struct http_request *rq, struct err *e)
{
	autojson json_t *own = NULL, *error = NULL;

	b->ended = 1;
	if (spawn_finish(rq, &b->program, 0, NULL, e) == 0)
		return 0;
	own = docker_error_json(e);
	error = engine_build_error(json_string_value(json_object_get(own, "message")), b->step);
	return imageflow_line(&b->out,
			      json_pack("{s:O,s:O}", "errorDetail", error, "error",
					json_object_get(error, "message")),
			      e);
}

/* Waits for more of it. */
static int await_build_output(struct building *b, struct http_request *rq, struct err *e)
{
	struct pollfd wait = {.fd = b->program.out, .events = POLLIN};
	char piece[4096];
	ssize_t n;
	int r = http_poll(rq, &wait, 1, BEAT_MS, e);

	if (r < 0)
		return -1;
	if (r == 0) /* a client that hears nothing for long thinks that nobody is there */
		return b->quiet ? 0 : imageflow_line(&b->out, json_pack("{s:s}", "stream", ""), e);
	n = read(b->program.out, piece, sizeof(piece));
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : err_sys(e, "read from berth");
	if (n == 0)
		return conclude_build(b, rq, e);
	return buf_add(&b->raw, piece, (size_t)n, e) < 0 ? -1 : take_build_lines(b, e);
}

static ssize_t read_build(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct building *b = ctx;
	struct err e;
	size_t n;

	while (b->sent == b->out.len) {
		b->sent = b->out.len = 0;
		if (b->ended)
			return 0;
		if (await_build_output(b, rq, &e) < 0)
			return -1;
	}
	n = b->out.len - b->sent < max ? b->out.len - b->sent : max;
	memcpy(buf, b->out.data + b->sent, n);
	b->sent += n;
	return (ssize_t)n;
}

/* The stream owns it now, not the request. */
static int post_build(struct http_request *rq, struct err *e)
{
	struct building *b = http_data(rq);
	struct http_stream st = {read_build, building_free, b};

	http_set_data(rq, NULL, NULL);
	fd_close(&b->in);
	return http_reply_stream(rq, 200, "application/json", &st, e);
}

static int post_build_prune(struct http_request *rq, struct err *e)
{
	const struct engine_berth b = docker_berth(rq, NULL);
	json_t *said = engine_build_prune(&b, e);

	return said ? http_reply_json(rq, 200, said, e) : -1;
}

const struct http_route docker_build_routes[] = {
	{"POST", "/build", post_build, "make an image as a Dockerfile says", HTTP_RAW,
	 .begin = begin_build, .feed = feed_build},
	{"POST", "/build/prune", post_build_prune, "remove the steps that builds keep", HTTP_JSON, HTTP_OPTIONAL},
	{NULL},
};
