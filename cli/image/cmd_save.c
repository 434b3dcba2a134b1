/* SPDX-License-Identifier: Apache-2.0 */
/* berth save, load: short for berth image save, load. */
#include "cli/commands.h"
#include "cli/run/imageprog.h"

static int run(const struct command *self, int argc, char **argv)
{
	return imageprog_command(self, self->name, argc, argv);
}

const struct command cmd_save = {
	.name = "save",
	.args = "[-o FILE] IMAGE...",
	.summary = "write images to an archive (berth image save)",
	.run = run,
	.flags = COMMAND_EXTERNAL,
	.complete = COMPLETE_IMAGE,
};

const struct command cmd_load = {
	.name = "load",
	.args = "[-i FILE]",
	.summary = "read the images of an archive (berth image load)",
	.run = run,
	.flags = COMMAND_EXTERNAL,
	.complete = COMPLETE_FILE,
};
