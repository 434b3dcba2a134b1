/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settleopt - options that are kept for a later start, when the caller has gone.
 *
 * An option that depends on the caller (its directory, its environment) gets its value now.
 */
#ifndef BERTH_MANAGER_OPS_SETTLEOPT_H
#define BERTH_MANAGER_OPS_SETTLEOPT_H

#include "base/err.h"
#include "base/json.h"

/* The value to keep of option id, an enum runopts_id or resident_id; NULL: value itself. */
int settleopt(int id, const char *value, char **ret, struct err *e);
/*
 * The text of the file that --seccomp names, in place of *ret; NULL if path names a profile.  A
 * start long after, when the file may have changed or gone, has the same filter.
 */
int settleopt_seccomp(const char *path, json_t **ret, struct err *e);

#endif
