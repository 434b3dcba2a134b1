/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caps - capability names and sets (capabilities(7)).
 *
 * A set is a bit mask, bit N for capability number N.
 */
#ifndef BERTH_RUNTIME_KERNEL_CAPS_H
#define BERTH_RUNTIME_KERNEL_CAPS_H

#include <stdint.h>

#include "base/err.h"

#define CAPS_LAST 40	/* CAP_CHECKPOINT_RESTORE, the last one known here */
#define CAPS_ALL ((1ULL << (CAPS_LAST + 1)) - 1)

/* The default capabilities of a sandbox: eight, all namespaced (S4). */
uint64_t caps_default(void);
/* Parses "CAP_CHOWN", "chown" or "ALL"; ERR_INVALID with a suggestion otherwise. */
int caps_parse(const char *name, uint64_t *ret_mask, struct err *e);
/* Returns the name, such as "CAP_CHOWN"; NULL past CAPS_LAST. */
const char *caps_name(unsigned bit);

#endif
