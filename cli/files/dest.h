/* SPDX-License-Identifier: Apache-2.0 */
/* dest - where output goes: stdout, or a file that appears whole or not at all. */
#ifndef BERTH_CLI_FILES_DEST_H
#define BERTH_CLI_FILES_DEST_H

#include "base/err.h"
#include "base/path.h"

struct dest {
	int fd;
	struct path_file file;	/* its fd is -1 when path is written directly */
	const char *path;	/* borrowed */
};

/* "-" is stdout, which must be no terminal; a device or pipe is written directly.  hint: what to do instead of a terminal. */
int dest_open(struct dest *d, const char *path, const char *hint, struct err *e);
/* rc -1 with e, which stays: nothing is left.  Else 0, or -1 with e. */
int dest_close(struct dest *d, int rc, struct err *e);

/* ---- a file that did not exist ---- */

/* newfile - a file that did not exist, and has a name only when all of it is there. */

/*
 * Its descriptor, of a file without a name (O_TMPFILE); "-" is our stdout, which must be no
 * terminal.  what: of its content, such as "a checkpoint".  ERR_EXISTS, ERR_USAGE.
 */
int newfile_open(const char *path, const char *what, struct err *e);
/* Puts it on the disk under its name.  "-": nothing is done. */
int newfile_name(int fd, const char *path, struct err *e);
/* -1 is no file, and stdout stays open. */
void newfile_close(int *fd);

#endif
