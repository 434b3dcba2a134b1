/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events - changes of sandboxes, from any cause.
 *
 * While a client listens, a thread watches the registry's directories and compares those of the
 * sandboxes that changed with its last view (eventlook_look()): created, started, stopped, renamed,
 * removed. Changes from a time without listeners are reported to the next one, from the journal
 * (manager/host/journal.h) and with their times. Requests that changed something are events too. The last EVENTS_KEPT are
 * kept, so a client that returns with the number of its last event misses none of them.
 */
#ifndef BERTH_MANAGER_API_EVENTS_H
#define BERTH_MANAGER_API_EVENTS_H

#include <stdint.h>

#include "base/json.h"
#include "manager/api/http.h"

/*
 * eventlook - what the sandboxes were at the last look, and the events that tell the difference.
 *
 * inotify(7) names the sandboxes whose directories changed, and a look reads those alone. It
 * reads all of them the first time, after an overflow of the kernel's queue, and whenever a
 * directory could not be watched. The thread of events.c owns it.
 */

struct api;

/* Where the events go, and what is known there. */
struct eventlook_to {
	void *ctx;
	/* Consumes event; owner may be NULL. */
	void (*publish)(void *ctx, const char *owner, json_t *event);
	/* The tenant whose request made the sandbox: a new reference, or NULL. */
	json_t *(*maker)(void *ctx, const char *sandbox);
};

struct eventlook {
	struct api *api;
	struct eventlook_to to;
	int inotify;
	uint64_t journal_at;	/* the cursor behind what was read of the journal */
	json_t *seen;		/* id -> {"name","running","owner","awaited","ending"} */
	json_t *watched;	/* watch descriptor -> id; "" for the directories of all */
	json_t *changed;	/* the ids to look at */
	int all;		/* look at every sandbox */
};

/* 0, or -1 when this kernel or its limits give no inotify; to be closed in both cases. */
int eventlook_open(struct eventlook *l, struct api *a, const struct eventlook_to *to);
void eventlook_close(struct eventlook *l);
/* Publishes what changed since the last look; the first look publishes nothing. */
void eventlook_look(struct eventlook *l, int state_fd);
/* Publishes what was added to the journal below state_fd (-1: none); with skip, only passes it. */
void eventlook_journal(struct eventlook *l, int state_fd, int skip);

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
