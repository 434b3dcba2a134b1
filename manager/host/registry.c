/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S3 and S11 of SECURITY.md. */
#include "manager/host/registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/events.h"
#include "manager/host/netclear.h"
#include "manager/host/promise.h"
#include "manager/host/ranges.h"
#include "manager/host/rundir.h"
#include "runtime/kernel/cgroup.h"

#define FORGET_TRIES 1000
#define RECORD "record.json"
#define DYING "dying"	/* beside the record of a dead one: somebody waited for its processes in vain */
#define DYING_MS 1000

int registry_open(struct registry *r, const struct config *c, struct err *e)
{
	*r = (struct registry){ .config = c, .run_fd = -1, .state_fd = -1, .sandboxes_fd = -1, .names_fd = -1,
				.ids_fd = -1, .kept_fd = -1 };
	r->run_fd = path_open_private_dir(c->run_dir, e);
	if (r->run_fd < 0)
		return -1;
	r->state_fd = path_open_private_dir(c->state_dir, e);
	if (r->state_fd < 0 || (r->sandboxes_fd = path_make_dir(r->run_fd, "sandboxes", e)) < 0 ||
	    (r->names_fd = path_make_dir(r->state_fd, "names", e)) < 0 ||
	    (r->kept_fd = path_make_dir(r->state_fd, "sandboxes", e)) < 0 ||
	    (r->ids_fd = path_make_dir(r->state_fd, "ids", e)) < 0) {
		registry_close(r);
		return -1;
	}
	return 0;
}

void registry_close(struct registry *r)
{
	fd_close(&r->run_fd);
	fd_close(&r->state_fd);
	fd_close(&r->sandboxes_fd);
	fd_close(&r->names_fd);
	fd_close(&r->kept_fd);
	fd_close(&r->ids_fd);
}

static int lock_all(struct registry *r, struct err *e)
{
	while (flock(r->sandboxes_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the registry of sandboxes");
	return 0;
}

static void unlock_all(struct registry *r)
{
	flock(r->sandboxes_fd, LOCK_UN);
}

int registry_lock(struct registry *r, struct err *e)
{
	return lock_all(r, e);
}

void registry_unlock(struct registry *r)
{
	unlock_all(r);
}

struct named {
	int (*each)(void *ctx, const char *name);
	void *ctx;
};

static int only_named(void *ctx, const char *name)
{
	const struct named *n = ctx;

	return path_is_name(name) ? n->each(n->ctx, name) : 0;
}

int registry_each(int dirfd, int (*each)(void *ctx, const char *name), void *ctx, struct err *e)
{
	struct named n = { each, ctx };
	autoclose int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = 0, r = fd < 0 ? -1 : path_each_entry(fd, only_named, &n, &failed);

	return fd < 0 || failed ? err_sys(e, "read a directory of the registry") : r;
}

static int count_one(void *ctx, const char *name)
{
	(void)name;
	++*(unsigned *)ctx;
	return 0;
}

static void random_id(char id[65])
{
	unsigned char raw[8];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		memset(raw, 0, sizeof(raw));	/* cannot happen for 8 bytes; mkdir says EEXIST if it does twice */
	hex_format(id, raw, 6);
}

static int take_name(struct registry *r, struct claim *c, const char *name, struct err *e)
{
	char holder[65];
	ssize_t n;

	if (registry_check_name(name, e) < 0)
		return -1;
	if (symlinkat(c->id, r->names_fd, name) < 0) {
		if (errno != EEXIST)
			return err_sys(e, "record the name %s", name);
		n = readlinkat(r->names_fd, name, holder, sizeof(holder) - 1);
		if (n > 0) {
			holder[n] = '\0';
			if (path_has(r->sandboxes_fd, holder) ||
			    path_has(r->kept_fd, holder))
				return err_set(e, ERR_EXISTS, "the name %s is taken by sandbox %s", name, holder);
		}
		/* its sandbox is gone: the name is left over from a crash */
		if (unlinkat(r->names_fd, name, 0) < 0 || symlinkat(c->id, r->names_fd, name) < 0)
			return err_sys(e, "record the name %s", name);
	}
	snprintf(c->name, sizeof(c->name), "%s", name);
	return 0;
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

/* Directories in dirfd by its links, one for the ".." of each; -1 where they are not counted (btrfs, many on ext4), or who knows. */
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
	return links < 0 && registry_each(dirfd, count_one, ret, e) < 0 ? -1 : 0;
}

/* One more may run: a directory below sandboxes_fd is one that does. */
static int check_running(struct registry *r, unsigned *ret_running, struct err *e)
{
	if (count_in(r->sandboxes_fd, ret_running, e) < 0)
		return -1;
	if (*ret_running >= r->config->max_sandboxes)
		return err_set(e, ERR_LIMIT, "%u sandboxes run, the limit is %llu; hint: stop or remove some (berth ps), or raise "
			       "[manager] max_sandboxes", *ret_running, (unsigned long long)r->config->max_sandboxes);
	return 0;
}

/* One that stays when it stops is made only while few enough have stopped: so a stop needs no room. */
static int check_room(struct registry *r, int lasting, struct err *e)
{
	struct counter stopped = { r, 0 };
	unsigned running, lasting_ones;

	if (check_running(r, &running, e) < 0 || count_in(r->kept_fd, &lasting_ones, e) < 0)
		return -1;
	r->others = running + lasting_ones;
	/* those that run are among them; a look at each only when it matters */
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
	int result = lock_all(r, e);

	if (result < 0)
		return -1;
	result = check_room(r, 0, e) < 0 || promise_fits(r, p, NULL, e) < 0 || ranges_promise(r, id, p, e) < 0 ? -1 : 0;
	if (result == 0 && renameat2(dir, from, r->kept_fd, id, RENAME_NOREPLACE) < 0)
		result = err_sys(e, "bring back the files of sandbox %s", id);
	unlock_all(r);
	return result;
}

static int claim_locked(struct registry *r, const char *name, int lasting, struct claim *c, struct err *e)
{
	if (check_room(r, lasting, e) < 0) {
		/* how many others have is not for tenants to know */
		if (c->promise && c->promise->tenant[0] && e->code == ERR_LIMIT)
			err_set(e, ERR_LIMIT, "this host has no room for one more sandbox; hint: again later; the operator's key is "
				"[manager] max_sandboxes in berth.toml");
		return -1;
	}
	if (c->promise && promise_fits(r, c->promise, NULL, e) < 0)
		return -1;
	random_id(c->id);
	if (rundir_take(r, c, e) < 0) {
		if (c->dir_fd < 0)
			c->id[0] = '\0';	/* never ours: undoing must not remove another's */
		return -1;
	}
	if (ranges_take(r, c, e) < 0)
		return -1;
	if (lasting && mkdirat(r->kept_fd, c->id, 0700) < 0)
		return err_sys(e, "make the directory of sandbox %s", c->id);
	c->lasting = lasting;
	if (lasting && ranges_remember(r, c, e) < 0)
		return -1;
	return name && name[0] ? take_name(r, c, name, e) : 0;
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

int registry_reclaim(struct registry *r, const char *id, const struct promise *p, struct claim *ret, struct err *e)
{
	struct err ignored;
	unsigned cleared, running;
	int result, tries, is_full;

	for (tries = 0; tries < 2; tries++) {
		*ret = (struct claim){ .dir_fd = -1, .slot_fd = -1, .lasting = 1, .promise = p };
		if (lock_all(r, e) < 0)
			return -1;
		snprintf(ret->id, sizeof(ret->id), "%s", id);
		is_full = p && !path_has(r->sandboxes_fd, id) && check_running(r, &running, e) < 0;
		result = is_full || rundir_take(r, ret, e) < 0 || ranges_retake(r, ret, e) < 0 ? -1 : 0;
		if (result < 0 && (is_full || e->code == ERR_EXISTS))
			ret->id[0] = '\0';	/* another's, or nobody's: not ours to take back */
		unlock_all(r);
		if (result == 0)
			return 0;
		if (!is_full && e->code != ERR_EXISTS)
			break;
		/* a living keeper keeps it, or its place; a dead one's remains are cleared */
		if (registry_gc(r, &cleared, &ignored) < 0 || !cleared)
			return is_full ? -1 : err_set(e, ERR_EXISTS, "sandbox %s is running", id);
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
	if (lock_all(r, e) < 0)
		return -1;
	result = claim_locked(r, name, lasting, ret, e);
	unlock_all(r);
	if (result < 0)
		undo_claim(r, ret);
	if (result < 0 && (e->code == ERR_LIMIT || e->code == ERR_EXISTS) &&
	    registry_gc(r, &cleared, &ignored) == 0 && cleared) {
		/* what stood in the way were the remains of dead supervisors */
		if (lock_all(r, e) < 0)
			return -1;
		*ret = (struct claim){ .dir_fd = -1, .slot_fd = -1, .promise = p };
		result = claim_locked(r, name, lasting, ret, e);
		unlock_all(r);
		if (result < 0)
			undo_claim(r, ret);
	}
	return result;
}

int registry_record(const struct claim *c, const json_t *record, struct err *e)
{
	autofree char *text = json_dumps(record, JSON_COMPACT);

	return text ? rundir_record(c, text, strlen(text), e) : err_nomem(e);
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
	/* the locks go last: until then nobody else takes this for a leftover, nor the range */
	fd_close(&c->slot_fd);
	fd_close(&c->dir_fd);
	c->id[0] = c->name[0] = '\0';
	return result;
}

/* Takes the lock of a sandbox whose supervisor is dead: its fd; -1 with ERR_BUSY while it lives. */
static int lock_dead(struct registry *r, const char *id, struct err *e)
{
	autoclose int fd = openat(r->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open the record of sandbox %s", id);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_code_sys(e, errno == EWOULDBLOCK ? ERR_BUSY : ERR_SYS, "lock sandbox %s", id);
	return take_fd(&fd);
}

struct names_of {
	struct registry *r;
	const char *id;
};

static int drop_name_of(void *ctx, const char *name)
{
	struct names_of *n = ctx;
	char holder[65];
	ssize_t len = readlinkat(n->r->names_fd, name, holder, sizeof(holder) - 1);

	if (len > 0) {
		holder[len] = '\0';
		if (!strcmp(holder, n->id))
			unlinkat(n->r->names_fd, name, 0);
	}
	return 0;
}

/* A lasting sandbox whose making or removal was cut short: no command can name it, but it counts. */
static int is_unfinished(struct registry *r, const char *id)
{
	char path[80];

	snprintf(path, sizeof(path), "%s/record.json", id);
	return !path_has(r->kept_fd, path) && errno == ENOENT;
}

/*
 * Ends its processes, for which ms are waited.  What the kernel is long busy to end (a driver in D state, thousands of files to
 * close) is noted by the first who came; others, a run of somebody else say, do not wait for it again.
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

static int clear(struct registry *r, const char *id, unsigned ms, struct err *e)
{
	struct names_of n = { r, id };
	struct cgroup cg;
	int result;

	result = cgroup_open(&cg, r->config->cgroup_parent, id, e);
	if (result == 0)
		result = end_of_dead(r, id, ms, &cg, e);
	cgroup_release(&cg);
	if (result == 0)
		result = netclear_one(r, id, e);
	if (result < 0 || (is_unfinished(r, id) && path_remove_tree(r->kept_fd, id, e) < 0))
		return -1;
	/* a lasting sandbox keeps its name, and can be started again */
	if (!path_has(r->kept_fd, id) &&
	    registry_each(r->names_fd, drop_name_of, &n, e) < 0)
		return -1;
	return path_remove_tree(r->sandboxes_fd, id, e);
}

static void tell_death(struct registry *r, const char *id)
{
	if (path_has(r->kept_fd, id))
		events_add(r, "die", id, json_pack("{s:s}", "reason", "its keeper ended; what it left was removed"));
}

int registry_clear_dead(struct registry *r, const char *id, unsigned ms, int newer_too, struct err *e)
{
	autoclose int lock = -1;

	if (lock_all(r, e) < 0)
		return -1;
	lock = lock_dead(r, id, e);
	unlock_all(r);
	if (lock < 0)
		return e->code == ERR_BUSY || e->code == ERR_NOT_FOUND ? 0 : -1;
	if ((!newer_too && registry_check_format(r, id, e) < 0) || clear(r, id, ms, e) < 0)
		return -1;
	tell_death(r, id);
	return 1;
}

struct gc {
	struct registry *r;
	struct err *e;
	unsigned cleared;
	int failed;
	int some;	/* stop when enough is done */
	unsigned looked_at;
	unsigned skip, take;	/* how many not to look at first, and how many then */
	int (*report)(void *ctx, const char *id);	/* dry run */
	void *report_ctx;
};

/*
 * A command on the hot path clears one leftover, or looks at this many sandboxes: with none, hosts of short commands alone would
 * keep all; with more, a command would cost more the more sandboxes there are.
 */
#define LOOK_AT 16

static int is_enough(struct gc *g)
{
	return g->some && (g->cleared || g->looked_at++ >= LOOK_AT);
}

static int is_skipped(struct gc *g)
{
	return g->skip && g->skip--;
}

static int is_taken_all(struct gc *g)
{
	if (!g->take)
		return 1;
	g->take--;
	return 0;
}

static int gc_one(void *ctx, const char *id)
{
	struct gc *g = ctx;
	struct err mine;
	autoclose int lock = -1;

	if (is_skipped(g))
		return 0;
	if (is_enough(g) || is_taken_all(g))
		return 1;
	if (lock_all(g->r, g->e) < 0)
		return -1;
	lock = lock_dead(g->r, id, &mine);
	unlock_all(g->r);
	if (lock < 0)
		return 0;	/* alive, or gone meanwhile */
	if (registry_check_format(g->r, id, &mine) < 0)
		return 0;	/* what a newer berth left may be more than we know of: rm --force */
	if (g->report)
		return g->report(g->report_ctx, id);
	if (clear(g->r, id, is_dying(g->r, id) ? 0 : DYING_MS, &mine) < 0) {
		*g->e = mine;
		g->failed = 1;	/* go on: the others can still be cleared */
		return 0;
	}
	tell_death(g->r, id);
	g->cleared++;
	return 0;
}

/* What a cut-off removal left below state_dir, where nothing else points to it any more. */
static int gc_kept(void *ctx, const char *id)
{
	struct gc *g = ctx;
	struct names_of n = { g->r, id };
	struct err mine;
	int left;

	if (is_skipped(g))
		return 0;
	if (is_enough(g) || is_taken_all(g))
		return 1;
	if (lock_all(g->r, g->e) < 0)
		return -1;
	left = is_unfinished(g->r, id) && !path_has(g->r->sandboxes_fd, id);
	unlock_all(g->r);
	if (!left)
		return 0;
	if (g->report)
		return g->report(g->report_ctx, id);
	if (path_remove_tree(g->r->kept_fd, id, &mine) < 0 || registry_each(g->r->names_fd, drop_name_of, &n, &mine) < 0) {
		*g->e = mine;
		g->failed = 1;
		return 0;
	}
	g->cleared++;
	return 0;
}

static int gc_all(struct gc *g)
{
	return registry_each(g->r->sandboxes_fd, gc_one, g, g->e) < 0 ? -1 :
	       registry_each(g->r->kept_fd, gc_kept, g, g->e);
}

int registry_gc(struct registry *r, unsigned *ret_cleared, struct err *e)
{
	struct gc g = { .r = r, .e = e, .take = UINT_MAX };
	int result = gc_all(&g);

	*ret_cleared = g.cleared;
	return result < 0 || g.failed ? -1 : 0;
}

void registry_gc_some(struct registry *r)
{
	struct err ignored;
	struct gc g = { .r = r, .e = &ignored, .some = 1, .take = UINT_MAX };
	unsigned first;

	if (!r->others)
		return;
	/* anywhere, and then from the start to there: the next one looks at others */
	first = g.skip = (unsigned)clock_now(CLOCK_MONOTONIC).tv_nsec % r->others;
	if (gc_all(&g) == 0 && first) {
		g.skip = 0;
		g.take = first;
		gc_all(&g);
	}
}

int registry_gc_dry(struct registry *r, int (*each)(void *ctx, const char *id), void *ctx, struct err *e)
{
	struct gc g = { .r = r, .e = e, .take = UINT_MAX, .report = each, .report_ctx = ctx };

	return gc_all(&g);
}

struct lister {
	int dirfd;
	int kept;
	int (*each)(void *ctx, const char *id, int kept, const json_t *record);
	void *ctx;
	int live_fd;	/* kept ones: where they are while they live */
	json_t *listed;	/* ids, or NULL when nobody asks */
	struct err *e;
};

static int list_one(void *ctx, const char *id)
{
	struct lister *l = ctx;
	autojson json_t *record = NULL;
	int kept = l->kept, got = 0;

	if (l->kept && json_object_get(l->listed, id))
		return 0;
	/* it may have been started since we looked at those that live; one that is about to be has no record there yet */
	if (l->kept && (got = registry_read_record(l->live_fd, id, &record, l->e)) > 0)
		kept = 0;
	if (got == 0)
		got = registry_read_record(l->dirfd, id, &record, l->e);
	if (got <= 0)
		return got;
	if (l->listed && json_object_set_new(l->listed, id, json_true()) < 0)
		return err_nomem(l->e);
	return l->each(l->ctx, id, kept, record);
}

int registry_list(struct registry *r, int all, int (*each)(void *ctx, const char *id, int kept, const json_t *record),
		  void *ctx, struct err *e)
{
	autojson json_t *listed = all ? json_object() : NULL;
	struct lister l = { r->sandboxes_fd, 0, each, ctx, -1, listed, e };

	if (all && !listed)
		return err_nomem(e);
	if (registry_each(r->sandboxes_fd, list_one, &l, e) < 0)
		return -1;
	if (!all)
		return 0;
	/* each once, whatever starts or stops meanwhile */
	l = (struct lister){ r->kept_fd, 1, each, ctx, r->sandboxes_fd, listed, e };
	return registry_each(r->kept_fd, list_one, &l, e);
}

int registry_forget(struct registry *r, const char *id, struct err *e)
{
	struct names_of n = { r, id };
	int tries = 0, result;

	if (registry_each(r->names_fd, drop_name_of, &n, e) < 0)
		return -1;
	/* and with it goes the claim to its range (ranges.h); whoever stops the sandbox may still write into its record */
	while ((result = path_remove_tree(r->kept_fd, id, e)) < 0 && e->os_errno == ENOTEMPTY && ++tries < FORGET_TRIES)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return result;
}
