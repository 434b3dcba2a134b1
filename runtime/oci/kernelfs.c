/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procfs and sysfs of a container: where they are mounted, what may be mounted over a file of
 * procfs, and how masks find them again.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/newmount.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"

#ifndef PROC_SUPER_MAGIC
#define PROC_SUPER_MAGIC 0x9fa0
#endif

static int is_procfs(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 && st.f_type == PROC_SUPER_MAGIC;
}

/*
 * The files of procfs that may be covered: those that engines (lxcfs) do cover, and none that is
 * written to.
 */
static int allowed_in_proc(const char *path)
{
	static const char *const names[] = {
		"/proc/cpuinfo", "/proc/diskstats", "/proc/meminfo", "/proc/stat", "/proc/swaps", "/proc/uptime",
		"/proc/loadavg", "/proc/slabinfo", "/proc/net/dev", "/proc/sys/kernel/ns_last_pid",
		"/proc/sys/crypto/fips_enabled",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(path, names[i]))
			return 1;
	return 0;
}

/*
 * Mounts procfs and sysfs at their places, and not where a link of the image leads
 * (CVE-2019-19921, CVE-2023-27561). The directory that was checked is the one that is mounted
 * on, because another container with the same tree may put a link there in between (S25).
 */
int oci_kernelfs_place(int root_fd, const struct oci_mount *m, const char *path, struct err *e)
{
	struct stat st;
	autoclose int fd = path_open_in_root(root_fd, path, O_PATH | O_NOFOLLOW, 0);

	if (fd < 0 && errno == ENOENT)
		return oci_place(root_fd, path, 1, e);
	if (fd < 0)
		return err_sys(e, "open mount point %s", path);
	if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_DENIED, "filesystem \"%s\" must be mounted on ordinary directory: %s in the container's "
			       "root is not", m->type, path);
	return take_fd(&fd);
}

int oci_kernelfs_keep(struct oci_container *c, const struct oci_mount *m, const char *path, struct err *e)
{
	int *slot = !strcmp(path, "/proc") ? &c->proc_mount_fd : !strcmp(path, "/sys") ? &c->sys_mount_fd : NULL;

	if (!slot)
		return 0;
	fd_close(slot);
	*slot = fcntl(m->fd, F_DUPFD_CLOEXEC, 3);
	return *slot < 0 ? err_sys(e, "keep mount %s", path) : 0;
}

int oci_kernelfs_check(const struct oci_mount *m, const char *path, int target, struct err *e)
{
	if (!strcmp(path, "/proc") && !is_procfs(m->fd))
		return err_set(e, ERR_DENIED, "\"%.100s\" cannot be mounted at /proc because it is not of type proc",
			       m->source ? m->source : m->type);
	if (is_procfs(target) && strcmp(path, "/proc") != 0 && !allowed_in_proc(path))
		return err_set(e, ERR_DENIED, "\"%.100s\" cannot be mounted on %s because it is inside /proc",
			       m->source ? m->source : m->type, path);
	return 0;
}

/* Past slashes and names that are a dot. */
static const char *skip_nothing(const char *p)
{
	while (*p == '/' || (*p == '.' && (p[1] == '/' || !p[1])))
		p++;
	return p;
}

void oci_kernelfs_spell(char *path)
{
	const char *from = path;
	char *to = path;

	while (*(from = skip_nothing(from))) {
		*to++ = '/';
		while (*from && *from != '/')
			*to++ = *from++;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}

/* Returns what path names below /top, however that is spelled; NULL: nothing. */
static const char *below(const char *path, const char *top)
{
	const size_t n = strlen(top);
	const char *p = skip_nothing(path);

	if (strncmp(p, top, n) != 0 || p[n] != '/')
		return NULL;
	p = skip_nothing(p + n);
	return *p ? p : NULL;
}

int oci_kernelfs_open(const struct oci_container *c, int root, const char *path)
{
	const char *proc = below(path, "proc"), *sys = below(path, "sys");

	/* ".." may lead out of the mount; it would stop only at the mount's own root */
	if (strstr(path, "/.."))
		return path_open_in_root(root, path, O_PATH, 0);
	if (c->proc_mount_fd >= 0 && proc)
		return path_open_in_root(c->proc_mount_fd, proc, O_PATH, 0);
	if (c->sys_mount_fd >= 0 && sys)
		return path_open_in_root(c->sys_mount_fd, sys, O_PATH, 0);
	return path_open_in_root(root, path, O_PATH, 0);
}

/* ---- cgroup mounts and sysctls ---- */

/*
 * The kernel's control file systems in a container: cgroup mounts, sysctls.
 */

static int own_cgroupns(const struct oci_container *c)
{
	return (c->new_ns >> NS_CGROUP & 1) || c->ns_fd[NS_CGROUP] >= 0;
}

/* A view of the hierarchy: of our own cgroup namespace, else the container's directory of the host's. */
static int view(const struct oci_container *c, const char *type, const char *option, const char *dir, uint64_t attr,
		struct err *e)
{
	const struct newmount_opt opts[] = { { "source", "cgroup" }, { option, NULL } };
	const struct newmount_opt named[] = { { "source", "cgroup" }, { "none", NULL }, { "name", option } };
	int fd;

	if (own_cgroupns(c)) {
		if (!option)
			return newmount_fs(type, opts, 1, attr, e);
		/* "systemd" and the like are names, not controllers */
		fd = newmount_fs(type, opts, 2, attr, e);
		return fd >= 0 ? fd : newmount_fs(type, named, 3, attr, e);
	}
	return newmount_clone(AT_FDCWD, dir, 0, attr, e);
}

/*
 * Options of the file system itself are the kernel's to know. They are refused where no file
 * system is made.
 */
static int refuse_words(const struct oci_mount *m, const char *why, struct err *e)
{
	if (!m->words)
		return 0;
	err_errno(e, EINVAL, "mount %s (%s): option %s", m->destination, m->type, m->word[0]);
	return err_hint(e, "%s", why);
}

/* Mounts the unified hierarchy with its options, which the kernel takes or refuses. */
static int new_unified(const struct oci_mount *m, struct err *e)
{
	struct oci_mount own = *m;
	autoclose int fd = -1;

	own.type = "cgroup2";
	own.source = "cgroup";
	if (oci_mount_new(&own, e) < 0)
		return -1;
	fd = own.fd;
	if (m->set & MOUNT_ATTR_RDONLY && newmount_attr(fd, 0, MOUNT_ATTR_RDONLY, e) < 0)
		return err_wrap(e, "mount %s", m->destination);
	return take_fd(&fd);
}

static int mount_unified(struct oci_container *c, struct oci_mount *m, int target, struct err *e)
{
	const struct oci_cgroup *cg = &c->state->cgroup;
	autoclose int fd = -1;
	size_t i;

	if (m->words && own_cgroupns(c)) {
		fd = new_unified(m, e);
		return fd < 0 ? -1 : newmount_attach(fd, target, m->destination, e);
	}
	if (refuse_words(m, "without a cgroup namespace of its own, the container gets the host's mount, and its options", e) < 0)
		return -1;

	for (i = 0; i < cg->count; i++)
		if (!strcmp(cg->part[i].name, OCI_CGROUP_UNIFIED))
			break;
	fd = view(c, "cgroup2", NULL, i < cg->count ? cg->part[i].dir : "/sys/fs/cgroup", m->set, e);
	/* without a namespace or the right to mount: the host's, as crun does in a user namespace */
	if (fd < 0 && c->in_userns)
		fd = newmount_clone(AT_FDCWD, "/sys/fs/cgroup", 1, m->set, e);
	return fd < 0 ? -1 : newmount_attach(fd, target, m->destination, e);
}

/* v1: a small tmpfs with a directory for each hierarchy, as the host has it. */
static int mount_v1(struct oci_container *c, struct oci_mount *m, int target, struct err *e)
{
	static const struct newmount_opt opts[] = { { "mode", "755" }, { "source", "tmpfs" } };
	const struct oci_cgroup *cg = &c->state->cgroup;
	const uint64_t attr = m->set & ~(uint64_t)MOUNT_ATTR_RDONLY;
	autoclose int top = newmount_fs("tmpfs", opts, ARRAY_LEN(opts), attr, e);
	autoclose int dir = -1;
	size_t i;

	if (refuse_words(m, "a cgroup mount of v1 takes ro, nosuid and the like alone", e) < 0)
		return -1;
	/* the old mount API copies no path below a detached mount: attach first */
	if (top < 0 || newmount_attach(top, target, m->destination, e) < 0)
		return -1;
	dir = openat(top, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (i = 0; i < cg->count; i++) {
		const struct oci_cgroup_part *p = &cg->part[i];
		const int unified = !strcmp(p->name, OCI_CGROUP_UNIFIED);
		autoclose int fd = -1, place = -1;
		char one[64];
		const char *comma;

		if (mkdirat(dir, p->name, 0755) < 0)
			return err_sys(e, "make %s/%s", m->destination, p->name);
		place = openat(dir, p->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (place < 0)
			return err_sys(e, "open %s/%s", m->destination, p->name);
		snprintf(one, sizeof(one), "%.*s", (int)strcspn(p->name, ","), p->name);
		fd = view(c, unified ? "cgroup2" : "cgroup", unified ? NULL : one, p->dir, m->set, e);
		if (fd < 0 || newmount_attach(fd, place, p->name, e) < 0)
			return -1;
		/* "cpu" and "cpuacct" beside "cpu,cpuacct" */
		for (comma = strchr(p->name, ',') ? p->name : NULL; comma; comma = strchr(comma, ',')) {
			comma += *comma == ',';
			snprintf(one, sizeof(one), "%.*s", (int)strcspn(comma, ","), comma);
			if (symlinkat(p->name, dir, one) < 0)
				return err_sys(e, "make %s/%s", m->destination, one);
		}
	}
	if (m->set & MOUNT_ATTR_RDONLY && newmount_attr(top, 0, MOUNT_ATTR_RDONLY, e) < 0)
		return err_wrap(e, "mount %s", m->destination);
	return 0;
}

int oci_cgroup_mount(struct oci_container *c, struct oci_mount *m, int target, struct err *e)
{
	if (c->state->cgroup.v2 || !strcmp(m->type, "cgroup2"))
		return mount_unified(c, m, target, e);
	return mount_v1(c, m, target, e);
}

/* ---- sysctl ------------------------------------------------------------------------------- */

static int begins_with_key(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

static int own_ns(const struct oci_container *c, enum oci_ns ns)
{
	return (c->new_ns >> ns & 1) || c->ns_fd[ns] >= 0;
}

/* The namespace that a sysctl belongs to; -1: the whole host. */
static int namespace_of(const char *dotted)
{
	static const char *const ipc[] = { "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem", "kernel.shmall",
					   "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced", "kernel.msg_next_id",
					   "kernel.sem_next_id", "kernel.shm_next_id" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(ipc); i++)
		if (!strcmp(dotted, ipc[i]))
			return NS_IPC;
	if (begins_with_key(dotted, "fs.mqueue."))
		return NS_IPC;
	if (begins_with_key(dotted, "net."))
		return NS_NET;
	if (!strcmp(dotted, "kernel.domainname") || !strcmp(dotted, "kernel.hostname"))
		return NS_UTS;
	if (begins_with_key(dotted, "user."))
		return NS_USER;
	return -1;
}

/* "a.b" and "a/b" name the same; a name with a slash first keeps its dots (net/ipv4/conf/eth0.1/...). */
static int to_path(const char *key, char path[256], char dotted[256])
{
	const char first = key[strcspn(key, "./")];
	size_t i;

	if (strlen(key) >= 250 || strstr(key, "..") || strchr("./", key[0]))
		return -1;
	for (i = 0; key[i]; i++) {
		path[i] = first == '/' ? key[i] : key[i] == '.' ? '/' : key[i] == '/' ? '.' : key[i];
		dotted[i] = path[i] == '/' ? '.' : path[i];
	}
	path[i] = dotted[i] = '\0';
	return 0;
}

/* Said twice it may be, and the same (runtime-tools, runc and crun take that). */
static int contradicts_domainname(const struct oci_container *c, const char *dotted, const char *value)
{
	const char *own = oci_str(c->config, "domainname");

	return !strcmp(dotted, "kernel.domainname") && own && *own && strcmp(own, value) != 0;
}

int oci_sysctl_check(const struct oci_container *c, struct err *e)
{
	json_t *map = oci_get(c->linux_part, "sysctl"), *v;
	const char *key;

	json_object_foreach(map, key, v) {
		char path[256], dotted[256];
		int ns;

		if (to_path(key, path, dotted) < 0)
			return err_set(e, ERR_INVALID, "linux.sysctl: '%.100s' is not a sysctl's name", key);
		ns = namespace_of(dotted);
		if (ns < 0 || !own_ns(c, (enum oci_ns)ns))
			return err_set(e, ERR_INVALID, "sysctl \"%s\" is not in a separate kernel namespace", key);
		if (!strcmp(dotted, "kernel.hostname") || contradicts_domainname(c, dotted, json_string_value(v)))
			return err_set(e, ERR_INVALID, "sysctl \"%s\" conflicts with the configuration's own %s", key, dotted + 7);
	}
	return 0;
}

int oci_sysctl_write(const struct oci_container *c, struct err *e)
{
	json_t *map = oci_get(c->linux_part, "sysctl"), *v;
	const char *key;

	json_object_foreach(map, key, v) {
		char path[256], full[300], dotted[256];

		to_path(key, path, dotted);
		snprintf(full, sizeof(full), "sys/%s", path);
		if (io_write_file(c->proc_fd, full, json_string_value(v), e) < 0)
			return err_wrap(e, "linux.sysctl \"%s\"", key);
	}
	return 0;
}

/* ---- masked and read-only paths ---- */

/* Removes access once the root is entered: masked paths, read-only paths, a read-only root. */

static int is_masked_directory(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/*
 * The paths that stayed writable for mount points, devices and the console in them; in order,
 * the last one counts.
 */
static int lock_late(const struct oci_container *c, struct err *e)
{
	size_t i;

	for (i = 0; i < c->mount_count; i++) {
		struct oci_mount *m = &c->mounts[i];

		if (!m->late || m->fd < 0)
			continue;
		if (oci_mount_late(m, e) < 0)
			return -1;
		fd_close(&m->fd);
	}
	return 0;
}

struct cover {
	int fd;		/* a mount: the host's null device, an empty directory */
	int used;
};

/* Kernels before 6.15 copy attached mounts only: the first path takes the mount itself, the others copies of it there. */
static int put_cover(struct cover *v, int target, const char *path, struct err *e)
{
	autoclose int copy = -1;

	if (!v->used) {
		v->used = 1;
		return newmount_attach(v->fd, target, path, e);
	}
	copy = open_tree(v->fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (copy < 0)
		return err_sys(e, "copy the mounts that cover masked paths");
	return newmount_attach(copy, target, path, e);
}

/* Makes one empty directory for all masks. */
static int mask_directory(struct cover *empty, int target, const char *path, struct err *e)
{
	static const struct newmount_opt opts[] = { { "source", "tmpfs" }, { "mode", "0755" }, { "size", "4k" }, { "nr_inodes", "2" } };

	if (empty->fd < 0)
		empty->fd = newmount_fs("tmpfs", opts, ARRAY_LEN(opts), MOUNT_ATTR_RDONLY, e);
	return empty->fd < 0 ? -1 : put_cover(empty, target, path, e);
}

/* A file by the host's /dev/null, which no file of the image can stand in for (CVE-2025-31133, E06, S25). */
static int mask_path(const struct oci_container *c, int root, const char *path, struct cover *null, struct cover *empty, struct err *e)
{
	autoclose int target = oci_kernelfs_open(c, root, path);

	if (target < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : err_sys(e, "open masked path %s", path);
	return is_masked_directory(target) ? mask_directory(empty, target, path, e) : put_cover(null, target, path, e);
}

static int read_only(const struct oci_container *c, int root, const char *path, struct err *e)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY };
	autoclose int target = oci_kernelfs_open(c, root, path);
	autoclose int copy = -1;

	if (target < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, "open read-only path %s", path);
	copy = open_tree(target, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
	if (copy < 0)
		return err_sys(e, "copy the mount of %s", path);
	if (mount_setattr(copy, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) < 0)
		return err_sys(e, "make %s read-only", path);
	return newmount_attach(copy, target, path, e);
}

/* The null device itself, not a file of that name: opened while /dev was the host's. */
static int mask_all(struct oci_container *c, int root, const json_t *list, struct err *e)
{
	struct stat st;
	struct cover null = { c->null_fd, 0 }, empty = { -1, 0 };
	size_t i;
	int r = 0;

	if (!json_array_size(list))
		return 0;
	if (c->null_fd < 0 || fstat(c->null_fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
		return err_set(e, ERR_DENIED, "linux.maskedPaths: /dev/null of the host is not the null device");
	for (i = 0; r == 0 && i < json_array_size(list); i++)
		r = mask_path(c, root, json_string_value(json_array_get(list, i)), &null, &empty, e);
	fd_close(&empty.fd);
	return r;
}

int oci_rootfs_finish(struct oci_container *c, struct err *e)
{
	autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const json_t *list = oci_get(c->linux_part, "readonlyPaths"), *v;
	struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY };
	size_t i;

	if (root < 0)
		return err_sys(e, "open the container's root");
	if (!oci_has_mounts(c) && !oci_mounts_on_host(c))
		return json_array_size(list) || json_array_size(oci_get(c->linux_part, "maskedPaths")) ||
		       oci_true(oci_get(c->config, "root"), "readonly") ?
		       err_set(e, ERR_INVALID, "maskedPaths, readonlyPaths and a read-only root need a mount namespace of the "
			       "container's own") : 0;
	if (lock_late(c, e) < 0)
		return -1;
	json_array_foreach(list, i, v)
		if (read_only(c, root, json_string_value(v), e) < 0)
			return -1;
	if (mask_all(c, root, oci_get(c->linux_part, "maskedPaths"), e) < 0)
		return -1;
	if (oci_true(oci_get(c->config, "root"), "readonly") && mount_setattr(root, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		return err_sys(e, "make the root read-only");
	if (c->propagation && mount(NULL, "/", NULL, c->propagation, NULL) < 0)
		return err_sys(e, "set the propagation of the root");
	return 0;
}
