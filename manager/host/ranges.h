/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranges - records which sandbox has which range of 65,536 ids.
 *
 * A range is a slot of the host, its first id / 65536. In the file state_dir/ids/slots the note at
 * slot * RANGES_NOTE names the sandbox of this state directory with that range. A range is free if
 * no process on the host holds the lock of its slot (hostids.h), and the sandbox in its note has no
 * directory, neither here nor in another state directory of the host (nor in
 * state_dir/manager/archived). So a crash frees a range only after gc, and a stopped lasting
 * sandbox keeps its range, because its files have those ids. Called with the registry locked.
 *
 * An older berth had its notes in ids/ranges, counted from [ids] base. The first use copies them.
 */
#ifndef BERTH_MANAGER_HOST_RANGES_H
#define BERTH_MANAGER_HOST_RANGES_H

#include "manager/host/hostids.h"
#include "manager/host/registry.h"

/* The note of a range. Before version 1 it was an id and NULs. */
struct range_note {
	char id[24];			/* ends with a NUL; "" : nobody's */
	uint64_t memory_bytes, cpu_disk, tenant[2];	/* struct promise; ranges_cpu(), ranges_disk(), ranges_tenant() */
	uint32_t version;		/* RANGES_*; 0: the note has only the id */
	uint32_t standing;		/* STANDING_* and the number of sessions; 0: no state is recorded */
	uint32_t since[2];		/* since_ms of the state and the turn, the low half first */
};

#define RANGES_NOTE HOSTIDS_NOTE
#define RANGES_PROMISED 1
#define RANGES_INNER 2	/* one more of a zygote, for a fork; its promise counts by itself */
#define RANGES_DISK 0x100u	/* beside these: cpu_disk has the disk, too; an older berth reads such a note as one without a promise */

/*
 * The state of a running sandbox while nothing in it changes. Its keeper writes it, so that a list
 * of many sandboxes need not ask each keeper. Valid only while the keeper runs; the next keeper
 * clears it.
 */
struct standing {
	int is_main;		/* the main command runs; 0: no command runs */
	unsigned sessions;	/* shells that wait for a text */
	uint64_t since_ms;	/* when work was last seen, CLOCK_MONOTONIC */
	uint16_t turn;		/* changes whenever the sandbox stops standing still */
};
#define STANDING_TOLD 1u
#define STANDING_MAIN 2u
#define STANDING_SESSIONS 8	/* the number of sessions begins at this bit */
#define STANDING_TURN 48	/* the turn begins at this bit of since; the time is below */
_Static_assert(sizeof(struct range_note) == RANGES_NOTE, "files of older versions have notes of this size");

/* RANGES_PROMISED, RANGES_INNER or neither. */
uint32_t ranges_kind(const struct range_note *n);
uint64_t ranges_cpu(const struct range_note *n);
/* Whole MiB, in bytes; preset for a note of an older berth, which did not know it. */
uint64_t ranges_disk(const struct range_note *n, uint64_t preset);
/* The hash of a tenant's name in a note; zeros for "". */
void ranges_tenant(const char *name, uint64_t ret[2]);
/* Calls each for every note, in pieces that need no memory; unused slots are zero, and most of them are left out. */
int ranges_each(struct registry *r, void (*each)(void *ctx, const struct range_note *n), void *ctx, struct err *e);
/* Returns all notes, as ranges_each() finds them; the caller frees them. */
int ranges_read(struct registry *r, struct range_note **ret, size_t *ret_count, struct err *e);

/* Where the note of a sandbox is, and what it said. */
struct range_place {
	int notes_fd;	/* the caller closes it */
	uint32_t slot;
	struct range_note note;
};

/* Finds the note of the sandbox's own range: ERR_NOT_FOUND if it has none. */
int ranges_find(struct registry *r, const char *id, struct range_place *ret, struct err *e);
/* Records other limits there; an empty tenant keeps the owner, PROMISE_SAME the disk. */
int ranges_promise(const struct range_place *at, const struct promise *p, struct err *e);

/* Opens the file of notes; the caller closes it. */
int ranges_open(const struct registry *r, struct err *e);
/*
 * Records the state of the sandbox of this claim, or with NULL that its keeper must be asked. 0, or
 * -1 with errno.
 */
int ranges_stand(int notes_fd, const struct claim *c, const struct standing *s);
/* Returns 1 with the state in a note, 0 if it has none. */
int ranges_standing(const struct range_note *n, struct standing *ret);
/* Notes that the range from c->id_base on, which another claim holds, is c->id's. */
int ranges_note(const struct registry *r, const struct claim *c, struct err *e);
/* Finds a free range of [ids] for c->id, and sets slot_fd and id_base. ERR_LIMIT if all are taken. */
int ranges_take(struct registry *r, struct claim *c, struct err *e);
/* Records the range of a lasting sandbox in its own directory. */
int ranges_remember(struct registry *r, const struct claim *c, struct err *e);
/*
 * Takes the recorded range, also if [ids] no longer covers it. ERR_BUSY while another process holds
 * it, ERR_LIMIT while a sandbox of another state directory runs with it.
 */
int ranges_retake(struct registry *r, struct claim *c, struct err *e);
/*
 * Takes a range of ours for a sandbox from another host, and records it in the sandbox's directory
 * dirfd, instead of the old one. state_dir/manager/archived/ID exists already; the registry need
 * not be locked.
 */
int ranges_move(struct registry *r, const char *id, int dirfd, uint32_t *ret_from, uint32_t *ret_to, struct err *e);

#endif
