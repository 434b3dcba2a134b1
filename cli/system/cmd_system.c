/* SPDX-License-Identifier: Apache-2.0 */
/* berth system df, system pool, gc, prune: what sandboxes take of the host, and how it gets that back. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/select.h"
#include "cli/run/imageprog.h"
#include "manager/host/buildcache.h"
#include "manager/host/config.h"
#include "manager/host/forget.h"
#include "manager/host/journal.h"
#include "manager/host/labels.h"
#include "manager/host/layerpool.h"
#include "manager/host/netmembers.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/host/volume.h"
#include "rootfs/store/store.h"

struct gc_options {
	int dry_run, json, builds;
};

/* ---- df ---- */

/* berth system df: what images, sandboxes and volumes take on disk. */

static int run_system_df(const struct command *self, int argc, char **argv)
{
	return imageprog_command(self, "df", argc, argv);
}

const struct command cmd_system_df = {
	.name = "system df",
	.args = "",
	.summary = "what images, sandboxes and volumes take on disk",
	.run = run_system_df,
	.flags = COMMAND_EXTERNAL,
};

/* ---- pool ---- */

/* berth system pool: a file system with reflinks for writable layers. */

enum { POOL_JSON = 1, POOL_SIZE };

static const struct opt pool_options[] = {
	{ "size", 0, OPT_VALUE, "SIZE", "bytes of a new pool, which it takes at once", POOL_SIZE },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", POOL_JSON },
};

struct pool_verb {
	struct config config;
	struct registry registry;
	uint64_t bytes;
	int json;
};

static int set_pool_option(void *ctx, int id, const char *value, struct err *e)
{
	struct pool_verb *v = ctx;

	if (id == POOL_SIZE)
		return num_size(value, "size", LAYERPOOL_SIZE_MIN, LAYERPOOL_SIZE_MAX, &v->bytes,
				e);
	v->json = 1;
	return 0;
}

static int show_layer_pool(struct pool_verb *v, struct err *e)
{
	autojson json_t *pool = layerpool_describe(v->registry.state_fd, e);

	if (!pool)
		return -1;
	if (v->json)
		return command_print_json(pool, JSON_COMPACT, e);
	return printf("%lld MiB, %lld MiB free, with the layers of %lld sandboxes\n",
		      (long long)json_integer_value(json_object_get(pool, "size_bytes")) >> 20,
		      (long long)json_integer_value(json_object_get(pool, "free_bytes")) >> 20,
		      (long long)json_integer_value(json_object_get(pool, "sandboxes"))) < 0 ?
		       err_sys(e, "write") :
		       0;
}

static int create_layer_pool(struct pool_verb *v, struct err *e)
{
	if (!v->bytes)
		return err_set(e, ERR_USAGE,
			       "the pool needs a size; hint: berth system pool create --size 20g");
	return layerpool_create(&v->registry, v->bytes, e) < 0 ? -1 : show_layer_pool(v, e);
}

static int remove_pool(struct pool_verb *v, struct err *e)
{
	autojson json_t *answer = json_pack("{s:b}", "removed", 1);

	if (layerpool_remove(&v->registry, e) < 0)
		return -1;
	return v->json ? command_print_json(answer, JSON_COMPACT, e) : 0;
}

static int act(struct pool_verb *v, const char *what, struct err *e)
{
	const int makes = what && !strcmp(what, "create");

	if (what && !makes && strcmp(what, "rm") != 0)
		return err_set(e, ERR_USAGE,
			       "'%.40s' is not known; hint: berth system pool create --size 20g, "
			       "berth system pool rm, or berth system pool",
			       what);
	if (v->bytes && !makes)
		return err_set(e, ERR_USAGE,
			       "--size is for a new pool; hint: berth system pool "
			       "create --size 20g");
	if (config_load(&v->config, e) < 0 || registry_open(&v->registry, &v->config, e) < 0)
		return -1;
	return makes ? create_layer_pool(v, e) : what ? remove_pool(v, e) : show_layer_pool(v, e);
}

static int run_system_pool(const struct command *self, int argc, char **argv)
{
	struct pool_verb v = { .registry = REGISTRY_INIT };
	struct err e = { 0 };
	int rest, help = 0;
	int r = command_options(self, argc, argv, set_pool_option, &v, &rest, &help, &e);

	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 < argc)
		r = err_set(&e, ERR_USAGE, "unexpected argument '%.80s'", argv[rest + 1]);
	if (r == 0)
		r = act(&v, rest < argc ? argv[rest] : NULL, &e);
	registry_close(&v.registry);
	return r < 0 ? command_fail(self, &e, v.json) : 0;
}

const struct command cmd_system_pool = {
	.name = "system pool",
	.args = "[create|rm]",
	.summary = "make, show or remove a file system for checkpoints that share their blocks",
	.detail = "The layers of sandboxes that are made from then on are in the pool; others stay "
		  "where they are.\n"
		  "It is an XFS in a file of the state directory, and needs mkfs.xfs (xfsprogs).  "
		  "rm removes it\n"
		  "when no layer is in it.",
	.opts = pool_options,
	.opt_count = ARRAY_LEN(pool_options),
	.complete = COMPLETE_WORDS,
	.words = "create rm",
	.run = run_system_pool,
};

/* ---- gc ---- */

/* berth gc: clear what crashed supervisors left behind. */

enum { GC_DRY_RUN = 1, GC_BUILDS, GC_JSON };

static const struct opt gc_opts[] = {
	{ "dry-run", 'n', OPT_FLAG, NULL, "only print the ids of what would be cleared", GC_DRY_RUN },
	{ "builds", 0, OPT_FLAG, NULL, "also remove base images and steps that builds keep for later ones", GC_BUILDS },
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object", GC_JSON },
};

static int set_gc_option(void *ctx, int id, const char *value, struct err *e)
{
	struct gc_options *o = ctx;

	(void)value;
	(void)e;
	*(id == GC_DRY_RUN ? &o->dry_run : id == GC_BUILDS ? &o->builds : &o->json) = 1;
	return 0;
}

static int note_gc_removed(void *ctx, const char *id)
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

/* Clears what crashed sandboxes left, or with dry_run only names it, and tells the user. */
static int gc_collect(const struct config *c, const struct gc_options *o, struct err *e)
{
	struct registry r;
	autojson json_t *would = json_array();
	unsigned cleared = 0, expired = 0, networks = 0, volumes = 0, layers = 0, builds = 0;
	uint64_t build_bytes = 0;
	char store[sizeof(c->state_dir) + 8];
	size_t i;
	int result;

	if (registry_open(&r, c, e) < 0)
		return -1;
	result = o->dry_run ? registry_gc_dry(&r, note_gc_removed, would, e) : registry_gc(&r, &cleared, e);
	if (result == 0)
		result = o->dry_run ? expire_dry(&r, note_gc_removed, would, e) : expire_stopped(&r, &expired, e);
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
			result = buildcache_prune(&r, o->builds ? 0 : BUILDCACHE_UNUSED_MS, &builds, &build_bytes, e);
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
		printf("{\"cleared\":%u,\"networks\":%u,\"volumes\":%u,\"layers\":%u,\"builds\":%u,\"build_bytes\":%llu}\n", cleared,
		       networks, volumes, layers, builds, (unsigned long long)build_bytes);
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

	if (config_load(&c, &e) < 0 || command_options(self, argc, argv, set_gc_option, &o, &rest, &help, &e) < 0)
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
	.opts = gc_opts,
	.opt_count = ARRAY_LEN(gc_opts),
	.run = gc_main,
};

/* ---- prune ---- */

/*
 * berth prune, berth system prune: remove the sandboxes that do not run, and what nothing needs.
 *
 * Sandboxes of berthd stay: a session that rests is stopped on purpose, and a tenant's files are
 * not the operator's to tidy.  berth rm removes these.
 */

enum { PRUNE_FILTER = 1, PRUNE_DRY_RUN, PRUNE_FORCE, PRUNE_JSON };

#define OPTIONS(what) \
	{ "filter", 0, OPT_LIST, "KEY=VALUE", FILTER_HELP, PRUNE_FILTER }, \
	{ "dry-run", 'n', OPT_FLAG, NULL, "only print the ids of what would go", PRUNE_DRY_RUN }, \
	{ "force", 'f', OPT_FLAG, NULL, "do not ask", PRUNE_FORCE }, \
	{ "json", 0, OPT_FLAG, NULL, what, PRUNE_JSON }

static const struct opt prune_options[] = { OPTIONS("print one JSON object, errors too") };
static const struct opt system_options[] = {
	OPTIONS("print JSON objects, one a line, errors too"),
};

struct prune {
	struct filter filter;
	int dry_run, force, json;
	json_t *removed;
};

static int set_prune_option(void *ctx, int id, const char *value, struct err *e)
{
	struct prune *p = ctx;

	if (id == PRUNE_FILTER)
		return filter_add(&p->filter, value, e);
	*(id == PRUNE_DRY_RUN ? &p->dry_run : id == PRUNE_FORCE ? &p->force : &p->json) = 1;
	return 0;
}

/* What is lost cannot be brought back: somebody at a terminal says yes, a script says --force. */
static int agreed(const struct prune *p, struct err *e)
{
	int c;

	if (p->force || p->dry_run)
		return 1;
	if (!isatty(STDIN_FILENO) || p->json)
		return err_set(e, ERR_USAGE, "sandboxes would be removed with their files, and "
			       "there is no terminal to ask on; hint: --force, or --dry-run to "
			       "see which");
	fputs("Remove every sandbox that does not run, with its files? [y/N] ", stderr);
	c = getchar();
	return c == 'y' || c == 'Y';
}

static int is_operators_sandbox(struct registry *r, const json_t *record, const char *id)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/" REGISTRY_OWNER, id);
	return !record_error(record)[0] && !path_has(r->kept_fd, path) &&
	       !json_object_get(record_labels(record), LABEL_MANAGED);
}

static int remove_stopped_sandboxes(struct registry *r, struct prune *p, struct err *e)
{
	autojson json_t *found = NULL;
	size_t i;

	if (select_records(r, &p->filter, SELECT_STOPPED, &found, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(found); i++) {
		const json_t *record = json_array_get(found, i);
		const char *id = record_id(record);
		struct err why = { 0 };

		if (!is_operators_sandbox(r, record, id))
			continue;
		/* a sandbox that was started or removed since is left alone */
		if (!p->dry_run && forget_alone(r, id, &why) < 0) {
			if (why.code != ERR_BUSY && why.code != ERR_NOT_FOUND)
				log_note("berth prune", "sandbox %s stays: %s", id, why.msg);
			continue;
		}
		if (!p->dry_run)
			events_add(r, "rm", id, json_pack("{s:s}", "reason", "prune"));
		json_array_append(p->removed, json_object_get(record, "id"));
	}
	return 0;
}

static int tell_pruned(const struct prune *p, struct err *e)
{
	autojson json_t *answer = NULL;
	size_t i;

	if (p->json) {
		answer = json_pack("{s:O}", p->dry_run ? "would_remove" : "removed", p->removed);
		return command_print_json(answer, JSON_COMPACT, e);
	}
	for (i = 0; i < json_array_size(p->removed); i++)
		puts(json_string_value(json_array_get(p->removed, i)));
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

/* 1: done; 0: the user said no. */
static int prune_sandboxes(struct prune *p, struct err *e)
{
	struct registry r;
	struct config c;
	int result = agreed(p, e);

	if (result <= 0)
		return result;
	if (config_load(&c, e) < 0 || registry_open(&r, &c, e) < 0)
		return -1;
	result = remove_stopped_sandboxes(&r, p, e);
	registry_close(&r);
	return result < 0 || tell_pruned(p, e) < 0 ? -1 : 1;
}

static int prune_rest(const struct command *self, const struct prune *p)
{
	char *argv[] = { "prune", p->json ? "--json" : "--quiet", NULL };
	struct gc_options o = { p->dry_run, p->json };
	struct err e = { 0 };
	struct config c;

	if (config_load(&c, &e) < 0 || gc_collect(&c, &o, &e) < 0)
		return command_fail(self, &e, p->json);
	return p->dry_run ? 0 : imageprog_command(self, "prune", 2, argv);
}

static int sandbox_prune_main(const struct command *self, int argc, char **argv)
{
	autojson json_t *removed = json_array();
	struct prune p = { .filter = { .keys = filter_sandbox_keys }, .removed = removed };
	struct err e = { 0 };
	int rest, help = 0, done;

	if (command_options(self, argc, argv, set_prune_option, &p, &rest, &help, &e) < 0)
		return command_fail(self, &e, p.json);
	if (help)
		return 0;
	if (rest < argc) {
		err_set(&e, ERR_USAGE, "unexpected argument '%.80s'; hint: --filter name=%.80s, or "
			"berth rm %.80s", argv[rest], argv[rest], argv[rest]);
		return command_fail(self, &e, p.json);
	}
	done = prune_sandboxes(&p, &e);
	if (done < 0)
		return command_fail(self, &e, p.json);
	return done && !strcmp(self->name, "system prune") ? prune_rest(self, &p) : 0;
}

const struct command cmd_prune = {
	.name = "prune",
	.args = "",
	.summary = "remove the sandboxes that do not run, with their files",
	.opts = prune_options,
	.opt_count = ARRAY_LEN(prune_options),
	.run = sandbox_prune_main,
};

const struct command cmd_system_prune = {
	.name = "system prune",
	.args = "",
	.summary = "prune, clear what crashes left, and remove layers that no image needs",
	.opts = system_options,
	.opt_count = ARRAY_LEN(system_options),
	.run = sandbox_prune_main,
};
