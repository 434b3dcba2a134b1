/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attest - shows what the kernel reports about a sandbox, as JSON.
 *
 * It is read from the host's /proc about the sandbox's init and from its cgroups, never from what
 * berth believes it did (T10).
 */
#ifndef BERTH_RUNTIME_SANDBOX_ATTEST_H
#define BERTH_RUNTIME_SANDBOX_ATTEST_H

#include "base/json.h"
#include "runtime/sandbox/launch.h"

/* Waits until init runs confined; nothing of the payload has run yet.  Before sandbox_exec() only. */
int attest_ready(struct sandbox *sb, struct err *e);
/* Makes the report: a new reference, or NULL with e. pid: the sandbox's init. */
json_t *attest_report(pid_t pid, const struct cgroup *cg, struct err *e);

#endif
