/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io - whole reads and writes on descriptors, with ceilings.
 *
 * EINTR is retried; short transfers are continued.
 */
#ifndef BERTH_BASE_IO_H
#define BERTH_BASE_IO_H

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Writes all n bytes.  0, or -1 with errno. */
int io_write_all(int fd, const void *p, size_t n);
/* Reads exactly n bytes.  1, 0 at end of file before the first byte, -1 with errno (EPIPE: cut short). */
int io_read_exact(int fd, void *p, size_t n);
/* Appends everything up to end of file to b (its ceiling holds).  what names the source in errors. */
int io_read_all(int fd, struct buf *b, const char *what, struct err *e);
/*
 * Reads a small regular file beneath dirfd (AT_FDCWD allowed) without blocking:
 * FIFOs, devices, sockets and directories are ERR_INVALID; more than the
 * buffer's ceiling is ERR_LIMIT.  Follows no symbolic link in the last component.
 */
int io_read_file(int dirfd, const char *path, struct buf *b, struct err *e);
/* As io_read_file(), for a secret: ERR_CONFIG unless root owns the file and nobody else may read it. */
int io_read_private(const char *path, struct buf *b, struct err *e);
/* Opens path below dirfd for writing and writes s: for procfs and cgroupfs control files. */
int io_write_file(int dirfd, const char *path, const char *s, struct err *e);
/*
 * IO_DURABLE_DATA: after a power cut the file has either its new content or all of the old one. For
 * a file that matters only together with another file of the directory, which is replaced later
 * with IO_DURABLE.
 */
enum { IO_PASSING, IO_DURABLE, IO_DURABLE_DATA };
/*
 * Replaces name in dirfd by data: temporary file, fsync when durable, rename.
 * A reader sees the old content or the new, never a part.
 */
int io_replace_file(int dirfd, const char *name, const void *data, size_t n, mode_t mode,
		    int durable, struct err *e);
/*
 * Raises the soft limit on descriptors to most, as far as the hard limit allows. With a lower
 * limit the caller serves fewer clients at once.
 */
void io_allow_files(unsigned most);

#endif
