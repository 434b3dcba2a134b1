/* SPDX-License-Identifier: Apache-2.0 */
/*
 * update_life - what berth update changes of a sandbox's life: its restart policy, its owner, its
 * health check.
 *
 * UPDATE_LIFE_TABLE rows feed the command's struct opt table.  A change is checked on the whole
 * description that the sandbox will have, as its next start will read it.
 */
#ifndef BERTH_CLI_LIVE_UPDATE_LIFE_H
#define BERTH_CLI_LIVE_UPDATE_LIFE_H

#include <sys/types.h>

#include "base/json.h"
#include "cli/run/healthopts.h"
#include "manager/host/registry.h"

enum update_life_id { UPDATE_RESTART = 200, UPDATE_OWNER_PID, UPDATE_OWNER_GRACE };

#define UPDATE_LIFE_TABLE \
	{ "restart", 0, OPT_VALUE, "WHEN", \
	  "of a service, run it again: no, on-failure[:N], always, unless-stopped", UPDATE_RESTART, \
	  COMPLETE_WORDS, "no on-failure always unless-stopped" }, \
	{ "owner-pid", 0, OPT_VALUE, "PID", \
	  "process it is for from now on: when that ends it is removed; 0 means none", \
	  UPDATE_OWNER_PID }, \
	{ "owner-grace", 0, OPT_VALUE, "TIME", "time it stays paused after its owner's end", \
	  UPDATE_OWNER_GRACE }, \
	HEALTHOPTS_TABLE

/* Adds the option to options, as spec.json has them.  1 when id is not one of the table. */
int update_life_option(json_t *options, int id, const char *value, struct err *e);
/* Whether the option that is given now takes the place of one that was given before. */
int update_life_replaces(const char *now, const char *before);
/* Whether spec.json leaves it out: it takes another back, and is nothing itself. */
int update_life_takes_back(const json_t *pair);
/*
 * Checks spec, which has the options in it, and puts what they say into a request for the keeper.
 * Without any of the table's it does nothing.
 */
int update_life_ask(struct registry *r, const char *id, const json_t *spec, const json_t *options,
		    json_t *rq, struct err *e);
/* The same into the record of a sandbox that does not run. */
int update_life_record(struct registry *r, const char *id, const json_t *rq, struct err *e);

/* A guardian for a sandbox that runs without one, which waits until it is told. */
struct update_guardian {
	pid_t pid;	/* 0: none is needed */
	int go_fd;
};

#define UPDATE_GUARDIAN_INIT { 0, -1 }

/* Where the request asks for a restart policy: names the new guardian in it. */
int update_guardian_begin(struct update_guardian *g, struct registry *r, const char *id,
			  json_t *rq, struct err *e);
/* ok: the keeper knows it, and it stays; else it ends. */
void update_guardian_end(struct update_guardian *g, int ok);

#endif
