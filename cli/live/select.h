/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select - the sandboxes of a verb that takes several: those that are named, or those that match
 * --filter.
 *
 * The first name that fails ends a list of names. Those that a filter found are all tried,
 * because the user did not choose their order; one that was removed meanwhile is no error.
 */
#ifndef BERTH_CLI_LIVE_SELECT_H
#define BERTH_CLI_LIVE_SELECT_H

#include "cli/command.h"
#include "manager/host/filter.h"
#include "manager/host/registry.h"

#define SELECT_OPTION(id) \
	{ "filter", 0, OPT_LIST, "KEY=VALUE", \
	  "instead of names: those of that label=, name=, status= ...; may be repeated", id }

enum select_state { SELECT_ANY, SELECT_RUNS, SELECT_STOPPED, SELECT_PAUSED, SELECT_NOT_PAUSED };

/* Records of the sandboxes that fit f and are in that state: a new array. */
int select_records(struct registry *r, const struct filter *f, enum select_state state,
		   json_t **ret, struct err *e);

/* One sandbox of the verb; as_json: report its errors as JSON. */
typedef int select_each(void *ctx, const char *ref, struct err *e);

struct select {
	const struct command *command;
	struct filter filter;
	enum select_state state;
	int json;
};

/*
 * Calls each for the n names, or for the matches of the filter. Returns the exit status, and
 * reports errors.
 */
int select_run(const struct select *s, char **names, int n, select_each *each, void *ctx);

#endif
