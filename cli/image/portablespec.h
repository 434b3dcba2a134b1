/* SPDX-License-Identifier: Apache-2.0 */
/*
 * portablespec - what the file of a checkpoint (portable.h) may ask for.
 *
 * The file may come from a stranger, so its options are not those of the one who imports it.  Pure.
 */
#ifndef BERTH_CLI_IMAGE_PORTABLESPEC_H
#define BERTH_CLI_IMAGE_PORTABLESPEC_H

#include "base/err.h"
#include "base/json.h"

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
