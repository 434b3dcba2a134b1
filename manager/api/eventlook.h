/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eventlook - what the sandboxes were at the last look, and the events that tell the difference.
 *
 * inotify(7) names the sandboxes whose directories changed, and a look reads those alone. It
 * reads all of them the first time, after an overflow of the kernel's queue, and whenever a
 * directory could not be watched. The thread of events.c owns it.
 */
#ifndef BERTH_MANAGER_API_EVENTLOOK_H
#define BERTH_MANAGER_API_EVENTLOOK_H

#include <stdint.h>

#include "base/json.h"

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

#endif
