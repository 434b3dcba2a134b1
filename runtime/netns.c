/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

int netns_loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &ifr);
}

/*
 * In the maker.  System calls only: it has the supervisor's memory, errno included.  When one fails here,
 * an error that the supervisor meets at that moment may be told wrongly; the sandbox fails either way.
 */
static int make(void *arg)
{
	struct netns *n = arg;

	if (setns(n->userns_fd, CLONE_NEWUSER) < 0)
		n->failed = "enter the sandbox's user namespace";
	else if (unshare(CLONE_NEWNET) < 0)
		n->failed = "make the sandbox's network namespace";
	else if (netns_loopback_up() < 0)
		n->failed = "bring up the loopback interface";
	else if ((n->fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) < 0)
		n->failed = "open the sandbox's network namespace";
	n->os_errno = errno;
	return 0;
}

int netns_start(struct netns *n, int userns_fd, struct err *e)
{
	n->userns_fd = userns_fd;
	n->fd = -1;
	n->failed = NULL;
	/* no signal at its end: the supervisor waits for it by name */
	n->pid = clone(make, n->stack + sizeof(n->stack), CLONE_VM | CLONE_FILES, n);
	if (n->pid < 0) {
		n->pid = 0;
		return err_sys(e, "start the maker of the network namespace");
	}
	return 0;
}

static int reap(struct netns *n)
{
	int status = 0;

	while (n->pid && waitpid(n->pid, &status, __WALL) < 0 && errno == EINTR)
		;
	n->pid = 0;
	return status;
}

int netns_wait(struct netns *n, struct err *e)
{
	int status = reap(n);

	if (n->failed)
		return err_errno(e, n->os_errno, "%s", n->failed);
	return status || n->fd < 0 ? err_set(e, ERR_INTERNAL, "the maker of the network namespace was killed") : 0;
}

void netns_stop(struct netns *n)
{
	if (n->pid)
		kill(n->pid, SIGKILL);
	reap(n);
	fd_close(&n->fd);
}
