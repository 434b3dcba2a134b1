/* SPDX-License-Identifier: Apache-2.0 */
/* Routes on commands: one that runs in the request, and detached ones. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/api/api.h"
#include "manager/api/estream.h"
#include "manager/api/execution.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

/* ---- stdin of a command that runs ---- */

struct livein {
	struct livein *next;
	char box[65], command[24];
	int fd;		/* -1: it was closed */
};

static struct livein **find_live_stdin(struct api *a, const char *box, const char *command)
{
	struct livein **l = &a->livein;

	while (*l && (strcmp((*l)->box, box) || strcmp((*l)->command, command)))
		l = &(*l)->next;
	return l;
}

int livein_add(struct api *a, const char *box, const char *command, int fd, struct err *e)
{
	struct livein *l = calloc(1, sizeof(*l));

	if (!l) {
		close(fd);
		return err_nomem(e);
	}
	snprintf(l->box, sizeof(l->box), "%s", box);
	snprintf(l->command, sizeof(l->command), "%s", command);
	l->fd = fd;
	pthread_mutex_lock(&a->livein_lock);
	l->next = a->livein;
	a->livein = l;
	pthread_mutex_unlock(&a->livein_lock);
	return 0;
}

void livein_remove(struct api *a, const char *box, const char *command)
{
	struct livein **at, *l;

	pthread_mutex_lock(&a->livein_lock);
	at = find_live_stdin(a, box, command);
	l = *at;
	if (l)
		*at = l->next;
	pthread_mutex_unlock(&a->livein_lock);
	if (l)
		fd_close(&l->fd);
	free(l);
}

int livein_open(struct api *a, const char *box, const char *command)
{
	struct livein *l;
	int fd;

	pthread_mutex_lock(&a->livein_lock);
	l = *find_live_stdin(a, box, command);
	fd = l && l->fd >= 0 ? fcntl(l->fd, F_DUPFD_CLOEXEC, 3) : -1;
	pthread_mutex_unlock(&a->livein_lock);
	return fd;
}

void livein_close_input(struct api *a, const char *box, const char *command)
{
	struct livein *l;

	pthread_mutex_lock(&a->livein_lock);
	l = *find_live_stdin(a, box, command);
	if (l)
		fd_close(&l->fd);
	pthread_mutex_unlock(&a->livein_lock);
}

int livein_write(struct http_request *rq, int fd, const char *data, size_t n, uint64_t *sent,
		 struct err *e)
{
	while (n) {
		ssize_t w = write(fd, data, n);

		if (w > 0) {
			data += w;
			n -= (size_t)w;
			*sent += (uint64_t)w;
		} else if (errno == EPIPE) {
			return err_set(e, ERR_NOT_FOUND, "the command reads no more");
		} else if (errno != EAGAIN && errno != EINTR) {
			return err_sys(e, "write to the command's stdin");
		} else if (http_wait(rq, fd, POLLOUT, -1, e) < 0) {
			return -1;
		}
	}
	return 0;
}

/* ---- run a command ---- */

/*
 * The route that runs a command in a sandbox.
 *
 * The command gets pipes of ours; nothing of its output is lost on the way, and
 * a client that reads slowly slows it down.  A foreground command ends with its
 * client.  Whole replies are bounded: head and tail are kept, the middle counted.
 */

/* The command may go on with the trace of its request, unless it got another from its client. */
static void pass_trace(const struct execution *x, json_t *ask)
{
	json_t *env = json_object_get(ask, "env"), *all;
	char parent[TRACEPARENT_MAX];
	size_t i;

	http_traceparent(x->box.rq, parent);
	for (i = 0; parent[0] && i < json_array_size(env); i++)
		if (!strncmp(json_string_value(json_array_get(env, i)), "TRACEPARENT=", 12))
			return;
	if (!parent[0])
		return;
	all = env ? json_copy(env) : json_array();
	json_array_append_new(all, json_sprintf("TRACEPARENT=%s", parent));
	request_set_env(ask, all);
}

/* The keeper's request: the members that the schema accepted, without our own. */
static json_t *make_request(const struct execution *x, int detach)
{
	static const char *const ours[] = { "stdin", "stdin_hex", "stream", "max_output_bytes", "detach", "stdin_open", "image", "pull",
					    "options", "keep", "attest" };
	json_t *ask = protocol_request(OP_exec);
	size_t i;

	json_object_update_missing(ask, (json_t *)(size_t)http_json(x->box.rq));
	for (i = 0; i < ARRAY_LEN(ours); i++)
		json_object_del(ask, ours[i]);
	if (x->temporary)
		json_object_del(ask, "name");	/* the sandbox's */
	request_set_detach(ask, detach);
	pass_trace(x, ask);
	return ask;
}

/* ---- the route ------------------------------------------------------------------------------ */

static int detach_exec(struct execution *x, struct err *e)
{
	autojson json_t *ask = make_request(x, 1);
	const json_t *body = http_json(x->box.rq);
	json_t *answer;

	if (json_object_get(body, "stdin") || json_object_get(body, "stdin_hex") || json_object_get(body, "stream"))
		return err_set(e, ERR_INVALID, "a detached command takes stdin and gives output by routes of its own; "
			       "hint: /commands/{command}/stdin and /follow");
	atomic_fetch_add(&api_of(x->box.rq)->execs, 1);
	answer = box_call(&x->box, ask, NULL, 0, NULL, e);
	if (!answer)
		return -1;
	http_audit(x->box.rq, "command", json_string_value(json_object_get(answer, "command")));
	return http_reply_json(x->box.rq, 201, answer, e);
}

/* A sandbox for this one command. */
static int make_temporary_sandbox(struct execution *x, struct http_request *rq, struct err *e)
{
	autojson json_t *made = api_create(rq, http_json(rq), NULL, e);
	const char *id = json_string_value(json_object_get(made, "id"));
	int r;

	if (!made)
		return -1;
	r = box_open(&x->box, rq, e);
	snprintf(x->box.id, sizeof(x->box.id), "%s", id);
	if (r < 0)
		return -1;
	x->temporary = 1;
	x->box.sock = keeper_connect(&x->box.registry, x->box.id, e);
	if (x->box.sock < 0)
		return -1;
	if (json_is_true(json_object_get(http_json(rq), "attest"))) {
		autojson json_t *ask = protocol_request(OP_attest), *report = box_call(&x->box, ask, NULL, 0, NULL, e);

		if (!report)
			return -1;
		x->attest = json_incref(json_object_get(report, "attest"));
	}
	return 0;
}

/* The keeper has the terminal: input and its size come by other requests. */
static int run_terminal(struct execution *x, struct err *e)
{
	autojson json_t *ask = make_request(x, 1), *answer = NULL;
	const char *id;

	atomic_fetch_add(&api_of(x->box.rq)->execs, 1);
	answer = box_call(&x->box, ask, NULL, 0, NULL, e);
	id = json_string_value(json_object_get(answer, "command"));
	if (!id) {
		if (answer)
			err_set(e, ERR_CORRUPT, "the keeper named no command");
		execution_free(x);
		return -1;
	}
	snprintf(x->command, sizeof(x->command), "%s", id);
	http_audit(x->box.rq, "command", x->command);
	return api_follow(x->box.rq, &x->box, x->command, execution_started(x),
			  execution_free, x, e);
}

static int check_run(struct execution *x, const json_t *body, struct err *e)
{
	int stream = json_is_true(json_object_get(body, "stream"));

	x->keep = json_is_true(json_object_get(body, "keep"));
	if (x->tty && (!stream || x->stays_open || json_object_get(body, "stdin") || json_object_get(body, "stdin_hex")))
		return err_set(e, ERR_INVALID, "a terminal goes with \"stream\", and takes input by /commands/{command}/stdin");
	if (!x->tty && (json_object_get(body, "rows") || json_object_get(body, "cols")))
		return err_set(e, ERR_INVALID, "\"rows\" and \"cols\" go with \"tty\"");
	return json_object_get(body, "attest") && !stream ? err_set(e, ERR_INVALID, "\"attest\" goes with \"stream\"") : 0;
}

static int begin_exec_of_request(struct execution *x, struct http_request *rq, int temporary, struct err *e)
{
	const json_t *body = http_json(rq);
	int detached = json_is_true(json_object_get(body, "detach"));
	autojson json_t *ask = NULL;

	if (!json_array_size(json_object_get(body, "argv")))
		return err_set(e, ERR_INVALID, "body.argv is empty");
	x->stays_open = json_is_true(json_object_get(body, "stdin_open"));
	if (x->stays_open && (detached || !json_is_true(json_object_get(body, "stream")) || json_object_get(body, "stdin") ||
			      json_object_get(body, "stdin_hex")))
		return err_set(e, ERR_INVALID, "\"stdin_open\" goes with \"stream\", and without \"stdin\" and \"detach\"");
	x->tty = json_is_true(json_object_get(body, "tty"));
	if (x->tty && !detached && !temporary)
		return err_set(e, ERR_INVALID, "a terminal needs \"detach\": true; hint: then follow, stdin and resize");
	if (temporary && check_run(x, body, e) < 0)
		return -1;
	if ((temporary ? make_temporary_sandbox(x, rq, e) : box_connect(&x->box, rq, e)) < 0 || json_get_bytes(body, "stdin", &x->input, "request", e) < 0)
		return -1;
	if (json_object_get(body, "name") && !detached && !temporary)	/* after the sandbox: another's is not there */
		return err_set(e, ERR_INVALID, "\"name\" goes with \"detach\"");
	if (detached || x->tty)
		return 0;
	ask = make_request(x, 0);
	return execution_launch(x, ask, e);
}

static int execute_request(struct http_request *rq, int temporary, struct err *e)
{
	struct execution *x = execution_new(rq, e);
	int r;

	if (!x)
		return -1;
	r = begin_exec_of_request(x, rq, temporary, e);
	if (r == 0 && x->tty && temporary)
		return run_terminal(x, e);
	if (r == 0 && json_is_true(json_object_get(http_json(rq), "detach")))
		r = detach_exec(x, e);
	else if (r == 0 && json_is_true(json_object_get(http_json(rq), "stream")))
		return execution_stream(x, e);
	else if (r == 0)
		r = execution_reply(x, e);
	execution_free(x);
	return r;
}

static int post_exec(struct http_request *rq, struct err *e)
{
	return execute_request(rq, 0, e);
}

static int post_temporary_run(struct http_request *rq, struct err *e)
{
	return execute_request(rq, 1, e);
}

const struct http_route exec_routes[] = {
	{ "POST", "/v1/run", post_temporary_run, "run a command in a sandbox of its own, which ends with it: a whole reply, or with \"stream\" events",
	  HTTP_JSON, .flags = HTTP_TIMED_RUN, .request = "Run", .response = "Executed", .type = ESTREAM_TYPES },
	{ "POST", "/v1/sandboxes/{id}/exec", post_exec,
	  "run a command: a whole reply, with \"stream\" events as they come, with \"detach\" (201) its id", HTTP_JSON,
	  .flags = HTTP_TIMED_EXEC, .request = "Exec", .response = "Executed", .type = ESTREAM_TYPES, .or_status = 201, .or_response = "Detached" },
	{ NULL },
};

/* ---- detached commands ---- */

/* Routes on detached commands: their output, their input, their end. */

#define OUTPUT_MAX (16u << 20)
#define SEND_PIECE (256u << 10)

static json_t *command_request(struct http_request *rq, enum protocol_op op)
{
	json_t *ask = protocol_request(op);

	request_set_command(ask, http_param(rq, "command"));
	return ask;
}

static int get_commands(struct http_request *rq, struct err *e)
{
	return box_answer(rq, protocol_request(OP_commands), e);
}

static int get_command(struct http_request *rq, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_commands), *answer = NULL;
	json_t *one, *found = NULL;
	struct box b;
	size_t i;

	if (box_connect(&b, rq, e) == 0)
		answer = box_call(&b, ask, NULL, 0, NULL, e);
	box_close(&b);
	if (!answer)
		return -1;
	json_array_foreach(json_object_get(answer, "commands"), i, one)
		if (!strcmp(json_string_value(json_object_get(one, "command")), http_param(rq, "command")))
			found = one;
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "no such command; hint: GET /v1/sandboxes/{id}/commands lists them");
	return http_reply_json(rq, 0, json_incref(found), e);
}

/* ---- output ------------------------------------------------------------------------- */

static int set_stream(json_t *ask, const char *stream, struct err *e)
{
	if (strcmp(stream, "stdout") && strcmp(stream, "stderr") && strcmp(stream, "both"))
		return err_set(e, ERR_INVALID, "query parameter stream is not one of stdout, stderr, both");
	request_set_stream(ask, stream);
	return 0;
}

static int reply_output(struct http_request *rq, json_t *answer, int fd, struct err *e)
{
	autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
	char *data;

	if (wire_read_data(fd, &b, e) < 0)
		return -1;
	if (!http_query_bool(rq, "raw"))
		return json_set_bytes(answer, "data", b.data, b.len, e) < 0 ? -1 : http_reply_json(rq, 0, json_incref(answer), e);
	data = b.data;
	b.data = NULL;
	return http_reply_data(rq, 0, "application/octet-stream", data ? data : calloc(1, 1), b.len, e);
}

static int get_output(struct http_request *rq, struct err *e)
{
	const char *stream = http_query(rq, "stream");
	uint64_t max = http_query_u64(rq, "max", 1 << 20);
	autojson json_t *ask = command_request(rq, OP_output), *answer = NULL;
	autoclose int fd = -1;
	struct box b;

	if (stream && !strcmp(stream, "both"))
		return err_set(e, ERR_INVALID, "one stream at a time; hint: stream=stdout or stderr, or /follow");
	if (set_stream(ask, stream ? stream : "stdout", e) < 0)
		return -1;
	request_set_from(ask, http_query_u64(rq, "from", 0));
	request_set_max(ask, max > OUTPUT_MAX ? OUTPUT_MAX : max);
	if (box_connect(&b, rq, e) == 0)
		answer = box_call(&b, ask, NULL, 0, &fd, e);
	box_close(&b);
	if (!answer)
		return -1;
	return fd < 0 ? err_set(e, ERR_INTERNAL, "the keeper's answer has no data") : reply_output(rq, answer, fd, e);
}

/* ---- follow --------------------------------------------------------------------------- */

struct following {
	struct box own, *box;	/* own, or that of the client that wants the command followed */
	char command[24], stream[8];
	uint64_t from[2];
	json_t *first;		/* an event of that client, before those of the command */
	void (*end)(void *ctx);
	void *ctx;
};

static const char *const names[] = { "stdout", "stderr" };

static void following_free(void *ctx)
{
	struct following *f = ctx;

	if (f->end)
		f->end(f->ctx);
	else
		box_close(&f->own);
	json_decref(f->first);
	free(f);
}

static int ask_command_output(struct following *f, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_follow);

	request_set_command(ask, f->command);
	request_set_stream(ask, f->stream);
	request_set_from(ask, f->from[0]);
	request_set_stderr_from(ask, f->from[1]);
	return box_send(f->box, ask, NULL, 0, e);
}

/* A character that is cut in two is asked for again with the rest of it. */
static int add_part(struct estream *s, struct following *f, int which, json_t *part, const char *p, size_t n, int ended,
		    struct err *e)
{
	size_t cut = ended ? 0 : estream_cut_text(p, n);

	f->from[which] = (uint64_t)json_integer_value(json_object_get(part, "next")) - cut;
	if (n == cut)
		return 0;
	json_object_set_new(part, "stream", json_string(names[which]));
	json_object_set_new(part, "bytes", json_integer((json_int_t)(n - cut)));
	json_object_set_new(part, "next", json_integer((json_int_t)f->from[which]));
	if (json_set_bytes(part, "data", p, n - cut, e) < 0)
		return -1;
	return estream_add(s, names[which], 0, json_incref(part), e);
}

static int take_parts(struct estream *s, struct following *f, json_t *answer, const struct buf *b, struct err *e)
{
	int i, ended = json_is_true(json_object_get(answer, "ended"));
	size_t at = 0;

	for (i = 0; i < 2; i++) {
		json_t *part = json_object_get(answer, names[i]);
		size_t len = (size_t)json_integer_value(json_object_get(part, "bytes"));

		if (!part)
			continue;
		if (len > b->len - at)
			return err_set(e, ERR_CORRUPT, "the keeper's answer is cut short");
		if (add_part(s, f, i, part, b->data ? b->data + at : "", len, ended, e) < 0)
			return -1;
		at += len;
	}
	if (!ended)
		return 1;
	return estream_add(s, "verdict", 0, json_pack("{s:s,s:O,s:O}", "command", f->command, "exit_status",
						      json_object_get(json_object_get(answer, "verdict"), "exit_status"), "verdict",
						      json_object_get(answer, "verdict")), e);
}

static int next_output(struct estream *s, struct http_request *rq, struct err *e)
{
	autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
	struct following *f = s->ctx;
	autojson json_t *answer = NULL;
	int r;

	(void)rq;
	if (f->first) {
		json_t *first = f->first;

		f->first = NULL;
		return estream_add(s, "started", 0, first, e) < 0 ? -1 : 1;
	}
	answer = box_receive_data(f->box, -1, &b, e);
	if (!answer)
		return -1;
	r = take_parts(s, f, answer, &b, e);
	if (r > 0 && ask_command_output(f, e) < 0)
		return -1;
	return r;
}

/* The first answer is waited for, unless nothing is there yet: an error has a status of its own. */
static int get_follow(struct http_request *rq, struct err *e)
{
	const char *stream = http_query(rq, "stream");
	autojson json_t *unused = json_object(), *ask = command_request(rq, OP_output), *answer = NULL;
	struct following *f;

	if (set_stream(unused, stream ? stream : "both", e) < 0)
		return -1;
	f = calloc(1, sizeof(*f));
	if (!f)
		return err_nomem(e);
	f->box = &f->own;
	snprintf(f->command, sizeof(f->command), "%.23s", http_param(rq, "command"));
	snprintf(f->stream, sizeof(f->stream), "%s", stream ? stream : "both");
	f->from[0] = http_query_u64(rq, "from", 0);
	f->from[1] = http_query_u64(rq, "stderr_from", 0);
	request_set_max(ask, 0);
	if (box_connect(f->box, rq, e) == 0)
		answer = box_call(f->box, ask, NULL, 0, NULL, e);
	if (!answer || ask_command_output(f, e) < 0) {
		following_free(f);
		return -1;
	}
	return estream_reply(rq, 0, next_output, following_free, f, e);
}

int api_follow(struct http_request *rq, struct box *b, const char *command, json_t *first, void (*end)(void *ctx), void *ctx, struct err *e)
{
	struct following *f = calloc(1, sizeof(*f));

	if (!f) {
		json_decref(first);
		end(ctx);
		return err_nomem(e);
	}
	*f = (struct following){ .box = b, .stream = "both", .first = first, .end = end, .ctx = ctx };
	snprintf(f->command, sizeof(f->command), "%s", command);
	if (ask_command_output(f, e) < 0) {
		following_free(f);
		return -1;
	}
	return estream_reply(rq, 200, next_output, following_free, f, e);
}

/* ---- stdin ------------------------------------------------------------------------------- */

struct sending {
	struct box box;
	uint64_t sent;
	int live_fd;	/* stdin of a command that another request runs, or -1: the keeper has it */
};

static void command_stdin_free(void *data)
{
	struct sending *s = data;

	fd_close(&s->live_fd);
	box_close(&s->box);
	free(s);
}

static int begin_command_stdin(struct http_request *rq, struct err *e)
{
	struct sending *s = calloc(1, sizeof(*s));

	if (!s)
		return err_nomem(e);
	s->live_fd = -1;
	s->box.sock = s->box.lock_fd = -1;
	http_set_data(rq, s, command_stdin_free);
	if (box_connect(&s->box, rq, e) < 0)
		return -1;
	s->live_fd = livein_open(api_of(rq), s->box.id, http_param(rq, "command"));
	return 0;
}

static int send_command_stdin(struct http_request *rq, const char *data, size_t n, int eof, struct err *e)
{
	struct sending *s = http_data(rq);
	autojson json_t *ask = command_request(rq, OP_send), *answer = NULL;
	autoclose int fd = wire_data(data, n, e);

	if (fd < 0)
		return -1;
	request_set_eof(ask, eof);
	/* the answer comes when the command has read it: the sender is as fast as the reader */
	answer = box_call(&s->box, ask, &fd, 1, NULL, e);
	s->sent += answer ? n : 0;
	return answer ? 0 : -1;
}

static int feed_command_stdin(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct sending *s = http_data(rq);

	if (s->live_fd >= 0)
		return livein_write(rq, s->live_fd, data, n, &s->sent, e);
	while (n) {
		size_t piece = n > SEND_PIECE ? SEND_PIECE : n;

		if (send_command_stdin(rq, data, piece, 0, e) < 0)
			return -1;
		data += piece;
		n -= piece;
	}
	return 0;
}

static int post_command_stdin(struct http_request *rq, struct err *e)
{
	struct sending *s = http_data(rq);

	if (http_query_bool(rq, "eof") && s->live_fd >= 0)
		livein_close_input(api_of(rq), s->box.id, http_param(rq, "command"));
	else if (http_query_bool(rq, "eof") && send_command_stdin(rq, "", 0, 1, e) < 0)
		return -1;
	return http_reply_json(rq, 0, json_pack("{s:I}", "sent", (json_int_t)s->sent), e);
}

/* ---- signal, wait, forget ------------------------------------------------------------------- */

int api_signal_number(const json_t *v, struct err *e)
{
	const char *name = json_string_value(v);
	int i;

	if (json_is_integer(v))
		return (int)json_integer_value(v);
	if (name && !strncmp(name, "SIG", 3))
		name += 3;
	for (i = 1; name && i < 32; i++)
		if (sigabbrev_np(i) && !strcmp(sigabbrev_np(i), name))
			return i;
	return err_set(e, ERR_INVALID, "body.signal is not a signal; hint: TERM, SIGKILL, or a number from 1 to 64");
}

static int post_command_signal(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq), *signal = json_object_get(body, "signal");
	int number = signal ? api_signal_number(signal, e) : 15;
	json_t *ask;

	if (number < 0)
		return -1;
	ask = command_request(rq, OP_signal);
	request_set_signal(ask, (uint64_t)number);
	request_set_all(ask, json_is_true(json_object_get(body, "all")));
	return box_answer(rq, ask, e);
}

static int post_command_resize(struct http_request *rq, struct err *e)
{
	json_t *ask = command_request(rq, OP_resize);

	json_object_update(ask, http_json(rq));
	return box_answer(rq, ask, e);
}

static int get_command_wait(struct http_request *rq, struct err *e)
{
	uint64_t ms = http_query_u64(rq, "timeout_ms", 0);
	autojson json_t *ask = command_request(rq, OP_wait), *answer = NULL;
	int fds[WIRE_FDS_MAX];
	struct box b;
	size_t n = 0;

	if (box_connect(&b, rq, e) == 0 && box_send(&b, ask, NULL, 0, e) == 0)
		answer = box_receive(&b, ms ? (int)(ms > 86400000 ? 86400000 : ms) : -1, fds, WIRE_FDS_MAX, &n, e);
	while (n)
		fd_close(&fds[--n]);
	box_close(&b);
	return answer ? http_reply_json(rq, 0, json_incref(answer), e) : -1;
}

static int delete_command(struct http_request *rq, struct err *e)
{
	return box_answer(rq, command_request(rq, OP_forget), e);
}

#define COMMANDS "/v1/sandboxes/{id}/commands"

const struct http_route command_routes[] = {
	{ "GET", COMMANDS, get_commands, "list commands", .response = "CommandList" },
	{ "GET", COMMANDS "/{command}", get_command, "one command", .response = "Command" },
	{ "DELETE", COMMANDS "/{command}", delete_command, "forget an ended command and its output", .response = "Forgotten" },
	{ "GET", COMMANDS "/{command}/output", get_output, "output from a byte offset on; raw as bytes",
	  .query = "stream:string from:integer max:integer raw:boolean", .response = "Output", .type = "application/octet-stream" },
	{ "GET", COMMANDS "/{command}/follow", get_follow, "output as it comes, and the verdict",
	  .query = "stream:string from:integer stderr_from:integer", .type = ESTREAM_TYPES },
	{ "POST", COMMANDS "/{command}/stdin", post_command_stdin, "send the body to its stdin; eof closes it", HTTP_RAW, .query = "eof:boolean",
	  .response = "Sent", .begin = begin_command_stdin, .feed = feed_command_stdin },
	{ "POST", COMMANDS "/{command}/signal", post_command_signal, "send it a signal (default: TERM)", HTTP_JSON, HTTP_OPTIONAL,
	  .request = "Signal", .response = "Signalled" },
	{ "POST", COMMANDS "/{command}/resize", post_command_resize, "set the size of its terminal", HTTP_JSON, .request = "Resize",
	  .response = "Resized" },
	{ "GET", COMMANDS "/{command}/wait", get_command_wait, "wait for its end", .query = "timeout_ms:integer", .response = "Ended" },
	{ NULL },
};
