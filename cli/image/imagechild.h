/* SPDX-License-Identifier: Apache-2.0 */
/* imagechild - a verb of berth-image, run for a command that goes on afterwards. */
#ifndef BERTH_CLI_IMAGE_IMAGECHILD_H
#define BERTH_CLI_IMAGE_IMAGECHILD_H

#include <stddef.h>

#include "base/err.h"
#include "cli/command.h"

/*
 * Runs it with argv, of which argv[0] is replaced, and with these descriptors, which argv names.
 * It dies with us, and prints its own errors.  out_fd, or -1: in place of stdout.  *ret_status is
 * its exit status, 128 + n for a signal.
 */
int imagechild_run(const struct command *self, int json, char **argv, const int *fds, size_t n,
		   int out_fd, int *ret_status, struct err *e);

#endif
