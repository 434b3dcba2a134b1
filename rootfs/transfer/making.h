/* SPDX-License-Identifier: Apache-2.0 */
/*
 * making - limits a tenant of berthd that makes images, and keeps others' images hidden from it.
 *
 * A tenant makes one image at a time (a lock in tenants/ of the store), so its finished and
 * unfinished images are one sum. An image counts for the size of its layers and documents, each
 * layer once, even if others have the layer too; so other images do not change the figure. A
 * layer in the store is used only if the tenant sees an image that has it. Otherwise its bytes
 * must arrive, and the tenant cannot learn that the store had it. Neither the lock of the store
 * nor that of a layer is held while bytes arrive, so a slow source keeps nobody from adding or
 * removing.
 *
 * Bytes without a name would count for nobody. So before a name is removed, a file beside the
 * lock says that they must be collected, and the next image of the tenant waits for that.
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
	json_t *names;			/* the tenant's own images: name -> digest */
	/* chain id -> its size in the tenant's sum, for its own images */
	json_t *layers;
	json_t *seen;			/* chain ids and digests of the layers that the tenant may use */
	uint64_t used;
	int replaced;			/* a name now has another image than before */
	int stands_on_all;		/* the requested layers are those of the tenant's own sandbox */
};

/*
 * Begins an image for the tenant; waits while the tenant makes another one. ERR_LIMIT if it has no
 * bytes left.
 */
int making_begin(struct making *m, const struct image_maker *who, int store_fd, struct err *e);
/* Collects the files of replaced images; m may be all zero. */
void making_end(struct making *m);
/* Gives back the budget of bytes that are gone. */
void making_refund(struct making *m, uint64_t bytes);
/* Returns 1 if a layer of the store with this digest or chain id may be used without its bytes. */
int making_may_use(const struct making *m, const char *id);
/* Gives the name to the tenant. ERR_LIMIT if that is one image too many. */
int making_take_name(struct making *m, struct ref *name, struct err *e);

/*
 * Call it before the bytes of an image get their names; making_done() ends what it begins. It takes
 * the lock of the store again, and the bytes of the documents from the budget.
 */
int making_settle(struct making *m, struct store *s, uint64_t document_bytes, struct err *e);
/* One layer of the image: the parts that the store had already are charged now. */
struct making_layer {
	const char *chain_id, *digest;
	uint64_t size;		/* of the blob */
	uint64_t charged;	/* bytes charged while its tree was made */
	int has_tree, has_blob;	/* made now, not used from the store */
};
/*
 * Charges the layer. ERR_BUSY if a layer that was to be used is gone. *ret_disk: the size that its
 * tree counts for.
 */
int making_settle_layer(struct making *m, struct store *s, const struct making_layer *l,
			uint64_t *ret_disk, struct err *e);
/* Records that the name, which has @TENANT, was written. */
int making_named(struct making *m, const char *name, const char *digest, struct err *e);
/* Records that all names are written: only bytes that one of them named before are left to collect. */
int making_done(struct making *m, struct store *s, struct err *e);

/*
 * Removes a name of the tenant's, and the files that only it needed. ERR_DENIED: the tenant sees
 * the image, but does not own it.
 */
int making_remove(int store_fd, const struct image_maker *who, const char *ref, json_t *removed,
		  struct err *e);

#endif
