/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/shellfunc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/shlex.h"

#define DEPTH_MAX 64

void shellfuncs_release(struct shellfuncs *f)
{
	size_t i;

	for (i = 0; i < f->count; i++) {
		free(f->list[i].name);
		free(f->list[i].text);
	}
	free(f->list);
	*f = (struct shellfuncs){ 0 };
}

static int is_name(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return 0;
	while (isalnum((unsigned char)*s) || *s == '_')
		s++;
	return !*s;
}

static size_t size_of(const struct shellfunc *one)
{
	return strlen(one->name) + strlen(one->text);
}

static int put(struct shellfuncs *f, const char *name, const char *text, size_t n, struct err *e)
{
	struct shellfunc one = { strdup(name), strndup(text, n) }, *list;
	size_t i;

	for (i = 0; one.name && one.text && i < f->count; i++)
		if (!strcmp(f->list[i].name, name))
			break;
	if (!one.name || !one.text) {
		err_nomem(e);
	} else if (i == SHELLFUNCS_MAX || f->bytes + size_of(&one) > SHELLFUNCS_BYTES) {
		err_set(e, ERR_LIMIT, "the session has more functions than are kept");
	} else {
		list = i < f->count ? f->list : reallocarray(f->list, i + 1, sizeof(*list));
		if (list) {
			f->list = list;
			if (i < f->count) {
				f->bytes -= size_of(&list[i]);
				free(list[i].name);
				free(list[i].text);
			} else {
				f->count++;
			}
			list[i] = one;
			f->bytes += size_of(&one);
			return 0;
		}
		err_nomem(e);
	}
	free(one.name);
	free(one.text);
	return -1;
}

/* ---- compound commands ------------------------------------------------------------- */

struct reader {
	struct shlex l;
	struct shlex_token t, before[2]; /* the token now, and the two before it */
	int begins;                      /* a command may begin with t */
	const char *open[DEPTH_MAX];     /* what closes each compound that is open */
	size_t depth;
};

static int is_op(const struct shlex_token *t, const char *text)
{
	return t->kind == SHLEX_OP && t->len == strlen(text) && !memcmp(t->text, text, t->len);
}

static int is_word(const struct shlex_token *t, const char *text)
{
	return t->kind == SHLEX_WORD && !strcmp(t->text, text);
}

/* After it a command may begin. */
static int precedes_command(const struct reader *r, const struct shlex_token *t)
{
	static const char *const words[] = { "{",     "!",  "if", "then", "else", "elif", "while",
					     "until", "do", "}",  "fi",   "done", "esac" };
	size_t i;

	if (t->kind != SHLEX_WORD)
		return t->kind != SHLEX_REDIRECT;
	for (i = 0; i < ARRAY_LEN(words); i++)
		if (r->begins && !strcmp(t->text, words[i]))
			return 1;
	return is_word(t, "in") && r->depth && !strcmp(r->open[r->depth - 1], "esac");
}

static const char *closing_of(const struct reader *r)
{
	static const char *const pairs[][2] = { { "{", "}" },        { "if", "fi" },
						{ "case", "esac" },  { "for", "done" },
						{ "while", "done" }, { "until", "done" } };
	size_t i;

	if (is_op(&r->t, "("))
		return ")";
	for (i = 0; i < ARRAY_LEN(pairs); i++)
		if (r->begins && is_word(&r->t, pairs[i][0]))
			return pairs[i][1];
	return NULL;
}

static int closes(const struct reader *r)
{
	const char *with = r->depth ? r->open[r->depth - 1] : "";

	return is_op(&r->t, ")") ? !strcmp(with, ")") : r->begins && is_word(&r->t, with);
}

/* Reads a token and keeps count of what is open: 0 at the end, or where it cannot be followed. */
static int advance(struct reader *r)
{
	const char *with;

	r->begins = precedes_command(r, &r->t);
	r->before[1] = r->before[0];
	r->before[0] = r->t;
	r->t = shlex_next(&r->l);
	if (r->t.kind == SHLEX_END)
		return 0;
	if (closes(r)) {
		r->depth--;
		/* a redirection or an operator follows, and no command */
		return 1;
	}
	with = closing_of(r);
	if (!with)
		return 1;
	if (r->depth == DEPTH_MAX)
		return 0;
	r->open[r->depth++] = with;
	return 1;
}

/* The body that comes next, up to its end. */
static int skip_body(struct reader *r)
{
	const size_t depth = r->depth;

	do {
		if (!advance(r))
			return 0;
	} while (r->t.kind == SHLEX_NEWLINE);
	if (r->depth != depth + 1)
		return 0;
	while (r->depth > depth)
		if (!advance(r))
			return 0;
	return 1;
}

int shellfuncs_add(struct shellfuncs *f, const char *text, size_t n, struct err *e)
{
	struct reader r = { .t.kind = SHLEX_NEWLINE };
	autofree char *words = NULL;
	const char *from = NULL;
	struct shlex_token name = { SHLEX_END, NULL, 0 };

	if (!memmem(text, n, "(", 1))
		return 0;
	words = malloc(shlex_room(n));
	if (!words)
		return err_nomem(e);
	shlex_init(&r.l, text, n, words);
	while (advance(&r)) {
		if (r.begins && r.t.kind == SHLEX_WORD && is_name(r.t.text)) {
			name = r.t;
			from = r.l.at - r.t.len;
		}
		if (!is_op(&r.t, ")") || !is_op(&r.before[0], "(") ||
		    r.before[1].kind != SHLEX_WORD || r.before[1].text != name.text)
			continue;
		if (!skip_body(&r))
			return 0;
		if (put(f, name.text, from, (size_t)(r.l.at - from), e) < 0)
			return -1;
	}
	return 0;
}
