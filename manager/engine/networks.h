/* SPDX-License-Identifier: Apache-2.0 */
/*
 * networks - Docker's operations on networks, for both of its doors.
 *
 * want is what a client calls a network: its name, its id, or the start of that.  bridge, host and
 * none are always there; networks of tenants are not shown.  Errors have Docker's words.
 */
#ifndef BERTH_MANAGER_ENGINE_NETWORKS_H
#define BERTH_MANAGER_ENGINE_NETWORKS_H

#include "manager/engine/berth.h"
#include "manager/engine/id.h"
#include "manager/engine/name.h"

/* 1: one of the three that are always there; 0: another; -1: ERR_NOT_FOUND.  ret: its name in berth. */
int engine_network_find(const struct engine_berth *b, const char *want, char ret[ENGINE_NAME], struct err *e);
/* One document, a new reference. */
json_t *engine_network_look(const struct engine_berth *b, const char *want, struct err *e);
/* Those that filters want, after engine_accept(): an array, a new reference. */
json_t *engine_network_list(const struct engine_berth *b, const json_t *filters, struct err *e);
/* Of the body of POST /networks/create: 0 with Docker's id; ERR_EXISTS for a name that is taken. */
int engine_network_create(const struct engine_berth *b, const json_t *body, char ret_id[ENGINE_ID], struct err *e);
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
};

/*
 * Whether the network lets containers come with this EndpointConfig (or go), before the container is looked for: 0, or -1.
 * ret: its name in berth, for engine_network_move().
 */
int engine_network_open(const struct engine_berth *b, const char *want, int connects, const json_t *endpoint,
			char ret[ENGINE_NAME], struct err *e);
int engine_network_move(const struct engine_berth *b, const char *name, int connects, const struct engine_move *m,
			struct err *e);

#endif
