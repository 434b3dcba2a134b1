/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/sftp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum sftp_type {
	SFTP_INIT = 1, SFTP_VERSION, SFTP_OPEN, SFTP_CLOSE, SFTP_READ, SFTP_WRITE, SFTP_LSTAT, SFTP_FSTAT, SFTP_SETSTAT, SFTP_FSETSTAT,
	SFTP_OPENDIR, SFTP_READDIR, SFTP_REMOVE, SFTP_MKDIR, SFTP_RMDIR, SFTP_REALPATH, SFTP_STAT, SFTP_RENAME, SFTP_READLINK,
	SFTP_SYMLINK,
	SFTP_STATUS = 101, SFTP_HANDLE, SFTP_REPLY_DATA, SFTP_NAME, SFTP_ATTRS,
	SFTP_EXTENDED = 200, SFTP_EXTENDED_REPLY,
};

enum sftp_status { SFTP_OK, SFTP_EOF, SFTP_NO_FILE, SFTP_DENIED, SFTP_FAILURE, SFTP_BAD_MESSAGE, SFTP_UNSUPPORTED = 8 };

#define OPEN_READ 1U
#define OPEN_WRITE 2U
#define OPEN_APPEND 4U
#define OPEN_CREATE 8U
#define OPEN_TRUNCATE 16U
#define OPEN_EXCLUSIVE 32U

#define ATTR_SIZE 1U
#define ATTR_IDS 2U
#define ATTR_MODE 4U
#define ATTR_TIMES 8U
#define ATTR_EXTENDED 0x80000000U

#define NAMES_BATCH 128
#define NAME_ROOM 1024		/* bytes of an entry of a directory in a reply, at most */

struct sftp_attrs {
	uint32_t flags, uid, gid, mode, atime, mtime;
	uint64_t size;
};

struct sftp_handle {
	int fd;			/* -1: free; of a directory: what dir has */
	DIR *dir;
	int append;
};

/* A request: what is left of it.  A read beyond its end sets bad, and gives zeros. */
struct sftp_in {
	const unsigned char *at, *end;
	int bad;
};

static struct sftp_handle handles[SFTP_HANDLES];
static unsigned char in_packet[SFTP_PACKET], out_packet[4 + SFTP_PACKET];
static size_t out_len;

/* ---- packets ---- */

static uint32_t get_u32(struct sftp_in *p)
{
	uint32_t v;

	if (p->end - p->at < 4) {
		p->bad = 1;
		return 0;
	}
	v = (uint32_t)p->at[0] << 24 | (uint32_t)p->at[1] << 16 | (uint32_t)p->at[2] << 8 | p->at[3];
	p->at += 4;
	return v;
}

static uint64_t get_u64(struct sftp_in *p)
{
	const uint64_t high = get_u32(p);

	return high << 32 | get_u32(p);
}

static const unsigned char *get_blob(struct sftp_in *p, uint32_t *ret_n)
{
	const unsigned char *at;

	*ret_n = get_u32(p);
	if (p->bad || (size_t)(p->end - p->at) < *ret_n) {
		p->bad = 1;
		*ret_n = 0;
	}
	at = p->at;
	p->at += *ret_n;
	return at;
}

/* A path, in a buffer of PATH_MAX; "" is ".". */
static void get_name(struct sftp_in *p, char *ret)
{
	uint32_t n;
	const unsigned char *at = get_blob(p, &n);

	ret[0] = '\0';
	if (n >= PATH_MAX || memchr(at, 0, n)) {
		p->bad = 1;
		return;
	}
	memcpy(ret, n ? (const char *)at : ".", n ? n : 1);
	ret[n ? n : 1] = '\0';
}

static void get_attrs(struct sftp_in *p, struct sftp_attrs *ret)
{
	uint32_t n, count;

	*ret = (struct sftp_attrs){ .flags = get_u32(p) };
	if (ret->flags & ATTR_SIZE)
		ret->size = get_u64(p);
	if (ret->flags & ATTR_IDS) {
		ret->uid = get_u32(p);
		ret->gid = get_u32(p);
	}
	if (ret->flags & ATTR_MODE)
		ret->mode = get_u32(p);
	if (ret->flags & ATTR_TIMES) {
		ret->atime = get_u32(p);
		ret->mtime = get_u32(p);
	}
	if (ret->flags & ATTR_EXTENDED)
		for (count = get_u32(p); count && !p->bad; count--) {
			get_blob(p, &n);
			get_blob(p, &n);
		}
}

static void put_u32(uint32_t v)
{
	if (out_len + 4 > sizeof(out_packet))
		return;
	out_packet[out_len++] = (unsigned char)(v >> 24);
	out_packet[out_len++] = (unsigned char)(v >> 16);
	out_packet[out_len++] = (unsigned char)(v >> 8);
	out_packet[out_len++] = (unsigned char)v;
}

static void put_u64(uint64_t v)
{
	put_u32((uint32_t)(v >> 32));
	put_u32((uint32_t)v);
}

static void put_blob(const void *p, size_t n)
{
	if (n > SFTP_PACKET || out_len + 4 + n > sizeof(out_packet))
		n = 0;
	put_u32((uint32_t)n);
	memcpy(out_packet + out_len, p, n);
	out_len += n;
}

static void put_string(const char *s)
{
	put_blob(s, strlen(s));
}

static void put_attrs(const struct stat *st)
{
	put_u32(ATTR_SIZE | ATTR_IDS | ATTR_MODE | ATTR_TIMES);
	put_u64((uint64_t)st->st_size);
	put_u32(st->st_uid);
	put_u32(st->st_gid);
	put_u32(st->st_mode);
	put_u32((uint32_t)st->st_atime);
	put_u32((uint32_t)st->st_mtime);
}

static void begin_reply(enum sftp_type type, uint32_t id)
{
	out_len = 4;
	out_packet[out_len++] = (unsigned char)type;
	put_u32(id);
}

static void reply_status(uint32_t id, enum sftp_status status, const char *text)
{
	begin_reply(SFTP_STATUS, id);
	put_u32(status);
	put_string(text);
	put_string("");
}

static void reply_errno(uint32_t id, int number)
{
	enum sftp_status status = SFTP_FAILURE;

	switch (number) {
	case 0:
		status = SFTP_OK;
		break;
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
	case EBADF:
		status = SFTP_NO_FILE;
		break;
	case EPERM:
	case EACCES:
	case EROFS:
		status = SFTP_DENIED;
		break;
	case ENAMETOOLONG:
		status = SFTP_BAD_MESSAGE;
		break;
	case ENOSYS:
	case EOPNOTSUPP:
		status = SFTP_UNSUPPORTED;
		break;
	default:
		break;
	}
	reply_status(id, status, number ? strerror(number) : "");
}

/* r: of a system call. */
static void reply_result(uint32_t id, int r)
{
	reply_errno(id, r < 0 ? errno : 0);
}

static int send_reply(struct err *e)
{
	const uint32_t n = (uint32_t)(out_len - 4);
	size_t at = 0;
	ssize_t w;

	out_packet[0] = (unsigned char)(n >> 24);
	out_packet[1] = (unsigned char)(n >> 16);
	out_packet[2] = (unsigned char)(n >> 8);
	out_packet[3] = (unsigned char)n;
	while (at < out_len) {
		w = write(1, out_packet + at, out_len - at);
		if (w < 0 && errno != EINTR)
			return err_sys(e, "answer the SFTP client");
		at += w > 0 ? (size_t)w : 0;
	}
	return 0;
}

/* 1; 0: the client has ended between two packets, or in one: nothing can be answered then. */
static int read_all_of(unsigned char *p, size_t n, struct err *e)
{
	ssize_t r;

	while (n) {
		r = read(0, p, n);
		if (r == 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return err_sys(e, "read from the SFTP client");
		p += r > 0 ? r : 0;
		n -= r > 0 ? (size_t)r : 0;
	}
	return 1;
}

/* ---- handles ---- */

static int keep_handle(int fd, DIR *dir, int append)
{
	uint32_t i;

	for (i = 0; i < SFTP_HANDLES; i++)
		if (handles[i].fd < 0) {
			handles[i] = (struct sftp_handle){ fd, dir, append };
			return (int)i;
		}
	errno = EMFILE;
	return -1;
}

static void reply_handle(uint32_t id, int number)
{
	const unsigned char name[4] = { 0, 0, (unsigned char)(number >> 8), (unsigned char)number };

	begin_reply(SFTP_HANDLE, id);
	put_blob(name, sizeof(name));
}

static struct sftp_handle *get_handle(struct sftp_in *p)
{
	uint32_t n, i;
	const unsigned char *at = get_blob(p, &n);

	if (p->bad || n != 4)
		return NULL;
	i = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
	return i < SFTP_HANDLES && handles[i].fd >= 0 ? &handles[i] : NULL;
}

static void sftp_open(uint32_t id, struct sftp_in *p)
{
	char path[PATH_MAX];
	struct sftp_attrs a;
	struct stat st;
	uint32_t how;
	int flags, fd, number;

	get_name(p, path);
	how = get_u32(p);
	get_attrs(p, &a);
	if (p->bad)
		return;
	flags = how & OPEN_WRITE ? (how & OPEN_READ ? O_RDWR : O_WRONLY) : O_RDONLY;
	flags |= (how & OPEN_APPEND ? O_APPEND : 0) | (how & OPEN_CREATE ? O_CREAT : 0) | (how & OPEN_TRUNCATE ? O_TRUNC : 0) |
		 (how & OPEN_EXCLUSIVE ? O_EXCL : 0);
	/* neither a FIFO nor a terminal holds us up */
	fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, a.flags & ATTR_MODE ? a.mode & 07777 : 0666);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		reply_errno(id, fd < 0 ? errno : EINVAL);
		fd_close(&fd);
		return;
	}
	number = keep_handle(fd, NULL, (how & OPEN_APPEND) != 0);
	if (number < 0) {
		close(fd);
		reply_errno(id, EMFILE);
		return;
	}
	reply_handle(id, number);
}

static void sftp_opendir(uint32_t id, struct sftp_in *p)
{
	char path[PATH_MAX];
	DIR *dir;
	int number, fd;

	get_name(p, path);
	if (p->bad)
		return;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	dir = fd >= 0 ? fdopendir(fd) : NULL;
	number = dir ? keep_handle(fd, dir, 0) : -1;
	if (number >= 0) {
		reply_handle(id, number);
		return;
	}
	reply_errno(id, errno);
	if (dir)
		closedir(dir);
	else
		fd_close(&fd);
}

static void sftp_close(uint32_t id, struct sftp_in *p)
{
	struct sftp_handle *h = get_handle(p);
	int r;

	if (!h) {
		reply_errno(id, EBADF);
		return;
	}
	/* what a file system says late, such as a quota, is said here */
	r = h->dir ? closedir(h->dir) : close(h->fd);
	*h = (struct sftp_handle){ .fd = -1 };
	reply_result(id, r);
}

static void sftp_read(uint32_t id, struct sftp_in *p)
{
	struct sftp_handle *h = get_handle(p);
	const uint64_t offset = get_u64(p);
	uint32_t n = get_u32(p);
	ssize_t got;

	if (!h || h->dir || offset > INT64_MAX) {
		reply_errno(id, EBADF);
		return;
	}
	if (n > SFTP_DATA)
		n = SFTP_DATA;
	begin_reply(SFTP_REPLY_DATA, id);
	got = pread(h->fd, out_packet + out_len + 4, n, (off_t)offset);
	if (got <= 0) {
		if (got < 0)
			reply_errno(id, errno);
		else
			reply_status(id, n ? SFTP_EOF : SFTP_OK, "");
		return;
	}
	put_u32((uint32_t)got);
	out_len += (size_t)got;
}

static void sftp_write(uint32_t id, struct sftp_in *p)
{
	struct sftp_handle *h = get_handle(p);
	uint64_t offset = get_u64(p);
	uint32_t n;
	const unsigned char *data = get_blob(p, &n);
	ssize_t w;

	if (p->bad)
		return;
	if (!h || h->dir || offset > INT64_MAX) {
		reply_errno(id, EBADF);
		return;
	}
	while (n) {
		w = h->append ? write(h->fd, data, n) : pwrite(h->fd, data, n, (off_t)offset);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0) {
			reply_errno(id, w < 0 ? errno : ENOSPC);
			return;
		}
		data += w;
		offset += (uint64_t)w;
		n -= (uint32_t)w;
	}
	reply_errno(id, 0);
}

/* ---- names ---- */

/* As ls -l, with numbers for owners. */
static void put_long_name(const struct stat *st, const char *name)
{
	static const char kinds[] = "?pc?d?b?-?l?s???";
	char line[NAME_MAX + 200], mode[11] = "?rwxrwxrwx", when[32];
	const time_t t = st->st_mtime;
	struct tm tm = { 0 };
	int i, n;

	mode[0] = kinds[st->st_mode >> 12 & 15];
	for (i = 0; i < 9; i++)
		if (!(st->st_mode & (0400U >> i)))
			mode[1 + i] = '-';
	for (i = 0; i < 3; i++)
		if (st->st_mode & (04000U >> i))
			mode[3 * i + 3] = mode[3 * i + 3] == '-' ? (i == 2 ? 'T' : 'S') : i == 2 ? 't' : 's';
	gmtime_r(&t, &tm);
	strftime(when, sizeof(when), time(NULL) - t < 183 * 86400 ? "%b %e %H:%M" : "%b %e  %Y", &tm);
	n = snprintf(line, sizeof(line), "%s %3lu %-8u %-8u %8llu %s %s", mode, (unsigned long)st->st_nlink, st->st_uid, st->st_gid,
		     (unsigned long long)st->st_size, when, name);
	put_blob(line, n > 0 && (size_t)n < sizeof(line) ? (size_t)n : 0);
}

static void sftp_readdir(uint32_t id, struct sftp_in *p)
{
	struct sftp_handle *h = get_handle(p);
	const struct dirent *d;
	struct stat st;
	uint32_t count = 0;
	size_t count_at;

	if (!h || !h->dir) {
		reply_errno(id, EBADF);
		return;
	}
	begin_reply(SFTP_NAME, id);
	count_at = out_len;
	put_u32(0);
	while (count < NAMES_BATCH && out_len + NAME_ROOM < sizeof(out_packet) && (errno = 0, d = readdir(h->dir))) {
		if (fstatat(h->fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;	/* it is gone */
		put_string(d->d_name);
		put_long_name(&st, d->d_name);
		put_attrs(&st);
		count++;
	}
	if (!count) {
		if (errno)
			reply_errno(id, errno);
		else
			reply_status(id, SFTP_EOF, "");
		return;
	}
	out_packet[count_at + 3] = (unsigned char)count;
}

static void reply_name(uint32_t id, const char *name)
{
	const struct stat none = { 0 };

	begin_reply(SFTP_NAME, id);
	put_u32(1);
	put_string(name);
	put_string(name);
	put_attrs(&none);
}

/* The last component may be missing, as OpenSSH's server has it. */
static void sftp_realpath(uint32_t id, struct sftp_in *p)
{
	char path[PATH_MAX], real[PATH_MAX + NAME_MAX + 2], *slash;
	size_t n;

	get_name(p, path);
	if (p->bad)
		return;
	if (realpath(path, real)) {
		reply_name(id, real);
		return;
	}
	for (n = strlen(path); n > 1 && path[n - 1] == '/';)
		path[--n] = '\0';
	slash = strrchr(path, '/');
	if (errno != ENOENT || strlen(slash ? slash + 1 : path) > NAME_MAX) {
		reply_errno(id, errno);
		return;
	}
	if (slash)
		*slash = '\0';
	if (!realpath(!slash ? "." : path[0] ? path : "/", real)) {
		reply_errno(id, errno);
		return;
	}
	n = strlen(real);
	snprintf(real + n, sizeof(real) - n, "%s%s", real[1] ? "/" : "", slash ? slash + 1 : path);
	reply_name(id, real);
}

static void sftp_readlink(uint32_t id, struct sftp_in *p)
{
	char path[PATH_MAX], link[PATH_MAX];
	ssize_t n;

	get_name(p, path);
	if (p->bad)
		return;
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0) {
		reply_errno(id, errno);
		return;
	}
	link[n] = '\0';
	reply_name(id, link);
}

/* Never over what is there; posix-rename does that. */
static int rename_new(const char *from, const char *to)
{
	struct stat st;

	if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 1 /* RENAME_NOREPLACE */) == 0)
		return 0;
	if (errno != ENOSYS && errno != EINVAL)
		return -1;
	if (lstat(to, &st) == 0) {
		errno = EEXIST;
		return -1;
	}
	return rename(from, to);
}

/* ---- attributes ---- */

/* Of a path, or with path NULL of fd; nofollow: of a link itself. */
static int set_attrs(const char *path, int fd, const struct sftp_attrs *a, int nofollow)
{
	const struct timespec times[2] = { { .tv_sec = a->atime }, { .tv_sec = a->mtime } };
	const int flag = nofollow ? AT_SYMLINK_NOFOLLOW : 0;

	if (a->flags & ATTR_SIZE && (nofollow || (path ? truncate(path, (off_t)a->size) : ftruncate(fd, (off_t)a->size)) < 0))
		return nofollow ? (errno = EINVAL, -1) : -1;
	if (a->flags & ATTR_IDS && (path ? fchownat(AT_FDCWD, path, a->uid, a->gid, flag) : fchown(fd, a->uid, a->gid)) < 0)
		return -1;
	/* after the owner, whose change takes the set-id bits away */
	if (a->flags & ATTR_MODE && (path ? fchmodat(AT_FDCWD, path, a->mode & 07777, flag) : fchmod(fd, a->mode & 07777)) < 0)
		return -1;
	if (a->flags & ATTR_TIMES && (path ? utimensat(AT_FDCWD, path, times, flag) : futimens(fd, times)) < 0)
		return -1;
	return 0;
}

static void sftp_setstat(uint32_t id, struct sftp_in *p, int nofollow)
{
	char path[PATH_MAX];
	struct sftp_attrs a;

	get_name(p, path);
	get_attrs(p, &a);
	if (!p->bad)
		reply_result(id, set_attrs(path, -1, &a, nofollow));
}

static void sftp_fsetstat(uint32_t id, struct sftp_in *p)
{
	struct sftp_handle *h = get_handle(p);
	struct sftp_attrs a;

	get_attrs(p, &a);
	if (!h)
		reply_errno(id, EBADF);
	else if (!p->bad)
		reply_result(id, set_attrs(NULL, h->fd, &a, 0));
}

static void reply_stat(uint32_t id, int r, const struct stat *st)
{
	if (r < 0) {
		reply_errno(id, errno);
		return;
	}
	begin_reply(SFTP_ATTRS, id);
	put_attrs(st);
}

/* ---- one path, two paths ---- */

static void sftp_stat(uint32_t id, struct sftp_in *p, int follow)
{
	char path[PATH_MAX];
	struct stat st = { 0 };

	get_name(p, path);
	if (!p->bad)
		reply_stat(id, follow ? stat(path, &st) : lstat(path, &st), &st);
}

static void sftp_fstat(uint32_t id, struct sftp_in *p)
{
	struct sftp_handle *h = get_handle(p);
	struct stat st = { 0 };

	if (!h)
		reply_errno(id, EBADF);
	else
		reply_stat(id, fstat(h->fd, &st), &st);
}

static void sftp_mkdir(uint32_t id, struct sftp_in *p)
{
	char path[PATH_MAX];
	struct sftp_attrs a;

	get_name(p, path);
	get_attrs(p, &a);
	if (!p->bad)
		reply_result(id, mkdir(path, a.flags & ATTR_MODE ? a.mode & 07777 : 0777));
}

static void sftp_remove(uint32_t id, struct sftp_in *p, int is_dir)
{
	char path[PATH_MAX];

	get_name(p, path);
	if (!p->bad)
		reply_result(id, is_dir ? rmdir(path) : unlink(path));
}

static void sftp_two(uint32_t id, struct sftp_in *p, int (*run)(const char *a, const char *b))
{
	char one[PATH_MAX], two[PATH_MAX];

	get_name(p, one);
	get_name(p, two);
	if (!p->bad)
		reply_result(id, run(one, two));
}

/* ---- what OpenSSH adds ---- */

static void reply_statvfs(uint32_t id, int r, const struct statvfs *s)
{
	if (r < 0) {
		reply_errno(id, errno);
		return;
	}
	begin_reply(SFTP_EXTENDED_REPLY, id);
	put_u64(s->f_bsize);
	put_u64(s->f_frsize);
	put_u64(s->f_blocks);
	put_u64(s->f_bfree);
	put_u64(s->f_bavail);
	put_u64(s->f_files);
	put_u64(s->f_ffree);
	put_u64(s->f_favail);
	put_u64(0);
	put_u64((s->f_flag & ST_RDONLY ? 1 : 0) | (s->f_flag & ST_NOSUID ? 2 : 0));
	put_u64(s->f_namemax);
}

static void sftp_statvfs(uint32_t id, struct sftp_in *p)
{
	char path[PATH_MAX];
	struct statvfs s;

	get_name(p, path);
	if (!p->bad)
		reply_statvfs(id, statvfs(path, &s), &s);
}

static void sftp_fstatvfs(uint32_t id, struct sftp_in *p)
{
	struct sftp_handle *h = get_handle(p);
	struct statvfs s;

	if (!h)
		reply_errno(id, EBADF);
	else
		reply_statvfs(id, fstatvfs(h->fd, &s), &s);
}

static void sftp_fsync(uint32_t id, struct sftp_in *p)
{
	struct sftp_handle *h = get_handle(p);

	if (!h)
		reply_errno(id, EBADF);
	else
		reply_result(id, fsync(h->fd));
}

static void sftp_limits(uint32_t id)
{
	begin_reply(SFTP_EXTENDED_REPLY, id);
	put_u64(SFTP_PACKET);
	put_u64(SFTP_DATA);
	put_u64(SFTP_DATA);
	put_u64(SFTP_HANDLES);
}

static const struct sftp_extension {
	const char *name, *version;
} extensions[] = {
	{ "posix-rename@openssh.com", "1" }, { "hardlink@openssh.com", "1" }, { "fsync@openssh.com", "1" },
	{ "lsetstat@openssh.com", "1" }, { "statvfs@openssh.com", "2" }, { "fstatvfs@openssh.com", "2" }, { "limits@openssh.com", "1" },
};

static void sftp_extended(uint32_t id, struct sftp_in *p)
{
	uint32_t n;
	const unsigned char *at = get_blob(p, &n);
	size_t i;

	for (i = 0; i < ARRAY_LEN(extensions); i++)
		if (strlen(extensions[i].name) == n && !memcmp(extensions[i].name, at, n))
			break;
	switch (i) {
	case 0:
		sftp_two(id, p, rename);
		break;
	case 1:
		sftp_two(id, p, link);
		break;
	case 2:
		sftp_fsync(id, p);
		break;
	case 3:
		sftp_setstat(id, p, 1);
		break;
	case 4:
		sftp_statvfs(id, p);
		break;
	case 5:
		sftp_fstatvfs(id, p);
		break;
	case 6:
		sftp_limits(id);
		break;
	default:
		if (!p->bad)
			reply_status(id, SFTP_UNSUPPORTED, "unknown extension");
	}
}

/* ---- requests ---- */

static void greet(void)
{
	size_t i;

	/* the version is where other replies have their id */
	begin_reply(SFTP_VERSION, 3);
	for (i = 0; i < ARRAY_LEN(extensions); i++) {
		put_string(extensions[i].name);
		put_string(extensions[i].version);
	}
}

static void serve_request(unsigned type, uint32_t id, struct sftp_in *p)
{
	switch (type) {
	case SFTP_OPEN:
		sftp_open(id, p);
		break;
	case SFTP_CLOSE:
		sftp_close(id, p);
		break;
	case SFTP_READ:
		sftp_read(id, p);
		break;
	case SFTP_WRITE:
		sftp_write(id, p);
		break;
	case SFTP_LSTAT:
	case SFTP_STAT:
		sftp_stat(id, p, type == SFTP_STAT);
		break;
	case SFTP_FSTAT:
		sftp_fstat(id, p);
		break;
	case SFTP_SETSTAT:
		sftp_setstat(id, p, 0);
		break;
	case SFTP_FSETSTAT:
		sftp_fsetstat(id, p);
		break;
	case SFTP_OPENDIR:
		sftp_opendir(id, p);
		break;
	case SFTP_READDIR:
		sftp_readdir(id, p);
		break;
	case SFTP_REMOVE:
	case SFTP_RMDIR:
		sftp_remove(id, p, type == SFTP_RMDIR);
		break;
	case SFTP_MKDIR:
		sftp_mkdir(id, p);
		break;
	case SFTP_REALPATH:
		sftp_realpath(id, p);
		break;
	case SFTP_RENAME:
		sftp_two(id, p, rename_new);
		break;
	case SFTP_READLINK:
		sftp_readlink(id, p);
		break;
	case SFTP_SYMLINK:
		/* the target first, as OpenSSH has it */
		sftp_two(id, p, symlink);
		break;
	case SFTP_EXTENDED:
		sftp_extended(id, p);
		break;
	default:
		reply_status(id, SFTP_UNSUPPORTED, "unknown request");
	}
	if (p->bad)
		reply_status(id, SFTP_BAD_MESSAGE, "malformed request");
}

int sftp_serve(char **a, struct err *e)
{
	unsigned char head[4];
	struct sftp_in p = { 0 };
	uint32_t i, n, greeted = 0;
	int r;

	(void)a;
	for (i = 0; i < SFTP_HANDLES; i++)
		handles[i].fd = -1;
	while ((r = read_all_of(head, sizeof(head), e)) > 0) {
		p = (struct sftp_in){ head, head + sizeof(head), 0 };
		n = get_u32(&p);
		if (n < 5 || n > sizeof(in_packet))
			return err_set(e, ERR_CORRUPT, "SFTP: a packet of %u bytes", n);
		r = read_all_of(in_packet, n, e);
		if (r <= 0)
			break;
		p = (struct sftp_in){ in_packet + 1, in_packet + n, 0 };
		i = get_u32(&p);
		if (in_packet[0] == SFTP_INIT)
			greet();
		else if (!greeted)
			return err_set(e, ERR_CORRUPT, "SFTP: a request before the version");
		else
			serve_request(in_packet[0], i, &p);
		greeted = 1;
		if (send_reply(e) < 0)
			return -1;
	}
	return r < 0 ? -1 : 0;
}
