/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host - what the engine needs from this host, for either door: binds, ports, images, and the
 * files written beside a sandbox when it is made.
 */
#ifndef BERTH_MANAGER_ENGINE_HOST_H
#define BERTH_MANAGER_ENGINE_HOST_H

#include "manager/engine/create.h"
#include "manager/host/registry.h"

/*
 * The container that a client calls ref: by its whole id, its name, or the start of an id.
 * ERR_NOT_FOUND; ERR_INVALID for the start of more than one id.
 */
int engine_host_find(struct registry *r, const char *ref, char ret_id[65], int *ret_kept,
		     struct err *e);
/* Whether an image of the store is for this platform, NULL and "" for any: ERR_NOT_FOUND in Docker's words. */
int engine_host_platform(const struct config *c, const char *image, const char *wanted, struct err *e);
/* registry_rename() to a name of Docker's, which a valid one is. */
int engine_host_rename(struct registry *r, const char *id, const char *name, struct err *e);
/* The bits of [docker] allow: its words, one a line, which config.c has checked. */
unsigned engine_host_allow(const char *lines);
/* The allowed binds, with berth's own directories, which are c's. */
void engine_host_rules(const struct config *c, unsigned allow, const char *binds, struct engine_rules *ret);
/*
 * Docker says which image is missing before anything else, and clients then pull it:
 * ERR_NOT_FOUND in its words; ERR_INVALID for a path, which is not an image of Docker's.
 */
int engine_host_image(const struct config *c, const char *image, struct err *e);
/* Makes the sources of binds that are not there, as docker run -v does. */
int engine_host_directories(const json_t *list, struct err *e);
/*
 * The client's document, which lies beside the record: a new reference, or NULL. A create writes it
 * before the record, with which it becomes durable (--asked).
 */
json_t *engine_host_asked(const struct engine_create *c, json_t *body, struct err *e);
/* Writes the document, and which volumes are its own, beside a sandbox that has no record yet. */
int engine_host_write(struct registry *r, const char *id, const struct engine_create *c,
		      json_t *body, struct err *e);
/*
 * Writes which volumes are its own, beside a sandbox that is made. Nobody would remove them else,
 * so on failure the sandbox is removed.
 */
int engine_host_own(struct registry *r, const char *id, const struct engine_create *c,
		    const json_t *body, struct err *e);
/*
 * Writes the document again after an update of HostConfig's members, in body; a sandbox made by berth has no such
 * file.
 */
int engine_host_save_update(struct registry *r, const char *id, const json_t *body, struct err *e);
/* -1 with ERR_EXISTS, in Docker's words; 0 when nothing has the name any more, so that it can be taken. */
int engine_host_name_taken(struct registry *r, const char *name, struct err *e);
/* All the CPU time of the host until now, in ns. */
uint64_t engine_host_cpu(void);

#endif
