/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shellfunc - finds the functions that texts define.
 *
 * dash and ash do not list their functions, so the texts are read as a shell would, without running
 * anything: NAME() and a body in braces or parentheses. The shell is asked later whether NAME is a
 * function. Functions of a file that a text sources, or that eval defines, are not found.
 *
 * Pure.  The owner calls shellfuncs_release().
 */
#ifndef BERTH_MANAGER_KEEPER_SHELLSTATE_H
#define BERTH_MANAGER_KEEPER_SHELLSTATE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* ---- the functions that texts define ---- */

#define SHELLFUNCS_MAX 256
#define SHELLFUNCS_BYTES (128u << 10) /* of all */

struct shellfuncs {
	struct shellfunc {
		char *name, *text; /* text: the whole definition */
	} * list;
	size_t count, bytes;
};

/* Adds the functions that the text defines. ERR_LIMIT: too many; earlier ones are kept. */
int shellfuncs_add(struct shellfuncs *f, const char *text, size_t n, struct err *e);
void shellfuncs_release(struct shellfuncs *f);

/*
 * shellstate - keeps the state of a session's shell as a script that restores it.
 *
 * A checkpoint asks each shell that waits for a command. The shell writes the output of its own
 * built-ins about its variables, functions, aliases, options, traps, umask and parameters to the
 * status pipe, in sections that end with a NUL byte, which no variable can hold.
 * shellstate_script() makes a script from it, which a new shell of the same kind reads after an
 * undo.
 *
 * Pure: texts only. The dump comes from an untrusted shell, and its script is only ever read by a
 * shell of the same sandbox; but only text in the form of an answer is taken over.
 *
 * Not restored are shell variables that the shell itself sets (RANDOM, PIPESTATUS, ...), open
 * descriptors, background jobs, ulimits, the history and the directory stack.
 */

#define SHELLSTATE_MAX (256u << 10) /* most bytes of a dump, and of its script */

/* Appends the script by which a shell reports its state; funcs: those of a shell that cannot list its own. */
int shellstate_question(int is_bash, const struct shellfuncs *funcs, struct buf *ret,
			struct err *e);
/*
 * Appends the script that restores the state of a dump of n bytes. env: the count variables
 * ("NAME=...") with which a new shell begins, and which the dump may lack. ERR_INVALID: it is no
 * dump. ERR_LIMIT: the script is too long.
 */
int shellstate_script(int is_bash, const char *dump, size_t n, const char *const *env, size_t count,
		      const struct shellfuncs *funcs, struct buf *ret, struct err *e);

#endif
