/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules - what Docker grants for the asking, and berth only where [docker] allow says so.
 *
 * Pure but for the kind of a bind's source, which the caller finds out.
 */
#ifndef BERTH_MANAGER_ENGINE_RULES_H
#define BERTH_MANAGER_ENGINE_RULES_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

enum engine_allow {
	ENGINE_PRIVILEGED = 1,	 /* --privileged: every capability of its own user namespace */
	ENGINE_HOST_NETWORK = 2, /* --network host */
	ENGINE_UNCONFINED = 4,	 /* --security-opt seccomp=unconfined */
	ENGINE_SYSTEM_BINDS = 8, /* binds of any place, such as / and /etc */
	ENGINE_DEVICES = 32,	 /* --device, --gpus */
	ENGINE_DROP_SOCKET = 16, /* a bind of Docker's socket is left out, not refused */
};

enum engine_kind { ENGINE_MISSING, ENGINE_FILE, ENGINE_SOCKET };

struct engine_rules {
	unsigned allow;
	const char *binds; /* directories that may be bound besides the usual ones, a line each; NULL: none */
	/* directories of berth's own, which are never bound */
	const char *state_dir, *run_dir, *ids_dir;
	/* of a bind's source: the path without links, in room of PATH_MAX; *ret_kind of enum
	 * engine_kind.  NULL: nobody looks */
	const char *(*look)(const char *path, char *room, int *ret_kind);
	/* a port of the host that nothing listens on, or -1; NULL: none is chosen */
	int (*free_port)(int udp);
	/* the network of this id, or the start of it, 12 digits at least: 1 and its name in berth,
	 * of 65 bytes; 0 without one; NULL: nobody looks */
	int (*network)(const void *ctx, const char *id, char *ret);
	/* the config of an image of the store as a new object, or NULL; *ret_room: how many more
	 * volumes the host takes, if it asks for some.  NULL: nobody looks */
	json_t *(*config)(const void *ctx, const char *image, uint64_t *ret_room);
	const void *ctx; /* of network and config */
};

/* One word of [docker] allow, which config.c has checked: its bit, or 0. */
unsigned engine_allow_bit(const char *word);
/*
 * ERR_DENIED, with the key that allows it, when a container may not have this part of the host;
 * else source without its links in path, of PATH_MAX bytes.
 */
int engine_rules_bind(const struct engine_rules *r, const char *source, char *path, int *ret_kind,
		      struct err *e);
/* Whether a bind of this source is left out: of Docker's own socket, where that is allowed. */
int engine_rules_drop(const struct engine_rules *r, const char *source);
/* -1: it is not allowed; the error names the rule. */
int engine_rules_need(const struct engine_rules *r, unsigned bit, const char *what, struct err *e);

#endif
