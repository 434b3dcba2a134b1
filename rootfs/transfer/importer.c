/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/transfer/importer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "rootfs/store/change.h"
#include "rootfs/store/hash.h"

int import_open_beneath(int dir_fd, const char *path, uint64_t *ret_size, struct err *e)
{
	/* old docker-save archives link layers to each other; out of dir_fd no link leads */
	autoclose int fd = path_openat2(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
					RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	struct stat st;

	if (fd < 0)
		return err_code_sys(e, ERR_CORRUPT, "open '%.200s' of the image", path);
	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at '%.200s' of the image", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CORRUPT, "'%.200s' of the image is not a regular file", path);
	if (ret_size)
		*ret_size = (uint64_t)st.st_size;
	return take_fd(&fd);
}

int import_read_beneath(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len, struct err *e)
{
	autoclose int fd = import_open_beneath(dir_fd, path, NULL, e);
	struct buf b = BUF_INIT(max);

	if (fd < 0)
		return -1;
	if (io_read_all(fd, &b, path, e) < 0 || (!b.data && buf_adds(&b, "", e) < 0)) {
		buf_release(&b);
		return -1;
	}
	*ret = b.data;
	*ret_len = b.len;
	return 0;
}

int importer_begin(struct importer *im, int store_fd, struct err *e)
{
	struct ref name;

	if (making_begin(&im->making, im->opts->maker, store_fd, e) < 0)
		return -1;
	/* before any byte of it is read */
	if (im->opts->maker && im->opts->name &&
	    (importer_name(im, "", &name, e) < 0 || making_take_name(&im->making, &name, e) < 0)) {
		making_end(&im->making);
		return -1;
	}
	if (store_begin(&im->store, store_fd, e) < 0) {
		making_end(&im->making);
		return -1;
	}
	/* bytes that arrive slowly must not keep others from removing images */
	if (!im->making.who || store_share(&im->store, 0, e) == 0)
		return 0;
	importer_end(im);
	return -1;
}

void importer_end(struct importer *im)
{
	json_decref(im->base_layers);
	im->base_layers = NULL;
	store_end(&im->store);
	making_end(&im->making);
}

void importer_note(struct importer *im, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	if (!im->opts->note)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	im->opts->note(im->opts->ctx, text);
}

int import_image_layers(struct import_image *img, size_t count, struct err *e)
{
	size_t i;

	img->layers = calloc(count + 1, sizeof(*img->layers));
	if (!img->layers)
		return err_nomem(e);
	img->layer_count = count;
	for (i = 0; i < count; i++) {
		img->layers[i].tree_fd = -1;
		img->layers[i].want_size = UINT64_MAX;
	}
	return 0;
}

void import_image_release(struct import_image *img)
{
	size_t i;

	for (i = 0; i < img->layer_count; i++)
		fd_close(&img->layers[i].tree_fd);
	free(img->layers);
	free(img->manifest);
	free(img->config);
	oci_config_release(&img->parsed);
	*img = (struct import_image){ 0 };
}

int importer_name(struct importer *im, const char *given, struct ref *ret, struct err *e)
{
	char made[REF_NAME_MAX + 1];
	const char *name = im->opts->name ? im->opts->name : given;

	if (!*name && im->opts->unnamed) {
		snprintf(made, sizeof(made), im->unnamed ? "%s.%zu" : "%s", im->opts->unnamed, im->unnamed);
		im->unnamed++;
		name = made;
	} else if (!*name) {
		if (!strcmp(im->opts->source, "-") || ref_from_filename(im->opts->source, made) < 0)
			return err_set(e, ERR_INVALID, "the image has no name of its own; hint: give one: "
				       "berth image import SOURCE NAME");
		name = made;
	}
	/* a name that the source declares cannot be a tenant's */
	if (im->opts->name && !im->opts->maker ? ref_parse_owned(name, ret, e) < 0 :
						 ref_parse(name, ret, e) < 0)
		return -1;
	if (ret->digest[0])
		return err_set(e, ERR_INVALID, "'%.200s' has a digest: an image's name is given without one", name);
	if (ref_is_reserved(ret))
		return err_set(e, ERR_INVALID, "the name 'host' stands for the host's own programs; hint: give "
			       "the image another name: berth image import SOURCE NAME");
	return 0;
}

/* ---- staging ---- */

static void tell_stage_progress(void *ctx, uint64_t in_bytes, const struct layer_progress *p)
{
	struct importer *im = ctx;
	struct timespec now;
	uint64_t ms;

	if (!im->opts->progress)
		return;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	if (ms - im->last_tick_ms < 100)
		return;
	im->last_tick_ms = ms;
	im->opts->progress(im->opts->ctx, im->at_layer, im->of_layers, in_bytes, im->at_total,
			   atomic_load_explicit(&p->entries, memory_order_relaxed));
}

int importer_stage_stream(struct importer *im, struct import_layer *l, struct unpack *u, struct err *e)
{
	u->compression = l->compression;
	u->want_digest = l->want_digest[0] ? l->want_digest : NULL;
	u->want_diff_id = l->want_diff_id[0] ? l->want_diff_id : NULL;
	u->want_size = l->want_size;
	u->budget = im->making.budget;
	u->tick = tell_stage_progress;
	u->tick_ctx = im;
	if (unpack_run(u, e) < 0)
		return -1;
	memcpy(l->digest, u->digest, DIGEST_SIZE);
	memcpy(l->diff_id, u->diff_id, DIGEST_SIZE);
	l->size = u->size;
	l->found = u->found;
	l->stats = u->stats;
	return 0;
}

/* Reuses a layer of the store; only the size of its blob has to be looked up. */
int importer_reuse_layer(struct importer *im, struct import_layer *l, struct err *e)
{
	autoclose int fd = store_open_blob(&im->store, l->want_digest, e);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at a blob");
	if (l->want_size != UINT64_MAX && (uint64_t)st.st_size != l->want_size)
		return err_set(e, ERR_CORRUPT, "blob %s has %llu bytes, the manifest says %llu", l->want_digest,
			       (unsigned long long)st.st_size, (unsigned long long)l->want_size);
	memcpy(l->digest, l->want_digest, DIGEST_SIZE);
	memcpy(l->diff_id, l->want_diff_id, DIGEST_SIZE);
	l->size = (uint64_t)st.st_size;
	l->found = l->compression;
	return 0;
}

/*
 * Makes a file from an archive, which only we use, the blob by giving it a second name, once its
 * digest is verified.
 */
static int adopt_file(struct importer *im, int src, char ret_name[32], struct err *e)
{
	char path[32];

	if (fchown(src, 0, 0) < 0 || fchmod(src, 0600) < 0)
		return err_sys(e, "take over a blob");
	return store_tmp_link(&im->store, path_of_fd(src, path), ret_name, e);
}

/* The smallest archive there is: two blocks of zeros. */
#define EMPTY_TAR 1024

static int open_empty_tar(struct err *e)
{
	autoclose int fd = memfd_create("empty.tar", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, EMPTY_TAR) < 0)
		return err_sys(e, "make an empty layer");
	return take_fd(&fd);
}

static int unpack_layer(struct importer *im, struct import_layer *l, int has_blob, int has_layer,
			const int *lower, size_t n, import_open_fn *open_layer, void *ctx, struct err *e)
{
	autoclose int src = has_blob ? store_open_blob(&im->store, l->want_digest, e) : l->empty ? open_empty_tar(e) : open_layer(ctx, n, e);
	autoclose int blob = -1;
	struct unpack u = { .src_fd = src, .tree_fd = -1, .blob_fd = -1, .lower_fds = lower, .lower_count = n };
	struct stat st;

	if (src < 0)
		return -1;
	im->at_total = !fstat(src, &st) && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	if (!has_blob && im->spooled && !l->empty) {
		if (adopt_file(im, src, l->tmp_blob, e) < 0)
			return -1;
	} else if (!has_blob) {
		blob = store_tmp_file(&im->store, l->tmp_blob, e);
		if (blob < 0)
			return -1;
	}
	if (!has_layer) {
		l->tree_fd = store_tmp_dir(&im->store, l->tmp_tree, e);
		if (l->tree_fd < 0)
			return -1;
	}
	u.tree_fd = l->tree_fd;
	u.blob_fd = blob;
	return importer_stage_stream(im, l, &u, e);
}

int importer_find_layer(struct importer *im, const struct import_layer *l, int *ret_tree,
			int *ret_blob, struct err *e)
{
	int tree = 0, blob = 0;

	/* a tenant waits for no other import: the layer that is published first stays */
	if (!im->making.who && store_lock_layer(&im->store, l->chain_id, e) < 0)
		return -1;
	if (making_may_use(&im->making, l->chain_id))
		tree = store_has_layer(&im->store, l->chain_id, e);
	if (tree >= 0 && l->want_digest[0] && making_may_use(&im->making, l->want_digest))
		blob = store_has_blob(&im->store, l->want_digest, e);
	if (tree < 0 || blob < 0)
		return -1;
	*ret_tree = tree;
	*ret_blob = blob;
	return 0;
}

static int stage_layer(struct importer *im, struct import_image *img, size_t i, const int *lower,
		       import_open_fn *open_layer, void *ctx, struct err *e)
{
	struct import_layer *l = &img->layers[i];
	int has_blob, has_layer;

	if (hash_chain(i ? img->layers[i - 1].chain_id : NULL, l->want_diff_id, l->chain_id, e) < 0 ||
	    importer_find_layer(im, l, &has_layer, &has_blob, e) < 0)
		return -1;
	if (has_layer && has_blob) {
		if (importer_reuse_layer(im, l, e) < 0)
			return -1;
	} else if (unpack_layer(im, l, has_blob, has_layer, lower, i, open_layer, ctx, e) < 0) {
		return -1;
	}
	if (has_layer)
		l->tree_fd = store_open_layer(&im->store, l->chain_id, e);
	return l->tree_fd < 0 ? -1 : 0;
}

int importer_stage(struct importer *im, struct import_image *img, import_open_fn *open_layer, void *ctx,
		   struct err *e)
{
	autofree int *lower = calloc(img->layer_count, sizeof(*lower));
	size_t i;

	if (!lower)
		return err_nomem(e);
	im->of_layers = img->layer_count;
	for (i = 0; i < img->layer_count; i++) {
		im->at_layer = i + 1;
		if (stage_layer(im, img, i, lower, open_layer, ctx, e) < 0)
			return err_wrap(e, "layer %zu of %zu", i + 1, img->layer_count);
		lower[i] = img->layers[i].tree_fd;
	}
	return img->layer_count && img->layers[0].empty ? importer_make_manifest(img, e) : 0;
}

/* ---- layers of other images ---- */

static int note_base_layers(struct importer *im, const char *name, struct err *e)
{
	autojson json_t *record = image_record(im->store.fd, name, e);
	const json_t *layers = json_object_get(record, "layers"), *layer;
	const char *digest = json_string_value(json_object_get(record, "digest"));
	autobuf struct buf text = BUF_INIT(OCI_MANIFEST_MAX);
	struct oci_manifest m = { 0 };
	autoclose int fd = -1;
	size_t i;

	if (!record)
		return -1;
	fd = digest ? store_open_blob(&im->store, digest, e) : err_set(e, ERR_CORRUPT, "the record of %.200s has no digest", name);
	if (fd < 0 || io_read_all(fd, &text, "a manifest", e) < 0 || oci_manifest_parse(text.data ? text.data : "", text.len, NULL, &m, e) < 0)
		return -1;
	json_array_foreach ((json_t *)(size_t)layers, i, layer) {
		const char *diff_id = json_string_value(json_object_get(layer, "diff_id"));

		if (diff_id && i < m.layer_count)
			json_object_set_new(im->base_layers, diff_id,
					    json_pack("{s:s,s:i}", "digest", m.layers[i].digest, "compression", (int)m.layers[i].compression));
	}
	oci_manifest_release(&m);
	return 0;
}

int importer_take_base_layers(struct importer *im, struct import_image *img, struct err *e)
{
	const json_t *name, *known;
	size_t i;

	if (!im->opts->bases)
		return 0;
	if (!im->base_layers) {
		im->base_layers = json_object();
		if (!im->base_layers)
			return err_nomem(e);
		json_array_foreach ((json_t *)(size_t)im->opts->bases, i, name)
			if (note_base_layers(im, json_string_value(name), e) < 0)
				return -1;
	}
	for (i = 0; i < img->layer_count; i++) {
		struct import_layer *l = &img->layers[i];

		known = json_object_get(im->base_layers, l->want_diff_id);
		if (!known)
			continue;
		snprintf(l->want_digest, sizeof(l->want_digest), "%s", json_string_value(json_object_get(known, "digest")));
		l->compression = (enum compression)json_integer_value(json_object_get(known, "compression"));
	}
	return 0;
}

/* ---- documents ---- */

static int dump(json_t *j, char **ret, size_t *ret_len, char digest[DIGEST_SIZE], struct err *e)
{
	*ret = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	if (!*ret)
		return err_nomem(e);
	*ret_len = strlen(*ret);
	return hash_bytes(*ret, *ret_len, NULL, digest, e);
}

/* Gives an image that came without layers an empty one, which its config names from then on. */
static int add_empty_layer(struct import_image *img, struct err *e)
{
	static const char zeros[EMPTY_TAR];
	autojson json_t *config = json_parse(img->config, img->config_len, OCI_CONFIG_MAX, "image config", e);
	json_t *rootfs = json_object_get(config, "rootfs"), *history = json_object_get(config, "history");
	char diff_id[DIGEST_SIZE];

	if (!config || hash_bytes(zeros, sizeof(zeros), NULL, diff_id, e) < 0)
		return -1;
	if (json_array_size(json_object_get(rootfs, "diff_ids")))
		return err_set(e, ERR_CORRUPT, "the image has no layers, its config lists %zu", json_array_size(json_object_get(rootfs, "diff_ids")));
	if (json_is_object(rootfs))
		json_object_set_new(rootfs, "diff_ids", json_pack("[s]", diff_id));
	if (json_is_array(history))
		json_array_append_new(history, json_pack("{s:s}", "comment", "an empty layer, in place of none"));
	free(img->config);
	free(img->layers);
	img->config = NULL;
	img->layers = NULL;
	if (dump(json_incref(config), &img->config, &img->config_len, img->config_digest, e) < 0 || import_image_layers(img, 1, e) < 0)
		return -1;
	img->layers[0].empty = 1;
	img->layers[0].compression = COMPRESSION_NONE;
	return 0;
}

int importer_take_config(struct importer *im, struct import_image *img, struct err *e)
{
	char have[100], want[100];
	size_t i;

	if (!img->layer_count && add_empty_layer(img, e) < 0)
		return -1;
	if (oci_config_parse(img->config, img->config_len, &img->parsed, e) < 0)
		return -1;
	if (!oci_platform_fits(&img->parsed.platform, &im->want)) {
		oci_platform_format(&img->parsed.platform, have);
		oci_platform_format(&im->want, want);
		return err_set(e, ERR_INVALID, "the image is for %s, not for %s; hint: --platform %s imports "
			       "it all the same", have, want, have);
	}
	if (img->parsed.env_dropped)
		importer_note(im, "%zu environment entries of the image are not NAME=VALUE and were dropped",
			      img->parsed.env_dropped);
	if (img->parsed.diff_id_count != img->layer_count)
		return err_set(e, ERR_CORRUPT, "the image has %zu layers, its config lists %zu", img->layer_count,
			       img->parsed.diff_id_count);
	for (i = 0; i < img->layer_count; i++)
		memcpy(img->layers[i].want_diff_id, img->parsed.diff_ids[i], DIGEST_SIZE);
	return 0;
}

static const char *layer_type(enum compression c)
{
	return c == COMPRESSION_GZIP ? "application/vnd.oci.image.layer.v1.tar+gzip" :
	       c == COMPRESSION_ZSTD ? "application/vnd.oci.image.layer.v1.tar+zstd" :
				       "application/vnd.oci.image.layer.v1.tar";
}

int importer_make_manifest(struct import_image *img, struct err *e)
{
	json_t *layers = json_array();
	size_t i;

	free(img->manifest);
	img->manifest = NULL;
	for (i = 0; i < img->layer_count; i++) {
		const struct import_layer *l = &img->layers[i];

		json_array_append_new(layers, json_pack("{s:s, s:s, s:I}", "mediaType", layer_type(l->found),
							"digest", l->digest, "size", (json_int_t)l->size));
	}
	if (json_array_size(layers) != img->layer_count) {
		json_decref(layers);
		return err_nomem(e);
	}
	return dump(json_pack("{s:i, s:s, s:{s:s, s:s, s:I}, s:o}", "schemaVersion", 2,
			      "mediaType", OCI_TYPE_MANIFEST, "config",
			      "mediaType", OCI_TYPE_CONFIG, "digest", img->config_digest,
			      "size", (json_int_t)img->config_len, "layers", layers),
		    &img->manifest, &img->manifest_len, img->digest, e);
}

int importer_make_documents(struct importer *im, struct import_image *img, struct err *e)
{
	/* without a time, so that the same files give the same image */
	json_t *config = json_pack("{s:s, s:s, s:{s:[s], s:[s]}, s:{s:s, s:[s]}}",
				   "os", im->want.os, "architecture", im->want.arch, "config",
				   "Env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				   "Cmd", "/bin/sh", "rootfs", "type", "layers",
				   "diff_ids", img->layers[0].diff_id);

	if (config && im->opts->config)
		json_object_set(config, "config", (json_t *)im->opts->config);
	if (config && change_apply_all(json_object_get(config, "config"), im->opts->changes, e) < 0) {
		json_decref(config);
		return -1;
	}
	if (config && im->opts->created)
		json_object_set_new(config, "created", json_string(im->opts->created));
	if (config && im->opts->created_by)
		json_object_set_new(config, "history", json_pack("[{s:s*, s:s}]", "created", im->opts->created,
								 "created_by", im->opts->created_by));
	/* one entry for its one layer, with a time, as buildah expects of a base whose steps it is to keep */
	if (config && !json_object_get(config, "history"))
		json_object_set_new(config, "history",
				    json_pack("[{s:s,s:s}]", "created", "1970-01-01T00:00:00Z", "comment",
					      im->opts->message ? im->opts->message : "Imported from a root file system"));
	if (config && im->want.variant[0])
		json_object_set_new(config, "variant", json_string(im->want.variant));
	if (dump(config, &img->config, &img->config_len, img->config_digest, e) < 0 ||
	    importer_take_config(im, img, e) < 0)
		return -1;
	return importer_make_manifest(img, e);
}

/* ---- the record ---- */

/* The record of an image: everything `berth run` needs to know, in one file. */

static json_t *make_layers(const struct import_image *img)
{
	json_t *arr = json_array();
	size_t i;

	for (i = 0; arr && i < img->layer_count; i++) {
		const struct import_layer *l = &img->layers[i];
		json_t *one = json_pack("{s:s, s:s, s:s, s:I}", "chain_id", l->chain_id, "diff_id",
					l->diff_id, "digest", l->digest, "size",
					(json_int_t)l->size);

		if (one && l->disk)
			json_object_set_new(one, "disk", json_integer((json_int_t)l->disk));
		/* jansson lets go of the array's new element when appending fails */
		if (json_array_append_new(arr, one) < 0) {
			json_decref(arr);
			return NULL;
		}
	}
	return arr;
}

/* Makes the record of an image (image.h), a new reference. */
static json_t *record_make(const struct import_image *img, const char *name, struct err *e)
{
	const struct oci_config *c = &img->parsed;
	uint64_t size = img->manifest_len + img->config_len;
	char platform[100];
	json_t *record;
	size_t i;

	for (i = 0; i < img->layer_count; i++)
		size += img->layers[i].size;
	oci_platform_format(&c->platform, platform);
	record = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:O, s:O, s:O, s:s, s:s, s:s, s:O, s:O*}",
			   "version", img->on_host ? IMAGE_RECORD_FORMAT : img->owner[0] ? IMAGE_RECORD_OWNED : IMAGE_RECORD_UNOWNED,
			   "name", name, "digest", img->digest,
			   "config", img->config_digest, "platform", platform, "created", c->created,
			   "imported", (json_int_t)time(NULL), "size", (json_int_t)size,
			   "layers", make_layers(img),
			   "env", c->env, "entrypoint", c->entrypoint, "cmd", c->cmd,
			   "user", c->user, "workdir", c->workdir, "stop_signal", c->stop_signal,
			   "labels", c->labels, "healthcheck", c->health);
	if (record && img->owner[0] && json_object_set_new(record, "owner", json_string(img->owner)) < 0) {
		json_decref(record);
		err_nomem(e);
		return NULL;
	}
	if (record && img->on_host && json_object_set_new(record, "base", json_string(IMAGE_BASE_HOST)) < 0) {
		json_decref(record);
		err_nomem(e);
		return NULL;
	}
	if (record && img->index_digest[0] && json_object_set_new(record, "index", json_string(img->index_digest)) < 0) {
		json_decref(record);
		err_nomem(e);
		return NULL;
	}
	if (record && img->parent[0] && json_object_set_new(record, "parent", json_string(img->parent)) < 0) {
		json_decref(record);
		err_nomem(e);
		return NULL;
	}
	if (!record)
		err_set(e, ERR_CORRUPT, "the image's config holds text that is not UTF-8");
	return record;
}

/* ---- publishing ---- */

/*
 * The last step of an import: data is put on disk, then everything is moved to its place, the
 * record at the very end.
 */

static int add_published_result(struct importer *im, const struct import_image *img, const char *name, struct err *e)
{
	const struct oci_config *c = &img->parsed;
	struct layer_stats sum = { 0 };
	uint64_t size = img->manifest_len + img->config_len;
	char platform[100];
	size_t i;

	for (i = 0; i < img->layer_count; i++) {
		const struct layer_stats *s = &img->layers[i].stats;

		size += img->layers[i].size;
		sum.entries += s->entries;
		sum.bytes += s->bytes;
		sum.devices_skipped += s->devices_skipped;
		sum.ids_clamped += s->ids_clamped;
		sum.xattrs_dropped += s->xattrs_dropped;
	}
	oci_platform_format(&c->platform, platform);
	if (json_array_append_new(im->results, json_pack(
			"{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I}}", "name", name,
			"digest", img->digest, "platform", platform, "layers", (json_int_t)img->layer_count,
			"size", (json_int_t)size, "entries", (json_int_t)sum.entries,
			"bytes", (json_int_t)sum.bytes, "skipped",
			"specials", (json_int_t)(sum.devices_skipped + img->skipped_elsewhere),
			"ids_clamped", (json_int_t)sum.ids_clamped,
			"xattrs", (json_int_t)sum.xattrs_dropped)) < 0)
		return err_nomem(e);
	if (sum.devices_skipped + img->skipped_elsewhere)
		importer_note(im, "%s: %llu devices, sockets and other special files were left out", name,
			      (unsigned long long)(sum.devices_skipped + img->skipped_elsewhere));
	if (sum.ids_clamped)
		importer_note(im, "%s: %llu owners above %d became %d", name,
			      (unsigned long long)sum.ids_clamped, LAYER_ID_MAX, LAYER_ID_NOBODY);
	return 0;
}

static int write_image_hold(struct importer *im, const struct import_image *img, struct err *e)
{
	autobuf struct buf b = BUF_INIT(IMAGE_LAYERS_MAX * DIGEST_HEX_SIZE + 1);
	size_t i;

	for (i = 0; i < img->layer_count; i++)
		if (buf_addf(&b, e, "%s\n", digest_hex(img->layers[i].chain_id)) < 0)
			return -1;
	return store_write_hold(&im->store, img->digest, b.data, e);
}

/* From this call on the image counts for its tenant. */
static int settle_for_tenant(struct importer *im, struct import_image *img, struct err *e)
{
	size_t i;

	if (!im->making.who)
		return 0;
	if (making_settle(&im->making, &im->store, img->manifest_len + img->config_len, e) < 0)
		return -1;
	for (i = 0; i < img->layer_count; i++) {
		struct import_layer *l = &img->layers[i];
		const struct making_layer m = {
			l->chain_id, l->digest, l->size, l->stats.charged, l->tmp_tree[0] != 0,
			l->tmp_blob[0] != 0,
		};

		if (making_settle_layer(&im->making, &im->store, &m, &l->disk, e) < 0)
			return -1;
	}
	return 0;
}

int importer_publish(struct importer *im, struct import_image *img, const struct ref *names, size_t count,
		     struct err *e)
{
	char manifest[32], config[32], filename[REF_NAME_MAX + 8], name[REF_NAME_MAX + 1];
	size_t i;

	if (store_stage_bytes(&im->store, img->manifest, img->manifest_len, manifest, e) < 0 ||
	    store_stage_bytes(&im->store, img->config, img->config_len, config, e) < 0 ||
	    store_sync(&im->store, e) < 0 || settle_for_tenant(im, img, e) < 0)
		return -1;
	for (i = 0; i < img->layer_count; i++) {
		struct import_layer *l = &img->layers[i];

		if (l->tmp_tree[0] && store_publish_layer(&im->store, l->tmp_tree, l->chain_id, e) < 0)
			return -1;
		if (l->tmp_blob[0] && store_publish_blob(&im->store, l->tmp_blob, l->digest, e) < 0)
			return -1;
	}
	if (store_publish_blob(&im->store, config, img->config_digest, e) < 0 ||
	    store_publish_blob(&im->store, manifest, img->digest, e) < 0 || write_image_hold(im, img, e) < 0)
		return -1;
	for (i = 0; i < count; i++) {
		autojson json_t *record = NULL;
		struct ref own = names[i];

		if (making_take_name(&im->making, &own, e) < 0)
			return -1;
		if (own.tenant[0])
			snprintf(img->owner, sizeof(img->owner), "%s", own.tenant);
		ref_name(&own, name);
		ref_filename(&own, filename);
		record = record_make(img, name, e);
		if (!record || store_write_record(&im->store, filename, record, e) < 0 ||
		    making_named(&im->making, name, img->digest, e) < 0 ||
		    add_published_result(im, img, name, e) < 0)
			return -1;
	}
	if (making_done(&im->making, &im->store, e) < 0)
		return -1;
	store_unlock_layers(&im->store);
	return 0;
}
