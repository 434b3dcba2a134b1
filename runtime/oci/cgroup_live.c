/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup of a living container: its processes, signals, freezing, removal. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/oci/cgroup.h"
#include "runtime/oci/cgroup_walk.h"

#define CLEAR_MS 10000	/* the longest time of a removal, with the end of its processes */
#define WALK_MS 10000	/* the longest time of a list of the processes */

/* ---- what lives in it ------------------------------------------------------ */

struct pid_list {
	pid_t *pid;
	size_t count, cap;
};

static int add_pids(void *ctx, int dirfd, struct err *e)
{
	struct pid_list *l = ctx;
	autobuf struct buf text = BUF_INIT(16u << 20);
	autoclose int fd = openat(dirfd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	char *p;

	if (fd < 0)
		return errno == ENOENT || errno == ENODEV ? 0 : err_sys(e, "open cgroup.procs");
	if (io_read_all(fd, &text, "cgroup.procs", e) < 0)
		return e->os_errno == ENODEV || e->os_errno == EOPNOTSUPP ? 0 : -1;
	for (p = text.data; p && *p;) {
		long pid = strtol(p, &p, 10);

		p += strspn(p, "\n");
		if (pid <= 0)
			continue;
		if (l->count == l->cap) {
			size_t cap = l->cap ? l->cap * 2 : 64;
			pid_t *more = reallocarray(l->pid, cap, sizeof(*more));

			if (!more)
				return err_nomem(e);
			l->pid = more;
			l->cap = cap;
		}
		l->pid[l->count++] = (pid_t)pid;
	}
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

/* One hierarchy is enough, because each process is in all of them. */
static int census_fd(const struct oci_cgroup *c)
{
	static const char *const order[] = { OCI_CGROUP_UNIFIED, "pids", "memory", "freezer", "systemd" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(order); i++) {
		int fd = oci_cgroup_fd(c, order[i]);

		if (fd >= 0)
			return fd;
	}
	return c->count ? c->part[0].dir_fd : -1;
}

/* On failure too l is what was found until then, and the caller's. */
static int list_pids(const struct oci_cgroup *c, struct pid_list *l, uint64_t end, struct err *e)
{
	const struct oci_cgroup_walk w = { .enter = add_pids, .ctx = l, .end = end };
	int fd = census_fd(c);
	int r = fd < 0 ? 0 : oci_cgroup_walk(fd, &w, e);

	if (l->count)
		qsort(l->pid, l->count, sizeof(*l->pid), by_number);
	return r < 0 ? err_wrap(e, "list the container's processes") : 0;
}

int oci_cgroup_pids(const struct oci_cgroup *c, pid_t **ret, size_t *ret_count, struct err *e)
{
	struct pid_list l = { 0 };

	if (list_pids(c, &l, clock_ms() + WALK_MS, e) < 0) {
		free(l.pid);
		return -1;
	}
	*ret = l.pid;
	*ret_count = l.count;
	return 0;
}

static int signal_until(const struct oci_cgroup *c, int sig, uint64_t end, struct err *e)
{
	const int v2 = oci_cgroup_clone_fd(c);
	struct pid_list l = { 0 };
	size_t i;
	int r;

	if (sig == SIGKILL && v2 >= 0 && !cgroup_write(v2, "cgroup.kill", "1"))
		return 0;
	/* a container that makes cgroups faster than they are listed still gets the signal */
	r = list_pids(c, &l, end, e);
	for (i = 0; i < l.count; i++)
		if (kill(l.pid[i], sig) < 0 && errno != ESRCH) {
			r = err_sys(e, "send signal %d to process %d", sig, (int)l.pid[i]);
			break;
		}
	free(l.pid);
	return r;
}

int oci_cgroup_signal(const struct oci_cgroup *c, int sig, struct err *e)
{
	return signal_until(c, sig, clock_ms() + WALK_MS, e);
}

static int freeze_v1(int fd, int on, struct err *e)
{
	const char *want = on ? "FROZEN" : "THAWED";
	const uint64_t end = clock_ms() + 10000;
	char state[32];

	for (;;) {
		if (cgroup_write(fd, "freezer.state", want) < 0)
			return err_sys(e, "write %s to freezer.state", want);
		if (cgroup_read(fd, "freezer.state", state, sizeof(state)) < 0)
			return err_sys(e, "read freezer.state");
		if (!strncmp(state, want, strlen(want)))
			return 0;
		if (clock_ms() >= end) {
			/* nobody would thaw a half-frozen container */
			cgroup_write(fd, "freezer.state", "THAWED");
			return err_set(e, ERR_TIMEOUT, "the container's processes did not freeze");
		}
		poll(NULL, 0, 1);
	}
}

int oci_cgroup_freeze(const struct oci_cgroup *c, int on, struct err *e)
{
	const uint64_t end = clock_ms() + 10000;
	int fd = oci_cgroup_fd(c, "freezer");
	char text[256];

	if (fd >= 0 && !c->v2)
		return freeze_v1(fd, on, e);
	fd = oci_cgroup_clone_fd(c);
	if (fd < 0)
		return err_set(e, ERR_UNSUPPORTED, "the container has no cgroup that can be frozen");
	if (cgroup_write(fd, "cgroup.freeze", on ? "1" : "0") < 0)
		return err_sys(e, "write to cgroup.freeze");
	while (on && cgroup_read(fd, "cgroup.events", text, sizeof(text)) > 0 && !cgroup_stat_value(text, "frozen")) {
		if (clock_ms() >= end) {
			cgroup_write(fd, "cgroup.freeze", "0");
			return err_set(e, ERR_TIMEOUT, "the container's processes did not freeze");
		}
		poll(NULL, 0, 1);
	}
	return 0;
}

int oci_cgroup_frozen(const struct oci_cgroup *c)
{
	int fd = oci_cgroup_fd(c, "freezer");
	char text[64];

	if (fd >= 0 && !c->v2)
		return cgroup_read(fd, "freezer.state", text, sizeof(text)) > 0 && strncmp(text, "THAWED", 6) != 0;
	fd = oci_cgroup_clone_fd(c);
	return fd >= 0 && cgroup_read(fd, "cgroup.freeze", text, sizeof(text)) > 0 && text[0] == '1';
}

/* ---- removal ------------------------------------------------------------- */

/* A cgroup with processes stays, and so do all above it; the others are removed. */
static int remove_below(void *ctx, int above, const char *name, struct err *e)
{
	(void)ctx;
	if (unlinkat(above, name, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != EBUSY)
		return err_sys(e, "remove cgroup %s", name);
	return 0;
}

/*
 * rmdir of the whole subtree: a container may have made cgroups of its own, at any depth. 1: it
 * has processes.
 */
static int remove_tree(const char *path, uint64_t end, struct err *e)
{
	const struct oci_cgroup_walk w = { .leave = remove_below, .end = end };
	autoclose int fd = -1;

	if (rmdir(path) == 0 || errno == ENOENT)
		return 0;
	if (errno != EBUSY)
		return err_sys(e, "remove cgroup %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open cgroup %s", path);
	if (oci_cgroup_walk(fd, &w, e) < 0) {
		err_wrap(e, "remove cgroup %s", path);
		return e->code == ERR_TIMEOUT ? err_hint(e, "delete it again: what is gone is gone") : -1;
	}
	if (rmdir(path) == 0 || errno == ENOENT)
		return 0;
	return errno == EBUSY ? 1 : err_sys(e, "remove cgroup %s", path);
}

/* Thaws what is left, because a frozen process does not die. */
static int end_processes(const struct oci_cgroup *c, uint64_t end, struct err *e)
{
	struct pid_list l = { 0 };
	struct err ignored;

	list_pids(c, &l, end, &ignored);
	free(l.pid);
	if (!l.count)
		return 0;
	if (oci_cgroup_frozen(c) && oci_cgroup_freeze(c, 0, e) < 0)
		return -1;
	return signal_until(c, SIGKILL, end, e);
}

int oci_cgroup_destroy(struct oci_cgroup *c, struct err *e)
{
	const uint64_t end = clock_ms() + CLEAR_MS;
	size_t i;

	for (i = 0; i < c->count; i++) {
		struct oci_cgroup_part *p = &c->part[i];
		int r;

		while ((r = remove_tree(p->dir, end, e)) != 0) {
			if (r < 0)
				return -1;
			if (clock_ms() >= end)
				return err_errno(e, EBUSY, "remove cgroup %s", p->dir);
			if (oci_cgroup_open(c, e) < 0 || end_processes(c, end, e) < 0)
				return -1;
			poll(NULL, 0, 1);
		}
		fd_close(&p->dir_fd);
	}
	return 0;
}
