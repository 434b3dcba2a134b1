/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranges - which sandbox has which range of 65,536 ids.
 *
 * In the file state_dir/ids/ranges the note at n * RANGES_NOTE names the sandbox with range n.
 * Byte n of the file locks-M, M = n % RANGES_LOCK_FILES, is locked (F_OFD_SETLK, fcntl(2)) as long
 * as its supervisor lives.  The kernel goes through all locks of a file at each lock and each
 * close(2), hence more than one.  A range is free when nobody holds its lock and the sandbox in
 * its note has no directory (nor one in state_dir/manager/archived): so a crash frees it only once gc was there, and a
 * lasting sandbox keeps it while it is stopped, as its files are of that range.
 * Called with the registry locked.
 */
#ifndef BERTH_MANAGER_HOST_RANGES_H
#define BERTH_MANAGER_HOST_RANGES_H

#include "manager/host/registry.h"

/* What stands for each range.  Before version 1 there was an id and NULs. */
struct range_note {
	char id[24];			/* ends with a NUL; "" : nobody's */
	uint64_t memory_bytes, cpu_milli, tenant[2];	/* struct promise; ranges_tenant() */
	uint32_t version;		/* 0: only the id is told */
	uint32_t standing;		/* STANDING_* and the sessions; 0: nothing is told */
	uint32_t since[2];		/* since_ms of that, the low half first */
};

#define RANGES_NOTE 72
#define RANGES_PROMISED 1
#define RANGES_LOCK_FILES 64u

/*
 * What a sandbox that lives does while nothing in it changes, by its keeper, so that a list of many
 * need not ask each.  True only while the keeper lives; another one takes it back.
 */
struct standing {
	int is_main;		/* its main command runs; 0: no command does */
	unsigned sessions;	/* shells that wait */
	uint64_t since_ms;	/* when work was last seen, CLOCK_MONOTONIC */
};
#define STANDING_TOLD 1u
#define STANDING_MAIN 2u
#define STANDING_SESSIONS 8	/* their number is from this bit on */
_Static_assert(sizeof(struct range_note) == RANGES_NOTE, "files of older versions have notes of this size");

/* What stands for a tenant's name in a note; zeros for "". */
void ranges_tenant(const char *name, uint64_t ret[2]);
/* All notes, to be freed; those of ranges that nobody ever had are zero. */
int ranges_read(struct registry *r, struct range_note **ret, size_t *ret_count, struct err *e);
/* Writes down what a sandbox that has a range may take from now on; an empty tenant leaves whose it is. */
int ranges_promise(struct registry *r, const char *id, const struct promise *p, struct err *e);

/* The file of notes, to be closed. */
int ranges_open(const struct registry *r, struct err *e);
/*
 * Notes what the sandbox of this claim does, or with NULL that its keeper is to be asked.
 * 0, or -1 with errno.
 */
int ranges_stand(const struct registry *r, int notes_fd, const struct claim *c,
		 const struct standing *s);
/* 1 with what stands in a note, 0 when that is nothing. */
int ranges_standing(const struct range_note *n, struct standing *ret);
/* Finds a free range for c->id: sets slot_fd, id_base.  ERR_LIMIT when all are taken. */
int ranges_take(struct registry *r, struct claim *c, struct err *e);
/* Writes down the range of a lasting sandbox, in its own directory. */
int ranges_remember(struct registry *r, const struct claim *c, struct err *e);
/* Takes the range that was written down.  ERR_CONFIG when [ids] no longer covers it, ERR_BUSY while another holds it. */
int ranges_retake(struct registry *r, struct claim *c, struct err *e);
/*
 * For a sandbox that comes from another host: a range of ours, written down in its directory dirfd, instead of
 * the one that is there.  state_dir/manager/archived/ID is there already; the registry need not be locked.
 */
int ranges_move(struct registry *r, const char *id, int dirfd, uint32_t *ret_from, uint32_t *ret_to, struct err *e);

#endif
