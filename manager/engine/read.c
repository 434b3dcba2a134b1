/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a client's document with the types of Docker's API. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "manager/engine/create.h"

static int wrong(const char *key, const char *what, struct err *e)
{
	return err_set(e, ERR_INVALID, "invalid JSON: %.80s is not %s", key, what);
}

static json_t *get(const json_t *obj, const char *key)
{
	json_t *v = json_object_get(obj, key);

	return json_is_null(v) ? NULL : v;
}

int engine_str(const json_t *obj, const char *key, const char **ret, struct err *e)
{
	const json_t *v = get(obj, key);

	if (!v)
		return 0;
	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
		return wrong(key, "a string", e);
	*ret = json_string_value(v);
	return 0;
}

int engine_int(const json_t *obj, const char *key, json_int_t *ret, struct err *e)
{
	const json_t *v = get(obj, key);

	if (!v)
		return 0;
	if (!json_is_integer(v))
		return wrong(key, "an integer", e);
	*ret = json_integer_value(v);
	return 0;
}

int engine_flag(const json_t *obj, const char *key, int *ret, struct err *e)
{
	const json_t *v = get(obj, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return wrong(key, "a boolean", e);
	*ret = json_is_true(v);
	return 0;
}

int engine_arr(const json_t *obj, const char *key, json_t **ret, struct err *e)
{
	*ret = get(obj, key);
	return *ret && !json_is_array(*ret) ? wrong(key, "an array", e) : 0;
}

int engine_obj(const json_t *obj, const char *key, json_t **ret, struct err *e)
{
	*ret = get(obj, key);
	return *ret && !json_is_object(*ret) ? wrong(key, "an object", e) : 0;
}

const char *engine_item(const json_t *list, size_t i, const char *key, struct err *e)
{
	const json_t *v = json_array_get(list, i);
	const char *s = json_string_value(v);

	if (!s || strlen(s) != json_string_length(v)) {
		wrong(key, "an array of strings", e);
		return NULL;
	}
	return s;
}

int engine_fold(json_t *obj, const char *const *known, struct err *e)
{
	const char *name;
	json_t *v;
	void *next;

	json_object_foreach_safe (obj, next, name, v) {
		const char *const *k = known;

		while (*k && strcasecmp(*k, name))
			k++;
		if (!*k || !strcmp(*k, name))
			continue;
		if (!json_object_get(obj, *k) && json_object_set(obj, *k, v) < 0)
			return err_nomem(e);
		json_object_del(obj, name);
	}
	return 0;
}

json_t *engine_user_groups(const char *user, const json_t *groups, struct err *e)
{
	json_t *text = json_string(user);
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)groups, i, one) {
		char number[24];
		const char *name = json_string_value(one);
		json_t *longer;

		/* some clients send numbers, which Docker's own would refuse */
		snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(one));
		name = json_is_integer(one) ? number : name;
		if (!name || !name[0] || strchr(name, ',')) {
			json_decref(text);
			wrong("GroupAdd", "an array of groups", e);
			return NULL;
		}
		longer = json_sprintf("%s,%s", json_string_value(text), name);
		json_decref(text);
		text = longer;
	}
	if (!text)
		err_set(e, ERR_INVALID, "a user or a group is not UTF-8");
	return text;
}

static int add_text(json_t *to, const char *fmt, va_list ap, struct err *e)
	__attribute__((format(printf, 2, 0)));

static int add_text(json_t *to, const char *fmt, va_list ap, struct err *e)
{
	autofree char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
		return err_nomem(e);
	}
	return json_array_append_new(to, json_string(text)) < 0 ? err_nomem(e) : 0;
}

int engine_word(struct engine_create *c, struct err *e, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = add_text(c->words, fmt, ap, e);
	va_end(ap);
	return r;
}

int engine_warn(struct engine_create *c, struct err *e, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = add_text(c->warnings, fmt, ap, e);
	va_end(ap);
	return r;
}

/* The values with which a client leaves a member unset: null, "", 0, false, [], {}. */
static int holds_nothing(const json_t *v)
{
	return json_is_null(v) || json_is_false(v) ||
	       (json_is_string(v) && !json_string_length(v)) ||
	       (json_is_integer(v) && !json_integer_value(v)) ||
	       (json_is_array(v) && !json_array_size(v)) ||
	       (json_is_object(v) && !json_object_size(v));
}

#define UNKNOWN_MAX 32

int engine_note_unknown(struct engine_create *c, const json_t *obj, const char *const *known,
			const char *where, struct err *e)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(size_t)obj, name, v) {
		const char *const *k = known;

		while (*k && strcmp(*k, name))
			k++;
		if (*k || holds_nothing(v) || json_array_size(c->unknown) == UNKNOWN_MAX)
			continue;
		if (json_array_append_new(c->unknown, json_sprintf("%s%.60s", where, name)) < 0)
			return err_nomem(e);
		if (engine_warn(c, e, "%s%.60s is not supported here and was ignored", where, name) < 0)
			return -1;
	}
	return 0;
}
