/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/time/forkspec.h"

#include <string.h>

#include "base/mem.h"
#include "cli/run/envopts.h"
#include "manager/host/labels.h"

/* What a new option of that name takes the place of. */
enum kind {
	BESIDE,  /* nothing */
	INSTEAD, /* the same of the first */
	RULE,    /* every rule of the network */
	NETWORK, /* the network with its rules and ports */
};

static const struct row {
	int id;
	const char *name;
	enum kind kind;
} rows[] = {
	{ RUNOPT_ENV, "env", BESIDE },
	{ RUNOPT_LABEL, "label", BESIDE },
	{ RUNOPT_VOLUME, "volume", BESIDE },
	{ RESIDENT_TTL, "ttl", INSTEAD },
	{ RUNOPT_MEMORY, "memory", INSTEAD },
	{ RUNOPT_CPUS, "cpus", INSTEAD },
	{ RUNOPT_PIDS, "pids", INSTEAD },
	{ RUNOPT_NETWORK, "network", NETWORK },
	{ RUNOPT_ALLOW_HOST, "allow-host", RULE },
	{ RUNOPT_DENY_HOST, "deny-host", RULE },
	{ RUNOPT_ALLOW_NET, "allow-net", RULE },
	{ RUNOPT_DENY_NET, "deny-net", RULE },
};

/* Of a network besides its rules. */
static const char *const of_network[] = {
	"dns", "publish", "network-bytes", "network-connections", "network-rate",
	"add-host", "alias",
};

static const struct row *row_of(int id, const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (name ? !strcmp(rows[i].name, name) : rows[i].id == id)
			return &rows[i];
	return NULL;
}

/* A path of the caller's directory would mean another one at the next start. */
static int check_volume(const char *value, struct err *e)
{
	const size_t n = strcspn(value, ":");

	return value[0] == '/' || !memchr(value, '/', n) ?
		       0 :
		       err_set(e, ERR_INVALID,
			       "volume '%.80s': neither a name nor an absolute path; "
			       "hint: berth volume create NAME",
			       value);
}

int forkspec_add(json_t *more, int id, const char *value, struct err *e)
{
	const struct row *row = row_of(id, NULL);
	autofree char *settled = NULL;

	if (!row)
		return err_set(e, ERR_INTERNAL, "an option without a row");
	if (id == RUNOPT_VOLUME && check_volume(value, e) < 0)
		return -1;
	if (id == RUNOPT_ENV && !(settled = envopts_settle(value, e)))
		return -1;
	return json_array_append_new(more, json_pack("[s,s]", row->name,
						     settled ? settled : value)) < 0 ?
		       err_set(e, ERR_INVALID, "the value is not valid UTF-8") :
		       0;
}

static const char *name_of(const json_t *pair)
{
	const char *s = json_string_value(json_array_get(pair, 0));

	return s ? s : "";
}

static int is_of_network(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(of_network); i++)
		if (!strcmp(of_network[i], name))
			return 1;
	return 0;
}

/* A fork of what berthd's manager keeps is not the manager's. */
static int marks_managed(const json_t *pair)
{
	const char *value = json_string_value(json_array_get(pair, 1));

	return !strcmp(name_of(pair), "label") && value &&
	       !strncmp(value, LABEL_MANAGED "=", sizeof(LABEL_MANAGED));
}

static int is_replaced(const json_t *pair, const json_t *more)
{
	const char *name = name_of(pair);
	const struct row *own = row_of(0, name), *row;
	json_t *one;
	size_t i;

	json_array_foreach (more, i, one) {
		row = row_of(0, name_of(one));
		if ((row->kind == INSTEAD && own == row) ||
		    (row->kind >= RULE && own && own->kind == RULE) ||
		    (row->kind == NETWORK && (own == row || is_of_network(name))))
			return 1;
	}
	return 0;
}

json_t *forkspec_of(const json_t *spec, const json_t *more, struct err *e)
{
	json_t *fork = json_deep_copy(spec), *options = json_array(), *pair;
	size_t i;

	json_array_foreach (json_object_get(fork, "options"), i, pair)
		if (!is_replaced(pair, more) && !marks_managed(pair))
			json_array_append(options, pair);
	if (!fork || !options || json_array_extend(options, (json_t *)(size_t)more) < 0 ||
	    json_object_set_new(fork, "options", options) < 0) {
		json_decref(fork);
		err_nomem(e);
		return NULL;
	}
	return fork;
}
