/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/mem.h"

#define ERROR_LINE_MAX 65536

/* Nesting is counted before jansson recurses into it. */
static int too_deep(const char *s, size_t n)
{
	int depth = 0, quoted = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		if (quoted) {
			if (s[i] == '\\')
				i++;
			else if (s[i] == '"')
				quoted = 0;
		} else if (s[i] == '"') {
			quoted = 1;
		} else if (s[i] == '{' || s[i] == '[') {
			if (++depth > JSON_DEPTH_MAX)
				return 1;
		} else if (s[i] == '}' || s[i] == ']') {
			depth--;
		}
	}
	return 0;
}

json_t *json_parse(const char *text, size_t n, size_t max_bytes, const char *what, struct err *e)
{
	json_error_t je;
	json_t *j;

	if (n > max_bytes) {
		err_set(e, ERR_CORRUPT, "%s: JSON larger than %zu bytes", what, max_bytes);
		return NULL;
	}
	/* jansson skips a NUL after a number: "[1\0]" would be read as "[1]" */
	if (memchr(text, '\0', n)) {
		err_set(e, ERR_CORRUPT, "%s: JSON holds a NUL byte", what);
		return NULL;
	}
	if (too_deep(text, n)) {
		err_set(e, ERR_CORRUPT, "%s: JSON nested deeper than %d", what, JSON_DEPTH_MAX);
		return NULL;
	}
	j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
	/* where memory runs out in the middle it may say nothing at all */
	if (!j && (!je.text[0] || json_error_code(&je) == json_error_out_of_memory))
		err_nomem(e);
	else if (!j)
		err_set(e, ERR_CORRUPT, "%s: line %d, column %d: %s", what, je.line, je.column, je.text);
	return j;
}

const char *json_text(const json_t *j, char *room, size_t n, char **ret_own, size_t *ret_len)
{
	*ret_own = NULL;
	*ret_len = json_dumpb(j, room, n, JSON_COMPACT | JSON_ENCODE_ANY);	/* without it a short text is three allocations */
	if (*ret_len <= n)
		return *ret_len ? room : NULL;
	*ret_own = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);
	return *ret_own;
}

static json_t *find(const json_t *obj, const char *key)
{
	json_t *v = json_object_get(obj, key);

	return json_is_null(v) ? NULL : v;
}

static int wrong(const char *what, const char *key, const char *want, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "%s: \"%s\" is not %s", what, key, want);
}

int json_get_str(const json_t *obj, const char *key, const char **ret_s, const char *what, struct err *e)
{
	json_t *v = find(obj, key);

	if (!v)
		return 0;
	/* a string with a NUL inside would be one thing here and another to the kernel */
	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
		return wrong(what, key, "a string", e);
	*ret_s = json_string_value(v);
	return 1;
}

int json_get_u64(const json_t *obj, const char *key, uint64_t *ret_v, const char *what, struct err *e)
{
	json_t *v = find(obj, key);

	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return wrong(what, key, "a whole number", e);
	*ret_v = (uint64_t)json_integer_value(v);
	return 1;
}

int json_get_bool(const json_t *obj, const char *key, int *ret_v, const char *what, struct err *e)
{
	json_t *v = find(obj, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return wrong(what, key, "true or false", e);
	*ret_v = json_is_true(v);
	return 1;
}

int json_get_obj(const json_t *obj, const char *key, json_t **ret_obj, const char *what, struct err *e)
{
	json_t *v = find(obj, key);

	if (!v)
		return 0;
	if (!json_is_object(v))
		return wrong(what, key, "an object", e);
	*ret_obj = v;
	return 1;
}

int json_get_arr(const json_t *obj, const char *key, json_t **ret_arr, const char *what, struct err *e)
{
	json_t *v = find(obj, key);

	if (!v)
		return 0;
	if (!json_is_array(v))
		return wrong(what, key, "an array", e);
	*ret_arr = v;
	return 1;
}

int json_check_version(const json_t *doc, json_int_t known, const char *what, struct err *e)
{
	const json_t *v = json_object_get(doc, "version");

	if (!json_is_integer(v) || json_integer_value(v) < 1)
		return err_set(e, ERR_CORRUPT, "%s: \"version\" is not a whole number from 1", what);
	if (json_integer_value(v) <= known)
		return 0;
	return err_set(e, ERR_UNSUPPORTED, "%s is of format version %lld, written by a newer berth; berth " BERTH_VERSION " reads up to %lld",
		       what, (long long)json_integer_value(v), (long long)known);
}

int json_set_bytes(json_t *obj, const char *key, const char *p, size_t n, struct err *e)
{
	json_t *text = n && memchr(p, 0, n) ? NULL : json_stringn(n ? p : "", n);
	autofree char *hex = NULL;
	char name[40];

	if (text)
		return json_object_set_new(obj, key, text) < 0 ? err_nomem(e) : 0;
	hex = malloc(n * 2 + 1);
	if (!hex)
		return err_nomem(e);
	hex_format(hex, p, n);
	snprintf(name, sizeof(name), "%s_hex", key);
	return json_object_set_new(obj, name, json_stringn(hex, n * 2)) < 0 ? err_nomem(e) : 0;
}

int json_get_bytes(const json_t *obj, const char *key, struct buf *b, const char *what, struct err *e)
{
	const json_t *text = json_object_get(obj, key), *coded;	/* null is neither: it may have been meant as data */
	const char *hex;
	char name[40];

	snprintf(name, sizeof(name), "%s_hex", key);
	coded = json_object_get(obj, name);
	if ((text && !json_is_string(text)) || (coded && !json_is_string(coded)))
		return err_set(e, ERR_INVALID, "%s: \"%s\" is no string", what, coded ? name : key);
	if (text && coded)
		return err_set(e, ERR_INVALID, "%s: both \"%s\" and \"%s\" given", what, key, name);
	if (text)
		return buf_add(b, json_string_value(text), json_string_length(text), e) < 0 ? -1 : 1;
	if (!coded)
		return 0;
	for (hex = json_string_value(coded); *hex; hex += 2) {
		int byte = hex_byte(hex);
		char c = (char)byte;

		if (byte < 0)
			return err_set(e, ERR_INVALID, "%s: \"%s\" is not hexadecimal", what, name);
		if (buf_add(b, &c, 1, e) < 0)
			return -1;
	}
	return 1;
}

int json_take_error(const json_t *error, enum err_code otherwise, const char *who, struct err *e)
{
	const char *msg = json_string_value(json_object_get(error, "message")), *remedy = json_string_value(json_object_get(error, "remedy"));
	enum err_code code = err_code_of(json_string_value(json_object_get(error, "code")));

	if (!msg)
		return err_set(e, otherwise, "%s failed and did not say why", who);
	err_set(e, code ? code : otherwise, "%s", msg);
	return remedy ? err_hint(e, "%s", remedy) : -1;
}

int json_take_error_line(const char *text, const char *who, struct err *e)
{
	autojson json_t *j = NULL;
	const char *line = text;
	struct err ignored;

	while (line && strchr(line, '\n') && strchr(line, '\n')[1])
		line = strchr(line, '\n') + 1;
	j = line ? json_parse(line, strlen(line), ERROR_LINE_MAX, "an error", &ignored) : NULL;
	if (!json_string_value(json_object_get(json_object_get(j, "error"), "message")))
		return err_set(e, ERR_INTERNAL, "%s failed: %.300s", who, line && *line ? line : "it said nothing");
	return json_take_error(json_object_get(j, "error"), ERR_INTERNAL, who, e);
}
