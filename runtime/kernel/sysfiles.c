/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/sysfiles.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/cgroup.h"

int sysfiles_make(int dirfd, struct err *e)
{
	static const char *const dirs[] = { "devices", "devices/system", "devices/system/cpu", "fs", "fs/cgroup" };
	static const char *const files[] = { "online", "possible", "present" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(dirfd, dirs[i], 0755) < 0)
			return err_sys(e, "make /sys/%s", dirs[i]);
	for (i = 0; i < ARRAY_LEN(files); i++) {
		char path[64], text[256];
		autoclose int fd = -1;
		int n;

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/%s", files[i]);
		n = cgroup_read(AT_FDCWD, path, text, sizeof(text));
		if (n < 0)
			continue;
		fd = openat(dirfd, path + strlen("/sys/"), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
		if (fd < 0 || io_write_all(fd, text, (size_t)n) < 0)
			return err_sys(e, "write %s of the sandbox", path);
	}
	return 0;
}
