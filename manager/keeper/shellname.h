/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shellname - the shell's name in its messages, in place of our file's.
 *
 * A shell puts the name of the file it reads before what it reports, and the
 * file is ours: "/run/.berth/main: line 1: foo: command not found" of bash,
 * "sh: 1: /run/.berth/main: foo: not found" of dash.  A script of the user's
 * would say "bash: line 1: ..." and "sh: 1: ...", and so does what comes out
 * here.  Bash cannot be told another name: it takes it from BASH_SOURCE, which
 * cannot be assigned, in preference to $0.
 *
 * Pure: fed with pieces of output, it hands all other bytes on as they are.
 */
#ifndef BERTH_MANAGER_KEEPER_SHELLNAME_H
#define BERTH_MANAGER_KEEPER_SHELLNAME_H

#include <stddef.h>

#define SHELLNAME_MAX 96

struct shellname {
	char file[SHELLNAME_MAX];	/* what is replaced: the file's name, a colon, a blank; "": nothing is */
	size_t len, held;		/* so many bytes of it were the last that came */
	const char *name;		/* by what */
};

/* file: absolute, of at most SHELLNAME_MAX - 3 bytes; name: with colon and blank, or "", borrowed. */
void shellname_init(struct shellname *s, const char *file, const char *name);
/* Hands n bytes at p on to put(), but for an end that may be the name's beginning. */
void shellname_feed(struct shellname *s, const char *p, size_t n, void (*put)(void *ctx, const char *p, size_t n), void *ctx);
/* Hands on what was held back: no more comes, or not for now. */
void shellname_flush(struct shellname *s, void (*put)(void *ctx, const char *p, size_t n), void *ctx);

#endif
