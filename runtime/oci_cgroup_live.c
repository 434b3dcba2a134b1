/* SPDX-License-Identifier: Apache-2.0 */
/* A container's cgroup once it lives: who is in it, signals, freezing, removal. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "runtime/cgroup.h"
#include "runtime/oci_cgroup.h"

#define CLEAR_MS 10000	/* what a removal waits for processes to go */

/* ---- what lives in it ------------------------------------------------------ */

struct pid_list {
	pid_t *pid;
	size_t count, cap;
};

static int add_pids(int dirfd, struct pid_list *l, struct err *e)
{
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

#define DEPTH_MAX 400	/* each level holds a descriptor */

/* dirfd is closed. */
static int walk_pids(int dirfd, struct pid_list *l, int depth, struct err *e)
{
	DIR *d;
	struct dirent *de;
	int r;

	if (dirfd < 0 || depth > DEPTH_MAX)
		return 0;
	d = fdopendir(dirfd);
	if (!d) {
		close(dirfd);
		return err_sys(e, "read a cgroup directory");
	}
	r = add_pids(dirfd, l, e);
	while (r == 0 && (de = readdir(d)))
		if (de->d_type == DT_DIR && de->d_name[0] != '.')
			r = walk_pids(openat(dirfd, de->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), l,
				      depth + 1, e);
	closedir(d);
	return r;
}

static int by_number(const void *a, const void *b)
{
	const pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

/* One hierarchy is enough: each process is in all of them. */
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

int oci_cgroup_pids(const struct oci_cgroup *c, pid_t **ret, size_t *ret_count, struct err *e)
{
	int fd = census_fd(c);
	struct pid_list l = { 0 };

	/* through "." : fdopendir() takes the descriptor over, and its offset */
	if (fd >= 0 && walk_pids(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), &l, 0, e) < 0) {
		free(l.pid);
		return -1;
	}
	if (l.count)
		qsort(l.pid, l.count, sizeof(*l.pid), by_number);
	*ret = l.pid;
	*ret_count = l.count;
	return 0;
}

int oci_cgroup_signal(const struct oci_cgroup *c, int sig, struct err *e)
{
	const int v2 = oci_cgroup_clone_fd(c);
	autofree pid_t *pids = NULL;
	size_t n, i;

	if (sig == SIGKILL && v2 >= 0 && !cgroup_write(v2, "cgroup.kill", "1"))
		return 0;
	if (oci_cgroup_pids(c, &pids, &n, e) < 0)
		return -1;
	for (i = 0; i < n; i++)
		if (kill(pids[i], sig) < 0 && errno != ESRCH)
			return err_sys(e, "send signal %d to process %d", sig, (int)pids[i]);
	return 0;
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
			/* a half frozen container would be in nobody's hands */
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

/* The first cgroup below, whatever its name: "" when there is none. */
static int first_below(int fd, char name[NAME_MAX + 1])
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *de;

	name[0] = '\0';
	if (!d) {
		fd_close(&copy);
		return -1;
	}
	while (!name[0] && (de = readdir(d)))
		if (de->d_type == DT_DIR && strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			snprintf(name, NAME_MAX + 1, "%s", de->d_name);
	closedir(d);
	return 0;
}

/*
 * rmdir of the whole subtree: a container may have made cgroups of its own, as deep as it liked.  A leaf at a time from
 * the top, by a descriptor: that costs no stack.  -1 with errno.
 */
static int remove_tree(const char *path)
{
	char name[NAME_MAX + 1], below[NAME_MAX + 1];

	while (rmdir(path) < 0) {
		autoclose int fd = -1;

		if (errno == ENOENT)
			return 0;
		if (errno != EBUSY)
			return -1;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || first_below(fd, name) < 0)
			return errno == ENOENT ? 0 : -1;
		if (!name[0]) {
			errno = EBUSY;
			return -1;
		}
		while (unlinkat(fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
			int next = errno == EBUSY ? openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;

			if (next < 0 || first_below(next, below) < 0 || !below[0]) {
				errno = next < 0 ? errno : EBUSY;
				fd_close(&next);
				return -1;
			}
			close(fd);
			fd = next;
			memcpy(name, below, sizeof(name));
		}
	}
	return 0;
}

static int has_processes(const struct oci_cgroup *c)
{
	autofree pid_t *pids = NULL;
	struct err ignored;
	size_t n = 0;

	return oci_cgroup_pids(c, &pids, &n, &ignored) == 0 && n > 0;
}

int oci_cgroup_destroy(struct oci_cgroup *c, struct err *e)
{
	const uint64_t end = clock_ms() + CLEAR_MS;
	size_t i;

	for (i = 0; i < c->count; i++) {
		struct oci_cgroup_part *p = &c->part[i];

		while (remove_tree(p->dir) < 0) {
			if (errno != EBUSY || clock_ms() >= end)
				return err_sys(e, "remove cgroup %s", p->dir);
			if (oci_cgroup_open(c, e) < 0)
				return -1;
			if (has_processes(c)) {
				if (oci_cgroup_frozen(c) && oci_cgroup_freeze(c, 0, e) < 0)
					return -1;
				if (oci_cgroup_signal(c, SIGKILL, e) < 0)
					return -1;
			}
			poll(NULL, 0, 1);
		}
		fd_close(&p->dir_fd);
	}
	return 0;
}
