/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/usage.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/image.h"
#include "manager/engine/load.h"
#include "manager/engine/sizes.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/digest.h"

static const char *text_of(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

/* ---- layers -------------------------------------------------------------------------------- */

struct layers {
	int store_fd;
	json_t *images; /* digest: its layers, each once */
	json_t *sizes;  /* chain id: bytes on disk */
	json_t *users;  /* chain id: how many images have it */
};

static int measure(struct layers *l, const char *chain, struct err *e)
{
	char path[96];
	uint64_t bytes;
	struct err why;

	if (json_object_get(l->sizes, chain))
		return 0;
	if (!digest_is_sha256(chain))
		return err_set(e, ERR_CORRUPT, "an image has a bad layer; hint: berth image fsck");
	snprintf(path, sizeof(path), "layers/%.64s", digest_hex(chain));
	if (catalog_disk_bytes(l->store_fd, path, &bytes, NULL, &why) < 0) {
		/* removed meanwhile, with its image */
		if (why.code != ERR_NOT_FOUND) {
			*e = why;
			return -1;
		}
		bytes = 0;
	}
	return json_object_set_new(l->sizes, chain, json_integer((json_int_t)bytes)) < 0 ?
		       err_nomem(e) :
		       0;
}

static int add_image(void *ctx, const char *filename, const json_t *record, const struct err *bad,
		     struct err *e)
{
	struct layers *l = ctx;
	const char *digest = text_of(record, "digest");
	json_t *layers = json_object_get(record, "layers"), *one;
	size_t i;

	(void)filename;
	(void)bad;
	/* one that cannot be read is not in the list of images either */
	if (!record || json_object_get(l->images, digest))
		return 0;
	json_array_foreach (layers, i, one) {
		const char *chain = text_of(one, "chain_id");
		const json_int_t n = json_integer_value(json_object_get(l->users, chain));

		if (measure(l, chain, e) < 0)
			return -1;
		json_object_set_new(l->users, chain, json_integer(n + 1));
	}
	return json_object_set(l->images, digest, layers) < 0 ? err_nomem(e) : 0;
}

static void size_image(const struct layers *l, json_t *image)
{
	json_int_t whole = 0, shared = 0;
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(l->images, text_of(image, "Id")), i, one) {
		const char *chain = text_of(one, "chain_id");
		const json_int_t bytes = json_integer_value(json_object_get(l->sizes, chain));

		whole += bytes;
		if (json_integer_value(json_object_get(l->users, chain)) > 1)
			shared += bytes;
	}
	json_object_set_new(image, "Size", json_integer(whole));
	json_object_set_new(image, "VirtualSize", json_integer(whole));
	json_object_set_new(image, "SharedSize", json_integer(shared));
}

static json_int_t total(const json_t *sizes)
{
	json_int_t sum = 0;
	const char *key;
	json_t *one;

	json_object_foreach ((json_t *)(size_t)sizes, key, one)
		sum += json_integer_value(one);
	return sum;
}

/* ---- the document -------------------------------------------------------------------------- */

static void count_users(json_t *image, const json_t *containers)
{
	const json_t *one;
	json_int_t n = 0;
	size_t i;

	json_array_foreach ((json_t *)(size_t)containers, i, one)
		n += !strcmp(text_of(one, "ImageID"), text_of(image, "Id"));
	json_object_set_new(image, "Containers", json_integer(n));
}

static json_t *load_images(struct layers *l, json_t *containers, struct err *e)
{
	autojson json_t *none = json_object(), *list = catalog_list(l->store_fd, 0, e);
	json_t *images = list ? engine_image_list(list, none, e) : NULL, *one;
	size_t i;

	if (!images || catalog_each(l->store_fd, add_image, l, e) < 0) {
		json_decref(images);
		return NULL;
	}
	json_array_foreach (images, i, one) {
		size_image(l, one);
		count_users(one, containers);
	}
	return images;
}

json_t *engine_usage(struct registry *r, int store_fd, json_t *volumes, struct err *e)
{
	autojson json_t *none = json_object(), *digests = json_object(), *sizes = json_object(),
			*users = json_object(), *owned = volumes, *containers = NULL,
			*images = NULL;
	struct layers l = { store_fd, digests, sizes, users };

	containers = engine_load_list(r, none, 1, 0, e);
	if (containers && engine_sizes(r->config, r, containers, e) == 0)
		images = load_images(&l, containers, e);
	return images ? json_pack("{s:I,s:O,s:O,s:O,s:[]}", "LayersSize", total(sizes), "Images",
				  images, "Containers", containers, "Volumes", owned,
				  "BuildCache") :
			NULL;
}
