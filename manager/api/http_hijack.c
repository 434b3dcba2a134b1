/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that become streams of bytes (http_reply_hijack()).
 *
 * If the client asked for an upgrade, the library's upgrade is used, which hands over the bytes
 * after the request. Otherwise the client gets a reply without a length, which ends with the
 * connection; it must not send before it has the head.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "manager/api/http_state.h"

#define HEAD_TAKEN_MS 2000

void http_hijack_release(struct http_request *rq)
{
	if (rq->hijack.release)
		rq->hijack.release(rq->hijack.ctx);
	rq->hijack = (struct http_hijack){ 0 };
}

/*
 * Python's clients read the head through a buffer and the stream without it: bytes that come with
 * the head are lost to them.  So nothing follows before the client has taken the head, which a unix
 * socket tells (SIOCOUTQ, unix(7)).
 */
static void await_head_taken(const struct http_request *rq, int fd)
{
	uint64_t end = clock_ms() + HEAD_TAKEN_MS;
	int left = 0;

	while (!rq->conn->is_tcp && !ioctl(fd, SIOCOUTQ, &left) && left && clock_ms() < end) {
		struct pollfd gone = { .fd = fd };

		/* a fresh look every 100 us: the client mostly needs less */
		if (ppoll(&gone, 1, &(struct timespec){ .tv_nsec = 100000 }, NULL) > 0)
			return;
	}
}

static void run(struct http_request *rq, int fd, const char *extra, size_t n)
{
	http_phase_set(rq->conn, PHASE_RUN);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	await_head_taken(rq, fd);
	rq->hijack.run(rq->hijack.ctx, rq, fd, extra, n);
	http_hijack_release(rq);
}

static void on_upgrade(void *cls, struct MHD_Connection *mhd, void *con_cls, const char *extra,
		       size_t n, MHD_socket fd, struct MHD_UpgradeResponseHandle *urh)
{
	(void)mhd;
	(void)con_cls;
	run(cls, fd, extra, n);
	shutdown(fd, SHUT_RDWR);
	MHD_upgrade_action(urh, MHD_UPGRADE_ACTION_CLOSE);
}

static int asks_for_upgrade(const struct http_request *rq)
{
	const char *connection = http_header(rq, "Connection");

	return http_header(rq, "Upgrade") && connection && strcasestr(connection, "upgrade");
}

int http_reply_hijack(struct http_request *rq, const char *type, const struct http_hijack *h,
		      struct err *e)
{
	rq->hijack = *h;
	snprintf(rq->hijack_type, sizeof(rq->hijack_type), "%s", type);
	rq->status = 200;
	if (!asks_for_upgrade(rq))
		return 0;
	if (http_reply_set(rq, 101, type, MHD_create_response_for_upgrade(on_upgrade, rq), e) < 0)
		return -1;
	return http_reply_header(rq, "Upgrade", "tcp", e);
}

void http_hijack_plain(struct http_request *rq)
{
	char head[200];
	int n = snprintf(head, sizeof(head),
			 "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close\r\n\r\n",
			 rq->hijack_type);

	/* nothing was sent on this connection that the socket's buffer would not take */
	if (send(rq->conn->fd, head, (size_t)n, MSG_NOSIGNAL) == n)
		run(rq, rq->conn->fd, NULL, 0);
}
