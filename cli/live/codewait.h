/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codewait - code for the interpreter that waits in a sandbox of a zygote.
 */
#ifndef BERTH_CLI_LIVE_CODEWAIT_H
#define BERTH_CLI_LIVE_CODEWAIT_H

#include "base/json.h"
#include "manager/host/registry.h"

/* Whether the living sandbox of this id has one. */
int codewait_is_there(struct registry *r, const char *id);
/*
 * Sends stdin as code to the keeper at sock, with these variables (NAME=VALUE) and descriptors.
 * The packet that ends it has "verdict" and "fresh": the interpreter was started for it.
 */
int codewait_send(int sock, const json_t *env, uint64_t timeout_ms, int has_timeout,
		  const int std[3], struct err *e);

#endif
