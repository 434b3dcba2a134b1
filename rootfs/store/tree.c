/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/path.h"

#define DIR_FLAGS (O_PATH | O_DIRECTORY)

int tree_clean_path(const char *in, char ret[TREE_PATH_MAX + 1], struct err *e)
{
	size_t len = 0, n, components = 0;

	for (; *in; in += n) {
		in += strspn(in, "/");
		n = strcspn(in, "/");
		if (!n || (n == 1 && in[0] == '.'))
			continue;
		if (n == 2 && in[0] == '.' && in[1] == '.')
			return err_set(e, ERR_CORRUPT, "a name in the archive has a \"..\" component");
		if (n > TREE_NAME_MAX || ++components > TREE_COMPONENTS_MAX ||
		    len + (len > 0) + n > TREE_PATH_MAX)
			return err_set(e, ERR_CORRUPT, "a name in the archive is too long or too deep: '%.60s...'", in);
		if (len)
			ret[len++] = '/';
		memcpy(ret + len, in, n);
		len += n;
	}
	ret[len] = '\0';
	return 0;
}

void tree_init(struct tree *t, int root_fd)
{
	memset(t, 0, sizeof(*t));
	t->root_fd = root_fd;
	t->dir_fd = -1;
}

void tree_forget(struct tree *t)
{
	fd_close(&t->dir_fd);
}

void tree_release(struct tree *t)
{
	tree_forget(t);
}

/* Makes the missing parents, one component at a time through no link. */
static int make_tree_parents(struct tree *t, const char *path, size_t len, struct err *e)
{
	char prefix[TREE_PATH_MAX + 1];
	autoclose int at = -1;
	size_t i, start = 0;

	memcpy(prefix, path, len);
	prefix[len] = '\0';
	for (i = 0; i <= len; i++) {
		const char *name = prefix + start;
		int next;

		if (i < len && path[i] != '/')
			continue;
		prefix[i] = '\0';
		if (!mkdirat(at < 0 ? t->root_fd : at, name, 0755)) {
			if (t->made && t->made(t->ctx, prefix, e) < 0)
				return -1;
		} else if (errno != EEXIST) {
			return err_sys(e, "make directory %s", prefix);
		}
		next = path_open_beneath(at < 0 ? t->root_fd : at, name, DIR_FLAGS, 0);
		if (next < 0)
			return err_code_sys(e, ERR_CORRUPT, "%s in the archive is not a directory but has entries", prefix);
		fd_close(&at);
		at = next;
		if (i < len)
			prefix[i] = '/';
		start = i + 1;
	}
	return 0;
}

static int open_tree_parent(struct tree *t, const char *path, size_t len, int flags, struct err *e)
{
	char dir[TREE_PATH_MAX + 1];
	int fd;

	memcpy(dir, path, len);
	dir[len] = '\0';
	t->dir_strict = 1;
	fd = path_open_beneath(t->root_fd, dir, DIR_FLAGS, 0);
	if (fd < 0 && errno == ENOENT && (flags & TREE_MAKE)) {
		if (make_tree_parents(t, path, len, e) < 0)
			return -1;
		fd = path_open_beneath(t->root_fd, dir, DIR_FLAGS, 0);
	}
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR) && !(flags & TREE_STRICT)) {
		t->dir_strict = 0;
		fd = path_open_in_root(t->root_fd, dir, DIR_FLAGS, 0);
	}
	if (fd < 0)
		return err_code_sys(e, ERR_CORRUPT, "reach the parent directory of '%.200s' in the layer", path);
	return fd;
}

int tree_parent(struct tree *t, const char *path, int flags, int *ret_fd, const char **ret_name,
		struct err *e)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;
	int fd;

	*ret_name = slash ? slash + 1 : path;
	if (!slash) {
		*ret_fd = t->root_fd;
		return 0;
	}
	if (t->dir_fd >= 0 && (t->dir_strict || !(flags & TREE_STRICT)) &&
	    !strncmp(t->dir_path, path, len) && !t->dir_path[len]) {
		*ret_fd = t->dir_fd;
		return 0;
	}
	tree_forget(t);
	fd = open_tree_parent(t, path, len, flags, e);
	if (fd < 0)
		return -1;
	t->dir_fd = fd;
	memcpy(t->dir_path, path, len);
	t->dir_path[len] = '\0';
	*ret_fd = fd;
	return 0;
}
