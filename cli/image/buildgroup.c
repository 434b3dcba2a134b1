/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/buildgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"

#define ROOT "/sys/fs/cgroup"
#define PAUSE_NS 20000000
#define TRIES 250

struct sweep {
	struct registry *r;
	char prefix[BUILDGROUP_SIZE];
	int dirfd; /* of the hierarchy */
};

void buildgroup_path(const char *parent, const char *id, char ret[BUILDGROUP_SIZE])
{
	snprintf(ret, BUILDGROUP_SIZE, "/%s-build-%s", parent, id);
}

static int remove_one(void *ctx, const char *name)
{
	const struct timespec pause = {0, PAUSE_NS};
	struct sweep *s = ctx;
	const size_t n = strlen(s->prefix);
	int i;

	if (strncmp(name, s->prefix, n) != 0 || path_has(s->r->sandboxes_fd, name + n))
		return 0;
	for (i = 0; i < TRIES && unlinkat(s->dirfd, name, AT_REMOVEDIR) < 0 && errno == EBUSY; i++)
		nanosleep(&pause, NULL);
	return 0;
}

static int look_in(void *ctx, const char *name)
{
	struct sweep inner = *(struct sweep *)ctx;
	autoclose int fd = openat(inner.dirfd, name,
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int failed;

	inner.dirfd = fd;
	if (fd >= 0)
		path_each_entry(fd, remove_one, &inner, &failed);
	return 0;
}

void buildgroup_sweep(struct registry *r, const char *parent)
{
	autoclose int fd = open(ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct sweep s = {.r = r, .dirfd = fd};
	char path[BUILDGROUP_SIZE];
	int failed;

	buildgroup_path(parent, "", path);
	snprintf(s.prefix, sizeof(s.prefix), "%s", path + 1);
	if (fd < 0)
		return;
	path_each_entry(fd, remove_one, &s, &failed);
	if (lseek(fd, 0, SEEK_SET) == 0)
		path_each_entry(fd, look_in, &s, &failed);
}
