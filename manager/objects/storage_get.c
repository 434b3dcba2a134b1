/* SPDX-License-Identifier: Apache-2.0 */
/* And comes down: each file aside, verified and renamed. */
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
#include "manager/objects/storage_folder.h"

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
	const char *path, *sha256;
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
	char key[PIECE_KEY_MAX], found[65];
	int r;

	if (!plain)
		return err_nomem(e);
	if (!storage_is_piece(piece))
		return bad(piece, "the name of a chunk", e);
	if (storage_use_check(&d->use, e) < 0)
		return -1;
	storage_piece_key(d->path, piece, key);
	r = storage_get(d->st, key, &b, e);
	if (r < 0)
		return -1;
	if (!r || ZSTD_decompress(plain, STORAGE_CHUNK, b.data ? b.data : "", b.len) != n || storage_sha256(plain, n, found, e) < 0 ||
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
		return target ? -1 : bad(path, "the target", e);
	if (!is_id(json_object_get(entry, "uid")) || !is_id(json_object_get(entry, "gid")))
		return bad(path, "the owner", e);
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
		return bad(d->path, "the manifest", e);
	json_array_foreach(entries, i, entry)
		if (get_entry(d, entry, known, e) < 0)
			return -1;
	if ((exact && remove_others(d->dir_fd, known, e) < 0) || finish_dirs(d, entries, e) < 0)
		return -1;
	root = exact ? json_object_get(manifest, "root") : NULL;
	return root && finish(d->dir_fd, root, e) < 0 ? -1 : 1;
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
