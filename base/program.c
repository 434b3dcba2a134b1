/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/*
 * The path starts at the directory of our executable. -1 with errno if neither place has the
 * program.
 */
static int open_beside(const char *name)
{
	static const char *const installed[] = { "../libexec/berth", "../sbin" };
	char exe[4096], path[128];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	autoclose int dir = -1;
	char *slash;
	size_t i;
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
	fd = openat(dir, name, O_PATH | O_CLOEXEC);
	for (i = 0; i < ARRAY_LEN(installed) && fd < 0 && errno == ENOENT; i++) {
		snprintf(path, sizeof(path), "%s/%s", installed[i], name);
		fd = openat(dir, path, O_PATH | O_CLOEXEC);
	}
	return fd;
}

int program_open(const char *name, struct err *e)
{
	int fd = open_beside(name);

	if (fd < 0) {
		err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "%s beside berth or in ../libexec/berth", name);
		return err_hint(e, "install berth with make install, or build it with make");
	}
	return fd;
}
