/* SPDX-License-Identifier: Apache-2.0 */
/* outcome - what an attempt of an exchange that did not succeed means. */
#ifndef BERTH_ROOTFS_HTTP_OUTCOME_H
#define BERTH_ROOTFS_HTTP_OUTCOME_H

#include "rootfs/http/http.h"

/* Says in e why the attempt failed: rc of libcurl, or with CURLE_OK the status of the answer. */
void outcome_error(const struct exchange *x, CURLcode rc, struct err *e);
/* Whether the same request may succeed a moment later. */
int outcome_is_passing(const struct exchange *x, CURLcode rc);

#endif
