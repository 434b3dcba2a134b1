/* SPDX-License-Identifier: Apache-2.0 */
/* repair - unpacks layers again that are missing or damaged. */
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
#include "rootfs/transfer/collect.h"
#include "rootfs/transfer/importer.h"
#include "rootfs/transfer/verify.h"

/*
 * Repairs the store from its other parts: a layer's tree from its blob, the way an import makes
 * it, and an image's hold from its record.
 */

struct repair {
	int store_fd;
	json_t *done;
};

static int no_blob_to_repair(void *ctx, size_t i, struct err *e)
{
	(void)ctx;
	return err_set(e, ERR_NOT_FOUND, "the blob of layer %zu is missing", i + 1);
}

/* Returns 1 if the record's layers all exist, -1 if the record cannot be used. */
static int fill_from_record(struct importer *im, const json_t *record, struct import_image *img, struct err *e)
{
	const json_t *layers = json_object_get(record, "layers"), *l;
	int whole = 1;
	size_t i;

	if (!json_array_size(layers) || json_array_size(layers) > IMAGE_LAYERS_MAX ||
	    import_image_layers(img, json_array_size(layers), e) < 0)
		return -1;
	json_array_foreach(layers, i, l) {
		const char *digest = json_string_value(json_object_get(l, "digest"));
		const char *diff_id = json_string_value(json_object_get(l, "diff_id"));
		const char *chain = json_string_value(json_object_get(l, "chain_id"));

		if (digest_copy(img->layers[i].want_digest, digest ? digest : "", "record", e) < 0 ||
		    digest_copy(img->layers[i].want_diff_id, diff_id ? diff_id : "", "record", e) < 0 ||
		    !chain || !digest_is_sha256(chain))
			return -1;
		img->layers[i].compression = COMPRESSION_AUTO;
		whole &= store_has_layer(&im->store, chain, e) == 1;
	}
	return whole;
}

static int write_repaired_hold(struct importer *im, const struct import_image *img, const char *digest, struct err *e)
{
	autobuf struct buf b = BUF_INIT(IMAGE_LAYERS_MAX * DIGEST_HEX_SIZE + 1);
	size_t i;

	for (i = 0; i < img->layer_count; i++)
		if (buf_addf(&b, e, "%s\n", digest_hex(img->layers[i].chain_id)) < 0)
			return -1;
	return store_write_hold(&im->store, digest, b.data, e);
}

static int restore_layers(struct importer *im, struct import_image *img, const char *digest, struct err *e)
{
	size_t i;

	if (importer_stage(im, img, no_blob_to_repair, NULL, e) < 0 || store_sync(&im->store, e) < 0)
		return -1;
	for (i = 0; i < img->layer_count; i++)
		if (img->layers[i].tmp_tree[0] &&
		    store_publish_layer(&im->store, img->layers[i].tmp_tree, img->layers[i].chain_id, e) < 0)
			return -1;
	return write_repaired_hold(im, img, digest, e);
}

/* Repairs one image. One that cannot be repaired is left to the check, which then names the fault. */
static int repair_one(void *ctx, const char *filename, const json_t *record, const struct err *bad, struct err *e)
{
	const char *digest = json_string_value(json_object_get(record, "digest"));
	struct import_options opts = { .source = filename };
	struct importer im = { .opts = &opts };
	struct import_image img = { 0 };
	struct repair *r = ctx;
	struct err ignored;
	int whole;

	(void)bad;
	if (!record || !digest || !digest_is_valid(digest))
		return 0;
	if (store_begin(&im.store, r->store_fd, e) < 0)
		return -1;
	whole = fill_from_record(&im, record, &img, &ignored);
	if (!whole && !restore_layers(&im, &img, digest, &ignored))
		json_array_append_new(r->done, json_sprintf("layers of %s were unpacked again", filename));
	else if (whole == 1)
		restore_layers(&im, &img, digest, &ignored);	/* only the hold can be missing */
	import_image_release(&img);
	store_end(&im.store);
	return 0;
}

json_t *collect_repair(int store_fd, struct err *e)
{
	struct repair r = { store_fd, json_array() };

	if (!r.done) {
		err_nomem(e);
		return NULL;
	}
	if (catalog_each(store_fd, repair_one, &r, e) < 0) {
		json_decref(r.done);
		return NULL;
	}
	return r.done;
}
