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

#include "base/err.h"
#include "base/json.h"
#include "manager/engine/name.h"
#include "manager/engine/rules.h"


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

#endif
