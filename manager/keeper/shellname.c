/* SPDX-License-Identifier: Apache-2.0 */
/* The name of the shell in its messages. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/keeper/keeper_session.h"
#include "manager/keeper/shellscript.h"
#include "runtime/sandbox/mountplan.h"

void shellname_init(struct shellname *s, const char *file, const char *name)
{
	int n = snprintf(s->file, sizeof(s->file), "%s: ", file);

	s->len = n > 0 && (size_t)n < sizeof(s->file) ? (size_t)n : 0;
	s->held = 0;
	s->name = name;
}

void shellname_flush(struct shellname *s, void (*put)(void *ctx, const char *p, size_t n), void *ctx)
{
	if (s->held)
		put(ctx, s->file, s->held);
	s->held = 0;
}

/* Returns how many of the last bytes may be the name's beginning. */
static size_t beginning(const struct shellname *s, const char *p, size_t n)
{
	size_t part = n < s->len - 1 ? n : s->len - 1;

	while (part && memcmp(p + n - part, s->file, part))
		part--;
	return part;
}

/*
 * The name began in the piece before: takes the part of it in this one. Returns how many bytes
 * it took.
 */
static size_t continue_shell_name(struct shellname *s, const char *p, size_t n, void (*put)(void *ctx, const char *p, size_t n), void *ctx)
{
	size_t took = 0, drop;

	while (s->held && took < n) {
		if (p[took] == s->file[s->held]) {
			took++;
			if (++s->held < s->len)
				continue;
			put(ctx, s->name, strlen(s->name));
			s->held = 0;
		} else {
			/* not here; but a later one of the held bytes may be its beginning */
			for (drop = 1; drop < s->held && memcmp(s->file, s->file + drop, s->held - drop); drop++)
				;
			put(ctx, s->file, drop);
			s->held -= drop;
		}
	}
	return took;
}

void shellname_feed(struct shellname *s, const char *p, size_t n, void (*put)(void *ctx, const char *p, size_t n), void *ctx)
{
	const char *end = p + n, *found;

	if (!s->len) {
		put(ctx, p, n);
		return;
	}
	p += continue_shell_name(s, p, n, put, ctx);
	while (p < end && (found = memmem(p, (size_t)(end - p), s->file, s->len))) {
		if (found > p)
			put(ctx, p, (size_t)(found - p));
		put(ctx, s->name, strlen(s->name));
		p = found + s->len;
	}
	if (p == end)
		return;
	s->held = beginning(s, p, (size_t)(end - p));
	if ((size_t)(end - p) > s->held)
		put(ctx, p, (size_t)(end - p) - s->held);
}
