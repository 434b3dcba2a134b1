/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_timeline - checkpoints of the sandbox (keeper_checkpoint.c); a part of keeper_state.h. */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_TIMELINE_H
#define BERTH_MANAGER_KEEPER_KEEPER_TIMELINE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"

struct keeper;
struct keeper_request;
struct checkpoint_job;

/* At most one checkpoint is under way; the others wait for it. */
struct keeper_checkpoint {
	struct checkpoint_job *jobs; /* the first one's is under way while pid is not 0 */
	pid_t pid;                   /* its process; 0: none */
	int sock;                    /* to it */
	int stands;                  /* the sandbox is frozen for it */
	struct snapshot_note *made; /* it is made, and waits for the states of shells; or NULL */
	int touched;                 /* something ran: the layer is no checkpoint's any more */
	char last[128];              /* the command that began last */
};

/* Something begins to run; text, n bytes, is its beginning. */
void keeper_checkpoint_ran(struct keeper *k, const char *text, size_t n);
/*
 * A request that runs a command, which asks for a checkpoint before it: 1, and it is served when
 * that is made; 0: it asks for none; -1.
 */
int keeper_checkpoint_before(struct keeper *k, const struct keeper_request *rq, struct err *e);
/* Its process sends a report. */
void keeper_checkpoint_note(struct keeper *k);
/* It waits for the states of shells: until when; 0: it does not. */
void keeper_checkpoint_client_gone(struct keeper *k, int client);
/* The keeper ends: nothing of it is left, and the layer is not frozen. */
void keeper_checkpoint_end(struct keeper *k);

#endif
