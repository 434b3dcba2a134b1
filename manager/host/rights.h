/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rights - reduces the rights of berth's own processes on the host before they read hostile bytes.
 *
 * A table says which capabilities a keeper and berthd keep, and why; seccomp/policy.c says which
 * system calls a keeper has lost ("keeper"). berthd has no filter: the kernel suspends a zygote's
 * filters (PTRACE_O_SUSPEND_SECCOMP) only for a process without filters, and berthd's children make
 * zygotes. Children inherit everything, so only rights are dropped that neither the process nor its
 * children need. Upholds S56 of SECURITY.md.
 */
#ifndef BERTH_MANAGER_HOST_RIGHTS_H
#define BERTH_MANAGER_HOST_RIGHTS_H

#include "base/err.h"

enum rights_of { RIGHTS_KEEPER = 1, RIGHTS_DAEMON = 2 };

/*
 * Drops all other capabilities, also from the bounding set, sets no_new_privs and loads the
 * keeper's filter; for good. Capabilities belong to a thread, so call it before the first thread is
 * made. Fails if the kernel refuses one of them; the caller must then end.
 */
int rights_lay_down(enum rights_of who, struct err *e);

#endif
