/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth stdio: JSON lines on stdin and stdout, for programs that drive many
 * commands in many sandboxes and want no process started for each.
 *
 * One poll loop.  A request holds one connection to a keeper while it is under
 * way; connections are kept for the next.  What makes or starts a sandbox runs
 * as a process of its own (a keeper is forked there, which must not inherit our
 * descriptors).  exec hands pipes of ours to the command: nothing is dropped, and
 * a reader that is slow slows the command down.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/follow.h"
#include "manager/keeper/fileclient.h"
#include "manager/keeper/wire.h"

#define REQUESTS_MAX 256
#define CONNECTIONS_MAX 512
#define SANDBOX_MAX 60		/* connections to one keeper, which serves 64 */
#define LINE_MAX_BYTES (16u << 20)
#define OUT_MAX (256u << 20)
#define OUT_FULL (1u << 20)	/* from here on nothing more is read until some of it is written */
#define CHUNK 65536

struct conn {
	int fd;			/* -1: a free slot */
	int used;		/* by a request */
	char sandbox[65];
};

enum kind { FREE, CALL, EXEC, CHILD };

struct request {
	enum kind kind;
	json_t *id;
	int conn;			/* index, or -1 */
	char sandbox[65];
	char command[24], session[65];	/* what cancel ends */
	int cancelled;
	int out[2];			/* EXEC, CHILD: our ends */
	char held[2][4];		/* the first bytes of a character that is not whole yet */
	size_t held_len[2];
	int in;				/* EXEC: our end of stdin, or -1 */
	int in_open;			/* more may be sent */
	struct buf input;
	size_t input_done;
	json_t *verdict;
	int file;			/* EXEC: berth's own file work; 'r' or 'w' */
	pid_t pid;			/* CHILD */
	struct buf text[2];
};

struct stdio {
	struct sandbox_ref ref;
	struct conn conns[CONNECTIONS_MAX];
	struct request requests[REQUESTS_MAX];
	struct buf in, out;
	size_t in_scanned, out_done;
	int out_fd, out_is_socket;
	int in_eof, lost;	/* lost: nobody reads stdout any more */
};

/* ---- answers ---------------------------------------------------------------------- */

static void flush_out(struct stdio *st)
{
	while (st->out_done < st->out.len && !st->lost) {
		const char *p = st->out.data + st->out_done;
		size_t n = st->out.len - st->out_done;
		ssize_t w = st->out_is_socket ? send(st->out_fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL) : write(st->out_fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN)
			break;
		if (w < 0)
			st->lost = 1;
		else
			st->out_done += (size_t)w;
	}
	if (st->out_done == st->out.len) {
		if (st->out.cap > OUT_FULL)
			buf_release(&st->out);
		st->out.len = st->out_done = 0;
		st->out.max = OUT_MAX;
	}
}

/* Consumes answer.  A request of our own has no id, and nobody is told. */
static void reply(struct stdio *st, const json_t *id, json_t *answer)
{
	autofree char *own = NULL;
	const char *text;
	char room[4096];
	struct err ignored;
	size_t n;

	if (!id) {
		json_decref(answer);
		return;
	}
	json_object_del(answer, "v");
	json_object_set(answer, "id", (json_t *)(size_t)id);
	text = json_text(answer, room, sizeof(room), &own, &n);
	json_decref(answer);
	if (!text || buf_add(&st->out, text, n, &ignored) < 0 || buf_add(&st->out, "\n", 1, &ignored) < 0)
		st->lost = 1;	/* 256 MiB nobody read */
	flush_out(st);
}

/* The same with the members as they came, which is what most answers are: text to text. */
static void reply_members(struct stdio *st, const json_t *id, const char *members, size_t n)
{
	autofree char *own = NULL;
	const char *text;
	char room[256];
	struct err ignored;
	size_t id_len;

	if (!id)
		return;
	text = json_text(id, room, sizeof(room), &own, &id_len);
	if (!text || buf_add(&st->out, "{", 1, &ignored) < 0 || buf_add(&st->out, members, n, &ignored) < 0 ||
	    buf_add(&st->out, ",\"id\":", 6, &ignored) < 0 || buf_add(&st->out, text, id_len, &ignored) < 0 ||
	    buf_add(&st->out, "}\n", 2, &ignored) < 0)
		st->lost = 1;
	flush_out(st);
}

static void reply_error(struct stdio *st, const json_t *id, const struct err *e)
{
	reply(st, id, wire_error(e));
}

static void drop_conn(struct stdio *st, int i)
{
	fd_close(&st->conns[i].fd);
	st->conns[i].used = 0;
}

/* keep: the connection is between two requests and may serve the next. */
static void end_request(struct stdio *st, struct request *r, int keep)
{
	if (r->conn >= 0 && keep)
		st->conns[r->conn].used = 0;
	else if (r->conn >= 0)
		drop_conn(st, r->conn);
	fd_close(&r->in);
	fd_close(&r->out[0]);
	fd_close(&r->out[1]);
	buf_release(&r->input);
	buf_release(&r->text[0]);
	buf_release(&r->text[1]);
	json_decref(r->verdict);
	json_decref(r->id);
	memset(r, 0, sizeof(*r));
}

static void fail(struct stdio *st, struct request *r, const struct err *e, int keep)
{
	reply_error(st, r->id, e);
	end_request(st, r, keep);
}

/* ---- connections --------------------------------------------------------------------- */

static int idle_conn(struct stdio *st, const char *sandbox)
{
	int i;

	for (i = 0; i < CONNECTIONS_MAX; i++)
		if (st->conns[i].fd >= 0 && !st->conns[i].used && !strcmp(st->conns[i].sandbox, sandbox))
			return i;
	return -1;
}

static int count_conns(const struct stdio *st, const char *sandbox)
{
	int i, n = 0;

	for (i = 0; i < CONNECTIONS_MAX; i++)
		n += st->conns[i].fd >= 0 && !strcmp(st->conns[i].sandbox, sandbox);
	return n;
}

static int free_conn(struct stdio *st, struct err *e)
{
	int i, idle = -1;

	for (i = 0; i < CONNECTIONS_MAX; i++) {
		if (st->conns[i].fd < 0)
			return i;
		if (!st->conns[i].used)
			idle = i;
	}
	if (idle < 0)
		return err_set(e, ERR_LIMIT, "%d connections are in use", CONNECTIONS_MAX);
	drop_conn(st, idle);
	return idle;
}

/* A connection to the sandbox that ref names: one of ours by its id at once, else looked up. */
static int take_conn(struct stdio *st, const char *ref, struct err *e)
{
	int i = idle_conn(st, ref);

	if (i < 0) {
		if (sandbox_ref_find(&st->ref, ref, e) < 0)
			return -1;
		i = idle_conn(st, st->ref.id);
	}
	if (i < 0) {
		if (count_conns(st, st->ref.id) >= SANDBOX_MAX)
			return err_set(e, ERR_LIMIT, "%d requests are under way in sandbox %s", SANDBOX_MAX, st->ref.id);
		i = free_conn(st, e);
		if (i < 0)
			return -1;
		st->conns[i].fd = keeper_connect(&st->ref.registry, st->ref.id, e);
		if (st->conns[i].fd < 0)
			return -1;
		memcpy(st->conns[i].sandbox, st->ref.id, sizeof(st->ref.id));
	}
	st->conns[i].used = 1;
	return i;
}

static int send_long(int sock, const json_t *rq, const int *fds, size_t count, struct err *e)
{
	autofree char *text = json_dumps(rq, JSON_COMPACT);
	autojson json_t *small = json_pack("{s:O,s:b}", "op", json_object_get(rq, "op"), "data", 1);
	autoclose int data = -1;
	int all[4];

	if (!text || !small)
		return err_nomem(e);
	data = wire_data(text, strlen(text), e);
	if (data < 0)
		return -1;
	if (count)
		memcpy(all, fds, count * sizeof(int));
	all[count] = data;
	return wire_send(sock, small, all, count + 1, e);
}

/* long_line: the request may be too long for a packet. */
static int send_request(struct stdio *st, const struct request *r, json_t *rq, const int *fds, size_t count, int long_line,
			struct err *e)
{
	int sock = st->conns[r->conn].fd;

	return long_line ? send_long(sock, rq, fds, count, e) : wire_send(sock, rq, fds, count, e);
}

/* ---- requests -------------------------------------------------------------------------- */

static struct request *new_request(struct stdio *st, enum kind kind, json_t *id, struct err *e)
{
	struct request *r;
	int i;

	for (i = 0; i < REQUESTS_MAX && st->requests[i].kind != FREE; i++)
		;
	if (i == REQUESTS_MAX) {
		err_set(e, ERR_LIMIT, "%d requests are under way", REQUESTS_MAX);
		return NULL;
	}
	r = &st->requests[i];
	*r = (struct request){ .kind = kind, .id = json_incref(id), .conn = -1, .out = { -1, -1 }, .in = -1,
			       .input = BUF_INIT(64 << 20), .text = { BUF_INIT(64 << 20), BUF_INIT(64 << 20) } };
	return r;
}

static int open_sandbox(struct stdio *st, struct request *r, json_t *rq, struct err *e)
{
	const char *ref = NULL;

	if (json_get_str(rq, "sandbox", &ref, "request", e) < 0)
		return -1;
	if (!ref)
		return err_set(e, ERR_INVALID, "no \"sandbox\" given");
	r->conn = take_conn(st, ref, e);
	if (r->conn < 0)
		return -1;
	memcpy(r->sandbox, st->conns[r->conn].sandbox, sizeof(r->sandbox));
	return 0;
}

static int make_pipe(int *ret_ours, int *ret_theirs, int we_read, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	*ret_ours = p[!we_read];
	*ret_theirs = p[we_read];
	return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "set up a pipe") : 0;
}

static void write_input(struct request *r)
{
	while (r->in >= 0 && r->input_done < r->input.len) {
		ssize_t n = write(r->in, r->input.data + r->input_done, r->input.len - r->input_done);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			fd_close(&r->in);	/* it reads no more */
		else
			r->input_done += (size_t)n;
	}
	r->input.len = r->input_done = 0;
	if (!r->in_open)
		fd_close(&r->in);
}

static int start_exec(struct stdio *st, struct request *r, json_t *rq, int long_line, struct err *e)
{
	int theirs[3] = { -1, -1, -1 }, i, result = -1;

	if (json_get_bool(rq, "stdin_open", &r->in_open, "request", e) < 0 || json_get_bytes(rq, "stdin", &r->input, "request", e) < 0)
		return -1;
	json_object_del(rq, "stdin");
	json_object_del(rq, "stdin_hex");
	if (make_pipe(&r->in, &theirs[0], 0, e) == 0 && make_pipe(&r->out[0], &theirs[1], 1, e) == 0 &&
	    make_pipe(&r->out[1], &theirs[2], 1, e) == 0)
		result = send_request(st, r, rq, theirs, 3, long_line, e);
	for (i = 0; i < 3; i++)
		fd_close(&theirs[i]);
	if (result == 0)
		write_input(r);
	return result;
}

/* ---- files, by the helper inside the sandbox -------------------------------------- */

#define FILE_MAX (16u << 20)
#define FILE_TIMEOUT_MS 300000

static json_t *file_request(const json_t *rq, int write, struct err *e)
{
	const char *path = NULL, *mode = "", *user = "";
	int append = 0, parents = 0;
	char flags[8], max[24];
	uint64_t limit = FILE_MAX;

	if (json_get_str(rq, "path", &path, "request", e) < 0 || json_get_str(rq, "mode", &mode, "request", e) < 0 ||
	    json_get_str(rq, "user", &user, "request", e) < 0 || json_get_bool(rq, "append", &append, "request", e) < 0 ||
	    json_get_bool(rq, "parents", &parents, "request", e) < 0 || json_get_u64(rq, "max", &limit, "request", e) < 0)
		return NULL;
	if (strspn(mode, "01234567") != strlen(mode) || strlen(mode) > 5) {
		err_set(e, ERR_INVALID, "\"mode\" is not octal, as a string; hint: \"644\"");
		return NULL;
	}
	if (!path || !*path || limit > FILE_MAX) {
		err_set(e, ERR_INVALID, path && *path ? "\"max\" is more than 16 MiB; hint: copy" : "no \"path\" given");
		return NULL;
	}
	snprintf(flags, sizeof(flags), "%s%s", append ? "a" : "", parents ? "p" : "");
	snprintf(max, sizeof(max), "%llu", (unsigned long long)limit);
	return write ? json_pack("{s:s,s:s,s:i,s:[s,s,s,s]}", "op", "file", "user", user, "timeout_ms", FILE_TIMEOUT_MS, "argv",
				 "write", flags, mode, path) :
		       json_pack("{s:s,s:s,s:i,s:[s,s,s]}", "op", "file", "user", user, "timeout_ms", FILE_TIMEOUT_MS, "argv", "read",
				 max, path);
}

static int op_file(struct stdio *st, json_t *id, json_t *rq, int write, struct err *e)
{
	autojson json_t *to_keeper = file_request(rq, write, e);
	struct request *r = to_keeper ? new_request(st, EXEC, id, e) : NULL;
	int result = -1;

	if (!r)
		return -1;
	r->file = write ? 'w' : 'r';
	if ((!write || json_get_bytes(rq, "data", &r->input, "request", e) >= 0) && open_sandbox(st, r, rq, e) == 0)
		result = start_exec(st, r, to_keeper, 0, e);
	if (result < 0)
		end_request(st, r, 0);
	return result;
}

/* The helper has ended: its one line on stderr says how. */
static void end_file(struct stdio *st, struct request *r, const json_t *verdict)
{
	struct filecounts n = { 0 };
	struct err e = { 0 };
	json_t *answer;
	char line[600];

	snprintf(line, sizeof(line), "%.*s", (int)(r->text[1].len < 590 ? r->text[1].len : 590), r->text[1].len ? r->text[1].data : "");
	if (fileclient_judge(verdict, line, &n, &e) < 0) {
		fail(st, r, &e, 1);
		return;
	}
	answer = json_pack("{s:I}", "bytes", r->file == 'r' ? (json_int_t)r->text[0].len : (json_int_t)n.bytes);
	if (r->file == 'r' && json_set_bytes(answer, "data", r->text[0].len ? r->text[0].data : "", r->text[0].len, &e) < 0) {
		json_decref(answer);
		fail(st, r, &e, 1);
		return;
	}
	reply(st, r->id, answer);
	end_request(st, r, 1);
}

/* What the keeper wants otherwise than we are told it: bytes of text by a descriptor, a signal by its number. */
static int translate(json_t *rq, int *ret_text, struct err *e)
{
	autobuf struct buf b = BUF_INIT(LINE_MAX_BYTES);
	const char *signal_name = json_string_value(json_object_get(rq, "signal"));
	uint64_t signo;

	if (signal_name) {
		if (signal_number(signal_name, &signo, e) < 0)
			return -1;
		json_object_set_new(rq, "signal", json_integer((json_int_t)signo));
	}
	if (!json_object_get(rq, "text_hex"))
		return 0;
	if (json_get_bytes(rq, "text", &b, "request", e) < 0 || (*ret_text = wire_data(b.data ? b.data : "", b.len, e)) < 0)
		return -1;
	json_object_del(rq, "text_hex");
	return 0;
}

static int op_keeper(struct stdio *st, json_t *id, json_t *rq, const char *op, int long_line, struct err *e)
{
	autoclose int text = -1;
	int detach = json_is_true(json_object_get(rq, "detach"));
	struct request *r = translate(rq, &text, e) < 0 ? NULL :
			    new_request(st, !strcmp(op, "exec") && !detach ? EXEC : CALL, id, e);
	const char *session = json_string_value(json_object_get(rq, "session"));
	int result;

	if (!r)
		return -1;
	if (open_sandbox(st, r, rq, e) < 0) {
		end_request(st, r, 1);
		return -1;
	}
	if (!strncmp(op, "sh", 2))
		snprintf(r->session, sizeof(r->session), "%s", session ? session : "main");
	json_object_del(rq, "id");
	json_object_del(rq, "sandbox");
	json_object_set_new(rq, "inline", json_true());
	result = r->kind == EXEC ? start_exec(st, r, rq, long_line, e) :
				   send_request(st, r, rq, &text, text >= 0, long_line, e);
	if (result < 0)
		end_request(st, r, 0);
	return result;
}

static struct request *find_request(struct stdio *st, const json_t *rq, struct err *e)
{
	const json_t *wanted = json_object_get(rq, "request");
	int i;

	for (i = 0; wanted && i < REQUESTS_MAX; i++)
		if (st->requests[i].kind != FREE && json_equal(st->requests[i].id, wanted))
			return &st->requests[i];
	err_set(e, ERR_NOT_FOUND, "no such request is under way");
	return NULL;
}

/* On a connection of its own, whose answer is the answer to id. */
static int call(struct stdio *st, json_t *id, const char *sandbox, json_t *rq, const int *fds, size_t count, struct err *e)
{
	struct request *r = new_request(st, CALL, id, e);
	int result = -1;

	if (r) {
		r->conn = take_conn(st, sandbox, e);
		if (r->conn >= 0)
			result = send_request(st, r, rq, fds, count, 0, e);
		if (result < 0)
			end_request(st, r, 0);
	}
	json_decref(rq);
	return result;
}

static int kill_command(struct stdio *st, json_t *id, const struct request *r, struct err *e)
{
	return call(st, id, r->sandbox, json_pack("{s:s,s:s,s:i,s:b}", "op", "signal", "command", r->command, "signal", SIGKILL,
						  "all", 1), NULL, 0, e);
}

/* By its own connection: it is this text that ends, or leaves the queue, and not the one that runs before it. */
static int cancel_text(struct stdio *st, json_t *id, const struct request *r, struct err *e)
{
	autojson json_t *rq = json_pack("{s:s,s:s,s:b}", "op", "sh-cancel", "session", r->session, "own", 1);

	if (send_request(st, r, rq, NULL, 0, 0, e) < 0)
		return -1;
	reply(st, id, json_pack("{s:b}", "cancelled", 1));
	return 0;
}

static int op_cancel(struct stdio *st, json_t *id, const json_t *rq, struct err *e)
{
	struct request *r = find_request(st, rq, e);

	if (!r)
		return -1;
	r->cancelled = 1;
	if (r->kind == EXEC && r->command[0])
		return kill_command(st, id, r, e);
	if (r->kind == CALL && r->session[0])
		return cancel_text(st, id, r, e);
	if (r->kind == CHILD)
		kill(r->pid, SIGTERM);
	if (r->kind == CALL)
		return err_set(e, ERR_INVALID, "this request cannot be cancelled");
	reply(st, id, json_pack("{s:b}", "cancelled", 1));
	return 0;
}

static int send_to_request(struct stdio *st, json_t *id, const json_t *rq, const struct buf *data, struct err *e)
{
	struct request *r = find_request(st, rq, e);

	if (!r)
		return -1;
	if (r->kind != EXEC || r->in < 0 || !r->in_open)
		return err_set(e, ERR_INVALID, "the request's stdin is closed; hint: \"stdin_open\":true");
	if (data->len && buf_add(&r->input, data->data, data->len, e) < 0)
		return -1;
	if (json_is_true(json_object_get(rq, "eof")))
		r->in_open = 0;
	write_input(r);
	reply(st, id, json_pack("{s:I}", "sent", (json_int_t)data->len));
	return 0;
}

static int op_send(struct stdio *st, json_t *id, json_t *rq, struct err *e)
{
	autobuf struct buf data = BUF_INIT(LINE_MAX_BYTES);
	autoclose int fd = -1;
	const char *sandbox = json_string_value(json_object_get(rq, "sandbox"));
	json_t *to_keeper;

	if (json_get_bytes(rq, "data", &data, "request", e) < 0)
		return -1;
	if (json_object_get(rq, "request"))
		return send_to_request(st, id, rq, &data, e);
	if (!sandbox)
		return err_set(e, ERR_INVALID, "neither \"request\" nor \"sandbox\" given");
	if (data.len && (fd = wire_data(data.data, data.len, e)) < 0)
		return -1;
	to_keeper = json_pack("{s:s}", "op", "send");
	json_object_set(to_keeper, "command", json_object_get(rq, "command"));
	json_object_set(to_keeper, "session", json_object_get(rq, "session"));
	json_object_set(to_keeper, "eof", json_object_get(rq, "eof"));
	return call(st, id, sandbox, to_keeper, &fd, fd >= 0 ? 1 : 0, e);
}

/* ---- other commands of berth, as processes ------------------------------------------------ */

struct words {
	char *v[1024];
	size_t n;
};

static int add_word(struct words *w, const char *s, struct err *e)
{
	if (w->n + 1 >= ARRAY_LEN(w->v))
		return err_set(e, ERR_LIMIT, "more than %zu words", ARRAY_LEN(w->v));
	w->v[w->n] = strdup(s);
	return w->v[w->n] ? (int)(w->n++, 0) : err_nomem(e);
}

static int add_option(struct words *w, const char *name, const json_t *value, struct err *e)
{
	char text[8300];
	size_t i;

	if (json_is_array(value)) {
		for (i = 0; i < json_array_size(value); i++)
			if (add_option(w, name, json_array_get(value, i), e) < 0)
				return -1;
		return 0;
	}
	if (json_is_false(value) || json_is_null(value))
		return 0;
	if (json_is_true(value))
		snprintf(text, sizeof(text), "--%s", name);
	else if (json_is_integer(value))
		snprintf(text, sizeof(text), "--%s=%lld", name, (long long)json_integer_value(value));
	else if (json_is_real(value))
		snprintf(text, sizeof(text), "--%s=%.3f", name, json_real_value(value));
	else if (!json_is_string(value) ||
		 (size_t)snprintf(text, sizeof(text), "--%s=%s", name, json_string_value(value)) >= sizeof(text))
		return err_set(e, ERR_INVALID, "the value of option %s is neither text, number nor boolean", name);
	return add_word(w, text, e);
}

static int add_strings(struct words *w, const json_t *list, struct err *e)
{
	size_t i;

	for (i = 0; i < json_array_size(list); i++) {
		const char *s = json_string_value(json_array_get(list, i));

		if (!s)
			return err_set(e, ERR_INVALID, "an argument is no string");
		if (add_word(w, s, e) < 0)
			return -1;
	}
	return 0;
}

/* {"op":"create","image":...,"options":{...}}; for the others {"sandbox":...}; "args" are words after those. */
static int make_words(struct words *w, const char *op, const json_t *rq, struct err *e)
{
	const char *image = json_string_value(json_object_get(rq, "image"));
	const char *sandbox = json_string_value(json_object_get(rq, "sandbox"));
	const char *name;
	json_t *options = NULL, *value;

	if (add_word(w, "berth", e) < 0)
		return -1;
	if (!strcmp(op, "copy")) {
		const char *from = NULL, *to = NULL;

		if (json_get_str(rq, "from", &from, "request", e) < 0 || json_get_str(rq, "to", &to, "request", e) < 0)
			return -1;
		if (!from || !to)
			return err_set(e, ERR_INVALID, "\"from\" and \"to\" are wanted, one of them SANDBOX:PATH");
		return add_word(w, "cp", e) < 0 || add_word(w, "--json", e) < 0 || add_word(w, "--", e) < 0 ||
		       add_word(w, from, e) < 0 || add_word(w, to, e) < 0 ? -1 : 0;
	}
	if (!strcmp(op, "berth"))
		return add_strings(w, json_object_get(rq, "args"), e);
	if (json_get_obj(rq, "options", &options, "request", e) < 0 || add_word(w, op, e) < 0 || add_word(w, "--json", e) < 0)
		return -1;
	json_object_foreach(options, name, value)
		if (add_option(w, name, value, e) < 0)
			return -1;
	if (add_word(w, "--", e) < 0 || (image && add_word(w, image, e) < 0) || (sandbox && add_word(w, sandbox, e) < 0))
		return -1;
	return add_strings(w, json_object_get(rq, "args"), e);
}

static int spawn_berth(struct request *r, char **words, const int theirs[2], struct err *e)
{
	posix_spawn_file_actions_t fa;
	int failed;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, theirs[0], 1);
	posix_spawn_file_actions_adddup2(&fa, theirs[1], 2);
	failed = posix_spawn(&r->pid, "/proc/self/exe", &fa, NULL, words, environ);
	posix_spawn_file_actions_destroy(&fa);
	return failed ? err_errno(e, failed, "start berth %s", words[1] ? words[1] : "") : 0;
}

static int op_child(struct stdio *st, json_t *id, const json_t *rq, const char *op, struct err *e)
{
	struct words *w = calloc(1, sizeof(*w));
	struct request *r = w ? new_request(st, CHILD, id, e) : NULL;
	int theirs[2] = { -1, -1 }, result = -1;
	size_t i;

	if (r && make_words(w, op, rq, e) == 0 && make_pipe(&r->out[0], &theirs[0], 1, e) == 0 &&
	    make_pipe(&r->out[1], &theirs[1], 1, e) == 0)
		result = spawn_berth(r, w->v, theirs, e);
	fd_close(&theirs[0]);
	fd_close(&theirs[1]);
	for (i = 0; w && i < w->n; i++)
		free(w->v[i]);
	free(w);
	if (r && result < 0)
		end_request(st, r, 0);
	return result;
}

/* Its stdout is the answer when it is JSON; its JSON error when it failed. */
static void end_child(struct stdio *st, struct request *r)
{
	json_t *answer = NULL, *value;
	struct err ignored;
	const struct buf *text;
	int status = 0;

	while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
		;
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	text = &r->text[status != 0 && !r->text[0].len];
	value = text->len ? json_parse(text->data, text->len, text->len, "answer", &ignored) : NULL;
	if (json_is_object(value)) {
		answer = value;
		/* "id" is the request's here */
		if (json_object_get(value, "id"))
			json_object_set(value, "sandbox", json_object_get(value, "id"));
	} else {
		answer = json_object();
		if (value) {
			json_object_set_new(answer, "result", value);
		} else {
			json_set_bytes(answer, "stdout", r->text[0].data, r->text[0].len, &ignored);
			json_set_bytes(answer, "stderr", r->text[1].data, r->text[1].len, &ignored);
		}
	}
	json_object_set_new(answer, "exit_status", json_integer(status));
	reply(st, r->id, answer);
	end_request(st, r, 0);
}

/* ---- what comes from keepers and pipes ------------------------------------------------------ */

/* Where the last character of p is cut: the number of its bytes that are there, at most 3. */
static size_t cut_character(const char *p, size_t n)
{
	size_t back;

	for (back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = (unsigned char)p[n - back];
		size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) != 0x80)
			return whole > back ? back : 0;
	}
	return 0;
}

static void stream(struct stdio *st, struct request *r, int which, char *p, size_t n, int last)
{
	static const char *const names[] = { "stdout", "stderr" };
	struct err ignored;
	size_t keep = last ? 0 : cut_character(p, n);
	json_t *a;

	memcpy(r->held[which], p + n - keep, keep);
	r->held_len[which] = keep;
	if (n == keep)
		return;
	a = json_pack("{s:s}", "stream", names[which]);
	json_set_bytes(a, "data", p, n - keep, &ignored);
	reply(st, r->id, a);
}

/* 0 when nothing more is there now. */
static int read_pipe(struct stdio *st, struct request *r, int which)
{
	char buf[CHUNK + 4];
	struct err e;
	size_t held = r->held_len[which];
	ssize_t n = read(r->out[which], buf + held, CHUNK);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		fd_close(&r->out[which]);
		memcpy(buf, r->held[which], held);
		if (held)
			stream(st, r, which, buf, held, 1);
		return 0;
	}
	if (r->kind == CHILD || r->file) {
		if (buf_add(&r->text[which], buf, (size_t)n, &e) < 0)
			fd_close(&r->out[which]);
		return 1;
	}
	memcpy(buf, r->held[which], held);
	stream(st, r, which, buf, held + (size_t)n, 0);
	return 1;
}

/* What is in the pipes now is all that counts: who was left behind may hold them for ever. */
static void end_exec(struct stdio *st, struct request *r, json_t *verdict)
{
	char rest[4];
	int i;

	for (i = 0; i < 2; i++) {
		while (r->out[i] >= 0 && read_pipe(st, r, i))
			;
		if (r->held_len[i]) {
			memcpy(rest, r->held[i], r->held_len[i]);
			stream(st, r, i, rest, r->held_len[i], 1);
		}
	}
	if (r->file) {
		end_file(st, r, verdict);
		return;
	}
	reply(st, r->id, json_pack("{s:O}", "verdict", verdict));
	end_request(st, r, 1);
}

static void exec_message(struct stdio *st, struct request *r, json_t *msg)
{
	const char *command = json_string_value(json_object_get(msg, "command"));
	struct err e;

	if (json_object_get(msg, "started")) {
		snprintf(r->command, sizeof(r->command), "%s", command ? command : "");
		if (!r->file)
			reply(st, r->id, json_incref(msg));
		if (r->cancelled && kill_command(st, NULL, r, &e) < 0)
			fail(st, r, &e, 0);
	} else if (json_object_get(msg, "ended")) {
		end_exec(st, r, json_object_get(msg, "verdict"));
	}
}

static int add_fds(json_t *msg, const int *fds, size_t n, struct err *e)
{
	size_t i;

	for (i = 0; i < n; i++) {
		autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
		const char *key = i ? "stderr" : json_object_get(msg, "session") ? "output" : "data";

		if (wire_read_data(fds[i], &b, e) < 0 || json_set_bytes(msg, key, b.data, b.len, e) < 0)
			return -1;
	}
	return 0;
}

static void read_keeper(struct stdio *st, struct request *r)
{
	autojson json_t *msg = NULL;
	int fds[WIRE_FDS_MAX], got, failed;
	const char *members;
	struct err e = { 0 };
	size_t n = 0, i, len;
	char buf[WIRE_MAX + 1];

	got = wire_recv_text(st->conns[r->conn].fd, 0, buf, &len, fds, WIRE_FDS_MAX, &n, &e);
	if (got < 0 && e.code == ERR_TIMEOUT)
		return;
	if (got > 0 && r->kind == CALL && !n && (members = wire_members(buf, len, &len))) {
		reply_members(st, r->id, members, len);
		end_request(st, r, 1);
		return;
	}
	if (got > 0)
		got = wire_parse(buf, len, &msg, fds, &n, &e);
	if (got == 0)
		err_set(&e, ERR_NOT_FOUND, "the sandbox ended");
	failed = got <= 0 || add_fds(msg, fds, n, &e) < 0;
	for (i = 0; i < n; i++)
		close(fds[i]);
	if (failed) {
		fail(st, r, &e, 0);
	} else if (r->kind == EXEC && !json_object_get(msg, "error")) {
		exec_message(st, r, msg);
	} else {
		reply(st, r->id, json_incref(msg));
		end_request(st, r, 1);
	}
}

/* ---- lines ------------------------------------------------------------------------------------ */

enum performer { BY_KEEPER, BY_CHILD, BY_FILE, BY_SEND, BY_CANCEL };

/* What each may have beside id and op; whatever else is refused, as it would have no effect. */
static const struct operation {
	const char *op;
	enum performer by;
	int needs_command;
	const char *members[20];
} operations[] = {
	{ "exec", BY_KEEPER, 0, { "sandbox", "argv", "env", "user", "workdir", "timeout_ms", "grace_ms", "memory_bytes", "cpu_milli", "pids",
	  "ulimits", "stdin", "stdin_hex", "stdin_open", "detach", "name", "tty", "rows", "cols" } },
	{ "sh", BY_KEEPER, 0, { "sandbox", "text", "text_hex", "session", "timeout_ms", "on_timeout", "split", "queue_ms", "no_wait" } },
	{ "sh-wait", BY_KEEPER, 0, { "sandbox", "session", "timeout_ms", "on_timeout" } },
	{ "sh-cancel", BY_KEEPER, 0, { "sandbox", "session" } },
	{ "sessions", BY_KEEPER, 0, { "sandbox" } },
	{ "session-close", BY_KEEPER, 0, { "sandbox", "session" } },
	{ "signal", BY_KEEPER, 0, { "sandbox", "command", "session", "signal", "all" } },
	{ "commands", BY_KEEPER, 0, { "sandbox" } },
	{ "output", BY_KEEPER, 1, { "sandbox", "command", "from", "stream", "max" } },
	{ "follow", BY_KEEPER, 1, { "sandbox", "command", "from", "stderr_from", "stream" } },
	{ "wait", BY_KEEPER, 1, { "sandbox", "command" } },
	{ "forget", BY_KEEPER, 1, { "sandbox", "command" } },
	{ "stats", BY_KEEPER, 0, { "sandbox" } },
	{ "pause", BY_KEEPER, 0, { "sandbox" } },
	{ "resume", BY_KEEPER, 0, { "sandbox" } },
	{ "ping", BY_KEEPER, 0, { "sandbox" } },
	{ "send", BY_SEND, 0, { "sandbox", "request", "command", "session", "data", "data_hex", "eof" } },
	{ "cancel", BY_CANCEL, 0, { "request" } },
	{ "read", BY_FILE, 0, { "sandbox", "path", "max", "user" } },
	{ "write", BY_FILE, 0, { "sandbox", "path", "data", "data_hex", "append", "parents", "mode", "user" } },
	{ "copy", BY_CHILD, 0, { "from", "to" } },
	{ "create", BY_CHILD, 0, { "image", "options", "args" } },
	{ "start", BY_CHILD, 0, { "sandbox", "options", "args" } },
	{ "stop", BY_CHILD, 0, { "sandbox", "options", "args" } },
	{ "restart", BY_CHILD, 0, { "sandbox", "options", "args" } },
	{ "kill", BY_CHILD, 0, { "sandbox", "options", "args" } },
	{ "rm", BY_CHILD, 0, { "sandbox", "options", "args" } },
	{ "ps", BY_CHILD, 0, { "sandbox", "options", "args" } },
	{ "inspect", BY_CHILD, 0, { "sandbox", "options", "args" } },
	{ "berth", BY_CHILD, 0, { "args" } },
};

static int check_members(const struct operation *o, json_t *rq, struct err *e)
{
	const char *name;
	json_t *value;
	size_t i;

	json_object_foreach(rq, name, value) {
		if (!strcmp(name, "id") || !strcmp(name, "op"))
			continue;
		for (i = 0; i < ARRAY_LEN(o->members) && o->members[i] && strcmp(name, o->members[i]); i++)
			;
		if (i == ARRAY_LEN(o->members) || !o->members[i])
			return err_set(e, ERR_INVALID, "unknown member \"%.40s\" of %s", name, o->op);
	}
	if (o->needs_command && !json_object_get(rq, "command"))
		return err_set(e, ERR_INVALID, "no \"command\" given");
	return 0;
}

static int dispatch(struct stdio *st, json_t *id, json_t *rq, int long_line, struct err *e)
{
	const struct operation *o = operations;
	const char *op = NULL;

	if (json_get_str(rq, "op", &op, "request", e) < 0)
		return -1;
	if (!op)
		return err_set(e, ERR_INVALID, "no \"op\" given");
	while (o < operations + ARRAY_LEN(operations) && strcmp(op, o->op))
		o++;
	if (o == operations + ARRAY_LEN(operations))
		return err_set(e, ERR_INVALID, "unknown operation '%.40s'", op);
	if (check_members(o, rq, e) < 0)
		return -1;
	switch (o->by) {
	case BY_CHILD:
		return op_child(st, id, rq, op, e);
	case BY_FILE:
		return op_file(st, id, rq, op[0] == 'w', e);
	case BY_SEND:
		return op_send(st, id, rq, e);
	case BY_CANCEL:
		return op_cancel(st, id, rq, e);
	case BY_KEEPER:
		break;
	}
	if (strcmp(op, "ping") || json_object_get(rq, "sandbox"))
		return op_keeper(st, id, rq, op, long_line, e);
	reply(st, id, json_pack("{s:s,s:i}", "version", BERTH_VERSION, "protocol", 1));
	return 0;
}

static void handle_line(struct stdio *st, const char *line, size_t n)
{
	struct err e = { 0 };
	autojson json_t *rq = json_parse(line, n, LINE_MAX_BYTES, "request", &e);
	autojson json_t *id = rq ? json_incref(json_object_get(rq, "id")) : NULL;

	if (!id)
		id = json_null();
	if (rq && !json_is_object(rq))
		err_set(&e, ERR_INVALID, "a request is a JSON object");
	if (!rq || !json_is_object(rq) || dispatch(st, id, rq, n > WIRE_MAX / 2, &e) < 0)
		reply_error(st, id, &e);
}

static void take_lines(struct stdio *st)
{
	size_t start = 0;
	char *nl;

	while (st->in.len > st->in_scanned && (nl = memchr(st->in.data + st->in_scanned, '\n', st->in.len - st->in_scanned))) {
		size_t end = (size_t)(nl - st->in.data);

		if (end > start)
			handle_line(st, st->in.data + start, end - start);
		start = st->in_scanned = end + 1;
	}
	if (start) {
		memmove(st->in.data, st->in.data + start, st->in.len - start);
		st->in.len -= start;
	}
	st->in_scanned = st->in.len;
}

static void read_stdin(struct stdio *st)
{
	static const char too_long[] = "a line of more than 16 MiB";
	struct err e;
	ssize_t n;

	if (buf_reserve(&st->in, CHUNK, &e) < 0) {
		err_set(&e, ERR_LIMIT, "%s", too_long);
		reply_error(st, json_null(), &e);
		st->in_eof = 1;
		return;
	}
	n = read(STDIN_FILENO, st->in.data + st->in.len, CHUNK);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		st->in_eof = 1;
		if (st->in.len)
			handle_line(st, st->in.data, st->in.len);
		return;
	}
	st->in.len += (size_t)n;
	take_lines(st);
}

/* ---- the loop --------------------------------------------------------------------------------- */

enum watch_kind { W_STDIN, W_STDOUT, W_CONN, W_KEEPER, W_OUT, W_IN };

struct watches {
	struct pollfd p[2 + CONNECTIONS_MAX + 4 * REQUESTS_MAX];
	struct { enum watch_kind kind; int index, which; } w[2 + CONNECTIONS_MAX + 4 * REQUESTS_MAX];
	nfds_t n;
};

static void watch(struct watches *ws, int fd, short events, enum watch_kind kind, int index, int which)
{
	if (fd < 0)
		return;
	ws->p[ws->n] = (struct pollfd){ .fd = fd, .events = events };
	ws->w[ws->n].kind = kind;
	ws->w[ws->n].index = index;
	ws->w[ws->n++].which = which;
}

/* The number of requests under way. */
static int watch_all(struct stdio *st, struct watches *ws)
{
	int full = st->out.len - st->out_done > OUT_FULL, i, n = 0;

	ws->n = 0;
	watch(ws, st->out_fd, st->out.len > st->out_done ? POLLOUT : 0, W_STDOUT, 0, 0);
	if (!st->in_eof && !full)
		watch(ws, STDIN_FILENO, POLLIN, W_STDIN, 0, 0);
	for (i = 0; i < CONNECTIONS_MAX; i++)
		if (!st->conns[i].used)
			watch(ws, st->conns[i].fd, POLLIN, W_CONN, i, 0);
	for (i = 0; i < REQUESTS_MAX; i++) {
		struct request *r = &st->requests[i];

		if (r->kind == FREE)
			continue;
		n++;
		if (r->conn >= 0)
			watch(ws, st->conns[r->conn].fd, POLLIN, W_KEEPER, i, 0);
		if (!full) {
			watch(ws, r->out[0], POLLIN, W_OUT, i, 0);
			watch(ws, r->out[1], POLLIN, W_OUT, i, 1);
		}
		if (r->input_done < r->input.len)
			watch(ws, r->in, POLLOUT, W_IN, i, 0);
	}
	return n;
}

static void serve(struct stdio *st, const struct watches *ws, nfds_t i)
{
	int index = ws->w[i].index;
	struct request *r = &st->requests[index < REQUESTS_MAX ? index : 0];

	switch (ws->w[i].kind) {
	case W_STDIN:
		read_stdin(st);
		break;
	case W_STDOUT:
		st->lost |= !!(ws->p[i].revents & (POLLERR | POLLNVAL));
		flush_out(st);
		break;
	case W_CONN:
		if (!st->conns[index].used && st->conns[index].fd == ws->p[i].fd)
			drop_conn(st, index);	/* a keeper says nothing unasked: it has ended */
		break;
	case W_KEEPER:
		if (r->kind != FREE && r->conn >= 0 && st->conns[r->conn].fd == ws->p[i].fd)
			read_keeper(st, r);
		break;
	case W_OUT:
		if (r->kind == FREE || r->out[ws->w[i].which] != ws->p[i].fd)
			break;
		read_pipe(st, r, ws->w[i].which);
		if (r->kind == CHILD && r->out[0] < 0 && r->out[1] < 0)
			end_child(st, r);
		break;
	case W_IN:
		if (r->kind == EXEC && r->in == ws->p[i].fd)
			write_input(r);
		break;
	}
}

static int loop(struct stdio *st, struct err *e)
{
	autofree struct watches *ws = calloc(1, sizeof(*ws));
	nfds_t i, n;

	if (!ws)
		return err_nomem(e);
	mem_keep_small();
	while (!st->lost) {
		if (!watch_all(st, ws) && st->in_eof && st->out_done == st->out.len)
			return 0;
		if (poll(ws->p, ws->n, -1) < 0) {
			if (errno == EINTR)
				continue;
			return err_sys(e, "wait for requests");
		}
		/* new requests last: they may take the slot or the descriptor of one that ends now */
		for (i = 0, n = ws->n; i < n; i++)
			if (ws->p[i].revents && ws->w[i].kind != W_STDIN)
				serve(st, ws, i);
		for (i = 0; i < n; i++)
			if (ws->p[i].revents && ws->w[i].kind == W_STDIN)
				serve(st, ws, i);
	}
	return err_set(e, ERR_SYS, "nobody reads the answers any more");
}

static void set_up_stdout(struct stdio *st)
{
	struct stat s;

	st->out_fd = STDOUT_FILENO;
	if (fstat(STDOUT_FILENO, &s) < 0)
		return;
	st->out_is_socket = S_ISSOCK(s.st_mode);
	/* a description of our own: O_NONBLOCK on the inherited one would be everybody's */
	if (S_ISFIFO(s.st_mode)) {
		int fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);

		st->out_fd = fd < 0 ? STDOUT_FILENO : fd;
	}
}

static int no_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)ctx;
	(void)id;
	(void)value;
	(void)e;
	return 0;
}

static int stdio_main(const struct command *self, int argc, char **argv)
{
	struct stdio *st = calloc(1, sizeof(*st));
	struct err e = { 0 };
	int rest, help = 0, r, i;

	if (!st) {
		err_nomem(&e);
		return command_fail(self, &e, 1);
	}
	for (i = 0; i < CONNECTIONS_MAX; i++)
		st->conns[i].fd = -1;
	st->in = BUF_INIT(LINE_MAX_BYTES + CHUNK);
	st->out = BUF_INIT(OUT_MAX);
	sandbox_ref_init(&st->ref);
	r = command_options(self, argc, argv, no_option, NULL, &rest, &help, &e);
	if (r == 0 && !help) {
		signal(SIGPIPE, SIG_IGN);
		set_up_stdout(st);
		if (rest < argc)
			r = err_set(&e, ERR_USAGE, "unexpected argument '%.80s'", argv[rest]);
		if (r == 0)
			r = sandbox_ref_registry(&st->ref, &e);
		if (r == 0)
			r = loop(st, &e);
	}
	for (i = 0; i < REQUESTS_MAX; i++)
		if (st->requests[i].kind != FREE)
			end_request(st, &st->requests[i], 0);
	for (i = 0; i < CONNECTIONS_MAX; i++)
		drop_conn(st, i);
	sandbox_ref_close(&st->ref);
	buf_release(&st->in);
	buf_release(&st->out);
	if (st->out_fd > STDERR_FILENO)
		close(st->out_fd);
	free(st);
	return r < 0 ? command_fail(self, &e, 1) : 0;
}

const struct command cmd_stdio = {
	.name = "stdio",
	.args = "",
	.summary = "serve requests, JSON lines on stdin and stdout, for programs",
	.detail = "{\"id\":1,\"op\":\"create\",\"image\":\"host\"}, then {\"id\":2,\"op\":\"sh\",\"sandbox\":ID,\"text\":\"ls\"}.  Answers\n"
		  "carry the id; several requests may be under way.  At the end of input it finishes them and exits.",
	.run = stdio_main,
};
