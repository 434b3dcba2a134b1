/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/treecopy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/treewalk.h"

/*
 * Kept in the target while it is made: files with several names, by inode number, until their
 * last name.
 */
#define LINKS ".links-of-the-copy"

struct copy {
	int to;		/* the directory that is being filled */
	int links;
	int only_files;	/* no device nodes */
	char names[XATTR_LIST_MAX], value[XATTR_SIZE_MAX];
};

/* ---- what all have ---- */

/* xfs shows its access lists a second time, as it keeps them. */
static int is_kept(const char *attr)
{
	return !strncmp(attr, "user.", 5) || (!strncmp(attr, "trusted.", 8) && strncmp(attr, "trusted.SGI_ACL_", 16)) ||
	       !strncmp(attr, "system.posix_acl_", 17) || !strcmp(attr, "security.capability");
}

/*
 * Copies the attributes. From and to are directories; name is a name in both, which is not
 * followed, or "."
 */
static int copy_attrs(struct copy *c, int from, int to, const char *name, struct err *e)
{
	char source[NAME_MAX + 64], target[NAME_MAX + 64];
	const char *attr;
	ssize_t n, size;

	snprintf(source, sizeof(source), "/proc/self/fd/%d/%s", from, name);
	snprintf(target, sizeof(target), "/proc/self/fd/%d/%s", to, name);
	n = llistxattr(source, c->names, sizeof(c->names));
	if (n < 0)
		return errno == ENOTSUP ? 0 : err_sys(e, "list the attributes of %.200s", name);
	for (attr = c->names; attr < c->names + n; attr += strlen(attr) + 1) {
		if (!is_kept(attr))
			continue;
		size = lgetxattr(source, attr, c->value, sizeof(c->value));
		if (size < 0)
			return err_sys(e, "read %s of %.200s", attr, name);
		if (lsetxattr(target, attr, c->value, (size_t)size, 0) < 0)
			return err_sys(e, "write %s of %.200s", attr, name);
	}
	return 0;
}

/*
 * Copies the facts in an order that matters: an owner clears set-id bits and capabilities, an
 * access list changes the mode, and each changes the times.
 */
static int copy_facts(struct copy *c, int from, int to, const char *name, const struct stat *st, struct err *e)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };

	if (fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "give %.200s its owner", name);
	if (copy_attrs(c, from, to, name, e) < 0)
		return -1;
	if (!S_ISLNK(st->st_mode) && fchmodat(to, name, st->st_mode & 07777, 0) < 0)
		return err_sys(e, "give %.200s its mode", name);
	return utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? err_sys(e, "give %.200s its times", name) : 0;
}

/* ---- files and the like ---- */

static int copy_tree_file_piece(int in, int out, off_t at, off_t end)
{
	if (lseek(out, at, SEEK_SET) < 0)
		return -1;
	while (at < end) {
		ssize_t n = sendfile(out, in, &at, end - at > 1 << 30 ? 1 << 30 : (size_t)(end - at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n < 0 ? errno : EIO;	/* shorter than it says */
			return -1;
		}
	}
	return 0;
}

/* Copies data only: holes stay holes. */
static int copy_tree_file_data(int in, int out, off_t size)
{
	off_t from, to = 0;

	while (to < size) {
		from = lseek(in, to, SEEK_DATA);
		if (from < 0 && errno == ENXIO)
			break;
		to = from < 0 ? -1 : lseek(in, from, SEEK_HOLE);
		if (to < 0 || copy_tree_file_piece(in, out, from, to) < 0)
			return -1;
	}
	return ftruncate(out, size);
}

static int copy_tree_file(struct copy *c, int from, const char *name, const struct stat *st, struct err *e)
{
	autoclose int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME | O_CLOEXEC), out = -1;
	struct stat is;

	if (in < 0 || fstat(in, &is) < 0)
		return err_sys(e, "open %.200s", name);
	if (is.st_dev != st->st_dev || is.st_ino != st->st_ino)
		return err_set(e, ERR_CORRUPT, "file %.200s was exchanged", name);
	out = openat(c->to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(e, "make %.200s", name);
	return copy_tree_file_data(in, out, st->st_size) < 0 ? err_sys(e, "copy %.200s", name) : 0;
}

static int copy_link(struct copy *c, int from, const char *name, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(e, "read link %.200s", name);
	target[n] = '\0';
	return symlinkat(target, c->to, name) < 0 ? err_sys(e, "make link %.200s", name) : 0;
}

/* Handles a file with several names: 1 if it was copied before and has got this name too. */
static int link_copied_name(struct copy *c, const char *name, const char *key, const struct stat *st, struct err *e)
{
	struct stat is;
	int r;

	if (fstatat(c->links, key, &is, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "look for the other names of %.200s", name);
	/* the last name uses the file itself, because it may have the maximum number of links */
	r = is.st_nlink < st->st_nlink ? linkat(c->links, key, c->to, name, 0) : renameat(c->links, key, c->to, name);
	/* xfs allows more names of one file than ext4: further names get another copy */
	if (r < 0 && errno == EMLINK)
		return unlinkat(c->links, key, 0) < 0 ? err_sys(e, "begin %.200s anew", name) : 0;
	return r < 0 ? err_sys(e, "make %.200s one more name of a file", name) : 1;
}

static int copy_tree_entry(void *ctx, int from, const char *name, const struct stat *st, struct err *e)
{
	struct copy *c = ctx;
	char key[32];
	int r = 0;

	if (c->only_files && (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)))
		return 0;
	snprintf(key, sizeof(key), "%ju", (uintmax_t)st->st_ino);
	if (st->st_nlink > 1)
		r = link_copied_name(c, name, key, st, e);
	if (r != 0)
		return r < 0 ? -1 : 0;
	if (S_ISREG(st->st_mode))
		r = copy_tree_file(c, from, name, st, e);
	else if (S_ISLNK(st->st_mode))
		r = copy_link(c, from, name, e);
	else if (mknodat(c->to, name, (st->st_mode & S_IFMT) | 0600, st->st_rdev) < 0)
		r = err_sys(e, "make %.200s", name);
	if (r < 0 || copy_facts(c, from, c->to, name, st, e) < 0)
		return -1;
	if (st->st_nlink > 1 && linkat(c->to, name, c->links, key, 0) < 0)
		return err_sys(e, "keep %.200s for its other names", name);
	return 0;
}

/* ---- directories ---- */

/*
 * Owner, mode and access lists are set when the directory is full: files made in it would
 * inherit them.
 */
static int enter_copied_dir(void *ctx, int from, const char *name, const struct stat *st, struct err *e)
{
	struct copy *c = ctx;
	int sub;

	(void)from;
	(void)st;
	if (mkdirat(c->to, name, 0700) < 0)
		return err_sys(e, "make directory %.200s", name);
	sub = openat(c->to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sub < 0)
		return err_sys(e, "open directory %.200s", name);
	fd_close(&c->to);
	c->to = sub;
	return 0;
}

static int copy_dir_facts(struct copy *c, int from, struct err *e)
{
	struct stat st;

	return fstat(from, &st) < 0 ? err_sys(e, "look at a directory") : copy_facts(c, from, c->to, ".", &st, e);
}

static int leave_copied_dir(void *ctx, int from, struct err *e)
{
	struct copy *c = ctx;
	int up;

	if (copy_dir_facts(c, from, e) < 0)
		return -1;
	/* this directory is ours, and no process moves it */
	up = openat(c->to, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (up < 0)
		return err_sys(e, "go back up in a copy");
	fd_close(&c->to);
	c->to = up;
	return 0;
}

static int copy_whole_tree(int from_fd, int to_fd, int only_files, struct err *e)
{
	static const struct treewalk all = { copy_tree_entry, enter_copied_dir, leave_copied_dir };
	autofree struct copy *c = malloc(sizeof(*c));
	autoclose int links = -1;
	int r;

	if (!c)
		return err_nomem(e);
	if (mkdirat(to_fd, LINKS, 0700) < 0)
		return err_sys(e, "make directory " LINKS);
	links = openat(to_fd, LINKS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	c->links = links;
	c->only_files = only_files;
	c->to = openat(to_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = links < 0 || c->to < 0 ? err_sys(e, "open the directory of a copy") : treewalk(from_fd, &all, c, e);
	/* names that are not below from_fd may be left in it */
	if (r == 0)
		r = path_remove_tree(to_fd, LINKS, e);
	if (r == 0)
		r = copy_dir_facts(c, from_fd, e);
	fd_close(&c->to);
	return r;
}

int treecopy(int from_fd, int to_fd, struct err *e)
{
	return copy_whole_tree(from_fd, to_fd, 0, e);
}

int treecopy_files(int from_fd, int to_fd, struct err *e)
{
	return copy_whole_tree(from_fd, to_fd, 1, e);
}
