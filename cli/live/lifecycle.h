/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lifecycle - what berth create, start, stop, restart, kill and rm do to one sandbox, without
 * their command lines.
 *
 * s is storage that sandbox_ref_close() accepts, and has the sandbox's id afterwards.
 */
#ifndef BERTH_CLI_LIVE_LIFECYCLE_H
#define BERTH_CLI_LIVE_LIFECYCLE_H

#include "cli/live/sandbox_open.h"

struct resident_whose;
/*
 * Makes a sandbox of the words of berth create, ending with NULL and without the program's name.
 * The image is not fetched.  Nothing is left of one that could not be made, or started.
 */
int lifecycle_create(struct sandbox_ref *s, const struct resident_whose *whose, char **words,
		     struct err *e);
/* One that runs is what was asked for: 0.  awaited: clients that a service's end waits for. */
int lifecycle_start(struct sandbox_ref *s, const char *ref, const struct resident_again *how, struct err *e);
int lifecycle_stop(struct sandbox_ref *s, const char *ref, const struct stop_request *how,
		   struct err *e);
/* how->stays counts as set. */
int lifecycle_restart(struct sandbox_ref *s, const char *ref, const struct stop_request *how,
		      struct err *e);
/*
 * To the main command.  SIGKILL, or 0, is more than that: it leaves nothing to run, and is
 * answered when nothing does.
 */
int lifecycle_kill(struct sandbox_ref *s, const char *ref, uint64_t signo, struct err *e);
/* ERR_BUSY without force for one that runs. */
int lifecycle_remove(struct registry *r, const char *ref, int force, struct err *e);

#endif
