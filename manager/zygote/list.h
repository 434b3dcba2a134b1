/* SPDX-License-Identifier: Apache-2.0 */
/* list - the zygotes of this host. */
#ifndef BERTH_MANAGER_ZYGOTE_LIST_H
#define BERTH_MANAGER_ZYGOTE_LIST_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"
#include "manager/host/tenant.h"

/*
 * One zygote, as `berth zygote inspect` prints it: id, name, image, created, interpreter, mode
 * ("fork", "ahead"), preload, pool, forks, the pid of what is forked, options, seccomp, and
 * "alive", the ids of its living forks.  NULL with an error: it is no zygote, or has ended.
 */
json_t *zygote_describe(struct registry *r, const char *id, struct err *e);
/* All of them, an array; NULL with an error. */
json_t *zygote_list(struct registry *r, struct err *e);

/* ---- which tenant they belong to ---- */

/* Which tenant of berthd a zygote belongs to, and how many a tenant has. */

/*
 * Writes down, beside a zygote that was just claimed, that it is t's and may have so many forks.
 * ERR_LIMIT when t has its zygotes, or these with all others would have more forks than t may
 * have.  Takes the registry's lock, so that the count is exact.
 */
int zygote_own(struct registry *r, const struct claim *c, const struct tenant *t, unsigned forks,
	       struct err *e);
/*
 * 1 if the word ref, which led to the zygote of that id, may mean it for an operator: a tenant's is
 * the operator's by its id only.  Else a tenant could take the name of a zygote that has ended, and
 * with it the code that is meant for that one.
 */
int zygote_is_meant(struct registry *r, const char *ref, const char *id);
/* 1 if the sandbox of that id is a zygote that lives, and the tenant's; tenant NULL: anybody's. */
int zygote_is_of(struct registry *r, const char *id, const char *tenant);
/* The name of the tenant whose it is, a new string of JSON; NULL: it is nobody's. */
json_t *zygote_owner(struct registry *r, const char *id);

#endif
