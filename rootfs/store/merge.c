/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "rootfs/store/image.h"

/* The directory where the layers are attached: every host has it, and only this process sees them. */
#define PLACE "/proc"

/* Returns a detached copy of the layer's mount, made while we are in the namespace that has the store. */
static int clone_layer(int store_fd, const char *chain, struct err *e)
{
	char path[16 + DIGEST_HEX_SIZE];
	int fd;

	snprintf(path, sizeof(path), "layers/%s", chain);
	fd = open_tree(store_fd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_CORRUPT, "layer %.12s is missing; hint: berth image fsck", chain);
	return fd < 0 ? err_sys(e, "open layer %.12s", chain) : fd;
}

static int attach_layer_mounts(int *mnt, size_t count, struct err *e)
{
	char name[24];
	size_t i;

	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%zu", i);
		if (mkdir(name, 0700) < 0 || move_mount(mnt[i], "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return err_sys(e, "attach a layer");
	}
	/* overlayfs wants two layers at least */
	if (mkdir("empty", 0755) < 0 || mkdir("all", 0700) < 0)
		return err_sys(e, "make a mount point");
	return 0;
}

static int stack(size_t count, struct err *e)
{
	static const char end[] = "empty,redirect_dir=nofollow,metacopy=off";
	char options[8 + IMAGE_LAYERS_MAX * 4 + sizeof(end)];
	size_t i, len = (size_t)snprintf(options, sizeof(options), "lowerdir=");

	for (i = count; i > 0; i--)
		len += (size_t)snprintf(options + len, sizeof(options) - len, "%zu:", i - 1);
	snprintf(options + len, sizeof(options) - len, "%s", end);
	if (mount("overlay", "all", "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0)
		return err_sys(e, "stack the layers of the image");
	return 0;
}

int merge_layers(int store_fd, const char (*chains)[DIGEST_HEX_SIZE], size_t count, struct err *e)
{
	autofree int *mnt = calloc(count + 1, sizeof(*mnt));
	size_t n = 0;
	int fd = -1;

	if (!mnt)
		return err_nomem(e);
	if (count > IMAGE_LAYERS_MAX)
		return err_set(e, ERR_LIMIT, "the image has %zu layers, %d can be stacked", count, IMAGE_LAYERS_MAX);
	while (n < count && (mnt[n] = clone_layer(store_fd, chains[n], e)) >= 0)
		n++;
	if (n < count)
		goto done;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		err_sys(e, "make a mount namespace");
	else if (mount("tmpfs", PLACE, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700,size=1m") < 0 || chdir(PLACE) < 0)
		err_sys(e, "make a place for the layers");
	else if (!attach_layer_mounts(mnt, count, e) && !stack(count, e)) {
		fd = open("all", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			err_sys(e, "open the stacked layers");
	}
done:
	while (n)
		close(mnt[--n]);
	return fd;
}
