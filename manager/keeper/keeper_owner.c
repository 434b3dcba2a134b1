/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner process of a sandbox (--owner-pid). When it ends, the sandbox is frozen at once, so
 * that nothing runs without an owner. After a grace in which somebody may look at it, it is
 * removed. The keeper waits for a pidfd, so a living owner costs nothing.
 *
 * If the keeper is killed too, the next start, gc or berthd removes the sandbox, because its
 * record names the owner (manager/host/expire.h).
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/host/procid.h"
#include "manager/keeper/keeper_state.h"

const char keeper_owner_reason[] = "owner ended";

int keeper_owner_watch(const char *owner, int *ret_fd, struct err *e)
{
	int fd;

	*ret_fd = -1;
	if (!owner[0])
		return 0;
	fd = procid_open(owner, e);
	if (fd == -1)
		return err_set(e, ERR_INVALID, "the owner of the sandbox, process %d, has ended",
			       atoi(owner));
	if (fd < 0)
		return -1;
	*ret_fd = fd;
	return 0;
}

int keeper_owner_begin(struct keeper *k, struct err *e)
{
	return keeper_owner_watch(k->life.owner, &k->owner_fd, e);
}

void keeper_owner_ended(struct keeper *k)
{
	struct err e;

	fd_close(&k->owner_fd);
	k->owner_until_ms = clock_ms() + k->life.owner_grace_ms;
	keeper_event(k, "owner-ended", json_pack("{s:I,s:I}", "pid",
						 (json_int_t)atoi(k->life.owner), "grace_ms",
						 (json_int_t)k->life.owner_grace_ms));
	/* what cannot be frozen must not go on meanwhile */
	if (cgroup_freeze(&k->sandbox.cgroup, 1, &e) < 0)
		k->owner_until_ms = clock_ms();
	k->paused = 1;
	keeper_command_stands_still(k);
}

static uint64_t owner_next(struct keeper *k)
{
	return k->stopping ? 0 : k->owner_until_ms;
}

static void owner_check(struct keeper *k, uint64_t now)
{
	if (!k->owner_until_ms || now < k->owner_until_ms)
		return;
	k->stop_reason = keeper_owner_reason;
	k->stopping = 1;
}

const struct keeper_part keeper_part_owner = { .next = owner_next, .check = owner_check };
