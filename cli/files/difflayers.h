/* SPDX-License-Identifier: Apache-2.0 */
/*
 * difflayers - what changed between two writable layers of one sandbox.
 *
 * Each layer is compared with the image (difftree.h); a path that only one of them changed has
 * changed between them, and one that both changed is looked at in both.  Type, mode, owner, size,
 * link target and content count, times and extended attributes do not.
 *
 * Both layers stand still, and what is in them is hostile: nothing is followed, only directories
 * and regular files are opened, at most PATCH_FILE_MAX bytes are shown of a file, and names are
 * cleaned for a terminal.
 */
#ifndef BERTH_CLI_FILES_DIFFLAYERS_H
#define BERTH_CLI_FILES_DIFFLAYERS_H

#include "base/buf.h"
#include "base/err.h"
#include "runtime/sandbox/spec.h"

#define PATCH_FILE_MAX (1u << 20)
#define PATCH_ALL_MAX (16u << 20)

struct difflayers {
	int from, to;               /* the two "upper" */
	int image[SPEC_LAYERS_MAX]; /* topmost first */
	int images;
	char workdir[4096];
};

struct diffview {
	int json, patch;
};

/* Compares and prints.  The descriptors stay the caller's. */
int difflayers_show(const struct difflayers *l, const struct diffview *v, struct err *e);

/* A change as a line, and its patch (which it cuts up); 0, or -1 when stdout cannot be written. */
int difflayers_print(char kind, const char *path, struct buf *patch);

#endif
