/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/newmount.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"

/* The file system context holds the kernel's messages: "e overlay: ..." (fsopen(2)). */
static int fs_error(int fs_fd, const char *fstype, const char *doing, struct err *e)
{
	int saved = errno;
	char line[256];
	ssize_t n = read(fs_fd, line, sizeof(line) - 1);

	if (n > 2) {
		line[n] = '\0';
		line[strcspn(line, "\n")] = '\0';
		return err_errno(e, saved, "%s %s: %s", doing, fstype, line + 2);
	}
	return err_errno(e, saved, "%s %s", doing, fstype);
}

static int set_opt(int fs_fd, const char *fstype, const struct newmount_opt *o, struct err *e)
{
	if (fsconfig(fs_fd, o->value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, o->key, o->value, 0) == 0)
		return 0;
	fs_error(fs_fd, fstype, "configure", e);
	return err_wrap(e, "option %s=%s", o->key, o->value ? o->value : "");
}

static int finish_new_fs(int fs_fd, const char *fstype, uint64_t attr, struct err *e)
{
	int mnt;

	if (fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return fs_error(fs_fd, fstype, "create", e);
	mnt = fsmount(fs_fd, FSMOUNT_CLOEXEC, (unsigned)attr);
	if (mnt < 0)
		return fs_error(fs_fd, fstype, "mount", e);
	return mnt;
}

int newmount_fs(const char *fstype, const struct newmount_opt *opts, size_t n, uint64_t attr, struct err *e)
{
	autoclose int fs = fsopen(fstype, FSOPEN_CLOEXEC);
	size_t i;

	if (fs < 0)
		return err_sys(e, "open file system type %s", fstype);
	for (i = 0; i < n; i++)
		if (set_opt(fs, fstype, &opts[i], e) < 0)
			return -1;
	return finish_new_fs(fs, fstype, attr, e);
}

int newmount_fs_readonly(int mnt_fd, struct err *e)
{
	autoclose int fs = fspick(mnt_fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);

	if (fs < 0)
		return err_sys(e, "open a mounted file system");
	if (fsconfig(fs, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0 || fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
		return fs_error(fs, "a file system", "write and make read-only", e);
	return 0;
}

int newmount_attr(int mnt_fd, int recursive, uint64_t attr, struct err *e)
{
	struct mount_attr a = { .attr_set = attr };

	if (mount_setattr(mnt_fd, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &a, sizeof(a)) < 0)
		return err_sys(e, "set mount attributes");
	return 0;
}

int newmount_clone(int dirfd, const char *path, int recursive, uint64_t attr, struct err *e)
{
	autoclose int mnt = open_tree(dirfd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW |
				      (path[0] ? 0 : AT_EMPTY_PATH) | (recursive ? AT_RECURSIVE : 0));

	if (mnt < 0)
		return err_sys(e, "copy the mount of %s", path[0] ? path : "a layer");
	/* private first: nothing that happens to it may reach the host (K21) */
	if (mount_setattr(mnt, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0),
			  &(struct mount_attr){ .propagation = MS_PRIVATE, .attr_set = attr },
			  sizeof(struct mount_attr)) < 0)
		return err_sys(e, "set mount attributes of %s", path[0] ? path : "a layer");
	return take_fd(&mnt);
}

int newmount_idmap(int mnt_fd, int recursive, int userns_fd, const char *what, struct err *e)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns_fd };

	if (!mount_setattr(mnt_fd, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &a, sizeof(a)))
		return 0;
	if (errno == EINVAL || errno == EPERM)
		return err_code_sys(e, ERR_UNSUPPORTED, "map the ids of %s: its file system has no idmapped mounts in this "
				    "kernel; hint: use a directory on ext4, xfs or btrfs", what);
	return err_sys(e, "map the ids of %s", what);
}

int newmount_attach(int mnt_fd, int target_fd, const char *what, struct err *e)
{
	if (move_mount(mnt_fd, "", target_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_sys(e, "attach the mount at %s", what);
	return 0;
}

/* Layers by descriptor (Linux 6.13), else by the magic link of the descriptor (6.8). */
static int set_layer(int fs, const char *key, int fd)
{
	char path[32];

	if (fsconfig(fs, FSCONFIG_SET_FD, key, NULL, fd) == 0)
		return 0;
	return fsconfig(fs, FSCONFIG_SET_STRING, key, path_of_fd(fd, path), 0);
}

static const struct newmount_opt overlay_opts[] = {
	{ "source", "berth" },
	{ "redirect_dir", "on" },	/* rename(2) of directories works as anywhere else */
	{ "index", "off" },
	{ "metacopy", "off" },
};

int newmount_overlay(const int *layer_fd, size_t layers, int upper_fd, int work_fd, int passing,
		     uint64_t attr, struct err *e)
{
	autoclose int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	size_t i;
	int mnt;

	if (fs < 0)
		return err_sys(e, "open file system type overlay");
	for (i = 0; i < ARRAY_LEN(overlay_opts); i++) {
		if (upper_fd < 0 && !strcmp(overlay_opts[i].key, "redirect_dir"))
			continue;
		if (set_opt(fs, "overlay", &overlay_opts[i], e) < 0)
			return -1;
	}
	if (passing && upper_fd >= 0)	/* an older kernel does not know it, and syncs */
		(void)fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0);
	for (i = layers; i > 0; i--)
		if (set_layer(fs, "lowerdir+", layer_fd[i - 1]) < 0)
			goto unsupported;
	if (upper_fd >= 0 && (set_layer(fs, "upperdir", upper_fd) < 0 || set_layer(fs, "workdir", work_fd) < 0))
		goto unsupported;
	mnt = finish_new_fs(fs, "overlay", attr, e);
	if (mnt < 0 && e->os_errno == EINVAL)
		e->code = ERR_UNSUPPORTED;
	return mnt;
unsupported:
	fs_error(fs, "overlay", "add a layer to", e);
	e->code = ERR_UNSUPPORTED;
	return -1;
}

/* Attaches layers as scratch/0 (lowest) ..., and base as scratch/w with its upper and work. */
static int attach_layers(const int *layer_fd, size_t layers, int base_fd, struct err *e)
{
	char name[24];
	size_t i;

	for (i = 0; i < layers; i++) {
		snprintf(name, sizeof(name), "%zu", i);
		if (mkdir(name, 0700) < 0)
			return err_sys(e, "make a mount point for a layer");
		if (move_mount(layer_fd[i], "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return err_sys(e, "attach a layer");
	}
	if (base_fd < 0)
		return 0;
	if (mkdir("w", 0700) < 0)
		return err_sys(e, "make a mount point for the writable layer");
	if (move_mount(base_fd, "", AT_FDCWD, "w", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(e, "attach the writable layer");
	return 0;
}

static int overlay_by_names(size_t layers, int writable, uint64_t attr, struct err *e)
{
	autoclose int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	char lower[1024] = "";
	size_t i, len = 0;

	if (fs < 0)
		return err_sys(e, "open file system type overlay");
	for (i = layers; i > 0; i--)
		len += (size_t)snprintf(lower + len, sizeof(lower) - len, "%s%zu", len ? ":" : "", i - 1);
	if (len > 255)
		return err_set(e, ERR_UNSUPPORTED, "this kernel takes no more than 80 layers by fsconfig; "
			       "hint: Linux 6.8 takes more, or flatten the image");
	for (i = 0; i < ARRAY_LEN(overlay_opts); i++) {
		if (!writable && !strcmp(overlay_opts[i].key, "redirect_dir"))
			continue;
		if (set_opt(fs, "overlay", &overlay_opts[i], e) < 0)
			return -1;
	}
	if (set_opt(fs, "overlay", &(struct newmount_opt){ "lowerdir", lower }, e) < 0)
		return -1;
	if (writable && (set_opt(fs, "overlay", &(struct newmount_opt){ "upperdir", "w/upper" }, e) < 0 ||
			 set_opt(fs, "overlay", &(struct newmount_opt){ "workdir", "w/work" }, e) < 0))
		return -1;
	return finish_new_fs(fs, "overlay", attr, e);
}

/* Mounts the overlay in the mount namespace made for it, with the layers attached below scratch. */
static int overlay_in_namespace(const char *scratch, const int *layer_fd, size_t layers, int base_fd, uint64_t attr,
				struct err *e)
{
	const struct newmount_opt size = { "size", "64k" };
	autoclose int tmp = -1;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "make the overlay's mount namespace private");
	tmp = newmount_fs("tmpfs", &size, 1, 0, e);
	if (tmp < 0)
		return -1;
	if (move_mount(tmp, "", AT_FDCWD, scratch, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(e, "attach a scratch mount at %s", scratch);
	if (chdir(scratch) < 0)
		return err_sys(e, "enter %s", scratch);
	if (attach_layers(layer_fd, layers, base_fd, e) < 0)
		return -1;
	return overlay_by_names(layers, base_fd >= 0, attr, e);
}

int newmount_overlay_attached(const char *scratch, const int *layer_fd, size_t layers, int base_fd,
			      uint64_t attr, struct err *e)
{
	autoclose int home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	autoclose int cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	autoclose int mnt = -1;

	if (home < 0 || cwd < 0)
		return err_sys(e, "remember the mount namespace");
	if (unshare(CLONE_NEWNS) < 0)
		return err_sys(e, "make a mount namespace for the overlay");
	mnt = overlay_in_namespace(scratch, layer_fd, layers, base_fd, attr, e);
	/* back: descriptors from before belong there, and the scratch mount ends with its namespace */
	if (setns(home, CLONE_NEWNS) < 0 || fchdir(cwd) < 0)
		return err_sys(e, "return to the mount namespace");
	return take_fd(&mnt);
}
