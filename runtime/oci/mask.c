/* SPDX-License-Identifier: Apache-2.0 */
/* Removes access once the root is entered: masked paths, read-only paths, a read-only root. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/newmount.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"

static int is_directory(int fd)
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
		return err_sys(e, "copy what covers masked paths");
	return newmount_attach(copy, target, path, e);
}

/* One empty directory for all masks. */
static int mask_directory(struct cover *empty, int target, const char *path, struct err *e)
{
	static const struct newmount_opt opts[] = { { "source", "tmpfs" }, { "mode", "0755" }, { "size", "4k" }, { "nr_inodes", "2" } };

	if (empty->fd < 0)
		empty->fd = newmount_fs("tmpfs", opts, ARRAY_LEN(opts), MOUNT_ATTR_RDONLY, e);
	return empty->fd < 0 ? -1 : put_cover(empty, target, path, e);
}

/* A file by the host's /dev/null, which no file of the image can stand in for (CVE-2025-31133, E06, S25). */
static int mask(const struct oci_container *c, int root, const char *path, struct cover *null, struct cover *empty, struct err *e)
{
	autoclose int target = oci_kernelfs_open(c, root, path);

	if (target < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : err_sys(e, "open masked path %s", path);
	return is_directory(target) ? mask_directory(empty, target, path, e) : put_cover(null, target, path, e);
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
		r = mask(c, root, json_string_value(json_array_get(list, i)), &null, &empty, e);
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
