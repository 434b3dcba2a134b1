/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push - images from the store, or from another registry, to a registry.
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
	const char *image;	/* a name of the store; for copies the source's reference */
	const char *ref;	/* where to */
	const char *platform;	/* copies only: of an index, NULL this machine's */
	int all;		/* copies only: the whole index, all platforms */
	const struct remote_options *remote;
	void (*event)(void *ctx, const struct pull_event *ev);	/* PULL_LAYER: bytes sent */
	void *ctx;
};

/*
 * Returns a new object {"name","digest","layers","size","sent_bytes","existed",
 * "mounted"}; the last two count blobs.
 */
json_t *push_run(int store_fd, const struct push_options *o, struct err *e);
/* The same from a registry, through files of the store that are removed again. */
json_t *copy_remote(int store_fd, const struct push_options *o, struct err *e);
/* A further name for an image of the store: {"name","digest"}. */
json_t *copy_local(int store_fd, const char *image, const char *name, struct err *e);

/* ---- what push.c and copy.c share ---- */

struct push {
	const struct push_options *o;
	struct remote remote;
	struct remote_target to;
	json_t *seen;			/* digests that are there by now */
	uint64_t sent, size;
	uint64_t existed, mounted;
	size_t told, count;		/* blobs, for the display */
};

struct push_blob {
	const struct oci_desc *desc;
	size_t number;			/* for the display */
	int job;			/* request under way, or 0 */
	int is_over;
	int step, fd;			/* the way's own */
	/* bytes reported so far; bytes that were sent and did not arrive still count */
	uint64_t shown;
};

/* How blobs get there; both return a request's id, or -1, further() 0 when the blob is there. */
struct push_way {
	int (*begin)(void *ctx, struct push_blob *b, struct err *e);
	int (*further)(void *ctx, struct push_blob *b, const struct remote_event *ev, struct err *e);
	void *ctx;
};

/*
 * All blobs of a manifest, several at once, as registry.parallel says.  On
 * failure requests are left under way: remote_close() ends them.
 */
int push_blobs(struct push *p, const struct oci_manifest *m, const struct push_way *way, struct err *e);
void push_retrying(void *ctx, const char *why, uint64_t delay_ms);
/* The name for the manifest: the reference's digest, which must then match, or its tag. */
int push_reference(const struct ref *r, const struct remote_target *t, const char *digest, const char **ret, struct err *e);
json_t *push_result(const struct push *p, const char *digest, size_t layers, struct err *e);

#endif
