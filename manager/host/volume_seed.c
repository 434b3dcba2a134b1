/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S2 of SECURITY.md. */
#include "manager/host/volume_seed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/landlock.h"
#include "runtime/kernel/newmount.h"
#include "runtime/kernel/treecopy.h"

#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
/*
 * To set owners and modes for others. Without SYS_RESOURCE, which would bypass quotas, and
 * MKNOD.
 */
#define CAPS \
	(1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH | \
	 1u << CAP_FOWNER | 1u << CAP_FSETID | 1u << CAP_SETFCAP)

struct layers {
	int fd[SPEC_LAYERS_MAX];
	size_t count;
};

static void close_layers(struct layers *l)
{
	while (l->count)
		close(l->fd[--l->count]);
}

static int clone_layers(struct layers *l, const struct spec *s, struct err *e)
{
	while (l->count < s->layer_count) {
		int fd = newmount_clone(s->layer_fd[l->count], "", 0, READ_ONLY, e);

		if (fd < 0)
			return -1;
		l->fd[l->count++] = fd;
	}
	return 0;
}

/* The image as its sandboxes see it, with the ids on disk. */
static int open_image(struct layers *l, const struct spec *s, const char *scratch, struct err *e)
{
	int mnt;

	if (clone_layers(l, s, e) < 0)
		return -1;
	if (l->count == 1) { /* overlayfs wants two */
		mnt = fcntl(l->fd[0], F_DUPFD_CLOEXEC, 3);
		return mnt < 0 ? err_sys(e, "open the image") : mnt;
	}
	mnt = newmount_overlay(l->fd, l->count, -1, -1, 0, READ_ONLY, e);
	if (mnt < 0 && e->code == ERR_UNSUPPORTED)
		mnt = newmount_overlay_attached(scratch, l->fd, l->count, -1, READ_ONLY, e);
	return mnt;
}

static int confine(int from, int to, pid_t parent, struct err *e)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { { .effective = CAPS, .permitted = CAPS } };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		return err_set(e, ERR_INTERNAL,
			       "the process that fills a volume has lost its parent");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	if (landlock_copy(from, to, e) < 0)
		return -1;
	return syscall(SYS_capset, &h, caps) < 0 ? err_sys(e, "drop capabilities") : 0;
}

static void copy_in_child(int from, int to, pid_t parent, int told) __attribute__((noreturn));
static void copy_in_child(int from, int to, pid_t parent, int told)
{
	struct err e = { 0 };

	if (confine(from, to, parent, &e) == 0)
		(void)treecopy_files(from, to, &e);
	_exit(io_write_all(told, &e, sizeof(e)) < 0);
}

static int copy(int from, int to, struct err *e)
{
	const pid_t self = getpid();
	autoclose int hear = -1;
	int fds[2], got;
	struct err told;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	hear = fds[0];
	pid = fork();
	if (pid == 0)
		copy_in_child(from, to, self, fds[1]);
	close(fds[1]);
	if (pid < 0)
		return err_sys(e, "fork");
	got = io_read_exact(hear, &told, sizeof(told));
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (got != 1)
		return err_set(e, ERR_INTERNAL, "the process that fills a volume died");
	if (told.code == ERR_NONE)
		return 0;
	*e = told;
	return -1;
}

int volume_seed_from(const struct spec *s, const char *target, const char *scratch, int root_fd,
		     struct err *e)
{
	struct layers l = { .count = 0 };
	autoclose int image = open_image(&l, s, scratch, e), from = -1;
	int result = -1;

	if (image >= 0) {
		from = path_open_in_root(image, target, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
		result = from >= 0 ? copy(from, root_fd, e) : 0;
		/* not there, or no directory */
		if (from < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
			result = err_sys(e, "open %s of the image", target);
	}
	close_layers(&l);
	if (result == 0 || (e->os_errno != ENOSPC && e->os_errno != EDQUOT))
		return result < 0 ? err_wrap(e, "copy the image's %s", target) : 0;
	return err_set(e, ERR_FULL,
		       "the image has more at %s than the volume can hold; hint: berth volume "
		       "create --size makes larger ones",
		       target);
}
