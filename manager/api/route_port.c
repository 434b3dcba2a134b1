/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to a port of a sandbox, whatever its network: the request's own, which becomes a
 * stream of bytes.  Upholds S57 of SECURITY.md; whose sandbox it is decides box_find() (S19).
 *
 * The keeper hands over a socket of the sandbox's loopback (keeper_network.c), and berthd joins the
 * two (base/joint.h).  It counts as an endless reply of its client.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/joint.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/api/api.h"
#include "manager/keeper/netclient.h"

/* ctx is the socket in the sandbox. */
static void release_port(void *ctx)
{
	int *fd = ctx;

	fd_close(fd);
	free(fd);
}

/* What came with the request's head. */
static int send_port_extra(struct http_request *rq, int fd, const char *extra, size_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct err e;
	ssize_t sent;

	while (n) {
		sent = send(fd, extra, n, MSG_NOSIGNAL);
		if (sent > 0) {
			extra += sent;
			n -= (size_t)sent;
		} else if (http_poll(rq, &p, 1, -1, &e) < 0 || p.revents & POLLERR) {
			return -1;
		}
	}
	return 0;
}

static void run_port(void *ctx, struct http_request *rq, int fd, const char *extra, size_t n)
{
	struct joint j = JOINT_INIT;
	struct joint_spares spares = { .n = 0 };
	struct pollfd p[2] = { { .fd = -1 }, { .fd = -1 } };
	struct err e;
	int r;

	j.fd[0] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	j.fd[1] = take_fd(ctx);
	http_half_open(rq);
	if (j.fd[0] >= 0 && send_port_extra(rq, j.fd[1], extra, n) == 0) {
		joint_keep_alive(j.fd[0]);
		do {
			r = joint_move(&j, &spares);
			/* what was received before a reset has gone through now */
			if (r >= 0 && (p[0].revents | p[1].revents) & POLLERR)
				break;
			joint_polls(&j, p);
		} while (r >= 0 && http_poll(rq, p, 2, -1, &e) >= 0);
	}
	joint_release(&j, 1);
	joint_spares_release(&spares);
}

/* 1: *ret_fd is connected; 0: nothing listens there; -1. */
static int connect_port(struct box *b, uint16_t port, int with6, int *ret_fd, struct err *e)
{
	autojson json_t *answer = NULL;
	autoclose int fd = -1;
	int r;

	answer = box_call(b, netport_request(port, with6), NULL, 0, &fd, e);
	if (!answer)
		return e->code == ERR_NOT_FOUND && !b->ended ? 0 : -1;
	if (fd < 0)
		return err_set(e, ERR_INTERNAL, "the keeper answered without a socket");
	if (http_wait(b->rq, fd, POLLOUT, -1, e) < 0)
		return -1;
	r = netport_connected(fd, port, e);
	if (r > 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static int get_port(struct http_request *rq, struct err *e)
{
	struct http_hijack h = { run_port, release_port, NULL };
	const char *upgrade = http_header(rq, "Upgrade");
	uint64_t port = 0;
	struct box b;
	int fd = -1, *kept, r;

	r = box_connect(&b, rq, e);
	if (r == 0)
		r = num_u64(http_param(rq, "port"), "port", 1, UINT16_MAX, &port, e);
	if (r == 0 && (!upgrade || strcasecmp(upgrade, "tcp")))
		r = err_set(e, ERR_INVALID, "a port is a stream of bytes both ways; hint: Connection: Upgrade, Upgrade: tcp");
	if (r == 0)
		r = http_endless(rq, e);
	if (r == 0)
		r = connect_port(&b, (uint16_t)port, 0, &fd, e);
	if (r == 0)
		r = connect_port(&b, (uint16_t)port, 1, &fd, e);
	if (r == 0)
		r = netport_nothing(b.id, (uint16_t)port, e);
	box_close(&b);
	if (r < 0)
		return -1;
	kept = malloc(sizeof(*kept));
	if (!kept) {
		fd_close(&fd);
		return err_nomem(e);
	}
	*kept = fd;
	h.ctx = kept;
	return http_reply_hijack(rq, "application/octet-stream", &h, e);
}

const struct http_route port_routes[] = {
	{ "GET", "/v1/sandboxes/{id}/ports/{port}", get_port,
	  "a connection to a port of its loopback, whatever its network: with Upgrade: tcp the bytes both ways", HTTP_NONE,
	  HTTP_UPGRADES, .type = "application/octet-stream" },
	{ NULL },
};
