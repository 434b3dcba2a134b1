/* SPDX-License-Identifier: Apache-2.0 */
/*
 * treecopy - copies a tree with everything that overlayfs keeps in it.
 *
 * Copied are types, owners, modes, times to the nanosecond, hard links, holes, and the attributes
 * user.*, trusted.*, security.capability and access lists; names are bytes, and neither depth nor
 * the length of paths has a limit (base/treewalk.h). Labels of security modules are left out: they
 * are the host's.
 *
 * The source may be hostile, but no process works in it; the target is empty, and no other process
 * has it.
 */
#ifndef BERTH_RUNTIME_KERNEL_TREECOPY_H
#define BERTH_RUNTIME_KERNEL_TREECOPY_H

#include "base/err.h"

/*
 * Copies the directory from_fd with everything below it to to_fd, which may hold lost+found.
 * After a failure the copied part stays.
 */
int treecopy(int from_fd, int to_fd, struct err *e);
/*
 * As treecopy(), without device nodes; and without trusted.* if the caller lacks CAP_SYS_ADMIN, and
 * so does not see these attributes.
 */
int treecopy_files(int from_fd, int to_fd, struct err *e);

#endif
