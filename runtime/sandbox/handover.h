/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handover - the packets of descriptors that the supervisor sends to the child between clone3
 * and the exec of init, on the control socket.
 *
 * Mounts are sent in the order of the plan, in any number of packets, so that the child attaches
 * the first while the supervisor makes the last. Before them comes the message that the ids are
 * mapped. The first packet of mounts has the root; the cgroups to join, if any, follow it; the
 * last has init's program. The child takes a packet when it needs something that it does not
 * have yet.
 */
#ifndef BERTH_RUNTIME_SANDBOX_HANDOVER_H
#define BERTH_RUNTIME_SANDBOX_HANDOVER_H

#include "runtime/kernel/cgroup.h"
#include "runtime/sandbox/mountplan.h"

struct handover {
	int sock;
	struct mountplan *plan;
	size_t next;	/* the first operation that was not sent */
	size_t spares;	/* supervisor: how many spares were sent */
	int init_fd;	/* child: the program, once received; else -1 */
};

/* Tells the child that its ids are mapped (supervisor). 0, or -1 with errno. */
int handover_send_mapped(int sock);
int handover_send_cgroups(int sock, const struct cgroup *c);
/*
 * Sends the mounts of the operations before end that were not sent (supervisor), with the spares
 * not yet sent and base_fd (or -1) as one more, then init_fd (or -1).
 */
int handover_send_mounts(struct handover *h, size_t end, int base_fd, int init_fd, struct err *e);

/* Waits until the ids are mapped (child); does not return when the supervisor is gone. */
void handover_receive_mapped(int sock);
/*
 * Waits for the cgroups' `tasks` files, *ret_n of them (child); does not return when the supervisor
 * is gone.
 */
int handover_receive_cgroups(int sock, int ret_fd[CGROUP_JOIN_MAX], size_t *ret_n, struct err *e);
/* Waits for one packet of mounts (child); does not return when the supervisor is gone. */
int handover_receive_mounts(struct handover *h, struct err *e);

#endif
