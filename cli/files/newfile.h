/* SPDX-License-Identifier: Apache-2.0 */
/* newfile - a file that did not exist, and has a name only when all of it is there. */
#ifndef BERTH_CLI_FILES_NEWFILE_H
#define BERTH_CLI_FILES_NEWFILE_H

#include "base/err.h"

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
