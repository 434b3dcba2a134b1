/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <stddef.h>

const struct command *const commands[] = {
	&cmd_run,
	&cmd_ps,
	&cmd_inspect,
	&cmd_rm,
	&cmd_gc,
	&cmd_image,
	NULL,
};
