/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shlex - cuts a text into the words and operators of a shell.
 *
 * It knows enough of POSIX and bash to look at command lines: quotes and escapes are removed,
 * comments skipped, here-documents set aside, $(...), `...`, <(...) handed to a callback. Nothing
 * is expanded. Never fails: an unfinished quote ends with the text.
 */
#ifndef BERTH_MANAGER_HOST_SHLEX_H
#define BERTH_MANAGER_HOST_SHLEX_H

#include <stddef.h>

enum shlex_kind {
	SHLEX_END,
	SHLEX_WORD,
	SHLEX_OP,	/* ; ;; & && | || ( ) and similar */
	SHLEX_NEWLINE,
	SHLEX_REDIRECT,	/* its target is the word that follows */
	SHLEX_BODY,	/* the text of a here-document, after the newline */
};

#define SHLEX_BODIES_MAX 8	/* most here-documents on one line */

struct shlex {
	const char *at, *end;
	char *words;		/* unquoted words; the caller's, of shlex_room() bytes */
	size_t used;
	int split_braces;	/* { and } are words of their own wherever they stand */
	/* called with the text within a substitution; may be NULL */
	void (*nested)(void *ctx, const char *text, size_t n);
	void *ctx;
	struct { const char *word; size_t len; int tabs; } bodies[SHLEX_BODIES_MAX];
	int body_count, body_at, in_bodies;
	int body_wanted;	/* the next word is the end mark of a here-document: 1, with tabs 2 */
};

struct shlex_token {
	enum shlex_kind kind;
	const char *text;	/* a word without its quotes, NUL-terminated; an operator's or body's own bytes */
	size_t len;
};

/* Returns the bytes that the words of a text of n bytes may need. */
size_t shlex_room(size_t n);
void shlex_init(struct shlex *l, const char *text, size_t n, char *words);
struct shlex_token shlex_next(struct shlex *l);
/* Says that the words returned so far are no longer used. */
void shlex_forget(struct shlex *l);

#endif
