/* SPDX-License-Identifier: Apache-2.0 */
/* volume_users - which sandboxes have which volumes: those that run, and those that are stopped
 * and would have them again. */
#ifndef BERTH_MANAGER_HOST_VOLUME_USERS_H
#define BERTH_MANAGER_HOST_VOLUME_USERS_H

#include "manager/host/registry.h"

/* {KEY: [{"id", "name", "status"}, ...]} of all volumes that have users: a new reference. */
json_t *volume_users(struct registry *r, struct err *e);
/* ERR_BUSY, naming a sandbox, when one has the volume. */
int volume_users_check(struct registry *r, const char *key, struct err *e);

#endif
