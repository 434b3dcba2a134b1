/* SPDX-License-Identifier: Apache-2.0 */
/* berth image, pull, push, login, logout, save and load: commands that berth-image carries out. */
#include "cli/commands.h"
#include "cli/run/imageprog.h"

/* ---- image ---- */

static int berth_image_main(const struct command *self, int argc, char **argv)
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
	.run = berth_image_main,
	.flags = COMMAND_EXTERNAL,
	.complete = COMPLETE_WORDS,
	.words = "import bootstrap export save load ls inspect history tag rm prune pin unpin df gc fsck copy",
};

/* ---- pull, push, login, logout ---- */

/* berth pull, push, login, logout: commands of berth-image under names of their own. */

static int run_image_verb(const struct command *self, int argc, char **argv)
{
	return imageprog_command(self, self->name, argc, argv);
}

const struct command cmd_pull = {
	.name = "pull",
	.args = "REF",
	.summary = "fetch an image from a registry",
	.run = run_image_verb,
	.flags = COMMAND_EXTERNAL,
};

const struct command cmd_push = {
	.name = "push",
	.args = "IMAGE [REF]",
	.summary = "send an image to a registry",
	.run = run_image_verb,
	.flags = COMMAND_EXTERNAL,
	.complete = COMPLETE_IMAGE,
};

const struct command cmd_login = {
	.name = "login",
	.args = "[REGISTRY]",
	.summary = "keep a user name and password for a registry",
	.run = run_image_verb,
	.flags = COMMAND_EXTERNAL,
};

const struct command cmd_logout = {
	.name = "logout",
	.args = "[REGISTRY]",
	.summary = "forget the password for a registry",
	.run = run_image_verb,
	.flags = COMMAND_EXTERNAL,
};

/* ---- save, load ---- */

/* berth save, load: short for berth image save, load. */

const struct command cmd_save = {
	.name = "save",
	.args = "[-o FILE] IMAGE...",
	.summary = "write images to an archive (berth image save)",
	.run = run_image_verb,
	.flags = COMMAND_EXTERNAL,
	.complete = COMPLETE_IMAGE,
};

const struct command cmd_load = {
	.name = "load",
	.args = "[-i FILE]",
	.summary = "read the images of an archive (berth image load)",
	.run = run_image_verb,
	.flags = COMMAND_EXTERNAL,
	.complete = COMPLETE_FILE,
};
