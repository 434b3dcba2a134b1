/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S22 of SECURITY.md. */
/*
 * What a client says within a tunnel; the first byte says whether it is its second hello.  A name that comes out is a
 * string, and what was decided does not change with the bytes that follow.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/net/tlshello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum tlshello look(const uint8_t *data, size_t size, int again, char name[TLSHELLO_NAME])
{
	uint8_t *p = malloc(size ? size : 1);	/* a block of its own: a byte too many is seen */
	size_t len = 0;
	enum tlshello r;

	if (!p)
		abort();
	memcpy(p, data, size);
	r = tlshello_read(p, size, again, name, &len);
	if (len > size || (r == TLSHELLO_NAMED) != (name[0] != '\0') || !memchr(name, 0, TLSHELLO_NAME))
		abort();
	if ((r == TLSHELLO_NAMED || r == TLSHELLO_UNNAMED) && len < 4 + 2 + 32 + 1)
		abort();
	if (size >= TLSHELLO_ANSWER)
		tlshello_is_retry(p);
	free(p);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char whole[TLSHELLO_NAME], part[TLSHELLO_NAME];
	enum tlshello r, before;
	size_t half;

	if (!size)
		return 0;
	r = look(data + 1, size - 1, data[0] & 1, whole);
	for (half = 0; half < size - 1; half += 1 + size / 7) {
		before = look(data + 1, half, data[0] & 1, part);
		if (before != TLSHELLO_MORE && (before != r || (r == TLSHELLO_NAMED && strcmp(whole, part))))
			abort();
	}
	return 0;
}
