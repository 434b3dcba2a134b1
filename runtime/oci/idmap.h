/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_idmap - sets id mappings of the container's user namespace and of mounts (config-linux.md,
 * "User namespace mappings"; config.md, "uidMappings").
 */
#ifndef BERTH_RUNTIME_OCI_IDMAP_H
#define BERTH_RUNTIME_OCI_IDMAP_H

#include <jansson.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Writes the maps of the user namespace in which pid was just born. Without privilege one id of our
 * own is written directly, more by newuidmap(1) and newgidmap(1).
 */
int oci_idmap_write(pid_t pid, const json_t *uids, const json_t *gids, struct err *e);
/*
 * Makes a user namespace with the mappings of a mount, or those of the container if it has none,
 * and returns its descriptor. spec: crun's text for them ("uids=FS-HOST-COUNT#...;gids=...", '@'
 * before one: HOST is the container's id), or NULL.
 */
int oci_idmap_for_mount(const json_t *mount, const char *spec, const json_t *linux_part, struct err *e);

#endif
