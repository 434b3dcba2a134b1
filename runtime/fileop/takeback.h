/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeback - the names that a copy made, so that a failed copy can remove them.
 *
 * Only names that did not exist before are noted. A file is removed if it still is the same
 * inode, a directory if it holds nothing of another process. At most TAKEBACK_MAX bytes of names
 * are kept; above that nothing is removed.
 */
#ifndef BERTH_RUNTIME_FILEOP_TAKEBACK_H
#define BERTH_RUNTIME_FILEOP_TAKEBACK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TAKEBACK_MAX (16u << 20)

struct takeback {	/* {0}: empty */
	char *notes;
	size_t len, room;
	int overflowed;
};

enum takeback_kind { TAKEBACK_DIR, TAKEBACK_LINK, TAKEBACK_FILE };

/* path is relative to the directory that takeback_undo() is given; ino is that of a file, else 0. */
void takeback_note(struct takeback *t, enum takeback_kind kind, ino_t ino, const char *path);
/*
 * Removes what was noted, the last first, each reached from dirfd by pathwalk_open() with resolve; 0: as open(2)
 * would.  Returns -1 when something could not be removed or was not noted.
 */
int takeback_undo(struct takeback *t, int dirfd, uint64_t resolve);
void takeback_release(struct takeback *t);

#endif
