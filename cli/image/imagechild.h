/* SPDX-License-Identifier: Apache-2.0 */
/* imagechild - a verb of berth-image, run for a command that goes on afterwards. */
#ifndef BERTH_CLI_IMAGE_IMAGECHILD_H
#define BERTH_CLI_IMAGE_IMAGECHILD_H

#include <stddef.h>

#include "base/err.h"
#include "cli/command.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/checkpoint.h"

/*
 * Runs it with argv, of which argv[0] is replaced, and with these descriptors, which argv names.
 * It dies with us, and prints its own errors.  out_fd, or -1: in place of stdout.  *ret_status is
 * its exit status, 128 + n for a signal.
 */
int imagechild_run(const struct command *self, int json, char **argv, const int *fds, size_t n,
		   int out_fd, int *ret_status, struct err *e);

/* ---- the layer that it reads ---- */

/* layersource - the files of a sandbox's checkpoint, for berth-image to read. */

struct layersource {
	int base_fd, upper_fd; /* a detached mount that nobody writes to, and "upper" in it */
	uint32_t id_base;      /* of its owners */
	char id[CHECKPOINT_ID];
};

#define LAYERSOURCE_NONE                                                                           \
	{                                                                                          \
		.base_fd = -1, .upper_fd = -1                                                      \
	}

/* dir_fd: the sandbox's directory; it may run meanwhile. */
int layersource_open(int dir_fd, const char *word, struct layersource *ret, struct err *e);
void layersource_close(struct layersource *l);
/* The directory that berth may have made in the sandbox for its commands. */
void layersource_workdir(struct sandbox_ref *s, char *out, size_t n);

#endif
