/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash - SHA-256 or SHA-512 of a stream.
 *
 * hash_init() may be called again after hash_final(); hash_release() accepts a
 * zeroed struct.
 */
#ifndef BERTH_ROOTFS_STORE_HASH_H
#define BERTH_ROOTFS_STORE_HASH_H

#include <stddef.h>

#include "base/err.h"
#include "rootfs/store/digest.h"

struct hash {
	struct evp_md_ctx_st *ctx;
};

/* Starts a sum with the algorithm of the digest like; NULL: SHA-256. */
int hash_init(struct hash *h, const char *like, struct err *e);
int hash_add(struct hash *h, const void *p, size_t n, struct err *e);
int hash_final(struct hash *h, char ret[DIGEST_SIZE], struct err *e);
void hash_release(struct hash *h);
#define autohash __attribute__((cleanup(hash_release)))

/* Computes the digest of n bytes; like is as for hash_init(). */
int hash_bytes(const void *p, size_t n, const char *like, char ret[DIGEST_SIZE], struct err *e);
/*
 * Computes a chain id (OCI image-spec, "Layer ChainID"): for the first layer its diff id, for each
 * further one the digest of "PARENT DIFFID". parent is NULL for the first. Chain ids are always
 * SHA-256: if the first diff id is not, its text is hashed.
 */
int hash_chain(const char *parent, const char *diff_id, char ret[DIGEST_SIZE], struct err *e);

#endif
