/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep - finds and clears what dead supervisors left. Upholds S11 of SECURITY.md.
 */
#include "manager/host/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/getdents.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/checkpoint.h"
#include "manager/host/journal.h"
#include "manager/host/names.h"
#include "manager/host/netmembers.h"
#include "manager/host/record.h"
#include "runtime/kernel/cgroup.h"

#define DYING "dying"	/* beside the record of a dead supervisor: a process waited in vain for its
			 * processes */
#define DYING_MS 1000
#define SWEPT "swept"	/* below run_dir: how far commands on the hot path have looked, struct turn */
#define LOOK_AT 8	/* sandboxes, by a command on the hot path */

/* Tells whether fd is still the directory of that id: its owner removes it before it releases the lock. */
static int is_place(struct registry *r, const char *id, int fd)
{
	struct stat mine, there;

	return fstat(fd, &mine) == 0 && fstatat(r->sandboxes_fd, id, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

/*
 * Takes the lock of a sandbox whose supervisor is dead: its fd; -1 with ERR_BUSY while it lives,
 * ERR_NOT_FOUND when its place has gone, or is another's by now.  The registry is locked.
 */
static int lock_dead(struct registry *r, const char *id, struct err *e)
{
	autoclose int fd = openat(r->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open the record of sandbox %s", id);
	/* its supervisor runs, or is_held() looks at it for a moment */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 &&
	    (errno != EWOULDBLOCK || flock(fd, LOCK_SH | LOCK_NB) < 0 || flock(fd, LOCK_EX) < 0))
		return err_code_sys(e, errno == EWOULDBLOCK ? ERR_BUSY : ERR_SYS, "lock sandbox %s", id);
	return is_place(r, id, fd) ?
		       take_fd(&fd) :
		       err_set(e, ERR_NOT_FOUND, "the place of sandbox %s is gone", id);
}

/*
 * Tells whether a process holds the lock of a sandbox, without the lock of the registry. After 0
 * ask lock_dead(): the sandbox may just be being made.
 */
static int is_held(struct registry *r, const char *id)
{
	autoclose int fd = openat(r->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? errno == ENOENT : flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/*
 * A lasting sandbox whose making or removal was interrupted: no command can name it, but it
 * counts.  A record without a byte is what a power cut left of one that was to be removed at its
 * end (record_save_kept()).
 */
static int is_unfinished(struct registry *r, const char *id)
{
	return (!record_is_there(r->kept_fd, id) && errno == ENOENT) ||
	       record_is_empty(r->kept_fd, id);
}

/*
 * Kills its processes and waits ms for them. If the kernel needs longer (a driver in D state,
 * thousands of files to close), the first process to notice records it, and others, such as an
 * unrelated run, do not wait for it again.
 */
static int end_of_dead(struct registry *r, const char *id, unsigned ms, struct cgroup *cg, struct err *e)
{
	autoclose int note = -1;
	char path[100];

	if (cgroup_destroy_within(cg, ms, e) == 0)
		return 0;
	if (e->code != ERR_TIMEOUT)
		return -1;
	snprintf(path, sizeof(path), "%s/" DYING, id);
	note = openat(r->sandboxes_fd, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return err_set(e, ERR_TIMEOUT, "processes of sandbox %s do not end, though they were killed: the kernel is at it; hint: berth gc later", id);
}

static int is_dying(struct registry *r, const char *id)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/" DYING, id);
	return path_has(r->sandboxes_fd, path);
}

/* Thaws its files: its processes cannot end while these are frozen for a checkpoint that was killed, too. */
static void thaw_left(struct registry *r, const char *id)
{
	autoclose int box = openat(r->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (box >= 0)
		checkpoint_thaw_left(box);
}

static int clear_dead_sandbox(struct registry *r, const char *id, unsigned ms, struct err *e)
{
	struct cgroup cg;
	int result;

	thaw_left(r, id);
	result = cgroup_open(&cg, r->config->cgroup_parent, id, e);
	if (result == 0)
		result = end_of_dead(r, id, ms, &cg, e);
	cgroup_release(&cg);
	if (result == 0)
		result = netclear_one(r, id, e);
	if (result < 0 || (is_unfinished(r, id) && registry_remove_kept(r, id, e) < 0))
		return -1;
	/* a lasting sandbox keeps its name, and can be started again */
	if (!path_has(r->kept_fd, id) && names_drop(r, id, e) < 0)
		return -1;
	return path_remove_tree(r->sandboxes_fd, id, e);
}

static void tell_death(struct registry *r, const char *id)
{
	if (path_has(r->kept_fd, id))
		events_add(r, "die", id, json_pack("{s:s}", "reason", "its keeper ended; what it left was removed"));
}

/*
 * The lock of one that is dead.  While a checkpoint has the layer stand still, its process holds
 * the lock beyond the keeper's end: for that it waits.
 */
static int lock_left(struct registry *r, const char *id, unsigned ms, struct err *e)
{
	const uint64_t end = clock_ms() + ms;
	int lock;

	for (;;) {
		if (registry_lock(r, e) < 0)
			return -1;
		lock = lock_dead(r, id, e);
		registry_unlock(r);
		if (lock >= 0 || e->code != ERR_BUSY || clock_ms() >= end ||
		    !checkpoint_copies(r->kept_fd, id))
			return lock;
		nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
	}
}

int registry_clear_dead(struct registry *r, const char *id, unsigned ms, int newer_too, struct err *e)
{
	autoclose int lock = lock_left(r, id, ms, e);

	if (lock < 0)
		return e->code == ERR_BUSY || e->code == ERR_NOT_FOUND ? 0 : -1;
	if ((!newer_too && record_check_format(r, id, e) < 0) || clear_dead_sandbox(r, id, ms, e) < 0)
		return -1;
	tell_death(r, id);
	return 1;
}

struct gc {
	struct registry *r;
	struct err *e;
	unsigned cleared;
	int failed;
	int (*report)(void *ctx, const char *id);	/* dry run */
	void *report_ctx;
};

static int gc_dead_sandbox(void *ctx, const char *id)
{
	struct gc *g = ctx;
	struct err mine;
	autoclose int lock = -1;

	if (is_held(g->r, id))
		return 0;
	if (registry_lock(g->r, g->e) < 0)
		return -1;
	lock = lock_dead(g->r, id, &mine);
	registry_unlock(g->r);
	if (lock < 0)
		return 0;	/* alive, or gone meanwhile */
	if (record_check_format(g->r, id, &mine) < 0)
		return 0;	/* a newer berth may have left more than we know of: rm --force */
	if (g->report)
		return g->report(g->report_ctx, id);
	if (clear_dead_sandbox(g->r, id, is_dying(g->r, id) ? 0 : DYING_MS, &mine) < 0) {
		*g->e = mine;
		g->failed = 1;	/* go on: the others can still be cleared */
		return 0;
	}
	tell_death(g->r, id);
	g->cleared++;
	return 0;
}

/* A part of a lasting sandbox, where nothing else points to it any more. */
static int is_left_half(struct registry *r, const char *id)
{
	return is_unfinished(r, id) && !path_has(r->sandboxes_fd, id);
}

/* Removes the remains of an interrupted removal below state_dir. */
static int gc_kept(void *ctx, const char *id)
{
	struct gc *g = ctx;
	struct err mine;
	int left;

	/* a sandbox that is being made has no record either: its lock tells them apart */
	if (!is_left_half(g->r, id))
		return 0;
	if (registry_lock(g->r, g->e) < 0)
		return -1;
	left = is_left_half(g->r, id);
	registry_unlock(g->r);
	if (!left)
		return 0;
	if (g->report)
		return g->report(g->report_ctx, id);
	if (registry_remove_kept(g->r, id, &mine) < 0 || names_drop(g->r, id, &mine) < 0) {
		*g->e = mine;
		g->failed = 1;
		return 0;
	}
	g->cleared++;
	return 0;
}

void sweep_one(struct registry *r, const char *id)
{
	struct err ignored;
	struct gc g = { .r = r, .e = &ignored };

	gc_dead_sandbox(&g, id);
}

void sweep_kept(struct registry *r, const char *id)
{
	struct err ignored;
	struct gc g = { .r = r, .e = &ignored };

	gc_kept(&g, id);
}

static int gc_all(struct gc *g)
{
	return registry_each(g->r->sandboxes_fd, gc_dead_sandbox, g, g->e) < 0 ? -1 :
	       registry_each(g->r->kept_fd, gc_kept, g, g->e);
}

int registry_gc(struct registry *r, unsigned *ret_cleared, struct err *e)
{
	struct gc g = { .r = r, .e = e };
	int result = gc_all(&g);

	*ret_cleared = g.cleared;
	return result < 0 || g.failed ? -1 : 0;
}

/*
 * A command on the hot path clears one leftover, or looks at LOOK_AT sandboxes. If it looked at
 * none, a host that runs only short commands would keep all leftovers; if it looked at more, its
 * cost would grow with the number of sandboxes. Each command continues where the previous one
 * stopped.
 */
struct turn {
	int64_t at[2];	/* offsets for lseek(2): in run_dir/sandboxes, in state_dir/sandboxes */
};

struct some {
	struct gc g;
	int (*look)(void *ctx, const char *id);
	unsigned left;	/* sandboxes that are still to be looked at */
};

static int look_at_some(struct some *s, const char *id)
{
	s->left--;
	/* a failure is left to others */
	if (path_is_name(id) && s->look(&s->g, id) < 0)
		return -1;
	return s->g.cleared || !s->left;
}

/* Looks on from *at, which advances, or returns to 0 at the end of the directory. */
static void look_on(struct some *s, int dirfd, int64_t *at)
{
	autoclose int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(struct getdents) char list[1024];
	long n = 0, next;

	/*
	 * a position recorded for another directory, for example before a boot, may be invalid
	 * in this one
	 */
	if (fd >= 0 && (!*at || lseek(fd, *at, SEEK_SET) >= 0))
		while ((n = getdents_read(fd, list, sizeof(list))) > 0)
			for (next = 0; next < n;) {
				const struct getdents *d = getdents_next(list, &next);

				*at = d->off;
				if (!getdents_dots(d->name) && look_at_some(s, d->name))
					return;
			}
	*at = 0;
}

void registry_gc_some(struct registry *r)
{
	const int few = r->others <= LOOK_AT, dirs[] = { r->sandboxes_fd, r->kept_fd };
	struct err ignored;
	struct some s = { .g = { .r = r, .e = &ignored } };
	struct turn t = { .at = { 0 } };
	autoclose int fd = -1;
	unsigned i;

	if (!r->others)
		return;
	if (!few)
		fd = openat(r->run_fd, SWEPT, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && pread(fd, &t, sizeof(t), 0) != (ssize_t)sizeof(t))
		t = (struct turn){ .at = { 0 } };
	for (i = 0; i < ARRAY_LEN(dirs) && !s.g.cleared; i++) {
		s.look = i ? gc_kept : gc_dead_sandbox;
		s.left = few ? LOOK_AT : LOOK_AT / 2;
		look_on(&s, dirs[i], &t.at[i]);
	}
	if (fd >= 0 && pwrite(fd, &t, sizeof(t), 0) < 0)
		return;	/* the next call looks at the same sandboxes */
}

int registry_gc_dry(struct registry *r, int (*each)(void *ctx, const char *id), void *ctx, struct err *e)
{
	struct gc g = { .r = r, .e = e, .report = each, .report_ctx = ctx };

	return gc_all(&g);
}

/* ---- the parent cgroups ---- */

static int one_is_enough(void *ctx, const char *name)
{
	(void)ctx;
	return path_is_name(name);
}

int parentclear(struct registry *r, struct err *e)
{
	/* a description of its own: the lock goes with it */
	autoclose int fd = openat(r->sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = 0, found;

	if (fd < 0)
		return err_sys(e, "open the registry of sandboxes");
	/* a claim makes the sandbox's directory under this lock, before anything looks at a cgroup */
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the registry of sandboxes");
	found = path_each_entry(fd, one_is_enough, NULL, &failed);
	if (failed)
		return err_sys(e, "read the registry of sandboxes");
	if (!found)
		cgroup_remove_parent(r->config->cgroup_parent);
	return 0;
}
