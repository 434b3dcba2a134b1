/* SPDX-License-Identifier: Apache-2.0 */
/* objects - volumes and networks of berth as Docker's documents show them.  Pure. */
#ifndef BERTH_MANAGER_ENGINE_OBJECTS_H
#define BERTH_MANAGER_ENGINE_OBJECTS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "manager/engine/berth.h"
#include "manager/engine/name.h"

/* From a record of berth volume ls. */
json_t *engine_volume(const json_t *record);
/* A label of volumes that nobody named; a prune removes no others unless it says all. */
#define ENGINE_VOLUME_ANONYMOUS "com.docker.volume.anonymous"
/* Turns the filters of a prune into those of a list of what it removes; ERR_INVALID. */
int engine_volumes_prunable(json_t *filters, struct err *e);
/* After engine_accept(): those of a list of such records that filters want: a new array. */
json_t *engine_volumes(const json_t *records, const json_t *filters);
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
/* After engine_accept() (filters.h): whether the document of a network or volume is wanted. */
int engine_object_matches(const json_t *filters, const json_t *doc);

/*
 * networks - Docker's operations on networks, for both of its doors.
 *
 * want is what a client calls a network: its name, its id, or the start of that.  bridge, host and
 * none are always there; networks of tenants are not shown.  Errors have Docker's words.
 */

/* 1: one of the three that are always there; 0: another; -1: ERR_NOT_FOUND.  ret: its name in berth. */
int engine_network_find(const struct engine_berth *b, const char *want, char ret[ENGINE_NAME], struct err *e);
/* One document, a new reference. */
json_t *engine_network_look(const struct engine_berth *b, const char *want, struct err *e);
/* Those that filters want, after engine_accept(): an array, a new reference. */
json_t *engine_network_list(const struct engine_berth *b, const json_t *filters, struct err *e);
#define ENGINE_WARNING_MAX 65536	/* bytes of what a create ignored */
/*
 * Of the body of POST /networks/create: 0 with Docker's id; ERR_EXISTS for a name that is taken.
 * warning gets what was ignored, in lines.
 */
int engine_network_create(const struct engine_berth *b, const json_t *body, char ret_id[ENGINE_ID], struct buf *warning, struct err *e);
/* ERR_DENIED for one that is always there, or has members. */
int engine_network_remove(const struct engine_berth *b, const char *want, struct err *e);
/* {"NetworksDeleted": [NAME]}, a new reference: those that filters want and nobody is on. */
json_t *engine_network_prune(const struct engine_berth *b, const json_t *filters, struct err *e);

/* A container that goes on a network, or off it. */
struct engine_move {
	const char *network;	/* as the client calls it */
	const char *container;	/* the same */
	const char *id;		/* of the sandbox */
	const char *alias;	/* its name for others, where that is not berth's own; or "" */
	const json_t *endpoint;	/* EndpointConfig of POST /networks/{id}/connect, or NULL */
	int stopped;		/* it does not run: to be on the network already is no error then */
};

/*
 * Whether the network lets containers come with this EndpointConfig (or go), before the container is looked for: 0, or -1.
 * ret: its name in berth, for engine_network_move().
 */
int engine_network_open(const struct engine_berth *b, const char *want, int connects, const json_t *endpoint,
			char ret[ENGINE_NAME], struct err *e);
int engine_network_move(const struct engine_berth *b, const char *name, int connects, const struct engine_move *m,
			struct err *e);

/*
 * volumes - Docker's operations on volumes, for both of its doors.
 *
 * called is the client's name of a volume; documents are those of the Engine API.
 * Errors have Docker's words: ERR_NOT_FOUND, ERR_BUSY for one in use, ERR_INVALID.
 */

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
/* Removes what builds keep: {"CachesDeleted": [], "SpaceReclaimed": BYTES}, a new reference. */
json_t *engine_build_prune(const struct engine_berth *b, struct err *e);
/* {"VolumesDeleted": [NAME], "SpaceReclaimed": BYTES}, a new reference. */
json_t *engine_volume_prune(const struct engine_berth *b, json_t *filters, struct err *e);

/* calllabels - what the calls that make a network or a volume share: the client's labels, and its name. */

/* Each of an object of strings as a label.  ERR_INVALID. */
int engine_call_labels(json_t *call, const json_t *labels, struct err *e);
/* The label that keeps the client's name of an object, where berth's is another. */
void engine_call_named(json_t *call, const char *called, const char *name);

#endif
