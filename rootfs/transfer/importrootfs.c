/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain root file systems, and archives of unknown content.
 *
 * A directory is packed by a confined child and goes through the same pipe as
 * any layer, so it gets the same checks and a blob and digest of its own.
 *
 * An archive is unpacked once as if it were a layer.  If an OCI layout or
 * docker-save content comes out, that tree is the source of a second step.
 */
#include "rootfs/transfer/importer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "rootfs/layer/confine.h"
#include "rootfs/layer/packer.h"
#include "rootfs/store/hash.h"

static int pack_directory(void *ctx, int out_fd, int report_fd, pid_t parent, struct tarout_stats *ret, struct err *e)
{
	const struct tarout_options how = { .compression = COMPRESSION_GZIP, .one_fs = 1 };
	const int dir_fd = *(const int *)ctx, keep[] = { dir_fd, out_fd, report_fd };
	const struct confine c = { CONFINE_READ, parent, dir_fd, -1, -1, keep, ARRAY_LEN(keep), PACKER_MEMORY };

	if (confine_child(&c, e) < 0)
		return -1;
	return tarout_write(dir_fd, out_fd, &how, ret, e);
}

/* The one layer is staged: make the rest of an image around it. */
static int finish(struct importer *im, struct import_image *img, struct err *e)
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

	/* a bad name is better known before the work */
	if (importer_name(im, "", &name, e) < 0)
		return -1;
	im->at_layer = im->of_layers = 1;
	if (!import_image_layers(&img, 1, e) && !pack_and_stage(im, &img, dir_fd, e))
		rc = finish(im, &img, e);
	import_image_release(&img);
	return rc;
}

/* ---- archives ---- */

#define PEEK 1024

/* 1 when the first tar header (after one of "./") names what only image archives begin with. */
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

static int is_there(int dir_fd, const char *name, mode_t type)
{
	struct stat st;

	return !fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) && (st.st_mode & S_IFMT) == type;
}

enum source_kind { SOURCE_LAYOUT, SOURCE_DOCKER, SOURCE_ROOTFS };

static enum source_kind tree_kind(int dir_fd)
{
	/* a root file system may well have a /manifest.json */
	const int is_root = is_there(dir_fd, "usr", S_IFDIR) || is_there(dir_fd, "etc", S_IFDIR) || is_there(dir_fd, "bin", S_IFDIR);

	/* a layout without its index is a damaged one */
	if (is_there(dir_fd, "oci-layout", S_IFREG) && (!is_root || is_there(dir_fd, "index.json", S_IFREG)))
		return SOURCE_LAYOUT;
	if (!is_root && is_there(dir_fd, "manifest.json", S_IFREG))
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

int import_directory(struct importer *im, int dir_fd, const char *ref, struct err *e)
{
	return import_tree(im, tree_kind(dir_fd), dir_fd, ref, e);
}

/* The archive was not copied while it was read, and is the layer after all: again, and checked. */
static int copy_blob(struct importer *im, struct import_layer *l, int fd, struct err *e)
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

int import_archive(struct importer *im, int fd, const char *ref, struct err *e)
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
	if (!l->tmp_blob[0] && copy_blob(im, l, fd, e) < 0)
		goto done;
	rc = finish(im, &img, e);
done:
	import_image_release(&img);
	return rc;
}
