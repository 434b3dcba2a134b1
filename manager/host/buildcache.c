/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/buildcache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/labels.h"

#define BUILDER "builder"
#define KEPT "kept.json"
#define KEPT_MAX (1u << 16)
#define STEPS "storage" /* of the volume's files, those that stay */
#define PREFIX VOLUME_OF_BUILD "cache-"

static uint64_t cache_size(const struct registry *r)
{
	return r->config->build_disk_bytes + r->config->build_cache_bytes;
}

static int is_cache_record(const json_t *record)
{
	return json_object_get(json_object_get(record, "labels"), LABEL_BUILD_CACHE) != NULL;
}

/* Locks it for one build: ERR_BUSY. */
static int lock_builder(int dir_fd, struct err *e)
{
	autoclose int fd = openat(dir_fd, BUILDER, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, "open the lock of a build's steps");
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? err_set(e, ERR_BUSY, "a build uses these steps") : err_sys(e, "lock a build's steps");
	return take_fd(&fd);
}

/* Whether what stays has more than its share of the bytes or of the files (a build has the rest), or that cannot be told. */
static int is_too_full(const struct registry *r, const struct volume *v)
{
	const uint64_t share = r->config->build_cache_bytes >> 20, all = cache_size(r) >> 20;
	struct statvfs fs;

	if (fstatvfs(v->root_fd, &fs) < 0)
		return 1;
	return (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize > r->config->build_cache_bytes ||
	       (all && (uint64_t)(fs.f_files - fs.f_ffree) > (uint64_t)fs.f_files / all * share);
}

/* ---- files of one build ---- */

struct clearing {
	int root;
	struct err *e;
};

static int remove_unless_steps(void *ctx, const char *name)
{
	const struct clearing *c = ctx;

	return strcmp(name, STEPS) ? path_remove_tree(c->root, name, c->e) : 0;
}

static int clear_but_steps(const struct volume *v, struct err *e)
{
	autoclose int fd = openat(v->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct clearing c = { fd, e };
	int failed = 0;

	if (fd < 0)
		return err_sys(e, "open the steps of builds");
	if (path_each_entry(fd, remove_unless_steps, &c, &failed) < 0 && !failed)
		return -1;
	return failed ? err_sys(e, "read the steps of builds") : 0;
}

/* ---- taking ---- */

/* The array of that name, or an empty one. */
static json_t *kept_list(const json_t *kept, const char *name)
{
	json_t *list = json_object_get(kept, name);

	return json_is_array(list) ? json_incref(list) : json_array();
}

static json_t *read_kept(int dir_fd)
{
	autobuf struct buf b = BUF_INIT(KEPT_MAX);
	struct err ignored;

	return io_read_file(dir_fd, KEPT, &b, &ignored) < 0 ? NULL : json_parse(b.data ? b.data : "", b.len, KEPT_MAX, KEPT, &ignored);
}

static int load_kept(struct buildcache *c, struct err *e)
{
	autojson json_t *kept = read_kept(c->volume.dir_fd);

	c->bases = kept_list(kept, "bases");
	c->made = kept_list(kept, "made");
	c->marks = kept_list(kept, "marks");
	return c->bases && c->made && c->marks ? 0 : err_nomem(e);
}

/* Leaves the newest alone. */
static void cut_kept(json_t *list, size_t max)
{
	while (json_array_size(list) > max)
		json_array_remove(list, 0);
}

static int save_kept(const struct buildcache *c)
{
	autojson json_t *kept = NULL;
	autofree char *text = NULL;
	struct err ignored;

	cut_kept(c->made, BUILDCACHE_MADE);
	cut_kept(c->marks, BUILDCACHE_MARKS);
	kept = json_pack("{s:O,s:O,s:O}", "bases", c->bases, "made", c->made, "marks", c->marks);
	text = kept ? json_dumps(kept, JSON_COMPACT) : NULL;
	return text ? io_replace_file(c->volume.dir_fd, KEPT, text, strlen(text), 0600, 0, &ignored) : -1;
}

/* Opens and locks the volume of that name: 1; 0 where a build uses it, or it is another's. */
static int open_cache(struct registry *r, const char *tenant, struct buildcache *c, struct err *e)
{
	autojson json_t *labels = json_pack("{s:s}", LABEL_BUILD_CACHE, ""), *record = NULL;
	const struct volume_wish wish = { .name = c->name, .tenant = tenant, .labels = labels, .size_bytes = cache_size(r), .tenant_max = UINT64_MAX };

	if (!labels)
		return err_nomem(e);
	if (volume_key(c->name, tenant, c->key, e) < 0 || volume_open(r, &wish, NULL, NULL, &c->volume, e) < 0)
		return -1;
	record = volume_load(r, c->key, e);
	if (!record)
		return -1;
	if (!is_cache_record(record))
		return 0;
	c->lock_fd = lock_builder(c->volume.dir_fd, e);
	if (c->lock_fd < 0)
		return e->code == ERR_BUSY ? 0 : -1;
	return (uint64_t)json_integer_value(json_object_get(record, "size_bytes")) == cache_size(r) &&
			       !is_too_full(r, &c->volume) ?
		       1 :
		       2;
}

static void close_cache(struct buildcache *c)
{
	fd_close(&c->lock_fd);
	volume_close(&c->volume);
	json_decref(c->bases);
	json_decref(c->made);
	json_decref(c->marks);
	c->bases = c->made = c->marks = NULL;
}

static int take_slot(struct registry *r, const char *tenant, struct buildcache *c, struct err *e)
{
	int got = open_cache(r, tenant, c, e);
	char byte;

	if (got == 2) { /* too full, or of another size than the configuration says now */
		close_cache(c);
		/* another build, which found the same, has it now */
		if (volume_remove(r, c->key, e) < 0)
			return e->code == ERR_BUSY || e->code == ERR_NOT_FOUND ? 0 : -1;
		got = open_cache(r, tenant, c, e);
	}
	if (got < 1)
		return got;
	c->was_cut = pread(c->lock_fd, &byte, 1, 0) > 0;
	if (load_kept(c, e) < 0 || clear_but_steps(&c->volume, e) < 0)
		return -1;
	return pwrite(c->lock_fd, "1", 1, 0) == 1 ? 1 : err_sys(e, "note a build");
}

/* ---- which one ---- */

static size_t find_mark(const json_t *list, const json_t *mark)
{
	size_t i = 0;

	while (i < json_array_size(list) && !json_equal(json_array_get(list, i), mark))
		i++;
	return i;
}

/* How many of the marks the volume of that name has. */
static unsigned count_marks(int top_fd, const char *name, const char *tenant, const json_t *marks)
{
	char key[VOLUME_KEY_MAX];
	autojson json_t *kept = NULL, *list = NULL;
	autoclose int dir = -1;
	struct err ignored;
	unsigned n = 0;
	json_t *one;
	size_t i;

	if (volume_key(name, tenant, key, &ignored) < 0)
		return 0;
	dir = openat(top_fd, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	kept = dir < 0 ? NULL : read_kept(dir);
	list = kept_list(kept, "marks");
	json_array_foreach ((json_t *)(size_t)marks, i, one)
		n += find_mark(list, one) < json_array_size(list);
	return n;
}

static void note_marks(struct buildcache *c, const json_t *marks)
{
	json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)marks, i, one) {
		json_array_remove(c->marks, find_mark(c->marks, one)); /* past the end: nothing */
		json_array_append(c->marks, one);
	}
}

static void name_slot(int slot, char name[40])
{
	snprintf(name, 40, PREFIX "%d", slot);
}

/* The slots, those with most of the marks first. */
static void order_slots(struct registry *r, const char *tenant, const json_t *marks, int order[BUILDCACHE_SLOTS])
{
	struct err ignored;
	autoclose int top = volume_top(r, &ignored);
	unsigned count[BUILDCACHE_SLOTS];
	char name[40];
	int i, at;

	for (i = 0; i < BUILDCACHE_SLOTS; i++) {
		name_slot(i, name);
		count[i] = top < 0 ? 0 : count_marks(top, name, tenant, marks);
		for (at = i; at > 0 && count[order[at - 1]] < count[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

int buildcache_take(struct registry *r, const char *tenant, const json_t *marks, struct buildcache *ret, struct err *e)
{
	int order[BUILDCACHE_SLOTS], i, got = 0;

	if (!r->config->build_cache_bytes)
		return 0;
	order_slots(r, tenant, marks, order);
	for (i = 0; got == 0 && i < BUILDCACHE_SLOTS; i++) {
		struct buildcache c = BUILDCACHE_INIT;

		name_slot(order[i], c.name);
		got = take_slot(r, tenant, &c, e);
		if (got == 1) {
			note_marks(&c, marks);
			*ret = c;
		} else {
			close_cache(&c);
		}
	}
	return got;
}

/* ---- the end of a use ---- */

/* Blocks without a file go back to the host. */
static void trim(const struct volume *v)
{
	autoclose int fd = openat(v->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct fstrim_range all = { .len = UINT64_MAX, .minlen = 1 << 20 };

	if (fd >= 0 && v->is_mount)
		ioctl(fd, FITRIM, &all);
}

void buildcache_give(struct registry *r, struct buildcache *c, int in_order)
{
	struct err ignored;
	int goes;

	if (c->lock_fd < 0)
		return;
	goes = clear_but_steps(&c->volume, &ignored) < 0 || is_too_full(r, &c->volume);
	if (!goes) {
		trim(&c->volume);
		/* one that is not emptied counts as cut, which the next build repairs */
		if (save_kept(c) == 0 && in_order && ftruncate(c->lock_fd, 0) == 0)
			futimens(c->lock_fd, NULL);
	}
	close_cache(c);
	if (goes)
		volume_remove(r, c->key, &ignored);
}

/* ---- all of them ---- */

struct sweep {
	struct registry *r;
	uint64_t unused_ms, bytes;
	unsigned count;
	int removes;
};

static int is_in_use(int dir_fd, uint64_t unused_ms)
{
	struct err ignored;
	autoclose int lock = lock_builder(dir_fd, &ignored);
	struct stat st;

	return lock < 0 || fstat(lock, &st) < 0 || (uint64_t)(time(NULL) - st.st_mtime) < unused_ms / 1000;
}

/* Removes what a killed build left in it beside steps: its context, secrets and settings. */
static void clear_cut(struct registry *r, int dir_fd, const char *key)
{
	struct buildcache c = BUILDCACHE_INIT;
	struct err ignored;
	struct stat st;
	const char *at = strchr(key, '@');
	int failed;

	if (fstatat(dir_fd, BUILDER, &st, AT_SYMLINK_NOFOLLOW) < 0 || !st.st_size)
		return;
	snprintf(c.name, sizeof(c.name), "%.*s", (int)(at ? at - key : (ptrdiff_t)strlen(key)), key);
	failed = open_cache(r, at ? at + 1 : "", &c, &ignored) > 0 && clear_but_steps(&c.volume, &ignored) < 0;
	close_cache(&c);
	if (failed)
		volume_remove(r, key, &ignored);
}

static int sweep_cache(void *ctx, const char *key)
{
	struct sweep *s = ctx;
	struct err ignored;
	autojson json_t *record = NULL;
	autoclose int top = -1, dir = -1;
	uint64_t bytes;

	if (strncmp(key, PREFIX, strlen(PREFIX)) || !volume_is_key(key))
		return 0;
	record = volume_load(s->r, key, &ignored);
	if (!record || !is_cache_record(record))
		return 0;
	bytes = (uint64_t)json_integer_value(json_object_get(record, "disk_bytes"));
	top = volume_top(s->r, &ignored);
	dir = top < 0 ? -1 : openat(top, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return 0;
	if (s->removes && is_in_use(dir, s->unused_ms)) {
		clear_cut(s->r, dir, key);
		return 0;
	}
	fd_close(&dir);
	if (s->removes && volume_remove(s->r, key, &ignored) < 0)
		return 0;
	s->count++;
	s->bytes += bytes;
	return 0;
}

static int sweep_caches(struct sweep *s, struct err *e)
{
	autoclose int top = -1;
	int failed = 0;

	if (!path_has(s->r->state_fd, "volumes"))
		return 0;
	top = volume_top(s->r, e);
	if (top < 0)
		return -1;
	return path_each_entry(top, sweep_cache, s, &failed) < 0 ? err_sys(e, "read the directory of volumes") : 0;
}

int buildcache_prune(struct registry *r, uint64_t unused_ms, unsigned *ret_count, uint64_t *ret_bytes, struct err *e)
{
	struct sweep s = { .r = r, .unused_ms = unused_ms, .removes = 1 };

	if (sweep_caches(&s, e) < 0)
		return -1;
	*ret_count = s.count;
	if (ret_bytes)
		*ret_bytes = s.bytes;
	return 0;
}

uint64_t buildcache_bytes(struct registry *r)
{
	struct sweep s = { .r = r };
	struct err ignored;

	return sweep_caches(&s, &ignored) < 0 ? 0 : s.bytes;
}
