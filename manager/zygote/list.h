/* SPDX-License-Identifier: Apache-2.0 */
/* list - the zygotes of this host. */
#ifndef BERTH_MANAGER_ZYGOTE_LIST_H
#define BERTH_MANAGER_ZYGOTE_LIST_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"

/*
 * One zygote, as `berth zygote inspect` prints it: id, name, image, created, interpreter, mode
 * ("fork", "ahead"), preload, pool, forks, the pid of what is forked, options, seccomp, and
 * "alive", the ids of its living forks.  NULL with an error: it is no zygote, or has ended.
 */
json_t *zygote_describe(struct registry *r, const char *id, struct err *e);
/* All of them, an array; NULL with an error. */
json_t *zygote_list(struct registry *r, struct err *e);

#endif
