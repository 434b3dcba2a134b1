/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/filters.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/engine/logs.h"
#include "manager/engine/name.h"
#include "manager/engine/view.h"

/* ---- which filters are taken ---- */

#define KEYS_MAX 16

static const char *const filter_keys[ENGINE_FILTERED][KEYS_MAX] = {
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
_Static_assert(ARRAY_LEN(filter_keys) == ENGINE_FILTERED, "keys of each list");

static int is_filter_word(const char *value, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(value, *words))
			return 1;
	return 0;
}

/* ---- values -------------------------------------------------------------------------------- */

static int refuse_filter_value(const char *key, const char *value, struct err *e)
{
	return err_set(e, ERR_INVALID, "invalid filter '%s=%.80s'", key, value);
}

static int check_status_filter(const char *value, struct err *e)
{
	static const char *const states[] = { "paused", "restarting", "removing", "running",
					      "dead",   "created",    "exited",   NULL };

	return is_filter_word(value, states) ? 0 : refuse_filter_value("status", value, e);
}

static int check_health_filter(const char *value, struct err *e)
{
	static const char *const states[] = { "none", "starting", "healthy", "unhealthy", NULL };

	return is_filter_word(value, states) ?
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

static int check_network_type_filter(const char *value, struct err *e)
{
	static const char *const types[] = { "builtin", "custom", NULL };

	return is_filter_word(value, types) ?
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
	{ 1u << ENGINE_CONTAINERS, "status", check_status_filter },
	{ 1u << ENGINE_CONTAINERS, "health", check_health_filter },
	{ 1u << ENGINE_CONTAINERS, "exited", check_exited },
	{ 1u << ENGINE_NETWORKS, "type", check_network_type_filter },
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

		good &= is_filter_word(value, words) && is_true(value) == is_true(first);
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

static int check_filter_key(enum engine_filtered what, const char *key, const json_t *list, struct err *e)
{
	static const char *const bools[] = { "dangling", "is-task", "all", NULL };
	const json_t *one;
	size_t i, k;

	if (!is_filter_word(key, filter_keys[what]))
		return err_set(e, ERR_INVALID, "invalid filter '%.40s'", key);
	if (is_filter_word(key, bools))
		return check_bool(what, key, list, e);
	if (what != ENGINE_IMAGES && !strcmp(key, "until") && json_array_size(list) > 1)
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
		if (check_filter_key(what, key, list, e) < 0)
			return -1;
	return 0;
}

int engine_accepted_bool(const json_t *filters, const char *key, int otherwise)
{
	const char *first =
		json_string_value(json_array_get(json_object_get(filters, key), 0));

	return first ? is_true(first) : otherwise;
}

/* ---- whether they match ---- */

/* ?filters= of lists of containers. */

#define TEXT_MAX 65536
#define PATTERN_MAX 512

/* Older clients send an object of values that are true. */
static json_t *filter_values(const json_t *v)
{
	json_t *list, *on;
	const char *key;

	if (json_is_array(v))
		return json_deep_copy(v);
	if (!json_is_object(v))
		return NULL;
	list = json_array();
	json_object_foreach ((json_t *)(size_t)v, key, on)
		if (json_is_true(on))
			json_array_append_new(list, json_string(key));
	return list;
}

json_t *engine_filters(const char *text, struct err *e)
{
	autojson json_t *j = NULL;
	json_t *all = json_object(), *v, *list, *one;
	const char *key;
	size_t i;

	if (!text || !text[0])
		return all;
	j = json_parse(text, strlen(text), TEXT_MAX, "filters", e);
	if (!j || !json_is_object(j))
		goto fail;
	json_object_foreach (j, key, v) {
		list = filter_values(v);
		if (!list || json_object_set_new(all, key, list) < 0)
			goto fail;
		json_array_foreach (list, i, one)
			if (!json_is_string(one))
				goto fail;
	}
	return all;
fail:
	json_decref(all);
	err_set(e, ERR_INVALID, "invalid filters");
	return NULL;
}

int engine_filters_has(const json_t *filters, const char *key)
{
	return json_array_size(json_object_get(filters, key)) > 0;
}

static int filter_labels_have(const json_t *labels, const char *want)
{
	const char *eq = strchr(want, '='), *v;
	char key[260];

	snprintf(key, sizeof(key), "%.*s", eq ? (int)(eq - want) : 256, want);
	v = json_string_value(json_object_get(labels, key));
	return v && (!eq || !strcmp(v, eq + 1));
}

int engine_filters_labels(const json_t *filters, const char *key, const json_t *labels)
{
	const json_t *list = json_object_get(filters, key), *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one)
		if (!filter_labels_have(labels, json_string_value(one)))
			return 0;
	return 1;
}

int engine_filters_named(const char *name, const char *pattern)
{
	regex_t re;
	int found;

	if (!strcmp(name, pattern))
		return 1;
	if (strlen(pattern) > PATTERN_MAX || strchr(pattern, '{') ||
	    regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB))
		return strstr(name, pattern) != NULL;
	found = !regexec(&re, name, 0, NULL, 0);
	regfree(&re);
	return found;
}

/* A container's name has a slash in front, which clients write or leave out. */
static int is_container_named(const char *name, const char *pattern)
{
	char slashed[ENGINE_NAME_MAX + 2];

	snprintf(slashed, sizeof(slashed), "/%s", name);
	return engine_filters_named(name, pattern) || engine_filters_named(slashed, pattern);
}

static int is_image(const struct engine_view *v, const char *want)
{
	const char *name = engine_image_name(v),
		   *digest = json_string_value(json_object_get(v->image, "digest"));
	size_t n = strlen(want);

	if (!strcmp(name, want) || (!strncmp(name, want, n) && !strcmp(name + n, ":latest")))
		return 1;
	return digest && n >= 12 && (!strncmp(digest, want, n) || !strncmp(digest + 7, want, n));
}

/* By its name or the beginning of its id. */
static int is_network(const char *name, const char *want)
{
	char mapped[ENGINE_NAME], id[ENGINE_ID];

	engine_network_id(name, id);
	return (engine_name_map(want, mapped) >= 0 && !strcmp(name, mapped)) || (want[0] && !strncmp(id, want, strlen(want)));
}

/* The one that it was made with, or one that it joined. */
static int is_on_network(const struct engine_view *v, const char *want)
{
	const json_t *row;
	size_t i;

	if (is_network(engine_network_mode(v), want))
		return 1;
	json_array_foreach (json_object_get(v->record, "networks"), i, row) {
		const char *name = json_string_value(json_object_get(row, "network"));

		if (name && is_network(name, want))
			return 1;
	}
	return 0;
}

/* By its name, its place, or the path of a bind. */
static int is_mounted(const struct engine_view *v, const char *want)
{
	autojson json_t *mounts = engine_mounts(v);
	const json_t *m;
	size_t i;

	json_array_foreach (mounts, i, m) {
		static const char *const keys[] = { "Name", "Destination", "Source" };
		size_t k;

		for (k = 0; k < ARRAY_LEN(keys); k++) {
			const char *s = json_string_value(json_object_get(m, keys[k]));

			if (s && s[0] && !strcmp(s, want))
				return 1;
		}
	}
	return 0;
}

/* "8000-8010/tcp", "80"; ERR_INVALID. */
static int parse_port_filter(const char *text, uint64_t ret[2], int *ret_udp, struct err *e)
{
	char copy[32], *type, *last;
	struct err ignored;

	snprintf(copy, sizeof(copy), "%s", text);
	type = strchr(copy, '/');
	if (type)
		*type++ = '\0';
	last = strchr(copy, '-');
	if (last)
		*last++ = '\0';
	*ret_udp = type && !strcmp(type, "udp");
	if (strlen(text) >= sizeof(copy) || (type && !*ret_udp && strcmp(type, "tcp")) ||
	    num_u64(copy, "port", 1, UINT16_MAX, &ret[0], &ignored) < 0 ||
	    num_u64(last ? last : copy, "port", ret[0], UINT16_MAX, &ret[1], &ignored) < 0)
		return err_set(e, ERR_INVALID, "invalid port specification: \"%.40s\"", text);
	return 0;
}

/* publish: a port of the host; expose: one of the container. */
static int has_port(const struct engine_view *v, int publish, const char *want, struct err *e)
{
	autojson json_t *ports = engine_ports(v);
	const char *what;
	uint64_t range[2];
	json_t *bindings, *one;
	int udp;
	size_t i;

	if (parse_port_filter(want, range, &udp, e) < 0)
		return -1;
	json_object_foreach (ports, what, bindings) {
		const uint64_t inside = (uint64_t)atoi(what);

		if ((strstr(what, "/udp") != NULL) != udp)
			continue;
		if (!publish && inside >= range[0] && inside <= range[1])
			return 1;
		json_array_foreach (bindings, i, one) {
			const char *s = json_string_value(json_object_get(one, "HostPort"));
			const uint64_t outside = s ? (uint64_t)atoi(s) : 0;

			if (publish && outside >= range[0] && outside <= range[1])
				return 1;
		}
	}
	return 0;
}

static int one_matches(const struct engine_view *v, const char *key, const char *want,
		       struct err *e)
{
	const char *health = engine_health(v);
	char id[ENGINE_ID], code[16];

	engine_id(v->id, id);
	snprintf(code, sizeof(code), "%d", engine_exit_code(v));
	if (!strcmp(key, "id"))
		return !strncmp(id, want, strlen(want));
	if (!strcmp(key, "name"))
		return is_container_named(engine_name(v), want);
	if (!strcmp(key, "status"))
		return !strcmp(engine_state_name(engine_state(v)), want);
	if (!strcmp(key, "ancestor"))
		return is_image(v, want);
	if (!strcmp(key, "exited"))
		return engine_state(v) == ENGINE_EXITED && !strcmp(code, want);
	if (!strcmp(key, "health"))
		return !strcmp(health ? health : "none", want);
	if (!strcmp(key, "network"))
		return is_on_network(v, want);
	if (!strcmp(key, "volume"))
		return is_mounted(v, want);
	if (!strcmp(key, "publish") || !strcmp(key, "expose"))
		return has_port(v, key[0] == 'p', want, e);
	return err_set(e, ERR_INVALID, "invalid filter '%.40s'", key);
}

/* Terms that are true of every container here, or of none. */
static int is_constant(const char *key, const char *want)
{
	if (!strcmp(key, "is-task"))
		return !strcmp(want, "false") || !strcmp(want, "0");
	return !strcmp(key, "isolation") ? 1 : -1;
}

static int key_matches(const struct engine_view *v, const char *key, const json_t *list,
		       struct err *e)
{
	const json_t *one;
	size_t i;
	int r;

	json_array_foreach ((json_t *)(size_t)list, i, one) {
		const char *want = json_string_value(one);

		r = is_constant(key, want);
		if (r < 0)
			r = one_matches(v, key, want, e);
		if (r)
			return r;
	}
	return json_array_size(list) == 0;
}

/* Made before (-1) or after (1) each of these times. */
static int is_beside(const struct engine_view *v, int side, const json_t *times)
{
	const char *mine = json_string_value(json_object_get(v->record, "created"));
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)times, i, one) {
		const int order = strcmp(mine ? mine : "", json_string_value(one));

		if (side < 0 ? order >= 0 : order <= 0)
			return 0;
	}
	return 1;
}

int engine_filters_match(const json_t *filters, const struct engine_view *v, struct err *e)
{
	const char *key;
	json_t *list;
	int r;

	json_object_foreach ((json_t *)(size_t)filters, key, list) {
		if (!strcmp(key, "label"))
			r = engine_filters_labels(filters, key,
						  json_object_get(v->record, "labels"));
		else if (!strcmp(key, "before") || !strcmp(key, "since"))
			r = is_beside(v, key[0] == 'b' ? -1 : 1, list);
		else
			r = key_matches(v, key, list, e);
		if (r <= 0)
			return r;
	}
	return 1;
}

/* Made before each time, or longer ago than each duration. */
static int is_older(const json_t *list, const char *created)
{
	char until[JOURNAL_TIME];
	struct err ignored;
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one)
		if (engine_logs_time(json_string_value(one), until, &ignored) < 0 || !created || !until[0] ||
		    engine_time_ns(created) >= engine_time_ns(until))
			return 0;
	return json_array_size(list) > 0;
}

int engine_filters_prune(const json_t *filters, const json_t *labels, const char *created)
{
	return engine_filters_labels(filters, "label", labels) &&
	       (!engine_filters_has(filters, "label!") ||
		!engine_filters_labels(filters, "label!", labels)) &&
	       (!engine_filters_has(filters, "until") ||
		is_older(json_object_get(filters, "until"), created));
}
