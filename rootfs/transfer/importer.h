/* SPDX-License-Identifier: Apache-2.0 */
/*
 * importer - the part shared by the readers of all sources: layers are staged in tmp/, checked, and
 * published together with their image (other layers are not).
 */
#ifndef BERTH_ROOTFS_TRANSFER_IMPORTER_H
#define BERTH_ROOTFS_TRANSFER_IMPORTER_H

#include "rootfs/layer/unpack.h"
#include "rootfs/store/image.h"
#include "rootfs/store/oci.h"
#include "rootfs/store/ref.h"
#include "rootfs/store/store.h"
#include "rootfs/transfer/importopts.h"
#include "rootfs/transfer/making.h"

struct importer {
	struct store store;
	struct making making;
	const struct import_options *opts;
	struct oci_platform want;	/* platform asked for */
	json_t *results;		/* array */
	json_t *base_layers;	/* {DIFF_ID: {"digest", "compression"}} of opts->bases, or NULL */
	int spooled;			/* the source lies in our own tmp/: its files may become blobs */
	uint64_t last_tick_ms;
	size_t unnamed;			/* images so far that the source gives no name */
	size_t at_layer, of_layers;	/* position of the layer at hand, for the progress display */
	uint64_t at_total;
};

struct import_layer {
	/* digest and size that the image declares; "" and UINT64_MAX if it declares none */
	char want_digest[DIGEST_SIZE];
	char want_diff_id[DIGEST_SIZE];
	uint64_t want_size;
	enum compression compression;
	int empty;			/* made here, for an image without layers */
	const char *media_type;		/* NULL: derived from the compression found */
	/* what it is */
	char digest[DIGEST_SIZE];
	char diff_id[DIGEST_SIZE];
	char chain_id[DIGEST_SIZE];
	uint64_t size;
	enum compression found;
	int tree_fd;			/* staged or published tree */
	char tmp_tree[32];		/* "" when nothing is staged */
	char tmp_blob[32];
	struct layer_stats stats;
	uint64_t disk;			/* bytes that its tree counts for, in a tenant's image */
};

struct import_image {
	struct import_layer *layers;
	size_t layer_count;
	char *manifest, *config;	/* documents, byte for byte */
	size_t manifest_len, config_len;
	char digest[DIGEST_SIZE];	/* digest of the manifest */
	char index_digest[DIGEST_SIZE];	/* digest of the index it was chosen from, "" if none */
	char parent[DIGEST_SIZE];	/* digest of the image that it was committed on, "" if none */
	char config_digest[DIGEST_SIZE];
	struct oci_config parsed;
	char owner[65];			/* the tenant that will own the image, or "" */
	int on_host;			/* the image stands on the image "host" */
	uint64_t skipped_elsewhere;	/* entries that a reader skipped before the layer saw them */
};

/* Begins for the maker in opts, with store_begin(); end with importer_end(). */
int importer_begin(struct importer *im, int store_fd, struct err *e);
void importer_end(struct importer *im);

/* Opens the source of layer i. */
typedef int import_open_fn(void *ctx, size_t i, struct err *e);

int import_image_layers(struct import_image *img, size_t count, struct err *e);
void import_image_release(struct import_image *img);
/* Unpacks the layers that the store does not have; fills in the data of each. */
int importer_stage(struct importer *im, struct import_image *img, import_open_fn *open_layer, void *ctx,
		   struct err *e);
/*
 * Tells whether the store has the tree and blob of a layer whose chain id is known, and this image
 * may use them. For the operator the layer stays locked from then on; if another process unpacks
 * it, this waits.
 */
int importer_find_layer(struct importer *im, const struct import_layer *l, int *ret_tree,
			int *ret_blob, struct err *e);
/* Fills in the data of a layer whose blob and tree are both in the store. */
int importer_reuse_layer(struct importer *im, struct import_layer *l, struct err *e);
/* Stages one layer from u, which has its source set; chain id is filled in. */
int importer_stage_stream(struct importer *im, struct import_layer *l, struct unpack *u, struct err *e);
/* Parses the config, checks its platform and its layers against the image's. */
int importer_take_config(struct importer *im, struct import_image *img, struct err *e);
/*
 * Names the blobs of layers that an image of opts->bases has as well: importer_stage() then opens no
 * source of them.  For an image whose manifest is made here, after importer_take_config().
 */
int importer_take_base_layers(struct importer *im, struct import_image *img, struct err *e);
/* Makes the manifest from layers and config, for sources that have none. */
int importer_make_manifest(struct import_image *img, struct err *e);
/* Makes config and manifest of a one-layer image that came without either. */
int importer_make_documents(struct importer *im, struct import_image *img, struct err *e);
/* Moves everything to its place, under each of the names. */
int importer_publish(struct importer *im, struct import_image *img, const struct ref *names, size_t count,
		     struct err *e);
/* Chooses the name: the operator's, else given (may be ""), else one made from the source's file name. */
int importer_name(struct importer *im, const char *given, struct ref *ret, struct err *e);
void importer_note(struct importer *im, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Opens a regular file beneath dir_fd for reading, without leaving dir_fd. ret_size may be NULL. */
int import_open_beneath(int dir_fd, const char *path, uint64_t *ret_size, struct err *e);
/* Reads a whole document beneath dir_fd; the caller frees *ret. */
int import_read_beneath(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len, struct err *e);

#endif
