/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S11 of SECURITY.md. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/checkpoint.h"
#include "manager/host/names.h"
#include "manager/host/promise.h"
#include "manager/host/ranges.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "runtime/sandbox/layerhome.h"

/* ---- the directory below run_dir, and the spare one ---- */

#define SPARE "spare"	/* below run_dir */

static int is_other(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, RECORD_FILE) != 0;
}

/* A directory at its start: nothing in it but perhaps a record, which says nothing yet or no more. */
static int is_clean(int dirfd)
{
	int failed = 0;

	return path_each_entry(dirfd, is_other, NULL, &failed) == 0 && !failed;
}

static int take_spare(struct registry *r, struct claim *c)
{
	autoclose int fd = openat(r->run_fd, SPARE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_clean(fd) ||
	    renameat2(r->run_fd, SPARE, r->sandboxes_fd, c->id, RENAME_NOREPLACE) < 0)
		return -1;
	c->dir_fd = take_fd(&fd);
	return 0;
}

int rundir_take(struct registry *r, struct claim *c, struct err *e)
{
	if (take_spare(r, c) == 0)
		return 0;
	if (mkdirat(r->sandboxes_fd, c->id, 0700) < 0)
		return err_code_sys(e, errno == EEXIST ? ERR_EXISTS : ERR_SYS, "record sandbox %s", c->id);
	c->dir_fd = openat(r->sandboxes_fd, c->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c->dir_fd < 0)
		return err_sys(e, "open the record of sandbox %s", c->id);
	/* a sweep may hold it for a moment to test the lock (sweep.c) */
	while (flock(c->dir_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock sandbox %s", c->id);
	return 0;
}

int rundir_put(struct registry *r, const struct claim *c, struct err *e)
{
	if (c->dir_fd >= 0 && record_void(c->dir_fd) == 0 && !lseek(c->dir_fd, 0, SEEK_SET) && is_clean(c->dir_fd) &&
	    !renameat2(r->sandboxes_fd, c->id, r->run_fd, SPARE, RENAME_NOREPLACE))
		return 0;
	return path_remove_tree(r->sandboxes_fd, c->id, e);
}

/* ---- sandboxes are claimed and released ---- */

/* A sandbox is added to this host, made to run again, and removed.  Upholds S3 and S11 of SECURITY.md. */

#define FORGET_TRIES 1000
#define DYING_MS 1000	/* wait for the processes of a dead sandbox whose place is needed */

static int count_claimed(void *ctx, const char *name)
{
	(void)name;
	++*(unsigned *)ctx;
	return 0;
}

static void random_sandbox_id(char id[65])
{
	unsigned char raw[8];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		memset(raw, 0, sizeof(raw));	/* cannot happen for 8 bytes; mkdir says EEXIST if it does twice */
	hex_format(id, raw, 6);
}

struct counter {
	struct registry *r;
	unsigned count;
};

/* A lasting sandbox that runs has both directories and counts once. */
static int count_kept(void *ctx, const char *name)
{
	struct counter *c = ctx;

	c->count += !path_has(c->r->sandboxes_fd, name);
	return 0;
}

/*
 * The number of directories in dirfd, from its link count, which includes the ".." of each; -1
 * if the file system does not count them (btrfs, many on ext4).
 */
static int count_links(int dirfd)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(dirfd, &fs) < 0 || (fs.f_type != EXT4_SUPER_MAGIC && fs.f_type != TMPFS_MAGIC && fs.f_type != XFS_SUPER_MAGIC))
		return -1;
	return fstat(dirfd, &st) == 0 && st.st_nlink >= 2 ? (int)(st.st_nlink - 2) : -1;
}

static int count_in(int dirfd, unsigned *ret, struct err *e)
{
	int links = count_links(dirfd);

	*ret = links < 0 ? 0 : (unsigned)links;
	return links < 0 && registry_each(dirfd, count_claimed, ret, e) < 0 ? -1 : 0;
}

/* Checks that one more sandbox may run: each directory below sandboxes_fd is a running sandbox. */
static int check_running_limit(struct registry *r, unsigned *ret_running, struct err *e)
{
	if (count_in(r->sandboxes_fd, ret_running, e) < 0)
		return -1;
	if (*ret_running >= r->config->max_sandboxes)
		return err_set(e, ERR_LIMIT, "%u sandboxes run, the limit is %llu; hint: stop or remove some (berth ps), or raise "
			       "[manager] max_sandboxes", *ret_running, (unsigned long long)r->config->max_sandboxes);
	return 0;
}

/*
 * A sandbox that stays when it stops is made only while few enough are stopped, so a stop needs
 * no room.
 */
static int check_sandbox_limits(struct registry *r, int lasting, struct err *e)
{
	struct counter stopped = { r, 0 };
	unsigned running, lasting_ones;

	if (check_running_limit(r, &running, e) < 0 || count_in(r->kept_fd, &lasting_ones, e) < 0)
		return -1;
	r->others = running + lasting_ones;
	/* running sandboxes are among them; each is looked at only if it matters */
	if (!lasting || lasting_ones < r->config->max_stopped)
		return 0;
	if (registry_each(r->kept_fd, count_kept, &stopped, e) < 0)
		return -1;
	if (stopped.count >= r->config->max_stopped)
		return err_set(e, ERR_LIMIT, "%u stopped sandboxes exist, the limit is %llu; hint: remove some (berth ps -a), or raise "
			       "[manager] max_stopped", stopped.count, (unsigned long long)r->config->max_stopped);
	return 0;
}

int registry_bring_back(struct registry *r, int dir, const char *from, const char *id, const struct promise *p, struct err *e)
{
	struct range_place at = { .notes_fd = -1 };
	int result = registry_lock(r, e);

	if (result < 0)
		return -1;
	result = check_sandbox_limits(r, 0, e) < 0 || promise_fits(r, p, NULL, e) < 0 || ranges_find(r, id, &at, e) < 0 ||
		 ranges_promise(&at, p, e) < 0 ? -1 : 0;
	fd_close(&at.notes_fd);
	if (result == 0 && renameat2(dir, from, r->kept_fd, id, RENAME_NOREPLACE) < 0)
		result = err_sys(e, "bring back the files of sandbox %s", id);
	registry_unlock(r);
	return result;
}

static int claim_locked(struct registry *r, const char *name, int lasting, struct claim *c, struct err *e)
{
	if (check_sandbox_limits(r, lasting, e) < 0) {
		/* tenants must not learn how many sandboxes others have */
		if (c->promise && c->promise->tenant[0] && e->code == ERR_LIMIT)
			err_set(e, ERR_LIMIT, "the host's limit of sandboxes is reached; hint: retry "
				"later, or raise [manager] max_sandboxes in berth.toml");
		return -1;
	}
	if (c->promise && promise_fits(r, c->promise, NULL, e) < 0)
		return -1;
	random_sandbox_id(c->id);
	if (rundir_take(r, c, e) < 0) {
		if (c->dir_fd < 0)
			c->id[0] = '\0';	/* it was never ours: undoing must not remove another's */
		return -1;
	}
	if (ranges_take(r, c, e) < 0)
		return -1;
	if (lasting && mkdirat(r->kept_fd, c->id, 0700) < 0)
		return err_sys(e, "make the directory of sandbox %s", c->id);
	c->lasting = lasting;
	if (lasting && ranges_remember(r, c, e) < 0)
		return -1;
	return name && name[0] ? names_take(r, c, name, e) : 0;
}

static void undo_claim(struct registry *r, struct claim *c)
{
	struct err ignored;
	int lasting = c->lasting;
	char id[65];

	memcpy(id, c->id, sizeof(id));
	c->lasting = 0;
	registry_release(r, c, &ignored);
	if (lasting)
		registry_forget(r, id, &ignored);
}

/* Removes its checkpoints from the sums, and first the parts of its layer that are elsewhere. */
static int forget_layer(struct registry *r, const char *id, struct err *e)
{
	autoclose int box = openat(r->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (box < 0)
		return 0;
	checkpoint_forget(box);
	return layerhome_remove(box, e);
}

/* An undo that was decided, and cut short, is completed before anybody looks at the layer. */
static int settle_undo(struct registry *r, const char *id, struct err *e)
{
	autoclose int box = openat(r->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return box < 0 ? 0 : checkpoint_settle(box, e);
}

int registry_reclaim(struct registry *r, const char *id, const struct promise *p, struct claim *ret, struct err *e)
{
	struct err ignored;
	unsigned cleared, running;
	int result, tries, is_full;

	for (tries = 0; tries < 2; tries++) {
		*ret = (struct claim){ .dir_fd = -1, .slot_fd = -1, .lasting = 1, .promise = p };
		if (registry_lock(r, e) < 0)
			return -1;
		snprintf(ret->id, sizeof(ret->id), "%s", id);
		is_full = p && !path_has(r->sandboxes_fd, id) && check_running_limit(r, &running, e) < 0;
		result = is_full || rundir_take(r, ret, e) < 0 || ranges_retake(r, ret, e) < 0 ? -1 : 0;
		if (result < 0 && (is_full || e->code == ERR_EXISTS))
			/* it belongs to another sandbox or to none, so we must not undo it */
			ret->id[0] = '\0';
		registry_unlock(r);
		if (result == 0 && settle_undo(r, id, e) == 0)
			return 0;
		if (result == 0)
			break;
		if (!is_full && e->code != ERR_EXISTS)
			break;
		/*
		 * a living keeper keeps it, or its place, unless it goes at this moment; a dead
		 * one's remains are cleared
		 */
		if (is_full ? registry_gc(r, &cleared, &ignored) < 0 || !cleared :
			      registry_clear_dead(r, id, DYING_MS, 0, &ignored) != 1 &&
				      path_has(r->sandboxes_fd, id))
			return is_full ? -1 :
			       err_set(e, ERR_EXISTS, "sandbox %s is running", id);
	}
	registry_release(r, ret, &ignored);
	return -1;
}

int registry_claim(struct registry *r, const char *name, int lasting, const struct promise *p, struct claim *ret, struct err *e)
{
	struct err ignored;
	unsigned cleared;
	int result;

	*ret = (struct claim){ .dir_fd = -1, .slot_fd = -1, .promise = p };
	if (registry_lock(r, e) < 0)
		return -1;
	result = claim_locked(r, name, lasting, ret, e);
	registry_unlock(r);
	if (result < 0)
		undo_claim(r, ret);
	if (result < 0 && (e->code == ERR_LIMIT || e->code == ERR_EXISTS) &&
	    registry_gc(r, &cleared, &ignored) == 0 && cleared) {
		/* the obstacle was the remains of dead supervisors */
		if (registry_lock(r, e) < 0)
			return -1;
		*ret = (struct claim){ .dir_fd = -1, .slot_fd = -1, .promise = p };
		result = claim_locked(r, name, lasting, ret, e);
		registry_unlock(r);
		if (result < 0)
			undo_claim(r, ret);
	}
	return result;
}

int registry_claim_range(struct registry *r, const struct claim *c, const struct promise *p,
			 struct claim *ret, struct err *e)
{
	int result;

	*ret = (struct claim){ .dir_fd = -1, .slot_fd = -1, .promise = p, .inner = 1 };
	memcpy(ret->id, c->id, sizeof(ret->id));
	if (registry_lock(r, e) < 0)
		return -1;
	result = promise_fits(r, p, NULL, e) < 0 ? -1 : ranges_take(r, ret, e);
	registry_unlock(r);
	return result;
}

/* Claims within a range, so that a fork's promise is that of the range, which counts once. */
int registry_claim_within(struct registry *r, const struct claim *range, struct claim *ret,
			  struct err *e)
{
	int result;

	*ret = (struct claim){ .dir_fd = -1, .slot_fd = -1, .id_base = range->id_base,
			       .promise = range->promise };
	if (registry_lock(r, e) < 0)
		return -1;
	result = check_sandbox_limits(r, 0, e);
	if (result == 0) {
		random_sandbox_id(ret->id);
		result = rundir_take(r, ret, e) < 0 || ranges_note(r, ret, e) < 0 ? -1 : 0;
	}
	registry_unlock(r);
	if (result < 0 && ret->dir_fd < 0)
		ret->id[0] = '\0';	/* never ours */
	if (result < 0)
		undo_claim(r, ret);
	return result;
}

int registry_give_back(struct registry *r, const struct claim *range, struct err *e)
{
	return ranges_note(r, range, e);
}

void registry_abandon(struct claim *c)
{
	fd_close(&c->slot_fd);
	fd_close(&c->dir_fd);
	c->id[0] = c->name[0] = '\0';
}

int registry_release(struct registry *r, struct claim *c, struct err *e)
{
	int result = 0;

	if (c->name[0] && !c->lasting)
		unlinkat(r->names_fd, c->name, 0);
	if (c->id[0] && rundir_put(r, c, e) < 0)
		result = -1;
	/*
	 * the locks go last, so that until then no other process takes this for a leftover, or
	 * takes the range
	 */
	fd_close(&c->slot_fd);
	fd_close(&c->dir_fd);
	c->id[0] = c->name[0] = '\0';
	return result;
}

int registry_remove_kept(struct registry *r, const char *id, struct err *e)
{
	return forget_layer(r, id, e) < 0 ? -1 : path_remove_tree(r->kept_fd, id, e);
}

int registry_forget(struct registry *r, const char *id, struct err *e)
{
	int tries = 0, result;

	if (names_drop(r, id, e) < 0)
		return -1;
	names_drop_web(r, id);
	/*
	 * the record first: without it the rest is no sandbox any more for any process that looks
	 * meanwhile (sweep.c)
	 */
	record_drop_kept(r, id);
	/*
	 * this also gives up the claim to its range (ranges.h); a process that stops the sandbox
	 * may still write to its record
	 */
	while ((result = registry_remove_kept(r, id, e)) < 0 &&
	       e->os_errno == ENOTEMPTY && ++tries < FORGET_TRIES)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return result;
}
