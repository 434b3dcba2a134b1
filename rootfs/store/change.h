/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change - applies one instruction of a Dockerfile to the config of an image.
 *
 * The instructions are those of "docker commit --change": they say how an image runs, and make no
 * files. Pure.
 */
#ifndef BERTH_ROOTFS_STORE_CHANGE_H
#define BERTH_ROOTFS_STORE_CHANGE_H

#include "base/err.h"
#include "base/json.h"

#define CHANGE_MAX 65536	/* bytes of one instruction */

/*
 * Applies instruction to run, the "config" of an image's document. ERR_INVALID in Docker's words;
 * run may then be partly changed.
 */
int change_apply(json_t *run, const char *instruction, struct err *e);

/*
 * Applies the strings of list, one after the other, as one request: ENTRYPOINT drops the command of
 * before, but not one that a CMD of the same list gave. Errors as change_apply().
 */
int change_apply_all(json_t *run, const json_t *list, struct err *e);

#endif
