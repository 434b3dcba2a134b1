/* SPDX-License-Identifier: Apache-2.0 */
/* berth rm: remove sandboxes and their files. */
#include <stdio.h>

#include "base/mem.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/conf.h"
#include "manager/host/events.h"
#include "manager/host/forget.h"

#define DYING_MS 5000	/* for processes of one whose keeper is dead */

enum { OPT_FORCE = 1, OPT_JSON };

static const struct opt options[] = {
	{ "force", 'f', OPT_FLAG, NULL, "stop it first if it runs; one that does not exist is no error", OPT_FORCE },
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object", OPT_JSON },
};

struct rm_options {
	int force, json;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct rm_options *o = ctx;

	(void)value;
	(void)e;
	*(id == OPT_FORCE ? &o->force : &o->json) = 1;
	return 0;
}

/* What [session] says for berthd holds for who deletes beside it. */
static int stop_first(struct registry *r, const char *id, struct err *e)
{
	static struct conf conf;

	return conf_load(&conf, r->config, e) < 0 ? -1 : resident_stop(r, id, 0, conf.drain_timeout_ms, e);
}

static int remove_one(struct registry *r, const char *ref, int force, struct err *e)
{
	char id[65];
	int kept, cleared;

	if (registry_find(r, ref, id, &kept, e) < 0)
		return force && e->code == ERR_NOT_FOUND ? 0 : -1;
	/* of a newer berth there may be more than we know of: removed only when that is asked for */
	if (!force && registry_check_format(r, id, e) < 0)
		return -1;
	/* a keeper that was killed: what it left is cleared, as gc would */
	cleared = kept ? 0 : registry_clear_dead(r, id, DYING_MS, 1, e);
	if (cleared < 0)
		return -1;
	/* a run's sandbox is gone by that, any other is only stopped */
	if (cleared && !path_has(r->kept_fd, id)) {
		events_add(r, "rm", id, NULL);
		return 0;
	}
	kept |= cleared;
	if (!kept && !force)
		return err_set(e, ERR_BUSY, "sandbox %s is running; hint: berth stop %s first, or rm --force", id, id);
	if (!kept && stop_first(r, id, e) < 0 && e->code != ERR_NOT_FOUND)
		return -1;
	if (forget_alone(r, id, e) < 0)
		return -1;
	events_add(r, "rm", id, NULL);
	return 0;
}

static int rm_main(const struct command *self, int argc, char **argv)
{
	struct rm_options o = { 0 };
	struct registry r;
	struct config c;
	struct err e = { 0 };
	int rest, help = 0, result = 0;

	if (config_load(&c, &e) < 0 || command_options(self, argc, argv, set_option, &o, &rest, &help, &e) < 0)
		return command_fail(self, &e, o.json);
	if (help)
		return 0;
	if (rest >= argc) {
		err_set(&e, ERR_USAGE, "no sandbox given; hint: berth rm ID, ids are listed by berth ps -a");
		return command_fail(self, &e, o.json);
	}
	if (registry_open(&r, &c, &e) < 0)
		return command_fail(self, &e, o.json);
	for (; rest < argc && result == 0; rest++)
		result = remove_one(&r, argv[rest], o.force, &e);
	registry_close(&r);
	if (result < 0)
		return command_fail(self, &e, o.json);
	if (o.json)
		puts("{\"removed\":true}");
	return 0;
}

const struct command cmd_rm = {
	.name = "rm",
	.args = "SANDBOX...",
	.summary = "remove sandboxes and their files",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = rm_main,
};
