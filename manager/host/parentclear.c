/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/parentclear.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/cgroup.h"

static int one_is_enough(void *ctx, const char *name)
{
	(void)ctx;
	return path_is_name(name);
}

int parentclear(struct registry *r, struct err *e)
{
	/* a description of its own: the lock goes with it */
	autoclose int fd = openat(r->sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = 0, found;

	if (fd < 0)
		return err_sys(e, "open the registry of sandboxes");
	/* a claim makes the sandbox's directory under this lock, before anything looks at a cgroup */
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the registry of sandboxes");
	found = path_each_entry(fd, one_is_enough, NULL, &failed);
	if (failed)
		return err_sys(e, "read the registry of sandboxes");
	if (!found)
		cgroup_remove_parent(r->config->cgroup_parent);
	return 0;
}
