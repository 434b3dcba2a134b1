/* SPDX-License-Identifier: Apache-2.0 */
#include "base/detachkeys.h"

#include <string.h>

int detach_keys_parse(const char *text, struct detach_keys *ret, struct err *e)
{
	size_t n = 0;

	while (*text) {
		size_t len = strcspn(text, ",");
		const char *c = len == 6 && !strncmp(text, "ctrl-", 5) ? text + 5 : NULL;

		if (n == DETACH_KEYS_MAX)
			return err_set(e, ERR_INVALID, "more than %d detach keys", DETACH_KEYS_MAX);
		if (len == 1)
			ret->keys[n++] = text[0];
		else if (c && ((*c >= 'a' && *c <= 'z') || *c == '@' || (*c >= '[' && *c <= '_')))
			ret->keys[n++] = *c & 31;
		else
			return err_set(e, ERR_INVALID, "'%.20s' is not a key; hint: single characters and ctrl-a to ctrl-z, with commas "
				       "between them", text);
		text += len + (text[len] == ',');
	}
	ret->n = n;
	ret->matched = 0;
	ret->detached = 0;
	return 0;
}

size_t detach_keys_filter(struct detach_keys *k, const char *in, size_t n, char *out)
{
	size_t i, len = 0;

	for (i = 0; i < n && !k->detached; i++) {
		if (k->matched && in[i] != k->keys[k->matched]) {
			memcpy(out + len, k->keys, k->matched);
			len += k->matched;
			k->matched = 0;
		}
		if (k->n && in[i] == k->keys[k->matched]) {
			k->detached = ++k->matched == k->n;
			continue;
		}
		out[len++] = in[i];
	}
	return len;
}
