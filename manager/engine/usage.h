/* SPDX-License-Identifier: Apache-2.0 */
/* usage - what images, containers and volumes take on disk, as GET /system/df says it. */
#ifndef BERTH_MANAGER_ENGINE_USAGE_H
#define BERTH_MANAGER_ENGINE_USAGE_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"

/*
 * A new document: LayersSize, and Images, Containers and Volumes as their lists have them, with
 * sizes: of an image those of its unpacked layers (Size), of those that other images have, too
 * (SharedSize), and how many containers were made from it (Containers); of a container that of its
 * writable layer (SizeRw).  volumes: of engine_volumes(), a reference that is taken.
 */
json_t *engine_usage(struct registry *r, int store_fd, json_t *volumes, struct err *e);

#endif
