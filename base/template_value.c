/* SPDX-License-Identifier: Apache-2.0 */
/* template_value - what the functions of a template make of values.  Pure. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/template.h"
#include "base/template_tree.h"

const char *template_kind(const json_t *j)
{
	switch (json_typeof(j)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
	case JSON_REAL:
		return "a number";
	case JSON_NULL:
		return "null";
	default:
		return "true or false";
	}
}

static json_t *fail(struct err *e, const char *fn, const char *what, const json_t *j)
{
	err_set(e, ERR_INVALID, "template: %s %s %s", fn, what, template_kind(j));
	return NULL;
}

/* The keys in order, as Go prints and walks maps; the caller frees them. NULL for none. */
const char **template_keys(const json_t *object, struct err *e)
{
	const size_t n = json_object_size(object);
	const char **keys = calloc(n + 1, sizeof(*keys)), *key;
	size_t count = 0, i;
	json_t *v;

	if (!keys) {
		err_nomem(e);
		return NULL;
	}
	json_object_foreach ((json_t *)object, key, v) {
		for (i = count++; i > 0 && strcmp(keys[i - 1], key) > 0; i--)
			keys[i] = keys[i - 1];
		keys[i] = key;
	}
	return keys;
}

int template_true(const json_t *j)
{
	switch (json_typeof(j)) {
	case JSON_OBJECT:
		return json_object_size(j) != 0;
	case JSON_ARRAY:
		return json_array_size(j) != 0;
	case JSON_STRING:
		return json_string_length(j) != 0;
	case JSON_INTEGER:
	case JSON_REAL:
		return json_number_value(j) != 0;
	default:
		return json_is_true(j);
	}
}

/* and, or: the first argument that decides, else the last. */
json_t *template_decide(json_t **args, size_t n, int wanted)
{
	size_t i = 0;

	while (i + 1 < n && template_true(args[i]) != wanted)
		i++;
	return json_incref(args[i]);
}

json_t *template_compare(struct err *e, enum template_fn fn, const json_t *a, const json_t *b)
{
	int order;

	if (json_is_string(a) && json_is_string(b)) {
		order = strcmp(json_string_value(a), json_string_value(b));
	} else if (json_is_integer(a) && json_is_integer(b)) {
		order = (json_integer_value(a) > json_integer_value(b)) -
			(json_integer_value(a) < json_integer_value(b));
	} else if (json_is_number(a) && json_is_number(b)) {
		order = (json_number_value(a) > json_number_value(b)) -
			(json_number_value(a) < json_number_value(b));
	} else {
		return fail(e, "lt, le, gt and ge", "compare two strings or two numbers, and not",
			    json_is_string(a) || json_is_number(a) ? b : a);
	}
	return json_boolean(fn == TEMPLATE_LT ? order < 0 :
			    fn == TEMPLATE_LE ? order <= 0 :
			    fn == TEMPLATE_GT ? order > 0 :
						order >= 0);
}

json_t *template_equal(struct err *e, json_t **args, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (json_is_object(args[i]) || json_is_array(args[i]))
			return fail(e, "eq and ne", "cannot compare", args[i]);
	for (i = 1; i < n; i++)
		if (json_is_number(args[0]) && json_is_number(args[i]) ?
			    json_number_value(args[0]) == json_number_value(args[i]) :
			    json_equal(args[0], args[i]))
			return json_true();
	return json_false();
}

/*
 * index x 1 "a": a missing key of an object is null, as Go's zero value; a missing place of an
 * array is an error.
 */
json_t *template_index(struct err *e, json_t **args, size_t n)
{
	autojson json_t *held = NULL;
	json_t *at = args[0];
	size_t i;

	for (i = 1; i < n; i++) {
		if (json_is_object(at) && json_is_string(args[i])) {
			at = template_member(at, json_string_value(args[i]));
			json_decref(held);
			held = at;
		} else if (json_is_array(at) && json_is_integer(args[i])) {
			const json_int_t k = json_integer_value(args[i]);

			if (k < 0 || (size_t)k >= json_array_size(at)) {
				err_set(e, ERR_NOT_FOUND, "template: index %lld of an array of %zu",
					(long long)k, json_array_size(at));
				return NULL;
			}
			at = json_array_get(at, (size_t)k);
		} else {
			return fail(
				e, "index",
				"takes an object and a string, or an array and a number, and not",
				at);
		}
	}
	return json_incref(at);
}

json_t *template_len(struct err *e, const json_t *j)
{
	if (json_is_string(j))
		return json_integer((json_int_t)json_string_length(j));
	if (json_is_array(j) || json_is_object(j))
		return json_integer(
			(json_int_t)(json_is_array(j) ? json_array_size(j) : json_object_size(j)));
	return fail(e, "len", "of", j);
}
