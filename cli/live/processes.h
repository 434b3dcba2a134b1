/* SPDX-License-Identifier: Apache-2.0 */
/* processes - the processes of a sandbox that runs, by its cgroup: nothing in it can hide. */
#ifndef BERTH_CLI_LIVE_PROCESSES_H
#define BERTH_CLI_LIVE_PROCESSES_H

#include "base/json.h"
#include "cli/live/sandbox_open.h"

/*
 * A list of {"pid" in the sandbox, "host_pid", "host_ppid", "of", "state", "host_uid", "threads", "cpu_ms",
 * "memory_bytes", "command"}, of the sandbox's own cgroup ("of" is ""), and of one for each
 * command.  Names and arguments are hostile, but for control characters, which are replaced.
 * At most max are in it; *ret_more, unless NULL: how many others there are.
 */
json_t *processes_list(const struct sandbox_ref *s, size_t max, size_t *ret_more, struct err *e);

#endif
