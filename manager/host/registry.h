/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry - records which sandboxes exist on this host, and what each one holds.
 *
 * On disk, below run_dir (volatile) and state_dir (lasting), all 0700:
 *   run_dir/sandboxes/ID/             flock'ed by the supervisor as long as it lives
 *   run_dir/sandboxes/ID/record.json  what the sandbox is, for ps and inspect
 *   run_dir/spare/                    a directory that was one of these, for the next: registry.h
 *   run_dir/swept                     how far registry_gc_some() has looked
 *   state_dir/sandboxes/ID/           lasting sandboxes: record.json, spec.json, the writable layer
 *   state_dir/names/NAME -> ID
 *   state_dir/ids/slots               which sandbox has which range of 65,536 ids: ranges.h
 * The directory is made before any other resource and everything else is named
 * after the ID, so that leftovers of a crash can be found and removed by
 * name (L08): an ID whose lock can be taken has no supervisor any more.
 *
 * run_dir/sandboxes itself is flock'ed while a sandbox is added or looked over, which makes the
 * limit on their number exact.
 */
#ifndef BERTH_MANAGER_HOST_REGISTRY_H
#define BERTH_MANAGER_HOST_REGISTRY_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/host/config.h"

/*
 * A file in a lasting sandbox's directory with the part of its network's budgets that earlier runs
 * used, {"bytes", "connections"}.
 */
#define NETWORK_USED_FILE "network-used.json"

#define REGISTRY_FORMAT 1	/* "version" of record.json and spec.json: the one written, and the newest
				 * one read */
#define REGISTRY_OWNER "owner.json"	/* of a lasting sandbox: {"name": the tenant}; without it only an
					 * administrator sees the sandbox */

#define REGISTRY_ASKED "docker.json"	/* what a client of Docker's API asked for (manager/engine/view.h) */

/* A file in the directory of a zygote (manager/zygote/wire.h), and of no other sandbox. */
#define REGISTRY_ZYGOTE_FILE "zygote.json"

struct registry {
	const struct config *config;
	int run_fd, state_fd;
	int sandboxes_fd;		/* below run_fd */
	int kept_fd, names_fd, ids_fd;	/* below state_fd */
	int pool_fd;		/* a mount of the pool of layers (layerpool_hold()); -1: none */
	unsigned others;	/* directories of other sandboxes at the last claim: running, lasting or
				 * left over */
};

/* A registry that is not open, which registry_close() accepts. */
#define REGISTRY_INIT { .run_fd = -1, .state_fd = -1, .sandboxes_fd = -1, .kept_fd = -1, \
			.names_fd = -1, .ids_fd = -1, .pool_fd = -1 }

/*
 * The limits and the owner of a sandbox. They are recorded with its range of ids, and checked
 * against [admission] and, for a tenant, against the sums of all of the tenant's sandboxes
 * (promise.h).
 */
#define PROMISE_SAME (UINT64_MAX - 1)	/* memory, CPUs or disk, for a change: as it was */

struct promise {
	/* limits; UINT64_MAX means none, which counts as everything the machine has */
	uint64_t memory_bytes, cpu_milli;
	uint64_t disk_bytes;		/* of a layer in state_dir; 0: it has none there */
	char tenant[65];			/* "" : nobody's */
	/* of all sandboxes of the tenant; 0 is not limited */
	uint64_t max_sandboxes, max_memory_bytes, max_cpu_milli, max_disk_bytes;
};

struct claim {
	const struct promise *promise;	/* borrowed; NULL: unknown, and the defaults of [sandbox] count */
	char id[65];
	char name[65];		/* "" : none */
	int inner;		/* a further range of a zygote, for a fork */
	int lasting;		/* release keeps the name, and state_dir/sandboxes/ID stays */
	int dir_fd;		/* run_dir/sandboxes/ID, locked */
	int slot_fd;		/* a descriptor in ids_dir, with a lock on our range: hostids.h */
	uint32_t id_base;	/* first host id of the range */
};

int registry_open(struct registry *r, const struct config *c, struct err *e);
void registry_close(struct registry *r);
/* Excludes every process that adds or removes a sandbox, or changes its limits. */
int registry_lock(struct registry *r, struct err *e);
void registry_unlock(struct registry *r);
/*
 * Calls each for every entry of dirfd that is a well-formed id or name; stops when it returns
 * non-zero, and returns that.
 */
int registry_each(int dirfd, int (*each)(void *ctx, const char *name), void *ctx, struct err *e);

/*
 * Adds a sandbox: a fresh random id, the name if one is given (ERR_EXISTS), a free range of ids,
 * and all of it locked. ERR_LIMIT at max_sandboxes, which counts running sandboxes, for a lasting
 * one at max_stopped, or if p does not fit. lasting also makes state_dir/sandboxes/ID.
 */
int registry_claim(struct registry *r, const char *name, int lasting, const struct promise *p, struct claim *ret, struct err *e);
/*
 * Reserves a further range of ids for the sandbox of c, with a promise of its own: ret->slot_fd
 * holds it, and ret->id_base is its first id. registry_claim_within() adds a fork there, and
 * registry_give_back() returns it to the zygote before the fork is released.
 */
int registry_claim_range(struct registry *r, const struct claim *c, const struct promise *p,
			 struct claim *ret, struct err *e);
/* As registry_claim(), for a sandbox without a name, in a range that another sandbox holds. */
int registry_claim_within(struct registry *r, const struct claim *range, struct claim *ret,
			  struct err *e);
int registry_give_back(struct registry *r, const struct claim *range, struct err *e);
/* Checks a name: ERR_INVALID if it is malformed, or could be the id of a sandbox or the start of one. */
int registry_check_name(const char *name, struct err *e);
/*
 * As registry_check_name(), for a name that a user gives: it may not begin like the names that
 * berthd gives, or a tenant could take the name of another tenant's snapshot.
 */
#define REGISTRY_SNAPSHOT "snapshot."
int registry_check_given(const char *name, struct err *e);
/*
 * Makes dir/from, the directory of a lasting sandbox that was moved away from this host, the
 * sandbox's directory again. ERR_LIMIT at max_sandboxes, or if p does not fit.
 */
int registry_bring_back(struct registry *r, int dir, const char *from, const char *id, const struct promise *p, struct err *e);
/* As registry_claim(), for a lasting sandbox that is to run again. p is used if the sandbox has no
 * recorded limits; NULL: only its files are worked on, and max_sandboxes does not count. ERR_EXISTS
 * while it runs. */
int registry_reclaim(struct registry *r, const char *id, const struct promise *p, struct claim *ret, struct err *e);
/*
 * Releases a claim whose sandbox could not be removed completely: its record stays, so that gc
 * finds the rest and tries again.
 */
void registry_abandon(struct claim *c);
/* Undoes registry_claim() completely; the kernel's objects must be gone already. Idempotent. */
int registry_release(struct registry *r, struct claim *c, struct err *e);

/*
 * Clears what dead supervisors left: processes, cgroups, directories, names. *ret_cleared counts
 * sandboxes. Sandboxes of a newer berth stay, because they may have parts that this berth does not
 * know.
 */
int registry_gc(struct registry *r, unsigned *ret_cleared, struct err *e);
/*
 * Clears what one dead supervisor left: 1; 0: it still runs, or left nothing here. ERR_TIMEOUT: its
 * processes do not end within ms. ERR_UNSUPPORTED: a newer berth left it (record_check_format()),
 * and newer_too is not set.
 */
int registry_clear_dead(struct registry *r, const char *id, unsigned ms, int newer_too, struct err *e);
/*
 * As registry_gc() after a claim, bounded for the hot path: it looks at 8 sandboxes at most, from
 * where the last call stopped, and clears one at most.
 */
void registry_gc_some(struct registry *r);
/* Lists what gc would remove, without removing it. */
int registry_gc_dry(struct registry *r, int (*each)(void *ctx, const char *id), void *ctx, struct err *e);

/*
 * Resolves an id, a name, or a unique prefix of an id of at least 4 characters, in this order (names.c).
 * ERR_NOT_FOUND, ERR_INVALID when ambiguous.
 */
int registry_find(struct registry *r, const char *ref, char ret_id[65], int *ret_kept, struct err *e);
/*
 * As registry_find(), for a caller that sees only some sandboxes: the others are treated as
 * missing, also when deciding whether a prefix is unique.
 */
typedef int registry_seen(void *ctx, const char *id);
int registry_find_seen(struct registry *r, const char *ref, registry_seen *seen, void *ctx, char ret_id[65], int *ret_kept, struct err *e);

/* Kept sandboxes: the directory state_dir/sandboxes/ID, made by keep, removed by forget. */
int registry_keep_dir(struct registry *r, const char *id, struct err *e);
/* Opens the directory if it exists: a descriptor, or -1 with errno. */
int registry_kept_dir(struct registry *r, const char *id);
/* Checks the specification of a lasting sandbox: 0, or -1 with ERR_UNSUPPORTED if it is of a newer format. */
int registry_check_spec_format(struct registry *r, const char *id, struct err *e);
/*
 * Reads a file of a lasting sandbox's directory, as JSON: a new reference or NULL. ERR_UNSUPPORTED
 * if spec.json is of a newer format. record.h reads its record.json.
 */
json_t *registry_load(struct registry *r, const char *id, const char *file, struct err *e);
/* Checks the format of doc, which is file of sandbox id: ERR_UNSUPPORTED, with a hint, if it is newer. */
int registry_check_version(const json_t *doc, const char *id, const char *file, struct err *e);
/* Writes a file of the directory; ENOENT if that is gone. */
int registry_save(struct registry *r, const char *id, const char *file, const json_t *j,
		  struct err *e);
/* As registry_save(), for a sandbox that is removed when it ends: the file need not survive a power cut. */
int registry_save_passing(struct registry *r, const char *id, const char *file, const json_t *j,
			  struct err *e);
/* As registry_save(), for a sandbox without a record yet, with which the file becomes durable. */
int registry_save_ahead(struct registry *r, const char *id, const char *file, const json_t *j,
			struct err *e);
int registry_forget(struct registry *r, const char *id, struct err *e);
/* Removes the directory of a lasting sandbox, and its layer wherever it is (layerhome.h). */
int registry_remove_kept(struct registry *r, const char *id, struct err *e);

/* ---- lists of sandboxes ---- */

/* The records of sandboxes that run (kept = 0), and of those that are only kept. */

/*
 * Gets the record of a sandbox, which it may change, and keep by json_incref(). A record of a
 * newer format has the status RECORD_NEWER, id and name, and the reason in "error". A return
 * value other than 0 ends the list.
 */
typedef int list_each(void *ctx, const char *id, int kept, json_t *record);

/* Calls each for every running sandbox and, with all, every kept one. */
int registry_list(struct registry *r, int all, list_each *each, void *ctx, struct err *e);
/* As registry_gc() and registry_list() in one, at the cost of six system calls for each running sandbox. */
int registry_sweep_list(struct registry *r, int all, list_each *each, void *ctx, struct err *e);
/* Calls each for one sandbox, unless it is gone. */
int registry_list_one(struct registry *r, const char *id, list_each *each, void *ctx,
		      struct err *e);

/* ---- what dead supervisors left, one sandbox at a time ---- */

/* The part of registry_gc() for one sandbox, for the list, which looks at each anyway. */

/* Clears what a dead supervisor left below run_dir; does nothing if it runs. Failures are ignored. */
void sweep_one(struct registry *r, const char *id);
/* Clears what an interrupted removal left below state_dir. */
void sweep_kept(struct registry *r, const char *id);

/* ---- the parent cgroups ---- */

/* Removes the parent cgroups once no sandbox is left. */

/*
 * Removes the parent cgroups of the configuration unless a sandbox exists or starts. A starting
 * sandbox counts because it joins the parent's own devices cgroup (hybrid), which has no child
 * that would prevent the removal.
 */
int parentclear(struct registry *r, struct err *e);

/* ---- the directory below run_dir ---- */

/*
 * The directory of a sandbox below run_dir, and the spare one.
 *
 * Making and removing a directory or a file is slow on some file systems (ext4 looks for an
 * inode that was not freed just now, and may discard the block). So the last directory removed
 * is kept for the next sandbox, with an empty record.json. A process that finds the spare locked
 * or with other content leaves it alone.
 */

/* Gives c->id its directory, locked: c->dir_fd.  ERR_EXISTS. */
int rundir_take(struct registry *r, struct claim *c, struct err *e);
/* Releases a directory of rundir_take(), or that of c->id without a descriptor. */
int rundir_put(struct registry *r, const struct claim *c, struct err *e);

#endif
