/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a session's command, looked at from outside. */
#include "manager/keeper/keeper_session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#define LOOK_US 100
#define FREEZE_MS 120	/* a process that has used up its CPU time waits for more, 100 ms at most; a process
			 * that waits for a disk freezes later */
#define VFORK_MS 250
#define LEVELS_MAX 32	/* levels of parents looked at: each is a file read, and there may be many
			 * processes */

int look_command_pids(struct keeper_command *c, pid_t **ret, size_t *ret_count)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	char few[1024], *p, *end;
	struct err ignored;
	size_t n = 0;
	int got;

	*ret = NULL;
	*ret_count = 0;
	got = cgroup_read_held(&c->leaf, HELD_PROCS, c->leaf.v2_fd, "cgroup.procs", few, sizeof(few));
	p = few;
	if (got == (int)sizeof(few) - 1) {
		autoclose int fd = openat(c->leaf.v2_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);

		got = fd < 0 || io_read_all(fd, &b, "cgroup.procs", &ignored) < 0 ? -1 : (int)b.len;
		p = b.data;
	}
	if (got <= 0)
		return -1;
	*ret = calloc((size_t)got / 2 + 1, sizeof(**ret));
	if (!*ret)
		return -1;
	for (; *p; p = *end ? end + 1 : end) {
		long v = strtol(p, &end, 10);

		if (end == p)
			break;
		if (v > 0)
			(*ret)[n++] = (pid_t)v;
	}
	*ret_count = n;
	return 0;
}

int look_pids(struct keeper *k, const struct keeper_session *s, pid_t **ret, size_t *ret_count)
{
	struct keeper_command *c = keeper_command_find(k, s->shell_seq);

	*ret = NULL;
	*ret_count = 0;
	return c ? look_command_pids(c, ret, ret_count) : -1;
}

/* /proc/PID/FILE, cut to n - 1 bytes: its length, -1 when the process is gone. */
static int read_proc_file(pid_t pid, const char *file, char *buf, unsigned n)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	return cgroup_read(AT_FDCWD, path, buf, n);
}

int look_process(pid_t pid, struct process *ret)
{
	char text[512], *p;

	return read_proc_file(pid, "stat", text, sizeof(text)) > 0 && (p = strrchr(text, ')')) &&
	       sscanf(p, ") %*c %d %d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &ret->parent, &ret->group,
		      &ret->flags, &ret->started) == 4 ? 0 : -1;
}

static unsigned long long set_of(const char *text, const char *field)
{
	unsigned long long set = 0;
	const char *p = strstr(text, field);

	if (p)
		sscanf(p + strlen(field), "%llx", &set);
	return set;
}

struct signals look_signals(pid_t pid)
{
	char text[4096];

	if (read_proc_file(pid, "status", text, sizeof(text)) <= 0)
		return (struct signals){ ~0ULL, ~0ULL, ~0ULL };
	return (struct signals){ set_of(text, "\nSigPnd:") | set_of(text, "\nShdPnd:"), set_of(text, "\nSigIgn:"), set_of(text, "\nSigCgt:") };
}

/* The oldest of them whose parent is not one of them. */
static pid_t eldest(const pid_t *pids, size_t n)
{
	unsigned long long started = ~0ULL;
	struct process p;
	pid_t found = 0;
	size_t i, j;

	for (i = 0; i < n; i++) {
		if (look_process(pids[i], &p) < 0 || p.started >= started)
			continue;
		for (j = 0; j < n && pids[j] != p.parent; j++)
			;
		if (j == n) {
			started = p.started;
			found = pids[i];
		}
	}
	return found;
}

pid_t look_shell(const struct keeper_session *s, const pid_t *pids, size_t n)
{
	char text[4096], *p;
	unsigned host, inner;
	size_t i;

	/* init has not reported it yet, or we have not read the report */
	if (!s->shell_ns_pid)
		return eldest(pids, n);
	for (i = 0; i < n; i++)
		if (read_proc_file(pids[i], "status", text, sizeof(text)) > 0 && (p = strstr(text, "\nNSpid:")) &&
		    sscanf(p, "\nNSpid: %u %u", &host, &inner) == 2 && inner == s->shell_ns_pid)
			return pids[i];
	return 0;
}

int look_is_older(const struct keeper_session *s, pid_t pid)
{
	size_t i;

	for (i = 0; i < s->baseline_count; i++)
		if (s->baseline[i] == pid)
			return 1;
	return 0;
}

int look_is_of_older(const struct keeper_session *s, pid_t shell, pid_t pid)
{
	struct process p;
	int level;

	if (look_is_older(s, pid))
		return 1;
	/* the shell alone was there */
	if (s->baseline_count <= 1)
		return 0;
	for (level = 0; level < LEVELS_MAX && look_process(pid, &p) == 0 && p.parent > 1 && p.parent != shell; level++) {
		pid = p.parent;
		if (look_is_older(s, pid))
			return 1;
	}
	return 0;
}

/* ---- while they stand still ------------------------------------------------------------------ */

void look_pause(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_US * 1000L }, NULL);
}

int look_freeze(struct keeper_command *c)
{
	uint64_t end = clock_ms() + FREEZE_MS;
	struct err ignored;
	char text[256];

	if (cgroup_read(c->leaf.v2_fd, "cgroup.freeze", text, sizeof(text)) <= 0 || text[0] != '0' ||
	    cgroup_freeze(&c->leaf, 1, &ignored) < 0)
		return 0;
	/* the kernel sends this event at most every 10 ms; the state can be read at once */
	while (cgroup_read(c->leaf.v2_fd, "cgroup.events", text, sizeof(text)) > 0 && !strstr(text, "frozen 1") && clock_ms() < end)
		look_pause();
	return 1;
}

void look_thaw(struct keeper_command *c)
{
	struct err ignored;

	cgroup_freeze(&c->leaf, 0, &ignored);
}

static unsigned long long now_ticks(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (unsigned long long)now.tv_sec * 100 + (unsigned long long)now.tv_nsec / 10000000;
}

/* Tells whether it waits in vfork(2), or is just leaving it. */
static int is_in_vfork(pid_t pid)
{
	unsigned long long number = 0, flags = 0;
	char text[200];

	if (read_proc_file(pid, "syscall", text, sizeof(text)) <= 0 || sscanf(text, "%llu %llx", &number, &flags) != 2)
		return 0;
#ifdef SYS_vfork
	if (number == SYS_vfork)
		return 1;
#endif
	return number == SYS_clone && flags & CLONE_VFORK;
}

void look_begin(struct keeper *k, struct keeper_session *s, struct look *l)
{
	const uint64_t end = clock_ms() + VFORK_MS;

	*l = (struct look){ .c = s->busy ? keeper_command_find(k, s->shell_seq) : NULL, .at_ticks = now_ticks() };
	for (; l->c; look_pause()) {
		l->frozen = look_freeze(l->c);
		l->shell = look_pids(k, s, &l->pids, &l->n) == 0 ? look_shell(s, l->pids, l->n) : 0;
		if (!l->shell || !l->frozen || !is_in_vfork(l->shell) || clock_ms() >= end)
			break;
		free(l->pids);
		look_thaw(l->c);
	}
}

void look_end(struct look *l)
{
	free(l->pids);
	if (l->frozen)
		look_thaw(l->c);
}

/* ---- commands that wait for input ---- */

/*
 * Finds out whether a command waits for input from its terminal, from the calls in which its
 * processes are blocked.
 */

/* Returns 1 if fd of pid is the sandbox's terminal. */
static int is_terminal(pid_t pid, unsigned long long fd)
{
	char path[64], target[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/fd/%llu", pid, fd);
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return 0;
	target[len] = '\0';
	return !strncmp(target, "/dev/pts/", 9) || !strcmp(target, "/dev/tty");
}

static int read_process_memory(pid_t pid, unsigned long long address, void *buf, size_t n)
{
	char path[40];
	autoclose int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && pread(fd, buf, n, (off_t)address) == (ssize_t)n ? 0 : -1;
}

static int selects_terminal(pid_t pid, unsigned long long nfds, unsigned long long readfds)
{
	unsigned char set[128];
	unsigned long long fd;

	if (!readfds || read_process_memory(pid, readfds, set, sizeof(set)) < 0)
		return 0;
	for (fd = 0; fd < nfds && fd < sizeof(set) * 8; fd++)
		if (set[fd / 8] & 1 << fd % 8 && is_terminal(pid, fd))
			return 1;
	return 0;
}

static int polls_terminal(pid_t pid, unsigned long long fds, unsigned long long nfds)
{
	struct pollfd p[64];
	size_t n = nfds > 64 ? 64 : (size_t)nfds, i;

	if (!n || read_process_memory(pid, fds, p, n * sizeof(p[0])) < 0)
		return 0;
	for (i = 0; i < n; i++)
		if (p[i].fd >= 0 && p[i].events & POLLIN && is_terminal(pid, (unsigned)p[i].fd))
			return 1;
	return 0;
}

/* Tells whether pid is blocked in a call that waits for input from the terminal (proc_pid_syscall(5)). */
static int waits_for_input(pid_t pid)
{
	char path[40], text[256];
	unsigned long long a0, a1;
	long nr;

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	if (cgroup_read(AT_FDCWD, path, text, sizeof(text)) <= 0 || sscanf(text, "%ld 0x%llx 0x%llx", &nr, &a0, &a1) != 3)
		return 0;
	switch (nr) {
	case SYS_read:
		return is_terminal(pid, a0);
#ifdef SYS_select
	case SYS_select:
#endif
	case SYS_pselect6:
		return selects_terminal(pid, a0, a1);
#ifdef SYS_poll
	case SYS_poll:
#endif
	case SYS_ppoll:
		return polls_terminal(pid, a0, a1);
	default:
		return 0;
	}
}

static int reads_terminal(struct keeper_command *c, int tty_fd)
{
	pid_t *pids = NULL, group = 0;
	size_t n = 0, i;
	int found = 0;

	if (ioctl(tty_fd, TIOCGPGRP, &group) < 0 || look_command_pids(c, &pids, &n) < 0)
		return 0;
	for (i = 0; i < n && !found; i++)
		found = getpgid(pids[i]) == group && waits_for_input(pids[i]);
	free(pids);
	return found;
}

int session_reads_terminal(struct keeper *k, const struct keeper_session *s)
{
	struct keeper_command *c = keeper_command_find(k, s->shell_seq);

	return c && s->tty_fd >= 0 && !s->split && reads_terminal(c, s->tty_fd);
}

/* The end of a line or of input counts, too: an empty one is something that a reader gets. */
static int has_unread(int master)
{
	autoclose int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct pollfd p = { .fd = slave, .events = POLLIN };

	return slave >= 0 && poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

int input_end_terminal(struct keeper_command *c, int late)
{
	int unread = has_unread(c->in_fd), awaited = !unread && reads_terminal(c, c->in_fd);

	if (!awaited && !late)
		return 0;
	if (unread && c->end_unread)
		return 1;
	if (write(c->in_fd, "\004", 1) < 0 && errno == EAGAIN)
		return 0;
	c->end_unread = !awaited;
	return 1;
}
