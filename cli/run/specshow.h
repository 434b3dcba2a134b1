/* SPDX-License-Identifier: Apache-2.0 */
/*
 * specshow - what was asked for a sandbox, for a reader: as JSON for berth inspect and records, as the
 * plan of --dry-run, and what the kernel says of it for --attest.
 */
#ifndef BERTH_CLI_RUN_SPECSHOW_H
#define BERTH_CLI_RUN_SPECSHOW_H

#include "base/json.h"
#include "manager/ops/runopts.h"
#include "runtime/sandbox/launch.h"
#include "runtime/sandbox/spec.h"

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

/* ---- the plan ---- */

/* plan - what --dry-run prints: mounts, limits, capabilities, filters, command. */

int plan_print(const struct spec *s, const char *image, int as_json, struct err *e);

/* ---- the attestation ---- */

/* attestation - --attest of berth run. */

/* Prints on stderr what the kernel reports of a launched sandbox, before its command starts. */
int attestation_print(struct sandbox *sb, struct err *e);

#endif
