/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change - one instruction of a Dockerfile, applied to the config of an image.
 *
 * The instructions are those that "docker commit --change" takes: they say how an image runs, and
 * make no files.  Pure.
 */
#ifndef BERTH_ROOTFS_STORE_CHANGE_H
#define BERTH_ROOTFS_STORE_CHANGE_H

#include "base/err.h"
#include "base/json.h"

#define CHANGE_MAX 65536	/* bytes of one instruction */

/*
 * Changes run, the "config" of an image's document.  ERR_INVALID in Docker's words, with run as it
 * was or partly changed.
 */
int change_apply(json_t *run, const char *instruction, struct err *e);

#endif
