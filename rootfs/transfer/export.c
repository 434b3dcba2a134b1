/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/transfer/export.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "rootfs/layer/confine.h"
#include "rootfs/layer/tarout.h"
#include "rootfs/layer/tarstream.h"
#include "rootfs/store/hash.h"
#include "rootfs/store/image.h"
#include "rootfs/store/merge.h"
#include "rootfs/store/oci.h"
#include "rootfs/store/ref.h"
#include "rootfs/store/store.h"

/* ---- as a layout or archive ---- */

#define CHUNK (256u << 10)
#define LAYOUT_TEXT "{\"imageLayoutVersion\":\"1.0.0\"}"

struct exported {
	char name[REF_NAME_MAX + 1];
	char digest[DIGEST_SIZE];
	char type[128];			/* media type of the manifest */
	uint64_t manifest_size;
	struct oci_manifest manifest;
	time_t created;			/* as its record says; 0: at no time */
};

struct export {
	struct store store;
	const struct export_options *o;
	struct exported *images;
	json_t *blobs;		/* blobs to write, each once: digest -> size */
	uint64_t done, total;
	unsigned char *chunk;
	/* where to */
	int dir_fd;		/* the directory of a layout, or -1 */
	struct tarstream *tar;
};

/* ---- what there is to write ---- */

static int need_blob(struct export *x, const char *digest, uint64_t size, struct err *e)
{
	if (json_object_get(x->blobs, digest))
		return 0;
	x->total += size;
	return json_object_set_new(x->blobs, digest, json_integer((json_int_t)size)) < 0 ? err_nomem(e) : 0;
}

static int read_exported_document(struct export *x, const char *digest, size_t max, struct buf *b, struct err *e)
{
	autoclose int fd = store_open_blob(&x->store, digest, e);
	char is[DIGEST_SIZE];

	b->max = max;
	if (fd < 0 || io_read_all(fd, b, "a blob", e) < 0 || hash_bytes(b->data ? b->data : "", b->len, digest, is, e) < 0)
		return -1;
	if (strcmp(is, digest))
		return err_set(e, ERR_CORRUPT, "blob %s is damaged; hint: berth image fsck --repair, then import it again", digest);
	return 0;
}

static int take_image(struct export *x, const char *ref, struct exported *im, struct err *e)
{
	autojson json_t *record = image_record(x->store.fd, ref, e), *doc = NULL;
	autobuf struct buf text = BUF_INIT(OCI_MANIFEST_MAX);
	const char *name = json_string_value(json_object_get(record, "name"));
	const char *digest = json_string_value(json_object_get(record, "digest"));
	const char *created = json_string_value(json_object_get(record, "created"));
	const char *type = NULL;
	struct tm tm = { 0 };
	size_t i;

	if (!record)
		return -1;
	if (!name || strlen(name) > REF_NAME_MAX || digest_copy(im->digest, digest ? digest : "", "record", e) < 0)
		return err_set(e, ERR_CORRUPT, "the record of '%.200s' is damaged; hint: berth image fsck", ref);
	image_plain_name(name, im->name);
	if (created && strptime(created, "%Y-%m-%dT%H:%M:%S", &tm))
		im->created = timegm(&tm);
	if (read_exported_document(x, im->digest, OCI_MANIFEST_MAX, &text, e) < 0 ||
	    oci_manifest_parse(text.data ? text.data : "", text.len, NULL, &im->manifest, e) < 0)
		return err_wrap(e, "image '%.200s'", ref);
	im->manifest_size = text.len;
	/* the descriptor must agree with the document; a document without a type is OCI's */
	doc = json_parse(text.data, text.len, OCI_MANIFEST_MAX, "image manifest", e);
	if (!doc || json_get_str(doc, "mediaType", &type, "image manifest", e) < 0)
		return -1;
	snprintf(im->type, sizeof(im->type), "%s", type ? type : OCI_TYPE_MANIFEST);
	if (need_blob(x, im->digest, im->manifest_size, e) < 0 ||
	    need_blob(x, im->manifest.config.digest, im->manifest.config.size, e) < 0)
		return -1;
	for (i = 0; i < im->manifest.layer_count; i++)
		if (need_blob(x, im->manifest.layers[i].digest, im->manifest.layers[i].size, e) < 0)
			return -1;
	return 0;
}

static int open_export(struct export *x, int store_fd, const struct export_options *o, struct err *e)
{
	size_t i;

	*x = (struct export){ .o = o, .dir_fd = -1, .store = { .lock_fd = -1, .tmp_fd = -1 } };
	x->images = calloc(o->count, sizeof(*x->images));
	x->blobs = json_object();
	x->chunk = malloc(CHUNK);
	if (!x->images || !x->blobs || !x->chunk)
		return err_nomem(e);
	if (store_begin(&x->store, store_fd, e) < 0 ||	/* keeps collect_garbage() away */
	    (o->is_tenants && store_share(&x->store, 0, e) < 0))
		return -1;
	for (i = 0; i < o->count; i++)
		if (take_image(x, o->refs[i], &x->images[i], e) < 0)
			return -1;
	return 0;
}

static json_t *finish_export(struct export *x, int rc, struct err *e)
{
	json_t *ret = rc < 0 ? NULL : json_array();
	size_t i, j;

	for (i = 0; x->images && i < x->o->count; i++) {
		struct exported *im = &x->images[i];
		uint64_t size = im->manifest_size + im->manifest.config.size;

		for (j = 0; j < im->manifest.layer_count; j++)
			size += im->manifest.layers[j].size;
		if (ret)
			json_array_append_new(ret, json_pack("{s:s, s:s, s:I}", "name", im->name, "digest", im->digest,
							     "size", (json_int_t)size));
		oci_manifest_release(&im->manifest);
	}
	if (!rc && !ret)
		err_nomem(e);
	if (x->store.lock_fd >= 0)
		store_end(&x->store);
	fd_close(&x->dir_fd);
	json_decref(x->blobs);
	free(x->images);
	free(x->chunk);
	return ret;
}

/* ---- documents ---- */

/* Tells whether two images have one tag: then only the whole name tells them apart. */
static int is_tag_shared(const struct export *x, const struct exported *im)
{
	const char *tag = strrchr(im->name, ':');
	size_t i;

	for (i = 0; i < x->o->count; i++)
		if (&x->images[i] != im && strcmp(x->images[i].name, im->name) && !strcmp(strrchr(x->images[i].name, ':'), tag))
			return 1;
	return 0;
}

static json_t *index_entry(const struct export *x, const struct exported *im)
{
	const char *tag = strrchr(im->name, ':') + 1;

	return json_pack("{s:s, s:s, s:I, s:{s:s, s:s}}", "mediaType", im->type, "digest", im->digest,
			 "size", (json_int_t)im->manifest_size, "annotations",
			 "org.opencontainers.image.ref.name", is_tag_shared(x, im) ? im->name : tag,
			 "io.containerd.image.name", im->name);
}

static const char *annotation(const json_t *entry, const char *key)
{
	const char *s = json_string_value(json_object_get(json_object_get(entry, "annotations"), key));

	return s ? s : "";
}

/* Drops an entry of the existing layout that has one of our names. */
static void drop_replaced(const json_t *ours, json_t *theirs)
{
	static const char ref[] = "org.opencontainers.image.ref.name";
	json_t *mine;
	size_t i, j;

	json_array_foreach(ours, i, mine) {
		for (j = json_array_size(theirs); j > 0; j--)
			if (!strcmp(annotation(json_array_get(theirs, j - 1), ref), annotation(mine, ref)))
				json_array_remove(theirs, j - 1);
	}
}

/* Makes index.json. theirs: the manifests of an existing layout, or NULL. */
static char *make_index(const struct export *x, json_t *theirs, struct err *e)
{
	autojson json_t *ours = json_array(), *doc = NULL;
	char *text = NULL;
	size_t i;

	for (i = 0; i < x->o->count; i++)
		json_array_append_new(ours, index_entry(x, &x->images[i]));
	if (theirs) {
		drop_replaced(ours, theirs);
		json_array_extend(theirs, ours);
	}
	doc = json_pack("{s:i, s:s, s:O}", "schemaVersion", 2, "mediaType", "application/vnd.oci.image.index.v1+json",
			"manifests", theirs ? theirs : ours);
	text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
	if (!text)
		err_nomem(e);
	return text;
}

static json_t *blob_path(const char *digest)
{
	char path[DIGEST_BLOB_PATH_SIZE];

	digest_blob_path(path, digest);
	return json_string(path);
}

/* Makes the document that `docker load` reads. */
static char *make_docker_manifest(const struct export *x, struct err *e)
{
	autojson json_t *all = json_array();
	char *text;
	size_t i, j;

	for (i = 0; i < x->o->count; i++) {
		const struct exported *im = &x->images[i];
		json_t *layers = json_array();

		for (j = 0; j < im->manifest.layer_count; j++)
			json_array_append_new(layers, blob_path(im->manifest.layers[j].digest));
		json_array_append_new(all, json_pack("{s:o, s:[s], s:o}", "Config", blob_path(im->manifest.config.digest),
						     "RepoTags", im->name, "Layers", layers));
	}
	text = json_dumps(all, JSON_COMPACT);
	if (!text)
		err_nomem(e);
	return text;
}

/* ---- blobs ---- */

static int put_piece(struct export *x, int fd, const void *p, size_t n, struct err *e)
{
	if (x->tar)
		return tarstream_add(x->tar, p, n, e);
	return io_write_all(fd, p, n) < 0 ? err_sys(e, "write a blob") : 0;
}

/* Reads a blob, hashes it and hands it on; a blob that differs from its digest is an error at the end. */
static int export_blob(struct export *x, const char *digest, uint64_t size, int out_fd, struct err *e)
{
	autoclose int fd = store_open_blob(&x->store, digest, e);
	autohash struct hash h = { 0 };
	char is[DIGEST_SIZE];
	uint64_t got = 0;
	ssize_t r;

	if (fd < 0 || hash_init(&h, digest, e) < 0)
		return -1;
	while ((r = read(fd, x->chunk, CHUNK)) > 0) {
		got += (uint64_t)r;
		if (got > size)
			break;
		if (hash_add(&h, x->chunk, (size_t)r, e) < 0 || put_piece(x, out_fd, x->chunk, (size_t)r, e) < 0)
			return -1;
		x->done += (uint64_t)r;
		if (x->o->progress)
			x->o->progress(x->o->ctx, x->done, x->total);
	}
	if (r < 0)
		return err_sys(e, "read blob %s", digest);
	if (hash_final(&h, is, e) < 0)
		return -1;
	if (got != size || strcmp(is, digest))
		return err_set(e, ERR_CORRUPT, "blob %s is damaged; hint: berth image fsck --repair, then import it again", digest);
	return 0;
}

static int make_layout_dir(int at, const char *path, struct err *e)
{
	if (!mkdirat(at, path, 0755))
		return fchmodat(at, path, 0755, 0) < 0 ? err_sys(e, "make directory %.200s", path) : 0;
	return errno == EEXIST ? 0 : err_sys(e, "make directory %.200s", path);
}

/* Opens the place of a blob in the layout, where others may have put a link. */
static int open_blob_dir(struct export *x, const char *digest, struct err *e)
{
	char path[DIGEST_BLOB_PATH_SIZE];
	int fd;

	digest_blob_path(path, digest);
	*strrchr(path, '/') = '\0';
	if (make_layout_dir(x->dir_fd, path, e) < 0)
		return -1;
	fd = path_open_beneath(x->dir_fd, path, O_RDONLY | O_DIRECTORY, 0);
	return fd < 0 ? err_sys(e, "open %s of the layout", path) : fd;
}

/* Writes a blob into a layout. */
static int blob_to_dir(struct export *x, const char *digest, uint64_t size, struct err *e)
{
	autoclose int dir = open_blob_dir(x, digest, e);
	const char *name = digest_hex(digest);
	struct path_file f;
	struct stat st;
	int r;

	if (dir < 0)
		return -1;
	if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size) {
		x->done += size;
		return 0;
	}
	if (path_file_make(&f, dir, name, 0644) < 0 || fchmod(f.fd, 0644) < 0) {
		err_sys(e, "make a blob of the layout");
		path_file_close(&f);
		return -1;
	}
	r = export_blob(x, digest, size, f.fd, e);
	if (!r && path_file_publish(&f) < 0)
		r = err_sys(e, "write a blob to disk");
	path_file_close(&f);
	return r;
}

static int blob_to_tar(struct export *x, const char *digest, uint64_t size, struct err *e)
{
	char path[DIGEST_BLOB_PATH_SIZE];
	time_t when = 0;
	size_t i;

	/* as docker save does: a config has the time of its image */
	for (i = 0; i < x->o->count; i++)
		if (!strcmp(x->images[i].manifest.config.digest, digest))
			when = x->images[i].created;
	digest_blob_path(path, digest);
	if (tarstream_begin_file(x->tar, path, size, when, e) < 0)
		return -1;
	return export_blob(x, digest, size, -1, e);
}

static int all_blobs(struct export *x, struct err *e)
{
	const char *digest;
	json_t *size;

	json_object_foreach(x->blobs, digest, size) {
		uint64_t n = (uint64_t)json_integer_value(size);

		if ((x->tar ? blob_to_tar(x, digest, n, e) : blob_to_dir(x, digest, n, e)) < 0)
			return -1;
	}
	return 0;
}

/* ---- a directory ---- */

/* Reads an existing layout's manifests; NULL with e->code 0 if the directory is new or empty. */
static json_t *read_index(int dir_fd, const char *path, struct err *e)
{
	autobuf struct buf b = BUF_INIT(OCI_MANIFEST_MAX);
	struct oci_index x = { 0 };
	autojson json_t *doc = NULL;
	char **names = NULL;
	size_t n = 0;

	if (!path_has(dir_fd, "index.json")) {
		if (tarout_names(dir_fd, path, 1000, &names, &n, e) < 0)
			return NULL;
		tarout_free_names(names, n);
		if (n)
			err_set(e, ERR_EXISTS, "%.300s is neither empty nor an image layout", path);
		return NULL;
	}
	if (io_read_file(dir_fd, "index.json", &b, e) < 0 || oci_index_parse(b.data ? b.data : "", b.len, NULL, &x, e) < 0)
		return NULL;
	oci_index_release(&x);
	doc = json_parse(b.data, b.len, OCI_MANIFEST_MAX, "index.json", e);
	return doc ? json_incref(json_object_get(doc, "manifests")) : NULL;
}

static int write_layout(struct export *x, const char *path, struct err *e)
{
	autoclose int dir = -1;
	autojson json_t *theirs = NULL;
	autofree char *index = NULL;
	struct err why = { 0 };
	int rc;

	if (make_layout_dir(AT_FDCWD, path, e) < 0)
		return -1;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, "open %.300s", path);
	theirs = read_index(dir, path, &why);
	if (why.code) {
		*e = why;
		return -1;
	}
	if (make_layout_dir(dir, "blobs", e) < 0)
		return -1;
	x->dir_fd = dir;	/* ours to close */
	rc = all_blobs(x, e);
	x->dir_fd = -1;
	if (rc < 0)
		return -1;
	index = make_index(x, theirs, e);
	if (!index || io_replace_file(dir, "oci-layout", LAYOUT_TEXT, strlen(LAYOUT_TEXT), 0644, 1, e) < 0)
		return -1;
	return io_replace_file(dir, "index.json", index, strlen(index), 0644, 1, e);
}

json_t *export_layout(int store_fd, const struct export_options *o, const char *path, struct err *e)
{
	struct export x;
	int rc = open_export(&x, store_fd, o, e);
	mode_t old;

	/* for others to read, unlike the store */
	old = umask(022);
	if (!rc)
		rc = write_layout(&x, path, e);
	umask(old);
	return finish_export(&x, rc, e);
}

/* ---- a tar ---- */

static int put_text(struct tarstream *t, const char *name, const char *text, struct err *e)
{
	return text ? tarstream_bytes(t, name, S_IFREG | 0644, text, strlen(text), e) : -1;
}

/* Writes the documents first, so that a reader of the stream knows what comes. */
static int write_archive(struct export *x, struct err *e)
{
	autofree char *index = make_index(x, NULL, e), *docker = index ? make_docker_manifest(x, e) : NULL;

	if (put_text(x->tar, "oci-layout", LAYOUT_TEXT, e) < 0 || put_text(x->tar, "index.json", index, e) < 0 ||
	    put_text(x->tar, "manifest.json", docker, e) < 0 ||
	    tarstream_bytes(x->tar, "blobs/", S_IFDIR | 0755, NULL, 0, e) < 0 ||
	    tarstream_bytes(x->tar, "blobs/sha256/", S_IFDIR | 0755, NULL, 0, e) < 0 || all_blobs(x, e) < 0)
		return -1;
	return tarstream_close(x->tar, e);
}

json_t *export_archive(int store_fd, const struct export_options *o, int out_fd, struct err *e)
{
	autofree struct tarstream *t = calloc(1, sizeof(*t));
	struct export x;
	int rc = open_export(&x, store_fd, o, e);

	if (!rc)
		rc = t ? tarstream_open(t, out_fd, COMPRESSION_NONE, e) : err_nomem(e);
	x.tar = t;
	if (!rc)
		rc = write_archive(&x, e);
	if (t)
		tarstream_release(t);
	return finish_export(&x, rc, e);
}

/* ---- as the files of one image ---- */

/* The export of an image as the tar of its files. */

struct files {
	int store_fd;
	const struct image *image;
	enum compression compression;
};

static int pack_files(void *ctx, int out_fd, int report_fd, pid_t parent, struct tarout_stats *ret,
		      struct err *e)
{
	const struct files *f = ctx;
	const struct tarout_options how = { .compression = f->compression, .keep_fifos = 1 };
	autoclose int root =
		merge_layers(f->store_fd, (const char (*)[DIGEST_HEX_SIZE])f->image->layers,
			     f->image->layer_count, e);
	const int keep[] = { root, out_fd, report_fd };
	const struct confine c = { CONFINE_READ, parent, root, -1, -1, keep, ARRAY_LEN(keep),
				   PACKER_MEMORY };

	if (root < 0 || confine_child(&c, e) < 0)
		return -1;
	return tarout_write(root, out_fd, &how, ret, e);
}

json_t *export_rootfs(int store_fd, const struct export_options *o, enum compression compression,
		      int out_fd, struct err *e)
{
	struct image im = { 0 };
	struct files f = { store_fd, &im, compression };
	struct packer packer = PACKER_INIT;
	struct tarout_stats st = { 0 };
	autoclose int hold = -1;
	json_t *ret = NULL;
	int rc = image_load(store_fd, o->refs[0], &im, e);

	if (!rc) {
		hold = image_hold(store_fd, &im, e);
		rc = hold < 0 ? -1 : packer_start(&packer, pack_files, &f, out_fd, e);
	}
	if (packer.pid > 0)
		rc = packer_end(&packer, rc, &st, e);
	if (!rc) {
		ret = json_pack("[{s:s, s:s, s:I}]", "name", im.name, "digest", im.digest,
				"entries", (json_int_t)st.entries);
		if (!ret)
			err_nomem(e);
	}
	image_release(&im);
	return ret;
}
