/* SPDX-License-Identifier: Apache-2.0 */
/* As err.c: paths beneath a directory. */
#include <fcntl.h>
#ifndef __O_TMPFILE	/* glibc's name for O_TMPFILE without O_DIRECTORY */
#define __O_TMPFILE (O_TMPFILE & ~O_DIRECTORY)
#endif
#include "base/path.c"
