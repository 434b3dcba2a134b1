/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import - makes images of the store from local sources.
 *
 * Sources: an OCI image layout, docker-save content or a plain root file
 * system, each as a directory, as an archive (tar, tar.gz, tar.zst), or as an
 * archive on stdin.  Needs root.  The caller has SIGPIPE ignored and is single
 * threaded (children are forked without exec).
 */
#ifndef BERTH_ROOTFS_TRANSFER_IMPORT_H
#define BERTH_ROOTFS_TRANSFER_IMPORT_H

#include "base/err.h"
#include "base/json.h"
#include "rootfs/transfer/importopts.h"

/*
 * Returns a new array of objects, one per name made:
 * {"name","digest","platform","layers","size","entries","bytes","skipped":{...}}.
 * ERR_CORRUPT when the source lies or is damaged; the store is unchanged then.
 */
json_t *import_run(int store_fd, const struct import_options *opts, struct err *e);

#endif
