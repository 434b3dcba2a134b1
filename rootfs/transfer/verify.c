/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/transfer/verify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "rootfs/layer/unpack.h"
#include "rootfs/store/tree.h"

#define CHUNK (128u << 10)
#define ATTRIBUTES_MAX 65536
#define READ_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME | O_CLOEXEC)

/* Two trees side by side: the one from the blob, and the one in the store. */
struct sides {
	char path[TREE_PATH_MAX + 1];	/* path of the entry that is compared, "" for the root */
	size_t len;
	unsigned char *a, *b;		/* CHUNK bytes each */
	char *why;
};

static int note_difference(struct sides *s, const char *how)
{
	snprintf(s->why, VERIFY_WHY, "%s '/%.200s'", how, s->path);
	return 0;
}

static int look_failed(const struct sides *s, struct err *e)
{
	return err_sys(e, "compare '/%.200s'", s->path);
}

static ssize_t read_full(int fd, unsigned char *p)
{
	size_t n = 0;
	ssize_t r = 1;

	while (n < CHUNK && (r = read(fd, p + n, CHUNK - n)) != 0) {
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		n += (size_t)r;
	}
	return (ssize_t)n;
}

static int same_file_bytes(struct sides *s, int a, int b, struct err *e)
{
	ssize_t n, m;

	do {
		n = read_full(a, s->a);
		m = n < 0 ? -1 : read_full(b, s->b);
		if (n < 0 || m < 0)
			return look_failed(s, e);
		if (n != m || memcmp(s->a, s->b, (size_t)n))
			return note_difference(s, "there are other bytes in");
	} while (n);
	return 1;
}

/* Counts the attributes of fd that matter; with to, also tells whether to has them all alike (0 if not). */
static int compare_attributes(int fd, int to, int *ret_count)
{
	autofree char *names = malloc(ATTRIBUTES_MAX), *value = malloc(ATTRIBUTES_MAX), *other = malloc(ATTRIBUTES_MAX);
	ssize_t size = names && value && other ? flistxattr(fd, names, ATTRIBUTES_MAX) : -1, n, m;
	const char *at;

	*ret_count = 0;
	if (size < 0)
		return names && value && other && errno == ENOTSUP ? 1 : -1;
	for (at = names; at < names + size; at += strlen(at) + 1) {
		if (!strncmp(at, "security.", 9))
			continue;
		++*ret_count;
		if (to < 0)
			continue;
		n = fgetxattr(fd, at, value, ATTRIBUTES_MAX);
		m = fgetxattr(to, at, other, ATTRIBUTES_MAX);
		if (n < 0 || n != m || memcmp(value, other, (size_t)n))
			return 0;
	}
	return 1;
}

static int same_attributes(struct sides *s, int a, int b, struct err *e)
{
	int have, want, r = compare_attributes(a, b, &want);

	if (r > 0 && compare_attributes(b, -1, &have) < 0)
		r = -1;
	if (r < 0)
		return look_failed(s, e);
	return r && have == want ? 1 : note_difference(s, "there are other attributes on");
}

static int same_link_target(struct sides *s, int a, int b, const char *name, struct err *e)
{
	ssize_t n = readlinkat(a, name, (char *)s->a, CHUNK), m = readlinkat(b, name, (char *)s->b, CHUNK);

	if (n < 0 || m < 0)
		return look_failed(s, e);
	return n == m && !memcmp(s->a, s->b, (size_t)n) ? 1 : note_difference(s, "there is another target in");
}

static int is_unpacked_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && !st->st_rdev;
}

static int same_stat(struct sides *s, const struct stat *a, const struct stat *b)
{
	if ((a->st_mode & S_IFMT) != (b->st_mode & S_IFMT))
		return note_difference(s, "there is another kind of file at");
	if (is_unpacked_whiteout(a) && is_unpacked_whiteout(b))
		return 1;	/* only the type is compared */
	if (a->st_mode != b->st_mode)
		return note_difference(s, "there is another mode on");
	if (a->st_uid != b->st_uid || a->st_gid != b->st_gid)
		return note_difference(s, "there is another owner of");
	if (!S_ISDIR(a->st_mode) && (a->st_size != b->st_size || a->st_nlink != b->st_nlink || a->st_rdev != b->st_rdev))
		return note_difference(s, "there are another size or other links of");
	/* a directory that the blob only implies has no time of its own */
	if (S_ISDIR(a->st_mode))
		return 1;
	if (a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec)
		return note_difference(s, "there is another time on");
	return 1;
}

static int same_directory(struct sides *s, int a, int b, struct err *e);

static int same_opened(struct sides *s, int a, int b, const char *name, int directory, struct err *e)
{
	const int flags = READ_FLAGS | (directory ? O_DIRECTORY : 0);
	autoclose int x = openat(a, name, flags), y = openat(b, name, flags);
	int r;

	if (x < 0 || y < 0)
		return look_failed(s, e);
	r = same_attributes(s, x, y, e);
	if (r <= 0)
		return r;
	return directory ? same_directory(s, x, y, e) : same_file_bytes(s, x, y, e);
}

static int same_tree_entry(struct sides *s, int a, int b, const char *name, struct err *e)
{
	struct stat x, y;
	int r;

	if (fstatat(a, name, &x, AT_SYMLINK_NOFOLLOW) < 0)
		return look_failed(s, e);
	if (fstatat(b, name, &y, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? note_difference(s, "there is no more") : look_failed(s, e);
	r = same_stat(s, &x, &y);
	if (r <= 0)
		return r;
	if (S_ISLNK(x.st_mode))
		return same_link_target(s, a, b, name, e);
	if (S_ISREG(x.st_mode) || S_ISDIR(x.st_mode))
		return same_opened(s, a, b, name, S_ISDIR(x.st_mode), e);
	return 1;	/* for whiteouts and FIFOs there is nothing else to compare */
}

/* Compares the entries of a and b. With b < 0, checks only that a has every name of the other tree. */
static int each_entry(struct sides *s, int list, int a, int b, struct err *e)
{
	int fd = openat(list, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const size_t len = s->len;
	struct dirent *d;

	if (!dir) {
		look_failed(s, e);
		fd_close(&fd);
		return -1;
	}
	while (r > 0 && (d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		s->len = len + (size_t)snprintf(s->path + len, sizeof(s->path) - len, "%s%s", len ? "/" : "", d->d_name);
		if (s->len >= sizeof(s->path))
			r = note_difference(s, "there is too long a name in");
		else if (b >= 0)
			r = same_tree_entry(s, a, b, d->d_name, e);
		else if (!path_has(a, d->d_name))
			r = errno == ENOENT ? note_difference(s, "the blob does not have") : look_failed(s, e);
		s->path[len] = '\0';
	}
	s->len = len;
	closedir(dir);
	return r;
}

static int same_directory(struct sides *s, int a, int b, struct err *e)
{
	int r = each_entry(s, a, a, b, e);

	return r > 0 ? each_entry(s, b, a, -1, e) : r;
}

static int compare_layer_trees(int a, int b, char why[VERIFY_WHY], struct err *e)
{
	autofree unsigned char *chunks = malloc(2 * (size_t)CHUNK);
	struct sides s = { .a = chunks, .b = chunks ? chunks + CHUNK : NULL, .why = why };
	struct stat x, y;
	int r;

	if (!chunks)
		return err_nomem(e);
	if (fstat(a, &x) < 0 || fstat(b, &y) < 0)
		return look_failed(&s, e);
	r = same_stat(&s, &x, &y);
	return r > 0 ? same_opened(&s, a, b, ".", 1, e) : r;
}

int verify_layer(struct store *s, const json_t *layer, const int *lower_fds, size_t n, char why[VERIFY_WHY], struct err *e)
{
	const char *chain = json_string_value(json_object_get(layer, "chain_id"));
	autoclose int blob = -1, there = -1, fresh = -1;
	struct unpack u = { .compression = COMPRESSION_AUTO, .want_size = UINT64_MAX, .blob_fd = -1, .lower_fds = lower_fds,
			    .lower_count = n };
	char name[32];
	int r;

	u.want_digest = json_string_value(json_object_get(layer, "digest"));
	u.want_diff_id = json_string_value(json_object_get(layer, "diff_id"));
	if (!chain || !digest_is_sha256(chain) || !u.want_digest || !digest_is_valid(u.want_digest) || !u.want_diff_id)
		return err_set(e, ERR_CORRUPT, "the record has a bad layer");
	blob = store_open_blob(s, u.want_digest, e);
	there = blob < 0 ? -1 : store_open_layer(s, chain, e);
	if (there < 0)
		return -1;
	fresh = store_tmp_dir(s, name, e);
	if (fresh < 0)
		return -1;
	u.src_fd = blob;
	u.tree_fd = fresh;
	r = unpack_run(&u, e) < 0 ? -1 : compare_layer_trees(fresh, there, why, e);
	store_tmp_remove(s, name);
	return r;
}
