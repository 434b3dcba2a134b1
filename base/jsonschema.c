/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonschema.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define REF "#/components/schemas/"

int jsonschema_known(const struct jsonschema_set *set, const json_t *s, const char *name,
		     struct err *e)
{
	static const char *const keys[] = {
		"type",        "properties", "required", "additionalProperties",
		"items",       "enum",       "minimum",  "maximum",
		"maxLength",   "minLength",  "maxItems", "$ref",
		"description", "default",    "example",  "title"
	};
	const char *key;
	json_t *v, *sub;
	size_t i;

	json_object_foreach((json_t *)(size_t)s, key, v) {
		for (i = 0; i < ARRAY_LEN(keys) && strcmp(keys[i], key); i++)
			;
		if (i == ARRAY_LEN(keys))
			return err_set(e, ERR_INTERNAL, "schema %s has an unknown key %s", name,
				       key);
		if (!strcmp(key, "$ref") &&
		    (strncmp(json_string_value(v), REF, sizeof(REF) - 1) ||
		     !json_object_get(set->named, json_string_value(v) + sizeof(REF) - 1)))
			return err_set(e, ERR_INTERNAL, "schema %s refers to an unknown %s", name,
				       json_string_value(v));
		if ((!strcmp(key, "items") ||
		     (!strcmp(key, "additionalProperties") && json_is_object(v))) &&
		    jsonschema_known(set, v, name, e) < 0)
			return -1;
		if (!strcmp(key, "properties")) {
			const char *member;

			json_object_foreach(v, member, sub)
				if (jsonschema_known(set, sub, name, e) < 0)
					return -1;
		}
	}
	return 0;
}

/* ---- checking --------------------------------------------------------------------- */

static int has_json_type(const char *type, const json_t *v)
{
	return !strcmp(type, "object")  ? json_is_object(v) :
	       !strcmp(type, "array")   ? json_is_array(v) :
	       !strcmp(type, "string")  ? json_is_string(v) :
	       !strcmp(type, "integer") ? json_is_integer(v) :
	       !strcmp(type, "number")  ? json_is_number(v) :
	       !strcmp(type, "boolean") ? json_is_boolean(v) :
	       !strcmp(type, "null")    ? json_is_null(v) :
					  0;
}

static int check_value_type(const json_t *type, const json_t *v, const char *what, struct err *e)
{
	autojson json_t *types = json_is_array(type) ? json_incref((json_t *)(size_t)type) : json_pack("[O]", type);
	char names[160] = "";
	json_t *one;
	size_t i, n = 0;

	json_array_foreach(types, i, one)
		if (has_json_type(json_string_value(one), v))
			return 0;
	json_array_foreach(types, i, one)
		if (n < sizeof(names))
			n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? " or " : "", json_string_value(one));
	return err_set(e, ERR_INVALID, "%.200s has the wrong type; hint: %s", what, names);
}

static int check_value_shape(const struct jsonschema_set *set, const json_t *s, const json_t *v,
			     const char *what, int depth, struct err *e);

/* The message repeats the key only when it is a plain name: no other bytes go into a log. */
static int unknown_member(const struct jsonschema_set *set, const char *key, const char *what,
			  struct err *e)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t n = strlen(key);

	if (n && n <= 64 && strspn(key, letters) == n)
		return err_set(e, ERR_INVALID,
			       "%.200s has a member '%s' that is unknown here; hint: %s lists them",
			       what, key, set->listed_in);
	return err_set(e, ERR_INVALID,
		       "%.200s has a member that is unknown here; hint: %s lists them", what,
		       set->listed_in);
}

static int check_object_shape(const struct jsonschema_set *set, const json_t *s, const json_t *v,
			      const char *what, int depth, struct err *e)
{
	const json_t *properties = json_object_get(s, "properties"),
		     *more = json_object_get(s, "additionalProperties");
	json_t *required = json_object_get(s, "required"), *name, *member;
	const char *key;
	char where[300];
	size_t i;

	json_array_foreach(required, i, name)
		if (!json_object_get(v, json_string_value(name)))
			return err_set(e, ERR_INVALID, "%.200s lacks \"%s\"", what,
				       json_string_value(name));
	json_object_foreach((json_t *)(size_t)v, key, member) {
		const json_t *sub = json_object_get(properties, key);

		if (!sub && json_is_false(more))
			return unknown_member(set, key, what, e);
		if (!sub)
			sub = json_is_object(more) ? more : NULL;
		snprintf(where, sizeof(where), "%.200s.%.60s", what,
			 json_object_get(properties, key) ? key : "*");
		if (sub && check_value_shape(set, sub, member, where, depth + 1, e) < 0)
			return -1;
	}
	return 0;
}

static int check_bounds(const json_t *s, const json_t *v, const char *what, struct err *e)
{
	const json_t *min = json_object_get(s, "minimum"), *max = json_object_get(s, "maximum"),
		     *longest = json_object_get(s, "maxLength"),
		     *shortest = json_object_get(s, "minLength"),
		     *most = json_object_get(s, "maxItems");

	if (min && json_is_number(v) && json_number_value(v) < json_number_value(min))
		return err_set(e, ERR_INVALID, "%.200s is too small; hint: at least %lld", what,
			       (long long)json_integer_value(min));
	if (max && json_is_number(v) && json_number_value(v) > json_number_value(max))
		return err_set(e, ERR_INVALID, "%.200s is too large; hint: at most %lld", what,
			       (long long)json_integer_value(max));
	if (longest && json_is_string(v) &&
	    json_string_length(v) > (size_t)json_integer_value(longest))
		return err_set(e, ERR_INVALID, "%.200s is too long; hint: at most %lld bytes", what,
			       (long long)json_integer_value(longest));
	if (shortest && json_is_string(v) &&
	    json_string_length(v) < (size_t)json_integer_value(shortest))
		return err_set(e, ERR_INVALID, "%.200s is too short; hint: at least %lld bytes",
			       what, (long long)json_integer_value(shortest));
	if (most && json_is_array(v) && json_array_size(v) > (size_t)json_integer_value(most))
		return err_set(e, ERR_INVALID, "%.200s has too many items; hint: at most %lld",
			       what, (long long)json_integer_value(most));
	return 0;
}

static int check_enum(json_t *list, const json_t *v, const char *what, struct err *e)
{
	autofree char *words = NULL;
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
		if (json_equal(one, v))
			return 0;
	words = json_dumps(list, JSON_COMPACT);
	return err_set(e, ERR_INVALID, "%.200s is not one of %.200s", what, words ? words : "?");
}

static int check_value_shape(const struct jsonschema_set *set, const json_t *s, const json_t *v,
			     const char *what, int depth, struct err *e)
{
	const char *ref = json_string_value(json_object_get(s, "$ref"));
	const json_t *type = json_object_get(s, "type"), *items = json_object_get(s, "items");
	json_t *words = json_object_get(s, "enum"), *one;
	char where[300];
	size_t i;

	if (depth > 32)
		return err_set(e, ERR_INVALID, "%.200s is nested too deep", what);
	if (ref)
		return check_value_shape(set, json_object_get(set->named, ref + sizeof(REF) - 1), v, what,
					 depth + 1, e);
	if ((type && check_value_type(type, v, what, e) < 0) ||
	    (words && check_enum(words, v, what, e) < 0) || check_bounds(s, v, what, e) < 0)
		return -1;
	/* JSON allows NUL in a string; a path or an argument does not */
	if (json_is_string(v) && strlen(json_string_value(v)) != json_string_length(v))
		return err_set(e, ERR_INVALID, "%.200s has a NUL character", what);
	if (json_is_object(v) && check_object_shape(set, s, v, what, depth, e) < 0)
		return -1;
	if (json_is_array(v) && items) {
		json_array_foreach((json_t *)(size_t)v, i, one) {
			snprintf(where, sizeof(where), "%.200s[%zu]", what, i);
			if (check_value_shape(set, items, one, where, depth + 1, e) < 0)
				return -1;
		}
	}
	return 0;
}

int jsonschema_fit(const struct jsonschema_set *set, const json_t *s, const json_t *v,
		   const char *what, struct err *e)
{
	return check_value_shape(set, s, v, what, 0, e);
}
