/* SPDX-License-Identifier: Apache-2.0 */
/* sizes - what containers take on disk, for docker ps --size and docker inspect --size. */
#ifndef BERTH_MANAGER_ENGINE_SIZES_H
#define BERTH_MANAGER_ENGINE_SIZES_H

#include "base/err.h"
#include "base/json.h"
#include "manager/engine/id.h"
#include "manager/host/config.h"
#include "manager/host/registry.h"

/*
 * Adds SizeRw, the disk space of the writable layer, and SizeRootFs, that and the image's, to each
 * document of the array (engine_summary(), engine_inspect()).
 */
int engine_sizes(const struct config *c, struct registry *r, json_t *docs, struct err *e);

#endif
