/* SPDX-License-Identifier: Apache-2.0 */
/* system - the engine itself and its host, as GET /version and GET /info say them. */
#ifndef BERTH_MANAGER_ENGINE_SYSTEM_H
#define BERTH_MANAGER_ENGINE_SYSTEM_H

#include "base/json.h"
#include "manager/host/registry.h"

#define ENGINE_API "1.44"
#define ENGINE_API_MIN "1.24"
#define ENGINE_SAID_VERSION "25.0.0" /* of the Docker whose API this is: clients compare it */

/* New references. */
json_t *engine_version(void);
json_t *engine_info(struct registry *r, struct err *e);

#endif
