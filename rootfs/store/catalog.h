/* SPDX-License-Identifier: Apache-2.0 */
/*
 * catalog - lists and inspects the images of a store, and removes them.
 */
#ifndef BERTH_ROOTFS_STORE_CATALOG_H
#define BERTH_ROOTFS_STORE_CATALOG_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/*
 * Calls fn with each record and its file name, sorted by name. For a record that cannot be read, fn
 * gets NULL, and the reason in bad.
 */
int catalog_each(int store_fd,
		 int (*fn)(void *ctx, const char *filename, const json_t *record, const struct err *bad,
			   struct err *e),
		 void *ctx, struct err *e);
/*
 * Returns a new array of {"name","digest","platform","created","imported","size","layers"}; with
 * sizes also "disk_bytes" (unpacked layers, shared ones in full) and "shared_bytes".
 */
json_t *catalog_list(int store_fd, int with_sizes, struct err *e);
/* Returns the record, with the image's whole config as "image_config". */
json_t *catalog_inspect(int store_fd, const char *ref, struct err *e);
/*
 * Removes the name; with a digest, all names of the image.  ERR_BUSY when it is
 * the last name of an image a sandbox uses, unless force.  Files stay until
 * collect_garbage().  Names removed are appended to removed (array of strings).
 */
int catalog_remove(int store_fd, const char *ref, int force, json_t *removed, struct err *e);
/* Gives the image ref a further name, taking it from an image that had it. */
int catalog_tag(int store_fd, const char *ref, const char *name, struct err *e);
/*
 * Returns a new array of the names of images that belong to no tenant, have no pin, were not used
 * to make any existing sandbox, and were imported before `before` (seconds).
 */
json_t *catalog_unused(int store_fd, int64_t before, struct err *e);
/*
 * Sums the bytes on disk of a tree below dir_fd; a file with several names counts once.
 * *ret_devices (may be NULL) gets the count of device nodes other than whiteouts.
 */
int catalog_disk_bytes(int dir_fd, const char *name, uint64_t *ret_bytes, uint64_t *ret_devices, struct err *e);

#endif
