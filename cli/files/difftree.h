/* SPDX-License-Identifier: Apache-2.0 */
/*
 * difftree - what a writable layer changes of an image: a list of paths.
 *
 * The layer is that of an overlay: 0:0 devices hide names, an opaque directory
 * hides what the image has in its place, and one with a redirect was renamed: it
 * brings along what the image has at its old place (Documentation/filesystems/
 * overlayfs.rst).  All of that is told as what it comes to, entry by entry, as a
 * layer committed from it would hold it.
 *
 * What is in the writable layer is hostile and may change while we look: it is only
 * listed and described, through no link, nothing is opened but directories.  The
 * attributes that are read are trusted.*, which nothing in a sandbox can set.
 */
#ifndef BERTH_CLI_FILES_DIFFTREE_H
#define BERTH_CLI_FILES_DIFFTREE_H

#include <stddef.h>

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
void difftree_release(struct difftree *d);

#endif
