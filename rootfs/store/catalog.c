/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "rootfs/store/digest.h"
#include "rootfs/store/image.h"
#include "rootfs/store/oci.h"
#include "rootfs/store/pins.h"
#include "rootfs/store/ref.h"
#include "rootfs/store/store.h"
#include "rootfs/store/tree.h"

#define RECORD_MAX (16u << 20)

static int compare_record_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int is_record_entry(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return d->d_name[0] != '.' && n > 5 && !strcmp(d->d_name + n - 5, ".json");
}

static int list_files(int dir_fd, char ***ret, size_t *ret_n, struct err *e)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	char **names = NULL;
	struct dirent *d;
	size_t n = 0;

	if (!dir)
		return err_sys(e, "read the list of images");
	while ((d = readdir(dir))) {
		char **more;

		if (!is_record_entry(d))
			continue;
		more = realloc(names, (n + 1) * sizeof(*names));
		if (!more || !((names = more)[n] = strdup(d->d_name)))
			break;
		n++;
	}
	closedir(dir);
	*ret = names;
	*ret_n = n;
	if (n)
		qsort(names, n, sizeof(*names), compare_record_names);
	return d ? err_nomem(e) : 0;
}

static json_t *read_store_json(int dir_fd, const char *name, size_t max, struct err *e)
{
	autobuf struct buf b = BUF_INIT(max);

	if (io_read_file(dir_fd, name, &b, e) < 0)
		return NULL;
	return json_parse(b.data ? b.data : "", b.len, max, name, e);
}

int catalog_each(int store_fd,
		 int (*fn)(void *ctx, const char *filename, const json_t *record, const struct err *bad,
			   struct err *e),
		 void *ctx, struct err *e)
{
	autoclose int dir = openat(store_fd, "images", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char **names = NULL;
	size_t n = 0, i;
	int rc;

	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open the list of images");
	rc = list_files(dir, &names, &n, e);
	for (i = 0; i < n; i++) {
		struct err bad = { 0 };
		autojson json_t *record = rc ? NULL : read_store_json(dir, names[i], RECORD_MAX, &bad);
		const char *digest = json_string_value(json_object_get(record, "digest"));

		if (!rc && record && (image_check_format(record, names[i], &bad) < 0 || !digest || !digest_is_valid(digest))) {
			if (!bad.code)
				err_set(&bad, ERR_CORRUPT, "record %s has no digest", names[i]);
			json_decref(record);
			record = NULL;
		}
		/* removed while we looked */
		if (!rc && (record || bad.code != ERR_NOT_FOUND))
			rc = fn(ctx, names[i], record, record ? NULL : &bad, e);
		free(names[i]);
	}
	free(names);
	return rc;
}

/* ---- sizes ---- */

static int layer_disk_bytes(int fd, int depth, uint64_t *bytes, uint64_t *devices, struct err *e)
{
	DIR *dir = fdopendir(fd);
	struct dirent *d;
	struct stat st;
	int rc = 0;

	if (!dir) {
		close(fd);
		return err_sys(e, "read a layer");
	}
	if (depth > TREE_COMPONENTS_MAX + 1)
		rc = err_set(e, ERR_CORRUPT, "a layer is nested deeper than %d", TREE_COMPONENTS_MAX);
	while (!rc && (d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			rc = err_sys(e, "look at %s in a layer", d->d_name);
			break;
		}
		*bytes += (uint64_t)st.st_blocks * 512 / (S_ISDIR(st.st_mode) || !st.st_nlink ? 1 : st.st_nlink);
		*devices += S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && st.st_rdev);
		if (S_ISDIR(st.st_mode)) {
			int sub = openat(dirfd(dir), d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			rc = sub < 0 ? err_sys(e, "open %s in a layer", d->d_name) :
				layer_disk_bytes(sub, depth + 1, bytes, devices, e);
		}
	}
	closedir(dir);
	return rc;
}

int catalog_disk_bytes(int dir_fd, const char *name, uint64_t *ret_bytes, uint64_t *ret_devices, struct err *e)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t bytes = 0, devices = 0;

	if (fd < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open layer %.20s", name);
	if (layer_disk_bytes(fd, 0, &bytes, &devices, e) < 0)
		return -1;
	*ret_bytes = bytes;
	if (ret_devices)
		*ret_devices = devices;
	return 0;
}

struct listing {
	json_t *out;
	int store_fd;
	json_t *sizes;	/* chain id -> bytes, so that a shared layer is walked once */
	json_t *users;	/* chain id -> count of images */
};

static int list_image_record(void *ctx, const char *filename, const json_t *record, const struct err *bad, struct err *e)
{
	static const char *const keys[] = { "name", "digest", "platform", "created", "imported", "size",
				      "labels" };
	struct listing *l = ctx;
	json_t *one, *layers, *layer;
	size_t i;

	(void)filename;
	if (!record) {
		/* a newer berth wrote the record; the others can still be listed */
		if (bad->code == ERR_UNSUPPORTED) {
			log_note("berth", "%s", bad->msg);
			return 0;
		}
		if (e)
			*e = *bad;
		return err_hint(e, "berth image fsck");
	}
	one = json_object();
	for (i = 0; one && i < ARRAY_LEN(keys); i++)
		json_object_set(one, keys[i], json_object_get(record, keys[i]));
	layers = json_object_get(record, "layers");
	json_object_set_new(one, "layers", json_integer((json_int_t)json_array_size(layers)));
	if (json_object_get(record, "owner"))
		json_object_set(one, "owner", json_object_get(record, "owner"));
	/* kept until sizes are known, then dropped */
	if (l->sizes)
		json_object_set(one, "chain", layers);
	if (json_array_append_new(l->out, one) < 0)
		return err_nomem(e);
	if (!l->sizes)
		return 0;
	json_array_foreach(layers, i, layer) {
		const char *chain = json_string_value(json_object_get(layer, "chain_id"));
		char path[96];
		uint64_t bytes = 0;

		if (!chain || !digest_is_sha256(chain))
			return err_set(e, ERR_CORRUPT, "record %s has a bad layer; hint: berth image fsck", filename);
		json_object_set_new(l->users, chain,
				    json_integer(json_integer_value(json_object_get(l->users, chain)) + 1));
		if (json_object_get(l->sizes, chain))
			continue;
		snprintf(path, sizeof(path), "layers/%.64s", digest_hex(chain));
		if (catalog_disk_bytes(l->store_fd, path, &bytes, NULL, e) < 0)
			return -1;
		json_object_set_new(l->sizes, chain, json_integer((json_int_t)bytes));
	}
	return 0;
}

static void add_listed_sizes(struct listing *l)
{
	json_t *one, *layer;
	size_t i, j;

	json_array_foreach(l->out, i, one) {
		json_int_t disk = 0, shared = 0;

		json_array_foreach(json_object_get(one, "chain"), j, layer) {
			const char *chain = json_string_value(json_object_get(layer, "chain_id"));
			json_int_t n = json_integer_value(json_object_get(l->sizes, chain));

			disk += n;
			if (json_integer_value(json_object_get(l->users, chain)) > 1)
				shared += n;
		}
		json_object_del(one, "chain");
		json_object_set_new(one, "disk_bytes", json_integer(disk));
		json_object_set_new(one, "shared_bytes", json_integer(shared));
	}
}

json_t *catalog_list(int store_fd, int with_sizes, struct err *e)
{
	autojson json_t *sizes = with_sizes ? json_object() : NULL;
	autojson json_t *users = json_object();
	struct listing l = { .out = json_array(), .store_fd = store_fd, .sizes = sizes, .users = users };

	if (!l.out) {
		err_nomem(e);
		return NULL;
	}
	if (catalog_each(store_fd, list_image_record, &l, e) < 0) {
		json_decref(l.out);
		return NULL;
	}
	if (with_sizes)
		add_listed_sizes(&l);
	return l.out;
}

json_t *catalog_inspect(int store_fd, const char *ref, struct err *e)
{
	json_t *record = image_record(store_fd, ref, e), *config;
	const char *digest = json_string_value(json_object_get(record, "config"));
	char path[DIGEST_BLOB_PATH_SIZE];

	if (!record)
		return NULL;
	if (digest && digest_is_valid(digest)) {
		digest_blob_path(path, digest);
		config = read_store_json(store_fd, path, OCI_CONFIG_MAX, e);
		if (!config) {
			json_decref(record);
			return NULL;
		}
		json_object_set_new(record, "image_config", config);
	}
	return record;
}

/* ---- removing ---- */

struct removal {
	const char *digest;
	json_t *files;	/* file name -> name */
};

static int find_names(void *ctx, const char *filename, const json_t *record, const struct err *bad, struct err *e)
{
	struct removal *r = ctx;
	json_t *name = json_object_get(record, "name");
	const char *digest = json_string_value(json_object_get(record, "digest"));

	(void)bad;
	(void)e;
	if (digest && name && !strcmp(digest, r->digest))
		json_object_set(r->files, filename, name);
	return 0;
}

static int in_use(int store_fd, const char *digest)
{
	char path[6 + DIGEST_SIZE];
	autoclose int fd = -1;

	snprintf(path, sizeof(path), "holds/%.128s", digest_hex(digest));
	fd = openat(store_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* Tells whether ref names an image by its digest instead of one of its names. */
static int is_by_digest(const char *ref, const char *name)
{
	struct ref r;
	char full[REF_NAME_MAX + 1];

	if (!strncmp(ref, "sha256:", 7) || !strncmp(ref, "sha512:", 7) ||
	    ref_parse_owned(ref, &r, NULL) < 0)
		return 1;
	ref_name(&r, full);
	return strcmp(full, name) != 0;
}

/*
 * Drops a name whose record cannot be understood. Its image is unknown; a sandbox that uses the
 * image has a pin.
 */
static int remove_newer(int store_fd, const char *ref, json_t *removed, struct err *e)
{
	char filename[REF_NAME_MAX + 8], path[REF_NAME_MAX + 32], name[REF_NAME_MAX + 1];
	struct ref r;

	if (ref_parse_owned(ref, &r, e) < 0)
		return -1;
	ref_filename(&r, filename);
	ref_name(&r, name);
	snprintf(path, sizeof(path), "images/%s", filename);
	if (unlinkat(store_fd, path, 0) < 0)
		return err_sys(e, "remove %s", path);
	return json_array_append_new(removed, json_string(name)) < 0 ? err_nomem(e) : 0;
}

int catalog_remove(int store_fd, const char *ref, int force, json_t *removed, struct err *e)
{
	autojson json_t *record = image_record(store_fd, ref, e);
	autojson json_t *files = json_object();
	const char *digest = json_string_value(json_object_get(record, "digest"));
	const char *name = json_string_value(json_object_get(record, "name"));
	struct removal r = { .digest = digest, .files = files };
	const char *filename;
	char path[REF_NAME_MAX + 32], who[200];
	json_t *v;
	int all;

	if (!record)
		return force && e->code == ERR_UNSUPPORTED ? remove_newer(store_fd, ref, removed, e) : -1;
	if (!digest || !digest_is_valid(digest) || !name || !files)
		return err_set(e, ERR_CORRUPT, "the record of '%.200s' is damaged; hint: berth image fsck", ref);
	if (catalog_each(store_fd, find_names, &r, e) < 0)
		return -1;
	all = is_by_digest(ref, name);
	if (!force && (all || json_object_size(files) < 2)) {
		int pinned = pins_hold(store_fd, digest, who, e);

		if (pinned < 0)
			return -1;
		if (pinned || in_use(store_fd, digest))
			return err_set(e, ERR_BUSY, "image '%.200s' is in use by %s; hint: remove that, or use -f "
				       "to drop the name now and the files with the last that uses them", ref,
				       pinned ? who : "a sandbox");
	}
	json_object_foreach(files, filename, v) {
		if (!all && strcmp(json_string_value(v), name))
			continue;
		snprintf(path, sizeof(path), "images/%s", filename);
		if (unlinkat(store_fd, path, 0) < 0 && errno != ENOENT)
			return err_sys(e, "remove %s", path);
		json_array_append(removed, v);
	}
	return 0;
}

/* ---- further names ---- */

int catalog_tag(int store_fd, const char *ref, const char *name, struct err *e)
{
	char full[REF_NAME_MAX + 1], filename[REF_NAME_MAX + 8];
	autojson json_t *record = NULL;
	struct store s;
	struct ref r;
	int rc = -1;

	if (ref_parse_owned(name, &r, e) < 0)
		return -1;
	if (r.digest[0] || ref_is_reserved(&r))
		return err_set(e, ERR_INVALID, "'%.200s' is not a name an image can be given", name);
	/* no process removes meanwhile */
	if (store_begin(&s, store_fd, e) < 0)
		return -1;
	record = image_record(store_fd, ref, e);
	if (record) {
		ref_name(&r, full);
		ref_filename(&r, filename);
		json_object_set_new(record, "name", json_string(full));
		if (r.tenant[0]) {	/* the operator gives it to the tenant */
			json_object_set_new(record, "owner", json_string(r.tenant));
			if (!image_is_on_host(record))
				json_object_set_new(record, "version", json_integer(IMAGE_RECORD_OWNED));
		}
		rc = store_write_record(&s, filename, record, e);
	}
	store_end(&s);
	return rc;
}

struct pruning {
	int store_fd;
	int64_t before;		/* only images imported before */
	json_t *names;
};

static int find_unused(void *ctx, const char *filename, const json_t *record, const struct err *bad, struct err *e)
{
	struct pruning *p = ctx;
	const char *digest = json_string_value(json_object_get(record, "digest"));
	char who[200];
	int pinned;

	(void)filename;
	(void)bad;
	/* only the tenant removes a tenant's image, which counts in its limits */
	if (!record || image_owner(record) ||
	    json_integer_value(json_object_get(record, "imported")) >= p->before)
		return 0;
	pinned = pins_hold(p->store_fd, digest, who, e);
	if (pinned || in_use(p->store_fd, digest))
		return pinned < 0 ? -1 : 0;
	return json_array_append(p->names, json_object_get(record, "name")) < 0 ? err_nomem(e) : 0;
}

json_t *catalog_unused(int store_fd, int64_t before, struct err *e)
{
	struct pruning p = { store_fd, before, json_array() };

	if (!p.names) {
		err_nomem(e);
		return NULL;
	}
	if (catalog_each(store_fd, find_unused, &p, e) < 0) {
		json_decref(p.names);
		return NULL;
	}
	return p.names;
}
