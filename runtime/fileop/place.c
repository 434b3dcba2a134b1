/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pathwalk.h"
#include "runtime/fileop/tar.h"

/* Makes the first n bytes of dest a directory.  Those that are there stay as they are. */
static int make_place_dir(const char *dest, size_t n, struct takeback *made, struct err *e)
{
	char part[TAR_NAME_MAX + 1];
	struct stat st;

	memcpy(part, dest, n);
	part[n] = '\0';
	if (!mkdir(part, 0755)) {
		takeback_note(made, TAKEBACK_DIR, 0, part);
		return 0;
	}
	if (errno == EEXIST && stat(part, &st) < 0)
		return err_code_sys(e, ERR_NOT_FOUND, "%.300s is a symbolic link that leads nowhere", part);
	if (errno == EEXIST && S_ISDIR(st.st_mode))
		return 0;
	return errno == EEXIST ? err_set(e, ERR_EXISTS, "%.300s exists and is not a directory", part) :
	       err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "make directory %.300s", part);
}

/* Makes the directories on the way to dest; dest itself, too, when it is to be one. */
static int make_way(const char *dest, size_t len, int whole, struct takeback *made, struct err *e)
{
	size_t i;

	for (i = 1; i <= len; i++) {
		if (i < len ? dest[i] != '/' || dest[i - 1] == '/' : !whole)
			continue;
		if (make_place_dir(dest, i, made, e) < 0)
			return -1;
	}
	return 0;
}

/* dest is not there: its parent is, and its last part is the new name. */
static int open_place_parent(struct place *ret, const char *dest, size_t n, int flags, struct err *e)
{
	char parent[TAR_NAME_MAX + 4];
	size_t base = n;

	while (base > 0 && dest[base - 1] != '/')
		base--;
	if (n - base > 255 || n == base || (n - base <= 2 && !strncmp(dest + base, "..", n - base)))
		return err_set(e, ERR_INVALID, "%.300s cannot be a destination", dest);
	memcpy(ret->rename, dest + base, n - base);
	ret->rename[n - base] = '\0';
	snprintf(parent, sizeof(parent), "%.*s", base ? (int)base : 1, base ? dest : ".");
	ret->fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->fd < 0)
		err_code_sys(e, errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_SYS, "open directory %.300s", parent);
	if (ret->fd < 0 && e->os_errno == ENOENT && !(flags & EXTRACT_REPLACE))		/* a move has no such option */
		err_hint(e, "--parents makes it");
	return ret->fd < 0 ? -1 : 0;
}

int place_open(struct place *ret, const char *dest, int flags, struct takeback *made, struct err *e)
{
	size_t len = strlen(dest), n = len;

	*ret = (struct place){ .fd = -1 };
	if (!len || len > TAR_NAME_MAX)
		return err_set(e, ERR_INVALID, "the destination's path is empty or too long");
	while (n > 1 && dest[n - 1] == '/')
		n--;
	if (flags & EXTRACT_PARENTS && make_way(dest, n, n < len || flags & EXTRACT_INTO, made, e) < 0)
		return -1;
	if (flags & EXTRACT_CONTENTS && make_place_dir(dest, n, made, e) < 0)
		return -1;
	ret->fd = open(dest, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->fd >= 0)
		return 0;
	if (flags & (EXTRACT_CONTENTS | EXTRACT_INTO) || (errno != ENOENT && errno != ENOTDIR))
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open directory %.300s", dest);
	ret->must_be_dir = n < len;
	return open_place_parent(ret, dest, n, flags, e);
}

/* ---- the names that a copy made ---- */

/* Follows its path, with the NUL: read from the end. */
struct note {
	ino_t ino;
	uint32_t path_len;
	uint32_t kind;
};

static int make_note_room(struct takeback *t, size_t n)
{
	size_t room = t->room ? t->room : 4096;
	char *more;

	if (t->len + n > TAKEBACK_MAX)
		return -1;
	while (room < t->len + n)
		room *= 2;
	if (room == t->room)
		return 0;
	more = realloc(t->notes, room);
	if (!more)
		return -1;
	t->notes = more;
	t->room = room;
	return 0;
}

void takeback_note(struct takeback *t, enum takeback_kind kind, ino_t ino, const char *path)
{
	struct note n = { .ino = ino, .path_len = (uint32_t)strlen(path), .kind = kind };

	if (t->overflowed || make_note_room(t, n.path_len + 1 + sizeof(n)) < 0) {
		t->overflowed = 1;
		return;
	}
	memcpy(t->notes + t->len, path, n.path_len + 1);
	memcpy(t->notes + t->len + n.path_len + 1, &n, sizeof(n));
	t->len += n.path_len + 1 + sizeof(n);
}

static int remove_noted(int parent, const char *name, const struct note *n)
{
	struct stat st;

	if (n->kind == TAKEBACK_DIR)
		return unlinkat(parent, name, AT_REMOVEDIR);
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (n->kind == TAKEBACK_LINK ? !S_ISLNK(st.st_mode) : st.st_ino != n->ino)
		return 0;	/* another process put something else there */
	return unlinkat(parent, name, 0);
}

static int undo_one(char *path, const struct note *n, int dirfd, uint64_t resolve)
{
	char *slash = strrchr(path, '/');
	const char *dir = slash == path ? "/" : slash ? path : ".";
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	autoclose int parent = -1;

	if (slash)
		*slash = '\0';
	parent = resolve ? pathwalk_open(dirfd, dir, flags, resolve) : openat(dirfd, dir, flags);
	if (parent < 0 || remove_noted(parent, slash ? slash + 1 : path, n) < 0)
		return errno == ENOENT ? 0 : -1;
	return 0;
}

int takeback_undo(struct takeback *t, int dirfd, uint64_t resolve)
{
	struct note n;
	int r = t->overflowed ? -1 : 0;

	while (!t->overflowed && t->len) {
		memcpy(&n, t->notes + t->len - sizeof(n), sizeof(n));
		t->len -= sizeof(n) + n.path_len + 1;
		if (undo_one(t->notes + t->len, &n, dirfd, resolve) < 0)
			r = -1;
	}
	return r;
}

void takeback_release(struct takeback *t)
{
	free(t->notes);
	*t = (struct takeback){ 0 };
}
