/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/resources.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"

struct target {
	const struct oci_cgroup *c;
	const char *controller;
	int fd;		/* its directory; -1: the host has none */
};

static struct target controller(const struct oci_cgroup *c, const char *name)
{
	return (struct target){ c, name, c->v2 ? oci_cgroup_clone_fd(c) : oci_cgroup_fd(c, name) };
}

static int put_resource_text(const struct target *t, const char *file, const char *text, struct err *e)
{
	int saved;

	if (t->fd < 0)
		return err_set(e, ERR_UNSUPPORTED, "this host has no cgroup controller %s, so %s cannot be set to %s; "
			       "hint: mount it, or leave the limit out", t->controller, file, text);
	if (t->c->undo && oci_undo_note(t->c->undo, t->fd, file, text, e) < 0)
		return -1;
	if (cgroup_write(t->fd, file, text) == 0)
		return 0;
	saved = errno;
	if (t->c->undo)
		oci_undo_drop(t->c->undo);
	errno = saved;
	if (errno == ENOENT)
		return err_set(e, ERR_UNSUPPORTED, "open cgroup file %s to set it to %s: no such file or directory: the "
			       "%s controller is not available here, or this kernel lacks the feature", file, text,
			       t->controller);
	return err_sys(e, "write '%s' to cgroup file %s", text, file);
}

static int put_i64(const struct target *t, const char *file, int64_t v, struct err *e)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIi64, v);
	return put_resource_text(t, file, text, e);
}

/* v2: -1 is "max" */
static int put_max(const struct target *t, const char *file, int64_t v, struct err *e)
{
	return v < 0 ? put_resource_text(t, file, "max", e) : put_i64(t, file, v, e);
}

static int has_json_member(const json_t *obj, const char *key)
{
	return oci_get(obj, key) != NULL;
}

/* ---- memory ------------------------------------------------------------------ */

/* memory <= memory and swap must hold at every step, so the order depends on the direction. */
static int memory_pair_v1(const struct target *t, int64_t limit, int64_t swap, struct err *e)
{
	struct err first;

	if (swap == 0) {
		return limit ? put_i64(t, "memory.limit_in_bytes", limit, e) : 0;
	}
	if (limit == 0)
		return put_i64(t, "memory.memsw.limit_in_bytes", swap, e);
	if (put_i64(t, "memory.limit_in_bytes", limit, &first) == 0)
		return put_i64(t, "memory.memsw.limit_in_bytes", swap, e);
	if (put_i64(t, "memory.memsw.limit_in_bytes", swap, e) < 0 || put_i64(t, "memory.limit_in_bytes", limit, e) < 0) {
		*e = first;
		return -1;
	}
	return 0;
}

static int memory_v1(const struct oci_cgroup *c, const json_t *m, struct err *e)
{
	struct target t = controller(c, "memory");
	int64_t limit = oci_i64(m, "limit", 0), swap = oci_i64(m, "swap", 0);

	/* unlimited memory beside a limit on both that was there before: lift that too */
	if (limit == -1 && swap == 0 && t.fd >= 0 && !faccessat(t.fd, "memory.memsw.limit_in_bytes", F_OK, 0))
		swap = -1;
	if (memory_pair_v1(&t, limit, swap, e) < 0)
		return -1;
	if (oci_i64(m, "reservation", 0) && put_i64(&t, "memory.soft_limit_in_bytes", oci_i64(m, "reservation", 0), e) < 0)
		return -1;
	/* kernel is deprecated and without effect since Linux 5.16 (config-linux.md): not recommended, ignored by all */
	if (oci_i64(m, "kernelTCP", 0) && put_i64(&t, "memory.kmem.tcp.limit_in_bytes", oci_i64(m, "kernelTCP", 0), e) < 0)
		return -1;
	if (has_json_member(m, "swappiness") && put_i64(&t, "memory.swappiness", oci_i64(m, "swappiness", 0), e) < 0)
		return -1;
	if (oci_true(m, "disableOOMKiller") && put_resource_text(&t, "memory.oom_control", "1", e) < 0)
		return -1;
	if (oci_true(m, "useHierarchy") && put_resource_text(&t, "memory.use_hierarchy", "1", e) < 0)
		return -1;
	return 0;
}

static int memory_v2(const struct oci_cgroup *c, const json_t *m, struct err *e)
{
	struct target t = controller(c, "memory");
	int64_t limit = oci_i64(m, "limit", 0), swap = oci_i64(m, "swap", 0);

	/* swap is memory and swap together here, swap alone in v2 */
	if (swap > 0) {
		if (limit <= 0)
			return err_set(e, ERR_INVALID, "linux.resources.memory: swap needs a memory limit with cgroup v2");
		if (swap < limit)
			return err_set(e, ERR_INVALID, "linux.resources.memory: swap, which is memory and swap together, is below limit");
		if (put_i64(&t, "memory.swap.max", swap - limit, e) < 0 &&
		    (e->code != ERR_UNSUPPORTED || swap != limit))
			return -1;
	} else if (swap < 0 || (limit < 0 && swap == 0)) {
		struct err ignored;

		if (put_resource_text(&t, "memory.swap.max", "max", &ignored) < 0 && ignored.code != ERR_UNSUPPORTED) {
			*e = ignored;
			return -1;
		}
	}
	if (limit && put_max(&t, "memory.max", limit, e) < 0)
		return -1;
	if (oci_i64(m, "reservation", 0) && put_max(&t, "memory.low", oci_i64(m, "reservation", 0), e) < 0)
		return -1;
	if (oci_true(m, "disableOOMKiller"))
		return err_set(e, ERR_UNSUPPORTED, "linux.resources.memory.disableOOMKiller: cgroup v2 has no such switch");
	return 0;
}

/* ---- cpu --------------------------------------------------------------------- */

/*
 * A runtime is part of its period, and the kernel checks both at each write: it refuses a
 * runtime above its period (realtime), a ratio above the parent's, a burst above its quota. The
 * order that passes depends on the present values, so both are tried.
 */
static int period_and_runtime(const struct target *t, const char *period_file, int64_t period, const char *runtime_file,
			      int64_t runtime, struct err *e)
{
	struct err first;

	if (!period || put_i64(t, period_file, period, &first) == 0)
		return runtime ? put_i64(t, runtime_file, runtime, e) : 0;
	if (runtime && put_i64(t, runtime_file, runtime, e) == 0 && put_i64(t, period_file, period, e) == 0)
		return 0;
	*e = first;
	return -1;
}

static int cpu_v1(const struct oci_cgroup *c, const json_t *cpu, struct err *e)
{
	struct target t = controller(c, "cpu"), set = controller(c, "cpuset");

	if (oci_u64(cpu, "shares", 0) && put_i64(&t, "cpu.shares", oci_i64(cpu, "shares", 0), e) < 0)
		return -1;
	if (period_and_runtime(&t, "cpu.rt_period_us", oci_i64(cpu, "realtimePeriod", 0), "cpu.rt_runtime_us",
			       oci_i64(cpu, "realtimeRuntime", 0), e) < 0)
		return -1;
	if (period_and_runtime(&t, "cpu.cfs_period_us", oci_i64(cpu, "period", 0), "cpu.cfs_quota_us",
			       oci_i64(cpu, "quota", 0), e) < 0)
		return -1;
	if (has_json_member(cpu, "burst") && put_i64(&t, "cpu.cfs_burst_us", oci_i64(cpu, "burst", 0), e) < 0)
		return -1;
	if (has_json_member(cpu, "idle") && put_i64(&t, "cpu.idle", oci_i64(cpu, "idle", 0), e) < 0)
		return -1;
	if (oci_str(cpu, "cpus") && *oci_str(cpu, "cpus") && put_resource_text(&set, "cpuset.cpus", oci_str(cpu, "cpus"), e) < 0)
		return -1;
	if (oci_str(cpu, "mems") && *oci_str(cpu, "mems") && put_resource_text(&set, "cpuset.mems", oci_str(cpu, "mems"), e) < 0)
		return -1;
	return 0;
}

/* 2..262144 to 1..10000, as runc and crun: 1 + ((shares - 2) * 9999) / 262142 */
static int64_t shares_to_weight(uint64_t shares)
{
	if (shares < 2)
		shares = 2;
	if (shares > 262144)
		shares = 262144;
	return 1 + (int64_t)((shares - 2) * 9999 / 262142);
}

static int cpu_v2(const struct oci_cgroup *c, const json_t *cpu, struct err *e)
{
	struct target t = controller(c, "cpu"), set = controller(c, "cpuset");
	int64_t quota = oci_i64(cpu, "quota", 0), period = oci_i64(cpu, "period", 0);
	char text[64], old[64] = "";

	if (oci_u64(cpu, "realtimePeriod", 0) || oci_i64(cpu, "realtimeRuntime", 0))
		return err_set(e, ERR_UNSUPPORTED, "linux.resources.cpu: realtime limits need cgroup v1");
	if (has_json_member(cpu, "idle") && put_i64(&t, "cpu.idle", oci_i64(cpu, "idle", 0), e) < 0)
		return -1;
	/* the weight of an idle cgroup is fixed */
	if (oci_u64(cpu, "shares", 0) && oci_i64(cpu, "idle", 0) != 1 &&
	    put_i64(&t, "cpu.weight", shares_to_weight(oci_u64(cpu, "shares", 0)), e) < 0)
		return -1;
	if (quota || period) {
		if (!quota && t.fd >= 0 && cgroup_read(t.fd, "cpu.max", old, sizeof(old)) > 0)
			old[strcspn(old, " ")] = '\0';
		if (quota > 0)
			snprintf(old, sizeof(old), "%" PRIi64, quota);
		else if (quota < 0 || !old[0])
			snprintf(old, sizeof(old), "max");
		if (period)
			snprintf(text, sizeof(text), "%.24s %" PRIi64, old, period);
		else
			snprintf(text, sizeof(text), "%.24s", old);
		if (put_resource_text(&t, "cpu.max", text, e) < 0)
			return -1;
	}
	if (has_json_member(cpu, "burst") && put_i64(&t, "cpu.max.burst", oci_i64(cpu, "burst", 0), e) < 0)
		return -1;
	if (oci_str(cpu, "cpus") && *oci_str(cpu, "cpus") && put_resource_text(&set, "cpuset.cpus", oci_str(cpu, "cpus"), e) < 0)
		return -1;
	if (oci_str(cpu, "mems") && *oci_str(cpu, "mems") && put_resource_text(&set, "cpuset.mems", oci_str(cpu, "mems"), e) < 0)
		return -1;
	return 0;
}

/* ---- block devices ------------------------------------------------------------- */

/* v1 calls it weight with CFQ and bfq.weight with BFQ. */
static int blkio_weight(const struct target *t, int64_t weight, struct err *e)
{
	struct err second;

	if (put_i64(t, "blkio.weight", weight, e) == 0)
		return 0;
	return t->fd >= 0 && put_i64(t, "blkio.bfq.weight", weight, &second) == 0 ? 0 : -1;
}

static int each_device(const struct target *t, const json_t *list, const char *file, const char *key,
		       const char *format, struct err *e)
{
	const json_t *d;
	char text[96], value[32];
	size_t i;

	json_array_foreach(list, i, d) {
		if (!has_json_member(d, key))
			continue;
		snprintf(value, sizeof(value), "%" PRIu64, oci_u64(d, key, 0));
		/* v2's throttles read max for none, v1's 0 */
		snprintf(text, sizeof(text), "%lld:%lld %s%s", (long long)oci_i64(d, "major", 0),
			 (long long)oci_i64(d, "minor", 0), format, *format && !strcmp(value, "0") ? "max" : value);
		if (put_resource_text(t, file, text, e) < 0)
			return -1;
	}
	return 0;
}

/* The two schedulers' names of one file, either of which may be there. */
static const char *weight_file(const struct target *t)
{
	return t->fd >= 0 && faccessat(t->fd, "blkio.weight_device", F_OK, 0) < 0 ? "blkio.bfq.weight_device" : "blkio.weight_device";
}

static const struct { const char *key, *v1, *v2; } throttles[] = {
	{ "throttleReadBpsDevice", "blkio.throttle.read_bps_device", "rbps=" },
	{ "throttleWriteBpsDevice", "blkio.throttle.write_bps_device", "wbps=" },
	{ "throttleReadIOPSDevice", "blkio.throttle.read_iops_device", "riops=" },
	{ "throttleWriteIOPSDevice", "blkio.throttle.write_iops_device", "wiops=" },
};

static int put_block_io(const struct oci_cgroup *c, const json_t *b, struct err *e)
{
	struct target t = controller(c, c->v2 ? "io" : "blkio");
	int64_t weight = oci_i64(b, "weight", 0);
	size_t i;

	if (weight && c->v2) {
		struct err second;

		/* 10..1000 to 1..10000, as runc and crun */
		if (put_i64(&t, "io.bfq.weight", weight, e) < 0 &&
		    put_i64(&t, "io.weight", 1 + (weight - 10) * 9999 / 990, &second) < 0)
			return -1;
	} else if (weight && blkio_weight(&t, weight, e) < 0) {
		return -1;
	}
	if (!c->v2 && oci_u64(b, "leafWeight", 0) && put_i64(&t, "blkio.leaf_weight", oci_i64(b, "leafWeight", 0), e) < 0)
		return -1;
	if (each_device(&t, oci_get(b, "weightDevice"), c->v2 ? "io.bfq.weight" : weight_file(&t), "weight", "", e) < 0)
		return -1;
	if (!c->v2 && each_device(&t, oci_get(b, "weightDevice"), "blkio.leaf_weight_device", "leafWeight", "", e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(throttles); i++)
		if (each_device(&t, oci_get(b, throttles[i].key), c->v2 ? "io.max" : throttles[i].v1, "rate",
				c->v2 ? throttles[i].v2 : "", e) < 0)
			return -1;
	return 0;
}

/* ---- the rest --------------------------------------------------------------------- */

static int huge_pages(const struct oci_cgroup *c, const json_t *list, struct err *e)
{
	struct target t = controller(c, "hugetlb");
	const json_t *h;
	size_t i;

	json_array_foreach(list, i, h) {
		const char *size = oci_str(h, "pageSize");
		char file[96], text[32];

		if (strspn(size, "0123456789KMGTB") != strlen(size) || strlen(size) > 16)
			return err_set(e, ERR_INVALID, "linux.resources.hugepageLimits: '%.32s' is not a page size such as 2MB", size);
		snprintf(text, sizeof(text), "%" PRIu64, oci_u64(h, "limit", 0));
		snprintf(file, sizeof(file), c->v2 ? "hugetlb.%s.max" : "hugetlb.%s.limit_in_bytes", size);
		if (put_resource_text(&t, file, text, e) < 0)
			return -1;
		/* reservations too, where the kernel counts them (5.7) */
		snprintf(file, sizeof(file), c->v2 ? "hugetlb.%s.rsvd.max" : "hugetlb.%s.rsvd.limit_in_bytes", size);
		if (put_resource_text(&t, file, text, e) < 0 && e->code != ERR_UNSUPPORTED)
			return -1;
	}
	return 0;
}

static int put_network_classes(const struct oci_cgroup *c, const json_t *n, struct err *e)
{
	struct target cls = controller(c, "net_cls"), prio = controller(c, "net_prio");
	const json_t *p;
	size_t i;

	if (c->v2 && (oci_u64(n, "classID", 0) || json_array_size(oci_get(n, "priorities"))))
		return err_set(e, ERR_UNSUPPORTED, "linux.resources.network needs cgroup v1: v2 has no net_cls and net_prio");
	if (oci_u64(n, "classID", 0) && put_i64(&cls, "net_cls.classid", oci_i64(n, "classID", 0), e) < 0)
		return -1;
	json_array_foreach(oci_get(n, "priorities"), i, p) {
		char text[64];

		snprintf(text, sizeof(text), "%.32s %u", oci_str(p, "name"), (unsigned)oci_u64(p, "priority", 0));
		if (put_resource_text(&prio, "net_prio.ifpriomap", text, e) < 0)
			return -1;
	}
	return 0;
}

static int rdma(const struct oci_cgroup *c, json_t *map, struct err *e)
{
	struct target t = controller(c, "rdma");
	const char *name;
	json_t *v;

	json_object_foreach(map, name, v) {
		char text[160];
		int n = snprintf(text, sizeof(text), "%.64s", name);

		if (has_json_member(v, "hcaHandles"))
			n += snprintf(text + n, sizeof(text) - (size_t)n, " hca_handle=%u", (unsigned)oci_u64(v, "hcaHandles", 0));
		if (has_json_member(v, "hcaObjects"))
			snprintf(text + n, sizeof(text) - (size_t)n, " hca_object=%u", (unsigned)oci_u64(v, "hcaObjects", 0));
		if (put_resource_text(&t, "rdma.max", text, e) < 0)
			return -1;
	}
	return 0;
}

/* Checks that the key's controller exists. The error is in crun's words, which its tests look for. */
static int check_unified_key(const struct target *t, const char *key, struct err *e)
{
	char controllers[512] = "", name[64];
	const size_t n = strcspn(key, ".");

	if (strchr(key, '/') || !n || !key[n] || n >= sizeof(name))
		return err_set(e, ERR_INVALID, "linux.resources.unified: the specified key has not the form CONTROLLER.VALUE `%.64s`", key);
	snprintf(name, sizeof(name), "%.*s", (int)n, key);
	if (t->fd >= 0)
		cgroup_read(t->fd, "cgroup.controllers", controllers, sizeof(controllers));
	if (strcmp(name, "cgroup") != 0 && !cgroup_has_word(controllers, name))
		return err_set(e, ERR_UNSUPPORTED, "linux.resources.unified: the requested cgroup controller `%s` is not available", name);
	return 0;
}

static int unified(const struct oci_cgroup *c, json_t *map, struct err *e)
{
	struct target t = { c, "unified", oci_cgroup_clone_fd(c) };
	const char *file;
	json_t *v;

	if (json_object_size(map) && !c->v2)
		return err_set(e, ERR_UNSUPPORTED, "invalid configuration: linux.resources.unified needs cgroup v2, which this host has not at /sys/fs/cgroup");
	json_object_foreach(map, file, v) {
		char line[512], *save = NULL, *one;

		if (check_unified_key(&t, file, e) < 0)
			return -1;
		/* one write for each line: cgroup files take no more (io.max) */
		if ((size_t)snprintf(line, sizeof(line), "%s", json_string_value(v)) >= sizeof(line))
			return err_set(e, ERR_INVALID, "linux.resources.unified: %.64s is too long", file);
		for (one = strtok_r(line, "\n", &save); one; one = strtok_r(NULL, "\n", &save))
			if (put_resource_text(&t, file, one, e) < 0)
				return -1;
	}
	return 0;
}

int oci_resources_apply(const struct oci_cgroup *c, const json_t *r, struct err *e)
{
	const json_t *memory = oci_get(r, "memory"), *cpu = oci_get(r, "cpu"), *block = oci_get(r, "blockIO");
	struct target pids = controller(c, "pids");

	if (!r)
		return 0;
	if (memory && (c->v2 ? memory_v2(c, memory, e) : memory_v1(c, memory, e)) < 0)
		return -1;
	if (cpu && (c->v2 ? cpu_v2(c, cpu, e) : cpu_v1(c, cpu, e)) < 0)
		return -1;
	if (oci_get2(r, "pids", "limit")) {
		int64_t limit = oci_i64(oci_get(r, "pids"), "limit", 0);

		/* 0 is unlimited, as in runc and crun: a container with a limit of 0 could not run */
		if (put_max(&pids, "pids.max", limit > 0 ? limit : -1, e) < 0 &&
		    (limit > 0 || e->code != ERR_UNSUPPORTED))
			return -1;
	}
	if (block && put_block_io(c, block, e) < 0)
		return -1;
	if (huge_pages(c, oci_get(r, "hugepageLimits"), e) < 0 || put_network_classes(c, oci_get(r, "network"), e) < 0 ||
	    rdma(c, oci_get(r, "rdma"), e) < 0)
		return -1;
	return unified(c, oci_get(r, "unified"), e);
}

int oci_resources_update(struct oci_cgroup *c, const json_t *r, struct err *e)
{
	struct oci_undo undo = { 0 };
	struct err second;
	int result;

	c->undo = &undo;
	result = oci_resources_apply(c, r, e) < 0 || oci_devices_allow(c, oci_get(r, "devices"), e) < 0 ? -1 : 0;
	c->undo = NULL;
	if (result < 0 && oci_undo_restore(&undo, &second) < 0)
		oci_log(OCI_WARNING, "%s: the limits are not all what they were", second.msg);
	oci_undo_release(&undo);
	return result;
}

/* ---- taking an update back ---- */

#define CONTENT_MAX 65536

/* Files with one line for each interface or adapter; those for devices are known by MAJOR:MINOR. */
static int has_lines(const char *file, const char *text)
{
	const size_t n = strcspn(text, " ");

	return memchr(text, ':', n) || (text[n] && (!strcmp(file, "net_prio.ifpriomap") || !strcmp(file, "rdma.max")));
}

/* The value for a line that does not exist. */
static const char *nothing(const char *file)
{
	if (!strcmp(file, "io.max"))
		return "rbps=max wbps=max riops=max wiops=max";
	if (!strcmp(file, "rdma.max"))
		return "hca_handle=max hca_object=max";
	return strncmp(file, "io.", 3) ? "0" : "default";
}

/* The line of content that begins with the first word of text; else that word, and nothing. */
static char *undo_line_of(char *content, const char *file, const char *text)
{
	const size_t n = strcspn(text, " ");
	char *line, *save = NULL, *out = NULL;

	for (line = strtok_r(content, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (!strncmp(line, text, n) && line[n] == ' ')
			return strdup(line);
	return asprintf(&out, "%.*s %s", (int)n, text, nothing(file)) < 0 ? NULL : out;
}

static char *before(char *content, const char *file, const char *text)
{
	const char *disabled;

	if (has_lines(file, text))
		return undo_line_of(content, file, text);
	/* memory.oom_control is read as three lines and written as one number */
	if (!strcmp(file, "memory.oom_control")) {
		disabled = strstr(content, "oom_kill_disable ");
		return strdup(disabled && disabled[17] == '1' ? "1" : "0");
	}
	content[strcspn(content, "\n")] = '\0';
	/* an empty list of CPUs; no bytes at all would be no write(2) to speak of */
	return strdup(*content ? content : "\n");
}

int oci_undo_note(struct oci_undo *u, int dir_fd, const char *file, const char *text, struct err *e)
{
	struct oci_undo_entry *more = reallocarray(u->list, u->count + 1, sizeof(*more)), *one;
	autofree char *content = malloc(CONTENT_MAX);

	if (more)
		u->list = more;
	if (!more || !content)
		return err_nomem(e);
	one = &u->list[u->count];
	*one = (struct oci_undo_entry){ .dir_fd = dir_fd, .file = strdup(file) };
	if (one->file && cgroup_read(dir_fd, file, content, CONTENT_MAX) >= 0)
		one->text = before(content, file, text);
	u->count++;
	return one->file ? 0 : err_nomem(e);
}

static void release_undo_entry(struct oci_undo_entry *one)
{
	free(one->file);
	free(one->text);
}

void oci_undo_drop(struct oci_undo *u)
{
	if (u->count)
		release_undo_entry(&u->list[--u->count]);
}

int oci_undo_restore(const struct oci_undo *u, struct err *e)
{
	size_t i = u->count;
	int r = 0;

	while (i-- > 0) {
		const struct oci_undo_entry *one = &u->list[i];

		if (!one->text || cgroup_write(one->dir_fd, one->file, one->text) == 0 || r < 0)
			continue;
		r = err_sys(e, "write '%s' back to cgroup file %s", one->text, one->file);
	}
	return r;
}

void oci_undo_release(struct oci_undo *u)
{
	while (u->count)
		oci_undo_drop(u);
	free(u->list);
	u->list = NULL;
}
