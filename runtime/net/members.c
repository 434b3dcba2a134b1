/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/members.h"

#include <fcntl.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"

#define CLOSED "closed"

static int count_numbers(void *ctx, const char *name)
{
	if (strspn(name, "0123456789") == strlen(name))
		++*(int *)ctx;
	return 0;
}

int members_count(struct pool *p, struct err *e)
{
	autoclose int fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int n = 0, failed = 0;

	if (fd >= 0)
		path_each_entry(fd, count_numbers, &n, &failed);
	return fd < 0 || failed ? err_sys(e, "count the members of a network") : n;
}

int members_room(struct pool *p, const char *network, uint64_t limit, struct err *e)
{
	int n = members_count(p, e);

	if (n < 0)
		return -1;
	if (path_has(p->dir_fd, CLOSED))
		return err_set(e, ERR_NOT_FOUND, "network %s is being removed", network);
	if (limit && (uint64_t)n >= limit)
		return err_set(e, ERR_LIMIT, "network %s has %d members, and no more are allowed; "
					     "hint: "
			       "[network] max_members in berth.toml", network, n);
	return 0;
}

int members_close(struct pool *p, struct err *e)
{
	return io_replace_file(p->dir_fd, CLOSED, "", 0, 0600, 0, e);
}
