/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the service; no other file includes it. */
#ifndef BERTH_MANAGER_SERVICE_STATE_H
#define BERTH_MANAGER_SERVICE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/histogram.h"
#include "manager/host/conf.h"
#include "manager/host/registry.h"
#include "manager/ledger/ledger.h"
#include "manager/service/admission.h"
#include "manager/service/createargs.h"
#include "manager/service/records.h"
#include "manager/service/service.h"

#define NAME_PREFIX "sandbox-"
#define CTX_MAX 256	/* bytes of a session's id */
/*
 * The name of a session: OWNER/ID. Each owner has a namespace of ids of its own. An owner's name
 * (path_is_name()) has no slash, so no two sessions have one name.
 */
#define SESSION_MAX (64 + 1 + CTX_MAX)
#define CLAIMS_KEPT 256	/* recent claims whose duration is kept, for the median */

struct beat;
struct image;
struct tools;
struct owners;
struct storage;
struct place;

struct service {
	struct config config;		/* as at start */
	char host[65];			/* name of this berthd among those that share the store */
	pthread_rwlock_t conf_lock;	/* guards the next two, which a reload changes */
	struct conf conf;
	uint64_t cleanup_interval_ms;
	char berth_path[4096];
	/* name of our state directory; decides which sandboxes are ours (home.c) */
	char home[33];
	int home_fd;			/* its lock, held as long as this process runs */
	char machine[40];		/* boot id; decides which sandboxes we can reach */
	struct ledger *ledger;
	struct oplocks *ops;
	struct admission admission;
	struct storage *storage;	/* NULL: none */
	struct registry registry;	/* its lock is not used: threads must not share it (tenancy_open()) */
	struct tools *tools;
	struct owners *owners;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	int stopping, poked;
	pthread_t scanner, filler;
	uint64_t over_looked_ms;	/* for the scanner: when it last looked at the records that are
					 * over */
	int threads;
	struct beat *beats;
	struct place *places;
	struct chore *chores;		/* guarded by lock: chores under way */
	struct archive_turn *archive_turns;	/* the same */
	struct absent *absent;		/* guarded by lock: dead berthds */
	struct session_lock *session_locks;	/* guarded by lock: the locks of sessions that we hold */
	_Atomic int stored_looked;	/* stored_look() has nothing to do */
	_Atomic int told_unbounded;	/* it was logged that nothing bounds workspaces */
	char fill_error[600];
	enum { STORAGE_UNKNOWN, STORAGE_ANSWERS, STORAGE_FAILS } storage_state;	/* guarded by lock, with the next two */
	uint64_t storage_looked_ms;	/* on the monotonic clock */
	struct err storage_error;
	uint32_t claim_last_us[CLAIMS_KEPT];	/* guarded by lock; the newest at claims_noted % CLAIMS_KEPT */
	size_t claims_noted;
	struct histogram claim_took;
	uint64_t started_ms;		/* wall clock */

	_Atomic uint64_t created, released, claimed, claim_missed, reaped, restored, archived, failed, adopted;
};

/* ---- open.c ---- */

/* Counts and logs a failure: the action on the sandbox of that name, and the reason. */
void service_failed(struct service *s, const char *what, const char *name, const struct err *why);

/* ---- scan.c: chores, in threads of their own ---- */

typedef void chore_fn(struct service *s, const char *name);
/*
 * Runs work(s, name) in a thread of its own; not if the same work is under way, nor if too many
 * are, or too many of the tenant: the next scan tries again.
 */
void chore_begin(struct service *s, chore_fn *work, const char *name, const char *tenant);
/* Waits until none is under way; once the service is stopping, no new one begins. */
void chores_wait(struct service *s);

/* ---- home.c ---- */

/* Reads the name of our home, made if it is missing, and the boot id; dir is state_dir/manager. */
int home_open(struct service *s, int dir, struct err *e);
/* Returns 1 if the sandbox belongs to this berthd's state directory, also after a reboot. */
int record_is_ours(const struct service *s, const struct record *r);
/* Returns 1 if it is on another machine; an archived sandbox is on none. */
int record_is_elsewhere(const struct service *s, const struct record *r);
/* ERR_ELSEWHERE with the host's name when it is elsewhere. */
/*
 * Returns 1 if we may reap the sessions of that sandbox: it is ours, or it is on this machine and
 * its berthd has been dead for timeout_ms, in which its clients could have found another.
 */
int home_minds(struct service *s, const struct record *r, uint64_t timeout_ms);
void home_free(struct service *s);
int home_check(const struct service *s, const struct record *r, struct err *e);
/* Makes the sandbox ours. */
void record_set_home(const struct service *s, struct record *r);
/*
 * Removes the remains of a sandbox of ours that the store calls released or reaped: 1 if there were
 * any.
 */
int home_clear_over(struct service *s, const struct record *r, struct err *e);

/* ---- check.c ---- */

/* Reads a secret of one line from such a file; "" if path is "". */
int service_read_secret(const char *path, char *out, size_t n, struct err *e);
/* Does conf_load(), and the checks that need files and the berth program. */
int service_load_conf(struct conf *ret, const struct config *c, const char *berth_path, struct err *e);

/* ---- driver.c: real sandboxes ---- */

/*
 * Removes everything of a sandbox that was never acknowledged, once no other process adds to it.
 */
int service_undo(struct service *s, struct record *r, struct err *e);
/* Runs berth with the call; stdout goes to out. */
int driver_berth(struct service *s, json_t *call, struct buf *out, struct err *e);
/* As driver_berth(), for a program at berth_path. */
int driver_run(const char *berth_path, json_t *call, struct buf *out, struct err *e);
/*
 * Declares that an operation is under way while sock is open: a stop in this process or another
 * waits for it.
 */
int driver_guard(int sock, struct err *e);
int driver_connect(struct service *s, const struct record *r, struct err *e);
/* Returns the keeper's state, or NULL with ERR_NOT_FOUND if it does not run. */
json_t *driver_ping(struct service *s, const struct record *r, struct err *e);
/*
 * Adds options ([["name", "value"], ...]) to those of each later start; mount_dir, unless NULL, is
 * the directory at /workspace from now on.
 */
int driver_remember(struct service *s, const struct record *r, json_t *options, const char *mount_dir, struct err *e);
int driver_stop(struct service *s, const struct record *r, struct err *e);
int driver_start(struct service *s, const struct record *r, struct err *e);
/* Stops and removes it; a missing sandbox is no error. */
int driver_remove(struct service *s, const struct record *r, struct err *e);
/* Returns 0 if nothing of it is on this host any more, because berth rm removed it. */
int driver_exists(struct service *s, const char *id);
/* Removes it by name, for a record that has no id yet. */
int driver_remove_name(struct service *s, const char *name, struct err *e);

/* ---- session.c ---- */

int session_check_ctx(const char *ctx, struct err *e);
/* Makes the name of owner's session ctx; ERR_INVALID if ctx is too long. */
int session_name(char out[SESSION_MAX + 1], const char *owner, const char *ctx, struct err *e);
/* Returns the session's id in its name. */
const char *session_ctx(const char *session);
/* Gives the name of the record's session: 1, 0 if it has none (out is ""), -1. */
int session_of(const struct record *r, char out[SESSION_MAX + 1], struct err *e);
/*
 * Writes record r and adds its name to, or removes it from, the mapping of its session, in one
 * batch; repeats that if another process changed the mapping in between. For a record with a
 * session.
 */
int session_bind(struct service *s, struct record *r, const struct ledger_op *more, size_t n, struct err *e);
int session_unbind(struct service *s, struct record *r, struct err *e);
/* Locks the session, so that no other thread or process reaps or restores it; ERR_BUSY while another does. */
int session_try_lock(struct service *s, const char *session, uint64_t *ret_token, struct err *e);
/* Extends our locks by two minutes; call it more often than that. */
void session_renew_locks(struct service *s);
/* As session_try_lock(), but waits while another holds the lock. */
int session_lock(struct service *s, const char *session, uint64_t *ret_token, struct err *e);
void session_unlock(struct service *s, const char *session, uint64_t token);
/* Notes a sign of life; written to the store now and then. */
int session_touch(struct service *s, const char *session, struct err *e);
uint64_t session_last_ms(struct service *s, const char *session, struct err *e);
/* Reads a session from the store: 1 with *ret, 0 if there is none. */
int session_load_map(struct service *s, const char *session, json_t **ret, uint64_t *ret_version,
		     struct err *e);
/*
 * Finds the session that who means by an id: who's own, or if an administrator has none, another
 * owner's. ERR_NOT_FOUND, ERR_INVALID if several others have one.
 */
int session_find(struct service *s, const struct service_who *who, const char *ctx, char out[SESSION_MAX + 1], struct err *e);
/* Makes recycled sandboxes of the session again, with what they had. */
int session_restore(struct service *s, const char *session, struct err *e);
void sessions_free(struct service *s);

/* ---- session.c: sessions of an older berth ---- */

/*
 * Renames the sessions of an older berth in the store, whose keys have no owner. Also called by
 * each scan, because a berthd that shares the store may be older.
 */
int sessions_move(struct service *s, struct err *e);

/* ---- reap.c ---- */

/* Begins to reap a session whose owner has ended, and forgets the owner when that is done. */
void session_reap_owned(struct service *s, const char *session);
/* Begins to reap the session if it is late: timeout_ms after its last sign of life, unless that is 0. */
void session_look(struct service *s, const char *session, uint64_t timeout_ms);

/* ---- scan.c ---- */

/* Archives or releases a sandbox that was stopped for a time; the exclusive lock keeps it stopped. */
enum due { DUE_ARCHIVE, DUE_DELETE };
int session_is_due(struct service *s, const struct record *r, enum due what);
/*
 * Reaps sessions that timed out; stops, archives and deletes sandboxes that are due; collects
 * released records.
 */
void session_scan(struct service *s);
/* Runs the thread that scans each scan_interval, until the service stops. */
void *scan_loop(void *service);

/* ---- open.c: whether the stores answer ---- */

/* Begins to ask the object store whether it can be used, if it is time. */
void ready_look(struct service *s);

/* ---- owner.c ---- */

struct owners *owners_new(struct err *e);
int owners_start(struct service *s, struct err *e);
void owners_stop(struct service *s);
void owners_free(struct owners *w);
/* Makes a name that identifies process pid for ever; ERR_INVALID if there is no such process. */
int owner_name(int pid, char ret[64], struct err *e);
/*
 * Makes the session be reaped when the process of that name ends, also after this berthd has been
 * restarted.
 */
int owner_watch(struct service *s, const char *session, const char *name, struct err *e);
void owner_forget(struct service *s, const char *session);
/* Watches owners that another berthd of this machine, or an earlier one, has recorded. */
void owners_look(struct service *s);

/* ---- scan.c: when a sandbox is due ---- */

/*
 * Checks "auto_stop", "auto_archive" and "auto_delete" of a request: "15m" or seconds, 0: never,
 * null: the value of [session].
 */
int interval_check(const json_t *args, struct err *e);
int interval_note(struct record *r, const json_t *args, struct err *e);
void interval_inherit(struct record *to, const struct record *from);
struct intervals {
	uint64_t stop_ms, archive_ms, delete_ms;	/* 0: never */
};
/* Returns the record's intervals, or else those of c. */
struct intervals interval_of(const struct record *r, const struct conf *c);

/* ---- pool.c ---- */

struct making;
/* Claims a warm sandbox of the pool for this request: 1 with r, 0 if there is none. */
int pool_claim(struct service *s, const struct making *m, struct record *r, struct err *e);
/* Makes the key of the list of a type's warm sandboxes on a machine (boot id). */
void pool_list_key(const char *machine, const char *type, char out[LEDGER_KEY_MAX + 1]);
void *pool_filler(void *arg);
void pool_poke(struct service *s);

/* ---- create.c ---- */

#define WORK_DIR "/workspace"	/* the workspace's place in the sandbox */
#define WORK_WORDS ":rw,replaceable"	/* its mount options: a workspace that comes back from the storage
					 * is a new directory */

struct making {
	const struct service_who *who;
	const struct conf_pool *pool;
	const json_t *args;		/* may be NULL */
	const char *mount_dir, *storage_path, *ctx;	/* or NULL */
	char tenants_path[1000];	/* a storage_path given by a tenant */
	int inherit_workspace;		/* we made mount_dir for an earlier sandbox of the session */
	int warm;
	int wait;			/* wait in the queue of admission */
	struct createargs what;		/* set by chosen_read() */
	int chosen;			/* args give a part of what, not the pool */
};
/* Checks that the client is still connected: ERR_NET if not, because the new sandbox would have no owner. */
int service_check_asker(const struct service_who *who, struct err *e);
/* Makes a sandbox; ret->j is its record, running or warm. */
int service_make(struct service *s, const struct making *m, struct record *ret, struct err *e);
/* Calls each for each NAME=VALUE of args' environment. */
int service_each_env(const json_t *args, int (*each)(void *ctx, const char *text, struct err *e), void *ctx, struct err *e);
/* Gives the limits of a request, also from its options, or the pool's. */
int service_limits(const json_t *args, const struct conf_pool *p, uint64_t *ret_memory, uint64_t *ret_cpu, struct err *e);

/* ---- release.c ---- */

struct release {
	uint64_t drain_ms;
	int discard;
	int if_due;	/* no client asked: see DUE_DELETE */
	int was_warm;
};
/*
 * Removes the sandbox of a record and marks it released; r is loaded anew. The lock of its session
 * is held meanwhile.
 */
int release_locked(struct service *s, struct record *r, struct release how, struct err *e);
/* As release_locked(), without a client. */
int service_release_record(struct service *s, struct record *r, uint64_t drain_ms, struct err *e);
/* Archives the stopped sandbox of that name, if it still is due and not in use: ERR_BUSY. */
int service_archive_due(struct service *s, const char *name, struct err *e);
int service_delete_due(struct service *s, const char *name, struct err *e);
/*
 * Notes that it could not be stored: an automatic retry waits FAILED_MS. After a refusal
 * (ERR_LIMIT, ERR_INVALID) only a use of the sandbox can help: the retry waits for that, or
 * REFUSED_MS.
 */
void service_note_failed(struct service *s, const char *name, const struct err *why);
#define FAILED_MS 30000
#define REFUSED_MS 3600000
/* Releases a sandbox that was removed by hand, if it still is missing. */
int service_release_gone(struct service *s, const char *name, struct err *e);

/* ---- pool.c: types with a zygote ---- */

/* Puts the image and the limits of the type's zygote into p, as far as that runs. */
void zygotetype_settle(struct service *s, struct conf_pool *p);
/* Refuses a request for options that the type's zygote has decided: ERR_INVALID. */
int zygotetype_check(const struct conf_pool *p, const json_t *args, struct err *e);
/* Implements service_pool_version() for such a type; hash: of its section. */
int zygotetype_version(struct service *s, const struct conf_pool *p, const char *made,
		       uint64_t hash, char ret[160], struct err *e);
/* Gives the user with which the zygote was made; ret is unchanged if none was given. */
int zygotetype_user(struct service *s, const struct conf_pool *p, char ret[128], struct err *e);

/* ---- pool.c: types ---- */

/* Copies the pool of that name, or the first for NULL and "". */
int conf_pool_copy(struct service *s, const char *name, struct conf_pool *ret, size_t *ret_index, struct err *e);
/*
 * Gives the version of a pool's sandboxes: the parts of the sandbox with id made, or (NULL) of a
 * new one.
 */
int service_pool_version(struct service *s, const struct conf_pool *p, const char *made, char ret[160], struct err *e);
/* Returns 0 if the pool's sandboxes are made from the host, or from a directory. */
int service_pool_has_image(const struct conf_pool *p);
/* Gives the parts of the sandbox with id made, or (NULL) of a new one. */
int service_pool_image(struct service *s, const struct conf_pool *p, const char *made, struct image *ret, struct err *e);

/* ---- service.c ---- */

/*
 * Notes that a sandbox was seen to have stopped by itself; ERR_BUSY while an operation is under
 * way, which has started it again.
 */
int service_note_stopped(struct service *s, const char *name, struct err *e);
/* Stops it if no operation was under way for idle_ms; ERR_BUSY while one is. */
int service_stop_idle(struct service *s, const char *name, uint64_t idle_ms, struct err *e);

/* ---- createargs.c: what the record keeps of a request ---- */

/*
 * Sets m->pool, m->what and m->chosen. pool is the maker's copy, which gets the image that m->args
 * names. ERR_INVALID, ERR_DENIED as createargs_read().
 */
int chosen_read(struct making *m, struct conf_pool *pool, struct err *e);
/* Records it in the record that is made for m. ERR_LIMIT. */
int chosen_note(struct record *r, const struct making *m, struct err *e);
/* Adds the choices for an earlier sandbox to the arguments for the next. */
void chosen_add(json_t *args, const struct record *from);
/* Returns the chosen user, or NULL. */
const char *chosen_user(const struct record *r);
/* Returns when its image may be fetched: "never" for one that a tenant chose. */
const char *chosen_pull(const struct record *r, const struct conf_pool *pool);

/* ---- given.c ---- */

/* Finds the record that has that given name: 1 with its name, 0 if none has. */
int given_find(struct service *s, const char *given, char ret[65], struct err *e);
/* Notes the "name" of a request in the record that is made for it. */
void given_note(struct record *r, const json_t *args);
/* Names the sandbox and its record; ERR_EXISTS if another record than from has the name. */
int given_take(struct service *s, const struct record *r, const char *given, const char *from, struct err *e);
/* Gives the new sandbox the name of the old after a restore, unless another has it by now. */
void given_inherit(struct service *s, struct record *to, const struct record *from);
/* Drops the record's given name, if it still belongs to the record. */
void given_drop(struct service *s, const struct record *r);

/* ---- places.c ---- */

/*
 * The shares of admission, by sandbox name. places_check() drops the place of a sandbox whose
 * record is gone or over; a sandbox that is being made has no record at first, and is skipped until
 * place_made().
 */
/*
 * As admission_enter(), for a sandbox that is about to be made. On error nothing is taken
 * (ERR_NOMEM too).
 */
int place_enter(struct service *s, const char *name, uint64_t memory_bytes, uint64_t cpu_milli, const struct admission_asker *asker,
		struct err *e);
/*
 * Takes a place for the sandbox with this id that an earlier berthd made, also beyond the limits.
 * ERR_NOMEM is the only error.
 */
int place_take_over(struct service *s, const char *name, const char *id, uint64_t memory_bytes, uint64_t cpu_milli, struct err *e);
/* Notes that the sandbox exists now, and has this id. */
void place_made(struct service *s, const char *name, const char *id);
/*
 * Notes that it has stopped, or is about to run again: max_sandboxes counts running ones. The
 * latter waits for room, ERR_LIMIT.
 */
void place_stopped(struct service *s, const char *name);
int place_starts(struct service *s, const char *name, struct err *e);
/* Notes that it was seen to run, because another process has started it; also beyond the limit. */
void place_runs(struct service *s, const char *name);
void place_drop(struct service *s, const char *name);
int place_has(struct service *s, const char *name);
/*
 * Changes the limits of a sandbox with a place here: ERR_LIMIT if the difference does not fit; e
 * NULL: no check.
 */
int place_change(struct service *s, const char *name, uint64_t memory_bytes, uint64_t cpu_milli, struct err *e);
void places_check(struct service *s);
void places_free(struct service *s);

/* ---- tenancy.c ---- */

/*
 * Checks that who may make a sandbox: ERR_LIMIT if args (NULL: none) exceed the limits of a
 * tenant's sandbox, or the tenant has too many. Only tenants have limits.
 */
int tenancy_check(struct service *s, const struct service_who *who, const json_t *args, uint64_t memory_bytes, uint64_t cpu_milli,
		  struct err *e);
/*
 * Records that a new sandbox belongs to who, with these limits, for the sums. ERR_LIMIT; the check
 * is exact.
 */
int tenancy_promise(struct service *s, const struct service_who *who, const struct record *r, uint64_t memory_bytes, uint64_t cpu_milli,
		    struct err *e);
/*
 * Gives the promise for the record's sandbox when it is restored; and tells whether it belongs to a
 * tenant.
 */
int tenancy_of_record(struct service *s, const struct record *r, struct promise *ret, struct err *e);
int tenancy_is_tenants(const struct record *r);
/* Removes from a refusal of admission what it would reveal to a tenant about others. */
void tenancy_blunt(const struct service_who *who, struct err *e);
/* Tells whether [tenant] limits who. */
int tenancy_is_tenant(const struct service_who *who);
/*
 * Opens the registry with only the sums of [tenant] in force: admission.h checks the others itself,
 * and has a queue. c: storage of the caller. All but its lock is the service's own registry, so
 * tenancy_close() closes it.
 */
int tenancy_open(struct service *s, struct config *c, struct registry *ret, struct err *e);
void tenancy_close(struct registry *r);

/* ---- workspace.c ---- */

/* Makes the path of the workspace for a new session id. */
void workspace_path(struct service *s, const char *session_id, char ret[512]);
/* Makes the workspace that the record names. */
int workspace_make(struct service *s, const struct record *r, struct err *e);
/*
 * Gives the workspace to the user of the new sandbox, if we made it and it belongs to root. Only
 * numeric users, because names are known in the sandbox alone.
 */
int workspace_give(struct service *s, const struct record *r, const struct conf_pool *p, struct err *e);
int workspace_remove(struct service *s, const struct record *r, struct err *e);
/*
 * Removes the workspace of a warm sandbox whose owner brought a directory (mount_dir); the record
 * names it until then.
 */
int workspace_remove_spare(struct record *r, struct err *e);
/* Makes sure before a restore that the workspace exists, from the storage if needed. */
int workspace_revive(struct service *s, const struct record *r, struct err *e);
int workspace_upload(struct service *s, const struct record *r, struct err *e);
int workspace_download(struct service *s, const char *storage_path, const char *dir, struct err *e);
/*
 * Opens the directory above a workspace that we made, and gives its name there: only such a
 * workspace is ever removed.
 */
int workspace_open_above(const struct record *r, const char **ret_name, struct err *e);
/* Opens the workspace; ERR_NOT_FOUND if it is missing. */
int workspace_open(const struct record *r, struct err *e);

/* ---- tenancy.c: bytes of workspaces ---- */

/*
 * Makes the empty workspace that the record names count in its tenant's limit: [tenant]
 * workspace_bytes, else a tenth of the file system if that can be enforced. ERR_UNSUPPORTED if a
 * maximum is configured that cannot be enforced; does nothing for a sandbox that is not a tenant's.
 */
int workspace_bound(struct service *s, const struct record *r, struct err *e);
/* Checks the configuration: ERR_UNSUPPORTED if it bounds workspaces and their file system cannot. */
int workspace_check_bound(const struct conf *conf, struct err *e);

/* ---- tenancy.c: archives ---- */

struct archive_turn {
	struct archive_turn *next;
	char owner[65];
};

/*
 * Call it before r is archived. ERR_LIMIT: its tenant has the most archives that it may have. 0:
 * archive_share_leave() must follow.
 */
int archive_share_enter(struct service *s, const struct record *r, struct archive_turn *t,
			struct err *e);
void archive_share_leave(struct service *s, struct archive_turn *t);

/* ---- archive.c ---- */

int archive_make(struct service *s, struct record *r, struct err *e);
/* Brings it back to this host, to which it belongs from then on, whichever host archived it. */
int archive_restore(struct service *s, struct record *r, struct err *e);
/* Removes it from the storage; anyway: continues after errors. */
int archive_drop(struct service *s, struct record *r, int anyway, struct err *e);
/* Removes data kept here for archives that another host has by now, or none. */
void archives_look(struct service *s);

/* ---- tools.c ---- */

struct tools *tools_new(struct err *e);
void tools_free(struct tools *t);
/* Ends those that were unused for idle_ms. */
void tools_expire(struct service *s, uint64_t idle_ms);
/* Ends its kernels and servers; the servers start again at their next use. */
void tools_forget(struct service *s, const char *name);

/* ---- mcp.c: the program of a server ---- */

/*
 * Returns the command for a server of this configuration, {"command", "args"} or {"url", "headers",
 * "type"}: an array of words; secrets go to env instead. ERR_INVALID and ERR_UNSUPPORTED for a
 * malformed configuration.
 */
json_t *mcp_argv(const json_t *config, json_t *env, struct err *e);

/* ---- mcp.c ---- */

/*
 * Adds the server to the sandbox; only_look: only tells whether it could be added. ERR_LIMIT if
 * there are too many.
 */
int mcp_remember(struct service *s, const char *sandbox, const char *server, const json_t *config, int only_look, struct err *e);
/* Returns the sandbox's servers: name -> configuration, a new reference. */
json_t *mcp_servers(struct service *s, const char *sandbox, struct err *e);
void mcp_inherit(struct record *to, const struct record *from);
/* Hides the servers' environment from readers of a record. */
void mcp_hide(struct record *r);

#endif
