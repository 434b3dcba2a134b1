/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linediff - the lines that two texts differ in, as hunks of a unified diff.
 *
 * Myers, "An O(ND) Difference Algorithm" (1986), with a bound on D: texts that differ in more than
 * LINEDIFF_MAX lines are shown as removed and added whole, which is a right patch too.
 * Pure: hostile texts cost time and memory within that bound.
 */
#ifndef BERTH_CLI_FILES_LINEDIFF_H
#define BERTH_CLI_FILES_LINEDIFF_H

#include <stddef.h>

#include "base/buf.h"

#define LINEDIFF_MAX 1000

struct linediff_text {
	const char *text;
	size_t n;
};

/* Appends the hunks with three lines of context each; nothing when the texts are the same. */
int linediff(const struct linediff_text *a, const struct linediff_text *b, struct buf *ret,
	     struct err *e);

#endif
