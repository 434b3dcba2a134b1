/* SPDX-License-Identifier: Apache-2.0 */
/* localdaemon - commands that berthd alone can do: over the socket for root of this host's. */
#ifndef BERTH_CLI_LOCALDAEMON_H
#define BERTH_CLI_LOCALDAEMON_H

#include "base/err.h"
#include "cli/command.h"

/*
 * Becomes the client of berthd with the same words; returns -1 with e only.  When berthd has no socket the
 * error says "berthd, WHAT does not run", with that hint.
 */
int localdaemon_become(const struct command *self, int argc, char **argv, const char *what, const char *hint,
		       struct err *e);

#endif
