/* SPDX-License-Identifier: Apache-2.0 */
/* boot - after a boot of the host: starts every sandbox whose restart policy says so. */
#ifndef BERTH_CLI_LIVE_BOOT_H
#define BERTH_CLI_LIVE_BOOT_H

#include "cli/command.h"

/* Tries all, telling the id or the error of each; the exit status. */
int boot_start_all(const struct command *self, int as_json);

#endif
