/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"

int registry_open(struct registry *r, const struct config *c, struct err *e)
{
	*r = (struct registry)REGISTRY_INIT;
	r->config = c;
	r->run_fd = path_open_private_dir(c->run_dir, e);
	if (r->run_fd < 0)
		return -1;
	r->state_fd = path_open_private_dir(c->state_dir, e);
	if (r->state_fd < 0 || (r->sandboxes_fd = path_make_dir(r->run_fd, "sandboxes", e)) < 0 ||
	    (r->names_fd = path_make_dir(r->state_fd, "names", e)) < 0 ||
	    (r->kept_fd = path_make_dir(r->state_fd, "sandboxes", e)) < 0 ||
	    (r->ids_fd = path_make_dir(r->state_fd, "ids", e)) < 0) {
		registry_close(r);
		return -1;
	}
	return 0;
}

void registry_close(struct registry *r)
{
	fd_close(&r->run_fd);
	fd_close(&r->state_fd);
	fd_close(&r->sandboxes_fd);
	fd_close(&r->names_fd);
	fd_close(&r->kept_fd);
	fd_close(&r->ids_fd);
	fd_close(&r->pool_fd);
}

int registry_lock(struct registry *r, struct err *e)
{
	while (flock(r->sandboxes_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the registry of sandboxes");
	return 0;
}

void registry_unlock(struct registry *r)
{
	flock(r->sandboxes_fd, LOCK_UN);
}

struct named {
	int (*each)(void *ctx, const char *name);
	void *ctx;
};

static int only_named(void *ctx, const char *name)
{
	const struct named *n = ctx;

	return path_is_name(name) ? n->each(n->ctx, name) : 0;
}

int registry_each(int dirfd, int (*each)(void *ctx, const char *name), void *ctx, struct err *e)
{
	struct named n = { each, ctx };
	autoclose int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = 0, r = fd < 0 ? -1 : path_each_entry(fd, only_named, &n, &failed);

	return fd < 0 || failed ? err_sys(e, "read a directory of the registry") : r;
}
