/* SPDX-License-Identifier: Apache-2.0 */
/* berth pull, push, login, logout: commands of berth-image under names of their own. */
#include "cli/commands.h"
#include "cli/run/imageprog.h"

static int run(const struct command *self, int argc, char **argv)
{
	return imageprog_command(self, self->name, argc, argv);
}

const struct command cmd_pull = {
	.name = "pull",
	.args = "REF",
	.summary = "fetch an image from a registry",
	.run = run,
	.flags = COMMAND_EXTERNAL,
};

const struct command cmd_push = {
	.name = "push",
	.args = "IMAGE [REF]",
	.summary = "send an image to a registry",
	.run = run,
	.flags = COMMAND_EXTERNAL,
	.complete = COMPLETE_IMAGE,
};

const struct command cmd_login = {
	.name = "login",
	.args = "[REGISTRY]",
	.summary = "keep a user name and password for a registry",
	.run = run,
	.flags = COMMAND_EXTERNAL,
};

const struct command cmd_logout = {
	.name = "logout",
	.args = "[REGISTRY]",
	.summary = "forget the password for a registry",
	.run = run,
	.flags = COMMAND_EXTERNAL,
};
