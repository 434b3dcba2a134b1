/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_service - the main command of a service (keeper_main.c); a part of keeper_state.h. */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_SERVICE_H
#define BERTH_MANAGER_KEEPER_KEEPER_SERVICE_H

#include "base/err.h"
#include "manager/keeper/keeper.h"
#include "runtime/sandbox/verdict.h"

#define KEEPER_AWAITED_MS 10000	/* for clients that were announced */

struct keeper;
struct keeper_command;

enum main_phase { MAIN_NONE, MAIN_PREPARES, MAIN_STARTS, MAIN_RUNS, MAIN_ENDED, MAIN_FAILED };

/* Of a service (keeper_main.c). */
struct keeper_main {
	const struct keeper_service *service;	/* NULL: it is not a service */
	enum main_phase phase;
	/* of the init command while that prepares, then of the main command */
	uint32_t seq;
	int by_hand;		/* a client asked for its end */
	uint64_t until_ms;	/* it has ended, and its followers are waited for */
	uint64_t paced_ms, paced_bytes;	/* the bytes of its output that were read since then */
	unsigned awaited;	/* clients that have not come yet */
	uint64_t held_until_ms;	/* its output waits for those until then; 0: for none of them */
	struct err failed;	/* why it could not begin */
	struct verdict verdict;	/* of the main command, once it has ended */
};

/*
 * Begins the init command or the main command of a service; keeper_main_pends() until that is
 * known to run.
 */
int keeper_main_begin(struct keeper *k, struct err *e);
int keeper_main_pends(const struct keeper *k);
/* -1: why the main command did not begin. */
int keeper_main_result(const struct keeper *k, struct err *e);
/*
 * Whether c is the main command, or its init command while that runs; the name of that in the
 * log.
 */
int keeper_main_is(const struct keeper *k, const struct keeper_command *c);
const char *keeper_main_source(const struct keeper *k);
/* NULL: there is none, or it has not begun. */
struct keeper_command *keeper_main_command(struct keeper *k);
/* "restart" and "guardian_pid" of an update, in both records. */
int keeper_main_update(struct keeper *k, const json_t *rq, struct err *e);
/* Handles the end of a command for which keeper_main_is() is true. */
void keeper_main_started(struct keeper *k);
void keeper_main_failed(struct keeper *k, const struct err *why);
void keeper_main_concluded(struct keeper *k, const struct keeper_command *c);
/* Whether its output waits for clients that have not come yet, however far it has got. */
int keeper_main_holds(const struct keeper *k, const struct keeper_command *c);
/* A client follows or waits for c; it may or may not be one of those that were announced. */
void keeper_main_attended(struct keeper *k, int client, const struct keeper_command *c);
/* n bytes of its output were read; whether the next ones wait a moment. */
void keeper_main_read(struct keeper *k, uint64_t n);
int keeper_main_rests(const struct keeper *k, const struct keeper_command *c);
/* Sends the stop signal to the main command; 0: there is none. */
int keeper_main_ask_to_end(struct keeper *k);
/* "wait" for the command id: 1 when that is a main command which has not begun. */
int keeper_main_awaits(struct keeper *k, int client, const char *id);
/* Writes down how it ended. */
void keeper_main_record(struct keeper *k);
/* From the request for its end to the force. */
uint64_t keeper_main_grace_ms(const struct keeper *k);

#define KEEPER_OWN (-2)	/* the client of the request that starts it */

#endif
