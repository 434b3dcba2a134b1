/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storage - objects in a local folder or in an S3-compatible store, and folders
 * made of them.
 *
 * A folder PATH is PATH/manifest.json, which is written last of all and names every
 * entry, and PATH/chunks/SHA256, pieces of at most STORAGE_CHUNK bytes, compressed
 * (zstd), under the hash of what they hold; one of zeros is left out.  So an upload is atomic (the manifest is replaced whole),
 * resumed by itself (chunks that are there are not sent again), and verified on
 * the way back.  Local files are opened beneath a directory, through no link.
 */
#ifndef BERTH_MANAGER_SERVICE_STORAGE_H
#define BERTH_MANAGER_SERVICE_STORAGE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "manager/service/conf.h"

#define STORAGE_CHUNK (8u << 20)

struct storage;

struct storage_stats {
	uint64_t entries, bytes;	/* of the folder */
	uint64_t sent, skipped;		/* chunks */
};

int storage_open(struct storage **ret, const struct conf *c, struct err *e);
void storage_close(struct storage *st);
const char *storage_name(const struct storage *st);
/* A relative path of ordinary names: ERR_INVALID otherwise. */
int storage_check_path(const char *path, struct err *e);

int storage_put(struct storage *st, const char *key, const void *data, size_t n, struct err *e);
/* 1 with the content, 0 when there is none; the buffer's ceiling holds. */
int storage_get(struct storage *st, const char *key, struct buf *out, struct err *e);
/* 1 with the size, 0 when there is none. */
int storage_head(struct storage *st, const char *key, uint64_t *ret_size, struct err *e);
/* What is not there is no error. */
int storage_delete(struct storage *st, const char *key, struct err *e);
/* Every key below prefix. */
int storage_each(struct storage *st, const char *prefix, int (*each)(void *ctx, const char *key, struct err *e), void *ctx, struct err *e);

/* The tree below dir_fd to the folder path; what the folder held else is collected afterwards. */
int storage_put_folder(struct storage *st, const char *path, int dir_fd, struct storage_stats *ret, struct err *e);
/*
 * And back, over what is in dir_fd: each file is filled aside, verified and renamed.  1; 0 when there
 * is no such folder.  exact: what the folder does not name is removed from dir_fd.
 */
int storage_get_folder(struct storage *st, const char *path, int dir_fd, int exact, struct storage_stats *ret, struct err *e);
int storage_delete_folder(struct storage *st, const char *path, struct err *e);

/* ---- for the back ends ---- */

struct storage_ops {
	const char *name;
	int (*put)(struct storage *st, const char *key, const void *data, size_t n, const char sha256[65], struct err *e);
	int (*get)(struct storage *st, const char *key, struct buf *out, struct err *e);
	int (*head)(struct storage *st, const char *key, uint64_t *ret_size, struct err *e);
	int (*del)(struct storage *st, const char *key, struct err *e);
	int (*each)(struct storage *st, const char *prefix, int (*each)(void *ctx, const char *key, struct err *e), void *ctx,
		    struct err *e);
	void (*close)(struct storage *st);
};

struct storage {
	const struct storage_ops *ops;
};

int storage_local_open(struct storage **ret, const struct conf *c, struct err *e);
int storage_s3_open(struct storage **ret, const struct conf *c, struct err *e);

#endif
