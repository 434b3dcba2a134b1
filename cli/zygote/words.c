/* SPDX-License-Identifier: Apache-2.0 */
/* A zygote's command: the interpreter with an agent. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/zygote/zygote.h"

#define OWN_WORDS 6 /* of an agent, at most */

extern const char zygote_agent_start[], zygote_node_agent[];

struct words {
	struct zygote *zygote;
	char **given;
	size_t count, at;
	char **out;
	size_t n;
};

static void put(struct words *w, const char *word)
{
	w->out[w->n++] = (char *)(uintptr_t)word;
}

static int is_one_of(const char *word, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(word, *list))
			return 1;
	return 0;
}

/* The options up to one of ends, or to a word that is none. */
static void put_options(struct words *w, const char *const *ends, const char *const *with_value)
{
	while (w->at < w->count && w->given[w->at][0] == '-' && !is_one_of(w->given[w->at], ends)) {
		const int takes = is_one_of(w->given[w->at], with_value);

		put(w, w->given[w->at++]);
		if (takes && w->at < w->count)
			put(w, w->given[w->at++]);
	}
}

/* "-c" and the agent; what says "ready", the preload's name and its text, or its file and "". */
static int python(struct words *w, struct err *e)
{
	static const char *const ends[] = {"-c", NULL}, *const with_value[] = {"-X", "-W", NULL};

	put_options(w, ends, with_value);
	put(w, "-c");
	put(w, zygote_agent_start);
	put(w, w->zygote->preload.ready);
	if (w->at < w->count && !strcmp(w->given[w->at], "-c")) {
		if (++w->at == w->count)
			return err_set(e, ERR_USAGE,
				       "-c without code; hint: berth zygote create IMAGE python3 "
				       "-c 'import json'");
		put(w, "<zygote>");
		put(w, w->given[w->at++]);
	} else {
		put(w, w->at < w->count ? w->given[w->at++] : "<zygote>");
		put(w, "");
	}
	return 0;
}

/* "-e" and the agent, then "text" and the preload, or "script" and its file. */
static int node(struct words *w, struct err *e)
{
	static const char *const ends[] = {
		"-e",      "--eval",        "--", "-", "-p", "-pe", "--print", "-i", "-c",
		"--check", "--interactive", NULL};
	static const char *const with_value[] = {"-r",
						 "--require",
						 "--import",
						 "-C",
						 "--conditions",
						 "--loader",
						 "--experimental-loader",
						 "--title",
						 "--env-file",
						 NULL};
	const char *word;

	put_options(w, ends, with_value);
	word = w->at < w->count ? w->given[w->at] : "-e";
	put(w, "--experimental-vm-modules"); /* node 18 needs it for import() */
	put(w, "-e");
	put(w, zygote_node_agent);
	put(w, "--");
	if (!strcmp(word, "-e") || !strcmp(word, "--eval")) {
		if (w->at < w->count && ++w->at == w->count)
			return err_set(e, ERR_USAGE,
				       "%s without code; hint: berth zygote create IMAGE node -e "
				       "'x = 1'",
				       word);
		put(w, "text");
		put(w, w->at < w->count ? w->given[w->at++] : "");
		return 0;
	}
	if (!strcmp(word, "--"))
		w->at++;
	else if (word[0] == '-')
		return err_set(e, ERR_UNSUPPORTED,
			       "a zygote cannot take node's option %s; hint: berth zygote create "
			       "IMAGE node -e 'x = 1'",
			       word);
	put(w, w->at < w->count ? "script" : "text");
	put(w, w->at < w->count ? w->given[w->at++] : "");
	return 0;
}

/* By a stem and characters of rest, or anything. */
static int is_named(const char *program, const char *stem, const char *rest)
{
	const char *base = strrchr(program, '/');
	const size_t n = strlen(stem);

	base = base ? base + 1 : program;
	return !strncmp(base, stem, n) && (!rest || strspn(base + n, rest) == strlen(base + n));
}

int words_of(struct zygote *z, char **given, size_t count, char *ret[ZYGOTE_WORDS], size_t *ret_n,
	     struct err *e)
{
	struct words w = {.zygote = z, .given = given, .count = count, .out = ret, .at = 1};
	int r;

	if (!count)
		return err_set(e, ERR_USAGE,
			       "no interpreter given; hint: berth zygote create IMAGE python3 -c "
			       "'import json'");
	if (count + OWN_WORDS > ZYGOTE_WORDS)
		return err_set(e, ERR_LIMIT, "a preload with more than %d words",
			       ZYGOTE_WORDS - OWN_WORDS);
	z->interpreter = given[0];
	put(&w, given[0]);
	if (is_named(given[0], "python", NULL)) {
		z->mode = ZYGOTE_FORK;
		r = python(&w, e);
	} else if (is_named(given[0], "node", "0123456789.-") || is_named(given[0], "nodejs", "")) {
		z->mode = ZYGOTE_AHEAD;
		r = node(&w, e);
	} else {
		return err_set(e, ERR_UNSUPPORTED,
			       "'%.80s' is not an interpreter that can wait: zygotes are of Python "
			       "and node; hint: berth zygote create IMAGE python3 -c CODE",
			       given[0]);
	}
	while (w.at < count)
		put(&w, given[w.at++]);
	*ret_n = w.n;
	return r;
}
