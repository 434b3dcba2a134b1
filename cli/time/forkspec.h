/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forkspec - what a fork is made with: the options of the first sandbox, and those that the
 * command line of berth fork puts in their place.  Pure, but for the environment of --env NAME.
 */
#ifndef BERTH_CLI_TIME_FORKSPEC_H
#define BERTH_CLI_TIME_FORKSPEC_H

#include "manager/ops/params.h"

/* Adds an option of PARAM_OF_FORK to more, an array of [NAME, VALUE]. */
int forkspec_add(json_t *more, int id, const char *value, struct err *e);
/*
 * The spec.json of a fork: a new object, or NULL with e.  Labels, variables and volumes of more
 * come after those of spec; an option of one value replaces spec's; a rule of the network replaces
 * all of spec's rules, and --network its ports, too.
 */
json_t *forkspec_of(const json_t *spec, const json_t *more, struct err *e);

#endif
