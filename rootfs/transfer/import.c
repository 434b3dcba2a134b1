/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/transfer/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "rootfs/layer/confine.h"
#include "rootfs/layer/tarout.h"
#include "rootfs/store/hash.h"
#include "rootfs/store/tree.h"
#include "rootfs/transfer/importer.h"

/* ---- an OCI image layout ---- */

/* OCI image layout: oci-layout, index.json, blobs/sha256/HEX (image-spec, image-layout.md). */

#define NESTING_MAX 3
#define CANDIDATES_MAX 256

struct layout {
	struct importer *im;
	int dir_fd;
	const char *ref;		/* the reference wanted, or NULL */
	struct oci_entry *found;	/* manifests that fit */
	size_t found_count;
	char seen[400];			/* platforms that did not fit, for the error */
	const struct oci_manifest *manifest;	/* the manifest of the image at hand */
};

/* Reads a document and compares size and digest before anyone parses it (I25). */
static int read_layout_document(int dir_fd, const struct oci_desc *d, size_t max, char **ret, size_t *ret_len,
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

static int choose_layout_images(struct layout *lo, const struct oci_index *x, const struct oci_entry *outer, int depth,
				struct err *e);

static int choose_nested(struct layout *lo, const struct oci_entry *en, int depth, struct err *e)
{
	struct oci_index inner = { 0 };
	autofree char *text = NULL;
	size_t n;
	int rc;

	if (depth == NESTING_MAX)
		return err_set(e, ERR_CORRUPT, "image indexes nested deeper than %d", NESTING_MAX);
	if (read_layout_document(lo->dir_fd, &en->desc, OCI_MANIFEST_MAX, &text, &n, e) < 0 ||
	    oci_index_parse(text, n, en->desc.media_type, &inner, e) < 0)
		return -1;
	rc = choose_layout_images(lo, &inner, en, depth + 1, e);
	oci_index_release(&inner);
	return rc;
}

/*
 * Chooses the images. Inside an image's own index the first that fits is the image; outer then
 * gives the name.
 */
static int choose_layout_images(struct layout *lo, const struct oci_index *x, const struct oci_entry *outer, int depth,
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

static int open_layout_layer(void *ctx, size_t i, struct err *e)
{
	struct layout *lo = ctx;
	char path[DIGEST_BLOB_PATH_SIZE];

	digest_blob_path(path, lo->manifest->layers[i].digest);
	return import_open_beneath(lo->dir_fd, path, NULL, e);
}

static int fill_layout_image(struct layout *lo, const struct oci_entry *en, struct import_image *img,
			     struct oci_manifest *m, struct err *e)
{
	size_t i;

	if (read_layout_document(lo->dir_fd, &en->desc, OCI_MANIFEST_MAX, &img->manifest, &img->manifest_len, e) < 0 ||
	    oci_manifest_parse(img->manifest, img->manifest_len, en->desc.media_type, m, e) < 0 ||
	    read_layout_document(lo->dir_fd, &m->config, OCI_CONFIG_MAX, &img->config, &img->config_len, e) < 0 ||
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

/*
 * Chooses the name: a ref annotation is a whole name ("debian:12") or only a tag ("12", as umoci
 * writes it).
 */
static int choose_layout_name(struct layout *lo, const struct oci_entry *en, struct ref *ret, struct err *e)
{
	char given[REF_NAME_MAX * 2];
	struct ref r;

	if (en->name[0])
		return importer_name(lo->im, en->name, ret, e);
	if (!en->ref[0] || strpbrk(en->ref, ":/"))
		return importer_name(lo->im, en->ref, ret, e);
	if (importer_name(lo->im, "", &r, e) < 0)
		return -1;
	if (lo->im->opts->name || lo->im->opts->unnamed) {
		*ret = r;
		return 0;
	}
	snprintf(given, sizeof(given), "%s:%.200s", r.repo, en->ref);
	return importer_name(lo->im, given, ret, e);
}

static int import_layout_image(struct layout *lo, const struct oci_entry *en, struct err *e)
{
	struct import_image img = { 0 };
	struct oci_manifest m = { 0 };
	struct ref name;
	int rc = -1;

	if (choose_layout_name(lo, en, &name, e) < 0)
		return -1;
	lo->manifest = &m;
	if (!fill_layout_image(lo, en, &img, &m, e) && !importer_stage(lo->im, &img, open_layout_layer, lo, e))
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

/*
 * Checks oci-layout: umoci and skopeo write {"imageLayoutVersion": "1.0.0"}; a reader must not
 * guess at others.
 */
static int check_layout_version(int dir_fd, struct err *e)
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

/* Reads a layout. dir_fd is the directory; its content is hostile. */
static int import_layout(struct importer *im, int dir_fd, const char *ref, struct err *e)
{
	struct layout lo = { .im = im, .dir_fd = dir_fd, .ref = ref };
	struct oci_index x = { 0 };
	autofree char *text = NULL;
	size_t n, i;
	int rc;

	if (check_layout_version(dir_fd, e) < 0 ||
	    import_read_beneath(dir_fd, "index.json", OCI_MANIFEST_MAX, &text, &n, e) < 0 ||
	    oci_index_parse(text, n, NULL, &x, e) < 0)
		return -1;
	rc = choose_layout_images(&lo, &x, NULL, 0, e);
	oci_index_release(&x);
	if (!rc && !lo.found_count)
		rc = none_found(&lo, e);
	if (!rc && lo.found_count > 1 && im->opts->name)
		rc = err_set(e, ERR_INVALID, "the layout has %zu images, one name cannot be for all; hint: "
			     "choose one by SOURCE:REF, such as %.100s:%.100s", lo.found_count, im->opts->source,
			     lo.found[0].ref);
	for (i = 0; !rc && i < lo.found_count; i++)
		rc = import_layout_image(&lo, &lo.found[i], e);
	free(lo.found);
	return rc;
}

/* ---- docker-save content ---- */

/*
 * docker-save content: manifest.json lists, per image, a config file and layer tars. Its only
 * digests are the config's name and the diff ids; the OCI manifest of the image is made here.
 */

#define IMAGES_MAX 256
#define TAGS_MAX 256

static const char what[] = "manifest.json";

struct docker {
	struct importer *im;
	int dir_fd;
	json_t *layers;		/* layer paths of the image at hand */
};

static int clean_saved_path(const json_t *j, char ret[TREE_PATH_MAX + 1], struct err *e)
{
	const char *s = json_string_value(j);

	if (!s || strlen(s) != json_string_length(j))
		return err_set(e, ERR_CORRUPT, "%s: a path is missing or not a string", what);
	if (tree_clean_path(s, ret, e) < 0)
		return -1;
	return *ret ? 0 : err_set(e, ERR_CORRUPT, "%s: a path is empty", what);
}

static int open_saved_layer(void *ctx, size_t i, struct err *e)
{
	char path[TREE_PATH_MAX + 1];
	struct docker *d = ctx;

	if (clean_saved_path(json_array_get(d->layers, i), path, e) < 0)
		return -1;
	return import_open_beneath(d->dir_fd, path, NULL, e);
}

/* Checks "HEX.json" or "blobs/sha256/HEX": a name that is a digest must be the right one (I25). */
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

static int fill_saved_image(struct docker *d, const json_t *item, struct import_image *img, struct err *e)
{
	char path[TREE_PATH_MAX + 1];
	size_t i, n;

	if (json_get_arr(item, "Layers", &d->layers, what, e) < 0)
		return -1;
	n = json_array_size(d->layers);
	if (n > IMAGE_LAYERS_MAX)
		return err_set(e, ERR_CORRUPT, "%s: %zu layers, more than %d", what, n, IMAGE_LAYERS_MAX);
	if (clean_saved_path(json_object_get(item, "Config"), path, e) < 0 ||
	    import_read_beneath(d->dir_fd, path, OCI_CONFIG_MAX, &img->config, &img->config_len, e) < 0 ||
	    hash_bytes(img->config, img->config_len, NULL, img->config_digest, e) < 0 ||
	    check_config_name(path, img->config_digest, e) < 0 || import_image_layers(img, n, e) < 0)
		return -1;
	for (i = 0; i < n; i++)
		img->layers[i].compression = COMPRESSION_AUTO;
	return importer_take_config(d->im, img, e) < 0 ? -1 : importer_take_base_layers(d->im, img, e);
}

/* Collects the names: the operator's, else all the image's tags, else one made from the file name. */
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

static int import_saved_image(struct docker *d, const json_t *item, struct err *e)
{
	autofree struct ref *names = calloc(TAGS_MAX, sizeof(*names));
	struct import_image img = { 0 };
	size_t count;
	int rc = -1;

	if (!names)
		return err_nomem(e);
	if (!json_is_object(item))
		return err_set(e, ERR_CORRUPT, "%s: an image is not an object", what);
	if (!collect_names(d, item, names, &count, e) && !fill_saved_image(d, item, &img, e) &&
	    !importer_stage(d->im, &img, open_saved_layer, d, e) && !importer_make_manifest(&img, e))
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

static int import_docker(struct importer *im, int dir_fd, const char *ref, struct err *e)
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
		if (is_chosen(item, ref) && import_saved_image(&d, item, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- plain root file systems, and archives of unknown content ---- */

/*
 * Plain root file systems, and archives of unknown content.
 *
 * A directory is packed by a confined child and goes through the same pipe as
 * any layer, so it gets the same checks and a blob and digest of its own.
 *
 * An archive is unpacked once as if it were a layer.  If an OCI layout or
 * docker-save content comes out, that tree is the source of a second step.
 */

static int pack_directory(void *ctx, int out_fd, int report_fd, pid_t parent, struct tarout_stats *ret, struct err *e)
{
	const struct tarout_options how = { .compression = COMPRESSION_GZIP, .one_fs = 1 };
	const int dir_fd = *(const int *)ctx, keep[] = { dir_fd, out_fd, report_fd };
	const struct confine c = { CONFINE_READ, parent, dir_fd, -1, -1, keep, ARRAY_LEN(keep), PACKER_MEMORY };

	if (confine_child(&c, e) < 0)
		return -1;
	return tarout_write(dir_fd, out_fd, &how, ret, e);
}

/* Makes the rest of an image around its one layer, which is staged. */
static int finish_rootfs_image(struct importer *im, struct import_image *img, struct err *e)
{
	struct ref name;

	if ((im->opts->confirm && im->opts->confirm(im->opts->confirm_ctx, e) < 0) || importer_name(im, "", &name, e) < 0 ||
	    hash_chain(NULL, img->layers[0].diff_id, img->layers[0].chain_id, e) < 0 ||
	    importer_make_documents(im, img, e) < 0)
		return -1;
	return importer_publish(im, img, &name, 1, e);
}

static int pack_and_stage(struct importer *im, struct import_image *img, int dir_fd, struct err *e)
{
	struct import_layer *l = &img->layers[0];
	autoclose int blob = store_tmp_file(&im->store, l->tmp_blob, e);
	autoclose int src = -1;
	struct packer packer = PACKER_INIT;
	struct unpack u = { .blob_fd = blob };
	struct tarout_stats st = { 0 };
	int rc;

	l->tree_fd = store_tmp_dir(&im->store, l->tmp_tree, e);
	if (blob < 0 || l->tree_fd < 0)
		return -1;
	if (packer_start_pipe(&packer, pack_directory, &dir_fd, &src, e) < 0)
		return -1;
	u.src_fd = src;
	u.tree_fd = l->tree_fd;
	l->compression = COMPRESSION_GZIP;
	rc = importer_stage_stream(im, l, &u, e);
	fd_close(&src);
	rc = packer_end(&packer, rc, &st, e);
	if (!rc) {
		img->skipped_elsewhere = st.skipped;
		if (st.not_entered)
			importer_note(im, "%llu mount points below the directory were left empty",
				      (unsigned long long)st.not_entered);
	}
	return rc;
}

static int import_rootfs_dir(struct importer *im, int dir_fd, struct err *e)
{
	struct import_image img = { 0 };
	struct ref name;
	int rc = -1;

	/* a bad name is reported before the work */
	if (importer_name(im, "", &name, e) < 0)
		return -1;
	im->at_layer = im->of_layers = 1;
	if (!import_image_layers(&img, 1, e) && !pack_and_stage(im, &img, dir_fd, e))
		rc = finish_rootfs_image(im, &img, e);
	import_image_release(&img);
	return rc;
}

/* ---- archives ---- */

#define PEEK 1024

/*
 * Returns 1 if the first tar header (after that of "./") names a file with which only image
 * archives begin.
 */
static int looks_like_image(const unsigned char *p, size_t n)
{
	static const char *const names[] = { "oci-layout", "index.json", "manifest.json", "repositories",
					     "blobs", "blobs/" };
	char name[101] = { 0 };
	size_t i;

	if (n < PEEK)
		return 0;
	memcpy(name, memcmp(p, "./", 3) ? p : p + 512, 100);
	if (!strncmp(name, "./", 2))
		memmove(name, name + 2, sizeof(name) - 2);
	for (i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(name, names[i]))
			return 1;
	return strspn(name, "0123456789abcdef") == 64;
}

static int check_magic(const unsigned char *p, size_t n, struct err *e)
{
	if (n >= 6 && !memcmp(p, "\xfd" "7zXZ", 6))
		return err_set(e, ERR_UNSUPPORTED, "archives compressed by xz are not read; hint: "
			       "xz -dc FILE | berth image import - NAME");
	if (n >= 4 && !memcmp(p, "BZh", 3))
		return err_set(e, ERR_UNSUPPORTED, "archives compressed by bzip2 are not read; hint: "
			       "bzip2 -dc FILE | berth image import - NAME");
	return n ? 0 : err_set(e, ERR_CORRUPT, "the archive is empty");
}

static int source_has(int dir_fd, const char *name, mode_t type)
{
	struct stat st;

	return !fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) && (st.st_mode & S_IFMT) == type;
}

enum source_kind { SOURCE_LAYOUT, SOURCE_DOCKER, SOURCE_ROOTFS };

static enum source_kind tree_kind(int dir_fd)
{
	/* a root file system may well have a /manifest.json */
	const int is_root = source_has(dir_fd, "usr", S_IFDIR) || source_has(dir_fd, "etc", S_IFDIR) || source_has(dir_fd, "bin", S_IFDIR);

	/* a layout without its index is a damaged one */
	if (source_has(dir_fd, "oci-layout", S_IFREG) && (!is_root || source_has(dir_fd, "index.json", S_IFREG)))
		return SOURCE_LAYOUT;
	if (!is_root && source_has(dir_fd, "manifest.json", S_IFREG))
		return SOURCE_DOCKER;
	return SOURCE_ROOTFS;
}

static int import_tree(struct importer *im, enum source_kind kind, int dir_fd, const char *ref, struct err *e)
{
	if (kind != SOURCE_ROOTFS && (im->opts->changes || im->opts->message))
		return err_set(e, ERR_INVALID, "the source is an image with a config and a history of its own; hint: berth image "
			       "import without --change and --message, and berth commit --change");
	if (kind == SOURCE_LAYOUT)
		return import_layout(im, dir_fd, ref, e);
	if (kind == SOURCE_DOCKER)
		return import_docker(im, dir_fd, ref, e);
	if (ref)
		return err_set(e, ERR_NOT_FOUND, "the source is a plain root file system: it has no image '%.200s'", ref);
	return import_rootfs_dir(im, dir_fd, e);
}

/* Finds out which kind of source the directory is, and imports it. */
static int import_directory(struct importer *im, int dir_fd, const char *ref, struct err *e)
{
	return import_tree(im, tree_kind(dir_fd), dir_fd, ref, e);
}

/*
 * Reads an archive again that turned out to be the layer: it was not copied at first. The digests
 * are checked.
 */
static int copy_archive_blob(struct importer *im, struct import_layer *l, int fd, struct err *e)
{
	autoclose int blob = store_tmp_file(&im->store, l->tmp_blob, e);
	struct unpack u = { .src_fd = fd, .tree_fd = -1, .blob_fd = blob };
	const struct layer_stats st = l->stats;
	int rc;

	if (blob < 0)
		return -1;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "read the archive again");
	memcpy(l->want_digest, l->digest, DIGEST_SIZE);
	memcpy(l->want_diff_id, l->diff_id, DIGEST_SIZE);
	rc = importer_stage_stream(im, l, &u, e);
	l->stats = st;
	return rc;
}

static int peek(int fd, unsigned char *p, size_t *ret_n, struct err *e)
{
	size_t n = 0;
	ssize_t r;

	while (n < PEEK) {
		r = read(fd, p + n, PEEK - n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "read the archive");
		if (!r)
			break;
		n += (size_t)r;
	}
	*ret_n = n;
	return check_magic(p, n, e);
}

static int stage_archive(struct importer *im, struct import_layer *l, int fd, struct err *e)
{
	unsigned char first[PEEK];
	autoclose int blob = -1;
	struct unpack u = { .src_fd = fd, .blob_fd = -1, .prefix = first };
	struct stat st;

	if (peek(fd, first, &u.prefix_len, e) < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at the archive");
	im->at_total = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	if (!S_ISREG(st.st_mode) || !looks_like_image(first, u.prefix_len)) {
		blob = store_tmp_file(&im->store, l->tmp_blob, e);
		if (blob < 0)
			return -1;
	}
	l->tree_fd = store_tmp_dir(&im->store, l->tmp_tree, e);
	if (l->tree_fd < 0)
		return -1;
	u.blob_fd = blob;
	u.tree_fd = l->tree_fd;
	l->compression = COMPRESSION_AUTO;
	return importer_stage_stream(im, l, &u, e);
}

static int import_archive(struct importer *im, int fd, const char *ref, struct err *e)
{
	struct import_image img = { 0 };
	struct import_layer *l;
	enum source_kind kind;
	int rc = -1;

	if (import_image_layers(&img, 1, e) < 0)
		return -1;
	l = &img.layers[0];
	im->at_layer = im->of_layers = 1;
	if (stage_archive(im, l, fd, e) < 0)
		goto done;
	kind = tree_kind(l->tree_fd);
	if (kind != SOURCE_ROOTFS) {
		if (l->tmp_blob[0]) {
			store_tmp_remove(&im->store, l->tmp_blob);
			making_refund(&im->making, l->size);
		}
		im->spooled = 1;
		rc = import_tree(im, kind, l->tree_fd, ref, e);
		store_tmp_remove(&im->store, l->tmp_tree);
		goto done;
	}
	if (ref) {
		err_set(e, ERR_NOT_FOUND, "the archive is a plain root file system: it has no image '%.200s'", ref);
		goto done;
	}
	if (!l->tmp_blob[0] && copy_archive_blob(im, l, fd, e) < 0)
		goto done;
	rc = finish_rootfs_image(im, &img, e);
done:
	import_image_release(&img);
	return rc;
}

/* ---- the sources ---- */

/*
 * Opens the source. "PATH:REF" is considered only if the whole is not a path; the REF may hold a
 * colon itself ("images.tar:debian:12").
 */
static int open_import_source(const char *source, const char **ret_ref, struct err *e)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	int fd = open(source, flags), first = errno;
	const char *colon = strchr(source, ':');

	*ret_ref = NULL;
	for (; fd < 0 && first == ENOENT && colon; colon = strchr(colon + 1, ':')) {
		autofree char *path = strndup(source, (size_t)(colon - source));

		if (!path)
			return err_nomem(e);
		if (*path && colon[1])
			fd = open(path, flags);
		if (fd >= 0)
			*ret_ref = colon + 1;
	}
	if (fd < 0) {
		errno = first;
		err_code_sys(e, first == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open %.300s", source);
		if (first == ENOENT)
			err_hint(e, "SOURCE is an OCI layout, a docker-save archive, a root file system "
				 "directory or its tar, or - for stdin");
		return -1;
	}
	return fd;
}

static int import_source(struct importer *im, struct err *e)
{
	const char *source = im->opts->source, *ref = NULL;
	autoclose int fd = -1;
	struct stat st;

	if (im->opts->stream_fd > 0)
		return import_archive(im, im->opts->stream_fd, NULL, e);
	if (!strcmp(source, "-")) {
		if (isatty(0))
			return err_set(e, ERR_USAGE, "stdin is a terminal; hint: berth image import - NAME < FILE");
		return import_archive(im, 0, NULL, e);
	}
	fd = open_import_source(source, &ref, e);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at %.300s", source);
	if (S_ISDIR(st.st_mode))
		return import_directory(im, fd, ref, e);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%.300s is neither a file nor a directory; hint: for a pipe, "
			       "berth image import - NAME < PIPE", source);
	return import_archive(im, fd, ref, e);
}

/* Checks the name and the platform before any work. */
static int check_import_target(struct importer *im, struct err *e)
{
	struct ref name;

	if (im->opts->platform ? oci_platform_parse(im->opts->platform, &im->want, e) < 0 : 0)
		return -1;
	if (!im->opts->platform)
		oci_platform_host(&im->want);
	return im->opts->name ? importer_name(im, "", &name, e) : 0;
}

json_t *import_run(int store_fd, const struct import_options *opts, struct err *e)
{
	struct importer im = { .opts = opts };
	int rc;

	if (check_import_target(&im, e) < 0 || importer_begin(&im, store_fd, e) < 0)
		return NULL;
	im.results = json_array();
	rc = im.results ? import_source(&im, e) : err_nomem(e);
	importer_end(&im);
	if (rc < 0) {
		json_decref(im.results);
		return NULL;
	}
	return im.results;
}
