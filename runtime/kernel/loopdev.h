/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loopdev - loop devices (loop(4)) that hold a file system in a file.
 *
 * A device goes away with its last user, which is the mount: nothing is left to
 * clear after a crash.
 */
#ifndef BERTH_RUNTIME_KERNEL_LOOPDEV_H
#define BERTH_RUNTIME_KERNEL_LOOPDEV_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Gives the file a free loop device.  Returns the device's descriptor; *ret_number, unless NULL,
 * is N of /dev/loopN. ERR_UNSUPPORTED: the host has no loop devices.
 */
int loopdev_attach(int file_fd, unsigned *ret_number, struct err *e);
/* Returns the descriptor of /dev/loopN if that device shows this very file, else -1. */
int loopdev_find(int file_fd, unsigned number);
/* Writes the name, "loopN", of the device below the file system that fd is in; -1: it is on no loop device. */
int loopdev_name(int fd, char *ret, size_t size);
#define LOOPDEV_EXT4 "/sys/fs/ext4"	/* a directory for each mounted device (Documentation/ABI/testing/sysfs-fs-ext4) */
/* The number in a file of the ext4 file system on the device "loopN"; 0 if it cannot be read. */
uint64_t loopdev_ext4_number(const char *device, const char *file);
/*
 * Returns a detached mount of the ext4 file system that the device holds. Several mounts of one
 * device show one file system; two devices of one file would destroy it.
 */
int loopdev_mount(int loop_fd, struct err *e);
/* As loopdev_mount(), for files that need not survive a power cut: no write waits until the disk has it. */
int loopdev_mount_passing(int loop_fd, struct err *e);
/* As loopdev_mount(), read-only, for a device whose file is open for reading only. */
int loopdev_mount_readonly(int loop_fd, struct err *e);
/*
 * Returns a detached mount of the file system of that type in the file, by the one device that all
 * processes use for it: its number is in the file "loop" of dir_fd, the file's directory.
 */
int loopdev_mount_shared(int dir_fd, int file_fd, const char *type, struct err *e);

#endif
