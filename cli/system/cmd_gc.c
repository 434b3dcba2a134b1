/* SPDX-License-Identifier: Apache-2.0 */
/* berth gc: clear what crashed supervisors left behind. */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/system/gc.h"
#include "manager/host/forget.h"
#include "manager/host/layerpool.h"
#include "manager/host/netmembers.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/host/volume.h"
#include "rootfs/store/store.h"

enum { OPT_DRY_RUN = 1, OPT_JSON };

static const struct opt options[] = {
	{ "dry-run", 'n', OPT_FLAG, NULL, "only print the ids of what would be cleared", OPT_DRY_RUN },
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object", OPT_JSON },
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct gc_options *o = ctx;

	(void)value;
	(void)e;
	*(id == OPT_DRY_RUN ? &o->dry_run : &o->json) = 1;
	return 0;
}

static int note(void *ctx, const char *id)
{
	json_array_append_new(ctx, json_string(id));
	return 0;
}

/* What it does not understand it leaves, and says so. */
static int tell_newer(void *ctx, const char *id, int kept, json_t *record)
{
	const char *why = record_error(record);

	(void)ctx;
	(void)id;
	(void)kept;
	if (why[0])
		log_note("berth", "left alone: %s", why);
	return 0;
}

int gc_collect(const struct config *c, const struct gc_options *o, struct err *e)
{
	struct registry r;
	autojson json_t *would = json_array();
	unsigned cleared = 0, expired = 0, networks = 0, volumes = 0, layers = 0;
	char store[sizeof(c->state_dir) + 8];
	size_t i;
	int result;

	if (registry_open(&r, c, e) < 0)
		return -1;
	result = o->dry_run ? registry_gc_dry(&r, note, would, e) : registry_gc(&r, &cleared, e);
	if (result == 0)
		result = o->dry_run ? expire_dry(&r, note, would, e) : expire_stopped(&r, &expired, e);
	cleared += expired;
	if (!o->dry_run) {
		if (result == 0)
			result = parentclear(&r, e);
		if (result == 0)
			result = netclear_all(&r, &networks, e);
		if (result == 0)
			result = netend_clear(&r, e);
		if (result == 0)
			result = volume_gc(&r, &volumes, e);
		if (result == 0)
			result = layerpool_gc(&r, &layers, e);
		snprintf(store, sizeof(store), "%s/store", c->state_dir);
		if (result == 0)
			result = store_clear_dead(store, e);
	}
	if (result == 0)
		result = registry_list(&r, 1, tell_newer, NULL, e);
	registry_close(&r);
	if (result < 0)
		return -1;
	if (o->json && o->dry_run) {
		autojson json_t *answer = json_pack("{s:O}", "would_clear", would);

		return command_print_json(answer, JSON_COMPACT, e);
	} else if (o->json) {
		printf("{\"cleared\":%u,\"networks\":%u,\"volumes\":%u,\"layers\":%u}\n", cleared,
		       networks, volumes, layers);
	} else if (o->dry_run) {
		for (i = 0; i < json_array_size(would); i++)
			puts(json_string_value(json_array_get(would, i)));
	} else if (cleared) {
		printf("cleared %u sandbox%s\n", cleared, cleared == 1 ? "" : "es");
	}
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int gc_main(const struct command *self, int argc, char **argv)
{
	struct gc_options o = { 0 };
	struct config c;
	struct err e = { 0 };
	int rest, help = 0;

	if (config_load(&c, &e) < 0 || command_options(self, argc, argv, set_option, &o, &rest, &help, &e) < 0)
		return command_fail(self, &e, o.json);
	if (help)
		return 0;
	if (rest < argc) {
		err_set(&e, ERR_USAGE, "unexpected argument '%.80s'", argv[rest]);
		return command_fail(self, &e, o.json);
	}
	return gc_collect(&c, &o, &e) < 0 ? command_fail(self, &e, o.json) : 0;
}

const struct command cmd_gc = {
	.name = "gc",
	.args = "",
	.summary = "clear what crashed sandboxes left behind",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.run = gc_main,
};
