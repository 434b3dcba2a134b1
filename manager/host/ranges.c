/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S3 of SECURITY.md. */
#include "manager/host/ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "runtime/sandbox/spec.h"

#define NOTES_AT_ONCE 128
#define OWN_NAME "range"	/* in a lasting sandbox's directory: its first host id */

/*
 * The notes of an older berth, below ids_fd, counted from its [ids] base. Its supervisors hold
 * locks there, in locks-M and in the file itself, and write to it as long as they live.
 */
#define OLDER_FILE "ranges"
#define OLDER_BASE_FILE "ranges-base"	/* the base of those notes, once they are copied */
#define OLDER_LOCK_FILES 64u
#define OLDER_BASE 1342177280u	/* the older base if [ids] did not set it */

static off_t note_at(uint32_t slot)
{
	return (off_t)slot * RANGES_NOTE;
}

static uint32_t claim_slot(const struct claim *c)
{
	return c->id_base / SPEC_IDS;
}

void ranges_tenant(const char *name, uint64_t ret[2])
{
	/* names come from the operator's file of tokens */
	hostids_hash(name, ret);
}

#define MIB_BITS 20
#define NOTE_CPU_MAX UINT32_MAX	/* UINT64_MAX in the half of a word */

/* The disk is in the upper half, in MiB and rounded up. */
static uint64_t cpu_and_disk(uint64_t cpu, uint64_t disk)
{
	const uint64_t mib = (disk >> MIB_BITS) + ((disk & ((UINT64_C(1) << MIB_BITS) - 1)) != 0);

	return (mib < UINT32_MAX ? mib : UINT32_MAX) << 32 | (cpu < NOTE_CPU_MAX ? cpu : NOTE_CPU_MAX);
}

uint32_t ranges_kind(const struct range_note *n)
{
	return n->version & ~RANGES_DISK;
}

uint64_t ranges_cpu(const struct range_note *n)
{
	const uint32_t half = (uint32_t)n->cpu_disk;

	if (!(n->version & RANGES_DISK))
		return n->cpu_disk;
	return half == NOTE_CPU_MAX ? UINT64_MAX : half;
}

uint64_t ranges_disk(const struct range_note *n, uint64_t preset)
{
	return n->version & RANGES_DISK ? n->cpu_disk >> 32 << MIB_BITS : preset;
}

static struct range_note note_of(const char *id, const struct promise *p, int inner)
{
	struct range_note n = { .version = 0 };

	if (strlen(id) >= sizeof(n.id))
		return n;	/* none of ours */
	snprintf(n.id, sizeof(n.id), "%s", id);
	if (!p)
		return n;
	n.memory_bytes = p->memory_bytes;
	n.version = inner ? RANGES_INNER : RANGES_PROMISED;
	n.cpu_disk = p->cpu_milli;
	if (p->disk_bytes != PROMISE_SAME) {
		n.cpu_disk = cpu_and_disk(p->cpu_milli, p->disk_bytes);
		n.version |= RANGES_DISK;
	}
	ranges_tenant(p->tenant, n.tenant);
	return n;
}

/* ---- notes ---- */

static int write_range_note(int fd, uint32_t slot, const struct range_note *text, struct err *e)
{
	if (pwrite(fd, text, sizeof(*text), note_at(slot)) != (ssize_t)sizeof(*text))
		return err_sys(e, "record id range %u", slot);
	return 0;
}

/* Reads all notes from the slot on, up to the end of the file; the caller frees them. */
static int read_range_notes(int fd, uint32_t from, struct range_note **ret, size_t *ret_count, struct err *e)
{
	struct range_note *all;
	struct stat st;
	ssize_t got;
	off_t size;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "read the record of id ranges");
	/* no more slots than this exist, even if the file is longer */
	size = (st.st_size > note_at(HOSTIDS_SLOTS) ? note_at(HOSTIDS_SLOTS) : st.st_size) - note_at(from);
	if (size < 0)
		size = 0;
	all = calloc(1, (size_t)size + RANGES_NOTE);
	if (!all)
		return err_nomem(e);
	got = pread(fd, all, (size_t)size, note_at(from));
	if (got < 0) {
		free(all);
		return err_sys(e, "read the record of id ranges");
	}
	*ret = all;
	*ret_count = ((size_t)got + RANGES_NOTE - 1) / RANGES_NOTE;
	return 0;
}

/* ---- the file of notes, and that of an older berth ---- */

static int open_range_notes(const struct registry *r)
{
	return openat(r->ids_fd, HOSTIDS_NOTES, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NOATIME);
}

/* Returns the first id of a lasting sandbox's range, as its directory records it; 0 if it does not. */
static uint32_t remembered(const struct registry *r, const char *id)
{
	autobuf struct buf b = BUF_INIT(16);
	struct err ignored;
	char path[80];
	uint64_t base;

	snprintf(path, sizeof(path), "%s/" OWN_NAME, id);
	if (io_read_file(r->kept_fd, path, &b, &ignored) < 0 ||
	    num_u64(b.data ? b.data : "", path, SPEC_IDS, UINT32_MAX, &base, &ignored) < 0)
		return 0;
	return (uint32_t)base;
}

/*
 * The base that the notes of an older berth count from. Each lasting sandbox tells it; without
 * one it is what [ids] said, or the default of that berth.
 */
static uint32_t older_base(const struct registry *r, const struct range_note *notes, size_t count)
{
	uint32_t base;
	size_t i;

	for (i = 0; i < count; i++)
		if (!notes[i].id[sizeof(notes[i].id) - 1] && path_is_name(notes[i].id) && ranges_kind(&notes[i]) != RANGES_INNER &&
		    (base = remembered(r, notes[i].id)) > i * SPEC_IDS)
			return base - (uint32_t)i * SPEC_IDS;
	return config_is_set(r->config, "ids", "base") ? r->config->id_base : OLDER_BASE;
}

/* Copies the notes of an older berth to their slots, and writes down their base. */
static int copy_older(const struct registry *r, int fd, const struct range_note *notes, size_t count, struct err *e)
{
	const uint32_t base = older_base(r, notes, count);
	char text[16];
	size_t i;

	snprintf(text, sizeof(text), "%u", base);
	if (io_replace_file(r->ids_fd, OLDER_BASE_FILE, text, strlen(text), 0600, 0, e) < 0)
		return -1;
	for (i = 0; i < count; i++) {
		struct range_note n = notes[i];
		uint64_t slot = base / SPEC_IDS + i;
		uint32_t own;

		if (n.id[sizeof(n.id) - 1] || !path_is_name(n.id))
			continue;
		own = ranges_kind(&n) == RANGES_INNER ? 0 : remembered(r, n.id);
		if (own)
			slot = own / SPEC_IDS;
		/* its keeper continues to write its state to the older file */
		n.standing = 0;
		if (slot < HOSTIDS_SLOTS && write_range_note(fd, (uint32_t)slot, &n, e) < 0)
			return -1;
	}
	return 0;
}

static int read_older(const struct registry *r, struct range_note **ret, size_t *ret_count, struct err *e)
{
	autoclose int fd = openat(r->ids_fd, OLDER_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	*ret = NULL;
	*ret_count = 0;
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open the older record of id ranges");
	return read_range_notes(fd, 0, ret, ret_count, e);
}

/* The file of notes appears as a whole. */
static int make_notes(const struct registry *r, struct err *e)
{
	autoclose int lock = openat(r->ids_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct range_note *older = NULL;
	autoclose int fd = -1;
	size_t count;
	int result;

	while (lock >= 0 && flock(lock, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the record of id ranges");
	if (lock < 0)
		return err_sys(e, "lock the record of id ranges");
	if (path_has(r->ids_fd, HOSTIDS_NOTES))
		return 0;
	fd = openat(r->ids_fd, HOSTIDS_NOTES ".new", O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "make the record of id ranges");
	result = read_older(r, &older, &count, e);
	if (result == 0 && older)
		result = copy_older(r, fd, older, count, e);
	free(older);
	if (result == 0 && ((count && fsync(fd) < 0) || renameat(r->ids_fd, HOSTIDS_NOTES ".new", r->ids_fd, HOSTIDS_NOTES) < 0))
		result = err_sys(e, "make the record of id ranges");
	return result;
}

int ranges_open(const struct registry *r, struct err *e)
{
	int fd = open_range_notes(r);

	if (fd < 0 && errno == ENOENT) {
		if (make_notes(r, e) < 0)
			return -1;
		fd = open_range_notes(r);
	}
	return fd < 0 ? err_sys(e, "open the record of id ranges") : fd;
}

/* ---- locks ---- */

static int is_slot_locked(int fd, uint32_t n)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = n, .l_len = 1 };

	return fcntl(fd, F_OFD_GETLK, &l) < 0 || l.l_type != F_UNLCK;
}

/* ERR_BUSY while a supervisor that an older berth started holds the slot. */
static int check_older(const struct registry *r, uint32_t slot, struct err *e)
{
	autoclose int fd = openat(r->ids_fd, OLDER_FILE, O_RDWR | O_NOFOLLOW | O_CLOEXEC), locks = -1;
	autobuf struct buf b = BUF_INIT(16);
	char name[24];
	uint64_t base;
	uint32_t n;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open the older record of id ranges");
	if (io_read_file(r->ids_fd, OLDER_BASE_FILE, &b, e) < 0 ||
	    num_u64(b.data ? b.data : "", OLDER_BASE_FILE, SPEC_IDS, UINT32_MAX, &base, e) < 0)
		return -1;
	if (slot < base / SPEC_IDS)
		return 0;
	n = slot - (uint32_t)(base / SPEC_IDS);
	snprintf(name, sizeof(name), "locks-%u", n % OLDER_LOCK_FILES);
	locks = openat(r->ids_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (locks < 0 && errno != ENOENT)
		return err_sys(e, "open the older lock of id range %u", slot);
	return is_slot_locked(fd, n) || (locks >= 0 && is_slot_locked(locks, n)) ? err_set(e, ERR_BUSY, "id range %u is locked", slot) : 0;
}

static int lock_slot(const struct registry *r, const struct hostids *h, uint32_t slot, struct err *e)
{
	return check_older(r, slot, e) < 0 ? -1 : hostids_lock(h, slot, e);
}

static int is_slot_free(struct registry *r, int fd, uint32_t slot)
{
	char id[RANGES_NOTE + 1] = "", path[RANGES_NOTE + 32];

	if (pread(fd, id, RANGES_NOTE, note_at(slot)) < 0)
		return 0;
	if (!path_is_name(id))
		return 1;
	if (path_has(r->sandboxes_fd, id) ||
	    path_has(r->kept_fd, id))
		return 0;
	if (errno != ENOENT)
		return 0;
	/* its files are in an archive, and still belong to these ids (manager/service/workspace.c) */
	snprintf(path, sizeof(path), "manager/archived/%s", id);
	return !path_has(r->state_fd, path) && errno == ENOENT;
}

int ranges_note(const struct registry *r, const struct claim *c, struct err *e)
{
	const struct range_note text = note_of(c->id, c->promise, c->inner);
	autoclose int fd = ranges_open(r, e);

	return fd < 0 ? -1 : write_range_note(fd, claim_slot(c), &text, e);
}

int ranges_stand(int notes_fd, const struct claim *c, const struct standing *s)
{
	const size_t at = offsetof(struct range_note, standing);
	struct range_note told = { .version = 0 };
	uint64_t since;

	if (s) {
		told.standing = STANDING_TOLD | (s->is_main ? STANDING_MAIN : 0) |
				s->sessions << STANDING_SESSIONS;
		since = (uint64_t)s->turn << STANDING_TURN | s->since_ms;
		told.since[0] = (uint32_t)since;
		told.since[1] = (uint32_t)(since >> 32);
	}
	return pwrite(notes_fd, (char *)&told + at, sizeof(told) - at,
		      note_at(claim_slot(c)) + (off_t)at) < 0 ? -1 : 0;
}

int ranges_standing(const struct range_note *n, struct standing *ret)
{
	const uint64_t since = (uint64_t)n->since[1] << 32 | n->since[0];

	if (!(n->standing & STANDING_TOLD))
		return 0;
	*ret = (struct standing){ .is_main = (n->standing & STANDING_MAIN) != 0,
				  .sessions = n->standing >> STANDING_SESSIONS,
				  .since_ms = since & ((UINT64_C(1) << STANDING_TURN) - 1),
				  .turn = (uint16_t)(since >> STANDING_TURN) };
	return 1;
}

/* The reasons why no slot of [ids] was free. */
struct taken {
	unsigned own, others, subs;
	const struct hostids_place *place;
	const struct hostids_sub *sub;
};

static int none_left(const struct registry *r, const struct claim *c, const struct taken *t, struct err *e)
{
	char places[160] = "", subs[80] = "";

	/* tenants must not learn how many sandboxes others have */
	if (c->promise && c->promise->tenant[0])
		return err_set(e, ERR_LIMIT, "the host's limit of sandboxes is reached; hint: retry "
			       "later, or raise [ids] count in berth.toml");
	if (t->place)
		snprintf(places, sizeof(places), ", %u of them by other state directories (%.100s)", t->others, t->place->path);
	if (t->sub)
		snprintf(subs, sizeof(subs), ", %u of them by %s ('%.32s')", t->subs, t->sub->is_group ? "/etc/subgid" : "/etc/subuid",
			 t->sub->who);
	err_set(e, ERR_LIMIT, "all %u id ranges from %u on are taken%s%s", r->config->id_count, r->config->id_base, places, subs);
	return t->own || t->others ? err_hint(e, "remove sandboxes, or raise [ids] count") :
				     err_hint(e, "set another [ids] base, or leave it out");
}

/* Locks the slot if it is free: 1 with the lock, 0, -1. */
static int try_slot(struct registry *r, const struct hostids *h, int fd, uint32_t slot, struct taken *t, int *ret_lock, struct err *e)
{
	const struct hostids_sub *sub = hostids_sub_of(h, slot);
	const struct hostids_place *place;
	autoclose int lock = -1;
	int failed;

	if (hostids_is_foreign(slot))
		return 0;
	if (sub) {
		t->sub = sub;
		t->subs++;
		return 0;
	}
	if (!is_slot_free(r, fd, slot)) {
		t->own++;
		return 0;
	}
	lock = lock_slot(r, h, slot, e);
	if (lock < 0 && e->code != ERR_BUSY)
		return -1;
	place = hostids_other(h, slot, 0, &failed, e);
	if (place) {
		t->place = place;
		t->others++;
	} else if (lock < 0) {
		t->own++;
	}
	if (failed || place || lock < 0)
		return failed;
	*ret_lock = take_fd(&lock);
	return 1;
}

/* A random place to start makes the search O(1) and reuse of a range late. */
static int take_free_slot(struct registry *r, const struct hostids *h, struct claim *c, struct err *e)
{
	const struct range_note text = note_of(c->id, c->promise, c->inner);
	uint32_t count = r->config->id_count, start, i;
	autoclose int fd = ranges_open(r, e);
	struct taken taken = { .own = 0 };

	if (fd < 0)
		return -1;
	if (getrandom(&start, sizeof(start), 0) != (ssize_t)sizeof(start))
		start = (uint32_t)getpid();
	for (i = 0; i < count; i++) {
		uint32_t slot = r->config->id_base / SPEC_IDS + (start % count + i) % count;
		autoclose int lock = -1;
		int result = try_slot(r, h, fd, slot, &taken, &lock, e);

		if (result == 0)
			continue;
		if (result < 0 || write_range_note(fd, slot, &text, e) < 0)
			return -1;
		c->slot_fd = take_fd(&lock);
		c->id_base = slot * SPEC_IDS;
		return 0;
	}
	return none_left(r, c, &taken, e);
}

int ranges_take(struct registry *r, struct claim *c, struct err *e)
{
	struct hostids h;
	int result = hostids_open(&h, r, e);

	if (result == 0)
		result = take_free_slot(r, &h, c, e);
	hostids_close(&h);
	return result;
}

int ranges_remember(struct registry *r, const struct claim *c, struct err *e)
{
	autoclose int dir = openat(r->kept_fd, c->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char text[16];

	snprintf(text, sizeof(text), "%u", c->id_base);
	return dir < 0 ? err_sys(e, "open the directory of sandbox %s", c->id) :
			 io_replace_file(dir, OWN_NAME, text, strlen(text), 0600, 0, e);
}

/*
 * Locks the slot of a sandbox that is to run again. Its files have these ids whatever [ids] says by
 * now. A stopped sandbox of another state directory, made by an older berth, may have them too:
 * only one of the two runs at a time.
 */
static int lock_again(struct registry *r, uint32_t slot, struct err *e)
{
	const struct hostids_place *place;
	autoclose int lock = -1;
	struct hostids h;
	int failed = 0;

	if (hostids_open(&h, r, e) == 0) {
		lock = lock_slot(r, &h, slot, e);
		/* an older process of this sandbox lets go of the lock last: the caller tries again after ERR_BUSY */
		place = lock >= 0 || e->code == ERR_BUSY ? hostids_other(&h, slot, 1, &failed, e) : NULL;
		if (place)
			err_set(e, ERR_LIMIT, "a sandbox of the state directory %.200s runs with the same ids, from %u on; hint: stop it "
				"first", place->path, slot * SPEC_IDS);
		if (place || failed)
			fd_close(&lock);
	}
	hostids_close(&h);
	return take_fd(&lock);
}

int ranges_retake(struct registry *r, struct claim *c, struct err *e)
{
	autobuf struct buf b = BUF_INIT(16);
	struct range_note text, old = { .version = 0 };
	autoclose int fd = -1, lock = -1;
	char path[80];
	uint64_t base;
	uint32_t slot;

	snprintf(path, sizeof(path), "%s/" OWN_NAME, c->id);
	if (io_read_file(r->kept_fd, path, &b, e) < 0 ||
	    num_u64(b.data ? b.data : "", path, SPEC_IDS, UINT32_MAX - SPEC_IDS, &base, e) < 0)
		return -1;
	if (base % SPEC_IDS)
		return err_set(e, ERR_CORRUPT, "the ids of sandbox %s begin at %llu, which is not a multiple "
						 "of %u", c->id,
			       (unsigned long long)base, SPEC_IDS);
	slot = (uint32_t)base / SPEC_IDS;
	fd = ranges_open(r, e);
	if (fd < 0 || (lock = lock_again(r, slot, e)) < 0)
		return -1;
	/* the promise stays recorded; the state of the dead sandbox does not */
	text = note_of(c->id, c->promise, c->inner);
	if (pread(fd, &old, sizeof(old), note_at(slot)) == (ssize_t)sizeof(old) &&
	    !memcmp(old.id, text.id, sizeof(old.id)) && ranges_kind(&old) == RANGES_PROMISED) {
		text = old;
		text.standing = 0;
	} else {
		old.standing = STANDING_TOLD;
	}
	if (old.standing && write_range_note(fd, slot, &text, e) < 0)
		return -1;
	c->slot_fd = take_fd(&lock);
	c->id_base = (uint32_t)base;
	return 0;
}

int ranges_move(struct registry *r, const char *id, int dirfd, uint32_t *ret_from, uint32_t *ret_to, struct err *e)
{
	struct claim c = { .dir_fd = -1, .slot_fd = -1 };
	autobuf struct buf b = BUF_INIT(16);
	char text[16];
	uint64_t base;

	snprintf(c.id, sizeof(c.id), "%s", id);
	if (io_read_file(dirfd, OWN_NAME, &b, e) < 0 || num_u64(b.data ? b.data : "", OWN_NAME, 1, UINT32_MAX, &base, e) < 0 ||
	    ranges_take(r, &c, e) < 0)
		return -1;
	fd_close(&c.slot_fd);	/* from here on the note and the directory reserve it */
	snprintf(text, sizeof(text), "%u", c.id_base);
	*ret_from = (uint32_t)base;
	*ret_to = c.id_base;
	return io_replace_file(dirfd, OWN_NAME, text, strlen(text), 0600, 0, e);
}

/* The slot of the first note: most of the file before it is a hole. */
static uint32_t first_slot(int fd)
{
	off_t at = lseek(fd, 0, SEEK_DATA);

	return at < 0 ? 0 : (uint32_t)(at / RANGES_NOTE);
}

static int read_all_ranges(struct registry *r, int *ret_fd, uint32_t *ret_first, struct range_note **ret, size_t *ret_count, struct err *e)
{
	autoclose int fd = ranges_open(r, e);

	if (fd < 0)
		return -1;
	*ret_first = first_slot(fd);
	if (read_range_notes(fd, *ret_first, ret, ret_count, e) < 0)
		return -1;
	*ret_fd = take_fd(&fd);
	return 0;
}

int ranges_each(struct registry *r, void (*each)(void *ctx, const struct range_note *n), void *ctx, struct err *e)
{
	autoclose int fd = ranges_open(r, e);
	struct range_note some[NOTES_AT_ONCE];
	uint32_t slot = fd < 0 ? 0 : first_slot(fd);
	ssize_t got = 0;
	size_t i;

	if (fd < 0)
		return -1;
	/* no more slots than these exist, even if the file is longer */
	for (; slot < HOSTIDS_SLOTS; slot += NOTES_AT_ONCE) {
		got = pread(fd, some, sizeof(some), note_at(slot));
		for (i = 0; got > 0 && i < (size_t)got / RANGES_NOTE; i++)
			each(ctx, &some[i]);
		if (got < (ssize_t)sizeof(some))
			break;
	}
	return got < 0 ? err_sys(e, "read the record of id ranges") : 0;
}

int ranges_read(struct registry *r, struct range_note **ret, size_t *ret_count, struct err *e)
{
	autoclose int fd = -1;
	uint32_t first;

	return read_all_ranges(r, &fd, &first, ret, ret_count, e);
}

/* Reads the note in a slot: 1 if the sandbox has it as its own, 0, -1. */
static int read_own_note(int fd, uint32_t slot, const char id[sizeof(((struct range_note *)0)->id)], struct range_note *ret, struct err *e)
{
	const ssize_t got = pread(fd, ret, sizeof(*ret), note_at(slot));

	if (got < 0)
		return err_sys(e, "read id range %u", slot);
	return got == (ssize_t)sizeof(*ret) && ranges_kind(ret) != RANGES_INNER && !memcmp(ret->id, id, sizeof(ret->id));
}

static int search_own_note(int fd, const struct range_note *own, uint32_t *ret_slot, struct range_note *ret, struct err *e)
{
	const uint32_t first = first_slot(fd);
	struct range_note *all = NULL;
	size_t count, i;

	if (read_range_notes(fd, first, &all, &count, e) < 0)
		return -1;
	for (i = 0; i < count && (ranges_kind(&all[i]) == RANGES_INNER || memcmp(all[i].id, own->id, sizeof(own->id))); i++)
		;
	if (i < count) {
		*ret = all[i];
		*ret_slot = first + (uint32_t)i;
	}
	free(all);
	return i < count;
}

int ranges_find(struct registry *r, const char *id, struct range_place *ret, struct err *e)
{
	const struct range_note own = note_of(id, NULL, 0);
	struct range_place at = { .notes_fd = ranges_open(r, e) };
	int found;

	if (at.notes_fd < 0)
		return -1;
	/* the directory of a lasting sandbox says where: one note is read, and not all of the host's */
	at.slot = remembered(r, id) / SPEC_IDS;
	found = at.slot ? read_own_note(at.notes_fd, at.slot, own.id, &at.note, e) : 0;
	if (found == 0)
		found = search_own_note(at.notes_fd, &own, &at.slot, &at.note, e);
	if (found > 0) {
		*ret = at;
		return 0;
	}
	close(at.notes_fd);
	return found < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "sandbox %s has no range of ids", id);
}

int ranges_promise(const struct range_place *at, const struct promise *p, struct err *e)
{
	struct range_note text = note_of(at->note.id, p, 0);
	struct promise known = *p;

	if (p->disk_bytes == PROMISE_SAME && at->note.version & RANGES_DISK) {
		known.disk_bytes = ranges_disk(&at->note, 0);
		text = note_of(at->note.id, &known, 0);
	}
	if (!p->tenant[0])
		memcpy(text.tenant, at->note.tenant, sizeof(text.tenant));
	/* the state behind these stays true, too */
	if (!memcmp(&text, &at->note, offsetof(struct range_note, standing)))
		return 0;
	return write_range_note(at->notes_fd, at->slot, &text, e);
}
