/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper - the small process that owns one running sandbox.
 *
 * It launches the sandbox, so the sandbox ends when the keeper dies (PDEATHSIG and socket hang-up
 * in init). It holds the lock in the registry, the cgroups, the terminals, the bounded output of
 * commands and all deadlines. CLI and daemon are its clients (wire.h), which may connect, die and
 * return.
 *
 * One thread, one poll loop. Data from init and the payload is hostile; requests of clients are
 * the operator's.
 */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_H
#define BERTH_MANAGER_KEEPER_KEEPER_H

#include <stdint.h>

#include "manager/host/registry.h"
#include "manager/host/restart.h"
#include "manager/keeper/health.h"
#include "manager/keeper/livebudget.h"
#include "runtime/sandbox/launch.h"

/* When a sandbox ends by itself, and what happens then. */
struct keeper_life {
	uint64_t idle_timeout_ms;	/* 0: never */
	uint64_t expires_ms;		/* when it is removed, on the wall clock; 0: never */
	int pause_at_end;		/* it is paused at expires_ms, and stays */
	int stop_at_end;		/* it is stopped at expires_ms, and stays */
	/* if it is paused, a request that needs it resumes it for this time; 0: none does */
	uint64_t resume_ttl_ms;
	int auto_remove;		/* remove it when it stops, for any reason */
	int remove_idle;		/* remove it when the idle timeout stops it */
	char owner[64];			/* the process that it serves, by its procid; "": none */
	uint64_t owner_grace_ms;	/* time between the end of that process and the sandbox's */
	struct livebudget budget;	/* over its life */
	struct livebudget budget_used;	/* used by earlier runs, except the network */
};

/* Writes the life into a record, for inspect and the next start. */
void keeper_life_tell(const struct keeper_life *l, json_t *record);

/* What requests call the main command of a service, in place of the id of a command. */
#define KEEPER_MAIN "main"
#define KEEPER_TERMINAL_MAX 10000	/* rows, and columns, of a terminal */

/*
 * The settings that make a sandbox a service: its main command is that of the spec, and the end of
 * that is the sandbox's (keeper_main.c).
 */
struct keeper_service {
	/* a text for a shell that must succeed before, at each start; NULL: none */
	const char *init_command;
	int tty, interactive;		/* its descriptors: a terminal; a stdin that stays open */
	uint64_t rows, cols;		/* of the terminal when it begins; 0: the keeper's own choice */
	int stop_signal;
	uint64_t stop_timeout_ms;	/* time from the stop signal to SIGKILL */
	uint64_t timeout_ms;		/* of the main command; 0: no limit */
	uint64_t max_silent_ms;		/* of the main command; 0: no limit */
	struct restart_policy restart;
	unsigned restarts;		/* restarts since the last start by hand */
	uint64_t backoff_ms;		/* wait before this start; 0: none */
	/* clients about to follow or wait for it: its end waits for them a while */
	unsigned awaited;
};

struct keeper_start {
	struct registry *registry;
	struct claim *claim;		/* passed on: the keeper releases it when it ends */
	struct spec *spec;	/* resident; stays valid in the forked child */
	struct launch_place where;
	json_t *record;			/* borrowed; saved as the record of a sandbox that stays, with the
					 * pids filled in */
	int hold_fd;			/* keeps the image from gc, or -1 */
	/* made just now: removed if the caller is killed before it knows the sandbox */
	int fresh;
	uint64_t output_head_bytes, output_tail_bytes;
	struct keeper_life life;
	struct health_spec health;	/* argv NULL: no check */
	const struct keeper_service *service;	/* NULL: it has no main command */
	int for_files;			/* it serves only clients that work on its files: see
					 * keeper_files.c */
	int home_fd;			/* a place in a zygote (zygote/home.h), or -1 */
	/* closes the volumes that were opened for it, once nothing uses them; NULL: none */
	void (*let_go)(void *ctx);
	void *let_go_ctx;		/* stays valid in the forked child */
};

/*
 * Forks the keeper and waits until its sandbox runs: 0, or -1 with the keeper's own error, and then
 * nothing of the sandbox is left. The caller keeps its descriptors.
 */
int keeper_spawn(const struct keeper_start *ks, struct err *e);

/*
 * Connects to the keeper of a running sandbox. ERR_NOT_FOUND with ESRCH if it does not run,
 * ERR_TIMEOUT if the keeper accepts no connection within KEEPER_CONNECT_MS: it is stopped.
 */
int keeper_connect(struct registry *r, const char *id, struct err *e);
/*
 * Sets the reason why the sandbox of this id, which does not run, cannot be reached, and a hint;
 * returns -1.
 */
int keeper_not_running(struct registry *r, const char *id, struct err *e);
int keeper_connect_within(struct registry *r, const char *id, unsigned ms, struct err *e);
#define KEEPER_CONNECT_MS 10000
#define KEEPER_SOCKET "sock"	/* in the run directory of the sandbox */
/* Tells whether the running sandbox belongs to a berth run, which has no keeper. */
int keeper_is_run(struct registry *r, const char *id);
#define KEEPER_KILLED_FILE "killed"	/* file beside the record of a running sandbox: its berth run shall
					 * report that it was killed */
/*
 * Ends a keeper that does not answer: SIGKILL, which ends its sandbox, and removal of its
 * leftovers. For a berth run it kills everything in the sandbox, and the run reports that.
 */
int keeper_kill(struct registry *r, const char *id, struct err *e);
/* How a sandbox is stopped; all zero means at once. */
struct stop_request {
	int own_grace; /* use the sandbox's own grace instead of grace_ms */
	uint64_t grace_ms;
	uint64_t drain_ms; /* before the stop, wait at most so long for operations that asked for it (those
			    * of berthd) */
	uint64_t signo;	   /* instead of its stop signal; 0: that signal */
	int stays;	   /* it is started again at once, so --auto-remove does not count */
};
#define KEEPER_GRACE_MAX_MS 86400000
#define KEEPER_STUCK_MS 5000 /* time in which a killing keeper must answer */

/* Makes the request that asks a keeper to stop, a new reference; and tells how long its answer may take. */
json_t *keeper_stop_request(const struct stop_request *how);
int keeper_stop_wait_ms(const struct stop_request *how);
/*
 * Asks the keeper of sock to stop, and waits until it has closed the connection, which is its last
 * act: then nothing of the sandbox runs.
 */
int keeper_ask_to_stop(int sock, const struct stop_request *how, struct err *e);

/*
 * For a start: what the sandbox does.  KEEPER_ENDS: a stop is under way, or it has ended, though
 * something of it is still there; KEEPER_FAILS: an error, such as ERR_TIMEOUT when its keeper does
 * not answer within KEEPER_STUCK_MS.  ret_sock, unless NULL, receives the connection to a keeper that
 * ends (-1: none).
 */
enum keeper_doing { KEEPER_FAILS = -1, KEEPER_RUNS, KEEPER_PAUSED, KEEPER_ENDS };
enum keeper_doing keeper_ask_doing(struct registry *r, const char *id, int *ret_sock, struct err *e);
/*
 * Waits for a stop before a start: 0 if the sandbox runs and no stop is under way; 1 if it has
 * ended, after at most ms; ERR_BUSY if a stop takes longer.
 */
int keeper_await_stop(struct registry *r, const char *id, int ms, struct err *e);

/*
 * Sends one request and receives one answer, which is checked for an error: a new reference or
 * NULL. fds are sent along; ret_fd, unless NULL, receives one descriptor of the answer (-1: none).
 */
json_t *keeper_call(int sock, json_t *request, const int *fds, size_t count, int *ret_fd, struct err *e);
/* The second half of keeper_call(), for a request that wire_request() has sent. */
json_t *keeper_take_answer(int sock, int *ret_fd, struct err *e);

/* ---- the guardian ---- */

/*
 * guardian - the parent of a keeper whose sandbox has a restart policy.
 *
 * It is the process between the caller and the keeper; without a policy it ends at once. Once the
 * caller was told that the sandbox runs, it becomes the small program of "berth guard", with no
 * descriptors, in a session of its own, and waits for the keeper's end.
 */

/*
 * Waits until the keeper, our child, reports at go_fd, and becomes the guardian of sandbox id;
 * ends if the keeper ends before. backoff_ms: the wait before this start, or 0.
 */
void guardian_become(const char *id, uint64_t backoff_ms, int go_fd) __attribute__((noreturn));
/*
 * Executes berth anew as "berth guard" and the words that follow, up to NULL; returns only on
 * failure.
 */
void guardian_exec(const char *word, ...) __attribute__((sentinel));

#endif
