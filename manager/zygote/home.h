/* SPDX-License-Identifier: Apache-2.0 */
/*
 * home - a place in a zygote for a sandbox that takes a fork of it.
 *
 * The supervisor of the zygote (cli/zygote/zygote.h) owns the places: each is a range of ids that
 * the zygote's user namespace maps, and whoever has one asks the supervisor for forks.  A branch is
 * a child of the supervisor and has its place from birth.  The keeper of a sandbox that lives takes
 * one at ZYGOTE_HOME, and has it as long as it keeps the socket.
 */
#ifndef BERTH_MANAGER_ZYGOTE_HOME_H
#define BERTH_MANAGER_ZYGOTE_HOME_H

#include "base/json.h"
#include "manager/host/registry.h"
#include "runtime/sandbox/graft.h"
#include "runtime/sandbox/spec.h"

#define ZYGOTE_HOME "home.sock"

/* To the supervisor: one packet each. */
enum home_word { HOME_GRAFT = 1, HOME_TAKEN, HOME_READY };

struct home_ask {
	uint32_t word;
	int32_t init;
	uint32_t tasks, has_time; /* descriptors: v2 cgroup, control, tasks, namespaces */
	char leaf[65];            /* struct graft_place */
};

struct home_answer {
	struct err err;
	struct graft graft;
};

/* The first packet that a client of ZYGOTE_HOME receives, with the descriptors of inside. */
struct home_place {
	struct err err;
	uint32_t id_base;
	struct spec_inside inside;
};

struct zygote_home {
	int sock; /* -1: none */
	char zygote[65];
	uint32_t id_base;
	struct spec_inside inside;
};

/*
 * Takes a place in the zygote of that name or id.  ERR_NOT_FOUND: it has ended; ERR_BUSY: all its
 * places are taken.
 */
int zygote_home_open(struct registry *r, const char *zygote, struct zygote_home *ret,
		     struct err *e);
/* Gives it back, when nothing of the sandbox runs any more.  Accepts one that is closed. */
void zygote_home_close(struct zygote_home *h);
/*
 * A fork of the zygote in the sandbox whose init is that process, in its cgroup c, or in the leaf
 * of that unless it is NULL.  control becomes GRAFT_CONTROL_FD of the fork.
 */
int zygote_home_fork(int sock, pid_t init, const struct cgroup *c, const struct cgroup *leaf,
		     int control, struct graft *ret, struct err *e);

#endif
