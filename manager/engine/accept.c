/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/accept.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/engine/logs.h"

#define KEYS_MAX 16

static const char *const keys[ENGINE_FILTERED][KEYS_MAX] = {
	[ENGINE_CONTAINERS] = { "ancestor", "before", "exited", "id", "isolation", "label", "name",
				"status", "health", "since", "volume", "network", "is-task",
				"publish", "expose" },
	[ENGINE_IMAGES] = { "dangling", "label", "before", "since", "reference", "until" },
	[ENGINE_NETWORKS] = { "dangling", "driver", "id", "label", "name", "scope", "type" },
	[ENGINE_VOLUMES] = { "dangling", "name", "driver", "label" },
	[ENGINE_PRUNE_CONTAINERS] = { "label", "label!", "until" },
	[ENGINE_PRUNE_IMAGES] = { "dangling", "label", "label!", "until" },
	[ENGINE_PRUNE_VOLUMES] = { "label", "label!", "all" },
};
_Static_assert(ARRAY_LEN(keys) == ENGINE_FILTERED, "keys of each list");

static int is_one_of(const char *value, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(value, *words))
			return 1;
	return 0;
}

/* ---- values -------------------------------------------------------------------------------- */

static int bad_value(const char *key, const char *value, struct err *e)
{
	return err_set(e, ERR_INVALID, "invalid filter '%s=%.80s'", key, value);
}

static int check_status(const char *value, struct err *e)
{
	static const char *const states[] = { "paused", "restarting", "removing", "running",
					      "dead",   "created",    "exited",   NULL };

	return is_one_of(value, states) ? 0 : bad_value("status", value, e);
}

static int check_health(const char *value, struct err *e)
{
	static const char *const states[] = { "none", "starting", "healthy", "unhealthy", NULL };

	return is_one_of(value, states) ?
		       0 :
		       err_set(e, ERR_INVALID, "Unrecognised filter value for health: %.80s",
			       value);
}

static int check_exited(const char *value, struct err *e)
{
	struct err ignored;
	uint64_t code;

	return num_u64(value + (*value == '-' || *value == '+'), "code", 0, INT64_MAX, &code,
		       &ignored) < 0 ?
		       err_set(e, ERR_INVALID, "strconv.Atoi: parsing \"%.80s\": invalid syntax",
			       value) :
		       0;
}

static int check_type(const char *value, struct err *e)
{
	static const char *const types[] = { "builtin", "custom", NULL };

	return is_one_of(value, types) ?
		       0 :
		       err_set(e, ERR_INVALID, "invalid filter: 'type'='%.80s'", value);
}

static int check_until(const char *value, struct err *e)
{
	char time[JOURNAL_TIME];

	return engine_logs_time(value, time, e);
}

/* Of each value by itself. */
static const struct {
	unsigned lists; /* bits of enum engine_filtered */
	const char *key;
	int (*check)(const char *value, struct err *e);
} checks[] = {
	{ 1u << ENGINE_CONTAINERS, "status", check_status },
	{ 1u << ENGINE_CONTAINERS, "health", check_health },
	{ 1u << ENGINE_CONTAINERS, "exited", check_exited },
	{ 1u << ENGINE_NETWORKS, "type", check_type },
	{ ~0u, "until", check_until },
};

/* ---- all values of a key ------------------------------------------------------------------- */

static int is_true(const char *value)
{
	return !strcmp(value, "true") || !strcmp(value, "1");
}

/* All of them are true, or all are false. */
static int check_bool(enum engine_filtered what, const char *key, const json_t *list, struct err *e)
{
	static const char *const words[] = { "true", "1", "false", "0", NULL };
	const char *first = json_string_value(json_array_get(list, 0));
	char all[80] = "";
	const json_t *one;
	int good = 1;
	size_t i, n = 0;

	json_array_foreach ((json_t *)(size_t)list, i, one) {
		const char *value = json_string_value(one);

		good &= is_one_of(value, words) && is_true(value) == is_true(first);
		if (n < sizeof(all))
			n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i ? " " : "",
					      value);
	}
	if (good)
		return 0;
	if (what == ENGINE_NETWORKS)
		return err_set(e, ERR_INVALID, "invalid value for filter 'dangling', must be "
					       "\"true\" (or \"1\"), or \"false\" (or \"0\")");
	return err_set(e, ERR_INVALID, "invalid filter '%s=[%s]'", key, all);
}

static int check_key(enum engine_filtered what, const char *key, const json_t *list, struct err *e)
{
	static const char *const bools[] = { "dangling", "is-task", "all", NULL };
	const json_t *one;
	size_t i, k;

	if (!is_one_of(key, keys[what]))
		return err_set(e, ERR_INVALID, "invalid filter '%.40s'", key);
	if (is_one_of(key, bools))
		return check_bool(what, key, list, e);
	if (!strcmp(key, "until") && json_array_size(list) > 1)
		return err_set(e, ERR_INVALID, "more than one until filter specified");
	for (k = 0; k < ARRAY_LEN(checks); k++)
		if (checks[k].lists & 1u << what && !strcmp(checks[k].key, key))
			json_array_foreach ((json_t *)(size_t)list, i, one)
				if (checks[k].check(json_string_value(one), e) < 0)
					return -1;
	return 0;
}

int engine_accept(enum engine_filtered what, const json_t *filters, struct err *e)
{
	const char *key;
	json_t *list;

	json_object_foreach ((json_t *)(size_t)filters, key, list)
		if (check_key(what, key, list, e) < 0)
			return -1;
	return 0;
}

int engine_accepted_bool(const json_t *filters, const char *key, int otherwise)
{
	const char *first =
		json_string_value(json_array_get(json_object_get(filters, key), 0));

	return first ? is_true(first) : otherwise;
}
