/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/zygote/home.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/zygote/client.h"
#include "manager/zygote/wire.h"
#include "runtime/kernel/fdpass.h"

#define ANSWER_S 10 /* more than the supervisor gives a zygote to fork */

static int ended(struct err *e)
{
	return err_set(e, ERR_BUSY, "the zygote has ended");
}

int zygote_home_open(struct registry *r, const char *zygote, struct zygote_home *ret, struct err *e)
{
	const struct timeval limit = {.tv_sec = ANSWER_S};
	char id[65];
	autoclose int dir = zygote_open(r, zygote, id, e);
	autoclose int sock = dir < 0 ? -1 : zygote_connect(dir, ZYGOTE_HOME, 0, zygote, e);
	struct home_place place;
	int fds[2] = {-1, -1};
	size_t n = 0;

	if (sock < 0)
		return -1;
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (fdpass_recv(sock, &place, sizeof(place), fds, 2, &n) != (ssize_t)sizeof(place))
		return ended(e);
	if (place.err.code != ERR_NONE) {
		*e = place.err;
		return -1;
	}
	if (n != 2) {
		fd_close(&fds[0]);
		return err_set(e, ERR_INTERNAL, "a place in a zygote without its namespaces");
	}
	*ret = (struct zygote_home){take_fd(&sock), "", place.id_base, place.inside};
	snprintf(ret->zygote, sizeof(ret->zygote), "%s", id);
	ret->inside.userns_fd = fds[0];
	ret->inside.pidns_fd = fds[1];
	return 0;
}

void zygote_home_close(struct zygote_home *h)
{
	if (h->sock < 0)
		return;
	fd_close(&h->sock);
	fd_close(&h->inside.userns_fd);
	fd_close(&h->inside.pidns_fd);
}

/* The `tasks` files of v1: of each hierarchy that of the leaf, where it has one. */
static size_t joins(const struct cgroup *c, const struct cgroup *leaf, int *ret_fd)
{
	struct cgroup both = *c;
	size_t i;

	for (i = 0; leaf && i < CGROUP_JOIN_MAX; i++)
		if (leaf->join_fd[i] >= 0)
			both.join_fd[i] = leaf->join_fd[i];
	return cgroup_joins(&both, ret_fd);
}

int zygote_home_fork(int sock, pid_t init, const struct cgroup *c, const struct cgroup *leaf,
		     int control, struct graft *ret, struct err *e)
{
	struct home_ask ask = {.word = HOME_GRAFT, .init = init};
	struct home_answer answer;
	int fds[2 + CGROUP_JOIN_MAX + GRAFT_NS_COUNT];
	struct graft_place p = {.init = init};
	size_t n = 0, i;
	int sent;

	for (i = 0; i < GRAFT_NS_COUNT; i++)
		p.ns_fd[i] = -1;
	snprintf(ask.leaf, sizeof(ask.leaf), "%s", leaf ? leaf->name : "");
	fds[n++] = leaf ? leaf->v2_fd : c->v2_fd;
	fds[n++] = control;
	ask.tasks = (uint32_t)joins(c, leaf, fds + n);
	n += ask.tasks;
	sent = graft_open_namespaces(init, &p, e);
	ask.has_time = p.ns_fd[GRAFT_TIME] >= 0;
	for (i = 0; i < GRAFT_NS_COUNT; i++)
		if (p.ns_fd[i] >= 0)
			fds[n++] = p.ns_fd[i];
	if (sent == 0 && (fdpass_send(sock, &ask, sizeof(ask), fds, n) < 0 ||
			  recv(sock, &answer, sizeof(answer), 0) != (ssize_t)sizeof(answer)))
		sent = ended(e);
	for (i = 0; i < GRAFT_NS_COUNT; i++)
		fd_close(&p.ns_fd[i]);
	if (sent < 0)
		return -1;
	if (answer.err.code != ERR_NONE) {
		*e = answer.err;
		return -1;
	}
	*ret = answer.graft;
	return 0;
}
