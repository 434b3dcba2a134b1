/* SPDX-License-Identifier: Apache-2.0 */
/*
 * difftar - the writable layer of an overlay as an OCI layer.
 *
 * The marks of overlayfs (0:0 devices and trusted.overlay.* attributes) become whiteout files
 * ("A/.wh.B", "A/.wh..wh..opq") of the OCI image-spec, layer.md: a directory that was renamed
 * (trusted.overlay.redirect) is written in full, since layers know no renaming. Owners become the
 * image's ids. Left out are devices, sockets, names that would read as whiteouts, and files that
 * berth itself made: mount points and /etc/hosts, hostname, resolv.conf.
 *
 * Two steps: difftar_scan() needs CAP_SYS_ADMIN for those attributes, and opens
 * nothing but directories; difftar_write() does the rest and runs confined.  The
 * content is hostile; nothing may run in the sandbox meanwhile.
 */
#ifndef BERTH_ROOTFS_LAYER_DIFFTAR_H
#define BERTH_ROOTFS_LAYER_DIFFTAR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "rootfs/layer/tarout.h"

struct difftar_mark {
	char *path;
	char *redirect;		/* NULL: not renamed */
	int opaque;
};

/* The directories of the writable layer that carry a mark of overlayfs, sorted by path. */
struct difftar_marks {
	struct difftar_mark *list;
	size_t count, cap;
	size_t bytes;
};

int difftar_scan(int upper_fd, struct difftar_marks *ret, struct err *e);
/*
 * For a layer that is packed without its image: ERR_UNSUPPORTED if a renamed directory has files
 * from the layers below.
 */
int difftar_check_renamed(const struct difftar_marks *m, struct err *e);
void difftar_release(struct difftar_marks *m);

struct difftar {
	int upper_fd;
	int lower_fd;		/* the image's merged tree; -1: all marks are written */
	const struct difftar_marks *marks;
	uint32_t id_base, id_count;
	const char *workdir;	/* absolute; a directory that berth made if it was missing */
	enum compression compression;
	uint64_t max_bytes;	/* most bytes of the tar: ERR_LIMIT above */
};

/* Writes the layer. ret->entries is 0 if nothing was changed. */
int difftar_write(const struct difftar *d, int out_fd, struct tarout_stats *ret, struct err *e);

#endif
