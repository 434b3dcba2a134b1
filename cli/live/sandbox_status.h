/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_status - what a sandbox does now, where its record tells what was true when it was written.
 */
#ifndef BERTH_CLI_LIVE_SANDBOX_STATUS_H
#define BERTH_CLI_LIVE_SANDBOX_STATUS_H

#include "manager/host/registry.h"

#define SANDBOX_ASK_MS 200	/* what one keeper may take to say how it is */

/* Sets "status" of the record of one that is only on disk. */
void sandbox_status_kept(json_t *record);
/*
 * Sets "status" of one that runs to what its keeper says, and with all what it does ("idle_ms", "busy", "commands",
 * "sessions"); as it was when the keeper does not say so in time.
 */
void sandbox_status_ask(struct registry *r, json_t *record, int all);

#endif
