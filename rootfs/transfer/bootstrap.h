/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap - makes an image of Debian packages by mmdebstrap(1).
 *
 * mmdebstrap runs with the host's root in a mount namespace of its own: the packages, signed by the
 * distribution, are trusted as those of the host are. Its result comes back as a tar and is
 * imported like a stranger's. The same packages give the same image: times are cut off at
 * SOURCE_DATE_EPOCH (default: the beginning of today, UTC), and it has nothing of the host.
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
	const char *packages;	/* separated by commas; "" or NULL: only the variant's */
	const char *suite;	/* NULL: BOOTSTRAP_SUITE */
	const char *mirror;	/* NULL: Debian's, with updates and security */
	const char *variant;	/* NULL: BOOTSTRAP_VARIANT */
	enum compression compression;	/* gzip or zstd */
	int quiet;		/* do not show its progress, only its last error */
	struct import_options shown;	/* progress, note, ctx */
};

/* Makes the image; returns as import_run(). ERR_NOT_FOUND with a hint if mmdebstrap is not installed. */
json_t *bootstrap_run(int store_fd, const struct bootstrap_options *o, struct err *e);

#endif
