/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/extract.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/pathwalk.h"
#include "runtime/fileop/pack.h"
#include "runtime/fileop/place.h"
#include "runtime/fileop/write.h"

/* A directory that we made; its mode and time are set when it is full. */
struct made_dir {
	char *path;
	uint32_t mode;
	struct timespec mtime;
};

struct inode {
	dev_t dev;
	ino_t ino;
};

struct extract {
	struct stream *in;
	int flags;
	uint64_t resolve;
	const struct extract_limits *limits;
	struct extract_stats *stats;
	struct place to;
	int parent_fd;		/* cached, with its path */
	char parent_path[TAR_NAME_MAX + 1];
	struct made_dir dirs[EXTRACT_COMPONENTS_MAX + 1];
	int dir_count;
	struct inode *linkable;	/* strict: the files that a hard link may lead to */
	size_t linkable_count;
	uint64_t written;
	struct takeback made, above;	/* names made below to.fd; names made on the way to dest, as the
					 * caller spells them */
	struct tar_entry t;
	struct xattrs xattrs;
	char path[TAR_NAME_MAX + 300], link[TAR_NAME_MAX + 300];
};

/* ---- names ---------------------------------------------------------------------- */

/*
 * Cleans a name as rootfs/store/tree.c does: "./a//b" is "a/b", the top is "", ".." is refused; the
 * first component may be replaced.
 */
static int clean_entry_name(const struct extract *x, const char *in, char *out, struct err *e)
{
	size_t len = 0, n, count = 0;

	for (; *in; in += n) {
		const char *part = in += strspn(in, "/");

		n = strcspn(in, "/");
		if (!n || (n == 1 && in[0] == '.'))
			continue;
		if (n == 2 && in[0] == '.' && in[1] == '.')
			return err_set(e, ERR_CORRUPT, "a name in the archive has a \"..\" component: %.200s", in);
		if (n > 255 || ++count > EXTRACT_COMPONENTS_MAX)
			return err_set(e, ERR_CORRUPT, "a name in the archive is too long or too deep");
		if (len)
			out[len++] = '/';
		if (count == 1 && x->to.rename[0]) {
			memcpy(out + len, x->to.rename, strlen(x->to.rename));
			len += strlen(x->to.rename);
			continue;
		}
		if (len + n >= TAR_NAME_MAX)
			return err_set(e, ERR_CORRUPT, "a name in the archive is too long or too deep");
		memcpy(out + len, part, n);
		len += n;
	}
	out[len] = '\0';
	return 0;
}

static int open_below(const struct extract *x, const char *path, int flags)
{
	return pathwalk_open(x->to.fd, path[0] ? path : ".", flags | O_CLOEXEC, x->resolve);
}

/* mkdir -p of path's first len bytes, one part at a time. */
static int make_extract_parents(struct extract *x, const char *path, size_t len, struct err *e)
{
	char part[TAR_NAME_MAX + 300];
	size_t i, start = 0;
	int at = fcntl(x->to.fd, F_DUPFD_CLOEXEC, 3), next;

	memcpy(part, path, len);
	part[len] = '\0';
	for (i = 0; i <= len && at >= 0; i++) {
		if (part[i] != '/' && part[i])
			continue;
		part[i] = '\0';
		if (!mkdirat(at, part + start, 0755))
			takeback_note(&x->made, TAKEBACK_DIR, 0, part);
		else if (errno != EEXIST)
			break;
		/* with IN_ROOT resolution a link among the parts must start from the top again */
		next = open_below(x, part, O_PATH | O_DIRECTORY);
		fd_close(&at);
		at = next;
		if (i < len)
			part[i] = '/';
		start = i + 1;
	}
	if (at < 0 && errno == ENOENT)
		return err_set(e, ERR_DENIED, "%.300s is a link that leads nowhere in the directory that is written to", part);
	if (at < 0 || i <= len) {
		err_sys(e, "make directory %.300s", part);
		fd_close(&at);
		return -1;
	}
	close(at);
	return 0;
}

/* Gives the directory that path is in, borrowed, and its last component. */
static int parent_of(struct extract *x, const char *path, const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;
	int fd;

	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		return x->to.fd;
	if (x->parent_fd >= 0 && !strncmp(x->parent_path, path, len) && !x->parent_path[len])
		return x->parent_fd;
	fd_close(&x->parent_fd);
	if (len > TAR_NAME_MAX)
		return err_set(e, ERR_CORRUPT, "a name in the archive is too long");
	memcpy(x->parent_path, path, len);
	x->parent_path[len] = '\0';
	fd = open_below(x, x->parent_path, O_PATH | O_DIRECTORY);
	if (fd < 0 && errno == ENOENT) {
		if (make_extract_parents(x, path, len, e) < 0)
			return -1;
		fd = open_below(x, x->parent_path, O_PATH | O_DIRECTORY);
	}
	if (fd < 0) {
		if (errno == ELOOP || errno == EXDEV)
			return err_set(e, ERR_DENIED, "%.300s is, or goes through, a symbolic link: not followed", x->parent_path);
		return err_sys(e, "reach directory %.300s", x->parent_path);
	}
	return x->parent_fd = fd;
}

/* ---- directories ----------------------------------------------------------------- */

/*
 * Sets the mode. If the sandbox can write to a directory of the host, its filter forbids set-id
 * bits (K16), so files come without them.
 */
static int give_mode(int fd, uint32_t mode)
{
	if (!fchmod(fd, mode))
		return 0;
	return errno == EPERM && mode & 06000 ? fchmod(fd, mode & 01777) : -1;
}

static void finish_dir(struct extract *x, struct made_dir *d)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, d->mtime };
	int fd = open_below(x, d->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

	if (fd >= 0) {
		(void)!give_mode(fd, d->mode);
		futimens(fd, times);
		close(fd);
	}
	free(d->path);
}

static int is_inside_dir(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return !n || (!strncmp(path, dir, n) && (path[n] == '/' || !path[n]));
}

/* Finishes the directories that path is not in. */
static void leave_dirs(struct extract *x, const char *path)
{
	while (x->dir_count && (!path || !is_inside_dir(path, x->dirs[x->dir_count - 1].path)))
		finish_dir(x, &x->dirs[--x->dir_count]);
}

static int take_owner(struct extract *x, int dirfd, const char *name, struct err *e)
{
	if (!(x->flags & EXTRACT_OWNERS))
		return 0;
	if (fchownat(dirfd, name, x->t.uid, x->t.gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		return err_sys(e, "give %.300s its owner %u:%u", x->path, x->t.uid, x->t.gid);
	return 0;
}

/*
 * Tells whether access control lists are taken: they give rights to users by number, which must
 * never be the host's.
 */
static int takes_acls(const struct extract *x)
{
	return (x->flags & (EXTRACT_OWNERS | EXTRACT_STRICT)) == EXTRACT_OWNERS;
}

static uint32_t extracted_mode(const struct extract *x)
{
	return x->t.mode & (x->flags & EXTRACT_STRICT ? 0777 : 07777);
}

/*
 * Sets the attributes of a directory just made, which no process could have exchanged: no link is
 * followed.
 */
static int dir_xattrs(struct extract *x, int parent, const char *name, struct err *e)
{
	int fd, r;

	if (!x->xattrs.len)
		return 0;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open directory %.300s", x->path);
	r = xattrs_write(&x->xattrs, fd, takes_acls(x), e);
	close(fd);
	return r < 0 ? err_wrap(e, "%.200s", x->path) : 0;
}

static int extract_dir(struct extract *x, struct err *e)
{
	const char *name;
	struct stat st;
	int parent;

	if (!x->path[0])
		return 0;	/* the top stays unchanged */
	parent = parent_of(x, x->path, &name, e);
	if (parent < 0)
		return -1;
	if (mkdirat(parent, name, 0700) < 0) {
		if (errno != EEXIST || fstatat(parent, name, &st, x->flags & EXTRACT_STRICT ? AT_SYMLINK_NOFOLLOW : 0) < 0)
			return err_sys(e, "make directory %.300s", x->path);
		if (!S_ISDIR(st.st_mode))
			return err_set(e, ERR_EXISTS, "%.300s exists and is not a directory", x->path);
		return 0;
	}
	takeback_note(&x->made, TAKEBACK_DIR, 0, x->path);
	if (take_owner(x, parent, name, e) < 0 || dir_xattrs(x, parent, name, e) < 0)
		return -1;
	if (x->dir_count > EXTRACT_COMPONENTS_MAX)
		return err_set(e, ERR_CORRUPT, "the archive is too deep");
	x->dirs[x->dir_count] = (struct made_dir){ strdup(x->path), extracted_mode(x), { x->t.mtime_sec, x->t.mtime_nsec } };
	if (!x->dirs[x->dir_count].path)
		return err_nomem(e);
	x->dir_count++;
	return 0;
}

/* ---- files ----------------------------------------------------------------------- */

static void temp_name(char buf[32])
{
	static unsigned long long n;
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	snprintf(buf, 32, WRITE_TEMP "%llx%x", (unsigned long long)t.tv_nsec * 0x9E3779B1ULL + ++n, (unsigned)getpid());
}

/* Tells whether the name may be replaced (see extract.h). Returns 1 if something has it, 0 if not. */
static int replaceable(struct extract *x, int parent, const char *name, struct err *e)
{
	struct stat st;

	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISREG(st.st_mode))
		return 1;
	if (S_ISDIR(st.st_mode))
		return err_set(e, ERR_EXISTS, "%.300s exists and is a directory", x->path);
	if (x->flags & EXTRACT_REPLACE || (S_ISLNK(st.st_mode) && x->t.type == '2'))
		return 1;
	return err_set(e, ERR_EXISTS, "%.300s exists and is a %s, not a regular file: not replaced; hint: remove it first", x->path,
		       S_ISLNK(st.st_mode) ? "symbolic link" : S_ISFIFO(st.st_mode) ? "FIFO" : S_ISSOCK(st.st_mode) ? "socket" : "device");
}

static int check_bytes(struct extract *x, uint64_t n, struct err *e)
{
	x->written += n;
	if (x->written < n || x->written > x->limits->bytes)
		return err_set(e, ERR_LIMIT, "the content has more than %llu bytes; hint: --limit", (unsigned long long)x->limits->bytes);
	return 0;
}

static int fill_file(struct extract *x, int fd, ino_t *ret_ino, struct err *e)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { x->t.mtime_sec, x->t.mtime_nsec } };
	struct stat st;

	/* holes count, because a later copy may not keep them */
	if (check_bytes(x, x->t.real_size, e) < 0 ||
	    (x->t.sparse ? sparse_to_file(x->in, fd, &x->t, x->path, e) : stream_to_file(x->in, fd, x->t.size, e)) < 0)
		return err_wrap(e, "%.200s", x->path);
	if (stream_skip(x->in, tar_padding(x->t.size), e) < 0 || take_owner(x, fd, "", e) < 0)
		return -1;
	if (xattrs_write(&x->xattrs, fd, takes_acls(x), e) < 0)
		return err_wrap(e, "%.200s", x->path);
	if (give_mode(fd, extracted_mode(x)) < 0 || futimens(fd, times) < 0)
		return err_sys(e, "set mode and time of %.300s", x->path);
	/* the file system must report the size that was written */
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != x->t.real_size)
		return err_set(e, ERR_CORRUPT, "%.300s has %lld bytes, not %llu", x->path, (long long)st.st_size,
			       (unsigned long long)x->t.real_size);
	*ret_ino = st.st_ino;
	x->stats->bytes += x->t.real_size;
	if (x->flags & EXTRACT_STRICT && x->t.linked && x->linkable_count < EXTRACT_LINKS_MAX) {
		if (!x->linkable)
			x->linkable = malloc(EXTRACT_LINKS_MAX * sizeof(*x->linkable));
		if (x->linkable)
			x->linkable[x->linkable_count++] = (struct inode){ st.st_dev, st.st_ino };
	}
	return 0;
}

static int extract_file(struct extract *x, struct err *e)
{
	char temp[32], proc[32];
	const char *name;
	int parent = parent_of(x, x->path, &name, e);
	int named = 0, there = parent < 0 ? -1 : replaceable(x, parent, name, e), r;
	ino_t ino = 0;
	autoclose int fd = -1;

	if (there < 0)
		return -1;
	temp_name(temp);
	/* a file without a name leaves nothing behind if we are killed before it is whole */
	fd = openat(parent, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0) {
		fd = openat(parent, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		named = fd >= 0;
	}
	if (fd < 0)
		return err_code_sys(e, errno == EACCES || errno == EROFS ? ERR_DENIED : ERR_SYS, "create %.300s", x->path);
	r = fill_file(x, fd, &ino, e);
	if (r == 0 && !named) {
		path_of_fd(fd, proc);
		if (!linkat(AT_FDCWD, proc, parent, name, AT_SYMLINK_FOLLOW)) {
			takeback_note(&x->made, TAKEBACK_FILE, ino, x->path);
			return 0;
		}
		if (errno != EEXIST || linkat(AT_FDCWD, proc, parent, temp, AT_SYMLINK_FOLLOW) < 0)
			return err_sys(e, "name %.300s", x->path);
		named = 1;
	}
	if (r == 0 && renameat(parent, temp, parent, name) < 0)
		r = err_sys(e, "name %.300s", x->path);
	if (r < 0 && named)
		unlinkat(parent, temp, 0);
	else if (r == 0 && !there)
		takeback_note(&x->made, TAKEBACK_FILE, ino, x->path);
	return r;
}

static int put_symlink(struct extract *x, struct err *e)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { x->t.mtime_sec, x->t.mtime_nsec } };
	const char *name;
	int parent = parent_of(x, x->path, &name, e);
	int there = parent < 0 ? -1 : replaceable(x, parent, name, e);

	if (there < 0)
		return -1;
	if (!x->t.link[0])
		return err_set(e, ERR_CORRUPT, "the symbolic link %.300s leads nowhere", x->path);
	if (symlinkat(x->t.link, parent, name) < 0 &&
	    (errno != EEXIST || unlinkat(parent, name, 0) < 0 || symlinkat(x->t.link, parent, name) < 0))
		return err_sys(e, "make symbolic link %.300s", x->path);
	if (!there)
		takeback_note(&x->made, TAKEBACK_LINK, 0, x->path);
	if (take_owner(x, parent, name, e) < 0)
		return -1;
	utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

static int may_link(const struct extract *x, const struct stat *st)
{
	size_t i;

	if (!S_ISREG(st->st_mode))
		return 0;
	for (i = x->linkable_count; i-- > 0;)
		if (x->linkable[i].ino == st->st_ino && x->linkable[i].dev == st->st_dev)
			return 1;
	return !(x->flags & EXTRACT_STRICT);
}

static int put_hardlink(struct extract *x, struct err *e)
{
	const char *name, *target;
	struct stat st;
	int parent, there;
	autoclose int from = -1;

	if (clean_entry_name(x, x->t.link, x->link, e) < 0)
		return -1;
	parent = parent_of(x, x->link, &target, e);
	from = parent < 0 ? -1 : fcntl(parent, F_DUPFD_CLOEXEC, 3);
	if (from < 0)
		return parent < 0 ? -1 : err_sys(e, "reach %.300s", x->link);
	parent = parent_of(x, x->path, &name, e);
	there = parent < 0 ? -1 : replaceable(x, parent, name, e);
	if (there < 0)
		return -1;
	if (fstatat(from, target, &st, AT_SYMLINK_NOFOLLOW) < 0 || !may_link(x, &st))
		return err_set(e, ERR_CORRUPT, "the hard link %.200s leads to %.200s, which is not a file of this archive", x->path, x->link);
	if (linkat(from, target, parent, name, 0) < 0 &&
	    (errno != EEXIST || unlinkat(parent, name, 0) < 0 || linkat(from, target, parent, name, 0) < 0))
		return err_sys(e, "make hard link %.300s", x->path);
	if (!there)
		takeback_note(&x->made, TAKEBACK_FILE, st.st_ino, x->path);
	return 0;
}

/* ---- the whole ------------------------------------------------------------------- */

static int extract_entry(struct extract *x, struct err *e)
{
	int is_dir = x->t.type == '5';

	if (clean_entry_name(x, x->t.path, x->path, e) < 0)
		return -1;
	leave_dirs(x, x->path);
	if (x->to.must_be_dir && !is_dir)
		return err_set(e, ERR_NOT_FOUND, "the destination is not a directory");
	x->to.must_be_dir = 0;
	if (!strchr("0125", x->t.type)) {
		x->stats->skipped++;
		return stream_skip(x->in, x->t.size + tar_padding(x->t.size), e);
	}
	if (!x->path[0] && !is_dir)
		return err_set(e, ERR_CORRUPT, "the archive has an entry without a name");
	if (++x->stats->entries > x->limits->entries)
		return err_set(e, ERR_LIMIT, "more than %llu entries", (unsigned long long)x->limits->entries);
	return is_dir ? extract_dir(x, e) : x->t.type == '0' ? extract_file(x, e) : x->t.type == '1' ? put_hardlink(x, e) : put_symlink(x, e);
}

static int extract_all(struct extract *x, struct err *e)
{
	int r;

	while ((r = tar_get(x->in, &x->t, e)) > 0)
		if (extract_entry(x, e) < 0)
			return -1;
	if (r < 0)
		return -1;
	leave_dirs(x, NULL);
	return stream_drain(x->in, e);
}

/* Removes what a failed copy made. */
static void extract_undo(struct extract *x, struct err *e)
{
	int r;

	while (x->dir_count)	/* their modes could keep us out */
		free(x->dirs[--x->dir_count].path);
	r = x->to.fd < 0 ? 0 : takeback_undo(&x->made, x->to.fd, x->resolve);
	if (r < 0 || takeback_undo(&x->above, AT_FDCWD, 0) < 0)
		err_wrap(e, "some of the copied files stay");
}

int extract_to(struct stream *in, const char *dest, int flags, const struct extract_limits *limits,
	       struct extract_stats *ret, struct err *e)
{
	struct extract *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return err_nomem(e);
	memset(ret, 0, sizeof(*ret));
	x->in = in;
	x->t.xattrs = &x->xattrs;
	x->flags = flags;
	/* inside the sandbox links lead where they lead in it; on the host they lead nowhere */
	x->resolve = RESOLVE_NO_MAGICLINKS | (flags & EXTRACT_STRICT ? RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS : RESOLVE_IN_ROOT);
	x->limits = limits;
	x->stats = ret;
	x->parent_fd = -1;
	r = place_open(&x->to, dest, flags, &x->above, e);
	if (r == 0)
		r = extract_all(x, e);
	if (r < 0)
		extract_undo(x, e);
	fd_close(&x->to.fd);
	fd_close(&x->parent_fd);
	takeback_release(&x->made);
	takeback_release(&x->above);
	free(x->linkable);
	free(x);
	return r;
}

/* ---- sparse files ---- */

static int read_map_number(struct stream *in, uint64_t *used, uint64_t *ret, struct err *e)
{
	uint64_t v = 0;
	int digits = 0;
	char c;

	for (;;) {
		if (stream_read(in, &c, 1, e) < 0)
			return -1;
		++*used;
		if (c == '\n' && digits)
			break;
		if (c < '0' || c > '9' || ++digits > 18)
			return err_set(e, ERR_CORRUPT, "the map of a sparse file is malformed");
		v = v * 10 + (uint64_t)(c - '0');
	}
	*ret = v;
	return 0;
}

struct piece {
	uint64_t at, len;
};

/*
 * Reads the map, which the caller frees. *ret_data is the sum of the pieces' lengths, *used the
 * bytes of the map.
 */
static struct piece *read_map(struct stream *in, const struct tar_entry *t, uint64_t *ret_count, uint64_t *ret_data, uint64_t *used,
			      struct err *e)
{
	autofree struct piece *map = NULL;
	uint64_t count, end = 0, data = 0, i;

	if (read_map_number(in, used, &count, e) < 0)
		return NULL;
	map = count > PACK_EXTENTS_MAX ? NULL : calloc((size_t)count + 1, sizeof(*map));
	if (!map) {
		if (count > PACK_EXTENTS_MAX)
			err_set(e, ERR_LIMIT, "a sparse file of more than %u pieces", PACK_EXTENTS_MAX);
		else
			err_nomem(e);
		return NULL;
	}
	for (i = 0; i < count; i++) {
		if (read_map_number(in, used, &map[i].at, e) < 0 || read_map_number(in, used, &map[i].len, e) < 0)
			return NULL;
		/* numbers have at most 18 digits, so the sum does not wrap */
		if (map[i].at < end || map[i].at + map[i].len > t->real_size) {
			err_set(e, ERR_CORRUPT, "the map of a sparse file is out of order");
			return NULL;
		}
		end = map[i].at + map[i].len;
		data += map[i].len;
	}
	*ret_count = count;
	*ret_data = data;
	return take_ptr(&map);
}

int sparse_to_file(struct stream *in, int fd, const struct tar_entry *t, const char *path, struct err *e)
{
	uint64_t used = 0, count = 0, data = 0, i;
	autofree struct piece *map = read_map(in, t, &count, &data, &used, e);

	if (!map)
		return -1;
	if (used + tar_padding(used) + data != t->size)
		return err_set(e, ERR_CORRUPT, "the size of a sparse file does not fit its map");
	if (stream_skip(in, tar_padding(used), e) < 0)
		return -1;
	for (i = 0; i < count; i++) {
		if (lseek(fd, (off_t)map[i].at, SEEK_SET) < 0)
			return err_sys(e, "seek in %.300s", path);
		if (stream_to_file(in, fd, map[i].len, e) < 0)
			return -1;
	}
	return ftruncate(fd, (off_t)t->real_size) < 0 ? err_sys(e, "size %.300s", path) : 0;
}
