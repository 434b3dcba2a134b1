/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart - whether a service that has ended runs again, and when.
 *
 * The decisions are pure.  The guardian of a sandbox, which waits for the end of its keeper
 * (manager/keeper/keeper.h), makes them; while it waits for the next start it says so in
 * RESTART_FILE of the sandbox's directory, so that a stop can end it.
 */
#ifndef BERTH_MANAGER_HOST_RESTART_H
#define BERTH_MANAGER_HOST_RESTART_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct registry;

enum restart_when { RESTART_NO, RESTART_ON_FAILURE, RESTART_ALWAYS, RESTART_UNLESS_STOPPED };

struct restart_policy {
	enum restart_when when;
	unsigned max;		/* restarts on failure; 0: any number */
};

#define RESTART_TEXT 32
#define RESTART_BACKOFF_MS 100		/* before the first restart; it doubles up to the next */
#define RESTART_BACKOFF_MAX_MS 60000
#define RESTART_LIVED_MS 10000		/* after a life as long as this it is the first again */

/* "no", "on-failure", "on-failure:N", "always", "unless-stopped". */
int restart_parse(const char *text, struct restart_policy *ret, struct err *e);
void restart_format(const struct restart_policy *p, char out[RESTART_TEXT]);

/* Whether the record of a stopped sandbox says that it must run again. */
int restart_is_due(const json_t *record);
/* The same after a boot of the host: always is also for what somebody had stopped. */
int restart_is_due_at_boot(const json_t *record);
/* The wait before a restart, after a wait of last_ms (0: none) and a life of lived_ms. */
uint64_t restart_backoff(uint64_t last_ms, uint64_t lived_ms);

/* {"pid": the guardian, "at_ms": on the wall clock} */
#define RESTART_FILE "restart.json"
#define RESTART_VERB "guard"	/* berth's hidden command that is a guardian */

/* Writes a policy into a record, and with guardian its pid. */
void restart_note(json_t *record, const struct restart_policy *p, uint64_t guardian);

/* Process pid is the guardian, though it may not have its command line yet. */
void restart_note_guardian(json_t *record, int pid);

/* The guardian of sandbox id waits for the next start: its pid.  0: it does not. */
int restart_pending(struct registry *r, const char *id);
/*
 * Sandbox id, which does not run, is between two runs: its record says that it is to run again,
 * and its guardian lives, which may not have begun to wait yet.
 */
int restart_is_coming(struct registry *r, const char *id);
/* Whether the guardian lives that its record names. */
int restart_is_guarded(struct registry *r, const char *id);
/* Keeps sandbox id, which does not run, as it is: records that, and ends a waiting guardian. */
void restart_cancel(struct registry *r, const char *id);

#endif
