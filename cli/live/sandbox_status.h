/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_status - what a sandbox does now, where its record tells what was true when it was written.
 */
#ifndef BERTH_CLI_LIVE_SANDBOX_STATUS_H
#define BERTH_CLI_LIVE_SANDBOX_STATUS_H

#include "manager/host/registry.h"

/* Of one that does not run: "restarting", when its guardian waits to start it again. */
void sandbox_status_restart(struct registry *r, json_t *record);
/* Sets "status" of one that runs to what its keeper says; as it was when the keeper does not say so in time. */
void sandbox_status_ask(struct registry *r, json_t *record);
/* The same for each of an array of records, with what the sandbox does: "idle_ms", "busy", "commands", "sessions". */
void sandbox_status_ask_all(struct registry *r, json_t *list);

#endif
