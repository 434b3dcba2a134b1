/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <stddef.h>

const struct command *const commands[] = {
	&cmd_run,
	&cmd_create,
	&cmd_start,
	&cmd_stop,
	&cmd_restart,
	&cmd_pause,
	&cmd_resume,
	&cmd_kill,
	&cmd_exec,
	&cmd_sh,
	&cmd_commands,
	&cmd_output,
	&cmd_attach,
	&cmd_send,
	&cmd_signal,
	&cmd_wait,
	&cmd_shell,
	&cmd_stdio,
	&cmd_ps,
	&cmd_inspect,
	&cmd_rm,
	&cmd_gc,
	&cmd_image,
	&cmd_config_show,
	&cmd_config_check,
	&cmd_completion,
	NULL,
};
