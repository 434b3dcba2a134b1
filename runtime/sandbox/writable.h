/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writable - the writable layer of a sandbox: a file system of its own, so that
 * bytes and inodes are bounded by the kernel (D04).
 *
 * It holds "upper" and "work" for overlayfs.  upper is seeded with plain
 * directories for everything berth mounts on, so that an image's symlinks and
 * files in those places are hidden before anything is resolved (E05, E08, E09),
 * and with the three files in /etc that we write ourselves.
 */
#ifndef BERTH_RUNTIME_SANDBOX_WRITABLE_H
#define BERTH_RUNTIME_SANDBOX_WRITABLE_H

#include "base/err.h"
#include "runtime/sandbox/spec.h"

/* Makes a detached mount in memory (tmpfs), charged to the sandbox as it writes. */
int writable_memory(const struct spec *s, struct err *e);
/*
 * Makes a detached mount of an ext4 file system in the sparse file name below dirfd, which is made
 * if missing; for layers larger than memory and for layers that outlive the process. With name NULL
 * the file has no name and disappears with the mount (O_TMPFILE). Needs mkfs.ext4 and a loop
 * device. models_fd: see blankfs.h.
 */
int writable_file(const struct spec *s, int dirfd, const char *name, int models_fd, struct err *e);
/*
 * Opens the writable layer of a lasting sandbox, in its directory dirfd: the existing one, else
 * a new one. The new one is the directory WRITABLE_DIR if the file system enforces project
 * quotas (nothing to format, at any size), else the file WRITABLE_FILE.
 */
int writable_lasting(const struct spec *s, int dirfd, int models_fd, struct err *e);
/* Mounts the writable layer that a lasting sandbox has below dirfd again: a detached mount. ERR_NOT_FOUND. */
int writable_open(int dirfd, struct err *e);
/*
 * Makes a detached mount of the ext4 file system in the file, through a loop device that disappears
 * with it.
 */
int writable_mount(int file_fd, struct err *e);
/*
 * Gives the first id that the files of the layer below dirfd have on disk, and the first that its
 * mounts show: 1; 0 if they are the same; -1.
 */
int writable_ids(int dirfd, uint32_t *ret_from, uint32_t *ret_to, struct err *e);
/* Sets these ids. is_new: the sandbox has no record yet; the ids are durable with that at the latest. */
int writable_set_ids(int dirfd, uint32_t from, uint32_t to, int is_new, struct err *e);
/* Maps the detached mount mnt_fd, which it takes, to the ids of the layer below dirfd; -1. */
int writable_map(int dirfd, int mnt_fd, struct err *e);
#define WRITABLE_FILE "writable.img"
#define WRITABLE_DIR "writable"
/*
 * Turns a layer into a file, for a stopped sandbox that leaves the host (writable_move.c): a
 * directory becomes WRITABLE_FILE, with all marks of overlayfs; a file stays as it is.
 */
int writable_to_file(int dirfd, struct err *e);
/* Removes the remains of an interrupted move; the next start does so too. */
int writable_drop_rest(int dirfd, struct err *e);
/*
 * Changes the layer below dirfd from the ids from FROM on to those from TO on; may be repeated
 * after a crash.
 */
int writable_shift(int dirfd, uint32_t from, uint32_t to, struct err *e);
/*
 * Opens the files of a sandbox that does not run, for reading, with the first of its ids;
 * *ret_base_fd is as from writable_open(). A sandbox that never started gets an empty directory
 * without a name, and *ret_base_fd is -1: its first start finds a fresh layer.
 */
int writable_upper(int dirfd, uint32_t id_base, int *ret_base_fd, struct err *e);
/* Makes upper and work in base_fd with their content, idempotently. */
int writable_seed(const struct spec *s, int base_fd, struct err *e);
/*
 * Reserves the space that the next start needs, when a lasting layer is mounted, so that the
 * sandbox cannot fill it until then.
 */
void writable_hold_spares(int base_fd);
/*
 * Tells in *ret_full whether bytes or inodes ran out, that is, so few are left that a larger write
 * was refused.
 */
int writable_full(int base_fd, int *ret_full, struct err *e);
/* 1 when the host's file system, on which dirfd is, has so few bytes left that a layer's writes there fail. */
int writable_is_host_full(int dirfd);
/* Adds to an error for want of room on the host, which any step may be, what dir lacks and what helps.  -1. */
int writable_tell_host_full(const char *dir, struct err *e);
/*
 * What the kernel has counted for the layer's own file system since it was mounted: errors of it, and
 * warnings, of which a write that its file had no room for is one (ext4_end_bio()). What was to be
 * written is lost then, after the write(2) has succeeded. 0 for a layer without a device of its own.
 */
uint64_t writable_errors(int base_fd);
/* Of these, the errors that a layer's own superblock remembers, for a sandbox whose directory is dirfd and that does not run. */
uint64_t writable_errors_noted(int dirfd);

#endif
