/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/diskuse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/digest.h"
#include "rootfs/store/pins.h"

struct part {
	uint64_t count, bytes, reclaimable;
};

struct disk {
	int store_fd;
	json_t *blobs, *chains;		/* hex -> how many images have it; held images count too */
	json_t *digests;		/* digests of images already counted: a second name adds nothing */
	struct part images, blob, layer, sandbox, volume, host, other;
	uint64_t shared;
};

static void count_digest_user(json_t *set, const json_t *digest)
{
	const char *s = json_string_value(digest);

	if (s && digest_is_valid(s))
		json_object_set_new(set, digest_hex(s), json_integer(json_integer_value(json_object_get(set, digest_hex(s))) + 1));
}

static void mark_image(struct disk *d, const json_t *record)
{
	const char *digest = json_string_value(json_object_get(record, "digest"));
	const json_t *layer;
	size_t i;

	if (!digest || json_object_get(d->digests, digest))
		return;
	json_object_set_new(d->digests, digest, json_true());
	count_digest_user(d->blobs, json_object_get(record, "digest"));
	count_digest_user(d->blobs, json_object_get(record, "config"));
	json_array_foreach(json_object_get(record, "layers"), i, layer) {
		count_digest_user(d->blobs, json_object_get(layer, "digest"));
		count_digest_user(d->chains, json_object_get(layer, "chain_id"));
	}
}

static int see_record(void *ctx, const char *filename, const json_t *record, const struct err *bad, struct err *e)
{
	struct disk *d = ctx;

	(void)filename;
	(void)bad;
	(void)e;
	d->images.count += record != NULL;
	mark_image(d, record);
	return 0;
}

static int see_pin(void *ctx, const char *who, const json_t *record, struct err *e)
{
	(void)who;
	(void)e;
	mark_image(ctx, record);
	return 0;
}

/* Sums the allocated bytes of name and everything below it. */
static int allocated_below(int dir_fd, const char *name, uint64_t *ret, struct err *e)
{
	struct err why = { 0 };
	uint64_t below = 0;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		*ret = 0;
		return errno == ENOENT ? 0 : err_sys(e, "look at %.100s", name);
	}
	/*
	 * it was removed while we looked, or a sandbox nested directories too deep: the known
	 * part counts
	 */
	if (S_ISDIR(st.st_mode) && catalog_disk_bytes(dir_fd, name, &below, NULL, &why) < 0 && why.code != ERR_NOT_FOUND &&
	    why.code != ERR_CORRUPT && why.os_errno != ENOENT) {
		*e = why;
		return -1;
	}
	*ret = (uint64_t)st.st_blocks * 512 + below;
	return 0;
}

typedef int entry_fn(struct disk *d, int dir_fd, const char *name, uint64_t bytes, struct err *e);

/* Adds the directory's own bytes to *own, and calls fn for each name in it. */
static int each_stored_name(struct disk *d, const char *path, uint64_t *own, entry_fn *fn, struct err *e)
{
	int fd = openat(d->store_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *de;
	struct stat st;
	int rc = 0;

	if (!dir)
		return errno == ENOENT ? 0 : err_sys(e, "read %s", path);
	if (!fstat(fd, &st))
		*own += (uint64_t)st.st_blocks * 512;
	while (!rc && (de = readdir(dir))) {
		uint64_t bytes = 0;

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		rc = allocated_below(dirfd(dir), de->d_name, &bytes, e);
		if (!rc)
			rc = fn(d, dirfd(dir), de->d_name, bytes, e);
	}
	closedir(dir);
	return rc;
}

static int add_blob(struct disk *d, int dir_fd, const char *name, uint64_t bytes, struct err *e)
{
	(void)dir_fd;
	(void)e;
	d->blob.count++;
	d->blob.bytes += bytes;
	if (!json_object_get(d->blobs, name))
		d->blob.reclaimable += bytes;
	return 0;
}

static int add_layer_usage(struct disk *d, int dir_fd, const char *name, uint64_t bytes, struct err *e)
{
	const json_int_t users = json_integer_value(json_object_get(d->chains, name));

	(void)dir_fd;
	(void)e;
	d->layer.count++;
	d->layer.bytes += bytes;
	if (!users)
		d->layer.reclaimable += bytes;
	if (users > 1)
		d->shared += bytes;
	return 0;
}

/*
 * Adds a sandbox. Only one without a supervisor can be removed; run_dir would show which those are,
 * but our run_dir may be another's.
 */
static int add_sandbox(struct disk *d, int dir_fd, const char *name, uint64_t bytes, struct err *e)
{
	(void)dir_fd;
	(void)name;
	(void)e;
	d->sandbox.count++;
	d->sandbox.bytes += bytes;
	return 0;
}

/* Adds a volume. The volumes' own list (berth volume ls) shows which of them are in use. */
static int add_volume(struct disk *d, int dir_fd, const char *name, uint64_t bytes, struct err *e)
{
	(void)dir_fd;
	(void)name;
	(void)e;
	d->volume.count++;
	d->volume.bytes += bytes;
	return 0;
}

static int add_host_usage(struct disk *d, int dir_fd, const char *name, uint64_t bytes, struct err *e)
{
	(void)dir_fd;
	(void)name;
	(void)e;
	d->host.count++;
	d->host.bytes += bytes;
	return 0;
}

static int add_other(struct disk *d, int dir_fd, const char *name, uint64_t bytes, struct err *e)
{
	(void)dir_fd;
	(void)name;
	(void)e;
	d->other.count++;
	d->other.bytes += bytes;
	return 0;
}

/* Adds the files of an import that died; the next import removes them. A running import holds a lock. */
static int add_tmp(struct disk *d, int dir_fd, const char *name, uint64_t bytes, struct err *e)
{
	autoclose int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	(void)e;
	d->other.count++;
	d->other.bytes += bytes;
	if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
		d->other.reclaimable += bytes;
	return 0;
}

static int measure_disk_use(struct disk *d, struct err *e)
{
	static const char *const small[] = { "images", "holds", "locks", "pins", "tenants" };
	struct stat st;
	size_t i;

	for (i = 0; digest_blob_dirs[i]; i++)
		if (each_stored_name(d, digest_blob_dirs[i], &d->blob.bytes, add_blob, e) < 0)
			return -1;
	if (each_stored_name(d, "layers", &d->layer.bytes, add_layer_usage, e) < 0 ||
	    each_stored_name(d, "../sandboxes", &d->sandbox.bytes, add_sandbox, e) < 0 ||
	    each_stored_name(d, "../volumes", &d->volume.bytes, add_volume, e) < 0 ||
	    each_stored_name(d, "../host", &d->host.bytes, add_host_usage, e) < 0 ||
	    each_stored_name(d, "tmp", &d->other.bytes, add_tmp, e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(small); i++)
		if (each_stored_name(d, small[i], &d->other.bytes, add_other, e) < 0)
			return -1;
	if (!fstatat(d->store_fd, "blobs", &st, AT_SYMLINK_NOFOLLOW))
		d->other.bytes += (uint64_t)st.st_blocks * 512;
	if (!fstat(d->store_fd, &st))
		d->other.bytes += (uint64_t)st.st_blocks * 512;
	return 0;
}

static json_t *part_json(const struct part *p)
{
	return json_pack("{s:I, s:I, s:I}", "count", (json_int_t)p->count, "bytes", (json_int_t)p->bytes,
			 "reclaimable_bytes", (json_int_t)p->reclaimable);
}

json_t *diskuse(int store_fd, struct err *e)
{
	autojson json_t *blobs = json_object(), *chains = json_object(), *digests = json_object();
	struct disk d = { .store_fd = store_fd, .blobs = blobs, .chains = chains, .digests = digests };
	json_t *ret, *layers;
	uint64_t total;

	if (catalog_each(store_fd, see_record, &d, e) < 0 || pins_each(store_fd, see_pin, &d, e) < 0 || measure_disk_use(&d, e) < 0)
		return NULL;
	total = d.blob.bytes + d.layer.bytes + d.sandbox.bytes + d.volume.bytes + d.host.bytes +
		d.other.bytes;
	layers = part_json(&d.layer);
	json_object_set_new(layers, "shared_bytes", json_integer((json_int_t)d.shared));
	ret = json_pack("{s:{s:I}, s:o, s:o, s:o, s:o, s:o, s:o, s:I}",
			"images", "count", (json_int_t)d.images.count, "blobs", part_json(&d.blob),
			"layers", layers, "sandboxes", part_json(&d.sandbox),
			"volumes", part_json(&d.volume), "host", part_json(&d.host), "other", part_json(&d.other), "total_bytes", (json_int_t)total);
	if (!ret)
		err_nomem(e);
	return ret;
}
