/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a mount goes.  The tree is the image's, and may be changed while we look
 * at it: existing places are opened by the kernel's own RESOLVE_IN_ROOT; missing
 * ones are made along a path that was freed of links first and is then walked
 * without following any.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/oci/container.h"

#define LINKS_MAX 40

/* Drops the last component. */
static void pop(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
}

/* Puts a link's text before the rest of the path. */
static int unfold(const char *link, char *rest, char *done, struct err *e)
{
	char joined[PATH_MAX];

	if ((size_t)snprintf(joined, sizeof(joined), "%s/%s", link, rest) >= sizeof(joined))
		return err_set(e, ERR_INVALID, "a link in the container's root leads to a path that is too long");
	if (link[0] == '/')
		done[0] = '\0';
	memcpy(rest, joined, strlen(joined) + 1);
	return 0;
}

/* path without links, "." and "..", into out (PATH_MAX): "/a/b", or "" for the root. */
static int resolve(int root_fd, const char *path, char *out, struct err *e)
{
	char rest[PATH_MAX], name[NAME_MAX + 1], link[PATH_MAX];
	int links = 0;

	if ((size_t)snprintf(rest, sizeof(rest), "%s", path) >= sizeof(rest))
		return err_set(e, ERR_INVALID, "path '%.100s...' is too long", path);
	out[0] = '\0';
	for (;;) {
		char *p = rest + strspn(rest, "/");
		size_t n = strcspn(p, "/"), len = strlen(out);
		autoclose int fd = -1;
		ssize_t got;

		if (!n)
			return 0;
		if (n > NAME_MAX)
			return err_set(e, ERR_INVALID, "a name in path '%.100s' is too long", path);
		memcpy(name, p, n);
		name[n] = '\0';
		memmove(rest, p + n, strlen(p + n) + 1);
		if (!strcmp(name, "."))
			continue;
		if (!strcmp(name, "..")) {
			pop(out);
			continue;
		}
		if (len + n + 2 > PATH_MAX)
			return err_set(e, ERR_INVALID, "path '%.100s' is too long", path);
		out[len] = '/';
		memcpy(out + len + 1, name, n + 1);
		fd = path_open_in_root(root_fd, out, O_PATH | O_NOFOLLOW, 0);
		if (fd < 0)
			continue;	/* to be made */
		got = readlinkat(fd, "", link, sizeof(link) - 1);
		if (got < 0)
			continue;	/* not a link */
		link[got] = '\0';
		pop(out);
		if (++links > LINKS_MAX)
			return err_set(e, ERR_INVALID, "path '%.100s' has too many links", path);
		if (unfold(link, rest, out, e) < 0)
			return -1;
	}
}

static int make_file(int dir, const char *name, const char *path, struct err *e)
{
	autoclose int made = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0755);
	int fd;

	if (made < 0 && errno != EEXIST)
		return err_sys(e, "make mount point %s", path);
	fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open mount point %s", path) : fd;
}

int oci_place(int root_fd, const char *path, int directory, struct err *e)
{
	char clean[PATH_MAX], *name, *next;
	autoclose int dir = -1;
	int fd = path_open_in_root(root_fd, path, O_PATH, 0);

	if (fd >= 0 || errno != ENOENT)
		return fd < 0 ? err_sys(e, "open mount point %s", path) : fd;
	if (resolve(root_fd, path, clean, e) < 0)
		return -1;
	dir = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, "open the container's root");
	for (name = clean + 1; *clean && name; name = next) {
		next = strchr(name, '/');
		if (next)
			*next++ = '\0';
		if (!next && !directory)
			return make_file(dir, name, path, e);
		if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "make mount point %s", path);
		fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return err_sys(e, "open mount point %s", path);
		fd_close(&dir);
		dir = fd;
	}
	return take_fd(&dir);
}
