/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_name - the names of volumes, and which options of a sandbox name one.
 *
 * A name has the form of a sandbox's.  A tenant's volumes have names of their own: on disk such a
 * one is NAME@TENANT, which is the key by which volume.h knows it; that of the command line is
 * NAME.  Pure.
 */
#ifndef BERTH_MANAGER_HOST_VOLUME_NAME_H
#define BERTH_MANAGER_HOST_VOLUME_NAME_H

#include "base/err.h"

#define VOLUME_NAME_MAX 64
#define VOLUME_KEY_MAX (2 * VOLUME_NAME_MAX + 2)

/*
 * The key of tenant's volume name; tenant "": a volume without an owner. ERR_INVALID if name is
 * malformed.
 */
int volume_key(const char *name, const char *tenant, char ret[VOLUME_KEY_MAX], struct err *e);
/* Whether text has the form of a key. */
int volume_is_key(const char *text);
/*
 * Whether an option of a sandbox, such as "volume" with the value "data:/x" or "mount" with
 * "type=volume,src=data,dst=/x", uses a named volume; then the name, which was not checked.
 */
int volume_of_option(const char *option, const char *value, char ret[VOLUME_NAME_MAX + 1]);

#endif
