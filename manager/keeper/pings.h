/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pings - the present state of sandboxes, asked of their keepers.
 *
 * All keepers of a batch are asked before the first answer is read, so that they work at once on
 * all CPUs, and one that does not answer delays the batch once, not once for each sandbox.
 */
#ifndef BERTH_MANAGER_KEEPER_PINGS_H
#define BERTH_MANAGER_KEEPER_PINGS_H

#include "manager/host/registry.h"

#define PINGS_MS 200		/* for the answers of one batch */
#define PINGS_AT_ONCE 64	/* keepers in a batch: a descriptor each */
#define PINGS_MANY 8	/* from this number on the notes are read */

/* Borrows answer, the keeper's to "ping": "state", and what it does ("idle_ms", "busy", "commands", "sessions"). */
typedef void pings_fn(json_t *record, const json_t *answer);
/*
 * Asks the keeper of each record of list (an array) with the status "running" and calls answered for each that answers in
 * time.  The record of any other stays as it is.
 */
void pings_ask(struct registry *r, json_t *list, pings_fn *answered);
/*
 * The same, but keepers that noted that nothing in their sandboxes changes (ranges.h) are not
 * asked; answered then gets "state", "idle_ms", "busy", "commands" and "sessions" from the
 * notes.
 */
void pings_look(struct registry *r, json_t *list, pings_fn *answered);

#endif
