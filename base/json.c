/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/encoding.h"
#include "base/mem.h"

#define ERROR_LINE_MAX 65536

/*
 * Roughly what jansson allocates for an object, an array, a string or key with its place, and any
 * other value with its place.
 */
#define OBJECT_BYTES 256
#define ARRAY_BYTES 128
#define STRING_BYTES 80
#define VALUE_BYTES 40

/* Nesting and memory are counted before jansson recurses and allocates. */
static size_t measure_json_text(const char *s, size_t n, int *ret_too_deep)
{
	size_t bytes = n, i;
	int depth = 0, quoted = 0;

	*ret_too_deep = 0;
	for (i = 0; i < n; i++) {
		if (quoted) {
			if (s[i] == '\\')
				i++;
			else if (s[i] == '"')
				quoted = 0;
			continue;
		}
		switch (s[i]) {
		case '"':
			quoted = 1;
			bytes += STRING_BYTES;
			break;
		case '{':
		case '[':
			bytes += s[i] == '{' ? OBJECT_BYTES : ARRAY_BYTES;
			*ret_too_deep |= ++depth > JSON_DEPTH_MAX;
			break;
		case '}':
		case ']':
			depth--;
			break;
		case ',':
			bytes += VALUE_BYTES;
			break;
		default:
			break;
		}
	}
	return bytes;
}

size_t json_memory(const char *text, size_t n)
{
	int ignored;

	return measure_json_text(text, n, &ignored);
}

json_t *json_parse(const char *text, size_t n, size_t max_bytes, const char *what, struct err *e)
{
	json_error_t je;
	size_t bytes;
	int too_deep;
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
	bytes = measure_json_text(text, n, &too_deep);
	if (too_deep) {
		err_set(e, ERR_CORRUPT, "%s: JSON nested deeper than %d", what, JSON_DEPTH_MAX);
		return NULL;
	}
	/*
	 * a document with content stays below this; one of nothing but brackets takes a hundred
	 * times its length
	 */
	if (bytes > JSON_GROWTH_MAX * n + JSON_GROWTH_FREE) {
		err_set(e, ERR_CORRUPT, "%s: JSON of %zu bytes would take %zu in memory", what, n, bytes);
		return NULL;
	}
	j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
	/* jansson may set no error when memory runs out in the middle */
	if (!j && (!je.text[0] || json_error_code(&je) == json_error_out_of_memory))
		err_nomem(e);
	else if (!j)
		err_set(e, ERR_CORRUPT, "%s: line %d, column %d: %s", what, je.line, je.column, je.text);
	return j;
}

const char *json_text(const json_t *j, char *room, size_t n, char **ret_own, size_t *ret_len)
{
	*ret_own = NULL;
	*ret_len = json_dumpb(j, room, n, JSON_COMPACT | JSON_ENCODE_ANY);	/* else a short text is three allocations */
	if (*ret_len <= n)
		return *ret_len ? room : NULL;
	*ret_own = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);
	return *ret_own;
}

static json_t *json_non_null_member(const json_t *obj, const char *key)
{
	json_t *v = json_object_get(obj, key);

	return json_is_null(v) ? NULL : v;
}

static int json_member_wrong(const char *what, const char *key, const char *want, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "%s: \"%s\" is not %s", what, key, want);
}

int json_get_str(const json_t *obj, const char *key, const char **ret_s, const char *what, struct err *e)
{
	json_t *v = json_non_null_member(obj, key);

	if (!v)
		return 0;
	/* a string with a NUL inside would be one thing here and another to the kernel */
	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
		return json_member_wrong(what, key, "a string", e);
	*ret_s = json_string_value(v);
	return 1;
}

int json_get_u64(const json_t *obj, const char *key, uint64_t *ret_v, const char *what, struct err *e)
{
	json_t *v = json_non_null_member(obj, key);

	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return json_member_wrong(what, key, "a whole number", e);
	*ret_v = (uint64_t)json_integer_value(v);
	return 1;
}

int json_get_bool(const json_t *obj, const char *key, int *ret_v, const char *what, struct err *e)
{
	json_t *v = json_non_null_member(obj, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return json_member_wrong(what, key, "true or false", e);
	*ret_v = json_is_true(v);
	return 1;
}

int json_get_obj(const json_t *obj, const char *key, json_t **ret_obj, const char *what, struct err *e)
{
	json_t *v = json_non_null_member(obj, key);

	if (!v)
		return 0;
	if (!json_is_object(v))
		return json_member_wrong(what, key, "an object", e);
	*ret_obj = v;
	return 1;
}

int json_get_arr(const json_t *obj, const char *key, json_t **ret_arr, const char *what, struct err *e)
{
	json_t *v = json_non_null_member(obj, key);

	if (!v)
		return 0;
	if (!json_is_array(v))
		return json_member_wrong(what, key, "an array", e);
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

static int add_json_text(struct buf *b, const char *text, size_t n, struct err *e)
{
	return buf_add(b, text, n, e);
}

static int add_hex(struct buf *b, const char *hex, size_t n, struct err *e)
{
	size_t i;

	if (n % 2)
		return 1;
	for (i = 0; i < n; i += 2) {
		int byte = hex_byte(hex + i);
		char c = (char)byte;

		if (byte < 0)
			return 1;
		if (buf_add(b, &c, 1, e) < 0)
			return -1;
	}
	return 0;
}

static int add_base64(struct buf *b, const char *text, size_t n, struct err *e)
{
	size_t got;

	if (buf_reserve(b, n / 4 * 3 + 1, e) < 0)
		return -1;
	if (base64_decode(b->data + b->len, &got, text, n) < 0)
		return 1;
	b->len += got;
	b->data[b->len] = '\0';
	return 0;
}

int json_get_bytes(const json_t *obj, const char *key, struct buf *b, const char *what, struct err *e)
{
	static const struct {
		const char *suffix, *is;
		/* returns 1 for text in another form */
		int (*add)(struct buf *b, const char *text, size_t n, struct err *e);
	} forms[] = { { "", NULL, add_json_text }, { "_hex", "hexadecimal", add_hex }, { "_base64", "base64", add_base64 } };
	size_t i, form = 0;
	const json_t *found = NULL, *v;
	char name[48], first[48];
	int r;

	for (i = 0; i < ARRAY_LEN(forms); i++) {
		snprintf(name, sizeof(name), "%s%s", key, forms[i].suffix);
		/* a null here does not count as absent: it may have been meant as data */
		v = json_object_get(obj, name);
		if (!v)
			continue;
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "%s: \"%s\" is not a string", what, name);
		if (found)
			return err_set(e, ERR_INVALID, "%s: both \"%s\" and \"%s\" given", what, first, name);
		memcpy(first, name, sizeof(first));
		found = v;
		form = i;
	}
	if (!found)
		return 0;
	r = forms[form].add(b, json_string_value(found), json_string_length(found), e);
	return r > 0 ? err_set(e, ERR_INVALID, "%s: \"%s\" is not %s", what, first, forms[form].is) : r < 0 ? -1 : 1;
}

/* Adds to obj the bytes of hex in base64, under name with the other ending. */
static int recode(json_t *obj, const char *name, const json_t *hex, struct err *e)
{
	size_t n = json_string_length(hex), stem = strlen(name) - strlen("_hex");
	autobuf struct buf b = BUF_INIT(n / 2 + 1);
	autofree char *key = malloc(stem + sizeof("_base64")), *text = malloc(BASE64_LEN(n / 2) + 1);

	if (!key || !text || add_hex(&b, json_string_value(hex), n, e) != 0)
		return err_nomem(e);
	memcpy(key, name, stem);
	strcpy(key + stem, "_base64");
	base64_encode(text, b.data ? b.data : "", b.len);
	return json_object_set_new(obj, key, json_string(text)) < 0 ? err_nomem(e) : 0;
}

static int is_hex_member(const char *name, const json_t *v)
{
	size_t n = strlen(name), i, len = json_string_length(v);
	const char *s = json_string_value(v);

	if (!s || n < 5 || strcmp(name + n - 4, "_hex") || len % 2)
		return 0;
	for (i = 0; i < len && hex_digit(s[i]) >= 0; i++)
		;
	return i == len;
}

int json_hex_to_base64(json_t *j, struct err *e)
{
	autojson json_t *fresh = json_is_object(j) ? json_object() : NULL;
	const char *name;
	json_t *v;
	size_t i;

	json_array_foreach(j, i, v)
		if (json_hex_to_base64(v, e) < 0)
			return -1;
	if (!json_is_object(j))
		return 0;
	json_object_foreach(j, name, v) {
		if (is_hex_member(name, v) ? recode(fresh, name, v, e) < 0 : json_hex_to_base64(v, e) < 0)
			return -1;
		if (!is_hex_member(name, v) && json_object_set(fresh, name, v) < 0)
			return err_nomem(e);
	}
	json_object_clear(j);
	return json_object_update(j, fresh) < 0 ? err_nomem(e) : 0;
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

json_t *json_named(const json_t *obj, const char *name)
{
	json_t *exact = json_object_get(obj, name), *found = NULL, *v;
	const char *key;

	if (exact)
		return exact;
	json_object_foreach ((json_t *)(size_t)obj, key, v) {
		if (strcasecmp(key, name))
			continue;
		if (found)
			return NULL;
		found = v;
	}
	return found;
}
