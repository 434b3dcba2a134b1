/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stdio/stdio.h"

#include <signal.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/ops/optvalues.h"

/*
 * Members that the keeper takes in another form than we do: bytes of text by a descriptor, a
 * signal by its number.
 */
static int translate(json_t *rq, int *ret_text, struct err *e)
{
	autobuf struct buf b = BUF_INIT(STDIO_LINE_MAX);
	const char *signal_name = json_string_value(json_object_get(rq, "signal"));
	uint64_t signo;

	if (signal_name) {
		if (signal_number(signal_name, &signo, e) < 0)
			return -1;
		json_object_set_new(rq, "signal", json_integer((json_int_t)signo));
	}
	if (!json_object_get(rq, "text_hex") && !json_object_get(rq, "text_base64"))
		return 0;
	if (json_get_bytes(rq, "text", &b, "request", e) < 0 || (*ret_text = wire_data(b.data ? b.data : "", b.len, e)) < 0)
		return -1;
	json_object_del(rq, "text");
	json_object_del(rq, "text_hex");
	json_object_del(rq, "text_base64");
	return 0;
}

static int op_keeper(struct stdio *st, json_t *id, json_t *rq, const char *op, struct err *e)
{
	autoclose int text = -1;
	int streams = !strcmp(op, "exec") && !json_is_true(json_object_get(rq, "detach"));
	const char *session = json_string_value(json_object_get(rq, "session"));
	struct stdio_request *r;
	int result;

	if (streams && json_is_true(json_object_get(rq, "tty")))
		return err_set(e, ERR_INVALID, "\"tty\" goes with \"detach\" only; hint: sh, whose sessions have a terminal");
	r = translate(rq, &text, e) < 0 ? NULL : request_new(st, streams ? EXEC : CALL, id, e);
	if (!r)
		return -1;
	if (request_open(st, r, rq, e) < 0) {
		request_end(st, r, 1);
		return -1;
	}
	if (!strncmp(op, "sh", 2))
		snprintf(r->session, sizeof(r->session), "%s", session ? session : "main");
	json_object_del(rq, "id");
	json_object_del(rq, "sandbox");
	request_set_inline(rq, 1);
	result = r->kind == EXEC ? exec_start(st, r, rq, e) :
				   conn_send(st, r, rq, &text, text >= 0, e);
	if (result < 0)
		request_end(st, r, 0);
	return result;
}

/*
 * By its own connection, so that this text ends, or leaves the queue, and not the one that runs
 * before it.
 */
static int cancel_text(struct stdio *st, json_t *id, const struct stdio_request *r, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_sh_cancel);

	request_set_session(rq, r->session);
	request_set_own(rq, 1);
	if (conn_send(st, r, rq, NULL, 0, e) < 0)
		return -1;
	answer_send(st, id, json_pack("{s:b}", "cancelled", 1));
	return 0;
}

static int op_cancel(struct stdio *st, json_t *id, const json_t *rq, struct err *e)
{
	struct stdio_request *r = request_find(st, rq, e);

	if (!r)
		return -1;
	r->cancelled = 1;
	if (r->is_fork)
		forkrun_cancel(st, r);
	if (r->kind == EXEC && r->command[0])
		return exec_kill(st, id, r, e);
	if (r->kind == CALL && r->session[0])
		return cancel_text(st, id, r, e);
	if (r->kind == CHILD)
		kill(r->pid, SIGTERM);
	if (r->whole)
		request_fail(st, r, &(struct err){ .code = ERR_BUSY, .msg = "the write was cancelled" }, 1);
	if (r->kind == CALL)
		return err_set(e, ERR_INVALID, "this request cannot be cancelled");
	answer_send(st, id, json_pack("{s:b}", "cancelled", 1));
	return 0;
}

static int send_to_request(struct stdio *st, json_t *id, const json_t *rq, const struct buf *data, struct err *e)
{
	struct stdio_request *r = request_find(st, rq, e);

	if (!r)
		return -1;
	if (r->whole) {
		/* its own answer tells what becomes of it */
		if (fileop_more(st, r, data, json_is_true(json_object_get(rq, "eof")), e) < 0)
			request_fail(st, r, e, 1);
		answer_send(st, id, json_pack("{s:I}", "sent", (json_int_t)data->len));
		return 0;
	}
	if (r->kind != EXEC || r->in < 0 || !r->in_open)
		return err_set(e, ERR_INVALID, "the request's stdin is closed; hint: \"stdin_open\":true");
	if (data->len && buf_add(&r->input, data->data, data->len, e) < 0)
		return -1;
	if (json_is_true(json_object_get(rq, "eof")))
		r->in_open = 0;
	pipes_input(r);
	answer_send(st, id, json_pack("{s:I}", "sent", (json_int_t)data->len));
	return 0;
}

static int op_send(struct stdio *st, json_t *id, json_t *rq, struct err *e)
{
	autobuf struct buf data = BUF_INIT(STDIO_LINE_MAX);
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
	to_keeper = protocol_request(OP_send);
	json_object_set(to_keeper, "command", json_object_get(rq, "command"));
	json_object_set(to_keeper, "session", json_object_get(rq, "session"));
	json_object_set(to_keeper, "eof", json_object_get(rq, "eof"));
	return request_call(st, id, sandbox, to_keeper, &fd, fd >= 0 ? 1 : 0, e);
}

/* ---- the table ------------------------------------------------------------------------------ */

enum performer { BY_KEEPER, BY_CHILD, BY_FILE, BY_SEND, BY_CANCEL, BY_ZYGOTE };

/*
 * The members of each besides id, op and encoding; any other is refused, because it would have
 * no effect. After the colon is the type: s string, S strings, n whole number, b boolean, o
 * object, g name or number of a signal, x anything, d bytes: also under the name with _hex or
 * _base64.
 */
static const struct operation {
	const char *op;
	enum performer by;
	const char *needs;	/* a member that must be there */
	const char *members;
	struct stdio_call as;	/* BY_CHILD */
} operations[] = {
	{ "exec", BY_KEEPER, NULL, "sandbox:s argv:S env:S user:s workdir:s timeout_ms:n grace_ms:n memory_bytes:n cpu_milli:n pids:n ulimits:S "
	  "max_silent_ms:n stdin:d stdin_open:b detach:b name:s tty:b rows:n cols:n checkpoint:b" },
	{ "run", BY_ZYGOTE, "zygote", "zygote:s code:d args:S env:S workdir:s timeout_ms:n "
	  "stdin:d stdin_open:b" },
	{ "sh", BY_KEEPER, NULL, "sandbox:s text:d session:s timeout_ms:n on_timeout:s split:b queue_ms:n no_wait:b "
	  "max_silent_ms:n checkpoint:b" },
	{ "sh-wait", BY_KEEPER, NULL, "sandbox:s session:s timeout_ms:n on_timeout:s" },
	{ "sh-cancel", BY_KEEPER, NULL, "sandbox:s session:s" },
	{ "sessions", BY_KEEPER, NULL, "sandbox:s" },
	{ "session-close", BY_KEEPER, NULL, "sandbox:s session:s" },
	{ "signal", BY_KEEPER, NULL, "sandbox:s command:s session:s signal:g all:b" },
	{ "commands", BY_KEEPER, NULL, "sandbox:s" },
	{ "output", BY_KEEPER, "command", "sandbox:s command:s from:n stream:s max:n" },
	{ "follow", BY_KEEPER, "command", "sandbox:s command:s from:n stderr_from:n stream:s" },
	{ "wait", BY_KEEPER, "command", "sandbox:s command:s" },
	{ "forget", BY_KEEPER, "command", "sandbox:s command:s" },
	{ "stats", BY_KEEPER, NULL, "sandbox:s" },
	{ "pause", BY_KEEPER, NULL, "sandbox:s" },
	{ "resume", BY_KEEPER, NULL, "sandbox:s" },
	{ "ping", BY_KEEPER, NULL, "sandbox:s" },
	{ "send", BY_SEND, NULL, "sandbox:s request:x command:s session:s data:d eof:b" },
	{ "cancel", BY_CANCEL, "request", "request:x" },
	{ "read", BY_FILE, "path", "sandbox:s path:s max:n user:s" },
	{ "write", BY_FILE, "path", "sandbox:s path:s data:d stdin_open:b append:b parents:b mode:s user:s" },
	{ "ls", BY_FILE, NULL, "sandbox:s path:s user:s" },
	{ "stat", BY_FILE, "path", "sandbox:s path:s follow:b user:s" },
	{ "mkdir", BY_FILE, "paths", "sandbox:s paths:S parents:b mode:s user:s" },
	{ "rm", BY_FILE, "paths", "sandbox:s paths:S recursive:b force:b user:s" },
	{ "mv", BY_FILE, "from", "sandbox:s from:s to:s user:s" },
	{ "code", BY_CHILD, "sandbox", "sandbox:s code:d lang:s env:S user:s timeout_ms:n "
	  "max_silent_ms:n keep:b", { "code", "sandbox" } },
	{ "copy", BY_CHILD, NULL, "from:s to:s parents:b", { "cp", "from to" } },
	{ "checkpoint", BY_CHILD, "sandbox", "sandbox:s name:s keep:n", { "checkpoint", "sandbox" } },
	{ "checkpoints", BY_CHILD, "sandbox", "sandbox:s", { "checkpoints", "sandbox" } },
	{ "checkpoint-rm", BY_CHILD, "checkpoints", "sandbox:s checkpoints:S", { "checkpoint rm", "sandbox checkpoints" } },
	{ "checkpoint-export", BY_CHILD, "file", "sandbox:s checkpoint:s file:s", { "checkpoint export", "sandbox@", "file=output" } },
	{ "checkpoint-import", BY_CHILD, "file", "file:s name:s trust:b drop:b no_start:b", { "checkpoint import", "file" } },
	{ "diff", BY_CHILD, "sandbox", "sandbox:s from:s to:s patch:b", { "diff", "sandbox" } },
	{ "undo", BY_CHILD, "sandbox", "sandbox:s steps:n to:s", { "undo", "sandbox" } },
	{ "fork", BY_CHILD, "sandbox", "sandbox:s checkpoint:s count:n name:s options:o", { "fork", "sandbox@" } },
	{ "zygote-create", BY_CHILD, "image", "image:s options:o args:S", { "zygote create", "image" } },
	{ "zygotes", BY_CHILD, NULL, "", { "zygote ls", "" } },
	{ "zygote-inspect", BY_CHILD, "zygote", "zygote:s", { "zygote inspect", "zygote" } },
	{ "zygote-rm", BY_CHILD, "zygote", "zygote:s", { "zygote rm", "zygote" } },
	{ "create", BY_CHILD, NULL, "image:s options:o args:S", { "create", "image" } },
	{ "start", BY_CHILD, NULL, "sandbox:s options:o args:S", { "start", "sandbox" } },
	{ "stop", BY_CHILD, NULL, "sandbox:s options:o args:S", { "stop", "sandbox" } },
	{ "restart", BY_CHILD, NULL, "sandbox:s options:o args:S", { "restart", "sandbox" } },
	{ "kill", BY_CHILD, NULL, "sandbox:s options:o args:S", { "kill", "sandbox" } },
	{ "rm", BY_CHILD, NULL, "sandbox:s options:o args:S", { "rm", "sandbox" } },
	{ "ps", BY_CHILD, NULL, "sandbox:s options:o args:S", { "ps", "sandbox" } },
	{ "ready", BY_CHILD, "sandbox", "sandbox:s options:o", { "wait", "sandbox" } },
	{ "inspect", BY_CHILD, NULL, "sandbox:s options:o args:S", { "inspect", "sandbox" } },
	{ "berth", BY_CHILD, NULL, "args:S" },
};

/* "rm" is of files where "paths" are named, else of the sandbox. */
static const struct operation *find_operation(const char *op, const json_t *rq)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(operations); i++)
		if (!strcmp(operations[i].op, op) && (strcmp(op, "rm") || operations[i].by != BY_FILE || json_object_get(rq, "paths")))
			return &operations[i];
	return NULL;
}

/* name is want, or for bytes one of the three names that they may have. */
static int is_member_named(const char *name, const char *want, size_t n, char type)
{
	const char *end = name + n;

	return !strncmp(name, want, n) && (!*end || (type == 'd' && (!strcmp(end, "_hex") || !strcmp(end, "_base64"))));
}

/* The type of o's member of that name, 0 without one. */
static char operation_member_type(const struct operation *o, const char *name)
{
	const char *m;
	size_t n;

	for (m = o->members; *m; m += n + 2 + (m[n + 2] == ' ')) {
		n = strcspn(m, ":");
		if (is_member_named(name, m, n, m[n + 1]))
			return m[n + 1];
	}
	return 0;
}

/* NULL, or what v should have been. */
static const char *member_type_wanted(char type, const json_t *v)
{
	json_t *one;
	size_t i;

	switch (type) {
	case 's':
		return json_is_string(v) ? NULL : "a string";
	case 'n':
		return json_is_integer(v) && json_integer_value(v) >= 0 ? NULL : "a whole number";
	case 'b':
		return json_is_boolean(v) ? NULL : "true or false";
	case 'o':
		return json_is_object(v) ? NULL : "an object";
	case 'g':
		return json_is_string(v) || (json_is_integer(v) && json_integer_value(v) >= 0) ? NULL : "the name or number of a signal";
	case 'S':
		json_array_foreach(v, i, one)
			if (!json_is_string(one))
				return "an array of strings";
		return json_is_array(v) ? NULL : "an array of strings";
	case 'd':
		return json_is_string(v) ? NULL : "a string";
	default:
		return NULL;
	}
}

static int check_stdio_members(const struct operation *o, json_t *rq, struct err *e)
{
	const char *name, *want;
	json_t *value;

	json_object_foreach(rq, name, value) {
		char type = !strcmp(name, "id") || !strcmp(name, "op") || !strcmp(name, "encoding") ? 'x' : operation_member_type(o, name);

		if (!type)
			return err_set(e, ERR_INVALID, "unknown member \"%.40s\" of %s", name, o->op);
		want = json_is_null(value) ? NULL : member_type_wanted(type, value);
		if (want)
			return err_set(e, ERR_INVALID, "\"%s\" of %s is not %s", name, o->op, want);
	}
	if (o->needs && json_is_null(json_object_get(rq, o->needs) ? json_object_get(rq, o->needs) : json_null()))
		return err_set(e, ERR_INVALID, "no \"%s\" given", o->needs);
	return 0;
}

/* How bytes that are not text are answered. */
static int take_encoding(struct stdio *st, json_t *rq, struct err *e)
{
	const json_t *v = json_object_get(rq, "encoding");

	st->base64 = json_is_string(v) && !strcmp(json_string_value(v), "base64");
	if (v && !json_is_null(v) && !st->base64 && !(json_is_string(v) && !strcmp(json_string_value(v), "hex")))
		return err_set(e, ERR_INVALID, "\"encoding\" is neither \"hex\" nor \"base64\"");
	return v ? json_object_del(rq, "encoding") : 0;
}

int operations_begin(struct stdio *st, json_t *id, json_t *rq, struct err *e)
{
	const char *op = json_string_value(json_object_get(rq, "op"));
	const struct operation *o;

	if (!op)
		return err_set(e, ERR_INVALID, json_object_get(rq, "op") ? "\"op\" is not a string" : "no \"op\" given");
	o = find_operation(op, rq);
	if (!o)
		return err_set(e, ERR_INVALID, "unknown operation '%.40s'", op);
	if (check_stdio_members(o, rq, e) < 0 || take_encoding(st, rq, e) < 0)
		return -1;
	switch (o->by) {
	case BY_CHILD:
		return child_start(st, id, rq, o->op, &o->as, e);
	case BY_FILE:
		return fileop_start(st, id, rq, o->op, e);
	case BY_SEND:
		return op_send(st, id, rq, e);
	case BY_CANCEL:
		return op_cancel(st, id, rq, e);
	case BY_ZYGOTE:
		return forkrun_start(st, id, rq, e);
	case BY_KEEPER:
		break;
	}
	if (strcmp(op, "ping") || json_object_get(rq, "sandbox"))
		return op_keeper(st, id, rq, o->op, e);
	answer_send(st, id, json_pack("{s:s,s:i}", "version", BERTH_VERSION, "protocol", 1));
	return 0;
}
