/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"

#define UNSIZED_MAX (64u << 20)

/* statx(2), which musl of Debian 12 does not declare, as far as is wanted here. */
struct mount_statx {
	uint32_t mask;
	uint32_t others[35];
	uint64_t mount;
	uint64_t more[13];
};

_Static_assert(sizeof(struct mount_statx) == 256 && offsetof(struct mount_statx, mount) == 0x90,
	       "as <linux/stat.h> has it");
#define MOUNT_STATX_ID 0x1000u

struct extent {
	uint64_t at, len;
};

struct link {
	dev_t dev;
	ino_t ino;
	char *path;
};

struct pack {
	struct stream *out;
	struct pack_stats *stats;
	struct extent *extents;
	struct link *links;	/* open addressing, twice PACK_LINKS_MAX slots */
	size_t link_count;
	int depth, flags;
	uint64_t mount;		/* the mount of the top, with PACK_ONE_MOUNT */
	size_t path_len;
	struct tar_entry t;
	struct xattrs xattrs;
};

int pack_flags(const char *letters)
{
	return (strchr(letters, 'L') ? PACK_FOLLOW : 0) |
	       (strchr(letters, 'l') ? PACK_MARK_LINKS : 0) |
	       (strchr(letters, 'x') ? PACK_ONE_MOUNT : 0) |
	       (strchr(letters, 'b') ? PACK_BARE : 0);
}

int pack_is_contents(const char *path)
{
	size_t n = strlen(path);

	while (n > 1 && path[n - 1] == '/')
		n--;
	return (n == 1 && (path[0] == '/' || path[0] == '.')) || (n > 1 && path[n - 1] == '.' && path[n - 2] == '/');
}

/* Returns the first name of the file that was packed, or NULL after adding this one. */
static const char *known_link(struct pack *p, const struct stat *st, struct err *e)
{
	size_t slots = 2 * PACK_LINKS_MAX, i;

	if (!p->links)
		p->links = calloc(slots, sizeof(*p->links));
	if (!p->links) {
		err_nomem(e);
		return NULL;
	}
	i = (size_t)((st->st_ino * 0x9E3779B97F4A7C15ULL) >> 40) % slots;
	for (; p->links[i].path; i = (i + 1) % slots)
		if (p->links[i].ino == st->st_ino && p->links[i].dev == st->st_dev)
			return p->links[i].path;
	if (p->link_count < PACK_LINKS_MAX) {
		p->links[i] = (struct link){ st->st_dev, st->st_ino, strdup(p->t.path) };
		p->link_count += p->links[i].path != NULL;
		p->t.linked = p->links[i].path && p->flags & PACK_MARK_LINKS;
	}
	return NULL;
}

/* The pieces of a file between its holes, in p->extents; 0: not sparse. */
static size_t find_extents(struct pack *p, int fd, uint64_t size)
{
	size_t n = 0;
	off_t at = 0, hole;

	if (!p->extents)
		p->extents = malloc(PACK_EXTENTS_MAX * sizeof(*p->extents));
	if (!p->extents)
		return 0;
	while ((uint64_t)at < size) {
		at = lseek(fd, at, SEEK_DATA);
		if (at < 0 && errno != ENXIO)
			return 0;
		if (at < 0 || (uint64_t)at >= size)
			break;
		hole = lseek(fd, at, SEEK_HOLE);
		if (hole < 0 || n == PACK_EXTENTS_MAX - 1 || (uint64_t)hole > size)
			hole = (off_t)size;
		p->extents[n++] = (struct extent){ (uint64_t)at, (uint64_t)(hole - at) };
		at = hole;
	}
	if (n == 1 && p->extents[0].at == 0 && p->extents[0].len == size)
		return 0;
	if (!n || p->extents[n - 1].at + p->extents[n - 1].len < size)
		p->extents[n++] = (struct extent){ size, 0 };
	return n;
}

static uint64_t decimal_digits(uint64_t v)
{
	uint64_t n = 1;

	while (v /= 10)
		n++;
	return n;
}

static int put_line(struct stream *s, uint64_t v, struct err *e)
{
	char text[24];
	size_t i = sizeof(text);

	text[--i] = '\n';
	do
		text[--i] = (char)('0' + v % 10);
	while (v /= 10);
	return stream_write(s, text + i, sizeof(text) - i, e);
}

static int pack_sparse(struct pack *p, int fd, size_t n, struct err *e)
{
	uint64_t map = decimal_digits(n) + 1, data = 0;
	int cut = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		map += decimal_digits(p->extents[i].at) + decimal_digits(p->extents[i].len) + 2;
		data += p->extents[i].len;
	}
	p->t.sparse = 1;
	p->t.size = map + tar_padding(map) + data;
	if (tar_put(p->out, &p->t, e) < 0 || put_line(p->out, n, e) < 0)
		return -1;
	for (i = 0; i < n; i++)
		if (put_line(p->out, p->extents[i].at, e) < 0 || put_line(p->out, p->extents[i].len, e) < 0)
			return -1;
	if (tar_pad(p->out, map, e) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		if (lseek(fd, (off_t)p->extents[i].at, SEEK_SET) < 0)
			return err_sys(e, "seek in %.300s", p->t.path);
		if (stream_from_file(p->out, fd, p->extents[i].len, &cut, e) < 0)
			return err_wrap(e, "%.200s", p->t.path);
	}
	p->stats->changed += (uint64_t)cut;
	return tar_pad(p->out, data, e);
}

static int is_pseudo(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC ||
				     fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC ||
				     fs.f_type == DEVPTS_SUPER_MAGIC);
}

static uint64_t packed_mount_id(int fd)
{
	struct mount_statx sx;

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, MOUNT_STATX_ID, &sx) < 0)
		return 0;
	return sx.mask & MOUNT_STATX_ID ? sx.mount : 0;
}

/* Tells whether the directory is another mount than the top's. */
static int is_beyond(struct pack *p, int fd)
{
	uint64_t mount;

	if (!(p->flags & PACK_ONE_MOUNT))
		return 0;
	mount = packed_mount_id(fd);
	if (!p->depth)
		p->mount = mount;
	return mount != p->mount;
}

static int take_xattrs(struct pack *p, int fd, struct err *e)
{
	if (xattrs_read(&p->xattrs, fd, p->flags & PACK_ACLS, e) < 0)
		return err_wrap(e, "%.200s", p->t.path);
	p->t.xattrs = &p->xattrs;
	return 0;
}

/* Files of /proc and /sys say nothing true of their size; and an empty one of a disk is read once in vain. */
static int is_sized(int fd, const struct stat *st)
{
	return st->st_blocks || (st->st_size && !is_pseudo(fd));
}

/* Reads what fd holds, into *ret, which the caller frees; -1: more than UNSIZED_MAX. */
static int read_unsized(struct pack *p, int fd, char **ret, size_t *ret_n, struct err *e)
{
	size_t n = 0, cap = 0;
	char *more;
	ssize_t got;

	*ret = NULL;
	for (;;) {
		if (n == cap) {
			if (cap >= UNSIZED_MAX)
				return err_set(e, ERR_LIMIT, "%.300s has no size and more than %u bytes", p->t.path, UNSIZED_MAX);
			cap = cap ? cap * 4 : 16384;
			more = realloc(*ret, cap);
			if (!more)
				return err_nomem(e);
			*ret = more;
		}
		got = pread(fd, *ret + n, cap - n, (off_t)n);
		if (got < 0 && errno == ESPIPE)
			got = read(fd, *ret + n, cap - n);
		if (got < 0 && errno == EINTR && !stream_interrupted)
			continue;
		if (got < 0)
			return err_code_sys(e, errno == EACCES || errno == EPERM ? ERR_DENIED : ERR_SYS, "read %.300s", p->t.path);
		if (!got)
			break;
		n += (size_t)got;
	}
	*ret_n = n;
	return 0;
}

static int pack_unsized(struct pack *p, int fd, struct err *e)
{
	char *text;
	size_t n = 0;
	int r = read_unsized(p, fd, &text, &n, e);

	if (r == 0) {
		p->t.size = p->t.real_size = n;
		p->stats->bytes += n;
		r = tar_put(p->out, &p->t, e) < 0 || stream_write(p->out, text, n, e) < 0 || tar_pad(p->out, n, e) < 0 ? -1 : 0;
	}
	free(text);
	return r;
}

static int pack_content(struct pack *p, int fd, const struct stat *st, struct err *e)
{
	size_t n = 0;
	int cut = 0;

	if (!is_sized(fd, st))
		return pack_unsized(p, fd, e);

	p->t.size = p->t.real_size = (uint64_t)st->st_size;
	p->stats->bytes += p->t.size;
	if ((uint64_t)st->st_blocks * 512 < p->t.size)
		n = find_extents(p, fd, p->t.size);
	if (n)
		return pack_sparse(p, fd, n, e);
	if (lseek(fd, 0, SEEK_SET) < 0 && errno != ESPIPE)
		return err_sys(e, "seek in %.300s", p->t.path);
	if (tar_put(p->out, &p->t, e) < 0)
		return -1;
	if (stream_from_file(p->out, fd, p->t.size, &cut, e) < 0)
		return err_wrap(e, "%.200s", p->t.path);
	p->stats->changed += (uint64_t)cut;
	return tar_pad(p->out, p->t.size, e);
}

static void describe_packed(struct pack *p, const struct stat *st, char type)
{
	p->t.type = type;
	p->t.link[0] = '\0';
	p->t.mode = st->st_mode & 07777;
	p->t.uid = st->st_uid;
	p->t.gid = st->st_gid;
	p->t.size = p->t.real_size = 0;
	p->t.sparse = p->t.linked = 0;
	p->t.xattrs = NULL;
	p->t.mtime_sec = st->st_mtim.tv_sec;
	p->t.mtime_nsec = (uint32_t)st->st_mtim.tv_nsec;
	p->stats->entries++;
}

/*
 * Reports that a process in the sandbox changed the file just after we looked at it; the request
 * itself is fine.
 */
static int became_another(int os_errno)
{
	return os_errno == ENOTDIR || os_errno == ELOOP || os_errno == ENXIO;
}

static int pack_file(struct pack *p, int dirfd, const char *name, int flags, struct err *e)
{
	autoclose int fd = openat(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
	const char *first;
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ELOOP || errno == ENXIO) && p->depth) {
		p->stats->skipped++;	/* it went away or became something else meanwhile */
		return 0;
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : errno == EACCES ? ERR_DENIED :
				    became_another(errno) ? ERR_BUSY : ERR_SYS, "open %.300s", p->t.path);
	if (!S_ISREG(st.st_mode) || is_beyond(p, fd)) {
		p->stats->skipped++;
		return 0;
	}
	describe_packed(p, &st, '0');
	if (st.st_nlink > 1) {
		first = known_link(p, &st, e);
		if (first) {
			p->t.type = '1';
			strcpy(p->t.link, first);
			return tar_put(p->out, &p->t, e);
		}
	}
	return take_xattrs(p, fd, e) < 0 ? -1 : pack_content(p, fd, &st, e);
}

static int pack_link(struct pack *p, int dirfd, const char *name, const struct stat *st, struct err *e)
{
	ssize_t n;

	describe_packed(p, st, '2');
	n = readlinkat(dirfd, name, p->t.link, TAR_NAME_MAX);
	if (n < 0) {
		p->stats->entries--;
		p->stats->skipped++;
		return 0;
	}
	p->t.link[n] = '\0';
	return tar_put(p->out, &p->t, e);
}

static int pack_entry(struct pack *p, int dirfd, const char *name, int follow, dev_t parent_dev, struct err *e);

static int pack_children(struct pack *p, int fd, dev_t dev, struct err *e)
{
	int dup_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	DIR *d = dup_fd < 0 ? NULL : fdopendir(dup_fd);
	size_t base = p->path_len;
	struct dirent *de;
	int r = 0;

	if (!d) {
		fd_close(&dup_fd);
		return err_sys(e, "list %.300s", p->t.path);
	}
	while (r == 0 && (errno = 0, de = readdir(d))) {
		const size_t n = strlen(de->d_name), at = base + (base > 0);

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		if (base + 1 + n > TAR_NAME_MAX - 1) {
			r = err_set(e, ERR_LIMIT, "a path is longer than %d bytes", TAR_NAME_MAX);
			break;
		}
		p->t.path[base] = '/';
		memcpy(p->t.path + at, de->d_name, n + 1);
		p->path_len = at + n;
		r = pack_entry(p, fd, de->d_name, 0, dev, e);
		p->path_len = base;
		p->t.path[base] = '\0';
	}
	if (r == 0 && errno)
		r = err_sys(e, "list %.300s", p->t.path);
	closedir(d);
	return r;
}

/*
 * Writes a directory with a slash at the end, as tar(1) and Docker do; some readers know a
 * directory by it.
 */
static int put_packed_dir(struct pack *p, struct err *e)
{
	const size_t n = strlen(p->t.path);
	int r;

	if (n + 1 < sizeof(p->t.path) && n && p->t.path[n - 1] != '/')
		memcpy(p->t.path + n, "/", 2);
	r = tar_put(p->out, &p->t, e);
	p->t.path[n] = '\0';
	return r;
}

static int pack_dir(struct pack *p, int dirfd, const char *name, int flags, dev_t parent_dev, struct err *e)
{
	autoclose int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | flags);
	struct stat st;
	int r = 0, beyond;

	if (fd < 0 && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR) && p->depth) {
		p->stats->skipped++;
		return 0;
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_code_sys(e, errno == EACCES ? ERR_DENIED : became_another(errno) ? ERR_BUSY : ERR_SYS, "open directory %.300s",
				    p->t.path);
	if (p->depth >= PACK_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "more than %d directories within each other", PACK_DEPTH_MAX);
	beyond = is_beyond(p, fd);
	if (!beyond && p->depth && st.st_dev != parent_dev && is_pseudo(fd)) {
		p->stats->skipped++;
		return 0;
	}
	if (!p->depth && (p->flags & PACK_BARE) && !strcmp(p->t.path, ".")) {
		p->t.path[p->path_len = 0] = '\0';
	} else {
		describe_packed(p, &st, '5');
		if (take_xattrs(p, fd, e) < 0 || put_packed_dir(p, e) < 0)
			return -1;
	}
	p->depth++;
	if (!beyond)
		r = pack_children(p, fd, st.st_dev, e);
	p->depth--;
	return r;
}

static int pack_entry(struct pack *p, int dirfd, const char *name, int follow, dev_t parent_dev, struct err *e)
{
	int flags = follow ? 0 : O_NOFOLLOW;
	struct stat st;

	if (fstatat(dirfd, name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT && p->depth) {
			p->stats->skipped++;
			return 0;
		}
		return err_code_sys(e, errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : errno == EACCES ? ERR_DENIED : ERR_SYS,
				    "%.300s", p->depth ? p->t.path : name);
	}
	if (S_ISREG(st.st_mode))
		return pack_file(p, dirfd, name, flags, e);
	if (S_ISDIR(st.st_mode))
		return pack_dir(p, dirfd, name, flags, parent_dev, e);
	if (S_ISLNK(st.st_mode))
		return pack_link(p, dirfd, name, &st, e);
	if (!p->depth)
		return err_set(e, ERR_INVALID, "%.300s is a FIFO, socket or device, not a file or directory", name);
	p->stats->skipped++;
	return 0;
}

int pack_path(struct stream *out, const char *path, int flags, struct pack_stats *ret, struct err *e)
{
	struct pack *p = calloc(1, sizeof(*p));
	const char *end = path + strlen(path), *base;
	size_t i;
	int r;

	if (!p)
		return err_nomem(e);
	memset(ret, 0, sizeof(*ret));
	p->out = out;
	p->stats = ret;
	p->flags = flags;
	while (end > path + 1 && end[-1] == '/')
		end--;
	for (base = end; base > path && base[-1] != '/'; base--)
		;
	if (pack_is_contents(path) || end - base > 255 || (end - base == 2 && !memcmp(base, "..", 2)))
		strcpy(p->t.path, ".");
	else
		memcpy(p->t.path, base, (size_t)(end - base));
	p->path_len = strlen(p->t.path);
	r = pack_entry(p, AT_FDCWD, path, flags & PACK_FOLLOW || pack_is_contents(path), 0, e);
	if (r == 0)
		r = tar_finish(out, e);
	for (i = 0; p->links && i < 2 * PACK_LINKS_MAX; i++)
		free(p->links[i].path);
	free(p->links);
	free(p->extents);
	free(p);
	return r;
}
