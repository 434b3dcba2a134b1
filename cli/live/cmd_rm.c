/* SPDX-License-Identifier: Apache-2.0 */
/* berth rm: remove sandboxes and their files. */
#include <stdio.h>

#include "base/mem.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/lifecycle.h"
#include "cli/live/select.h"
#include "manager/host/conf.h"
#include "manager/host/forget.h"
#include "manager/host/journal.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"

#define REMOVE_TRIES 5
#define DYING_MS 5000	/* for processes of a sandbox whose keeper is dead */

enum { OPT_FORCE = 1, OPT_FILTER, OPT_JSON };

static const struct opt options[] = {
	{ "force", 'f', OPT_FLAG, NULL, "stop it first if it runs; ignore a missing one", OPT_FORCE },
	SELECT_OPTION(OPT_FILTER),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object", OPT_JSON },
};

struct rm_options {
	struct select select;
	struct registry registry;
	int force;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct rm_options *o = ctx;

	if (id == OPT_FILTER)
		return filter_add(&o->select.filter, value, e);
	*(id == OPT_FORCE ? &o->force : &o->select.json) = 1;
	return 0;
}

/* The drain timeout of [session] also applies to removals beside berthd. */
static int stop_first(struct registry *r, const char *id, struct err *e)
{
	static struct conf conf;
	struct stop_request how = { 0 };

	if (conf_load(&conf, r->config, e) < 0)
		return -1;
	how.drain_ms = conf.drain_timeout_ms;
	return resident_stop(r, id, &how, e);
}

static int forget_stopped(struct registry *r, const char *id, int kept, struct err *e)
{
	/* a sandbox that does not run, of which a failed removal may have left only a part */
	if (!kept && stop_first(r, id, e) < 0 && e->code != ERR_NOT_FOUND && e->code != ERR_INVALID)
		return -1;
	restart_cancel(r, id);
	return forget_alone(r, id, e);
}

int lifecycle_remove(struct registry *r, const char *ref, int force, struct err *e)
{
	char id[65];
	int kept, cleared, tries = 0;

	if (registry_find(r, ref, id, &kept, e) < 0)
		return force && e->code == ERR_NOT_FOUND ? 0 : -1;
	/* of a newer berth there may be more than we know of: removed only when that is asked for */
	if (!force && record_check_format(r, id, e) < 0)
		return -1;
	/* its keeper was killed: its remains are cleared, as gc would */
	cleared = kept ? 0 : registry_clear_dead(r, id, DYING_MS, 1, e);
	if (cleared < 0)
		return -1;
	/* a run's sandbox is gone by that, any other is only stopped */
	if (cleared && !path_has(r->kept_fd, id)) {
		events_add(r, "rm", id, NULL);
		return 0;
	}
	kept |= cleared;
	if (!kept && !force && keeper_is_run(r, id))
		return err_set(e, ERR_BUSY, "sandbox %s is running; hint: berth rm --force %s ends it", id, id);
	if (!kept && !force)
		return err_set(e, ERR_BUSY, "sandbox %s is running; hint: berth stop %s first, or rm --force", id, id);
	for (; forget_stopped(r, id, kept, e) < 0; kept = 0)
		/* its guardian may have started it again meanwhile */
		if (!force || e->code != ERR_BUSY || ++tries == REMOVE_TRIES)
			return -1;
	events_add(r, "rm", id, NULL);
	return 0;
}

static int remove_each(void *ctx, const char *ref, struct err *e)
{
	struct rm_options *o = ctx;

	return lifecycle_remove(&o->registry, ref, o->force, e);
}

static int rm_main(const struct command *self, int argc, char **argv)
{
	struct rm_options o = { .select = { .command = self, .state = SELECT_ANY } };
	struct config c;
	struct err e = { 0 };
	int rest, help = 0, status;

	o.select.filter.keys = filter_sandbox_keys;
	if (config_load(&c, &e) < 0 || command_options(self, argc, argv, set_option, &o, &rest, &help, &e) < 0)
		return command_fail(self, &e, o.select.json);
	if (help)
		return 0;
	if (registry_open(&o.registry, &c, &e) < 0)
		return command_fail(self, &e, o.select.json);
	status = select_run(&o.select, argv + rest, argc - rest, remove_each, &o);
	registry_close(&o.registry);
	if (status == 0 && o.select.json)
		puts("{\"removed\":true}");
	return status;
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
