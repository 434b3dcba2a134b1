/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox/loosen.h"

#include "base/mem.h"

static const struct { const char *name, *text; } rows[] = {
#define X(sym, name, text) { name, text },
	LOOSENED(X)
#undef X
};
_Static_assert(LOOSE_COUNT <= 32, "a set is 32 bits");

int loosen_names(uint32_t set, struct buf *out, struct err *e)
{
	const char *comma = "";
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		if (!(set & 1u << i))
			continue;
		if (buf_addf(out, e, "%s\"%s\"", comma, rows[i].name) < 0)
			return -1;
		comma = ",";
	}
	return 0;
}

int loosen_text(uint32_t set, struct buf *out, struct err *e)
{
	const char *comma = "";
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		if (!(set & 1u << i))
			continue;
		if (buf_addf(out, e, "%s%s", comma, rows[i].text) < 0)
			return -1;
		comma = ", ";
	}
	return 0;
}
