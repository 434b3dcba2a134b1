/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shellfunc - the functions that texts define: dash and ash do not tell what is in theirs.
 *
 * Found by reading the texts as a shell would, without running anything: NAME() and a body in
 * braces or parentheses.  The shell is asked later whether NAME is a function.
 * Functions of a file that a text sources, or that eval defines, are not found.
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
		char *name, *text; /* text: its whole definition */
	} * list;
	size_t count, bytes;
};

/* Takes in those that the text defines.  ERR_LIMIT: too many; those before are there. */
int shellfuncs_add(struct shellfuncs *f, const char *text, size_t n, struct err *e);
void shellfuncs_release(struct shellfuncs *f);

/*
 * The state of a session's shell as a script that brings it back.
 *
 * A checkpoint asks each shell that waits for a command.  The shell writes to the status pipe what
 * its own built-ins say of its variables, functions, aliases, options, traps, umask and
 * parameters, in sections that end with a NUL byte: no variable holds one.  shellstate_script()
 * makes a script of it, which a new shell of the same kind reads after an undo.
 *
 * Pure: texts only.  The dump comes from an untrusted shell, and its script is only ever read by a
 * shell of the same sandbox; but only what has the form of an answer is taken over.
 *
 * What stays behind: shell variables that the shell itself sets (RANDOM, PIPESTATUS, ...), open
 * descriptors, background jobs, ulimits, the history and the directory stack.
 */

#define SHELLSTATE_MAX (256u << 10) /* of a dump, and of its script */

/* Appends the script with which a shell tells its state; funcs: of one that cannot list its own. */
int shellstate_question(int is_bash, const struct shellfuncs *funcs, struct buf *ret,
			struct err *e);
/*
 * Appends the script that brings the state of a dump of n bytes back.  env: the count variables
 * ("NAME=...") that a new shell begins with, and which the dump may not have any more.
 * ERR_INVALID: it is no dump.  ERR_LIMIT: the script is too long.
 */
int shellstate_script(int is_bash, const char *dump, size_t n, const char *const *env, size_t count,
		      const struct shellfuncs *funcs, struct buf *ret, struct err *e);

#endif
