/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/shlex.h"

#include <string.h>

size_t shlex_room(size_t n)
{
	return 2 * n + 2;	/* a word has at least one byte of text, and gets a NUL */
}

void shlex_init(struct shlex *l, const char *text, size_t n, char *words)
{
	memset(l, 0, sizeof(*l));
	l->at = text;
	l->end = text + n;
	l->words = words;
}

void shlex_forget(struct shlex *l)
{
	if (!l->body_count)	/* their end marks are among them */
		l->used = 0;
}

static void shlex_put(struct shlex *l, char c)
{
	l->words[l->used++] = c;
}

static int shlex_is(const struct shlex *l, size_t ahead, char c)
{
	return (size_t)(l->end - l->at) > ahead && l->at[ahead] == c;
}

/* The end of what an opening bracket at p - 1 began, quotes respected. */
static const char *closing(const char *p, const char *end, char open, char close)
{
	int depth = 1;

	for (; p < end; p++) {
		if (*p == '\\') {
			p += p + 1 < end;
		} else if (*p == '\'' || *p == '"') {
			const char *q = p + 1;

			while (q < end && *q != *p)
				q += *p == '"' && *q == '\\' && q + 1 < end ? 2 : 1;
			p = q < end ? q : end - 1;
		} else if (*p == open) {
			depth++;
		} else if (*p == close && --depth == 0) {
			return p;
		}
	}
	return end;
}

static const char *backtick(const char *p, const char *end)
{
	while (p < end && *p != '`')
		p += *p == '\\' && p + 1 < end ? 2 : 1;
	return p < end ? p : end;
}

/* skip bytes of an opening, then a text up to stop; all of it goes into the word unchanged. */
static void take_nested(struct shlex *l, size_t skip, const char *stop)
{
	const char *from = l->at + skip, *after = stop < l->end ? stop + 1 : stop;

	if (l->nested)
		l->nested(l->ctx, from, (size_t)(stop - from));
	while (l->at < after)
		shlex_put(l, *l->at++);
}

/* $(...), ${...}, `...`, <(...) at l->at: 1 when there was one. */
static int take_substitution(struct shlex *l, int quoted)
{
	if (shlex_is(l, 0, '`'))
		take_nested(l, 1, backtick(l->at + 1, l->end));
	else if (shlex_is(l, 0, '$') && shlex_is(l, 1, '('))
		take_nested(l, 2, closing(l->at + 2, l->end, '(', ')'));
	else if (shlex_is(l, 0, '$') && shlex_is(l, 1, '{'))
		take_nested(l, 2, closing(l->at + 2, l->end, '{', '}'));
	else if (!quoted && (shlex_is(l, 0, '<') || shlex_is(l, 0, '>')) && shlex_is(l, 1, '('))
		take_nested(l, 2, closing(l->at + 2, l->end, '(', ')'));
	else
		return 0;
	return 1;
}

static void take_double(struct shlex *l)
{
	l->at++;
	while (l->at < l->end && *l->at != '"') {
		if (take_substitution(l, 1))
			continue;
		if (*l->at == '\\' && l->at + 1 < l->end && strchr("$`\"\\\n", l->at[1])) {
			l->at++;
			if (*l->at != '\n')
				shlex_put(l, *l->at);
			l->at++;
			continue;
		}
		shlex_put(l, *l->at++);
	}
	l->at += l->at < l->end;
}

static void take_single(struct shlex *l)
{
	l->at++;
	while (l->at < l->end && *l->at != '\'')
		shlex_put(l, *l->at++);
	l->at += l->at < l->end;
}

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static int ends_word(const struct shlex *l)
{
	return l->at == l->end || is_blank(*l->at) || *l->at == '\n' || strchr(";&|()<>", *l->at);
}

static struct shlex_token shlex_take_word(struct shlex *l)
{
	struct shlex_token t = { SHLEX_WORD, l->words + l->used, 0 };
	size_t from = l->used;

	while (take_substitution(l, 0) || !ends_word(l)) {
		char c = l->at < l->end ? *l->at : '\0';

		if (l->at == l->end)
			break;
		if (c == '\\') {
			l->at++;
			if (l->at < l->end && *l->at != '\n')
				shlex_put(l, *l->at);
			l->at += l->at < l->end;
		} else if (c == '\'' || (c == '$' && shlex_is(l, 1, '\''))) {
			l->at += c == '$';
			take_single(l);
		} else if (c == '"') {
			take_double(l);
		} else if (l->split_braces && (c == '{' || c == '}')) {
			if (l->used > from)
				break;
			shlex_put(l, *l->at++);
			break;
		} else if (!ends_word(l)) {
			shlex_put(l, *l->at++);
		}
	}
	t.len = l->used - from;
	shlex_put(l, '\0');
	return t;
}

static struct shlex_token take_op(struct shlex *l, size_t n, enum shlex_kind kind)
{
	struct shlex_token t = { kind, l->at, n };

	l->at += n;
	return t;
}

static int is_here_document(const struct shlex *l)
{
	return shlex_is(l, 0, '<') && shlex_is(l, 1, '<') && !shlex_is(l, 2, '<');
}

static struct shlex_token shlex_take_redirect(struct shlex *l, size_t digits)
{
	size_t n = digits;

	l->at += digits;
	if (is_here_document(l)) {
		n = shlex_is(l, 2, '-') ? 3 : 2;
		l->body_wanted = n == 3 ? 2 : 1;
		return take_op(l, n, SHLEX_REDIRECT);
	}
	n = shlex_is(l, 0, '&') ? 2 : 1;
	while (n < 3 && (shlex_is(l, n, '<') || shlex_is(l, n, '>') || shlex_is(l, n, '&') || shlex_is(l, n, '|')) && !shlex_is(l, n + 1, '('))
		n++;
	return take_op(l, n, SHLEX_REDIRECT);
}

/* The text of the next here-document that the line before asked for. */
static struct shlex_token shlex_take_body(struct shlex *l)
{
	struct shlex_token t = { SHLEX_BODY, l->at, 0 };
	const char *mark = l->bodies[l->body_at].word;
	size_t len = l->bodies[l->body_at].len;
	int tabs = l->bodies[l->body_at].tabs;

	if (++l->body_at == l->body_count)
		l->body_at = l->body_count = 0;
	while (l->at < l->end) {
		const char *line = l->at, *nl = memchr(line, '\n', (size_t)(l->end - line)), *stop = nl ? nl : l->end;

		while (tabs && line < stop && *line == '\t')
			line++;
		l->at = nl ? nl + 1 : l->end;
		if ((size_t)(stop - line) == len && !memcmp(line, mark, len))
			return t;
		t.len = (size_t)(l->at - t.text);
	}
	return t;
}

static void shlex_skip_blanks(struct shlex *l)
{
	for (;;) {
		while (l->at < l->end && is_blank(*l->at))
			l->at++;
		if (shlex_is(l, 0, '\\') && shlex_is(l, 1, '\n')) {
			l->at += 2;
			continue;
		}
		if (shlex_is(l, 0, '#'))
			while (l->at < l->end && *l->at != '\n')
				l->at++;
		return;
	}
}

struct shlex_token shlex_next(struct shlex *l)
{
	struct shlex_token t;
	size_t digits = 0;

	if (l->in_bodies) {
		t = shlex_take_body(l);
		l->in_bodies = l->body_count > 0;
		return t;
	}
	shlex_skip_blanks(l);
	if (l->at == l->end)
		return (struct shlex_token){ SHLEX_END, l->at, 0 };
	if (*l->at == '\n') {
		l->in_bodies = l->body_count > 0;
		return take_op(l, 1, SHLEX_NEWLINE);
	}
	while (l->at + digits < l->end && l->at[digits] >= '0' && l->at[digits] <= '9')
		digits++;
	if ((shlex_is(l, digits, '<') || shlex_is(l, digits, '>')) && !shlex_is(l, digits + 1, '('))
		return shlex_take_redirect(l, digits);
	if (shlex_is(l, 0, '&') && shlex_is(l, 1, '>'))
		return shlex_take_redirect(l, 0);
	if (strchr("();", *l->at))
		return take_op(l, shlex_is(l, 0, ';') && shlex_is(l, 1, ';') ? 2 : 1, SHLEX_OP);
	if (*l->at == '&' || *l->at == '|')
		return take_op(l, shlex_is(l, 1, *l->at) || (*l->at == '|' && shlex_is(l, 1, '&')) ? 2 : 1, SHLEX_OP);
	t = shlex_take_word(l);
	if (l->body_wanted > 0 && l->body_count < SHLEX_BODIES_MAX) {
		l->bodies[l->body_count].word = t.text;
		l->bodies[l->body_count].len = t.len;
		l->bodies[l->body_count++].tabs = l->body_wanted == 2;
	}
	l->body_wanted = 0;
	return t;
}
