/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/transfer/collect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/hash.h"
#include "rootfs/store/image.h"
#include "rootfs/store/pins.h"
#include "rootfs/store/store.h"
#include "rootfs/transfer/verify.h"

/* ---- collecting and checking ---- */

#define CHUNK (256u << 10)

struct collector {
	struct store store;
	json_t *blobs, *chains;	/* objects used as sets of hex */
	json_t *problems;	/* NULL: a problem is an error */
	json_t *verified;	/* chain ids whose trees were compared */
	const char *in_use;	/* for look_at_hold() */
	int repair;
	collect_show_fn *show;
	json_int_t layers_count, blobs_count, bytes, images_count;
};

static int problem(struct collector *c, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int problem(struct collector *c, struct err *e, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!c->problems)
		return err_set(e, ERR_CORRUPT, "%s; hint: berth image fsck", text);
	return json_array_append_new(c->problems, json_string(text)) < 0 ? err_nomem(e) : 0;
}

static int mark_needed_digest(json_t *set, const char *digest)
{
	if (!digest || !digest_is_valid(digest))
		return -1;
	json_object_set_new(set, digest_hex(digest), json_true());
	return 0;
}

static int mark_record(void *ctx, const char *filename, const json_t *record, const struct err *bad, struct err *e)
{
	struct collector *c = ctx;
	const json_t *layer;
	size_t i;
	int wrong;

	c->images_count++;
	/* its layers and blobs are unknown, so none can be called garbage */
	if (!record && !c->problems && bad->code == ERR_UNSUPPORTED) {
		*e = *bad;
		return err_wrap(e, "no layers and blobs are removed");
	}
	if (!record)
		return problem(c, e, "%s", bad->msg);
	wrong = mark_needed_digest(c->blobs, json_string_value(json_object_get(record, "digest")));
	wrong |= mark_needed_digest(c->blobs, json_string_value(json_object_get(record, "config")));
	json_array_foreach(json_object_get(record, "layers"), i, layer) {
		wrong |= mark_needed_digest(c->blobs, json_string_value(json_object_get(layer, "digest")));
		wrong |= mark_needed_digest(c->chains, json_string_value(json_object_get(layer, "chain_id")));
	}
	return wrong ? problem(c, e, "record %s is damaged", filename) : 0;
}

/* Marks the files of a pinned image, which counts like a named one. */
static int mark_pin(void *ctx, const char *who, const json_t *record, struct err *e)
{
	struct collector *c = ctx;
	const struct err none = { 0 };
	json_int_t images = c->images_count;
	int rc = mark_record(c, who, record, &none, e);

	c->images_count = images;
	return rc;
}

/* Calls fn for each name in a directory of the store. */
static int each_name(struct collector *c, const char *path,
		     int (*fn)(struct collector *c, int dir_fd, const char *name, struct err *e), struct err *e)
{
	int fd = openat(c->store.fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;
	int rc = 0;

	if (!dir) {
		fd_close(&fd);
		return err_sys(e, "read %s in the image store", path);
	}
	while (!rc && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
			rc = fn(c, dirfd(dir), d->d_name, e);
	closedir(dir);
	return rc;
}

static int each_blob(struct collector *c, int (*fn)(struct collector *c, int dir_fd, const char *name, struct err *e),
		     struct err *e)
{
	const char *const *dir;

	for (dir = digest_blob_dirs; *dir; dir++)
		if (each_name(c, *dir, fn, e) < 0)
			return -1;
	return 0;
}

/* ---- garbage ---- */

/* Marks the layers of an image without a name on which a sandbox runs. */
static int mark_held(struct collector *c, int fd, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1u << 20);
	char *line, *save = NULL;

	if (io_read_all(fd, &b, "a hold", e) < 0)
		return -1;
	for (line = b.data ? strtok_r(b.data, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
		json_object_set_new(c->chains, line, json_true());
	return 0;
}

static int sweep_hold(struct collector *c, int dir_fd, const char *name, struct err *e)
{
	char digest[DIGEST_SIZE], who[200];
	autoclose int fd = -1;
	int pinned;

	if (json_object_get(c->blobs, name))
		return 0;
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open hold %.20s", name);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return mark_held(c, fd, e);
	/*
	 * a sandbox was made and stopped since the pins were read; from now on no process gets the
	 * hold
	 */
	snprintf(digest, sizeof(digest), "%s:%.128s", strlen(name) > 64 ? "sha512" : "sha256", name);
	pinned = pins_hold(c->store.fd, digest, who, e);
	if (pinned)
		return pinned < 0 ? -1 : pins_each(c->store.fd, mark_pin, c, e);
	/* under the lock: a process that waits for it then sees that the link count is 0 */
	return unlinkat(dir_fd, name, 0) < 0 ? err_sys(e, "remove hold %.20s", name) : 0;
}

static int sweep_layer(struct collector *c, int dir_fd, const char *name, struct err *e)
{
	uint64_t bytes = 0;

	if (json_object_get(c->chains, name))
		return 0;
	catalog_disk_bytes(dir_fd, name, &bytes, NULL, NULL);
	/* moved out of sight as a whole first; if we die, the next writer clears tmp */
	if (renameat(dir_fd, name, c->store.tmp_fd, name) < 0)
		return err_sys(e, "remove layer %.20s", name);
	c->layers_count++;
	c->bytes += (json_int_t)bytes;
	return path_remove_tree(c->store.tmp_fd, name, e);
}

static int sweep_blob(struct collector *c, int dir_fd, const char *name, struct err *e)
{
	struct stat st;

	if (json_object_get(c->blobs, name))
		return 0;
	if (!fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		c->bytes += (json_int_t)st.st_blocks * 512;
	if (unlinkat(dir_fd, name, 0) < 0)
		return err_sys(e, "remove blob %.20s", name);
	c->blobs_count++;
	return 0;
}

/* Removes a lock file. No process adds while we hold the lock exclusively, so none uses these files. */
static int sweep_lock(struct collector *c, int dir_fd, const char *name, struct err *e)
{
	(void)c;
	return unlinkat(dir_fd, name, 0) < 0 ? err_sys(e, "remove lock %.20s", name) : 0;
}

/*
 * Removes temporary files of writers that were killed (io_replace_file()). No process writes while
 * we hold the lock exclusively.
 */
static int sweep_part(struct collector *c, int dir_fd, const char *name, struct err *e)
{
	(void)c;
	return name[0] == '.' && unlinkat(dir_fd, name, 0) < 0 ? err_sys(e, "remove the part %.40s", name) : 0;
}

static int sweep_unneeded(struct collector *c, struct err *e)
{
	if (each_name(c, "images", sweep_part, e) < 0)
		return -1;
	if (catalog_each(c->store.fd, mark_record, c, e) < 0 || pins_each(c->store.fd, mark_pin, c, e) < 0 ||
	    each_name(c, "holds", sweep_hold, e) < 0 ||
	    each_name(c, "layers", sweep_layer, e) < 0 || each_blob(c, sweep_blob, e) < 0)
		return -1;
	return each_name(c, "locks", sweep_lock, e);
}

json_t *collect_garbage(int store_fd, int wait, struct err *e)
{
	autojson json_t *blobs = json_object();
	autojson json_t *chains = json_object();
	struct collector c = { .blobs = blobs, .chains = chains };
	json_t *ret = NULL;

	if (store_begin_exclusive(&c.store, store_fd, wait, e) < 0)
		return NULL;
	if (!sweep_unneeded(&c, e))
		ret = json_pack("{s:I, s:I, s:I}", "layers", c.layers_count, "blobs", c.blobs_count,
				"bytes", c.bytes);
	store_end(&c.store);
	return ret;
}

/* ---- check ---- */

static int check_blob(struct collector *c, int dir_fd, const char *name, struct err *e)
{
	autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	autofree unsigned char *chunk = malloc(CHUNK);
	autohash struct hash h = { 0 };
	char digest[DIGEST_SIZE];
	ssize_t r;

	c->blobs_count++;
	if (c->show)
		c->show("blob", (uint64_t)c->blobs_count);
	if (fd < 0)
		return problem(c, e, "blob %.128s cannot be opened: %s", name, strerror(errno));
	if (!chunk)
		return err_nomem(e);
	if (hash_init(&h, strlen(name) > 64 ? "sha512:" : NULL, e) < 0)
		return -1;
	while ((r = read(fd, chunk, CHUNK)) > 0)
		if (hash_add(&h, chunk, (size_t)r, e) < 0)
			return -1;
	if (r < 0)
		return problem(c, e, "blob %.128s cannot be read: %s", name, strerror(errno));
	if (hash_final(&h, digest, e) < 0)
		return -1;
	if (!strcmp(digest_hex(digest), name))
		return 0;
	if (c->repair && unlinkat(dir_fd, name, 0) < 0)
		return err_sys(e, "remove damaged blob %.128s", name);
	return problem(c, e, "blob %.128s is damaged%s: its digest is %s; hint: import or pull the image again", name,
		       c->repair ? " and was removed" : "", digest);
}

static int check_layer(struct collector *c, int dir_fd, const char *name, struct err *e)
{
	uint64_t bytes, devices = 0;
	struct err why = { 0 };

	c->layers_count++;
	if (!digest_is_hex(name, 64, 64))
		return problem(c, e, "layers/%.100s is not a layer", name);
	if (catalog_disk_bytes(dir_fd, name, &bytes, &devices, &why) < 0)
		return problem(c, e, "layer %.64s: %s", name, why.msg);
	if (!devices)
		return 0;
	/* out of sight at once; a sandbox that uses it keeps its open descriptors */
	if (c->repair && (renameat(dir_fd, name, c->store.tmp_fd, name) < 0 || path_remove_tree(c->store.tmp_fd, name, e) < 0))
		return err_sys(e, "remove layer %.64s", name);
	return problem(c, e, "layer %.64s holds %llu device nodes%s", name, (unsigned long long)devices,
		       c->repair ? " and was removed" : "");
}

static int holds_layer(struct collector *c, int fd, const char *hex, int *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1u << 20);

	(void)c;
	if (io_read_all(fd, &b, "a hold", e) < 0)
		return -1;
	*ret = b.data && strstr(b.data, hex);
	return 0;
}

/*
 * Looks for a sandbox on the layer c->in_use, which becomes NULL if there is one: sandboxes lock
 * the hold of their image.
 */
static int look_at_hold(struct collector *c, int dir_fd, const char *name, struct err *e)
{
	autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int has = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open hold %.20s", name);
	if (c->in_use && flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (holds_layer(c, fd, c->in_use, &has, e) < 0)
			return -1;
		if (has)
			c->in_use = NULL;
	}
	return 0;
}

/* Removes the tree so that it is made again, unless a running sandbox uses it. */
static int replace_tree(struct collector *c, const char *hex, const char *why, struct err *e)
{
	char path[96];

	c->in_use = hex;
	if (each_name(c, "holds", look_at_hold, e) < 0)
		return -1;
	if (!c->in_use)
		return problem(c, e, "layer %.64s is not what its blob says, but sandboxes use it: %s; hint: stop them, and "
			       "fsck --repair again", hex, why);
	snprintf(path, sizeof(path), "layers/%.64s", hex);
	if (renameat(c->store.fd, path, c->store.tmp_fd, hex) < 0 || path_remove_tree(c->store.tmp_fd, hex, e) < 0)
		return err_sys(e, "remove layer %.64s", hex);
	return problem(c, e, "layer %.64s was not what its blob says and was removed: %s", hex, why);
}

static int check_tree(struct collector *c, const json_t *layer, const int *lower, size_t n, struct err *e)
{
	const char *chain = json_string_value(json_object_get(layer, "chain_id"));
	char why[VERIFY_WHY];
	struct err ignored;

	if (!chain || !digest_is_sha256(chain) || json_object_get(c->verified, chain))
		return 0;
	json_object_set_new(c->verified, chain, json_true());
	if (c->show)
		c->show("layer", json_object_size(c->verified));
	/*
	 * a layer that cannot be compared has a missing or bad blob, or is not a tree; that is
	 * reported separately
	 */
	if (verify_layer(&c->store, layer, lower, n, why, &ignored) != 0)
		return 0;
	return c->repair ? replace_tree(c, digest_hex(chain), why, e) :
			   problem(c, e, "layer %.64s is not what its blob says: %s; hint: berth image fsck --repair", digest_hex(chain), why);
}

static int check_trees(void *ctx, const char *filename, const json_t *record, const struct err *bad, struct err *e)
{
	const json_t *layers = json_object_get(record, "layers");
	size_t count = json_array_size(layers), i, opened = 0;
	autofree int *lower = calloc(count ? count : 1, sizeof(*lower));
	struct collector *c = ctx;
	struct err ignored;
	int rc = 0;

	(void)filename;
	(void)bad;
	if (!lower)
		return err_nomem(e);
	for (; opened < count; opened++) {
		const char *chain = json_string_value(json_object_get(json_array_get(layers, opened), "chain_id"));

		lower[opened] = chain && digest_is_sha256(chain) ? store_open_layer(&c->store, chain, &ignored) : -1;
		if (lower[opened] < 0)
			break;	/* the layers above cannot be checked without it */
	}
	/* from the top: the lower ones are needed to decide, and may be removed */
	for (i = opened; i-- && rc == 0;)
		rc = check_tree(c, json_array_get(layers, i), lower, i, e);
	while (opened)
		close(lower[--opened]);
	return rc;
}

/* Checks that each object of set exists. dir: NULL for blobs, whose kind the length of their names shows. */
static int check_present(struct collector *c, const json_t *set, const char *dir, const char *what, struct err *e)
{
	char path[DIGEST_BLOB_PATH_SIZE];
	const char *hex;
	json_t *v;

	json_object_foreach((json_t *)set, hex, v) {
		snprintf(path, sizeof(path), "%s/%.128s", dir ? dir : digest_blob_dirs[strlen(hex) > 64], hex);
		if (!path_has(c->store.fd, path) &&
		    problem(c, e, "%s %.128s is missing; hint: import or pull the image again", what, hex) < 0)
			return -1;
	}
	return 0;
}

static int check_hold(void *ctx, const char *filename, const json_t *record, const struct err *bad, struct err *e)
{
	const char *digest = json_string_value(json_object_get(record, "digest"));
	struct collector *c = ctx;
	char path[DIGEST_BLOB_PATH_SIZE];

	(void)bad;
	if (!digest || !digest_is_valid(digest))
		return 0;	/* said before */
	snprintf(path, sizeof(path), "holds/%.128s", digest_hex(digest));
	if (!path_has(c->store.fd, path))
		return problem(c, e, "the hold of %s is missing; hint: import or pull the image again", filename);
	return 0;
}

json_t *collect_check(int store_fd, int repair, collect_show_fn *show, struct err *e)
{
	autojson json_t *blobs = json_object();
	autojson json_t *chains = json_object();
	autojson json_t *verified = json_object();
	struct collector c = { .blobs = blobs, .chains = chains, .verified = verified, .repair = repair,
			       .show = show, .problems = json_array() };
	json_t *ret = NULL;

	if (!c.problems || store_begin(&c.store, store_fd, e) < 0) {
		json_decref(c.problems);
		return NULL;
	}
	if (!catalog_each(store_fd, mark_record, &c, e) && !catalog_each(store_fd, check_hold, &c, e) &&
	    !check_present(&c, blobs, NULL, "blob", e) &&
	    !check_present(&c, chains, "layers", "layer", e) &&
	    !each_blob(&c, check_blob, e) && !each_name(&c, "layers", check_layer, e) &&
	    !catalog_each(store_fd, check_trees, &c, e))
		ret = json_pack("{s:I, s:I, s:I, s:O}", "images", c.images_count, "blobs", c.blobs_count,
				"layers", c.layers_count, "problems", c.problems);
	json_decref(c.problems);
	store_end(&c.store);
	return ret;
}
