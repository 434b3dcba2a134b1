/* SPDX-License-Identifier: Apache-2.0 */
/* The record of an image: all that `berth run` wants to know, in one file. */
#include "rootfs/transfer/importer.h"

#include <time.h>

#include "base/mem.h"

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

json_t *record_make(const struct import_image *img, const char *name, struct err *e)
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
