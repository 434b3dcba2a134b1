/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's control file systems in a container: cgroup mounts, sysctls.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/newmount.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"

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

/* With options, which the kernel takes or refuses. */
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

static int begins(const char *s, const char *with)
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
	if (begins(dotted, "fs.mqueue."))
		return NS_IPC;
	if (begins(dotted, "net."))
		return NS_NET;
	if (!strcmp(dotted, "kernel.domainname") || !strcmp(dotted, "kernel.hostname"))
		return NS_UTS;
	if (begins(dotted, "user."))
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
