/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals of Daytona's: a shell as a detached command with a terminal, found by its name in the
 * keeper's list, and a client's WebSocket to it. It goes on when its client has gone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/api/daytona.h"
#include "manager/api/daytona_stream.h"
#include "manager/api/e2b.h"
#include "manager/keeper/protocol.h"

#define PTY_PREFIX "daytona-pty."	/* of the keeper's names */
#define PTY_NAME_MAX 50
#define PTYS_MAX 32
#define PTY_EXIT_CONTROL "X-Daytona-Pty-Exit-Control"
#define PTY_ENVS "X-Daytona-Pty-Envs~"
#define ENVS_MAX 32768

static int pty_name(const char *id, char ret[65], struct err *e)
{
	if (!path_is_name(id) || strlen(id) > PTY_NAME_MAX)
		return err_set(e, ERR_INVALID, "the id '%.60s' of a PTY is malformed; hint: a-z 0-9 _ . -, at most %d", id, PTY_NAME_MAX);
	snprintf(ret, 65, PTY_PREFIX "%s", id);
	return 0;
}

static int no_such_pty(const char *id, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "PTY session %.60s not found", id);
}

/* The one of {pty}, while it runs: an entry of the keeper's list, a new reference. */
static json_t *find_pty(struct daytona_place *p, struct http_request *rq, struct err *e)
{
	const char *id = http_param(rq, "pty");
	json_t *one = NULL;
	char name[65];

	if (daytona_enter(p, rq, e) < 0)
		return NULL;
	if (pty_name(id, name, e) == 0)
		one = daytona_command(p, name, e);
	if (one && !json_object_get(one, "verdict"))
		return one;
	json_decref(one);
	no_such_pty(id, e);
	return NULL;
}

static json_t *describe_pty(const json_t *one)
{
	const char *name = json_string_value(json_object_get(one, "name"));
	const uint64_t age = (uint64_t)json_integer_value(json_object_get(one, "age_ms"));
	char when[CLOCK_UTC];

	clock_utc((time_t)((clock_wall_ms() - age) / 1000), when);
	return json_pack("{s:s,s:b,s:O,s:O,s:O,s:{},s:s,s:b}", "id", name + strlen(PTY_PREFIX), "active", 1, "cols", json_object_get(one, "cols"), "rows",
			 json_object_get(one, "rows"), "cwd", json_object_get(one, "workdir"), "envs", "createdAt", when, "lazyStart", 0);
}

/* ---- create -------------------------------------------------------------------------------- */

static json_t *pty_request(const struct daytona_place *p, const char *name, const char *shell, const char *cwd, const json_t *env, uint64_t cols,
			   uint64_t rows)
{
	json_t *ask = protocol_request(OP_exec);

	(void)p;
	request_set_argv(ask, json_pack("[s,s]", shell, "-i"));
	request_set_env(ask, json_incref((json_t *)(size_t)env));
	request_set_detach(ask, 1);
	request_set_tty(ask, 1);
	request_set_cols(ask, cols);
	request_set_rows(ask, rows);
	request_set_name(ask, name);
	if (cwd)
		request_set_workdir(ask, cwd);
	return ask;
}

static int count_ptys(struct daytona_place *p, struct err *e)
{
	autojson json_t *list = daytona_commands(p, PTY_PREFIX, e);
	unsigned n = 0;
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
		n += !json_object_get(one, "verdict");
	if (!list)
		return -1;
	return n >= PTYS_MAX ? err_set(e, ERR_LIMIT, "the sandbox has %d terminals; hint: end one", PTYS_MAX) : 0;
}

/* envs consumed: an object or NULL.  ret_command may be NULL. */
static int make_pty(struct daytona_place *p, const char *id, const char *cwd, const json_t *envs, uint64_t cols, uint64_t rows, char ret_command[24],
		    struct err *e)
{
	static const char *const shells[] = {"/bin/bash", "/bin/sh"};
	autojson json_t *env = e2b_env(envs, e);
	char name[65], workdir[4096];
	size_t i;

	if (!env || pty_name(id, name, e) < 0 || (cwd && daytona_path(p, cwd, workdir, e) < 0) || count_ptys(p, e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(shells); i++) {
		autojson json_t *ask = pty_request(p, name, shells[i], cwd ? workdir : NULL, env, cols, rows);
		autojson json_t *answer = box_call(&p->box, ask, NULL, 0, NULL, e);

		if (answer && ret_command)
			snprintf(ret_command, 24, "%s", json_string_value(json_object_get(answer, "command")));
		if (answer)
			return 0;
		if (e->code == ERR_EXISTS)
			return err_set(e, ERR_EXISTS, "PTY session %.60s already exists", id);
		if (!daytona_lacks(e, shells[i]))
			return -1;
	}
	return -1;
}

static const char *text_or_null(const json_t *body, const char *key)
{
	const char *s = json_string_value(json_object_get(body, key));

	return s && s[0] ? s : NULL;
}

static uint64_t number_or(const json_t *body, const char *key, uint64_t preset)
{
	const json_t *v = json_object_get(body, key);

	return json_is_integer(v) ? (uint64_t)json_integer_value(v) : preset;
}

static int post_pty(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	const char *id = text_or_null(body, "id");
	unsigned char raw[8];
	char own[17];
	struct daytona_place p;
	int r;

	if (!id && getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "get random bytes");
	if (!id)
		hex_format(own, raw, sizeof(raw));
	r = daytona_enter(&p, rq, e);
	if (r == 0)
		r = make_pty(&p, id ? id : own, text_or_null(body, "cwd"), json_object_get(body, "envs"), number_or(body, "cols", 80),
			     number_or(body, "rows", 24), NULL, e);
	daytona_leave(&p);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_pack("{s:s}", "sessionId", id ? id : own), e);
}

/* ---- looking, changing -------------------------------------------------------------------------- */

static int get_ptys(struct http_request *rq, struct err *e)
{
	json_t *found = json_array(), *one;
	autojson json_t *list = NULL;
	struct daytona_place p;
	size_t i;

	if (daytona_enter(&p, rq, e) == 0)
		list = daytona_commands(&p, PTY_PREFIX, e);
	daytona_leave(&p);
	json_array_foreach(list, i, one)
		if (!json_object_get(one, "verdict"))
			json_array_append_new(found, describe_pty(one));
	if (list)
		return http_reply_json(rq, 0, json_pack("{s:o}", "sessions", found), e);
	json_decref(found);
	return -1;
}

static int get_pty(struct http_request *rq, struct err *e)
{
	struct daytona_place p;
	autojson json_t *one = find_pty(&p, rq, e);

	daytona_leave(&p);
	return one ? http_reply_json(rq, 0, describe_pty(one), e) : -1;
}

/* Asks the keeper about the terminal: its answer, a new reference. */
static json_t *ask_about_pty(struct daytona_place *p, const json_t *one, json_t *ask, struct err *e)
{
	autojson json_t *question = ask;

	request_set_command(question, json_string_value(json_object_get(one, "command")));
	return box_call(&p->box, question, NULL, 0, NULL, e);
}

static int delete_pty(struct http_request *rq, struct err *e)
{
	struct daytona_place p;
	autojson json_t *one = find_pty(&p, rq, e), *answer = NULL, *ended = NULL;
	json_t *ask = protocol_request(OP_signal);

	request_set_signal(ask, 9);
	request_set_all(ask, 1);
	if (one)
		answer = ask_about_pty(&p, one, ask, e);
	else
		json_decref(ask);
	/* it is in no list afterwards */
	if (answer)
		ended = ask_about_pty(&p, one, protocol_request(OP_wait), e);
	daytona_leave(&p);
	return ended ? http_reply_json(rq, 0, json_pack("{s:s}", "message", "PTY session deleted"), e) : -1;
}

static int post_pty_resize(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	struct daytona_place p;
	autojson json_t *one = find_pty(&p, rq, e), *answer = NULL;
	json_t *ask = protocol_request(OP_resize), *told;

	request_set_cols(ask, number_or(body, "cols", 80));
	request_set_rows(ask, number_or(body, "rows", 24));
	if (one)
		answer = ask_about_pty(&p, one, ask, e);
	else
		json_decref(ask);
	daytona_leave(&p);
	if (!answer)
		return -1;
	told = describe_pty(one);
	json_object_set(told, "cols", json_object_get(body, "cols"));
	json_object_set(told, "rows", json_object_get(body, "rows"));
	return http_reply_json(rq, 0, told, e);
}

/* ---- a client's connection ------------------------------------------------------------------------ */

struct terminal {
	struct daytona_stream *stream;
	int tells_exit;	/* the client asked for the message "exited" */
};

static void terminal_free(void *ctx)
{
	struct terminal *t = ctx;

	daytona_stream_free(t->stream);
	free(t);
}

static int send_control(struct websocket *w, json_t *j, struct err *e)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	return text ? websocket_send(w, WEBSOCKET_TEXT, text, strlen(text), e) : err_nomem(e);
}

static void run_terminal_socket(void *ctx, struct websocket *w)
{
	struct terminal *t = ctx;
	char reason[40];
	struct err e;
	int status;

	if (send_control(w, json_pack("{s:s,s:s}", "type", "control", "status", "connected"), &e) < 0)
		return;
	if (daytona_stream_run(t->stream, w, &e) < 0) {
		websocket_close(w, 1011, e.msg);
		return;
	}
	status = (int)json_integer_value(json_object_get(t->stream->verdict, "exit_status"));
	if (t->tells_exit)
		send_control(w, json_pack("{s:s,s:s,s:i}", "type", "control", "status", "exited", "exitCode", status), &e);
	snprintf(reason, sizeof(reason), "{\"exitCode\":%d}", status);
	websocket_close(w, 1000, reason);
}

/* The connection to a terminal's command, which stream has entered. */
static int reply_terminal(struct http_request *rq, struct daytona_stream *stream, struct err *e)
{
	struct terminal *t = calloc(1, sizeof(*t));
	char protocol[256] = "";

	if (!t) {
		daytona_stream_free(stream);
		return err_nomem(e);
	}
	t->stream = stream;
	stream->tty = 1;
	t->tells_exit = websocket_offers(rq, PTY_EXIT_CONTROL, protocol, sizeof(protocol));
	/* one of those that a client offers must be chosen */
	if (!t->tells_exit)
		websocket_offers(rq, "X-Daytona-", protocol, sizeof(protocol));
	return websocket_reply(rq, protocol[0] ? protocol : NULL, run_terminal_socket, terminal_free, t, e);
}

static int get_pty_connect(struct http_request *rq, struct err *e)
{
	struct daytona_stream *s = daytona_stream_new(rq, e);
	autojson json_t *one = s ? find_pty(&s->place, rq, e) : NULL;

	if (!one) {
		if (s)
			daytona_stream_free(s);
		return -1;
	}
	snprintf(s->command, sizeof(s->command), "%s", json_string_value(json_object_get(one, "command")));
	return reply_terminal(rq, s, e);
}

/* The environment among the subprotocols: base64url without padding, of an object. 0 with *ret, which may be NULL. */
static int envs_offered(const struct http_request *rq, json_t **ret, struct err *e)
{
	autofree char *word = malloc(ENVS_MAX), *raw = malloc(ENVS_MAX);
	size_t n, got = 0;
	char *p;

	*ret = NULL;
	if (!word || !raw)
		return err_nomem(e);
	if (!websocket_offers(rq, PTY_ENVS, word, ENVS_MAX - 4))
		return 0;
	for (p = word + strlen(PTY_ENVS); *p; p++)
		*p = *p == '-' ? '+' : *p == '_' ? '/' : *p;
	p = word + strlen(PTY_ENVS);
	for (n = strlen(p); n % 4; n++)
		memcpy(p + n, "=", 2);
	if (base64_decode(raw, &got, p, n) < 0)
		return err_set(e, ERR_INVALID, "the subprotocol " PTY_ENVS " is not base64url");
	*ret = json_parse(raw, got, ENVS_MAX, "the environment of a PTY", e);
	if (json_is_object(*ret))
		return 0;
	json_decref(*ret);
	*ret = NULL;
	return err_set(e, ERR_INVALID, "the subprotocol " PTY_ENVS " is not an object of JSON");
}

static int get_pty_create_connect(struct http_request *rq, struct err *e)
{
	const uint64_t cols = http_query_u64(rq, "cols", 80), rows = http_query_u64(rq, "rows", 24);
	struct daytona_stream *s = daytona_stream_new(rq, e);
	autojson json_t *envs = NULL;

	if (!s)
		return -1;
	if (daytona_enter(&s->place, rq, e) < 0)
		;
	else if (!websocket_is_asked(rq))
		err_set(e, ERR_INVALID, "this path is for a WebSocket; hint: POST process/pty");
	else if (websocket_check(rq, e) < 0)
		;
	else if (cols < 1 || cols > 10000 || rows < 1 || rows > 10000)
		err_set(e, ERR_INVALID, "cols or rows is not a number from 1 to 10000");
	else if (envs_offered(rq, &envs, e) == 0 &&
		 make_pty(&s->place, http_query(rq, "id"), http_query(rq, "cwd"), envs, cols, rows, s->command, e) == 0)
		return reply_terminal(rq, s, e);
	daytona_stream_free(s);
	return -1;
}

#define PTY "/process/pty/{pty}"
#define DOC .response = "Document"
#define SOCKET HTTP_NONE, HTTP_UPGRADES, .type = "application/octet-stream"

const struct http_route daytona_pty_routes[] = {
	DAYTONA_TOOLBOX("GET", "/process/pty/create-connect", get_pty_create_connect, "Daytona: a new terminal, by a WebSocket", SOCKET,
			.query = "id!:string cols:integer rows:integer cwd:string"),
	DAYTONA_TOOLBOX("POST", "/process/pty", post_pty, "Daytona: a new terminal", HTTP_JSON, .request = "DaytonaPty", DOC, .status = 201),
	DAYTONA_TOOLBOX("GET", "/process/pty", get_ptys, "Daytona: list terminals", DOC),
	DAYTONA_TOOLBOX("GET", PTY, get_pty, "Daytona: a terminal", DOC),
	DAYTONA_TOOLBOX("DELETE", PTY, delete_pty, "Daytona: end a terminal with what it runs", DOC),
	DAYTONA_TOOLBOX("POST", PTY "/resize", post_pty_resize, "Daytona: another size", HTTP_JSON, .request = "Resize", DOC),
	DAYTONA_TOOLBOX("GET", PTY "/connect", get_pty_connect, "Daytona: a terminal's bytes, by a WebSocket", SOCKET),
	{NULL},
};
