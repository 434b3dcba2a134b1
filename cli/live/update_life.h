/* SPDX-License-Identifier: Apache-2.0 */
/*
 * update_life - what berth update changes of a sandbox's life: its restart policy, its owner, its
 * health check.
 *
 * A change is checked on the whole description that the sandbox will have, as its next start will
 * read it.
 */
#ifndef BERTH_CLI_LIVE_UPDATE_LIFE_H
#define BERTH_CLI_LIVE_UPDATE_LIFE_H

#include <sys/types.h>

#include "base/json.h"
#include "manager/host/registry.h"

/*
 * Checks spec, which has the options in it, and puts what they say into a request for the keeper.
 * Without an option about its life it does nothing.
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
