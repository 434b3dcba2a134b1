/* SPDX-License-Identifier: Apache-2.0 */
/* berth system df: what images, sandboxes and volumes take on disk. */
#include "cli/commands.h"
#include "cli/run/imageprog.h"

static int run(const struct command *self, int argc, char **argv)
{
	return imageprog_command(self, "df", argc, argv);
}

const struct command cmd_system_df = {
	.name = "system df",
	.args = "",
	.summary = "what images, sandboxes and volumes take on disk",
	.run = run,
	.flags = COMMAND_EXTERNAL,
};
