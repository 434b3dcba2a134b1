/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/hex.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/treelist.h"
#include "manager/fileclient.h"

#define PATH_BYTES_MAX 900
#define ENTRIES_MAX 1000000
#define ENTRY_PATH_MAX 4000
#define LINK_MAX_BYTES 4095
#define CHUNKS_MAX (2u << 20)	/* 16 TiB, holes included */
#define MANIFEST_VERSION 3	/* 1 has no upload in the names of its pieces, and no root; 2 no names in hexadecimal */
#define MANIFEST_REST 4096	/* bytes of a manifest beside its entries */
#define IDS 65536		/* of a sandbox */
#define TEMP_PREFIX ".berth-part-"

int storage_open(struct storage **ret, const struct conf *c, struct err *e)
{
	if (!strncmp(c->storage_url, "file:/", 6))
		return storage_local_open(ret, c, e);
	if (!strncmp(c->storage_url, "s3://", 5))
		return storage_s3_open(ret, c, e);
	return err_set(e, ERR_CONFIG, "storage.url '%.100s' is unknown; hint: file:/DIR or s3://BUCKET/PREFIX", c->storage_url);
}

void storage_close(struct storage *st)
{
	if (st)
		st->ops->close(st);
}

const char *storage_name(const struct storage *st)
{
	return st->ops->name;
}

/* Plain names joined by '/': nothing that a shell, a URL or a file system reads in another way. */
int storage_check_path(const char *path, struct err *e)
{
	const char *p = path;

	if (!path[0] || strlen(path) > PATH_BYTES_MAX)
		return err_set(e, ERR_INVALID, "a storage path has 1 to %d bytes", PATH_BYTES_MAX);
	while (*p) {
		size_t n = strcspn(p, "/");

		if (!n || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.') || !strncmp(p, TEMP_PREFIX, strlen(TEMP_PREFIX)) ||
		    strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+=@") < n)
			return err_set(e, ERR_INVALID, "'%.100s' is no storage path; hint: names of letters, digits and ._-+=@, joined by /", path);
		p += n;
		if (*p == '/' && !*++p)
			return err_set(e, ERR_INVALID, "the storage path ends with /");
	}
	return 0;
}

static int sha256(const void *p, size_t n, char out[65], struct err *e)
{
	unsigned char d[32];
	unsigned len = 0;

	if (!EVP_Digest(p, n, d, &len, EVP_sha256(), NULL))
		return err_set(e, ERR_INTERNAL, "hash %zu bytes", n);
	hex_format(out, d, 32);
	return 0;
}

int storage_put(struct storage *st, const char *key, const void *data, size_t n, struct err *e)
{
	char hex[65];

	return storage_check_path(key, e) < 0 || sha256(data, n, hex, e) < 0 ? -1 : st->ops->put(st, key, data, n, hex, e);
}

int storage_get(struct storage *st, const char *key, struct buf *out, struct err *e)
{
	return storage_check_path(key, e) < 0 ? -1 : st->ops->get(st, key, out, e);
}

int storage_head(struct storage *st, const char *key, uint64_t *ret_size, struct err *e)
{
	return storage_check_path(key, e) < 0 ? -1 : st->ops->head(st, key, ret_size, e);
}

int storage_delete(struct storage *st, const char *key, struct err *e)
{
	return storage_check_path(key, e) < 0 ? -1 : st->ops->del(st, key, e);
}

int storage_each(struct storage *st, const char *prefix, int (*each)(void *ctx, const char *key, struct err *e), void *ctx, struct err *e)
{
	return storage_check_path(prefix, e) < 0 ? -1 : st->ops->each(st, prefix, each, ctx, e);
}

/* ---- a folder goes up ---- */

/* What a manifest has room for. */
struct counts {
	size_t entries;
	uint64_t text_bytes;	/* of the entries, in the manifest */
	uint64_t chunks;
	int version;		/* the lowest that can say it, for older berthds */
};

struct upload {
	struct storage *st;
	const char *path;
	struct storage_use use;
	struct counts counts;
	struct buf text;	/* of the manifest so far: as json_t its entries would be ten times as much */
	json_t *known;		/* object: the pieces by their hashes, as the manifest before names them */
	json_t *pieces;		/* object: and as this one does */
	char *buf, *packed;
	struct storage_stats *stats;
};

static void piece_key(const char *path, const char *piece, char out[PATH_BYTES_MAX + STORAGE_PIECE_MAX + 20])
{
	snprintf(out, PATH_BYTES_MAX + STORAGE_PIECE_MAX + 20, "%s/chunks/%s", path, piece);
}

static int send_piece(struct upload *u, const char *data, size_t n, const char *piece, struct err *e)
{
	char key[PATH_BYTES_MAX + STORAGE_PIECE_MAX + 20];
	size_t size = ZSTD_compress(u->packed, ZSTD_compressBound(STORAGE_CHUNK), data, n, 1);

	if (ZSTD_isError(size))
		return err_set(e, ERR_INTERNAL, "compress: %s", ZSTD_getErrorName(size));
	piece_key(u->path, piece, key);
	if (storage_put(u->st, key, u->packed, size, e) < 0)
		return -1;
	u->stats->sent++;
	return 0;
}

/* Its name is added to chunks. */
static int put_chunk(struct upload *u, const char *data, size_t n, json_t *chunks, struct err *e)
{
	char key[PATH_BYTES_MAX + STORAGE_PIECE_MAX + 20], hex[65], piece[STORAGE_PIECE_MAX];
	const char *known;
	uint64_t size;
	int there = 0;

	if (sha256(data, n, hex, e) < 0)
		return -1;
	if (!json_object_get(u->pieces, hex)) {
		snprintf(piece, sizeof(piece), "%s.%s", hex, u->use.id);
		known = json_string_value(json_object_get(u->known, hex));
		if (known) {
			/* objects are put whole, so one that is there is all there; one that is not makes the folder whole again */
			piece_key(u->path, known, key);
			there = storage_head(u->st, key, &size, e);
		}
		/* noted before it is sent: one whose sending fails may have come all the same */
		if (there >= 0)
			json_object_set_new(u->pieces, hex, json_string(there ? known : piece));
		if (there < 0 || (!there && send_piece(u, data, n, piece, e) < 0))
			return -1;
		u->stats->skipped += there != 0;
	}
	return json_array_append(chunks, json_object_get(u->pieces, hex)) < 0 ? err_nomem(e) : 0;
}

static ssize_t fill(int fd, char *buf, size_t max, uint64_t at)
{
	size_t n = 0;

	while (n < max) {
		ssize_t got = pread(fd, buf + n, max - n, (off_t)(at + n));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (!got)
			break;
		n += (size_t)got;
	}
	return (ssize_t)n;
}

/* A whole chunk of zeros is a hole: sparse disk images stay small. */
static int is_zero(const char *p, size_t n)
{
	return n == STORAGE_CHUNK && !p[0] && !memcmp(p, p + 1, n - 1);
}

/* A file chunk by chunk; what its file system knows as holes is not read. */
struct chunks {
	int fd;
	uint64_t at, size;	/* size: as it was when it was opened */
	uint64_t data;		/* there is nothing but a hole before it */
	char *buf;
};

/* Bytes of the next chunk, 0 at the end; -1 with errno.  *ret_hole: it is a whole one of zeros. */
static ssize_t next_chunk(struct chunks *c, int *ret_hole)
{
	ssize_t n = STORAGE_CHUNK;

	if (c->data <= c->at) {
		off_t data = lseek(c->fd, (off_t)c->at, SEEK_DATA);

		/* a file system that cannot tell says that all is data */
		c->data = data >= 0 ? (uint64_t)data : errno == ENXIO ? c->size : c->at;
	}
	*ret_hole = c->data >= c->at + STORAGE_CHUNK && c->size >= c->at + STORAGE_CHUNK;
	if (!*ret_hole) {
		n = fill(c->fd, c->buf, STORAGE_CHUNK, c->at);
		*ret_hole = n > 0 && is_zero(c->buf, (size_t)n);
	}
	c->at += n > 0 ? (uint64_t)n : 0;
	return n;
}

static int count_chunks(struct counts *c, uint64_t n, const char *name, struct err *e)
{
	c->chunks += n;
	return c->chunks <= CHUNKS_MAX ? 0 :
	       err_set(e, ERR_LIMIT, "the files are larger than %u TiB, holes included; hint: %.200s",
		       CHUNKS_MAX / (1024 * 1024 / (STORAGE_CHUNK >> 20)), name);
}

static int put_file(struct upload *u, int dir_fd, const char *name, json_t *entry, struct err *e)
{
	autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	json_t *chunks = json_array();
	struct chunks c = { .fd = fd, .buf = u->buf };
	struct stat st;
	ssize_t n;
	int hole;

	json_object_set_new(entry, "chunks", chunks);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open %.200s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_BUSY, "%.200s became something else while it was read", name);
	c.size = (uint64_t)st.st_size;
	while ((n = next_chunk(&c, &hole)) > 0) {
		if (count_chunks(&u->counts, 1, name, e) < 0 || storage_use_check(&u->use, e) < 0)
			return -1;
		if (hole)
			json_array_append_new(chunks, json_string(""));
		else if (put_chunk(u, u->buf, (size_t)n, chunks, e) < 0)
			return -1;
	}
	if (n < 0)
		return err_sys(e, "read %.200s", name);
	json_object_set_new(entry, "size", json_integer((json_int_t)c.at));
	u->stats->bytes += c.at;
	return 0;
}

/* Names are bytes: what is not UTF-8 goes as KEY_hex, and the manifest has a version that an older berthd refuses. */
static int put_bytes(struct counts *c, json_t *entry, const char *key, const char *bytes, struct err *e)
{
	size_t before = json_object_size(entry);

	if (json_set_bytes(entry, key, bytes, strlen(bytes), e) < 0)
		return -1;
	if (!json_object_get(entry, key))
		c->version = MANIFEST_VERSION;
	return json_object_size(entry) == before + 1 ? 0 : err_nomem(e);
}

static int put_link(struct counts *c, int dir_fd, const char *name, json_t *entry, struct err *e)
{
	char link[LINK_MAX_BYTES + 1];
	ssize_t n = readlinkat(dir_fd, name, link, sizeof(link) - 1);

	if (n < 0)
		return err_sys(e, "read the link %.200s", name);
	link[n] = '\0';
	return put_bytes(c, entry, "target", link, e);
}

/* What get_all() would refuse: the folder's files may be gone from the host by then. */
static int check_readable(const struct treelist_entry *t, struct err *e)
{
	if (strlen(t->path) > ENTRY_PATH_MAX)
		return err_set(e, ERR_LIMIT, "a path is longer than %d bytes, and could not be brought back: %.100s...; hint: shorten it",
			       ENTRY_PATH_MAX, t->path);
	if (t->st.st_uid >= IDS || t->st.st_gid >= IDS)
		return err_set(e, ERR_INVALID, "%.200s belongs to %u:%u, which is nobody of a sandbox; hint: chown it", t->path,
			       (unsigned)t->st.st_uid, (unsigned)t->st.st_gid);
	return 0;
}

/* Once the entry has all that it will have, but for more bytes. */
static int count_entry(struct counts *c, const json_t *entry, uint64_t more, struct err *e)
{
	c->text_bytes += json_dumpb(entry, NULL, 0, JSON_COMPACT) + 1 + more;
	return c->text_bytes + MANIFEST_REST <= STORAGE_MANIFEST_MAX ? 0 :
	       err_set(e, ERR_LIMIT, "the list of the folder's %zu entries so far is larger than %u MiB, and could not be read back; "
		       "hint: fewer files, or shorter paths", c->entries, STORAGE_MANIFEST_MAX >> 20);
}

/* All of it but what a file holds; NULL with e. */
static json_t *describe(struct counts *c, const struct treelist_entry *t, struct err *e)
{
	const struct stat *st = &t->st;
	int is_dir = S_ISDIR(st->st_mode), is_link = S_ISLNK(st->st_mode), r = 0;
	json_t *entry;

	if (check_readable(t, e) < 0)
		return NULL;
	entry = json_pack("{s:i,s:i,s:i,s:I,s:i,s:s}", "mode", (int)(st->st_mode & 07777), "uid", (int)st->st_uid, "gid", (int)st->st_gid,
			  "mtime", (json_int_t)st->st_mtim.tv_sec, "mtime_ns", (int)st->st_mtim.tv_nsec,
			  "type", is_dir ? "dir" : is_link ? "symlink" : "file");
	if (!entry)
		r = err_nomem(e);
	else if (++c->entries > ENTRIES_MAX)
		r = err_set(e, ERR_LIMIT, "the folder has more than %d entries", ENTRIES_MAX);
	if (r == 0)
		r = put_bytes(c, entry, "path", t->path, e);
	if (r == 0 && is_link)
		r = put_link(c, t->dir_fd, t->name, entry, e);
	if (r == 0)
		return entry;
	json_decref(entry);
	return NULL;
}

/* each() of what is stored: sockets, FIFOs and devices hold no bytes of their own. */
static int walk(int dir_fd, int (*each)(void *ctx, const struct treelist_entry *t, struct err *e), void *ctx, struct err *e)
{
	autotreelist struct treelist w = { .fd = -1 };
	struct treelist_entry t;
	int r = treelist_begin(&w, dir_fd, ENTRIES_MAX, e);

	while (r == 0 && (r = treelist_next(&w, &t, e)) > 0) {
		int is_dir = S_ISDIR(t.st.st_mode);

		r = 0;
		if ((!is_dir && !S_ISLNK(t.st.st_mode) && !S_ISREG(t.st.st_mode)) || !strncmp(t.name, TEMP_PREFIX, strlen(TEMP_PREFIX)))
			continue;
		r = each(ctx, &t, e);
		if (r == 0 && is_dir)
			r = treelist_enter(&w, &t, e);
	}
	return r;
}

static int check_entry(void *ctx, const struct treelist_entry *t, struct err *e)
{
	struct counts *c = ctx;
	autojson json_t *entry = describe(c, t, e);
	uint64_t chunks = 0;

	if (!entry)
		return -1;
	if (S_ISREG(t->st.st_mode)) {
		chunks = ((uint64_t)t->st.st_size + STORAGE_CHUNK - 1) / STORAGE_CHUNK;
		json_object_set_new(entry, "chunks", json_array());
		json_object_set_new(entry, "size", json_integer((json_int_t)t->st.st_size));
	}
	/* as if all were holes: which are not, only reading tells */
	return count_chunks(c, chunks, t->name, e) < 0 ? -1 : count_entry(c, entry, chunks * strlen("\"\","), e);
}

int storage_check_folder(int dir_fd, struct err *e)
{
	struct counts c = { .version = MANIFEST_VERSION - 1 };

	return walk(dir_fd, check_entry, &c, e);
}

static int add_json(struct buf *b, const json_t *j, struct err *e)
{
	size_t n = json_dumpb(j, NULL, 0, JSON_COMPACT);

	if (!n)
		return err_nomem(e);
	if (buf_reserve(b, n, e) < 0)
		return -1;
	b->len += json_dumpb(j, b->data + b->len, n, JSON_COMPACT);
	return 0;
}

static int put_entry(void *ctx, const struct treelist_entry *t, struct err *e)
{
	struct upload *u = ctx;
	autojson json_t *entry = describe(&u->counts, t, e);

	if (!entry || (S_ISREG(t->st.st_mode) && put_file(u, t->dir_fd, t->name, entry, e) < 0) ||
	    count_entry(&u->counts, entry, 0, e) < 0 || (u->stats->entries++ && buf_adds(&u->text, ",", e) < 0))
		return -1;
	return add_json(&u->text, entry, e);
}

/* What the manifest before names need not be sent again; one that cannot be read is replaced. */
static int learn(struct upload *u, struct err *e)
{
	autobuf struct buf text = BUF_INIT(STORAGE_MANIFEST_MAX);
	autojson json_t *pieces = json_object();
	const char *name;
	char upload[33];
	json_t *unused;
	int r = storage_manifest_text(u->st, u->path, &text, e);

	if (r < 0)
		return -1;
	if (r > 0 && storage_pieces(&text, pieces, upload, e) < 0)
		return e->code == ERR_CORRUPT ? 0 : -1;
	json_object_foreach(pieces, name, unused) {
		char hex[65];

		(void)unused;
		snprintf(hex, sizeof(hex), "%.64s", name);
		json_object_set_new(u->known, hex, json_string(name));
	}
	return 0;
}

/* Of the directory itself; one whose ids are the host's own has none. */
static json_t *root_of(int dir_fd)
{
	struct stat st;

	if (fstat(dir_fd, &st) < 0 || st.st_uid >= IDS || st.st_gid >= IDS)
		return NULL;
	return json_pack("{s:i,s:i,s:i,s:I,s:i}", "mode", (int)(st.st_mode & 07777), "uid", (int)st.st_uid, "gid", (int)st.st_gid,
			 "mtime", (json_int_t)st.st_mtim.tv_sec, "mtime_ns", (int)st.st_mtim.tv_nsec);
}

/* 0; -1 with *ret_sent when the manifest may come to the storage even so. */
static int put_all(struct upload *u, int dir_fd, int *ret_sent, struct err *e)
{
	autojson json_t *root = root_of(dir_fd);
	char key[PATH_BYTES_MAX + 20];

	if (learn(u, e) < 0 || buf_addf(&u->text, e, "{\"upload\":\"%s\",\"entries\":[", u->use.id) < 0 ||
	    walk(dir_fd, put_entry, u, e) < 0 || storage_use_check(&u->use, e) < 0 || buf_adds(&u->text, "]", e) < 0 ||
	    (root && (buf_adds(&u->text, ",\"root\":", e) < 0 || add_json(&u->text, root, e) < 0)) ||
	    buf_addf(&u->text, e, ",\"version\":%d}", u->counts.version) < 0)
		return -1;
	snprintf(key, sizeof(key), "%s/manifest.json", u->path);
	*ret_sent = 1;
	/* from here on it is the new folder */
	return storage_put(u->st, key, u->text.data, u->text.len, e);
}

/* Of an upload that nothing will ever name; what a storage in trouble keeps goes with the next one. */
static void drop_pieces(struct upload *u)
{
	const char *hash;
	json_t *name;

	json_object_foreach(u->pieces, hash, name) {
		const char *piece = json_string_value(name);
		char key[PATH_BYTES_MAX + STORAGE_PIECE_MAX + 20];
		struct err ignored;

		(void)hash;
		if (strlen(piece) <= 65 || strcmp(piece + 65, u->use.id))
			continue;	/* the manifest's there */
		if (storage_use_stopped_ms() > STORAGE_ENDING_MS)
			return;
		piece_key(u->path, piece, key);
		if (storage_delete(u->st, key, &ignored) < 0)
			return;
	}
}

int storage_put_folder(struct storage *st, const char *path, int dir_fd, struct storage_stats *ret, struct err *e)
{
	autojson json_t *known = json_object(), *pieces = json_object();
	autofree char *buf = malloc(STORAGE_CHUNK), *packed = malloc(ZSTD_compressBound(STORAGE_CHUNK));
	struct upload u = { .st = st, .path = path, .text = BUF_INIT(STORAGE_MANIFEST_MAX), .known = known, .pieces = pieces, .buf = buf, .packed = packed,
			    .counts = { .version = MANIFEST_VERSION - 1 }, .stats = ret };
	int r, sent = 0;
	struct err ignored;

	memset(ret, 0, sizeof(*ret));
	if (!buf || !packed)
		return err_nomem(e);
	if (storage_check_path(path, e) < 0 || storage_check_folder(dir_fd, e) < 0 || storage_use_begin(st, path, &u.use, e) < 0)
		return err_wrap(e, "upload to %.200s", path);
	r = put_all(&u, dir_fd, &sent, e);
	if (r < 0 && !sent)
		drop_pieces(&u);
	/* a manifest that nobody knows of may still come: its pieces stay until that cannot be any more */
	if (r == 0 || !sent)
		storage_use_end(st, &u.use);
	buf_release(&u.text);
	if (r < 0)
		return err_wrap(e, "upload to %.200s", path);
	storage_collect(st, path, &ignored);	/* what is left is only room */
	return 0;
}

/* ---- and comes down ---- */

static int bad(const char *path, const char *what, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "the stored folder is damaged: %s of %.200s", what, path);
}

/* A path of the manifest: relative, and no step of it leads up. */
static int check_entry_path(const char *p, struct err *e)
{
	const char *s = p;

	if (!p[0] || p[0] == '/' || strlen(p) > ENTRY_PATH_MAX)
		return bad(p, "the path", e);
	while (*s) {
		size_t n = strcspn(s, "/");

		if (!n || (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
			return bad(p, "the path", e);
		s += n;
		if (*s == '/' && !*++s)
			return bad(p, "the path", e);
	}
	return 0;
}

/* The text of key, or the bytes of KEY_hex in room; NULL when there is neither. */
static const char *get_bytes(const json_t *entry, const char *key, char room[LINK_MAX_BYTES + 1])
{
	const char *text = json_string_value(json_object_get(entry, key)), *hex;
	char name[16];
	size_t n, i;

	if (text)
		return text;
	snprintf(name, sizeof(name), "%s_hex", key);
	hex = json_string_value(json_object_get(entry, name));
	n = hex ? strlen(hex) : 0;
	if (!n || n % 2 || n / 2 > LINK_MAX_BYTES || strspn(hex, "0123456789abcdef") != n)	/* as we write it */
		return NULL;
	for (i = 0; i < n / 2; i++) {
		int byte = hex_byte(hex + 2 * i);

		if (byte <= 0)
			return NULL;
		room[i] = (char)byte;
	}
	room[i] = '\0';
	return room;
}

struct download {
	struct storage *st;
	const char *path;
	struct storage_use use;
	int dir_fd;
	struct storage_stats *stats;
};

/* The directory that holds path, beneath dir_fd and through no link; *ret_name is its last part. */
static int open_parent(int dir_fd, const char *path, const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char parent[4096];
	int fd;

	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		return openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
	fd = path_open_beneath(dir_fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	return fd < 0 ? err_sys(e, "open directory %.200s", parent) : fd;
}

/* Of a sandbox: its ids are these, and the mount maps them. */
static int is_id(const json_t *v)
{
	return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < IDS;
}

static int finish(int fd, const json_t *entry, struct err *e)
{
	struct timespec t[2] = { { .tv_nsec = UTIME_OMIT },
				 { json_integer_value(json_object_get(entry, "mtime")),
				   json_integer_value(json_object_get(entry, "mtime_ns")) } };

	if (!is_id(json_object_get(entry, "uid")) || !is_id(json_object_get(entry, "gid")))
		return bad("an entry", "the owner", e);
	if (fchown(fd, (uid_t)json_integer_value(json_object_get(entry, "uid")),
		   (gid_t)json_integer_value(json_object_get(entry, "gid"))) < 0 ||
	    fchmod(fd, (mode_t)json_integer_value(json_object_get(entry, "mode")) & 07777) < 0 || futimens(fd, t) < 0)
		return err_sys(e, "restore owner, mode and time");
	return 0;
}

static int get_chunk(struct download *d, const char *piece, int fd, uint64_t at, uint64_t n, struct err *e)
{
	autobuf struct buf b = BUF_INIT(ZSTD_compressBound(STORAGE_CHUNK));
	autofree char *plain = malloc(STORAGE_CHUNK);
	char key[PATH_BYTES_MAX + STORAGE_PIECE_MAX + 20], found[65];
	int r;

	if (!plain)
		return err_nomem(e);
	if (!storage_is_piece(piece))
		return bad(piece, "the name of a chunk", e);
	if (storage_use_check(&d->use, e) < 0)
		return -1;
	piece_key(d->path, piece, key);
	r = storage_get(d->st, key, &b, e);
	if (r < 0)
		return -1;
	if (!r || ZSTD_decompress(plain, STORAGE_CHUNK, b.data ? b.data : "", b.len) != n || sha256(plain, n, found, e) < 0 ||
	    strncmp(found, piece, 64))
		return bad(key, r ? "the content" : "a missing piece", e);
	d->stats->sent++;
	if (lseek(fd, (off_t)at, SEEK_SET) < 0 || io_write_all(fd, plain, n) < 0)
		return err_sys(e, "write a file of the folder");
	return 0;
}

/* 1 when the file has this content already: an earlier try got this far. */
static int is_there(const struct download *d, int parent, const char *name, const json_t *entry, uint64_t size)
{
	autoclose int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	autofree char *buf = malloc(STORAGE_CHUNK);
	struct chunks chunks = { .fd = fd, .size = size, .buf = buf };
	struct err ignored;
	struct stat st;
	json_t *c;
	size_t i;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != size || !buf)
		return 0;
	json_array_foreach(json_object_get(entry, "chunks"), i, c) {
		const char *piece = json_string_value(c) ? json_string_value(c) : "-";
		char hex[65] = "";
		int hole;
		ssize_t n = next_chunk(&chunks, &hole);

		if (n <= 0 || (!hole && sha256(buf, (size_t)n, hex, &ignored) < 0) || strlen(hex) != strcspn(piece, ".") ||
		    strncmp(hex, piece, strlen(hex)) || storage_use_check(&d->use, &ignored) < 0)
			return 0;
	}
	return finish(fd, entry, &ignored) == 0;
}

static int get_file(struct download *d, int parent, const char *name, const json_t *entry, struct err *e)
{
	uint64_t size = (uint64_t)json_integer_value(json_object_get(entry, "size")), at = 0;
	const json_t *chunks = json_object_get(entry, "chunks");
	char temp[64];
	autoclose int fd = -1;
	json_t *c;
	size_t i;

	if (!json_is_array(chunks) || json_array_size(chunks) != (size + STORAGE_CHUNK - 1) / STORAGE_CHUNK)
		return bad(name, "the size", e);
	if (is_there(d, parent, name, entry, size)) {
		d->stats->skipped += json_array_size(chunks);
		return 0;
	}
	snprintf(temp, sizeof(temp), TEMP_PREFIX "%d-%llx", gettid(), (unsigned long long)(uintptr_t)entry);
	fd = openat(parent, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "create %.200s", name);
	json_array_foreach((json_t *)(size_t)chunks, i, c) {
		uint64_t n = size - at < STORAGE_CHUNK ? size - at : STORAGE_CHUNK;
		const char *hex = json_string_value(c);

		if (!hex || (hex[0] && get_chunk(d, hex, fd, at, n, e) < 0)) {
			if (!hex)
				bad(name, "a chunk", e);
			goto fail;
		}
		at += n;
	}
	if (ftruncate(fd, (off_t)size) < 0 || fsync(fd) < 0 || finish(fd, entry, e) < 0 || renameat(parent, temp, parent, name) < 0) {
		err_sys(e, "write %.200s", name);
		goto fail;
	}
	return 0;
fail:
	unlinkat(parent, temp, 0);
	return -1;
}

/* What is in the way and of another kind goes. */
static int clear_way(int parent, const char *name, mode_t wanted, struct err *e)
{
	struct stat st;

	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (wanted != S_IFLNK && (st.st_mode & S_IFMT) == wanted)
		return 0;
	return path_remove_tree(parent, name, e);
}

static int get_link(int parent, const char *name, const char *path, const json_t *entry, struct err *e)
{
	char room[LINK_MAX_BYTES + 1];
	const char *target = get_bytes(entry, "target", room);

	if (!target || clear_way(parent, name, S_IFLNK, e) < 0)
		return target ? -1 : bad(path, "the target", e);
	if (!is_id(json_object_get(entry, "uid")) || !is_id(json_object_get(entry, "gid")))
		return bad(path, "the owner", e);
	return symlinkat(target, parent, name) < 0 ||
	       fchownat(parent, name, (uid_t)json_integer_value(json_object_get(entry, "uid")),
			(gid_t)json_integer_value(json_object_get(entry, "gid")), AT_SYMLINK_NOFOLLOW) < 0 ?
	       err_sys(e, "make the link %.200s", path) : 0;
}

/* known: what is where, by the bytes of its path. */
static int get_entry(struct download *d, const json_t *entry, json_t *known, struct err *e)
{
	char room[LINK_MAX_BYTES + 1];
	const char *path = get_bytes(entry, "path", room), *type = json_string_value(json_object_get(entry, "type"));
	const char *name;
	autoclose int parent = -1;

	if (!path || !type || check_entry_path(path, e) < 0)
		return path && type ? -1 : bad("", "an entry", e);
	json_object_set_nocheck(known, path, json_object_get(entry, "type"));
	parent = open_parent(d->dir_fd, path, &name, e);
	if (parent < 0)
		return -1;
	d->stats->entries++;
	if (!strcmp(type, "file")) {
		d->stats->bytes += (uint64_t)json_integer_value(json_object_get(entry, "size"));
		return clear_way(parent, name, S_IFREG, e) < 0 ? -1 : get_file(d, parent, name, entry, e);
	}
	if (!strcmp(type, "symlink"))
		return get_link(parent, name, path, entry, e);
	if (strcmp(type, "dir"))
		return bad(path, "the type", e);
	if (clear_way(parent, name, S_IFDIR, e) < 0)
		return -1;
	return mkdirat(parent, name, 0700) < 0 && errno != EEXIST ? err_sys(e, "make directory %.200s", path) : 0;
}

/* Modes and times of directories last of all, the deepest first. */
static int finish_dirs(struct download *d, const json_t *entries, struct err *e)
{
	size_t i = json_array_size(entries);

	while (i--) {
		const json_t *entry = json_array_get(entries, i);
		const char *type = json_string_value(json_object_get(entry, "type"));

		if (type && !strcmp(type, "dir")) {
			char room[LINK_MAX_BYTES + 1];
			const char *path = get_bytes(entry, "path", room);
			autoclose int fd = path_open_beneath(d->dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

			if (fd < 0 || finish(fd, entry, e) < 0)
				return fd < 0 ? err_sys(e, "open a directory of the folder") : -1;
		}
	}
	return 0;
}

static int remove_others(int dir_fd, const json_t *known, struct err *e)
{
	autotreelist struct treelist w = { .fd = -1 };
	struct treelist_entry t;
	int r = treelist_begin(&w, dir_fd, SIZE_MAX >> 8, e);

	while (r == 0 && (r = treelist_next(&w, &t, e)) > 0) {
		const char *type = json_string_value(json_object_get(known, t.path));

		r = !type ? path_remove_tree(t.dir_fd, t.name, e) : !strcmp(type, "dir") ? treelist_enter(&w, &t, e) : 0;
	}
	return r;
}

static int get_all(struct download *d, int exact, struct err *e)
{
	autojson json_t *manifest = NULL, *known = json_object();
	json_t *entries = NULL, *entry, *root;
	size_t i;
	int r = storage_manifest(d->st, d->path, &manifest, e);
	json_int_t version;

	if (r < 1)
		return r;
	version = json_integer_value(json_object_get(manifest, "version"));
	if (version > MANIFEST_VERSION)
		return err_set(e, ERR_UNSUPPORTED, "%.200s was written by a newer berth", d->path);
	if (version < 1 || json_get_arr(manifest, "entries", &entries, d->path, e) < 1)
		return bad(d->path, "the manifest", e);
	json_array_foreach(entries, i, entry)
		if (get_entry(d, entry, known, e) < 0)
			return -1;
	if ((exact && remove_others(d->dir_fd, known, e) < 0) || finish_dirs(d, entries, e) < 0)
		return -1;
	root = exact ? json_object_get(manifest, "root") : NULL;
	return root && finish(d->dir_fd, root, e) < 0 ? -1 : 1;
}

int storage_get_folder(struct storage *st, const char *path, int dir_fd, int exact, struct storage_stats *ret, struct err *e)
{
	struct download d = { .st = st, .path = path, .dir_fd = dir_fd, .stats = ret };
	char key[PATH_BYTES_MAX + 20];
	uint64_t size;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (storage_check_path(path, e) < 0)
		return -1;
	/* nothing is written for the sake of a folder that is not there */
	snprintf(key, sizeof(key), "%s/manifest.json", path);
	r = storage_head(st, key, &size, e);
	if (r < 1)
		return r;
	if (storage_use_begin(st, path, &d.use, e) < 0)
		return err_wrap(e, "download from %.200s", path);
	r = get_all(&d, exact, e);
	storage_use_end(st, &d.use);
	return r < 0 ? err_wrap(e, "download from %.200s", path) : r;
}

static int collect_all(void *ctx, const char *key, struct err *e)
{
	return json_array_append_new(ctx, json_string(key)) < 0 ? err_nomem(e) : 0;
}

int storage_delete_folder(struct storage *st, const char *path, struct err *e)
{
	autojson json_t *keys = json_array();
	char key[PATH_BYTES_MAX + 20];
	json_t *k;
	size_t i;

	if (storage_check_path(path, e) < 0)
		return -1;
	/* the manifest first: half a folder is none */
	snprintf(key, sizeof(key), "%s/manifest.json", path);
	if (storage_delete(st, key, e) < 0 || storage_each(st, path, collect_all, keys, e) < 0)
		return -1;
	json_array_foreach(keys, i, k)
		if (storage_delete(st, json_string_value(k), e) < 0)
			return -1;
	return 0;
}
