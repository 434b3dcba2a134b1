/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stdio/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "manager/keeper/wire.h"

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
			return err_set(e, ERR_INVALID, "an argument is not a string");
		if (add_word(w, s, e) < 0)
			return -1;
	}
	return 0;
}

static int copy_words(struct words *w, const json_t *rq, struct err *e)
{
	const char *from = json_string_value(json_object_get(rq, "from")), *to = json_string_value(json_object_get(rq, "to"));

	if (!from || !to)
		return err_set(e, ERR_INVALID, "\"from\" and \"to\" are wanted, one of them SANDBOX:PATH");
	if (json_is_true(json_object_get(rq, "parents")) && add_word(w, "--parents", e) < 0)
		return -1;
	return add_word(w, "--", e) < 0 || add_word(w, from, e) < 0 || add_word(w, to, e) < 0 ? -1 : 0;
}

/* --OPTION=TIME of a member in milliseconds, if it is there. */
static int add_ms(struct words *w, const json_t *rq, const char *member, const char *option,
		  struct err *e)
{
	uint64_t ms;
	char text[80];
	int r = json_get_u64(rq, member, &ms, "request", e);

	if (r <= 0)
		return r;
	snprintf(text, sizeof(text), "--%s=%llums", option, (unsigned long long)ms);
	return add_word(w, text, e);
}

static int code_words(struct words *w, const json_t *rq, struct err *e)
{
	static const char *const names[] = { "lang", "user", "keep", "env" };
	const char *sandbox = json_string_value(json_object_get(rq, "sandbox"));
	size_t i;

	if (!sandbox)
		return err_set(e, ERR_INVALID, "no \"sandbox\" given");
	for (i = 0; i < ARRAY_LEN(names); i++)
		if (json_object_get(rq, names[i]) && add_option(w, names[i], json_object_get(rq, names[i]), e) < 0)
			return -1;
	if (add_ms(w, rq, "timeout_ms", "timeout", e) < 0 ||
	    add_ms(w, rq, "max_silent_ms", "max-silent-time", e) < 0)
		return -1;
	return add_word(w, "--", e) < 0 || add_word(w, sandbox, e) < 0 ? -1 : 0;
}

/* A checkpoint, and what goes back to one: the members are the options of the command. */
static int is_of_time(const char *op)
{
	return !strncmp(op, "checkpoint", 10) || !strcmp(op, "undo") || !strcmp(op, "fork") ||
	       !strcmp(op, "diff");
}

/* SANDBOX@CHECKPOINT of a fork, else SANDBOX. */
static int add_origin(struct words *w, const char *sandbox, const char *checkpoint, struct err *e)
{
	char text[160];

	if ((size_t)snprintf(text, sizeof(text), "%s%s%s", sandbox, checkpoint ? "@" : "",
			     checkpoint ? checkpoint : "") >= sizeof(text))
		return err_set(e, ERR_NOT_FOUND, "no sandbox or checkpoint has a name that long");
	return add_word(w, text, e);
}

/* Files are those of the caller, by their paths. */
static int file_words(struct words *w, const char *op, const json_t *rq, struct err *e)
{
	static const char *const names[] = { "name", "trust", "drop" };
	const char *sandbox = json_string_value(json_object_get(rq, "sandbox"));
	const char *checkpoint = json_string_value(json_object_get(rq, "checkpoint"));
	const json_t *file = json_object_get(rq, "file");
	const int exports = !strcmp(op, "checkpoint-export");
	size_t i;

	if (exports && (!sandbox || !checkpoint))
		return err_set(e, ERR_INVALID, "no \"%s\" given",
			       sandbox ? "checkpoint" : "sandbox");
	/* our stdin is the requests, and our stdout the answers */
	if (!strcmp(json_string_value(file), "-"))
		return err_set(e, ERR_INVALID, "\"file\" is no path");
	if (add_word(w, "checkpoint", e) < 0 || add_word(w, exports ? "export" : "import", e) < 0 ||
	    add_word(w, "--json", e) < 0 || (exports && add_option(w, "output", file, e) < 0))
		return -1;
	for (i = 0; i < ARRAY_LEN(names); i++)
		if (json_object_get(rq, names[i]) &&
		    add_option(w, names[i], json_object_get(rq, names[i]), e) < 0)
			return -1;
	if (json_is_true(json_object_get(rq, "no_start")) && add_word(w, "--no-start", e) < 0)
		return -1;
	if (add_word(w, "--", e) < 0)
		return -1;
	return exports ? add_origin(w, sandbox, checkpoint, e) :
			 add_word(w, json_string_value(file), e);
}

static int time_words(struct words *w, const char *op, const json_t *rq, struct err *e)
{
	static const char *const names[] = { "name", "keep", "steps", "from",
					     "to",   "patch", "count" };
	const int removes = !strcmp(op, "checkpoint-rm"), forks = !strcmp(op, "fork");
	const char *sandbox = json_string_value(json_object_get(rq, "sandbox"));
	const char *from = json_string_value(json_object_get(rq, "checkpoint")), *name;
	json_t *value;
	size_t i;

	if (!sandbox)
		return err_set(e, ERR_INVALID, "no \"sandbox\" given");
	if (add_word(w, removes ? "checkpoint" : op, e) < 0 ||
	    (removes && add_word(w, "rm", e) < 0) || add_word(w, "--json", e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(names); i++)
		if (json_object_get(rq, names[i]) &&
		    add_option(w, names[i], json_object_get(rq, names[i]), e) < 0)
			return -1;
	json_object_foreach(json_object_get(rq, "options"), name, value)
		if (add_option(w, name, value, e) < 0)
			return -1;
	if (add_word(w, "--", e) < 0 || add_origin(w, sandbox, forks ? from : NULL, e) < 0)
		return -1;
	return add_strings(w, json_object_get(rq, "checkpoints"), e);
}

static int is_of_zygotes(const char *op)
{
	return !strncmp(op, "zygote", 6);
}

/* The words of the command before its options: "zygotes" is its "ls", "zygote-rm" its "rm". */
static int zygote_verb(struct words *w, const char *op, struct err *e)
{
	const char *verb = op[6] == '-' ? op + 7 : "ls";

	return add_word(w, "zygote", e) < 0 || add_word(w, verb, e) < 0 ? -1 : 0;
}

/* "wait" is of a command here, by the keeper. */
static const char *command_of(const char *op)
{
	return !strcmp(op, "copy") ? "cp" : !strcmp(op, "ready") ? "wait" : op;
}

/* {"op":"create","image":...,"options":{...}}; for the others {"sandbox":...}; "args" are words after those. */
static int make_words(struct words *w, const char *op, const json_t *rq, struct err *e)
{
	const char *image = json_string_value(json_object_get(rq, "image"));
	const char *what = is_of_zygotes(op) ? "zygote" : "sandbox";
	const char *sandbox = json_string_value(json_object_get(rq, what));
	const char *name;
	json_t *value;

	if (add_word(w, "berth", e) < 0)
		return -1;
	if (!strcmp(op, "berth"))
		return add_strings(w, json_object_get(rq, "args"), e);
	if (!strcmp(op, "checkpoint-export") || !strcmp(op, "checkpoint-import"))
		return file_words(w, op, rq, e);
	if (is_of_time(op))
		return time_words(w, op, rq, e);
	if ((is_of_zygotes(op) ? zygote_verb(w, op, e) : add_word(w, command_of(op), e)) < 0 ||
	    add_word(w, "--json", e) < 0)
		return -1;
	if (!strcmp(op, "copy"))
		return copy_words(w, rq, e);
	if (!strcmp(op, "code"))
		return code_words(w, rq, e);
	json_object_foreach(json_object_get(rq, "options"), name, value)
		if (add_option(w, name, value, e) < 0)
			return -1;
	if (add_word(w, "--", e) < 0 || (image && add_word(w, image, e) < 0) || (sandbox && add_word(w, sandbox, e) < 0))
		return -1;
	return add_strings(w, json_object_get(rq, "args"), e);
}

/* in: its stdin, or -1 for none. */
static int spawn_berth(struct stdio_request *r, char **words, int in, const int theirs[2], struct err *e)
{
	posix_spawn_file_actions_t fa;
	int failed;

	posix_spawn_file_actions_init(&fa);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&fa, in, 0);
	else
		posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, theirs[0], 1);
	posix_spawn_file_actions_adddup2(&fa, theirs[1], 2);
	failed = posix_spawn(&r->pid, "/proc/self/exe", &fa, NULL, words, environ);
	posix_spawn_file_actions_destroy(&fa);
	return failed ? err_errno(e, failed, "start berth %s", words[1] ? words[1] : "") : 0;
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

int child_start(struct stdio *st, json_t *id, const json_t *rq, const char *op, struct err *e)
{
	struct words *w = calloc(1, sizeof(*w));
	struct stdio_request *r = w ? request_new(st, CHILD, id, e) : NULL;
	int theirs[2] = { -1, -1 }, result = -1;
	autoclose int in = -1;
	size_t i;

	if (r && make_words(w, op, rq, e) == 0 && code_text(op, rq, &in, e) == 0 && pipes_make(&r->out[0], &theirs[0], 1, e) == 0 &&
	    pipes_make(&r->out[1], &theirs[1], 1, e) == 0)
		result = spawn_berth(r, w->v, in, theirs, e);
	fd_close(&theirs[0]);
	fd_close(&theirs[1]);
	for (i = 0; w && i < w->n; i++)
		free(w->v[i]);
	if (!w)
		err_nomem(e);
	free(w);
	if (r && result < 0)
		request_end(st, r, 0);
	else if (r)
		r->op = op;
	return result;
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
