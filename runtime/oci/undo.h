/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_undo - what cgroup files held before an update wrote to them.
 *
 * A list of limits is written one file at a time, and the kernel may refuse the
 * third.  The files are then written back, the last one first: every state on
 * the way back was one on the way there, so the kernel takes it again.
 */
#ifndef BERTH_RUNTIME_OCI_UNDO_H
#define BERTH_RUNTIME_OCI_UNDO_H

#include <stddef.h>

#include "base/err.h"

struct oci_undo_entry {
	int dir_fd;	/* borrowed */
	char *file, *text;
};

struct oci_undo {
	struct oci_undo_entry *list;
	size_t count;
};

/*
 * Call it before text is written to dir_fd/file: keeps the old value, to restore it. In a file
 * with a line for each device or interface that is the line for the one in text. A file that
 * cannot be read is left out.
 */
int oci_undo_note(struct oci_undo *u, int dir_fd, const char *file, const char *text, struct err *e);
/* Forgets the last one: it was not written. */
void oci_undo_drop(struct oci_undo *u);
/*
 * Restores all of them, and continues after one that the kernel refuses; then returns the first
 * such error.
 */
int oci_undo_restore(const struct oci_undo *u, struct err *e);
void oci_undo_release(struct oci_undo *u);

#endif
