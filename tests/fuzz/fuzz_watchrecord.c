/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the file helper's watch; the first byte says whether with what a name is.  Each takes
 * some bytes, and its strings end within what was read.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "manager/api/watchhub.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *s, const char *from, const char *end)
{
	if (s < from || s >= end || !memchr(s, '\0', (size_t)(end - s)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data + 1, *end = (const char *)data + size, *before;
	struct watchrecord r;
	struct err e = { 0 };
	int got;

	if (!size)
		return 0;
	for (;;) {
		before = at;
		got = watchrecord_next(&at, end, data[0] & 1, &r, &e);
		if (got <= 0)
			break;
		if (at <= before || !watchrecord_type(&r))
			abort();
		check(r.name, before, at);
		if (r.has_file) {
			check(r.file.name, before, at);
			check(r.file.link, before, at);
		}
	}
	if (at != before || (got == 0 && end - at > WATCHRECORD_MAX))
		abort();
	return 0;
}
