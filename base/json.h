/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json - jansson, with the limits hostile documents need.
 *
 * json_parse() refuses duplicate keys, depth over 64, NUL bytes and trailing
 * text.  The getters refuse a value of the wrong type instead of ignoring it.
 * Strings they return are borrowed from the document.
 */
#ifndef BERTH_BASE_JSON_H
#define BERTH_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define JSON_DEPTH_MAX 64

#define JSON_GROWTH_MAX 48	/* how many times its length a document may take in memory, */
#define JSON_GROWTH_FREE (4u << 20)	/* and these bytes besides */
/* About how many bytes json_parse() of this text allocates. */
size_t json_memory(const char *text, size_t n);
/* Returns a new reference, or NULL with ERR_CORRUPT; what names the document. */
json_t *json_parse(const char *text, size_t n, size_t max_bytes, const char *what, struct err *e);

/* 1 found, 0 absent or null, -1 wrong type (ERR_CORRUPT naming what and key). */
int json_get_str(const json_t *obj, const char *key, const char **ret_s, const char *what, struct err *e);
int json_get_u64(const json_t *obj, const char *key, uint64_t *ret_v, const char *what, struct err *e);
int json_get_bool(const json_t *obj, const char *key, int *ret_v, const char *what, struct err *e);
int json_get_obj(const json_t *obj, const char *key, json_t **ret_obj, const char *what, struct err *e);
int json_get_arr(const json_t *obj, const char *key, json_t **ret_arr, const char *what, struct err *e);

/*
 * Checks the format of a document that berth itself keeps: its member "version", a whole number
 * from 1. known is the newest version that this berth reads. ERR_UNSUPPORTED with both numbers
 * for a newer one, ERR_CORRUPT if the number is missing or malformed.
 */
int json_check_version(const json_t *doc, json_int_t known, const char *what, struct err *e);

/*
 * Bytes in JSON: the member key if they are UTF-8 without NUL, else KEY_hex in hexadecimal. p
 * may be NULL when n is 0. json_get_bytes() also takes KEY_base64; it accepts one of the three
 * and adds the bytes to b. It returns 1, or 0 if none is there; what names the document
 * (ERR_INVALID). json_hex_to_base64() renames every string KEY_hex in j, at any depth, to
 * KEY_base64.
 */
int json_set_bytes(json_t *obj, const char *key, const char *p, size_t n, struct err *e);
int json_get_bytes(const json_t *obj, const char *key, struct buf *b, const char *what, struct err *e);
int json_hex_to_base64(json_t *j, struct err *e);

/*
 * Writes j as compact text of *ret_len bytes: to room, or, if that is too small, to allocated
 * memory (*ret_own), which the caller frees. NULL if j is not valid UTF-8 or memory ran out.
 */
const char *json_text(const json_t *j, char *room, size_t n, char **ret_own, size_t *ret_len);

/*
 * Turns an error that another program of berth reported, {code, message[, remedy]}, into ours;
 * always returns -1. An unknown or missing code becomes otherwise, never success. error may be
 * NULL.
 */
int json_take_error(const json_t *error, enum err_code otherwise, const char *who, struct err *e);
/* The same for the output of a program with --json, whose last line is {"error":...}, after any notes. */
int json_take_error_line(const char *text, const char *who, struct err *e);

static inline void json_unref_cleanup(json_t **j)
{
	json_decref(*j);
}
#define autojson __attribute__((cleanup(json_unref_cleanup)))

/*
 * Returns the member of that name, or else the only member whose name differs in case alone,
 * because a template says "APIVersion" for what JSON calls "ApiVersion". Borrowed; NULL if there is
 * none.
 */
json_t *json_named(const json_t *obj, const char *name);

#endif
