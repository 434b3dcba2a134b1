/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imageuse - from the IMAGE word of a command line to layers of a spec.
 *
 * "host", a path (starting with / or .), or an image of the store.
 */
#ifndef BERTH_CLI_IMAGEUSE_H
#define BERTH_CLI_IMAGEUSE_H

#include "manager/registry.h"
#include "rootfs/image.h"
#include "runtime/spec.h"

struct imageuse {
	struct image image;
	int has_image;		/* image is one of the store */
	int store_fd;
	int hold_fd;		/* keeps it from gc */
};

#define IMAGEUSE_INIT ((struct imageuse){ .store_fd = -1, .hold_fd = -1 })

int imageuse_open(struct imageuse *u, const struct registry *r, const char *ref, struct spec *s, struct err *e);
/* Also closes the spec's layers. */
void imageuse_close(struct imageuse *u, struct spec *s);

#endif
