/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/docker/imageflow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/image.h"
#include "manager/engine/login.h"
#include "manager/engine/platform.h"
#include "manager/keeper/wire.h"

#define OUTPUT_MAX (16u << 20)
#define LINE_MAX_BYTES 65536
#define BEAT_MS 5000 /* a client that hears nothing thinks the engine is dead */
#define FIRST_MS 2000 /* for a registry to refuse, which is then the status of the reply */
#define REF_MAX 400

/* ---- a body ------------------------------------------------------------------------------- */

struct import {
	struct called program;
	int in; /* our end of its stdin */
};

static void import_free(void *data)
{
	struct import *i = data;

	fd_close(&i->in);
	call_abort(&i->program);
	free(i);
}

int imageflow_begin(struct http_request *rq, json_t *call, struct err *e)
{
	struct import *i = calloc(1, sizeof(*i));
	int p[2], r;

	if (!i) {
		json_decref(call);
		return err_nomem(e);
	}
	call_flag(call, "quiet");
	i->in = -1;
	i->program = (struct called)CALLED_NONE;
	http_set_data(rq, i, import_free);
	if (pipe2(p, O_CLOEXEC) < 0) {
		json_decref(call);
		return err_sys(e, "make a pipe");
	}
	i->in = p[1];
	r = spawn_start(rq, call, p[0], &i->program, e);
	close(p[0]);
	if (r == 0 && fcntl(i->in, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up a pipe");
	return r;
}

int imageflow_feed(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct import *i = http_data(rq);

	/* a program that has ended early says why at the end */
	return i ? box_upload(rq, &i->in, data, n, e) : 0;
}

json_t *imageflow_end(struct http_request *rq, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);
	struct import *i = http_data(rq);

	fd_close(&i->in);
	if (spawn_finish(rq, &i->program, 1, &out, e) < 0)
		return NULL;
	return json_parse(out.data ? out.data : "", out.len, OUTPUT_MAX, "berth's answer", e);
}

int imageflow_line(struct buf *out, json_t *j, struct err *e)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	return text ? buf_addf(out, e, "%s\r\n", text) : err_nomem(e);
}

/* ---- a registry ------------------------------------------------------------------------------ */

struct pull {
	struct called program;
	char name[REF_MAX];
	struct buf out;
	size_t sent;
	int pushes, looks; /* looks: only asks the registry */
	int said; /* 0: nothing; 1: that it begins; 2: how it ended */
	json_t *got; /* the program's answer, once it has ended */
};

static void pull_free(void *ctx)
{
	struct pull *p = ctx;

	call_abort(&p->program);
	buf_release(&p->out);
	json_decref(p->got);
	free(p);
}

static int say(struct pull *p, const char *text, struct err *e)
{
	return imageflow_line(&p->out, json_pack("{s:s}", "status", text), e);
}

static int say_done(struct pull *p, const json_t *said, struct err *e)
{
	const char *digest = json_string_value(json_object_get(said, "digest")),
		   *tag = strrchr(p->name, ':');
	const json_int_t size = json_integer_value(json_object_get(said, "size"));
	char text[REF_MAX + 80];

	if (p->pushes) {
		tag = tag && !strchr(tag, '/') ? tag + 1 : "latest";
		snprintf(text, sizeof(text), "%s: digest: %s size: %lld", tag, digest ? digest : "",
			 (long long)size);
		return say(p, text, e) < 0
			       ? -1
			       : imageflow_line(&p->out,
						json_pack("{s:{},s:{s:s,s:s,s:I}}",
							  "progressDetail", "aux", "Tag", tag,
							  "Digest", digest ? digest : "", "Size",
							  size),
						e);
	}
	snprintf(text, sizeof(text), "Digest: %s", digest ? digest : "");
	if (digest && say(p, text, e) < 0)
		return -1;
	snprintf(text, sizeof(text), "Status: Downloaded newer image for %s", p->name);
	return say(p, text, e);
}

static int finish(struct pull *p, struct http_request *rq, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);

	if (spawn_finish(rq, &p->program, 0, &out, e) < 0)
		return -1;
	p->got = json_parse(out.data ? out.data : "", out.len, OUTPUT_MAX, "berth's answer", e);
	return p->got ? 0 : -1;
}

static int say_end(struct pull *p, struct http_request *rq, struct err *e)
{
	autojson json_t *error = NULL;

	if (p->got || finish(p, rq, e) == 0)
		return say_done(p, p->got, e);
	error = docker_error_json(e);
	return imageflow_line(&p->out,
			      json_pack("{s:O,s:O}", "errorDetail", error, "error",
					json_object_get(error, "message")),
			      e);
}

/*
 * A pull that fails at once is an error of the request, as Docker has it: clients look at the
 * status, and not all of them at the lines.
 */
static int look_first(struct pull *p, struct http_request *rq, struct err *e)
{
	struct pollfd wait = { .fd = p->program.out, .events = POLLIN };
	int r = http_poll(rq, &wait, 1, FIRST_MS, e);

	return r > 0 ? finish(p, rq, e) : r;
}

/* Sends a line from time to time until the program writes, which it does at its end. */
static int go_on(struct pull *p, struct http_request *rq, struct err *e)
{
	struct pollfd wait = { .fd = p->program.out, .events = POLLIN };
	int r = p->got ? 1 : http_poll(rq, &wait, 1, BEAT_MS, e);

	if (r < 0)
		return -1;
	if (r == 0)
		return say(p, p->pushes ? "Pushing" : "Downloading", e);
	p->said = 2;
	return say_end(p, rq, e);
}

static ssize_t pull_read(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct pull *p = ctx;
	char text[REF_MAX + 40];
	struct err e;
	size_t n;

	while (p->sent == p->out.len) {
		p->sent = p->out.len = 0;
		snprintf(text, sizeof(text),
			 p->pushes ? "The push refers to repository [%s]" : "Pulling %s", p->name);
		if (p->said == 2)
			return 0;
		if ((p->said == 0 ? say(p, text, &e) : go_on(p, rq, &e)) < 0)
			return -1;
		p->said += p->said == 0;
	}
	n = p->out.len - p->sent < max ? p->out.len - p->sent : max;
	memcpy(buf, p->out.data + p->sent, n);
	p->sent += n;
	return (ssize_t)n;
}

/* With the login of the request, if any; its password goes through a pipe. */
static int start(struct http_request *rq, struct pull *p, const char *platform, struct err *e)
{
	struct engine_login login;
	autoclose int password = -1;
	json_t *call;
	int r = engine_login_read(http_header(rq, "X-Registry-Auth"), &login, e);

	if (r < 0)
		http_error_status(rq, 400);
	if (r == 0 && login.user[0]) {
		password = wire_data(login.password, strlen(login.password), e);
		r = password < 0 ? -1 : 0;
	}
	if (r == 0) {
		call = call_of(p->pushes ? "push" : "pull", p->name, NULL);
		call_flag(call, "quiet");
		call_text(call, "username", login.user[0] ? login.user : NULL);
		call_set(call, "password-stdin", json_boolean(login.user[0]));
		call_text(call, "platform", platform && platform[0] ? platform : NULL);
		call_set(call, "dry-run", json_boolean(p->looks));
		r = spawn_start(rq, call, password, &p->program, e);
	}
	engine_login_forget(&login);
	return r;
}

static int stream(struct http_request *rq, const char *image, int pushes, struct err *e)
{
	struct pull *p = calloc(1, sizeof(*p));
	struct http_stream st = { pull_read, pull_free, p };
	char name[REF_MAX], room[REF_MAX + 8], platform[ENGINE_PLATFORM];
	int r;

	if (!p)
		return err_nomem(e);
	p->program = (struct called)CALLED_NONE;
	p->out = BUF_INIT(LINE_MAX_BYTES);
	p->pushes = pushes;
	if (engine_image_ref(image, http_query(rq, "tag"), name, sizeof(name)) < 0) {
		r = docker_fail(rq, 400, e, "invalid reference format");
	} else {
		snprintf(p->name, sizeof(p->name), "%s",
			 engine_image_tagged(name, room, sizeof(room)));
		r = pushes ? 0 : engine_platform(http_query(rq, "platform"), platform, e);
		if (r == 0)
			r = start(rq, p, pushes ? NULL : platform, e);
		if (r == 0 && !pushes)
			r = look_first(p, rq, e);
	}
	if (r < 0) {
		pull_free(p);
		return -1;
	}
	return http_reply_stream(rq, 200, "application/json", &st, e);
}

int imageflow_push(struct http_request *rq, struct err *e)
{
	return stream(rq, http_param(rq, "name"), 1, e);
}

static json_t *distribution(const json_t *seen)
{
	return json_pack("{s:{s:O,s:O,s:O},s:O}", "Descriptor", "mediaType",
			 json_object_get(seen, "media_type"), "digest",
			 json_object_get(seen, "digest"), "size", json_object_get(seen, "size"),
			 "Platforms", json_object_get(seen, "platforms"));
}

int imageflow_look(struct http_request *rq, struct err *e)
{
	struct pull p = { .program = CALLED_NONE, .looks = 1 };
	char name[REF_MAX], room[REF_MAX + 8];
	json_t *answer = NULL;
	int r;

	if (engine_image_ref(http_param(rq, "name"), NULL, name, sizeof(name)) < 0)
		return docker_fail(rq, 400, e, "invalid reference format");
	snprintf(p.name, sizeof(p.name), "%s", engine_image_tagged(name, room, sizeof(room)));
	r = start(rq, &p, NULL, e);
	if (r == 0)
		r = finish(&p, rq, e);
	if (r == 0 && !(answer = distribution(p.got)))
		r = err_nomem(e);
	call_abort(&p.program);
	json_decref(p.got);
	return r < 0 ? -1 : http_reply_json(rq, 200, answer, e);
}

/* ---- either ------------------------------------------------------------------------------------
 */

int imageflow_create_begin(struct http_request *rq, struct err *e)
{
	const char *src = http_query(rq, "fromSrc"), *repo = http_query(rq, "repo"), *text;
	autojson json_t *words = json_array();
	char name[REF_MAX], platform[ENGINE_PLATFORM];
	json_t *call;
	size_t i;

	if (!src || !src[0])
		return 0;
	if (strcmp(src, "-"))
		return docker_fail(
			rq, 400, e,
			"an import from %.200s is not made here: send the archive as the body",
			src);
	if (engine_platform_local(http_query(rq, "platform"), platform, e) < 0)
		return -1;
	if (!repo || !repo[0]) {
		if (engine_image_new_name(name, sizeof(name), e) < 0)
			return -1;
	} else if (engine_image_ref(repo, http_query(rq, "tag"), name, sizeof(name)) < 0) {
		return docker_fail(rq, 400, e, "invalid reference format");
	}
	for (i = 0; (text = http_query_each(rq, "changes", i)); i++)
		if (text[0] && engine_image_change(words, text, e) < 0)
			return -1;
	call = call_of("image import", NULL);
	call_text(call, "message", (text = http_query(rq, "message")) && text[0] ? text : NULL);
	call_text(call, "platform", platform[0] ? platform : NULL);
	call_words(call, words);
	call_operand(call, "-");
	call_operand(call, name);
	return imageflow_begin(rq, call, e);
}

int imageflow_create(struct http_request *rq, struct err *e)
{
	autobuf struct buf out = BUF_INIT(LINE_MAX_BYTES);
	const char *image = http_query(rq, "fromImage");
	autojson json_t *said = NULL;
	const char *digest;
	size_t n;

	if (!http_data(rq))
		return image && image[0]
			       ? stream(rq, image, 0, e)
			       : docker_fail(rq, 400, e, "neither fromImage nor fromSrc is given");
	said = imageflow_end(rq, e);
	if (!said)
		return -1;
	digest = json_string_value(json_object_get(
		json_array_get(json_object_get(said, "images"), 0), "digest"));
	if (imageflow_line(&out, json_pack("{s:s}", "status", digest ? digest : ""), e) < 0)
		return -1;
	n = out.len;
	return http_reply_data(rq, 200, "application/json", take_ptr(&out.data), n, e);
}
