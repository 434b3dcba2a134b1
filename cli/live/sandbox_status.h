/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_status - the present status of a sandbox; its record may be out of date. */
#ifndef BERTH_CLI_LIVE_SANDBOX_STATUS_H
#define BERTH_CLI_LIVE_SANDBOX_STATUS_H

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

#endif
