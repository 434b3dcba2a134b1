/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/imageprog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
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

int imageprog_exec(char **argv, struct err *e)
{
	autoclose int fd = open_program();
	static char name[] = PROGRAM;
	struct config c;

	if (fd < 0) {
		err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS,
			     PROGRAM " beside berth or in ../libexec/berth");
		return err_hint(e, "install berth with make install, or build it with make");
	}
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
