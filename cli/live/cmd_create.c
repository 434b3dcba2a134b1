/* SPDX-License-Identifier: Apache-2.0 */
/* berth create: make a sandbox that lives, and print its id. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/resident.h"
#include "cli/run/envopts.h"
#include "cli/run/imageuse.h"
#include "cli/run/runopts.h"

enum { OPT_JSON = RESIDENT_FIRST_OWN, OPT_PULL, OPT_TENANT };

static const struct opt options[] = {
	RESIDENT_TABLE,
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
	{ "pull", 0, OPT_VALUE, "WHEN", "fetch the image: missing, always or never (default: missing)", OPT_PULL,
	  COMPLETE_WORDS, "missing always never" },
	{ "tenant", 0, OPT_VALUE, "NAME", "make it a tenant's of berthd: [tenant] holds, and the tenant sees it", OPT_TENANT },
};

struct create {
	json_t *options, *seccomp;	/* the text of --seccomp FILE, or NULL */
	const char *name;
	const char *pull;	/* NULL: what the configuration says */
	const char *tenant;	/* NULL: nobody's */
	int json;
};

/* What an option needs of the caller (its directory, its environment) is settled now, not at a later start. */
static int absolute(const char *value, int id, char **ret, struct err *e)
{
	const char *colon = strchr(value, ':');
	char *path;

	*ret = NULL;
	if (id == RUNOPT_VOLUME && value[0] != '/' && colon) {
		char *src = strndup(value, (size_t)(colon - value));

		path = src ? realpath(src, NULL) : NULL;
		if (!path)
			err_code_sys(e, ERR_NOT_FOUND, "mount source %s", src ? src : value);
		free(src);
		if (!path || asprintf(ret, "%s%s", path, colon) < 0) {
			free(path);
			return -1;
		}
		free(path);
	} else if (id == RUNOPT_ENV) {
		*ret = envopts_settle(value, e);
		if (!*ret)
			return -1;
	} else if (id == RUNOPT_SECCOMP && strchr(value, '/')) {
		*ret = realpath(value, NULL);
		if (!*ret)
			return err_code_sys(e, ERR_NOT_FOUND, "file %s", value);
	}
	return 0;
}

static int add_option(struct create *c, const char *name, const char *value, struct err *e)
{
	return json_array_append_new(c->options, json_pack("[s,s]", name, value)) < 0 ?
		err_set(e, ERR_INVALID, "the value is not valid UTF-8") : 0;
}

static int add_env(void *ctx, const char *line, struct err *e)
{
	return add_option(ctx, "env", line, e);
}

/* The file's text goes into the record: a start long after, when it may have changed or gone, has the same filter. */
static int keep_seccomp(struct create *c, const char *path, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 20);

	json_decref(c->seccomp);
	c->seccomp = NULL;
	if (!runopts_seccomp_is_file(path))
		return 0;
	if (io_read_file(AT_FDCWD, path, &b, e) < 0)
		return err_wrap(e, "seccomp profile %s", path);
	c->seccomp = json_stringn(b.data ? b.data : "", b.len);
	return c->seccomp && !memchr(b.data ? b.data : "", 0, b.len) ? 0 : err_set(e, ERR_INVALID, "seccomp profile %s is no text", path);
}

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct create *c = ctx;
	autofree char *settled = NULL;
	const char *name = NULL;
	size_t i;

	if (id == OPT_JSON) {
		c->json = 1;
		return 0;
	}
	if (id == OPT_PULL) {
		enum imageuse_pull policy;

		c->pull = value;
		return imageuse_policy(value, &policy, e);
	}
	if (id == OPT_TENANT) {
		c->tenant = value;
		return path_is_name(value) ? 0 : err_set(e, ERR_INVALID, "'%.80s' is not a tenant's name; hint: a-z 0-9 _ . -", value);
	}
	if (id == RUNOPT_NAME) {
		c->name = value;
		return value[0] ? 0 : err_set(e, ERR_INVALID, "the name is empty");
	}
	if (id == RUNOPT_ENV_FILE)
		return envopts_file(value, add_env, c, e);
	for (i = 0; i < ARRAY_LEN(options); i++)
		if (options[i].id == id)
			name = options[i].name;
	if (value && absolute(value, id, &settled, e) < 0)
		return -1;
	if (id == RUNOPT_SECCOMP && keep_seccomp(c, settled ? settled : value, e) < 0)
		return -1;
	return add_option(c, name, settled ? settled : value ? value : "", e);
}

static int create_main(const struct command *self, int argc, char **argv)
{
	struct create c = { .options = json_array() };
	autojson json_t *spec = NULL;
	struct sandbox_ref s;
	struct err e = { 0 };
	enum imageuse_pull policy = IMAGEUSE_NEVER;
	int rest, help = 0, result;
	char id[65];

	sandbox_ref_init(&s);
	result = command_options(self, argc, argv, set_option, &c, &rest, &help, &e);
	if (result == 0 && help) {
		json_decref(c.options);
		return 0;
	}
	if (result == 0 && rest + 1 != argc)
		result = err_set(&e, ERR_USAGE, rest >= argc ? "no image given; hint: berth create host" :
				 "a command is no part of create; hint: berth exec runs commands in the sandbox");
	if (result == 0) {
		spec = json_pack("{s:i,s:s,s:O,s:O*}", "version", REGISTRY_FORMAT, "image", argv[rest], "options", c.options, "seccomp", c.seccomp);
		result = spec ? sandbox_ref_registry(&s, &e) : err_set(&e, ERR_INVALID, "the image is not valid UTF-8");
	}
	if (result == 0)
		result = imageuse_policy(c.pull ? c.pull : s.registry.config->registry_pull, &policy, &e);
	if (result == 0)
		result = imageuse_ensure(&s.registry, argv[rest], policy, c.json, &e);
	if (result == 0)
		result = resident_create(&s.registry, c.name ? c.name : "", c.tenant ? c.tenant : "", spec, id, &e);
	if (result < 0)
		result = command_fail(self, &e, c.json);
	else if (c.json)
		result = printf("{\"id\":\"%s\",\"name\":\"%s\"}\n", id, c.name ? c.name : "") < 0;
	else
		result = puts(id) < 0;
	if (s.registry.run_fd >= 0)
		registry_gc_some(&s.registry);	/* the sandbox is there: now the leftovers of others */
	sandbox_ref_close(&s);
	json_decref(c.options);
	json_decref(c.seccomp);
	return result;
}

const struct command cmd_create = {
	.name = "create",
	.args = "IMAGE",
	.summary = "make a sandbox that lives until it is removed, and print its id",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_IMAGE,
	.run = create_main,
};
