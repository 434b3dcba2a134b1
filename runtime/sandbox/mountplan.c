/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S8 of SECURITY.md. */
#include "runtime/sandbox/mountplan.h"

#include <inttypes.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "runtime/kernel/procmask.h"

#define SAFE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define SAFE_NOEXEC (SAFE | MOUNT_ATTR_NOEXEC)

static const char *const kind_names[] = {
	[MOUNT_ROOT] = "overlay", [MOUNT_HOSTDIR] = "hostdir", [MOUNT_DEV] = "dev", [MOUNT_SYS] = "sys",
	[MOUNT_TMPFS] = "tmpfs", [MOUNT_CONTROL] = "control", [MOUNT_BIND] = "bind", [MOUNT_V1] = "cgroup", [MOUNT_PROC] = "proc", [MOUNT_DEVPTS] = "devpts",
	[MOUNT_MQUEUE] = "mqueue", [MOUNT_CGROUP] = "cgroup2", [MOUNT_RDONLY] = "rdonly",
	[MOUNT_MASK] = "mask", [MOUNT_BOOT] = "boot", [MOUNT_SEAL] = "seal",
};
_Static_assert(sizeof(kind_names) / sizeof(kind_names[0]) == MOUNT_KIND_COUNT, "one name per kind");

static struct mount_op *add_mount_op(struct mountplan *p, enum mount_kind kind, const char *target, uint64_t attr)
{
	static struct mount_op overflow;
	struct mount_op *op = p->count < MOUNTPLAN_MAX ? &p->ops[p->count] : &overflow;

	p->count++;	/* past the end: mountplan_build() notices */
	*op = (struct mount_op){
		.kind = kind, .target = target, .attr = attr, .source_fd = -1, .fd = -1,
	};
	return op;
}

static struct mount_op *add_planned_tmpfs(struct mountplan *p, const char *target, uint64_t attr, uint64_t size,
				  uint64_t inodes, uint32_t mode)
{
	struct mount_op *op = add_mount_op(p, MOUNT_TMPFS, target, attr);

	op->size_bytes = size;
	op->inodes = inodes;
	op->mode = mode;
	return op;
}

/* Returns one inode for each 4 KiB, at least 1024: a full tmpfs of tiny files stays bounded too (D04). */
static uint64_t inodes_for(uint64_t bytes)
{
	return bytes / 4096 < 1024 ? 1024 : bytes / 4096;
}

/*
 * The cgroup namespace's root.  Where version 1 has the limits, the sandbox's own directory of each hierarchy beside
 * it, where programs look for them: read-only, and its files are those of ids that the sandbox does not have.
 */
static void add_cgroups(struct mountplan *p, const struct spec *s)
{
	static const struct { enum cgroup_v1 hierarchy; const char *target; } places[] = {
		{ V1_MEMORY, "/sys/fs/cgroup/memory" }, { V1_CPU, "/sys/fs/cgroup/cpu" },
		{ V1_PIDS, "/sys/fs/cgroup/pids" }, { V1_CPUSET, "/sys/fs/cgroup/cpuset" },
	};
	size_t i;

	if (s->cgroup_v1)
		add_planned_tmpfs(p, "/sys/fs/cgroup", SAFE_NOEXEC, 65536, 32, 0755);
	add_mount_op(p, MOUNT_CGROUP, s->cgroup_v1 ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup", SAFE_NOEXEC | MOUNT_ATTR_RDONLY);
	for (i = 0; i < ARRAY_LEN(places); i++)
		if (s->cgroup_v1 & 1u << places[i].hierarchy)
			add_mount_op(p, MOUNT_V1, places[i].target, SAFE_NOEXEC | MOUNT_ATTR_RDONLY)->hierarchy = places[i].hierarchy;
	if (s->cgroup_v1)
		add_mount_op(p, MOUNT_SEAL, "/sys/fs/cgroup", MOUNT_ATTR_RDONLY);
}

#define READ_ONLY_TMP (64ULL << 20)	/* bytes of /tmp where no layer can be written */

static void add_system(struct mountplan *p, const struct spec *s)
{
	const uint64_t tmp = s->tmp_bytes || !s->read_only ? s->tmp_bytes : READ_ONLY_TMP;
	size_t i;

	add_mount_op(p, MOUNT_DEV, "/dev", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	add_mount_op(p, MOUNT_DEVPTS, "/dev/pts", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	add_planned_tmpfs(p, "/dev/shm", SAFE_NOEXEC, s->shm_bytes, 4096, 01777);
	add_mount_op(p, MOUNT_MQUEUE, "/dev/mqueue", SAFE_NOEXEC);
	add_mount_op(p, MOUNT_PROC, "/proc", SAFE_NOEXEC);
	for (i = 0; procmask_rdonly[i]; i++)
		add_mount_op(p, MOUNT_RDONLY, procmask_rdonly[i], SAFE_NOEXEC | MOUNT_ATTR_RDONLY);
	for (i = 0; procmask_hidden[i]; i++)
		add_mount_op(p, MOUNT_MASK, procmask_path(procmask_hidden[i]), SAFE_NOEXEC | MOUNT_ATTR_RDONLY)->mode =
			procmask_hidden[i][0] == 'd' ? S_IFDIR : S_IFREG;
	/* a sandbox that starts again has booted again, and none learns by this which others share its host */
	add_mount_op(p, MOUNT_BOOT, "/proc/sys/kernel/random/boot_id", SAFE_NOEXEC | MOUNT_ATTR_RDONLY);
	add_mount_op(p, MOUNT_SEAL, "/dev", MOUNT_ATTR_RDONLY);
	add_mount_op(p, MOUNT_SYS, "/sys", SAFE_NOEXEC);
	add_cgroups(p, s);
	add_mount_op(p, MOUNT_SEAL, "/sys", MOUNT_ATTR_RDONLY);
	if (s->no_tmpfs)
		return;
	if (tmp)	/* else it is a directory of the writable layer */
		add_planned_tmpfs(p, "/tmp", SAFE, tmp, inodes_for(tmp), 01777);
	add_planned_tmpfs(p, "/run", SAFE, 16 << 20, 4096, 0755);
}

/*
 * Comparing targets as text, as all below does, is right only when each place
 * has one spelling: "//proc" and "/./proc" would slip past the reserved ones.
 */
static int is_normal(const char *path)
{
	const char *p = path;

	while (*p == '/') {
		size_t n = strcspn(++p, "/");

		if ((n == 0 && path[1]) || (n == 1 && p[0] == '.') || (n == 2 && !strncmp(p, "..", 2)))
			return 0;
		p += n;
	}
	return !*p;
}

/* t is at or below dir. */
static int is_target_below(const char *t, const char *dir)
{
	size_t n = strlen(dir);

	return !strncmp(t, dir, n) && (!t[n] || t[n] == '/');
}

static int check_target(const struct spec *s, const struct spec_mount *m, struct err *e)
{
	static const char *const reserved[] = { "/proc", "/sys", "/dev" };
	const char *t = m->target, *covers = NULL;
	size_t i;

	if (t[0] != '/' || strlen(t) >= 4000)
		return err_set(e, ERR_INVALID, "mount target '%.200s' must be an absolute path in the sandbox", t);
	if (!is_normal(t))
		return err_set(e, ERR_INVALID, "mount target '%.200s' must not contain '.', '..' or '//' or end in '/'", t);
	if (!strcmp(t, "/"))
		covers = "/";
	for (i = 0; i < ARRAY_LEN(reserved); i++)
		if (is_target_below(t, reserved[i]) && strcmp(t, "/dev/shm"))
			covers = reserved[i];
	/* the control directory is made on /run: it must not be hidden, nor made on an operator's path */
	if (s->resident &&
	    (is_target_below(t, MOUNTPLAN_CONTROL) || (m->kind != SPEC_TMPFS && !strcmp(t, "/run"))))
		covers = MOUNTPLAN_CONTROL;
	if (covers)
		return err_set(e, ERR_INVALID, "mount target '%.200s' would cover what berth itself mounts at %s; "
			       "hint: choose another path", t, covers);
	return 0;
}

int mountplan_check_targets(const struct spec *s, struct err *e)
{
	size_t i;

	for (i = 0; i < s->mount_count; i++)
		if (check_target(s, &s->mounts[i], e) < 0)
			return -1;
	return 0;
}

static void add_user_mounts(struct mountplan *p, const struct spec *s)
{
	size_t i;

	for (i = 0; i < s->mount_count; i++) {
		const struct spec_mount *m = &s->mounts[i];
		uint64_t attr = SAFE | (m->writable ? 0 : MOUNT_ATTR_RDONLY) | (m->exec ? 0 : MOUNT_ATTR_NOEXEC) |
				(m->nosymfollow ? MOUNT_ATTR_NOSYMFOLLOW : 0);
		struct mount_op *op;

		if (m->kind == SPEC_TMPFS) {
			add_planned_tmpfs(p, m->target, attr, m->size_bytes, m->inodes ? m->inodes : inodes_for(m->size_bytes),
				  m->mode);
			continue;
		}
		op = add_mount_op(p, MOUNT_BIND, m->target, attr);
		op->source = m->source;
		op->source_fd = m->source_fd;
		op->is_volume = m->kind == SPEC_VOLUME;
		op->source_is_mount = m->source_is_mount;
		op->no_links = !m->links;
		op->idmap = 1;
		if (m->owner_auto)
			op->owner = m;
	}
}

/*
 * Adds the files that berth-net writes once the address is known; a mount of the operator's on the
 * same place replaces them.
 */
static void add_net_files(struct mountplan *p, const struct spec *s)
{
	static const struct { const char *name, *target; } files[] = { { "resolv.conf", "/etc/resolv.conf" }, { "hosts", "/etc/hosts" } };
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(p->net_file[i], sizeof(p->net_file[i]), "%s/%s", s->net_dir ? s->net_dir : "(made by berth)", files[i].name);
		add_mount_op(p, MOUNT_BIND, files[i].target, SAFE_NOEXEC | MOUNT_ATTR_RDONLY)->source = p->net_file[i];
	}
}

static size_t depth(const char *path)
{
	size_t n = 0;

	for (; *path; path++)
		n += *path == '/' && path[1];
	return n;
}

/* A later user mount on the same target replaces the earlier one, and shallow ones come first. */
static void order_user_mounts(struct mountplan *p, size_t first)
{
	size_t i, j;

	for (i = first; i < p->count; i++)
		for (j = 0; j < i; j++)
			if (!strcmp(p->ops[j].target, p->ops[i].target) &&
			    (p->ops[j].kind == MOUNT_TMPFS || p->ops[j].kind == MOUNT_BIND ||
			     p->ops[j].kind == MOUNT_HOSTDIR)) {
				memmove(&p->ops[j], &p->ops[j + 1], (p->count - j - 1) * sizeof(p->ops[0]));
				p->count--;
				if (j < first)
					first--;
				i = first - 1;
				break;
			}
	for (i = first + 1; i < p->count; i++) {	/* a stable insertion sort; there are few */
		struct mount_op op = p->ops[i];

		for (j = i; j > first && depth(p->ops[j - 1].target) > depth(op.target); j--)
			p->ops[j] = p->ops[j - 1];
		p->ops[j] = op;
	}
}

int mountplan_build(struct mountplan *p, const struct spec *s, const char *const *host_dirs, struct err *e)
{
	struct mount_op *op;
	size_t first;

	p->count = p->spare_count = 0;
	op = add_mount_op(p, MOUNT_ROOT, "/", SAFE);
	op->size_bytes = s->disk_bytes;
	op->inodes = s->disk_inodes;
	for (; host_dirs && *host_dirs; host_dirs++)
		add_mount_op(p, MOUNT_HOSTDIR, *host_dirs, SAFE | MOUNT_ATTR_RDONLY)->source = *host_dirs;
	add_system(p, s);
	if (spec_network_inside(s) == NETWORK_BRIDGE)
		add_net_files(p, s);
	first = p->count;
	if (mountplan_check_targets(s, e) < 0)
		return -1;
	add_user_mounts(p, s);
	if (p->count + 2 > MOUNTPLAN_MAX)
		return err_set(e, ERR_LIMIT, "more than %d mounts", MOUNTPLAN_MAX);
	order_user_mounts(p, first);
	if (s->resident)	/* after a user's tmpfs on /run */
		add_mount_op(p, MOUNT_CONTROL, MOUNTPLAN_CONTROL, SAFE_NOEXEC);
	if (s->read_only)
		add_mount_op(p, MOUNT_SEAL, "/", MOUNT_ATTR_RDONLY);
	return 0;
}

int mountplan_is_host_side(enum mount_kind kind)
{
	return kind < MOUNT_PROC;
}

const char *mountplan_kind_name(enum mount_kind kind)
{
	return kind_names[kind];
}

void mountplan_attr_text(uint64_t attr, char *buf, size_t n)
{
	snprintf(buf, n, "%s%s%s%s%s", attr & MOUNT_ATTR_RDONLY ? "ro" : "rw",
		 attr & MOUNT_ATTR_NOSUID ? ",nosuid" : "", attr & MOUNT_ATTR_NODEV ? ",nodev" : "",
		 attr & MOUNT_ATTR_NOEXEC ? ",noexec" : "", attr & MOUNT_ATTR_NOSYMFOLLOW ? ",nosymfollow" : "");
}

int mountplan_print(const struct mountplan *p, struct buf *out, struct err *e)
{
	size_t i;

	for (i = 0; i < p->count; i++) {
		const struct mount_op *op = &p->ops[i];
		char attr[64];

		mountplan_attr_text(op->attr, attr, sizeof(attr));
		if (buf_addf(out, e, "%-8s %-24s %s", kind_names[op->kind], op->target,
			     op->kind == MOUNT_SEAL ? "ro" : attr) < 0)
			return -1;
		if (op->size_bytes && buf_addf(out, e, " size=%" PRIu64 ",inodes=%" PRIu64, op->size_bytes, op->inodes) < 0)
			return -1;
		if (op->source && buf_addf(out, e, " from %s%s", op->source, op->idmap ? " (idmapped)" : "") < 0)
			return -1;
		if (buf_adds(out, "\n", e) < 0)
			return -1;
	}
	return 0;
}
