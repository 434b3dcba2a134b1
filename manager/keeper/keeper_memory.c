/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting of a keeper's own memory, and the choice of the process that the kernel kills first
 * when memory runs out.
 */
#include <fcntl.h>

#include "base/io.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/kernel/cgroup.h"

int keeper_memory_count(const struct keeper *k, struct err *e)
{
	return cgroup_join_keepers(k->spec->cgroup_parent, KEEPER_MEMORY + (64U << 20), e);
}

int keeper_memory_even(struct err *e)
{
	char now[16];

	if (cgroup_read(AT_FDCWD, "/proc/self/oom_score_adj", now, sizeof(now)) < 0)
		return err_sys(e, "read oom_score_adj");
	return now[0] == '-' ? io_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "0", e) : 0;
}

/* ---- the memory of all rings ---- */

/* The memory of all rings of a keeper together.  Upholds S24 of SECURITY.md. */

/* A share of it for each ring that can exist is 60 KiB. */
#define RINGS_BUDGET (32U << 20)

static void larger_ring(struct ring *rings, size_t *sum, struct ring **largest)
{
	int which;

	for (which = 0; which < 2; which++) {
		*sum += ring_held(&rings[which]);
		if (!*largest || ring_held(&rings[which]) > ring_held(*largest))
			*largest = &rings[which];
	}
}

/* The largest is halved until all fit: the output of one command costs the quiet ones nothing. */
static void fit(struct keeper *k)
{
	for (;;) {
		struct ring *largest = NULL;
		size_t sum = 0;
		int i;

		for (i = 0; i < KEEPER_COMMANDS; i++)
			if (k->commands[i])
				larger_ring(k->commands[i]->out, &sum, &largest);
		for (i = 0; i < KEEPER_SESSIONS; i++)
			if (k->sessions[i].name[0])
				larger_ring(k->sessions[i].out, &sum, &largest);
		if (sum <= RINGS_BUDGET)
			return;
		ring_shrink(largest, ring_held(largest) / 2);
	}
}

void keeper_ring_add(struct keeper *k, struct ring *r, const void *p, size_t n)
{
	size_t before = ring_held(r);
	struct err ignored;

	ring_add(r, p, n, &ignored);
	if (ring_held(r) > before)
		fit(k);
}
