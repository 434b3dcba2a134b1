/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shellname - puts the shell's name into its messages, in place of our file's.
 *
 * A shell writes the name of the file that it reads before its messages, and the file is ours:
 * "/run/.berth/main: line 1: foo: command not found" from bash, "sh: 1: /run/.berth/main: foo:
 * not found" from dash. In a user's script these are "bash: line 1: ..." and "sh: 1: ...", and
 * so the messages are changed to that. Bash cannot be given another name: it prefers
 * BASH_SOURCE, which cannot be assigned, to $0.
 *
 * Pure: fed with pieces of output, it passes all other bytes on unchanged.
 */
#ifndef BERTH_MANAGER_KEEPER_SHELLNAME_H
#define BERTH_MANAGER_KEEPER_SHELLNAME_H

#include <stddef.h>

#define SHELLNAME_MAX 96

struct shellname {
	/* the text to replace: the file's name, a colon, a blank; "": none */
	char file[SHELLNAME_MAX];
	size_t len, held;		/* held: the number of its bytes that came last */
	const char *name;		/* by what */
};

/* file: absolute, of at most SHELLNAME_MAX - 3 bytes; name: with colon and blank, or "", borrowed. */
void shellname_init(struct shellname *s, const char *file, const char *name);
/* Hands n bytes at p on to put(), but for an end that may be the name's beginning. */
void shellname_feed(struct shellname *s, const char *p, size_t n, void (*put)(void *ctx, const char *p, size_t n), void *ctx);
/* Passes on the held bytes: no more come, or not for now. */
void shellname_flush(struct shellname *s, void (*put)(void *ctx, const char *p, size_t n), void *ctx);

#endif
