/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resident - create and start sandboxes that live in a keeper.
 *
 * What a sandbox is stands in its spec.json as the options it was created with,
 * by name, so that a later start (after a reboot, too) reads them exactly as the
 * command line was read.
 */
#ifndef BERTH_CLI_RESIDENT_H
#define BERTH_CLI_RESIDENT_H

#include "cli/command.h"
#include "cli/sandbox_open.h"

/* The options that make a sandbox, shared by create and the reading of spec.json. */
extern const struct opt resident_options[];
extern const size_t resident_option_count;

/* spec: {"version":1,"image":REF,"options":[[NAME,VALUE],...],"created":...}. name may be "". */
int resident_create(struct registry *r, const char *name, json_t *spec, char ret_id[65], struct err *e);

#endif
