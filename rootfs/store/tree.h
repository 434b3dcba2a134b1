/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree - maps the names in an archive to places beneath one directory.
 *
 * The names are hostile. tree_clean_path() is pure and admits no ".."; tree_parent() reaches the
 * directory of a name by openat2(2) that cannot leave root_fd, and hands out its descriptor; the
 * caller then uses *at() calls on the last component that follow no link. The descriptor of the
 * last parent is kept, since archives list a directory's files together.
 */
#ifndef BERTH_ROOTFS_STORE_TREE_H
#define BERTH_ROOTFS_STORE_TREE_H

#include "base/err.h"

#define TREE_PATH_MAX 4096
#define TREE_COMPONENTS_MAX 256
#define TREE_NAME_MAX 255

/*
 * Cleans a name: "./a//b/" and "/a/b" become "a/b"; the root becomes "". ERR_CORRUPT on "..", and
 * on more bytes or components than the limits above.
 */
int tree_clean_path(const char *in, char ret[TREE_PATH_MAX + 1], struct err *e);

struct tree {
	int root_fd;		/* borrowed */
	int dir_fd;		/* the cached parent, or -1 */
	int dir_strict;		/* dir_fd was reached through no symbolic link */
	char dir_path[TREE_PATH_MAX + 1];
	/* called for each directory tree_parent() had to make */
	int (*made)(void *ctx, const char *path, struct err *e);
	void *ctx;
};

enum tree_flags {
	TREE_MAKE = 1,		/* make missing parents, 0755 root */
	TREE_STRICT = 2,	/* a symbolic link among the parents is an error */
};

void tree_init(struct tree *t, int root_fd);
void tree_release(struct tree *t);
/* Drops the cached parent: call it when a directory or link may have been replaced. */
void tree_forget(struct tree *t);
/*
 * Gives the directory that holds path (clean, not ""), and path's last component. The fd is
 * borrowed until the next call. Links among the parents are followed as if root_fd were "/".
 * ERR_CORRUPT if a parent is not a directory, or is missing without TREE_MAKE.
 */
int tree_parent(struct tree *t, const char *path, int flags, int *ret_fd, const char **ret_name,
		struct err *e);

#endif
