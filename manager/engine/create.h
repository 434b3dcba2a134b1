/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create - the body of POST /containers/create as the words of berth create.
 *
 * What Docker would do and berth does in another way becomes a warning, which the client shows;
 * what cannot be had is an error, never something weaker.  Members that nothing here reads are
 * named, for the log.  Pure, but for what engine_rules asks of the host.
 */
#ifndef BERTH_MANAGER_ENGINE_CREATE_H
#define BERTH_MANAGER_ENGINE_CREATE_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/engine/name.h"

struct engine_create {
	const struct engine_rules *rules;
	json_t *words;	     /* array: "--env=A=B", ..., "--", IMAGE, ARGUMENT... */
	json_t *warnings;    /* array of texts */
	json_t *unknown;     /* array of names that were ignored */
	json_t *directories; /* array: sources of binds that must be made */
	json_t *ports;	     /* "80/tcp": [{HostIp, HostPort}], with those that were chosen */
	json_t *volumes;     /* object: Docker's names of those that berth knows by others */
	json_t *anonymous;   /* object: "/PATH": the name of a volume that is made for it alone */
	json_t *targets;     /* object: the paths where something is mounted */
	json_t *others;      /* object: the mounts of each container in VolumesFrom, as inspect shows them; borrowed, or NULL */
	json_t *shared;      /* array: of these, those that it got */
	const json_t *links; /* of its body, engine_links_read(); borrowed, or NULL */
	json_t *linked;      /* array: of these, {"id","alias"} of those that it got */
	/* array: the calls (manager/ops/call.h) that put it on each network but its first, without its id */
	json_t *joins;
	const char *called;  /* the client's name for it, or "" */
	char name[ENGINE_NAME]; /* berth's */
};

/* New arrays; release accepts zero. */
int engine_create_init(struct engine_create *c, const struct engine_rules *rules, struct err *e);
void engine_create_release(struct engine_create *c);
/*
 * The name that the container shall have, "/NAME" or "" for none; before engine_create_read().
 * Borrowed.  ERR_INVALID in Docker's words.
 */
int engine_create_name(struct engine_create *c, const char *name, struct err *e);
/* Before anything reads the body: engine_fold() of all of it. */
int engine_create_fold(json_t *body, struct err *e);
/* ERR_INVALID for a body that is wrong, ERR_DENIED for what the rules refuse, ERR_UNSUPPORTED. */
int engine_create_read(struct engine_create *c, const json_t *body, struct err *e);
/* Of a name for a container: ERR_INVALID in Docker's words. */
int engine_check_name(const char *name, struct err *e);

/* ---- its parts ---- */

int engine_create_host(struct engine_create *c, const json_t *host, struct err *e);

#define ENGINE_SHARES_MAX 262144	/* 2 is the least */
#define ENGINE_CPU_PERIOD 100000	/* microseconds, where a client names none */
/* The cpu.weight of shares of cgroup v1, as runc counts it. */
long long engine_cpu_weight(long long shares);
/* Thousandths of a CPU; period 0: the one that is there if none is named. */
long long engine_cpu_milli(long long quota, long long period);
int engine_host_fold(json_t *host, struct err *e);
int engine_create_mounts(struct engine_create *c, const json_t *body, const json_t *host,
			 struct err *e);
int engine_create_anonymous(struct engine_create *c, const char *target, int read_only,
			    struct err *e);
/* Volumes without a name: those of the body, and those of the image where nothing else is. */
int engine_create_volumes(struct engine_create *c, const json_t *body, struct err *e);
int engine_create_network(struct engine_create *c, const json_t *body, const json_t *host,
			  struct err *e);
int engine_create_restart(struct engine_create *c, const json_t *host, struct err *e);
int engine_create_limits(struct engine_create *c, const json_t *host, struct err *e);

/* The answer to aliases on bridge, host or none. */
#define ENGINE_NO_ALIAS "network-scoped alias is supported only for containers in user defined networks"

/* Of the words of a create: whether berth update takes it, too. */
int engine_is_live(const char *word);

/* Adds a word; the text is made as by printf. */
int engine_word(struct engine_create *c, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int engine_warn(struct engine_create *c, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Members of obj that are not in known (a NULL-terminated list) and have a value. */
int engine_note_unknown(struct engine_create *c, const json_t *obj, const char *const *known,
			const char *where, struct err *e);

/*
 * Gives members of a client's document the names of known (a NULL-terminated list) where they differ
 * in the case of letters alone: so does Go read JSON, and clients rely on it.
 */
int engine_fold(json_t *obj, const char *const *known, struct err *e);

/* The getters of json.h for a client's document: ERR_INVALID for a wrong type. */
int engine_str(const json_t *obj, const char *key, const char **ret, struct err *e);
int engine_int(const json_t *obj, const char *key, json_int_t *ret, struct err *e);
int engine_flag(const json_t *obj, const char *key, int *ret, struct err *e);
/* Borrowed; NULL where it is absent or null. */
int engine_arr(const json_t *obj, const char *key, json_t **ret, struct err *e);
int engine_obj(const json_t *obj, const char *key, json_t **ret, struct err *e);
/* "USER,GROUP,..." as berth takes a user with further groups: a new string, or NULL with e. */
json_t *engine_user_groups(const char *user, const json_t *groups, struct err *e);
/* The i-th of an array of strings, or NULL with e. */
const char *engine_item(const json_t *list, size_t i, const char *key, struct err *e);

/*
 * rules - what Docker grants for the asking, and berth only where [docker] allow says so.
 *
 * Pure but for the kind of a bind's source, which the caller finds out.
 */

enum engine_allow {
	ENGINE_PRIVILEGED = 1,	 /* --privileged: every capability of its own user namespace */
	ENGINE_HOST_NETWORK = 2, /* --network host */
	ENGINE_UNCONFINED = 4,	 /* --security-opt seccomp=unconfined */
	ENGINE_SYSTEM_BINDS = 8, /* binds of any place, such as / and /etc */
	ENGINE_DEVICES = 32,	 /* --device, --gpus */
	ENGINE_PUBLIC_SUBNETS = 64, /* networks whose members have addresses that are others' outside */
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
	int unrouted; /* the host forwards nothing, and berth may not switch that on */
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

/* address - addresses that a client chooses, as options of berth.  Pure. */

/*
 * The addresses that an EndpointConfig asks for are added to ret_list, which may be NULL: 1 if there are any, else 0.
 * ERR_UNSUPPORTED for link-local ones.
 */
int engine_address_endpoint(const json_t *end, json_t *ret_list, struct err *e);
/* An item of IPAM.Config of a new network, as options of the call that makes it. */
int engine_address_pool(const json_t *pool, json_t *call, struct err *e);

/* exec - the body of POST /containers/{id}/exec as a request to a keeper.  Pure. */

#define ENGINE_EXEC_GROUPS "berth.groups" /* in the body: further groups of its User */

/* ERR_INVALID for a body that is wrong; its members get Docker's names (engine_fold()). */
int engine_exec_check(json_t *body, struct err *e);
/* A detached command that its client follows, or nobody; a new reference. */
json_t *engine_exec_request(const json_t *body);

#endif
