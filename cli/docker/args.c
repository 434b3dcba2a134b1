/* SPDX-License-Identifier: Apache-2.0 */
/* Flags as pflag reads them, docker's own library: -it, -e=A, --rm=false. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/door.h"

struct parse {
	struct door_args *a;
	int argc, i;
	char **argv;
};

static int usage(struct door_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int usage(struct door_args *a, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	a->status = door_say(DOOR_USAGE,
			     "%s\n\nUsage:  docker %s %s\n\nRun 'docker %s --help' for more "
			     "information",
			     text, a->verb->name, a->verb->args, a->verb->name);
	return 0;
}

static const struct opt *find(const struct command *c, const char *name, size_t len, char letter)
{
	size_t i;

	for (i = 0; i < c->opt_count; i++)
		if (letter ? c->opts[i].letter == letter :
			     strlen(c->opts[i].name) == len && !memcmp(c->opts[i].name, name, len))
			return &c->opts[i];
	return NULL;
}

/* strconv.ParseBool of Go: 1, 0, or -1 for any other word. */
static int truth(const char *word)
{
	static const char *const yes[] = { "1", "t", "T", "TRUE", "true", "True" }, *const no[] = {
		"0", "f", "F", "FALSE", "false", "False"
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(yes); i++)
		if (!strcmp(word, yes[i]) || !strcmp(word, no[i]))
			return !strcmp(word, yes[i]);
	return -1;
}

static int set_flag(struct door_args *a, const struct opt *o, const char *value)
{
	int on = value ? truth(value) : 1;

	if (on >= 0)
		return json_object_set_new(a->o, o->name, json_boolean(on)) == 0;
	return usage(a,
		     "invalid argument \"%.60s\" for \"--%.40s\" flag: strconv.ParseBool: "
		     "parsing \"%.60s\": invalid syntax",
		     value, o->name, value);
}

static int set(struct door_args *a, const struct opt *o, const char *value)
{
	json_t *list, *v;

	if (o->kind == OPT_FLAG)
		return set_flag(a, o, value);
	v = json_string(value);
	if (!v)
		return usage(a, "the value of --%s is not UTF-8", o->name);
	if (o->kind == OPT_VALUE)
		return json_object_set_new(a->o, o->name, v) == 0;
	list = json_object_get(a->o, o->name);
	if (!list) {
		list = json_array();
		json_object_set_new(a->o, o->name, list);
	}
	return json_array_append_new(list, v) == 0;
}

/* A feature that berth lacks is refused, not weakened. */
static int check(struct door_args *a, const struct opt *o)
{
	if (o->id != DOOR_REFUSED)
		return 1;
	a->status = door_say(DOOR_USAGE, "docker: --%s is refused: %s (berth-docker(1))", o->name,
			     o->words);
	return 0;
}

static int parse_long(struct parse *p)
{
	const char *name = p->argv[p->i] + 2, *eq = strchr(name, '=');
	size_t len = eq ? (size_t)(eq - name) : strlen(name);
	const struct opt *o = find(p->a->verb, name, len, 0);
	char typed[80];

	if (!o && len == 4 && !memcmp(name, "help", 4)) {
		door_help(p->a->verb, 0);
		p->a->status = 0;
		return 0;
	}
	snprintf(typed, sizeof(typed), "%.*s", (int)(len < 70 ? len : 70), name);
	if (!o)
		return usage(p->a, "unknown flag: --%s", typed);
	if (!check(p->a, o))
		return 0;
	if (o->kind == OPT_FLAG || eq)
		return set(p->a, o, eq ? eq + 1 : NULL);
	if (p->i + 1 >= p->argc)
		return usage(p->a, "flag needs an argument: --%s", typed);
	return set(p->a, o, p->argv[++p->i]);
}

/* "-it", "-e A", "-eA", "-e=A", "-t=false" */
static int parse_letters(struct parse *p)
{
	const char *word = p->argv[p->i], *s = word + 1;
	char text[120];

	for (; *s; s++) {
		const struct opt *o = find(p->a->verb, NULL, 0, *s);

		if (!o && *s == 'h') {
			door_help(p->a->verb, 0);
			p->a->status = 0;
			return 0;
		}
		snprintf(text, sizeof(text), "'%c' in %.80s", *s, word);
		if (!o)
			return usage(p->a, "unknown shorthand flag: %s", text);
		if (!check(p->a, o))
			return 0;
		if (s[1] == '=')
			return set(p->a, o, s + 2);
		if (o->kind == OPT_FLAG) {
			if (!set(p->a, o, NULL))
				return 0;
			continue;
		}
		if (s[1])
			return set(p->a, o, s + 1);
		if (p->i + 1 >= p->argc)
			return usage(p->a, "flag needs an argument: %s", text);
		return set(p->a, o, p->argv[++p->i]);
	}
	return 1;
}

static int count_words(struct door_args *a, int least, int most)
{
	const char *plural = (a->count < least ? least : most) == 1 ? "" : "s";
	char what[80];

	if (a->count >= least && (most < 0 || a->count <= most))
		return 1;
	if (!most)
		snprintf(what, sizeof(what), "accepts no arguments");
	else if (least == most)
		snprintf(what, sizeof(what), "requires %d argument%s", least, plural);
	else if (a->count < least)
		snprintf(what, sizeof(what), "requires at least %d argument%s", least, plural);
	else
		snprintf(what, sizeof(what), "requires at most %d argument%s", most, plural);
	a->status = door_say(1,
			     "docker: 'docker %s' %s\n\nUsage:  docker %s %s\n\nSee 'docker %s "
			     "--help' for more information",
			     a->verb->name, what, a->verb->name, a->verb->args, a->verb->name);
	return 0;
}

int door_parse(struct door_args *a, const struct command *verb, int argc, char **argv, int least,
	       int most)
{
	struct parse p = { .a = a, .argc = argc, .argv = argv, .i = 1 };
	const int first = verb->flags & DOOR_FLAGS_FIRST;
	int words = 0;

	*a = (struct door_args){ .verb = verb, .o = json_object(), .words = argv };
	for (; p.i < argc; p.i++) {
		const char *w = argv[p.i];

		if (w[0] != '-' || !w[1]) {
			if (first)
				break;
			argv[words++] = argv[p.i]; /* over flags that are done with */
			continue;
		}
		if (w[1] == '-' && !w[2]) {
			p.i++;
			break;
		}
		if (!(w[1] == '-' ? parse_long(&p) : parse_letters(&p)))
			return 0;
	}
	while (p.i < argc)
		argv[words++] = argv[p.i++];
	argv[words] = NULL;
	a->count = words;
	return count_words(a, least, most);
}

void door_release(struct door_args *a)
{
	json_decref(a->o);
	a->o = NULL;
}

int door_on(const struct door_args *a, const char *flag)
{
	return json_is_true(json_object_get(a->o, flag));
}

const char *door_value(const struct door_args *a, const char *flag)
{
	return json_string_value(json_object_get(a->o, flag));
}

const json_t *door_list(const struct door_args *a, const char *flag)
{
	return json_object_get(a->o, flag);
}
