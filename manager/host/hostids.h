/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostids - finds which ids of the host other state directories and other programs use.
 *
 * [paths] ids_dir is one directory of the host for all its state directories. A range of 65,536 ids
 * is a slot, id / 65536. Byte n of the file held-M in ids_dir, M = n % HOSTIDS_LOCK_FILES, is
 * locked (F_OFD_SETLK, fcntl(2)) as long as the supervisor of the sandbox in slot n runs. There are
 * several files because the kernel walks all locks of a file at each lock and each close(2).
 *
 * places/KEY.state and places/KEY.run in ids_dir are symbolic links to the directories of each
 * state directory that has handed out a range. A slot that the note of another state directory
 * gives to a sandbox with files there is not free, so a stopped sandbox keeps its ids, and so does
 * a sandbox whose supervisor was killed, until gc. The notes themselves are read, so there is no
 * second record that could differ. The next claim removes the links of a state directory that is
 * gone.
 *
 * Order: a claim locks the slot, looks at the other notes, and writes its own note before it gives
 * up the lock. So of two claims the later one sees the lock or the note.
 */
#ifndef BERTH_MANAGER_HOST_HOSTIDS_H
#define BERTH_MANAGER_HOST_HOSTIDS_H

#include <stdint.h>
#include <stdio.h>

#include "manager/host/registry.h"

#define HOSTIDS_LOCK_FILES 64u
#define HOSTIDS_PLACES 256	/* other state directories */
#define HOSTIDS_SUBIDS 4096	/* entries of /etc/subuid and /etc/subgid together */
#define HOSTIDS_SLOTS 65536u
#define HOSTIDS_NOTES "slots"		/* in state_dir/ids: the notes of ranges.h */
#define HOSTIDS_NOTE 72			/* bytes of a note; it begins with the id of the sandbox */

struct hostids_place {
	int slots_fd;			/* its notes */
	char key[33];			/* of its links */
	char path[256];			/* path of the state directory */
};

struct hostids_sub {
	uint64_t first, last;
	char who[64];
	int is_group;			/* the entry is in /etc/subgid */
};

struct hostids {
	int fd, places_fd;		/* ids_dir, and places in it */
	size_t place_count, sub_count;
	struct hostids_place *places;
	struct hostids_sub *subs;
};

#define HOSTIDS_INIT { .fd = -1, .places_fd = -1 }

/* Opens ids_dir, and adds r's state directory to its places; close h, also after an error. */
int hostids_open(struct hostids *h, const struct registry *r, struct err *e);
void hostids_close(struct hostids *h);
/* Removes the links of state directories that are gone. */
void hostids_prune(const struct config *c);

/* Returns a descriptor that holds the lock of the slot; ERR_BUSY while another process holds it. */
int hostids_lock(const struct hostids *h, uint32_t slot, struct err *e);
/*
 * Returns the other state directory whose sandbox has the slot, or NULL; *ret_error is -1 with e on
 * failure. running: only a sandbox that runs, or was not cleared after a crash, counts.
 */
const struct hostids_place *hostids_other(const struct hostids *h, uint32_t slot, int running,
					  int *ret_error, struct err *e);
/* Returns the entry of /etc/subuid or /etc/subgid that has an id of the slot, or NULL. */
const struct hostids_sub *hostids_sub_of(const struct hostids *h, uint32_t slot);
/* Hashes a text to 128 bits, which no other text has by accident; zeros for "". */
void hostids_hash(const char *text, uint64_t ret[2]);
/* Tells whether systemd reserves the slot for images of foreign systems. */
int hostids_is_foreign(uint32_t slot);

/*
 * Tells with whose ids the ranges of [ids] overlap, with words in ret: HOSTIDS_SUBIDS_OF a user,
 * which no sandbox gets, or HOSTIDS_SYSTEMS, whose use cannot be known; 0 without overlap. -1:
 * /etc/subuid or /etc/subgid cannot be read.
 */
enum { HOSTIDS_SUBIDS_OF = 1, HOSTIDS_SYSTEMS };
#define HOSTIDS_REMEDY "set [ids] base = 2000224256 and count to at most 2245, or leave both out"
int hostids_overlap(const struct config *c, char *ret, size_t n, struct err *e);

#endif
