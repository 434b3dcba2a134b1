/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of base/ that the helper carries, compiled for its own libc: errors, paths beneath a
 * directory, and the walk along one where the sandbox's filter has no openat2.
 */
#include <fcntl.h>
#ifndef __O_TMPFILE	/* glibc's name for O_TMPFILE without O_DIRECTORY */
#define __O_TMPFILE (O_TMPFILE & ~O_DIRECTORY)
#endif
#ifndef O_PATH
#define O_PATH 010000000
#endif
#include "base/err.c"
#include "base/path.c"
#include "base/pathwalk.c"
