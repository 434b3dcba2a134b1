/* SPDX-License-Identifier: Apache-2.0 */
/* berth system pool: a file system with reflinks for writable layers. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "manager/host/layerpool.h"

enum { OPT_JSON = 1, OPT_SIZE };

static const struct opt options[] = {
	{ "size", 0, OPT_VALUE, "SIZE", "bytes of a new pool, which it takes at once", OPT_SIZE },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
};

struct verb {
	struct config config;
	struct registry registry;
	uint64_t bytes;
	int json;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct verb *v = ctx;

	if (id == OPT_SIZE)
		return num_size(value, "size", LAYERPOOL_SIZE_MIN, LAYERPOOL_SIZE_MAX, &v->bytes,
				e);
	v->json = 1;
	return 0;
}

static int show(struct verb *v, struct err *e)
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

static int create(struct verb *v, struct err *e)
{
	if (!v->bytes)
		return err_set(e, ERR_USAGE,
			       "the pool needs a size; hint: berth system pool create --size 20g");
	return layerpool_create(&v->registry, v->bytes, e) < 0 ? -1 : show(v, e);
}

static int remove_pool(struct verb *v, struct err *e)
{
	autojson json_t *answer = json_pack("{s:b}", "removed", 1);

	if (layerpool_remove(&v->registry, e) < 0)
		return -1;
	return v->json ? command_print_json(answer, JSON_COMPACT, e) : 0;
}

static int act(struct verb *v, const char *what, struct err *e)
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
	return makes ? create(v, e) : what ? remove_pool(v, e) : show(v, e);
}

static int run(const struct command *self, int argc, char **argv)
{
	struct verb v = { .registry = REGISTRY_INIT };
	struct err e = { 0 };
	int rest, help = 0;
	int r = command_options(self, argc, argv, set_option, &v, &rest, &help, &e);

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
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_WORDS,
	.words = "create rm",
	.run = run,
};
