/* SPDX-License-Identifier: Apache-2.0 */
/* specjson - what was asked for a sandbox, as JSON for berth inspect and records. */
#ifndef BERTH_CLI_RUN_SPECJSON_H
#define BERTH_CLI_RUN_SPECJSON_H

#include "base/json.h"
#include "manager/ops/runopts.h"

/* v, or "unlimited" */
json_t *specjson_limit(uint64_t v);
json_t *specjson_strings(const char *const *v, size_t n);
/*
 * {limits, timeouts, mounts, network, env, user, workdir, hostname, read_only, seccomp}, a new reference; NULL when memory runs out
 * or a text is not UTF-8.  Of the environment the names only: values may be secrets, and whoever may read a record need not know them.
 */
json_t *specjson_describe(const struct spec *s);
/* In a description, or NULL: the disks and devices by the names that o was given. */
void specjson_asked(json_t *described, const struct runopts *o);

#endif
