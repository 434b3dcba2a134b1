/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tarout - a directory tree as a zstd-compressed PAX tar stream.
 *
 * The same tree gives the same tar bytes: names are sorted, nothing of the host
 * but the tree is in it.  The tree is hostile and may change meanwhile: links
 * are not followed, other file systems not entered, and what is no file,
 * directory or link is skipped and counted.  Runs confined (CONFINE_READ).
 */
#ifndef BERTH_ROOTFS_TAROUT_H
#define BERTH_ROOTFS_TAROUT_H

#include <stdint.h>

#include "base/err.h"

struct tarout_stats {
	uint64_t entries;
	uint64_t skipped;	/* FIFOs, sockets, devices, names that would be whiteouts */
	uint64_t not_entered;	/* mount points */
};

int tarout_write(int root_fd, int out_fd, struct tarout_stats *ret, struct err *e);

#endif
