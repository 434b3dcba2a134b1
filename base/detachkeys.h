/* SPDX-License-Identifier: Apache-2.0 */
/* detachkeys - the keys that leave a terminal without ending what runs in it. */
#ifndef BERTH_BASE_DETACHKEYS_H
#define BERTH_BASE_DETACHKEYS_H

#include <stddef.h>

#include "base/err.h"

#define DETACH_KEYS "ctrl-p,ctrl-q"	/* docker's */
#define DETACH_KEYS_MAX 8

struct detach_keys {
	char keys[DETACH_KEYS_MAX];
	size_t n, matched;
	int detached;	/* the keys were typed */
};

/* "ctrl-p,x": single characters and ctrl-a to ctrl-z; "" is none. */
int detach_keys_parse(const char *text, struct detach_keys *ret, struct err *e);
/*
 * Copies the n typed bytes to out, without the detach keys, and returns how many it wrote; out has
 * room for n + DETACH_KEYS_MAX. Bytes that only began like the keys are written once the next byte
 * shows it. Bytes after the keys are dropped.
 */
size_t detach_keys_filter(struct detach_keys *k, const char *in, size_t n, char *out);

#endif
