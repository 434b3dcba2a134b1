/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target of a signed address of a file, after "GET " or "POST ".  What is accepted has a
 * signature and a user without a colon, and no key of ours has signed it by chance.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "manager/api/boxkey.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char secret[BOXKEY_SECRET] = { 1, 2, 3 };
	char *text = strndup((const char *)data, size), *target, key[BOXKEY_SIZE], id[65];
	struct boxkey_address a;
	struct err e = { 0 };
	int r;

	target = text ? strchr(text, ' ') : NULL;
	if (!target || boxkey_make(secret, "0123456789ab", key, &e) < 0) {
		free(text);
		return 0;
	}
	*target++ = '\0';
	r = boxkey_address_parse(&a, text, target, &e);
	if (r < 0 && !e.msg[0])
		abort();
	if (r > 0 && (!a.signature || strchr(a.user, ':') || boxkey_has_signed(&a, key)))
		abort();
	boxkey_address_release(&a);
	if (boxkey_check(secret, target, id) && strlen(id) > 64)
		abort();
	free(text);
	return 0;
}
