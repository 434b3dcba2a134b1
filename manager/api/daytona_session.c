/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of Daytona's: commands that share a directory, variables and functions.
 *
 * A session is a directory in the sandbox, so the sandbox's own disk bounds it, and it outlives berthd.
 * Each command is a detached command of the keeper's, which keeps its output and its end: a shell that
 * first takes the state in which the one before ended, and at last writes its own
 * (manager/keeper/shellstate.h).  So a command that runs on, as a server, is in nobody's way: but a
 * session has one at a time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/api/daytona.h"
#include "manager/api/daytona_stream.h"
#include "manager/keeper/fileclient.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/shellstate.h"
#include "manager/keeper/wire.h"

#define SESSIONS_DIR "/tmp/.berth-daytona"
#define SESSIONS_MAX 64
#define SESSION_NAME_MAX 39	/* with the prefix, a dot and a command's id a name of the keeper's has 64 bytes */
#define COMMAND_PREFIX "daytona."	/* of the keeper's names: and the session's, a dot, the command's */
#define TEXT_MAX 120000			/* an argument of execve has 128 KiB */
#define STATE_MAX (SHELLSTATE_MAX + 64)
#define LOG_MAX (4u << 20)

struct session {
	struct daytona_place place;
	const char *name;
	char dir[sizeof(SESSIONS_DIR) + SESSION_NAME_MAX + 2];
	struct buf state;	/* "bash" or "sh", a line, then the dump of the last shell */
};

static void session_leave(struct session *s)
{
	buf_release(&s->state);
	daytona_leave(&s->place);
}

static int name_session(struct session *s, struct http_request *rq, const char *name, struct err *e)
{
	s->state = BUF_INIT(STATE_MAX);
	s->name = name;
	box_init(&s->place.box, rq);
	if (!path_is_name(name) || strlen(name) > SESSION_NAME_MAX)
		return err_set(e, ERR_INVALID, "sessionId '%.60s' is malformed; hint: a-z 0-9 _ . -, at most %d", name, SESSION_NAME_MAX);
	snprintf(s->dir, sizeof(s->dir), SESSIONS_DIR "/%s", name);
	return daytona_enter(&s->place, rq, e);
}

static int session_file(struct session *s, const char *file, struct buf *out, struct err *e)
{
	char path[200];
	const char *argv[] = {"read", "0", path, NULL};

	snprintf(path, sizeof(path), "%s/%s", s->dir, file);
	return daytona_file(&s->place, argv, out, e);
}

/* The session that {session} names; ERR_NOT_FOUND. */
static int open_session(struct session *s, struct http_request *rq, struct err *e)
{
	if (name_session(s, rq, http_param(rq, "session"), e) < 0)
		return -1;
	if (session_file(s, "state", &s->state, e) == 0)
		return 0;
	return e->code == ERR_NOT_FOUND ? err_set(e, ERR_NOT_FOUND, "session '%.60s' not found", s->name) : -1;
}

static int write_in(struct session *s, const char *file, const char *text, size_t n, struct err *e)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", s->dir, file);
	return daytona_write(&s->place, s->place.box.rq, path, text, n, e);
}

/* ---- which there are ---- */

/* Calls each with the name of every session. */
static int each_session(struct daytona_place *p, int (*each)(void *ctx, const char *name, struct err *e), void *ctx, struct err *e)
{
	const char *argv[] = {"list", SESSIONS_DIR, "", "1000", NULL};
	autobuf struct buf text = BUF_INIT(1 << 20);
	struct filerecord r;
	const char *at;

	if (daytona_file(p, argv, &text, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	at = text.data;
	while (text.len && filerecord_next(&at, text.data + text.len, &r, e) > 0)
		if (path_is_name(r.name) && each(ctx, r.name, e) < 0)
			return -1;
	return 0;
}

static int count_session(void *ctx, const char *name, struct err *e)
{
	(void)name;
	return ++*(int *)ctx >= SESSIONS_MAX ? err_set(e, ERR_LIMIT, "the sandbox has %d sessions; hint: delete one", SESSIONS_MAX) : 0;
}

/* ---- create ---- */

static int has_bash(struct daytona_place *p)
{
	static const char *const argv[] = {"stat", "L", "/bin/bash", NULL};
	autobuf struct buf text = BUF_INIT(1 << 16);
	struct err ignored;

	return daytona_file(p, argv, &text, &ignored) == 0;
}

/* The text by which a shell writes its state, in the form that script_of() reads. */
static int write_question(struct session *s, int is_bash, struct err *e)
{
	const struct shellfuncs none = {.list = NULL};
	autobuf struct buf b = BUF_INIT(1 << 16);

	if (buf_addf(&b, e, "exec 9>'%s/state'\nprintf '%s\\n' >&9\n", s->dir, is_bash ? "bash" : "sh") < 0 ||
	    shellstate_question(is_bash, &none, &b, e) < 0)
		return -1;
	return write_in(s, "question", b.data, b.len, e);
}

static int post_daytona_session(struct http_request *rq, struct err *e)
{
	struct session s;
	const char *above[] = {"mkdir", "p", "700", SESSIONS_DIR, NULL}, *own[] = {"mkdir", "", "700", s.dir, NULL};
	int count = 0, is_bash, r = name_session(&s, rq, json_string_value(json_object_get(http_json(rq), "sessionId")), e);

	if (r == 0)
		r = each_session(&s.place, count_session, &count, e);
	if (r == 0)
		r = daytona_file(&s.place, above, NULL, e);
	if (r == 0)
		r = daytona_file(&s.place, own, NULL, e);
	is_bash = r == 0 && has_bash(&s.place);
	if (r == 0)
		r = write_question(&s, is_bash, e);
	if (r == 0)
		r = write_in(&s, "state", is_bash ? "bash\n" : "sh\n", is_bash ? 5 : 3, e);
	if (r < 0 && e->code == ERR_EXISTS)
		err_set(e, ERR_EXISTS, "session '%.60s' already exists", s.name);
	session_leave(&s);
	return r < 0 ? -1 : http_reply_empty(rq, 201, e);
}

/* ---- its commands ---- */

static void keeper_name(const struct session *s, const char *command, char ret[65])
{
	snprintf(ret, 65, COMMAND_PREFIX "%s.%.16s", s->name, command);
}

/* Its entries in the keeper's list, a new array; not those of a session whose name goes on with a dot. */
static json_t *session_commands(struct session *s, struct err *e)
{
	char prefix[65];
	json_t *list, *one;
	size_t i;

	keeper_name(s, "", prefix);
	list = daytona_commands(&s->place, prefix, e);
	for (i = json_array_size(list); i-- > 0;) {
		one = json_array_get(list, i);
		if (strchr(json_string_value(json_object_get(one, "name")) + strlen(prefix), '.'))
			json_array_remove(list, i);
	}
	return list;
}

/* {"id","command","exitCode"} of an entry in the keeper's list. */
static json_t *describe_session_command(struct session *s, const json_t *one)
{
	const char *name = json_string_value(json_object_get(one, "name")), *dot = strrchr(name, '.');
	const json_t *verdict = json_object_get(one, "verdict");
	autobuf struct buf text = BUF_INIT(TEXT_MAX + 1);
	struct err ignored;
	json_t *j;

	session_file(s, dot + 1, &text, &ignored);
	j = json_pack("{s:s,s:o}", "id", dot + 1, "command", daytona_text(text.data, text.len));
	if (j && verdict)
		json_object_set(j, "exitCode", json_object_get(verdict, "exit_status"));
	return j;
}

static json_t *describe_daytona_session(struct session *s, struct err *e)
{
	autojson json_t *list = session_commands(s, e);
	json_t *commands = json_array(), *one;
	size_t i;

	json_array_foreach(list, i, one)
		json_array_append_new(commands, describe_session_command(s, one));
	if (list)
		return json_pack("{s:s,s:o}", "sessionId", s->name, "commands", commands);
	json_decref(commands);
	return NULL;
}

static int get_daytona_session(struct http_request *rq, struct err *e)
{
	json_t *j = NULL;
	struct session s;

	if (open_session(&s, rq, e) == 0)
		j = describe_daytona_session(&s, e);
	session_leave(&s);
	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int add_session_name(void *ctx, const char *name, struct err *e)
{
	return json_array_append_new(ctx, json_string(name)) < 0 ? err_nomem(e) : 0;
}

static int get_daytona_sessions(struct http_request *rq, struct err *e)
{
	autojson json_t *names = json_array();
	json_t *list = json_array(), *name, *j;
	struct session s = {.state = BUF_INIT(1)};
	size_t i;
	int r = daytona_enter(&s.place, rq, e);

	if (r == 0)
		r = each_session(&s.place, add_session_name, names, e);
	json_array_foreach(names, i, name) {
		s.name = json_string_value(name);
		if (r < 0 || strlen(s.name) > SESSION_NAME_MAX)
			continue;
		snprintf(s.dir, sizeof(s.dir), SESSIONS_DIR "/%s", s.name);
		j = describe_daytona_session(&s, e);
		r = j ? json_array_append_new(list, j) : -1;
	}
	session_leave(&s);
	if (r == 0)
		return http_reply_json(rq, 0, list, e);
	json_decref(list);
	return -1;
}

/* Forgets one that has ended, or ends one that runs, with all that it started. */
static int end_session_command(struct session *s, const json_t *one, struct err *e)
{
	const int ended = json_object_get(one, "verdict") != NULL;
	autojson json_t *ask = protocol_request(ended ? OP_forget : OP_signal), *answer = NULL;

	request_set_command(ask, json_string_value(json_object_get(one, "command")));
	if (!ended) {
		request_set_signal(ask, 9);
		request_set_all(ask, 1);
	}
	answer = box_call(&s->place.box, ask, NULL, 0, NULL, e);
	if (answer && !ended) {
		autojson json_t *wait = protocol_request(OP_wait), *gone = NULL;

		request_set_command(wait, json_string_value(json_object_get(one, "command")));
		gone = box_call(&s->place.box, wait, NULL, 0, NULL, e);
		return gone || e->code == ERR_NOT_FOUND ? 0 : -1;
	}
	return answer || e->code == ERR_NOT_FOUND ? 0 : -1;
}

static int delete_daytona_session(struct http_request *rq, struct err *e)
{
	autojson json_t *list = NULL;
	struct session s;
	json_t *one;
	size_t i;
	const char *argv[] = {"rm", "rf", s.dir, NULL};
	int r = open_session(&s, rq, e);

	if (r == 0)
		r = (list = session_commands(&s, e)) ? 0 : -1;
	json_array_foreach(list, i, one)
		if (r == 0)
			r = end_session_command(&s, one, e);
	if (r == 0)
		r = daytona_file(&s.place, argv, NULL, e);
	session_leave(&s);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

/* ---- a command ---- */

/* The script that restores the last state, in the file "restore": 1; 0: there is none. */
static int write_restore(struct session *s, int *ret_bash, struct err *e)
{
	const struct shellfuncs none = {.list = NULL};
	autobuf struct buf script = BUF_INIT(STATE_MAX);
	const char *line = s->state.len ? memchr(s->state.data, '\n', s->state.len) : NULL;
	const size_t head = line ? (size_t)(line - s->state.data) + 1 : 0;
	struct err why;

	*ret_bash = head && !strncmp(s->state.data, "bash\n", 5);
	if (!head || head == s->state.len)
		return 0;
	/* a command that was killed has told no state or half of one: the next begins anew */
	if (shellstate_script(*ret_bash, s->state.data + head, s->state.len - head, NULL, 0, &none, &script, &why) < 0)
		return 0;
	return write_in(s, "restore", script.len ? script.data : "", script.len, e) < 0 ? -1 : 1;
}

/* The command's own text is on the first line, so that its messages count lines as it does. */
static json_t *session_argv(struct session *s, const char *text, struct err *e)
{
	char restore[200] = "";
	int is_bash, r = write_restore(s, &is_bash, e);

	if (r < 0)
		return NULL;
	if (r)
		snprintf(restore, sizeof(restore), ". '%s/restore' >/dev/null 2>&1; ", s->dir);
	return json_pack("[s,s,o]", is_bash ? "/bin/bash" : "/bin/sh", "-c",
			 json_sprintf("%s%s\n__berth_status=$?\n. '%s/question'\nexit $__berth_status\n", restore, text, s->dir));
}

/* One that runs: waits for its end, or refuses. */
static int await_turn(struct session *s, int waits, struct err *e)
{
	autojson json_t *list = session_commands(s, e);
	json_t *one;
	size_t i;

	if (!list)
		return -1;
	json_array_foreach(list, i, one) {
		autojson json_t *ask = protocol_request(OP_wait), *answer = NULL;

		if (json_object_get(one, "verdict"))
			continue;
		if (!waits)
			return err_set(e, ERR_BUSY, "session '%.60s' runs a command; hint: another session, or wait for its end", s->name);
		request_set_command(ask, json_string_value(json_object_get(one, "command")));
		answer = box_call(&s->place.box, ask, NULL, 0, NULL, e);
		if (!answer && e->code != ERR_NOT_FOUND)
			return -1;
	}
	return 0;
}

static int start_session_command(struct session *s, const char *text, int is_async, char ret_id[17], char ret_command[24], struct err *e)
{
	autojson json_t *ask = protocol_request(OP_exec), *answer = NULL;
	unsigned char raw[8];
	char name[65];
	json_t *argv;

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "get random bytes");
	hex_format(ret_id, raw, sizeof(raw));
	argv = session_argv(s, text, e);
	if (!argv || write_in(s, ret_id, text, strlen(text), e) < 0) {
		json_decref(argv);
		return -1;
	}
	keeper_name(s, ret_id, name);
	request_set_argv(ask, argv);
	request_set_detach(ask, 1);
	request_set_name(ask, name);
	request_set_stdin_open(ask, is_async);
	atomic_fetch_add(&api_of(s->place.box.rq)->execs, 1);
	answer = box_call(&s->place.box, ask, NULL, 0, NULL, e);
	if (!answer)
		return -1;
	snprintf(ret_command, 24, "%s", json_string_value(json_object_get(answer, "command")));
	http_audit(s->place.box.rq, "command", ret_command);
	return 0;
}

static int read_log(struct session *s, const char *command, const char *stream, struct buf *out, struct err *e)
{
	json_int_t dropped = 0;
	uint64_t from = 0, next;

	*out = BUF_INIT(LOG_MAX + 4096);
	do {
		autojson json_t *ask = protocol_request(OP_output), *answer = NULL;
		autoclose int fd = -1;

		request_set_command(ask, command);
		request_set_stream(ask, stream);
		request_set_from(ask, from);
		request_set_max(ask, LOG_MAX / 2);
		answer = box_call(&s->place.box, ask, NULL, 0, &fd, e);
		if (!answer)
			return -1;
		if (fd < 0)
			return err_set(e, ERR_INTERNAL, "the keeper's answer has no data");
		if ((uint64_t)json_integer_value(json_object_get(answer, "from")) > from) {
			dropped = json_integer_value(json_object_get(answer, "from")) - (json_int_t)from;
			if (buf_addf(out, e, "\n[berth: %lld bytes of output are left out here]\n", dropped) < 0)
				return -1;
		}
		next = (uint64_t)json_integer_value(json_object_get(answer, "next"));
		if (next > from && wire_read_data(fd, out, e) < 0)
			return -1;
		if (next <= from || next >= (uint64_t)json_integer_value(json_object_get(answer, "total")))
			return 0;
		from = next;
	} while (out->len < LOG_MAX / 2);
	return buf_adds(out, "\n[berth: the rest is left out; hint: follow the log]\n", e);
}

/* "output", "stdout", "stderr": older SDKs look for the marks of each in "output". */
static json_t *logs_of(struct session *s, const char *command, struct err *e)
{
	const enum daytona_age age = daytona_age(s->place.box.rq);
	autobuf struct buf out = BUF_INIT(1), errors = BUF_INIT(1), both = BUF_INIT(2 * LOG_MAX + 16384);
	const struct buf *const parts[] = {&out, &errors};
	size_t i;

	if (read_log(s, command, "stdout", &out, e) < 0 || read_log(s, command, "stderr", &errors, e) < 0)
		return NULL;
	for (i = 0; i < ARRAY_LEN(parts); i++)
		if (parts[i]->len && ((age == DAYTONA_MARKED && buf_add(&both, daytona_marks[i], DAYTONA_MARK_BYTES, e) < 0) ||
				      buf_add(&both, parts[i]->data, parts[i]->len, e) < 0))
			return NULL;
	return json_pack("{s:o,s:o,s:o}", "output", daytona_text(both.data, both.len), "stdout", daytona_text(out.data, out.len), "stderr",
			 daytona_text(errors.data, errors.len));
}

/* Its end, and what it wrote. */
static json_t *finish_session_command(struct session *s, const char *id, const char *command, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_wait), *answer = NULL;
	json_t *j;

	request_set_command(ask, command);
	answer = box_call(&s->place.box, ask, NULL, 0, NULL, e);
	j = answer ? logs_of(s, command, e) : NULL;
	if (j) {
		json_object_set_new(j, "cmdId", json_string(id));
		json_object_set(j, "exitCode", json_object_get(json_object_get(answer, "verdict"), "exit_status"));
	}
	return j;
}

static int post_session_exec(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	const int is_async = json_is_true(json_object_get(body, "runAsync")) || json_is_true(json_object_get(body, "async"));
	char id[17], command[24];
	json_t *j = NULL;
	struct session s;
	int r = open_session(&s, rq, e);

	if (r == 0)
		r = await_turn(&s, !is_async, e);
	/* the one before may have changed the state */
	if (r == 0) {
		s.state.len = 0;
		r = session_file(&s, "state", &s.state, e);
	}
	if (r == 0)
		r = start_session_command(&s, json_string_value(json_object_get(body, "command")), is_async, id, command, e);
	if (r == 0)
		j = is_async ? json_pack("{s:s}", "cmdId", id) : finish_session_command(&s, id, command, e);
	session_leave(&s);
	return j ? http_reply_json(rq, is_async ? 202 : 200, j, e) : -1;
}

/* The command that {session} and {command} name: an entry of the keeper's list, a new reference. */
static json_t *find_session_command(struct session *s, struct http_request *rq, struct err *e)
{
	char name[65];

	if (open_session(s, rq, e) < 0)
		return NULL;
	keeper_name(s, http_param(rq, "command"), name);
	return path_is_name(name) ? daytona_command(&s->place, name, e) : (err_set(e, ERR_NOT_FOUND, "there is no such command"), NULL);
}

static int get_session_command(struct http_request *rq, struct err *e)
{
	struct session s;
	autojson json_t *one = find_session_command(&s, rq, e);
	json_t *j = one ? describe_session_command(&s, one) : NULL;

	session_leave(&s);
	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int post_session_send(struct http_request *rq, struct err *e)
{
	const json_t *data = json_object_get(http_json(rq), "data");
	autojson json_t *ask = protocol_request(OP_send), *answer = NULL;
	autoclose int fd = wire_data(json_string_value(data), json_string_length(data), e);
	struct session s;
	autojson json_t *one = find_session_command(&s, rq, e);

	if (one && fd >= 0) {
		request_set_command(ask, json_string_value(json_object_get(one, "command")));
		answer = box_call(&s.place.box, ask, &fd, 1, NULL, e);
	}
	session_leave(&s);
	return answer ? http_reply_empty(rq, 204, e) : -1;
}

/* ---- its log ---- */

static void run_log(void *ctx, struct websocket *w)
{
	struct daytona_stream *s = ctx;
	struct err e;

	if (daytona_stream_run(s, w, &e) == 0)
		websocket_close(w, 1000, "");
	else
		websocket_close(w, 1011, e.msg);
}

static int follow_log(struct http_request *rq, const char *command, struct err *e)
{
	struct daytona_stream *s = daytona_stream_new(rq, e);
	struct http_stream st = {daytona_stream_read, daytona_stream_free, s};

	if (!s)
		return -1;
	snprintf(s->command, sizeof(s->command), "%s", command);
	if (daytona_enter(&s->place, rq, e) < 0) {
		daytona_stream_free(s);
		return -1;
	}
	return websocket_is_asked(rq) ? websocket_reply(rq, NULL, run_log, daytona_stream_free, s, e) : http_reply_stream(rq, 0, "text/plain", &st, e);
}

static int reply_log(struct http_request *rq, json_t *logs, struct err *e)
{
	const char *text = json_string_value(json_object_get(logs, "output"));
	size_t n = json_string_length(json_object_get(logs, "output"));
	char *copy;

	if (!logs || daytona_age(rq) == DAYTONA_NEW)
		return logs ? http_reply_json(rq, 0, logs, e) : -1;
	copy = malloc(n + 1);
	if (copy && text)
		memcpy(copy, text, n);
	json_decref(logs);
	return copy ? http_reply_data(rq, 0, "text/plain", copy, n, e) : err_nomem(e);
}

static int get_session_logs(struct http_request *rq, struct err *e)
{
	struct session s;
	autojson json_t *one = find_session_command(&s, rq, e);
	char command[24];
	json_t *logs = NULL;

	snprintf(command, sizeof(command), "%s", one ? json_string_value(json_object_get(one, "command")) : "");
	if (one && !http_query_bool(rq, "follow"))
		logs = logs_of(&s, command, e);
	session_leave(&s);
	if (one && http_query_bool(rq, "follow"))
		return follow_log(rq, command, e);
	return reply_log(rq, logs, e);
}

static int refuse_entrypoint(struct http_request *rq, struct err *e)
{
	struct daytona_place p;
	int r = daytona_enter(&p, rq, e);

	daytona_leave(&p);
	return r < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "the sandbox runs no entrypoint; hint: a session");
}

#define SESSION "/process/session/{session}"
#define DOC .response = "Document"

const struct http_route daytona_session_routes[] = {
	DAYTONA_TOOLBOX("POST", "/process/session", post_daytona_session, "Daytona: make a session", HTTP_JSON, .request = "DaytonaSession", .status = 201),
	DAYTONA_TOOLBOX("GET", "/process/session", get_daytona_sessions, "Daytona: list sessions", .response = "Documents"),
	DAYTONA_TOOLBOX("GET", "/process/session/entrypoint", refuse_entrypoint, "Daytona: there is none", DOC),
	DAYTONA_TOOLBOX("GET", "/process/session/entrypoint/logs", refuse_entrypoint, "Daytona: there is none", HTTP_NONE, HTTP_UPGRADES,
			.query = "follow:boolean", DOC),
	DAYTONA_TOOLBOX("GET", SESSION, get_daytona_session, "Daytona: a session and its commands", DOC),
	DAYTONA_TOOLBOX("DELETE", SESSION, delete_daytona_session, "Daytona: end a session with what it runs", .status = 204),
	DAYTONA_TOOLBOX("POST", SESSION "/exec", post_session_exec, "Daytona: run a command in a session", HTTP_JSON, HTTP_TIMED_EXEC,
			.request = "DaytonaSessionExec", DOC, .or_status = 202, .or_response = "Document"),
	DAYTONA_TOOLBOX("GET", SESSION "/command/{command}", get_session_command, "Daytona: a command of a session", DOC),
	DAYTONA_TOOLBOX("GET", SESSION "/command/{command}/logs", get_session_logs, "Daytona: its output, followed by a WebSocket", HTTP_NONE,
			HTTP_UPGRADES, .query = "follow:boolean", DOC, .type = "text/plain, application/octet-stream"),
	DAYTONA_TOOLBOX("POST", SESSION "/command/{command}/input", post_session_send, "Daytona: bytes for its stdin", HTTP_JSON,
			.request = "DaytonaInput", .status = 204),
	{NULL},
};
