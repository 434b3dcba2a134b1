/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init - pid 1 of a sandbox.
 *
 * Theory of operation.  The supervisor (berth run, or a keeper) clones a child
 * into fresh namespaces; the child builds the root file system, drops every
 * privilege, loads init's seccomp filter and executes this program from a sealed
 * memfd.  From then on init holds /dev/null as 0 to 2, the socket to its
 * supervisor, a signalfd, and no way to reach the host.  It
 *   - checks that the kernel reports the confinement that was asked for and
 *     refuses to start anything otherwise (T10);
 *   - starts commands and reports how they end;
 *   - reaps everything else that is reparented to it;
 *   - ends, and with it everything in the pid namespace, when the supervisor
 *     closes the socket or dies (PR_SET_PDEATHSIG, set before we were executed).
 * The payload shares our uid 0 and may signal us: as pid 1 we ignore what we
 * have no handler for, and we have none.  We are not dumpable, so it can
 * neither trace us nor open our descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/capability.h>

#include "runtime/init/exec.h"
#include "runtime/sandbox/initproto.h"

#define COMMANDS_MAX 1024
#define LATE_MS 1

struct running {
	pid_t pid;	/* 0: a free slot */
	uint32_t seq;
	uint32_t last;
};

static struct running commands[COMMANDS_MAX];

/* An INIT_STARTED that is sent late, so that a short command wakes the supervisor only once; type 0: none. */
static struct init_reply late;

static void send_now(struct init_reply *r)
{
	r->magic = INIT_MAGIC;
	while (send(INIT_SOCKET_FD, r, sizeof(*r), MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			_exit(1);	/* the supervisor is gone: so are we */
}

static void send_late(void)
{
	if (late.type)
		send_now(&late);
	late.type = 0;
}

static void send_init_reply(struct init_reply *r)
{
	send_late();
	send_now(r);
}

/* The value of "Key:\t" in /proc/self/status, in the base given. */
static int own_status_value(const char *text, const char *key, int base, uint64_t *ret)
{
	const char *p = strstr(text, key);

	if (!p)
		return -1;
	*ret = strtoull(p + strlen(key), NULL, base);
	return 0;
}

/* Reads /proc/self/status; it may be longer than one page on other kernels. */
static int read_own_status(char *text, size_t n)
{
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t r;

	if (fd < 0)
		return -1;
	while (len < n - 1 && (r = read(fd, text + len, n - 1 - len)) > 0)
		len += (size_t)r;
	close(fd);
	text[len] = '\0';
	return 0;
}

/* The payload does not inherit the signals that berth's caller ignored. */
static void reset_ignored(const char *status)
{
	const uint64_t defaults[4] = { 0 };	/* the kernel's struct sigaction: SIG_DFL, no flags, no mask */
	uint64_t ignored;
	int i;

	if (own_status_value(status, "\nSigIgn:\t", 16, &ignored) < 0)
		ignored = ~0ULL;
	for (i = 1; i < _NSIG; i++)
		if (ignored & 1ULL << (i - 1))
			/* musl's own call refuses three of them */
			syscall(SYS_rt_sigaction, i, &defaults, NULL, 8);
}

/* Fail closed: the kernel's report about us must match the request (T10, S1). */
static int verify(const struct init_expect *want, struct err *e)
{
	char text[8192];
	uint64_t v;

	if (read_own_status(text, sizeof(text)) < 0)
		return err_sys(e, "read /proc/self/status in the sandbox");
	if (own_status_value(text, "\nCapBnd:\t", 16, &v) < 0 || v != want->cap_bounding)
		return err_set(e, ERR_INTERNAL, "the kernel reports capability bounding set %llx, not %llx",
			       (unsigned long long)v, (unsigned long long)want->cap_bounding);
	if (own_status_value(text, "\nCapInh:\t", 16, &v) < 0 || v)
		return err_set(e, ERR_INTERNAL, "the kernel reports inheritable capabilities");
	if (own_status_value(text, "\nCapAmb:\t", 16, &v) < 0 || v)
		return err_set(e, ERR_INTERNAL, "the kernel reports ambient capabilities");
	if (own_status_value(text, "\nNoNewPrivs:\t", 10, &v) < 0 || v != want->no_new_privs)
		return err_set(e, ERR_INTERNAL, "the kernel does not report no_new_privs");
	if (want->seccomp_filters) {
		if (own_status_value(text, "\nSeccomp:\t", 10, &v) < 0 || v != 2)
			return err_set(e, ERR_INTERNAL, "the kernel does not report a seccomp filter");
		/* Seccomp_filters is Linux 5.9 */
		if (own_status_value(text, "\nSeccomp_filters:\t", 10, &v) < 0 || v < want->seccomp_filters)
			return err_set(e, ERR_INTERNAL, "the kernel reports %llu seccomp filters, not %u",
				       (unsigned long long)v, want->seccomp_filters);
	}
	reset_ignored(text);	/* the file is read anyway: 2 calls instead of 64 */
	return 0;
}

/*
 * We were executed with KILL, SETUID and SETGID inheritable, so that we can
 * switch users and signal even when the payload may not; nothing passes on.
 */
static int drop_inheritable(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d) < 0)
		return -1;
	d[0].inheritable = d[1].inheritable = 0;
	return (int)syscall(SYS_capset, &h, d);
}

static struct running *running_slot(pid_t pid)
{
	size_t i;

	for (i = 0; i < COMMANDS_MAX; i++)
		if (commands[i].pid == pid)
			return &commands[i];
	return NULL;
}

/*
 * The values that verify() reads cannot get worse once they are right: a bounding set only shrinks,
 * no_new_privs and filters stay, and only we could raise what we inherit or pass on. So one check
 * is enough.
 */
static int verify_once(const struct init_expect *want, struct err *e)
{
	static struct init_expect verified;
	static int done;

	if (done && !memcmp(&verified, want, sizeof(verified)))
		return 0;
	if (verify(want, e) < 0)
		return -1;
	verified = *want;
	done = 1;
	return 0;
}

static void handle_ping(const struct init_request *rq)
{
	struct init_reply r = { .seq = rq->seq, .type = INIT_STATUS };

	if (verify_once(&rq->expect, &r.err) < 0)
		r.type = INIT_SETUP_FAILED;
	send_init_reply(&r);
}

static void handle_exec(const struct init_request *rq, const char *blob, const struct exec_fds *fds)
{
	struct init_reply r = { .seq = rq->seq, .type = INIT_EXEC_FAILED };
	struct running *slot = running_slot(0);
	pid_t pid;

	if (!slot) {
		err_set(&r.err, ERR_LIMIT, "%d commands are running already", COMMANDS_MAX);
		send_init_reply(&r);
		return;
	}
	if (verify_once(&rq->expect, &r.err) < 0) {
		send_init_reply(&r);
		return;
	}
	pid = exec_start(rq, blob, fds, &r.err);
	if (pid < 0) {
		send_init_reply(&r);
		if (rq->flags & INIT_LAST)
			_exit(1);
		return;
	}
	slot->pid = pid;
	slot->seq = rq->seq;
	slot->last = rq->flags & INIT_LAST;
	if (rq->flags & INIT_QUIET)
		return;
	r.type = INIT_STARTED;
	r.pid = pid;
	send_late();
	if (rq->flags & INIT_LATE_START)
		late = r;
	else
		send_now(&r);
}

/* Takes over a fork of a zygote, which became our child when the process that had made it ended. */
static void handle_adopt(const struct init_request *rq)
{
	struct init_reply r = { .seq = rq->seq, .pid = (int)rq->signo, .type = INIT_EXEC_FAILED };
	struct running *slot = running_slot(0);

	if (!slot)
		err_set(&r.err, ERR_LIMIT, "%d commands are running already", COMMANDS_MAX);
	else if (verify_once(&rq->expect, &r.err) == 0)
		r.type = INIT_STARTED;
	if (r.type == INIT_STARTED)
		*slot = (struct running){ .pid = r.pid, .seq = rq->seq,
					  .last = rq->flags & INIT_LAST };
	send_init_reply(&r);
}

static void handle_signal(const struct init_request *rq)
{
	size_t i;

	for (i = 0; i < COMMANDS_MAX; i++)
		if (commands[i].pid && commands[i].seq == rq->seq)
			kill(commands[i].pid, (int)rq->signo);
}

/*
 * Processes besides us in our pid namespace, including zombies that others must reap. All of
 * them descend from our children: without children there are none.
 */
static uint32_t count_processes(void)
{
	struct dirent *d;
	siginfo_t si;
	uint32_t n = 0;
	DIR *dir;

	if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD)
		return 0;
	dir = opendir("/proc");
	while (dir && (d = readdir(dir)))
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9' && strcmp(d->d_name, "1"))
			n++;
	if (dir)
		closedir(dir);
	return n;
}

static void reap_children(void)
{
	for (;;) {
		siginfo_t si = { 0 };
		struct running *c;
		struct init_reply r = { .type = INIT_EXITED };
		uint32_t last;

		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG) < 0 || !si.si_pid)
			return;
		c = running_slot(si.si_pid);
		if (!c)
			continue;
		r.seq = c->seq;
		r.pid = si.si_pid;
		r.exited = si.si_code == CLD_EXITED;
		r.core = si.si_code == CLD_DUMPED;
		r.value = (uint32_t)si.si_status;
		last = c->last;
		c->pid = 0;
		if (last)
			r.left_behind = count_processes();
		send_init_reply(&r);
		/* while others live, the supervisor counts their use before it kills them and us */
		if (last && !r.left_behind)
			_exit(0);
	}
}

/* Names the descriptors of a request by its flags; extra or missing ones end us: the two sides are one build. */
static void sort_fds(const struct init_request *rq, const int *fds, size_t n, struct exec_fds *ret)
{
	size_t used = 0, i;

	*ret = (struct exec_fds){ .std = { -1, -1, -1 }, .shell = { -1, -1 }, .program = -1, .blob = -1, .cgroup = -1, .task_count = rq->tasks };
	if (rq->type != INIT_EXEC) {
		if (n)
			_exit(1);
		return;
	}
	if (rq->tasks > INIT_FDS_MAX ||
	    n != 3 + (rq->flags & INIT_SHELL ? 2 : 0) + !!(rq->flags & INIT_EXEC_FD) + !!(rq->flags & INIT_BLOB_FD) +
	    !!(rq->flags & INIT_CGROUP) + (size_t)rq->tasks)
		_exit(1);
	for (i = 0; i < 3; i++)
		ret->std[i] = fds[used++];
	for (i = 0; i < 2 && rq->flags & INIT_SHELL; i++)
		ret->shell[i] = fds[used++];
	if (rq->flags & INIT_EXEC_FD)
		ret->program = fds[used++];
	if (rq->flags & INIT_BLOB_FD)
		ret->blob = fds[used++];
	if (rq->flags & INIT_CGROUP)
		ret->cgroup = fds[used++];
	for (i = 0; i < rq->tasks; i++)
		ret->tasks[i] = fds[used++];
}

static void handle_init_request(const struct init_request *rq, const char *inlined, size_t inlined_len, const struct exec_fds *fds)
{
	const char *blob = inlined;
	void *map = NULL;

	if (fds->blob >= 0) {
		map = mmap(NULL, rq->blob_len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fds->blob, 0);
		if (map == MAP_FAILED)
			_exit(1);
		blob = map;
	} else if (rq->blob_len != inlined_len) {
		_exit(1);
	}
	if (rq->type == INIT_EXEC)
		handle_exec(rq, blob, fds);
	else if (rq->type == INIT_SIGNAL)
		handle_signal(rq);
	else if (rq->type == INIT_ADOPT)
		handle_adopt(rq);
	else if (rq->type == INIT_PING)
		handle_ping(rq);
	if (map)
		munmap(map, rq->blob_len);
}

/* Receives one request with its descriptors; returns 0 when the supervisor has closed the socket. */
static int receive_request(void)
{
	static struct { struct init_request rq; char blob[INIT_INLINE_MAX]; } buf;
	union { char space[CMSG_SPACE(INIT_FDS_MAX * sizeof(int))]; struct cmsghdr align; } ctl;
	struct iovec iov = { &buf, sizeof(buf) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.space,
			    .msg_controllen = sizeof(ctl.space) };
	int fds[INIT_FDS_MAX];
	struct exec_fds sorted;
	struct cmsghdr *cm;
	size_t nfds = 0, i;
	ssize_t n;

	n = recvmsg(INIT_SOCKET_FD, &m, MSG_CMSG_CLOEXEC);
	if (n <= 0)
		return n < 0 && errno == EINTR;
	for (cm = CMSG_FIRSTHDR(&m); cm; cm = CMSG_NXTHDR(&m, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		nfds = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(cm), nfds * sizeof(int));
	}
	if ((size_t)n < sizeof(buf.rq) || buf.rq.magic != INIT_MAGIC || buf.rq.blob_len > INIT_BLOB_MAX)
		_exit(1);
	sort_fds(&buf.rq, fds, nfds, &sorted);
	handle_init_request(&buf.rq, buf.blob, (size_t)n - sizeof(buf.rq), &sorted);
	for (i = 0; i < nfds; i++)
		close(fds[i]);
	return 1;
}

int main(void)
{
	struct pollfd p[2] = { { .fd = INIT_SOCKET_FD, .events = POLLIN } };
	sigset_t all;

	if (getpid() != 1) {	/* a payload that executed /proc/self/exe */
		dprintf(2, "berth-init: only for berth itself\n");
		_exit(126);
	}
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "berth-init");
	if (drop_inheritable() < 0)
		_exit(1);
	sigfillset(&all);
	if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)	/* an end that came before poll(2) would never be heard of */
		_exit(1);
	sigemptyset(&all);
	sigaddset(&all, SIGCHLD);
	p[1].fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	p[1].events = POLLIN;
	if (p[1].fd < 0)
		_exit(1);
	for (;;) {
		struct signalfd_siginfo si;
		int n;

		n = poll(p, 2, late.type ? LATE_MS : -1);
		if (n < 0) {
			if (errno == EINTR)
				continue;	/* revents are the last round's */
			_exit(1);
		}
		if (n == 0)
			send_late();
		if (p[0].revents & POLLIN) {
			if (!receive_request())
				_exit(0);
		} else if (p[0].revents) {
			_exit(0);
		}
		if (p[1].revents) {
			while (read(p[1].fd, &si, sizeof(si)) > 0)
				;
			reap_children();
		}
	}
}
