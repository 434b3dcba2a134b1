/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events - the journal of events (manager/host/journal.h) as Docker's stream of them.
 *
 * Docker's events carry the name, image and labels of their container, a journal's entry only
 * its id.  So we remember what earlier entries said, which is no more than the journal, and that
 * is bounded.
 */
#ifndef BERTH_MANAGER_ENGINE_EVENTS_H
#define BERTH_MANAGER_ENGINE_EVENTS_H

#include "base/err.h"
#include "base/json.h"
#include "manager/engine/name.h"
#include "manager/engine/view.h"

struct engine_events {
	json_t *known;	       /* of each sandbox: its name, image, labels, networks, volumes, last exit status */
	const json_t *filters; /* of engine_filters(), borrowed */
	/* The id of the exec whose command it is: 1, or 0 for one that a client of Docker did not make.  May be NULL. */
	int (*exec_of)(void *ctx, const char *box, const char *command, char ret_id[ENGINE_ID]);
	void *ctx;
};

int engine_events_init(struct engine_events *x, const json_t *filters, struct err *e);
void engine_events_release(struct engine_events *x);
/*
 * Docker's events for an entry of the journal, those that are wanted: a new array, which is mostly
 * of one or none; NULL without memory.
 */
json_t *engine_events_take(struct engine_events *x, const json_t *entry);
/* -1 with ERR_INVALID in Docker's words where since, as a client wrote it, is after until. */
int engine_events_times(const char *since, const char *until, struct err *e);

#endif
