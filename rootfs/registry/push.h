/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push - sends images from the store, or from another registry, to a registry.
 *
 * Documents and layers are sent byte for byte, so the digest stays. A blob that the registry has
 * is not sent; a blob that another of its repositories has is mounted from there. The manifest
 * is sent last.
 */
#ifndef BERTH_ROOTFS_REGISTRY_PUSH_H
#define BERTH_ROOTFS_REGISTRY_PUSH_H

#include "base/err.h"
#include "base/json.h"
#include "rootfs/registry/pull.h"
#include "rootfs/registry/remote.h"

struct push_options {
	const char *image;	/* a name in the store; for copies the source's reference */
	const char *ref;	/* where to */
	const char *platform;	/* copies only: which platform of an index; NULL: this machine's */
	int all;		/* copies only: copy the whole index, all platforms */
	const struct remote_options *remote;
	void (*event)(void *ctx, const struct pull_event *ev);	/* PULL_LAYER: bytes sent */
	void *ctx;
};

/*
 * Returns a new object {"name","digest","layers","size","sent_bytes","existed",
 * "mounted"}; the last two count blobs.
 */
json_t *push_run(int store_fd, const struct push_options *o, struct err *e);
/* As push_run(), from a registry, through temporary files in the store. */
json_t *copy_remote(int store_fd, const struct push_options *o, struct err *e);
/* Gives an image of the store a further name: {"name","digest"}. */
json_t *copy_local(int store_fd, const char *image, const char *name, struct err *e);

#endif
