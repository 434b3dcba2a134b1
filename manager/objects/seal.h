/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal - a piece in the storage ends in a MAC of its number and content, under a key that only the ledger has.
 *
 * Whoever writes the storage can so change, swap or repeat no piece (S55).  HMAC-SHA256 (RFC 2104) over the number, eight
 * bytes with the highest first, and the HMAC of the content.
 */
#ifndef BERTH_MANAGER_OBJECTS_SEAL_H
#define BERTH_MANAGER_OBJECTS_SEAL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define SEAL_KEY_BYTES 32
#define SEAL_KEY_SIZE (2 * SEAL_KEY_BYTES + 1)	/* in hex */
#define SEAL_BYTES 32

/* A new key. */
int seal_key(char ret[SEAL_KEY_SIZE], struct err *e);
/* Adds to ret the content and its seal. */
int seal_add(const char *key, uint64_t number, const void *data, size_t n, struct buf *ret, struct err *e);
/* Takes the seal off the piece; ERR_CORRUPT when it is not the one of this key and number. */
int seal_take(const char *key, uint64_t number, struct buf *piece, struct err *e);

#endif
