/* SPDX-License-Identifier: Apache-2.0 */
/* Places of watches: how many a sandbox and an owner have, and who finds what is kept there. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "manager/api/watchhub.h"

static int released, over;

static void release(void *what)
{
	(void)what;
	released++;
}

static int is_over(void *what)
{
	(void)what;
	return over;
}

static int enter(struct watchhub *h, const char *owner, unsigned n)
{
	struct err e;
	char box[16];

	snprintf(box, sizeof(box), "%.4s%u", owner, n / WATCHHUB_SANDBOX_MAX);
	return watchhub_enter(h, box, owner, is_over, &e) != NULL;
}

Test(watchhub, S43_no_owner_keeps_the_others_out)
{
	struct watchhub *h = watchhub_new();
	char owner[16];
	unsigned n, i;

	for (n = 0; enter(h, "alice", n); n++)
		;
	cr_assert_eq(n, WATCHHUB_MAX / 2);
	for (i = 0; i < 8; i++) {
		snprintf(owner, sizeof(owner), "t%u", i);
		for (n = 0; enter(h, owner, n); n++)
			;
		cr_assert_gt(n, 0, "tenant %u has none", i);
	}
	cr_assert_not(enter(h, "alice", 0));
	watchhub_free(h);
}

Test(watchhub, a_sandbox_has_its_share_and_gets_places_back)
{
	struct watchhub *h = watchhub_new();
	struct watchhub_place *p[WATCHHUB_SANDBOX_MAX], *taken;
	char id[WATCHHUB_ID_SIZE];
	struct err e;
	size_t i;

	for (i = 0; i < WATCHHUB_SANDBOX_MAX; i++)
		cr_assert(p[i] = watchhub_enter(h, "box", "alice", is_over, &e));
	cr_assert_not(watchhub_enter(h, "box", "alice", is_over, &e));
	cr_assert_eq(e.code, ERR_LIMIT);
	watchhub_leave(h, p[0]);
	cr_assert(watchhub_enter(h, "box", "alice", is_over, &e));
	cr_assert_eq(watchhub_keep(h, p[1], p, release, id, &e), 0);
	cr_assert_not(watchhub_take(h, "other", id, &taken, &e));
	cr_assert_eq(e.code, ERR_NOT_FOUND);
	cr_assert_eq(watchhub_take(h, "box", id, &taken, &e), p);
	cr_assert_not(watchhub_take(h, "box", id, &taken, &e));
	cr_assert_eq(e.code, ERR_BUSY);
	over = 1; /* one that is being read is not released, whatever became of its sandbox */
	cr_assert_not(watchhub_enter(h, "box", "alice", is_over, &e));
	watchhub_put(h, taken);
	cr_assert(watchhub_enter(h, "box", "alice", is_over, &e));
	cr_assert_eq(released, 1);
	watchhub_free(h);
}
