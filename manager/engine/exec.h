/* SPDX-License-Identifier: Apache-2.0 */
/* exec - the body of POST /containers/{id}/exec as a request to a keeper.  Pure. */
#ifndef BERTH_MANAGER_ENGINE_EXEC_H
#define BERTH_MANAGER_ENGINE_EXEC_H

#include "base/err.h"
#include "base/json.h"

#define ENGINE_EXEC_GROUPS "berth.groups" /* in the body: further groups of its User */

/* ERR_INVALID for a body that is wrong; its members get Docker's names (engine_fold()). */
int engine_exec_check(json_t *body, struct err *e);
/* A detached command that its client follows, or nobody; a new reference. */
json_t *engine_exec_request(const json_t *body);

#endif
