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

#define PINGS_MS 200		/* time for the answers of one batch */
#define PINGS_AT_ONCE 64	/* keepers in a batch: a descriptor each */
#define PINGS_MANY 8	/* from this number on the notes are read */
#define PINGS_REMEMBERED_MS 5000

/*
 * Borrows answer, the keeper's answer to "ping": "state", and its activity ("idle_ms", "busy",
 * "commands", "sessions").
 */
typedef void pings_fn(json_t *record, const json_t *answer);
/*
 * Asks the keeper of each record of list (an array) with the status "running" and calls answered
 * for each that answers in time. The other records stay as they are.
 */
void pings_ask(struct registry *r, json_t *list, pings_fn *answered);
/* The same with their answers to "stats", which has the bytes of a network too. */
void pings_stats(struct registry *r, json_t *list, pings_fn *answered);
/*
 * As pings_ask(), but keepers that noted that nothing in their sandboxes changes (ranges.h) are not
 * asked; answered then gets "state", "idle_ms", "busy", "commands" and "sessions" from the
 * notes.
 */
void pings_look(struct registry *r, json_t *list, pings_fn *answered);

/* The keepers' notes by id, of those that wrote one; the caller frees them. NULL with a count of 0: none. */
struct range_note;
struct range_note *pings_notes(struct registry *r, size_t *ret_count);
/* The note of a sandbox, or NULL. */
const struct range_note *pings_note(const struct range_note *notes, size_t count, const char *id);

/* The keepers' last answers, for a long-running process; any thread may use it. */
struct pings_memory;
struct pings_memory *pings_memory_new(struct err *e);
void pings_memory_free(struct pings_memory *m);
/*
 * As pings_ask(), with the whole answer, but a keeper whose sandbox has stood still since its last
 * answer is asked again only after PINGS_REMEMBERED_MS: the kernel may take memory from a sandbox
 * that does nothing.
 */
void pings_remember(struct registry *r, json_t *list, struct pings_memory *m, pings_fn *answered);

#endif
