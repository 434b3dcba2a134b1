/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit - the writable layer of a sandbox becomes a layer of a new image.
 */
#ifndef BERTH_ROOTFS_TRANSFER_COMMIT_H
#define BERTH_ROOTFS_TRANSFER_COMMIT_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "rootfs/layer/compression.h"
#include "rootfs/transfer/import.h"

struct commit_options {
	const char *name;	/* of the new image */
	int upper_fd;		/* the writable layer, in which nothing changes meanwhile */
	int dir_fd;		/* the sandbox's directory, with the record of its image (IMAGE_PIN) */
	uint32_t id_base;	/* its files' owners on this host begin here */
	/* the tenant that owns the sandbox, or NULL: the owner of its image, if any */
	const char *owner;
	int on_host;		/* the sandbox was made from the image "host" */
	const char *workdir;	/* what berth may have made for it */
	const char *author, *message;	/* NULL: none */
	/*
	 * What the config gets: any of "env" (array of NAME=VALUE, which replace those of
	 * the same name), "cmd", "entrypoint" (arrays), "workdir", "user" (strings),
	 * "labels" (object of strings, likewise), and after these "instructions" (array of those
	 * of change.h).  May be NULL.
	 */
	const json_t *changes;
	enum compression compression;	/* of the layer: gzip or zstd */
	struct import_options shown;	/* progress, note, ctx; the rest is not looked at */
};

/*
 * Returns one object as of import_run()'s array.  A sandbox that changed
 * nothing adds no layer.  Where its image is not one of the store the new one has that layer alone, above
 * the host's programs if they were below it; ERR_INVALID when there is none either.
 */
json_t *commit_run(int store_fd, const struct commit_options *o, struct err *e);

#endif
