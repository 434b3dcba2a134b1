/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/layer/tarstream.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "rootfs/layer/layer.h"

/* ---- the parts of a sparse file ---- */

/* The parts of a sparse file that hold data. */

#define SEGMENTS_MAX 4096 /* a file with more is written whole */

struct segment {
	uint64_t off, len;
};

/*
 * Lists the parts of a file of size bytes, and an empty part at its end, in segs, which has room
 * for SEGMENTS_MAX + 1. Returns how many, or 0 if the file is better written whole.
 */
static size_t segments_find(int fd, uint64_t size, struct segment *segs)
{
	uint64_t at = 0;
	size_t n = 0;

	while (at < size) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

		if (data < 0)
			break;	/* ENXIO: a hole up to the end */
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole <= data || n == SEGMENTS_MAX)
			return 0;
		if ((uint64_t)data >= size)
			break;
		segs[n].off = (uint64_t)data;
		segs[n].len = ((uint64_t)hole > size ? size : (uint64_t)hole) - (uint64_t)data;
		at = (uint64_t)hole;
		n++;
	}
	if (n && !segs[0].off && segs[0].len == size)
		return 0;
	/* the map ends with the file's size */
	segs[n].off = size;
	segs[n].len = 0;
	return n + 1;
}

/* ---- the writer ---- */

#define CHUNK (256u << 10)
#define BLOCK 512
#define PAX_MAX (1u << 20)

struct header {			/* POSIX.1-1988 ustar */
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, linkname[100];
	char magic[6], version[2], uname[32], gname[32], devmajor[8], devminor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a tar header is one block");

struct link_seen {
	dev_t dev;
	ino_t ino;
	char path[];
};

/* ---- bytes ---- */

static int put_tar_bytes(struct tarstream *t, const void *p, size_t n, struct err *e)
{
	t->bytes += n;
	if (t->max_bytes && t->bytes > t->max_bytes) {
		err_set(e, ERR_LIMIT, "the files take more than the %llu bytes that a layer may have, the size of its disk and 1 GiB",
			(unsigned long long)t->max_bytes);
		return err_hint(e, "remove some of them in the sandbox");
	}
	return compress_put(&t->out, p, n, 0, e);
}

/* Refuses a file larger than any reader of a layer takes, even if it is all holes. */
static int check_tar_file_size(const struct tarstream *t, const struct stat *st, struct err *e)
{
	if (!t->max_bytes || (uint64_t)st->st_size <= t->max_bytes)
		return 0;
	err_set(e, ERR_LIMIT, "'%.200s' is %llu bytes long, more than the %llu that a layer may have, the size of its disk and 1 GiB",
		t->path, (unsigned long long)st->st_size, (unsigned long long)t->max_bytes);
	return err_hint(e, "shorten or remove it in the sandbox");
}

static int put_zeros(struct tarstream *t, uint64_t n, struct err *e)
{
	static const unsigned char zeros[4096];

	while (n) {
		size_t part = n < sizeof(zeros) ? (size_t)n : sizeof(zeros);

		if (put_tar_bytes(t, zeros, part, e) < 0)
			return -1;
		n -= part;
	}
	return 0;
}

static int put_tar_padding(struct tarstream *t, uint64_t n, struct err *e)
{
	return put_zeros(t, (BLOCK - n % BLOCK) % BLOCK, e);
}

/* ---- headers ---- */

static void put_octal(char *field, size_t size, uint64_t v)
{
	size_t i;

	for (i = size - 1; i > 0; i--, v >>= 3)
		field[i - 1] = (char)('0' + (v & 7));
	field[size - 1] = '\0';
}

/* Maps the host's ids of a sandbox's files back to the image's. */
static void map_tar_owner(const struct tarstream *t, struct stat *st)
{
	if (st->st_uid >= t->id_base && st->st_uid - t->id_base < t->id_count)
		st->st_uid -= t->id_base;
	if (st->st_gid >= t->id_base && st->st_gid - t->id_base < t->id_count)
		st->st_gid -= t->id_base;
}

static int put_tar_header(struct tarstream *t, const char *name, char type, const struct stat *st,
			  uint64_t size, const char *link, struct err *e)
{
	struct header h;
	unsigned int sum = 0;
	size_t i;

	memset(&h, 0, sizeof(h));
	memcpy(h.name, name, strnlen(name, sizeof(h.name)));
	put_octal(h.mode, sizeof(h.mode), st->st_mode & 07777);
	put_octal(h.uid, sizeof(h.uid), st->st_uid);
	put_octal(h.gid, sizeof(h.gid), st->st_gid);
	put_octal(h.size, sizeof(h.size), size);
	put_octal(h.mtime, sizeof(h.mtime), st->st_mtim.tv_sec < 0 ? 0 : (uint64_t)st->st_mtim.tv_sec);
	h.type = type;
	memcpy(h.linkname, link, strnlen(link, sizeof(h.linkname)));
	memcpy(h.magic, "ustar", 6);
	memcpy(h.version, "00", 2);
	memset(h.checksum, ' ', sizeof(h.checksum));
	for (i = 0; i < sizeof(h); i++)
		sum += ((unsigned char *)&h)[i];
	put_octal(h.checksum, 7, sum);
	return put_tar_bytes(t, &h, sizeof(h), e);
}

/* Adds "LENGTH KEY=VALUE\n", where LENGTH counts itself. */
static int pax_add(struct buf *b, const char *key, const void *value, size_t n, struct err *e)
{
	size_t body = strlen(key) + n + 3, total = body + 1, digits;
	char len[24];

	do {
		digits = (size_t)snprintf(len, sizeof(len), "%zu", total);
		total = body + digits;
	} while ((size_t)snprintf(len, sizeof(len), "%zu", total) != digits);
	if (buf_addf(b, e, "%zu %s=", total, key) < 0 || buf_add(b, value, n, e) < 0)
		return -1;
	return buf_adds(b, "\n", e);
}

static int pax_addf(struct buf *b, const char *key, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static int pax_addf(struct buf *b, const char *key, struct err *e, const char *fmt, ...)
{
	char value[64];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	return pax_add(b, key, value, (size_t)n, e);
}

static int pax_xattrs(struct tarstream *t, int fd, struct buf *b, struct err *e)
{
	autofree char *names = NULL, *value = NULL;
	char key[300];
	ssize_t n = flistxattr(fd, NULL, 0), len;
	const char *p;

	if (n <= 0)
		return 0;
	names = malloc((size_t)n + 1);
	value = malloc(65536);
	if (!names || !value)
		return err_nomem(e);
	n = flistxattr(fd, names, (size_t)n);
	if (n < 0)
		return err_sys(e, "list attributes of '%.200s'", t->path);
	names[n] = '\0';
	for (p = names; p < names + n; p += strlen(p) + 1) {
		if (strncmp(p, "user.", 5) || !strncmp(p, "user.overlay.", 13))
			continue;
		len = fgetxattr(fd, p, value, 65536);
		if (len < 0)
			continue;
		snprintf(key, sizeof(key), "SCHILY.xattr.%s", p);
		if (pax_add(b, key, value, (size_t)len, e) < 0)
			return err_wrap(e, "attributes of '%.200s'", t->path);
	}
	return 0;
}

/* Writes an entry. Values that ustar cannot hold come first, in a header of their own. */
static int put_tar_entry(struct tarstream *t, const struct stat *st, char type, uint64_t size, const char *link,
			 struct buf *pax, const char *alias, struct err *e)
{
	struct stat plain = *st;

	if (++t->entries > LAYER_ENTRIES_MAX)
		return err_set(e, ERR_LIMIT, "the directory has more than %llu entries", LAYER_ENTRIES_MAX);
	if (!alias && strlen(t->path) > 100 && pax_add(pax, "path", t->path, strlen(t->path), e) < 0)
		return -1;
	if (strlen(link) > 100 && pax_add(pax, "linkpath", link, strlen(link), e) < 0)
		return -1;
	if (size >= 1ull << 33 && pax_addf(pax, "size", e, "%llu", (unsigned long long)size) < 0)
		return -1;
	/* more than seven octal digits; the reader clamps them */
	if (st->st_uid > 07777777 && pax_addf(pax, "uid", e, "%u", st->st_uid) < 0)
		return -1;
	if (st->st_gid > 07777777 && pax_addf(pax, "gid", e, "%u", st->st_gid) < 0)
		return -1;
	if (st->st_mtim.tv_sec >= 0 && st->st_mtim.tv_nsec &&
	    pax_addf(pax, "mtime", e, "%lld.%09ld", (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec) < 0)
		return -1;
	if (pax->len) {
		plain.st_mode = 0644;
		plain.st_uid = plain.st_gid = 0;
		if (put_tar_header(t, "PaxHeader", 'x', &plain, pax->len, "", e) < 0 ||
		    put_tar_bytes(t, pax->data, pax->len, e) < 0 || put_tar_padding(t, pax->len, e) < 0)
			return -1;
	}
	return put_tar_header(t, alias ? alias : t->path, type, st, size, link, e);
}

/* ---- files ---- */

static int copy_range(struct tarstream *t, int fd, uint64_t off, uint64_t len, struct err *e)
{
	while (len) {
		ssize_t r = pread(fd, t->chunk, len < CHUNK ? (size_t)len : CHUNK, (off_t)off);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "read '%.200s'", t->path);
		if (!r)		/* the file shrank: the announced size must still be written */
			return put_zeros(t, len, e);
		if (put_tar_bytes(t, t->chunk, (size_t)r, e) < 0)
			return -1;
		off += (uint64_t)r;
		len -= (uint64_t)r;
	}
	return 0;
}

/* Writes a sparse file in GNU tar's "PAX format, version 1.0": the map stands before the data. */
static int put_sparse(struct tarstream *t, int fd, const struct stat *st, const struct segment *segs, size_t n,
		      struct buf *pax, struct err *e)
{
	autobuf struct buf map = BUF_INIT(PAX_MAX);
	uint64_t data = 0, head;
	size_t i;

	if (buf_addf(&map, e, "%zu\n", n) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		data += segs[i].len;
		if (buf_addf(&map, e, "%llu\n%llu\n", (unsigned long long)segs[i].off,
			     (unsigned long long)segs[i].len) < 0)
			return -1;
	}
	head = (map.len + BLOCK - 1) / BLOCK * BLOCK;
	if (pax_addf(pax, "GNU.sparse.major", e, "1") < 0 || pax_addf(pax, "GNU.sparse.minor", e, "0") < 0 ||
	    pax_add(pax, "GNU.sparse.name", t->path, strlen(t->path), e) < 0 ||
	    pax_addf(pax, "GNU.sparse.realsize", e, "%llu", (unsigned long long)st->st_size) < 0 ||
	    put_tar_entry(t, st, '0', head + data, "", pax, "GNUSparseFile", e) < 0 ||
	    put_tar_bytes(t, map.data, map.len, e) < 0 || put_tar_padding(t, map.len, e) < 0)
		return -1;
	for (i = 0; i < n; i++)
		if (copy_range(t, fd, segs[i].off, segs[i].len, e) < 0)
			return -1;
	return put_tar_padding(t, data, e);
}

static int compare_links(const void *a, const void *b)
{
	const struct link_seen *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* Finds the path under which the file was written before; NULL if it is new (it is remembered now). */
static int find_seen_link(struct tarstream *t, const struct stat *st, const char **ret, struct err *e)
{
	struct link_seen *l = malloc(sizeof(*l) + strlen(t->path) + 1);
	struct link_seen **have;

	*ret = NULL;
	if (!l)
		return err_nomem(e);
	l->dev = st->st_dev;
	l->ino = st->st_ino;
	strcpy(l->path, t->path);
	have = tsearch(l, &t->links, compare_links);
	if (have && *have == l)
		return 0;
	free(l);
	if (!have)
		return err_nomem(e);
	*ret = (*have)->path;
	return 0;
}

int tarstream_file(struct tarstream *t, int dir_fd, const char *name, struct err *e)
{
	autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	autofree struct segment *segs = NULL;
	autobuf struct buf pax = BUF_INIT(PAX_MAX);
	const char *first = NULL;
	struct stat st;
	size_t n = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT || errno == ELOOP ? 0 : err_sys(e, "open '%.200s'", t->path);
	if (!S_ISREG(st.st_mode))
		return 0;	/* replaced since we looked */
	map_tar_owner(t, &st);
	if (st.st_nlink > 1 && find_seen_link(t, &st, &first, e) < 0)
		return -1;
	if (first)
		return put_tar_entry(t, &st, '1', 0, first, &pax, NULL, e);
	if (check_tar_file_size(t, &st, e) < 0 || pax_xattrs(t, fd, &pax, e) < 0)
		return -1;
	if (st.st_size > 65536 && (uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size) {
		segs = malloc((SEGMENTS_MAX + 1) * sizeof(*segs));
		if (!segs)
			return err_nomem(e);
		n = segments_find(fd, (uint64_t)st.st_size, segs);
	}
	if (n)
		return put_sparse(t, fd, &st, segs, n, &pax, e);
	if (put_tar_entry(t, &st, '0', (uint64_t)st.st_size, "", &pax, NULL, e) < 0 ||
	    copy_range(t, fd, 0, (uint64_t)st.st_size, e) < 0)
		return -1;
	return put_tar_padding(t, (uint64_t)st.st_size, e);
}

int tarstream_link(struct tarstream *t, int dir_fd, const char *name, const struct stat *as_found, struct err *e)
{
	autobuf struct buf pax = BUF_INIT(PAX_MAX);
	char target[TREE_PATH_MAX + 1];
	struct stat own = *as_found, *st = &own;
	const char *first = NULL;
	ssize_t n;

	map_tar_owner(t, &own);
	if (st->st_nlink > 1 && find_seen_link(t, st, &first, e) < 0)
		return -1;
	if (first)
		return put_tar_entry(t, st, '1', 0, first, &pax, NULL, e);
	n = readlinkat(dir_fd, name, target, TREE_PATH_MAX);
	if (n < 0)
		return errno == ENOENT || errno == EINVAL ? 0 : err_sys(e, "read link '%.200s'", t->path);
	target[n] = '\0';
	return put_tar_entry(t, st, '2', 0, target, &pax, NULL, e);
}

int tarstream_fifo(struct tarstream *t, const struct stat *as_found, struct err *e)
{
	autobuf struct buf pax = BUF_INIT(PAX_MAX);
	struct stat st = *as_found;
	const char *first = NULL;

	if (st.st_nlink > 1 && find_seen_link(t, &st, &first, e) < 0)
		return -1;
	map_tar_owner(t, &st);
	return put_tar_entry(t, &st, first ? '1' : '6', 0, first ? first : "", &pax, NULL, e);
}

int tarstream_dir(struct tarstream *t, int fd, struct stat *ret_st, struct err *e)
{
	autobuf struct buf pax = BUF_INIT(PAX_MAX);
	size_t len = strlen(t->path);
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at '%.200s'", t->path);
	if (ret_st)
		*ret_st = st;
	if (pax_xattrs(t, fd, &pax, e) < 0)
		return -1;
	map_tar_owner(t, &st);
	if (!len)
		strcpy(t->path, "./");
	r = put_tar_entry(t, &st, '5', 0, "", &pax, NULL, e);
	t->path[len] = '\0';
	return r;
}

/* ---- entries that are no files of a tree ---- */

int tarstream_bytes(struct tarstream *t, const char *name, mode_t mode, const void *p, size_t n, struct err *e)
{
	autobuf struct buf pax = BUF_INIT(PAX_MAX);
	struct stat st = { .st_mode = mode };

	snprintf(t->path, sizeof(t->path), "%s", name);
	if (S_ISDIR(mode))
		return put_tar_entry(t, &st, '5', 0, "", &pax, NULL, e);
	if (put_tar_entry(t, &st, '0', n, "", &pax, NULL, e) < 0 || put_tar_bytes(t, p, n, e) < 0)
		return -1;
	return put_tar_padding(t, n, e);
}

int tarstream_begin_file(struct tarstream *t, const char *name, uint64_t size, time_t when, struct err *e)
{
	autobuf struct buf pax = BUF_INIT(PAX_MAX);
	struct stat st = { .st_mode = 0644, .st_mtim.tv_sec = when };

	snprintf(t->path, sizeof(t->path), "%s", name);
	t->left = size;
	t->padding = size;
	return put_tar_entry(t, &st, '0', size, "", &pax, NULL, e);
}

int tarstream_add(struct tarstream *t, const void *p, size_t n, struct err *e)
{
	if (n > t->left)
		return err_set(e, ERR_CORRUPT, "'%.200s' is larger than it was announced", t->path);
	t->left -= n;
	if (put_tar_bytes(t, p, n, e) < 0)
		return -1;
	return t->left ? 0 : put_tar_padding(t, t->padding, e);
}

/* ---- the stream ---- */

int tarstream_open(struct tarstream *t, int out_fd, enum compression compression, struct err *e)
{
	memset(t, 0, sizeof(*t));
	if (compress_open(&t->out, out_fd, compression, e) < 0)
		return -1;
	t->chunk = malloc(CHUNK);
	return t->chunk ? 0 : err_nomem(e);
}

int tarstream_raw(struct tarstream *t, const void *p, size_t n, struct err *e)
{
	return put_tar_bytes(t, p, n, e);
}

int tarstream_flush(struct tarstream *t, struct err *e)
{
	return compress_put(&t->out, NULL, 0, 1, e);
}

int tarstream_close(struct tarstream *t, struct err *e)
{
	if (put_zeros(t, 2ull * BLOCK, e) < 0)
		return -1;
	return tarstream_flush(t, e);
}

void tarstream_release(struct tarstream *t)
{
	tdestroy(t->links, free);
	compress_release(&t->out);
	free(t->chunk);
	memset(t, 0, sizeof(*t));
}
