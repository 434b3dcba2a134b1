/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/buildbase.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 400
#define BLANKS " \t"

struct names {
	json_t *list, *stages, *vars;
};

static int is_known(const json_t *list, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one)
		if (!strcmp(json_string_value(one), name))
			return 1;
	return 0;
}

/* ---- variables ---------------------------------------------------------------------------- */

/* The value of a variable: the caller's, else the default of its ARG; NULL. */
static const char *value_of(const struct names *l, const char *name, size_t n)
{
	char key[NAME_MAX_BYTES];

	snprintf(key, sizeof(key), "%.*s", (int)n, name);
	return json_string_value(json_object_get(l->vars, key));
}

/*
 * word with $NAME, ${NAME}, ${NAME:-WORD} and ${NAME:+WORD} replaced; 0 where that cannot be
 * done: buildah alone knows then.
 */
static int expand(const struct names *l, const char *word, size_t n, char ret[NAME_MAX_BYTES])
{
	const char *end = word + n;
	size_t used = 0;

	while (word < end) {
		const char *name = word + 1, *value, *other = NULL;
		size_t len, other_len = 0;
		int plus = 0;

		if (*word != '$') {
			value = word++;
			len = 1;
		} else {
			const int braced = name < end && *name == '{';

			name += braced;
			len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
			value = value_of(l, name, len);
			word = name + len;
			if (braced && word + 1 < end && word[0] == ':' && (word[1] == '-' || word[1] == '+')) {
				plus = word[1] == '+';
				other = word + 2;
				other_len = strcspn(other, "}");
				word = other + other_len;
			}
			if (!len || word > end || (braced && (word == end || *word++ != '}')))
				return 0;
			len = value ? strlen(value) : 0;
			if (other && plus == (len > 0))
				value = other, len = other_len;
			else if (other && plus)
				value = "", len = 0;
			if (!value)
				return 0;
		}
		if (used + len >= NAME_MAX_BYTES)
			return 0;
		memcpy(ret + used, value, len);
		used += len;
	}
	ret[used] = '\0';
	return used > 0 && !strchr(ret, '$');
}

/* ARG NAME=DEFAULT, which a value of the caller's goes before. */
static void take_arg(struct names *l, const char *p, size_t n)
{
	char key[NAME_MAX_BYTES], value[NAME_MAX_BYTES];
	const char *equals = memchr(p, '=', n), *from;
	size_t len;

	if (!equals)
		return;
	from = equals + 1;
	len = n - (size_t)(from - p);
	if (len >= 2 && (*from == '"' || *from == '\'') && from[len - 1] == *from)
		from++, len -= 2;
	snprintf(key, sizeof(key), "%.*s", (int)(equals - p), p);
	if (!json_object_get(l->vars, key) && expand(l, from, len, value))
		json_object_set_new(l->vars, key, json_string(value));
}

/* ---- names -------------------------------------------------------------------------------- */

/* A word of n bytes, unless it is a stage's, by name or number, or nothing at all. */
static int add(struct names *l, const char *word, size_t n, struct err *e)
{
	char name[NAME_MAX_BYTES];

	if (!n || n >= sizeof(name) || !expand(l, word, n, name))
		return 0;
	if (!strcasecmp(name, "scratch") || !name[strspn(name, "0123456789")] || is_known(l->list, name) ||
	    is_known(l->stages, name))
		return 0;
	if (json_array_size(l->list) == BUILDBASE_MAX)
		return err_set(e, ERR_LIMIT, "the Dockerfile names more than %d images",
			       BUILDBASE_MAX);
	return json_array_append_new(l->list, json_string(name)) < 0 ?
		       err_set(e, ERR_INVALID, "the name of an image is not UTF-8") :
		       0;
}

static size_t word_of(const char *p)
{
	return strcspn(p, BLANKS "\r\n");
}

/* FROM [--platform=X] NAME [AS STAGE] */
static int take_from(struct names *l, const char *p, struct err *e)
{
	char stage[NAME_MAX_BYTES];
	const char *as;
	size_t n;

	p += strspn(p, BLANKS);
	while (!strncmp(p, "--", 2)) {
		p += word_of(p);
		p += strspn(p, BLANKS);
	}
	n = word_of(p);
	if (add(l, p, n, e) < 0)
		return -1;
	as = p + n + strspn(p + n, BLANKS);
	if (!strncasecmp(as, "AS", 2) && as[2] && strchr(BLANKS, as[2])) {
		as += 2 + strspn(as + 2, BLANKS);
		snprintf(stage, sizeof(stage), "%.*s", (int)word_of(as), as);
		json_array_append_new(l->stages, json_string(stage));
	}
	return 0;
}

/* --from=NAME of COPY, and from=NAME in --mount of RUN, of a line of n bytes. */
static int take_others(struct names *l, const char *line, size_t n, struct err *e)
{
	static const char word[] = "from=";
	const char *p = line;

	while ((p = memmem(p, n - (size_t)(p - line), word, strlen(word)))) {
		const int is_option = p > line && strchr("-,=", p[-1]);

		p += strlen(word);
		if (is_option && add(l, p, strcspn(p, BLANKS ",\r\n"), e) < 0)
			return -1;
	}
	return 0;
}

static int is_instruction(const char *word, const char *name)
{
	const size_t n = strlen(name);

	return !strncasecmp(word, name, n) && word[n] && strchr(BLANKS, word[n]);
}

static int take_line(struct names *l, const char *line, size_t n, struct err *e)
{
	const char *word = line + strspn(line, BLANKS);

	if (is_instruction(word, "FROM"))
		return take_from(l, word + 4, e);
	if (is_instruction(word, "ARG")) {
		word += 3 + strspn(word + 3, BLANKS);
		take_arg(l, word, word_of(word));
		return 0;
	}
	return *word == '#' ? 0 : take_others(l, line, n, e);
}

json_t *buildbase_named(const char *text, const json_t *args, struct err *e)
{
	autojson json_t *stages = json_array(), *vars = json_object(), *list = json_array();
	struct names l = {list, stages, vars};
	const char *p = text;
	const json_t *one;
	size_t line, i;
	int r = 0;

	if (!list || !stages || !vars)
		return err_nomem(e), NULL;
	json_array_foreach ((json_t *)(size_t)args, i, one) {
		const char *word = json_string_value(one), *equals = word ? strchr(word, '=') : NULL;
		char key[NAME_MAX_BYTES];

		if (!equals)
			continue;
		snprintf(key, sizeof(key), "%.*s", (int)(equals - word), word);
		json_object_set_new(vars, key, json_string(equals + 1));
	}
	for (; r == 0 && *p; p += line + (p[line] == '\n')) {
		line = strcspn(p, "\n");
		r = take_line(&l, p, line, e);
	}
	return r == 0 ? json_incref(list) : NULL;
}

void buildbase_whole(const char *name, char *ret, size_t size)
{
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
	size_t n = strcspn(name, "/");
	const char *hub = name[n] && (memchr(name, '.', n) || memchr(name, ':', n) ||
				      !strncmp(name, "localhost/", 10)) ?
				  "" :
			  name[n] ? "docker.io/" :
				    "docker.io/library/";

	snprintf(ret, size, "%s%s%s", hub, name, strpbrk(last, ":@") ? "" : ":latest");
}
