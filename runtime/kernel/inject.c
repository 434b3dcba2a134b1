/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/inject.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/ptrace.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#ifndef PTRACE_O_SUSPEND_SECCOMP
#define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
#endif
#define OPTIONS                                                                                    \
	(PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |    \
	 PTRACE_O_TRACEVFORK)
#define SYSCALL_STOP (SIGTRAP | 0x80)
#define STOPS_MAX 20000 /* stops until it enters a system call, or in one batch */

/* The page: the instructions, the table of calls, and from ROOM_AT on arguments. */
enum { TABLE_AT = 64, ROOM_AT = INJECT_PAGE - INJECT_ROOM };

struct entry {
	uint64_t nr, arg[6], result, may_fail;
};

_Static_assert(TABLE_AT + INJECT_CALLS_MAX * sizeof(struct entry) <= ROOM_AT, "the table fits");
_Static_assert(sizeof(struct entry) == 72 && offsetof(struct entry, may_fail) == 64,
	       "the instructions below know it");

#ifdef __x86_64__
/* The C libraries disagree about the type of its first argument. */
static long trace(long how, pid_t pid, unsigned long at, unsigned long data)
{
	return syscall(SYS_ptrace, how, pid, at, data);
}

/* rbx: the entry, rbp: how many are left */
static const unsigned char code[] = {
	0x48, 0x8b, 0x03,                   /* next: mov rax, [rbx] */
	0x48, 0x8b, 0x7b, 0x08,             /* mov rdi, [rbx + 8] */
	0x48, 0x8b, 0x73, 0x10,             /* mov rsi, [rbx + 16] */
	0x48, 0x8b, 0x53, 0x18,             /* mov rdx, [rbx + 24] */
	0x4c, 0x8b, 0x53, 0x20,             /* mov r10, [rbx + 32] */
	0x4c, 0x8b, 0x43, 0x28,             /* mov r8, [rbx + 40] */
	0x4c, 0x8b, 0x4b, 0x30,             /* mov r9, [rbx + 48] */
	0x0f, 0x05,                         /* syscall */
	0x48, 0x89, 0x43, 0x38,             /* mov [rbx + 56], rax */
	0x48, 0x83, 0x7b, 0x40, 0x00,       /* cmp qword [rbx + 64], 0 */
	0x75, 0x08,                         /* jne step */
	0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, /* cmp rax, -4096 */
	0x77, 0x09,                         /* ja end */
	0x48, 0x83, 0xc3, 0x48,             /* step: add rbx, 72 */
	0x48, 0xff, 0xcd,                   /* dec rbp */
	0x75, 0xc7,                         /* jne next */
	0xcc,                               /* end: int3 */
};

int inject_available(struct err *e)
{
	(void)e;
	return 0;
}

static void set_call(struct user_regs_struct *r, const struct inject_call *c)
{
	r->rdi = c->arg[0];
	r->rsi = c->arg[1];
	r->rdx = c->arg[2];
	r->r10 = c->arg[3];
	r->r8 = c->arg[4];
	r->r9 = c->arg[5];
}

int inject_regs(const struct inject *t, struct user_regs_struct *r, struct err *e)
{
	return trace(PTRACE_GETREGS, t->pid, 0, (uintptr_t)r) < 0 ?
		       err_sys(e, "read the registers of process %d", (int)t->pid) :
		       0;
}

int inject_set_regs(const struct inject *t, const struct user_regs_struct *r, struct err *e)
{
	return trace(PTRACE_SETREGS, t->pid, 0, (uintptr_t)r) < 0 ?
		       err_sys(e, "set the registers of process %d", (int)t->pid) :
		       0;
}

/* Waits until its next stop; *ret is wait(2)'s status. Its death is ERR_CONFLICT. */
static int wait_stop(const struct inject *t, int *ret, struct err *e)
{
	sigset_t child;
	pid_t got;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while ((got = waitpid(t->pid, ret, __WALL | WNOHANG)) == 0) {
		uint64_t now = clock_ms(), left = now < t->deadline_ms ? t->deadline_ms - now : 0;
		struct timespec wait = {(time_t)(left / 1000), (long)(left % 1000) * 1000000};

		if (!left)
			return err_set(e, ERR_TIMEOUT, "process %d does not stop", (int)t->pid);
		if (sigtimedwait(&child, NULL, &wait) < 0 && errno != EAGAIN && errno != EINTR)
			return err_sys(e, "wait for process %d", (int)t->pid);
	}
	if (got < 0)
		return err_sys(e, "wait for process %d", (int)t->pid);
	return WIFSTOPPED(*ret) ? 0 : err_set(e, ERR_BUSY, "process %d has ended", (int)t->pid);
}

static int resume_tracee(const struct inject *t, int how, int signo, struct err *e)
{
	return trace(how, t->pid, 0, (unsigned long)signo) < 0 ?
		       err_sys(e, "continue process %d", (int)t->pid) :
		       0;
}

int inject_seize(struct inject *t, pid_t pid, uint64_t deadline_ms, struct err *e)
{
	int status;

	*t = (struct inject){.pid = pid, .deadline_ms = deadline_ms};
	if (trace(PTRACE_SEIZE, pid, 0, OPTIONS) < 0) {
		t->pid = 0;
		if (errno != EPERM)
			return err_sys(e, "trace process %d", (int)pid);
		err_code_sys(e, ERR_UNSUPPORTED, "trace process %d", (int)pid);
		return err_hint(e, "zygotes need ptrace(2): berth needs CAP_SYS_PTRACE, and "
				   "/proc/sys/kernel/yama/ptrace_scope below 3"),
		       -1;
	}
	if (trace(PTRACE_INTERRUPT, pid, 0, 0) < 0)
		return err_sys(e, "stop process %d", (int)pid);
	return wait_stop(t, &status, e);
}

int inject_unfilter(struct inject *t, int on, struct err *e)
{
	if (trace(PTRACE_SETOPTIONS, t->pid, 0, OPTIONS | (on ? PTRACE_O_SUSPEND_SECCOMP : 0)) == 0)
		return 0;
	err_code_sys(e, ERR_UNSUPPORTED, "suspend the seccomp filters of process %d", (int)t->pid);
	return err_hint(e,
			"zygotes need a kernel with CONFIG_CHECKPOINT_RESTORE, and a berth that is "
			"not itself under a seccomp filter"),
	       -1;
}

int inject_try(pid_t pid, uint64_t deadline_ms, struct err *e)
{
	struct inject t;
	int r;

	if (inject_seize(&t, pid, deadline_ms, e) < 0)
		return -1;
	r = inject_unfilter(&t, 1, e);
	/* the registers are as before: a call that the stop interrupted is made again */
	if (trace(PTRACE_DETACH, pid, 0, 0) < 0 && r == 0)
		return err_sys(e, "let process %d go", (int)pid);
	return r;
}

int inject_next_entry(struct inject *t, struct user_regs_struct *ret, struct err *e)
{
	int status, signo = 0, i;

	/* bounds a process that never stops making calls, too */
	for (i = 0; i < STOPS_MAX && clock_ms() < t->deadline_ms; i++) {
		if (resume_tracee(t, PTRACE_SYSCALL, signo, e) < 0 || wait_stop(t, &status, e) < 0)
			return -1;
		signo = 0;
		if (WSTOPSIG(status) == SYSCALL_STOP) {
			struct ptrace_syscall_info info;

			if (trace(PTRACE_GET_SYSCALL_INFO, t->pid, sizeof(info), (uintptr_t)&info) <
			    0)
				return err_sys(e, "look at process %d", (int)t->pid);
			/* i386 has other numbers */
			if (info.arch != AUDIT_ARCH_X86_64)
				return err_set(e, ERR_INVALID, "process %d calls as i386 does",
					       (int)t->pid);
			if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
				return inject_regs(t, ret, e);
		} else if (!(status >> 16)) {
			signo = WSTOPSIG(status); /* it gets its signals */
		}
	}
	return err_set(e, ERR_TIMEOUT, "process %d makes no system call", (int)t->pid);
}

/* Goes from an entry stop to the stop after the call; the kernel uses the registers as they are now. */
static int pass(struct inject *t, struct inject_call *c, struct err *e)
{
	struct user_regs_struct r;
	int status;

	if (inject_regs(t, &r, e) < 0)
		return -1;
	r.orig_rax = (unsigned long)c->nr;
	set_call(&r, c);
	if (inject_set_regs(t, &r, e) < 0 || resume_tracee(t, PTRACE_SYSCALL, 0, e) < 0 ||
	    wait_stop(t, &status, e) < 0)
		return -1;
	if (WSTOPSIG(status) != SYSCALL_STOP)
		return err_set(e, ERR_INTERNAL, "process %d stopped in another way", (int)t->pid);
	if (inject_regs(t, &r, e) < 0)
		return -1;
	c->result = (long)r.rax;
	if (c->what && c->result < 0 && c->result >= -4095) {
		errno = (int)-c->result;
		return err_sys(e, "%s", c->what);
	}
	return 0;
}

int inject_replace(struct inject *t, struct inject_call *c, struct err *e)
{
	return pass(t, c, e);
}

int inject_call(struct inject *t, const struct user_regs_struct *like, struct inject_call *c,
		struct err *e)
{
	struct ptrace_syscall_info info;
	struct user_regs_struct r = *like;
	int status;

	r.rip -= 2; /* the instruction */
	r.rax = (unsigned long)c->nr;
	r.orig_rax = ~0UL; /* no call to restart */
	set_call(&r, c);
	if (inject_set_regs(t, &r, e) < 0 || resume_tracee(t, PTRACE_SYSCALL, 0, e) < 0 ||
	    wait_stop(t, &status, e) < 0)
		return -1;
	if (WSTOPSIG(status) != SYSCALL_STOP ||
	    trace(PTRACE_GET_SYSCALL_INFO, t->pid, sizeof(info), (uintptr_t)&info) < 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY || info.arch != AUDIT_ARCH_X86_64)
		return err_set(e, ERR_INTERNAL, "process %d does not make the call", (int)t->pid);
	return pass(t, c, e);
}

static int copy_tracee_memory(const struct inject *t, uint64_t at, void *p, size_t n, int to, struct err *e)
{
	struct iovec here = {p, n}, there = {(void *)(uintptr_t)at, n};
	ssize_t got = to ? process_vm_writev(t->pid, &here, 1, &there, 1, 0) :
			   process_vm_readv(t->pid, &here, 1, &there, 1, 0);

	return got == (ssize_t)n ? 0 : err_sys(e, "reach the memory of process %d", (int)t->pid);
}

int inject_map(struct inject *t, uint64_t page, struct err *e)
{
	t->page = page;
	return copy_tracee_memory(t, page, (void *)(uintptr_t)code, sizeof(code), 1, e);
}

uint64_t inject_room(const struct inject *t, size_t offset)
{
	return t->page + ROOM_AT + offset;
}

int inject_put(const struct inject *t, size_t offset, const void *p, size_t n, struct err *e)
{
	return copy_tracee_memory(t, inject_room(t, offset), (void *)(uintptr_t)p, n, 1, e);
}

int inject_get(const struct inject *t, size_t offset, void *p, size_t n, struct err *e)
{
	return copy_tracee_memory(t, inject_room(t, offset), p, n, 0, e);
}

/* A clone of it: traced from birth, and about to stop. */
static int take_child(const struct inject *t, struct inject *ret, struct err *e)
{
	unsigned long pid = 0;
	int status;

	if (!ret || trace(PTRACE_GETEVENTMSG, t->pid, 0, (uintptr_t)&pid) < 0)
		return err_set(e, ERR_INTERNAL, "process %d has made another", (int)t->pid);
	*ret = *t;
	ret->pid = (pid_t)pid;
	return wait_stop(ret, &status, e);
}

/* Runs until the int3 behind the table. */
static int run_call_table(struct inject *t, struct inject *ret_child, struct err *e)
{
	int status, i;

	for (i = 0; i < STOPS_MAX; i++) {
		struct user_regs_struct r;

		if (resume_tracee(t, PTRACE_CONT, 0, e) < 0 || wait_stop(t, &status, e) < 0)
			return -1;
		switch (status >> 16) {
		case PTRACE_EVENT_CLONE:
		case PTRACE_EVENT_FORK:
		case PTRACE_EVENT_VFORK:
			if (take_child(t, ret_child, e) < 0)
				return -1;
			continue;
		case 0:
			if (inject_regs(t, &r, e) < 0)
				return -1;
			if (WSTOPSIG(status) == SIGTRAP && r.rip == t->page + sizeof(code))
				return 0;
			if (WSTOPSIG(status) == SIGSEGV || WSTOPSIG(status) == SIGILL)
				return err_set(e, ERR_INTERNAL, "process %d fails (%d at %llx)",
					       (int)t->pid, WSTOPSIG(status),
					       (unsigned long long)r.rip);
		}
	}
	return err_set(e, ERR_TIMEOUT, "process %d does not make our calls", (int)t->pid);
}

int inject_batch(struct inject *t, struct inject_call *calls, size_t n, struct inject *ret_child,
		 struct err *e)
{
	struct entry table[INJECT_CALLS_MAX];
	struct user_regs_struct r;
	size_t i;

	if (!n || n > INJECT_CALLS_MAX)
		return err_set(e, ERR_INTERNAL, "a batch of %zu calls", n);
	for (i = 0; i < n; i++) {
		table[i] = (struct entry){.nr = (uint64_t)calls[i].nr,
					  .result = (uint64_t)-ECANCELED,
					  .may_fail = !calls[i].what};
		memcpy(table[i].arg, calls[i].arg, sizeof(table[i].arg));
	}
	if (copy_tracee_memory(t, t->page + TABLE_AT, table, n * sizeof(*table), 1, e) < 0 ||
	    inject_regs(t, &r, e) < 0)
		return -1;
	r.rip = t->page;
	r.rbx = t->page + TABLE_AT;
	r.rbp = n;
	r.orig_rax = ~0UL; /* no call to restart */
	if (inject_set_regs(t, &r, e) < 0 || run_call_table(t, ret_child, e) < 0 ||
	    copy_tracee_memory(t, t->page + TABLE_AT, table, n * sizeof(*table), 0, e) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		calls[i].result = (long)table[i].result;
		if (calls[i].what && calls[i].result < 0 && calls[i].result >= -4095) {
			errno = (int)-calls[i].result;
			return err_sys(e, "%s", calls[i].what);
		}
	}
	return 0;
}

int inject_rseq(const struct inject *t, uint64_t ret[3], struct err *e)
{
	struct ptrace_rseq_configuration c = {.rseq_abi_pointer = 0};

	if (trace(PTRACE_GET_RSEQ_CONFIGURATION, t->pid, sizeof(c), (uintptr_t)&c) < 0) {
		if (syscall(SYS_rseq, NULL, 0, 0, 0) < 0 && errno == ENOSYS)
			return 0;
		return err_set(e, ERR_UNSUPPORTED,
			       "zygotes need Linux 5.13, which tells of restartable sequences");
	}
	if (!c.rseq_abi_pointer)
		return 0;
	ret[0] = c.rseq_abi_pointer;
	ret[1] = c.rseq_abi_size;
	ret[2] = c.signature;
	return 1;
}

int inject_release(struct inject *t, const struct user_regs_struct *regs, struct err *e)
{
	struct user_regs_struct r = *regs;

	r.orig_rax = ~0UL;
	if (inject_set_regs(t, &r, e) < 0)
		return -1;
	if (trace(PTRACE_DETACH, t->pid, 0, 0) < 0)
		return err_sys(e, "let process %d go", (int)t->pid);
	t->pid = 0;
	return 0;
}
#else
int inject_available(struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED, "zygotes exist on x86_64 alone");
}

int inject_try(pid_t pid, uint64_t deadline_ms, struct err *e)
{
	(void)pid, (void)deadline_ms;
	return inject_available(e);
}
#endif

void inject_end(struct inject *t)
{
	int status;

	if (t->pid <= 0)
		return;
	/* a tracee of ours is not reaped by anybody else before us */
	kill(t->pid, SIGKILL);
	while (waitpid(t->pid, &status, __WALL) >= 0 || errno == EINTR)
		if (WIFEXITED(status) || WIFSIGNALED(status))
			break;
	t->pid = 0;
}
