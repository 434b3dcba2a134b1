/* SPDX-License-Identifier: Apache-2.0 */
/* berth volume create, ls, inspect, rm, prune: directories that outlive sandboxes. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/commands.h"
#include "manager/host/filter.h"
#include "manager/host/journal.h"
#include "manager/host/labels.h"
#include "manager/host/tenant.h"
#include "manager/host/volume.h"

enum {
	OPT_JSON = 1, OPT_QUIET, OPT_FILTER, OPT_SIZE, OPT_LABEL, OPT_FORCE, OPT_DRY_RUN,
	OPT_TENANT,
};

#define JSON_OPTION { "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON }
#define TENANT_OPTION \
	{ "tenant", 0, OPT_VALUE, "NAME", "as this tenant of berthd", OPT_TENANT }
#define VOLUME_FILTERS "only those with label=K, label=K=V, name=, tenant= or until="
#define FILTER_OPTION { "filter", 0, OPT_LIST, "KEY=VALUE", VOLUME_FILTERS, OPT_FILTER }

static const struct opt create_options[] = {
	{ "size", 0, OPT_VALUE, "SIZE", "most bytes it can hold (default: 1g)", OPT_SIZE },
	{ "label", 0, OPT_LIST, "KEY=VALUE", "a word of yours to find it by", OPT_LABEL },
	TENANT_OPTION,
	JSON_OPTION,
};

static const struct opt ls_options[] = {
	FILTER_OPTION,
	{ "quiet", 'q', OPT_FLAG, NULL, "only the names", OPT_QUIET },
	TENANT_OPTION,
	JSON_OPTION,
};

static const struct opt inspect_options[] = { TENANT_OPTION, JSON_OPTION };

static const struct opt rm_options[] = {
	{ "force", 'f', OPT_FLAG, NULL, "ignore a missing volume", OPT_FORCE },
	TENANT_OPTION,
	JSON_OPTION,
};

static const struct opt prune_options[] = {
	FILTER_OPTION,
	{ "dry-run", 'n', OPT_FLAG, NULL, "only print the names of what would be removed",
	  OPT_DRY_RUN },
	{ "force", 'f', OPT_FLAG, NULL, "as for berth prune; this command never asks",
	  OPT_FORCE },
	JSON_OPTION,
};

static const struct filter_key filter_keys[] = {
	{ "name", FILTER_GLOB, "name" },
	{ "label", FILTER_LABEL, "labels" },
	{ "tenant", FILTER_GLOB, "tenant" },
	{ "until", FILTER_UNTIL, "created" },
	{ NULL, FILTER_GLOB, NULL },
};

struct verb {
	struct config config;
	struct registry registry;
	struct filter filter;
	json_t *labels;
	json_t *users; /* volume_users() */
	json_t *list; /* [record, ...] */
	uint64_t size_bytes;
	const char *tenant;	/* "": nobody's volumes, and with an @ everybody's */
	int json, quiet, force, dry_run;
};

static int *flag(struct verb *v, int id)
{
	switch (id) {
	case OPT_JSON:
		return &v->json;
	case OPT_QUIET:
		return &v->quiet;
	case OPT_FORCE:
		return &v->force;
	default:
		return &v->dry_run;
	}
}

static int set_volume_option(void *ctx, int id, const char *value, struct err *e)
{
	struct verb *v = ctx;

	switch (id) {
	case OPT_FILTER:
		return filter_add(&v->filter, value, e);
	case OPT_SIZE:
		return num_size(value, "size", VOLUME_SIZE_MIN, VOLUME_SIZE_MAX, &v->size_bytes,
				e);
	case OPT_TENANT:
		v->tenant = value;
		if (path_is_name(value))
			return 0;
		return err_set(e, ERR_INVALID, "'%.80s' is not a tenant's name; "
			       "hint: a-z 0-9 _ . -", value);
	case OPT_LABEL:
		return labels_add(&v->labels, value, e);
	default:
		*flag(v, id) = 1;
		return 0;
	}
}

static const char *volume_text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s && s[0] ? s : "-";
}

static int collect_volume(void *ctx, const char *key, json_t *record)
{
	struct verb *v = ctx;
	json_t *users = json_object_get(v->users, key);

	if (!filter_matches(&v->filter, record))
		return 0;
	if (v->tenant[0] && strcmp(volume_text_of(record, "tenant"), v->tenant))
		return 0;
	json_object_set_new(record, "key", json_string(key));
	json_object_set_new(record, "used_by", users ? json_incref(users) : json_array());
	return json_array_append(v->list, record) < 0 ? -1 : 0;
}

static int collect_volumes(struct verb *v, struct err *e)
{
	v->users = volume_users(&v->registry, e);
	v->list = json_array();
	if (!v->users || !v->list)
		return v->users ? err_nomem(e) : -1;
	return volume_each(&v->registry, collect_volume, v, e);
}

static void volume_size_text(const json_t *j, const char *key, char out[24])
{
	static const char units[] = "bkmgt";
	double n = (double)json_integer_value(json_object_get(j, key));
	size_t u = 0;

	while (n >= 1024 && u + 2 < sizeof(units)) {
		n /= 1024;
		u++;
	}
	snprintf(out, 24, n < 10 && u ? "%.1f%c" : "%.0f%c", n, units[u]);
}

static void print_volume_row(const json_t *record)
{
	char size[24], disk[24];

	volume_size_text(record, "size_bytes", size);
	volume_size_text(record, "disk_bytes", disk);
	printf("%-24s  %8s  %8s  %6zu  %s\n", volume_text_of(record, "key"), size, disk,
	       json_array_size(json_object_get(record, "used_by")), volume_text_of(record, "created"));
}

static void print_volume_table(const json_t *list)
{
	const json_t *record;
	size_t i;

	printf("%-24s  %8s  %8s  %6s  %s\n", "NAME", "SIZE", "ON DISK", "USERS", "CREATED");
	json_array_foreach (list, i, record)
		print_volume_row(record);
}

static int show_volume_list(struct verb *v, int argc, char **argv, struct err *e)
{
	json_t *record;
	size_t i;

	if (argc)
		return err_set(e, ERR_USAGE, "unexpected argument '%.80s'", argv[0]);
	if (collect_volumes(v, e) < 0)
		return -1;
	if (v->json)
		return command_print_json(v->list, JSON_COMPACT, e);
	if (!v->quiet)
		print_volume_table(v->list);
	else
		json_array_foreach (v->list, i, record)
			puts(volume_text_of(record, "key"));
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

/* The key of the volume that an operand names. */
static int volume_key_of_operand(const struct verb *v, const char *name, char ret[VOLUME_KEY_MAX], struct err *e)
{
	if (!name[0])
		return err_set(e, ERR_USAGE,
			       "the name of the volume is empty; hint: berth volume ls lists them");
	if (v->tenant[0])
		return volume_key(name, v->tenant, ret, e);
	if (!volume_is_key(name))
		return err_set(e, ERR_NOT_FOUND, "there is no volume %.140s; hint: berth volume ls",
			       name);
	snprintf(ret, VOLUME_KEY_MAX, "%s", name);
	return 0;
}

static int create_volume(struct verb *v, int argc, char **argv, struct err *e)
{
	struct volume_wish w = {
		.name = argv[0], .tenant = v->tenant,
		.size_bytes = v->size_bytes, .labels = v->labels,
	};
	struct tenant t;

	if (argc != 1)
		return err_set(e, ERR_USAGE, "one name is wanted; hint: berth volume create data");
	if (v->tenant[0] && tenant_load(&t, &v->config, v->tenant, e) < 0)
		return -1;
	w.tenant_max = v->tenant[0] ? t.volumes : 0;
	if (volume_create(&v->registry, &w, e) < 0)
		return -1;
	if (!v->tenant[0])
		events_add(&v->registry, "volume-create", "", json_pack("{s:s,s:O*}", "name", argv[0], "labels", v->labels));
	if (v->json)
		printf("{\"name\":\"%s\"}\n", argv[0]);
	else
		puts(argv[0]);
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int inspect_volume(struct verb *v, int argc, char **argv, struct err *e)
{
	autojson json_t *record = NULL;
	char key[VOLUME_KEY_MAX];
	json_t *users;

	if (argc != 1)
		return err_set(e, ERR_USAGE,
			       "one volume is wanted; hint: berth volume inspect NAME, names are "
			       "listed by berth volume ls");
	if (volume_key_of_operand(v, argv[0], key, e) < 0)
		return -1;
	record = volume_load(&v->registry, key, e);
	v->users = record ? volume_users(&v->registry, e) : NULL;
	if (!v->users)
		return -1;
	users = json_object_get(v->users, key);
	json_object_set_new(record, "used_by", users ? json_incref(users) : json_array());
	return command_print_json(record, v->json ? JSON_COMPACT : JSON_INDENT(2), e);
}

static int tell_removed_volumes(const struct verb *v, json_t *removed, const char *key, struct err *e)
{
	json_t *name;
	size_t i;

	if (v->json) {
		autojson json_t *answer = json_pack("{s:O}", key, removed);

		return command_print_json(answer, JSON_COMPACT, e);
	}
	json_array_foreach(removed, i, name)
		puts(json_string_value(name));
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int drop_volume(struct verb *v, const char *key, struct err *e)
{
	if (volume_remove(&v->registry, key, e) < 0)
		return -1;
	events_add(&v->registry, "volume-rm", "", json_pack("{s:s}", "name", key));
	return 0;
}

static int remove_volumes(struct verb *v, int argc, char **argv, struct err *e)
{
	autojson json_t *removed = json_array();
	char key[VOLUME_KEY_MAX];
	int i;

	if (!argc)
		return err_set(e, ERR_USAGE,
			       "no volume given; hint: berth volume rm NAME, names are listed by "
			       "berth volume ls");
	for (i = 0; i < argc; i++) {
		if (volume_key_of_operand(v, argv[i], key, e) == 0 && drop_volume(v, key, e) == 0)
			json_array_append_new(removed, json_string(argv[i]));
		else if (!v->force || e->code != ERR_NOT_FOUND)
			return -1;
	}
	return tell_removed_volumes(v, removed, "removed", e);
}

static int prune_volumes(struct verb *v, int argc, char **argv, struct err *e)
{
	autojson json_t *removed = json_array();
	json_t *record;
	size_t i;

	if (argc)
		return err_set(e, ERR_USAGE, "unexpected argument '%.80s'", argv[0]);
	if (collect_volumes(v, e) < 0)
		return -1;
	json_array_foreach(v->list, i, record) {
		const char *key = volume_text_of(record, "key");

		if (json_array_size(json_object_get(record, "used_by")))
			continue;
		/* a volume that a sandbox began to use meanwhile stays */
		if (!v->dry_run && drop_volume(v, key, e) < 0) {
			if (e->code == ERR_BUSY || e->code == ERR_NOT_FOUND)
				continue;
			return -1;
		}
		json_array_append_new(removed, json_string(key));
	}
	return tell_removed_volumes(v, removed, v->dry_run ? "would_remove" : "removed", e);
}

static int run_volume_verb(const struct command *self, int argc, char **argv,
			   int (*verb)(struct verb *v, int argc, char **argv, struct err *e))
{
	struct verb v = { .filter = { .keys = filter_keys }, .tenant = "" };
	struct err e = { 0 };
	int rest, help = 0, result;

	v.registry = (struct registry)REGISTRY_INIT;
	result = command_options(self, argc, argv, set_volume_option, &v, &rest, &help, &e);
	if (result == 0 && !help) {
		result = config_load(&v.config, &e);
		if (result == 0)
			result = registry_open(&v.registry, &v.config, &e);
		if (result == 0)
			result = verb(&v, argc - rest, argv + rest, &e);
		registry_close(&v.registry);
	}
	json_decref(v.labels);
	json_decref(v.users);
	json_decref(v.list);
	return result < 0 ? command_fail(self, &e, v.json) : 0;
}

static int run_volume_create(const struct command *self, int argc, char **argv)
{
	return run_volume_verb(self, argc, argv, create_volume);
}

static int run_volume_ls(const struct command *self, int argc, char **argv)
{
	return run_volume_verb(self, argc, argv, show_volume_list);
}

static int run_volume_inspect(const struct command *self, int argc, char **argv)
{
	return run_volume_verb(self, argc, argv, inspect_volume);
}

static int run_volume_rm(const struct command *self, int argc, char **argv)
{
	return run_volume_verb(self, argc, argv, remove_volumes);
}

static int run_volume_prune(const struct command *self, int argc, char **argv)
{
	return run_volume_verb(self, argc, argv, prune_volumes);
}

const struct command cmd_volume_create = {
	.name = "volume create",
	.args = "NAME",
	.summary = "make a volume: a directory of bounded size that outlives sandboxes",
	.opts = create_options,
	.opt_count = ARRAY_LEN(create_options),
	.run = run_volume_create,
};

const struct command cmd_volume_ls = {
	.name = "volume ls",
	.args = "",
	.summary = "list the volumes: size, what they take on disk, how many sandboxes use them",
	.opts = ls_options,
	.opt_count = ARRAY_LEN(ls_options),
	.run = run_volume_ls,
	.print = print_volume_table,
};

const struct command cmd_volume_inspect = {
	.name = "volume inspect",
	.args = "NAME",
	.summary = "show a volume's record and the sandboxes that use it",
	.opts = inspect_options,
	.opt_count = ARRAY_LEN(inspect_options),
	.complete = COMPLETE_VOLUME,
	.run = run_volume_inspect,
};

const struct command cmd_volume_rm = {
	.name = "volume rm",
	.args = "NAME...",
	.summary = "remove volumes that no sandbox uses, stopped ones included",
	.opts = rm_options,
	.opt_count = ARRAY_LEN(rm_options),
	.complete = COMPLETE_VOLUME,
	.run = run_volume_rm,
};

const struct command cmd_volume_prune = {
	.name = "volume prune",
	.args = "",
	.summary = "remove all volumes that no sandbox uses",
	.opts = prune_options,
	.opt_count = ARRAY_LEN(prune_options),
	.run = run_volume_prune,
};
