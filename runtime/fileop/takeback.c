/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/takeback.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pathwalk.h"

/* Follows its path, with the NUL: read from the end. */
struct note {
	ino_t ino;
	uint32_t path_len;
	uint32_t kind;
};

static int make_room(struct takeback *t, size_t n)
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

	if (t->overflowed || make_room(t, n.path_len + 1 + sizeof(n)) < 0) {
		t->overflowed = 1;
		return;
	}
	memcpy(t->notes + t->len, path, n.path_len + 1);
	memcpy(t->notes + t->len + n.path_len + 1, &n, sizeof(n));
	t->len += n.path_len + 1 + sizeof(n);
}

static int remove_one(int parent, const char *name, const struct note *n)
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
	if (parent < 0 || remove_one(parent, slash ? slash + 1 : path, n) < 0)
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
