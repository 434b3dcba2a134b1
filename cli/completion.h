/* SPDX-License-Identifier: Apache-2.0 */
/* completion - what berth completion prints, from the table of commands; one file a shell. */
#ifndef BERTH_CLI_COMPLETION_H
#define BERTH_CLI_COMPLETION_H

/* Prints the script for fish on stdout. */
void completion_fish(void);

#endif
