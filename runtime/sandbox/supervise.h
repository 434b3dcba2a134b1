/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervise - waits for a sandbox's one command: deadlines, signals, terminal, memory, and the
 * verdict.
 */
#ifndef BERTH_RUNTIME_SANDBOX_SUPERVISE_H
#define BERTH_RUNTIME_SANDBOX_SUPERVISE_H

#include "runtime/sandbox/launch.h"
#include "runtime/sandbox/verdict.h"

/*
 * Blocks the signals that a supervisor takes by descriptor; call it before the sandbox is launched.
 * Returns a signalfd.
 */
int supervise_signals(struct err *e);

struct supervise {
	int signal_fd;
	int tty_fd;		/* the terminal's master side, when the spec has one */
	int in, out;		/* the descriptors that are joined to it */
	/* called once, while the sandbox sets itself up on another CPU, for work that may wait until then */
	void (*idle)(void *ctx);
	void *idle_ctx;
	/*
	 * called when the sandbox's proxy has a notice (sandbox.net.notice_fd); closes it at its
	 * end
	 */
	void (*notice)(void *ctx);
	void *notice_ctx;
	/* the process that requested the command, if it is another; called when this can be read */
	int client_fd;		/* 0: none */
	void (*client)(void *ctx);
	void *client_ctx;
	/*
	 * called if the command did not end of its own accord: tells whether berth was told to kill
	 * the sandbox; may be NULL
	 */
	int (*was_killed)(void *ctx);
	void *was_killed_ctx;
};

/*
 * Calls sandbox_exec() for the one command, as seq; if the spec limits its silence, a process in
 * between reads std[1] and std[2].
 */
int supervise_exec(struct sandbox *sb, uint32_t seq, const struct job *c, const int std[3],
		   struct err *e);
/*
 * Runs command seq, already sent by supervise_exec(), to its end. 0 with the verdict, also for a
 * failed command; -1 if the command could not be started (ERR_EXEC, ERR_EXEC_NOT_FOUND,
 * ERR_INVALID, ...) or berth itself failed.
 */
int supervise_run(struct sandbox *sb, uint32_t seq, const struct supervise *how, struct verdict *ret,
		  struct err *e);

/*
 * Sets disk_full, and disk_errors where that is asked for (has_disk_errors) or the host's file system
 * is full.
 */
int supervise_disk(const struct sandbox *sb, struct verdict_facts *f, struct err *e);

#endif
