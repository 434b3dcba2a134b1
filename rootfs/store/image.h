/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image - the data of an image that the runtime needs.
 *
 * Read side only, on the path of every `berth run`: one small JSON file has everything, and no
 * archive or crypto library is needed. The write side is store.h and import.h.
 *
 * The store, below a root directory of mode 0700:
 *   images/REPO:TAG.json   one record per name ('/' as '%'), replaced whole;
 *                          REPO:TAG@TENANT.json those of tenants (owner.h)
 *   layers/CHAINID/        one unpacked layer per chain id, never changed
 *   blobs/sha256/HEX       manifests, configs, compressed layers
 *   holds/HEX              one per manifest digest: its chain ids; users of the
 *                          image hold LOCK_SH on it, gc deletes what it can lock
 *   tenants/NAME           locked while the tenant makes an image (rootfs/transfer/making.h)
 *   ../sandboxes/ID/image.json   what a lasting sandbox was made from, while it is stopped
 */
#ifndef BERTH_ROOTFS_STORE_IMAGE_H
#define BERTH_ROOTFS_STORE_IMAGE_H

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"
#include "rootfs/store/digest.h"
#include "rootfs/store/owner.h"

#define STORE_DEFAULT_PATH "/var/lib/berth/store"
#define IMAGE_LAYERS_MAX 500	/* overlayfs takes no more lower directories */

struct image {			/* strings owned by it */
	char *name;		/* as asked */
	char digest[DIGEST_SIZE];	/* the manifest's digest */
	char **env;		/* validated NAME=VALUE */
	size_t env_count;
	char **entrypoint;
	size_t entrypoint_count;
	char **cmd;
	size_t cmd_count;
	char *user;		/* "" when none */
	char *workdir;		/* "" if none, else absolute */
	int on_host;		/* its lowest layer stands on the image "host" */
	size_t layer_count;	/* lowest first */
	char (*layers)[65];	/* hex chain ids: directories layers/<id> in the store */
	json_t *labels;		/* object of strings; NULL if none */
	char *record;		/* the text of its record, for image_pin() */
	size_t record_len;
};

/* Name of the copy of its image's record in the directory of a lasting sandbox. */
#define IMAGE_PIN "image.json"
/*
 * The newest "version" of a record that is read. Version 2 adds "owner", the tenant of berthd that
 * owns the image; an older berth would show such an image to every tenant. Version 3 adds "base",
 * for an image that stands on the programs of this host and has few of its own; only berth commit
 * writes it, and no image document can claim it. A record gets the oldest version that can express
 * it.
 */
#define IMAGE_RECORD_FORMAT 3
#define IMAGE_RECORD_OWNED 2
#define IMAGE_RECORD_UNOWNED 1

/* Opens the store root (0700; made when absent).  Returns a dirfd. */
int store_open(const char *path, struct err *e);
/*
 * Looks an image up by name[:tag][@digest], by "sha256:HEX" or by at least 12 hex digits of its
 * digest. ERR_NOT_FOUND with a hint if there is none, ERR_INVALID if ref is malformed or the
 * digits match several images.
 */
int image_load(int store_fd, const char *ref, struct image *ret, struct err *e);
void image_release(struct image *im);
/*
 * Writes IMAGE_PIN into a sandbox's directory, which is beside the store: the
 * image's files then outlive its names, until the directory is removed.  Call it
 * while image_hold() holds.  image_load_pin() loads an image from there.
 */
int image_pin(const struct image *im, int dir_fd, struct err *e);
int image_load_pin(int dir_fd, struct image *ret, struct err *e);
/*
 * Checks the format of a record: ERR_UNSUPPORTED with a hint if it is newer than
 * IMAGE_RECORD_FORMAT; what names it in the message.
 */
int image_check_format(const json_t *record, const char *what, struct err *e);
/* Tells whether the image of the record stands on the programs of this host. */
#define IMAGE_BASE_HOST "host"
int image_is_on_host(const json_t *record);
/* Sets the error for an image that does not exist; returns -1. */
int image_not_found(const char *ref, struct err *e);
/* Returns the record itself, a new reference; errors as image_load(). */
json_t *image_record(int store_fd, const char *ref, struct err *e);
/*
 * As image_record(), for a tenant of berthd: ref without a tenant is first one of the tenant's own
 * names, then a name that the tenant sees. An image that the tenant does not see is reported as
 * missing.
 */
json_t *image_record_seen(int store_fd, const struct image_view *v, const char *ref, struct err *e);
/* Opens layer tree i: an O_PATH dirfd (ERR_CORRUPT if the store lost the layer). */
int image_layer_open(int store_fd, const struct image *im, size_t i, struct err *e);
/*
 * Keeps the image's layers from garbage collection until the returned fd and
 * all its duplicates are closed.  Take it before image_layer_open().
 * ERR_NOT_FOUND when the image was removed since image_load().
 */
int image_hold(int store_fd, const struct image *im, struct err *e);

#endif
