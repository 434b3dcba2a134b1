/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/netmerge.h"

#include "base/mem.h"

/* In each pair the one takes back what the other said. */
static const struct { const char *key, *opposite; } lists[] = {
	{ "allow_host", "deny_host" },
	{ "deny_host", "allow_host" },
	{ "allow_net", "deny_net" },
	{ "deny_net", "allow_net" },
};

#define RESET "reset_rules"

/* Forgotten at a reset: not the ranges that were opened, which may be the configuration's. */
static const char *const forgotten[] = { "allow_host", "deny_host", "deny_net" };

static const char *const budgets[] = { "max_bytes", "max_connections", "max_rate" };

static void remove_value(json_t *list, const json_t *value)
{
	size_t i;

	for (i = json_array_size(list); i-- > 0;)
		if (json_equal(json_array_get(list, i), value))
			json_array_remove(list, i);
}

static int merge_list(json_t *policy, const char *key, const char *opposite, const json_t *changes,
		      struct err *e)
{
	json_t *more = json_object_get(changes, key), *list, *value;
	size_t i;

	if (!json_is_array(more))
		return 0;
	if (!json_object_get(policy, key))
		json_object_set_new(policy, key, json_array());
	list = json_object_get(policy, key);
	json_array_foreach(more, i, value) {
		remove_value(json_object_get(policy, opposite), value);
		remove_value(list, value);
		if (json_array_append(list, value) < 0)
			return err_nomem(e);
	}
	return 0;
}

int netmerge_wanted(const json_t *changes)
{
	size_t i;

	if (json_is_true(json_object_get(changes, RESET)))
		return 1;
	for (i = 0; i < ARRAY_LEN(lists); i++)
		if (json_object_get(changes, lists[i].key))
			return 1;
	for (i = 0; i < ARRAY_LEN(budgets); i++)
		if (json_object_get(changes, budgets[i]))
			return 1;
	return 0;
}

int netmerge(json_t *policy, const json_t *changes, struct err *e)
{
	int r = 0;
	json_t *v;
	size_t i;

	for (i = 0; json_is_true(json_object_get(changes, RESET)) && i < ARRAY_LEN(forgotten); i++)
		if (json_object_get(policy, forgotten[i]))
			json_object_set_new(policy, forgotten[i], json_array());
	for (i = 0; r == 0 && i < ARRAY_LEN(lists); i++)
		r = merge_list(policy, lists[i].key, lists[i].opposite, changes, e);
	for (i = 0; r == 0 && i < ARRAY_LEN(budgets); i++)
		if ((v = json_object_get(changes, budgets[i])))
			r = json_object_set(policy, budgets[i], v);
	return r;
}
