/* SPDX-License-Identifier: Apache-2.0 */
/* The last step of an import: data to disk, then things to their places, the record at the very end. */
#include "rootfs/transfer/importer.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

static int add_result(struct importer *im, const struct import_image *img, const char *name, struct err *e)
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

static int write_hold(struct importer *im, const struct import_image *img, struct err *e)
{
	autobuf struct buf b = BUF_INIT(IMAGE_LAYERS_MAX * DIGEST_HEX_SIZE + 1);
	size_t i;

	for (i = 0; i < img->layer_count; i++)
		if (buf_addf(&b, e, "%s\n", digest_hex(img->layers[i].chain_id)) < 0)
			return -1;
	return store_write_hold(&im->store, img->digest, b.data, e);
}

/* From here on the image counts for its tenant. */
static int settle(struct importer *im, struct import_image *img, struct err *e)
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
	    store_sync(&im->store, e) < 0 || settle(im, img, e) < 0)
		return -1;
	for (i = 0; i < img->layer_count; i++) {
		struct import_layer *l = &img->layers[i];

		if (l->tmp_tree[0] && store_publish_layer(&im->store, l->tmp_tree, l->chain_id, e) < 0)
			return -1;
		if (l->tmp_blob[0] && store_publish_blob(&im->store, l->tmp_blob, l->digest, e) < 0)
			return -1;
	}
	if (store_publish_blob(&im->store, config, img->config_digest, e) < 0 ||
	    store_publish_blob(&im->store, manifest, img->digest, e) < 0 || write_hold(im, img, e) < 0)
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
		    add_result(im, img, name, e) < 0)
			return -1;
	}
	if (making_done(&im->making, &im->store, e) < 0)
		return -1;
	store_unlock_layers(&im->store);
	return 0;
}
