/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a command waits for input from its terminal: seen from the calls its processes are blocked in. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/keeper/keeper_look.h"
#include "manager/keeper/keeper_session.h"

/* 1 when fd of pid is the sandbox's terminal. */
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

static int read_memory(pid_t pid, unsigned long long address, void *buf, size_t n)
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

	if (!readfds || read_memory(pid, readfds, set, sizeof(set)) < 0)
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

	if (!n || read_memory(pid, fds, p, n * sizeof(p[0])) < 0)
		return 0;
	for (i = 0; i < n; i++)
		if (p[i].fd >= 0 && p[i].events & POLLIN && is_terminal(pid, (unsigned)p[i].fd))
			return 1;
	return 0;
}

/* Is pid blocked in a call that waits for input from the terminal (proc_pid_syscall(5))? */
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
