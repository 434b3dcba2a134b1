/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_interpreter - that of a sandbox of a zygote (keeper_code.c); for manager/keeper*.c only. */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_INTERPRETER_H
#define BERTH_MANAGER_KEEPER_KEEPER_INTERPRETER_H

#include "base/json.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/sandbox/verdict.h"

struct keeper;
struct init_reply;

#define KEEPER_CODE 0x7fffffffu	/* what init calls the interpreter that waits for code */

/* A request to the interpreter that waits for its turn. */
struct code_wait;

/* The interpreter of a sandbox that was made of a zygote. */
struct keeper_code {
	int home_fd;		/* to the zygote's supervisor; -1: the sandbox has none */
	enum { CODE_NONE, CODE_STARTS, CODE_WAITS, CODE_RUNS } phase;
	struct cgroup leaf;	/* ops NULL: none */
	int control_fd, pid_fd;
	int fresh;		/* it was started for this request, as the one before had ended */
	/* the request that runs */
	int client;		/* that waits for its end, or -1 */
	int status_fd;		/* brings its exit status, one byte */
	int text_fd;		/* the file with its code */
	uint64_t started_ms, queued_ms, deadline_ms, kill_at_ms;
	struct cgroup_usage before;
	struct verdict_facts facts;
	struct code_wait *queue;
};
#define KEEPER_CODE_NONE { .home_fd = -1, .control_fd = -1, .pid_fd = -1, .client = -1, \
			   .status_fd = -1, .text_fd = -1 }

/* The first fork of the zygote whose supervisor home_fd leads to; -1: there is none to be. */
int keeper_code_begin(struct keeper *k, int home_fd, struct err *e);
/* Init says something of KEEPER_CODE. */
void keeper_code_reply(struct keeper *k, const struct init_reply *r);
/* code.status_fd can be read. */
void keeper_code_status(struct keeper *k);
void keeper_code_check_oom(struct keeper *k);
void keeper_code_client_gone(struct keeper *k, int client);
/* The sandbox is asked to stop: what waits ends, what runs gets SIGTERM. */
void keeper_code_ask_to_end(struct keeper *k);
/* The sandbox ends. */
void keeper_code_end(struct keeper *k, int killed_by_us);

#endif
