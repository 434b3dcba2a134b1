/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volumes - Docker's operations on volumes, for both of its doors.
 *
 * called is the client's name of a volume; documents are those of the Engine API (objects.h).
 * Errors have Docker's words: ERR_NOT_FOUND, ERR_BUSY for one in use, ERR_INVALID.
 */
#ifndef BERTH_MANAGER_ENGINE_VOLUMES_H
#define BERTH_MANAGER_ENGINE_VOLUMES_H

#include "manager/engine/berth.h"

/* Those that filters want, after engine_accept(): an array, a new reference. */
json_t *engine_volume_list(const struct engine_berth *b, const json_t *filters, struct err *e);
/* One document, a new reference. */
json_t *engine_volume_find(const struct engine_berth *b, const char *called, struct err *e);
/*
 * Of the body of POST /volumes/create: the document, a new reference.  One that exists is what was
 * asked for, as with dockerd; without a name it is an anonymous one.
 */
json_t *engine_volume_create(const struct engine_berth *b, const json_t *body, struct err *e);
/*
 * Makes the volumes of a container: {"berth's name": "the client's"}, or where nobody named them,
 * {"/PATH": NAME}.  One that exists is what was asked for.
 */
int engine_volumes_make(const struct engine_berth *b, const json_t *volumes, int unnamed, struct err *e);
/* One that is not there is no failure with force. */
int engine_volume_remove(const struct engine_berth *b, const char *called, int force, struct err *e);
/* Each of berth's names, an array or the values of an object, but those in use. */
void engine_volumes_drop(const struct engine_berth *b, const json_t *names);
/* {"VolumesDeleted": [NAME], "SpaceReclaimed": BYTES}, a new reference. */
json_t *engine_volume_prune(const struct engine_berth *b, json_t *filters, struct err *e);

#endif
