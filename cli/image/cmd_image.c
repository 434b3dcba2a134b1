/* SPDX-License-Identifier: Apache-2.0 */
/* berth image: all of it is berth-image's. */
#include "cli/commands.h"
#include "cli/run/imageprog.h"

static int run(const struct command *self, int argc, char **argv)
{
	struct err e;

	(void)argc;
	imageprog_exec(argv, &e);
	return command_fail(self, &e, 0);
}

const struct command cmd_image = {
	.name = "image",
	.args = "COMMAND [ARGUMENT...]",
	.summary = "import, export, list, inspect and remove images",
	.run = run,
	.flags = COMMAND_EXTERNAL,
	.complete = COMPLETE_WORDS,
	.words = "import bootstrap export save load ls inspect history tag rm prune pin unpin df gc fsck copy",
};
