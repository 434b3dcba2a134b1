/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phases - how long each part of making and running a sandbox takes, for --timing and
 * --create-timeout.
 *
 * Without these options a pointer is NULL and phase_enter() does nothing. With them, the times
 * are in a page that is shared with the processes forked from then on, because the keeper does
 * most of the work. The pointer is global, like the log level: otherwise every layer would need
 * a parameter for it.
 */
#ifndef BERTH_BASE_PHASES_H
#define BERTH_BASE_PHASES_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"

enum phase {
	PHASE_IMAGE,	/* look the image up, or fetch it */
	PHASE_CLAIM,	/* claim an id, a name, a range of ids */
	PHASE_CGROUP,
	PHASE_PROCESS,	/* start the child in its namespaces, map its ids */
	PHASE_NETWORK,
	PHASE_WRITABLE,	/* make the writable layer */
	PHASE_MOUNTS,
	PHASE_INIT,	/* wait until process 1 answers */
	PHASE_CONNECT,	/* exec: connect to the keeper */
	PHASE_COMMAND,
	PHASE_REMOVE,
	PHASE_COUNT
};

struct phases {
	enum phase now;
	int begun;		/* when the current phase began */
	pid_t keeper;		/* the keeper's pid, once it runs */
	char id[65];		/* the sandbox's id, once it has one */
	uint64_t since_us, us[PHASE_COUNT];
};

extern struct phases *phases_on;

/* Starts taking times. */
int phases_begin(struct err *e);
/* Stops taking times, and frees the page. */
void phases_end(void);
void phases_switch(enum phase p);
const char *phases_name(enum phase p);
/*
 * Ends the last phase. phases_tell() prints a line for each phase on stderr; phases_json() returns
 * {"image_ms":0.12,...,"total_ms":3.1}.
 */
void phases_tell(const char *prog);
json_t *phases_json(void);

static inline void phase_enter(enum phase p)
{
	if (phases_on)
		phases_switch(p);
}

#endif
