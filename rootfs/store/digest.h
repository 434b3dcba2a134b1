/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest - the text form of content digests.
 *
 * Digests are "sha256:" and 64, or "sha512:" and 128 lower-case hex digits: the algorithms that
 * the OCI image-spec registers. Paths in the store are built from digests that passed these
 * checks, so an image cannot name another file (I27). Digests made here (chain ids, commit and
 * import) are SHA-256. Pure.
 */
#ifndef BERTH_ROOTFS_STORE_DIGEST_H
#define BERTH_ROOTFS_STORE_DIGEST_H

#include <stddef.h>

#include "base/err.h"

#define DIGEST_SIZE 136	/* "sha512:" + 128 + NUL */
#define DIGEST_HEX_SIZE 65	/* size for SHA-256, the algorithm of chain ids */
#define DIGEST_BLOB_PATH_SIZE (DIGEST_SIZE + 8)
#define DIGEST_PREFIX_MIN 12	/* hex digits that a shortened digest must have */

/* Returns 1 if s is min..max lower-case hex digits and nothing else. */
int digest_is_hex(const char *s, size_t min, size_t max);
/* Returns 1 if s is a whole digest. */
int digest_is_valid(const char *s);
/* Returns 1 if s is a whole digest of SHA-256. */
int digest_is_sha256(const char *s);
/* Checks s and copies it; ERR_CORRUPT naming what, and the algorithm if it is not a known one. */
int digest_copy(char ret[DIGEST_SIZE], const char *s, const char *what, struct err *e);
/* Returns the hex part of a valid digest, borrowed. */
const char *digest_hex(const char *digest);
/* Formats "blobs/ALGORITHM/HEX", as in an OCI layout and in the store. */
void digest_blob_path(char ret[DIGEST_BLOB_PATH_SIZE], const char *digest);
/* The directories in which those paths end, up to NULL. */
extern const char *const digest_blob_dirs[];
/* Formats the n raw bytes of a sum: 32 or 64. */
void digest_format(char ret[DIGEST_SIZE], const unsigned char *sum, size_t n);

#endif
