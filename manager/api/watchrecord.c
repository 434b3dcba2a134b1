/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/watchrecord.h"

#include <string.h>

#include "base/mem.h"

static const char *const types[] = {
	['c'] = "EVENT_TYPE_CREATE", ['w'] = "EVENT_TYPE_WRITE", ['r'] = "EVENT_TYPE_REMOVE",
	['m'] = "EVENT_TYPE_RENAME", ['a'] = "EVENT_TYPE_CHMOD", ['s'] = "EVENT_TYPE_UNSPECIFIED",
};

const char *watchrecord_type(const struct watchrecord *r)
{
	return types[(unsigned char)r->what];
}

/* Behind the NUL that ends the n-th string from at, or NULL. */
static const char *behind(const char *at, const char *end, unsigned n)
{
	while (at && n--) {
		at = memchr(at, '\0', (size_t)(end - at));
		at = at ? at + 1 : NULL;
	}
	return at;
}

int watchrecord_next(const char **at, const char *end, int with_files, struct watchrecord *ret,
		     struct err *e)
{
	const char *p = *at, *file = behind(p, end, 1), *next = file;
	unsigned char what;

	if (p == end)
		return 0;
	what = (unsigned char)*p;
	if (file && with_files && what != 's')
		next = behind(file, end, 2);
	if (!next && end - p <= WATCHRECORD_MAX)
		return 0;
	if (!next || what >= ARRAY_LEN(types) || !types[what] || p[1] != ' ')
		return err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
	*ret = (struct watchrecord){ .what = (char)what, .name = p + 2 };
	if (next != file && file[0]) {
		ret->has_file = 1;
		if (filerecord_next(&file, next, &ret->file, e) < 1)
			return -1;
	}
	*at = next;
	return 1;
}
