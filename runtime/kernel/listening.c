/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/listening.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define STATE_LISTEN 0x0a	/* TCP_LISTEN of include/net/tcp_states.h */

int listening_line(const char *line, uint16_t *ret_port)
{
	unsigned port, state;

	if (strstr(line, "local_address"))
		return 0;
	if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &port, &state) != 2 ||
	    state != STATE_LISTEN || port > UINT16_MAX)
		return -1;
	*ret_port = (uint16_t)port;
	return 1;
}

/* Takes the whole lines of text: 1 when one has the port, -1 after the last that can, else 0. */
static int take_socket_lines(char *text, size_t *n, uint16_t port)
{
	char *line = text, *end;
	uint16_t found;
	int r;

	while ((end = memchr(line, '\n', *n - (size_t)(line - text)))) {
		*end = '\0';
		r = listening_line(line, &found);
		if (r < 0 || (r > 0 && found == port))
			return r;
		line = end + 1;
	}
	*n -= (size_t)(line - text);
	memmove(text, line, *n);
	return 0;
}

static int find_listening_socket(int pid, const char *file, uint16_t port, struct err *e)
{
	char path[40], text[4096];
	autoclose int fd = -1;
	size_t n = 0;
	ssize_t got;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* a kernel without IPv6 has no tcp6 */
	if (fd < 0)
		return errno == ENOENT && strchr(file, '6') ? 0 : err_sys(e, "open %s", path);
	while ((got = read(fd, text + n, sizeof(text) - n)) > 0) {
		n += (size_t)got;
		r = take_socket_lines(text, &n, port);
		if (r)
			return r > 0;
		if (n == sizeof(text))
			return err_set(e, ERR_CORRUPT, "%s has a line of %zu bytes", path, n);
	}
	return got < 0 ? err_sys(e, "read %s", path) : 0;
}

int listening_has(int pid, uint16_t port, struct err *e)
{
	const int r = find_listening_socket(pid, "tcp", port, e);

	return r ? r : find_listening_socket(pid, "tcp6", port, e);
}

/* ---- clients that wait at a unix socket ---- */

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
static unsigned ask_unix_backlog(uint32_t inode)
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
	n = fstat(fd, &st) < 0 ? 0 : ask_unix_backlog((uint32_t)st.st_ino);
	return n ? n : 1;
}
