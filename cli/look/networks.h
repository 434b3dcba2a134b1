/* SPDX-License-Identifier: Apache-2.0 */
/* networks - networks that have a name, for berth network ls and inspect. */
#ifndef BERTH_CLI_LOOK_NETWORKS_H
#define BERTH_CLI_LOOK_NETWORKS_H

#include "cli/live/sandbox_open.h"

/* Every record with "members", or tenant's (not ""): a new reference, or NULL. */
json_t *networks_list(struct registry *r, const char *tenant, struct err *e);
/* One of them; ERR_NOT_FOUND. */
json_t *networks_find(struct registry *r, const char *name, struct err *e);
/* The directory of a network: its log is in there. */
int networks_dir(struct registry *r, const char *name, struct err *e);
void networks_print(const json_t *list);
/* The row of --tenant, and its value: ERR_INVALID. */
#define NETWORKS_TENANT(id) { "tenant", 0, OPT_VALUE, "NAME", "as this tenant of berthd", id }
int networks_set_tenant(const char **ret, const char *value, struct err *e);

#endif
