/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stdio/stdio.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/keeper/fileclient.h"
#include "manager/keeper/protocol.h"

#define FILE_MAX (64u << 20)
#define FILE_TIMEOUT_MS 300000

/* ---- the helper's words: VERB, then what runtime/fileop/main.c says of it ------------------ */

static int add_helper_word(json_t *argv, const char *word, struct err *e)
{
	return json_array_append_new(argv, json_string(word)) < 0 ? err_nomem(e) : 0;
}

/* The letters of those members that are true. */
static int add_flags(json_t *argv, const json_t *rq, const char *letters, const char *const *names, struct err *e)
{
	char flags[8] = "";
	size_t i;

	for (i = 0; letters[i]; i++)
		if (json_is_true(json_object_get(rq, names[i])))
			strncat(flags, &letters[i], 1);
	return add_helper_word(argv, flags, e);
}

static int add_member(json_t *argv, const json_t *rq, const char *name, const char *otherwise, struct err *e)
{
	const char *s = json_string_value(json_object_get(rq, name));

	if (!s && !otherwise)
		return err_set(e, ERR_INVALID, "no \"%s\" given", name);
	if (s && !s[0] && !otherwise)
		return err_set(e, ERR_INVALID, "\"%s\" is empty", name);
	return add_helper_word(argv, s ? s : otherwise, e);
}

static int add_helper_mode(json_t *argv, const json_t *rq, struct err *e)
{
	const char *mode = json_string_value(json_object_get(rq, "mode"));

	if (mode && (strspn(mode, "01234567") != strlen(mode) || strlen(mode) > 5))
		return err_set(e, ERR_INVALID, "\"mode\" is not octal, as a string; hint: \"644\"");
	return add_helper_word(argv, mode ? mode : "", e);
}

static int add_paths(json_t *argv, const json_t *rq, struct err *e)
{
	json_t *paths = json_object_get(rq, "paths"), *one;
	size_t i;

	if (!json_array_size(paths))
		return err_set(e, ERR_INVALID, json_is_array(paths) ? "\"paths\" is empty" : "no \"paths\" given");
	json_array_foreach(paths, i, one)
		if (add_helper_word(argv, json_string_value(one), e) < 0)
			return -1;
	return 0;
}

static int add_max(json_t *argv, const json_t *rq, struct err *e)
{
	uint64_t max = FILE_MAX;
	char text[24];

	if (json_get_u64(rq, "max", &max, "request", e) < 0)
		return -1;
	if (max > FILE_MAX)
		return err_set(e, ERR_INVALID, "\"max\" is more than 64 MiB; hint: copy");
	snprintf(text, sizeof(text), "%llu", (unsigned long long)max);
	return add_helper_word(argv, text, e);
}

static int read_words(json_t *argv, const json_t *rq, struct err *e)
{
	return add_max(argv, rq, e) < 0 || add_member(argv, rq, "path", NULL, e) < 0 ? -1 : 0;
}

static int write_words(json_t *argv, const json_t *rq, struct err *e)
{
	return add_flags(argv, rq, "ap", (const char *const[]){ "append", "parents" }, e) < 0 || add_helper_mode(argv, rq, e) < 0 ||
	       add_member(argv, rq, "path", NULL, e) < 0 ? -1 : 0;
}

static int ls_words(json_t *argv, const json_t *rq, struct err *e)
{
	return add_member(argv, rq, "path", ".", e);
}

static int stat_words(json_t *argv, const json_t *rq, struct err *e)
{
	return add_flags(argv, rq, "L", (const char *const[]){ "follow" }, e) < 0 || add_member(argv, rq, "path", NULL, e) < 0 ? -1 : 0;
}

static int mkdir_words(json_t *argv, const json_t *rq, struct err *e)
{
	return add_flags(argv, rq, "p", (const char *const[]){ "parents" }, e) < 0 || add_helper_mode(argv, rq, e) < 0 ||
	       add_paths(argv, rq, e) < 0 ? -1 : 0;
}

static int rm_words(json_t *argv, const json_t *rq, struct err *e)
{
	return add_flags(argv, rq, "rf", (const char *const[]){ "recursive", "force" }, e) < 0 || add_paths(argv, rq, e) < 0 ? -1 : 0;
}

static int mv_words(json_t *argv, const json_t *rq, struct err *e)
{
	return add_member(argv, rq, "from", NULL, e) < 0 || add_member(argv, rq, "to", NULL, e) < 0 ? -1 : 0;
}

/* ---- what it wrote ------------------------------------------------------------------------ */

static json_t *no_memory(struct err *e)
{
	err_nomem(e);
	return NULL;
}

static json_t *read_answer(const struct buf *text, const struct filecounts *n, struct err *e)
{
	json_t *answer = json_pack("{s:I}", "bytes", (json_int_t)text->len);

	(void)n;
	if (answer && json_set_bytes(answer, "data", text->len ? text->data : "", text->len, e) == 0)
		return answer;
	json_decref(answer);
	return answer ? NULL : no_memory(e);
}

static json_t *write_answer(const struct buf *text, const struct filecounts *n, struct err *e)
{
	(void)text;
	(void)e;
	return json_pack("{s:I}", "bytes", (json_int_t)n->bytes);
}

static int compare_entry_names(const void *a, const void *b)
{
	return strcmp(((const struct filerecord *)a)->name, ((const struct filerecord *)b)->name);
}

/* Of text, sorted; to be freed. */
static struct filerecord *read_records(const struct buf *text, size_t *ret_n, struct err *e)
{
	const char *at = text->data, *end = text->data + text->len;
	autofree struct filerecord *list = NULL;
	size_t n = 0, cap = 0;
	int r;

	for (;; n++) {
		if (n == cap) {
			struct filerecord *more = reallocarray(list, cap = cap ? 2 * cap : 64, sizeof(*list));

			if (!more)
				return (void *)no_memory(e);
			list = more;
		}
		r = text->len ? filerecord_next(&at, end, &list[n], e) : 0;
		if (r <= 0)
			break;
	}
	if (r < 0)
		return NULL;
	qsort(list, n, sizeof(*list), compare_entry_names);
	*ret_n = n;
	return take_ptr(&list);
}

static json_t *ls_answer(const struct buf *text, const struct filecounts *counts, struct err *e)
{
	size_t n = 0, i;
	autofree struct filerecord *list = read_records(text, &n, e);
	json_t *entries;

	(void)counts;
	if (!list)
		return NULL;
	entries = json_array();
	for (i = 0; i < n; i++)
		json_array_append_new(entries, filerecord_json(&list[i]));
	return json_pack("{s:o}", "entries", entries);
}

static json_t *stat_answer(const struct buf *text, const struct filecounts *counts, struct err *e)
{
	const char *at = text->data;
	struct filerecord r;

	(void)counts;
	if (text->len && filerecord_next(&at, text->data + text->len, &r, e) > 0)
		return filerecord_json(&r);
	err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
	return NULL;
}

static json_t *done_answer(const struct buf *text, const struct filecounts *counts, struct err *e)
{
	(void)text;
	(void)counts;
	(void)e;
	return json_pack("{s:b}", "done", 1);
}

/* ---- the operations ------------------------------------------------------------------------- */

static const struct file_verb {
	const char *op, *verb;
	int (*words)(json_t *argv, const json_t *rq, struct err *e);
	json_t *(*answer)(const struct buf *text, const struct filecounts *n, struct err *e);
} verbs[] = {
	{ "read", "read", read_words, read_answer }, { "write", "write", write_words, write_answer },
	{ "ls", "list", ls_words, ls_answer }, { "stat", "stat", stat_words, stat_answer }, { "mkdir", "mkdir", mkdir_words, done_answer },
	{ "rm", "rm", rm_words, done_answer }, { "mv", "mv", mv_words, done_answer },
};

static const struct file_verb *file_verb_of_op(const char *op)
{
	size_t i = 0;

	while (strcmp(verbs[i].op, op))
		i++;
	return &verbs[i];
}

static json_t *file_request(const struct file_verb *v, const json_t *rq, struct err *e)
{
	const char *user = json_string_value(json_object_get(rq, "user"));
	json_t *argv = json_pack("[s]", v->verb), *file;

	if (!argv || v->words(argv, rq, e) < 0) {
		json_decref(argv);
		return argv ? NULL : no_memory(e);
	}
	file = protocol_request(OP_file);
	request_set_user(file, user ? user : "");
	request_set_timeout_ms(file, FILE_TIMEOUT_MS);
	request_set_argv(file, argv);
	return file;
}

int fileop_start(struct stdio *st, json_t *id, json_t *rq, const char *op, struct err *e)
{
	const struct file_verb *v = file_verb_of_op(op);
	autojson json_t *to_keeper = file_request(v, rq, e);
	struct stdio_request *r = to_keeper ? request_new(st, EXEC, id, e) : NULL;
	int result = -1;

	if (!r)
		return -1;
	r->file = 1;
	r->op = v->op;
	if (json_get_bytes(rq, "data", &r->input, "request", e) >= 0 && request_open(st, r, rq, e) == 0) {
		if (json_is_true(json_object_get(rq, "stdin_open"))) {
			r->whole = json_incref(to_keeper);
			return 0;
		}
		result = exec_start(st, r, to_keeper, e);
	}
	if (result < 0)
		request_end(st, r, 0);
	return result;
}

int fileop_more(struct stdio *st, struct stdio_request *r, const struct buf *data, int eof, struct err *e)
{
	autojson json_t *to_keeper = NULL;

	if (data->len && buf_add(&r->input, data->data, data->len, e) < 0)
		return err_hint(e, "copy");
	if (!eof)
		return 0;
	/* only now: a helper that sees an early end of its input takes it for the end of the file */
	to_keeper = r->whole;
	r->whole = NULL;
	return exec_start(st, r, to_keeper, e);
}

/* Its one line on stderr reports the result. */
void fileop_end(struct stdio *st, struct stdio_request *r, const json_t *verdict)
{
	const struct buf *said = &r->text[1];
	struct filecounts n = { 0 };
	struct err e = { 0 };
	json_t *answer = NULL;
	char line[600];

	snprintf(line, sizeof(line), "%.*s", (int)(said->len < 590 ? said->len : 590), said->len ? said->data : "");
	if (fileclient_judge(verdict, line, &n, &e) == 0)
		answer = file_verb_of_op(r->op)->answer(&r->text[0], &n, &e);
	if (!answer) {
		request_fail(st, r, &e, 1);
		return;
	}
	answer_to(st, r, answer);
	request_end(st, r, 1);
}
