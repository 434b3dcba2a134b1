/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void args_release(struct args *a)
{
	while (a->n)
		free(a->v[--a->n]);
}

int args_add(struct args *a, const char *text, struct err *e)
{
	if (a->n + 1 >= ARGS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d options", ARGS_MAX);
	a->v[a->n] = strdup(text);
	return a->v[a->n++] ? 0 : err_nomem(e);
}

int args_option(struct args *a, const char *name, const json_t *v, struct err *e)
{
	autofree char *text = NULL;
	int r;

	/* NAME alone takes the caller's value, and the caller of berth is berthd */
	if (!strcmp(name, "env") && (!json_is_string(v) || !strchr(json_string_value(v), '=')))
		return err_set(e, ERR_INVALID,
			       "body.options.env holds something else than NAME=VALUE");
	if (json_is_false(v))
		return 0;
	if (json_is_true(v))
		r = asprintf(&text, "--%s", name);
	else if (json_is_string(v))
		r = asprintf(&text, "--%s=%s", name, json_string_value(v));
	else if (json_is_integer(v))
		r = asprintf(&text, "--%s=%lld", name, (long long)json_integer_value(v));
	else
		r = asprintf(&text, "--%s=%g", name, json_real_value(v));
	if (r < 0) {
		text = NULL;
		return err_nomem(e);
	}
	return args_add(a, text, e);
}

int args_strings(struct args *a, const json_t *list, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach (list, i, one)
		if (args_add(a, json_string_value(one), e) < 0)
			return -1;
	return 0;
}

int args_words(struct args *a, const char *const *words, struct err *e)
{
	for (; *words; words++)
		if (args_add(a, *words, e) < 0)
			return -1;
	return 0;
}

int args_options(struct args *a, json_t *options, struct err *e)
{
	const char *name;
	json_t *v, *one;
	size_t i;

	json_object_foreach (options, name, v) {
		if (!name[0] || name[0] == '-' ||
		    name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] ||
		    !strcmp(name, "json") || !strcmp(name, "name") || !strcmp(name, "help"))
			return err_set(e, ERR_INVALID,
				       "a name among the options is not an option of this command");
		if (!json_is_array(v) && args_option(a, name, v, e) < 0)
			return -1;
		json_array_foreach (v, i, one)
			if (args_option(a, name, one, e) < 0)
				return -1;
	}
	return 0;
}
