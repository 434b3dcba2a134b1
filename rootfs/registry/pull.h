/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull - fetches an image from a registry into the store.
 *
 * 	berth-http -> pipe -> [worker: hash, copy to the store] -> pipe
 * 	           -> [filter child] -> pipe -> [writer child]       (unpack.h)
 *
 * One worker process per layer under way; each layer is unpacked while it
 * arrives.  Only the last step of a layer (what it leaves to the layers below)
 * waits for them.  Layers are published together with the image; a pull that
 * fails or is interrupted publishes the layers that are whole, lowest first, so
 * that the next one need not fetch them again.
 */
#ifndef BERTH_ROOTFS_REGISTRY_PULL_H
#define BERTH_ROOTFS_REGISTRY_PULL_H

#include "base/err.h"
#include "base/json.h"
#include "rootfs/registry/remote.h"
#include "rootfs/transfer/importer.h"

enum pull_event_kind {
	PULL_RESOLVED,		/* digest, layers, total_bytes are known */
	PULL_LAYER,		/* layer: state, bytes, total_bytes */
	PULL_RETRY,		/* text, delay_ms */
	PULL_NOTE,		/* text */
};
enum pull_layer_state { PULL_WAITING, PULL_EXISTS, PULL_RUNNING, PULL_DONE };

struct pull_event {
	enum pull_event_kind kind;
	const char *digest;	/* digest of the manifest or layer */
	size_t layer, layers;	/* layer from 0 */
	enum pull_layer_state state;
	uint64_t bytes, total_bytes;
	const char *text;
	uint64_t delay_ms;
};

struct pull_options {
	const char *ref;
	const char *name;	/* the name in the store; NULL: the reference's own */
	const char *platform;	/* "OS/ARCH[/VARIANT]"; NULL: this machine's */
	const struct remote_options *remote;
	const struct image_maker *maker;	/* the tenant that makes it, or NULL */
	void (*event)(void *ctx, const struct pull_event *ev);	/* may be NULL */
	void *ctx;
};

/*
 * Returns a new object {"name","digest","platform","layers","size","entries", "bytes","skipped",
 * "downloaded_bytes"} and, when the reference led to an index, "index_digest". Needs root, one
 * thread, and SIGPIPE ignored. On failure the store is unchanged, except for whole layers that no
 * image names.
 */
json_t *pull_run(int store_fd, const struct pull_options *o, struct err *e);
/*
 * Asks the registry what o->ref names, and fetches no layer: a new object
 * {"name","digest","media_type", "size","platforms":[{"os","architecture"[,"variant"]}]}, about the
 * index if it is one. Of the options only ref, remote, event and ctx count.
 */
json_t *pull_look(const struct pull_options *o, struct err *e);

/*
 * Follows ref from an index to the manifest for platform want. doc is the manifest; *ret_index gets
 * the index's digest, "" if there was none.
 */
int pull_resolve(struct remote *r, const struct remote_target *t, const char *ref, const struct oci_platform *want,
		 struct remote_document *ret, char ret_index[DIGEST_SIZE], struct err *e);

#endif
