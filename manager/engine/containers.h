/* SPDX-License-Identifier: Apache-2.0 */
/*
 * containers - Docker's operations on one container, for both of its doors.
 *
 * What changes a container is a call of berth's; what only looks asks its keeper.  Errors have
 * Docker's words: ERR_NOT_FOUND "No such container: X", ERR_BUSY for a state in which it cannot be
 * done, ERR_EXISTS for a name that is taken, ERR_INVALID for what means nothing.
 */
#ifndef BERTH_MANAGER_ENGINE_CONTAINERS_H
#define BERTH_MANAGER_ENGINE_CONTAINERS_H

#include "manager/engine/berth.h"
#include "manager/engine/create.h"
#include "manager/engine/load.h"
#include "manager/engine/stats.h"
#include "manager/host/registry.h"

/* A container that a client has named; all is borrowed. */
struct engine_container {
	struct engine_berth berth;
	struct engine_asker keeper; /* connects to its keeper when it is asked first */
	struct registry *registry;
	const char *id;	    /* berth's */
	int kept;	    /* it does not run */
	const char *called; /* what the client calls it, without a slash in front */
};

/* Finds the container that called names: ret_id and *ret_kept, which is 1 too when its keeper was killed. */
int engine_container_find(struct registry *r, const char *called, char ret_id[65], int *ret_kept, struct err *e);
/* Sets ERR_BUSY "Container ID is not running"; -1. */
int engine_not_running(const char *id, struct err *e);
/*
 * After a failure: when another client removed the container meanwhile, or ended it, the error says
 * so, and not which file or connection went with it.  -1.
 */
int engine_container_explain(struct registry *r, const char *id, const char *called, struct err *e);

/* ---- its life ---- */

/*
 * Starts it: 0; 1 when it ran already; ERR_EXEC and ERR_EXEC_NOT_FOUND in Docker's words.  A
 * container with AutoRemove is removed when it cannot be started.  awaited: the clients for which
 * its end waits.
 */
int engine_container_start(const struct engine_container *c, unsigned awaited, struct err *e);

/* The name or number of a signal, NULL and "" for none: ERR_INVALID, which dockerd tells before it looks for a container. */
int engine_check_signal(const char *word, struct err *e);

/* How it is stopped; engine_check_signal() took the signal. */
struct engine_ending {
	const char *signal; /* NULL or "": its own stop signal */
	int has_grace;
	long grace_s; /* with has_grace: seconds until SIGKILL, -1 for ever */
};

/* Stops it, and also keeps its restart policy from starting it: 0; 1 when it did not run. */
int engine_container_stop(const struct engine_container *c, const struct engine_ending *how, struct err *e);
/* Stops it, where it runs, and starts it. */
int engine_container_restart(const struct engine_container *c, const struct engine_ending *how, struct err *e);
/* Sends a signal, which engine_check_signal() took, to its main command; NULL and "" are KILL. */
int engine_container_kill(const struct engine_container *c, const char *signal, struct err *e);
/* Freezes it (on), or lets it go on. */
int engine_container_pause(const struct engine_container *c, int on, struct err *e);
/* Gives it another name, "/NAME" or "NAME". */
int engine_container_rename(const struct engine_container *c, const char *name, struct err *e);
/* Removes it, one that runs only with force; volumes: also those that nobody named. */
int engine_container_remove(const struct engine_container *c, int force, int volumes, struct err *e);

/* ---- looking at it ---- */

/* What a series of looks at one container's use remembers; zero but for the name is its begin. */
struct engine_watch {
	char name[80];	/* of the container, without a slash */
	struct engine_sample last;
	json_t *said; /* the keeper's answer in last */
};

/*
 * Looks: *ret_doc is Docker's document of the time since the look before, a new reference (of the
 * first look, one without a time before it).  1 when the container runs, 0 when it does not, -1
 * with ERR_NET when its keeper went away.
 */
int engine_watch_look(struct engine_watch *w, const struct engine_container *c, json_t **ret_doc, struct err *e);
void engine_watch_release(struct engine_watch *w);
/* GET /containers/{id}/top: a new reference; ps_args as for ps(1), NULL for -ef. */
json_t *engine_container_top(const struct engine_container *c, const char *ps_args, struct err *e);
/* GET /containers/{id}/changes: a new reference. */
json_t *engine_container_changes(const struct engine_container *c, struct err *e);

/* ---- others ---- */

/*
 * Changes what the members of a HostConfig say: an array of warnings, a new reference, or NULL.
 * What cannot be changed any more is a warning, as with dockerd.
 */
json_t *engine_container_update(const struct engine_container *c, const struct engine_rules *rules, json_t *host,
				struct err *e);
/*
 * Removes the containers that do not run and that filters wants, after engine_accept():
 * {"ContainersDeleted": [ID], "SpaceReclaimed": BYTES}, a new reference.  One that runs again
 * meanwhile, or that another process works on, stays.
 */
json_t *engine_container_prune(const struct engine_berth *b, struct registry *r, const json_t *filters, struct err *e);

#endif
