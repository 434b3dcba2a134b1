/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/fdpass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	char space[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
	struct cmsghdr align;
};

int fdpass_sendv(int sock, const struct iovec *part, size_t parts, const int *fds, size_t count)
{
	struct msghdr m = { .msg_iov = (struct iovec *)part, .msg_iovlen = parts };
	union control ctl;
	struct cmsghdr *cm;
	ssize_t r;

	if (count > FDPASS_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (count) {
		memset(&ctl, 0, CMSG_SPACE(count * sizeof(int)));
		m.msg_control = ctl.space;
		m.msg_controllen = CMSG_SPACE(count * sizeof(int));
		cm = CMSG_FIRSTHDR(&m);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, count * sizeof(int));
	}
	do
		r = sendmsg(sock, &m, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -1 : 0;
}

int fdpass_send2(int sock, const void *head, size_t head_len, const void *body, size_t body_len,
		 const int *fds, size_t count)
{
	const struct iovec part[] = { { (void *)head, head_len }, { (void *)body, body_len } };

	return fdpass_sendv(sock, part, body_len ? 2 : 1, fds, count);
}

int fdpass_send(int sock, const void *p, size_t n, const int *fds, size_t count)
{
	return fdpass_send2(sock, p, n, NULL, 0, fds, count);
}

ssize_t fdpass_recv_flags(int sock, void *p, size_t n, int *fds, size_t max, size_t *ret_count, int flags)
{
	struct iovec iov = { p, n };
	union control ctl;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.space,
			    .msg_controllen = sizeof(ctl.space) };
	struct cmsghdr *cm;
	size_t got = 0;
	ssize_t r;

	do
		r = recvmsg(sock, &m, flags | MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	*ret_count = 0;
	if (r < 0)
		return -1;
	for (cm = CMSG_FIRSTHDR(&m); cm; cm = CMSG_NXTHDR(&m, cm)) {
		size_t i, count;

		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		count = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(fd));
			if (got < max)
				fds[got++] = fd;
			else
				close(fd);
		}
	}
	*ret_count = got;
	return r;
}

ssize_t fdpass_recv(int sock, void *p, size_t n, int *fds, size_t max, size_t *ret_count)
{
	return fdpass_recv_flags(sock, p, n, fds, max, ret_count, 0);
}
