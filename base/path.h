/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path - paths beneath a directory descriptor, in trees that may be hostile.
 *
 * Nothing here resolves a string against the process's own root when a
 * directory descriptor was given, and nothing follows /proc magic links
 * (openat2(2): RESOLVE_IN_ROOT, RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS).
 */
#ifndef BERTH_BASE_PATH_H
#define BERTH_BASE_PATH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* openat2(2) with resolve flags; -1 with errno.  EAGAIN (a racing rename) is retried. */
int path_openat2(int dirfd, const char *path, uint64_t flags, mode_t mode, uint64_t resolve);
/* Opens path as if dirfd were "/": absolute names and symlinks stay inside.  -1 with errno. */
int path_open_in_root(int dirfd, const char *path, int flags, mode_t mode);
/* Opens path strictly below dirfd, through no symlink at all.  -1 with errno. */
int path_open_beneath(int dirfd, const char *path, int flags, mode_t mode);
/*
 * Opens the directory of that name in dirfd for reading, with more flags of open(2). -1 with
 * errno: ELOOP or ENOTDIR if it is not a directory, EXDEV if it is a mount point (without
 * openat2, only a mount of another file system is noticed, by st_dev).
 */
int path_open_subdir(int dirfd, const char *name, int flags);
/*
 * Opens the directory above fd for reading, with more flags of open(2), if its device and inode
 * number are those given. -1 with errno; ESTALE: fd was moved.
 */
int path_open_above(int fd, int flags, dev_t dev, ino_t ino);
/*
 * 1 if dirfd has an entry of that name, including a dangling symlink; else 0 with errno. It uses
 * stat: access with flags is faccessat2, which Linux has only since 5.8, and musl answers "no"
 * without it.
 */
int path_has(int dirfd, const char *name);
/*
 * Makes every missing directory of path, resolved as if rootfd were "/", each
 * with mode and, when uid is not (uid_t)-1, that owner.  Returns an O_PATH
 * descriptor of the last one.  A component that is not a directory is
 * ERR_INVALID.
 */
int path_mkdirs_in_root(int rootfd, const char *path, mode_t mode, uid_t uid, gid_t gid, struct err *e);
/*
 * A file that appears whole or not at all. It has no name until path_file_publish(), so a process
 * that is killed before that call leaves nothing behind (open(2), O_TMPFILE). On a file system
 * without unnamed files, it is called NAME.berth-PID until then.
 */
struct path_file {
	int fd, dirfd; /* dirfd is borrowed */
	const char *name; /* borrowed */
	int has_name;
};
/* Creates the file for writing; -1 with errno. */
int path_file_make(struct path_file *f, int dirfd, const char *name, mode_t mode);
/* Syncs the file and gives it its name, replacing any file of that name; -1 with errno. */
int path_file_publish(struct path_file *f);
/* Closes the file; without path_file_publish() nothing of it is left. */
void path_file_close(struct path_file *f);
/*
 * Removes name below dirfd with all its content, follows no link and crosses no mount; a missing
 * name is success. Depth and width are unbounded and cost neither descriptors nor stack. ERR_BUSY:
 * the tree has a mount point; ERR_SYS with ENOTEMPTY: another process fills it faster than we empty
 * it.
 */
int path_remove_tree(int dirfd, const char *name, struct err *e);
/*
 * Calls each with the name of every entry of dirfd from its current position, except "." and
 * "..", until it returns non-zero; that value is returned. *ret_failed is 1 and errno is set if
 * the directory cannot be read. For short lists on the hot path: opendir(3) allocates, and costs
 * twice as much.
 */
int path_each_entry(int dirfd, int (*each)(void *ctx, const char *name), void *ctx, int *ret_failed);
/*
 * Opens the host directory path, making it (0700, root) when absent; refuses a
 * symlink, another owner, or group and other permission bits (E21).
 */
int path_open_private_dir(const char *path, struct err *e);
/*
 * Tells whether path_open_private_dir() would succeed, and makes nothing: 1 the directory exists
 * and is good, 0 it could be made, -1 an error.
 */
int path_check_private_dir(const char *path, struct err *e);
/* Returns "/proc/self/fd/N", for calls that take only a path; buf holds it. */
const char *path_of_fd(int fd, char buf[32]);
/* Returns 1 if s is [a-z0-9][a-z0-9_.-]{0,63}, the form of ids and names. */
int path_is_name(const char *s);

/*
 * Opens a directory of dirfd, made (0700) if it is missing: its fd, or -1. A symbolic link does
 * not count as a directory.
 */
int path_make_dir(int dirfd, const char *name, struct err *e);

#endif
