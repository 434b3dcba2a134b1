/* SPDX-License-Identifier: Apache-2.0 */
/* berth zygote create, ls, inspect, rm. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/lifecycle.h"
#include "cli/zygote/zygote.h"
#include "manager/host/labels.h"
#include "manager/ops/optvalues.h"
#include "manager/ops/params.h"
#include "manager/ops/settleopt.h"
#include "manager/zygote/client.h"
#include "manager/zygote/list.h"
#include "runtime/kernel/inject.h"

/* ---- The commands ---- */

enum { OPT_TENANT = PARAM_END, OPT_JSON, OPT_QUIET };

static const struct opt create_options[] = {
	{"tenant", 0, OPT_VALUE, "NAME",
	 "make it a tenant's of berthd: [tenant] holds, and the tenant sees it",
	 OPT_TENANT},
	{"json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON},
};

static const struct opt json_option[] = {
	{"json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON},
};

static const struct opt ls_options[] = {
	{"quiet", 'q', OPT_FLAG, NULL, "only the names, or ids of those without", OPT_QUIET},
	{"json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON},
};

static int keep_env(void *ctx, const char *line, struct err *e)
{
	struct zygote *z = ctx;

	return params_keep(z->options, "env", line, e);
}

/* What berth create --zygote makes a sandbox with: all but what names the zygote itself. */
static int keep_zygote_option(struct zygote *z, int id, const char *value, struct err *e)
{
	autofree char *settled = NULL;
	const char *text;

	switch (id) {
	case PARAM_NAME:
	case PARAM_LABEL:
	case PARAM_LABEL_FILE:
	case PARAM_TTY:
	case PARAM_INTERACTIVE:
	case PARAM_ENTRYPOINT:
		return 0;
	case PARAM_ENV_FILE:
		return envopts_file(value, keep_env, z, e);
	default:
		break;
	}
	if (value && settleopt(id, value, &settled, e) < 0)
		return -1;
	text = settled ? settled : value;
	if (id == PARAM_SECCOMP && settleopt_seccomp(text, &z->seccomp, e) < 0)
		return -1;
	return params_keep(z->options, param_of(id)->opt.name, text, e);
}

static int set_zygote_option(void *ctx, int id, const char *value, struct err *e)
{
	struct zygote *z = ctx;
	uint64_t n;

	switch (id) {
	case PARAM_POOL:
	case PARAM_FORKS:
		if (param_parse(param_of(id), value, &n, e) < 0)
			return -1;
		*(id == PARAM_POOL ? &z->pool : &z->max) = (unsigned)n;
		return 0;
	case PARAM_PRELOAD_TIMEOUT:
		return param_parse(param_of(id), value, &z->preload.ms, e);
	case OPT_JSON:
		*z->json = 1;
		return 0;
	case OPT_TENANT: /* find_tenant() has taken it */
		return 0;
	case PARAM_LABEL:
		if (labels_refuse_own(value, e) < 0)
			return -1;
		/* fall through */
	default:
		return params_read(&z->opts, param_of(id), value, e) < 0 ? -1 : keep_zygote_option(z, id, value, e);
	}
}

/* A first look at the options: whose limits hold for the others. */
static int find_tenant(void *ctx, int id, const char *value, struct err *e)
{
	struct zygote *z = ctx;

	(void)e;
	if (id == OPT_TENANT)
		z->tenant = value;
	*z->json |= id == OPT_JSON;
	return 0;
}

/* ---- create ---------------------------------------------------------------------------------- */

static int check_zygote_options(const struct zygote *z, struct err *e)
{
	const struct spec *s = &z->opts.spec;

	if (z->pool > z->max)
		return err_set(e, ERR_USAGE, "--pool %u is more than --forks %u", z->pool, z->max);
	if (s->tty)
		return err_set(e, ERR_USAGE, "a zygote has no terminal; hint: leave --tty out");
	if (s->unconfined_seccomp)
		return err_set(e, ERR_UNSUPPORTED,
			       "a zygote needs its filters: its forks inherit them; hint: leave "
			       "--seccomp unconfined out");
	if (s->network != NETWORK_NONE)
		return err_set(e, ERR_UNSUPPORTED,
			       "forks of a zygote have no network yet; hint: leave --network out");
	return 0;
}

/* Libraries would start a thread for each CPU, which forks do not have. */
static int one_thread(struct zygote *z, struct err *e)
{
	static const char *const all[] = {"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1",
					  "MKL_NUM_THREADS=1"};
	const struct runopts_strings *env = &z->opts.env;
	size_t i, k;

	for (i = 0; i < ARRAY_LEN(all); i++) {
		const size_t name = strcspn(all[i], "=") + 1;

		for (k = 0; k < env->count && strncmp(env->v[k], all[i], name); k++)
			;
		if (k == env->count && set_zygote_option(z, PARAM_ENV, all[i], e) < 0)
			return -1;
	}
	return 0;
}

static int create_zygote(struct zygote *z, char **words, size_t count, char ret_id[65], struct err *e)
{
	char *all[ZYGOTE_WORDS];
	unsigned char raw[16];
	size_t n = 0, i;

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "draw random bytes");
	hex_format(z->preload.ready, raw, sizeof(raw));
	z->command = json_array();
	for (i = 0; i < count; i++)
		if (json_array_append_new(z->command, json_string(words[i])) < 0)
			return err_set(e, ERR_INVALID, "the command is not valid UTF-8");
	if (words_of(z, words, count, all, &n, e) < 0 ||
	    (z->mode == ZYGOTE_FORK && (inject_available(e) < 0 || one_thread(z, e) < 0)) ||
	    registry_open(&z->registry, &z->config, e) < 0 ||
	    zygote_tenant_image(z, e) < 0 || runopts_devices(&z->opts, e) < 0)
		return -1;
	/* not the image's entry point: what is given is the interpreter */
	z->opts.entrypoint = "";
	if (runopts_finish(&z->opts, z->image.has_image ? &z->image.image : NULL, all, n, e) < 0 ||
	    check_zygote_options(z, e) < 0 || zygote_tenant_promise(z, e) < 0)
		return -1;
	return zygote_start(z, ret_id, e);
}

static void tell_zygote_made(const char *id, const struct zygote *z, int json)
{
	autojson json_t *j =
		json ? json_pack("{s:s,s:s}", "id", id, "name", z->opts.name ? z->opts.name : "") :
		       NULL;
	struct err ignored;

	if (j)
		command_print_json(j, JSON_COMPACT, &ignored);
	else
		puts(id);
}

static int run_zygote_create(const struct command *self, int argc, char **argv)
{
	static struct zygote z;
	struct err e = {0};
	char id[65];
	int rest, help = 0, json = 0, result, i;

	z = (struct zygote){.registry = REGISTRY_INIT,
			    .image = IMAGEUSE_INIT,
			    .disk_fd = -1,
			    .in_fd = -1,
			    .listen_fd = -1,
			    .home_fd = -1,
			    .options = json_array(),
			    .told = -1,
			    .pool = ZYGOTE_POOL,
			    .max = ZYGOTE_FORKS,
			    .preload = {.ms = ZYGOTE_PRELOAD_MS,
				       .out_fd = -1,
				       .ready_fd = -1,
				       .end_fd = -1},
			    .json = &json,
			    .claim = {.dir_fd = -1, .slot_fd = -1}};
	for (i = 0; i < SPEC_INNER_MAX; i++)
		z.inner[i] = (struct claim){.dir_fd = -1, .slot_fd = -1};
	if (config_load(&z.config, &e) < 0)
		return command_fail(self, &e, 0);
	sandbox_init(&z.sandbox, &z.spec);
	result = command_options(self, argc, argv, find_tenant, &z, &rest, &help, &e);
	if (help)
		return 0;
	if (result == 0)
		result = zygote_tenant_open(&z, &e);
	runopts_init(&z.opts, &z.defaults);
	if (result == 0)
		result = command_options(self, argc, argv, set_zygote_option, &z, &rest, &help, &e);
	if (result == 0 && !help && rest >= argc)
		result = err_set(
			&e, ERR_USAGE,
			"no image given; hint: berth zygote create host python3 -c 'import json'");
	if (result == 0 && !help) {
		z.image_ref = argv[rest];
		z.image.quiet = json;
		result = create_zygote(&z, argv + rest + 1, (size_t)(argc - rest - 1), id, &e);
		if (result == 0)
			tell_zygote_made(id, &z, json);
	}
	registry_close(&z.registry);
	imageuse_close(&z.image, &z.opts.spec);
	runopts_release(&z.opts);
	json_decref(z.command);
	json_decref(z.options);
	json_decref(z.noted);
	json_decref(z.seccomp);
	json_decref(z.image_spec);
	return result < 0 ? command_fail(self, &e, json) : 0;
}

/* ---- ls, inspect, rm
 * ----------------------------------------------------------------------------- */

struct look {
	struct config config;
	struct registry registry;
	int json, quiet;
	json_t *list;
};

static int look_option(void *ctx, int id, const char *value, struct err *e)
{
	struct look *l = ctx;

	(void)value;
	(void)e;
	*(id == OPT_QUIET ? &l->quiet : &l->json) = 1;
	return 0;
}

static int list_zygotes(struct look *l, int argc, char **argv, struct err *e)
{
	const json_t *j;
	size_t i;

	(void)argv;
	if (argc)
		return err_set(e, ERR_USAGE, "berth zygote ls takes no operand");
	l->list = zygote_list(&l->registry, e);
	if (!l->list)
		return -1;
	if (l->json)
		return command_print_json(l->list, JSON_COMPACT, e);
	json_array_foreach (l->list, i, j) {
		const char *name = json_string_value(json_object_get(j, "name"));

		if (l->quiet)
			puts(name && *name ? name : json_string_value(json_object_get(j, "id")));
	}
	if (l->quiet)
		return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
	printf("%-14s %-20s %-20s %-5s %5s %5s %5s\n", "ID", "NAME", "IMAGE", "MODE",
	       "POOL", "FORKS", "ALIVE");
	json_array_foreach (l->list, i, j)
		printf("%-14s %-20s %-20s %-5s %5d %5d %5zu\n",
		       json_string_value(json_object_get(j, "id")),
		       json_string_value(json_object_get(j, "name")),
		       json_string_value(json_object_get(j, "image")),
		       json_string_value(json_object_get(j, "mode")),
		       (int)json_integer_value(json_object_get(j, "pool")),
		       (int)json_integer_value(json_object_get(j, "forks")),
		       json_array_size(json_object_get(j, "alive")));
	return 0;
}

static int one_operand(int argc, const char *verb, struct err *e)
{
	return argc == 1 ? 0 :
			   err_set(e, ERR_USAGE,
				   "berth zygote %s takes one zygote; hint: berth zygote ls", verb);
}

static int inspect_zygote(struct look *l, int argc, char **argv, struct err *e)
{
	char id[65];
	autoclose int dir = one_operand(argc, "inspect", e) < 0 ?
				    -1 :
				    zygote_open(&l->registry, argv[0], id, e);
	autojson json_t *j = dir < 0 ? NULL : zygote_describe(&l->registry, id, e);

	return j ? command_print_json(j, l->json ? JSON_COMPACT : JSON_INDENT(2), e) : -1;
}

static int remove_zygote(struct look *l, int argc, char **argv, struct err *e)
{
	char id[65];
	autoclose int dir =
		one_operand(argc, "rm", e) < 0 ? -1 : zygote_open(&l->registry, argv[0], id, e);

	if (dir < 0 || lifecycle_remove(&l->registry, id, 1, e) < 0)
		return -1;
	if (l->json)
		puts("{\"removed\":true}");
	return 0;
}

static int look_main(const struct command *self, int argc, char **argv,
		     int (*act)(struct look *l, int argc, char **argv, struct err *e))
{
	struct look l = {.registry = REGISTRY_INIT};
	struct err e = {0};
	int rest, help = 0, r = config_load(&l.config, &e);

	if (r == 0)
		r = command_options(self, argc, argv, look_option, &l, &rest, &help, &e);
	if (r == 0 && !help && (r = registry_open(&l.registry, &l.config, &e)) == 0)
		r = act(&l, argc - rest, argv + rest, &e);
	json_decref(l.list);
	registry_close(&l.registry);
	return r < 0 ? command_fail(self, &e, l.json) : 0;
}

static int run_zygote_ls(const struct command *self, int argc, char **argv)
{
	return look_main(self, argc, argv, list_zygotes);
}

static int run_zygote_inspect(const struct command *self, int argc, char **argv)
{
	return look_main(self, argc, argv, inspect_zygote);
}

static int run_zygote_rm(const struct command *self, int argc, char **argv)
{
	return look_main(self, argc, argv, remove_zygote);
}

const struct command cmd_zygote_create = {
	.name = "zygote create",
	.args = "IMAGE COMMAND...",
	.summary = "have an interpreter load what it needs, and wait to be forked",
	.detail = "berth run --zygote runs code in a fork of it, in a sandbox of its own.  Limits "
		  "and mounts are\n"
		  "those of the interpreter and of each fork.",
	.params = PARAM_OF_ZYGOTE,
	.opts = create_options,
	.opt_count = ARRAY_LEN(create_options),
	.complete = COMPLETE_IMAGE,
	.run = run_zygote_create,
};

const struct command cmd_zygote_ls = {
	.name = "zygote ls",
	.args = "",
	.summary = "list zygotes",
	.opts = ls_options,
	.opt_count = ARRAY_LEN(ls_options),
	.run = run_zygote_ls,
};

const struct command cmd_zygote_inspect = {
	.name = "zygote inspect",
	.args = "ZYGOTE",
	.summary = "show a zygote and its forks",
	.opts = json_option,
	.opt_count = ARRAY_LEN(json_option),
	.complete = COMPLETE_ZYGOTE,
	.run = run_zygote_inspect,
};

const struct command cmd_zygote_rm = {
	.name = "zygote rm",
	.args = "ZYGOTE",
	.summary = "end a zygote and its forks",
	.opts = json_option,
	.opt_count = ARRAY_LEN(json_option),
	.complete = COMPLETE_ZYGOTE,
	.run = run_zygote_rm,
};

/* ---- --tenant ---- */

/* --tenant of berth zygote create.  Upholds S41 of SECURITY.md. */

#define FORKS 8 /* of a tenant's zygote, unless --forks says other */

static void cap_tenant_preset(uint64_t *preset, uint64_t most)
{
	if (*preset > most)
		*preset = most;
}

int zygote_tenant_open(struct zygote *z, struct err *e)
{
	struct tenant *t = &z->limits;
	struct config *c = &z->defaults;

	*c = z->config;
	if (!z->tenant)
		return 0;
	if (!path_is_name(z->tenant))
		return err_set(e, ERR_INVALID,
			       "'%.80s' is not a tenant's name; hint: a-z 0-9 _ . -", z->tenant);
	if (tenant_load(t, &z->config, z->tenant, e) < 0)
		return -1;
	cap_tenant_preset(&c->memory_bytes, t->memory_bytes);
	cap_tenant_preset(&c->swap_bytes, t->swap_bytes);
	cap_tenant_preset(&c->cpu_milli, t->cpu_milli);
	cap_tenant_preset(&c->pids, t->pids);
	cap_tenant_preset(&c->disk_bytes, t->disk_bytes);
	cap_tenant_preset(&c->disk_inodes, t->disk_inodes);
	cap_tenant_preset(&c->tmp_bytes, t->tmp_bytes);
	z->max = t->zygote_forks < FORKS ? (unsigned)t->zygote_forks : FORKS;
	/* sandboxes of it are made with these, too */
	return tenant_cap_defaults(t, &z->config, z->options, e);
}

int zygote_tenant_image(struct zygote *z, struct err *e)
{
	const char *name;

	if (!z->tenant)
		return imageuse_open(&z->image, &z->registry, z->image_ref, &z->opts.spec, e);
	z->image_spec = json_pack("{s:s}", "image", z->image_ref);
	if (!z->image_spec || imageuse_own(&z->registry, &z->limits, z->image_spec) < 0)
		return err_nomem(e);
	name = json_string_value(json_object_get(z->image_spec, "image"));
	if (imageuse_open(&z->image, &z->registry, name, &z->opts.spec, e) < 0 ||
	    imageuse_check_seen(&z->image, &z->limits, &z->config, z->image_ref, e) < 0)
		return -1;
	z->image_ref = name;
	return 0;
}

int zygote_tenant_promise(struct zygote *z, struct err *e)
{
	const struct cgroup_limits *l = &z->opts.spec.limits;

	const uint64_t disk = spec_wants_disk(&z->opts.spec) ? z->opts.spec.disk_bytes : 0;

	z->promise = (struct promise){.memory_bytes = l->memory_bytes, .cpu_milli = l->cpu_milli, .disk_bytes = disk};
	if (!z->tenant)
		return 0;
	z->promise = tenant_promise(&z->limits, l->memory_bytes, l->cpu_milli, disk);
	return tenant_check_spec(&z->limits, &z->opts.spec, e);
}
