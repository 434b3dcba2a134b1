/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_json - reads from an OCI document that oci_schema_check() has passed.
 *
 * The types are known by then, so the getters cannot fail: for an absent member, or null, they
 * return the value that the caller gives (Go's JSON, with which every engine writes, makes no
 * difference).
 *
 * jansson's integers end at INT64_MAX, but engines write 18446744073709551615
 * for "unlimited".  oci_json_parse() lets such a number through as a string
 * that begins with OCI_BIG; oci_u64() reads both forms.
 */
#ifndef BERTH_RUNTIME_OCI_JSON_H
#define BERTH_RUNTIME_OCI_JSON_H

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define OCI_BIG "\x01u64:"
#define OCI_DOCUMENT_MAX (8u << 20)

/* As json_parse(), with 64-bit unsigned numbers.  A new reference, or NULL. */
json_t *oci_json_parse(const char *text, size_t n, const char *what, struct err *e);
/* Reads and parses a host file; its text goes to b, whose ceiling applies. */
json_t *oci_json_read(int dirfd, const char *path, struct buf *b, struct err *e);
/* As oci_json_read(), without the text. */
json_t *oci_json_load(int dirfd, const char *path, struct err *e);

static inline json_t *oci_get(const json_t *obj, const char *key)
{
	json_t *v = json_object_get(obj, key);

	return json_is_null(v) ? NULL : v;
}

/* obj.a.b */
static inline json_t *oci_get2(const json_t *obj, const char *a, const char *b)
{
	return oci_get(oci_get(obj, a), b);
}

/* Returns NULL if the member is absent. */
static inline const char *oci_str(const json_t *obj, const char *key)
{
	return json_string_value(oci_get(obj, key));
}

static inline int oci_true(const json_t *obj, const char *key)
{
	return json_is_true(oci_get(obj, key));
}

static inline uint64_t oci_u64_value(const json_t *v)
{
	if (json_is_string(v) && !strncmp(json_string_value(v), OCI_BIG, sizeof(OCI_BIG) - 1))
		return strtoull(json_string_value(v) + sizeof(OCI_BIG) - 1, NULL, 10);
	return (uint64_t)json_integer_value(v);
}

static inline uint64_t oci_u64(const json_t *obj, const char *key, uint64_t absent)
{
	const json_t *v = oci_get(obj, key);

	return v ? oci_u64_value(v) : absent;
}

static inline int64_t oci_i64(const json_t *obj, const char *key, int64_t absent)
{
	return (int64_t)oci_u64(obj, key, (uint64_t)absent);
}

/* ---- the types of a document ---- */

/*
 * oci_schema - checks the types of OCI runtime documents (runtime-spec 1.3, config.md,
 * config-linux.md), as one table.
 *
 * Members that the table does not know are ignored, as the spec asks; a member
 * of another type, or a number out of its range, is refused with its path.
 */

enum oci_document {
	OCI_CONFIG,	/* config.json */
	OCI_PROCESS,	/* its process, which is all that `exec --process` takes */
	OCI_RESOURCES,	/* its linux.resources, which is all that `update --resources` takes */
};

/* Checks doc; what names the document in errors. ERR_INVALID. */
int oci_schema_check(const json_t *doc, enum oci_document kind, const char *what, struct err *e);

#endif
