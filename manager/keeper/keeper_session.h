/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_session - a shell session of a keeper, in parts: keeper_sessions.c is which there are and
 * the requests to them; keeper_shell.c the shell's process; keeper_text.c one text that it runs;
 * keeper_text.c what it prints; keeper_shellstate.c what a checkpoint keeps of it;
 * keeper_sessions.c the texts that wait; keeper_force.c and keeper_look.c how a text is interrupted
 * and ended.
 */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_SESSION_H
#define BERTH_MANAGER_KEEPER_KEEPER_SESSION_H

#include "manager/keeper/keeper_state.h"

/* keeper_sessions.c */
keeper_handler session_op_send, session_op_signal;
void session_client_gone(struct keeper *k, int client);
void session_release(struct keeper *k, struct keeper_session *s);

/* The session of that name, or a new one.  ERR_EXISTS: it is of the other kind.  ERR_LIMIT. */
struct keeper_session *session_of_name(struct keeper *k, const char *name, int split,
				       struct err *e);

/* keeper_shellstate.c */
/* A text begins to run. */
void session_state_ran(struct keeper_session *s, const char *text, size_t n);
/* Asks the shells that wait for a command. */
void session_states_ask(struct keeper *k);
/* Takes what the shell of s has written to the status pipe, if that is its answer: how much. */
size_t session_state_feed(struct keeper *k, struct keeper_session *s, const char *p, size_t n);
/* Until when the answers are waited for; 0: they are there. */
uint64_t session_states_next(const struct keeper *k);
void session_states_check(struct keeper *k, uint64_t now);
/* Writes them beside checkpoint id. */
void session_states_write(struct keeper *k, const char *id);
/* At the start: the sessions that an undo brings back. */
void session_states_load(struct keeper *k);
/* Starts their shells, which read what they are to be. */
void session_states_start(struct keeper *k);
/* Whether the new shell of s is to have a state, and what it has of it before it reads anything. */
void session_state_begin(struct keeper_session *s);
/* Has the new shell read it: 1; 0: there is none. */
int session_state_restore(struct keeper *k, struct keeper_session *s, struct err *e);
void session_state_release(struct keeper_session *s);

/* keeper_shell.c */
/* The variables that a shell begins with, borrowed; the list is the caller's to free. */
int session_shell_env(const struct keeper *k, const char ***ret, size_t *ret_count, struct err *e);
int session_shell_start(struct keeper *k, struct keeper_session *s, struct err *e);
/* Closes our ends of it. */
void session_shell_close(struct keeper_session *s);
/* Lines for it to read. */
int session_shell_write(struct keeper_session *s, const char *lines, struct err *e);

/* keeper_text.c */
void session_read(struct keeper *k, struct keeper_session *s, int which);
void session_drop_output(struct keeper_session *s);
/* Answers the client of s: what the text printed, and its verdict unless v is NULL. */
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
/* A text and how its client wants it run. */
struct session_text {
	int client;
	const char *text;
	size_t n;
	uint64_t timeout_ms, max_silent_ms, queued_ms;
	enum session_on_timeout on_timeout;
	int inlined;
};
/* Runs it in s, which is not busy. */
int session_run(struct keeper *k, struct keeper_session *s, const struct session_text *t, struct err *e);
/* The text that the shell will read next. */
int session_put_text(struct keeper *k, struct keeper_session *s, const char *text, size_t n, struct err *e);
/* From now on a client waits for what runs, and for its input; timeout_ms 0: without a deadline. */
void session_watch(struct keeper_session *s, uint64_t timeout_ms);

/* keeper_sessions.c */
/* Runs t now, or when those before it have ended, as rq's "no_wait" and "queue_ms" allow. */
int session_queue_add(struct keeper *k, struct keeper_session *s, const struct session_text *t, const json_t *rq, struct err *e);
/* When the queue is to be served next; 0: when something happens. */
uint64_t session_queue_deadline(const struct keeper_session *s);
/* Runs the next text when s is free, and answers those that have waited as long as they wanted to. */
void session_queue_serve(struct keeper *k, struct keeper_session *s, uint64_t now);
/* The client has gone. */
void session_queue_leave(struct keeper_session *s, int client);
/* The client cancels its waiting text: 1 if there was one; it is answered. */
int session_queue_cancel(struct keeper *k, struct keeper_session *s, int client);
/* Answers all waiting clients with e. */
void session_queue_refuse(struct keeper *k, struct keeper_session *s, const struct err *e);

/* keeper_look.c */
/* Does some process of the session's foreground wait for its terminal? */
int session_reads_terminal(struct keeper *k, const struct keeper_session *s);

/* keeper_force.c */
/* SIGINT to the foreground, and its command ends as a shell's at Ctrl-C; -1: there is none. */
int session_interrupt(struct keeper *k, struct keeper_session *s);
/* Another signal to its foreground; without a terminal to all that its command started. */
int session_signal(struct keeper *k, struct keeper_session *s, int signo);
/*
 * Writes bytes to its terminal, where the interrupt character has its effect; how many were
 * taken, or -1 with errno.
 */
ssize_t session_type(struct keeper *k, struct keeper_session *s, const char *p, size_t n);
/* The shell has not left the text yet: signals it again, at nudge_ms. */
void session_nudge(struct keeper *k, struct keeper_session *s, uint64_t now);
/* The shell is back after its command's processes were killed: those that came later die too. */
void session_sweep(struct keeper *k, struct keeper_session *s, struct keeper_command *c);
/* A timeout's next step: interrupt, kill the command's tree, at last the shell. */
void session_force(struct keeper *k, struct keeper_session *s, uint64_t now);

/* ---- its processes as /proc shows them ---- */

/*
 * A session's processes as /proc shows them, best while they are frozen: then nothing starts,
 * ends or changes its group between the look and the signal.
 */

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
