/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procfs and sysfs of a container: where they are mounted, what may be mounted over a file of
 * procfs, and how masks find them again.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/oci/container.h"

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

/* What path names below /top, however that is spelled; NULL: nothing. */
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
