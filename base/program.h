/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program - where the helper programs of berth are.
 *
 * Each is beside this executable (a build tree), or in ../libexec/berth, or for berthd in ../sbin (an
 * installation); PATH is never used.
 */
#ifndef BERTH_BASE_PROGRAM_H
#define BERTH_BASE_PROGRAM_H

#include "base/err.h"

/* An O_PATH descriptor for execveat(2), or -1 with ERR_NOT_FOUND and the remedy. */
int program_open(const char *name, struct err *e);

#endif
