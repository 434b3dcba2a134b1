/* SPDX-License-Identifier: Apache-2.0 */
/* codefiles - the files that code made, from two lists of a directory. */
#ifndef BERTH_CLI_LIVE_CODEFILES_H
#define BERTH_CLI_LIVE_CODEFILES_H

#include "base/buf.h"
#include "base/json.h"

/*
 * Two outputs of the file helper's "snap": an array of {"path", "change": "added", "changed" or
 * "deleted", "size"}; NULL for a malformed one.
 */
json_t *codefiles_compare(const struct buf *before, const struct buf *after, struct err *e);

#endif
