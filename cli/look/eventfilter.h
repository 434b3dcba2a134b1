/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eventfilter - which events berth events --filter shows.
 *
 * An event tells its sandbox's id only.  The name, image and labels of the sandbox come from its
 * record while it is there, and else from its event "create", which is read before the others.
 */
#ifndef BERTH_CLI_LOOK_EVENTFILTER_H
#define BERTH_CLI_LOOK_EVENTFILTER_H

#include "manager/host/filter.h"
#include "manager/host/registry.h"

struct eventfilter {
	struct filter filter;
	json_t *known; /* id -> {"name", "image", "labels"}; NULL: none yet */
};

extern const struct filter_key eventfilter_keys[];

/* Whether entry is wanted; without a filter everything is. */
int eventfilter_wants(struct eventfilter *f, struct registry *r, const json_t *entry);
void eventfilter_release(struct eventfilter *f);

#endif
