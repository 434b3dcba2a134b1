/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zygote - an interpreter that has loaded what it needs and waits, and its forks.
 *
 * Processes.  "berth zygote create" leaves one supervisor (serve.c): it holds the zygote's
 * sandbox, is the only one that traces the zygote's process, and starts branches.  A branch
 * (branch.c) is a child of it that supervises one fork from its sandbox's making to its verdict,
 * as `berth run` does.  It makes the sandbox, has the supervisor graft a fork into it
 * (runtime/sandbox/graft.h), waits for a client at the zygote's socket, hands it to the fork, and
 * ends with it.  When the zygote ends, the kernel kills its forks: their pid namespaces are
 * inside its own.
 *
 * An interpreter that cannot be forked, as node, is started anew by each branch instead, and runs
 * the preload there (interpreter.c).  Nothing but berth-init runs in the zygote's own sandbox then.
 *
 * In the zygote's run_dir/sandboxes/ID: FILE, and SOCKET, at which branches accept.
 */
#ifndef BERTH_CLI_ZYGOTE_ZYGOTE_H
#define BERTH_CLI_ZYGOTE_ZYGOTE_H

#include "cli/run/imageuse.h"
#include "cli/run/volumes.h"
#include "cli/zygote/interpreter.h"
#include "manager/host/registry.h"
#include "manager/host/tenant.h"
#include "manager/ops/runopts.h"
#include "manager/zygote/client.h"
#include "manager/zygote/wire.h"
#include "runtime/sandbox/graft.h"
#include "runtime/sandbox/launch.h"

#define ZYGOTE_POOL 1
#define ZYGOTE_FORKS 32
#define ZYGOTE_PRELOAD_MS 60000

enum branch_state { BRANCH_NONE, BRANCH_MAKING, BRANCH_IDLE, BRANCH_BUSY };

/* One of the zygote's places. */
struct branch {
	enum branch_state state;
	pid_t pid;       /* 0: the keeper of a sandbox that lives has the place (home.h) */
	int pidfd, sock; /* to it; pidfd -1: a keeper's */
};

/* How a sandbox of the zygote gets its interpreter. */
enum zygote_mode { ZYGOTE_FORK, ZYGOTE_AHEAD };

struct zygote {
	enum zygote_mode mode;
	const char *interpreter; /* as it was given */
	struct config config;
	struct runopts opts;
	struct registry registry;
	struct imageuse image;
	struct claim claim;
	struct promise promise;
	struct spec spec;       /* of the zygote itself: opts.spec without a network */
	struct volumes volumes; /* of its own sandbox */
	struct sandbox sandbox;
	struct graft_stock stock;
	int disk_fd;
	const char *image_ref;
	const char *tenant;	/* of berthd, to whom it is to belong; NULL: nobody */
	struct tenant limits;	/* of that one */
	struct config defaults; /* of its sandboxes, within those */
	json_t *image_spec;	/* keeps image_ref */
	int told;		/* whom we tell that it waits; -1: nobody any more */
	json_t *command; /* as it was given */
	json_t *options, *seccomp; /* of sandboxes that live, as their spec.json has them */
	json_t *noted;		/* the options, and the identities of the directories that they mount (manager/ops/settleopt.h) */
	unsigned pool, max, at_once;
	struct preload preload; /* of a branch when each has its own */
	int *json;              /* create's option */
	int in_fd;              /* our end of its stdin */
	int listen_fd, home_fd; /* ZYGOTE_SOCKET, ZYGOTE_HOME */
	uint64_t next_try_ms; /* after a branch failed: not before */
	unsigned failures; /* forks in a row that could not be made */
	struct claim inner[SPEC_INNER_MAX];
	uint32_t inner_base[SPEC_INNER_MAX];
	struct branch branch[SPEC_INNER_MAX];
};

/* cmd_zygote.c: z->tenant, before the options are read: its limits, and defaults within them. */
int zygote_tenant_open(struct zygote *z, struct err *e);
/* Opens the image of z->image_ref, if the tenant sees it. */
int zygote_tenant_image(struct zygote *z, struct err *e);
/* Sets z->promise from the options, which the tenant's limits must allow. */
int zygote_tenant_promise(struct zygote *z, struct err *e);
/* From a branch whose interpreter did not come to wait, before it ends. */
struct branch_failure {
	uint32_t word; /* 0 */
	struct err err;
	uint32_t output_len;
	char output[8192]; /* of the preload */
};

/* Makes the zygote and returns when it waits; the supervisor lives on. */
int zygote_start(struct zygote *z, char ret_id[65], struct err *e);
/* The supervisor's: makes the sandbox, and returns when its preload is done and it can be forked.
 */
int zygote_make(struct zygote *z, struct err *e);
/* What the sandbox in slot i is born inside of; its descriptors stay -1. */
struct spec_inside zygote_inside(const struct zygote *z, size_t i);
/* A client of ZYGOTE_HOME gets a free slot, or hears why not. */
void zygote_accept_home(struct zygote *z);
/* A new branch in slot i. */
int branch_start(struct zygote *z, size_t i, struct err *e);
/*
 * Of ZYGOTE_AHEAD.  The supervisor's: starts the first branch, and returns when it waits for code.
 */
int ahead_try(struct zygote *z, struct err *e);
/*
 * A branch's: starts the interpreter in its sandbox, and returns when it waits for code.
 * *ret_control is our end of the socket on which the code is sent.
 */
int ahead_start(struct zygote *z, struct sandbox *sandbox, int supervisor, int *ret_control,
		struct err *e);
/* A branch's: why it ends without one. */
void ahead_tell(const struct zygote *z, int supervisor, const struct err *why);

/* The most words of a zygote's command, those of its agent too. */
#define ZYGOTE_WORDS 256
/*
 * What runs as the zygote's command, of the command that was given: its interpreter, which is
 * recognised by its name, with an agent.  Sets mode and interpreter.
 */
int words_of(struct zygote *z, char **given, size_t count, char *ret[ZYGOTE_WORDS], size_t *ret_n,
	     struct err *e);

#endif
