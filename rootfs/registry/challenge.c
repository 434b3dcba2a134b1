/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/registry/challenge.h"

#include <string.h>
#include <strings.h>

struct scan {
	const char *p, *end;
};

struct token {
	const char *s;
	size_t n;
};

static int is_token_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static void skip_challenge_blanks(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t'))
		s->p++;
}

/* Skips empty list elements, which are allowed: ", , Basic" */
static void skip_commas(struct scan *s)
{
	do
		skip_challenge_blanks(s);
	while (s->p < s->end && *s->p == ',' && s->p++);
}

static struct token read_token(struct scan *s)
{
	struct token t = { s->p, 0 };

	while (s->p < s->end && is_token_byte(*s->p))
		s->p++;
	t.n = (size_t)(s->p - t.s);
	return t;
}

static int token_is(struct token t, const char *word)
{
	return t.n == strlen(word) && !strncasecmp(t.s, word, t.n);
}

static int bad_challenge(const char *why, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "the registry's request to log in is malformed: %s", why);
}

/* Reads a token or a quoted string, unescaped, into ret of size bytes (NULL: skips it). */
static int read_value(struct scan *s, char *ret, size_t size, struct err *e)
{
	size_t n = 0;
	int quoted = s->p < s->end && *s->p == '"';

	if (quoted)
		s->p++;
	else if (s->p == s->end || !is_token_byte(*s->p))
		return bad_challenge("a parameter has no value", e);
	for (; s->p < s->end && (quoted ? *s->p != '"' : is_token_byte(*s->p)); s->p++) {
		if (quoted && *s->p == '\\' && ++s->p == s->end)
			break;
		if ((unsigned char)*s->p < 0x20 || *s->p == 0x7f)
			return bad_challenge("a value has control characters", e);
		if (ret && n + 1 >= size)
			return bad_challenge("a value is too long", e);
		if (ret)
			ret[n++] = *s->p;
	}
	if (quoted && (s->p == s->end || *s->p++ != '"'))
		return bad_challenge("a quoted value does not end", e);
	if (ret)
		ret[n] = '\0';
	return 0;
}

/* Returns 1 if "NAME =" comes next, which tells a parameter from a scheme. */
static int at_parameter(struct scan s)
{
	if (!read_token(&s).n)
		return 0;
	skip_challenge_blanks(&s);
	return s.p < s.end && *s.p == '=';
}

static int read_parameters(struct scan *s, struct challenge *bearer, struct err *e)
{
	int seen_realm = 0, seen_service = 0;
	struct scan next;

	for (;;) {
		struct token name;
		char *to = NULL;
		size_t size = 0;

		next = *s;
		skip_commas(&next);
		if (!at_parameter(next))
			break;
		*s = next;
		name = read_token(s);
		skip_challenge_blanks(s);
		s->p++;
		skip_challenge_blanks(s);
		if (bearer && token_is(name, "realm")) {
			to = bearer->realm;
			size = sizeof(bearer->realm);
			if (seen_realm++)
				return bad_challenge("two realms", e);
		} else if (bearer && token_is(name, "service")) {
			to = bearer->service;
			size = sizeof(bearer->service);
			if (seen_service++)
				return bad_challenge("two services", e);
		}
		if (read_value(s, to, size, e) < 0)
			return -1;
		skip_challenge_blanks(s);
		if (s->p < s->end && *s->p != ',')
			return bad_challenge("parameters are not separated by commas", e);
	}
	return 0;
}

/*
 * Skips a token68, the one blob that may follow a scheme instead of parameters: "abc==" before a
 * comma or the end.
 */
static void skip_token68(struct scan *s)
{
	struct scan t = *s;

	while (t.p < t.end && (is_token_byte(*t.p) || *t.p == '/'))
		t.p++;
	while (t.p < t.end && *t.p == '=')
		t.p++;
	if (t.p == t.end || *t.p == ',')
		s->p = t.p;
}

static int read_challenge(struct scan *s, struct challenge *ret, struct err *e)
{
	struct challenge found = { 0 };
	struct token scheme = read_token(s);
	int is_bearer = token_is(scheme, "Bearer");

	if (!scheme.n)
		return bad_challenge("no scheme", e);
	if (s->p < s->end && *s->p != ' ' && *s->p != '\t' && *s->p != ',')
		return bad_challenge("no scheme", e);
	skip_challenge_blanks(s);
	skip_token68(s);
	if (read_parameters(s, is_bearer ? &found : NULL, e) < 0)
		return -1;
	if (token_is(scheme, "Basic"))
		ret->basic = 1;
	if (!is_bearer || ret->bearer)
		return 0;
	if (!found.realm[0])
		return bad_challenge("Bearer has no realm", e);
	memcpy(ret->realm, found.realm, sizeof(ret->realm));
	memcpy(ret->service, found.service, sizeof(ret->service));
	ret->bearer = 1;
	return 0;
}

int challenge_parse(const char *value, size_t n, struct challenge *ret, struct err *e)
{
	struct scan s = { value, value + n };

	if (n > CHALLENGE_HEADER_MAX)
		return bad_challenge("it is too long", e);
	for (skip_commas(&s); s.p < s.end; skip_commas(&s)) {
		if (read_challenge(&s, ret, e) < 0)
			return -1;
		skip_challenge_blanks(&s);
		if (s.p < s.end && *s.p != ',')
			return bad_challenge("text after a challenge", e);
	}
	return 0;
}
