/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rights - what berth's own processes on the host keep once they read hostile bytes.
 *
 * A table says which capabilities a keeper and berthd keep, and why; seccomp/policy.c says which
 * system calls a keeper has lost ("keeper").  berthd has no filter: the kernel suspends a zygote's
 * filters (PTRACE_O_SUSPEND_SECCOMP) for nobody who has one, and its children make zygotes.
 * Children inherit all of it, so that what is dropped here is what neither the process nor a child
 * of it needs.  Upholds S56 of SECURITY.md.
 */
#ifndef BERTH_MANAGER_HOST_RIGHTS_H
#define BERTH_MANAGER_HOST_RIGHTS_H

#include "base/err.h"

enum rights_of { RIGHTS_KEEPER = 1, RIGHTS_DAEMON = 2 };

/*
 * Drops all other capabilities, also from the bounding set, sets no_new_privs and loads the
 * keeper's filter; for good.  Capabilities are a thread's: before the first thread is made.  Fails if the
 * kernel refuses one of them; the caller must then end.
 */
int rights_lay_down(enum rights_of who, struct err *e);

#endif
