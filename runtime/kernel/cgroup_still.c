/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a frozen cgroup stands still.
 *
 * "frozen 1" of a cgroup that has processes and cgroups below it means that its own processes are
 * frozen, or all that are below it, and not both (cgroup_update_frozen() and
 * cgroup_propagate_frozen() in kernel/cgroup/freezer.c, Linux 6.18).  On hybrid hosts the cgroup of
 * a sandbox is such a one, so each cgroup below it is asked, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/cgroup.h"

/* One that moves still. */
struct moving {
	int dir;    /* where to look */
	int events; /* its cgroup.events, -1: none was found */
};

/* Whether that of dir is frozen, or gone; else its events are in m. */
static int is_still(struct moving *m, int dir)
{
	autoclose int events = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
	char text[128];
	const ssize_t n = events < 0 ? -1 : pread(events, text, sizeof(text) - 1, 0);

	if (n < 0)
		return 1;
	text[n] = '\0';
	if (cgroup_stat_value(text, "frozen"))
		return 1;
	m->events = take_fd(&events);
	return 0;
}

static int look_below(struct moving *m, int dir);

static int look_at(void *ctx, const char *name)
{
	struct moving *m = ctx;
	autoclose int dir = openat(m->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return dir >= 0 && look_below(m, dir);
}

/* 1: one that moves was found. */
static int look_below(struct moving *m, int dir)
{
	const int above = m->dir;
	int failed = 0, found;

	if (!is_still(m, dir))
		return 1;
	m->dir = dir;
	found = path_each_entry(dir, look_at, m, &failed);
	m->dir = above;
	return found || (failed && errno != ENOENT && errno != ENODEV);
}

int cgroup_wait_still(int v2_fd, unsigned timeout_ms)
{
	const uint64_t end = clock_ms() + timeout_ms;

	for (;;) {
		struct moving m = { -1, -1 };
		autoclose int top = openat(v2_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		const int moves = top < 0 || look_below(&m, top);
		autoclose int events = m.events;
		struct pollfd p = { .fd = events, .events = POLLPRI };
		const uint64_t now = clock_ms();

		if (!moves)
			return 1;
		if (events < 0 || now >= end)
			return 0;
		poll(&p, 1, (int)(end - now));
	}
}
