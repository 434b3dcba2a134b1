/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth prune, berth system prune: remove the sandboxes that do not run, and what nothing needs.
 *
 * Sandboxes of berthd stay: a session that rests is stopped on purpose, and a tenant's files are
 * not the operator's to tidy.  berth rm removes these.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/select.h"
#include "cli/run/imageprog.h"
#include "cli/system/gc.h"
#include "manager/host/forget.h"
#include "manager/host/journal.h"
#include "manager/host/labels.h"
#include "manager/host/record.h"

enum { OPT_FILTER = 1, OPT_DRY_RUN, OPT_FORCE, OPT_JSON };

#define OPTIONS(what) \
	{ "filter", 0, OPT_LIST, "KEY=VALUE", FILTER_HELP, OPT_FILTER }, \
	{ "dry-run", 'n', OPT_FLAG, NULL, "only print the ids of what would go", OPT_DRY_RUN }, \
	{ "force", 'f', OPT_FLAG, NULL, "do not ask", OPT_FORCE }, \
	{ "json", 0, OPT_FLAG, NULL, what, OPT_JSON }

static const struct opt options[] = { OPTIONS("print one JSON object, errors too") };
static const struct opt system_options[] = {
	OPTIONS("print JSON objects, one a line, errors too"),
};

struct prune {
	struct filter filter;
	int dry_run, force, json;
	json_t *removed;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct prune *p = ctx;

	if (id == OPT_FILTER)
		return filter_add(&p->filter, value, e);
	*(id == OPT_DRY_RUN ? &p->dry_run : id == OPT_FORCE ? &p->force : &p->json) = 1;
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

static int is_ours(struct registry *r, const json_t *record, const char *id)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/" REGISTRY_OWNER, id);
	return !record_error(record)[0] && !path_has(r->kept_fd, path) &&
	       !json_object_get(record_labels(record), LABEL_MANAGED);
}

static int remove_all(struct registry *r, struct prune *p, struct err *e)
{
	autojson json_t *found = NULL;
	size_t i;

	if (select_records(r, &p->filter, SELECT_STOPPED, &found, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(found); i++) {
		const json_t *record = json_array_get(found, i);
		const char *id = record_id(record);
		struct err why = { 0 };

		if (!is_ours(r, record, id))
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

static int tell(const struct prune *p, struct err *e)
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
static int prune(struct prune *p, struct err *e)
{
	struct registry r;
	struct config c;
	int result = agreed(p, e);

	if (result <= 0)
		return result;
	if (config_load(&c, e) < 0 || registry_open(&r, &c, e) < 0)
		return -1;
	result = remove_all(&r, p, e);
	registry_close(&r);
	return result < 0 || tell(p, e) < 0 ? -1 : 1;
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

static int prune_main(const struct command *self, int argc, char **argv)
{
	autojson json_t *removed = json_array();
	struct prune p = { .filter = { .keys = filter_sandbox_keys }, .removed = removed };
	struct err e = { 0 };
	int rest, help = 0, done;

	if (command_options(self, argc, argv, set_option, &p, &rest, &help, &e) < 0)
		return command_fail(self, &e, p.json);
	if (help)
		return 0;
	if (rest < argc) {
		err_set(&e, ERR_USAGE, "unexpected argument '%.80s'; hint: --filter name=%.80s, or "
			"berth rm %.80s", argv[rest], argv[rest], argv[rest]);
		return command_fail(self, &e, p.json);
	}
	done = prune(&p, &e);
	if (done < 0)
		return command_fail(self, &e, p.json);
	return done && !strcmp(self->name, "system prune") ? prune_rest(self, &p) : 0;
}

const struct command cmd_prune = {
	.name = "prune",
	.args = "",
	.summary = "remove the sandboxes that do not run, with their files",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.run = prune_main,
};

const struct command cmd_system_prune = {
	.name = "system prune",
	.args = "",
	.summary = "prune, clear what crashes left, and remove layers that no image needs",
	.opts = system_options,
	.opt_count = ARRAY_LEN(system_options),
	.run = prune_main,
};
