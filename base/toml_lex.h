/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toml_lex - what toml.c (tables and keys) and toml_value.c (values) share.
 *
 * The cursor p never passes end.  A function that fails has set t->e and
 * leaves p where the fault is.
 */
#ifndef BERTH_BASE_TOML_LEX_H
#define BERTH_BASE_TOML_LEX_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/toml.h"

/* How a table or array was made; decides what may still be added to it. */
enum toml_how {
	TOML_VALUE,	/* an inline table or array: closed */
	TOML_IMPLIED,	/* on the way to a [header]: may still get its own header, once */
	TOML_HEADER,	/* by [header], the root, or an element of [[header]] */
	TOML_DOTTED,	/* by a dotted key: may get more dotted keys, no header */
	TOML_LIST,	/* the array of [[header]] */
};

struct toml_mark {
	const json_t *j;
	enum toml_how how;
};

struct toml {
	const char *text, *p, *end;
	const char *what;
	struct err *e;
	size_t keys;			/* so far */
	/* by address, open addressing; a missing one is TOML_VALUE */
	struct toml_mark *marks;
	size_t mark_count, mark_cap;	/* cap is 0 or a power of two */
};

struct toml_key {
	struct buf text;		/* the parts, each with its NUL */
	size_t offset[TOML_DEPTH_MAX];
	size_t count;
};

/* Returns -1 with "what:line:column: message" for the place at. */
int toml_fail(struct toml *t, const char *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Blanks and tabs. */
void toml_skip_blanks(struct toml *t);
/* Blanks, newlines and comments. */
int toml_skip_lines(struct toml *t);

/* "key = value" into table; depth is that of table. */
int toml_read_pair(struct toml *t, json_t *table, unsigned depth);

/* A new reference, or NULL. */
json_t *toml_read_value(struct toml *t, unsigned depth);
/* A string of any of the four kinds, or of the two one-line kinds when !multi. */
int toml_read_string(struct toml *t, struct buf *out, int multi);

#endif
