/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/buildbase.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 400
#define BLANKS " \t"

static int is_known(const json_t *list, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one)
		if (!strcmp(json_string_value(one), name))
			return 1;
	return 0;
}

/* A word of n bytes, unless it is a variable's, a stage by its number, or nothing at all. */
static int add(json_t *list, const char *word, size_t n, struct err *e)
{
	char name[NAME_MAX_BYTES];

	if (!n || n >= sizeof(name))
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)n, word);
	if (strchr(name, '$') || !strcasecmp(name, "scratch") ||
	    !name[strspn(name, "0123456789")] || is_known(list, name))
		return 0;
	if (json_array_size(list) == BUILDBASE_MAX)
		return err_set(e, ERR_LIMIT, "the Dockerfile names more than %d images",
			       BUILDBASE_MAX);
	return json_array_append_new(list, json_string(name)) < 0 ?
		       err_set(e, ERR_INVALID, "the name of an image is not UTF-8") :
		       0;
}

static size_t word_of(const char *p)
{
	return strcspn(p, BLANKS "\r\n");
}

/* FROM [--platform=X] NAME [AS STAGE] */
static int take_from(json_t *list, json_t *stages, const char *p, struct err *e)
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
	as = p + n + strspn(p + n, BLANKS);
	if (!strncasecmp(as, "AS", 2) && as[2] && strchr(BLANKS, as[2])) {
		as += 2 + strspn(as + 2, BLANKS);
		snprintf(stage, sizeof(stage), "%.*s", (int)word_of(as), as);
		json_array_append_new(stages, json_string(stage));
	}
	snprintf(stage, sizeof(stage), "%.*s", (int)n, p);
	return is_known(stages, stage) ? 0 : add(list, p, n, e);
}

/* Of another stage, or of an image. */
static int take_copy(json_t *list, const json_t *stages, const char *p, struct err *e)
{
	char name[NAME_MAX_BYTES];

	snprintf(name, sizeof(name), "%.*s", (int)word_of(p), p);
	return is_known(stages, name) ? 0 : add(list, p, word_of(p), e);
}

json_t *buildbase_named(const char *text, struct err *e)
{
	autojson json_t *stages = json_array();
	json_t *list = json_array();
	const char *p = text, *from;
	size_t line;
	int r = 0;

	if (!list || !stages)
		err_nomem(e), r = -1;
	for (; list && r == 0 && *p; p += line + (p[line] == '\n')) {
		const char *word = p + strspn(p, BLANKS);

		line = strcspn(p, "\n");
		if (!strncasecmp(word, "FROM", 4) && strchr(BLANKS, word[4]) && word[4])
			r = take_from(list, stages, word + 4, e);
		from = strstr(p, "--from=");
		if (r == 0 && from && from < p + line)
			r = take_copy(list, stages, from + 7, e);
	}
	if (r == 0)
		return list;
	json_decref(list);
	return NULL;
}

int buildbase_may_be(const char *text, const char *name)
{
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
	char repo[NAME_MAX_BYTES];

	if ((size_t)snprintf(repo, sizeof(repo), "%.*s", (int)strcspn(last, ":@"), last) >=
	    sizeof(repo))
		return 0;
	return repo[0] && strstr(text, repo) != NULL;
}
