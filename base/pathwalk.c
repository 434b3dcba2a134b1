/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pathwalk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"

enum {
	LINKS_MAX = 40,		/* the kernel's limit */
	STEPS_MAX = 16384,	/* components opened: links full of ".." may ask for many */
};

struct pathwalk {
	int root, fd;		/* fd: the directory named by done; -1: the root */
	uint64_t resolve;
	unsigned links, steps;
	size_t len;		/* of done */
	char done[PATH_MAX], todo[PATH_MAX];
};

static int refuse_path(int os_errno)
{
	errno = os_errno;
	return -1;
}

/* Puts text in todo, before rest: the part of todo that is empty or begins with a slash. */
static int set_todo(struct pathwalk *w, const char *text, size_t n, const char *rest)
{
	size_t more = strlen(rest);

	if (n + more >= sizeof(w->todo))
		return refuse_path(ENAMETOOLONG);
	memmove(w->todo + n, rest, more + 1);
	memcpy(w->todo, text, n);
	return 0;
}

static void to_root(struct pathwalk *w)
{
	fd_close(&w->fd);
	w->len = 0;
	w->done[0] = '\0';
}

/* Steps up one component: walks the rest of done again, from the top. */
static int step_up(struct pathwalk *w, const char *rest)
{
	char back[PATH_MAX];
	size_t n = w->len;

	if (!n)
		return w->resolve & RESOLVE_BENEATH ? refuse_path(EXDEV) : set_todo(w, "", 0, rest);
	while (n && w->done[n - 1] != '/')
		n--;
	n -= n > 0;
	memcpy(back, w->done, n);
	to_root(w);
	return set_todo(w, back, n, rest);
}

static int follow_walk_link(struct pathwalk *w, int link, const char *rest)
{
	char text[PATH_MAX];
	ssize_t n;

	if (w->resolve & RESOLVE_NO_SYMLINKS || ++w->links > LINKS_MAX)
		return refuse_path(ELOOP);
	n = readlinkat(link, "", text, sizeof(text));
	if (n <= 0 || n == (ssize_t)sizeof(text))
		return n < 0 ? -1 : refuse_path(n ? ENAMETOOLONG : ENOENT);
	if (text[0] == '/') {
		if (w->resolve & RESOLVE_BENEATH)
			return refuse_path(EXDEV);
		to_root(w);
	}
	return set_todo(w, text, (size_t)n, rest);
}

static int step_down(struct pathwalk *w, const char *name, size_t n, int *fd)
{
	if (w->len + 1 + n >= sizeof(w->done))
		return refuse_path(ENAMETOOLONG);
	if (w->len)
		w->done[w->len++] = '/';
	memcpy(w->done + w->len, name, n + 1);
	w->len += n;
	fd_close(&w->fd);
	w->fd = take_fd(fd);
	return 0;
}

static int at(const struct pathwalk *w)
{
	return w->fd >= 0 ? w->fd : w->root;
}

/*
 * Handles the component name, followed by rest. Returns 1 with the requested descriptor, 0 to go
 * on.
 */
static int step_to(struct pathwalk *w, const char *name, const char *rest, int flags, int *ret_fd)
{
	int last = !rest[strspn(rest, "/")];
	struct stat st;
	autoclose int fd = -1;

	if (!strcmp(name, ".."))
		return step_up(w, rest);
	if (++w->steps > STEPS_MAX)
		return refuse_path(ELOOP);
	if (last && flags & O_NOFOLLOW && !rest[0]) {
		*ret_fd = openat(at(w), name, flags);
		return *ret_fd < 0 ? -1 : 1;
	}
	fd = openat(at(w), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (S_ISLNK(st.st_mode))
		return follow_walk_link(w, fd, rest);
	if (S_ISDIR(st.st_mode))
		return step_down(w, name, strlen(name), &fd) < 0 || set_todo(w, "", 0, rest) < 0 ? -1 : 0;
	if (!last || rest[0])
		return refuse_path(ENOTDIR);
	/* open it again by its name; a link that took its place meanwhile is not followed */
	*ret_fd = openat(at(w), name, flags | O_NOFOLLOW);
	return *ret_fd < 0 ? -1 : 1;
}

static int walk_components(struct pathwalk *w, int flags)
{
	char name[NAME_MAX + 1];
	const char *p;
	size_t n;
	int r, fd;

	for (;;) {
		p = w->todo + strspn(w->todo, "/");
		n = strcspn(p, "/");
		if (n > NAME_MAX)
			return refuse_path(ENAMETOOLONG);
		if (!n)
			return openat(at(w), ".", flags);	/* the directory itself, whatever its name is now */
		memcpy(name, p, n);
		name[n] = '\0';
		r = n == 1 && name[0] == '.' ? set_todo(w, "", 0, p + n) : step_to(w, name, p + n, flags, &fd);
		if (r != 0)
			return r < 0 ? -1 : fd;
	}
}

int pathwalk_steps(int dirfd, const char *path, int flags, uint64_t resolve)
{
	struct pathwalk w = { .root = dirfd, .fd = -1, .resolve = resolve };
	int fd;

	if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) || !(resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) ||
	    resolve & ~(uint64_t)(RESOLVE_BENEATH | RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS))
		return refuse_path(EINVAL);
	if (!path[0])
		return refuse_path(ENOENT);
	if (path[0] == '/' && resolve & RESOLVE_BENEATH)
		return refuse_path(EXDEV);
	if (strlen(path) >= sizeof(w.todo))
		return refuse_path(ENAMETOOLONG);
	strcpy(w.todo, path);
	fd = walk_components(&w, flags | O_CLOEXEC);
	fd_close(&w.fd);
	return fd;
}

int pathwalk_open(int dirfd, const char *path, int flags, uint64_t resolve)
{
	int fd = path_openat2(dirfd, path, (uint64_t)flags, 0, resolve);

	return fd < 0 && errno == ENOSYS ? pathwalk_steps(dirfd, path, flags, resolve) : fd;
}
