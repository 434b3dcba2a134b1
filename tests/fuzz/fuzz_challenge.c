/* SPDX-License-Identifier: Apache-2.0 */
/* A WWW-Authenticate header.  What is accepted fits its fields and has no control bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rootfs/registry/challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *s, size_t max)
{
	size_t n = strnlen(s, max), i;

	if (n == max)
		abort();
	for (i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct challenge c;
	char *s = malloc(size + 1);
	struct err e;

	if (!s)
		return 0;
	memcpy(s, data, size);	/* of exactly this size, so that a byte too far is seen */
	memset(&c, 0, sizeof(c));
	if (!challenge_parse(s, size, &c, &e)) {
		check(c.realm, sizeof(c.realm));
		check(c.service, sizeof(c.service));
		if (c.bearer != (c.realm[0] != '\0'))
			abort();
	}
	free(s);
	return 0;
}
