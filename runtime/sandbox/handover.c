/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox/handover.h"

#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/sandbox/initproto.h"

struct cgroups_packet {
	uint32_t magic;
	uint32_t fds;
};

/* The descriptors of a packet: mounts of the next host-side operations, spares, init's program. */
struct mounts_packet {
	uint32_t magic;
	uint32_t mounts, spares, init;
};

int handover_send_mapped(int sock)
{
	const uint32_t word = INIT_MAGIC;

	return fdpass_send(sock, &word, sizeof(word), NULL, 0);
}

void handover_receive_mapped(int sock)
{
	uint32_t word;
	size_t none;

	if (fdpass_recv(sock, &word, sizeof(word), NULL, 0, &none) != (ssize_t)sizeof(word) || word != INIT_MAGIC)
		_exit(1);
}

int handover_send_cgroups(int sock, const struct cgroup *c)
{
	struct cgroups_packet p = { .magic = INIT_MAGIC };
	int fds[CGROUP_JOIN_MAX];

	p.fds = (uint32_t)cgroup_joins(c, fds);
	return fdpass_send(sock, &p, sizeof(p), fds, p.fds);
}

int handover_receive_cgroups(int sock, int ret_fd[CGROUP_JOIN_MAX], size_t *ret_n, struct err *e)
{
	struct cgroups_packet p;

	if (fdpass_recv(sock, &p, sizeof(p), ret_fd, CGROUP_JOIN_MAX, ret_n) != (ssize_t)sizeof(p) || p.magic != INIT_MAGIC)
		_exit(1);
	if (*ret_n != p.fds)
		return err_set(e, ERR_INTERNAL, "received %zu cgroups instead of %u", *ret_n, p.fds);
	return 0;
}

int handover_send_mounts(struct handover *h, size_t end, int base_fd, int init_fd, struct err *e)
{
	struct mounts_packet p = { .magic = INIT_MAGIC, .init = init_fd >= 0 };
	enum { ROOM = FDPASS_MAX - 1 };
	int fds[FDPASS_MAX];
	size_t n = 0;

	for (; h->next < end; h->next++) {
		const struct mount_op *op = &h->plan->ops[h->next];

		if (!mountplan_is_host_side(op->kind))
			continue;
		if (n == ROOM)
			return err_set(e, ERR_LIMIT, "more than %d mounts", ROOM);
		fds[n++] = op->fd;
		p.mounts++;
	}
	/* as many as fit: closing the others takes time */
	for (; h->spares < h->plan->spare_count && n < ROOM; h->spares++, p.spares++)
		fds[n++] = h->plan->spare[h->spares];
	if (base_fd >= 0 && n < ROOM) {
		fds[n++] = base_fd;
		p.spares++;
	}
	if (init_fd >= 0)
		fds[n++] = init_fd;
	if (fdpass_send(h->sock, &p, sizeof(p), fds, n) < 0)
		return err_sys(e, "hand the mounts to the sandbox");
	return 0;
}

int handover_receive_mounts(struct handover *h, struct err *e)
{
	struct mountplan *plan = h->plan;
	struct mounts_packet p;
	int fds[FDPASS_MAX];
	size_t n = 0, used = 0;

	if (fdpass_recv(h->sock, &p, sizeof(p), fds, FDPASS_MAX, &n) != (ssize_t)sizeof(p) || p.magic != INIT_MAGIC)
		_exit(1);
	if (n != (size_t)p.mounts + p.spares + p.init || p.spares > ARRAY_LEN(plan->spare))
		return err_set(e, ERR_INTERNAL, "received %zu descriptors instead of %u", n, p.mounts + p.spares + p.init);
	for (; h->next < plan->count && used < p.mounts; h->next++)
		if (mountplan_is_host_side(plan->ops[h->next].kind))
			plan->ops[h->next].fd = fds[used++];
	if (used != p.mounts)
		return err_set(e, ERR_INTERNAL, "more mounts than the plan has");
	for (plan->spare_count = 0; plan->spare_count < p.spares; plan->spare_count++)
		plan->spare[plan->spare_count] = fds[used++];
	if (p.init)
		h->init_fd = fds[used++];
	return 0;
}
