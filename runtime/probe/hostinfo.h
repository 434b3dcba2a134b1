/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostinfo - finds the facilities of this host that a sandbox needs, each proven by a test, not
 * assumed.
 *
 * Each probe runs in a process of its own with a deadline, makes the same calls as the runtime,
 * and removes what it made. Mounts are detached or in a mount namespace of the probe, cgroups
 * are below a separate parent. Nothing of the host is changed.
 */
#ifndef BERTH_RUNTIME_PROBE_HOSTINFO_H
#define BERTH_RUNTIME_PROBE_HOSTINFO_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum host_state { HOST_OK, HOST_LIMITED, HOST_MISSING };

struct host_finding {
	const char *what;		/* static */
	enum host_state state;
	int needed;			/* `berth run` with the defaults cannot work without it */
	int optional;			/* a program that some commands need; not having it is no problem of the host */
	char detail[240];		/* the result */
	char effect[240];		/* how berth handles a missing facility; "" if it works */
};

/* Places to probe; borrowed. */
struct hostinfo_place {
	const char *state_dir;
	const char *cgroup_parent;	/* made and removed again: no sandbox uses it */
	uint32_t id_base;
};

/* Returns how many findings hostinfo_probe() gives. */
size_t hostinfo_count(void);
/*
 * Fills ret[0 .. hostinfo_count() - 1].  Fails only when it cannot try at all
 * (no memory, no process); interrupted is polled between probes and ends the
 * run early with ERR_BUSY.
 */
int hostinfo_probe(const struct hostinfo_place *p, struct host_finding *ret, int (*interrupted)(void), struct err *e);
/* Returns "ok", "limited" or "missing". */
const char *hostinfo_state_name(enum host_state s);
/*
 * Removes the cgroup parent in every hierarchy, with the leftovers of probes, and gives back v2
 * controllers.
 */
void hostinfo_remove_cgroups(const struct hostinfo_place *p);

#endif
