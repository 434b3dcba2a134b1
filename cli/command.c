/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own loop instead of getopt_long(3): that one accepts unique prefixes of
 * long names, so that a new option would change what an old script means, and
 * its errors do not say what to do.
 */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "cli/foreign.h"
#include "manager/ops/params.h"

const struct opt *command_next_option(const struct command *c, const struct opt *after)
{
	const int own = after && after >= c->opts && after < c->opts + c->opt_count;
	const struct param *p = own || !c->params ? NULL : param_next(after ? after->id : PARAM_NONE, c->params);

	if (p)
		return &p->opt;
	after = own ? after + 1 : c->opts;
	return after && after < c->opts + c->opt_count ? after : NULL;
}

int command_hides(const struct command *c, const struct opt *o)
{
	return c->params && o->id < PARAM_END && param_of(o->id)->hidden;
}

const struct opt *command_option(const struct command *c, int id)
{
	const struct opt *o;

	COMMAND_EACH_OPTION(c, o)
		if (o->id == id)
			return o;
	return NULL;
}

static const struct opt *find_long(const struct command *c, const char *name, size_t len)
{
	const struct opt *o;

	COMMAND_EACH_OPTION(c, o)
		if (strlen(o->name) == len && !memcmp(o->name, name, len))
			return o;
	return NULL;
}

static const struct opt *find_letter(const struct command *c, char letter)
{
	const struct opt *o;

	COMMAND_EACH_OPTION(c, o)
		if (o->letter == letter)
			return o;
	return NULL;
}

static int unknown_long(const struct command *c, const char *name, size_t len, struct err *e)
{
	char typed[64], dashed[66];
	struct suggest s = SUGGEST_INIT(typed);
	const struct opt *o;
	const char *hint;

	snprintf(typed, sizeof(typed), "%.*s", (int)(len < 63 ? len : 63), name);
	snprintf(dashed, sizeof(dashed), "--%s", typed);
	hint = foreign_option(c->name, dashed);
	COMMAND_EACH_OPTION(c, o)
		suggest_offer(&s, o->name);
	suggest_offer(&s, "help");
	err_set(e, ERR_USAGE, "unknown option --%s", typed);
	if (hint)
		return err_hint(e, "%s", hint);
	if (s.best)
		return err_hint(e, "did you mean --%s?", s.best);
	return err_hint(e, "berth %s --help lists the options", c->name);
}

static int unknown_letter(const struct command *c, char letter, struct err *e)
{
	const char dashed[] = { '-', letter, '\0' };
	const char *hint = foreign_option(c->name, dashed);

	err_set(e, ERR_USAGE, "unknown option -%c", letter);
	if (hint)
		return err_hint(e, "%s", hint);
	return err_hint(e, "berth %s --help lists the options", c->name);
}

static int missing_value(const struct opt *o, struct err *e)
{
	err_set(e, ERR_USAGE, "option --%s needs a value", o->name);
	return err_hint(e, "--%s %s", o->name, o->arg ? o->arg : "VALUE");
}

static int hand_on(const struct opt *o, const char *value, opt_fn *fn, void *ctx, struct err *e)
{
	if (fn(ctx, o->id, value, e) < 0)
		return err_wrap(e, "option --%s", o->name);
	return 0;
}

/* The state of one parse; i is the argument being read. */
struct parse {
	const struct command *c;
	int argc;
	char **argv;
	int i;
	opt_fn *fn;
	void *ctx;
	int help;
};

/* argv[i] is "--name" or "--name=value". */
static int parse_long_option(struct parse *p, struct err *e)
{
	const char *name = p->argv[p->i] + 2, *eq = strchr(name, '=');
	size_t len = eq ? (size_t)(eq - name) : strlen(name);
	const struct opt *o = find_long(p->c, name, len);

	if (!o && len == 4 && !memcmp(name, "help", 4)) {
		p->help = 1;
		return eq ? err_set(e, ERR_USAGE, "option --help takes no value; hint: --help alone") : 0;
	}
	if (!o)
		return unknown_long(p->c, name, len, e);
	if (o->kind == OPT_FLAG) {
		if (eq)
			return err_set(e, ERR_USAGE, "option --%s takes no value; hint: --%s alone",
				       o->name, o->name);
		return hand_on(o, NULL, p->fn, p->ctx, e);
	}
	if (eq)
		return hand_on(o, eq + 1, p->fn, p->ctx, e);
	if (p->i + 1 >= p->argc)
		return missing_value(o, e);
	return hand_on(o, p->argv[++p->i], p->fn, p->ctx, e);
}

/* argv[i] is "-abc": flags a and b, then c or c's value. */
static int parse_option_letters(struct parse *p, struct err *e)
{
	const char *s = p->argv[p->i] + 1;

	for (; *s; s++) {
		const struct opt *o = find_letter(p->c, *s);

		if (!o && *s == 'h') {
			p->help = 1;
			return 0;
		}
		if (!o)
			return unknown_letter(p->c, *s, e);
		if (o->kind == OPT_FLAG) {
			if (hand_on(o, NULL, p->fn, p->ctx, e) < 0)
				return -1;
			continue;
		}
		if (s[1])
			return hand_on(o, s + 1, p->fn, p->ctx, e);
		if (p->i + 1 >= p->argc)
			return missing_value(o, e);
		return hand_on(o, p->argv[++p->i], p->fn, p->ctx, e);
	}
	return 0;
}

/*
 * Words after a command to run are that command's, a text may begin with a dash
 * and a signal be -9; elsewhere options may follow the operands.
 */
static int options_follow_operands(const struct command *c)
{
	static const char *const theirs[] = { "COMMAND...", "COMMAND [ARGUMENT", "-- COMMAND", "TEXT", "SIGNAL",
		"CODE [ARGUMENT" };
	size_t i;

	for (i = 0; c->args && i < ARRAY_LEN(theirs); i++)
		if (strstr(c->args, theirs[i]))
			return 0;
	return 1;
}

int command_options(const struct command *c, int argc, char **argv, opt_fn *fn, void *ctx,
		    int *ret_rest, int *ret_help, struct err *e)
{
	struct parse p = { .c = c, .argc = argc, .argv = argv, .i = 1, .fn = fn, .ctx = ctx };
	int anywhere = options_follow_operands(c), operands = 0;

	for (; p.i < argc; p.i++) {
		const char *a = argv[p.i];

		if (a[0] != '-' || !a[1]) {	/* "-" alone is an operand */
			if (!anywhere)
				break;
			argv[operands++] = argv[p.i];	/* over words that are done with */
			continue;
		}
		if (a[1] == '-' && !a[2]) {
			p.i++;
			break;
		}
		if ((a[1] == '-' ? parse_long_option(&p, e) : parse_option_letters(&p, e)) < 0)
			return -1;
		if (p.help) {
			command_help(c);
			break;
		}
	}
	/* operands met on the way go right before those that are left */
	memmove(argv + p.i - operands, argv, (size_t)operands * sizeof(*argv));
	*ret_rest = p.i - operands;
	*ret_help = p.help;
	return 0;
}

/* Appends s to line as the inside of a JSON string; s was cleaned before. */
static size_t json_escape(char *out, size_t n, const char *s)
{
	size_t len = 0;

	for (; *s && len + 3 < n; s++) {
		if (*s == '"' || *s == '\\')
			out[len++] = '\\';
		if (*s == '\t') {
			out[len++] = '\\';
			out[len++] = 't';
		} else {
			out[len++] = *s;
		}
	}
	out[len] = '\0';
	return len;
}

int command_print_json(const json_t *j, size_t flags, struct err *e)
{
	autofree char *text = json_dumps(j, flags);

	if (!text)
		return j ? err_nomem(e) : err_set(e, ERR_INTERNAL, "there is no answer to print");
	return puts(text) < 0 || fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

int command_fail(const struct command *c, const struct err *e, int as_json)
{
	static const struct err silent = { .code = ERR_INTERNAL, .msg = "it failed and does not say why" };
	char prog[80];
	int status;

	/* a failure is never reported as success, even if its reason was forgotten */
	if (e->code == ERR_NONE)
		e = &silent;
	if (c && c->fail)
		return c->fail(c, e);
	status = err_exit_status(e->code);

	if (as_json) {
		char clean[sizeof(e->msg) + 8], msg[2 * sizeof(clean)], line[sizeof(msg) + 128];
		int n;

		log_clean(clean, sizeof(clean), e->msg, 0);
		json_escape(msg, sizeof(msg), clean);
		n = snprintf(line, sizeof(line),
			     "{\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"exit_status\":%d}}\n",
			     err_name(e->code), msg, status);
		(void)!io_write_all(STDERR_FILENO, line, (size_t)n);
		return status;
	}
	snprintf(prog, sizeof(prog), c ? "berth %s" : "berth", c ? c->name : "");
	log_error(prog, e);
	return status;
}

const struct command *command_find(int argc, char **argv, int *ret_words, struct err *e)
{
	char both[80];
	const char *hint;
	struct suggest s;
	size_t i, len;
	int group = 0;

	if (argc < 1) {
		err_set(e, ERR_USAGE, "no command given; hint: berth help lists them");
		return NULL;
	}
	len = strlen(argv[0]);
	snprintf(both, sizeof(both), "%.38s %.38s", argv[0], argc > 1 ? argv[1] : "");
	for (i = 0; commands[i]; i++) {
		const char *name = commands[i]->name;
		int two = !strcmp(name, both);

		if (two || !strcmp(name, argv[0])) {
			*ret_words = two ? 2 : 1;
			return commands[i];
		}
		group |= !strncmp(name, argv[0], len) && name[len] == ' ';
	}
	s = SUGGEST_INIT(argv[0]);
	if (group && argc > 1)
		s = SUGGEST_INIT(both);
	for (i = 0; commands[i]; i++)
		if (!(commands[i]->flags & COMMAND_HIDDEN))
			suggest_offer(&s, commands[i]->name);
	suggest_offer(&s, "help");
	hint = foreign_command(group ? both : argv[0]);
	if (hint)
		err_set(e, ERR_USAGE, "unknown command '%.77s'; hint: %s", s.word, hint);
	else if (group && argc < 2)
		err_set(e, ERR_USAGE, "%.38s needs a second word; hint: berth %.38s --help lists them", argv[0], argv[0]);
	else if (s.best)
		err_set(e, ERR_USAGE, "unknown command '%.77s'; hint: did you mean '%s'?", s.word, s.best);
	else
		err_set(e, ERR_USAGE, "unknown command '%.77s'; hint: berth help lists the commands", s.word);
	return NULL;
}
