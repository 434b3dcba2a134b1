/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of a container without a mount namespace of its own: it inherits the runtime's
 * (config-linux.md, "Namespaces"), and so its mounts are made there. All of them lie below one
 * mount of the root on its own directory, which goes with the container.
 *
 * The state names the directory and the mount that it was on, before anything is mounted. What
 * is on the directory beyond that, and is the same directory, is the container's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/newmount.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"

#define LAYERS_MAX 64	/* mounts on the directory: a create that was killed leaves one */

int oci_has_mounts(const struct oci_container *c)
{
	return (c->new_ns >> NS_MOUNT & 1) || c->ns_fd[NS_MOUNT] >= 0;
}

int oci_mounts_on_host(const struct oci_container *c)
{
	return !oci_has_mounts(c) && !c->in_userns;
}

/* The number of the mount that fd is on (proc_pid_fdinfo(5)); -1. */
static long mount_of(int fd)
{
	autobuf struct buf text = BUF_INIT(4096);
	struct err ignored;
	char path[48];
	const char *at;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (io_read_file(AT_FDCWD, path, &text, &ignored) < 0 || !text.data ||
	    !(at = strstr(text.data, "mnt_id:")))
		return -1;
	return strtol(at + 7, NULL, 10);
}

int oci_rootmount_note(const struct oci_container *c, json_t *doc, struct err *e)
{
	autoclose int fd = -1;
	struct stat st;
	long below;

	if (!oci_mounts_on_host(c))
		return 0;
	fd = open(c->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open the root %s", c->rootfs);
	below = mount_of(fd);
	if (below < 0)
		return err_set(e, ERR_SYS,
			       "find the mount of the root %s: /proc does not tell", c->rootfs);
	json_object_set_new(doc, "rootMount", json_pack("{s:I, s:I, s:I}", "below", (json_int_t)below, "dev", (json_int_t)st.st_dev,
							"ino", (json_int_t)st.st_ino));
	return 0;
}

int oci_rootmount_attach(struct oci_container *c, struct err *e)
{
	struct mount_attr own = { .propagation = MS_PRIVATE };
	autoclose int target = open(c->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (target >= 0)
		c->root_fd = open_tree(target, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
				       AT_EMPTY_PATH | AT_RECURSIVE);
	if (c->root_fd < 0)
		return err_sys(e, "open the root %s", c->rootfs);
	if (newmount_attach(c->root_fd, target, c->rootfs, e) < 0)
		return -1;
	/* on a shared mount it has become shared too; what is mounted in it is nobody else's */
	if (mount_setattr(c->root_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &own, sizeof(own)) < 0)
		return err_sys(e, "make the mount of %s private", c->rootfs);
	return 0;
}

int oci_rootmount_remove(const json_t *doc, struct err *e)
{
	const json_t *noted = oci_get(doc, "rootMount");
	const char *rootfs = oci_str(doc, "rootfs");
	int i;

	if (!noted || !rootfs)
		return 0;
	for (i = 0; i < LAYERS_MAX; i++) {
		autoclose int fd = open(rootfs, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct stat st;
		char path[32];

		/* the directory has gone, or is another one by now */
		if (fd < 0 || fstat(fd, &st) < 0 || (json_int_t)st.st_dev != oci_i64(noted, "dev", -1) ||
		    (json_int_t)st.st_ino != oci_i64(noted, "ino", -1) ||
		    mount_of(fd) == oci_i64(noted, "below", -1))
			return 0;
		if (umount2(path_of_fd(fd, path), MNT_DETACH) < 0)
			return errno == EINVAL ? 0 : err_sys(e, "unmount the container's root %s", rootfs);
	}
	return err_set(e, ERR_LIMIT,
		       "unmount the container's root %s: more than %d mounts are on it",
		       rootfs, LAYERS_MAX);
}
