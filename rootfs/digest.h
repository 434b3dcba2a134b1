/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest - the text form of content digests.
 *
 * Only "sha256:" and 64 lower-case hex digits are digests here.  A path in the
 * store is built from the hex part after it passed these checks, so nothing an
 * image says can name another file (I27).  Pure.
 */
#ifndef BERTH_ROOTFS_DIGEST_H
#define BERTH_ROOTFS_DIGEST_H

#include <stddef.h>

#include "base/err.h"

#define DIGEST_SIZE 72	/* "sha256:" + 64 + NUL */
#define DIGEST_HEX_SIZE 65
#define DIGEST_PREFIX_MIN 12	/* hex digits that may stand for a whole digest */

/* 1 when s is min..max lower-case hex digits and nothing else. */
int digest_is_hex(const char *s, size_t min, size_t max);
/* 1 when s is a whole digest. */
int digest_is_valid(const char *s);
/* Checks s and copies it; ERR_CORRUPT naming what otherwise. */
int digest_copy(char ret[DIGEST_SIZE], const char *s, const char *what, struct err *e);
/* The hex part of a valid digest, borrowed. */
const char *digest_hex(const char *digest);
/* Formats 32 raw bytes. */
void digest_format(char ret[DIGEST_SIZE], const unsigned char sum[32]);

#endif
