/* SPDX-License-Identifier: Apache-2.0 */
/*
 * look - lists the sandbox's files as records on stdout.
 *
 * A record is "MODE UID GID SIZE SEC.NSEC NLINK NAME\0LINK\0". Paths are the caller's, resolved in
 * the sandbox where the helper runs. The verbs take their arguments as main.c has them.
 */
#ifndef BERTH_RUNTIME_FILEOP_LOOK_H
#define BERTH_RUNTIME_FILEOP_LOOK_H

#include <sys/stat.h>

#include "base/err.h"

/* "." and "..". */
static inline int look_is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/*
 * Prefix of the attributes that E2B's clients set, which are text. A record has them as
 * "NAME=VALUE" lines, in place of a link's target.
 */
#define LOOK_METADATA "user.e2b."
#define LOOK_METADATA_MAX 4096 /* bytes; a file with more is shown without attributes */

/* Prints the record of name below dirfd, under the name shown. */
void look_record(int dirfd, const char *name, const char *shown, const struct stat *st);
int look_list(char **a, struct err *e);
int look_stat(char **a, struct err *e);
int look_snap(char **a, struct err *e);

#endif
