/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_session - a shell session of a keeper, in parts: keeper_sessions.c has the list of
 * sessions, the requests to them and the texts that wait; keeper_shell.c the shell's process;
 * keeper_text.c one text that it runs, and its output; keeper_shellstate.c the state that a
 * checkpoint keeps; keeper_force.c and keeper_look.c interrupt and end a text.
 */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_SESSION_H
#define BERTH_MANAGER_KEEPER_KEEPER_SESSION_H

#include "manager/keeper/keeper_state.h"

/* keeper_sessions.c */
keeper_handler session_op_send, session_op_signal;
void session_client_gone(struct keeper *k, int client);
void session_release(struct keeper *k, struct keeper_session *s);

/* Returns the session of that name, or a new one. ERR_EXISTS: it is of the other kind. ERR_LIMIT. */
struct keeper_session *session_of_name(struct keeper *k, const char *name, int split,
				       struct err *e);

/* keeper_shellstate.c */
/* Notes that a text begins to run. */
void session_state_ran(struct keeper_session *s, const char *text, size_t n);
/* Asks the shells that wait for a command for their state. */
void session_states_ask(struct keeper *k);
/*
 * Takes bytes that the shell of s has written to the status pipe, if they belong to its answer;
 * returns how many.
 */
size_t session_state_feed(struct keeper *k, struct keeper_session *s, const char *p, size_t n);
/* Returns until when to wait for the answers; 0: all have come. */
uint64_t session_states_next(const struct keeper *k);
void session_states_check(struct keeper *k, uint64_t now);
/* Writes the states beside checkpoint id. */
void session_states_write(struct keeper *k, const char *id);
/* Loads, at the start, the sessions that an undo restores. */
void session_states_load(struct keeper *k);
/* Starts their shells, which read their states. */
void session_states_start(struct keeper *k);
/* Prepares a new shell of s: whether it gets a state, and the parts that it gets before it reads anything. */
void session_state_begin(struct keeper_session *s);
/* Makes the new shell read its state: 1; 0: it has none. */
int session_state_restore(struct keeper *k, struct keeper_session *s, struct err *e);
void session_state_release(struct keeper_session *s);

/* keeper_shell.c */
/* Lists the variables with which a shell begins, borrowed; the caller frees the list. */
int session_shell_env(const struct keeper *k, const char ***ret, size_t *ret_count, struct err *e);
int session_shell_start(struct keeper *k, struct keeper_session *s, struct err *e);
/* Closes our ends of the shell's descriptors. */
void session_shell_close(struct keeper_session *s);
/* Writes lines for the shell to read. */
int session_shell_write(struct keeper_session *s, const char *lines, struct err *e);

/* keeper_text.c */
void session_read(struct keeper *k, struct keeper_session *s, int which);
void session_drop_output(struct keeper_session *s);
/* Answers the client of s with the output of the text, and its verdict unless v is NULL. */
void session_answer(struct keeper *k, struct keeper_session *s, const char *status,
		    const struct verdict *v);

/* keeper_text.c */
void session_status(struct keeper *k, struct keeper_session *s);
void session_deadline(struct keeper *k, struct keeper_session *s, uint64_t now);
uint64_t session_next_deadline(const struct keeper_session *s);
void session_shell_failed(struct keeper *k, int index, const struct err *e);
void session_shell_ended(struct keeper *k, int index, struct keeper_command *c);
/* As keeper_command_lost(), for the running text. */
void session_lost(struct keeper *k, struct keeper_session *s, int killed_by_us);
/* A text, and how its client wants it run. */
struct session_text {
	int client;
	const char *text;
	size_t n;
	uint64_t timeout_ms, max_silent_ms, queued_ms;
	enum session_on_timeout on_timeout;
	int inlined;
};
/* Runs the text in s, which is not busy. */
int session_run(struct keeper *k, struct keeper_session *s, const struct session_text *t, struct err *e);
/* Puts the text where the shell will read it next. */
int session_put_text(struct keeper *k, struct keeper_session *s, const char *text, size_t n, struct err *e);
/* Makes a client wait for the running text, and for its input; timeout_ms 0: without a deadline. */
void session_watch(struct keeper_session *s, uint64_t timeout_ms);

/* keeper_sessions.c */
/* Runs t now, or after those before it, as rq's "no_wait" and "queue_ms" allow. */
int session_queue_add(struct keeper *k, struct keeper_session *s, const struct session_text *t, const json_t *rq, struct err *e);
/* Returns when the queue is to be served next; 0: not before something happens. */
uint64_t session_queue_deadline(const struct keeper_session *s);
/* Runs the next text if s is free, and answers those that have waited as long as they asked for. */
void session_queue_serve(struct keeper *k, struct keeper_session *s, uint64_t now);
/* Handles a client that has gone. */
void session_queue_leave(struct keeper_session *s, int client);
/* Cancels the client's waiting text: 1 if there was one; it is answered. */
int session_queue_cancel(struct keeper *k, struct keeper_session *s, int client);
/* Answers all waiting clients with e. */
void session_queue_refuse(struct keeper *k, struct keeper_session *s, const struct err *e);

/* keeper_look.c */
/* Tells whether a process of the session's foreground waits for its terminal. */
int session_reads_terminal(struct keeper *k, const struct keeper_session *s);

/* keeper_force.c */
/* Sends SIGINT to the foreground, whose command ends as a shell's at Ctrl-C; -1: there is none. */
int session_interrupt(struct keeper *k, struct keeper_session *s);
/* Sends another signal to its foreground; without a terminal to all processes that its command started. */
int session_signal(struct keeper *k, struct keeper_session *s, int signo);
/*
 * Writes bytes to its terminal, where the interrupt character has its effect; returns how many were
 * taken, or -1 with errno.
 */
ssize_t session_type(struct keeper *k, struct keeper_session *s, const char *p, size_t n);
/* Signals the shell again, at nudge_ms, if it has not left the text yet. */
void session_nudge(struct keeper *k, struct keeper_session *s, uint64_t now);
/* Kills later processes of the command, when the shell is back after the others were killed. */
void session_sweep(struct keeper *k, struct keeper_session *s, struct keeper_command *c);
/* Takes the next step after a timeout: interrupt, kill the command's tree, at last the shell. */
void session_force(struct keeper *k, struct keeper_session *s, uint64_t now);

/* ---- its processes as /proc shows them ---- */

/*
 * A session's processes as /proc shows them, best while they are frozen: then no process starts,
 * ends or changes its group between the look and the signal.
 */

#define FORKED_NO_EXEC 0x40	/* PF_FORKNOEXEC of linux/sched.h, in proc(5)'s flags */

/* The fields of a process in /proc/PID/stat. */
struct process {
	int parent, group;
	unsigned flags;
	unsigned long long started;	/* clock ticks since the boot */
};
/* Reads them; -1: the process is gone. */
int look_process(pid_t pid, struct process *ret);

/* The signal sets of /proc/PID/status; all signals in each if the process is gone. */
struct signals {
	unsigned long long pending, ignored, caught;
};
struct signals look_signals(pid_t pid);

/* Lists the live processes of the command in *ret, which the caller frees; -1: none. */
int look_command_pids(struct keeper_command *c, pid_t **ret, size_t *ret_count);
/* Lists the processes of the session. */
int look_pids(struct keeper *k, const struct keeper_session *s, pid_t **ret, size_t *ret_count);
/* Finds the session's shell among them; 0: it is missing. */
pid_t look_shell(const struct keeper_session *s, const pid_t *pids, size_t n);
/* Tells whether the process existed before the running text. */
int look_is_older(const struct keeper_session *s, pid_t pid);
/*
 * Tells that, or whether such a process, not the shell, started it: then it belongs to an earlier
 * job, whenever it began.
 */
int look_is_of_older(const struct keeper_session *s, pid_t shell, pid_t pid);

/* The session's processes while they are frozen. */
struct look {
	struct keeper_command *c;	/* NULL: no text runs */
	unsigned long long at_ticks;	/* when the look began: freezing can take longer than a process is
					 * old */
	pid_t *pids, shell;
	size_t n;
	int frozen;
};
/*
 * Freezes the command: 1: frozen, call look_thaw(); 0: it was frozen already. It does not wait for
 * a process that cannot freeze right now (because it waits for a disk): the look may then be a
 * little late.
 */
int look_freeze(struct keeper_command *c);
void look_thaw(struct keeper_command *c);
/*
 * Freezes and reads the processes; look_end() thaws them. It never freezes dash in vfork(2), where
 * dash loses signals: that phase is short, and waited for.
 */
void look_begin(struct keeper *k, struct keeper_session *s, struct look *l);
void look_end(struct look *l);
/* Waits a moment for the kernel. */
void look_pause(void);

#endif
