/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxkey - keys that are good for one sandbox, and addresses of files that they sign (E2B's envd).
 *
 * Pure.  A key is the sandbox's id and a code of it that only the holder of the secret can make, so
 * nothing is kept for a sandbox.  A signed address says neither the sandbox nor whose it is: who
 * holds the secret tries the sandboxes there are.  Comparisons take as long whatever differs.
 * Upholds S18 of SECURITY.md.
 */
#ifndef BERTH_MANAGER_API_BOXKEY_H
#define BERTH_MANAGER_API_BOXKEY_H

#include <stdint.h>

#include "base/err.h"

#define BOXKEY_SECRET 32
#define BOXKEY_SIZE 130 /* an id of at most 64 characters, ".", 64 digits, NUL */

int boxkey_make(const unsigned char secret[BOXKEY_SECRET], const char *id, char ret[BOXKEY_SIZE],
		struct err *e);
/* 1 with the id when text is the key of a sandbox, whether there is one or not; else 0. */
int boxkey_check(const unsigned char secret[BOXKEY_SECRET], const char *text, char ret_id[65]);

/* What a signed address says; strings point into text. */
struct boxkey_address {
	char *text;
	const char *path, *user, *operation, *signature, *expires;
	uint64_t expires_s; /* of Unix time; UINT64_MAX: never */
	void *begun;        /* the digest up to the key */
};

/*
 * 1 when the request's target is /files with a signature; 0 when it has none; -1 with ERR_INVALID.
 * boxkey_address_release() in every case.
 */
int boxkey_address_parse(struct boxkey_address *ret, const char *method, const char *target,
			 struct err *e);
void boxkey_address_release(struct boxkey_address *a);
/* 1 when that key has signed it. */
int boxkey_has_signed(const struct boxkey_address *a, const char *key);

#endif
