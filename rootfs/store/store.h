/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store - the write side of the image store (layout: image.h).
 *
 * Locks: a writer that adds (store_begin) holds `lock` shared, one that removes
 * (store_begin_exclusive) holds it exclusively. Each writer works in a directory of its own
 * below tmp/ and holds a lock on it. A directory there that can be locked belongs to a dead
 * process, and the next writer removes it. So a kill at any point leaves only whole layers,
 * blobs and records.
 *
 * Nothing is published before store_sync(): first data on disk, then names.
 */
#ifndef BERTH_ROOTFS_STORE_STORE_H
#define BERTH_ROOTFS_STORE_STORE_H

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"
#include "rootfs/store/digest.h"

struct store {
	int fd;			/* the root, borrowed from the caller */
	int lock_fd;
	int tmp_fd;		/* tmp/<ours>, locked */
	int *layer_locks;
	size_t layer_lock_count;
	unsigned int serial;	/* counts the names made in tmp */
	char tmp_name[48];
};

/* Makes the directories, takes the shared lock, and clears what dead writers left. */
int store_begin(struct store *s, int store_fd, struct err *e);
/*
 * Takes the exclusive lock instead: no process adds while it is held. wait 0: ERR_BUSY if
 * another process holds the lock.
 */
int store_begin_exclusive(struct store *s, int store_fd, int wait, struct err *e);
/*
 * Releases the lock so that others can remove meanwhile, or (on) takes it again, shared. Files
 * that existed before may then be gone.
 */
int store_share(struct store *s, int on, struct err *e);
/* Removes the leftovers of dead writers from tmp/ of the store at path, if there is one. */
int store_clear_dead(const char *path, struct err *e);
/* Removes the leftovers in our part of tmp/ and gives up all locks. */
void store_end(struct store *s);

/* 1, 0, or -1. */
int store_has_blob(const struct store *s, const char *digest, struct err *e);
int store_has_layer(const struct store *s, const char *chain_id, struct err *e);
/* Opens a blob with O_RDONLY, or a layer with O_PATH; ERR_NOT_FOUND if it is missing. */
int store_open_blob(const struct store *s, const char *digest, struct err *e);
int store_open_layer(const struct store *s, const char *chain_id, struct err *e);

/*
 * Waits until no other process unpacks this layer, then keeps others from it
 * until store_end() or store_unlock_layers().  Order: lowest layer first.
 */
int store_lock_layer(struct store *s, const char *chain_id, struct err *e);
void store_unlock_layers(struct store *s);

/* Makes a new file or directory in our part of tmp/; its name goes to ret_name. */
int store_tmp_file(struct store *s, char ret_name[32], struct err *e);
int store_tmp_dir(struct store *s, char ret_name[32], struct err *e);
/* Gives the file that path (a symbolic link in /proc) leads to a further name there. */
int store_tmp_link(struct store *s, const char *path, char ret_name[32], struct err *e);
void store_tmp_remove(struct store *s, const char *name);
/* Puts all data written so far below the root on disk. */
int store_sync(const struct store *s, struct err *e);
/* Moves a file or tree from tmp/ to its place. An existing one stays, and ours is removed. */
int store_publish_blob(struct store *s, const char *tmp_name, const char *digest, struct err *e);
int store_publish_layer(struct store *s, const char *tmp_name, const char *chain_id, struct err *e);
/* Writes a small blob (manifest, config) to tmp/. */
int store_stage_bytes(struct store *s, const void *p, size_t n, char ret_name[32], struct err *e);
/* Writes the hold of an image, one chain id per line; an existing one is kept. */
int store_write_hold(struct store *s, const char *digest, const char *text, struct err *e);
/* Writes images/FILENAME, replaced whole. */
int store_write_record(struct store *s, const char *filename, const json_t *record, struct err *e);

#endif
