/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netns - the network namespace of a sandbox that has no network, made on another CPU.
 *
 * It is the dearest of the namespaces (half a millisecond).  So a short-lived process of ours makes it in the
 * sandbox's user namespace, while the child builds the root and the supervisor prepares mounts; the child enters
 * it by descriptor.  The process shares our memory and descriptors, executes nothing, and is gone before
 * init's program is handed over: nothing of the sandbox ever runs beside it.
 */
#ifndef BERTH_RUNTIME_NETNS_H
#define BERTH_RUNTIME_NETNS_H

#include <sys/types.h>

#include "base/err.h"

struct netns {
	pid_t pid;	/* of the maker; 0: none */
	int userns_fd;	/* borrowed */
	int fd;		/* the namespace, once made; else -1 */
	const char *failed;	/* the step that did, and os_errno why */
	int os_errno;
	_Alignas(16) char stack[8192];
};

/* Starts to make one, with its loopback interface up.  n and userns_fd must stay until netns_stop(). */
int netns_start(struct netns *n, int userns_fd, struct err *e);
/* Waits until it is made: n->fd. */
int netns_wait(struct netns *n, struct err *e);
/* Ends the maker and closes the descriptor.  Idempotent; n may be all zero but for fd -1. */
void netns_stop(struct netns *n);
/* The loopback interface of the caller's network namespace.  0, or -1 with errno. */
int netns_loopback_up(void);

#endif
