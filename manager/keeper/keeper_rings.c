/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of all rings of a keeper together.  Upholds S24 of SECURITY.md. */
#include "manager/keeper/keeper_state.h"

/* A share of it for each ring that can exist is 60 KiB. */
#define RINGS_BUDGET (32U << 20)

static void larger(struct ring *rings, size_t *sum, struct ring **largest)
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
				larger(k->commands[i]->out, &sum, &largest);
		for (i = 0; i < KEEPER_SESSIONS; i++)
			if (k->sessions[i].name[0])
				larger(k->sessions[i].out, &sum, &largest);
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
