/* SPDX-License-Identifier: Apache-2.0 */
/* layersource - the files of a sandbox's checkpoint, for berth-image to read. */
#ifndef BERTH_CLI_IMAGE_LAYERSOURCE_H
#define BERTH_CLI_IMAGE_LAYERSOURCE_H

#include "cli/live/sandbox_open.h"
#include "manager/host/checkpoint.h"

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
