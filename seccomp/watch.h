/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch - a filter that hands each further filter a payload wants to load to a supervisor.
 *
 * Pure.  It stands in front of the instructions of another filter: what is not
 * seccomp(SECCOMP_SET_MODE_FILTER) or prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER) goes on
 * there.  Berth's own loads carry a secret in the fourth argument, which the kernel
 * ignores, and pass.  runtime/sandbox/filterwatch.h is the supervisor's side.
 */
#ifndef BERTH_SECCOMP_WATCH_H
#define BERTH_SECCOMP_WATCH_H

#include "seccomp/seccomp.h"

#define SECCOMP_WATCH_MAX 1024	/* instructions of ret */

/*
 * Puts the watch before `under` (NULL: everything else is allowed) into ret; what is
 * watched gets action, a SECCOMP_RET_* value.  The length, or -1 with ERR_INTERNAL
 * when under is too long.
 */
int seccomp_watch(const struct seccomp_filter *under, uint64_t secret, uint32_t action,
		  struct sock_filter ret[SECCOMP_WATCH_MAX], struct err *e);

#endif
