/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/backlog.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

struct question {
	struct nlmsghdr h;
	struct unix_diag_req r;
};

struct answer {
	struct nlmsghdr h;
	struct unix_diag_msg m;
	char attributes[512];
};

/* The length of the queue of the socket with this inode; 0 also when the kernel does not say. */
static unsigned ask(uint32_t inode)
{
	autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	struct question q = {
		.h = {.nlmsg_len = sizeof(q),
		      .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		      .nlmsg_flags = NLM_F_REQUEST},
		.r = {.sdiag_family = AF_UNIX,
		      .udiag_states = ~0U,
		      .udiag_ino = inode,
		      .udiag_show = UDIAG_SHOW_RQLEN,
		      .udiag_cookie = {~0U, ~0U}},
	};
	struct answer a;
	struct rtattr *one = (struct rtattr *)a.attributes;
	ssize_t n;

	if (fd < 0 || send(fd, &q, sizeof(q), 0) != (ssize_t)sizeof(q))
		return 0;
	n = recv(fd, &a, sizeof(a), 0);
	if (n < (ssize_t)offsetof(struct answer, attributes) ||
	    a.h.nlmsg_type != SOCK_DIAG_BY_FAMILY || a.m.udiag_ino != inode)
		return 0;
	n -= (ssize_t)offsetof(struct answer, attributes);
	for (; RTA_OK(one, n); one = RTA_NEXT(one, n))
		if (one->rta_type == UNIX_DIAG_RQLEN &&
		    RTA_PAYLOAD(one) >= sizeof(struct unix_diag_rqlen))
			return ((struct unix_diag_rqlen *)RTA_DATA(one))->udiag_rqueue;
	return 0;
}

unsigned backlog_count(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct stat st;
	unsigned n;

	if (poll(&p, 1, 0) != 1)
		return 0;
	n = fstat(fd, &st) < 0 ? 0 : ask((uint32_t)st.st_ino);
	return n ? n : 1;
}
