/* SPDX-License-Identifier: Apache-2.0 */
/* The one cgroup of all running supervisors. Upholds S24 of SECURITY.md (D13). */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/cgroup_backends.h"
#include "runtime/kernel/devbpf.h"


#define KEEPERS_LEAF "keepers"
#define KEEPERS_TRIES 8
#define KEEPERS_END_MS 2000

/* The files of the bound and of swap, and the one to join by: on v1 without a global lock. */
struct place {
	const char *root, *limit, *swap, *join;
	int swap_counts_both;
};

static const struct place keepers_v2 = {
	"/sys/fs/cgroup", "memory.max", "memory.swap.max", "cgroup.procs", 0,
};
static const struct place keepers_v1 = {
	"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "tasks", 1,
};

/* A sandbox of this parent is there, so the parent is.  Another keeper may make the leaf too. */
static int open_leaf(const struct place *p, const char *parent, struct err *e)
{
	char path[160];
	int fd, tries;

	snprintf(path, sizeof(path), "%s/%s/" KEEPERS_LEAF, p->root, parent);
	for (tries = 0; tries < KEEPERS_TRIES; tries++) {
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		if (errno != ENOENT || (mkdir(path, 0755) < 0 && errno != EEXIST))
			break;
	}
	return err_sys(e, "make cgroup %s", path);
}

/* Asked when the limit is set only: sysinfo(2) takes the longer the more memory cgroups there are. */
static uint64_t all_keepers_bytes(uint64_t least)
{
	struct sysinfo i;
	uint64_t half = sysinfo(&i) == 0 ? (uint64_t)i.totalram * i.mem_unit / 2 : 0;

	return half > least ? half : least;
}

/* Set once: a value that an operator sets later stays. */
static int bound_keepers_memory(const struct place *p, int fd, uint64_t least, struct err *e)
{
	uint64_t bytes;
	char now[64];

	if (cgroup_read(fd, p->limit, now, sizeof(now)) < 0)
		return err_sys(e, "read cgroup file %s", p->limit);
	if (now[0] != 'm' && strtoull(now, NULL, 10) < INT64_MAX / 4096 * 4096)
		return 0;
	bytes = all_keepers_bytes(least);
	if (cgroup_set(fd, p->limit, bytes, "max", e) < 0)
		return -1;
	if (faccessat(fd, p->swap, F_OK, 0) < 0)
		return 0;
	return cgroup_set(fd, p->swap, p->swap_counts_both ? 2 * bytes : bytes, "max", e);
}

int cgroup_join_keepers(const char *parent, uint64_t least, struct err *e)
{
	const struct place *p = cgroup_detect() == CGROUP_V2 ? &keepers_v2 : &keepers_v1;
	autoclose int fd = -1;

	if (access(p->root, F_OK) < 0)
		return 0;
	fd = open_leaf(p, parent, e);
	if (fd < 0)
		return -1;
	/* without the controller nothing can be counted, and a sandbox is refused its --memory */
	if (faccessat(fd, p->limit, F_OK, 0) < 0)
		return 0;
	/* keepers mount the file systems of layers, which no sandbox may */
	if (p == &keepers_v2 && devbpf_unconfine(fd, e) < 0)
		return -1;
	if (bound_keepers_memory(p, fd, least, e) < 0)
		return err_wrap(e, "bound the memory of all keepers");
	return cgroup_write(fd, p->join, "0") < 0 ? err_sys(e, "join the keepers' cgroup") : 0;
}

void cgroup_remove_keepers(const char *parent)
{
	const struct place *const places[] = { &keepers_v1, &keepers_v2 };
	const uint64_t end = clock_ms() + KEEPERS_END_MS;
	char path[160];
	size_t i;

	for (i = 0; i < ARRAY_LEN(places); i++) {
		snprintf(path, sizeof(path), "%s/%s/" KEEPERS_LEAF, places[i]->root, parent);
		/* a keeper whose sandbox is gone may be about to end */
		while (rmdir(path) < 0 && errno == EBUSY && clock_ms() < end)
			usleep(1000);
	}
}
