/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storage_folder - shared by the upload and the download (storage_folder.c) of a
 * folder: the form of its manifest, and its limits.
 */
#ifndef BERTH_MANAGER_OBJECTS_STORAGE_FOLDER_H
#define BERTH_MANAGER_OBJECTS_STORAGE_FOLDER_H

#include "manager/objects/storage.h"

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
