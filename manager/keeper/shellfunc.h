/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shellfunc - the functions that texts define: dash and ash do not tell what is in theirs.
 *
 * Found by reading the texts as a shell would, without running anything: NAME() and a body in
 * braces or parentheses.  The shell is asked later whether NAME is a function (shellstate.h).
 * Functions of a file that a text sources, or that eval defines, are not found.
 *
 * Pure.  The owner calls shellfuncs_release().
 */
#ifndef BERTH_MANAGER_KEEPER_SHELLFUNC_H
#define BERTH_MANAGER_KEEPER_SHELLFUNC_H

#include <stddef.h>

#include "base/err.h"

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

#endif
