/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watchrecord - the records of the file helper's `watch` (runtime/fileop/watch.h).
 *
 * Pure.  What comes from a sandbox is hostile: a record that is malformed or longer than any is
 * refused.  Strings point into the text that was read.
 */
#ifndef BERTH_MANAGER_API_WATCHRECORD_H
#define BERTH_MANAGER_API_WATCHRECORD_H

#include "manager/keeper/fileclient.h"

#define WATCHRECORD_MAX 16384 /* bytes of one: two paths and some numbers */

struct watchrecord {
	char what;        /* a letter of watch.h */
	const char *name; /* relative to the directory */
	int has_file;     /* what it is now is in file */
	struct filerecord file;
};

/* Takes the next record from *at: 1; 0 if the rest is not a whole record; -1 with ERR_CORRUPT. */
int watchrecord_next(const char **at, const char *end, int with_files, struct watchrecord *ret,
		     struct err *e);
/* "EVENT_TYPE_CREATE" and its like, of filesystem.proto. */
const char *watchrecord_type(const struct watchrecord *r);

#endif
