/* SPDX-License-Identifier: Apache-2.0 */
/* place - finds the destination of a copy, as cp(1) does. */
#ifndef BERTH_RUNTIME_FILEOP_PLACE_H
#define BERTH_RUNTIME_FILEOP_PLACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* ---- the names that a copy made ---- */

/*
 * takeback - the names that a copy made, so that a failed copy can remove them.
 *
 * Only names that did not exist before are noted. A file is removed if it still is the same
 * inode, a directory if it holds nothing of another process. At most TAKEBACK_MAX bytes of names
 * are kept; above that nothing is removed.
 */

#define TAKEBACK_MAX (16u << 20)

struct takeback {	/* {0}: empty */
	char *notes;
	size_t len, room;
	int overflowed;
};

enum takeback_kind { TAKEBACK_DIR, TAKEBACK_LINK, TAKEBACK_FILE };

/*
 * Notes a name. path is relative to the directory that takeback_undo() gets; ino is the inode of a
 * file, else 0.
 */
void takeback_note(struct takeback *t, enum takeback_kind kind, ino_t ino, const char *path);
/*
 * Removes the noted names, the last first, each reached from dirfd by pathwalk_open() with resolve;
 * 0: as open(2) would. Returns -1 if a name could not be removed or was not noted.
 */
int takeback_undo(struct takeback *t, int dirfd, uint64_t resolve);
void takeback_release(struct takeback *t);

/* ---- the destination of a copy ---- */
/* Flags of a copy; extract_to() takes them, too. */
enum extract_flags {
	EXTRACT_STRICT = 1,	/* on the host */
	EXTRACT_CONTENTS = 2,	/* the stream holds the contents of a directory: "." is dest */
	/* dest must be a directory, because the archive comes from the caller */
	EXTRACT_INTO = 4,
	EXTRACT_OWNERS = 8,	/* give files the owners of the archive */
	EXTRACT_REPLACE = 16,	/* as rename(2): anything but a directory is replaced */
	EXTRACT_PARENTS = 32,	/* make missing directories on the way to dest */
};

struct place {
	int fd;			/* the directory to write in; the caller closes it */
	char rename[256];	/* replaces the first component of each name; "": no change */
	int must_be_dir;	/* dest ends in a slash and does not exist yet */
};

/*
 * Opens the destination. The caller chose dest, so links in it are followed. flags are
 * extract_flags; directories that EXTRACT_CONTENTS and EXTRACT_PARENTS make are noted in made,
 * relative to the working directory. ERR_NOT_FOUND, ERR_INVALID, ERR_SYS.
 */
int place_open(struct place *ret, const char *dest, int flags, struct takeback *made, struct err *e);

#endif
