/* SPDX-License-Identifier: Apache-2.0 */
/*
 * landlock - a second belt around the sandbox (landlock(7)).
 *
 * Scopes: no abstract unix socket and no signal beyond the sandbox (ABI 6,
 * Linux 6.12).  File system: no device nodes; and, as a side effect that is
 * wanted, no mount, umount or pivot_root for anyone in the domain.
 */
#ifndef BERTH_RUNTIME_KERNEL_LANDLOCK_H
#define BERTH_RUNTIME_KERNEL_LANDLOCK_H

#include <stdint.h>

#include "base/err.h"

/* The kernel's Landlock ABI, 0 when it has none. */
int landlock_abi(void);
/* Confines the calling process for good.  A kernel without Landlock is no error; attest says so. */
int landlock_confine(struct err *e);
/* Forbids opening, making or removing any file from now on, at any path; scopes as above. */
int landlock_seal(struct err *e);
/*
 * Only what is below from_fd may be read, and below to_fd any file but a device made and written;
 * nothing else may be opened.
 */
int landlock_copy(int from_fd, int to_fd, struct err *e);

/*
 * The arguments of landlock_create_ruleset(2) and landlock_add_rule(2) for another process: it may
 * then open no file that is not below its directory root_fd.  ABI 2.
 */
struct landlock_words {
	uint64_t ruleset[1];
	unsigned char beneath[12];
};
struct landlock_words landlock_home(int root_fd);

#endif
