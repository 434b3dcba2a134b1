/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stdio/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "manager/keeper/wire.h"
#include "manager/ops/call.h"

/* The member named by n bytes as operands: a string, or an array of them. */
static int add_operand(json_t *call, const json_t *rq, const char *name, size_t n, struct err *e)
{
	autofree char *own = strndup(name, n);
	const int with_checkpoint = n && name[n - 1] == '@';
	const json_t *v;

	if (!own)
		return err_nomem(e);
	own[n - (size_t)with_checkpoint] = '\0';
	v = json_object_get(rq, own);
	if (json_is_array(v))
		call_operands(call, v);
	else if (with_checkpoint && v)
		call_sandbox(call, json_string_value(v), json_string_value(json_object_get(rq, "checkpoint")));
	else if (v && !json_is_null(v))
		call_operand(call, json_string_value(v));
	return 0;
}

static int is_operand(const struct stdio_call *s, const char *member)
{
	const size_t n = strlen(member);
	const char *at = s->operands;

	for (; (at = strstr(at, member)); at += n)
		if ((at == s->operands || at[-1] == ' ') && strchr(" @", at[n]))
			return 1;
	return !strcmp(member, "checkpoint") && strchr(s->operands, '@');
}

/* A member that is an option: NAME_ms is a time, and an underscore a hyphen. */
static void add_stdio_call_option(json_t *call, const struct stdio_call *s, const char *member, json_t *value)
{
	const size_t n = strlen(member);
	char name[64], *c;

	if (s->rename && !strncmp(s->rename, member, n) && s->rename[n] == '=') {
		call_set(call, s->rename + n + 1, json_incref(value));
		return;
	}
	snprintf(name, sizeof(name), "%s", member);
	for (c = name; *c; c++)
		if (*c == '_')
			*c = '-';
	if (n > 3 && n < sizeof(name) && !strcmp(member + n - 3, "_ms") && json_is_integer(value)) {
		name[n - 3] = '\0';
		/* the option of that name counts output, too */
		call_set(call, !strcmp(name, "max-silent") ? "max-silent-time" : name,
			 json_sprintf("%" JSON_INTEGER_FORMAT "ms", json_integer_value(value)));
		return;
	}
	call_set(call, name, json_incref(value));
}

static int check_given(const struct stdio_call *s, const char *op, const json_t *rq, struct err *e)
{
	const char *file = json_string_value(json_object_get(rq, "file"));

	/* with another operand after it, a sandbox that is missing would make that the sandbox */
	if (!strncmp(s->operands, "sandbox", 7) && s->operands[7] && !json_object_get(rq, "sandbox"))
		return err_set(e, ERR_INVALID, "no \"sandbox\" given");
	if (!strcmp(op, "checkpoint-export") && !json_object_get(rq, "checkpoint"))
		return err_set(e, ERR_INVALID, "no \"checkpoint\" given");
	if (!strcmp(op, "copy") && (!json_object_get(rq, "from") || !json_object_get(rq, "to")))
		return err_set(e, ERR_INVALID, "\"from\" and \"to\" are wanted, one of them SANDBOX:PATH");
	/* our stdin is the requests, and our stdout the answers */
	return file && !strcmp(file, "-") ? err_set(e, ERR_INVALID, "\"file\" is no path") : 0;
}

/* The call of an operation: a new reference. */
static json_t *make_stdio_call(const struct stdio_call *s, const char *op, const json_t *rq, struct err *e)
{
	const char *at, *member;
	json_t *call, *value;
	size_t n;

	if (check_given(s, op, rq, e) < 0)
		return NULL;
	call = call_of(s->command, NULL);
	json_object_foreach((json_t *)(uintptr_t)rq, member, value) {
		if (!strcmp(member, "id") || !strcmp(member, "op") || !strcmp(member, "args") ||
		    !strncmp(member, "code", 4) || is_operand(s, member))
			continue;
		if (!strcmp(member, "options"))
			call_options(call, value);
		else
			add_stdio_call_option(call, s, member, value);
	}
	for (at = s->operands; *at; at += n + (at[n] == ' ')) {
		n = strcspn(at, " ");
		if (add_operand(call, rq, at, n, e) < 0) {
			json_decref(call);
			return NULL;
		}
	}
	call_operands(call, json_object_get(rq, "args"));
	return call;
}

static int is_of_zygotes(const char *op)
{
	return !strncmp(op, "zygote", 6);
}

/* The snippet of code in a file of its own; -1 with e, or without one for other operations. */
static int code_text(const char *op, const json_t *rq, int *ret_fd, struct err *e)
{
	autobuf struct buf text = BUF_INIT(STDIO_LINE_MAX);
	int r;

	if (strcmp(op, "code"))
		return 0;
	r = json_get_bytes(rq, "code", &text, "request", e);
	if (r <= 0)
		return r < 0 ? -1 : err_set(e, ERR_INVALID, "no \"code\" given");
	*ret_fd = wire_data(text.data ? text.data : "", text.len, e);
	return *ret_fd < 0 ? -1 : 0;
}

/* {"op":"berth","args":[WORD...]}: a command line of the client's own. */
static json_t *own_call(const json_t *rq)
{
	json_t *call = json_pack("{s:s,s:O}", "command", "", "words", json_object_get(rq, "args"));

	return call;
}

int child_start(struct stdio *st, json_t *id, const json_t *rq, const char *op, const struct stdio_call *as, struct err *e)
{
	json_t *call = as->command ? make_stdio_call(as, op, rq, e) : own_call(rq);
	struct stdio_request *r = call ? request_new(st, CHILD, id, e) : NULL;
	struct called child = CALLED_NONE;
	autoclose int in = -1;

	if (!r) {
		json_decref(call);
		return -1;
	}
	if (code_text(op, rq, &in, e) < 0) {
		json_decref(call);
	} else if (call_start("/proc/self/exe", NULL, call, in, &child, e) == 0) {
		r->op = op;
		r->pid = child.pid;
		r->out[0] = child.out;
		r->out[1] = child.err;
		return 0;
	}
	request_end(st, r, 0);
	return -1;
}

/*
 * Its object as the answer.  "id" is the request's there, so the sandbox's is "sandbox" and the
 * zygote's "zygote", and a record is kept whole, too.
 */
static json_t *object_answer(const struct stdio_request *r, json_t *object)
{
	const int zygote = is_of_zygotes(r->op), whole = strstr(r->op, "inspect") != NULL;
	json_t *id = json_object_get(object, "id"), *copy = whole ? json_deep_copy(object) : NULL;

	if (id)
		json_object_set(object, zygote ? "zygote" : "sandbox", id);
	if (copy && !json_object_get(object, "error"))
		json_object_set_new(object, "record", copy);
	else
		json_decref(copy);
	return object;
}

/*
 * What it said as JSON: all of stdout, or of stderr when it failed; or NULL.  Of the making of a
 * zygote it is the last line, and what the preload wrote stands before it: *ret_before bytes.
 */
static json_t *said(const struct stdio_request *r, int status, size_t *ret_before)
{
	const int failed = status != 0 && !r->text[0].len;
	const struct buf *text = &r->text[failed];
	struct err ignored;
	size_t at = failed && is_of_zygotes(r->op) ? text->len : 0;

	while (at && (at == text->len || text->data[at - 1] != '\n'))
		at--;
	*ret_before = at;
	if (!text->len)
		return NULL;
	return json_parse(text->data + at, text->len - at, text->len, "answer", &ignored);
}

/* Its stdout is the answer when it is JSON; its JSON error when it failed. */
void child_end(struct stdio *st, struct stdio_request *r)
{
	json_t *answer, *value;
	struct err ignored;
	int status = 0;
	size_t before;

	while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
		;
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	value = said(r, status, &before);
	if (json_is_object(value)) {
		answer = object_answer(r, value);
		if (before)
			json_set_bytes(answer, "stderr", r->text[1].data, before, &ignored);
	} else if (value) {
		answer = json_pack("{s:o}", "result", value);
	} else {
		answer = json_object();
		json_set_bytes(answer, "stdout", r->text[0].data, r->text[0].len, &ignored);
		json_set_bytes(answer, "stderr", r->text[1].data, r->text[1].len, &ignored);
	}
	json_object_set_new(answer, "exit_status", json_integer(status));
	answer_to(st, r, answer);
	request_end(st, r, 0);
}
