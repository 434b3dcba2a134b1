/* SPDX-License-Identifier: Apache-2.0 */
/*
 * landlock - further confinement of the sandbox by landlock(7).
 *
 * Scopes: no abstract unix socket and no signal beyond the sandbox (ABI 6, Linux 6.12). File
 * system: no device nodes; and, as a wanted side effect, no mount, umount or pivot_root for any
 * process in the domain.
 */
#ifndef BERTH_RUNTIME_KERNEL_LANDLOCK_H
#define BERTH_RUNTIME_KERNEL_LANDLOCK_H

#include <stdint.h>

#include "base/err.h"

/* Returns the kernel's Landlock ABI, 0 if it has none. */
int landlock_abi(void);
/* Confines the calling process for good. A kernel without Landlock is no error; attest reports it. */
int landlock_confine(struct err *e);
/* Forbids opening, making or removing any file from now on, at any path; also applies the scopes above. */
int landlock_seal(struct err *e);
/*
 * Allows reading only below from_fd, and below to_fd making and writing any file but a device; no
 * other file may be opened.
 */
int landlock_copy(int from_fd, int to_fd, struct err *e);

/*
 * Holds the arguments of landlock_create_ruleset(2) and landlock_add_rule(2) for another process,
 * which may then open no file outside its directory root_fd. ABI 2.
 */
struct landlock_words {
	uint64_t ruleset[1];
	unsigned char beneath[12];
};
struct landlock_words landlock_home(int root_fd);

#endif
