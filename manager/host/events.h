/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events - what happened to the sandboxes that live on this host, in the
 * journal state_dir/events.
 *
 * Best effort: that an event cannot be written stops nothing.
 */
#ifndef BERTH_MANAGER_HOST_EVENTS_H
#define BERTH_MANAGER_HOST_EVENTS_H

#include "manager/host/journal.h"
#include "manager/host/registry.h"

#define EVENTS_FILE "events"
#define EVENTS_BYTES (1u << 20)	/* of one of its two files */

/* {"event":EVENT,"id":ID, members}; members (may be NULL) is consumed. */
void events_add(struct registry *r, const char *event, const char *id, json_t *members);
/* The same to a journal that stays open: JOURNAL_INIT(r->state_fd, EVENTS_FILE, EVENTS_BYTES). */
void events_add_to(struct journal *j, const char *event, const char *id, json_t *members);
/* Whether the journal alone tells of it: no file of the sandbox shows that it happened. */
int events_is_own(const char *event);

#endif
