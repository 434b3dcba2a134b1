/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/labels.h"
#include "manager/host/procid.h"
#include "manager/host/record.h"
#include "runtime/kernel/blankfs.h"
#include "runtime/kernel/loopdev.h"
#include "runtime/kernel/quota.h"

/* ---- names ---- */

int volume_key(const char *name, const char *tenant, char ret[VOLUME_KEY_MAX], struct err *e)
{
	if (!path_is_name(name))
		return err_set(e, ERR_INVALID, "'%.80s' is not the name of a volume; "
			       "hint: up to 64 of a-z 0-9 _ . -, starting with a letter or digit",
			       name);
	snprintf(ret, VOLUME_KEY_MAX, "%s%s%s", name, tenant[0] ? "@" : "", tenant);
	return 0;
}

int volume_is_key(const char *text)
{
	size_t n = strcspn(text, "@");
	char name[VOLUME_NAME_MAX + 1];

	if (n >= sizeof(name))
		return 0;
	memcpy(name, text, n);
	name[n] = '\0';
	return path_is_name(name) && (!text[n] || path_is_name(text + n + 1));
}

/* The word of n bytes, when it can be a name at all. */
static int take_volume_name(const char *word, size_t n, char ret[VOLUME_NAME_MAX + 1])
{
	if (!n || n > VOLUME_NAME_MAX || memchr(word, '/', n))
		return 0;
	memcpy(ret, word, n);
	ret[n] = '\0';
	return 1;
}

static int of_mount(const char *value, char ret[VOLUME_NAME_MAX + 1])
{
	const char *p, *src = NULL;
	size_t n;
	int typed = 0;

	for (p = value; *p; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		typed |= n == 11 && !strncmp(p, "type=volume", n);
		if (!strncmp(p, "src=", 4))
			src = p + 4;
		else if (!strncmp(p, "source=", 7))
			src = p + 7;
	}
	return typed && src && take_volume_name(src, strcspn(src, ","), ret);
}

int volume_of_option(const char *option, const char *value, char ret[VOLUME_NAME_MAX + 1])
{
	if (!strcmp(option, "mount"))
		return of_mount(value, ret);
	return !strcmp(option, "volume") && take_volume_name(value, strcspn(value, ":"), ret);
}

#define RECORD "record.json"
#define RECORD_MAX (1u << 20)
#define DATA "data"
#define IMAGE "image"
#define NEW ".new"
#define GONE ".rm-"
#define BYTES_AN_INODE 8192
/* Sandboxes have the projects that are multiples of 65536 (writable.c). */
#define PROJECT(n) (((uint32_t)(n) + 1) << 16 | 1)
#define PROJECTS 65534
#define LOCK_TRIES 300
#define LOCK_LOOK_NS 10000000

int volume_top(struct registry *r, struct err *e)
{
	return path_make_dir(r->state_fd, "volumes", e);
}

static int lock_top(int top, struct err *e)
{
	while (flock(top, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the directory of volumes");
	return 0;
}

/* ---- records ---- */

static json_t *load_record(int top, const char *key, struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	autojson json_t *record = NULL;
	char path[VOLUME_KEY_MAX + 32], what[VOLUME_KEY_MAX + 32];

	snprintf(path, sizeof(path), "%s/" RECORD, key);
	snprintf(what, sizeof(what), "the record of volume %s", key);
	if (io_read_file(top, path, &b, e) < 0)
		return e->os_errno != ENOENT ?
			       NULL :
			       (err_set(e, ERR_NOT_FOUND,
					"there is no volume %s; hint: berth volume ls", key),
				NULL);
	record = json_parse(b.data ? b.data : "", b.len, RECORD_MAX, what, e);
	if (!record)
		return NULL;
	if (json_check_version(record, VOLUME_FORMAT, what, e) < 0)
		return e->code == ERR_UNSUPPORTED ? (err_hint(e, "use that berth again"), NULL) :
						    NULL;
	return take_ptr(&record);
}

/* Returns the volume's use of the host's disk; 0 if unknown. */
static uint64_t volume_disk_bytes(int top, const char *key, const json_t *record)
{
	char path[VOLUME_KEY_MAX + 32];
	struct statvfs fs;
	struct stat st;

	snprintf(path, sizeof(path), "%s/" IMAGE, key);
	if (fstatat(top, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return (uint64_t)st.st_blocks * 512;
	snprintf(path, sizeof(path), "%s/" DATA, key);
	if (json_object_get(record, "project")) {
		/*
		 * for a directory with a project quota the kernel reports what is left of the
		 * quota
		 */
		autoclose int fd =
			openat(top, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0 && fstatvfs(fd, &fs) == 0)
			return (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
	}
	return 0;
}

json_t *volume_load(struct registry *r, const char *key, struct err *e)
{
	autoclose int top = volume_top(r, e);
	autojson json_t *record = top < 0 ? NULL : load_record(top, key, e);

	if (!record)
		return NULL;
	if (json_object_set_new(record, "disk_bytes",
				json_integer((json_int_t)volume_disk_bytes(top, key, record))) < 0) {
		err_nomem(e);
		return NULL;
	}
	return take_ptr(&record);
}

struct lister {
	struct registry *r;
	int (*each)(void *ctx, const char *key, json_t *record);
	void *ctx;
};

static int list_volume(void *ctx, const char *name)
{
	const struct lister *l = ctx;
	struct err ignored;
	autojson json_t *record = volume_is_key(name) ? volume_load(l->r, name, &ignored) : NULL;

	/* nobody made it by that name */
	if (json_object_get(json_object_get(record, "labels"), LABEL_BUILD_CACHE))
		return 0;
	return record ? l->each(l->ctx, name, record) : 0;
}

int volume_each(struct registry *r, int (*each)(void *ctx, const char *key, json_t *record),
		void *ctx, struct err *e)
{
	struct lister l = { r, each, ctx };
	autoclose int top = volume_top(r, e);
	int failed = 0, result = top < 0 ? -1 : path_each_entry(top, list_volume, &l, &failed);

	return failed ? err_sys(e, "read the directory of volumes") : result;
}

static int count_volume_entry(void *ctx, const char *name)
{
	*(uint64_t *)ctx += name[0] != '.';
	return 0;
}

uint64_t volume_room(const struct config *c)
{
	char path[sizeof(c->state_dir) + 16];
	autoclose int top = -1;
	uint64_t count = 0;
	int failed = 0;

	snprintf(path, sizeof(path), "%s/volumes", c->state_dir);
	top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top >= 0)
		path_each_entry(top, count_volume_entry, &count, &failed);
	return count < c->volume_max ? c->volume_max - count : 0;
}

/* ---- making ---- */

struct census {
	int top;
	const char *tenant;
	unsigned all, of_tenant;
	unsigned char taken[PROJECTS / 8 + 1]; /* projects */
};

static int count_volume(void *ctx, const char *name)
{
	struct census *c = ctx;
	struct err ignored;
	/* a volume that is being removed still has its project */
	autojson json_t *record = load_record(c->top, name, &ignored);
	json_int_t project = json_integer_value(json_object_get(record, "project"));
	const char *at = strchr(name, '@');

	if (volume_is_key(name)) {
		c->all++;
		c->of_tenant += at && c->tenant[0] && !strcmp(at + 1, c->tenant);
	}
	if (project > 0 && project >> 16 <= PROJECTS)
		c->taken[((project >> 16) - 1) / 8] |=
			(unsigned char)(1u << (((project >> 16) - 1) % 8));
	return 0;
}

static int take_census(struct census *c, struct err *e)
{
	autoclose int fd = openat(c->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = 0;

	if (fd < 0 || path_each_entry(fd, count_volume, c, &failed) < 0 || failed)
		return err_sys(e, "read the directory of volumes");
	return 0;
}

static int check_volume_room(const struct registry *r, const struct volume_wish *w,
		      const struct census *c, struct err *e)
{
	if (w->tenant[0] && c->of_tenant >= w->tenant_max)
		return err_set(e, ERR_LIMIT,
			       "tenant %s has %u volumes, and may have %llu; hint: remove some, "
			       "or raise "
			       "volumes in [tenant]",
			       w->tenant, c->of_tenant, (unsigned long long)w->tenant_max);
	if (c->all < r->config->volume_max)
		return 0;
	/* tenants must not learn how many volumes others have */
	if (w->tenant[0])
		return err_set(e, ERR_LIMIT,
			       "the host's limit of volumes is reached; hint: retry later, or raise "
			       "[volume] max in berth.toml");
	return err_set(e, ERR_LIMIT,
		       "%u volumes exist, the limit is %llu; hint: berth volume prune, or raise "
		       "[volume] max",
		       c->all, (unsigned long long)r->config->volume_max);
}

/* Makes the directory: 0, or 1 without project quotas here, or -1. */
static int make_data(int dir, const struct census *c, uint64_t bytes, uint64_t inodes,
		     uint32_t *ret_project, struct err *e)
{
	autoclose int fd = -1;
	unsigned n = 0;

	if (mkdirat(dir, DATA, 0700) < 0)
		return err_sys(e, "make the directory of a volume");
	fd = openat(dir, DATA, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0755) < 0)
		return err_sys(e, "open the directory of a volume");
	while (n < PROJECTS && c->taken[n / 8] & 1u << n % 8)
		n++;
	if (n < PROJECTS && quota_limit(fd, PROJECT(n), bytes, inodes, e) == 0) {
		*ret_project = PROJECT(n);
		return 0;
	}
	if (n < PROJECTS && e->code != ERR_UNSUPPORTED)
		return -1;
	return unlinkat(dir, DATA, AT_REMOVEDIR) < 0 ? err_sys(e, "remove the directory of a "
								  "volume") :
						       1;
}

/* A program must find a new volume empty: some refuse to begin in a directory that has a
 * lost+found. */
static int empty_image(int file, struct err *e)
{
	autoclose int loop = loopdev_attach(file, NULL, e);
	autoclose int mnt = loop < 0 ? -1 : loopdev_mount(loop, e);

	if (mnt < 0)
		return -1;
	if ((unlinkat(mnt, "lost+found", AT_REMOVEDIR) < 0 && errno != ENOENT) ||
	    fchmodat(mnt, ".", 0755, 0) < 0)
		return err_sys(e, "empty the file system of a volume");
	return 0;
}

static int make_volume_image(int dir, uint64_t bytes, uint64_t inodes, struct err *e)
{
	autoclose int fd =
		openat(dir, IMAGE, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, "make the file of a volume");
	if (ftruncate(fd, (off_t)(bytes & ~4095ULL)) < 0)
		return errno != EFBIG ? err_sys(e, "size the file of a volume") :
					err_set(e, ERR_INVALID,
						"a volume of %llu bytes is more than a file of "
						"this host's file system can be; "
						"hint: a smaller --size",
						(unsigned long long)bytes);
	if (blankfs_make_journaled(fd, inodes, e) < 0)
		return e->code == ERR_UNSUPPORTED ? err_set(e, ERR_UNSUPPORTED,
							    "mkfs.ext4 made no file system of "
							    "%llu bytes for "
							    "the volume",
							    (unsigned long long)bytes) :
						    -1;
	if (empty_image(fd, e) < 0)
		return -1;
	return fsync(fd) < 0 ? err_sys(e, "write the file of a volume") : 0;
}

static int save_volume_record(int dir, const struct volume_wish *w, uint64_t bytes, uint64_t inodes,
		       uint32_t project, struct err *e)
{
	autojson json_t *record = NULL;
	autofree char *text = NULL;
	char created[CLOCK_UTC];

	clock_utc(time(NULL), created);
	record = json_pack("{s:i,s:s,s:I,s:I,s:s,s:s}", "version", VOLUME_FORMAT, "name", w->name,
			   "size_bytes", (json_int_t)bytes, "inodes", (json_int_t)inodes,
			   "bounded_by", project ? "project-quota" : "file-system", "created",
			   created);
	if (record)
		json_object_set_new(record, "labels",
				    w->labels ? json_deep_copy(w->labels) : json_object());
	if (record && w->tenant[0])
		json_object_set_new(record, "tenant", json_string(w->tenant));
	if (record && project)
		json_object_set_new(record, "project", json_integer(project));
	text = record ? json_dumps(record, JSON_COMPACT) : NULL;
	return text ? io_replace_file(dir, RECORD, text, strlen(text), 0600, 1, e) : err_nomem(e);
}

/* Makes the volume in .new, under the lock. */
static int make_new_volume(int top, const struct volume_wish *w, const struct census *c, uint64_t bytes,
		struct err *e)
{
	uint64_t inodes = bytes / BYTES_AN_INODE;
	autoclose int dir = -1;
	uint32_t project = 0;
	int made;

	if (path_remove_tree(top, NEW, e) < 0)
		return -1;
	dir = path_make_dir(top, NEW, e);
	if (dir < 0)
		return -1;
	made = make_data(dir, c, bytes, inodes, &project, e);
	if (made < 0 || (made > 0 && make_volume_image(dir, bytes, inodes, e) < 0))
		return -1;
	if (w->fill && w->fill(w->ctx, dir, e) < 0)
		return -1;
	if (save_volume_record(dir, w, bytes, inodes, project, e) < 0)
		return -1;
	return fsync(dir) < 0 ? err_sys(e, "write the directory of a volume") : 0;
}

static int create_locked(struct registry *r, int top, const struct volume_wish *w, const char *key,
			 struct err *e)
{
	struct census c = { .top = top, .tenant = w->tenant };
	struct err ignored;
	uint64_t bytes = w->size_bytes ? w->size_bytes : r->config->volume_bytes;
	mode_t old;
	int result;

	if (path_has(top, key))
		return err_set(e, ERR_EXISTS, "volume %s exists", w->name);
	if (take_census(&c, e) < 0 || check_volume_room(r, w, &c, e) < 0)
		return -1;
	old = umask(0);
	result = make_new_volume(top, w, &c, bytes, e);
	umask(old);
	if (result == 0 && renameat2(top, NEW, top, key, RENAME_NOREPLACE) < 0)
		result = err_sys(e, "name volume %s", w->name);
	if (result < 0)
		path_remove_tree(top, NEW, &ignored);
	return result < 0     ? err_wrap(e, "volume %s", w->name) :
	       fsync(top) < 0 ? err_sys(e, "write volume %s", w->name) :
				0;
}

int volume_create(struct registry *r, const struct volume_wish *w, struct err *e)
{
	autoclose int top = -1;
	char key[VOLUME_KEY_MAX];

	if (volume_key(w->name, w->tenant, key, e) < 0)
		return -1;
	top = volume_top(r, e);
	/* the lock goes with the descriptor */
	return top < 0 || lock_top(top, e) < 0 ? -1 : create_locked(r, top, w, key, e);
}

/* ---- removing ---- */

/* The process of a sandbox that has ended, as its record says, holds the lock until its last
 * mounts are gone. */
static int lock_volume_alone(int dir, const char *key, struct err *e)
{
	int tries;

	for (tries = 0; tries < LOCK_TRIES; tries++) {
		if (flock(dir, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, "lock volume %s", key);
		nanosleep(&(struct timespec){ .tv_nsec = LOCK_LOOK_NS }, NULL);
	}
	return err_set(e, ERR_BUSY,
		       "volume %s is in use by a sandbox that is starting or ending; hint: try "
		       "again",
		       key);
}

/* Opens the volume's directory, locked exclusively. */
static int lock_for_removal(struct registry *r, int top, const char *key, struct err *e)
{
	autoclose int dir = openat(top, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open volume %s",
				    key);
	if (volume_users_check(r, key, e) < 0 || lock_volume_alone(dir, key, e) < 0)
		return -1;
	return take_fd(&dir);
}

int volume_remove(struct registry *r, const char *key, struct err *e)
{
	autoclose int top = volume_top(r, e), dir = -1;
	unsigned char raw[8];
	char gone[40] = GONE;

	if (top < 0 || lock_top(top, e) < 0)
		return -1;
	if (!volume_is_key(key) || !path_has(top, key))
		return err_set(e, ERR_NOT_FOUND,
			       "there is no volume %.140s; hint: berth volume ls", key);
	dir = lock_for_removal(r, top, key, e);
	if (dir < 0)
		return -1;
	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "draw a random name");
	hex_format(gone + strlen(GONE), raw, sizeof(raw));
	if (renameat2(top, key, top, gone, RENAME_NOREPLACE) < 0 || fsync(top) < 0)
		return err_sys(e, "remove volume %s", key);
	/*
	 * the rest takes time for each file: others need not wait, and gc skips a locked one
	 */
	flock(top, LOCK_UN);
	return path_remove_tree(top, gone, e) < 0 ? err_wrap(e, "volume %s", key) : 0;
}

struct gc {
	int top;
	unsigned cleared;
	struct err *e;
};

static int gc_volume(void *ctx, const char *name)
{
	struct gc *g = ctx;
	autoclose int dir = -1;

	if (volume_is_key(name)) {
		dir = openat(g->top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0)
			volume_thaw_left(dir);
		return 0;
	}
	if (strcmp(name, NEW) && strncmp(name, GONE, strlen(GONE)))
		return 0;
	dir = openat(g->top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0)
		return 0;
	if (path_remove_tree(g->top, name, g->e) < 0)
		return -1;
	g->cleared++;
	return 0;
}

struct killed {
	struct registry *r;
	unsigned cleared;
};

static int remove_killed(void *ctx, const char *key, json_t *record)
{
	struct killed *k = ctx;
	const char *process = json_string_value(json_object_get(json_object_get(record, "labels"), LABEL_BUILD));
	struct err ignored;

	if (process && !strncmp(key, VOLUME_OF_BUILD, strlen(VOLUME_OF_BUILD)) && procid_has_ended(process) &&
	    volume_remove(k->r, key, &ignored) == 0)
		k->cleared++;
	return 0;
}

int volume_gc(struct registry *r, unsigned *ret_cleared, struct err *e)
{
	struct gc g = { .top = -1, .e = e };
	struct killed k = { .r = r };
	autoclose int top = -1, list = -1;
	int failed = 0;

	*ret_cleared = 0;
	if (!path_has(r->state_fd, "volumes"))
		return 0;
	top = g.top = volume_top(r, e);
	if (top < 0 || lock_top(top, e) < 0)
		return -1;
	list = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (list < 0 || path_each_entry(list, gc_volume, &g, &failed) < 0)
		return failed || list < 0 ? err_sys(e, "read the directory of volumes") : -1;
	flock(top, LOCK_UN);
	if (volume_each(r, remove_killed, &k, e) < 0)
		return -1;
	*ret_cleared = g.cleared + k.cleared;
	return 0;
}

/* ---- who uses which volumes ---- */

#define SPEC_BYTES_MAX (8u << 20)	/* as for registry_load() */

struct users {
	struct registry *r;
	json_t *all;		/* the answer of volume_users() */
	char unread[65];	/* a lasting sandbox with unreadable options */
	struct err why;
	struct err *e;
};

static int add_volume_user(struct users *u, const char *name, const char *tenant, json_t *user)
{
	char key[VOLUME_KEY_MAX];
	struct err ignored;
	json_t *list;

	if (volume_key(name, tenant, key, &ignored) < 0)
		return 0;
	list = json_object_get(u->all, key);
	if (!list && (json_object_set_new(u->all, key, json_array()) < 0 ||
		      !(list = json_object_get(u->all, key))))
		return err_nomem(u->e);
	/* one sandbox may mount it at two places */
	if (json_array_size(list) && json_array_get(list, json_array_size(list) - 1) == user)
		return 0;
	return json_array_append(list, user) < 0 ? err_nomem(u->e) : 0;
}

/* A lasting one: by the options it was made with, which its next start reads again. */
/* Describes its users, for volume inspect and the refusal of a removal; NULL without memory. */
static json_t *describe_volume_user(struct registry *r, const char *id)
{
	struct err ignored;
	autojson json_t *record = record_load_kept(r, id, &ignored);

	return json_pack("{s:s,s:s,s:s}", "id", id, "name", record_name(record), "status",
			 path_has(r->sandboxes_fd, id) ? "running" : "stopped");
}

/* Loads the options, also those of a newer berth, which are only looked at here. */
static json_t *load_spec(struct users *u, const char *id)
{
	autobuf struct buf b = BUF_INIT(SPEC_BYTES_MAX);
	json_t *spec = NULL;
	struct err why;
	char path[100];

	snprintf(path, sizeof(path), "%s/spec.json", id);
	if (io_read_file(u->r->kept_fd, path, &b, &why) == 0)
		spec = json_parse(b.data ? b.data : "", b.len, SPEC_BYTES_MAX, "spec.json", &why);
	if (!spec && why.os_errno != ENOENT) {
		snprintf(u->unread, sizeof(u->unread), "%s", id);
		u->why = why;
	}
	return spec;
}

/* A lasting one: by the options it was made with, which its next start reads again. */
static int add_lasting(void *ctx, const char *id)
{
	struct users *u = ctx;
	struct err ignored;
	autojson json_t *spec = load_spec(u, id), *owner = NULL, *user = NULL;
	char name[VOLUME_NAME_MAX + 1];
	const char *tenant;
	json_t *pair;
	size_t i;

	json_array_foreach(json_object_get(spec, "options"), i, pair) {
		const char *option = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (!option || !value || !volume_of_option(option, value, name))
			continue;
		if (!user) {
			owner = registry_load(u->r, id, REGISTRY_OWNER, &ignored);
			user = describe_volume_user(u->r, id);
		}
		if (!user)
			return err_nomem(u->e);
		tenant = json_string_value(json_object_get(owner, "name"));
		if (add_volume_user(u, name, tenant ? tenant : "", user) < 0)
			return -1;
	}
	return 0;
}

/*
 * A sandbox of berth run, by its record. It has none until its command runs; until then the lock
 * of the volume shows it.
 */
static int add_run(void *ctx, const char *id)
{
	struct users *u = ctx;
	struct err ignored;
	autojson json_t *record = NULL, *user = NULL;
	json_t *mount;
	size_t i;

	if (path_has(u->r->kept_fd, id) ||
	    record_read(u->r->sandboxes_fd, id, &record, &ignored) <= 0)
		return 0;
	user = json_pack("{s:s,s:O?,s:s}", "id", id, "name", json_object_get(record, "name"),
			 "status", "running");
	if (!user)
		return err_nomem(u->e);
	json_array_foreach(record_mounts(record), i, mount) {
		const char *name = json_string_value(json_object_get(mount, "volume"));

		if (name && add_volume_user(u, name, "", user) < 0)
			return -1;
	}
	return 0;
}

static json_t *gather_volume_users(struct users *u)
{
	u->all = json_object();
	if (!u->all) {
		err_nomem(u->e);
		return NULL;
	}
	if (registry_each(u->r->kept_fd, add_lasting, u, u->e) < 0 ||
	    registry_each(u->r->sandboxes_fd, add_run, u, u->e) < 0) {
		json_decref(u->all);
		return NULL;
	}
	return u->all;
}

json_t *volume_users(struct registry *r, struct err *e)
{
	struct users u = { .r = r, .e = e };

	return gather_volume_users(&u);
}

int volume_users_check(struct registry *r, const char *key, struct err *e)
{
	struct users u = { .r = r, .e = e };
	autojson json_t *all = gather_volume_users(&u);
	const json_t *list = json_object_get(all, key), *user = json_array_get(list, 0);
	const char *name = json_string_value(json_object_get(user, "name")),
		   *id = json_string_value(json_object_get(user, "id"));
	const char *status = json_string_value(json_object_get(user, "status"));
	size_t more = json_array_size(list) - 1;

	/* a sandbox with unreadable options may use any volume */
	if (all && !user && u.unread[0]) {
		err_set(e, ERR_BUSY, "volume %s may be used by sandbox %s: %.200s", key, u.unread,
			u.why.msg);
		return err_hint(e, "berth rm --force %s", u.unread);
	}
	if (!all)
		return -1;
	if (!user)
		return 0;
	err_set(e, ERR_BUSY, "volume %s is used by sandbox %s, which is %s", key,
		name && name[0] ? name : id, status);
	if (more)
		err_set(e, ERR_BUSY, "volume %s is used by sandbox %s, which is %s, and %zu more",
			key, name && name[0] ? name : id, status, more);
	return err_hint(e, "berth rm --force %s", name && name[0] ? name : id);
}

/* ---- volumes made for one sandbox ---- */

#define OWN_FILE "own-volumes.json"
#define OWN_FORMAT 1

int volume_own_save(struct registry *r, const char *id, const json_t *names, int passing,
		    struct err *e)
{
	autojson json_t *doc = json_pack("{s:i,s:O}", "version", OWN_FORMAT, "volumes", names);

	if (!doc)
		return err_nomem(e);
	return passing ? registry_save_passing(r, id, OWN_FILE, doc, e) :
			 registry_save(r, id, OWN_FILE, doc, e);
}

json_t *volume_own_load(struct registry *r, const char *id)
{
	struct err ignored;
	autojson json_t *doc = registry_load(r, id, OWN_FILE, &ignored);
	json_t *names = json_object_get(doc, "volumes");

	return json_array_size(names) ? json_incref(names) : NULL;
}

void volume_own_remove(struct registry *r, const json_t *names)
{
	struct err ignored;
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)names, i, one) {
		char key[VOLUME_KEY_MAX];
		const char *name = json_string_value(one);

		/* a volume that cannot be removed is one without users, which a prune removes */
		if (i < VOLUME_OWN_MAX && name && volume_key(name, "", key, &ignored) == 0)
			volume_remove(r, key, &ignored);
	}
}
