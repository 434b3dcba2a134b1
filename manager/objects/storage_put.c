/* SPDX-License-Identifier: Apache-2.0 */
/* A folder goes up: its files' pieces first, then the manifest that names them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/mem.h"
#include "base/treewalk.h"
#include "manager/objects/storage_folder.h"

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

static int send_piece(struct upload *u, const char *data, size_t n, const char *piece, struct err *e)
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
		if (there < 0 || (!there && send_piece(u, data, n, piece, e) < 0))
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

static int put_file(struct upload *u, int dir_fd, const char *name, json_t *entry, struct err *e)
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
static int count_entry(struct counts *c, const json_t *entry, uint64_t more, struct err *e)
{
	c->text_bytes += json_dumpb(entry, NULL, 0, JSON_COMPACT) + 1 + more;
	return c->text_bytes + MANIFEST_REST <= STORAGE_MANIFEST_MAX ? 0 :
	       err_set(e, ERR_LIMIT, "the list of the folder's %zu entries so far is larger than %u MiB, and could not be read back; "
		       "hint: fewer files, or shorter paths", c->entries, STORAGE_MANIFEST_MAX >> 20);
}

/* Everything but the content of a file; NULL with e. */
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

/* each() of a stored entry: sockets, FIFOs and devices have no content. */
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
