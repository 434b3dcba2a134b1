/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/netgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

int netgroup_open(const char *dir, struct err *e)
{
	autoclose int fd = -1;
	char path[400];
	struct stat st;

	snprintf(path, sizeof(path), "%s/" NETGROUP_FILE, dir);
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    (st.st_size < NETGROUP_SIZE && ftruncate(fd, NETGROUP_SIZE) < 0))
		return err_sys(e, "open %s", path);
	return take_fd(&fd);
}

struct netgroup *netgroup_map(int fd, struct err *e)
{
	struct stat st;
	void *p = MAP_FAILED;

	if (fstat(fd, &st) == 0 && st.st_size >= NETGROUP_SIZE)
		p = mmap(NULL, NETGROUP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		return p;
	err_sys(e, "map the budget of the network");
	return NULL;
}

uint64_t netgroup_bytes_left(const struct netgroup *g, uint64_t max)
{
	uint64_t used = __atomic_load_n(&g->bytes, __ATOMIC_RELAXED);

	return !max ? UINT64_MAX : max > used ? max - used : 0;
}

size_t netgroup_take(struct netgroup *g, uint64_t max, size_t n)
{
	uint64_t used = __atomic_load_n(&g->bytes, __ATOMIC_RELAXED);
	size_t got;

	do {
		got = max && used + n > max ? (max > used ? (size_t)(max - used) : 0) : n;
	} while (got && !__atomic_compare_exchange_n(&g->bytes, &used, used + got, 1,
						     __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return got;
}

void netgroup_give_back(struct netgroup *g, size_t n)
{
	__atomic_fetch_sub(&g->bytes, n, __ATOMIC_RELAXED);
}

int netgroup_connect(struct netgroup *g, uint64_t max)
{
	uint64_t used = __atomic_load_n(&g->connections, __ATOMIC_RELAXED);

	do {
		if (max && used >= max)
			return 0;
	} while (!__atomic_compare_exchange_n(&g->connections, &used, used + 1, 1,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return 1;
}

static off_t group_log_size(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_size : 0;
}

/*
 * Turns to the other file: one of the proxies does it, under a lock that its death releases. The
 * others do not wait: they go on in the full file, up to twice its size.
 */
static unsigned turn_group_log(struct netgroup *g, const int fd[2], unsigned now)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(fd[0], F_OFD_SETLK, &lock) < 0)
		return now;
	if ((__atomic_load_n(&g->log_now, __ATOMIC_ACQUIRE) & 1) == now && !ftruncate(fd[!now], 0))
		__atomic_store_n(&g->log_now, !now, __ATOMIC_RELEASE);
	now = __atomic_load_n(&g->log_now, __ATOMIC_ACQUIRE) & 1;
	lock.l_type = F_UNLCK;
	fcntl(fd[0], F_OFD_SETLK, &lock);
	return now;
}

void netgroup_log(struct netgroup *g, const int fd[2], const char *line, size_t n,
		  size_t half_bytes)
{
	unsigned now = __atomic_load_n(&g->log_now, __ATOMIC_ACQUIRE) & 1;

	if (fd[0] < 0 || fd[1] < 0)
		return;
	if ((size_t)group_log_size(fd[now]) + n > half_bytes)
		now = turn_group_log(g, fd, now);
	if ((size_t)group_log_size(fd[now]) + n <= 2 * half_bytes)
		(void)!io_write_all(fd[now], line, n);
}
