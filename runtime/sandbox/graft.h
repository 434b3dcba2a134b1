/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graft - makes a fork of a process in one sandbox, the zygote, a process of another sandbox.
 *
 * Upholds S48 of SECURITY.md. The other sandbox was made like any, inside the zygote's user and pid
 * namespaces (birth.h), and has run nothing yet. The zygote's process calls fork(2); we stop it
 * there and make the fork for it, through two processes that share its memory and run nothing but
 * our calls: one that enters the namespaces, and one that is born in them and in the cgroups. The
 * fork has only the rights of a command before it runs an instruction of its own.
 */
#ifndef BERTH_RUNTIME_SANDBOX_GRAFT_H
#define BERTH_RUNTIME_SANDBOX_GRAFT_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "runtime/kernel/cgroup.h"

#define GRAFT_GROUPS_MAX 32
#define GRAFT_CONTROL_FD 3 /* the fork's only descriptor but 0 to 2, which are its /dev/null */

/* Namespaces in the order in which they are entered; the fork itself enters time, the last. */
enum graft_ns {
	GRAFT_USER,
	GRAFT_MNT,
	GRAFT_IPC,
	GRAFT_UTS,
	GRAFT_NET,
	GRAFT_CGROUP,
	GRAFT_PID,
	GRAFT_TIME,
	GRAFT_NS_COUNT
};

extern const struct graft_ns_kind {
	const char *file; /* its file below /proc/PID/ns */
	int flag;
} graft_ns_kinds[];

/* The zygote. */
struct graft_stock {
	pid_t pid;         /* its process */
	pid_t init;        /* init, the only other process in its cgroup */
	int cgroup_fd;     /* v2 */
	uint32_t uid, gid; /* the ids in its sandbox, and in the fork's */
	uint32_t groups[GRAFT_GROUPS_MAX];
	size_t group_count;
	uint64_t caps;       /* capabilities of a root command in these sandboxes */
	const char *workdir; /* the directory that is made for a user who is not root */
	unsigned filters;    /* filters that the fork must have, at least */
};

/* The sandbox that takes the fork; all descriptors are borrowed. */
struct graft_place {
	pid_t init;                   /* its pid 1, as we see it */
	int ns_fd[GRAFT_NS_COUNT];    /* TIME: -1 on a kernel without time namespaces */
	int cgroup_fd;                /* v2 */
	int task_fd[CGROUP_JOIN_MAX]; /* `tasks` files of v1 */
	size_t task_count;
	const char *leaf;             /* name of that cgroup when it is below init's; else NULL */
	int control_fd;               /* becomes GRAFT_CONTROL_FD */
};

struct graft {
	pid_t pid;   /* as we see it */
	pid_t inner; /* the fork's pid as seen by its init, whose child it is */
};

/*
 * Learns uid, gid and groups of s->pid and checks that it can be forked: one thread, alone with
 * init in its cgroup, no memory that a fork would share. ERR_INVALID with what to change;
 * ERR_UNSUPPORTED if this host cannot trace it. SIGCHLD must be blocked.
 */
int graft_examine(struct graft_stock *s, uint32_t id_base, struct err *e);
/*
 * Makes a fork. The process must be about to read(2) its stdin, and to fork(2) then: graft_agent()
 * of the caller's language. SIGCHLD must be blocked. On failure no fork is left; ERR_BUSY: the
 * zygote was not as examined, or did not fork within ms, and is ended.
 */
int graft_fork(const struct graft_stock *s, const struct graft_place *p, unsigned ms,
	       struct graft *ret, struct err *e);
/* The part of graft_examine() that is repeated for each fork. */
int graft_check_alone(const struct graft_stock *s, struct err *e);
/*
 * The part of graft_check_alone() about memory: ERR_INVALID if a fork of pid would share memory
 * with it. pid must be stopped, or its mappings may change meanwhile. The second function asks in
 * the way of kernels before Linux 6.11.
 */
int graft_check_maps(pid_t pid, struct err *e);
int graft_check_maps_text(pid_t pid, struct err *e);
/* Adds /proc/pid/file to b. */
int graft_read_proc(pid_t pid, const char *file, struct buf *b, struct err *e);
/* Reads back the fork's state before it runs: ERR_INTERNAL if that is not what it was made to be. */
int graft_verify(const struct graft_stock *s, const struct graft_place *p, pid_t pid,
		 struct err *e);
/* Opens the namespaces of the process pid as p->ns_fd. */
int graft_open_namespaces(pid_t pid, struct graft_place *p, struct err *e);

#endif
