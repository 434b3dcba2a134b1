/* SPDX-License-Identifier: Apache-2.0 */
/*
 * portable - the file of a checkpoint: a tar (ustar) of exactly two files, in this order:
 *   checkpoint.json   {"berth-checkpoint": 1, "checkpoint": {...}, "image", "image_digest", "spec",
 *                     "layer": {"digest", "size"}}
 *   layer.tar.zst     the files of the layer, with OCI whiteouts (rootfs/transfer/layerfile.h)
 * "spec" is the sandbox's spec.json: its options, limits among them.  The file may come from a
 * stranger: nothing else is read from it, and all of it has bounds.
 */
#ifndef BERTH_CLI_IMAGE_PORTABLE_H
#define BERTH_CLI_IMAGE_PORTABLE_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

#define PORTABLE_FORMAT 1

/* Writes all of it to out_fd; the layer is that of layer_fd, from its beginning. */
int portable_write(int out_fd, const json_t *manifest, int layer_fd, uint64_t layer_size,
		   struct err *e);
/*
 * Reads up to the layer's first byte.  A new reference; ERR_CORRUPT, or ERR_UNSUPPORTED for the
 * file of a newer berth.
 */
json_t *portable_read(int in_fd, struct err *e);
/* Reads the rest: ERR_CORRUPT when more follows the layer than the end of the archive. */
int portable_read_end(int in_fd, uint64_t layer_size, struct err *e);

/* ---- what it may ask for ---- */

/*
 * portablespec - what the file of a checkpoint (portable.h) may ask for.
 *
 * The file may come from a stranger, so its options are not those of the one who imports it.  Pure.
 */

struct portablespec_rules {
	int trust;	    /* take options that reach the host, too */
	int drop;	    /* leave out what is not taken, instead of an error */
	const char *tenant; /* who imports it: only what a tenant may ask for; or NULL */
};

/*
 * The spec.json for a sandbox of this host, of that of the file: a new reference.  Options that
 * reach the host (mounts, devices, networks, more rights), that are not a tenant's to give, or
 * that take a value from the caller are ERR_DENIED, or left out: then their names are added to the
 * array dropped.
 */
json_t *portablespec_take(const json_t *manifest, const struct portablespec_rules *how,
			  json_t *dropped, struct err *e);

/*
 * Upholds S49 of SECURITY.md: the spec.json for the file of a tenant's checkpoint, without what a
 * tenant may not give: a new reference, or NULL with ERR_NOMEM.
 */
json_t *portablespec_for_tenant(const json_t *spec, struct err *e);

#endif
