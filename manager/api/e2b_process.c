/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E2B's process.Process: commands that go on without their client, as events of the Connect
 * protocol. A process is a detached command, whose output the keeper holds; while a client
 * listens, the command waits for it, so nothing is lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "manager/api/e2b.h"
#include "manager/api/estream.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

#define BEAT_MS 20000 /* the SDKs' Keepalive-Ping-Interval is 50 s */

/* ---- following ------------------------------------------------------------------------------ */

struct process {
	struct box box;
	char command[24];
	int tty, began, pid;
	uint64_t from[2];
};

static void process_free(void *ctx)
{
	struct process *p = ctx;

	box_close(&p->box);
	free(p);
}

static struct process *process_new(struct http_request *rq, struct err *e)
{
	struct process *p = calloc(1, sizeof(*p));

	if (p)
		box_init(&p->box, rq);
	else
		err_nomem(e);
	return p;
}

static int ask_e2b_process_output(struct process *p, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_follow);

	request_set_command(ask, p->command);
	request_set_stream(ask, p->tty ? "stdout" : "both");
	request_set_from(ask, p->from[0]);
	request_set_stderr_from(ask, p->from[1]);
	request_set_hold(ask, 1);
	return box_send(&p->box, ask, NULL, 0, e);
}

static int add_event(struct estream *s, json_t *event, struct err *e)
{
	return estream_add(s, "", 0, json_pack("{s:o}", "event", event), e);
}

static int add_data(struct estream *s, const char *key, const char *data, size_t n, struct err *e)
{
	autofree char *text = malloc(BASE64_LEN(n) + 1);

	if (!text)
		return err_nomem(e);
	base64_encode(text, data, n);
	return add_event(s, json_pack("{s:{s:s}}", "data", key, text), e);
}

static int refuse_ended_process(struct err *e)
{
	return err_set(e, ERR_BUSY, "the sandbox was killed or reached its end of life");
}

/* How the process ended, in the words of Go's os.ProcessState. */
static int add_e2b_process_end(struct estream *s, const json_t *verdict, struct err *e)
{
	const int status = (int)json_integer_value(json_object_get(verdict, "exit_status"));
	const int number = (int)json_integer_value(json_object_get(verdict, "signal"));
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	char text[64];

	if (json_is_true(json_object_get(verdict, "timed_out")))
		return err_set(e, ERR_TIMEOUT, "the command took too long");
	if (number) {
		snprintf(text, sizeof(text), "signal: %s", strsignal(number));
		return add_event(s,
				 json_pack("{s:{s:i,s:b,s:s,s:s}}", "end", "exitCode", status,
					   "exited", 0, "status", text, "error",
					   cause && strcmp(cause, "signal") ? cause : text),
				 e);
	}
	snprintf(text, sizeof(text), "exit status %d", status);
	if (cause && strcmp(cause, "exit"))
		return add_event(s,
				 json_pack("{s:{s:i,s:b,s:s,s:s}}", "end", "exitCode", status,
					   "exited", 1, "status", text, "error", cause),
				 e);
	return add_event(s,
			 json_pack("{s:{s:i,s:b,s:s}}", "end", "exitCode", status, "exited", 1,
				   "status", text),
			 e);
}

static int add_parts(struct estream *s, struct process *p, json_t *answer, const struct buf *b,
		     struct err *e)
{
	static const char *const names[] = { "stdout", "stderr" };
	size_t at = 0;
	int i;

	for (i = 0; i < 2; i++) {
		const json_t *part = json_object_get(answer, names[i]);
		size_t n = (size_t)json_integer_value(json_object_get(part, "bytes"));

		if (!part)
			continue;
		if (n > b->len - at)
			return err_set(e, ERR_CORRUPT, "the keeper's answer is cut short");
		p->from[i] = (uint64_t)json_integer_value(json_object_get(part, "next"));
		if (n && add_data(s, p->tty ? "pty" : names[i], b->data + at, n, e) < 0)
			return -1;
		at += n;
	}
	return 0;
}

static int next_e2b_process_event(struct estream *s, struct http_request *rq, struct err *e)
{
	autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
	struct process *p = s->ctx;
	autojson json_t *answer = NULL;

	(void)rq;
	if (!p->began++)
		return add_event(s, json_pack("{s:{s:i}}", "start", "pid", p->pid), e) < 0 ? -1 : 1;
	answer = box_receive_data(&p->box, BEAT_MS, &b, e);
	if (!answer && e->code == ERR_TIMEOUT)
		return add_event(s, json_pack("{s:{}}", "keepalive"), e) < 0 ? -1 : 1;
	if (!answer && p->box.ended)
		return refuse_ended_process(e);
	if (!answer || add_parts(s, p, answer, &b, e) < 0)
		return -1;
	if (json_is_true(json_object_get(answer, "sandbox_ended")))
		return refuse_ended_process(e);
	if (json_is_true(json_object_get(answer, "ended")))
		return add_e2b_process_end(s, json_object_get(answer, "verdict"), e);
	return ask_e2b_process_output(p, e) < 0 ? -1 : 1;
}

static int reply_events(struct http_request *rq, struct process *p, struct err *e)
{
	if (ask_e2b_process_output(p, e) == 0)
		return estream_reply_connect(rq, next_e2b_process_event, process_free, p, e);
	process_free(p);
	return -1;
}

/*
 * The number of a process inside the sandbox, from the keeper's answer.  An older keeper does not
 * tell it; then the number of the command takes its place.
 */
static int pid_of(const json_t *answer)
{
	const json_t *pid = json_object_get(answer, "pid");
	const char *id = json_string_value(json_object_get(answer, "command"));

	return pid ? (int)json_integer_value(pid) : id ? atoi(id + 1) : 0;
}

/* ---- Start ---------------------------------------------------------------------------------- */

static json_t *argv_of(const json_t *process)
{
	json_t *list = json_pack("[O]", json_object_get(process, "cmd"));

	if (list && json_object_get(process, "args"))
		json_array_extend(list, json_object_get(process, "args"));
	return list;
}

static int set_e2b_pty_size(json_t *ask, const json_t *pty)
{
	const json_t *size = json_object_get(pty, "size");
	json_int_t cols = json_integer_value(json_object_get(size, "cols"));
	json_int_t rows = json_integer_value(json_object_get(size, "rows"));

	if (cols > 0 && rows > 0 && cols <= 10000 && rows <= 10000) {
		request_set_cols(ask, (uint64_t)cols);
		request_set_rows(ask, (uint64_t)rows);
		return 1;
	}
	return 0;
}

static json_t *start_request(const json_t *body, json_t *env, uint64_t deadline_ms,
			     const struct e2b_user *u)
{
	const json_t *process = json_object_get(body, "process"),
		     *pty = json_object_get(body, "pty");
	const char *cwd = json_string_value(json_object_get(process, "cwd"));
	const char *from_home = !cwd || !strchr("/~", cwd[0]) ? "~/" : "";
	const char *tag = json_string_value(json_object_get(body, "tag"));
	json_t *ask = protocol_request(OP_exec);

	request_set_argv(ask, argv_of(process));
	request_set_env(ask, json_incref(env));
	request_set_detach(ask, 1);
	request_set_timeout_ms(ask, deadline_ms);
	request_set_user(ask, u->name);
	if (cwd && cwd[0])
		json_object_set_new(ask, "workdir", json_sprintf("%s%s", from_home, cwd));
	else
		request_set_workdir(ask, "~");
	if (tag && tag[0])
		request_set_name(ask, tag);
	if (json_is_object(pty)) {
		request_set_tty(ask, 1);
		set_e2b_pty_size(ask, pty);
	} else {
		/* an older client does not say, and may send input */
		request_set_stdin_open(ask, !json_is_false(json_object_get(body, "stdin")));
	}
	return ask;
}

static int check_e2b_strings(const json_t *list, struct err *e)
{
	json_t *v;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, v)
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID,
				       "process.args has an element that is not a string");
	return 0;
}

/* A terminal may come without a size, but with none that cannot be. */
static int check_pty(const json_t *body, struct err *e)
{
	const json_t *pty = json_object_get(body, "pty");
	autojson json_t *ignored = json_object();

	if (pty && !json_is_null(pty) && !json_is_object(pty))
		return err_set(e, ERR_INVALID, "pty is not an object");
	if (json_object_get(pty, "size") && !set_e2b_pty_size(ignored, pty))
		return err_set(e, ERR_INVALID, "pty.size is not a size");
	return 0;
}

static int check_start(const json_t *body, struct err *e)
{
	const json_t *process = json_object_get(body, "process");

	if (!json_is_string(json_object_get(process, "cmd")))
		return err_set(e, ERR_INVALID, "process.cmd is missing");
	return check_e2b_strings(json_object_get(process, "args"), e) < 0 ? -1 : check_pty(body, e);
}

/* 0 with the number of the command in p. */
static int launch_e2b_process(struct process *p, struct http_request *rq, const json_t *body,
		  uint64_t deadline_ms, struct e2b_user *u, struct err *e)
{
	const json_t *process = json_object_get(body, "process");
	autojson json_t *env = e2b_env(json_object_get(process, "envs"), e);

	if (!env)
		return -1;
	do {
		autojson json_t *ask = start_request(body, env, deadline_ms, u);
		autojson json_t *answer = box_call(&p->box, ask, NULL, 0, NULL, e);
		const char *id = json_string_value(json_object_get(answer, "command"));

		if (answer && !id)
			return err_set(e, ERR_CORRUPT, "the keeper named no command");
		if (answer) {
			snprintf(p->command, sizeof(p->command), "%s", id);
			p->pid = pid_of(answer);
			http_audit(rq, "command", p->command);
			return 0;
		}
	} while (e2b_user_retry(u, e));
	e2b_judge_cwd(e);
	return -1;
}

static int start_e2b_process(struct http_request *rq, struct process *p, struct err *e)
{
	autojson json_t *body = connectrpc_message(rq, e);
	uint64_t deadline_ms;
	struct e2b_user u;

	if (!body || check_start(body, e) < 0 || e2b_user_of(rq, NULL, &u, e) < 0 ||
	    connectrpc_deadline(rq, &deadline_ms, e) < 0)
		return -1;
	p->tty = json_is_object(json_object_get(body, "pty"));
	if (e2b_connect(&p->box, rq, e) < 0)
		return -1;
	atomic_fetch_add(&api_of(rq)->execs, 1);
	return launch_e2b_process(p, rq, body, deadline_ms, &u, e);
}

static int post_e2b_process_start(struct http_request *rq, struct err *e)
{
	struct process *p = process_new(rq, e);

	if (!p)
		return -1;
	if (start_e2b_process(rq, p, e) == 0)
		return reply_events(rq, p, e);
	process_free(p);
	return e->code == ERR_NET ? -1 : connectrpc_refuse(rq, e);
}

/* ---- one that runs: Connect, List, input, signals ------------------------ */

/* {"pid":5} or {"tag":"x"}: the command, from the keeper's list; NULL with e. */
static json_t *find_e2b_process(struct box *b, const json_t *selector, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_commands),
			*answer = box_call(b, ask, NULL, 0, NULL, e);
	const char *tag = json_string_value(json_object_get(selector, "tag"));
	json_int_t pid = json_integer_value(json_object_get(selector, "pid"));
	json_t *one;
	size_t i;

	if (!answer)
		return NULL;
	json_array_foreach(json_object_get(answer, "commands"), i, one) {
		const char *name = json_string_value(json_object_get(one, "name"));

		if (!json_is_true(json_object_get(one, "detached")) ||
		    json_object_get(one, "verdict"))
			continue;
		if (tag ? name && !strcmp(tag, name) : pid_of(one) == pid)
			return json_incref(one);
	}
	err_set(e, ERR_NOT_FOUND, "no process of that number or tag runs");
	return NULL;
}

static int take_command(struct process *p, const json_t *one)
{
	snprintf(p->command, sizeof(p->command), "%s",
		 json_string_value(json_object_get(one, "command")));
	p->pid = pid_of(one);
	p->tty = json_is_true(json_object_get(one, "tty"));
	p->from[0] = (uint64_t)json_integer_value(json_object_get(one, "stdout_bytes"));
	p->from[1] = (uint64_t)json_integer_value(json_object_get(one, "stderr_bytes"));
	return 0;
}

static int join_e2b_process(struct http_request *rq, struct process *p, struct err *e)
{
	autojson json_t *body = connectrpc_message(rq, e), *one = NULL;

	if (!body || e2b_connect(&p->box, rq, e) < 0)
		return -1;
	one = find_e2b_process(&p->box, json_object_get(body, "process"), e);
	return one ? take_command(p, one) : -1;
}

static int post_e2b_process_connect(struct http_request *rq, struct err *e)
{
	struct process *p = process_new(rq, e);

	if (!p)
		return -1;
	if (join_e2b_process(rq, p, e) == 0)
		return reply_events(rq, p, e);
	process_free(p);
	return e->code == ERR_NET ? -1 : connectrpc_refuse(rq, e);
}

static int post_list(struct http_request *rq, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_commands), *answer = NULL;
	json_t *list = json_array(), *one;
	struct box b;
	size_t i;

	if (e2b_connect(&b, rq, e) == 0)
		answer = box_call(&b, ask, NULL, 0, NULL, e);
	box_close(&b);
	json_array_foreach(json_object_get(answer, "commands"), i, one) {
		if (!json_is_true(json_object_get(one, "detached")) ||
		    json_object_get(one, "verdict"))
			continue;
		json_array_append_new(
			list,
			json_pack("{s:{s:O,s:[],s:{}},s:i,s:O*}", "config", "cmd",
				  json_object_get(one, "text"), "args", "envs", "pid",
				  pid_of(one),
				  "tag", json_object_get(one, "name")));
	}
	if (answer)
		return http_reply_json(rq, 0, json_pack("{s:o}", "processes", list), e);
	json_decref(list);
	return -1;
}

/* Asks the keeper about the process that the body selects, with fd (-1: none); {} is the reply. */
static int about(struct http_request *rq, enum protocol_op op,
		 int (*fill)(json_t *ask, const json_t *body, struct err *e), int fd, struct err *e)
{
	autojson json_t *ask = protocol_request(op), *one = NULL, *answer = NULL;
	struct box b;

	if (e2b_connect(&b, rq, e) == 0)
		one = find_e2b_process(&b, json_object_get(http_json(rq), "process"), e);
	if (one && fill(ask, http_json(rq), e) == 0) {
		request_set_command(ask, json_string_value(json_object_get(one, "command")));
		answer = box_call(&b, ask, fd < 0 ? NULL : &fd, fd >= 0, NULL, e);
	}
	box_close(&b);
	return answer ? http_reply_json(rq, 0, json_object(), e) : -1;
}

static int fill_signal(json_t *ask, const json_t *body, struct err *e)
{
	const char *name = json_string_value(json_object_get(body, "signal"));

	if (name && !strcmp(name, "SIGNAL_SIGKILL"))
		request_set_signal(ask, 9);
	else if (name && !strcmp(name, "SIGNAL_SIGTERM"))
		request_set_signal(ask, 15);
	else
		return err_set(e, ERR_INVALID,
			       "signal is neither SIGNAL_SIGKILL nor SIGNAL_SIGTERM");
	request_set_all(ask, 1);
	return 0;
}

static int post_e2b_process_signal(struct http_request *rq, struct err *e)
{
	return about(rq, OP_signal, fill_signal, -1, e);
}

static int fill_resize(json_t *ask, const json_t *body, struct err *e)
{
	return set_e2b_pty_size(ask, json_object_get(body, "pty")) ?
		       0 :
		       err_set(e, ERR_INVALID, "pty.size is not a size");
}

static int post_e2b_process_update(struct http_request *rq, struct err *e)
{
	return about(rq, OP_resize, fill_resize, -1, e);
}

static int fill_send(json_t *ask, const json_t *body, struct err *e)
{
	(void)e;
	request_set_eof(ask, !json_object_get(body, "input"));
	return 0;
}

static int post_e2b_process_input(struct http_request *rq, struct err *e)
{
	const json_t *input = json_object_get(http_json(rq), "input"),
		     *v = json_object_get(input, "stdin");
	autofree char *bytes = NULL;
	autoclose int fd = -1;
	size_t n = 0;

	if (!v)
		v = json_object_get(input, "pty");
	bytes = malloc(json_string_length(v) + 1);
	if (!bytes)
		return err_nomem(e);
	if (!json_is_string(v) ||
	    (json_string_length(v) &&
	     base64_decode(bytes, &n, json_string_value(v), json_string_length(v)) < 0))
		return err_set(e, ERR_INVALID, "input.stdin is not base64");
	fd = wire_data(bytes, n, e);
	return fd < 0 ? -1 : about(rq, OP_send, fill_send, fd, e);
}

static int post_close_stdin(struct http_request *rq, struct err *e)
{
	autoclose int fd = wire_data("", 0, e);

	return fd < 0 ? -1 : about(rq, OP_send, fill_send, fd, e);
}

#define PROCESS "/process.Process"
#define STREAM                                                                                     \
	HTTP_RAW, HTTP_ONE, .type = "application/connect+json", .begin = connectrpc_begin,         \
		  .feed = connectrpc_feed, .shape_error = e2b_connect_error,                       \
		  .error_schema = "Document"
#define UNARY                                                                                      \
	HTTP_JSON, HTTP_ONE, .response = "Document", .shape_error = e2b_connect_error,             \
		   .error_schema = "Document"

const struct http_route e2b_process_routes[] = {
	{ "POST", PROCESS "/Start", post_e2b_process_start, "E2B: start a process, and its events", STREAM },
	{ "POST", PROCESS "/Connect", post_e2b_process_connect, "E2B: the events of a process from now on",
	  STREAM },
	{ "POST", PROCESS "/List", post_list, "E2B: processes that run", UNARY },
	{ "POST", PROCESS "/SendInput", post_e2b_process_input, "E2B: bytes for a process' input", UNARY },
	{ "POST", PROCESS "/CloseStdin", post_close_stdin, "E2B: the end of a process' input",
	  UNARY },
	{ "POST", PROCESS "/SendSignal", post_e2b_process_signal, "E2B: signal a process", UNARY },
	{ "POST", PROCESS "/Update", post_e2b_process_update, "E2B: the size of a process' terminal", UNARY },
	{ NULL },
};
