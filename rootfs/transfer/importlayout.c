/* SPDX-License-Identifier: Apache-2.0 */
/* OCI image layout: oci-layout, index.json, blobs/sha256/HEX (image-spec, image-layout.md). */
#include "rootfs/transfer/importer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rootfs/store/hash.h"

#define NESTING_MAX 3
#define CANDIDATES_MAX 256

struct layout {
	struct importer *im;
	int dir_fd;
	const char *ref;		/* the one wanted, or NULL */
	struct oci_entry *found;	/* manifests that fit */
	size_t found_count;
	char seen[400];			/* platforms that did not fit, for the error */
	const struct oci_manifest *manifest;	/* of the image at hand */
};

/* Reads a document and compares size and digest before anyone parses it (I25). */
static int read_document(int dir_fd, const struct oci_desc *d, size_t max, char **ret, size_t *ret_len,
			 struct err *e)
{
	char path[DIGEST_BLOB_PATH_SIZE], digest[DIGEST_SIZE];
	autofree char *text = NULL;
	size_t n = 0;

	if (d->size > max)
		return err_set(e, ERR_CORRUPT, "document %s is larger than %zu bytes", d->digest, max);
	digest_blob_path(path, d->digest);
	if (import_read_beneath(dir_fd, path, max, &text, &n, e) < 0 || hash_bytes(text, n, d->digest, digest, e) < 0)
		return -1;
	if (n != d->size)
		return err_set(e, ERR_CORRUPT, "document %s has %zu bytes instead of %llu", d->digest, n,
			       (unsigned long long)d->size);
	if (strcmp(digest, d->digest))
		return err_set(e, ERR_CORRUPT, "document %s has digest %s", d->digest, digest);
	*ret = take_ptr(&text);
	*ret_len = n;
	return 0;
}

/* ---- choosing ---- */

static int ref_matches(const struct oci_entry *en, const char *ref)
{
	return !strcmp(en->ref, ref) || !strcmp(en->name, ref);
}

static void note_platform(struct layout *lo, const struct oci_platform *p)
{
	size_t len = strlen(lo->seen);
	char text[100];

	oci_platform_format(p, text);
	if (p->os[0] && !strstr(lo->seen, text) && len + strlen(text) + 3 < sizeof(lo->seen))
		snprintf(lo->seen + len, sizeof(lo->seen) - len, "%s%s", len ? ", " : "", text);
}

static int add_found(struct layout *lo, const struct oci_entry *en, struct err *e)
{
	struct oci_entry *more;
	size_t i;

	for (i = 0; i < lo->found_count; i++)
		if (!strcmp(lo->found[i].desc.digest, en->desc.digest) && !strcmp(lo->found[i].ref, en->ref) &&
		    !strcmp(lo->found[i].name, en->name))
			return 0;
	if (lo->found_count == CANDIDATES_MAX)
		return err_set(e, ERR_LIMIT, "the layout has more than %d images", CANDIDATES_MAX);
	more = realloc(lo->found, (lo->found_count + 1) * sizeof(*more));
	if (!more)
		return err_nomem(e);
	lo->found = more;
	lo->found[lo->found_count++] = *en;
	return 0;
}

static int choose(struct layout *lo, const struct oci_index *x, const struct oci_entry *outer, int depth,
		  struct err *e);

static int choose_nested(struct layout *lo, const struct oci_entry *en, int depth, struct err *e)
{
	struct oci_index inner = { 0 };
	autofree char *text = NULL;
	size_t n;
	int rc;

	if (depth == NESTING_MAX)
		return err_set(e, ERR_CORRUPT, "image indexes nested deeper than %d", NESTING_MAX);
	if (read_document(lo->dir_fd, &en->desc, OCI_MANIFEST_MAX, &text, &n, e) < 0 ||
	    oci_index_parse(text, n, en->desc.media_type, &inner, e) < 0)
		return -1;
	rc = choose(lo, &inner, en, depth + 1, e);
	oci_index_release(&inner);
	return rc;
}

/* Inside an image's own index the first that fits is the image; outer gives the name then. */
static int choose(struct layout *lo, const struct oci_index *x, const struct oci_entry *outer, int depth,
		  struct err *e)
{
	struct oci_entry en;
	size_t i;

	for (i = 0; i < x->count; i++) {
		en = x->entries[i];
		if (!outer && lo->ref && !ref_matches(&en, lo->ref))
			continue;
		if (outer) {
			memcpy(en.ref, outer->ref, sizeof(en.ref));
			memcpy(en.name, outer->name, sizeof(en.name));
		}
		if (en.desc.kind == OCI_INDEX) {
			if (choose_nested(lo, &en, depth, e) < 0)
				return -1;
		} else if (en.desc.kind == OCI_MANIFEST) {
			if (!oci_platform_fits(&en.platform, &lo->im->want)) {
				note_platform(lo, &en.platform);
				continue;
			}
			if (add_found(lo, &en, e) < 0)
				return -1;
			if (outer)
				return 0;
		}
	}
	return 0;
}

/* ---- one image ---- */

static int open_layer(void *ctx, size_t i, struct err *e)
{
	struct layout *lo = ctx;
	char path[DIGEST_BLOB_PATH_SIZE];

	digest_blob_path(path, lo->manifest->layers[i].digest);
	return import_open_beneath(lo->dir_fd, path, NULL, e);
}

static int fill_image(struct layout *lo, const struct oci_entry *en, struct import_image *img,
		      struct oci_manifest *m, struct err *e)
{
	size_t i;

	if (read_document(lo->dir_fd, &en->desc, OCI_MANIFEST_MAX, &img->manifest, &img->manifest_len, e) < 0 ||
	    oci_manifest_parse(img->manifest, img->manifest_len, en->desc.media_type, m, e) < 0 ||
	    read_document(lo->dir_fd, &m->config, OCI_CONFIG_MAX, &img->config, &img->config_len, e) < 0 ||
	    import_image_layers(img, m->layer_count, e) < 0)
		return -1;
	memcpy(img->digest, en->desc.digest, DIGEST_SIZE);
	memcpy(img->config_digest, m->config.digest, DIGEST_SIZE);
	for (i = 0; i < m->layer_count; i++) {
		memcpy(img->layers[i].want_digest, m->layers[i].digest, DIGEST_SIZE);
		img->layers[i].want_size = m->layers[i].size;
		img->layers[i].compression = m->layers[i].compression;
	}
	return importer_take_config(lo->im, img, e);
}

/* A ref annotation is a whole name ("debian:12") or only a tag ("12", as umoci writes it). */
static int choose_name(struct layout *lo, const struct oci_entry *en, struct ref *ret, struct err *e)
{
	char given[REF_NAME_MAX * 2];
	struct ref r;

	if (en->name[0])
		return importer_name(lo->im, en->name, ret, e);
	if (!en->ref[0] || strpbrk(en->ref, ":/"))
		return importer_name(lo->im, en->ref, ret, e);
	if (importer_name(lo->im, "", &r, e) < 0)
		return -1;
	if (lo->im->opts->name) {
		*ret = r;
		return 0;
	}
	snprintf(given, sizeof(given), "%s:%.200s", r.repo, en->ref);
	return importer_name(lo->im, given, ret, e);
}

static int import_one(struct layout *lo, const struct oci_entry *en, struct err *e)
{
	struct import_image img = { 0 };
	struct oci_manifest m = { 0 };
	struct ref name;
	int rc = -1;

	if (choose_name(lo, en, &name, e) < 0)
		return -1;
	lo->manifest = &m;
	if (!fill_image(lo, en, &img, &m, e) && !importer_stage(lo->im, &img, open_layer, lo, e))
		rc = importer_publish(lo->im, &img, &name, 1, e);
	import_image_release(&img);
	oci_manifest_release(&m);
	return rc;
}

static int none_found(struct layout *lo, struct err *e)
{
	char want[100];

	oci_platform_format(&lo->im->want, want);
	if (lo->seen[0])
		return err_set(e, ERR_NOT_FOUND, "the layout has no image for %s, but for %s; hint: "
			       "--platform OS/ARCH", want, lo->seen);
	if (lo->ref)
		return err_set(e, ERR_NOT_FOUND, "the layout has no image called '%.200s'", lo->ref);
	return err_set(e, ERR_NOT_FOUND, "the layout has no image");
}

/* umoci and skopeo write {"imageLayoutVersion": "1.0.0"}; a reader must not guess at others. */
static int check_version(int dir_fd, struct err *e)
{
	autofree char *text = NULL;
	autojson json_t *j = NULL;
	const char *version = NULL;
	size_t n;

	if (import_read_beneath(dir_fd, "oci-layout", 4096, &text, &n, e) < 0)
		return -1;
	j = json_parse(text, n, 4096, "oci-layout", e);
	if (!j || json_get_str(j, "imageLayoutVersion", &version, "oci-layout", e) < 0)
		return -1;
	if (!version || strncmp(version, "1.", 2))
		return err_set(e, ERR_CORRUPT, "image layout of version '%.40s', not 1.0.0", version ? version : "");
	return 0;
}

int import_layout(struct importer *im, int dir_fd, const char *ref, struct err *e)
{
	struct layout lo = { .im = im, .dir_fd = dir_fd, .ref = ref };
	struct oci_index x = { 0 };
	autofree char *text = NULL;
	size_t n, i;
	int rc;

	if (check_version(dir_fd, e) < 0 ||
	    import_read_beneath(dir_fd, "index.json", OCI_MANIFEST_MAX, &text, &n, e) < 0 ||
	    oci_index_parse(text, n, NULL, &x, e) < 0)
		return -1;
	rc = choose(&lo, &x, NULL, 0, e);
	oci_index_release(&x);
	if (!rc && !lo.found_count)
		rc = none_found(&lo, e);
	if (!rc && lo.found_count > 1 && im->opts->name)
		rc = err_set(e, ERR_INVALID, "the layout has %zu images, one name cannot be for all; hint: "
			     "choose one by SOURCE:REF, such as %.100s:%.100s", lo.found_count, im->opts->source,
			     lo.found[0].ref);
	for (i = 0; !rc && i < lo.found_count; i++)
		rc = import_one(&lo, &lo.found[i], e);
	free(lo.found);
	return rc;
}
