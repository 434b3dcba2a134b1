/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart - decides whether a service that has ended runs again, and when.
 *
 * The decisions are pure. The guardian of a sandbox, which waits for the end of its keeper
 * (manager/keeper/keeper.h), makes them. While it waits for the next start it notes that in
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
	unsigned max;		/* restarts after a failure; 0: any number */
};

#define RESTART_TEXT 32
#define RESTART_BACKOFF_MS 100		/* wait before the first restart; it doubles up to the next limit */
#define RESTART_BACKOFF_MAX_MS 60000
#define RESTART_LIVED_MS 10000		/* after a run as long as this the wait is the first again */

/* Parses "no", "on-failure", "on-failure:N", "always", "unless-stopped". */
int restart_parse(const char *text, struct restart_policy *ret, struct err *e);
void restart_format(const struct restart_policy *p, char out[RESTART_TEXT]);

/* Tells whether a stopped sandbox must run again, by its record. */
int restart_is_due(const json_t *record);
/* As restart_is_due(), after a boot of the host: with "always" also a sandbox that a user had stopped. */
int restart_is_due_at_boot(const json_t *record);
/* Returns the wait before a restart, after a wait of last_ms (0: none) and a run of lived_ms. */
uint64_t restart_backoff(uint64_t last_ms, uint64_t lived_ms);

/* {"pid": the guardian, "at_ms": on the wall clock} */
#define RESTART_FILE "restart.json"
#define RESTART_VERB "guard"	/* berth's hidden command that is a guardian */

/* Writes a policy into a record, and with guardian its pid. */
void restart_note(json_t *record, const struct restart_policy *p, uint64_t guardian);

/* Notes that process pid is the guardian, though it may not have its command line yet. */
void restart_note_guardian(json_t *record, int pid);

/* Returns the pid of the guardian of sandbox id if it waits for the next start, else 0. */
int restart_pending(struct registry *r, const char *id);
/*
 * Tells whether sandbox id, which does not run, is between two runs: its record says that it is to
 * run again, and its guardian runs, which may not have begun to wait yet.
 */
int restart_is_coming(struct registry *r, const char *id);
/* Tells whether the guardian that the record names is running. */
int restart_is_guarded(struct registry *r, const char *id);
/* Cancels a restart of sandbox id, which does not run: records that, and ends a waiting guardian. */
void restart_cancel(struct registry *r, const char *id);

#endif
