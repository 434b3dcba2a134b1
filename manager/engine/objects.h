/* SPDX-License-Identifier: Apache-2.0 */
/* objects - volumes and networks of berth as Docker's documents show them.  Pure. */
#ifndef BERTH_MANAGER_ENGINE_OBJECTS_H
#define BERTH_MANAGER_ENGINE_OBJECTS_H

#include "base/err.h"
#include "base/json.h"
#include "manager/engine/id.h"

/* From a record of berth volume ls. */
json_t *engine_volume(const json_t *record);
/* A label of volumes that nobody named; a prune removes no others unless it says all. */
#define ENGINE_VOLUME_ANONYMOUS "com.docker.volume.anonymous"
/* Turns the filters of a prune into those of a list of what it removes; ERR_INVALID. */
int engine_volumes_prunable(json_t *filters, struct err *e);
/* After engine_accept(): those of a list of such records that filters want: a new array. */
json_t *engine_volumes(const json_t *records, const json_t *filters);
/* Docker's id of a network, which has none here. */
void engine_network_id(const char *name, char ret[ENGINE_ID]);
/* What the document of a volume says that it takes on disk. */
json_int_t engine_volume_bytes(const json_t *doc);
/* From a record of berth network inspect. */
json_t *engine_network(const json_t *record);
/*
 * Whether a container may join ("connect") or leave the network that always exists: 0, or -1 with
 * Docker's words.
 */
int engine_network_moves(const char *verb, const char *network, struct err *e);
/* Docker's words for a refusal of berth network connect or disconnect, in place. */
void engine_network_said(const char *verb, const char *container, const char *network,
			 struct err *e);
/* The same for a network that a new container cannot join, as it is not there. */
void engine_network_missing(struct err *e);
/* A network that always exists: bridge, host, none. */
json_t *engine_network_builtin(const char *name);
/* After engine_accept() (accept.h): whether the document of a network or volume is wanted. */
int engine_object_matches(const json_t *filters, const json_t *doc);

#endif
