/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/imageprog.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/program.h"
#include "manager/config.h"

#define PROGRAM "berth-image"

int imageprog_exec(char **argv, struct err *e)
{
	autoclose int fd = program_open(PROGRAM, e);
	static char name[] = PROGRAM;
	struct config c;

	if (fd < 0)
		return -1;
	/* where the store is, the configuration may say */
	if (config_load(&c, e) < 0)
		return -1;
	if (setenv("BERTH_STATE_DIR", c.state_dir, 1) < 0)
		return err_nomem(e);
	argv[0] = name;
	execveat(fd, "", argv, environ, AT_EMPTY_PATH);
	return err_sys(e, "execute " PROGRAM);
}

int imageprog_command(const struct command *self, const char *verb, int argc, char **argv)
{
	autofree char **words = calloc((size_t)argc + 2, sizeof(*words));
	struct err e;

	if (!words) {
		err_nomem(&e);
		return command_fail(self, &e, 0);
	}
	words[1] = (char *)verb;
	memcpy(words + 2, argv + 1, (size_t)argc * sizeof(*words));	/* with its NULL */
	imageprog_exec(words, &e);
	return command_fail(self, &e, 0);
}
