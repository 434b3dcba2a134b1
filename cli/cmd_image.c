/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth image: the cold work on images is a program of its own, berth-image,
 * so that its libraries are not on the hot path.  It is taken from the
 * directory of this executable, then from ../libexec/berth; never from PATH.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "manager/config.h"

#define PROGRAM "berth-image"

/* The executable's directory is the anchor: -1 with errno when neither place has the program. */
static int open_program(void)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	autoclose int dir = -1;
	char *slash;
	int fd;

	if (n < 0)
		return -1;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (!slash) {
		errno = ENOENT;
		return -1;
	}
	slash[slash == exe] = '\0';
	dir = open(exe, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	fd = openat(dir, PROGRAM, O_PATH | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		fd = openat(dir, "../libexec/berth/" PROGRAM, O_PATH | O_CLOEXEC);
	return fd;
}

static int run(const struct command *self, int argc, char **argv)
{
	autoclose int fd = open_program();
	static char name[] = PROGRAM;
	struct config c;
	struct err e;

	(void)argc;
	/* where the store is, the configuration may say */
	if (config_load(&c, &e) < 0)
		return command_fail(self, &e, 0);
	if (setenv("BERTH_STATE_DIR", c.state_dir, 1) < 0) {
		err_nomem(&e);
		return command_fail(self, &e, 0);
	}
	if (fd < 0) {
		err_code_sys(&e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS,
			     PROGRAM " beside berth or in ../libexec/berth");
		err_hint(&e, "install berth with make install, or build it with make");
		return command_fail(self, &e, 0);
	}
	argv[0] = name;
	execveat(fd, "", argv, environ, AT_EMPTY_PATH);
	err_sys(&e, "execute " PROGRAM);
	return command_fail(self, &e, 0);
}

const struct command cmd_image = {
	.name = "image",
	.args = "COMMAND [ARGUMENT...]",
	.summary = "import, list, inspect and remove images",
	.run = run,
	.flags = COMMAND_EXTERNAL,
	.complete = COMPLETE_WORDS,
	.words = "import ls inspect rm gc fsck",
};
