/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events - changes of sandboxes, from any cause.
 *
 * While a client listens, a thread watches the registry's directories and compares those of the
 * sandboxes that changed with its last view (eventlook.h): created, started, stopped, renamed,
 * removed. Changes from a time without listeners are reported to the next one, from the journal
 * (manager/host/journal.h) and with their times. Requests that changed something are events too. The last EVENTS_KEPT are
 * kept, so a client that returns with the number of its last event misses none of them.
 */
#ifndef BERTH_MANAGER_API_EVENTS_H
#define BERTH_MANAGER_API_EVENTS_H

#include "manager/api/http.h"

#define EVENTS_KEPT 4096

struct api;
struct events;

struct events *events_new(struct api *a, struct err *e);
void events_free(struct events *ev);
/* Consumes event, which has "type" and maybe "sandbox"; owner may be NULL.  Any thread. */
void events_publish(struct events *ev, const char *owner, json_t *event);

/* A listener's end: readable when there may be more.  -1 with e. */
int events_subscribe(struct events *ev, int is_admin, struct err *e);
void events_unsubscribe(struct events *ev, int fd);
/* The number of the last event so far. */
uint64_t events_last(struct events *ev);
/*
 * The first event after number *at that who may see and that is about sandbox (NULL: any): a
 * copy, *at its number; NULL if there is none yet.
 */
json_t *events_after(struct events *ev, uint64_t *at, const struct http_who *who, const char *sandbox);

#endif
