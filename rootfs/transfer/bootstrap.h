/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap - an image of Debian packages, made by mmdebstrap(1).
 *
 * mmdebstrap runs with the host's root in a mount namespace of its own: the
 * packages, signed by the distribution, are trusted as those of the host are.
 * What it makes comes back as a tar and is imported as a stranger's would be.
 * The same packages give the same image: times are cut off at SOURCE_DATE_EPOCH
 * (default: the beginning of today, UTC), nothing of the host is in it.
 */
#ifndef BERTH_ROOTFS_TRANSFER_BOOTSTRAP_H
#define BERTH_ROOTFS_TRANSFER_BOOTSTRAP_H

#include "base/err.h"
#include "base/json.h"
#include "rootfs/layer/compression.h"
#include "rootfs/transfer/import.h"

#define BOOTSTRAP_SUITE "bookworm"
#define BOOTSTRAP_VARIANT "minbase"

struct bootstrap_options {
	const char *name;
	const char *packages;	/* separated by commas; "" or NULL: none but the variant's */
	const char *suite;	/* NULL: BOOTSTRAP_SUITE */
	const char *mirror;	/* NULL: Debian's, with updates and security */
	const char *variant;	/* NULL: BOOTSTRAP_VARIANT */
	enum compression compression;	/* gzip or zstd */
	int quiet;		/* its progress is not shown; its last error is */
	struct import_options shown;	/* progress, note, ctx */
};

/* As import_run().  ERR_NOT_FOUND with the remedy when mmdebstrap is not installed. */
json_t *bootstrap_run(int store_fd, const struct bootstrap_options *o, struct err *e);

#endif
