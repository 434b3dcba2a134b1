/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v2: one hierarchy with all controllers (cgroup-v2.rst).
 *
 * Controllers are handed down root -> parent by subtree_control; the child is
 * born inside by CLONE_INTO_CGROUP, so it never runs unlimited.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/cgroup_backends.h"
#include "runtime/kernel/cgroup_io.h"
#include "runtime/kernel/devbpf.h"

#define V2_ROOT "/sys/fs/cgroup"

static const char *const wanted[] = { "memory", "cpu", "pids", "io", "cpuset" };

/* Enables what the directory can offer; a controller it lacks is complained of by v2_limit(). */
static int enable(const char *dir, struct err *e)
{
	char path[160], have[256], on[256], add[128] = "";
	size_t i;

	snprintf(path, sizeof(path), "%s/cgroup.controllers", dir);
	if (cgroup_read(AT_FDCWD, path, have, sizeof(have)) < 0)
		return err_sys(e, "read %s", path);
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", dir);
	if (cgroup_read(AT_FDCWD, path, on, sizeof(on)) < 0)
		return err_sys(e, "read %s", path);
	for (i = 0; i < ARRAY_LEN(wanted); i++)
		if (cgroup_has_word(have, wanted[i]) && !cgroup_has_word(on, wanted[i]))
			snprintf(add + strlen(add), sizeof(add) - strlen(add), "+%s ", wanted[i]);
	if (add[0] && cgroup_write(AT_FDCWD, path, add) < 0)
		return err_sys(e, "enable controllers %sin %s", add, path);
	return 0;
}

static int v2_limit_memory(int fd, const struct cgroup_limits *l, struct err *e)
{
	if (cgroup_set(fd, "memory.max", l->memory_bytes, "max", e) < 0)
		return -1;
	if (faccessat(fd, "memory.swap.max", F_OK, 0) < 0) {
		char swaps[512];
		int n = cgroup_read(AT_FDCWD, "/proc/swaps", swaps, sizeof(swaps));

		if (l->swap_bytes == CGROUP_UNLIMITED || (n >= 0 && !strchr(swaps, '/')))
			return 0;
		return err_set(e, ERR_UNSUPPORTED, "this kernel does not account swap, so --swap cannot be enforced; "
			       "hint: turn swap off");
	}
	return cgroup_set(fd, "memory.swap.max", l->swap_bytes, "max", e);
}

static int v2_limit_cpu(int fd, const struct cgroup_limits *l, struct err *e)
{
	char want[64], got[64];

	if (l->cpu_weight && cgroup_set(fd, "cpu.weight", l->cpu_weight, "100", e) < 0)
		return -1;
	if (l->cpu_milli == CGROUP_UNLIMITED)
		snprintf(want, sizeof(want), "max 100000\n");
	else
		snprintf(want, sizeof(want), "%" PRIu64 " 100000\n", l->cpu_milli * 100);
	if (cgroup_write(fd, "cpu.max", want) < 0)
		return err_sys(e, "write %s to cpu.max", want);
	if (cgroup_read(fd, "cpu.max", got, sizeof(got)) < 0 || strcmp(got, want))
		return err_set(e, ERR_UNSUPPORTED, "cpu.max does not hold what was written");
	return 0;
}

static int lacks(int fd, const char *file, const char *controller, const char *option, struct err *e)
{
	if (!faccessat(fd, file, F_OK, 0))
		return 0;
	return err_set(e, ERR_UNSUPPORTED, "the %s controller is not available below %s, so %s cannot be enforced; "
		       "hint: enable it in cgroup.subtree_control of the parent cgroup, or set %s to unlimited",
		       controller, V2_ROOT, option, option);
}

static int v2_lift(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	int fd = c->v2_fd;

	if (l->memory_bytes == CGROUP_UNLIMITED && !faccessat(fd, "memory.max", F_OK, 0)) {
		if (cgroup_set(fd, "memory.max", CGROUP_UNLIMITED, "max", e) < 0)
			return -1;
		if (!faccessat(fd, "memory.swap.max", F_OK, 0) &&
		    cgroup_set(fd, "memory.swap.max", l->swap_bytes, "max", e) < 0)
			return -1;
	}
	if (l->cpu_milli == CGROUP_UNLIMITED && !faccessat(fd, "cpu.max", F_OK, 0) && v2_limit_cpu(fd, l, e) < 0)
		return -1;
	return l->pids == CGROUP_UNLIMITED && !faccessat(fd, "pids.max", F_OK, 0) ? cgroup_set(fd, "pids.max", l->pids, "max", e) : 0;
}

static int v2_limit(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	int fd = c->v2_fd;

	if (!faccessat(fd, "memory.oom.group", F_OK, 0) &&
	    cgroup_write(fd, "memory.oom.group", l->oom_group ? "1" : "0") < 0)
		return err_sys(e, "write to memory.oom.group");
	if (l->memory_bytes != CGROUP_UNLIMITED &&
	    (lacks(fd, "memory.max", "memory", "--memory", e) < 0 || v2_limit_memory(fd, l, e) < 0))
		return -1;
	if ((l->cpu_milli != CGROUP_UNLIMITED || l->cpu_weight) &&
	    (lacks(fd, "cpu.max", "cpu", "--cpus", e) < 0 || v2_limit_cpu(fd, l, e) < 0))
		return -1;
	if (l->pids != CGROUP_UNLIMITED &&
	    (lacks(fd, "pids.max", "pids", "--pids", e) < 0 || cgroup_set(fd, "pids.max", l->pids, "max", e) < 0))
		return -1;
	if (l->cpuset[0] && (lacks(fd, "cpuset.cpus", "cpuset", "--cpuset", e) < 0))
		return -1;
	if (l->cpuset[0] && cgroup_set_cpus(fd, l->cpuset, "cpuset.cpus.effective", e) < 0)
		return -1;
	return l->io_weight || l->io_rate_count ? cgroup_io_limit_v2(fd, l, e) : 0;
}

static int v2_create(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	char parent[128];

	c->v2_fd = cgroup_dir(V2_ROOT, c->parent, c->name, 1, e);
	if (c->v2_fd < 0)
		return -1;
	/* the first sandbox after boot hands the controllers down; later ones see them */
	if (faccessat(c->v2_fd, "memory.max", F_OK, 0) < 0 ||
	    faccessat(c->v2_fd, "pids.max", F_OK, 0) < 0 ||
	    faccessat(c->v2_fd, "cpu.max", F_OK, 0) < 0 ||
	    ((l->io_rate_count || l->io_weight) && faccessat(c->v2_fd, "io.max", F_OK, 0) < 0)) {
		snprintf(parent, sizeof(parent), "%s/%s", V2_ROOT, c->parent);
		if (enable(V2_ROOT, e) < 0 || enable(parent, e) < 0)
			return -1;
	}
	snprintf(parent, sizeof(parent), "%s/%s", V2_ROOT, c->parent);
	if (devbpf_confine(parent, e) < 0 ||
	    (l->device_count && devbpf_allow(c->v2_fd, parent, l->devices, l->device_count, e) < 0))
		return -1;
	return v2_limit(c, l, e);
}

/*
 * A cgroup that hands controllers down holds no process itself.  The move comes
 * after the child made its cgroup namespace: with nsdelegate, clone3 lets init
 * put commands only into cgroups below that namespace's root, which must be the
 * sandbox's cgroup and not init's leaf.
 */
static int v2_house(struct cgroup *c, int pid, struct err *e)
{
	char dir[256], number[16];

	if (mkdirat(c->v2_fd, "init", 0755) < 0)
		return err_sys(e, "make a cgroup for the sandbox's init");
	snprintf(number, sizeof(number), "%d", pid);
	if (cgroup_write(c->v2_fd, "init/cgroup.procs", number) < 0)
		return err_sys(e, "move the sandbox's init to its cgroup");
	snprintf(dir, sizeof(dir), "%s/%s/%s", V2_ROOT, c->parent, c->name);
	return enable(dir, e);
}

static int v2_create_leaf(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	c->v2_fd = cgroup_dir(V2_ROOT, c->parent, c->name, 1, e);
	return c->v2_fd < 0 ? -1 : v2_limit(c, l, e);
}

static int v2_open(struct cgroup *c, struct err *e)
{
	c->v2_fd = cgroup_dir(V2_ROOT, c->parent, c->name, 0, e);
	return c->v2_fd < 0 && e->code != ERR_NOT_FOUND ? -1 : 0;
}

/* "8:0 rbytes=1 wbytes=2 ..." per device. */
static void v2_add_io(const char *text, struct cgroup_usage *u)
{
	const char *p;

	for (p = text; (p = strstr(p, "rbytes=")); p++)
		u->read_bytes += strtoull(p + 7, NULL, 10);
	for (p = text; (p = strstr(p, "wbytes=")); p++)
		u->write_bytes += strtoull(p + 7, NULL, 10);
}

static uint64_t read_v2_number(int dirfd, const char *file)
{
	char text[64];

	return cgroup_read(dirfd, file, text, sizeof(text)) > 0 ? strtoull(text, NULL, 10) : 0;
}

static int read_held(struct cgroup *c, int slot, const char *file, char *text, unsigned n)
{
	return cgroup_read_held(c, slot, c->v2_fd, file, text, n);
}

static int v2_usage(struct cgroup *c, int now, struct cgroup_usage *u, struct err *e)
{
	char text[4096];

	if (read_held(c, HELD_CPU, "cpu.stat", text, sizeof(text)) < 0)
		return err_sys(e, "read cpu.stat");
	u->cpu_us = cgroup_stat_value(text, "usage_usec");
	if (read_held(c, HELD_PEAK, "memory.peak", text, sizeof(text)) > 0)	/* Linux 5.19 */
		u->memory_peak_bytes = strtoull(text, NULL, 10);
	if (now) {
		u->memory_bytes = read_v2_number(c->v2_fd, "memory.current");
		u->pids = read_v2_number(c->v2_fd, "pids.current");
	}
	if (read_held(c, HELD_OOM, "memory.events", text, sizeof(text)) > 0)
		u->oom_kills = cgroup_stat_value(text, "oom_kill");
	if (read_held(c, HELD_PIDS, "pids.events", text, sizeof(text)) > 0)
		u->pids_events = cgroup_stat_value(text, "max");
	if (read_held(c, HELD_IO, "io.stat", text, sizeof(text)) > 0)
		v2_add_io(text, u);
	return 0;
}

static int v2_remove(struct cgroup *c, struct err *e)
{
	return cgroup_rmdir(V2_ROOT, c->parent, c->name, e);
}

const struct cgroup_ops cgroup_ops_v2 = {
	.name = "v2",
	.create = v2_create,
	.house = v2_house,
	.create_leaf = v2_create_leaf,
	.open = v2_open,
	.limit = v2_limit, .lift = v2_lift,
	.usage = v2_usage,
	.remove = v2_remove,
};
