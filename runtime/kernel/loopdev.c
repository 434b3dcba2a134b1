/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/loopdev.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "runtime/kernel/newmount.h"

#define TRIES 64

static int open_device(unsigned number)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/loop%u", number);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* Configures the device: 0, or -1 with errno. */
static int configure_loop(int loop_fd, int file_fd)
{
	struct loop_config c = {
		.fd = (uint32_t)file_fd,
		.block_size = 4096,
		.info = { .lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO },
	};

	if (!ioctl(loop_fd, LOOP_CONFIGURE, &c))
		return 0;
	if (errno != EINVAL)
		return -1;
	c.info.lo_flags = LO_FLAGS_AUTOCLEAR; /* a file system without direct I/O */
	return ioctl(loop_fd, LOOP_CONFIGURE, &c);
}

int loopdev_attach(int file_fd, unsigned *ret_number, struct err *e)
{
	autoclose int ctl = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int tries;

	if (ctl < 0)
		return err_code_sys(e, ERR_UNSUPPORTED,
				    "open /dev/loop-control, which a file system in a file needs");
	for (tries = 0; tries < TRIES; tries++) {
		int n = ioctl(ctl, LOOP_CTL_GET_FREE);
		autoclose int fd = -1;

		if (n < 0)
			return err_sys(e, "find a free loop device");
		fd = open_device((unsigned)n);
		if (fd < 0)
			return err_sys(e, "open /dev/loop%d", n);
		if (configure_loop(fd, file_fd) == 0) {
			if (ret_number)
				*ret_number = (unsigned)n;
			return take_fd(&fd);
		}
		if (errno != EBUSY) /* another process took it in between */
			return err_sys(e, "attach a file to /dev/loop%d", n);
	}
	return err_set(e, ERR_BUSY, "no free loop device after %d tries", TRIES);
}

int loopdev_find(int file_fd, unsigned number)
{
	autoclose int fd = open_device(number);
	struct loop_info64 info;
	struct stat st;

	if (fd < 0 || fstat(file_fd, &st) < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
		return -1;
	return info.lo_device == st.st_dev && info.lo_inode == st.st_ino ? take_fd(&fd) : -1;
}

int loopdev_name(int fd, char *ret, size_t size)
{
	char path[64], link[256];
	const char *name;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0 || major(st.st_dev) != LOOP_MAJOR)
		return -1;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
	n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0)
		return -1;
	link[n] = '\0';
	name = strrchr(link, '/') ? strrchr(link, '/') + 1 : link;
	if (strlen(name) >= size)
		return -1;
	strcpy(ret, name);
	return 0;
}

uint64_t loopdev_ext4_number(const char *device, const char *file)
{
	char path[96], text[32];
	autoclose int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), LOOPDEV_EXT4 "/%.20s/%.40s", device, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return strtoull(text, NULL, 10);
}

static int mount_device(int loop_fd, const char *type, const struct newmount_opt *more,
			struct err *e)
{
	char path[64], proc[32];
	ssize_t n = readlink(path_of_fd(loop_fd, proc), path, sizeof(path) - 1);
	struct newmount_opt opts[2] = { { "source", path } };

	if (n < 0)
		return err_sys(e, "name the loop device");
	path[n] = '\0';
	if (more)
		opts[1] = *more;
	return newmount_fs(type, opts, more ? 2 : 1, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, e);
}

int loopdev_mount(int loop_fd, struct err *e)
{
	return mount_device(loop_fd, "ext4", NULL, e);
}

int loopdev_mount_passing(int loop_fd, struct err *e)
{
	return mount_device(loop_fd, "ext4", &(struct newmount_opt){ "barrier", "0" }, e);
}

int loopdev_mount_readonly(int loop_fd, struct err *e)
{
	return mount_device(loop_fd, "ext4", &(struct newmount_opt){ "ro", NULL }, e);
}

/* ---- one device for all processes ------------------------------------------------- */

static int lock_loop_note(int fd, struct err *e)
{
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the note of a loop device");
	return 0;
}

/* The device that shows the file already, by what its maker wrote down; -1: none does. */
static int known_device(int note, int file)
{
	char text[16];
	ssize_t n = pread(note, text, sizeof(text) - 1, 0);
	struct err ignored;
	uint64_t number;

	text[n < 0 ? 0 : n] = '\0';
	return num_u64(text, "loop", 0, 1u << 20, &number, &ignored) < 0 ?
		       -1 :
		       loopdev_find(file, (unsigned)number);
}

/* Written down before anybody can mount it: a second device of the file would be the end of its
 * file system. */
static int new_device(int note, int file, struct err *e)
{
	autoclose int loop = -1;
	unsigned number;
	char text[16];
	int n;

	loop = loopdev_attach(file, &number, e);
	if (loop < 0)
		return -1;
	n = snprintf(text, sizeof(text), "%u", number);
	if (ftruncate(note, 0) < 0 || pwrite(note, text, (size_t)n, 0) != n)
		return err_sys(e, "write down a loop device");
	return take_fd(&loop);
}

int loopdev_mount_shared(int dir_fd, int file_fd, const char *type, struct err *e)
{
	autoclose int note = openat(dir_fd, "loop", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
				    0600);
	autoclose int loop = -1;

	if (note < 0)
		return err_sys(e, "open the note of a loop device");
	if (lock_loop_note(note, e) < 0)
		return -1;
	loop = known_device(note, file_fd);
	if (loop < 0)
		loop = new_device(note, file_fd, e);
	return loop < 0 ? -1 : mount_device(loop, type, NULL, e);
}
