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
	int detached;	/* they were typed */
};

/* "ctrl-p,x": single characters and ctrl-a to ctrl-z; "" is none. */
int detach_keys_parse(const char *text, struct detach_keys *ret, struct err *e);
/*
 * The n bytes typed without the keys, to out, which has room for n + DETACH_KEYS_MAX; how many.  A part of the keys that
 * turns out to be none comes after all.  Nothing after the keys.
 */
size_t detach_keys_filter(struct detach_keys *k, const char *in, size_t n, char *out);

#endif
