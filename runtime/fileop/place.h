/* SPDX-License-Identifier: Apache-2.0 */
/* place - where a copy goes: its destination, understood as cp(1) does. */
#ifndef BERTH_RUNTIME_FILEOP_PLACE_H
#define BERTH_RUNTIME_FILEOP_PLACE_H

#include "base/err.h"
#include "runtime/fileop/takeback.h"

/* What a copy makes and replaces; extract_to() takes them, too. */
enum extract_flags {
	EXTRACT_STRICT = 1,	/* on the host */
	EXTRACT_CONTENTS = 2,	/* the stream holds the contents of a directory: "." is dest */
	/* dest must be a directory, because the archive comes from the caller */
	EXTRACT_INTO = 4,
	EXTRACT_OWNERS = 8,	/* give files the owners of the archive */
	EXTRACT_REPLACE = 16,	/* as rename(2): anything but a directory is replaced */
	EXTRACT_PARENTS = 32,	/* make the directories on the way to dest that are missing */
};

struct place {
	int fd;			/* the directory that is written in; the caller closes it */
	char rename[256];	/* replaces the first component of each name; "": no change */
	int must_be_dir;	/* dest ends in a slash and is not there yet */
};

/*
 * dest is the caller's word: links in it are followed.  flags are extract_flags; what EXTRACT_CONTENTS and
 * EXTRACT_PARENTS make is noted in made, relative to the working directory.  ERR_NOT_FOUND, ERR_INVALID, ERR_SYS.
 */
int place_open(struct place *ret, const char *dest, int flags, struct takeback *made, struct err *e);

#endif
