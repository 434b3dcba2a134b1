/* SPDX-License-Identifier: Apache-2.0 */
/* system - the engine itself and its host, as GET /version and GET /info say them. */
#ifndef BERTH_MANAGER_ENGINE_SYSTEM_H
#define BERTH_MANAGER_ENGINE_SYSTEM_H

#include "base/err.h"
#include "base/json.h"
#include "manager/engine/name.h"
#include "manager/host/config.h"
#include "manager/host/registry.h"

#define ENGINE_API "1.44"
#define ENGINE_API_MIN "1.24"
#define ENGINE_SAID_VERSION "25.0.0" /* of the Docker whose API this is: clients compare it */

/* New references. */
json_t *engine_version(void);
json_t *engine_info(struct registry *r, struct err *e);

/* usage - what images, containers and volumes take on disk, as GET /system/df says it. */

/*
 * A new document: LayersSize, and Images, Containers and Volumes as their lists have them, with
 * sizes: of an image those of its unpacked layers (Size), of those that other images have, too
 * (SharedSize), and how many containers were made from it (Containers); of a container that of its
 * writable layer (SizeRw).  volumes: of engine_volumes(), a reference that is taken.
 */
json_t *engine_usage(struct registry *r, int store_fd, json_t *volumes, struct err *e);

/* sizes - what containers take on disk, for docker ps --size and docker inspect --size. */

/*
 * Adds SizeRw, the disk space of the writable layer, and SizeRootFs, that and the image's, to each
 * document of the array (engine_summary(), engine_inspect()).
 */
int engine_sizes(const struct config *c, struct registry *r, json_t *docs, struct err *e);

#endif
