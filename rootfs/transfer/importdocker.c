/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker-save content: manifest.json lists, per image, a config file and layer
 * tars.  It has no digests of its own but the config's name and diff ids; the
 * OCI manifest of the image is made here.
 */
#include "rootfs/transfer/importer.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rootfs/store/hash.h"
#include "rootfs/store/tree.h"

#define IMAGES_MAX 256
#define TAGS_MAX 256

static const char what[] = "manifest.json";

struct docker {
	struct importer *im;
	int dir_fd;
	json_t *layers;		/* of the image at hand: paths */
};

static int clean_path(const json_t *j, char ret[TREE_PATH_MAX + 1], struct err *e)
{
	const char *s = json_string_value(j);

	if (!s || strlen(s) != json_string_length(j))
		return err_set(e, ERR_CORRUPT, "%s: a path is missing or not a string", what);
	if (tree_clean_path(s, ret, e) < 0)
		return -1;
	return *ret ? 0 : err_set(e, ERR_CORRUPT, "%s: a path is empty", what);
}

static int open_layer(void *ctx, size_t i, struct err *e)
{
	char path[TREE_PATH_MAX + 1];
	struct docker *d = ctx;

	if (clean_path(json_array_get(d->layers, i), path, e) < 0)
		return -1;
	return import_open_beneath(d->dir_fd, path, NULL, e);
}

/* "HEX.json" or "blobs/sha256/HEX": a name that is a digest must be the right one (I25). */
static int check_config_name(const char *path, const char *digest, struct err *e)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	char hex[DIGEST_HEX_SIZE];

	if (strlen(base) < 64 || (base[64] && strcmp(base + 64, ".json")))
		return 0;
	memcpy(hex, base, 64);
	hex[64] = '\0';
	if (digest_is_hex(hex, 64, 64) && strcmp(hex, digest_hex(digest)))
		return err_set(e, ERR_CORRUPT, "image config %s has digest %s", base, digest);
	return 0;
}

static int fill_image(struct docker *d, const json_t *item, struct import_image *img, struct err *e)
{
	char path[TREE_PATH_MAX + 1];
	size_t i, n;

	if (json_get_arr(item, "Layers", &d->layers, what, e) < 0)
		return -1;
	n = json_array_size(d->layers);
	if (!n || n > IMAGE_LAYERS_MAX)
		return err_set(e, ERR_CORRUPT, "%s: %zu layers, not 1 to %d", what, n, IMAGE_LAYERS_MAX);
	if (clean_path(json_object_get(item, "Config"), path, e) < 0 ||
	    import_read_beneath(d->dir_fd, path, OCI_CONFIG_MAX, &img->config, &img->config_len, e) < 0 ||
	    hash_bytes(img->config, img->config_len, NULL, img->config_digest, e) < 0 ||
	    check_config_name(path, img->config_digest, e) < 0 || import_image_layers(img, n, e) < 0)
		return -1;
	for (i = 0; i < n; i++)
		img->layers[i].compression = COMPRESSION_AUTO;
	return importer_take_config(d->im, img, e);
}

/* The operator's name, else all the image's tags, else one made of the file name. */
static int collect_names(struct docker *d, const json_t *item, struct ref *names, size_t *ret_count,
			 struct err *e)
{
	json_t *tags = NULL;
	size_t i, n;

	if (json_get_arr(item, "RepoTags", &tags, what, e) < 0)
		return -1;
	n = d->im->opts->name ? 0 : json_array_size(tags);
	if (n > TAGS_MAX)
		return err_set(e, ERR_CORRUPT, "%s: %zu tags", what, n);
	for (i = 0; i < n; i++) {
		const char *s = json_string_value(json_array_get(tags, i));

		if (!s || importer_name(d->im, s, &names[i], e) < 0)
			return s ? -1 : err_set(e, ERR_CORRUPT, "%s: a tag is not a string", what);
	}
	*ret_count = n ? n : 1;
	return n ? 0 : importer_name(d->im, "", &names[0], e);
}

static int import_one(struct docker *d, const json_t *item, struct err *e)
{
	autofree struct ref *names = calloc(TAGS_MAX, sizeof(*names));
	struct import_image img = { 0 };
	size_t count;
	int rc = -1;

	if (!names)
		return err_nomem(e);
	if (!json_is_object(item))
		return err_set(e, ERR_CORRUPT, "%s: an image is not an object", what);
	if (!collect_names(d, item, names, &count, e) && !fill_image(d, item, &img, e) &&
	    !importer_stage(d->im, &img, open_layer, d, e) && !importer_make_manifest(&img, e))
		rc = importer_publish(d->im, &img, names, count, e);
	import_image_release(&img);
	return rc;
}

static int is_chosen(const json_t *item, const char *ref)
{
	json_t *tag;
	size_t i;

	if (!ref)
		return 1;
	json_array_foreach(json_object_get(item, "RepoTags"), i, tag) {
		if (json_is_string(tag) && !strcmp(json_string_value(tag), ref))
			return 1;
	}
	return 0;
}

int import_docker(struct importer *im, int dir_fd, const char *ref, struct err *e)
{
	struct docker d = { .im = im, .dir_fd = dir_fd };
	autofree char *text = NULL;
	autojson json_t *doc = NULL;
	size_t n, i, found = 0;
	json_t *item;

	if (import_read_beneath(dir_fd, what, OCI_MANIFEST_MAX, &text, &n, e) < 0)
		return -1;
	doc = json_parse(text, n, OCI_MANIFEST_MAX, what, e);
	if (!doc)
		return -1;
	if (!json_is_array(doc) || json_array_size(doc) > IMAGES_MAX)
		return err_set(e, ERR_CORRUPT, "%s is not a list of at most %d images", what, IMAGES_MAX);
	json_array_foreach(doc, i, item)
		found += (size_t)is_chosen(item, ref);
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "the archive has no image%s%.200s", ref ? " called " : "",
			       ref ? ref : "");
	if (found > 1 && im->opts->name)
		return err_set(e, ERR_INVALID, "the archive has %zu images, one name cannot be for all; hint: "
			       "choose one by SOURCE:NAME:TAG", found);
	json_array_foreach(doc, i, item) {
		if (is_chosen(item, ref) && import_one(&d, item, e) < 0)
			return -1;
	}
	return 0;
}
