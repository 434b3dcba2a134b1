/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes that are gone left of a network, and the end of a network. */
#include <fcntl.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/net/bridge.h"
#include "runtime/net/bridge_state.h"
#include "runtime/net/members.h"

struct gc {
	struct bridge *b;
	int living_fd;
	unsigned cleared, used;
	struct err *e;
	int failed;
};

static int look(void *ctx, const char *id)
{
	autojson json_t *last = NULL;
	struct gc *g = ctx;
	char mine[65];

	if (path_has(g->living_fd, id)) {
		g->used++;
		return 0;
	}
	snprintf(mine, sizeof(mine), "%s", id);
	g->b->id = mine;
	if (bridge_take_back(g->b, 1, 0, &last, g->e) < 0)
		g->failed = 1;	/* the others can still be cleared */
	else
		g->cleared++;
	g->b->id = "";
	return 0;
}

/* Under the lock: removes those whose sandbox is gone. */
static int sweep(struct bridge *b, const json_t *job, struct gc *g, struct err *e)
{
	autoclose int living = -1;
	const char *dir = NULL;

	if (json_get_str(job, "sandboxes", &dir, "job", e) < 1)
		return err_set(e, ERR_INTERNAL, "berth-net: a malformed job");
	living = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (living < 0)
		return err_sys(e, "open %s", dir);
	*g = (struct gc){ .b = b, .living_fd = living, .e = e };
	if (bridge_lock(b, e) < 0 || pool_each(&b->pool, look, g, e) < 0)
		return -1;
	return g->failed ? -1 : 0;
}

int bridge_gc(const json_t *job, struct err *e)
{
	autojson json_t *told = NULL;
	struct bridge b;
	struct gc g = { .used = 0 };
	int r = bridge_load(&b, job, e);

	if (r == 0)
		r = sweep(&b, job, &g, e);
	if (r == 0 && !g.used)
		r = bridge_remove_all(&b, e);
	if (r == 0) {
		told = json_pack("{s:i,s:i}", "cleared", g.cleared, "used", g.used);
		bridge_answer(told);
	}
	bridge_unload(&b);
	return r;
}

int bridge_remove(const json_t *job, struct err *e)
{
	struct gc g = { .used = 0 };
	struct bridge b;
	int r = bridge_load(&b, job, e), n;

	/* a sandbox that has just ended may not have removed its network yet */
	if (r == 0)
		r = sweep(&b, job, &g, e);
	if (r == 0 && (n = members_count(&b.pool, e)) != 0)
		r = n < 0 ? -1 : err_set(e, ERR_BUSY, "network %s has %d member%s; hint: berth "
						      "network inspect %s",
					 b.network, n, n == 1 ? "" : "s", b.network);
	/* a process that waits for the lock to join finds the network closed */
	if (r == 0)
		r = members_close(&b.pool, e);
	if (r == 0)
		r = bridge_remove_all(&b, e);
	if (r == 0)
		bridge_answer(NULL);
	bridge_unload(&b);
	return r;
}
