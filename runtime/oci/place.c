/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place - finds the place of a mount. The tree is the image's, and may be changed while we look at
 * it: existing places are opened by the kernel's own RESOLVE_IN_ROOT; missing ones are made along a
 * path that was freed of links first and is then walked without following any.
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
static int unfold_link(const char *link, char *rest, char *done, struct err *e)
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
static int resolve_in_root(int root_fd, const char *path, char *out, struct err *e)
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
		if (unfold_link(link, rest, out, e) < 0)
			return -1;
	}
}

static int make_mount_point_file(int dir, const char *name, const char *path, struct err *e)
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
	if (resolve_in_root(root_fd, path, clean, e) < 0)
		return -1;
	dir = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, "open the container's root");
	for (name = clean + 1; *clean && name; name = next) {
		next = strchr(name, '/');
		if (next)
			*next++ = '\0';
		if (!next && !directory)
			return make_mount_point_file(dir, name, path, e);
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

int oci_place_spell(const struct oci_container *c, const char *dest, char path[PATH_MAX],
		    struct err *e)
{
	const size_t root = strlen(c->rootfs);

	/* on the host's path of the root it is what the rest says, as for runc */
	if (!strncmp(dest, c->rootfs, root) && dest[root] == '/' && root > 1)
		dest += root;
	/* a relative destination is taken from the root, as in versions before 1.0.2 */
	if ((size_t)snprintf(path, PATH_MAX, "%s%s", dest[0] == '/' ? "" : "/", dest) >= PATH_MAX)
		return err_set(e, ERR_INVALID, "mount destination '%.100s' is too long", dest);
	oci_kernelfs_spell(path);
	return 0;
}

/* Returns the part of path below top, both spelled; NULL: path is not below it. */
static const char *part_below(const char *path, const char *top)
{
	const size_t n = strlen(top);

	return !strncmp(path, top, n) && (path[n] == '/' || !path[n]) ? path + n : NULL;
}

const char *oci_source_made_earlier(const struct oci_container *c, const struct oci_mount *m,
				   char source[PATH_MAX])
{
	const int absolute = m->source[0] == '/';
	const struct oci_mount *before;
	char place[PATH_MAX];
	const char *inside;
	struct err ignored;

	if ((size_t)snprintf(source, PATH_MAX, "%s/%s", absolute ? "" : c->bundle, m->source) >= PATH_MAX)
		return NULL;
	oci_kernelfs_spell(source);
	inside = part_below(source, c->rootfs);
	if (!inside || strstr(inside, "/.."))
		return NULL;
	for (before = c->mounts; before < m; before++)
		if (oci_place_spell(c, before->destination, place, &ignored) == 0 &&
		    part_below(inside, place))
			return inside;
	return NULL;
}

int oci_place_link(int root_fd, const struct oci_mount *m, const char *path, int *ret_done,
		   struct err *e)
{
	char link[PATH_MAX], parent[PATH_MAX], *slash;
	ssize_t n = readlink(m->source, link, sizeof(link) - 1);
	autoclose int dir = -1;

	*ret_done = 0;
	if (n < 0)
		return 0;
	link[n] = '\0';
	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	*slash++ = '\0';
	dir = oci_place(root_fd, parent[0] ? parent : "/", 1, e);
	if (dir < 0)
		return -1;
	if (symlinkat(link, dir, slash) < 0) {
		char now[PATH_MAX];
		ssize_t have = readlinkat(dir, slash, now, sizeof(now));

		if (have != n || memcmp(now, link, (size_t)n) != 0)
			return err_set(e, ERR_EXISTS, "copy-symlink: %s exists in the container's root", path);
	}
	*ret_done = 1;
	return 0;
}
