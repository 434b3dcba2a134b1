/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject - system calls that a stopped process makes on our behalf (ptrace(2)).
 *
 * The process is a tracee of the calling thread.  inject_call() turns one system call of its own
 * into ours, at a syscall-entry stop; inject_batch() runs a table of calls through a few
 * instructions in a page that inject_map() has put into it.  Its memory is never trusted for
 * more than that: the caller makes sure that nobody else writes there meanwhile.
 * Linux 5.3; x86_64 alone: elsewhere inject_available() is ERR_UNSUPPORTED.
 */
#ifndef BERTH_RUNTIME_KERNEL_INJECT_H
#define BERTH_RUNTIME_KERNEL_INJECT_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/err.h"

#define INJECT_CALLS_MAX 96
#define INJECT_PAGE 16384 /* bytes of the page */
#define INJECT_ROOM 8192  /* bytes for arguments in memory, from inject_room() on */

struct inject_call {
	long nr;
	uint64_t arg[6];
	long result;      /* what the kernel returned */
	const char *what; /* for the error: "set groups"; NULL: a failure is no error */
};

/* One traced process: stopped, but between calls of these functions that say otherwise. */
struct inject {
	pid_t pid;
	uint64_t page;        /* of inject_map(); 0: none */
	uint64_t deadline_ms; /* clock_ms(): ERR_TIMEOUT afterwards */
};

int inject_available(struct err *e);
/*
 * Traces pid and stops it.  If we die, it dies.  ERR_UNSUPPORTED where ptrace(2) is forbidden.
 * SIGCHLD must be blocked in the calling thread.
 */
int inject_seize(struct inject *t, pid_t pid, uint64_t deadline_ms, struct err *e);
/* inject_seize(), inject_unfilter() and back: whether pid, which goes on, can be forked at all. */
int inject_try(pid_t pid, uint64_t deadline_ms, struct err *e);
/* Suspends its seccomp filters, or takes that back. */
int inject_unfilter(struct inject *t, int on, struct err *e);
/* Lets it run until it enters a system call; *ret are its registers there. */
int inject_next_entry(struct inject *t, struct user_regs_struct *ret, struct err *e);
/* At an entry stop: makes this call instead, and stops after it. */
int inject_replace(struct inject *t, struct inject_call *c, struct err *e);
/* At any other stop: makes this call by the instruction at ip, which was a system call's. */
int inject_call(struct inject *t, const struct user_regs_struct *like, struct inject_call *c,
		struct err *e);
/* After inject_replace() of a mmap(2) with the result page. */
int inject_map(struct inject *t, uint64_t page, struct err *e);
/* Where arguments may lie in its memory, and a way to put them there and read them. */
uint64_t inject_room(const struct inject *t, size_t offset);
int inject_put(const struct inject *t, size_t offset, const void *p, size_t n, struct err *e);
int inject_get(const struct inject *t, size_t offset, void *p, size_t n, struct err *e);
/*
 * Makes the calls one after the other, up to the first that fails and has a name.  If one is a
 * clone, *ret_child is traced and stopped (its page is the same); else ret_child is NULL.
 */
int inject_batch(struct inject *t, struct inject_call *calls, size_t n, struct inject *ret_child,
		 struct err *e);
/* Its registers, while it is stopped. */
int inject_regs(const struct inject *t, struct user_regs_struct *ret, struct err *e);
int inject_set_regs(const struct inject *t, const struct user_regs_struct *r, struct err *e);
/* 1: *ret are the first, second and fourth argument of its rseq(2); 0: it has none.
 * ERR_UNSUPPORTED before Linux 5.13, where nobody can tell. */
int inject_rseq(const struct inject *t, uint64_t ret[3], struct err *e);
/* Sets its registers and lets it go. */
int inject_release(struct inject *t, const struct user_regs_struct *regs, struct err *e);
/* Kills and reaps it, if it is there.  t->pid is 0 afterwards. */
void inject_end(struct inject *t);

#endif
