/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pins - keep an image's files although no sandbox runs on it and no name is left.
 *
 * A pin is a copy of the image's record: pins/WORD.json in the store, which an
 * operator or a pool puts there, and IMAGE_PIN in the directory of a lasting
 * sandbox, which lies beside the store (image.h).
 */
#ifndef BERTH_ROOTFS_STORE_PINS_H
#define BERTH_ROOTFS_STORE_PINS_H

#include "base/err.h"
#include "base/json.h"

#define PIN_WORD_MAX 128

/*
 * Calls fn for each pin: who is "sandbox ID" or "pin WORD"; the record has a valid digest. A pin
 * that cannot be read is an error, because it is then unknown which files are needed.
 */
int pins_each(int store_fd, int (*fn)(void *ctx, const char *who, const json_t *record, struct err *e), void *ctx,
	      struct err *e);
/*
 * Returns 1 if the image with this manifest digest has a pin, whose owner goes to ret_who; 0 if
 * not; -1 on error.
 */
int pins_hold(int store_fd, const char *digest, char ret_who[200], struct err *e);
/* Pins the image ref; replaces a pin of that word. WORD: letters, digits, "_.:-". */
int pins_add(int store_fd, const char *word, const char *ref, struct err *e);
int pins_remove(int store_fd, const char *word, struct err *e);

#endif
