/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/fileop/tar.h"

/* Makes the first n bytes of dest a directory.  Those that are there stay as they are. */
static int make_one(const char *dest, size_t n, struct takeback *made, struct err *e)
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
		if (make_one(dest, i, made, e) < 0)
			return -1;
	}
	return 0;
}

/* dest is not there: its parent is, and its last part is the new name. */
static int open_parent(struct place *ret, const char *dest, size_t n, int flags, struct err *e)
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
	if (flags & EXTRACT_CONTENTS && make_one(dest, n, made, e) < 0)
		return -1;
	ret->fd = open(dest, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->fd >= 0)
		return 0;
	if (flags & (EXTRACT_CONTENTS | EXTRACT_INTO) || (errno != ENOENT && errno != ENOTDIR))
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open directory %.300s", dest);
	ret->must_be_dir = n < len;
	return open_parent(ret, dest, n, flags, e);
}
