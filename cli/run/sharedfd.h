/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharedfd - what a command of the sandbox can do to descriptors it shares with us.
 *
 * stdin, stdout and stderr are the caller's own: the command may make them
 * non-blocking, clear O_APPEND, or seek.  That must neither stay with the caller
 * (the next command of a shell pipeline), nor lose or misplace a verdict.
 */
#ifndef BERTH_CLI_RUN_SHAREDFD_H
#define BERTH_CLI_RUN_SHAREDFD_H

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

#define SHAREDFD_MAX 4

struct sharedfd {
	int fd[SHAREDFD_MAX], flags[SHAREDFD_MAX];
};

/* Notes the status flags of 0, 1, 2 and status_fd (-1: none); gives them back, when something has changed them. */
void sharedfd_note(struct sharedfd *s, int status_fd);
void sharedfd_give_back(const struct sharedfd *s);
/*
 * Writes one line after all that was written: of a regular file at its end, and
 * on a line of its own; waiting where it must.  0, or -1 with errno.
 */
int sharedfd_last_line(int fd, const char *line, size_t n);

/* The same with a verdict, as JSON; fd -1: nothing. */
int sharedfd_verdict(int fd, const json_t *verdict, struct err *e);

/* The descriptor that --status-fd value names.  ERR_INVALID when it is not open. */
int sharedfd_option(const char *value, int *ret_fd, struct err *e);

#endif
