/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view - a sandbox as Docker's documents show a container.
 *
 * Pure: the caller has read what berth knows of it.  A sandbox that berth itself made is shown,
 * too, with what its record says.
 */
#ifndef BERTH_MANAGER_ENGINE_VIEW_H
#define BERTH_MANAGER_ENGINE_VIEW_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "manager/engine/name.h"
#include "manager/host/registry.h"

#define ENGINE_FILE_NAME                                                                           \
	REGISTRY_ASKED /* in a sandbox's directory: {"version":1,"body":{...},"ports":{...}} */
#define ENGINE_FILE_CALLED "name" /* in it: Docker's name since a rename */
#define ENGINE_FILE_VOLUMES "volumes" /* in it: {"/PATH": the volume that was made for it} */
#define ENGINE_FILE_SHARED "shared" /* in it: mounts of VolumesFrom, as inspect shows them */
#define ENGINE_FILE_LINKS "links" /* in it: [{"id","alias"}], the containers that it links to */
#define ENGINE_FILE_LINKED "linked" /* in it: the same of those that link to it */
#define ENGINE_NEVER "0001-01-01T00:00:00Z"

/* Borrowed; NULL without one. */
struct engine_view {
	const char *id;	       /* the sandbox's */
	const json_t *record;  /* record.json */
	const json_t *live;    /* that of the run directory, with the pids */
	const json_t *ping;    /* the keeper's answer */
	const json_t *asked;   /* ENGINE_FILE_NAME */
	const json_t *image;   /* the record of its image */
	const json_t *spec;    /* spec.json: its options as they are now; NULL in a list */
	const json_t *network; /* the keeper's answer to "network" */
	const json_t *links;   /* engine_links_shown(), in place of the links that were asked for; NULL in a list */
	const json_t *names;   /* engine_links_names(), behind its own; in a list only */
	int runs, restarting;
};

enum engine_state {
	ENGINE_CREATED,
	ENGINE_RUNNING,
	ENGINE_PAUSED,
	ENGINE_RESTARTING,
	ENGINE_EXITED
};

enum engine_state engine_state(const struct engine_view *v);
const char *engine_state_name(enum engine_state s);
/* Without a slash in front. */
const char *engine_name(const struct engine_view *v);
/* Of the last main command; 0 while it runs. */
int engine_exit_code(const struct engine_view *v);
/* When it was started, as its record has it; "": never.  berth run starts it when it makes it. */
const char *engine_started(const struct engine_view *v);
/*
 * A zygote, which load.h labels as one of its own, or a fork of one that runs a piece of code: no
 * client made it as a container, and docker rm $(docker ps -q) is not meant for it.  A sandbox made
 * with berth create --zygote is a container.
 */
int engine_is_internal(const json_t *record, int runs);
/* Seconds since the epoch of a time as records have it; 0 for none. */
int64_t engine_time(const char *text);
/* And in nanoseconds, with the fraction that it has. */
int64_t engine_time_ns(const char *text);
/* "Up 3 seconds (healthy)" */
void engine_status(const struct engine_view *v, int64_t now, char *ret, size_t n);
/* A duration in the words of Docker's client. */
void engine_duration(int64_t seconds, char *ret, size_t n);
/* "starting", "healthy", "unhealthy" or NULL. */
const char *engine_health(const struct engine_view *v);
/* Members of the create body, or of the image, or NULL; borrowed. */
const json_t *engine_asked(const struct engine_view *v, const char *key);
const json_t *engine_asked_host(const struct engine_view *v, const char *key);
const char *engine_image_name(const struct engine_view *v);
/* "bridge", "none", or the network's own name. */
const char *engine_network_mode(const struct engine_view *v);
/* What a client calls the network that berth knows as name: as it said at the creation. */
const char *engine_network_called(const struct engine_view *v, const char *name);
/* The same as HostConfig shows it: "container:ID" of one that joined another's. */
json_t *engine_network_mode_json(const struct engine_view *v);
/* A copy of the labels of a record, but for ours; for a record without any, {}. */
json_t *engine_labels(const json_t *record);
/* The name that a record's label or, unless NULL, word has for it; else the record's own. */
const char *engine_called(const json_t *record, const char *word);
/* Whether it was made with the log driver none. */
int engine_hides_log(const struct engine_view *v);
#define ENGINE_NO_LOG "configured logging driver does not support reading"
/* The hardware address of the interface with this address; "" without one. */
json_t *engine_mac(const char *address);
/* The id of a container's (berth's id) place on a network. */
void engine_endpoint_id(const char *id, const char *network, char ret[ENGINE_ID]);
int engine_is_tty(const struct engine_view *v);

/* New references: an item of GET /containers/json, GET /containers/{id}/json, their parts. */
json_t *engine_summary(const struct engine_view *v, int64_t now);
json_t *engine_inspect(const struct engine_view *v);
json_t *engine_config(const struct engine_view *v);
json_t *engine_host_config(const struct engine_view *v);
json_t *engine_ports(const struct engine_view *v); /* of NetworkSettings */
json_t *engine_networks(const struct engine_view *v);
json_t *engine_mounts(const struct engine_view *v);

/* ---- filters (filters.c) ---- */

/*
 * From a query: {"label":["a=b"]} or {"label":{"a=b":true}}; NULL text means none. A new object
 * of arrays, or NULL with e.
 */
json_t *engine_filters(const char *text, struct err *e);
/*
 * After engine_accept() (filters.h): 1 when the container is wanted; -1 with ERR_INVALID for a port
 * that is none.  The values of before and since are times, as records have them.
 */
int engine_filters_match(const json_t *filters, const struct engine_view *v, struct err *e);
int engine_filters_has(const json_t *filters, const char *key);
/*
 * Whether one of the values (all: each) of key, "K" or "K=V", is among labels; 1 without such a
 * key.
 */
int engine_filters_labels(const json_t *filters, const char *key, const json_t *labels);

/*
 * After engine_accept(): whether a list or a prune with these filters wants an object by its label,
 * label! and until; created is a time as records have it.
 */
int engine_filters_prune(const json_t *filters, const json_t *labels, const char *created);
/* Whether the pattern, a regular expression, is found in the name. */
int engine_filters_named(const char *name, const char *pattern);

/* Bytes of one frame's head (attach, logs, exec without a terminal): 1 is stdout, 2 stderr. */
void engine_frame(unsigned char head[8], int stream, uint32_t n);

#endif
