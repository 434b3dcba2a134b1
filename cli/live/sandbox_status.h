/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_status - the present status of a sandbox; its record may be out of date. */
#ifndef BERTH_CLI_LIVE_SANDBOX_STATUS_H
#define BERTH_CLI_LIVE_SANDBOX_STATUS_H

#include "base/json.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/registry.h"

/* For a stopped sandbox: "restarting", if its guardian waits to start it again. */
void sandbox_status_restart(struct registry *r, json_t *record);
/*
 * Sets "status" of a running sandbox to the keeper's answer; unchanged if the keeper does not
 * answer in time.
 */
void sandbox_status_ask(struct registry *r, json_t *record);
/* The same for each of an array of records, with what the sandbox does: "idle_ms", "busy", "commands", "sessions". */
void sandbox_status_ask_all(struct registry *r, json_t *list);

/* ---- its processes ---- */

/* processes - the processes of a sandbox that runs, by its cgroup: nothing in it can hide. */

/*
 * A list of {"pid" in the sandbox, "host_pid", "host_ppid", "of", "state", "host_uid", "threads", "cpu_ms",
 * "memory_bytes", "command"}, of the sandbox's own cgroup ("of" is ""), and of one for each
 * command.  Names and arguments are hostile, but for control characters, which are replaced.
 * At most max are in it; *ret_more, unless NULL: how many others there are.
 */
json_t *processes_list(const struct sandbox_ref *s, size_t max, size_t *ret_more, struct err *e);

/* ---- its ports ---- */

/* ports - the published ports of a running sandbox, as its keeper reports them. */

/* [{"address", "host_port", "port", "protocol"}]: a new reference, or NULL. */
json_t *ports_of(struct registry *r, const char *id, struct err *e);

#endif
