/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's processes as /proc shows them, best while they are frozen: then nothing starts,
 * ends or changes its group between the look and the signal.
 */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_LOOK_H
#define BERTH_MANAGER_KEEPER_KEEPER_LOOK_H

#include "manager/keeper/keeper_state.h"

#define FORKED_NO_EXEC 0x40	/* PF_FORKNOEXEC of linux/sched.h, in proc(5)'s flags */

/* The fields of a process in /proc/PID/stat. */
struct process {
	int parent, group;
	unsigned flags;
	unsigned long long started;	/* clock ticks since the boot */
};
/* -1: it is gone. */
int look_process(pid_t pid, struct process *ret);

/* What /proc/PID/status says; all signals in each set when the process is gone. */
struct signals {
	unsigned long long pending, ignored, caught;
};
struct signals look_signals(pid_t pid);

/* The live processes of the command in *ret, to be freed; -1: none. */
int look_command_pids(struct keeper_command *c, pid_t **ret, size_t *ret_count);
/* The processes of the session. */
int look_pids(struct keeper *k, const struct keeper_session *s, pid_t **ret, size_t *ret_count);
/* The session's shell among them; 0: it is not there. */
pid_t look_shell(const struct keeper_session *s, const pid_t *pids, size_t n);
/* Was it there before the text that runs? */
int look_is_older(const struct keeper_session *s, pid_t pid);
/* That, or was it started by one, not the shell, that was?  So it is an earlier job's, whenever it began. */
int look_is_of_older(const struct keeper_session *s, pid_t shell, pid_t pid);

/* The session's processes while they are frozen. */
struct look {
	struct keeper_command *c;	/* NULL: no text runs */
	unsigned long long at_ticks;	/* when it began: to freeze can take longer than a process is young */
	pid_t *pids, shell;
	size_t n;
	int frozen;
};
/*
 * 1: frozen, call look_thaw(); 0: it was frozen already. It does not wait for a process that
 * cannot freeze right now (it waits for a disk): the look may then be a little late.
 */
int look_freeze(struct keeper_command *c);
void look_thaw(struct keeper_command *c);
/*
 * Freezes them, reads, and look_end() lets them go on.  Never while dash is in vfork(2), as it forgets the signals it gets
 * there: that is short, and waited for.
 */
void look_begin(struct keeper *k, struct keeper_session *s, struct look *l);
void look_end(struct look *l);
/* Waits a moment for the kernel. */
void look_pause(void);

#endif
