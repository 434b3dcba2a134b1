/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service - the manager: sandboxes of sessions, warm pools, workspaces.
 *
 * All its knowledge is in the store (ledger.h), written before it is acknowledged; this process
 * only has caches and threads. A record is a JSON object under sandbox/NAME in the shape of
 * agentscope's ContainerModel, with one more member, "berth", for our own data. A session is
 * session/ID: the names of its sandboxes.
 *
 * States of a record: creating (not acknowledged; removed after a crash), warm (in a pool),
 * running (its sandbox may be stopped or archived: "status"), recycled (reaped; can be
 * restored), replaced (redirect_to names its successor), released, error.
 *
 * All functions may be called from any thread; they block. The berth program makes the sandboxes
 * in a process of its own, and their keepers do the rest.
 */
#ifndef BERTH_MANAGER_SERVICE_SERVICE_H
#define BERTH_MANAGER_SERVICE_SERVICE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "manager/host/config.h"
#include "manager/host/tenant.h"
#include "manager/service/oplock.h"

struct service;

/* Name of a file in the run directory, which the berthd that serves it locks. */
#define SERVICE_LOCK "berthd.lock"

/* The caller. Objects of another caller are ERR_NOT_FOUND, except for an administrator. */
struct service_who {
	const char *name;
	int admin;
	/* returns 1 if the caller has left and needs no answer; NULL: never */
	int (*gone)(void *ctx);
	void *gone_ctx;
	/* the key of a request that makes a sandbox, for its record; NULL or "": none */
	const char *request;
	/* options of berth create that a door adds, for which its client needs no right; or NULL */
	const json_t *own;
};

/* 1 while a berth program of an earlier berthd makes a sandbox: its name, or the key of its request, is in the arguments. */
int service_is_making(const char *word);
/* Whether a program that another berthd than this one started makes or changes a sandbox. */
int service_is_earlier_making(void);

/*
 * Opens the store, takes over what an earlier berthd left (running sandboxes stay, half-made ones
 * are removed) and starts the threads. berth_path is the program.
 */
int service_new(struct service **ret, const struct config *c, const char *berth_path, struct err *e);
/* Applies new intervals, limits and pools; the store and the storage stay as they are. */
int service_reload(struct service *s, const struct config *c, struct err *e);
/*
 * Checks [store], [storage], [session], [admission] and the pools, with the files they name, and by the program
 * berth_path the options of the pools; opens nothing.
 */
int service_check_config(const struct config *c, const char *berth_path, struct err *e);
/*
 * Reports errors that a start or a first use would find: the directories, the store, and the
 * storage, where an object is stored and removed. Leaves nothing.
 */
int service_check_places(const struct config *c, struct err *e);
/* Ends uploads and downloads of requests and threads after grace_ms, because service_end() comes soon. */
void service_ending(struct service *s, uint64_t grace_ms);
/*
 * Ends the threads; with [session] on_shutdown = "clean" first releases everything. Returns 1 if
 * nothing is left; 0: sandboxes run on; -1: some could not be removed. s may be NULL.
 */
int service_end(struct service *s, struct err *e);

/* ---- sandboxes ---- */

/*
 * Makes a sandbox. args, as for agentscope's create: sandbox_type, mount_dir, storage_path,
 * environment, meta {session_ctx_id}; ours: memory, cpus, name, owner_pid. from_pool: a warm one if
 * the pool has one and no argument needs a new one (mount_dir).
 */
int service_create(struct service *s, const struct service_who *who, const json_t *args, int from_pool, char ret_name[65],
		   struct err *e);
/* Calls fn for each sandbox of ours that was made for a request with a service_who.request, which is word; fn returns 1 to stop. */
int service_each_request(struct service *s, int (*fn)(void *ctx, const char *name, const char *word), void *ctx, struct err *e);
/* Whether the sandbox of that name is there, whosever it is, archived ones too. */
int service_has(struct service *s, const char *name);
/*
 * Never ERR_NOT_FOUND: an unknown sandbox is released already. An error means that a part is
 * left, and a later call continues; ERR_LIMIT and ERR_INVALID mean that all of it is left,
 * because its workspace could not be restored from the storage. discard: the workspace is not
 * stored, and its stored copy may stay.
 */
int service_release(struct service *s, const struct service_who *who, const char *identity, int discard, struct err *e);
int service_start(struct service *s, const struct service_who *who, const char *identity, struct err *e);
int service_stop(struct service *s, const struct service_who *who, const char *identity, struct err *e);
/* Packs the writable layer and the workspace and puts them to the storage; nothing stays on the host but the range of ids. */
/*
 * Returns {"auto_stop_ms", "auto_archive_ms", "auto_delete_ms"} of one sandbox: a new reference, or
 * NULL. args, unless empty or NULL, changes them: "15m" or seconds, 0: never, null: the value of
 * [session].
 */
json_t *service_intervals(struct service *s, const struct service_who *who, const char *identity, const json_t *args, struct err *e);
int service_archive(struct service *s, const struct service_who *who, const char *identity, struct err *e);
/* Changes members of an object in "meta" of its record, and leaves its others alone; consumes members, of which null removes one. */
int service_change_meta(struct service *s, const struct service_who *who, const char *identity, const char *name, json_t *members, struct err *e);
/* Returns the record, following redirect_to: a new reference. */
json_t *service_info(struct service *s, const struct service_who *who, const char *identity, struct err *e);
/* Gives "running", "exited", "archived", "recycled", "released" or "error". */
int service_status(struct service *s, const struct service_who *who, const char *identity, char ret[16], struct err *e);
/*
 * Releases everything that who may see, at once, within [session] shutdown_timeout. Combines the
 * errors.
 */
int service_cleanup(struct service *s, const struct service_who *who, int discard, struct err *e);
/* Returns an array of records. */
json_t *service_list(struct service *s, const struct service_who *who, struct err *e);

/* New limits for a sandbox of the manager, in two steps: before and after they are changed. */
struct service_limits {
	char name[65];			/* "": the manager does not have the sandbox */
	uint64_t memory_bytes[2], cpu_milli[2];	/* before, after */
};

/*
 * Begins the change, by the id of the sandbox; NULL texts stay unchanged. ERR_LIMIT if [admission]
 * has no room for it.
 */
int service_limits_begin(struct service *s, const char *id, const json_t *memory, const json_t *cpus, struct service_limits *l, struct err *e);
/* Records the new limits; or, if the change was not done, gives back what was taken. */
int service_limits_end(struct service *s, const struct service_limits *l, int done, struct err *e);

/* ---- sessions ---- */

json_t *service_session_keys(struct service *s, const struct service_who *who, struct err *e);
/* Returns the names of its sandboxes: an array, empty for an unknown session. */
json_t *service_session_mapping(struct service *s, const struct service_who *who, const char *ctx, struct err *e);
int service_heartbeat(struct service *s, const struct service_who *who, const char *ctx, struct err *e);
int service_reap(struct service *s, const struct service_who *who, const char *ctx, const char *reason, struct err *e);
int service_restore(struct service *s, const struct service_who *who, const char *ctx, struct err *e);

/* ---- workspaces ---- */

int service_upload(struct service *s, const struct service_who *who, const char *identity, struct err *e);
int service_download(struct service *s, const struct service_who *who, const char *identity, struct err *e);

/* ---- work in a sandbox ---- */

/*
 * While it is in use, nothing removes the sandbox. Opening renews the session's lease, restores
 * a reaped sandbox, and starts a stopped or archived one.
 */
struct service_use {
	struct service *service;
	struct oplock op;
	char name[65];
	char id[65];
	int sock;			/* to its keeper */
	uint64_t timeout_ms;		/* limit of a tool call */
	const struct service_who *who;
};

int service_use(struct service *s, const struct service_who *who, const char *identity, struct service_use *u, struct err *e);
void service_use_end(struct service_use *u);

struct service_output {
	/* the caller sets the ceilings; bytes above them are dropped and counted */
	struct buf out, err;
	uint64_t out_dropped, err_dropped;
	json_t *verdict;
};
/* Runs a command, with its output separated; in_text may be NULL. */
int service_exec(struct service_use *u, json_t *argv, json_t *env, const char *in_text, uint64_t timeout_ms,
		 struct service_output *ret, struct err *e);

int service_health(struct service *s, const struct service_who *who, const char *identity, struct err *e);
json_t *service_list_tools(struct service *s, const struct service_who *who, const char *identity, const char *type, struct err *e);
json_t *service_call_tool(struct service *s, const struct service_who *who, const char *identity, const char *tool,
			  const json_t *arguments, struct err *e);
json_t *service_add_mcp(struct service *s, const struct service_who *who, const char *identity, const json_t *configs,
			int overwrite, struct err *e);

/* Returns how long a delete waits for operations under way before it ends them. */
uint64_t service_drain_ms(struct service *s);

/* ---- about itself ---- */

/*
 * Tells whether the store answers now, and the storage did when it was last asked: 0, or -1 with
 * the reason. Takes no longer than one try of the store.
 */
int service_ready(struct service *s, struct err *e);
json_t *service_stats(struct service *s, struct err *e);
/* Writes the stats as Prometheus text. */
int service_metrics(struct service *s, struct buf *out, struct err *e);

/*
 * tenancy - a tenant's view of the store, for the routes; the rest is private to the service
 * (state.h).
 */

/*
 * Gives the full name of an image for a tenant's word ref; ERR_NOT_FOUND, in the same words, if it
 * does not exist and if t does not see it.
 */
int tenancy_find_image(const struct tenant *t, const struct config *c, const char *ref,
		       char ret[REF_NAME_MAX + 1], struct err *e);

#endif
