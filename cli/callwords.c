/* SPDX-License-Identifier: Apache-2.0 */
/* berth op: carries out a call (manager/ops/call.h) that its parent has written to a descriptor. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "manager/ops/call.h"
#include "manager/ops/params.h"

#define WORDS_MAX 300000	/* arguments (runopts_push()) and options */

struct words {
	char **v;
	size_t n;
};

/* word is of the heap, and consumed; NULL: out of memory. */
static int push_call_word(struct words *w, char *word, struct err *e)
{
	/* the array doubles at each power of two */
	if (word && !(w->n & (w->n - 1))) {
		char **v = realloc(w->v, (w->n ? w->n * 2 : 1) * sizeof(*v));

		if (!v) {
			free(word);
			return err_nomem(e);
		}
		w->v = v;
	}
	if (!word)
		return err_nomem(e);
	if (w->n >= WORDS_MAX) {
		free(word);
		return err_set(e, ERR_LIMIT, "more than %d words", WORDS_MAX);
	}
	w->v[w->n++] = word;
	return 0;
}

static int push_option(struct words *w, const char *name, const char *value, struct err *e)
{
	char *word = NULL;

	if ((value ? asprintf(&word, "--%s=%s", name, value) : asprintf(&word, "--%s", name)) < 0)
		word = NULL;
	return push_call_word(w, word, e);
}

static const struct opt *option_named(const struct command *c, const char *name)
{
	const struct opt *o;

	COMMAND_EACH_OPTION(c, o)
		if (!strcmp(o->name, name))
			return o;
	return NULL;
}

/* The row that says what values the option has: of a sandbox's own; else text or numbers, as its command reads them. */
static const struct param *param_of_call_option(const struct opt *o, struct param *own)
{
	const struct param *p = o && o->id < PARAM_END ? param_of(o->id) : NULL;

	if (p && &p->opt == o)
		return p;
	own->type = PARAM_LIST;
	return own;
}

/* o NULL: an option of a program that reads its own words. */
static int push_value(struct words *w, const struct opt *o, const char *name, const json_t *value, struct err *e)
{
	struct param own = { .opt = { .name = name } };
	autofree char *text = NULL;

	if (o ? o->kind == OPT_FLAG : json_is_true(value))
		return json_is_true(value) ? push_option(w, name, NULL, e) :
					     err_set(e, ERR_INVALID, "option %s is not true or false", name);
	text = param_text(param_of_call_option(o, &own), value, e);
	return text ? push_option(w, name, text, e) : -1;
}

static int push_json(struct words *w, const struct opt *o, const char *name, const json_t *value, struct err *e)
{
	struct param own = { .opt = { .name = name } };
	const struct param *p = param_of_call_option(o, &own);
	autojson json_t *pairs = NULL;
	const json_t *one;
	size_t i;

	if (json_is_null(value) || json_is_false(value))
		return 0;
	if (json_is_object(value) && p->type == PARAM_PAIRS) {
		pairs = param_pairs(p, value, e);
		return pairs ? push_json(w, o, name, pairs, e) : -1;
	}
	if (!json_is_array(value))
		return push_value(w, o, name, value, e);
	if (o && o->kind != OPT_LIST && json_array_size(value) != 1)
		return err_set(e, ERR_INVALID, "option %s takes one value", name);
	json_array_foreach (value, i, one)
		if (push_value(w, o, name, one, e) < 0)
			return -1;
	return 0;
}

static int push_options(struct words *w, const struct command *c, const json_t *options, struct err *e)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)options, name, value) {
		const struct opt *o = option_named(c, name);

		if (!o && (!(c->flags & COMMAND_EXTERNAL) || !name[0] || name[0] == '-' || strchr(name, '=')))
			return err_set(e, ERR_USAGE, "'%.60s' is not an option of this request", name);
		if (push_json(w, o, name, value, e) < 0)
			return -1;
	}
	return 0;
}

static int push_operands(struct words *w, const json_t *operands, struct err *e)
{
	const json_t *one;
	size_t i;

	if (push_call_word(w, strdup("--"), e) < 0)
		return -1;
	json_array_foreach (operands, i, one) {
		if (!json_is_string(one) || strlen(json_string_value(one)) != json_string_length(one))
			return err_set(e, ERR_INVALID, "an argument is not a string");
		if (push_call_word(w, strdup(json_string_value(one)), e) < 0)
			return -1;
	}
	return 0;
}

/* The command by its whole name; a program with commands of its own by its first word, with those after it in *ret_rest. */
static const struct command *command_of_call(const json_t *call, const char **ret_rest, struct err *e)
{
	const char *name = json_string_value(json_object_get(call, "command"));
	const size_t n = name ? strcspn(name, " ") : 0;
	size_t i;

	*ret_rest = "";
	for (i = 0; name && commands[i]; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	for (i = 0; name && commands[i]; i++)
		if (commands[i]->flags & COMMAND_EXTERNAL && strlen(commands[i]->name) == n && !strncmp(commands[i]->name, name, n))
			return *ret_rest = name + n + 1, commands[i];
	err_set(e, ERR_INVALID, "there is no command '%.80s'", name ? name : "");
	return NULL;
}

/* {"words":[...]}: a whole command line, as somebody typed it. */
static int run_words(const json_t *words)
{
	struct words w = { .n = 0 };
	autofree char **argv = NULL;
	struct err e = { 0 };
	const struct command *c = NULL;
	const json_t *one;
	int used = 0, status;
	size_t i;

	json_array_foreach (words, i, one)
		if (!e.code && (!json_is_string(one) || push_call_word(&w, strdup(json_string_value(one)), &e) < 0) && !e.code)
			err_set(&e, ERR_INVALID, "an argument is not a string");
	if (!e.code && (argv = calloc(w.n + 1, sizeof(*argv)))) {
		memcpy(argv, w.v, w.n * sizeof(*argv));
		c = command_find((int)w.n, argv, &used, &e);
	}
	status = c ? c->run(c, (int)w.n - used + 1, argv + used - 1) : command_fail(NULL, &e, 0);
	while (w.n)
		free(w.v[--w.n]);
	free(w.v);
	return status;
}

int callwords_run(const json_t *call)
{
	autofree char **argv = NULL;
	struct words w = { .n = 0 };
	struct err e = { 0 };
	const char *rest;
	const struct command *c;
	int status;

	if (json_object_get(call, "words"))
		return run_words(json_object_get(call, "words"));
	c = command_of_call(call, &rest, &e);
	if (c && push_call_word(&w, strdup(c->name), &e) == 0 && (!rest[0] || push_call_word(&w, strdup(rest), &e) == 0) &&
	    push_options(&w, c, json_object_get(call, "options"), &e) == 0 &&
	    push_operands(&w, json_object_get(call, "operands"), &e) == 0 && !(argv = calloc(w.n + 1, sizeof(*argv))))
		err_nomem(&e);
	/* a copy: a command moves its words about */
	if (argv)
		memcpy(argv, w.v, w.n * sizeof(*argv));
	status = argv ? c->run(c, (int)w.n, argv) : command_fail(NULL, &e, 1);
	while (w.n)
		free(w.v[--w.n]);
	free(w.v);
	return status;
}

static int op_main(const struct command *self, int argc, char **argv)
{
	autobuf struct buf text = BUF_INIT(CALL_MAX);
	autojson json_t *call = NULL;
	struct err e = { 0 };

	/* a name is there for the list of processes (manager/ops/call.c) */
	if (argc > 2 || (argc == 2 && !path_is_name(argv[1])))
		err_set(&e, ERR_USAGE, "op takes no words but a name; its parent writes a document");
	else if (io_read_all(CALL_FD, &text, "the call", &e) == 0)
		call = json_parse(text.data ? text.data : "", text.len, CALL_MAX, "the call", &e);
	close(CALL_FD);
	return call ? callwords_run(call) : command_fail(self, &e, 1);
}

const struct command cmd_op = {
	.name = "op",
	.summary = "carry out a call that a program of berth has written to descriptor 3",
	.run = op_main,
	.flags = COMMAND_HIDDEN | COMMAND_ANY_USER,
};
