/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/select.h"

#include <string.h>

#include "base/mem.h"
#include "cli/live/sandbox_status.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"

struct found {
	struct registry *registry;
	json_t *list;
	enum select_state state;
};

static int add_selected(void *ctx, const char *id, int kept, json_t *record)
{
	const struct found *f = ctx;

	(void)id;
	if (f->state != SELECT_ANY && kept != (f->state == SELECT_STOPPED))
		return 0;
	if (kept)
		record_settle_kept(record);
	/* a sandbox that is about to run again is not stopped */
	if (kept && f->state == SELECT_STOPPED) {
		sandbox_status_restart(f->registry, record);
		if (record_status(record) == RECORD_RESTARTING)
			return 0;
	}
	return json_array_append(f->list, record) == 0 ? 0 : -1;
}

/* Only the keeper knows that a sandbox is paused. */
static int state_fits(const json_t *record, enum select_state state)
{
	const int paused = record_status(record) == RECORD_PAUSED;

	return state == SELECT_PAUSED ? paused : state == SELECT_NOT_PAUSED ? !paused : 1;
}

int select_records(struct registry *r, const struct filter *f, enum select_state state,
		   json_t **ret, struct err *e)
{
	autojson json_t *all = json_array();
	struct found found = { r, all, state };
	size_t i;

	/* a sandbox whose keeper was killed does not run */
	if (!all || registry_sweep_list(r, 1, add_selected, &found, e) < 0)
		return all && e->code ? -1 : err_nomem(e);
	if (filter_has(f, "status") || state == SELECT_PAUSED || state == SELECT_NOT_PAUSED)
		sandbox_status_ask_all(r, all);
	for (i = json_array_size(all); i-- > 0;)
		if (!filter_matches(f, json_array_get(all, i)) ||
		    !state_fits(json_array_get(all, i), state))
			json_array_remove(all, i);
	*ret = take_ptr(&all);
	return 0;
}

static int run_names(const struct select *s, char **names, int n, select_each *each, void *ctx)
{
	struct err e = { 0 };
	int i;

	for (i = 0; i < n; i++)
		if (each(ctx, names[i], &e) < 0)
			return command_fail(s->command, &e, s->json);
	return 0;
}

static int find_selected(const struct select *s, json_t **ret, struct err *e)
{
	struct registry r;
	struct config c;
	int result;

	if (config_load(&c, e) < 0 || registry_open(&r, &c, e) < 0)
		return -1;
	result = select_records(&r, &s->filter, s->state, ret, e);
	registry_close(&r);
	return result;
}

int select_run(const struct select *s, char **names, int n, select_each *each, void *ctx)
{
	autojson json_t *found = NULL;
	struct err e = { 0 };
	int status = 0;
	size_t i;

	if (n && s->filter.count)
		err_set(&e, ERR_USAGE, "names and --filter do not go together; hint: one of them");
	else if (!n && !s->filter.count)
		err_set(&e, ERR_USAGE,
			"no sandbox given; hint: berth %s ID, ids are listed by berth ps -a",
			s->command->name);
	if (e.code)
		return command_fail(s->command, &e, s->json);
	if (n)
		return run_names(s, names, n, each, ctx);
	if (find_selected(s, &found, &e) < 0)
		return command_fail(s->command, &e, s->json);
	for (i = 0; i < json_array_size(found); i++) {
		const json_t *record = json_array_get(found, i);

		memset(&e, 0, sizeof(e));
		if (each(ctx, record_id(record), &e) < 0 &&
		    e.code != ERR_NOT_FOUND)
			status = command_fail(s->command, &e, s->json);
	}
	return status;
}
