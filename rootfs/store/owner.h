/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner - which tenant owns an image, and who sees it.
 *
 * A record with an "owner" belongs to that tenant of berthd alone. An image that the tenant made
 * has a name of its own kind (ref.h); an image that the operator made from a sandbox of the
 * tenant may have any name. A record without an owner is shared with tenants by the operator's
 * patterns. Pure.
 */
#ifndef BERTH_ROOTFS_STORE_OWNER_H
#define BERTH_ROOTFS_STORE_OWNER_H

#include "base/err.h"
#include "base/json.h"
#include "rootfs/store/ref.h"

struct image_view {		/* all borrowed */
	const char *tenant;
	const char *shared;	/* patterns of names for images without an owner, separated by newlines */
	const char *preset;	/* a name that every tenant sees */
};

/* Returns the owner of a record, or NULL if it has none. */
const char *image_owner(const json_t *record);
/* Tells whether the tenant sees the image; v NULL: the operator, who sees all images. */
int image_view_sees(const struct image_view *v, const json_t *record);
/* Tells whether the image is the tenant's own; never true for the operator. */
int image_view_owns(const struct image_view *v, const json_t *record);
/* Tells whether name matches one of the patterns, which are separated by newlines. */
int image_name_is_like(const char *patterns, const char *name);
/* Cuts @TENANT off a name: gives NAME[:TAG]. */
void image_plain_name(const char *name, char ret[REF_NAME_MAX + 1]);

#endif
