/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of a record, and what leads from one to the next.
 *
 *   creating   written ahead of whatever is made for it; the next start undoes it
 *   warm       a sandbox of a pool, which runs and has no owner
 *   running    a client's; "status" says whether the sandbox runs, has stopped, or is archived
 *   recycled   its lease has ended: what it had is stored, and nothing is left on the host
 *   replaced   a restore has made another of it, to which "redirect_to" leads
 *   released   nothing is left
 *   error      unusable, or its release has failed: that is tried again
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/service/state.h"

static const char *const state_names[] = {
	[STATE_UNKNOWN] = "", [STATE_CREATING] = "creating", [STATE_WARM] = "warm",
	[STATE_RUNNING] = "running", [STATE_RECYCLED] = "recycled", [STATE_REPLACED] = "replaced",
	[STATE_RELEASED] = "released", [STATE_ERROR] = "error",
};
_Static_assert(ARRAY_LEN(state_names) == STATES, "each state has its word");

static const char *const event_names[] = {
	[EVENT_POOLED] = "joins a pool", [EVENT_OWNED] = "gets an owner",
	[EVENT_SPOILED] = "is found unusable", [EVENT_RECYCLED] = "is recycled",
	[EVENT_REPLACED] = "is restored", [EVENT_RELEASED] = "is released",
};
_Static_assert(ARRAY_LEN(event_names) == STATE_EVENTS, "each event has its words");

/* STATE_UNKNOWN, which is 0: the event does not come in that state. */
static const enum record_state next[STATES][STATE_EVENTS] = {
	[STATE_UNKNOWN] = { [EVENT_SPOILED] = STATE_ERROR,	/* of a newer berthd */
			    [EVENT_RELEASED] = STATE_RELEASED },
	[STATE_CREATING] = { [EVENT_POOLED] = STATE_WARM, [EVENT_OWNED] = STATE_RUNNING,
			     [EVENT_SPOILED] = STATE_ERROR, [EVENT_RELEASED] = STATE_RELEASED },
	[STATE_WARM] = { [EVENT_OWNED] = STATE_RUNNING, [EVENT_SPOILED] = STATE_ERROR,
			 [EVENT_RELEASED] = STATE_RELEASED },
	[STATE_RUNNING] = { [EVENT_SPOILED] = STATE_ERROR, [EVENT_RECYCLED] = STATE_RECYCLED,
			    [EVENT_RELEASED] = STATE_RELEASED },
	[STATE_RECYCLED] = { [EVENT_REPLACED] = STATE_REPLACED, [EVENT_SPOILED] = STATE_ERROR,
			     [EVENT_RELEASED] = STATE_RELEASED },
	[STATE_RELEASED] = { [EVENT_SPOILED] = STATE_ERROR },	/* it could not be written */
	[STATE_ERROR] = { [EVENT_SPOILED] = STATE_ERROR, [EVENT_RELEASED] = STATE_RELEASED },
};

enum record_state record_state(const struct record *r)
{
	const char *word = record_str(r, "state");
	int i;

	for (i = STATES - 1; i > STATE_UNKNOWN; i--)
		if (!strcmp(word, state_names[i]))
			break;
	return (enum record_state)i;
}

int record_is(const struct record *r, enum record_state state)
{
	return record_state(r) == state;
}

int record_is_over(const struct record *r)
{
	return record_is(r, STATE_RELEASED) || record_is(r, STATE_REPLACED);
}

const char *record_state_name(enum record_state state)
{
	return state_names[state];
}

int record_step(struct record *r, enum record_event event, struct err *e)
{
	const enum record_state to = next[record_state(r)][event];

	if (to == STATE_UNKNOWN)
		return err_set(e, ERR_INTERNAL, "sandbox %s %s while its record is '%.20s'", r->name,
			       event_names[event], record_str(r, "state"));
	json_object_set_new(r->j, "state", json_string(state_names[to]));
	record_touch(r);
	return 0;
}

void record_touch(struct record *r)
{
	json_object_set_new(r->j, "updated_at", json_real(wall_seconds()));
}

static const char *const status_names[] = {
	[RUN_OTHER] = "", [RUN_RUNS] = "running", [RUN_STOPPED] = "stopped",
	[RUN_ARCHIVED] = "archived",
};
_Static_assert(ARRAY_LEN(status_names) == RUN_STATUSES, "each status has its word");

enum run_status record_run(const struct record *r)
{
	const char *word = record_own(r, "status");
	int i;

	for (i = RUN_STATUSES - 1; i > RUN_OTHER; i--)
		if (!strcmp(word, status_names[i]))
			break;
	return (enum run_status)i;
}

const char *record_run_name(enum run_status status)
{
	return status_names[status];
}

void record_set_run(struct record *r, enum run_status status)
{
	record_set_own(r, "status", json_string(status_names[status]));
}
