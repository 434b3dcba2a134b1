/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verdict - how a command ended, and why: one record for every command.
 *
 * Pure: verdict_decide() derives the cause from facts. All facts are counters of the kernel, or
 * actions of berth that it recorded before it took them.
 */
#ifndef BERTH_RUNTIME_SANDBOX_VERDICT_H
#define BERTH_RUNTIME_SANDBOX_VERDICT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/sandbox/nethelper.h"

/*
 * X(symbol, name, what people are told, what allows more, the same for a sandbox that lives); runtime/sandbox/reason.h
 * tells it.  Without words there is nothing to tell.
 */
#define VERDICT_CAUSES(X) \
	/* the command ended by itself with exit_code */ \
	X(CAUSE_EXIT, "exit", NULL, NULL, NULL) \
	/* a signal not explained below */ \
	X(CAUSE_SIGNAL, "signal", "a signal ended it", NULL, NULL) \
	/* --timeout ran out */ \
	X(CAUSE_TIMEOUT, "timeout", "its time limit was reached", "--timeout", "--timeout") \
	/* --max-silent-time ran out */ \
	X(CAUSE_SILENT, "silent", "it wrote nothing for too long", "--max-silent-time", "--max-silent-time") \
	/* --cpu-time ran out */ \
	X(CAUSE_CPU_TIMEOUT, "cpu-timeout", "its CPU time was used up", "--cpu-time", NULL) \
	/* memory limit: the kernel killed a process in its cgroup */ \
	X(CAUSE_OOM, "oom", "the memory limit was reached", "--memory", "berth update --memory") \
	/* it failed, and the pids limit had refused forks */ \
	X(CAUSE_PIDS, "pids", "the limit of processes was reached", "--pids", "berth update --pids") \
	/* it failed, and the writable layer is full */ \
	X(CAUSE_DISK, "disk", "the disk of the sandbox is full", "--disk", "--disk when a sandbox is made") \
	/* it failed, and its network budget was used up */ \
	X(CAUSE_NETWORK, "network", "the network budget was used up", "--network-bytes", "berth update --network-bytes") \
	/* SIGSYS: a forbidden system call */ \
	X(CAUSE_SECCOMP, "seccomp", "it made a system call that no program in a sandbox may make", "--seccomp", "--seccomp when a sandbox is made") \
	/* berth was told to stop it */ \
	X(CAUSE_KILLED_BY, "killed-by", "berth was told to stop it", NULL, NULL) \
	/* init ended without a report */ \
	X(CAUSE_LOST, "lost", VERDICT_LOST_TEXT, NULL, NULL)

#define VERDICT_LOST_TEXT "the sandbox ended before its command did, and nobody knows why"	/* of CAUSE_LOST, to people */

enum verdict_cause {
#define X(sym, name, ...) sym,
	VERDICT_CAUSES(X)
#undef X
	CAUSE_COUNT
};

struct verdict_facts {
	int ended;		/* the leader was reaped; exited and value are valid */
	int exited;		/* 1: value is its exit code, 0: a signal */
	uint32_t value;
	int timed_out;		/* we killed it for wall time, or for silence */
	int silent;		/* for silence */
	int cpu_timed_out;	/* we killed it for CPU time */
	int killed_for_oom;	/* we completed the kernel's kill (v1 has no oom.group) */
	int killed_by_us;	/* stop, kill or gc */
	int disk_full;		/* the layer, or the host's file system below it */
	int has_disk_errors;		/* disk_errors was counted: not at the end of each command of many */
	uint64_t disk_errors;		/* writable_errors() */
	int network_exhausted;	/* a budget of bytes or connections */
	int has_network;		/* network describes the whole sandbox */
	int network_is_bridge;	/* it counts packets, not requests */
	struct netcounters network;
	uint32_t left_behind;	/* processes that ran when the leader ended */
	uint64_t wall_ms;
	uint32_t loosened;		/* how the sandbox is looser than by default: enum loosened */
	struct cgroup_usage usage;
};

struct verdict {
	enum verdict_cause cause;
	struct verdict_facts facts;
};

void verdict_decide(const struct verdict_facts *f, struct verdict *ret);
/* Returns the exit status that a CLI reports: the command's, 128+n, 124 for timeouts, 125 when lost. */
int verdict_exit_status(const struct verdict *v);
const char *verdict_cause_name(enum verdict_cause c);
/* Appends one JSON object, without a newline. */
int verdict_json(const struct verdict *v, struct buf *out, struct err *e);

#endif
