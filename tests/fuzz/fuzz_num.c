/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The readers of numbers.  What is accepted lies in the range that was asked
 * for and is written with the reader's alphabet only; what is refused leaves the
 * result alone and says why.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define UNTOUCHED 0x5aa5f00dcafe0000ULL

static void check(int r, const char *s, const char *alphabet, uint64_t v, uint64_t min, uint64_t max, const struct err *e)
{
	if (r == 0) {
		if (v < min || v > max || !s[0] || strspn(s, alphabet) != strlen(s) || s[0] < '0' || s[0] > '9')
			abort();
	} else if (v != UNTOUCHED || e->code != ERR_INVALID || !e->msg[0] || !memchr(e->msg, '\0', sizeof(e->msg))) {
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct { uint64_t min, max; } ranges[] = { { 0, UINT64_MAX }, { 2, 4194304 }, { 524288, 1ULL << 60 }, { 0, 0 } };
	char *s = malloc(size + 1);
	struct err e;
	uint64_t v;
	size_t i;

	if (!s)
		abort();
	memcpy(s, data, size);
	s[size] = '\0';
	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		uint64_t min = ranges[i].min, max = ranges[i].max;
		int r;

		memset(&e, 0, sizeof(e));
		v = UNTOUCHED;
		r = num_u64(s, "n", min, max, &v, &e);
		check(r, s, "0123456789", v, min, max, &e);
		v = UNTOUCHED;
		r = num_size(s, "n", min, max, &v, &e);
		check(r, s, "0123456789.bkmgtiBKMGTI", v, min, max, &e);
		v = UNTOUCHED;
		r = num_duration_ms(s, "n", max, &v, &e);
		check(r, s, "0123456789.msdh", v, 0, max, &e);
		v = UNTOUCHED;
		r = num_milli(s, "n", min, max, &v, &e);
		check(r, s, "0123456789.", v, min, max, &e);
	}
	free(s);
	return 0;
}
