/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit - makes the writable layer of a sandbox a layer of a new image.
 */
#ifndef BERTH_ROOTFS_TRANSFER_COMMIT_H
#define BERTH_ROOTFS_TRANSFER_COMMIT_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "rootfs/layer/compression.h"
#include "rootfs/transfer/import.h"

struct commit_options {
	const char *name;	/* name of the new image */
	int upper_fd;		/* the writable layer; nothing in it may change meanwhile */
	int dir_fd;		/* the sandbox's directory, with the record of its image (IMAGE_PIN) */
	uint32_t id_base;	/* first id on this host of its files' owners */
	/* the tenant that owns the sandbox, or NULL: the owner of its image, if it has one */
	const char *owner;
	int on_host;		/* the sandbox was made from the image "host" */
	const char *workdir;	/* the directory that berth may have made for the sandbox */
	const char *author, *message;	/* NULL: none */
	/*
	 * Changes to the config: any of "env" (array of NAME=VALUE, which replace entries of the
	 * same name), "cmd", "entrypoint" (arrays), "workdir", "user" (strings), "labels" (object
	 * of strings, which replace likewise), and after these "instructions" (array, each as in
	 * change.h). May be NULL.
	 */
	const json_t *changes;
	enum compression compression;	/* how to compress the layer: gzip or zstd */
	struct import_options shown;	/* only progress, note and ctx are used */
};

/*
 * Makes the image and returns one object as in import_run()'s array. A sandbox that changed nothing
 * adds no layer. If the sandbox's image is not in the store, the new image has that layer alone,
 * above the host's programs if the sandbox ran on them; ERR_INVALID if there is no layer either.
 */
json_t *commit_run(int store_fd, const struct commit_options *o, struct err *e);

#endif
