/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storage - objects in a local folder or in an S3-compatible store, and folders made of them.
 *
 * A folder PATH is PATH/manifest.json, which is written last and names every entry, and
 * PATH/chunks/SHA256.UPLOAD: pieces of at most STORAGE_CHUNK bytes, compressed (zstd), named by
 * the hash of their content and the upload that sent them; pieces of zeros are left out. So an
 * upload is atomic (the manifest is replaced whole, and the last of two wins), sends only pieces
 * that the previous manifest does not name, and is verified on the way back. PATH/in-use/MARK
 * exists while a process reads or writes the folder; storage_use.c says when pieces are removed.
 * Local files are opened beneath a directory, through no link.
 */
#ifndef BERTH_MANAGER_OBJECTS_STORAGE_H
#define BERTH_MANAGER_OBJECTS_STORAGE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "manager/host/conf.h"

#define STORAGE_CHUNK (8u << 20)
#define STORAGE_MANIFEST_MAX (256u << 20)	/* bytes that are read back */

struct storage;

struct storage_stats {
	uint64_t entries, bytes;	/* of the folder */
	uint64_t sent, skipped;		/* chunks */
	uint64_t kept;			/* bytes in the storage before they are compressed: each piece once, and the manifest, in whole 4 KiB */
	int may_be_there;		/* after an error: the new manifest may have come to the storage */
	char sha256[65];		/* of the manifest, and so of all that it names */
};

int storage_open(struct storage **ret, const struct conf *c, struct err *e);
void storage_close(struct storage *st);
const char *storage_name(const struct storage *st);
/* A relative path of ordinary names: ERR_INVALID otherwise. */
int storage_check_path(const char *path, struct err *e);

int storage_put(struct storage *st, const char *key, const void *data, size_t n, struct err *e);
/* 1 with the content, 0 without one; the buffer's ceiling applies. */
int storage_get(struct storage *st, const char *key, struct buf *out, struct err *e);
/* 1 with the size, 0 without one. */
int storage_head(struct storage *st, const char *key, uint64_t *ret_size, struct err *e);
/* A missing object is no error. */
int storage_delete(struct storage *st, const char *key, struct err *e);
/*
 * Whether it takes an object, returns the same, and removes it, as a first use would find out.
 * name keeps two simultaneous tests apart.
 */
int storage_probe(struct storage *st, const char *name, struct err *e);
/* Every key below prefix. */
int storage_each(struct storage *st, const char *prefix, int (*each)(void *ctx, const char *key, struct err *e), void *ctx, struct err *e);

/* Is asked before the folder takes more than so many bytes in all (storage_stats.kept); -1 ends the upload. */
struct storage_room {
	int (*more)(void *ctx, uint64_t bytes, struct err *e);
	void *ctx;
};

/*
 * Stores the tree below dir_fd as the folder path; room may be NULL: no bound. Other content of the folder is collected
 * afterwards. ERR_TIMEOUT above STORAGE_USE_MS; ERR_LIMIT and ERR_INVALID for entries that could
 * not be restored. After any error, except one from writing the manifest, the folder is
 * unchanged and the sent pieces are removed.
 */
int storage_put_folder(struct storage *st, const char *path, int dir_fd, const struct storage_room *room, struct storage_stats *ret,
		       struct err *e);
/* The refusals of storage_put_folder() that need no look into the files; it has them before it sends anything. */
int storage_check_folder(int dir_fd, struct err *e);
/*
 * Restores the folder over dir_fd: each file is written aside, verified and renamed. 1; 0 if
 * there is no such folder. exact: entries that the folder does not name are removed from dir_fd,
 * which gets the mode and owner of the folder's own directory. sha256: ERR_CORRUPT, before anything is parsed or written,
 * when the manifest has another (S55); NULL takes any.
 */
int storage_get_folder(struct storage *st, const char *path, const char *sha256, int dir_fd, int exact, struct storage_stats *ret,
		       struct err *e);
int storage_delete_folder(struct storage *st, const char *path, struct err *e);

/* ---- storage_use.c: who uses a folder, and what nobody needs any more ---- */

#define STORAGE_USE_MS (12ull * 3600 * 1000)	/* the longest use of a folder */
#define STORAGE_PIECE_MAX 100			/* bytes of SHA256.UPLOAD with its end */

struct storage_use {
	char id[33];		/* of this use, in hex; no other has it */
	uint64_t began_ms;	/* wall clock */
	char key[1000];
};

/* Until its end, no piece that the folder's manifest has named since is removed. */
int storage_use_begin(struct storage *st, const char *path, struct storage_use *u, struct err *e);
/* ERR_TIMEOUT once it takes so long that others may take it for dead. */
int storage_use_check(const struct storage_use *u, struct err *e);
/*
 * This process is ending: once after_ms are over, and until the resume, each begin and check says ERR_BUSY, as
 * storage_use_may() does, and no request to a store is waited for, or sent again.
 */
void storage_use_stop(uint64_t after_ms);
void storage_use_resume(void);
int storage_use_may(struct err *e);
/* For how long this has been so; 0: it is not. */
uint64_t storage_use_stopped_ms(void);
#define STORAGE_ENDING_MS 2000	/* for what cleans up after a use that was cut short */
void storage_use_end(struct storage *st, const struct storage_use *u);
/* The manifest of folder path: 1, 0 without one. */
int storage_manifest(struct storage *st, const char *path, json_t **ret, struct err *e);
/*
 * Of the manifest's text, as a million entries would be a gigabyte as json_t: adds the names of all pieces to the object
 * pieces, unless that is NULL, and the id of the upload it is of ("": an old one).  ERR_CORRUPT when it is cut off.
 */
int storage_pieces(const struct buf *text, json_t *pieces, char ret_upload[33], struct err *e);
/* Its text: 1, 0 without one. */
int storage_manifest_text(struct storage *st, const char *path, struct buf *ret, struct err *e);
/* Removes pieces that the manifest does not name, if nobody uses the folder; else the next upload does. */
int storage_collect(struct storage *st, const char *path, struct err *e);
/* 1 for SHA256 or SHA256.UPLOAD. */
int storage_is_piece(const char *name);

/* ---- for the back ends ---- */

struct storage_ops {
	const char *name;
	int (*put)(struct storage *st, const char *key, const void *data, size_t n, const char sha256[65], struct err *e);
	int (*get)(struct storage *st, const char *key, struct buf *out, struct err *e);
	int (*head)(struct storage *st, const char *key, uint64_t *ret_size, struct err *e);
	int (*del)(struct storage *st, const char *key, struct err *e);
	int (*each)(struct storage *st, const char *prefix, int (*each)(void *ctx, const char *key, struct err *e), void *ctx,
		    struct err *e);
	void (*close)(struct storage *st);
};

struct storage {
	const struct storage_ops *ops;
};

int storage_local_open(struct storage **ret, const struct conf *c, struct err *e);
int storage_s3_open(struct storage **ret, const struct conf *c, struct err *e);

/* ---- the seal of a piece ---- */

/*
 * A piece in the storage ends in a MAC of its number and content, under a key that only the ledger has.
 *
 * Whoever writes the storage can so change, swap or repeat no piece (S55).  HMAC-SHA256 (RFC 2104) over the number, eight
 * bytes with the highest first, and the HMAC of the content.
 */

#define SEAL_KEY_BYTES 32
#define SEAL_KEY_SIZE (2 * SEAL_KEY_BYTES + 1)	/* in hex */
#define SEAL_BYTES 32

/* A new key. */
int seal_key(char ret[SEAL_KEY_SIZE], struct err *e);
/* Adds to ret the content and its seal. */
int seal_add(const char *key, uint64_t number, const void *data, size_t n, struct buf *ret, struct err *e);
/* Takes the seal off the piece; ERR_CORRUPT when it is not the one of this key and number. */
int seal_take(const char *key, uint64_t number, struct buf *piece, struct err *e);

/*
 * storage_folder - shared by the upload and the download (storage_folder.c) of a
 * folder: the form of its manifest, and its limits.
 */

#define PATH_BYTES_MAX 900	/* of a storage path */
#define ENTRIES_MAX 1000000
#define ENTRY_PATH_MAX 4000
#define LINK_MAX_BYTES 4095
#define CHUNKS_MAX (2u << 20)	/* 16 TiB, holes included */
#define MANIFEST_VERSION 3	/* 1 has no upload in the names of its pieces, and no root; 2 no names in hexadecimal */
#define MANIFEST_REST 4096	/* bytes of a manifest beside its entries */
#define IDS 65536		/* of a sandbox */
#define TEMP_PREFIX ".berth-part-"	/* a file that is being filled: never stored */
#define PIECE_KEY_MAX (PATH_BYTES_MAX + STORAGE_PIECE_MAX + 20)

/* The object that holds a piece of the folder path. */
void storage_piece_key(const char *path, const char *piece, char out[PIECE_KEY_MAX]);
/* 64 digits. */
int storage_sha256(const void *p, size_t n, char out[65], struct err *e);

/* A file chunk by chunk; what its file system knows as holes is not read. */
struct storage_chunks {
	int fd;
	uint64_t at, size;	/* size: at the time when it was opened */
	uint64_t data;		/* before it there is only a hole */
	char *buf;
};

/*
 * Bytes of the next chunk, 0 at the end; -1 with errno. *ret_hole: the chunk is whole and all
 * zeros.
 */
ssize_t storage_next_chunk(struct storage_chunks *c, int *ret_hole);

#endif
