/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daytona_create - the body of Daytona's create as a request to the manager.
 *
 * Pure.  What berth does not do is refused: a sandbox with less of a guard than was asked for is
 * worse than none.
 */
#ifndef BERTH_MANAGER_API_DAYTONA_CREATE_H
#define BERTH_MANAGER_API_DAYTONA_CREATE_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/config.h"

struct daytona_create {
	json_t *args;	/* of service_create() */
	json_t *own;	/* options that the door adds: the mark of its face, its network */
	const char *dockerfile;	/* of body: what its image must be built of, or NULL */
	char built[40];	/* the name of that image: the same for the same text */
};
#define DAYTONA_ARCHIVE_MAX (30 * 1440)	/* minutes; what autoArchiveInterval 0 means */

/* is_admin: of the asker. ERR_INVALID, ERR_UNSUPPORTED, ERR_DENIED; then there is nothing to release. */
int daytona_create_read(struct daytona_create *c, const json_t *body, const struct config *config, int is_admin, struct err *e);
/* A tenant's sandbox stops no later than [manager] idle_timeout says: ERR_DENIED. */
int daytona_stop_check(json_int_t seconds, const struct config *config, int is_admin, struct err *e);
void daytona_create_release(struct daytona_create *c);

/* The manager's names of the intervals, as of service_intervals(). */
enum daytona_interval { DAYTONA_STOP, DAYTONA_ARCHIVE, DAYTONA_DELETE, DAYTONA_INTERVALS };
extern const char *const daytona_interval_names[DAYTONA_INTERVALS];
/* Minutes as Daytona means them, in the manager's seconds. ERR_INVALID. */
int daytona_interval_seconds(enum daytona_interval which, json_int_t minutes, json_int_t *ret, struct err *e);
/*
 * What networkBlockAll, networkAllowList and domainAllowList ask for, as allow_internet_access and network of E2B's
 * create: a new reference, or NULL with ERR_INVALID or ERR_LIMIT.
 */
json_t *daytona_network(const json_t *body, struct err *e);
extern const char *const daytona_network_members[];	/* the last is NULL */
/* Labels: an object of strings, within the bounds of labels.h. ERR_INVALID, ERR_LIMIT. */
int daytona_labels_check(const json_t *labels, struct err *e);
/*
 * The image that a Dockerfile of one FROM names, in ret: 1; 0: it has more instructions, so it must be built.
 * ERR_INVALID without a FROM.
 */
int daytona_from(const char *dockerfile, char ret[512], struct err *e);

#endif
