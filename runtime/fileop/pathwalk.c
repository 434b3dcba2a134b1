/* SPDX-License-Identifier: Apache-2.0 */
/* As err.c: where the sandbox's filter has no openat2. */
#include <fcntl.h>
#ifndef O_PATH
#define O_PATH 010000000
#endif
#include "base/pathwalk.c"
