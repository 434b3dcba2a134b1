/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth commit: the changes of a sandbox become a layer of a new image.
 *
 * This finds the sandbox, freezes it and opens its writable layer; berth-image reads the layer,
 * confined (rootfs/transfer/commit.h). The keeper freezes a running sandbox while our connection
 * lasts; a stopped one is claimed, so that nobody starts it meanwhile.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/image/imagechild.h"
#include "cli/live/resident.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "rootfs/store/change.h"
#include "rootfs/store/image.h"
#include "runtime/sandbox/writable.h"

enum {
	OPT_JSON = 1, OPT_QUIET, OPT_ENV, OPT_CMD, OPT_ENTRYPOINT, OPT_WORKDIR, OPT_USER, OPT_LABEL, OPT_AUTHOR, OPT_MESSAGE,
	OPT_COMPRESSION, OPT_NO_PAUSE, OPT_TENANT, OPT_CHANGE,
};

static const struct opt options[] = {
	{ "env", 'e', OPT_LIST, "NAME=VALUE", "set an environment variable of the image", OPT_ENV },
	{ "cmd", 0, OPT_VALUE, "COMMAND", "what the image runs: a JSON array, or a line for /bin/sh -c; empty for nothing", OPT_CMD },
	{ "entrypoint", 0, OPT_VALUE, "COMMAND", "what comes before the command, written likewise", OPT_ENTRYPOINT },
	{ "workdir", 'w', OPT_VALUE, "DIR", "where commands start", OPT_WORKDIR },
	{ "user", 'u', OPT_VALUE, "USER[:GROUP]", "as whom commands run", OPT_USER },
	{ "label", 'l', OPT_LIST, "NAME=VALUE", "set a label", OPT_LABEL },
	{ "change", 'c', OPT_LIST, "INSTRUCTION", "one of a Dockerfile, such as 'EXPOSE 80'; after the options above", OPT_CHANGE },
	{ "author", 0, OPT_VALUE, "TEXT", "who made the image", OPT_AUTHOR },
	{ "message", 'm', OPT_VALUE, "TEXT", "a comment for the image's history", OPT_MESSAGE },
	{ "compression", 0, OPT_VALUE, "KIND", "of the layer: gzip or zstd (default: gzip)", OPT_COMPRESSION, COMPLETE_WORDS, "gzip zstd" },
	{ "no-pause", 0, OPT_FLAG, NULL, "let the sandbox run meanwhile; files it writes then may be half there", OPT_NO_PAUSE },
	{ "tenant", 0, OPT_VALUE, "NAME", "as this tenant of berthd, and held to its maxima",
	  OPT_TENANT },
	{ "quiet", 'q', OPT_FLAG, NULL, "no progress; print the digest only", OPT_QUIET },
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

struct commit {
	json_t *changes;
	int json, quiet, no_pause;
	const char *tenant;		/* or NULL */
	struct sandbox_ref s;
	struct claim claim;		/* of a stopped one */
	int claimed;
	int dir_fd, base_fd, upper_fd;
	uint32_t id_base;
	char workdir[4096];
};

static int set_commit_string(struct commit *c, const char *key, const char *value, struct err *e)
{
	json_t *s = json_string(value);

	return s && !json_object_set_new(c->changes, key, s) ? 0 : err_set(e, ERR_INVALID, "the value is not valid UTF-8");
}

/* ["a","b"] is taken as it is, a line is for the shell, as a Dockerfile's CMD has it. */
static int set_command(struct commit *c, const char *key, const char *value, struct err *e)
{
	json_t *list, *word;
	size_t i;

	if (value[0] == '[') {
		list = json_parse(value, strlen(value), 1 << 20, "the command", e);
		if (!list)
			return -1;
		json_array_foreach(list, i, word) {
			if (!json_is_string(word)) {
				json_decref(list);
				return err_set(e, ERR_INVALID, "the command's words must be strings");
			}
		}
	} else {
		list = value[0] ? json_pack("[s,s,s]", "/bin/sh", "-c", value) : json_array();
	}
	return list && !json_object_set_new(c->changes, key, list) ? 0 : err_set(e, ERR_INVALID, "the value is not valid UTF-8");
}

static int add_commit_env(struct commit *c, const char *value, struct err *e)
{
	json_t *list = json_object_get(c->changes, "env");

	if (!strchr(value, '=') || value[0] == '=')
		return err_set(e, ERR_INVALID, "'%.80s' is not NAME=VALUE", value);
	if (!list && !json_object_set_new(c->changes, "env", json_array()))
		list = json_object_get(c->changes, "env");
	return !json_array_append_new(list, json_string(value)) ? 0 : err_set(e, ERR_INVALID, "the value is not valid UTF-8");
}

static int add_commit_label(struct commit *c, const char *value, struct err *e)
{
	json_t *labels = json_object_get(c->changes, "labels");
	autofree char *name = strndup(value, strcspn(value, "="));

	if (!name)
		return err_nomem(e);
	if (!*name || !value[strlen(name)])
		return err_set(e, ERR_INVALID, "'%.80s' is not NAME=VALUE", value);
	if (!labels && !json_object_set_new(c->changes, "labels", json_object()))
		labels = json_object_get(c->changes, "labels");
	return !json_object_set_new(labels, name, json_string(value + strlen(name) + 1)) ? 0 :
		err_set(e, ERR_INVALID, "the value is not valid UTF-8");
}

/* Tried here, where nothing is made yet; the store's part applies it to the image's own config. */
static int add_change(struct commit *c, const char *value, struct err *e)
{
	autojson json_t *trial = json_object();
	json_t *list = json_object_get(c->changes, "instructions");

	if (change_apply(trial, value, e) < 0)
		return -1;
	if (!list && !json_object_set_new(c->changes, "instructions", json_array()))
		list = json_object_get(c->changes, "instructions");
	return !json_array_append_new(list, json_string(value)) ? 0 : err_set(e, ERR_INVALID, "the value is not valid UTF-8");
}

static int set_commit_option(void *ctx, int id, const char *value, struct err *e)
{
	struct commit *c = ctx;

	switch (id) {
	case OPT_ENV:
		return add_commit_env(c, value, e);
	case OPT_LABEL:
		return add_commit_label(c, value, e);
	case OPT_CHANGE:
		return add_change(c, value, e);
	case OPT_CMD:
		return set_command(c, "cmd", value, e);
	case OPT_ENTRYPOINT:
		return set_command(c, "entrypoint", value, e);
	case OPT_WORKDIR:
		return value[0] == '/' ? set_commit_string(c, "workdir", value, e) :
					 err_set(e, ERR_INVALID, "'%.80s' is not an absolute path", value);
	case OPT_USER:
		return set_commit_string(c, "user", value, e);
	case OPT_AUTHOR:
		return set_commit_string(c, "author", value, e);
	case OPT_MESSAGE:
		return set_commit_string(c, "message", value, e);
	case OPT_COMPRESSION:
		if (strcmp(value, "gzip") && strcmp(value, "zstd"))
			return err_set(e, ERR_INVALID, "'%.40s' is neither gzip nor zstd", value);
		return set_commit_string(c, "compression", value, e);
	case OPT_TENANT:
		c->tenant = value;
		return 0;
	default:
		*(id == OPT_JSON ? &c->json : id == OPT_QUIET ? &c->quiet : &c->no_pause) = 1;
		return 0;
	}
}

/* ---- the sandbox ---- */

static int open_running(struct commit *c, struct err *e)
{
	autojson json_t *hold = protocol_request(OP_hold), *held = NULL;
	autojson json_t *layers = protocol_request(OP_layers), *answer = NULL;
	const char *workdir = "";
	uint64_t base = 0;

	c->s.sock = keeper_connect(&c->s.registry, c->s.id, e);
	if (c->s.sock < 0)
		return -1;
	if (!c->no_pause && !(held = keeper_call(c->s.sock, hold, NULL, 0, NULL, e)))
		return -1;
	answer = keeper_call(c->s.sock, layers, NULL, 0, &c->upper_fd, e);
	if (!answer || json_get_u64(answer, "id_base", &base, "answer", e) < 0 ||
	    json_get_str(answer, "workdir", &workdir, "answer", e) < 0)
		return -1;
	if (c->upper_fd < 0)
		return err_set(e, ERR_INTERNAL, "the keeper handed out no layer");
	c->id_base = (uint32_t)base;
	snprintf(c->workdir, sizeof(c->workdir), "%s", workdir);
	return 0;
}

static int open_stopped(struct commit *c, struct err *e)
{
	if (resident_claim(&c->s.registry, c->s.id, NULL, &c->claim, e) < 0)
		return -1;
	c->claimed = 1;
	c->id_base = c->claim.id_base;
	layersource_workdir(&c->s, c->workdir, sizeof(c->workdir));
	c->upper_fd = writable_upper(c->dir_fd, c->id_base, &c->base_fd, e);
	return c->upper_fd < 0 ? -1 : 0;
}

/* Whether it runs does not matter, and it may run on. */
static int open_checkpoint(struct commit *c, const char *word, struct err *e)
{
	struct layersource l = LAYERSOURCE_NONE;

	layersource_workdir(&c->s, c->workdir, sizeof(c->workdir));
	if (layersource_open(c->dir_fd, word, &l, e) < 0)
		return -1;
	c->id_base = l.id_base;
	c->base_fd = l.base_fd;
	c->upper_fd = l.upper_fd;
	return 0;
}

/* SANDBOX, or SANDBOX@CHECKPOINT. */
static int open_commit_sandbox(struct commit *c, char *ref, struct err *e)
{
	char *at = strchr(ref, '@');

	if (at)
		*at++ = '\0';
	if (sandbox_ref_find(&c->s, ref, e) < 0)
		return -1;
	c->dir_fd = registry_kept_dir(&c->s.registry, c->s.id);
	if (c->dir_fd < 0)
		return err_set(e, ERR_UNSUPPORTED, "sandbox %s ends with its command and cannot be committed; hint: berth create "
			       "makes sandboxes that last, and berth run --keep leaves one behind", c->s.id);
	if (at)
		return open_checkpoint(c, at, e);
	if (!c->s.kept && open_running(c, e) == 0)
		return 0;
	/* it ended while we asked, and left its layer */
	if (!c->s.kept && (e->code != ERR_NOT_FOUND || !path_has(c->s.registry.kept_fd, c->s.id)))
		return -1;
	fd_close(&c->s.sock);
	return open_stopped(c, e);
}

/* What it was made from, where that is no image of the store. */
static int note_base(struct commit *c, struct err *e)
{
	autojson json_t *spec = registry_load(&c->s.registry, c->s.id, SPEC_FILE, e);
	const char *image = json_string_value(json_object_get(spec, "image"));

	if (!spec)
		return -1;
	return image && !strcmp(image, IMAGE_BASE_HOST) ? set_commit_string(c, "base", IMAGE_BASE_HOST, e) : 0;
}

/* ---- berth-image ---- */

/* Its exit status; it has printed its own errors. */
static int run_program(struct commit *c, const char *name, int *ret_status, struct err *e)
{
	autofree char *changes = json_dumps(c->changes, JSON_COMPACT);
	const int fds[] = { c->upper_fd, c->dir_fd };
	char upper[16], dir[16], base[16];
	char *argv[20] = { NULL, (char *)"commit-layer" };
	int n = 2;

	if (!changes)
		return err_nomem(e);
	if (c->json)
		argv[n++] = (char *)"--json";
	if (c->quiet)
		argv[n++] = (char *)"--quiet";
	if (c->tenant) {
		argv[n++] = (char *)"--tenant";
		argv[n++] = (char *)c->tenant;
	}
	argv[n++] = (char *)"--";
	argv[n++] = (char *)name;
	argv[n++] = upper;
	argv[n++] = dir;
	argv[n++] = base;
	argv[n++] = c->workdir;
	argv[n++] = changes;
	snprintf(upper, sizeof(upper), "%d", c->upper_fd);
	snprintf(dir, sizeof(dir), "%d", c->dir_fd);
	snprintf(base, sizeof(base), "%u", c->id_base);
	return imagechild_run(&cmd_commit, c->json, argv, fds, ARRAY_LEN(fds), -1, ret_status, e);
}

static void close_sandbox(struct commit *c)
{
	struct err ignored;

	fd_close(&c->upper_fd);
	fd_close(&c->base_fd);
	fd_close(&c->dir_fd);
	if (c->claimed)
		registry_release(&c->s.registry, &c->claim, &ignored);
	sandbox_ref_close(&c->s);	/* the sandbox goes on */
	json_decref(c->changes);
}

static int commit_main(const struct command *self, int argc, char **argv)
{
	struct commit c = { .changes = json_object(), .dir_fd = -1, .base_fd = -1, .upper_fd = -1 };
	struct err e = { 0 };
	int rest, help = 0, status = 0, result;

	sandbox_ref_init(&c.s);
	result = command_options(self, argc, argv, set_commit_option, &c, &rest, &help, &e);
	if (result == 0 && !help && argc - rest != 2)
		result = err_set(&e, ERR_USAGE, "a sandbox and a name for the image are wanted; hint: berth commit SANDBOX NAME");
	if (result == 0 && !help)
		result = open_commit_sandbox(&c, argv[rest], &e) < 0 || note_base(&c, &e) < 0 ? -1 : run_program(&c, argv[rest + 1], &status, &e);
	if (result < 0)
		status = command_fail(self, &e, c.json);
	close_sandbox(&c);
	return status;
}

const struct command cmd_commit = {
	.name = "commit",
	.args = "SANDBOX[@CHECKPOINT] NAME",
	.summary = "make an image of what a sandbox changed",
	.detail = "What the sandbox wrote becomes a layer on top of the image it was made from; berth diff shows what that\n"
		  "is.  A running sandbox stands still meanwhile, unless a checkpoint of it is named.  The image of a sandbox\n"
		  "of the host has that layer alone, and runs on this host above its programs.  /run and volumes are\n"
		  "no part of it, nor is what berth made: /etc/hosts, mount points.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = commit_main,
};
