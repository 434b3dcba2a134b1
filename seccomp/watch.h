/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch - a filter that reports each filter that a payload wants to load to a supervisor.
 *
 * Pure. It stands in front of the instructions of another filter: every call other than
 * seccomp(SECCOMP_SET_MODE_FILTER) and prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER) is left to that
 * filter. Berth's own loads pass: they carry a secret in the fourth argument, which the kernel
 * ignores. runtime/sandbox/filterwatch.h is the supervisor's side.
 */
#ifndef BERTH_SECCOMP_WATCH_H
#define BERTH_SECCOMP_WATCH_H

#include "seccomp/seccomp.h"

#define SECCOMP_WATCH_MAX 1024	/* most instructions of ret */

/*
 * Puts the watch in front of `under` (NULL: everything else is allowed) into ret; a watched call
 * gets action, a SECCOMP_RET_* value. Returns the length, or -1 with ERR_INTERNAL if under is
 * too long.
 */
int seccomp_watch(const struct seccomp_filter *under, uint64_t secret, uint32_t action,
		  struct sock_filter ret[SECCOMP_WATCH_MAX], struct err *e);

#endif
