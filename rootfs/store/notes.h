/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notes - a list of changes that the unpacking process leaves for the end.
 *
 * The list is in a memfd, not in memory: a hostile layer may have two million directories. The
 * unpacking process writes it, and replays it for the times of directories; its parent replays it
 * for the changes that only a privileged process may make. The reader treats it as hostile.
 */
#ifndef BERTH_ROOTFS_STORE_NOTES_H
#define BERTH_ROOTFS_STORE_NOTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "rootfs/store/tree.h"

enum note_kind {
	NOTE_TIME = 't',	/* directory path gets mtime at the end */
	NOTE_IMPLIED = 'i',	/* directory path was made without an entry of its own */
	NOTE_OPAQUE = 'o',	/* directory path hides what lies below it */
};

struct note {
	char kind;
	uint32_t nsec;
	int64_t sec;
	char path[TREE_PATH_MAX + 1];
};

struct notes {
	int fd;
	size_t len;		/* bytes in buf */
	uint64_t written;	/* bytes written in all */
	unsigned char buf[65536];
};

void notes_init(struct notes *n, int fd);
/* Adds a note; ERR_LIMIT past 256 MiB. */
int notes_add(struct notes *n, enum note_kind kind, const char *path, int64_t sec, uint32_t nsec,
	      struct err *e);
int notes_flush(struct notes *n, struct err *e);
/* Calls fn for each note of the file fd, in order; stops at the first -1. A malformed note is ERR_CORRUPT. */
int notes_replay(int fd, int (*fn)(void *ctx, const struct note *note, struct err *e), void *ctx,
		 struct err *e);

#endif
