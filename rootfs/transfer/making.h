/* SPDX-License-Identifier: Apache-2.0 */
/*
 * making - a tenant of berthd makes images: what it may have, and what it must not learn or hinder.
 *
 * One of a tenant at a time (a lock in tenants/ of the store), so that what it has and what it is
 * making are one sum.  What an image counts for is what its layers and documents take, each layer
 * once, whoever else has it too: a figure that nobody else's images change.  A layer that is in the
 * store is used only when an image has it that the tenant sees; else its bytes must come, and nobody
 * can tell that it was there.  The lock of the store is not held while bytes arrive, nor that of a
 * layer: a slow source keeps no other from adding or removing.
 *
 * Bytes that no name needs any more would count for nobody: a file beside the lock says from
 * before a name goes that they are to be collected, which the next image of the tenant waits for.
 */
#ifndef BERTH_ROOTFS_TRANSFER_MAKING_H
#define BERTH_ROOTFS_TRANSFER_MAKING_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "rootfs/layer/layer.h"
#include "rootfs/store/owner.h"
#include "rootfs/store/store.h"

struct image_maker {
	struct image_view view;
	uint64_t max_images, max_bytes;
};

struct making {
	const struct image_maker *who;	/* NULL: the operator, and nothing here does anything */
	int store_fd, lock_fd;
	struct layer_budget *budget;	/* shared memory */
	json_t *names;			/* its own: name -> digest */
	json_t *layers;			/* chain id -> what it counts for, of its own images */
	json_t *seen;			/* chain ids and digests of layers that it may use */
	uint64_t used;
	int replaced;			/* a name has another image now */
	int stands_on_all;		/* what is asked for are the layers of its own sandbox */
};

/* Waits for another that the tenant is making.  ERR_LIMIT when it has no bytes left. */
int making_begin(struct making *m, const struct image_maker *who, int store_fd, struct err *e);
/* Collects what was replaced; m may be all zero. */
void making_end(struct making *m);
/* Gives back what was taken for bytes that are gone. */
void making_refund(struct making *m, uint64_t bytes);
/* 1 when a layer of the store with this digest or chain id may be used without its bytes. */
int making_may_use(const struct making *m, const char *id);
/* Gives the name to the tenant.  ERR_LIMIT when that is one image too many. */
int making_take_name(struct making *m, struct ref *name, struct err *e);

/*
 * Before the bytes of an image get their names, which making_done() ends: takes the lock of the
 * store again, and the bytes of its documents from the budget.
 */
int making_settle(struct making *m, struct store *s, uint64_t document_bytes, struct err *e);
/* One of its layers: what of it was in the store already is charged now. */
struct making_layer {
	const char *chain_id, *digest;
	uint64_t size;		/* of the blob */
	uint64_t charged;	/* while its tree was made */
	int has_tree, has_blob;	/* made now, not used from the store */
};
/* ERR_BUSY when what was to be used has gone.  *ret_disk: what its tree counts for. */
int making_settle_layer(struct making *m, struct store *s, const struct making_layer *l,
			uint64_t *ret_disk, struct err *e);
/* The name, which has @TENANT, is written. */
int making_named(struct making *m, const char *name, const char *digest, struct err *e);
/* All are: nothing is left to be collected but what one of them had before. */
int making_done(struct making *m, struct store *s, struct err *e);

/*
 * Removes a name of the tenant's, and what only it needed.  ERR_DENIED: it sees the image, which is
 * not its own.
 */
int making_remove(int store_fd, const struct image_maker *who, const char *ref, json_t *removed,
		  struct err *e);

#endif
