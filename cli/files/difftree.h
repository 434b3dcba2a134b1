/* SPDX-License-Identifier: Apache-2.0 */
/*
 * difftree - the changes of a writable layer to an image: a list of paths.
 *
 * The layer is that of an overlay: 0:0 devices hide names, an opaque directory hides the image's
 * directory in its place, and one with a redirect was renamed, and brings along what the image
 * has at its old place (Documentation/filesystems/overlayfs.rst). All of that is reported by its
 * effect, entry by entry, as a layer committed from it would hold it.
 *
 * The content of the writable layer is hostile and may change while we look. It is only listed
 * and described, through no link, and only directories are opened. The attributes that are read
 * are trusted.*, which no process in a sandbox can set.
 */
#ifndef BERTH_CLI_FILES_DIFFTREE_H
#define BERTH_CLI_FILES_DIFFTREE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "runtime/sandbox/spec.h"

#define DIFFTREE_CHANGES_MAX 1000000

struct difftree_change {
	char kind;	/* A, C or D */
	char *path;	/* absolute in the sandbox */
};

struct difftree {
	int layer[SPEC_LAYERS_MAX];	/* of the image, topmost first; the caller's */
	int layers;
	char workdir[4096];	/* absolute; made by berth where the image lacks it */
	struct difftree_change *list;
	size_t count, cap;
	int depth;
	char path[4097];
};

/* Fills the list, sorted by path.  Takes over upper. */
int difftree_compare(struct difftree *d, int upper, struct err *e);
/*
 * The regular file that the image has at path, to read; -1: there is none, or not everyone may read
 * it, as the image may be the host.
 */
int difftree_image_file(const struct difftree *d, const char *path);
void difftree_release(struct difftree *d);

/* ---- between two layers ---- */

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
