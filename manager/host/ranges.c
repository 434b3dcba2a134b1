/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S3 of SECURITY.md. */
#include "manager/host/ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "runtime/sandbox/spec.h"

#define FILE_NAME "ranges"	/* below ids_fd */
#define OWN_NAME "range"	/* in a lasting sandbox's directory: its first host id */

static off_t note_at(uint32_t n)
{
	return (off_t)n * RANGES_NOTE;
}

static uint64_t fnv(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
	return h;
}

void ranges_tenant(const char *name, uint64_t ret[2])
{
	/* two bases: names come from the operator's file of tokens, and none of its names is another by accident */
	ret[0] = name[0] ? fnv(UINT64_C(14695981039346656037), name) : 0;
	ret[1] = name[0] ? fnv(UINT64_C(0x6265727468642121), name) : 0;
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
	n.cpu_milli = p->cpu_milli;
	ranges_tenant(p->tenant, n.tenant);
	n.version = inner ? RANGES_INNER : RANGES_PROMISED;
	return n;
}

int ranges_open(const struct registry *r, struct err *e)
{
	int fd = openat(r->ids_fd, FILE_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOATIME, 0600);

	return fd < 0 ? err_sys(e, "open the record of id ranges") : fd;
}

/* Supervisors of an older berth lock the byte in the file of notes itself. */
static int check_old_lock(int notes_fd, uint32_t n, struct err *e)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = n, .l_len = 1 };

	if (fcntl(notes_fd, F_OFD_GETLK, &l) < 0)
		return err_sys(e, "look at the lock of id range %u", n);
	return l.l_type == F_UNLCK ? 0 : err_set(e, ERR_BUSY, "id range %u is locked", n);
}

/*
 * The descriptor that holds the lock; ERR_BUSY while another process does. Each claim opens its
 * file anew: a lock belongs to the open file description, and ends with its last descriptor.
 */
static int lock_range(const struct registry *r, int notes_fd, uint32_t n, struct err *e)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = n, .l_len = 1 };
	autoclose int fd = -1;
	char name[24];

	if (check_old_lock(notes_fd, n, e) < 0)
		return -1;
	snprintf(name, sizeof(name), "locks-%u", n % RANGES_LOCK_FILES);
	fd = openat(r->ids_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "open the lock of id range %u", n);
	if (fcntl(fd, F_OFD_SETLK, &l) < 0)
		return err_code_sys(e, errno == EAGAIN || errno == EACCES ? ERR_BUSY : ERR_SYS,
				    "lock id range %u", n);
	return take_fd(&fd);
}

static int is_free(struct registry *r, int fd, uint32_t n)
{
	char id[RANGES_NOTE + 1] = "", path[RANGES_NOTE + 32];

	if (pread(fd, id, RANGES_NOTE, note_at(n)) < 0)
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

static int note(int fd, uint32_t n, const struct range_note *text, struct err *e)
{
	if (pwrite(fd, text, sizeof(*text), note_at(n)) != (ssize_t)sizeof(*text))
		return err_sys(e, "record id range %u", n);
	return 0;
}

int ranges_note(const struct registry *r, const struct claim *c, struct err *e)
{
	const struct range_note text = note_of(c->id, c->promise, c->inner);
	autoclose int fd = ranges_open(r, e);

	return fd < 0 ? -1 : note(fd, (c->id_base - r->config->id_base) / SPEC_IDS, &text, e);
}

int ranges_stand(const struct registry *r, int notes_fd, const struct claim *c,
		 const struct standing *s)
{
	const uint32_t n = (c->id_base - r->config->id_base) / SPEC_IDS;
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
		      note_at(n) + (off_t)at) < 0 ? -1 : 0;
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

/* A random place to start makes the search O(1) and reuse of a range late. */
int ranges_take(struct registry *r, struct claim *c, struct err *e)
{
	uint32_t count = r->config->id_count, start, i;
	autoclose int fd = ranges_open(r, e);
	struct range_note text;

	if (fd < 0)
		return -1;
	if (getrandom(&start, sizeof(start), 0) != (ssize_t)sizeof(start))
		start = (uint32_t)getpid();
	text = note_of(c->id, c->promise, c->inner);
	for (i = 0; i < count; i++) {
		uint32_t n = (start % count + i) % count;
		autoclose int lock = -1;

		if (!is_free(r, fd, n))
			continue;
		lock = lock_range(r, fd, n, e);
		if (lock < 0 && e->code == ERR_BUSY)
			continue;
		if (lock < 0 || note(fd, n, &text, e) < 0)
			return -1;
		c->slot_fd = take_fd(&lock);
		c->id_base = r->config->id_base + n * SPEC_IDS;
		return 0;
	}
	return err_set(e, ERR_LIMIT, "all %u id ranges are taken; hint: remove sandboxes, or raise [ids] count", count);
}

int ranges_remember(struct registry *r, const struct claim *c, struct err *e)
{
	autoclose int dir = openat(r->kept_fd, c->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char text[16];

	snprintf(text, sizeof(text), "%u", c->id_base);
	return dir < 0 ? err_sys(e, "open the directory of sandbox %s", c->id) :
			 io_replace_file(dir, OWN_NAME, text, strlen(text), 0600, 0, e);
}

int ranges_retake(struct registry *r, struct claim *c, struct err *e)
{
	autobuf struct buf b = BUF_INIT(16);
	struct range_note text, old;
	autoclose int fd = -1, lock = -1;
	char path[80];
	uint64_t base;
	uint32_t n;

	snprintf(path, sizeof(path), "%s/" OWN_NAME, c->id);
	if (io_read_file(r->kept_fd, path, &b, e) < 0 || num_u64(b.data ? b.data : "", path, 1, UINT32_MAX, &base, e) < 0)
		return -1;
	n = ((uint32_t)base - r->config->id_base) / SPEC_IDS;
	if (base < r->config->id_base || n >= r->config->id_count || r->config->id_base + n * SPEC_IDS != base)
		return err_set(e, ERR_CONFIG, "the files of sandbox %s belong to ids from %llu on, which [ids] no longer covers; "
			       "hint: set base and count as they were", c->id, (unsigned long long)base);
	fd = ranges_open(r, e);
	if (fd < 0 || (lock = lock_range(r, fd, n, e)) < 0)
		return -1;
	/* the promise stays recorded; the state of the dead sandbox does not */
	text = note_of(c->id, c->promise, c->inner);
	if (pread(fd, &old, sizeof(old), note_at(n)) == (ssize_t)sizeof(old) &&
	    !memcmp(old.id, text.id, sizeof(old.id)) && old.version == RANGES_PROMISED) {
		text = old;
		text.standing = 0;
	} else {
		old.standing = STANDING_TOLD;
	}
	if (old.standing && note(fd, n, &text, e) < 0)
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
	fd_close(&c.slot_fd);	/* from here on the note and the directory keep it */
	snprintf(text, sizeof(text), "%u", c.id_base);
	*ret_from = (uint32_t)base;
	*ret_to = c.id_base;
	return io_replace_file(dirfd, OWN_NAME, text, strlen(text), 0600, 0, e);
}

int ranges_read(struct registry *r, struct range_note **ret, size_t *ret_count, struct err *e)
{
	autoclose int fd = ranges_open(r, e);
	struct range_note *all;
	struct stat st;
	ssize_t got;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "read the record of id ranges");
	/* [ids] count cannot be more (config.c), even if the file is longer */
	if (st.st_size > (off_t)65536 * RANGES_NOTE)
		st.st_size = (off_t)65536 * RANGES_NOTE;
	all = calloc(1, (size_t)st.st_size + RANGES_NOTE);
	if (!all)
		return err_nomem(e);
	got = pread(fd, all, (size_t)st.st_size, 0);
	if (got < 0) {
		free(all);
		return err_sys(e, "read the record of id ranges");
	}
	*ret = all;
	*ret_count = ((size_t)got + RANGES_NOTE - 1) / RANGES_NOTE;
	return 0;
}

int ranges_promise(struct registry *r, const char *id, const struct promise *p, struct err *e)
{
	struct range_note text = note_of(id, p, 0), *all = NULL;
	autoclose int fd = ranges_open(r, e);
	size_t count, i;

	if (fd < 0 || ranges_read(r, &all, &count, e) < 0)
		return -1;
	for (i = 0; i < count && (all[i].version == RANGES_INNER ||
				  memcmp(all[i].id, text.id, sizeof(text.id))); i++)
		;
	if (i < count && !p->tenant[0])
		memcpy(text.tenant, all[i].tenant, sizeof(text.tenant));
	free(all);
	return i < count ? note(fd, (uint32_t)i, &text, e) : err_set(e, ERR_NOT_FOUND, "sandbox %s has no range of ids", id);
}
