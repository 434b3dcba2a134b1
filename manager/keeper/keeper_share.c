/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "network-share": hands the network namespace of the sandbox to one that joins it (netguest.h),
 * and what the files of its network say.  Of one that has joined another's it is that one's.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/keeper/keeper_state.h"

static int check(const struct keeper *k, struct err *e)
{
	if (k->spec->network == NETWORK_HOST)
		return err_set(e, ERR_INVALID,
			       "it has the host's network, not one of its own; hint: --network "
			       "host");
	/* at its end this sandbox would stand still, and the other one go on */
	if (k->life.budget.v[LIVEBUDGET_NET])
		return err_set(e, ERR_INVALID,
			       "its traffic has a budget, which no other sandbox can use up; hint: "
			       "--network-bytes in place of net in --budget");
	if (k->spec->network == NETWORK_JOINED && k->sandbox.net.notice_fd < 0)
		return err_set(e, ERR_INVALID,
			       "sandbox %s, whose network it had joined, has ended; hint: berth "
			       "restart both of them, that one first",
			       k->spec->joined.id);
	return 0;
}

/* Of the process whose end is the network's. */
static int open_end(const struct keeper *k, struct err *e)
{
	const int fd = k->spec->network == NETWORK_JOINED ?
			       fcntl(k->sandbox.net.notice_fd, F_DUPFD_CLOEXEC, 3) :
			       fcntl(k->sandbox.pidfd, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? err_sys(e, "open the sandbox's init") : fd;
}

int keeper_op_network_share(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const struct spec *s = k->spec;
	autoclose int netns = -1, init = -1;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", k->sandbox.pid);
	if (check(k, e) < 0 || (init = open_end(k, e)) < 0)
		return -1;
	/* not reaped: no other process can have the pid */
	netns = open(path, O_RDONLY | O_CLOEXEC);
	if (netns < 0)
		return err_sys(e, "open the sandbox's network namespace");
	keeper_answer(k, rq->client,
		      json_pack("{s:s,s:b,s:s,s:s*,s:s*}", "mode",
				spec_network_name(spec_network_inside(s)), "proxied",
				spec_is_proxied(s), "hostname", s->hostname, "hosts", s->hosts, "dir", s->net_dir),
		      (int[]){ netns, init }, 2);
	return 0;
}

void keeper_share_lost(struct keeper *k)
{
	fd_close(&k->sandbox.net.notice_fd);
	keeper_event(k, "network-lost", json_pack("{s:s}", "container", k->spec->joined.id));
}
