/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/fsfreeze.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "base/mem.h"

static int open_top(int mnt_fd, struct err *e)
{
	int fd = openat(mnt_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_sys(e, "open the writable layer") : fd;
}

int fsfreeze(int mnt_fd, struct err *e)
{
	autoclose int top = open_top(mnt_fd, e);

	if (top < 0)
		return -1;
	return ioctl(top, FIFREEZE, 0) < 0 ? err_code_sys(e, errno == EBUSY ? ERR_BUSY : ERR_SYS,
							  "let the writable layer stand still") :
					     0;
}

int fsfreeze_thaw(int mnt_fd, struct err *e)
{
	autoclose int top = open_top(mnt_fd, e);

	if (top < 0)
		return -1;
	return ioctl(top, FITHAW, 0) < 0 && errno != EINVAL ?
		       err_sys(e, "let the writable layer go on") :
		       0;
}
