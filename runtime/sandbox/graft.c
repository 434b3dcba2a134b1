/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S48 of SECURITY.md.  Made on x86_64 alone; runtime/kernel/inject.h. */
#include "runtime/sandbox/graft.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/types.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/kernel/inject.h"
#include "runtime/kernel/landlock.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#define RSEQ_UNREGISTER 1
#define FDS_MAX (GRAFT_NS_COUNT + CGROUP_JOIN_MAX + 1)

#ifdef __x86_64__

/* Offsets in the injected page (inject_room()). */
enum {
	AT_PAIR = 0,
	AT_MSG = 64,
	AT_IOV = 128,
	AT_CONTROL = 192,
	AT_NULL = 512,
	AT_ROOT = 544,
	AT_ZERO = 560,
	AT_GROUPS = 1024,
	AT_CAPS = 2048,
	AT_RULESET = 2112,
	AT_BENEATH = 2176,
	AT_WORKDIR = 4096
};

struct work {
	const struct graft_stock *stock;
	const struct graft_place *place;
	struct inject zygote, enterer, born, fork;
	struct user_regs_struct at_fork; /* registers of the zygote as it entered fork(2) */
	int fd[FDS_MAX];                 /* descriptors in the enterer, in the order of send_fds() */
	size_t fd_count;
	int null_fd, root_fd; /* descriptors in the newborn process */
	uint64_t rseq[3];     /* inject_rseq(), of the zygote, which has none while: */
	int rseq_aside;
};

#define CALL(n, text, ...)                                                                         \
	{                                                                                          \
		.nr = (n), .arg = {__VA_ARGS__}, .what = (text)                                    \
	}

/* ---- the zygote, until it forks ------------------------------------------------------------ */

static int one_byte(struct inject *t, struct err *e)
{
	struct user_regs_struct r;

	if (inject_regs(t, &r, e) < 0)
		return -1;
	r.rax = 1;
	r.orig_rax = ~0UL;
	return inject_set_regs(t, &r, e);
}

/* Ends the zygote's read(2) of stdin, which now returns as if a byte had come. */
static int end_read(struct work *w, struct err *e)
{
	struct inject_call nothing = CALL(SYS_getpid, "wake the zygote");
	struct user_regs_struct r;

	if (inject_regs(&w->zygote, &r, e) < 0)
		return -1;
	if (r.orig_rax != SYS_read || (long)r.rax > -512 || (long)r.rax < -516) {
		do
			if (inject_next_entry(&w->zygote, &r, e) < 0)
				return -1;
		while (r.orig_rax != SYS_read || r.rdi != STDIN_FILENO);
		if (inject_replace(&w->zygote, &nothing, e) < 0)
			return -1;
	}
	return one_byte(&w->zygote, e);
}

static int reach_fork(struct work *w, struct err *e)
{
	do
		if (inject_next_entry(&w->zygote, &w->at_fork, e) < 0)
			return -1;
	while (w->at_fork.orig_rax != SYS_clone && w->at_fork.orig_rax != SYS_fork);
	return 0;
}

static int rseq(struct work *w, struct inject *t, int flags, struct err *e)
{
	struct inject_call c = CALL(SYS_rseq, "set restartable sequences", w->rseq[0], w->rseq[1],
				    (uint64_t)flags, w->rseq[2]);

	return flags ? inject_replace(t, &c, e) : inject_call(t, &w->at_fork, &c, e);
}

/*
 * Maps the page, at the entry stop of the fork that the zygote wanted to make. If the zygote had a
 * restartable sequence that seemed to contain our page, the kernel would jump from there to the
 * zygote's code, while its filters are suspended: so it gets none before it runs on.
 */
static int map_page(struct work *w, struct err *e)
{
	struct inject_call map = CALL(SYS_mmap, "map a page in the zygote", 0, INJECT_PAGE,
				      PROT_READ | PROT_WRITE | PROT_EXEC,
				      MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0);
	const int has = inject_rseq(&w->zygote, w->rseq, e);

	if (has < 0 || inject_unfilter(&w->zygote, 1, e) < 0)
		return -1;
	if (has) {
		uint64_t left[3];

		if (rseq(w, &w->zygote, RSEQ_UNREGISTER, e) < 0)
			return -1;
		if (inject_rseq(&w->zygote, left, e) != 0)
			return err_set(e, ERR_INTERNAL, "the zygote has kept its rseq(2)");
	}
	w->rseq_aside = has;
	if ((has ? inject_call(&w->zygote, &w->at_fork, &map, e) :
		   inject_replace(&w->zygote, &map, e)) < 0)
		return -1;
	return inject_map(&w->zygote, (uint64_t)map.result, e);
}

/* ---- the one that enters the namespaces ----------------------------------------------------- */

static int make_enterer(struct work *w, struct err *e)
{
	/*
	 * Its parent is the zygote's init, which reaps it.  Its memory is a copy: it, or what it
	 * clones, joins the sandbox's cgroups, and if that is out of memory, the kernel kills
	 * whatever shares memory with the process that it chooses.
	 */
	struct inject_call c = CALL(SYS_clone, "clone a helper", CLONE_PARENT, 0, 0, 0, 0);

	return inject_batch(&w->zygote, &c, 1, &w->enterer, e);
}

static int send_fds(const struct work *w, int sock, struct err *e)
{
	const struct graft_place *p = w->place;
	int fd[FDS_MAX];
	size_t n = 0;

	fd[n++] = p->control_fd;
	memcpy(fd + n, p->task_fd, p->task_count * sizeof(int));
	n += p->task_count;
	memcpy(fd + n, p->ns_fd, GRAFT_NS_COUNT * sizeof(int));
	n += GRAFT_NS_COUNT - (p->ns_fd[GRAFT_TIME] < 0);
	return fdpass_send(sock, "", 1, fd, n) < 0 ? err_sys(e, "hand descriptors to the fork") :
						     (int)n;
}

/* A socket pair of its own, one end of which we take. */
static int pass_fds(struct work *w, struct err *e)
{
	struct inject *t = &w->enterer;
	struct inject_call pair = CALL(SYS_socketpair, "make a socket pair", AF_UNIX,
				       SOCK_SEQPACKET | SOCK_CLOEXEC, 0, inject_room(t, AT_PAIR));
	struct inject_call take =
		CALL(SYS_recvmsg, "take descriptors", 0, inject_room(t, AT_MSG), MSG_CMSG_CLOEXEC);
	struct iovec iov = {(void *)inject_room(t, AT_ZERO), 1};
	struct msghdr m = {.msg_iov = (void *)inject_room(t, AT_IOV),
			   .msg_iovlen = 1,
			   .msg_control = (void *)inject_room(t, AT_CONTROL),
			   .msg_controllen = CMSG_SPACE(sizeof(w->fd))};
	autoclose int pidfd = (int)syscall(SYS_pidfd_open, t->pid, 0);
	autoclose int far = -1;
	int ends[2], n;
	struct cmsghdr head;

	if (pidfd < 0)
		return err_sys(e, "open the helper");
	if (inject_batch(t, &pair, 1, NULL, e) < 0 ||
	    inject_get(t, AT_PAIR, ends, sizeof(ends), e) < 0)
		return -1;
	far = (int)syscall(SYS_pidfd_getfd, pidfd, ends[1], 0);
	if (far < 0)
		return err_sys(e, "take the helper's socket");
	n = send_fds(w, far, e);
	take.arg[0] = (uint64_t)ends[0];
	if (n < 0 || inject_put(t, AT_IOV, &iov, sizeof(iov), e) < 0 ||
	    inject_put(t, AT_MSG, &m, sizeof(m), e) < 0 || inject_batch(t, &take, 1, NULL, e) < 0 ||
	    inject_get(t, AT_CONTROL, &head, sizeof(head), e) < 0)
		return -1;
	if (head.cmsg_level != SOL_SOCKET || head.cmsg_type != SCM_RIGHTS ||
	    head.cmsg_len != CMSG_LEN((size_t)n * sizeof(int)))
		return err_set(e, ERR_INTERNAL, "the helper did not get its descriptors");
	w->fd_count = (size_t)n;
	return inject_get(t, AT_CONTROL + CMSG_LEN(0), w->fd, (size_t)n * sizeof(int), e);
}

static int enter_graft_namespaces(struct work *w, struct err *e)
{
	struct inject_call c[GRAFT_TIME + 1];
	const int *fd = w->fd + 1 + w->place->task_count;
	size_t i;

	for (i = 0; i < GRAFT_TIME; i++)
		c[i] = (struct inject_call)CALL(SYS_setns, "enter the sandbox's namespaces",
						(uint64_t)fd[i], (uint64_t)graft_ns_kinds[i].flag);
	/* born in the new pid namespace; its parent is the zygote's init, too */
	c[i] = (struct inject_call)CALL(SYS_clone, "clone a helper in the sandbox",
					CLONE_VM | CLONE_PARENT, 0, 0, 0, 0);
	return inject_batch(&w->enterer, c, i + 1, &w->born, e);
}

/* ---- the one that is born in the sandbox, and the fork ----------------------------------------
 */

static int join_graft_cgroups(struct work *w, struct err *e)
{
	struct inject *t = &w->born;
	struct inject_call c[2 + CGROUP_JOIN_MAX] = {
		CALL(SYS_open, "open the sandbox's /dev/null", inject_room(t, AT_NULL),
		     O_RDWR | O_CLOEXEC, 0),
		CALL(SYS_open, "open the sandbox's /", inject_room(t, AT_ROOT),
		     O_PATH | O_DIRECTORY | O_CLOEXEC, 0),
	};
	char pid[24];
	size_t i;

	snprintf(pid, sizeof(pid), "%d", (int)t->pid);
	if (cgroup_write(w->place->cgroup_fd, "cgroup.procs", pid) < 0)
		return err_sys(e, "move the fork to the sandbox's cgroup");
	for (i = 0; i < w->place->task_count; i++)
		c[2 + i] = (struct inject_call)CALL(SYS_write, "join the sandbox's cgroups",
						    (uint64_t)w->fd[1 + i], inject_room(t, AT_ZERO),
						    1);
	if (inject_put(t, AT_NULL, "/dev/null", 10, e) < 0 ||
	    inject_put(t, AT_ROOT, "/", 2, e) < 0 || inject_put(t, AT_ZERO, "0", 2, e) < 0 ||
	    inject_batch(t, c, 2 + i, NULL, e) < 0)
		return -1;
	w->null_fd = (int)c[0].result;
	w->root_fd = (int)c[1].result;
	return 0;
}

/* The fork that the zygote asked for, with what libc wants of it and no other flag. */
static int make_graft_fork(struct work *w, pid_t *ret_inner, struct err *e)
{
	const uint64_t may = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
	const struct user_regs_struct *r = &w->at_fork;
	struct inject_call c =
		CALL(SYS_clone, "fork the zygote",
		     (r->orig_rax == SYS_clone ? r->rdi & may : 0) | SIGCHLD, 0, 0, r->r10, 0);

	if (inject_batch(&w->born, &c, 1, &w->fork, e) < 0)
		return -1;
	*ret_inner = (pid_t)c.result;
	return 0;
}

static int put_arguments(struct work *w, struct err *e)
{
	struct inject *t = &w->fork;
	const uint64_t caps = w->stock->uid ? 0 : w->stock->caps;
	struct {
		struct __user_cap_header_struct h;
		struct __user_cap_data_struct d[2];
	} c = {{_LINUX_CAPABILITY_VERSION_3, 0},
	       {{(uint32_t)caps, (uint32_t)caps, 0},
		{(uint32_t)(caps >> 32), (uint32_t)(caps >> 32), 0}}};
	struct landlock_words words = landlock_home(w->root_fd);

	return inject_put(t, AT_GROUPS, w->stock->groups, sizeof(w->stock->groups), e) < 0 ||
			       inject_put(t, AT_CAPS, &c, sizeof(c), e) < 0 ||
			       inject_put(t, AT_RULESET, words.ruleset, sizeof(words.ruleset), e) <
				       0 ||
			       inject_put(t, AT_BENEATH, words.beneath, sizeof(words.beneath), e) <
				       0 ?
		       -1 :
		       0;
}

/* Room for what follows in the table. */
struct list {
	struct inject_call c[INJECT_CALLS_MAX];
	size_t n;
};

static void add_injected_call(struct list *l, const char *what, long nr, uint64_t a, uint64_t b, uint64_t c,
		uint64_t d)
{
	l->c[l->n++] = (struct inject_call)CALL(nr, what, a, b, c, d);
}

/* Arranges the descriptors, as runtime/init/exec.c does for a command. */
static void list_descriptors(const struct work *w, struct list *l)
{
	uint64_t i;

	for (i = 0; i < 3; i++)
		add_injected_call(l, "set up stdio", SYS_dup3, (uint64_t)w->null_fd, i, 0, 0);
	add_injected_call(l, "set up the control socket", SYS_dup3, (uint64_t)w->fd[0], GRAFT_CONTROL_FD, 0, 0);
	add_injected_call(l, "close descriptors", SYS_close_range, GRAFT_CONTROL_FD + 1, ~0U, 0, 0);
}

static void list_bounding_set(const struct work *w, struct list *l)
{
	uint64_t i;

	for (i = 0; i <= CAP_LAST_CAP; i++)
		if (!(w->stock->caps & 1ULL << i))
			/* EINVAL past the kernel's last capability; the result is read back */
			add_injected_call(l, NULL, SYS_prctl, PR_CAPBSET_DROP, i, 0, 0);
}

/*
 * Lets the fork open only files below its own root, and so not the zygote's program file, to which
 * /proc/self/exe leads: by locks on it two forks could communicate.
 */
static void list_landlock(const struct work *w, struct list *l, int ruleset)
{
	if (landlock_abi() < 2)
		return;
	if (ruleset < 0) {
		add_injected_call(l, "make a Landlock ruleset", SYS_landlock_create_ruleset,
		    inject_room(&w->fork, AT_RULESET), 8, 0, 0);
		return;
	}
	add_injected_call(l, "add a Landlock rule", SYS_landlock_add_rule, (uint64_t)ruleset, 1,
	    inject_room(&w->fork, AT_BENEATH), 0);
	add_injected_call(l, "enter the Landlock domain", SYS_landlock_restrict_self, (uint64_t)ruleset, 0, 0, 0);
}

/* Makes and enters the working directory as init does for a command: as root, for the user. */
static int enter_graft_workdir(struct work *w, struct err *e)
{
	const uint64_t path = inject_room(&w->fork, AT_WORKDIR);
	const struct graft_stock *s = w->stock;
	struct inject_call make[] = {
		CALL(SYS_setresgid, "become root of the sandbox", 0, 0, 0),
		CALL(SYS_setresuid, "become root of the sandbox", 0, 0, 0),
		CALL(SYS_mkdir, NULL, path, 0755),
	};
	struct inject_call give = CALL(SYS_lchown, NULL, path, s->uid, s->gid);
	const size_t len = s->workdir ? strlen(s->workdir) + 1 : 0;

	if (!s->uid || !len || len > INJECT_ROOM - AT_WORKDIR)
		return 0;
	if (inject_put(&w->fork, AT_WORKDIR, s->workdir, len, e) < 0 ||
	    inject_batch(&w->fork, make, ARRAY_LEN(make), NULL, e) < 0)
		return -1;
	return make[2].result < 0 ? 0 : inject_batch(&w->fork, &give, 1, NULL, e);
}

static int confine_graft(struct work *w, struct err *e)
{
	struct list l = {.n = 0};
	const struct graft_stock *s = w->stock;
	int ruleset = 0;
	size_t keyring;

	if (put_arguments(w, e) < 0 || enter_graft_workdir(w, e) < 0)
		return -1;
	if (w->place->ns_fd[GRAFT_TIME] >= 0)
		add_injected_call(&l, "enter the sandbox's clocks", SYS_setns, (uint64_t)w->fd[w->fd_count - 1],
		    CLONE_NEWTIME, 0, 0);
	list_landlock(w, &l, -1);
	if (l.n && inject_batch(&w->fork, l.c, l.n, NULL, e) < 0)
		return -1;
	if (landlock_abi() >= 2)
		ruleset = (int)l.c[l.n - 1].result;
	l.n = 0;
	list_landlock(w, &l, ruleset);
	list_descriptors(w, &l);
	add_injected_call(&l, "start a session", SYS_setsid, 0, 0, 0, 0);
	keyring = l.n;
	add_injected_call(&l, NULL, SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0);
	list_bounding_set(w, &l);
	add_injected_call(&l, "set groups", SYS_setgroups, s->group_count, inject_room(&w->fork, AT_GROUPS), 0,
	    0);
	add_injected_call(&l, "set the group", SYS_setresgid, s->gid, s->gid, s->gid, 0);
	add_injected_call(&l, "set the user", SYS_setresuid, s->uid, s->uid, s->uid, 0);
	add_injected_call(&l, "drop capabilities", SYS_capset, inject_room(&w->fork, AT_CAPS),
	    inject_room(&w->fork, AT_CAPS) + sizeof(struct __user_cap_header_struct), 0, 0);
	add_injected_call(&l, "keep no_new_privs", SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0);
	add_injected_call(&l, "be dumpable", SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0);
	if (inject_batch(&w->fork, l.c, l.n, NULL, e) < 0)
		return -1;
	/* otherwise it would have the zygote's keyring; a kernel without keyrings has none to share */
	if (l.c[keyring].result < 0 && l.c[keyring].result != -ENOSYS) {
		errno = (int)-l.c[keyring].result;
		return err_sys(e, "make a session keyring");
	}
	return 0;
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static int unmap(struct work *w, struct inject *t, struct err *e)
{
	struct inject_call c = CALL(SYS_munmap, "unmap our page", w->zygote.page, INJECT_PAGE);

	return inject_call(t, &w->at_fork, &c, e);
}

static int make_graft(struct work *w, struct graft *ret, struct err *e)
{
	struct user_regs_struct in_child = w->at_fork;

	if (map_page(w, e) < 0 || make_enterer(w, e) < 0 || pass_fds(w, e) < 0 || enter_graft_namespaces(w, e) < 0)
		return -1;
	inject_end(&w->enterer);
	if (join_graft_cgroups(w, e) < 0 || make_graft_fork(w, &ret->inner, e) < 0)
		return -1;
	inject_end(&w->born); /* the fork becomes a child of its sandbox's init */
	if (confine_graft(w, e) < 0 || unmap(w, &w->fork, e) < 0 ||
	    (w->rseq_aside && rseq(w, &w->fork, 0, e) < 0) ||
	    inject_unfilter(&w->fork, 0, e) < 0 ||
	    graft_verify(w->stock, w->place, w->fork.pid, e) < 0)
		return -1;
	ret->pid = w->fork.pid;
	in_child.rax = 0;
	return inject_release(&w->fork, &in_child, e);
}

/* The zygote goes on as if it had forked, or could not. */
static int let_zygote_go(struct work *w, int made, struct err *e)
{
	struct user_regs_struct r = w->at_fork;

	r.rax = made ? (unsigned long)w->zygote.pid : (unsigned long)-EAGAIN;
	if ((w->zygote.page && unmap(w, &w->zygote, e) < 0) ||
	    (w->rseq_aside && rseq(w, &w->zygote, 0, e) < 0))
		return -1;
	return inject_unfilter(&w->zygote, 0, e) < 0 ? -1 : inject_release(&w->zygote, &r, e);
}

int graft_fork(const struct graft_stock *s, const struct graft_place *p, unsigned ms,
	       struct graft *ret, struct err *e)
{
	struct work w = {.stock = s, .place = p};
	struct err second;
	int r;

	if (inject_available(e) < 0)
		return -1;
	if (inject_seize(&w.zygote, s->pid, clock_ms() + ms, e) < 0 || end_read(&w, e) < 0 ||
	    reach_fork(&w, e) < 0 || graft_check_alone(s, e) < 0) {
		inject_end(&w.zygote); /* it is not the process that was examined */
		e->code = ERR_BUSY; /* the caller of this fork did not cause it */
		return err_wrap(e, "fork the zygote");
	}
	r = make_graft(&w, ret, e);
	inject_end(&w.enterer);
	inject_end(&w.born);
	inject_end(&w.fork);
	/* a sandbox that takes all the time, as by want of CPU, does not end the zygote */
	w.zygote.deadline_ms = clock_ms() + ms;
	if (let_zygote_go(&w, r == 0, &second) < 0)
		inject_end(&w.zygote); /* the fork is whole, but there will be no other */
	return r < 0 ? err_wrap(e, "fork the zygote") : 0;
}
#else
int graft_fork(const struct graft_stock *s, const struct graft_place *p, unsigned ms,
	       struct graft *ret, struct err *e)
{
	(void)s;
	(void)p;
	(void)ms;
	(void)ret;
	return inject_available(e);
}
#endif

/* ---- what may be forked, and what became of it ---- */

/* Checks what of a zygote may be forked, and what the kernel reports about the fork. Upholds S1 and
 * S48 of SECURITY.md. */

#ifndef CLONE_NEWTIME
#endif

#define TRY_MS 10000 /* time until the zygote stops */

const struct graft_ns_kind graft_ns_kinds[] = {
	[GRAFT_USER] = {"user", CLONE_NEWUSER}, [GRAFT_MNT] = {"mnt", CLONE_NEWNS},
	[GRAFT_IPC] = {"ipc", CLONE_NEWIPC},    [GRAFT_UTS] = {"uts", CLONE_NEWUTS},
	[GRAFT_NET] = {"net", CLONE_NEWNET},    [GRAFT_CGROUP] = {"cgroup", CLONE_NEWCGROUP},
	[GRAFT_PID] = {"pid", CLONE_NEWPID},    [GRAFT_TIME] = {"time", CLONE_NEWTIME},
};

_Static_assert(ARRAY_LEN(graft_ns_kinds) == GRAFT_NS_COUNT, "one row for each namespace");

/* Opens the namespaces. Before Linux 6.3 a process that has made a time namespace stays in the old
 * one after execve(2). */
int graft_open_namespaces(pid_t pid, struct graft_place *p, struct err *e)
{
	char path[56];
	size_t i;

	for (i = 0; i < GRAFT_NS_COUNT; i++) {
		snprintf(path, sizeof(path), "/proc/%d/ns/%s%s", (int)pid, graft_ns_kinds[i].file,
			 i == GRAFT_TIME ? "_for_children" : "");
		p->ns_fd[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (p->ns_fd[i] < 0 && (i != GRAFT_TIME || errno != ENOENT))
			return err_sys(e, "open %s", path);
	}
	return 0;
}

/* ---- what may be forked ----------------------------------------------------------------- */

int graft_read_proc(pid_t pid, const char *file, struct buf *b, struct err *e)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return io_read_file(AT_FDCWD, path, b, e);
}

static const char *after(const char *text, const char *key)
{
	const char *p = strstr(text, key);

	return p ? p + strlen(key) : "";
}

/*
 * Checks that no other process runs in its sandbox: it could share memory with, or trace, the
 * process that enters another sandbox.
 */
int graft_check_alone(const struct graft_stock *s, struct err *e)
{
	char text[4096], *p = text, path[48];
	struct stat st;
	long pid;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)s->pid);
	if (stat(path, &st) < 0)
		return err_sys(e, "look at the zygote's threads");
	if (st.st_nlink != 3)
		return err_set(e, ERR_INVALID,
			       "the preload has %u threads, and a fork has one; hint: let it "
			       "start none, as by -e OPENBLAS_NUM_THREADS=1",
			       (unsigned)st.st_nlink - 2);
	if (cgroup_read(s->cgroup_fd, "cgroup.procs", text, sizeof(text)) < 0)
		return err_sys(e, "look at the zygote's processes");
	while (*p) {
		pid = strtol(p, &p, 10);
		p += strspn(p, "\n");
		if (pid != s->pid && pid != s->init)
			return err_set(e, ERR_INVALID,
				       "the preload has started a process that still runs; hint: "
				       "let it wait for its end");
	}
	return graft_check_maps(s->pid, e);
}

int graft_examine(struct graft_stock *s, uint32_t id_base, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 16);
	const char *p;
	char *end;

	if (graft_check_alone(s, e) < 0 || graft_read_proc(s->pid, "status", &b, e) < 0)
		return -1;
	s->uid = (uint32_t)strtoul(after(b.data, "\nUid:\t"), NULL, 10) - id_base;
	s->gid = (uint32_t)strtoul(after(b.data, "\nGid:\t"), NULL, 10) - id_base;
	s->filters = (unsigned)strtoul(after(b.data, "\nSeccomp_filters:\t"), NULL, 10);
	p = after(b.data, "\nGroups:\t");
	for (s->group_count = 0; *p != '\n' && *p; p = end + strspn(end, " ")) {
		uint32_t gid = (uint32_t)strtoul(p, &end, 10);

		if (end == p)
			break;
		if (s->group_count == GRAFT_GROUPS_MAX)
			return err_set(e, ERR_LIMIT, "the zygote's user has more than %d groups",
				       GRAFT_GROUPS_MAX);
		s->groups[s->group_count++] = gid - id_base;
	}
	return inject_try(s->pid, clock_ms() + TRY_MS, e);
}

/* ---- what the kernel says of the fork (S1) ------------------------------------------------------
 */

static int check_graft_number(const char *status, const char *key, int base, uint64_t want, struct err *e)
{
	uint64_t got = strtoull(after(status, key), NULL, base);

	return got == want ? 0 :
			     err_set(e, ERR_INTERNAL,
				     "the kernel reports %.*s %llx of the fork, not %llx",
				     (int)strcspn(key + 1, ":"), key + 1, (unsigned long long)got,
				     (unsigned long long)want);
}

static int check_graft_namespaces(const struct graft_place *p, pid_t pid, struct err *e)
{
	char path[48];
	struct stat a, b;
	size_t i;

	for (i = 0; i < GRAFT_NS_COUNT; i++) {
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, graft_ns_kinds[i].file);
		if (p->ns_fd[i] < 0)
			continue;
		if (stat(path, &a) < 0 || fstat(p->ns_fd[i], &b) < 0)
			return err_sys(e, "look at %s", path);
		if (a.st_ino != b.st_ino)
			return err_set(e, ERR_INTERNAL,
				       "the fork is not in the %s namespace of its sandbox",
				       graft_ns_kinds[i].file);
	}
	return 0;
}

/* Tells whether the line of a /proc/PID/cgroup names the cgroup leaf. */
static int is_leaf(const char *line, const char *leaf)
{
	const size_t n = strcspn(line, "\n"), of_leaf = leaf ? strlen(leaf) : 0;

	return leaf && n > of_leaf && line[n - of_leaf - 1] == '/' &&
	       !strncmp(line + n - of_leaf, leaf, of_leaf);
}

/*
 * Checks the cgroups: in each hierarchy that of the sandbox's init, or the leaf; in the v2 tree it
 * must be the leaf.
 */
static int check_cgroups(const struct graft_place *p, pid_t pid, struct err *e)
{
	autobuf struct buf a = BUF_INIT(1 << 16), b = BUF_INIT(1 << 16);
	const char *of_fork, *of_init;
	int right;

	if (graft_read_proc(pid, "cgroup", &a, e) < 0 ||
	    graft_read_proc(p->init, "cgroup", &b, e) < 0)
		return -1;
	of_fork = a.data ? a.data : "";
	of_init = b.data ? b.data : "";
	right = *of_fork && *of_init;
	while (right && *of_fork && *of_init) {
		const char *fork_end = strchrnul(of_fork, '\n');
		const char *init_end = strchrnul(of_init, '\n');
		const size_t n = (size_t)(fork_end - of_fork), m = (size_t)(init_end - of_init);

		right = is_leaf(of_fork, p->leaf) ||
			(n == m && !strncmp(of_fork, of_init, n) &&
			 (!p->leaf || strncmp(of_fork, "0::", 3)));
		right = right && !strncmp(of_fork, of_init, strcspn(of_fork, "/"));
		of_fork = fork_end + (*fork_end == '\n');
		of_init = init_end + (*init_end == '\n');
	}
	return right && !*of_fork && !*of_init ?
		       0 :
		       err_set(e, ERR_INTERNAL, "the fork is not in the cgroups of its sandbox");
}

int graft_verify(const struct graft_stock *s, const struct graft_place *p, pid_t pid, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 16);
	const uint64_t caps = s->uid ? 0 : s->caps;

	if (graft_read_proc(pid, "status", &b, e) < 0 ||
	    check_graft_number(b.data, "\nCapBnd:\t", 16, s->caps, e) < 0 ||
	    check_graft_number(b.data, "\nCapPrm:\t", 16, caps, e) < 0 ||
	    check_graft_number(b.data, "\nCapEff:\t", 16, caps, e) < 0 ||
	    check_graft_number(b.data, "\nCapInh:\t", 16, 0, e) < 0 ||
	    check_graft_number(b.data, "\nCapAmb:\t", 16, 0, e) < 0 ||
	    check_graft_number(b.data, "\nNoNewPrivs:\t", 10, 1, e) < 0 ||
	    check_graft_number(b.data, "\nSeccomp:\t", 10, 2, e) < 0 ||
	    check_graft_number(b.data, "\nSeccomp_filters:\t", 10, s->filters, e) < 0 ||
	    check_graft_number(b.data, "\nThreads:\t", 10, 1, e) < 0)
		return -1;
	return check_graft_namespaces(p, pid, e) < 0 ? -1 : check_cgroups(p, pid, e);
}

/* ---- the memory of a zygote ---- */

/*
 * The memory of a zygote, which is looked at before each fork.  Upholds S48 of SECURITY.md.
 *
 * Linux 6.11 answers in binary, and by kind of mapping: an interpreter with its libraries has
 * hundreds, and a few of the kinds that matter.  What it says is enough to go on; all else is read
 * from the text files, which cost twenty times as much.
 */

/* linux/fs.h of Linux 6.11; Debian 12's headers are older */
struct map_query {
	__u64 size, flags, at, start, end, vma_flags, page_size, offset, inode;
	__u32 dev_major, dev_minor, name_size, build_id_size;
	__u64 name, build_id;
};

#define MAP_QUERY _IOWR('f', 17, struct map_query)
enum { MAP_IS_SHARED = 0x08, MAP_OR_NEXT = 0x10, MAP_OF_FILE = 0x20 };

/*
 * Memory that the fork and the zygote would both write to: a shared mapping that is writable or
 * may become so ("mw" of proc_pid_smaps(5)).
 */
static int check_shared_text(pid_t pid, struct err *e)
{
	autobuf struct buf b = BUF_INIT(64 << 20);
	char *line, *next, name[160] = "";
	int shared = 0;

	if (graft_read_proc(pid, "smaps", &b, e) < 0)
		return -1;
	for (line = b.data; line && *line; line = next) {
		char perms[5] = "";

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!strncmp(line, "VmFlags:", 8)) {
			if (shared && strstr(line, " mw"))
				return err_set(e, ERR_INVALID,
					       "the preload shares memory that its forks would "
					       "share too (%s); hint: let it make no shared memory",
					       name[0] ? name : "anonymous");
		} else if (strchr(line, '-') && sscanf(line, "%*x-%*x %4s", perms) == 1) {
			shared = perms[3] == 's';
			name[0] = '\0';
			(void)!sscanf(line, "%*s %*s %*s %*s %*s %159[^\n]", name);
		}
	}
	return 0;
}

/* The device of files that have no other name than a descriptor or a key: memfd_create(2),
 * shmget(2) and shared anonymous memory. */
static int memory_device(dev_t *ret, struct err *e)
{
	autoclose int fd = memfd_create("berth", MFD_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "learn the device of memory files");
	*ret = st.st_dev;
	return 0;
}

/*
 * Checks private mappings of memory files. A fork that only reads such a file allocates its pages,
 * private mapping or not, and leaves them to the zygote, where no limit of a sandbox bounds them.
 * (Other file systems in memory have a size.) smaps cost the kernel a walk through all pages, maps
 * do not.
 */
static int check_private_maps(pid_t pid, dev_t memory, struct err *e)
{
	autobuf struct buf b = BUF_INIT(64 << 20);
	const char *line;
	int shared = 0;

	if (graft_read_proc(pid, "maps", &b, e) < 0)
		return -1;
	for (line = b.data; line && *line; line += *line == '\n') {
		unsigned int of_major, of_minor;
		const char *name;
		char perms[5];

		if (sscanf(line, "%*x-%*x %4s %*x %x:%x", perms, &of_major, &of_minor) != 3)
			return err_set(e, ERR_INTERNAL, "the kernel lists mappings in another way");
		name = line + strcspn(line, "/\n");
		if (makedev(of_major, of_minor) == memory)
			return err_set(e, ERR_INVALID,
				       "the preload shares memory that its forks would "
				       "share too (%.*s); hint: let it make no shared memory",
				       (int)strcspn(name, "\n"), name);
		shared |= perms[3] == 's';
		line += strcspn(line, "\n");
	}
	return shared ? check_shared_text(pid, e) : 0;
}

int graft_check_maps_text(pid_t pid, struct err *e)
{
	dev_t memory = 0;

	return memory_device(&memory, e) < 0 ? -1 : check_private_maps(pid, memory, e);
}

/*
 * Tells whether a shared mapping can never be written to, because its file was opened for reading
 * only (mmap(2)): the mode of the entry is that of the opening (proc_pid_map_files(5)).
 */
static int is_read_only_map(pid_t pid, const struct map_query *q)
{
	char path[80];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)pid,
		 (unsigned long long)q->start, (unsigned long long)q->end);
	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && !(st.st_mode & S_IWUSR);
}

/* Returns 1 if none of its mappings of this kind matters; 0: the text of maps must tell. */
static int are_harmless(pid_t pid, int maps_fd, __u64 kind, dev_t memory)
{
	struct map_query q = {.size = sizeof(q), .flags = kind | MAP_OR_NEXT};

	for (; ioctl(maps_fd, MAP_QUERY, &q) == 0; q.at = q.end) {
		if (makedev(q.dev_major, q.dev_minor) == memory ||
		    (q.vma_flags & MAP_IS_SHARED && !is_read_only_map(pid, &q)))
			return 0;
		q = (struct map_query){.size = sizeof(q), .flags = q.flags, .end = q.end};
	}
	return errno == ENOENT; /* there are no more */
}

int graft_check_maps(pid_t pid, struct err *e)
{
	autoclose int fd = -1;
	dev_t memory = 0;
	char path[32];

	if (memory_device(&memory, e) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open %s", path);
	return are_harmless(pid, fd, MAP_OF_FILE, memory) &&
			       are_harmless(pid, fd, MAP_IS_SHARED, memory) ?
		       0 :
		       check_private_maps(pid, memory, e);
}
