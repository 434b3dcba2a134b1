/* SPDX-License-Identifier: Apache-2.0 */
/* resident_options - reads the options in the spec.json of a sandbox that lives. */
#ifndef BERTH_CLI_LIVE_RESIDENT_OPTIONS_H
#define BERTH_CLI_LIVE_RESIDENT_OPTIONS_H

#include "base/json.h"
#include "manager/ops/runopts.h"

#define SPEC_FILE "spec.json"

/* Reads the options of spec, which must outlive o.  ERR_CORRUPT for one that this berth does not know. */
int resident_apply(struct runopts *o, const json_t *spec, struct err *e);

/* Whether a spec.json is that of a sandbox with a main command. */
int resident_is_service(const json_t *spec);

/* TIME of --idle-timeout and --ttl. */
int resident_time(const char *name, const char *value, uint64_t *ret_ms, struct err *e);

/* Whether a sandbox of that spec can be held to its budget: ERR_INVALID, ERR_UNSUPPORTED. */
int resident_check_budget(const struct livebudget *b, const struct spec *s, struct err *e);

/* Whether lines, each NAME or NAME=VALUE, are options that create takes, of which it is not given the name: ERR_CONFIG. */
int resident_check_options(const struct config *c, const char *lines, const char *what, struct err *e);
/*
 * Checks the part of a configuration that only making a sandbox can show to be wrong: the
 * seccomp profile. ERR_CONFIG.
 */
int resident_check_config(const struct config *c, struct err *e);

/* The limits of time: each command's own, or none that would not hold: ERR_INVALID. */
int resident_settle_time(struct runopts *o, struct err *e);

#endif
