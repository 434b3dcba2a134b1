/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/registry/httpwire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int httpwire_send(int sock, const json_t *j, int fd, struct err *e)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	union control control = { 0 };
	struct iovec iov = { text, text ? strlen(text) : 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t r;

	if (!text)
		return err_nomem(e);
	if (iov.iov_len > HTTPWIRE_MAX)
		return err_set(e, ERR_LIMIT, "a request to berth-http has %zu bytes", iov.iov_len);
	if (fd >= 0) {
		struct cmsghdr *c;

		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	do
		r = sendmsg(sock, &m, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	/* the text holds passwords */
	explicit_bzero(text, iov.iov_len);
	if (r < 0 && errno == EAGAIN)
		return err_set(e, ERR_BUSY, "the socket is full");
	return r < 0 ? err_code_sys(e, ERR_INTERNAL, "speak with the other half of the registry client") : 0;
}

static int take_descriptor(struct msghdr *m)
{
	struct cmsghdr *c = m->msg_controllen ? CMSG_FIRSTHDR(m) : NULL;
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

int httpwire_recv(int sock, json_t **ret_j, int *ret_fd, struct err *e)
{
	autofree char *text = malloc(HTTPWIRE_MAX);
	union control control = { 0 };
	struct iovec iov = { text, HTTPWIRE_MAX };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	autoclose int fd = -1;
	ssize_t r;

	if (!text)
		return err_nomem(e);
	if (ret_fd) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
	}
	do
		r = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	if (r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return err_set(e, ERR_BUSY, "nothing to read");
	if (r < 0 && errno != ECONNRESET)
		return err_sys(e, "hear the other half of the registry client");
	if (r <= 0)
		return 0;
	if (ret_fd)
		fd = take_descriptor(&m);
	if (m.msg_flags & MSG_TRUNC)
		return err_set(e, ERR_INTERNAL, "a packet of the registry client is too long");
	*ret_j = json_parse(text, (size_t)r, HTTPWIRE_MAX, "registry client", e);
	explicit_bzero(text, (size_t)r);
	if (!*ret_j)
		return -1;
	if (ret_fd)
		*ret_fd = take_fd(&fd);
	return 1;
}
