/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/look.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "runtime/fileop/pack.h"
#include "runtime/fileop/tar.h"
#include "runtime/fileop/write.h"

static int looks_like_text(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			return 0;
	return 1;
}

/*
 * Reads the metadata, without values that have bytes other than printable ASCII: no header field
 * could have set them.
 */
static void read_metadata(int fd, char text[LOOK_METADATA_MAX])
{
	static struct xattrs x;
	const char *name, *value;
	size_t at = 0, n, len = 0, prefix = strlen(LOOK_METADATA);
	struct err ignored;

	text[0] = '\0';
	if (xattrs_read(&x, fd, 0, &ignored) < 0)
		return;
	while (xattrs_next(&x, &at, &name, &value, &n)) {
		if (strncmp(name, LOOK_METADATA, prefix) != 0 || !looks_like_text(name, strlen(name)) ||
		    !looks_like_text(value, n))
			continue;
		if (len + strlen(name + prefix) + n + 3 > LOOK_METADATA_MAX) {
			text[0] = '\0';
			return;
		}
		len += (size_t)sprintf(text + len, "%s=%.*s\n", name + prefix, (int)n, value);
	}
}

static int with_metadata; /* flag of the one operation that this process does */

static void read_look_metadata(int dirfd, const char *name, char text[LOOK_METADATA_MAX])
{
	autoclose int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		read_metadata(fd, text);
}

void look_record(int dirfd, const char *name, const char *shown, const struct stat *st)
{
	char link[PATH_MAX] = "";
	struct stat target;
	unsigned leads_to = 0;
	ssize_t n = 0;

	_Static_assert(sizeof(link) >= LOOK_METADATA_MAX, "the metadata take its place");
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dirfd, name, link, sizeof(link) - 1);
		if (fstatat(dirfd, name, &target, 0) == 0)
			leads_to = (target.st_mode & S_IFMT) << 16;
	}
	link[n > 0 ? n : 0] = '\0';
	if (with_metadata && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)))
		read_look_metadata(dirfd, name, link);
	printf("%o %u %u %llu %lld.%09ld %lu %s%c%s%c", st->st_mode | leads_to, st->st_uid, st->st_gid,
	       (unsigned long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
	       (unsigned long)st->st_nlink, shown, '\0', link, '\0');
}

static int open_looked_dir(int dirfd, const char *path, int flags, DIR **ret, struct err *e)
{
	int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | flags);

	*ret = fd < 0 ? NULL : fdopendir(fd);
	if (*ret)
		return 0;
	write_path_error(e, "list", path);
	fd_close(&fd);
	return -1;
}

/* Names one after the other, each with its NUL, and the offset of each. */
struct names {
	char *text;
	size_t len, room;
	uint32_t *at;
	size_t count, at_room;
};

static int grow_listing(void **p, size_t *room, size_t need, size_t item, struct err *e)
{
	size_t more = *room ? *room * 2 : 4096;
	void *v;

	if (need <= *room)
		return 0;
	while (more < need)
		more *= 2;
	v = reallocarray(*p, more, item);
	if (!v)
		return err_nomem(e);
	*p = v;
	*room = more;
	return 0;
}

static int add_listed_name(struct names *l, const char *name, struct err *e)
{
	size_t n = strlen(name) + 1;

	if (l->len + n > UINT32_MAX)
		return err_set(e, ERR_LIMIT, "the directory has more than 4 GiB of names");
	if (grow_listing((void **)&l->text, &l->room, l->len + n, 1, e) < 0 ||
	    grow_listing((void **)&l->at, &l->at_room, l->count + 1, sizeof(*l->at), e) < 0)
		return -1;
	memcpy(l->text + l->len, name, n);
	l->at[l->count++] = (uint32_t)l->len;
	l->len += n;
	return 0;
}

static const char *sorted_text; /* for by_listed_name(), which gets no context; there is one thread */

static int by_listed_name(const void *a, const void *b)
{
	return strcmp(sorted_text + *(const uint32_t *)a, sorted_text + *(const uint32_t *)b);
}

/* Reads the names after `after`, sorted. */
static int read_look_names(DIR *d, const char *after, struct names *l, struct err *e)
{
	struct dirent *de;

	while ((de = readdir(d)))
		if (!look_is_dots(de->d_name) && strcmp(de->d_name, after) > 0 &&
		    add_listed_name(l, de->d_name, e) < 0)
			return -1;
	sorted_text = l->text;
	if (l->count)
		qsort(l->at, l->count, sizeof(*l->at), by_listed_name);
	return 0;
}

static int unhex(const char *hex, char *out, size_t max, struct err *e)
{
	size_t n;
	int c;

	for (n = 0; hex[2 * n]; n++) {
		c = hex_byte(hex + 2 * n);
		if (c <= 0 || n + 1 == max)
			return err_set(e, ERR_INVALID,
				       "after is not a name in hexadecimal digits; hint: \"next\" of "
				       "an answer");
		out[n] = (char)c;
	}
	out[n] = '\0';
	return 0;
}

static size_t count_patterns(char **a)
{
	size_t n = 0;

	while (a[n])
		n++;
	return n;
}

/*
 * list PATH [AFTER [COUNT [FLAGS]]]: the entries of a directory in the order of their bytes, or the one
 * entry; those after a name in hexadecimal digits; COUNT of them and the next one, if there is one,
 * 0: all; flags m: with metadata.  It is sorted here, with the sandbox's memory.
 */
int look_list(char **a, struct err *e)
{
	uint64_t count = a[1] && a[2] ? strtoull(a[2], NULL, 10) : 0, shown = 0;
	struct names l = { .text = NULL };
	char after[NAME_MAX + 1] = "";
	struct stat st;
	size_t i;
	DIR *d;

	with_metadata = count_patterns(a) > 3 && strchr(a[3], 'm');
	if (a[1] && unhex(a[1], after, sizeof(after), e) < 0)
		return -1;
	if (stat(a[0], &st) < 0 && lstat(a[0], &st) < 0)
		return write_path_error(e, "list", a[0]);
	if (!S_ISDIR(st.st_mode)) {
		look_record(AT_FDCWD, a[0], a[0], &st);
		return 0;
	}
	if (open_looked_dir(AT_FDCWD, a[0], 0, &d, e) < 0 || read_look_names(d, after, &l, e) < 0)
		return -1;
	for (i = 0; i < l.count && (!count || shown <= count); i++) {
		const char *name = l.text + l.at[i];

		if (fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		look_record(dirfd(d), name, name, &st);
		shown++;
	}
	closedir(d);
	free(l.text);
	free(l.at);
	return 0;
}

/* stat FLAGS PATH; flags L: follow, m: with metadata */
int look_stat(char **a, struct err *e)
{
	struct stat st;

	with_metadata = strchr(a[0], 'm') != NULL;
	if (fstatat(AT_FDCWD, a[1], &st, strchr(a[0], 'L') ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return write_path_error(e, "stat", a[1]);
	look_record(AT_FDCWD, a[1], a[1], &st);
	return 0;
}

struct snap {
	char path[PATH_MAX];
	uint64_t left;
	int depth;
};

static int snap_dir(struct snap *s, int dirfd_, const char *name, size_t len, struct err *e)
{
	struct dirent *de;
	struct stat st;
	DIR *d;
	int r = 0;

	if (s->depth >= PACK_DEPTH_MAX ||
	    open_looked_dir(dirfd_, name, s->depth ? O_NOFOLLOW : 0, &d, e) < 0)
		return s->depth ? 0 : -1; /* gone meanwhile, or closed to us */
	s->depth++;
	while (r == 0 && (de = readdir(d))) {
		size_t n = strlen(de->d_name);

		if (look_is_dots(de->d_name) || len + 1 + n >= sizeof(s->path) ||
		    fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    (s->depth == 1 && !strcmp(de->d_name, ".berth")))
			continue;
		snprintf(s->path + len, sizeof(s->path) - len, "%s%s", len ? "/" : "", de->d_name);
		if (!s->left--) {
			r = err_set(e, ERR_LIMIT,
				    "the working directory has too many files to compare");
			break;
		}
		if (S_ISDIR(st.st_mode))
			r = snap_dir(s, dirfd(d), de->d_name, len + (len > 0) + n, e);
		else
			look_record(dirfd(d), de->d_name, s->path, &st);
		s->path[len] = '\0';
	}
	s->depth--;
	closedir(d);
	return r;
}

/* snap MAX: every file below the working directory */
int look_snap(char **a, struct err *e)
{
	static struct snap s;

	s.left = strtoull(a[0], NULL, 10);
	return snap_dir(&s, AT_FDCWD, ".", 0, e);
}
