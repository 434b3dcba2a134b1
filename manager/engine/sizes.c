/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/sizes.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/layerpool.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/image.h"

#define SHORT_ID 12

static json_int_t image_bytes(const json_t *images, const char *digest)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)images, i, one) {
		const char *its = json_string_value(json_object_get(one, "digest"));

		if (its && digest && !strcmp(its, digest))
			return json_integer_value(json_object_get(one, "size"));
	}
	return 0;
}

int engine_sizes(const struct config *c, struct registry *r, json_t *docs, struct err *e)
{
	char path[sizeof(c->state_dir) + 16];
	autojson json_t *images = NULL;
	autoclose int store = -1;
	json_t *doc;
	size_t i;

	snprintf(path, sizeof(path), "%s/store", c->state_dir);
	store = store_open(path, e);
	images = store < 0 ? NULL : catalog_list(store, 0, e);
	if (!images)
		return -1;
	json_array_foreach (docs, i, doc) {
		/* a summary has the digest as ImageID, inspect as Image */
		const char *digest = json_string_value(json_object_get(
				   doc, json_object_get(doc, "ImageID") ? "ImageID" : "Image")),
			   *whole = json_string_value(json_object_get(doc, "Id"));
		json_int_t own;
		char id[SHORT_ID + 1];

		snprintf(id, sizeof(id), "%s", whole ? whole : "");
		own = (json_int_t)layerpool_layer_bytes(r->kept_fd, id);
		json_object_set_new(doc, "SizeRw", json_integer(own));
		json_object_set_new(doc, "SizeRootFs",
				    json_integer(own + image_bytes(images, digest)));
	}
	return 0;
}
