/* SPDX-License-Identifier: Apache-2.0 */
/* A folder goes up: its files' pieces first, then the manifest that names them. */
#include "manager/objects/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/treewalk.h"

/* ---- a folder goes up ---- */

#define OBJECT_BYTES 4096u	/* an object counts for whole ones of these */

/* The limits of a manifest. */
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
	const struct storage_room *room;	/* or NULL */
	struct storage_stats *stats;
};

/* Of an object. Small ones cost a store more than their bytes. */
static int take_room(struct upload *u, uint64_t bytes, struct err *e)
{
	u->stats->kept += (bytes + OBJECT_BYTES - 1) / OBJECT_BYTES * OBJECT_BYTES;
	return u->room ? u->room->more(u->room->ctx, u->stats->kept, e) : 0;
}

static int upload_piece(struct upload *u, const char *data, size_t n, const char *piece, struct err *e)
{
	char key[PIECE_KEY_MAX];
	size_t size = ZSTD_compress(u->packed, ZSTD_compressBound(STORAGE_CHUNK), data, n, 1);

	if (ZSTD_isError(size))
		return err_set(e, ERR_INTERNAL, "compress: %s", ZSTD_getErrorName(size));
	storage_piece_key(u->path, piece, key);
	if (storage_put(u->st, key, u->packed, size, e) < 0)
		return -1;
	u->stats->sent++;
	return 0;
}

/* Its name is added to chunks. */
static int put_chunk(struct upload *u, const char *data, size_t n, json_t *chunks, struct err *e)
{
	char key[PIECE_KEY_MAX], hex[65], piece[STORAGE_PIECE_MAX];
	const char *known;
	uint64_t size;
	int there = 0;

	if (storage_sha256(data, n, hex, e) < 0)
		return -1;
	if (!json_object_get(u->pieces, hex)) {
		if (take_room(u, n, e) < 0)
			return -1;
		snprintf(piece, sizeof(piece), "%s.%s", hex, u->use.id);
		known = json_string_value(json_object_get(u->known, hex));
		if (known) {
			/*
			 * objects are put whole, so an existing one is complete; a missing one
			 * is sent again
			 */
			storage_piece_key(u->path, known, key);
			there = storage_head(u->st, key, &size, e);
		}
		/* noted before it is sent: a failed request may have stored it all the same */
		if (there >= 0)
			json_object_set_new(u->pieces, hex, json_string(there ? known : piece));
		if (there < 0 || (!there && upload_piece(u, data, n, piece, e) < 0))
			return -1;
		u->stats->skipped += there != 0;
	}
	return json_array_append(chunks, json_object_get(u->pieces, hex)) < 0 ? err_nomem(e) : 0;
}

static int count_chunks(struct counts *c, uint64_t n, const char *name, struct err *e)
{
	c->chunks += n;
	return c->chunks <= CHUNKS_MAX ? 0 :
	       err_set(e, ERR_LIMIT, "the files are larger than %u TiB, holes included; hint: %.200s",
		       CHUNKS_MAX / (1024 * 1024 / (STORAGE_CHUNK >> 20)), name);
}

static int upload_file(struct upload *u, int dir_fd, const char *name, json_t *entry, struct err *e)
{
	autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	json_t *chunks = json_array();
	struct storage_chunks c = { .fd = fd, .buf = u->buf };
	struct stat st;
	ssize_t n;
	int hole;

	json_object_set_new(entry, "chunks", chunks);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open %.200s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_BUSY, "%.200s became something else while it was read", name);
	c.size = (uint64_t)st.st_size;
	while ((n = storage_next_chunk(&c, &hole)) > 0) {
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

/*
 * Names are bytes: one that is not UTF-8 is stored as KEY_hex, with a manifest version that an
 * older berthd refuses.
 */
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
static int count_manifest_entry(struct counts *c, const json_t *entry, uint64_t more, struct err *e)
{
	c->text_bytes += json_dumpb(entry, NULL, 0, JSON_COMPACT) + 1 + more;
	return c->text_bytes + MANIFEST_REST <= STORAGE_MANIFEST_MAX ? 0 :
	       err_set(e, ERR_LIMIT, "the list of the folder's %zu entries so far is larger than %u MiB, and could not be read back; "
		       "hint: fewer files, or shorter paths", c->entries, STORAGE_MANIFEST_MAX >> 20);
}

/* Everything but the content of a file; NULL with e. */
static json_t *manifest_entry(struct counts *c, const struct treelist_entry *t, struct err *e)
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

/* each() of a stored entry: sockets, FIFOs and devices have no content. */
static int walk_stored(int dir_fd, int (*each)(void *ctx, const struct treelist_entry *t, struct err *e), void *ctx, struct err *e)
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
	autojson json_t *entry = manifest_entry(c, t, e);
	uint64_t chunks = 0;

	if (!entry)
		return -1;
	if (S_ISREG(t->st.st_mode)) {
		chunks = ((uint64_t)t->st.st_size + STORAGE_CHUNK - 1) / STORAGE_CHUNK;
		json_object_set_new(entry, "chunks", json_array());
		json_object_set_new(entry, "size", json_integer((json_int_t)t->st.st_size));
	}
	/* as if all were holes: which are not, only reading tells */
	return count_chunks(c, chunks, t->name, e) < 0 ? -1 : count_manifest_entry(c, entry, chunks * strlen("\"\","), e);
}

int storage_check_folder(int dir_fd, struct err *e)
{
	struct counts c = { .version = MANIFEST_VERSION - 1 };

	return walk_stored(dir_fd, check_entry, &c, e);
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

static int upload_entry(void *ctx, const struct treelist_entry *t, struct err *e)
{
	struct upload *u = ctx;
	autojson json_t *entry = manifest_entry(&u->counts, t, e);

	if (!entry || (S_ISREG(t->st.st_mode) && upload_file(u, t->dir_fd, t->name, entry, e) < 0) ||
	    count_manifest_entry(&u->counts, entry, 0, e) < 0 || (u->stats->entries++ && buf_adds(&u->text, ",", e) < 0))
		return -1;
	return add_json(&u->text, entry, e);
}

/*
 * Pieces that the previous manifest names need not be sent again; an unreadable manifest is
 * replaced.
 */
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

/* The entry of the directory itself; a directory with ids of the host's own has none. */
static json_t *root_entry(int dir_fd)
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
	autojson json_t *root = root_entry(dir_fd);
	char key[PATH_BYTES_MAX + 20];

	if (learn(u, e) < 0 || buf_addf(&u->text, e, "{\"upload\":\"%s\",\"entries\":[", u->use.id) < 0 ||
	    walk_stored(dir_fd, upload_entry, u, e) < 0 || storage_use_check(&u->use, e) < 0 || buf_adds(&u->text, "]", e) < 0 ||
	    (root && (buf_adds(&u->text, ",\"root\":", e) < 0 || add_json(&u->text, root, e) < 0)) ||
	    buf_addf(&u->text, e, ",\"version\":%d}", u->counts.version) < 0)
		return -1;
	snprintf(key, sizeof(key), "%s/manifest.json", u->path);
	if (storage_sha256(u->text.data, u->text.len, u->stats->sha256, e) < 0)
		return -1;
	if (take_room(u, u->text.len, e) < 0)
		return -1;
	*ret_sent = 1;
	/* from here on it is the new folder */
	return storage_put(u->st, key, u->text.data, u->text.len, e);
}

/*
 * Removes the pieces of an upload that nothing will ever name; if the storage fails, the next
 * collection does it.
 */
static void drop_pieces(struct upload *u)
{
	const char *hash;
	json_t *name;

	json_object_foreach(u->pieces, hash, name) {
		const char *piece = json_string_value(name);
		char key[PIECE_KEY_MAX];
		struct err ignored;

		(void)hash;
		if (strlen(piece) <= 65 || strcmp(piece + 65, u->use.id))
			continue;	/* the manifest's there */
		if (storage_use_stopped_ms() > STORAGE_ENDING_MS)
			return;
		storage_piece_key(u->path, piece, key);
		if (storage_delete(u->st, key, &ignored) < 0)
			return;
	}
}

int storage_put_folder(struct storage *st, const char *path, int dir_fd, const struct storage_room *room, struct storage_stats *ret,
		       struct err *e)
{
	autojson json_t *known = json_object(), *pieces = json_object();
	autofree char *buf = malloc(STORAGE_CHUNK), *packed = malloc(ZSTD_compressBound(STORAGE_CHUNK));
	struct upload u = { .st = st, .path = path, .text = BUF_INIT(STORAGE_MANIFEST_MAX), .known = known, .pieces = pieces, .buf = buf, .packed = packed,
			    .counts = { .version = MANIFEST_VERSION - 1 }, .room = room, .stats = ret };
	int r, sent = 0;
	struct err ignored;

	memset(ret, 0, sizeof(*ret));
	if (!buf || !packed)
		return err_nomem(e);
	if (storage_check_path(path, e) < 0 || storage_check_folder(dir_fd, e) < 0 || storage_use_begin(st, path, &u.use, e) < 0)
		return err_wrap(e, "upload to %.200s", path);
	r = put_all(&u, dir_fd, &sent, e);
	ret->may_be_there = r < 0 && sent;
	if (r < 0 && !sent)
		drop_pieces(&u);
	/* a manifest that nobody knows of may still come: its pieces stay until that cannot be any more */
	if (r == 0 || !sent)
		storage_use_end(st, &u.use);
	buf_release(&u.text);
	if (r < 0)
		return err_wrap(e, "upload to %.200s", path);
	storage_collect(st, path, &ignored);	/* an error only costs room */
	return 0;
}

/* ---- a folder comes down ---- */

/* And comes down: each file aside, verified and renamed. */

static int damaged_folder(const char *path, const char *what, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "the stored folder is damaged: %s of %.200s", what, path);
}

/* A path of the manifest: relative, and no step of it leads up. */
static int check_entry_path(const char *p, struct err *e)
{
	const char *s = p;

	if (!p[0] || p[0] == '/' || strlen(p) > ENTRY_PATH_MAX)
		return damaged_folder(p, "the path", e);
	while (*s) {
		size_t n = strcspn(s, "/");

		if (!n || (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
			return damaged_folder(p, "the path", e);
		s += n;
		if (*s == '/' && !*++s)
			return damaged_folder(p, "the path", e);
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
	const char *path, *sha256;
	struct storage_use use;
	int dir_fd;
	struct storage_stats *stats;
};

/* The directory that holds path, beneath dir_fd and through no link; *ret_name is its last part. */
static int open_entry_parent(int dir_fd, const char *path, const char **ret_name, struct err *e)
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
static int is_sandbox_owner(const json_t *v)
{
	return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < IDS;
}

static int finish_entry(int fd, const json_t *entry, struct err *e)
{
	struct timespec t[2] = { { .tv_nsec = UTIME_OMIT },
				 { json_integer_value(json_object_get(entry, "mtime")),
				   json_integer_value(json_object_get(entry, "mtime_ns")) } };

	if (!is_sandbox_owner(json_object_get(entry, "uid")) || !is_sandbox_owner(json_object_get(entry, "gid")))
		return damaged_folder("an entry", "the owner", e);
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
	char key[PIECE_KEY_MAX], found[65];
	int r;

	if (!plain)
		return err_nomem(e);
	if (!storage_is_piece(piece))
		return damaged_folder(piece, "the name of a chunk", e);
	if (storage_use_check(&d->use, e) < 0)
		return -1;
	storage_piece_key(d->path, piece, key);
	r = storage_get(d->st, key, &b, e);
	if (r < 0)
		return -1;
	if (!r || ZSTD_decompress(plain, STORAGE_CHUNK, b.data ? b.data : "", b.len) != n || storage_sha256(plain, n, found, e) < 0 ||
	    strncmp(found, piece, 64))
		return damaged_folder(key, r ? "the content" : "a missing piece", e);
	d->stats->sent++;
	if (lseek(fd, (off_t)at, SEEK_SET) < 0 || io_write_all(fd, plain, n) < 0)
		return err_sys(e, "write a file of the folder");
	return 0;
}

/* 1 when the file has this content already: an earlier try got this far. */
static int is_downloaded(const struct download *d, int parent, const char *name, const json_t *entry, uint64_t size)
{
	autoclose int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	autofree char *buf = malloc(STORAGE_CHUNK);
	struct storage_chunks chunks = { .fd = fd, .size = size, .buf = buf };
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
		ssize_t n = storage_next_chunk(&chunks, &hole);

		if (n <= 0 || (!hole && storage_sha256(buf, (size_t)n, hex, &ignored) < 0) || strlen(hex) != strcspn(piece, ".") ||
		    strncmp(hex, piece, strlen(hex)) || storage_use_check(&d->use, &ignored) < 0)
			return 0;
	}
	return finish_entry(fd, entry, &ignored) == 0;
}

static int download_file(struct download *d, int parent, const char *name, const json_t *entry, struct err *e)
{
	uint64_t size = (uint64_t)json_integer_value(json_object_get(entry, "size")), at = 0;
	const json_t *chunks = json_object_get(entry, "chunks");
	char temp[64];
	autoclose int fd = -1;
	json_t *c;
	size_t i;

	if (!json_is_array(chunks) || json_array_size(chunks) != (size + STORAGE_CHUNK - 1) / STORAGE_CHUNK)
		return damaged_folder(name, "the size", e);
	if (is_downloaded(d, parent, name, entry, size)) {
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
				damaged_folder(name, "a chunk", e);
			goto fail;
		}
		at += n;
	}
	if (ftruncate(fd, (off_t)size) < 0 || fsync(fd) < 0 || finish_entry(fd, entry, e) < 0 || renameat(parent, temp, parent, name) < 0) {
		err_sys(e, "write %.200s", name);
		goto fail;
	}
	return 0;
fail:
	unlinkat(parent, temp, 0);
	return -1;
}

/* Removes an entry of another kind that is in the way. */
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
		return target ? -1 : damaged_folder(path, "the target", e);
	if (!is_sandbox_owner(json_object_get(entry, "uid")) || !is_sandbox_owner(json_object_get(entry, "gid")))
		return damaged_folder(path, "the owner", e);
	return symlinkat(target, parent, name) < 0 ||
	       fchownat(parent, name, (uid_t)json_integer_value(json_object_get(entry, "uid")),
			(gid_t)json_integer_value(json_object_get(entry, "gid")), AT_SYMLINK_NOFOLLOW) < 0 ?
	       err_sys(e, "make the link %.200s", path) : 0;
}

/* known: the entries by the bytes of their paths. */
static int get_entry(struct download *d, const json_t *entry, json_t *known, struct err *e)
{
	char room[LINK_MAX_BYTES + 1];
	const char *path = get_bytes(entry, "path", room), *type = json_string_value(json_object_get(entry, "type"));
	const char *name;
	autoclose int parent = -1;

	if (!path || !type || check_entry_path(path, e) < 0)
		return path && type ? -1 : damaged_folder("", "an entry", e);
	json_object_set_nocheck(known, path, json_object_get(entry, "type"));
	parent = open_entry_parent(d->dir_fd, path, &name, e);
	if (parent < 0)
		return -1;
	d->stats->entries++;
	if (!strcmp(type, "file")) {
		d->stats->bytes += (uint64_t)json_integer_value(json_object_get(entry, "size"));
		return clear_way(parent, name, S_IFREG, e) < 0 ? -1 : download_file(d, parent, name, entry, e);
	}
	if (!strcmp(type, "symlink"))
		return get_link(parent, name, path, entry, e);
	if (strcmp(type, "dir"))
		return damaged_folder(path, "the type", e);
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

			if (fd < 0 || finish_entry(fd, entry, e) < 0)
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

/* Upholds S55 of SECURITY.md: the manifest is what the caller knows by its digest, or it is not even parsed. */
static int get_manifest(struct download *d, json_t **ret, struct err *e)
{
	autobuf struct buf text = BUF_INIT(STORAGE_MANIFEST_MAX);
	int r;

	if (!d->sha256)
		return storage_manifest(d->st, d->path, ret, e);
	r = storage_manifest_text(d->st, d->path, &text, e);
	if (r < 1)
		return r;
	if (storage_sha256(text.data ? text.data : "", text.len, d->stats->sha256, e) < 0)
		return -1;
	if (strcmp(d->stats->sha256, d->sha256))
		return err_set(e, ERR_CORRUPT, "the object %.200s/manifest.json is not the one that was stored: its SHA-256 is %.12s..., "
			       "the ledger says %.12s...", d->path, d->stats->sha256, d->sha256);
	*ret = json_parse(text.data ? text.data : "", text.len, STORAGE_MANIFEST_MAX, d->path, e);
	return *ret ? 1 : -1;
}

static int get_all(struct download *d, int exact, struct err *e)
{
	autojson json_t *manifest = NULL, *known = json_object();
	json_t *entries = NULL, *entry, *root;
	size_t i;
	int r = get_manifest(d, &manifest, e);
	json_int_t version;

	if (r < 1)
		return r;
	version = json_integer_value(json_object_get(manifest, "version"));
	if (version > MANIFEST_VERSION)
		return err_set(e, ERR_UNSUPPORTED, "%.200s is of format version %lld, written by a newer berth; berth " BERTH_VERSION
			       " reads up to %d", d->path, (long long)version, MANIFEST_VERSION);
	if (version < 1 || json_get_arr(manifest, "entries", &entries, d->path, e) < 1)
		return damaged_folder(d->path, "the manifest", e);
	json_array_foreach(entries, i, entry)
		if (get_entry(d, entry, known, e) < 0)
			return -1;
	if ((exact && remove_others(d->dir_fd, known, e) < 0) || finish_dirs(d, entries, e) < 0)
		return -1;
	root = exact ? json_object_get(manifest, "root") : NULL;
	return root && finish_entry(d->dir_fd, root, e) < 0 ? -1 : 1;
}

int storage_get_folder(struct storage *st, const char *path, const char *sha256, int dir_fd, int exact, struct storage_stats *ret,
		       struct err *e)
{
	struct download d = { .st = st, .path = path, .sha256 = sha256, .dir_fd = dir_fd, .stats = ret };
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
