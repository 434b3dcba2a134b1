/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hybrid: v1 controllers for limits, the empty v2 tree for life and death.
 *
 * The child is born in the v2 cgroup (CLONE_INTO_CGROUP) and joins the v1 ones
 * itself, before it looks at anything of the image: they are made while it pivots.  v1 has no memory.oom.group: the
 * supervisor watches oom_fd and kills the whole sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/cgroup_backends.h"
#include "runtime/kernel/cgroup_io.h"

#define V2_ROOT "/sys/fs/cgroup/unified"
#define CGROUP_OWN_PARENT (sizeof(((struct cgroup *)0)->parent) + sizeof(CGROUP_DEV_SUFFIX))

static const struct {
	const char *root;
	const char *controller;
	int always;	/* joined by every sandbox where the hierarchy exists */
} v1[] = {
	[V1_MEMORY] = { "/sys/fs/cgroup/memory", "memory", 1 },
	[V1_CPU] = { "/sys/fs/cgroup/cpu", "cpu", 1 },
	[V1_PIDS] = { "/sys/fs/cgroup/pids", "pids", 1 },
	[V1_BLKIO] = { "/sys/fs/cgroup/blkio", "blkio", 1 },
	[V1_DEVICES] = { "/sys/fs/cgroup/devices", "devices", 1 },
	[V1_CPUSET] = { "/sys/fs/cgroup/cpuset", "cpuset", 0 },
};
_Static_assert(sizeof(v1) / sizeof(v1[0]) == CGROUP_V1_COUNT, "one row per hierarchy");

unsigned cgroup_shown(const struct cgroup_limits *l)
{
	static const enum cgroup_v1 all[] = { V1_MEMORY, V1_CPU, V1_PIDS, V1_CPUSET };
	unsigned shown = 0;
	size_t i;

	if (cgroup_detect() != CGROUP_HYBRID)
		return 0;
	for (i = 0; i < ARRAY_LEN(all); i++)
		if ((v1[all[i]].always || l->cpuset[0]) && access(v1[all[i]].root, F_OK) == 0)
			shown |= 1u << all[i];
	return shown;
}

static int missing(const char *controller, const char *option, struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED, "the %s controller is not mounted at /sys/fs/cgroup/%s, so %s cannot be "
		       "enforced; hint: mount it, or set %s to unlimited", controller, controller, option, option);
}

static int hybrid_limit_memory(int fd, const struct cgroup_limits *l, struct err *e)
{
	uint64_t both = l->memory_bytes == CGROUP_UNLIMITED || l->swap_bytes == CGROUP_UNLIMITED ?
			CGROUP_UNLIMITED : l->memory_bytes + l->swap_bytes;
	struct err first;

	if (l->memory_bytes == CGROUP_UNLIMITED)
		return 0;
	/* memsw >= memory must hold at every step: try both orders */
	if (cgroup_set(fd, "memory.limit_in_bytes", l->memory_bytes, "-1", &first) < 0 &&
	    (cgroup_set(fd, "memory.memsw.limit_in_bytes", both, "-1", e) < 0 ||
	     cgroup_set(fd, "memory.limit_in_bytes", l->memory_bytes, "-1", e) < 0)) {
		*e = first;
		return -1;
	}
	if (faccessat(fd, "memory.memsw.limit_in_bytes", F_OK, 0) < 0) {
		char swaps[512];
		int n = cgroup_read(AT_FDCWD, "/proc/swaps", swaps, sizeof(swaps));

		/* only the heading: no swap on this host, nothing to limit */
		if (n >= 0 && !strchr(swaps, '/'))
			return 0;
		return err_set(e, ERR_UNSUPPORTED, "this kernel does not account swap, so --swap cannot be enforced; "
			       "hint: boot with swapaccount=1, or turn swap off");
	}
	return cgroup_set(fd, "memory.memsw.limit_in_bytes", both, "-1", e);
}

/*
 * v1 counts socket buffers apart from memory, and in a cgroup only once this was written:
 * otherwise 64 MiB hold a gigabyte of them (D02). A kernel without this file
 * (cgroup.memory=nosocket) cannot limit them.
 */
#define SOCKETS "memory.kmem.tcp.limit_in_bytes"

static int limit_sockets(int fd, const struct cgroup_limits *l, struct err *e)
{
	return cgroup_set(fd, SOCKETS, l->memory_bytes, "-1", e) < 0 && e->os_errno != ENOENT ? -1 : 0;
}

static int hybrid_limit_cpu(int fd, const struct cgroup_limits *l, struct err *e)
{
	if (l->cpu_weight && cgroup_set(fd, "cpu.shares", l->cpu_weight * 1024 / 100 < 2 ? 2 : l->cpu_weight * 1024 / 100,
					"1024", e) < 0)
		return -1;
	if (l->cpu_milli == CGROUP_UNLIMITED)
		return cgroup_write(fd, "cpu.cfs_quota_us", "-1") < 0 ? err_sys(e, "write to cpu.cfs_quota_us") : 0;
	return cgroup_set(fd, "cpu.cfs_quota_us", l->cpu_milli * 100, "-1", e);	/* of the period of 100,000 us */
}

/*
 * Opens a cpuset. A new one on v1 allows nothing, and never more than its parent: pass the root's
 * CPUs down.
 */
static int open_cpuset(const char *dir, struct err *e)
{
	static const char *const files[] = { "cpuset.mems", "cpuset.cpus" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++) {
		char from[160], to[300], all[256], now[256];

		snprintf(from, sizeof(from), "%s/%s", v1[V1_CPUSET].root, files[i]);
		snprintf(to, sizeof(to), "%s/%s", dir, files[i]);
		if (cgroup_read(AT_FDCWD, to, now, sizeof(now)) > 1)
			continue;
		if (cgroup_read(AT_FDCWD, from, all, sizeof(all)) < 0 || cgroup_write(AT_FDCWD, to, all) < 0)
			return err_sys(e, "open up %s", to);
	}
	return 0;
}

static int limit_cpuset(const struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	char parent[128], own[256];

	snprintf(parent, sizeof(parent), "%s/%s", v1[V1_CPUSET].root, c->parent);
	snprintf(own, sizeof(own), "%s/%s", parent, c->name);
	if (open_cpuset(parent, e) < 0 || open_cpuset(own, e) < 0)
		return -1;
	return cgroup_set_cpus(c->v1_fd[V1_CPUSET], l->cpuset, "cpuset.cpus", e);
}

static int limit_all_but_processes(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	if (l->memory_bytes != CGROUP_UNLIMITED && c->v1_fd[V1_MEMORY] < 0)
		return missing("memory", "--memory", e);
	if (l->cpu_milli != CGROUP_UNLIMITED && c->v1_fd[V1_CPU] < 0)
		return missing("cpu", "--cpus", e);
	if (l->pids != CGROUP_UNLIMITED && c->v1_fd[V1_PIDS] < 0)
		return missing("pids", "--pids", e);
	if (l->cpuset[0] && c->v1_fd[V1_CPUSET] < 0)
		return missing("cpuset", "--cpuset", e);
	if (c->v1_fd[V1_MEMORY] >= 0 && (hybrid_limit_memory(c->v1_fd[V1_MEMORY], l, e) < 0 || limit_sockets(c->v1_fd[V1_MEMORY], l, e) < 0))
		return -1;
	if (c->v1_fd[V1_CPU] >= 0 && hybrid_limit_cpu(c->v1_fd[V1_CPU], l, e) < 0)
		return -1;
	if (l->cpuset[0] && limit_cpuset(c, l, e) < 0)
		return -1;
	return cgroup_io_limit_v1(c->v1_fd[V1_BLKIO], l, e);
}

static int hybrid_limit(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	if (limit_all_but_processes(c, l, e) < 0)
		return -1;
	return c->v1_fd[V1_PIDS] < 0 ? 0 : cgroup_set(c->v1_fd[V1_PIDS], "pids.max", l->pids, "max", e);
}

/* CPU and processes are lifted by hybrid_limit() itself. */
static int hybrid_lift(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	int fd = c->v1_fd[V1_MEMORY];

	if (l->memory_bytes != CGROUP_UNLIMITED || fd < 0)
		return 0;
	if (!faccessat(fd, "memory.memsw.limit_in_bytes", F_OK, 0) &&
	    cgroup_set(fd, "memory.memsw.limit_in_bytes", CGROUP_UNLIMITED, "-1", e) < 0)
		return -1;
	return cgroup_set(fd, "memory.limit_in_bytes", CGROUP_UNLIMITED, "-1", e);
}

/*
 * The device policy is the same for all, so it is set once, on the parent, and
 * inherited: nothing but the harmless nodes and pseudo-terminals (K12).
 */
static const char *const device_allow[] = {
	"c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm",	/* null zero full random urandom */
	"c 5:0 rwm", "c 5:2 rwm", "c 136:* rwm",				/* tty ptmx pts */
};

static int devices_confined(const char *dir)
{
	char path[160], list[1024];

	snprintf(path, sizeof(path), "%s/devices.list", dir);
	return cgroup_read(AT_FDCWD, path, list, sizeof(list)) >= 0 && list[0] == 'c' && !strstr(list, "*:*");
}

static int confine_devices(const char *parent, struct err *e)
{
	char dir[128], path[160];
	size_t i;

	snprintf(dir, sizeof(dir), "%s/%s", v1[V1_DEVICES].root, parent);
	if (devices_confined(dir))
		return 0;
	snprintf(path, sizeof(path), "%s/devices.deny", dir);
	if (cgroup_write(AT_FDCWD, path, "a") < 0)
		return err_sys(e, "write a to %s", path);
	snprintf(path, sizeof(path), "%s/devices.allow", dir);
	for (i = 0; i < ARRAY_LEN(device_allow); i++)
		if (cgroup_write(AT_FDCWD, path, device_allow[i]) < 0)
			return err_sys(e, "write %s to %s", device_allow[i], path);
	if (!devices_confined(dir))
		return err_set(e, ERR_UNSUPPORTED, "the device policy of %s does not read back", dir);
	return 0;
}

static int allow_all(const struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	const int fd = c->v1_fd[V1_DEVICES];
	char list[8192], rule[64];
	size_t i;

	if (cgroup_write(fd, "devices.deny", "a") < 0)
		return err_sys(e, "write a to devices.deny");
	for (i = 0; i < ARRAY_LEN(device_allow); i++)
		if (cgroup_write(fd, "devices.allow", device_allow[i]) < 0)
			return err_sys(e, "write %s to devices.allow", device_allow[i]);
	for (i = 0; i < l->device_count; i++) {
		const struct cgroup_device *d = &l->devices[i];

		snprintf(rule, sizeof(rule), "%c %u:%u %s%s%s", d->type, d->major, d->minor,
			 d->access & DEVICE_READ ? "r" : "", d->access & DEVICE_WRITE ? "w" : "",
			 d->access & DEVICE_MKNOD ? "m" : "");
		if (cgroup_write(fd, "devices.allow", rule) < 0)
			return err_sys(e, "write %s to devices.allow", rule);
		if (cgroup_read(fd, "devices.list", list, sizeof(list)) < 0 || !strstr(list, rule))
			return err_set(e, ERR_UNSUPPORTED,
				       "the device rule %s does not read back", rule);
	}
	return strstr(list, "*:*") ? err_set(e, ERR_UNSUPPORTED,
					     "the device rules of the sandbox do not read back") : 0;
}

static void own_devices_parent(const struct cgroup *c, char ret[CGROUP_OWN_PARENT])
{
	snprintf(ret, CGROUP_OWN_PARENT, "%s" CGROUP_DEV_SUFFIX, c->parent);
}

/*
 * A devices cgroup of its own: a cgroup below the parent's could not allow what the parent's
 * denies.
 */
static int make_devices_cgroup(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	char parent[CGROUP_OWN_PARENT];

	own_devices_parent(c, parent);
	c->v1_fd[V1_DEVICES] = cgroup_dir(v1[V1_DEVICES].root, parent, c->name, 1, e);
	if (c->v1_fd[V1_DEVICES] < 0)
		return access(v1[V1_DEVICES].root, F_OK) == 0 ? -1 :
		       missing("devices", "--device", e);
	c->own_devices = 1;
	if (allow_all(c, l, e) < 0)
		return -1;
	c->join_fd[V1_DEVICES] = openat(c->v1_fd[V1_DEVICES], "tasks", O_WRONLY | O_CLOEXEC);
	return c->join_fd[V1_DEVICES] < 0 ? err_sys(e, "open tasks of the devices cgroup") : 0;
}

static int open_devices(struct cgroup *c, struct err *e)
{
	char parent[CGROUP_OWN_PARENT];

	own_devices_parent(c, parent);
	c->v1_fd[V1_DEVICES] = cgroup_dir(v1[V1_DEVICES].root, parent, c->name, 0, e);
	c->own_devices = c->v1_fd[V1_DEVICES] >= 0;
	return c->own_devices || e->code == ERR_NOT_FOUND ? 0 : -1;
}

static int remove_devices(const struct cgroup *c, struct err *e)
{
	char parent[CGROUP_OWN_PARENT], path[160];

	if (!c->own_devices)
		return 0;
	own_devices_parent(c, parent);
	if (cgroup_rmdir(v1[V1_DEVICES].root, parent, c->name, e) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/%s", v1[V1_DEVICES].root, parent);
	rmdir(path);	/* refused while another sandbox has one below */
	return 0;
}

/*
 * Watches memory.oom_control, which reports every OOM in the cgroup through an eventfd
 * (cgroup-v1/memory.rst, 10).
 */
static int watch_oom(struct cgroup *c, struct err *e)
{
	char line[64];

	c->oom_control_fd = openat(c->v1_fd[V1_MEMORY], "memory.oom_control", O_RDONLY | O_CLOEXEC);
	if (c->oom_control_fd < 0)
		return err_sys(e, "open memory.oom_control");
	c->oom_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->oom_fd < 0)
		return err_sys(e, "make an eventfd");
	snprintf(line, sizeof(line), "%d %d", c->oom_fd, c->oom_control_fd);
	if (cgroup_write(c->v1_fd[V1_MEMORY], "cgroup.event_control", line) < 0)
		return err_sys(e, "watch memory.oom_control");
	return 0;
}

/* Makes a cgroup below a controller, and opens what its processes join by. */
static int make_v1(struct cgroup *c, int i, struct err *e)
{
	if (access(v1[i].root, F_OK) < 0)
		return 0;	/* hybrid_limit() reports an error if a limit is requested */
	c->v1_fd[i] = cgroup_dir(v1[i].root, c->parent, c->name, 1, e);
	if (c->v1_fd[i] < 0)
		return -1;
	c->join_fd[i] = openat(c->v1_fd[i], "tasks", O_WRONLY | O_CLOEXEC);
	return c->join_fd[i] < 0 ? err_sys(e, "open tasks of the %s cgroup", v1[i].controller) : 0;
}

static int open_v1(struct cgroup *c, int i, int make, struct err *e)
{
	char parent[128];
	int first;

	if (!make && access(v1[i].root, F_OK) < 0)
		return 0;
	if (!make) {
		c->v1_fd[i] = cgroup_dir(v1[i].root, c->parent, c->name, 0, e);
		return c->v1_fd[i] >= 0 || e->code == ERR_NOT_FOUND ? 0 : -1;
	}
	snprintf(parent, sizeof(parent), "%s/%s/" SOCKETS, v1[i].root, c->parent);
	first = i == V1_MEMORY && access(parent, F_OK) < 0;
	if (make_v1(c, i, e) < 0)
		return -1;
	/*
	 * while one cgroup counts sockets, others need not patch the kernel's code to begin and to
	 * end that
	 */
	if (first)
		cgroup_write(AT_FDCWD, parent, "-1");
	return 0;
}

/* Joins the parent's devices cgroup, which all sandboxes share; nothing else is to be done. */
static int join_devices(struct cgroup *c, struct err *e)
{
	char path[128];

	if (access(v1[V1_DEVICES].root, F_OK) < 0)
		return 0;
	snprintf(path, sizeof(path), "%s/%s", v1[V1_DEVICES].root, c->parent);
	c->v1_fd[V1_DEVICES] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (c->v1_fd[V1_DEVICES] < 0 && errno == ENOENT) {
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "make cgroup %s", path);
		c->v1_fd[V1_DEVICES] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	if (c->v1_fd[V1_DEVICES] < 0)
		return err_sys(e, "open cgroup %s", path);
	if (confine_devices(c->parent, e) < 0)
		return -1;
	c->join_fd[V1_DEVICES] = openat(c->v1_fd[V1_DEVICES], "tasks", O_WRONLY | O_CLOEXEC);
	if (c->join_fd[V1_DEVICES] < 0)
		return err_sys(e, "open tasks of %s", path);
	return 0;
}

static int hybrid_create(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	(void)l;
	c->v2_fd = cgroup_dir(V2_ROOT, c->parent, c->name, 1, e);
	return c->v2_fd < 0 ? -1 : 0;
}

static int hybrid_complete(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	int i;

	for (i = 0; i < CGROUP_V1_COUNT; i++) {
		if (i == V1_DEVICES || (!v1[i].always && !(i == V1_CPUSET && l->cpuset[0])) ||
		    (i == V1_BLKIO && l->no_io && !l->io_weight && !l->io_rate_count))
			continue;
		if (open_v1(c, i, 1, e) < 0)
			return -1;
	}
	if ((l->device_count ? make_devices_cgroup(c, l, e) : join_devices(c, e)) < 0 || hybrid_limit(c, l, e) < 0)
		return -1;
	return c->v1_fd[V1_MEMORY] >= 0 ? watch_oom(c, e) : 0;
}

/* Makes a leaf in the hierarchies that account for a command or limit it; the rest is inherited from init. */
static int hybrid_create_leaf(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	c->v2_fd = cgroup_dir(V2_ROOT, c->parent, c->name, 1, e);
	if (c->v2_fd < 0 || make_v1(c, V1_MEMORY, e) < 0 || make_v1(c, V1_PIDS, e) < 0)
		return -1;
	if (l->cpu_milli != CGROUP_UNLIMITED && make_v1(c, V1_CPU, e) < 0)
		return -1;
	/* a new cgroup has no limit of processes that would have to be lifted */
	return l->pids == CGROUP_UNLIMITED ? limit_all_but_processes(c, l, e) : hybrid_limit(c, l, e);
}

/* The v2 tree has no controllers here, and v1 lets processes and children live side by side. */
static int hybrid_house(struct cgroup *c, int pid, struct err *e)
{
	(void)c;
	(void)pid;
	(void)e;
	return 0;
}

static int hybrid_open(struct cgroup *c, struct err *e)
{
	int i;

	c->v2_fd = cgroup_dir(V2_ROOT, c->parent, c->name, 0, e);
	if (c->v2_fd < 0 && e->code != ERR_NOT_FOUND)
		return -1;
	for (i = 0; i < CGROUP_V1_COUNT; i++)
		if (i != V1_DEVICES && open_v1(c, i, 0, e) < 0)
			return -1;
	return open_devices(c, e);
}

/* "8:0 Read 4096" lines, then "Total N". */
static void add_blkio(const char *text, struct cgroup_usage *u)
{
	const char *p = text;

	while (p && *p) {
		char dev[32], op[16];
		unsigned long long v;

		if (sscanf(p, "%31s %15s %llu", dev, op, &v) == 3) {
			if (!strcmp(op, "Read"))
				u->read_bytes += v;
			else if (!strcmp(op, "Write"))
				u->write_bytes += v;
		}
		p = strchr(p, '\n');
		if (p)
			p++;
	}
}

static uint64_t read_v1_number(int dirfd, const char *file)
{
	char text[64];

	return cgroup_read(dirfd, file, text, sizeof(text)) > 0 ? strtoull(text, NULL, 10) : 0;
}

/* Reads the file by the descriptor that is open anyway if the sandbox is watched. */
static int read_oom_control(struct cgroup *c, char *text, size_t n)
{
	ssize_t r;

	if (c->oom_control_fd < 0)
		return cgroup_read_held(c, HELD_OOM, c->v1_fd[V1_MEMORY], "memory.oom_control", text, (unsigned)n);
	r = pread(c->oom_control_fd, text, n - 1, 0);
	text[r < 0 ? 0 : r] = '\0';
	return (int)r;
}

static int hybrid_usage(struct cgroup *c, int now, struct cgroup_usage *u, struct err *e)
{
	char text[4096];

	if (cgroup_read_held(c, HELD_CPU, c->v2_fd, "cpu.stat", text, sizeof(text)) < 0)
		return err_sys(e, "read cpu.stat");
	u->cpu_us = cgroup_stat_value(text, "usage_usec");
	if (c->v1_fd[V1_MEMORY] >= 0) {
		if (cgroup_read_held(c, HELD_PEAK, c->v1_fd[V1_MEMORY], "memory.max_usage_in_bytes", text, sizeof(text)) > 0)
			u->memory_peak_bytes = strtoull(text, NULL, 10);
		if (now)
			u->memory_bytes = read_v1_number(c->v1_fd[V1_MEMORY], "memory.usage_in_bytes");
		if (read_oom_control(c, text, sizeof(text)) > 0)
			u->oom_kills = cgroup_stat_value(text, "oom_kill");
	}
	if (c->v1_fd[V1_PIDS] >= 0) {
		if (cgroup_read_held(c, HELD_PIDS, c->v1_fd[V1_PIDS], "pids.events", text, sizeof(text)) > 0)
			u->pids_events = cgroup_stat_value(text, "max");
		if (now)
			u->pids = read_v1_number(c->v1_fd[V1_PIDS], "pids.current");
	}
	if (c->v1_fd[V1_BLKIO] >= 0 &&
	    cgroup_read_held(c, HELD_IO, c->v1_fd[V1_BLKIO], "blkio.throttle.io_service_bytes_recursive", text, sizeof(text)) > 0)
		add_blkio(text, u);
	return 0;
}

static int hybrid_remove(struct cgroup *c, struct err *e)
{
	int i;

	/* the v2 directory last, because gc finds the others by it */
	for (i = 0; i < CGROUP_V1_COUNT; i++)
		if (i != V1_DEVICES && c->v1_fd[i] >= 0 && cgroup_rmdir(v1[i].root, c->parent, c->name, e) < 0)
			return -1;
	if (remove_devices(c, e) < 0)
		return -1;
	return cgroup_rmdir(V2_ROOT, c->parent, c->name, e);
}

const struct cgroup_ops cgroup_ops_hybrid = {
	.name = "hybrid",
	.create = hybrid_create,
	.complete = hybrid_complete,
	.house = hybrid_house,
	.create_leaf = hybrid_create_leaf,
	.open = hybrid_open,
	.limit = hybrid_limit, .lift = hybrid_lift,
	.usage = hybrid_usage,
	.remove = hybrid_remove,
};
