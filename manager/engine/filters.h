/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filters - which filters each list and each prune of Docker's takes, and with which values.
 *
 * Pure.  A value that cannot match is an error and not an empty list, in the words of dockerd
 * (daemon/list.go, daemon/prune.go, daemon/network/filter.go, volume/service of moby).
 */
#ifndef BERTH_MANAGER_ENGINE_FILTERS_H
#define BERTH_MANAGER_ENGINE_FILTERS_H

#include "base/err.h"
#include "base/json.h"

enum engine_filtered {
	ENGINE_CONTAINERS,
	ENGINE_IMAGES,
	ENGINE_NETWORKS,
	ENGINE_VOLUMES,
	ENGINE_PRUNE_CONTAINERS, /* and networks */
	ENGINE_PRUNE_IMAGES,
	ENGINE_PRUNE_VOLUMES,
	ENGINE_FILTERED
};

/* filters: of engine_filters().  ERR_INVALID, which Docker's clients get as the status 400. */
int engine_accept(enum engine_filtered what, const json_t *filters, struct err *e);
/* After engine_accept(): the value of a filter that is true or false; otherwise: without it. */
int engine_accepted_bool(const json_t *filters, const char *key, int otherwise);

#endif
