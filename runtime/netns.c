/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rawcall.h"

/*
 * In the maker: system calls only, and not by the C library, whose errno is the supervisor's there.
 * When one said why it failed, the supervisor took that for its own reason.
 */
static int made_step(struct netns *n, long answer, const char *step)
{
	if (answer >= 0)
		return 1;
	n->failed = step;
	n->os_errno = (int)-answer;
	return 0;
}

/*
 * Not instrumented: the maker's stack lies in the supervisor's memory, and when the maker is killed
 * what AddressSanitizer had marked of it would be taken for the supervisor's.
 */
#define UNINSTRUMENTED __attribute__((no_sanitize_address))

UNINSTRUMENTED static long loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	long fd = rawcall(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0);
	long r = fd < 0 ? fd : rawcall(SYS_ioctl, fd, SIOCSIFFLAGS, (long)&ifr, 0);

	if (fd >= 0)
		rawcall(SYS_close, fd, 0, 0, 0);
	return r;
}

UNINSTRUMENTED static int make(void *arg)
{
	struct netns *n = arg;
	long fd = -1;

	if (made_step(n, rawcall(SYS_setns, n->userns_fd, CLONE_NEWUSER, 0, 0), "enter the sandbox's user namespace") &&
	    made_step(n, rawcall(SYS_unshare, CLONE_NEWNET, 0, 0, 0), "make the sandbox's network namespace") &&
	    made_step(n, loopback_up(), "bring up the loopback interface") &&
	    made_step(n, fd = rawcall(SYS_openat, AT_FDCWD, (long)"/proc/self/ns/net", O_RDONLY | O_CLOEXEC, 0),
		      "open the sandbox's network namespace"))
		n->fd = (int)fd;
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

int netns_loopback_up(void)
{
	long r = loopback_up();

	errno = r < 0 ? (int)-r : errno;
	return r < 0 ? -1 : 0;
}
