/* SPDX-License-Identifier: Apache-2.0 */
/* client - has a fork of a zygote run a piece of code. */
#ifndef BERTH_MANAGER_ZYGOTE_CLIENT_H
#define BERTH_MANAGER_ZYGOTE_CLIENT_H

#include "base/buf.h"
#include "base/json.h"
#include "manager/host/registry.h"
#include "runtime/sandbox/graft.h"
#include "runtime/sandbox/spec.h"

#define ZYGOTE_WORKDIR "/workspace" /* of a request that names none */
#define ZYGOTE_WAIT_MS 30000	    /* for a fork that is free, in a request that says no other time */

enum zygote_answer_type { ZYGOTE_TAKEN = 1, ZYGOTE_FAILED, ZYGOTE_VERDICT };

struct zygote_request {
	const char *zygote; /* name or id */
	const char *cwd;    /* absolute in the sandbox */
	const char *name;   /* of the code, in a traceback */
	const char *code;
	size_t code_len;
	const json_t *env; /* array of NAME=VALUE; may be NULL */
	char *const *argv; /* arguments of the code */
	size_t argc;
	uint64_t timeout_ms; /* UINT64_MAX: as the zygote was made */
	uint64_t wait_ms;    /* of zygote_run(), for a fork that is free */
};

/*
 * Runs it with std as its descriptors 0 to 2.  Signals that signal_fd brings go to the fork.  0
 * with the verdict as JSON and the exit status of a command line, also when the code failed.
 * ERR_BUSY when no fork was free for wait_ms.  Those that wait get one in the order in which they came.
 */
int zygote_run(struct registry *r, const struct zygote_request *q, const int std[3], int signal_fd,
	       struct buf *ret_verdict, int *ret_status, struct err *e);
/*
 * Its parts.  Sends the request and returns a socket that does not block, whose end is the fork's
 * end, too.  ERR_BUSY when too many others wait there.
 */
int zygote_ask_for(struct registry *r, const struct zygote_request *q, const int std[3],
		   struct err *e);
/*
 * The same for the request rq of a program: "code" (text, hex or base64), and optionally "args",
 * "env", "workdir", "timeout_ms", whose types were checked.
 */
int zygote_ask_json(struct registry *r, const char *zygote, const json_t *rq, const int std[3],
		    struct err *e);
/* ERR_BUSY: the words for a client that has waited so long. */
int zygote_busy(const char *zygote, uint64_t waited_ms, struct err *e);
/*
 * The next packet of that socket: ZYGOTE_TAKEN; ZYGOTE_VERDICT with both results; 0, nothing yet;
 * -1 with the reason why the fork did not run.
 */
int zygote_hear(int sock, int *ret_status, struct buf *ret_verdict, struct err *e);
/* SIGKILL to the fork. */
void zygote_kill(int sock);
/* The file with a request that agent.py reads; the caller closes it. */
int zygote_request_file(const struct zygote_request *q, struct err *e);
/* A connection to a socket in the directory of the zygote ref; ERR_NOT_FOUND: it has ended. */
int zygote_connect(int dir_fd, const char *name, int flags, const char *ref, struct err *e);
/* The directory of a zygote that lives: ERR_INVALID for another sandbox. */
int zygote_open(struct registry *r, const char *ref, char ret_id[65], struct err *e);

/* ---- a place in a zygote ---- */

/*
 * A place in a zygote for a sandbox that takes a fork of it.
 *
 * The supervisor of the zygote (cli/zygote/zygote.h) owns the places: each is a range of ids that
 * the zygote's user namespace maps, and whoever has one asks the supervisor for forks.  A branch is
 * a child of the supervisor and has its place from birth.  The keeper of a sandbox that lives takes
 * one at ZYGOTE_HOME, and has it as long as it keeps the socket.
 */

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
