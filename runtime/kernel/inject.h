/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject - makes a stopped process do system calls on our behalf (ptrace(2)).
 *
 * The process is a tracee of the calling thread. inject_call() turns one system call of its own
 * into ours, at a syscall-entry stop; inject_batch() runs a table of calls through a few
 * instructions in a page that inject_map() has put into it. Its memory is trusted for nothing else,
 * and the caller makes sure that no other process writes there meanwhile. Needs Linux 5.3 and
 * x86_64: elsewhere inject_available() is ERR_UNSUPPORTED.
 */
#ifndef BERTH_RUNTIME_KERNEL_INJECT_H
#define BERTH_RUNTIME_KERNEL_INJECT_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/err.h"

#define INJECT_CALLS_MAX 96
#define INJECT_PAGE 16384 /* bytes of the page */
#define INJECT_ROOM 8192  /* bytes for arguments in memory, at inject_room() */

struct inject_call {
	long nr;
	uint64_t arg[6];
	long result;      /* what the kernel returned */
	const char *what; /* names the call in errors, as "set groups"; NULL: its failure is no error */
};

/* One traced process, which is stopped unless a function below says otherwise. */
struct inject {
	pid_t pid;
	uint64_t page;        /* the page from inject_map(); 0: none */
	uint64_t deadline_ms; /* clock_ms(): ERR_TIMEOUT afterwards */
};

int inject_available(struct err *e);
/*
 * Traces pid and stops it. If we die, it dies. ERR_UNSUPPORTED if ptrace(2) is forbidden. SIGCHLD
 * must be blocked in the calling thread.
 */
int inject_seize(struct inject *t, pid_t pid, uint64_t deadline_ms, struct err *e);
/*
 * Tries inject_seize() and inject_unfilter(), and takes them back: tells whether pid, which runs
 * on, can be forked at all.
 */
int inject_try(pid_t pid, uint64_t deadline_ms, struct err *e);
/* Suspends the process's seccomp filters, or takes that back. */
int inject_unfilter(struct inject *t, int on, struct err *e);
/* Lets the process run until it enters a system call; *ret are its registers there. */
int inject_next_entry(struct inject *t, struct user_regs_struct *ret, struct err *e);
/* Makes this call instead of the one at an entry stop, and stops after it. */
int inject_replace(struct inject *t, struct inject_call *c, struct err *e);
/* Makes this call at any other stop, by the instruction at ip, which must be that of a system call. */
int inject_call(struct inject *t, const struct user_regs_struct *like, struct inject_call *c,
		struct err *e);
/* Takes the page; call it after inject_replace() with a mmap(2) that returned page. */
int inject_map(struct inject *t, uint64_t page, struct err *e);
/* Gives the place for arguments in the process's memory; the functions below write and read it. */
uint64_t inject_room(const struct inject *t, size_t offset);
int inject_put(const struct inject *t, size_t offset, const void *p, size_t n, struct err *e);
int inject_get(const struct inject *t, size_t offset, void *p, size_t n, struct err *e);
/*
 * Makes the calls one after the other, up to the first failure of a call that has a name. If one is
 * a clone, *ret_child is traced and stopped (with the same page); else ret_child is NULL.
 */
int inject_batch(struct inject *t, struct inject_call *calls, size_t n, struct inject *ret_child,
		 struct err *e);
/* Reads the registers of the stopped process. */
int inject_regs(const struct inject *t, struct user_regs_struct *ret, struct err *e);
int inject_set_regs(const struct inject *t, const struct user_regs_struct *r, struct err *e);
/* Gives the first, second and fourth argument of the process's rseq(2): 1 with *ret, 0 if it has
 * none. ERR_UNSUPPORTED before Linux 5.13, which does not tell. */
int inject_rseq(const struct inject *t, uint64_t ret[3], struct err *e);
/* Sets its registers and lets the process run. */
int inject_release(struct inject *t, const struct user_regs_struct *regs, struct err *e);
/* Kills and reaps the process, if it still exists. t->pid is 0 afterwards. */
void inject_end(struct inject *t);

#endif
