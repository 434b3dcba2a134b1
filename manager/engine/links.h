/* SPDX-License-Identifier: Apache-2.0 */
/*
 * links - the names that containers on the default bridge have for each other.
 *
 * A link is kept by its ids, so it follows a rename on either side: the file of the container that
 * has the link names its target and the alias, and that of the target names who links to it. Each
 * side is checked where it is read, as the other may have been removed.
 */
#ifndef BERTH_MANAGER_ENGINE_LINKS_H
#define BERTH_MANAGER_ENGINE_LINKS_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"

#define ENGINE_LINKED_MAX 64

/*
 * HostConfig.Links of a body as a new array of {"id", "alias", "env": [...]}; env is the target's
 * own environment. ERR_INVALID in Docker's words for a container that is not there, and for what
 * is no link.
 */
json_t *engine_links_read(struct registry *r, const json_t *body, struct err *e);
/* Tells each target of links, an array of {"id","alias"}, that the container id links to it. */
int engine_links_tell(struct registry *r, const char *id, const json_t *links, struct err *e);
/* "/TARGET:/NAME/ALIAS" for each link of asked, the file of the container NAME; NULL without links. */
json_t *engine_links_shown(struct registry *r, const json_t *asked, const char *name);
/* "/NAME/ALIAS" for each container that links to the one of asked; NULL without one. */
json_t *engine_links_names(struct registry *r, const char *id, const json_t *asked);
/* The target of the container id's link: ERR_NOT_FOUND in Docker's words. */
int engine_links_find(struct registry *r, const char *id, const char *alias, char ret_id[65], int *ret_kept, struct err *e);
/* Forgets the link; its containers stay. ERR_NOT_FOUND in Docker's words. */
int engine_links_remove(struct registry *r, const char *id, const char *alias, struct err *e);

#endif
