/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netmerge - changes of the rules of a network or a sandbox: pure.
 *
 * A policy and its changes are objects with the keys of netpolicy.h.
 */
#ifndef BERTH_MANAGER_HOST_NETMERGE_H
#define BERTH_MANAGER_HOST_NETMERGE_H

#include "base/err.h"
#include "base/json.h"

/* Whether changes has any. */
int netmerge_wanted(const json_t *changes);
/*
 * What is allowed now is denied no more, and the other way round; a budget replaces the old one.
 * With "reset_rules" the changes take the place of all hosts and denied ranges of before.
 */
int netmerge(json_t *policy, const json_t *changes, struct err *e);

#endif
